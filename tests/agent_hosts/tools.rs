//! Hosts that use our tools, from within the sandbox.

use super::*;

fn text_of_reply(app: &Harness) -> String {
    app.replies(0).pop().expect("a reply")
}

#[test]
fn a_host_forks_and_writes_mail_and_each_call_is_shown_once() {
    let mut app = app(Plan { policy: Policy::Yolo, ..plan(scripted("forks")) });
    app.enter("go");
    app.turn_until_idle();
    let reply = text_of_reply(&app);
    assert!(reply.starts_with("fork: 200, mail: yes 200 sent to helper, bash: 200, guess: 404"), "{reply}");
    let names = |kind: &str| calls(&app).iter().filter(|call| call.ends_with(kind)).count();
    assert_eq!((names(" fork"), names(" send_mail"), names(" tool")), (1, 1, 0), "{:?}", calls(&app));
    assert_eq!(app.agent(1).unread, 1);
    assert_eq!(app.replies(1), ["hello"], "the child works");
    let screen = app.screen_text();
    assert_eq!(screen.matches("send_mail to helper").count(), 1, "{screen}");
}

#[test]
fn the_person_answers_for_a_call_of_our_tools() {
    for (key, expected) in
        [(b"y", "fork: 200, mail: yes 200 sent to helper"), (b"n", "fork: 200, mail: yes 200 no agent")]
    {
        let mut app = app_of("forks");
        app.enter("go");
        app.turn_until_asked(0);
        assert!(app.screen_text().contains("fork"), "{}", app.screen_text());
        app.press_at_question(key);
        app.turn_until_idle();
        let reply = text_of_reply(&app);
        assert!(reply.starts_with(expected), "{reply}");
    }
}

#[test]
fn what_needs_no_answer_does_not_wait_for_an_open_question() {
    let mut app = app_of("beside");
    app.enter("go");
    app.turn_until_asked(0);
    let is_listed = |app: &mut Harness| calls(app).iter().any(|call| call.starts_with("polylogue:1-1 = "));
    app.turn_until("the result while the question is open", is_listed);
    app.press_at_question(b"y");
    app.turn_until_idle();
    assert_eq!(text_of_reply(&app), "agents: 200");
}

#[test]
fn esc_ends_a_call_of_our_tools_and_the_host_is_told() {
    let mut app = app_of("longs");
    app.enter("go");
    app.turn_until("the call", |app| app.screen_text().contains("waiting for mail"));
    app.escape();
    app.turn_until_idle();
    assert!(calls(&app).iter().any(|call| call.contains("not run: the user interrupted")), "{:?}", calls(&app));
}
