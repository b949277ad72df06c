//! `polylogue attach`: passes keys to the server, and the server's frames to the terminal, without interpreting either.
//!
//! One poll over the terminal, the socket and the signals. Nothing blocks, and nothing is buffered without bound: while the
//! server does not take keys, none are read; while the terminal does not take frames, none are read either, and then the
//! server does not draw new ones.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Signal as Number, kill_current_process_group};

use super::client::{RESPONSE_TIMEOUT, no_response, refusal, response_too_long};
use super::process;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::sanitise;
use crate::domain::choices::Opening;
use crate::domain::display::{Abilities, DisplaySettings};
use crate::domain::wire::{LONGEST_EDITED, LONGEST_LINE, Request, Response, TerminalFacts};
use crate::reactor::{Reactor, Ready, Signal, Signals, Source};
use crate::socket::{Connection, Line};
use crate::terminal::abilities;
use crate::terminal::clipboard_image::ClipboardImage;
use crate::terminal::editor::{Editor, Program};
use crate::terminal::screen::Palette;
use crate::terminal::tty::{Modes, ReadOutcome, Tty};

/// Bytes of keys in one request.
const KEYS_PER_REQUEST: usize = 64 * 1024;
const BYTES_PER_TURN: usize = 256 * 1024;

const SERVER: Source = Source::Client(0);

pub struct Options {
    pub opening: Opening,
    pub is_read_only: bool,
    pub display: DisplaySettings,
    /// Where this process was started.
    pub directory: Option<PathBuf>,
}

/// Runs until the user detaches or the server ends the connection.
pub fn run(stream: UnixStream, options: Options) -> Result<Ended> {
    let mut tty = Tty::open()?;
    // The server draws whole screens.
    let modes = Modes { inline: false, ..process::terminal_modes(&options.display) };
    if options.display.inline && !modes.plain {
        eprintln!("polylogue: inline is ignored: a server draws whole screens");
    }
    tty.set_modes(modes);
    process::restore_terminal_on_panic();
    let mut attached = Attached {
        server: Connection::new(stream, LONGEST_LINE)?,
        reactor: Reactor::new()?,
        signals: Signals::catch()?,
        has_more_keys: true,
        is_closed: false,
        mode: Mode::Initial,
        editor: None,
        image: None,
        sent: None,
        back: None,
        give_up: Instant::now() + RESPONSE_TIMEOUT,
        tty,
    };
    attached.reactor.watch(Source::Signals, attached.signals.fd(), true, false)?;
    let terminal = terminal_facts(attached.tty.size()?, modes.plain);
    let Options { opening, is_read_only, directory, .. } = options;
    attached.send(&Request::Attach { opening: Box::new(opening), is_read_only, terminal, directory });
    let outcome = loop {
        if let Some(end) = attached.turn().transpose() {
            break end;
        }
    };
    // This fails if the terminal was closed; then there is nothing to restore.
    drop(attached.tty.leave());
    let back = attached.back.take();
    Ok(Ended { reason: attached.end(outcome)?, back })
}

/// How the attachment ended.
pub struct Ended {
    /// The server's reason; empty if it gave none.
    reason: Option<String>,
    /// The options that come back to the conversation that was shown.
    back: Option<String>,
}

fn terminal_facts((columns, rows): (u16, u16), is_plain: bool) -> TerminalFacts {
    let Palette { color, attributes, unicode, .. } = Palette::of_process();
    let abilities = Abilities { is_plain, ..abilities::of_process() };
    let is_in_tmux = abilities.is_in_tmux;
    TerminalFacts {
        columns,
        rows,
        color,
        attributes,
        unicode,
        is_in_tmux,
        abilities,
        can_edit: true,
        can_view: true,
        can_paste: true,
        is_scripted: false,
    }
}

/// Why the connection ended, if the server gave a reason.
type End = Option<String>;

struct Attached {
    tty: Tty,
    server: Connection,
    reactor: Reactor,
    signals: Signals,
    /// The terminal may have more keys that no poll will report.
    has_more_keys: bool,
    is_closed: bool,
    mode: Mode,
    editor: Option<Editor>,
    /// The image in the clipboard, while it is read.
    image: Option<ClipboardImage>,
    /// The editor that has ended, until the server has confirmed its text.
    sent: Option<Editor>,
    /// The options that come back to the conversation that is shown.
    back: Option<String>,
    /// The deadline for the first frame.
    give_up: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Unchanged until the first frame arrives.
    Initial,
    /// Raw, with the alternate screen.
    Entered,
    /// Restored while the process is suspended.
    Suspended,
    /// Restored while the person's editor has the terminal.
    Edited,
}

impl Attached {
    fn turn(&mut self) -> Result<Option<End>> {
        self.watch()?;
        let mut ready = Vec::new();
        self.reactor.wait(self.timeout(), &mut ready)?;
        for event in ready {
            if let Some(end) = self.on_ready(event)? {
                return Ok(Some(end));
            }
        }
        self.finish_editor();
        self.finish_paste();
        self.flush();
        // Frames before keys: the reason for the end has to be read even if the server accepts no more keys.
        if let Some(end) = self.pass_frames()? {
            return Ok(Some(end));
        }
        self.pass_keys()?;
        if self.mode == Mode::Initial && Instant::now() >= self.give_up {
            return Err(no_response());
        }
        Ok(self.is_closed.then_some(None))
    }

    /// Polls only for what can be passed on.
    fn watch(&mut self) -> Result<()> {
        let (tty, server) = (self.tty.as_raw_fd(), self.server.fd());
        self.reactor.watch(Source::Terminal, tty, self.takes_keys(), self.tty.has_backlog())?;
        self.reactor.watch(SERVER, server, !self.tty.has_backlog(), !self.server.is_ready())
    }

    /// The timeout of the next poll: zero if there is work left, and limited before the first frame.
    fn timeout(&self) -> Option<Duration> {
        let has_frames = !self.tty.has_backlog() && (self.server.has_line() || self.server.can_read());
        let has_keys = self.takes_keys() && self.has_more_keys;
        match has_frames || has_keys || self.server.has_ended() && !self.tty.has_backlog() {
            true => Some(Duration::ZERO),
            false if self.mode == Mode::Initial => Some(self.give_up.saturating_duration_since(Instant::now())),
            false => None,
        }
    }

    fn takes_keys(&self) -> bool {
        self.mode == Mode::Entered && self.server.is_ready()
    }

    fn on_ready(&mut self, event: Ready) -> Result<Option<End>> {
        match event.source {
            Source::Terminal => self.has_more_keys |= event.readiness.readable,
            SERVER if event.readiness.readable => self.server.on_readable(),
            Source::Signals => {
                self.reactor.rearm(Source::Signals)?;
                for signal in self.signals.take() {
                    match signal {
                        // Ctrl+C in an editor is for the editor.
                        Signal::Terminate(number) if number == Number::INT.as_raw() && self.editor.is_some() => {}
                        Signal::Terminate(_) | Signal::Hangup => return Ok(Some(None)),
                        Signal::Resized => self.send_size(),
                        Signal::Suspend => self.suspend()?,
                        Signal::Resume => self.resume()?,
                    }
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Passes keys to the server, as long as it takes them.
    fn pass_keys(&mut self) -> Result<()> {
        self.server.flush();
        while self.takes_keys() && self.has_more_keys {
            let mut keys = Vec::new();
            let outcome = self.tty.read(&mut keys, KEYS_PER_REQUEST)?;
            self.has_more_keys = outcome == ReadOutcome::More;
            if !keys.is_empty() {
                self.send(&Request::Keys { keys, is_last: false });
            }
            self.is_closed |= outcome == ReadOutcome::Closed;
        }
        Ok(())
    }

    /// Passes frames to the terminal, as long as it takes them.
    fn pass_frames(&mut self) -> Result<Option<End>> {
        if !self.tty.has_backlog() {
            self.server.read(BYTES_PER_TURN);
        }
        while !self.tty.has_backlog() {
            match self.server.next_line() {
                Line::Whole(line) => {
                    if let Some(end) = self.on_response(Response::read(&line)?)? {
                        return Ok(Some(end));
                    }
                }
                Line::TooLong => return Err(response_too_long()),
                Line::None if self.server.has_ended() => {
                    let message = "the server has ended; to continue: polylogue -c";
                    return Err(Error::new(ErrorKind::Network, message));
                }
                Line::None => break,
            }
        }
        Ok(None)
    }

    fn on_response(&mut self, response: Response) -> Result<Option<End>> {
        match response {
            Response::Frame(bytes) => self.show(&bytes)?,
            Response::Suspend {} => self.suspend()?,
            Response::Edit(text) => self.open(Program::Editor, &text),
            Response::View(text) => self.open(Program::Pager, &text),
            Response::Paste {} => self.paste(),
            Response::Back(back) => self.back = Some(back),
            Response::End(reason) => return Ok(Some(Some(reason))),
            Response::Refused { kind, message } => return Err(refusal(&kind, message)),
            Response::Done(_)
            | Response::Missed(_)
            | Response::Questions(_)
            | Response::Commands(_)
            | Response::Chunk(_) => {}
        }
        Ok(None)
    }

    /// Drops frames that arrive while the process is suspended: the screen is redrawn afterwards.
    fn show(&mut self, bytes: &str) -> Result<()> {
        if self.mode == Mode::Initial {
            self.tty.enter()?;
            self.mode = Mode::Entered;
        }
        if self.mode == Mode::Entered {
            // The server draws nothing while the editor runs: it has the text.
            self.sent = None;
            self.tty.queue(bytes.as_bytes());
            self.flush();
        }
        Ok(())
    }

    /// Writes as much as the terminal accepts; an error means that it was closed.
    fn flush(&mut self) {
        self.is_closed |= self.tty.flush().is_err();
    }

    fn send(&mut self, request: &Request) {
        self.server.queue(&request.to_line());
        self.server.flush();
    }

    fn send_size(&mut self) {
        // An error means that the terminal was closed, which the next read reports.
        if let Ok((columns, rows)) = self.tty.size() {
            self.send(&Request::Size { columns, rows });
        }
    }

    /// Restores the terminal and stops the process, until [`Attached::on_ready`] gets the signal that continues it.
    fn suspend(&mut self) -> Result<()> {
        if self.mode == Mode::Entered {
            self.mode = Mode::Suspended;
            // An error means that the terminal was closed, which the next read reports.
            drop(self.tty.leave());
        }
        Ok(kill_current_process_group(Number::STOP).map_err(std::io::Error::from)?)
    }

    /// Hands the terminal to the person's editor or pager, until [`Attached::finish_editor`] takes it back.
    fn open(&mut self, program: Program, text: &str) {
        // An error means that the terminal was closed, which the next read reports.
        drop(self.tty.leave());
        self.mode = Mode::Edited;
        let wake = self.reactor.waker();
        match Editor::start(program, text, wake) {
            Ok(editor) => self.editor = Some(editor),
            Err(error) => self.take_back(Err(error.message)),
        }
    }

    fn finish_editor(&mut self) {
        let Some(ended) = self.editor.as_mut().and_then(Editor::poll) else { return };
        let Some(editor) = self.editor.take() else { return };
        if editor.is_pager() {
            return self.take_back(ended.map(|_| None));
        }
        if ended.as_ref().is_ok_and(|text| text.len() > LONGEST_EDITED) {
            let (most, path) = (LONGEST_EDITED >> 20, editor.keep());
            return self.take_back(Err(format!("the text is longer than {most} MiB: it is in {}", path.display())));
        }
        self.sent = Some(editor);
        self.take_back(ended.map(Some));
    }

    /// Reads the image in the clipboard, until [`Attached::finish_paste`] sends it.
    fn paste(&mut self) {
        if self.image.is_none() {
            match ClipboardImage::start(self.reactor.waker()) {
                Ok(image) => self.image = Some(image),
                Err(error) => self.send(&Request::Pasted { image: Vec::new(), error: Some(error.message) }),
            }
        }
    }

    fn finish_paste(&mut self) {
        let Some(read) = self.image.as_ref().and_then(ClipboardImage::poll) else { return };
        self.image = None;
        let (image, error) = read.map_or_else(|error| (Vec::new(), Some(error)), |image| (image, None));
        self.send(&Request::Pasted { image, error });
    }

    fn take_back(&mut self, ended: std::result::Result<Option<String>, String>) {
        // An error means that the terminal was closed, which the next read reports.
        drop(self.tty.enter());
        (self.mode, self.has_more_keys) = (Mode::Entered, true);
        self.send_size();
        let (text, error) = match ended {
            Ok(text) => (text, None),
            Err(error) => (None, Some(error)),
        };
        self.send(&Request::Edited { text, error });
    }

    /// The end, and the file of a text that the server has not got from the editor.
    fn end(mut self, outcome: Result<End>) -> Result<End> {
        let Some(editor) = self.editor.take().or(self.sent.take()).filter(|editor| !editor.is_pager()) else {
            return outcome;
        };
        let path = match outcome {
            // After a signal, or without a terminal, the process ends although the editor runs.
            Ok(None) => editor.keep(),
            _ => editor.wait_and_keep(),
        };
        let text = format!("your text is in {}", path.display());
        match outcome {
            Ok(reason) => Ok(Some(reason.map_or(text.clone(), |reason| format!("{reason}; {text}")))),
            Err(error) => Err(Error { message: format!("{}; {text}", error.message), ..error }),
        }
    }

    fn resume(&mut self) -> Result<()> {
        if matches!(self.mode, Mode::Initial | Mode::Edited) {
            return Ok(());
        }
        self.tty.enter()?;
        (self.mode, self.has_more_keys) = (Mode::Entered, true);
        self.send_size();
        self.send(&Request::Redraw);
        Ok(())
    }
}

/// Tells the user why the terminal was detached and how to attach again. `options` select the same data directory.
pub fn print_farewell(ended: Ended, options: &str) {
    let Ended { reason, back } = ended;
    if reason.as_deref() == Some("") {
        return;
    }
    let reason = reason.map(|reason| format!("{}; ", sanitise(&reason))).unwrap_or_default();
    let back = back.unwrap_or_default();
    // There is nowhere left to report that the terminal was closed.
    let _ = writeln!(std::io::stdout(), "{reason}to continue: polylogue{options}{back}");
}
