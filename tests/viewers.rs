//! Viewers of the output of agents: each chunk exactly once and in order, from any position on; and the library as an
//! embedding program uses it.

mod library;
mod states;
mod streams;

use polylogue::{AgentId, Change, Chunk, Numbered, Position, Repl, Status, ViewerId, ViewerOutput};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::FIRST_CHUNK;

/// Everything that a viewer has not read yet, as one result.
pub fn read_all(repl: &mut Repl, viewer: ViewerId) -> ViewerOutput {
    let mut seen = repl.read(viewer, 7);
    while repl.has_unread(viewer) {
        let more = repl.read(viewer, 7);
        assert_eq!(more.missed, 0, "nothing is dropped between two readings of one turn");
        seen.chunks.extend(more.chunks);
        seen.is_over = more.is_over;
    }
    seen
}

/// Everything that a new viewer reads.
pub fn all_of(repl: &mut Repl, agent_id: AgentId) -> Vec<Numbered> {
    let viewer = repl.attach(agent_id, None).expect("the agent is there");
    let seen = read_all(repl, viewer);
    repl.detach(viewer);
    assert_eq!(seen.missed, 0);
    seen.chunks
}

/// The same for the `n`th agent.
fn all_chunks(app: &mut Harness, n: usize) -> Vec<Numbered> {
    let agent_id = app.id(n);
    all_of(&mut app.repl, agent_id)
}

/// Each chunk as a text: its own, or its kind in brackets.
pub fn as_texts(chunks: &[Numbered]) -> Vec<String> {
    let text_of = |one: &Numbered| match &one.chunk {
        Chunk::Text(text) => text.clone(),
        Chunk::Status(status) => format!("[{}]", status.name()),
        Chunk::User(text) => format!("> {text}"),
        other => format!("[{}]", serde_json::to_value(other).expect("JSON")["type"].as_str().expect("a type")),
    };
    chunks.iter().map(text_of).collect()
}

#[test]
fn a_viewer_reads_what_was_before_it_and_what_comes_each_once_and_in_order() {
    let mut app = Harness::new(Plan::default());
    let root = app.id(0);
    app.say(0, "one");
    app.turn_until_idle();
    let viewer = app.repl.attach(root, None).unwrap();
    let before = read_all(&mut app.repl, viewer);
    assert!(!app.repl.has_unread(viewer) && app.repl.read(viewer, 10) == ViewerOutput::default());
    app.say(0, "two");
    app.turn_until_idle();
    assert!(app.repl.has_unread(viewer));
    let after = read_all(&mut app.repl, viewer);
    let seen: Vec<Numbered> = before.chunks.into_iter().chain(after.chunks).collect();
    assert_eq!(seen, all_of(&mut app.repl, root));
    let numbers: Vec<u64> = seen.iter().map(|one| one.number).collect();
    assert_eq!(numbers, (FIRST_CHUNK..FIRST_CHUNK + seen.len() as u64).collect::<Vec<_>>());
    let as_texts = as_texts(&seen);
    let one = as_texts.iter().position(|line| line == "> one").unwrap();
    assert_eq!(as_texts[one..one + 3], ["> one", "[running]", "one"]);
    assert_eq!(as_texts.last().map(String::as_str), Some("[idle]"));
}

#[test]
fn a_viewer_goes_on_behind_what_it_has_read_and_an_unknown_position_is_the_beginning() {
    let mut app = Harness::new(Plan::default());
    let root = app.id(0);
    app.say(0, "one");
    app.turn_until_idle();
    let all = all_of(&mut app.repl, root);
    let epoch = app.repl.epoch().to_owned();
    let end = all.last().unwrap().number + 1;
    for (number, missing) in [(FIRST_CHUNK, 0), (FIRST_CHUNK + 2, 2), (end, all.len()), (end + 1, 0), (0, 0)] {
        let position = Position { epoch: epoch.clone(), number };
        let viewer = app.repl.attach(root, Some(&position)).unwrap();
        let seen = read_all(&mut app.repl, viewer);
        assert_eq!((seen.missed, &seen.chunks[..]), (0, &all[missing..]), "{number}");
        assert_eq!(app.repl.position(viewer), Some(Position { epoch: epoch.clone(), number: end }));
    }
    let other = Position { epoch: "of another process".into(), number: end };
    let viewer = app.repl.attach(root, Some(&other)).unwrap();
    assert_eq!(read_all(&mut app.repl, viewer).chunks, all);
    for (count, missing) in [(0, all.len()), (2, all.len() - 2), (1_000_000, 0)] {
        let viewer = app.repl.attach_to_last(root, count).unwrap();
        assert_eq!(read_all(&mut app.repl, viewer).chunks, all[missing..], "{count}");
    }
}

#[test]
fn the_last_chunk_of_a_killed_agent_is_its_death_and_can_be_read_afterwards() {
    let mut app = Harness::new(Plan::default());
    let child = app.repl.create(None, None).unwrap();
    let [early, late, gone] = [(); 3].map(|()| app.repl.attach(child, None).unwrap());
    let first = read_all(&mut app.repl, early).chunks;
    app.repl.send(child, "hello").unwrap();
    app.turn_until_idle();
    app.ask(0, Change::Kill { agent_id: child, cascade: false });
    app.repl.detach(gone);
    let seen = read_all(&mut app.repl, late);
    assert!(seen.is_over && seen.missed == 0);
    assert_eq!(seen.chunks.last().unwrap().chunk, Chunk::Status(Status::Dead));
    let rest = read_all(&mut app.repl, early);
    assert!(rest.is_over);
    assert_eq!(first.into_iter().chain(rest.chunks).collect::<Vec<_>>(), seen.chunks);
    for viewer in [early, late, gone] {
        assert_eq!(app.repl.read(viewer, 1), ViewerOutput { is_over: true, ..ViewerOutput::default() });
        assert!(!app.repl.has_unread(viewer));
    }
    assert!(app.repl.attach(child, None).is_err());
}
