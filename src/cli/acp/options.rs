//! What an editor can choose for a session: mode, model and thinking (agentclientprotocol.com/protocol/session-config-options).

use std::rc::Rc;

use serde_json::{Value, json};

use super::session::text_of;
use crate::base::json_rpc::Fault;
use crate::domain::approval::Policy;
use crate::domain::endpoint::{Catalog, ProviderEntry};
use crate::domain::models;
use crate::domain::thinking::Thinking;
use crate::domain::wire::Request;

/// The policies that an editor may set.
const CHOOSABLE: [Policy; 3] = [Policy::Ask, Policy::Auto, Policy::Plan];
/// The levels that are offered; a model may know others.
const LEVELS: [Thinking; 5] = [Thinking::Unspecified, Thinking::Off, Thinking::Low, Thinking::Medium, Thinking::High];

/// What is chosen for a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The name of a policy.
    pub mode: String,
    /// `provider/model`.
    model: String,
    thinking: String,
    /// The models that are offered.
    models: Rc<[String]>,
}

impl Options {
    pub fn of(agent: &Value, models: Rc<[String]>) -> Self {
        let [mode, model, thinking] = ["policy", "model", "thinking"].map(|name| text_of(agent, name));
        Self { mode, model, thinking, models }
    }

    /// The same with what the agent has now.
    pub fn refreshed(&self, agent: &Value) -> Self {
        Self::of(agent, self.models.clone())
    }

    /// For editors that know no options: the mode and those that can be chosen.
    pub fn modes(&self) -> Value {
        let mode = |policy: &Policy| json!({"id": policy.name(), "name": title(policy), "description": policy.about()});
        json!({"currentModeId": self.mode, "availableModes": self.policies().map(mode).collect::<Vec<_>>()})
    }

    fn policies(&self) -> impl Iterator<Item = &Policy> {
        Policy::ALL.iter().filter(|policy| CHOOSABLE.contains(policy) || policy.name() == self.mode)
    }

    /// All options with their values.
    pub fn to_json(&self) -> Value {
        let policy =
            |policy: &Policy| json!({"value": policy.name(), "name": title(policy), "description": policy.about()});
        let named = |value: &String| json!({"value": value, "name": value});
        let levels: Vec<String> = LEVELS.iter().map(ToString::to_string).collect();
        let select = |(id, name, category): (&str, &str, &str), value: &String, options: Vec<Value>| {
            json!({
                "id": id, "name": name, "category": category, "type": "select",
                "currentValue": value, "options": options,
            })
        };
        json!([
            select(("mode", "Mode", "mode"), &self.mode, self.policies().map(policy).collect()),
            select(("model", "Model", "model"), &self.model, with(&self.models, &self.model).map(named).collect()),
            select(
                ("thinking", "Thinking", "thought_level"),
                &self.thinking,
                with(&levels, &self.thinking).map(named).collect()
            ),
        ])
    }
}

/// These values, and the current one where it is none of them.
fn with<'a>(values: &'a [String], current: &'a String) -> impl Iterator<Item = &'a String> {
    values.iter().chain((!values.contains(current)).then_some(current))
}

fn title(policy: &Policy) -> String {
    let name = policy.name();
    name[..1].to_uppercase() + &name[1..]
}

/// The models of the configured providers, and those of well-known services, as `provider/model`.
pub fn models(catalog: &Catalog) -> Rc<[String]> {
    catalog.configured().flat_map(models_of).collect()
}

fn models_of(entry: &ProviderEntry) -> Vec<String> {
    let of_table = entry.service.into_iter().flat_map(models::of_service);
    let others = of_table.filter(|model| entry.names().all(|name| name != *model));
    entry.full_names().chain(others.map(|model| format!("{}/{model}", entry.name))).collect()
}

/// The request that chooses a mode.
pub fn choose_mode(session: &str, mode: &str) -> Result<Request, Fault> {
    if !CHOOSABLE.iter().any(|policy| policy.name() == mode) {
        return Err(Fault::params(format!("unknown mode {mode:?}: expected ask, auto or plan")));
    }
    Ok(Request::run_at(session, ["approval", mode]))
}

/// The request that chooses the value of an option.
pub fn choose(session: &str, params: &Value) -> Result<Request, Fault> {
    let value = params["value"].as_str().ok_or_else(|| Fault::params("`value` must be a string"))?;
    match text_of(params, "configId").as_str() {
        "mode" => choose_mode(session, value),
        "model" => Ok(Request::run_at(session, ["model", value])),
        "thinking" => Ok(Request::run_at(session, ["set", "thinking", value])),
        other => Err(Fault::params(format!("unknown option {other:?}: expected mode, model or thinking"))),
    }
}
