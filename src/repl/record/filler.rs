//! Replaces texts by filler of the same length. Of what is typed, commands stay, with the names of agents, options and
//! numbers; so do keys.

use crate::domain::key::TypedKind;

/// Commands whose arguments are no texts of a conversation.
const WITHOUT_TEXT: &[&str] = &[
    "/switch",
    "/kill",
    "/interrupt",
    "/stop",
    "/name",
    "/rename",
    "/approval",
    "/limit",
    "/set",
    "/queue",
    "/thinking",
    "/model",
    "/archive",
    "/unarchive",
    "/delete",
    "/compare",
    "/raw",
    "/usage",
    "/read_mail",
    "/delete_mail",
    "/help",
];
/// Options whose values are names.
const NAMING: &[&str] = &["--name", "--model", "--agent"];

/// Text with filler in place of all but white space.
pub(super) fn fill(text: &str) -> String {
    text.chars().map(filled).collect()
}

fn filled(c: char) -> char {
    if c.is_whitespace() || c.is_control() { c } else { 'x' }
}

/// The arguments of a call with filler in place of its texts.
pub(super) fn redacted(arguments: &str) -> String {
    fn fill(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = "x".repeat(text.chars().count()),
            serde_json::Value::Array(items) => items.iter_mut().for_each(fill),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(fill),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(arguments).unwrap_or(serde_json::Value::Null);
    fill(&mut value);
    value.to_string()
}

/// Where the next character belongs.
#[derive(Default, PartialEq)]
enum State {
    #[default]
    Text,
    Escape,
    Sequence(String),
    Paste,
}

/// Follows what is typed at a terminal.
#[derive(Default)]
pub(super) struct Filler {
    state: State,
    /// The input line, as far as it can be known.
    line: String,
    /// Keys have moved in it or changed it.
    is_unknown: bool,
    /// The word that is being typed after a command, with its times: what it is shows at its end.
    held: Vec<(u128, char)>,
    out: Vec<(u128, String)>,
}

impl Filler {
    /// Takes what was typed at a moment, and returns what can be written, with times.
    pub(super) fn feed(
        &mut self,
        at: u128,
        typed: &str,
        kind: TypedKind,
        is_name: &impl Fn(&str) -> bool,
    ) -> Vec<(u128, String)> {
        for c in typed.chars() {
            match &mut self.state {
                State::Text if c == '\u{1b}' => {
                    self.end_word(is_name);
                    self.push(at, c);
                    self.state = State::Escape;
                }
                State::Text => self.take(at, c, kind, is_name),
                State::Escape if matches!(c, '[' | 'O') => {
                    self.push(at, c);
                    self.state = State::Sequence(String::new());
                }
                State::Escape => {
                    self.state = State::Text;
                    self.is_unknown = true;
                    self.take(at, c, kind, is_name);
                }
                State::Sequence(sequence) => {
                    sequence.push(c);
                    let is_paste = sequence == "200~";
                    self.push(at, c);
                    if is_paste {
                        self.state = State::Paste;
                    } else if matches!(c, '@'..='~') {
                        self.state = State::Text;
                        self.is_unknown = true;
                    }
                }
                State::Paste if c == '\u{1b}' => {
                    self.push(at, c);
                    self.state = State::Escape;
                }
                State::Paste => {
                    self.line.push('x');
                    self.push(at, filled(c));
                }
            }
        }
        // A lone Esc is a key.
        if typed == "\u{1b}" && self.state == State::Escape {
            self.state = State::Text;
        }
        std::mem::take(&mut self.out)
    }

    pub(super) fn take_held(&mut self) -> Vec<(u128, String)> {
        std::mem::take(&mut self.held).into_iter().map(|(at, c)| (at, filled(c).to_string())).collect()
    }

    fn take(&mut self, at: u128, c: char, kind: TypedKind, is_name: &impl Fn(&str) -> bool) {
        if kind == TypedKind::Keys {
            return self.push(at, c);
        }
        if c.is_control() || c == ' ' {
            self.end_word(is_name);
            self.push(at, c);
            return self.follow(c);
        }
        let is_first = self.line.is_empty() && !self.is_unknown;
        let is_command =
            kind == TypedKind::Text && !self.is_unknown && (is_first && c == '/' || self.line.starts_with('/'));
        if is_command && self.line.contains(' ') {
            self.held.push((at, c));
        } else if is_command || is_first && matches!(c, '!' | '#' | '?') {
            self.push(at, c);
        } else {
            self.push(at, filled(c));
        }
        self.line.push(c);
    }

    /// A space or a control character has changed the line.
    fn follow(&mut self, c: char) {
        match c {
            ' ' => self.line.push(c),
            '\r' | '\u{3}' | '\u{15}' => (self.line, self.is_unknown) = (String::new(), false),
            '\u{7f}' | '\u{8}' => drop(self.line.pop()),
            '\t' => {}
            _ => self.is_unknown = true,
        }
    }

    fn end_word(&mut self, is_name: &impl Fn(&str) -> bool) {
        let word: String = self.held.iter().map(|(_, c)| *c).collect();
        let before = self.line.strip_suffix(word.as_str()).unwrap_or(&self.line).trim_end();
        let names = before.rsplit(' ').next().is_some_and(|option| NAMING.contains(&option));
        let is_without_text = before.split(' ').next().is_some_and(|command| WITHOUT_TEXT.contains(&command));
        let is_number = word.chars().all(|c| c.is_ascii_digit());
        let is_kept = names || is_without_text || is_number || word.starts_with('-') || is_name(&word);
        for (at, c) in std::mem::take(&mut self.held) {
            self.push(at, if is_kept { c } else { filled(c) });
        }
    }

    fn push(&mut self, at: u128, c: char) {
        match self.out.last_mut().filter(|(time, _)| *time == at) {
            Some((_, text)) => text.push(c),
            None => self.out.push((at, c.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
