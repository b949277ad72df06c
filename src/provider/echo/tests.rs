//! The replies to each directive.

use super::*;
use crate::base::error::ErrorKind;
use crate::base::id::MessageId;
use crate::domain::endpoint::Endpoint;
use crate::domain::message::Reply;
use crate::domain::thinking::Thinking;
use crate::domain::tool::{ToolCall, ToolDeclaration};

const TOOLS: &[ToolDeclaration] = &[ToolDeclaration { name: "bash", description: "", parameters: "{}" }];

fn script_of(bodies: Vec<Body>, tools: &[ToolDeclaration]) -> Vec<Step> {
    let messages: Vec<_> = bodies.into_iter().map(|body| Message { id: MessageId(0), body, created_at: 0 }).collect();
    let messages: Vec<_> = messages.iter().collect();
    let endpoint = Endpoint::echo();
    let conversation = Conversation {
        endpoint: &endpoint,
        key: None,
        thinking: Thinking::Unspecified,
        system: "be brief",
        messages: &messages,
        tools,
    };
    match build_request(&conversation).unwrap() {
        ProviderRequest::Script(script) => script.steps.into(),
        other => panic!("echo has scripts only: {other:?}"),
    }
}

fn events_of(bodies: Vec<Body>) -> Vec<StreamEvent> {
    script_of(bodies, TOOLS).into_iter().filter_map(|step| step.event).collect()
}

fn reply_to(text: &str) -> Vec<StreamEvent> {
    events_of(vec![Body::User(text.into())])
}

fn text_in(events: &[StreamEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        StreamEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn call(id: &str) -> Body {
    Body::ToolCall(ToolCall { id: id.into(), name: "bash".into(), arguments: "{}".into() })
}

fn result(id: &str, content: &str) -> Body {
    let (name, content) = ("bash".into(), content.into());
    Body::ToolResult(ToolResult { call_id: id.into(), name, content, is_error: false, duration: Duration::ZERO })
}

#[test]
fn without_directives_it_repeats_the_message_word_by_word_at_once() {
    let steps = script_of(vec![Body::User("hello  you\nthere!\n".into())], &[]);
    assert!(steps.iter().all(|step| step.wait.is_zero()));
    let events: Vec<_> = steps.into_iter().filter_map(|step| step.event).collect();
    assert_eq!(text_in(&events), "hello  you\nthere!");
    assert_eq!(events[0], StreamEvent::Text("hello ".into()));
    let usage = StreamEvent::Usage(Usage { input: 5, output: 3, ..Usage::default() });
    assert_eq!(events[events.len() - 3..], [usage, StreamEvent::Finish(Finish::Stop), StreamEvent::Done]);
}

#[test]
fn slow_and_repeat_apply_to_the_text_after_them() {
    let steps = script_of(vec![Body::User("now\n%slow 250\n%repeat 3\ntick".into())], &[]);
    let waits: Vec<_> = steps.iter().map(|step| step.wait.as_millis()).collect();
    let events: Vec<_> = steps.into_iter().filter_map(|step| step.event).collect();
    assert_eq!(text_in(&events), "now\ntick\ntick\ntick");
    assert_eq!(waits[0], 0);
    assert!(waits[1..waits.len() - 3].iter().all(|&wait| wait == 250), "{waits:?}");
}

#[test]
fn calls_of_one_segment_are_parallel_and_their_results_bring_the_next_segment() {
    let script = "%think hm\nI look.\n%tool bash {\"a\":1}\n%tool nope\n%next\nseen\n%tool bash {bad";
    let first = reply_to(script);
    assert_eq!(first[0], StreamEvent::Thinking("hm".into()));
    assert_eq!(text_in(&first), "I look.");
    let call_event = |index, id: &str, name: &str, arguments: &str| StreamEvent::ToolCall {
        index,
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    assert!(first.contains(&call_event(0, "echo-1", "bash", "{\"a\":1}")));
    assert!(first.contains(&call_event(1, "echo-2", "nope", "{}")));
    assert!(first.contains(&StreamEvent::Finish(Finish::ToolCalls)));

    let mut log =
        vec![Body::User(script.into()), call("echo-1"), call("echo-2"), result("echo-1", "x"), result("echo-2", "y")];
    let second = events_of(log.clone());
    assert_eq!(text_in(&second), "seen");
    assert!(second.contains(&call_event(0, "echo-3", "bash", "{bad")));

    log.extend([Body::Assistant(Reply::default()), call("echo-3"), result("echo-3", "the end")]);
    assert_eq!(text_in(&events_of(log)), "bash: the end");
}

#[test]
fn a_new_user_message_begins_at_its_own_first_segment() {
    let log =
        vec![Body::User("%tool bash {}".into()), call("echo-1"), result("echo-1", "x"), Body::User("again".into())];
    assert_eq!(text_in(&events_of(log)), "again");
}

#[test]
fn with_tools_disabled_a_call_is_an_error() {
    let steps = script_of(vec![Body::User("%tool bash {}".into())], &[]);
    let events: Vec<_> = steps.into_iter().filter_map(|step| step.event).collect();
    assert!(text_in(&events).contains("disabled"));
    assert!(events.contains(&StreamEvent::Finish(Finish::Stop)));
}

#[test]
fn it_fails_after_the_text_before_the_directive() {
    let events = reply_to("some text\n%fail 429 retry-after=7 too quick\nnever said");
    assert_eq!(text_in(&events), "some text");
    let Some(StreamEvent::Error(error)) = events.last() else { panic!("{events:?}") };
    assert_eq!((error.kind, error.retry_after), (ErrorKind::RateLimited, Some(7)));
    assert!(error.message.contains("too quick"));
    for (what, kind) in [("401", ErrorKind::Auth), ("500", ErrorKind::Overloaded), ("network", ErrorKind::Network)] {
        let events = reply_to(&format!("%fail {what}"));
        assert!(matches!(&events[..], [StreamEvent::Error(error)] if error.kind == kind), "{events:?}");
    }
}

#[test]
fn a_hanging_reply_has_no_end() {
    let events = reply_to("one\n%hang\ntwo");
    assert_eq!(events, [StreamEvent::Text("one".into())]);
    assert!(reply_to("%hang").is_empty());
}

#[test]
fn a_cut_reply_has_its_text_and_a_network_error_wherever_the_directive_is() {
    for script in ["%cut\nsome text", "some text\n%cut"] {
        let events = reply_to(script);
        assert_eq!(text_in(&events), "some text");
        assert!(matches!(events.last(), Some(StreamEvent::Error(error)) if error.kind == ErrorKind::Network));
    }
}

#[test]
fn a_reply_at_the_length_limit_ends_so_even_with_calls() {
    let events = reply_to("%length\n%tool bash {}");
    assert!(events.contains(&StreamEvent::Finish(Finish::Length)));
    assert_eq!(events.last(), Some(&StreamEvent::Done));
}

#[test]
fn an_invalid_directive_gives_a_reply_with_its_usage() {
    let wrong = [
        ("%slow soon", "`%slow MS`"),
        ("%repeat 0", "`%repeat N`"),
        ("%tool", "`%tool NAME JSON`"),
        ("%fail 999", "`%fail KIND-or-STATUS"),
        ("%fail 429 retry-after=soon", "`%fail KIND-or-STATUS"),
        ("%hang on", "`%hang`"),
        ("%dance", "`%cut`"),
    ];
    for (line, form) in wrong {
        let events = reply_to(&format!("hello\n{line}"));
        let text = text_in(&events);
        assert!(text.contains(line) && text.contains(form) && !text.contains("hello"), "{text}");
        assert_eq!(events.last(), Some(&StreamEvent::Done));
    }
    assert_eq!(text_in(&reply_to("%% wow\n% no")), "%% wow\n% no");
}

#[test]
fn too_many_repetitions_give_an_error_reply() {
    let text = text_in(&reply_to("%repeat 18446744073709551615\ntwo words"));
    assert!(text.contains("too much"), "{text}");
}
