//! Viewers of agents that stream from scripted peers: whenever they attach and detach, they read the same stream, and
//! the agents and the store do not change.

use polylogue::{AgentId, Chunk, Numbered, ViewerId};

use super::{all_chunks, all_of, read_all};
use crate::support::harness::{Harness, Plan};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::app_with_agents;

const AGENTS: usize = 10;
const PIECES: usize = 25;

/// Ten agents, each with a request under way; the exchanges in the order of the agents.
fn streaming(peer: &Peer) -> (Harness, Vec<Exchange>) {
    let mut app = app_with_agents(AGENTS, Plan::peer(&peer.url()));
    let exchanges = (0..AGENTS).map(|n| {
        app.say(n, "go on");
        let exchange = app.accept(peer);
        exchange.stream();
        exchange
    });
    let exchanges = exchanges.collect();
    (app, exchanges)
}

/// Every agent receives its next word.
fn step(app: &mut Harness, exchanges: &[Exchange], piece: usize) {
    let word = |n: usize| format!("{n}.{piece} ");
    for (n, exchange) in exchanges.iter().enumerate() {
        exchange.text(&word(n));
    }
    app.turn_until("the word", |app| (0..AGENTS).all(|n| app.agent(n).partial_text().ends_with(&word(n))));
}

fn finish(app: &mut Harness, exchanges: &[Exchange]) {
    for exchange in exchanges {
        exchange.finish("stop").done();
    }
    app.turn_until_idle();
}

/// The replies as the viewers of a program join them.
fn text_of(chunks: &[Numbered]) -> String {
    let text = |one: &Numbered| if let Chunk::Text(text) = &one.chunk { Some(text.clone()) } else { None };
    chunks.iter().filter_map(text).collect()
}

/// A viewer, and what it has read.
struct Looking {
    agent_id: AgentId,
    id: ViewerId,
    read: Vec<Numbered>,
}

impl Looking {
    fn read(&mut self, app: &mut Harness) {
        let seen = read_all(&mut app.repl, self.id);
        assert_eq!(seen.missed, 0);
        self.read.extend(seen.chunks);
    }
}

#[test]
fn a_viewer_that_attaches_at_any_chunk_of_ten_streams_reads_all_of_its_stream_once_and_in_order() {
    let peer = Peer::start();
    let (mut app, exchanges) = streaming(&peer);
    let agents: Vec<AgentId> = (0..AGENTS).map(|n| app.id(n)).collect();
    let mut looking: Vec<Looking> = Vec::new();
    for piece in 0..PIECES {
        step(&mut app, &exchanges, piece);
        for agent_id in &agents {
            let id = app.repl.attach(*agent_id, None).unwrap();
            looking.push(Looking { agent_id: *agent_id, id, read: Vec::new() });
        }
        // Some read in every turn, some now and then, some only at the end; and some lose their connection.
        for (at, one) in looking.iter_mut().enumerate() {
            if at % 3 == 0 || at % 3 == 1 && piece % 7 == 0 {
                one.read(&mut app);
            }
            if at % 5 == piece % 5 {
                let position = app.repl.position(one.id).expect("it is attached");
                app.repl.detach(one.id);
                one.id = app.repl.attach(one.agent_id, Some(&position)).unwrap();
            }
        }
    }
    finish(&mut app, &exchanges);
    for one in &mut looking {
        one.read(&mut app);
        assert_eq!(one.read, all_of(&mut app.repl, one.agent_id));
    }
    for (n, agent_id) in agents.iter().enumerate() {
        let expected: String = (0..PIECES).map(|piece| format!("{n}.{piece} ")).collect();
        assert_eq!(text_of(&all_of(&mut app.repl, *agent_id)), expected);
        assert_eq!(app.replies(n), [expected]);
    }
}

#[test]
fn a_hundred_comings_and_goings_while_ten_stream_change_nothing_about_the_agents_and_the_store() {
    let peer = Peer::start();
    let (mut app, exchanges) = streaming(&peer);
    step(&mut app, &exchanges, 0);
    let before: Vec<String> = (0..AGENTS).map(|n| app.fingerprint(n)).collect();
    for _ in 0..100 {
        let viewers: Vec<ViewerId> = (0..AGENTS).map(|n| app.repl.attach(app.id(n), None).unwrap()).collect();
        for viewer in viewers {
            assert!(!read_all(&mut app.repl, viewer).chunks.is_empty());
            app.repl.detach(viewer);
            assert!(!app.repl.has_unread(viewer));
        }
    }
    assert_eq!((0..AGENTS).map(|n| app.fingerprint(n)).collect::<Vec<_>>(), before);
    finish(&mut app, &exchanges);
}

#[test]
fn screen_ring_and_store_show_the_same_conversation() {
    let peer = Peer::start();
    let (mut app, exchanges) = streaming(&peer);
    (0..PIECES).for_each(|piece| step(&mut app, &exchanges, piece));
    finish(&mut app, &exchanges);
    let expected = text_of(&all_chunks(&mut app, 0));
    assert_eq!(app.replies(0), std::slice::from_ref(&expected));
    assert_eq!(app.agent(0).partial_text(), "");
    let screen: String = app.screen_text().split_whitespace().collect();
    assert!(screen.contains(&expected.split_whitespace().collect::<String>()), "{screen}");
    let mut app = app.crash_and_restart();
    for n in 0..AGENTS {
        let all_chunks = all_chunks(&mut app, n);
        assert_eq!([text_of(&all_chunks)], app.replies(n)[..]);
    }
}
