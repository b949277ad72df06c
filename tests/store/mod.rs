//! The store on real files: histories, a random model, crashes, and errors of the data directory.

mod directory;
mod foreign;
mod histories;
mod log_file;
mod migration;
mod model;
mod recovery;
mod registry;
mod slow_disk;

use polylogue::{AgentId, Store, ToolResult};

use crate::support::internals::{Body, Forked, Message, MessageId, NewAgent, Piece, Reply, ToolCall};

/// A store in memory with its root.
fn fresh() -> (Store, AgentId) {
    let store = Store::in_memory().unwrap();
    let root = AgentId::random();
    store.create_root(root, Some("echo/echo"), None, 1).unwrap();
    (store, root)
}

fn piece(agent: AgentId, text: &str, thinking: &str) -> (AgentId, Piece) {
    (agent, Piece { text: text.into(), thinking: thinking.into(), usage: None })
}

fn user(text: &str) -> Body {
    Body::User(text.into())
}

fn assistant(text: &str) -> Body {
    Body::Assistant(Reply { text: text.into(), ..Reply::default() })
}

fn call(id: &str) -> Body {
    Body::ToolCall(ToolCall { id: id.into(), name: "bash".into(), arguments: "{}".into() })
}

fn result(id: &str) -> Body {
    let (call_id, name) = (id.to_owned(), "bash".to_owned());
    Body::ToolResult(ToolResult {
        call_id,
        name,
        content: "done".into(),
        is_error: false,
        duration: std::time::Duration::ZERO,
    })
}

/// Appends one user message.
fn append(store: &Store, agent: AgentId, text: &str) -> MessageId {
    store.append(agent, vec![user(text)], 2).unwrap()[0].id
}

fn child_of(parent: AgentId, fork_point: MessageId) -> NewAgent {
    NewAgent { id: AgentId::random(), name: None, parent, fork_point, endpoint: None, environment: None }
}

fn fork_at(store: &Store, parent: AgentId, fork_point: MessageId) -> Forked {
    store.fork(&child_of(parent, fork_point), 3).unwrap()
}

/// Forks after the newest message of the parent.
fn fork(store: &Store, parent: AgentId) -> AgentId {
    fork_at(store, parent, store.last_own_message(parent).unwrap()).row.id
}

/// The texts of the user messages of a replay.
fn texts(store: &Store, agent: AgentId) -> Vec<String> {
    let (messages, damaged) = store.replay(agent).unwrap();
    assert_eq!(damaged, Vec::<String>::new());
    user_texts(&messages)
}

fn user_texts(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| match &message.body {
        Body::User(text) => Some(text.clone()),
        _ => None,
    };
    messages.iter().filter_map(text).collect()
}
