//! Golden frames: scenes drawn by the program on screens of several widths, compared with `fixtures/frames/*.txt`.
//!
//! `POLYLOGUE_WRITE_FRAMES=1 cargo test frames::` writes the files anew; what changed is then seen in the diff.
//!
//! A row is its text between bars; below it stand the columns that are not in the terminal's own style.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use polylogue::Change;
use polylogue::config::Policy;
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::Peer;

const WIDTHS: [u16; 4] = [20, 40, 80, 200];
const ROWS: u16 = 40;

const REPLY: &str = "# The cart\n\nThe `total()` sums **prices**, *not* lines; see [the handler](https://example.com/cart).\n\n\
    1. walk the lines\n2. add the price\n   - once per line\n   - [x] whatever the count\n\n\
    > It ignores\n> the count.\n\n| case | before | after |\n|---|--:|:-:|\n| empty cart | 0 | 0 |\n\
    | one line of three pieces | 5 | 15 |\n\n---\n\n```rust\nfn total(&self) -> Money {\n    self.lines.iter().sum()\n";

struct Scene {
    app: Harness,
    peer: Peer,
    name: &'static str,
    columns: u16,
}

impl Scene {
    fn new(name: &'static str, columns: u16) -> Self {
        let peer = Peer::start();
        let plan = Plan { size: Some((columns, ROWS)), policy: Policy::Auto, ..Plan::peer(&peer.url()) };
        let app = Harness::new(plan);
        Self { app, peer, name, columns }
    }

    /// Compares the screen with the file, or writes the file.
    fn check(&mut self, step: &str) {
        self.app.turn();
        let drawn = drawn(self.app.screen());
        let file = directory().join(format!("{}-{step}-{}.txt", self.name, self.columns));
        if std::env::var_os("POLYLOGUE_WRITE_FRAMES").is_some() {
            std::fs::write(&file, &drawn).expect("a golden frame is written");
            return;
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(drawn == expected, "{} has changed; it was\n{expected}\nand is\n{drawn}", file.display());
    }

    fn until_idle(&mut self) {
        self.app.turn_until("the end of the turn", |app| app.state(0) == State::Idle);
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/frames")
}

/// The screen without the status line and the time of day: they depend on where the test runs.
fn drawn(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let mut drawn = String::new();
    for row in 0..rows - 1 {
        let cells: Vec<&vt100::Cell> = (0..columns).filter_map(|column| screen.cell(row, column)).collect();
        let text = screen.rows(0, columns).nth(row.into()).unwrap_or_default();
        let _ = writeln!(drawn, "|{}|", without_time(&text));
        let mut begin = 0;
        let mut styles = Vec::new();
        for (end, _) in cells.iter().enumerate().skip(1).chain([(cells.len(), &cells[0])]) {
            if cells.get(end).map(|cell| style_of(cell)) == Some(style_of(cells[begin])) {
                continue;
            }
            let style = style_of(cells[begin]);
            if !style.is_empty() {
                styles.push(format!("{begin}-{} {style}", end - 1));
            }
            begin = end;
        }
        if !styles.is_empty() {
            let _ = writeln!(drawn, "    {}", styles.join(", "));
        }
    }
    drawn
}

fn style_of(cell: &vt100::Cell) -> String {
    let mut style = Vec::new();
    for (is_set, name) in [
        (cell.bold(), "bold"),
        (cell.dim(), "dim"),
        (cell.italic(), "italic"),
        (cell.underline(), "underline"),
        (cell.inverse(), "reverse"),
    ] {
        style.extend(is_set.then(|| name.to_owned()));
    }
    match cell.fgcolor() {
        vt100::Color::Default => {}
        vt100::Color::Idx(number) => style.push(format!("colour {number}")),
        vt100::Color::Rgb(red, green, blue) => style.push(format!("#{red:02x}{green:02x}{blue:02x}")),
    }
    style.join(" ")
}

/// The row with the time of day and the ids of agents replaced.
fn without_time(row: &str) -> String {
    let replaced = replace_all(row, "hh:mm", |part| {
        part[2] == b':' && [0, 1, 3, 4].iter().all(|digit| part[*digit].is_ascii_digit())
    });
    replace_all(&replaced, "(ididid)", |part| {
        (part[0], part[7]) == (b'(', b')')
            && part[1..7].iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
    })
}

fn replace_all(row: &str, with: &str, is_it: impl Fn(&[u8]) -> bool) -> String {
    let mut replaced = row.to_owned();
    for at in 0..row.len() {
        if replaced.get(at..at + with.len()).is_some_and(|part| is_it(part.as_bytes())) {
            replaced.replace_range(at..at + with.len(), with);
        }
    }
    replaced
}

#[test]
fn a_reply_is_drawn_as_it_streams_and_when_it_is_complete() {
    for columns in WIDTHS {
        let mut scene = Scene::new("reply", columns);
        scene.app.enter("why does total ignore the count?");
        let exchange = scene.app.accept(&scene.peer);
        exchange.stream();
        for piece in REPLY.as_bytes().chunks(7) {
            exchange.text(std::str::from_utf8(piece).expect("the reply is ASCII"));
        }
        scene.app.turn_until("the reply so far", |app| app.agent(0).partial_text() == REPLY);
        scene.check("streaming");
        exchange.text("}\n```\nIt is used **now**.").usage(3_000, 210).finish("stop").done();
        scene.until_idle();
        scene.check("complete");
        scene.app.enter("/raw");
        scene.check("raw");
    }
}

#[test]
fn tool_calls_and_reasoning_are_folded_until_they_are_opened() {
    for columns in WIDTHS {
        let mut scene = Scene::new("tools", columns);
        let lines: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        std::fs::write(scene.app.directory().join("notes"), lines).expect("a file");
        scene.app.enter("change line 20");
        let exchange = scene.app.accept(&scene.peer);
        exchange.stream().thinking("The file has to be read first.\nThen it is edited.");
        scene.app.turn_until("the reasoning", |app| app.screen_text().contains("edited."));
        scene.check("thinking");
        let read = json!({"file_path": "notes", "offset": 18, "limit": 4}).to_string();
        let missing = json!({"file_path": "nothing"}).to_string();
        exchange.tool_call(0, "a", "read_file", &read).tool_call(1, "b", "read_file", &missing);
        exchange.finish("tool_calls").done();
        let exchange = scene.app.accept(&scene.peer);
        let edit = json!({"file_path": "notes", "old_string": "line 20", "new_string": "line twenty\nand more"});
        exchange.stream().text("I edit it.").tool_call(0, "c", "edit_file", &edit.to_string());
        exchange.finish("tool_calls").done();
        let exchange = scene.app.accept(&scene.peer);
        exchange.stream().text("Done.").finish("stop").done();
        scene.until_idle();
        scene.check("folded");
        scene.app.type_bytes(b"\x0f");
        scene.check("open");
    }
}

#[test]
fn errors_and_mail_are_told_apart_from_what_is_said() {
    for columns in WIDTHS {
        let mut scene = Scene::new("errors", columns);
        scene.app.enter("hello");
        let exchange = scene.app.accept(&scene.peer);
        exchange.error(401, "invalid_api_key", "the key is wrong");
        scene.until_idle();
        // The text that was not answered is in the draft again.
        scene.app.type_bytes(b"\x15");
        scene.app.ask(0, Change::Name(Some("plan".into())));
        scene.app.fork_named(0, "ann");
        scene.app.switch(0);
        scene.app.enter("/send ann mind the *count*");
        scene.app.switch(1);
        scene.app.enter("/read-mail");
        scene.check("mail");
        scene.app.switch(0);
        scene.check("error");
    }
}
