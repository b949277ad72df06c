//! What is typed belongs to a terminal: two at one agent have a draft each.

use std::time::Duration;

use polylogue::{ArchiveAct, Change, QueueEdit};

use crate::support::attached::{ATTACHED, AttachedTerminal, WATCHING};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{DraftSlot, Probe};
use crate::support::peer::Peer;
use crate::support::scene::{app_with_agents, assert_shows};

/// The drafts of agent `n` in the store.
fn stored(app: &Harness, n: usize) -> Vec<(u32, String)> {
    let drafts = app.repl.store().drafts(app.id(n)).expect("the drafts");
    drafts.into_iter().map(|(slot, text)| (slot.0, text)).collect()
}

fn in_memory(app: &Harness, n: usize, slot: u32) -> String {
    app.agent(n).view.drafts.get(DraftSlot(slot)).map(|draft| draft.expanded()).unwrap_or_default()
}

#[test]
fn two_terminals_at_one_agent_have_a_draft_each_and_each_sends_its_own() {
    let mut app = app_with_agents(1, Plan::default());
    let mut other = AttachedTerminal::new(&mut app, (60, 20), 0, ATTACHED);
    app.type_bytes(b"one");
    other.type_bytes(&mut app, b"two");
    assert_shows(&mut app, "> one");
    other.assert_sees(&mut app, "> two");
    other.type_bytes(&mut app, b"\r");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["two"]);
    assert_shows(&mut app, "> one");
    other.assert_does_not_see(&mut app, "> two");
    app.type_bytes(b" more\r");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["two", "one more"]);
}

#[test]
fn both_drafts_are_stored_250_ms_after_their_last_key_and_survive_a_crash() {
    let mut app = app_with_agents(2, Plan::default());
    let other = AttachedTerminal::new(&mut app, (60, 20), 0, ATTACHED);
    app.type_bytes(b"one");
    app.advance(Duration::from_millis(100));
    other.type_bytes(&mut app, b"two");
    app.advance(Duration::from_millis(150));
    assert_eq!(stored(&app, 0), [(0, "one".into())], "250 ms after the last key there");
    app.advance(Duration::from_millis(100));
    assert_eq!(stored(&app, 0), [(0, "one".into()), (1, "two".into())]);
    assert_eq!(app.timeout().after, None, "nothing wakes the loop afterwards");

    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "> one");
    let mut other = AttachedTerminal::new(&mut app, (60, 20), 0, ATTACHED);
    other.assert_sees(&mut app, "> two");
}

#[test]
fn a_terminal_that_comes_alone_after_a_crash_gets_the_draft_of_the_one_that_is_gone() {
    let mut app = app_with_agents(2, Plan::default());
    let other = AttachedTerminal::new(&mut app, (60, 20), 1, ATTACHED);
    other.type_bytes(&mut app, b"typed at the second");
    app.advance(Duration::from_millis(250));
    let mut app = app.crash_and_restart();
    app.switch(1);
    assert_shows(&mut app, "> typed at the second");
    assert_eq!(stored(&app, 1), [(0, "typed at the second".into())]);
}

#[test]
fn a_draft_stays_with_its_terminal_at_every_agent_and_with_the_next_terminal_when_it_is_gone() {
    let mut app = app_with_agents(2, Plan::default());
    let mut other = AttachedTerminal::new(&mut app, (60, 20), 0, ATTACHED);
    app.type_bytes(b"first at 0");
    other.type_bytes(&mut app, b"second at 0");
    app.type_bytes(b"\x1b1");
    other.type_bytes(&mut app, b"\x1b1");
    app.type_bytes(b"first at 1");
    other.assert_does_not_see(&mut app, "first at 1");
    // The first one shows another agent: its draft is still its own.
    other.type_bytes(&mut app, b"\x1b0");
    other.assert_sees(&mut app, "> second at 0");
    app.repl.detach_device(other.at);
    assert_eq!(stored(&app, 0), [(0, "first at 0".into()), (1, "second at 0".into())]);
    let mut next = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    next.assert_sees(&mut app, "> second at 0");
    app.type_bytes(b"\x1b0");
    assert_shows(&mut app, "> first at 0");
}

#[test]
fn a_read_only_terminal_has_no_slot_and_shows_what_is_typed_first() {
    let mut app = app_with_agents(1, Plan::default());
    let mut watcher = AttachedTerminal::new(&mut app, (60, 20), 0, WATCHING);
    let mut other = AttachedTerminal::new(&mut app, (60, 20), 0, ATTACHED);
    other.type_bytes(&mut app, b"second");
    watcher.assert_sees(&mut app, "> second");
    watcher.type_bytes(&mut app, b"own");
    app.advance(Duration::from_millis(250));
    assert_eq!(stored(&app, 0), [(1, "second".into())]);
    other.assert_sees(&mut app, "> second");
}

#[test]
fn a_message_that_no_model_has_seen_returns_to_the_terminal_at_which_it_was_typed() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    let mut other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    app.type_bytes(b"mine");
    other.enter(&mut app, "theirs");
    app.accept(&peer).answer(401, "application/json", "{\"error\":{\"message\":\"no\"}}");
    app.turn_until_idle();
    assert_eq!((in_memory(&app, 0, 0), in_memory(&app, 0, 1)), ("mine".into(), "theirs".into()));
    other.assert_sees(&mut app, "> theirs");
}

#[test]
fn a_queued_entry_is_taken_back_to_the_terminal_that_asks_and_a_client_overwrites_nothing() {
    let mut app = app_with_agents(1, Plan::default());
    let mut other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    app.say(0, "%hang");
    app.enter("first entry");
    app.enter("second entry");
    app.type_bytes(b"half a thought");
    other.type_bytes(&mut app, b"\x1b[A");
    other.assert_sees(&mut app, "> second entry");
    assert_eq!(app.draft(0).text(), "half a thought");
    // Asked for by no terminal.
    app.ask(0, Change::EditQueue(QueueEdit::TakeBackNewest));
    assert_eq!(app.draft(0).text(), "first entry\nhalf a thought");
}

#[test]
fn a_draft_whose_agent_is_removed_from_another_terminal_goes_to_the_agent_that_is_shown_then() {
    for way in ["kill", "delete"] {
        let mut app = app_with_agents(2, Plan::default());
        app.switch(1);
        let mut other = AttachedTerminal::new(&mut app, (60, 20), 1, ATTACHED);
        app.type_bytes(b"typed here");
        other.type_bytes(&mut app, b"typed there");
        let victim = app.id(1);
        let remove = match way {
            "kill" => Change::Kill { agent_id: victim, cascade: false },
            _ => Change::Delete(victim),
        };
        app.ask(0, remove);
        app.turn();
        assert_eq!(app.focus(), 0);
        assert_shows(&mut app, "> typed here");
        other.assert_sees(&mut app, "> typed there");
        let mut app = app.crash_and_restart();
        assert_shows(&mut app, "> typed here");
        let mut other = AttachedTerminal::new(&mut app, (60, 20), 0, ATTACHED);
        other.assert_sees(&mut app, "> typed there");
    }
}

#[test]
fn a_draft_of_a_removed_agent_that_no_terminal_shows_is_in_the_history_of_inputs() {
    for restarts in [false, true] {
        let mut app = app_with_agents(3, Plan::default());
        app.switch(1);
        app.type_bytes(b"half a thought");
        app.switch(2);
        app.advance(Duration::from_millis(300));
        if restarts {
            app = app.crash_and_restart();
            app.switch(2);
        }
        app.type_bytes(b"another");
        let kill = Change::Kill { agent_id: app.id(1), cascade: false };
        app.ask(0, kill);
        app.turn();
        assert_shows(&mut app, "> another");
        app.type_bytes(b"\x10");
        assert_shows(&mut app, "> half a thought");
    }
}

#[test]
fn a_draft_to_an_agent_that_is_archived_comes_back_with_it() {
    let mut app = app_with_agents(2, Plan::default());
    app.switch(1);
    app.type_bytes(b"half a thought");
    let archived = app.id(1);
    app.ask(0, Change::Archive(ArchiveAct::Archive(archived)));
    app.turn();
    assert!(!app.screen_text().contains("half a thought"));
    app.ask(0, Change::Archive(ArchiveAct::Unarchive(archived)));
    app.switch(1);
    assert_shows(&mut app, "> half a thought");
}
