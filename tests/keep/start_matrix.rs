//! Every way to start, generated: what a conversation begins with, and whose conversation the text is in.
//!
//! The first start or a later one, with a flag, a variable, a configuration or nothing; alone, beside a chat or beside a
//! server, both of which were started in another way; in the same directory or another one; a new conversation, with a
//! prompt, `-c`, `-r` and `-p`. Each cell asks a scripted provider and looks at what it was sent and what is stored.
//!
//! The suite tries some of the cells; all of them where the variable [`ALL`] is set.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use polylogue::{AgentId, Store};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::internals::Body;
use crate::support::peer::Peer;
use crate::support::program::{PROGRAM, Program};
use crate::support::pty::Pty;
use crate::support::{openai, signals};

/// Has every cell tried.
const ALL: &str = "POLYLOGUE_TEST_ALL_STARTS";
/// The distance between the cells that the suite tries: it has no factor in common with any of the sides.
const STRIDE: usize = 11;

const STARTS: [bool; 2] = [true, false];
const SOURCES: [Source; 4] = [Source::Nothing, Source::Flag, Source::Variable, Source::Configuration];
const BESIDES: [Beside; 3] = [Beside::Nothing, Beside::Chat, Beside::Server];
const PLACES: [Place; 2] = [Place::Same, Place::Other];
const COMMANDS: [Command; 5] = [Command::Plain, Command::Prompt, Command::Continue, Command::Resume, Command::Print];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Nothing,
    Flag,
    Variable,
    Configuration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Chat,
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Same,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Plain,
    Prompt,
    Continue,
    Resume,
    Print,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    is_first: bool,
    source: Source,
    beside: Beside,
    place: Place,
    command: Command,
}

/// What a conversation has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    model: &'static str,
    /// What is sent; nothing by default.
    thinking: Option<&'static str>,
    policy: &'static str,
    place: Place,
    is_configured: bool,
}

impl Source {
    /// What a new conversation begins with.
    fn settings(self, place: Place) -> Settings {
        let (model, thinking, policy) = match self {
            Self::Nothing => ("base", None, "ask"),
            Self::Flag => ("flag", Some("high"), "plan"),
            Self::Variable => ("variable", Some("medium"), "auto"),
            Self::Configuration => ("configured", Some("low"), "never"),
        };
        Settings { model, thinking, policy, place, is_configured: self == Self::Configuration }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Flag => &["-m", "here/flag", "--set", "thinking=high", "--approval", "plan"],
            _ => &[],
        }
    }

    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Variable => &[
                ("POLYLOGUE_MODEL", "here/variable"),
                ("POLYLOGUE_THINKING", "medium"),
                ("POLYLOGUE_APPROVAL", "auto"),
            ],
            _ => &[],
        }
    }
}

/// A data directory with what uses it.
struct World {
    directory: TempDir,
    peer: Peer,
    chat: Option<Pty>,
    server: Option<Program>,
    /// The conversation that a person had last, for each directory.
    last: HashMap<Place, (AgentId, Settings)>,
    /// The one that is called `old`.
    old: Option<(AgentId, Settings)>,
    texts: usize,
}

impl World {
    fn new(is_first: bool, beside: Beside) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let peer = Peer::start();
        let provider = format!("[providers.here]\nbase_url = \"{}\"\n", peer.url());
        let configured = "thinking = \"low\"\napproval = \"never\"\n";
        let environment = "[environments.coding]\ntools = [\"coding\"]\nsystem = \"Configured.\"\n";
        for (name, text) in [
            ("base", format!("model = \"here/base\"\n{provider}")),
            ("configured", format!("model = \"here/configured\"\n{configured}{provider}{environment}")),
        ] {
            let config = directory.path().join(name).join("polylogue");
            std::fs::create_dir_all(&config).expect("a directory");
            std::fs::write(config.join("config.toml"), text).expect("a file");
        }
        for place in PLACES {
            std::fs::create_dir(path_of(directory.path(), place)).expect("a directory");
        }
        let (last, old) = (HashMap::new(), None);
        let mut world = Self { directory, peer, chat: None, server: None, last, old, texts: 0 };
        if !is_first {
            world.begin_old();
        }
        match beside {
            Beside::Nothing => {}
            Beside::Chat => world.chat = Some(world.opened(Place::Same, Source::Nothing, &[])),
            Beside::Server => {
                let server = Program::start(world.command(Place::Same, Source::Nothing, &["serve"]));
                server.err.recv().expect("it serves");
                world.server = Some(server);
            }
        }
        world
    }

    /// A conversation that has other settings than every cell.
    fn begin_old(&mut self) {
        let mut pty = self.opened(Place::Same, Source::Nothing, &["-m", "here/before", "--approval", "auto"]);
        for line in ["/name old", "/thinking low"] {
            pty.send(format!("{line}\r"));
        }
        pty.wait_for_text("── old ");
        let id = self.say(&mut pty, "before").1;
        pty.leave();
        let settings = Settings {
            model: "before",
            thinking: Some("low"),
            policy: "auto",
            place: Place::Same,
            is_configured: false,
        };
        self.last.insert(Place::Same, (id, settings.clone()));
        self.old = Some((id, settings));
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn variables(&self, source: Source) -> Vec<(String, String)> {
        let config = if source == Source::Configuration { "configured" } else { "base" };
        let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        let own = source.variables().iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let all = [
            ("HOME", text(self.directory.path().to_owned())),
            ("XDG_CONFIG_HOME", text(self.directory.path().join(config))),
            ("POLYLOGUE_DATA_DIR", text(self.data())),
            ("LANG", "C.UTF-8".to_owned()),
            // Not that of all tests.
            ("POLYLOGUE_MODEL", String::new()),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(own).collect()
    }

    fn command(&self, place: Place, source: Source, arguments: &[&str]) -> std::process::Command {
        let mut command = signals::command(PROGRAM);
        command.args(arguments).current_dir(path_of(self.directory.path(), place)).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("POLYLOGUE_LOOK_UP_MODELS", "false");
        command.envs(self.variables(source));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A terminal that shows a conversation.
    fn opened(&self, place: Place, source: Source, arguments: &[&str]) -> Pty {
        let mut pty = self.terminal(place, source, arguments);
        pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
        pty
    }

    fn terminal(&self, place: Place, source: Source, arguments: &[&str]) -> Pty {
        let variables = self.variables(source);
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        let directory = path_of(self.directory.path(), place);
        Pty::spawn_in(PROGRAM, arguments, &variables, (110, 30), &directory)
    }

    /// Types a text. Returns the request for it, and the conversation that has it.
    fn say(&mut self, pty: &mut Pty, text: &str) -> (Value, AgentId) {
        pty.send(format!("{text}\r"));
        let body = self.answer(text);
        pty.wait_for_answer(text, "answered");
        (body, self.conversation_with(text))
    }

    /// Answers the next request, which has to be about this text.
    fn answer(&self, text: &str) -> Value {
        let exchange = self.peer.accept();
        let body = exchange.request().json();
        assert_eq!(openai::last_user_text(&body), text);
        exchange.stream().text("answered").finish("stop").done();
        body
    }

    /// The one agent whose own log has this text.
    fn conversation_with(&self, text: &str) -> AgentId {
        let store = Store::open_read_only(&self.data()).expect("a store");
        let rows = [store.load_agents(), store.archived_agents()].map(|rows| rows.expect("agents").agents);
        let has_text = |id: AgentId| {
            let (log, _) = store.replay(id).expect("a log");
            log.iter().any(|message| matches!(&message.body, Body::User(said) if said == text))
        };
        let found: Vec<AgentId> = rows.iter().flatten().map(|row| row.id).filter(|id| has_text(*id)).collect();
        let [id] = found[..] else { panic!("{text:?} is in {found:?}") };
        id
    }

    fn run(&mut self, cell: Cell) {
        self.texts += 1;
        let text = format!("text {}", self.texts);
        let existing = match cell.command {
            Command::Continue => self.last.get(&cell.place).cloned(),
            Command::Resume if self.old.is_none() => return self.resume_nobody(cell),
            Command::Resume => self.old.clone(),
            _ => None,
        };
        let new = cell.source.settings(cell.place);
        // The flags of a conversation that exists hold from now on; nothing else changes it. It keeps its environment by name:
        // what that means is as the process that runs the agents is configured, unless it began in another one.
        let mut expected = match &existing {
            Some((_, settings)) if cell.source == Source::Flag => {
                let Settings { model, thinking, policy, .. } = new;
                Settings { model, thinking, policy, ..settings.clone() }
            }
            Some((_, settings)) => settings.clone(),
            None => new,
        };
        if existing.is_some() && cell.beside == Beside::Nothing {
            expected.is_configured = cell.source == Source::Configuration;
        }
        let (body, id) = match cell.command {
            Command::Print => self.print(cell, &text),
            _ => self.chat(cell, &text, existing.as_ref().map(|(id, _)| *id)),
        };
        self.check_request(cell, &body, &expected);
        self.check_stored(cell, id, &expected);
        if cell.command == Command::Print {
            return;
        }
        if let Some((old, settings)) = self.old.as_mut().filter(|(old, _)| *old == id) {
            (*old, *settings) = (id, expected.clone());
        }
        for (_, (known, settings)) in self.last.iter_mut().filter(|(_, (known, _))| *known == id) {
            (*known, *settings) = (id, expected.clone());
        }
        self.last.insert(cell.place, (id, expected));
    }

    fn print(&self, cell: Cell, text: &str) -> (Value, AgentId) {
        let arguments: Vec<&str> = ["-p", text].into_iter().chain(cell.source.arguments().iter().copied()).collect();
        let running = Program::start(self.command(cell.place, cell.source, &arguments));
        let body = self.answer(text);
        let ended = running.ends();
        assert_eq!((ended.code, ended.out.as_str()), (0, "answered\n"), "{cell:?}: {}", ended.err);
        (body, self.conversation_with(text))
    }

    fn chat(&mut self, cell: Cell, text: &str, existing: Option<AgentId>) -> (Value, AgentId) {
        let own: &[&str] = match cell.command {
            Command::Prompt => &[text],
            Command::Continue => &["-c"],
            Command::Resume => &["-r", "old"],
            _ => &[],
        };
        let arguments: Vec<&str> = cell.source.arguments().iter().chain(own).copied().collect();
        let before = self.known();
        let mut pty = self.opened(cell.place, cell.source, &arguments);
        let (body, id) = if cell.command == Command::Prompt {
            let body = self.answer(text);
            pty.wait_for_answer(text, "answered");
            (body, self.conversation_with(text))
        } else {
            self.say(&mut pty, text)
        };
        match existing {
            Some(existing) => assert_eq!(id, existing, "{cell:?}"),
            // The root counts as new as long as nothing was written there.
            None => assert!(!before.contains(&id), "{cell:?}: {id} is a conversation of somebody else"),
        }
        if existing.is_some() && cell.source == Source::Flag {
            pty.wait_for_text("from the next request on: model here/flag, thinking high, approval plan");
        }
        pty.leave();
        let screen = pty.screen_text();
        assert!(screen.trim_end().ends_with(" -c"), "{cell:?}: {screen}");
        (body, id)
    }

    /// The conversations that are somebody's: all in which something was written.
    fn known(&self) -> Vec<AgentId> {
        let mut known: Vec<AgentId> = self.last.values().map(|(id, _)| *id).collect();
        known.extend(self.old.as_ref().map(|(id, _)| *id));
        let Ok(store) = Store::open_read_only(&self.data()) else { return known };
        let shown = self.chat.is_some().then(|| store.load_agents().expect("agents").agents);
        known.extend(shown.into_iter().flatten().map(|row| row.id));
        known
    }

    fn resume_nobody(&self, cell: Cell) {
        let mut pty = self.terminal(cell.place, cell.source, &["-r", "old"]);
        assert_eq!(pty.wait_exit().code(), Some(2), "{cell:?}: {}", pty.screen_text());
        assert!(pty.screen_text().contains("no agent \"old\""), "{cell:?}: {}", pty.screen_text());
    }

    fn check_request(&self, cell: Cell, body: &Value, expected: &Settings) {
        assert_eq!(body["model"], expected.model, "{cell:?}");
        assert_eq!(body["reasoning_effort"].as_str(), expected.thinking, "{cell:?}");
        let system = body["messages"][0]["content"].as_str().unwrap_or_default();
        if expected.is_configured {
            assert!(system.starts_with("Configured."), "{cell:?}: {system}");
            return;
        }
        assert!(system.starts_with("You are a helpful assistant"), "{cell:?}: {system}");
        let place = path_of(self.directory.path(), expected.place);
        assert!(system.contains(&format!("working directory is {}.", place.display())), "{cell:?}: {system}");
    }

    fn check_stored(&self, cell: Cell, id: AgentId, expected: &Settings) {
        let store = Store::open_read_only(&self.data()).expect("a store");
        let row = store.agent(id).expect("a store").expect("an agent");
        let place = path_of(self.directory.path(), expected.place);
        assert_eq!(row.directory.as_deref(), place.to_str(), "{cell:?}");
        assert_eq!(row.endpoint, Some(format!("here/{}", expected.model)), "{cell:?}");
        if cell.command != Command::Print {
            assert_eq!(row.policy.as_deref(), Some(expected.policy), "{cell:?}");
        }
        assert_eq!(row.is_print_run, cell.command == Command::Print, "{cell:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.signal(Signal::KILL);
        }
    }
}

fn path_of(directory: &Path, place: Place) -> PathBuf {
    directory.canonicalize().expect("a directory").join(if place == Place::Same { "same" } else { "other" })
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for is_first in STARTS {
        for beside in BESIDES {
            for source in SOURCES {
                for place in PLACES {
                    cells.extend(COMMANDS.map(|command| Cell { is_first, source, beside, place, command }));
                }
            }
        }
    }
    cells
}

#[test]
fn a_conversation_begins_with_what_its_own_start_says_and_gets_its_own_text() {
    let cells = cells();
    assert_eq!(cells.len(), 240);
    let stride = if std::env::var_os(ALL).is_some() { 1 } else { STRIDE };
    for beside in BESIDES {
        let mut later = None;
        let chosen = cells.iter().enumerate().filter(|(at, _)| at % stride == 0).map(|(_, cell)| *cell);
        for cell in chosen.filter(|cell| cell.beside == beside) {
            if cell.is_first {
                World::new(true, beside).run(cell);
            } else {
                later.get_or_insert_with(|| World::new(false, beside)).run(cell);
            }
        }
    }
}
