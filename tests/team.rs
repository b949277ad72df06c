//! Several agents on one task, on the real loop with sockets, a scripted peer and a manual clock.

mod chat;
mod common;
mod failures;
mod many;
mod strategies;
mod workflows;

use std::time::Duration;

use polylogue::multi_agent::{MemberOutcome, Settings, Strategy};

use crate::support::internals::{Probe, WakeReason};
use crate::support::peer::Peer;
use common::{accept_members, answer, app, finish, limit, members, outcome_names, start, time_left, wait_for_retry};

const SECOND: Duration = Duration::from_secs(1);

fn settings(strategy: Strategy) -> Settings {
    Settings { strategy, ..Settings::default() }
}

#[test]
fn parallel_members_work_at_once_and_answers_keep_their_order() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = start(&mut app, &members(&["a", "b", "c"]), "hello", settings(Strategy::Parallel));
    let [a, b, c] = accept_members(&mut app, &peer, ["a", "b", "c"]);
    assert_eq!(app.repl.roster().len(), 4, "each member is an agent");
    for (exchange, text) in [(&c, "from c"), (&a, "from a"), (&b, "from b")] {
        answer(exchange, text);
    }
    let outcome = finish(&mut app, &run);
    assert_eq!(outcome.answer.as_deref(), Some("from a\n---\nfrom b\n---\nfrom c"));
    assert_eq!(outcome.tokens, 3 * 12);
    assert_eq!(app.repl.roster().len(), 1, "members are removed when they are done");
    assert_eq!(app.timeout().why, WakeReason::Nothing);
}

#[test]
fn a_hung_member_is_cancelled_at_its_deadline_and_its_late_answer_ignored() {
    let peer = Peer::start();
    let mut app = app(&peer);
    // Shorter than libcurl's connect timeout, whose timer would be due first.
    let settings = Settings { agent_timeout: 20 * SECOND, ..settings(Strategy::Parallel) };
    let run = start(&mut app, &members(&["slow", "quick"]), "hello", settings);
    let [slow, quick] = accept_members(&mut app, &peer, ["slow", "quick"]);
    slow.stream().text("too la");
    answer(&quick, "done");
    app.turn_until("the quick member is done", |app| app.repl.active_members(&run).len() == 1);
    let left = time_left(&mut app);
    app.advance(left - Duration::from_millis(1));
    assert!(app.repl.outcome(&run).is_none() && !slow.is_closed_by_client());
    app.advance(Duration::from_millis(1));
    slow.wait_for_close();
    slow.text("te").finish("stop").done();
    let outcome = finish(&mut app, &run);
    assert_eq!(outcome.answer.as_deref(), Some("done"));
    assert_eq!(outcome_names(&outcome), ["timed out", "answered"]);
    assert_eq!(outcome.results[0].duration, 20 * SECOND);
}

#[test]
fn a_failed_attempt_is_retried_after_the_requested_delay_without_a_trace_of_the_first() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = start(&mut app, &members(&["a"]), "hello", settings(Strategy::Sequential));
    let [first] = accept_members(&mut app, &peer, ["a"]);
    limit(&first, 7);
    let left = wait_for_retry(&mut app, 7 * SECOND);
    app.advance(left);
    let [again] = accept_members(&mut app, &peer, ["a"]);
    assert_eq!(again.request().body, first.request().body);
    answer(&again, "at last");
    let outcome = finish(&mut app, &run);
    assert_eq!((outcome.answer.as_deref(), outcome.results[0].attempts), (Some("at last"), 2));
    assert!(matches!(&outcome.results[0].outcome, MemberOutcome::Answered(_)));
}
