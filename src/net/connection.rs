//! One agent's transfer, and the requests of libcurl to the loop about it.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curl::MultiError;
use curl::multi::{Easy2Handle, Events, Multi};

use super::inbox::Inbox;
use super::messages::{curl_error, unresolved};
use super::network::Network;
use super::setup::{CONNECT_TIMEOUT, new_multi, prepare, require_descriptors};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::http::{HttpHead, HttpRequest};
use crate::domain::readiness::{Readiness, SocketRequest};

/// How long the transfer of a complete reply may take to end.
const DRAIN: Duration = Duration::from_millis(250);

/// One agent's connection to its provider, with at most one transfer at a time.
#[derive(Default)]
pub struct Connection {
    // Fields are dropped in this order: a transfer must not outlive its multi handle.
    live: Option<Easy2Handle<Inbox>>,
    multi: Option<Multi>,
    ended: Option<(Inbox, Result<()>)>,
    demands: Arc<Mutex<Demands>>,
    timer: Option<Moment>,
    /// The reply is complete and nothing more is read; until then the transfer may end without being cancelled.
    drains_until: Option<Moment>,
}

/// The requests of libcurl during the last call into it.
#[derive(Default)]
pub(super) struct Demands {
    pub sockets: Vec<SocketRequest>,
    /// `Some(None)` to cancel the timer.
    pub timer: Option<Option<Duration>>,
}

impl Connection {
    /// Sends a request; the response is read with [`Connection::read`]. A transfer in progress is cancelled.
    pub fn start(&mut self, request: &HttpRequest, network: &Network, now: Moment) -> Result<()> {
        self.cancel(now);
        if let Some(reason) = network.no_address(&request.url, now) {
            return Err(unresolved(&request.url, reason));
        }
        let easy = prepare(request, network, now).map_err(|error| curl_error(&error, &request.url, CONNECT_TIMEOUT))?;
        let multi = match self.multi.take() {
            Some(multi) => multi,
            None => {
                require_descriptors()?;
                new_multi(&self.demands).map_err(system_error)?
            }
        };
        let added = multi.add2(easy);
        self.multi = Some(multi);
        self.live = Some(added.map_err(system_error)?);
        self.update_timer(now);
        Ok(())
    }

    pub fn on_socket(&mut self, fd: RawFd, readiness: Readiness, network: &Network, now: Moment) {
        let mut events = Events::new();
        events.input(readiness.readable).output(readiness.writable).error(readiness.error);
        self.drive(network, now, |multi| multi.action(fd, &events));
    }

    /// Must be called at the time of [`Connection::timer`].
    pub fn on_timer(&mut self, network: &Network, now: Moment) {
        if self.drains_until.is_some_and(|until| until <= now) {
            self.cancel(now);
        }
        self.fire_timer(Duration::ZERO, network, now);
    }

    /// Lets libcurl do what it has a timer for, if that is due within `early`. Returns whether it is.
    pub fn fire_timer(&mut self, early: Duration, network: &Network, now: Moment) -> bool {
        let is_due = self.timer.take_if(|due| *due <= now + early).is_some();
        if is_due {
            self.drive(network, now, Multi::timeout);
        }
        is_due
    }

    /// When [`Connection::on_timer`] must be called.
    pub fn timer(&self) -> Option<Moment> {
        self.timer.into_iter().chain(self.drains_until).min()
    }

    /// Changes to the watched descriptors, to be carried out in order. Empties the list.
    pub fn take_socket_requests(&mut self) -> Vec<SocketRequest> {
        std::mem::take(&mut lock(&self.demands).sockets)
    }

    /// Takes at most `limit` bytes of the response body, and resumes a paused transfer when there is space again.
    pub fn read(&mut self, limit: usize, now: Moment) -> Vec<u8> {
        let Some(inbox) = self.inbox_mut() else { return Vec::new() };
        let bytes = inbox.take(limit);
        if inbox.can_resume() {
            inbox.is_paused = false;
            // libcurl delivers the data that it held back; if that ends the transfer, its timer reports it.
            if let Some(live) = &self.live {
                drop(live.unpause_write());
            }
            self.update_timer(now);
        }
        bytes
    }

    /// Whether there are unread bytes.
    pub fn has_bytes(&self) -> bool {
        self.inbox().is_some_and(|inbox| !inbox.is_empty())
    }

    /// Bytes of this transfer so far, sent and received.
    pub fn bytes_transferred(&self) -> u64 {
        self.inbox().map_or(0, |inbox| inbox.transferred)
    }

    /// Status and headers, as far as received.
    pub fn head(&self) -> Option<&HttpHead> {
        self.inbox().map(|inbox| &inbox.head)
    }

    /// The outcome of the transfer, once it has ended and all bytes were read. Returned once.
    pub fn take_end(&mut self) -> Option<Result<()>> {
        if self.has_bytes() {
            return None;
        }
        self.ended.take().map(|(_, outcome)| outcome)
    }

    /// Whether the transfer has ended. There may be unread bytes.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Discards the rest of this transfer. It has a short time to end, so that the connection can be reused; then it is
    /// cancelled.
    pub fn drain(&mut self, now: Moment) {
        self.ended = None;
        if let Some(live) = &mut self.live {
            live.get_mut().take(usize::MAX);
            self.drains_until = Some(now + DRAIN);
        }
    }

    /// Ends the transfer, if there is one, and discards its data.
    pub fn cancel(&mut self, now: Moment) {
        self.drains_until = None;
        self.ended = None;
        if let (Some(live), Some(multi)) = (self.live.take(), &self.multi) {
            drop(multi.remove2(live));
        }
        self.update_timer(now);
    }

    /// Cancels the transfer and closes the connection that the next request would reuse.
    pub fn close(&mut self, now: Moment) {
        self.cancel(now);
        self.multi = None;
        self.timer = None;
        lock(&self.demands).timer = None;
    }

    fn drive(
        &mut self,
        network: &Network,
        now: Moment,
        call: impl FnOnce(&Multi) -> std::result::Result<u32, MultiError>,
    ) {
        let Some(multi) = &self.multi else { return };
        // An error means that the descriptor is not this handle's any more: the event is stale.
        drop(call(multi));
        self.check_end(network, now);
        self.update_timer(now);
    }

    fn check_end(&mut self, network: &Network, now: Moment) {
        let (Some(multi), Some(live)) = (&self.multi, &self.live) else { return };
        let mut outcome = None;
        multi.messages(|message| outcome = message.result_for2(live).or(outcome.take()));
        let Some(outcome) = outcome else { return };
        let url = live.get_ref().url.clone();
        let Some(Ok(mut easy)) = self.live.take().map(|live| multi.remove2(live)) else { return };
        let is_wanted = self.drains_until.take().is_none();
        match (&outcome, easy.primary_ip().ok().flatten()) {
            (Ok(()), Some(address)) => network.on_connected(&url, address, now),
            (Err(_), _) if is_wanted => network.on_failed(&url),
            _ => {}
        }
        let outcome = outcome.map_err(|error| curl_error(&error, &url, CONNECT_TIMEOUT));
        let inbox = std::mem::replace(easy.get_mut(), Inbox::new("", [].into()));
        self.ended = is_wanted.then_some((inbox, outcome));
    }

    fn update_timer(&mut self, now: Moment) {
        if let Some(timer) = lock(&self.demands).timer.take() {
            self.timer = timer.map(|after| now + after);
        }
    }

    fn inbox(&self) -> Option<&Inbox> {
        match (&self.live, &self.ended) {
            (Some(live), _) => Some(live.get_ref()),
            (None, Some((inbox, _))) => Some(inbox),
            (None, None) => None,
        }
    }

    fn inbox_mut(&mut self) -> Option<&mut Inbox> {
        match (&mut self.live, &mut self.ended) {
            (Some(live), _) => Some(live.get_mut()),
            (None, Some((inbox, _))) => Some(inbox),
            (None, None) => None,
        }
    }
}

pub(super) fn lock(demands: &Mutex<Demands>) -> MutexGuard<'_, Demands> {
    // Only the loop's thread locks it, and never across a call into libcurl.
    demands.lock().unwrap_or_else(PoisonError::into_inner)
}

fn system_error(error: MultiError) -> Error {
    Error::new(ErrorKind::System, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each descriptor: whether to watch for reading, for writing.
    type Watched = std::collections::BTreeMap<RawFd, (bool, bool)>;

    /// Serves the descriptors of a connection until the condition holds.
    fn drive_until(
        connection: &mut Connection,
        watched: &mut Watched,
        network: &Network,
        holds: impl Fn(&Connection) -> bool,
    ) {
        let start = std::time::Instant::now();
        while !holds(connection) {
            assert!(start.elapsed() < Duration::from_secs(60), "timed out");
            for request in connection.take_socket_requests() {
                match request {
                    SocketRequest::Watch { fd, readable, writable } => drop(watched.insert(fd, (readable, writable))),
                    SocketRequest::Unwatch { fd } => drop(watched.remove(&fd)),
                }
            }
            for (fd, (readable, writable)) in watched.clone() {
                let readiness = Readiness { readable, writable, ..Readiness::default() };
                connection.on_socket(fd, readiness, network, Moment::default());
            }
            connection.timer = connection.timer.map(|_| Moment::default());
            connection.on_timer(network, Moment::default());
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_transfer_that_ends_after_its_reply_was_complete_still_caches_the_address() {
        use std::io::{Read as _, Write as _};
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let url = format!("http://localhost:{port}/v1");
        let (mut connection, network) = (Connection::default(), Network::default());
        let mut watched = Watched::new();
        let request = HttpRequest { url, headers: Vec::new(), body: b"{}"[..].into() };
        connection.start(&request, &network, Moment::default()).unwrap();
        let accepting = std::thread::spawn(move || {
            let (mut client, _) = server.accept().unwrap();
            assert!(client.read(&mut [0; 4096]).unwrap() > 0);
            client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").unwrap();
            client
        });
        drive_until(&mut connection, &mut watched, &network, Connection::has_bytes);
        connection.drain(Moment::default());
        let mut client = accepting.join().unwrap();
        client.write_all(b"cd").unwrap();
        drive_until(&mut connection, &mut watched, &network, |connection| connection.live.is_none());
        assert!(network.knows(&format!("localhost:{port}")));
    }

    #[test]
    fn a_connection_dropped_during_a_transfer_is_freed_in_order() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", server.local_addr().unwrap());
        let request = HttpRequest { url, headers: Vec::new(), body: b"{}"[..].into() };
        for _ in 0..50 {
            let mut connection = Connection::default();
            connection.start(&request, &Network::default(), Moment::default()).unwrap();
            connection.on_timer(&Network::default(), Moment::default());
            assert!(connection.live.is_some());
            drop(connection);
        }
    }
}
