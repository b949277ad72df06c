//! `/slice`: a child with part of this conversation. `count` and `list` show what can be sliced.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest, WhenBusy};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::change::{Change, HistoryEdit};
use crate::domain::flow::InputResult;
use crate::domain::message::{Body, Message};
use crate::domain::slice::SliceSpec;

pub const SLICE: CommandSpec = CommandSpec {
    arguments: "SPEC | count | list",
    busy: WhenBusy::Queues,
    define: |command| command.arg(positional("spec", "SPEC")),
    rest: Some(Rest::AsTyped("spec")),
    complete: Some(|_, _| FORMS.iter().map(|form| (*form).to_owned()).collect()),
    ..CommandSpec::new("slice", "create a child with part of this conversation", run)
};

const FORMS: &[&str] = &["count", "list", "0:50%", "-10:", "summarize:0:50%,50%:", "compact:0:-10,-10:", "inject:'"];

const GRAMMAR: &str = "\
a spec is a list of segments, separated by commas, in the order the child gets them:
  a:b                        messages a to b, without b: 0 is the first message,
                             -1 the last, 50% the middle; both may be omitted
  compact:a:b                the same, with long tool results shortened
  summarize:a:b[:'goal']     a summary of them, written by this agent's model
  inject:'text'              your own text; write a quote in it twice
a tool call is never separated from its result: the range is extended";

/// Columns of the text of a message in the list.
const COLUMNS: usize = 56;
/// Messages at each end of a long list.
const LISTED: usize = 100;

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let describe = |f: fn(&[&Message]) -> String| context.with_history(|history| f(&history.conversation()));
    match value_of(given, "spec").unwrap_or_default() {
        "" => Ok(InputResult::Continue(Some(format!("{}\n{GRAMMAR}", describe(count)?)))),
        "count" => Ok(InputResult::Continue(Some(describe(count)?))),
        "list" => Ok(InputResult::Continue(Some(describe(list)?))),
        spec => Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::Slice(SliceSpec::parse(spec)?)), None)),
    }
}

fn count(rows: &[&Message]) -> String {
    let by = |kind: &str| rows.iter().filter(|row| row.body.kind() == kind).count();
    let all = text::counted(rows.len(), "message", "messages");
    let replies = text::counted(by("assistant"), "reply", "replies");
    let calls = text::counted(by("tool_call"), "call", "calls");
    let results = text::counted(by("tool_result"), "result", "results");
    format!("{all}: {} from you, {replies}, {calls}, {results}", by("user"))
}

/// One line per message: its index, its author and the beginning of its text. Of a long conversation both ends.
fn list(rows: &[&Message]) -> String {
    let hidden = rows.len().saturating_sub(2 * LISTED);
    let mut lines: Vec<String> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if hidden == 0 || at < LISTED || at >= LISTED + hidden {
            lines.push(line(at, &row.body));
        } else if at == LISTED {
            lines.push(format!("… {hidden} more"));
        }
    }
    lines.push(count(rows));
    lines.join("\n")
}

fn line(at: usize, body: &Body) -> String {
    let (author, text) = match body {
        Body::User(text) => ("you", text.clone()),
        Body::Assistant(reply) => ("reply", reply.text.clone()),
        Body::ToolCall(call) => ("call", format!("{} {}", call.name, call.arguments)),
        Body::ToolResult(result) => ("result", result.readable_text().into_owned()),
        Body::System(text) => ("system", text.clone()),
        _ => return String::new(),
    };
    let text: String = text.chars().take(4 * COLUMNS).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{at:>5}  {author:<6} {}", text::truncate(&text, COLUMNS))
}
