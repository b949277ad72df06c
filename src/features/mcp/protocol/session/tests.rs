use std::rc::Rc;

use super::*;
use crate::base::clock::Clock;
use crate::domain::mcp::Transport;

struct Scene {
    session: Session,
    clock: Clock,
}

fn server() -> McpServer {
    McpServer {
        name: "s".into(),
        transport: Transport::Http { url: String::new(), headers: Vec::new() },
        written: Transport::Http { url: String::new(), headers: Vec::new() },
        net: Vec::new(),
        may_write: false,
        start_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(60),
        enabled_tools: Vec::new(),
        disabled_tools: Vec::new(),
        project: None,
        is_remote: false,
        source: String::new(),
    }
}

impl Scene {
    fn new() -> Self {
        let clock = Clock::manual();
        Self { session: Session::start(server(), None, true, clock.now()), clock }
    }

    /// The methods of the messages to send, with their numbers.
    fn sent(&mut self) -> Vec<(String, Option<u64>)> {
        self.session.take_messages().map(|message| (message.method, message.id)).collect()
    }

    fn receive(&mut self, message: Value) {
        self.session.on_text(message.to_string().as_bytes(), self.clock.now());
    }

    fn answer(&mut self, id: u64, result: Value) {
        self.receive(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn advance(&mut self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.session.on_deadline(self.clock.now());
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.session.take_event()).collect()
    }

    /// Brings it to where requests can be made, in the older era.
    fn ready() -> Self {
        let mut scene = Self::new();
        scene.receive(json!({"id": 1, "error": {"code": -32601, "message": "no"}}));
        scene.answer(2, json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}));
        scene.answer(3, json!({"tools": [{"name": "t"}]}));
        assert!(scene.session.is_ready());
        scene.sent();
        scene.events();
        scene
    }
}

fn named(names: &[(&str, Option<u64>)]) -> Vec<(String, Option<u64>)> {
    names.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect()
}

#[test]
fn a_server_of_the_older_era_is_initialized_after_an_error_or_silence() {
    for is_silent in [false, true] {
        let mut scene = Scene::new();
        assert_eq!(scene.sent(), named(&[("server/discover", Some(1))]));
        if is_silent {
            scene.advance(8);
        } else {
            scene.receive(json!({"id": 1, "error": {"code": -32601, "message": "no"}}));
        }
        assert_eq!(scene.sent(), named(&[("initialize", Some(2))]));
        // Late, and no fault.
        scene.receive(json!({"id": 1, "error": {"code": -32601, "message": "no"}}));
        scene.answer(2, json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}));
        assert_eq!(scene.sent(), named(&[("notifications/initialized", None), ("tools/list", Some(3))]));
        assert_eq!(scene.session.era(), Some(Era::Legacy));
    }
}

#[test]
fn a_slow_server_of_the_newer_era_is_understood_after_all() {
    let mut scene = Scene::new();
    scene.advance(8);
    scene.sent();
    let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
    scene.answer(1, json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}));
    assert_eq!(scene.session.era(), Some(Era::Modern));
    scene.receive(json!({"id": 2, "error": {"code": -32022, "message": "no", "data": data}}));
    assert_eq!(scene.sent(), named(&[("tools/list", Some(3))]));
    let mut other = Scene::new();
    other.advance(8);
    other.receive(json!({"id": 2, "error": {"code": -32022, "message": "no", "data": data}}));
    assert_eq!(other.session.era(), Some(Era::Modern));
}

#[test]
fn every_request_of_the_newer_era_names_its_revision() {
    let mut scene = Scene::new();
    scene.answer(1, json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}}));
    scene.answer(3, json!({"tools": []}));
    scene.session.request(7, "tools/call", Map::new(), Vec::new(), scene.clock.now());
    for message in scene.session.take_messages() {
        let json: Value = serde_json::from_str(&message.text).unwrap();
        assert_eq!(json["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN, "{message:?}");
    }
}

#[test]
fn progress_extends_a_call_up_to_a_bound() {
    let mut scene = Scene::ready();
    scene.session.request(7, "tools/call", Map::new(), Vec::new(), scene.clock.now());
    let id = scene.sent()[0].1.unwrap();
    let mut passed = 0;
    while scene.session.deadline().is_some() {
        assert!(passed <= 600, "it would never end");
        scene.receive(json!({"method": "notifications/progress", "params": {"progressToken": id, "progress": passed}}));
        scene.advance(50);
        passed += 50;
    }
    let [Event::Done { tag: 7, result: Err(why) }] = &scene.events()[..] else { panic!("one end") };
    assert!(why.contains("timed out") && why.contains("last progress"), "{why}");
    assert_eq!(scene.sent(), named(&[("notifications/cancelled", None)]));
    // It comes too late.
    scene.answer(id, json!({}));
    assert_eq!(scene.events(), []);
}

#[test]
fn several_changes_of_the_list_are_read_once() {
    let mut scene = Scene::ready();
    for _ in 0..5 {
        scene.receive(json!({"method": "notifications/tools/list_changed"}));
    }
    assert_eq!(scene.sent(), []);
    scene.advance(1);
    assert_eq!(scene.sent().len(), 1);
    scene.answer(4, json!({"tools": [{"name": "a"}, {"name": "b"}]}));
    assert!(matches!(&scene.events()[..], [Event::Tools(tools)] if tools.len() == 2));
}

#[test]
fn requests_of_the_server_are_answered_in_its_own_numbers() {
    let mut scene = Scene::ready();
    scene.receive(json!({"id": 0, "method": "ping"}));
    scene.receive(json!({"id": "x", "method": "roots/list"}));
    let texts: Vec<String> = scene.session.take_messages().map(|message| message.text).collect();
    assert_eq!(texts[0], r#"{"id":0,"jsonrpc":"2.0","result":{}}"#);
    assert!(texts[1].contains("-32601") && texts[1].contains(r#""id":"x""#), "{}", texts[1]);
}

#[test]
fn an_end_answers_what_was_asked_and_nothing_happens_after_it() {
    let mut scene = Scene::ready();
    scene.session.request(7, "tools/call", Map::new(), Vec::new(), scene.clock.now());
    scene.session.fail("broke".into());
    scene.session.fail("again".into());
    let done = Event::Done { tag: 7, result: Err("the server broke".into()) };
    assert_eq!(scene.events(), [done, Event::Failed("broke".into())]);
    scene.receive(json!({"method": "notifications/tools/list_changed"}));
    assert_eq!((scene.session.deadline(), scene.sent().len()), (None, 0));
}

#[test]
fn a_server_that_only_reports_progress_is_ended() {
    let mut scene = Scene::ready();
    scene.session.request(7, "tools/call", Map::new(), Vec::new(), scene.clock.now());
    let id = scene.sent()[0].1.unwrap();
    let message = "x".repeat(100_000);
    let params = json!({"progressToken": id, "progress": 1, "message": message});
    let count = (0..1_000)
        .take_while(|_| {
            scene.receive(json!({"method": "notifications/progress", "params": params}));
            scene.session.deadline().is_some()
        })
        .count();
    assert!((300..400).contains(&count), "{count}");
    let events = scene.events();
    let is_ended = |event: &Event| matches!(event, Event::Done { tag: 7, result: Err(why) } if why.contains("without"));
    assert!(events.iter().any(is_ended), "{events:?}");
}

#[test]
fn nothing_that_a_server_sends_panics() {
    let samples = [
        json!({"id": 1, "result": null}),
        json!({"id": 1, "result": {"supportedVersions": "x", "capabilities": 7}}),
        json!({"id": 2, "result": {"protocolVersion": 7}}),
        json!({"id": 3, "result": {"tools": {"a": 1}, "nextCursor": 5}}),
        json!({"method": "notifications/progress"}),
        json!({"method": "notifications/tools/list_changed", "params": 7}),
        json!([{"id": 1, "error": 7}, {"id": 9, "result": {}}]),
        json!({"id": {"a": 1}, "method": "x"}),
    ];
    let clock = Rc::new(Clock::manual());
    for first in &samples {
        for second in &samples {
            let mut session = Session::start(server(), None, true, clock.now());
            for message in [first, second, first] {
                session.on_text(message.to_string().as_bytes(), clock.now());
                session.on_text(b"\xff\xfe{", clock.now());
            }
            session.on_deadline(clock.now() + Duration::from_secs(100));
        }
    }
}

#[test]
fn what_a_server_says_is_bounded_and_a_note_is_not_repeated() {
    let mut scene = Scene::ready();
    for id in [4, 5] {
        scene.receive(json!({"method": "notifications/tools/list_changed"}));
        scene.advance(1);
        scene.receive(json!({"id": id, "error": {"code": -1, "message": "no ".repeat(10_000)}}));
    }
    let notes = scene.events();
    let [Event::Note(note)] = notes.as_slice() else { panic!("one note: {notes:?}") };
    assert!(note.len() < 400, "{note}");
    scene.session.fail("x\u{1b}[2J".repeat(1_000));
    let events = scene.events();
    let [Event::Failed(why)] = events.as_slice() else { panic!("it has ended: {events:?}") };
    assert!(why.len() < 1_200 && !why.contains('\u{1b}'), "{why}");
}

#[test]
fn a_list_that_is_refused_later_leaves_the_session() {
    let mut scene = Scene::ready();
    scene.receive(json!({"method": "notifications/tools/list_changed"}));
    scene.advance(1);
    scene.session.on_refused(4, "HTTP 500".into());
    assert_eq!(scene.events(), [Event::Note("cannot list its tools again: HTTP 500".into())]);
    assert!(scene.session.is_ready());
}
