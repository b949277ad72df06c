//! The line of those who want to send a request: one lane a provider, so that a provider that has to be waited for holds
//! up nobody who wants another one.
//!
//! ```text
//!   openai     3 ── 7 ── 20 ── 21      paused: nobody goes
//!   anthropic  5 ── 6                  open: 5 goes next
//! ```
//!
//! Over all lanes that are open, who has wanted to send for the longest goes first. Who comes back to try again has its
//! old rank. Which lanes are open is not known here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::clock::Moment;
use crate::base::id::AgentId;

/// Who stands in line, lane by lane.
#[derive(Debug, Default)]
pub struct Line {
    lanes: BTreeMap<String, BTreeSet<Rank>>,
    places: HashMap<AgentId, (String, Rank)>,
    /// How many have joined so far.
    joined: u64,
}

/// What decides who goes first: since when it wants to send, then who joined first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    since: Moment,
    number: u64,
    who: AgentId,
}

impl Line {
    /// Puts an agent into a lane, as one that wants to send since then. Who stands in that lane already stays there.
    pub fn join(&mut self, who: AgentId, lane: &str, since: Moment) {
        if self.lane_of(who) == Some(lane) {
            return;
        }
        self.leave(who);
        self.joined += 1;
        let rank = Rank { since, number: self.joined, who };
        self.lanes.entry(lane.to_owned()).or_default().insert(rank);
        self.places.insert(who, (lane.to_owned(), rank));
    }

    /// Takes an agent out, if it stands there.
    pub fn leave(&mut self, who: AgentId) {
        let Some((name, rank)) = self.places.remove(&who) else { return };
        let Some(lane) = self.lanes.get_mut(&name) else { return };
        lane.remove(&rank);
        if lane.is_empty() {
            self.lanes.remove(&name);
        }
    }

    /// The lane in which an agent stands.
    pub fn lane_of(&self, who: AgentId) -> Option<&str> {
        self.places.get(&who).map(|(lane, _)| lane.as_str())
    }

    /// Whether somebody stands in this lane.
    pub fn has_lane(&self, lane: &str) -> bool {
        self.lanes.contains_key(lane)
    }

    /// Who goes next, of those whose lane is open.
    pub fn next(&self, is_open: impl Fn(&str) -> bool) -> Option<AgentId> {
        let open = self.lanes.iter().filter(|(lane, _)| is_open(lane));
        open.filter_map(|(_, lane)| lane.first()).min().map(|rank| rank.who)
    }

    /// How many stand before an agent, over all lanes.
    pub fn place_of(&self, who: AgentId) -> Option<usize> {
        let (_, rank) = self.places.get(&who)?;
        Some(self.lanes.values().map(|lane| lane.range(..rank).count()).sum())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn of_the_open_lanes_who_has_waited_longest_goes_first_and_closed_ones_hold_nobody_up() {
        let [a, b, c] = [AgentId::random(), AgentId::random(), AgentId::random()];
        let mut line = Line::default();
        line.join(a, "one", at(1));
        line.join(b, "two", at(2));
        line.join(c, "one", at(3));
        assert_eq!(line.next(|_| true), Some(a));
        assert_eq!(line.next(|lane| lane != "one"), Some(b));
        line.leave(a);
        assert_eq!((line.next(|_| true), line.next(|lane| lane == "one")), (Some(b), Some(c)));
        assert_eq!((line.place_of(a), line.place_of(b), line.place_of(c)), (None, Some(0), Some(1)));
        assert_eq!(line.next(|_| false), None);
    }

    #[test]
    fn who_comes_back_has_its_old_rank_and_of_equals_who_joined_first_goes_first() {
        let [a, b, c] = [AgentId::random(), AgentId::random(), AgentId::random()];
        let mut line = Line::default();
        line.join(b, "one", at(5));
        line.join(c, "one", at(5));
        line.join(a, "one", at(4));
        assert_eq!([a, b, c].map(|who| line.place_of(who)), [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn who_changes_the_provider_changes_the_lane_and_an_empty_lane_is_gone() {
        let a = AgentId::random();
        let mut line = Line::default();
        line.join(a, "one", at(1));
        line.join(a, "two", at(1));
        assert_eq!((line.lane_of(a), line.has_lane("one"), line.has_lane("two")), (Some("two"), false, true));
    }
}
