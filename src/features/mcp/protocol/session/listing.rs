//! The offers of a server: its lists of tools, resources and prompts, page by page.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Event, Pending, Phase, Session};
use crate::features::mcp::protocol::list;

const MAX_PAGES: usize = 64;

/// The lists of a server besides that of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Catalog {
    Resources,
    Templates,
    Prompts,
}

impl Catalog {
    const ALL: [Self; 3] = [Self::Resources, Self::Templates, Self::Prompts];

    /// The method that lists it, the key of the entries, and the capability of servers that have it.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Resources => ("resources/list", "resources", "resources"),
            Self::Templates => ("resources/templates/list", "resourceTemplates", "resources"),
            Self::Prompts => ("prompts/list", "prompts", "prompts"),
        }
    }
}

/// The pages of a list so far, and the cursors that were followed.
#[derive(Default)]
pub(super) struct Pages {
    listed: Vec<Value>,
    cursors: BTreeSet<String>,
}

impl Pages {
    /// Adds a page. Returns the cursor of the next one; the same cursor again would not end.
    fn add(&mut self, result: &Value, key: &str, most: usize) -> Option<String> {
        self.listed.extend(result[key].as_array().into_iter().flatten().take(most + 1).cloned());
        let next = result["nextCursor"].as_str();
        let next = next.filter(|_| self.cursors.len() < MAX_PAGES && self.listed.len() <= most)?;
        self.cursors.insert(next.to_owned()).then(|| next.to_owned())
    }
}

impl Session {
    pub(super) fn list_from_start(&mut self) {
        self.tools = Pages::default();
        // A running listing would be mixed with this one.
        self.pending.retain(|_, pending| !matches!(pending, Pending::List));
        self.list(Pending::List, "tools/list", None);
    }

    fn list(&mut self, pending: Pending, method: &str, cursor: Option<String>) {
        let params = cursor.map(|cursor| ("cursor".to_owned(), Value::from(cursor))).into_iter().collect();
        let params = self.with_meta(params);
        self.send(pending, method, params);
    }

    pub(super) fn on_page(&mut self, result: &Value) {
        match self.tools.add(result, "tools", list::MAX_TOOLS) {
            Some(next) => self.list(Pending::List, "tools/list", Some(next)),
            None => {
                let listed = std::mem::take(&mut self.tools).listed;
                self.on_list(listed);
            }
        }
    }

    pub(super) fn list_catalogs(&mut self) {
        self.pending.retain(|_, pending| !matches!(pending, Pending::Catalog(_)));
        for catalog in Catalog::ALL {
            let (method, _, capability) = catalog.names();
            if self.has(capability) {
                self.catalogs.insert(catalog, Pages::default());
                self.list(Pending::Catalog(catalog), method, None);
            }
        }
    }

    pub(super) fn on_catalog_page(&mut self, catalog: Catalog, result: &Value) {
        let (method, key, _) = catalog.names();
        let pages = self.catalogs.entry(catalog).or_default();
        match pages.add(result, key, list::MAX_RESOURCES) {
            Some(next) => self.list(Pending::Catalog(catalog), method, Some(next)),
            None => {
                let listed = std::mem::take(pages).listed;
                self.events.push_back(Event::Catalog(catalog, listed));
            }
        }
    }

    pub(super) fn on_list(&mut self, listed: Vec<Value>) {
        let (tools, left_out) = list::tools(&self.server, &listed);
        let is_first = self.phase != Phase::Ready;
        (self.phase, self.start_until) = (Phase::Ready, None);
        if !left_out.is_empty() {
            self.note(format!("left out: {}", left_out.join("; ")));
        }
        self.events.push_back(Event::Tools(tools));
        if is_first {
            self.list_catalogs();
        }
    }
}
