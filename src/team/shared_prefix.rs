//! Forks of one conversation that are to be sent at once: the first is sent, and the others wait until its reply begins.
//!
//! A provider reads from its cache what an earlier request has written, and that is there only when the earlier reply
//! begins (platform.claude.com/docs/en/build-with-claude/prompt-caching, "concurrent requests"). Ten forks that are sent at
//! once would each pay for the whole conversation.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::id::AgentId;

/// In bytes, the least that is worth it: providers cache from 1,024 tokens on.
pub const MIN_CACHED_BYTES: usize = 4_096;
/// How long a provider keeps what it has cached, at least (as above; OpenAI names 5 to 10 minutes).
const CACHE_LIFETIME: Duration = Duration::from_secs(4 * 60);
/// A model that begins no reply in this time delays no other request any longer.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What forks have in common: the agent that they were forked from, the model, and what comes before the conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    pub parent: AgentId,
    /// `provider/model`.
    pub model: String,
    /// A hash of the system prompt and the tools; the prompt names the directory.
    pub instructions: u64,
}

/// The request that writes a prefix into the cache of its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Sent { by: AgentId, at: Moment },
    Replied { at: Moment },
}

#[derive(Debug, Default)]
pub struct SharedPrefixes(BTreeMap<Prefix, First>);

impl SharedPrefixes {
    /// A request that begins with this prefix is being sent.
    pub fn on_sent(&mut self, prefix: Prefix, by: AgentId, now: Moment) {
        self.0.entry(prefix).or_insert(First::Sent { by, at: now });
    }

    /// Until when a request with this prefix waits at most, if it does.
    pub fn waits_until(&self, prefix: &Prefix) -> Option<Moment> {
        match self.0.get(prefix)? {
            First::Sent { at, .. } => Some(*at + LONGEST_WAIT),
            First::Replied { .. } => None,
        }
    }

    /// Follows the first requests. `replied_at`: when a reply to this agent last began; `is_under_way`: whether a request of
    /// it is.
    pub fn settle(
        &mut self,
        now: Moment,
        replied_at: impl Fn(AgentId) -> Option<Moment>,
        is_under_way: impl Fn(AgentId) -> bool,
    ) {
        self.0.retain(|_, first| {
            if let First::Sent { by, at } = *first {
                match replied_at(by).filter(|replied| *replied >= at) {
                    Some(at) => *first = First::Replied { at },
                    // The others are sent now, and none of them waits for another one.
                    None if now >= at + LONGEST_WAIT => *first = First::Replied { at: now },
                    None if !is_under_way(by) => return false,
                    None => {}
                }
            }
            match *first {
                First::Replied { at } => is_still_cached(at, now),
                First::Sent { .. } => true,
            }
        });
    }
}

/// Whether a provider still has in its cache what it had when a reply began at this moment.
pub fn is_still_cached(replied_at: Moment, now: Moment) -> bool {
    now < replied_at + CACHE_LIFETIME
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn a_prefix_is_waited_for_until_its_first_reply_begins_and_is_forgotten_with_the_cache() {
        let [parent, first, second] = [(); 3].map(|()| AgentId::random());
        let prefix = Prefix { parent, model: "a/b".into(), instructions: 1 };
        let other = Prefix { instructions: 2, ..prefix.clone() };
        let mut prefixes = SharedPrefixes::default();
        prefixes.on_sent(prefix.clone(), first, at(10));
        let waits = |prefixes: &SharedPrefixes| prefixes.waits_until(&prefix);
        assert_eq!((waits(&prefixes), prefixes.waits_until(&other)), (Some(at(30)), None));
        // A reply to an earlier request does not count.
        prefixes.settle(at(11), |_| Some(at(9)), |_| true);
        assert_eq!(waits(&prefixes), Some(at(30)));
        prefixes.settle(at(12), |agent| (agent == first).then(|| at(12)), |_| false);
        assert_eq!(waits(&prefixes), None);
        prefixes.on_sent(prefix.clone(), second, at(13));
        assert_eq!(waits(&prefixes), None, "what is in the cache is waited for by nobody");
        prefixes.settle(at(12) + CACHE_LIFETIME, |_| None, |_| true);
        assert!(prefixes.0.is_empty());
    }

    #[test]
    fn a_first_that_fails_is_replaced_and_one_that_takes_long_lets_all_others_go() {
        let [parent, first, second] = [(); 3].map(|()| AgentId::random());
        let prefix = Prefix { parent, model: "a/b".into(), instructions: 1 };
        let mut prefixes = SharedPrefixes::default();
        prefixes.on_sent(prefix.clone(), first, at(0));
        prefixes.settle(at(1), |_| None, |_| false);
        assert_eq!(prefixes.waits_until(&prefix), None);
        prefixes.on_sent(prefix.clone(), second, at(1));
        assert_eq!(prefixes.waits_until(&prefix), Some(at(21)));
        prefixes.settle(at(21), |_| None, |_| true);
        prefixes.on_sent(prefix.clone(), first, at(21));
        assert_eq!(prefixes.waits_until(&prefix), None);
    }
}
