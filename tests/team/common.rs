//! Shared by the tests of runs.

use std::rc::Rc;
use std::time::Duration;

use polylogue::multi_agent::{Member, MemberOutcome, MemberResult, Outcome, RunId, Settings};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Timeout, WakeReason};
use crate::support::peer::{Exchange, Peer};

/// Agent 0 without a terminal.
pub fn app(peer: &Peer) -> Harness {
    Harness::new(Plan { size: None, ..Plan::peer(&peer.url()) })
}

/// Members with their names as roles, so that each request shows which member sent it.
pub fn members(names: &[&str]) -> Vec<Member> {
    names.iter().map(|name| Member { role: Some(format!("you are {name}")), ..Member::new(*name) }).collect()
}

/// Starts a task for agent 0. Waits end when the server says.
pub fn start(app: &mut Harness, members: &[Member], text: &str, mut settings: Settings) -> RunId {
    let root = app.id(0);
    settings.retry.jitter = 0.0;
    app.repl.run_task(root, members.to_vec(), text, settings).expect("a run")
}

/// The name of the member that sent this request.
pub fn role_in(exchange: &Exchange) -> String {
    let body = exchange.request().json();
    body["messages"][0]["content"].as_str().unwrap_or_default().trim_start_matches("you are ").to_owned()
}

/// The requests of these members, which may arrive in any order.
pub fn accept_members<const N: usize>(app: &mut Harness, peer: &Peer, names: [&str; N]) -> [Exchange; N] {
    let mut came: Vec<Exchange> = names.iter().map(|_| app.accept(peer)).collect();
    names.map(|name| {
        let at = came.iter().position(|exchange| role_in(exchange) == name);
        came.swap_remove(at.unwrap_or_else(|| panic!("no request of {name}")))
    })
}

/// Answers with a complete response of 12 tokens.
pub fn answer(exchange: &Exchange, text: &str) {
    exchange.stream().text(text).finish("stop").usage(10, 2).done();
}

pub fn finish(app: &mut Harness, run: &RunId) -> Rc<Outcome> {
    app.turn_until("the end of the run", |app| app.repl.outcome(run).is_some());
    app.repl.outcome(run).expect("finished")
}

pub fn outcome_names(outcome: &Outcome) -> Vec<&'static str> {
    let name = |result: &MemberResult| match result.outcome {
        MemberOutcome::Answered(_) => "answered",
        MemberOutcome::Failed(_) => "failed",
        MemberOutcome::TimedOut(_) => "timed out",
        MemberOutcome::Skipped(_) => "skipped",
        MemberOutcome::Cancelled(_) => "cancelled",
    };
    outcome.results.iter().map(name).collect()
}

/// Turns until the loop waits only for a deadline of the run; returns the time left. Checkpoints of replies are written first.
pub fn time_left(app: &mut Harness) -> Duration {
    app.turn_until("a deadline of the run", |app| {
        let Timeout { after, why } = app.timeout();
        if matches!(why, WakeReason::Agent(_, "checkpoint")) {
            app.clock.advance(after.expect("a moment"));
        }
        why == WakeReason::Team
    });
    app.timeout().after.expect("a moment")
}

/// Responds with 429 and this `retry-after`.
pub fn limit(exchange: &Exchange, seconds: u32) {
    let body = r#"{"error":{"message":"slow down","type":"rate_limit"}}"#;
    let (length, seconds) = (body.len().to_string(), seconds.to_string());
    let headers = [("content-type", "application/json"), ("retry-after", &*seconds), ("content-length", &*length)];
    exchange.head(429, &headers).send(body);
}

/// Turns until a retry is scheduled within `most`; returns the time left.
pub fn wait_for_retry(app: &mut Harness, most: Duration) -> Duration {
    app.turn_until("a scheduled retry", |app| {
        let Timeout { after, why } = app.timeout();
        why == WakeReason::Team && after.is_some_and(|after| after <= most)
    });
    app.timeout().after.expect("a moment")
}
