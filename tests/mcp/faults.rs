//! Servers that do not do what they should: each harms nobody, and is said in one line.

use std::time::Duration;

use polylogue::config::{McpServer, McpTransport};

use super::{app_with, offered, request_of, result_of, server, servers_in};
use crate::support::harness::Harness;
use crate::support::peer::Peer;
use crate::support::scene::reply_with_calls;
use crate::support::write_executable;

fn hasty(behaviour: &str) -> McpServer {
    McpServer { start_timeout: Duration::from_secs(2), call_timeout: Duration::from_secs(2), ..server(behaviour) }
}

#[test]
fn a_server_that_does_not_start_holds_up_one_request_and_is_said_in_one_line() {
    for (behaviour, line) in [
        ("crash", "mcp crash: ended with exit code 3: module not found: left-pad"),
        ("mute", "mcp mute: did not answer within 2s"),
        ("deaf", "mcp deaf: did not answer within 2s"),
        ("future", "mcp future: answered with an unknown revision of MCP: \"2099-01-01\""),
        ("nowhere", "mcp nowhere: was not started: cannot run /nowhere/program: No such file or directory"),
    ] {
        let peer = Peer::start();
        let mut bad = hasty(behaviour);
        if behaviour == "nowhere" {
            bad.transport =
                McpTransport::Stdio { command: "/nowhere/program".into(), args: Vec::new(), env: Vec::new() };
        }
        let mut app = app_with(&peer, vec![bad, server("legacy")]);
        assert_eq!(offered(&request_of(&mut app, &peer)), ["mcp__legacy__first", "mcp__legacy__second"]);
        let shown = app.screen_text().replace("\n  ", " ");
        assert_eq!(shown.matches("mcp ").count(), 1, "{shown}");
        assert!(shown.contains(line), "{line}\n{shown}");
        // The next request does not wait for it.
        request_of(&mut app, &peer);
    }
}

#[test]
fn a_program_that_has_no_network_to_download_with_is_explained_before_it_gives_up() {
    let peer = Peer::start();
    let transport = McpTransport::Stdio { command: "./npx".into(), args: Vec::new(), env: Vec::new() };
    let mut app = app_with(&peer, vec![McpServer { transport, ..server("slow") }]);
    write_executable(&app.directory().join("npx"), b"#!/bin/sh\nexec sleep 1000\n");
    app.enter("hello");
    app.turn_until("the reason", |app| {
        let shown = app.screen_text().replace("\n  ", " ");
        shown.contains("mcp slow: not started yet: npx has no network to download with")
            && shown.contains(r#"net = ["registry.npmjs.org"] in [mcp.slow] gives it one"#)
    });
}

#[test]
fn garbage_and_lies_are_left_out_and_the_other_tools_work() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("garbage"), server("liar"), server("loop")]);
    let request = request_of(&mut app, &peer);
    let expected = ["mcp__garbage__first", "mcp__liar__first", "mcp__liar__list", "mcp__loop__first"];
    assert_eq!(offered(&request), expected);
    let shown = app.screen_text();
    assert!(shown.contains("mcp liar: left out: text: its arguments are not an object"), "{shown}");
    assert!(result_of(&mut app, &peer, "mcp__garbage__first").starts_with("marker "));
}

#[test]
fn a_server_that_dies_floods_or_sends_too_much_ends_its_call_and_starts_again() {
    for (behaviour, expected) in [
        ("dies", "the MCP server dies: ended with exit code 9: out of memory"),
        ("huge", "sent a message of more than 16 MiB"),
    ] {
        let peer = Peer::start();
        let mut app = app_with(&peer, vec![server(behaviour)]);
        let tool = format!("mcp__{behaviour}__first");
        for _ in 0..2 {
            let result = result_of(&mut app, &peer, &tool);
            assert!(result.contains(expected), "{behaviour}: {result}");
        }
        app.turn_until("nothing is left", |app| servers_in(&app.directory()) == 0);
    }
}

#[test]
fn a_flood_ends_the_server_and_leaves_the_agent_alone() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("flood")]);
    request_of(&mut app, &peer);
    app.turn_until("the flood is said", |app| {
        app.screen_text().contains("mcp flood: sent 32 MiB without answering a request")
    });
    request_of(&mut app, &peer);
}

#[test]
fn a_call_that_hangs_ends_by_its_limit_or_by_esc_and_the_server_hears_of_it() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![hasty("hangs")]);
    let result = result_of(&mut app, &peer, "mcp__hangs__first");
    assert_eq!(result, "timed out: no answer within 2s");
    let took = app.tool_results(0)[0].duration;
    assert!(took >= Duration::from_secs(2), "the time of a call is that of the server: {took:?}");
    let note = app.directory().join("cancelled");
    app.turn_until("the server heard of it", |_| note.exists());
    std::fs::remove_file(&note).expect("a file");
    let shown = |app: &mut Harness| app.screen_text().matches("hangs.first").count();
    let before = shown(&mut app);
    app.enter("again");
    reply_with_calls(&app.accept(&peer), &[("mcp__hangs__first", "{}")]);
    app.turn_until("the call runs", |app| shown(app) > before);
    app.escape();
    app.turn_until_idle();
    app.turn_until("the server heard of it", |_| note.exists());
}

#[test]
fn tools_that_change_in_use_are_offered_anew() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("changing")]);
    assert_eq!(result_of(&mut app, &peer, "mcp__changing__first"), "changed");
    app.turn_until("the new tools", |app| {
        app.agent(0).inputs.environment.mcp_tools.iter().any(|tool| tool.name == "third")
    });
    assert_eq!(offered(&request_of(&mut app, &peer)), ["mcp__changing__third"]);
    let gone = result_of(&mut app, &peer, "mcp__changing__first");
    assert!(gone.contains("not offered by any MCP server now") && gone.contains("mcp__changing__third"), "{gone}");
}

#[test]
fn errors_requests_of_the_server_and_long_results_come_out_right() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("fails"), server("asks"), server("long")]);
    assert_eq!(result_of(&mut app, &peer, "mcp__fails__first"), "no such word");
    assert_eq!(result_of(&mut app, &peer, "mcp__asks__first"), "refused as it should be");
    let long = result_of(&mut app, &peer, "mcp__long__first");
    assert!(long.starts_with("start x") && long.ends_with(" end") && long.len() < 40_000, "{}", long.len());
    let (_, path) = long.split_once("100010 bytes is in ").expect("the name of a file");
    let path = path.split(']').next().expect("a name");
    assert_eq!(std::fs::read_to_string(path).expect("a file").len(), 100_010);
}
