//! Files that tools have changed are brought back, unless others changed them.

mod commands;
mod crashes;
mod random;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use polylogue::config::Policy;
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, MessageId, Probe};
use crate::support::scene::app_with_agents;

/// So many agents in one directory; their tools run without a question.
fn app(agents: usize) -> Harness {
    app_with_agents(
        agents,
        Plan { policy: Policy::Yolo, rules: Default::default(), real_time: true, ..Plan::default() },
    )
}

/// Lets an agent write a file, in a turn of its own.
fn write(app: &mut Harness, n: usize, path: &str, content: &str) {
    app.say(n, &format!("%tool write_file {}", json!({"file_path": path, "content": content})));
    app.turn_until_idle();
}

/// Lets an agent replace a text in a file that it knows.
fn edit(app: &mut Harness, n: usize, path: &str, from: &str, to: &str) {
    let arguments = json!({"file_path": path, "old_string": from, "new_string": to});
    let read = json!({ "file_path": path });
    app.say(n, &format!("%tool read_file {read}\n%next\n%tool edit_file {arguments}"));
    app.turn_until_idle();
}

/// Kind, permissions and content of paths.
type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// Everything below a directory.
fn tree(directory: &Path) -> Tree {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a directory").flatten() {
            let (path, stat) = (entry.path(), entry.metadata().expect("a file"));
            let content = match stat.file_type() {
                kind if kind.is_symlink() => {
                    fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
                }
                kind if kind.is_dir() => Vec::new(),
                _ => fs::read(&path).expect("a file"),
            };
            if stat.is_dir() {
                open.push(path.clone());
            }
            found.insert(path, (stat.mode(), content));
        }
    }
    found
}

/// The messages of the user to an agent.
fn prompts(app: &Harness, n: usize) -> Vec<MessageId> {
    let prompts = app.log(n).into_iter().filter(|message| matches!(message.body, Body::User(_)));
    prompts.map(|message| message.id).collect()
}

/// Types a line with `/undo`, and waits for what comes of it.
pub(crate) fn undo(app: &mut Harness, line: &str) -> String {
    app.enter(line);
    app.turn_until("the end of the undo", |app| !app.repl.is_undoing());
    app.turn();
    let screen = app.screen_text();
    // A line that was refused is in the draft again.
    app.type_bytes(b"\x15");
    screen
}

#[test]
fn the_last_turn_is_undone_exactly_and_done_again() {
    let mut app = app(1);
    let top = app.directory();
    fs::write(top.join("kept"), "kept").unwrap();
    fs::write(top.join("script"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(top.join("script"), fs::Permissions::from_mode(0o751)).unwrap();
    symlink("script", top.join("link")).unwrap();
    let before = tree(&top);
    let arguments = |path: &str, content: &str| json!({"file_path": path, "content": content});
    app.say(
        0,
        &format!(
            "%tool write_file {}\n%tool write_file {}\n%tool write_file {}",
            arguments("new/deep/file", "new"),
            arguments("link", "#!/bin/bash\n"),
            arguments("new/other", "other"),
        ),
    );
    app.turn_until_idle();
    let after = tree(&top);
    assert_ne!(after, before);
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("brought back to before message"), "{screen}");
    assert_eq!(tree(&top), before);
    let Some(Body::System(told)) = app.log(0).pop().map(|message| message.body) else { panic!("the model is told") };
    assert!(told.contains("new/deep/file") && told.contains("script"), "{told}");
    undo(&mut app, "/undo --redo");
    assert_eq!(tree(&top), after);
    undo(&mut app, "/undo");
    assert_eq!(tree(&top), before);
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("no tool of this agent has changed files, or all of it was undone"), "{screen}");
}

#[test]
fn an_undo_goes_back_turn_by_turn_or_to_a_message() {
    let mut app = app(1);
    let top = app.directory();
    let mut states = vec![tree(&top)];
    write(&mut app, 0, "f", "one\n");
    states.push(tree(&top));
    edit(&mut app, 0, "f", "one", "two");
    states.push(tree(&top));
    let edits = json!({"file_path": "f", "edits": [{"old_string": "tw", "new_string": "thr"},
        {"old_string": "o\n", "new_string": "ee\n"}]});
    app.say(0, &format!("%tool multi_edit {edits}"));
    app.turn_until_idle();
    assert_eq!(fs::read_to_string(top.join("f")).unwrap(), "three\n");
    let at = prompts(&app, 0);
    undo(&mut app, "/undo");
    assert_eq!(tree(&top), states[2]);
    undo(&mut app, "/undo");
    assert_eq!(tree(&top), states[1]);
    undo(&mut app, "/undo --redo");
    assert_eq!(tree(&top), states[2]);
    undo(&mut app, &format!("/undo --to {}", at[0].0));
    assert_eq!(tree(&top), states[0]);
    assert_eq!(app.tool_results(0).iter().filter(|result| result.is_error).count(), 0);
}

#[test]
fn a_file_that_a_person_changed_since_is_named_and_nothing_is_undone() {
    let mut app = app(1);
    let top = app.directory();
    write(&mut app, 0, "a", "agent");
    write(&mut app, 0, "b", "agent");
    let first = prompts(&app, 0)[0].0;
    fs::write(top.join("b"), "person").unwrap();
    let screen = undo(&mut app, &format!("/undo --to {first}"));
    assert!(screen.contains("nothing was undone, 1 obstacle") && screen.contains("/b: was changed since"), "{screen}");
    assert_eq!(fs::read(top.join("a")).unwrap(), b"agent");
    let screen = undo(&mut app, &format!("/undo --to {first} --skip"));
    assert!(screen.contains("left as they are"), "{screen}");
    assert!(!top.join("a").exists());
    assert_eq!(fs::read(top.join("b")).unwrap(), b"person");
    undo(&mut app, "/undo --redo");
    assert_eq!(fs::read(top.join("a")).unwrap(), b"agent");
}

#[test]
fn a_file_that_another_agent_changed_between_is_refused() {
    let mut app = app(2);
    let top = app.directory();
    fs::write(top.join("f"), "old").unwrap();
    edit(&mut app, 0, "f", "old", "one");
    edit(&mut app, 1, "f", "one", "two");
    edit(&mut app, 0, "f", "two", "three");
    let first = prompts(&app, 0)[0].0;
    let screen = undo(&mut app, &format!("/undo --to {first}"));
    assert!(screen.contains("/f: others changed it before message"), "{screen}");
    undo(&mut app, "/undo");
    assert_eq!(fs::read(top.join("f")).unwrap(), b"two");
    undo(&mut app, "/undo 1");
    assert_eq!(fs::read(top.join("f")).unwrap(), b"one");
    undo(&mut app, "/undo");
    assert_eq!(fs::read(top.join("f")).unwrap(), b"old");
}

#[test]
fn an_agent_that_changed_and_undid_something_can_be_deleted() {
    let mut app = app(2);
    app.switch(1);
    write(&mut app, 1, "f", "agent");
    undo(&mut app, "/undo");
    undo(&mut app, "/undo --redo");
    let deleted = app.id(1);
    assert_eq!(app.repl.store().file_steps(deleted, MessageId(0)).unwrap().len(), 3);
    app.switch(0);
    app.enter_and_confirm("/delete 1");
    app.turn();
    assert_eq!(app.repl.roster().len(), 1, "{}", app.screen_text());
    assert_eq!(app.repl.store().file_steps(deleted, MessageId(0)), Ok(Vec::new()));
}

#[test]
fn what_is_too_large_to_keep_is_said() {
    let mut app = app(1);
    let large = app.directory().join("large");
    fs::write(&large, vec![b'x'; (8 << 20) + 1]).unwrap();
    write(&mut app, 0, "large", "small");
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("larger than 8 MiB"), "{screen}");
    assert_eq!(fs::read(large).unwrap(), b"small");
}

#[test]
fn an_undo_survives_a_restart_and_a_damaged_snapshot_is_refused() {
    let mut app = app(1);
    fs::write(app.directory().join("f"), "old").unwrap();
    write(&mut app, 0, "f", "new");
    let mut app = app.crash_and_restart();
    undo(&mut app, "/undo");
    assert_eq!(fs::read(app.directory().join("f")).unwrap(), b"old");
    undo(&mut app, "/undo --redo");
    assert_eq!(fs::read(app.directory().join("f")).unwrap(), b"new");
    let objects = app.data().join("snapshots/objects");
    let kept: Vec<PathBuf> = tree(&objects).into_keys().filter(|path| path.is_file()).collect();
    kept.iter().for_each(|path| fs::write(path, "damaged").unwrap());
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("missing or damaged"), "{screen}");
    assert_eq!(fs::read(app.directory().join("f")).unwrap(), b"new");
}
