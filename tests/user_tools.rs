//! Programs that are tools: real processes that print a schema and take arguments, or pretend to.

use std::path::PathBuf;
use std::time::Duration;

use polylogue::config::{Policy, Rules, UserToolEntry};
use serde_json::Value;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::sandbox::Level;
use crate::support::peer::Peer;
use crate::support::program::{Home, Program};
use crate::support::scene::{reply_with_calls, results_in};
use crate::support::write_executable;

const SCRIPT: &[u8] = include_bytes!("user_tools/tool.sh");
const ARGUMENTS: &str = r#"{"text":"one two"}"#;

/// A tool of this behaviour, which is also its name. Its program is placed by [`app_with`].
fn tool(behaviour: &str) -> UserToolEntry {
    UserToolEntry {
        name: behaviour.into(),
        command: vec![String::new(), behaviour.into()],
        env: Vec::new(),
        net: Vec::new(),
        timeout: None,
        project: None,
        source: "config.toml:1".into(),
    }
}

struct Scene {
    app: Harness,
    peer: Peer,
    program: PathBuf,
    _elsewhere: tempfile::TempDir,
}

impl Scene {
    fn new(tools: Vec<UserToolEntry>, allow: &[&str], policy: Policy) -> Self {
        let elsewhere = tempfile::tempdir().expect("a directory");
        let program = elsewhere.path().join("tool.sh");
        write_executable(&program, SCRIPT);
        let peer = Peer::start();
        let placed = |mut tool: UserToolEntry| {
            tool.command[0] = program.to_str().expect("UTF-8").into();
            tool
        };
        let user_tools = tools.into_iter().map(placed).collect();
        let rules =
            Rules { allow: allow.iter().map(|rule| rule.parse().expect("a rule")).collect(), ..Rules::default() };
        let plan = Plan { real_time: true, user_tools, rules, policy, ..Plan::peer(&peer.url()) };
        Self { app: Harness::new(plan), peer, program, _elsewhere: elsewhere }
    }

    /// Sends a message, and answers with a call of this tool. Returns its result.
    fn result_of(&mut self, tool: &str, arguments: &str) -> String {
        self.app.enter("do it");
        let exchange = self.app.accept(&self.peer);
        reply_with_calls(&exchange, &[(tool, arguments)]);
        self.end_turn()
    }

    fn end_turn(&mut self) -> String {
        let next = self.app.accept(&self.peer);
        next.stream().text("done").finish("stop").done();
        self.app.turn_until_idle();
        results_in(&next.request().json()).last().expect("a result").1.clone()
    }

    /// The tools of a request that are not built in.
    fn offered(&mut self) -> Vec<Value> {
        self.app.enter("hello");
        let exchange = self.app.accept(&self.peer);
        exchange.stream().text("hi").finish("stop").done();
        self.app.turn_until_idle();
        let request = exchange.request().json();
        let after_built_in = |tool: &&Value| tool["function"]["name"] != "agents";
        let tools = request["tools"].as_array().expect("tools");
        tools.iter().skip_while(after_built_in).skip(1).cloned().collect()
    }

    fn names(&mut self) -> Vec<String> {
        let name = |tool: &Value| tool["function"]["name"].as_str().expect("a name").to_owned();
        self.offered().iter().map(name).collect()
    }

    fn shown(&mut self) -> String {
        self.app.screen_text().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// How often a program was asked for its schema.
    fn asked(&self) -> usize {
        std::fs::read_to_string(self.app.directory().join("asked")).unwrap_or_default().lines().count()
    }
}

#[test]
fn a_program_is_offered_with_its_schema_and_gets_its_arguments() {
    let mut scene = Scene::new(vec![tool("count")], &["tool(count)"], Policy::Ask);
    let offered = scene.offered();
    assert_eq!(offered[0]["function"]["name"], "count");
    assert_eq!(offered[0]["function"]["description"], "Counts words.\nMore.");
    assert_eq!(offered[0]["function"]["parameters"]["required"][0], "text");
    let directory = scene.app.directory().canonicalize().expect("a directory");
    assert_eq!(scene.result_of("count", ARGUMENTS), format!("got {ARGUMENTS} at {}\n", directory.display()));
    assert_eq!(scene.asked(), 1, "the schema of a file that did not change is known");
    let mended = scene.result_of("count", "{}");
    assert!(mended.contains("`text` is missing") && mended.contains("\"required\":[\"text\"]"), "{mended}");
    scene.app.enter("/tools");
    scene.app.turn_until("the list", |app| app.screen_text().contains("Counts words."));
}

#[test]
fn a_call_asks_with_all_of_it_and_policy_and_rules_decide_without() {
    let mut scene = Scene::new(vec![tool("count")], &[], Policy::Ask);
    scene.app.enter("do it");
    reply_with_calls(&scene.app.accept(&scene.peer), &[("count", r#"{"text":"one\ntwo"}"#)]);
    scene.app.turn_until_asked(0);
    let shown = scene.shown();
    for part in ["count: {\"text\"", "two", "program: ", "tool.sh count", "working directory", "sandbox: "] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    scene.app.press_at_question(b"y");
    assert!(scene.end_turn().starts_with("got "));
    // In the sandbox, it is as free as a command.
    let mut auto = Scene::new(vec![tool("count")], &[], Policy::Auto);
    assert!(auto.result_of("count", ARGUMENTS).starts_with("got "));
    auto.app.enter("/approval plan");
    assert!(auto.result_of("count", ARGUMENTS).contains("policy plan"));
    let mut plan = Scene::new(vec![tool("count")], &["tool(count)"], Policy::Plan);
    assert_eq!((plan.names().len(), plan.asked()), (0, 0), "it could change files by itself");
    let mut never = Scene::new(vec![tool("count")], &[], Policy::Never);
    let refused = never.result_of("count", ARGUMENTS);
    assert!(refused.contains("--allow 'tool(count)'"), "{refused}");
}

#[test]
fn programs_that_lie_hang_flood_or_fail_are_said_in_one_line_and_the_others_work() {
    let behaviours = ["count", "floods", "garbage", "fails", "lies", "text"];
    let mut tools: Vec<UserToolEntry> = behaviours.map(tool).into();
    tools.push(UserToolEntry { command: vec!["/nowhere/program".into()], ..tool("nowhere") });
    let mut scene = Scene::new(tools, &[], Policy::Ask);
    assert_eq!(scene.names(), ["count"]);
    let shown = scene.shown();
    for line in [
        "tool floods: --schema printed more than 64 KiB",
        "tool garbage: --schema printed no JSON: expected value at line 1",
        "tool fails: --schema ended with exit code 3: module not found: words",
        "tool lies: its schema is of a tool named \"bash\"; name it \"lies\"",
        "tool text: its schema: its arguments are not an object",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert_eq!(scene.names(), ["count"]);
    assert_eq!(scene.shown().matches("tool lies").count(), 1, "it is said once");
}

#[test]
fn a_program_that_hangs_for_its_schema_does_not_hold_up_the_loop_and_esc_ends_it() {
    let mut scene = Scene::new(vec![tool("hangs")], &[], Policy::Ask);
    scene.app.enter("hello");
    let asked = scene.app.directory().join("asked");
    scene.app.turn_until("it is asked", |_| asked.exists());
    scene.app.turn_until("it is said", |app| app.screen_text().contains("reading the schemas of tools"));
    scene.app.escape();
    scene.app.turn_until_idle();
    let directory = scene.app.directory();
    scene.app.turn_until("it is ended", |_| sleepers_in(&directory) == 0);
}

#[test]
fn a_call_ends_by_its_limit_or_by_esc_and_with_an_error_if_the_program_fails() {
    let hasty = UserToolEntry { timeout: Some(Duration::from_secs(1)), ..tool("slow") };
    let mut scene = Scene::new(vec![hasty, tool("refuses"), tool("long")], &["tool(*)"], Policy::Ask);
    assert_eq!(scene.result_of("refuses", ARGUMENTS), "so far\nno such word\n[exit code 4]");
    assert_eq!(scene.result_of("slow", ARGUMENTS), "[timed out after 1s]");
    let directory = scene.app.directory();
    scene.app.turn_until("nothing is left", |_| sleepers_in(&directory) == 0);
    let long = scene.result_of("long", ARGUMENTS);
    assert!(long.starts_with("start\nx") && long.ends_with("end\n") && long.len() < 40_000, "{}", long.len());
    let mut patient = Scene::new(vec![tool("slow")], &["tool(*)"], Policy::Ask);
    patient.app.enter("do it");
    reply_with_calls(&patient.app.accept(&patient.peer), &[("slow", ARGUMENTS)]);
    let begun = patient.app.directory().join("begun");
    patient.app.turn_until("it runs", |_| begun.exists());
    patient.app.escape();
    patient.app.turn_until_idle();
    let directory = patient.app.directory();
    patient.app.turn_until("nothing is left", |_| sleepers_in(&directory) == 0);
}

#[test]
fn a_program_that_was_replaced_is_asked_again_and_not_run_before() {
    let mut scene = Scene::new(vec![tool("count")], &["tool(*)"], Policy::Ask);
    scene.app.enter("do it");
    let exchange = scene.app.accept(&scene.peer);
    write_executable(&scene.program, &[SCRIPT, b"# changed\n"].concat());
    reply_with_calls(&exchange, &[("count", ARGUMENTS)]);
    let refused = scene.end_turn();
    assert!(refused.contains("was changed after its schema was read"), "{refused}");
    assert!(scene.result_of("count", ARGUMENTS).starts_with("got "));
    assert_eq!(scene.asked(), 2);
}

#[test]
fn a_program_runs_in_the_sandbox_with_its_own_variables_and_asks_for_its_hosts() {
    let secret = UserToolEntry { env: vec![("TOKEN".into(), "t0ken".into())], ..tool("writes") };
    let net = UserToolEntry { net: vec!["example.org".parse().expect("a host")], ..tool("count") };
    let mut scene = Scene::new(vec![secret, net], &[], Policy::Auto);
    assert_eq!(scene.result_of("writes", ARGUMENTS), "outside is closed, token t0ken, key none\n");
    scene.app.enter("do it");
    reply_with_calls(&scene.app.accept(&scene.peer), &[("count", ARGUMENTS)]);
    scene.app.turn_until_asked(0);
    let shown = scene.shown();
    assert!(shown.contains("only example.org") && shown.contains("no rule allows tool(count)"), "{shown}");
    scene.app.press_at_question(b"n");
    assert!(scene.end_turn().contains("denied"));
}

#[test]
fn a_program_with_variables_that_commands_can_change_is_not_run() {
    let (data, workspace) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let script = workspace.path().join("tool.sh");
    write_executable(&script, SCRIPT);
    let absolute = script.to_str().expect("UTF-8").to_owned();
    let secret = |(name, words): (&str, &[&str])| UserToolEntry {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![("TOKEN".into(), "t0ken".into())],
        ..tool(name)
    };
    let user_tools = [
        ("absolute", &["sh", &absolute, "count"][..]),
        ("relative", &["sh", "tool.sh", "count"]),
        ("itself", &["./tool.sh", "count"]),
        ("option", &["bash", "--rcfile=tool.sh", "-i"]),
    ];
    let user_tools = user_tools.into_iter().map(secret).collect();
    let mut scene = Scene::new(Vec::new(), &[], Policy::Yolo);
    let plan = Plan {
        real_time: true,
        user_tools,
        policy: Policy::Yolo,
        size: Some((250, 24)),
        ..Plan::peer(&scene.peer.url())
    };
    scene.app = Harness::open_in(plan, data, workspace);
    assert_eq!((scene.names(), scene.asked()), (Vec::new(), 0));
    for name in ["absolute", "relative", "itself", "option"] {
        let line = format!("tool {name}: {absolute} is where commands can change it");
        assert!(scene.shown().contains(&line), "{line}: {}", scene.shown());
    }
}

/// An agent may write a program without a question, or with one that says nothing of running it.
#[test]
fn a_program_that_agents_can_write_tells_its_schema_and_changes_nothing_before_a_call() {
    let (data, workspace) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    write_executable(&workspace.path().join("tool.sh"), SCRIPT);
    let open = UserToolEntry { command: vec!["sh".into(), "tool.sh".into(), "count".into()], ..tool("count") };
    let mut scene = Scene::new(Vec::new(), &[], Policy::Ask);
    let plan = Plan { real_time: true, user_tools: vec![open], ..Plan::peer(&scene.peer.url()) };
    scene.app = Harness::open_in(plan, data, workspace);
    assert_eq!((scene.names(), scene.asked()), (vec!["count".to_owned()], 0));
}

#[test]
fn a_question_that_was_open_at_the_end_is_asked_again() {
    let mut scene = Scene::new(vec![tool("count")], &[], Policy::Ask);
    scene.app.enter("do it");
    reply_with_calls(&scene.app.accept(&scene.peer), &[("count", ARGUMENTS)]);
    scene.app.turn_until_asked(0);
    scene.app = scene.app.crash_and_restart();
    scene.app.turn_until_asked(0);
    scene.app.press_at_question(b"y");
    assert!(scene.end_turn().starts_with("got "));
}

#[test]
fn without_a_sandbox_that_works_no_program_is_asked() {
    let mut scene = Scene::new(vec![tool("count")], &["tool(*)"], Policy::Yolo);
    scene.app.agent(0).inputs.environment.sandbox.falls_from(Level::Landlock);
    assert_eq!((scene.names().len(), scene.asked()), (0, 0));
    assert!(scene.shown().contains("tool count: needs a sandbox"), "{}", scene.shown());
}

#[test]
fn the_programs_of_a_project_count_after_trust_and_lie_in_its_directory() {
    let home = Home::new();
    let work = home.directory.path().join("work");
    let programs = work.join(".polylogue/tools");
    std::fs::create_dir_all(&programs).expect("a directory");
    std::fs::create_dir_all(work.join(".git")).expect("a directory");
    write_executable(&programs.join("count"), SCRIPT);
    write_executable(&work.join("open"), SCRIPT);
    let config = |program: &str| {
        let text = format!("[tools.count]\ncommand = [{program:?}, \"count\"]\nnet = [\"example.org\"]\n");
        std::fs::write(work.join(".polylogue/config.toml"), text).expect("a file");
    };
    let run = |args: &[&str]| {
        let mut command = home.command(env!("CARGO_BIN_EXE_polylogue"), args);
        command.current_dir(&work);
        Program::start(command).ends()
    };
    config(".polylogue/tools/count");
    assert!(!run(&["config", "show"]).out.contains("[tools.count]"));
    let trusted = run(&["config", "trust", "--yes"]);
    assert!(trusted.out.contains("Counts words") && trusted.out.contains("tools.count"), "{trusted:?}");
    let doctor = run(&["doctor", "--offline"]);
    assert!(doctor.out.contains("ok    tools          count: Counts words."), "{doctor:?}");
    assert!(doctor.out.contains("a project gives its tools neither variables nor hosts"), "{doctor:?}");
    write_executable(&programs.join("count"), &[SCRIPT, b"# changed\n"].concat());
    assert!(!run(&["config", "show"]).out.contains("[tools.count]"), "its contents were not trusted");
    config("./open");
    assert_eq!(run(&["config", "trust", "--yes"]).code, 0);
    let shown = run(&["config", "show"]);
    assert!(shown.err.contains("its program is not a file in the .polylogue/tools"), "{shown:?}");
}

/// How many processes of the scripted tool wait in a directory.
fn sleepers_in(directory: &std::path::Path) -> usize {
    let directory = directory.canonicalize().expect("a directory");
    let processes = std::fs::read_dir("/proc").expect("a directory").flatten();
    let is_one = |process: &std::fs::DirEntry| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.starts_with(b"sleep\x001000")
            && std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == directory)
    };
    processes.filter(is_one).count()
}
