//! The list of tasks of a model: in the conversation, on the wall, after a restart and in a fork.

use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::scene::{app_with_agents, assert_shows};

fn todos(items: &[(&str, &str)]) -> Value {
    let items: Vec<Value> =
        items.iter().map(|(content, status)| json!({"content": content, "status": status})).collect();
    json!({ "todos": items })
}

fn call(app: &mut Harness, arguments: &Value) -> String {
    app.say(0, &format!("%tool todo {arguments}"));
    app.turn_until_idle();
    app.turn();
    app.tool_results(0).pop().expect("a result").content
}

fn wall(app: &mut Harness) -> String {
    app.type_bytes(b"\x1bw");
    app.turn();
    let screen = app.screen_text();
    app.escape();
    screen
}

#[test]
fn the_list_is_shown_in_the_conversation_and_on_the_wall_also_after_a_restart_and_in_a_fork() {
    let mut app = app_with_agents(1, Plan { size: Some((100, 30)), ..Plan::default() });
    let tasks = [("read the code", "completed"), ("write tests", "in_progress"), ("run\n them", "pending")];
    assert_eq!(call(&mut app, &todos(&tasks)), "[x] read the code\n[>] write tests\n[ ] run them");
    let shown = ["todo: 1 of 3 done: write tests", "✓ read the code", "▸ write tests", "· run them"];
    shown.iter().for_each(|text| assert_shows(&mut app, text));
    assert!(wall(&mut app).contains("└1 of 3 done: write t"), "{}", app.screen_text());
    app.fork(0);
    shown[1..].iter().for_each(|text| assert_shows(&mut app, text));
    assert_eq!(wall(&mut app).matches("└1 of 3 done").count(), 2);
    let mut app = app.crash_and_restart();
    shown[1..].iter().for_each(|text| assert_shows(&mut app, text));
    assert_eq!(wall(&mut app).matches("└1 of 3 done").count(), 2);
}

#[test]
fn a_new_list_replaces_the_old_one_and_clear_removes_it() {
    let mut app = app_with_agents(1, Plan { size: Some((100, 30)), ..Plan::default() });
    call(&mut app, &todos(&[("one", "in_progress")]));
    call(&mut app, &todos(&[("one", "completed"), ("two", "in_progress")]));
    assert!(wall(&mut app).contains("└1 of 2 done: two"));
    assert_eq!(call(&mut app, &todos(&[])), "the list of tasks is empty");
    assert!(!wall(&mut app).contains("└1 of 2 done"));
    call(&mut app, &todos(&[("three", "pending")]));
    assert!(wall(&mut app).contains("└0 of 1 done: three"));
    app.enter_and_confirm("/clear");
    assert!(!wall(&mut app).contains("└0 of 1 done"));
}

#[test]
fn what_other_models_write_is_taken_and_mistakes_are_named() {
    let mut app = app_with_agents(1, Plan::default());
    let other =
        json!({"plan": [{"step": "a", "status": "pending", "activeForm": "doing a", "priority": "high", "id": "1"}]});
    assert_eq!(call(&mut app, &other), "[ ] a");
    assert_eq!(call(&mut app, &json!({"todos": other["plan"].to_string()})), "[ ] a");
    let wrong = call(&mut app, &todos(&[("a", "done"), (" ", "pending")]));
    assert!(wrong.contains("`todos[0].status` must be one of \"pending\", \"in_progress\", \"completed\""), "{wrong}");
    assert!(call(&mut app, &todos(&[(" ", "pending")])).contains("`todos[0].content` must not be empty"));
    let many: Vec<(&str, &str)> = vec![("a", "pending"); 101];
    assert!(call(&mut app, &todos(&many)).contains("at most 100 items"));
}
