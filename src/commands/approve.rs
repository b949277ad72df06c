//! `approve` and `deny`: a client's answer to an open question. In the chat a person answers where the question is shown.

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::arguments::{flag, option, positional, value_of};
use super::{CommandContext, CommandSpec, ShellSpec, agent_called, usage_error};
use crate::agent::{Agent, PendingQuestion};
use crate::base::error::Result;
use crate::domain::change::{Change, Decision};
use crate::domain::flow::InputResult;
use crate::domain::rule::Scope;

pub(super) const APPROVE: CommandSpec = CommandSpec {
    arguments: "ID [--always --rule RULE [--session]]",
    shell: Some(ShellSpec { required: &[], ..ShellSpec::new("Allow a tool call") }),
    define: |command| {
        command
            .arg(question_arg("The question, as printed by polylogue approvals"))
            .arg(flag(
                "always",
                "Also allow calls like it in its directory from now on; without --rule, only print the rules",
            ))
            .arg(rule_option("A rule that --always has printed; it is saved in your configuration").requires("always"))
            .arg(flag("session", "Keep the rules until the server ends, and do not save them").requires("rule"))
    },
    ..CommandSpec::new("approve", "allow a tool call", approve)
};

pub(super) const DENY: CommandSpec = CommandSpec {
    arguments: "ID [--reason TEXT] [--rule RULE]",
    shell: Some(ShellSpec { required: &[], ..ShellSpec::new("Deny a tool call") }),
    define: |command| {
        command
            .arg(question_arg("The question, as printed by polylogue approvals, or the agent that asks"))
            .arg(option("reason", "TEXT", "Told to the model").value_parser(value_parser!(String)))
            .arg(rule_option("Refuse what this rule matches from now on; approve --always prints the rules"))
    },
    ..CommandSpec::new("deny", "deny a tool call", deny)
};

fn question_arg(help: &'static str) -> Arg {
    positional("id", "ID").required(true).help(help)
}

fn rule_option(help: &'static str) -> Arg {
    option("rule", "RULE", help).action(ArgAction::Append)
}

fn approve(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let decision = match (has_rules(given), given.get_flag("session")) {
        (false, _) if given.get_flag("always") => {
            return Err(usage_error("--always needs --rule: polylogue approve ID --always prints the rules"));
        }
        (false, _) => Decision::Allow,
        (true, false) => Decision::Always(Scope::Project),
        (true, true) => Decision::Always(Scope::Session),
    };
    answer(context, given, decision)
}

fn deny(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let reason = value_of(given, "reason").filter(|reason| !reason.trim().is_empty()).map(str::to_owned);
    answer(context, given, if has_rules(given) { Decision::DenyAlways(reason) } else { Decision::Deny(reason) })
}

fn has_rules(given: &ArgMatches) -> bool {
    given.contains_id("rule")
}

/// Fails if no question with this id is open, or the rules are not exactly those of the question.
fn answer(context: &CommandContext, given: &ArgMatches, decision: Decision) -> Result<InputResult> {
    let id = value_of(given, "id").unwrap_or_default();
    let is_denied = matches!(decision, Decision::Deny(_) | Decision::DenyAlways(_));
    let (agent, pending) = question_called(context, id, is_denied)?;
    let rules: Vec<&String> = given.get_many("rule").into_iter().flatten().collect();
    let offered: Vec<String> = pending.question.ways.rules.iter().map(ToString::to_string).collect();
    if !rules.is_empty() && (rules.len() != offered.len() || !offered.iter().all(|rule| rules.contains(&rule))) {
        let message = format!("these are not the rules of the question: polylogue approve {id} --always prints them");
        return Err(usage_error(message));
    }
    Ok(InputResult::NewStateAt(agent.id(), Change::Answer { question: pending.number, decision }, None))
}

/// The open question with this id. An agent is enough to deny its question; to allow it, the id proves what was read.
fn question_called<'a>(
    context: &CommandContext<'a>,
    id: &str,
    is_denied: bool,
) -> Result<(&'a Agent, &'a PendingQuestion)> {
    let roster = context.roster;
    if let Some(found) = roster.questions().find(|(agent, pending)| question_id(agent, pending) == id) {
        return Ok(found);
    }
    let none = || usage_error(format!("no open question {id:?}: polylogue approvals lists those that are open"));
    let agent = agent_called(roster, id).map_err(|_| none())?;
    let label = roster.label_of(agent);
    let found = roster.questions().find(|(asking, _)| asking.id() == agent);
    let (agent, pending) = found
        .ok_or_else(|| usage_error(format!("{label} asks nothing: polylogue approvals lists the open questions")))?;
    if !is_denied {
        let question = question_id(agent, pending);
        return Err(usage_error(format!(
            "{label} asks the question {question}: polylogue approvals shows what it would run, polylogue approve \
             {question} allows it"
        )));
    }
    Ok((agent, pending))
}

/// The agent's number, or the beginning of its id, the number of the question, and the digest of its text.
pub fn question_id(agent: &Agent, pending: &PendingQuestion) -> String {
    let called = agent.identity.number().map_or_else(|| agent.id().short(), |number| number.to_string());
    format!("{called}.{}-{}", pending.number, pending.digest())
}
