//! The protocols with a model each that thinks, and what its server sends.

use polylogue::config::{ProviderEntry, Secret};
use serde_json::{Value, json};

use crate::support::anthropic::Message;
use crate::support::peer::{Exchange, Peer};
use crate::support::responses::{Script, reasoning};
use crate::support::scene::bash;

/// A protocol with a model that thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    OpenAi,
    Anthropic,
    Responses,
    Google,
}

pub const KINDS: [Kind; 4] = [Kind::OpenAi, Kind::Anthropic, Kind::Responses, Kind::Google];

/// A piece of a reply. All but the last three leave the reply open.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    Thinks,
    Text(&'a str),
    BeginsCall,
    Fails,
    Calls(&'a str),
    Ends(&'a str),
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Responses => "openai-responses",
            Self::Google => "google",
        }
    }

    pub fn model(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses => "gpt-5-mini",
            Self::Anthropic => "claude-haiku-4-5",
            Self::Google => "gemini-3.8-flash",
        }
    }

    pub fn full_name(self) -> String {
        format!("my-{}/{}", self.name(), self.model())
    }

    /// A word in everything that is its provider's alone.
    pub fn mark(self) -> &'static str {
        match self {
            Self::OpenAi => "quartz",
            Self::Anthropic => "basalt",
            Self::Responses => "granite",
            Self::Google => "marble",
        }
    }

    /// The signature in the form in which it goes back; empty for none.
    pub fn signature(self) -> Option<String> {
        (self != Self::OpenAi).then(|| format!("{}-signature", self.mark()))
    }

    pub fn entry(self, peer: &Peer) -> ProviderEntry {
        ProviderEntry {
            name: format!("my-{}", self.name()),
            kind: self.name().into(),
            base_url: peer.url(),
            key: Some(Secret::new(&format!("{}-key", self.mark()))),
            headers: vec![("X-Team".into(), format!("{}-team", self.mark()))],
            models: vec![(self.model().into(), Default::default())],
            ..ProviderEntry::default()
        }
    }

    pub fn play(self, exchange: &Exchange, id: usize, piece: Piece<'_>) {
        match self {
            Self::OpenAi => play_openai(exchange, id, piece),
            Self::Anthropic => play_anthropic(exchange, id, piece),
            Self::Responses => play_responses(exchange, id, piece),
            Self::Google => play_google(exchange, id, piece),
        }
    }
}

fn play_openai(exchange: &Exchange, id: usize, piece: Piece<'_>) {
    let id = format!("call-{id}");
    exchange.stream();
    match piece {
        Piece::Thinks => exchange.thinking("a thought"),
        Piece::Text(text) => exchange.thinking("a thought").text(text),
        Piece::BeginsCall => exchange.thinking("a thought").text("I look.").tool_call(0, &id, "bash", "{\"comm"),
        Piece::Fails => {
            exchange.text("so far").event(&json!({"error": {"message": "Boom.", "type": "server_error"}})).end()
        }
        Piece::Calls(command) => {
            let call = exchange.thinking("a thought").text("I look.").tool_call(0, &id, "bash", &bash(command));
            call.finish("tool_calls").done()
        }
        Piece::Ends(text) => exchange.text(text).finish("stop").done(),
    };
}

fn play_anthropic(exchange: &Exchange, id: usize, piece: Piece<'_>) {
    let (id, message) = (format!("toolu_{id}"), Message::begin(exchange));
    let think = || message.thinking("a thought", "basalt-signature");
    match piece {
        Piece::Thinks => _ = message.open_thinking("a thought"),
        Piece::Text(text) => _ = think().open_text(text),
        Piece::BeginsCall => _ = think().text("I look.").open_call(&id, "bash", "{\"comm"),
        Piece::Fails => think().open_text("so far").fail("api_error", "Boom."),
        Piece::Calls(command) => think().text("I look.").call(&id, "bash", &bash(command)).end("tool_use"),
        Piece::Ends(text) => think().text(text).end("end_turn"),
    }
}

fn play_responses(exchange: &Exchange, id: usize, piece: Piece<'_>) {
    let (call, mut script) = (format!("call_{id}"), Script::start(exchange));
    let mut thought = reasoning(id, "a thought");
    thought["encrypted_content"] = "granite-signature".into();
    match piece {
        Piece::Thinks => _ = script.open_reasoning("a thought"),
        Piece::Text(text) => _ = script.reasoning(&thought).open_text(text),
        Piece::BeginsCall => _ = script.reasoning(&thought).text("I look.").open_call(&call, "bash", "{\"comm"),
        Piece::Fails => script.reasoning(&thought).open_text("so far").fail("server_error", "Boom."),
        Piece::Calls(command) => {
            script.reasoning(&thought).text("I look.").call(&call, "bash", &bash(command)).complete();
        }
        Piece::Ends(text) => script.reasoning(&thought).text(text).complete(),
    }
}

fn play_google(exchange: &Exchange, id: usize, piece: Piece<'_>) {
    let parts = |parts: Value| json!({"candidates": [{"content": {"parts": parts, "role": "model"}}]});
    let thought = json!({"text": "a thought", "thought": true});
    let arguments = |command| serde_json::from_str::<Value>(&bash(command)).expect("JSON");
    let call = |command| {
        let call = json!({"id": format!("k{id}"), "name": "bash", "args": arguments(command)});
        json!({"functionCall": call, "thoughtSignature": "marble-signature"})
    };
    let stop = json!({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}]});
    exchange.stream();
    match piece {
        Piece::Thinks => exchange.event(&parts(json!([thought]))),
        Piece::Text(text) => exchange.event(&parts(json!([thought, {"text": text}]))),
        Piece::BeginsCall => exchange.event(&parts(json!([thought, {"text": "I look."}, call("true")]))),
        Piece::Fails => {
            let error = json!({"error": {"code": 500, "message": "Boom.", "status": "INTERNAL"}});
            exchange.event(&parts(json!([thought, {"text": "so far"}]))).event(&error).end()
        }
        Piece::Calls(command) => {
            exchange.event(&parts(json!([thought, {"text": "I look."}, call(command)]))).event(&stop).end()
        }
        Piece::Ends(text) => {
            let signed = json!({"text": text, "thoughtSignature": "marble-signature"});
            exchange.event(&parts(json!([thought, signed]))).event(&stop).end()
        }
    };
}
