//! A person at a terminal: types, looks, and waits for what is to come.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::picture;
use crate::support::{PATIENCE, pty::Pty};

pub const KEY: Duration = Duration::from_millis(24);
const LOOK: Duration = Duration::from_millis(1400);

/// Where the program runs: its home, and what is set in its environment.
#[derive(Clone)]
pub struct Place {
    pub home: PathBuf,
    pub variables: Vec<(String, String)>,
    pub size: (u16, u16),
}

impl Place {
    /// Starts the program with these arguments in a new terminal. All share one data directory.
    pub fn start(&self, directory: &Path, args: &[&str]) -> Pty {
        let (home, data) = (self.home.to_str().expect("a path that is text"), self.home.join("data"));
        let arguments = [&["--data-dir", data.to_str().expect("a path that is text")], args].concat();
        let own = self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let variables: Vec<(&str, &str)> = [("HOME", home), ("LANG", "C.UTF-8")].into_iter().chain(own).collect();
        Pty::spawn_in(env!("CARGO_BIN_EXE_polylogue"), &arguments, &variables, self.size, directory)
    }
}

pub struct Tour {
    place: Place,
    pty: Pty,
    /// How much of the program's output was passed on.
    shown: usize,
    pictures: Option<PathBuf>,
    is_watched: bool,
    /// How many keys were pressed.
    pub pressed: u32,
}

/// Stops a server that a failed tour left behind; without one, `stop` fails quietly.
impl Drop for Tour {
    fn drop(&mut self) {
        self.place.start(&self.place.home, &["stop"]).wait_exit();
    }
}

impl Tour {
    /// Begins with the program in this directory.
    pub fn new(place: Place, directory: &Path, args: &[&str], pictures: Option<PathBuf>) -> Self {
        let pty = place.start(directory, args);
        Self { place, pty, shown: 0, pictures, is_watched: std::io::stdout().is_terminal(), pressed: 0 }
    }

    /// Starts the program in a new terminal, which takes the place of this one.
    pub fn open(&mut self, directory: &Path, args: &[&str]) -> Pty {
        self.shown = 0;
        let pty = self.place.start(directory, args);
        std::mem::replace(&mut self.pty, pty)
    }

    /// Goes back to a terminal that was left open, which draws its screen anew.
    pub fn return_to(&mut self, pty: Pty) {
        self.pty = pty;
        self.shown = self.pty.raw_output().len();
        self.keys("\x0c");
    }

    pub fn see_it_end(&mut self) {
        self.pty.wait_exit();
        self.pass_on();
    }

    /// Types a line as a person would; new lines within it as Ctrl+J.
    pub fn line(&mut self, text: &str) {
        for part in text.chars() {
            let key = if part == '\n' { "\x0a".to_owned() } else { part.to_string() };
            self.keys(&key);
        }
        self.keys("\r");
        self.pause(Duration::from_millis(300));
    }

    pub fn keys(&mut self, keys: &str) {
        self.pty.send(keys);
        self.pressed += 1;
        self.pause(KEY);
    }

    /// Presses Esc, which is a key of its own only if no other follows at once.
    pub fn escape(&mut self) {
        self.press("\x1b");
        self.pause(Duration::from_millis(300));
    }

    /// Presses a key after the person has read what is on the screen.
    pub fn press(&mut self, keys: &str) {
        self.look();
        self.keys(keys);
    }

    pub fn look(&mut self) {
        self.pause(LOOK);
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

    pub fn until(&mut self, text: &str) {
        self.until_seen(text, |screen| screen.contains(text.trim_end()));
    }

    pub fn until_seen(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !holds(&self.pty.screen().contents()) {
            let screen = self.pty.screen_text();
            assert!(start.elapsed() < PATIENCE, "the tour is lost, {what:?} never came:\n{screen}");
            self.pause(KEY);
        }
    }

    pub fn sees(&mut self, text: &str) -> bool {
        self.pty.screen().contents().contains(text)
    }

    pub fn sees_row(&mut self, is_it: impl Fn(&str) -> bool) -> bool {
        self.pty.screen().contents().lines().any(is_it)
    }

    fn pass_on(&mut self) {
        let output = self.pty.raw_output();
        if self.is_watched {
            let mut screen = std::io::stdout();
            screen.write_all(&output[self.shown..]).and_then(|()| screen.flush()).expect("a screen");
        }
        self.shown = output.len();
    }

    pub fn picture(&mut self, name: &str) {
        let Some(directory) = &self.pictures else { return };
        let svg = picture::draw(self.pty.screen());
        std::fs::create_dir_all(directory).expect("a directory for pictures can be made");
        std::fs::write(directory.join(format!("{name}.svg")), svg).expect("a picture can be written");
    }
}
