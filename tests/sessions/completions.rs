//! Shell completion.

use std::process::{Command, Stdio};

use super::{App, PROGRAM};

/// Whether this shell is installed.
fn is_installed(shell: &str) -> bool {
    Command::new(shell).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[test]
fn every_installed_shell_accepts_its_script() {
    let app = App::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = app.get(&["completions", shell]);
        assert!(script.contains("polylogue"), "{shell}");
        if ["bash", "fish", "zsh"].contains(&shell) && is_installed(shell) {
            let file = app.path().join(shell);
            std::fs::write(&file, script).expect("a file");
            let check = Command::new(shell).arg("-n").arg(&file).output().expect("it runs");
            assert!(check.status.success() && check.stderr.is_empty(), "{check:?}");
        }
    }
}

/// The candidates of bash for the last word.
fn candidates(app: &App, args: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
    let last = args.len() - 1;
    let script = format!(
        "PATH={}:$PATH; eval \"$(polylogue completions bash)\"; COMP_WORDS=({}); COMP_CWORD={last}; COMP_TYPE=9; \
         compopt() {{ :; }}; _clap_complete_polylogue polylogue \"${{COMP_WORDS[COMP_CWORD]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        std::path::Path::new(PROGRAM).parent().expect("a directory").display(),
        quoted.join(" ")
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &script]).current_dir(app.path()).env("HOME", app.path());
    let output = bash.env("POLYLOGUE_DATA_DIR", app.path()).output().expect("bash runs");
    assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    lines.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_options_values_files_and_agents() {
    if !is_installed("bash") {
        return;
    }
    let app = App::served();
    let mut pty = app.attach(&[], (80, 24));
    for name in ["scout", "scribe"] {
        pty.send(format!("/fork --name {name}\r"));
        pty.wait_for_text(&format!("── {name} "));
    }
    std::fs::create_dir(app.path().join("some place")).expect("a directory");
    std::fs::create_dir_all(app.path().join(".config/polylogue")).expect("a directory");
    let config = "[providers.local]\nbase_url = \"http://localhost:1/v1\"\nmodels = [\"small\", \"large\"]\n";
    std::fs::write(app.path().join(".config/polylogue/config.toml"), config).expect("a file");
    let table: [(&[&str], &[&str]); 11] = [
        (&["polylogue", "se"], &["setup", "serve", "search", "sessions"]),
        (&["polylogue", "kill", "sc"], &["scout", "scribe"]),
        (&["polylogue", "kill", "--cascade", "scr"], &["scribe"]),
        (&["polylogue", "kill", "--c"], &["--cascade", "--cwd", "--config", "--compact-at"]),
        (&["polylogue", "config", "s"], &["show"]),
        (&["polylogue", "--model", "lo"], &["local/small", "local/large"]),
        (&["polylogue", "--data-dir", "some"], &["some place/"]),
        (&["polylogue", "--data-dir", "x", "sto"], &["stop"]),
        (&["polylogue", "help", "set"], &["settings"]),
        (&["polylogue", "completions", "b"], &["bash"]),
        (&["polylogue", "please", "ki"], &[]),
    ];
    for (args, expected) in table {
        assert_eq!(candidates(&app, args), expected, "{args:?}");
    }
}
