//! `/team` in the chat: children that know what their parent knows work on a task; a person looks on, visits them, stops
//! them, and finds what they have said.

use std::time::Duration;

use polylogue::agent::State;
use polylogue::domain::flow::Change;

use crate::support::harness::{Harness, Plan};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{assert_refused, assert_shows, let_pass, texts_in, told};

/// Agent 0 on a screen, with one question answered.
fn house(peer: &Peer) -> Harness {
    let mut house = Harness::new(Plan { size: Some((100, 40)), ..Plan::peer(&peer.url()) });
    told(&mut house, peer, 0, "the secret is 7", "noted");
    house
}

/// The requests of the members, by the order of their names.
fn accept_members(house: &mut Harness, peer: &Peer, count: usize) -> Vec<Exchange> {
    (0..count).map(|_| house.accept(peer)).collect()
}

fn answer(exchange: &Exchange, text: &str) {
    exchange.stream().text(text).finish("stop").done();
}

/// Turns until nobody works for agent 0 any more.
fn finish(house: &mut Harness) {
    house.turn_until("the end of the run", |house| !house.agent(0).has_others_at_work());
}

/// The letters of agent 0, as they came.
fn letters(house: &Harness) -> Vec<String> {
    let mut letters = house.repl.store().mail(house.id(0), None).expect("letters");
    letters.sort_by_key(|letter| letter.id.0);
    letters.into_iter().map(|letter| letter.body).collect()
}

#[test]
fn members_know_what_their_parent_knows_answer_by_letter_and_the_outcome_is_told_and_kept() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.enter("/team parallel vote \"how much is it?\"");
    assert_shows(&mut house, "3 members work on it");
    let exchanges = accept_members(&mut house, &peer, 3);
    assert_shows(&mut house, "team: 0 of 3 are done");
    for exchange in &exchanges {
        assert_eq!(texts_in(&exchange.request().body), ["the secret is 7", "noted", "how much is it?"]);
    }
    for (exchange, text) in exchanges.iter().zip(["8", "7", "7"]) {
        answer(exchange, text);
    }
    finish(&mut house);
    assert_shows(&mut house, "3 of 3 members have answered");
    let mut came = letters(&house);
    came.sort();
    assert_eq!(came, ["7", "7", "8"]);
    assert_eq!((house.repl.roster().len(), house.agent(0).unread), (4, 3), "they stay, to be looked at");
    let mut house = house.crash_and_restart();
    assert_shows(&mut house, "3 of 3 members have answered");
    house.enter("/team");
    assert_shows(&mut house, "completed  parallel vote  how much is it?");
}

#[test]
fn the_first_to_succeed_ends_the_run_and_kills_the_others_at_once_while_another_agent_streams_on() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.say(0, "a long story");
    let story = house.accept(&peer);
    story.stream().text("once");
    house.turn_until("the story", |house| house.agent(0).partial_text() == "once");
    house.enter("/team parallel first_success \"race\"");
    let exchanges = accept_members(&mut house, &peer, 3);
    for exchange in &exchanges {
        assert_eq!(texts_in(&exchange.request().body), ["the secret is 7", "noted", "race"], "not the parent's order");
    }
    story.text(" upon");
    house.turn_until("more of it", |house| house.agent(0).partial_text() == "once upon");
    answer(&exchanges[1], "won");
    house.turn_until("the end", |house| house.repl.roster().len() == 2);
    exchanges[0].wait_for_close();
    exchanges[2].wait_for_close();
    assert!(!story.is_closed_by_client());
    story.text(" a time").finish("stop").done();
    house.turn_until_idle();
    assert_eq!(house.replies(0), ["noted", "once upon a time"]);
    assert_eq!(letters(&house), ["won"]);
    assert_shows(&mut house, "the answer of agent-");
}

#[test]
fn a_member_can_be_visited_while_it_works_and_spoken_to_when_it_is_done() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.enter("/team --agents scout,guard parallel \"look\"");
    let exchanges = accept_members(&mut house, &peer, 2);
    house.enter("/agents");
    assert_shows(&mut house, "scout");
    let scout = house.n("scout");
    house.enter("/switch scout");
    assert_eq!(house.focus(), scout);
    for exchange in &exchanges {
        exchange.stream().text("I see a ship");
    }
    house.turn_until("the words", |house| house.screen_text().contains("I see a ship"));
    house.enter("how large?");
    for exchange in &exchanges {
        exchange.finish("stop").done();
    }
    let question = house.accept(&peer);
    assert_eq!(last_user_text(&question.request().json()), "how large?");
    finish(&mut house);
    assert_eq!(letters(&house), ["I see a ship", "I see a ship"]);
    assert!(!question.is_closed_by_client(), "the task is over, and the talk goes on");
    answer(&question, "very");
    house.turn_until_idle();
    assert_eq!(house.replies(house.n("scout")).last().map(String::as_str), Some("very"));
    assert_eq!(letters(&house).len(), 2, "what it says to a person is no answer to the task");
}

#[test]
fn escape_on_the_asker_ends_the_run_with_what_there_is_and_on_a_member_only_that_one() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.enter("/team --agents a,b,c parallel \"go\"");
    let exchanges = accept_members(&mut house, &peer, 3);
    house.enter("/switch b");
    house.escape();
    house
        .turn_until("one is cut", |house| house.screen_text().contains("interrupted") && house.state(2) == State::Idle);
    assert_eq!(house.repl.roster().busy().len(), 2);
    house.switch(0);
    assert_shows(&mut house, "team: 1 of 3 are done");
    house.escape();
    finish(&mut house);
    exchanges.iter().for_each(Exchange::wait_for_close);
    assert_shows(&mut house, "not completed: interrupted");
    assert_shows(&mut house, "b: a person has interrupted it");
    assert!(house.repl.roster().busy().is_empty());
    assert_eq!(house.repl.roster().len(), 4, "who was stopped in the middle stays");
    let_pass(&mut house);
    assert!(peer.try_accept().is_none());
}

#[test]
fn who_hangs_is_cut_at_its_deadline_and_stays_to_be_looked_at() {
    let peer = Peer::start();
    let mut house = Harness::new(Plan { size: None, ..Plan::peer(&peer.url()) });
    let root = house.id(0);
    house.repl.ask(root, Change::Team("--agents a --timeout 10 go".into())).expect("a run");
    let hung = house.accept(&peer);
    assert_eq!(house.timeout().after, Some(Duration::from_secs(10)));
    house.advance(Duration::from_secs(10));
    finish(&mut house);
    hung.wait_for_close();
    assert_eq!((house.repl.roster().len(), house.state(1)), (2, State::Idle));
    house.say(1, "are you there?");
    let asked = house.accept(&peer);
    answer(&asked, "now I am");
    house.turn_until_idle();
    assert_eq!(house.replies(1), ["now I am"]);
}

#[test]
fn the_members_of_a_run_that_a_crash_cut_are_there_and_idle() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.enter("/team --agents a,b parallel \"go\"");
    let _exchanges = accept_members(&mut house, &peer, 2);
    let mut house = house.crash_and_restart();
    assert_eq!((house.repl.roster().len(), house.repl.roster().busy().len()), (3, 0));
    house.enter("/team");
    assert_shows(&mut house, "cut  parallel concatenate  go");
    let_pass(&mut house);
    assert!(peer.try_accept().is_none());
}

#[test]
fn a_line_that_is_wrong_is_refused_and_begins_nothing() {
    let peer = Peer::start();
    let mut house = house(&peer);
    for (line, words) in [
        ("/team paralel \"x\"", "did you mean parallel?"),
        ("/team --agents a:nobody/knows x", "nobody"),
        ("/team vote", "what is the task?"),
    ] {
        assert_refused(&mut house, line, words);
    }
    house.enter("/team");
    assert_shows(&mut house, "no task was given to several agents yet");
    assert_eq!((house.repl.roster().len(), house.agent(0).has_others_at_work()), (1, false));
}

#[test]
fn names_and_templates_are_completed() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.type_bytes(b"/team para\t");
    assert_eq!(house.agent(0).view.draft.text(), "/team parallel ");
    house.type_bytes(b"--template code\t");
    assert_eq!(house.agent(0).view.draft.text(), "/team parallel --template code-review");
}
