//! The separator and the status line.

use std::fs;

use polylogue::config::{DisplaySettings, ModelFacts, Policy, Prices, ProviderEntry, StatusField};

use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::Wait;
use crate::support::peer::Peer;
use crate::support::scene::{app_with_agents, assert_shows};

fn separator(app: &mut Harness) -> String {
    let screen = app.screen_text();
    let line = screen.lines().rfind(|line| line.starts_with("── ")).expect("a separator");
    line.trim_end_matches('─').trim_end().to_owned()
}

fn status(app: &mut Harness) -> String {
    app.screen_text().lines().last().expect("a status line").trim().to_owned()
}

#[test]
fn who_asks_comes_first_on_every_terminal_and_who_has_finished_stays_until_it_is_shown() {
    for (columns, expected) in [
        (20, "── !1 asks ─ own"),
        (40, "── !1 asks ─ own ↑ agent 0 ─ ●1 new"),
        (80, "── !deploy asks ─ own ↑ agent 0 ─ ●docs new"),
        (200, "── !deploy asks ─ own ↑ agent 0 ─ ●docs new"),
    ] {
        let mut app = app_with_agents(1, Plan { size: Some((columns, 20)), ..Plan::default() });
        let [deploy, docs, own] = ["deploy", "docs", "own"].map(|name| app.fork_named(0, name));
        app.switch(own);
        app.say(docs, "hello");
        app.turn_until_idle();
        app.say(deploy, "%tool bash {\"command\":\"echo it ran\"}");
        app.turn_until_asked(deploy);
        app.turn();
        assert_eq!(separator(&mut app), expected);
        app.switch(docs);
        app.switch(own);
        app.turn();
        assert!(!separator(&mut app).contains('●'), "{columns}");
        app.say(own, "hello");
        app.turn_until("the reply", |app| !app.replies(own).is_empty());
        assert!(!separator(&mut app).contains('●'), "{columns}: what is on the screen was seen");
    }
}

#[test]
fn an_agent_that_was_interrupted_or_removed_has_not_finished() {
    let mut app = app_with_agents(3, Plan::default());
    app.say(1, "%hang");
    app.turn();
    app.ask(1, polylogue::Change::Interrupt);
    app.say(2, "hello");
    app.turn_until_idle();
    assert_eq!(separator(&mut app), "── agent 0 ─ ●agent 2 new");
    app.enter("/kill 2");
    assert_eq!(separator(&mut app), "── agent 0");
}

#[test]
fn the_status_line_shows_directory_branch_model_and_context() {
    let peer = Peer::start();
    let mut model = endpoint("openai", "test", &peer.url());
    model.facts = ModelFacts { context: Some(20), ..ModelFacts::default() };
    let mut app = Harness::new(Plan { endpoint: model, size: Some((100, 20)), ..Plan::default() });
    let name = app.directory().file_name().expect("a name").to_string_lossy().into_owned();
    assert_shows(&mut app, &format!("{name}   ask   test   "));
    fs::create_dir(app.directory().join(".git")).expect("a repository");
    fs::write(app.directory().join(".git/HEAD"), "ref: refs/heads/topic\n").expect("a branch");
    app.enter("/approval auto");
    app.say(0, "hello");
    app.accept(&peer).stream().text("hello").usage(4, 1).finish("stop").done();
    app.turn_until_idle();
    app.turn();
    assert_shows(&mut app, &format!("{name} topic   auto   test   ctx 25%   5 tokens   "));
}

#[test]
fn what_was_spent_is_in_the_footer_of_a_turn_and_in_the_status_line_with_what_is_left() {
    let peer = Peer::start();
    let mut model = endpoint("openai", "test", &peer.url());
    let prices = Prices { input: 3_000_000, ..Prices::default() };
    model.facts = ModelFacts { prices: Some(prices), ..ModelFacts::default() };
    let mut app = Harness::new(Plan { endpoint: model, size: Some((120, 20)), ..Plan::default() });
    app.advance(std::time::Duration::from_secs(60));
    app.say(0, "hello");
    app.accept(&peer).stream().text("hello").usage(100_000, 1).finish("stop").done();
    app.turn_until_idle();
    assert_shows(&mut app, "100,001 tokens, $0.30, ");
    assert!(status(&mut app).contains("   $0.30   "), "{}", status(&mut app));
    app.enter("/limit usd 1");
    assert_shows(&mut app, "agent 0 and the agents that models made below it have spent $0.30 of $1");
    assert!(status(&mut app).contains("   $0.30 ($0.70 left)   "), "{}", status(&mut app));
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "100,001 tokens, $0.30, ");
    assert!(status(&mut app).contains("   $0.30 ($0.70 left)   "), "{}", status(&mut app));
}

#[test]
fn the_fields_of_the_status_line_are_those_of_the_configuration() {
    let display =
        DisplaySettings { status: vec![StatusField::Model, StatusField::Approval], ..DisplaySettings::default() };
    let mut app = Harness::new(Plan { display, policy: Policy::Plan, size: Some((40, 10)), ..Plan::default() });
    assert_eq!(status(&mut app), format!("echo   plan{:>27}", "? keys"));
}

#[test]
fn the_provider_of_a_model_is_shown_where_its_name_is_not_enough() {
    let provider = |name: &str, model: &str| ProviderEntry {
        name: name.into(),
        kind: "openai".into(),
        base_url: "http://127.0.0.1:9/v1".into(),
        models: vec![(model.into(), ModelFacts::default())],
        ..ProviderEntry::default()
    };
    for (other, expected) in [("two", "ask   one   "), ("one", "ask   far/one   ")] {
        let endpoint = provider("far", "one").endpoint("one");
        let providers = vec![provider("near", other)];
        let mut app = Harness::new(Plan { endpoint, providers, size: Some((80, 10)), ..Plan::default() });
        assert!(status(&mut app).contains(expected), "{}", status(&mut app));
    }
}

#[test]
fn a_policy_that_allows_more_is_seen() {
    for (policy, is_dim, is_bold, is_inverse) in [
        (Policy::Ask, true, false, false),
        (Policy::Plan, false, true, false),
        (Policy::Auto, false, true, false),
        (Policy::Yolo, false, true, true),
    ] {
        let display = DisplaySettings { status: vec![StatusField::Approval], ..DisplaySettings::default() };
        let mut app = Harness::new(Plan { display, policy, size: Some((40, 10)), ..Plan::default() });
        let cell = app.screen().cell(9, 1).expect("the first letter of the policy").clone();
        assert_eq!((cell.dim(), cell.bold(), cell.inverse()), (is_dim, is_bold, is_inverse), "{policy}");
    }
}

#[test]
fn an_empty_conversation_shows_what_to_do_with_many_agents_until_something_is_said() {
    let terms = ["  /fork TASK ", "  Alt+A ", "  Alt+W ", "  /ask --models M,N "];
    let shown = |app: &mut Harness| {
        let screen = app.screen_text();
        terms.map(|term| screen.lines().any(|line| line.starts_with(term)))
    };
    let mut app = Harness::new(Plan { size: Some((80, 24)), ..Plan::default() });
    assert_eq!(shown(&mut app), [true; 4]);
    app.enter("hello");
    app.turn_until_idle();
    assert_eq!(shown(&mut app), [false; 4]);
    app.enter("/fork --name child");
    assert_eq!(shown(&mut app), [false; 4], "it knows what was said before");
    app.enter("/new");
    assert_eq!(shown(&mut app), [true; 4]);
    app.resize((80, 6));
    assert_eq!(shown(&mut app), [false; 4], "all or nothing");
}

#[test]
fn why_an_agent_waits_is_read_in_two_rows_and_cut_visibly() {
    let mut app = Harness::new(Plan { size: Some((60, 20)), ..Plan::default() });
    app.enter("%fail 429 retry-after=24 too many requests, the limit is three an hour");
    app.turn_until("it waits", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
    let screen = app.screen_text();
    let at = screen.lines().position(|line| line.contains("retrying in 24 s")).expect("the reason");
    let second = screen.lines().nth(at + 1).expect("a row");
    assert!(second.starts_with("  ") && second.contains("rate limit reached"), "{screen}");
    app.resize((44, 20));
    let screen = app.screen_text();
    let at = screen.lines().position(|line| line.contains("retrying in 24 s")).expect("the reason");
    assert!(screen.lines().nth(at + 1).is_some_and(|row| row.ends_with('…')), "{screen}");
}

#[test]
fn raw_keeps_notes_that_are_not_stored_where_they_were() {
    let mut app = app_with_agents(1, Plan { size: Some((80, 40)), ..Plan::default() });
    app.say(0, "**one**");
    app.turn_until_idle();
    app.enter("/name first");
    app.enter("/name");
    app.say(0, "**two**");
    app.turn_until_idle();
    app.enter("/name second");
    app.enter("/name");
    app.turn();
    let rows = |app: &mut Harness| {
        let screen = app.screen_text();
        let marks = ["one", "two", "this agent is first", "this agent is second", "many agents"];
        let found = |line: &str| marks.iter().find(|mark| line.contains(**mark)).copied();
        screen.lines().filter_map(found).collect::<Vec<&str>>()
    };
    let before = rows(&mut app);
    assert!(before.len() >= 7, "{before:?}: {}", app.screen_text());
    app.enter("/raw");
    assert!(app.screen_text().contains("**one**"));
    assert_eq!(rows(&mut app), before);
    app.enter("/raw");
    assert_eq!(rows(&mut app), before, "{}", app.screen_text());
}

#[test]
fn after_a_restart_a_mark_is_below_the_end_of_the_turn_before_it_as_it_was() {
    let mut app = app_with_agents(1, Plan::default());
    app.advance(std::time::Duration::from_secs(60));
    app.enter("hello");
    app.turn_until_idle();
    app.enter("/mark here");
    app.enter("again");
    app.turn_until_idle();
    let order = |app: &mut Harness| -> Vec<&'static str> {
        app.turn();
        let parts = ["┃ hello", " tokens, ", "- mark here", "┃ again", " tokens, "];
        let screen = app.screen_text();
        let shown = screen.lines().filter_map(|row| parts.into_iter().find(|part| row.contains(part)));
        shown.collect()
    };
    let before = order(&mut app);
    assert_eq!(before, ["┃ hello", " tokens, ", "- mark here", "┃ again", " tokens, "]);
    let mut app = app.crash_and_restart();
    assert_eq!(order(&mut app), before);
}
