//! One limiter a provider: when it asks one agent to slow down, all agents that talk to it wait, and nobody else. At the
//! end of the wait one request goes alone, that of the agent on the screen first.

use std::time::Duration;

use polylogue::agent::{State, Wait};
use polylogue::domain::flow::Change;
use polylogue::repl::Why;

use crate::support::harness::{Harness, Plan};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{assert_shows, house_of, let_pass};
use crate::support::sitter::{ATTACHED, Sitter};

const fn s(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// This agent asks something, and is told to come back after so many seconds.
fn limit(house: &mut Harness, peer: &Peer, n: usize, retry_after: &str) {
    house.say(n, &format!("from {n}"));
    let exchange = house.accept(peer);
    exchange.head(429, &[("retry-after", retry_after), ("content-length", "0")]);
    house.turn_until("a retry", |house| matches!(house.agent(n).wait(), Wait::Retry { .. }));
}

/// Who has asked, of requests that say so.
fn asker(exchange: &Exchange) -> String {
    last_user_text(&exchange.request().json())
}

fn answer(exchange: &Exchange) {
    exchange.stream().text("fine").finish("stop").done();
}

fn is_in_line(house: &Harness, n: usize) -> bool {
    house.state(n) == State::WaitingForLlm && matches!(house.agent(n).wait(), Wait::Place)
}

/// So many agents; the last one has been told to come back after 30 s, and these stand in line.
fn paused(peer: &Peer, count: usize, in_line: &[usize]) -> Harness {
    let mut house = house_of(count, Plan::peer(&peer.url()));
    limit(&mut house, peer, count - 1, "30");
    for n in in_line {
        house.say(*n, &format!("from {n}"));
    }
    let_pass(&mut house);
    assert!(in_line.iter().all(|n| is_in_line(&house, *n)) && peer.try_accept().is_none());
    house
}

#[test]
fn when_one_of_twenty_is_limited_all_pause_the_one_on_screen_goes_first_and_the_others_follow() {
    let peer = Peer::start();
    let mut house = house_of(20, Plan::peer(&peer.url()));
    house.say(3, "from 3");
    let running = house.accept(&peer);
    running.stream().text("half ");
    house.turn_until("the half", |house| house.agent(3).partial_text() == "half ");
    limit(&mut house, &peer, 7, "30");
    for n in (0..20).filter(|n| !matches!(n, 3 | 7)).rev() {
        house.say(n, &format!("from {n}"));
        house.advance(Duration::from_millis(1));
    }
    running.text("and half").finish("stop").done();
    house.turn_until("the stream goes on", |house| house.state(3) == State::Idle);
    assert_eq!(house.replies(3), ["half and half"]);

    assert_shows(&mut house, "openai is paused, again in 30 s (Enter tries now, Esc cancels) - the provider");
    house.advance(s(1));
    assert_shows(&mut house, "again in 29 s");
    house.advance(s(29) - Duration::from_millis(19));
    assert!((0..20).filter(|n| !matches!(n, 3 | 7)).all(|n| is_in_line(&house, n)));
    house.advance(Duration::from_millis(1));
    let first = house.accept(&peer);
    assert_eq!(asker(&first), "from 0");
    let_pass(&mut house);
    assert!(peer.try_accept().is_none(), "one request goes alone until it is answered");
    house.switch(1);
    assert_shows(&mut house, "waits until another agent is answered");
    answer(&first);
    let mut others: Vec<String> = (0..18)
        .map(|_| house.accept(&peer))
        .map(|one| {
            answer(&one);
            asker(&one)
        })
        .collect();
    others.sort();
    house.turn_until_idle();
    let mut expected: Vec<String> = (1..20).filter(|n| *n != 3).map(|n| format!("from {n}")).collect();
    expected.sort();
    assert_eq!(others, expected);
    assert!((0..20).all(|n| house.replies(n).len() == 1 && house.last_error(n).is_empty()));
}

#[test]
fn behind_a_pause_those_who_have_waited_longest_go_first_and_who_was_limited_has_its_old_rank() {
    let peer = Peer::start();
    let mut house = house_of(5, Plan { working_limit: 1, ..Plan::peer(&peer.url()) });
    limit(&mut house, &peer, 4, "30");
    for n in [2, 0, 3, 1] {
        house.advance(Duration::from_millis(1));
        house.say(n, &format!("from {n}"));
    }
    house.advance(s(30));
    for expected in ["from 0", "from 4", "from 2", "from 3", "from 1"] {
        let next = house.accept(&peer);
        assert_eq!(asker(&next), expected);
        answer(&next);
    }
    house.turn_until_idle();
}

#[test]
fn agents_of_another_provider_are_not_held_up_even_where_there_is_one_place() {
    let peer = Peer::start();
    let mut house = house_of(3, Plan { working_limit: 1, ..Plan::peer(&peer.url()) });
    limit(&mut house, &peer, 1, "30");
    house.say(2, "from 2");
    house.ask(0, Change::Fork { prompt: None, name: None, model: Some("echo/echo".into()) });
    house.say(3, "not concerned");
    house.turn_until("it is answered", |house| house.state(3) == State::Idle);
    assert_eq!(house.replies(3), ["not concerned"]);
    assert!(is_in_line(&house, 2));
}

#[test]
fn a_pause_off_the_screen_wakes_the_loop_once_at_its_end() {
    let peer = Peer::start();
    let mut house = paused(&peer, 4, &[1, 2]);
    let timeout = house.timeout();
    assert_eq!((timeout.after, timeout.why), (Some(s(30)), Why::Agent(house.id(3), "retry")));
    house.ask(3, Change::Interrupt);
    let_pass(&mut house);
    let timeout = house.timeout();
    assert_eq!((timeout.after, timeout.why), (Some(s(30)), Why::Limiter));
    house.switch(1);
    assert_eq!((house.timeout().after, house.timeout().why), (Some(s(1)), Why::Countdown));
}

#[test]
fn esc_cancels_only_its_own_wait() {
    let peer = Peer::start();
    let mut house = paused(&peer, 4, &[0, 1, 2]);
    house.escape();
    assert_eq!((house.state(0), house.kinds(0).last()), (State::Idle, Some(&"interrupted")));
    assert!(is_in_line(&house, 1) && is_in_line(&house, 2) && matches!(house.agent(3).wait(), Wait::Retry { .. }));
    house.switch(3);
    house.escape();
    assert_eq!(house.state(3), State::Idle);
    assert!(is_in_line(&house, 1) && is_in_line(&house, 2), "the pause is the provider's, not that agent's");
    house.advance(s(30));
    let first = house.accept(&peer);
    assert_eq!(asker(&first), "from 1");
    answer(&first);
    answer(&house.accept(&peer));
    house.turn_until_idle();
    assert!(peer.try_accept().is_none());
}

#[test]
fn a_first_request_that_is_limited_again_renews_the_pause_and_the_others_have_not_asked() {
    let peer = Peer::start();
    let mut house = paused(&peer, 4, &[0, 1, 2]);
    house.advance(s(30));
    let first = house.accept(&peer);
    assert_eq!(asker(&first), "from 0");
    first.head(429, &[("retry-after", "50"), ("content-length", "0")]);
    house.turn_until("a retry", |house| matches!(house.agent(0).wait(), Wait::Retry { .. }));
    assert_shows(&mut house, "again in 50 s, retry 1");
    house.advance(s(50) - Duration::from_micros(1));
    let_pass(&mut house);
    assert!(is_in_line(&house, 1) && is_in_line(&house, 2) && peer.try_accept().is_none());
    assert_eq!((house.agent(1).retries(), house.agent(2).retries()), (0, 0));
    house.advance(Duration::from_micros(1));
    let again = house.accept(&peer);
    assert_eq!(asker(&again), "from 0");
    answer(&again);
    (0..3).for_each(|_| answer(&house.accept(&peer)));
    house.turn_until_idle();
}

#[test]
fn the_death_or_the_interrupt_of_who_is_tried_lets_the_next_be_tried_at_once() {
    let peer = Peer::start();
    let mut house = paused(&peer, 5, &[1, 2, 3]);
    let [killed, cut] = [house.id(1), house.id(2)];
    house.advance(s(30));
    assert_eq!(asker(&house.accept(&peer)), "from 1");
    house.ask(0, Change::Kill { who: killed, cascade: false });
    let second = house.accept(&peer);
    assert_eq!(asker(&second), "from 2");
    let n = house.repl.roster().ids().iter().position(|id| *id == cut).expect("it lives");
    house.ask(n, Change::Interrupt);
    let third = house.accept(&peer);
    assert_eq!(asker(&third), "from 3");
    let_pass(&mut house);
    assert!(peer.try_accept().is_none(), "it is tried alone");
    answer(&third);
    answer(&house.accept(&peer));
    house.turn_until_idle();
}

#[test]
fn the_death_of_who_was_limited_changes_nothing_for_the_others() {
    let peer = Peer::start();
    let mut house = paused(&peer, 3, &[0, 1]);
    let limited = house.id(2);
    house.ask(0, Change::Kill { who: limited, cascade: false });
    house.advance(s(30) - Duration::from_micros(1));
    let_pass(&mut house);
    assert!(is_in_line(&house, 0) && is_in_line(&house, 1) && peer.try_accept().is_none());
    house.advance(Duration::from_micros(1));
    answer(&house.accept(&peer));
    answer(&house.accept(&peer));
    house.turn_until_idle();
}

#[test]
fn a_switch_before_the_end_of_the_pause_changes_who_goes_first() {
    let peer = Peer::start();
    let mut house = paused(&peer, 4, &[0, 1, 2]);
    house.switch(2);
    assert_shows(&mut house, "openai is paused, again in 30 s");
    house.enter("/agents");
    assert_shows(&mut house, "waiting for its turn");
    house.advance(s(30));
    assert_eq!(asker(&house.accept(&peer)), "from 2");
}

#[test]
fn an_agent_on_any_terminal_goes_before_those_that_nobody_looks_at() {
    let peer = Peer::start();
    let mut house = paused(&peer, 4, &[1, 2]);
    let sitter = Sitter::new(&mut house, (40, 12), 2, ATTACHED);
    assert_eq!(sitter.focus(&mut house), 2);
    house.advance(s(30));
    assert_eq!(asker(&house.accept(&peer)), "from 2");
}

#[test]
fn a_first_request_that_is_neither_answered_nor_refused_lets_the_others_follow_after_ten_seconds() {
    let peer = Peer::start();
    let mut house = paused(&peer, 3, &[0, 1]);
    house.advance(s(30));
    house.accept(&peer);
    house.advance(s(10) - Duration::from_micros(1));
    assert!(is_in_line(&house, 1));
    house.advance(Duration::from_micros(1));
    house.accept(&peer);
    house.accept(&peer);
}

#[test]
fn an_overloaded_server_pauses_all_only_if_it_says_for_how_long() {
    for (headers, is_paused) in
        [(&[("content-length", "0")][..], false), (&[("content-length", "0"), ("retry-after", "30")], true)]
    {
        let peer = Peer::start();
        let mut house = house_of(2, Plan::peer(&peer.url()));
        house.say(1, "from 1");
        house.accept(&peer).head(503, headers);
        house.turn_until("a retry", |house| matches!(house.agent(1).wait(), Wait::Retry { .. }));
        house.say(0, "from 0");
        assert_eq!(is_in_line(&house, 0), is_paused);
    }
}

#[test]
fn a_limit_in_the_middle_of_a_reply_pauses_the_others_too() {
    let peer = Peer::start();
    let mut house = house_of(2, Plan::peer(&peer.url()));
    house.say(1, "from 1");
    let exchange = house.accept(&peer);
    exchange.stream().text("half").event(&crate::support::openai::error("rate_limit_exceeded", "slow down")).end();
    house.turn_until("it has failed", |house| house.state(1) == State::Idle);
    assert_eq!(house.partial_replies(1), ["half"]);
    house.say(0, "from 0");
    assert!(is_in_line(&house, 0));
}

#[test]
fn a_wait_of_hours_is_shown_as_such_and_one_of_years_is_a_day() {
    for (asked, shown) in [("7380", "again in 2 h 3 min"), ("99999999999", "again in 24 h 0 min")] {
        let peer = Peer::start();
        let mut house = house_of(2, Plan::peer(&peer.url()));
        limit(&mut house, &peer, 1, asked);
        house.say(0, "from 0");
        house.turn();
        assert_shows(&mut house, shown);
        house.switch(1);
        assert_shows(&mut house, shown);
    }
}

#[test]
fn enter_on_an_empty_draft_tries_now_and_the_others_wait_for_what_comes_of_it() {
    let peer = Peer::start();
    let mut house = house_of(3, Plan::peer(&peer.url()));
    limit(&mut house, &peer, 2, "99999999999");
    house.say(0, "from 0");
    house.say(1, "from 1");
    assert_shows(&mut house, "again in 24 h 0 min (Enter tries now, Esc cancels)");
    house.enter("");
    let first = house.accept(&peer);
    assert_eq!(asker(&first), "from 0");
    let_pass(&mut house);
    assert!(is_in_line(&house, 1) && peer.try_accept().is_none(), "one request is tried for all");
    first.head(429, &[("retry-after", "7200"), ("content-length", "0")]);
    house.turn_until("a retry", |house| matches!(house.agent(0).wait(), Wait::Retry { .. }));
    assert_shows(&mut house, "again in 2 h 0 min, retry 1 (Enter tries now, Esc cancels)");
    house.enter("");
    let second = house.accept(&peer);
    assert_eq!(asker(&second), "from 0");
    let_pass(&mut house);
    assert!(is_in_line(&house, 1) && peer.try_accept().is_none());
    answer(&second);
    let other = house.accept(&peer);
    assert_eq!(asker(&other), "from 1");
    answer(&other);
    house.turn_until("both are answered", |house| [0, 1].iter().all(|n| house.state(*n) == State::Idle));
    house.switch(2);
    house.enter("");
    answer(&house.accept(&peer));
    house.turn_until_idle();
}

#[test]
fn a_wait_of_nothing_or_of_nonsense_is_our_own() {
    for asked in ["0", "-5", "soon", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let peer = Peer::start();
        let mut house = house_of(2, Plan::peer(&peer.url()));
        limit(&mut house, &peer, 1, asked);
        house.advance(s(1) - Duration::from_micros(1));
        assert!(matches!(house.agent(1).wait(), Wait::Retry { .. }), "{asked}");
        house.advance(Duration::from_micros(250_001));
        assert!(matches!(house.agent(1).wait(), Wait::Transfer), "{asked}");
    }
}

#[test]
fn a_restart_forgets_the_pause_and_loses_nothing() {
    let peer = Peer::start();
    let mut house = paused(&peer, 3, &[0, 1]).crash_and_restart();
    assert!(house.repl.roster().busy().is_empty());
    house.say(0, "and now?");
    let exchange = house.accept(&peer);
    assert_eq!(asker(&exchange).lines().last(), Some("and now?"));
    answer(&exchange);
    house.turn_until_idle();
}
