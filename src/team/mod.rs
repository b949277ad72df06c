//! Many agents: who there is, how they come to be, and which of them need to be looked at.

pub mod coordinator;
mod environments;
mod factory;
mod instructions;
mod limiter;
mod roster;
mod send_queue;
mod viewers;

pub use environments::{Environments, Resolution, ResolvedEnvironment};
pub use factory::AgentFactory;
pub use limiter::{Gate, Limiter};
pub use roster::{NoSuchAgent, Roster};
pub use viewers::{ViewerId, ViewerOutput, Viewers};
