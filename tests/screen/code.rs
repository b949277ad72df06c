//! Colours of code blocks.

use polylogue::Change;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::peer::{Exchange, Peer};

const SIZE: (u16, u16) = (60, 44);

const REPLY: &str = "Two blocks:\n\n```rust\nfn main() { /* a\n   comment */ let a = \"one\n   two\"; // ü 日本\n\n    b(1)\n}\n```\n\n\
    1. a list\n   ```py\n   def f():\n       return \"x\"\n   ```\n2. the end\n\n> ~~~json\n> {\"a\": [1, null]}\n> ~~~\n\n\
    ```\nfn plain() {}\n```\n```unheard-of\nfn plain() {}\n```\n```sh\necho \"$HOME\" # and no newline";

/// The characters in colours, with their colours, row by row.
fn colors(app: &mut Harness) -> Vec<String> {
    app.turn_until_colored();
    let screen = app.screen();
    let row = |y| {
        let cells = (0..SIZE.0).filter_map(|x| screen.cell(y, x));
        cells
            .filter(|cell| cell.fgcolor() != vt100::Color::Default && !cell.bold() && cell.contents() != " ")
            .map(|cell| match cell.fgcolor() {
                vt100::Color::Idx(number) => format!("{}{number} ", cell.contents()),
                color => format!("{}{color:?} ", cell.contents()),
            })
            .collect()
    };
    (0..SIZE.1 - 6).map(row).collect()
}

fn app(peer: &Peer) -> Harness {
    Harness::new(Plan { size: Some(SIZE), ..Plan::peer(&peer.url()) })
}

fn begin(app: &mut Harness, peer: &Peer) -> Exchange {
    app.say(0, "go");
    let exchange = app.accept(peer);
    exchange.stream();
    exchange
}

/// Receives the reply in pieces of this size, each drawn.
fn receive(app: &mut Harness, peer: &Peer, size: usize) {
    let exchange = begin(app, peer);
    let (mut at, mut length) = (0, 0);
    while at < REPLY.len() {
        let end = (at + size..).find(|end| REPLY.is_char_boundary((*end).min(REPLY.len()))).expect("an end");
        let piece = &REPLY[at..end.min(REPLY.len())];
        exchange.text(piece);
        (at, length) = (end, length + piece.len());
        app.turn_until("the piece", |app| app.agent(0).partial_text().len() == length);
        if size > 1 {
            app.turn_until_colored();
        }
    }
    exchange.finish("stop").done();
    app.turn_until_idle();
}

#[test]
fn colours_do_not_depend_on_the_pieces_and_come_again_after_a_restart_and_at_another_agent() {
    let peer = Peer::start();
    let mut expected: Option<Vec<String>> = None;
    for size in [REPLY.len(), 64, 7, 3, 1] {
        let mut app = app(&peer);
        receive(&mut app, &peer, size);
        let found = colors(&mut app);
        let expected = expected.get_or_insert_with(|| found.clone());
        assert_eq!(found, *expected, "{size}");
        let mut app = app.crash_and_restart();
        let again: Vec<String> = colors(&mut app).into_iter().filter(|row| !row.is_empty()).collect();
        let expected: Vec<String> = expected.iter().filter(|row| !row.is_empty()).cloned().collect();
        assert_eq!(again, expected, "{size}, after a restart");
        app.fork_named(0, "other");
        app.switch(1);
        app.ask(0, Change::ToggleRaw);
        app.switch(0);
        assert!(!colors(&mut app).concat().contains('m'), "the source has no colours");
        app.enter("/raw");
        assert_eq!(colors(&mut app).concat(), expected.concat(), "{size}, after /raw");
    }
    let rows = expected.expect("it was drawn").concat();
    for part in ["f5 n5 ", "m4 a4 i4 n4 ", "c8 o8 m8 m8 e8 n8 t8 ", "1", "d5 e5 f5 ", "\"2 x2 \"2 "] {
        assert!(rows.contains(part), "{part} in {rows}");
    }
    assert!(!rows.contains("p4 l4 a4 i4 n4"), "without a language that is known there are no colours: {rows}");
}

#[test]
fn colours_stay_when_the_screen_is_narrower() {
    let peer = Peer::start();
    let mut app = app(&peer);
    receive(&mut app, &peer, 7);
    let letters = |rows: Vec<String>| {
        let mut letters: Vec<String> =
            rows.concat().split(' ').map(str::to_owned).filter(|cell| !cell.is_empty()).collect();
        letters.sort();
        letters
    };
    let expected = letters(colors(&mut app));
    for columns in [59, 40, 30] {
        app.resize((columns, SIZE.1));
        assert_eq!(letters(colors(&mut app)), expected, "{columns}");
    }
}

#[test]
fn without_colours_and_without_languages_nothing_is_computed() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let exchange = begin(&mut app, &peer);
    exchange.text("```\nfn a() {}\n```\n\n    fn b() {}\n\n```text\nfn c() {}\n```\n").finish("stop").done();
    app.turn_until_idle();
    app.turn();
    assert!(!app.repl.is_coloring());
    let display = polylogue::config::DisplaySettings::default();
    let mut app = Harness::new(Plan { size: None, display, ..Plan::peer(&peer.url()) });
    app.say(0, "go");
    let exchange = app.accept(&peer);
    exchange.stream().text("```rust\nfn a() {}\n```\n").finish("stop").done();
    app.turn_until_idle();
    app.turn();
    assert!(!app.repl.is_coloring(), "nobody looks");
}

#[test]
fn lines_over_2_kb_and_those_after_the_first_2000_have_no_colours() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let exchange = begin(&mut app, &peer);
    let long = "let a = \"b\"; ".repeat(20_000);
    let lines: String = (0..3_000).map(|n| format!("let a{n} = {n};\n")).collect();
    let first = "let a = 1;\n".repeat(10);
    exchange.text(&format!("```rust\n{first}{long}\n{lines}let last = 1;\n```\n")).finish("stop").done();
    app.turn_until_idle();
    let rows = colors(&mut app).concat();
    assert_eq!(rows, "", "the end of 3,000 lines");
    app.type_bytes(b"\x1b[1;5H");
    let rows = colors(&mut app);
    let is_colored = |row: &&String| row.contains("l5 e5 t5");
    assert_eq!(rows.iter().filter(is_colored).count(), 10, "only those before the long line: {rows:?}");
}

#[test]
fn the_code_in_a_change_has_colours_in_its_question_and_in_the_conversation() {
    let device = || crate::frames::terminal(true);
    let mut app = Harness::new(Plan { real_time: true, size: Some(SIZE), device, ..Plan::default() });
    std::fs::write(app.directory().join("m.rs"), "fn one() {}\nfn two() {}\n").expect("a file");
    app.say(0, r#"%tool read_file {"file_path": "m.rs"}"#);
    app.turn_until_idle();
    app.say(0, r#"%tool edit_file {"file_path": "m.rs", "old_string": "one", "new_string": "three"}"#);
    app.turn_until("a question", |app| app.agent(0).question().is_some());
    let has_keywords = |app: &mut Harness| {
        app.turn_until_colored();
        let screen = app.screen();
        let color = |(y, x)| screen.cell(y, x).filter(|cell| cell.fgcolor() != vt100::Color::Default);
        let is_keyword = |at: (u16, u16)| {
            let letters = [at, (at.0, at.1 + 1)].map(|at| color(at).map_or("", vt100::Cell::contents));
            letters == ["f", "n"]
        };
        let found = (0..SIZE.1).filter(|y| (0..SIZE.0).any(|x| is_keyword((*y, x)))).count();
        assert_eq!(found, 3, "{}", screen.contents());
    };
    has_keywords(&mut app);
    app.press_at_question(b"y");
    app.turn_until_idle();
    has_keywords(&mut app);
    let mut app = app.crash_and_restart();
    has_keywords(&mut app);
}
