//! The tour that `make demo` plays: the real program in a real terminal, with echo agents and a person who types.
//! With `--pictures DIR` the screens that the README shows are drawn as well.

#[path = "../support/mod.rs"]
mod support;

mod picture;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use support::pty::Pty;

const SIZE: (u16, u16) = (92, 26);
const KEY: Duration = Duration::from_millis(24);
const LOOK: Duration = Duration::from_millis(1400);

fn main() {
    support::flood::serve_if_asked();
    support::pty::become_the_program_if_asked();
    let mut words = std::env::args().skip(1);
    let pictures = words.find(|word| word == "--pictures").and_then(|_| words.next());
    let pictures = pictures.map(|path| std::path::absolute(path).expect("a place for pictures"));
    let house = tempfile::Builder::new().prefix("tour").rand_bytes(0).tempdir().expect("no other tour is played");
    std::env::set_current_dir(house.path()).expect("the tour has a place of its own");
    let home = house.path().to_str().expect("a path that is text");
    let data = house.path().join("data");
    let program = env!("CARGO_BIN_EXE_polylogue");
    let arguments = ["--data-dir", data.to_str().expect("a path that is text")];
    let pty = Pty::spawn(program, &arguments, &[("HOME", home), ("LANG", "C.UTF-8")], SIZE);
    Tour { pty, shown: 0, pictures, is_watched: std::io::stdout().is_terminal() }.play();
}

struct Tour {
    pty: Pty,
    /// How much of the program's output was passed on.
    shown: usize,
    pictures: Option<PathBuf>,
    is_watched: bool,
}

impl Tour {
    fn play(&mut self) {
        self.until("/help tells the rest");
        self.line("Hello, many!");
        self.pause(LOOK);
        self.line("/fork --name scout");
        self.line("!slow 60\n!repeat 90\nThe scout looks behind every hill and reports what stands there. ");
        self.pause(LOOK);
        self.line("/switch 0");
        self.line("/fork --name builder");
        self.line("!tool bash {\"command\":\"printf 'roof\\\\nwalls\\\\n' | sort\"}\n!next\nThe house stands.");
        self.until("may this run");
        self.pause(LOOK);
        self.picture("approval");
        self.keys("y");
        self.until("The house stands");
        self.pause(LOOK);
        self.line("/switch 0");
        self.line("Meanwhile the first agent is still here to talk to.");
        self.line("/agents");
        self.pause(LOOK);
        self.picture("agents");
        self.line("/switch scout");
        self.pause(LOOK);
        self.picture("streaming");
        self.keys("\x1b");
        self.until("interrupted");
        self.pause(LOOK);
        self.line("/exit");
        self.pty.wait_exit();
        self.pass_on();
    }

    /// Types a line as a person would; new lines within it as Ctrl+J.
    fn line(&mut self, text: &str) {
        for part in text.chars() {
            let key = if part == '\n' { "\x0a".to_owned() } else { part.to_string() };
            self.keys(&key);
        }
        self.keys("\r");
        self.pause(Duration::from_millis(300));
    }

    fn keys(&mut self, keys: &str) {
        self.pty.send(keys);
        self.pause(KEY);
    }

    /// Time passes, and what happens in it is shown.
    fn pause(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            let frame = rustix::time::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            rustix::event::poll(&mut [], Some(&frame)).expect("time can pass");
            self.pass_on();
        }
    }

    fn until(&mut self, text: &str) {
        let start = Instant::now();
        while !self.pty.screen().contents().contains(text.trim_end()) {
            assert!(start.elapsed() < support::PATIENCE, "the tour is lost, {text:?} never came");
            self.pause(KEY);
        }
    }

    fn pass_on(&mut self) {
        let output = self.pty.raw_output();
        if self.is_watched {
            let mut screen = std::io::stdout();
            screen.write_all(&output[self.shown..]).and_then(|()| screen.flush()).expect("somebody watches");
        }
        self.shown = output.len();
    }

    fn picture(&mut self, name: &str) {
        let Some(directory) = &self.pictures else { return };
        let svg = picture::draw(self.pty.screen());
        std::fs::create_dir_all(directory).expect("the place for pictures can be made");
        std::fs::write(directory.join(format!("{name}.svg")), svg).expect("a picture can be written");
    }
}
