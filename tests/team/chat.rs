//! `/team` in the chat: forked members work on a task; the user watches, visits and stops them, and reads their mail.

use std::time::Duration;

use polylogue::{ArchiveAct, Change, TeamStart};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{
    assert_refused, assert_shows, assert_valid, bash, converse, reply_with_calls, texts_in, turn_a_while,
};

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
    assert_eq!((app.repl.roster().len(), app.agent(0).unread), (1, 0), "they are archived, and their answers known");
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "3 of 3 members answered");
    app.enter("/team");
    assert_shows(&mut app, "completed  parallel vote  how much is it?");
    app.enter("/agents --archived");
    let run = app.repl.store().runs(1).expect("a run")[0].run.clone();
    let is_member = |row: &&str| row.contains("agent-") && row.contains(&format!("team {run}"));
    assert_eq!(app.screen_text().lines().filter(is_member).count(), 3, "{}", app.screen_text());
    app.enter("/unarchive agent-2");
    app.switch(1);
    assert_shows(&mut app, "how much is it?");
}

#[test]
fn the_model_is_told_the_result_also_after_a_restart() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/team parallel vote --count 2 \"how much is it?\"");
    for exchange in accept_members(&mut app, &peer, 2) {
        answer(&exchange, "it is 7");
    }
    finish(&mut app);
    app.say(0, "thank you");
    let exchange = app.accept(&peer);
    let texts = texts_in(&exchange.request().body);
    assert_eq!(texts[..2], ["the secret is 7", "noted"]);
    assert!(texts[2].contains("[system] team ") && texts[2].ends_with("it is 7\n\nthank you"), "{texts:?}");
    assert!(texts[2].contains("- task: how much is it?"), "{texts:?}");
    assert_valid(&exchange.request().json());
    answer(&exchange, "welcome");
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    app.say(0, "again?");
    let again = app.accept(&peer);
    assert_eq!(texts_in(&again.request().body)[..3], texts);
    let child = "the child of an agent knows what it knows";
    answer(&again, "yes");
    app.turn_until_idle();
    app.fork(0);
    app.say(1, child);
    assert_eq!(texts_in(&app.accept(&peer).request().body)[..3], texts);
}

#[test]
fn a_result_waits_for_the_end_of_the_turn_and_never_parts_a_call_from_its_result() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { size: Some((100, 40)), real_time: true, ..Plan::peer(&peer.url()) });
    app.say(0, "run it");
    reply_with_calls(&app.accept(&peer), &[("bash", &bash("echo done"))]);
    app.turn_until_asked(0);
    app.ask(0, Change::Team(TeamStart::Task("--agents a \"look\"".into())));
    answer(&app.accept(&peer), "seen");
    app.turn_until("the end of the run", |app| app.repl.roster().len() == 1);
    app.answer(0, true);
    let exchange = app.accept(&peer);
    assert_valid(&exchange.request().json());
    assert!(!texts_in(&exchange.request().body).iter().any(|text| text.contains("seen")), "not within the turn");
    answer(&exchange, "it ran");
    app.turn_until("the result", |app| app.kinds(0).last() == Some(&"system"));
    app.say(0, "and the team?");
    let exchange = app.accept(&peer);
    assert_valid(&exchange.request().json());
    let texts = texts_in(&exchange.request().body);
    assert!(texts.last().is_some_and(|last| last.contains("seen") && last.ends_with("and the team?")), "{texts:?}");
}

#[test]
fn members_are_listed_below_their_run() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork_named(0, "mine");
    app.switch(0);
    app.enter("/team --agents a,b parallel \"look at it\"");
    let _first = accept_members(&mut app, &peer, 2);
    app.enter("/agents");
    let run = app.repl.store().runs(1).expect("a run")[0].run.clone();
    let screen = app.screen_text();
    let rows: Vec<&str> =
        screen.lines().skip_while(|row| !row.contains("> 0   ")).take(5).map(str::trim_start).collect();
    let begins = ["> 0   the secret is 7", "1   mine", &format!("team {run}"), "a: look at it", "b: look at it"];
    assert!(rows.iter().zip(begins).all(|(row, begin)| row.starts_with(begin)), "{screen}");
    assert!(rows[2].ends_with("running  look at it"), "{screen}");
}

#[test]
fn a_member_on_the_screen_stays_when_the_run_ends() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/team --agents a,b parallel \"look\"");
    let exchanges = accept_members(&mut app, &peer, 2);
    app.enter("/switch b");
    exchanges.iter().for_each(|exchange| answer(exchange, "seen"));
    finish(&mut app);
    assert_eq!((app.repl.roster().len(), app.focus()), (2, 1));
    assert_shows(&mut app, "seen");
}

#[test]
fn problems_name_the_agents_of_the_members() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork_named(0, "agent-1");
    app.switch(0);
    app.enter("/team parallel first_success --count 1 \"who?\"");
    answer(&app.accept(&peer), "me");
    finish(&mut app);
    assert_shows(&mut app, "answer of agent-1-2");
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
    assert_eq!(app.repl.roster().len(), 1, "interrupted members are archived");
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none());
}

#[test]
fn a_member_that_times_out_can_be_brought_back() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { size: None, ..Plan::peer(&peer.url()) });
    let root = app.id(0);
    app.repl.apply(root, Change::Team(TeamStart::Task("--agents a --timeout 10 go".into()))).expect("a run");
    let hung = app.accept(&peer);
    assert_eq!(app.timeout().after, Some(Duration::from_secs(10)));
    app.advance(Duration::from_secs(10));
    finish(&mut app);
    hung.wait_for_close();
    assert_eq!(app.repl.roster().len(), 1);
    let member = app.repl.store().archived_agents().expect("a list").agents[0].id;
    app.ask(0, Change::Archive(ArchiveAct::Unarchive(member)));
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
    let run = app.repl.store().runs(1).expect("a run")[0].run.clone();
    assert_shows(&mut app, &format!("the team run {run} was interrupted when the program ended: go"));
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
    assert_eq!(app.draft(0).text(), "/team parallel ");
    app.type_bytes(b"--template code\t");
    assert_eq!(app.draft(0).text(), "/team parallel --template code-review");
}
