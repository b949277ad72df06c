//! The person's editor or pager for a text. It runs on the controlling terminal, which has to be handed over.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};

use crate::base::error::{Error, Result, system_message};
use crate::base::file;
use crate::base::id::AgentId;

/// Which program of the person's is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `$VISUAL`, `$EDITOR`, or `vi`.
    Editor,
    /// `$PAGER`, or `less`. Its changes to the file are ignored.
    Pager,
}

/// A running editor. Its file is removed with it if [`Editor::poll`] has returned the end, and kept otherwise.
pub struct Editor {
    path: PathBuf,
    program: Program,
    end: Receiver<std::io::Result<ExitStatus>>,
    has_ended: bool,
}

impl Drop for Editor {
    fn drop(&mut self) {
        if self.has_ended || self.program == Program::Pager {
            // The text is in the draft.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Editor {
    /// Opens a text in a program, and calls `wake` from another thread when that has ended.
    pub fn start(program: Program, text: &str, wake: impl Fn() + Send + 'static) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("polylogue-{}.md", AgentId::random()));
        let failed = |error: std::io::Error| {
            Error::usage(format!("cannot start the {}: {}", program.name(), system_message(&error)))
        };
        file::create_private(&path, text.as_bytes()).map_err(failed)?;
        let (sender, end) = mpsc::channel();
        let editor = Self { path: path.clone(), program, end, has_ended: false };
        let run = move || {
            // The receiver may have been dropped.
            let _ = sender.send(run(program, &path));
            wake();
        };
        std::thread::Builder::new().name(program.name().into()).spawn(run).map_err(failed)?;
        Ok(editor)
    }

    /// The text, or why there is none; `None` while the editor runs.
    pub fn poll(&mut self) -> Option<std::result::Result<String, String>> {
        let ended = match self.end.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("it could not be started".to_owned()),
            Ok(Err(error)) => Err(system_message(&error).to_string()),
            Ok(Ok(status)) if !status.success() => Err(format!("it ended with {status}")),
            Ok(Ok(_)) => std::fs::read(&self.path).map_err(|error| system_message(&error).to_string()),
        };
        self.has_ended = true;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
        let (name, variables) = (self.program.name(), self.program.variables().join(" and $"));
        let unchanged = if self.is_pager() { "" } else { "; the draft is unchanged" };
        Some(ended.map(text).map_err(|why| format!("{name}: {why}{unchanged}: check ${variables}")))
    }

    pub fn is_pager(&self) -> bool {
        self.program == Program::Pager
    }

    /// Keeps the file, because its text can go nowhere else.
    pub fn keep(mut self) -> PathBuf {
        self.has_ended = false;
        self.path.clone()
    }

    /// Waits for the end of the editor, and keeps the file.
    pub fn wait_and_keep(self) -> PathBuf {
        // An editor that could not be started has left the text as it was.
        let _ = self.end.recv();
        self.keep()
    }
}

impl Program {
    /// What messages call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Editor => "editor",
            Self::Pager => "pager",
        }
    }

    /// The variables that may name it; the first that is set counts.
    const fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Editor => &["VISUAL", "EDITOR"],
            Self::Pager => &["PAGER"],
        }
    }

    /// The command line without such a variable.
    const fn default_command(self) -> &'static str {
        match self {
            Self::Editor => "vi \"$1\"",
            Self::Pager => "less \"$1\"",
        }
    }
}

/// Runs the program on the terminal.
fn run(program: Program, path: &Path) -> std::io::Result<ExitStatus> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let variable = program.variables().iter().copied().find(is_set);
    // It may contain options, so a shell has to split it.
    let line = variable.map_or_else(|| program.default_command().to_owned(), |name| format!("${name} \"$1\""));
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let mut editor = Command::new("sh");
    editor.args(["-c", &line, "polylogue"]).arg(path);
    editor.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(Stdio::from(terminal)).status()
}
