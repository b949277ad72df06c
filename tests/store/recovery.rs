//! Processes that ended in the middle of things.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use polylogue::base::id::{AgentId, MessageId};
use polylogue::domain::message::Body;
use polylogue::store::Store;

use super::*;

/// Kinds of all messages of a replay.
fn kinds(store: &Store, agent: AgentId) -> Vec<&'static str> {
    store.replay(agent).unwrap().0.iter().map(|message| message.body.kind()).collect()
}

#[test]
fn a_reply_that_was_cut_is_kept_as_far_as_it_came_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let root = AgentId::random();
    {
        let store = Store::open(dir.path()).unwrap();
        store.create_root(root, None, None, 1).unwrap();
        store.begin_turn(root, "tell me".into(), 1).unwrap();
        store.append_partial(root, "once ", "hm").unwrap();
        store.append_partial(root, "upon", "").unwrap();
    }
    let store = Store::open(dir.path()).unwrap();
    assert!(store.load_agents().unwrap().agents[0].was_busy);
    assert_eq!(store.recover(9).unwrap(), [root]);
    assert_eq!(kinds(&store, root), ["user", "assistant", "interrupted"]);
    let cut = Reply { text: "once upon".into(), thinking: "hm".into(), is_partial: true, ..Reply::default() };
    assert_eq!(store.replay(root).unwrap().0[1].body, Body::Assistant(cut));
    assert!(!store.load_agents().unwrap().agents[0].was_busy);
}

#[test]
fn calls_without_a_result_get_one_in_the_order_of_the_calls_and_only_they() {
    let (store, root) = fresh();
    // An earlier reply used the same id as one that is open now: ids are the provider's.
    let earlier = vec![said("a"), answer_next(""), called("3"), result("3")];
    let cut = vec![answer_next("now"), called("1"), called("2"), called("3"), result("1")];
    store.append(root, earlier, 1).unwrap();
    store.begin_turn(root, "b".into(), 1).unwrap();
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
fn recovery_finds_nothing_to_do_the_second_time_and_leaves_the_idle_and_the_dead_alone() {
    let (store, root) = fresh();
    let [idle, dead, waiting] = [(); 3].map(|()| fork_at(&store, root, MessageId(0)).row.id);
    store.append_partial(dead, "last words", "").unwrap();
    store.begin_turn(dead, "and?".into(), 3).unwrap();
    store.kill(&[dead], 4).unwrap();
    store.begin_turn(waiting, "well?".into(), 3).unwrap();
    assert_eq!(store.recover(9).unwrap(), [waiting]);
    let after = [root, idle, dead, waiting].map(|agent| store.replay(agent).unwrap());
    assert_eq!(store.recover(10).unwrap(), []);
    assert_eq!([root, idle, dead, waiting].map(|agent| store.replay(agent).unwrap()), after);
    assert_eq!(kinds(&store, dead), ["fork", "user", "assistant", "agent_killed"]);
    assert_eq!(kinds(&store, waiting), ["fork", "user", "interrupted"]);
}

/// Writes without end, and says of each message when it was saved.
fn write_for_ever(dir: &Path, agent: AgentId) -> ! {
    let store = Store::open(dir).unwrap();
    for number in 0.. {
        store.append(agent, vec![said(&format!("{number}")), answer_next("and its answer")], 0).unwrap();
        println!("saved {number}");
    }
    unreachable!("there is always a next number")
}

#[test]
fn a_process_that_is_killed_loses_nothing_it_acknowledged_and_leaves_no_half_transaction() {
    const STORY: &str = "POLYLOGUE_TEST_KILLED_WRITER";
    if let Ok(story) = std::env::var(STORY) {
        let (agent, dir) = story.split_once(' ').unwrap();
        write_for_ever(Path::new(dir), agent.parse().unwrap());
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
