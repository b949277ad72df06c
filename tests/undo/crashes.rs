//! What a process leaves when it is killed in the middle of a tool call or of an undo, the next one takes up.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{app, tree, undo, write};
use crate::support::Patience;
use crate::support::harness::Harness;
use crate::support::program::Home;

/// Files that one undo brings back; each is synced, so that it takes some time.
const FILES: usize = 150;

fn open_steps(data: &Path) -> usize {
    fs::read_dir(data.join("snapshots/open")).map_or(0, Iterator::count)
}

#[test]
fn a_change_that_was_not_stored_is_known_after_a_restart() {
    let mut app = app(1);
    let file = app.directory().join("f");
    fs::write(&file, "old").unwrap();
    app.say(0, &format!("%tool write_file {}", json!({"file_path": "f", "content": "new"})));
    app.is_disk_full.store(true, Ordering::Relaxed);
    let is_written = |_: &mut Harness| fs::read(&file).is_ok_and(|content| content == b"new");
    app.turn_until("the file is written", is_written);
    app.turn_until_idle();
    assert_eq!(open_steps(app.data()), 1);
    let mut app = app.crash_and_restart();
    assert_eq!(open_steps(app.data()), 0);
    undo(&mut app, "/undo");
    assert_eq!(fs::read(&file).unwrap(), b"old");
}

#[test]
fn an_undo_that_was_not_stored_is_complete_after_a_restart() {
    let mut app = app(1);
    let top = app.directory();
    let before = tree(&top);
    write(&mut app, 0, "f", "new");
    app.is_disk_full.store(true, Ordering::Relaxed);
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("database"), "{screen}");
    // As if the process had been killed before it removed the file.
    fs::write(top.join("f"), "new").unwrap();
    let mut app = app.crash_and_restart();
    assert_eq!((tree(&top), open_steps(app.data())), (before, 0));
    assert!(app.screen_text().contains("an undo was interrupted and is complete now"), "{}", app.screen_text());
    undo(&mut app, "/undo --redo");
    assert_eq!(fs::read(top.join("f")).unwrap(), b"new");
}

/// One reply with so many calls.
fn calls(content: &str) -> String {
    let call = |n| format!("%tool write_file {}", json!({"file_path": format!("work/{n}"), "content": content}));
    (0..FILES).map(call).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_process_that_is_killed_in_the_middle_of_an_undo_leaves_it_to_the_next_one() {
    let home = Home::new();
    let work = home.directory.path().join("work");
    fs::create_dir(&work).unwrap();
    (0..FILES).for_each(|n| fs::write(work.join(n.to_string()), format!("old {n}")).unwrap());
    let before = tree(&work);
    let wrote = home.run(&["-p", "--approval", "yolo", &calls("new")]);
    assert_eq!(wrote.code, 0, "{}", wrote.err);
    let is_old = || (0..FILES).filter(|n| fs::read(work.join(n.to_string())).is_ok_and(|text| text != b"new")).count();
    assert_eq!(is_old(), 0);
    let mut patience = Patience::new();
    let done = loop {
        let undo = home.start(&["undo"]);
        while is_old() < 5 {
            assert!(patience.has_time(), "nothing is brought back");
        }
        // On a loaded machine it may have ended by now.
        let _ = kill_process(undo.pid, Signal::KILL);
        let killed = undo.ends();
        if killed.code == 137 && is_old() < FILES {
            assert_eq!(killed.out, "", "{}", killed.err);
            break is_old();
        }
        assert!(patience.has_time(), "it always ends before it is killed: {killed:?}");
        let redone = home.run(&["undo", "--redo"]);
        assert_eq!((redone.code, is_old()), (0, 0), "{}", redone.err);
    };
    assert!((5..FILES).contains(&done), "killed after {done} of {FILES} files");
    let next = home.run(&["undo", "0"]);
    assert!(next.err.contains("an undo was interrupted and is complete now: 150 files"), "{}", next.err);
    assert!(next.err.contains("all of it was undone"), "{}", next.err);
    assert!(tree(&work) == before, "not exactly as before: {:?}", tree(&work).keys());
    assert_eq!(open_steps(&home.data()), 0);
    let redone = home.run(&["undo", "--redo"]);
    assert_eq!((redone.code, is_old()), (0, 0), "{}", redone.err);
    let again = home.run(&["undo"]);
    assert!(again.out.starts_with("150 files brought back to before message"), "{}{}", again.out, again.err);
    assert!(tree(&work) == before);
}

#[test]
fn without_a_name_only_an_agent_of_this_directory_is_undone() {
    let home = Home::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let call = "%tool write_file {\"path\":\"made\",\"content\":\"x\"}\n%next\ndone";
    let there = elsewhere.path().to_str().expect("UTF-8");
    let wrote = home.run(&["-C", there, "-p", "--approval", "yolo", call]);
    assert_eq!(wrote.code, 0, "{}", wrote.err);
    let refused = home.run(&["undo"]);
    assert!(refused.err.contains("no agent works in ") && refused.err.contains("name one"), "{refused:?}");
    assert!(elsewhere.path().join("made").exists());
    let named = home.run(&["mail", "0"]);
    assert_eq!(named.code, 0, "an agent that is named may work elsewhere: {named:?}");
    let undone = home.run(&["-C", there, "undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert!(!elsewhere.path().join("made").exists());
}
