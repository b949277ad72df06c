//! The run: turns an event loop of its own until there is an outcome, a signal, or no reader of the output.

use std::os::fd::RawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::plan::{Plan, Work};
use super::report::{Report, code_of};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::config::Loaded;
use crate::cli::stdio::streams::{LAST_OUTPUT_TIMEOUT, Streams, WriteError};
use crate::cli::{code, data_directory, process};
use crate::domain::config::Config;
use crate::reactor::{Signal, Signals};
use crate::repl::{Repl, RunId, Turn};
use crate::store::{self, Store};
use crate::team::coordinator::member::Member;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::settings::MAX_MEMBERS;

/// Returns the exit code.
///
/// # Errors
/// The run could not begin: the configuration is invalid, a model is not configured, or the store cannot be opened.
pub fn run(plan: Plan, loaded: Loaded, is_json: bool) -> Result<u8> {
    process::prepare();
    // The default is meant for a chat; here all members may work at once.
    let limit = if loaded.is_explicit("working_limit") { loaded.config().working_limit } else { MAX_MEMBERS };
    let config =
        Config { supervisor: process::own_binary()?, working_limit: limit, ..loaded.unattended().into_config()? };
    plan.check_models(&config.catalog)?;
    let mut report = Report::new(Streams::of_process()?, is_json);
    config.hint.iter().chain(&config.notes).for_each(|note| report.streams.note(note));
    let (directory, model) = (config.data_directory.clone(), config.endpoint.full_name());
    let store = directory.as_deref().map_or_else(Store::in_memory, open)?;
    let signals = Signals::catch_termination()?;
    let mut repl = Repl::open(config, store, Clock::system())?;
    let run = begin(&mut repl, plan, &model)?;
    let code = Session { repl, run, report, signals, exit_code: None }.run()?;
    if let Some(loss) = data_directory::loss(directory.as_deref(), 0) {
        return Err(Error::new(ErrorKind::Store, loss));
    }
    Ok(code)
}

fn open(directory: &Path) -> Result<Store> {
    Store::open(directory).map_err(|error| match store::holder(directory) {
        Some(process) => {
            let message = format!(
                "the store in {} is in use by another polylogue (process {process}): use --ephemeral or another \
                 --data-dir, or /team in that chat",
                directory.display()
            );
            Error::new(error.kind, message)
        }
        None => error,
    })
}

/// A member without a model uses the configured one, even if the root agent uses another.
fn begin(repl: &mut Repl, plan: Plan, model: &str) -> Result<RunId> {
    let root = repl.roster().nth(0).expect("there is at least agent 0");
    let is_default = repl.roster().get(root).is_some_and(|root| root.inputs.endpoint.full_name() == model);
    let set_model = |member: &mut Member| {
        if !is_default && member.model.is_none() {
            member.model = Some(model.to_owned());
        }
    };
    match plan.work {
        Work::Members(mut members) => {
            members.iter_mut().for_each(set_model);
            repl.run_task(root, members, &plan.task, plan.settings)
        }
        Work::Workflow(mut workflow) => {
            workflow.steps.iter_mut().map(|step| &mut step.member).for_each(set_model);
            repl.run_workflow(root, &workflow, &plan.task, plan.settings)
        }
    }
}

struct Session {
    repl: Repl,
    run: RunId,
    report: Report,
    signals: Signals,
    exit_code: Option<u8>,
}

impl Session {
    fn run(mut self) -> Result<u8> {
        self.repl.watch_external(self.signals.fd(), true, false)?;
        loop {
            self.report_events();
            if let Some(outcome) = self.repl.outcome(&self.run) {
                return self.end(&outcome);
            }
            if let (None, Some(error)) = (self.exit_code, self.report.streams.error()) {
                let code = self.code_of_error(&error);
                self.interrupt(code);
            }
            if let (None, Some(limit)) = (self.exit_code, self.repl.limit_reached()) {
                self.report.streams.note(&limit);
                self.interrupt(code::LIMIT);
            }
            if self.turn(None)? == Turn::Exit {
                return Ok(code::of_signal(rustix::process::Signal::TERM.as_raw()));
            }
        }
    }

    fn report_events(&mut self) {
        for event in self.repl.take_events(&self.run) {
            self.report.on_event(self.run.as_str(), &event);
        }
    }

    /// Ends the run with what it has.
    fn interrupt(&mut self, code: u8) {
        self.exit_code = Some(code);
        self.repl.interrupt_run(&self.run);
    }

    fn code_of_error(&mut self, error: &WriteError) -> u8 {
        match error {
            WriteError::Closed => code::UNREAD,
            WriteError::Failed(message) => {
                self.report.streams.note(message);
                code::FAILED
            }
            WriteError::Stalled(message) => {
                self.report.streams.note(message);
                code::LIMIT
            }
        }
    }

    fn turn(&mut self, limit: Option<Duration>) -> Result<Turn> {
        let watched: Vec<(RawFd, bool)> = self.report.streams.watched().collect();
        for (fd, writable) in watched {
            self.repl.watch_external(fd, true, writable)?;
        }
        let turn = self.repl.turn(limit)?;
        for (agent_id, title) in self.repl.refuse_questions() {
            self.report.streams.note_refused_call(&format!("{title} (of {})", self.repl.roster().label_of(agent_id)));
        }
        for (fd, _) in self.repl.take_external_ready() {
            if fd == self.signals.fd() {
                let number = |signal| if let Signal::Terminate(number) = signal { Some(number) } else { None };
                if let Some(number) = self.signals.take().into_iter().find_map(number) {
                    self.interrupt(code::of_signal(number));
                }
                self.repl.watch_external(fd, true, false)?;
            } else {
                self.report.streams.on_ready(fd);
            }
        }
        Ok(turn)
    }

    /// Writes the answer, and waits until it is read; after a signal or an error only for a moment.
    fn end(mut self, outcome: &Outcome) -> Result<u8> {
        self.repl.leave()?;
        self.report.finish(outcome);
        if self.repl.unsaved() > 0 && self.exit_code.is_none() && code_of(outcome) == code::DONE {
            self.report.streams.note("some messages could not be saved");
            self.exit_code = Some(code::FAILED);
        }
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        while self.report.streams.is_waiting() {
            let left = self.exit_code.map(|_| give_up.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            self.turn(left)?;
        }
        self.report.streams.flush();
        let error = self.report.streams.error().map(|error| self.code_of_error(&error));
        Ok(self.exit_code.or(error).unwrap_or_else(|| code_of(outcome)))
    }
}
