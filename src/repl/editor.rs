//! The person's editor for a draft: the terminal is handed over while it runs, and everything else goes on.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use crate::base::error::{Error, Result, system_message};
use crate::base::file;
use crate::base::id::{AgentId, TerminalId};
use crate::repl::Repl;

/// An editor that runs.
pub(super) struct Editor {
    terminal: TerminalId,
    agent: AgentId,
    path: PathBuf,
    end: Receiver<std::io::Result<ExitStatus>>,
}

impl Drop for Editor {
    fn drop(&mut self) {
        // What was typed is in the draft.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Repl {
    /// Opens the draft at this terminal in an editor.
    pub(super) fn open_editor(&mut self, id: TerminalId, agent: AgentId) {
        if let Err(error) = self.start_editor(id, agent) {
            self.terminals.take_back(&mut self.core, id);
            self.terminals.notify(id, error.message);
        }
    }

    fn start_editor(&mut self, id: TerminalId, agent: AgentId) -> Result<()> {
        let is_own = self.terminals.get(id).is_some_and(|terminal| terminal.is_local() && !terminal.mode.is_attached);
        if !is_own || self.editor.is_some() {
            return Err(Error::usage("the editor opens only in a chat that runs in this terminal itself"));
        }
        let text = self.terminals.text_of_draft(&self.core, id).unwrap_or_default();
        let path = std::env::temp_dir().join(format!("polylogue-{}.md", AgentId::random()));
        let failed =
            |error: std::io::Error| Error::usage(format!("cannot open the editor: {}", system_message(&error)));
        file::create_private(&path, text.as_bytes()).map_err(failed)?;
        let (sender, end) = mpsc::channel();
        self.editor = Some(Editor { terminal: id, agent, path: path.clone(), end });
        self.terminals.hand_over(&mut self.core, id);
        let wake = Arc::clone(&self.core.waker);
        let run = move || {
            // The loop may be gone.
            let _ = sender.send(run(&path));
            wake();
        };
        let thread = std::thread::Builder::new().name("editor".into()).spawn(run);
        thread.map(drop).map_err(|error| {
            self.editor = None;
            failed(error)
        })
    }

    /// After the editor has ended: takes the terminal back, and the text into the draft.
    pub(super) fn finish_editor(&mut self) {
        let Some(editor) = &self.editor else { return };
        let ended = match editor.end.try_recv() {
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Err("it could not be started".to_owned()),
            Ok(Err(error)) => Err(system_message(&error).to_string()),
            Ok(Ok(status)) if !status.success() => Err(format!("it ended with {status}; the draft is unchanged")),
            Ok(Ok(_)) => std::fs::read(&editor.path).map_err(|error| system_message(&error).to_string()),
        };
        let Some(editor) = self.editor.take() else { return };
        self.terminals.take_back(&mut self.core, editor.terminal);
        match ended {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                self.terminals.set_draft(&mut self.core, editor.terminal, editor.agent, text.trim_end_matches('\n'));
            }
            Err(why) => self.terminals.notify(editor.terminal, format!("editor: {why}: check $VISUAL and $EDITOR")),
        }
    }
}

/// Runs the editor on the terminal.
fn run(path: &Path) -> std::io::Result<ExitStatus> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let variable = ["VISUAL", "EDITOR"].into_iter().find(is_set);
    // It may contain options, so that a shell has to split it.
    let line = variable.map_or_else(|| "vi \"$1\"".to_owned(), |name| format!("${name} \"$1\""));
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let mut editor = Command::new("sh");
    editor.args(["-c", &line, "polylogue"]).arg(path);
    editor.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(Stdio::from(terminal)).status()
}
