//! Fork: what a child inherits, as its requests show; a fork that waits for tools; and, in files of their own, the `fork`
//! tool and forks that are sent at once.

mod bill;
mod shared_prefix;
mod tool;

use polylogue::{Change, Fork, HistoryEdit, Setting};
use rusqlite::Connection;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::peer::Peer;
use crate::support::scene::{
    accept_by_text, answer_next, app, assert_shows, assert_valid, bash, converse, is_running, reply_with_calls,
    results_in, results_then, texts_in, turn_a_while,
};

/// The length of the common prefix.
fn shared(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The agent gets a message and calls these tools.
fn calls(app: &mut Harness, peer: &Peer, n: usize, calls: &[(&str, &str)]) {
    app.say(n, "do it");
    reply_with_calls(&app.accept(peer), calls);
}

#[test]
fn a_plain_fork_goes_to_the_screen_knows_what_the_parent_knows_and_waits() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "an old question", "an old reply");
    app.type_bytes(b"half a line");
    app.ask(0, Change::Fork(Fork::default()));
    assert_eq!((app.repl.roster().len(), app.focus()), (2, 1));
    assert_eq!((app.state(0), app.state(1)), (State::Idle, State::Idle));
    assert_eq!(app.draft(1).text(), "", "a draft is not inherited");
    assert!(app.screen_text().contains("an old reply"), "{}", app.screen_text());
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none());
}

#[test]
fn the_marks_of_a_fork_name_the_other_agent() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for (line, mark, other) in [
        ("/fork --name build", "forked from agent 0", 0),
        ("/switch 0", "forked build", 1),
        ("/fork", "forked from agent 0", 0),
        ("/switch 0", "forked agent 2", 2),
    ] {
        app.enter(line);
        let id = app.id(other).short();
        assert_shows(&mut app, mark);
        assert!(!app.screen_text().contains(&id), "ids are for scripts");
    }
}

#[test]
fn parent_and_child_with_the_same_prompt_send_the_same_bytes() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "an old question", "an old reply");
    calls(&mut app, &peer, 0, &[("read_file", "{\"path\":\"none\"}")]);
    answer_next(&mut app, &peer, 0, "read");
    app.enter("/fork");
    let child = converse(&mut app, &peer, 1, "the same", "yes");
    assert_eq!(converse(&mut app, &peer, 0, "the same", "no"), child);
    let child = converse(&mut app, &peer, 1, "of the child", "yes");
    let parent = converse(&mut app, &peer, 0, "of the parent", "no");
    assert!(String::from_utf8_lossy(&parent[..shared(&parent, &child)]).contains("the same"));
    assert_eq!(texts_in(&child)[..5], texts_in(&parent)[..5]);
}

#[test]
fn a_fork_with_prompt_name_and_model_is_called_so_runs_on_it_and_starts_at_once() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "an old question", "an old reply");
    app.enter("/fork --name scout --model openai/other/one \"look  around\"");
    assert_eq!((app.focus(), app.agent(1).identity.label()), (1, "scout".into()));
    let exchange = app.accept(&peer);
    assert_eq!(texts_in(&exchange.request().body), ["an old question", "an old reply", "look  around"]);
    assert_eq!(exchange.request().json()["model"], "other/one");
    assert_eq!((app.state(0), app.state(1)), (State::Idle, State::WaitingForLlm));
    drop(exchange);

    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(1).inputs.endpoint.full_name(), "openai/other/one");
    let of_parent = converse(&mut app, &peer, 0, "and you?", "as ever");
    assert_eq!(texts_in(&of_parent), ["an old question", "an old reply", "and you?"]);
}

#[test]
fn a_fork_that_fails_reports_why_leaves_nothing_and_gives_the_line_back() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork_named(0, "scout");
    for (line, expected) in [
        ("/fork --name scout again", "another running agent is called `scout`"),
        ("/fork --model nowhere/x again", "unknown provider \"nowhere\""),
        ("/fork -m nowhere/x again", "unknown provider \"nowhere\""),
        ("/fork --name 12 again", "invalid name"),
        ("/fork --nmae x again", "did you mean --name?"),
        ("/fork \"unterminated", "a quote is not closed in the prompt"),
    ] {
        app.enter(line);
        assert!(app.screen_text().contains(expected), "{line}\n{}", app.screen_text());
        assert_eq!((app.repl.roster().len(), app.draft(0).text()), (2, line));
        app.type_bytes(b"\x15");
        assert_eq!(app.kinds(0), ["fork"], "only the first fork is in the log");
    }
    assert_eq!(app.crash_and_restart().repl.roster().len(), 2);
}

/// Makes the store refuse rows that match this condition.
fn break_store(app: &Harness, table: &str, condition: &str) -> Connection {
    let raw = Connection::open(app.data().join("polylogue.db")).expect("the store");
    let body = "BEGIN SELECT RAISE(ABORT, 'the test says no'); END";
    raw.execute_batch(&format!("CREATE TRIGGER no BEFORE INSERT ON {table} WHEN {condition} {body}"))
        .expect("a trigger");
    raw
}

#[test]
fn a_fork_that_the_store_refuses_half_way_leaves_no_trace() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "an old question", "an old reply");
    // The last row of the transaction: the event in the child's log.
    let raw = break_store(&app, "messages", "new.kind = 'fork' AND new.agent > 0");
    let before = app.log(0);
    app.enter("/fork --name scout go on");
    assert!(app.screen_text().contains("the test says no"), "{}", app.screen_text());
    assert_eq!((app.repl.roster().len(), app.log(0)), (1, before));
    calls(&mut app, &peer, 0, &[("fork", "{\"name\":\"scout\",\"prompt\":\"go\"}")]);
    let results = results_then(&mut app, &peer, 0, "a pity");
    assert!(results[0].contains("the test says no"), "{results:?}");
    raw.execute_batch("DROP TRIGGER no").expect("the trigger is there");
    app.type_bytes(b"\x15");
    let mut app = app.crash_and_restart();
    assert_eq!(app.repl.roster().len(), 1);
    app.enter("/fork --name scout");
    assert_eq!(app.n("scout"), 1);
}

/// What may happen to a parent after a fork.
type Action = fn(&mut Harness, &Peer);

const ACTIONS: [(&str, Action); 5] = [
    ("writes", |app, peer| drop(converse(app, peer, app.n("parent"), "more", "much more"))),
    ("clears", |app, _| app.ask(app.n("parent"), Change::EditHistory(HistoryEdit::Clear))),
    ("rewinds", |app, peer| {
        app.ask(app.n("parent"), Change::EditHistory(HistoryEdit::Rewind(None)));
        converse(app, peer, app.n("parent"), "otherwise", "differently");
    }),
    ("forks", |app, _| app.ask(app.n("parent"), Change::Fork(Fork::default()))),
    ("dies", |app, _| {
        let agent_id = app.repl.roster().find("parent").one().expect("it lives");
        app.ask(0, Change::Kill { agent_id, cascade: false });
    }),
];

/// A root and a parent with a conversation each, the parent with a mark in the middle.
fn root_and_parent(peer: &Peer) -> Harness {
    let mut app = app(peer);
    converse(&mut app, peer, 0, "to the root", "from the root");
    let parent = app.fork_named(0, "parent");
    converse(&mut app, peer, parent, "to the parent", "from the parent");
    app.ask(parent, Change::EditHistory(HistoryEdit::Mark(String::new())));
    converse(&mut app, peer, parent, "after the mark", "from after it");
    app
}

#[test]
fn whatever_the_parent_does_after_the_fork_the_child_sends_the_same_bytes() {
    let peer = Peer::start();
    for (name, action) in ACTIONS {
        let mut app = root_and_parent(&peer);
        for name in ["first", "second", "third"] {
            app.fork_named(app.n("parent"), name);
        }
        let first = app.n("first");
        let expected = converse(&mut app, &peer, first, "go", "gone");
        assert_eq!(texts_in(&expected).len(), 7);
        action(&mut app, &peer);
        let second = app.n("second");
        assert_eq!(converse(&mut app, &peer, second, "go", "gone"), expected, "the parent {name}");
        let mut app = app.crash_and_restart();
        let third = app.n("third");
        assert_eq!(converse(&mut app, &peer, third, "go", "gone"), expected, "the parent {name}, and a restart");
    }
}

#[test]
fn a_child_of_a_parent_without_messages_never_inherits_any() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for name in ["at-once", "later", "restarted"] {
        app.fork_named(0, name);
    }
    for (name, reply) in [("at-once", "one"), ("later", "two")] {
        let n = app.n(name);
        assert_eq!(texts_in(&converse(&mut app, &peer, n, "alone", reply)), ["alone"]);
        converse(&mut app, &peer, 0, "the parent", "goes on");
    }
    let mut app = app.crash_and_restart();
    let n = app.n("restarted");
    assert_eq!(texts_in(&converse(&mut app, &peer, n, "alone", "three")), ["alone"]);
}

/// A command of agent 0 runs until a line is written into the pipe `go`; its command line contains the returned mark.
fn a_command_that_waits(app: &mut Harness, peer: &Peer) -> String {
    let pipe = app.directory().join("go");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let mark = format!("mark-{}", pipe.display());
    calls(app, peer, 0, &[("bash", &bash(&format!("read line < go; echo went on # {mark}")))]);
    app.answer(0, true);
    app.turn_until("the command runs", |_| is_running(&mark));
    mark
}

#[test]
fn a_fork_that_waits_for_tools_happens_behind_their_results_with_all_that_was_asked_for() {
    let peer = Peer::start();
    let mut app = app(&peer);
    a_command_that_waits(&mut app, &peer);
    app.enter("/fork --include-current --name scout look around");
    app.enter("/fork --name other --include-current");
    assert!(app.screen_text().contains("fork already in progress"), "{}", app.screen_text());
    app.type_bytes(b"\x15");
    crate::support::write_to_pipe(&app.directory().join("go"), "\n");
    let [parent, child] = accept_by_text(&mut app, &peer, ["do it", "look around"]);
    assert_eq!((app.repl.roster().len(), app.focus()), (2, app.n("scout")));
    let (parent, child) = (parent.request(), child.request());
    assert_valid(&child.json());
    assert!(results_in(&child.json())[0].1.contains("went on"));
    // Behind its last message the parent's body goes on with `]` and the tools, the child's with a comma.
    let common = &parent.body[..shared(&parent.body, &child.body)];
    assert!(common.ends_with(b"\"tool_call_id\":\"call-0\"}"), "{}", String::from_utf8_lossy(common));
}

#[test]
fn a_fork_that_waited_when_the_process_was_killed_is_said_once() {
    let peer = Peer::start();
    let mut app = app(&peer);
    a_command_that_waits(&mut app, &peer);
    let line = "/fork --include-current --name scout look around";
    app.enter(line);
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, &format!("not done, because the process ended: {line}"));
    assert_eq!((app.repl.roster().len(), app.repl.store().queued(app.id(0)).expect("a queue").len()), (1, 0));
    let app = app.crash_and_restart();
    assert_eq!(app.kinds(0).iter().filter(|kind| **kind == "command").count(), 1);
}

#[test]
fn a_refused_fork_is_shown_where_it_was_typed_and_not_at_the_child_that_came_meanwhile() {
    let peer = Peer::start();
    let mut app = app(&peer);
    a_command_that_waits(&mut app, &peer);
    app.enter("/fork --include-current --name scout look around");
    app.enter("/fork --include-current --name other");
    assert_shows(&mut app, "fork already in progress");
    crate::support::write_to_pipe(&app.directory().join("go"), "\n");
    accept_by_text(&mut app, &peer, ["do it", "look around"]);
    assert_eq!(app.focus(), app.n("scout"));
    assert!(!app.screen_text().contains("already in progress"), "{}", app.screen_text());
    app.switch(0);
    assert_shows(&mut app, "fork already in progress");
}

#[test]
fn a_waiting_fork_that_cannot_be_made_in_the_end_gives_its_text_back() {
    let peer = Peer::start();
    let mut app = app(&peer);
    a_command_that_waits(&mut app, &peer);
    app.enter("/fork --include-current --name scout look around");
    let id = app.id(0);
    app.repl.apply(id, Change::Setting(Setting::Name(Some("scout".into())))).expect("the name is free still");
    crate::support::write_to_pipe(&app.directory().join("go"), "\n");
    answer_next(&mut app, &peer, 0, "done");
    assert_eq!(app.repl.roster().len(), 1);
    assert!(app.screen_text().contains("another running agent is called `scout`"), "{}", app.screen_text());
    assert_eq!(app.draft(0).text(), "/fork --include-current --name scout look around");
}

#[test]
fn an_interrupt_cancels_a_waiting_fork_and_gives_the_whole_line_back() {
    for options in ["", " look around", " --name scout", " --name scout --model openai/x look around"] {
        let line = &format!("/fork --include-current{options}");
        let peer = Peer::start();
        let mut app = app(&peer);
        a_command_that_waits(&mut app, &peer);
        app.enter(line);
        app.escape();
        app.turn_until_idle();
        assert_eq!(app.draft(0).text(), line.as_str());
        turn_a_while(&mut app);
        assert_eq!((app.repl.roster().len(), app.kinds(0).contains(&"fork")), (1, false));
    }
}

#[test]
fn killing_an_agent_cancels_its_parked_fork() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let mark = a_command_that_waits(&mut app, &peer);
    // The same in a child, which can be killed.
    app.escape();
    app.turn_until_idle();
    let child = app.fork_named(0, "child");
    calls(&mut app, &peer, child, &[("bash", &bash(&format!("read line < go # {mark}")))]);
    app.answer(child, true);
    app.turn_until("the command runs", |_| is_running(&mark));
    app.ask(
        child,
        Change::Fork(Fork {
            prompt: Some("go".into()),
            name: Some("late".into()),
            includes_current: true,
            ..Fork::default()
        }),
    );
    app.enter_and_confirm("/kill child");
    app.turn_until("the command ends", |_| !is_running(&mark));
    turn_a_while(&mut app);
    assert_eq!(app.repl.roster().len(), 1);
    assert!(peer.try_accept().is_none());
    assert_eq!(app.crash_and_restart().repl.roster().len(), 1);
}

#[test]
fn a_fork_while_a_reply_streams_does_not_wait_and_inherits_what_is_complete() {
    let peer = Peer::start();
    for (option, inherited) in [("", "go on alone"), ("--include-current ", "the open question\n\ngo on alone")] {
        let mut app = app(&peer);
        converse(&mut app, &peer, 0, "an old question", "an old reply");
        app.say(0, "the open question");
        let open = app.accept(&peer);
        open.stream().text("half a re");
        app.turn_until("the half", |app| app.agent(0).partial_text() == "half a re");
        app.enter(&format!("/fork {option}go on alone"));
        assert_eq!(app.focus(), 1);
        let child = app.accept(&peer);
        assert_eq!(texts_in(&child.request().body), ["an old question", "an old reply", inherited]);
        assert_valid(&child.request().json());
        open.text("ply").finish("stop").done();
        app.turn_until("the whole", |app| app.state(0) == State::Idle);
        assert_eq!(app.replies(0).last().map(String::as_str), Some("half a reply"));
        assert!(!app.replies(1).iter().any(|reply| reply.contains("half")));
    }
}

#[test]
fn forks_of_a_busy_agent_are_made_at_once_without_its_open_message_and_the_screen_may_stay() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "an old question", "an old reply");
    a_command_that_waits(&mut app, &peer);
    for (n, name) in [(1, "ann"), (2, "bea"), (3, "cleo")] {
        app.enter(&format!("/fork --stay --name {name} ask {name}"));
        assert_eq!((app.repl.roster().len(), app.focus()), (n + 1, 0));
        let child = app.accept(&peer);
        let expected = ["an old question", "an old reply", &format!("ask {name}")];
        assert_eq!(texts_in(&child.request().body), expected);
        assert_valid(&child.request().json());
        assert_eq!(app.agent(n).identity.parent, Some(app.id(0)), "{name}");
    }
    crate::support::write_to_pipe(&app.directory().join("go"), "\n");
    answer_next(&mut app, &peer, 0, "done");
    let mut app = app.crash_and_restart();
    for (n, name) in [(1, "ann"), (2, "bea"), (3, "cleo")] {
        assert_eq!(app.agent(n).identity.parent, Some(app.id(0)));
        let body = converse(&mut app, &peer, n, "again", "well");
        assert_eq!(texts_in(&body)[..2], ["an old question", "an old reply"], "{name}");
    }
}

#[test]
fn a_fork_is_a_child_of_the_agent_in_which_it_is_typed_whatever_that_has_said() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "a question", "a reply");
    for (n, line) in
        [(1, "/fork --name ann"), (2, "/fork --name bea"), (3, "/fork --model openai/other/one"), (4, "/fork")]
    {
        app.enter(line);
        assert_eq!((app.focus(), app.agent(n).identity.parent), (n, Some(app.id(n - 1))), "{line}");
    }
    assert_eq!(app.agent(4).inputs.endpoint.full_name(), "openai/other/one");
    let parents: Vec<bool> = (0..5).map(|n| app.agent(n).identity.has_parent()).collect();
    assert_eq!(parents, [false, true, true, true, true]);
}

#[test]
fn a_person_may_stay_with_the_parent_at_a_fork() {
    let mut app = Harness::new(Plan { follows_forks: false, ..Plan::default() });
    app.enter("/fork --name scout look around");
    assert_eq!(app.focus(), 0);
    app.turn_until_idle();
    assert_eq!(app.replies(1), ["look around"]);
}
