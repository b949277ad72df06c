//! `/init`: has the agent write an `AGENTS.md`.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest, usage_error};
use crate::base::error::Result;
use crate::domain::flow::InputResult;

pub const INIT: CommandSpec = CommandSpec {
    arguments: "[WISHES]",
    define: |command| command.arg(positional("wishes", "WISHES")),
    rest: Some(Rest::AsTyped("wishes")),
    ..CommandSpec::new("init", "have the agent write an AGENTS.md", run)
};

/// The tools that are needed to explore a project and to write the file.
const NEEDED: [&str; 2] = ["read_file", "write_file"];

const PROMPT: &str = "\
Write an AGENTS.md for the project in your working directory: what an agent has to know before its first change here and \
cannot see at once.

First explore. Read README, CONTRIBUTING, the build files (such as Cargo.toml, package.json, pyproject.toml, Makefile), the \
configuration of CI, formatters and linters, and instructions for other agents (CLAUDE.md, .cursor/rules, .cursorrules, \
.github/copilot-instructions.md). Look at the structure of the source and of the tests, and read some of each.

Then write these sections, as far as there is something to say:
- What the project is, in one or two sentences.
- Commands: build, format, lint, all tests, a single test, run. Only commands that you found in files or have run.
- Structure: the parts that matter, where they are, and which depends on which. Not a list of all files.
- Conventions that differ from what is usual in the language: style, names, errors, tests, commits.
- Pitfalls: what breaks easily, what must not be edited (generated files), what is slow.

Keep it under 100 lines. State facts that you have checked, with exact paths and commands; leave out what you do not know, \
general advice, and what the code shows at once. If there is an AGENTS.md already, keep what is right in it, correct what is \
wrong, and add what is missing. If there is a CLAUDE.md and no AGENTS.md, write AGENTS.md and take over what is right. At the \
end say in a few lines what you wrote, and what you were not sure about.";

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let environment = &context.agent()?.inputs.environment;
    let has = |name: &&str| environment.tools.iter().any(|tool| tool.declaration.name == *name);
    if !NEEDED.iter().all(has) {
        return Err(usage_error("this agent cannot write files: /env coding creates a child that can"));
    }
    let wishes = value_of(given, "wishes").map(|wishes| format!("\n\nThe user's wishes: {wishes}")).unwrap_or_default();
    Ok(InputResult::Message(format!("{PROMPT}{wishes}")))
}
