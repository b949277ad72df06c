//! A chat that continues without its terminal, as a server. Nothing is handed over: the loop runs in its own process
//! from the start, and the process that the shell started only waits for it.
//!
//! ```text
//!   shell -- polylogue (waits) -- polylogue (the loop)
//! ```

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::base::error::{Error, Result};
use crate::base::id::TerminalId;
use crate::base::text;
use crate::domain::flow::Origin;
use crate::reactor::Signals;
use crate::repl::{Repl, WayBack};
use crate::store;

/// Tells the waiting process, with an exit code after it, to end while the loop goes on.
pub(crate) const GOES_ON: u8 = b'b';

/// The process that waits for this one, and the message that it prints when it ends.
pub(crate) struct Waiting {
    /// To the process that waits. It is closed when this one ends.
    pub(crate) pipe: OwnedFd,
    /// Standard error from then on.
    pub(crate) log: PathBuf,
    /// The options that select the same data directory.
    pub(crate) options: String,
}

impl Repl {
    /// This process was started by one that waits for it, and can continue after the end of that one.
    pub(crate) fn set_waiting(&mut self, waiting: Waiting) {
        self.process.waiting = Some(waiting);
    }

    /// Whether the chat can go on without the terminal of this process.
    pub(super) fn can_go_on(&self) -> bool {
        self.process.waiting.is_some() && self.server.is_listening()
    }

    /// Detaches a terminal: that of a client, or that of this process if the chat can go on without it.
    pub(super) fn leave_to_background(&mut self, origin: Origin) -> Result<()> {
        if self.terminals.detach_attached(origin) {
            return Ok(());
        }
        let local = origin.terminal().filter(|_| self.can_go_on());
        let Some((terminal, waiting)) = local.zip(self.process.waiting.take()) else {
            let message = "this chat ends with its terminal (/exit): `polylogue serve` starts one that outlives it";
            return Err(Error::usage(message));
        };
        let streams = match open_streams(&waiting) {
            Ok(streams) => streams,
            Err(error) => {
                self.process.waiting = Some(waiting);
                return Err(error.context("cannot go on in the background"));
            }
        };
        self.leave_terminal(terminal, &waiting.options);
        leave_session(streams)?;
        tell(waiting, 0);
        Ok(())
    }

    /// Goes on for other terminals, after that of this process was closed.
    pub(super) fn leave_local(&mut self) -> Result<()> {
        let local = self.terminals.local();
        local.map_or(Ok(()), |local| self.leave_to_background(Origin::Terminal(local)))
    }

    /// Goes on as a server without the standard streams and the process that waits, which ends with this exit code.
    pub(crate) fn go_on(&mut self, waiting: Waiting, code: u8, signals: Signals) -> Result<()> {
        leave_session(open_streams(&waiting)?)?;
        self.set_signals(signals);
        tell(waiting, code);
        Ok(())
    }

    /// Whether anything needs this process: a command in the background, an agent at work, or a client.
    pub(crate) fn is_needed(&self) -> bool {
        let roster = self.core.roster();
        self.has_background() || !roster.busy().is_empty() || self.server.client_count() > 0
    }

    /// Whether commands of agents run in the background.
    pub(crate) fn has_background(&self) -> bool {
        let roster = self.core.roster();
        roster.iter().any(|agent| agent.background_commands() > 0)
    }

    /// Restores the terminal, and says there how to attach again.
    fn leave_terminal(&mut self, id: TerminalId, options: &str) {
        let back = match self.way_back(id) {
            WayBack::Options(back) => back,
            WayBack::Unopened | WayBack::Unwritten => String::new(),
        };
        self.terminals.suspend_all();
        self.terminals.print_ends(&mut self.core);
        let agents = text::counted(self.core.roster().len(), "agent goes", "agents go");
        let process = std::process::id();
        let note = format!(
            "{agents} on in the background (process {process}); to continue: polylogue{options}{back}; to end: \
             polylogue stop{options}\n"
        );
        self.terminals.get_mut(id).into_iter().for_each(|terminal| terminal.print_line(&note));
        self.server.last_focus = self.terminals.get(id).map(|terminal| terminal.focus);
        self.terminals.detach(&mut self.core, id);
    }
}

fn tell(waiting: Waiting, code: u8) {
    // It may have been killed.
    let _ = File::from(waiting.pipe).write_all(&[GOES_ON, code]);
}

/// The new standard input and output, and standard error.
fn open_streams(waiting: &Waiting) -> Result<(File, File)> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let mut log = store::private_file(&waiting.log)?;
    std::io::Seek::seek(&mut log, std::io::SeekFrom::End(0))?;
    Ok((null, log))
}

/// Leaves the terminal for good: neither closing it nor the end of the waiting process affects this process any more.
fn leave_session((null, log): (File, File)) -> Result<()> {
    let failed = std::io::Error::from;
    rustix::process::set_parent_process_death_signal(None).map_err(failed)?;
    rustix::process::setsid().map_err(failed)?;
    rustix::stdio::dup2_stdin(&null).map_err(failed)?;
    rustix::stdio::dup2_stdout(&null).map_err(failed)?;
    Ok(rustix::stdio::dup2_stderr(&log).map_err(failed)?)
}
