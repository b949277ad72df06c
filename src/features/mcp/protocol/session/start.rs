//! The first messages: which era of the protocol a server speaks, and its capabilities.

use serde_json::{Map, Value, json};

use super::{Era, MAX_LISTENS, Pending, Phase, Session};
use crate::features::mcp::protocol::message::{INITIALIZED, LEGACY, LEGACY_ACCEPTED, MODERN};

impl Session {
    pub(super) fn on_discovered(&mut self, result: &Value) {
        if self.era.is_some() {
            return;
        }
        let supported = result["supportedVersions"].as_array();
        // Some servers of the older era answer unknown requests with an empty result.
        if !supported.is_some_and(|list| list.iter().any(|entry| entry == MODERN)) {
            return self.initialize();
        }
        self.note_capabilities(result);
        self.begin(Era::Modern);
    }

    pub(super) fn on_initialized(&mut self, result: &Value) {
        let revision = result["protocolVersion"].as_str().unwrap_or_default();
        if !LEGACY_ACCEPTED.contains(&revision) {
            let shown: String = revision.chars().filter(|c| !c.is_control()).take(40).collect();
            return self.fail(format!("answered with an unknown revision of MCP: {shown:?}"));
        }
        self.revision = Some(revision.to_owned());
        self.note_capabilities(result);
        self.notify(INITIALIZED, Map::new());
        self.begin(Era::Legacy);
    }

    fn note_capabilities(&mut self, result: &Value) {
        self.capabilities = result["capabilities"].clone();
    }

    pub(super) fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some()
    }

    pub(super) fn begin(&mut self, era: Era) {
        (self.era, self.probe_until) = (Some(era), None);
        // A server whose first answer was an error has not declared its capabilities.
        if !self.capabilities.is_null() && !self.has("tools") {
            return self.on_list(Vec::new());
        }
        self.listen();
        self.list_from_start();
    }

    /// Asks a server of the newer era to announce changes of its lists, if it can and does not already. Whether it was asked.
    pub(super) fn listen(&mut self) -> bool {
        let is_listening = self.pending.values().any(|pending| matches!(pending, Pending::Listen));
        if self.era != Some(Era::Modern) || is_listening || self.listens >= MAX_LISTENS {
            return false;
        }
        let kinds = ["tools", "resources", "prompts"];
        let announced = kinds.iter().filter(|kind| self.capabilities[**kind]["listChanged"] == true);
        let wanted: Map<String, Value> = announced.map(|kind| (format!("{kind}ListChanged"), true.into())).collect();
        let is_any = !wanted.is_empty();
        if is_any {
            let params = self.with_meta(Map::from_iter([("notifications".to_owned(), wanted.into())]));
            self.send(Pending::Listen, "subscriptions/listen", params);
            self.listens += 1;
        }
        is_any
    }

    pub(super) fn initialize(&mut self) {
        self.probe_until = None;
        if self.era.is_some() || self.phase == Phase::Over {
            return;
        }
        let params = json!({"protocolVersion": LEGACY, "capabilities": capabilities(), "clientInfo": client()});
        self.send(Pending::Initialize, "initialize", params);
    }
}

pub(super) fn client() -> Value {
    json!({"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")})
}

/// The capabilities of this client: the person can be asked, and nothing else is offered.
pub(super) fn capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}})
}
