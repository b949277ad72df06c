//! The `wait` tool: when it is over, and what it costs meanwhile. The clock moves only when a test moves it.

use std::time::Duration;

use polylogue::{Change, MailAct, MailId, QueueEdit};

use super::{bodies, family, mail};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State, Timeout, WakeReason};
use crate::support::scene::turn_a_while;

/// Agent `n` calls `wait` with these arguments.
fn wait(app: &mut Harness, n: usize, arguments: &str) {
    app.say(n, &format!("%tool wait {arguments}"));
    app.turn();
    app.turn();
}

/// The result of the agent's newest wait, if it has one.
fn answer(app: &Harness, n: usize) -> Option<String> {
    app.tool_results(n).pop().map(|result| result.content)
}

fn assert_waits(app: &mut Harness, n: usize) {
    turn_a_while(app);
    assert_eq!((app.state(n), answer(app, n)), (State::ExecutingTool, None));
}

/// The wait ends although the clock does not move, and the agent repeats the result.
fn assert_over(app: &mut Harness, n: usize, begins: &str) {
    app.turn_until("the end of the wait", |app| app.state(n) == State::Idle);
    let answer = answer(app, n).expect("the call is answered");
    assert!(answer.starts_with(begins), "{answer}");
    assert!(app.replies(n).last().is_some_and(|reply| reply.contains(answer.lines().next().unwrap_or_default())));
}

fn send(app: &mut Harness, from: &str, to: usize, body: &str) {
    let to = app.id(to);
    app.ask(app.n(from), Change::Mail(MailAct::Send { to, body: body.into() }));
}

/// Keeps an agent busy until it is interrupted.
fn keep_busy(app: &mut Harness, name: &str) {
    app.say(app.n(name), "%hang");
    app.turn();
}

#[test]
fn unread_mail_ends_a_wait_at_once() {
    let mut app = family();
    send(&mut app, "ann", 0, "early");
    wait(&mut app, 0, "{}");
    assert_over(&mut app, 0, "1 unread message.");
    wait(&mut app, 0, "{\"from\":\"ann\"}");
    assert_over(&mut app, 0, "1 unread message.\nann: idle");
    assert_eq!(mail(&app, "root"), [("early".to_owned(), false)], "waiting is not reading");
}

#[test]
fn mail_that_arrives_later_ends_a_wait() {
    let mut app = family();
    wait(&mut app, 0, "{}");
    assert_waits(&mut app, 0);
    send(&mut app, "bob", 0, "late");
    assert_over(&mut app, 0, "1 unread message.");
}

#[test]
fn a_wait_for_one_agent_is_not_ended_by_mail_from_another() {
    let mut app = family();
    keep_busy(&mut app, "ann");
    wait(&mut app, 0, "{\"from\":\"ann\"}");
    send(&mut app, "bob", 0, "me too");
    assert_waits(&mut app, 0);
    send(&mut app, "ann", 0, "at last");
    assert_over(&mut app, 0, "2 unread messages.\nann: waiting for the model");
}

#[test]
fn an_agent_that_goes_idle_without_sending_mail_is_no_longer_waited_for() {
    let mut app = family();
    keep_busy(&mut app, "ann");
    wait(&mut app, 0, "{\"from\":\"ann\"}");
    assert_waits(&mut app, 0);
    app.ask(1, Change::Interrupt);
    assert_over(&mut app, 0, "0 unread messages.\nann: idle");
}

#[test]
fn an_agent_with_queued_texts_is_not_done() {
    let mut app = family();
    keep_busy(&mut app, "ann");
    app.say(1, "and then\n%hang");
    wait(&mut app, 0, "{\"from\":\"ann\"}");
    app.ask(1, Change::Interrupt);
    assert_waits(&mut app, 0);
    assert_eq!(app.state(1), State::Idle);
    app.ask(1, Change::EditQueue(QueueEdit::TakeBackNewest));
    assert_over(&mut app, 0, "0 unread messages.\nann: idle");
}

#[test]
fn an_agent_that_was_just_forked_is_waited_for_until_it_is_done() {
    let mut app = family();
    app.say(0, "%tool fork {\"name\":\"new\",\"prompt\":\"%hang\"}\n%tool wait {\"from\":\"new\"}");
    app.turn();
    turn_a_while(&mut app);
    assert_eq!(app.state(0), State::ExecutingTool);
    app.ask(app.n("new"), Change::Interrupt);
    assert_over(&mut app, 0, "0 unread messages.\nnew: idle");
}

#[test]
fn a_killed_agent_is_no_longer_waited_for() {
    let mut app = family();
    let ann = app.id(1);
    keep_busy(&mut app, "ann");
    wait(&mut app, 0, "{\"from\":\"ann\"}");
    app.ask(0, Change::Kill { agent_id: ann, cascade: false });
    assert_over(&mut app, 0, "0 unread messages.\nann (dead)");
}

#[test]
fn a_wait_for_an_agent_killed_in_the_same_turn_is_answered() {
    let mut app = family();
    keep_busy(&mut app, "ann");
    let bob = app.n("bob");
    app.say(bob, "%slow 300\nI\n%tool wait {\"from\":\"ann\"}");
    app.enter("/kill ann");
    app.advance(Duration::from_millis(350));
    // The confirmation and the end of the reply arrive in one turn.
    app.terminal().input.extend_from_slice(b"\r");
    app.advance(Duration::from_millis(250));
    let bob = app.n("bob");
    assert_over(&mut app, bob, "no agent \"ann\"");
}

#[test]
fn a_wait_of_zero_seconds_returns_what_is_there() {
    let mut app = family();
    keep_busy(&mut app, "ann");
    wait(&mut app, 0, "{\"timeout\":0}");
    assert_over(&mut app, 0, "Timed out. 0 unread messages.");
    wait(&mut app, 0, "{\"timeout\":0,\"from\":\"ann\"}");
    assert_over(&mut app, 0, "Timed out. 0 unread messages.\nann: waiting for the model");
    send(&mut app, "ann", 0, "there");
    wait(&mut app, 0, "{\"timeout\":0}");
    assert_over(&mut app, 0, "1 unread message.");
}

#[test]
fn a_wait_in_the_background_costs_nothing_until_its_time_is_over() {
    let mut app = family();
    wait(&mut app, 1, "{\"timeout\":60}");
    turn_a_while(&mut app);
    let expected = Timeout { after: Some(Duration::from_secs(60)), why: WakeReason::Agent(app.id(1), "wait") };
    assert_eq!(app.timeout(), expected);
    assert!(app.repl.roster().with_live_tools().is_empty() && app.repl.roster().at_work().is_empty());
    app.advance(Duration::from_millis(59_999));
    assert_waits(&mut app, 1);
    app.advance(Duration::from_millis(1));
    assert_over(&mut app, 1, "Timed out. 0 unread messages.");
    assert_eq!(app.timeout().why, WakeReason::Nothing);
}

#[test]
fn a_wait_that_names_no_time_ends_after_five_minutes_and_none_lasts_more_than_an_hour() {
    for (arguments, seconds) in [("{}", 300), ("{\"timeout\":3600}", 3600)] {
        let mut app = family();
        wait(&mut app, 1, arguments);
        assert_eq!(app.timeout().after, Some(Duration::from_secs(seconds)));
    }
    let mut app = family();
    wait(&mut app, 1, "{\"timeout\":3601}");
    app.turn_until("an answer", |app| app.state(1) == State::Idle);
    assert!(app.tool_results(1)[0].is_error);
}

#[test]
fn a_wait_for_oneself_ends_with_mail_or_with_its_time() {
    let mut app = family();
    wait(&mut app, 1, "{\"timeout\":10,\"from\":\"ann\"}");
    assert_waits(&mut app, 1);
    app.advance(Duration::from_secs(10));
    assert_over(&mut app, 1, "Timed out.");
    send(&mut app, "ann", 1, "a note to myself");
    wait(&mut app, 1, "{\"from\":\"ann\"}");
    assert_over(&mut app, 1, "1 unread message.");
}

#[test]
fn a_wait_for_several_ends_with_the_last_and_a_name_twice_is_a_name_once() {
    let mut app = family();
    keep_busy(&mut app, "ann");
    keep_busy(&mut app, "bob");
    wait(&mut app, 0, "{\"from\":\"ann, bob,ann\"}");
    send(&mut app, "ann", 0, "from ann");
    assert_waits(&mut app, 0);
    app.ask(2, Change::Interrupt);
    assert_over(&mut app, 0, "1 unread message.\nann: waiting for the model\nbob: idle");
    assert_eq!(answer(&app, 0).expect("an answer").lines().count(), 3, "each is reported once");
}

#[test]
fn a_wait_for_an_unknown_agent_is_an_error_at_once() {
    let mut app = family();
    wait(&mut app, 0, "{\"from\":\"ann,carl\"}");
    assert_over(&mut app, 0, "no agent \"carl\"");
    assert!(app.tool_results(0)[0].is_error);
}

#[test]
fn a_wait_that_is_interrupted_is_answered_and_its_mail_is_not_lost() {
    let mut app = family();
    wait(&mut app, 0, "{}");
    app.escape();
    assert_eq!(app.kinds(0).split_off(2), ["user", "tool_call", "usage", "tool_result", "interrupted"]);
    send(&mut app, "ann", 0, "late");
    turn_a_while(&mut app);
    assert_eq!((app.state(0), mail(&app, "root")), (State::Idle, vec![("late".to_owned(), false)]));
    wait(&mut app, 0, "{}");
    assert_over(&mut app, 0, "1 unread message.");
}

#[test]
fn a_wait_that_is_cut_by_a_crash_is_answered_and_its_mail_is_there() {
    let mut app = family();
    wait(&mut app, 0, "{}");
    let app = app.crash_and_restart();
    assert!(answer(&app, 0).is_some_and(|text| text.contains("the process ended")));
    let mut app = app;
    send(&mut app, "ann", 0, "late");
    turn_a_while(&mut app);
    assert_eq!((app.state(0), bodies(&app, "root")), (State::Idle, vec!["late".to_owned()]));
}

#[test]
fn two_waits_of_one_reply_end_each_for_itself() {
    let mut app = family();
    keep_busy(&mut app, "ann");
    keep_busy(&mut app, "bob");
    app.say(0, "%tool wait {\"from\":\"ann\"}\n%tool wait {\"from\":\"bob\"}");
    turn_a_while(&mut app);
    send(&mut app, "bob", 0, "first");
    turn_a_while(&mut app);
    assert_eq!(app.state(0), State::ExecutingTool);
    send(&mut app, "ann", 0, "second");
    app.turn_until("both are over", |app| app.state(0) == State::Idle);
    let answers: Vec<String> = app.tool_results(0).into_iter().map(|result| result.content).collect();
    assert!(answers[0].starts_with("2 unread messages.\nann") && answers[1].starts_with("1 unread message.\nbob"));
}

#[test]
fn agents_that_wait_for_each_other_are_told_at_once() {
    let mut app = family();
    let (ann, bob) = (app.n("ann"), app.n("bob"));
    app.say(bob, "%slow 300\nI\n%tool wait {\"from\":\"ann\"}");
    wait(&mut app, 0, r#"{"from":"bob"}"#);
    wait(&mut app, ann, r#"{"from":"parent"}"#);
    app.advance(Duration::from_millis(600));
    // Bob closes the circle: ann waits for the root, and the root for him.
    assert_over(&mut app, bob, "Not waited: ann waits for you. 0 unread messages.\nann: running a tool");
    app.turn_until("the others go on", |app| app.state(0) == State::Idle && app.state(ann) == State::Idle);
    assert_eq!(answer(&app, 0).as_deref(), Some("0 unread messages.\nbob: idle"));
}

#[test]
fn an_agent_that_waits_for_mail_holds_no_slot() {
    let mut app = Harness::new(Plan { working_limit: 1, ..Plan::default() });
    app.fork_named(0, "ann");
    app.say(1, "%slow 10\nworks\n%tool send_mail {\"to\":\"parent\",\"body\":\"done\"}");
    wait(&mut app, 0, "{\"from\":\"ann\"}");
    // Ann holds the only slot; the root gets it when she releases it.
    assert_eq!(app.state(0), State::WaitingForLlm);
    app.turn_until("the end of both", |app| {
        app.clock.advance(Duration::from_millis(1));
        app.repl.roster().busy().is_empty()
    });
    assert_eq!(bodies(&app, "root"), ["done"]);

    wait(&mut app, 0, "{\"timeout\":60,\"from\":\"ann\"}");
    app.ask(0, Change::Mail(MailAct::Delete(MailId(1))));
    wait(&mut app, 0, "{\"timeout\":60}");
    app.say(1, "I work");
    app.turn_until("ann is done while the root waits", |app| app.replies(1).iter().any(|r| r == "I work"));
    assert_eq!(app.state(0), State::ExecutingTool);
}
