//! The client's end of the server's socket, for scripts: one request, one answer, or a stream of lines. It waits where it
//! reads; a terminal, which must not, is attached by [`super::attach`].

use std::io::{BufRead as _, BufReader, ErrorKind as IoKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::wire::{LONGEST_LINE, Request, Response};
use crate::store;

/// How long a server may take for an answer that it has at once; one that is stopped or in trouble takes for ever.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The longest line of an answer, in bytes: what was read in one line may need six times as much when it is told again.
const LONGEST_ANSWER: usize = 8 * LONGEST_LINE;

/// A connection to the server of a data directory.
pub struct Client {
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Client {
    /// Connects to the server that holds this data directory. `None` if none does.
    ///
    /// # Errors
    /// The socket is not ours or not as it should be.
    pub fn connect(directory: &Path) -> Result<Option<Self>> {
        let Some(stream) = crate::socket::connect(directory)? else { return Ok(None) };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Some(Self { stream: BufReader::new(stream), line: Vec::new() }))
    }

    /// The same, where there is nothing to do without a server.
    ///
    /// # Errors
    /// As for [`Client::connect`]; nobody serves the directory, with the way to change that.
    pub fn require(directory: &Path) -> Result<Self> {
        Self::connect(directory)?.ok_or_else(|| nobody_serves(directory))
    }

    /// From now on an answer may take as long as it takes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn be_patient(&mut self) -> Result<()> {
        Ok(self.stream.get_ref().set_read_timeout(None)?)
    }

    /// The connection, for whoever does not want to wait. Every answer was read.
    pub fn into_stream(self) -> UnixStream {
        self.stream.into_inner()
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// What the server refuses it for; a server that ends or does not answer.
    pub fn ask(&mut self, ask: &Request) -> Result<Value> {
        self.tell(ask)?;
        match self.next()? {
            Response::Done(value) => Ok(value),
            Response::Refused { kind, message } => Err(refusal(&kind, message)),
            _ => Err(Error::new(ErrorKind::Protocol, "the server said something else than an answer")),
        }
    }

    /// Sends a request that is answered by more than one line.
    ///
    /// # Errors
    /// The request is too long; the server has ended or takes nothing.
    pub fn tell(&mut self, ask: &Request) -> Result<()> {
        let mut line = line_of(ask)?;
        line.push('\n');
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        match sent {
            // It may have said why before it hung up: that is read next.
            Err(error) if error.kind() == IoKind::BrokenPipe => Ok(()),
            sent => sent.map_err(|error| broken(&error)),
        }
    }

    /// The next line.
    ///
    /// # Errors
    /// The server has ended, or does not answer.
    pub fn next(&mut self) -> Result<Response> {
        self.line.clear();
        let mut answer = self.stream.by_ref().take(LONGEST_ANSWER as u64);
        let read = answer.read_until(b'\n', &mut self.line).map_err(|error| broken(&error))?;
        match self.line.last() {
            Some(b'\n') => Response::read(&self.line),
            _ if read == LONGEST_ANSWER => Err(endless()),
            _ => Err(ended()),
        }
    }
}

/// A request as a server reads it, without the newline.
///
/// # Errors
/// It is too long.
pub fn line_of(ask: &Request) -> Result<String> {
    let line = ask.to_line();
    if line.len() > LONGEST_LINE {
        let words = format!("more than {} MiB is too much for one request", LONGEST_LINE >> 20);
        return Err(Error::new(ErrorKind::Usage, words));
    }
    Ok(line)
}

/// What a server refuses, as an error of ours: its kind decides about the exit code.
pub fn refusal(kind: &str, message: String) -> Error {
    let kind = match kind {
        "usage" => ErrorKind::Usage,
        "auth" => ErrorKind::Auth,
        "timeout" => ErrorKind::Timeout,
        _ => ErrorKind::System,
    };
    Error::new(kind, message)
}

/// The server has gone.
pub fn ended() -> Error {
    Error::new(ErrorKind::Network, "the server has ended: polylogue serve --background starts it again")
}

/// What it says is no answer.
pub fn endless() -> Error {
    Error::new(ErrorKind::Protocol, "the server sends lines without an end")
}

/// The server is there and says nothing.
pub fn unanswered() -> Error {
    let words = format!(
        "the server has not answered for {} s: it may be stopped (kill -CONT goes on) or very busy",
        PATIENCE.as_secs()
    );
    Error::new(ErrorKind::Stalled, words)
}

fn broken(error: &std::io::Error) -> Error {
    match error.kind() {
        // Both names for a time limit that has passed (socket(7), SO_RCVTIMEO).
        IoKind::WouldBlock | IoKind::TimedOut => unanswered(),
        IoKind::BrokenPipe | IoKind::ConnectionReset => ended(),
        _ => Error::new(ErrorKind::Network, format!("the server cannot be reached any more: {error}")),
    }
}

/// No server holds this directory, and what to do about it.
pub fn nobody_serves(directory: &Path) -> Error {
    let place = directory.display();
    let words = match store::holder(directory) {
        Some(process) => format!(
            "an ordinary chat (process {process}) holds {place}, and no server: leave that chat, then say polylogue \
             serve --background"
        ),
        None => format!("no server holds {place}: start one with polylogue serve --background"),
    };
    Error::new(ErrorKind::System, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client, and the server's end of its connection.
    fn pair(patience: Duration) -> (Client, UnixStream) {
        let (near, far) = UnixStream::pair().expect("a pair");
        near.set_read_timeout(Some(patience)).expect("a limit");
        (Client { stream: BufReader::new(near), line: Vec::new() }, far)
    }

    #[test]
    fn an_answer_is_a_value_or_an_error_whose_kind_decides_about_the_exit_code() {
        let (mut client, mut server) = pair(PATIENCE);
        let said = [
            ("{\"ok\":[1]}", Ok(serde_json::json!([1]))),
            ("{\"error\":{\"kind\":\"usage\",\"text\":\"no\"}}", Err(ErrorKind::Usage)),
            ("{\"error\":{\"kind\":\"timeout\",\"text\":\"late\"}}", Err(ErrorKind::Timeout)),
            ("{\"error\":{\"kind\":\"of a later version\",\"text\":\"?\"}}", Err(ErrorKind::System)),
            ("nonsense", Err(ErrorKind::Protocol)),
        ];
        for (line, expected) in said {
            writeln!(server, "{line}").expect("it is read");
            assert_eq!(client.ask(&Request::Agents).map_err(|error| error.kind), expected, "{line}");
        }
    }

    #[test]
    fn a_server_that_says_nothing_or_ends_within_a_line_is_told_from_one_that_answers() {
        let (mut client, mut server) = pair(Duration::from_millis(20));
        assert_eq!(client.ask(&Request::Agents).map_err(|error| error.kind), Err(ErrorKind::Stalled));
        server.write_all(b"{\"ok\":").expect("it is read");
        drop(server);
        assert_eq!(client.next().map_err(|error| error.kind), Err(ErrorKind::Network));
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let (mut client, mut server) = pair(PATIENCE);
        let flood = std::thread::spawn(move || while server.write_all(&[b'x'; 1 << 16]).is_ok() {});
        assert_eq!(client.next().map_err(|error| error.message), Err(endless().message));
        drop(client);
        flood.join().expect("it notices that nobody reads");
    }

    #[test]
    fn the_last_words_of_a_server_that_takes_nothing_any_more_are_read() {
        let (mut client, mut server) = pair(PATIENCE);
        writeln!(server, "{{\"error\":{{\"kind\":\"system\",\"text\":\"too many clients\"}}}}").expect("it is read");
        drop(server);
        assert_eq!(client.ask(&Request::Stop).map_err(|error| error.message), Err("too many clients".into()));
    }

    #[test]
    fn what_no_server_would_read_is_not_sent() {
        let (mut client, _server) = pair(PATIENCE);
        let ask = Request::Send { agent: "0".into(), text: "x".repeat(LONGEST_LINE) };
        assert_eq!(client.tell(&ask).map_err(|error| error.kind), Err(ErrorKind::Usage));
    }
}
