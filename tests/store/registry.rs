//! The registry: agents, names and queues.

use polylogue::{AgentId, ErrorKind, Result, Store};

use super::*;
use crate::support::internals::{Body, DraftSlot, Found, MessageId, NewAgent, QueueId, QueuedRow};

fn named(parent: AgentId, name: &str) -> NewAgent {
    NewAgent { name: Some(name.into()), ..child_of(parent, MessageId(0)) }
}

/// An agent whose uuid begins with these bytes.
fn with_bytes(parent: AgentId, first: [u8; 3], last: u8) -> NewAgent {
    let mut bytes = [0; 16];
    bytes[..3].copy_from_slice(&first);
    bytes[15] = last;
    NewAgent { id: AgentId::from_bytes(bytes), ..child_of(parent, MessageId(0)) }
}

#[test]
fn the_registry_is_stored_and_lists_running_agents_in_order_of_creation() {
    let dir = tempfile::tempdir().unwrap();
    let root = AgentId::random();
    let (first, second, third) = {
        let store = Store::open(dir.path()).unwrap();
        store.create_root(root, Some("echo/echo"), Some("coding"), 5).unwrap();
        store.set_thinking(root, Some("high")).unwrap();
        let first = store.fork(&named(root, "scout"), 6).unwrap().row;
        let other = NewAgent { endpoint: Some("a/b".into()), ..child_of(first.id, MessageId(0)) };
        let second = store.fork(&other, 7).unwrap().row;
        let third = fork(&store, root);
        store.kill(&[third], 8).unwrap();
        (first, second, third)
    };
    let store = Store::open(dir.path()).unwrap();
    let registry = store.load_agents().unwrap();
    assert_eq!(registry.damaged, Vec::<String>::new());
    assert_eq!(registry.agents.iter().map(|row| row.ordinal).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(registry.agents[1..], [first.clone(), second.clone()]);
    assert_eq!((first.endpoint.as_deref(), second.endpoint.as_deref()), (Some("echo/echo"), Some("a/b")));
    assert_eq!(second.thinking.as_deref(), Some("high"));
    assert_eq!((first.parent, second.parent, second.environment), (Some(root), Some(first.id), Some("coding".into())));
    let dead = store.agent(third).unwrap().unwrap();
    assert_eq!((dead.is_running, dead.ended_at), (false, Some(8)));
}

#[test]
fn there_is_one_root_and_it_cannot_be_killed() {
    let (store, root) = fresh();
    assert!(store.create_root(AgentId::random(), None, None, 1).unwrap_err().message.contains("root agent already"));
    let child = fork(&store, root);
    assert_eq!(store.kill(&[child, root], 2).unwrap_err().kind, ErrorKind::Usage);
    assert!(store.agent(child).unwrap().unwrap().is_running, "all or none");
}

#[test]
fn killing_is_final_for_exactly_the_set_and_keeps_queued_texts() {
    let (store, root) = fresh();
    let [parent, bystander] = [fork(&store, root), fork(&store, root)];
    let child = fork(&store, parent);
    store.enqueue(child, "unsent", false, None, 2).unwrap();
    let events = store.kill(&[child, parent], 9).unwrap();
    assert_eq!(
        events.iter().map(|event| event.body.clone()).collect::<Vec<_>>(),
        [Body::AgentKilled, Body::AgentKilled]
    );
    let living: Vec<AgentId> = store.load_agents().unwrap().agents.iter().map(|row| row.id).collect();
    assert_eq!(living, [root, bystander]);
    assert_eq!(store.queued(child).unwrap()[0].text, "unsent");
    let late: [Result<()>; 7] = [
        store.append(child, vec![user("late")], 10).map(drop),
        store.append_pieces(&[piece(child, "late", "")]),
        store.settle_reply(child, vec![], 10).map(drop),
        store.enqueue(child, "late", false, None, 10).map(drop),
        store.begin_turn(child, "late".into(), None, 10).map(drop),
        store.fork(&child_of(child, MessageId(0)), 10).map(drop),
        store.kill(&[child], 10).map(drop),
    ];
    for refused in late {
        assert!(refused.unwrap_err().message.contains("was killed"));
    }
}

#[test]
fn an_orphan_is_adopted_by_the_nearest_running_ancestor() {
    let (store, root) = fresh();
    let grandparent = fork(&store, root);
    let parent = fork(&store, grandparent);
    let child = fork(&store, parent);
    assert_eq!(store.living_ancestor(child).unwrap().0, Some(parent));
    store.kill(&[parent], 2).unwrap();
    assert_eq!(store.living_ancestor(child).unwrap().0, Some(grandparent));
    store.kill(&[grandparent], 2).unwrap();
    assert_eq!(store.living_ancestor(child).unwrap().0, Some(root));
    assert_eq!(store.living_ancestor(root).unwrap().0, None);
}

#[test]
fn a_name_belongs_to_one_running_agent_and_is_free_after_it_was_killed() {
    let (store, root) = fresh();
    let scout = store.fork(&named(root, "scout"), 2).unwrap().row.id;
    let rival = named(root, "scout");
    let refused = store.fork(&rival, 2).unwrap_err();
    assert_eq!((refused.kind, refused.message.contains("`scout`")), (ErrorKind::Usage, true));
    assert_eq!(store.agent(rival.id).unwrap(), None);
    assert_eq!(store.set_name(root, Some("scout")).unwrap_err().kind, ErrorKind::Usage);
    store.kill(&[scout], 3).unwrap();
    assert_eq!(store.find("scout").unwrap(), Found::None);
    store.set_name(root, Some("scout")).unwrap();
    assert_eq!(store.find("scout").unwrap(), Found::One(root));
    store.set_name(root, None).unwrap();
    assert_eq!(store.find("scout").unwrap(), Found::None);
}

#[test]
fn an_agent_is_found_by_uuid_by_a_unique_prefix_and_by_name() {
    let (store, root) = fresh();
    // 0xff 0xff 0xff is `____` in base64url, a high prefix; three bytes are four characters.
    let [a, b] = [1, 2].map(|last| store.fork(&with_bytes(root, [0xff; 3], last), 2).unwrap().row.id);
    let alone = store.fork(&with_bytes(root, [0xcf; 3], 3), 2).unwrap().row.id;
    assert_eq!(store.find(&a.to_string()).unwrap(), Found::One(a));
    assert_eq!(store.find("____").unwrap(), Found::Ambiguous(vec![a, b]));
    assert_eq!(store.find("____A").unwrap(), Found::Ambiguous(vec![a, b]));
    assert_eq!(store.find(&alone.to_string()[..4]).unwrap(), Found::One(alone));
    assert_eq!(store.find(&alone.to_string()[..3]).unwrap(), Found::None, "three characters are too few");
    assert_eq!(store.find("").unwrap(), Found::None);
    assert_eq!(store.find("%%%%").unwrap(), Found::None);
    store.kill(&[a], 3).unwrap();
    assert_eq!(store.find("____").unwrap(), Found::One(b), "the living come first");
    assert_eq!(store.find(&a.to_string()).unwrap(), Found::One(a), "the dead are found by their whole uuid");
    store.set_name(root, Some("____")).unwrap();
    assert_eq!(store.find("____").unwrap(), Found::One(root), "a name comes before the beginning of a uuid");
}

#[test]
fn queued_texts_keep_their_order_and_enter_the_conversation_once() {
    let (store, root) = fresh();
    let ids: Vec<QueueId> =
        ["a", "b", "c"].iter().map(|text| store.enqueue(root, text, false, None, 2).unwrap()).collect();
    let other = fork(&store, root);
    assert!(store.promote(other, ids[0], 3).is_err(), "it is the root's");
    store.unqueue(root, ids[1], DraftSlot(0)).unwrap();
    assert!(store.unqueue(root, ids[1], DraftSlot(0)).is_err(), "it was taken back already");
    let message = store.promote(root, ids[0], 3).unwrap();
    assert_eq!((message.id, message.body), (store.last_own_message(root).unwrap(), user("a")));
    assert!(store.promote(root, ids[0], 3).is_err(), "it was sent already");
    assert_eq!(store.queued(root).unwrap(), [QueuedRow { id: ids[2], text: "c".into(), is_command: false }]);
    assert_eq!(texts(&store, root), ["a"]);
    store.unqueue(root, ids[2], DraftSlot(0)).unwrap();
    assert!(store.enqueue(root, "d", false, None, 4).unwrap() > ids[2], "a number is never used again");
}

#[test]
fn an_unknown_agent_cannot_be_read_or_written() {
    let (store, _) = fresh();
    let stranger = AgentId::random();
    for refused in [store.replay(stranger).map(drop), store.append(stranger, vec![user("hi")], 1).map(drop)] {
        assert!(refused.unwrap_err().message.contains("there is no agent"));
    }
}

#[test]
fn damaged_rows_of_the_registry_are_reported_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let root = AgentId::random();
    store.create_root(root, None, None, 1).unwrap();
    let [bent, orphan, whole] = [fork(&store, root), fork(&store, root), fork(&store, root)];
    drop(store);
    let raw = rusqlite::Connection::open(dir.path().join("polylogue.db")).unwrap();
    raw.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    raw.execute("UPDATE agents SET uuid = 'no uuid' WHERE uuid = ?1", [bent.to_string()]).unwrap();
    let lost = AgentId::random().to_string();
    raw.execute("UPDATE agents SET parent_uuid = ?1 WHERE uuid = ?2", [lost, orphan.to_string()]).unwrap();
    drop(raw);
    let store = Store::open(dir.path()).unwrap();
    let registry = store.load_agents().unwrap();
    assert_eq!(registry.agents.iter().map(|row| row.id).collect::<Vec<_>>(), [root, orphan, whole]);
    assert!(
        registry.damaged.len() == 1 && registry.damaged[0].contains("agent 1 is damaged"),
        "{:?}",
        registry.damaged
    );
    assert!(store.replay(orphan).unwrap().1[0].contains("lost its parent"));
}
