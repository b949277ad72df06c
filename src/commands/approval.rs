//! `/approval`: what the agent may do without a question.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, TwoColumns, usage_error};
use crate::base::error::Result;
use crate::domain::approval::Policy;
use crate::domain::change::{Change, Setting};
use crate::domain::flow::InputResult;

/// Runs at once: only later tool calls are affected.
pub const APPROVAL: CommandSpec = CommandSpec {
    arguments: "[POLICY]",
    is_for_clients: true,
    define: |command| command.arg(positional("policy", "POLICY")).arg(positional(CONFIRM, "CONFIRM")),
    complete: Some(|_, _| Policy::ALL.map(|policy| policy.name().to_owned()).into()),
    ..CommandSpec::new("approval", "set what the agent may do unasked (Shift+Tab)", run)
};

const EVERYTHING: &str = "--dangerously-allow-everything";
const CONFIRM: &str = "confirm";

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let agent = context.agent()?;
    let Some(name) = value_of(given, "policy") else {
        let list = list(context, agent.policy);
        let until = if agent.is_unrestricted() { "everything is allowed until a policy is set:\n" } else { "" };
        return Ok(InputResult::Continue(Some(format!("{until}{list}"))));
    };
    if matches!(name, EVERYTHING | "everything" | "dangerously-allow-everything") && !agent.is_unrestricted() {
        return Err(usage_error(format!("only a chat that is started with {EVERYTHING} has it")));
    }
    let policy: Policy = name.parse()?;
    if policy == Policy::Yolo && context.clients.is_some() {
        return Err(usage_error("yolo cannot be set by a client: use /approval yolo at a terminal"));
    }
    let rest = value_of(given, CONFIRM);
    let is_confirmed = policy == Policy::Yolo && rest == Some(CONFIRM);
    if let Some(extra) = rest.filter(|_| !is_confirmed) {
        return Err(usage_error(format!("/approval takes one policy (got {extra:?} too)")));
    }
    if policy == Policy::Yolo && agent.policy != policy && !is_confirmed {
        let danger = "yolo: commands and changes run without a question, in the sandbox unless it is off; protected \
                      files still ask";
        return Ok(InputResult::Continue(Some(format!("{danger}; to set it, type /approval yolo {CONFIRM}"))));
    }
    let note = match policy {
        Policy::Auto if !agent.inputs.environment.is_sandboxed() => {
            "; the sandbox is incomplete here, so auto asks for every command and change"
        }
        _ => "",
    };
    let note = format!("approval: {policy} ({}){note}", policy.about());
    Ok(InputResult::NewState(Change::Setting(Setting::Approval(policy)), Some(note)))
}

/// Every policy with its meaning; the agent's own is marked.
fn list(context: &CommandContext, current: Policy) -> String {
    let mut list = TwoColumns::new(8);
    for policy in Policy::ALL {
        let mark = if policy == current { ">" } else { " " };
        list.row(format!("{mark} {}", policy.name()), policy.about());
    }
    list.to_text(context.columns())
}
