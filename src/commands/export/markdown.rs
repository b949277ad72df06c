//! A log as Markdown: who spoke, what was called and answered. What was said keeps its own form.

use super::date;
use crate::commands::CommandContext;
use crate::domain::message::{Body, Message, Reply};

/// The whole log.
pub(super) fn of(context: &CommandContext, messages: &[Message], damaged: &[String]) -> String {
    let (label, model) = match context.agent() {
        Ok(agent) => (agent.identity.label(), agent.talk.endpoint.full_name()),
        Err(_) => (context.current.to_string(), String::new()),
    };
    let mut text = format!("# {label}\n\n{model}, {}\n", date(context.unix_ms));
    for part in messages.iter().filter_map(|message| part(&message.body)) {
        text.push('\n');
        text.push_str(part.trim_end());
        text.push('\n');
    }
    for words in damaged {
        text.push_str(&format!("\n*{words}*\n"));
    }
    text
}

/// One message; none for what only counts.
fn part(body: &Body) -> Option<String> {
    Some(match body {
        Body::System(words) => format!("## System\n\n{words}"),
        Body::User(words) => format!("## You\n\n{words}"),
        Body::Assistant(reply) => of_reply(reply),
        Body::ToolCall(call) => format!("**Call: {}**\n\n{}", call.name, fenced("json", &call.arguments)),
        Body::ToolResult(result) => {
            let what = if result.is_error { "Error" } else { "Result" };
            format!("**{what}: {}**\n\n{}", result.name, fenced("", &result.content))
        }
        Body::Clear => "---\n\n*cleared: the model forgot what is above*".into(),
        Body::Mark(label) => format!("*mark {label}*"),
        Body::Rewind(_) => "*rewound*".into(),
        Body::Fork(other) => format!("*fork {other}*"),
        Body::Interrupted(why) => format!("*{why}*"),
        Body::AgentKilled => "*killed*".into(),
        Body::Command(words) => fenced("", words),
        Body::Error(words) => format!("**Error**\n\n{}", fenced("", words)),
        Body::Usage(_) => return None,
    })
}

fn of_reply(reply: &Reply) -> String {
    let agent_id = if reply.by.is_empty() { "Model" } else { &reply.by };
    let thinking = reply.thinking.lines().map(|line| format!("> {line}\n")).collect::<String>();
    let gap = if thinking.is_empty() || reply.text.is_empty() { "" } else { "\n" };
    format!("## {agent_id}\n\n{thinking}{gap}{}", reply.text)
}

/// A block whose fence is longer than any run of backticks inside (CommonMark 0.31, section 4.5).
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_all_inside() {
        assert_eq!(fenced("", "x"), "```\nx\n```");
        assert_eq!(fenced("json", "a ```` b ``\n"), "`````json\na ```` b ``\n`````");
        assert_eq!(fenced("", ""), "```\n```");
    }
}
