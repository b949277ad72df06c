//! From the command line to one of the modes to an exit code.

mod arguments;
mod attach;
mod client;
mod code;
mod completions;
pub mod config;
mod connect;
mod doctor;
mod man;
#[cfg(feature = "coordinator")]
mod multi_agent;
#[cfg(not(feature = "coordinator"))]
#[path = "multi_agent/left_out.rs"]
mod multi_agent;
pub mod print;
mod process;
mod scripts;
mod serve;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue};

use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::sanitise;
use crate::domain::config::Config;
use crate::domain::flow::Change;
use crate::reactor::Signals;
use crate::repl::{Device, Repl};
use crate::store::Store;
use crate::terminal::tty::Tty;
use crate::tools::supervisor;
use arguments::{Arguments, Command};
use config::Surroundings;
use print::Whom;

/// The whole program.
pub fn main() -> ExitCode {
    // Before anything else: a supervisor must be small and start at once.
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|first| first == supervisor::FLAG).is_some() {
        return supervisor::main(words);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => {
            let code = if told.use_stderr() { code::USAGE } else { code::DONE };
            // Nobody reads the help that was asked for: nothing to do about it.
            drop(told.print());
            if let Some(ContextValue::String(word)) = told.get(ContextKind::InvalidArg)
                && !word.starts_with('-')
            {
                let words = "to send words that begin with the name of a subcommand, put -- before them";
                // As above.
                let _ = writeln!(std::io::stderr(), "polylogue: {words}");
            }
            return ExitCode::from(code);
        }
    };
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // The terminal may be gone, and then nobody is left to tell.
            let _ = writeln!(std::io::stderr(), "polylogue: {}", sanitise(&error.message));
            ExitCode::from(match error.kind {
                // Only a wait of ours for a server ends like these here: what a provider does happens inside a turn.
                ErrorKind::Timeout => code::LIMIT,
                ErrorKind::Network | ErrorKind::Protocol | ErrorKind::Stalled => code::FAILED,
                kind => code::of_kind(kind.name()),
            })
        }
    }
}

/// One of the modes. Returns the exit code.
fn run(arguments: &Arguments) -> Result<u8> {
    let around = Surroundings::of_process()?;
    if let (Some(_), Some(prompt)) = (&arguments.command, arguments.prompt()) {
        let words = format!("{prompt:?} stands before the name of a subcommand: to send all of it, put -- before it");
        return Err(Error::new(ErrorKind::Usage, words));
    }
    if arguments.command.is_some() && (arguments.print || arguments.goes_on || arguments.resume.is_some()) {
        let words = "a subcommand sends nothing: if its name is what is to be sent, put -- before it";
        return Err(Error::new(ErrorKind::Usage, words));
    }
    let judged = |is_well: bool| if is_well { code::DONE } else { code::FAILED };
    match &arguments.command {
        Some(Command::Config(command)) => config::show::run(command, arguments, &around).map(judged),
        Some(Command::Doctor { offline }) => Ok(judged(doctor::run(arguments, &around, *offline))),
        Some(Command::Man) => Ok(shown(&man::page())),
        Some(Command::Completions { shell }) => Ok(shown(&completions::script(*shell))),
        Some(Command::Serve(serve)) => serve::run(arguments, serve, &around),
        Some(Command::Attach { agent, read_only }) => connect::attach(arguments, &around, agent.clone(), *read_only),
        Some(Command::MultiAgent(command)) => multi_agent::run(command, arguments, &around),
        Some(command) => scripts::run(command, &served_directory(arguments, &around)?),
        None if arguments.print => print::run(arguments, &around),
        None => match connect::instead_of_chat(arguments, &around)? {
            Some(code) => Ok(code),
            None => chat(arguments, &around).map(|()| code::DONE),
        },
    }
}

fn shown(text: &str) -> u8 {
    config::show::print(text);
    code::DONE
}

/// The data directory whose server is asked. What else is wrong with the configuration is the server's business.
fn served_directory(arguments: &Arguments, around: &Surroundings) -> Result<PathBuf> {
    let loaded = config::load(arguments, around);
    if let Some(directory) = &loaded.config().data_directory {
        return Ok(directory.clone());
    }
    loaded.into_config()?;
    let words = "where nothing is kept (--ephemeral) there is no server: agents that outlive a terminal are kept";
    Err(Error::new(ErrorKind::Usage, words))
}

/// The chat on the terminal that the program was started from.
fn chat(arguments: &Arguments, around: &Surroundings) -> Result<()> {
    process::prepare();
    let loaded = config::load(arguments, around);
    let said = loaded.data_directory_said().map(Path::to_owned);
    let config = Config { supervisor: process::own_binary()?, ..loaded.into_config()? };
    let (directory, model) = (config.data_directory.clone(), config.endpoint.full_name());
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
    repl.set_signals(signals);
    let outcome = begin(&mut repl, arguments, &model).and_then(|()| repl.run());
    let (kept, unsaved) = (repl.roster().len(), repl.unsaved());
    drop(repl);
    if outcome.is_ok() {
        let _ = writeln!(std::io::stdout(), "{}", farewell(arguments, said.as_deref(), directory.is_some(), kept));
        if let Some(loss) = loss(directory.as_deref(), unsaved) {
            let _ = writeln!(std::io::stderr(), "polylogue: {loss}");
        }
    }
    outcome
}

/// Brings whom the command line means to the screen, and says what it says.
fn begin(repl: &mut Repl, arguments: &Arguments, model: &str) -> Result<()> {
    let root = repl.roster().nth(0).expect("there is at least agent 0");
    let agent_id = match Whom::of(arguments) {
        Whom::New => root,
        Whom::Unnamed => {
            let all = repl.agents(root);
            repl.announce(root, &format!("/switch NAME, NUMBER or ID shows one of these:\n{all}"));
            root
        }
        whom => print::choose(repl, &whom, arguments.model.is_some().then_some(model), None)?,
    };
    repl.ask(root, Change::Switch(agent_id))?;
    arguments.prompt().map_or(Ok(()), |prompt| repl.ask(agent_id, Change::Submit(prompt)))
}

/// The last words; `said` is the data directory, if it must be said again.
fn farewell(arguments: &Arguments, said: Option<&Path>, is_kept: bool, agents: usize) -> String {
    if !is_kept {
        return "Nothing was kept (--ephemeral).".into();
    }
    if arguments.read_only {
        return "Nothing was changed (--read-only).".into();
    }
    let agent_id = if agents == 1 { "1 agent is".into() } else { format!("{agents} agents are") };
    format!("{agent_id} kept. To go on: polylogue{}", way_back(arguments, said))
}

/// The options that lead to the same agents again; `said` as above.
fn way_back(arguments: &Arguments, said: Option<&Path>) -> String {
    let option = |name: &str, path: &Path| format!(" {name} {}", quoted(&path.display().to_string()));
    let config = arguments.config.as_deref().map(|file| option("--config", file)).unwrap_or_default();
    let directory = said.map(|directory| option("--data-dir", directory)).unwrap_or_default();
    format!("{config}{directory}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_can_be_copied_into_a_shell() {
        let last_words = |directory: &str| farewell(&Arguments::default(), Some(Path::new(directory)), true, 1);
        assert!(last_words("/a/b-c").ends_with("polylogue --data-dir /a/b-c"));
        assert!(last_words("/a b/it's").ends_with(r"polylogue --data-dir '/a b/it'\''s'"));
    }
}
