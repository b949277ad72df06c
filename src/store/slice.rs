//! A child that inherits nothing: its conversation is copied.

use super::agents::{self, Forked, NewAgent};
use super::database::Store;
use super::{ids, log};
use crate::base::error::Result;
use crate::domain::message::Body;

impl Store {
    /// Creates a child, writes the fork into both logs and these messages into the child's, in one transaction. The
    /// child's log begins with a `clear`, which cuts off every ancestor.
    pub(crate) fn slice(&self, child: &NewAgent, bodies: Vec<Body>, now_ms: i64) -> Result<Forked> {
        let is_shared = !bodies.is_empty();
        let (in_parent, in_child) = self.write(|conn| {
            let parent = ids::running(conn, child.parent)?;
            let (ordinal, label) = self.insert_child(conn, child, now_ms)?;
            let in_parent = log::insert(conn, parent, agents::in_parent_log(child, &label, is_shared), now_ms)?;
            log::insert(conn, ordinal, Body::Clear, now_ms)?;
            // After the clear, so that the user still sees where the agent comes from.
            let in_child = log::insert(conn, ordinal, agents::in_child_log(conn, child, parent, is_shared)?, now_ms)?;
            for body in bodies {
                log::insert(conn, ordinal, body, now_ms)?;
            }
            Ok((in_parent, in_child))
        })?;
        Ok(Forked { row: self.expect_agent(child.id)?, in_parent, in_child })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::{AgentId, MessageId};

    fn child_of(parent: AgentId, fork_point: MessageId) -> NewAgent {
        NewAgent { id: AgentId::random(), name: None, parent, fork_point, endpoint: None, environment: None }
    }

    fn user(text: &str) -> Body {
        Body::User(text.into())
    }

    #[test]
    fn a_slice_has_its_own_rows_and_none_of_any_ancestor() {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        let point = store.append(root, vec![user("of the root")], 0).unwrap()[0].id;
        let child = child_of(root, point);
        store.fork(&child, 0).unwrap();
        let slice = child_of(child.id, MessageId(0));
        let forked = store.slice(&slice, vec![user("copied")], 0).unwrap();
        let bodies: Vec<Body> = store.replay(slice.id).unwrap().0.into_iter().map(|message| message.body).collect();
        assert_eq!(bodies, [Body::Fork(format!("{} from agent 1", child.id)), user("copied")]);
        assert_eq!(store.tail(slice.id, None, 10).unwrap().len(), 2);
        assert_eq!(store.replay(child.id).unwrap().0.last(), Some(&forked.in_parent));
        store.conn.execute("DELETE FROM messages WHERE agent < 2", []).unwrap();
        assert_eq!(store.replay(slice.id).unwrap().0.len(), 2);
    }

    #[test]
    fn a_slice_of_a_killed_agent_or_with_a_taken_name_stores_nothing() {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        let child = NewAgent { name: Some("a".into()), ..child_of(root, MessageId(0)) };
        store.slice(&child, vec![user("x")], 0).unwrap();
        let again = NewAgent { id: AgentId::random(), ..child.clone() };
        assert!(store.slice(&again, vec![user("x")], 0).is_err());
        store.kill(&[child.id], 0).unwrap();
        assert!(store.slice(&child_of(child.id, MessageId(0)), vec![user("x")], 0).is_err());
        assert_eq!(store.load_agents().unwrap().agents.len(), 1);
        assert_eq!(store.replay(root).unwrap().0.len(), 1);
    }
}
