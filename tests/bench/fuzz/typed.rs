//! What comes from the keyboard and goes to the screen.

use std::time::Duration;

use polylogue::config::{EnvironmentEntry, EnvironmentNames, EnvironmentSpec};
use polylogue::{Change, Clock, Config, Fork, Repl, Store};
use unicode_segmentation::UnicodeSegmentation as _;

use super::Step;
use crate::chance::Chance;
use crate::support::internals::commands::CommandContext;
use crate::support::internals::{
    Branches, Color, Draft, Frame, Key, KeyDecoder, Moment, Palette, Probe, Row, Screen, Style, commands, text, tools,
};
use crate::support::random::Random;
use crate::support::typist::Typist;

/// Known keys with a few bytes changed, and anything at all: the keys are the same however the bytes are cut, the
/// decoder comes to rest when its patience is over, and a key still works afterwards.
pub fn keys() -> Step {
    const KNOWN: &[&[u8]] = &[
        b"\x1b[A",
        b"\x1b[1;5C",
        b"\x1bOP",
        b"\x1b[5~",
        b"\x1b[200~some\r\ntext\x1b[201~",
        b"\x1b[<64;10;20M",
        b"\x1b[M !!",
        b"\x1b]11;rgb:0/0/0\x1b\\",
        b"\x1b[?1;2c",
        b"\x1b[97;5u",
        b"\x1b\x1b[A",
        b"\xf0\x9f\x98\x80",
        b"e\xcc\x81",
        b"\x03",
        b"a",
    ];
    Box::new(|chance| {
        let mut bytes = Vec::new();
        for _ in 0..chance.below(12) {
            let known = chance.of(KNOWN);
            bytes.extend(match chance.below(3) {
                0 => chance.mutated(known),
                1 => chance.bytes(20),
                _ => known.to_vec(),
            });
        }
        let pieces = chance.cuts(&bytes);
        assert_eq!(decoded(&[&bytes]), decoded(&pieces), "{bytes:?}");
    })
}

fn decoded(pieces: &[&[u8]]) -> Vec<Key> {
    let mut keys = KeyDecoder::new();
    let mut now = Moment::default();
    pieces.iter().for_each(|piece| keys.feed(piece, now));
    let mut all: Vec<Key> = std::iter::from_fn(|| keys.next()).collect();
    while let Some(deadline) = keys.deadline() {
        now = deadline.max(now + Duration::from_millis(1));
        keys.expire(now);
        assert!(keys.deadline().is_none_or(|next| next > now), "patience ends");
    }
    all.extend(std::iter::from_fn(|| keys.next()));
    // Whatever came before (a paste without an end, half a character), the end of a paste ends it.
    keys.feed(b"\x1b[201~z", now);
    assert!(std::iter::from_fn(|| keys.next()).last().is_some(), "a key still works");
    all
}

/// Edits at random: the cursor is between characters inside the text, the layout fits, undo comes to an end. A text
/// with characters that are shown as others is not measured: what they are shown as may join its neighbours, and the
/// row may be a column too wide before the frame cuts it.
pub fn draft() -> Step {
    const EDITS: &[fn(&mut Draft) -> bool] = &[
        Draft::backspace,
        Draft::delete,
        Draft::left,
        Draft::right,
        Draft::word_left,
        Draft::word_right,
        Draft::home,
        Draft::end,
        Draft::up,
        Draft::down,
        Draft::kill_to_end,
        Draft::kill_to_start,
        Draft::kill_word_back,
        Draft::kill_word_left,
        Draft::kill_word_forward,
        Draft::yank,
        Draft::undo,
    ];
    Box::new(|chance| {
        let mut draft = Draft::default();
        for _ in 0..chance.below(60) {
            match chance.below(12) {
                0..=3 => draft.insert(&chance.text(6)),
                4 => draft.paste(&chance.text(30).repeat(1 + chance.below(80))),
                5 if chance.once_in(6) => draft.set(&chance.text(20)),
                6 if chance.once_in(10) => drop(draft.take()),
                _ => drop(chance.of(EDITS)(&mut draft)),
            }
            assert!(draft.text().is_char_boundary(draft.cursor()), "{:?} at {}", draft.text(), draft.cursor());
            let columns = 1 + chance.below(40) as u16;
            let layout = draft.layout(columns);
            let seen = |row: &str| row.graphemes(true).filter(|grapheme| text::width(grapheme) > 0).count();
            let fits = |row: &String| text::width(row) <= columns.into() || seen(row) == 1;
            let is_shown_as_it_is = text::sanitise(draft.text()) == draft.text();
            assert!(
                !is_shown_as_it_is || layout.rows.iter().all(fits),
                "{:?} at {columns}: {:?}",
                draft.text(),
                layout.rows
            );
            assert!(layout.cursor.1 < layout.rows.len(), "the cursor is in a row");
        }
        assert!((0..10_000).any(|_| !draft.undo()), "undo ends");
    })
}

/// Specifications of environments, made of their pieces in any order, and environments of a person's own that name each
/// other: what is accepted prints itself, no tool is there twice, and nothing goes round in circles.
pub fn environments() -> Step {
    const PIECES: &[&str] = &[
        "+", "@", "none", "chat", "readonly", "coding", "worktree", "bash", "grep", "mine", "ours", " ", "/a", "~",
        "..", "ä",
    ];
    Box::new(|chance| {
        let tools: Vec<&str> = tools::all().map(|tool| tool.declaration.name).collect();
        let mut entry = |name: &str| {
            let parts = (0..chance.below(4)).map(|_| chance.of(&PIECES[2..11]).to_owned()).collect();
            EnvironmentEntry { name: name.into(), tools: parts, ..EnvironmentEntry::default() }
        };
        let entries = [entry("mine"), entry("ours")];
        let names = EnvironmentNames { entries: &entries, tools: &tools };
        let text: String = (0..chance.below(8)).map(|_| chance.of(PIECES)).collect();
        let text = if chance.once_in(3) { chance.text(12) } else { text };
        let Ok(spec) = text.parse::<EnvironmentSpec>() else { return };
        assert_eq!(spec.to_string(), text);
        assert_eq!(spec.to_string().parse::<EnvironmentSpec>().as_ref(), Ok(&spec));
        if let Ok(mut meaning) = names.resolve(&spec) {
            let count = meaning.tools.len();
            meaning.tools.sort();
            meaning.tools.dedup();
            assert_eq!(meaning.tools.len(), count, "{text}: {entries:?}");
        }
        names.list();
    })
}

const LINES: &[&str] = &[
    "/fork",
    "/fork --name scout look around",
    "/fork --name=a",
    "/env readonly+bash@..",
    "/switch 1",
    "/switch",
    "/s scout",
    "/agents",
    "/help",
    "/help fork",
    "/exit",
    "/interrupt",
    "/slice count",
    "/slice summarize:0:50%:'why',-1:",
    "//not",
    "/",
    "/ ",
    "/f",
    "text",
];

/// Keys at random at a whole program: draft and screen are those of a plain model. A step is about fifteen keys.
pub fn input() -> Step {
    let mut typist = Typist::default();
    Box::new(move |chance| {
        typist.burst(&mut Random(chance.next() | 1));
    })
}

/// Lines at random and mutated commands, read and completed with a few agents.
pub fn commands() -> Step {
    let config = Config { supervisor: env!("CARGO_BIN_EXE_polylogue").into(), ..Config::default() };
    let store = Store::in_memory().expect("a store");
    let known = config.clone();
    let mut repl = Repl::open(config, store, Clock::manual()).expect("an open program");
    let current = repl.roster().nth(0).expect("agent 0");
    for name in ["scout", "Ünal", "x-1"] {
        repl.apply(current, Change::Fork(Fork { name: Some(name.into()), ..Fork::default() })).expect("a child");
    }
    Box::new(move |chance| {
        let line = match chance.below(3) {
            0 => chance.text(20),
            1 => format!("/{}", chance.text(10)),
            _ => {
                let line = chance.of(LINES);
                String::from_utf8_lossy(&chance.mutated(line.as_bytes())).into_owned()
            }
        };
        let app = CommandContext {
            roster: repl.roster(),
            store: repl.store(),
            config: &known,
            current,
            branches: &Branches::default(),
            unix_ms: 0,
            terminal_infos: Vec::new(),
            clients: None,
            activity: Box::new(|_| String::new()),
        };
        drop(commands::read(&line, &app));
        for ending in commands::complete(&line, &app) {
            assert!(ending.line.starts_with('/'), "{line:?} is completed to {ending:?}");
        }
    })
}

/// Frames at random, drawn one after the other: a terminal that saw all of them shows what one shows that saw only the
/// last, and nothing is ever drawn but what the emulation knows.
pub fn screen() -> Step {
    Box::new(|chance| {
        let (width, height) = (1 + chance.below(40) as u16, 1 + chance.below(12) as u16);
        let palette = Palette { color: true, attributes: true, unicode: true, links: false };
        let mut screen = Screen::new(palette);
        let mut terminal = vt100::Parser::new(height, width, 0);
        let mut frame = Frame { width, rows: vec![Row::default(); height.into()], cursor: None, scrolling_rows: 0 };
        for _ in 0..=chance.below(8) {
            change(chance, &mut frame);
            let mut drawn = Vec::new();
            screen.draw(&frame, &mut drawn);
            terminal.process(&drawn);
        }
        let mut drawn = Vec::new();
        screen.draw(&frame, &mut drawn);
        assert_eq!(drawn, b"", "a frame that is shown is not drawn again");
        let mut whole = Vec::new();
        Screen::new(palette).draw(&frame, &mut whole);
        let mut fresh = vt100::Parser::new(height, width, 0);
        fresh.process(&whole);
        assert_eq!(shown(&terminal), shown(&fresh), "{frame:?}");
    })
}

fn shown(terminal: &vt100::Parser) -> Vec<String> {
    let width = terminal.screen().size().1;
    terminal.screen().rows(0, width).collect()
}

fn change(chance: &mut Chance, frame: &mut Frame) {
    let height = frame.rows.len();
    frame.scrolling_rows = chance.below(height + 1) as u16;
    let scrolling = usize::from(frame.scrolling_rows);
    if scrolling > 1 && chance.once_in(2) {
        frame.rows[..scrolling].rotate_left(1 + chance.below(scrolling - 1));
    }
    for _ in 0..chance.below(height + 1) {
        let y = chance.below(height);
        frame.rows[y] = row(chance, frame.width);
    }
    let position = (chance.below(usize::from(frame.width)) as u16, chance.below(height) as u16);
    frame.cursor = (!chance.once_in(4)).then_some(position);
}

/// A row of characters on whose width terminals agree.
fn row(chance: &mut Chance, width: u16) -> Row {
    const SYMBOLS: &[&str] = &["a", "b", " ", "  ", "語", "한", "é", "e\u{301}", "│", "word"];
    let mut row = Row::default();
    let mut left = chance.below(usize::from(width) + 1);
    while left > 0 {
        let symbol = chance.of(SYMBOLS);
        if text::width(symbol) > left {
            return row;
        }
        left -= text::width(symbol);
        let color = chance.of(&[Color::Default, Color::Error, Color::Tool]);
        row.push(symbol, Style { bold: chance.once_in(3), reverse: chance.once_in(5), ..Style::color(color) });
    }
    row
}
