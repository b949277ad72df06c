//! What the program has beyond its core: the table of contents, with a folder and a row for each feature.
//!
//! Nothing imports a feature but its row. The modules below read the table and know none of its rows (`tests/layers.rs`):
//! without the folder and the row, the program is built without the feature.

mod done;
#[cfg(feature = "hosts")]
mod hosts;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
mod notify_hooks;
mod prompt_hooks;
mod radar;
mod review;
mod search_index;
mod shell_commands;
mod user_tools;
#[cfg(feature = "web-fetch")]
mod web_fetch;

use std::process::ExitCode;

use crate::base::id::AgentId;
use crate::commands::CommandSpec;
use crate::domain::change::ViewName;
use crate::repl::component::Component;
use crate::repl::terminals::views::ViewContent;
use crate::tools::ToolSpec;

/// What a feature adds to the program.
pub struct Feature {
    /// The same as its Cargo feature, if it has one.
    pub name: &'static str,
    pub commands: &'static [&'static CommandSpec],
    /// Tools for models. Each is a command, or a call that the component carries out.
    pub tools: &'static [&'static ToolSpec],
    pub views: &'static [ViewSpec],
    /// Its part of the reference: a name, what it is about, and the text.
    pub topic: Option<(&'static str, &'static str, &'static str)>,
    /// Makes its component.
    pub component: Option<fn() -> Box<dyn Component>>,
    pub helper: Option<Helper>,
}

/// A view that a terminal shows in place of a conversation.
pub struct ViewSpec {
    pub name: ViewName,
    /// About this agent.
    pub open: fn(AgentId) -> Box<dyn ViewContent>,
}

/// A mode in which the program helps another of its processes.
pub struct Helper {
    /// The first argument that selects it.
    pub flag: &'static str,
    pub main: fn() -> ExitCode,
}

impl Feature {
    const fn new(name: &'static str) -> Self {
        Self { name, commands: &[], tools: &[], views: &[], topic: None, component: None, helper: None }
    }
}

/// All features that are built in, in the order in which their components get events and are stepped.
pub const FEATURES: &[Feature] = &[
    // Hooks that hear of a session or a message before the model does.
    prompt_hooks::FEATURE,
    // Programs of the person as tools: their schemas, read before the first request.
    user_tools::FEATURE,
    // Hooks that hear when an agent asks, is idle or has finished.
    notify_hooks::FEATURE,
    // Commands that a person runs with `!`.
    shell_commands::FEATURE,
    // A command that says whether an agent is done.
    done::FEATURE,
    // Which worktrees conflict with each other.
    radar::FEATURE,
    // What agents have changed: a view to read, comment and land it.
    review::FEATURE,
    // The full-text index of conversations, kept between turns.
    search_index::FEATURE,
    // Pages of the web, as text for models.
    #[cfg(feature = "web-fetch")]
    web_fetch::FEATURE,
    // Other agent programs as models.
    #[cfg(feature = "hosts")]
    hosts::FEATURE,
    // Tools, resources and prompts of servers of the Model Context Protocol.
    #[cfg(feature = "mcp")]
    mcp::FEATURE,
];
