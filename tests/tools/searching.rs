//! What `glob`, `grep` and `list_dir` find, what they leave out, and that nothing that they meet holds them up.

use std::fs;
use std::os::unix::fs::symlink;

use polylogue::tools::{self, Job, Run};
use serde_json::{Value, json};

use super::Room;

/// A small project: some sources, a build directory that is ignored, a hidden file, repository data.
fn project() -> Room {
    let room = Room::new();
    for directory in ["src/deep", "target/debug", ".git", ".github"] {
        fs::create_dir_all(room.path(directory)).unwrap();
    }
    for (path, content) in [
        (".gitignore", "target/\n*.log\n"),
        (".git/config", "needle"),
        (".github/ci.yml", "needle: yes\n"),
        ("src/main.rs", "fn main() {\n    needle();\n}\n"),
        ("src/deep/lib.rs", "// nothing\n// Needle\n// more\n"),
        ("target/debug/out.rs", "needle"),
        ("trace.log", "needle"),
    ] {
        fs::write(room.path(path), content).unwrap();
    }
    room
}

fn found(room: &Room, tool: &str, arguments: &Value) -> String {
    let result = room.run(tool, arguments);
    assert!(!result.is_error, "{}", result.content);
    result.content
}

fn refused(room: &Room, tool: &str, arguments: &Value) -> String {
    match room.prepare(tool, arguments) {
        Err(words) => words,
        Ok(_) => {
            let result = room.run(tool, arguments);
            assert!(result.is_error, "{}", result.content);
            result.content
        }
    }
}

#[test]
fn files_are_listed_in_order_without_those_that_are_ignored() {
    let room = project();
    assert_eq!(found(&room, "glob", &json!({"pattern": "*.rs"})), "src/deep/lib.rs\nsrc/main.rs");
    assert_eq!(found(&room, "glob", &json!({"pattern": "src/*.rs"})), "src/main.rs");
    assert_eq!(found(&room, "glob", &json!({"pattern": "*.rs", "path": "src/deep"})), "src/deep/lib.rs");
    assert_eq!(found(&room, "glob", &json!({"pattern": "*.{yml,log}"})), ".github/ci.yml");
    assert_eq!(found(&room, "glob", &json!({"pattern": "*.py"})), "[no file matches]");
    assert_eq!(found(&room, "glob", &json!({"pattern": "*.rs", "path": "target/debug"})), "target/debug/out.rs");
}

#[test]
fn a_long_list_is_cut_and_says_so() {
    let room = Room::new();
    for n in 0..600 {
        fs::write(room.path(&format!("{n:03}")), "x\n").unwrap();
    }
    let listed = found(&room, "glob", &json!({"pattern": "*"}));
    assert!(listed.lines().count() == 501 && listed.ends_with("[there are more than these 500: narrow the pattern]"));
    let listed = found(&room, "list_dir", &json!({}));
    assert!(listed.lines().count() == 501 && listed.contains("[there are more than these 500"));
    let listed = found(&room, "grep", &json!({"pattern": "x", "limit": 7}));
    assert_eq!(listed.lines().count(), 8);
    assert!(listed.ends_with("[stopped after 7 matching lines; there may be more]"), "{listed}");
    let all = found(&room, "grep", &json!({"pattern": "x", "limit": 1000}));
    assert!(all.len() <= room.env.output_cap + 80, "{}", all.len());
}

#[test]
fn lines_are_found_with_their_place_and_what_is_around_them() {
    let room = project();
    assert_eq!(
        found(&room, "grep", &json!({"pattern": "need.e"})),
        ".github/ci.yml:1:needle: yes\nsrc/main.rs:2:    needle();"
    );
    assert_eq!(
        found(&room, "grep", &json!({"pattern": "needle", "ignore_case": true, "glob": "*.rs", "context": 1})),
        "src/deep/lib.rs-1-// nothing\nsrc/deep/lib.rs:2:// Needle\nsrc/deep/lib.rs-3-// more\n\
         src/main.rs-1-fn main() {\nsrc/main.rs:2:    needle();\nsrc/main.rs-3-}"
    );
    assert_eq!(found(&room, "grep", &json!({"pattern": "needle", "path": "trace.log"})), "trace.log:1:needle");
    assert_eq!(found(&room, "grep", &json!({"pattern": "absent"})), "[no line matches]");
}

#[test]
fn matches_that_are_far_apart_stand_in_groups_of_their_own_and_no_line_stands_twice() {
    let room = project();
    let text: String =
        (1..=12).map(|n| if [2, 4, 9, 12].contains(&n) { format!("hit {n}\r\n") } else { format!("{n}\n") }).collect();
    fs::write(room.path("far.txt"), text).unwrap();
    let listed = found(&room, "grep", &json!({"pattern": "^hit \\d+$", "path": "far.txt", "context": 1}));
    let lines: Vec<&str> = listed.lines().map(|line| line.strip_prefix("far.txt").unwrap_or(line)).collect();
    let expected = ["-1-1", ":2:hit 2", "-3-3", ":4:hit 4", "-5-5", "--", "-8-8", ":9:hit 9", "-10-10", "-11-11"];
    assert_eq!(lines, [&expected[..], &[":12:hit 12"]].concat());
    let one = found(&room, "grep", &json!({"pattern": "HIT Ä?", "path": "far.txt", "ignore_case": true, "limit": 1}));
    assert_eq!(one, "far.txt:2:hit 2\n[stopped after 1 matching lines; there may be more]");
}

#[test]
fn binary_files_are_passed_over_and_long_lines_are_cut() {
    let room = Room::new();
    fs::write(room.path("a"), "needle\n\0binary\n").unwrap();
    fs::write(room.path("b"), format!("needle {}\n", "x".repeat(5000))).unwrap();
    fs::write(room.path("c"), b"\xff needle\x1b[2J\n").unwrap();
    let listed = found(&room, "grep", &json!({"pattern": "needle"}));
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[0].starts_with("b:1:needle xxx") && lines[0].ends_with('…') && lines[0].chars().count() < 320);
    assert_eq!(lines[1], "c:1:\u{fffd} needle\\u{1b}[2J");
}

#[test]
fn what_is_no_pattern_and_no_place_is_refused_in_words() {
    let room = project();
    for (tool, arguments, words) in [
        ("grep", json!({"pattern": "a("}), "is no regular expression"),
        ("grep", json!({"pattern": "a\\nb"}), "is no regular expression"),
        ("grep", json!({"pattern": ""}), "is empty"),
        ("grep", json!({"pattern": "(a{1000}){1000}"}), "is no regular expression"),
        ("grep", json!({"pattern": "a", "glob": "a["}), "is no pattern"),
        ("grep", json!({"pattern": "a", "path": "none"}), "does not exist"),
        ("glob", json!({"pattern": "a["}), "is no pattern"),
        ("glob", json!({"pattern": "*", "path": "none"}), "does not exist"),
        ("list_dir", json!({"path": "none"}), "does not exist"),
        ("list_dir", json!({"path": "src/main.rs"}), "is no directory"),
        ("list_dir", json!({"depth": 4}), "must be at most 3"),
        ("grep", json!({"pattern": "a", "path": "/proc/self"}), "belongs to a process"),
    ] {
        let told = refused(&room, tool, &arguments);
        assert!(told.contains(words), "{tool} {arguments}: {told}");
    }
}

#[test]
fn directories_and_links_are_marked() {
    let room = project();
    symlink("src", room.path("link")).unwrap();
    room.bell("pipe");
    assert_eq!(found(&room, "list_dir", &json!({})), ".github/\n.gitignore\nlink -> src\npipe (no regular file)\nsrc/");
    assert_eq!(found(&room, "list_dir", &json!({"path": "src", "depth": 2})), "deep/\ndeep/lib.rs\nmain.rs");
    assert_eq!(found(&room, "list_dir", &json!({"path": "target"})), "debug/");
}

#[test]
fn pipes_and_links_in_circles_hold_nothing_up() {
    let room = project();
    symlink("..", room.path("src/up")).unwrap();
    symlink("/", room.path("src/top")).unwrap();
    room.bell("src/pipe.rs");
    fs::create_dir(room.path("odd")).unwrap();
    room.bell("odd/.gitignore");
    fs::write(room.path("odd/a.rs"), "needle").unwrap();
    assert_eq!(found(&room, "grep", &json!({"pattern": "needle", "glob": "*.rs"})), "src/main.rs:2:    needle();");
    assert_eq!(found(&room, "glob", &json!({"pattern": "main.rs"})), "src/main.rs");
    assert!(!found(&room, "list_dir", &json!({"depth": 3})).contains("up/"));
    assert!(refused(&room, "list_dir", &json!({"path": "odd"})).contains("ignore file"));
}

#[test]
fn a_search_that_is_cancelled_stops_before_the_next_file() {
    let room = project();
    let cancelled = Job::new().unwrap();
    cancelled.cancel();
    for (tool, arguments) in
        [("grep", json!({"pattern": "needle"})), ("glob", json!({"pattern": "*"})), ("list_dir", json!({}))]
    {
        let call = room.prepare(tool, &arguments).unwrap();
        let Run::OnThread(run) = tools::find(tool).unwrap().run else { panic!("{tool} runs on a thread") };
        assert_eq!(run(&call, &room.env, &cancelled).content, "[interrupted]", "{tool}");
    }
}
