//! What an agent knows of its conversation. A child shares its parent's past and copies none of it.
//!
//! ```text
//!   root     [ m1 m2 m3 ]<---+----------[ m6 ]          the root's delta after the fork
//!                            |
//!   child                    +---[ m4 m5 ]              the child's own
//! ```
//! At a fork the parent's delta is frozen into a segment that both refer to; both go on with an empty delta.
//! Ids never descend along a conversation: a message that could not be saved has that of the one before it.

use std::rc::Rc;

use crate::base::id::MessageId;
use crate::domain::message::{Body, Message};

/// A frozen stretch of a conversation, shared by all who came after it.
#[derive(Debug, Default)]
pub struct Segment {
    inherited: Option<Rc<Segment>>,
    messages: Vec<Message>,
}

impl Drop for Segment {
    /// Unlinks the chain step by step: the default would recurse once per ancestor.
    fn drop(&mut self) {
        let mut next = self.inherited.take();
        while let Some(segment) = next {
            next = Rc::into_inner(segment).and_then(|mut last| last.inherited.take());
        }
    }
}

/// One agent's conversation: what it inherited, and its own since.
#[derive(Debug, Default)]
pub struct History {
    inherited: Option<Rc<Segment>>,
    delta: Vec<Message>,
}

impl History {
    /// A history of these messages, in order, with nothing inherited.
    pub fn from_messages(messages: Vec<Message>) -> Self {
        Self { inherited: None, delta: messages }
    }

    /// Adds the newest message.
    pub fn push(&mut self, message: Message) {
        self.delta.push(message);
    }

    /// The history of a child forked now: everything so far, shared.
    ///
    /// Costs the same for any length: the delta is moved, not copied.
    pub fn fork(&mut self) -> History {
        self.fork_at(self.delta.len())
    }

    /// The history of a child that inherits all but what came after the first `own` messages of the delta.
    /// Costs what is left behind, never what is shared.
    pub fn fork_at(&mut self, own: usize) -> History {
        let rest = self.delta.split_off(own.min(self.delta.len()));
        if !self.delta.is_empty() {
            let messages = std::mem::take(&mut self.delta);
            self.inherited = Some(Rc::new(Segment { inherited: self.inherited.take(), messages }));
        }
        self.delta = rest;
        History { inherited: self.inherited.clone(), delta: Vec::new() }
    }

    /// The newest message's id.
    pub fn last_id(&self) -> MessageId {
        let last = self.delta.last().or_else(|| self.inherited.as_ref()?.messages.last());
        last.map_or(MessageId(0), |message| message.id)
    }

    /// The newest mark of this label (or of any) that stands after the message `after` and is still remembered.
    pub fn find_mark(&self, label: Option<&str>, after: MessageId) -> Option<MessageId> {
        let marks = self.marks(after);
        marks.iter().rev().find(|(_, text)| label.is_none_or(|label| label == *text)).map(|(id, _)| *id)
    }

    /// The marks that stand after the message `after` and are still remembered, oldest first, with their labels.
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

    /// All messages from the oldest ancestor's on, whatever their kind.
    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        let mut chain = Vec::new();
        let mut next = self.inherited.as_deref();
        while let Some(segment) = next {
            chain.push(segment.messages.as_slice());
            next = segment.inherited.as_deref();
        }
        chain.into_iter().rev().flatten().chain(&self.delta)
    }

    /// What the model is told: conversation messages, with `clear` and `rewind` carried out.
    pub fn conversation(&self) -> Vec<&Message> {
        let mut told: Vec<&Message> = Vec::new();
        for message in self.iter() {
            match &message.body {
                Body::Clear => told.clear(),
                Body::Rewind(to) => told.truncate(told.partition_point(|earlier| earlier.id <= *to)),
                body if body.is_conversation() => told.push(message),
                _ => {}
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(id: i64) -> Message {
        Message { id: MessageId(id), body: Body::User(id.to_string()), created_at: 0 }
    }

    fn ids(history: &History) -> Vec<i64> {
        history.iter().map(|message| message.id.0).collect()
    }

    #[test]
    fn parent_and_child_go_apart_after_the_fork_and_share_what_was_before() {
        let mut parent = History::from_messages(vec![said(1), said(2)]);
        let mut child = parent.fork();
        parent.push(said(3));
        child.push(said(4));
        let grandchild = child.fork();
        child.push(said(5));
        assert_eq!(ids(&parent), [1, 2, 3]);
        assert_eq!(ids(&child), [1, 2, 4, 5]);
        assert_eq!(ids(&grandchild), [1, 2, 4]);
    }

    #[test]
    fn a_fork_before_an_open_turn_leaves_that_turn_to_the_parent() {
        let mut parent = History::from_messages(vec![said(1), said(2), said(3)]);
        let child = parent.fork_at(1);
        assert_eq!(ids(&parent), [1, 2, 3]);
        assert_eq!(ids(&child), [1]);
    }

    #[test]
    fn clear_forgets_all_before_it_and_rewind_what_lies_between() {
        let mut history = History::from_messages(vec![said(1), said(2), said(3)]);
        history.push(Message { id: MessageId(4), body: Body::Rewind(MessageId(2)), created_at: 0 });
        history.push(said(5));
        let told: Vec<i64> = history.conversation().iter().map(|m| m.id.0).collect();
        assert_eq!(told, [1, 2, 5]);
        history.push(Message { id: MessageId(6), body: Body::Clear, created_at: 0 });
        history.push(said(7));
        let told: Vec<i64> = history.conversation().iter().map(|m| m.id.0).collect();
        assert_eq!(told, [7]);
    }

    #[test]
    fn what_rewinds_cost_does_not_depend_on_how_much_they_leave() {
        const MANY: i64 = 100_000;
        let marked = |id| Message { id: MessageId(id), body: Body::Mark(String::new()), created_at: 0 };
        let mut history = History::from_messages((1..=MANY).flat_map(|id| [said(id), marked(id)]).collect());
        // Looked at one by one, what stays would be looked at ten thousand million times.
        for id in MANY..2 * MANY {
            history.push(Message { id: MessageId(id), body: Body::Rewind(MessageId(MANY - 1)), created_at: 0 });
        }
        assert_eq!(history.conversation().len() as i64, MANY - 1);
        assert_eq!(history.marks(MessageId(0)).len() as i64, MANY - 1);
    }

    #[test]
    fn a_rewind_leaves_what_could_not_be_saved_before_its_mark_and_takes_what_could_not_after_it() {
        let mut history = History::from_messages(vec![said(1), said(1), said(3), said(3)]);
        history.push(Message { id: MessageId(4), body: Body::Rewind(MessageId(2)), created_at: 0 });
        let told: Vec<i64> = history.conversation().iter().map(|m| m.id.0).collect();
        assert_eq!(told, [1, 1]);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_forks_is_dropped_without_recursion() {
        let mut history = History::default();
        for id in 0..100_000 {
            history.push(said(id));
            history = history.fork();
        }
        assert_eq!(history.iter().count(), 100_000);
    }
}
