//! `/approval`: what the agent may do without a question.

use super::{CommandContext, CommandSpec, WhenBusy, usage_error};
use crate::base::error::Result;
use crate::domain::approval::Policy;
use crate::domain::flow::{Change, InputResult};

pub const APPROVAL: CommandSpec = CommandSpec {
    name: "approval",
    aliases: &[],
    arguments: "[POLICY]",
    about: "set what the agent may do unasked (Shift+Tab)",
    // Only later tool calls are affected.
    busy: WhenBusy::Runs,
    run,
    complete: |_, _| Policy::ALL.map(|policy| policy.name().to_owned()).into(),
};

const CONFIRM: &str = "confirm";

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let agent = context.agent()?;
    let (name, rest) = arguments.split_once(' ').unwrap_or((arguments, ""));
    if name.is_empty() {
        return Ok(InputResult::Continue(Some(list(agent.policy))));
    }
    let policy: Policy = name.parse()?;
    let is_confirmed = policy == Policy::Yolo && rest.trim() == CONFIRM;
    if !rest.is_empty() && !is_confirmed {
        return Err(usage_error(format!("/approval takes one policy (got {arguments})")));
    }
    if policy == Policy::Yolo && agent.policy != policy && !is_confirmed {
        let danger = "yolo: commands and changes run without a question, in the sandbox unless it is off; protected \
                      files still ask";
        return Ok(InputResult::Continue(Some(format!("{danger}; to set it, type /approval yolo {CONFIRM}"))));
    }
    let note = match policy {
        Policy::Auto if !agent.inputs.environment.is_sandboxed() => {
            "; without a sandbox, auto asks for every command and change"
        }
        _ => "",
    };
    let note = format!("approval: {policy} ({}){note}", policy.about());
    Ok(InputResult::NewState(Change::Approval(policy), Some(note)))
}

/// Every policy with its meaning; the agent's own is marked.
fn list(current: Policy) -> String {
    let line = |policy: Policy| {
        let mark = if policy == current { ">" } else { " " };
        format!("{mark} {:<6} {}", policy.name(), policy.about())
    };
    Policy::ALL.map(line).join("\n")
}
