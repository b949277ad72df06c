//! Keys edit a draft: by graphemes, words and lines.

use super::*;

fn draft(text: &str) -> Draft {
    let mut draft = Draft::default();
    draft.insert(text);
    draft
}

/// The text with `|` at the cursor.
fn shown(draft: &Draft) -> String {
    format!("{}|{}", &draft.text()[..draft.cursor()], &draft.text()[draft.cursor()..])
}

type Step = fn(&mut Draft) -> bool;

#[test]
fn each_key_edits_by_graphemes_words_and_lines() {
    let cases: &[(&str, &[Step], &str)] = &[
        ("ab", &[Draft::left, Draft::backspace], "|b"),
        ("e\u{301}👨‍👩‍👧", &[Draft::backspace], "e\u{301}|"),
        ("e\u{301}👨‍👩‍👧", &[Draft::left, Draft::left, Draft::delete], "|👨‍👩‍👧"),
        ("one two.three", &[Draft::word_left], "one two.|three"),
        ("one two.three", &[Draft::word_left, Draft::word_left, Draft::word_left], "|one two.three"),
        ("one, two", &[Draft::home, Draft::word_right, Draft::word_right], "one, two|"),
        ("a\nbc", &[Draft::home], "a\n|bc"),
        ("a\nbc", &[Draft::home, Draft::left, Draft::home, Draft::end], "a|\nbc"),
        ("a\nbc", &[Draft::kill_to_start], "a\n|"),
        ("a\nbc", &[Draft::up, Draft::kill_to_end], "a|bc"),
        ("cd src/a.rs", &[Draft::kill_word_back], "cd |"),
        ("cd src/a.rs", &[Draft::kill_word_left], "cd src/a.|"),
        ("cd src/a.rs  ", &[Draft::kill_word_back, Draft::kill_word_back, Draft::yank], "cd src/a.rs  |"),
        ("one two", &[Draft::home, Draft::kill_word_forward], "| two"),
        ("one two", &[Draft::home, Draft::kill_word_forward, Draft::end, Draft::yank], " twoone|"),
    ];
    for (text, steps, expected) in cases {
        let mut draft = draft(text);
        for step in *steps {
            step(&mut draft);
        }
        assert_eq!(&shown(&draft), expected, "{text:?}");
    }
}

#[test]
fn edits_at_the_edges_return_false() {
    let mut draft = draft("x");
    let at_end: [Step; 5] = [Draft::right, Draft::word_right, Draft::down, Draft::delete, Draft::kill_to_end];
    for step in at_end {
        assert!(!step(&mut draft));
    }
    draft.home();
    let at_start: [Step; 6] =
        [Draft::left, Draft::word_left, Draft::up, Draft::backspace, Draft::kill_to_start, Draft::kill_word_back];
    for step in at_start {
        assert!(!step(&mut draft));
    }
    assert_eq!(shown(&draft), "|x");
}

#[test]
fn up_and_down_keep_the_column_through_a_short_line() {
    let mut draft = draft("abcdef\nx\n語語語語");
    draft.left();
    assert!(draft.up() && draft.up());
    assert_eq!(shown(&draft), "abcdef|\nx\n語語語語");
    assert!(draft.down() && draft.down());
    assert_eq!(shown(&draft), "abcdef\nx\n語語語|語");
    assert!(!draft.down());
}

#[test]
fn undo_restores_words_and_runs() {
    let mut draft = Draft::default();
    for letter in "one two".chars() {
        draft.insert(&letter.to_string());
    }
    draft.backspace();
    draft.backspace();
    assert_eq!(draft.text(), "one t");
    for expected in ["one two", "one ", ""] {
        assert!(draft.undo());
        assert_eq!(draft.text(), expected);
    }
    assert!(!draft.undo());
}

#[test]
fn redo_does_again_what_was_undone_until_something_is_edited() {
    let mut draft = draft("one");
    draft.kill_to_start();
    draft.insert("two");
    assert!(draft.undo() && draft.undo());
    assert_eq!(draft.text(), "one");
    assert!(draft.redo() && draft.redo() && !draft.redo());
    assert_eq!(draft.text(), "two");
    assert!(draft.undo());
    draft.insert("x");
    assert!(!draft.redo());
    assert!(draft.undo() && draft.undo());
    assert_eq!(draft.text(), "one");
}

#[test]
fn yank_older_goes_round_the_kill_ring_and_only_right_after_a_yank() {
    let mut draft = Draft::default();
    for killed in ["one", "two", "three"] {
        draft.insert(killed);
        draft.kill_to_start();
    }
    draft.insert("<>");
    draft.left();
    assert!(!draft.yank_older());
    assert!(draft.yank());
    for expected in ["<two|>", "<one|>", "<three|>", "<two|>"] {
        assert!(draft.yank_older());
        assert_eq!(shown(&draft), expected);
    }
    draft.right();
    assert!(!draft.yank_older());
    while draft.undo() {}
    assert_eq!(draft.text(), "");
}

#[test]
fn a_command_that_failed_is_not_stored_until_it_is_edited() {
    let mut draft = Draft::default();
    draft.set_refused("/fork --naem x");
    assert_eq!((draft.text(), draft.to_store()), ("/fork --naem x", String::new()));
    draft.backspace();
    assert_eq!(draft.to_store(), "/fork --naem ");
    draft.set_refused("/x");
    assert_eq!(draft.take(), "/x");
    draft.insert("y");
    assert_eq!(draft.to_store(), "y");
}

#[test]
fn a_small_paste_is_text_and_a_large_one_is_folded() {
    let mut draft = draft("see ");
    draft.paste("two\nlines");
    assert_eq!(draft.text(), "see two\nlines");
    let log = "line\n".repeat(812);
    draft.paste(&log);
    draft.insert("!");
    assert_eq!(draft.layout(80).rows, ["see two", "lines[pasted #1: 812 lines, 4 kB]!"]);
    assert_eq!(draft.take(), format!("see two\nlines{log}!"));
    assert!(draft.is_empty() && draft.expanded().is_empty());
}

#[test]
fn a_fold_is_edited_as_one_character_and_restored_by_undo_and_yank() {
    let mut draft = draft("a");
    let long = "x".repeat(1_001);
    draft.paste(&long);
    draft.insert("\u{301}b");
    draft.backspace();
    draft.backspace();
    assert_eq!(draft.expanded(), format!("a{long}"));
    draft.backspace();
    assert_eq!(draft.expanded(), "a");
    draft.undo();
    assert_eq!(draft.expanded(), format!("a{long}\u{301}b"));
    draft.kill_to_start();
    assert_eq!(draft.take(), "");
    draft.yank();
    draft.yank();
    assert_eq!(draft.take(), format!("a{long}\u{301}b").repeat(2));
}

#[test]
fn ten_megabytes_of_pastes_keep_their_order() {
    let mut whole = String::new();
    let mut draft = Draft::default();
    for part in 0..10 {
        let paste = format!("{part}:{}", "0123456789".repeat(100_000));
        draft.insert("<");
        draft.paste(&paste);
        whole = format!("{whole}<{paste}");
    }
    assert!(draft.layout(40).rows.len() < 20);
    assert!(draft.take() == whole);
}

#[test]
fn typed_private_characters_are_preserved() {
    let mut draft = Draft::default();
    draft.paste(&"secret\n".repeat(11));
    draft.insert("\u{f0000}");
    draft.paste("\u{f0001}ok");
    assert_eq!(draft.take(), "secret\n".repeat(11) + "\u{f0000}\u{f0001}ok");
}

#[test]
fn set_text_can_be_edited_and_undone() {
    let mut draft = draft("half");
    draft.set("from history\nsecond");
    assert_eq!(shown(&draft), "from history\nsecond|");
    draft.set(&"y".repeat(20_000));
    assert_eq!(draft.layout(80).rows.len(), 1);
    assert!(draft.undo() && draft.undo());
    assert_eq!(draft.text(), "half");
}

#[test]
fn the_layout_wraps_and_keeps_the_cursor_on_the_screen() {
    for (text, left, columns, rows, cursor) in [
        ("", 0, 4, vec![""], (0, 0)),
        ("abcd", 0, 4, vec!["abcd", ""], (0, 1)),
        ("abcd", 1, 4, vec!["abcd"], (3, 0)),
        ("ab  e", 0, 4, vec!["ab  ", "e"], (1, 1)),
        ("語語語", 0, 5, vec!["語語", "語"], (2, 1)),
        ("a\tb\u{1b}", 0, 80, vec!["a   b␛"], (6, 0)),
        ("a\n\nb", 1, 4, vec!["a", "", "b"], (0, 2)),
        ("語", 0, 0, vec!["語", ""], (0, 1)),
    ] {
        let mut draft = draft(text);
        for _ in 0..left {
            draft.left();
        }
        let rows = rows.into_iter().map(str::to_owned).collect();
        assert_eq!(draft.layout(columns), DraftLayout { rows, cursor }, "{text:?}");
    }
}

#[test]
fn the_cursor_is_always_on_a_character_boundary_and_on_the_screen() {
    let steps: [Step; 20] = [
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
        Draft::yank_older,
        Draft::undo,
        Draft::undo,
        Draft::redo,
    ];
    let letters = ["a", " ", "\n", "\u{301}", "語", "👨", "\u{200d}", "👧", "\t", "🇩", "🇪", "-"];
    let mut rng = fastrand::Rng::with_seed(5);
    let mut below = |limit: usize| rng.usize(..limit);
    let long = "p".repeat(FOLD_CHARS + 1);
    let mut draft = Draft::default();
    for _ in 0..30_000 {
        match below(8) {
            0 if draft.text().len() < 200 => draft.paste(&long),
            1..=4 if draft.text().len() < 200 => draft.insert(letters[below(letters.len())]),
            5 if below(50) == 0 => drop(draft.take()),
            _ => drop(steps[below(steps.len())](&mut draft)),
        }
        assert!(draft.text().is_char_boundary(draft.cursor()));
        let columns = 1 + below(12) as u16;
        let layout = draft.layout(columns);
        assert!(layout.cursor.0 < columns && layout.cursor.1 < layout.rows.len(), "{:?}: {layout:?}", draft.text());
    }
}

#[test]
fn text_typed_before_a_combining_mark_is_measured_with_it() {
    let mut draft = Draft::default();
    draft.insert("\u{fe0f}b");
    draft.home();
    draft.insert("❤");
    let layout = draft.layout(2);
    assert_eq!(layout.rows, ["❤\u{fe0f}", "b"]);
    assert_eq!(layout.cursor, (0, 1));
}

#[test]
fn a_file_is_drawn_by_its_name_and_sent_with_its_digest() {
    let marker = format!("[image: shot.png, 1 KB #{}]", "0f".repeat(16));
    let mut draft = Draft::default();
    draft.insert("see ");
    draft.attach(&marker);
    assert_eq!(draft.layout(80).rows, ["see [image: shot.png, 1 KB] "]);
    let sent = draft.take();
    assert_eq!(sent, format!("see {marker} "));
    draft.set(&sent);
    assert_eq!(draft.layout(80).rows, ["see [image: shot.png, 1 KB] "]);
    assert_eq!(draft.expanded(), sent);
    assert!(draft.backspace() && draft.backspace());
    assert_eq!(draft.expanded(), "see ");
}
