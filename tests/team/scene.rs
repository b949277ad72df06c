//! What scenes with runs are made of.

use std::rc::Rc;
use std::time::Duration;

use polylogue::repl::{RunId, Timeout, Why};
use polylogue::team::coordinator::member::Member;
use polylogue::team::coordinator::outcome::Outcome;
use polylogue::team::coordinator::result::{Ending, MemberResult};
use polylogue::team::coordinator::settings::Settings;

use crate::support::harness::{Harness, Plan};
use crate::support::peer::{Exchange, Peer};

/// Agent 0 without a terminal.
pub fn house(peer: &Peer) -> Harness {
    Harness::new(Plan { size: None, ..Plan::peer(&peer.url()) })
}

/// Members whose roles say who they are: so a request tells whose it is.
pub fn members(names: &[&str]) -> Vec<Member> {
    names.iter().map(|name| Member { role: Some(format!("you are {name}")), ..Member::new(*name) }).collect()
}

/// Agent 0 gives these members a task.
pub fn start(house: &mut Harness, members: &[Member], text: &str, settings: Settings) -> RunId {
    let root = house.id(0);
    house.repl.run_task(root, members.to_vec(), text, settings).expect("a run")
}

/// Whose request this is.
pub fn role_in(exchange: &Exchange) -> String {
    let body = exchange.request().json();
    body["messages"][0]["content"].as_str().unwrap_or_default().trim_start_matches("you are ").to_owned()
}

/// The requests of these members, in whatever order they come.
pub fn accept_members<const N: usize>(house: &mut Harness, peer: &Peer, names: [&str; N]) -> [Exchange; N] {
    let mut came: Vec<Exchange> = names.iter().map(|_| house.accept(peer)).collect();
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
pub fn finish(house: &mut Harness, run: &RunId) -> Rc<Outcome> {
    house.turn_until("the end of the run", |house| house.repl.outcome(run).is_some());
    house.repl.outcome(run).expect("it is over")
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
pub fn time_left(house: &mut Harness) -> Duration {
    house.turn_until("nothing but the run's own time", |house| {
        let Timeout { after, why } = house.timeout();
        if matches!(why, Why::Agent(_, "checkpoint")) {
            house.clock.advance(after.expect("a moment"));
        }
        why == Why::Team
    });
    house.timeout().after.expect("a moment")
}

/// The server wants to be left alone for so many seconds.
pub fn limit(exchange: &Exchange, seconds: u32) {
    let words = r#"{"error":{"message":"slow down","type":"rate_limit"}}"#;
    let (length, seconds) = (words.len().to_string(), seconds.to_string());
    let headers = [("content-type", "application/json"), ("retry-after", &*seconds), ("content-length", &*length)];
    exchange.head(429, &headers).send(words);
}

/// Turns until a member is to be asked again, and gives how long it still has to wait: at most so long.
pub fn wait_for_retry(house: &mut Harness, most: Duration) -> Duration {
    house.turn_until("a wait", |house| {
        let Timeout { after, why } = house.timeout();
        why == Why::Team && after.is_some_and(|after| after <= most)
    });
    house.timeout().after.expect("a moment")
}
