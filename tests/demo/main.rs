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
    let mut args = std::env::args().skip(1);
    let pictures = args.find(|word| word == "--pictures").and_then(|_| args.next());
    let pictures = pictures.map(|path| std::path::absolute(path).expect("a path"));
    let app = tempfile::Builder::new().prefix("tour").rand_bytes(0).tempdir().expect("no other tour is played");
    std::env::set_current_dir(app.path()).expect("the tour has its own directory");
    Tour { pty: start(&[]), shown: 0, pictures, is_watched: std::io::stdout().is_terminal() }.play();
}

/// Starts the program with these arguments in a new terminal. All share one home and one data directory.
fn start(args: &[&str]) -> Pty {
    let home = std::env::current_dir().expect("the tour has its own directory");
    let (home, data) = (home.to_str().expect("a path that is text"), home.join("data"));
    let arguments = [&["--data-dir", data.to_str().expect("a path that is text")], args].concat();
    Pty::spawn(env!("CARGO_BIN_EXE_polylogue"), &arguments, &[("HOME", home), ("LANG", "C.UTF-8")], SIZE)
}

struct Tour {
    pty: Pty,
    /// How much of the program's output was passed on.
    shown: usize,
    pictures: Option<PathBuf>,
    is_watched: bool,
}

/// Stops a server that a failed tour left behind; without one, `stop` fails quietly.
impl Drop for Tour {
    fn drop(&mut self) {
        start(&["stop"]).wait_exit();
    }
}

impl Tour {
    fn play(&mut self) {
        self.until("/help lists the commands");
        self.line("Hello, many!");
        self.pause(LOOK);
        self.have_many();
        self.set_several_on_one_task();
        self.line("/exit");
        self.see_it_end();
        self.close_the_laptop();
    }

    fn have_many(&mut self) {
        self.line("/fork --name scout");
        self.line("%slow 60\n%repeat 30\n## North\n- **tests**: `cargo test` passes\n- *docs*: 2 links are broken\n\n| file | lines |\n|---|---|\n| cart.rs | 80 |\n\n");
        self.pause(LOOK);
        self.line("/switch 0");
        self.line("/fork --name builder");
        self.line(
            "%tool bash {\"command\":\"printf 'roof\\\\nwalls\\\\n' | sort > plan.txt\"}\n%next\nThe build passes.",
        );
        self.until("y to run it");
        self.pause(LOOK);
        self.picture("approval");
        self.keys("y");
        self.until("The build passes");
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
    }

    fn set_several_on_one_task(&mut self) {
        self.line("/switch 0");
        self.line(
            "/team parallel vote --agents ada,grace,mary \"%slow 60\n%repeat 12\nStone lasts, wood is quick: stone it is. \"",
        );
        self.pause(LOOK);
        self.line("/agents");
        self.pause(LOOK);
        self.picture("team");
        self.until("3 of 3");
        self.pause(LOOK);
    }

    /// What goes on at a server while no terminal is there is on the screen of the next one.
    fn close_the_laptop(&mut self) {
        self.open(&["serve", "--background"]);
        self.see_it_end();
        self.open(&["attach", "builder"]);
        self.until("The build passes");
        self.line("%slow 60\n%repeat 60\nThe builder keeps running detached. ");
        self.pause(LOOK);
        self.line("/detach");
        self.see_it_end();
        let _other = start(&["attach", "scout", "--read-only"]);
        self.open(&["attach", "builder"]);
        self.until("keeps running detached");
        self.line("/sessions");
        self.pause(LOOK);
        self.picture("attached");
        self.line("/detach");
        self.see_it_end();
        self.open(&["stop"]);
        self.see_it_end();
    }

    /// Starts the program in a new terminal.
    fn open(&mut self, args: &[&str]) {
        (self.pty, self.shown) = (start(args), 0);
    }

    fn see_it_end(&mut self) {
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
            screen.write_all(&output[self.shown..]).and_then(|()| screen.flush()).expect("a screen");
        }
        self.shown = output.len();
    }

    fn picture(&mut self, name: &str) {
        let Some(directory) = &self.pictures else { return };
        let svg = picture::draw(self.pty.screen());
        std::fs::create_dir_all(directory).expect("a directory for pictures can be made");
        std::fs::write(directory.join(format!("{name}.svg")), svg).expect("a picture can be written");
    }
}
