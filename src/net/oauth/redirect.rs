//! The end of a login in the browser: a request to this machine, or its address, which a person has copied.

use std::collections::BTreeMap;
use std::io::{self, Read, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::too_late;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::{percent, text};

const PATH: &str = "/callback";
/// A browser that was sent here makes no longer request.
const MAX_REQUEST: usize = 16 << 10;
/// How long a browser may take to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(1);

pub(super) struct Redirect(TcpListener);

/// The parameters of the address that the browser ended at.
type Answer = BTreeMap<String, String>;

/// Who grants access, and whether answers always name it.
pub(super) type Issuer<'a> = (&'a str, bool);

impl Redirect {
    /// On this port, or on any if it is 0.
    pub(super) fn listen(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| Error::from(error).context(format!("127.0.0.1:{port}")))?;
        Ok(Self(listener))
    }

    pub(super) fn uri(&self) -> String {
        let port = self.0.local_addr().map(|address| address.port()).unwrap_or_default();
        format!("http://127.0.0.1:{port}{PATH}")
    }

    /// The code for the tokens. Requests and lines that do not belong to this login are answered, and change nothing.
    pub(super) fn wait(
        &self,
        state: &str,
        issuer: Issuer<'_>,
        until: Instant,
        mut input: impl Read + AsFd,
    ) -> Result<String> {
        let (mut typed, mut has_input) = (Vec::new(), true);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(too_late());
            }
            let wait = Timespec::try_from(left).map_err(|_| Error::usage("the time is too long"))?;
            let mut watched = vec![PollFd::new(&self.0, PollFlags::IN)];
            watched.extend(has_input.then(|| PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)));
            match poll(&mut watched, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0]
                && let Ok((stream, _)) = self.0.accept()
                && let Some(code) = serve(stream, state, issuer)
            {
                return code;
            }
            if ready.get(1) == Some(&true) {
                has_input = read_into(&mut typed, &mut input);
                while let Some(end) = typed.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = typed.drain(..=end).collect();
                    let line = String::from_utf8_lossy(&line).trim().to_owned();
                    if let Some(code) =
                        line.split_once('?').and_then(|(_, query)| code_in(&answer(query), state, issuer))
                    {
                        return code;
                    }
                }
            }
        }
    }
}

/// Whether there may be more.
fn read_into(typed: &mut Vec<u8>, input: &mut impl Read) -> bool {
    // No less than standard input buffers, where it would not be seen.
    let mut bytes = [0; MAX_REQUEST];
    match input.read(&mut bytes) {
        Ok(0) | Err(_) => false,
        Ok(count) => {
            typed.extend_from_slice(&bytes[..count]);
            typed.len() <= MAX_REQUEST
        }
    }
}

/// Answers the browser. `None` if the request belongs to something else.
fn serve(mut stream: TcpStream, state: &str, issuer: Issuer<'_>) -> Option<Result<String>> {
    stream.set_read_timeout(Some(REQUEST_TIME)).ok()?;
    stream.set_write_timeout(Some(REQUEST_TIME)).ok()?;
    let head = head_of(&mut stream)?;
    let target = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let code = if path == PATH { code_in(&answer(query), state, issuer) } else { None };
    let (status, words) = match &code {
        None => ("404 Not Found", "This is no login that polylogue waits for.".to_owned()),
        Some(Ok(_)) => ("200 OK", "polylogue has the answer. You can close this page.".to_owned()),
        Some(Err(_)) => {
            ("200 OK", "polylogue was refused. The terminal says more; you can close this page.".to_owned())
        }
    };
    let length = words.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{words}"
    );
    // The browser need not wait for it.
    let _ = stream.write_all(reply.as_bytes());
    code
}

/// The head of a request, if it comes in time.
fn head_of(stream: &mut TcpStream) -> Option<String> {
    let until = Instant::now() + REQUEST_TIME;
    let (mut head, mut bytes) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&bytes[..count]);
        if head.len() > MAX_REQUEST || Instant::now() > until {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

fn answer(query: &str) -> Answer {
    let decoded = |text: &str| String::from_utf8_lossy(&percent::decode(&text.replace('+', " "))).into_owned();
    let query = query.split('#').next().unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

/// The code, or why there is none (RFC 6749, 4.1.2). `None` if the answer is not one to this login.
fn code_in(answer: &Answer, state: &str, issuer: Issuer<'_>) -> Option<Result<String>> {
    let of = |name: &str| answer.get(name).map(String::as_str);
    if of("state") != Some(state) {
        return None;
    }
    let refused = |why: &str| Some(Err(Error::new(ErrorKind::Auth, text::sanitise(why).into_owned())));
    // RFC 9207, 2.4: who answers must be who was asked.
    if of("iss").map_or(issuer.1, |said| said != issuer.0) {
        return refused("the answer comes from somebody else than was asked");
    }
    if let Some(error) = of("error") {
        let more = of("error_description").map(|more| format!(": {more}")).unwrap_or_default();
        return refused(&format!("the login was refused: {error}{more}"));
    }
    match of("code").filter(|code| !code.is_empty()) {
        Some(code) => Some(Ok(code.to_owned())),
        None => refused("the answer has no code"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_this_login_counts() {
        let code = |query: &str, is_named: bool| {
            code_in(&answer(query), "s", ("https://a", is_named)).map(|code| code.map_err(|error| error.message))
        };
        let refused = |why: &str| Some(Err(why.to_owned()));
        assert_eq!(code("code=a%2Bb&state=s", false), Some(Ok("a+b".into())));
        assert_eq!(code("code=a&state=other", false), None);
        assert_eq!(code("code=a", false), None);
        assert_eq!(code("state=s", false), refused("the answer has no code"));
        let declined = "state=s&error=access_denied&error_description=not+you";
        assert_eq!(code(declined, false), refused("the login was refused: access_denied: not you"));
        assert_eq!(code("state=s&code=a&iss=https%3A%2F%2Fa", true), Some(Ok("a".into())));
        let other = refused("the answer comes from somebody else than was asked");
        assert_eq!(code("state=s&code=a", true), other);
        assert_eq!(code("state=s&code=a&iss=https%3A%2F%2Fb", false), other);
    }
}
