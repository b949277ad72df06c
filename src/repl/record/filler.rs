//! Decides what of typed bytes is recorded. Texts are replaced by filler of the same length unless they are kept; commands
//! stay, with the names of agents, options and small numbers; so do keys that are no text. What may be typed in `/setup` is
//! never recorded.

use crate::commands;
use crate::domain::key::TypedKind;

/// Commands whose arguments are names.
const WITHOUT_TEXT: &[&str] = &[
    "/switch",
    "/kill",
    "/interrupt",
    "/stop",
    "/name",
    "/rename",
    "/approval",
    "/limit",
    "/thinking",
    "/model",
    "/archive",
    "/unarchive",
    "/delete",
    "/usage",
    "/read_mail",
    "/delete_mail",
];
/// Options whose values are names.
const NAMING: &[&str] = &["--name", "--model", "--agent"];
/// The longest name of an option.
const LONGEST_OPTION: usize = 24;
/// Digits of a number that says nothing.
const SHORT_NUMBER: usize = 4;
/// The longest key sequence.
const LONGEST_SEQUENCE: usize = 32;
const PASTE_BEGINS: &str = "[200~";
const PASTE_ENDS: &str = "\u{1b}[201~";

/// Text with filler in place of all but white space.
pub(super) fn fill(text: &str) -> String {
    text.chars().map(filled).collect()
}

fn filled(c: char) -> char {
    if c.is_whitespace() || c.is_control() { c } else { 'x' }
}

/// The arguments of a call with filler in place of its texts. Names of parameters and small numbers stay.
pub(super) fn redacted(arguments: &str) -> String {
    fn fill(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = "x".repeat(text.chars().count()),
            serde_json::Value::Array(items) => items.iter_mut().for_each(fill),
            serde_json::Value::Object(fields) => {
                let is_name = |name: &str| name.len() <= LONGEST_OPTION && name.chars().all(is_of_name);
                fields.retain(|name, _| is_name(name));
                fields.values_mut().for_each(fill);
            }
            serde_json::Value::Number(number) if number.to_string().len() > SHORT_NUMBER => *value = 1.into(),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(arguments).unwrap_or(serde_json::Value::Null);
    fill(&mut value);
    value.to_string()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_lowercase() || c == '_'
}

/// Where the next character belongs.
#[derive(Default, PartialEq)]
enum State {
    #[default]
    Text,
    Escape,
    /// Of a key, without its escape.
    Sequence(String),
    Paste,
    /// A reply of the terminal, which is not recorded.
    Reply,
}

/// Follows what is typed at a terminal.
#[derive(Default)]
pub(super) struct Filler {
    keeps_texts: bool,
    state: State,
    /// The input line, as far as it can be known.
    line: String,
    /// Keys have moved in it or changed it.
    is_unknown: bool,
    /// The word of a command that is being typed, with its times: what it is shows at its end.
    held: Vec<(u128, char)>,
    /// What may be the end of a paste.
    tail: String,
    out: Vec<(u128, String)>,
}

impl Filler {
    pub(super) fn new(keeps_texts: bool) -> Self {
        Self { keeps_texts, ..Self::default() }
    }

    pub(super) fn keeps_texts(&self) -> bool {
        self.keeps_texts
    }

    /// Takes what was typed at a moment, and returns what can be written, with times. `kind` is that of the first key: a
    /// key may change what those after it are.
    pub(super) fn feed(
        &mut self,
        at: u128,
        typed: &str,
        mut kind: TypedKind,
        is_name: &impl Fn(&str) -> bool,
    ) -> Vec<(u128, String)> {
        for c in typed.chars() {
            if kind == TypedKind::Secret {
                break;
            }
            let may_open_setup = c == '\r' && (self.is_unknown || self.line.starts_with("/s"));
            self.take(at, c, kind, is_name);
            if kind == TypedKind::Keys && self.state == State::Text {
                (kind, self.is_unknown) = (TypedKind::Text, true);
            }
            if may_open_setup {
                kind = TypedKind::Secret;
            }
        }
        // A lone Esc is a key.
        if self.state == State::Escape || kind == TypedKind::Secret {
            self.state = State::Text;
        }
        std::mem::take(&mut self.out)
    }

    pub(super) fn take_held(&mut self) -> Vec<(u128, String)> {
        let held = std::mem::take(&mut self.held);
        held.into_iter().map(|(at, c)| (at, self.filled(c).to_string())).collect()
    }

    fn filled(&self, c: char) -> char {
        if self.keeps_texts { c } else { filled(c) }
    }

    fn take(&mut self, at: u128, c: char, kind: TypedKind, is_name: &impl Fn(&str) -> bool) {
        match &mut self.state {
            State::Text if c == '\u{1b}' => {
                self.end_word(is_name);
                self.push(at, c);
                self.state = State::Escape;
            }
            State::Text => self.take_key(at, c, kind, is_name),
            State::Escape => self.take_after_escape(at, c),
            State::Sequence(sequence) => {
                sequence.push(c);
                let is_open = matches!(c, ' '..='?') && sequence.len() <= LONGEST_SEQUENCE;
                if !is_open {
                    let sequence = std::mem::take(sequence);
                    self.end_sequence(at, &sequence);
                }
            }
            State::Paste => self.take_pasted(at, c),
            State::Reply => {
                if matches!(c, '\u{7}' | '\\' | '\u{9c}') {
                    self.state = State::Text;
                }
            }
        }
    }

    /// The escape is recorded already.
    fn take_after_escape(&mut self, at: u128, c: char) {
        self.is_unknown = true;
        self.state = match c {
            '[' | 'O' => State::Sequence(c.into()),
            ']' | 'P' | '_' | '^' => {
                self.take_back_escape();
                State::Reply
            }
            c => {
                self.push(at, c);
                State::Text
            }
        };
    }

    /// A sequence is complete, whether it is a key or not.
    fn end_sequence(&mut self, at: u128, sequence: &str) {
        let is_key = sequence.ends_with(|c: char| matches!(c, '@'..='~'));
        self.state = if sequence == PASTE_BEGINS { State::Paste } else { State::Text };
        if is_key && is_letter(sequence) && !self.keeps_texts {
            self.take_back_escape();
            return self.push(at, 'x');
        }
        for c in sequence.chars() {
            let c = if is_key { c } else { self.filled(c) };
            self.push(at, c);
        }
    }

    /// Drops the escape that was written last, because what it began is no key.
    fn take_back_escape(&mut self) {
        if let Some((_, text)) = self.out.last_mut().filter(|(_, text)| text.ends_with('\u{1b}')) {
            text.pop();
        }
        self.out.retain(|(_, text)| !text.is_empty());
    }

    fn take_pasted(&mut self, at: u128, c: char) {
        self.line.push('x');
        self.tail.push(c);
        if PASTE_ENDS.starts_with(&self.tail) && self.tail != PASTE_ENDS {
            return;
        }
        let tail = std::mem::take(&mut self.tail);
        let is_end = tail == PASTE_ENDS;
        for c in tail.chars() {
            let c = if is_end { c } else { self.filled(c) };
            self.push(at, c);
        }
        if is_end {
            self.state = State::Text;
        }
    }

    fn take_key(&mut self, at: u128, c: char, kind: TypedKind, is_name: &impl Fn(&str) -> bool) {
        if kind == TypedKind::Keys {
            return self.push(at, c);
        }
        let is_erased = matches!(c, '\u{7f}' | '\u{8}');
        if is_erased && !self.held.is_empty() {
            self.line.pop();
            return self.held.push((at, c));
        }
        if c.is_control() || c == ' ' {
            self.end_word(is_name);
            self.push(at, c);
            return self.change_line(c);
        }
        let is_first = self.line.is_empty() && !self.is_unknown;
        if !self.is_unknown && (is_first && c == '/' || self.line.starts_with('/')) {
            self.held.push((at, c));
        } else if is_first && matches!(c, '!' | '#' | '?') {
            self.push(at, c);
        } else {
            let c = self.filled(c);
            self.push(at, c);
        }
        self.line.push(c);
    }

    /// A space or a control character has changed the line.
    fn change_line(&mut self, c: char) {
        match c {
            ' ' => self.line.push(c),
            '\r' | '\u{3}' | '\u{15}' => (self.line, self.is_unknown) = (String::new(), false),
            '\u{7f}' | '\u{8}' => drop(self.line.pop()),
            _ => self.is_unknown = true,
        }
    }

    /// Writes the word of a command that was held back, or filler in its place.
    fn end_word(&mut self, is_name: &impl Fn(&str) -> bool) {
        let mut word = String::new();
        for (_, c) in &self.held {
            if c.is_control() {
                word.pop();
            } else {
                word.push(*c);
            }
        }
        let before = self.line.strip_suffix(word.as_str()).unwrap_or(&self.line).trim_end();
        let is_kept = if before.is_empty() {
            word.strip_prefix('/').is_some_and(|name| commands::find(name).is_some())
        } else {
            self.keeps_texts || is_kept_after(before, &word) || is_name(&word)
        };
        for (at, c) in std::mem::take(&mut self.held) {
            let c = if is_kept { c } else { self.filled(c) };
            self.push(at, c);
        }
    }

    fn push(&mut self, at: u128, c: char) {
        match self.out.last_mut().filter(|(time, _)| *time == at) {
            Some((_, text)) => text.push(c),
            None => self.out.push((at, c.to_string())),
        }
    }
}

/// Whether a word of a command says nothing of a text: an option, the name that follows one, a short number, or an argument
/// of a command that takes only names.
fn is_kept_after(before: &str, word: &str) -> bool {
    let is_option = word.len() <= LONGEST_OPTION
        && word.strip_prefix("--").is_some_and(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    let is_number = word.len() <= SHORT_NUMBER && word.chars().all(|c| c.is_ascii_digit());
    let is_named = before.rsplit(' ').next().is_some_and(|option| NAMING.contains(&option));
    let is_without_text = before.split(' ').next().is_some_and(|command| WITHOUT_TEXT.contains(&command));
    is_option || is_number || is_named || is_without_text
}

/// Whether a sequence is a typed character: `CSI 27 ; modifiers ; code ~` (xterm) or `CSI code ; modifiers u` (kitty), where
/// neither Ctrl nor Alt is pressed.
fn is_letter(sequence: &str) -> bool {
    let numbers: Vec<u32> = sequence[1..sequence.len() - 1]
        .split(';')
        .map(|number| number.split(':').next().and_then(|number| number.parse().ok()).unwrap_or(1))
        .collect();
    let (code, modifiers) = match (sequence.ends_with('u'), numbers.as_slice()) {
        (true, [code, rest @ ..]) => (*code, rest.first().copied().unwrap_or(1)),
        (false, [27, modifiers, code]) if sequence.ends_with('~') => (*code, *modifiers),
        _ => return false,
    };
    let (alt, ctrl) = (2, 4);
    code > 32 && code != 127 && modifiers.saturating_sub(1) & (alt | ctrl) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(typed: &str, kind: TypedKind, keeps_texts: bool) -> String {
        let mut filler = Filler::new(keeps_texts);
        let pieces = filler.feed(0, typed, kind, &|_: &str| false);
        let held = filler.take_held();
        pieces.into_iter().chain(held).map(|(_, piece)| piece).collect()
    }

    /// A key may open what the next one is typed into: only the first of a read is what it was taken for.
    #[test]
    fn after_a_key_that_may_change_what_is_typed_nothing_is_kept() {
        assert_eq!(once("ebecause acme\r", TypedKind::Keys, false), "exxxxxxx xxxx\r");
        assert_eq!(once("sk-ant-key\r", TypedKind::Secret, true), "");
        for keeps_texts in [false, true] {
            let typed = once("/setup\r1\rsk-ant-key\r", TypedKind::Text, keeps_texts);
            assert_eq!(typed, "/setup\r");
            let completed = once("/se\t\rsk-ant-key\r", TypedKind::Text, keeps_texts);
            assert!(!completed.contains("sk-ant"), "{completed}");
        }
        assert_eq!(once("/tell main it\r/tell main that\r", TypedKind::Text, true), "/tell main it\r/tell main that\r");
    }

    #[test]
    fn sequences_of_characters_and_replies_of_terminals_are_no_keys() {
        assert_eq!(once("\u{1b}[27;2;80~\u{1b}[97;2u", TypedKind::Text, false), "xx");
        assert_eq!(once("\u{1b}[27;5;97~\u{1b}[1;5C", TypedKind::Text, false), "\u{1b}[27;5;97~\u{1b}[1;5C");
        assert_eq!(once("\u{1b}]11;rgb:0/0/0\u{7}hi", TypedKind::Text, false), "xx");
        assert_eq!(once("\u{1b}[\u{442}\u{430} \u{434}\u{430}\r", TypedKind::Text, false), "\u{1b}xxx xx\r");
        let pasted = "\u{1b}[200~a\u{1b}[31mred\u{1b}[201~b";
        assert_eq!(once(pasted, TypedKind::Text, false), "\u{1b}[200~x\u{1b}xxxxxxx\u{1b}[201~x");
    }

    fn filled_typing(typed: &[&str]) -> String {
        let mut filler = Filler::default();
        let is_name = |word: &str| word == "scout";
        let mut out = String::new();
        for (at, keys) in (0..).zip(typed) {
            let pieces = filler.feed(at, keys, TypedKind::Text, &is_name);
            out.extend(pieces.into_iter().map(|(_, piece)| piece));
        }
        out.extend(filler.take_held().into_iter().map(|(_, piece)| piece));
        out
    }

    #[test]
    fn texts_are_filled_and_commands_names_and_keys_stay() {
        for (typed, expected) in [
            ("hello all\r", "xxxxx xxx\r"),
            ("/tell scout the secret 7\r", "/tell scout xxx xxxxxx 7\r"),
            ("/fork --name spy --stay a task\r", "/fork --name spy --stay x xxxx\r"),
            ("/kill spy\r", "/kill spy\r"),
            ("!ls secret\r", "!xx xxxxxx\r"),
            ("/home/al/acme is broken\r", "xxxxxxxxxxxxx xx xxxxxx\r"),
            (
                "/tell scout --password=hunter2 -s3 4111111111111111\r",
                "/tell scout xxxxxxxxxxxxxxxxxx xxx xxxxxxxxxxxxxxxx\r",
            ),
            ("/sea\thush\r", "xxxx\txxxx\r"),
            ("/swx\u{7f}itch scout\r", "/swx\u{7f}itch scout\r"),
            ("\u{1b}[A\u{1b}[5~no\r", "\u{1b}[A\u{1b}[5~xx\r"),
            ("\u{1b}[200~/tell two\nlines\u{1b}[201~ more\r", "\u{1b}[200~xxxxx xxx\nxxxxx\u{1b}[201~ xxxx\r"),
            ("\u{1b}[D/secret", "\u{1b}[Dxxxxxxx"),
            ("no\u{15}/switch scout\r", "xx\u{15}/switch scout\r"),
            ("/send scout half", "/send scout xxxx"),
        ] {
            assert_eq!(filled_typing(&[typed]), expected);
            let keys: Vec<String> = typed.chars().map(String::from).collect();
            if !typed.contains('\u{1b}') {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                assert_eq!(filled_typing(&keys), expected, "key by key");
            }
        }
    }
}
