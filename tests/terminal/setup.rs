//! The panel that sets up a model: at the first start, with `/setup`, and as questions in line mode.

use std::os::unix::fs::PermissionsExt as _;

use super::{Chat, Start, is_ready};
use crate::support::peer::Peer;

const MODELS: &str = r#"{"object":"list","data":[{"id":"tiny","object":"model"},{"id":"large","object":"model"}]}"#;

/// Nothing is configured, and no variable is set.
fn unconfigured<'a>() -> Start<'a> {
    Start { envs: vec![("LANG", "C.UTF-8"), ("POLYLOGUE_MODEL", "")], size: (100, 30), ..Start::default() }
}

fn panel(start: Start) -> Chat {
    let directory = tempfile::tempdir().expect("a directory");
    let mut pty = start.on(directory.path());
    pty.wait_for_text("which provider?");
    Chat { pty, directory }
}

fn configuration(chat: &Chat) -> String {
    std::fs::read_to_string(chat.directory.path().join(".config/polylogue/config.toml")).expect("the configuration")
}

fn names_server(chat: &mut Chat, peer: &Peer) {
    chat.pty.send("another\r");
    chat.sees("the URL of the server");
    chat.pty.send(format!("{}\r", peer.url()));
}

#[test]
fn a_first_start_without_a_model_sets_one_up_and_goes_on() {
    let peer = Peer::start();
    let mut chat = panel(unconfigured());
    chat.sees("anthropic");
    names_server(&mut chat, &peer);
    peer.accept().answer(200, "application/json", MODELS);
    chat.sees("which model of server?");
    // The title is there before the list of the server.
    chat.sees("large");
    chat.pty.send("lar\r");
    let exchange = peer.accept();
    assert_eq!(exchange.request().json()["model"], "large");
    exchange.stream().text("Good day.").finish("stop").done();
    chat.sees("server/large answers: Good day.");
    chat.pty.wait_for(is_ready, "a prompt");
    assert_eq!(
        configuration(&chat),
        format!("model = \"server/large\"\n\n[providers.server]\nbase_url = \"{}\"\n", peer.url())
    );
    chat.say("hello");
    let exchange = peer.accept();
    assert_eq!(exchange.request().json()["model"], "large");
    exchange.stream().text("at work").finish("stop").usage(9, 2).done();
    chat.is_answered();
    chat.pty.send("\x04");
    chat.ends_well();
    let mut pty = unconfigured().on(chat.directory.path());
    pty.wait_for(is_ready, "a prompt, and no panel");
    assert!(!pty.screen_text().contains("which provider?"));
}

#[test]
fn enter_while_the_models_are_loaded_says_so_and_keeps_what_is_typed() {
    let peer = Peer::start();
    let mut chat = panel(unconfigured());
    names_server(&mut chat, &peer);
    let list = peer.accept();
    chat.sees("loading the models of server …");
    chat.pty.send("lar\r");
    chat.sees("press Enter again when that is done");
    list.answer(200, "application/json", MODELS);
    chat.sees("> large");
    assert!(!chat.pty.screen_text().contains("tiny"), "{}", chat.pty.screen_text());
    chat.pty.send("\r");
    assert_eq!(peer.accept().request().json()["model"], "large");
}

#[test]
fn ctrl_c_leaves_at_every_step_as_escape_does_at_the_first() {
    for steps in ["", "another\r"] {
        let mut chat = panel(unconfigured());
        chat.pty.send(steps);
        chat.sees(if steps.is_empty() { "which provider?" } else { "the URL of the server" });
        chat.pty.send("\x03");
        chat.sees("the built-in echo answers; polylogue setup or /setup chooses a model");
        chat.sees_draft("");
    }
}

#[test]
fn escape_leaves_with_echo_and_says_how_to_come_back() {
    let mut chat = panel(unconfigured());
    chat.pty.send("\x1b");
    chat.sees("the built-in echo answers; polylogue setup or /setup chooses a model");
    chat.sees_draft("");
    chat.pty.send("hello there\r");
    chat.sees_answer("hello there", "hello there");
    chat.pty.send("/setup\r");
    chat.sees("which provider?");
    chat.pty.send("\x1b");
    chat.sees_draft("");
    assert!(!chat.directory.path().join(".config/polylogue/config.toml").exists());
}

#[test]
fn a_refused_key_is_asked_for_and_kept_for_the_person_alone() {
    let peer = Peer::start();
    let mut chat = panel(unconfigured());
    names_server(&mut chat, &peer);
    peer.accept().error(401, "invalid_api_key", "no key");
    chat.sees("where is the key of server?");
    chat.pty.send("\r");
    chat.sees("the key of server");
    chat.pty.send("k-1234567890");
    chat.sees("••••••••••••");
    chat.pty.send("\r");
    let exchange = peer.accept();
    assert_eq!(exchange.request().header("authorization"), Some("Bearer k-1234567890"));
    exchange.answer(200, "application/json", MODELS);
    chat.sees("which model of server?");
    // The title is there before the list of the server.
    chat.sees("large");
    chat.pty.send("\r");
    let exchange = peer.accept();
    exchange.error(404, "not_found", "no such model today");
    chat.sees("no such model today");
    chat.pty.send("\r");
    peer.accept().stream().text("Hello.").finish("stop").done();
    chat.sees("server/tiny answers: Hello.");
    let key = chat.directory.path().join(".config/polylogue/keys/server");
    assert_eq!(std::fs::read_to_string(&key).expect("the key"), "k-1234567890\n");
    assert_eq!(std::fs::metadata(&key).expect("a file").permissions().mode() & 0o777, 0o600);
    let text = configuration(&chat);
    assert!(text.contains(&format!("api_key_command = \"cat '{}'\"", key.display())), "{text}");
    assert!(!text.contains("k-1234567890"));
    assert!(!chat.pty.screen_text().contains("k-1234567890"));
}

#[test]
fn a_provider_whose_variable_is_set_comes_first() {
    let mut start = unconfigured();
    start.envs.push(("XAI_API_KEY", "k"));
    let mut chat = panel(start);
    chat.sees("> xai");
    chat.sees("XAI_API_KEY is set");
}

#[test]
fn in_line_mode_the_steps_are_questions() {
    let peer = Peer::start();
    let mut start = unconfigured();
    start.args = vec!["--plain"];
    let mut chat = panel(start);
    chat.sees("another server");
    chat.sees("type a number, then Enter");
    let text = chat.pty.screen_text();
    let number = text.lines().find(|line| line.contains("another server")).expect("it is listed").trim();
    let number = number.split_whitespace().next().expect("a number").to_owned();
    chat.pty.send(format!("{number}\r"));
    chat.sees("the URL of the server");
    chat.pty.send(format!("{}\r", peer.url()));
    peer.accept().answer(200, "application/json", MODELS);
    chat.sees("2  large");
    chat.pty.send("2\r");
    peer.accept().stream().text("Good day.").finish("stop").done();
    chat.sees("server/large answers: Good day.");
}
