//! The image in the person's clipboard. Terminals pass only text on, so a helper program reads it, as editors do; it is the
//! person's own, and runs with the whole environment, as the editor of a draft does.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::base::error::{Result, system_message};
use crate::base::job::{JobThread, Outcome};
use crate::domain::attachment::{MAX_IMAGE, PDF, media_type};

/// How long all helper programs together may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Replaced by the wanted media type in the arguments of a helper program.
const TYPE: &str = "TYPE";
const PNG: &[&str] = &["image/png"];
const TYPES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];

/// A program that writes the clipboard to standard output.
struct Helper {
    program: &'static str,
    arguments: &'static [&'static str],
    /// Without this variable it has no clipboard to read.
    variable: Option<&'static str>,
    types: &'static [&'static str],
}

/// wl-paste(1) of wl-clipboard, xclip(1), and pngpaste, which has only PNG.
const HELPERS: [Helper; 3] = [
    Helper {
        program: "wl-paste",
        arguments: &["--no-newline", "--type", TYPE],
        variable: Some("WAYLAND_DISPLAY"),
        types: TYPES,
    },
    Helper {
        program: "xclip",
        arguments: &["-selection", "clipboard", "-o", "-t", TYPE],
        variable: Some("DISPLAY"),
        types: TYPES,
    },
    Helper { program: "pngpaste", arguments: &["-"], variable: None, types: PNG },
];

/// An image that is being read. Dropping it ends the program that reads it.
pub struct ClipboardImage {
    thread: JobThread<Vec<u8>>,
    helper: Arc<Mutex<RunningHelper>>,
}

/// The state that the thread and its owner share.
#[derive(Default)]
struct RunningHelper {
    /// The group of the running program. It was not waited for, so no other process has its number.
    group: Option<Pid>,
    is_cancelled: bool,
}

impl Drop for ClipboardImage {
    fn drop(&mut self) {
        let mut helper = locked(&self.helper);
        helper.is_cancelled = true;
        helper.end();
    }
}

impl RunningHelper {
    fn end(&mut self) {
        if let Some(group) = self.group.take() {
            // It may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn locked(helper: &Mutex<RunningHelper>) -> MutexGuard<'_, RunningHelper> {
    helper.lock().expect("nothing panics while it is locked")
}

impl ClipboardImage {
    /// Begins to read the clipboard, and calls `wake` from another thread when that has ended.
    pub fn start(wake: Arc<dyn Fn() + Send + Sync>) -> Result<Self> {
        let helper = Arc::default();
        let shared = Arc::clone(&helper);
        let thread = JobThread::spawn("clipboard".into(), move |_| read(Instant::now() + TIME_LIMIT, &shared), wake);
        Ok(Self { thread: thread.map_err(|error| error.context("cannot read the clipboard"))?, helper })
    }

    /// The bytes of the image, or why there is none; `None` while it is read.
    pub fn poll(&self) -> Option<Outcome<Vec<u8>>> {
        self.thread.take()
    }
}

fn read(give_up: Instant, running: &Mutex<RunningHelper>) -> Outcome<Vec<u8>> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut has_helper = false;
    for helper in HELPERS.iter().filter(|helper| helper.variable.is_none_or(is_set)) {
        for wanted in helper.types {
            match output_of(helper, wanted, give_up, running) {
                Ok(bytes) if is_image(&bytes) => return Ok(bytes),
                Ok(_) => has_helper = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(format!("{}: {}", helper.program, system_message(&error))),
            }
        }
    }
    Err(match has_helper {
        true => "the clipboard has no image",
        false => {
            "no program that reads images from the clipboard: install wl-clipboard (Wayland), xclip (X11) or pngpaste \
             (macOS), or attach a file: @PATH"
        }
    }
    .into())
}

fn is_image(bytes: &[u8]) -> bool {
    media_type(bytes).is_some_and(|media_type| media_type != PDF)
}

/// The output of the program. One that takes too long or writes too much is ended, with its descendants.
fn output_of(helper: &Helper, wanted: &str, give_up: Instant, running: &Mutex<RunningHelper>) -> io::Result<Vec<u8>> {
    let arguments = helper.arguments.iter().map(|argument| if *argument == TYPE { wanted } else { argument });
    let mut command = Command::new(helper.program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = start(&mut command, running)?;
    let output = child.stdout.take().map_or_else(|| Ok(Vec::new()), |stdout| read_within(stdout, give_up));
    // One that has closed its output may still run.
    locked(running).end();
    child.wait()?;
    output
}

fn start(command: &mut Command, running: &Mutex<RunningHelper>) -> io::Result<Child> {
    let mut running = locked(running);
    if running.is_cancelled {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let child = command.spawn()?;
    running.group = Some(Pid::from_child(&child));
    Ok(child)
}

fn read_within(mut stdout: ChildStdout, give_up: Instant) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while is_readable(&stdout, give_up)? {
        let mut buffer = [0; 64 << 10];
        match stdout.read(&mut buffer)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
        if bytes.len() > MAX_IMAGE {
            let most = MAX_IMAGE >> 20;
            return Err(io::Error::other(format!("the image is larger than {most} MB, the limit for images")));
        }
    }
    Err(io::Error::other(format!("no answer within {} s", TIME_LIMIT.as_secs())))
}

/// Waits until something can be read; false if nothing can in time.
fn is_readable(stdout: &ChildStdout, give_up: Instant) -> io::Result<bool> {
    loop {
        let left = give_up.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&limit)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
