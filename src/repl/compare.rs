//! Sends one prompt to several agents, and carries out what is decided about their answers.

use crate::agent::{Agent, Role, State};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::base::text::counted;
use crate::domain::compare::{AskTargets, CompareAct};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::core::spawn::{Inherit, Spawn, StagedChild};
use crate::repl::core::{Core, agent_gone, files};
use crate::team::compare::{Column, Comparison, JUDGE_ROLE, LETTERS, judge_prompt, merge_prompt};

impl Repl {
    /// Sends a prompt to several agents and shows their answers where this was asked for.
    ///
    /// # Errors
    /// An agent is gone, a model is not configured, or the store refuses.
    pub(super) fn ask_many(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        targets: AskTargets,
        prompt: String,
    ) -> Result<()> {
        let columns = match targets {
            AskTargets::Models(models) => ask_models(&mut self.core, agent_id, &models, &prompt)?,
            AskTargets::Agents(agents) => self.ask_agents(&agents, &prompt)?,
        };
        let count = counted(columns.len(), "agent", "agents");
        let number = self.core.comparisons.add(agent_id, prompt, columns);
        if self.terminals.show_comparison(&mut self.core, origin, number).is_err() {
            let note = format!("asked {count}: Alt+C shows the answers side by side where a view can be drawn");
            self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Note, &note);
        }
        Ok(())
    }

    fn ask_agents(&mut self, agents: &[AgentId], prompt: &str) -> Result<Vec<Column>> {
        require_count(agents.len())?;
        let mut columns = Vec::new();
        for (letter, id) in LETTERS.chars().zip(agents) {
            let label = self.core.roster.get(*id).ok_or_else(agent_gone)?.identity.label();
            let after = newest_message(&self.core, *id)?;
            let prompt = files::attach(&self.core, *id, prompt.to_owned())?;
            columns.push(Column { letter, agent: *id, label, prompt, after, is_fork: false });
        }
        for column in &columns {
            self.submit(Origin::Internal, column.agent, column.prompt.clone())?;
        }
        Ok(columns)
    }

    /// Carries out what was decided about compared answers. A terminal that shows them shows the error too.
    ///
    /// # Errors
    /// The comparison is over, an answer is not complete, or the store refuses.
    pub(super) fn act_on_answers(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        number: u64,
        act: CompareAct,
    ) -> Result<()> {
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
        let comparison = core.comparisons.get(number).ok_or_else(|| Error::usage("this comparison is over"))?;
        match act {
            CompareAct::GoOn(letter) => {
                let chosen = column(comparison, letter)?.agent;
                core.roster.get(chosen).ok_or_else(agent_gone)?;
                end_comparison(core, number, Some(chosen));
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
fn ask_models(core: &mut Core, parent: AgentId, models: &[String], prompt: &str) -> Result<Vec<Column>> {
    require_count(models.len())?;
    let agent = core.roster.get(parent).ok_or_else(agent_gone)?;
    let inherit = if agent.state() == State::Idle { Inherit::All } else { Inherit::BeforeTurn };
    let prompt = files::attach(core, parent, prompt.to_owned())?;
    let after = newest_message(core, parent)?;
    let staged = core.transaction(|core| {
        let stage = |model: &String| {
            let (model, prompt) = (Some(model.clone()), Some(prompt.clone()));
            core.stage_child(Spawn { model, prompt, ..Spawn::new(parent, Origin::Internal, inherit) })
        };
        models.iter().map(stage).collect::<Result<Vec<StagedChild>>>()
    })?;
    let mut columns = Vec::new();
    for ((letter, model), child) in LETTERS.chars().zip(models).zip(staged) {
        let agent = core.install_child(child)?;
        let label = model.rsplit('/').next().unwrap_or(model).to_owned();
        columns.push(Column { letter, agent, label, prompt: prompt.clone(), after, is_fork: true });
    }
    Ok(columns)
}

/// The newest message of an agent's conversation.
fn newest_message(core: &Core, agent: AgentId) -> Result<MessageId> {
    let inherited = core.roster.get(agent).ok_or_else(agent_gone)?.identity.fork_point;
    Ok(core.store.last_own_message(agent)?.max(inherited))
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

/// Ends a comparison: its forks are archived, except for the chosen one.
fn end_comparison(core: &mut Core, number: u64, chosen: Option<AgentId>) {
    let Some(comparison) = core.comparisons.get(number) else { return };
    let others: Vec<AgentId> = comparison
        .columns
        .iter()
        .chain(&comparison.judge)
        .filter(|column| column.is_fork && Some(column.agent) != chosen)
        .map(|column| column.agent)
        .collect();
    core.comparisons.remove(number);
    others.into_iter().for_each(|agent| put_away(core, agent));
}

/// Stops an agent that is no longer needed, and archives it.
fn put_away(core: &mut Core, agent: AgentId) {
    core.with_agent(agent, Agent::interrupt);
    core.archive_when_idle(agent);
}

/// Fails if an answer of the comparison is not complete.
fn require_complete(core: &Core, comparison: &Comparison, wanted: &str) -> Result<()> {
    let open: Vec<String> = comparison.running(&core.roster).map(|column| column.letter.to_string()).collect();
    if !open.is_empty() {
        let work = if open.len() == 1 { "works" } else { "work" };
        return Err(Error::usage(format!(
            "{} still {work}: wait, or drop it with x, before you {wanted}",
            open.join(" and ")
        )));
    }
    if comparison.complete(&core.roster).len() < 2 {
        return Err(Error::usage(format!("there are not two answers to {wanted}")));
    }
    Ok(())
}

/// Forks a child of the chosen agent that gets the other answers.
fn merge(core: &mut Core, number: u64, letter: char) -> Result<AgentId> {
    let comparison = core.comparisons.get(number).ok_or_else(agent_gone)?;
    let chosen = column(comparison, letter)?.clone();
    require_complete(core, comparison, "merge")?;
    let answers = comparison.complete(&core.roster);
    let prompt = Some(merge_prompt(&chosen, &answers));
    let child = core.spawn(Spawn { prompt, ..Spawn::new(chosen.agent, Origin::Internal, Inherit::All) })?;
    end_comparison(core, number, Some(chosen.agent));
    Ok(child)
}

fn drop_column(core: &mut Core, number: u64, letter: char) -> Result<()> {
    let comparison = core.comparisons.get_mut(number).ok_or_else(agent_gone)?;
    let dropped = column(comparison, letter)?.clone();
    comparison.columns.retain(|column| column.letter != letter);
    if comparison.columns.is_empty() {
        end_comparison(core, number, None);
    }
    if dropped.is_fork {
        put_away(core, dropped.agent);
    }
    Ok(())
}

/// Creates the agent that chooses the best answer, which uses the model of `asked_at`. Returns it with its prompt.
fn add_judge(core: &mut Core, number: u64, asked_at: AgentId) -> Result<(AgentId, String)> {
    let comparison = core.comparisons.get(number).ok_or_else(agent_gone)?;
    require_complete(core, comparison, "vote")?;
    if comparison.judge.as_ref().is_some_and(|judge| core.roster.get(judge.agent).is_some_and(is_busy)) {
        return Err(Error::usage("the judge works already"));
    }
    let prompt = judge_prompt(&comparison.prompt, &comparison.complete(&core.roster));
    let parent = if core.roster.get(comparison.origin).is_some() { comparison.origin } else { asked_at };
    let spec = Spawn::new(parent, Origin::Internal, Inherit::Nothing);
    let agent = core.spawn(Spawn { system: Some(JUDGE_ROLE.into()), has_tools: false, ..spec })?;
    let judge = Column {
        letter: ' ',
        agent,
        label: "judge".into(),
        prompt: prompt.clone(),
        after: MessageId(0),
        is_fork: true,
    };
    core.comparisons.get_mut(number).ok_or_else(agent_gone)?.judge = Some(judge);
    Ok((agent, prompt))
}

fn is_busy(agent: &Agent) -> bool {
    agent.state() != State::Idle && agent.role != Role::Summary
}
