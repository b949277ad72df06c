//! The text in an editor at an attached terminal is not lost, however the connection ends.

use std::path::PathBuf;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{App, eventually};
use crate::support::pty::Pty;

/// An editor that writes a text to its file, says so, and ends when it is told to.
struct Edited {
    app: App,
    pty: Pty,
    directory: TempDir,
}

impl Edited {
    /// `write` is the command of a shell whose output is the text, `keys` are typed before.
    fn new(write: &str, keys: &str) -> Self {
        let (mut app, directory) = (App::served(), tempfile::tempdir().expect("a directory"));
        let here = directory.path().display();
        let script = format!("mkfifo {here}/go\n{write} > \"$1\"\necho saved\ncat {here}/go\n");
        std::fs::write(directory.path().join("editor"), script).expect("a script");
        app.variables.push(("VISUAL".into(), format!("sh {here}/editor")));
        app.variables.push(("TMPDIR".into(), here.to_string()));
        let mut pty = app.attach(&[], (120, 24));
        pty.send(keys);
        pty.wait_for_text("> half typed");
        pty.send("\x07");
        pty.wait_for_text("saved");
        Self { app, pty, directory }
    }

    fn end_editor(&self) {
        crate::support::write_to_pipe(&self.directory.path().join("go"), "");
    }

    /// The file of the editor.
    fn file(&self) -> Option<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path()).expect("a directory");
        let mut paths = entries.map(|entry| entry.expect("an entry").path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "md"))
    }

    fn assert_kept(&mut self, text: &str) {
        let file = self.file().expect("the file is kept");
        assert_eq!(std::fs::read_to_string(&file).expect("a text"), text);
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        self.pty.wait_until(|pty| pty.screen_text().replace('\n', "").contains(&name), "the name of the file");
    }
}

#[test]
fn a_text_in_the_editor_is_kept_when_the_server_is_killed() {
    let mut edited = Edited::new("echo typed in the editor", "half typed");
    edited.app.signal(Signal::KILL);
    edited.app.server_ends();
    edited.end_editor();
    edited.pty.wait_exit();
    edited.assert_kept("typed in the editor\n");
}

#[test]
fn a_text_in_the_editor_is_kept_when_the_client_is_terminated() {
    let mut edited = Edited::new("echo typed in the editor", "half typed");
    edited.pty.kill(Signal::TERM);
    edited.assert_kept("typed in the editor\n");
    edited.pty.wait_exit();
}

#[test]
fn a_text_that_is_too_long_for_the_connection_stays_in_its_file() {
    let mut edited = Edited::new("head -c 2097153 /dev/zero | tr '\\0' x", "half typed");
    edited.end_editor();
    edited.pty.wait_for_text("longer than 2 MiB");
    edited.assert_kept(&"x".repeat(2_097_153));
    edited.pty.wait_for_text("> half typed");
}

#[test]
fn a_text_for_an_agent_that_was_removed_meanwhile_goes_before_the_draft_to_the_one_that_is_shown() {
    let mut edited = Edited::new("echo typed in the editor", "/fork --name ann\rhalf typed");
    edited.app.get(&["kill", "ann"]);
    edited.end_editor();
    edited.pty.wait_for_text("> typed in the editor");
    eventually("the end of the file", || edited.file().is_none());
}
