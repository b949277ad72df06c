//! Hosts: programs that are agents themselves, as models of the provider `acp`. They are spoken to over the Agent Client
//! Protocol by a component of the loop (`features::hosts`); here is what they are asked.
//!
//! A host remembers its conversations in sessions. Each of its replies names the session in a signature, so that the next
//! message goes there, also after a restart. What the session cannot know is sent as a transcript before the message:
//! the whole conversation to a new session, and to a known one what other models have written since.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::base::error::Result;
use crate::base::text::shortened;
use crate::domain::attachment::{Files, readable_text, references};
use crate::domain::endpoint::HOSTS;
use crate::domain::message::{Body, Message, Reply};
use crate::domain::thinking::Thinking;
use crate::provider::{Conversation, NoBytes, ProviderRequest, ProviderSpec};

/// How long a host may say nothing: it thinks, or waits for its own provider.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(1800);
/// The message if a turn is to go on that the host does not have under way.
const GO_ON: &str = "Go on.";
/// The longest transcript, in bytes; the beginning of a longer one is left out.
const MAX_TRANSCRIPT: usize = 200_000;
/// The longest result of a tool in a transcript, in columns.
const MAX_TRANSCRIPT_RESULT: usize = 2_000;

pub const HOST: ProviderSpec = ProviderSpec {
    kind: HOSTS,
    about: "another agent program as a model, such as acp/claude or acp/codex: see polylogue help hosts",
    service: None,
    parameters: &[],
    own_fields: &[],
    check_thinking: |_, _| Ok(()),
    build_request: |conversation| Ok(ProviderRequest::Prompt(Box::new(prompt(conversation)?))),
    decoder: || Box::new(NoBytes),
};

/// What a host is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPrompt {
    /// The name of the host in the configuration.
    pub host: String,
    /// The session that has the conversation up to its last reply, if there is one.
    pub session: Option<HostSession>,
    /// The calls of the host are over: it goes on with its turn. If it has none any more, the text asks it to.
    pub goes_on: bool,
    /// The new messages.
    pub text: String,
    /// The images and documents that they refer to.
    pub files: Files,
    pub thinking: Thinking,
    /// What the session does not know of the conversation before the message.
    pub unknown: String,
    /// The same for a new session.
    pub transcript: String,
}

/// A session of a host, as its replies name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSession {
    pub id: String,
    /// The agent whose session it is. A fork has a session of its own.
    pub agent: String,
    /// How many prompts it had when the reply was written.
    pub turn: u64,
}

impl HostSession {
    /// The signature of a reply.
    pub fn to_signature(&self) -> String {
        json!({"session": self.id, "agent": self.agent, "turn": self.turn}).to_string()
    }

    fn from_signature(signature: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(signature).ok()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self { id: text("session")?, agent: text("agent")?, turn: value["turn"].as_u64()? })
    }

    /// The session in which a host wrote this reply.
    fn of(reply: &Reply, host: &str) -> Option<Self> {
        let signature = reply.signatures.last().filter(|_| reply.by == host)?;
        Self::from_signature(&signature.json)
    }
}

fn prompt(conversation: &Conversation<'_>) -> Result<HostPrompt> {
    let messages = conversation.messages;
    let host = conversation.endpoint.model.clone();
    let name = conversation.endpoint.full_name();
    let is_answer =
        |message: &&Message| matches!(message.body, Body::Assistant(_) | Body::ToolCall(_) | Body::ToolResult(_));
    let (before, new) = messages.split_at(messages.iter().rposition(is_answer).map_or(0, |at| at + 1));
    let texts = new.iter().filter_map(|message| match &message.body {
        Body::User(text) | Body::System(text) => Some(text.as_str()),
        _ => None,
    });
    let mut texts: Vec<&str> = texts.collect();
    let last_reply = before.iter().rev().find_map(|message| match &message.body {
        Body::Assistant(reply) => Some(reply),
        _ => None,
    });
    let is_own = last_reply.is_some_and(|reply| reply.by == name);
    let goes_on =
        texts.is_empty() && is_own && before.last().is_some_and(|last| matches!(last.body, Body::ToolResult(_)));
    if texts.is_empty() {
        texts.push(GO_ON);
    }
    let session_of = |message: &&Message| match &message.body {
        Body::Assistant(reply) => HostSession::of(reply, &name),
        _ => None,
    };
    let known = before.iter().enumerate().rev().find_map(|(at, message)| Some((at, session_of(message)?)));
    let (at, session) = known.unzip();
    let unknown = at.map_or(String::new(), |at| transcript(after_own_calls(&before[at + 1..])));
    // A summary, a title or a judge has no tools and depends on its instructions. Other agents use those of the host.
    let instructions = Some(conversation.system).filter(|system| conversation.tools.is_empty() && !system.is_empty());
    let text = instructions.into_iter().chain(texts).collect::<Vec<_>>().join("\n\n");
    let known = &conversation.endpoint.files;
    let files = references(&text).into_iter().filter_map(|found| known.get_key_value(found.digest));
    let files = files.map(|(digest, file)| (digest.clone(), Rc::clone(file))).collect();
    let (thinking, transcript) = (conversation.thinking, transcript(before));
    Ok(HostPrompt { host, session, goes_on, text, files, thinking, unknown, transcript })
}

/// Without the calls that belong to the reply before.
fn after_own_calls<'a, 'b>(messages: &'a [&'b Message]) -> &'a [&'b Message] {
    let is_call = |message: &&Message| !matches!(message.body, Body::User(_) | Body::System(_) | Body::Assistant(_));
    let own = messages.iter().take_while(|message| is_call(message)).count();
    &messages[own..]
}

/// The end of the conversation as text; empty if there is none.
fn transcript(messages: &[&Message]) -> String {
    let (mut parts, mut length) = (Vec::new(), 0);
    for message in messages.iter().rev() {
        if length >= MAX_TRANSCRIPT {
            break;
        }
        let part = match &message.body {
            Body::User(said) => part("user", &readable_text(said)),
            Body::System(said) => part("instruction", said),
            Body::Compaction(compaction) => part("summary", &compaction.text()),
            Body::Assistant(reply) => part("assistant", &reply.text),
            Body::ToolCall(call) => {
                part("call", &format!("{} {}", call.name, shortened(&call.arguments, MAX_TRANSCRIPT_RESULT)))
            }
            Body::ToolResult(result) => part("result", &shortened(&result.content, MAX_TRANSCRIPT_RESULT)),
            _ => continue,
        };
        length += part.len();
        parts.push(part);
    }
    parts.reverse();
    let mut text = parts.concat();
    let mut from = text.len().saturating_sub(MAX_TRANSCRIPT);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.split_off(from)
}

fn part(who: &str, what: &str) -> String {
    let what = what.trim();
    if what.is_empty() { String::new() } else { format!("<{who}>\n{what}\n</{who}>\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::MessageId;
    use crate::domain::endpoint::Endpoint;
    use crate::domain::message::Signature;
    use crate::domain::tool::{ToolCall, ToolResult};

    fn said(text: &str) -> Body {
        Body::User(text.into())
    }

    fn reply(by: &str, text: &str, session: Option<&str>) -> Body {
        let signature = |id: &str| {
            let json = HostSession { id: id.into(), agent: "a".into(), turn: 1 }.to_signature();
            Signature { text: 0, calls: 0, json }
        };
        let signatures = session.map(signature).into_iter().collect();
        Body::Assistant(Reply { text: text.into(), by: by.into(), signatures, ..Reply::default() })
    }

    fn asked(bodies: Vec<Body>) -> HostPrompt {
        let message = |(id, body)| Message { id: MessageId(id), body, created_at: 0 };
        let messages: Vec<Message> = (1..).zip(bodies).map(message).collect();
        let messages: Vec<&Message> = messages.iter().collect();
        let endpoint =
            Endpoint { provider: HOSTS.into(), kind: HOSTS.into(), model: "claude".into(), ..Endpoint::echo() };
        let (key, thinking) = (None, Thinking::default());
        prompt(&Conversation { endpoint: &endpoint, key, thinking, system: "", messages: &messages, tools: &[] })
            .unwrap()
    }

    #[test]
    fn a_new_session_gets_the_conversation_and_a_known_one_what_others_have_written() {
        let first = asked(vec![said("hello")]);
        assert_eq!((first.session, &*first.text, &*first.transcript), (None, "hello", ""));
        let later = asked(vec![
            said("one"),
            reply("acp/claude", "first", Some("s1")),
            said("two"),
            reply("openai/gpt", "second", None),
            said("three"),
            said("and four"),
        ]);
        assert_eq!(later.session, Some(HostSession { id: "s1".into(), agent: "a".into(), turn: 1 }));
        assert_eq!(later.text, "three\n\nand four");
        assert_eq!(later.unknown, "<user>\ntwo\n</user>\n<assistant>\nsecond\n</assistant>\n");
        assert!(later.transcript.starts_with("<user>\none\n</user>\n<assistant>\nfirst\n"), "{}", later.transcript);
        let own = asked(vec![
            said("one"),
            reply("acp/claude", "first", Some("s1")),
            Body::System("done".into()),
            said("two"),
        ]);
        assert_eq!((&*own.text, &*own.unknown), ("done\n\ntwo", ""));
        let of_other_host = asked(vec![said("one"), reply("acp/codex", "first", Some("s1")), said("two")]);
        assert_eq!(of_other_host.session, None, "a session is known to its host only");
    }

    #[test]
    fn after_its_calls_a_host_goes_on_and_after_those_of_others_it_is_told() {
        let call = || Body::ToolCall(ToolCall { id: "c".into(), name: "bash".into(), arguments: "{}".into() });
        let result = || {
            let (call_id, name, content, duration) = ("c".into(), "bash".into(), "out".into(), Duration::ZERO);
            Body::ToolResult(ToolResult { call_id, name, content, is_error: false, duration })
        };
        let own = asked(vec![said("one"), reply("acp/claude", "", Some("s1")), call(), result()]);
        assert!(own.goes_on && own.text == GO_ON);
        let of_other = asked(vec![said("one"), reply("openai/gpt", "look", None), call(), result()]);
        assert!(!of_other.goes_on && of_other.transcript.contains("<result>\nout\n"), "{}", of_other.transcript);
    }

    #[test]
    fn of_a_long_conversation_the_end_is_sent() {
        let long = asked(vec![said(&"ä".repeat(MAX_TRANSCRIPT)), reply("openai/gpt", "end", None), said("go on")]);
        assert!(long.transcript.len() <= MAX_TRANSCRIPT && long.transcript.ends_with("end\n</assistant>\n"));
    }
}
