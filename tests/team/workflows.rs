//! Workflows over sockets: steps of one layer work at once, the next layer is given what they answered, and nobody works
//! who lacks what is critical.

use polylogue::repl::RunId;
use polylogue::team::coordinator::outcome::RunEnding;
use polylogue::team::coordinator::settings::Settings;
use polylogue::team::coordinator::workflow::Workflow;

use super::scene::{accept_members, answer, app, ending_names, finish};
use crate::support::harness::Harness;
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
fn steps_of_a_layer_work_at_once_and_the_next_layer_is_given_what_they_answered() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = begin(&mut app);
    let [a, b] = accept_members(&mut app, &peer, ["a", "b"]);
    answer(&b, "what b found");
    app.turn_until("b is over", |app| app.repl.players(&run).len() == 1);
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none(), "a layer waits for all of the one before");
    answer(&a, "what a found");
    let [both, second] = accept_members(&mut app, &peer, ["both", "second"]);
    let [told_both, told_second] = [&both, &second].map(|step| last_user_text(&step.request().json()));
    assert!(told_both.contains("what a found") && told_both.contains("what b found"), "{told_both}");
    assert!(!told_second.contains("what a found") && told_second.contains("what b found"), "{told_second}");
    answer(&second, "last");
    answer(&both, "first");
    let outcome = finish(&mut app, &run);
    assert_eq!(outcome.answer.as_deref(), Some("first\n---\nlast"), "of those on which nobody depends, in order");
    assert_eq!((ending_names(&outcome), app.repl.roster().len()), (vec!["answered"; 4], 1));
}

#[test]
fn who_depends_on_a_critical_step_that_fails_is_never_asked_and_the_others_go_on() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = begin(&mut app);
    let [a, b] = accept_members(&mut app, &peer, ["a", "b"]);
    a.error(400, "invalid_request_error", "no");
    answer(&b, "what b found");
    let [second] = accept_members(&mut app, &peer, ["second"]);
    answer(&second, "all the same");
    let outcome = finish(&mut app, &run);
    assert_eq!(ending_names(&outcome), ["failed", "answered", "skipped", "answered"]);
    assert!(peer.try_accept().is_none());
    let RunEnding::Failed(error) = &outcome.ending else { panic!("{outcome:?}") };
    assert!(error.message.contains("a is critical") && error.message.contains("both"), "{error}");
    assert_eq!(outcome.answer.as_deref(), Some("all the same"));
}
