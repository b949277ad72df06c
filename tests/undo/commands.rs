//! Commands change files that nobody names: in a repository they are found by comparing it before and after.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{app, tree, undo};
use crate::support::harness::Harness;
use crate::support::internals::{Body, State};
use crate::support::scene::turn_a_while;

fn git(directory: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Test", "-c", "user.email=test@example.org"]).args(arguments).current_dir(directory);
    let output = git.output().expect("git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An agent in a repository with tracked, changed, new and ignored files; `None` on a machine without git.
fn app_in_repository() -> Option<Harness> {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("there is no git here");
        return None;
    }
    let app = app(2);
    let top = app.directory();
    git(&top, &["init", "-q"]);
    fs::create_dir_all(top.join("src/deep")).unwrap();
    for (name, text) in [("a", "one\r\n"), ("src/b", "$Id$\n"), ("src/deep/c", "c\n"), (".gitignore", "ignored\n")] {
        fs::write(top.join(name), text).unwrap();
    }
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-q", "-m", "first"]);
    // What git would change in files.
    fs::write(top.join(".gitattributes"), "* text=auto eol=lf ident filter=loud\n").unwrap();
    git(&top, &["config", "filter.loud.clean", "touch ran-a-filter; cat"]);
    git(&top, &["config", "core.hooksPath", "hooks"]);
    fs::write(top.join("src/b"), "changed\r\n").unwrap();
    fs::write(top.join("new"), [0, 255, 13, 10]).unwrap();
    fs::set_permissions(top.join("new"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(top.join("src/deep"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("nowhere", top.join("link")).unwrap();
    Some(app)
}

fn run(app: &mut Harness, n: usize, command: &str) {
    app.say(n, &format!("%tool bash {}", json!({ "command": command })));
    app.turn_until_idle();
}

/// Without git's own directory, and what is ignored.
fn files(top: &Path) -> super::Tree {
    let is_meant = |path: &Path| !path.starts_with(top.join(".git")) && path != top.join("ignored");
    tree(top).into_iter().filter(|(path, _)| is_meant(path)).collect()
}

#[test]
fn no_filter_of_another_repository_in_the_tree_runs() {
    let Some(mut app) = app_in_repository() else { return };
    let (top, ran) = (app.directory(), app.directory().join("ran"));
    let config = "git -c user.name=T -c user.email=t@example.org";
    let script = format!(
        "git init -q n && cd n && echo '* filter=loud' > .gitattributes && echo a > f && git add -A && \
         {config} commit -q -m first && git config filter.loud.clean 'touch {}; cat' && echo longer > f",
        ran.display()
    );
    run(&mut app, 0, &script);
    assert!(top.join("n/.git/config").exists(), "{:?}", app.tool_results(0));
    assert!(!ran.exists());
    for _ in 0..2 {
        run(&mut app, 0, "echo harmless >> z");
        assert!(!ran.exists(), "a filter of the inner repository ran");
    }
    assert!(undo(&mut app, "/undo").contains("brought back"));
    assert_eq!(fs::read_to_string(top.join("z")).expect("it is back"), "harmless\n");
}

#[test]
fn a_link_in_the_place_of_a_directory_is_not_followed() {
    let Some(mut app) = app_in_repository() else { return };
    let (top, outside) = (app.directory(), tempfile::tempdir().expect("a directory"));
    fs::create_dir(outside.path().join("deep")).expect("a directory");
    fs::set_permissions(outside.path().join("deep"), fs::Permissions::from_mode(0o700)).expect("permissions");
    fs::write(outside.path().join("b"), "theirs\n").expect("a file");
    run(&mut app, 0, "rm -r src");
    symlink(outside.path(), top.join("src")).expect("a link");
    undo(&mut app, "/undo --skip");
    let mode = fs::metadata(outside.path().join("deep")).expect("a directory").permissions().mode() & 0o777;
    let entries = fs::read_dir(outside.path()).expect("a directory").count();
    assert_eq!(
        (mode, entries, fs::read_to_string(outside.path().join("b")).expect("a file")),
        (0o700, 2, "theirs\n".into())
    );
}

#[test]
fn what_a_command_changed_is_brought_back_exactly_and_done_again() {
    let Some(mut app) = app_in_repository() else { return };
    let top = app.directory();
    let (before, repository) = (files(&top), tree(&top.join(".git")));
    run(
        &mut app,
        0,
        "echo more >> a; rm -r src; mkdir -p x/y; echo z > x/y/z; chmod 755 new; ln -sfn a link; \
         mv .gitattributes moved; echo hidden > ignored",
    );
    let after = files(&top);
    assert!(top.join("x/y/z").exists() && !top.join("src").exists() && !top.join("ran-a-filter").exists());
    assert!(tree(&top.join(".git")) == repository, "something in .git was touched");
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("brought back"), "{screen}");
    assert_eq!(files(&top), before);
    undo(&mut app, "/undo --redo");
    assert_eq!(files(&top), after);
}

/// A file that this process reads of a repository can be anything: a device without an end, a pipe that nobody writes to, a
/// link to a key.
#[test]
fn what_a_command_puts_in_the_place_of_a_file_of_git_is_not_read() {
    let Some(mut app) = app_in_repository() else { return };
    let (top, elsewhere) = (app.directory(), tempfile::tempdir().unwrap());
    fs::write(elsewhere.path().join("key"), "SECRET-KEY").unwrap();
    let key = elsewhere.path().join("key").display().to_string();
    for (n, place) in ["ln -s /dev/zero $F", "mkfifo $F", &format!("ln -s {key} $F"), "mkdir $F", "truncate -s 1T $F"]
        .iter()
        .enumerate()
    {
        // Commands that name `.git` ask.
        let files = "G=.gi; for F in ${G}t/info/exclude ${G}t/index; do rm -rf $F";
        run(&mut app, 0, &format!("{files}; {place}; done; echo {n} > f"));
        run(&mut app, 0, &format!("{files}; done; echo again >> f; echo x > g{n}"));
        assert_eq!(fs::read_to_string(top.join("f")).expect("a file"), format!("{n}\nagain\n"));
        assert!(undo(&mut app, "/undo").contains("brought back"), "{place}");
        assert!(!top.join(format!("g{n}")).exists());
    }
    let kept = tree(app.data());
    let has_key = |content: &[u8]| content.windows(10).any(|window| window == b"SECRET-KEY");
    assert!(!kept.values().any(|(_, content)| has_key(content)));
}

#[test]
fn a_command_that_has_git_ignore_everything_is_named_by_an_undo() {
    for ignore in [".gitignore", "src/.gitignore"] {
        let Some(mut app) = app_in_repository() else { return };
        run(&mut app, 0, &format!("printf '*\\n' > {ignore}; echo x > src/hidden; echo changed > a"));
        let said = undo(&mut app, "/undo").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("hides files since then"), "{ignore}: {said}");
    }
}

#[test]
fn commands_that_change_nothing_leave_nothing_to_undo() {
    let Some(mut app) = app_in_repository() else { return };
    run(&mut app, 0, "cat a");
    run(&mut app, 0, "touch a; true");
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("no tool of this agent has changed files"), "{screen}");
}

#[test]
fn outside_of_a_repository_a_command_cannot_be_undone_and_is_named() {
    let mut app = app(1);
    let top = app.directory();
    super::write(&mut app, 0, "f", "agent");
    run(&mut app, 0, "echo more > g");
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("nothing was undone") && screen.contains("is in no git"), "{screen}");
    let first = super::prompts(&app, 0)[0].0;
    let screen = undo(&mut app, &format!("/undo --to {first} --skip"));
    assert!(screen.contains("1 file brought back"), "{screen}");
    assert!(!top.join("f").exists() && top.join("g").exists());
}

#[test]
fn what_another_agent_wrote_while_a_command_ran_is_refused_and_named() {
    let Some(mut app) = app_in_repository() else { return };
    let top = app.directory();
    let wait = "echo mine > mine; touch started; while [ ! -e theirs ]; do sleep 0.05; done";
    app.say(0, &format!("%tool bash {}", json!({ "command": wait })));
    app.turn_until("the command runs", |_| top.join("started").exists());
    app.say(1, &format!("%tool write_file {}", json!({"file_path": "theirs", "content": "x"})));
    app.turn_until_idle();
    let screen = undo(&mut app, "/undo");
    assert!(screen.contains("/theirs: agent 1 wrote it too while bash of message"), "{screen}");
    assert!(!screen.contains("/mine:"), "{screen}");
    undo(&mut app, "/undo --skip");
    assert!(!top.join("mine").exists() && top.join("theirs").exists());
    undo(&mut app, "/undo 1");
    assert!(!top.join("theirs").exists());
}

#[test]
fn an_interrupted_command_can_be_undone() {
    let Some(mut app) = app_in_repository() else { return };
    let top = app.directory();
    app.say(0, &format!("%tool bash {}", json!({ "command": "echo mine > mine; touch started; sleep 100" })));
    app.turn_until("the command runs", |_| top.join("started").exists());
    app.escape();
    app.turn_until_idle();
    undo(&mut app, "/undo");
    assert!(!top.join("mine").exists() && !top.join("started").exists());
}

#[test]
fn who_changed_a_file_meanwhile_is_named_to_an_agent_that_wants_to_write_it() {
    let Some(mut app) = app_in_repository() else { return };
    let call = |app: &mut Harness, agent: usize, tool: &str, arguments: serde_json::Value| {
        app.say(agent, &format!("%tool {tool} {arguments}"));
        app.turn_until_idle();
        app.log(agent).iter().rev().find_map(|message| match &message.body {
            Body::ToolResult(result) => Some(result.content.to_string()),
            _ => None,
        })
    };
    let read = |app: &mut Harness, agent| call(app, agent, "read_file", json!({"file_path": "a"}));
    let edit = |app: &mut Harness, agent, from: &str, to: &str| {
        call(app, agent, "edit_file", json!({"file_path": "a", "old_string": from, "new_string": to}))
            .expect("a result")
    };
    read(&mut app, 0);
    read(&mut app, 1);
    edit(&mut app, 1, "one", "two");
    let refused = edit(&mut app, 0, "one", "three");
    assert!(
        refused.contains("file changed since it was last read: agent 1 has changed it with edit_file; read it again"),
        "{refused}"
    );
    // As the message says, it can wait until the other one is done.
    assert!(refused.ends_with(r#"or first let agent 1 finish: wait {"from":["agent 1"]}"#), "{refused}");
    app.say(1, "%hang");
    app.say(0, r#"%tool wait {"from":["agent 1"]}"#);
    turn_a_while(&mut app);
    assert_eq!((app.state(0), app.state(1)), (State::ExecutingTool, State::WaitingForLlm));
    app.switch(1);
    app.escape();
    app.turn_until_idle();
    assert!(app.tool_results(0).last().is_some_and(|result| result.content.ends_with("\nagent 1: idle")));
    read(&mut app, 0);
    call(&mut app, 1, "bash", json!({"command": "echo four >> a"}));
    let refused = edit(&mut app, 0, "two", "three");
    assert!(refused.contains("agent 1 has changed it with bash"), "{refused}");
    read(&mut app, 0);
    // What a person changes after an agent is not put down to that agent.
    call(&mut app, 1, "bash", json!({"command": "echo five >> a"}));
    fs::write(app.directory().join("a"), "of the person\n").unwrap();
    let refused = edit(&mut app, 0, "two", "three");
    assert!(refused.contains("file changed since it was last read; read it again"), "{refused}");
}
