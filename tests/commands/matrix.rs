//! Every command, typed in every state of an agent: what becomes of it is what the table of commands says.

use polylogue::agent::{State, Wait};
use polylogue::commands::{COMMANDS, CommandSpec, WhenBusy, find};
use polylogue::domain::endpoint::ProviderEntry;
use polylogue::domain::flow::Change;
use polylogue::domain::thinking::Thinking;
use polylogue::repl::Turn;

use crate::support::harness::{Harness, Plan};

/// A line, and how one sees that it was carried out at once.
struct Row {
    line: &'static str,
    happened: fn(&mut Harness) -> bool,
}

const fn row(line: &'static str, happened: fn(&mut Harness) -> bool) -> Row {
    Row { line, happened }
}

fn shows(house: &mut Harness, words: &str) -> bool {
    house.screen_text().contains(words)
}

fn logged(house: &Harness, kind: &str) -> usize {
    house.kinds(house.n("first")).iter().filter(|known| **known == kind).count()
}

/// One row for each command: a command without one fails the first test below. `/exit` has none, see the last one.
const ROWS: &[Row] = &[
    row("/fork --name kid", |house| shows(house, "── kid")),
    row("/switch other", |house| shows(house, "── other")),
    row("/agents", |house| shows(house, "tokens  echo/echo")),
    row("/name first", |house| house.agent(0).identity.name.as_deref() == Some("first")),
    row("/kill other", |house| house.repl.roster().len() == 1),
    // Where the coordinator was left out, that is said at once.
    row("/team hello", |house| house.repl.roster().find("agent-1").is_ok() || shows(house, "--features coordinator")),
    row("/env chat", |house| house.repl.roster().len() == 3),
    row("/tools", |house| shows(house, "asks first")),
    row("/interrupt", |house| house.state(0) == State::Idle),
    row("/mark there", |house| logged(house, "mark") == 2),
    row("/rewind here", |house| logged(house, "rewind") == 1),
    row("/clear", |house| shows(house, "- cleared")),
    row("/slice 0:1", |house| house.repl.roster().len() == 3),
    row("/model far/one", |house| house.agent(0).talk.endpoint.full_name() == "far/one"),
    row("/thinking high", |house| house.agent(0).talk.thinking == Thinking::High),
    row("/system be brief", |house| &*house.agent(0).talk.system == "be brief"),
    row("/queue", |house| shows(house, "nothing is queued") || shows(house, "1   queued words")),
    row("/usage", |house| shows(house, "all agents")),
    row("/copy", |house| shows(house, "characters are copied")),
    row("/export md out.md", |house| house.directory().join("out.md").exists()),
    row("/send other a letter", |house| shows(house, "in other's box")),
    row("/check-mail", |house| shows(house, "1 letter, 0 unread")),
    row("/read-mail 1", |house| shows(house, "letter 1 from other")),
    row("/filter-mail --from other", |house| shows(house, "1 letter, 0 unread")),
    row("/delete-mail 1", |house| shows(house, "thrown away")),
    row("/help", |house| shows(house, "/help")),
    row("/sessions", |house| shows(house, "> terminal 1  100x60  for ")),
    row("/detach", |house| shows(house, "this chat runs in its own terminal")),
];

/// A state of the agent on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    WaitsForPlace,
    ProviderPauses,
    WaitsForKey,
    Streams,
    WaitsForRetry,
    Asks,
    RunsTool,
    WaitsForLetters,
    HasParkedFork,
    QueueWaits,
    StreamsBeforeQueue,
}

const STATES: [Doing; 12] = [
    Doing::Nothing,
    Doing::WaitsForPlace,
    Doing::ProviderPauses,
    Doing::WaitsForKey,
    Doing::Streams,
    Doing::WaitsForRetry,
    Doing::Asks,
    Doing::RunsTool,
    Doing::WaitsForLetters,
    Doing::HasParkedFork,
    Doing::QueueWaits,
    Doing::StreamsBeforeQueue,
];

const BASH: &str = "!tool bash {\"command\":\"sleep 60\"}";
const STREAM: &str = "some words\n!hang";

impl Doing {
    /// A text entered now, or a command that queues, has to wait.
    fn is_occupied(self) -> bool {
        self != Self::Nothing
    }

    fn has_tools(self) -> bool {
        matches!(self, Self::Asks | Self::RunsTool | Self::WaitsForLetters | Self::HasParkedFork)
    }

    /// The agent `first`, with a reply, a mark and a letter that was read; and a child of it.
    fn house(self) -> Harness {
        let far = ProviderEntry {
            name: "far".into(),
            kind: "openai".into(),
            base_url: "http://far.invalid/v1".into(),
            models: vec![("one".into(), Default::default())],
            ..ProviderEntry::default()
        };
        // Its key is printed by a command that takes its time.
        let slow = ProviderEntry { name: "slow".into(), key_command: Some("sleep 60".into()), ..far.clone() };
        let mut house = Harness::new(Plan {
            size: Some((100, 60)),
            real_time: self == Self::RunsTool,
            working_limit: usize::from(self == Self::WaitsForPlace),
            providers: vec![far, slow],
            ..Plan::default()
        });
        house.ask(0, Change::Name(Some("first".into())));
        house.say(0, "hello");
        house.turn_until_idle();
        house.ask(0, Change::Mark("here".into()));
        house.fork_named(0, "other");
        let first = house.id(0);
        house.ask(1, Change::Send { to: first, body: "a word".into() });
        house.ask(0, Change::ReadMail(None));
        self.reach(&mut house);
        house
    }

    fn reach(self, house: &mut Harness) {
        match self {
            Self::Nothing => {}
            Self::WaitsForPlace => {
                house.say(1, "!hang");
                house.turn();
                house.say(0, "in line");
                assert!(matches!(house.agent(0).wait(), Wait::Place));
            }
            Self::ProviderPauses => {
                house.say(1, "!fail 429 retry-after=600");
                house.turn_until("a pause", |house| matches!(house.agent(1).wait(), Wait::Retry { .. }));
                house.say(0, "paused");
                house.turn();
                assert!(matches!(house.agent(0).wait(), Wait::Place));
            }
            Self::WaitsForKey => {
                house.ask(0, Change::Model("slow/one".into()));
                house.say(0, "locked out");
                house.turn_until("the command", |house| matches!(house.agent(0).wait(), Wait::Key));
            }
            Self::Streams | Self::StreamsBeforeQueue | Self::QueueWaits => {
                house.say(0, STREAM);
                house.turn_until("the words", |house| !house.agent(0).partial_text().is_empty());
                if self != Self::Streams {
                    house.say(0, "queued words\n!hang");
                }
                if self == Self::QueueWaits {
                    house.ask(0, Change::Interrupt);
                    assert_eq!((house.state(0), house.agent(0).queue.len()), (State::Idle, 1));
                }
            }
            Self::WaitsForRetry => {
                house.say(0, "!fail 429 retry-after=600");
                house.turn_until("a retry", |house| matches!(house.agent(0).wait(), Wait::Retry { .. }));
            }
            Self::Asks | Self::HasParkedFork => {
                house.say(0, BASH);
                house.turn_until_asked(0);
                if self == Self::HasParkedFork {
                    house.enter("/fork --name parked");
                }
            }
            Self::RunsTool => {
                house.say(0, BASH);
                house.answer(0, true);
                assert!(house.agent(0).has_live_tool());
            }
            Self::WaitsForLetters => {
                house.say(0, "!tool wait {}");
                house.turn_until("the wait", |house| house.state(0) == State::ExecutingTool);
                house.turn();
                assert_eq!(house.state(0), State::ExecutingTool);
            }
        }
    }
}

/// Types the line, and looks whether what came of it is what the table says.
fn look(doing: Doing, spec: &CommandSpec, row: &Row) {
    let mut house = doing.house();
    let queued = house.agent(0).queue.len();
    assert_eq!(house.enter(row.line), Turn::Continue);
    let what = format!("{} while the agent {doing:?}", row.line);
    match spec.busy {
        WhenBusy::Queues if doing.is_occupied() => {
            let last = house.agent(0).queue.back().cloned().unwrap_or_else(|| panic!("{what}: nothing is queued"));
            assert_eq!((last.text.as_str(), last.is_command), (row.line, true), "{what}");
            let stored = house.repl.store().queued(house.id(0)).expect("a queue");
            assert_eq!(stored.last(), Some(&last), "{what}");
            assert!(shows(&mut house, &format!("{} waits its turn: queued as ", row.line)), "{}", house.screen_text());
            assert_eq!((logged(&house, "mark"), logged(&house, "rewind")), (1, 0), "{what}");
        }
        WhenBusy::Parks if doing == Doing::HasParkedFork => {
            assert!(shows(&mut house, "already in progress"), "{what}\n{}", house.screen_text());
            assert_eq!(house.agent(0).view.draft.text(), row.line, "{what}");
        }
        WhenBusy::Parks if doing.has_tools() => {
            assert!(shows(&mut house, "waits until the tools are done"), "{what}\n{}", house.screen_text());
            assert_eq!((house.repl.roster().len(), house.agent(0).queue.len()), (2, queued), "{what}");
        }
        _ => {
            assert_eq!(house.agent(0).queue.len(), queued, "{what}");
            house.turn_until(&what, row.happened);
        }
    }
}

fn look_at_all(doing: Doing) {
    for row in ROWS {
        let name = row.line[1..].split(' ').next().unwrap_or_default();
        look(doing, find(name).expect("a command"), row);
    }
}

#[test]
fn every_command_has_a_row_in_this_matrix() {
    let rows = ROWS.iter().map(|row| row.line[1..].split(' ').next().unwrap_or_default());
    let mut named: Vec<&str> = rows.chain(["exit"]).collect();
    let mut known: Vec<&str> = COMMANDS.iter().map(|spec| spec.name).collect();
    named.sort_unstable();
    known.sort_unstable();
    assert_eq!(named, known);
}

#[test]
fn of_an_idle_agent_all_happens_at_once() {
    look_at_all(Doing::Nothing);
}

#[test]
fn what_changes_the_past_waits_while_a_request_is_wanted_and_all_else_happens_at_once() {
    for doing in [Doing::WaitsForPlace, Doing::Streams, Doing::WaitsForRetry] {
        look_at_all(doing);
    }
}

#[test]
fn the_same_while_a_provider_pauses_or_a_key_is_printed() {
    for doing in [Doing::ProviderPauses, Doing::WaitsForKey] {
        look_at_all(doing);
    }
}

#[test]
fn a_fork_waits_for_tools_and_what_changes_the_past_for_the_turn() {
    for doing in [Doing::Asks, Doing::RunsTool, Doing::WaitsForLetters, Doing::HasParkedFork] {
        look_at_all(doing);
    }
}

#[test]
fn what_changes_the_past_stands_behind_a_queue_and_all_else_does_not() {
    for doing in [Doing::QueueWaits, Doing::StreamsBeforeQueue] {
        look_at_all(doing);
    }
}

#[test]
fn exit_waits_for_nothing_in_any_state() {
    for doing in STATES {
        let mut house = doing.house();
        assert_eq!(house.enter("/exit"), Turn::Exit, "{doing:?}");
    }
}

#[test]
fn escape_waits_for_nothing_in_any_state() {
    for doing in STATES {
        let mut house = doing.house();
        house.escape();
        house.turn_until(&format!("idle after {doing:?}"), |house| house.state(0) == State::Idle);
    }
}
