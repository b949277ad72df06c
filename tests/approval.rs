//! What agents may do without a question: policies, rules, and who may change them.

use polylogue::config::{Policy, Rules};
use polylogue::{Change, Setting, Status};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::peer::Peer;
use crate::support::scene::{reply_with_calls, results_in};

fn rules(allow: &[&str], deny: &[&str]) -> Rules {
    let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("a rule")).collect();
    Rules { allow: parse(allow), ask: Vec::new(), deny: parse(deny) }
}

fn app(peer: &Peer, policy: Policy, rules: Rules) -> Harness {
    Harness::new(Plan { real_time: true, policy, rules, ..Plan::peer(&peer.url()) })
}

fn bash(command: &str) -> (&'static str, String) {
    ("bash", json!({ "command": command }).to_string())
}

fn write(path: &str) -> (&'static str, String) {
    ("write_file", json!({ "file_path": path, "content": "new" }).to_string())
}

/// Sends a message and answers with a reply that calls these tools.
fn calls(app: &mut Harness, peer: &Peer, calls: &[(&'static str, String)]) {
    app.enter("do it");
    let calls: Vec<(&str, &str)> = calls.iter().map(|(name, arguments)| (*name, arguments.as_str())).collect();
    reply_with_calls(&app.accept(peer), &calls);
}

/// Answers the request with the results of the calls, and returns them.
fn results(app: &mut Harness, peer: &Peer) -> Vec<String> {
    let exchange = app.accept(peer);
    exchange.stream().text("that was it").finish("stop").done();
    app.turn_until_idle();
    let request: Value = exchange.request().json();
    results_in(&request).into_iter().map(|(_, text)| text).collect()
}

#[cfg(feature = "shell-grammar")]
#[test]
fn commands_that_only_read_and_those_that_a_rule_allows_run_without_a_question() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask, rules(&["bash(touch made*)", "edit(notes/**)"], &[]));
    std::fs::create_dir(app.directory().join("notes")).unwrap();
    std::fs::write(app.directory().join("here"), "text of here").unwrap();
    let all = [bash("cat here | wc -c"), bash("touch made-it && ls"), write("notes/a")];
    calls(&mut app, &peer, &all);
    let results = results(&mut app, &peer);
    assert_eq!(results[0].trim(), "12");
    assert!(results[1].contains("made-it"), "the calls run in order: {results:?}");
    assert_eq!(std::fs::read_to_string(app.directory().join("notes/a")).unwrap(), "new");
}

#[cfg(feature = "shell-grammar")]
#[test]
fn what_leads_out_of_the_workspace_or_to_another_program_asks() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask, Rules::default());
    std::os::unix::fs::symlink("/etc", app.directory().join("link")).unwrap();
    for command in
        ["cat /etc/hostname", "cat link/hostname", "head link/*", "cat *", "cd link && ls", "ls $HOME", "make"]
    {
        calls(&mut app, &peer, &[bash(command)]);
        app.turn_until_asked(0);
        app.answer(0, false);
        assert!(results(&mut app, &peer).last().unwrap().contains("denied"), "{command}");
    }
}

#[test]
fn a_deny_rule_refuses_without_a_question_and_tells_the_model_which() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Yolo, rules(&["bash(*)"], &["bash(touch *)", "edit(a)"]));
    calls(&mut app, &peer, &[bash("sh -c 'touch it-ran'"), write("a"), write("b")]);
    let results = results(&mut app, &peer);
    assert_eq!(results[0], "refused by the rule deny bash(touch *)");
    assert_eq!(results[1], "refused by the rule deny edit(a)");
    let exists = |name: &str| app.directory().join(name).exists();
    assert_eq!((exists("it-ran"), exists("a"), exists("b")), (false, false, true));
}

#[test]
fn plan_refuses_changes_never_refuses_questions_and_yolo_asks_for_protected_files_only() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Plan, rules(&["bash(touch *)"], &[]));
    calls(&mut app, &peer, &[bash("touch a"), write("b")]);
    let refused = results(&mut app, &peer);
    assert!(refused.iter().all(|text| text.contains("may only read (policy plan)")), "{refused:?}");
    app.enter("/approval never");
    calls(&mut app, &peer, &[write("b")]);
    let refused = results(&mut app, &peer);
    assert!(refused[2].contains("policy never"), "{refused:?}");
    app.enter("/approval yolo");
    assert_eq!(app.agent(0).policy, Policy::Never, "it has to be confirmed");
    assert!(app.screen_text().contains("type /approval yolo confirm"), "{}", app.screen_text());
    app.enter("/approval yolo confirm");
    calls(&mut app, &peer, &[write("b"), write("AGENTS.md")]);
    app.turn_until_asked(0);
    assert!(app.directory().join("b").exists());
    app.answer(0, false);
    results(&mut app, &peer);
    assert!(!app.directory().join("AGENTS.md").exists());
}

#[test]
fn what_only_a_start_can_allow_is_refused_in_a_chat() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask, Rules::default());
    app.enter("/approval --dangerously-allow-everything");
    assert!(app.screen_text().contains("only a chat that is started with"), "{}", app.screen_text());
    app.type_bytes(b"\x15");
    calls(&mut app, &peer, &[write("AGENTS.md")]);
    app.turn_until_asked(0);
}

#[test]
fn a_child_has_the_policy_of_its_parent_and_shift_tab_changes_that_of_one_agent() {
    let peer = Peer::start();
    let mut app = app(&peer, Policy::Ask, Rules::default());
    app.enter("/approval plan");
    assert!(app.screen_text().contains("   plan   "), "the status line shows it: {}", app.screen_text());
    app.enter("/fork");
    let policies = |app: &Harness| (app.agent(0).policy, app.agent(1).policy);
    assert_eq!(policies(&app), (Policy::Plan, Policy::Plan));
    for expected in [Policy::Ask, Policy::Auto, Policy::Plan, Policy::Ask] {
        app.type_bytes(b"\x1b[Z");
        assert_eq!(policies(&app), (Policy::Plan, expected));
    }
    app.ask(0, Change::Setting(Setting::Approval(Policy::Auto)));
    assert_eq!(app.agent(0).policy, Policy::Auto);
}

#[test]
fn auto_asks_only_where_there_is_no_sandbox() {
    for has_sandbox in [true, false] {
        let peer = Peer::start();
        let plan = Plan { policy: Policy::Auto, has_sandbox, real_time: true, ..Plan::peer(&peer.url()) };
        let mut app = Harness::new(plan);
        calls(&mut app, &peer, &[write("a")]);
        if !has_sandbox {
            app.turn_until_asked(0);
            assert_eq!(app.agent(0).status(), Status::AwaitingApproval);
            app.answer(0, true);
        }
        app.accept(&peer).stream().text("done").finish("stop").done();
        app.turn_until_idle();
        assert!(app.directory().join("a").exists());
    }
}
