//! A run in a house of its own, which nobody else is in.

use std::os::fd::RawFd;
use std::time::Duration;

use super::desk::{Desk, Ending};
use super::session::{Host, Progress};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::flow::Change;
use crate::repl::{Repl, Turn, ViewerId};

/// The house, and the agent that is spoken to.
pub struct Own {
    repl: Repl,
    agent_id: AgentId,
    viewer: ViewerId,
}

impl Own {
    /// A house in which this agent is spoken to, and no more requests than so many are made.
    ///
    /// # Errors
    /// The agent cannot be spoken to.
    pub fn new(mut repl: Repl, agent_id: AgentId, most_requests: Option<u32>) -> Result<Self> {
        let viewer = repl.attach_to_last(agent_id, 0)?;
        if let Some(most) = most_requests {
            repl.limit_requests(most);
        }
        Ok(Self { repl, agent_id, viewer })
    }

    /// What the agent did since the last time.
    fn take_chunks(&mut self, desk: &mut Desk) {
        while self.repl.has_unread(self.viewer) {
            let seen = self.repl.read(self.viewer, usize::MAX);
            if seen.missed > 0 {
                desk.miss(seen.missed);
            }
            for one in &seen.chunks {
                desk.on_chunk(&one.chunk, || one.to_line(self.repl.epoch()));
            }
        }
    }

    /// How much is queued for the agent, if it is at rest.
    fn queued_at_rest(&self) -> Option<usize> {
        let agent = self.repl.roster().get(self.agent_id)?;
        agent.status().is_at_rest().then_some(agent.queue.len())
    }
}

impl Host for Own {
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.repl.watch_external(fd, readable, writable)
    }

    fn take_news(&mut self) -> Vec<RawFd> {
        self.repl.take_external_ready().into_iter().map(|(fd, _)| fd).collect()
    }

    fn turn(&mut self, limit: Option<Duration>, desk: &mut Desk) -> Result<Turn> {
        // What was said just now is told before the loop waits.
        self.take_chunks(desk);
        let turn = self.repl.turn(limit)?;
        for (agent_id, what) in self.repl.refuse_questions() {
            // The agent's own questions are among its chunks.
            if agent_id != self.agent_id {
                desk.refuse(&format!("{what} (of {})", self.repl.label_of(agent_id)));
            }
        }
        self.take_chunks(desk);
        Ok(turn)
    }

    fn send(&mut self, text: &str) -> Result<()> {
        self.repl.send(self.agent_id, text)
    }

    fn interrupt(&mut self) -> Result<()> {
        self.repl.interrupt(self.agent_id)
    }

    fn queued(&self) -> usize {
        self.repl.roster().get(self.agent_id).map_or(0, |agent| agent.queue.len())
    }

    fn progress(&mut self) -> Result<Progress> {
        if self.repl.is_out_of_requests() {
            return Ok(Progress::Stuck(Ending::out_of_requests()));
        }
        let Some(queued) = self.queued_at_rest() else {
            let is_alive = self.repl.roster().get(self.agent_id).is_some();
            return Ok(if is_alive { Progress::Working } else { stuck("the agent was killed") });
        };
        if queued == 0 {
            return Ok(Progress::AtRest);
        }
        // After a cut or an error the queue waits for a person: what was written down beforehand goes on.
        self.repl.ask(self.agent_id, Change::Resume)?;
        let is_stuck = self.queued_at_rest().is_some_and(|left| left >= queued);
        let words = "what is queued for this agent cannot be carried out: /queue shows it";
        Ok(if is_stuck { stuck(words) } else { Progress::Working })
    }

    fn leave(&mut self, desk: &mut Desk) -> Result<Option<Ending>> {
        let others = self.repl.roster().busy().iter().filter(|one| **one != self.agent_id).count();
        if others > 0 {
            let were = if others == 1 { "1 other agent was".into() } else { format!("{others} other agents were") };
            desk.say(&format!("{were} still at work: cut, and kept"));
        }
        self.repl.leave()?;
        self.take_chunks(desk);
        let words = "it was answered, but not everything could be saved";
        Ok((self.repl.unsaved() > 0).then(|| failed(words)))
    }

    fn agent(&self) -> String {
        self.agent_id.to_string()
    }

    fn requests(&self) -> u32 {
        self.repl.requests()
    }
}

fn stuck(words: &str) -> Progress {
    Progress::Stuck(failed(words))
}

fn failed(words: &str) -> Ending {
    Ending::Failed(Error::new(ErrorKind::Tool, words).into())
}
