//! Files for `@`: the list of the agent's working directory, which a thread fills, and the search in it, a slice a turn.

use std::path::PathBuf;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::fuzzy::Fuzzy;
use crate::base::id::AgentId;
use crate::domain::mcp::McpResource;
use crate::repl::core::Core;
use crate::repl::terminals::popup::Item;
use crate::tools::file_list::{FileList, FileNames};

/// A list is used for this long, and kept for this long after its last use; nothing is watched.
const FRESH: Duration = Duration::from_secs(60);
/// Files that are compared with the query in one turn: at most some milliseconds, if all match.
const FILES_PER_TURN: usize = 2_000;
/// Matches that are shown.
const MOST_SHOWN: usize = 50;
/// Agents that are shown above the files.
const MOST_AGENTS: usize = 5;
/// Resources of MCP servers that are shown below them.
const MOST_RESOURCES: usize = 20;

/// The files of a directory.
pub(super) struct Files {
    directory: PathBuf,
    started: Moment,
    used: Moment,
    list: FileList,
}

impl Files {
    pub fn start(core: &Core, agent: AgentId) -> Option<Result<Self>> {
        let environment = &core.agent(agent)?.inputs.environment;
        let (directory, wake) = (environment.working_directory.clone(), core.waker());
        let list = FileList::start(environment, wake);
        Some(list.map(|list| Self { directory, started: core.now(), used: core.now(), list }))
    }

    /// Whether it lists the agent's files as they were a moment ago.
    pub fn is_fresh(&self, core: &Core, agent: AgentId) -> bool {
        let directory = core.agent(agent).map(|agent| &agent.inputs.environment.working_directory);
        directory == Some(&self.directory) && core.now() - self.started < FRESH
    }

    /// A search uses the list.
    pub fn note_use(&mut self, now: Moment) {
        self.used = now;
    }

    /// When it is dropped.
    pub fn expires(&self) -> Moment {
        self.used + FRESH
    }

    pub fn count(&self) -> usize {
        self.list.with(FileNames::count)
    }
}

/// A search for what follows an `@`.
pub(super) struct Mentions {
    query: String,
    fuzzy: Fuzzy,
    /// Files among which are all matches; `None`: all.
    among: Option<Vec<u32>>,
    /// How many of them were compared.
    compared: usize,
    /// Score and index of each match.
    hits: Vec<(u32, u32)>,
}

impl Mentions {
    pub fn new(query: &str) -> Self {
        Self { query: query.into(), fuzzy: Fuzzy::paths(query), among: None, compared: 0, hits: Vec::new() }
    }

    /// The search for another query. When letters were added, only the matches so far can match.
    pub fn refine(self, query: &str, files: &Files) -> Self {
        if self.query == query {
            return self;
        }
        let is_longer = self.query.len() > 1 && query.starts_with(&self.query);
        let is_complete = self.among.is_none() && files.list.is_complete() && self.compared >= files.count();
        let among = (is_longer && is_complete).then(|| self.hits.iter().map(|(_, at)| *at).collect());
        Self { among, ..Self::new(query) }
    }

    pub fn has_more(&self, files: &Files) -> bool {
        self.compared < self.among.as_ref().map_or_else(|| files.count(), Vec::len)
    }

    /// Compares some more files.
    pub fn advance(&mut self, files: &Files) {
        let Self { fuzzy, among, compared, hits, .. } = self;
        files.list.with(|names| {
            let count = among.as_ref().map_or(names.count(), Vec::len);
            let end = count.min(*compared + FILES_PER_TURN);
            for place in *compared..end {
                let at = among.as_ref().map_or(place, |among| among[place] as usize);
                let score = names.get(at).and_then(|name| fuzzy.score(name));
                hits.extend(score.zip(u32::try_from(at).ok()));
            }
            *compared = end;
        });
    }

    /// The agents and the best files so far.
    pub fn items(&mut self, files: &Files, core: &Core, current: AgentId) -> Vec<Item> {
        let mut items = agents(core, current, &self.query);
        items.extend(resources(core, current, &self.query));
        let best = MOST_SHOWN.min(self.hits.len());
        let order = |hit: &(u32, u32)| (std::cmp::Reverse(hit.0), hit.1);
        if best < self.hits.len() {
            self.hits.select_nth_unstable_by_key(best, order);
        }
        self.hits[..best].sort_unstable_by_key(order);
        files.list.with(|names| {
            let best = self.hits[..best].iter().filter_map(|(_, at)| names.get(*at as usize));
            items.extend(best.map(|name| Item { text: name.into(), value: format!("@{name} "), ..Item::default() }));
        });
        items
    }
}

fn agents(core: &Core, current: AgentId, query: &str) -> Vec<Item> {
    let mut fuzzy = Fuzzy::words(query);
    let others = core.roster().named().into_iter().filter(|agent| agent.id() != current);
    let named = others.filter_map(|agent| Some((agent.identity.name.as_deref()?, agent)));
    let matching = named.filter(|(name, _)| fuzzy.score(name).is_some()).take(MOST_AGENTS);
    let item = |(name, agent): (&str, &crate::agent::Agent)| Item {
        text: name.into(),
        about: agent.about(),
        value: format!("@{name} "),
        ..Item::default()
    };
    matching.map(item).collect()
}

/// A template is left at its end, for the person to fill in.
fn resources(core: &Core, current: AgentId, query: &str) -> Vec<Item> {
    let mut fuzzy = Fuzzy::paths(query);
    let known = core.agent(current).into_iter().flat_map(|agent| agent.inputs.environment.mcp_resources.iter());
    let named = known.map(|resource| (format!("{}:{}", resource.server, resource.uri), resource));
    let matching = named.filter(|(name, _)| fuzzy.score(name).is_some()).take(MOST_RESOURCES);
    let item = |(name, resource): (String, &McpResource)| {
        let end = if resource.is_template { "" } else { " " };
        Item { value: format!("@{name}{end}"), text: name, about: resource.about.clone(), ..Item::default() }
    };
    matching.map(item).collect()
}

/// The text after an `@` at the start of a word before the cursor, with the position of the `@`.
pub(super) fn mention_in(text: &str, cursor: usize) -> Option<(usize, &str)> {
    let before = &text[..cursor];
    let word =
        before.rfind(char::is_whitespace).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    before[word..].strip_prefix('@').map(|query| (word, query))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_begins_a_word() {
        for (text, expected) in [
            ("@", Some((0, ""))),
            ("see @src/ma", Some((4, "src/ma"))),
            ("a\n@x", Some((2, "x"))),
            ("mail me@home", None),
            ("@a b", None),
            ("", None),
        ] {
            assert_eq!(mention_in(text, text.len()), expected, "{text:?}");
        }
    }
}
