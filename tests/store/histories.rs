//! An agent's history after forks, clears, rewinds and kills.

use polylogue::{AgentId, Store};

use super::*;
use crate::support::internals::{Body, History, MessageId};

#[test]
fn appended_messages_are_read_back_in_order_with_growing_ids() {
    let (store, root) = fresh();
    let odd = "a\0b\u{1b}[2J\u{7}\r\n🦀 \u{202e}";
    let written = store.append(root, vec![user(odd), assistant(""), call("1"), result("1")], 7).unwrap();
    assert!(written.is_sorted_by(|a, b| a.id < b.id));
    assert_eq!(store.replay(root).unwrap().0, written);
    assert_eq!(store.last_own_message(root).unwrap(), written[3].id);
}

#[test]
fn a_child_inherits_nothing_after_the_fork() {
    let (store, root) = fresh();
    append(&store, root, "grandparent");
    let parent = fork(&store, root);
    append(&store, parent, "before");
    let mark = store.append(parent, vec![Body::Mark("here".into())], 3).unwrap()[0].id;
    append(&store, parent, "also before");
    let child = fork(&store, parent);
    append(&store, child, "own");
    let expected = store.replay(child).unwrap();
    assert_eq!(user_texts(&expected.0), ["grandparent", "before", "also before", "own"]);

    append(&store, parent, "later");
    append(&store, root, "later too");
    store.append(parent, vec![Body::Rewind(mark)], 4).unwrap();
    store.append(parent, vec![Body::Clear], 4).unwrap();
    store.append(root, vec![Body::Clear], 4).unwrap();
    store.kill(&[parent], 5).unwrap();
    assert_eq!(store.replay(child).unwrap(), expected);
}

#[test]
fn a_clear_cuts_off_all_ancestors_for_the_agent_and_its_later_children() {
    let (store, root) = fresh();
    append(&store, root, "old");
    let child = fork(&store, root);
    append(&store, child, "mine");
    let early = fork(&store, child);
    store.append(child, vec![Body::Clear], 3).unwrap();
    append(&store, child, "new");
    let late = fork(&store, child);
    assert_eq!(texts(&store, child), ["new"]);
    assert_eq!(texts(&store, late), ["new"]);
    assert_eq!(texts(&store, early), ["old", "mine"]);
    assert_eq!(texts(&store, root), ["old"]);
}

#[test]
fn only_a_fork_after_the_rewind_of_its_parent_inherits_it() {
    let (store, root) = fresh();
    let kept = append(&store, root, "kept");
    append(&store, root, "regretted");
    let before = fork(&store, root);
    store.append(root, vec![Body::Rewind(kept)], 3).unwrap();
    let after = fork(&store, root);
    let conversation_of = |agent: AgentId| {
        let history = History::from_messages(store.replay(agent).unwrap().0);
        let messages: Vec<Message> = history.conversation().into_iter().cloned().collect();
        user_texts(&messages)
    };
    assert_eq!(conversation_of(before), ["kept", "regretted"]);
    assert_eq!(conversation_of(after), ["kept"]);
    assert_eq!(conversation_of(root), ["kept"]);
}

#[test]
fn a_fork_in_the_middle_inherits_up_to_its_fork_point() {
    let (store, root) = fresh();
    let ids: Vec<MessageId> = ["a", "b", "c"].iter().map(|text| append(&store, root, text)).collect();
    for (upto, expected) in [(ids[0], vec!["a"]), (ids[1], vec!["a", "b"]), (MessageId(0), vec![])] {
        let child = fork_at(&store, root, upto).row.id;
        assert_eq!(texts(&store, child), expected);
    }
}

#[test]
fn a_fork_of_an_empty_parent_inherits_nothing_also_later() {
    let dir = tempfile::tempdir().unwrap();
    let (root, child, grandchild) = {
        let store = Store::open(dir.path()).unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 1).unwrap();
        let child = fork(&store, root);
        append(&store, root, "not for the child");
        let empty_handed = fork_at(&store, child, MessageId(0)).row.id;
        (root, child, empty_handed)
    };
    let store = Store::open(dir.path()).unwrap();
    append(&store, root, "nor this");
    assert_eq!(texts(&store, child), Vec::<String>::new());
    assert_eq!(texts(&store, grandchild), Vec::<String>::new());
}

#[test]
fn fork_point_0_still_inherits_what_the_parent_inherited() {
    let (store, root) = fresh();
    append(&store, root, "of the root");
    let child = fork(&store, root);
    append(&store, child, "of the child");
    let grandchild = fork_at(&store, child, MessageId(0)).row.id;
    assert_eq!(texts(&store, grandchild), ["of the root"]);
}

#[test]
fn a_fork_point_in_the_future_is_an_error_and_stores_nothing() {
    let (store, root) = fresh();
    let last = append(&store, root, "a");
    let child = child_of(root, MessageId(last.0 + 1));
    assert!(store.fork(&child, 2).is_err());
    assert_eq!(store.agent(child.id).unwrap(), None);
    assert_eq!(store.last_own_message(root).unwrap(), last);
}

#[test]
fn a_chain_of_a_thousand_ancestors_is_replayed_and_has_a_tail() {
    let (store, root) = fresh();
    let mut agent = root;
    append(&store, agent, "0");
    for number in 1..=1000 {
        agent = fork(&store, agent);
        append(&store, agent, &number.to_string());
    }
    let expected: Vec<String> = (0..=1000).map(|number: i32| number.to_string()).collect();
    assert_eq!(texts(&store, agent), expected);
    assert_eq!(user_texts(&store.tail(agent, None, 4).unwrap()), ["999", "1000"]);
}

#[test]
fn the_tail_pages_backwards_without_gap_or_overlap() {
    let (store, root) = fresh();
    for number in 0..10 {
        append(&store, root, &number.to_string());
    }
    let child = fork(&store, root);
    append(&store, child, "own");
    let whole = store.replay(child).unwrap().0;
    let mut pages = Vec::new();
    let mut before = None;
    while pages.len() < whole.len() {
        let page = store.tail(child, before, 3).unwrap();
        let Some(oldest) = page.first() else { break };
        before = Some(oldest.id);
        pages.splice(0..0, page);
    }
    assert_eq!(pages, whole);
    assert_eq!(store.tail(child, None, 0).unwrap(), []);
}

#[test]
fn a_settled_reply_replaces_its_pieces() {
    let (store, root) = fresh();
    store.append_pieces(&[piece(root, "hel", "")]).unwrap();
    store.append_pieces(&[piece(root, "lo", "hm")]).unwrap();
    let settled = store.settle_reply(root, vec![assistant("hello")], 3).unwrap();
    assert_eq!(store.recover(4).unwrap(), []);
    assert_eq!(store.replay(root).unwrap().0, settled);
}

#[test]
fn a_damaged_row_is_reported_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let root = AgentId::random();
    store.create_root(root, None, None, 1).unwrap();
    let bodies = vec![user("a"), user("b"), call("1"), user("c"), user("d")];
    let ids: Vec<i64> = store.append(root, bodies, 2).unwrap().iter().map(|message| message.id.0).collect();
    drop(store);
    let raw = rusqlite::Connection::open(dir.path().join("polylogue.db")).unwrap();
    raw.execute("UPDATE messages SET kind = 'prophecy' WHERE id = ?1", [ids[1]]).unwrap();
    raw.execute("UPDATE messages SET data = '{\"id\":' WHERE id = ?1", [ids[2]]).unwrap();
    raw.execute("UPDATE messages SET content = x'ff00' WHERE id = ?1", [ids[3]]).unwrap();
    drop(raw);
    let store = Store::open(dir.path()).unwrap();
    let (messages, damaged) = store.replay(root).unwrap();
    assert_eq!(user_texts(&messages), ["a", "d"]);
    assert_eq!(damaged.len(), 3);
    for (problem, id) in damaged.iter().zip(&ids[1..]) {
        assert!(problem.contains(&format!("message {id} ")), "{problem}");
    }
    assert_eq!(user_texts(&store.tail(root, None, 2).unwrap()), ["a", "d"]);
}
