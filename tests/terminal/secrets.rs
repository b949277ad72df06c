//! No secret of the configuration is shown, stored, traced, or given to a command, whatever a server repeats.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Chat, Start, is_ready};
use crate::support::openai;
use crate::support::peer::Peer;
use crate::support::scene::reply_with_calls;

const KEY: &str = "planted-key";
const HEADER: &str = "planted header-value";
const PASSWORD: &str = "planted-password";
const FROM_COMMAND: &str = "planted-from-command";
const SECRETS: [&str; 5] = [KEY, HEADER, "header-value", PASSWORD, FROM_COMMAND];

/// What a server says that repeats what it was sent.
fn repeated(key: &str) -> String {
    format!("I got Bearer {key}, X-Planted: {HEADER} and me:{PASSWORD}.")
}

fn configure(directory: &Path, peer: &Peer) -> PathBuf {
    let url = peer.url().replace("http://", &format!("http://me:{PASSWORD}@"));
    let provider = |name: &str, key: &str| {
        format!("[providers.{name}]\nkind = \"openai\"\nbase_url = \"{url}\"\n{key}\nmodels = [\"m\"]\n")
    };
    let headers = format!("headers = {{ \"X-Planted\" = \"{HEADER}\" }}");
    let work = provider("work", &format!("api_key_env = \"WORK_API_KEY\"\n{headers}"));
    let other = provider("other", &format!("api_key_command = \"echo {FROM_COMMAND}\"\n{headers}"));
    let file = directory.join("config.toml");
    std::fs::write(&file, format!("model = \"work/m\"\n{work}{other}")).expect("a file");
    file
}

fn assert_clean(what: &str, bytes: &[u8]) {
    for secret in SECRETS {
        let holds = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!holds, "{what} holds {secret:?}: {}", String::from_utf8_lossy(bytes));
    }
}

/// Every file below the directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(below).filter(|path| path.is_file()).collect()
}

#[test]
fn secrets_that_a_server_repeats_are_nowhere_and_commands_have_none() {
    let (peer, directory, data) = (Peer::start(), tempfile::tempdir().expect("one"), tempfile::tempdir().expect("one"));
    let config = configure(directory.path(), &peer);
    let trace = data.path().join("trace");
    let args = vec!["--config", config.to_str().expect("text"), "--trace", trace.to_str().expect("text")];
    let envs = vec![("WORK_API_KEY", KEY), ("LANG", "C.UTF-8"), ("POLYLOGUE_MODEL", "")];
    let mut pty = Start { args, envs, size: (100, 40) }.on(data.path());
    pty.wait_for(is_ready, "a prompt");
    let mut chat = Chat { pty, directory: data };

    chat.say("first");
    let exchange = peer.accept();
    assert_eq!(exchange.request().header("x-planted"), Some(HEADER));
    exchange.error(400, "some_error", &repeated(KEY));
    chat.sees("I got Bearer [key], X-Planted: [key] and [key].");

    chat.say("second");
    let exchange = peer.accept();
    exchange.stream().text("the beginning").event(&openai::error("server_error", &repeated(KEY))).end();
    chat.sees("the beginning");
    chat.sees("reply incomplete");

    chat.say("third");
    let results = results_of_a_command_that_shows_its_environment(&peer, &mut chat);
    assert_clean("the result of a command", results.as_bytes());

    chat.say("/model other/m");
    chat.say("fourth");
    for _ in 0..2 {
        peer.accept().error(401, "some_error", &repeated(FROM_COMMAND));
    }
    chat.sees("I got Bearer [key], X-Planted: [key] and [key].");

    chat.pty.kill(Signal::ABORT);
    chat.pty.wait_exit();
    assert_clean("the terminal", chat.pty.raw_output());
    let files = files(chat.directory.path());
    assert!(files.contains(&trace) && files.len() >= 3, "{files:?}");
    for file in files {
        assert_clean(&file.display().to_string(), &std::fs::read(&file).expect("it can be read"));
    }
}

/// What the model gets from a command that prints its own environment and its parent's.
fn results_of_a_command_that_shows_its_environment(peer: &Peer, chat: &mut Chat) -> String {
    let exchange = peer.accept();
    let command = "tr '\\0' ' ' < /proc/self/environ; cat /proc/$PPID/environ; cat /proc/$PPID/cmdline; echo over";
    reply_with_calls(&exchange, &[("bash", &json!({ "command": command }).to_string())]);
    chat.sees("y to run it");
    chat.pty.send("y");
    let exchange = peer.accept();
    let results: Value = exchange.request().json();
    assert!(results.to_string().contains("over"), "{results}");
    exchange.stream().text("fine").finish("stop").done();
    chat.sees("fine");
    results.to_string()
}
