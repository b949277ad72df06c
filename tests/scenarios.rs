//! Every scenario of `fixtures/scenarios` on the real loop, and those that a fault of the C program breaks on a copy of it.

use std::path::{Path, PathBuf};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, TraceLine};
use crate::support::program::Home;

fn scenarios() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios");
    let files = std::fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect();
    files.sort();
    files
}

fn fault_of(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).expect("a file");
    let value = text.lines().find_map(|line| line.strip_prefix("fault = "))?;
    Some(value.trim_matches('"').to_owned())
}

/// Plays a scenario, and returns what it wrote and its exit code.
fn replay(args: &[&str]) -> crate::support::program::Response {
    Home::new().run(&[&["replay"], args].concat())
}

#[test]
fn every_scenario_comes_out_as_it_expects_and_two_runs_write_the_same_trace() {
    let directory = tempfile::tempdir().expect("a directory");
    for path in scenarios() {
        let trace = |number: u32| {
            let file = directory.path().join(number.to_string());
            let (path, to) = (path.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
            let played = replay(&[path, "--trace", to]);
            assert!(played.code == 0 && played.out.starts_with("ok "), "{played:?}");
            std::fs::read_to_string(file).expect("a trace")
        };
        assert_eq!(trace(1), trace(2), "{}", path.display());
    }
}

#[test]
fn every_fault_has_a_scenario_with_which_the_copy_of_the_original_fails() {
    let mut faults: Vec<String> = Vec::new();
    for path in scenarios() {
        let Some(fault) = fault_of(&path) else { continue };
        let played = replay(&[path.to_str().expect("UTF-8"), "--beside", "--fault", &fault]);
        assert!(played.code == 0 && played.out.contains("first difference at "), "{played:?}");
        assert!(played.out.contains("as first written: ") && played.out.contains(": expected "), "{played:?}");
        faults.push(fault);
    }
    faults.sort();
    faults.dedup();
    let frozen = ["completions", "descriptors", "timeouts", "tools"].map(|what| format!("frozen-{what}"));
    let wrong = ["completion", "content", "error", "tool", "usage"].map(|what| format!("wrong-{what}"));
    assert_eq!(faults, [&frozen[..], &wrong[..]].concat());
}

/// The story of the design document of the C program: each step is drawn, and the copy fails for the reason it gives.
#[test]
fn the_stories_of_the_original_are_drawn_beside_it_and_fail_for_their_reasons() {
    let play = |name: &str, fault: &[&str]| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios").join(name);
        let home = Home::new();
        let played =
            home.run(&[&["replay", path.to_str().expect("UTF-8"), "--beside", "--trace", "it"], fault].concat());
        assert_eq!(played.code, 0, "{played:?}");
        let steps = played.out.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
        let steps = steps.filter(|line| line.contains(". ") && line.starts_with("           "));
        assert_eq!(steps.count(), 7, "{}", played.out);
        for trace in ["it", "it.original"] {
            let shown = home.run(&["trace", "show", trace]);
            assert!(shown.code == 0 && shown.out.contains("/submit"), "{shown:?}");
        }
        played.out
    };
    let unseen = play("failure-tool-result-unseen.toml", &[]);
    assert!(unseen.contains("1100 \u{2260} main: tool_result, >waiting"), "{unseen}");
    assert!(unseen.contains("scout: flag") && unseen.contains("main: expected the state idle, got tool"), "{unseen}");
    assert!(
        unseen.contains("first difference at 1100 ms: main tool_result, main >waiting here, nothing there"),
        "{unseen}"
    );
    let wrong = play("failure-reply-in-the-wrong-agent.toml", &["--fault", "wrong-content"]);
    assert!(wrong.contains("first difference at 300 ms: main text here, scout text there"), "{wrong}");
    assert!(
        wrong.contains("scout: expected the replies [\"In December.\"], got [\"by one personIn December.\""),
        "{wrong}"
    );
}

#[test]
fn several_scenarios_are_played_and_one_that_fails_makes_the_exit_code() {
    let home = Home::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios/wrong-usage.toml");
    let text = std::fs::read_to_string(&path).expect("a scenario");
    std::fs::write(home.directory.path().join("wrong.toml"), text.replace("\nusage = [100, 7]", "\nusage = [100, 8]"))
        .expect("a file");
    std::fs::write(home.directory.path().join("right.toml"), &text).expect("a file");
    let both = home.run(&["replay", "right.toml", "right.toml"]);
    assert!(both.code == 0 && both.out.matches("ok    right.toml: ").count() == 2, "{both:?}");
    let failed = home.run(&["replay", "wrong.toml", "right.toml"]);
    assert!(failed.code == 1 && failed.err.contains("expected the tokens"), "{failed:?}");
    assert!(failed.out.contains("ok    right.toml: "), "the others are played too: {failed:?}");
    let unknown = home.run(&["replay", "right.toml", "--beside", "--fault", "frozen"]);
    assert!(unknown.code == 2 && unknown.err.contains("frozen-descriptors"), "{unknown:?}");
    let traced = home.run(&["replay", "right.toml", "right.toml", "--trace", "it"]);
    assert!(traced.code == 2 && traced.err.contains("name one scenario"), "{traced:?}");
}

/// Plays a scenario with this text in place of that one.
fn changed(from: &str, to: &str) -> crate::support::program::Response {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios/wrong-usage.toml");
    let text = std::fs::read_to_string(path).expect("a scenario");
    assert!(text.contains(from), "{from}");
    let home = Home::new();
    std::fs::write(home.directory.path().join("it.toml"), text.replacen(from, to, 1)).expect("a file");
    home.run(&["replay", "it.toml"])
}

#[test]
fn a_scenario_that_is_none_is_refused_with_file_line_and_key() {
    for (from, to, expected) in [
        ("agents = ", "agnets = ", "it.toml:3: unknown field `agnets`"),
        ("at = 50", "at = \"soon\"", "it.toml:11: at: invalid type: string"),
        ("at = 50", "at = ", "it.toml:11: "),
        ("line = \"/switch scout\"", "", "it.toml:11: input: exactly one of line, keys, size and leave"),
        ("agent = \"scout\"", "agent = \"scuot\"", "agent: unknown agent \"scuot\""),
        ("fault = \"wrong-usage\"", "fault = \"wrong-all\"", "it.toml:2: fault: unknown variant `wrong-all`"),
        ("agents = [\"main\", \"scout\"]", "agents = []", "it.toml:3: agents: at least one name"),
    ] {
        let refused = changed(from, to);
        assert!(refused.code == 2 && refused.err.contains(expected), "{expected}: {refused:?}");
    }
    let missing = Home::new().run(&["replay", "none.toml"]);
    assert!(missing.code == 1 && missing.err.contains("none.toml"), "{missing:?}");
}

#[test]
fn a_difference_from_what_is_expected_is_named_and_fails() {
    for (from, to, expected) in [
        ("usage = [100, 7]\n", "usage = [100, 8]\n", "main: expected the tokens [100, 8], got [100, 7]"),
        ("replies = [\"from scout\"]", "replies = []", "scout: expected the replies [], got [\"from scout\"]"),
        ("[expect.agent.main]", "[expect.agent.main]\nerror = \"lost\"", "main: expected the error \"lost\", got \"\""),
        (
            "[expect.agent.main]",
            "[expect]\nscreen = [\"cheese\"]\n[expect.agent.main]",
            "\"cheese\" is not on the screen",
        ),
        (
            "[expect.agent.main]",
            "[expect]\norder = [{ agent = \"scout\", event = \"usage\", at = 5 }]\n[expect.agent.main]",
            "order, event 1: expected scout \"usage\" at 5 ms there; it happened at 170 ms",
        ),
        ("line = \"question for scout\"", "line = \"/kill scout\"", "no request has asked for 1 of the replies"),
    ] {
        let failed = changed(from, to);
        assert!(failed.code == 1 && failed.err.contains(expected), "{expected}: {failed:?}");
    }
}

/// A scenario may come from a stranger.
#[test]
fn a_replay_runs_no_program_and_writes_no_file() {
    for line in ["!touch made", "!!touch made", "/export made", "/env coding@/", "# a rule", "/setup"] {
        let home = Home::new();
        let tool = r#"
about = "it reaches nothing"
agents = ["main"]
approval = "yolo"
[[input]]
at = 0
line = "LINE"
[[input]]
at = 500
line = ""
[[input]]
at = 1000
keys = "\u0015"
[[input]]
at = 2000
line = "run it"
[[reply]]
agent = "main"
asked = "run it"
steps = [
  { after = 0, call = { tool = "bash", arguments = '{"command": "touch made"}' } },
  { after = 0, call = { tool = "write_file", arguments = '{"file_path": "made", "content": "x"}' } },
  { after = 0, call = { tool = "bash", arguments = '{"command": "touch made", "run_in_background": true}' }, finish = "tool_calls" },
]
[[reply]]
agent = "main"
steps = [{ after = 0, text = "done", finish = "stop" }]
[expect]
order = [
  { agent = "main", event = "tool_result" },
  { agent = "main", event = "tool_result" },
  { agent = "main", event = "tool_result" },
]
[expect.agent.main]
replies = ["done"]
"#;
        std::fs::write(home.directory.path().join("it.toml"), tool.replace("LINE", line)).expect("a file");
        let played = home.run(&["replay", "it.toml"]);
        assert_eq!(played.code, 0, "{line}: {played:?}");
        let left = std::fs::read_dir(home.directory.path()).expect("a directory").flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["it.toml"], "{line}");
    }
}

/// What was delivered to each agent, with times and sizes.
pub(crate) fn delivered(trace: &str) -> Vec<(u64, String, String, u64)> {
    let mut names = BTreeMap::new();
    let mut delivered = Vec::new();
    for line in trace.lines().map(|line| TraceLine::parse(line).expect(line)) {
        let Some(agent) = line.agent else { continue };
        if let Some(name) = line.name {
            names.insert(agent.clone(), name.replace(' ', "-"));
        }
        if let Some(callback) = line.callback {
            let bytes = if callback == "tool_call" { 0 } else { line.bytes.expect("a size") };
            delivered.push((
                line.at_us / 1000,
                names.get(&agent).cloned().unwrap_or_default(),
                callback.into_owned(),
                bytes,
            ));
        }
    }
    delivered.sort();
    delivered
}

/// A session of two agents, a fork and a tool, recorded in this directory.
fn record(directory: &Path, records_texts: bool) {
    let (record, trace) = (Some(directory.join("it.toml")), Some(directory.join("session")));
    let mut app = Harness::new(Plan { record, records_texts, trace, ..Plan::default() });
    std::fs::write(app.directory().join("notes"), "secret notes\n").expect("a file");
    let pass = |app: &mut Harness, milliseconds: u32| {
        for _ in 0..milliseconds / 10 {
            app.advance(Duration::from_millis(10));
            app.turn_until("the end of this moment", |app| app.timeout().after != Some(Duration::ZERO));
        }
    };
    app.enter("/fork --name scout");
    app.enter("/switch 0");
    app.enter("\x1b[200~%slow 100\nsecret words of main\x1b[201~");
    pass(&mut app, 150);
    app.enter("/switch scout");
    app.enter("\x1b[200~%slow 70\nother secret words\x1b[201~");
    pass(&mut app, 1_000);
    app.enter("\x1b[200~%tool read_file {\"path\":\"notes\"}\n%next\n%slow 50\ndone\x1b[201~");
    app.turn_until("the result", |app| !app.tool_results(1).is_empty());
    pass(&mut app, 500);
    assert!(app.repl.roster().busy().is_empty());
}

#[test]
fn a_recorded_session_replays_with_the_same_times_and_sizes_and_without_its_texts() {
    let home = Home::new();
    record(home.directory.path(), false);
    let scenario = std::fs::read_to_string(home.directory.path().join("it.toml")).expect("a record");
    assert!(!scenario.contains("secret") && !scenario.contains("notes"), "{scenario}");
    let played = home.run(&["replay", "it.toml", "--trace", "replay"]);
    assert!(played.code == 0, "{played:?}\n{scenario}");
    let trace = |name: &str| std::fs::read_to_string(home.directory.path().join(name)).expect("a trace");
    let (session, replay) = (delivered(&trace("session")), delivered(&trace("replay")));
    assert!(session.len() > 12, "{session:?}");
    assert_eq!(replay, session, "{scenario}");
}

#[test]
fn a_session_is_recorded_with_its_texts_if_asked() {
    let home = Home::new();
    record(home.directory.path(), true);
    let scenario = std::fs::read_to_string(home.directory.path().join("it.toml")).expect("a record");
    assert!(scenario.contains("secret notes") && scenario.contains("%slow 100\\nsecret words of main"), "{scenario}");
    let again = Home::new().run(&["--record", home.directory.path().join("it.toml").to_str().expect("UTF-8"), "hello"]);
    assert!(again.code != 0, "a record is never written over: {again:?}");
}

/// In a store with conversations a chat begins a new one.
#[test]
fn a_recording_of_the_second_chat_replays_in_the_conversation_that_was_shown() {
    let home = Home::new();
    for (args, text) in
        [(&["--plain"][..], "first\n"), (&["--plain", "--record", "it.toml", "--record-texts"], "second\n")]
    {
        let mut chat = home.start_with_input(args);
        chat.write(text);
        assert_eq!(chat.ends().code, 0);
    }
    let scenario = std::fs::read_to_string(home.directory.path().join("it.toml")).expect("a record");
    assert!(scenario.contains("shows = \"agent 1\""), "{scenario}");
    let played = home.run(&["replay", "it.toml"]);
    assert_eq!(played.code, 0, "{played:?}\n{scenario}");
}

/// Lines that arrive at once with the one that opens the panel are no texts of a conversation.
#[test]
fn what_is_typed_in_the_setup_is_never_recorded_and_the_file_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    for more in [&["--record-texts"][..], &[]] {
        let home = Home::new();
        let mut chat = home.start_with_input(&[&["--plain", "--record", "it.toml"], more].concat());
        chat.write("/setup\n1\n1\nsk-ant-SECRET\n");
        chat.ends();
        let file = home.directory.path().join("it.toml");
        let scenario = std::fs::read_to_string(&file).expect("a record");
        assert!(
            scenario.contains("/setup") && !scenario.contains("SECRET") && !scenario.contains("sk-ant"),
            "{scenario}"
        );
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    }
}
