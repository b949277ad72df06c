//! The person's editor or pager for a text. It runs on the controlling terminal, which has to be handed over.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use crate::base::error::{Error, Result, system_message};
use crate::base::file;
use crate::base::id::AgentId;
use crate::base::job::{Job, JobThread};

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
    end: JobThread<ExitStatus>,
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
    pub fn start(program: Program, text: &str, wake: Arc<dyn Fn() + Send + Sync>) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("polylogue-{}.md", AgentId::random()));
        let failed = |error: std::io::Error| {
            Error::usage(format!("cannot start the {}: {}", program.name(), system_message(&error)))
        };
        file::create_private(&path, text.as_bytes()).map_err(failed)?;
        let edited = path.clone();
        let work = move |_: &Job| run(program, &edited).map_err(|error| system_message(&error).to_string());
        let end = JobThread::spawn(program.name().into(), work, wake)?;
        Ok(Self { path, program, end, has_ended: false })
    }

    /// The text, or why there is none; `None` while the editor runs.
    pub fn poll(&mut self) -> Option<std::result::Result<String, String>> {
        let ended = match self.end.take()? {
            Err(why) => Err(why),
            Ok(status) if !status.success() => Err(format!("it ended with {status}")),
            Ok(_) => std::fs::read(&self.path).map_err(|error| system_message(&error).to_string()),
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
    pub fn wait_and_keep(mut self) -> PathBuf {
        self.end.wait();
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
