//! A question that is open when the program ends is asked again at the next start: about the same call, planned anew. Until
//! the person answers, nothing runs and nothing is sent.

use polylogue::config::{LimitName, Policy, Rules, TreeLimits};
use polylogue::{Change, Decision, Setting, Status};
use serde_json::{Value, json};

use crate::support::client::{Client, open_to_clients};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::peer::Peer;
use crate::support::scene::{
    app, app_with_agents, assert_shows, assert_valid, bash, reply_with_calls, results_in, turn_a_while,
};

/// How the program ends.
const ENDS: [fn(Harness) -> Harness; 2] = [Harness::crash_and_restart, exit_and_restart];

fn exit_and_restart(mut app: Harness) -> Harness {
    app.repl.leave().expect("the program exits");
    app.crash_and_restart()
}

fn calls(app: &mut Harness, peer: &Peer, n: usize, calls: &[(&str, &str)]) {
    app.say(n, "do it");
    reply_with_calls(&app.accept(peer), calls);
}

/// The model reads the file `notes`, and calls these tools in its next reply.
fn calls_after_reading(app: &mut Harness, peer: &Peer, next: &[(&str, &str)]) {
    calls(app, peer, 0, &[("read_file", "{\"file_path\":\"notes\"}")]);
    reply_with_calls(&app.accept(peer), next);
}

/// The results in the next request of agent 0, which is answered.
fn results(app: &mut Harness, peer: &Peer) -> Vec<String> {
    let exchange = app.accept(peer);
    let body: Value = exchange.request().json();
    assert_valid(&body);
    exchange.stream().text("done").finish("stop").done();
    app.turn_until_idle();
    results_in(&body).into_iter().map(|(_, content)| content).collect()
}

/// What the person is asked at agent 0: its digest, and its text.
fn question(app: &Harness) -> (String, String) {
    let asked = app.agent(0).question().expect("a question");
    (asked.digest(), format!("{}\n{}", asked.question.title, asked.question.detail.join("\n")))
}

fn write(path: &str, content: &str) -> String {
    json!({"file_path": path, "content": content}).to_string()
}

#[test]
fn a_question_survives_every_end_and_its_answer_goes_on_with_the_turn() {
    for end in ENDS {
        for allowed in [true, false] {
            let peer = Peer::start();
            let mut app = app(&peer);
            calls(&mut app, &peer, 0, &[("bash", &bash("touch made"))]);
            app.turn_until_asked(0);
            let before = question(&app);
            // Also a second time, and a third.
            let mut app = end(end(app));
            assert_eq!((question(&app), app.agent(0).status()), (before, Status::AwaitingApproval));
            assert_shows(&mut app, "1 question was open when the program ended");
            assert!(!app.screen_text().contains("interrupted"), "{}", app.screen_text());
            turn_a_while(&mut app);
            assert!(!app.directory().join("made").exists() && peer.try_accept().is_none());
            app.press_at_question(if allowed { b"y" } else { b"n" });
            let results = results(&mut app, &peer);
            let mark = if allowed { "●" } else { "✗" };
            let shown = format!("{mark} bash: touch made");
            assert_eq!(app.screen_text().matches(&shown).count(), 1, "{}", app.screen_text());
            assert_eq!(app.directory().join("made").exists(), allowed);
            assert_eq!((results.len(), results[0].contains("denied")), (1, !allowed));
            let app = app.crash_and_restart();
            assert_eq!((app.state(0), app.replies(0)), (State::Idle, vec!["done".to_owned()]));
        }
    }
}

#[test]
fn calls_of_the_turn_that_have_run_keep_their_results_and_are_not_run_again() {
    for end in ENDS {
        let peer = Peer::start();
        let mut app = app(&peer);
        let all = [bash("echo ran >> count; cat count"), bash("echo ran >> count; echo two"), bash("echo three")];
        let all: Vec<(&str, &str)> = all.iter().map(|arguments| ("bash", arguments.as_str())).collect();
        calls(&mut app, &peer, 0, &all);
        app.answer(0, true);
        app.turn_until("the next question", |app| {
            app.agent(0).question().is_some_and(|asked| asked.question.title.contains("two"))
        });
        let mut app = end(app);
        app.answer(0, true);
        app.turn_until("the last question", |app| {
            app.agent(0).question().is_some_and(|asked| asked.question.title.contains("three"))
        });
        let mut app = end(app);
        app.answer(0, false);
        let results = results(&mut app, &peer);
        assert_eq!([results[0].trim(), results[1].trim()], ["ran", "two"]);
        assert!(results[2].contains("denied"));
        assert_eq!(std::fs::read_to_string(app.directory().join("count")).unwrap(), "ran\nran\n");
    }
}

#[test]
fn a_file_that_changed_while_the_program_was_away_is_shown_as_it_is_now() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let file = app.directory().join("notes");
    std::fs::write(&file, "first\nkeep\n").unwrap();
    let edit = json!({"file_path": "notes", "old_string": "keep", "new_string": "kept"}).to_string();
    for (tool, arguments) in [("write_file", write("notes", "new\n")), ("edit_file", edit)] {
        calls_after_reading(&mut app, &peer, &[(tool, &arguments)]);
        app.turn_until_asked(0);
        let (digest, text) = question(&app);
        std::fs::write(&file, "second\nkeep\n").unwrap();
        app = app.crash_and_restart();
        let (anew, shown) = question(&app);
        assert!(anew != digest && shown.contains("second") && !shown.contains("first"), "{text}\n{shown}");
        open_to_clients(&mut app);
        let mut client = Client::connect(&app);
        client.refused(&mut app, "answer", json!({"id": format!("0.1-{digest}"), "allow": true}));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "second\nkeep\n");
        client.done(&mut app, "answer", json!({"id": format!("0.1-{anew}"), "allow": true}));
        results(&mut app, &peer);
        let written = std::fs::read_to_string(&file).unwrap();
        assert_eq!(written, if tool == "write_file" { "new\n" } else { "second\nkept\n" });
        std::fs::write(&file, "first\nkeep\n").unwrap();
        app = app.crash_and_restart();
    }
}

#[test]
fn a_call_that_can_no_longer_be_made_ends_its_turn_as_an_interrupted_one() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let file = app.directory().join("notes");
    std::fs::write(&file, "old").unwrap();
    let edit = json!({"file_path": "notes", "old_string": "old", "new_string": "new"}).to_string();
    calls_after_reading(&mut app, &peer, &[("edit_file", &edit), ("bash", &bash("touch made"))]);
    app.turn_until_asked(0);
    std::fs::remove_file(&file).unwrap();
    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(0).status(), Status::Interrupted);
    assert_shows(&mut app, "1 turn was interrupted");
    let results = app.tool_results(0);
    assert_eq!(results.iter().map(|result| result.is_error).collect::<Vec<_>>(), [false, true, true]);
    assert!(results[1].content.contains("not run"), "{results:?}");
    app.say(0, "go on");
    let exchange = app.accept(&peer);
    assert_valid(&exchange.request().json());
    assert!(!app.directory().join("made").exists());
}

#[test]
fn what_would_be_free_today_is_asked_again_all_the_same() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, 0, &[("bash", &bash("touch made")), ("write_file", &write("too", "x"))]);
    app.turn_until_asked(0);
    app.reconfigure(|plan| Plan { policy: Policy::Yolo, rules: Rules::default(), ..plan });
    let mut app = app.crash_and_restart();
    turn_a_while(&mut app);
    assert_eq!(app.agent(0).status(), Status::AwaitingApproval);
    assert!(!app.directory().join("made").exists());
    app.answer(0, true);
    results(&mut app, &peer);
    assert!(app.directory().join("made").exists() && app.directory().join("too").exists());
}

#[test]
fn what_a_new_rule_forbids_is_not_asked_and_not_run() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, 0, &[("bash", &bash("touch made"))]);
    app.turn_until_asked(0);
    app.reconfigure(|plan| Plan {
        rules: Rules { deny: vec!["bash(touch *)".parse().expect("a rule")], ..Rules::default() },
        ..plan
    });
    let mut app = app.crash_and_restart();
    turn_a_while(&mut app);
    assert_eq!(app.agent(0).status(), Status::Interrupted);
    assert!(!app.directory().join("made").exists() && peer.try_accept().is_none());
}

#[test]
fn where_new_calls_would_be_refused_the_question_is_asked_again_and_can_be_answered() {
    for allowed in [true, false] {
        let peer = Peer::start();
        let mut app = app(&peer);
        calls(&mut app, &peer, 0, &[("bash", &bash("touch made")), ("write_file", &write("too", "x"))]);
        app.turn_until_asked(0);
        app.ask(0, Change::Setting(Setting::Approval(Policy::Never)));
        let mut app = app.crash_and_restart();
        assert_eq!(app.agent(0).policy, Policy::Never);
        app.press_at_question(if allowed { b"y" } else { b"n" });
        let results = results(&mut app, &peer);
        assert_eq!(app.directory().join("made").exists(), allowed, "{results:?}");
        assert!(results[1].contains("policy never") && !app.directory().join("too").exists(), "{results:?}");
    }
}

/// The tool copies the data directory as it is while it runs, as a crash at that moment would leave it.
#[test]
fn a_call_that_was_allowed_before_a_crash_is_not_asked_again() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { has_sandbox: false, real_time: true, ..Plan::peer(&peer.url()) });
    let copies = tempfile::tempdir().unwrap();
    let copied = copies.path().join("data");
    let copy = format!("cp -r {} {}", app.data().display(), copied.display());
    calls(&mut app, &peer, 0, &[("bash", &bash(&copy)), ("bash", &bash("touch made"))]);
    app.turn_until_asked(0);
    app.answer(0, true);
    let number = app.turn_until_asked(0);
    assert_eq!(number, 2);
    let store = polylogue::Store::open(&copied).expect("the copy");
    let config = Plan::default().config(&copied);
    let repl = polylogue::Repl::open(config, store, polylogue::Clock::system()).expect("it opens");
    let agent = repl.roster().nth(0).and_then(|id| repl.roster().get(id)).expect("agent 0");
    assert_eq!((agent.status(), agent.question()), (Status::Interrupted, None));
    let results = polylogue::Store::open_read_only(&copied).expect("the copy").tail(agent.id(), None, 10).unwrap();
    let results: Vec<String> = results.into_iter().map(|message| format!("{:?}", message.body)).collect();
    assert!(results.iter().any(|result| result.contains("it may have run completely")), "{results:?}");
}

#[test]
fn esc_kill_and_stop_end_a_question_that_was_asked_again() {
    let peer = Peer::start();
    let mut app = app_with_agents(4, Plan { real_time: true, ..Plan::peer(&peer.url()) });
    for n in 0..4 {
        calls(&mut app, &peer, n, &[("bash", &bash(&format!("touch by-{n}")))]);
        app.turn_until_asked(n);
    }
    let mut app = app.crash_and_restart();
    app.escape();
    app.turn_until("Esc", |app| app.state(0) == State::Idle);
    app.ask(1, Change::Kill { agent_id: app.id(1), cascade: false });
    app.ask(0, Change::Stop(None));
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    turn_a_while(&mut app);
    assert_eq!((app.repl.roster().len(), app.repl.roster().busy().len()), (3, 0));
    assert!((0..4).all(|n| !app.directory().join(format!("by-{n}")).exists()));
    app.say(0, "go on");
    assert_valid(&app.accept(&peer).request().json());
}

#[test]
fn a_text_that_was_queued_behind_a_question_follows_its_turn() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, 0, &[("bash", &bash("true"))]);
    app.turn_until_asked(0);
    app.say(0, "and then");
    let mut app = app.crash_and_restart();
    turn_a_while(&mut app);
    assert_eq!(app.agent(0).queue.len(), 1);
    app.answer(0, true);
    app.accept(&peer).stream().text("done").finish("stop").done();
    let next = app.accept(&peer);
    assert_eq!(crate::support::openai::last_user_text(&next.request().json()), "and then");
}

fn two_agents_at_most() -> Plan {
    let mut tree_limits = TreeLimits::default();
    tree_limits[LimitName::Agents] = Some(2);
    Plan { tree_limits, ..Plan::default() }
}

const FORKS: &str = "%tool fork {\"prompt\":\"hello\"}\n%tool fork {\"prompt\":\"hello\"}\n\
    %tool fork {\"prompt\":\"hello\"}\n%next\ndone";

#[test]
fn a_question_about_a_limit_is_asked_again_and_either_answer_does_what_it_says() {
    for (end, allowed) in ENDS.into_iter().flat_map(|end| [(end, true), (end, false)]) {
        let mut app = Harness::new(two_agents_at_most());
        app.say(0, FORKS);
        app.turn_until_asked(0);
        let before = question(&app);
        let mut app = end(app);
        turn_a_while(&mut app);
        assert_eq!((question(&app), app.repl.roster().len()), (before, 3));
        assert_shows(&mut app, "Raise this limit? raise the limit from 2 to 4");
        app.press_at_question(if allowed { b"y" } else { b"n" });
        app.turn_until_idle();
        assert_eq!(app.repl.roster().len(), if allowed { 4 } else { 3 });
        app.enter("/limit");
        assert_shows(&mut app, if allowed { "agents            3 of 4" } else { "agents            2 of 2" });
        let agents = app.repl.roster().len();
        assert_eq!(app.crash_and_restart().repl.roster().len(), agents);
    }
}

#[test]
fn calls_that_waited_for_the_answer_about_a_limit_go_on_with_it_after_a_restart() {
    for (end, allowed) in ENDS.into_iter().flat_map(|end| [(end, true), (end, false)]) {
        let peer = Peer::start();
        let mut app = Harness::new(Plan {
            real_time: true,
            ..Plan { tree_limits: two_agents_at_most().tree_limits, ..Plan::peer(&peer.url()) }
        });
        let fork = ("fork", "{\"prompt\":\"hello\"}");
        calls(&mut app, &peer, 0, &[fork, fork, fork, fork]);
        for _ in 0..2 {
            app.accept(&peer).stream().text("done").finish("stop").done();
        }
        app.turn_until_asked(0);
        let mut app = end(app);
        app.answer(0, allowed);
        if allowed {
            let mut own = None;
            for _ in 0..3 {
                let exchange = app.accept(&peer);
                let body: Value = exchange.request().json();
                own = Some(results_in(&body)).filter(|results| !results.is_empty()).or(own);
                exchange.stream().text("done").finish("stop").done();
            }
            let own = own.expect("the next request of agent 0");
            assert!(own.len() == 4 && own.iter().all(|(_, result)| result.contains("\"id\"")), "{own:?}");
        }
        app.turn_until_idle();
        assert_eq!(app.repl.roster().len(), if allowed { 5 } else { 3 });
        let results = app.tool_results(0);
        assert!(results.iter().all(|result| !result.content.contains("may have run")), "{results:?}");
    }
}

#[test]
fn a_limit_that_no_longer_holds_leaves_a_question_about_the_call_itself() {
    let mut app = Harness::new(two_agents_at_most());
    app.say(0, FORKS);
    app.turn_until_asked(0);
    app.reconfigure(|plan| Plan { tree_limits: TreeLimits::default(), ..plan });
    let mut app = app.crash_and_restart();
    turn_a_while(&mut app);
    assert_eq!((app.state(0), app.repl.roster().len()), (State::AwaitingApproval, 3));
    app.press_at_question(b"y");
    app.turn_until_idle();
    assert_eq!(app.repl.roster().len(), 4);
}

#[test]
fn a_kill_of_a_stranger_is_asked_about_again() {
    for allowed in [true, false] {
        let mut app = Harness::new(Plan::default());
        app.fork_named(0, "one");
        app.fork_named(0, "other");
        let one = app.n("one");
        app.say(one, "%tool kill {\"agent\":\"other\"}");
        app.turn_until_asked(one);
        let mut app = app.crash_and_restart();
        turn_a_while(&mut app);
        assert!(app.repl.roster().find("other").one().is_some());
        app.answer(one, allowed);
        app.turn_until_idle();
        assert_eq!(app.repl.roster().find("other").one().is_none(), allowed);
    }
}

#[test]
fn ten_questions_survive_and_each_answer_belongs_to_its_own_however_often_the_program_ends() {
    let mut app = app_with_agents(10, Plan { real_time: true, ..Plan::default() });
    for n in 0..10 {
        app.say(n, &format!("%tool bash {{\"command\":\"touch by-{n}\"}}"));
    }
    for n in 0..10 {
        app.turn_until_asked(n);
    }
    let made = |app: &Harness| (0..10).filter(|n| app.directory().join(format!("by-{n}")).exists()).collect::<Vec<_>>();
    let (mut old, mut expected) = (Vec::new(), Vec::new());
    for (round, n) in [7, 2, 9, 0, 4, 1, 8, 3].into_iter().enumerate() {
        app = ENDS[round % 2](app);
        let number = app.turn_until_asked(n);
        let id = app.id(n);
        // Of two answers to one question the first counts, and old numbers answer nothing.
        let first = if round % 3 == 0 { Decision::Deny(None) } else { Decision::Allow };
        if first == Decision::Allow {
            expected.push(n);
        }
        app.ask(n, Change::Answer { question: number, decision: first });
        app.ask(n, Change::Answer { question: number, decision: Decision::Allow });
        app.turn_until("the call is done", |app| {
            app.repl.roster().get(id).is_some_and(|agent| agent.status().is_at_rest())
        });
        for (agent, question) in &old {
            app.ask(*agent, Change::Answer { question: *question, decision: Decision::Allow });
        }
        old.push((n, number));
        expected.sort_unstable();
        assert_eq!(made(&app), expected, "round {round}");
    }
    assert_eq!(app.repl.roster().asking().len(), 2);
}

#[test]
fn typing_while_a_question_is_asked_again_is_text() {
    let mut app = Harness::new(Plan::default());
    app.say(0, "%tool bash {\"command\":\"touch made\"}");
    app.turn_until_asked(0);
    let mut app = app.crash_and_restart();
    app.type_bytes(b"yes, y n");
    assert_eq!((app.draft(0).text(), app.state(0)), ("yes, y n", State::AwaitingApproval));
    assert!(!app.directory().join("made").exists());
}

#[test]
fn what_was_done_beside_a_question_is_not_done_again() {
    for end in ENDS {
        let peer = Peer::start();
        let mut app = app(&peer);
        app.fork_named(0, "other");
        let mut tree_limits = TreeLimits::default();
        tree_limits[LimitName::Agents] = Some(0);
        app.reconfigure(|plan| Plan { tree_limits, ..plan });
        let mut app = app.crash_and_restart();
        let (fork, mail) = ("{\"prompt\":\"x\"}", "{\"to\":\"other\",\"body\":\"news\"}");
        calls(&mut app, &peer, 0, &[("fork", fork), ("send_mail", mail), ("wait", "{\"timeout\":60}")]);
        app.turn_until_asked(0);
        let mut app = end(app);
        assert_eq!(app.agent(app.n("other")).unread, 1);
        app.answer(0, true);
        let child = app.accept(&peer);
        let (child, own) = match results_in(&child.request().json()).is_empty() {
            true => (child, app.accept(&peer)),
            false => (app.accept(&peer), child),
        };
        let body = own.request().json();
        assert_valid(&body);
        let results = results_in(&body);
        assert!(results[1].1.contains("sent to other") && results[2].1.contains("may have run"), "{results:?}");
        for exchange in [child, own] {
            exchange.stream().text("done").finish("stop").done();
        }
        app.turn_until_idle();
        assert_eq!(app.agent(app.n("other")).unread, 1);
    }
}
