//! Reads the plain subset of the shell language, and refuses everything else at the first character that may not be
//! part of it. Linear in the length of the command.

use std::iter::Peekable;
use std::ops::Range;
use std::str::Chars;

use super::{MAX_COMMANDS, SimpleCommand, Word};
use crate::policy::variables::is_dangerous;

/// Words that change the meaning of what follows if they come first.
const RESERVED: &[&str] = &[
    "!", "time", "coproc", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "in", "function", "select", "{", "}", "[[", "]]",
];

/// A simple command, and its words as they are written, quotes included.
#[derive(Debug, Default)]
pub struct Lexed {
    pub simple: SimpleCommand,
    pub written: Vec<String>,
    /// Its assignments as they are written.
    pub assigned: Vec<String>,
    pub redirects: usize,
}

/// What ends a simple command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// `&&` and `||`, after which another command must follow.
    Joined,
    /// `|`, likewise.
    Piped,
    /// `;`, which needs a command before it.
    Semicolon,
    Newline,
    Input,
}

struct Lexer<'t> {
    rest: Peekable<Chars<'t>>,
    commands: Vec<Lexed>,
    current: Lexed,
}

/// The simple commands of a text in the plain subset.
///
/// # Errors
/// What the text contains that is not part of the subset.
pub fn lex(text: &str) -> Result<Vec<Lexed>, &'static str> {
    let mut lexer = Lexer { rest: text.chars().peekable(), commands: Vec::new(), current: Lexed::default() };
    let mut before = End::Newline;
    loop {
        let end = lexer.command()?;
        let has_words = !lexer.current.written.is_empty();
        match (has_words, end) {
            (true, _) => {
                lexer.current.simple.is_piped = before == End::Piped;
                lexer.commands.push(std::mem::take(&mut lexer.current));
                before = end;
            }
            (false, _) if !lexer.current.assigned.is_empty() => return Err("an assignment without a command"),
            // Lines may be empty, also after an operator that wants another command.
            (false, End::Newline) => {}
            (false, End::Input) => {}
            (false, End::Joined | End::Piped | End::Semicolon) => return Err("an operator without a command"),
        }
        if lexer.commands.len() > MAX_COMMANDS {
            return Err("more than 64 commands");
        }
        if end == End::Input {
            break;
        }
    }
    match (before, lexer.commands.is_empty()) {
        (End::Joined | End::Piped, _) => Err("an operator without a command"),
        (_, true) => Err("no command"),
        _ => Ok(lexer.commands),
    }
}

/// Adds a quoted part, as one with that which ends where it starts.
fn add_quoted(quoted: &mut Vec<Range<usize>>, part: Range<usize>) {
    match quoted.last_mut() {
        Some(last) if last.end == part.start => last.end = part.end,
        _ if part.is_empty() => {}
        _ => quoted.push(part),
    }
}

impl Lexer<'_> {
    /// Reads a simple command and what ends it.
    fn command(&mut self) -> Result<End, &'static str> {
        loop {
            let Some(c) = self.rest.peek().copied() else { return Ok(End::Input) };
            match c {
                ' ' | '\t' => drop(self.rest.next()),
                '\n' | ';' | '&' | '|' => return self.operator(),
                '<' | '>' => self.redirect("")?,
                '#' => return Err("a comment"),
                _ => self.word()?,
            }
        }
    }

    fn operator(&mut self) -> Result<End, &'static str> {
        let c = self.rest.next();
        match (c, self.rest.peek().copied()) {
            (Some('\n'), _) => Ok(End::Newline),
            (Some(';'), Some(';' | '&')) => Err("an operator of case"),
            (Some(';'), _) => Ok(End::Semicolon),
            (Some('&'), Some('&')) | (Some('|'), Some('|')) => {
                self.rest.next();
                Ok(End::Joined)
            }
            (Some('&'), Some('>')) => Err("a redirect to a file"),
            (Some('|'), Some('&')) => Err("a pipe of standard error"),
            (Some('|'), _) => Ok(End::Piped),
            _ => Err("a background job"),
        }
    }

    /// Reads a word, or the descriptor of a redirect with the redirect.
    fn word(&mut self) -> Result<(), &'static str> {
        let (word, written) = self.read_word()?;
        if matches!(self.rest.peek(), Some('<' | '>')) {
            return self.redirect(&written);
        }
        if self.current.written.is_empty() {
            if let Some(name) = assigned_name(&written) {
                return self.assignment(name.to_owned(), word, written);
            }
            check_program(&word)?;
        }
        self.current.written.push(written);
        self.current.simple.words.push(word);
        Ok(())
    }

    /// Takes the value of a variable assignment in front of a command.
    fn assignment(&mut self, name: String, word: Word, written: String) -> Result<(), &'static str> {
        if word.is_glob {
            return Err("an assignment with a pattern");
        }
        if is_dangerous(&name) {
            return Err("an assignment of a variable that may run programs");
        }
        let value = word.text[name.len() + 1..].to_owned();
        self.current.simple.assignments.push((name, value));
        self.current.assigned.push(written);
        Ok(())
    }

    fn read_word(&mut self) -> Result<(Word, String), &'static str> {
        let (mut word, mut written) = (Word::default(), String::new());
        while let Some(c) = self.rest.peek().copied() {
            if matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>') {
                break;
            }
            self.rest.next();
            written.push(c);
            let start = word.text.len();
            match c {
                '\'' => self.single_quoted(&mut word, &mut written)?,
                '"' => self.double_quoted(&mut word, &mut written)?,
                '\\' => {
                    let escaped = self.rest.next().filter(|c| c.is_ascii_graphic() || *c == ' ');
                    let escaped = escaped.ok_or("a backslash before a line break or a special character")?;
                    written.push(escaped);
                    word.text.push(escaped);
                }
                '{' => self.brace(&mut word, &mut written)?,
                _ => {
                    check_unquoted(c, &word.text)?;
                    word.is_glob |= matches!(c, '*' | '?' | '[');
                    word.text.push(c);
                }
            }
            if matches!(c, '\'' | '"' | '\\') {
                add_quoted(&mut word.quoted, start..word.text.len());
            }
        }
        // The command `[`.
        word.is_glob &= written != "[";
        if !word.is_glob {
            word.quoted = Vec::new();
        }
        Ok((word, written))
    }

    fn single_quoted(&mut self, word: &mut Word, written: &mut String) -> Result<(), &'static str> {
        loop {
            let c = self.next_quoted(written)?;
            if c == '\'' {
                return Ok(());
            }
            word.text.push(c);
        }
    }

    fn double_quoted(&mut self, word: &mut Word, written: &mut String) -> Result<(), &'static str> {
        loop {
            match self.next_quoted(written)? {
                '"' => return Ok(()),
                '$' | '`' => return Err("a variable or substitution"),
                '\\' => match self.next_quoted(written)? {
                    c @ ('"' | '\\') => word.text.push(c),
                    '$' | '`' => return Err("a variable or substitution"),
                    '\n' => return Err("a backslash before a line break or a special character"),
                    c => word.text.extend(['\\', c]),
                },
                c => word.text.push(c),
            }
        }
    }

    /// The next character within quotes.
    fn next_quoted(&mut self, written: &mut String) -> Result<char, &'static str> {
        let c = self.rest.next().ok_or("quotes that are not closed")?;
        if c.is_control() && !matches!(c, '\n' | '\t') {
            return Err("a control character");
        }
        written.push(c);
        Ok(c)
    }

    /// Only `{}` and `@{...}`, which git knows, are not expanded.
    fn brace(&mut self, word: &mut Word, written: &mut String) -> Result<(), &'static str> {
        let is_git = written.ends_with("@{");
        if !is_git && written != "{" {
            return Err("a brace expansion");
        }
        word.text.push('{');
        loop {
            let c = self.rest.next().ok_or("a brace expansion")?;
            written.push(c);
            word.text.push(c);
            match c {
                '}' => break,
                c if is_git && (c.is_ascii_alphanumeric() || c == '-') => {}
                _ => return Err("a brace expansion"),
            }
        }
        let is_whole = self.rest.peek().is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|'));
        if is_git || is_whole { Ok(()) } else { Err("a brace expansion") }
    }

    /// Reads a redirect that changes no file.
    fn redirect(&mut self, descriptor: &str) -> Result<(), &'static str> {
        const TO_FILE: &str = "a redirect to a file";
        if self.current.written.is_empty() {
            return Err("a redirect before the command");
        }
        let direction = self.rest.next();
        let next = self.rest.peek().copied();
        match (direction, next, descriptor) {
            (Some('>'), Some('&'), "2") => {
                self.rest.next();
                let (_, written) = self.read_word()?;
                if written != "1" || matches!(self.rest.peek(), Some('<' | '>')) {
                    return Err(TO_FILE);
                }
            }
            (Some('>'), Some('>' | '|' | '&'), _) => return Err(TO_FILE),
            (Some('>'), _, "" | "1" | "2") if self.target()?.text == "/dev/null" => {}
            (Some('>'), ..) => return Err(TO_FILE),
            (Some('<'), Some('<' | '>' | '&'), _) => return Err("a here-document or a special redirect"),
            (_, _, "") if self.current.simple.input.is_none() => {
                self.current.simple.input = Some(self.target()?.text);
            }
            _ => return Err("a redirect of a descriptor"),
        }
        self.current.redirects += 1;
        Ok(())
    }

    /// The file of a redirect.
    fn target(&mut self) -> Result<Word, &'static str> {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let (word, written) = self.read_word()?;
        // A word directly before another redirect may be its descriptor.
        if written.is_empty() || word.is_glob || matches!(self.rest.peek(), Some('<' | '>')) {
            return Err("a redirect to a file");
        }
        Ok(word)
    }
}

/// The variable that a word assigns to, if it is written as an assignment.
fn assigned_name(written: &str) -> Option<&str> {
    let (name, _) = written.split_once('=')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_name)).then_some(name)
}

fn check_program(word: &Word) -> Result<(), &'static str> {
    let text = word.text.as_str();
    if word.is_glob {
        return Err("a pattern as the program");
    }
    if RESERVED.contains(&text) {
        return Err("a compound command");
    }
    if text.contains('=') {
        return Err("an assignment");
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_./+-:@".contains(c);
    if text == "[" || (!text.is_empty() && text.chars().all(is_name)) { Ok(()) } else { Err("an unusual program name") }
}

/// Checks an unquoted character of a word that begins with `before`.
fn check_unquoted(c: char, before: &str) -> Result<(), &'static str> {
    match c {
        '$' | '`' => Err("a variable or substitution"),
        '(' | ')' => Err("a subshell or function"),
        '}' => Err("a brace expansion"),
        '~' if before.is_empty() || before.contains('=') => Err("a home directory (~)"),
        '#' if before.is_empty() => Err("a comment"),
        _ if !c.is_ascii() => Err("an unquoted character that is not ASCII"),
        _ if c.is_control() => Err("a control character"),
        _ => Ok(()),
    }
}
