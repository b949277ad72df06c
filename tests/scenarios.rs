//! Every scenario of `fixtures/scenarios` on the real loop, and every story of them on a copy of the C program, where it has
//! to fail.

use std::path::{Path, PathBuf};

use crate::support::program::Home;

fn scenarios() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios");
    let files = std::fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect();
    files.sort();
    files
}

fn has_story(path: &Path) -> bool {
    std::fs::read_to_string(path).expect("a file").lines().any(|line| line.starts_with("story = "))
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
fn every_story_fails_on_the_copy_of_the_original_that_has_its_fault() {
    let mut stories: Vec<String> = Vec::new();
    for path in scenarios().iter().filter(|path| has_story(path)) {
        let played = replay(&[path.to_str().expect("UTF-8"), "--like-the-original"]);
        assert!(played.code == 1 && played.err.contains("expected"), "{played:?}");
        stories.push(path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned());
    }
    let frozen = ["completions", "descriptors", "timeouts", "tools"].map(|what| format!("frozen-{what}"));
    let wrong = ["completion", "content", "error", "usage"].map(|what| format!("wrong-{what}"));
    assert_eq!(stories, [frozen, wrong].concat());
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
        ("line = \"/switch scout\"", "", "it.toml:11: input: exactly one of line, keys and size"),
        ("agent = \"scout\"", "agent = \"scuot\"", "agent: unknown agent \"scuot\""),
        ("story = \"wrong-usage\"", "story = \"wrong-all\"", "it.toml:2: story: unknown variant `wrong-all`"),
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
    for line in ["!touch made", "!!touch made", "/export made", "/env coding@/", "# a rule"] {
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
