//! The formats of input and output.

use std::path::Path;

use serde_json::{Value, json};

use super::{Home, interrupt_first_turn, texts};
use crate::support::peer::Peer;

#[test]
fn only_the_answer_is_on_standard_output_and_each_reply_ends_with_a_newline() {
    let home = Home::new();
    let output = home.run(&["-p", "%think hm\nI look\n%tool read_file {\"path\":\"none\"}\n%next\nit is not there"]);
    assert_eq!(output.out, "I look\nit is not there\n", "{output:?}");
    assert!(output.err.contains("calls read_file: none"), "{output:?}");
}

#[test]
fn without_any_model_a_run_fails_and_says_what_to_do() {
    let home = Home { variables: vec![("POLYLOGUE_MODEL".into(), String::new())], ..Home::new() };
    let output = home.run(&["-p", "fix it"]);
    assert_eq!((output.code, output.out.as_str()), (3, ""), "{output:?}");
    assert_eq!(output.err.matches("no model is configured").count(), 1, "{output:?}");
    assert!(output.err.contains("export OPENAI_API_KEY=…"), "{output:?}");
    let output = home.run(&["-p", "-m", "echo", "fix it"]);
    assert_eq!((output.code, output.out.as_str()), (0, "fix it\n"), "{output:?}");
    let home =
        Home { variables: vec![("POLYLOGUE_MODEL".into(), String::new()), ("XAI_API_KEY".into(), "k".into())], ..home };
    let output = home.run(&["-p", "fix it"]);
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.err.contains("XAI_API_KEY is set, use -m xai/MODEL"), "{output:?}");
    #[cfg(feature = "coordinator")]
    {
        let output = home.run(&["multi-agent", "run", "--count", "2", "fix it"]);
        assert_eq!(output.code, 3, "{output:?}");
    }
}

#[test]
fn the_text_of_a_model_is_written_unchanged() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "draw"]);
    peer.accept().stream().text("\u{1b}[31mréd\r\n").text("\u{7}").finish("stop").done();
    assert_eq!(program.ends().out, "\u{1b}[31mréd\r\n\u{7}\n");
}

#[test]
fn text_is_written_as_it_streams() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "explain"]);
    let exchange = peer.accept();
    exchange.stream();
    for n in 0..20 {
        exchange.text(&format!("line {n}\n"));
        assert_eq!(program.line(), format!("line {n}"));
    }
    exchange.finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, ""), "{output:?}");
}

#[test]
fn each_line_of_the_stream_is_there_before_the_next_chunk_is_sent() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "explain", "--output-format", "stream-json"]);
    let exchange = peer.accept();
    exchange.stream();
    let init = program.object();
    assert_eq!([&init["type"], &init["model"], &init["approval"]], ["init", "openai/test", "never"], "{init}");
    assert_eq!(init["directory"].as_str().map(Path::new), home.directory.path().canonicalize().ok().as_deref());
    assert_eq!(program.object()["type"], "user");
    assert_eq!(program.object()["status"], "running");
    let mut number = None;
    for n in 0..50 {
        exchange.text(&format!("{n} "));
        let line = program.object();
        assert_eq!((&line["v"], &line["type"], &line["text"]), (&json!(1), &json!("text"), &json!(format!("{n} "))));
        let before = number.replace(line["n"].as_u64().expect("a number"));
        assert!(before.is_none_or(|before| before + 1 == number.unwrap()));
    }
    exchange.usage(7, 5).finish("stop").done();
    let usage = program.next("usage");
    assert_eq!((&usage["input"], &usage["output"]), (&json!(7), &json!(5)));
    assert_eq!(program.object()["stop_reason"], "stop");
    assert_eq!(program.object()["status"], "idle");
    let result = program.object();
    assert_eq!((&result["type"], &result["outcome"]), (&json!("result"), &json!("completed")));
    assert_eq!(result["agent"], usage["agent"]);
    assert_eq!((&result["agent"], &result["model"]), (&init["agent"], &init["model"]));
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, ""));
}

#[test]
fn json_is_one_object_with_the_result_of_the_run() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "explain", "--output-format", "json"]);
    peer.accept().stream().text("well").usage(7, 5).finish("stop").done();
    let output = program.ends();
    assert_eq!(output.out.lines().count(), 1, "{output:?}");
    let mut result = output.result();
    assert!(result["ms"].as_u64().is_some() && result["agent"].as_str().is_some_and(|id| id.len() == 22));
    for varies in ["ms", "agent"] {
        result.as_object_mut().expect("an object").remove(varies);
    }
    let usage = json!({"input": 7, "cached": 0, "written": 0, "output": 5, "reasoning": 0});
    let expected = json!({"v": 1, "type": "result", "model": "openai/test", "outcome": "completed", "text": "well", "usage": usage,
        "cost": null, "error": null, "turns": 1, "stop_reason": "stop"});
    assert_eq!(result, expected);
}

#[test]
fn each_input_line_is_a_turn_and_a_bad_one_is_skipped_with_a_note() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let format = ["-p", "--input-format", "stream-json", "--output-format", "stream-json"];
    let mut program = home.start_with_input(&format);
    program.write("{\"type\":\"user\",\"text\":\"one\"}\n{oops\n\n{\"type\":\"user\",\"text\":\"two\"}\n");
    let first = peer.accept();
    first.stream().text("1");
    assert_eq!(program.next("text")["text"], "1");
    assert!(peer.try_accept().is_none(), "the second waits for the first");
    first.finish("stop").done();
    peer.accept().stream().text("2").finish("stop").done();
    assert_eq!(program.next("text")["text"], "2");
    // It goes on although it is at rest: the input has not ended.
    program.write("{\"type\":\"user\",\"text\":\"three\"}");
    drop(program.input.take());
    peer.accept().stream().text("3").finish("stop").done();
    let output = program.ends();
    assert_eq!(
        (output.code, &output.result()["turns"], &output.result()["text"]),
        (0, &json!(3), &json!("3")),
        "{output:?}"
    );
    assert_eq!(output.err.lines().count(), 1, "{output:?}");
    assert!(output.err.starts_with("polylogue: skipped line 2: invalid JSON"), "{output:?}");
    let unusable = home.shell("echo garbage | $0 -p --input-format stream-json --output-format json");
    assert!(unusable.code == 2 && unusable.err.contains("nothing to send: no line of"), "{unusable:?}");
    assert_eq!(texts(&home.log(1)), ["one", "1", "two", "2", "three", "3"]);
}

#[test]
fn an_input_line_can_interrupt_the_current_turn() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let format = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "one"];
    let mut program = home.start_with_input(&format);
    interrupt_first_turn(&mut program, &peer);
    let output = program.ends();
    assert_eq!((output.code, &output.result()["outcome"]), (0, &json!("completed")), "{output:?}");
    let states: Vec<Value> = output.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(states.iter().any(|line| line["status"] == "interrupted"), "{output:?}");
}

#[test]
fn more_lines_than_fit_the_queue_are_processed_in_order() {
    let home = Home::new();
    let mut program = home.start_with_input(&["-p", "--input-format", "stream-json"]);
    let lines = |n: usize| format!("{{\"type\":\"user\",\"text\":\"turn {n}\"}}\n");
    program.write(&(0..1200).map(lines).collect::<String>());
    drop(program.input.take());
    (0..1200).for_each(|n| assert_eq!(program.line(), format!("turn {n}")));
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, ""));
}

#[test]
fn a_run_whose_last_turn_was_interrupted_has_the_exit_code_of_an_interrupt() {
    let home = Home::new();
    let mut program = home.start_with_input(&["-p", "--input-format", "stream-json", "%hang"]);
    program.write("{\"type\":\"interrupt\"}\n");
    assert_eq!(program.ends().code, 130);
}

#[test]
fn a_file_is_attached() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let directory = home.data().parent().expect("a directory").to_owned();
    let path = directory.join("a shot.png").display().to_string();
    std::fs::write(&path, b"\x89PNG\r\n\x1a\n...").expect("a file");
    let program = home.start(&["-p", "--attach", &path, "what is this?"]);
    let exchange = peer.accept();
    let sent = exchange.request().json()["messages"].to_string();
    assert!(sent.contains("data:image/png;base64,") && sent.contains("[image: a shot.png, 1 KB]"), "{sent}");
    exchange.stream().text("a shot").finish("stop").done();
    assert_eq!(program.ends().code, 0);
    let denied = home.run(&["-p", "--deny", "read(**/*.png)", "--attach", &path, "x"]);
    assert!(denied.code != 0 && denied.err.contains("refused by the rule deny read(**/*.png)"), "{denied:?}");
    let missing = home.run(&["-p", "--attach", "/none.png", "x"]);
    assert!(missing.code == 2 && missing.err.contains("--attach /none.png: "), "{missing:?}");
    std::fs::write(&path, b"text").expect("a file");
    let wrong = home.run(&["-p", "--attach", &path, "x"]);
    assert!(wrong.code == 2 && wrong.err.contains("is not a PNG"), "{wrong:?}");
}

#[test]
fn the_content_of_a_text_file_is_sent_if_it_is_in_the_workspace() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let directory = home.data().parent().expect("a directory").to_owned();
    std::fs::write(directory.join("inside.txt"), "inside\n").expect("a file");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let outside = elsewhere.path().join("outside.txt").display().to_string();
    std::fs::write(&outside, "not this\n").expect("a file");
    let program = home.start(&["-p", &format!("see @inside.txt and @{outside}")]);
    let exchange = peer.accept();
    let sent = exchange.request().json()["messages"].to_string();
    assert!(sent.contains("1\\tinside") && !sent.contains("not this"), "{sent}");
    exchange.stream().text("seen").finish("stop").done();
    let output = program.ends();
    assert!(output.code == 0 && output.err.contains("outside.txt (outside of the workspace)"), "{output:?}");
}
