//! What the program and its agents do, for terminals that show it.

use crate::agent::{Agent, Role};
use crate::domain::chunk::Status;
use crate::domain::display::{Activity, StatusReport};
use crate::domain::flow::TurnEnd;
use crate::repl::core::Core;
use crate::repl::terminals::unseen::Unseen;
use crate::team::UnseenEnd;

/// Agents that are reported, those that need the person first. A terminal keeps at least 64 reports.
const MOST_AGENTS: usize = 60;

/// The program as a whole and, if there are several agents, those that work or need the person. `shown`: the agent on the
/// terminal.
pub(super) fn reports(core: &Core, unseen: &Unseen, shown: &Agent) -> Vec<StatusReport> {
    let roster = core.roster();
    let asking = roster.questions().map(|(agent, asked)| {
        let wants_values = asked.question.wants_values();
        let activity = if wants_values { Activity::AsksQuestion } else { Activity::AsksPermission };
        report(agent, activity, &asked.question.title)
    });
    let has_question = |agent: &&Agent| agent.question().is_some();
    let held = core.trees().all_held().filter_map(|(id, _)| roster.get(id)).filter(|agent| !has_question(agent));
    let held = held.map(|agent| report(agent, Activity::AsksQuestion, "held by a limit"));
    let ended = unseen.iter().filter_map(|end| Some((end, roster.get(end.agent)?)));
    let ended = ended.filter(|(_, agent)| agent.status() != Status::Running && !has_question(agent));
    let ended = ended.map(|(end, agent)| report_of_end(end, agent));
    let working = roster.busy().iter().filter_map(|id| worker(core, roster.get(*id)?));
    let working = working.map(|agent| report(agent, Activity::Working, ""));
    let mut agents: Vec<StatusReport> = asking.chain(held).chain(ended).chain(working).take(MOST_AGENTS).collect();
    let mut all = vec![report_of_program(&agents, shown)];
    if roster.len() > 1 {
        all.append(&mut agents);
    }
    all
}

/// The agent that is seen to work while this one is busy: for a summary the agent whose messages it replaces.
fn worker<'a>(core: &'a Core, busy: &'a Agent) -> Option<&'a Agent> {
    let worker = match busy.role {
        Role::Summary => core.agent(busy.identity.parent?)?,
        _ => busy,
    };
    let is_free = core.trees().held(worker.id()).is_none();
    Some(worker).filter(|worker| worker.status() == Status::Running && is_free)
}

fn report_of_end(end: &UnseenEnd, agent: &Agent) -> StatusReport {
    match end.end {
        TurnEnd::Failed => report(agent, Activity::Failed, "failed"),
        TurnEnd::Interrupted => report(agent, Activity::Failed, "interrupted by the end of the program"),
        TurnEnd::Completed if agent.report.fails => report(agent, Activity::Failed, "finished, but the check fails"),
        TurnEnd::Completed => report(agent, Activity::Done, ""),
    }
}

fn report(agent: &Agent, activity: Activity, message: &str) -> StatusReport {
    // A list whose tasks are all done is that of an earlier turn.
    let todo = agent.view.todo().filter(|_| activity == Activity::Working);
    let task = todo.and_then(|todo| Some((todo, todo.current()?)));
    StatusReport {
        id: agent.id().to_string(),
        activity,
        percent: task.and_then(|(todo, _)| todo.percent()),
        title: agent.identity.label(),
        message: task.map_or(message, |(_, item)| &item.content).to_owned(),
    }
}

/// The most important of what the agents do; else how the last turn of the one that is shown has ended.
fn report_of_program(agents: &[StatusReport], shown: &Agent) -> StatusReport {
    let asks = |report: &&StatusReport| matches!(report.activity, Activity::AsksPermission | Activity::AsksQuestion);
    let works = |report: &&StatusReport| report.activity == Activity::Working;
    let program = StatusReport {
        id: String::new(),
        activity: match shown.last_end() {
            Some(TurnEnd::Completed) => Activity::Done,
            Some(TurnEnd::Failed) => Activity::Failed,
            Some(TurnEnd::Interrupted) | None => Activity::Idle,
        },
        percent: None,
        title: shown.title.clone(),
        message: String::new(),
    };
    if let Some(first) = agents.iter().find(asks) {
        let message = format!("{}: {}", first.title, first.message);
        return StatusReport { activity: first.activity, message, ..program };
    }
    if agents.iter().any(|report| works(&report)) {
        let id = shown.id().to_string();
        let percent = agents.iter().filter(works).find(|report| report.id == id).and_then(|report| report.percent);
        return StatusReport { activity: Activity::Working, percent, ..program };
    }
    program
}
