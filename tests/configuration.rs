//! The configuration and its subcommands in the real program: who wins, what is trusted, what the doctor says, and that
//! no key is ever shown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use polylogue::store::Store;
use tempfile::TempDir;

use crate::support::peer::{Peer, Refusing};
use crate::support::pty::Pty;

const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");
/// A key that is found wherever it leaks.
const PLANTED: &str = "sk-planted-0123456789";

/// A home with a repository in it, where the program is started.
struct Home {
    directory: TempDir,
    variables: Vec<(String, String)>,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Self { directory, variables: Vec::new() };
        fs::create_dir_all(home.path("work/.git")).expect("a repository");
        fs::create_dir_all(home.path(".config/polylogue")).expect("a directory");
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn configure(self, text: &str) -> Self {
        self.write(".config/polylogue/config.toml", text);
        self
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn run(&self, words: &[&str]) -> Response {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("work")).env_clear().env("HOME", self.directory.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.variables.iter().cloned());
        Response::of(command.output().expect("it runs"))
    }

    /// The chat in a terminal, in the repository.
    fn chat(&self, words: &str) -> Pty {
        let script = format!("cd '{}' && exec '{PROGRAM}' {words}", self.path("work").display());
        let home = self.directory.path().to_str().expect("UTF-8").to_owned();
        let mut envs = vec![("HOME", home.as_str()), ("LANG", "C.UTF-8")];
        envs.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        Pty::spawn("/bin/sh", &["-c", &script], &envs, (120, 30))
    }
}

/// What the program said and how it ended.
#[derive(Debug)]
struct Response {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Response {
    fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The lines that begin like this.
    fn lines(&self, beginning: &str) -> Vec<&str> {
        self.out.lines().filter(|line| line.starts_with(beginning)).collect()
    }
}

#[test]
fn a_project_is_read_once_it_is_trusted_and_until_then_one_note_names_the_command() {
    let home = Home::new().configure("working_limit = 1");
    home.write("work/.polylogue/config.toml", "working_limit = 2\nthinking = \"low\"");
    let mut pty = home.chat("");
    let flat = |pty: &Pty| pty.screen_text().split_whitespace().collect::<Vec<_>>().join(" ");
    pty.wait_until(|pty| flat(pty).contains("if you trust it, say polylogue config trust"), "the command");
    pty.leave();
    assert!(home.run(&["config", "path"]).out.contains("config.toml (not trusted: polylogue config trust)"));
    assert_eq!(home.run(&["config", "trust"]).code, Some(0));
    let shown = home.run(&["config", "show"]);
    assert!(shown.out.contains("working_limit = 2"), "{shown:?}");
    assert!(home.run(&["config", "path"]).out.contains("work/.polylogue/config.toml (trusted)"));
    home.write("work/.polylogue/config.toml", "working_limit = 3");
    let shown = home.run(&["config", "show"]);
    assert!(shown.out.contains("working_limit = 1") && shown.err.contains("was changed"), "{shown:?}");
    let nothing = home.run(&["config", "trust", "/"]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}

#[test]
fn the_subcommands_leave_free_words_alone() {
    let home = Home::new();
    for (words, sent) in [
        ("explain kill", "explain kill"),
        ("-- doctor", "doctor"),
        ("-- config show", "config show"),
        ("-- kill", "kill"),
    ] {
        let mut pty = home.chat(&format!("--ephemeral {words}"));
        pty.wait_for_text(&format!("> {sent}\n\n  {sent}\n"));
        pty.leave();
    }
    let mixed = home.run(&["explain", "--stay", "doctor"]);
    assert_eq!(mixed.code, Some(2));
    assert!(mixed.err.contains("put -- before it"), "{mixed:?}");
    for options in [["--data-dir", "/tmp/x", "config", "show"], ["config", "show", "--data-dir", "/tmp/x"]] {
        assert!(home.run(&options).out.contains("data_dir = \"/tmp/x\""), "{options:?}");
    }
}

#[test]
fn a_bad_value_keeps_the_chat_from_starting_and_names_its_place() {
    let home = Home::new().configure("\n[limits]\nretries = \"many\"\nstall_timeout = 0\n");
    let told = home.run(&[]);
    assert_eq!(told.code, Some(2), "{told:?}");
    let lines: Vec<&str> = told.err.lines().collect();
    assert!(lines[0].ends_with("config.toml:3: limits.retries: expected a whole number from 0 to 1000000000"));
    assert!(lines[1].contains("config.toml:4: limits.stall_timeout: expected a number of seconds from 1"));
}

#[test]
fn a_trace_that_cannot_be_written_is_told_once() {
    let home = Home::new();
    let mut pty = home.chat("--ephemeral --trace /dev/full");
    pty.wait_for_text("/help tells the rest");
    pty.send("a word\r");
    pty.wait_for_text("the trace ends here: No space left on device");
    pty.wait_until(|pty| pty.screen_text().matches("a word").count() > 1, "the answer");
    assert_eq!(pty.screen_text().matches("the trace ends here").count(), 1);
    pty.leave();
}

#[test]
fn unknown_keys_are_notes_on_the_screen() {
    let home = Home::new().configure("modle = \"echo\"");
    let mut pty = home.chat("");
    pty.wait_for_text("modle is not known and ignored: did you mean model?");
    pty.leave();
}

#[test]
fn new_agents_think_as_much_as_the_configuration_says() {
    let peer = Peer::start();
    let text = format!("thinking = \"high\"\n[providers.local]\nbase_url = \"{}\"\nmodels = [\"m\"]\n", peer.url());
    let home = Home::new().configure(&text);
    let mut pty = home.chat("hello");
    let exchange = peer.accept();
    assert_eq!(exchange.request().json()["reasoning_effort"], "high");
    assert_eq!(exchange.request().header("authorization"), None, "a server without keys gets none");
    exchange.stream().text("well").finish("stop").done();
    pty.wait_for_text("well");
    pty.leave();
}

#[test]
fn a_file_that_may_not_be_read_is_refused_with_the_reason() {
    let home = Home::new().configure("model = \"echo\"");
    let file = home.path(".config/polylogue/config.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).expect("its owner");
    // Permissions do not keep root from reading.
    if fs::File::open(&file).is_err() {
        assert!(home.run(&["config", "show"]).err.contains("may not be read"));
    }
    fs::remove_file(&file).expect("its owner");
    fs::create_dir(&file).expect("a directory");
    let told = home.run(&[]);
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("is a directory, not a file"), "{told:?}");
}

#[test]
fn the_editor_opens_the_file_and_what_is_wrong_afterwards_is_said() {
    let home = Home::new().set("EDITOR", "cp ../new.toml");
    home.write("new.toml", "working_limit = 7\n");
    let told = home.run(&["config", "edit"]);
    assert_eq!((told.code, told.out.contains("is in order")), (Some(0), true), "{told:?}");
    assert!(home.run(&["config", "show"]).out.contains("working_limit = 7"));
    home.write("new.toml", "working_limit = seven\n");
    let told = home.run(&["config", "edit"]);
    assert_eq!((told.code, told.err.contains("config.toml:1:17: this is not TOML")), (Some(1), true), "{told:?}");
    let home = home.set("VISUAL", "false");
    let told = home.run(&["config", "edit"]);
    assert_eq!((told.code, told.err.contains("the editor (false) ended")), (Some(2), true), "{told:?}");
}

/// Runs the doctor while the peer answers its one request like this.
fn examined(home: &Home, peer: &Peer, status: u16, body: &str) -> (Response, Vec<(String, String)>, String) {
    std::thread::scope(|scope| {
        let doctor = scope.spawn(|| home.run(&["doctor"]));
        let exchange = peer.accept();
        exchange.answer(status, "application/json", body);
        let request = exchange.request();
        (doctor.join().expect("no panic"), request.headers.clone(), format!("{} {}", request.method, request.path))
    })
}

#[test]
fn the_doctor_asks_each_provider_for_its_models_with_its_key() {
    let peer = Peer::start();
    let home = Home::new().set("OPENAI_API_KEY", PLANTED).set("OPENAI_BASE_URL", &peer.url());
    let (told, headers, request) = examined(&home, &peer, 200, "{\"data\":[]}");
    assert_eq!(request, "GET /v1/models");
    assert!(headers.contains(&("Authorization".into(), format!("Bearer {PLANTED}"))), "{headers:?}");
    assert_eq!((told.code, told.lines("fail")), (Some(0), vec![]), "{told:?}");
    assert!(told.out.contains("answers and takes the key"), "{told:?}");
    assert!(told.out.contains("key            openai: from OPENAI_API_KEY"), "{told:?}");
    let (told, ..) = examined(&home, &peer, 401, "{\"error\":{}}");
    assert_eq!(told.code, Some(1));
    assert!(told.lines("fail")[0].contains("the key is wrong or expired (HTTP 401): see OPENAI_API_KEY"), "{told:?}");
    let (told, ..) = examined(&home, &peer, 404, "");
    assert_eq!(told.code, Some(0), "a server without a list may do all the same: {told:?}");
}

#[test]
fn the_doctor_says_why_a_provider_cannot_be_reached_and_asks_nobody_offline() {
    let nobody = Refusing::start();
    let text = format!("[providers.local]\nbase_url = \"{}\"\nmodels = [\"m\"]\n", nobody.url());
    let home = Home::new().configure(&text);
    let told = home.run(&["doctor"]);
    assert_eq!(told.code, Some(1));
    assert!(told.lines("fail")[0].contains("refused the connection: is the server running?"), "{told:?}");
    let home = home.set("http_proxy", &nobody.url());
    let told = home.run(&["doctor"]);
    assert!(told.lines("fail")[0].contains("or its proxy refused the connection"), "{told:?}");
    let told = home.run(&["doctor", "--offline"]);
    assert_eq!((told.code, told.lines("fail")), (Some(0), vec![]), "{told:?}");
    let home =
        Home::new().configure("[providers.a]\nbase_url = \"http://x\"\napi_key_env = \"NOT_SET\"\nmodle = 1\n[b\n");
    let told = home.run(&["doctor", "--offline"]);
    assert!(told.lines("fail")[0].contains("config.toml:5:3: this is not TOML"), "{told:?}");
    let home = Home::new().configure("[providers.a]\nbase_url = \"http://x\"\napi_key_env = \"NOT_SET\"\nmodle = 1");
    let told = home.run(&["doctor", "--offline"]);
    assert!(told.lines("fail")[0].contains("NOT_SET is not set"), "{told:?}");
    assert!(told.lines("warn")[0].contains("did you mean models?"), "{told:?}");
}

#[test]
fn the_doctor_looks_at_the_store_without_touching_it() {
    let home = Home::new();
    let place = home.path("data");
    let option = ["doctor", "--offline", "--data-dir", place.to_str().expect("UTF-8")];
    assert!(home.run(&option).out.contains("the first start makes it"));
    assert!(!place.exists());
    let store = Store::open(&place).expect("a store");
    let told = home.run(&option);
    assert!(
        told.lines("warn").iter().any(|line| line.contains(&format!("process {}", std::process::id()))),
        "{told:?}"
    );
    drop(store);
    let told = home.run(&option);
    assert!(told.out.contains(": whole, schema") && told.code == Some(0), "{told:?}");
    fs::write(place.join("polylogue.db"), "no database at all, but long enough to look like something")
        .expect("a file");
    let told = home.run(&option);
    assert_eq!((told.code, told.lines("fail").len()), (Some(1), 1), "{told:?}");
}

/// Every file below a directory that holds the planted key.
fn leaks(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            leaks(&path, found);
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(PLANTED.len()).any(|at| at == PLANTED.as_bytes())) {
            found.push(path);
        }
    }
}

#[test]
fn a_key_is_shown_by_no_output_and_kept_in_no_file() {
    let peer = Peer::start();
    let good = format!(
        "model = \"work/m\"\n[providers.work]\nbase_url = \"{}\"\napi_key_env = \"WORK_KEY\"\n\
         headers = {{ X-Team = \"{PLANTED}\" }}\nmodels = [\"m\"]\n",
        peer.url()
    );
    let bad = format!(
        "model = \"{PLANTED} x\"\ntheme = \"{PLANTED}\"\n[providers.a]\nbase_url = \"{PLANTED}\"\napi_key = \"{PLANTED}\"\n\
         api_key_env = \"{PLANTED}\"\nkind = \"{PLANTED}\"\n[providers.b]\nbase_url = \"http://x:{PLANTED}@\"\n\
         headers = {{ X = \"{PLANTED}\\n\" }}\nmodels = \"{PLANTED}\"\napi_key_command = \"echo {PLANTED}\"\n"
    );
    let broken = format!("api_key = \"{PLANTED}\nx = 1\n");
    for (text, words) in [&bad, &broken, &good].iter().flat_map(|text| {
        let all: [&[&str]; 5] = [&[], &["config", "show"], &["config", "path"], &["doctor", "--offline"], &["--help"]];
        all.map(|words| (*text, words))
    }) {
        let home = Home::new().configure(text);
        let home = ["WORK_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "POLYLOGUE_RETRIES"]
            .iter()
            .fold(home, |home, name| home.set(name, PLANTED));
        let told = home.run(words);
        assert!(!told.out.contains(PLANTED) && !told.err.contains(PLANTED), "{words:?} {told:?}");
    }
    let home = Home::new().set("WORK_KEY", PLANTED).configure("");
    fs::write(home.path("good.toml"), &good).expect("a file");
    let mut pty = home.chat("--config ../good.toml --data-dir ../data --trace ../trace hello");
    let exchange = peer.accept();
    assert_eq!(exchange.request().header("authorization"), Some(&*format!("Bearer {PLANTED}")));
    exchange.error(401, "invalid_api_key", "Incorrect API key provided");
    pty.wait_for_text("401");
    // What could not be sent is in the draft again: Ctrl+D would delete in it.
    pty.send("\x03");
    assert!(pty.wait_exit().success());
    assert!(!String::from_utf8_lossy(pty.raw_output()).contains(PLANTED));
    fs::remove_file(home.path("good.toml")).expect("a file");
    let mut found = Vec::new();
    leaks(home.directory.path(), &mut found);
    assert!(home.path("trace").exists() && home.path("data/polylogue.db").exists());
    assert_eq!(found, Vec::<PathBuf>::new());
}

#[test]
fn the_example_of_the_readme_is_a_configuration() {
    let readme = include_str!("../README.md").split_once("## Configuration").expect("a section").1;
    let example = readme.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).expect("an example").0;
    let told = Home::new().configure(example).set("WORK_API_KEY", "k").run(&["config", "show"]);
    assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "{told:?}");
    assert!(told.out.contains("[providers.work]") && told.out.contains("[environments."), "{told:?}");
}
