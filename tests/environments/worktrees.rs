//! `worktree`: an agent in a git worktree of its own, from its making to its end. Where git is missing, nothing of this
//! can be tried, and the tests say so.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use polylogue::config::{Hook, Rules, WorktreeExtras, WorktreeSettings};
use polylogue::{AgentId, Change};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde_json::json;

use super::{echo, spec};
use crate::hooks::trust::checked;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe, WakeReason};
use crate::support::scene::{assert_shows, turn_a_while};
use crate::support::write_executable;

/// What git answers in this directory; it must not fail.
pub(crate) fn git(directory: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "protocol.file.allow=always"];
    let mut command = Command::new("git");
    command.args(identity).args(args).current_dir(directory);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(super) fn is_there() -> bool {
    let is_there = Command::new("git").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("there is no git here: worktrees are not tried");
    }
    is_there
}

/// An app with a repository `repo` that has one commit with `src/f`.
pub(super) fn app() -> Option<Harness> {
    is_there().then(|| {
        let app = echo();
        make_repository(&app.directory().join("repo"));
        app
    })
}

pub(crate) fn make_repository(at: &Path) {
    fs::create_dir_all(at.join("src")).expect("a directory");
    git(at, &["init", "-q", "-b", "main"]);
    fs::write(at.join("src/f"), "one\n").expect("a file");
    git(at, &["add", "."]);
    git(at, &["commit", "-q", "-m", "first"]);
}

fn branches(app: &Harness) -> String {
    git(&app.directory().join("repo"), &["branch", "--list", "polylogue/*"])
}

/// The worktrees that are on the disk, and what is beside them, but for what the conflict radar needs as long as it runs.
pub(super) fn worktrees(app: &Harness) -> Vec<PathBuf> {
    let listed = fs::read_dir(app.data().join("worktrees")).into_iter().flatten();
    let paths = listed.flatten().map(|entry| entry.path());
    paths.filter(|path| !path.to_string_lossy().contains("-survey-")).collect()
}

/// A child in a worktree, and its directory.
pub(super) fn in_worktree(app: &mut Harness) -> PathBuf {
    let before = app.repl.roster().len();
    app.enter("/env worktree@repo/src");
    app.turn_until("a child", |app| app.repl.roster().len() > before);
    let child = app.repl.roster().len() - 1;
    assert_eq!(app.focus(), child);
    app.agent(child).inputs.environment.working_directory.clone()
}

/// Makes git wait in a checkout: it reads this pipe before it writes the first file.
fn pipe_for_attributes(repo: &Path) -> PathBuf {
    let pipe = repo.join(".git/info/attributes");
    fs::create_dir_all(pipe.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    pipe
}

/// Returns when git has opened the pipe; it waits until the file is dropped.
fn wait_for_reader(app: &mut Harness, pipe: &Path) -> fs::File {
    let mut opened = None;
    app.turn_until("git checks out", |_| {
        let writer = fs::OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(pipe);
        opened = writer.ok();
        opened.is_some()
    });
    opened.expect("git reads the pipe")
}

fn kill_and_wait(app: &mut Harness, n: usize, expected: &str) {
    let agent_id = app.id(n);
    app.ask(0, Change::Kill { agent_id, cascade: false });
    app.turn_until(expected, |app| app.screen_text().replace("\n  ", " ").contains(expected));
}

#[test]
fn a_child_works_on_its_own_branch_and_leaves_the_files_of_its_parent() {
    let Some(mut app) = app() else { return };
    let directory = in_worktree(&mut app);
    assert!(directory.ends_with("src") && directory.starts_with(app.data().join("worktrees")));
    assert_eq!(directory.parent().and_then(Path::file_name).unwrap(), "repo@work");
    let branch = git(&directory, &["rev-parse", "--abbrev-ref", "HEAD"]);
    assert_eq!(branch, "polylogue/work");
    assert_shows(&mut app, &branch);
    let arguments = json!({"path": "f", "content": "two\n"});
    app.say(1, &format!("%tool write_file {arguments}"));
    app.answer(1, true);
    app.turn_until_idle();
    assert_eq!(fs::read_to_string(directory.join("f")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(app.directory().join("repo/src/f")).unwrap(), "one\n");

    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(1).inputs.environment.working_directory, directory);
    app.switch(1);
    app.enter("/env worktree");
    assert_shows(&mut app, "this agent is already in worktree@");
    app.enter("/env readonly");
    assert_eq!(app.agent(2).inputs.environment.working_directory, directory);
    assert!(spec(&app, 2).starts_with("readonly@"));
}

/// Several are made at the same time; each is called by its name or by what it is asked, and shown so.
#[test]
fn a_fork_gets_a_worktree_and_a_branch_that_are_called_as_it_is() {
    let Some(mut app) = app() else { return };
    let repo = app.directory().join("repo");
    git(&repo, &["branch", "polylogue/fix-the-total"]);
    app.enter("/env coding@repo/src");
    for line in [
        "/fork --worktree --stay --name json add the flag",
        "/fork --worktree --stay fix the total",
        "/fork --worktree --stay fix the total",
        "/fork --worktree --stay --name json2",
    ] {
        app.enter(line);
    }
    app.turn_until("four children", |app| app.repl.roster().len() == 6);
    app.turn_until_idle();
    assert_eq!(app.focus(), 1, "the screen stays");
    let place = |app: &Harness, n: usize| app.agent(n).inputs.environment.place_name().expect("a worktree");
    let mut places: Vec<String> = (2..6).map(|n| place(&app, n)).collect();
    places.sort();
    // A branch of that name exists.
    assert_eq!(places, ["repo:fix-the-total-2/src", "repo:fix-the-total-3/src", "repo:json/src", "repo:json2/src"]);
    let json = (2..6).find(|n| place(&app, *n) == "repo:json/src").expect("it is there");
    let directory = app.agent(json).inputs.environment.working_directory.clone();
    assert_eq!(git(&directory, &["rev-parse", "--abbrev-ref", "HEAD"]), "polylogue/json");
    assert_eq!(app.agent(json).identity.name.as_deref(), Some("json"));
    app.switch(json);
    assert_shows(&mut app, "add the flag");
    assert_shows(&mut app, "repo:json/src");
    // From there a worktree of its own begins at the commit of this one.
    fs::write(directory.join("g"), "two\n").unwrap();
    git(&directory, &["add", "."]);
    git(&directory, &["commit", "-q", "-m", "second"]);
    app.enter("/fork --worktree --name below");
    app.turn_until("a child", |app| app.repl.roster().len() == 7);
    assert_eq!((place(&app, 6).as_str(), app.focus()), ("repo:below/src", 6));
    assert!(app.agent(6).inputs.environment.working_directory.join("g").exists());

    let mut app = app.crash_and_restart();
    assert_eq!(place(&app, json), "repo:json/src");
    app.turn_until("git has nothing to do", |app| app.timeout().why == WakeReason::Nothing);
    assert_eq!(worktrees(&app).len(), 5);
}

/// Another process adds a worktree: git fails while it finds one that is only half there.
#[test]
fn a_worktree_waits_until_another_one_is_whole() {
    let Some(mut app) = app() else { return };
    let repo = app.directory().join("repo");
    let lock = fs::File::open(repo.join(".git")).expect("a directory");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    let half = repo.join(".git/worktrees/half");
    fs::create_dir_all(&half).expect("a directory");
    fs::write(half.join("gitdir"), "/elsewhere/.git\n").expect("a file");
    fs::write(half.join("commondir"), "").expect("a file");
    app.enter("/env coding@repo/src");
    app.enter("/fork --worktree --name json");
    // Written just before git is run.
    let notes = app.data().join("worktree-branches");
    app.turn_until("a note", |_| fs::read_dir(&notes).is_ok_and(|mut entries| entries.next().is_some()));
    turn_a_while(&mut app);
    fs::remove_dir_all(&half).expect("a directory");
    drop(lock);
    app.turn_until("a child", |app| app.repl.roster().len() == 3);
    assert!(app.agent(2).inputs.environment.working_directory.join("f").exists());
}

#[test]
fn a_new_conversation_gets_a_worktree_too_and_what_the_configuration_adds_to_it() {
    if !is_there() {
        return;
    }
    let setup = ["sh", "-c", "cat .env > installed"].map(str::to_owned).to_vec();
    let copy = [".env", "missing", "../outside", "link/secret"].map(str::to_owned).to_vec();
    let worktree = WorktreeSettings { extras: WorktreeExtras { setup, copy }, ..WorktreeSettings::default() };
    let mut app = Harness::new(Plan { real_time: true, worktree, size: Some((120, 40)), ..Plan::default() });
    let repo = app.directory().join("repo");
    make_repository(&repo);
    fs::write(repo.join(".env"), "SECRET=1\n").expect("a file");
    // The branch has a link where the person has a directory.
    let outside = tempfile::TempDir::new().expect("a directory");
    std::os::unix::fs::symlink(outside.path(), repo.join("link")).expect("a link");
    git(&repo, &["add", "link"]);
    git(&repo, &["commit", "-q", "-m", "link"]);
    fs::remove_file(repo.join("link")).expect("a link");
    fs::create_dir(repo.join("link")).expect("a directory");
    fs::write(repo.join("link/secret"), "SECRET=2\n").expect("a file");
    app.enter("/env coding@repo");
    app.say(1, "hello");
    app.turn_until_idle();
    app.enter("/new --worktree --stay --name fresh");
    app.turn_until("a child", |app| app.repl.roster().len() == 3);
    assert_eq!(app.focus(), 1);
    let child = app.agent(2);
    assert_eq!((child.identity.name.as_deref(), child.inputs.history.is_none()), (Some("fresh"), true));
    let root = child.inputs.environment.worktree.clone().expect("a worktree");
    assert_eq!(fs::read_to_string(root.join("installed")).expect("the command ran"), "SECRET=1\n");
    app.enter("/new --worktree and a task");
    app.turn_until("its answer", |app| app.repl.roster().len() == 4 && !app.replies(3).is_empty());
    assert_eq!(app.replies(3), ["and a task"], "the prompt is sent");
    app.turn_until_idle();
    app.switch(2);
    assert_shows(&mut app, "not copied: missing: no such file or directory; ../outside: not a path in the repository");
    assert_shows(&mut app, "link is not a directory");
    assert!(!outside.path().join("secret").exists(), "nothing is written through a link");
}

#[test]
fn a_branch_of_that_name_and_a_place_without_git_are_said_and_the_line_is_returned() {
    let Some(mut app) = app() else { return };
    git(&app.directory().join("repo"), &["branch", "polylogue/json"]);
    app.enter("/fork --worktree --name json go");
    app.turn_until("the line is back", |app| app.draft(0).text() == "/fork --worktree --name json go");
    assert_shows(&mut app, "is not in a git repository");
    app.type_bytes(b"\x15");
    app.enter("/env coding@repo");
    app.enter("/fork --worktree --name json \"go on\"");
    app.turn_until("the line is back", |app| app.draft(1).text() == "/fork --worktree --name json go on");
    assert_shows(&mut app, "the branch polylogue/json exists: choose another --name");
    assert_eq!((app.repl.roster().len(), worktrees(&app).len()), (2, 0));
    assert_eq!(fs::read_dir(app.data().join("worktree-origins")).map_or(0, Iterator::count), 0);
}

/// What refuses in a project refuses in worktrees of it, also if the worktree has another copy of its script; what another
/// project brings does not hold there.
#[test]
fn what_a_project_brings_holds_in_its_worktrees_and_what_others_bring_does_not() {
    if !is_there() {
        return;
    }
    let workspace = tempfile::tempdir().expect("a directory");
    let top = workspace.path().canonicalize().expect("a directory");
    let repo = top.join("repo");
    make_repository(&repo);
    let hook = checked(&repo, "./scripts/check.sh");
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "script"]);
    let other = Hook { command: vec!["false".into()], is_required: true, ..checked(&top.join("other"), "false") };
    let plan = Plan { hooks: vec![hook, other], real_time: true, ..Plan::default() };
    let mut app = Harness::open_in(plan, tempfile::tempdir().expect("a directory"), workspace);
    let directory = in_worktree(&mut app);
    let environment = &app.agent(1).inputs.environment;
    let is_of = |project: PathBuf| environment.is_of(Some(&project));
    assert_eq!((is_of(repo.clone()), is_of(repo.join("src")), is_of(top.join("other"))), (true, true, false));
    for script in ["unchanged", "#!/bin/sh\nexit 0\n"] {
        if script != "unchanged" {
            fs::write(directory.parent().expect("the root").join("scripts/check.sh"), script).expect("a file");
        }
        app.say(1, "%tool list_dir {}");
        app.turn_until_idle();
        assert_eq!(app.tool_results(1).last().expect("a result").content, "denied by a hook: not this", "{script}");
    }
}

#[test]
fn an_unchanged_worktree_is_removed_with_its_last_agent() {
    let Some(mut app) = app() else { return };
    in_worktree(&mut app);
    app.enter("/fork");
    app.switch(0);
    let agent_id = app.id(1);
    app.ask(0, Change::Kill { agent_id, cascade: false });
    turn_a_while(&mut app);
    assert_eq!(app.timeout().why, WakeReason::Nothing, "the other still works there, so git has nothing to do");
    kill_and_wait(&mut app, 1, "which had no changes");
    assert_eq!((worktrees(&app).len(), branches(&app)), (0, String::new()));
}

#[test]
fn a_worktree_whose_agents_are_killed_together_is_removed_once() {
    let Some(mut app) = app() else { return };
    in_worktree(&mut app);
    app.enter("/fork");
    app.enter("/fork");
    app.switch(0);
    let agent_id = app.id(1);
    app.ask(0, Change::Kill { agent_id, cascade: true });
    app.turn_until("git has nothing more to do", |app| app.timeout().why == WakeReason::Nothing);
    assert_shows(&mut app, "removed the worktree");
    assert_eq!((worktrees(&app).len(), branches(&app)), (0, String::new()));
    let screen = app.screen_text();
    assert!(!screen.contains("kept the worktree") && !screen.contains("cannot remove"), "{screen}");
}

#[test]
fn a_worktree_with_changes_or_commits_is_kept_and_reported() {
    let Some(mut app) = app() else { return };
    let changed = in_worktree(&mut app);
    fs::write(changed.join("new"), "work").unwrap();
    app.switch(0);
    kill_and_wait(&mut app, 1, "it has uncommitted changes");
    let committed = in_worktree(&mut app);
    fs::write(committed.join("new"), "work").unwrap();
    git(&committed, &["add", "."]);
    git(&committed, &["commit", "-q", "-m", "second"]);
    app.switch(0);
    kill_and_wait(&mut app, 1, "it has commits that are on no other branch");
    assert_eq!((worktrees(&app).len(), branches(&app).lines().count()), (2, 2));
    // What is merged is somewhere else.
    let merged = in_worktree(&mut app);
    fs::write(merged.join("third"), "work").unwrap();
    git(&merged, &["add", "."]);
    git(&merged, &["commit", "-q", "-m", "third"]);
    let branch = git(&merged, &["rev-parse", "--abbrev-ref", "HEAD"]);
    git(&app.directory().join("repo"), &["merge", "-q", &branch]);
    app.switch(0);
    kill_and_wait(&mut app, 1, "which had no changes");
    assert!(!merged.exists());
}

#[test]
fn a_failed_worktree_is_reported_and_leaves_nothing() {
    let Some(mut app) = app() else { return };
    let top = app.directory().to_owned();
    git(&top, &["init", "-q", "empty"]);
    git(&top, &["init", "-q", "--bare", "bare"]);
    make_repository(&top.join("outer"));
    git(&top.join("outer"), &["submodule", "--quiet", "add", "../repo", "inner"]);
    fs::create_dir(top.join("plain")).unwrap();
    for (directory, expected) in [
        ("plain", "is not in a git repository"),
        ("empty", "has no commits"),
        ("bare", "is in a bare repository"),
        ("outer/inner", "is in a submodule of"),
    ] {
        app.enter(&format!("/env worktree@{directory}"));
        app.turn_until(expected, |app| app.screen_text().replace("\n  ", " ").contains(expected));
        assert_eq!(
            app.draft(0).text(),
            format!("/env worktree@{directory}"),
            "what is typed next is not meant for here"
        );
        app.type_bytes(b"\x15");
    }
    assert_eq!((app.repl.roster().len(), worktrees(&app).len()), (1, 0));
}

#[test]
fn submodules_and_files_of_lfs_that_are_missing_are_said_with_the_commands_that_fill_them() {
    let Some(mut app) = app() else { return };
    let repo = app.directory().join("repo");
    in_worktree(&mut app);
    assert!(!app.screen_text().contains("fills them"), "{}", app.screen_text());
    make_repository(&app.directory().join("library"));
    git(&repo, &["submodule", "--quiet", "add", "../library", "vendor/library"]);
    fs::write(repo.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 1\n", "0".repeat(64));
    fs::write(repo.join("a.bin"), pointer).unwrap();
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "more"]);
    app.switch(0);
    in_worktree(&mut app);
    assert_shows(&mut app, "submodules are empty (vendor/library): git submodule update --init --recursive fills them");
    assert_shows(&mut app, "files of Git LFS are pointers: git lfs pull fills them");
    let told =
        app.log(2).iter().any(|message| matches!(&message.body, Body::System(text) if text.contains("lfs pull")));
    assert!(told, "the model knows it too");
}

#[test]
fn an_interrupt_while_git_checks_files_out_leaves_no_child_and_no_worktree() {
    let Some(mut app) = app() else { return };
    let repo = app.directory().join("repo");
    let pipe = pipe_for_attributes(&repo);
    app.enter("/env worktree@repo");
    let _checkout = wait_for_reader(&mut app, &pipe);
    assert_eq!(worktrees(&app).len(), 1);
    app.enter("/env worktree@repo");
    assert_shows(&mut app, "a worktree is already being created");
    app.type_bytes(b"\x15");
    app.escape();
    assert_shows(&mut app, "cancelled the worktree");
    app.turn_until("everything is undone", |app| worktrees(app).is_empty() && branches(app).is_empty());
    turn_a_while(&mut app);
    assert_eq!(app.repl.roster().len(), 1);
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_cancelled_wait_with_a_finished_worktree_returns_the_typed_line() {
    let Some(mut app) = app() else { return };
    let pipe = pipe_for_attributes(&app.directory().join("repo"));
    app.enter("/env worktree@repo/src");
    app.say(0, "%tool write_file {\"path\":\"x\",\"content\":\"\"}");
    app.turn_until_asked(0);
    let checkout = wait_for_reader(&mut app, &pipe);
    fs::remove_file(&pipe).unwrap();
    drop(checkout);
    app.turn_until("git is done", |app| app.screen_text().contains("/env waits until the tools are done"));
    app.ask(0, Change::Interrupt);
    assert_eq!(app.draft(0).text(), "/env worktree@repo/src");
    app.turn_until("the worktree is gone", |app| worktrees(app).is_empty() && branches(app).is_empty());
    assert_eq!(app.repl.roster().len(), 1);
}

#[test]
fn an_unused_worktree_is_removed_at_the_next_start_unless_it_has_changes() {
    let Some(mut app) = app() else { return };
    let known = in_worktree(&mut app);
    let (repo, directory) = (app.directory().join("repo"), app.data().join("worktrees"));
    let [clean, changed, committed] = [(); 3].map(|()| {
        let id = AgentId::random();
        let root = directory.join(id.to_string());
        let branch = format!("polylogue/{}", id.short());
        git(&repo, &["worktree", "add", "-q", "-b", &branch, root.to_str().unwrap(), "HEAD"]);
        root
    });
    fs::write(changed.join("new"), "work").unwrap();
    fs::write(committed.join("new"), "work").unwrap();
    git(&committed, &["add", "."]);
    git(&committed, &["commit", "-q", "-m", "second"]);
    fs::create_dir(directory.join("not-a-worktree")).unwrap();

    let mut app = app.crash_and_restart();
    app.turn_until("git has nothing more to do", |app| app.timeout().why == WakeReason::Nothing);
    let screen = app.screen_text().replace("\n  ", " ");
    for expected in ["which had no changes", "it has uncommitted changes", "it has commits that are on no other branch"]
    {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    assert!(!clean.exists() && [&changed, &committed, &known].iter().all(|directory| directory.exists()));
    assert_eq!((worktrees(&app).len(), branches(&app).lines().count()), (4, 3));
}

#[test]
fn no_program_that_the_repository_names_is_run() {
    let Some(mut app) = app() else { return };
    let (repo, ran) = (app.directory().join("repo"), app.directory().join("ran"));
    fs::create_dir(&ran).unwrap();
    fs::write(repo.join(".gitattributes"), "* filter=cased diff=shown\nsrc/f filter=a.b\n").unwrap();
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "attributes"]);
    let program = |name: &str| format!("touch {}; cat", ran.join(name).display());
    for (key, name) in [
        ("filter.cased.smudge", "smudge"),
        ("filter.cased.clean", "clean"),
        ("filter.cased.process", "process"),
        ("filter.a.b.smudge", "dotted"),
        ("core.fsmonitor", "fsmonitor"),
        ("core.sshCommand", "ssh"),
        ("diff.external", "diff"),
        ("diff.shown.textconv", "textconv"),
        ("credential.helper", "credential"),
    ] {
        git(&repo, &["config", key, &program(name)]);
    }
    git(&repo, &["config", "filter.cased.required", "true"]);
    let hook = repo.join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    write_executable(&hook, format!("#!/bin/sh\n{}\n", program("hook")).as_bytes());
    let inside = in_worktree(&mut app);
    assert_eq!(fs::read_to_string(inside.join("f")).unwrap(), "one\n");
    // The removal compares the files with the index.
    kill_and_wait(&mut app, 1, "removed the worktree");
    let ran: Vec<_> = fs::read_dir(&ran).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(ran, [] as [&str; 0]);
}

#[test]
fn a_filter_whose_name_cannot_be_passed_to_git_is_refused() {
    let Some(mut app) = app() else { return };
    git(&app.directory().join("repo"), &["config", "filter.a=b.smudge", "cat"]);
    app.enter("/env worktree@repo");
    app.turn_until("it is refused", |app| app.screen_text().contains("cannot create a worktree"));
    assert!(app.screen_text().replace("\n  ", " ").contains("filter with = in its name"), "{}", app.screen_text());
    assert_eq!(app.repl.roster().len(), 1);
}

#[test]
fn what_is_refused_in_a_project_is_refused_in_its_worktrees_and_what_is_allowed_is_not() {
    let Some(mut app) = app() else { return };
    let repo = fs::canonicalize(app.directory().join("repo")).unwrap();
    let rules = |allow: &str, ask: &str, deny: &str| {
        let parse = |text: &str| text.split_terminator('|').map(|rule| rule.parse().expect("a rule")).collect();
        Rules { allow: parse(allow), ask: parse(ask), deny: parse(deny) }
    };
    let project_rules = vec![
        (repo.clone(), rules("edit(allowed)", "read(asks)", "edit(secret)")),
        (repo.join("src"), rules("", "", "edit(inner)")),
        (repo.join("other"), rules("", "", "edit(elsewhere)")),
    ];
    app.reconfigure(|plan| Plan { project_rules, ..plan });
    let mut app = app.crash_and_restart();
    let texts = |app: &Harness, n: usize| {
        let Rules { allow, ask, deny } = (*app.agent(n).inputs.environment.rules).clone();
        [allow, ask, deny].map(|rules| rules.iter().map(|rule| rule.pattern().to_owned()).collect::<Vec<_>>())
    };
    in_worktree(&mut app);
    let expected: [Vec<&str>; 3] = [vec![], vec!["*", "asks"], vec!["secret", "inner"]];
    assert_eq!(texts(&app, 1), expected);
    // In another directory of the worktree those of the same directory of the project hold.
    let root = worktrees(&app).remove(0);
    fs::create_dir(root.join("other")).unwrap();
    app.enter(&format!("/env coding@{}", root.join("other").display()));
    assert_eq!(texts(&app, 2)[2], ["secret", "inner", "elsewhere"]);
    let app = app.crash_and_restart();
    assert_eq!(texts(&app, 1), expected);
    assert_eq!(texts(&app, 2)[2].len(), 3);
}

#[test]
fn the_note_of_an_origin_goes_with_its_worktree() {
    let Some(mut app) = app() else { return };
    in_worktree(&mut app);
    let origins = app.data().join("worktree-origins");
    let count = || fs::read_dir(&origins).map_or(0, Iterator::count);
    assert_eq!(count(), 1);
    app.ask(0, Change::Kill { agent_id: app.id(1), cascade: false });
    app.turn_until("the worktree is gone", |app| worktrees(app).is_empty());
    app.turn_until("the note is gone", |_| count() == 0);
}
