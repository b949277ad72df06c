//! The two processes of a chat: one runs it, and the one that the shell started waits for it. When the chat moves to
//! the background, the second ends and the shell gets the terminal back. When the chat is killed, the second restores
//! the terminal.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use fork::{Fork, fork};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal as Number, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_parent_process_death_signal,
    waitpid,
};
use signal_hook::low_level::{emulate_default_handler, signal_name};

use super::code;
use super::stdio::print_note;
use crate::base::error::Result;
use crate::reactor::{Signal, Signals};
use crate::repl::GOES_ON;
use crate::terminal::tty::{Before, Modes};

/// Which of the two processes this is.
pub enum Part {
    /// The one that runs the chat, with a pipe to the one that waits; `None` if there is only one.
    Chat(Option<OwnedFd>),
    /// The one that has waited, with its exit code.
    Waited(u8),
}

/// How the wait for the process that runs the chat has ended.
enum End {
    /// It goes on in the background; the exit code to use.
    GoesOn(u8),
    Ended(WaitStatus),
}

/// Starts the process that runs the chat, and waits for it. Called while there is only one thread and neither a store
/// nor a terminal is open. `terminal` has the terminal modes of the chat, and the options that select its data
/// directory.
pub fn split(terminal: Option<(Modes, &str)>) -> Result<Part> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(std::io::Error::from)?;
    let (own, before) = (getpid(), terminal.and_then(|(modes, _)| Before::remember(modes)));
    match fork() {
        Ok(Fork::Child) => {
            // A chat does not outlive the process that a person kills.
            set_parent_process_death_signal(Some(Number::KILL)).map_err(std::io::Error::from)?;
            if getppid() != Some(own) {
                std::process::exit(code::FAILED.into());
            }
            Ok(Part::Chat(Some(write)))
        }
        Ok(Fork::Parent(child)) => {
            drop(write);
            let child = Pid::from_raw(child).expect("fork gives the id of a process");
            let status = match wait(child, File::from(read))? {
                End::GoesOn(code) => return Ok(Part::Waited(code)),
                End::Ended(status) => status,
            };
            let signal = status.terminating_signal();
            if let Some(number) = signal {
                before.iter().for_each(Before::restore);
                let back = terminal.map(|(_, back)| format!("; to continue: polylogue{back} -c")).unwrap_or_default();
                let name = signal_name(number).unwrap_or("a signal");
                print_note(&format!("the process that ran the agents was ended by {name}{back}"));
            }
            Ok(Part::Waited(signal.map_or_else(|| code_of(status), end_by)))
        }
        // The limit of processes is reached: the chat runs, and ends with its terminal.
        Err(_) => Ok(Part::Chat(None)),
    }
}

/// Returns when the chat has ended or goes on in the background. Signals are passed on to it.
fn wait(child: Pid, mut pipe: File) -> Result<End> {
    let mut signals = Signals::catch_to_pass_on()?;
    loop {
        let mut ready =
            [PollFd::new(&pipe, PollFlags::IN), PollFd::from_borrowed_fd(signals.borrowed_fd(), PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
        let is_told = !ready[0].revents().is_empty();
        for number in signals.take().into_iter().filter_map(number_of) {
            // It may have ended just now.
            let _ = kill_process(child, number);
        }
        if is_told {
            let mut told = Vec::new();
            // It closes the pipe after that.
            pipe.read_to_end(&mut told)?;
            return match told[..] {
                [GOES_ON, code] => Ok(End::GoesOn(code)),
                _ => status_of(child).map(End::Ended),
            };
        }
    }
}

pub fn number_of(signal: Signal) -> Option<Number> {
    match signal {
        Signal::Terminate(number) => Number::from_named_raw(number),
        Signal::Hangup => Some(Number::HUP),
        Signal::Resume => Some(Number::CONT),
        Signal::Resized | Signal::Suspend => None,
    }
}

fn status_of(child: Pid) -> Result<WaitStatus> {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
    }
}

fn code_of(status: WaitStatus) -> u8 {
    status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(code::FAILED)
}

/// Ends this process by the signal that has ended the chat, so that the shell sees it. If it survives, its exit code tells.
fn end_by(number: i32) -> u8 {
    let _ = emulate_default_handler(number);
    code::of_signal(number)
}
