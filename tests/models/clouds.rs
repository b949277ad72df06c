//! Models of Anthropic and Google at Amazon Bedrock and Vertex AI, played by a server that checks the signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use polylogue::config::{Endpoint, ProviderEntry, RetryPolicy, Secret, Settings};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::harness::{Harness, Plan};
use crate::support::http::Request;
use crate::support::peer::{Exchange, Peer};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const MODEL: &str = "us.anthropic.claude-haiku-4-5-v1:0";

fn plan(endpoint: Endpoint) -> Plan {
    let retry = RetryPolicy { retries: Some(0), ..RetryPolicy::default() };
    Plan { settings: Settings { retry, ..Settings::default() }, ..Plan { endpoint, ..Plan::default() } }
}

fn bedrock(peer: &Peer) -> Plan {
    plan(Endpoint {
        provider: "bedrock".into(),
        kind: "anthropic".into(),
        model: MODEL.into(),
        base_url: peer.url().trim_end_matches("/v1").into(),
        key: Some(Secret::new(&format!("AKIDEXAMPLE:{SECRET}:token=="))),
        aws_region: Some("eu-west-1".into()),
        ..Endpoint::echo()
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut block = key.to_vec();
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), text.as_bytes().to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

/// The signature that the request must have.
fn signature(request: &Request, secret: &str) -> String {
    let header = |name: &str| request.header(name).unwrap_or_else(|| panic!("no {name}"));
    let names = ["host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"];
    let lines: String = names.iter().map(|name| format!("{name}:{}\n", header(name))).collect();
    let path = request.path.replace('%', "%25");
    let canonical = format!("POST\n{path}\n\n{lines}\n{}\n{}", names.join(";"), hex(&Sha256::digest(&request.body)));
    let time = header("x-amz-date");
    let scope = format!("{}/eu-west-1/bedrock/aws4_request", &time[..8]);
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let first = format!("AWS4{secret}").into_bytes();
    let key = scope.split('/').fold(first, |key, part| hmac(&key, part));
    hex(&hmac(&key, &text))
}

/// A message of the event stream with these headers of type 7.
fn frame(headers: &[(&str, &str)], payload: &Value) -> Vec<u8> {
    let mut coded = Vec::new();
    for (name, value) in headers {
        coded.push(u8::try_from(name.len()).unwrap());
        coded.extend(name.as_bytes());
        coded.push(7);
        coded.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        coded.extend(value.as_bytes());
    }
    let payload = payload.to_string().into_bytes();
    let number = |n: usize| u32::try_from(n).unwrap().to_be_bytes();
    let mut message = [number(16 + coded.len() + payload.len()), number(coded.len())].concat();
    message.extend(crc32fast::hash(&message).to_be_bytes());
    message.extend([coded, payload].concat());
    message.extend(crc32fast::hash(&message).to_be_bytes());
    message
}

fn event(event: &Value) -> Vec<u8> {
    let headers = [(":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, &json!({"bytes": BASE64.encode(event.to_string()), "p": "abcd"}))
}

fn reply(text: &str) -> Vec<u8> {
    [
        json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ]
    .iter()
    .flat_map(event)
    .collect()
}

fn begin(exchange: &Exchange) {
    let head = [("content-type", "application/vnd.amazon.eventstream"), ("transfer-encoding", "chunked")];
    exchange.head(200, &head);
}

#[test]
fn a_request_to_bedrock_is_signed_and_its_framed_reply_is_read_however_it_is_cut() {
    for cut in [1, 5, 13, 100, 10_000] {
        let peer = Peer::start();
        let mut app = Harness::new(bedrock(&peer));
        app.enter("hello");
        let exchange = app.accept(&peer);
        let request = exchange.request();
        assert_eq!(request.path, "/model/us.anthropic.claude-haiku-4-5-v1%3A0/invoke-with-response-stream");
        let authorization = request.header("authorization").expect("it is signed").to_owned();
        let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/";
        assert!(authorization.starts_with(start), "{authorization}");
        assert!(authorization.ends_with(&format!("Signature={}", signature(request, SECRET))), "{authorization}");
        assert_ne!(signature(request, SECRET), signature(request, "another"));
        let body = request.json();
        assert_eq!(body["anthropic_version"], "bedrock-2023-05-31");
        assert!(body["model"].is_null() && body["stream"].is_null() && request.header("x-api-key").is_none());
        begin(&exchange);
        reply("fine").chunks(cut).for_each(|piece| {
            exchange.body(piece);
        });
        exchange.end();
        app.turn_until_idle();
        assert_eq!(app.replies(0), ["fine"], "{cut}");
    }
}

#[test]
fn errors_within_the_framing_are_errors_of_the_turn() {
    let exception = |kind: &str| {
        frame(&[(":message-type", "exception"), (":exception-type", kind)], &json!({"message": "too much"}))
    };
    let mut damaged = reply("fine");
    damaged[40] ^= 1;
    let half = reply("fine")[..200].to_vec();
    for (bytes, expected) in [
        (exception("throttlingException"), "too much"),
        (exception("validationException"), "too much"),
        (damaged, "a checksum does not match"),
        (half, ""),
        (vec![0, 0, 0, 1, 0, 0, 0, 0, 0x2d, 0x02, 0xef, 0x8d], "checksum"),
    ] {
        let peer = Peer::start();
        let mut app = Harness::new(bedrock(&peer));
        app.enter("hello");
        let exchange = app.accept(&peer);
        begin(&exchange);
        exchange.body(&bytes).end();
        app.turn_until_idle();
        assert!(app.last_error(0).contains(expected) && app.replies(0).is_empty(), "{}", app.last_error(0));
    }
}

#[test]
fn vertex_gets_a_bearer_token_of_a_command_in_its_own_urls() {
    let base = "/v1/projects/p/locations/l/publishers";
    for (kind, model, path) in [
        ("anthropic", "claude-haiku-4-5@20251001", "anthropic/models/claude-haiku-4-5%4020251001:streamRawPredict"),
        ("google", "gemini-3.8-flash", "google/models/gemini-3.8-flash:streamGenerateContent?alt=sse"),
    ] {
        let peer = Peer::start();
        let url = format!("{}{base}/{kind}", peer.url().trim_end_matches("/v1"));
        let entry = ProviderEntry {
            name: "vertex".into(),
            kind: kind.into(),
            base_url: url,
            key_command: Some("echo ya29.token".into()),
            is_bearer: true,
            ..ProviderEntry::default()
        };
        let mut app = Harness::new(Plan { providers: vec![entry], ..Plan::default() });
        app.enter(&format!("/model vertex/{model}"));
        app.enter("hello");
        let exchange = app.accept(&peer);
        let request = exchange.request();
        assert_eq!(request.path, format!("{base}/{path}"));
        assert_eq!(request.header("authorization"), Some("Bearer ya29.token"));
        assert!(request.header("x-api-key").is_none() && request.header("x-goog-api-key").is_none());
        let version = if kind == "anthropic" { json!("vertex-2023-10-16") } else { Value::Null };
        let body = request.json();
        assert_eq!((&body["anthropic_version"], &body["model"]), (&version, &Value::Null));
        exchange.error(400, "invalid_request_error", "enough");
        app.turn_until_idle();
    }
}
