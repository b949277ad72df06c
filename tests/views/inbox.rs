//! The inbox: what needs the person, from all agents, answered without going there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use polylogue::config::Rules;
use polylogue::{AgentId, Change, Decision};

use crate::support::attached::{ATTACHED, AttachedTerminal, WATCHING};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Moment, Probe, State};
use crate::support::random::Random;
use crate::support::scene::{app_with_agents, assert_shows};

const ALT_A: &[u8] = b"\x1ba";
const SETTLES: Duration = Duration::from_millis(300);

fn asks(app: &mut Harness, n: usize, command: &str) {
    app.say(n, &format!("%tool bash {{\"command\":\"{command}\"}}"));
    app.turn_until_asked(n);
}

/// Agents 1, 2 and 3 ask, in this order; agent 0 is on the screen.
fn three_ask() -> Harness {
    let mut app = app_with_agents(4, Plan { real_time: true, ..Plan::default() });
    for (n, command) in [(1, "touch one"), (2, "touch two"), (3, "touch three")] {
        asks(&mut app, n, command);
    }
    app
}

#[test]
fn questions_of_all_agents_are_answered_in_place_one_after_the_other() {
    let mut app = three_ask();
    app.type_bytes(ALT_A);
    assert_shows(&mut app, "── inbox ─ 3 ask ─");
    assert_shows(&mut app, "Run this? bash: touch one");
    app.press_at_question(b"y");
    app.turn_until("the next question", |app| app.screen_text().contains("Run this? bash: touch two"));
    app.press_at_question(b"n");
    app.turn_until("the last question", |app| app.screen_text().contains("Run this? bash: touch three"));
    app.press_at_question(b"y");
    app.turn_until_idle();
    let ran = ["one", "two", "three"].map(|name| app.directory().join(name).exists());
    assert_eq!((ran, app.focus()), ([true, false, true], 0));
}

#[test]
fn a_key_that_comes_before_the_question_was_on_the_screen_for_300_ms_answers_nothing() {
    let mut app = app_with_agents(3, Plan::default());
    app.say(1, "%tool bash {\"command\":\"touch one\"}");
    app.turn_until_asked(1);
    app.say(2, "%tool bash {\"command\":\"touch two\"}");
    app.turn_until_asked(2);
    app.type_bytes(b"\x1bay");
    app.turn();
    app.type_bytes(b"y");
    assert_eq!(app.state(1), State::AwaitingApproval);
    app.advance(SETTLES);
    app.type_bytes(b"nnn");
    app.turn();
    assert_eq!(app.state(2), State::AwaitingApproval, "only the question that was shown is answered");
    assert_eq!(app.tool_results(1).len(), 1);
}

#[test]
fn enter_goes_to_the_agent_and_escape_returns_to_where_one_was() {
    let mut app = three_ask();
    app.type_bytes(b"a draft");
    app.enter("\x15/inbox");
    app.type_bytes(b"\x1b[B");
    assert_shows(&mut app, "Run this? bash: touch two");
    app.type_bytes(b"\r");
    assert_eq!(app.focus(), 2);
    assert_shows(&mut app, "Run this? bash: touch two");
    assert!(!app.screen_text().contains("inbox ─"));
    app.type_bytes(ALT_A);
    assert_shows(&mut app, "── inbox ─");
    app.escape();
    assert!(!app.screen_text().contains("inbox ─"));
    assert_eq!(app.focus(), 2);
}

#[test]
fn several_questions_are_answered_at_once_only_as_listed() {
    let mut app = app_with_agents(5, Plan { real_time: true, rules: Rules::default(), ..Plan::default() });
    for (n, command) in [(1, "touch same"), (2, "touch same"), (3, "touch other")] {
        asks(&mut app, n, command);
    }
    app.type_bytes(ALT_A);
    app.press_at_question(b"A");
    assert_shows(&mut app, "3 questions would be answered:");
    for shown in ["agent 1: bash: touch same", "agent 2: bash: touch same", "agent 3: bash: touch other"] {
        assert_shows(&mut app, shown);
    }
    // One more does not join the list that is shown.
    asks(&mut app, 4, "touch same");
    let shown = app.clock.now();
    app.turn_until("keys answer", |app| app.clock.now() > shown + SETTLES);
    app.turn();
    app.type_bytes(b"y");
    app.turn_until("all three ran", |app| [1, 2, 3].iter().all(|n| app.state(*n) == State::Idle));
    assert_eq!(app.state(4), State::AwaitingApproval);
    assert_eq!([1, 2, 3, 4].map(|n| app.tool_results(n).len()), [1, 1, 1, 0]);
}

#[test]
fn questions_that_fill_more_than_a_screen_are_answered_together_only_when_all_were_shown() {
    let ten_ask = || {
        let mut app = app_with_agents(15, Plan { real_time: true, ..Plan::default() });
        (1..15).for_each(|n| asks(&mut app, n, &format!("touch made-{n}; echo {n} >> made-{n}")));
        app.type_bytes(ALT_A);
        app.press_at_question(b"A");
        assert_shows(&mut app, "14 questions would be answered:");
        app
    };
    let settle = |app: &mut Harness| {
        let shown = app.clock.now();
        app.turn_until("keys answer", |app| app.clock.now() > shown + SETTLES);
        app.turn();
    };
    let made = |app: &Harness| (1..15).filter(|n| app.directory().join(format!("made-{n}")).exists()).count();

    let mut app = ten_ask();
    settle(&mut app);
    assert_shows(&mut app, "y read on");
    assert!(!app.screen_text().contains("made-14"), "{}", app.screen_text());
    app.type_bytes(b"n");
    while !app.screen_text().contains("y allow all of these") {
        assert_eq!((1..15).filter(|n| app.state(*n) == State::AwaitingApproval).count(), 14);
        app.type_bytes(b"y");
        settle(&mut app);
    }
    assert_shows(&mut app, "made-14");
    app.type_bytes(b"y");
    app.turn_until("all ran", |app| (1..15).all(|n| app.state(n) == State::Idle));
    assert_eq!(made(&app), 14);

    let mut app = ten_ask();
    settle(&mut app);
    app.type_bytes(b"Y");
    app.turn_until("all ran", |app| (1..15).all(|n| app.state(n) == State::Idle));
    assert_eq!(made(&app), 14);
    let is_noted = |n: &usize| app.tool_results(*n)[0].content.contains("allowed this call without reading all of it");
    assert!((1..15).collect::<Vec<_>>().iter().all(is_noted));
}

#[test]
fn what_was_marked_with_space_is_refused_together() {
    let mut app = three_ask();
    app.type_bytes(ALT_A);
    app.turn();
    app.type_bytes(b" ");
    app.type_bytes(b"\x1b[B ");
    app.type_bytes(b"A");
    assert_shows(&mut app, "2 questions would be answered:");
    let shown = app.clock.now();
    app.turn_until("keys answer", |app| app.clock.now() > shown + SETTLES);
    app.turn();
    app.type_bytes(b"n");
    app.turn_until("both were refused", |app| [1, 3].iter().all(|n| app.state(*n) == State::Idle));
    assert_eq!(app.state(2), State::AwaitingApproval);
}

#[test]
fn a_refusal_has_a_reason_and_a_call_is_edited_before_it_runs() {
    let mut app = three_ask();
    app.type_bytes(ALT_A);
    app.press_at_question(b"r");
    assert_shows(&mut app, "type the reason");
    app.type_bytes(b"not here\r");
    assert!(app.tool_results(1)[0].content.contains("not here"), "{:?}", app.tool_results(1));
    assert_shows(&mut app, "Run this? bash: touch two");
    app.press_at_question(b"e");
    app.type_bytes(b"-edited\r");
    app.turn_until("the edited call", |app| app.screen_text().contains("Run this? bash: touch two-edited"));
    app.press_at_question(b"y");
    app.turn_until("it ran", |app| app.state(2) == State::Idle);
    assert!(app.directory().join("two-edited").exists() && !app.directory().join("two").exists());
    assert_eq!(app.draft(0).text(), "");
}

#[test]
fn finished_and_failed_agents_are_listed_until_they_were_shown() {
    let mut app = app_with_agents(3, Plan::default());
    app.say(1, "the work is done");
    app.say(2, "%fail 401 the key is wrong");
    app.turn_until_idle();
    app.type_bytes(ALT_A);
    let screen = app.screen_text();
    let (failed, finished) = (screen.find("─ failed ─"), screen.find("─ finished, not seen ─"));
    assert!(failed.is_some() && failed < finished, "{screen}");
    assert_shows(&mut app, "the work is done");
    app.type_bytes(b"\r");
    assert_eq!(app.focus(), 2);
    app.type_bytes(ALT_A);
    assert!(!app.screen_text().contains("─ failed ─"));
    app.type_bytes(b"\r");
    assert_eq!(app.focus(), 1);
    app.type_bytes(ALT_A);
    assert_shows(&mut app, "no agent needs you");
}

#[test]
fn a_message_is_written_to_the_marked_agent_and_kept_if_it_is_not_sent() {
    let mut app = app_with_agents(2, Plan::default());
    app.say(1, "first");
    app.turn_until_idle();
    app.type_bytes(ALT_A);
    app.type_bytes(b"iand then");
    assert_shows(&mut app, "to agent 1: Enter sends");
    app.escape();
    assert_shows(&mut app, "── inbox ─");
    app.type_bytes(b"i this\r");
    app.turn_until_idle();
    assert_eq!(app.replies(1), ["first", "and then this"]);
    assert_eq!((app.focus(), app.replies(0).len()), (0, 0));
}

#[test]
fn it_is_silent_while_nothing_changes_and_gone_without_a_trace() {
    let mut app = app_with_agents(3, Plan::default());
    app.say(1, "hello");
    app.turn_until_idle();
    let before = app.screen_text();
    app.type_bytes(ALT_A);
    let sent = app.sent.len();
    for _ in 0..5 {
        app.turn();
    }
    assert_eq!(app.sent.len(), sent, "an unchanged list is not drawn again");
    app.advance(Duration::from_secs(1));
    assert!(app.sent.len() > sent, "its ages go on");
    app.type_bytes(ALT_A);
    assert_eq!(app.screen_text(), before);
    assert_eq!(app.timeout().after, None);
}

#[test]
fn a_read_only_terminal_sees_it_and_answers_nothing() {
    let mut app = three_ask();
    let mut watcher = AttachedTerminal::new(&mut app, (80, 24), 0, WATCHING);
    watcher.type_bytes(&mut app, ALT_A);
    watcher.assert_sees(&mut app, "── inbox ─ 3 ask");
    watcher.assert_sees(&mut app, "answer at another terminal");
    let appeared = app.clock.now();
    app.turn_until("keys would answer", |app| app.clock.now() > appeared + SETTLES);
    watcher.type_bytes(&mut app, b"n");
    app.turn();
    assert_eq!(app.state(1), State::AwaitingApproval);
}

#[test]
fn two_terminals_in_the_inbox_answer_each_question_once() {
    let mut app = three_ask();
    let mut other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    app.type_bytes(ALT_A);
    other.type_bytes(&mut app, ALT_A);
    other.assert_sees(&mut app, "Run this? bash: touch one");
    app.press_at_question(b"n");
    other.assert_sees(&mut app, "Run this? bash: touch two");
    other.type_bytes(&mut app, b"n");
    assert_eq!(app.state(2), State::AwaitingApproval, "it has just appeared");
}

#[test]
fn what_was_read_is_marked_as_seen_and_a_question_cannot_be() {
    let mut app = app_with_agents(4, Plan::default());
    app.say(1, "the work is done");
    app.say(2, "%fail 401 the key is wrong");
    app.turn_until_idle();
    asks(&mut app, 3, "touch three");
    app.type_bytes(ALT_A);
    app.type_bytes(b"x");
    assert_shows(&mut app, "this agent asks: y allows, n refuses");
    app.type_bytes(b"\x1b[B");
    assert_shows(&mut app, "the provider rejected");
    app.type_bytes(b"x");
    assert_shows(&mut app, "1 failed");
    app.advance(SETTLES);
    app.type_bytes(b"x");
    assert_shows(&mut app, "── inbox ─ 1 ask ─ 1 finished");
    app.type_bytes(b"x");
    assert_shows(&mut app, "1 finished");
    app.advance(SETTLES);
    app.type_bytes(b"x");
    assert!(!app.screen_text().contains("finished"), "{}", app.screen_text());
    assert_eq!((app.state(3), app.focus()), (State::AwaitingApproval, 0));
}

/// The open questions with their commands, each of which has a number of its own.
fn open(app: &Harness) -> Vec<(AgentId, u64, String)> {
    let asking = app.repl.roster().iter().filter_map(|agent| Some((agent.id(), agent.question()?)));
    let command = |title: &str| title.split("touch ").nth(1).unwrap_or_default().to_owned();
    asking.map(|(id, asked)| (id, asked.number, command(&asked.question.title))).collect()
}

/// What keys would answer on this screen: the command of the question below the list, or those of the list for all.
fn answerable(screen: &str) -> Vec<String> {
    let below = screen.lines().skip(1).skip_while(|row| !row.starts_with("──")).skip(1);
    let asked = below.filter(|row| row.starts_with("Run this?") || row.starts_with("  agent "));
    asked.filter_map(|row| row.split("touch ").nth(1)).map(|command| command.trim().to_owned()).collect()
}

/// Since when the screen has shown each command that keys would answer now.
fn note_shown(app: &mut Harness, shown: &mut BTreeMap<String, Moment>) {
    let (now, at) = (answerable(&app.screen_text()), app.clock.now());
    shown.retain(|command, _| now.contains(command));
    for command in now {
        shown.entry(command).or_insert(at);
    }
}

/// Questions come and go, some right before a key, while a person answers, moves and marks.
fn answer_while_it_sorts(seed: u64) -> usize {
    const AGENTS: usize = 6;
    let mut random = Random(seed);
    let mut app = app_with_agents(AGENTS, Plan { rules: Rules::default(), ..Plan::default() });
    let (mut asked, mut answered) = (0, 0);
    let mut shown = BTreeMap::new();
    // What was on the screen for so long once may be refused at once when it is shown again after its rules.
    let mut read = BTreeSet::new();
    app.type_bytes(ALT_A);
    for _ in 0..150 {
        if let Some(idle) = (1..AGENTS).find(|n| app.state(*n) == State::Idle && random.below(2) == 0) {
            asked += 1;
            app.say(idle, &format!("%tool bash {{\"command\":\"touch q{asked:04}\"}}"));
        }
        note_shown(&mut app, &mut shown);
        let screen = app.screen_text();
        // Someone else answers between the frame and the key.
        let others = open(&app);
        if !others.is_empty() && random.below(3) == 0 {
            let (agent, question, _) = &others[random.below(others.len())];
            let change = Change::Answer { question: *question, decision: Decision::Deny(None) };
            app.repl.apply(*agent, change).expect("an answer");
        }
        let before = open(&app);
        let keys: [&[u8]; 8] = [b"n", b"n", b"y", b"j", b"k", b" ", b"A", b"\t"];
        let key = keys[random.below(keys.len())];
        app.terminal().input.extend_from_slice(key);
        while !app.terminal().input.is_empty() {
            app.turn();
        }
        let after = open(&app);
        let gone: Vec<_> = before.iter().filter(|question| !after.contains(question)).collect();
        answered += gone.len();
        let now = app.clock.now();
        read.extend(shown.iter().filter(|(_, since)| now >= **since + SETTLES).map(|(command, _)| command.clone()));
        for (.., command) in &gone {
            assert!(matches!(key, b"n" | b"y"), "seed {seed}: {command} was answered by {key:?}\n{screen}");
            assert!(shown.contains_key(command), "seed {seed}: {command} was answered at\n{screen}");
            assert!(read.contains(command), "seed {seed}: {command} was answered too soon by {key:?}\n{screen}");
        }
        note_shown(&mut app, &mut shown);
        app.advance(Duration::from_millis(random.below(500) as u64));
    }
    answered
}

#[test]
fn an_answer_never_reaches_a_question_that_was_not_on_the_screen() {
    let answered: usize = (1..=6).map(answer_while_it_sorts).sum();
    assert!(answered > 60, "{answered}");
}
