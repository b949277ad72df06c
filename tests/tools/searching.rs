//! What `glob`, `grep` and `list_dir` find and leave out, and that no file blocks them.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{Workspace, refused};
use crate::support::internals::tools;
use crate::support::internals::tools::{Job, Run};

/// A small project: some sources, a build directory that is ignored, a hidden file, repository data.
fn project() -> Workspace {
    let workspace = Workspace::new();
    for directory in ["src/deep", "target/debug", ".git", ".github"] {
        fs::create_dir_all(workspace.path(directory)).unwrap();
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
        fs::write(workspace.path(path), content).unwrap();
    }
    workspace
}

fn found(workspace: &Workspace, tool: &str, arguments: &Value) -> String {
    let result = workspace.run(tool, arguments);
    assert!(!result.is_error, "{}", result.content);
    result.content
}

#[test]
fn files_are_listed_in_order_without_ignored_ones() {
    let workspace = project();
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "*.rs"})), "src/deep/lib.rs\nsrc/main.rs");
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "src/*.rs"})), "src/main.rs");
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "*.rs", "path": "src/deep"})), "src/deep/lib.rs");
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "*.{yml,log}"})), ".github/ci.yml");
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "*.py"})), "[no files found]");
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "*.rs", "path": "target/debug"})), "target/debug/out.rs");
}

#[test]
fn a_long_list_is_cut_with_a_note() {
    let workspace = Workspace::new();
    for n in 0..600 {
        fs::write(workspace.path(&format!("{n:03}")), "x\n").unwrap();
    }
    let listed = found(&workspace, "glob", &json!({"pattern": "*"}));
    assert!(
        listed.lines().count() == 501
            && listed.ends_with("[only the first 500 files are listed; use a narrower pattern]")
    );
    let listed = found(&workspace, "list_dir", &json!({}));
    assert!(listed.lines().count() == 501 && listed.contains("[only the first 500 entries are listed"));
    let listed = found(&workspace, "grep", &json!({"pattern": "x", "head_limit": 7}));
    assert_eq!(listed.lines().count(), 8);
    assert!(listed.ends_with("[stopped after 7 matching lines; raise head_limit or narrow the search]"), "{listed}");
    let all = found(&workspace, "grep", &json!({"pattern": "x", "head_limit": 1000}));
    assert!(all.len() <= workspace.env.output_cap + 80, "{}", all.len());
    let mut workspace = workspace;
    workspace.env.output_cap = 20;
    let listed = found(&workspace, "grep", &json!({"pattern": "x"}));
    assert_eq!(listed, "000:1:x\n001:1:x\n[output limit reached after 2 matching lines; narrow the search]");
}

#[test]
fn lines_are_found_with_path_number_and_context() {
    let workspace = project();
    assert_eq!(
        found(&workspace, "grep", &json!({"pattern": "need.e"})),
        ".github/ci.yml:1:needle: yes\nsrc/main.rs:2:    needle();"
    );
    assert_eq!(
        found(&workspace, "grep", &json!({"pattern": "needle", "ignore_case": true, "glob": "*.rs", "context": 1})),
        "src/deep/lib.rs-1-// nothing\nsrc/deep/lib.rs:2:// Needle\nsrc/deep/lib.rs-3-// more\n\
         src/main.rs-1-fn main() {\nsrc/main.rs:2:    needle();\nsrc/main.rs-3-}"
    );
    assert_eq!(found(&workspace, "grep", &json!({"pattern": "needle", "path": "trace.log"})), "trace.log:1:needle");
    assert_eq!(found(&workspace, "grep", &json!({"pattern": "absent"})), "[no matches found]");
}

#[test]
fn distant_matches_are_separated_and_no_line_is_shown_twice() {
    let workspace = project();
    let text: String =
        (1..=12).map(|n| if [2, 4, 9, 12].contains(&n) { format!("hit {n}\r\n") } else { format!("{n}\n") }).collect();
    fs::write(workspace.path("far.txt"), text).unwrap();
    let listed = found(&workspace, "grep", &json!({"pattern": "^hit \\d+$", "path": "far.txt", "context": 1}));
    let lines: Vec<&str> = listed.lines().map(|line| line.strip_prefix("far.txt").unwrap_or(line)).collect();
    let expected = ["-1-1", ":2:hit 2", "-3-3", ":4:hit 4", "-5-5", "--", "-8-8", ":9:hit 9", "-10-10", "-11-11"];
    assert_eq!(lines, [&expected[..], &[":12:hit 12"]].concat());
    let one =
        found(&workspace, "grep", &json!({"pattern": "HIT Ä?", "path": "far.txt", "ignore_case": true, "limit": 1}));
    assert_eq!(one, "far.txt:2:hit 2\n[stopped after 1 matching line; raise head_limit or narrow the search]");
}

#[test]
fn output_mode_selects_paths_or_counts() {
    let workspace = project();
    let mode = |mode: &str, more: &[(&str, Value)]| {
        let mut arguments = json!({"pattern": "needle", "-i": true, "-n": true, "output_mode": mode});
        more.iter().for_each(|(name, value)| arguments[*name] = value.clone());
        found(&workspace, "grep", &arguments)
    };
    assert_eq!(mode("files_with_matches", &[]), ".github/ci.yml\nsrc/deep/lib.rs\nsrc/main.rs");
    assert_eq!(mode("files_with_matches", &[("include", json!("*.yml"))]), ".github/ci.yml");
    assert_eq!(
        mode("files_with_matches", &[("head_limit", json!("2"))]),
        ".github/ci.yml\nsrc/deep/lib.rs\n[stopped after 2 matching files; raise head_limit or narrow the search]"
    );
    fs::write(workspace.path("src/main.rs"), "needle\nhay\nneedle needle\n").unwrap();
    assert_eq!(mode("count", &[("path", json!("src"))]), "src/deep/lib.rs:1\nsrc/main.rs:2");
    assert!(refused(&workspace, "grep", &json!({"pattern": "a", "output_mode": "all"})).contains("must be one of"));
}

#[test]
fn ignore_files_count_within_the_repository_and_nearer_ones_first() {
    let workspace = project();
    for (path, lines) in [(".ignore", "secret\n!kept.log\n"), ("src/.gitignore", "deep/\n!src.log\n")] {
        fs::write(workspace.path(path), lines).unwrap();
    }
    for path in ["secret", "kept.log", "other.log", "src/src.log"] {
        fs::write(workspace.path(path), "").unwrap();
    }
    fs::write(workspace.path(".gitignore"), "target/\n*.log\n*.{a,b}\n").unwrap();
    fs::write(workspace.path("x.a"), "").unwrap();
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "*.log"})), "kept.log\nsrc/src.log");
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "{secret,*.a,lib.rs}"})), "[no files found]");
    // Without a repository only .ignore counts, as for ripgrep.
    fs::remove_dir_all(workspace.path(".git")).unwrap();
    let listed = found(&workspace, "glob", &json!({"pattern": "{*.log,secret}"}));
    assert_eq!(listed, "kept.log\nother.log\nsrc/src.log\ntrace.log");
}

#[test]
fn binary_files_are_skipped_and_long_lines_are_cut() {
    let workspace = Workspace::new();
    fs::write(workspace.path("a"), "needle\n\0binary\n").unwrap();
    fs::write(workspace.path("b"), format!("needle {}\n", "x".repeat(5000))).unwrap();
    fs::write(workspace.path("c"), b"\xff needle\x1b[2J\n").unwrap();
    let listed = found(&workspace, "grep", &json!({"pattern": "needle"}));
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[0].starts_with("b:1:needle xxx") && lines[0].ends_with('…') && lines[0].chars().count() < 320);
    assert_eq!(lines[1], "c:1:\u{fffd} needle\\u{1b}[2J");
}

#[test]
fn invalid_patterns_and_paths_are_refused() {
    let workspace = project();
    for (tool, arguments, expected) in [
        ("grep", json!({"pattern": "a("}), "invalid regular expression"),
        ("grep", json!({"pattern": "a\\nb"}), "invalid regular expression"),
        ("grep", json!({"pattern": ""}), "must not be empty"),
        ("grep", json!({"pattern": "(a{1000}){1000}"}), "invalid regular expression"),
        ("grep", json!({"pattern": "a", "glob": "a["}), "is not a valid glob pattern"),
        ("grep", json!({"pattern": "a", "path": "none"}), "does not exist"),
        ("glob", json!({"pattern": "a["}), "is not a valid glob pattern"),
        ("glob", json!({"pattern": "*", "path": "none"}), "does not exist"),
        ("list_dir", json!({"path": "none"}), "does not exist"),
        ("list_dir", json!({"path": "src/main.rs"}), "not a directory; use read_file"),
        ("list_dir", json!({"depth": 4}), "must be at most 3"),
        ("grep", json!({"pattern": "a", "path": "/proc/self"}), "access denied: environment and memory of processes"),
    ] {
        let message = refused(&workspace, tool, &arguments);
        assert!(message.contains(expected), "{tool} {arguments}: {message}");
    }
}

#[test]
fn directories_and_links_are_marked() {
    let workspace = project();
    symlink("src", workspace.path("link")).unwrap();
    workspace.make_fifo("pipe");
    assert_eq!(
        found(&workspace, "list_dir", &json!({})),
        ".github/\n.gitignore\nlink -> src\npipe (not a regular file)\nsrc/"
    );
    assert_eq!(found(&workspace, "list_dir", &json!({"path": "src", "depth": 2})), "deep/\ndeep/lib.rs\nmain.rs");
    assert_eq!(found(&workspace, "list_dir", &json!({"path": "target"})), "debug/");
}

#[test]
fn pipes_and_cyclic_links_do_not_block() {
    let workspace = project();
    symlink("..", workspace.path("src/up")).unwrap();
    symlink("/", workspace.path("src/top")).unwrap();
    workspace.make_fifo("src/pipe.rs");
    fs::create_dir(workspace.path("odd")).unwrap();
    workspace.make_fifo("odd/.gitignore");
    fs::write(workspace.path("odd/a.rs"), "needle").unwrap();
    assert_eq!(found(&workspace, "grep", &json!({"pattern": "needle", "glob": "*.rs"})), "src/main.rs:2:    needle();");
    assert_eq!(found(&workspace, "glob", &json!({"pattern": "main.rs"})), "src/main.rs");
    assert!(!found(&workspace, "list_dir", &json!({"depth": 3})).contains("up/"));
    assert!(
        refused(&workspace, "list_dir", &json!({"path": "odd"}))
            .contains(".gitignore or .ignore is not a regular file")
    );
}

#[test]
fn a_cancelled_search_stops() {
    let workspace = project();
    let cancelled = Job::new().unwrap();
    cancelled.cancel();
    for (tool, arguments) in
        [("grep", json!({"pattern": "needle"})), ("glob", json!({"pattern": "*"})), ("list_dir", json!({}))]
    {
        let call = workspace.prepare(tool, &arguments).unwrap();
        let Run::OnThread(run) = tools::find(tool).unwrap().run else { panic!("{tool} runs on a thread") };
        assert_eq!(run(&call, &workspace.env, &cancelled).content, "[interrupted]", "{tool}");
    }
}
