//! How a tool asks the loop to serve a call, and how the listener of its command arrives.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::net::sockopt::socket_acceptconn;

use super::hosts::AllowedHosts;
use crate::base::descriptors::receive_with;

/// A call to serve until the other end of `control` is closed.
#[derive(Debug)]
pub struct NewCall {
    /// The listener of the command comes from here.
    pub control: UnixStream,
    pub hosts: AllowedHosts,
}

/// In bytes.
const MOST_TOLD: u64 = 16 << 10;

/// The calls that tools have announced.
pub type Incoming = Receiver<NewCall>;

/// Announces calls to the loop, from any thread.
#[derive(Clone)]
pub struct Calls {
    sender: Sender<NewCall>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Calls {
    /// `wake` ends a wait of the loop.
    pub fn new(wake: Arc<dyn Fn() + Send + Sync>) -> (Self, Incoming) {
        let (sender, incoming) = channel();
        (Self { sender, wake }, incoming)
    }

    pub fn announce(&self, hosts: AllowedHosts) -> io::Result<Announced> {
        let (control, theirs) = UnixStream::pair()?;
        control.set_nonblocking(true)?;
        let sent = self.sender.send(NewCall { control, hosts });
        sent.map_err(|_| io::Error::other("the event loop has ended"))?;
        (self.wake)();
        Ok(Announced(theirs))
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calls")
    }
}

/// A call that is served. The helper that starts its command gets the socket and sends a listener on it; the call is over
/// when every copy of the socket is closed.
#[derive(Debug)]
pub struct Announced(UnixStream);

impl Announced {
    pub fn socket(&self) -> &UnixStream {
        &self.0
    }

    /// The reports of the loop about the call so far: why clients were refused, one line each. Does not wait.
    pub fn reported(&self) -> Vec<String> {
        let (mut text, stream) = (Vec::new(), &self.0);
        if stream.set_nonblocking(true).is_ok() {
            // Ends with an error where nothing more is there.
            let _ = stream.take(MOST_TOLD).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }
}

/// Tells the tool of a call a line. Fails silently: who does not read any more does not want it.
pub fn tell(mut control: &UnixStream, line: &str) {
    let _ = control.write_all(format!("{line}\n").as_bytes());
}

/// The listener that a command has sent; `None` if there is none yet.
pub fn receive_listener(control: &UnixStream) -> io::Result<Option<TcpListener>> {
    match receive_with(control, &mut [0; 16]) {
        Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok((_, Some(descriptor))) if socket_acceptconn(&descriptor).unwrap_or(false) => {
            let listener = TcpListener::from(descriptor);
            listener.set_nonblocking(true)?;
            Ok(Some(listener))
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
