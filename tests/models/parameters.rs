//! Parameters that a person sets for an agent with `/set`.

use polylogue::config::{Endpoint, Parameter, ParameterName, Parameters};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::peer::Peer;
use crate::support::scene::assert_shows;

/// The request that the agent sends next; the server answers it.
fn request(app: &mut Harness, peer: &Peer, n: usize) -> Value {
    app.say(n, "hello");
    let exchange = app.accept(peer);
    exchange.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    exchange.request().json()
}

fn plan(peer: &Peer) -> Plan {
    let mut parameters = Parameters::default();
    parameters.set(ParameterName::Known(Parameter::Temperature), json!(0.25), "config.toml:9");
    parameters.set(ParameterName::Known(Parameter::Seed), json!(1), "config.toml:10");
    let plan = Plan::peer(&peer.url());
    Plan { endpoint: Endpoint { parameters, ..plan.endpoint }, ..plan }
}

#[test]
fn what_is_set_for_an_agent_is_sent_inherited_and_kept_over_a_restart() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer));
    let before = request(&mut app, &peer, 0);
    assert_eq!((&before["temperature"], &before["seed"]), (&json!(0.25), &json!(1)));
    for line in ["/set temperature 0.75", "/set body.top_k 40", "/set stop END", "/set thinking xhigh"] {
        app.enter(line);
    }
    assert_shows(&mut app, "set: temperature 0.75");
    let expected = json!({"temperature": 0.75, "seed": 1, "top_k": 40, "stop": ["END"], "reasoning_effort": "xhigh"});
    let found = |request: &Value| {
        let names = ["temperature", "seed", "top_k", "stop", "reasoning_effort"];
        Value::Object(names.map(|name| (name.to_owned(), request[name].clone())).into_iter().collect())
    };
    assert_eq!(found(&request(&mut app, &peer, 0)), expected);
    app.fork(0);
    assert_eq!(found(&request(&mut app, &peer, 1)), expected, "a fork inherits");
    app.switch(1);
    app.enter("/set temperature 0.1");
    let mut app = app.crash_and_restart();
    assert_eq!(found(&request(&mut app, &peer, 0)), expected, "a fork has its own");
    assert_eq!(request(&mut app, &peer, 1)["temperature"], json!(0.1));
    app.switch(0);
    app.enter("/set");
    for line in ["temperature: 0.75  (/set)", "seed: 1  (config.toml:10)", "thinking: xhigh  (/set)", "decides: top_p,"]
    {
        assert_shows(&mut app, line);
    }
    for name in ["temperature", "body.top_k", "stop", "thinking"] {
        app.enter(&format!("/set {name} default"));
    }
    let after = found(&request(&mut app, &peer, 0));
    assert_eq!(after, found(&before), "the configuration holds again");
}

#[test]
fn a_parameter_that_cannot_be_sent_is_refused_and_the_line_stays() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer));
    for (line, expected) in [
        ("/set temperature hot", "expected a number from 0 to 2"),
        ("/set tempertaure 1", "did you mean temperature?"),
        ("/set thinking 2000", "not a number of tokens"),
        ("/set body.messages []", "polylogue itself sets the field messages"),
        ("/set top_p default", "top_p is not set for this agent"),
    ] {
        app.enter(line);
        assert_shows(&mut app, expected);
        assert_eq!(app.draft(0).text(), line);
        app.type_bytes(b"\x15");
    }
    assert_eq!(request(&mut app, &peer, 0)["top_p"], Value::Null);
}

#[test]
fn thinking_and_set_agree() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer));
    app.enter("/thinking minimal");
    app.enter("/set thinking");
    assert_shows(&mut app, "thinking: minimal  (/set)");
    app.enter("/set reasoning_effort high");
    app.enter("/thinking");
    assert_shows(&mut app, "thinking: high;");
    assert_eq!(request(&mut app, &peer, 0)["reasoning_effort"], json!("high"));
}

#[test]
fn a_model_that_lacks_a_parameter_is_not_sent_it_and_that_is_said() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer));
    app.enter("/set verbosity low");
    app.enter("/set service_tier flex");
    app.enter("/model echo");
    assert_shows(&mut app, "without verbosity, service_tier, which it does not have");
    app.enter("/set verbosity");
    assert_shows(&mut app, "not sent: verbosity: the protocol echo");
    app.enter("/model openai/peer");
    assert_eq!(request(&mut app, &peer, 0)["verbosity"], json!("low"));
}
