//! A scripted client of a server in this process: it says lines over a real socket and reads what comes back, while the
//! house turns. It knows the protocol only as JSON, so that a mistake of ours cannot hide in its own mirror.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use base64::engine::general_purpose::STANDARD as BASE64;
use polylogue::repl::Turn;
use polylogue::socket;
use serde_json::{Value, json};

use super::harness::Harness;

/// One client.
pub struct Client {
    /// Its end of the connection, non-blocking.
    pub stream: UnixStream,
    unread: Vec<u8>,
    /// The server has hung up.
    pub has_ended: bool,
}

/// A house that serves, without a terminal of its own.
pub fn serve(plan: super::harness::Plan) -> Harness {
    let mut app = Harness::new(super::harness::Plan { size: None, ..plan });
    open_to_clients(&mut app);
    app
}

/// This house serves from now on.
pub fn open_to_clients(app: &mut Harness) {
    let listener = socket::Listener::bind(app.directory()).expect("a socket");
    app.repl.serve(listener);
}

/// A request of this version.
pub fn request(what: &str, mut fields: Value) -> String {
    fields["polylogue"] = 1.into();
    fields["do"] = what.into();
    fields.to_string()
}

impl Client {
    /// Knocks; the house lets it in with its next turn.
    pub fn connect(app: &Harness) -> Self {
        let stream = socket::connect(app.directory()).expect("a socket of ours").expect("somebody serves");
        stream.set_nonblocking(true).expect("a socket");
        Self { stream, unread: Vec::new(), has_ended: false }
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server reads");
    }

    /// Says a line.
    pub fn say(&mut self, line: &str) {
        self.write(format!("{line}\n"));
    }

    /// Asks for something.
    pub fn ask(&mut self, what: &str, fields: Value) {
        self.say(&request(what, fields));
    }

    /// The next line that has come, if one is whole.
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

    /// Turns the house until the next line.
    pub fn read(&mut self, app: &mut Harness) -> Value {
        let mut try_read = None;
        app.turn_until("an answer", |_| {
            try_read = try_read.take().or_else(|| self.try_read());
            assert!(try_read.is_some() || !self.has_ended, "the server hung up instead of answering");
            try_read.is_some()
        });
        try_read.expect("an answer came")
    }

    /// Turns the house until the server hangs up, and gives the lines before that.
    pub fn read_to_end(&mut self, app: &mut Harness) -> Vec<Value> {
        let mut lines = Vec::new();
        app.turn_until("the end of the connection", |_| {
            lines.extend(std::iter::from_fn(|| self.try_read()));
            self.has_ended
        });
        lines
    }

    /// Asks, and gives the value with which it was done.
    pub fn done(&mut self, app: &mut Harness, what: &str, fields: Value) -> Value {
        self.ask(what, fields);
        let mut answer = self.read(app);
        assert!(answer.get("ok").is_some(), "{what} was refused: {answer}");
        answer["ok"].take()
    }

    /// Asks, and gives kind and words with which it was refused.
    pub fn refused(&mut self, app: &mut Harness, what: &str, fields: Value) -> (String, String) {
        self.ask(what, fields);
        refusal(&self.read(app))
    }

    /// Asks for nothing in particular: a client that is still served is answered.
    pub fn is_served(&mut self, app: &mut Harness) {
        assert!(self.done(app, "ps", json!({})).is_array());
    }
}

/// A client that is a terminal: keys go in, and what is drawn comes to a screen.
pub struct Terminal {
    /// Its connection.
    pub client: Client,
    screen: vt100::Parser,
    /// What was told beside frames, oldest first.
    pub messages: Vec<Value>,
    /// How many frames have come.
    pub frames: usize,
}

impl Terminal {
    /// A terminal of this size that attaches with these further fields.
    pub fn attach(app: &Harness, (columns, rows): (u16, u16), mut fields: Value) -> Self {
        let facts =
            [("columns", json!(columns)), ("rows", json!(rows)), ("unicode", true.into()), ("color", true.into())];
        facts.into_iter().for_each(|(name, value)| fields[name] = value);
        let mut client = Client::connect(app);
        client.ask("attach", fields);
        Self { client, screen: vt100::Parser::new(rows, columns, 0), messages: Vec::new(), frames: 0 }
    }

    /// Takes what has come.
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

    /// Types bytes.
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        self.client.ask("keys", json!({"keys": base64::Engine::encode(&BASE64, bytes)}));
    }

    /// The terminal has another size from now on.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.look();
        self.client.ask("size", json!({"columns": columns, "rows": rows}));
        self.screen = vt100::Parser::new(rows, columns, 0);
    }

    /// Nothing is known any more of what the screen shows, and it is to be drawn anew.
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

    /// Turns the house until these words are on the screen.
    pub fn wait_for_text(&mut self, app: &mut Harness, words: &str) {
        app.turn_until(words, |_| self.text().contains(words));
    }

    /// Turns the house until something beside frames is told, and gives that.
    pub fn next_message(&mut self, app: &mut Harness) -> Value {
        app.turn_until("something is told", |_| {
            self.look();
            !self.messages.is_empty()
        });
        self.messages.remove(0)
    }
}

/// Kind and words of a refusal.
pub fn refusal(answer: &Value) -> (String, String) {
    let part = |name: &str| answer["error"][name].as_str().unwrap_or_else(|| panic!("no refusal: {answer}")).to_owned();
    (part("kind"), part("text"))
}

/// Turns until nobody is connected any more.
pub fn turn_until_no_client(app: &mut Harness) {
    app.turn_until("nobody is connected", |app| app.repl.clients() == 0);
}

/// One turn, which goes on.
pub fn turn(app: &mut Harness) {
    assert_eq!(app.turn(), Turn::Continue);
}
