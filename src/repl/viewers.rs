//! Viewers for programs that embed the loop: they read chunks, or are called back after a turn with new ones.

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::chunk::Position;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::core::{Core, viewers};
use crate::team::{ViewerId, ViewerOutput};

const CHUNKS_PER_TURN: usize = 256;

/// A callback for new chunks. An error detaches its viewer and is shown in the output of the agent.
pub type OnChunks = Box<dyn FnMut(&ViewerOutput) -> Result<()>>;

/// The viewers that are called back.
#[derive(Default)]
pub(super) struct Callbacks(Vec<(ViewerId, OnChunks)>);

impl Repl {
    /// Identifies this process: the numbers of chunks are valid only with the epoch of their process.
    pub fn epoch(&self) -> &str {
        viewers::epoch(&self.core)
    }

    /// Attaches a viewer to an agent. It begins at `from`; without a position, or with one of another process, it
    /// begins with the oldest chunk in memory, including stored messages. The first [`Repl::read`] counts the chunks
    /// that were dropped since the position.
    ///
    /// # Errors
    /// The agent does not exist, or the store cannot be read.
    pub fn attach(&mut self, agent: AgentId, from: Option<&Position>) -> Result<ViewerId> {
        viewers::attach(&mut self.core, agent, from)
    }

    /// Attaches a viewer that begins with the newest `count` chunks of an agent.
    ///
    /// # Errors
    /// As for [`Repl::attach`].
    pub fn attach_to_last(&mut self, agent: AgentId, count: u64) -> Result<ViewerId> {
        viewers::attach_to_last(&mut self.core, agent, count)
    }

    /// Attaches a viewer whose callback is called at the end of every turn with new chunks, until the agent ends, the
    /// callback returns an error, or [`Repl::detach`].
    ///
    /// # Errors
    /// As for [`Repl::attach`].
    pub fn on_chunks(&mut self, agent: AgentId, from: Option<&Position>, callback: OnChunks) -> Result<ViewerId> {
        let viewer = viewers::attach(&mut self.core, agent, from)?;
        self.embedding.callbacks.0.push((viewer, callback));
        Ok(viewer)
    }

    /// Reads the next chunks of a viewer: at most `most`, and fewer if they are large, see [`Repl::has_unread`]. For a
    /// viewer that is not attached, the output is over.
    pub fn read(&mut self, viewer: ViewerId, most: usize) -> ViewerOutput {
        viewers::read(&mut self.core, viewer, most)
    }

    /// Whether [`Repl::read`] would return something.
    pub fn has_unread(&self, viewer: ViewerId) -> bool {
        viewers::has_unread(&self.core, viewer)
    }

    /// Where this viewer continues, for [`Repl::attach`]; `None` if it is not attached.
    pub fn position(&self, viewer: ViewerId) -> Option<Position> {
        let number = viewers::next(&self.core, viewer)?;
        Some(Position { epoch: viewers::epoch(&self.core).to_owned(), number })
    }

    /// Detaches a viewer; the agent continues, and its output is kept.
    pub fn detach(&mut self, viewer: ViewerId) {
        viewers::close(&mut self.core, viewer);
        self.embedding.callbacks.0.retain(|(id, _)| *id != viewer);
    }
}

impl Callbacks {
    pub(super) fn has_unread(&self, core: &Core) -> bool {
        self.0.iter().any(|(viewer, _)| viewers::has_unread(core, *viewer))
    }

    /// Calls back the viewers with new chunks, each with a bounded number of them.
    pub(super) fn run(&mut self, core: &mut Core) {
        self.0.retain_mut(|(viewer, callback)| {
            let Some(agent) = viewers::agent(core, *viewer).filter(|_| viewers::has_unread(core, *viewer)) else {
                return true;
            };
            let output = viewers::read(core, *viewer, CHUNKS_PER_TURN);
            let outcome = callback(&output);
            if let Err(error) = &outcome {
                core.note(agent, LineKind::Error, &format!("a viewer failed and was detached: {error}"));
            }
            let goes_on = outcome.is_ok() && !output.is_over;
            if !goes_on {
                viewers::close(core, *viewer);
            }
            goes_on
        });
    }
}

#[cfg(test)]
mod tests;
