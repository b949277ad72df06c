//! OpenAI's Responses: reasoning goes back unchanged, at its position, to the model that made it and to no other; and
//! whatever cuts a turn, the next request is valid. The peer looks at each request.

use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::{Body, State};
use crate::support::peer::{Exchange, Peer};
use crate::support::responses::{Script, kinds_in, reasoning};
use crate::support::scene::bash;

/// Agent 0 alone with a model of OpenAI; tools take real time.
fn app_with_model(peer: &Peer, model: &str) -> Harness {
    let endpoint = endpoint("openai-responses", model, &peer.url());
    Harness::new(Plan { endpoint, real_time: true, ..Plan::default() })
}

/// The same with one that reasons.
fn app(peer: &Peer) -> Harness {
    app_with_model(peer, "gpt-5")
}

/// Sends a message to the agent; returns the request that follows.
fn asked(app: &mut Harness, peer: &Peer, text: &str) -> Exchange {
    app.enter(text);
    let exchange = app.accept(peer);
    assert!(exchange.request().path.ends_with("/v1/responses"), "{}", exchange.request().path);
    exchange
}

/// The agent answers again; returns the kinds of the items in the request.
fn goes_on(app: &mut Harness, peer: &Peer) -> Vec<String> {
    assert_eq!(app.state(0), State::Idle);
    let exchange = asked(app, peer, "\x15and now?");
    let request = exchange.request().json();
    Script::start(&exchange).text("fine").complete();
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("fine"));
    kinds_in(&request).into_iter().map(str::to_owned).collect()
}

/// A reply with reasoning, some text and a call of this command, and then the question whether it may run.
fn asked_to_run(app: &mut Harness, peer: &Peer, command: &str) {
    let exchange = asked(app, peer, "look");
    let mut script = Script::start(&exchange);
    script.reasoning(&reasoning(1, "A command will tell.")).text("I look.").call("call_1", "bash", &bash(command));
    script.complete();
    app.turn_until_asked(0);
}

#[test]
fn reasoning_a_call_and_its_result_go_back_unchanged_and_in_order() {
    let peer = Peer::start();
    let mut app = app(&peer);
    asked_to_run(&mut app, &peer, "echo found");
    app.type_bytes(b"\x0f");
    assert!(app.screen_text().contains("A command will tell."), "{}", app.screen_text());
    app.answer(0, true);
    let exchange = app.accept(&peer);
    let request = exchange.request().json();
    let kinds = ["user", "reasoning", "assistant", "function_call", "function_call_output"];
    assert_eq!(kinds_in(&request), kinds);
    assert_eq!(request["input"][1], reasoning(1, "A command will tell."));
    assert!(request["input"][4]["output"].as_str().is_some_and(|output| output.contains("found")), "{request}");
    Script::start(&exchange).text("It is found.").complete();
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["I look.", "It is found."]);
    let usage = |body: Body| match body {
        Body::Usage(usage) => Some((usage.input, usage.cached, usage.output)),
        _ => None,
    };
    let converse: Vec<(u64, u64, u64)> = app.log(0).into_iter().filter_map(|message| usage(message.body)).collect();
    assert_eq!(converse, [(20, 8, 5); 2]);
}

#[test]
fn after_a_restart_the_reasoning_is_still_sent() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let exchange = asked(&mut app, &peer, "think");
    Script::start(&exchange).reasoning(&reasoning(1, "Hm.")).text("Yes.").complete();
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    let exchange = asked(&mut app, &peer, "and?");
    let request = exchange.request().json();
    assert_eq!(kinds_in(&request), ["user", "reasoning", "assistant", "user"]);
    assert_eq!(request["input"][1], reasoning(1, "Hm."));
}

#[test]
fn an_interrupt_in_the_text_keeps_the_reasoning_before_it() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let exchange = asked(&mut app, &peer, "tell");
    Script::start(&exchange).reasoning(&reasoning(1, "Hm.")).open_text("so far");
    app.turn_until("the text", |app| app.agent(0).partial_text() == "so far");
    app.escape();
    assert_eq!(goes_on(&mut app, &peer), ["user", "reasoning", "assistant", "user"]);
}

#[test]
fn an_interrupt_in_the_reasoning_leaves_nothing_of_it_to_send() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let exchange = asked(&mut app, &peer, "tell");
    Script::start(&exchange).reasoning(&reasoning(1, "First.")).open_reasoning("Second");
    app.turn_until("the reasoning", |app| app.screen_text().contains("Second"));
    app.escape();
    assert_eq!(goes_on(&mut app, &peer), ["user"], "both messages of the person are one");
}

#[test]
fn an_interrupt_in_the_arguments_of_a_call_leaves_the_call_out() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let exchange = asked(&mut app, &peer, "tell");
    let mut script = Script::start(&exchange);
    script.reasoning(&reasoning(1, "First.")).text("I look.").reasoning(&reasoning(2, "Second."));
    script.open_call("call_1", "bash", "{\"comm");
    app.turn_until("the call", |app| app.screen_text().contains("Second."));
    app.escape();
    assert_eq!(goes_on(&mut app, &peer), ["user", "reasoning", "assistant", "user"]);
}

#[test]
fn an_interrupt_of_a_running_tool_answers_its_call() {
    let peer = Peer::start();
    let mut app = app(&peer);
    asked_to_run(&mut app, &peer, "sleep 60");
    app.answer(0, true);
    app.turn_until("the tool runs", |app| app.agent(0).has_live_tool());
    app.escape();
    app.turn_until_idle();
    let kinds = ["user", "reasoning", "assistant", "function_call", "function_call_output", "user"];
    assert_eq!(goes_on(&mut app, &peer), kinds);
}

#[test]
fn an_interrupt_at_a_question_answers_the_call() {
    let peer = Peer::start();
    let mut app = app(&peer);
    asked_to_run(&mut app, &peer, "true");
    app.escape();
    app.turn_until_idle();
    let kinds = ["user", "reasoning", "assistant", "function_call", "function_call_output", "user"];
    assert_eq!(goes_on(&mut app, &peer), kinds);
}

#[test]
fn an_error_after_a_partial_reply_keeps_the_partial_reply() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let exchange = asked(&mut app, &peer, "tell");
    Script::start(&exchange).reasoning(&reasoning(1, "Hm.")).open_text("so far").fail("server_error", "Boom.");
    app.turn_until_idle();
    assert!(app.last_error(0).contains("Boom."), "{}", app.last_error(0));
    assert_eq!(app.partial_replies(0), ["so far"]);
    assert_eq!(goes_on(&mut app, &peer), ["user", "reasoning", "assistant", "user"]);
}

#[test]
fn a_model_that_does_not_reason_is_not_asked_to() {
    let peer = Peer::start();
    let mut app = app_with_model(&peer, "gpt-4o");
    let request = asked(&mut app, &peer, "hello").request().json();
    assert_eq!((request.get("include"), request.get("reasoning")), (None, None));
}
