//! The conversation of an agent. A child shares the messages that it inherits with its parent; none are copied.
//!
//! ```text
//!   root     [ m1 m2 m3 ]<---+----------[ m6 ]          the root's delta after the fork
//!                            |
//!   child                    +---[ m4 m5 ]              the child's own
//! ```
//! A fork freezes the parent's delta into a segment that both refer to; both continue with an empty delta.
//! Ids never decrease along a conversation: a message that could not be stored has the id of the one before it.

use std::rc::Rc;

use crate::base::id::MessageId;
use crate::domain::message::{Body, Message};

/// A frozen part of a conversation, shared by the agents that inherited it.
#[derive(Debug, Default)]
pub struct Segment {
    inherited: Option<Rc<Segment>>,
    messages: Vec<Message>,
}

impl Drop for Segment {
    /// Unlinks the chain iteratively: the default would recurse once per ancestor.
    fn drop(&mut self) {
        let mut next = self.inherited.take();
        while let Some(segment) = next {
            next = Rc::into_inner(segment).and_then(|mut last| last.inherited.take());
        }
    }
}

/// An agent's conversation: what it inherited, and its own messages since.
#[derive(Debug, Default)]
pub struct History {
    inherited: Option<Rc<Segment>>,
    delta: Vec<Message>,
}

impl History {
    /// A history of these messages that inherits nothing.
    pub fn from_messages(messages: Vec<Message>) -> Self {
        Self { inherited: None, delta: messages }
    }

    pub fn push(&mut self, message: Message) {
        self.delta.push(message);
    }

    /// The history of a child forked now. Takes constant time: the delta is moved, not copied.
    pub fn fork(&mut self) -> History {
        self.fork_at(self.delta.len())
    }

    /// The history of a child that inherits everything up to the first `own` messages of the delta. The cost depends only on
    /// the messages after them.
    pub fn fork_at(&mut self, own: usize) -> History {
        let rest = self.delta.split_off(own.min(self.delta.len()));
        if !self.delta.is_empty() {
            let messages = std::mem::take(&mut self.delta);
            self.inherited = Some(Rc::new(Segment { inherited: self.inherited.take(), messages }));
        }
        self.delta = rest;
        History { inherited: self.inherited.clone(), delta: Vec::new() }
    }

    pub fn last_id(&self) -> MessageId {
        let last = self.delta.last().or_else(|| self.inherited.as_ref()?.messages.last());
        last.map_or(MessageId(0), |message| message.id)
    }

    /// The newest mark with this label (or any) after the message `after` that was not cleared or rewound.
    pub fn find_mark(&self, label: Option<&str>, after: MessageId) -> Option<MessageId> {
        let marks = self.marks(after);
        marks.iter().rev().find(|(_, text)| label.is_none_or(|label| label == *text)).map(|(id, _)| *id)
    }

    /// The marks after the message `after` that were not cleared or rewound, oldest first, with their labels.
    pub fn marks(&self, after: MessageId) -> Vec<(MessageId, &str)> {
        let mut marks: Vec<(MessageId, &str)> = Vec::new();
        for message in self.iter().filter(|message| message.id > after) {
            match &message.body {
                Body::Clear => marks.clear(),
                Body::Rewind(to) => marks.truncate(marks.partition_point(|(id, _)| id <= to)),
                Body::Mark(text) => marks.push((message.id, text)),
                _ => {}
            }
        }
        marks
    }

    /// The agent's messages since the last fork or load, oldest first.
    pub fn delta(&self) -> &[Message] {
        &self.delta
    }

    /// All messages of any kind, from the oldest ancestor's on.
    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        let mut chain = Vec::new();
        let mut next = self.inherited.as_deref();
        while let Some(segment) = next {
            chain.push(segment.messages.as_slice());
            next = segment.inherited.as_deref();
        }
        chain.into_iter().rev().flatten().chain(&self.delta)
    }

    /// The messages that are sent to the model: `clear` and `rewind` are applied.
    pub fn conversation(&self) -> Vec<&Message> {
        let mut messages: Vec<&Message> = Vec::new();
        for message in self.iter() {
            match &message.body {
                Body::Clear => messages.clear(),
                Body::Rewind(to) => messages.truncate(messages.partition_point(|earlier| earlier.id <= *to)),
                body if body.is_conversation() => messages.push(message),
                _ => {}
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: i64) -> Message {
        Message { id: MessageId(id), body: Body::User(id.to_string()), created_at: 0 }
    }

    fn ids(history: &History) -> Vec<i64> {
        history.iter().map(|message| message.id.0).collect()
    }

    #[test]
    fn parent_and_child_share_what_was_before_the_fork() {
        let mut parent = History::from_messages(vec![user(1), user(2)]);
        let mut child = parent.fork();
        parent.push(user(3));
        child.push(user(4));
        let grandchild = child.fork();
        child.push(user(5));
        assert_eq!(ids(&parent), [1, 2, 3]);
        assert_eq!(ids(&child), [1, 2, 4, 5]);
        assert_eq!(ids(&grandchild), [1, 2, 4]);
    }

    #[test]
    fn a_fork_before_a_running_turn_does_not_inherit_that_turn() {
        let mut parent = History::from_messages(vec![user(1), user(2), user(3)]);
        let child = parent.fork_at(1);
        assert_eq!(ids(&parent), [1, 2, 3]);
        assert_eq!(ids(&child), [1]);
    }

    #[test]
    fn clear_removes_all_before_it_and_rewind_what_is_between() {
        let mut history = History::from_messages(vec![user(1), user(2), user(3)]);
        history.push(Message { id: MessageId(4), body: Body::Rewind(MessageId(2)), created_at: 0 });
        history.push(user(5));
        let ids: Vec<i64> = history.conversation().iter().map(|m| m.id.0).collect();
        assert_eq!(ids, [1, 2, 5]);
        history.push(Message { id: MessageId(6), body: Body::Clear, created_at: 0 });
        history.push(user(7));
        let ids: Vec<i64> = history.conversation().iter().map(|m| m.id.0).collect();
        assert_eq!(ids, [7]);
    }

    #[test]
    fn the_cost_of_a_rewind_does_not_depend_on_how_much_it_keeps() {
        const MANY: i64 = 100_000;
        let marked = |id| Message { id: MessageId(id), body: Body::Mark(String::new()), created_at: 0 };
        let mut history = History::from_messages((1..=MANY).flat_map(|id| [user(id), marked(id)]).collect());
        // A linear search per rewind would look at ten thousand million messages.
        for id in MANY..2 * MANY {
            history.push(Message { id: MessageId(id), body: Body::Rewind(MessageId(MANY - 1)), created_at: 0 });
        }
        assert_eq!(history.conversation().len() as i64, MANY - 1);
        assert_eq!(history.marks(MessageId(0)).len() as i64, MANY - 1);
    }

    #[test]
    fn a_rewind_keeps_unstored_messages_before_its_mark_and_removes_those_after_it() {
        let mut history = History::from_messages(vec![user(1), user(1), user(3), user(3)]);
        history.push(Message { id: MessageId(4), body: Body::Rewind(MessageId(2)), created_at: 0 });
        let ids: Vec<i64> = history.conversation().iter().map(|m| m.id.0).collect();
        assert_eq!(ids, [1, 1]);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_forks_is_dropped_without_recursion() {
        let mut history = History::default();
        for id in 0..100_000 {
            history.push(user(id));
            history = history.fork();
        }
        assert_eq!(history.iter().count(), 100_000);
    }
}
