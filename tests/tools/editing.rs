//! What `edit_file` changes, and what it wants to know before; and that nothing is written over a file that has changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use polylogue::domain::tool::ToolResult;
use polylogue::tools::{self, Job, Output, Prepared, Run};
use serde_json::{Value, json};

use super::Room;

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_text": old, "new_text": new})
}

fn read(room: &Room, path: &str) -> ToolResult {
    room.run("read_file", &json!({"path": path}))
}

fn carry_out(room: &Room, tool: &str, call: &Prepared) -> Output {
    let Run::OnThread(run) = tools::find(tool).unwrap().run else { panic!("{tool} runs on a thread") };
    run(call, &room.env, &Job::new().unwrap())
}

fn refusal(room: &Room, arguments: &Value) -> String {
    room.prepare("edit_file", arguments).unwrap_err()
}

#[test]
fn one_place_is_changed_and_everything_else_of_the_file_stays() {
    let room = Room::new();
    fs::write(room.path("f"), "a\nb\nc\n").unwrap();
    fs::set_permissions(room.path("f"), fs::Permissions::from_mode(0o750)).unwrap();
    read(&room, "f");
    let call = room.prepare("edit_file", &edit("f", "b\n", "B\nB\n")).unwrap();
    assert_eq!(call.question.title, "edit_file: f (-1 +2 lines)");
    let path = room.path("f").display().to_string();
    assert_eq!(call.question.detail, [&format!("{path}: -1 +2 lines"), " a", "-b", "+B", "+B", " c"]);
    let result = room.run("edit_file", &edit("f", "b\n", "B\nB\n"));
    assert_eq!((result.content.as_str(), result.is_error), ("f is changed.", false));
    assert_eq!(fs::read_to_string(room.path("f")).unwrap(), "a\nB\nB\nc\n");
    assert_eq!(fs::metadata(room.path("f")).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn a_text_that_stands_there_more_than_once_or_not_at_all_is_refused_before_anybody_is_asked() {
    let room = Room::new();
    fs::write(room.path("f"), "x x").unwrap();
    read(&room, "f");
    assert!(refusal(&room, &edit("f", "x", "y")).contains("stands 2 times in f"));
    assert!(refusal(&room, &edit("f", "x  x", "y")).contains("does not stand in f"));
    assert!(refusal(&room, &edit("f", "", "y")).contains("`old_text` must be a text"));
    assert!(refusal(&room, &edit("f", "x", "x")).contains("another one than"));
    let all = json!({"path": "f", "old_text": "x", "new_text": "y", "replace_all": true});
    assert_eq!(room.run("edit_file", &all).content, "f is changed in 2 places.");
    assert_eq!(fs::read_to_string(room.path("f")).unwrap(), "y y");
}

#[test]
fn a_file_must_have_been_read_and_be_as_it_was_then() {
    let room = Room::new();
    fs::write(room.path("f"), "old").unwrap();
    assert!(refusal(&room, &edit("f", "old", "new")).contains("was not read yet"));
    read(&room, "f");
    fs::write(room.path("f"), "odd").unwrap();
    assert!(refusal(&room, &edit("f", "odd", "new")).contains("has changed since it was last read"));
    read(&room, "f");
    // Another file with the same content in its place is the same text.
    fs::write(room.path("g"), "odd").unwrap();
    fs::rename(room.path("g"), room.path("f")).unwrap();
    assert!(!room.run("edit_file", &edit("f", "odd", "new")).is_error);
}

#[test]
fn what_an_agent_wrote_or_changed_itself_it_knows() {
    let room = Room::new();
    room.run("write_file", &json!({"path": "f", "content": "one"}));
    assert!(!room.run("edit_file", &edit("f", "one", "two")).is_error);
    assert!(!room.run("edit_file", &edit("./f", "two", "three")).is_error);
    assert_eq!(fs::read_to_string(room.path("f")).unwrap(), "three");
}

#[test]
fn what_one_agent_has_read_another_may_change_and_the_same_file_has_one_register_in_all_environments() {
    let room = Room::new();
    fs::write(room.path("f"), "old").unwrap();
    read(&room, "f");
    let other = tools::Environment { spec: "another".into(), ..room.env.clone() };
    let arguments = edit("f", "old", "new").to_string();
    assert!(tools::find("edit_file").unwrap().prepare(&arguments, &other).is_ok());
    let stranger = tools::Environment::at(room.env.working_directory.clone());
    assert!(tools::find("edit_file").unwrap().prepare(&arguments, &stranger).is_err());
}

#[test]
fn what_changes_between_the_question_and_the_answer_is_not_written_over() {
    let room = Room::new();
    fs::write(room.path("f"), "old").unwrap();
    read(&room, "f");
    let calls = [
        ("edit_file", room.prepare("edit_file", &edit("f", "old", "new")).unwrap()),
        ("write_file", room.prepare("write_file", &json!({"path": "f", "content": "new"})).unwrap()),
        ("write_file", room.prepare("write_file", &json!({"path": "fresh", "content": "new"})).unwrap()),
    ];
    fs::write(room.path("f"), "old and more").unwrap();
    fs::write(room.path("fresh"), "somebody was quicker").unwrap();
    read(&room, "f");
    for (tool, call) in &calls {
        let output = carry_out(&room, tool, call);
        assert!(output.is_error && output.content.contains("has changed"), "{tool}: {}", output.content);
    }
    assert_eq!(fs::read_to_string(room.path("f")).unwrap(), "old and more");
    assert_eq!(fs::read_to_string(room.path("fresh")).unwrap(), "somebody was quicker");
}

#[test]
fn what_is_no_text_of_a_reasonable_size_is_left_to_commands() {
    let room = Room::new();
    room.bell("pipe");
    fs::write(room.path("binary"), b"\xff\xfe").unwrap();
    fs::write(room.path("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    for path in ["binary", "large"] {
        read(&room, path);
    }
    for (path, words) in [
        ("binary", "no text in UTF-8"),
        ("large", "more than 1048576 bytes"),
        ("none", "does not exist; write_file makes files"),
        ("pipe", "no regular file"),
        (".", "directory"),
        // A file that its owner may write, whoever that is.
        ("/proc/self/comm", "belongs to a process"),
    ] {
        let told = refusal(&room, &edit(path, "a", "b"));
        assert!(told.contains(words), "{path}: {told}");
    }
}
