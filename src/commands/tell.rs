//! `/tell`: a message to another agent, as if it were typed there.

use clap::ArgMatches;

use super::arguments::{AGENT, agent_arg, positional, value_of};
use super::{CommandContext, CommandSpec, Rest, ShellSpec, agent_called, usage_error};
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const TELL: CommandSpec = CommandSpec {
    arguments: "AGENT TEXT",
    shell: Some(ShellSpec {
        former_name: Some("send"),
        required: &[AGENT, "text"],
        input: Some("text"),
        ..ShellSpec::new("Send a message to an agent; it is queued while the agent works")
    }),
    define: |command| {
        let text = positional("text", "TEXT").num_args(1..);
        command.arg(agent_arg("Recipient")).arg(text.help("Text of the message"))
    },
    rest: Some(Rest::Unquoted("text")),
    ..CommandSpec::new("tell", "send a message to another agent, which answers it at once", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let missing = || usage_error("no agent or no text given: /tell AGENT TEXT");
    let to = value_of(given, AGENT).ok_or_else(missing)?;
    let words: Vec<&str> = given.get_many::<String>("text").into_iter().flatten().map(String::as_str).collect();
    let text = Some(words.join(" ")).filter(|_| !words.is_empty()).ok_or_else(missing)?;
    if text.trim().is_empty() {
        return Err(usage_error("nothing to send: the text is empty"));
    }
    let agent_id = agent_called(context.roster, to)?;
    let note = format!("told {}", context.name_of(agent_id));
    let note = (agent_id != context.current).then_some(note);
    Ok(InputResult::NewState(Change::Tell { to: agent_id, text }, note))
}
