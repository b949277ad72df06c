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
use crate::domain::compaction::Compaction;
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
    /// The last turn, which failed or was interrupted, is tried again.
    is_retried: bool,
}

/// A turn that has no complete reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTurn {
    /// The message that it answers.
    pub message: (MessageId, String),
    /// Replies of the turn with calls.
    pub rounds: u32,
    /// No part of a reply was kept.
    pub is_unanswered: bool,
}

impl History {
    /// A history of these messages that inherits nothing.
    pub fn from_messages(messages: Vec<Message>) -> Self {
        Self { delta: messages, ..Self::default() }
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
        History { inherited: self.inherited.clone(), ..History::default() }
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
        let undone = self.undone_clears();
        for message in self.iter().filter(|message| message.id > after) {
            match &message.body {
                Body::Clear if !undone.contains(&message.id) => marks.clear(),
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
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let mut chain = Vec::new();
        let mut next = self.inherited.as_deref();
        while let Some(segment) = next {
            chain.push(segment.messages.as_slice());
            next = segment.inherited.as_deref();
        }
        chain.into_iter().rev().flatten().chain(&self.delta)
    }

    /// Every `clear` that counts no more.
    fn undone_clears(&self) -> Vec<MessageId> {
        let undone = |message: &Message| if let Body::ClearUndone(clear) = message.body { Some(clear) } else { None };
        self.iter().filter_map(undone).collect()
    }

    /// Whether messages before an undone `clear` are missing: a history is read from the newest `clear` on.
    pub fn lacks_undone_clear(&self) -> bool {
        let undone = self.undone_clears();
        undone.iter().any(|clear| !self.iter().any(|message| message.id == *clear))
    }

    /// The last turn, if it has no complete reply. Whether it is still to be tried again is known from how it ended.
    pub fn open_turn(&self) -> Option<OpenTurn> {
        let mut messages = self.kept_messages(true);
        messages.retain(|message| compaction_of(message).is_none());
        let at = messages.iter().rposition(|message| matches!(message.body, Body::User(_)))?;
        let Body::User(text) = &messages[at].body else { return None };
        let reply = &messages[at + 1..];
        if matches!(reply.last(), Some(Message { body: Body::Assistant(_), .. })) {
            return None;
        }
        let calls = |pair: &&[&Message]| {
            matches!(pair[1].body, Body::ToolCall(_)) && !matches!(pair[0].body, Body::ToolCall(_))
        };
        let rounds = messages[at..].windows(2).filter(calls).count();
        let is_unanswered = !self.kept_messages(false).iter().any(|kept| kept.id > messages[at].id && is_said(kept));
        Some(OpenTurn {
            message: (messages[at].id, text.clone()),
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            is_unanswered,
        })
    }

    /// The messages of the user that nothing of a reply follows, oldest first.
    pub fn unanswered(&self) -> Vec<(MessageId, &str)> {
        let mut texts: Vec<_> = unanswered(&self.conversation()).map(|(_, id, text)| (id, text)).collect();
        texts.reverse();
        texts
    }

    /// The last turn is tried again from its last complete point, or that is over.
    pub fn set_retried(&mut self, is_retried: bool) {
        self.is_retried = is_retried;
    }

    pub fn is_retried(&self) -> bool {
        self.is_retried
    }

    /// The messages that are sent to the model: `clear`, `rewind` and `compaction` are applied. Left out are the
    /// message of a turn that failed before any part of its reply was kept, and a partial reply that another try
    /// replaced.
    pub fn conversation(&self) -> Vec<&Message> {
        let messages = self.kept_messages(self.is_retried);
        let compactions = in_effect(&messages);
        if compactions.is_empty() {
            return messages;
        }
        let mut sent: Vec<&Message> = Vec::new();
        for message in messages.into_iter().filter(|message| compaction_of(message).is_none()) {
            let left_out_by =
                |(_, compaction): &&(&Message, &Compaction)| (compaction.from..=compaction.up_to).contains(&message.id);
            let next = compactions.iter().find(left_out_by).map_or(message, |(summary, _)| *summary);
            if !sent.last().is_some_and(|last| std::ptr::eq(*last, next)) {
                sent.push(next);
            }
        }
        sent
    }

    /// The newest compaction that counts.
    pub fn newest_compaction(&self) -> Option<MessageId> {
        in_effect(&self.kept_messages(self.is_retried)).first().map(|(message, _)| message.id)
    }

    /// The messages that were not cleared, rewound or replaced, with the compactions among them that were not undone.
    /// `retries`: as they are when the last turn is tried again.
    fn kept_messages(&self, retries: bool) -> Vec<&Message> {
        let mut messages: Vec<&Message> = Vec::new();
        // Where the message of the last turn is, if it failed and nothing of its reply was kept.
        let mut failed: Option<usize> = None;
        let undone = self.undone_clears();
        let restored: Vec<MessageId> = self.iter().filter_map(undone_compaction).collect();
        for message in self.iter() {
            match &message.body {
                Body::Clear if !undone.contains(&message.id) => {
                    messages.clear();
                    failed = None;
                }
                Body::Rewind(to) => {
                    messages.truncate(messages.partition_point(|earlier| earlier.id <= *to));
                    failed = failed.filter(|at| *at < messages.len());
                }
                Body::Compaction(_) if !restored.contains(&message.id) => messages.push(message),
                Body::Replaced(_) => drop_partial(&mut messages),
                Body::Error(_) => failed = unanswered(&messages).next().map(|(at, ..)| at),
                body if body.is_conversation() => {
                    if let Some(failed) = failed.take().filter(|_| is_user(message)) {
                        messages.remove(failed);
                    }
                    // Calls right after a partial reply belong to the one that replaces it.
                    if matches!(body, Body::Assistant(_) | Body::ToolCall(_)) {
                        drop_partial(&mut messages);
                    }
                    messages.push(message);
                }
                _ => {}
            }
        }
        if retries {
            drop_partial(&mut messages);
        } else if let Some(failed) = failed {
            messages.remove(failed);
        }
        messages
    }
}

fn is_user(message: &Message) -> bool {
    matches!(message.body, Body::User(_))
}

/// The messages of the user that nothing of a reply follows, each with its place, newest first.
fn unanswered<'a>(messages: &[&'a Message]) -> impl Iterator<Item = (usize, MessageId, &'a str)> {
    let said = messages.iter().copied().enumerate().rev().filter(|(_, message)| is_said(message));
    said.map_while(|(at, message)| match &message.body {
        Body::User(text) => Some((at, message.id, text.as_str())),
        _ => None,
    })
}

/// Whether the user or the model has said it.
fn is_said(message: &Message) -> bool {
    message.body.is_conversation() && !matches!(message.body, Body::System(_))
}

/// Where the last message is that is no summary.
fn last_said(messages: &[&Message]) -> Option<usize> {
    messages.iter().rposition(|message| compaction_of(message).is_none())
}

/// Removes a partial reply at the end, which another one replaces.
fn drop_partial(messages: &mut Vec<&Message>) {
    let is_partial = |at: &usize| matches!(&messages[*at].body, Body::Assistant(reply) if reply.is_partial);
    if let Some(partial) = last_said(messages).filter(is_partial) {
        messages.remove(partial);
    }
}

fn undone_compaction(message: &Message) -> Option<MessageId> {
    if let Body::CompactionUndone(id) = message.body { Some(id) } else { None }
}

fn compaction_of(message: &Message) -> Option<&Compaction> {
    if let Body::Compaction(compaction) = &message.body { Some(compaction) } else { None }
}

/// The compactions that no newer one covers, newest first.
fn in_effect<'m>(messages: &[&'m Message]) -> Vec<(&'m Message, &'m Compaction)> {
    let mut found: Vec<(&Message, &Compaction)> = Vec::new();
    for message in messages.iter().rev() {
        if let Some(compaction) = compaction_of(message)
            && !found.iter().any(|(_, newer)| newer.covers(compaction))
        {
            found.push((message, compaction));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::Reply;

    fn user(id: i64) -> Message {
        Message { id: MessageId(id), body: Body::User(id.to_string()), created_at: 0 }
    }

    #[test]
    fn a_failed_message_is_sent_only_when_its_turn_is_tried_again() {
        let of = |id, body| Message { id: MessageId(id), body, created_at: 0 };
        let reply = |is_partial| Body::Assistant(Reply { is_partial, ..Reply::default() });
        let mut history = History::from_messages(vec![user(1), of(2, reply(false)), user(3)]);
        let sent = |history: &History| history.conversation().iter().map(|sent| sent.id.0).collect::<Vec<_>>();
        history.push(of(4, Body::Error("no".into())));
        assert_eq!(sent(&history), [1, 2]);
        let turn = history.open_turn().unwrap();
        assert_eq!((turn.message.0, turn.rounds, turn.is_unanswered), (MessageId(3), 0, true));
        history.set_retried(true);
        assert_eq!(sent(&history), [1, 2, 3]);
        history.push(of(5, reply(true)));
        history.set_retried(false);
        assert_eq!(sent(&history), [1, 2, 3, 5]);
        assert!(!history.open_turn().unwrap().is_unanswered);
        history.set_retried(true);
        assert_eq!(sent(&history), [1, 2, 3], "a partial reply is replaced");
        history.push(of(6, reply(false)));
        history.set_retried(false);
        assert_eq!(sent(&history), [1, 2, 3, 6]);
        assert_eq!(history.open_turn(), None);
        for body in [Body::User("7".into()), Body::Error("no".into()), Body::User("9".into())] {
            let id = history.last_id().0 + 1;
            history.push(of(id, body));
        }
        assert_eq!(sent(&history), [1, 2, 3, 6, 9], "another message replaces it");
        assert_eq!(sent(&history.fork()), [1, 2, 3, 6, 9]);
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
    fn an_undone_clear_counts_no_more_and_the_one_before_it_does() {
        let event = |id, body| Message { id: MessageId(id), body, created_at: 0 };
        let mut history = History::from_messages(vec![user(1), event(2, Body::Clear), user(3)]);
        [event(4, Body::Clear), user(5)].into_iter().for_each(|message| history.push(message));
        let ids = |history: &History| history.conversation().iter().map(|m| m.id.0).collect::<Vec<i64>>();
        assert_eq!(ids(&history), [5]);
        history.push(event(6, Body::ClearUndone(MessageId(4))));
        assert_eq!(ids(&history), [3, 5]);
        history.push(event(7, Body::ClearUndone(MessageId(2))));
        assert_eq!(ids(&history), [1, 3, 5]);
        assert!(!history.lacks_undone_clear());
        history.push(event(8, Body::ClearUndone(MessageId(0))));
        assert!(history.lacks_undone_clear());
    }

    fn compaction(id: i64, from: i64, up_to: i64) -> Message {
        let (from, up_to) = (MessageId(from), MessageId(up_to));
        let body = Body::Compaction(Box::new(Compaction { from, up_to, ..Compaction::default() }));
        Message { id: MessageId(id), body, created_at: 0 }
    }

    #[test]
    fn a_compaction_is_sent_instead_of_what_it_leaves_out() {
        let event = |id, body| Message { id: MessageId(id), body, created_at: 0 };
        let sent = |history: &History| history.conversation().iter().map(|m| m.id.0).collect::<Vec<i64>>();
        let mut history = History::from_messages((1..=6).map(user).collect());
        history.push(compaction(7, 1, 4));
        history.push(user(8));
        assert_eq!(sent(&history), [7, 5, 6, 8]);
        history.push(compaction(9, 1, 6));
        assert_eq!(sent(&history), [9, 8]);
        history.push(event(10, Body::CompactionUndone(MessageId(9))));
        assert_eq!((sent(&history), history.newest_compaction()), (vec![7, 5, 6, 8], Some(MessageId(7))));
        history.push(event(11, Body::Rewind(MessageId(5))));
        assert_eq!((sent(&history), history.newest_compaction()), (vec![1, 2, 3, 4, 5], None));
    }

    /// A plain model: after each entry, all that can be sent, and the compactions, as copies.
    fn modelled(log: &[Message]) -> Vec<i64> {
        let undone =
            |id: MessageId| log.iter().any(|m| m.body == Body::ClearUndone(id) || m.body == Body::CompactionUndone(id));
        let (mut kept, mut left_out): (Vec<i64>, Vec<(i64, i64, i64)>) = (Vec::new(), Vec::new());
        for message in log {
            let id = message.id.0;
            match &message.body {
                Body::Clear if !undone(message.id) => (kept, left_out) = (Vec::new(), Vec::new()),
                Body::Rewind(to) => {
                    kept.retain(|known| *known <= to.0);
                    left_out.retain(|(known, ..)| *known <= to.0);
                }
                Body::Compaction(c) if !undone(message.id) => left_out.push((id, c.from.0, c.up_to.0)),
                Body::User(_) => kept.push(id),
                _ => {}
            }
        }
        // The newest compaction of a message is sent for it, once.
        let newest = |id: &i64| left_out.iter().rev().find(|(_, from, up_to)| (from..=up_to).contains(&id));
        let mut sent: Vec<i64> = kept.iter().map(|id| newest(id).map_or(*id, |(by, ..)| *by)).collect();
        sent.dedup();
        sent
    }

    #[test]
    fn random_clears_rewinds_compactions_and_undos_equal_a_plain_model() {
        let (mut rng, mut compacted) = (fastrand::Rng::with_seed(7), 0);
        for round in 0..2_000 {
            let mut history = History::default();
            let mut log: Vec<Message> = Vec::new();
            for id in 1..=rng.i64(1..60) {
                let of_kind = |clears: bool| -> Vec<MessageId> {
                    let is_kind =
                        |m: &&Message| if clears { m.body == Body::Clear } else { compaction_of(m).is_some() };
                    log.iter().filter(is_kind).map(|m| m.id).collect()
                };
                let (clears, compactions) = (of_kind(true), of_kind(false));
                let body = match rng.u8(0..24) {
                    0 => Body::Clear,
                    1 if !clears.is_empty() => Body::ClearUndone(clears[rng.usize(0..clears.len())]),
                    2 | 3 if id > 1 => Body::Rewind(MessageId(rng.i64(0..id))),
                    4 if !compactions.is_empty() => {
                        Body::CompactionUndone(compactions[rng.usize(0..compactions.len())])
                    }
                    5..=7 => next_compaction(&history, &mut rng).unwrap_or(Body::Mark(String::new())),
                    _ => Body::User(id.to_string()),
                };
                let message = Message { id: MessageId(id), body, created_at: 0 };
                log.push(message.clone());
                history.push(message);
                if rng.u8(0..6) == 0 {
                    history = history.fork();
                }
                let sent: Vec<i64> = history.conversation().iter().map(|m| m.id.0).collect();
                assert_eq!(sent, modelled(&log), "round {round}: {log:?}");
                compacted += usize::from(history.newest_compaction().is_some());
            }
        }
        assert!(compacted > 5_000, "{compacted}");
    }

    /// A compaction of a part of what is sent, as `/compact` would plan it.
    fn next_compaction(history: &History, rng: &mut fastrand::Rng) -> Option<Body> {
        let sent = history.conversation();
        let last = sent.get(rng.usize(0..sent.len().max(1)))?;
        let bound = |message: &Message, first: bool| {
            compaction_of(message).map_or(message.id, |c| if first { c.from } else { c.up_to })
        };
        let (from, up_to) = (bound(sent[0], true), bound(last, false));
        Some(Body::Compaction(Box::new(Compaction { from, up_to, ..Compaction::default() })))
    }

    #[test]
    fn the_cost_of_a_rewind_does_not_depend_on_how_much_it_keeps() {
        const MANY: i64 = 100_000;
        let marked = |id| Message { id: MessageId(id), body: Body::Mark(String::new()), created_at: 0 };
        let mut history = History::from_messages((1..=MANY).flat_map(|id| [user(id), marked(id)]).collect());
        // A linear search per rewind would visit ten thousand million messages.
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
