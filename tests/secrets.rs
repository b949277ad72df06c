//! No secret of the person's configuration gets into an output, the store, a trace, or a process that was started for a
//! model: in runs of `-p` and in a server, with and without a sandbox, whatever a server or a proxy repeats, also after a
//! crash. `terminal::secrets` has the same for the chat.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::process::{Pid, Signal};
use serde_json::json;

use crate::support::PATIENCE;
use crate::support::peer::{Exchange, Peer, Refusing};
use crate::support::program::{Home, Program, Response};

const KEY: &str = "planted-key-of-work";
const HEADER: &str = "planted header-of-work";
const PASSWORD: &str = "planted-password";
const FROM_COMMAND: &str = "planted-from-command";
const PROXY_PASSWORD: &str = "planted-at-the-proxy";

/// With characters that a URL has to escape.
const ESCAPED_USER: &str = "me%40corp:p%40ss%3A%2Fw";
const UNESCAPED_USER: &str = "me@corp:p@ss:/w";

/// As they are, and as they travel.
fn secrets() -> Vec<String> {
    let users = [format!("me:{PASSWORD}"), format!("me:{PROXY_PASSWORD}"), UNESCAPED_USER.to_owned()];
    let users = users.map(|user| BASE64.encode(user));
    let passwords = [KEY, HEADER, "header-of-work", PASSWORD, FROM_COMMAND, PROXY_PASSWORD, "p@ss:/w", "p%40ss%3A%2Fw"];
    let plain = passwords.map(str::to_owned);
    plain.into_iter().chain(users).collect()
}

/// What a server says that repeats all that it was sent, and more.
fn repeated(exchange: &Exchange) -> String {
    let sent: Vec<&str> = ["authorization", "x-planted", "proxy-authorization", "x-api-key"]
        .iter()
        .filter_map(|name| exchange.request().header(name))
        .collect();
    format!("refused: {}; me:{PASSWORD}", sent.join(", "))
}

/// A home with two providers at the server: `work` with a key in the environment, `other` with one from a command. Both
/// have a secret header and a password in their URL.
fn home(url: &str) -> Home {
    let mut home = Home::new();
    let at = |below: &str| home.directory.path().join(below);
    let (directory, file) = (at(".config/polylogue"), at("key"));
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(&file, FROM_COMMAND).expect("a file");
    let url = url.replace("http://", &format!("http://me:{PASSWORD}@"));
    let provider = |name: &str, key: &str| {
        format!(
            "[providers.{name}]\nkind = \"openai\"\nbase_url = \"{url}\"\n{key}\nmodels = [\"m\"]\n\
             headers = {{ \"X-Planted\" = \"{HEADER}\" }}\n"
        )
    };
    let (work, other) = ("api_key_env = \"WORK_API_KEY\"", format!("api_key_command = \"cat '{}'\"", file.display()));
    let text = format!("model = \"work/m\"\n{}{}", provider("work", work), provider("other", &other));
    let config = directory.join("config.toml");
    std::fs::write(&config, text).expect("a file");
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600)).expect("permissions");
    home.variables = vec![
        ("WORK_API_KEY".into(), KEY.into()),
        ("POLYLOGUE_MODEL".into(), String::new()),
        ("XDG_CONFIG_HOME".into(), home.directory.path().join(".config").display().to_string()),
    ];
    home
}

fn assert_clean(what: &str, bytes: &[u8]) {
    for secret in secrets() {
        assert!(!holds(bytes, &secret), "{what} holds {secret:?}: {}", String::from_utf8_lossy(bytes));
    }
}

fn assert_clean_response(response: &Response) {
    assert_clean("the output", response.out.as_bytes());
    assert_clean("standard error", response.err.as_bytes());
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Every file that the program wrote: database, write-ahead log, saved outputs, traces.
fn assert_files_clean(home: &Home, expected: &[&str]) {
    let written = files(&home.data());
    for name in expected {
        let is_there = |file: &PathBuf| file.to_string_lossy().contains(name);
        assert!(written.iter().any(is_there), "no {name} in {written:?}");
    }
    for file in written {
        // A socket cannot be read.
        if let Ok(bytes) = std::fs::read(&file) {
            assert_clean(&file.display().to_string(), &bytes);
        }
    }
}

/// Everything that a process started, with what it started.
fn descendants(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<Pid> = children
        .flat_map(|text| text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect::<Vec<_>>())
        .collect();
    children.into_iter().flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never came: {what}");
        std::thread::yield_now();
    }
}

/// Looks at all processes of a running tool from the outside. The shell may still be about to start its command, and a
/// process that was forked a moment ago has the variables of its parent until it executes its own program.
fn assert_processes_clean(program: &Program, least: usize) {
    let start = Instant::now();
    loop {
        let found = descendants(program.pid);
        let secret = found.iter().find_map(|pid| secret_of_process(*pid));
        if found.len() >= least && secret.is_none() {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "of at least {least} processes: {found:?}, {secret:?}");
        std::thread::yield_now();
    }
}

/// The first secret in the arguments or variables of a process, with its file. An ordinary user may not read the
/// variables of helpers.
fn secret_of_process(pid: Pid) -> Option<String> {
    ["cmdline", "environ"].into_iter().find_map(|name| {
        let file = format!("/proc/{}/{name}", pid.as_raw_nonzero());
        let bytes = std::fs::read(&file).unwrap_or_default();
        let secret = secrets().into_iter().find(|secret| holds(&bytes, secret))?;
        Some(format!("{file} holds {secret:?}: {}", String::from_utf8_lossy(&bytes)))
    })
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|part| part == secret.as_bytes())
}

/// Prints all that it knows, more than is passed on, and waits.
const COMMAND: &str = "env; tr '\\0' ' ' < /proc/self/environ; cat /proc/self/cmdline; seq 200000; \
                       touch ready; cat go; echo over";

#[test]
fn a_tool_gets_no_secret_with_and_without_a_sandbox() {
    for sandbox in [None, Some("--dangerously-no-sandbox")] {
        let peer = Peer::start();
        let home = home(&peer.url());
        let [go, ready] = ["go", "ready"].map(|name| home.directory.path().join(name));
        assert!(std::process::Command::new("mkfifo").arg(&go).status().expect("mkfifo").success());
        let trace = home.data().join("trace").display().to_string();
        std::fs::create_dir(home.data()).expect("a directory");
        std::fs::set_permissions(home.data(), std::fs::Permissions::from_mode(0o700)).expect("permissions");
        let mut args = vec!["-p", "go", "--approval", "yolo", "--trace", &trace, "--output-format", "stream-json"];
        args.extend(sandbox);
        let program = home.start(&args);
        let exchange = peer.accept();
        assert_eq!(exchange.request().header("x-planted"), Some(HEADER));
        let arguments = json!({ "command": COMMAND }).to_string();
        exchange.stream().tool_call(0, "call", "bash", &arguments).finish("tool_calls").done();
        wait_for("the command", || ready.exists());
        // The supervisor, the shell and cat; in the sandbox an init process too.
        assert_processes_clean(&program, 3);
        crate::support::write_to_pipe(&go, "\n");
        let exchange = peer.accept();
        let body = &exchange.request().body;
        assert!(String::from_utf8_lossy(body).contains("over"));
        assert_clean("the result of a command", body);
        exchange.error(400, "some_error", &repeated(&exchange));
        let response = program.ends();
        assert!(response.code != 0 && response.out.contains("[key]"), "{response:?}");
        assert_clean_response(&response);
        assert_files_clean(&home, &["polylogue.db", "trace", "outputs/bash-"]);
    }
}

#[test]
fn what_a_server_or_a_redirect_repeats_is_removed() {
    let peer = Peer::start();
    let home = home(&peer.url());
    for model in ["work/m", "other/m"] {
        let program = home.start(&["-p", "hello", "--model", model]);
        let exchange = peer.accept();
        exchange.error(400, "some_error", &repeated(&exchange));
        let response = program.ends();
        assert!(response.code != 0 && response.err.contains("[key], [key]; [key]"), "{response:?}");
        assert_clean_response(&response);
        let program = home.start(&["-p", "hello", "--model", model]);
        let exchange = peer.accept();
        let location = format!("http://me:{PASSWORD}@other.invalid/?key={KEY}&also={FROM_COMMAND}");
        exchange.head(302, &[("Location", &location), ("Content-Length", "0")]).end();
        let response = program.ends();
        assert!(response.code != 0 && response.err.contains("redirect"), "{response:?}");
        assert_clean_response(&response);
    }
    // A key that is refused is fetched anew once.
    let program = home.start(&["-p", "hello", "--model", "other/m"]);
    for _ in 0..2 {
        let exchange = peer.accept();
        assert!(exchange.request().header("authorization").is_some());
        exchange.error(401, "some_error", &repeated(&exchange));
    }
    assert_clean_response(&program.ends());
    assert_files_clean(&home, &["polylogue.db"]);
}

#[test]
fn the_password_of_a_proxy_is_not_shown() {
    let peer = Peer::start();
    let mut home = home("http://api.invalid/v1");
    let refusing = Refusing::start();
    let with_password = |url: &str| url.replace("http://", &format!("http://me:{PROXY_PASSWORD}@"));
    home.variables.push(("http_proxy".into(), with_password(&peer.url().replace("/v1", ""))));
    let program = home.start(&["-p", "hello"]);
    let exchange = peer.accept();
    assert!(exchange.request().header("proxy-authorization").is_some_and(|value| value.starts_with("Basic ")));
    exchange.error(407, "some_error", &repeated(&exchange));
    let response = program.ends();
    assert!(response.code != 0 && response.err.contains("refused: "), "{response:?}");
    assert_clean_response(&response);
    home.variables.retain(|(name, _)| name != "http_proxy");
    home.variables.push(("http_proxy".into(), with_password(&refusing.url())));
    home.variables.push(("POLYLOGUE_RETRIES".into(), "0".into()));
    let response = home.run(&["-p", "hello"]);
    assert!(response.code != 0 && response.err.contains("proxy"), "{response:?}");
    assert_clean_response(&response);
    assert_files_clean(&home, &["polylogue.db"]);
}

#[test]
fn a_user_of_a_proxy_with_percent_escapes_works_and_is_not_shown() {
    let peer = Peer::start();
    let home_with = |host: &str, proxy: &str| {
        let mut home = home(&format!("http://{host}/v1"));
        home.variables.push(("http_proxy".into(), proxy.replace("http://", &format!("http://{ESCAPED_USER}@"))));
        home.variables.push(("POLYLOGUE_RETRIES".into(), "0".into()));
        home
    };
    let home = home_with("api.invalid", &peer.url().replace("/v1", ""));
    let sent = format!("Basic {}", BASE64.encode(UNESCAPED_USER));
    for is_refused in [false, true] {
        let program = home.start(&["-p", "hello"]);
        let exchange = peer.accept();
        assert_eq!(exchange.request().header("proxy-authorization"), Some(&*sent));
        if is_refused {
            exchange.error(407, "some_error", &format!("{}; {ESCAPED_USER}; {UNESCAPED_USER}", repeated(&exchange)));
        } else {
            exchange.stream().text("answered").finish("stop").done();
        }
        let response = program.ends();
        assert_eq!((response.code == 0, response.out.contains("answered")), (!is_refused, !is_refused), "{response:?}");
        assert_clean_response(&response);
    }
    let refusing = Refusing::start();
    let response = home_with("api.invalid", &refusing.url()).run(&["-p", "hello"]);
    assert!(response.code != 0 && response.err.contains("proxy"), "{response:?}");
    assert_clean_response(&response);
    assert_files_clean(&home, &["polylogue.db"]);
}

#[test]
fn a_server_that_crashes_leaves_no_secret() {
    let peer = Peer::start();
    let home = home(&peer.url());
    let server = home.start(&["serve"]);
    let line = server.err.recv_timeout(PATIENCE).expect("a line");
    assert!(String::from_utf8_lossy(&line).contains("serves"), "{}", String::from_utf8_lossy(&line));
    let sent = home.run(&["tell", "0", "hello"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let exchange = peer.accept();
    exchange.error(400, "some_error", &repeated(&exchange));
    for args in [&["wait", "0"][..], &["logs", "0"], &["status", "--json"], &["ps", "--json"]] {
        assert_clean_response(&home.run(args));
    }
    let logs = home.run(&["logs", "0"]);
    assert!(logs.out.contains("[key], [key]; [key]"), "{logs:?}");
    home.run(&["tell", "0", "again"]);
    let exchange = peer.accept();
    exchange.stream().text("the beginning");
    wait_for("the beginning", || home.run(&["logs", "0"]).out.contains("the beginning"));
    server.signal(Signal::ABORT);
    assert_clean_response(&server.ends());
    assert_files_clean(&home, &["polylogue.db-wal"]);
    let is_core = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core"));
    assert!(!files(home.directory.path()).iter().any(is_core), "no memory is dumped");
}
