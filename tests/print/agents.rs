//! Which agent a run uses, and what is stored.

use serde_json::Value;

use super::{Home, PROGRAM, Program, texts};
use crate::support::peer::Peer;
use crate::support::pty::Pty;

fn messages_to(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().expect("messages").iter();
    let texts = messages.filter(|message| message["role"] != "system").map(|message| message["content"].as_str());
    texts.map(|text| text.expect("text").to_owned()).collect()
}

#[test]
fn each_run_is_a_new_agent_unless_it_continues_one() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let say = |args: &[&str], reply: &str| {
        let program = home.start(args);
        let exchange = peer.accept();
        exchange.stream().text(reply).finish("stop").done();
        assert_eq!(program.ends().code, 0);
        messages_to(&exchange.request().json())
    };
    assert_eq!(say(&["-p", "one"], "1"), ["one"]);
    assert_eq!(say(&["-p", "two"], "2"), ["two"]);
    assert_eq!(say(&["-c", "-p", "three"], "3"), ["two", "2", "three"]);
    assert_eq!(say(&["-p", "four", "-r", &home.id(1)], "4"), ["one", "1", "four"]);
    assert_eq!(say(&["-p", "-c", "five"], "5"), ["one", "1", "four", "4", "five"]);
    assert_eq!(say(&["-p", "--ephemeral", "six"], "6"), ["six"]);
    assert_eq!(home.agents(), 3, "the root and two");
    assert_eq!(texts(&home.log(2)), ["two", "2", "three", "3"]);
    assert!(texts(&home.log(0)).is_empty());
}

#[test]
fn the_model_option_applies_to_the_agent_of_the_run_and_is_stored() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let asked = |args: &[&str]| {
        let program = home.start(args);
        let exchange = peer.accept();
        exchange.stream().text("well").finish("stop").done();
        assert_eq!(program.ends().code, 0);
        exchange.request().json()["model"].as_str().expect("a name").to_owned()
    };
    assert_eq!(asked(&["-p", "-m", "openai/small", "one"]), "small");
    assert_eq!(asked(&["-p", "-c", "two"]), "small");
    assert_eq!(asked(&["-p", "-c", "-m", "openai/large", "three"]), "large");
    assert_eq!(asked(&["-p", "-c", "four"]), "large");
    assert_eq!(asked(&["-p", "five"]), "test");
}

#[test]
fn the_chat_continues_agents_of_earlier_runs() {
    let home = Home::new();
    for prompt in ["the first one", "the second one"] {
        // Where the chats are started.
        let mut run = home.command(PROGRAM, &["-p", prompt]);
        run.current_dir(std::env::current_dir().expect("a directory"));
        assert_eq!(Program::start(run).ends().code, 0);
    }
    let (home_path, data) = (home.directory.path().to_str().expect("UTF-8"), home.data());
    let data = data.to_str().expect("UTF-8");
    let envs = [("HOME", home_path), ("LANG", "C.UTF-8"), ("POLYLOGUE_DATA_DIR", data)];
    for (args, seen) in [
        (&["-r", &home.id(2), "and more"][..], "the second one"),
        (&["-r", &home.id(1), "and more"], "the first one"),
        (&["-c", "--read-only"], "the first one"),
    ] {
        let mut pty = Pty::spawn(PROGRAM, args, &envs, (100, 30));
        pty.wait_for_text(seen);
        if args.contains(&"and more") {
            pty.wait_until(|pty| pty.screen_text().matches("and more").count() == 2, "the answer");
        }
        pty.leave();
    }
    assert_eq!(texts(&home.log(1)), ["the first one", "the first one", "and more", "and more"]);
    let mut pty = Pty::spawn(PROGRAM, &["-r", "nobody"], &envs, (100, 30));
    assert_eq!(pty.wait_exit().code(), Some(2));
}

#[test]
fn a_refusal_of_an_unattended_run_gives_the_reason() {
    let home = Home::new();
    let prompt = "%tool write_file {\"file_path\":\"AGENTS.md\",\"content\":\"x\"}\n%next\ndone";
    assert_eq!(home.run(&["-p", "--approval", "auto", prompt]).code, 0);
    let log = format!("{:?}", home.log(1));
    assert!(log.contains("AGENTS.md is protected: changes of it always ask), and this runs unattended"), "{log}");
}
