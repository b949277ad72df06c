//! Every command, typed in every state of an agent: what becomes of it is what the table of commands says.

use polylogue::config::{Policy, ProviderEntry, Thinking};
use polylogue::{ArchiveAct, Change, HistoryEdit, MailAct, Setting, Turn};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::commands::{COMMANDS, CommandSpec, WhenBusy, find};
use crate::support::internals::{Probe, State, Wait};

/// A line, and how one sees that it was carried out at once.
struct Row {
    line: &'static str,
    happened: fn(&mut Harness) -> bool,
}

const fn row(line: &'static str, happened: fn(&mut Harness) -> bool) -> Row {
    Row { line, happened }
}

fn shows(app: &mut Harness, expected: &str) -> bool {
    app.screen_text().contains(expected)
}

fn logged(app: &Harness, kind: &str) -> usize {
    app.kinds(app.n("first")).iter().filter(|known| **known == kind).count()
}

/// One row for each command: a command without one fails the first test below. `/exit` has none, see the last one.
const ROWS: &[Row] = &[
    row("/fork --name kid", |app| shows(app, "─ kid ↑")),
    row("/new --name fresh", |app| app.repl.roster().find("fresh").one().is_some()),
    row("/tell other hello", |app| shows(app, "told other")),
    row("/switch other", |app| shows(app, "─ other ")),
    row("/agents", |app| shows(app, "first: hello")),
    row("/inbox", |app| shows(app, "── inbox ─")),
    row("/wall", |app| shows(app, "── wall ─")),
    row("/ask other compare it", |app| shows(app, "── compare ─ ")),
    row("/compare", |app| shows(app, "nothing to compare")),
    row("/timeline", |app| shows(app, "─ timeline ─")),
    row("/search word", |app| shows(app, "── search ─")),
    row("/setup", |app| shows(app, "── set up a model ─")),
    row("/resume", |app| shows(app, "── resume ─")),
    row("/name first", |app| app.agent(0).identity.name.as_deref() == Some("first")),
    row("/kill other", |app| app.repl.roster().len() == 1),
    row("/archive other", |app| app.repl.roster().len() == 1 || shows(app, "other is busy: stop it first")),
    row("/delete gone", |app| shows(app, "gone deleted")),
    row("/unarchive gone", |app| app.repl.roster().find("gone").one().is_some()),
    #[cfg(feature = "coordinator")]
    row("/team hello", |app| app.repl.roster().find("agent-1").one().is_some()),
    #[cfg(feature = "coordinator")]
    row("/review", |app| shows(app, "comparing the working tree")),
    row("/env chat", |app| app.repl.roster().len() == 3),
    row("/tools", |app| shows(app, "asks first")),
    row("/hooks", |app| shows(app, "no hooks")),
    row("/skills", |app| shows(app, "no skills")),
    row("/skill x", |app| shows(app, "no skill \"x\"")),
    row("/approval plan", |app| app.agent(0).policy == Policy::Plan),
    row("/rules", |app| shows(app, "ask    bash(*)  (configuration)")),
    row("/interrupt", |app| app.state(0) == State::Idle),
    row("/retry", |app| app.state(0) != State::Idle || shows(app, "nothing to try again")),
    row("/stop", |app| app.state(0) == State::Idle),
    row("/limit requests 5", |app| shows(app, "the limit `requests` is set")),
    row("/mark there", |app| logged(app, "mark") == 2),
    row("/rewind here", |app| logged(app, "rewind") == 1),
    row("/undo", |app| {
        shows(app, "no tool of this agent has changed files") || shows(app, "is busy: wait, or press Esc")
    }),
    row("/diff", |app| shows(app, "has changed a file")),
    row("/land other", |app| shows(app, "does not work in a git worktree")),
    row("/done make test", |app| app.agent(0).done.as_deref() == Some("make test")),
    row("/clear", |app| shows(app, "- cleared")),
    row("/compact", |app| shows(app, "nothing to compact") || shows(app, "compacting the older")),
    row("/slice 0:1", |app| app.repl.roster().len() == 3),
    row("/model far/one", |app| app.agent(0).inputs.endpoint.full_name() == "far/one"),
    row("/set thinking low", |app| app.agent(0).inputs.thinking == Thinking::Low),
    row("/thinking high", |app| app.agent(0).inputs.thinking == Thinking::High),
    row("/system be brief", |app| &*app.agent(0).inputs.system == "be brief"),
    row("/init", |app| logged(app, "user") == 2),
    row("/queue", |app| shows(app, "nothing is queued") || shows(app, "1   queued text")),
    row("/usage", |app| shows(app, "all agents")),
    row("/raw", |app| app.agent(0).view.scrollback.is_raw()),
    row("/copy", |app| shows(app, "copied ")),
    row("/export md out.md", |app| app.directory().join("out.md").exists()),
    row("/send other some text", |app| shows(app, "sent to other")),
    row("/check-mail", |app| shows(app, "1 message, 0 unread")),
    row("/read-mail 1", |app| shows(app, "message 1 from other")),
    row("/filter-mail --from other", |app| shows(app, "1 message, 0 unread")),
    row("/delete-mail 1", |app| shows(app, "message deleted")),
    row("/help", |app| shows(app, "search help")),
    row("/sessions", |app| shows(app, "> terminal 1  100x60  for ")),
    row("/detach", |app| shows(app, "this chat ends with its terminal")),
];

/// A state of the agent on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Nothing,
    WaitsForSlot,
    ProviderPauses,
    WaitsForKey,
    Streams,
    WaitsForRetry,
    Asks,
    RunsTool,
    WaitsForMail,
    HasParkedFork,
    QueueWaits,
    StreamsBeforeQueue,
}

const STATES: [Activity; 12] = [
    Activity::Nothing,
    Activity::WaitsForSlot,
    Activity::ProviderPauses,
    Activity::WaitsForKey,
    Activity::Streams,
    Activity::WaitsForRetry,
    Activity::Asks,
    Activity::RunsTool,
    Activity::WaitsForMail,
    Activity::HasParkedFork,
    Activity::QueueWaits,
    Activity::StreamsBeforeQueue,
];

const BASH: &str = "%tool bash {\"command\":\"sleep 60\"}";
const STREAM: &str = "some words\n%hang";

impl Activity {
    /// A text entered now, or a command that queues, has to wait.
    fn is_occupied(self) -> bool {
        self != Self::Nothing
    }

    fn has_tools(self) -> bool {
        matches!(self, Self::Asks | Self::RunsTool | Self::WaitsForMail | Self::HasParkedFork)
    }

    /// The agent `first`, with a reply, a mark and mail that was read; and a child of it.
    fn app(self) -> Harness {
        let far = ProviderEntry {
            name: "far".into(),
            kind: "openai".into(),
            base_url: "http://far.invalid/v1".into(),
            models: vec![("one".into(), Default::default())],
            ..ProviderEntry::default()
        };
        // Its key is printed by a command that takes its time.
        let slow = ProviderEntry { name: "slow".into(), key_command: Some("sleep 60".into()), ..far.clone() };
        let mut app = Harness::new(Plan {
            size: Some((100, 60)),
            real_time: self == Self::RunsTool,
            working_limit: usize::from(self == Self::WaitsForSlot),
            providers: vec![far, slow],
            ..Plan::default()
        });
        app.ask(0, Change::Setting(Setting::Name(Some("first".into()))));
        app.say(0, "hello");
        app.turn_until_idle();
        app.ask(0, Change::EditHistory(HistoryEdit::Mark("here".into())));
        app.fork_named(0, "gone");
        let gone = app.id(1);
        app.ask(0, Change::Archive(ArchiveAct::Archive(gone)));
        app.fork_named(0, "other");
        let first = app.id(0);
        app.ask(1, Change::Mail(MailAct::Send { to: first, body: "a word".into() }));
        app.ask(0, Change::Mail(MailAct::Read(None)));
        self.reach(&mut app);
        app
    }

    fn reach(self, app: &mut Harness) {
        match self {
            Self::Nothing => {}
            Self::WaitsForSlot => {
                app.say(1, "%hang");
                app.turn();
                app.say(0, "in line");
                assert!(matches!(app.agent(0).wait(), Wait::Slot));
            }
            Self::ProviderPauses => {
                app.say(1, "%fail 429 retry-after=600");
                app.turn_until("a pause", |app| matches!(app.agent(1).wait(), Wait::Retry { .. }));
                app.say(0, "paused");
                app.turn();
                assert!(matches!(app.agent(0).wait(), Wait::Slot));
            }
            Self::WaitsForKey => {
                app.ask(0, Change::Setting(Setting::Model("slow/one".into())));
                app.say(0, "locked out");
                app.turn_until("the command", |app| matches!(app.agent(0).wait(), Wait::Key));
            }
            Self::Streams | Self::StreamsBeforeQueue | Self::QueueWaits => self.stream(app),
            Self::WaitsForRetry => {
                app.say(0, "%fail 429 retry-after=600");
                app.turn_until("a retry", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
            }
            Self::Asks | Self::HasParkedFork => {
                app.say(0, BASH);
                app.turn_until_asked(0);
                if self == Self::HasParkedFork {
                    app.enter("/fork --include-current --name parked");
                }
            }
            Self::RunsTool => {
                app.say(0, BASH);
                app.answer(0, true);
                assert!(app.agent(0).has_live_tool());
            }
            Self::WaitsForMail => {
                app.say(0, "%tool wait {}");
                app.turn_until("the wait", |app| app.state(0) == State::ExecutingTool);
                app.turn();
                assert_eq!(app.state(0), State::ExecutingTool);
            }
        }
    }

    /// A reply streams, perhaps with a text in the queue, or the text waits after an interrupt.
    fn stream(self, app: &mut Harness) {
        app.say(0, STREAM);
        app.turn_until("the text", |app| !app.agent(0).partial_text().is_empty());
        if self != Self::Streams {
            app.say(0, "queued text\n%hang");
        }
        if self == Self::QueueWaits {
            app.ask(0, Change::Interrupt);
            assert_eq!((app.state(0), app.agent(0).queue.len()), (State::Idle, 1));
        }
    }
}

/// Types the line, and looks whether what came of it is what the table says.
fn look(activity: Activity, spec: &CommandSpec, row: &Row) {
    let mut app = activity.app();
    let queued = app.agent(0).queue.len();
    assert_eq!(app.enter_and_confirm(row.line), Turn::Continue);
    let what = format!("{} while the agent {activity:?}", row.line);
    match spec.busy {
        WhenBusy::Queues if activity.is_occupied() => {
            let last = app.agent(0).queue.back().cloned().unwrap_or_else(|| panic!("{what}: nothing is queued"));
            assert_eq!((last.text.as_str(), last.is_command), (row.line, true), "{what}");
            let stored = app.repl.store().queued(app.id(0)).expect("a queue");
            assert_eq!(stored.last().map(|row| (row.id, row.text.as_str())), Some((last.id, row.line)), "{what}");
            assert!(shows(&mut app, &format!("{}: queued at position ", row.line)), "{}", app.screen_text());
            assert_eq!((logged(&app, "mark"), logged(&app, "rewind")), (1, 0), "{what}");
        }
        WhenBusy::Parks if activity == Activity::HasParkedFork => {
            assert!(shows(&mut app, "already in progress"), "{what}\n{}", app.screen_text());
            assert_eq!(app.draft(0).text(), row.line, "{what}");
        }
        WhenBusy::Parks if activity.has_tools() => {
            assert!(shows(&mut app, "waits until the tools are done"), "{what}\n{}", app.screen_text());
            assert_eq!((app.repl.roster().len(), app.agent(0).queue.len()), (2, queued), "{what}");
        }
        // It sends a message.
        _ if spec.name == "init" && activity.is_occupied() => {
            let last = app.agent(0).queue.back().unwrap_or_else(|| panic!("{what}: nothing is queued"));
            assert!(last.text.starts_with("Write an AGENTS.md"), "{what}: {}", last.text);
        }
        _ => {
            assert_eq!(app.agent(0).queue.len(), queued, "{what}");
            app.turn_until(&what, row.happened);
        }
    }
}

fn look_at_all(activity: Activity) {
    for row in ROWS {
        let name = row.line[1..].split(' ').next().unwrap_or_default();
        look(activity, find(name).expect("a command"), row);
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
fn an_idle_agent_runs_all_commands_at_once() {
    look_at_all(Activity::Nothing);
}

#[test]
fn commands_that_change_the_context_are_queued_during_a_request_and_others_run_at_once() {
    for activity in [Activity::WaitsForSlot, Activity::Streams, Activity::WaitsForRetry] {
        look_at_all(activity);
    }
}

#[test]
fn commands_are_queued_likewise_while_waiting_for_a_provider_or_a_key() {
    for activity in [Activity::ProviderPauses, Activity::WaitsForKey] {
        look_at_all(activity);
    }
}

#[test]
fn what_cannot_be_done_beside_tools_waits_for_them_or_for_the_turn() {
    for activity in [Activity::Asks, Activity::RunsTool, Activity::WaitsForMail, Activity::HasParkedFork] {
        look_at_all(activity);
    }
}

#[test]
fn commands_that_change_the_context_are_queued_behind_others() {
    for activity in [Activity::QueueWaits, Activity::StreamsBeforeQueue] {
        look_at_all(activity);
    }
}

#[test]
fn exit_waits_for_nothing_and_asks_where_an_agent_is_busy() {
    for activity in STATES {
        let mut app = activity.app();
        let is_busy = !app.repl.roster().busy().is_empty();
        if is_busy {
            assert_eq!(app.enter("/exit"), Turn::Continue, "{activity:?}");
            assert!(app.screen_text().contains("press Enter again to exit and end this"), "{activity:?}");
            app.type_bytes(b"\x15");
        }
        assert_eq!(app.enter_and_confirm("/exit"), Turn::Exit, "{activity:?}");
    }
}

#[test]
fn escape_waits_for_nothing_in_any_state() {
    for activity in STATES {
        let mut app = activity.app();
        app.escape();
        app.turn_until(&format!("idle after {activity:?}"), |app| app.state(0) == State::Idle);
    }
}
