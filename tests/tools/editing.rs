//! What `edit_file` changes and requires, and that a file that has changed is not overwritten.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use polylogue::ToolResult;
use serde_json::{Value, json};

use super::Workspace;
use crate::support::internals::tools;
use crate::support::internals::tools::{Job, Output, Prepared, Run};

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"file_path": path, "old_string": old, "new_string": new})
}

fn read(workspace: &Workspace, path: &str) -> ToolResult {
    workspace.run("read_file", &json!({"file_path": path}))
}

fn carry_out(workspace: &Workspace, tool: &str, call: &Prepared) -> Output {
    let Run::OnThread(run) = tools::find(tool).unwrap().run else { panic!("{tool} runs on a thread") };
    run(call, &workspace.env, &Job::new().unwrap())
}

fn refusal(workspace: &Workspace, arguments: &Value) -> String {
    workspace.prepare("edit_file", arguments).unwrap_err()
}

#[test]
fn one_occurrence_is_replaced_and_mode_and_other_content_stay() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "a\nb\nc\n").unwrap();
    fs::set_permissions(workspace.path("f"), fs::Permissions::from_mode(0o750)).unwrap();
    read(&workspace, "f");
    let call = workspace.prepare("edit_file", &edit("f", "b\n", "B\nB\n")).unwrap();
    assert_eq!(call.question.title, "edit_file: f (+2 -1 lines)");
    let path = workspace.path("f").display().to_string();
    assert_eq!(
        call.question.detail,
        [&format!("{path}: +2 -1 lines"), "@@ -1,3 +1,4 @@", " a", "-b", "+B", "+B", " c"]
    );
    let result = workspace.run("edit_file", &edit("f", "b\n", "B\nB\n"));
    let edited = "edited f (1 replacement)\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+B\n c";
    assert_eq!((result.content.as_str(), result.is_error), (edited, false));
    assert_eq!(fs::read_to_string(workspace.path("f")).unwrap(), "a\nB\nB\nc\n");
    assert_eq!(fs::metadata(workspace.path("f")).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn text_that_does_not_occur_exactly_once_is_refused_before_the_user_is_asked() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "x x").unwrap();
    read(&workspace, "f");
    assert!(refusal(&workspace, &edit("f", "x", "y")).contains("found 2 matches of `old_string` in f, expected 1"));
    assert!(
        refusal(&workspace, &edit("f", "x  x", "y")).contains("`old_string` not found in f; it must match exactly")
    );
    assert!(refusal(&workspace, &edit("f", "", "y")).contains("`old_string` must not be empty"));
    assert!(refusal(&workspace, &edit("f", "x", "x")).contains("are the same"));
    let all = json!({"path": "f", "oldString": "x", "new_text": "y", "replaceAll": "true"});
    let content = workspace.run("edit_file", &all).content;
    assert!(content.starts_with("edited f (2 replacements)\n@@ -1 +1 @@\n-x x"), "{content}");
    assert_eq!(fs::read_to_string(workspace.path("f")).unwrap(), "y y");
}

#[test]
fn a_file_must_have_been_read_and_not_changed_since() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "old").unwrap();
    assert!(refusal(&workspace, &edit("f", "old", "new")).contains("has not been read yet"));
    read(&workspace, "f");
    fs::write(workspace.path("f"), "odd").unwrap();
    assert!(refusal(&workspace, &edit("f", "odd", "new")).contains("file changed since it was last read"));
    read(&workspace, "f");
    // Another file with the same content at this path is the same version.
    fs::write(workspace.path("g"), "odd").unwrap();
    fs::rename(workspace.path("g"), workspace.path("f")).unwrap();
    assert!(!workspace.run("edit_file", &edit("f", "odd", "new")).is_error);
}

#[test]
fn a_file_that_an_agent_wrote_or_edited_counts_as_read() {
    let workspace = Workspace::new();
    workspace.run("write_file", &json!({"file_path": "f", "content": "one"}));
    assert!(!workspace.run("edit_file", &edit("f", "one", "two")).is_error);
    assert!(!workspace.run("edit_file", &edit("./f", "two", "three")).is_error);
    assert_eq!(fs::read_to_string(workspace.path("f")).unwrap(), "three");
}

#[test]
fn what_another_agent_has_read_does_not_count() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "old").unwrap();
    read(&workspace, "f");
    let arguments = edit("f", "old", "new").to_string();
    let prepare = |env: &tools::Environment| tools::find("edit_file").unwrap().prepare(&arguments, env);
    let child = Arc::new(workspace.env.known_files.fork());
    assert!(prepare(&tools::Environment { known_files: child, ..workspace.env.clone() }).is_ok());
    let other = tools::Environment { known_files: Arc::default(), ..workspace.env.clone() };
    assert!(prepare(&other).unwrap_err().contains("has not been read yet"));
}

#[test]
fn a_file_that_another_agent_changed_is_a_conflict_also_for_a_whole_write() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "old").unwrap();
    read(&workspace, "f");
    let mut other = Workspace::new();
    other.env = tools::Environment { known_files: Arc::default(), ..workspace.env.clone() };
    read(&other, "f");
    assert!(!other.run("edit_file", &edit("f", "old", "old and more")).is_error);
    assert!(refusal(&workspace, &edit("f", "old", "new")).contains("file changed since it was last read"));
    let whole = json!({"file_path": "f", "content": "new"});
    assert!(workspace.prepare("write_file", &whole).unwrap_err().contains("file changed since it was last read"));
    fs::remove_file(workspace.path("f")).unwrap();
    assert!(!workspace.run("write_file", &whole).is_error, "a file that is gone can be created again");
}

#[test]
fn a_file_that_changes_while_the_user_is_asked_is_not_overwritten() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "old").unwrap();
    read(&workspace, "f");
    let calls = [
        ("edit_file", workspace.prepare("edit_file", &edit("f", "old", "new")).unwrap()),
        ("write_file", workspace.prepare("write_file", &json!({"file_path": "f", "content": "new"})).unwrap()),
        ("write_file", workspace.prepare("write_file", &json!({"file_path": "fresh", "content": "new"})).unwrap()),
    ];
    fs::write(workspace.path("f"), "old and more").unwrap();
    fs::write(workspace.path("fresh"), "created meanwhile").unwrap();
    read(&workspace, "f");
    for (tool, call) in &calls {
        let output = carry_out(&workspace, tool, call);
        assert!(output.is_error && output.content.contains("file changed since"), "{tool}: {}", output.content);
    }
    assert_eq!(fs::read_to_string(workspace.path("f")).unwrap(), "old and more");
    assert_eq!(fs::read_to_string(workspace.path("fresh")).unwrap(), "created meanwhile");
}

#[test]
fn a_file_that_is_not_text_or_too_large_is_refused() {
    let workspace = Workspace::new();
    workspace.make_fifo("pipe");
    fs::write(workspace.path("binary"), b"\xff\xfe").unwrap();
    fs::write(workspace.path("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    for path in ["binary", "large"] {
        read(&workspace, path);
    }
    for (path, expected) in [
        ("binary", "not valid UTF-8"),
        ("large", "larger than the limit of edits"),
        ("none", "does not exist; use write_file to create it"),
        ("binari", "does not exist; did you mean "),
        ("pipe", "not a regular file"),
        (".", "directory"),
        // Writable by its owner, so that only the check for files of processes refuses it.
        ("/proc/self/comm", "access denied: environment and memory of processes"),
    ] {
        let message = refusal(&workspace, &edit(path, "a", "b"));
        assert!(message.contains(expected), "{path}: {message}");
    }
}
