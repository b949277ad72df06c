//! The wall: agents as live tiles.

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::openai::last_user_text;
use crate::support::peer::Peer;
use crate::support::scene::{app_with_agents, assert_shows};

const ALT_W: &[u8] = b"\x1bw";

fn named(names: &[&str]) -> Harness {
    let mut app = app_with_agents(1, Plan { size: Some((100, 30)), ..Plan::default() });
    for name in names {
        app.fork_named(0, name);
    }
    app
}

#[test]
fn tiles_show_what_agents_do_while_they_stream() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, Plan { size: Some((100, 30)), ..Plan::peer(&peer.url()) });
    app.say(1, "hello");
    let exchange = app.accept(&peer);
    app.type_bytes(ALT_W);
    assert_shows(&mut app, "── wall ─ 3 agents ─ 1 at work");
    assert_shows(&mut app, "waits");
    exchange.stream().text("The handler");
    app.turn_until("text in the tile", |app| app.screen_text().contains("The handler"));
    assert_shows(&mut app, "writes");
    exchange.text(" returns 404").finish("stop").done();
    app.turn_until("the rest", |app| app.screen_text().contains("The handler returns"));
    app.turn_until_idle();
    app.turn();
    assert!(!app.screen_text().contains("writes"));
}

#[test]
fn stored_conversations_are_in_the_tiles_after_a_restart() {
    let mut app = app_with_agents(3, Plan::default());
    app.say(2, "what was said before");
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    app.type_bytes(ALT_W);
    assert_shows(&mut app, "what was said");
}

#[test]
fn a_text_goes_to_the_marked_agent_to_the_chosen_ones_or_to_all() {
    let mut app = named(&["api", "web", "docs"]);
    app.type_bytes(ALT_W);
    app.type_bytes(b"2\ronly web\r");
    app.turn_until_idle();
    app.type_bytes(b"1 ");
    app.type_bytes(b"3 ");
    app.type_bytes(b"*");
    assert_shows(&mut app, "to api, docs: Enter sends");
    app.type_bytes(b"both\r");
    app.turn_until_idle();
    app.escape();
    app.type_bytes(b"*all\r");
    app.turn_until_idle();
    let replies = ["agent 0", "api", "web", "docs"].map(|name| {
        let n = app.repl.roster().iter().position(|agent| agent.identity.label() == name).expect("the agent");
        app.replies(n).join(" ")
    });
    assert_eq!(replies, ["all", "both all", "only web all", "both all"]);
    assert_eq!(app.focus(), 0);
}

#[test]
fn a_filter_shows_those_with_the_name_the_state_or_the_directory() {
    let mut app = named(&["api", "web"]);
    app.say(2, "%hang");
    app.turn();
    app.type_bytes(ALT_W);
    app.type_bytes(b"/waits");
    assert_shows(&mut app, "── wall ─ 1 agent ─ 1 at work ─ /waits");
    app.type_bytes(b"\x1b[D\x1b[D\x7fi");
    assert_shows(&mut app, "── wall ─ 1 agent ─ 1 at work ─ /wai▌ts");
    app.type_bytes(b"\r*late\r");
    assert_eq!(app.agent(2).queue.len(), 1);
    app.escape();
    assert_shows(&mut app, "── wall ─ 3 agents");
    app.type_bytes(b"s");
    assert_eq!(app.state(2), State::Idle);
}

#[test]
fn a_kill_is_asked_about_and_agent_0_is_never_killed() {
    let mut app = named(&["api", "web"]);
    app.type_bytes(ALT_W);
    app.type_bytes(b"0XX");
    assert_shows(&mut app, "agent 0 cannot be killed");
    app.type_bytes(b"1X");
    assert_shows(&mut app, "X again kills the marked agent");
    app.type_bytes(b"\x1b[C");
    app.type_bytes(b"X");
    assert_eq!(app.repl.roster().len(), 3, "another key between takes it back");
    app.type_bytes(b"X");
    assert_eq!(app.repl.roster().len(), 2);
    assert_shows(&mut app, "── wall ─ 2 agents");
}

#[test]
fn a_question_is_never_allowed_from_a_tile_and_opens_in_the_inbox() {
    let mut app = app_with_agents(2, Plan { real_time: true, ..Plan::default() });
    app.say(1, "%tool bash {\"command\":\"touch one\"}");
    app.turn_until_asked(1);
    app.type_bytes(ALT_W);
    assert_shows(&mut app, "ASKS");
    app.type_bytes(b"1y");
    assert_shows(&mut app, "── inbox ─ 1 ask");
    assert_eq!(app.state(1), State::AwaitingApproval);
    app.press_at_question(b"y");
    app.turn_until_idle();
    assert!(app.directory().join("one").exists());
}

#[test]
fn more_agents_than_fit_are_on_pages_and_the_zoomed_one_fills_the_screen() {
    let mut app = app_with_agents(40, Plan { size: Some((80, 24)), ..Plan::default() });
    app.type_bytes(ALT_W);
    assert_shows(&mut app, "── wall ─ 40 agents ─ 1 to 12");
    app.type_bytes(b"\x1b[6~");
    assert_shows(&mut app, "─ 13 to 24");
    app.type_bytes(b"39");
    assert_shows(&mut app, "─ 37 to 40");
    app.type_bytes(b"z");
    let screen = app.screen_text();
    assert_eq!(screen.matches('┌').count(), 1, "{screen}");
    app.type_bytes(b"g");
    assert_eq!(app.focus(), 39);
    for size in [(20, 6), (10, 3), (2, 2), (1, 1), (200, 60)] {
        app.resize(size);
        app.type_bytes(ALT_W);
        app.turn();
        app.type_bytes(ALT_W);
    }
}

#[test]
fn a_message_to_many_is_one_message_to_each_also_beside_a_slow_server() {
    let peer = Peer::start();
    let mut app = app_with_agents(4, Plan::peer(&peer.url()));
    app.type_bytes(ALT_W);
    app.type_bytes(b"*why?\r");
    let exchanges: Vec<_> = (0..4).map(|_| app.accept(&peer)).collect();
    for exchange in exchanges {
        assert_eq!(last_user_text(&exchange.request().json()), "why?");
        exchange.stream().text("because").finish("stop").done();
    }
    app.turn_until_idle();
    assert_eq!([0, 1, 2, 3].map(|n| app.replies(n)), [["because"]; 4].map(|r| r.map(str::to_owned).to_vec()));
}
