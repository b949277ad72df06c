//! Definitions of agents: what a child takes from one, and that it gains no power.

use polylogue::config::{AgentDefinition, Author, Policy, ProviderEntry};
use serde_json::Value;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::peer::Peer;
use crate::support::scene::{answer_next, assert_refused, assert_shows, reply_with_calls, results_in};

fn definition(name: &str, author: Author) -> AgentDefinition {
    AgentDefinition {
        name: name.into(),
        description: format!("The {name}."),
        tools: Some(vec!["read_file".into(), "bash".into()]),
        model: None,
        policy: Some(Policy::Plan),
        prompt: format!("You are the {name}."),
        author,
        source: format!("{name}.md").into(),
        project: None,
    }
}

fn plan(peer: &Peer, definitions: Vec<AgentDefinition>) -> Plan {
    let far = ProviderEntry { name: "far".into(), kind: "echo".into(), ..ProviderEntry::default() };
    Plan { definitions, providers: vec![far], real_time: true, size: Some((110, 30)), ..Plan::peer(&peer.url()) }
}

fn tools(app: &Harness, n: usize) -> Vec<&'static str> {
    app.agent(n).inputs.environment.tools.iter().map(|tool| tool.declaration.name).collect()
}

#[test]
fn a_person_forks_with_a_definition_which_holds_after_a_restart() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer, vec![definition("critic", Author::Person)]));
    app.enter("/fork --as critic --name one look at it");
    let request: Value = serde_json::from_slice(&answer_next(&mut app, &peer, 1, "fine")).expect("JSON");
    let system = request["messages"][0]["content"].as_str().expect("a text");
    assert!(system.starts_with("You are the critic.") && system.contains("The working directory is"), "{system}");
    assert_eq!((tools(&app, 1), app.agent(1).policy()), (vec!["bash", "read_file"], Policy::Plan));
    let app = app.crash_and_restart();
    assert_eq!((tools(&app, 1), app.agent(1).policy()), (vec!["bash", "read_file"], Policy::Plan));
    assert!(app.agent(1).inputs.system.starts_with("You are the critic."));
}

#[test]
fn a_definition_never_widens_policy_and_that_of_a_project_no_tools() {
    let peer = Peer::start();
    let wide = AgentDefinition { policy: Some(Policy::Yolo), ..definition("wide", Author::Project) };
    let mut app = Harness::new(plan(&peer, vec![wide]));
    app.enter("/env read_file+fork");
    app.enter("/fork --as wide");
    assert_eq!((tools(&app, 2), app.agent(2).policy()), (vec!["read_file"], Policy::Ask));
    assert_shows(&mut app, "tools of the definition that are not available: bash");
}

#[test]
fn a_model_sees_the_definitions_and_a_definition_of_another_provider_asks() {
    let peer = Peer::start();
    let far = |author| AgentDefinition { model: Some("far/echo".into()), ..definition("far", author) };
    for (author, asks) in [(Author::Person, true), (Author::Project, false)] {
        let mut app = Harness::new(plan(&peer, vec![far(author)]));
        app.say(0, "go");
        let exchange = app.accept(&peer);
        let system = exchange.request().json()["messages"][0]["content"].to_string();
        assert!(system.contains("- far: The far."), "{system}");
        let calls = [("fork", r#"{"prompt":"x","subagent_type":"fra"}"#), ("fork", r#"{"prompt":"x","agent":"far"}"#)];
        reply_with_calls(&exchange, &calls);
        if asks {
            app.turn_until_asked(0);
            assert_shows(&mut app, "it sends the conversation to another provider (far/echo)");
            app.answer(0, false);
        }
        app.turn_until("the next request", |app| asks != (app.repl.roster().len() == 2));
        // The child, if there is one, sends a request as well.
        let requests: Vec<Value> = (0..if asks { 1 } else { 2 })
            .map(|_| {
                let exchange = app.accept(&peer);
                exchange.stream().text("done").finish("stop").done();
                exchange.request().json()
            })
            .collect();
        let request = requests.iter().find(|request| !results_in(request).is_empty()).expect("a request with results");
        app.turn_until_idle();
        let results = results_in(request);
        assert_eq!(results[0].1, "unknown agent definition \"fra\"; did you mean far?; available definitions: far");
        if !asks {
            assert_eq!(app.agent(1).inputs.endpoint.full_name(), app.agent(0).inputs.endpoint.full_name());
        }
    }
}

#[test]
fn definitions_are_listed_completed_and_mistakes_refused() {
    let peer = Peer::start();
    let mut app = Harness::new(plan(&peer, vec![definition("critic", Author::Project)]));
    app.enter("/agents --definitions");
    assert_shows(&mut app, "The critic.; tools: read_file, bash; plan (critic.md)");
    assert_refused(&mut app, "/fork --as critc", "did you mean critic?");
    app.type_bytes(b"/fork --as cr\t");
    assert_eq!(app.draft(0).text(), "/fork --as critic");
}
