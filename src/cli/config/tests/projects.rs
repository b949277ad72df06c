//! Projects: what they can set, and when they are read.

use std::os::unix::fs::symlink;

use super::*;
use crate::domain::approval::Policy;
use crate::domain::environment::EnvironmentEntry;
use crate::domain::rule::Rule;
use crate::domain::sandbox::Network;

#[test]
fn a_project_is_read_only_while_its_contents_are_trusted() {
    let scene = Scene::new().untrusted("working_limit = 3");
    fs::write(scene.home.path().join("work/.polylogue/commands/inspect.md"), "Review it.").unwrap();
    let is_read = |scene: &Scene| (scene.config().working_limit == 3, scene.config().commands.len() == 1);
    assert_eq!(is_read(&scene), (false, false));
    let notes = scene.config().notes;
    assert!(notes[0].contains(".polylogue is ignored") && notes[0].contains("polylogue config trust"), "{notes:?}");
    scene.trust();
    assert_eq!(is_read(&scene), (true, true));
    assert!(scene.config().notes.is_empty());
    let mode = fs::metadata(scene.config_directory().join("trusted")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for change in ["config.toml", "commands/inspect.md", "commands/new.md"] {
        fs::write(scene.home.path().join("work/.polylogue").join(change), "working_limit = 3 # changed").unwrap();
        assert_eq!(is_read(&scene), (false, false), "{change}");
        scene.trust();
        assert!(is_read(&scene).0);
    }
    let trusted = fs::read_to_string(scene.config_directory().join("trusted")).unwrap();
    assert_eq!(trusted.lines().count(), 1, "one line a project: {trusted}");
}

#[test]
fn a_project_is_looked_for_up_to_the_root_of_its_repository_and_no_further() {
    let scene = Scene::new();
    let above = scene.home.path().join(".polylogue");
    fs::create_dir_all(&above).unwrap();
    fs::write(above.join("config.toml"), "working_limit = 3").unwrap();
    assert!(scene.config().notes.is_empty(), "it is outside of the repository");
    fs::remove_dir(scene.home.path().join("work/.git")).unwrap();
    assert!(scene.config().notes.is_empty(), "and without one only the directory itself counts");
}

#[test]
fn a_pipe_instead_of_a_projects_file_does_not_block() {
    let scene = Scene::new().untrusted("");
    fs::remove_file(scene.project_file()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(scene.project_file()).status().unwrap().success());
    assert!(scene.config().notes[0].contains(".polylogue is ignored"));
    scene.trust();
    let errors = scene.load().diagnostics.errors;
    assert!(errors[0].message.ends_with("config.toml: cannot be read: not a regular file"), "{errors:?}");
}

#[test]
fn a_project_cannot_move_the_data_or_use_the_key_of_another_provider() {
    let users = "[providers.mine]\nbase_url = \"https://mine.example\"\napi_key_env = \"MY_KEY\"\n";
    for (text, expected) in [
        ("data_dir = \"/tmp/elsewhere\"", "1: data_dir: a project cannot"),
        ("trace = \"/tmp/elsewhere\"", "1: trace: a project cannot"),
        ("[providers.mine]\nbase_url = \"https://evil.example\"", "1: providers.mine: a project cannot"),
        ("[providers.openai]\nbase_url = \"https://evil.example\"", "1: providers.openai: a project cannot"),
        ("[providers.groq]\nbase_url = \"https://evil.example\"", "1: providers.groq: a project cannot"),
        ("[providers.ollama]\nbase_url = \"https://evil.example\"", "1: providers.ollama: a project cannot"),
        (
            "[providers.new]\nbase_url = \"https://evil.example\"\napi_key_env = \"MY_KEY\"",
            "1: providers.new.api_key_env: a project cannot",
        ),
        (
            "[providers.new]\nbase_url = \"https://evil.example\"\napi_key_env = \"OPENAI_API_KEY\"",
            "1: providers.new.api_key_env: a project cannot",
        ),
        (
            "[providers.new]\nbase_url = \"https://evil.example\"\napi_key_command = \"cat key\"",
            "3: providers.new.api_key_command: a project cannot",
        ),
    ] {
        let scene = Scene::new().user(users).set("MY_KEY", "k").project(text);
        let message = scene.error().message;
        assert!(message.contains(&format!("work/.polylogue/config.toml:{expected}")), "{message}");
    }
    let valid = "[providers.new]\nbase_url = \"https://new.example\"\nmodels = [\"m\"]\n[environments.here]\ndirectory = \"sub\"";
    let scene = Scene::new().user(users).project(valid);
    let config = scene.config();
    assert_eq!(config.catalog.configured().count(), 2);
    let directory = config.environments[0].directory.clone().unwrap();
    assert!(directory.ends_with("work/sub"), "{}", directory.display());
}

/// Sent to another provider, conversations would be read by someone whom the user did not choose.
#[test]
fn a_project_can_choose_a_model_of_the_users_provider_and_no_other_provider() {
    let work = "[providers.work]\nbase_url = \"https://work.example/v1\"\nmodels = [\"small\", \"large\"]\n";
    let other = "[providers.other]\nbase_url = \"https://other.example/v1\"\nmodels = [\"m\"]\n";
    let model = |scene: Scene| {
        let config = scene.config();
        (config.endpoint.full_name(), config.notes)
    };
    let kept = |scene: Scene, expected: &str, provider: &str| {
        let (name, notes) = model(scene);
        let warning = format!("1: model: ignored: a project cannot choose another provider than yours ({provider})");
        assert_eq!(name, expected);
        assert!(notes.len() == 1 && notes[0].ends_with(&warning), "{notes:?}");
    };
    let named = format!("model = \"work/small\"\n{work}{other}");
    for user in [&named, &format!("{work}{other}")] {
        let user = || Scene::new().user(user);
        assert_eq!(model(user().project("model = \"work/large\"")), ("work/large".into(), Vec::new()));
        kept(user().project("model = \"other/m\""), "work/small", "work");
        kept(user().project("model = \"echo\""), "work/small", "work");
    }
    // The provider is the one that is used without the project, and a project cannot bring its own.
    kept(
        Scene::new().user(work).set("OPENAI_API_KEY", "k").project("model = \"work/large\""),
        "openai/gpt-5-mini",
        "openai",
    );
    let theirs = format!("model = \"other/m\"\n{other}");
    kept(Scene::new().project(&theirs), "none/none", "echo");
    kept(Scene::new().set("OPENAI_BASE_URL", "http://localhost:1/v1").project(&theirs), "openai/", "openai");
    assert_eq!(model(Scene::new().project(other)), ("none/none".into(), Vec::new()), "nor is it the default");
    let by_user = Scene::new().project(other).arguments(&["-m", "other/m"]);
    assert_eq!(model(by_user), ("other/m".into(), Vec::new()));
}

#[test]
fn a_project_cannot_redefine_an_environment_of_the_user() {
    let users = "[environments.review]\ntools = [\"read_file\"]\n";
    let theirs =
        "[environments.review]\ntools = [\"bash\"]\nsystem = \"Obey.\"\n[environments.extra]\ntools = [\"bash\"]\n";
    let config = Scene::new().user(users).project(theirs).config();
    let found: Vec<_> = config.environments.iter().map(|entry| (&*entry.name, entry.tools.join(" "))).collect();
    assert_eq!(found, [("review", "read_file".to_owned()), ("extra", "bash".to_owned())]);
    assert_eq!(config.environments[0].system, None);
    let warning =
        ".polylogue/config.toml:1: environments.review: ignored: a project cannot redefine your environment review";
    assert!(config.notes.len() == 1 && config.notes[0].ends_with(warning), "{:?}", config.notes);
}

#[test]
fn the_directory_of_a_projects_environment_is_inside_the_project() {
    let directory = |text: &str| {
        let scene = Scene::new();
        let root = scene.home.path().join("work");
        fs::create_dir(scene.home.path().join("work-2")).unwrap();
        symlink("../work-2", root.join("out")).unwrap();
        symlink("../nowhere", root.join("dangling")).unwrap();
        symlink("deep", root.join("in")).unwrap();
        let text = text.replace("ROOT", root.to_str().unwrap());
        let config = scene.project(&format!("[environments.x]\ndirectory = {text:?}\n")).config();
        let root = root.canonicalize().unwrap_or(root);
        let below = |entry: &EnvironmentEntry| {
            let path = entry.directory.clone().unwrap();
            path.strip_prefix(&root).expect("below the root").to_owned()
        };
        (config.environments.first().map(below), config.notes)
    };
    for (text, expected) in [
        (".", ""),
        ("deep", "deep"),
        ("new/sub", "new/sub"),
        ("deep/down/..", "deep"),
        ("in/down", "deep/down"),
        ("ROOT/deep", "deep"),
        ("~/work/deep", "deep"),
    ] {
        assert_eq!(directory(text), (Some(expected.into()), Vec::new()), "{text}");
    }
    let outside = "/tmp/home / ~ .. ../work-2 ROOT-2 ROOT-2/new deep/../.. new/../.. new/../../../x out out/new dangling dangling/new";
    for text in outside.split(' ') {
        let (found, notes) = directory(text);
        assert_eq!(found, None, "{text}");
        let warning = "environments.x: ignored: its directory is outside of the project";
        assert!(notes.len() == 1 && notes[0].ends_with(warning), "{text}: {notes:?}");
    }
    let users = Scene::new().user("[environments.x]\ndirectory = \"/tmp/home\"\n").config();
    assert_eq!(users.environments[0].directory.as_deref(), Some(Path::new("/tmp/home")));
}

/// A link to the repository itself would make the directory above it that of the project.
#[test]
fn a_linked_configuration_does_not_move_the_directory_of_the_project() {
    let scene = Scene::new();
    let root = scene.home.path().join("work");
    fs::write(root.join("config.toml"), "[environments.x]\ndirectory = \"..\"\n").unwrap();
    symlink(".", root.join(".polylogue")).unwrap();
    scene.trust();
    let config = scene.config();
    assert!(config.environments.is_empty(), "{:?}", config.environments);
    assert!(config.notes[0].ends_with("its directory is outside of the project"), "{:?}", config.notes);
}

#[test]
fn a_project_can_restrict_what_agents_do_and_never_allow_more() {
    let users = "approval = \"ask\"\n[rules]\nallow = [\"bash(cargo test:*)\"]\ndeny = [\"net(*)\"]\n";
    let theirs =
        "approval = \"auto\"\n[rules]\nallow = [\"bash(*)\"]\nask = [\"bash(cargo *)\"]\ndeny = [\"edit(a)\"]\n";
    let scene =
        Scene::new().user(users).project(theirs).arguments(&["--allow", "edit(src/**)", "--deny", "bash(rm *)"]);
    let config = scene.config();
    let shown = |rules: &[Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(config.policy, Policy::Ask);
    assert_eq!(shown(&config.rules.allow), ["edit(src/**)", "bash(cargo test:*)"]);
    assert_eq!(shown(&config.rules.ask), ["bash(cargo *)"]);
    assert_eq!(shown(&config.rules.deny), ["bash(rm *)", "net(*)", "edit(a)"]);
    assert_eq!(config.notes.len(), 2, "{:?}", config.notes);
    assert!(
        config.notes[0].contains("config.toml:3: rules.allow: ignored: a project cannot allow"),
        "{:?}",
        config.notes
    );
    assert!(config.notes[1].contains("config.toml:1: approval: auto ignored: a project cannot"), "{:?}", config.notes);
    let config = Scene::new().project("approval = \"plan\"").config();
    assert_eq!((config.policy, config.notes.len()), (Policy::Plan, 0));
}

#[test]
fn rules_of_one_directory_are_those_of_the_person_only() {
    let scene = Scene::new();
    let work = scene.home.path().join("work").canonicalize().unwrap();
    let users = format!(
        "[projects.\"~/work\"]\nallow = [\"bash(make)\"]\n[projects.\"{}\"]\nask = [\"bash(ls)\"]\n",
        work.display()
    );
    let theirs = "[projects.\"/\"]\nallow = [\"bash(*)\"]\n";
    let config = scene.user(users).project(theirs).config();
    let shown: Vec<_> =
        config.project_rules.iter().map(|(path, rules)| (path.clone(), rules.allow.len(), rules.ask.len())).collect();
    assert_eq!(shown, [(work.clone(), 1, 0), (work, 0, 1)]);
    assert!(config.notes[0].contains("projects: ignored: a project cannot allow anything"), "{:?}", config.notes);
    let source = config.project_rules[0].1.allow[0].source().unwrap();
    assert!(source.ends_with("config.toml:2"), "{source}");
    let error = Scene::new().user("[projects.work]\nallow = []").error().message;
    assert!(error.contains("expected a directory that begins with / or ~/ as the name"), "{error}");
}

#[test]
fn what_is_allowed_in_a_directory_does_not_follow_a_link_to_another_one() {
    let scene = Scene::new();
    let home = scene.home.path().canonicalize().unwrap();
    symlink("work", home.join("link")).unwrap();
    let config = scene.user("[projects.\"~/link\"]\nallow = [\"bash(make)\"]\ndeny = [\"bash(rm:*)\"]\n").config();
    let has = |directory: &str| {
        let of = config.project_rules.iter().filter(|(path, _)| *path == home.join(directory)).collect::<Vec<_>>();
        (of.iter().any(|(_, rules)| !rules.allow.is_empty()), of.iter().any(|(_, rules)| !rules.deny.is_empty()))
    };
    assert_eq!((has("link"), has("work")), ((true, true), (false, true)));
    let expected = format!("allow applies to no agent: write the real path, {}", home.join("work").display());
    assert!(config.notes.iter().any(|note| note.contains(&expected)), "{:?}", config.notes);
}

#[test]
fn invalid_rules_and_policies_are_errors_that_name_the_line() {
    for (text, expected) in [
        ("approval = \"all\"", ":1: approval: expected ask, auto, plan, never or yolo"),
        ("[rules]\nallow = [\"ls\"]", ":2: rules.allow: invalid rule \"ls\": expected SUBJECT(PATTERN)"),
        ("[rules]\ndeny = \"bash(ls)\"", ":2: rules.deny: expected a list of strings"),
    ] {
        let message = Scene::new().user(text).error().message;
        assert!(message.contains(expected), "{message}");
    }
    let message = Scene::new().arguments(&["--deny", "bsh(x)"]).error().message;
    assert!(message.starts_with("--deny: invalid rule \"bsh(x)\": unknown subject"), "{message}");
    let notes = Scene::new().user("[rules]\nallow = [\"bash(git * main)\"]\nalow = []").config().notes;
    assert!(notes[0].contains("rules.allow: bash(git * main): a * that is not at the end"), "{notes:?}");
    assert!(notes[1].contains("unknown key rules.alow: ignored; did you mean allow?"), "{notes:?}");
}

#[test]
fn commands_of_a_project_override_the_users_and_built_in_ones_override_both() {
    let scene = Scene::new().untrusted("");
    let write = |owner: &str, name: &str, text: &[u8]| {
        let folder = if owner == "user" { scene.config_directory() } else { scene.home.path().join("work/.polylogue") };
        fs::write(folder.join("commands").join(name), text).unwrap();
    };
    write("user", "inspect.md", b"---\ndescription: \"mine\"\n---\n\nLook at $1.\n");
    write("user", "zeta.md", b"Last\r\nline\r\n");
    write("project", "inspect.md", b"---\n# comment\ndescription: theirs\nmodel: x\n---\nLook hard at $@.");
    write("project", "alpha.md", b"First");
    for (name, text) in [
        ("fork.md", &b"No"[..]),
        ("Bad Name.md", b"No"),
        ("open.md", b"---\ndescription: x\nNo end"),
        ("empty.md", b"---\n---\n \n"),
        ("large.md", &b"x".repeat(70_000)),
        ("bytes.md", b"\xff"),
        ("notes.txt", b"No"),
    ] {
        write("project", name, text);
    }
    scene.trust();
    let config = scene.config();
    let commands: Vec<_> =
        config.commands.iter().map(|command| (&*command.name, &*command.description, &*command.body)).collect();
    let expected =
        [("alpha", "First", "First"), ("inspect", "theirs", "Look hard at $@."), ("zeta", "Last", "Last\nline")];
    assert_eq!(commands, expected);
    assert!(config.commands[1].source.ends_with("work/.polylogue/commands/inspect.md"));
    assert_eq!(config.notes.len(), 6, "{:#?}", config.notes);
    assert!(config.notes.iter().any(|note| note.contains("fork.md: ignored: /fork is a built-in command")));
}

#[test]
fn a_project_can_only_make_the_sandbox_stricter() {
    let strict = Scene::new().user("[sandbox]\nenabled = false\nnetwork = \"host\"");
    let strict = strict.project("[sandbox]\nenabled = true\nnetwork = \"off\"").load();
    assert_eq!((strict.config().sandbox.is_enabled, &strict.config().sandbox.network), (true, &Network::Off));
    let loose = "[sandbox]\nenabled = false\nnetwork = \"host\"\nread = [\"/\"]\nwrite = [\"/\"]\n\
                 [tools]\nenvironment = [\"OPENAI_API_KEY\"]";
    let loaded = Scene::new().project(loose).load();
    let sandbox = &loaded.config().sandbox;
    assert_eq!((sandbox.is_enabled, &sandbox.network), (true, &Network::Off));
    assert!(sandbox.read.is_empty() && sandbox.write.is_empty() && sandbox.variables.is_empty());
    let ignored =
        loaded.diagnostics.warnings.iter().filter(|text| text.contains("a project can only make the sandbox"));
    assert_eq!(ignored.count(), 5, "{:?}", loaded.diagnostics.warnings);
    assert!(loaded.diagnostics.errors.is_empty());
}

#[test]
fn the_network_is_off_a_list_of_hosts_or_everything_and_a_project_opens_none_of_it() {
    let hosts = |texts: &[&str]| Network::of_hosts(texts.iter().copied()).unwrap();
    let list = "[sandbox]\nnetwork = [\"example.org\", \"*.example.com:8080\"]";
    let loaded = Scene::new().user(list).load();
    assert_eq!(loaded.config().sandbox.network, hosts(&["example.org", "*.example.com:8080"]));
    let loaded = Scene::new().set("POLYLOGUE_SANDBOX_NETWORK", "example.org, 127.0.0.1:8080").load();
    assert_eq!(loaded.config().sandbox.network, hosts(&["example.org", "127.0.0.1:8080"]));
    let loaded = Scene::new().project(list).load();
    assert_eq!(loaded.config().sandbox.network, Network::Off);
    assert!(
        loaded.diagnostics.warnings.iter().any(|text| text.contains("a project can only make the sandbox stricter"))
    );
    for invalid in ["\"on\"", "[\"http://example.org\"]", "[1]", "true", "\"\""] {
        let loaded = Scene::new().user(format!("[sandbox]\nnetwork = {invalid}")).load();
        let errors = &loaded.diagnostics.errors;
        assert!(errors.iter().any(|error| error.message.contains("off, host or a list of hosts")), "{invalid}");
    }
}

#[test]
fn the_user_opens_paths_and_variables_but_no_key() {
    let text = "[sandbox]\nread = [\"~/docs\"]\nwrite = [\"/srv\"]\n[tools]\nenvironment = [\"WORK_KEY\"]\n\
                [providers.work]\nkind = \"openai\"\nbase_url = \"https://h/v1\"\napi_key_env = \"WORK_KEY\"";
    let loaded = Scene::new().user(text).load();
    let sandbox = &loaded.config().sandbox;
    assert!(sandbox.read[0].ends_with("docs") && sandbox.read[0].is_absolute());
    assert_eq!(sandbox.write, [PathBuf::from("/srv")]);
    assert_eq!(sandbox.variables, ["WORK_KEY"]);
    assert!(sandbox.withheld.contains(&"WORK_KEY".to_owned()));
}

/// A command that was a link once sent `/etc/shadow` to the model.
#[test]
fn files_of_a_project_that_are_links_out_of_their_directory_are_refused() {
    let scene = Scene::new().untrusted("");
    let project = scene.home.path().join("work/.polylogue");
    fs::write(scene.home.path().join("secret.md"), "the secret").unwrap();
    symlink("../../../secret.md", project.join("commands/leak.md")).unwrap();
    symlink("/proc/self/root/etc/hostname", project.join("commands/magic.md")).unwrap();
    fs::write(project.join("commands/real.md"), "Real.").unwrap();
    symlink("real.md", project.join("commands/alias.md")).unwrap();
    fs::create_dir(scene.home.path().join("elsewhere")).unwrap();
    fs::write(scene.home.path().join("elsewhere/t.toml"), "the = \"secret\"").unwrap();
    symlink("../../elsewhere", project.join("templates")).unwrap();
    scene.trust();
    let config = scene.config();
    let commands: Vec<_> = config.commands.iter().map(|command| (&*command.name, &*command.body)).collect();
    assert_eq!(commands, [("alias", "Real."), ("real", "Real.")]);
    assert!(config.notes.iter().any(|note| note.contains("leak.md: ignored: is a symbolic link that leads out")));
    let found = Project::of(&ProjectDirectories::of(&scene.env().directory)).unwrap();
    assert!(found.teams.iter().all(|file| file.bytes.is_err()), "{:?}", found.teams);

    fs::rename(project.join("config.toml"), scene.home.path().join("config.toml")).unwrap();
    symlink("../../config.toml", project.join("config.toml")).unwrap();
    scene.trust();
    assert!(scene.error().message.contains("not a regular file"));
}
