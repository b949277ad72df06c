//! The server's half of HTTP/1.1, as far as a client under test can make use of it: requests are
//! read from bytes in any portions, answers are bytes. No socket here: the scripted peer blocks on
//! its own and the flood polls thousands, and both read with this.
//!
//! Framing as in RFC 9112: a body is as long as `content-length` says, or chunked, or empty.

use std::fmt::Write as _;

/// One whole request as it came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// `POST`, `GET`, ...
    pub method: String,
    /// The target of the request line, with its query.
    pub path: String,
    /// Name and value in the order in which they came, names as they were written.
    pub headers: Vec<(String, String)>,
    /// The body without its transfer coding.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of the first header of that name, in whatever case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; panics with the body if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("the body is not JSON ({error}): {:?}", String::from_utf8_lossy(&self.body)))
    }

    fn expects_chunks(&self) -> bool {
        self.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    }

    fn announced_length(&self) -> Result<usize, String> {
        let Some(length) = self.header("content-length") else { return Ok(0) };
        length.trim().parse().map_err(|_| format!("content-length: {length}"))
    }
}

/// What of the next request is still to come.
#[derive(Debug)]
enum Part {
    Head,
    Body { missing: usize },
    ChunkSize,
    Chunk { missing: usize },
    ChunkEnd,
    Trailer,
}

/// Puts requests together from the bytes of one connection.
#[derive(Debug)]
pub struct RequestReader {
    unread: Vec<u8>,
    request: Request,
    part: Part,
}

impl Default for RequestReader {
    fn default() -> Self {
        RequestReader { unread: Vec::new(), request: Request::default(), part: Part::Head }
    }
}

impl RequestReader {
    /// Adds bytes that came from the connection.
    pub fn feed(&mut self, bytes: &[u8]) {
        match &mut self.part {
            Part::Body { missing } if self.unread.is_empty() && bytes.len() <= *missing => {
                self.request.body.extend_from_slice(bytes);
                *missing -= bytes.len();
            }
            _ => self.unread.extend_from_slice(bytes),
        }
    }

    /// The next request that is there as a whole. An error says what no HTTP/1.1 client may send.
    pub fn take_request(&mut self) -> Result<Option<Request>, String> {
        loop {
            match self.step()? {
                Step::Again => {}
                Step::Starved => return Ok(None),
                Step::Whole => {
                    self.part = Part::Head;
                    return Ok(Some(std::mem::take(&mut self.request)));
                }
            }
        }
    }

    /// What is there of a request that has not come whole, for the message of a failing test.
    pub fn describe(&self) -> String {
        let unread = String::from_utf8_lossy(&self.unread[..self.unread.len().min(300)]);
        let Request { method, path, body, .. } = &self.request;
        format!("{method} {path} {:?}, {} bytes of body, unread {unread:?}", self.part, body.len())
    }

    fn step(&mut self) -> Result<Step, String> {
        match self.part {
            Part::Head => self.read_head(),
            Part::Body { missing } => Ok(self.read_body(missing, |missing| Part::Body { missing }, Step::Whole)),
            Part::Chunk { missing } => {
                let step = self.read_body(missing, |missing| Part::Chunk { missing }, Step::Again);
                if matches!(step, Step::Again) {
                    self.part = Part::ChunkEnd;
                }
                Ok(step)
            }
            Part::ChunkSize => self.read_chunk_size(),
            Part::ChunkEnd => Ok(self.take_line().map_or(Step::Starved, |_| {
                self.part = Part::ChunkSize;
                Step::Again
            })),
            Part::Trailer => Ok(self
                .take_line()
                .map_or(Step::Starved, |line| if line.is_empty() { Step::Whole } else { Step::Again })),
        }
    }

    fn read_head(&mut self) -> Result<Step, String> {
        // TLS begins with a record of type 22: a server without it does not wait for the end of such a line.
        if self.unread.first().is_some_and(|first| !first.is_ascii_alphabetic()) {
            return Err("no request line".to_owned());
        }
        let Some(end) = find(&self.unread, b"\r\n\r\n") else { return Ok(Step::Starved) };
        let head: Vec<u8> = self.unread.drain(..end + 4).collect();
        self.request = parse_head(&String::from_utf8_lossy(&head[..end]))?;
        self.part = match self.request.expects_chunks() {
            true => Part::ChunkSize,
            false => Part::Body { missing: self.request.announced_length()? },
        };
        Ok(Step::Again)
    }

    fn read_body(&mut self, missing: usize, still: fn(usize) -> Part, complete: Step) -> Step {
        let taken = missing.min(self.unread.len());
        self.request.body.extend(self.unread.drain(..taken));
        self.part = still(missing - taken);
        if taken == missing { complete } else { Step::Starved }
    }

    fn read_chunk_size(&mut self) -> Result<Step, String> {
        let Some(line) = self.take_line() else { return Ok(Step::Starved) };
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(digits, 16).map_err(|_| format!("chunk size: {line:?}"))?;
        self.part = if size == 0 { Part::Trailer } else { Part::Chunk { missing: size } };
        Ok(Step::Again)
    }

    fn take_line(&mut self) -> Option<String> {
        let end = find(&self.unread, b"\r\n")?;
        let line: Vec<u8> = self.unread.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

enum Step {
    Again,
    Starved,
    Whole,
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn parse_head(head: &str) -> Result<Request, String> {
    let mut lines = head.split("\r\n");
    let start = lines.next().unwrap_or_default();
    let mut fields = start.split(' ');
    let (Some(method), Some(path), Some("HTTP/1.1")) = (fields.next(), fields.next(), fields.next()) else {
        return Err(format!("request line: {start:?}"));
    };
    let mut request = Request { method: method.to_owned(), path: path.to_owned(), ..Request::default() };
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("header line: {line:?}"))?;
        request.headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(request)
}

/// The head of an answer, with its empty line.
pub fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// One chunk of a chunked body. Not for empty `bytes`: an empty chunk would end the body.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    assert!(!bytes.is_empty(), "an empty chunk ends the body: say LAST_CHUNK");
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    framed
}

/// What ends a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "As Scripted",
    }
}
