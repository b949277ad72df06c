//! Answers that are not whole, and waits of requests: a run ends and says the same whether its agent works in its own
//! process, in a server, or in a chat that holds the data directory.

use serde_json::{Value, json};

use super::served::Server;
use super::{Home, PROGRAM};
use crate::support::eventually;
use crate::support::peer::{Exchange, Peer, Refusing};
use crate::support::program::Response;
use crate::support::pty::Pty;

/// Where the agent of a run works.
#[derive(Debug, Clone, Copy)]
enum Place {
    Alone,
    Server,
    Chat,
}

const PLACES: [Place; 3] = [Place::Alone, Place::Server, Place::Chat];

/// The process that holds the data directory, if there is one.
enum Holder {
    Nobody,
    Server { _server: Server },
    Chat { _chat: Box<Pty> },
}

impl Holder {
    fn start(place: Place, home: &Home) -> Self {
        match place {
            Place::Alone => Self::Nobody,
            Place::Server => Self::Server { _server: Server::at(home) },
            Place::Chat => Self::Chat { _chat: Box::new(chat(home)) },
        }
    }
}

/// A chat that answers at its socket.
fn chat(home: &Home) -> Pty {
    let (directory, data) = (home.directory.path().display().to_string(), home.data().display().to_string());
    let mut envs = vec![
        ("HOME", directory.as_str()),
        ("POLYLOGUE_DATA_DIR", &data),
        ("POLYLOGUE_LOOK_UP_MODELS", "false"),
        ("LANG", "C.UTF-8"),
    ];
    envs.extend(home.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let mut chat = Pty::spawn(PROGRAM, &[], &envs, (100, 30));
    chat.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    let socket = home.data().join("server/socket");
    eventually(|| socket.exists());
    chat
}

fn with_server(url: &str, variables: &[(&str, &str)]) -> Home {
    let mut home = Home::with_server(url);
    home.variables.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
    home
}

fn lines(output: &Response, kind: &str) -> Vec<Value> {
    let lines = output.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["type"] == kind).collect()
}

/// How an answer that is not whole ends a run.
struct Ended {
    code: i32,
    outcome: &'static str,
    kind: &'static str,
    stop_reason: &'static str,
    message: &'static str,
}

const CUT: Ended = Ended {
    code: 4,
    outcome: "limit",
    kind: "limit",
    stop_reason: "length",
    message: "the reply was cut at the length limit of the model",
};
const EMPTY: Ended =
    Ended { code: 1, outcome: "failed", kind: "empty", stop_reason: "empty", message: "the reply is empty" };
const ROUNDS: Ended = Ended {
    code: 4,
    outcome: "limit",
    kind: "limit",
    stop_reason: "tool_rounds",
    message: "the limit of tool rounds was reached (limits.tool_iterations)",
};

impl Ended {
    fn check(&self, output: &Response, format: &str, what: &str) {
        assert_eq!(output.code, self.code, "{what}: {output:?}");
        assert_eq!(output.err.matches(self.message).count(), 1, "{what}: {output:?}");
        if format == "text" {
            return;
        }
        let result = output.result();
        assert_eq!((&result["outcome"], &result["stop_reason"]), (&json!(self.outcome), &json!(self.stop_reason)));
        assert_eq!(result["error"], json!({"kind": self.kind, "text": self.message}), "{what}");
        if format == "stream-json" {
            let finish = lines(output, "finish");
            let last = finish.last().unwrap_or_else(|| panic!("{what}: no line says how it ended: {output:?}"));
            assert_eq!(last["stop_reason"], self.stop_reason, "{what}");
        }
    }
}

type Reply = fn(&Exchange);

#[test]
fn an_answer_that_is_not_whole_ends_a_run_alike_in_all_places_and_formats() {
    for place in PLACES {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let _holder = Holder::start(place, &home);
        for (name, reply, ended) in &replies_that_are_not_whole() {
            for format in ["text", "json", "stream-json"] {
                let program = home.start(&["-p", "--approval", "yolo", "--output-format", format, "explain"]);
                reply(&peer.accept());
                let output = program.ends();
                ended.check(&output, format, &format!("{place:?}, {name}, {format}"));
            }
        }
        assert!(peer.try_accept().is_none(), "no request followed");
        assert!(!home.directory.path().join("made").exists(), "no call of a cut reply ran");
    }
}

fn replies_that_are_not_whole() -> [(&'static str, Reply, Ended); 5] {
    [
        (
            "text cut by length",
            |exchange| {
                exchange.stream().text("half").finish("length").done();
            },
            CUT,
        ),
        (
            "a call cut by length",
            |exchange| {
                exchange.stream().text("I write").tool_call(0, "c", "write_file", "{\"file_path\":\"made\",\"con");
                exchange.finish("length").done();
            },
            CUT,
        ),
        (
            "a whole call in a reply cut by length",
            |exchange| {
                let arguments = "{\"file_path\":\"made\",\"content\":\"x\"}";
                exchange.stream().tool_call(0, "c", "write_file", arguments).finish("length").done();
            },
            CUT,
        ),
        (
            "nothing",
            |exchange| {
                exchange.stream().finish("stop").done();
            },
            EMPTY,
        ),
        (
            "only thinking",
            |exchange| {
                exchange.stream().thinking("hm").finish("stop").done();
            },
            EMPTY,
        ),
    ]
}

#[test]
fn calls_after_the_last_round_of_tools_end_a_run_alike_in_all_places_and_formats() {
    for place in PLACES {
        let peer = Peer::start();
        let home = with_server(&peer.url(), &[("POLYLOGUE_TOOL_ITERATIONS", "2")]);
        let _holder = Holder::start(place, &home);
        for format in ["text", "json", "stream-json"] {
            let program = home.start(&["-p", "--output-format", format, "look"]);
            for _ in 0..3 {
                let exchange = peer.accept();
                exchange.stream().text("I look").tool_call(0, "c", "list_dir", "{}").finish("tool_calls").done();
            }
            let output = program.ends();
            ROUNDS.check(&output, format, &format!("{place:?}, {format}"));
            if format != "text" {
                assert_eq!(output.result()["turns"], 3, "{place:?}: two, and one without tools");
            }
        }
    }
}

#[test]
fn an_answer_after_the_last_round_of_tools_ends_a_run_well_and_says_so_in_all_places_and_formats() {
    for place in PLACES {
        let peer = Peer::start();
        let home = with_server(&peer.url(), &[("POLYLOGUE_TOOL_ITERATIONS", "1")]);
        let _holder = Holder::start(place, &home);
        for format in ["text", "json", "stream-json"] {
            let program = home.start(&["-p", "--output-format", format, "look"]);
            peer.accept().stream().tool_call(0, "c", "list_dir", "{}").finish("tool_calls").done();
            let last = peer.accept();
            assert!(last.request().json().get("tools").is_none(), "{place:?}, {format}");
            last.stream().text("the answer").finish("stop").done();
            let output = program.ends();
            assert_eq!(output.code, 0, "{place:?}, {format}: {output:?}");
            assert!(output.err.contains("1 round of tool calls: the last request is sent without tools"), "{output:?}");
            if format != "text" {
                let result = output.result();
                assert_eq!((&result["outcome"], &result["stop_reason"]), (&json!("completed"), &json!("stop")));
            }
        }
    }
}

/// The waits of a run, which standard error and the lines of JSON agree about.
fn waits(output: &Response, what: &str) -> Vec<Value> {
    let said: Vec<&str> = output.err.lines().filter(|line| line.contains("waiting ")).collect();
    let waits = lines(output, "wait");
    assert_eq!(said.len(), waits.len(), "{what}: {output:?}");
    for (said, wait) in said.iter().zip(&waits) {
        let text = wait["text"].as_str().expect("a text");
        assert!(said.starts_with("polylogue: waiting ") && said.ends_with(text), "{what}: {said} {wait}");
        assert!(wait["ms"].is_u64() && wait["v"] == 1 && wait["agent"] == output.result()["agent"], "{what}: {wait}");
    }
    waits
}

#[test]
fn each_wait_after_a_refused_connection_is_said_once_in_all_places() {
    for place in PLACES {
        let refusing = Refusing::start();
        let variables = [("POLYLOGUE_RETRIES", "2"), ("POLYLOGUE_RETRY_BASE", "0.01")];
        let home = with_server(&refusing.url(), &variables);
        let _holder = Holder::start(place, &home);
        let output = home.run(&["-p", "--output-format", "stream-json", "hello"]);
        assert_eq!((output.code, &output.result()["error"]["kind"]), (3, &json!("network")), "{place:?}: {output:?}");
        let waits = waits(&output, &format!("{place:?}"));
        let attempts: Vec<bool> = (0..waits.len())
            .map(|n| {
                waits[n]["text"].as_str().is_some_and(|text| text.ends_with(&format!("attempt {} follows", n + 2)))
            })
            .collect();
        assert_eq!(attempts, [true, true], "{place:?}: {waits:?}");
    }
}

#[test]
fn a_wait_for_a_rate_limit_is_said_once_in_all_places() {
    for place in PLACES {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let _holder = Holder::start(place, &home);
        let program = home.start(&["-p", "--output-format", "stream-json", "hello"]);
        let body = json!({"error": {"message": "too many", "type": "rate_limit_error"}}).to_string();
        let length = body.len().to_string();
        let headers = [("content-type", "application/json"), ("content-length", &length), ("Retry-After", "1")];
        peer.accept().head(429, &headers).body(&body);
        peer.accept().stream().text("fine").finish("stop").done();
        let output = program.ends();
        assert_eq!(output.code, 0, "{place:?}: {output:?}");
        let waits = waits(&output, &format!("{place:?}"));
        assert_eq!(waits.len(), 1, "{place:?}: {waits:?}");
        assert!(waits[0]["text"].as_str().is_some_and(|text| text.contains("too many")), "{place:?}: {waits:?}");
    }
}

#[test]
fn the_timeout_says_what_the_run_waited_for_in_all_places() {
    for place in PLACES {
        let peer = Peer::start();
        let home = with_server(&peer.url(), &[("POLYLOGUE_RETRY_BASE", "60")]);
        let _holder = Holder::start(place, &home);
        let program = home.start(&["-p", "--timeout", "3", "hello"]);
        peer.accept().error(503, "overloaded", "come back later");
        let output = program.ends();
        assert_eq!(output.code, 4, "{place:?}: {output:?}");
        let expected = "--timeout while a request waited: the provider is overloaded";
        assert!(output.err.contains(expected), "{place:?}: {output:?}");
    }
}

const REPLACED: &str = "standard output has the incomplete text, then the whole reply";

#[test]
fn a_reply_that_breaks_off_is_replaced_alike_in_all_places_and_formats() {
    for place in PLACES {
        let peer = Peer::start();
        let home = with_server(&peer.url(), &[("POLYLOGUE_RETRY_BASE", "0.01")]);
        let _holder = Holder::start(place, &home);
        for (whole, written) in [("Once upon a time", "Once upon a time\n"), ("A start", "Once upon\nA start\n")] {
            for format in ["text", "json", "stream-json"] {
                let what = format!("{place:?}, {format}, {whole}");
                let program = home.start(&["-p", "--output-format", format, "a story"]);
                peer.accept().stream().text("Once upon").hang_up();
                peer.accept().stream().text(&whole[..5]).text(&whole[5..]).finish("stop").done();
                let output = program.ends();
                assert_eq!(output.code, 0, "{what}: {output:?}");
                if format == "text" {
                    assert_eq!(output.out, written, "{what}: {output:?}");
                    assert_eq!(output.err.contains(REPLACED), written.lines().count() == 2, "{what}: {output:?}");
                    continue;
                }
                assert_eq!(output.result()["text"], whole, "{what}");
                if format == "stream-json" {
                    let types: Vec<Value> =
                        output.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
                    let texts = types
                        .iter()
                        .filter_map(|line| line["type"].as_str())
                        .filter(|kind| ["text", "replaced"].contains(kind));
                    assert_eq!(texts.collect::<Vec<_>>(), ["text", "replaced", "text", "text"], "{what}: {output:?}");
                }
            }
        }
    }
}

#[test]
fn a_run_is_not_kept_waiting_for_longer_than_it_tries_in_all_places() {
    for place in PLACES {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let _holder = Holder::start(place, &home);
        let program = home.start(&["-p", "hello"]);
        peer.accept().head(429, &[("retry-after", "3600"), ("content-length", "0")]);
        let output = program.ends();
        let is_said = output.err.contains("not tried again: the provider asks to wait 3600 s");
        assert!(output.code == 3 && is_said, "{place:?}: {output:?}");
    }
}
