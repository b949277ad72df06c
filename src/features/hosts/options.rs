//! What can be chosen in the session of a host: its model, its mode, and how much it thinks.

use serde_json::{Value, json};

use crate::base::text::{sanitise, truncate};
use crate::domain::thinking::Thinking;

/// The mode for planning, as all hosts that have one call it.
const PLAN_MODE: &str = "plan";
/// The mode in which Codex asks before each change; it has none for planning.
const READ_ONLY_MODE: &str = "read-only";
/// The modes in which hosts ask: of Claude Code and Gemini CLI, of opencode, and of the examples of the protocol.
const ASKING_MODES: [&str; 3] = ["default", "build", "ask"];
/// The category of the option for thinking.
const THINKING: &str = "thought_level";
/// How many values are kept, and how long one may be.
const MAX_VALUES: usize = 200;
const MAX_VALUE: usize = 200;
/// The value for what the host would do by itself.
const DEFAULT: &str = "default";
/// The values for as little thinking as possible.
const LEAST_THINKING: [&str; 3] = ["off", "none", "minimal"];

/// The choices of a session that was opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choices {
    pub(super) model: Option<Choice>,
    pub(super) mode: Option<Choice>,
    pub(super) thinking: Option<Choice>,
}

/// One of several values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    setter: Setter,
    /// The value at the beginning.
    first: String,
    current: String,
    all: Vec<String>,
}

/// How a value is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Setter {
    /// By the option with this id.
    Option(String),
    /// By a request of its own, in hosts without options.
    Own { method: &'static str, parameter: &'static str },
}

impl Choices {
    /// Those that the answer to the request has that opens a session.
    pub(super) fn of(answer: &Value) -> Self {
        let options = answer["configOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let model = || {
            let setter = Setter::Own { method: "session/set_model", parameter: "modelId" };
            Choice::of_list(&answer["models"], ("currentModelId", "availableModels", "modelId"), setter)
        };
        let mode = || {
            let setter = Setter::Own { method: "session/set_mode", parameter: "modeId" };
            Choice::of_list(&answer["modes"], ("currentModeId", "availableModes", "id"), setter)
        };
        Self {
            model: Choice::find(options, "model").or_else(model),
            mode: Choice::find(options, "mode").or_else(mode),
            thinking: Choice::find(options, THINKING),
        }
    }
}

impl Choice {
    /// The option of this category.
    fn find(options: &[Value], category: &str) -> Option<Self> {
        let is_it = |option: &&Value| {
            let is_select = option["type"].as_str().is_none_or(|kind| kind == "select");
            is_select && (option["category"] == category || option["id"] == category)
        };
        let option = options.iter().find(is_it)?;
        let setter = Setter::Option(option["id"].as_str()?.to_owned());
        // They may be in groups.
        let entries = option["options"].as_array().into_iter().flatten();
        let entries = entries.flat_map(|entry| match entry["options"].as_array() {
            Some(group) => group.as_slice(),
            None => std::slice::from_ref(entry),
        });
        Some(Self::new(setter, &option["currentValue"], entries, "value"))
    }

    /// Takes over the values of the option for thinking, which may have changed.
    pub(super) fn update(thinking: &mut Option<Self>, options: &[Value]) {
        let first = thinking.take().map(|choice| choice.first);
        *thinking = Self::find(options, THINKING);
        if let (Some(choice), Some(first)) = (thinking, first) {
            choice.first = first;
        }
    }

    fn of_list(list: &Value, (current, all, id): (&str, &str, &str), setter: Setter) -> Option<Self> {
        let entries = list[all].as_array().into_iter().flatten();
        list.is_object().then(|| Self::new(setter, &list[current], entries, id))
    }

    fn new<'a>(setter: Setter, current: &Value, entries: impl Iterator<Item = &'a Value>, id: &str) -> Self {
        let values = entries.filter_map(|entry| entry[id].as_str()).filter(|value| value.len() <= MAX_VALUE);
        let all = values.take(MAX_VALUES).map(str::to_owned).collect();
        let current = current.as_str().unwrap_or_default().to_owned();
        Self { setter, first: current.clone(), current, all }
    }

    fn has(&self, value: &&str) -> bool {
        self.all.iter().any(|known| known == value)
    }

    /// The mode for an agent that plans, or to leave that mode; `None` if the session is in the right one.
    pub(super) fn mode_to_set(&self, plans: bool) -> Option<&'static str> {
        let modes: &[&str] = match plans {
            true => &[PLAN_MODE, READ_ONLY_MODE],
            false if self.current == PLAN_MODE => &ASKING_MODES,
            false => return None,
        };
        let mode = modes.iter().copied().find(|mode| self.has(mode))?;
        (mode != self.current).then_some(mode)
    }

    /// The value for this level; `None` if it is the current one.
    ///
    /// # Errors
    /// The host has no such value; the error names those that it has.
    pub(super) fn thinking_to_set(&self, level: Thinking) -> Result<Option<String>, String> {
        let name = level.to_string();
        let value = match level {
            // A session that was loaded may have begun with another level.
            Thinking::Unspecified => Some(if self.has(&DEFAULT) { DEFAULT } else { self.first.as_str() }),
            Thinking::Off => LEAST_THINKING.into_iter().find(|value| self.has(value)),
            _ => Some(name.as_str()).filter(|value| self.has(value)),
        };
        match value {
            Some(value) if value == self.current => Ok(None),
            Some(value) => Ok(Some(value.to_owned())),
            None => {
                let all = sanitise(&self.all.join(", ")).into_owned();
                Err(format!("has no thinking level {name}: use one of {}", truncate(&all, MAX_VALUE)))
            }
        }
    }

    /// The request that chooses a value, and its parameters.
    pub(super) fn choose(&mut self, session: &str, value: &str) -> (&'static str, Value) {
        value.clone_into(&mut self.current);
        match &self.setter {
            Setter::Option(id) => {
                ("session/set_config_option", json!({"sessionId": session, "configId": id, "value": value}))
            }
            Setter::Own { method, parameter } => (method, json!({"sessionId": session, *parameter: value})),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(current: &str, all: &[&str]) -> Choice {
        let all: Vec<Value> = all.iter().map(|id| json!({"id": id})).collect();
        Choices::of(&json!({"modes": {"currentModeId": current, "availableModes": all}})).mode.expect("modes")
    }

    #[test]
    fn a_mode_is_left_only_for_one_in_which_the_host_asks() {
        let claude = ["auto", "default", "acceptEdits", "plan", "bypassPermissions"];
        let codex = ["read-only", "auto", "full-access"];
        for (current, all, plans, expected) in [
            ("default", &claude[..], true, Some("plan")),
            ("plan", &claude, true, None),
            ("plan", &claude, false, Some("default")),
            ("acceptEdits", &claude, false, None),
            ("auto", &codex, true, Some("read-only")),
            ("read-only", &codex, false, None),
            ("plan", &["plan", "yolo"], false, None),
            ("x", &["x"], true, None),
        ] {
            assert_eq!(modes(current, all).mode_to_set(plans), expected, "{current} {all:?} {plans}");
        }
    }

    #[test]
    fn the_level_of_thinking_is_one_of_the_values_and_can_be_that_of_the_host_again() {
        let option = json!({
            "id": "effort", "category": "thought_level", "currentValue": "medium",
            "options": [{"value": "minimal"}, {"group": "more", "options": [{"value": "medium"}, {"value": "xhigh"}]}],
        });
        let switch = json!({"id": "fast", "category": "thought_level", "type": "boolean", "currentValue": true});
        let mut choice = Choices::of(&json!({"configOptions": [switch, option]})).thinking.expect("a choice");
        assert_eq!(choice.thinking_to_set(Thinking::Unspecified), Ok(None));
        assert_eq!(choice.thinking_to_set("xhigh".parse().unwrap()), Ok(Some("xhigh".into())));
        assert_eq!(choice.thinking_to_set(Thinking::Off), Ok(Some("minimal".into())));
        let why = choice.thinking_to_set(Thinking::High).unwrap_err();
        assert_eq!(why, "has no thinking level high: use one of minimal, medium, xhigh");
        let (method, parameters) = choice.choose("s", "xhigh");
        assert_eq!(
            (method, parameters),
            ("session/set_config_option", json!({"sessionId": "s", "configId": "effort", "value": "xhigh"}))
        );
        assert_eq!(choice.thinking_to_set(Thinking::Unspecified), Ok(Some("medium".into())));
        let changed = json!([{"id": "effort", "category": "thought_level", "currentValue": "minimal",
            "options": [{"value": "minimal"}, {"value": "high"}]}]);
        let mut choice = Some(choice);
        Choice::update(&mut choice, changed.as_array().expect("a list"));
        let choice = choice.expect("a choice");
        assert_eq!(choice.thinking_to_set(Thinking::High), Ok(Some("high".into())), "the host has changed it");
        assert_eq!(choice.thinking_to_set(Thinking::Unspecified), Ok(Some("medium".into())), "as it began");
    }

    #[test]
    fn a_host_without_options_chooses_its_model_by_a_request_of_its_own() {
        let answer = json!({"models": {"currentModelId": "auto", "availableModels": [{"modelId": "auto"}]}});
        let mut model = Choices::of(&answer).model.expect("a choice");
        assert_eq!(model.choose("s", "pro"), ("session/set_model", json!({"sessionId": "s", "modelId": "pro"})));
    }
}
