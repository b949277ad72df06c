//! The whole of it on real directories with variables of their own.

mod precedence;
mod projects;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use tempfile::TempDir;

use super::project::Project;
use super::settings::{Files, SETTINGS, Setting, Slot};
use super::*;
use crate::base::error::ErrorKind;
use crate::domain::endpoint::{Endpoint, Prices, Secret};

/// A home, a repository in it, and variables.
struct Scene {
    home: TempDir,
    variables: HashMap<String, OsString>,
    words: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".config/polylogue/commands")).unwrap();
        fs::create_dir_all(home.path().join("work/.git")).unwrap();
        fs::create_dir_all(home.path().join("work/deep/down")).unwrap();
        let variables = HashMap::from([("HOME".to_owned(), home.path().into())]);
        Self { home, variables, words: vec!["polylogue".into()] }
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
        Project::of(&self.around().directory).unwrap().trust(&self.config_directory()).unwrap();
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    fn say(mut self, words: &[&str]) -> Self {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    fn around(&self) -> Surroundings {
        let variables = self.variables.clone();
        let directory = self.home.path().join("work/deep/down");
        Surroundings { variable: Box::new(move |name| variables.get(name).cloned()), directory }
    }

    fn load(&self) -> Loaded {
        load(&Arguments::parse_from(&self.words), &self.around())
    }

    fn config(&self) -> Config {
        self.load().into_config().unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(&self) -> Error {
        self.load().into_config().expect_err("it is refused")
    }
}

#[test]
fn with_nothing_configured_echo_answers_and_says_how_to_set_up_a_real_model() {
    let config = Scene::new().config();
    assert_eq!(config.endpoint, Endpoint::echo());
    assert!(config.hint.unwrap().contains("OPENAI_API_KEY"));
    assert!(config.notes.is_empty(), "{:?}", config.notes);
}

#[test]
fn every_service_whose_variable_is_set_is_there_and_no_other() {
    for spec in provider::PROVIDERS {
        let Some(service) = spec.service else { continue };
        for variable in service.key_variables {
            let config = Scene::new().set(variable, "k").config();
            let names = config.catalog.0.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>();
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
        let config = scene.say(&["-m", &format!("{}/a/b", service.name)]).config();
        assert_eq!((config.endpoint.model.as_str(), config.endpoint.key), ("a/b", None));
        assert_eq!(config.endpoint.base_url, "http://localhost:1/v1");
    }
}

#[test]
fn a_service_whose_key_belongs_elsewhere_says_so_and_where_to_say_otherwise() {
    let moved = "[providers.openai]\nbase_url = \"http://localhost:1/v1\"\n";
    let scene = |file: &str| Scene::new().user(file).set("OPENAI_API_KEY", "k").say(&["-m", "openai-responses/a"]);
    let message = scene(moved).error().message;
    for words in ["OPENAI_API_KEY", "[providers.openai]", "http://localhost:1/v1", "[providers.openai-responses]"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    let message = Scene::new().user("[providers.openai]\n").say(&["-m", "openai-responses/a"]).error().message;
    assert!(message.contains("export OPENAI_API_KEY"), "{message}");
    let meant = format!("{moved}[providers.openai-responses]\nbase_url = \"http://localhost:2/v1\"\n");
    assert_eq!(scene(&meant).config().endpoint.base_url, "http://localhost:2/v1");
}

#[test]
fn the_usual_model_is_the_named_one_then_a_service_with_a_key_then_a_provider_of_a_file_then_echo() {
    let local = "[providers.local]\nbase_url = \"http://localhost:1/v1\"\nmodels = [\"small\", \"large\"]\n";
    let usual = |scene: Scene| scene.config().endpoint.full_name();
    assert_eq!(usual(Scene::new().user(local)), "local/small");
    assert_eq!(usual(Scene::new().user(local).set("OPENAI_API_KEY", "k")), "openai/gpt-5-mini");
    let named = format!("model = \"local/large\"\n{local}");
    assert_eq!(usual(Scene::new().user(&named).set("OPENAI_API_KEY", "k")), "local/large");
    assert_eq!(usual(Scene::new().user(local).set("OPENAI_BASE_URL", "http://x/v1")), "local/small");
    assert_eq!(usual(Scene::new().set("OPENAI_BASE_URL", "http://x/v1")), "openai/gpt-5-mini");
    assert_eq!(usual(Scene::new().user("[providers.bare]\nbase_url = \"http://x\"\n")), "echo/echo");
}

#[test]
fn what_cannot_be_meant_is_refused_with_the_way_out() {
    let error = |name: &str| Scene::new().say(&["-m", name]).error();
    assert_eq!(error("openai/x").kind, ErrorKind::Auth);
    assert!(error("openai/x").message.contains("OPENAI_API_KEY"));
    assert_eq!(error("nobody/x").kind, ErrorKind::Usage);
    assert!(error("nobody/x").message.starts_with("--model: "), "{}", error("nobody/x"));
    assert!(Scene::new().user("model = \"nobody/x\"").error().message.contains("config.toml:1: there is no provider"));
}

#[test]
fn a_provider_of_the_file_has_all_that_is_written_there() {
    let text = r#"
        [providers.work]
        kind = "openai"
        base_url = "https://llm.example/v1/"
        api_key_env = "WORK_KEY"
        headers = { X-Team = "blue" }
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
    let [work, other] = &config.catalog.0[..] else { panic!("{:?}", config.catalog) };
    assert_eq!((work.base_url.as_str(), &work.key), ("https://llm.example/v1", &Some(Secret::new("k"))));
    assert_eq!(work.headers, [("X-Team".to_owned(), "blue".to_owned())]);
    let big = work.models[1].1;
    assert_eq!((big.context, big.max_output), (Some(200_000), Some(8000)));
    // Where nothing is said about the cache, its tokens cost what all others do.
    assert_eq!(big.prices, Some(Prices { input: 2500, cached: 2500, written: 2500, output: 10_000 }));
    assert_eq!(work.models[2].1.prices, Some(Prices { input: 3000, cached: 300, written: 3750, output: 15_000 }));
    assert_eq!(other.key_command.as_deref(), Some("print-token --now"));
    assert_eq!(config.endpoint.full_name(), "work/plain");
}

#[test]
fn a_file_may_say_more_about_a_service_and_its_variables_still_count() {
    let text = "[providers.openai]\nmodels = [\"m\"]\nbase_url = \"https://proxy.example/v1\"\n";
    let config = Scene::new().user(text).set("OPENAI_API_KEY", "k").config();
    let [entry] = &config.catalog.0[..] else { panic!("{:?}", config.catalog) };
    assert_eq!((entry.base_url.as_str(), &entry.key), ("https://proxy.example/v1", &Some(Secret::new("k"))));
    assert_eq!(config.endpoint.full_name(), "openai/m");
    let config = Scene::new().user(text).set("OPENAI_BASE_URL", "http://nearer:1").config();
    assert_eq!(config.catalog.0[0].base_url, "http://nearer:1");
}

#[test]
fn a_value_that_does_not_fit_names_file_line_and_key_and_what_is_expected() {
    for (text, place, expected) in [
        ("model = 3", "1: model", "\"provider/model\""),
        ("\n\nworking_limit = \"ten\"", "3: working_limit", "a whole number"),
        ("working_limit = 2.5", "1: working_limit", "a whole number"),
        ("follow_forks = \"yes\"", "1: follow_forks", "true or false"),
        ("thinking = \"hard\"", "1: thinking", "off, low, medium, high"),
        ("data_dir = \"here\"", "1: data_dir", "begins with / or ~/"),
        ("[limits]\nstall_timeout = -1", "2: limits.stall_timeout", "seconds"),
        ("[limits]\nstall_timeout = nan", "2: limits.stall_timeout", "seconds"),
        ("[limits]\nstall_timeout = 1e300", "2: limits.stall_timeout", "seconds"),
        ("[limits]\nretry_jitter = 2", "2: limits.retry_jitter", "0 to 1"),
        ("limits = 3", "1: limits", "a table"),
        ("providers = []", "1: providers", "a table"),
        ("providers.x = 1", "1: providers.x", "a table"),
        ("[providers.x]\nbase_url = \"host/v1\"", "2: providers.x.base_url", "a URL such as"),
        ("[providers.x]", "1: providers.x.base_url", "is missing"),
        ("[providers.x]\nkind = \"pigeon\"", "2: providers.x.kind", "one of openai"),
        ("[providers.echo]\nbase_url = \"http://x\"", "1: providers.echo", "built in"),
        ("[providers.\"a b\"]\nbase_url = \"http://x\"", "1: providers.\"a b\"", "a name of small letters"),
        ("[providers.x]\napi_key = \"sk-planted\"", "2: providers.x.api_key", "api_key_env"),
        ("[providers.x]\napi_key = \"sk-planted\"", "2: providers.x.api_key", "api_key_command"),
        ("[providers.x]\napi_key_env = \"sk-planted\"", "2: providers.x.api_key_env", "the name of a variable"),
        ("[providers.x]\napi_key_env = \"A\"\napi_key_command = \"b\"", "1: providers.x", "exclude each other"),
        ("[providers.x]\nheaders = { \"a b\" = \"c\" }", "2: providers.x.headers.\"a b\"", "a header"),
        ("[providers.x]\nheaders = { A = \"sk-planted\\nB: c\" }", "2: providers.x.headers.A", "a header"),
        ("[providers.x]\nmodels = [\"a\", 3]", "2: providers.x.models[1]", "a model's name"),
        ("[providers.x]\nmodels = [\"a\",\n\"a\"]", "3: providers.x.models[1]", "twice"),
        ("[providers.x]\nmodels = [{name=\"a\", context=0}]", "2: providers.x.models[0].context", "tokens"),
        (
            "[providers.x]\nmodels = [{name=\"a\", input_price=\"1\"}]",
            "2: providers.x.models[0].input_price",
            "a price",
        ),
        ("[environments.x]\ntools = \"bash\"", "2: environments.x.tools", "a list of texts"),
        ("[environments.x]\ndirectory = \"here\"", "2: environments.x.directory", "begins with / or ~/"),
        ("model = \n", "1:9: this is not TOML", ""),
        ("a = 1\n[x\n", "2:3: this is not TOML", ""),
        ("a = 1\na = 2\n", "2:1: this is not TOML", "duplicate"),
    ] {
        let scene = Scene::new().user(text);
        let message = scene.error().message;
        let place = format!("{}:{place}", scene.user_file().display());
        assert!(message.contains(&place) && message.contains(expected), "{text}\n{message}");
        assert!(!message.contains("planted"), "{message}");
        assert!(!message.contains('\n'), "one mistake is told once: {message}");
    }
}

#[test]
fn an_environment_that_cannot_be_had_is_told_at_the_start() {
    let text = "[environments.a]\ntools = [\"b\"]\n[environments.b]\ntools = [\"a\"]\n[environments.c]\n\
                tools = [\"basch\"]\n[environments.coding]\ntools = [\"bash\"]\n[environments.fine]\ntools = [\"bash\"]\n";
    let notes = Scene::new().user(text).config().notes;
    for (note, words) in notes.iter().zip([
        "environments.a: cannot be had: the environment a contains itself",
        "environments.b: cannot be had: the environment b contains itself",
        "environments.c: cannot be had: in the environment c: there is no environment or tool called \"basch\"",
        "environments.coding: cannot be had: the name means something else already",
    ]) {
        assert!(note.starts_with(words), "{note}");
    }
    assert_eq!(notes.len(), 4, "{notes:?}");
}

/// Each within the next: looking through them all would need a stack of many megabytes.
#[test]
fn more_environments_than_anybody_has_are_refused() {
    let text: String = (0..20_000).map(|n| format!("[environments.e{n}]\ntools = [\"e{}\"]\n", n + 1)).collect();
    let words = Scene::new().user(text).error().message;
    assert!(
        words.ends_with("config.toml:1: environments: there may be 100 environments, and here are 20000"),
        "{words}"
    );
}

#[test]
fn an_unknown_key_is_a_note_with_the_nearest_name() {
    let text = "modle = \"echo\"\n[limit]\n[limits]\nretrys = 3\n[providers.x]\nbase_ulr = 1\nbase_url = \"http://x\"\n\
                models = [{ name = \"a\", contxt = 1 }]\n[environments.x]\nsytem = 1\n[wholly.else]\n";
    let notes = Scene::new().user(text).config().notes.join("\n");
    for words in [
        "config.toml:1: modle is not known and ignored: did you mean model?",
        "config.toml:2: limit is not known and ignored: did you mean limits?",
        "config.toml:4: limits.retrys is not known and ignored: did you mean retries?",
        "config.toml:6: providers.x.base_ulr is not known and ignored: did you mean base_url?",
        "config.toml:8: providers.x.models[0].contxt is not known and ignored: did you mean context?",
        "config.toml:10: environments.x.sytem is not known and ignored: did you mean system?",
    ] {
        assert!(notes.contains(words), "{words}\n{notes}");
    }
    assert!(notes.ends_with("wholly is not known and ignored"), "{notes}");
}

/// Looking for each line from the top took minutes in a build for tests.
#[test]
fn sixty_thousand_mistakes_are_told_soon_and_not_all_of_them() {
    let keys = |value: &str| (0..60_000).map(|n| format!("k{n} = {value}\n")).collect::<String>();
    // The time of this thread alone, however many share the machine with it.
    let seconds = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    let began = seconds();
    let notes = Scene::new().user(keys("1")).config().notes;
    assert!(notes[7].contains("config.toml:8: k7 is not known"), "{}", notes[7]);
    assert_eq!((notes.len(), notes[8].as_str()), (9, "and 59992 more: polylogue config show tells all of them"));
    let words = Scene::new().user(format!("[providers]\n{}", keys("1"))).error().message;
    assert_eq!(words.lines().count(), 9, "{words}");
    assert!(seconds() - began < 10, "{} s", seconds() - began);
}

#[test]
fn what_is_no_readable_text_is_refused_with_the_reason() {
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
fn a_file_that_was_named_must_be_there_and_replaces_the_users() {
    let scene = Scene::new().user("thinking = \"low\"");
    let other = scene.home.path().join("other.toml");
    let named = |scene: Scene| scene.say(&["--config", other.to_str().unwrap()]);
    let scene = named(scene);
    assert!(scene.error().message.contains("other.toml: there is no such file"));
    fs::write(&other, "working_limit = 3").unwrap();
    assert_eq!((scene.config().working_limit, scene.config().thinking), (3, Thinking::Unspecified));
    let by_variable = Scene::new().set("POLYLOGUE_CONFIG", "/nowhere/config.toml");
    assert!(by_variable.error().message.contains("/nowhere/config.toml: there is no such file"));
}

#[test]
fn a_url_in_a_variable_is_looked_at_too() {
    let error = Scene::new().set("OPENAI_BASE_URL", "localhost:8080").error();
    assert!(error.message.starts_with("OPENAI_BASE_URL: expected a URL"), "{error}");
    assert_eq!(error.message.lines().count(), 1, "two protocols are spoken there: {error}");
}

#[test]
fn a_named_path_in_a_variable_may_be_relative_and_the_data_has_its_usual_place() {
    let scene = Scene::new();
    let usual = scene.home.path().join(".local/share/polylogue");
    assert_eq!(scene.config().data_directory, Some(usual));
    let scene = scene.set("POLYLOGUE_DATA_DIR", "here").set("POLYLOGUE_EPHEMERAL", "0");
    assert_eq!(scene.config().data_directory.as_deref(), Some(Path::new("here")));
    assert_eq!(scene.say(&["--ephemeral"]).config().data_directory, None);
}

#[test]
fn what_show_prints_is_a_configuration_and_holds_no_secret() {
    let text = r#"
        thinking = "low"
        [providers.work]
        base_url = "https://user:planted@llm.example/v1?key=planted"
        api_key_env = "WORK_KEY"
        headers = { X-Team = "planted" }
        models = [{ name = "a", context = 10, input_price = 2.5 }, "b"]
        [providers.other]
        base_url = "https://host/v1"
        api_key_command = "echo planted"
        [environments.web]
        tools = ["read_file"]
        system = "Say \"yes\"."
    "#;
    let scene = Scene::new().user(text).set("WORK_KEY", "planted").set("OPENAI_API_KEY", "planted");
    let shown = show::shown(&scene.load());
    assert!(!shown.contains("planted"), "{shown}");
    for words in ["comes from WORK_KEY", "comes from OPENAI_API_KEY", "comes from a command", "config.toml:2"] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    // `ephemeral` is for one start, and no file may have it.
    let again: String = shown.lines().filter(|line| !line.starts_with("ephemeral")).map(|l| format!("{l}\n")).collect();
    let again = Scene::new().user(again).config();
    assert!(again.notes.is_empty(), "{:?}", again.notes);
    assert_eq!(again.settings, scene.config().settings);
    assert_eq!(again.environments, scene.config().environments);
    assert_eq!(again.catalog.0[1].models, scene.config().catalog.0[1].models);
}

#[test]
fn thinking_that_the_model_does_not_take_is_told_and_left_out() {
    let config = Scene::new().set("OPENAI_API_KEY", "k").user("thinking = 2000").config();
    assert_eq!(config.thinking, Thinking::Unspecified);
    assert!(config.notes[0].starts_with("thinking: "), "{:?}", config.notes);
}
