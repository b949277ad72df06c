//! A log as Markdown. The text of messages is copied unchanged.

use super::{Log, date};
use crate::domain::attachment::readable_text;
use crate::domain::message::{Body, Reply, replaced_mark};

pub(super) fn of(log: &Log, unix_ms: i64) -> String {
    let mut text = format!("# {}\n\n{}, {}\n", log.subject.label, log.subject.model, date(unix_ms));
    for part in log.messages.iter().filter_map(|message| part(&message.body)) {
        text.push('\n');
        text.push_str(part.trim_end());
        text.push('\n');
    }
    for note in &log.damaged {
        text.push_str(&format!("\n*{note}*\n"));
    }
    text
}

/// One message; `None` if it is not shown.
fn part(body: &Body) -> Option<String> {
    Some(match body {
        Body::System(text) => format!("## System\n\n{text}"),
        Body::User(text) => format!("## You\n\n{}", readable_text(text)),
        Body::Assistant(reply) => of_reply(reply),
        Body::ToolCall(call) => format!("**Call: {}**\n\n{}", call.name, fenced("json", &call.arguments)),
        Body::ToolResult(result) => {
            let what = if result.is_error { "Error" } else { "Result" };
            format!("**{what}: {}**\n\n{}", result.name, fenced("", &result.readable_text()))
        }
        Body::Compaction(compaction) => format!("---\n\n*{}*\n\n{}", compaction.note(), compaction.text()),
        Body::Command(text) => fenced("", text),
        Body::Error(text) => format!("**Error**\n\n{}", fenced("", text)),
        Body::Usage(_) => return None,
        Body::Replaced(why) => format!("*{}*", replaced_mark(why)),
        Body::Clear | Body::ClearUndone(_) | Body::CompactionUndone(_) => format!("---\n\n*{}*", body.mark_text()?),
        Body::Mark(_) | Body::Rewind(_) | Body::Fork(_) | Body::Interrupted(_) | Body::Exited | Body::AgentKilled => {
            format!("*{}*", body.mark_text()?)
        }
    })
}

fn of_reply(reply: &Reply) -> String {
    let author = if reply.by.is_empty() { "Model" } else { &reply.by };
    let thinking = reply.thinking.lines().map(|line| format!("> {line}\n")).collect::<String>();
    let gap = if thinking.is_empty() || reply.text.is_empty() { "" } else { "\n" };
    format!("## {author}\n\n{thinking}{gap}{}", reply.text)
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
    fn a_fence_is_longer_than_any_run_of_backticks_inside() {
        assert_eq!(fenced("", "x"), "```\nx\n```");
        assert_eq!(fenced("json", "a ```` b ``\n"), "`````json\na ```` b ``\n`````");
        assert_eq!(fenced("", ""), "```\n```");
    }
}
