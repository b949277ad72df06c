//! The database: agents, their messages, mail, queues, drafts and runs.
//!
//! Only this module uses SQLite. It stores and returns plain data; what a history means (marks, rewinds) is decided by
//! `domain::history`, what an agent does by the layers above. There is one file, `polylogue.db`, held by one process at
//! a time. Every change is one transaction: after a crash or an error either all of it is stored or nothing.
//!
//! ```text
//!   agents    ordinal 0 (the root) <--parent_uuid-- 1 <--parent_uuid-- 2 ...       rows go with `delete` only
//!   messages  id 1 2 3 4 5 ...     one order over all agents, indexed by (agent, id)
//!   partials  pieces of replies that are still streaming; empty when no agent streams
//!   runs      tasks of several agents and their outcomes
//!   limits    what was set for a tree of agents; `spent`: what its agents used
//!   file_steps, file_changes    what tool calls and undos changed in files
//!   comparisons, compared  prompts that several agents answer, and who does
//!   last_shown  the agent that a terminal showed last, for each directory
//!   queue     waiting texts and commands; a text gets its id in `messages` when it enters the conversation
//! ```
//!
//! The files of this module depend on each other in this order, and never the other way round:
//!
//! ```text
//!   error
//!   lock  schema  row
//!   connection          opening the database file
//!   wal  checkpoint     the log as a file, and copying it into the database
//!   copy  sync          the threads that make commits durable and copy the log
//!   database            the open store and its transactions
//!   ids  numbers        uuid -> ordinal, and the numbers that people see
//!   comparisons  drafts  file_steps  inputs  last_shown  learned  registry  usage  mail  limits  replay
//!   log  queue  conversations
//!   agents  archive  delete
//!   begun  runs  slice
//!   recover  health  search
//! ```

mod agents;
mod archive;
mod attachments;
mod begun;
mod checkpoint;
mod comparisons;
mod connection;
mod conversations;
mod copy;
mod database;
mod delete;
mod drafts;
mod error;
mod file_steps;
mod health;
mod ids;
mod inputs;
mod kills;
mod last_shown;
mod learned;
mod limits;
mod lock;
mod log;
mod mail;
mod meta;
mod numbers;
mod queue;
mod recover;
mod registry;
mod replay;
mod row;
#[cfg(feature = "coordinator")]
mod runs;
mod schema;
mod search;
mod slice;
mod sync;
mod usage;
mod wal;

pub use agents::{Forked, NewAgent};
pub(crate) use attachments::DraftFile;
pub(crate) use begun::NewConversation;
pub use checkpoint::SyncStep;
pub(crate) use conversations::Conversation;
pub use database::Store;
pub use health::health;
pub use inputs::InputRow;
pub(crate) use kills::BegunKill;
pub(crate) use learned::{LearnedContext, Told};
pub use limits::{StoredLimits, StoredSpent};
pub use lock::{holder, make_directory, private_file};
pub use queue::{QueueId, QueuedRow, input_line, typed_line};
pub use recover::{AskingTurn, NO_RESULT};
pub use registry::AgentRow;
#[cfg(feature = "coordinator")]
pub use runs::{NewRun, RunRow};
pub use search::SearchHit;
pub(crate) use sync::Durability;
pub use usage::UsageTotal;
