//! The queue of an agent: messages and commands that were entered while it was busy. Each is finished before the next
//! begins.
//!
//! ```text
//!   entered --> [ 1 text, 2 /mark here, 3 text ] --> a message begins a turn; the next entry follows at its end
//!                                                --> a command runs; the next entry follows at once
//! ```
//! After an interrupt or an error the queue is paused until the user resumes it. A command that fails stays in the queue,
//! which is paused there: later entries may depend on it.

use crate::agent::{Queued, State};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, ClientId};
use crate::commands;
use crate::domain::change::Change;
use crate::domain::flow::{InputResult, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::component::{HeldText, TextOutcome};
use crate::repl::core::files::{self, Attached};
use crate::repl::core::{Core, agent_gone, drafts};
use crate::repl::event::Event;
use crate::repl::staged::stage;
use crate::repl::terminals::QUEUE_ROWS;
use crate::store::input_line;

impl Repl {
    /// Sends a message to an agent, or queues it if the agent is busy. A message that a person types at a terminal waits for the
    /// resources that it names.
    pub(super) fn submit(&mut self, origin: Origin, agent_id: AgentId, text: String) -> Result<()> {
        let Attached { text, note } = files::attach(&self.core, agent_id, text, matches!(origin, Origin::Terminal(_)))?;
        if !matches!(origin, Origin::Terminal(_)) || !self.is_held(origin, agent_id, &text)? {
            self.send_text(origin, agent_id, text)?;
        }
        if let Some(note) = note {
            self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Note, &note);
        }
        Ok(())
    }

    /// Whether a component sends this message later, with what it names.
    fn is_held(&mut self, origin: Origin, agent: AgentId, text: &str) -> Result<bool> {
        let Self { core, features, .. } = self;
        features
            .iter_mut()
            .try_fold(false, |held, feature| Ok(held || feature.holds_text(core, (origin, agent), text)?))
    }

    /// Sends the messages that components have completed, and returns the others to the drafts.
    pub(super) fn send_completed(&mut self) {
        let completed: Vec<HeldText> = self.features.iter_mut().flat_map(|feature| feature.take_completed()).collect();
        for HeldText { origin, agent, outcome } in completed {
            if let Origin::Client(client) = origin {
                self.send_completed_for(client, agent, outcome);
                self.apply_effects();
                continue;
            }
            let failed = match outcome {
                TextOutcome::Draft(text) => {
                    drafts::return_text(&mut self.core, agent, origin, &text);
                    None
                }
                TextOutcome::Failed { line, why } => Some((line, why)),
                TextOutcome::Send(text) => {
                    self.send_text(origin, agent, text.clone()).err().map(|error| (input_line(&text), error.message))
                }
            };
            if let Some((line, why)) = failed {
                drafts::return_refused(&mut self.core, agent, origin, &line);
                self.terminals.show_result(&mut self.core, origin, agent, LineKind::Error, &why);
            }
            self.apply_effects();
        }
    }

    /// The same for a client, which has no draft: a prompt is sent whatever its length, or the turn ends with the
    /// error.
    fn send_completed_for(&mut self, client: ClientId, agent: AgentId, outcome: TextOutcome) {
        let sent = match outcome {
            TextOutcome::Send(text) | TextOutcome::Draft(text) => {
                self.server.on_text(client);
                self.send_text(Origin::Client(client), agent, text)
            }
            TextOutcome::Failed { why, .. } => Err(Error::usage(why)),
        };
        if let Err(error) = sent {
            self.server.fail_turn(&mut self.core, client, &error);
        }
    }

    fn send_text(&mut self, origin: Origin, agent_id: AgentId, text: String) -> Result<()> {
        let agent = self.core.agent(agent_id).ok_or_else(agent_gone)?;
        if agent.is_occupied() {
            return self.enqueue(origin, agent_id, text, false);
        }
        self.core.begin_turn(origin, agent_id, text)
    }

    /// Adds a message or a command to the queue, shows its position, and resumes the queue if the agent is idle.
    pub(super) fn enqueue(&mut self, origin: Origin, agent_id: AgentId, text: String, is_command: bool) -> Result<()> {
        let position = self.core.enqueue(origin, agent_id, &text, is_command)?;
        match self.terminals.still_at(origin, agent_id) {
            Some(at) if is_command => self.terminals.notify(at, format!("{text}: queued at position {position}")),
            Some(at) if position > QUEUE_ROWS => self.terminals.notify(at, format!("queued at position {position}")),
            _ => {}
        }
        self.resume_queue(agent_id);
        Ok(())
    }

    /// Runs the queued commands of an idle agent up to the first message, whose turn begins.
    pub(super) fn resume_queue(&mut self, agent_id: AgentId) {
        while let Some(next) = next_queued(&self.core, agent_id) {
            let outcome = if next.is_command {
                self.run_queued_command(agent_id, &next)
            } else {
                self.core.begin_queued_turn(agent_id, &next)
            };
            if let Err(error) = outcome {
                let at = first_line(&next);
                let message =
                    format!("{error}; the queue is paused at {at}: /queue drop 1, then Enter continues without it");
                return self.core.note(agent_id, LineKind::Error, &message);
            }
        }
        self.core.emit(Event::QueueChanged { agent: agent_id });
    }

    /// Runs a command and removes it from the queue in one transaction: a crash leaves both or neither.
    fn run_queued_command(&mut self, agent_id: AgentId, next: &Queued) -> Result<()> {
        let (result, origin) =
            (commands::read_queued(&next.text, &self.core.command_context(agent_id, Vec::new()))?, next.origin);
        let (edit, note) = match result {
            InputResult::NewState(Change::EditHistory(edit), note) => (Some(edit), note),
            InputResult::Continue(note) => (None, note),
            _ => return Err(Error::usage(format!("{} cannot be queued", next.text))),
        };
        if let Some(edit) = &edit {
            self.trace.note_change(origin, agent_id, edit.name());
        }
        self.core.save_unsaved(agent_id)?;
        let staged = self.core.transaction(|core| {
            core.store().drop_queued(agent_id, &[next.id])?;
            edit.map(|edit| stage(core, origin, agent_id, &edit)).transpose()
        })?;
        if let Some(staged) = staged {
            self.install(agent_id, staged)?;
        }
        if let Some(note) = note {
            self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Note, &note);
        }
        self.core.edit(agent_id, |agent| {
            agent.queue.pop_front();
            agent.view.touch();
        });
        Ok(())
    }
}

/// The first entry in the queue of an idle agent.
fn next_queued(core: &Core, agent_id: AgentId) -> Option<Queued> {
    core.roster()
        .get(agent_id)
        .filter(|agent| agent.state() == State::Idle && !agent.is_compacting())?
        .queue
        .front()
        .cloned()
}

fn first_line(entry: &Queued) -> &str {
    entry.text.lines().next().unwrap_or_default()
}
