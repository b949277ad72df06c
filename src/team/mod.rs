//! Many agents: the roster, how agents are created, environments, rate limits, and tasks for several agents.

#[cfg(feature = "coordinator")]
pub mod coordinator;
mod environments;
mod factory;
mod instructions;
mod pace;
mod reached;
mod request_limits;
mod roster;
mod send_queue;
mod trees;
mod viewers;

pub use environments::{Environments, Resolution, ResolvedEnvironment};
pub use factory::AgentFactory;
pub use instructions::instruction_files;
pub use pace::Gate;
pub use reached::Reached;
pub use request_limits::RequestLimits;
pub use roster::{NoSuchAgent, Roster};
pub use send_queue::SendQueue;
pub use trees::{MINUTE, Trees, path as tree_path};
pub use viewers::{ViewerId, ViewerOutput, Viewers};
