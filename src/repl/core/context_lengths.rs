//! Context lengths learned from servers: all agents use them at once, and later runs for some days.

use std::collections::BTreeSet;

use crate::base::id::AgentId;
use crate::domain::config::Config;
use crate::domain::endpoint::Catalog;
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::core::model::learn_facts;
use crate::store::{LearnedContext, Store, Told};

/// For how many milliseconds: a server may be started again with another context.
const KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

/// Applies the context length from a server to every agent of the model.
pub(in crate::repl) fn learn_context(core: &mut Core, agent_id: AgentId, model: String, limit: u64) {
    core.config.catalog.learn_context(&model, limit);
    core.factory.update_facts(&core.config.catalog, model.split('/').next().unwrap_or_default());
    learn_facts(core);
    let Some(base_url) = base_url(&core.config.catalog, &model).map(str::to_owned) else { return };
    let learned = LearnedContext { model, base_url, told: Told::InError, limit, at: core.clock.unix_ms() };
    if let Err(error) = core.store.keep_context(&learned) {
        core.note(agent_id, LineKind::Error, &format!("the length of the context was not saved: {error}"));
    }
}

/// Keeps the context lengths that this provider has listed of the models that agents use: the next run may send its first
/// request before the list is there.
pub(in crate::repl) fn keep_listed(core: &mut Core, provider: &str) {
    let Some(entry) = core.config.catalog.0.iter().find(|entry| entry.name == provider) else { return };
    let endpoints = core.roster.ids().into_iter().filter_map(|id| Some(&core.roster.get(id)?.inputs.endpoint));
    let used: BTreeSet<&str> = endpoints.filter(|used| used.provider == provider).map(|used| &*used.model).collect();
    let listed = entry.listed.iter().filter(|(name, _)| used.contains(name.as_str()));
    let listed: Vec<(String, u64)> =
        listed.filter_map(|(name, facts)| Some((format!("{provider}/{name}"), facts.context?))).collect();
    let base_url = entry.base_url.clone();
    for (model, limit) in listed {
        if !core.config.catalog.restore_listed(&model, limit) {
            continue;
        }
        let base_url = base_url.clone();
        let learned = LearnedContext { model, base_url, told: Told::InList, limit, at: core.clock.unix_ms() };
        // Without it the next run learns it from the list.
        drop(core.store.keep_context(&learned));
    }
}

/// Loads what was learned in earlier runs. Unreadable entries are learned again.
pub(in crate::repl) fn restore(config: &mut Config, store: &Store, now: i64) {
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
