//! The conflict radar: what worktrees would conflict with, said while their agents work.

use std::fs;

use super::review::{in_repository, wait_for_text};
use super::worktrees::{git, worktrees};
use crate::support::harness::Harness;
use crate::support::internals::{Probe as _, WakeReason};
use crate::support::scene::{assert_shows, turn_a_while};

/// An agent in a worktree, which stays in the background.
fn fork(app: &mut Harness, name: &str) -> usize {
    let before = app.repl.roster().len();
    app.enter(&format!("/fork --worktree --stay --name {name}"));
    app.turn_until("a child", |app| app.repl.roster().len() > before);
    before
}

/// Has an agent write a file.
fn write(app: &mut Harness, n: usize, file: &str, content: &str) {
    let call = serde_json::json!({"file_path": file, "content": content});
    app.say(n, &format!("%tool read_file {}", serde_json::json!({"file_path": file})));
    app.turn_until_idle();
    app.say(n, &format!("%tool write_file {call}"));
    app.turn_until_idle();
}

fn conflicts(app: &Harness, n: usize) -> Vec<String> {
    app.agent(n).report.conflicts.clone()
}

#[test]
fn two_worktrees_that_conflict_are_told_at_both_and_when_they_no_longer_do() {
    let Some((mut app, _)) = in_repository() else { return };
    let (json, stdin) = (fork(&mut app, "json"), fork(&mut app, "stdin"));
    write(&mut app, json, "src/f", "json\n");
    app.turn_until("it was looked at", |app| app.agent(json).report.size == Some((1, 1)));
    assert_eq!(conflicts(&app, json), [""; 0]);
    write(&mut app, stdin, "src/f", "stdin\n");
    app.turn_until("the conflict is known", |app| !conflicts(app, json).is_empty());
    assert_eq!(
        (conflicts(&app, json), conflicts(&app, stdin)),
        (vec!["stdin: src/f".into()], vec!["json: src/f".into()])
    );
    app.switch(json);
    assert_shows(&mut app, "conflicts with stdin: src/f");
    app.type_bytes(b"\x1bw");
    wait_for_text(&mut app, "+1 -1, conflicts with json: src/f");
    app.type_bytes(b"\x1b");
    write(&mut app, stdin, "src/f", "one\n");
    app.turn_until("the conflict is gone", |app| conflicts(app, json).is_empty() && conflicts(app, stdin).is_empty());
    app.switch(stdin);
    assert_shows(&mut app, "no longer conflicts with json");
}

#[test]
fn a_branch_that_was_changed_meanwhile_is_a_conflict_too() {
    let Some((mut app, repo)) = in_repository() else { return };
    let json = fork(&mut app, "json");
    fs::write(repo.join("src/f"), "of the person\n").unwrap();
    git(&repo, &["commit", "-q", "-a", "-m", "second"]);
    let before = git(&repo, &["count-objects"]);
    write(&mut app, json, "src/f", "json\n");
    app.turn_until("the conflict is known", |app| conflicts(app, json) == ["main: src/f"]);
    assert_eq!(git(&repo, &["count-objects"]), before, "nothing is written in the repository");
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
}

#[test]
fn renames_and_deletions_and_files_that_only_one_changed() {
    let Some((mut app, repo)) = in_repository() else { return };
    fs::write(repo.join("src/g"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "second"]);
    let (one, other) = (fork(&mut app, "one"), fork(&mut app, "other"));
    let root = |app: &Harness, n: usize| app.agent(n).inputs.environment.worktree.clone().expect("a worktree");
    git(&root(&app, one), &["mv", "src/g", "src/h"]);
    git(&root(&app, one), &["rm", "-q", "src/f"]);
    write(&mut app, one, "src/new", "of one\n");
    app.turn_until("it was looked at", |app| app.agent(one).report.size.is_some());
    // Git follows the rename.
    write(&mut app, other, "src/g", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    app.turn_until("it was looked at", |app| app.agent(other).report.size == Some((1, 1)));
    assert_eq!(conflicts(&app, one), [""; 0]);
    write(&mut app, other, "src/f", "two\n");
    app.turn_until("one deletes what the other changes", |app| conflicts(app, one) == ["other: src/f"]);
    app.ask(0, polylogue::Change::Kill { agent_id: app.id(other), cascade: false });
    app.turn_until("the other is gone", |app| conflicts(app, one).is_empty());
}

#[test]
fn nothing_is_looked_at_while_nothing_changes() {
    let Some((mut app, _)) = in_repository() else { return };
    let json = fork(&mut app, "json");
    write(&mut app, json, "src/f", "json\n");
    app.turn_until("it was looked at", |app| app.agent(json).report.size.is_some_and(|size| size.0 > 0));
    // The look at the new worktree may have seen the change; there is one more after it.
    app.turn_until("nothing is due", |app| app.timeout().why == WakeReason::Nothing);
    turn_a_while(&mut app);
    let surveys = || fs::read_dir(app.data().join("worktrees")).unwrap().count();
    assert_eq!(surveys(), worktrees(&app).len() + 1);
    assert_eq!(app.timeout().why, WakeReason::Nothing);
}

/// Git looks into repositories in its index, and runs the filters that they name.
#[test]
fn a_repository_in_a_worktree_that_names_programs_is_refused_and_none_is_run() {
    let Some((mut app, _)) = in_repository() else { return };
    let json = fork(&mut app, "json");
    let root = app.agent(json).inputs.environment.worktree.clone().expect("a worktree");
    let (inner, ran) = (root.join("inner"), root.with_file_name("ran"));
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    fs::write(inner.join("f"), "one\n").unwrap();
    git(&inner, &["add", "f"]);
    git(&inner, &["commit", "-q", "-m", "inner"]);
    git(&root, &["add", "inner"]);
    git(&inner, &["config", "filter.x.clean", &format!("touch '{}'; cat", ran.display())]);
    fs::write(inner.join(".gitattributes"), "* filter=x\n").unwrap();
    fs::write(inner.join("f"), "two\n").unwrap();
    write(&mut app, json, "src/f", "json\n");
    for line in ["/diff json", "/land json --commit all"] {
        app.enter(line);
        wait_for_text(&mut app, "inner is a repository of its own, which may name programs: move it away");
        app.type_bytes(b"\x1b");
        app.turn();
    }
    assert!(!ran.exists(), "no program was run");
    git(&root, &["status"]);
    assert!(ran.exists(), "git runs it where nobody refuses");
}
