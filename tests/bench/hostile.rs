//! A provider that does everything wrong that a provider can do, and sometimes answers well. A process of its own, so
//! that its threads and its memory are not counted as ours.
//!
//! Each piece of an answer's text carries the tag of the message that it answers and a running number, as the flood's.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::chance::Chance;
use crate::support::{http, openai};

/// Asks the copy of ourselves to serve; the value is the seed.
const SERVE: &str = "HOSTILE_SERVE";

/// The provider. Dropped, or its parent dead, it ends.
pub struct Hostile {
    /// The base URL for an `openai` endpoint.
    pub url: String,
    child: Child,
}

impl Hostile {
    /// Starts a copy of this binary, which must call [`serve_if_asked`].
    pub fn spawn(seed: u64) -> Hostile {
        let mut command = Command::new(std::env::current_exe().expect("the path of this binary"));
        command.env(SERVE, seed.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("our own binary");
        let mut url = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        lines.read_line(&mut url).expect("a server that prints its address");
        Hostile { url: url.trim().to_owned(), child }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the copy that [`Hostile::spawn`] starts: serves and never returns. Anywhere else it returns at once.
pub fn serve_if_asked() {
    let Some(seed) = std::env::var(SERVE).ok().and_then(|seed| seed.parse::<u64>().ok()) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
    println!("http://{}/v1", listener.local_addr().expect("an address"));
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    for (number, stream) in (0..).zip(listener.incoming().flatten()) {
        let chance = Chance::new(seed.wrapping_add(number));
        // A connection that breaks is what this is about.
        std::thread::spawn(move || drop(External { stream, chance }.serve()));
    }
}

/// The last `tag-...` in a text, or `untagged`.
pub fn tag_of(text: &str) -> String {
    let Some((_, rest)) = text.rsplit_once("tag-") else { return "untagged".to_owned() };
    let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    format!("tag-{name}")
}

/// One connection.
struct External {
    stream: TcpStream,
    chance: Chance,
}

impl External {
    fn serve(mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let mut reader = http::RequestReader::default();
        let mut portion = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut portion)? {
                0 => return Ok(()),
                count => reader.feed(&portion[..count]),
            }
            if let Ok(Some(request)) = reader.take_request() {
                let body = serde_json::from_slice(&request.body).unwrap_or_default();
                self.answer(&tag_of(&openai::last_user_text(&body)))?;
            }
        }
    }

    fn answer(&mut self, tag: &str) -> io::Result<()> {
        match self.chance.below(26) {
            0 => self.refuse(),
            1 => self.end(),
            2 => self.reset(),
            3 => self.stream(tag, 20).and_then(|()| self.end()),
            4 => self.stream(tag, 20).and_then(|()| self.reset()),
            5 => self.nonsense(),
            6 => self.nonsense_in_stream(tag),
            7 => self.error_in_stream(tag),
            8 => self.line_without_end(),
            // Silence: the client has to find out for itself.
            9 => self.stream(tag, 3),
            10 => Ok(()),
            11 => self.finish(tag, "length"),
            12 => self.finish(tag, "content_filter"),
            13..=16 => self.call_tools(tag),
            17 => self.much(tag),
            _ => self.finish(tag, "stop"),
        }
    }

    fn head(&mut self) -> io::Result<()> {
        let headers = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")];
        self.stream.write_all(&http::head(200, &headers))
    }

    fn event(&mut self, data: &serde_json::Value) -> io::Result<()> {
        self.stream.write_all(&http::chunk(openai::event(data).as_bytes()))
    }

    /// A head and up to `most` pieces, quickly or slowly.
    fn stream(&mut self, tag: &str, most: usize) -> io::Result<()> {
        self.head()?;
        let pause = if self.chance.once_in(3) { self.chance.below(40) } else { 0 };
        for number in 0..self.chance.below(most + 1) {
            if number == 0 && self.chance.once_in(4) {
                self.event(&openai::thinking("let me see "))?;
            }
            self.event(&openai::text(&format!("{tag}:{number} ")))?;
            std::thread::sleep(Duration::from_millis(pause as u64));
        }
        Ok(())
    }

    fn close_stream(&mut self, reason: &str) -> io::Result<()> {
        self.event(&openai::finish(reason))?;
        self.event(&openai::usage(10, 10))?;
        self.stream.write_all(&http::chunk(openai::DONE.as_bytes()))?;
        self.stream.write_all(http::LAST_CHUNK)
    }

    fn finish(&mut self, tag: &str, reason: &str) -> io::Result<()> {
        self.stream(tag, 40)?;
        self.close_stream(reason)
    }

    /// More text at once than a client reads.
    fn much(&mut self, tag: &str) -> io::Result<()> {
        self.head()?;
        for number in 0..5_000 {
            self.event(&openai::text(&format!("{tag}:{number} ")))?;
        }
        self.close_stream("stop")
    }

    fn call_tools(&mut self, tag: &str) -> io::Result<()> {
        const CALLS: &[(&str, &str)] = &[
            ("read_file", r#"{"path":"note"}"#),
            ("read_file", r#"{"path":"nowhere"}"#),
            ("read_file", r#"{"path":"#),
            ("write_file", r#"{"file_path":"new","content":"some\ntext\n"}"#),
            ("edit_file", r#"{"file_path":"note","old_string":"short","new_string":"long"}"#),
            ("multi_edit", r#"{"file_path":"new","edits":[{"old_string":"text","new_string":"words"}]}"#),
            ("glob", r#"{"pattern":"**/*"}"#),
            ("grep", r#"{"pattern":"short|long"}"#),
            ("list_dir", "{}"),
            ("web_fetch", r#"{"url":"http://127.0.0.1:9/"}"#),
            ("todo", r#"{"todos":[{"content":"one","status":"in_progress"}]}"#),
            ("skill", r#"{"name":"nothing"}"#),
            ("fork", r#"{"prompt":"say tag-0"}"#),
            ("agents", "{}"),
            ("kill", r#"{"agent":"1"}"#),
            ("send_mail", r#"{"to":"parent","body":"done"}"#),
            ("check_mail", "{}"),
            ("read_mail", "{}"),
            ("wait", r#"{"timeout":1}"#),
            ("bash", r#"{"command":"echo done"}"#),
            ("bash", r#"{"command":"echo some; sleep 0.05; echo more >&2; exit 3"}"#),
            ("bash", r#"{"command":"head -c 100000 /dev/zero | tr '\\0' x"}"#),
            ("bash", r#"{"command":"sleep 0.2; echo late","run_in_background":true}"#),
            ("bash", r#"{"command":"sleep 1000","timeout":100}"#),
            ("bash_output", r#"{"bash_id":"bash_1"}"#),
            ("bash_kill", r#"{"bash_id":"bash_1"}"#),
            ("mcp__s0__first", r#"{"word":"hello"}"#),
            ("mcp__s1__first", r#"{"word":"hello"}"#),
            ("mine", r#"{"word":"hello"}"#),
            ("no_such_tool", "{}"),
            ("", "[]"),
        ];
        self.stream(tag, 3)?;
        for index in 0..=self.chance.below(3) {
            let (name, arguments) = self.chance.of(CALLS);
            let (begin, rest) = arguments.split_at(self.chance.below(arguments.len()));
            self.event(&openai::tool_call(index, &format!("call-{index}"), name, begin))?;
            self.event(&openai::tool_arguments(index, rest))?;
        }
        match self.chance.below(6) {
            0 => self.end(),
            1 => self.close_stream("length"),
            _ => self.close_stream("tool_calls"),
        }
    }

    fn refuse(&mut self) -> io::Result<()> {
        let status = self.chance.of(&[400, 401, 403, 404, 422, 429, 500, 502, 503, 529, 302, 204]);
        let body = match self.chance.below(3) {
            0 => openai::error("some_error", "this \u{1b}[31mis refused").to_string(),
            1 => "<html><body>bad gateway</body></html>".to_owned(),
            _ => String::new(),
        };
        let length = body.len().to_string();
        self.stream.write_all(&http::head(status, &[("content-type", "text/html"), ("content-length", &length)]))?;
        self.stream.write_all(body.as_bytes())
    }

    fn nonsense(&mut self) -> io::Result<()> {
        if self.chance.once_in(2) {
            self.head()?;
        }
        let bytes = self.chance.bytes(4_000);
        self.stream.write_all(&bytes)?;
        self.end()
    }

    fn nonsense_in_stream(&mut self, tag: &str) -> io::Result<()> {
        self.stream(tag, 5)?;
        let bytes = [b"data: ", self.chance.bytes(300).as_slice(), b"\n\n"].concat();
        self.stream.write_all(&http::chunk(&bytes))?;
        self.close_stream("stop")
    }

    fn error_in_stream(&mut self, tag: &str) -> io::Result<()> {
        self.stream(tag, 5)?;
        self.event(&openai::error("server_error", "overloaded in the middle"))?;
        self.stream.write_all(http::LAST_CHUNK)
    }

    fn line_without_end(&mut self) -> io::Result<()> {
        self.head()?;
        let piece = http::chunk(&[b'x'; 64 * 1024]);
        for _ in 0..40 {
            self.stream.write_all(&piece)?;
        }
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Both)
    }

    fn reset(&mut self) -> io::Result<()> {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))?;
        Err(io::ErrorKind::ConnectionReset.into())
    }
}
