//! Answers to one prompt, side by side.

use std::time::Duration;

use polylogue::Change;
use polylogue::config::{Endpoint, ModelFacts, Prices, ProviderEntry};
use rustix::process::Signal;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::program::{Home, PROGRAM};
use crate::support::pty::Pty;
use crate::support::random::Random;
use crate::support::scene::{app_with_agents, assert_shows, texts_in};

const ALT_C: &[u8] = b"\x1bc";
const SETTLES: Duration = Duration::from_millis(300);
const MODELS: &str = "far/one,far/two,far/three";

/// Agent 0, and a provider of three models, of which the first has a price.
fn plan(peer: &Peer, size: (u16, u16)) -> Plan {
    let prices = Prices { input: 100_000_000, output: 1_000_000_000, ..Prices::default() };
    let facts = ModelFacts { prices: Some(prices), ..ModelFacts::default() };
    let far = ProviderEntry {
        name: "far".into(),
        kind: "openai".into(),
        base_url: peer.url(),
        models: vec![
            ("one".into(), facts),
            ("two".into(), ModelFacts::default()),
            ("three".into(), ModelFacts::default()),
        ],
        ..ProviderEntry::default()
    };
    Plan { size: Some(size), providers: vec![far], endpoint: Endpoint::echo(), ..Plan::default() }
}

/// The requests of these models, in this order.
fn accept_models<const N: usize>(app: &mut Harness, peer: &Peer, models: [&str; N]) -> [Exchange; N] {
    let mut came: Vec<Exchange> = models.iter().map(|_| app.accept(peer)).collect();
    models.map(|model| {
        let at = came.iter().position(|exchange| exchange.request().json()["model"] == model);
        came.swap_remove(at.unwrap_or_else(|| panic!("no request for {model}")))
    })
}

fn settle(app: &mut Harness) {
    app.turn();
    app.advance(SETTLES);
}

/// Three models are asked and have answered `one`, `two` and `three`.
fn answered(peer: &Peer) -> Harness {
    let mut app = Harness::new(plan(peer, (80, 24)));
    app.say(0, "earlier");
    app.turn_until_idle();
    app.enter(&format!("/ask --models {MODELS} which crate?"));
    for (exchange, answer) in accept_models(&mut app, peer, ["one", "two", "three"]).iter().zip(["one", "two", "three"])
    {
        exchange.stream().text(&format!("Use {answer}.")).finish("stop").usage(100, 10).done();
    }
    app.turn_until_idle();
    settle(&mut app);
    app
}

#[test]
fn models_answer_side_by_side_as_they_stream_with_tokens_and_cost() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer, (80, 24)));
    app.say(0, "earlier");
    app.turn_until_idle();
    app.enter(&format!("/ask --models {MODELS} which crate?"));
    assert_shows(&mut app, "── compare ─ 0 of 3 answered");
    let [one, two, three] = accept_models(&mut app, &peer, ["one", "two", "three"]);
    for exchange in [&one, &two, &three] {
        assert_eq!(texts_in(&exchange.request().body), ["earlier", "earlier", "which crate?"]);
    }
    one.stream().text("Use **sqlx**");
    two.stream().text("Use rusqlite");
    app.turn_until("both texts", |app| {
        let screen = app.screen_text();
        screen.contains("Use sqlx") && screen.contains("Use rusqlite")
    });
    let screen = app.screen_text();
    let row = screen.lines().find(|row| row.contains("Use sqlx")).expect("a row");
    assert!(row.contains("Use rusqlite"), "side by side:\n{screen}");
    assert!(screen.contains(" a one") && screen.contains(" b two") && screen.contains(" c three"), "{screen}");
    assert_eq!((screen.matches("writes").count(), screen.matches("waits").count()), (2, 1), "{screen}");
    one.text(", it checks").finish("stop").usage(100, 10).done();
    two.finish("stop").usage(100, 10).done();
    app.turn_until("two are done", |app| app.screen_text().contains("2 of 3 answered"));
    assert_shows(&mut app, "110 tok  $0.020");
    three.error(401, "auth", "wrong key");
    app.turn_until("the failure", |app| app.screen_text().contains("FAILED"));
    assert_shows(&mut app, "2 of 3 answered ─ 1 failed");
    assert_eq!(app.focus(), 0);
}

#[test]
fn a_letter_goes_on_with_that_column_and_the_letters_of_the_others_never_change() {
    let peer = Peer::start();
    let mut app = answered(&peer);
    app.type_bytes(b"xa");
    let screen = app.screen_text();
    assert!(!screen.contains(" a one") && screen.contains(" b two") && screen.contains(" c three"), "{screen}");
    app.type_bytes(b"a");
    assert_shows(&mut app, "── compare ─ 2 of 2");
    let two = app.id(1).short();
    app.type_bytes(b"c");
    assert_eq!((app.focus(), app.repl.roster().len()), (1, 2), "the others are archived");
    assert!(!app.screen_text().contains("compare ─"));
    assert_shows(&mut app, "Use three.");
    assert_shows(&mut app, "the other answer is archived: b two (");
    app.enter(&format!("/unarchive {two}"));
    assert_eq!(app.repl.roster().len(), 3);
}

#[test]
fn what_is_typed_before_the_columns_were_seen_chooses_nothing() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer, (80, 24)));
    app.enter(&format!("/ask --models {MODELS} x\rabc"));
    app.type_bytes(b"a");
    assert_eq!(app.focus(), 0);
    let exchanges = accept_models(&mut app, &peer, ["one", "two", "three"]);
    settle(&mut app);
    app.type_bytes(b"a");
    assert_shows(&mut app, "others still work");
    assert_eq!(app.focus(), 0);
    app.type_bytes(b"ba");
    assert_eq!(app.focus(), 0, "another letter between takes it back");
    app.type_bytes(b"a");
    assert_eq!((app.focus(), app.state(1)), (1, State::WaitingForLlm));
    app.turn_until("the others are archived", |app| app.repl.roster().len() == 2);
    exchanges[1].wait_for_close();
    assert_eq!(app.repl.store().archived_agents().expect("a list").agents.len(), 2);
}

#[test]
fn answers_are_merged_in_a_child_of_the_chosen_one_that_gets_the_others() {
    let peer = Peer::start();
    let mut app = answered(&peer);
    app.type_bytes(b"mb");
    assert_eq!((app.focus(), app.repl.roster().len()), (2, 3), "the fork below the chosen one");
    let exchange = app.accept(&peer);
    assert_eq!(exchange.request().json()["model"], "two");
    let texts = texts_in(&exchange.request().body);
    assert_eq!(texts[3], "Use two.");
    assert!(texts[4].contains("<answer by=\"one\">\nUse one.\n</answer>"), "{}", texts[4]);
    assert!(texts[4].contains("Use three.") && !texts[4].contains("Use two."), "{}", texts[4]);
    exchange.stream().text("Use all.").finish("stop").done();
    app.turn_until_idle();
    assert_shows(&mut app, "Use all.");
}

#[test]
fn a_judge_names_the_best_answer() {
    let peer = Peer::start();
    let mut app = answered(&peer);
    // The judge has the model of the agent at which the prompt was typed, which repeats its input.
    app.type_bytes(b"v");
    app.turn_until("a verdict", |app| app.screen_text().contains("judge: "));
    app.turn_until_idle();
    assert_shows(&mut app, "no choice");
    let judge = app.agent(4);
    assert_eq!(judge.identity.parent, Some(app.id(0)));
    assert!(app.replies(4)[0].contains("<answer letter=\"c\">\nUse three.\n</answer>"));
}

#[test]
fn a_verdict_marks_the_column() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { endpoint: Plan::peer(&peer.url()).endpoint, ..plan(&peer, (80, 24)) });
    app.enter("/ask --models far/one,far/two which?");
    for exchange in accept_models(&mut app, &peer, ["one", "two"]) {
        exchange.stream().text("Use it.").finish("stop").done();
    }
    app.turn_until_idle();
    settle(&mut app);
    app.type_bytes(b"v");
    let exchange = app.accept(&peer);
    assert!(last_user_text(&exchange.request().json()).contains("<answer letter=\"b\">\nUse it.\n</answer>"));
    exchange.stream().text("best: b\nIt is shorter.").finish("stop").done();
    app.turn_until("the verdict", |app| app.screen_text().contains("judge: b is best. It is shorter."));
    assert_shows(&mut app, " b two (best)");
}

#[test]
fn it_is_said_where_the_answers_agree_once_all_are_there() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer, (80, 24)));
    app.enter(&format!("/ask --models {MODELS} which crate?"));
    let exchanges = accept_models(&mut app, &peer, ["one", "two", "three"]);
    let answers = ["Use rusqlite.", "Use diesel. Keep one connection.", "use  rusqlite"];
    for (exchange, answer) in exchanges.iter().zip(answers).take(2) {
        exchange.stream().text(answer).finish("stop").usage(100, 10).done();
    }
    app.turn_until("two are done", |app| app.screen_text().contains("2 of 3 answered"));
    let screen = app.screen_text();
    assert!(!screen.contains("agree") && !screen.contains("differ"), "{screen}");
    exchanges[2].stream().text(answers[2]).finish("stop").usage(100, 10).done();
    app.turn_until("all are done", |app| app.screen_text().contains("3 of 3 answered"));
    assert_shows(&mut app, "= a and c agree; b differs");
    settle(&mut app);
    app.type_bytes(b"xb");
    assert_shows(&mut app, "= all agree");
}

#[test]
fn an_open_comparison_is_found_again_after_a_crash() {
    let peer = Peer::start();
    let mut app = answered(&peer).crash_and_restart();
    app.type_bytes(ALT_C);
    assert_shows(&mut app, "── compare ─ 3 of 3 answered");
    for (column, answer) in [(" a one", "Use one."), (" b two", "Use two."), (" c three", "Use three.")] {
        assert_shows(&mut app, column);
        assert_shows(&mut app, answer);
    }
    assert_shows(&mut app, "110 tok  $0.020");
    settle(&mut app);
    app.type_bytes(b"xa");
    assert_shows(&mut app, "2 of 2 answered");
    let mut app = app.crash_and_restart();
    app.enter("/compare");
    let screen = app.screen_text();
    assert!(!screen.contains(" a one") && screen.contains(" b two") && screen.contains(" c three"), "{screen}");
    settle(&mut app);
    app.type_bytes(b"c");
    assert_shows(&mut app, "Use three.");
    let mut app = app.crash_and_restart();
    app.type_bytes(ALT_C);
    assert_shows(&mut app, "nothing to compare");
}

#[test]
fn a_comparison_that_was_killed_while_it_streamed_shows_what_had_come() {
    let home = Home::new();
    let (path, data) = (home.directory.path().to_str().expect("UTF-8"), home.data());
    let envs = [("HOME", path), ("LANG", "C.UTF-8"), ("POLYLOGUE_DATA_DIR", data.to_str().expect("UTF-8"))];
    let mut chat = Pty::spawn(PROGRAM, &[], &envs, (100, 30));
    chat.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    chat.send("/fork --name kid\r");
    chat.wait_for_text("── kid ");
    chat.send(format!("/ask 0,kid %slow 400\x0afirst words{}\r", " and more".repeat(300)));
    chat.wait_until(|pty| pty.screen_text().matches("first words").count() == 2, "both write");
    chat.kill(Signal::KILL);
    chat.wait_exit();
    let mut again = Pty::spawn(PROGRAM, &["-r", "kid"], &envs, (100, 30));
    again.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    again.send(ALT_C);
    again.wait_for_text("── compare ─ 2 of 2 answered");
    again.wait_until(|pty| pty.screen_text().matches("stopped").count() == 2, "both were cut");
    assert_eq!(again.screen_text().matches("first words").count(), 2, "{}", again.screen_text());
    again.kill(Signal::TERM);
    again.wait_exit();
}

#[test]
fn two_answers_are_shown_as_a_diff() {
    let peer = Peer::start();
    let mut app = answered(&peer);
    app.type_bytes(b"dac");
    assert_shows(&mut app, "a and c: +1 -1 lines");
    assert_shows(&mut app, "-Use one.");
    assert_shows(&mut app, "+Use three.");
    app.type_bytes(b"a");
    assert_eq!(app.focus(), 0, "letters choose nothing while a diff is shown");
    app.escape();
    assert_shows(&mut app, " b two");
    app.escape();
    assert!(!app.screen_text().contains("compare ─"));
    app.type_bytes(ALT_C);
    assert_shows(&mut app, " b two");
}

#[test]
fn an_agent_that_asks_says_so_in_its_column_and_is_answered_in_the_inbox() {
    let mut app = app_with_agents(3, Plan { real_time: true, ..Plan::default() });
    app.enter("/ask 1,2 %tool bash {\"command\":\"touch one\"}");
    app.turn_until("both ask", |app| app.screen_text().matches("ASKS").count() == 2);
    assert_shows(&mut app, "Run this? bash: touch");
    let settled = app.clock.now() + SETTLES;
    app.turn_until("letters choose", |app| app.clock.now() > settled);
    app.turn();
    app.type_bytes(b"y");
    assert_shows(&mut app, "── inbox ─ 2 ask");
    app.press_at_question(b"y");
    app.turn_until("it ran", |app| app.directory().join("one").exists());
}

#[test]
fn existing_agents_are_asked_and_stay_when_one_is_chosen() {
    let mut app = app_with_agents(3, Plan::default());
    app.say(2, "first\n%hang");
    app.turn();
    app.enter("/ask all hello");
    assert_shows(&mut app, "the prompt is queued");
    app.ask(2, Change::Interrupt);
    app.turn_until("the answers", |app| app.screen_text().contains("2 of 3 answered"));
    settle(&mut app);
    app.type_bytes(b"b");
    assert_eq!((app.focus(), app.repl.roster().len()), (1, 3));
    assert_eq!(app.agent(2).queue.len(), 1, "an agent that was there before is not put away");
}

#[test]
fn an_unknown_model_or_agent_asks_nobody() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer, (80, 24)));
    for (line, expected) in [
        ("/ask --models far/one,nowhere/two why?", "nowhere"),
        ("/ask 0,ghost why?", "no agent \"ghost\""),
        ("/ask all", "no prompt given"),
        ("/ask --modles a b", "did you mean --models?"),
    ] {
        app.enter(line);
        assert_shows(&mut app, expected);
        assert_eq!(app.repl.roster().len(), 1);
        app.type_bytes(b"\x15");
    }
}

#[test]
fn more_columns_than_fit_are_reached_with_the_arrows_and_any_size_is_drawn() {
    let mut app = app_with_agents(6, Plan { size: Some((80, 24)), ..Plan::default() });
    app.enter("/ask all hello");
    app.turn_until_idle();
    assert_shows(&mut app, "a to c shown");
    app.type_bytes(b"\x1b[C\x1b[C\x1b[C\x1b[C");
    assert_shows(&mut app, "c to f shown");
    for size in [(20, 6), (10, 3), (2, 2), (1, 1), (200, 60)] {
        app.resize(size);
        app.turn();
    }
    assert_shows(&mut app, "6 of 6 answered");
}

#[test]
fn a_fork_of_a_busy_agent_inherits_no_unanswered_prompt() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer, (80, 24)));
    app.say(0, "done");
    app.turn_until_idle();
    app.say(0, "open\n%hang");
    app.turn();
    app.enter("/ask --models far/one,far/two why?");
    for exchange in accept_models(&mut app, &peer, ["one", "two"]) {
        assert_eq!(texts_in(&exchange.request().body), ["done", "done", "why?"]);
    }
}

/// Columns are dropped, agents killed and the screen resized while answers stream; whatever a letter does, it is about the
/// agent that the letter was given to.
#[test]
fn a_letter_pressed_while_columns_change_never_chooses_another_column() {
    const LETTERS: &[u8] = b"abcef";
    let mut chosen = 0;
    for seed in 1..20 {
        let mut random = Random(seed);
        let mut app = app_with_agents(6, Plan { size: Some((120, 24)), ..Plan::default() });
        app.enter("/ask 1,2,3,4,5 %slow 40\nwords of an answer");
        let asked: Vec<_> = (1..6).map(|n| app.id(n)).collect();
        settle(&mut app);
        for _ in 0..30 {
            let at = random.below(LETTERS.len());
            match random.below(7) {
                0 => drop(app.type_bytes(&[b'x', LETTERS[at]])),
                1 => {
                    let is_alive = app.repl.roster().get(asked[at]).is_some();
                    let kill = Change::Kill { agent_id: asked[at], cascade: false };
                    let root = app.id(0);
                    if is_alive {
                        app.repl.apply(root, kill).expect("it is killed");
                    }
                }
                2 => app.resize(([30, 60, 80, 120][random.below(4)], 24)),
                3 => drop(app.type_bytes(b"\x1b[C")),
                4 => drop(app.type_bytes(b"\t")),
                5 => drop(app.advance(Duration::from_millis(50))),
                _ => {
                    app.type_bytes(&[LETTERS[at]]);
                    let shown = app.focus();
                    let focus = app.id(shown);
                    if focus != app.id(0) {
                        assert_eq!(focus, asked[at], "seed {seed}");
                        chosen += 1;
                        break;
                    }
                }
            }
        }
    }
    assert!(chosen > 5, "{chosen}");
}
