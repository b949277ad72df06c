//! Sends one prompt to several agents, and carries out decisions about their answers.

use crate::agent::{Agent, Role, State};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::base::text::counted;
use crate::domain::compare::{AskTargets, CompareAct, CompareChange, JUDGE};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::core::archive::archive_when_idle;
use crate::repl::core::spawn::{Inherit, Spawn, StagedChild};
use crate::repl::core::{Core, agent_gone, files};
use crate::team::compare::{Column, Comparison, JUDGE_ROLE, LETTERS, judge_prompt, merge_prompt};

impl Repl {
    pub(super) fn compare(&mut self, origin: Origin, agent_id: AgentId, change: CompareChange) -> Result<()> {
        match change {
            CompareChange::Ask { targets, prompt } => self.ask_many(origin, agent_id, targets, prompt),
            CompareChange::Act { number, act } => self.act_on_answers(origin, agent_id, number, act),
        }
    }

    /// Sends a prompt to several agents and shows their answers where this was asked for.
    fn ask_many(&mut self, origin: Origin, agent_id: AgentId, targets: AskTargets, prompt: String) -> Result<()> {
        let number = match targets {
            AskTargets::Models(models) => ask_models(&mut self.core, agent_id, &models, prompt)?,
            AskTargets::Agents(agents) => self.ask_agents(agent_id, &agents, prompt)?,
        };
        if self.terminals.show_comparison(&mut self.core, origin, number).is_err() {
            let asked = self.core.comparisons().get(number).map_or(0, |comparison| comparison.columns.len());
            let count = counted(asked, "agent", "agents");
            let note = format!("asked {count}: Alt+C shows the answers side by side where a view can be drawn");
            self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Note, &note);
        }
        Ok(())
    }

    /// Returns the number of the comparison.
    fn ask_agents(&mut self, origin: AgentId, agents: &[AgentId], prompt: String) -> Result<u64> {
        require_count(agents.len())?;
        let mut columns = Vec::new();
        for (letter, id) in LETTERS.chars().zip(agents) {
            let label = self.core.agent(*id).ok_or_else(agent_gone)?.identity.label();
            let after = newest_message(&self.core, *id)?;
            let prompt = files::attach(&self.core, *id, prompt.clone(), true)?.text;
            columns.push(Column { letter, agent: *id, label, prompt, after, is_fork: false });
        }
        let number = self.core.store().add_comparison(origin, &prompt, &columns)?;
        for column in &columns {
            if let Err(error) = self.submit(Origin::Internal, column.agent, column.prompt.clone()) {
                self.core.store().end_comparison(number)?;
                return Err(error);
            }
        }
        self.core.comparisons_mut().add(Comparison { number, origin, prompt, columns, judge: None });
        Ok(number)
    }

    /// Carries out decisions about compared answers. A terminal that shows them also shows the error.
    fn act_on_answers(&mut self, origin: Origin, agent_id: AgentId, number: u64, act: CompareAct) -> Result<()> {
        let outcome = self.carry_out_act(agent_id, number, act);
        let viewing = origin.terminal().filter(|id| self.terminals.shows_view(*id));
        match (viewing, outcome) {
            (Some(id), Err(error)) => {
                self.terminals.notify(id, error.message);
                Ok(())
            }
            (Some(id), Ok(Some(agent))) => {
                self.terminals.close_view(id);
                self.terminals.switch(&mut self.core, origin, agent)
            }
            (_, outcome) => outcome.map(drop),
        }
    }

    /// Returns the agent to be shown.
    fn carry_out_act(&mut self, agent_id: AgentId, number: u64, act: CompareAct) -> Result<Option<AgentId>> {
        let core = &mut self.core;
        load_answers(core, number)?;
        let comparison = core.comparisons().get(number).ok_or_else(|| Error::usage("this comparison is over"))?;
        match act {
            CompareAct::GoOn(letter) => {
                let chosen = column(comparison, letter)?.agent;
                core.agent(chosen).ok_or_else(agent_gone)?;
                let archived = end_comparison(core, number, Some(chosen))?;
                note_archived(core, chosen, &archived);
                Ok(Some(chosen))
            }
            CompareAct::Merge(letter) => merge(core, number, letter).map(Some),
            CompareAct::Drop(letter) => drop_column(core, number, letter).map(|()| None),
            CompareAct::Vote => {
                let (judge, prompt) = add_judge(core, number, agent_id)?;
                self.submit(Origin::Internal, judge, prompt).map(|()| None)
            }
        }
    }
}

/// Forks a child for each model. They have the conversation before the unfinished turn of the parent, if there is one.
/// Returns the number of the comparison.
fn ask_models(core: &mut Core, parent: AgentId, models: &[String], prompt: String) -> Result<u64> {
    require_count(models.len())?;
    let agent = core.agent(parent).ok_or_else(agent_gone)?;
    let inherit = if agent.state() == State::Idle { Inherit::All } else { Inherit::BeforeTurn };
    let sent = files::attach(core, parent, prompt.clone(), true)?.text;
    let after = newest_message(core, parent)?;
    let column = |(letter, model): (char, &String)| {
        let label = model.rsplit('/').next().unwrap_or(model).to_owned();
        Column { letter, agent: AgentId::random(), label, prompt: sent.clone(), after, is_fork: true }
    };
    let columns: Vec<Column> = LETTERS.chars().zip(models).map(column).collect();
    core.save_unsaved(parent)?;
    let (number, staged) = core.transaction(|core| {
        let stage = |(model, column): (&String, &Column)| {
            let (model, prompt) = (Some(model.clone()), Some(sent.clone()));
            let spec = Spawn::new(parent, Origin::Internal, inherit);
            core.stage_child(Spawn { id: Some(column.agent), model, prompt, ..spec })
        };
        let staged = models.iter().zip(&columns).map(stage).collect::<Result<Vec<StagedChild>>>()?;
        Ok((core.store().add_comparison(parent, &prompt, &columns)?, staged))
    })?;
    for child in staged {
        core.install_child(child)?;
    }
    core.comparisons_mut().add(Comparison { number, origin: parent, prompt, columns, judge: None });
    Ok(number)
}

/// The newest message of an agent's conversation.
fn newest_message(core: &Core, agent: AgentId) -> Result<MessageId> {
    let inherited = core.agent(agent).ok_or_else(agent_gone)?.identity.fork_point;
    Ok(core.store().last_own_message(agent)?.max(inherited))
}

fn require_count(count: usize) -> Result<()> {
    let most = LETTERS.len();
    match count {
        0 => Err(Error::usage("no agent to ask: /agents lists them")),
        count if count > most => Err(Error::usage(format!(
            "{count} agents are too many to compare, at most {most}: name some of them, or write to all in the wall (Alt+W)"
        ))),
        _ => Ok(()),
    }
}

fn column(comparison: &Comparison, letter: char) -> Result<&Column> {
    comparison.column(letter).ok_or_else(|| Error::usage(format!("there is no column {letter}")))
}

/// Reads the answers of a comparison from the store unless they are in memory.
pub(super) fn load_answers(core: &mut Core, number: u64) -> Result<()> {
    let Some(comparison) = core.comparisons().get(number) else { return Ok(()) };
    let agents: Vec<AgentId> = comparison.columns.iter().chain(&comparison.judge).map(|column| column.agent).collect();
    agents.into_iter().try_for_each(|agent| core.load(agent))
}

/// Says at an agent which other answers were archived, and how one comes back.
fn note_archived(core: &mut Core, at: AgentId, archived: &[Column]) {
    let named = archived.iter().filter(|column| column.letter != JUDGE);
    let named = named.map(|Column { letter, agent, label, .. }| format!("{letter} {label} ({})", agent.short()));
    let note = match named.collect::<Vec<_>>().as_slice() {
        [] => return,
        [one] => format!("the other answer is archived: {one}; /unarchive ID brings it back"),
        several => format!("the other answers are archived: {}; /unarchive ID brings one back", several.join(", ")),
    };
    core.note(at, LineKind::Mark, &note);
}

/// Ends a comparison: its forks are archived, except for the chosen one. Returns the columns of those.
fn end_comparison(core: &mut Core, number: u64, chosen: Option<AgentId>) -> Result<Vec<Column>> {
    let Some(comparison) = core.comparisons().get(number) else { return Ok(Vec::new()) };
    let others: Vec<Column> = comparison
        .columns
        .iter()
        .chain(&comparison.judge)
        .filter(|column| column.is_fork && Some(column.agent) != chosen)
        .cloned()
        .collect();
    core.store().end_comparison(number)?;
    core.comparisons_mut().remove(number);
    others.iter().for_each(|column| put_away(core, column.agent));
    Ok(others)
}

/// Stops an agent that is no longer needed, and archives it.
fn put_away(core: &mut Core, agent: AgentId) {
    core.with_agent(agent, Agent::interrupt);
    archive_when_idle(core, agent);
}

/// Fails if an answer of the comparison is not complete.
fn require_complete(core: &Core, comparison: &Comparison, wanted: &str) -> Result<()> {
    let open: Vec<String> = comparison.running(core.roster()).map(|column| column.letter.to_string()).collect();
    if !open.is_empty() {
        let work = if open.len() == 1 { "works" } else { "work" };
        return Err(Error::usage(format!(
            "{} still {work}: wait, or drop it with x, before you {wanted}",
            open.join(" and ")
        )));
    }
    if comparison.complete(core.roster()).len() < 2 {
        return Err(Error::usage(format!("there are not two answers to {wanted}")));
    }
    Ok(())
}

/// Forks a child of the chosen agent that gets the other answers.
fn merge(core: &mut Core, number: u64, letter: char) -> Result<AgentId> {
    let comparison = core.comparisons().get(number).ok_or_else(agent_gone)?;
    let chosen = column(comparison, letter)?.clone();
    require_complete(core, comparison, "merge")?;
    let answers = comparison.complete(core.roster());
    let prompt = Some(merge_prompt(&chosen, &answers));
    let child = core.spawn(Spawn { prompt, ..Spawn::new(chosen.agent, Origin::Internal, Inherit::All) })?;
    let archived = end_comparison(core, number, Some(chosen.agent))?;
    note_archived(core, child, &archived);
    Ok(child)
}

fn drop_column(core: &mut Core, number: u64, letter: char) -> Result<()> {
    let comparison = core.comparisons().get(number).ok_or_else(agent_gone)?;
    let dropped = column(comparison, letter)?.clone();
    core.store().drop_column(number, letter)?;
    let comparison = core.comparisons_mut().get_mut(number).ok_or_else(agent_gone)?;
    comparison.columns.retain(|column| column.letter != letter);
    if comparison.columns.is_empty() {
        end_comparison(core, number, None)?;
    }
    if dropped.is_fork {
        put_away(core, dropped.agent);
    }
    Ok(())
}

/// Creates the agent that chooses the best answer, which uses the model of `asked_at`. Returns it with its prompt.
fn add_judge(core: &mut Core, number: u64, asked_at: AgentId) -> Result<(AgentId, String)> {
    let comparison = core.comparisons().get(number).ok_or_else(agent_gone)?;
    require_complete(core, comparison, "vote")?;
    if comparison.judge.as_ref().is_some_and(|judge| core.agent(judge.agent).is_some_and(is_busy)) {
        return Err(Error::usage("the judge works already"));
    }
    let prompt = judge_prompt(&comparison.prompt, &comparison.complete(core.roster()));
    let parent = if core.agent(comparison.origin).is_some() { comparison.origin } else { asked_at };
    let spec = Spawn::new(parent, Origin::Internal, Inherit::Nothing);
    let agent = core.spawn(Spawn { system: Some(JUDGE_ROLE.into()), has_tools: false, ..spec })?;
    let judge = Column {
        letter: JUDGE,
        agent,
        label: "judge".into(),
        prompt: prompt.clone(),
        after: MessageId(0),
        is_fork: true,
    };
    core.store().set_judge(number, &judge)?;
    core.comparisons_mut().get_mut(number).ok_or_else(agent_gone)?.judge = Some(judge);
    Ok((agent, prompt))
}

fn is_busy(agent: &Agent) -> bool {
    agent.state() != State::Idle && agent.role != Role::Summary
}
