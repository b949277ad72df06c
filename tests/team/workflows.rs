//! Workflows over sockets: the steps of a layer run in parallel, the next layer gets their answers, and dependents of a
//! failed critical step are skipped.

use polylogue::multi_agent::{RunId, RunStatus, Settings, Workflow};

use super::common::{accept_members, answer, app, finish, outcome_names};
use crate::support::harness::Harness;
use crate::support::internals::Probe;
use crate::support::openai::last_user_text;
use crate::support::peer::Peer;
use crate::support::scene::turn_a_while;

/// Two steps that depend on nothing, one on both of them, and one on the second.
const STEPS: &str = r#"
[[steps]]
name = "a"
prompt = "you are a"
critical = true
[[steps]]
name = "b"
prompt = "you are b"
[[steps]]
name = "both"
prompt = "you are both"
depends_on = ["a", "b"]
[[steps]]
name = "second"
prompt = "you are second"
depends_on = ["b"]
"#;

fn begin(app: &mut Harness) -> RunId {
    let workflow = Workflow::parse("w.toml", "w", STEPS, &[]).expect("a workflow");
    let root = app.id(0);
    app.repl.run_workflow(root, &workflow, "hello", Settings::default()).expect("a run")
}

#[test]
fn a_layer_runs_in_parallel_and_the_next_gets_its_answers() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = begin(&mut app);
    let [a, b] = accept_members(&mut app, &peer, ["a", "b"]);
    answer(&b, "what b found");
    app.turn_until("b is done", |app| app.repl.active_members(&run).len() == 1);
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none(), "a layer waits for the whole previous layer");
    answer(&a, "what a found");
    let [both, second] = accept_members(&mut app, &peer, ["both", "second"]);
    let [prompt_both, prompt_second] = [&both, &second].map(|step| last_user_text(&step.request().json()));
    assert!(prompt_both.contains("what a found") && prompt_both.contains("what b found"), "{prompt_both}");
    assert!(!prompt_second.contains("what a found") && prompt_second.contains("what b found"), "{prompt_second}");
    answer(&second, "last");
    answer(&both, "first");
    let outcome = finish(&mut app, &run);
    assert_eq!(outcome.answer.as_deref(), Some("first\n---\nlast"), "steps on which no other depends, in order");
    assert_eq!((outcome_names(&outcome), app.repl.roster().len()), (vec!["answered"; 4], 1));
}

#[test]
fn dependents_of_a_failed_critical_step_are_skipped() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = begin(&mut app);
    let [a, b] = accept_members(&mut app, &peer, ["a", "b"]);
    a.error(400, "invalid_request_error", "no");
    answer(&b, "what b found");
    let [second] = accept_members(&mut app, &peer, ["second"]);
    answer(&second, "all the same");
    let outcome = finish(&mut app, &run);
    assert_eq!(outcome_names(&outcome), ["failed", "answered", "skipped", "answered"]);
    assert!(peer.try_accept().is_none());
    let RunStatus::Failed(error) = &outcome.status else { panic!("{outcome:?}") };
    assert!(error.message.contains("critical step a failed") && error.message.contains("both"), "{error}");
    assert_eq!(outcome.answer.as_deref(), Some("all the same"));
}
