//! `polylogue serve`: the loop without a terminal, which its agents outlive. In the background it is our own binary once
//! more, in a session of its own: nothing that happens to the terminal of whoever started it reaches it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::arguments::{Arguments, Serve};
use super::config::{self, ProcessEnvironment};
use super::{code, data_directory, process, scripts};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::config::Config;
use crate::reactor::Signals;
use crate::repl::Repl;
use crate::socket::{self, Listener};
use crate::store::{self, Store};

/// What the process in the background has to say, in the data directory.
const LOG: &str = "server.log";
/// A log that is longer is begun anew.
const LONGEST_LOG: u64 = 1 << 20;

/// Serves until somebody ends it, or starts who does. The exit code.
///
/// # Errors
/// The configuration is wrong, or somebody else holds the data directory.
pub fn run(arguments: &Arguments, serve: &Serve, around: &ProcessEnvironment) -> Result<u8> {
    if serve.background {
        let back = data_directory::options(arguments, config::load(arguments, around).explicit_data_directory());
        return background(&data_directory::required(arguments, around)?, &back);
    }
    if serve.detached {
        // A process that was just started leads no group, so it can leave the session.
        rustix::process::setsid().map_err(std::io::Error::from)?;
    }
    // An option may stand before the word and behind it.
    let mut arguments = arguments.clone();
    arguments.working_limit = serve.working_limit.clone().or(arguments.working_limit);
    arguments.trace = serve.trace.clone().or(arguments.trace);
    here(&arguments, serve.detached, around)
}

/// Serves in this process.
fn here(arguments: &Arguments, is_detached: bool, around: &ProcessEnvironment) -> Result<u8> {
    let directory = data_directory::required(arguments, around)?;
    process::prepare();
    let loaded = config::load(arguments, around);
    let back = data_directory::options(arguments, loaded.explicit_data_directory());
    let config = Config { supervisor: process::own_binary()?, ..loaded.into_config()? };
    let store = Store::open(&directory).map_err(|error| explain(error, &directory, &back))?;
    // The lock is ours, so a socket that is there is nobody's.
    let listener = Listener::bind(&directory)?;
    let signals = Signals::catch()?;
    let mut repl = Repl::open(config, store, Clock::system(), None)?;
    repl.set_signals(signals);
    repl.serve(listener);
    announce(&directory, &back, is_detached)?;
    let outcome = repl.run();
    let unsaved = repl.unsaved();
    drop(repl);
    if let Some(loss) = data_directory::loss(Some(&directory), unsaved) {
        scripts::aside(&loss);
    }
    outcome.map(|()| code::DONE)
}

/// One line for a person; and for whoever started us in the background the news that we can be reached.
fn announce(directory: &Path, back: &str, is_detached: bool) -> Result<()> {
    let (place, process) = (directory.display(), std::process::id());
    scripts::aside(&format!(
        "process {process} serves {place}: polylogue attach{back} brings a terminal to it, polylogue stop{back} ends it"
    ));
    if is_detached {
        // Should nobody listen any more, it was left to itself.
        let _ = writeln!(std::io::stdout(), "{process}");
        let nowhere = File::options().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(&nowhere).map_err(std::io::Error::from)?;
    }
    Ok(())
}

/// Where a server holds the directory, that is what to say.
fn explain(error: Error, directory: &Path, back: &str) -> Error {
    match (store::holder(directory), socket::connect(directory)) {
        (Some(process), Ok(Some(_))) => {
            let place = directory.display();
            let words =
                format!("process {process} serves {place} already: polylogue attach{back} brings a terminal to it");
            Error::new(ErrorKind::System, words)
        }
        _ => error,
    }
}

/// Starts a server in the background and waits until it can be reached, or has failed.
fn background(directory: &Path, back: &str) -> Result<u8> {
    store::make_directory(directory)?;
    let path = directory.join(LOG);
    let mut log = store::private_file(&path)?;
    if log.metadata()?.len() > LONGEST_LOG {
        log.set_len(0)?;
    }
    let before = log.seek(SeekFrom::End(0))?;
    let mut child = spawn(&path)?;
    let mut line = String::new();
    if let Some(told) = child.stdout.take() {
        BufReader::new(told).read_line(&mut line)?;
    }
    if line.is_empty() {
        return failed(&mut child, log, before);
    }
    scripts::line(line.trim_end());
    scripts::aside(&format!(
        "{} is served: polylogue attach{back} brings a terminal to it, polylogue stop{back} ends it",
        directory.display()
    ));
    Ok(code::DONE)
}

/// Ourselves once more, with the same words.
fn spawn(log: &Path) -> Result<Child> {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| if word == "--background" { "--detached".into() } else { word });
    let log = File::options().append(true).open(log)?;
    let mut command = Command::new(process::own_binary()?);
    // The name that lists of processes show.
    command.arg0("polylogue").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    command.spawn().map_err(|error| Error::from(error).context("a server cannot be started"))
}

/// What it said before it ended is what there is to say.
fn failed(child: &mut Child, mut log: File, before: u64) -> Result<u8> {
    let status = child.wait()?;
    let mut words = String::new();
    log.seek(SeekFrom::Start(before))?;
    log.read_to_string(&mut words)?;
    // It begins with our name, as every word beside an answer does.
    let words = words.trim_end();
    let words = words.strip_prefix("polylogue: ").unwrap_or(words);
    scripts::aside(if words.is_empty() { "the server ended without a word" } else { words });
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(code::FAILED))
}
