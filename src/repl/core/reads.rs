//! When the sockets of agents are read: as a rule when the kernel reports that there is something. Each is registered again
//! after it was served, because the poll is edge-triggered and libcurl stops before it gets EAGAIN.
//!
//! The sockets of replies that have streamed for a while are in a poll of their own. While they have something more often than
//! once in [`Config::read_interval`], nothing that they receive ends a wait, and all are read in one turn at a common moment,
//! until none has anything:
//!
//! ```text
//!   pieces   |     |  | |  |  | |  |  ||  |
//!   reads    ^     ^          ^          ^          ^
//!         at once       together, in one turn     nothing: at once again
//! ```
//! So quick models and many agents cause no more turns than a screen has frames, and a piece that comes alone does not wait.
//!
//! [`Config::read_interval`]: crate::domain::config::Config::read_interval

use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::scrollback::LineKind;
use crate::reactor::{EVENTS_PER_WAIT, Ready, Source};
use crate::repl::core::Core;

/// Replies that have streamed for less are read at once, so that none takes much longer than without this.
const SETTLED: Duration = Duration::from_millis(500);
/// After a piece of so many bytes the next is read at once: a full buffer would stop the sender.
const LARGE: usize = 4096;

#[derive(Default)]
pub(super) struct Reads {
    /// The sockets that were served in this turn.
    served: Vec<(AgentId, Source)>,
    /// When a stream was last served.
    streamed_at: Option<Moment>,
    /// When the streams are read, while they are paused.
    due: Option<Moment>,
}

/// After a wait: adds the streams that have something, if their moment has come.
pub(in crate::repl) fn add_due(core: &mut Core, ready: &mut Vec<Ready>) -> Result<()> {
    let now = core.clock.now();
    if core.reads.due.is_none_or(|due| due > now) {
        return Ok(());
    }
    let next = match core.reactor.read_streams(ready)? {
        0 => None,
        EVENTS_PER_WAIT => Some(now),
        _ => Some(now + core.config.read_interval),
    };
    core.reactor.pause_streams(next.is_some())?;
    core.reads.due = next;
    Ok(())
}

/// The socket of an agent was served.
pub(in crate::repl) fn note_served(core: &mut Core, agent: AgentId, source: Source) {
    core.reads.served.push((agent, source));
}

/// After the agents were served: registers their sockets again. If they are streams that have come soon after others, the
/// next come together.
pub(in crate::repl) fn rearm(core: &mut Core) {
    let (now, interval) = (core.clock.now(), core.config.read_interval);
    let mut has_streams = false;
    for (agent, source) in std::mem::take(&mut core.reads.served) {
        let streams = |(since, size): (Moment, usize)| now - since >= SETTLED && size < LARGE;
        let piece = core.roster.get(agent).and_then(|agent| agent.last_piece());
        let is_stream = !interval.is_zero() && piece.is_some_and(streams);
        has_streams |= is_stream;
        if let Err(error) = core.reactor.rearm_in(source, is_stream) {
            core.note(agent, LineKind::Error, &error.message);
        }
    }
    if has_streams {
        let last = core.reads.streamed_at.replace(now);
        let is_soon = last.is_some_and(|last| now - last < interval);
        if core.reads.due.is_none() && is_soon && core.reactor.pause_streams(true).is_ok() {
            core.reads.due = Some(now + interval);
        }
    }
}

/// When the streams are read.
pub(in crate::repl) fn deadline(core: &Core) -> Option<Moment> {
    core.reads.due
}
