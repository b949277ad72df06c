//! Look-ups of names for connections: one for all that need the same name at the same time, and a limited number at
//! once, since each takes a thread that cannot be stopped.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use crate::base::job::Wake;
use crate::net::Lookup;

const MOST: usize = 16;

#[derive(Default)]
pub(super) struct Lookups {
    /// By `host:port`, with the waiting connections.
    running: BTreeMap<String, (Lookup, Vec<u64>)>,
    queue: VecDeque<(String, u64)>,
}

impl Lookups {
    pub(super) fn ask(&mut self, target: String, connection: u64) {
        self.queue.push_back((target, connection));
    }

    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Whether one that waits could be started.
    pub(super) fn may_start(&self) -> bool {
        !self.queue.is_empty() && self.running.len() < MOST
    }

    /// Starts what may be started. Returns the results that are there, with the connections that wait for them.
    pub(super) fn poll(&mut self, wake: &Wake) -> Vec<(Vec<u64>, Vec<IpAddr>)> {
        let mut results = Vec::new();
        self.running.retain(|_, (lookup, waiting)| {
            let Some(addresses) = lookup.take_result() else { return true };
            let parse = |text: &String| text.trim_matches(['[', ']']).parse().ok();
            results.push((std::mem::take(waiting), addresses.iter().flatten().filter_map(parse).collect()));
            false
        });
        for _ in 0..self.queue.len() {
            let Some((target, connection)) = self.queue.pop_front() else { break };
            if let Some((_, waiting)) = self.running.get_mut(&target) {
                waiting.push(connection);
            } else if self.running.len() >= MOST {
                self.queue.push_back((target, connection));
            } else {
                match Lookup::start(target.clone(), wake.clone()) {
                    Ok(lookup) => drop(self.running.insert(target, (lookup, vec![connection]))),
                    // Without a thread it is as if the name had no address.
                    Err(_) => results.push((vec![connection], Vec::new())),
                }
            }
        }
        results
    }
}
