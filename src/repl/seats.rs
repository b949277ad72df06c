//! All terminals of the house, and sitting down and standing up. What one of them shows and is told is its own; which one
//! a key or a command came from is handed on from call to call.

use std::collections::BTreeMap;
use std::fmt;

use crate::base::id::AgentId;
use crate::commands::Sitting;
use crate::domain::scrollback::Reader;
use crate::reactor::Source;
use crate::repl::{Device, Manners, Repl, Seat};

/// Names one terminal. Counted from 1 in the order of sitting down, and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeatId(u64);

impl SeatId {
    /// The number that a person is told.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SeatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "terminal {}", self.0)
    }
}

/// The terminals, in the order in which they sat down.
#[derive(Default)]
pub(super) struct Seats {
    seats: BTreeMap<SeatId, Seat>,
    /// How many have ever sat down.
    count: u64,
}

impl Seats {
    fn add(&mut self, seat: Seat) -> SeatId {
        self.count += 1;
        let id = SeatId(self.count);
        self.seats.insert(id, seat);
        id
    }

    pub(super) fn get(&self, id: SeatId) -> Option<&Seat> {
        self.seats.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: SeatId) -> Option<&mut Seat> {
        self.seats.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Seat> {
        self.seats.values_mut()
    }

    pub(super) fn ids(&self) -> Vec<SeatId> {
        self.seats.keys().copied().collect()
    }

    /// The one that has been there longest of those that do more than watch.
    pub(super) fn first_taking_part(&self) -> Option<SeatId> {
        self.seats.iter().find(|(_, seat)| !seat.manners.is_read_only).map(|(id, _)| *id)
    }

    /// Which of them look at one of these agents.
    pub(super) fn looking_at(&self, agents: &[AgentId]) -> Vec<SeatId> {
        self.seats.iter().filter(|(_, seat)| agents.contains(&seat.focus)).map(|(id, _)| *id).collect()
    }

    /// Whoever asked for something, if that terminal is there and still looks at this agent.
    pub(super) fn still_at(&self, asker: Option<SeatId>, agent: AgentId) -> Option<SeatId> {
        asker.filter(|at| self.get(*at).is_some_and(|seat| seat.focus == agent))
    }
}

impl Repl {
    /// A terminal is there from now on and looks at this agent, or at the eldest if it is gone. Drawn in the next turn.
    pub fn sit(&mut self, device: Device, focus: AgentId, manners: Manners) -> SeatId {
        let eldest = || self.roster.nth(0).expect("there is at least agent 0");
        let focus = self.roster.get(focus).map_or_else(eldest, |agent| agent.id());
        let at = self.seats.add(Seat::new(device, focus, manners, self.shared.clock.unix_ms()));
        self.bring_to_screen(at, focus);
        at
    }

    /// A terminal is not there any more. What was typed at it stays with the agent that it looked at.
    pub fn stand_up(&mut self, at: SeatId) {
        let reader = self.reader(at);
        let Some(seat) = self.seats.seats.remove(&at) else { return };
        if seat.is_local() {
            self.reactor.forget(Source::Terminal);
        }
        self.leave_view(reader, seat.focus);
    }

    /// The terminal that has been there longest, if there is one.
    pub fn seat(&mut self) -> Option<&mut Seat> {
        self.seats.iter_mut().next()
    }

    /// This terminal, if it is still there.
    pub fn seat_at(&mut self, at: SeatId) -> Option<&mut Seat> {
        self.seats.get_mut(at)
    }

    /// All terminals, in the order in which they sat down.
    pub fn seat_ids(&self) -> Vec<SeatId> {
        self.seats.ids()
    }

    /// Whether this terminal only watches.
    pub(super) fn is_watcher(&self, at: SeatId) -> bool {
        self.seats.get(at).is_some_and(|seat| seat.manners.is_read_only)
    }

    /// Whose place in the text this terminal moves.
    pub(super) fn reader(&self, at: SeatId) -> Reader {
        if self.is_watcher(at) { Reader::Watcher(at.0) } else { Reader::Everybody }
    }

    /// Somebody looks away from an agent: what is typed there is kept, and the place of one who watched is forgotten.
    pub(super) fn leave_view(&mut self, reader: Reader, agent: AgentId) {
        match reader {
            Reader::Everybody => self.keep_draft(agent),
            Reader::Watcher(_) => {
                self.roster.with(agent, |agent| agent.view.scrollback.to_bottom(reader));
            }
        }
    }

    /// The terminals, as a command may see them, asked from one of them.
    pub(super) fn sittings(&self, asker: SeatId) -> Vec<Sitting> {
        let sitting = |(at, seat): (&SeatId, &Seat)| Sitting {
            number: at.0,
            since: seat.since,
            size: seat.size,
            focus: seat.focus,
            is_read_only: seat.manners.is_read_only,
            is_asker: *at == asker,
        };
        self.seats.seats.iter().map(sitting).collect()
    }
}
