//! Golden frames: scenes drawn by the program on screens of several widths and looks, compared with `fixtures/frames/*.txt`.
//!
//! `POLYLOGUE_WRITE_FRAMES=1 cargo test frames::` writes the files anew; what changed is then seen in the diff.
//!
//! A row is its text between bars. Below it are the columns that are not in the terminal's own style: on a dark background,
//! after `light` on a light one where they differ, and after `no colour` without colours.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use polylogue::config::{
    Abilities, Depth, DisplaySettings, ModelFacts, Policy, Prices, ProviderEntry, Rules, ThemeSettings,
};
use polylogue::{Change, MailAct, Setting};
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Palette, RemoteTerminal, State};
use crate::support::peer::Peer;

const WIDTHS: [u16; 4] = [20, 40, 80, 200];
const ROWS: u16 = 40;

#[cfg(feature = "syntax-colors")]
const REPLY: &str = "# The cart\n\nThe `total()` sums **prices**, *not* lines; see [the handler](https://example.com/cart).\n\n\
    1. walk the lines\n2. add the price\n   - once per line\n   - [x] whatever the count\n\n\
    > It ignores\n> the count.\n\n| case | before | after |\n|---|--:|:-:|\n| empty cart | 0 | 0 |\n\
    | one line of three pieces | 5 | 15 |\n\n---\n\n```rust\nfn total(&self) -> Money {\n    self.lines.iter().sum()\n";

/// How a terminal looks: its name in the files, the theme, and what the terminal can display.
struct Look {
    name: &'static str,
    theme: &'static str,
    device: fn() -> RemoteTerminal,
}

const LOOKS: [Look; 3] = [
    Look { name: "dark", theme: "dark", device: || terminal(true) },
    Look { name: "light", theme: "light", device: || terminal(true) },
    Look { name: "no colour", theme: "dark", device: || terminal(false) },
];

pub(crate) fn terminal(has_color: bool) -> RemoteTerminal {
    let usual = RemoteTerminal::default();
    let abilities = Abilities { depth: Depth::Indexed, ..usual.abilities };
    RemoteTerminal { palette: Palette { color: has_color, ..usual.palette }, abilities, ..usual }
}

struct Scene {
    app: Harness,
    peer: Peer,
    frames: Vec<(String, Vec<DrawnRow>)>,
}

/// The text of a row, and the columns with a style.
pub(crate) type DrawnRow = (String, String);

impl Scene {
    fn new(size: (u16, u16), look: &'static Look) -> Self {
        let peer = Peer::start();
        let theme = ThemeSettings { name: look.theme, ..ThemeSettings::default() };
        let display = DisplaySettings { home: Some(std::env::temp_dir()), theme, ..DisplaySettings::default() };
        let plan = Plan {
            size: Some(size),
            device: look.device,
            providers: vec![far(&peer)],
            policy: Policy::Auto,
            rules: Rules::default(),
            display,
            ..Plan::peer(&peer.url())
        };
        let app = Harness::new(plan);
        Self { app, peer, frames: Vec::new() }
    }

    /// Notes the screen, which is compared with the file when the scene was played in every look.
    fn check(&mut self, step: &str) {
        self.app.turn_until_colored();
        self.frames.push((step.to_owned(), drawn(self.app.screen())));
    }

    fn until_idle(&mut self) {
        self.app.turn_until("the end of the turn", |app| app.state(0) == State::Idle);
    }
}

/// A provider of three models, of which the first has a price.
fn far(peer: &Peer) -> ProviderEntry {
    let prices = Prices { input: 2_500_000, output: 10_000_000, ..Prices::default() };
    let facts = ModelFacts { prices: Some(prices), ..ModelFacts::default() };
    let models = [("one", facts), ("two", ModelFacts::default()), ("three", ModelFacts::default())];
    ProviderEntry {
        name: "far".into(),
        kind: "openai".into(),
        base_url: peer.url(),
        models: models.map(|(name, facts)| (name.to_owned(), facts)).into(),
        ..ProviderEntry::default()
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/frames")
}

/// The screen without the status line and the time of day: they depend on where the test runs.
pub(crate) fn drawn(screen: &vt100::Screen) -> Vec<DrawnRow> {
    let (rows, columns) = screen.size();
    let mut drawn = Vec::new();
    for row in 0..rows - 1 {
        let cells: Vec<&vt100::Cell> = (0..columns).filter_map(|column| screen.cell(row, column)).collect();
        let text = screen.rows(0, columns).nth(row.into()).unwrap_or_default();
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
        drawn.push((without_time(&text), styles.join(", ")));
    }
    drawn
}

/// One text of the same frame in all looks.
pub(crate) fn merged(looks: &[&[DrawnRow]]) -> String {
    let mut merged = String::new();
    for (row, (text, dark)) in looks[0].iter().enumerate() {
        let _ = writeln!(merged, "|{text}|");
        for (look, rows) in LOOKS.iter().zip(looks) {
            let (other, styles) = &rows[row];
            // A background is seen behind blanks at the end.
            assert_eq!(other.trim_end(), text.trim_end(), "{}", look.name);
            let name = if look.name == "dark" { String::new() } else { format!("{}: ", look.name) };
            if !styles.is_empty() && (name.is_empty() || styles != dark) {
                let _ = writeln!(merged, "    {name}{styles}");
            }
        }
    }
    merged
}

/// Compares a frame with its file, or writes the file.
pub(crate) fn compare(name: &str, drawn: &str) {
    let file = directory().join(format!("{name}.txt"));
    if std::env::var_os("POLYLOGUE_WRITE_FRAMES").is_some() {
        std::fs::write(&file, drawn).expect("a golden frame is written");
        return;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(drawn == expected, "{} has changed; it was\n{expected}\nand is\n{drawn}", file.display());
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
    let color = |color| match color {
        vt100::Color::Default => None,
        vt100::Color::Idx(number) => Some(format!("colour {number}")),
        vt100::Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    };
    style.extend(color(cell.fgcolor()));
    style.extend(color(cell.bgcolor()).map(|background| format!("on {background}")));
    style.join(" ")
}

/// The row with the time of day, the time that something takes, the position of the spinner and the ids of agents replaced.
fn without_time(row: &str) -> String {
    let is_spinner = |c: char| ('\u{2800}'..='\u{28ff}').contains(&c);
    let times =
        if row.starts_with(is_spinner) { row.replace(|c: char| c.is_ascii_digit(), "n") } else { row.to_owned() };
    let still: String = times.chars().map(|c| if is_spinner(c) { '⣾' } else { c }).collect();
    let replaced = replace_all(&still, "hh:mm", |part| {
        part[2] == b':' && [0, 1, 3, 4].iter().all(|digit| part[*digit].is_ascii_digit())
    });
    let replaced = replace_all(&replaced, "n.n s", |part| {
        [0, 2].iter().all(|digit| part[*digit].is_ascii_digit()) && part[1] == b'.' && part.ends_with(b" s")
    });
    let replaced = replace_all(&replaced, ".tmpdirect", |part| part.starts_with(b".tmp"));
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

/// Plays a scene at every width in every look.
fn play(name: &str, scene: fn(&mut Scene)) {
    play_at(name, &WIDTHS.map(|columns| (columns, ROWS)), scene);
}

/// Plays a scene of a view over many agents.
fn play_view(name: &str, scene: fn(&mut Scene)) {
    play_at(name, &[(80, 24), (200, 60)], scene);
}

fn play_at(name: &str, sizes: &[(u16, u16)], scene: fn(&mut Scene)) {
    for (columns, rows) in sizes.iter().copied() {
        let played = LOOKS.each_ref().map(|look| {
            let mut played = Scene::new((columns, rows), look);
            scene(&mut played);
            played.frames
        });
        for (at, (step, _)) in played[0].iter().enumerate() {
            let looks = played.each_ref().map(|frames| frames[at].1.as_slice());
            compare(&format!("{name}-{step}-{columns}"), &merged(&looks));
        }
    }
}

#[cfg(feature = "syntax-colors")]
#[test]
fn a_reply_is_drawn_as_it_streams_and_when_it_is_complete() {
    play("reply", |scene| {
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
    });
}

#[test]
fn tool_calls_and_reasoning_are_folded_until_they_are_opened() {
    play("tools", |scene| {
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
    });
}

#[test]
fn errors_and_mail_are_told_apart_from_what_is_said() {
    play("errors", |scene| {
        scene.app.enter("hello");
        let exchange = scene.app.accept(&scene.peer);
        exchange.error(401, "invalid_api_key", "the key is wrong");
        scene.until_idle();
        // The text that was not answered is in the draft again.
        scene.app.type_bytes(b"\x15");
        scene.app.ask(0, Change::Setting(Setting::Name(Some("plan".into()))));
        scene.app.fork_named(0, "ann");
        scene.app.switch(0);
        scene.app.enter("/send ann mind the *count*");
        scene.app.switch(1);
        scene.app.enter("/read-mail");
        scene.check("mail");
        scene.app.switch(0);
        scene.check("error");
    });
}

#[test]
fn the_first_start_names_the_model_and_the_next_thing_to_do() {
    play("start", |scene| scene.check("first"));
}

#[test]
fn a_question_shows_the_command_and_what_was_answered_stays() {
    // Without the grammar of shells no rule is offered for a command.
    if !cfg!(feature = "shell-grammar") {
        return;
    }
    play("question", |scene| {
        scene.app.ask(0, Change::Setting(Setting::Approval(Policy::Ask)));
        scene.app.enter("publish it");
        let exchange = scene.app.accept(&scene.peer);
        let push = json!({"command": "make publish VERSION=1.4"}).to_string();
        exchange.stream().text("I push it.").tool_call(0, "a", "bash", &push).finish("tool_calls").done();
        scene.app.turn_until_asked(0);
        scene.app.turn();
        scene.app.advance(Duration::from_millis(300));
        scene.app.turn();
        scene.check("asked");
        scene.app.type_bytes(b"a");
        scene.app.advance(Duration::from_millis(300));
        scene.app.turn();
        scene.check("rules");
        scene.app.type_bytes(b"n");
        scene.app.advance(Duration::from_millis(300));
        scene.app.turn();
        scene.app.type_bytes(b"r");
        scene.app.type_bytes("not before the review".as_bytes());
        scene.check("reason");
        scene.app.type_bytes(b"\r");
        scene.app.accept(&scene.peer);
        scene.app.turn();
        scene.check("denied");
    });
}

#[test]
fn several_agents_are_told_apart_by_what_they_do() {
    play("team", |scene| {
        scene.app.ask(0, Change::Setting(Setting::Name(Some("plan".into()))));
        for name in ["web", "docs", "deploy"] {
            scene.app.fork_named(0, name);
            scene.app.switch(0);
        }
        let [web, docs, deploy] = ["web", "docs", "deploy"].map(|name| scene.app.n(name));
        scene.app.say(docs, "describe it");
        scene.app.accept(&scene.peer).stream().text("It is described.").finish("stop").done();
        scene.app.turn_until("docs has finished", |app| app.state(docs) == State::Idle);
        scene.app.say(web, "build it");
        let _working = scene.app.accept(&scene.peer);
        scene.app.ask(deploy, Change::Setting(Setting::Approval(Policy::Ask)));
        scene.app.say(deploy, "publish it");
        let push = json!({"command": "git push --force origin main"}).to_string();
        scene.app.accept(&scene.peer).stream().tool_call(0, "a", "bash", &push).finish("tool_calls").done();
        scene.app.turn_until_asked(deploy);
        let to = scene.app.id(0);
        scene.app.ask(docs, Change::Mail(MailAct::Send { to, body: "ready".into() }));
        scene.check("separator");
    });
}

#[test]
fn answers_are_compared_side_by_side() {
    play_view("compare", |scene| {
        scene.app.enter("/compare");
        scene.check("none");
        scene.app.escape();
        scene.app.enter("/ask --models far/one,far/two,far/three which crate reads the store?");
        let mut came: Vec<_> = (0..3).map(|_| scene.app.accept(&scene.peer)).collect();
        came.sort_by_key(|exchange| exchange.request().json()["model"].to_string());
        let [one, three, two] = came.try_into().unwrap_or_else(|_| panic!("three requests"));
        one.stream().text("Use **sqlx**:\n\n- checked at compile time\n- async");
        two.stream().text("Use rusqlite: you are single threaded, so an async crate only adds a runtime.");
        let has = |app: &Harness, n: usize, end: &str| app.agent(n).partial_text().ends_with(end);
        scene.app.turn_until("two texts", |app| has(app, 1, "async") && has(app, 2, "runtime."));
        scene.check("streaming");
        one.finish("stop").usage(3_000, 210).done();
        two.finish("stop").usage(3_000, 120).done();
        three.error(401, "invalid_api_key", "the key is wrong");
        scene.app.turn_until_idle();
        scene.app.turn();
        scene.app.advance(Duration::from_millis(300));
        scene.check("complete");
        scene.app.type_bytes(b"v");
        let verdict = "best: b\nIt sees that the loop has no runtime.";
        scene.app.accept(&scene.peer).stream().text(verdict).finish("stop").done();
        scene.app.turn_until_idle();
        scene.check("voted");
        scene.app.type_bytes(b"dab");
        scene.check("diff");
    });
}

#[cfg(feature = "coordinator")]
#[test]
fn lists_below_the_input_have_descriptions() {
    play("list", |scene| {
        scene.app.type_bytes(b"/\t");
        scene.check("completion");
        scene.app.escape();
        scene.app.type_bytes(b"\x15?");
        scene.check("keys");
        scene.app.escape();
        scene.app.enter("/help");
        scene.check("help");
    });
}

#[test]
fn a_timeline_has_messages_calls_files_and_forks() {
    play_view("timeline", |scene| {
        scene.app.ask(0, Change::Setting(Setting::Name(Some("api".into()))));
        scene.app.say(0, "build the cart");
        let write = json!({"file_path": "cart.rs", "content": "fn total() {}\n"}).to_string();
        let calls = scene.app.accept(&scene.peer);
        calls
            .stream()
            .text("I write it.")
            .tool_call(0, "a", "write_file", &write)
            .usage(900, 60)
            .finish("tool_calls")
            .done();
        scene.app.accept(&scene.peer).stream().text("The cart is built.").usage(1_200, 40).finish("stop").done();
        scene.until_idle();
        scene.app.fork_named(0, "test");
        scene.app.say(0, "now with a transaction");
        scene.app.accept(&scene.peer).stream().text("It has one now.").usage(1_500, 20).finish("stop").done();
        scene.until_idle();
        scene.app.enter("/timeline");
        scene.app.type_bytes(b"kkkk");
        scene.check("marked");
        scene.app.type_bytes(b"\r");
        scene.check("unfolded");
    });
}
