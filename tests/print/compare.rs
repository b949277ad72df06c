//! `polylogue compare`: one prompt for several models, as a process with pipes, against scripted servers.

use rustix::process::Signal;
use serde_json::Value;

use super::Home;
use super::served::Server;
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::program::Response;

/// A home whose provider answers for every model.
fn home() -> (Peer, Home) {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    (peer, home)
}

/// The requests of these models, in this order.
fn accept<const N: usize>(peer: &Peer, models: [&str; N]) -> [Exchange; N] {
    let mut came: Vec<Exchange> = models.iter().map(|_| peer.accept()).collect();
    models.map(|model| {
        let at = came.iter().position(|exchange| exchange.request().json()["model"] == model);
        came.swap_remove(at.unwrap_or_else(|| panic!("no request for {model}")))
    })
}

fn objects(response: &Response) -> Vec<Value> {
    response.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

const MODELS: &str = "openai/one,openai/two,openai/three";

/// The second model answers first, and the third fails. Afterwards the agents are archived.
fn compare_in(peer: &Peer, home: &Home) {
    let program = home.start(&["compare", "--models", MODELS, "--json", "which", "crate?"]);
    let [one, two, three] = accept(peer, ["one", "two", "three"]);
    two.stream().text("Use two.").finish("stop").usage(20, 3).done();
    three.error(401, "invalid_api_key", "the key is wrong");
    assert_eq!(last_user_text(&one.request().json()), "which crate?");
    one.stream().text("Use ").text("one.").finish("stop").usage(10, 2).done();
    let output = program.ends();
    let answers = objects(&output);
    let field = |name: &str| answers.iter().map(|answer| answer[name].clone()).collect::<Vec<Value>>();
    assert_eq!(field("letter"), ["a", "b", "c"]);
    assert_eq!(field("model"), ["openai/one", "openai/two", "openai/three"]);
    assert_eq!(field("text"), ["Use one.", "Use two.", ""]);
    assert_eq!(field("outcome"), ["completed", "completed", "failed"]);
    assert_eq!((&answers[0]["usage"]["input"], &answers[1]["usage"]["output"]), (&10.into(), &3.into()));
    assert_eq!((&answers[2]["error"]["kind"], output.code), (&"auth".into(), 3), "{output:?}");
    assert_eq!(home.run(&["ps", "--archived", "--json"]).out.lines().count(), 3);
    assert_eq!(home.run(&["ps", "--json"]).out.lines().count(), 1);
    let log = home.run(&["logs", answers[1]["agent"].as_str().expect("an id")]).out;
    assert!(log.contains("which crate?") && log.contains("Use two."), "{log}");
    assert!(field("ms").iter().all(Value::is_u64) && field("type").iter().all(|kind| kind == "answer"));
}

#[test]
fn every_model_gets_the_prompt_and_the_answers_come_in_their_order() {
    let (peer, home) = home();
    compare_in(&peer, &home);
}

#[test]
fn the_agents_of_a_server_are_asked_while_it_holds_the_data_directory() {
    let (peer, home) = home();
    let _server = Server::at(&home);
    compare_in(&peer, &home);
}

#[test]
fn text_has_a_heading_for_each_model_and_notes_go_to_standard_error() {
    let (peer, home) = home();
    let program = home.start(&["compare", "--models", "openai/one,openai/two", "x"]);
    let [one, two] = accept(&peer, ["one", "two"]);
    one.stream().text("First.").finish("stop").usage(1_000, 234).done();
    assert!(program.line().starts_with("── a openai/one ── "), "an answer is printed when it is complete");
    assert_eq!(program.line(), "First.");
    two.error(400, "invalid_request_error", "no such model");
    let output = program.ends();
    assert!(output.out.contains("── b openai/two ── failed"), "{output:?}");
    assert!(output.err.contains("openai/two: ") && output.err.contains("no such model"), "{output:?}");
    assert_ne!(output.code, 0);
}

#[test]
fn a_timeout_or_a_signal_prints_what_came_and_stops_the_rest() {
    for served in [false, true] {
        let (peer, home) = home();
        let _server = served.then(|| Server::at(&home));
        let program = home.start(&["compare", "--models", "openai/one,openai/two", "--json", "x"]);
        let [one, two] = accept(&peer, ["one", "two"]);
        two.stream().text("Done.").finish("stop").done();
        one.stream().text("Half");
        program.signal(Signal::INT);
        one.wait_for_close();
        let output = program.ends();
        let outcomes: Vec<Value> = objects(&output).iter().map(|answer| answer["outcome"].clone()).collect();
        assert_eq!((output.code, outcomes[0].clone()), (130, "interrupted".into()), "{output:?}");
    }
    let (peer, home) = home();
    let program = home.start(&["compare", "--models", "openai/one", "--timeout", "4", "x"]);
    let [one] = accept(&peer, ["one"]);
    one.stream().text("Half");
    let output = program.ends();
    assert_eq!(output.code, 4, "{output:?}");
    assert!(output.err.contains("--timeout"), "{output:?}");
}

/// The agents of another run would end with this one.
#[test]
fn another_run_waits_until_the_models_have_answered() {
    let (peer, home) = home();
    let comparing = home.start(&["compare", "--models", "openai/one", "--json", "first"]);
    let [one] = accept(&peer, ["one"]);
    let waiting = home.start(&["-p", "-m", "openai/two", "second"]);
    let note = waiting.err.recv_timeout(crate::support::PATIENCE).expect("a note");
    let note = String::from_utf8_lossy(&note).into_owned();
    assert!(note.contains("another polylogue run that holds "), "{note}");
    one.stream().text("1").finish("stop").done();
    assert_eq!(comparing.ends().code, 0);
    let [two] = accept(&peer, ["two"]);
    two.stream().text("2").finish("stop").done();
    let output = waiting.ends();
    assert_eq!((output.code, &*output.out), (0, "2\n"), "{output:?}");
}

#[test]
fn a_model_that_is_not_configured_asks_nobody() {
    let (peer, home) = home();
    for (args, expected) in [
        (&["compare", "--models", "openai/one,nowhere/two", "x"][..], "nowhere"),
        (&["compare", "--models", ",", "x"], "1 to 17 models"),
        (&["compare", "x"], "--models"),
    ] {
        let output = home.run(args);
        assert_eq!(output.code, 2, "{args:?} {output:?}");
        assert!(output.err.contains(expected), "{args:?} {output:?}");
    }
    assert!(peer.try_accept().is_none());
}
