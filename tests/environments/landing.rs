//! `/land` and `/diff` of an agent in a git worktree.

use std::fs;
use std::path::{Path, PathBuf};

use polylogue::Change;

use super::worktrees::{app as app_with_repository, git, in_worktree, worktrees};
use crate::support::harness::Harness;
use crate::support::scene::assert_shows;

/// An agent in a worktree of a repository that has a name for commits, the repository, and the worktree.
fn landed() -> Option<(Harness, PathBuf, PathBuf)> {
    let mut app = app_with_repository()?;
    let repo = fs::canonicalize(app.directory().join("repo")).expect("a repository");
    git(&repo, &["config", "user.name", "test"]);
    git(&repo, &["config", "user.email", "test@localhost"]);
    in_worktree(&mut app);
    let root = worktrees(&app).remove(0);
    Some((app, repo, root))
}

fn commit(at: &Path, file: &str, text: &str) {
    fs::write(at.join(file), text).expect("a file");
    git(at, &["add", "."]);
    git(at, &["commit", "-q", "-m", &format!("change {file}")]);
}

/// Enters a line and waits for this text.
fn land(app: &mut Harness, line: &str, expected: &str) {
    app.type_bytes(b"\x15");
    app.enter(line);
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    app.turn_until(expected, |app| words(app.screen_text()).contains(expected));
}

fn head(at: &Path) -> String {
    git(at, &["rev-parse", "HEAD"])
}

#[test]
fn commits_are_merged_into_the_branch_that_the_worktree_left() {
    let Some((mut app, repo, root)) = landed() else { return };
    commit(&root, "src/new", "of the agent\n");
    land(&mut app, "/land", "(fast-forward)");
    assert_eq!(
        (head(&repo), fs::read_to_string(repo.join("src/new")).unwrap()),
        (head(&root), "of the agent\n".into())
    );
    land(&mut app, "/land", "nothing to land");

    commit(&root, "src/second", "of the agent\n");
    commit(&repo, "README", "of the person\n");
    land(&mut app, "/land", "(merged)");
    assert!(repo.join("src/second").exists() && repo.join("README").exists());
    assert_eq!(git(&repo, &["log", "--format=%s", "-1"]), "Merge branch 'polylogue/work'");
    assert_eq!(worktrees(&app), [root], "nothing else is left");
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
}

#[test]
fn commits_are_rebased_if_that_is_asked_for_and_the_worktree_goes_on_there() {
    let Some((mut app, repo, root)) = landed() else { return };
    commit(&root, "src/new", "of the agent\n");
    commit(&repo, "README", "of the person\n");
    land(&mut app, "/land --rebase", "(rebased)");
    assert_eq!(git(&repo, &["log", "--format=%s"]), "change src/new\nchange README\nfirst");
    assert_eq!(head(&repo), head(&root));
    let agent_id = app.id(1);
    app.ask(0, Change::Kill { agent_id, cascade: false });
    app.turn_until("the worktree is removed", |app| worktrees(app).is_empty());
    app.turn_until("the landed branch is removed", |_| git(&repo, &["branch", "--list", "polylogue/*"]).is_empty());
}

#[test]
fn uncommitted_changes_are_refused_or_committed() {
    let Some((mut app, repo, root)) = landed() else { return };
    fs::write(root.join("src/f"), "changed\n").unwrap();
    fs::write(root.join("src/new"), "new\n").unwrap();
    land(&mut app, "/land", "--commit MESSAGE commits them first: src/f src/new");
    assert_eq!(app.draft(1).text(), "/land", "as it was typed");
    land(&mut app, "/land --commit \"do the work\"", "(fast-forward)");
    assert_eq!(git(&repo, &["log", "--format=%s", "-1"]), "do the work");
    assert_eq!(fs::read_to_string(repo.join("src/f")).unwrap(), "changed\n");
}

#[test]
fn conflicts_are_named_and_nothing_changes() {
    let Some((mut app, repo, root)) = landed() else { return };
    commit(&root, "src/f", "of the agent\n");
    commit(&repo, "src/f", "of the person\n");
    let before = (head(&repo), head(&root));
    for line in ["/land", "/land --rebase"] {
        app.enter(line);
        app.turn_until("the line is back", |app| app.draft(1).text() == line);
        assert_shows(&mut app, "conflicts with main, nothing was landed");
        assert_shows(&mut app, "src/f");
        assert_eq!((head(&repo), head(&root)), before, "{line}");
        assert_eq!(git(&repo, &["status", "--porcelain"]), "", "{line}");
        assert_eq!(git(&root, &["status", "--porcelain"]), "", "{line}");
        assert_eq!(worktrees(&app).len(), 1, "{line}");
    }
}

#[test]
fn files_of_a_person_are_not_touched() {
    let Some((mut app, repo, root)) = landed() else { return };
    commit(&root, "src/new", "of the agent\n");
    let before = head(&repo);
    fs::write(repo.join("src/f"), "being written\n").unwrap();
    land(&mut app, "/land", "has uncommitted changes; commit or stash them first: src/f");
    git(&repo, &["checkout", "-q", "src/f"]);
    fs::write(repo.join("src/new"), "of the person\n").unwrap();
    land(&mut app, "/land", "untracked files would be overwritten: src/new");
    assert_eq!((head(&repo), fs::read_to_string(repo.join("src/new")).unwrap()), (before, "of the person\n".into()));
    fs::remove_file(repo.join("src/new")).unwrap();
    // A branch that is checked out nowhere moves alone.
    git(&repo, &["checkout", "-q", "-b", "elsewhere"]);
    land(&mut app, "/land", "on main (fast-forward)");
    assert_eq!(git(&repo, &["rev-parse", "main"]), head(&root));
    assert!(!repo.join("src/new").exists());
}

#[test]
fn programs_of_the_repository_are_not_run() {
    let Some((mut app, repo, root)) = landed() else { return };
    let mark = app.directory().join("mark");
    let program = format!("touch {}", mark.display());
    for name in ["post-merge", "pre-commit", "post-commit", "reference-transaction", "post-checkout"] {
        crate::support::write_executable(
            &repo.join(".git/hooks").join(name),
            format!("#!/bin/sh\n{program}\n").as_bytes(),
        );
    }
    fs::write(root.join("src/new"), "new\n").unwrap();
    land(&mut app, "/land --commit work", "(fast-forward)");
    git(&repo, &["config", "filter.x.clean", &program]);
    fs::write(root.join("src/other"), "new\n").unwrap();
    land(&mut app, "/land --commit work", "the repository configures filters or merge drivers");
    assert!(!mark.exists());
}

#[test]
fn programs_of_a_repository_that_passes_for_a_working_tree_are_not_run() {
    let Some((mut app, repo, root)) = landed() else { return };
    let mark = app.directory().join("mark");
    // What a command of the agent can write: a repository of its own, and a directory that git lists as a worktree of the
    // person's, with the branch that nobody else has checked out.
    let evil = root.join("evil");
    git(&root, &["init", "-q", "-b", "main", "evil"]);
    git(&evil, &["config", "filter.x.clean", &format!("touch {}; cat", mark.display())]);
    fs::write(evil.join(".gitattributes"), "* filter=x\n").unwrap();
    commit(&evil, "f", "one\n");
    fs::write(evil.join("f"), "two\n").unwrap();
    fs::remove_file(&mark).unwrap();
    let entry = repo.join(".git/worktrees/evil");
    fs::create_dir_all(&entry).unwrap();
    fs::write(root.join(".gitignore"), "/evil/\n").unwrap();
    for (name, text) in [
        ("HEAD", "ref: refs/heads/main\n".to_owned()),
        ("commondir", "../..\n".to_owned()),
        ("gitdir", format!("{}\n", evil.join(".git").display())),
    ] {
        fs::write(entry.join(name), text).unwrap();
    }
    git(&repo, &["checkout", "-q", "--detach"]);
    commit(&root, "src/new", "of the agent\n");
    assert!(git(&repo, &["worktree", "list"]).contains("/evil "));
    land(&mut app, "/land", "is no working tree of this repository");
    assert!(!mark.exists());
    git(&evil, &["status", "--porcelain"]);
    assert!(mark.exists(), "git runs the program there unless it is told which repository it is");
    for directory in [&evil, &entry] {
        fs::remove_dir_all(directory).unwrap();
    }
    git(&repo, &["checkout", "-q", "main"]);
    land(&mut app, "/land", "(fast-forward)");
}

#[test]
fn a_hook_that_was_not_run_is_said_and_runs_if_that_is_asked_for() {
    let Some((mut app, repo, root)) = landed() else { return };
    let hook = b"#!/bin/sh\ngrep -q bad src/new || exit 0\necho 'the hook says no' >&2\nexit 1\n";
    crate::support::write_executable(&repo.join(".git/hooks/pre-commit"), hook);
    fs::write(root.join("src/new"), "bad\n").unwrap();
    let before = head(&repo);
    land(&mut app, "/land --verify --commit work", "the hook says no");
    assert_eq!((head(&repo), app.draft(1).text()), (before, "/land --verify --commit work"));
    fs::write(root.join("src/new"), "fine\n").unwrap();
    land(&mut app, "/land --verify --commit work", "(fast-forward)");
    assert!(!app.screen_text().contains("no hook was run"), "{}", app.screen_text());
    fs::write(root.join("src/new"), "bad\n").unwrap();
    git(&repo, &["config", "commit.gpgSign", "true"]);
    let left_out = "no hook was run (pre-commit), and the commit is not signed: --verify before --commit does that";
    land(&mut app, "/land --commit work", left_out);
    assert_eq!(fs::read_to_string(repo.join("src/new")).unwrap(), "bad\n");
}

#[test]
fn an_agent_without_a_worktree_has_nothing_to_land() {
    let Some((mut app, ..)) = landed() else { return };
    app.switch(0);
    app.enter("/land 0");
    assert_shows(&mut app, "does not work in a git worktree");
}

#[test]
fn a_diff_has_what_was_committed_and_what_was_not_and_changes_nothing() {
    let Some((mut app, repo, root)) = landed() else { return };
    commit(&root, "src/f", "two\n");
    fs::write(root.join("src/new"), "three\n").unwrap();
    let objects = || git(&repo, &["count-objects"]);
    let before = (objects(), git(&root, &["status", "--porcelain"]));
    app.enter("/diff");
    for expected in ["since it left main", "-one", "+two", "not shown: changes by bash outside of"] {
        app.turn_until(expected, |app| app.screen_text().replace("\n  ", " ").contains(expected));
    }
    app.type_bytes(b"J");
    assert_shows(&mut app, "+three");
    app.escape();
    assert_eq!((objects(), git(&root, &["status", "--porcelain"])), before);
    assert_eq!(worktrees(&app), std::slice::from_ref(&root));
    fs::remove_file(root.join("src/new")).unwrap();
    land(&mut app, "/land", "(fast-forward)");
    land(&mut app, "/diff", "nothing has changed since");
}

#[test]
fn commits_are_squashed_into_one_and_the_worktree_goes_on_there() {
    let Some((mut app, repo, root)) = landed() else { return };
    commit(&root, "src/new", "of the agent\n");
    fs::write(root.join("src/other"), "of the agent\n").expect("a file");
    commit(&repo, "README", "of the person\n");
    land(&mut app, "/land --squash --commit \"all of it\"", "(squashed)");
    assert_eq!(git(&repo, &["log", "--format=%s"]), "all of it\nchange README\nfirst");
    assert!(repo.join("src/new").exists() && repo.join("src/other").exists());
    assert_eq!(head(&repo), head(&root));
}
