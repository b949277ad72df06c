//! A run in a house of its own: the loop is turned until there is an outcome, or somebody has enough of it.

use std::os::fd::RawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::plan::{Plan, Work};
use super::report::{Report, code_of};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::config::Loaded;
use crate::cli::print::streams::{LAST_PATIENCE, Streams, Trouble};
use crate::cli::{code, loss, process};
use crate::domain::config::Config;
use crate::reactor::{Signal, Signals};
use crate::repl::{Repl, RunId, Turn};
use crate::store::{self, Store};
use crate::team::coordinator::member::Member;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::settings::MOST_MEMBERS;

/// Carries the plan out. Returns the code with which the program ends.
///
/// # Errors
/// It could not begin: the configuration is faulty, a model is not configured, or the store cannot be opened.
pub fn run(plan: Plan, loaded: Loaded, is_json: bool) -> Result<u8> {
    process::prepare();
    // All members may work at once: the usual limit is meant for a chat.
    let limit = if loaded.is_said("working_limit") { loaded.config().working_limit } else { MOST_MEMBERS };
    let config = Config { supervisor: process::own_binary()?, working_limit: limit, ..loaded.into_config()? };
    plan.check_models(&config.catalog)?;
    let mut report = Report::new(Streams::of_process()?, is_json);
    config.hint.iter().chain(&config.notes).for_each(|words| report.streams.say(words));
    let (directory, model) = (config.data_directory.clone(), config.endpoint.full_name());
    let store = directory.as_deref().map_or_else(Store::in_memory, open)?;
    let signals = Signals::catch_termination()?;
    let mut repl = Repl::open(config, store, Clock::system(), None)?;
    let run = begin(&mut repl, plan, &model)?;
    let code = Session { repl, run, report, signals, ending: None }.run()?;
    if let Some(loss) = loss(directory.as_deref(), 0) {
        return Err(Error::new(ErrorKind::Store, loss));
    }
    Ok(code)
}

fn open(directory: &Path) -> Result<Store> {
    Store::open(directory).map_err(|error| match store::holder(directory) {
        Some(process) => {
            let words = format!(
                "the store in {} is held by another polylogue (process {process}): run this with --ephemeral or with \
                 another --data-dir, or say /team there",
                directory.display()
            );
            Error::new(error.kind, words)
        }
        None => error,
    })
}

/// Members whose model nobody names talk to the configured one, whatever the agent that asks has come to talk to.
fn begin(repl: &mut Repl, plan: Plan, model: &str) -> Result<RunId> {
    let root = repl.roster().nth(0).expect("there is at least agent 0");
    let is_usual = repl.roster().get(root).is_some_and(|root| root.talk.endpoint.full_name() == model);
    let settle = |member: &mut Member| {
        if !is_usual && member.model.is_none() {
            member.model = Some(model.to_owned());
        }
    };
    match plan.work {
        Work::Members(mut members) => {
            members.iter_mut().for_each(settle);
            repl.run_task(root, members, &plan.task, plan.settings)
        }
        Work::Workflow(mut workflow) => {
            workflow.steps.iter_mut().map(|step| &mut step.member).for_each(settle);
            repl.run_workflow(root, &workflow, &plan.task, plan.settings)
        }
    }
}

struct Session {
    repl: Repl,
    run: RunId,
    report: Report,
    signals: Signals,
    /// The code with which the program ends, if it was not the run that has decided it.
    ending: Option<u8>,
}

impl Session {
    fn run(mut self) -> Result<u8> {
        self.repl.watch_external(self.signals.fd(), true, false)?;
        loop {
            self.tell();
            if let Some(outcome) = self.repl.outcome(&self.run) {
                return self.end(&outcome);
            }
            if let (None, Some(trouble)) = (self.ending, self.report.streams.trouble()) {
                let code = self.code_of_trouble(&trouble);
                self.cut(code);
            }
            if self.turn(None)? == Turn::Exit {
                return Ok(code::of_signal(rustix::process::Signal::TERM.as_raw()));
            }
        }
    }

    /// What has happened since the last time.
    fn tell(&mut self) {
        for event in self.repl.take_events(&self.run) {
            self.report.on_event(self.run.as_str(), &event);
        }
    }

    /// The run ends with what there is.
    fn cut(&mut self, code: u8) {
        self.ending = Some(code);
        self.repl.interrupt_run(&self.run);
    }

    fn code_of_trouble(&mut self, trouble: &Trouble) -> u8 {
        match trouble {
            Trouble::Unread => code::UNREAD,
            Trouble::Failed(words) => {
                self.report.streams.say(words);
                code::FAILED
            }
            Trouble::Stuck(words) => {
                self.report.streams.say(words);
                code::LIMIT
            }
        }
    }

    /// One turn of the loop, and what it brought.
    fn turn(&mut self, limit: Option<Duration>) -> Result<Turn> {
        let watched: Vec<(RawFd, bool)> = self.report.streams.watched().collect();
        for (fd, writable) in watched {
            self.repl.watch_external(fd, true, writable)?;
        }
        let turn = self.repl.turn(limit)?;
        for (agent_id, what) in self.repl.refuse_questions() {
            self.report.streams.refuse(&format!("{what} (of {})", self.repl.label_of(agent_id)));
        }
        for (fd, _) in self.repl.take_external_ready() {
            if fd == self.signals.fd() {
                let leave = |signal| if let Signal::Terminate(number) = signal { Some(number) } else { None };
                if let Some(number) = self.signals.take().into_iter().find_map(leave) {
                    self.cut(code::of_signal(number));
                }
                self.repl.watch_external(fd, true, false)?;
            } else {
                self.report.streams.on_news(fd);
            }
        }
        Ok(turn)
    }

    /// Writes the last words, and waits until they are taken: for ever, unless somebody has enough of it.
    fn end(mut self, outcome: &Outcome) -> Result<u8> {
        self.repl.leave()?;
        self.report.conclude(outcome);
        if self.repl.unsaved() > 0 && self.ending.is_none() && code_of(outcome) == code::DONE {
            self.report.streams.say("there is an answer, but not everything could be saved");
            self.ending = Some(code::FAILED);
        }
        let patience = Instant::now() + LAST_PATIENCE;
        while self.report.streams.is_waiting() {
            let left = self.ending.map(|_| patience.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            self.turn(left)?;
        }
        self.report.streams.flush();
        let trouble = self.report.streams.trouble().map(|trouble| self.code_of_trouble(&trouble));
        Ok(self.ending.or(trouble).unwrap_or_else(|| code_of(outcome)))
    }
}
