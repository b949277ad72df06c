//! A damaged store: what cannot be read is reported and left out, everything else works, and nothing panics.

use polylogue::{Change, Clock, ErrorKind, Fork, MailAct, QueueEdit, Repl, Store};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan, copy_of};
use crate::support::internals::{Body, Probe};

/// Agent 0, its children `a` and `b`, and `c`, the child of `a`; each with something in every table.
fn prepared() -> TempDir {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    app.say(0, "hello");
    app.turn_until_idle();
    for (parent, name) in [(0, "a"), (0, "b"), (1, "c")] {
        app.ask(parent, Change::Fork(Fork { name: Some(name.into()), ..Fork::default() }));
    }
    for n in 0..4 {
        let to = app.id(n);
        app.ask((n + 1) % 4, Change::Mail(MailAct::Send { to, body: "first".into() }));
        app.ask((n + 2) % 4, Change::Mail(MailAct::Send { to, body: "second".into() }));
        app.say(n, &format!("part of {n}\n%hang"));
        app.turn_until("a piece", |app| !app.agent(n).partial_text().is_empty());
        app.say(n, "queued one");
        app.say(n, "queued two");
        app.switch(n);
        app.type_bytes(b"draft");
    }
    app.switch(0);
    app.close()
}

fn damage(directory: &TempDir, sql: &str) {
    let conn = Connection::open(directory.path().join("polylogue.db")).expect("a database");
    let free = "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;";
    conn.execute_batch(&format!("{free} {sql}")).expect("damage can be done");
}

/// An app on a copy of the store, after this SQL.
fn damaged(prepared: &TempDir, sql: &str) -> Harness {
    let directory = copy_of(prepared.path());
    damage(&directory, sql);
    Harness::open(Plan { size: Some((100, 80)), real_time: true, ..Plan::default() }, directory)
}

/// Every remaining agent can be shown and answers. One whose queue is sent first answers that first.
fn all_can_be_talked_with(app: &mut Harness) {
    for n in 0..app.repl.roster().len() {
        app.switch(n);
        for line in ["/agents", "/check-mail", "/read-mail", "/mark m", "/rewind m", "word"] {
            // What was typed before is in the way.
            app.type_bytes(b"\x05\x15");
            app.enter(line);
            app.turn_until_idle();
        }
        let (messages, _) = app.repl.store().replay(app.id(n)).expect("what can be read");
        let has_answered =
            messages.iter().any(|message| matches!(&message.body, Body::Assistant(reply) if reply.text == "word"));
        assert!(has_answered, "{}", app.screen_text());
    }
}

/// Statements that damage the tables, how many of the four agents remain, and what is reported at the start.
const DAMAGE: &[(&str, usize, &str)] = &[
    ("UPDATE agents SET uuid = 'no uuid' WHERE name = 'a'", 3, "agent 1 is damaged"),
    ("UPDATE agents SET uuid = x'00ff' WHERE name = 'b'", 3, "agent 2 is damaged"),
    ("UPDATE agents SET uuid = 'no uuid' WHERE ordinal = 0", 3, "agent 0 is damaged"),
    ("UPDATE agents SET uuid = 'no uuid' || ordinal", 1, "agent 3 is damaged"),
    ("UPDATE agents SET name = x'ff00' WHERE name = 'a'", 3, "agent 1 is damaged"),
    ("UPDATE agents SET name = x'ff00' WHERE ordinal = 0", 3, "agent 0 is damaged"),
    ("UPDATE agents SET parent_uuid = 'no uuid' WHERE name = 'c'", 3, "agent 3 is damaged"),
    ("UPDATE agents SET parent_uuid = NULL WHERE name = 'c'", 4, ""),
    ("UPDATE agents SET parent_uuid = uuid WHERE name = 'c'", 4, ""),
    ("UPDATE agents SET fork_message_id = 'x' WHERE name = 'c'", 3, "agent 3 is damaged"),
    ("UPDATE agents SET status = 'zombie' WHERE name = 'a'", 3, ""),
    ("UPDATE agents SET status = x'00' WHERE name = 'a'", 3, ""),
    ("UPDATE agents SET activity = 'zombie' WHERE name = 'a'", 4, ""),
    ("UPDATE agents SET created_at = 'x', ended_at = 'y' WHERE name = 'a'", 3, "agent 1 is damaged"),
    ("UPDATE agents SET endpoint = x'ff', system = x'00'", 1, "agent 0 is damaged"),
    ("DELETE FROM agents WHERE name = 'a'", 3, ""),
    ("DELETE FROM agents WHERE ordinal = 0", 3, ""),
    ("DELETE FROM agents", 1, ""),
    ("UPDATE messages SET agent = 99", 4, ""),
    ("UPDATE messages SET created_at = 'x'", 4, ""),
    ("UPDATE queue SET agent = 99", 4, ""),
    ("UPDATE queue SET agent = 'x'", 4, ""),
    ("UPDATE mail SET from_uuid = 'nobody', read_at = 'x', created_at = 'y'", 4, ""),
    ("UPDATE mail SET to_uuid = 'nobody'", 4, ""),
    ("UPDATE drafts SET content = x'ff41'", 4, ""),
    ("UPDATE drafts SET slot = 'x'", 4, ""),
    ("UPDATE partials SET content = x'ff', thinking = 7", 4, ""),
    ("UPDATE partials SET agent = 99", 4, ""),
    ("UPDATE entered SET content = CAST(content AS BLOB)", 4, ""),
    ("UPDATE sqlite_sequence SET seq = 0", 4, ""),
    ("UPDATE sqlite_sequence SET seq = 'x'", 4, ""),
    ("INSERT INTO meta VALUES ('focus', x'ff')", 4, ""),
];

#[test]
fn no_damaged_row_is_fatal_and_all_other_agents_work() {
    let prepared = prepared();
    for (sql, living, expected) in DAMAGE {
        println!("{sql}");
        let mut app = damaged(&prepared, sql);
        assert_eq!(app.repl.roster().len(), *living);
        assert!(app.screen_text().contains(expected), "{}", app.screen_text());
        all_can_be_talked_with(&mut app);
    }
}

#[test]
fn agents_without_a_readable_parent_are_adopted_by_the_eldest_and_can_be_killed() {
    let prepared = prepared();
    for sql in [
        "UPDATE agents SET uuid = 'no uuid' WHERE name = 'a'",
        "UPDATE agents SET parent_uuid = NULL WHERE name = 'c'",
        // Two who forked each other.
        "UPDATE agents SET parent_uuid = (SELECT uuid FROM agents WHERE name = 'c') WHERE name = 'a'",
    ] {
        let mut app = damaged(&prepared, sql);
        let root = app.id(0);
        let victims: Vec<_> = app.repl.roster().children(root).collect();
        let mut family: Vec<_> = victims.iter().flat_map(|agent_id| app.repl.roster().subtree(*agent_id)).collect();
        family.push(root);
        family.sort();
        let mut all = app.repl.roster().ids();
        all.sort();
        assert_eq!(family, all, "{sql}");
        for agent_id in victims {
            app.ask(0, Change::Kill { agent_id, cascade: true });
        }
        assert_eq!(app.repl.roster().len(), 1, "{sql}");
    }
}

#[test]
fn damaged_messages_are_reported_and_not_sent_to_the_model() {
    let prepared = prepared();
    for (sql, why) in [
        ("UPDATE messages SET kind = 'prophecy' WHERE id = 1", "unknown kind `prophecy`"),
        ("UPDATE messages SET content = x'ff' WHERE id = 1", "its content is not text"),
        ("UPDATE messages SET data = '{' WHERE id = 2", "its data cannot be read"),
    ] {
        let mut app = damaged(&prepared, sql);
        all_can_be_talked_with(&mut app);
        app.switch(0);
        assert!(app.screen_text().contains(&format!("is damaged and left out: {why}")), "{}", app.screen_text());
    }
}

#[test]
fn the_readable_part_of_a_damaged_queue_and_draft_is_kept() {
    let sql = "UPDATE queue SET content = x'ff41' WHERE content = 'queued one'; UPDATE drafts SET content = x'ff42'";
    let mut app = damaged(&prepared(), sql);
    let queued: Vec<&str> = app.agent(1).queue.iter().map(|queued| queued.text.as_str()).collect();
    assert_eq!(queued, ["\u{fffd}A", "queued two"]);
    app.switch(1);
    assert_eq!(app.draft(1).text(), "\u{fffd}B");
    app.ask(1, Change::EditQueue(QueueEdit::Resume));
    app.turn_until_idle();
    assert_eq!(app.replies(1)[app.replies(1).len() - 2..], ["\u{fffd}A", "queued two"]);
}

#[test]
fn damaged_mail_is_reported_and_can_be_deleted() {
    let mut app = damaged(&prepared(), "UPDATE mail SET from_uuid = 'nobody' WHERE body = 'first'");
    app.type_bytes(b"\x05\x15");
    for line in ["/check-mail", "/read-mail"] {
        app.enter(line);
        assert!(app.screen_text().contains("/delete-mail 1 deletes it"), "{}", app.screen_text());
        app.type_bytes(b"\x05\x15");
    }
    app.enter("/delete-mail 1");
    app.enter("/read-mail");
    assert!(app.screen_text().contains("second"), "{}", app.screen_text());
}

#[test]
fn a_truncated_file_opens_or_is_an_error_and_never_panics() {
    let prepared = prepared();
    let length = std::fs::metadata(prepared.path().join("polylogue.db")).expect("the file").len();
    let mut refused = 0;
    for cut in (0..length).step_by(1_000) {
        let directory = copy_of(prepared.path());
        let file = std::fs::OpenOptions::new().write(true).open(directory.path().join("polylogue.db"));
        file.and_then(|file| file.set_len(cut)).expect("it can be cut");
        let opened = Store::open(directory.path()).and_then(|store| {
            let config = Plan::default().config(directory.path());
            Repl::open(config, store, Clock::manual())
        });
        let Err(error) = opened else { continue };
        refused += 1;
        assert_eq!(error.kind, ErrorKind::Store);
        let is_clear = ["damaged", "not a database"].iter().any(|text| error.message.contains(text));
        assert!(is_clear, "cut at {cut}: {error}");
    }
    assert!(refused > 10, "{refused} of {length} bytes");
}
