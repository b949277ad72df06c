//! Hooks before a turn, of agents that agents started, of questions and of compaction.

use std::fs;

use polylogue::config::{Author, Hook, HookEvent, Policy, RetryPolicy, Settings};
use serde_json::{Value, json};

use super::{answers, app, app_with, calls, hook, write};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::Peer;
use crate::support::scene::{
    answer_next, assert_shows, converse, is_running, mark, reply_with_calls, results_then, texts_in,
};

/// What a hook wrote with `cat >> NAME; echo >> NAME`, a line for each run.
fn told(app: &Harness, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(app.directory().join(name)).unwrap_or_default();
    // The last one may be only half there.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A message as the model gets it, with what a hook printed.
fn added(message: &str, text: &str) -> String {
    format!("{message}\n\n[system] A hook adds this: {text}")
}

#[test]
fn a_session_start_hook_adds_to_the_first_request_of_an_agent_and_again_after_a_restart() {
    let peer = Peer::start();
    let script = "cat >> told; echo >> told; echo the branch is main";
    let mut app = app(&peer, vec![hook(HookEvent::SessionStart, "", script)]);
    let texts = texts_in(&converse(&mut app, &peer, 0, "one", "first"));
    assert_eq!(texts.last().expect("a text"), &added("one", "the branch is main"));
    let texts = texts_in(&converse(&mut app, &peer, 0, "two", "second"));
    assert_eq!(texts.last().expect("a text"), "two");
    app = app.crash_and_restart();
    converse(&mut app, &peer, 0, "three", "third");
    let sources: Vec<Value> = told(&app, "told").into_iter().map(|told| told["source"].clone()).collect();
    assert_eq!(sources, ["startup", "resume"]);
}

#[test]
fn a_matcher_selects_the_source_of_a_session() {
    let peer = Peer::start();
    let by_source = |source: &str| hook(HookEvent::SessionStart, source, &format!("touch {source}"));
    let mut app = app(&peer, vec![by_source("startup"), by_source("resume")]);
    converse(&mut app, &peer, 0, "one", "first");
    assert!(app.directory().join("startup").exists() && !app.directory().join("resume").exists());
}

#[test]
fn a_prompt_hook_is_told_of_each_message_and_adds_to_it() {
    let peer = Peer::start();
    let mut app = app(&peer, vec![hook(HookEvent::UserPrompt, "", "cat >> told; echo >> told; echo it is noon")]);
    for text in ["one", "two"] {
        let texts = texts_in(&converse(&mut app, &peer, 0, text, "ok"));
        assert_eq!(texts.last().expect("a text"), &added(text, "it is noon"));
    }
    let told = told(&app, "told");
    assert_eq!((&told[0]["prompt"], &told[1]["prompt"]), (&json!("one"), &json!("two")));
    assert_eq!(told[0]["hook_event_name"], "UserPromptSubmit");
}

#[test]
fn a_message_that_a_prompt_hook_refuses_is_in_the_draft_and_never_sent() {
    let peer = Peer::start();
    let script = "grep -q secret && { echo 'it holds a key' >&2; exit 2; }; exit 0";
    let mut app = app(&peer, vec![hook(HookEvent::UserPrompt, "", script)]);
    app.enter("my secret");
    app.turn_until("the refusal", |app| !app.draft(0).text().is_empty());
    assert_shows(&mut app, "not sent: a hook refused it: it holds a key");
    assert_eq!(app.draft(0).text(), "my secret");
    app.type_bytes(b"\x15");
    let texts = texts_in(&converse(&mut app, &peer, 0, "my question", "ok"));
    assert!(texts.last().expect("a text") == "my question" && !texts.concat().contains("secret"), "{texts:?}");
    app = app.crash_and_restart();
    let texts = texts_in(&converse(&mut app, &peer, 0, "another", "ok"));
    assert!(!texts.concat().contains("secret"), "{texts:?}");
}

#[test]
fn what_a_session_hook_adds_does_not_let_a_refused_message_pass() {
    let peer = Peer::start();
    let refuse = "grep -q secret && { echo no >&2; exit 2; }; exit 0";
    let hooks = vec![hook(HookEvent::SessionStart, "", "echo hello"), hook(HookEvent::UserPrompt, "", refuse)];
    let mut app = app(&peer, hooks);
    app.enter("my secret");
    app.turn_until("the refusal", |app| !app.draft(0).text().is_empty());
    app.type_bytes(b"\x15");
    let texts = texts_in(&converse(&mut app, &peer, 0, "my question", "ok"));
    assert!(!texts.concat().contains("secret"), "{texts:?}");
    assert_eq!(texts.last().expect("a text"), &added("my question", "hello"), "the session starts with this one");
}

#[test]
fn a_message_whose_hook_was_cut_off_by_a_crash_is_checked_with_the_next_one() {
    let peer = Peer::start();
    let script = "cat > now; grep -q secret now || exit 0; touch up; test -e quick || sleep 60; echo no >&2; exit 2";
    let mut app = app(&peer, vec![hook(HookEvent::UserPrompt, "", script)]);
    app.enter("my secret");
    let up = app.directory().join("up");
    app.turn_until("the hook runs", |_| up.exists());
    fs::write(app.directory().join("quick"), "").expect("a file");
    app = app.crash_and_restart();
    app.enter("my question");
    app.turn_until("the refusal", |app| !app.draft(0).text().is_empty());
    assert_eq!(app.draft(0).text(), "my secret\n\nmy question");
    app.say(0, "another");
    let texts = texts_in(&answer_next(&mut app, &peer, 0, "ok"));
    assert_eq!(texts.last().expect("a text"), "another");
    assert!(!texts.concat().contains("secret") && !texts.concat().contains("question"), "{texts:?}");
}

#[test]
fn a_message_that_was_answered_in_part_is_not_checked_when_its_turn_is_tried_again() {
    let peer = Peer::start();
    let mut app = app(&peer, vec![hook(HookEvent::UserPrompt, "", "test ! -e refuse || exit 2")]);
    calls(&mut app, &peer, &[("list_dir", "{}")]);
    let _second = app.accept(&peer);
    fs::write(app.directory().join("refuse"), "").expect("a file");
    app = app.crash_and_restart();
    app.enter("/retry");
    let results = results_then(&mut app, &peer, 0, "done");
    assert_eq!((results.len(), app.replies(0)), (1, vec!["done".to_owned()]));
}

#[test]
fn a_required_prompt_hook_that_fails_refuses_the_message_and_another_one_does_not() {
    for is_required in [false, true] {
        let peer = Peer::start();
        let mut app = app(&peer, vec![Hook { is_required, ..hook(HookEvent::UserPrompt, "", "exit 3") }]);
        app.enter("one");
        if is_required {
            app.turn_until("the refusal", |app| !app.draft(0).text().is_empty());
            assert_shows(&mut app, "not sent: a hook refused it: a required hook failed: exit 3");
        } else {
            answer_next(&mut app, &peer, 0, "first");
            assert_shows(&mut app, "failed: exit 3");
        }
    }
}

#[test]
fn a_message_is_checked_once_however_often_it_is_tried() {
    let peer = Peer::start();
    let script = "cat >> told; echo >> told; echo it is noon";
    let settings =
        Settings { retry: RetryPolicy { retries: Some(0), ..RetryPolicy::default() }, ..Settings::default() };
    let plan = Plan { settings, ..Plan::peer(&peer.url()) };
    let mut app = app_with(&peer, vec![hook(HookEvent::UserPrompt, "", script)], plan);
    app.enter("one");
    app.accept(&peer).answer(400, "application/json", r#"{"error":{"message":"no"}}"#);
    app.turn_until("the failure", |app| app.agent(0).has_failed());
    app.enter("/retry");
    let texts = texts_in(&answer_next(&mut app, &peer, 0, "fine"));
    assert_eq!((texts.last().expect("a text"), told(&app, "told").len()), (&added("one", "it is noon"), 1));
}

#[test]
fn an_interrupt_ends_a_prompt_hook_and_takes_the_message_back() {
    let peer = Peer::start();
    let mark = mark();
    let script = format!("grep -q secret || exit 0; touch up; sleep {mark}");
    let mut app = app(&peer, vec![hook(HookEvent::UserPrompt, "", &script)]);
    app.enter("my secret");
    let up = app.directory().join("up");
    app.turn_until("the hook runs", |_| up.exists());
    assert_shows(&mut app, "running hooks");
    app.enter("/fork --include-current");
    assert_shows(&mut app, "hooks have not let the message pass yet");
    app.type_bytes(b"\x15");
    app.escape();
    app.turn_until_idle();
    assert_eq!((app.state(0), app.draft(0).text()), (State::Idle, "my secret"));
    app.turn_until("its end", |_| !is_running(&mark));
    app.type_bytes(b"\x15");
    let texts = texts_in(&converse(&mut app, &peer, 0, "my question", "ok"));
    assert!(!texts.concat().contains("secret"), "{texts:?}");
}

#[test]
fn a_hook_answers_questions_in_the_place_of_the_person() {
    let peer = Peer::start();
    let decide = |behavior: &str| answers(json!({"decision": {"behavior": behavior, "message": "not this one"}}));
    let allow = hook(HookEvent::PermissionRequest, "write_file", &decide("allow"));
    let deny = hook(HookEvent::PermissionRequest, "bash", &decide("deny"));
    let silent = hook(HookEvent::PermissionRequest, "list_dir|edit_file", "touch asked");
    let mut app = app(&peer, vec![allow, deny, silent]);
    fs::write(app.directory().join("known"), "a").expect("a file");
    let edit = json!({"file_path": "known", "old_string": "a", "new_string": "b"}).to_string();
    let all = [
        ("write_file", write("it")),
        ("bash", json!({"command": "touch ran"}).to_string()),
        ("list_dir", "{}".to_owned()),
        ("read_file", json!({"file_path": "known"}).to_string()),
    ];
    calls(&mut app, &peer, &all.each_ref().map(|(name, arguments)| (*name, arguments.as_str())));
    let exchange = app.accept(&peer);
    assert!(app.directory().join("it").exists() && !app.directory().join("ran").exists());
    assert!(!app.directory().join("asked").exists(), "nothing was to be asked about a call that only reads");
    reply_with_calls(&exchange, &[("edit_file", &edit)]);
    app.turn_until_asked(0);
    assert!(app.directory().join("asked").exists(), "a hook that says nothing leaves the question to the person");
    app.answer(0, true);
    let results = results_then(&mut app, &peer, 0, "done");
    assert_eq!(results[1], "denied by a hook: not this one");
    assert_eq!(fs::read_to_string(app.directory().join("known")).expect("a file"), "b");
}

#[test]
fn a_hook_that_answers_questions_does_not_answer_those_of_other_hooks_and_changes_nothing() {
    let peer = Peer::start();
    let ask = hook(HookEvent::PreTool, "bash", &answers(json!({"permissionDecision": "ask"})));
    let fields = json!({"decision": {"behavior": "allow"}, "updatedInput": {"file_path": "other", "content": "x"}});
    let mut app = app(&peer, vec![ask, hook(HookEvent::PermissionRequest, "", &answers(fields))]);
    let command = json!({"command": "touch ran"}).to_string();
    calls(&mut app, &peer, &[("write_file", &write("it")), ("bash", &command)]);
    app.turn_until_asked(0);
    assert!(app.directory().join("it").exists() && !app.directory().join("other").exists());
    assert_shows(&mut app, "cannot change calls");
    assert!(!app.directory().join("ran").exists(), "a hook wanted the person to be asked");
    app.answer(0, false);
    results_then(&mut app, &peer, 0, "done");
}

#[test]
fn a_hook_of_a_project_answers_no_question() {
    let peer = Peer::start();
    let allow = answers(json!({"decision": {"behavior": "allow"}}));
    let of_project = Hook { author: Author::Project, ..hook(HookEvent::PermissionRequest, "", &allow) };
    let mut app = app(&peer, vec![of_project]);
    calls(&mut app, &peer, &[("write_file", &write("it"))]);
    app.turn_until_asked(0);
    assert_shows(&mut app, "cannot allow: it is a project's");
    app.answer(0, false);
    results_then(&mut app, &peer, 0, "done");
}

#[test]
fn an_agent_of_an_agent_ends_with_hooks_of_its_own() {
    let peer = Peer::start();
    let stop = hook(HookEvent::Stop, "", "cat >> stops; echo >> stops");
    let subagent = hook(HookEvent::SubagentStop, "", "cat >> subagents; echo >> subagents");
    let prompt = hook(HookEvent::UserPrompt, "", "cat >> prompts; echo >> prompts");
    let plan = Plan { policy: Policy::Yolo, ..Plan::peer(&peer.url()) };
    let mut app = app_with(&peer, vec![stop, subagent, prompt], plan);
    calls(&mut app, &peer, &[("fork", &json!({"prompt": "look"}).to_string())]);
    let first = app.accept(&peer);
    let second = app.accept(&peer);
    for exchange in [first, second] {
        exchange.stream().text("done").finish("stop").done();
    }
    app.turn_until("both end", |app| !told(app, "stops").is_empty() && !told(app, "subagents").is_empty());
    app.turn_until_idle();
    let (stops, subagents, prompts) = (told(&app, "stops"), told(&app, "subagents"), told(&app, "prompts"));
    assert!(stops.iter().all(|told| told["session_id"] == app.id(0).to_string()), "{stops:?}");
    assert!(subagents.iter().all(|told| told["session_id"] == app.id(1).to_string()), "{subagents:?}");
    assert_eq!(prompts.len(), 1, "no person wrote to the child: {prompts:?}");
}

#[test]
fn a_hook_before_compaction_is_told_why_and_refuses_it() {
    let peer = Peer::start();
    let script = "cat >> told; echo >> told; test -e free || { echo 'keep it' >&2; exit 2; }";
    let mut app = app(&peer, vec![hook(HookEvent::PreCompact, "manual", script)]);
    for n in 1..=6 {
        converse(&mut app, &peer, 0, &format!("q{n}"), &"word ".repeat(40));
    }
    app.enter("/compact the colours");
    app.enter("meanwhile");
    app.turn_until("the refusal", |app| !app.agent(0).is_compacting() && !told(app, "told").is_empty());
    assert_shows(&mut app, "not compacted, the conversation is as it was: a hook refused it: keep it");
    let first = told(&app, "told").remove(0);
    assert_eq!((&first["trigger"], &first["custom_instructions"]), (&json!("manual"), &json!("the colours")));
    answer_next(&mut app, &peer, 0, "ok");
    fs::write(app.directory().join("free"), "").expect("a file");
    app.type_bytes(b"\x15");
    app.enter("/compact");
    app.accept(&peer).stream().text("a summary").finish("stop").done();
    app.turn_until("the compaction", |app| app.kinds(0).contains(&"compaction"));
}
