//! What each agent did lately: `/standup`, `polylogue standup`, and the tool `standup` for models.

use clap::{ArgMatches, value_parser};
use serde_json::{Value, json};

use super::Feature;
use crate::agent::Agent;
use crate::base::error::Result;
use crate::base::text::{counted, first_line};
use crate::commands::arguments::option;
use crate::commands::{CommandContext, CommandSpec, ShellSpec, WithoutServer};
use crate::domain::flow::{InputResult, ToolRequest};
use crate::domain::message::Body;
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::tools::{Judged, Question, Run, ToolSpec};

/// Messages of one agent that are looked at.
const MOST: usize = 1_000;
/// The end of what it said, in columns.
const SAID: usize = 100;
const HOURS: u32 = 24;
const HOUR: i64 = 60 * 60 * 1000;

pub const FEATURE: Feature =
    Feature { commands: &[&COMMAND], tools: &[&TOOL], ..Feature::new("standup", "says what each agent did lately") };

const COMMAND: CommandSpec = CommandSpec {
    arguments: "[--hours N]",
    shell: Some(ShellSpec {
        without_server: WithoutServer::Reads,
        ..ShellSpec::list("Say what each agent did lately", &["name", "messages", "calls", "said"])
    }),
    define: |command| {
        let hours = option("hours", "N", "How far to look back (default 24)");
        command.arg(hours.value_parser(value_parser!(u32).range(1..=8784)))
    },
    ..CommandSpec::new("standup", "say what each agent did lately", run)
};

const TOOL: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "standup",
        description: "Says what each agent did lately: messages it got, tools it called, and what it said last.",
        parameters: r#"{
            "type": "object",
            "properties": {"hours": {"type": "integer", "minimum": 1, "maximum": 8784, "description": "Default: 24."}},
            "additionalProperties": false
        }"#,
    },
    aliases: &[("since", "hours")],
    reach: Reach::Reads,
    judged: Judged::Nothing,
    check: |_, _| Ok(Question::new("standup".into(), Vec::new())),
    run: Run::InEventLoop(|arguments| {
        let hours = arguments["hours"].as_u64().map(|hours| format!("--hours={hours}"));
        ToolRequest::Run(["standup".to_owned()].into_iter().chain(hours).collect())
    }),
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let hours = given.get_one("hours").copied().unwrap_or(HOURS);
    let since = context.unix_ms - i64::from(hours) * HOUR;
    let rows: Vec<Value> = context.roster.iter().map(|agent| row(context, agent, since)).collect::<Result<_>>()?;
    if context.clients.is_some() {
        return Ok(InputResult::Data(rows.into()));
    }
    let text = |key: &Value| key.as_str().unwrap_or_default().to_owned();
    let count = |row: &Value, key: &str, one, many| counted(row[key].as_u64().unwrap_or(0) as usize, one, many);
    let line = |row: &Value| {
        let (messages, calls) = (count(row, "messages", "message", "messages"), count(row, "calls", "call", "calls"));
        format!("{}: {messages}, {calls}: {}", text(&row["name"]), text(&row["said"]))
    };
    Ok(InputResult::Continue(Some(rows.iter().map(line).collect::<Vec<_>>().join("\n"))))
}

fn row(context: &CommandContext, agent: &Agent, since: i64) -> Result<Value> {
    let mut found = context.store.tail(agent.id(), None, MOST)?;
    found.retain(|message| message.created_at >= since);
    let count = |is_one: fn(&Body) -> bool| found.iter().filter(|message| is_one(&message.body)).count();
    let said = found.iter().rev().find_map(|message| match &message.body {
        Body::Assistant(reply) if !reply.text.trim().is_empty() => Some(first_line(&reply.text, SAID)),
        _ => None,
    });
    Ok(json!({
        "id": agent.id().to_string(),
        "name": agent.identity.label(),
        "messages": count(|body| matches!(body, Body::User(_))),
        "calls": count(|body| matches!(body, Body::ToolCall(_))),
        "said": said,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::commands::{parse_client_command, read, run_for_model};
    use crate::domain::config::Config;
    use crate::repl::{Probe, Repl};
    use crate::store::Store;
    use crate::team::Branches;

    #[test]
    fn a_person_a_script_and_a_model_hear_the_same() {
        let mut repl = Repl::open(Config::default(), Store::in_memory().unwrap(), Clock::system()).unwrap();
        let root = repl.list()[0].id;
        repl.send(root, "hello there").unwrap();
        while !repl.list()[0].status.is_at_rest() {
            repl.turn(None).unwrap();
        }
        let said = "agent 0: 1 message, 0 calls: hello there";
        let (config, branches) = (Config::default(), Branches::default());
        let context = CommandContext {
            roster: Probe::roster(&repl),
            store: Probe::store(&repl),
            config: &config,
            branches: &branches,
            current: root,
            unix_ms: Clock::system().unix_ms(),
            terminal_infos: Vec::new(),
            clients: None,
            activity: Box::new(|_| String::new()),
        };
        let typed = read("/standup --hours 1", &context).unwrap();
        assert_eq!(typed, InputResult::Continue(Some(said.into())));
        assert_eq!(run_for_model(&context, &["standup".into()]).unwrap(), said);
        let (spec, given) = parse_client_command(&["standup".into(), "--hours=1".into()]).unwrap();
        let context = CommandContext { clients: Some(1), ..context };
        let InputResult::Data(rows) = (spec.run)(&context, &given).unwrap() else { panic!("no data") };
        assert_eq!((&rows[0]["name"], &rows[0]["messages"]), (&"agent 0".into(), &1.into()));
        assert!(parse_client_command(&["standup".into(), "--hours=0".into()]).is_err());
    }
}
