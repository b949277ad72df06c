//! `--host`: a scripted `ssh` in PATH, which runs the remote command on this machine by `sh -c`.

use std::path::PathBuf;

use crate::support::program::{Home, PROGRAM, Program, Response, texts};
use crate::support::pty::Pty;
use crate::support::write_executable;

/// Notes its arguments, one a line, and runs the last one as sshd does.
const SSH: &[u8] = b"#!/bin/sh
for word; do printf '%s\\n' \"$word\"; done >\"$HOME/ssh-arguments\"
for word; do last=$word; done
[ ! -e \"$HOME/down\" ] || { echo 'ssh: connect to host box port 22: Connection refused' >&2; exit 255; }
cd \"$HOME/remote\" && PATH=\"$HOME/remote-bin:/usr/bin:/bin\" HOME=\"$HOME/remote\" POLYLOGUE_DATA_DIR= POLYLOGUE_HOST= exec sh -c \"$last\"
";

/// A home with an ssh program and another machine, its own home directory.
fn home() -> Home {
    let mut home = Home::new();
    let root = home.directory.path().to_path_buf();
    for name in ["bin", "remote", "remote-bin", "run"] {
        std::fs::create_dir(root.join(name)).expect("a directory");
    }
    write_executable(&root.join("bin/ssh"), SSH);
    std::os::unix::fs::symlink(PROGRAM, root.join("remote-bin/polylogue")).expect("a link");
    let path = format!("{}:/usr/bin:/bin", root.join("bin").display());
    home.variables.push(("PATH".into(), path));
    home.variables.push(("TMPDIR".into(), root.join("run").display().to_string()));
    home
}

fn remote_data(home: &Home) -> PathBuf {
    home.directory.path().join("remote/.local/share/polylogue")
}

/// What ssh was given.
fn ssh_arguments(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.directory.path().join("ssh-arguments")).expect("arguments");
    text.lines().map(str::to_owned).collect()
}

fn run(home: &Home, args: &[&str]) -> Response {
    home.run(&[&["--host", "ssh://me@box:2222"], args].concat())
}

#[test]
fn commands_run_on_the_host_with_their_input_output_and_exit_code() {
    let home = home();
    let said = run(&home, &["-p", "it's $HOME `id`", "*"]);
    assert_eq!((said.code, said.out.as_str()), (0, "it's $HOME `id` *\n"), "{said:?}");
    let arguments = ssh_arguments(&home);
    let at = arguments.iter().position(|word| word == "-p").expect("a port");
    assert_eq!(arguments[at..at + 4], ["-p", "2222", "me@box", "--"]);
    assert_eq!(arguments[0], "-T");
    assert!(arguments.iter().any(|word| word == "ControlMaster=auto"), "{arguments:?}");
    assert!(remote_data(&home).exists() && !home.data().exists(), "nothing is stored here");
    let mut program = home.start_with_input(&["-p", "read:", "--host=ssh://box"]);
    program.write("from here\n");
    assert_eq!(program.ends().out, "read:\n\nfrom here\n");
    for (args, code) in
        [(&["kill", "nobody"][..], 1), (&["-p", "--timeout", "0", "x"], 2), (&["-p", "%fail auth no"], 3)]
    {
        let response = run(&home, args);
        assert_eq!(response.code, code, "{response:?}");
    }
}

#[test]
fn a_server_there_is_used_by_scripts_and_named_by_the_environment() {
    let mut home = home();
    home.variables.push(("POLYLOGUE_HOST".into(), "ssh://box".into()));
    let served = home.run(&["serve", "--background"]);
    assert_eq!(served.code, 0, "{served:?}");
    assert_eq!(home.run(&["tell", "0", "hello there"]).code, 0);
    let waited = home.run(&["wait", "0", "--timeout", "60"]);
    assert_eq!((waited.code, waited.out.as_str()), (0, "idle\n"), "{waited:?}");
    let found = home.run(&["search", "hello", "--json"]);
    assert!(found.out.contains("hello there"), "{found:?}");
    assert!(home.run(&["help"]).out.contains("polylogue help topics"), "help is printed here");
    let stopped = home.run(&["stop"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    let log = polylogue::Store::open(&remote_data(&home)).expect("a store");
    let agent = log.load_agents().expect("agents").agents[0].id;
    let log: Vec<_> = log.replay(agent).expect("a log").0.into_iter().map(|message| message.body).collect();
    assert_eq!(texts(&log)[..2], ["hello there", "hello there"]);
}

#[test]
fn a_terminal_is_passed_on_where_one_is_needed() {
    let home = home();
    let own = home.directory.path().display().to_string();
    let variables: Vec<(&str, &str)> =
        home.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain([("HOME", &*own)]).collect();
    let script = "exec \"$0\" --host ssh://box >/dev/tty";
    let mut pty = Pty::spawn("/bin/sh", &["-c", script, PROGRAM], &variables, (80, 24));
    pty.wait_for_text("? keys");
    pty.send("hello\r");
    pty.wait_for_answer("hello", "hello");
    assert_eq!(ssh_arguments(&home)[0], "-t");
    pty.leave();
}

#[test]
fn what_fails_says_how_to_mend_it() {
    let home = home();
    let refused = home.run(&["--host", "ssh://-oProxyCommand=touch", "ps"]);
    assert!(refused.code == 2 && refused.err.contains("expected ssh://[USER@]HOST[:PORT]"), "{refused:?}");
    assert!(!home.directory.path().join("ssh-arguments").exists(), "ssh was not started");
    let local = run(&home, &["-p", "look", "--attach", "shot.png"]);
    assert!(local.code == 2 && local.err.contains("scp -P 2222 shot.png me@box:/tmp/"), "{local:?}");
    let remote = run(&home, &["-p", "look", "--attach", "/no/such.png"]);
    assert!(remote.code == 2 && remote.err.contains("/no/such.png"), "{remote:?}");
    std::fs::write(home.directory.path().join("down"), "").expect("a file");
    let down = run(&home, &["ps"]);
    assert!(down.code == 255 && down.err.contains("to see why: ssh -p 2222 me@box true"), "{down:?}");
    std::fs::remove_file(home.directory.path().join("down")).expect("it is there");
    std::fs::remove_file(home.directory.path().join("remote-bin/polylogue")).expect("it is there");
    let missing = run(&home, &["ps"]);
    assert!(missing.code == 127 && missing.err.contains("there is no polylogue on me@box"), "{missing:?}");
    std::fs::remove_file(home.directory.path().join("bin/ssh")).expect("it is there");
    let mut command = home.command(PROGRAM, &["--host", "ssh://box", "ps"]);
    command.env("PATH", home.directory.path().join("bin"));
    let without = Program::start(command).ends();
    assert!(without.code == 1 && without.err.contains("install OpenSSH's client"), "{without:?}");
}
