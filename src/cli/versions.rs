//! A server of another version than this program: says which is which, and offers to stop it.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::isatty;

use super::client::Client;
use super::stdio::print_note;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::sanitise;
use crate::store;

const OWN: &str = env!("CARGO_PKG_VERSION");
/// How long a server may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const STOP_POLL: Duration = Duration::from_millis(10);

/// How to use a server that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It is used.
    Server,
    /// It was stopped because its version differs.
    Stopped,
}

/// Compares the version of a server with this one. If they differ, the person at the terminal decides.
pub fn check(client: &mut Client, directory: &Path) -> Result<Use> {
    let (found, speaks_ours) = match client.server_version() {
        Ok(version) => (version, true),
        Err(error) if error.kind == ErrorKind::Usage => (None, false),
        Err(error) => return Err(error),
    };
    if found.as_deref() == Some(OWN) {
        return Ok(Use::Server);
    }
    let process = store::holder(directory).map(|process| format!(" (process {process})")).unwrap_or_default();
    let server = match &found {
        Some(version) => format!("the server{process} is polylogue {}", sanitise(version)),
        None => format!("the server{process} does not say its version, as older ones"),
    };
    let difference = format!("{server}, this is polylogue {OWN}");
    if is_agreed(&difference, speaks_ours) {
        stop(client, directory)?;
        return Ok(Use::Stopped);
    }
    if speaks_ours {
        return Ok(Use::Server);
    }
    let way = "they do not understand each other; use the version of the server, or stop it";
    Err(Error::new(ErrorKind::System, format!("{difference}: {way}")))
}

/// Whether the person wants to stop the server. Without a terminal there is no question.
fn is_agreed(difference: &str, speaks_ours: bool) -> bool {
    let input = std::io::stdin();
    if !isatty(&input) || !isatty(std::io::stderr()) {
        print_note(difference);
        return false;
    }
    let otherwise = if speaks_ours { "attach to it" } else { "leave it running" };
    print_note(difference);
    let question = format!("stop it, which interrupts its agents, and go on with {OWN} here (y), or {otherwise} (n)? ");
    let _ = write!(std::io::stderr(), "{question}");
    let mut answer = String::new();
    input.read_line(&mut answer).is_ok() && answer.trim().eq_ignore_ascii_case("y")
}

/// Stops a server, also one that does not understand the request, and waits until it has released the data directory.
fn stop(client: &mut Client, directory: &Path) -> Result<()> {
    if client.stop_server().is_err()
        && let Some(process) = store::holder(directory).and_then(|process| i32::try_from(process).ok())
        && let Some(process) = Pid::from_raw(process)
    {
        // It may have ended meanwhile.
        let _ = kill_process(process, Signal::TERM);
    }
    let give_up = Instant::now() + STOP_TIMEOUT;
    while let Some(process) = store::holder(directory) {
        if Instant::now() >= give_up {
            let message = format!("process {process} does not end: kill it, and start again");
            return Err(Error::new(ErrorKind::Stalled, message));
        }
        std::thread::sleep(STOP_POLL);
    }
    Ok(())
}
