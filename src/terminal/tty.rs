//! The terminal device: its modes, input, output and size.
//!
//! `/dev/tty` is opened separately, so that non-blocking reads do not affect the descriptor inherited from the shell.
//! Only leaving may wait for a short time, so that the terminal is restored completely.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossterm::Command;
use crossterm::cursor::Show;
use crossterm::style::{Attribute, SetAttribute};
use crossterm::terminal::{
    DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};

use crate::base::error::{Error, ErrorKind, Result, system_message};
use crate::domain::display::Progress;
use crate::terminal::announce;

/// Asks for keys that terminals would otherwise not tell apart: the kitty keyboard protocol with flag 1 (disambiguate), and
/// xterm's modifyOtherKeys, which tmux takes instead. Terminals that know neither ignore both. `CSI > 1 u` pushes onto a
/// stack, `CSI < u` pops it.
const ASK_FOR_KEYS: &str = "\x1b[>1u";
const ASK_FOR_OTHER_KEYS: &str = "\x1b[>4;2m";
const RELEASE_KEYS: &str = "\x1b[<u";
const RELEASE_OTHER_KEYS: &str = "\x1b[>4;0m";

/// Whether the terminal is tmux, which does not take kitty's request for its own.
fn is_tmux() -> bool {
    std::env::var_os("TMUX").is_some()
}

/// What is changed on a terminal besides screen and line discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// The title is set, and restored at the end.
    pub title: bool,
    /// Buttons, drags and the wheel of the mouse are reported.
    pub mouse: bool,
    /// The window's icon may show progress, which is cleared at the end.
    pub progress: bool,
    /// The terminal was told what the agents do, which is cleared at the end.
    pub status: bool,
    /// Nothing is changed: the terminal stays in line mode.
    pub plain: bool,
    /// The main screen is used, and the mouse is left to the terminal.
    pub inline: bool,
    /// The alternate screen is used meanwhile.
    pub overlaid: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self { title: false, mouse: true, progress: false, status: false, plain: false, inline: false, overlaid: false }
    }
}

/// Alternate screen, no wrapping at the right margin, bracketed paste, reports of the focus, and mouse buttons, drags and
/// wheel in the SGR form (xterm control sequences, "Mouse Tracking"). Those are written out because crossterm has them only
/// together with its event reader.
fn enter_sequence(modes: Modes) -> String {
    let mut out = String::new();
    if !modes.inline {
        write_command(&mut out, EnterAlternateScreen);
    }
    write_command(&mut out, DisableLineWrap);
    out += "\x1b[?2004h\x1b[?1004h";
    if modes.mouse && !modes.inline {
        out += "\x1b[?1002h\x1b[?1006h";
    }
    if modes.title {
        out += announce::PUSH_TITLE;
    }
    out += ASK_FOR_KEYS;
    out += if is_tmux() { ASK_FOR_OTHER_KEYS } else { "" };
    out
}

/// Undoes [`enter_sequence`] and what a frame may have left: an update, a style, scroll margins (DECSTBM), a hidden
/// cursor.
fn leave_sequence(modes: Modes) -> String {
    let mut out = String::new();
    write_command(&mut out, EndSynchronizedUpdate);
    // Before the alternate screen is left: terminals have a stack of keyboard flags for each screen.
    if modes.overlaid {
        out += &overlay_sequence(false);
    }
    out += RELEASE_KEYS;
    out += if is_tmux() { RELEASE_OTHER_KEYS } else { "" };
    if modes.progress {
        out += announce::progress(Progress::None);
    }
    if modes.status {
        out += announce::CLEAR_STATUS;
    }
    if modes.title {
        out += announce::POP_TITLE;
    }
    if modes.mouse && !modes.inline {
        out += "\x1b[?1006l\x1b[?1002l";
    }
    out += "\x1b[?1004l\x1b[?2004l";
    // Setting the margins moves the cursor; on the main screen none were set.
    out += if modes.inline { "" } else { "\x1b[r" };
    write_command(&mut out, SetAttribute(Attribute::Reset));
    write_command(&mut out, EnableLineWrap);
    write_command(&mut out, Show);
    if !modes.inline {
        write_command(&mut out, LeaveAlternateScreen);
    }
    out
}

/// To the alternate screen and back, for an overlay over the main one. Keyboard flags belong to a screen.
pub fn overlay_sequence(is_overlaid: bool) -> String {
    let mut out = String::new();
    if is_overlaid {
        write_command(&mut out, EnterAlternateScreen);
        out += ASK_FOR_KEYS;
    } else {
        out += RELEASE_KEYS;
        out += "\x1b[r";
        write_command(&mut out, LeaveAlternateScreen);
    }
    out
}

fn write_command(out: &mut String, command: impl Command) {
    // Writing to a string cannot fail.
    let _ = command.write_ansi(out);
}

/// Bytes per read.
const READ_BYTES: usize = 64 * 1024;
/// How long leaving waits for a terminal that accepts no output.
const LEAVE_WAIT_MS: i64 = 200;
/// How long leaving waits for the replies to a query.
const REPLY_WAIT: Duration = Duration::from_millis(50);

/// The state that a panic hook must restore.
static ENTERED: Mutex<Option<Entered>> = Mutex::new(None);

#[derive(Clone)]
struct Entered {
    fd: Arc<OwnedFd>,
    settings: Termios,
    modes: Modes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Everything was read; the poll reports more input.
    Drained,
    /// The limit was reached; there may be more, which the poll does not report.
    More,
    Closed,
}

/// The controlling terminal of this process. Dropping it restores the terminal.
pub struct Tty {
    fd: Arc<OwnedFd>,
    entered: Option<Entered>,
    backlog: Vec<u8>,
    /// Bytes of the backlog that are written already.
    written: usize,
    modes: Modes,
    /// A query was sent whose last reply has not arrived.
    awaits_reply: bool,
}

impl Tty {
    /// Opens the terminal without changing it.
    pub fn open() -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = rustix::fs::open("/dev/tty", flags, Mode::empty()).map_err(no_terminal)?;
        Ok(Self::on(fd))
    }

    fn on(fd: OwnedFd) -> Self {
        Self {
            fd: Arc::new(fd),
            entered: None,
            backlog: Vec::new(),
            written: 0,
            modes: Modes::default(),
            awaits_reply: false,
        }
    }

    /// Decides what [`Tty::enter`] changes.
    pub fn set_modes(&mut self, modes: Modes) {
        self.modes = modes;
    }

    /// Whether the main screen is used.
    pub fn is_inline(&self) -> bool {
        self.modes.inline
    }

    /// Sets raw mode, alternate screen, bracketed paste and mouse reporting, unless that was done already. Afterwards
    /// the screen must be drawn completely.
    pub fn enter(&mut self) -> Result<()> {
        if self.entered.is_some() || self.modes.plain {
            return Ok(());
        }
        let settings = tcgetattr(&self.fd).map_err(no_terminal)?;
        let entered = Entered { fd: Arc::clone(&self.fd), settings: settings.clone(), modes: self.modes };
        // Before the first change, so that a panic restores it.
        if let Ok(mut slot) = ENTERED.lock() {
            *slot = Some(entered.clone());
        }
        self.entered = Some(entered);
        let mut raw = settings;
        raw.make_raw();
        tcsetattr(&self.fd, OptionalActions::Now, &raw).map_err(no_terminal)?;
        self.drop_backlog();
        self.queue(enter_sequence(self.modes).as_bytes());
        self.flush().map(drop)
    }

    /// Whether this process may use the terminal: in the background of a shell, changing its modes stops the process.
    pub fn is_in_foreground(&self) -> bool {
        is_in_foreground(&self.fd)
    }

    /// Restores screen and modes, and drops pending output. Does nothing unless [`Tty::enter`] was called.
    ///
    /// # Errors
    /// [`ErrorKind::Terminal`] if the terminal was closed or accepts no output; the modes are restored nevertheless.
    pub fn leave(&mut self) -> Result<()> {
        let Some(entered) = self.entered.take() else { return Ok(()) };
        if self.modes.inline {
            // Output is not sent again.
            let _ = write_with_timeout(&self.fd, &self.backlog[self.written..]);
        }
        self.drop_backlog();
        if let Ok(mut slot) = ENTERED.lock() {
            slot.take_if(|entered| Arc::ptr_eq(&entered.fd, &self.fd));
        }
        self.drain_replies();
        entered.restore().map_err(terminal_error)
    }

    /// Goes to the alternate screen, or back to the main one.
    pub fn set_overlaid(&mut self, is_overlaid: bool) {
        self.change_modes(|modes| modes.overlaid = is_overlaid);
        self.queue(overlay_sequence(is_overlaid).as_bytes());
    }

    fn change_modes(&mut self, change: impl Fn(&mut Modes)) {
        change(&mut self.modes);
        self.entered.iter_mut().for_each(|entered| change(&mut entered.modes));
        if let Ok(mut slot) = ENTERED.lock() {
            slot.clone_from(&self.entered);
        }
    }

    /// Reads the replies to a query, which would otherwise be typed into the shell.
    fn drain_replies(&mut self) {
        let give_up = Instant::now() + REPLY_WAIT;
        let mut replies = Vec::new();
        while self.awaits_reply {
            let left = give_up.saturating_duration_since(Instant::now());
            let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
            let is_ready = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&wait)).is_ok_and(|ready| ready > 0);
            if !is_ready || !matches!(self.read(&mut replies, READ_BYTES), Ok(ReadOutcome::Drained)) {
                return;
            }
        }
    }

    /// Writes lines after [`Tty::leave`], unless the terminal accepts no output.
    pub fn print(&mut self, lines: &[u8]) {
        // The terminal may have hung up.
        let _ = write_with_timeout(&self.fd, lines);
    }

    /// Columns and rows; 80 and 24 if the terminal does not report them.
    pub fn size(&self) -> Result<(u16, u16)> {
        let size = tcgetwinsize(&self.fd).map_err(terminal_error)?;
        let or = |size: u16, default: u16| if size == 0 { default } else { size };
        Ok((or(size.ws_col, 80), or(size.ws_row, 24)))
    }

    /// Appends input to `buffer`, until there is no more or about `limit` bytes were read.
    pub fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) -> Result<ReadOutcome> {
        let start = buffer.len();
        while buffer.len() - start < limit {
            let wanted = READ_BYTES.min(limit - (buffer.len() - start));
            // The spare capacity may be larger than wanted, so the limit is exceeded by up to one read.
            buffer.reserve(wanted);
            match rustix::io::read(&self.fd, spare_capacity(buffer)) {
                Ok(0) | Err(Errno::IO) => return Ok(ReadOutcome::Closed),
                Ok(_) if self.awaits_reply => self.awaits_reply = !has_attributes(&buffer[start..]),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(ReadOutcome::Drained),
                Err(error) => return Err(terminal_error(error)),
            }
        }
        Ok(ReadOutcome::More)
    }

    /// Appends output to the backlog.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.awaits_reply |= bytes.ends_with(announce::ASK_ATTRIBUTES.as_bytes());
        if !self.modes.status && announce::has_status(bytes) {
            self.change_modes(|modes| modes.status = true);
        }
        self.backlog.extend_from_slice(bytes);
    }

    /// Whether output is pending: a new frame should wait until the terminal is writable.
    pub fn has_backlog(&self) -> bool {
        self.written < self.backlog.len()
    }

    /// Writes as much output as the terminal accepts. True if that was all.
    ///
    /// # Errors
    /// [`ErrorKind::Terminal`] if it was closed; the output is dropped.
    pub fn flush(&mut self) -> Result<bool> {
        while self.has_backlog() {
            match rustix::io::write(&self.fd, &self.backlog[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => {
                    self.drop_backlog();
                    return Err(terminal_error(error));
                }
            }
        }
        self.drop_backlog();
        Ok(true)
    }

    fn drop_backlog(&mut self) {
        self.backlog.clear();
        // Frees the memory of a rare large frame.
        self.backlog.shrink_to(READ_BYTES);
        self.written = 0;
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        // An error cannot be reported here.
        let _ = self.leave();
    }
}

impl AsFd for Tty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Tty {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Restores the terminal if it was entered. For a panic hook: it never blocks on a lock and never panics.
pub fn restore_for_panic() {
    let entered = ENTERED.try_lock().ok().and_then(|mut slot| slot.take());
    if let Some(entered) = entered {
        // The panic is reported already.
        let _ = entered.restore();
    }
}

impl Entered {
    /// The screen before the modes, because in cooked mode the kernel would change the output.
    fn restore(&self) -> rustix::io::Result<()> {
        let written = write_with_timeout(&self.fd, leave_sequence(self.modes).as_bytes());
        tcsetattr(&self.fd, OptionalActions::Now, &self.settings).and(written)
    }
}

/// The terminal as it was before another process has entered it, which may die without restoring it.
pub struct Before(Entered);

impl Before {
    /// `None` without a terminal. `modes` are those that the other process enters with.
    pub fn remember(modes: Modes) -> Option<Self> {
        let fd = Arc::clone(&Tty::open().ok()?.fd);
        let settings = tcgetattr(&fd).ok()?;
        Some(Self(Entered { fd, settings, modes }))
    }

    /// Restores the terminal if it is in raw mode. A shell that has taken it back is not disturbed.
    pub fn restore(&self) {
        let fd = &self.0.fd;
        let is_raw = |settings: &Termios| !settings.local_modes.contains(LocalModes::ICANON);
        let is_left_raw = tcgetattr(fd).is_ok_and(|now| is_raw(&now)) && !is_raw(&self.0.settings);
        if is_left_raw && is_in_foreground(fd) {
            // Nobody is left to report it to.
            let _ = self.0.restore();
        }
    }
}

/// Whether the process group of this process has the terminal.
fn is_in_foreground(fd: &OwnedFd) -> bool {
    tcgetpgrp(fd) == Ok(getpgrp())
}

/// Whether the bytes have the reply to the query for device attributes: `CSI ? ... c`.
fn has_attributes(bytes: &[u8]) -> bool {
    let starts = bytes.windows(3).enumerate().filter(|(_, three)| three == b"\x1b[?");
    starts.into_iter().any(|(at, _)| {
        let rest = &bytes[at + 3..];
        let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'));
        end.is_some_and(|end| rest[end] == b'c')
    })
}

/// Writes all, unless the terminal accepts nothing for some time.
fn write_with_timeout(fd: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    let wait = Timespec { tv_sec: 0, tv_nsec: LEAVE_WAIT_MS * 1_000_000 };
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&wait))? == 0 {
                    return Err(Errno::AGAIN);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn no_terminal(error: Errno) -> Error {
    Error::new(
        ErrorKind::Terminal,
        format!(
            "no terminal ({}): start polylogue in a terminal, with -p for one answer, or with --plain and lines in a pipe",
            system_message(&error)
        ),
    )
}

fn terminal_error(error: Errno) -> Error {
    Error::new(ErrorKind::Terminal, format!("terminal error: {}", system_message(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    /// A terminal and its master side.
    fn pair() -> (Tty, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudoterminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        rustix::fs::fcntl_setfl(&master, OFlags::NONBLOCK).expect("does not block");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        (Tty::on(rustix::fs::open(name, flags, Mode::empty()).expect("opens")), master)
    }

    /// Output on the master side. The kernel passes it on asynchronously, so this waits for it.
    fn sent(master: &OwnedFd, expected: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(expected);
        while bytes.len() < expected {
            let wait = Timespec { tv_sec: 60, tv_nsec: 0 };
            let ready = poll(&mut [PollFd::new(master, PollFlags::IN)], Some(&wait)).expect("poll");
            assert!(ready > 0, "only {} of {expected} bytes came", bytes.len());
            bytes.reserve(READ_BYTES);
            rustix::io::read(master, spare_capacity(&mut bytes)).expect("read");
        }
        bytes
    }

    /// Waits until the other end is closed, which a child of another test holds between fork and exec.
    fn hangs_up(end: &impl AsFd) {
        let mut ends = [PollFd::new(end, PollFlags::empty())];
        poll(&mut ends, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).expect("poll");
        assert!(ends[0].revents().contains(PollFlags::HUP));
    }

    fn is_raw(tty: &Tty) -> bool {
        let modes = tcgetattr(tty).expect("modes").local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    #[test]
    fn the_terminal_is_restored_once_however_it_is_left() {
        let modes = Modes { title: true, mouse: true, progress: true, status: true, ..Modes::default() };
        let (enter, back) = (enter_sequence(modes).into_bytes(), leave_sequence(modes).into_bytes());
        let restores: [fn(&mut Tty); 2] = [|tty| tty.leave().expect("leaves"), |_| restore_for_panic()];
        for leave in restores {
            let (mut tty, master) = pair();
            tty.set_modes(modes);
            for _ in 0..2 {
                tty.enter().expect("enters");
            }
            assert!(is_raw(&tty));
            assert_eq!(sent(&master, enter.len()), enter);
            leave(&mut tty);
            assert!(!is_raw(&tty));
            assert_eq!(sent(&master, back.len()), back);
        }
        let (mut tty, master) = pair();
        tty.set_modes(modes);
        tty.enter().expect("enters");
        let watcher = tcgetattr(&master).expect("modes");
        drop(tty);
        let both = [enter, back].concat();
        assert_eq!(sent(&master, both.len()), both);
        assert_ne!(tcgetattr(&master).expect("modes").local_modes, watcher.local_modes);
        restore_for_panic();
        hangs_up(&master);
        assert_eq!(rustix::io::read(&master, &mut [0; 64][..]), Err(Errno::IO), "nothing is left to restore");
    }

    #[test]
    fn a_slow_terminal_gets_all_output_in_order_without_blocking() {
        let (mut tty, master) = pair();
        let all: Vec<u8> = (0..300_000_u32).map(|n| b'a' + (n % 26) as u8).collect();
        all.chunks(1_000).for_each(|chunk| tty.queue(chunk));
        assert!(!tty.flush().expect("writes"));
        assert!(tty.has_backlog());
        let mut got = Vec::new();
        while got.len() < all.len() {
            got.extend(sent(&master, 1));
            tty.flush().expect("writes");
        }
        assert!(got == all && !tty.has_backlog());
    }

    #[test]
    fn reading_stops_when_there_is_no_more_and_ends_with_the_terminal() {
        let (mut tty, master) = pair();
        let mut raw = tcgetattr(&tty).expect("modes");
        raw.make_raw();
        tcsetattr(&tty, OptionalActions::Now, &raw).expect("raw");
        let mut typed = Vec::new();
        assert_eq!(tty.read(&mut typed, 1_000).expect("reads"), ReadOutcome::Drained);
        rustix::io::write(&master, b"abc").expect("types");
        poll(&mut [PollFd::new(&tty, PollFlags::IN)], None).expect("poll");
        assert_eq!(tty.read(&mut typed, 3).expect("reads"), ReadOutcome::More);
        assert_eq!(typed, b"abc");
        drop(master);
        hangs_up(&tty);
        assert_eq!(tty.read(&mut typed, 1_000).expect("reads"), ReadOutcome::Closed);
    }

    #[test]
    fn a_pipe_is_not_a_terminal() {
        let (_, other) = rustix::pipe::pipe().expect("a pipe");
        let error = Tty::on(other).enter().expect_err("a pipe is not a terminal");
        assert_eq!(error.kind, ErrorKind::Terminal);
        assert!(error.message.contains("start polylogue in a terminal"), "{error}");
    }

    #[test]
    fn a_terminal_without_a_size_has_80_by_24() {
        let (tty, _master) = pair();
        assert_eq!(tty.size().expect("size"), (80, 24));
    }
}
