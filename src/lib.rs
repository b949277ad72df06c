//! A terminal chat with many language-model agents: one thread and one poll loop for all of them.
//!
//! The program `polylogue` is a thin `main` over this library. A program of its own can run agents without a terminal:
//! it opens a [`Repl`], which owns the agents, and calls [`Repl::turn`] in a loop.
//!
//! # Example
//!
//! Everything that an agent does is reported in [`Chunk`]s. A viewer reads the chunks of one agent, each once and in
//! order. Without a data directory nothing is stored, and the default model repeats its input.
//!
//! ```
//! use polylogue::{Chunk, Clock, Config, Repl, Store};
//!
//! # fn main() -> polylogue::Result<()> {
//! let mut repl = Repl::open(Config::default(), Store::in_memory()?, Clock::system())?;
//! let mut viewers = Vec::new();
//! for name in ["ada", "grace"] {
//!     let agent = repl.create(Some(name), None)?;
//!     viewers.push((name, repl.attach(agent, None)?));
//!     repl.send(agent, &format!("hello from {name}"))?;
//!     repl.send(agent, "and again")?; // queued until the first message is answered
//! }
//! while repl.list().iter().any(|agent| !agent.status.is_at_rest()) {
//!     repl.turn(None)?;
//! }
//! let mut output = String::new();
//! for (name, viewer) in viewers {
//!     while repl.has_unread(viewer) {
//!         for numbered in repl.read(viewer, 100).chunks {
//!             match numbered.chunk {
//!                 Chunk::User(text) => output += &format!("\n> {text}\n{name}: "),
//!                 Chunk::Text(text) => output += &text,
//!                 _ => {} // status, usage, marks
//!             }
//!         }
//!     }
//! }
//! print!("{output}");
//! # assert_eq!(output, "\n> hello from ada\nada: hello from ada\n> and again\nada: and again\
//! #     \n> hello from grace\ngrace: hello from grace\n> and again\ngrace: and again");
//! # Ok(())
//! # }
//! ```
//!
//! # Reading the source
//!
//! Each module is a layer and imports only layers below it (`tests/layers.rs` checks this). From the top:
//!
//! | module | holds |
//! |---|---|
//! | `cli` | the command line and the configuration |
//! | `features` | what the program has beyond its core, a folder and a row each |
//! | `repl` | the loop and its components: terminals, the server, tool jobs, tasks for several agents |
//! | `commands` | one file for each slash command |
//! | `team` | all agents: the roster, rate limits, environments; `team::coordinator` schedules tasks |
//! | `agent` | one agent: its state, its turns, its view |
//! | `tools` | one file for each tool that models may call |
//! | `net`, `policy`, `provider`, `proxy`, `reactor`, `sandbox`, `socket`, `store`, `syntax`, `terminal` | adapters, each around one large dependency or the kernel; `policy`: what models may do |
//! | `domain` | plain data |
//! | `base` | ids, time, errors, text |
//!
//! Start with [`Repl::turn`].
//!
//! # Features
//!
//! `coordinator` (default) adds tasks for several agents, see `multi_agent`. `shell-grammar` (default) parses commands, so
//! that those that only read need no approval; without it every command asks. `syntax-colors` (default) colours code blocks.
//! `mcp` (default) adds tools of MCP servers. `web-fetch` (default) lets models read web pages. `tls-rustls` (default) and `tls-system` select the TLS library.

mod agent;
mod base;
#[allow(missing_docs)]
mod cli;
#[allow(missing_docs)]
mod commands;
mod domain;
#[allow(missing_docs)]
mod features;
#[allow(missing_docs)]
mod net;
mod policy;
#[allow(missing_docs)]
mod provider;
mod proxy;
mod reactor;
mod repl;
#[allow(missing_docs)]
mod replay;
#[allow(missing_docs)]
mod sandbox;
mod socket;
mod store;
mod syntax;
mod team;
#[allow(missing_docs)]
mod terminal;
#[doc(hidden)]
pub mod testing;
#[allow(missing_docs)]
mod tools;

pub use base::clock::Clock;
pub use base::error::{Error, ErrorKind, Result};
pub use base::id::AgentId;
#[doc(hidden)]
pub use cli::main;
pub use domain::change::{
    ArchiveAct, Change, Decision, FileJob, Fork, ForkPlace, HistoryEdit, MailAct, QueueEdit, Setting, Shown, TeamStart,
};
pub use domain::chunk::{Chunk, Numbered, Position, Status};
pub use domain::config::Config;
pub use domain::mail::MailId;
pub use domain::slice::SliceSpec;
pub use domain::stream::Usage;
pub use domain::tool::ToolResult;
pub use reactor::Signals;
pub use repl::{AgentSummary, OnChunks, Repl, Turn};
pub use socket::Listener;
pub use store::Store;
pub use team::{ViewerId, ViewerOutput};

/// The parts of a [`Config`].
pub mod config {
    pub use crate::domain::agent_host::AgentHost;
    pub use crate::domain::approval::Policy;
    pub use crate::domain::config::{DoneSettings, RetryPolicy, Settings, TeamSettings, WorktreeSettings};
    pub use crate::domain::custom::CustomCommand;
    pub use crate::domain::definition::AgentDefinition;
    pub use crate::domain::display::{Abilities, DisplaySettings, Notification, StatusField};
    pub use crate::domain::endpoint::{Catalog, Endpoint, ModelFacts, ModelSettings, Prices, ProviderEntry, Secret};
    pub use crate::domain::environment::{EnvironmentEntry, EnvironmentNames, EnvironmentSpec};
    pub use crate::domain::file_change::WorktreeExtras;
    pub use crate::domain::hook::{Hook, HookEvent, HookScript};
    pub use crate::domain::limits::{LimitName, LimitValue, TreeLimits};
    pub use crate::domain::mcp::{McpServer, McpTool, Transport as McpTransport};
    pub use crate::domain::parameters::{Parameter, ParameterName, Parameters, SetValue};
    pub use crate::domain::reasoning::SendReasoning;
    pub use crate::domain::rule::{Rule, Rules, Scope, Subject};
    pub use crate::domain::sandbox::{Network, SandboxSettings};
    pub use crate::domain::skill::{Author, Skill, SkillList};
    pub use crate::domain::theme::{Depth, Paint, ThemeSettings};
    pub use crate::domain::thinking::{Effort, Thinking};
    pub use crate::domain::user_tool::{FileIdentity, UserTool, UserToolEntry};
}

/// Tasks for several agents: the types of [`Repl::run_task`] and [`Repl::run_workflow`].
#[cfg(feature = "coordinator")]
pub mod multi_agent {
    pub use crate::repl::RunId;
    pub use crate::team::coordinator::event::{Event, EventKind};
    pub use crate::team::coordinator::member::Member;
    pub use crate::team::coordinator::outcome::{Outcome, RunStatus};
    pub use crate::team::coordinator::result::{MemberOutcome, MemberResult};
    pub use crate::team::coordinator::settings::{Aggregation, BreakerPolicy, Settings, Strategy};
    pub use crate::team::coordinator::template::Template;
    pub use crate::team::coordinator::workflow::{Workflow, WorkflowStep};
}
