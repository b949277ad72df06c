//! Which model supports which thinking levels, and how they are sent.
//!
//! | models | parameter | may be off |
//! |---|---|---|
//! | 2.5 Pro | a budget of 128 to 32768 tokens | no |
//! | 2.5 Flash | a budget of at most 24576 tokens | yes |
//! | 2.5 Flash-Lite | a budget of 512 to 24576 tokens | yes |
//! | 3 Pro and later | a level: low, medium (from 3.1), high | no |
//! | 3 Flash to 3.6 Flash, 3 Flash-Lite and later | a level: minimal, low, medium, high | nearly, as `minimal` |
//! | 3.7 Flash and later | a level: low, medium, high | no |
//! | 2.0 and before | nothing: they do not think | yes |
//!
//! From ai.google.dev/gemini-api/docs/generate-content/thinking. A budget and a level together are rejected, and a
//! level by 2.5. Unknown models get the level as it was set.

use serde::Serialize;

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::thinking::{Effort, Thinking};

/// Tokens for a level on models with a budget, as in Google's compatibility layer
/// (ai.google.dev/gemini-api/docs/openai).
const BUDGETS: [u32; 3] = [1024, 8192, 24576];

/// `generationConfig.thinkingConfig`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    /// Whether to send summaries of the thoughts.
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<Effort>,
}

/// How thinking is set for a model, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// It does not think.
    Plain,
    /// A number of tokens, and whether it may be off.
    Budget {
        least: u32,
        most: u32,
        may_be_off: bool,
    },
    /// The lowest level, and whether there is `medium`.
    Level {
        lowest: &'static str,
        has_medium: bool,
    },
    Unknown,
}

pub(super) fn check(model: &str, thinking: Thinking) -> Result<()> {
    config(model, thinking).map(|_| ())
}

/// The configuration for a model, if any.
pub(super) fn config(model: &str, thinking: Thinking) -> Result<Option<ThinkingConfig>> {
    let family = family_of(model);
    let refuse = |takes: &str| {
        Err(Error::new(
            ErrorKind::Usage,
            format!("{model} does not support thinking level {thinking}: it supports {takes}"),
        ))
    };
    match family {
        Family::Plain if matches!(thinking, Thinking::Unspecified | Thinking::Off) => Ok(None),
        Family::Plain => refuse("off only, because it does not think"),
        Family::Budget { least, most, may_be_off } => match budget(thinking, least, most, may_be_off) {
            Some(config) => Ok(config),
            None => {
                refuse(&format!("{}low, medium, high, or {least} to {most}", if may_be_off { "off, " } else { "" }))
            }
        },
        Family::Level { lowest, has_medium } => match level(thinking, lowest, has_medium) {
            Some(config) => Ok(Some(config)),
            None => refuse(match (lowest, has_medium) {
                ("minimal", _) => "off (nearly), low, medium or high",
                (_, true) => "low, medium or high",
                (_, false) => "low or high",
            }),
        },
        Family::Unknown => Ok(unknown(thinking)),
    }
}

/// Whether the model rejects a call of the current turn without a signature: Gemini 3 and later do.
pub(super) fn requires_signatures(model: &str) -> bool {
    matches!(family_of(model), Family::Level { .. })
}

fn budget(thinking: Thinking, least: u32, most: u32, may_be_off: bool) -> Option<Option<ThinkingConfig>> {
    let tokens = match thinking {
        // Flash-Lite does not think by default and then rejects `includeThoughts`.
        Thinking::Unspecified => return Some((least < 512).then(with_thoughts)),
        Thinking::Off if may_be_off => {
            return Some(Some(ThinkingConfig { thinking_budget: Some(0), ..ThinkingConfig::default() }));
        }
        Thinking::Low => BUDGETS[0],
        Thinking::Medium => BUDGETS[1],
        Thinking::High => BUDGETS[2],
        Thinking::Budget(tokens) if (least..=most).contains(&tokens) => tokens,
        Thinking::Off | Thinking::Budget(_) | Thinking::Effort(_) => return None,
    };
    Some(Some(ThinkingConfig { thinking_budget: Some(tokens), ..with_thoughts() }))
}

fn level(thinking: Thinking, lowest: &'static str, has_medium: bool) -> Option<ThinkingConfig> {
    let level = match thinking {
        Thinking::Unspecified => return Some(with_thoughts()),
        Thinking::Off if lowest == "minimal" => {
            return Some(ThinkingConfig { thinking_level: Effort::new(lowest), ..ThinkingConfig::default() });
        }
        Thinking::Medium if !has_medium => return None,
        _ => thinking.effort()?,
    };
    Some(ThinkingConfig { thinking_level: Effort::new(level), ..with_thoughts() })
}

fn unknown(thinking: Thinking) -> Option<ThinkingConfig> {
    let nothing = ThinkingConfig::default();
    match thinking {
        Thinking::Unspecified => None,
        Thinking::Off => Some(ThinkingConfig { thinking_budget: Some(0), ..nothing }),
        Thinking::Budget(tokens) => Some(ThinkingConfig { thinking_budget: Some(tokens), ..with_thoughts() }),
        _ => Some(ThinkingConfig { thinking_level: thinking.effort().and_then(Effort::new), ..with_thoughts() }),
    }
}

fn with_thoughts() -> ThinkingConfig {
    ThinkingConfig { include_thoughts: Some(true), ..ThinkingConfig::default() }
}

/// `gemini-3.1-pro-preview`, `gemini-2.5-flash-lite`, `gemini-flash-latest`: by version, then by size.
fn family_of(model: &str) -> Family {
    let model = model.strip_prefix("models/").unwrap_or(model);
    let Some(rest) = model.strip_prefix("gemini-") else { return Family::Unknown };
    let (version, size) = match rest.split_once('-') {
        Some((version, size)) if version.starts_with(|c: char| c.is_ascii_digit()) => (version_of(version), size),
        // The newest of its size.
        Some((_, "latest" | "lite-latest")) => (Some((u32::MAX, 0)), rest),
        _ => return Family::Unknown,
    };
    let (is_lite, is_flash) = (size.starts_with("flash-lite"), size.starts_with("flash"));
    match version {
        None => Family::Unknown,
        Some((0..=1, _) | (2, 0..=4)) => Family::Plain,
        Some((2, _)) if is_lite => Family::Budget { least: 512, most: 24576, may_be_off: true },
        Some((2, _)) if is_flash => Family::Budget { least: 1, most: 24576, may_be_off: true },
        Some((2, _)) => Family::Budget { least: 128, most: 32768, may_be_off: false },
        Some(version) if is_lite || is_flash && version <= (3, 6) => {
            Family::Level { lowest: "minimal", has_medium: true }
        }
        Some(version) => Family::Level { lowest: "low", has_medium: is_flash || version >= (3, 1) },
    }
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::thinking::Thinking::{Budget, High, Low, Medium, Off, Unspecified};

    fn config_of(model: &str, thinking: Thinking) -> String {
        match config(model, thinking) {
            Ok(config) => config.map(|config| serde_json::to_string(&config).unwrap()).unwrap_or_default(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn every_model_gets_the_parameter_of_its_generation() {
        let cases = [
            ("gemini-2.5-pro", Unspecified, r#"{"includeThoughts":true}"#),
            ("gemini-2.5-pro", High, r#"{"includeThoughts":true,"thinkingBudget":24576}"#),
            ("gemini-2.5-pro", Budget(32768), r#"{"includeThoughts":true,"thinkingBudget":32768}"#),
            ("gemini-2.5-flash", Off, r#"{"thinkingBudget":0}"#),
            ("gemini-2.5-flash-lite", Unspecified, ""),
            ("gemini-2.5-flash-lite", Low, r#"{"includeThoughts":true,"thinkingBudget":1024}"#),
            ("models/gemini-3.8-flash", Medium, r#"{"includeThoughts":true,"thinkingLevel":"medium"}"#),
            ("gemini-3-flash-preview", Off, r#"{"thinkingLevel":"minimal"}"#),
            ("gemini-3.5-flash-lite", Off, r#"{"thinkingLevel":"minimal"}"#),
            ("gemini-flash-lite-latest", Off, r#"{"thinkingLevel":"minimal"}"#),
            ("gemini-pro-latest", Medium, r#"{"includeThoughts":true,"thinkingLevel":"medium"}"#),
            ("gemini-2.0-flash", Off, ""),
            ("gemma-4-31b-it", High, r#"{"includeThoughts":true,"thinkingLevel":"high"}"#),
            ("gemma-4-31b-it", Unspecified, ""),
        ];
        for (model, thinking, expected) in cases {
            assert_eq!(config_of(model, thinking), expected, "{model} {thinking}");
        }
    }

    #[test]
    fn an_unsupported_level_is_refused_with_the_supported_ones() {
        let cases = [
            ("gemini-2.5-pro", Off, "it supports low, medium, high, or 128 to 32768"),
            ("gemini-2.5-pro", Budget(32769), "128 to 32768"),
            ("gemini-2.5-flash", Budget(24577), "it supports off, low"),
            ("gemini-2.5-flash-lite", Budget(511), "512 to 24576"),
            ("gemini-3.1-pro-preview", Off, "it supports low, medium or high"),
            ("gemini-3-pro-preview", Medium, "it supports low or high"),
            ("gemini-3.7-flash", Off, "it supports low, medium or high"),
            ("gemini-3.8-flash", Budget(1000), "it supports low, medium or high"),
            ("gemini-flash-latest", Off, "it supports low, medium or high"),
            ("gemini-2.0-flash", Low, "it does not think"),
        ];
        for (model, thinking, expected) in cases {
            assert!(
                config_of(model, thinking).contains(expected),
                "{model} {thinking}: {}",
                config_of(model, thinking)
            );
        }
    }

    #[test]
    fn signatures_are_required_from_gemini_3_on() {
        for model in ["gemini-3-pro-preview", "gemini-3.8-flash", "gemini-4-flash", "gemini-flash-latest"] {
            assert!(requires_signatures(model), "{model}");
        }
        for model in ["gemini-2.5-pro", "gemini-2.0-flash", "gemma-4-31b-it", "gemini-exp-1206"] {
            assert!(!requires_signatures(model), "{model}");
        }
    }
}
