//! The person's editor for a draft, or pager for a question: the terminal is handed over while it runs, and everything
//! else goes on. At an attached terminal the client runs it.

use std::path::PathBuf;

use crate::base::error::{Error, Result};
use crate::base::id::TerminalId;
use crate::domain::wire::{LONGEST_EDITED, Response};
use crate::repl::Repl;
use crate::terminal::editor::{Editor, Program};

/// An editor or a pager on the terminal of this process.
pub(super) struct OpenEditor {
    terminal: TerminalId,
    editor: Editor,
}

impl Repl {
    /// Opens the draft at this terminal in an editor.
    pub(super) fn open_editor(&mut self, id: TerminalId) {
        let text = self.terminals.text_of_draft(&self.core, id).unwrap_or_default();
        self.open_program(id, Program::Editor, &text);
    }

    /// Shows a text in a pager at this terminal.
    pub(super) fn open_pager(&mut self, id: TerminalId, text: &str) {
        self.open_program(id, Program::Pager, text);
    }

    fn open_program(&mut self, id: TerminalId, program: Program, text: &str) {
        if let Err(error) = self.start(id, program, text) {
            self.terminals.take_back(&mut self.core, id);
            self.terminals.notify(id, error.message);
        }
    }

    fn start(&mut self, id: TerminalId, program: Program, text: &str) -> Result<()> {
        let is_own = self.terminals.get(id).is_some_and(|terminal| terminal.is_local() && !terminal.mode.is_attached);
        if !is_own || self.programs.editor.is_some() {
            return self.ask_client_to_open(id, program, text);
        }
        self.terminals.hand_over(&mut self.core, id);
        let wake = self.core.waker();
        let editor = Editor::start(program, text, wake)?;
        self.programs.editor = Some(OpenEditor { terminal: id, editor });
        Ok(())
    }

    fn ask_client_to_open(&mut self, id: TerminalId, program: Program, text: &str) -> Result<()> {
        let name = program.name();
        let client = self.server.client_at(id).filter(|client| client.can_open(program == Program::Pager));
        let client = client.ok_or_else(|| {
            Error::usage(format!("the client of this terminal cannot start the {name}: update polylogue there"))
        })?;
        if text.len() > LONGEST_EDITED {
            return Err(Error::usage(format!("the text is too long for the {name} of an attached terminal")));
        }
        client.send(&match program {
            Program::Editor => Response::Edit(text.to_owned()),
            Program::Pager => Response::View(text.to_owned()),
        });
        self.terminals.hand_over(&mut self.core, id);
        Ok(())
    }

    /// After the editor has ended: takes the terminal back, and the text into the draft.
    pub(super) fn finish_editor(&mut self) {
        let Some(ended) = self.programs.editor.as_mut().and_then(|open| open.editor.poll()) else { return };
        let Some(OpenEditor { terminal, editor }) = self.programs.editor.take() else { return };
        let ended = ended.map(|text| Some(text).filter(|_| !editor.is_pager()));
        self.terminals.on_edited(&mut self.core, terminal, ended);
    }

    /// The file of an editor that is still running when the program ends. The file is kept.
    pub fn take_edited_file(&mut self) -> Option<PathBuf> {
        self.programs.editor.take().filter(|open| !open.editor.is_pager()).map(|open| open.editor.keep())
    }
}
