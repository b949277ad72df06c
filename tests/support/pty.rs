//! A real program in a real pseudo-terminal, with a screen (vt100) that can be asked what is on it.
//!
//! The program must own its terminal (`/dev/tty`, job control, hang-up). That takes two calls
//! between fork and exec, which Rust allows only in unsafe code; so the running binary starts itself
//! a second time, makes the two calls as ordinary code and becomes the program by exec. A binary
//! that is no libtest harness calls [`become_the_program_if_asked`] first thing in its `main`.
//!
//! Reading and writing go on together: a program that is blocked on its output while it is sent a
//! megabyte is read meanwhile. Nothing sleeps; the descriptors are polled.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::{Termios, Winsize};

use super::{PATIENCE, signals};

/// Names the program and its arguments to the copy of ourselves that becomes it, as a JSON list.
const BECOME: &str = "PTY_BECOME_THE_PROGRAM";

/// Begins a synchronized update with `h` after it, and ends it with `l`.
const UPDATE: &[u8] = b"\x1b[?2026";

/// In the environment of the program: the monotonic clock right before exec, in nanoseconds.
pub const BECAME_AT: &str = "PTY_BECAME_AT";

/// A program in a terminal. Dropped, it is killed.
pub struct Pty {
    ours: OwnedFd,
    /// Keeps the terminal and its settings when the program has gone.
    theirs: OwnedFd,
    child: Child,
    death: OwnedFd,
    exit: Option<ExitStatus>,
    settings_before: Termios,
    parser: vt100::Parser<Reports>,
    output: Vec<u8>,
    /// How much of it the emulator has.
    shown: usize,
}

/// How the program left the terminal; all of it holds after a good exit.
#[derive(Debug, PartialEq)]
pub struct TerminalLeft {
    /// The alternate screen is not shown.
    pub main_screen: bool,
    /// The cursor is shown.
    pub cursor_shown: bool,
    /// Pasting is not bracketed.
    pub plain_paste: bool,
    /// The mouse is not reported.
    pub mouse_off: bool,
    /// Keypad and cursor keys are in their ordinary mode.
    pub ordinary_keys: bool,
    /// The line discipline is what it was before.
    pub settings_restored: bool,
}

impl TerminalLeft {
    /// A terminal as a shell wants to find it.
    pub const CLEAN: TerminalLeft = TerminalLeft {
        main_screen: true,
        cursor_shown: true,
        plain_paste: true,
        mouse_off: true,
        ordinary_keys: true,
        settings_restored: true,
    };
}

/// What was sent to the terminal besides text.
#[derive(Debug, Default)]
pub struct Reports {
    /// How often the bell rang.
    pub bells: usize,
    /// The last title of the window.
    pub title: String,
    /// Texts that the program asked to put on the clipboard (OSC 52), encoded as they came.
    pub copied: Vec<String>,
    /// Control sequences that the emulation does not know.
    pub unknown: Vec<String>,
}

impl vt100::Callbacks for Reports {
    fn audible_bell(&mut self, _: &mut vt100::Screen) {
        self.bells += 1;
    }

    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.title = String::from_utf8_lossy(title).into_owned();
    }

    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], text: &[u8]) {
        self.copied.push(String::from_utf8_lossy(text).into_owned());
    }

    fn unhandled_csi(
        &mut self,
        _: &mut vt100::Screen,
        first: Option<u8>,
        second: Option<u8>,
        numbers: &[&[u16]],
        last: char,
    ) {
        let intermediates: String = first.into_iter().chain(second).map(char::from).collect();
        self.unknown.push(format!("CSI {intermediates} {numbers:?} {last}"));
    }
}

impl Pty {
    /// Starts the program with nothing in its environment but `envs`, `PATH` and `TERM=xterm-256color`
    /// (unless `envs` names them), in a terminal of `(columns, rows)`.
    pub fn spawn(program: impl AsRef<Path>, args: &[&str], envs: &[(&str, &str)], size: (u16, u16)) -> Pty {
        // Other tests write into `target`, which a command would see as changes of its own workspace.
        Self::spawn_in(program, args, envs, size, Path::new("tests"))
    }

    /// The same in this working directory.
    pub fn spawn_in(
        program: impl AsRef<Path>,
        args: &[&str],
        envs: &[(&str, &str)],
        size: (u16, u16),
        directory: &Path,
    ) -> Pty {
        let (ours, theirs) = open_terminal(size);
        let settings_before = rustix::termios::tcgetattr(&theirs).expect("a terminal has settings");
        let mut command = become_command(program.as_ref(), args);
        command.current_dir(directory);
        command.env("TERM", "xterm-256color").envs(envs.iter().copied());
        let terminal = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        let child = command.stdin(terminal()).stdout(Stdio::null()).stderr(terminal()).spawn().expect("our own binary");
        let pid = Pid::from_child(&child);
        let death = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("a child that was not waited for");
        let parser = vt100::Parser::new_with_callbacks(size.1, size.0, 10_000, Reports::default());
        Pty { ours, theirs, child, death, exit: None, settings_before, parser, output: Vec::new(), shown: 0 }
    }

    /// The process that draws, once it draws anything: the one that was started, or one that it waits for.
    pub fn pid(&self) -> u32 {
        let started = self.child.id();
        let command = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).ok();
        let children = std::fs::read_to_string(format!("/proc/{started}/task/{started}/children"));
        let children = children.unwrap_or_default();
        let mut children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        children.find(|pid| command(*pid) == command(started)).unwrap_or(started)
    }

    /// The process that was started, as a shell knows it.
    pub fn started(&self) -> u32 {
        self.child.id()
    }

    /// Types or pastes bytes. Returns when the terminal has taken them, which need not be when the
    /// program has read them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let mut rest = bytes.as_ref();
        let give_up = Instant::now() + PATIENCE;
        while !rest.is_empty() {
            match rustix::io::write(&self.ours, rest) {
                Ok(count) => rest = &rest[count..],
                Err(rustix::io::Errno::AGAIN) => self.turn(give_up, PollFlags::OUT, "the program to read its input"),
                Err(error) => panic!("the terminal takes no input: {error}\n{}", self.screen_text()),
            }
        }
    }

    /// Reads until `holds` is true of the screen, and fails with the screen if that does not come.
    pub fn wait_for(&mut self, mut holds: impl FnMut(&vt100::Screen) -> bool, what: &str) {
        self.wait_until(|pty| holds(pty.parser.screen()), what);
    }

    /// Reads until the text is somewhere on the screen.
    pub fn wait_for_text(&mut self, text: &str) {
        self.wait_for(|screen| screen.contents().contains(text), text);
    }

    /// Reads until the message of the person and the reply to it are on the screen.
    pub fn wait_for_answer(&mut self, said: &str, answer: &str) {
        let said = format!("┃ {}\n", said.replace('\n', "\n┃ "));
        let answer = format!("\n  {}\n", answer.replace('\n', "\n  "));
        // A terminal without Unicode has another bar.
        let ascii = said.replace('┃', "|");
        let after = |text: &str| text.split_once(&said).or(text.split_once(&ascii)).map(|(_, after)| after.to_owned());
        let is_there = |text: &str| after(text).is_some_and(|after| after.contains(&answer));
        self.wait_for(|screen| is_there(&screen.contents()), &format!("{said:?} and {answer:?}"));
    }

    /// Leaves by Ctrl+D once all agents are idle, which a person would have to say twice, and checks that it ended well.
    /// What an agent says is seen before the end of its turn is: its last word is no sign of it.
    pub fn leave(&mut self) {
        self.wait_for(|screen| !screen.contents().contains("Esc stops it"), "the end of the turn");
        self.send("\x04");
        assert!(self.wait_exit().success());
    }

    /// Reads until `holds` is true of the whole terminal: its raw output, its screen, its exit.
    pub fn wait_until(&mut self, mut holds: impl FnMut(&Pty) -> bool, what: &str) {
        let give_up = Instant::now() + PATIENCE;
        self.read_what_is_there();
        while self.is_within_frame() || !holds(self) {
            assert!(self.exit.is_none(), "ended ({:?}) before {what}:\n{}", self.exit, self.screen_text());
            self.turn(give_up, PollFlags::empty(), what);
        }
    }

    /// Reads until the program has written more than so many bytes in all.
    pub fn wait_for_bytes(&mut self, count: usize) {
        self.wait_until(|pty| pty.output.len() > count, "more output");
    }

    /// The screen as it is now.
    pub fn screen(&mut self) -> &vt100::Screen {
        self.read_what_is_there();
        self.parser.screen()
    }

    /// The rows of the screen as plain text, as they were when last read.
    pub fn screen_text(&self) -> String {
        self.parser.screen().contents()
    }

    /// Bells, title, clipboard and what the emulation does not know.
    pub fn reports(&mut self) -> &Reports {
        self.read_what_is_there();
        self.parser.callbacks()
    }

    /// Changes the size of the terminal; the program gets SIGWINCH.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        // What was drawn for the old size must be read as such.
        self.read_what_is_there();
        self.parser.screen_mut().set_size(rows, columns);
        set_size(&self.ours, (columns, rows));
    }

    /// Every byte that the program has written so far.
    pub fn raw_output(&mut self) -> &[u8] {
        self.read_what_is_there();
        &self.output
    }

    /// How many bytes have been read so far, without reading more.
    pub fn output_so_far(&self) -> usize {
        self.output.len()
    }

    /// How many bytes the program has written so far.
    pub fn bytes_written(&mut self) -> usize {
        self.raw_output().len()
    }

    /// Sends a signal to the process that draws (not to its process group).
    pub fn kill(&mut self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("the id of a process");
        // A program that has just ended of its own accord is no failure.
        let _ = rustix::process::kill_process(pid, signal);
        // As a shell that continues a job.
        if signal == Signal::CONT {
            self.kill_started(signal);
        }
    }

    /// Sends a signal to the process that was started.
    pub fn kill_started(&mut self, signal: Signal) {
        // As above.
        let _ = rustix::process::pidfd_send_signal(&self.death, signal);
    }

    /// Takes the terminal away, as a window that is closed does, and waits for the program to end.
    pub fn hang_up(&mut self) -> ExitStatus {
        self.read_what_is_there();
        // Replacing it closes our side.
        self.ours = std::fs::File::open("/dev/null").expect("/dev/null").into();
        let patience = Timespec::try_from(PATIENCE).expect("seconds");
        let ended = poll(&mut [PollFd::new(&self.death, PollFlags::IN)], Some(&patience));
        assert_eq!(ended, Ok(1), "goes on without a terminal");
        let status = self.child.wait().expect("a child that has ended");
        *self.exit.insert(status)
    }

    /// Reads on until the program has ended, and to the end of what it wrote.
    pub fn wait_exit(&mut self) -> ExitStatus {
        self.wait_until(|pty| pty.exit.is_some(), "exit");
        self.read_what_is_there();
        self.exit.expect("just waited for")
    }

    /// How the terminal is left now; to be compared with [`TerminalLeft::CLEAN`] after the exit.
    pub fn terminal_left(&mut self) -> TerminalLeft {
        self.read_what_is_there();
        let screen = self.parser.screen();
        let settings = rustix::termios::tcgetattr(&self.theirs).expect("a terminal has settings");
        TerminalLeft {
            main_screen: !screen.alternate_screen(),
            cursor_shown: !screen.hide_cursor(),
            plain_paste: !screen.bracketed_paste(),
            mouse_off: screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None,
            ordinary_keys: !screen.application_keypad() && !screen.application_cursor(),
            settings_restored: same_settings(&settings, &self.settings_before),
        }
    }

    /// Reads for so long, whatever comes, and says how many bytes that were: to measure silence, not to wait.
    pub fn bytes_within(&mut self, span: Duration) -> usize {
        let before = self.bytes_written();
        let end = Instant::now() + span;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let left = Timespec::try_from(left).expect("seconds");
            match poll(&mut [PollFd::new(&self.ours, PollFlags::IN)], Some(&left)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => self.read_what_is_there(),
                Err(error) => panic!("poll: {error}"),
            }
        }
        self.bytes_written() - before
    }

    /// Whether what was read last ends in the middle of a synchronized update: no person would see that.
    fn is_within_frame(&self) -> bool {
        let begin = self.output.windows(UPDATE.len()).rposition(|bytes| bytes == UPDATE);
        self.exit.is_none() && begin.is_some_and(|at| self.output.get(at + UPDATE.len()) != Some(&b'l'))
    }

    /// Waits for output, the exit, or what else is asked of the terminal, and takes in what came.
    fn turn(&mut self, give_up: Instant, also: PollFlags, what: &str) {
        let left = give_up.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "waited {PATIENCE:?} for {what}; the screen is\n{}", self.screen_text());
        let left = Timespec::try_from(left).expect("seconds");
        let mut ready = [PollFd::new(&self.ours, PollFlags::IN | also), PollFd::new(&self.death, PollFlags::IN)];
        match poll(&mut ready, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
        if !ready[1].revents().is_empty() {
            self.exit = Some(self.child.wait().expect("a child that has ended"));
        }
        self.read_what_is_there();
    }

    fn read_what_is_there(&mut self) {
        let mut portion = [0; 16 * 1024];
        while let Ok(count @ 1..) = rustix::io::read(&self.ours, &mut portion) {
            self.output.extend_from_slice(&portion[..count]);
            self.shown += show(&mut self.parser, &self.output[self.shown..]);
        }
    }
}

/// Shows output, and returns how many of its bytes: a replacement character that is not complete is left for later. The
/// emulator leaves that character out, which takes a column of every terminal.
fn show(parser: &mut vt100::Parser<Reports>, output: &[u8]) -> usize {
    let replacement = "\u{fffd}".as_bytes();
    let is_begun = |length: &usize| output.ends_with(&replacement[..*length]);
    let ready = output.len() - (1..replacement.len()).rev().find(is_begun).unwrap_or(0);
    let mut rest = &output[..ready];
    while let Some(at) = rest.windows(replacement.len()).position(|bytes| bytes == replacement) {
        parser.process(&rest[..at]);
        parser.process("\u{25a1}".as_bytes());
        rest = &rest[at + replacement.len()..];
    }
    parser.process(rest);
    ready
}

impl Drop for Pty {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.kill(Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Whether a status tells of a death by this signal.
pub fn died_of(status: ExitStatus, signal: Signal) -> bool {
    status.signal() == Some(signal.as_raw())
}

fn open_terminal(size: (u16, u16)) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags).expect("a pseudo-terminal");
    rustix::pty::grantpt(&ours).expect("the right to it");
    rustix::pty::unlockpt(&ours).expect("an unlocked terminal");
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags).expect("its other side");
    rustix::io::ioctl_fionbio(&ours, true).expect("reads that do not block");
    set_size(&ours, size);
    (ours, theirs)
}

fn set_size(terminal: &OwnedFd, (columns, rows): (u16, u16)) {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(terminal, size).expect("a terminal has a size");
}

/// Modes and special characters; speeds are the driver's.
fn same_settings(one: &Termios, other: &Termios) -> bool {
    let modes = |settings: &Termios| {
        (settings.input_modes, settings.output_modes, settings.control_modes, settings.local_modes)
    };
    // The kernel's type compares nothing and shows everything.
    modes(one) == modes(other) && format!("{:?}", one.special_codes) == format!("{:?}", other.special_codes)
}

/// Our own binary, which then executes the program.
fn become_command(program: &Path, args: &[&str]) -> Command {
    let program = program.to_str().expect("a path in UTF-8");
    let argv: Vec<&str> = std::iter::once(program).chain(args.iter().copied()).collect();
    let mut command = signals::command(std::env::current_exe().expect("the path of this binary"));
    command.args(["--exact", &test_name("the_pty_child_becomes_the_program"), "--nocapture", "--test-threads=1"]);
    command
        .env_clear()
        .env("POLYLOGUE_LOOK_UP_MODELS", "false")
        // Tests name another model, or an empty text for none.
        .env("POLYLOGUE_MODEL", "echo")
        .envs(std::env::var_os("PATH").map(|path| (OsString::from("PATH"), path)));
    command.env(BECOME, serde_json::json!(argv).to_string());
    command
}

/// The name by which libtest knows a test of this file.
fn test_name(name: &str) -> String {
    let module = module_path!();
    let module = module.split_once("::").map_or(module, |(_, inside)| inside);
    format!("{module}::{name}")
}

/// In the copy that [`Pty::spawn`] starts: takes the terminal on stdin as its own and becomes the
/// program. Anywhere else it returns at once.
pub fn become_the_program_if_asked() {
    let Ok(argv) = std::env::var(BECOME) else { return };
    let argv: Vec<String> = serde_json::from_str(&argv).expect("a list that spawn wrote");
    rustix::process::setsid().expect("a new process leads no group");
    rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()).expect("a terminal on stdin that controls no session");
    // Up to here stdout was /dev/null: the test harness talks.
    rustix::stdio::dup2_stdout(rustix::stdio::stdin()).expect("the terminal as stdout");
    let mut program = Command::new(&argv[0]);
    program.args(&argv[1..]).env_remove(BECOME);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let error = program.env(BECAME_AT, format!("{}{:09}", now.tv_sec, now.tv_nsec)).exec();
    panic!("{}: {error}", argv[0]);
}

/// Not a test: the entry point of the copy of this binary.
#[test]
fn the_pty_child_becomes_the_program() {
    become_the_program_if_asked();
}
