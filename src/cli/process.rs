//! The limit of descriptors, panics and the binary of this process.

use std::io::Write as _;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::base::error::{Error, Result};
use crate::domain::display::{Abilities, DisplaySettings};
use crate::repl::Repl;
use crate::terminal::abilities;
use crate::terminal::tty::{self, Modes};
use crate::tools::supervisor;

const WATCH: &str = "POLYLOGUE_WATCH";

/// Raises the limit of descriptors to the maximum, and makes this process the parent of what killed supervisors leave.
pub fn prepare() {
    let limit = getrlimit(Resource::Nofile);
    // If that is denied, the limits stay as they are.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let _ = supervisor::adopt_orphans();
}

/// What a chat changes on the terminal of this process.
pub fn terminal_modes(settings: &DisplaySettings) -> Modes {
    let Abilities { has_title, has_progress, is_in_tmux, is_plain, .. } = abilities::of_process();
    Modes {
        title: settings.title && has_title,
        mouse: settings.mouse,
        progress: settings.progress && has_progress && !is_in_tmux,
        status: false,
        plain: settings.plain || is_plain,
        inline: settings.inline && abilities::has_scrollback(),
        overlaid: false,
    }
}

/// Why a chat with these settings is not inline although they ask for it.
pub fn inline_note(settings: &DisplaySettings) -> Option<&'static str> {
    let is_ignored = settings.inline && !settings.plain && !abilities::has_scrollback();
    is_ignored.then_some("display.inline is ignored: the Linux console has no scrollback")
}

pub fn require_scrollback() -> Result<()> {
    if abilities::has_scrollback() {
        return Ok(());
    }
    Err(Error::usage("--inline needs a terminal with a scrollback, and the Linux console has none: start without it"))
}

/// In a debug build and if `POLYLOGUE_WATCH` is set: prints the slow turns of the loop by the step that took longest.
pub fn print_slow_turns(repl: &Repl) {
    if !cfg!(debug_assertions) || std::env::var_os(WATCH).is_none() {
        return;
    }
    let slow = repl.slow_turns();
    let mut err = std::io::stderr();
    let _ = writeln!(err, "turns of 5 ms or more: {}", slow.values().map(|(count, _)| count).sum::<u64>());
    for (step, (count, longest)) in &slow {
        let _ = writeln!(err, "{count:>8}  {step:<16} {:>8.1} ms at most", longest.as_secs_f64() * 1e3);
    }
}

/// Makes a panic restore the terminal before its message is printed.
pub fn restore_terminal_on_panic() {
    let print_message = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A panic in a tool's thread does not end the program: the call gets an error as its result.
        if std::thread::current().name() == Some("main") {
            tty::restore_for_panic();
            print_message(panic);
        }
    }));
}

/// The path of this binary, which stays valid when the file is replaced.
pub fn own_binary() -> Result<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Ok(link) } else { Ok(std::env::current_exe()?) }
}
