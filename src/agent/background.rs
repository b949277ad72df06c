//! The commands that an agent has started in the background. They go on after the turn, and end with the agent.

use std::time::Duration;

use crate::agent::{Agent, Context};
use crate::domain::tool::ToolCall;
use crate::tools::{BackgroundCommands, Prepared, Running, SharedNetworks};

/// How long `bash_kill` waits for the end: longer than it takes to end a command.
const KILL_TIME_LIMIT: Duration = Duration::from_secs(4);

/// The commands, and the calls that wait for the end of one.
#[derive(Default)]
pub struct Background {
    commands: BackgroundCommands,
    waits: Vec<Wait>,
    /// The network namespaces of these commands, which the agent's other commands share.
    pub(super) networks: SharedNetworks,
}

/// A call that is answered when a command ends.
struct Wait {
    call: String,
    id: String,
    filter: Option<String>,
}

impl Agent {
    /// Starts the command of a call. Returns the result of the call.
    pub(super) fn start_in_background(
        &mut self,
        call: ToolCall,
        prepared: Prepared,
        context: &Context,
    ) -> Result<String, String> {
        let environment = self.environment_of_call(&call.id);
        self.background.commands.start(call, prepared, environment, context.wake.clone())
    }

    /// How many commands run in the background.
    pub fn background_commands(&self) -> usize {
        self.background.commands.running()
    }

    /// The commands that run, one line each.
    pub fn list_background(&self) -> Vec<String> {
        self.background.commands.list()
    }

    /// Collects the commands that have ended, and answers the calls that wait for them. Returns notes for the person.
    pub fn poll_background(&mut self, context: &mut Context) -> Vec<String> {
        let mut notes = Vec::new();
        for news in self.background.commands.poll() {
            let is_over = |wait: &mut Wait| news.has_ended && wait.id == news.id;
            let waits: Vec<Wait> = self.background.waits.extract_if(.., is_over).collect();
            waits.into_iter().for_each(|wait| self.answer_wait(&wait, context));
            notes.extend(news.notes);
        }
        notes
    }

    /// Answers a call with the new output of a command when the command ends or this time is over.
    pub fn read_background(
        &mut self,
        call: &str,
        (id, filter): (String, Option<String>),
        time: Duration,
        context: &mut Context,
    ) {
        let wait = Wait { call: call.to_owned(), id, filter };
        match self.background.commands.is_running(&wait.id) {
            Ok(true) if !time.is_zero() => {
                self.park_call(call, context.now + time);
                let work = &self.work;
                self.background.waits.retain(|wait| work.is_waiting_call(&wait.call));
                self.background.waits.push(wait);
            }
            _ => self.answer_wait(&wait, context),
        }
    }

    /// Ends a command, and answers the call when it has ended.
    pub fn kill_background(&mut self, call: &str, id: String, context: &mut Context) {
        match self.background.commands.kill(&id) {
            Ok(()) => self.read_background(call, (id, None), KILL_TIME_LIMIT, context),
            Err(message) => drop(self.answer_call(call, Err(message), context)),
        }
    }

    /// The time limit of a call that waits for a command has passed.
    pub fn end_background_wait(&mut self, call: &str, context: &mut Context) {
        if let Some(at) = self.background.waits.iter().position(|wait| wait.call == call) {
            let wait = self.background.waits.remove(at);
            self.answer_wait(&wait, context);
        }
    }

    fn answer_wait(&mut self, wait: &Wait, context: &mut Context) {
        // Reading consumes the output, so nothing is read for an interrupted call.
        if self.is_waiting_call(&wait.call) {
            let answer = self.background.commands.read(&wait.id, wait.filter.as_deref());
            self.answer_call(&wait.call, answer, context);
        }
    }

    /// Asks all background commands to end.
    pub fn cancel_background(&self) {
        self.background.commands.cancel();
    }

    /// Ends all background commands. Returns their threads, which have to be joined.
    pub fn end_background(&mut self) -> Vec<Running> {
        self.background.commands.end()
    }
}
