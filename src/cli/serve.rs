//! `polylogue serve`: the event loop without a terminal of its own. In the background it is a new process of the same
//! program, in a session of its own, which closing the terminal does not affect.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::arguments::{Arguments, Serve};
use super::config::{self, ProcessEnvironment};
use super::stdio::{print_line, print_note};
use super::{code, data_directory, process};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::config::Config;
use crate::reactor::Signals;
use crate::repl::Repl;
use crate::socket::{self, Listener};
use crate::store::{self, Store};

/// Standard error of the background process; a file in the data directory.
pub const LOG: &str = "server.log";
/// A longer log is truncated at the next start.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Serves until the server is stopped, or starts one in the background. Returns the exit code.
pub fn run(arguments: &Arguments, serve: &Serve, env: &ProcessEnvironment) -> Result<u8> {
    if serve.background {
        let back = data_directory::options(arguments, config::load(arguments, env).explicit_data_directory());
        return serve_in_background(&data_directory::required(arguments, env)?, &back, arguments.cwd.is_some());
    }
    if serve.detached {
        // This cannot fail: a process that was just started does not lead a process group.
        rustix::process::setsid().map_err(std::io::Error::from)?;
    }
    // These options are accepted before and after the subcommand.
    let mut arguments = arguments.clone();
    arguments.working_limit = serve.working_limit.clone().or(arguments.working_limit);
    arguments.trace = serve.trace.clone().or(arguments.trace);
    serve_here(&arguments, serve.detached, env)
}

fn serve_here(arguments: &Arguments, is_detached: bool, env: &ProcessEnvironment) -> Result<u8> {
    let directory = data_directory::required(arguments, env)?;
    process::prepare();
    let loaded = config::load(arguments, env);
    let back = data_directory::options(arguments, loaded.explicit_data_directory());
    let config = Config { supervisor: process::own_binary()?, ..loaded.into_config()? };
    let store = Store::open(&directory).map_err(|error| explain(error, &directory, &back))?;
    // This process holds the lock of the store, so an existing socket is stale.
    let listener = Listener::bind(&directory)?;
    let signals = Signals::catch()?;
    let mut repl = Repl::open(config, store, Clock::system())?;
    repl.set_signals(signals);
    repl.serve(listener);
    announce(&directory, &back, is_detached)?;
    let outcome = repl.run();
    let loss = repl.loss();
    process::print_slow_turns(&repl);
    drop(repl);
    if let Some(loss) = data_directory::loss(Some(&directory), loss) {
        print_note(&loss);
    }
    outcome.map(|()| code::DONE)
}

/// Notes how to reach the server, and prints the process id for [`serve_in_background`].
fn announce(directory: &Path, back: &str, is_detached: bool) -> Result<()> {
    let (path, process) = (directory.display(), std::process::id());
    print_note(&format!(
        "process {process} serves {path}: polylogue attach{back} attaches a terminal, polylogue stop{back} stops the server"
    ));
    if is_detached {
        // Everything that can fail comes before the line that says that it serves.
        let null = File::options().write(true).open("/dev/null")?;
        // The process that started this one may have been killed; the server continues.
        print_line(&process.to_string());
        rustix::stdio::dup2_stdout(&null).map_err(std::io::Error::from)?;
    }
    Ok(())
}

/// Replaces the error of the store if a server holds the directory.
fn explain(error: Error, directory: &Path, back: &str) -> Error {
    match (store::holder(directory), socket::connect(directory)) {
        (Some(process), Ok(Some(_))) => {
            let message = format!(
                "process {process} already serves {}: polylogue attach{back} attaches a terminal",
                directory.display()
            );
            Error::new(ErrorKind::System, message)
        }
        _ => error,
    }
}

/// Starts a server in the background, and waits until it accepts connections or has failed.
fn serve_in_background(directory: &Path, back: &str, is_elsewhere: bool) -> Result<u8> {
    store::make_directory(directory)?;
    let path = directory.join(LOG);
    let mut log = store::private_file(&path)?;
    if log.metadata()?.len() > MAX_LOG_BYTES {
        log.set_len(0)?;
    }
    let before = log.seek(SeekFrom::End(0))?;
    let mut child = spawn(&path, is_elsewhere)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.is_empty() {
        return report_failure(&mut child, log, before);
    }
    print_line(line.trim_end());
    print_note(&format!(
        "serving {}: polylogue attach{back} attaches a terminal, polylogue stop{back} stops the server",
        directory.display()
    ));
    Ok(code::DONE)
}

/// glibc's allocator raises its threshold for freed blocks to the largest block ever returned to the system, so a
/// server would keep the memory that clients once made it use. This sets the usual threshold and keeps it.
const ALLOCATOR: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=131072");

/// Starts the same program with the same arguments, in the directory that they name.
fn spawn(log: &Path, is_elsewhere: bool) -> Result<Child> {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| if argument == "--background" { "--detached".into() } else { argument });
    let log = File::options().append(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(log)?;
    let mut command = Command::new(process::own_binary()?);
    // Without this, ps(1) shows `exe`, the last component of the path.
    if std::env::var_os(ALLOCATOR.0).is_none() {
        command.env(ALLOCATOR.0, ALLOCATOR.1);
    }
    command.arg0("polylogue").args(arguments);
    if is_elsewhere {
        // The last one counts, and a relative one was entered already.
        command.arg("--cwd").arg(std::env::current_dir()?);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    command.spawn().map_err(|error| Error::from(error).context("cannot start a server"))
}

/// Shows what the background process wrote to its log. Returns its exit code.
fn report_failure(child: &mut Child, mut log: File, before: u64) -> Result<u8> {
    let status = child.wait()?;
    let mut text = String::new();
    log.seek(SeekFrom::Start(before))?;
    log.read_to_string(&mut text)?;
    let text = text.trim_end();
    let message = text.strip_prefix("polylogue: ").unwrap_or(text);
    print_note(if message.is_empty() { "the server ended without an error message" } else { message });
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(code::FAILED))
}
