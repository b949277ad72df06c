//! A model that makes the same call again and again is told, and in the end the person is asked.

use polylogue::config::Policy;

use crate::support::harness::{Harness, Plan};
use crate::support::scene::app_with_agents;

fn app(policy: Policy) -> Harness {
    app_with_agents(1, Plan { policy, rules: Default::default(), real_time: true, ..Plan::default() })
}

/// A message that makes a model call this so often, one call in each reply.
fn calls(call: &str, times: usize) -> String {
    vec![format!("%tool {call}"); times].join("\n%next\n")
}

const LIST: &str = r#"list_dir {"path": "."}"#;

fn results(app: &Harness) -> Vec<String> {
    app.tool_results(0).into_iter().map(|result| result.content).collect()
}

#[test]
fn the_model_is_told_at_the_third_call_and_the_person_is_asked_at_the_fifth() {
    let mut app = app(Policy::Yolo);
    app.say(0, &calls(LIST, 7));
    app.turn_until_asked(0);
    let question = app.agent(0).question().unwrap().question.clone();
    let reason = question.detail.last().unwrap();
    assert!(reason.contains("the last 4 calls were the same and had the same result"), "{reason}");
    app.answer(0, true);
    app.turn_until_idle();
    let told: Vec<bool> = results(&app).iter().map(|result| result.contains("in a row")).collect();
    assert_eq!(told, [false, false, true, true, false, false, true], "{:?}", results(&app));
    assert!(results(&app)[2].contains("call number 3 in a row"));
}

#[test]
fn a_call_that_is_denied_ends_the_row_and_so_does_another_turn() {
    let mut app = app(Policy::Auto);
    app.say(0, &calls(LIST, 5));
    app.answer(0, false);
    app.turn_until_idle();
    assert!(results(&app)[4].contains("denied"), "{:?}", results(&app));
    app.say(0, &calls(LIST, 2));
    app.turn_until_idle();
    assert!(!results(&app)[6].contains("in a row"));
}

#[test]
fn other_results_and_other_calls_are_no_repetition() {
    let mut app = app(Policy::Yolo);
    app.say(0, &calls(r#"bash {"command": "echo x >> f; cat f"}"#, 6));
    app.turn_until_idle();
    let other = format!("%tool {LIST}\n%next\n%tool list_dir {{\"path\": \"/\"}}");
    app.say(0, &vec![other; 4].join("\n%next\n"));
    app.turn_until_idle();
    assert!(results(&app).len() == 14 && !results(&app).concat().contains("in a row"));
}

#[test]
fn where_no_question_may_be_asked_the_call_is_refused() {
    let mut app = app(Policy::Never);
    app.say(0, &calls(LIST, 7));
    app.turn_until_idle();
    let results = results(&app);
    for result in &results[4..] {
        assert!(result.starts_with("not run, because the last 4 calls were the same"), "{results:?}");
    }
}

#[test]
fn calls_that_do_not_fit_are_told_too() {
    let mut app = app(Policy::Yolo);
    app.say(0, &calls("read_file {}", 4));
    app.turn_until_idle();
    assert!(results(&app)[2].contains("`file_path` is missing") && results(&app)[2].contains("call number 3 in a row"));
}
