//! `/slice`: a child whose history is a cut of this one. `count` and `list` tell what there is to cut.

use super::{CommandContext, CommandSpec, WhenBusy};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::{Change, InputResult};
use crate::domain::message::{Body, Message};
use crate::domain::slice::SliceSpec;

/// `/slice`.
pub const SLICE: CommandSpec = CommandSpec {
    name: "slice",
    aliases: &[],
    arguments: "SPEC | count | list",
    about: "a child with a cut of this history",
    busy: WhenBusy::Queues,
    run,
    complete: |_, _| FORMS.iter().map(|form| (*form).to_owned()).collect(),
};

/// What could stand behind the name, for completion.
const FORMS: &[&str] = &["count", "list", "0:50%", "-10:", "summarize:0:50%,50%:", "compact:0:-10,-10:", "inject:'"];

/// What a spec is made of, for a person.
const GRAMMAR: &str = "\
a spec is made of segments, with commas between, in the order of the child:
  a:b                        messages from a to before b; 0 is the first one,
                             -1 the last one, 50% the middle; either may be left out
  compact:a:b                the same, with long results of tools made short
  summarize:a:b[:'goal']     a summary of them, written by this agent's model
  inject:'text'              a text of your own; a quote in it is written twice
a call is never cut from its result: a range grows until both are in it";

/// Columns of a message in the list.
const COLUMNS: usize = 56;
/// Messages at each end of a long list.
const LISTED: usize = 100;

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let tell = |of: fn(&[&Message]) -> String| context.with_history(|history| of(&history.conversation()));
    match arguments {
        "" => Ok(InputResult::Continue(Some(format!("{}\n{GRAMMAR}", tell(count)?)))),
        "count" => Ok(InputResult::Continue(Some(tell(count)?))),
        "list" => Ok(InputResult::Continue(Some(tell(list)?))),
        spec => Ok(InputResult::NewState(Change::Slice(SliceSpec::parse(spec)?), None)),
    }
}

fn count(rows: &[&Message]) -> String {
    let by = |kind: &str| rows.iter().filter(|row| row.body.kind() == kind).count();
    let all = text::counted(rows.len(), "message", "messages");
    let replies = text::counted(by("assistant"), "reply", "replies");
    let calls = text::counted(by("tool_call"), "call", "calls");
    let results = text::counted(by("tool_result"), "result", "results");
    format!("{all}: {} of yours, {replies}, {calls}, {results}", by("user"))
}

/// One line a message: its index, who, and its first words. Of a long conversation both ends.
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
    let (agent_id, said) = match body {
        Body::User(text) => ("you", text.clone()),
        Body::Assistant(reply) => ("reply", reply.text.clone()),
        Body::ToolCall(call) => ("call", format!("{} {}", call.name, call.arguments)),
        Body::ToolResult(result) => ("result", result.content.clone()),
        Body::System(text) => ("system", text.clone()),
        _ => return String::new(),
    };
    let words: String = said.chars().take(4 * COLUMNS).collect();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{at:>5}  {agent_id:<6} {}", text::truncate(&words, COLUMNS))
}
