//! Tools that concern other agents: their calls are executed here, in order, and the result is returned to the caller.

use crate::agent::{Agent, Objection};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::approval::Policy;
use crate::domain::flow::{Origin, ToolRequest};
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::core::remove::Reach;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::core::{Core, agent_gone, agent_named, limits};
use crate::repl::objections::{Objections, Subject};
use crate::repl::stop::stop_tree;
use crate::tools::Question;

impl Repl {
    /// Executes a call and returns its result, except for a wait, which returns later.
    pub(super) fn on_tool_request(&mut self, agent_id: AgentId, call: String, request: ToolRequest) {
        if !self.core.agent(agent_id).is_some_and(|agent| agent.is_waiting_call(&call)) {
            return;
        }
        if waits_for_answer(&self.objections, agent_id, &request) {
            return self.objections.wait(agent_id, call, request);
        }
        match objection_to(&mut self.core, &mut self.objections, agent_id, &call, &request) {
            Ok(None) => {}
            Ok(Some((subject, objection))) => {
                self.objections.open(agent_id, &call, subject);
                self.core.with_agent(agent_id, |agent, context| agent.object_to_call(&call, objection, context));
                return;
            }
            Err(error) => return self.core.answer_call(agent_id, &call, Err(error.message)),
        }
        let Some(request) = self.offer_call(agent_id, &call, request) else { return };
        let answer = match request {
            ToolRequest::BashOutput { id, filter, wait } => {
                let wanted = (id, filter);
                self.core.with_agent(agent_id, |agent, context| agent.read_background(&call, wanted, wait, context));
                return;
            }
            ToolRequest::BashKill { id } => {
                self.core.with_agent(agent_id, |agent, context| agent.kill_background(&call, id, context));
                return;
            }
            other => execute(&mut self.core, agent_id, other),
        };
        self.core.answer_call(agent_id, &call, answer.map_err(|error| error.message));
    }

    /// Lets the component to which the call belongs carry it out. Returns any other.
    fn offer_call(&mut self, agent_id: AgentId, call: &str, request: ToolRequest) -> Option<ToolRequest> {
        let (core, mut components, _) = self.split();
        components.try_fold(request, |request, component| component.on_call(core, agent_id, call, request))
    }

    /// The person has answered a question of the loop about a call.
    pub(super) fn on_decided(&mut self, agent_id: AgentId, call: String, is_allowed: bool) {
        let Some(Subject::Limit(reached)) = self.objections.close(agent_id, call, is_allowed) else { return };
        self.core.trees_mut().close_question(&reached);
        if !is_allowed {
            self.core.trees_mut().on_refused(agent_id, reached);
            return stop_tree(&mut self.core, &mut self.jobs, reached.agent);
        }
        if let Err(error) = limits::raise(&mut self.core, &reached) {
            self.core.note(agent_id, LineKind::Error, &error.message);
        }
        self.objections.resume_waiting(&mut self.core, agent_id);
    }
}

/// Whether this call creates an agent while the person is being asked about a limit of its caller. It waits even if
/// there is room again: after a restart, calls that create agents beside such a question count as not run.
fn waits_for_answer(objections: &Objections, agent_id: AgentId, request: &ToolRequest) -> bool {
    matches!(request, ToolRequest::Fork { .. }) && objections.asks_about_limit(agent_id)
}

/// The question for the person before a call is carried out, if one is needed.
pub(super) fn objection_to(
    core: &mut Core,
    objections: &mut Objections,
    agent_id: AgentId,
    call: &str,
    request: &ToolRequest,
) -> Result<Option<(Subject, Objection)>> {
    let consent = objections.take_consent(agent_id, call);
    match request {
        ToolRequest::Fork { name, .. } => {
            name.as_ref().map(|name| commands::checked_name(name)).transpose()?;
            let Some(reached) = core.trees().check_creation(core.roster(), agent_id, core.clock().steady_ms()) else {
                return Ok(None);
            };
            if !core.trees_mut().begin_to_ask(&reached) {
                return Err(Error::new(ErrorKind::Limit, reached.message_for_model(core.roster())));
            }
            let raised = core.trees().raised_limit(core.roster(), &reached);
            Ok(Some((Subject::Limit(reached), reached.objection(core.roster(), raised))))
        }
        ToolRequest::Kill { agent_id: victim, cascade } => {
            let victim = agent_named(core, agent_id, victim)?;
            if consent == Some(victim) {
                return Ok(None);
            }
            let roster = core.roster();
            let is_unrestricted = roster.get(agent_id).is_some_and(Agent::is_unrestricted);
            let is_refused = roster.parent(victim).is_none() || roster.is_ancestor(victim, agent_id);
            if is_refused || is_unrestricted || roster.is_ancestor(agent_id, victim) {
                return Ok(None);
            }
            let label = core.roster().label_of(victim);
            if roster.get(agent_id).is_some_and(|agent| agent.policy() == Policy::Never) {
                let message =
                    format!("refused: {label} is not your descendant, and no question is asked (policy never)");
                return Err(Error::usage(message));
            }
            Ok(Some((Subject::Consent(victim), kill_objection(&label, *cascade))))
        }
        _ => Ok(None),
    }
}

/// Executes a call of a program that speaks for an agent. No question is asked: a call that needs an answer is refused.
pub(super) fn call_for_client(core: &mut Core, agent_id: AgentId, tool: &str, arguments: &str) -> Result<String> {
    core.require_writable()?;
    let judged = core.with_agent(agent_id, |agent, context| agent.judge_for_client(tool, arguments, context));
    let request = judged.ok_or_else(agent_gone)?.map_err(Error::usage)?;
    match &request {
        ToolRequest::Wait { .. } => return Err(Error::usage("clients wait by following the mail")),
        ToolRequest::Kill { agent_id: victim, .. } => {
            let victim = agent_named(core, agent_id, victim)?;
            if !core.roster().is_ancestor(agent_id, victim) {
                let label = core.roster().label_of(victim);
                return Err(Error::usage(format!("refused: {label} is not your descendant")));
            }
        }
        _ => {}
    }
    execute(core, agent_id, request)
}

fn execute(core: &mut Core, agent_id: AgentId, request: ToolRequest) -> Result<String> {
    match request {
        ToolRequest::Fork { prompt, name, model, definition } => {
            let child = fork(core, agent_id, prompt, name, model, definition)?;
            Ok(serde_json::json!({"id": child.to_string(), "name": core.name_of(child)}).to_string())
        }
        ToolRequest::Kill { agent_id: victim, cascade } => {
            let victim = agent_named(core, agent_id, &victim)?;
            if core.roster().is_ancestor(victim, agent_id) {
                return Err(Error::usage("an agent cannot kill its own ancestors"));
            }
            let label = core.roster().label_of(victim);
            let reach = if cascade { Reach::AgentAndDescendants } else { Reach::Agent };
            core.kill(victim, reach).map(|_| format!("killed {label}"))
        }
        ToolRequest::SendMail { to, body } => {
            let to = agent_named(core, agent_id, &to)?;
            core.send_mail(agent_id, to, &body).map(|_| format!("sent to {}", core.roster().label_of(to)))
        }
        ToolRequest::ReadMail(id) => core.read_mail(agent_id, id),
        ToolRequest::Todo(todo) if todo.0.is_empty() => Ok("the list of tasks is empty".into()),
        ToolRequest::Todo(todo) => Ok(todo.to_string()),
        ToolRequest::Run(words) => commands::run_for_model(&core.command_context(agent_id, Vec::new()), &words),
        ToolRequest::Wait { .. }
        | ToolRequest::Mcp { .. }
        | ToolRequest::Feature { .. }
        | ToolRequest::BashOutput { .. }
        | ToolRequest::BashKill { .. } => unreachable!("carried out elsewhere"),
    }
}

/// Forks an agent for its model: the child starts at once, and no terminal follows it.
fn fork(
    core: &mut Core,
    agent_id: AgentId,
    prompt: String,
    name: Option<String>,
    model: Option<String>,
    definition: Option<String>,
) -> Result<AgentId> {
    let name = name.map(|name| commands::checked_name(&name)).transpose()?;
    let spec = Spawn {
        prompt: Some(prompt),
        name,
        model,
        definition,
        ..Spawn::new(agent_id, Origin::Agent(agent_id), Inherit::BeforeTurn)
    };
    core.spawn(spec)
}

fn kill_objection(label: &str, cascade: bool) -> Objection {
    let descendants = if cascade { " and all its descendants" } else { "" };
    let title = format!("kill {label}{descendants}");
    let detail = vec![format!("{label} is not a descendant of the agent that asks")];
    Objection { question: Question::new(title, detail), refusal: format!("{label} is not your descendant") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    #[cfg(feature = "coordinator")]
    use crate::domain::change::TeamStart;
    use crate::domain::change::{Change, Fork, HistoryEdit};
    use crate::domain::config::Config;
    use crate::domain::limits::LimitName;
    use crate::domain::slice::SliceSpec;
    use crate::store::Store;

    /// A loop whose root has one answered message.
    fn repl_with_limit(most: u64) -> (Repl, AgentId) {
        let mut config = Config::default();
        config.tree_limits[LimitName::Agents] = Some(most);
        let mut repl = Repl::open(config, Store::in_memory().unwrap(), Clock::system()).unwrap();
        let root = repl.core.roster().nth(0).unwrap();
        repl.apply(root, Change::Submit("hello".into())).unwrap();
        turn_until_idle(&mut repl);
        (repl, root)
    }

    fn turn_until_idle(repl: &mut Repl) {
        repl.turn(Some(std::time::Duration::ZERO)).unwrap();
        while !repl.core.roster().busy().is_empty() {
            repl.turn(None).unwrap();
        }
    }

    #[test]
    fn every_way_in_which_a_model_creates_agents_counts() {
        let fork = Change::Fork(Fork::default());
        let changes = [
            fork,
            Change::environment("chat"),
            Change::EditHistory(HistoryEdit::Slice(SliceSpec::parse("0:1").unwrap())),
        ];
        for change in changes {
            let (mut repl, root) = repl_with_limit(2);
            for _ in 0..2 {
                repl.apply_change(Origin::Agent(root), root, change.clone()).unwrap();
            }
            let error = repl.apply_change(Origin::Agent(root), root, change.clone()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Limit, "{change:?}");
            assert_eq!(repl.core.roster().len(), 3, "{change:?}");
            repl.apply_change(Origin::Library, root, change).unwrap();
            assert_eq!(repl.core.roster().len(), 4, "a person's does not count");
        }
    }

    #[cfg(feature = "coordinator")]
    #[test]
    fn members_of_a_run_that_a_model_starts_count() {
        let (mut repl, root) = repl_with_limit(2);
        repl.apply_change(Origin::Agent(root), root, Change::Team(TeamStart::Task("parallel --count 3 hello".into())))
            .unwrap();
        for _ in 0..50 {
            repl.turn(Some(std::time::Duration::ZERO)).unwrap();
        }
        // They are archived when the run ends.
        let made = |repl: &Repl| repl.core.store().archived_agents().unwrap().agents.len();
        assert_eq!(made(&repl), 2);
        repl.apply_change(Origin::Library, root, Change::Team(TeamStart::Task("parallel --count 3 hello".into())))
            .unwrap();
        for _ in 0..50 {
            repl.turn(Some(std::time::Duration::ZERO)).unwrap();
        }
        assert_eq!(made(&repl), 5);
    }
}
