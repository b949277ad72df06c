//! `polylogue -p`: the program as a process with pipes, against scripted servers.

mod agents;
mod background;
mod chaos;
mod compare;
mod cut;
mod ends;
mod formats;
mod paced;
mod pipes;
#[cfg(feature = "json-schema")]
mod schema;
mod search;
pub(crate) mod served;
mod trajectory;
mod usage;
mod wrappers;

use crate::support::peer::Peer;
use crate::support::program::{Home, PROGRAM, Program, texts};

/// The first turn is interrupted by a line of input, and the next one is answered with "2".
fn interrupt_first_turn(program: &mut Program, peer: &Peer) {
    let first = peer.accept();
    first.stream().text("never ends");
    program.next("text");
    program.write("{\"type\":\"user\",\"text\":\"two\"}\n{\"type\":\"interrupt\"}\n");
    first.wait_for_close();
    peer.accept().stream().text("2").finish("stop").done();
}
