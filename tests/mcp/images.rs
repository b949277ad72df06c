//! Images in the results of calls, as each protocol takes them.

use polylogue::config::{Endpoint, ModelFacts};
use polylogue::{Change, Setting};
use serde_json::{Value, json};

use super::{app_with, result_of, server};
use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::peer::Peer;

const DATA: &str = "iVBORw0KGgogbm90IGEgd2hvbGUgb25l";
const MARKER: &str = "[image: first-1.png, 1 KB]";

/// The next request, in whatever protocol; it is refused.
fn next_request(app: &mut Harness, peer: &Peer) -> Value {
    app.say(0, "and now?");
    let exchange = app.accept(peer);
    exchange.error(400, "invalid_request_error", "enough");
    app.turn_until_idle();
    exchange.request().json()
}

/// The program with another model, after a restart.
fn with(app: Harness, endpoint: Endpoint) -> Harness {
    let (mut app, model) = (app, endpoint.full_name());
    app.reconfigure(|plan| Plan { endpoint, ..plan });
    let mut app = app.crash_and_restart();
    app.ask(0, Change::Setting(Setting::Model(model)));
    app
}

#[test]
fn an_image_is_stored_shown_as_a_marker_and_sent_to_models_that_take_it() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("draws")]);
    let result = result_of(&mut app, &peer, "mcp__draws__first");
    let others = "[audio not shown: audio/wav, 3 bytes]\n[image not shown: it is not a PNG, JPEG, GIF or WebP image]";
    assert_eq!(result, format!("a dot\n{MARKER}\n{others}"));
    let url = format!("data:image/png;base64,{DATA}");
    let sent = next_request(&mut app, &peer);
    let rows = sent["messages"].as_array().expect("messages");
    let after = rows.iter().position(|row| row["role"] == "tool").expect("a result") + 1;
    assert_eq!(rows[after]["content"][1]["image_url"]["url"], url.as_str(), "{sent}");

    for (kind, model, expected) in [
        ("openai-responses", "m", json!({"type": "input_image", "image_url": url, "detail": "auto"})),
        (
            "anthropic",
            "claude-haiku-4-5",
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}),
        ),
        ("google", "gemini-2.5-pro", json!({"inlineData": {"mimeType": "image/png", "data": DATA}})),
    ] {
        app = with(app, endpoint(kind, model, &peer.url()));
        let sent = next_request(&mut app, &peer).to_string();
        assert!(sent.contains(&expected.to_string()) && sent.contains(MARKER), "{kind}: {sent}");
    }
    let facts = ModelFacts { images: Some(false), ..ModelFacts::default() };
    app = with(app, Endpoint { facts, ..endpoint("openai", "test", &peer.url()) });
    let sent = next_request(&mut app, &peer).to_string();
    assert!(!sent.contains(DATA) && sent.contains(MARKER), "{sent}");
}
