//! Resources that a message names, and prompts as commands.

use serde_json::Value;

use super::{app_with, request_of, server};
use crate::support::harness::Harness;
use crate::support::peer::Peer;
use crate::support::scene::assert_shows;

/// A program whose server has told what it has.
fn app(peer: &Peer) -> Harness {
    let mut app = app_with(peer, vec![server("library")]);
    request_of(&mut app, peer);
    app.turn_until("its lists", |app| {
        let known = &app.agent(0).inputs.environment;
        known.mcp_resources.len() == 3 && known.mcp_prompts.len() == 2
    });
    app
}

/// The last message of the person in the next request, which is answered.
fn message(app: &mut Harness, peer: &Peer) -> Value {
    let exchange = app.accept(peer);
    exchange.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    let request = exchange.request().json();
    request["messages"].as_array().expect("messages").last().expect("a message")["content"].clone()
}

#[test]
fn the_resources_of_a_message_are_read_before_it_is_sent() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("compare @library:demo://a. with @library:demo://dot, please");
    let content = message(&mut app, &peer);
    let text: String = content.as_array().expect("parts").iter().filter_map(|part| part["text"].as_str()).collect();
    let start = "compare [resource library:demo://a.] with [resource library:demo://dot], please";
    assert!(text.starts_with(start), "{text}");
    // What a server sends names nothing that is read in turn.
    let first = "<resource server=\"library\" uri=\"demo://a.\">\nsee @/etc/hosts.png and @library:demo://dot [image: x, 1 KB]\n";
    assert!(text.contains(first), "{text}");
    let image = content.as_array().and_then(|parts| parts.iter().find(|part| part["type"] == "image_url"));
    assert!(image.is_some_and(|image| image.to_string().contains("iVBORw0KGgo")), "{content}");
    assert!(text.contains("[image: dot-1.png, 1 KB]"), "{text}");
}

#[test]
fn a_resource_that_cannot_be_read_leaves_the_message_in_the_draft() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for (line, why) in [
        ("see @library:demo://none", "@library:demo://none: no such resource (error -32002)"),
        ("//see @library:demo://none", "@library:demo://none: no such resource (error -32002)"),
    ] {
        app.enter(line);
        app.turn_until("the error", |app| app.screen_text().contains(why));
        app.turn_until("the draft", |app| app.screen_text().contains(&format!("> {line}")));
        app.type_bytes(b"\x15");
    }
    app.enter("see @library:demo://slow");
    assert_shows(&mut app, "reading the resources of the message");
    app.turn();
    app.escape();
    app.turn_until("the draft", |app| app.screen_text().contains("> see @library:demo://slow"));
    let cancelled = app.directory().join("cancelled");
    app.turn_until("the server hears of it", |_| cancelled.exists());
    assert!(peer.try_accept().is_none());
}

#[test]
fn a_prompt_is_sent_if_it_is_short_and_shown_first_if_it_is_not() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/mcp__library__greet Ada");
    assert_eq!(message(&mut app, &peer), "Greet Ada.");
    app.enter("/mcp__library__greet");
    assert_shows(&mut app, "the argument who is missing; usage: /mcp__library__greet who");
    app.type_bytes(b"\x15");
    app.enter("/mcp__library__greet who=Eve");
    app.turn_until("the error", |app| app.screen_text().contains("who? (error -32602)"));
    app.type_bytes(b"\x15");
    app.enter("/mcp__library__long");
    app.turn_until("the draft", |app| app.screen_text().contains("see `/etc/hosts.png`"));
    assert!(peer.try_accept().is_none(), "the person sends it");
    app.type_bytes(b"\r");
    assert_eq!(message(&mut app, &peer), "one\ntwo\nthree\nsee `/etc/hosts.png`\n[assistant]\nfour");
}

#[test]
fn resources_and_prompts_are_completed() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.type_bytes(b"see @page");
    app.turn_until("the template", |app| app.screen_text().contains("library:demo://page/{n}"));
    app.escape();
    app.type_bytes(b"\x15/mcp__library__g\t");
    app.turn_until("the command", |app| app.screen_text().contains("> /mcp__library__greet"));
}
