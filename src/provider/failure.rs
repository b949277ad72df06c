//! Errors from HTTP statuses and the texts of servers.
//!
//! The text of a server is untrusted: it may be long, hold control characters, or repeat the key. It is shown only
//! through [`excerpt`].

use crate::base::clock::leading_span;
use crate::base::error::{Error, ErrorKind};

/// Characters of a server's text that are shown.
const MAX_EXCERPT: usize = 500;

/// Prefixes of well-known providers' keys.
const KEY_PREFIXES: &[&str] =
    &["sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "hf_", "AIza", "eyJ", "ghp_", "nvapi-", "fw_"];

/// Parts of servers' messages that a conversation is too long, lower case.
const TOO_LONG: &[&str] = &[
    // OpenAI and most compatible servers: "This model's (endpoint's) maximum context length is".
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context",
    "context window",
    "context length exceeded",
    "reduce the length of",
    "string_above_max_length",
    // Azure: "Input tokens exceed the configured limit of 272000 tokens".
    "tokens exceed the configured limit",
    // OpenAI and Groq, of a request that is larger than all tokens of a minute.
    "request too large for",
    // llama.cpp.
    "exceed_context_size",
    "available context size",
    "context size has been exceeded",
    // vLLM.
    "longer than the maximum model length",
    "too long to fit into the model",
    // SGLang and Text Generation Inference.
    "exceeds the maximum allowed length",
    "`inputs` tokens + `max_new_tokens` must be",
    // LM Studio, Ollama.
    "greater than the context length",
    "prompt too long",
    // LiteLLM names the class of the error.
    "contextwindowexceeded",
    // Mistral, xAI, Moonshot.
    "too large for model with",
    "maximum prompt length is",
    "exceeded model token limit",
    // Anthropic.
    "request_too_large",
    "prompt is too long",
    "exceed context",
    // Bedrock, Google, Alibaba.
    "input is too long",
    "maximum number of tokens",
    "range of input length",
];

/// The texts before the context length in servers' messages, lower case.
const LENGTH_AFTER: &[&str] = &[
    "maximum context length is",
    "maximum context length of",
    "context length is",
    "context length of",
    "context size of",
    "available context size",
    "context window of",
    "configured limit of",
    "maximum prompt length is",
    "maximum model length of",
    "token limit:",
    "tokens >",
];
/// A smaller number is not a context length.
const MIN_CONTEXT: u64 = 256;

/// Texts of servers that were started without tool calls, lower case, and what to do. Servers without such a flag are below.
const TOOLS_DISABLED: &[(&str, &str)] = &[
    (
        "--enable-auto-tool-choice",
        "the server was started without tool calls: start vLLM with --enable-auto-tool-choice and --tool-call-parser, or \
         use --no-tools, or tools = false for the model",
    ),
    (
        "tools param requires --jinja",
        "the server was started without tool calls: start llama-server with --jinja, or use --no-tools, or tools = false \
         for the model",
    ),
];

/// Texts of servers that the model cannot call tools, lower case.
const NO_TOOLS: &[&str] = &[
    // Ollama: "registry.ollama.ai/library/gemma3:4b does not support tools".
    "does not support tools",
    // OpenRouter, with status 404.
    "no endpoints found that support tool use",
    // Groq, Google, LiteLLM and others.
    "tool calling is not supported",
    "tool use is not supported",
    "function calling is not enabled",
    "function calling is not supported",
    "does not support tool calling",
    "does not support tool use",
    "does not support function calling",
];

/// Kind and advice of a text of a server that refuses the tools of a request.
pub(super) fn refused_tools(text: &str) -> Option<(ErrorKind, &'static str)> {
    let text = text.to_lowercase();
    if let Some((_, what)) = TOOLS_DISABLED.iter().find(|(mark, _)| text.contains(mark)) {
        return Some((ErrorKind::BadRequest, *what));
    }
    let is_refused = NO_TOOLS.iter().any(|mark| text.contains(mark));
    is_refused.then_some((ErrorKind::NoTools, "the model cannot call tools (tools = false in its table says so)"))
}

/// The error for this status, followed by an excerpt of the server's text.
pub(super) fn of_status(status: u16, retry_after: Option<u32>, text: &str) -> Error {
    let (kind, what) = meaning(status);
    let mut message = format!("{what} ({status})");
    append(&mut message, text);
    Error { kind, message, retry_after }
}

/// An error of this kind: `what`, followed by an excerpt of the server's text.
pub(super) fn of_kind(kind: ErrorKind, what: &str, text: &str) -> Error {
    let mut message = what.to_owned();
    append(&mut message, text);
    Error::new(kind, message)
}

/// The error for a successful response whose body is neither a reply nor an error object.
pub(super) fn of_no_reply(body: &str) -> Error {
    let what = match is_html(body) {
        true => "the server sent a web page instead of a reply; check the base URL",
        false => "unexpected response from the server",
    };
    of_kind(ErrorKind::Protocol, what, &text_of(body))
}

/// Whether this text or label of a server means that the conversation exceeds the model's context window.
pub(super) fn mentions_context_limit(text: &str) -> bool {
    let text = text.to_lowercase();
    TOO_LONG.iter().any(|mark| text.contains(mark))
}

/// The context length that a server's text names: "maximum context length is 8192 tokens".
pub fn context_length_in(text: &str) -> Option<u64> {
    let text = text.to_lowercase();
    let after = LENGTH_AFTER.iter().find_map(|mark| Some(text.split_once(mark)?.1))?;
    let digits = after.trim_start_matches([' ', '(', ':', '`', '"', '=']);
    let number: String = digits.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
    number.parse().ok().filter(|length| *length >= MIN_CONTEXT)
}

/// How long a server's text ask to wait, in seconds, rounded up: "Please try again in 1m2.5s.", "Please retry in 34s."
pub(super) fn wait_in(text: &str) -> Option<u32> {
    let after = ["try again in ", "retry in "].iter().find_map(|mark| Some(text.split_once(mark)?.1))?;
    leading_span(after).map(|span| span.as_secs_f64().ceil() as u32)
}

fn is_html(body: &str) -> bool {
    body.trim_start().starts_with('<')
}

/// The text of a body without an error object: the title of a web page, or the body itself.
pub(super) fn text_of(body: &str) -> String {
    if !is_html(body) {
        return body.to_owned();
    }
    let lower = body.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|tag| {
        let start = tag + lower[tag..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(body[start..end].trim().to_owned())
    });
    title.unwrap_or_default()
}

fn append(message: &mut String, text: &str) {
    let text = excerpt(text);
    // Some servers send an empty object.
    if text.chars().any(char::is_alphanumeric) {
        message.push_str(": ");
        message.push_str(&text);
    }
}

/// Kind and message of an error status (RFC 9110; 529 is Anthropic's "overloaded").
fn meaning(status: u16) -> (ErrorKind, &'static str) {
    match status {
        300..=399 => (ErrorKind::BadRequest, "the server sent a redirect; check the base URL"),
        401 => (ErrorKind::Auth, "the provider rejected the credentials"),
        402 => (ErrorKind::BadRequest, "the provider account has no credit left"),
        403 => (ErrorKind::Auth, "the credentials do not permit this request"),
        404 | 405 => (ErrorKind::BadRequest, "model or URL not found; check the model name and the base URL"),
        407 => (ErrorKind::Auth, "the proxy requires authentication"),
        408 => (ErrorKind::Timeout, "the provider timed out"),
        413 => (ErrorKind::ContextTooLong, "the request is too large for the provider"),
        429 => (ErrorKind::RateLimited, "rate limit reached"),
        500..=599 => (ErrorKind::Overloaded, "the provider is overloaded or unavailable"),
        _ => (ErrorKind::BadRequest, "the provider rejected the request"),
    }
}

/// One line of at most [`MAX_EXCERPT`] characters, without control characters and without anything that looks like a
/// key.
pub(super) fn excerpt(text: &str) -> String {
    let mut line = String::new();
    // Enough for four bytes a character and as much white space.
    for word in text[..text.floor_char_boundary(8 * MAX_EXCERPT)].split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        push_without_keys(&mut line, word);
    }
    if line.chars().count() > MAX_EXCERPT {
        line = line.chars().take(MAX_EXCERPT).chain(['…']).collect();
    }
    line
}

/// Appends a word. A key in it may be between quotes or brackets, or after `key=`.
fn push_without_keys(line: &mut String, word: &str) {
    let is_key_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
    let mut rest = word;
    while !rest.is_empty() {
        let length = rest.find(|c: char| !is_key_part(c)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(length);
        line.push_str(if looks_like_key(part) { "[key]" } else { part });
        let next = after.find(is_key_part).unwrap_or(after.len());
        line.push_str(&after[..next]);
        rest = &after[next..];
    }
}

/// A well-known prefix, or 24 letters and digits in one piece: model names and UUIDs have hyphens before that.
fn looks_like_key(part: &str) -> bool {
    let is_dense = |piece: &str| {
        let digits = piece.bytes().filter(u8::is_ascii_digit).count();
        piece.len() >= 24 && digits > 0 && digits < piece.len()
    };
    let has_prefix = part.len() >= 10 && KEY_PREFIXES.iter().any(|prefix| part.starts_with(prefix));
    has_prefix || part.split('-').any(is_dense)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_body_is_not_shown() {
        for body in ["{}", "[]", " \n", "{ }"] {
            assert_eq!(of_status(429, None, body).message, "rate limit reached (429)");
        }
    }

    #[test]
    fn each_status_has_its_kind() {
        let kinds = [
            (302, ErrorKind::BadRequest),
            (400, ErrorKind::BadRequest),
            (401, ErrorKind::Auth),
            (402, ErrorKind::BadRequest),
            (403, ErrorKind::Auth),
            (404, ErrorKind::BadRequest),
            (408, ErrorKind::Timeout),
            (413, ErrorKind::ContextTooLong),
            (422, ErrorKind::BadRequest),
            (429, ErrorKind::RateLimited),
            (500, ErrorKind::Overloaded),
            (502, ErrorKind::Overloaded),
            (503, ErrorKind::Overloaded),
            (529, ErrorKind::Overloaded),
        ];
        for (status, kind) in kinds {
            assert_eq!(of_status(status, None, "").kind, kind, "{status}");
        }
    }

    #[test]
    fn a_context_length_in_the_text_is_found() {
        let lengths = [
            ("This model's maximum context length is 8192 tokens. However, you requested 9000", Some(8192)),
            ("maximum context length of 131,072 tokens", Some(131_072)),
            ("the request exceeds the available context size (2048 tokens), try increasing it", Some(2048)),
            ("prompt is too long: 208310 tokens > 200000 maximum", Some(200_000)),
            ("Input tokens exceed the configured limit of 272000 tokens", Some(272_000)),
            ("maximum context length is exceeded", None),
            ("maximum context length is 7", None),
            ("slow down", None),
        ];
        for (text, length) in lengths {
            assert_eq!(context_length_in(text), length, "{text}");
        }
    }

    #[test]
    fn a_wait_in_the_text_is_found() {
        let waits = [
            ("Please try again in 16s. Visit", Some(16)),
            ("Please try again in 1m2.5s.", Some(63)),
            ("try again in 345ms", Some(1)),
            ("Please retry in 34.074824224s.", Some(35)),
            ("try again in 2h", Some(7200)),
            ("try again in 99999999999999h", Some(u32::MAX)),
            ("try again in a minute", None),
            ("try again in ..s", None),
            ("try again in 5", None),
            ("slow down", None),
        ];
        for (text, seconds) in waits {
            assert_eq!(wait_in(text), seconds, "{text}");
        }
    }

    #[test]
    fn an_excerpt_is_one_short_line_without_control_characters() {
        let text = format!("one\n\x1b[31mtwo\t{}", "x ".repeat(100_000));
        let shown = excerpt(&text);
        assert!(shown.starts_with("one [31mtwo x x"));
        assert_eq!(shown.chars().count(), MAX_EXCERPT + 1);
    }

    #[test]
    fn a_key_in_a_servers_text_is_not_shown() {
        let keys = ["sk-proj-abc_DEF-123", "0123456789abcdef0123456789abcdef", "gsk_aaaaaaaaaaaaaaaa"];
        for key in keys {
            for text in [format!("bad key {key}."), format!("key=\"{key}\""), format!("Bearer {key}, no")] {
                let shown = excerpt(&text);
                assert!(!shown.contains(key) && shown.contains("[key]"), "{shown}");
            }
        }
    }

    #[test]
    fn model_names_and_request_numbers_are_shown() {
        for word in
            ["meta-llama/Llama-3.1-405B-Instruct-Turbo-FP8-128k", "123e4567-e89b-12d3-a456-426614174000", "sk-learn"]
        {
            assert_eq!(excerpt(word), word);
        }
    }
}
