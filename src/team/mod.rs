//! Many agents: the roster, how agents are created, environments, rate limits, and tasks for several agents.

mod agreement;
pub mod changes;
pub mod compare;
#[cfg(feature = "coordinator")]
pub mod coordinator;
mod environments;
mod factory;
mod inbox;
mod instructions;
mod pace;
mod places;
mod reached;
mod request_limits;
#[allow(missing_docs)]
mod roster;
mod send_queue;
mod shared_prefix;
mod trees;
pub mod undo;
mod viewers;

pub use agreement::agreement;
pub use environments::{Environments, Resolution, ResolvedEnvironment};
pub use factory::{AgentFactory, SCHEMA, SET};
pub use inbox::{InboxEntry, Need, UnseenEnd, inbox};
pub use instructions::{instruction_file, instruction_files};
pub use pace::{Gate, Refusal};
pub use places::{Branches, DirectoryNames, Places};
pub use reached::Reached;
pub use request_limits::RequestLimits;
pub use roster::Roster;
pub use send_queue::SendQueue;
pub use shared_prefix::{MIN_CACHED_BYTES, Prefix, is_still_cached};
pub use trees::{MINUTE, Money, Trees, busy_in_tree, is_in_tree, path as tree_path};
pub use viewers::{ViewerId, ViewerOutput, Viewers};
