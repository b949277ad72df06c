//! Context lengths learned from servers: all agents use them at once, and later runs for some days.

use crate::base::id::AgentId;
use crate::domain::config::Config;
use crate::domain::endpoint::Catalog;
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, learn_facts};
use crate::store::{LearnedContext, Store, Told};

/// For how many milliseconds: a server may be started again with another context.
const KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

/// Applies the context length from a server to every agent of the model.
pub(super) fn learn_context(core: &mut Core, agent_id: AgentId, model: String, limit: u64) {
    core.config.catalog.learn_context(&model, limit);
    core.factory.learn_context(&model, limit);
    learn_facts(core);
    let Some(base_url) = base_url(&core.config.catalog, &model).map(str::to_owned) else { return };
    let learned = LearnedContext { model, base_url, told: Told::InError, limit, at: core.clock.unix_ms() };
    if let Err(error) = core.store.keep_context(&learned) {
        core.note(agent_id, LineKind::Error, &format!("the length of the context was not saved: {error}"));
    }
}

/// Loads what was learned in earlier runs. Unreadable entries are learned again.
pub(super) fn restore(config: &mut Config, store: &Store, now: i64) {
    for learned in store.kept_contexts().unwrap_or_default() {
        let is_same = base_url(&config.catalog, &learned.model) == Some(&learned.base_url);
        if is_same && now - learned.at < KEPT {
            match learned.told {
                Told::InError => config.catalog.learn_context(&learned.model, learned.limit),
                Told::InList => drop(config.catalog.restore_listed(&learned.model, learned.limit)),
            }
            if config.endpoint.full_name() == learned.model {
                let found = config.catalog.find(&learned.model).ok();
                config.endpoint.facts.context = found.and_then(|found| found.facts.context);
            }
        }
    }
}

fn base_url<'a>(catalog: &'a Catalog, model: &str) -> Option<&'a str> {
    let (provider, _) = model.split_once('/')?;
    catalog.0.iter().find(|entry| entry.name == provider).map(|entry| entry.base_url.as_str())
}
