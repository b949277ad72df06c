//! Rules that a person gives in the answer to a question, and what of them is kept.

use std::path::PathBuf;

use polylogue::config::{Policy, Rules};
use polylogue::{Change, Setting};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::peer::Peer;
use crate::support::scene::{reply_with_calls, results_in};

fn app(peer: &Peer, policy: Policy) -> Harness {
    Harness::new(Plan { policy, rules: Rules::default(), size: Some((100, 30)), ..Plan::peer(&peer.url()) })
}

fn write(path: &str) -> (&'static str, String) {
    ("write_file", json!({ "file_path": path, "content": "new" }).to_string())
}

/// Sends a message to this agent and answers with a reply that calls these tools.
fn calls(app: &mut Harness, peer: &Peer, n: usize, calls: &[(&'static str, String)]) {
    app.say(n, "do it");
    let calls: Vec<(&str, &str)> = calls.iter().map(|(name, arguments)| (*name, arguments.as_str())).collect();
    reply_with_calls(&app.accept(peer), &calls);
}

/// Answers the request with the results of the calls, and returns the last one.
fn last_result(app: &mut Harness, peer: &Peer) -> String {
    let exchange = app.accept(peer);
    exchange.stream().text("that was it").finish("stop").done();
    app.turn_until_idle();
    let request: Value = exchange.request().json();
    results_in(&request).into_iter().map(|(_, text)| text).next_back().expect("a result")
}

/// The agent runs this call without a question.
fn assert_runs(app: &mut Harness, peer: &Peer, n: usize, path: &str) {
    calls(app, peer, n, &[write(path)]);
    last_result(app, peer);
    assert!(app.directory().join(path).exists(), "{path}");
}

/// The agent asks about this call, which is refused.
fn assert_asks(app: &mut Harness, peer: &Peer, n: usize, path: &str) {
    calls(app, peer, n, &[write(path)]);
    app.turn_until_asked(n);
    app.answer(n, false);
    last_result(app, peer);
    assert!(!app.directory().join(path).exists(), "{path}");
}

/// Chooses "always" and this scope at the question on the screen.
fn always(app: &mut Harness, scope: &[u8]) {
    app.press_at_question(b"a");
    app.turn();
    app.advance(std::time::Duration::from_millis(300));
    app.type_bytes(scope);
}

#[test]
fn a_rule_is_shown_before_it_is_given_and_keys_that_come_too_soon_give_nothing() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    calls(&mut app, &peer, 0, &[write("src/a")]);
    app.turn_until_asked(0);
    app.press_at_question(b"x");
    assert!(app.screen_text().contains("Alt+Y to run it, Alt+N to refuse it, Alt+A always"), "{}", app.screen_text());
    app.type_bytes(b"\x7f");
    assert!(app.screen_text().contains("y to run it, n to refuse it, a always"), "{}", app.screen_text());
    app.type_bytes(b"a");
    app.type_bytes(b"s");
    let screen = app.screen_text();
    assert!(screen.contains("  edit(src/**)\n") && screen.contains("s: all agents in this directory"), "{screen}");
    assert!(screen.contains("config.toml"), "{screen}");
    assert!(app.agent(0).question().is_some(), "the key came with the rules");
    app.advance(std::time::Duration::from_millis(300));
    app.type_bytes(b"n");
    assert!(app.screen_text().contains("y to run it") || app.screen_text().contains('…'), "{}", app.screen_text());
    always(&mut app, b"s");
    last_result(&mut app, &peer);
    assert_runs(&mut app, &peer, 0, "src/b");
    assert_asks(&mut app, &peer, 0, "other");
    assert!(!app.data().join("config.toml").exists(), "a rule of the session is not saved");
}

/// Two agents; the first got a rule for `src` with this scope.
fn two_agents_and_a_rule(scope: &[u8]) -> (Peer, Harness) {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    app.fork(0);
    app.switch(0);
    calls(&mut app, &peer, 0, &[write("src/a")]);
    app.turn_until_asked(0);
    always(&mut app, scope);
    last_result(&mut app, &peer);
    (peer, app)
}

#[test]
fn a_rule_of_the_session_holds_for_all_agents_in_the_directory_and_ends_with_the_program() {
    let (peer, mut app) = two_agents_and_a_rule(b"s");
    assert_runs(&mut app, &peer, 1, "src/b");
    app.enter("/rules");
    assert!(app.screen_text().contains("allow  edit(src/**)  (this session)"), "{}", app.screen_text());
    let mut app = app.crash_and_restart();
    assert_asks(&mut app, &peer, 0, "src/c");
}

#[test]
fn a_rule_of_an_agent_holds_for_it_and_later_children_also_after_a_restart_until_it_is_removed() {
    let (peer, mut app) = two_agents_and_a_rule(b"t");
    assert_asks(&mut app, &peer, 1, "src/b");
    app.fork(0);
    let mut app = app.crash_and_restart();
    assert_runs(&mut app, &peer, 0, "src/c");
    assert_runs(&mut app, &peer, 2, "src/d");
    assert_asks(&mut app, &peer, 1, "src/e");
    app.switch(0);
    app.enter("/rules remove edit(src/**)");
    let mut app = app.crash_and_restart();
    assert_asks(&mut app, &peer, 0, "src/f");
}

#[test]
fn a_rule_holds_only_in_the_directory_where_it_was_given() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    let elsewhere = tempfile::tempdir().unwrap();
    let there = std::fs::canonicalize(elsewhere.path()).unwrap();
    calls(&mut app, &peer, 0, &[write("src/a")]);
    app.turn_until_asked(0);
    always(&mut app, b"t");
    last_result(&mut app, &peer);
    app.ask(0, Change::environment(format!("coding@{}", there.display())));
    app.turn_until_idle();
    calls(&mut app, &peer, 1, &[write("src/b")]);
    app.turn_until_asked(1);
    app.answer(1, false);
    last_result(&mut app, &peer);
    assert!(!there.join("src/b").exists());
}

#[test]
fn a_rule_of_a_project_is_saved_in_the_configuration_of_the_person_and_nothing_is_lost_if_it_cannot_be() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    let (file, before) = (app.data().join("config.toml"), "# mine\nmodel = \"echo\" # keep\n");
    std::fs::create_dir(&file).unwrap();
    calls(&mut app, &peer, 0, &[write("src/a")]);
    let question = app.turn_until_asked(0);
    always(&mut app, b"p");
    assert!(app.screen_text().contains("the rule was not saved"), "{}", app.screen_text());
    assert_eq!(app.agent(0).question().map(|pending| pending.number), Some(question), "it is still open");
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, before).unwrap();
    app.advance(std::time::Duration::from_millis(300));
    app.type_bytes(b"p");
    last_result(&mut app, &peer);
    let workspace: PathBuf = std::fs::canonicalize(app.directory()).unwrap();
    let added = format!("\n[projects.\"{}\"]\nallow = [\"edit(src/**)\"]\n", workspace.display());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{before}{added}"));
    let names = std::fs::read_dir(app.directory()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["src"], "nothing is written into the project");
    assert_runs(&mut app, &peer, 0, "src/b");
    app.enter("/rules remove edit(src/**)");
    assert!(app.screen_text().contains("remove it there (polylogue config edit)"), "{}", app.screen_text());
}

#[cfg(feature = "shell-grammar")]
#[test]
fn a_rule_that_was_given_for_the_sandbox_is_not_one_for_commands_without_it() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    let make = ("bash", json!({"command": "touch made"}).to_string());
    calls(&mut app, &peer, 0, std::slice::from_ref(&make));
    app.turn_until_asked(0);
    app.press_at_question(b"a");
    app.turn();
    assert!(app.screen_text().contains("  bash(touch made) in sandbox\n"), "{}", app.screen_text());
    app.advance(std::time::Duration::from_millis(300));
    app.type_bytes(b"t");
    last_result(&mut app, &peer);
    calls(&mut app, &peer, 0, std::slice::from_ref(&make));
    last_result(&mut app, &peer);
    app.reconfigure(|plan| Plan { has_sandbox: false, ..plan });
    let mut app = app.crash_and_restart();
    app.enter("/rules");
    assert!(app.screen_text().contains("allow  bash(touch made) in sandbox  (this agent)"), "{}", app.screen_text());
    calls(&mut app, &peer, 0, &[make]);
    app.turn_until_asked(0);
    app.answer(0, false);
    last_result(&mut app, &peer);
    app.enter("/rules remove bash(touch made)");
    app.enter("/rules");
    assert!(app.screen_text().contains("no rules: a at a question"), "{}", app.screen_text());
}

#[test]
fn what_no_rule_can_allow_offers_none_and_says_why_it_asks() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    calls(&mut app, &peer, 0, &[write("AGENTS.md")]);
    app.turn_until_asked(0);
    app.press_at_question(b"a");
    let screen = app.screen_text();
    assert!(screen.contains("AGENTS.md is protected: changes of it always ask"), "{screen}");
    assert!(screen.contains("Alt+N to refuse it (the input is not empty)"), "a is text: {screen}");
}

#[cfg(feature = "shell-grammar")]
#[test]
fn a_question_names_the_command_that_asks_and_the_line_of_a_rule() {
    let peer = Peer::start();
    let rule: polylogue::config::Rule = "bash(git push*)".parse().unwrap();
    let rules = Rules { ask: vec![rule.from_source(&"/home/me/config.toml:7")], ..Rules::default() };
    let mut app = Harness::new(Plan { rules, size: Some((100, 30)), ..Plan::peer(&peer.url()) });
    for (command, why) in [
        ("ls && cargo test --all | head", "asks because: cargo test --all: may change something"),
        ("cat /etc/hostname", "asks because: /etc/hostname is outside of the workspace"),
        ("echo $HOME", "asks because: not a plain command: a variable or substitution"),
        ("ls; git push", "asks because: the rule ask bash(git push*) (/home/me/config.toml:7)"),
    ] {
        calls(&mut app, &peer, 0, &[("bash", json!({ "command": command }).to_string())]);
        app.turn_until_asked(0);
        app.turn();
        assert!(app.screen_text().contains(why), "{command}: {}", app.screen_text());
        app.answer(0, false);
        last_result(&mut app, &peer);
    }
}

#[test]
fn the_policy_of_an_agent_survives_a_restart_and_never_exceeds_the_ceiling_of_a_run() {
    let mut app = Harness::new(Plan::default());
    app.enter("/approval auto");
    app.fork(0);
    app.ask(1, Change::Setting(Setting::Approval(Policy::Plan)));
    let app = app.crash_and_restart();
    assert_eq!((app.agent(0).policy, app.agent(1).policy), (Policy::Auto, Policy::Plan));
    let directory = app.close();
    let config = Plan::default().config(directory.path());
    let unattended = polylogue::Config { policy: Policy::Never, policy_ceiling: Policy::Never, ..config };
    let store = polylogue::Store::open(directory.path()).unwrap();
    let mut repl = polylogue::Repl::open(unattended, store, polylogue::Clock::system()).unwrap();
    let new = repl.create(None, None).unwrap();
    let policies: Vec<Policy> = repl.list().iter().map(|agent| polylogue_policy(&repl, agent.id)).collect();
    assert_eq!(policies, [Policy::Never, Policy::Plan, Policy::Never], "{new}");
}

fn polylogue_policy(repl: &polylogue::Repl, id: polylogue::AgentId) -> Policy {
    repl.roster().get(id).unwrap().policy
}

#[test]
fn the_first_question_in_a_project_offers_auto_once_and_only_where_there_is_a_sandbox() {
    let offer = "/approval auto (Shift+Tab) runs commands in the sandbox and changes files";
    for has_sandbox in [true, false] {
        let peer = Peer::start();
        let plan = Plan { rules: Rules::default(), size: Some((100, 30)), has_sandbox, ..Plan::peer(&peer.url()) };
        let mut app = Harness::new(plan);
        let works = app.agent(0).inputs.environment.is_sandboxed();
        assert!(has_sandbox || !works);
        calls(&mut app, &peer, 0, &[write("a")]);
        app.turn_until_asked(0);
        assert_eq!(app.screen_text().contains(offer), works, "{}", app.screen_text());
        app.answer(0, false);
        last_result(&mut app, &peer);
        let mut app = app.crash_and_restart();
        calls(&mut app, &peer, 0, &[write("a")]);
        app.turn_until_asked(0);
        assert!(!app.screen_text().contains(offer), "it is said once: {}", app.screen_text());
        app.answer(0, false);
        last_result(&mut app, &peer);
    }
}

#[test]
fn a_narrow_status_line_keeps_the_policy() {
    let endpoint = crate::support::harness::endpoint("openai", "a-model-with-a-rather-long-name-2026-11", "http://x");
    for columns in [20, 40, 60] {
        let plan =
            Plan { size: Some((columns, 20)), endpoint: endpoint.clone(), policy: Policy::Auto, ..Plan::default() };
        let mut app = Harness::new(plan);
        let screen = app.screen_text();
        let status = screen.lines().last().unwrap().trim_end();
        assert!(status.contains("   auto") && !status.contains("a-model"), "{screen}");
    }
}

/// What the screen shows, in one line.
fn words(app: &mut Harness) -> String {
    app.screen_text().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn on_a_narrow_screen_nothing_of_a_question_is_cut_off() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { rules: Rules::default(), size: Some((40, 24)), ..Plan::peer(&peer.url()) });
    calls(&mut app, &peer, 0, &[write("src/directory-with-a-name/file-with-a-name")]);
    app.turn_until_asked(0);
    app.turn();
    app.advance(std::time::Duration::from_millis(300));
    app.type_bytes(b"x");
    let expected = "Alt+Y to run it, Alt+N to refuse it, Alt+A always (the input is not empty)";
    assert!(words(&mut app).contains(expected), "{}", app.screen_text());
    let without_spaces: String = app.screen_text().split_whitespace().collect();
    assert!(without_spaces.contains("src/directory-with-a-name/file-with-a-name"), "{}", app.screen_text());
    app.type_bytes(b"\x7fa");
    let rules = words(&mut app);
    for text in [
        "Run this, and from now on without a question:",
        "t: this agent and those that it forks from now on",
        "edit(src/directory-with-a-name/**)",
    ] {
        assert!(rules.contains(text), "{}", app.screen_text());
    }
    app.escape();
    app.answer(0, false);
    last_result(&mut app, &peer);

    let long = json!({ "file_path": "long", "content": "line\n".repeat(60) }).to_string();
    calls(&mut app, &peer, 0, &[("write_file", long)]);
    app.turn_until_asked(0);
    app.press_at_question(b"\x1b[6~");
    for _ in 0..20 {
        app.type_bytes(b"\x1b[6~");
    }
    assert!(words(&mut app).contains("; PgUp shows those above"), "{}", app.screen_text());
}

#[test]
fn rules_that_do_not_fit_the_screen_are_not_given() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { rules: Rules::default(), size: Some((50, 11)), ..Plan::peer(&peer.url()) });
    calls(&mut app, &peer, 0, &[write("src/a")]);
    app.turn_until_asked(0);
    while !app.screen_text().contains("n to refuse it, a always") {
        app.type_bytes(b"\x1b[6~");
        app.advance(std::time::Duration::from_millis(300));
    }
    app.type_bytes(b"a");
    assert!(words(&mut app).contains("enlarge to see the rules; Esc goes back"), "{}", app.screen_text());
    app.advance(std::time::Duration::from_millis(300));
    for key in [b"s", b"t", b"p"] {
        app.type_bytes(key);
    }
    assert!(app.agent(0).question().is_some() && !app.data().join("config.toml").exists());
    app.escape();
    app.advance(std::time::Duration::from_millis(300));
    assert!(words(&mut app).contains("a always") && app.agent(0).question().is_some(), "{}", app.screen_text());
}

#[test]
fn a_held_key_reads_a_question_to_its_end_and_does_not_answer_it() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    let long = json!({ "file_path": "long", "content": "line\n".repeat(100) }).to_string();
    calls(&mut app, &peer, 0, &[("write_file", long)]);
    app.turn_until_asked(0);
    app.press_at_question(b"y");
    for _ in 0..60 {
        app.advance(std::time::Duration::from_millis(30));
        app.type_bytes(b"y");
        assert!(app.agent(0).question().is_some(), "{}", app.screen_text());
    }
    assert!(words(&mut app).contains("the end of"), "{}", app.screen_text());
    app.advance(std::time::Duration::from_millis(299));
    app.type_bytes(b"y");
    assert!(app.agent(0).question().is_some(), "the time begins anew with every key");
    app.advance(std::time::Duration::from_millis(300));
    app.type_bytes(b"y");
    assert!(app.agent(0).question().is_none(), "{}", app.screen_text());
    last_result(&mut app, &peer);
    assert!(app.directory().join("long").exists());
}

#[test]
fn leaving_says_which_agents_ask() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    calls(&mut app, &peer, 0, &[write("a")]);
    app.turn_until_asked(0);
    app.type_bytes(b"\x03");
    assert!(app.screen_text().contains("agent 0 asks: press again within 2 s to leave"), "{}", app.screen_text());
}

#[test]
fn what_a_person_refuses_in_a_directory_is_refused_below_it_and_what_is_allowed_is_not() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask);
    let top = std::fs::canonicalize(app.directory()).unwrap();
    std::fs::create_dir(top.join("below")).unwrap();
    let rule = |text: &str| vec![text.parse().expect("a rule")];
    let rules = Rules { allow: rule("edit(free)"), ask: Vec::new(), deny: rule("edit(secret)") };
    app.reconfigure(|plan| Plan { project_rules: vec![(top.clone(), rules)], ..plan });
    let mut app = app.crash_and_restart();
    assert_runs(&mut app, &peer, 0, "free");
    app.ask(0, Change::environment(format!("coding@{}", top.join("below").display())));
    app.turn_until_idle();
    calls(&mut app, &peer, 1, &[write("secret")]);
    assert_eq!(last_result(&mut app, &peer), "refused by the rule deny edit(secret)");
    calls(&mut app, &peer, 1, &[write("free")]);
    app.turn_until_asked(1);
}

#[test]
fn a_rule_for_forks_allows_or_refuses_other_providers() {
    for (text, is_allow) in [("fork(*)", true), ("fork(echo/*)", true), ("fork(*)", false)] {
        let peer = Peer::start();
        let mut rules = Rules::default();
        if is_allow { &mut rules.allow } else { &mut rules.deny }.push(text.parse().unwrap());
        let mut app = Harness::new(Plan { rules, ..Plan::peer(&peer.url()) });
        let model = ("fork", json!({ "prompt": "x", "model": "echo/echo" }).to_string());
        calls(&mut app, &peer, 0, &[model]);
        let result = last_result(&mut app, &peer);
        assert_eq!(app.repl.roster().len(), if is_allow { 2 } else { 1 }, "{text}: {result}");
        assert_eq!(result == "refused by the rule deny fork(*)", !is_allow, "{text}: {result}");
    }
}
