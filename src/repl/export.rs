//! What leaves the house for a person: text for the clipboard, and files.

use std::fs::OpenOptions;
use std::io::{ErrorKind as IoError, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::flow::Origin;
use crate::repl::Repl;
use crate::repl::core::agent_gone;

impl Repl {
    /// Hands a text to the clipboard of the terminal from which it was asked for.
    pub(super) fn copy(&mut self, origin: Origin, text: &str) -> Result<()> {
        let terminal = origin.terminal().and_then(|at| self.terminals.get_mut(at));
        terminal
            .ok_or_else(|| Error::new(ErrorKind::Usage, "there is no terminal whose clipboard it could be"))?
            .copy(text)
    }

    /// Writes a file that was not there before, for its owner alone.
    pub(super) fn export(&mut self, agent_id: AgentId, path: &Path, text: &str) -> Result<()> {
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        let path = agent.talk.environment.working_directory.join(path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let outcome = file.and_then(|mut file| file.write_all(text.as_bytes()));
        outcome.map_err(|error| {
            let path = path.display();
            let words = match error.kind() {
                IoError::AlreadyExists => format!("{path} is there already: /export md FILE writes another one"),
                _ => format!("{path} cannot be written: {error}"),
            };
            Error::new(ErrorKind::Usage, words)
        })
    }
}
