//! The client's end of the server's socket, for scripts: one request, then one response or a stream of them. It blocks while
//! it reads; [`super::attach`] does not.

use std::io::{BufRead as _, BufReader, ErrorKind as IoKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::base::error::{Error, ErrorKind, Result, system_message};
use crate::domain::wire::{LONGEST_LINE, Request, Response};
use crate::store;

/// How long a server may take to respond when nothing has to be waited for.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest response, in bytes: JSON may need six bytes for a byte of a request.
const LONGEST_RESPONSE: usize = 8 * LONGEST_LINE;

pub struct Client {
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Client {
    /// Connects to the server that holds this data directory; `None` if there is none.
    pub fn connect(directory: &Path) -> Result<Option<Self>> {
        let Some(stream) = crate::socket::connect(directory)? else { return Ok(None) };
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
        Ok(Some(Self { stream: BufReader::new(stream), line: Vec::new() }))
    }

    pub fn require(directory: &Path) -> Result<Self> {
        Self::connect(directory)?.ok_or_else(|| no_server(directory))
    }

    /// From now on a response may take any time.
    pub fn wait_forever(&mut self) -> Result<()> {
        Ok(self.stream.get_ref().set_read_timeout(None)?)
    }

    /// The connection, after all responses were read.
    pub fn into_stream(self) -> UnixStream {
        self.stream.into_inner()
    }

    /// Sends a request and waits for its response.
    pub fn request(&mut self, request: &Request) -> Result<Value> {
        self.send(request)?;
        match self.receive()? {
            Response::Done(value) => Ok(value),
            Response::Refused { kind, message } => Err(refusal(&kind, message)),
            _ => Err(unexpected_response()),
        }
    }

    /// The version of the server, which older ones do not say.
    pub fn server_version(&mut self) -> Result<Option<String>> {
        let response = self.request(&Request::run(["status"]))?;
        Ok(response["data"]["version"].as_str().map(str::to_owned))
    }

    /// Stops the server, and waits until it has closed the connection and so released the store.
    pub fn stop_server(&mut self) -> Result<()> {
        self.request(&Request::run(["exit"]))?;
        while self.receive().is_ok() {}
        Ok(())
    }

    /// Sends a request that is answered by more than one response.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        let mut line = request_line(request)?;
        line.push('\n');
        match self.stream.get_mut().write_all(line.as_bytes()) {
            // The reason that the server gave before it closed the connection can still be read.
            Err(error) if error.kind() == IoKind::BrokenPipe => Ok(()),
            result => result.map_err(|error| connection_error(&error)),
        }
    }

    pub fn receive(&mut self) -> Result<Response> {
        self.line.clear();
        let mut limited = self.stream.by_ref().take(LONGEST_RESPONSE as u64);
        let length = limited.read_until(b'\n', &mut self.line).map_err(|error| connection_error(&error))?;
        match self.line.last() {
            Some(b'\n') => Response::read(&self.line),
            _ if length == LONGEST_RESPONSE => Err(response_too_long()),
            _ => Err(server_ended()),
        }
    }
}

/// The line of a request, without the newline.
pub fn request_line(request: &Request) -> Result<String> {
    let line = request.to_line();
    if line.len() > LONGEST_LINE {
        return Err(Error::usage(format!("the text is too long: a request may have {} MiB", LONGEST_LINE >> 20)));
    }
    Ok(line)
}

/// The error that a server reported; its kind determines the exit code.
pub fn refusal(kind: &str, message: String) -> Error {
    let kinds = [ErrorKind::Usage, ErrorKind::Auth, ErrorKind::Timeout, ErrorKind::Store, ErrorKind::Limit];
    let kind = kinds.into_iter().find(|known| known.name() == kind);
    Error::new(kind.unwrap_or(ErrorKind::System), message)
}

pub fn server_ended() -> Error {
    Error::new(ErrorKind::Network, "the server has ended: polylogue serve --background starts it again")
}

pub fn unexpected_response() -> Error {
    Error::new(ErrorKind::Protocol, "unexpected response from the server")
}

pub fn response_too_long() -> Error {
    Error::new(ErrorKind::Protocol, "unexpected response from the server: the line is too long")
}

pub fn no_response() -> Error {
    let message = format!(
        "no response from the server for {} s: it may be stopped (fg in its terminal, or kill -CONT, \
         continues it) or very busy",
        RESPONSE_TIMEOUT.as_secs()
    );
    Error::new(ErrorKind::Stalled, message)
}

fn connection_error(error: &std::io::Error) -> Error {
    match error.kind() {
        // Which of the two a socket timeout gives depends on the platform (socket(7), SO_RCVTIMEO).
        IoKind::WouldBlock | IoKind::TimedOut => no_response(),
        IoKind::BrokenPipe | IoKind::ConnectionReset => server_ended(),
        _ => Error::new(ErrorKind::Network, format!("lost the connection to the server: {}", system_message(error))),
    }
}

/// The error for a directory without a server, with what to do.
pub fn no_server(directory: &Path) -> Error {
    let message = match store::holder(directory) {
        Some(process) => format!(
            "process {process} holds {} and does not answer other processes: wait until it has ended, then run polylogue \
             serve --background",
            directory.display()
        ),
        None => format!("no server for {}: polylogue serve --background starts one", directory.display()),
    };
    Error::new(ErrorKind::System, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client and the server's end of its connection.
    fn pair(timeout: Duration) -> (Client, UnixStream) {
        let (near, far) = UnixStream::pair().expect("a pair");
        near.set_read_timeout(Some(timeout)).expect("a limit");
        (Client { stream: BufReader::new(near), line: Vec::new() }, far)
    }

    #[test]
    fn a_response_is_a_value_or_an_error_of_a_kind() {
        let (mut client, mut server) = pair(RESPONSE_TIMEOUT);
        let responses = [
            ("{\"ok\":[1]}", Ok(serde_json::json!([1]))),
            ("{\"error\":{\"kind\":\"usage\",\"text\":\"no\"}}", Err(ErrorKind::Usage)),
            ("{\"error\":{\"kind\":\"timeout\",\"text\":\"late\"}}", Err(ErrorKind::Timeout)),
            ("{\"error\":{\"kind\":\"of a later version\",\"text\":\"?\"}}", Err(ErrorKind::System)),
            ("nonsense", Err(ErrorKind::Protocol)),
        ];
        for (line, expected) in responses {
            writeln!(server, "{line}").expect("it is read");
            assert_eq!(client.request(&Request::Redraw).map_err(|error| error.kind), expected, "{line}");
        }
    }

    #[test]
    fn a_silent_server_and_one_that_ends_within_a_line_are_errors() {
        let (mut client, mut server) = pair(Duration::from_millis(20));
        assert_eq!(client.request(&Request::Redraw).map_err(|error| error.kind), Err(ErrorKind::Stalled));
        server.write_all(b"{\"ok\":").expect("it is read");
        drop(server);
        assert_eq!(client.receive().map_err(|error| error.kind), Err(ErrorKind::Network));
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let (mut client, mut server) = pair(RESPONSE_TIMEOUT);
        let flood = std::thread::spawn(move || while server.write_all(&[b'x'; 1 << 16]).is_ok() {});
        assert_eq!(client.receive().map_err(|error| error.message), Err(response_too_long().message));
        drop(client);
        flood.join().expect("it ends when the connection is closed");
    }

    #[test]
    fn an_error_sent_before_the_server_closed_the_connection_is_read() {
        let (mut client, mut server) = pair(RESPONSE_TIMEOUT);
        writeln!(server, "{{\"error\":{{\"kind\":\"system\",\"text\":\"too many clients\"}}}}").expect("it is read");
        drop(server);
        assert_eq!(client.request(&Request::Redraw).map_err(|error| error.message), Err("too many clients".into()));
    }

    #[test]
    fn a_request_that_is_too_long_is_not_sent() {
        let (mut client, _server) = pair(RESPONSE_TIMEOUT);
        let request = Request::Run { agent: None, directory: None, argv: vec!["x".repeat(LONGEST_LINE)] };
        assert_eq!(client.send(&request).map_err(|error| error.kind), Err(ErrorKind::Usage));
    }
}
