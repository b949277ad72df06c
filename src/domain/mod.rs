//! Plain data shared by the layers above. Nothing here does I/O.

pub mod agent_host;
pub mod approval;
pub mod attachment;
pub mod call_title;
pub mod called;
pub mod change;
pub mod chosen_model;
// For the wire and the start only.
#[allow(missing_docs)]
pub mod choices;
pub mod chunk;
#[allow(missing_docs)]
pub mod compaction;
pub mod compare;
pub mod config;
#[allow(missing_docs)]
pub mod context_use;
pub mod custom;
// Exported by `testing` only, as everything below that allows `missing_docs`.
pub mod definition;
pub mod diff;
#[allow(missing_docs)]
pub mod display;
#[allow(missing_docs)]
pub mod draft;
pub mod drafts;
pub mod elicitation;
pub mod endpoint;
pub mod environment;
pub mod file_change;
pub mod flow;
#[allow(missing_docs)]
pub mod frame;
#[allow(missing_docs)]
pub mod front_matter;
#[allow(missing_docs)]
pub mod history;
pub mod hook;
pub mod host;
#[allow(missing_docs)]
pub mod http;
pub mod instructions;
#[allow(missing_docs)]
pub mod key;
#[allow(missing_docs)]
pub mod keymap;
#[allow(missing_docs)]
pub mod limits;
pub mod mail;
pub mod mcp;
#[allow(missing_docs)]
pub mod message;
#[allow(missing_docs)]
pub mod models;
pub mod parameters;
pub mod places;
pub(crate) mod project_rules;
pub mod readiness;
pub mod reasoning;
pub mod remote_place;
pub mod rule;
pub mod sandbox;
#[allow(missing_docs)]
pub mod scrollback;
pub mod search;
pub mod skill;
pub mod slice;
pub mod stream;
#[allow(missing_docs)]
pub mod theme;
pub mod thinking;
pub mod timeline;
pub mod title;
pub mod todo;
pub mod tool;
pub mod tool_schema;
#[allow(missing_docs)]
pub mod trace;
pub mod user_tool;
#[cfg(any(feature = "mcp", feature = "web-fetch"))]
pub mod web_url;
#[allow(missing_docs)]
pub mod wire;
