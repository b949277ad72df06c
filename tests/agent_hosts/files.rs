//! What hosts change in files can be undone.

use std::fs;

use polylogue::Change;

use super::*;
use crate::environments::worktrees::git;
use crate::support::internals::Probe as _;
use crate::undo::undo;

/// An agent with the host `edits` in a repository.
fn app_in_repository() -> Harness {
    let app = app(Plan { policy: Policy::Yolo, ..plan(scripted("edits")) });
    let top = app.directory();
    fs::write(top.join("a.txt"), "before\n").expect("a file");
    git(&top, &["init", "-q"]);
    app
}

fn content(app: &Harness) -> String {
    fs::read_to_string(app.directory().join("a.txt")).expect("a file")
}

/// Types a line with `/undo` until the host has stopped, and expects everything as it was.
fn undo_all(app: &mut Harness, line: &str) {
    app.turn_until("the undo", |app| !undo(app, line).contains("its host is still ending its turn"));
    assert_eq!(content(app), "before\n", "{}", app.screen_text());
    assert!(!app.directory().join("late").exists(), "{}", app.screen_text());
}

#[test]
fn a_turn_of_a_host_is_undone_and_done_again_and_it_hears_of_that() {
    let mut app = app_in_repository();
    app.enter("first");
    app.turn_until_idle();
    let edited = content(&app);
    assert!(edited.contains("first"), "{edited}");
    app.enter("/diff");
    app.turn_until("the changes", |app| app.screen_text().contains("has changed 2 files"));
    app.escape();
    let screen = undo(&mut app, "/undo");
    assert_eq!(content(&app), "before\n", "{screen}");
    assert!(!app.directory().join("made").exists(), "{screen}");
    undo(&mut app, "/undo --redo");
    assert_eq!(content(&app), edited);
    undo(&mut app, "/undo");
    app.enter("second");
    app.turn_until_idle();
    let edited = content(&app);
    assert!(edited.contains("The user undid changes of yours") && edited.contains("second"), "{edited}");
    undo(&mut app, "/undo");
    assert_eq!(content(&app), "before\n", "only the second turn was left to undo");
}

#[test]
fn what_a_host_changes_until_it_has_stopped_belongs_to_the_turn() {
    let mut app = app_in_repository();
    app.enter("stay");
    app.turn_until("the text", |app| app.screen_text().contains("edited"));
    app.escape();
    app.turn_until_idle();
    undo_all(&mut app, "/undo");
}

#[test]
fn the_changes_of_a_killed_agent_are_known() {
    let mut app = app_in_repository();
    let child = app.fork_named(0, "child");
    app.say(child, "stay");
    app.turn_until("the change", |app| content(app).contains("stay"));
    app.ask(0, Change::Kill { agent_id: app.id(child), cascade: false });
    app.turn_until("the end", |app| app.repl.roster().ids().len() == 1);
    undo_all(&mut app, "/undo child");
}

#[test]
fn a_host_that_ends_right_after_its_answer_has_answered() {
    let mut app = app_in_repository();
    app.enter("leave");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["", "edited"], "{}", app.screen_text());
    assert!(!app.screen_text().contains("Enter tries again"), "{}", app.screen_text());
    undo_all(&mut app, "/undo");
}

#[test]
fn outside_of_a_repository_the_changes_are_unknown() {
    let mut app = app(Plan { policy: Policy::Yolo, ..plan(scripted("edits")) });
    app.enter("first");
    app.turn_until_idle();
    let screen = undo(&mut app, "/undo").replace("\n  ", " ");
    assert!(screen.contains("its changes are unknown: its directory is in no git repository"), "{screen}");
}
