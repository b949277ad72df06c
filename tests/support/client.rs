//! A scripted client of a server in this process: it sends lines over a real socket and reads the responses while the
//! test turns the loop. It knows the protocol only as JSON, so that a mistake in the program's own types is found.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use base64::engine::general_purpose::STANDARD as BASE64;
use polylogue::Turn;
use serde_json::{Value, json};

use super::harness::Harness;
use crate::support::internals::{Probe, socket};

pub struct Client {
    /// Non-blocking.
    pub stream: UnixStream,
    unread: Vec<u8>,
    /// The server has hung up.
    pub has_ended: bool,
}

/// A loop that serves a socket, without a terminal of its own.
pub fn serve(plan: super::harness::Plan) -> Harness {
    let mut app = Harness::new(super::harness::Plan { size: None, ..plan });
    open_to_clients(&mut app);
    app
}

/// Starts to serve a socket.
pub fn open_to_clients(app: &mut Harness) {
    let listener = socket::Listener::bind(app.data()).expect("a socket");
    app.repl.serve(listener);
}

/// A request of the current protocol version, also by the name of a script's command or of what it follows.
pub fn request(what: &str, mut fields: Value) -> String {
    let command = argv(what, &fields);
    let followed = ["chunks", "questions", "idle"].into_iter().zip(["logs", "approvals", "wait"]);
    let followed = followed.into_iter().find_map(|(of, name)| (name == what).then_some(of));
    let mut request = match (command, followed, what) {
        (Some(argv), ..) => json!({"request": "run", "agent": null, "argv": argv}),
        (None, Some(of), _) => {
            fields["request"] = "follow".into();
            fields["of"] = of.into();
            if let Some(follow) = fields.as_object_mut().and_then(|fields| fields.remove("follow")) {
                fields["goes_on"] = follow;
            }
            fields
        }
        (None, None, "new") => json!({"request": "open", "agent": null, "new": fields}),
        (None, None, "show") => json!({"request": "open", "agent": fields["agent"]}),
        (None, None, _) => {
            fields["request"] = what.into();
            fields
        }
    };
    request["polylogue"] = 6.into();
    request.to_string()
}

/// The command that a script runs as `what` with these fields.
fn argv(what: &str, fields: &Value) -> Option<Vec<String>> {
    let field = |name: &str| fields[name].as_str().unwrap_or_default();
    let words = match what {
        "ps" => vec!["agents"],
        "sessions" | "status" => vec![what],
        "stop" => vec!["exit"],
        "archive" => vec!["archive", "--when-idle", "--", field("agent")],
        "send" => {
            let (agent, text) = (fields["agent"].as_str(), fields["text"].as_str());
            ["tell", "--"].into_iter().chain(agent).chain(text).collect()
        }
        "answer" if fields["allow"] == true => vec!["approve", "--", field("id")],
        "answer" => {
            let reason = fields["reason"].as_str().map(|reason| format!("--reason={reason}"));
            let words = ["deny".to_owned()].into_iter().chain(reason);
            return Some(words.chain(["--".to_owned(), field("id").to_owned()]).collect());
        }
        _ => return None,
    };
    Some(words.into_iter().map(str::to_owned).collect())
}

impl Client {
    /// Connects; the server accepts in the next turn of the loop.
    pub fn connect(app: &Harness) -> Self {
        let stream = socket::connect(app.data()).expect("a socket of ours").expect("a server");
        stream.set_nonblocking(true).expect("a socket");
        Self { stream, unread: Vec::new(), has_ended: false }
    }

    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server reads");
    }

    pub fn say(&mut self, line: &str) {
        self.write(format!("{line}\n"));
    }

    /// Sends a request.
    pub fn ask(&mut self, what: &str, fields: Value) {
        self.say(&request(what, fields));
    }

    /// The next line, if all of it has arrived.
    pub fn try_read(&mut self) -> Option<Value> {
        let mut bytes = [0; 65_536];
        while !self.has_ended && !self.unread.contains(&b'\n') {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.has_ended = true,
                Ok(count) => self.unread.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.has_ended = true,
            }
        }
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        Some(serde_json::from_slice(&line).expect("a line of JSON"))
    }

    /// Turns the loop until the next line.
    pub fn read(&mut self, app: &mut Harness) -> Value {
        let mut try_read = None;
        app.turn_until("an answer", |_| {
            try_read = try_read.take().or_else(|| self.try_read());
            assert!(try_read.is_some() || !self.has_ended, "the server hung up instead of answering");
            try_read.is_some()
        });
        try_read.expect("an answer came")
    }

    /// Turns the loop until the server hangs up, and returns the lines before that.
    pub fn read_to_end(&mut self, app: &mut Harness) -> Vec<Value> {
        let mut lines = Vec::new();
        app.turn_until("the end of the connection", |_| {
            lines.extend(std::iter::from_fn(|| self.try_read()));
            self.has_ended
        });
        lines
    }

    /// Sends a request that must succeed, and returns its value.
    pub fn done(&mut self, app: &mut Harness, what: &str, fields: Value) -> Value {
        self.ask(what, fields);
        let mut answer = self.read(app);
        assert!(answer.get("ok").is_some(), "{what} was refused: {answer}");
        let is_command = what != "run" && argv(what, &json!({})).is_some();
        if is_command { answer["ok"]["data"].take() } else { answer["ok"].take() }
    }

    /// The open questions, asked for over a connection of its own.
    pub fn open_questions(app: &mut Harness) -> Value {
        let mut client = Self::connect(app);
        client.ask("approvals", json!({}));
        client.read(app)["questions"].take()
    }

    /// Sends a request that must fail, and returns the kind and the text of the error.
    pub fn refused(&mut self, app: &mut Harness, what: &str, fields: Value) -> (String, String) {
        self.ask(what, fields);
        refusal(&self.read(app))
    }

    /// Checks that the server still answers this client.
    pub fn is_served(&mut self, app: &mut Harness) {
        assert!(self.done(app, "ps", json!({})).is_array());
    }
}

/// A client that is a terminal: keys go in, and what is drawn comes to a screen.
pub struct Terminal {
    pub client: Client,
    screen: vt100::Parser,
    /// Lines other than frames, oldest first.
    pub messages: Vec<Value>,
    pub frames: usize,
}

impl Terminal {
    /// Attaches a terminal of this size, with these fields in the request.
    pub fn attach(app: &Harness, (columns, rows): (u16, u16), mut fields: Value) -> Self {
        let facts =
            [("columns", json!(columns)), ("rows", json!(rows)), ("unicode", true.into()), ("color", true.into())];
        facts.into_iter().for_each(|(name, value)| fields["terminal"][name] = value);
        let mut client = Client::connect(app);
        client.ask("attach", fields);
        Self { client, screen: vt100::Parser::new(rows, columns, 0), messages: Vec::new(), frames: 0 }
    }

    /// Takes what has arrived.
    pub fn look(&mut self) {
        while let Some(line) = self.client.try_read() {
            match line["frame"].as_str() {
                Some(frame) => {
                    self.screen.process(frame.as_bytes());
                    self.frames += 1;
                }
                None => self.messages.push(line),
            }
        }
    }

    pub fn type_bytes(&mut self, bytes: &[u8]) {
        self.client.ask("keys", json!({"keys": base64::Engine::encode(&BASE64, bytes)}));
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.look();
        self.client.ask("size", json!({"columns": columns, "rows": rows}));
        self.screen = vt100::Parser::new(rows, columns, 0);
    }

    /// Asks for everything to be drawn again.
    pub fn redraw(&mut self) {
        self.look();
        let (rows, columns) = self.screen.screen().size();
        self.screen = vt100::Parser::new(rows, columns, 0);
        self.client.ask("redraw", json!({}));
    }

    /// What the person sees.
    pub fn text(&mut self) -> String {
        self.look();
        self.screen.screen().contents()
    }

    /// Turns the loop until this text is on the screen.
    pub fn wait_for_text(&mut self, app: &mut Harness, expected: &str) {
        app.turn_until(expected, |_| self.text().contains(expected));
    }

    /// Turns the loop until a line other than a frame arrives, and returns it.
    pub fn next_message(&mut self, app: &mut Harness) -> Value {
        app.turn_until("a line arrives", |_| {
            self.look();
            !self.messages.is_empty()
        });
        self.messages.remove(0)
    }
}

/// The kind and the text of an error response.
pub fn refusal(answer: &Value) -> (String, String) {
    let part = |name: &str| answer["error"][name].as_str().unwrap_or_else(|| panic!("no refusal: {answer}")).to_owned();
    (part("kind"), part("text"))
}

pub fn turn_until_no_client(app: &mut Harness) {
    app.turn_until("the end of all connections", |app| app.repl.clients() == 0);
}

/// One turn that does not end the program.
pub fn turn(app: &mut Harness) {
    assert_eq!(app.turn(), Turn::Continue);
}
