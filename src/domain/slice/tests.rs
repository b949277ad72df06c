//! The language of `/slice`, by tables and with random specs.

use super::*;

#[test]
fn every_form_is_parsed_and_printed_in_its_shortest_form() {
    for (written, printed) in [
        ("0:4", "0:4"),
        (":", ":"),
        ("3:", "3:"),
        (":3", ":3"),
        ("-5:-1", "-5:-1"),
        ("25%:75%", "25%:75%"),
        ("007:0100", "7:100"),
        (" 1:2 ,\n3:4\t", "1:2,3:4"),
        ("compact:1:", "compact:1:"),
        ("compact::", "compact::"),
        ("summarize:0:50%", "summarize:0:50%"),
        ("summarize::", "summarize::"),
        ("summarize:1:5:'what was decided'", "summarize:1:5:'what was decided'"),
        ("summarize:::'x'", "summarize:::'x'"),
        ("inject:'it''s, \\ 語\n:'", "inject:'it''s, \\ 語\n:'"),
        ("inject:''''", "inject:''''"),
        ("0:2,summarize:2:8,inject:'go on',-1:", "0:2,summarize:2:8,inject:'go on',-1:"),
    ] {
        let spec = SliceSpec::parse(written).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(spec.to_string(), printed, "{written}");
        assert_eq!(SliceSpec::parse(printed).unwrap(), spec, "{written}");
    }
}

/// Invalid specifications, and where they begin to be.
const INVALID: &[(&str, usize)] = &[
    ("", 0),
    ("   ", 3),
    (",", 0),
    ("1:2,", 4),
    ("1:2,,3:4", 4),
    (",1:2", 0),
    ("1:2 3:4", 4),
    ("1:2x", 3),
    ("1", 1),
    ("1 :2", 1),
    ("1: 2", 3),
    ("x", 0),
    ("+1:2", 0),
    ("1:+2", 2),
    ("--1:", 1),
    ("-:", 1),
    ("-0:", 0),
    ("-5%:", 0),
    ("101%:", 0),
    (":250%", 1),
    ("5%%:", 2),
    ("5:2", 2),
    ("-2:-5", 3),
    ("75%:25%", 4),
    ("1:2:3", 3),
    ("99999999999999999999:", 0),
    (":18446744073709551616", 1),
    ("compact", 7),
    ("compact:", 8),
    ("compact:1", 9),
    ("compact:1:2:'x'", 11),
    ("Compact:1:2", 0),
    ("summarize:1:2:", 14),
    ("summarize:1:2:goal", 14),
    ("summarize:1:2:'goal", 14),
    ("summarize:1:2:'goal'x", 20),
    ("summarize:1:2:''", 14),
    ("inject:", 7),
    ("inject:hello", 7),
    ("inject:'  '", 7),
    ("inject:'it's'", 11),
    ("inject:'a''", 7),
    ("語:2", 0),
    ("inject:'語','", 11),
];

#[test]
fn invalid_specs_are_refused_with_the_position() {
    for (written, at) in INVALID {
        let error = SliceSpec::parse(written).expect_err(written);
        assert_eq!(error.at, *at, "{written}: {error}");
    }
}

fn ranges(spec: &str, length: usize) -> Result<Vec<(usize, usize)>, usize> {
    let spec = SliceSpec::parse(spec).expect("a spec");
    let pieces = spec.resolve(length).map_err(|(at, _)| at)?;
    let range = |piece: ResolvedSegment| match piece {
        ResolvedSegment::Take(range) | ResolvedSegment::Compact(range) | ResolvedSegment::Summarize(range, _) => {
            (range.start, range.end)
        }
        ResolvedSegment::Inject(_) => (0, 0),
    };
    Ok(pieces.into_iter().map(range).collect())
}

#[test]
fn bounds_are_resolved_or_refused_with_the_position() {
    for (spec, length, expected) in [
        (":", 10, Ok(vec![(0, 10)])),
        ("2:5", 10, Ok(vec![(2, 5)])),
        ("10:", 10, Err(0)),
        ("0:1,10:", 10, Ok(vec![(0, 1), (10, 10)])),
        ("-3:", 10, Ok(vec![(7, 10)])),
        (":-3", 10, Ok(vec![(0, 7)])),
        ("-10:-1", 10, Ok(vec![(0, 9)])),
        ("50%:", 9, Ok(vec![(4, 9)])),
        ("0%:100%", 9, Ok(vec![(0, 9)])),
        (":33%", 10, Ok(vec![(0, 3)])),
        ("0:11", 10, Err(2)),
        ("11:", 10, Err(0)),
        ("-11:", 10, Err(0)),
        ("0:1,-1:5", 10, Err(7)),
        ("8:50%", 10, Err(2)),
        ("summarize:3:3,0:1", 10, Err(10)),
        ("3:3", 10, Err(0)),
        (":", 0, Err(0)),
        ("inject:'x'", 0, Ok(vec![(0, 0)])),
        (":50%", usize::MAX, Err(0)),
    ] {
        assert_eq!(ranges(spec, length), expected, "{spec} of {length}");
    }
    assert_eq!(ranges(&["summarize::"; 17].join(","), 1), Err(0), "too many summaries");
    assert_eq!(ranges(&[":"; 17].join(","), 1).map(|ranges| ranges.len()), Ok(17));
}

#[test]
fn the_caret_is_under_the_wrong_character_whatever_precedes_it() {
    let shown = |spec: &str| SliceSpec::parse(spec).unwrap_err().to_string();
    assert_eq!(shown("1:2,,"), "1:2,,\n    ^ segment expected");
    assert_eq!(shown("inject:'語語'x"), "inject:'語語'x\n             ^ expected a comma or the end");
    assert_eq!(shown("inject:'a\n\tb\u{1b}'x"), "inject:'a␊␉b␛'x\n              ^ expected a comma or the end");
    assert_eq!(shown("7"), "7\n ^ expected a range a:b");
}

#[test]
fn a_long_spec_is_shown_around_the_character() {
    let long = format!("{}x{}", "0:1,".repeat(100), ",0:1".repeat(100));
    let error = SliceSpec::parse(&long).unwrap_err().to_string();
    let (spec, caret) = error.split_once('\n').expect("two lines");
    assert!(spec.starts_with('…') && spec.ends_with('…') && text::width(spec) <= 72, "{error}");
    let column = caret.find('^').expect("a caret");
    assert_eq!(spec.chars().nth(column), Some('x'), "{error}");
}

struct Random(fastrand::Rng);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    fn bound(&mut self) -> Option<Bound> {
        let point = match self.below(4) {
            0 => return None,
            1 => Point::FromStart(self.below(20)),
            2 => Point::FromEnd(1 + self.below(20)),
            _ => Point::Percent(self.below(101)),
        };
        Some(Bound { point, at: Position(0) })
    }

    fn span(&mut self) -> Span {
        let span = Span { from: self.bound(), to: self.bound(), at: Position(0) };
        if span.is_reversed() { Span { from: span.to, to: span.from, ..span } } else { span }
    }

    fn text(&mut self) -> String {
        let letters = ["'", "a", ",", ":", "\\", "語", "\n", " ", "''", "\""];
        let text: String = (0..self.below(8)).map(|_| letters[self.below(letters.len())]).collect();
        format!("{text}.")
    }

    fn segment(&mut self) -> Segment {
        match self.below(5) {
            0 => Segment::Take(self.span()),
            1 => Segment::Compact(self.span()),
            2 => Segment::Summarize(self.span(), None),
            3 => Segment::Summarize(self.span(), Some(self.text())),
            _ => Segment::Inject(self.text()),
        }
    }
}

#[test]
fn every_spec_is_printed_so_that_it_parses_again() {
    let mut random = Random(fastrand::Rng::with_seed(7));
    for _ in 0..5000 {
        let segments: Vec<Segment> = (0..1 + random.below(5)).map(|_| random.segment()).collect();
        let spec = SliceSpec { source: String::new(), segments };
        let printed = spec.to_string();
        let read = SliceSpec::parse(&printed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read, spec, "{printed}");
        let length = random.below(25);
        for piece in read.resolve(length).into_iter().flatten() {
            if let ResolvedSegment::Take(range)
            | ResolvedSegment::Compact(range)
            | ResolvedSegment::Summarize(range, _) = piece
            {
                assert!(range.start <= range.end && range.end <= length, "{printed} of {length}");
            }
        }
    }
}

#[test]
fn any_text_is_parsed_or_refused_at_a_position_in_it() {
    let letters =
        ["'", ",", ":", "-", "%", "1", "99", " ", "x", "語", "inject:", "summarize:", "compact:", "'a'", "1:2"];
    let mut random = Random(fastrand::Rng::with_seed(11));
    let mut read = 0;
    for _ in 0..20_000 {
        let typed: String = (0..random.below(9)).map(|_| letters[random.below(letters.len())]).collect();
        match SliceSpec::parse(&typed) {
            Ok(spec) => {
                read += 1;
                assert_eq!(SliceSpec::parse(&spec.to_string()).as_ref(), Ok(&spec), "{typed}");
            }
            Err(error) => assert!(error.at <= typed.chars().count() && error.to_string().lines().count() == 2),
        }
    }
    assert!(read > 100, "some are specs: {read}");
}
