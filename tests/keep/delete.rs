//! Agents that are deleted: by a person, and when nobody has used them for a long time.

use std::time::Duration;

use polylogue::{ArchiveAct, Change, MailAct};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::program::{Home, texts};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn an_agent_is_deleted_after_a_second_enter_and_its_child_keeps_what_it_inherited() {
    let mut app = Harness::new(Plan { size: Some((100, 40)), ..Plan::default() });
    let kid = app.fork_named(0, "kid");
    app.say(kid, "remember the milk");
    app.turn_until_idle();
    let grandkid = app.fork_named(kid, "grandkid");
    let before = app.log(grandkid);
    app.enter("/delete kid");
    let screen = app.screen_text();
    assert!(
        screen.contains("press Enter again to delete kid with its conversation: this cannot be undone"),
        "{screen}"
    );
    assert_eq!(app.repl.roster().len(), 3);
    app.type_bytes(b"\x15");
    app.enter_and_confirm("/delete kid");
    assert!(app.screen_text().contains("kid deleted"), "{}", app.screen_text());
    assert_eq!(app.log(app.n("grandkid")), before);
    app.enter("/search milk");
    assert!(app.screen_text().contains("nothing found"), "{}", app.screen_text());
    let app = app.crash_and_restart();
    assert_eq!((app.repl.roster().len(), app.log(app.n("grandkid"))), (2, before));
}

#[test]
fn agents_that_nobody_used_for_so_many_days_are_deleted_except_those_in_use() {
    let mut app = Harness::new(Plan { keep_days: 3, ..Plan::default() });
    for name in ["old", "archived", "queued", "shown", "unread", "waiting"] {
        app.fork_named(0, name);
    }
    let archived = app.id(app.n("archived"));
    app.ask(0, Change::Archive(ArchiveAct::Archive(archived)));
    let queued = app.n("queued");
    app.say(queued, "%hang");
    app.turn();
    app.say(queued, "later");
    app.ask(queued, Change::Interrupt);
    let to = app.id(app.n("waiting"));
    app.ask(0, Change::Mail(MailAct::Send { to, body: "hello".into() }));
    app.say(app.n("unread"), "%hang");
    let shown = app.n("shown");
    app.switch(shown);
    app.advance(DAY);
    app.turn();
    let names = |app: &Harness| -> Vec<String> {
        app.repl.roster().iter().filter_map(|agent| agent.identity.name.clone()).collect()
    };
    assert_eq!(names(&app).len(), 5, "{:?}", names(&app));
    app.advance(3 * DAY);
    app.turn();
    assert_eq!(names(&app), ["queued", "shown", "unread", "waiting"]);
    assert!(app.repl.store().archived_agents().unwrap().agents.is_empty());
}

#[test]
fn scripts_delete_agents_with_and_without_a_server() {
    let home = Home::new();
    assert_eq!(home.run(&["-p", "one"]).code, 0);
    assert_eq!(home.run(&["-p", "two"]).code, 0);
    let [first, second] = [1, 2].map(|n| home.id(n));
    assert_eq!(home.run(&["delete", &first]).code, 0);
    assert_eq!((home.agents(), texts(&home.log(1))), (2, vec!["two", "two"]));
    let refused = home.run(&["delete", "0"]);
    assert!(refused.code == 2 && refused.err.contains("is the root and cannot be deleted"), "{}", refused.err);
    let server = home.start(&["serve"]);
    server.err.recv().expect("it serves");
    assert_eq!(home.run(&["delete", &second]).code, 0);
    let refused = home.run(&["delete", &second]);
    assert!(refused.code == 2 && refused.err.contains("no agent"), "{}", refused.err);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.ends().code, 0);
    assert_eq!(home.agents(), 1);
}
