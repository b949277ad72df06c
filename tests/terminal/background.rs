//! Three agents at once: each reply is complete and shown with its own agent.

use super::{Chat, Start, replies};
use crate::support::internals::Body;
use crate::support::peer::Peer;

/// What a person does who cannot decide whom to look at.
const SWITCHES: &str = "\x1b1\x1b2\x1b0\x1b[1;5B\x1b[1;5D\x1b[1;5A\x1b2";

#[test]
fn one_streams_one_runs_a_command_and_one_is_talked_to() {
    let mut chat = Chat::start(Start { size: (80, 30), ..Start::default() });
    for name in ["bea", "cal"] {
        chat.pty.send(format!("\x1b0/fork --name {name}\r"));
        chat.sees(&format!("── {name} "));
    }
    let long: Vec<String> = (0..400).map(|n| format!("a{n}")).collect();
    let long = long.join(" ");
    chat.pty.send("\x1b0");
    chat.sees("── agent 0 ");
    chat.say(&format!("%slow 5\n{long}"));
    chat.sees("  a0 a1");
    chat.pty.send("\x1b1");
    chat.sees("── bea ");
    chat.say("%tool bash {\"command\":\"sleep 1; echo $(echo done)\"}");
    chat.sees("y to run it");
    chat.pty.send("y\x1b2");
    chat.sees("── cal ");
    for c in "typed while others work".chars() {
        chat.pty.send(c.to_string());
        chat.pty.send(SWITCHES);
    }
    chat.sees("── cal ");
    chat.sees_draft("typed while others work");
    chat.pty.send("\r");
    chat.sees_answer("typed while others work", "typed while others work");
    chat.pty.send("\x1b1");
    chat.sees("bash: done");
    assert!(!chat.pty.screen_text().contains("a0 a1"));
    chat.pty.send("\x1b0");
    chat.sees("a399\n");
    chat.pty.wait_for(|screen| !screen.contents().contains("Esc stops it"), "the end of the long reply");
    chat.pty.send("\x04");
    chat.ends_well();
    let logs = chat.logs();
    assert_eq!(replies(&logs[0]), [long.as_str()]);
    assert_eq!(replies(&logs[1]), ["bash: done\n"]);
    assert_eq!(replies(&logs[2]), ["typed while others work"]);
    let results = logs[1].iter().filter(|message| matches!(message.body, Body::ToolResult(_))).count();
    assert_eq!(results, 1);
}

#[test]
fn three_agents_on_a_server_are_never_mixed_however_one_switches() {
    let peer = Peer::start();
    let url = peer.url();
    let mut chat = Chat::start(Start::with_server(&url));
    for name in ["bea", "cal"] {
        chat.pty.send(format!("\x1b0/fork --name {name}\r"));
        chat.sees(&format!("── {name} "));
    }
    let mut exchanges = Vec::new();
    for key in 0..3 {
        chat.pty.send(format!("\x1b{key}ask {key}\r"));
        exchanges.push(peer.accept());
        exchanges[key].stream();
    }
    for n in 0..40 {
        for (at, exchange) in exchanges.iter().enumerate() {
            exchange.text(&format!("{}{n} ", ["a", "b", "c"][at]));
            chat.pty.send(format!("\x1b{}", (at + n) % 3));
        }
    }
    for exchange in &exchanges {
        exchange.finish("stop").done();
    }
    for (key, word) in [(0, "a39"), (1, "b39"), (2, "c39")] {
        chat.pty.send(format!("\x1b{key}"));
        chat.sees(word);
        chat.pty.wait_for(|screen| !screen.contents().contains("Esc stops it"), "the end of the reply");
    }
    chat.pty.send("\x04");
    chat.ends_well();
    for (log, prefix) in chat.logs().iter().zip(["a", "b", "c"]) {
        let whole: String = (0..40).map(|n| format!("{prefix}{n} ")).collect();
        assert_eq!(replies(log), [whole]);
    }
}
