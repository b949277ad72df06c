//! A tool call whose name and arguments come in pieces.

use crate::base::error::Result;
use crate::domain::stream::StreamEvent;
use crate::provider::limits;

/// A call is announced to the agent once its name is known, so its index is the order of announcement.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub id: String,
    pub name: String,
    /// Arguments that came before the name; empty once the call is announced.
    held: String,
    /// The index for the agent, once the call is announced.
    index: Option<usize>,
    /// Bytes of arguments so far.
    length: usize,
}

impl PartialCall {
    pub fn is_announced(&self) -> bool {
        self.index.is_some()
    }

    pub fn index(&self) -> Option<usize> {
        self.index
    }

    pub fn add_arguments(&mut self, more: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.length += more.len();
        limits::arguments(self.length)?;
        match self.index {
            Some(index) if !more.is_empty() => {
                let arguments = more.to_owned();
                out.push(StreamEvent::ToolCall { index, id: String::new(), name: String::new(), arguments });
            }
            Some(_) => {}
            None => self.held.push_str(more),
        }
        Ok(())
    }

    /// Appends the first event, with id and name, unless that was done before. `announced` counts the calls so far.
    pub fn announce(&mut self, announced: &mut usize, out: &mut Vec<StreamEvent>) {
        if self.index.is_none() {
            let index = *announced;
            *announced += 1;
            self.index = Some(index);
            let arguments = std::mem::take(&mut self.held);
            out.push(StreamEvent::ToolCall { index, id: self.id.clone(), name: self.name.clone(), arguments });
        }
    }
}
