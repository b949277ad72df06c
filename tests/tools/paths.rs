//! Which files the tools open, however a path is written: each of these once read or wrote what it should not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Workspace, refused};
use crate::support::internals::tools::locate::deny_list;
use crate::support::internals::tools::{self, Job, Output, PathVerdict as Verdict, Prepared, Run};

/// A home directory with a key, and a workspace in it.
struct Scene {
    home: TempDir,
    workspace: Workspace,
}

impl Scene {
    fn new() -> Self {
        let (home, mut workspace) = (tempfile::tempdir().unwrap(), Workspace::new());
        let real = home.path().canonicalize().unwrap();
        for directory in [".ssh", "work", "notes", "data", "xdg/gh"] {
            fs::create_dir_all(real.join(directory)).unwrap();
        }
        fs::write(real.join(".ssh/id"), "the key\n").unwrap();
        fs::write(real.join("data/polylogue.db"), "the key\n").unwrap();
        fs::write(real.join("xdg/gh/hosts.yml"), "the key\n").unwrap();
        fs::write(real.join("notes/today"), "a note\n").unwrap();
        workspace.env.working_directory = real.join("work");
        let xdg = real.join("xdg");
        workspace.env.denied =
            Arc::new(deny_list(Some(real.clone()), &[real.join("data")], move || vec![(xdg, ".config")]));
        Self { home, workspace }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    fn prepare(&self, tool: &str, arguments: &Value) -> Result<Prepared, String> {
        self.workspace.prepare(tool, arguments)
    }

    fn verdict(&self, tool: &str, arguments: &Value) -> Verdict {
        self.prepare(tool, arguments).unwrap().question.file.expect("it is about a file").verdict
    }

    fn carry_out(&self, tool: &str, call: &Prepared) -> Output {
        let Run::OnThread(run) = tools::find(tool).unwrap().run else { panic!("{tool} runs on a thread") };
        run(call, &self.workspace.env, &Job::new().unwrap())
    }
}

fn calls(path: &str) -> [(&'static str, Value); 7] {
    [
        ("read_file", json!({"file_path": path})),
        ("write_file", json!({"file_path": path, "content": "mine"})),
        ("edit_file", json!({"file_path": path, "old_string": "key", "new_string": "mine"})),
        ("multi_edit", json!({"file_path": path, "edits": [{"old_string": "key", "new_string": "mine"}]})),
        ("grep", json!({"pattern": "key", "path": path})),
        ("glob", json!({"pattern": "*", "path": path})),
        ("list_dir", json!({"path": path})),
    ]
}

#[test]
fn a_denied_file_stays_closed_however_its_path_is_written() {
    let scene = Scene::new();
    symlink(scene.path(".ssh/id"), scene.path("work/link")).unwrap();
    symlink("../.ssh", scene.path("work/dir")).unwrap();
    symlink("/proc/self/root", scene.path("work/root")).unwrap();
    let key = scene.path(".ssh/id").display().to_string();
    let database = scene.path("data/polylogue.db").display().to_string();
    for path in [
        key.clone(),
        database,
        "~/.ssh/id".into(),
        "~/xdg/gh/hosts.yml".into(),
        "~/work/../.ssh//./id".into(),
        "../.ssh/id".into(),
        "link".into(),
        "dir/id".into(),
        format!("/proc/self/root{key}"),
        format!("/proc/thread-self/root/proc/self/root{key}"),
        format!("root{key}"),
        "/proc/self/environ".into(),
        "/proc/1/mem".into(),
    ] {
        for (tool, arguments) in calls(&path) {
            let message = scene.prepare(tool, &arguments).expect_err(&path);
            assert!(message.contains("access denied: "), "{tool} {path}: {message}");
        }
    }
    assert_eq!(fs::read_to_string(key).unwrap(), "the key\n");
}

#[test]
fn another_name_of_a_denied_file_is_denied() {
    let scene = Scene::new();
    fs::hard_link(scene.path(".ssh/id"), scene.path("work/innocent")).unwrap();
    for tool in ["read_file", "write_file", "edit_file"] {
        let arguments = calls("innocent").into_iter().find(|(name, _)| *name == tool).unwrap().1;
        let message = refused(&scene.workspace, tool, &arguments);
        assert!(message.contains("another name of this file"), "{tool}: {message}");
    }
    let found = scene.workspace.run("grep", &json!({"pattern": "key"})).content;
    assert_eq!(found, "[no matches found]");
}

#[test]
fn what_is_denied_is_left_out_of_searches_above_it() {
    let mut scene = Scene::new();
    scene.workspace.env.working_directory = scene.path("");
    let found = |tool: &str, arguments: Value| scene.workspace.run(tool, &arguments).content;
    assert_eq!(found("grep", json!({"pattern": "key|note"})), "notes/today:1:a note");
    assert_eq!(found("glob", json!({"pattern": "*"})), "notes/today");
    assert_eq!(found("list_dir", json!({"depth": 3})), "notes/\nnotes/today\nwork/\nxdg/");
}

#[test]
fn reading_is_free_in_the_workspace_and_asks_outside_of_it() {
    let scene = Scene::new();
    fs::create_dir(scene.path("work/src")).unwrap();
    fs::write(scene.path("work/src/f"), "x").unwrap();
    symlink(scene.path("notes"), scene.path("work/notes")).unwrap();
    for path in ["src", "src/f", ".", "../work/src", "~/work/src/f", "none"] {
        assert_eq!(scene.verdict("read_file", &json!({"file_path": path})), Verdict::Free, "{path}");
    }
    let outside = Verdict::AskOutside(scene.path("notes"));
    for path in ["../notes/today", "notes/today", "~/notes/today", "../notes", "notes/"] {
        assert_eq!(scene.verdict("read_file", &json!({"file_path": path})), outside, "{path}");
    }
    for tool in ["grep", "glob", "list_dir"] {
        assert_eq!(scene.verdict(tool, &json!({"pattern": "x", "path": "notes"}).without(tool)), outside, "{tool}");
    }
    let question = scene.prepare("read_file", &json!({"file_path": "notes/today"})).unwrap().question;
    assert!(
        question.detail[0].ends_with("/notes/today")
            && question.detail[1].contains("everything else below its directory")
    );
}

/// `list_dir` takes no pattern.
trait Without {
    fn without(self, tool: &str) -> Value;
}

impl Without for Value {
    fn without(mut self, tool: &str) -> Value {
        if tool == "list_dir" {
            self.as_object_mut().unwrap().remove("pattern");
        }
        self
    }
}

#[test]
fn a_write_through_a_linked_directory_shows_where_it_leads() {
    let scene = Scene::new();
    symlink(scene.path("notes"), scene.path("work/docs")).unwrap();
    let question = scene.prepare("write_file", &json!({"file_path": "docs/x", "content": "a"})).unwrap().question;
    assert!(question.detail[0].starts_with(scene.path("notes/x").to_str().unwrap()), "{:?}", question.detail);
    assert_eq!(question.file.unwrap().verdict, Verdict::AskOutside(scene.path("notes")));
}

/// What is at a path is replaced after the question; the call then runs as it was prepared.
fn assert_swap_is_refused(swap: impl Fn(&Path)) {
    let scene = Scene::new();
    fs::create_dir(scene.path("work/docs")).unwrap();
    fs::write(scene.path("work/docs/today"), "a note\n").unwrap();
    scene.workspace.run("read_file", &json!({"file_path": "docs/today"}));
    let edit = json!({"file_path": "docs/today", "old_string": "note", "new_string": "swap"});
    let calls = [
        ("write_file", scene.prepare("write_file", &json!({"file_path": "docs/today", "content": "swap"})).unwrap()),
        ("edit_file", scene.prepare("edit_file", &edit).unwrap()),
    ];
    swap(&scene.path(""));
    for (tool, call) in &calls {
        let output = scene.carry_out(tool, call);
        assert!(output.is_error, "{tool}: {}", output.content);
    }
    assert_eq!(fs::read_to_string(scene.path("notes/today")).unwrap(), "a note\n");
    let names: Vec<_> = fs::read_dir(scene.path("notes")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["today"]);
}

#[test]
fn a_swap_after_the_question_is_refused() {
    // The directory becomes a link to another one, with a file of the same content.
    assert_swap_is_refused(|home| {
        fs::rename(home.join("work/docs"), home.join("work/gone")).unwrap();
        symlink(home.join("notes"), home.join("work/docs")).unwrap();
    });
    // The file becomes a link.
    assert_swap_is_refused(|home| {
        fs::remove_file(home.join("work/docs/today")).unwrap();
        symlink(home.join("notes/today"), home.join("work/docs/today")).unwrap();
    });
    // The directory becomes another directory.
    assert_swap_is_refused(|home| {
        fs::rename(home.join("work/docs"), home.join("work/gone")).unwrap();
        fs::create_dir(home.join("work/docs")).unwrap();
        fs::copy(home.join("notes/today"), home.join("work/docs/today")).unwrap();
    });
    // The file becomes another file of the same content.
    assert_swap_is_refused(|home| {
        fs::rename(home.join("work/docs/today"), home.join("work/docs/gone")).unwrap();
        fs::copy(home.join("notes/today"), home.join("work/docs/today")).unwrap();
    });
}

#[test]
fn a_read_of_what_was_swapped_after_the_question_is_refused() {
    let scene = Scene::new();
    fs::create_dir(scene.path("work/docs")).unwrap();
    fs::write(scene.path("work/docs/id"), "harmless").unwrap();
    let call = scene.prepare("read_file", &json!({"file_path": "docs/id"})).unwrap();
    fs::rename(scene.path("work/docs"), scene.path("work/gone")).unwrap();
    symlink(scene.path(".ssh"), scene.path("work/docs")).unwrap();
    let output = scene.carry_out("read_file", &call);
    assert!(output.is_error && !output.content.contains("key"), "{}", output.content);
}

#[test]
fn a_file_with_several_names_is_written_in_place_and_says_so() {
    let scene = Scene::new();
    fs::write(scene.path("work/f"), "a longer text").unwrap();
    fs::hard_link(scene.path("work/f"), scene.path("work/g")).unwrap();
    let write = json!({"file_path": "f", "content": "short"});
    let question = scene.prepare("write_file", &write).unwrap().question;
    assert_eq!(question.detail[1], "the file has 2 names (hard links); all of them will change");
    assert_eq!(question.file.unwrap().verdict, Verdict::AskProtected);
    let result = scene.workspace.run("write_file", &write);
    let said = "overwrote f (5 bytes); written in place: it has 2 hard links\n@@ -1 +1 @@\n-a longer text";
    assert!(result.content.starts_with(said), "{}", result.content);
    assert_eq!(fs::read_to_string(scene.path("work/g")).unwrap(), "short");
}

#[test]
fn protected_names_are_marked_and_pipes_and_devices_refused() {
    let scene = Scene::new();
    for path in [".git/hooks/pre-commit", "AGENTS.md", "sub/.mcp.json", ".polylogue/config.toml"] {
        let question = scene.prepare("write_file", &json!({"file_path": path, "content": "a"})).unwrap().question;
        assert_eq!(question.file.unwrap().verdict, Verdict::AskProtected, "{path}");
    }
    assert!(std::process::Command::new("mkfifo").arg(scene.path("work/pipe")).status().unwrap().success());
    symlink("pipe", scene.path("work/link")).unwrap();
    for path in ["pipe", "link", "/dev/zero", "/dev/tty"] {
        for (tool, arguments) in calls(path) {
            let message = scene.prepare(tool, &arguments).expect_err(path);
            assert!(message.contains("not a regular file"), "{tool} {path}: {message}");
        }
    }
}

#[test]
fn what_git_obeys_is_protected_in_a_git_directory_of_any_name() {
    let scene = Scene::new();
    let verdict = |path: &str| scene.verdict("write_file", &json!({"file_path": path, "content": "a"}));
    // Not yet a git directory, and neither does one of the marks make it one.
    for path in ["deep/HEAD", "deep/objects/info/x", "deep/config", "deep/hooks/pre-commit", "refs/a"] {
        assert_eq!(verdict(path), Verdict::Free, "{path}");
    }
    fs::create_dir_all(scene.path("work/deep/objects")).unwrap();
    assert_eq!((verdict("deep/objects/x"), verdict("deep/config")), (Verdict::Free, Verdict::Free));
    assert_eq!((verdict("deep/HEAD"), verdict("deep/refs/heads/x")), (Verdict::AskProtected, Verdict::AskProtected));
    fs::write(scene.path("work/deep/HEAD"), "ref: refs/heads/main\n").unwrap();
    for name in ["config", "Hooks/post-commit", "commondir", "config.worktree", "HEAD", "objects/ab/c", "refs/heads/x"]
    {
        assert_eq!(verdict(&format!("deep/{name}")), Verdict::AskProtected, "{name}");
    }
    let outside = scene.path("notes/config").display().to_string();
    assert_eq!((verdict("deep/notes"), verdict("deep/src/config")), (Verdict::Free, Verdict::Free));
    assert!(matches!(verdict(&outside), Verdict::AskOutside(_)));
}
