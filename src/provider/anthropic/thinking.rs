//! Which Claude supports which thinking levels, and how they are sent.
//!
//! The rules are those of platform.claude.com/docs/en/build-with-claude/extended-thinking, .../adaptive-thinking,
//! .../effort and the migration guides of the models, as of autumn 2026:
//!
//! | models | thinking |
//! |---|---|
//! | before 3.7 | none |
//! | 3.7 to 4.5 | off unless a budget is set |
//! | 4.6 | off unless a budget or `adaptive` is set |
//! | 4.7 and 4.8 | off unless `adaptive` is set; a budget is rejected |
//! | 5 | `adaptive` unless it is disabled; a budget is rejected |
//! | Sonnet 5.5 | the same, but off is called `between_tools` |
//! | Opus 5.5, Fable, Mythos | always; a budget and disabling it are rejected |
//!
//! From 4.7 on a model shows its thinking and its text between calls only on request. From 5.1 on signed thinking is
//! bound to everything before it, and a request with other instructions, tools or messages there fails
//! (.../preserved-thinking). Conversations here may change, so these models are asked to drop thinking that does not
//! match.
//!
//! Models of other vendors get a budget; their default is not known.

use serde_json::json;

use crate::base::error::{Error, Result};
use crate::domain::endpoint::Endpoint;
use crate::domain::thinking::{Effort, Thinking};
use crate::provider::parameters::Fields;

/// The smallest budget that the API accepts.
const MIN_BUDGET: u64 = 1024;
/// Tokens for the reply without thinking, if the model has as many.
const ANSWER: u64 = 32_000;

/// How thinking is set for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// It does not think.
    Never,
    /// A number of tokens.
    Budget,
    /// A number of tokens or an effort.
    Either,
    Effort,
    /// An effort; it thinks by default and can be disabled.
    Usual,
    /// As `Usual`, but disabled by another value.
    Between,
    /// An effort, and it cannot be disabled.
    Always,
    /// A model of another vendor.
    Foreign,
}

/// The thinking parameters of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// None; `thinks` if the model may think by default.
    Silent {
        thinks: bool,
    },
    Off(&'static str),
    /// A budget in tokens.
    Budget(u64),
    /// Adaptive; `is_hidden` if the model shows its thinking only on request.
    Adaptive {
        effort: Option<Effort>,
        is_hidden: bool,
    },
}

/// The size and thinking parameters of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// Tokens of the reply, thinking included.
    pub max_tokens: u64,
    pub mode: Mode,
}

pub(super) fn check(model: &str, thinking: Thinking) -> Result<()> {
    let refuse = |message: String| Err(Error::usage(message));
    let style = style_of(model);
    match (style, thinking) {
        (_, Thinking::Unspecified) | (Style::Never, Thinking::Off) => Ok(()),
        (Style::Never, _) => refuse(format!("{model} does not support thinking")),
        (Style::Always, Thinking::Off) => refuse(format!("{model} always thinks: use low, medium, high or default")),
        (Style::Effort | Style::Usual | Style::Between | Style::Always, Thinking::Budget(_)) => {
            refuse(format!("{model} supports low, medium or high, not a number of tokens"))
        }
        (Style::Budget | Style::Foreign, Thinking::Effort(_)) => {
            refuse(format!("{model} supports off, low, medium, high or a number of tokens"))
        }
        (_, Thinking::Budget(tokens)) => {
            let most = usual_output(model) - 1;
            match (MIN_BUDGET..=most).contains(&u64::from(tokens)) {
                true => Ok(()),
                false => refuse(format!("{model} supports a number of tokens from {MIN_BUDGET} to {most}")),
            }
        }
        _ => Ok(()),
    }
}

/// The parameters for this model, within the size of its replies.
pub(super) fn plan(endpoint: &Endpoint, thinking: Thinking) -> Plan {
    let limit = endpoint
        .facts
        .max_output
        .or(endpoint.facts.output_limit)
        .unwrap_or_else(|| usual_output(&endpoint.model))
        .max(1);
    let style = style_of(&endpoint.model);
    let budget = match (style, thinking) {
        (Style::Budget | Style::Either | Style::Foreign, Thinking::Budget(tokens)) => Some(u64::from(tokens)),
        (Style::Budget | Style::Foreign, Thinking::Low) => Some(4_096),
        (Style::Budget | Style::Foreign, Thinking::Medium) => Some(12_000),
        // More than 32,000 needs batch requests because of network timeouts (extended-thinking, "budgets").
        (Style::Budget | Style::Foreign, Thinking::High) => Some(31_999),
        _ => None,
    };
    let Some(budget) = budget else {
        return Plan { max_tokens: limit.min(ANSWER), mode: without_budget(style, thinking) };
    };
    let max_tokens = limit.min(budget + ANSWER);
    // Leaves at least an eighth for the reply itself.
    let budget = budget.min(max_tokens - max_tokens / 8);
    let mode = match budget {
        MIN_BUDGET.. if budget < max_tokens => Mode::Budget(budget),
        _ => Mode::Silent { thinks: style == Style::Foreign },
    };
    Plan { max_tokens, mode }
}

fn without_budget(style: Style, thinking: Thinking) -> Mode {
    let effort = thinking.effort().and_then(Effort::new);
    match (style, thinking) {
        (Style::Usual | Style::Foreign, Thinking::Off) => Mode::Off("disabled"),
        (Style::Between, Thinking::Off) => Mode::Off("between_tools"),
        (Style::Usual | Style::Between | Style::Always, _) => Mode::Adaptive { effort, is_hidden: true },
        (Style::Effort, _) if effort.is_some() => Mode::Adaptive { effort, is_hidden: true },
        (Style::Either, _) if effort.is_some() => Mode::Adaptive { effort, is_hidden: false },
        _ => Mode::Silent { thinks: style == Style::Foreign },
    }
}

impl Mode {
    /// Whether the reply may contain thinking; then earlier thinking is sent back.
    pub fn thinks(self) -> bool {
        !matches!(self, Mode::Silent { thinks: false } | Mode::Off(_))
    }

    /// Sets the fields of the body. For `is_bound` see [`binds`].
    pub fn set_in(self, fields: &mut Fields, is_bound: bool) {
        const FIELD: &str = "thinking";
        match self {
            Mode::Silent { .. } => {}
            Mode::Off(value) => fields.set_in(FIELD, "type", Some(value)),
            Mode::Budget(tokens) => {
                fields.set_in(FIELD, "type", Some("enabled"));
                fields.set_in(FIELD, "budget_tokens", Some(tokens));
            }
            Mode::Adaptive { effort, is_hidden } => {
                fields.set_in(FIELD, "type", Some("adaptive"));
                fields.set_in(FIELD, "display", is_hidden.then_some("summarized"));
                let drops_unbound = json!({"prefix_mismatch_behavior": "drop_block"});
                fields.set_in(FIELD, "block_binding", is_bound.then_some(drops_unbound));
                fields.set_in("output_config", "effort", effort.map(|effort| effort.name().to_owned()));
            }
        }
    }
}

/// Whether a model's signed thinking is bound to its prefix.
pub(super) fn binds(model: &str) -> bool {
    claude_in(model).and_then(version_of).is_some_and(|version| version >= (5, 1))
}

/// By family and version, anywhere in the name, because resellers add to it (`us.anthropic.claude-...`).
fn style_of(model: &str) -> Style {
    let Some(name) = claude_in(model) else { return Style::Foreign };
    if name.contains("fable") || name.contains("mythos") {
        return Style::Always;
    }
    match version_of(name) {
        Some((..=2, _) | (3, ..=6)) => Style::Never,
        Some((3, _) | (4, ..=5)) => Style::Budget,
        Some((4, 6)) => Style::Either,
        Some((4, _)) => Style::Effort,
        Some((5.., 5..) | (6.., _)) if name.contains("opus") => Style::Always,
        Some((5.., 5..) | (6.., _)) if name.contains("sonnet") => Style::Between,
        Some(_) | None => Style::Usual,
    }
}

/// Maximum tokens of a reply (platform.claude.com/docs/en/about-claude/models/overview); a safe value for other
/// vendors.
fn usual_output(model: &str) -> u64 {
    let Some(name) = claude_in(model) else { return 8_192 };
    match version_of(name) {
        Some((..=2, _) | (3, ..=4)) => 4_096,
        Some((3, ..=6)) => 8_192,
        Some((4, ..=1)) if name.contains("opus") => 32_000,
        Some((3, _) | (4, ..=5)) => 64_000,
        Some((4, 6)) if name.contains("sonnet") => 64_000,
        Some(_) | None => 128_000,
    }
}

fn claude_in(model: &str) -> Option<&str> {
    model.find("claude-").map(|at| &model[at..])
}

/// Major and minor: the first numbers of one or two digits. Longer ones are dates.
fn version_of(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.split(['-', '.', '@', ':']).skip_while(|part| number_of(part).is_none());
    let major = number_of(parts.next()?)?;
    Some((major, parts.next().and_then(number_of).unwrap_or(0)))
}

fn number_of(part: &str) -> Option<u32> {
    (part.len() <= 2).then(|| part.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    fn mode(model: &str, thinking: Thinking) -> Mode {
        plan(&Endpoint { model: model.into(), ..Endpoint::echo() }, thinking).mode
    }

    #[test]
    fn family_and_version_are_found_in_the_names_of_all_resellers() {
        let names = [
            ("claude-3-5-haiku-20241022", Style::Never),
            ("claude-3-opus-20240229", Style::Never),
            ("claude-2.1", Style::Never),
            ("claude-3-7-sonnet-latest", Style::Budget),
            ("claude-sonnet-4-20250514", Style::Budget),
            ("claude-opus-4-1-20250805", Style::Budget),
            ("claude-haiku-4-5", Style::Budget),
            ("anthropic/claude-sonnet-4.5", Style::Budget),
            ("us.anthropic.claude-opus-4-6-v1", Style::Either),
            ("claude-opus-4-7", Style::Effort),
            ("claude-opus-4-8@20260501", Style::Effort),
            ("claude-opus-5", Style::Usual),
            ("claude-sonnet-5", Style::Usual),
            ("claude-sonnet-5-20260801", Style::Usual),
            ("anthropic/claude-haiku-5.5", Style::Usual),
            ("claude-sonnet-5-5", Style::Between),
            ("us.anthropic.claude-opus-5-5", Style::Always),
            ("claude-opus-6", Style::Always),
            ("claude-fable-5", Style::Always),
            ("claude-mythos-preview", Style::Always),
            ("kimi-k2", Style::Foreign),
        ];
        for (name, style) in names {
            assert_eq!(style_of(name), style, "{name}");
        }
    }

    #[test]
    fn levels_that_the_api_rejects_are_refused() {
        let refused = [
            ("claude-3-5-haiku-latest", Thinking::Low),
            ("claude-haiku-4-5", Thinking::Budget(1023)),
            ("claude-haiku-4-5", Thinking::Budget(64_000)),
            ("claude-opus-4-7", Thinking::Budget(2048)),
            ("claude-opus-5", Thinking::Budget(2048)),
            ("claude-fable-5", Thinking::Off),
            ("claude-opus-5-5", Thinking::Off),
            ("claude-sonnet-5-5", Thinking::Budget(2048)),
            ("kimi-k2", Thinking::Budget(u32::MAX)),
        ];
        for (model, thinking) in refused {
            assert_eq!(check(model, thinking).unwrap_err().kind, ErrorKind::Usage, "{model} {thinking}");
        }
        for model in ["claude-3-haiku-20240307", "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5", "kimi-k2"] {
            assert_eq!((check(model, Thinking::Unspecified), check(model, Thinking::Off)), (Ok(()), Ok(())), "{model}");
        }
        assert_eq!(check("claude-opus-4-6", Thinking::Budget(1024)), Ok(()));
        assert_eq!(check("claude-fable-5", Thinking::High), Ok(()));
    }

    #[test]
    fn a_budget_is_at_least_1024_and_leaves_room_for_the_reply() {
        for max_output in [None, Some(0), Some(1), Some(1024), Some(1170), Some(2000), Some(64_000)] {
            for thinking in [Thinking::Low, Thinking::High, Thinking::Budget(1), Thinking::Budget(u32::MAX)] {
                let mut endpoint = Endpoint { model: "claude-haiku-4-5".into(), ..Endpoint::echo() };
                endpoint.facts.max_output = max_output;
                let plan = plan(&endpoint, thinking);
                if let Mode::Budget(tokens) = plan.mode {
                    assert!((MIN_BUDGET..plan.max_tokens).contains(&tokens), "{max_output:?} {thinking} {plan:?}");
                }
            }
        }
        assert_eq!(mode("claude-haiku-4-5", Thinking::High), Mode::Budget(31_999));
    }

    #[test]
    fn the_parameters_depend_on_the_default_of_the_model() {
        let unasked = Mode::Adaptive { effort: None, is_hidden: true };
        assert_eq!(mode("claude-opus-4-8", Thinking::Off), Mode::Silent { thinks: false });
        assert_eq!(mode("claude-opus-4-8", Thinking::Unspecified), Mode::Silent { thinks: false });
        assert_eq!(mode("claude-opus-5", Thinking::Off), Mode::Off("disabled"));
        assert_eq!(mode("claude-haiku-5-5", Thinking::Off), Mode::Off("disabled"));
        assert_eq!(mode("claude-sonnet-5-5", Thinking::Off), Mode::Off("between_tools"));
        assert_eq!(mode("claude-opus-5", Thinking::Unspecified), unasked);
        assert_eq!(
            mode("claude-opus-4-6", Thinking::Low),
            Mode::Adaptive { effort: Effort::new("low"), is_hidden: false }
        );
        assert_eq!(mode("claude-fable-5", Thinking::Off), unasked, "what was chosen for another model");
        assert_eq!(mode("claude-opus-5", Thinking::Budget(5000)), unasked);
        assert_eq!(mode("kimi-k2", Thinking::Unspecified), Mode::Silent { thinks: true });
    }

    #[test]
    fn thinking_is_bound_to_its_prefix_from_5_1_on() {
        for model in ["claude-fable-5-1", "claude-opus-5-5", "anthropic/claude-haiku-5.5", "claude-sonnet-6"] {
            assert!(binds(model), "{model}");
        }
        for model in
            ["claude-fable-5", "claude-opus-5-20260901", "claude-haiku-4-5", "claude-mythos-preview", "kimi-k2"]
        {
            assert!(!binds(model), "{model}");
        }
    }
}
