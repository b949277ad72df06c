//! Changes of files by agents: `/undo` restores files, `/diff` shows and `/land` merges changes.

use clap::ArgMatches;

use super::arguments::{AGENT, agent_arg, agents_arg, flag, option, value_of};
use super::{CommandContext, CommandSpec, Last, Rest, ShellSpec, WithoutServer, any_called, usage_error};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::change::{Change, FileJob, Shown};
use crate::domain::file_change::{LandMany, LandMethod, LandRequest, UndoRequest};
use crate::domain::flow::InputResult;

pub const UNDO: CommandSpec = CommandSpec {
    arguments: "[AGENT] [--to N | --redo] [--skip]",
    runs_at_last: Some(Last::Here),
    shell: Some(ShellSpec {
        required: &[],
        without_server: WithoutServer::Runs,
        has_no_time_limit: true,
        ..ShellSpec::new("Bring back the files that the tools of an agent changed")
    }),
    define: |command| {
        command
            .arg(agent_arg(
                "Agent whose changes to undo (default: this one; in a shell, the one in this directory that was sent a message last)",
            ))
            .arg(option(
                "to",
                "MESSAGE",
                "Bring the files back to before this message [default: the prompt of the last turn that changed files]",
            ))
            .arg(flag("skip", "Leave files as they are that others changed since, and bring back the rest"))
            .arg(flag("redo", "Take the newest undo back").conflicts_with("to"))
    },
    ..CommandSpec::new("undo", "bring back files that tools changed", run)
};

pub const DIFF: CommandSpec = CommandSpec {
    arguments: "[AGENT]",
    aliases: &["review-changes"],
    shell: Some(ShellSpec {
        name: Some("review"),
        without_server: WithoutServer::Runs,
        has_no_time_limit: true,
        prints_data: true,
        ..ShellSpec::new("Show what an agent has changed")
    }),
    define: |command| command.arg(agent_arg("Agent whose changes to show, also a killed one")),
    ..CommandSpec::new("diff", "review an agent's changes: read, comment, land (Alt+R)", |context, given| {
        Ok(InputResult::NewState(Change::Show(Shown::Diff(changed_agent(context, given)?)), None))
    })
};

pub const LAND: CommandSpec = CommandSpec {
    arguments: "[AGENT... | --all] [--commit TEXT]",
    shell: Some(ShellSpec {
        without_server: WithoutServer::Runs,
        has_no_time_limit: true,
        prints_data: true,
        ..ShellSpec::new("Merge the worktree of an agent into the branch that it left")
    }),
    define: |command| {
        command
            .arg(agents_arg(
                "Agent whose worktree to merge, also a killed one; several are landed one after another, as with --all",
            ))
            .arg(
                flag("all", "Land the worktrees of all agents, one after another, each if the [done] command succeeds")
                    .conflicts_with_all([AGENT, "commit", "verify"]),
            )
            .arg(flag("only-committed", "Leave uncommitted changes where they are").conflicts_with("commit"))
            .arg(flag("rebase", "Rebase the commits instead of merging them, as several are anyway"))
            .arg(flag("squash", "Squash the commits into one; --commit sets its message").conflicts_with("rebase"))
            .arg(option("commit", "MESSAGE", "Commit uncommitted changes first, with this message"))
            .arg(
                flag("verify", "Run the hooks of the repository for that commit, and sign it if git is configured to")
                    .requires("commit"),
            )
    },
    rest: Some(Rest::Unquoted("commit")),
    ..CommandSpec::new("land", "merge a worktree into its base branch", land)
};

fn land(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let only_committed = given.get_flag("only-committed");
    let named = given.get_many::<String>(AGENT).into_iter().flatten();
    let agents = named.map(|name| any_called(context.roster, context.store, name)).collect::<Result<Vec<AgentId>>>()?;
    let commit = value_of(given, "commit");
    if given.get_flag("all") || agents.len() > 1 {
        if commit.is_some() {
            return Err(usage_error("--commit is for one agent; of several, each commit gets the title of its agent"));
        }
        let how = LandMany { agents, method: method(given, LandMethod::Rebase), only_committed };
        return Ok(InputResult::NewState(Change::Files(FileJob::LandMany(how)), None));
    }
    if commit.is_some_and(|message| message.trim().is_empty()) {
        return Err(usage_error("--commit needs a message"));
    }
    let commit = commit.map(str::to_owned);
    let request = LandRequest {
        method: method(given, LandMethod::Merge),
        verifies: given.get_flag("verify"),
        only_committed,
        commit,
        ..LandRequest::default()
    };
    let agent = agents.first().copied().unwrap_or(context.current);
    Ok(InputResult::NewState(Change::Files(FileJob::Land { agent, request }), None))
}

/// The way that was asked for, or this one.
fn method(given: &ArgMatches, usual: LandMethod) -> LandMethod {
    let mut named = [LandMethod::Rebase, LandMethod::Squash].into_iter();
    named.find(|method| method.option().is_some_and(|id| given.get_flag(id))).unwrap_or(usual)
}

/// The agent whose files are meant, also an archived or killed one.
fn changed_agent(context: &CommandContext, given: &ArgMatches) -> Result<AgentId> {
    value_of(given, AGENT).map_or(Ok(context.current), |name| any_called(context.roster, context.store, name))
}

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let before = value_of(given, "to").map(|number| {
        number.trim_start_matches('#').parse().map_err(|_| {
            usage_error(format!(
                "--to needs the number of a message (got {number:?}): /timeline in the chat shows them"
            ))
        })
    });
    let request = UndoRequest::new(before.transpose()?, given.get_flag("skip"), given.get_flag("redo"));
    let agent = changed_agent(context, given)?;
    Ok(InputResult::NewState(Change::Files(FileJob::Undo { agent, request }), None))
}
