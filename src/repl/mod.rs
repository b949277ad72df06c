//! The event loop: one thread, one poll, and components over a [`Core`] that they are lent.
//!
//! [`Repl::turn`] in `turn.rs` lists the steps of a turn. Read it first, then `effects.rs` (what agents cause),
//! `apply.rs` (what commands change) and `component.rs` (the interface of components).

mod api;
mod apply;
mod attached;
mod background;
mod compare;
pub(crate) mod component;
#[cfg(feature = "coordinator")]
mod coordinator;
pub(crate) mod core;
mod dispatcher;
mod editor;
mod effects;
pub(crate) mod event;
mod external;
mod input;
mod jobs;
mod json;
mod mail_waits;
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
mod server;
mod shutdown;
mod staged;
mod start;
mod steer;
mod stop;
pub(crate) mod terminals;
pub(crate) mod timeout;
mod tool_requests;
mod trace;
mod turn;
mod viewers;
mod watch;

use crate::domain::scrollback::LineKind;
use crate::features::FEATURES;
use crate::reactor::Signals;
pub use api::AgentSummary;
pub(crate) use background::{GOES_ON, Waiting};
pub use component::Turn;
#[cfg(feature = "coordinator")]
pub use coordinator::RunId;
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
use objections::Objections;
use proxy::Proxy;
use retention::Retention;
use server::Server;
use terminals::Terminals;
use trace::Trace;
use viewers::Callbacks;

/// The event loop with all agents.
pub struct Repl {
    core: Core,
    dispatcher: Dispatcher,
    jobs: Jobs,
    /// The components that the loop knows only as such.
    features: Vec<Box<dyn Component>>,
    objections: Objections,
    proxy: Proxy,
    #[cfg(feature = "coordinator")]
    coordinator: coordinator::Coordinator,
    terminals: Terminals,
    /// Dropped after the store in `core`: a client that reads to the end of its connection knows that the store is free.
    server: Server,
    process: Process,
    /// The person's programs that run for a terminal of this process.
    programs: Programs,
    trace: Trace,
    embedding: Embedding,
}

/// The process of the loop: how it began, and how it ends.
#[derive(Default)]
struct Process {
    signals: Option<Signals>,
    /// The messages at the start.
    welcome: Vec<(LineKind, String)>,
    /// The process that waits for this one, until the chat continues without it.
    waiting: Option<Waiting>,
    /// How to come back to what the terminal of this process showed, once the loop has ended.
    way_back: Option<WayBack>,
    retention: Retention,
    end: shutdown::End,
}

#[derive(Default)]
struct Programs {
    /// The editor of a draft.
    editor: Option<editor::OpenEditor>,
    /// The program that reads the image in the clipboard.
    paste: Option<pasting::OpenPaste>,
}

/// What an embedding program has registered.
#[derive(Default)]
struct Embedding {
    callbacks: Callbacks,
    external: ExternalDescriptors,
}

/// The components that the loop knows only as such, in the order in which they get events and are stepped.
fn features() -> Vec<Box<dyn Component>> {
    let waits: Box<dyn Component> = Box::<MailWaits>::default();
    std::iter::once(waits).chain(FEATURES.iter().filter_map(|feature| Some((feature.component?)()))).collect()
}

impl Repl {
    /// The core, every component, in the order in which they get events and are stepped, and the trace.
    fn split(&mut self) -> (&mut Core, impl Iterator<Item = &mut dyn Component>, &mut Trace) {
        let Self { core, dispatcher, jobs, features, objections, proxy, terminals, server, trace, .. } = self;
        #[cfg(feature = "coordinator")]
        let coordinator: Option<&mut dyn Component> = Some(&mut self.coordinator);
        #[cfg(not(feature = "coordinator"))]
        let coordinator: Option<&mut dyn Component> = None;
        let first: [&mut dyn Component; 2] = [dispatcher, jobs];
        let then: [&mut dyn Component; 2] = [objections, proxy];
        let last: [&mut dyn Component; 2] = [terminals, server];
        let features = features.iter_mut().map(|component| &mut **component as &mut dyn Component);
        let components = first.into_iter().chain(features).chain(then).chain(coordinator).chain(last);
        (core, components, trace)
    }
}
