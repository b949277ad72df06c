//! The configuration and its subcommands in the real program: precedence, trust, `doctor`, and that no key is ever shown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use polylogue::Store;
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

    fn run(&self, arguments: &[&str]) -> Response {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .env("POLYLOGUE_LOOK_UP_MODELS", "false")
            .env("HOME", self.directory.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.variables.iter().cloned());
        Response::of(crate::support::output(&mut command))
    }

    /// The chat in a terminal, in the repository.
    fn chat(&self, arguments: &str) -> Pty {
        let script = format!("cd '{}' && exec '{PROGRAM}' {arguments}", self.path("work").display());
        let home = self.directory.path().to_str().expect("UTF-8").to_owned();
        let mut envs = vec![("HOME", home.as_str()), ("LANG", "C.UTF-8"), ("POLYLOGUE_MODEL", "")];
        envs.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        Pty::spawn("/bin/sh", &["-c", &script], &envs, (120, 30))
    }
}

/// Output and exit code of the program.
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
fn a_project_is_read_once_it_is_trusted_and_a_note_names_the_command() {
    let home = Home::new().set("POLYLOGUE_MODEL", "echo").configure("working_limit = 4");
    home.write("work/.polylogue/config.toml", "working_limit = 2\nthinking = \"low\"");
    let mut pty = home.chat("");
    pty.wait_for_text("new in this project: .polylogue");
    pty.send("\r");
    pty.wait_for_text("? keys");
    pty.leave();
    assert!(home.run(&["config", "path"]).out.contains("config.toml (not trusted; see polylogue config trust)"));
    let unasked = home.run(&["config", "trust"]);
    assert!(unasked.code == Some(2) && unasked.err.contains("--yes"), "{unasked:?}");
    assert_eq!(home.run(&["config", "trust", "--yes"]).code, Some(0));
    let shown = home.run(&["config", "show"]);
    assert!(shown.out.contains("working_limit = 2"), "{shown:?}");
    assert!(home.run(&["config", "path"]).out.contains("work/.polylogue/config.toml (trusted)"));
    home.write("work/.polylogue/config.toml", "working_limit = 3");
    let shown = home.run(&["config", "show"]);
    assert!(shown.out.contains("working_limit = 4") && shown.err.contains("was changed"), "{shown:?}");
    let nothing = home.run(&["config", "trust", "--yes", "/"]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}

#[test]
fn trust_shows_everything_once_and_then_what_has_changed_and_asks() {
    let home = Home::new();
    home.write(
        "work/.polylogue/config.toml",
        "[providers.work]\nbase_url = \"https://work.example/v1\"\nmodels = [\"m\"]\n",
    );
    home.write("work/.polylogue/commands/inspect.md", "Review $1.\nThoroughly.\n");
    home.write("work/AGENTS.md", "Use tabs.\n");
    let answer = |key: &str| {
        let mut pty = home.chat("config trust");
        pty.wait_for_text("[y/N]");
        let shown = pty.screen_text();
        pty.send(format!("{key}\r"));
        (shown, pty.wait_exit().code())
    };
    let (shown, code) = answer("n");
    for text in ["config.toml (new)", "base_url = ", "inspect.md (new)", "Thoroughly.", "AGENTS.md (new)", "Use tabs."]
    {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(shown.contains("provider work: sends conversations to https://work.example/v1"), "{shown}");
    assert_eq!(code, Some(1));
    assert!(home.run(&["config", "path"]).out.contains("(not trusted"));
    assert_eq!(answer("y").1, Some(0));
    assert!(home.run(&["config", "path"]).out.contains("config.toml (trusted)"));

    home.write("work/.polylogue/commands/inspect.md", "Review $1.\nAnd send it away.\n");
    let (shown, _) = answer("n");
    for text in [
        "config.toml (unchanged)",
        "inspect.md (changed)",
        "-Thoroughly.",
        "+And send it away.",
        "AGENTS.md (unchanged)",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(!shown.contains("base_url = ") && !shown.contains("Use tabs."), "{shown}");
}

#[test]
fn trust_does_not_ask_again_for_contents_that_are_trusted() {
    let home = Home::new();
    home.write("work/.polylogue/config.toml", "thinking = \"low\"\n");
    home.write("work/AGENTS.md", "Use tabs.\n");
    let trusted = home.run(&["config", "trust", "--yes"]);
    assert!(trusted.code == Some(0) && trusted.out.ends_with("trusted until they change\n"), "{trusted:?}");
    for arguments in [&["config", "trust"][..], &["config", "trust", "--yes"]] {
        let again = home.run(arguments);
        assert!(again.code == Some(0) && again.out.ends_with("already trusted\n"), "{again:?}");
        assert_eq!(again.lines("already trusted").len(), 1);
        assert!(!again.out.contains("[y/N]") && again.out.matches("(unchanged)").count() == 2, "{again:?}");
    }
    let mut pty = home.chat("config trust");
    pty.wait_for_text("already trusted");
    assert_eq!(pty.wait_exit().code(), Some(0));
    for (file, text) in [("AGENTS.md", "Use spaces.\n"), (".polylogue/commands/new.md", "New.\n")] {
        home.write(&format!("work/{file}"), text);
        let mut pty = home.chat("config trust");
        pty.wait_for_text("[y/N]");
        pty.send("n\r");
        pty.wait_for_text("not trusted: new and changed files stay ignored");
        assert_eq!(pty.wait_exit().code(), Some(1), "{file}");
        assert_eq!(home.run(&["config", "trust", "--yes"]).code, Some(0));
    }
}

#[test]
fn instructions_of_a_project_are_ignored_until_they_are_trusted() {
    let home = Home::new().set("POLYLOGUE_MODEL", "echo");
    home.write("work/AGENTS.md", "Use tabs.");
    let env = |home: &Home, answers: &[(&str, &str)]| {
        let mut pty = home.chat("");
        for (asked, answer) in answers {
            pty.wait_for_text(asked);
            pty.send(format!("{answer}\r"));
        }
        pty.wait_for_text("? keys");
        pty.send("/env\r");
        pty.wait_for_text("AGENTS.md:");
        let shown = pty.screen_text().split_whitespace().collect::<Vec<_>>().join(" ");
        pty.leave();
        shown
    };
    let shown = env(&home, &[("new in this project: AGENTS.md", "s"), ("Use tabs.", "n")]);
    assert!(shown.contains("AGENTS.md: ignored: new or changed"), "{shown}");
    // It is asked once.
    let shown = env(&home, &[]);
    assert!(shown.contains("AGENTS.md: ignored: new or changed"), "{shown}");
    assert!(!shown.contains("AGENTS.md is ignored because it is new or was changed"), "{shown}");
    home.write("work/AGENTS.md", "Use blanks.");
    let shown = env(&home, &[("new in this project: AGENTS.md", "t")]);
    assert!(shown.contains("AGENTS.md: 11 bytes") && !shown.contains("ignored"), "{shown}");
    let shown = env(&home, &[]);
    assert!(shown.contains("AGENTS.md: 11 bytes"), "{shown}");
}

#[test]
fn a_prompt_may_contain_names_of_subcommands() {
    let home = Home::new().set("POLYLOGUE_MODEL", "echo");
    for (arguments, sent) in [
        ("explain kill", "explain kill"),
        ("-- doctor", "doctor"),
        ("-- config show", "config show"),
        ("-- kill", "kill"),
    ] {
        let mut pty = home.chat(&format!("--ephemeral {arguments}"));
        pty.wait_for_answer(sent, sent);
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
fn a_bad_value_keeps_the_chat_from_starting_and_names_file_and_line() {
    let home = Home::new().configure("\n[limits]\nretries = \"many\"\nstall_timeout = 0\n");
    let output = home.run(&[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let lines: Vec<&str> = output.err.lines().collect();
    assert!(lines[0].ends_with("config.toml:3: limits.retries: expected a whole number from 0 to 1000000000"));
    assert!(lines[1].contains("config.toml:4: limits.stall_timeout: expected a number of seconds from 1"));
}

#[test]
fn a_trace_that_cannot_be_written_is_reported_once() {
    let home = Home::new().set("POLYLOGUE_MODEL", "echo");
    let mut pty = home.chat("--ephemeral --trace /dev/full");
    pty.wait_for_text("many agents in one terminal");
    pty.send("a word\r");
    pty.wait_for_text("cannot write the trace: No space left on device");
    pty.wait_until(|pty| pty.screen_text().matches("a word").count() > 1, "the answer");
    assert_eq!(pty.screen_text().matches("cannot write the trace").count(), 1);
    pty.leave();
}

#[test]
fn unknown_keys_are_notes_on_the_screen() {
    let home = Home::new().configure("model = \"echo\"\nmodle = \"echo\"");
    let mut pty = home.chat("");
    pty.wait_for_text("unknown key modle: ignored; did you mean model?");
    pty.leave();
}

#[test]
fn new_agents_use_the_configured_thinking_level() {
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
        assert!(home.run(&["config", "show"]).err.contains("permission denied"));
    }
    fs::remove_file(&file).expect("its owner");
    fs::create_dir(&file).expect("a directory");
    let output = home.run(&[]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("is a directory, not a file"), "{output:?}");
}

#[test]
fn config_edit_opens_examples_where_there_is_no_file_yet() {
    let home = Home::new().set("EDITOR", "cat");
    let output = home.run(&["config", "edit"]);
    assert!(output.out.contains("#model = ") && output.out.contains("is valid"), "{output:?}");
    let home = home.set("EDITOR", "sed -i '/^# /!s/^#//'");
    let output = home.run(&["config", "edit"]);
    assert_eq!((output.code, output.out.contains("is valid")), (Some(0), true), "each example is valid: {output:?}");
    assert!(home.run(&["config", "show"]).out.contains("https://llm.example.com/v1"));
}

#[test]
fn config_edit_opens_the_file_and_reports_its_errors() {
    let home = Home::new().set("EDITOR", "cp ../new.toml");
    home.write("new.toml", "working_limit = 7\n");
    let output = home.run(&["config", "edit"]);
    assert_eq!((output.code, output.out.contains("is valid")), (Some(0), true), "{output:?}");
    assert!(home.run(&["config", "show"]).out.contains("working_limit = 7"));
    home.write("new.toml", "working_limit = seven\n");
    let output = home.run(&["config", "edit"]);
    assert_eq!((output.code, output.err.contains("config.toml:1:17: invalid TOML")), (Some(1), true), "{output:?}");
    let home = home.set("VISUAL", "false");
    let output = home.run(&["config", "edit"]);
    assert_eq!((output.code, output.err.contains("the editor \"false\" failed")), (Some(2), true), "{output:?}");
}

/// Runs `doctor` while the peer answers its request. Returns the output, the headers and the request line.
fn doctor_with_response(
    home: &Home,
    peer: &Peer,
    status: u16,
    body: &str,
) -> (Response, Vec<(String, String)>, String) {
    std::thread::scope(|scope| {
        let doctor = scope.spawn(|| home.run(&["doctor"]));
        let exchange = peer.accept();
        exchange.answer(status, "application/json", body);
        let request = exchange.request();
        (doctor.join().expect("no panic"), request.headers.clone(), format!("{} {}", request.method, request.path))
    })
}

#[test]
fn doctor_requests_the_models_of_each_provider_with_its_key() {
    let peer = Peer::start();
    let home = Home::new().set("OPENAI_API_KEY", PLANTED).set("OPENAI_BASE_URL", &peer.url());
    let (output, headers, request) = doctor_with_response(&home, &peer, 200, "{\"data\":[]}");
    assert_eq!(request, "GET /v1/models");
    assert!(headers.contains(&("Authorization".into(), format!("Bearer {PLANTED}"))), "{headers:?}");
    assert_eq!((output.code, output.lines("fail")), (Some(0), vec![]), "{output:?}");
    assert!(output.out.contains("accepts the key"), "{output:?}");
    assert!(output.out.contains("key            openai: from OPENAI_API_KEY"), "{output:?}");
    let named = home.set("POLYLOGUE_MODEL", "openai/gone");
    let list = "{\"data\":[{\"id\":\"there\"}]}";
    let (output, ..) = doctor_with_response(&named, &peer, 200, list);
    assert!(
        output.lines("warn").iter().any(|line| line.contains("openai/gone: the server does not list it")),
        "{output:?}"
    );
    let home = named.set("POLYLOGUE_MODEL", "openai/there");
    let (output, ..) = doctor_with_response(&home, &peer, 200, list);
    assert!(!output.out.contains("does not list"), "{output:?}");
    assert!(output.out.contains("model          openai/there: context unknown"), "{output:?}");
    let (output, ..) = doctor_with_response(&home, &peer, 401, "{\"error\":{}}");
    assert_eq!(output.code, Some(1));
    assert!(output.lines("fail")[0].contains("rejects the key (HTTP 401): check OPENAI_API_KEY"), "{output:?}");
    let (output, ..) = doctor_with_response(&home, &peer, 404, "");
    assert_eq!(output.code, Some(0), "a server without a list may do all the same: {output:?}");
}

#[test]
fn doctor_names_the_model_that_a_server_without_a_key_would_be_asked_for_and_its_context() {
    let peer = Peer::start();
    let home = Home::new().set("OPENAI_BASE_URL", &peer.url());
    let list = r#"{"data":[{"id":"tiny.gguf","owned_by":"llamacpp","meta":{"n_ctx":2048}}]}"#;
    let (output, ..) = doctor_with_response(&home, &peer, 200, list);
    let expected = "ok    model          openai/tiny.gguf, the only model of the server: context of 2048 tokens";
    assert!(output.out.contains(expected), "{output:?}");
    assert!(!output.out.contains("does not list"), "{output:?}");
}

#[test]
fn doctor_asks_where_the_chat_would() {
    let peer = Peer::start();
    let base = peer.url().trim_end_matches("/v1").to_owned();
    let azure = format!("{base}/openai/deployments/mine?api-version=2024-10-21");
    for (kind, url, path) in [
        ("anthropic", base.as_str(), "/v1/models?limit=1000"),
        ("openai", &azure, "/openai/models?api-version=2024-10-21"),
    ] {
        let text = format!("[providers.mine]\nkind = \"{kind}\"\nbase_url = \"{url}\"\nmodels = [\"m\"]\n");
        let (_, _, request) = doctor_with_response(&Home::new().configure(&text), &peer, 200, "{\"data\":[]}");
        assert_eq!(request, format!("GET {path}"));
    }
}

#[test]
fn doctor_explains_failed_connections_and_makes_none_offline() {
    let refusing = Refusing::start();
    let text = format!("[providers.local]\nbase_url = \"{}\"\nmodels = [\"m\"]\n", refusing.url());
    let home = Home::new().configure(&text);
    let output = home.run(&["doctor"]);
    assert_eq!(output.code, Some(1));
    assert!(output.lines("fail")[0].contains("refused the connection: is the server running?"), "{output:?}");
    let home = home.set("http_proxy", &refusing.url());
    let output = home.run(&["doctor"]);
    assert!(output.lines("fail")[0].contains("or its proxy refused the connection"), "{output:?}");
    let output = home.run(&["doctor", "--offline"]);
    assert_eq!((output.code, output.lines("fail")), (Some(0), vec![]), "{output:?}");
    let home =
        Home::new().configure("[providers.a]\nbase_url = \"http://x\"\napi_key_env = \"NOT_SET\"\nmodle = 1\n[b\n");
    let output = home.run(&["doctor", "--offline"]);
    assert!(output.lines("fail")[0].contains("config.toml:5:3: invalid TOML"), "{output:?}");
    let home = Home::new().configure("[providers.a]\nbase_url = \"http://x\"\napi_key_env = \"NOT_SET\"\nmodle = 1");
    let output = home.run(&["doctor", "--offline"]);
    assert!(output.lines("fail")[0].contains("NOT_SET is not set"), "{output:?}");
    assert!(output.lines("warn")[0].contains("did you mean models?"), "{output:?}");
}

#[test]
fn doctor_checks_the_store_without_changing_it() {
    let home = Home::new();
    let data = home.path("data");
    let option = ["doctor", "--offline", "--data-dir", data.to_str().expect("UTF-8")];
    assert!(home.run(&option).out.contains("the first start creates it"));
    assert!(!data.exists());
    let store = Store::open(&data).expect("a store");
    let output = home.run(&option);
    assert!(
        output.lines("warn").iter().any(|line| line.contains(&format!("process {}", std::process::id()))),
        "{output:?}"
    );
    drop(store);
    let output = home.run(&option);
    assert!(output.out.contains(": no damage, schema") && output.code == Some(0), "{output:?}");
    fs::write(data.join("polylogue.db"), "no database at all, but long enough to look like something").expect("a file");
    let output = home.run(&option);
    assert_eq!((output.code, output.lines("fail").len()), (Some(1), 1), "{output:?}");
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
    for (text, arguments) in [&bad, &broken, &good].iter().flat_map(|text| {
        let all: [&[&str]; 5] = [&[], &["config", "show"], &["config", "path"], &["doctor", "--offline"], &["--help"]];
        all.map(|arguments| (*text, arguments))
    }) {
        let home = Home::new().configure(text);
        let home = ["WORK_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "POLYLOGUE_RETRIES"]
            .iter()
            .fold(home, |home, name| home.set(name, PLANTED));
        let output = home.run(arguments);
        assert!(!output.out.contains(PLANTED) && !output.err.contains(PLANTED), "{arguments:?} {output:?}");
    }
    let home = Home::new().set("WORK_KEY", PLANTED).configure("");
    fs::write(home.path("good.toml"), &good).expect("a file");
    let mut pty = home.chat("--config ../good.toml --data-dir ../data --trace ../trace hello");
    let exchange = peer.accept();
    assert_eq!(exchange.request().header("authorization"), Some(&*format!("Bearer {PLANTED}")));
    exchange.error(401, "invalid_api_key", "Incorrect API key provided");
    pty.wait_for_text("401");
    // What could not be sent is in the draft again: the first Ctrl+C clears it.
    pty.send("\x03\x03");
    assert!(pty.wait_exit().success());
    assert!(!String::from_utf8_lossy(pty.raw_output()).contains(PLANTED));
    fs::remove_file(home.path("good.toml")).expect("a file");
    let mut found = Vec::new();
    leaks(home.directory.path(), &mut found);
    assert!(home.path("trace").exists() && home.path("data/polylogue.db").exists());
    assert_eq!(found, Vec::<PathBuf>::new());
}

#[test]
fn the_example_in_the_help_is_a_valid_configuration() {
    let help = Home::new().run(&["help", "settings"]).out;
    let verbatim = help.lines().skip_while(|line| !line.starts_with("    "));
    let verbatim = verbatim.take_while(|line| line.is_empty() || line.starts_with("    "));
    let example = verbatim.map(|line| format!("{}\n", line.trim_start())).collect::<String>();
    let output = Home::new().configure(&example).set("WORK_API_KEY", "k").run(&["config", "show"]);
    let is_whole = output.err.is_empty() || cfg!(not(feature = "mcp")) && output.err.contains("--features mcp");
    assert!(output.code == Some(0) && is_whole, "{output:?}");
    assert!(output.out.contains("[providers.work]") && output.out.contains("[environments."), "{output:?}");
}

#[test]
fn skills_and_hooks_of_a_project_are_used_once_they_are_trusted() {
    let home = Home::new().configure("[[hooks.pre_tool]]\nmatcher = \"bash\"\ncommand = \"exit 0\"\ntimeout = 5");
    home.write("work/.claude/skills/notes/SKILL.md", "---\nname: notes\ndescription: Writes notes.\n---\nDo it.");
    home.write(
        "work/.claude/settings.json",
        r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check"}]}]}}"#,
    );
    home.write(".agents/skills/mine/SKILL.md", "---\nname: mine\ndescription: My own.\n---\nDo it.");
    let before = home.run(&["config", "show"]);
    assert!(before.err.contains("SKILL.md is ignored because it is new or was changed"), "{before:?}");
    assert_eq!(before.lines("# hook pre_tool bash").len(), 1, "{before:?}");
    assert_eq!((before.lines("# skill mine").len(), before.lines("# skill notes").len()), (1, 0), "{before:?}");
    assert!(before.lines("# hook pre_tool Bash").is_empty(), "{before:?}");
    let shown = home.run(&["config", "trust", "--yes"]);
    assert!(shown.out.contains("./check") && shown.out.contains("Do it."), "{shown:?}");
    let after = home.run(&["config", "show"]);
    assert_eq!((after.lines("# skill notes").len(), after.lines("# hook pre_tool Bash").len()), (1, 1), "{after:?}");
    assert!(after.err.is_empty(), "{after:?}");
    let doctor = home.run(&["doctor", "--offline"]);
    assert!(doctor.out.contains("ok    skills         2 skills can be used"), "{doctor:?}");
    home.write(
        "work/.claude/settings.json",
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}"#,
    );
    assert!(home.run(&["config", "show"]).lines("# hook stop").is_empty());
}

#[test]
fn mistakes_in_hooks_are_named() {
    for (text, expected) in [
        ("[[hooks.pre_tol]]\ncommand = \"x\"", "did you mean pre_tool?"),
        ("[[hooks.stop]]\nmatcher = \"(\"\ncommand = \"x\"", "expected a regular expression"),
        ("[[hooks.stop]]\ntimeout = 1", "expected command"),
        ("[[hooks.stop]]\ncommand = \"x\"\ntimeout = 0", "from 1 to 3600"),
        ("[hooks.stop]\ncommand = \"x\"", "write [[hooks.EVENT]]"),
    ] {
        let shown = Home::new().configure(text).run(&["config", "show"]);
        assert!(shown.err.contains(expected), "{text}: {shown:?}");
    }
}

#[test]
fn commands_that_a_trusted_project_sets_hold_for_agents_that_work_there() {
    let home = Home::new().configure("[done]\ncommand = [\"make\", \"mine\"]").set("POLYLOGUE_MODEL", "echo");
    let text = "[done]\ncommand = [\"make\", \"test\"]\n[worktree]\nsetup = [\"npm\", \"ci\"]\ncopy = [\".env\"]\n";
    home.write("work/.polylogue/config.toml", text);
    fs::create_dir_all(home.path("elsewhere")).expect("a directory");
    let shown = |home: &Home| home.run(&["config", "show"]).out;
    assert!(shown(&home).contains(r#"["make", "mine"]"#), "it is not trusted");
    home.run(&["config", "trust", "--yes"]);
    let refused = home.run(&["config", "show"]);
    assert!(refused.err.contains("worktree.copy: a project cannot set this"), "{refused:?}");
    home.write("work/.polylogue/config.toml", &text.replace("copy = [\".env\"]\n", ""));
    home.run(&["config", "trust", "--yes"]);
    let trusted = shown(&home);
    assert!(trusted.contains(r#"["make", "test"]"#) && trusted.contains(r#"["npm", "ci"]"#), "{trusted}");
    let mut pty = home.chat("");
    pty.wait_for_text("? keys");
    pty.send("/done\r");
    pty.wait_for_text("make test checks them");
    pty.send(format!("/env coding@{}\r", home.path("elsewhere").display()));
    pty.wait_for_text("agent 1");
    pty.send("/done\r");
    pty.wait_for_text("make mine checks them");
}
