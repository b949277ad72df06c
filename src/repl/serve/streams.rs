//! Answers that take their time: what an agent says, as it says it, and that an agent is at rest.

use serde_json::{Value, json};

use super::client::ClientState;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::chunk::Status;
use crate::domain::wire::Response;
use crate::repl::{Repl, ViewerId};

/// Chunks that are read at once, and bytes of lines after which the others come first.
const CHUNKS_AT_ONCE: usize = 64;
const BYTES_PER_TURN: usize = 256 * 1024;

impl Repl {
    /// Tells a client what is new, while it takes it: one that does not read costs nothing and is told later what it missed.
    pub(super) fn tell_chunks(&mut self, number: u64) {
        let Some((viewer, until)) = self.serving.clients.get(&number).and_then(|one| one.state.reading()) else {
            return;
        };
        let mut bytes = 0;
        while bytes < BYTES_PER_TURN && self.serving.clients.get(&number).is_some_and(|one| one.connection.is_ready()) {
            let (lines, is_over) = self.next_chunks(viewer, until);
            let Some(client) = self.serving.clients.get_mut(&number) else { return };
            bytes += lines.iter().map(String::len).sum::<usize>();
            lines.iter().for_each(|line| client.connection.queue(line));
            client.connection.flush();
            if is_over {
                return self.end_stream(number, viewer, until);
            }
            if lines.is_empty() {
                return;
            }
        }
    }

    /// The next lines for a viewer that reads until this number, and whether they are the last ones.
    fn next_chunks(&mut self, viewer: ViewerId, until: u64) -> (Vec<String>, bool) {
        let wanted = self.place_of(viewer).map_or(0, |place| until.saturating_sub(place.number));
        let seen = self.read(viewer, CHUNKS_AT_ONCE);
        // What is dropped behind the end of what it asked for is nothing that it misses.
        let missed = Some(seen.missed.min(wanted)).filter(|missed| *missed > 0);
        let missed = missed.map(|missed| Response::Missed(missed).to_line());
        let chunks = seen.chunks.iter().filter(|chunk| chunk.number < until);
        let lines = missed.into_iter().chain(chunks.map(|chunk| chunk.to_line(self.epoch()))).collect();
        let is_over = seen.is_over || self.place_of(viewer).is_none_or(|place| place.number >= until);
        (lines, is_over)
    }

    /// The last line of chunks tells where another request may go on; that of a turn, what it came to.
    fn end_stream(&mut self, number: u64, viewer: ViewerId, until: u64) {
        let place = self.place_of(viewer);
        self.detach(viewer);
        let value = match self.serving.clients.get(&number).map(|client| &client.state) {
            Some(ClientState::Turn(turn)) => turn.to_json(),
            _ => place.map_or(Value::Null, |place| json!({"epoch": place.epoch, "n": place.number.min(until)})),
        };
        self.answer_client(number, &Response::Done(value));
    }

    /// Answers a wait that is over.
    pub(super) fn tell_rest(&mut self, number: u64) {
        let Some(client) = self.serving.clients.get(&number) else { return };
        let ClientState::Waiting { agent_id, until } = client.state else { return };
        let is_late = until.is_some_and(|until| until <= self.core.clock.now());
        if !self.core.is_at_rest(agent_id) && !is_late {
            return;
        }
        let told = match self.end_of_wait(agent_id) {
            Ok(status) => Response::Done(json!({"status": status.name()})),
            Err(error) => Response::from(&error),
        };
        self.answer_client(number, &told);
    }

    /// The status of who is at rest.
    ///
    /// # Errors
    /// It is not, and the time is over.
    fn end_of_wait(&self, agent_id: AgentId) -> Result<Status> {
        let status = self.status(agent_id)?;
        if self.core.is_at_rest(agent_id) {
            return Ok(status);
        }
        let queued = self.core.roster.get(agent_id).map_or(0, |agent| agent.queue.len());
        let words = format!("the time is over: {} is {}, {queued} queued", self.label_of(agent_id), status.name());
        Err(Error::new(ErrorKind::Timeout, words))
    }

    /// What was under way for a client is answered.
    pub(super) fn answer_client(&mut self, number: u64, told: &Response) {
        if let Some(client) = self.serving.clients.get_mut(&number) {
            client.state = ClientState::Nothing;
            client.tell(told);
        }
    }
}
