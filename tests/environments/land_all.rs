//! `/land --all`: a queue in which the branch only ever moves to a state that passed.

use std::fs;
use std::path::{Path, PathBuf};

use polylogue::config::{DoneSettings, WorktreeSettings};

use super::review::wait_for_text;
use super::worktrees::{git, make_repository, worktrees};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Message, Probe as _, State};
use crate::support::scene::turn_a_while;

/// An app whose work is done when this script says so, with these agents in worktrees of a repository.
fn app(script: &str, agents: &[&str]) -> (Harness, PathBuf) {
    let command = if script.is_empty() { Vec::new() } else { ["sh", "-c", script].map(str::to_owned).to_vec() };
    let done = DoneSettings { command, ..DoneSettings::default() };
    let trailers = vec!["Assisted-by: {model}".into(), "Agent: {agent}".into()];
    let worktree = WorktreeSettings { trailers, ..WorktreeSettings::default() };
    let mut app = Harness::new(Plan { real_time: true, done, worktree, size: Some((120, 50)), ..Plan::default() });
    let repo = app.directory().join("repo");
    make_repository(&repo);
    let repo = fs::canonicalize(repo).expect("a repository");
    git(&repo, &["config", "user.name", "test"]);
    git(&repo, &["config", "user.email", "test@localhost"]);
    app.enter("/env coding@repo");
    for (at, name) in agents.iter().enumerate() {
        app.enter(&format!("/fork --worktree --stay --name {name}"));
        app.turn_until("a child", |app| app.repl.roster().len() == at + 3);
    }
    (app, repo)
}

fn write(app: &Harness, name: &str, file: &str, text: &str) {
    let root = worktrees(app).into_iter().find(|root| root.ends_with(format!("repo@{name}"))).expect("a worktree");
    fs::write(root.join(file), text).expect("a file");
}

/// The subjects of the commits of the branch, and whether the script succeeds there.
fn state(repo: &Path, script: &str) -> (Vec<String>, bool) {
    let passes = std::process::Command::new("sh").args(["-c", script]).current_dir(repo).status().unwrap().success();
    assert_eq!(git(repo, &["status", "--porcelain"]), "");
    (git(repo, &["log", "--reverse", "--format=%s"]).lines().map(str::to_owned).collect(), passes)
}

#[test]
fn all_that_passes_lands_and_the_rest_is_left_with_the_reason() {
    let script = "! test -e broken";
    let (mut app, repo) = app(script, &["json", "stdin", "quiet", "idle"]);
    write(&app, "json", "json", "1\n");
    write(&app, "json", "src/f", "json\nmore\n");
    write(&app, "stdin", "src/f", "stdin\n");
    write(&app, "quiet", "broken", "1\n");
    app.enter("/land --all");
    wait_for_text(&mut app, "landed 1 of 4 worktrees: stdin");
    wait_for_text(&mut app, "json is left: polylogue/json conflicts with main, nothing was landed:");
    wait_for_text(&mut app, "quiet is left: ! test -e broken fails on main with it (exit code 1), nothing was landed");
    wait_for_text(&mut app, "idle is left: nothing to land");
    assert_eq!(state(&repo, script), (vec!["first".into(), "stdin".into()], true));
    assert_eq!(git(&repo, &["log", "-1", "--format=%B"]), "stdin\n\nAssisted-by: echo/echo\nAgent: stdin");
    // What was left is committed, and nothing is lost.
    assert_eq!(git(&repo, &["show", "polylogue/json:json"]), "1");
    assert_eq!(git(&repo, &["show", "polylogue/quiet:broken"]), "1");
    assert_eq!(worktrees(&app).len(), 4, "nothing else is left");
}

#[test]
fn who_makes_the_check_fail_is_named() {
    let script = "! { test -e b && test -e d; }";
    let (mut app, repo) = app(script, &["a", "b", "c", "d"]);
    for name in ["a", "b", "c"] {
        write(&app, name, name, "1\n");
    }
    write(&app, "d", "d", "1\n2\n");
    app.enter("/land --all");
    wait_for_text(&mut app, "landed 3 of 4 worktrees: a, b, c");
    wait_for_text(&mut app, "fails on main with it (exit code 1), but not without what b has landed");
    assert!(state(&repo, script).1);
}

#[test]
fn a_branch_that_fails_by_itself_is_not_blamed_on_who_lands_first() {
    let (mut app, repo) = app("! test -e bad", &["a", "b"]);
    fs::write(repo.join("bad"), "").expect("a file");
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "bad"]);
    write(&app, "a", "a", "1\n");
    let root = worktrees(&app).into_iter().find(|root| root.ends_with("repo@b")).expect("a worktree");
    git(&root, &["merge", "-q", "main"]);
    fs::remove_file(root.join("bad")).expect("a file");
    write(&app, "b", "b", "1\n2\n");
    app.enter("/land --all");
    wait_for_text(&mut app, "landed 1 of 2 worktrees: b");
    wait_for_text(
        &mut app,
        "a is left: ! test -e bad fails on main with it (exit code 1), as it does without it, nothing",
    );
}

#[test]
fn a_queue_without_a_check_leaves_uncommitted_changes_if_asked_to_and_stops_at_esc() {
    let (mut app, repo) = app("", &["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        write(&app, name, name, "1\n");
    }
    app.enter("/land --all --only-committed");
    wait_for_text(&mut app, "landed 0 of 3 worktrees");
    wait_for_text(&mut app, "--commit MESSAGE commits them first");
    app.enter("/land --all");
    app.turn_until("the first has landed", |app| app.screen_text().contains("a: landed 1 commit"));
    app.escape();
    wait_for_text(&mut app, "stopped before c");
    assert_eq!(state(&repo, "true").0, ["first", "a", "b"]);
}

#[test]
fn work_that_was_merged_by_hand_lands_with_its_merge() {
    let (mut app, repo) = app("", &["a", "b"]);
    write(&app, "a", "src/f", "of a\n");
    write(&app, "b", "src/f", "of b\n");
    app.enter("/land a --commit a");
    wait_for_text(&mut app, "landed 1 commit of polylogue/a");
    let root = worktrees(&app).into_iter().find(|root| root.ends_with("repo@b")).expect("a worktree");
    git(&root, &["commit", "-q", "-a", "-m", "b"]);
    let merge = std::process::Command::new("git").args(["merge", "-q", "main"]).current_dir(&root).output().unwrap();
    assert!(!merge.status.success(), "it conflicts");
    write(&app, "b", "src/f", "of a and b\n");
    git(&root, &["commit", "-q", "-a", "-m", "both"]);
    app.enter("/land --all");
    wait_for_text(&mut app, "landed 1 of 2 worktrees: b");
    assert_eq!(fs::read_to_string(repo.join("src/f")).unwrap(), "of a and b\n");
    assert_eq!(state(&repo, "true").0, ["first", "a", "b", "both"]);
}

#[test]
fn the_check_of_a_killed_agent_holds_for_its_work() {
    let (mut app, repo) = app("", &["a", "b"]);
    for name in ["a", "b"] {
        write(&app, name, name, "1\n");
    }
    app.enter("/switch a");
    app.enter("/done exit 7");
    app.enter("/switch b");
    let id = app.id(2).to_string();
    app.ask(0, polylogue::Change::Kill { agent_id: app.id(2), cascade: false });
    app.turn_until("a is killed", |app| app.repl.roster().len() == 3);
    app.enter(&format!("/land b {id}"));
    wait_for_text(&mut app, "landed 1 of 2 worktrees: b");
    wait_for_text(&mut app, "exit 7 fails on main with it (exit code 7)");
    assert_eq!(state(&repo, "true").0, ["first", "b"]);
}

#[test]
fn an_agent_that_gets_a_message_while_it_is_landed_waits_and_is_told() {
    let (mut app, repo) = app("touch started; while ! test -e go; do sleep 0.02; done", &["a"]);
    write(&app, "a", "a", "1\n");
    let scratch = app.data().join("worktrees/.landing-repo@a");
    app.enter("/land --all");
    app.turn_until("the check runs", |_| scratch.join("started").exists());
    app.say(2, "hello");
    turn_a_while(&mut app);
    assert_ne!(app.state(2), State::Idle);
    fs::write(scratch.join("go"), "").unwrap();
    wait_for_text(&mut app, "landed 1 of 1 worktree: a");
    app.turn_until_idle();
    let (log, _) = app.repl.store().replay(app.id(2)).expect("a log");
    let told = |message: &Message| matches!(&message.body, Body::System(text) if text.contains("landed the commits"));
    let answered = |message: &Message| matches!(&message.body, Body::Assistant(_));
    let (told, answered) = (log.iter().position(told), log.iter().position(answered));
    assert!(told.is_some() && told < answered, "{log:?}");
    assert_eq!(state(&repo, "true").0, ["first", "a"]);
}

#[test]
fn a_second_esc_stops_the_check_that_runs() {
    let (mut app, repo) = app("touch started; sleep 600", &["a", "b"]);
    for name in ["a", "b"] {
        write(&app, name, name, "1\n");
    }
    let scratch = app.data().join("worktrees/.landing-repo@a");
    app.enter("/land --all");
    app.turn_until("the check runs", |_| scratch.join("started").exists());
    app.escape();
    wait_for_text(&mut app, "Esc again stops that too");
    // What an agent would change meanwhile would be left behind.
    app.say(2, "hello");
    turn_a_while(&mut app);
    assert_ne!(app.state(2), State::Idle);
    app.escape();
    wait_for_text(&mut app, "landed 0 of 2 worktrees");
    wait_for_text(&mut app, "a is left: interrupted");
    wait_for_text(&mut app, "stopped before b");
    app.turn_until_idle();
    assert!(!scratch.exists());
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 3);
    assert_eq!(state(&repo, "true").0, ["first"]);
}

#[test]
fn several_that_are_named_land_and_the_others_do_not() {
    let (mut app, repo) = app("", &["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        write(&app, name, name, "1\n");
    }
    app.enter("/land a c --commit both");
    wait_for_text(&mut app, "--commit is for one agent");
    app.enter("/land a 0");
    wait_for_text(&mut app, "does not work in a git worktree of its own");
    app.enter("/land a c");
    wait_for_text(&mut app, "landed 2 of 2 worktrees: a, c");
    assert_eq!(state(&repo, "true").0, ["first", "a", "c"]);
}

/// What a crash during the last step of a landing can leave.
#[test]
fn an_interrupted_landing_is_taken_back_or_completed_at_the_next_start() {
    let (mut app, repo) = app("", &["json"]);
    write(&app, "json", "src/f", "json\nand more\n");
    write(&app, "json", "new", "1\n");
    let root = worktrees(&app).remove(0);
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "json"]);
    let (old, new) = (git(&repo, &["rev-parse", "HEAD"]), git(&root, &["rev-parse", "HEAD"]));
    let note = app.data().join("worktree-branches/repo@json.landing");
    let lock = repo.join(".git/index.lock");
    type Crash<'a> = (&'a str, &'a dyn Fn(), bool);
    let crashes: [Crash<'_>; 5] = [
        ("nothing was done", &|| {}, false),
        (
            "a file in part",
            &|| {
                fs::write(&lock, "part").unwrap();
                fs::write(repo.join("src/f"), "json\nan").unwrap();
            },
            false,
        ),
        (
            "all files, one removed before it was written",
            &|| {
                fs::write(&lock, "part").unwrap();
                fs::remove_file(repo.join("src/f")).unwrap();
                fs::write(repo.join("new"), "1\n").unwrap();
            },
            false,
        ),
        ("the index", &|| drop(git(&repo, &["read-tree", "-m", "-u", &old, &new])), true),
        ("the branch", &|| drop(git(&repo, &["merge", "-q", "--ff-only", &new])), true),
    ];
    for (what, crash, is_complete) in crashes {
        git(&repo, &["reset", "-q", "--hard", &old]);
        fs::write(&note, format!("{old}\n{new}\n{}", repo.display())).unwrap();
        crash();
        app = app.crash_and_restart();
        app.turn_until("the note is gone", |_| !note.exists());
        let expected = if is_complete { &new } else { &old };
        assert_eq!(
            (&git(&repo, &["rev-parse", "HEAD"]), git(&repo, &["status", "--porcelain"])),
            (expected, String::new()),
            "{what}"
        );
    }
    // What the person has written since is neither overwritten nor deleted.
    git(&repo, &["reset", "-q", "--hard", &old]);
    fs::write(&note, format!("{old}\n{new}\n{}", repo.display())).unwrap();
    fs::write(repo.join("src/f"), "of the person\n").unwrap();
    app = app.crash_and_restart();
    wait_for_text(&mut app, "look at these files, which also somebody else has changed: src/f");
    assert_eq!(fs::read_to_string(repo.join("src/f")).unwrap(), "of the person\n");
}

#[test]
fn the_worktrees_of_another_repository_are_left_alone() {
    let (mut app, repo) = app("", &["a"]);
    write(&app, "a", "a", "1\n");
    app.switch(0);
    app.enter("/land --all");
    wait_for_text(&mut app, "no agent works in a git worktree of the repository here");
    let other = app.directory().join("other");
    make_repository(&other);
    app.enter(&format!("/env coding@{}", other.display()));
    app.enter("/land --all");
    wait_for_text(&mut app, "no agent works in a git worktree of the repository here");
    assert_eq!(state(&repo, "true").0, ["first"]);
    app.enter("/land a");
    wait_for_text(&mut app, "uncommitted changes");
}
