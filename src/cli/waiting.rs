//! The two processes of a chat: one runs it, and the one that the shell has started waits for it. When the chat goes on in
//! the background, the second ends, and the shell takes the terminal back.

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

use super::code;
use crate::base::error::Result;
use crate::reactor::{Signal, Signals};
use crate::repl::GOES_ON;

/// Which of the two processes this is.
pub enum Part {
    /// The one that runs the chat, with a pipe to the one that waits; none if there is only one.
    Chat(Option<OwnedFd>),
    /// The one that has waited, with its exit code.
    Waited(u8),
}

/// Starts the process that runs the chat, and waits for it. Called while there is one thread, and neither a store nor a
/// terminal is open.
///
/// # Errors
/// No descriptor is left, or the process that runs the chat cannot be waited for.
pub fn split() -> Result<Part> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(std::io::Error::from)?;
    let own = getpid();
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
            wait(Pid::from_raw(child).expect("fork gives the id of a process"), File::from(read)).map(Part::Waited)
        }
        // The limit of processes is reached: the chat runs, and ends with its terminal.
        Err(_) => Ok(Part::Chat(None)),
    }
}

/// Returns when the chat has ended or goes on in the background. Signals are passed on to it.
fn wait(child: Pid, mut pipe: File) -> Result<u8> {
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
            let mut told = [0];
            let goes_on = pipe.read(&mut told)? > 0 && told[0] == GOES_ON;
            return if goes_on { Ok(code::DONE) } else { code_of(child) };
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

/// The exit code of the chat. If a signal has ended it, it ends this process as well, so that the shell sees it.
fn code_of(child: Pid) -> Result<u8> {
    let status = loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => break status,
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
    };
    let exit_code = |status: WaitStatus| status.exit_status().and_then(|code| u8::try_from(code).ok());
    if let Some(number) = status.terminating_signal() {
        // If this one survives, its exit code tells.
        let _ = signal_hook::low_level::emulate_default_handler(number);
        return Ok(code::of_signal(number));
    }
    Ok(exit_code(status).unwrap_or(code::FAILED))
}
