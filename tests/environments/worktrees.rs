//! `worktree`: an agent in a git worktree of its own, from its making to its end. Where git is missing, nothing of this
//! can be tried, and the tests say so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use polylogue::base::id::AgentId;
use polylogue::domain::flow::Change;
use polylogue::repl::Why;
use serde_json::json;

use super::{echo, spec};
use crate::support::harness::Harness;
use crate::support::scene::{assert_shows, let_pass};

/// What git answers in this directory; it must not fail.
fn git(directory: &Path, words: &[&str]) -> String {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "protocol.file.allow=always"];
    let mut command = Command::new("git");
    command.args(identity).args(words).current_dir(directory);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn is_there() -> bool {
    let is_there = Command::new("git").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("there is no git here: worktrees are not tried");
    }
    is_there
}

/// A house with a repository `repo` that has one commit with `src/f`.
fn house() -> Option<Harness> {
    is_there().then(|| {
        let house = echo();
        make_repository(&house.directory().join("repo"));
        house
    })
}

fn make_repository(at: &Path) {
    fs::create_dir_all(at.join("src")).expect("a directory");
    git(at, &["init", "-q", "-b", "main"]);
    fs::write(at.join("src/f"), "one\n").expect("a file");
    git(at, &["add", "."]);
    git(at, &["commit", "-q", "-m", "first"]);
}

fn branches(house: &Harness) -> String {
    git(&house.directory().join("repo"), &["branch", "--list", "polylogue/*"])
}

/// The worktrees of the house that are on the disk.
fn worktrees(house: &Harness) -> Vec<PathBuf> {
    let listed = fs::read_dir(house.directory().join("worktrees")).into_iter().flatten();
    listed.flatten().map(|entry| entry.path()).collect()
}

/// A child in a worktree, and its directory.
fn in_worktree(house: &mut Harness) -> PathBuf {
    let before = house.repl.roster().len();
    house.enter("/env worktree@repo/src");
    house.turn_until("a child", |house| house.repl.roster().len() > before);
    let child = house.repl.roster().len() - 1;
    assert_eq!(house.focus(), child);
    house.agent(child).talk.environment.working_directory.clone()
}

fn kill_and_wait(house: &mut Harness, n: usize, words: &str) {
    let who = house.id(n);
    house.ask(0, Change::Kill { who, cascade: false });
    house.turn_until(words, |house| house.screen_text().replace("\n  ", " ").contains(words));
}

#[test]
fn a_child_works_on_a_branch_of_its_own_and_the_files_of_its_parent_stay() {
    let Some(mut house) = house() else { return };
    let directory = in_worktree(&mut house);
    assert!(directory.ends_with("src") && directory.starts_with(house.directory().join("worktrees")));
    assert_eq!(directory.parent().and_then(Path::file_name).unwrap().to_str().unwrap(), house.id(1).to_string());
    let branch = git(&directory, &["rev-parse", "--abbrev-ref", "HEAD"]);
    assert_eq!(branch, format!("polylogue/{}", house.id(1).short()));
    assert_shows(&mut house, &branch);
    let arguments = json!({"path": "f", "content": "two\n"});
    house.say(1, &format!("!tool write_file {arguments}"));
    house.answer(1, true);
    house.turn_until_idle();
    assert_eq!(fs::read_to_string(directory.join("f")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(house.directory().join("repo/src/f")).unwrap(), "one\n");

    let mut house = house.crash_and_restart();
    assert_eq!(house.agent(1).talk.environment.working_directory, directory);
    house.switch(1);
    house.enter("/env worktree");
    assert_shows(&mut house, "this agent is in worktree@");
    house.enter("/env readonly");
    assert_eq!(house.agent(2).talk.environment.working_directory, directory);
    assert!(spec(&house, 2).starts_with("readonly@"));
}

#[test]
fn a_worktree_without_anything_new_goes_when_the_last_who_worked_there_is_killed() {
    let Some(mut house) = house() else { return };
    in_worktree(&mut house);
    house.enter("/fork");
    house.switch(0);
    let who = house.id(1);
    house.ask(0, Change::Kill { who, cascade: false });
    let_pass(&mut house);
    assert_eq!(house.timeout().why, Why::Nothing, "the other still works there, so git has nothing to do");
    kill_and_wait(&mut house, 1, "had nothing new in it and is removed");
    assert_eq!((worktrees(&house).len(), branches(&house)), (0, String::new()));
}

#[test]
fn a_worktree_whose_agents_all_die_together_is_removed_once() {
    let Some(mut house) = house() else { return };
    in_worktree(&mut house);
    house.enter("/fork");
    house.enter("/fork");
    house.switch(0);
    let who = house.id(1);
    house.ask(0, Change::Kill { who, cascade: true });
    house.turn_until("git has nothing more to do", |house| house.timeout().why == Why::Nothing);
    assert_shows(&mut house, "had nothing new");
    assert_eq!((worktrees(&house).len(), branches(&house)), (0, String::new()));
    let screen = house.screen_text();
    assert!(!screen.contains("is kept") && !screen.contains("could not be"), "{screen}");
}

#[test]
fn a_worktree_with_changes_or_commits_is_kept_and_said_to_be() {
    let Some(mut house) = house() else { return };
    let changed = in_worktree(&mut house);
    fs::write(changed.join("new"), "work").unwrap();
    house.switch(0);
    kill_and_wait(&mut house, 1, "is kept: it has changes");
    let committed = in_worktree(&mut house);
    fs::write(committed.join("new"), "work").unwrap();
    git(&committed, &["add", "."]);
    git(&committed, &["commit", "-q", "-m", "second"]);
    house.switch(0);
    kill_and_wait(&mut house, 1, "is kept: it has commits that are nowhere else");
    assert_eq!((worktrees(&house).len(), branches(&house).lines().count()), (2, 2));
    // What is merged is somewhere else.
    let merged = in_worktree(&mut house);
    fs::write(merged.join("third"), "work").unwrap();
    git(&merged, &["add", "."]);
    git(&merged, &["commit", "-q", "-m", "third"]);
    let branch = git(&merged, &["rev-parse", "--abbrev-ref", "HEAD"]);
    git(&house.directory().join("repo"), &["merge", "-q", &branch]);
    house.switch(0);
    kill_and_wait(&mut house, 1, "had nothing new in it and is removed");
    assert!(!merged.exists());
}

#[test]
fn where_no_worktree_can_be_made_it_is_said_why_and_nothing_is_left() {
    let Some(mut house) = house() else { return };
    let top = house.directory().to_owned();
    git(&top, &["init", "-q", "empty"]);
    git(&top, &["init", "-q", "--bare", "bare"]);
    make_repository(&top.join("outer"));
    git(&top.join("outer"), &["submodule", "--quiet", "add", "../repo", "inner"]);
    fs::create_dir(top.join("plain")).unwrap();
    for (place, words) in [
        ("plain", "is in no git repository"),
        ("empty", "has no commit yet"),
        ("bare", "is in a bare repository"),
        ("outer/inner", "is in a submodule of"),
    ] {
        house.enter(&format!("/env worktree@{place}"));
        house.turn_until(words, |house| house.screen_text().replace("\n  ", " ").contains(words));
    }
    assert_eq!((house.repl.roster().len(), worktrees(&house).len()), (1, 0));
}

#[test]
fn an_interrupt_while_git_checks_files_out_leaves_no_child_and_no_worktree() {
    let Some(mut house) = house() else { return };
    let (repo, marker) = (house.directory().join("repo"), house.directory().join("began"));
    fs::write(repo.join(".gitattributes"), "f filter=slow\n").unwrap();
    git(&repo, &["config", "filter.slow.smudge", &format!("touch {}; sleep 1000", marker.display())]);
    git(&repo, &["config", "filter.slow.required", "true"]);
    git(&repo, &["config", "filter.slow.clean", "cat"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "slow"]);
    house.enter("/env worktree@repo");
    house.turn_until("git checks out", |_| marker.exists());
    assert_eq!(worktrees(&house).len(), 1);
    house.enter("/env worktree@repo");
    assert_shows(&mut house, "a worktree is being made already");
    house.type_bytes(b"\x15");
    house.escape();
    assert_shows(&mut house, "the worktree is not made");
    house.turn_until("everything is undone", |house| worktrees(house).is_empty() && branches(house).is_empty());
    let_pass(&mut house);
    assert_eq!(house.repl.roster().len(), 1);
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_cancelled_wait_with_a_worktree_that_is_made_already_returns_what_was_typed() {
    let Some(mut house) = house() else { return };
    let (repo, pipe) = (house.directory().join("repo"), house.directory().join("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    fs::write(repo.join(".gitattributes"), "src/f filter=slow\n").unwrap();
    git(&repo, &["config", "filter.slow.smudge", &format!("read -r go < {}; cat", pipe.display())]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "slow"]);
    house.enter("/env worktree@repo/src");
    house.say(0, "!tool write_file {\"path\":\"x\",\"content\":\"\"}");
    house.turn_until_asked(0);
    fs::write(&pipe, "go\n").unwrap();
    house.turn_until("git is done", |house| house.screen_text().contains("/env waits until the tools are done"));
    house.ask(0, Change::Interrupt);
    assert_eq!(house.agent(0).view.draft.text(), "/env worktree@repo/src");
    house.turn_until("the worktree is gone", |house| worktrees(house).is_empty() && branches(house).is_empty());
    assert_eq!(house.repl.roster().len(), 1);
}

#[test]
fn a_worktree_that_was_made_for_somebody_who_was_never_born_goes_at_the_next_start_unless_it_holds_work() {
    let Some(mut house) = house() else { return };
    let known = in_worktree(&mut house);
    let (repo, place) = (house.directory().join("repo"), house.directory().join("worktrees"));
    let [clean, changed, committed] = [(); 3].map(|()| {
        let id = AgentId::random();
        let root = place.join(id.to_string());
        let branch = format!("polylogue/{}", id.short());
        git(&repo, &["worktree", "add", "-q", "-b", &branch, root.to_str().unwrap(), "HEAD"]);
        root
    });
    fs::write(changed.join("new"), "work").unwrap();
    fs::write(committed.join("new"), "work").unwrap();
    git(&committed, &["add", "."]);
    git(&committed, &["commit", "-q", "-m", "second"]);
    fs::create_dir(place.join("of-somebody-else")).unwrap();

    let mut house = house.crash_and_restart();
    house.turn_until("git has nothing more to do", |house| house.timeout().why == Why::Nothing);
    let screen = house.screen_text().replace("\n  ", " ");
    for words in ["had nothing new in it and is removed", "it has changes", "it has commits that are nowhere else"] {
        assert!(screen.contains(words), "{words}\n{screen}");
    }
    assert!(!clean.exists() && [&changed, &committed, &known].iter().all(|place| place.exists()));
    assert_eq!((worktrees(&house).len(), branches(&house).lines().count()), (4, 3));
}

#[test]
fn hooks_of_the_repository_are_not_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(mut house) = house() else { return };
    let hook = house.directory().join("repo/.git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let marker = house.directory().join("hooked");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    in_worktree(&mut house);
    assert!(!marker.exists());
}
