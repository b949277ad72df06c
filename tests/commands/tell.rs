//! `/new` and `/tell`: an empty conversation, and a message to an agent that is not on the screen.

use crate::support::harness::Plan;
use crate::support::internals::Probe;
use crate::support::openai::last_user_text;
use crate::support::peer::Peer;
use crate::support::scene::{app_with_agents, assert_refused, assert_shows};

#[test]
fn a_new_conversation_inherits_nothing_and_is_shown_wherever_it_was_begun() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, Plan::peer(&peer.url()));
    app.say(1, "a secret of agent 1");
    let exchange = app.accept(&peer);
    exchange.stream().text("noted").finish("stop").done();
    app.turn_until_idle();
    app.switch(1);
    app.enter("/new --name fresh what do you know?");
    let exchange = app.accept(&peer);
    let request = exchange.request().json();
    assert_eq!(last_user_text(&request), "what do you know?");
    assert!(!request.to_string().contains("secret"), "{request}");
    exchange.stream().text("nothing").finish("stop").done();
    app.turn_until_idle();
    let fresh = app.n("fresh");
    assert_eq!((app.focus(), app.repl.roster().parent(app.id(fresh))), (fresh, Some(app.id(0))));
    let app = app.crash_and_restart();
    assert_eq!(app.replies(app.n("fresh")), ["nothing"]);
}

#[test]
fn a_told_agent_answers_at_once_or_after_its_turn_and_is_not_shown() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, Plan::peer(&peer.url()));
    app.enter("/tell 1 first");
    assert_shows(&mut app, "told agent 1");
    let first = app.accept(&peer);
    app.enter("/tell 1 \"and second\"");
    assert_eq!(app.agent(1).queue.len(), 1, "it waits until the turn is over");
    first.stream().text("one").finish("stop").done();
    let second = app.accept(&peer);
    assert_eq!(last_user_text(&second.request().json()), "and second");
    second.stream().text("two").finish("stop").done();
    app.turn_until_idle();
    assert_eq!((app.replies(1), app.focus()), (vec!["one".into(), "two".into()], 0));
    assert_refused(&mut app, "/tell", "no agent or no text given");
    assert_refused(&mut app, "/tell 7 hello", "7");
}
