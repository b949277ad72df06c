//! The parser of slice specs: a single pass without backtracking; an error is at the character where parsing stopped.

use super::{Bound, Fault, Point, Position, Segment, Span};

pub(super) fn segments(source: &str) -> Result<Vec<Segment>, Fault> {
    Parser { chars: source.chars().collect(), at: 0 }.segments()
}

struct Parser {
    chars: Vec<char>,
    /// The index of the next character.
    at: usize,
}

impl Parser {
    fn segments(&mut self) -> Result<Vec<Segment>, Fault> {
        let mut segments = Vec::new();
        loop {
            self.skip_space();
            segments.push(self.segment()?);
            self.skip_space();
            match self.next() {
                None => return Ok(segments),
                Some(',') => self.at += 1,
                Some(_) => return Err(self.fault("expected a comma or the end")),
            }
        }
    }

    fn segment(&mut self) -> Result<Segment, Fault> {
        match self.next() {
            None | Some(',') => Err(self.fault("segment expected")),
            Some(c) if c.is_alphabetic() => self.keyword_segment(),
            Some(_) => self.span().map(Segment::Take),
        }
    }

    fn keyword_segment(&mut self) -> Result<Segment, Fault> {
        let start = self.at;
        while self.next().is_some_and(char::is_alphanumeric) {
            self.at += 1;
        }
        let keyword: String = self.chars[start..self.at].iter().collect();
        if !["summarize", "compact", "inject"].contains(&keyword.as_str()) {
            return Err((start, "expected summarize, compact, inject or a range a:b".into()));
        }
        self.expect(':', "expected a colon")?;
        Ok(match keyword.as_str() {
            "compact" => Segment::Compact(self.span()?),
            "inject" => Segment::Inject(self.text()?),
            _ => {
                let span = self.span()?;
                let goal = if self.take(':') { Some(self.text()?) } else { None };
                Segment::Summarize(span, goal)
            }
        })
    }

    fn span(&mut self) -> Result<Span, Fault> {
        let at = Position(self.at);
        let from = self.bound()?;
        self.expect(':', "expected a range a:b")?;
        let to_at = self.at;
        let span = Span { from, to: self.bound()?, at };
        if span.is_reversed() {
            return Err((to_at, "range ends before it begins".into()));
        }
        Ok(span)
    }

    fn bound(&mut self) -> Result<Option<Bound>, Fault> {
        let at = self.at;
        let is_negative = self.take('-');
        if !self.next().is_some_and(|c| c.is_ascii_digit()) {
            return if is_negative { Err(self.fault("expected a number after the minus sign")) } else { Ok(None) };
        }
        let number = self.number().ok_or_else(|| (at, "number too large".to_owned()))?;
        let point = match (is_negative, self.take('%')) {
            (false, false) => Point::FromStart(number),
            (false, true) if number <= 100 => Point::Percent(number),
            (false, true) => return Err((at, "a percentage is at most 100%".into())),
            (true, false) if number > 0 => Point::FromEnd(number),
            (true, false) => return Err((at, "omit the bound to reach the end".into())),
            (true, true) => return Err((at, "a percentage cannot be negative".into())),
        };
        Ok(Some(Bound { point, at: Position(at) }))
    }

    /// The number at this position; `None` if it is too large.
    fn number(&mut self) -> Option<usize> {
        let mut number = Some(0_usize);
        while let Some(digit) = self.next().and_then(|c| c.to_digit(10)) {
            number = number.and_then(|number| number.checked_mul(10)?.checked_add(digit as usize));
            self.at += 1;
        }
        number
    }

    fn text(&mut self) -> Result<String, Fault> {
        let start = self.at;
        self.expect('\'', "expected text in single quotes")?;
        let mut text = String::new();
        loop {
            let Some(c) = self.next() else { return Err((start, "unclosed quote".into())) };
            self.at += 1;
            // A doubled quote is a quote of the text.
            if c == '\'' && !self.take('\'') {
                break;
            }
            text.push(c);
        }
        if text.trim().is_empty() {
            return Err((start, "empty text".into()));
        }
        Ok(text)
    }

    fn next(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, expected: char) -> bool {
        let is_there = self.next() == Some(expected);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, expected: char, message: &str) -> Result<(), Fault> {
        if self.take(expected) { Ok(()) } else { Err(self.fault(message)) }
    }

    fn skip_space(&mut self) {
        while self.next().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn fault(&self, message: &str) -> Fault {
        (self.at, message.to_owned())
    }
}
