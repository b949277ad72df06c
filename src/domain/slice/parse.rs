//! From a text to segments. One pass, no going back: a fault is at the character where reading stopped.

use super::{Bound, Fault, Point, Position, Segment, Span};

/// Reads the whole text.
pub(super) fn segments(source: &str) -> Result<Vec<Segment>, Fault> {
    Reader { chars: source.chars().collect(), at: 0 }.segments()
}

struct Reader {
    chars: Vec<char>,
    /// The next character.
    at: usize,
}

impl Reader {
    fn segments(&mut self) -> Result<Vec<Segment>, Fault> {
        let mut segments = Vec::new();
        loop {
            self.skip_space();
            segments.push(self.segment()?);
            self.skip_space();
            match self.next() {
                None => return Ok(segments),
                Some(',') => self.at += 1,
                Some(_) => return Err(self.fault("a comma or the end belongs here")),
            }
        }
    }

    fn segment(&mut self) -> Result<Segment, Fault> {
        match self.next() {
            None | Some(',') => Err(self.fault("a segment is missing here")),
            Some(c) if c.is_alphabetic() => self.worded_segment(),
            Some(_) => self.span().map(Segment::Take),
        }
    }

    fn worded_segment(&mut self) -> Result<Segment, Fault> {
        let start = self.at;
        while self.next().is_some_and(char::is_alphanumeric) {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        if !["summarize", "compact", "inject"].contains(&word.as_str()) {
            return Err((start, "only summarize, compact and inject can stand here, or a range a:b".into()));
        }
        self.expect(':', "a colon belongs behind this word")?;
        Ok(match word.as_str() {
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
        self.expect(':', "a range is written a:b")?;
        let to_at = self.at;
        let span = Span { from, to: self.bound()?, at };
        if span.is_reversed() {
            return Err((to_at, "the range ends before it begins".into()));
        }
        Ok(span)
    }

    /// A bound, if one stands here.
    fn bound(&mut self) -> Result<Option<Bound>, Fault> {
        let at = self.at;
        let is_negative = self.take('-');
        if !self.next().is_some_and(|c| c.is_ascii_digit()) {
            return if is_negative { Err(self.fault("a number belongs behind the minus sign")) } else { Ok(None) };
        }
        let number = self.number().ok_or_else(|| (at, "no conversation is that long".to_owned()))?;
        let point = match (is_negative, self.take('%')) {
            (false, false) => Point::FromStart(number),
            (false, true) if number <= 100 => Point::Percent(number),
            (false, true) => return Err((at, "a share is 100% at most".into())),
            (true, false) if number > 0 => Point::FromEnd(number),
            (true, false) => return Err((at, "the end is reached by leaving the bound out".into())),
            (true, true) => return Err((at, "a share is counted from the start only".into())),
        };
        Ok(Some(Bound { point, at: Position(at) }))
    }

    /// The number whose digits stand here; none if it is too large.
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
        self.expect('\'', "a text in single quotes belongs here")?;
        let mut text = String::new();
        loop {
            let Some(c) = self.next() else { return Err((start, "this quote is never closed".into())) };
            self.at += 1;
            // A quote that stands twice is one of the text.
            if c == '\'' && !self.take('\'') {
                break;
            }
            text.push(c);
        }
        if text.trim().is_empty() {
            return Err((start, "nothing stands between these quotes".into()));
        }
        Ok(text)
    }

    fn next(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.next() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, wanted: char, words: &str) -> Result<(), Fault> {
        if self.take(wanted) { Ok(()) } else { Err(self.fault(words)) }
    }

    fn skip_space(&mut self) {
        while self.next().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn fault(&self, words: &str) -> Fault {
        (self.at, words.to_owned())
    }
}
