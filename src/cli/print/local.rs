//! A run whose agents work in this process.

use std::os::fd::RawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::output::{Ending, PrintOutput};
use super::session::{Host, Progress};
use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::cli::stdio::streams::LAST_OUTPUT_TIMEOUT;
use crate::domain::chunk::wait_line;
use crate::domain::flow::Change;
use crate::reactor::Signals;
use crate::repl::{Repl, Turn, Waiting};
use crate::socket::Listener;
use crate::team::ViewerId;

pub struct LocalHost {
    repl: Repl,
    agent_id: AgentId,
    viewer: ViewerId,
    /// The end of the wait that was said last.
    said_until: Option<Moment>,
    /// Commands in the background are not ended with the run.
    keeps_background: bool,
}

impl LocalHost {
    /// # Errors
    /// There is no such agent, or it waits for the answer to a question.
    pub fn new(mut repl: Repl, agent_id: AgentId, max_requests: Option<u32>, keeps_background: bool) -> Result<Self> {
        repl.require_answered(agent_id)?;
        let viewer = repl.attach_to_last(agent_id, 0)?;
        if let Some(max_requests) = max_requests {
            repl.limit_requests(max_requests);
        }
        Ok(Self { repl, agent_id, viewer, said_until: None, keeps_background })
    }

    /// Serves the data directory while something needs this process, after a run whose background commands were kept.
    /// `waiting` is the process that was started for the run, and ends with this code.
    ///
    /// # Errors
    /// Nobody could reach the commands, or the poll fails.
    pub fn go_on(mut self, waiting: Waiting, directory: &Path, code: u8) -> Result<()> {
        if self.repl.has_background() {
            self.repl.serve(Listener::bind(directory)?);
            self.repl.go_on(waiting, code, Signals::catch()?)?;
            while self.repl.is_needed() && self.repl.turn(None)? == Turn::Continue {}
            let agent_id = self.agent_id;
            self.repl.leave_with(|repl| repl.archive_print_run(agent_id))?;
        }
        Ok(())
    }

    /// Interrupts what is at work, and lets the background commands go on.
    fn keep_background(&mut self, output: &mut PrintOutput) -> Result<()> {
        let busy: Vec<AgentId> = self.repl.roster().busy().iter().copied().collect();
        busy.into_iter().try_for_each(|agent_id| self.repl.interrupt(agent_id))?;
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        while !self.repl.roster().busy().is_empty() && Instant::now() < give_up {
            self.repl.turn(Some(LAST_OUTPUT_TIMEOUT))?;
        }
        self.write_new_chunks(output);
        Ok(())
    }

    fn write_new_chunks(&mut self, output: &mut PrintOutput) {
        write_new_chunks(&mut self.repl, self.viewer, output);
    }

    /// Says each wait once.
    fn say_wait(&mut self, output: &mut PrintOutput) {
        let Some(held_up) = self.repl.held_up(self.agent_id) else { return };
        if held_up.is_news(self.said_until) {
            self.said_until = Some(held_up.until);
            let line = wait_line(&self.agent_id.to_string(), held_up.length, &held_up.reason);
            output.on_wait(held_up.length, &held_up.reason, || line.to_string());
        }
    }

    /// The length of the agent's queue, if the agent is at rest.
    fn queued_at_rest(&self) -> Option<usize> {
        let agent = self.repl.roster().get(self.agent_id)?;
        agent.status().is_at_rest().then_some(agent.queue.len())
    }
}

impl Host for LocalHost {
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.repl.watch_external(fd, readable, writable)
    }

    fn take_ready(&mut self) -> Vec<RawFd> {
        self.repl.take_external_ready().into_iter().map(|(fd, _)| fd).collect()
    }

    fn turn(&mut self, limit: Option<Duration>, output: &mut PrintOutput) -> Result<Turn> {
        // Chunks of what was just sent are written before the loop waits.
        self.write_new_chunks(output);
        let turn = self.repl.turn(limit)?;
        for (agent_id, title) in self.repl.refuse_questions() {
            // Questions of the run's own agent are among its chunks.
            if agent_id != self.agent_id {
                output.streams.note_refused_call(&format!("{title} (of {})", self.repl.roster().label_of(agent_id)));
            }
        }
        self.write_new_chunks(output);
        self.say_wait(output);
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
            return Ok(Progress::Stuck(Ending::max_turns()));
        }
        if let Some(message) = self.repl.limit_reached() {
            return Ok(Progress::Stuck(Ending::Limit(message)));
        }
        let Some(queued) = self.queued_at_rest() else {
            let is_alive = self.repl.roster().get(self.agent_id).is_some();
            return Ok(if is_alive { Progress::Working } else { stuck("the agent was killed") });
        };
        if queued == 0 {
            return Ok(Progress::AtRest);
        }
        // After an interrupt or an error the queue waits for a person; here the next line of the input follows.
        self.repl.apply(self.agent_id, Change::Resume)?;
        let is_stuck = self.queued_at_rest().is_some_and(|left| left >= queued);
        let message = "the agent's queue cannot be processed: /queue in a chat shows it";
        Ok(if is_stuck { stuck(message) } else { Progress::Working })
    }

    fn leave(&mut self, output: &mut PrintOutput) -> Result<Option<Ending>> {
        let roster = self.repl.roster();
        let is_other = |id: &&AgentId| **id != self.agent_id && !roster.asking().contains(id);
        let others = roster.busy().iter().filter(is_other).count();
        if others > 0 {
            output.note(&format!("interrupted {} still at work", counted(others, "other agent", "other agents")));
        }
        if self.keeps_background && self.repl.has_background() {
            self.keep_background(output)?;
            return Ok(self.repl.loss().map(|loss| failed(&loss)));
        }
        let commands: usize = self.repl.roster().iter().map(Agent::background_commands).sum();
        if commands > 0 {
            let ended = counted(commands, "background command", "background commands");
            output.note(&format!("ended {ended} with the run: --keep-background lets them run on"));
        }
        let Self { repl, agent_id, viewer, .. } = self;
        repl.leave_with(|repl| {
            write_new_chunks(repl, *viewer, output);
            repl.archive_print_run(*agent_id);
        })?;
        Ok(repl.loss().map(|loss| failed(&loss)))
    }

    fn waits_for(&self) -> Option<String> {
        self.repl.held_up(self.agent_id).map(|held_up| held_up.reason)
    }

    fn agent(&self) -> String {
        self.agent_id.to_string()
    }

    fn requests(&self) -> u32 {
        self.repl.requests()
    }
}

fn write_new_chunks(repl: &mut Repl, viewer: ViewerId, output: &mut PrintOutput) {
    while repl.has_unread(viewer) {
        let new = repl.read(viewer, usize::MAX);
        if new.missed > 0 {
            output.on_missed(new.missed);
        }
        for numbered in &new.chunks {
            output.on_chunk(&numbered.chunk, || numbered.to_line(repl.epoch()));
        }
    }
}

fn stuck(message: &str) -> Progress {
    Progress::Stuck(failed(message))
}

fn failed(message: &str) -> Ending {
    Ending::Failed(Error::new(ErrorKind::Tool, message).into())
}
