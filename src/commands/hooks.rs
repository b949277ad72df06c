//! `/hooks`: the hooks that hold for this agent.

use clap::ArgMatches;

use super::{CommandContext, CommandSpec, TwoColumns};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::InputResult;
use crate::domain::hook::{Hook, HookEvent};
use crate::tools::hooks::hooks_for;

pub const HOOKS: CommandSpec = CommandSpec::new("hooks", "list the hooks of this agent", run);

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    let environment = &context.agent()?.inputs.environment;
    let all: Vec<Hook> = HookEvent::ALL.iter().flat_map(|(event, ..)| hooks_for(environment, *event, None)).collect();
    let width = all.iter().map(|hook| hook.event.name().len()).fold(9, usize::max);
    let mut list = TwoColumns::new(width + 16);
    for hook in &all {
        let matcher = if hook.matcher.is_empty() { "*" } else { &hook.matcher };
        let required = if hook.is_required { ", required" } else { "" };
        let command = text::sanitise(&hook.command.join(" ")).replace(['\n', '\t'], " ");
        let command = text::shortened(&command, 200).into_owned();
        let about = format!("{command} ({}{required}, {}, {:?})", hook.author.name(), hook.source, hook.timeout);
        list.row(format!("{:<width$} {matcher:<14} ", hook.event.name()), &about);
    }
    let text = match all.is_empty() {
        true => "no hooks: [[hooks.pre_tool]] in the configuration defines one (polylogue help hooks)".into(),
        false => list.to_text(context.columns()),
    };
    Ok(InputResult::Continue(Some(text)))
}
