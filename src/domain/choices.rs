//! The choices with which a conversation begins. The command line, the environment and the configuration of the asking
//! process are resolved to them (`cli::config::choices`), so that they are the same whichever process runs the agents.
//! For an existing conversation they are the changes of a command line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is missing is taken from the configuration of the process that runs the agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choices {
    /// As `provider/model`.
    pub model: Option<String>,
    pub thinking: Option<String>,
    /// The specification of the environment, without a directory.
    pub environment: Option<String>,
    /// The whole system prompt.
    pub system: Option<String>,
    /// The name of the policy.
    pub approval: Option<String>,
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    /// Parameters of requests by name, the thinking level excepted.
    pub parameters: BTreeMap<String, Value>,
    /// The model is offered no tools.
    pub no_tools: bool,
}

impl Choices {
    /// The same choices with another model, without what was resolved for the previous one.
    #[must_use]
    pub fn with_model(self, model: &str) -> Self {
        Self { model: Some(model.to_owned()), thinking: None, parameters: BTreeMap::new(), ..self }
    }

    /// The choices in words, for a note; `None` if there are none.
    pub fn describe(&self) -> Option<String> {
        let rules = |name: &str, rules: &[String]| -> Vec<String> {
            rules.iter().map(|rule| format!("{name} {rule}")).collect()
        };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut parts: Vec<String> = self.model.iter().map(|model| format!("model {model}")).collect();
        parts.extend(self.thinking.iter().map(|thinking| format!("thinking {thinking}")));
        parts.extend(self.approval.iter().map(|policy| format!("approval {policy}")));
        parts.extend(self.parameters.iter().map(|(name, value)| format!("{name} {}", text(value))));
        parts.extend(rules("allow", &self.allow));
        parts.extend(rules("ask", &self.ask));
        parts.extend(rules("deny", &self.deny));
        parts.extend(self.no_tools.then(|| "no tools".to_owned()));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The conversation that a terminal shows first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Opening {
    /// A conversation by name, number or id; it counts before `opens`.
    pub agent: Option<String>,
    /// Which one otherwise.
    pub opens: Opens,
    /// What a new one begins with.
    pub choices: Choices,
    /// What is changed of another one.
    pub options: Choices,
    /// What is sent to it.
    pub prompt: Option<String>,
    /// What the person is told there.
    pub notes: Vec<String>,
    /// The panel that sets up a model is shown first.
    pub sets_up: bool,
}

/// Which conversation a terminal shows if none is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opens {
    /// The one that the process showed last.
    #[default]
    Shown,
    New,
    /// The last one of the directory that a person had.
    Last,
    /// The one that the person chooses in a list.
    Listed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_said() {
        assert_eq!(Choices::default().describe(), None);
        let given = Choices {
            model: Some("openai/x".into()),
            approval: Some("plan".into()),
            allow: vec!["bash(ls)".into()],
            parameters: BTreeMap::from([("seed".into(), 7.into()), ("stop".into(), "END".into())]),
            ..Choices::default()
        };
        let said = "model openai/x, approval plan, seed 7, stop END, allow bash(ls)";
        assert_eq!(given.describe().as_deref(), Some(said));
    }
}
