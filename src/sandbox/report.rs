//! The plan that the supervisor gets on a socket, and the reports of the helpers: one line of JSON each.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::stdin;
use serde::{Deserialize, Serialize};

use super::Plan;
use crate::base::descriptors::{receive_with, send_with};

/// In bytes; a longer plan is refused.
const MAX_PLAN: u64 = 4 << 20;
/// In bytes; further reports are not read.
const MAX_REPORTS: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The kernel refuses a part of the level: the step that failed and why. The command was not started, and a weaker
    /// level is tried from now on.
    Unavailable(String),
    /// The command was not started for a reason of this call alone, which may be one that a command in the workspace
    /// caused. No weaker level is tried.
    NotStarted(String),
}

impl Report {
    /// Sends it. Fails silently: a receiver that has stopped reading does not want it.
    pub fn send(&self, mut to: &UnixStream) {
        let line = serde_json::to_string(self).unwrap_or_default() + "\n";
        let _ = to.write_all(line.as_bytes());
    }

    /// Sends it on the socket that is standard input.
    pub fn answer(&self) {
        if let Ok(socket) = standard_input() {
            self.send(&socket);
        }
    }

    /// All reports that have arrived. Does not wait.
    pub fn receive(from: &UnixStream) -> Vec<Self> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        let mut from_now = from;
        if from.set_nonblocking(true).is_ok() {
            while let Ok(count @ 1..) = from_now.read(&mut buffer) {
                bytes.extend_from_slice(&buffer[..count]);
                if bytes.len() > MAX_REPORTS {
                    break;
                }
            }
        }
        String::from_utf8_lossy(&bytes).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Plan {
    /// Writes the plan to the supervisor, with the socket on which the init process sends the listener of a proxy. If
    /// the command has an input, shares its network or is served, `send_descriptor` has to follow for each descriptor.
    pub fn send(&self, to: &UnixStream, proxy: Option<&UnixStream>) -> io::Result<()> {
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        send_text(to, &text, proxy.map(UnixStream::as_fd))
    }

    /// Reads them from the socket that is standard input.
    pub fn receive() -> io::Result<(Self, Descriptors)> {
        let from = standard_input()?;
        let (text, proxy) = receive_text(&from)?;
        let plan: Self = serde_json::from_str(&text).map_err(io::Error::other)?;
        let input = receive_input(&from, plan.has_input)?;
        let shared = (0..plan.sharing.descriptors()).map(|_| receive_text(&from).map(|(_, shared)| shared));
        let shared = shared.filter_map(io::Result::transpose).collect::<io::Result<_>>()?;
        let service = if plan.is_served { receive_text(&from)?.1 } else { None };
        Ok((plan, Descriptors { proxy, input, shared, service }))
    }
}

/// The descriptors that come with a plan.
#[derive(Debug, Default)]
pub struct Descriptors {
    /// The init process sends the listener of its proxy on it.
    pub proxy: Option<OwnedFd>,
    /// The standard input of the command.
    pub input: Option<OwnedFd>,
    /// The descriptors that [`Plan::sharing`] needs.
    pub shared: Vec<OwnedFd>,
    /// The init process sends the listener for a server of the loop on it.
    pub service: Option<OwnedFd>,
}

impl Descriptors {
    /// The standard input of the command: empty, if none was given.
    pub fn take_input(&mut self) -> Stdio {
        self.input.take().map_or_else(Stdio::null, Stdio::from)
    }
}

/// Sends a descriptor after a plan, with an empty text.
pub fn send_descriptor(to: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    send_text(to, "", Some(descriptor))
}

/// Receives the standard input of a command, which comes after its plan.
fn receive_input(from: &UnixStream, has_input: bool) -> io::Result<Option<OwnedFd>> {
    if has_input { receive_text(from).map(|(_, input)| input) } else { Ok(None) }
}

/// Another descriptor of the socket on which the supervisor was given its plan.
fn standard_input() -> io::Result<UnixStream> {
    Ok(UnixStream::from(fcntl_dupfd_cloexec(stdin(), 3)?))
}

/// Writes a text with its length before it, and with that a descriptor.
fn send_text(mut to: &UnixStream, text: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let length = (text.len() as u64).to_le_bytes();
    let sent = send_with(to, &length, descriptor)?;
    to.write_all(&length[sent..])?;
    to.write_all(text.as_bytes())
}

/// Reads such a text with its descriptor, and nothing after it.
fn receive_text(mut from: &UnixStream) -> io::Result<(String, Option<OwnedFd>)> {
    let mut length = [0; 8];
    let (count, descriptor) = receive_with(from, &mut length)?;
    from.read_exact(&mut length[count..])?;
    let length = u64::from_le_bytes(length);
    if length > MAX_PLAN {
        return Err(io::Error::other("the plan is too long"));
    }
    let mut text = vec![0; length as usize];
    from.read_exact(&mut text)?;
    Ok((String::from_utf8(text).map_err(io::Error::other)?, descriptor))
}
