//! The whole configuration with real directories and separate variables.

mod claude;
mod parameters;
mod precedence;
mod presets;
mod projects;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::settings::{Files, Kind, SETTINGS, Setting};
use super::*;
use crate::base::error::ErrorKind;
use crate::base::project::ProjectDirectories;
use crate::domain::endpoint::{Endpoint, Prices, ProviderEntry, Secret};
use crate::domain::reasoning::SendReasoning;

/// A home directory with a repository, variables and arguments.
struct Scene {
    home: TempDir,
    variables: HashMap<String, OsString>,
    arguments: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".config/polylogue/commands")).unwrap();
        fs::create_dir_all(home.path().join("work/.git")).unwrap();
        fs::create_dir_all(home.path().join("work/deep/down")).unwrap();
        let variables = HashMap::from([("HOME".to_owned(), home.path().into())]);
        Self { home, variables, arguments: vec!["polylogue".into()] }
    }

    fn user(self, text: impl AsRef<[u8]>) -> Self {
        fs::write(self.user_file(), text).unwrap();
        self
    }

    fn user_file(&self) -> PathBuf {
        self.config_directory().join("config.toml")
    }

    fn config_directory(&self) -> PathBuf {
        self.home.path().join(".config/polylogue")
    }

    fn project_file(&self) -> PathBuf {
        self.home.path().join("work/.polylogue/config.toml")
    }

    fn untrusted(self, text: &str) -> Self {
        fs::create_dir_all(self.home.path().join("work/.polylogue/commands")).unwrap();
        fs::write(self.project_file(), text).unwrap();
        self
    }

    fn project(self, text: &str) -> Self {
        let scene = self.untrusted(text);
        scene.trust();
        scene
    }

    fn trust(&self) {
        Contents::of(&ProjectDirectories::of(&self.env().directory), &self.env().skill_directories())
            .trust(&self.config_directory())
            .unwrap();
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    fn env(&self) -> ProcessEnvironment {
        let variables = self.variables.clone();
        let directory = self.home.path().join("work/deep/down");
        ProcessEnvironment { variable: Box::new(move |name| variables.get(name).cloned()), directory }
    }

    fn load(&self) -> Loaded {
        load(&Arguments::read(&self.arguments).unwrap(), &self.env())
    }

    fn config(&self) -> Config {
        self.load().into_config().unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(&self) -> Error {
        self.load().into_config().expect_err("it is invalid")
    }
}

fn configured(config: &Config) -> Vec<&ProviderEntry> {
    config.catalog.configured().collect()
}

#[test]
fn without_configuration_no_model_answers_and_a_hint_explains_the_setup() {
    let config = Scene::new().config();
    assert_eq!(config.endpoint, Endpoint::none());
    assert_eq!(Scene::new().arguments(&["-m", "echo"]).config().endpoint, Endpoint::echo());
    assert!(config.hint.unwrap().contains("OPENAI_API_KEY"));
    assert!(config.notes.is_empty(), "{:?}", config.notes);
}

#[test]
fn exactly_the_services_whose_variables_are_set_are_available() {
    for spec in provider::PROVIDERS {
        let Some(service) = spec.service else { continue };
        for variable in service.key_variables {
            let config = Scene::new().set(variable, "k").config();
            let names = config.catalog.configured().map(|entry| entry.name.as_str()).collect::<Vec<_>>();
            let sharing = provider::PROVIDERS.iter().filter_map(|spec| spec.service);
            let sharing: Vec<_> = sharing.filter(|other| other.key_variables.contains(variable)).collect();
            assert_eq!(names, sharing.iter().map(|other| other.name).collect::<Vec<_>>());
            let entry = config.catalog.0.iter().find(|entry| entry.name == service.name).unwrap();
            assert_eq!((entry.kind.as_str(), entry.base_url.as_str()), (spec.kind, service.base_url));
            assert_eq!(entry.key, Some(Secret::new("k")));
            let first = format!("{}/{}", sharing[0].name, sharing[0].model);
            assert_eq!(config.endpoint.full_name(), first);
        }
        let scene = Scene::new().set(service.url_variable, "http://localhost:1/v1/");
        let config = scene.arguments(&["-m", &format!("{}/a/b", service.name)]).config();
        assert_eq!((config.endpoint.model.as_str(), config.endpoint.key), ("a/b", None));
        assert_eq!(config.endpoint.base_url, "http://localhost:1/v1");
    }
}

#[test]
fn a_key_shared_with_a_redirected_provider_is_not_used_and_the_error_says_why() {
    let moved = "[providers.openai]\nbase_url = \"http://localhost:1/v1\"\n";
    let scene =
        |file: &str| Scene::new().user(file).set("OPENAI_API_KEY", "k").arguments(&["-m", "openai-responses/a"]);
    let message = scene(moved).error().message;
    for expected in ["OPENAI_API_KEY", "[providers.openai]", "http://localhost:1/v1", "[providers.openai-responses]"] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let message = Scene::new().user("[providers.openai]\n").arguments(&["-m", "openai-responses/a"]).error().message;
    assert!(message.contains("export OPENAI_API_KEY"), "{message}");
    let meant = format!("{moved}[providers.openai-responses]\nbase_url = \"http://localhost:2/v1\"\n");
    assert_eq!(scene(&meant).config().endpoint.base_url, "http://localhost:2/v1");
}

#[test]
fn the_default_model_is_the_configured_one_then_a_service_with_a_key_then_a_provider_of_a_file_then_none() {
    let local = "[providers.local]\nbase_url = \"http://localhost:1/v1\"\nmodels = [\"small\", \"large\"]\n";
    let usual = |scene: Scene| scene.config().endpoint.full_name();
    assert_eq!(usual(Scene::new().user(local)), "local/small");
    assert_eq!(usual(Scene::new().user(local).set("OPENAI_API_KEY", "k")), "openai/gpt-5-mini");
    let named = format!("model = \"local/large\"\n{local}");
    assert_eq!(usual(Scene::new().user(&named).set("OPENAI_API_KEY", "k")), "local/large");
    assert_eq!(usual(Scene::new().user(local).set("OPENAI_BASE_URL", "http://x/v1")), "local/small");
    // The first model of that server.
    assert_eq!(usual(Scene::new().set("OPENAI_BASE_URL", "http://x/v1")), "openai/");
    assert_eq!(usual(Scene::new().arguments(&["-m", "ollama"])), "ollama/");
    // A model that one provider has needs no provider.
    assert_eq!(usual(Scene::new().set("OPENAI_API_KEY", "k").arguments(&["-m", "gpt-5"])), "openai/gpt-5");
    assert_eq!(usual(Scene::new().user("[providers.bare]\nbase_url = \"http://x\"\n")), "none/none");
}

#[test]
fn an_unusable_model_is_an_error_that_says_what_to_do() {
    let error = |name: &str| Scene::new().arguments(&["-m", name]).error();
    assert_eq!(error("openai/x").kind, ErrorKind::Auth);
    assert!(error("openai/x").message.contains("OPENAI_API_KEY"));
    assert_eq!(error("other/x").kind, ErrorKind::Usage);
    assert!(error("other/x").message.starts_with("--model: "), "{}", error("other/x"));
    assert!(Scene::new().user("model = \"other/x\"").error().message.contains("config.toml:1: unknown provider"));
    let misspelt = "model = \"mine/x\"\n[providers.mine]\nbase_ulr = \"http://127.0.0.1:1/v1\"";
    let message = Scene::new().user(misspelt).error().message;
    assert!(message.contains("did you mean base_url?") && !message.contains("unknown provider"), "{message}");
}

#[test]
fn a_provider_has_all_keys_of_its_table() {
    let text = r#"
        [providers.work]
        kind = "openai"
        base_url = "https://llm.example/v1/"
        api_key_env = "WORK_KEY"
        headers = { X-Team = "blue" }
        send_reasoning = "thinking_blocks"
        models = [
          "plain",
          { name = "big", context = 200_000, max_output = 8000, input_price = 2.5, output_price = 10 },
          { name = "all", input_price = 3, cached_price = 0.3, written_price = 3.75, output_price = 15 },
        ]
        [providers.short-lived]
        base_url = "https://host/v1"
        api_key_command = "print-token --now"
    "#;
    let config = Scene::new().user(text).set("WORK_KEY", "k").config();
    let [work, other] = configured(&config)[..] else { panic!("{:?}", config.catalog) };
    assert_eq!((work.base_url.as_str(), &work.key), ("https://llm.example/v1", &Some(Secret::new("k"))));
    assert_eq!(work.headers, [("X-Team".to_owned(), "blue".to_owned())]);
    assert_eq!((work.send_reasoning, other.send_reasoning), (SendReasoning::ThinkingBlocks, SendReasoning::Auto));
    let big = work.models[1].1;
    assert_eq!((big.context, big.max_output), (Some(200_000), Some(8000)));
    // Tokens of the cache have the input price by default.
    assert_eq!(
        big.prices,
        Some(Prices { input: 2_500_000, cached: 2_500_000, written: 2_500_000, output: 10_000_000 })
    );
    assert_eq!(
        work.models[2].1.prices,
        Some(Prices { input: 3_000_000, cached: 300_000, written: 3_750_000, output: 15_000_000 })
    );
    assert_eq!(other.key_command.as_deref(), Some("print-token --now"));
    assert_eq!(config.endpoint.full_name(), "work/plain");
}

#[test]
fn a_file_can_extend_a_service_and_its_variables_still_apply() {
    let text = "[providers.openai]\nmodels = [\"m\"]\nbase_url = \"https://proxy.example/v1\"\n";
    let config = Scene::new().user(text).set("OPENAI_API_KEY", "k").config();
    let [entry] = configured(&config)[..] else { panic!("{:?}", config.catalog) };
    assert_eq!((entry.base_url.as_str(), &entry.key), ("https://proxy.example/v1", &Some(Secret::new("k"))));
    assert_eq!(config.endpoint.full_name(), "openai/m");
    let config = Scene::new().user(text).set("OPENAI_BASE_URL", "http://nearer:1").config();
    assert_eq!(config.catalog.0[0].base_url, "http://nearer:1");
}

#[test]
fn an_invalid_value_is_an_error_with_file_line_key_and_expectation() {
    for (text, location, expected) in [
        ("model = 3", "1: model", "\"provider/model\""),
        ("\n\nworking_limit = \"ten\"", "3: working_limit", "a whole number"),
        ("working_limit = 2.5", "1: working_limit", "a whole number"),
        ("follow_forks = \"yes\"", "1: follow_forks", "true or false"),
        ("thinking = \"very hard\"", "1: thinking", "off, low, medium, high"),
        ("data_dir = \"here\"", "1: data_dir", "begins with / or ~/"),
        ("[limits]\nstall_timeout = -1", "2: limits.stall_timeout", "seconds"),
        ("[limits]\nstall_timeout = nan", "2: limits.stall_timeout", "seconds"),
        ("[limits]\nstall_timeout = 1e300", "2: limits.stall_timeout", "seconds"),
        ("[limits]\nretry_jitter = 2", "2: limits.retry_jitter", "0 to 1"),
        ("limits = 3", "1: limits", "a table"),
        ("providers = []", "1: providers", "a table"),
        ("providers.x = 1", "1: providers.x", "a table"),
        ("[providers.x]\nsend_reasoning = \"yes\"", "2: providers.x.send_reasoning", "auto, off, reasoning_content"),
        ("[providers.x]\nbase_url = \"host/v1\"", "2: providers.x.base_url", "a URL such as"),
        ("[providers.x]", "1: providers.x.base_url", "is missing"),
        ("[providers.x]\nkind = \"pigeon\"", "2: providers.x.kind", "one of openai"),
        ("[providers.echo]\nbase_url = \"http://x\"", "1: providers.echo", "built in"),
        ("[providers.\"a b\"]\nbase_url = \"http://x\"", "1: providers.\"a b\"", "a name of lower-case letters"),
        ("[providers.x]\napi_key = \"sk-planted\"", "2: providers.x.api_key", "api_key_env"),
        ("[providers.x]\napi_key = \"sk-planted\"", "2: providers.x.api_key", "api_key_command"),
        ("[providers.x]\napi_key_env = \"sk-planted\"", "2: providers.x.api_key_env", "the name of a variable"),
        ("[providers.x]\napi_key_env = \"A\"\napi_key_command = \"b\"", "1: providers.x", "cannot be used together"),
        ("[providers.x]\nheaders = { \"a b\" = \"c\" }", "2: providers.x.headers.\"a b\"", "a header"),
        ("[providers.x]\nheaders = { A = \"sk-planted\\nB: c\" }", "2: providers.x.headers.A", "a header"),
        ("[providers.x]\nmodels = [\"a\", 3]", "2: providers.x.models[1]", "the name of a model"),
        ("[providers.x]\nmodels = [\"a\",\n\"a\"]", "3: providers.x.models[1]", "duplicate"),
        ("[providers.x]\nmodels = [{name=\"a\", context=0}]", "2: providers.x.models[0].context", "tokens"),
        (
            "[providers.x]\nmodels = [{name=\"a\", input_price=\"1\"}]",
            "2: providers.x.models[0].input_price",
            "a price",
        ),
        ("[environments.x]\ntools = \"bash\"", "2: environments.x.tools", "a list of strings"),
        ("[environments.x]\ndirectory = \"here\"", "2: environments.x.directory", "begins with / or ~/"),
        ("model = \n", "1:9: invalid TOML", ""),
        ("a = 1\n[x\n", "2:3: invalid TOML", ""),
        ("a = 1\na = 2\n", "2:1: invalid TOML", "duplicate"),
    ] {
        let scene = Scene::new().user(text);
        let message = scene.error().message;
        let location = format!("{}:{location}", scene.user_file().display());
        assert!(message.contains(&location) && message.contains(expected), "{text}\n{message}");
        assert!(!message.contains("planted"), "{message}");
        assert!(!message.contains('\n'), "one error has one line: {message}");
    }
}

#[test]
fn an_unusable_environment_is_a_warning() {
    let text = "[environments.a]\ntools = [\"b\"]\n[environments.b]\ntools = [\"a\"]\n[environments.c]\n\
                tools = [\"basch\"]\n[environments.grep]\ntools = [\"bash\"]\n[environments.fine]\ntools = [\"bash\"]\n";
    let notes = Scene::new().user(text).config().notes;
    for (note, expected) in notes.iter().zip([
        "environments.a: not available: environment a contains itself",
        "environments.b: not available: environment b contains itself",
        "environments.c: not available: in environment c: unknown environment or tool \"basch\"",
        "environments.grep: not available: the name is already used",
    ]) {
        assert!(note.starts_with(expected), "{note}");
    }
    assert_eq!(notes.len(), 4, "{notes:?}");
}

/// Each within the next: looking through them all would need a stack of many megabytes.
#[test]
fn too_many_environments_are_an_error() {
    let text: String = (0..20_000).map(|n| format!("[environments.e{n}]\ntools = [\"e{}\"]\n", n + 1)).collect();
    let message = Scene::new().user(text).error().message;
    assert!(message.ends_with("config.toml:1: environments: 20000 environments exceed the limit of 100"), "{message}");
}

#[test]
fn an_unknown_key_is_a_warning_with_the_nearest_name() {
    let text = "modle = \"echo\"\n[limit]\n[limits]\nretrys = 3\n[providers.x]\nbase_ulr = 1\nbase_url = \"http://x\"\n\
                models = [{ name = \"a\", contxt = 1 }]\n[environments.x]\nsytem = 1\n[wholly.else]\n";
    let notes = Scene::new().user(text).config().notes.join("\n");
    for expected in [
        "config.toml:1: unknown key modle: ignored; did you mean model?",
        "config.toml:2: unknown key limit: ignored; did you mean limits?",
        "config.toml:4: unknown key limits.retrys: ignored; did you mean retries?",
        "config.toml:6: unknown key providers.x.base_ulr: ignored; did you mean base_url?",
        "config.toml:8: unknown key providers.x.models[0].contxt: ignored; did you mean context?",
        "config.toml:10: unknown key environments.x.sytem: ignored; did you mean system?",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
    assert!(notes.ends_with("unknown key wholly: ignored"), "{notes}");
}

/// Looking for each line from the top took minutes in a build for tests.
#[test]
fn sixty_thousand_errors_are_reported_quickly_and_not_all_of_them() {
    let keys = |value: &str| (0..60_000).map(|n| format!("k{n} = {value}\n")).collect::<String>();
    // The time of this thread alone, however many share the machine with it.
    let seconds = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    let began = seconds();
    let notes = Scene::new().user(keys("1")).config().notes;
    assert!(notes[7].contains("config.toml:8: unknown key k7"), "{}", notes[7]);
    assert_eq!((notes.len(), notes[8].as_str()), (9, "and 59992 more: run polylogue config show"));
    let message = Scene::new().user(format!("[providers]\n{}", keys("1"))).error().message;
    assert_eq!(message.lines().count(), 9, "{message}");
    assert!(seconds() - began < 10, "{} s", seconds() - began);
}

#[test]
fn unreadable_files_are_errors_with_the_reason() {
    let refusal = |bytes: &[u8]| Scene::new().user(bytes).error().message;
    assert!(refusal(b"a = 1\n\xff").contains("is not UTF-8 (line 2)"));
    assert!(refusal(b"\xef\xbb\xbfmodel = \"echo\"").contains("byte order mark"));
    assert!(refusal(b"\xff\xfem\0").contains("UTF-16"));
    assert!(refusal(&b"#".repeat(10_000_000)).contains("larger than 1 MiB"));
    let scene = Scene::new();
    fs::create_dir(scene.user_file()).unwrap();
    assert!(scene.error().message.contains("is a directory"));
}

#[test]
fn a_file_named_with_an_option_must_exist_and_replaces_the_users() {
    let scene = Scene::new().user("thinking = \"low\"");
    let other = scene.home.path().join("other.toml");
    let named = |scene: Scene| scene.arguments(&["--config", other.to_str().unwrap()]);
    let scene = named(scene);
    assert!(scene.error().message.contains("other.toml: no such file"));
    fs::write(&other, "working_limit = 3").unwrap();
    assert_eq!((scene.config().working_limit, scene.config().thinking), (3, Thinking::Unspecified));
    let by_variable = Scene::new().set("POLYLOGUE_CONFIG", "/nowhere/config.toml");
    assert!(by_variable.error().message.contains("/nowhere/config.toml: no such file"));
}

#[test]
fn a_url_in_a_variable_is_checked() {
    let error = Scene::new().set("OPENAI_BASE_URL", "localhost:8080").error();
    assert!(error.message.starts_with("OPENAI_BASE_URL: expected a URL"), "{error}");
    assert_eq!(error.message.lines().count(), 1, "two protocols are spoken there: {error}");
}

#[test]
fn a_path_in_a_variable_can_be_relative_and_the_data_directory_has_a_default() {
    let scene = Scene::new();
    let usual = scene.home.path().join(".local/share/polylogue");
    assert_eq!(scene.config().data_directory, Some(usual));
    let scene = scene.set("POLYLOGUE_DATA_DIR", "here").set("POLYLOGUE_EPHEMERAL", "0");
    assert_eq!(scene.config().data_directory.as_deref(), Some(Path::new("here")));
    assert_eq!(scene.arguments(&["--ephemeral"]).config().data_directory, None);
}

#[test]
fn config_show_prints_a_valid_configuration_without_secrets() {
    let text = r#"
        thinking = "low"
        [providers.work]
        base_url = "https://user:planted@llm.example/v1?key=planted"
        api_key_env = "WORK_KEY"
        headers = { X-Team = "planted" }
        send_reasoning = "reasoning"
        models = [{ name = "a", context = 10, input_price = 2.5 }, "b"]
        [providers.other]
        base_url = "https://host/v1"
        api_key_command = "echo planted"
        [environments.web]
        tools = ["read_file"]
        system = "Say \"yes\"."
    "#;
    let scene = Scene::new().user(text).set("WORK_KEY", "planted").set("OPENAI_API_KEY", "planted");
    let shown = show::render_config(&scene.load());
    assert!(!shown.contains("planted"), "{shown}");
    for expected in ["key from WORK_KEY", "key from OPENAI_API_KEY", "key from api_key_command", "config.toml:2"] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    // `ephemeral` is for one start, and no file may have it.
    let again: String = shown.lines().filter(|line| !line.starts_with("ephemeral")).map(|l| format!("{l}\n")).collect();
    let again = Scene::new().user(again).config();
    assert!(again.notes.is_empty(), "{:?}", again.notes);
    assert_eq!(again.settings, scene.config().settings);
    assert_eq!(again.environments, scene.config().environments);
    assert_eq!(again.catalog.0[1].models, scene.config().catalog.0[1].models);
    let work = again.catalog.0.iter().find(|entry| entry.name == "work").map(|entry| entry.send_reasoning);
    assert_eq!(work, Some(SendReasoning::Reasoning));
}

#[test]
fn thinking_that_the_model_does_not_support_is_a_warning_and_ignored() {
    let config = Scene::new().set("OPENAI_API_KEY", "k").user("thinking = 2000").config();
    assert_eq!(config.thinking, Thinking::Unspecified);
    assert!(config.notes[0].starts_with("thinking: "), "{:?}", config.notes);
}
