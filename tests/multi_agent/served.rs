//! Runs while a server holds the data directory: the members work there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::Value;

use super::{ends_with_what_there_is, run, split};
use crate::print::served::Server;
use crate::support::peer::Peer;
use crate::support::program::{Home, Response};

/// What does not depend on how long it took, and on the names of runs.
fn comparable(Response { code, out, err }: &Response) -> (i32, String, String) {
    let lines = out.lines().map(|line| match serde_json::from_str::<Value>(line) {
        Ok(mut event) if event.is_object() => {
            for key in ["run", "at_ms", "duration_ms"] {
                event.as_object_mut().into_iter().for_each(|event| drop(event.remove(key)));
            }
            event.to_string()
        }
        _ => line.to_owned(),
    });
    // Advice for those who can attach to the server.
    let err = err.replace(", or choose another model with /model", "");
    // A time is a number before an s.
    let words = err.split(' ').map(|word| if word.parse::<f64>().is_ok() { "N" } else { word });
    (*code, lines.collect::<Vec<_>>().join("\n"), words.collect::<Vec<_>>().join(" "))
}

/// The numbers of the agents that the server has in memory.
fn living(home: &Home) -> Vec<Value> {
    let output = home.run(&["ps", "--json"]);
    output.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["number"].clone()).collect()
}

#[test]
fn output_and_exit_code_are_those_of_a_run_without_a_server() {
    let file = "name = \"two\"\n[[steps]]\nname = \"plan\"\nprompt = \"Plan.\"\ncritical = true\n[[steps]]\nname = \"do\"\n\
                depends_on = [\"plan\"]\n";
    let lines = [
        "run hello",
        "run hello --json",
        "run --strategy pipeline hello",
        "run --agents ann,bob:echo --aggregation vote hello",
        "run --retries 0 --json %fail 400 no such thing",
        "run --retries 0 --count 1 %fail 401",
        "run --retries 0 --count 1 %hang --timeout 0.2",
        "run --count 1 %tool bash {\"command\":\"true\"}\n%next\nwell",
        "run-workflow ./two.toml hello",
    ];
    let (mut alone, mut beside) = (Home::new(), Home::new());
    for home in [&mut alone, &mut beside] {
        // Without it the configuration is what a run without a server says something about.
        home.variables.push(("POLYLOGUE_MODEL".into(), "echo".into()));
        std::fs::write(home.directory.path().join("two.toml"), file).expect("a file");
    }
    let _server = Server::at(&beside);
    for line in lines {
        let (expected, found) = (run(&alone, line), run(&beside, line));
        assert_eq!(comparable(&found), comparable(&expected), "{line}");
        assert_eq!(living(&beside), [0], "{line}: the agent of the run is archived, and its members are gone");
    }
    // The server names its own providers.
    for line in ["run --count 1 --model none hello", "run --agents ann:none hello"] {
        for home in [&alone, &beside] {
            let found = run(home, line);
            assert_eq!(found.code, 2, "{line}: {found:?}");
            assert!(found.err.contains("unknown provider \"none\""), "{line}: {found:?}");
        }
        assert_eq!(living(&beside), [0], "{line}");
    }
}

#[test]
fn events_are_written_when_they_happen_and_the_members_are_listed_meanwhile() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let _server = Server::at(&home);
    let program = home.start(&split("run hello --agents ann:echo,bob --strategy parallel --json"));
    let exchange = peer.accept();
    assert_eq!(program.next("agent_finished")["member"], "ann");
    let listed = home.run(&["ps", "--json"]).out;
    let mut listed = listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let bob = listed.find(|agent| agent["name"] == "bob").expect("it works");
    assert_eq!((&bob["status"], bob["team_run"].is_string()), (&"running".into(), true));
    exchange.stream().text("done").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, &output.result()["type"]), (0, &"task_completed".into()), "{output:?}");
    let status = home.run(&split("status --json"));
    assert!(status.out.contains("hello"), "{status:?}");
}

#[test]
fn signals_end_the_run_with_the_answers_that_there_are() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let _server = Server::at(&home);
        ends_with_what_there_is(&home, &peer, (signal, code));
        assert_eq!(living(&home), [0]);
    }
}

#[test]
fn a_run_whose_process_is_killed_is_interrupted_and_the_server_goes_on() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let _server = Server::at(&home);
    let program = home.start(&split("run hello --count 2 --strategy parallel"));
    let held = [peer.accept(), peer.accept()];
    program.signal(Signal::KILL);
    assert_eq!(program.ends().code, 137);
    held.iter().for_each(|exchange| exchange.wait_for_close());
    while living(&home) != [0] {
        std::thread::yield_now();
    }
    assert_eq!(run(&home, "run hello --count 1 --model echo").out, "hello\n");
}

#[test]
fn a_server_that_is_killed_during_a_run_is_named_and_one_that_ends_interrupts_it() {
    for (signal, message) in [(Signal::KILL, "the server has ended"), (Signal::TERM, "interrupted")] {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let server = Server::at(&home);
        let program = home.start(&split("run hello --count 1"));
        let _held = peer.accept();
        server.ends_by(signal);
        let output = program.ends();
        assert!([1, 130].contains(&output.code) && output.err.contains(message), "{signal:?}: {output:?}");
        assert_eq!(run(&home, "run hello --count 1 --model echo").out, "hello\n", "the directory is free");
    }
}

#[test]
fn a_limit_of_the_server_ends_the_run() {
    let home = Home::new();
    let _server = Server::with(&home, &["--max-agents", "3"]);
    let task = "%tool fork {\"prompt\":\"more\"}\n%next\n".repeat(4) + "done";
    let output = home.run(&["multi-agent", "run", "--count", "2", "--task", &task]);
    assert_eq!(output.code, 4, "{output:?}");
    assert!(output.err.contains("limits.max_agents"), "{output:?}");
    assert_eq!(living(&home), [0]);
    let output = run(&home, "run hello --count 1 --max-agents 9");
    assert_eq!((output.code, &*output.out), (0, "hello\n"));
    assert!(
        output.err.contains("no effect on the running server") && output.err.contains("--max-agents"),
        "{output:?}"
    );
}

/// The id in an answer.
fn id_in(answer: &str) -> &str {
    let (_, rest) = answer.split_once("\"id\":\"").unwrap_or_else(|| panic!("{answer}"));
    rest.split('"').next().unwrap_or_default()
}

#[test]
fn a_request_may_use_no_agent_of_a_person_and_no_invalid_plan() {
    let home = Home::new();
    let _server = Server::at(&home);
    let stream = UnixStream::connect(home.data().join("server/socket")).expect("it listens");
    let mut lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
    let mut ask = |request: &str| {
        writeln!(&stream, "{{\"polylogue\":6,{request}}}").expect("it reads");
        lines.next().expect("a line").expect("text")
    };
    let plan = |members: &str| {
        format!(
            "\"plan\":{{\"task\":\"x\",\"strategy\":\"parallel\",\"aggregation\":\"last\",\"retries\":0,\
             \"agent_timeout\":{{\"secs\":9,\"nanos\":0}},\"members\":[{members}]}}"
        )
    };
    let team = |agent: &str, plan: &str| format!("\"request\":\"team\",\"agent\":\"{agent}\",{plan}");
    assert!(ask(&team("0", &plan("{\"name\":\"a\"}"))).contains("was not made for a run"));
    let new = "\"request\":\"open\",\"agent\":null,\"new\":{\"print_run\":true}";
    let made = ask(new);
    assert!(ask(&team(id_in(&made), &plan("{\"name\":\"a\"},{\"name\":\"a\"}"))).contains("duplicate member name"));
    let made = ask(new);
    assert!(ask(&team(id_in(&made), &plan("{\"name\":\"a\",\"model\":\"none\"}"))).contains("none"));
    let made = ask(new);
    assert!(ask(&team(id_in(&made), &plan("{\"name\":\"a\"}"))).contains("task_started"));
}
