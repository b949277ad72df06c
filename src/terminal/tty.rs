//! The terminal device: its modes, its bytes in and out, its size.
//!
//! `/dev/tty` is opened anew, so that reading it without blocking does not change the descriptor that the shell lent
//! us. Nothing here waits, but for leaving, which may wait a moment so that the shell gets its terminal back whole.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

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
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::base::error::{Error, ErrorKind, Result};

/// Takes the screen: the alternate one, no wrapping at the right margin (what is too wide is cut), bracketed paste, and
/// the mouse's buttons and wheel in the SGR form (xterm control sequences, "Mouse Tracking"). The last two stand here by
/// hand: crossterm offers them only together with its event reader.
fn enter_sequence() -> String {
    let mut out = String::new();
    write_command(&mut out, EnterAlternateScreen);
    write_command(&mut out, DisableLineWrap);
    out + "\x1b[?2004h\x1b[?1000h\x1b[?1006h"
}

/// Undoes [`enter_sequence`] and whatever a frame may have left: an update, a style, scroll margins (DECSTBM), a hidden
/// cursor.
fn leave_sequence() -> String {
    let mut out = String::new();
    write_command(&mut out, EndSynchronizedUpdate);
    out.push_str("\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[r");
    write_command(&mut out, SetAttribute(Attribute::Reset));
    write_command(&mut out, EnableLineWrap);
    write_command(&mut out, Show);
    write_command(&mut out, LeaveAlternateScreen);
    out
}

fn write_command(out: &mut String, command: impl Command) {
    // A string takes everything.
    let _ = command.write_ansi(out);
}

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;
/// How long leaving waits for a terminal that takes nothing, in all.
const LEAVE_WAIT_MS: i64 = 200;

/// What must be put back if the program panics, from wherever that is.
static ENTERED: Mutex<Option<Entered>> = Mutex::new(None);

#[derive(Clone)]
struct Entered {
    fd: Arc<OwnedFd>,
    modes: Termios,
}

/// What a read has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Everything that was there has been read: the poll will tell when there is more.
    Drained,
    /// The limit was reached; there may be more, and no poll will tell of it.
    More,
    /// The terminal is gone.
    Closed,
}

/// The terminal that controls this process. It is left when this is dropped.
pub struct Tty {
    fd: Arc<OwnedFd>,
    entered: Option<Entered>,
    backlog: Vec<u8>,
    /// How much of the backlog is written.
    written: usize,
}

impl Tty {
    /// Opens the terminal and changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Terminal`] if there is none.
    pub fn open() -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = rustix::fs::open("/dev/tty", flags, Mode::empty()).map_err(no_terminal)?;
        Ok(Self::on(fd))
    }

    fn on(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd), entered: None, backlog: Vec::new(), written: 0 }
    }

    /// Takes the screen and the keyboard: raw mode, alternate screen, bracketed paste, wheel. Nothing of what was on
    /// the screen is known afterwards. Does nothing if it was entered.
    ///
    /// # Errors
    /// [`ErrorKind::Terminal`] if it is no terminal, or it has gone.
    pub fn enter(&mut self) -> Result<()> {
        if self.entered.is_some() {
            return Ok(());
        }
        let modes = tcgetattr(&self.fd).map_err(no_terminal)?;
        let entered = Entered { fd: Arc::clone(&self.fd), modes: modes.clone() };
        // From here on a panic must find what to put back.
        if let Ok(mut slot) = ENTERED.lock() {
            *slot = Some(entered.clone());
        }
        self.entered = Some(entered);
        let mut raw = modes;
        raw.make_raw();
        tcsetattr(&self.fd, OptionalActions::Now, &raw).map_err(no_terminal)?;
        self.drop_backlog();
        self.queue(enter_sequence().as_bytes());
        self.flush().map(drop)
    }

    /// Gives screen and keyboard back as they were; output that the terminal has not taken is dropped. Does nothing if
    /// it was not entered. After the next [`Tty::enter`] the screen must be drawn whole.
    ///
    /// # Errors
    /// [`ErrorKind::Terminal`] if the terminal has gone or takes nothing; the modes are put back all the same.
    pub fn leave(&mut self) -> Result<()> {
        let Some(entered) = self.entered.take() else { return Ok(()) };
        self.drop_backlog();
        if let Ok(mut slot) = ENTERED.lock() {
            slot.take_if(|entered| Arc::ptr_eq(&entered.fd, &self.fd));
        }
        entered.restore().map_err(failed)
    }

    /// Columns and rows. A terminal that does not tell is taken for 80 by 24.
    ///
    /// # Errors
    /// [`ErrorKind::Terminal`] if it has gone.
    pub fn size(&self) -> Result<(u16, u16)> {
        let size = tcgetwinsize(&self.fd).map_err(failed)?;
        let or = |told: u16, usual: u16| if told == 0 { usual } else { told };
        Ok((or(size.ws_col, 80), or(size.ws_row, 24)))
    }

    /// Appends what was typed to `buffer`, until there is no more or `limit` bytes were read in this call.
    ///
    /// # Errors
    /// [`ErrorKind::Terminal`] for what is neither the end nor a reason to wait.
    pub fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) -> Result<ReadOutcome> {
        let start = buffer.len();
        while buffer.len() - start < limit {
            let wanted = READ_BYTES.min(limit - (buffer.len() - start));
            // The spare room may be larger than what was asked for: a limit is kept to within one read.
            buffer.reserve(wanted);
            match rustix::io::read(&self.fd, spare_capacity(buffer)) {
                Ok(0) | Err(Errno::IO) => return Ok(ReadOutcome::Closed),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(ReadOutcome::Drained),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(ReadOutcome::More)
    }

    /// Adds bytes for the terminal behind those that it has not taken yet.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.backlog.extend_from_slice(bytes);
    }

    /// Whether the terminal is slow: a new frame should wait until the poll tells that it can be written.
    pub fn has_backlog(&self) -> bool {
        self.written < self.backlog.len()
    }

    /// Writes what the terminal takes now. True if that was all.
    ///
    /// # Errors
    /// [`ErrorKind::Terminal`] if it has gone; what was queued is dropped.
    pub fn flush(&mut self) -> Result<bool> {
        while self.has_backlog() {
            match rustix::io::write(&self.fd, &self.backlog[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => {
                    self.drop_backlog();
                    return Err(failed(error));
                }
            }
        }
        self.drop_backlog();
        Ok(true)
    }

    fn drop_backlog(&mut self) {
        self.backlog.clear();
        // A large frame is rare; a person's terminal is held open for days.
        self.backlog.shrink_to(READ_BYTES);
        self.written = 0;
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        // There is nobody left to be told.
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

/// Gives the terminal back if one was entered. For a panic hook: takes no lock that may be held, never panics, and
/// what it says is read on the ordinary screen afterwards.
pub fn restore_for_panic() {
    let entered = ENTERED.try_lock().ok().and_then(|mut slot| slot.take());
    if let Some(entered) = entered {
        // A panic is being told already.
        let _ = entered.restore();
    }
}

impl Entered {
    /// The screen goes first: in cooked mode the kernel would change what is written.
    fn restore(&self) -> rustix::io::Result<()> {
        let told = write_patiently(&self.fd, leave_sequence().as_bytes());
        tcsetattr(&self.fd, OptionalActions::Now, &self.modes).and(told)
    }
}

/// Writes all, waiting for a slow terminal a bounded number of times.
fn write_patiently(fd: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
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
    let words = format!("there is no terminal to talk in ({error}); start it in one");
    Error::new(ErrorKind::Terminal, words)
}

fn failed(error: Errno) -> Error {
    Error::new(ErrorKind::Terminal, format!("the terminal does not answer: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    /// A terminal, and the end at which a terminal program sits.
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

    /// What the terminal program has been sent. A pseudoterminal hands bytes on by a kernel thread: wait for them.
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

    /// Waits until the other end is closed: what another test starts just now holds it until it becomes that program.
    fn hangs_up(end: &impl AsFd) {
        let mut ends = [PollFd::new(end, PollFlags::empty())];
        poll(&mut ends, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).expect("poll");
        assert!(ends[0].revents().contains(PollFlags::HUP));
    }

    fn is_raw(tty: &Tty) -> bool {
        let modes = tcgetattr(tty).expect("modes").local_modes;
        !modes.intersects(rustix::termios::LocalModes::ICANON | rustix::termios::LocalModes::ECHO)
    }

    #[test]
    fn every_way_out_gives_the_terminal_back_once() {
        let (enter, back) = (enter_sequence().into_bytes(), leave_sequence().into_bytes());
        let ways_out: [fn(&mut Tty); 2] = [|tty| tty.leave().expect("leaves"), |_| restore_for_panic()];
        for leave in ways_out {
            let (mut tty, master) = pair();
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
        tty.enter().expect("enters");
        let watcher = tcgetattr(&master).expect("modes");
        drop(tty);
        let both = [enter, back].concat();
        assert_eq!(sent(&master, both.len()), both);
        assert_ne!(tcgetattr(&master).expect("modes").local_modes, watcher.local_modes);
        restore_for_panic();
        hangs_up(&master);
        assert_eq!(rustix::io::read(&master, &mut [0; 64][..]), Err(Errno::IO), "nothing is left to be put back");
    }

    #[test]
    fn a_slow_terminal_gets_everything_in_order_and_blocks_nobody() {
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
    fn what_is_no_terminal_is_refused_with_a_way_out() {
        let (_, other) = rustix::pipe::pipe().expect("a pipe");
        let error = Tty::on(other).enter().expect_err("a pipe is no terminal");
        assert_eq!(error.kind, ErrorKind::Terminal);
        assert!(error.message.contains("start it in one"), "{error}");
    }

    #[test]
    fn a_terminal_that_does_not_tell_its_size_is_an_ordinary_one() {
        let (tty, _master) = pair();
        assert_eq!(tty.size().expect("size"), (80, 24));
    }
}
