//! Recovery after a crash.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use polylogue::{AgentId, Store, Usage};

use super::*;
use crate::support::internals::{Body, MessageId, Piece};

/// The kinds of all messages of a replay.
fn kinds(store: &Store, agent: AgentId) -> Vec<&'static str> {
    store.replay(agent).unwrap().0.iter().map(|message| message.body.kind()).collect()
}

#[test]
fn an_interrupted_reply_is_kept_as_partial() {
    let dir = tempfile::tempdir().unwrap();
    let root = AgentId::random();
    {
        let store = Store::open(dir.path()).unwrap();
        store.create_root(root, None, None, 1).unwrap();
        store.begin_turn(root, "tell me".into(), None, 1).unwrap();
        store.append_pieces(&[piece(root, "once ", "hm")]).unwrap();
        let (id, upon) = piece(root, "upon", "");
        let usage = |output| Some(Usage { input: 70, output, ..Usage::default() });
        let told = [Piece { usage: usage(1), ..upon }, Piece { usage: usage(2), ..Piece::default() }, Piece::default()];
        store.append_pieces(&told.map(|piece| (id, piece))).unwrap();
    }
    let store = Store::open(dir.path()).unwrap();
    assert!(store.load_agents().unwrap().agents[0].was_busy);
    assert_eq!(store.recover(9).unwrap(), [root]);
    assert_eq!(kinds(&store, root), ["user", "assistant", "usage", "interrupted"]);
    let told = Usage { input: 70, output: 2, ..Usage::default() };
    assert_eq!(store.replay(root).unwrap().0[2].body, Body::Usage(told), "the newest that was told");
    let cut = Reply { text: "once upon".into(), thinking: "hm".into(), is_partial: true, ..Reply::default() };
    assert_eq!(store.replay(root).unwrap().0[1].body, Body::Assistant(cut));
    assert!(!store.load_agents().unwrap().agents[0].was_busy);
}

#[test]
fn only_calls_without_a_result_get_one_in_the_order_of_the_calls() {
    let (store, root) = fresh();
    // An earlier call had the same id, because ids come from the provider.
    let earlier = vec![user("a"), assistant(""), call("3"), result("3")];
    let cut = vec![assistant("now"), call("1"), call("2"), call("3"), result("1")];
    store.append(root, earlier, 1).unwrap();
    store.begin_turn(root, "b".into(), None, 1).unwrap();
    store.append(root, cut, 1).unwrap();
    assert_eq!(store.recover(9).unwrap(), [root]);
    let messages = store.replay(root).unwrap().0;
    let added: Vec<_> = messages[10..].iter().map(|message| &message.body).collect();
    for (body, id) in added.iter().zip(["2", "3"]) {
        let Body::ToolResult(result) = body else { panic!("{body:?}") };
        assert!(result.is_error && result.call_id == id && result.name == "bash", "{result:?}");
    }
    assert!(matches!(added[2], Body::Interrupted(_)) && added.len() == 3, "{added:?}");
}

#[test]
fn a_second_recovery_finds_nothing_and_idle_and_killed_agents_are_not_changed() {
    let (store, root) = fresh();
    let [idle, dead, waiting] = [(); 3].map(|()| fork_at(&store, root, MessageId(0)).row.id);
    store.append_pieces(&[piece(dead, "last words", "")]).unwrap();
    store.begin_turn(dead, "and?".into(), None, 3).unwrap();
    store.kill(&[dead], 4).unwrap();
    store.begin_turn(waiting, "well?".into(), None, 3).unwrap();
    assert_eq!(store.recover(9).unwrap(), [waiting]);
    let after = [root, idle, dead, waiting].map(|agent| store.replay(agent).unwrap());
    assert_eq!(store.recover(10).unwrap(), []);
    assert_eq!([root, idle, dead, waiting].map(|agent| store.replay(agent).unwrap()), after);
    assert_eq!(kinds(&store, dead), ["fork", "user", "assistant", "agent_killed"]);
    assert_eq!(kinds(&store, waiting), ["fork", "user", "interrupted"]);
}

/// Writes messages in an endless loop and prints the id of each one that was stored.
fn write_endlessly(dir: &Path, agent: AgentId) -> ! {
    let store = Store::open(dir).unwrap();
    for number in 0.. {
        store.append(agent, vec![user(&format!("{number}")), assistant("and its answer")], 0).unwrap();
        println!("saved {number}");
    }
    unreachable!("there is always a next number")
}

#[test]
fn a_killed_process_loses_no_acknowledged_message_and_leaves_no_partial_transaction() {
    const STORY: &str = "POLYLOGUE_TEST_KILLED_WRITER";
    if let Ok(story) = std::env::var(STORY) {
        let (agent, dir) = story.split_once(' ').unwrap();
        write_endlessly(Path::new(dir), agent.parse().unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let root = AgentId::random();
    Store::open(dir.path()).unwrap().create_root(root, None, None, 0).unwrap();
    let mut least = 0;
    for patience in [1, 7, 50, 300] {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .arg(std::thread::current().name().unwrap())
            .env(STORY, format!("{root} {}", dir.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
        let saved = lines.filter(|line| line.contains("saved ")).take(patience).count();
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(saved, patience);
        least += saved;
        let count = store_and_count(dir.path(), root);
        assert!(count >= least * 2 && count.is_multiple_of(2), "{count} messages, {least} pairs acknowledged");
        least = count / 2;
    }
}

fn store_and_count(dir: &Path, agent: AgentId) -> usize {
    Store::open(dir).unwrap().replay(agent).unwrap().0.len()
}
