//! Keys from bytes, however they are cut.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::base::clock::Clock;
use crate::domain::key::{KeyCode, Modifiers};
use crate::domain::keymap::{Chord, DEFAULT_LEADER, KEY_ACTIONS, KeyMap};

const TABLE: &str = include_str!("../../../fixtures/keys/table");

/// The complete keys.
fn drain(keys: &mut KeyDecoder) -> Vec<Key> {
    std::iter::from_fn(|| keys.next()).collect()
}

/// The keys of these pieces, which come at once, and of the end after its deadline.
fn decode(pieces: &[&[u8]]) -> Vec<Key> {
    let clock = Clock::manual();
    let mut keys = KeyDecoder::new();
    for piece in pieces {
        keys.feed(piece, clock.now());
        keys.expire(clock.now());
    }
    clock.advance(SEQUENCE_TIMEOUT);
    keys.expire(clock.now());
    assert_eq!(keys.deadline(), None);
    drain(&mut keys)
}

/// A key in the notation of the table.
fn name(key: &Key) -> String {
    match key {
        Key::Paste(text) => format!("Paste({})", text.escape_default()),
        Key::Wheel(notches) => format!("Wheel-{}", if *notches < 0 { "up" } else { "down" }),
        Key::Mouse(action, column, row) => format!("{action:?}-{column}-{row}"),
        Key::Background(rgb) => format!("Background-{rgb:?}"),
        Key::ShowsStatus => "ShowsStatus".to_owned(),
        Key::Focus(has) => format!("Focus-{}", if *has { "in" } else { "out" }),
        Key::Press(code, Modifiers { ctrl, alt, shift }) => {
            let held = [(ctrl, "C-"), (alt, "A-"), (shift, "S-")];
            let code = match code {
                KeyCode::Char(' ') => "Space".to_owned(),
                KeyCode::Char(c) => c.to_string(),
                KeyCode::Function(number) => format!("F{number}"),
                other => format!("{other:?}"),
            };
            held.iter().filter(|(held, _)| **held).map(|(_, mark)| *mark).collect::<String>() + &code
        }
    }
}

/// The bytes of a table line.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (byte, used) = match rest.as_bytes() {
            [b'\\', b'x', ..] => (u8::from_str_radix(&rest[2..4], 16).expect("two hexadecimal digits"), 4),
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', b'\\', ..] => (b'\\', 2),
            _ => (u8::try_from(c).expect("ASCII"), 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    bytes
}

#[test]
fn the_table_holds_for_bytes_cut_anywhere() {
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (bytes, expected) = line.split_once('|').expect("bytes | keys");
        let (bytes, expected) = (unescape(bytes.trim()), expected.trim());
        let names = |keys: Vec<Key>| keys.iter().map(name).collect::<Vec<_>>().join(" ");
        assert_eq!(names(decode(&[&bytes])), expected, "{line}");
        for cut in 1..bytes.len() {
            assert_eq!(names(decode(&[&bytes[..cut], &bytes[cut..]])), expected, "{line} cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(names(decode(&single)), expected, "{line} byte by byte");
    }
}

#[test]
fn a_lone_escape_is_a_key_after_its_deadline_and_not_before() {
    let clock = Clock::manual();
    let mut keys = KeyDecoder::new();
    keys.feed(b"\x1b", clock.now());
    assert_eq!(keys.deadline(), Some(clock.now() + ESCAPE_TIMEOUT));
    clock.advance(ESCAPE_TIMEOUT - Duration::from_millis(1));
    keys.expire(clock.now());
    assert_eq!(keys.next(), None);
    clock.advance(Duration::from_millis(1));
    keys.expire(clock.now());
    assert_eq!(keys.next(), Some(Key::Press(KeyCode::Escape, Modifiers::default())));
    keys.feed(b"b", clock.now());
    assert_eq!(keys.next(), Some(Key::Press(KeyCode::Char('b'), Modifiers::default())));
    assert_eq!(keys.deadline(), None);
}

#[test]
fn an_unfinished_paste_or_character_has_no_deadline() {
    for bytes in [&b"\x1b[200~abc"[..], b"\x1b[200~abc\x1b[20", b"\xe8\xaa"] {
        let mut keys = KeyDecoder::new();
        keys.feed(bytes, Moment::default());
        assert_eq!(keys.deadline(), None);
    }
}

#[test]
fn a_paste_of_ten_megabytes_is_complete() {
    let text = "0123456789abcde\n".repeat(640 * 1024);
    let mut keys = KeyDecoder::new();
    keys.feed(b"\x1b[200~", Moment::default());
    for chunk in text.as_bytes().chunks(65_536) {
        keys.feed(chunk, Moment::default());
    }
    keys.feed(b"\x1b[201~!", Moment::default());
    assert!(keys.next() == Some(Key::Paste(text)));
    assert_eq!(drain(&mut keys).len(), 1);
}

#[test]
fn a_paste_without_an_end_is_delivered_in_bounded_pieces_and_never_as_keys() {
    let mut keys = KeyDecoder { paste_limit: 10, ..KeyDecoder::new() };
    keys.feed(b"\x1b[200~0123456789abcdefghijABC", Moment::default());
    assert_eq!(drain(&mut keys), [Key::Paste("0123456789".into()), Key::Paste("abcdefghij".into())]);
    keys.feed(b"DEF\x1b[201~", Moment::default());
    assert_eq!(drain(&mut keys), [Key::Paste("ABCDEF".into())]);
}

#[test]
fn a_character_after_random_bytes_is_decoded() {
    let alphabet = b"\x1b\x1b\x1b[[]OPM<?>;:0123456789~uABmHz\x07\\\xc3\xa9\xe8\xff\r\n\0 ";
    let mut seed = 1_u32;
    for _ in 0..50_000 {
        let length = 1 + (seed >> 8) as usize % 24;
        let mut byte = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            alphabet[(seed >> 16) as usize % alphabet.len()]
        };
        let bytes: Vec<u8> = (0..length).map(|_| byte()).collect();
        let clock = Clock::manual();
        let mut keys = KeyDecoder::new();
        keys.feed(&bytes, clock.now());
        clock.advance(SEQUENCE_TIMEOUT);
        keys.expire(clock.now());
        drain(&mut keys);
        if keys.state == State::Ground {
            keys.feed(b"k", clock.now());
            assert_eq!(drain(&mut keys), [Key::Press(KeyCode::Char('k'), Modifiers::default())], "{bytes:x?}");
        }
    }
}

#[test]
fn ctrl_c_after_a_pause_ends_a_paste_without_end_mark() {
    let mut keys = KeyDecoder::new();
    let start = Moment::default();
    keys.feed(b"\x1b[200~hi\n", start);
    keys.feed(b"\x03", start + Duration::from_millis(900));
    assert_eq!(keys.next(), None, "it may be a byte of the paste");
    keys.feed(b"\x03", start + Duration::from_secs(2));
    assert_eq!(keys.next(), Some(Key::Paste("hi\n\x03".into())));
    assert!(matches!(keys.next(), Some(Key::Press(KeyCode::Char('c'), held)) if held.ctrl));
}

/// The bytes of every key of the default bindings in several terminals, some recorded and some constructed.
const TERMINALS: &str = include_str!("../../../fixtures/keys/terminals");

/// The keys of all default bindings; those of a sequence one by one.
fn bound_keys() -> BTreeSet<String> {
    let keys = KEY_ACTIONS.iter().flat_map(|spec| spec.keys.iter().flat_map(|keys| keys.split(' ')));
    keys.map(|key| if key == "leader" { DEFAULT_LEADER } else { key }.to_owned()).collect()
}

#[test]
fn every_binding_acts_in_every_terminal_whose_bytes_are_known_wherever_they_are_cut() {
    let mut covered: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in TERMINALS.lines().filter(|line| !line.starts_with('#')) {
        let [terminal, _, keys, bytes] = line.splitn(4, '|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (typed, reported) = keys.split_once(" = ").unwrap_or((keys, keys));
        covered.entry(terminal).or_default().insert(typed.to_owned());
        if bytes == "-" {
            continue;
        }
        let (bytes, expected) = (unescape(bytes), reported.parse::<Chord>().expect("a key"));
        let expected = Key::Press(expected.code, expected.modifiers);
        let meanings =
            |key: &Key| [None, DEFAULT_LEADER.parse().ok()].map(|prefix| KeyMap::default().meaning(prefix, key));
        let mut cuts: Vec<Vec<&[u8]>> = (1..bytes.len()).map(|cut| vec![&bytes[..cut], &bytes[cut..]]).collect();
        cuts.extend([vec![&bytes[..]], bytes.chunks(1).collect()]);
        for pieces in cuts {
            let keys = decode(&pieces);
            assert_eq!(keys.len(), 1, "{line}: {keys:?}");
            assert_eq!(meanings(&keys[0]), meanings(&expected), "{line}: {keys:?} from {pieces:?}");
        }
    }
    assert_eq!(covered.len(), 8);
    for (terminal, keys) in covered {
        assert_eq!(keys, bound_keys(), "{terminal}");
    }
}
