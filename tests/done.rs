//! `[done] command`: whether an agent is done is measured, and a failure goes back to it.

use std::fs;

use polylogue::config::{DoneSettings, Policy, Rules};
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::openai::last_user_text;
use crate::support::peer::Peer;
use crate::support::scene::{assert_shows, turn_a_while};

/// An agent whose work is done when the file `a` says so.
fn app(peer: &Peer, attempts: u32) -> Harness {
    let script = "echo run >> runs; grep -q right a || { echo there is no right in a; exit 3; }";
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let plan = Plan {
        policy: Policy::Auto,
        rules: Rules::default(),
        done: DoneSettings { command, attempts },
        size: Some((160, 40)),
        ..Plan::peer(&peer.url())
    };
    Harness::new(plan)
}

/// The agent writes this into the file and says that it is done. Returns what it was asked.
fn write(app: &mut Harness, peer: &Peer, text: &str) -> String {
    let exchange = app.accept(peer);
    let asked = last_user_text(&exchange.request().json()).to_owned();
    let call = json!({"file_path": "a", "content": text}).to_string();
    exchange.stream().tool_call(0, "c", "write_file", &call).finish("tool_calls").done();
    app.accept(peer).stream().text("Done.").finish("stop").done();
    asked
}

fn runs(app: &Harness) -> usize {
    fs::read_to_string(app.directory().join("runs")).unwrap_or_default().lines().count()
}

#[test]
fn a_failure_goes_back_to_the_agent_until_the_command_succeeds() {
    let peer = Peer::start();
    let mut app = app(&peer, 2);
    app.say(0, "do it");
    assert_eq!(write(&mut app, &peer, "wrong\n"), "do it");
    let asked = write(&mut app, &peer, "right\n");
    assert!(
        asked.starts_with("polylogue ran `echo run") && asked.contains("it fails (exit code 3), so you are not done"),
        "{asked}"
    );
    assert!(asked.contains("there is no right in a"), "{asked}");
    app.turn_until("it passes", |app| app.screen_text().contains(" passes ("));
    assert_shows(&mut app, "attempt 1 of 2 to mend it");
    assert_eq!(runs(&app), 2);
    // What changes no file is not measured.
    app.say(0, "thanks");
    app.accept(&peer).stream().text("Gladly.").finish("stop").done();
    app.turn_until_idle();
    turn_a_while(&mut app);
    assert_eq!(runs(&app), 2);
}

#[test]
fn after_the_last_attempt_the_person_decides() {
    let peer = Peer::start();
    let mut app = app(&peer, 1);
    app.say(0, "do it");
    write(&mut app, &peer, "wrong\n");
    write(&mut app, &peer, "still wrong\n");
    app.turn_until("it is said", |app| app.screen_text().matches("fails: exit code 3 (").count() == 2);
    turn_a_while(&mut app);
    assert_shows(&mut app, "there is no right in a");
    assert_eq!(runs(&app), 2);
}

#[test]
fn an_agent_that_changes_nothing_after_a_failure_is_not_taken_to_be_done() {
    let peer = Peer::start();
    let mut app = app(&peer, 2);
    app.say(0, "do it");
    write(&mut app, &peer, "wrong\n");
    app.accept(&peer).stream().text("It is done, really.").finish("stop").done();
    app.turn_until("the verdict", |app| app.screen_text().contains("still fails: no file has changed since"));
    assert!(app.agent(0).report.fails);
    app.type_bytes(b"\x1bw");
    assert_shows(&mut app, "CHECK FAILS");
    assert_eq!(runs(&app), 1);
}

#[test]
fn a_command_of_one_agent_is_kept_and_forks_inherit_it() {
    let peer = Peer::start();
    let mut app = app(&peer, 1);
    app.enter("/done --off");
    app.enter("/done");
    assert_shows(&mut app, "no command checks the work of this agent: /done make test sets one");
    app.say(0, "do it");
    write(&mut app, &peer, "wrong\n");
    app.turn_until_idle();
    turn_a_while(&mut app);
    assert_eq!(runs(&app), 0);

    app.enter("/done echo own >> owns");
    app.enter("/fork --stay");
    app.turn_until("a child", |app| app.repl.list().len() == 2);
    let mut app = app.crash_and_restart();
    app.enter("/done");
    assert_shows(&mut app, "echo own >> owns checks them (set for this agent and its forks)");
    app.say(1, "and you");
    write(&mut app, &peer, "right\n");
    app.turn_until("it has run", |app| app.directory().join("owns").exists());
    assert_eq!(runs(&app), 0);

    // A fork that has a command of its own keeps it.
    app.enter("/fork --stay");
    app.turn_until("another child", |app| app.repl.list().len() == 3);
    app.switch(2);
    app.enter("/done echo mine");
    app.switch(0);
    app.enter("/done echo later");
    app.switch(1);
    app.enter("/done");
    assert_shows(&mut app, "echo later checks them");
    app.switch(2);
    app.enter("/done");
    assert_shows(&mut app, "echo mine checks them");
    app.switch(0);
    app.enter("/done --default");
    app.say(0, "once more");
    write(&mut app, &peer, "right\n");
    app.turn_until("the configured one has run", |app| runs(app) == 1);
}
