//! `/team` in the chat: forked members work on a task; the user watches, visits and stops them, and reads their mail.

use std::time::Duration;

use polylogue::Change;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{assert_refused, assert_shows, converse, texts_in, turn_a_while};

/// Agent 0 on a screen, with one question answered.
fn app(peer: &Peer) -> Harness {
    let mut app = Harness::new(Plan { size: Some((100, 40)), ..Plan::peer(&peer.url()) });
    converse(&mut app, peer, 0, "the secret is 7", "noted");
    app
}

fn accept_members(app: &mut Harness, peer: &Peer, count: usize) -> Vec<Exchange> {
    (0..count).map(|_| app.accept(peer)).collect()
}

fn answer(exchange: &Exchange, text: &str) {
    exchange.stream().text(text).finish("stop").done();
}

fn finish(app: &mut Harness) {
    app.turn_until("the end of the run", |app| !app.agent(0).has_background_work());
}

/// The mail of agent 0 in order of arrival.
fn mail(app: &Harness) -> Vec<String> {
    let mut mail = app.repl.store().mail(app.id(0), None).expect("mail");
    mail.sort_by_key(|message| message.id.0);
    mail.into_iter().map(|message| message.body).collect()
}

#[test]
fn members_inherit_the_conversation_answer_by_mail_and_the_outcome_is_kept() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/team parallel vote \"how much is it?\"");
    assert_shows(&mut app, "started 3 members");
    let exchanges = accept_members(&mut app, &peer, 3);
    assert_shows(&mut app, "team: 0 of 3 done");
    for exchange in &exchanges {
        assert_eq!(texts_in(&exchange.request().body), ["the secret is 7", "noted", "how much is it?"]);
    }
    for (exchange, text) in exchanges.iter().zip(["8", "7", "7"]) {
        answer(exchange, text);
    }
    finish(&mut app);
    assert_shows(&mut app, "3 of 3 members answered");
    let mut came = mail(&app);
    came.sort();
    assert_eq!(came, ["7", "7", "8"]);
    assert_eq!((app.repl.roster().len(), app.agent(0).unread), (4, 3), "they stay, to be looked at");
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "3 of 3 members answered");
    app.enter("/team");
    assert_shows(&mut app, "completed  parallel vote  how much is it?");
}

#[test]
fn first_success_removes_the_other_members_while_another_agent_streams() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.say(0, "a long story");
    let story = app.accept(&peer);
    story.stream().text("once");
    app.turn_until("the story", |app| app.agent(0).partial_text() == "once");
    app.enter("/team parallel first_success \"race\"");
    let exchanges = accept_members(&mut app, &peer, 3);
    for exchange in &exchanges {
        assert_eq!(
            texts_in(&exchange.request().body),
            ["the secret is 7", "noted", "race"],
            "without the pending turn of the parent"
        );
    }
    story.text(" upon");
    app.turn_until("more of it", |app| app.agent(0).partial_text() == "once upon");
    answer(&exchanges[1], "won");
    app.turn_until("the end", |app| app.repl.roster().len() == 2);
    exchanges[0].wait_for_close();
    exchanges[2].wait_for_close();
    assert!(!story.is_closed_by_client());
    story.text(" a time").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["noted", "once upon a time"]);
    assert_eq!(mail(&app), ["won"]);
    assert_shows(&mut app, "answer of agent-");
}

#[test]
fn a_member_can_be_visited_while_it_works_and_used_afterwards() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/team --agents scout,guard parallel \"look\"");
    let exchanges = accept_members(&mut app, &peer, 2);
    app.enter("/agents");
    assert_shows(&mut app, "scout");
    let scout = app.n("scout");
    app.enter("/switch scout");
    assert_eq!(app.focus(), scout);
    for exchange in &exchanges {
        exchange.stream().text("I see a ship");
    }
    app.turn_until("the text", |app| app.screen_text().contains("I see a ship"));
    app.enter("how large?");
    for exchange in &exchanges {
        exchange.finish("stop").done();
    }
    let question = app.accept(&peer);
    assert_eq!(last_user_text(&question.request().json()), "how large?");
    finish(&mut app);
    assert_eq!(mail(&app), ["I see a ship", "I see a ship"]);
    assert!(!question.is_closed_by_client(), "the chat with the member goes on");
    answer(&question, "very");
    app.turn_until_idle();
    assert_eq!(app.replies(app.n("scout")).last().map(String::as_str), Some("very"));
    assert_eq!(mail(&app).len(), 2, "replies to the user are no answers to the task");
}

#[test]
fn escape_stops_one_member_or_the_whole_run() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/team --agents a,b,c parallel \"go\"");
    let exchanges = accept_members(&mut app, &peer, 3);
    app.enter("/switch b");
    app.escape();
    app.turn_until("one is cut", |app| app.screen_text().contains("interrupted") && app.state(2) == State::Idle);
    assert_eq!(app.repl.roster().busy().len(), 2);
    app.switch(0);
    assert_shows(&mut app, "team: 1 of 3 done");
    app.escape();
    finish(&mut app);
    exchanges.iter().for_each(Exchange::wait_for_close);
    assert_shows(&mut app, "not completed: interrupted");
    assert_shows(&mut app, "b: interrupted by the user");
    assert!(app.repl.roster().busy().is_empty());
    assert_eq!(app.repl.roster().len(), 4, "interrupted members stay");
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none());
}

#[test]
fn a_member_that_times_out_stays() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { size: None, ..Plan::peer(&peer.url()) });
    let root = app.id(0);
    app.repl.apply(root, Change::Team("--agents a --timeout 10 go".into())).expect("a run");
    let hung = app.accept(&peer);
    assert_eq!(app.timeout().after, Some(Duration::from_secs(10)));
    app.advance(Duration::from_secs(10));
    finish(&mut app);
    hung.wait_for_close();
    assert_eq!((app.repl.roster().len(), app.state(1)), (2, State::Idle));
    app.say(1, "are you there?");
    let asked = app.accept(&peer);
    answer(&asked, "now I am");
    app.turn_until_idle();
    assert_eq!(app.replies(1), ["now I am"]);
}

#[test]
fn after_a_crash_the_members_of_a_chat_are_idle() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/team --agents a,b parallel \"go\"");
    let _exchanges = accept_members(&mut app, &peer, 2);
    let mut app = app.crash_and_restart();
    assert_eq!((app.repl.roster().len(), app.repl.roster().busy().len()), (3, 0));
    app.enter("/team");
    assert_shows(&mut app, "cut  parallel concatenate  go");
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none());
}

#[test]
fn the_exit_of_the_program_ends_the_turns_of_members_as_exited() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/team --agents a,b parallel \"go\"");
    let _exchanges = accept_members(&mut app, &peer, 2);
    app.repl.leave().expect("the program exits");
    let app = app.crash_and_restart();
    assert_eq!([1, 2].map(|n| app.kinds(n).pop()), [Some("exited"); 2]);
}

#[test]
fn an_invalid_line_is_refused() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for (line, expected) in [
        ("/team paralel \"x\"", "did you mean parallel?"),
        ("/team --agents a:nobody/knows x", "nobody"),
        ("/team vote", "missing task"),
    ] {
        assert_refused(&mut app, line, expected);
    }
    app.enter("/team");
    assert_shows(&mut app, "no team tasks yet");
    assert_eq!((app.repl.roster().len(), app.agent(0).has_background_work()), (1, false));
}

#[test]
fn names_and_templates_are_completed() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.type_bytes(b"/team para\t");
    assert_eq!(app.agent(0).view.draft.text(), "/team parallel ");
    app.type_bytes(b"--template code\t");
    assert_eq!(app.agent(0).view.draft.text(), "/team parallel --template code-review");
}
