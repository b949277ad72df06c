//! A conversation of 500 turns, or of a part of them, with tools on a model of 8,000 tokens that refuses what is longer.

use serde_json::Value;

use super::{app, count, is_summary};
use crate::support::harness::Harness;
use crate::support::internals::State;
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::size::scaled;

const CONTEXT: u64 = 8_000;
const TASK: &str = "Port the parser of the shop to the new grammar, and keep the price rounding as it is.";

/// The model: it counts for itself, and refuses what is too long.
#[derive(Default)]
struct Model {
    requests: usize,
    summaries: usize,
    refused: usize,
    /// Calls that are left in this turn, and the number of the next one.
    calls: usize,
    call: usize,
    last: String,
}

impl Model {
    /// Tokens of a request, as this model counts them: 3.4 bytes each.
    fn tokens(body: &[u8]) -> u64 {
        (body.len() as f64 / 3.4) as u64
    }

    fn answer(&mut self, exchange: &Exchange) {
        // The peer has checked that calls and results are pairs.
        let tokens = Self::tokens(&exchange.request().body);
        self.requests += 1;
        if tokens > CONTEXT {
            self.refused += 1;
            let message = format!("This model's maximum context length is {CONTEXT} tokens. You requested {tokens}.");
            exchange.error(400, "context_length_exceeded", &message);
            return;
        }
        let body = exchange.request().json();
        self.last = all_text(&body);
        if is_summary(exchange) {
            self.summaries += 1;
            let text = format!("Summary {}: {}", self.summaries, "the work goes on. ".repeat(30));
            exchange.stream().text(&text).finish("stop").usage(tokens, 150).done();
            return;
        }
        if self.calls > 0 {
            (self.calls, self.call) = (self.calls - 1, self.call + 1);
            let path = format!("{{\"file_path\":\"src/part{}.rs\"}}", self.call % 7);
            exchange.stream().tool_call(0, &format!("call-{}", self.call), "read_file", &path);
            exchange.finish("tool_calls").usage(tokens, 20).done();
            return;
        }
        let text = format!("I did it. {}", "It compiles now. ".repeat(12));
        exchange.stream().text(&text).finish("stop").usage(tokens, 60).done();
    }
}

fn all_text(body: &Value) -> String {
    let messages = body["messages"].as_array().expect("messages");
    messages.iter().filter_map(|message| message["content"].as_str()).collect::<Vec<_>>().join("\n")
}

/// One turn with so many calls.
fn turn(app: &mut Harness, peer: &Peer, model: &mut Model, text: &str, calls: usize) {
    model.calls = calls;
    app.say(0, text);
    while app.state(0) != State::Idle {
        let mut next = None;
        app.turn_until("a request or the end", |app| {
            next = peer.try_accept();
            next.is_some() || app.state(0) == State::Idle
        });
        next.iter().for_each(|exchange| model.answer(exchange));
    }
}

#[test]
fn after_many_turns_no_request_was_refused_and_the_task_and_the_files_are_known() {
    let (peer, turns) = (Peer::start(), scaled(500, 120));
    let mut app = app(&peer, Some(CONTEXT));
    std::fs::create_dir(app.directory().join("src")).expect("a directory");
    for part in 0..7 {
        let text = format!("fn part{part}() {{ round(price) }}\n").repeat(20 + 8 * part);
        std::fs::write(app.directory().join(format!("src/part{part}.rs")), text).expect("a file");
    }
    let mut model = Model::default();
    turn(&mut app, &peer, &mut model, TASK, 2);
    app.enter("/mark start");
    for n in 2..=turns {
        // One tool loop that is larger than the context by far now and then.
        let calls = if n % 60 == 0 { 12 } else { n % 3 };
        turn(&mut app, &peer, &mut model, &format!("step {n}: go on with the next part"), calls);
        assert!(!app.kinds(0).ends_with(&["error"]), "turn {n}: {}", app.last_error(0));
        if n == turns / 2 {
            app = app.crash_and_restart();
        }
    }
    turn(&mut app, &peer, &mut model, "what is the task, and which files did you read?", 0);
    assert_eq!(model.refused, 0, "of {} requests", model.requests);
    assert!(model.last.contains(TASK), "{}", model.last);
    (0..7).for_each(|part| assert!(model.last.contains(&format!("src/part{part}.rs")), "{}", model.last));
    assert!(model.summaries > turns / 50, "{}", model.summaries);
    println!("{} requests, {} summaries", model.requests, model.summaries);
    assert_eq!(count(&app, 0, "user"), turns + 1, "the log is whole");
    assert_eq!(app.replies(0).len(), turns + 1);
    assert_eq!((count(&app, 0, "tool_call"), count(&app, 0, "tool_result")), (model.call, model.call));
    assert_eq!(count(&app, 0, "compaction_undone"), 0);
    assert!(count(&app, 0, "compaction") > turns / 50 && count(&app, 0, "error") == 0);
    app.enter("/rewind start");
    turn(&mut app, &peer, &mut model, "and now?", 0);
    assert!(model.last.ends_with("and now?") && !model.last.contains("[Summary"), "{}", model.last);
    assert!(last_user_text(&serde_json::json!({"messages": [{"role": "user", "content": model.last}]})).contains(TASK));
}
