//! The modes of vi for a draft: insert mode, where keys have their usual meaning, and normal mode, where they are
//! commands such as `3w`, `dw`, `ct.`, `yy`, `p` and `u`.

use super::{Draft, after, line_end, line_start};
use crate::domain::key::{Key, KeyCode};

/// The mode, and the keys of an unfinished command.
#[derive(Debug, Clone, Default)]
pub struct Vi {
    is_normal: bool,
    /// Whole lines were killed or copied last.
    has_lines: bool,
    typed: String,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViOutcome {
    Done,
    /// It has its usual meaning.
    Pass,
    /// A line up, else an older input.
    Up,
    /// A line down, else a newer input.
    Down,
}

/// A complete command.
struct Command {
    count: usize,
    operator: Option<char>,
    verb: char,
    /// The character that `f`, `F`, `t`, `T`, `r` and `g` are followed by.
    argument: Option<char>,
}

impl Vi {
    pub fn is_normal(&self) -> bool {
        self.is_normal
    }

    /// A line was sent: the next one begins in insert mode.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    pub fn on_key(&mut self, key: &Key, draft: &mut Draft) -> ViOutcome {
        let Key::Press(code, modifiers) = key else { return ViOutcome::Pass };
        match (code, self.is_normal) {
            (KeyCode::Escape, false) => {
                self.is_normal = true;
                if draft.cursor > draft.line_start() {
                    draft.left();
                }
                ViOutcome::Done
            }
            (KeyCode::Escape, true) if !self.typed.is_empty() => {
                self.typed.clear();
                ViOutcome::Done
            }
            (KeyCode::Char('r'), true) if modifiers.ctrl => {
                draft.redo();
                ViOutcome::Done
            }
            (KeyCode::Backspace, true) => {
                draft.left();
                ViOutcome::Done
            }
            (KeyCode::Char(c), true) if !modifiers.ctrl && !modifiers.alt => self.on_letter(*c, draft),
            _ => ViOutcome::Pass,
        }
    }

    fn on_letter(&mut self, c: char, draft: &mut Draft) -> ViOutcome {
        // On an empty draft these begin a line that means something, or show the keys.
        if draft.is_empty() && self.typed.is_empty() && matches!(c, '/' | '!' | '#' | '?' | '@') {
            self.is_normal = false;
            return ViOutcome::Pass;
        }
        self.typed.push(c);
        let outcome = match parse(&self.typed) {
            Parsed::Incomplete => return ViOutcome::Done,
            Parsed::Invalid => ViOutcome::Done,
            Parsed::Command(Command { verb: 'k', operator: None, .. }) => ViOutcome::Up,
            Parsed::Command(Command { verb: 'j', operator: None, .. }) => ViOutcome::Down,
            Parsed::Command(command) => {
                self.carry_out(&command, draft);
                ViOutcome::Done
            }
        };
        self.typed.clear();
        if self.is_normal && draft.cursor > draft.line_start() && draft.cursor == draft.line_end() {
            draft.left();
        }
        outcome
    }

    fn carry_out(&mut self, command: &Command, draft: &mut Draft) {
        if let Some(operator) = command.operator {
            return self.carry_out_operator(operator, command, draft);
        }
        let (start, end) = (draft.line_start(), draft.line_end());
        match command.verb {
            'i' => self.is_normal = false,
            'I' => self.insert_at(first_of_line(&draft.text, draft.cursor), draft),
            'a' => self.insert_at(if draft.cursor < end { after(&draft.text, draft.cursor) } else { end }, draft),
            'A' => self.insert_at(end, draft),
            'o' | 'O' => {
                self.insert_at(if command.verb == 'o' { end } else { start }, draft);
                draft.newline();
                if command.verb == 'O' {
                    draft.left();
                }
            }
            'x' | 's' => {
                let to =
                    (0..command.count).fold(draft.cursor, |at, _| if at < end { after(&draft.text, at) } else { at });
                self.operate(if command.verb == 'x' { 'd' } else { 'c' }, draft.cursor, to, draft);
            }
            'D' => self.operate('d', draft.cursor, end, draft),
            'C' => self.operate('c', draft.cursor, end, draft),
            'S' => self.operate('c', start, end, draft),
            'Y' => self.operate('y', start, end, draft),
            'p' if self.has_lines => paste_lines(end, |lines| format!("\n{lines}"), end + 1, draft),
            'P' if self.has_lines => paste_lines(start, |lines| format!("{lines}\n"), start, draft),
            'p' | 'P' => {
                if command.verb == 'p' && draft.cursor < end {
                    draft.right();
                }
                (0..command.count).for_each(|_| drop_flag(draft.yank()));
                draft.left();
            }
            'u' => (0..command.count).for_each(|_| drop_flag(draft.undo())),
            'r' => {
                if let (Some(c), true) = (command.argument, draft.cursor < end) {
                    draft.delete();
                    draft.insert(c.encode_utf8(&mut [0; 4]));
                    draft.left();
                }
            }
            _ => drop_flag(draft.go(target_of(command, draft).map_or(draft.cursor, |(to, _)| to))),
        }
    }

    fn carry_out_operator(&mut self, operator: char, command: &Command, draft: &mut Draft) {
        let Some((start, end)) = range_of(command, draft) else { return };
        self.operate(operator, start, end, draft);
        self.has_lines = operator == command.verb;
        if operator == 'd' && command.verb == 'd' {
            draft.go(first_of_line(&draft.text, draft.cursor));
        }
    }

    fn insert_at(&mut self, at: usize, draft: &mut Draft) {
        draft.go(at);
        self.is_normal = false;
    }

    fn operate(&mut self, operator: char, start: usize, end: usize, draft: &mut Draft) {
        self.has_lines = false;
        if operator == 'y' {
            draft.copy_range(start, end);
        } else {
            draft.kill_range(start, end);
        }
        self.is_normal = operator != 'c';
    }
}

/// Inserts the lines that were deleted or copied last, and puts the cursor on the first of them.
fn paste_lines(at: usize, text: impl FnOnce(&str) -> String, cursor: usize, draft: &mut Draft) {
    let lines = draft.killed.newest().unwrap_or_default();
    let text = text(lines.trim_matches('\n'));
    draft.go(at);
    draft.insert(&text);
    draft.go(cursor);
}

/// Ignores what a change returns.
fn drop_flag(_: bool) {}

enum Parsed {
    Incomplete,
    Invalid,
    Command(Command),
}

fn parse(typed: &str) -> Parsed {
    let mut rest = typed;
    let mut count = 1;
    let mut operator = None;
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        // `0` alone is a motion.
        if digits > 0 && !rest.starts_with('0') {
            count *= rest[..digits].parse().unwrap_or(1).clamp(1, 1_000);
            rest = &rest[digits..];
        }
        let Some(verb) = rest.chars().next() else { return Parsed::Incomplete };
        rest = &rest[verb.len_utf8()..];
        match (verb, operator) {
            ('d' | 'c' | 'y', None) => operator = Some(verb),
            ('f' | 'F' | 't' | 'T' | 'r' | 'g' | 'i', _) if verb != 'i' || operator.is_some() => {
                return match rest.chars().next() {
                    None => Parsed::Incomplete,
                    argument => Parsed::Command(Command { count, operator, verb, argument }),
                };
            }
            _ if !"hljk0^$wbeWBEGiaIAoOxXsSDCYpPudcy".contains(verb) => return Parsed::Invalid,
            _ => return Parsed::Command(Command { count, operator, verb, argument: None }),
        }
    }
}

/// The range that an operator acts on.
fn range_of(command: &Command, draft: &Draft) -> Option<(usize, usize)> {
    let (text, at) = (draft.text.as_str(), draft.cursor);
    if command.operator == Some(command.verb) {
        // A whole line, with its line break unless the line is only changed.
        let (start, mut end) = (draft.line_start(), draft.line_end());
        for _ in 1..command.count {
            end = line_end(text, (end + 1).min(text.len()));
        }
        let has_break = command.operator == Some('d');
        return Some(match text[end..].starts_with('\n') {
            true if has_break => (start, end + 1),
            false if has_break && start > 0 => (start - 1, end),
            _ => (start, end),
        });
    }
    if (command.verb, command.argument) == ('i', Some('w')) {
        let class = class_of(text[at..].chars().next()?);
        let before = text[..at].char_indices().rev().take_while(|(_, c)| class_of(*c) == class).last();
        let length: usize = text[at..].chars().take_while(|c| class_of(*c) == class).map(char::len_utf8).sum();
        return Some((before.map_or(at, |(start, _)| start), at + length));
    }
    // As in vi, `cw` keeps the space after the word.
    let is_word_change = command.operator == Some('c') && matches!(command.verb, 'w' | 'W');
    let verb = match (is_word_change, command.verb) {
        (true, 'w') => 'e',
        (true, _) => 'E',
        (false, verb) => verb,
    };
    let (to, is_inclusive) = target_of(&Command { verb, ..*command }, draft)?;
    let end = if is_inclusive && to >= at { after(text, to) } else { to };
    Some((at.min(end), at.max(end)))
}

/// Where a motion leads, and whether an operator takes the character there too.
fn target_of(command: &Command, draft: &Draft) -> Option<(usize, bool)> {
    let (text, at, count) = (draft.text.as_str(), draft.cursor, command.count);
    let (start, end) = (draft.line_start(), draft.line_end());
    let is_big = command.verb.is_ascii_uppercase();
    let repeat = |step: &dyn Fn(usize) -> usize| (0..count).fold(at, |at, _| step(at));
    Some(match command.verb {
        'h' | 'X' => (repeat(&|at| super::before(text, at).max(start)), false),
        'l' => (repeat(&|at| if at < end { after(text, at) } else { at }), false),
        '0' => (start, false),
        '^' => (first_of_line(text, at), false),
        '$' => (end, false),
        'w' | 'W' => (repeat(&|at| next_word(text, at, is_big)), false),
        'b' | 'B' => (repeat(&|at| word_before(text, at, is_big)), false),
        'e' | 'E' => (repeat(&|at| end_of_word(text, at, is_big)), true),
        'G' => (line_start(text, text.len()), false),
        'g' => (0, false),
        'f' | 't' => {
            let next = after(text, at).min(end);
            let found =
                text[next..end].match_indices(command.argument?).nth(count - 1).map(|(found, _)| next + found)?;
            (if command.verb == 'f' { found } else { super::before(text, found) }, true)
        }
        'F' | 'T' => {
            let found =
                text[start..at].rmatch_indices(command.argument?).nth(count - 1).map(|(found, _)| start + found)?;
            (if command.verb == 'F' { found } else { after(text, found) }, false)
        }
        _ => return None,
    })
}

fn first_of_line(text: &str, at: usize) -> usize {
    let start = line_start(text, at);
    let line = &text[start..line_end(text, at)];
    start + line.len() - line.trim_start().len()
}

/// Space, letters, or other characters.
fn class_of(c: char) -> u8 {
    match c {
        c if c.is_whitespace() => 0,
        c if super::is_word(c) => 1,
        _ => 2,
    }
}

fn class(c: char, is_big: bool) -> u8 {
    if is_big { class_of(c).min(1) } else { class_of(c) }
}

fn next_word(text: &str, at: usize, is_big: bool) -> usize {
    let Some(first) = text[at..].chars().next() else { return at };
    let here = class(first, is_big);
    let rest = text[at..].trim_start_matches(|c| here != 0 && class(c, is_big) == here);
    text.len() - rest.trim_start().len()
}

fn word_before(text: &str, at: usize, is_big: bool) -> usize {
    let before = text[..at].trim_end();
    let Some(last) = before.chars().next_back() else { return 0 };
    let kind = class(last, is_big);
    before.trim_end_matches(|c| class(c, is_big) == kind).len()
}

/// The last character of the word, or of the next one if the cursor is there.
fn end_of_word(text: &str, at: usize, is_big: bool) -> usize {
    let rest = text[after(text, at)..].trim_start();
    let start = text.len() - rest.len();
    let Some(first) = rest.chars().next() else { return at };
    let kind = class(first, is_big);
    let end = start + rest.len() - rest.trim_start_matches(|c| class(c, is_big) == kind).len();
    super::before(text, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::key::Modifiers;

    /// The text with `|` at the cursor after these keys in normal mode; `\x1b` is Esc.
    fn after_keys(text: &str, keys: &str) -> String {
        let (mut draft, mut vi) = (Draft::default(), Vi::default());
        draft.insert(text);
        for c in format!("\x1bgg0{keys}").chars() {
            let code = if c == '\x1b' { KeyCode::Escape } else { KeyCode::Char(c) };
            if vi.on_key(&Key::Press(code, Modifiers::default()), &mut draft) == ViOutcome::Pass {
                draft.insert(&c.to_string());
            }
        }
        format!("{}|{}", &draft.text()[..draft.cursor()], &draft.text()[draft.cursor()..])
    }

    #[test]
    fn commands_do_what_they_do_in_vi() {
        for (text, keys, expected) in [
            ("one two.three four", "w", "one |two.three four"),
            ("one two.three four", "3w", "one two.|three four"),
            ("one two.three four", "WW", "one two.three |four"),
            ("one two.three", "$b", "one two.|three"),
            ("one two", "e", "on|e two"),
            ("one two", "wdw", "one| "),
            ("one two three", "d2w", "|three"),
            ("one two", "cwX\x1b", "|X two"),
            ("one two", "wciwX\x1b", "one |X"),
            ("one, two", "dt,", "|, two"),
            ("one, two", "df,", "| two"),
            ("one\ntwo\nthree", "dd", "|two\nthree"),
            ("one\ntwo", "Gdd", "|one"),
            ("one\ntwo", "yyp", "one\n|one\ntwo"),
            ("one\ntwo", "ddp", "two\n|one"),
            ("one\ntwo", "yyP", "|one\none\ntwo"),
            ("abc", "xp", "b|ac"),
            ("abc", "x", "|bc"),
            ("abc", "2xu", "|abc"),
            ("abc", "lD", "|a"),
            ("abc", "lrX", "a|Xc"),
            ("abc", "A!\x1b", "abc|!"),
            ("  abc", "$I>\x1b", "  |>abc"),
            ("abc", "ox\x1b", "abc\n|x"),
            ("abc", "Ox\x1b", "|x\nabc"),
            ("語é x", "lx", "語| x"),
            ("abc", "q3z", "|abc"),
            ("", "dwxp$", "|"),
        ] {
            assert_eq!(after_keys(text, keys), expected, "{text:?} {keys:?}");
        }
    }

    #[test]
    fn no_command_leaves_the_cursor_within_a_character() {
        let keys = "hl0^$wbeWBEGgdcyfFtTrixXsSDCYpPuaAIoO3\x1b\x1b\x1bé ";
        let keys: Vec<char> = keys.chars().collect();
        let mut rng = fastrand::Rng::with_seed(7);
        let (mut draft, mut vi) = (Draft::default(), Vi::default());
        draft.insert("語é one\ntwo 👨‍👩‍👧 x");
        for _ in 0..20_000 {
            let c = keys[rng.usize(..keys.len())];
            let code = if c == '\x1b' { KeyCode::Escape } else { KeyCode::Char(c) };
            if vi.on_key(&Key::Press(code, Modifiers::default()), &mut draft) == ViOutcome::Pass
                && draft.text().len() < 200
            {
                draft.insert(&c.to_string());
            }
            if draft.text().len() > 1_000 {
                draft.take();
            }
            assert!(draft.text().is_char_boundary(draft.cursor()));
        }
    }
}
