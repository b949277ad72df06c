//! Models whose agents work in this process.

use std::path::Path;
use std::time::Instant;

use super::{Answers, Ended};
use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::cli::config::Loaded;
use crate::cli::stdio::print_note;
use crate::cli::{data_directory, opening, process};
use crate::domain::config::Config;
use crate::reactor::Signals;
use crate::repl::{Repl, Turn};
use crate::team::ViewerId;

/// An agent and who reads its chunks.
type Asked = (AgentId, ViewerId);

/// `None` if another process has begun to serve the data directory; then no model was asked.
///
/// # Errors
/// A model is not configured, or the store cannot be opened; then no model was asked.
pub fn run(loaded: Loaded, prompt: &str, answers: &mut Answers, deadline: Option<Instant>) -> Result<Option<Ended>> {
    process::prepare();
    let config = Config { supervisor: process::own_binary()?, ..loaded.unattended().into_config()? };
    for answer in &mut answers.answers {
        answer.model = config.catalog.find(&answer.model)?.full_name();
    }
    config.notes.iter().for_each(|note| print_note(note));
    let directory = config.data_directory.clone();
    let Some(store) = opening::open(directory.as_deref(), deadline)? else { return Ok(None) };
    let mut signals = Signals::catch_termination()?;
    let mut repl = Repl::open(config, store, Clock::system())?;
    let asked = ask(&mut repl, prompt, answers)?;
    let ended = follow(&mut repl, &mut signals, &asked, answers, deadline)?;
    if !matches!(ended, Ended::Complete) {
        asked.iter().try_for_each(|(agent, _)| repl.interrupt(*agent))?;
    }
    repl.leave_with(|repl| {
        read(repl, &asked, answers);
        asked.iter().for_each(|(agent, _)| repl.archive_print_run(*agent));
    })?;
    if let Some(loss) = data_directory::loss(directory.as_deref().map(Path::new), repl.loss()) {
        print_note(&loss);
    }
    Ok(Some(ended))
}

fn ask(repl: &mut Repl, prompt: &str, answers: &mut Answers) -> Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for answer in &mut answers.answers {
        let agent = repl.create_print_run(Some(&answer.model))?;
        answer.agent = agent.to_string();
        asked.push((agent, repl.attach_to_last(agent, 0)?));
    }
    asked.iter().try_for_each(|(agent, _)| repl.send(*agent, prompt))?;
    Ok(asked)
}

/// Turns the loop until all have answered.
fn follow(
    repl: &mut Repl,
    signals: &mut Signals,
    asked: &[Asked],
    answers: &mut Answers,
    deadline: Option<Instant>,
) -> Result<Ended> {
    repl.watch_external(signals.fd(), true, false)?;
    loop {
        read(repl, asked, answers);
        for ((agent, _), answer) in asked.iter().zip(&mut answers.answers) {
            let is_at_rest = repl.roster().get(*agent).is_none_or(|agent| agent.status().is_at_rest());
            if is_at_rest {
                answer.end();
            }
        }
        answers.print_complete();
        if answers.are_complete() {
            return Ok(Ended::Complete);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Ended::Timeout);
        }
        if let Some(limit) = repl.limit_reached() {
            return Ok(Ended::Limit(limit));
        }
        if repl.turn(left)? == Turn::Exit {
            return Ok(Ended::Signal(rustix::process::Signal::TERM.as_raw()));
        }
        for (agent, title) in repl.refuse_questions() {
            print_note(&format!("refused: {title} (of {})", repl.roster().label_of(agent)));
        }
        if repl.take_external_ready().iter().any(|(fd, _)| *fd == signals.fd()) {
            if let Some(number) = signals.take_ending() {
                return Ok(Ended::Signal(number));
            }
            repl.watch_external(signals.fd(), true, false)?;
        }
    }
}

fn read(repl: &mut Repl, asked: &[Asked], answers: &mut Answers) {
    for ((_, viewer), answer) in asked.iter().zip(&mut answers.answers) {
        while repl.has_unread(*viewer) {
            for numbered in &repl.read(*viewer, usize::MAX).chunks {
                let _added = answer.summary.on_chunk(&numbered.chunk);
            }
        }
    }
}
