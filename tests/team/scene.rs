//! What scenes with runs are made of.

use std::rc::Rc;
use std::time::Duration;

use polylogue::repl::{RunId, Timeout, WakeReason};
use polylogue::team::coordinator::member::Member;
use polylogue::team::coordinator::outcome::Outcome;
use polylogue::team::coordinator::result::{Ending, MemberResult};
use polylogue::team::coordinator::settings::Settings;

use crate::support::harness::{Harness, Plan};
use crate::support::peer::{Exchange, Peer};

/// Agent 0 without a terminal.
pub fn app(peer: &Peer) -> Harness {
    Harness::new(Plan { size: None, ..Plan::peer(&peer.url()) })
}

/// Members whose roles say who they are: so a request tells whose it is.
pub fn members(names: &[&str]) -> Vec<Member> {
    names.iter().map(|name| Member { role: Some(format!("you are {name}")), ..Member::new(*name) }).collect()
}

/// Agent 0 gives these members a task.
pub fn start(app: &mut Harness, members: &[Member], text: &str, settings: Settings) -> RunId {
    let root = app.id(0);
    app.repl.run_task(root, members.to_vec(), text, settings).expect("a run")
}

/// Whose request this is.
pub fn role_in(exchange: &Exchange) -> String {
    let body = exchange.request().json();
    body["messages"][0]["content"].as_str().unwrap_or_default().trim_start_matches("you are ").to_owned()
}

/// The requests of these members, in whatever order they come.
pub fn accept_members<const N: usize>(app: &mut Harness, peer: &Peer, names: [&str; N]) -> [Exchange; N] {
    let mut came: Vec<Exchange> = names.iter().map(|_| app.accept(peer)).collect();
    names.map(|name| {
        let at = came.iter().position(|exchange| role_in(exchange) == name);
        came.swap_remove(at.unwrap_or_else(|| panic!("{name} has not asked")))
    })
}

/// A whole reply, at the cost of 12 tokens.
pub fn answer(exchange: &Exchange, text: &str) {
    exchange.stream().text(text).finish("stop").usage(10, 2).done();
}

/// Turns until the run is over.
pub fn finish(app: &mut Harness, run: &RunId) -> Rc<Outcome> {
    app.turn_until("the end of the run", |app| app.repl.outcome(run).is_some());
    app.repl.outcome(run).expect("it is over")
}

/// How each member has ended, in order.
pub fn ending_names(outcome: &Outcome) -> Vec<&'static str> {
    let name = |result: &MemberResult| match result.ending {
        Ending::Answered(_) => "answered",
        Ending::Failed(_) => "failed",
        Ending::TimedOut(_) => "timed out",
        Ending::Skipped(_) => "skipped",
        Ending::Cancelled(_) => "cancelled",
    };
    outcome.results.iter().map(name).collect()
}

/// How long nothing happens but that a moment comes which a run has named. What has come of replies is stored before.
pub fn time_left(app: &mut Harness) -> Duration {
    app.turn_until("nothing but the run's own time", |app| {
        let Timeout { after, why } = app.timeout();
        if matches!(why, WakeReason::Agent(_, "checkpoint")) {
            app.clock.advance(after.expect("a moment"));
        }
        why == WakeReason::Team
    });
    app.timeout().after.expect("a moment")
}

/// The server wants to be left alone for so many seconds.
pub fn limit(exchange: &Exchange, seconds: u32) {
    let words = r#"{"error":{"message":"slow down","type":"rate_limit"}}"#;
    let (length, seconds) = (words.len().to_string(), seconds.to_string());
    let headers = [("content-type", "application/json"), ("retry-after", &*seconds), ("content-length", &*length)];
    exchange.head(429, &headers).send(words);
}

/// Turns until a member is to be asked again, and gives how long it still has to wait: at most so long.
pub fn wait_for_retry(app: &mut Harness, most: Duration) -> Duration {
    app.turn_until("a wait", |app| {
        let Timeout { after, why } = app.timeout();
        why == WakeReason::Team && after.is_some_and(|after| after <= most)
    });
    app.timeout().after.expect("a moment")
}
