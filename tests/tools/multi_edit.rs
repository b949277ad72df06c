//! What `multi_edit` adds to `edit_file`: several edits, in order, all or none.

use std::fs;

use serde_json::{Value, json};

use super::Workspace;

fn multi(path: &str, edits: &[(&str, &str)]) -> Value {
    let edits: Vec<Value> = edits.iter().map(|(old, new)| json!({"old_string": old, "new_string": new})).collect();
    json!({"file_path": path, "edits": edits})
}

fn workspace_with(text: &str) -> Workspace {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), text).unwrap();
    workspace.run("read_file", &json!({"file_path": "f"}));
    workspace
}

#[test]
fn edits_are_made_in_order_in_the_result_of_those_before() {
    let workspace = workspace_with("a\nb\nc\nd\n");
    let edits = multi("f", &[("a\n", "A\nA2\n"), ("A2", "A3"), ("d", "D")]);
    let call = workspace.prepare("multi_edit", &edits).unwrap();
    assert_eq!(call.question.title, "multi_edit: f (+3 -2 lines)");
    assert_eq!(call.question.detail[1..], ["@@ -1,4 +1,5 @@", "-a", "+A", "+A3", " b", " c", "-d", "+D"]);
    let result = workspace.run("multi_edit", &edits);
    assert!(result.content.starts_with("edited f (3 replacements)\n@@ -1,4 +1,5 @@\n-a\n+A"), "{}", result.content);
    assert_eq!(fs::read_to_string(workspace.path("f")).unwrap(), "A\nA3\nb\nc\nD\n");
}

#[test]
fn an_edit_that_does_not_fit_names_itself_and_nothing_is_changed() {
    let workspace = workspace_with("one two two");
    let refusal = |edits: &Value| workspace.prepare("multi_edit", edits).unwrap_err();
    for (edits, expected) in [
        (multi("f", &[("one", "1"), ("none", "x")]), "`edits[1].old_string` not found in f after the edits before it"),
        (multi("f", &[("one", "two"), ("two", "x")]), "found 3 matches of `edits[1].old_string` in f after the edits"),
        (multi("f", &[("two", "x")]), "found 2 matches of `edits[0].old_string` in f, expected 1"),
        (multi("f", &[("", "x")]), "`edits[0].old_string` must not be empty"),
        (multi("f", &[("one", "one")]), "`edits[0].old_string` and `edits[0].new_string` are the same"),
        (multi("f", &[("one", "1"), ("1", "one")]), "the edits leave f as it is"),
        (multi("f", &[]), "`edits` must not be empty"),
        (multi("g", &[("a", "b")]), "g: does not exist"),
        (json!({"file_path": "f", "edits": [{"old_string": "one"}]}), "`edits[0].new_string` is missing"),
    ] {
        assert!(refusal(&edits).contains(expected), "{edits}: {}", refusal(&edits));
    }
    assert_eq!(fs::read_to_string(workspace.path("f")).unwrap(), "one two two");
}

#[test]
fn other_names_of_the_parameters_and_replace_all_are_taken() {
    let workspace = workspace_with("x x y");
    let edits = json!({"filePath": "f", "edits": [
        {"oldString": "x", "newString": "z", "replaceAll": "true"}, {"old_str": "y", "new_str": "w"}]});
    assert!(workspace.run("multi_edit", &edits).content.starts_with("edited f (3 replacements)"));
    assert_eq!(fs::read_to_string(workspace.path("f")).unwrap(), "z z w");
}

#[test]
fn edits_cannot_make_a_file_grow_without_bound() {
    let workspace = workspace_with(&"x".repeat(1000));
    let double = json!({"old_string": "x", "new_string": "xx", "replace_all": true});
    let edits = json!({"file_path": "f", "edits": vec![double; 60]});
    let message = workspace.prepare("multi_edit", &edits).unwrap_err();
    assert!(message.contains("`edits[10].new_string` would make f larger than 1 MiB"), "{message}");
    let all = json!({"file_path": "f", "old_string": "x", "new_string": "y".repeat(2000), "replace_all": true});
    assert!(workspace.prepare("edit_file", &all).unwrap_err().contains("`new_string` would make f larger than 1 MiB"));
}

#[test]
fn a_file_that_was_not_read_or_has_changed_is_refused() {
    let workspace = workspace_with("one");
    fs::write(workspace.path("f"), "two").unwrap();
    let message = workspace.prepare("multi_edit", &multi("f", &[("two", "x")])).unwrap_err();
    assert!(message.contains("file changed since it was last read"), "{message}");
    fs::write(workspace.path("g"), "one").unwrap();
    let message = workspace.prepare("multi_edit", &multi("g", &[("one", "x")])).unwrap_err();
    assert!(message.contains("has not been read yet"), "{message}");
}
