//! `/skills`, `/skill`: the skills of this agent.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::complete::complete_two_words;
use super::{CommandContext, CommandSpec, Rest, TwoColumns, usage_error};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::InputResult;
use crate::domain::skill::{Skill, SkillList};

pub const SKILLS: CommandSpec = CommandSpec::new("skills", "list skills, and problems with them", list);

pub const SKILL: CommandSpec = CommandSpec {
    arguments: "NAME [TEXT]",
    define: |command| command.arg(positional("name", "NAME")).arg(positional("text", "TEXT")),
    rest: Some(Rest::AsTyped("text")),
    complete: Some(|context, typed| {
        let names = for_people(context).map(|skill| skill.name.clone()).collect();
        complete_two_words(typed, names, |_| Vec::new())
    }),
    ..CommandSpec::new("skill", "send a skill's instructions (also /NAME)", use_skill)
};

fn skills_of<'a>(context: &CommandContext<'a>) -> Option<&'a SkillList> {
    Some(&context.roster.get(context.current)?.inputs.environment.skills)
}

/// The skills that a person may use here.
pub(super) fn for_people<'a>(context: &CommandContext<'a>) -> impl Iterator<Item = &'a Skill> {
    skills_of(context).into_iter().flat_map(SkillList::for_people)
}

pub(super) fn find<'a>(context: &CommandContext<'a>, name: &str) -> Option<&'a Skill> {
    for_people(context).find(|skill| skill.name == name)
}

/// The message with the instructions of a skill.
pub(super) fn run_skill(skill: &Skill, arguments: &str) -> InputResult {
    InputResult::Message(skill.message(arguments))
}

fn use_skill(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let name = value_of(given, "name").ok_or_else(|| usage_error("/skill needs a name: /skills lists them"))?;
    let arguments = value_of(given, "text").unwrap_or_default();
    match find(context, name) {
        Some(skill) => Ok(run_skill(skill, arguments.trim())),
        None if skills_of(context).is_some_and(|list| list.find(name).is_some()) => {
            Err(usage_error(format!("only the model can use the skill {name}")))
        }
        None => {
            let nearest = text::nearest(name, for_people(context).map(|skill| skill.name.as_str()));
            let hint = nearest.map_or("/skills lists them".into(), |nearest| format!("did you mean {nearest}?"));
            Err(usage_error(format!("no skill {name:?}: {hint}")))
        }
    }
}

fn list(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    let environment = &context.agent()?.inputs.environment;
    let skills = &environment.skills;
    let mut list = TwoColumns::new(30);
    for skill in &skills.skills {
        let hint = if skill.argument_hint.is_empty() { String::new() } else { format!(" {}", skill.argument_hint) };
        let users = match (skill.is_for_models, skill.is_for_people) {
            (true, true) => "",
            (true, false) => "only the model: ",
            (false, true) => "only by /NAME: ",
            (false, false) => "switched off: ",
        };
        let about = format!("{users}{}", text::shortened(&skill.description, 200));
        list.row(format!("{:<20}{hint} {:<8}", skill.name, skill.author.name()), &about);
    }
    let mut text = match skills.skills.is_empty() {
        true => "no skills: a folder with a SKILL.md in ~/.agents/skills, for example, is one (polylogue help skills)"
            .into(),
        false => list.to_text(context.columns()),
    };
    skills.problems.iter().for_each(|problem| text.push_str(&format!("\nproblem: {problem}")));
    let (_, left_out) = skills.prompt();
    if !left_out.is_empty() {
        text.push_str(&format!("\nthe system prompt has no room for the descriptions of {}", left_out.join(", ")));
    }
    if !skills.skills.is_empty() && environment.skill_prompt().is_empty() && skills.for_models().next().is_some() {
        text.push_str("\nthis agent's environment has no tool `skill`: it cannot use them by itself");
    }
    Ok(InputResult::Continue(Some(text)))
}
