//! Environments that run elsewhere. A scripted `ssh` runs its commands here, in a directory that plays the other machine; a
//! scripted `podman` does so for containers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use polylogue::config::Policy;
use polylogue::{Change, Setting, ToolResult};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::scene::{assert_refused, assert_shows, is_running, mark};
use crate::support::{eventually, write_executable};

/// Behaves as ssh with a control socket. Hosts whose names say so misbehave.
const SSH: &str = r#"#!/bin/sh
top=${0%/bin/ssh}
echo "$$ $*" >>"$top/calls"
master= socket=
while [ $# -gt 0 ]; do
  case $1 in
    -M) master=1 ;;
    -S) socket=$2; shift ;;
    -o) shift ;;
    --) host=$2; shift 2; break ;;
  esac
  shift
done
case $host in
  refusing) echo "ssh: connect to host refusing port 22: Connection refused" >&2; exit 255 ;;
  unknown) echo "Host key verification failed." >&2; exit 255 ;;
  silent) exec cat ;;
esac
if [ "$master" ]; then
  echo "$$" >"$socket"
  echo "$$" >>"$top/connections"
elif [ ! -e "/proc/$(cat "$socket" 2>/dev/null)/exe" ]; then
  # A master that was killed leaves its socket behind.
  echo "Connection closed by UNKNOWN port 65535" >&2
  exit 255
fi
echo "Welcome to $host"
cd "$top/there" || exit
HOME=$top/there/home
export HOME
exec setsid -w sh -c "$*"
"#;

/// Runs commands of its container here.
const PODMAN: &str = r#"#!/bin/sh
top=${0%/bin/podman}
echo "$*" >>"$top/calls"
while [ $# -gt 0 ]; do
  case $1 in
    sh) break ;;
    missing) echo "Error: missing: image not known" >&2; exit 125 ;;
  esac
  shift
done
HOME=/tmp
export HOME
exec setsid -w "$@"
"#;

/// A machine elsewhere.
pub(super) struct There(TempDir);

impl There {
    pub(super) fn new() -> Self {
        let top = tempfile::tempdir().expect("a directory");
        for name in ["bin", "there/home/.ssh", "there/app/src"] {
            fs::create_dir_all(top.path().join(name)).expect("a directory");
        }
        write_executable(&top.path().join("bin/ssh"), SSH.as_bytes());
        write_executable(&top.path().join("bin/podman"), PODMAN.as_bytes());
        Self(top)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).expect("a directory").join("there").join(name)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.0.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Kills the local processes of all calls that have not ended: the connection is cut.
    fn cut(&self) {
        for line in self.lines("calls") {
            let pid = line.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
            // It may have ended.
            let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
    }

    pub(super) fn plan(&self, policy: Policy) -> Plan {
        let program_path = Some(self.0.path().join("bin").into());
        Plan { policy, rules: Default::default(), real_time: true, program_path, ..Plan::default() }
    }

    /// An app whose agent 1 works in `app` there.
    fn app(&self, policy: Policy) -> Harness {
        let mut app = Harness::new(self.plan(policy));
        app.enter(&format!("/env ssh:web1:{}", self.path("app").display()));
        app.turn_until("the environment", |app| app.repl.roster().len() == 2);
        app
    }
}

/// The result of a call that an agent makes in a turn of its own.
pub(super) fn call(app: &mut Harness, n: usize, tool: &str, arguments: Value) -> ToolResult {
    app.say(n, &format!("%tool {tool} {arguments}"));
    app.turn_until_idle();
    app.tool_results(n).pop().expect("a result")
}

pub(super) fn content(app: &mut Harness, n: usize, tool: &str, arguments: Value) -> String {
    call(app, n, tool, arguments).content
}

fn bash(app: &mut Harness, n: usize, command: &str) -> String {
    content(app, n, "bash", json!({ "command": command }))
}

#[test]
fn commands_and_files_are_those_of_the_other_machine() {
    let there = There::new();
    let mut app = there.app(Policy::Yolo);
    let spec = format!("ssh:web1:{}", there.path("app").display());
    assert_eq!(app.agent(1).inputs.environment.spec, spec);
    assert_eq!(
        bash(&mut app, 1, "pwd; printf 'a\\0b'; exit 3"),
        format!("{}\na\u{fffd}b\n[exit code 3]", there.path("app").display())
    );
    assert_eq!(bash(&mut app, 1, "true"), "[no output]");

    let text = "it's \"one\"\n$HOME `x` \\ é\n\nlast";
    let created = content(&mut app, 1, "write_file", json!({"file_path": "new dir/a b.txt", "content": text}));
    assert!(created.starts_with("created new dir/a b.txt (31 bytes)"), "{created}");
    assert_eq!(fs::read_to_string(there.path("app/new dir/a b.txt")).expect("a file"), text);
    let read = content(&mut app, 1, "read_file", json!({"file_path": "new dir/a b.txt", "offset": 2, "limit": 1}));
    assert_eq!(read, "2\t$HOME `x` \\ é\n[lines 2-2 of 4; continue with offset 3]");

    fs::set_permissions(there.path("app/new dir/a b.txt"), fs::Permissions::from_mode(0o751)).expect("a mode");
    let edit = json!({"file_path": "new dir/a b.txt", "old_string": "last", "new_string": "end\n"});
    let edited = content(&mut app, 1, "edit_file", edit);
    assert!(edited.starts_with("edited new dir/a b.txt (1 replacement)") && edited.contains("+end"), "{edited}");
    let file = fs::metadata(there.path("app/new dir/a b.txt")).expect("a file");
    assert_eq!(file.permissions().mode() & 0o777, 0o751);
    assert_eq!(bash(&mut app, 1, "ls -A 'new dir'"), "a b.txt\n");
}

#[test]
fn searches_find_what_they_find_here() {
    let there = There::new();
    for (name, text) in [
        ("app/.gitignore", "out/\n"),
        ("app/src/main.rs", "fn größe() {}\nfn main() {}\n"),
        ("app/src/lib.rs", "pub fn other() {}\n"),
        ("app/out/main.rs", "fn main() {}\n"),
        ("app/binary", "fn main()\0"),
    ] {
        fs::create_dir_all(there.path(name).parent().expect("a directory")).expect("a directory");
        fs::write(there.path(name), text).expect("a file");
    }
    let mut app = there.app(Policy::Ask);
    assert_eq!(content(&mut app, 1, "glob", json!({"pattern": "*.rs"})), "src/lib.rs\nsrc/main.rs");
    assert_eq!(
        content(&mut app, 1, "grep", json!({"pattern": r"fn \w+\(", "context": 1})),
        "src/lib.rs:1:pub fn other() {}\nsrc/main.rs:1:fn größe() {}\nsrc/main.rs:2:fn main() {}"
    );
    assert_eq!(
        content(&mut app, 1, "grep", json!({"pattern": "MAIN", "ignore_case": true, "output_mode": "count"})),
        "src/main.rs:1"
    );
    assert_eq!(
        content(&mut app, 1, "grep", json!({"pattern": "main", "path": "src/main.rs"})),
        "src/main.rs:2:fn main() {}"
    );
    assert_eq!(content(&mut app, 1, "list_dir", json!({})), ".gitignore\nbinary\nsrc/");
    assert_eq!(content(&mut app, 1, "list_dir", json!({"path": "src"})), "lib.rs\nmain.rs");
    assert_eq!(content(&mut app, 1, "glob", json!({"pattern": "*", "path": "nowhere"})), "nowhere: does not exist");
}

#[test]
fn an_edit_is_refused_if_the_file_was_not_read_or_has_changed() {
    let there = There::new();
    fs::write(there.path("app/f"), "one\n").expect("a file");
    let mut app = there.app(Policy::Yolo);
    let edit = json!({"file_path": "f", "old_string": "one", "new_string": "two"});
    let refused = content(&mut app, 1, "edit_file", edit.clone());
    assert_eq!(refused, "nothing was changed: f: file has not been read yet; read it with read_file first");
    content(&mut app, 1, "read_file", json!({"file_path": "f"}));
    fs::write(there.path("app/f"), "one more\n").expect("a file");
    for (tool, arguments) in [("edit_file", edit), ("write_file", json!({"file_path": "f", "content": "x"}))] {
        let refused = content(&mut app, 1, tool, arguments);
        assert!(refused.ends_with("f: file changed since it was last read; read it again"), "{refused}");
    }
    assert_eq!(fs::read_to_string(there.path("app/f")).expect("a file"), "one more\n");
}

#[test]
fn what_is_denied_is_denied_there_and_links_lead_nowhere_unasked() {
    let there = There::new();
    fs::write(there.path("home/.ssh/id_rsa"), "secret").expect("a file");
    fs::write(there.path("outside"), "other").expect("a file");
    for (target, link) in [("home/.ssh/id_rsa", "app/key"), ("outside", "app/other"), ("home/.ssh", "app/keys")] {
        std::os::unix::fs::symlink(there.path(target), there.path(link)).expect("a link");
    }
    let mut app = there.app(Policy::Yolo);
    for (tool, arguments) in [
        ("read_file", json!({"file_path": "key"})),
        ("read_file", json!({"file_path": there.path("home/.ssh/id_rsa")})),
        ("write_file", json!({"file_path": "keys/id_rsa", "content": "x"})),
        ("grep", json!({"pattern": "secret", "path": "keys"})),
        ("list_dir", json!({"path": "keys"})),
    ] {
        let refused = call(&mut app, 1, tool, arguments.clone());
        assert!(
            refused.is_error && refused.content.contains("access denied: SSH keys"),
            "{tool} {arguments} {}",
            refused.content
        );
    }
    assert_eq!(
        content(&mut app, 1, "grep", json!({"pattern": "secret", "path": there.path("")})),
        "[no matches found]"
    );
    let refused = content(&mut app, 1, "read_file", json!({"file_path": "other"}));
    assert_eq!(
        refused,
        format!("other: leads to {}; use that path, so that the user can be asked", there.path("outside").display())
    );
    assert_eq!(content(&mut app, 1, "read_file", json!({"file_path": there.path("outside")})), "1\tother");
}

#[test]
fn reads_are_free_there_and_all_else_asks_under_auto_too() {
    let there = There::new();
    fs::write(there.path("app/f"), "one\n").expect("a file");
    fs::write(there.path("outside"), "other").expect("a file");
    for policy in [Policy::Ask, Policy::Auto] {
        let mut app = there.app(policy);
        assert_eq!(content(&mut app, 1, "read_file", json!({"file_path": "f"})), "1\tone\n");
        for (tool, arguments) in [
            ("bash", json!({"command": "cat f"})),
            ("write_file", json!({"file_path": "g", "content": "x"})),
            ("edit_file", json!({"file_path": "f", "old_string": "one", "new_string": "two"})),
            ("read_file", json!({"file_path": there.path("outside")})),
        ] {
            app.say(1, &format!("%tool {tool} {arguments}"));
            app.turn_until_asked(1);
            let detail = app.agent(1).question().expect("a question").question.detail.join("\n");
            assert!(detail.contains("host: web1, by ssh") || detail.contains("ssh:web1:/"), "{detail}");
            app.answer(1, false);
            app.turn_until_idle();
        }
        assert!(!there.path("app/g").exists());
    }
}

#[cfg(feature = "shell-grammar")]
#[test]
fn a_rule_for_this_machine_allows_nothing_there_and_one_against_something_holds() {
    let there = There::new();
    let mut plan = there.plan(Policy::Ask);
    plan.rules.allow.push("bash(touch:*)".parse().expect("a rule"));
    plan.rules.deny.push("bash(rm:*)".parse().expect("a rule"));
    let mut app = Harness::new(plan);
    app.enter(&format!("/env ssh:web1:{}", there.path("app").display()));
    app.turn_until("the environment", |app| app.repl.roster().len() == 2);
    app.say(1, &format!("%tool bash {}", json!({"command": "touch x"})));
    app.turn_until_asked(1);
    app.answer(1, true);
    app.turn_until_idle();
    assert!(there.path("app/x").exists());
    let refused = bash(&mut app, 1, "rm x");
    assert!(there.path("app/x").exists() && refused.contains("rule deny bash(rm:*)"), "{refused}");
}

#[test]
fn a_cut_connection_is_said_in_one_line_and_the_next_call_connects_again() {
    let there = There::new();
    let mut app = there.app(Policy::Yolo);
    let word = mark();
    app.say(1, &format!("%tool bash {}", json!({"command": format!("echo begun; touch up; sleep {word} & wait")})));
    app.turn_until("the command", |_| there.path("app/up").exists());
    there.cut();
    app.turn_until_idle();
    let result = app.tool_results(1).pop().expect("a result");
    assert!(result.is_error, "{}", result.content);
    let lines: Vec<&str> = result.content.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "begun"), "{}", result.content);
    assert!(lines[1].starts_with("[no exit code: lost the connection to web1 ("), "{}", result.content);
    eventually(|| !is_running(&word));
    assert_eq!(bash(&mut app, 1, "echo again"), "again\n");
    assert_eq!(there.lines("connections").len(), 2);
}

#[test]
fn what_a_command_has_started_ends_at_its_end_at_the_time_limit_and_at_an_interrupt() {
    let there = There::new();
    let mut app = there.app(Policy::Yolo);
    let word = mark();
    assert_eq!(bash(&mut app, 1, &format!("sleep {word} & echo done")), "done\n");
    eventually(|| !is_running(&word));
    let timed_out =
        content(&mut app, 1, "bash", json!({"command": format!("echo a; sleep {word} | cat"), "timeout": 3000}));
    assert_eq!(timed_out, "a\n[timed out after 3s]");
    eventually(|| !is_running(&word));
    app.say(1, &format!("%tool bash {}", json!({"command": format!("touch up; sleep {word} & wait")})));
    app.turn_until("the command", |_| there.path("app/up").exists());
    app.escape();
    app.turn_until_idle();
    eventually(|| !is_running(&word));
    assert_eq!(app.tool_results(1).pop().expect("a result").content, "[interrupted]");
}

#[test]
fn a_command_in_the_background_goes_on_and_ends_with_its_agent() {
    let there = There::new();
    let mut app = there.app(Policy::Yolo);
    let word = mark();
    let started = content(
        &mut app,
        1,
        "bash",
        json!({"command": format!("echo one; sleep {word} & wait"), "run_in_background": true}),
    );
    let id = started.split([' ', ';']).find(|word| word.starts_with("bash_")).expect("an id").to_owned();
    eventually(|| is_running(&word));
    let mut output = String::new();
    while !output.contains("one") {
        output = content(&mut app, 1, "bash_output", json!({ "bash_id": id }));
    }
    app.enter("/kill 1");
    app.turn_until("the end", |app| app.repl.roster().len() == 1);
    app.turn_until("the end of the command", |_| !is_running(&word));
}

#[test]
fn all_agents_of_a_host_share_one_connection_which_ends_with_the_last() {
    let there = There::new();
    let mut app = there.app(Policy::Yolo);
    app.enter(&format!("/env readonly+bash+ssh:web1:{}", there.path("").display()));
    app.turn_until("the environment", |app| app.repl.roster().len() == 3);
    app.fork(2);
    let go = there.path("go");
    for n in 1..4 {
        let wait = format!(
            "touch {}; until [ -e {} ]; do sleep 0.02; done; echo {n}",
            there.path(&format!("up{n}")).display(),
            go.display()
        );
        app.say(n, &format!("%tool bash {}", json!({"command": wait})));
    }
    app.turn_until("all commands", |_| (1..4).all(|n| there.path(&format!("up{n}")).exists()));
    fs::write(&go, "").expect("a file");
    app.turn_until_idle();
    for n in 1..4 {
        assert_eq!(app.tool_results(n).pop().expect("a result").content, format!("{n}\n"));
    }
    let connections = there.lines("connections");
    assert_eq!(connections.len(), 1);
    drop(app.close());
    let is_gone = || !Path::new(&format!("/proc/{}", connections[0])).exists();
    eventually(is_gone);
}

#[test]
fn a_host_that_cannot_be_reached_is_said_with_what_to_do() {
    let there = There::new();
    let mut app = Harness::new(there.plan(Policy::Yolo));
    app.resize((150, 40));
    for (place, expected) in [
        (
            "ssh:refusing:/srv",
            "cannot reach refusing by ssh (ssh: connect to host refusing port 22: Connection refused)",
        ),
        ("ssh:unknown:/srv", "run `ssh unknown` in a terminal to check and accept its host key"),
        ("ssh:web1:/nowhere/at/all", "/nowhere/at/all on web1: no such directory"),
        ("container:missing", "cannot start a container of missing (Error: missing: image not known)"),
    ] {
        app.enter(&format!("/env {place}"));
        app.turn_until(expected, |app| app.screen_text().contains(expected));
    }
    app.enter("/env ssh:silent:/srv");
    assert_shows(&mut app, "connecting to silent");
    // The loop does not wait for the host.
    app.type_bytes(b"meanwhile");
    assert_eq!(app.draft(0).text(), "meanwhile");
    app.type_bytes(b"\x15");
    app.escape();
    app.turn_until("the note", |app| app.screen_text().contains("cancelled the environment"));
    for (line, expected) in [
        ("/env ssh:-oProxyCommand=x:/srv", "expected ssh:HOST:DIR"),
        ("/env ssh:web1", "expected ssh:HOST:DIR"),
        ("/env worktree+ssh:web1:/srv", "cannot be combined"),
        ("/env container:--privileged", "expected container:IMAGE"),
    ] {
        assert_refused(&mut app, line, expected);
    }
    assert_eq!(app.repl.roster().len(), 1);
}

#[test]
fn a_restart_keeps_the_place_and_the_first_call_connects() {
    let there = There::new();
    let app = there.app(Policy::Yolo);
    let spec = app.agent(1).inputs.environment.spec.clone();
    let mut app = app.crash_and_restart();
    app.resize((150, 40));
    app.ask(1, Change::Setting(Setting::Approval(Policy::Yolo)));
    assert_eq!(app.agent(1).inputs.environment.spec, spec);
    let before = there.lines("connections").len();
    assert_eq!(bash(&mut app, 1, "pwd"), format!("{}\n", there.path("app").display()));
    assert_eq!(there.lines("connections").len(), before + 1);
    app.switch(1);
    app.enter("/env");
    assert_shows(&mut app, "cannot bring back files that are changed there");
    assert_refused(&mut app, "/undo", "files that are changed there cannot be brought back");
}

#[test]
fn a_container_has_the_workspace_and_nothing_else_and_auto_runs_in_it() {
    let there = There::new();
    let mut app = Harness::new(there.plan(Policy::Auto));
    let workspace = fs::canonicalize(app.directory()).expect("a directory");
    fs::create_dir_all(workspace.join(".git/hooks")).expect("a directory");
    fs::write(workspace.join(".git/config"), "").expect("a file");
    fs::write(workspace.join("AGENTS.md"), "").expect("a file");
    app.enter("/env container:alpine");
    app.turn_until("the environment", |app| app.repl.roster().len() == 2);
    assert_eq!(bash(&mut app, 1, "pwd; echo one >f"), format!("{}\n", workspace.display()));
    assert_eq!(content(&mut app, 1, "read_file", json!({"file_path": "f"})), "1\tone\n");
    let edit = json!({"file_path": "f", "old_string": "one", "new_string": "two"});
    assert!(content(&mut app, 1, "edit_file", edit).starts_with("edited f"));
    assert_eq!(fs::read_to_string(workspace.join("f")).expect("a file"), "two\n");
    app.say(1, &format!("%tool write_file {}", json!({"file_path": "AGENTS.md", "content": "x"})));
    app.turn_until_asked(1);
    app.answer(1, false);
    app.turn_until_idle();
    let created = bash(&mut app, 1, "mkdir sub; f=CLAUDE; echo x >sub/$f.md");
    assert!(created.starts_with("[protected: sub/CLAUDE.md was created during this command"), "{created}");
    let calls = there.lines("calls");
    let (started, others): (Vec<_>, Vec<_>) = calls.iter().partition(|call| call.starts_with("run "));
    assert_eq!(started.len(), 1, "{calls:?}");
    let name = started[0].split(' ').skip_while(|word| *word != "--name").nth(1).expect("a name");
    assert!(others.iter().all(|call| call.starts_with(&format!("exec -i {name} sh -c"))), "{calls:?}");
    for expected in
        ["--network none", "no-new-privileges", "--cap-drop ALL", "AGENTS.md,readonly", ".git/hooks,readonly"]
    {
        assert!(started[0].contains(expected), "{expected}: {}", started[0]);
    }
}
