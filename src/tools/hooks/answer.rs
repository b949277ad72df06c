//! What the exit code and the output of a hook mean.

use serde_json::Value;

use super::HookDecision;
use super::process::Ended;
use crate::base::text::{sanitise, shortened};
use crate::domain::hook::HookEvent;

/// Blocks the reported action, with the reason on standard error.
const BLOCKS: i32 = 2;
/// In characters.
const MAX_REASON: usize = 4_000;
const MAX_CONTEXT: usize = 16_000;
pub const MAX_LINE: usize = 300;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub decision: Option<HookDecision>,
    pub updated: Option<Value>,
    pub context: Option<String>,
    /// For the person.
    pub message: Option<String>,
}

pub fn read(ended: &Ended, event: HookEvent) -> Result<Answer, String> {
    match ended.code {
        Some(0) => of_output(&ended.output, event),
        Some(BLOCKS) => {
            let reason = clean(&ended.errors, MAX_REASON);
            let reason = if reason.is_empty() { "no reason given".into() } else { reason };
            Ok(Answer { decision: Some(HookDecision::Deny(reason)), ..Answer::default() })
        }
        code => {
            let code = code.map_or("ended by a signal".into(), |code| format!("exit {code}"));
            let first = clean(ended.errors.trim().lines().next().unwrap_or_default(), MAX_LINE);
            Err(if first.is_empty() { code } else { format!("{code}: {first}") })
        }
    }
}

/// Output that is no JSON object is context for the model if it comes before a turn. Otherwise it is ignored.
fn of_output(output: &str, event: HookEvent) -> Result<Answer, String> {
    if !output.trim_start().starts_with('{') {
        let is_context = matches!(event, HookEvent::SessionStart | HookEvent::UserPrompt);
        let context = Some(clean(output, MAX_CONTEXT)).filter(|text| is_context && !text.is_empty());
        return Ok(Answer { context, ..Answer::default() });
    }
    let json: Value = serde_json::from_str(output).map_err(|error| format!("printed invalid JSON ({error})"))?;
    let own = &json["hookSpecificOutput"];
    let text =
        |value: &Value, most: usize| value.as_str().map(|text| clean(text, most)).filter(|text| !text.is_empty());
    let asked = &own["decision"];
    let reason = [&own["permissionDecisionReason"], &asked["message"], &json["reason"], &json["stopReason"]];
    let reason = reason.iter().find_map(|value| text(value, MAX_REASON));
    let reason = || reason.clone().unwrap_or_else(|| "no reason given".into());
    let named = own["permissionDecision"].as_str().or_else(|| asked["behavior"].as_str());
    let named = named.or_else(|| json["decision"].as_str());
    let is_end = matches!(event, HookEvent::Stop | HookEvent::SubagentStop);
    let decision = match named {
        _ if json["continue"] == false && !is_end => Some(HookDecision::Deny(reason())),
        Some("allow" | "approve") => Some(HookDecision::Allow),
        Some("ask") => Some(HookDecision::Ask(reason())),
        Some("deny" | "block") => Some(HookDecision::Deny(reason())),
        Some(other) => return Err(format!("printed the unknown decision {:?}", shortened(&sanitise(other), 40))),
        None => None,
    };
    Ok(Answer {
        decision,
        updated: [&own["updatedInput"], &asked["updatedInput"]].into_iter().find(|input| input.is_object()).cloned(),
        context: text(&own["additionalContext"], MAX_CONTEXT),
        message: text(&json["systemMessage"], MAX_LINE).map(|text| text.replace('\n', " ")),
    })
}

fn clean(text: &str, most: usize) -> String {
    shortened(&sanitise(text.trim()), most).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, output: &str, errors: &str) -> Ended {
        Ended { code: Some(code), output: output.into(), errors: errors.into(), ..Ended::default() }
    }

    fn decision(output: &str) -> Option<HookDecision> {
        read(&ended(0, output, ""), HookEvent::PreTool).unwrap().decision
    }

    #[test]
    fn exit_codes_and_both_forms_of_decisions_are_understood() {
        let deny = |reason: &str| Some(HookDecision::Deny(reason.into()));
        let specific =
            |fields: &str| format!("{{\"hookSpecificOutput\":{{\"hookEventName\":\"PreToolUse\",{fields}}}}}");
        assert_eq!(decision(&specific(r#""permissionDecision":"allow""#)), Some(HookDecision::Allow));
        assert_eq!(
            decision(&specific(r#""permissionDecision":"ask","permissionDecisionReason":"why""#)),
            Some(HookDecision::Ask("why".into()))
        );
        assert_eq!(decision(&specific(r#""permissionDecision":"deny""#)), deny("no reason given"));
        assert_eq!(decision(r#"{"decision":"block","reason":"no"}"#), deny("no"));
        assert_eq!(decision(r#"{"continue":false,"stopReason":"enough"}"#), deny("enough"));
        assert_eq!((decision(""), decision("all is well"), decision("{}")), (None, None, None));
        let blocked = read(&ended(2, r#"{"decision":"approve"}"#, " no\u{1b}[2J "), HookEvent::PreTool).unwrap();
        assert_eq!(blocked.decision, deny("no␛[2J"));
    }

    #[test]
    fn the_answer_to_a_question_is_understood() {
        let answer = |decision: &str| {
            let output = format!("{{\"hookSpecificOutput\":{{\"decision\":{decision}}}}}");
            read(&ended(0, &output, ""), HookEvent::PermissionRequest).unwrap()
        };
        let allowed = answer(r#"{"behavior":"allow","updatedInput":{"a":1}}"#);
        assert_eq!((allowed.decision, allowed.updated), (Some(HookDecision::Allow), Some(serde_json::json!({"a": 1}))));
        let denied = answer(r#"{"behavior":"deny","message":"not today"}"#);
        assert_eq!(denied.decision, Some(HookDecision::Deny("not today".into())));
    }

    #[test]
    fn text_is_for_the_model_before_a_turn_only() {
        for (event, expected) in [
            (HookEvent::SessionStart, Some("the branch is main")),
            (HookEvent::UserPrompt, Some("the branch is main")),
            (HookEvent::PreTool, None),
            (HookEvent::Stop, None),
        ] {
            let answer = read(&ended(0, " the branch is main\n", ""), event).unwrap();
            assert_eq!((answer.context.as_deref(), answer.decision), (expected, None), "{event:?}");
        }
    }

    #[test]
    fn failures_say_what_happened() {
        for (code, output, errors, expected) in [
            (1, "", "first\nsecond", "exit 1: first"),
            (127, "", "", "exit 127"),
            (0, "{\"decision\":", "", "printed invalid JSON"),
            (0, r#"{"decision":"maybe"}"#, "", "unknown decision \"maybe\""),
        ] {
            let why = read(&ended(code, output, errors), HookEvent::PreTool).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn context_and_changed_input_are_taken() {
        let output =
            r#"{"systemMessage":"a\nb","hookSpecificOutput":{"additionalContext":"more","updatedInput":{"a":1}}}"#;
        let answer = read(&ended(0, output, ""), HookEvent::PostTool).unwrap();
        assert_eq!((answer.context.as_deref(), answer.message.as_deref()), (Some("more"), Some("a b")));
        assert_eq!(answer.updated, Some(serde_json::json!({"a": 1})));
    }
}
