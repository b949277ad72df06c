//! What viewers read of the past and of changes of state: after a restart, of a child, and once for each change.

use polylogue::{Change, Chunk, Decision, ErrorKind, HistoryEdit, Position, SliceSpec};

use super::{all_chunks, all_of, as_texts, read_all};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;

/// The changes of state, in order.
fn states(app: &mut Harness, n: usize) -> Vec<String> {
    let all = all_chunks(app, n);
    as_texts(&all).into_iter().filter(|line| line.starts_with('[') && is_state(line)).collect()
}

fn is_state(line: &str) -> bool {
    ["[idle]", "[running]", "[awaiting_approval]", "[interrupted]", "[failed]", "[dead]"].contains(&line)
}

/// The conversation as a viewer reads it.
fn lines_of(app: &mut Harness, n: usize) -> Vec<String> {
    let all = all_chunks(app, n);
    as_texts(&all).into_iter().filter(|line| !line.starts_with('[')).collect()
}

#[test]
fn after_a_restart_the_store_fills_the_ring_and_an_old_position_is_the_beginning() {
    let mut app = Harness::new(Plan::default());
    app.say(0, "one");
    app.turn_until_idle();
    let viewer = app.repl.attach(app.id(0), None).unwrap();
    read_all(&mut app.repl, viewer);
    let old = app.repl.position(viewer).unwrap();
    let mut app = app.crash_and_restart();
    let (root, epoch) = (app.id(0), app.repl.epoch().to_owned());
    assert_ne!(epoch, old.epoch);
    app.say(0, "two");
    app.turn_until_idle();
    let expected = ["> one", "one", "> two", "two"];
    assert_eq!(lines_of(&mut app, 0), expected);
    let viewer = app.repl.attach(root, Some(&old)).unwrap();
    let seen = read_all(&mut app.repl, viewer);
    let texts: Vec<String> = as_texts(&seen.chunks).into_iter().filter(|line| !line.starts_with('[')).collect();
    assert_eq!((seen.missed, texts), (0, expected.map(str::to_owned).into()));
    assert!(seen.chunks.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
    let newest = Position { epoch, number: seen.chunks.last().unwrap().number };
    let viewer = app.repl.attach(root, Some(&newest)).unwrap();
    assert_eq!(read_all(&mut app.repl, viewer).chunks, seen.chunks[seen.chunks.len() - 1..]);
}

#[test]
fn a_viewer_from_now_on_does_not_read_the_past_and_a_later_one_still_gets_it() {
    let mut app = Harness::new(Plan::default());
    app.say(0, "one");
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    let root = app.id(0);
    app.say(0, "two");
    let viewer = app.repl.attach_to_last(root, 1).unwrap();
    let seen = read_all(&mut app.repl, viewer).chunks;
    assert_eq!(seen.len(), 1);
    app.turn_until_idle();
    let late = all_of(&mut app.repl, root);
    assert_eq!(as_texts(&late)[..2], ["> one", "one"]);
    let mine: Vec<_> = seen.into_iter().chain(read_all(&mut app.repl, viewer).chunks).collect();
    assert_eq!(late[late.len() - mine.len()..], mine);
}

#[test]
fn a_child_begins_with_the_past_that_it_has_inherited_and_no_more() {
    let mut app = Harness::new(Plan::default());
    app.say(0, "before");
    app.turn_until_idle();
    let child = app.fork_named(0, "child");
    app.say(0, "after");
    app.say(child, "its-own");
    app.turn_until_idle();
    let expected = ["> before", "before", "> its-own", "its-own"];
    assert_eq!(lines_of(&mut app, child), expected);
    app.ask(0, Change::EditHistory(HistoryEdit::Slice(SliceSpec::parse("-2:,inject:'put in'").unwrap())));
    let slice = app.repl.roster().len() - 1;
    assert_eq!(lines_of(&mut app, slice), ["> after", "after", "> put in"]);
    app.repl.create(Some("new"), None).unwrap();
    let new = app.n("new");
    assert_eq!(lines_of(&mut app, new), [""; 0]);
    let mut app = app.crash_and_restart();
    assert_eq!(lines_of(&mut app, child), expected);
    assert_eq!(lines_of(&mut app, slice), ["> after", "after", "> put in"]);
    app.say(new, "hello");
    app.turn_until_idle();
    assert_eq!(lines_of(&mut app, new), ["> hello", "hello"], "it knows nothing of its parent");
    let users = app.log(new).iter().filter(|message| message.body.kind() == "user").count();
    assert_eq!(users, 1);
}

#[test]
fn every_change_of_state_is_reported_once_and_when_it_is_true() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    for (line, expected) in [
        ("words", vec!["[running]", "[idle]"]),
        ("%tool bash {\"command\":\"true\"}", vec!["[running]", "[awaiting_approval]", "[running]", "[idle]"]),
        ("%fail 400 no", vec!["[running]", "[failed]"]),
    ] {
        let before = states(&mut app, 0).len();
        app.say(0, line);
        app.turn_until("its end", |app| {
            if let Some(number) = app.agent(0).question().map(|question| question.number) {
                let as_texts = states(app, 0);
                assert_eq!(as_texts.last().map(String::as_str), Some("[awaiting_approval]"));
                app.ask(0, Change::Answer { question: number, decision: Decision::Allow });
            }
            let status = app.repl.status(app.id(0)).unwrap();
            let last = states(app, 0).pop().unwrap();
            assert_eq!(last, format!("[{}]", status.name()));
            status.is_at_rest()
        });
        assert_eq!(states(&mut app, 0)[before..], expected, "{line}");
    }
    app.say(0, "%hang");
    app.turn();
    app.repl.interrupt(app.id(0)).unwrap();
    let cut = states(&mut app, 0);
    assert_eq!(cut[cut.len() - 2..], ["[running]", "[interrupted]"]);
    let all = all_chunks(&mut app, 0);
    app.repl.interrupt(app.id(0)).unwrap();
    app.turn();
    assert_eq!(all_chunks(&mut app, 0), all, "an interrupt while idle leaves nothing behind");
    app.say(0, "words");
    app.turn_until_idle();
    assert_eq!(states(&mut app, 0)[cut.len()..], ["[running]", "[idle]"]);
}

#[test]
fn only_an_agent_that_was_cut_by_a_crash_is_reported_as_interrupted() {
    let mut app = Harness::new(Plan::default());
    app.fork_named(0, "other");
    app.say(0, "words\n%hang");
    app.turn();
    let mut app = app.crash_and_restart();
    assert_eq!((states(&mut app, 0), states(&mut app, 1)), (vec!["[interrupted]".into()], vec![]));
    assert_eq!(app.repl.status(app.id(0)).unwrap().name(), "interrupted");
    app.say(0, "again");
    app.turn_until_idle();
    assert_eq!(states(&mut app, 0), ["[interrupted]", "[running]", "[idle]"]);
}

#[test]
fn a_full_queue_refuses_and_leaves_state_and_draft_alone() {
    let mut app = Harness::new(Plan::default());
    let root = app.id(0);
    app.say(0, "%hang");
    app.turn();
    for n in 0..1_000 {
        app.repl.send(root, &n.to_string()).expect("there is room");
    }
    let before = app.fingerprint(0);
    let refused = app.repl.send(root, "one too many").unwrap_err();
    assert_eq!((refused.kind, app.fingerprint(0)), (ErrorKind::Usage, before));
    assert!(refused.message.contains("the queue is full"), "{refused}");
    app.enter("typed");
    assert_eq!(app.draft(0).text(), "typed");
    assert!(app.screen_text().contains("the queue is full"), "{}", app.screen_text());
    assert_eq!(app.agent(0).queue.len(), 1_000);
    assert!(app.repl.send(root, " \n").is_err(), "nothing is nothing to send");
    assert!(all_of(&mut app.repl, root).iter().all(|one| one.chunk != Chunk::User("one too many".into())));
}
