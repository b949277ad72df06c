//! Completions: what shells make of the scripts.

use std::process::{Command, Stdio};

use super::{App, PROGRAM};

/// Whether there is such a shell here.
fn is_there(shell: &str) -> bool {
    Command::new(shell).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[test]
fn every_shell_that_is_here_can_read_its_script() {
    let app = App::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = app.get(&["completions", shell]);
        assert!(script.contains("polylogue"), "{shell}");
        if is_there(shell) {
            let file = app.path().join(shell);
            std::fs::write(&file, script).expect("a file");
            let read = Command::new(shell).arg("-n").arg(&file).output().expect("it runs");
            assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");
        }
    }
}

/// What bash offers behind these words.
fn offers(app: &App, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let last = words.len() - 1;
    let script = format!(
        "PATH={}:$PATH; eval \"$(polylogue completions bash)\"; COMP_WORDS=({}); COMP_CWORD={last}; compopt() {{ :; }}; \
         _polylogue; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        std::path::Path::new(PROGRAM).parent().expect("a directory").display(),
        quoted.join(" ")
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &script]).current_dir(app.path()).env("HOME", app.path());
    let told = bash.env("POLYLOGUE_DATA_DIR", app.path()).output().expect("bash runs");
    assert!(told.stderr.is_empty(), "{words:?}: {told:?}");
    let told = String::from_utf8(told.stdout).expect("UTF-8");
    told.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_options_values_files_and_agents() {
    if !is_there("bash") {
        return;
    }
    let app = App::served();
    let mut pty = app.attach(&[], (80, 24));
    for name in ["scout", "scribe"] {
        pty.send(format!("/fork --name {name}\r"));
        pty.wait_for_text(&format!("── {name} "));
    }
    std::fs::create_dir(app.path().join("some place")).expect("a directory");
    let table: [(&[&str], &[&str]); 12] = [
        (&["polylogue", "se"], &["serve", "send", "sessions"]),
        (&["polylogue", "kill", "sc"], &["scout", "scribe"]),
        (&["polylogue", "kill", "--cascade", "scr"], &["scribe"]),
        (&["polylogue", "kill", "--c"], &["--config", "--cascade"]),
        (&["polylogue", "config", "s"], &["show"]),
        (&["polylogue", "--model", "kill", "att"], &["attach"]),
        (&["polylogue", "--data-dir", "some"], &["some place"]),
        (&["polylogue", "--data-dir", "=", "some"], &["some place"]),
        (&["polylogue", "--data-dir", "=", "x", "sto"], &["stop"]),
        (&["polylogue", "completions", ""], &["bash", "zsh", "fish"]),
        (&["polylogue", "please", "ki"], &[]),
        (&["polylogue", "--", "ki"], &[]),
    ];
    for (words, offered) in table {
        assert_eq!(offers(&app, words), offered, "{words:?}");
    }
}
