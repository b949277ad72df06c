//! Many members, and many tasks one after the other.

use std::time::Duration;

use polylogue::repl::Why;
use polylogue::team::coordinator::member::Member;
use polylogue::team::coordinator::settings::{Settings, Strategy};

use super::scene::{finish, start};
use crate::support::harness::{Harness, Plan};

fn parallel() -> Settings {
    Settings { strategy: Strategy::Parallel, ..Settings::default() }
}

#[test]
fn a_hundred_members_work_at_once() {
    let mut house = Harness::new(Plan { size: None, ..Plan::default() });
    let run = start(&mut house, &Member::numbered(100).expect("members"), "!slow 50\nhello", parallel());
    house.turn_until("all of them", |house| house.repl.roster().at_work().len() == 100);
    house.turn_until("their answers", |house| {
        house.advance(Duration::from_millis(50));
        house.repl.outcome(&run).is_some()
    });
    let outcome = finish(&mut house, &run);
    assert!(outcome.results.iter().all(|result| result.is_success()));
    assert_eq!((house.repl.roster().len(), house.timeout().why), (1, Why::Nothing));
}
