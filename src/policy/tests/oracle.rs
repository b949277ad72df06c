//! Compares what bash really runs with what was read from the text.
//!
//! Commands of the corpus are changed at random. Each one that is still plain runs in bash without any programs: every
//! builtin but `printf` is disabled, `PATH` names no directory, and `command_not_found_handle` logs the arguments of
//! each command that bash would start. What bash runs must be what was predicted. `POLYLOGUE_ORACLE=N` runs N commands
//! instead of 300, `POLYLOGUE_ORACLE_SEED` repeats a run.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fastrand::Rng;

use super::corpus;
use crate::policy::shell::{self, SimpleCommand};

/// Logs a command in one write: the number of its words, and each of them, ended by NUL.
const HANDLER: &str = "() { printf '%s\\0' \"$#\" \"$@\" >> \"$LOG\"; }";

/// `kill` among them: what goes wrong here must do no harm.
const DISABLE: &str = "enable -n . : [ alias bg bind break builtin caller cd command compgen complete compopt continue \
    declare dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout \
    mapfile popd pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset \
    ulimit umask unalias unset wait\n";

/// Characters that mean something to a shell, and some that do not.
const ALPHABET: &[char] = &[
    ' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')', '{', '}', '\'', '"', '\\', '$', '`', '!', '#', '~', '*', '?',
    '[', ']', '=', ':', ',', '@', '^', '%', '+', '-', '.', '/', '0', '1', '2', 'a', 'x', 'é', '\r', '\u{1}', '\u{a0}',
];

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn mutated(commands: &[String], rng: &mut Rng) -> String {
    let mut text: Vec<char> = commands[rng.usize(..commands.len())].chars().collect();
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..=text.len());
        match rng.u8(..6) {
            0 if at < text.len() => drop(text.remove(at)),
            1 if at < text.len() => text.insert(at, text[at]),
            2 => {
                let other: Vec<char> = commands[rng.usize(..commands.len())].chars().collect();
                let from = rng.usize(..=other.len());
                text.splice(at..at, other[from..].iter().copied());
            }
            3 => {
                let words =
                    ["time ", "! ", " if ", " 2>&1", " >/dev/null", "{} ", " in ", "@{1}", "A=", "~ ", " <in", "\\"];
                text.splice(at..at, words[rng.usize(..words.len())].chars());
            }
            _ => text.insert(at, ALPHABET[rng.usize(..ALPHABET.len())]),
        }
    }
    text.into_iter().collect()
}

/// The commands that bash ran.
fn run(bash: &Path, text: &str, directory: &Path) -> Vec<Vec<String>> {
    let log = directory.join("log");
    fs::write(&log, "").expect("a log");
    let work = directory.join("work");
    let mut bash = Command::new(bash);
    bash.args(["--norc", "--noprofile", "-c", &format!("{DISABLE}{text}")]).current_dir(work).env_clear();
    bash.env("PATH", "/nonexistent").env("LOG", &log).env("LC_ALL", "C.UTF-8");
    bash.env("BASH_FUNC_command_not_found_handle%%", HANDLER);
    bash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("bash");
    let bytes = fs::read(&log).expect("the log");
    let log = String::from_utf8(bytes).expect("UTF-8 words");
    let mut words = log.split_terminator('\0');
    let mut commands = Vec::new();
    while let Some(count) = words.next() {
        let count = count.parse().unwrap_or_else(|_| panic!("{text:?}: a torn log {log:?}"));
        commands.push(words.by_ref().take(count).map(str::to_owned).collect());
    }
    commands
}

/// Whether the prediction covers a command. The result of a pattern depends on the files.
fn is_predicted(predicted: &SimpleCommand, ran: &[String]) -> bool {
    let literal = predicted.words.iter().take_while(|word| !word.is_glob).count();
    let is_start =
        ran.len() >= literal && predicted.words[..literal].iter().zip(ran).all(|(word, ran)| word.text == *ran);
    is_start && (literal < predicted.words.len() || ran.len() == literal)
}

/// Checks one command. False if it cannot be compared.
fn check(bash: &Path, text: &str, directory: &Path) -> bool {
    let Ok(commands) = shell::parse(text) else { return false };
    if text.len() > 1000 || commands.iter().any(|command| command.program() == "printf") {
        return false;
    }
    // Bash starts a command with a slash without asking the handler.
    let mut expected: Vec<SimpleCommand> =
        commands.into_iter().filter(|command| !command.program().contains('/')).collect();
    let ran = run(bash, text, directory);
    for command in &ran {
        let at = expected.iter().position(|predicted| is_predicted(predicted, command));
        let at = at.unwrap_or_else(|| panic!("{text:?} ran {command:?}, predicted was {expected:?}"));
        expected.remove(at);
    }
    // The handler succeeds: only an alternative or a missing file keeps a command from running.
    let has_condition = text.contains("||") || text.contains('<') || text.contains("&&") && text.contains('/');
    assert!(has_condition || expected.is_empty(), "{text:?} ran only {ran:?}, not {expected:?}");
    true
}

#[test]
fn bash_runs_what_was_predicted_for_every_plain_command() {
    let path = env::var_os("PATH").unwrap_or_default();
    let Some(bash) = env::split_paths(&path).map(|directory| directory.join("bash")).find(|bash| bash.is_file()) else {
        println!("skipped: there is no bash");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("work")).expect("a directory");
    let seed = setting("POLYLOGUE_ORACLE_SEED").unwrap_or(26);
    let (mut rng, wanted) = (Rng::with_seed(seed), setting("POLYLOGUE_ORACLE").unwrap_or(300));
    let commands: Vec<String> = corpus().into_iter().map(|(_, command)| command).collect();
    let (mut tried, mut plain) = (0_u64, 0);
    while plain < wanted {
        tried += 1;
        assert!(tried < 100 * wanted, "only {plain} of {tried} changed commands are plain");
        plain += u64::from(check(&bash, &mutated(&commands, &mut rng), directory.path()));
    }
    println!("seed {seed}: {tried} changed commands, {plain} plain and run");
}
