//! Many agents: who there is, how they come to be, and which of them need to be looked at.

mod birth;
pub mod coordinator;
mod homes;
mod instructions;
mod limiter;
mod line;
mod roster;

pub use birth::Nursery;
pub use homes::{Home, Homes, Site};
pub use limiter::{Gate, Limiter};
pub use roster::{NoSuchAgent, Roster};
