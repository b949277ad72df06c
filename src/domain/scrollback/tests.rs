//! The visible part of a conversation while it grows, scrolls, is wrapped again and forgets.

use super::writer::LINE_BYTES;
use super::*;
use crate::domain::frame::StyledLine;

const W: u16 = 10;
const ALL: Reader = Reader::Shared;

fn shown(scrollback: &mut Scrollback, height: u16) -> Vec<String> {
    scrollback.update();
    scrollback.visible(ALL, W, height).into_iter().map(|row| row.text).collect()
}

fn older(blocks: &[(LineKind, &str)]) -> Scrollback {
    let mut older = Scrollback::default();
    blocks.iter().for_each(|(kind, text)| older.push(*kind, text));
    older
}

fn numbered(count: usize) -> Scrollback {
    let mut scrollback = Scrollback::default();
    let text: String = (0..count).map(|number| format!("line {number}\n")).collect();
    scrollback.push(LineKind::Person, &text);
    scrollback
}

#[test]
fn blocks_are_split_at_newlines_with_one_blank_row_between_kinds() {
    let mut s = Scrollback::default();
    s.push(LineKind::Person, "hi\n");
    s.push(LineKind::Assistant, "\n\nhello\n\nthere\r\n\r\n");
    s.push(LineKind::Assistant, "");
    s.push(LineKind::ToolCall, "ls");
    s.push(LineKind::ToolOutput, "a\tb\u{1b}");
    assert_eq!(shown(&mut s, 20), ["hi", "", "hello", "", "there", "", "ls", "a   b␛"]);
    assert_eq!(s.lines.len(), 6);
    let rows = s.visible(ALL, W, 20);
    let marks: Vec<_> = rows.iter().map(|r| (r.is_first_of_block, r.is_first_of_line, r.is_gap)).collect();
    assert_eq!(marks[..4], [(true, true, false), (false, false, true), (true, true, false), (false, true, false)]);
}

#[test]
fn a_stream_in_any_pieces_is_the_same_as_the_whole() {
    let text = "one\ttwo\r\nthree 語語語語語 four\n\n\tfive\u{1b}[0m\n";
    let mut whole = Scrollback::default();
    whole.push(LineKind::Assistant, text);
    let mut pieces = Scrollback::default();
    for c in text.chars() {
        pieces.extend(LineKind::Assistant, c.encode_utf8(&mut [0; 4]));
    }
    pieces.close();
    assert_eq!(whole.visible(ALL, W, 50), pieces.visible(ALL, W, 50));
    assert_eq!(whole.lines.len(), 4);
}

#[test]
fn a_kind_that_changes_or_a_closed_block_begins_another() {
    let mut s = Scrollback::default();
    s.extend(LineKind::Thinking, "hm");
    s.extend(LineKind::Assistant, "so");
    s.extend(LineKind::Assistant, "me");
    s.close();
    s.extend(LineKind::Assistant, "more");
    assert_eq!(shown(&mut s, 9), ["thought", "", "some", "more"]);
    s.toggle_folds();
    assert_eq!(shown(&mut s, 9), ["thought", "hm", "", "some", "more"]);
}

#[test]
fn new_text_moves_the_view_only_at_the_bottom() {
    let mut s = numbered(100);
    s.extend(LineKind::Note, "x");
    assert_eq!(shown(&mut s, 3), ["line 99", "", "x"]);
    s.scroll(ALL, -5, W, 3);
    let before = shown(&mut s, 3);
    assert_eq!(before, ["line 94", "line 95", "line 96"]);
    s.extend(LineKind::Note, &"word ".repeat(100));
    s.push(LineKind::Error, "no");
    assert_eq!(shown(&mut s, 3), before);
    assert!(!s.shows_end(ALL, W, 3));
    s.to_bottom(ALL);
    assert_eq!(shown(&mut s, 1), ["no"]);
}

#[test]
fn older_text_in_front_moves_nothing_on_the_screen() {
    let mut s = numbered(10);
    s.to_top(ALL);
    let before = shown(&mut s, 4);
    assert!(s.is_at_top(ALL, W, 4));
    s.prepend(older(&[(LineKind::Person, "a\nb"), (LineKind::Note, "c")]));
    assert_eq!(shown(&mut s, 4), before);
    assert!(!s.is_at_top(ALL, W, 4));
    s.scroll(ALL, -3, W, 4);
    assert_eq!(shown(&mut s, 4), ["", "c", "", "line 0"]);
    s.scroll(ALL, -9, W, 4);
    assert_eq!(shown(&mut s, 4), ["a", "b", "", "c"]);
    assert!(s.is_at_top(ALL, W, 4));
    assert_eq!(s.lines.len(), 13);
}

#[test]
fn scrolling_stops_at_both_ends_and_the_end_follows_again() {
    let mut s = numbered(10);
    s.scroll(ALL, -1_000, W, 4);
    assert_eq!(shown(&mut s, 4)[0], "line 0");
    s.scroll(ALL, 5, W, 4);
    assert!(!s.shows_end(ALL, W, 4));
    s.scroll(ALL, 1, W, 4);
    assert!(s.shows_end(ALL, W, 4));
    s.scroll(ALL, 1_000, W, 4);
    assert_eq!(shown(&mut s, 4)[3], "line 9");
    s.scroll(ALL, -1_000, W, 40);
    assert!(s.shows_end(ALL, W, 40) && s.is_at_top(ALL, W, 40), "what fits is at both ends");
}

#[test]
fn a_reader_on_two_screens_keeps_the_position_of_the_smaller_one() {
    let mut s = numbered(100);
    s.scroll(ALL, -10, W, 4);
    let position = shown(&mut s, 4);
    assert_eq!(position[0], "line 86");
    assert_eq!(s.visible(ALL, 7, 50).last().map(|row| row.text.clone()), Some("line 99".into()));
    s.follow_if_at_end(ALL, &[(W, 4), (7, 50)]);
    assert_eq!(shown(&mut s, 4), position);
    assert!(s.shows_end(ALL, 7, 50) && !s.shows_end(ALL, W, 4));
    // Up from the end that the larger one shows, not from a position below it.
    s.scroll(ALL, -1, W, 50);
    assert_eq!(shown(&mut s, 4)[0], "line 49");
    s.scroll(ALL, 1, W, 50);
    s.follow_if_at_end(ALL, &[(W, 4), (7, 50)]);
    s.push(LineKind::Assistant, "more");
    assert_eq!(shown(&mut s, 1), ["more"]);
}

#[test]
fn each_reader_has_a_position_that_stays_on_its_text() {
    let mut s = numbered(50);
    let watcher = Reader::Watcher(7);
    s.extend(LineKind::Assistant, &"written\n".repeat(30));
    s.scroll(watcher, -10, W, 4);
    s.scroll(ALL, -60, W, 4);
    let texts =
        |s: &mut Scrollback, reader| s.visible(reader, W, 4).into_iter().map(|row| row.text).collect::<Vec<_>>();
    let positions = [watcher, ALL].map(|reader| texts(&mut s, reader));
    s.insert(LineKind::Note, "above what is written");
    s.prepend(older(&[(LineKind::Note, "older")]));
    s.extend(LineKind::Assistant, "and below");
    assert_eq!([watcher, ALL].map(|reader| texts(&mut s, reader)), positions);
    s.to_bottom(watcher);
    assert!(s.shows_end(watcher, W, 4) && !s.shows_end(ALL, W, 4));
}

#[test]
fn every_row_is_met_once_scrolling_by_one_at_every_width() {
    let mut s = Scrollback::default();
    for number in 0..20 {
        s.push(LineKind::Person, &format!("question {number} with several words 語語語語"));
        s.push(LineKind::Assistant, "an answer\n\nof some length, yes");
    }
    for width in [1, 2, 5, 13, 80] {
        let height = 4;
        let all: Vec<_> = s.visible(ALL, width, u16::MAX);
        let mut met = Vec::new();
        s.to_top(ALL);
        while {
            met.push(s.visible(ALL, width, height)[0].clone());
            !s.shows_end(ALL, width, height)
        } {
            s.scroll(ALL, 1, width, height);
        }
        met.extend(s.visible(ALL, width, height).into_iter().skip(1));
        assert_eq!(met, all, "at {width}");
    }
}

#[test]
fn a_resize_keeps_what_is_read_in_the_first_row() {
    let mut s = Scrollback::default();
    let text: String = (0..200).map(|number| format!("w{number} ")).collect();
    s.push(LineKind::Assistant, &text);
    s.push(LineKind::Note, &"end\n".repeat(50));
    s.to_top(ALL);
    s.scroll(ALL, 20, 20, 5);
    let first = s.visible(ALL, 20, 5)[0].text.split(' ').next().map(str::to_owned).unwrap_or_default();
    for width in [7, 33, 80, 20] {
        assert!(s.visible(ALL, width, 5)[0].text.contains(&first), "at {width}");
    }
    assert!(s.visible(ALL, 20, 5)[0].text.starts_with(&first));
}

#[test]
fn a_line_of_megabytes_becomes_lines_of_bounded_size_and_loses_nothing() {
    for unit in ["0123456789", "word and ", "語", "e\u{301}", "\u{301}", "\t"] {
        let text = unit.repeat(300_000 / unit.len());
        let mut s = Scrollback::default();
        s.push(LineKind::ToolOutput, &text);
        assert!(s.lines.iter().all(|(_, line)| line.text.len() <= LINE_BYTES));
        let held: String = s.lines.iter().map(|(_, line)| line.text).collect();
        assert!(held == text::expand_tabs(&text), "{unit:?}");
        assert_eq!(s.lines.iter().filter(|(_, line)| line.start != Start::Rest).count(), 1);
    }
}

#[test]
fn memory_is_close_to_the_text() {
    let mut s = Scrollback::default();
    for number in 0..10_000 {
        s.extend(LineKind::Assistant, &format!("some line with a number {number}\n"));
    }
    s.close();
    let text: usize = s.lines.iter().map(|(_, line)| line.text.len()).sum();
    assert!(s.lines.capacity() <= text + 10_000 * 9, "{} for {text}", s.lines.capacity());
}

#[test]
fn a_million_lines_are_looked_at_like_ten() {
    let mut s = numbered(1_000_000);
    for _ in 0..1_000 {
        s.scroll(ALL, -30, 80, 50);
        assert_eq!(s.visible(ALL, 80, 50).len(), 50);
    }
    s.to_top(ALL);
    assert_eq!(s.visible(ALL, 80, 50)[0].text, "line 0");
}

#[test]
fn nothing_at_all_can_be_looked_at_and_scrolled() {
    let mut s = Scrollback::default();
    s.to_top(ALL);
    s.scroll(ALL, -5, 0, 0);
    assert!(s.visible(ALL, 0, 0).is_empty() && s.visible(ALL, 80, 24).is_empty());
    assert!(s.shows_end(ALL, W, 4) && s.is_at_top(ALL, 80, 24) && s.lines.is_empty());
    s.push(LineKind::Note, "a b");
    assert_eq!(s.visible(ALL, 0, 3).len(), 2);
}

#[test]
fn a_line_that_grows_while_it_is_looked_at_wraps_as_one_that_came_whole() {
    let letters = [" ", "a", "bc", "語", "👨", "\u{200d}", "👩", "\u{301}", "  ", "d", "\n"];
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..60 {
        let mut grown = Scrollback::default();
        let mut text = String::new();
        for _ in 0..80 {
            let letter = letters[rng.usize(..letters.len())];
            text.push_str(letter);
            grown.extend(LineKind::Person, letter);
            if rng.u32(..16) == 0 {
                grown.insert(LineKind::Note, "note");
                continue;
            }
            let mut whole = Scrollback::default();
            whole.extend(LineKind::Person, &text);
            for width in [3, 17, 40, 5] {
                // Notes above it have taken numbers of lines.
                let last = |s: &mut Scrollback| s.visible(ALL, width, 3).pop();
                assert_eq!(last(&mut grown), last(&mut whole), "{text:?} at {width}");
            }
            let rows = shown(&mut grown, 12);
            let expected = shown(&mut whole, 12);
            let same = rows.len().min(expected.len());
            assert_eq!(rows[rows.len() - same..], expected[expected.len() - same..], "{text:?}");
        }
    }
}

fn outcome(lines: usize, shown: u32) -> Outcome {
    let output = (0..lines).map(|n| StyledLine::of(format!("out {n}"), Style::default())).collect();
    Outcome { note: "ok".into(), output, shown: Shown::First(shown), ..Outcome::default() }
}

#[test]
fn results_stand_below_their_calls_in_whatever_order_they_come_and_are_folded() {
    let mut s = Scrollback::default();
    s.push(LineKind::Person, "go");
    s.begin_call("a", "one");
    s.begin_call("b", "two");
    s.extend(LineKind::Assistant, "so far");
    s.end_call("b", "", &outcome(3, 0));
    s.end_call("a", "", &outcome(9, 2));
    s.end_call("c", "lost", &outcome(0, 0));
    s.extend(LineKind::Assistant, "and on");
    let texts = |s: &mut Scrollback| {
        s.update();
        s.visible(ALL, 30, 50).into_iter().map(|row| row.text).collect::<Vec<String>>()
    };
    let folded = texts(&mut s);
    let one = "one           ok, Ctrl+O opens";
    let (two, lost) = ("two                         ok", "lost                        ok");
    assert_eq!(folded, ["go", "", one, "out 0", "out 1", two, "", "so far", "", lost, "", "and on"]);
    s.toggle_folds();
    let open = texts(&mut s);
    assert_eq!((open.len(), open[12].as_str(), open[13].as_str()), (22, two, "out 0"));
    s.toggle_folds();
    assert_eq!(texts(&mut s), folded);
}

#[test]
fn what_is_read_stays_in_the_first_row_when_folds_open_and_close() {
    let mut s = numbered(20);
    for call in 0..10 {
        s.begin_call("a", &format!("call {call}"));
        s.end_call("a", "", &outcome(30, 0));
    }
    s.push(LineKind::Person, &"end\n".repeat(8));
    let first = |s: &Scrollback| s.visible(ALL, 30, 5)[0].text.trim_end_matches(" ok").trim_end().to_owned();
    s.scroll(ALL, -9, 30, 5);
    assert_eq!(first(&s), "call 5");
    s.toggle_folds();
    assert_eq!(first(&s), "call 5");
    s.scroll(ALL, 12, 30, 5);
    assert_eq!(first(&s), "out 11");
    s.toggle_folds();
    assert_eq!(first(&s), "call 5");
    s.prepend(older(&[(LineKind::Note, "older")]));
    assert_eq!(first(&s), "call 5");
    s.scroll(ALL, -100, 30, 5);
    assert_eq!(first(&s), "older");
    for rows in 0..20 {
        s.to_top(ALL);
        s.scroll(ALL, rows, 30, 5);
        assert!(!first(&s).starts_with("out"));
    }
}

#[test]
fn a_million_folded_lines_cost_a_frame_nothing() {
    let mut s = Scrollback::default();
    for call in 0..1_000 {
        s.begin_call("a", &format!("call {call}"));
        s.end_call("a", "", &outcome(1_000, 0));
    }
    for _ in 0..1_000 {
        s.scroll(ALL, -1, 30, 50);
        assert_eq!(s.visible(ALL, 30, 50).len(), 50);
    }
    s.to_top(ALL);
    assert!(s.visible(ALL, 30, 1)[0].text.starts_with("call 0"));
}

#[test]
fn an_indented_row_is_no_wider_than_a_screen_of_a_few_columns() {
    let mut s = Scrollback::default();
    s.extend(LineKind::Assistant, "- 🇩🇪🇩🇪🇩🇪\n  - 漢字\n\n> 漢字\n");
    for width in 2..12 {
        for row in s.visible(ALL, width, 50) {
            assert!(text::width(&row.text) <= usize::from(width), "{:?} at {width}", row.text);
        }
    }
}
