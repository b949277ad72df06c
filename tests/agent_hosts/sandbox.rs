//! What the process of a host may write.

use super::*;

#[test]
fn a_host_writes_its_own_directories_always_and_the_workspace_if_its_agent_may() {
    for (policy, expected) in [(Policy::Yolo, "workspace yes, own yes"), (Policy::Plan, "workspace no, own yes")] {
        let (own, other) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        let (own_path, other_path) = (own.path().join("state"), other.path().join("state"));
        let behaviour = format!("writes {} {}", own_path.display(), other_path.display());
        let host = AgentHost { name: "writes".into(), write: vec![own.path().into()], ..scripted(&behaviour) };
        let mut app = app(Plan { policy, ..plan(host) });
        app.enter("go");
        app.turn_until_idle();
        assert_eq!(app.replies(0), [expected], "{}", app.screen_text());
        assert!(own_path.exists(), "what it writes there stays");
        assert!(!other_path.exists(), "what it writes elsewhere does not");
        assert_eq!(app.directory().join("made").exists(), policy == Policy::Yolo);
    }
}

#[test]
fn a_model_that_a_host_cannot_choose_is_said() {
    let mut app = app(plan(AgentHost { model: Some("big".into()), ..scripted("plain") }));
    app.enter("go");
    app.turn_until_idle();
    let screen = app.screen_text().replace("\n  ", " ");
    assert!(screen.contains("plain has no option for its model: remove model from [hosts.plain]"), "{screen}");
    assert_eq!(app.replies(0), ["hello"]);
}

#[test]
fn hosts_are_listed_with_what_is_missing() {
    let missing = AgentHost { command: vec!["no-such-agent".into()], ..scripted("mine") };
    let mut app = app(plan(missing));
    app.enter("/hosts");
    let screen = app.screen_text();
    assert!(screen.contains("acp/mine"), "{screen}");
    assert!(screen.contains("not found: no-such-agent (command in [hosts.mine])"), "{screen}");
    assert!(screen.contains("/fork --host NAME"), "{screen}");
}

#[test]
fn what_a_host_plants_is_reported_once() {
    let mut app = app_of("plants");
    app.enter("go");
    let is_told = |app: &mut Harness| app.screen_text().replace("\n  ", " ").contains("plants: sub/.git was created");
    app.turn_until("the report", is_told);
    app.turn_until_idle();
    app.enter("again");
    app.turn_until("the second reply", |app| app.replies(0).len() == 2);
    app.turn_until_idle();
    assert_eq!(app.screen_text().matches("was created").count(), 1, "{}", app.screen_text());
}
