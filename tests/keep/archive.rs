//! Archived agents are kept with everything that they know, and no list shows them.

use polylogue::Change;
use serde_json::Value;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::program::{Home, texts};

/// Agent 0, its child `kid` with a reply, and `grandkid` below it.
fn family() -> Harness {
    let mut app = Harness::new(Plan { size: Some((100, 40)), ..Plan::default() });
    let kid = app.fork_named(0, "kid");
    app.say(kid, "remember the milk");
    app.turn_until_idle();
    app.fork_named(kid, "grandkid");
    app
}

#[test]
fn an_archived_agent_is_in_no_list_until_it_is_brought_back_with_all_that_it_knows() {
    let mut app = family();
    let before = app.log(app.n("kid"));
    app.switch(app.n("kid"));
    app.enter("/archive");
    let screen = app.screen_text();
    assert!(screen.contains("kid archived; /unarchive kid brings it back"), "{screen}");
    assert_eq!((app.focus(), app.repl.roster().len()), (0, 2), "the agent above is shown");
    let grandkid = app.id(1);
    assert_eq!(app.repl.roster().parent(grandkid), Some(app.id(0)), "its child belongs to the agent above it");
    app.enter("/agents");
    let screen = app.screen_text();
    assert!(screen.contains("grandkid") && !screen.contains(" 1   kid"), "{screen}");
    app.enter("/agents --archived");
    let screen = app.screen_text();
    let is_kid = |row: &str| row.trim_start().starts_with("kid") && row.contains("echo/echo");
    assert!(screen.contains("archived:") && screen.lines().any(is_kid), "{screen}");

    let mut app = app.crash_and_restart();
    assert!(app.repl.roster().find("kid").one().is_none(), "it is archived after a restart as well");
    app.enter("/unarchive kid");
    let kid = app.n("kid");
    assert_eq!(app.log(kid), before);
    assert_eq!(app.repl.roster().parent(app.id(kid)), Some(app.id(0)));
    app.say(kid, "and the bread");
    app.turn_until_idle();
    assert_eq!(app.replies(kid).last().map(String::as_str), Some("and the bread"));
    let app = app.crash_and_restart();
    assert_eq!(app.repl.roster().parent(app.id(app.n("grandkid"))), Some(app.id(app.n("kid"))));
}

#[test]
fn an_agent_with_work_left_or_without_a_parent_is_not_archived() {
    let mut app = family();
    let kid = app.n("kid");
    app.say(kid, "words\n%hang");
    app.turn_until("the text", |app| !app.agent(kid).partial_text().is_empty());
    for (line, expected) in [
        ("/archive kid", "kid is busy: stop it first, or wait until it is idle"),
        ("/archive 0", "is the root and cannot be archived"),
        ("/archive nobody", "no agent \"nobody\""),
        ("/unarchive kid", "no archived agent \"kid\": /agents --archived or"),
        ("/unarchive", "/agents --archived lists the archived ones"),
        ("/agents --archved", "did you mean --archived?"),
    ] {
        app.enter(line);
        let screen = app.screen_text();
        assert!(screen.contains(expected), "{line}: {screen}");
        app.type_bytes(b"\x15");
    }
    app.say(kid, "later");
    app.ask(kid, Change::Interrupt);
    assert_eq!((app.state(kid), app.agent(kid).queue.len()), (State::Idle, 1));
    app.enter("/archive kid");
    assert!(app.screen_text().contains("kid has queued messages: send or delete them first (/queue)"));
    assert_eq!(app.repl.roster().len(), 3);
}

#[test]
fn print_runs_are_archived_when_they_end_and_can_be_continued_and_listed() {
    let home = Home::new();
    assert_eq!(home.run(&["-p", "one"]).code, 0);
    let listed = home.run(&["ps"]);
    assert!(!listed.out.contains("polylogue -p runs") && listed.out.lines().count() == 2, "{}", listed.out);
    let rows = |args: &[&str]| -> Vec<Value> {
        home.run(args).out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let archived = rows(&["ps", "--archived", "--json"]);
    assert_eq!(
        (archived.len(), &archived[0]["print_run"], &archived[0]["status"]),
        (1, &true.into(), &"archived".into())
    );
    assert!(archived[0]["archived_at"].as_i64().is_some_and(|at| at > 0));
    assert!(home.run(&["ps", "--all"]).out.contains("\npolylogue -p runs:\nNUMBER"));
    let id = archived[0]["id"].as_str().expect("an id");
    assert_eq!(home.run(&["-p", "-r", id, "two"]).code, 0);
    assert_eq!(home.run(&["-p", "-c", "three"]).code, 0);
    assert_eq!(texts(&home.log(1)), ["one", "one", "two", "two", "three", "three"]);
    assert_eq!((rows(&["ps", "--json"]).len(), rows(&["ps", "--archived", "--json"]).len()), (1, 1), "archived again");

    assert_eq!(home.run(&["unarchive", id]).code, 0);
    assert_eq!(rows(&["ps", "--json"])[1]["print_run"], false, "an agent like others");
    assert_eq!(home.run(&["archive", "1"]).code, 0);
    let file = home.directory.path().join("bad.toml");
    std::fs::write(&file, "approval = \"sometimes\"\n").expect("a file");
    let bad = file.to_str().expect("a path in UTF-8");
    for command in [["unarchive", id], ["archive", "1"]] {
        let output = home.run(&[&["--config", bad], &command[..]].concat());
        assert_eq!(output.code, 0, "mistakes in the configuration do not matter here: {output:?}");
    }
    let refused = home.run(&["archive", "0"]);
    assert!(refused.code == 2 && refused.err.contains("is the root and cannot be archived"), "{}", refused.err);
    let refused = home.run(&["archive", id]);
    assert!(refused.code == 2 && refused.err.contains("`polylogue ps --all` lists all"), "{}", refused.err);
}
