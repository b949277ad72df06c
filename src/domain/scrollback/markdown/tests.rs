//! Replies in Markdown on screens of several widths, whole and in pieces.

use crate::domain::frame::{Color, LinkPart, Style, StyledLine};
use crate::domain::scrollback::{LineKind, Reader, Scrollback, Shown};

const ALL: Reader = Reader::Shared;

fn whole(source: &str) -> Scrollback {
    let mut scrollback = Scrollback::default();
    scrollback.push(LineKind::Assistant, source);
    scrollback
}

fn rows(scrollback: &Scrollback, width: u16) -> Vec<String> {
    scrollback.visible(ALL, width, u16::MAX).into_iter().map(|row| row.text.trim_end().to_owned()).collect()
}

fn shown(source: &str, width: u16) -> String {
    rows(&whole(source), width).join("\n")
}

/// The styled parts of the text.
fn styled(source: &str) -> Vec<(String, Style)> {
    let visible = whole(source).visible(ALL, 80, u16::MAX);
    let parts = visible
        .iter()
        .flat_map(|row| row.styles.iter().map(|(range, style)| (row.text[range.clone()].to_owned(), *style)));
    parts.collect()
}

fn in_pieces(source: &str, mut next: impl FnMut() -> usize, looks: impl Fn(usize) -> bool) -> Scrollback {
    let mut scrollback = Scrollback::default();
    let (mut at, mut number) = (0, 0);
    while at < source.len() {
        let mut end = (at + next().max(1)).min(source.len());
        while !source.is_char_boundary(end) {
            end += 1;
        }
        scrollback.extend(LineKind::Assistant, &source[at..end]);
        if looks(number) {
            scrollback.update();
        }
        (at, number) = (end, number + 1);
    }
    scrollback.close();
    scrollback
}

#[test]
fn blocks_are_drawn_by_their_kind() {
    for (source, expected) in [
        ("# Title\ntext *a* **b** ~~c~~ `d`", "Title\n\ntext a b c d"),
        ("one\ntwo\n\nthree", "one\ntwo\n\nthree"),
        ("- a\n- b\n  - c\n    d\n\n  e\n- f", "• a\n• b\n  • c\n    d\n\n  e\n• f"),
        ("3. a\n3. b\n\n   c\n4. d", "3. a\n4. b\n\n   c\n5. d"),
        ("- [ ] open\n- [x] done\n  more", "[ ] open\n[x] done\n    more"),
        ("> quoted\n> again\n>\n> - item\n\nout", "│ quoted\n│ again\n│\n│ • item\n\nout"),
        ("> [!NOTE]\n> mind", "│ Note\n│ mind"),
        ("a\n```rust\nfn a() {\n    b\n}\n```\nz", "a\n\nrust\n  fn a() {\n      b\n  }\n\nz"),
        ("```\nx\n\ny", "  x\n\n  y"),
        ("    indented", "  indented"),
        ("a[^1]\n\n[^1]: note\n    more", "a[^1]\n\n[^1]: note\n  more"),
        (
            "[text](http://x.y) <http://a.b> [c][c]\n\n[c]: /d \"t\"",
            "text (http://x.y) http://a.b c (/d \"t\")\n\n[c]: /d \"t\"",
        ),
        ("![alt](p.png)", "image: alt (p.png)"),
        ("a <b>bold</b><br>c\n\n<div>\nx\n</div>", "a <b>bold</b>\nc\n\n<div>\nx\n</div>"),
        ("a\n\n---\n\nb", "a\n\n────────────\n\nb"),
        ("a\n\n- - -", "a\n\n────────────"),
        ("&#27;[31m &lt; \\*", "␛[31m < *"),
        ("-\n- x", "•\n• x"),
    ] {
        let width = if source.contains("\n---") || source.contains("- - -") { 12 } else { 60 };
        assert_eq!(shown(source, width), expected, "{source}");
    }
}

#[test]
fn continued_rows_are_indented_by_the_markers() {
    assert_eq!(shown("10. one two three\n> four five six", 10), "10. one\n    two\n    three\n\n│ four\n│ five six");
    assert_eq!(shown("- a\n  - b\n    - c\n      - ddd eee", 8), "• a\n  • b\n  • c\n  • ddd\n    eee");
}

#[test]
fn tables_fit_wrap_or_become_lines() {
    let source = "| name | what it is | n |\n|---|:-:|--:|\n| a | the first of *all* | 1 |\n| bb | x | 200 |";
    assert_eq!(
        shown(source, 60),
        "name │    what it is    │   n\n─────┼──────────────────┼────\na    │ the first of all │   1\nbb   │        x         │ 200"
    );
    assert_eq!(
        shown(source, 24),
        "name │ what it is  │   n\n─────┼─────────────┼────\na    │  the first  │   1\n     │   of all    │\nbb   │      x      │ 200"
    );
    assert_eq!(
        shown(source, 14),
        "──────────────\nname: a\nwhat it is:\nthe first of\nall\nn: 1\n──────────────\nname: bb\nwhat it is: x\nn: 200\n──────────────"
    );
}

#[test]
fn text_has_the_style_of_its_meaning() {
    let bold = Style::BOLD;
    assert_eq!(
        styled("a **b *c*** `d` ~~e~~"),
        [
            ("b ".to_owned(), bold),
            ("c".to_owned(), Style { italic: true, ..bold }),
            ("d".to_owned(), Style::color(Color::Code)),
            ("e".to_owned(), Style { strike: true, ..Style::default() }),
        ]
    );
    let link = Style { underline: true, link: LinkPart::Text, ..Style::color(Color::Link) };
    let target = Style { link: LinkPart::Target, ..Style::DIM };
    let parts = [("a", link), (" (", Style::DIM), ("b", target), (")", Style::DIM)];
    assert_eq!(styled("[a](b)"), parts.map(|(text, style)| (text.to_owned(), style)));
}

/// The links on a screen of this width: the text and the target of each part.
fn linked(source: &str, width: u16) -> Vec<(String, String)> {
    let visible = whole(source).visible(ALL, width, u16::MAX);
    let links = visible.iter().flat_map(|row| row.links.iter().map(|(range, to)| (&row.text[range.clone()], &**to)));
    links.map(|(text, to)| (text.to_owned(), to.to_owned())).collect()
}

#[test]
fn only_links_to_the_web_and_to_mail_lead_somewhere() {
    for (source, expected) in [
        ("[a *b*](http://x.y/z)", vec![("a b", "http://x.y/z"), ("http://x.y/z", "http://x.y/z")]),
        ("[a](HTTPS://x.y \"t\")", vec![("a", "HTTPS://x.y"), ("HTTPS://x.y", "HTTPS://x.y")]),
        ("<http://x.y> <mail@x.y>", vec![("http://x.y", "http://x.y"), ("mail@x.y", "mailto:mail@x.y")]),
        ("[write](mailto:mail@x.y)", vec![("write", "mailto:mail@x.y"), ("mailto:mail@x.y", "mailto:mail@x.y")]),
        ("| [a](http://x.y) |\n|---|", vec![("a", "http://x.y"), ("http://x.y", "http://x.y")]),
        ("![p](http://x.y/p.png)", vec![("image: p", "http://x.y/p.png"), ("http://x.y/p.png", "http://x.y/p.png")]),
        (
            "[a](<http://x.y/a b\u{e9}>)",
            vec![("a", "http://x.y/a%20b%C3%A9"), ("http://x.y/a b\u{e9}", "http://x.y/a%20b%C3%A9")],
        ),
        ("[a](b) [a](file:///etc/passwd) [a](javascript:x) [a](ssh://x) [a]() [http://x](y)", vec![]),
    ] {
        let found = linked(source, 80);
        assert_eq!(found.iter().map(|(text, to)| (&**text, &**to)).collect::<Vec<_>>(), expected, "{source}");
    }
    let long = format!("[a](http://x.y/{})", "z".repeat(2_100));
    assert_eq!(linked(&long, 80), [], "too long for terminals");
    let parts = linked("[some words](http://x.y/somewhere)", 12);
    assert!(parts.len() >= 3 && parts.iter().all(|(_, to)| to == "http://x.y/somewhere"), "{parts:?}");
    let hostile = linked("[a](<http://x/\u{1b}]8;;http://evil\u{7}\u{9d}\u{202e}b>)", 200);
    assert!(hostile.iter().all(|(_, to)| to.bytes().all(|byte| byte.is_ascii_graphic())), "{hostile:?}");
}

const SAMPLE: &str = "# One\n\nSome *text* with `code`,\nanother line and a [link][l].\n\n1. first\n2. second\n   - nested\n   - [x] done\n\n3. third\n\n```rust\nfn main() {\n\n    x();\n}\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n| long cell | 3 | more |\n\nSetext\n===\n> quote\n> on\n>\n> second\n\n~~~\n```\n~~~\n\n- x\n\n  ```\n  code\n  ```\n- y\r\n\n***\n\n[l]: http://a.b/c\n\n<details>\nhtml\n</details>\n\nend 語語 e\u{301}";

#[test]
fn any_pieces_give_the_same_lines() {
    for width in [80, 20, 7] {
        let expected = rows(&whole(SAMPLE), width);
        for size in 1..40 {
            assert_eq!(rows(&in_pieces(SAMPLE, || size, |_| true), width), expected, "{size}");
            assert_eq!(rows(&in_pieces(SAMPLE, || size, |n| n % 7 == 0), width), expected, "{size}");
        }
    }
}

/// Marks that mean something, and a few words.
const PARTS: &[&str] = &[
    "a",
    "word",
    " ",
    "  ",
    "    ",
    "\n",
    "\n",
    "\n\n",
    "# ",
    "- ",
    "1. ",
    "> ",
    "```",
    "~~~",
    "`",
    "*",
    "**",
    "_",
    "~~",
    "[",
    "]",
    "(",
    ")",
    "[a]: /u\n",
    "\"t\"",
    "[a]",
    "|",
    "|-|-|\n",
    "| a | b |\n",
    "---\n",
    "===\n",
    "<div>",
    "</div>",
    "<!--",
    "-->",
    "\\",
    "&amp;",
    "&#27;",
    "\t",
    "[^1]",
    "[^1]: x\n",
    "- [ ] ",
    "語",
    "e\u{301}",
    "\r\n",
    "<http://x.y>",
    "![",
    "<br>",
    "\u{1b}",
    ":-:",
    "99999999999. ",
];

/// Markdown that means little.
fn hostile(rng: &mut fastrand::Rng) -> String {
    (0..rng.usize(1..60)).map(|_| PARTS[rng.usize(..PARTS.len())]).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1).map(str::to_owned).collect()
}

#[test]
fn hostile_text_in_pieces_is_the_same_and_loses_no_word() {
    let mut rng = fastrand::Rng::with_seed(5);
    for round in 0..1_500 {
        let source = hostile(&mut rng);
        let expected = whole(&source);
        let mut sizes = rng.clone();
        let pieces = in_pieces(&source, || sizes.usize(1..9), |n| n % 3 == round % 3);
        for width in [1, 9, 80] {
            assert_eq!(rows(&pieces, width), rows(&expected, width), "{source:?} at {width}");
        }
        let on_screen = rows(&expected, 500).concat();
        // The name of an entity is replaced, and a language may be in an info string.
        for word in words(&source.replace("&amp;", " ")).iter().filter(|word| *word != "br") {
            assert!(on_screen.contains(word.as_str()), "{word} of {source:?} in {on_screen:?}");
        }
    }
}

#[test]
fn long_blocks_are_cut_and_go_on() {
    let paragraph = "word after word ".repeat(3_000);
    let table: String = (0..900).map(|n| format!("| {n} | cell of row {n} |\n")).collect();
    let code: String = (0..900).map(|n| format!("    line {n} # not a heading\n")).collect();
    let items: String = (0..900).map(|n| format!("1. item {n}\n")).collect();
    for source in [
        paragraph.clone(),
        format!("| a | b |\n|---|---|\n{table}"),
        format!("```sh\n{code}```\nend"),
        format!("- in a list\n  ```sh\n{code}  ```\n- end"),
        items,
        "語".repeat(20_000),
        format!("```\n{}", "x".repeat(50_000)),
    ] {
        let expected = rows(&whole(&source), 40);
        assert_eq!(rows(&in_pieces(&source, || 1_000, |_| true), 40), expected);
        let count = |text: &str| words(text).len();
        assert!(
            count(&expected.join(" ")) + 2 >= count(&source) - usize::from(source.contains("| b |")),
            "{source:.60}"
        );
    }
    let list = rows(&whole(&(0..900).map(|n| format!("1. item {n}\n")).collect::<String>()), 40);
    assert_eq!((list.len(), list[899].as_str()), (900, "900. item 899"));
    let code = rows(&whole(&format!("- in a list\n  ```sh\n{code}  ```\n- end")), 80);
    assert_eq!(code[901..], ["      line 899 # not a heading", "", "• end"].map(str::to_owned), "{:?}", &code[895..]);
}

/// Definitions have the same effect at the end as at the beginning.
#[test]
fn links_are_resolved_by_definitions_that_come_later() {
    let definitions = "[a]: http://x.y/a\n[b c]: http://x.y/b \"title\"\n[d]: /d";
    for text in [
        "See [a] here.\n\nAnd [text][B\nC], [no] and `[a]`.\n\nMore.",
        "- one [a]\n- two\n  - three [b c]\n- four\n\n1. five [d]\n2. six\n\nend",
        "> quoted [a]\n>\n> again ![picture][d]\n\n# Head [d]\n\nend [no]",
        "```rs\nx[a]\n```\nthen [a][]\n\nend\n\n- x\n  ```rs\n  y[a]\n  ```\n  [d]\n- z\n\nend",
        "[a] and [a](/else)\n\n| k | [d] |\n|---|---|\n| 1 | [a] |\n| [no] | [text to][d] |\n| 3 | 4 |\n\nend",
    ] {
        let source = format!("{text}\n\n{definitions}");
        let expected = drawn(&whole(&format!("{definitions}\n\n{text}")), 80);
        for size in [1, 2, 7, 64, 1_000] {
            let shown = drawn(&in_pieces(&source, || size, |_| true), 80);
            // The definitions are below and above.
            let count = shown.len() - 4;
            assert_eq!(shown[..count], expected[expected.len() - count..], "{size}: {source}");
        }
        for size in [1, 7] {
            for width in [9, 30] {
                assert_eq!(
                    drawn(&in_pieces(&source, || size, |n| n % 5 == 0), width),
                    drawn(&whole(&source), width),
                    "{size}: {source}"
                );
            }
        }
    }
}

#[test]
fn what_is_laid_out_again_keeps_its_place_among_other_lines() {
    let long = "word ".repeat(2_000);
    let mut s = whole("before");
    s.begin_call("1", "call");
    s.extend(LineKind::Assistant, &format!("{long}[a]\n\nsecond [b]\n\nthird\n\n"));
    s.update();
    s.insert(LineKind::Note, "note");
    s.end_call(
        "1",
        "call",
        &crate::domain::scrollback::Outcome {
            output: vec![StyledLine::of("output", Style::default())],
            shown: Shown::First(1),
            ..Default::default()
        },
    );
    s.extend(LineKind::Assistant, &format!("[b]: /{}\n\nfourth\n\n[a]: /a", "b".repeat(5_000)));
    s.close();
    let screen = rows(&s, 10_000).join("\n");
    let words: Vec<&str> = screen.split_whitespace().filter(|word| *word != "word").collect();
    let b = format!("(/{})", "b".repeat(5_000));
    let expected = ["before", "call", "output", "note", "a", "(/a)", "second", "b", &b, "third"];
    assert_eq!(words.join("").replace("\u{2713}", "")[..200], expected.join("")[..200]);
    assert!(words.join("").contains(&format!("third[b]:/{}fourth[a]:/a", "b".repeat(5_000))), "{words:?}");
}

#[test]
fn what_is_printed_is_not_laid_out_again() {
    let mut s = Scrollback::default();
    s.extend(LineKind::Assistant, "first [a]\n\nsecond [a]\n\nthird\n\n");
    s.update();
    s.note_printed(s.first() + 1);
    s.extend(LineKind::Assistant, "[a]: /a\n");
    s.close();
    assert_eq!(rows(&s, 40), ["first [a]", "", "second a (/a)", "", "third", "", "[a]: /a"]);
}

#[test]
fn deep_nesting_is_drawn_at_a_bounded_depth() {
    for source in [format!("{}x", "> ".repeat(5_000)), format!("{}x", "- ".repeat(5_000))] {
        let rows = rows(&whole(&source), 80);
        assert!(rows.last().is_some_and(|row| row.ends_with('x')), "{rows:?}");
    }
}

#[test]
fn a_block_above_an_open_reply_leaves_it_as_it_is() {
    let mut s = Scrollback::default();
    s.extend(LineKind::Assistant, "# A\n\n- b\n");
    s.insert(LineKind::Note, "note");
    s.extend(LineKind::Assistant, "- c\n");
    s.insert(LineKind::Note, "again");
    s.close();
    assert_eq!(rows(&s, 20), ["note", "again", "", "A", "", "• b", "• c"]);
}

/// The rows with everything that a terminal shows of them.
fn drawn(scrollback: &Scrollback, width: u16) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    scrollback.visible(ALL, width, u16::MAX).into_iter().map(|row| (row.text, row.styles, row.links)).collect()
}

/// Words that are not on the screen. Names of entities, and other words of fences and links than their text, are drawn
/// as something else.
fn lost(source: &str, screen: &str) -> Vec<String> {
    let without_entities = source.split('&').map(|part| match part.split_once(';') {
        Some((name, rest)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '#') => rest,
        _ => part,
    });
    let source = without_entities.collect::<Vec<&str>>().join(" ");
    // The label of a definition matches that of the reference, whatever its case.
    let screen = screen.to_lowercase();
    let is_lost = |word: &String| word != "br" && !screen.contains(&word.to_lowercase());
    words(&source).into_iter().filter(is_lost).collect()
}

#[test]
fn the_examples_of_the_specification_lose_no_word_and_are_the_same_in_any_pieces() {
    let file = include_str!("../../../../fixtures/markdown/commonmark.json");
    let file: serde_json::Value = serde_json::from_str(file).expect("JSON");
    let examples: Vec<&str> =
        file["examples"].as_array().expect("a list").iter().filter_map(|one| one.as_str()).collect();
    assert_eq!(examples.len(), 652);
    let mut all_lost = Vec::new();
    for (number, source) in (1..).zip(examples) {
        let expected = whole(source);
        for width in [80, 20, 3] {
            let rows = drawn(&expected, width);
            for size in [1, 2, 3, 7, 64] {
                assert_eq!(drawn(&in_pieces(source, || size, |_| true), width), rows, "{number}, {size}: {source:?}");
            }
        }
        let screen = rows(&expected, 500).concat();
        all_lost.extend(lost(source, &screen).into_iter().map(|word| (number, word)));
    }
    assert_eq!(all_lost, []);
}
