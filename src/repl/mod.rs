//! The event loop: one thread, one poll, and components over a [`Core`] that they are lent.
//!
//! [`Repl::turn`] in `turn.rs` lists the steps of a turn. Read it first, then `effects.rs` (what agents cause),
//! `apply.rs` (what commands change) and `component.rs` (the interface of components).

mod api;
mod apply;
mod attached;
mod background;
mod compare;
mod component;
#[cfg(feature = "coordinator")]
mod coordinator;
mod core;
mod dispatcher;
mod editor;
mod effects;
mod event;
mod external;
mod fallback;
mod input;
mod jobs;
mod json;
mod learned;
mod limits;
mod mail_waits;
mod mcp;
mod notify_hooks;
mod objections;
mod offers;
mod openings;
mod pasting;
mod probe;
mod proxy;
mod queue;
mod queue_edits;
mod record;
mod requests;
mod restored;
mod retention;
mod rules;
mod search_index;
mod server;
mod shell;
mod shutdown;
mod staged;
mod start;
mod steer;
mod stop;
mod terminals;
mod timeout;
mod tool_requests;
mod trace;
mod turn;
mod user_tools;
mod viewers;
mod watch;
mod web_fetches;

use crate::base::clock::Moment;
use crate::domain::scrollback::LineKind;
use crate::reactor::Signals;
pub use api::AgentSummary;
pub(crate) use background::{GOES_ON, Waiting};
pub use component::Turn;
#[cfg(feature = "coordinator")]
pub use coordinator::RunId;
pub(crate) use mcp::ServerReport;
pub(crate) use openings::WayBack;
pub use probe::Probe;
pub use terminals::{Device, RemoteTerminal, Terminal, TerminalMode, TerminalRequest};
pub use timeout::{Timeout, WakeReason};
pub use viewers::OnChunks;

use component::Component;
use core::Core;
use dispatcher::Dispatcher;
use external::ExternalDescriptors;
use jobs::Jobs;
use mail_waits::MailWaits;
use mcp::Mcp;
use notify_hooks::NotifyHooks;
use objections::Objections;
use proxy::Proxy;
use record::Record;
use search_index::SearchIndex;
use server::Server;
use shell::ShellCommands;
use terminals::Terminals;
use trace::Trace;
use user_tools::UserTools;
use viewers::Callbacks;
use web_fetches::WebFetches;

/// The event loop with all agents.
pub struct Repl {
    core: Core,
    dispatcher: Dispatcher,
    jobs: Jobs,
    mail_waits: MailWaits,
    mcp: Mcp,
    notify_hooks: NotifyHooks,
    objections: Objections,
    proxy: Proxy,
    #[cfg(feature = "coordinator")]
    coordinator: coordinator::Coordinator,
    shell: ShellCommands,
    search_index: SearchIndex,
    user_tools: UserTools,
    web_fetches: WebFetches,
    retention: retention::Retention,
    terminals: Terminals,
    /// Dropped after the store in `core`: a client that reads to the end of its connection knows that the store is free.
    server: Server,
    signals: Option<Signals>,
    /// The messages at the start.
    welcome: Vec<(LineKind, String)>,
    /// The process that waits for this one, until the chat continues without it.
    waiting: Option<Waiting>,
    /// How to come back to what the terminal of this process showed, once the loop has ended.
    way_back: Option<WayBack>,
    /// The editor of a draft, while it runs.
    editor: Option<editor::OpenEditor>,
    /// The image in the clipboard, while it is read.
    paste: Option<pasting::OpenPaste>,
    trace: Trace,
    record: Record,
    callbacks: Callbacks,
    external: ExternalDescriptors,
    end: shutdown::End,
    tools_polled_at: Moment,
}

const COMPONENTS: usize = if cfg!(feature = "coordinator") { 14 } else { 13 };

impl Repl {
    /// The core, every component, in the order in which they get events and are stepped, and the trace.
    fn split(&mut self) -> (&mut Core, [&mut dyn Component; COMPONENTS], &mut Trace) {
        let Self {
            core,
            dispatcher,
            jobs,
            mail_waits,
            mcp,
            notify_hooks,
            objections,
            proxy,
            #[cfg(feature = "coordinator")]
            coordinator,
            shell,
            search_index,
            user_tools,
            web_fetches,
            terminals,
            server,
            trace,
            ..
        } = self;
        let components: [&mut dyn Component; COMPONENTS] = [
            dispatcher,
            jobs,
            mail_waits,
            mcp,
            notify_hooks,
            objections,
            proxy,
            #[cfg(feature = "coordinator")]
            coordinator,
            shell,
            search_index,
            user_tools,
            web_fetches,
            terminals,
            server,
        ];
        (core, components, trace)
    }
}
