//! From the command line to one of the modes to an exit code.

mod arguments;
mod endpoint;
mod process;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use crate::base::clock::Clock;
use crate::base::error::{ErrorKind, Result};
use crate::domain::config::{Config, Settings};
use crate::domain::flow::Change;
use crate::reactor::Signals;
use crate::repl::{Device, Repl};
use crate::store::Store;
use crate::terminal::tty::Tty;
use crate::tools::supervise;
use arguments::Arguments;

/// Exit codes that scripts rely on.
mod code {
    pub const DONE: u8 = 0;
    pub const FAILED: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const PROVIDER: u8 = 3;
}

/// The whole program.
pub fn main() -> ExitCode {
    // Before anything else: a supervisor must be small and start at once.
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|first| first == supervise::FLAG).is_some() {
        return supervise::main(words);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => {
            let code = if told.use_stderr() { code::USAGE } else { code::DONE };
            // Nobody reads the help that was asked for: nothing to do about it.
            drop(told.print());
            return ExitCode::from(code);
        }
    };
    match chat(arguments) {
        Ok(()) => ExitCode::from(code::DONE),
        Err(error) => {
            // The terminal may be gone, and then nobody is left to tell.
            let _ = writeln!(std::io::stderr(), "polylogue: {error}");
            ExitCode::from(match error.kind {
                ErrorKind::Usage => code::USAGE,
                ErrorKind::Auth => code::PROVIDER,
                _ => code::FAILED,
            })
        }
    }
}

/// The chat on the terminal that the program was started from.
fn chat(arguments: Arguments) -> Result<()> {
    process::prepare();
    let config = configure(&arguments)?;
    let directory = config.data_directory.clone();
    let mut tty = Tty::open()?;
    let store = match &config.data_directory {
        Some(directory) if arguments.read_only => Store::open_read_only(directory)?,
        Some(directory) => Store::open(directory)?,
        None => Store::in_memory()?,
    };
    process::restore_terminal_on_panic();
    // Before the terminal is changed: from then on every signal has to give it back.
    let signals = Signals::catch()?;
    tty.enter()?;
    let mut repl = Repl::open(config, store, Clock::system(), Some(Device::Terminal(Box::new(tty))))?;
    repl.heed(signals);
    if let Some(prompt) = arguments.prompt() {
        let root = repl.roster().nth(0).expect("there is at least agent 0");
        repl.ask(root, Change::Submit(prompt))?;
    }
    let outcome = repl.run();
    let (kept, unsaved) = (repl.roster().len(), repl.unsaved());
    drop(repl);
    if outcome.is_ok() {
        let _ = writeln!(std::io::stdout(), "{}", farewell(&arguments, kept));
        if let Some(loss) = loss(directory.as_deref(), unsaved) {
            let _ = writeln!(std::io::stderr(), "polylogue: {loss}");
        }
    }
    outcome
}

fn farewell(arguments: &Arguments, agents: usize) -> String {
    if arguments.ephemeral {
        return "Nothing was kept (--ephemeral).".into();
    }
    if arguments.read_only {
        return "Nothing was changed (--read-only).".into();
    }
    let directory = arguments
        .data_dir
        .as_ref()
        .map(|directory| format!(" --data-dir {}", quoted(&directory.display().to_string())));
    let who = if agents == 1 { "1 agent is".into() } else { format!("{agents} agents are") };
    format!("{who} kept. To go on: polylogue{}", directory.unwrap_or_default())
}

/// What is not kept although it should be.
fn loss(directory: Option<&Path>, unsaved: usize) -> Option<String> {
    if let Some(gone) = directory.filter(|directory| !Store::is_in_place(directory)) {
        return Some(format!("the store in {} was removed meanwhile: nothing is kept", gone.display()));
    }
    (unsaved > 0).then(|| format!("{unsaved} messages could not be saved and are lost"))
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn configure(arguments: &Arguments) -> Result<Config> {
    let chosen = endpoint::choose(arguments.model.as_deref())?;
    let data_directory = match (arguments.ephemeral, &arguments.data_dir) {
        (true, _) => None,
        (false, Some(directory)) => Some(directory.clone()),
        (false, None) => Some(process::data_directory()?),
    };
    Ok(Config {
        data_directory,
        catalog: chosen.catalog,
        endpoint: chosen.endpoint,
        hint: chosen.hint,
        working_directory: std::env::current_dir()?,
        supervisor: process::own_binary()?,
        settings: Settings::default(),
        environments: Vec::new(),
        commands: Vec::new(),
        working_limit: arguments.working_limit,
        follows_forks: !arguments.stay,
        trace: arguments.trace.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_can_be_copied_into_a_shell() {
        let last_words = |directory: &str| {
            let arguments = Arguments::parse_from(["polylogue", "--data-dir", directory]);
            farewell(&arguments, 1)
        };
        assert!(last_words("/a/b-c").ends_with("polylogue --data-dir /a/b-c"));
        assert!(last_words("/a b/it's").ends_with(r"polylogue --data-dir '/a b/it'\''s'"));
    }
}
