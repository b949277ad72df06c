//! The YAML header of a Markdown file: skills and definitions of agents have one, as other agents write them.
//!
//! ```text
//! ---
//! name: release-notes
//! description: >-
//!   Writes the notes of a release.
//! ---
//! The text.
//! ```
//!
//! Only the fields of the top level are read: texts and lists of texts. An alias is an error, so that no header grows.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

const MAX_BYTES: usize = 64 << 10;
/// Of mappings and lists in each other.
const MAX_DEPTH: usize = 16;

/// The fields of a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontMatter {
    fields: Vec<(String, Field)>,
    /// It is not valid YAML, and was read line by line.
    pub is_repaired: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Text(String),
    List(Vec<String>),
    /// A mapping, or a list of something else.
    Other,
}

impl FrontMatter {
    /// The text of a field, if it is one and not blank.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.field(name)? {
            Field::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            Field::List(_) | Field::Other => None,
        }
    }

    /// A field that is true or false.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.text(name)?.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    /// The items of a list, or the words of a text, between spaces and commas outside of parentheses.
    pub fn list(&self, name: &str) -> Option<Vec<String>> {
        match self.field(name)? {
            Field::Text(text) => Some(words(text)),
            Field::List(items) => Some(items.clone()),
            Field::Other => None,
        }
    }

    /// The fields with these names that it has.
    pub fn present_fields<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        names.iter().filter(|name| self.field(name).is_some()).copied().collect()
    }

    /// The first field of this name counts.
    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| field)
    }
}

fn words(text: &str) -> Vec<String> {
    let (mut words, mut depth) = (vec![String::new()], 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match words.last_mut() {
            Some(word) if depth > 0 || !(c.is_whitespace() || c == ',') => word.push(c),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Splits a file into its header and the text after it. Without a header the whole file is the text.
pub fn split(text: &str) -> Result<(FrontMatter, String), String> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let Some(rest) = text.strip_prefix("---\n") else { return Ok((FrontMatter::default(), text)) };
    let is_end = |line: &&str| line.trim_end() == "---";
    let length: usize = rest.split_inclusive('\n').take_while(|line| !is_end(line)).map(str::len).sum();
    if length == rest.len() {
        return Err("the header has no end: add a line ---".into());
    }
    let (header, body) = rest.split_at(length);
    let body = body.split_once('\n').map_or("", |(_, body)| body);
    Ok((parse(header)?, body.trim().to_owned()))
}

fn parse(header: &str) -> Result<FrontMatter, String> {
    if header.len() > MAX_BYTES {
        return Err(format!("the header is larger than {} KiB", MAX_BYTES / 1024));
    }
    match fields(header) {
        Ok(fields) => Ok(FrontMatter { fields, is_repaired: false }),
        Err(problem) => match fields(&quote_values(header)) {
            Ok(fields) => Ok(FrontMatter { fields, is_repaired: true }),
            Err(_) => Err(problem),
        },
    }
}

/// Many headers contain texts with `: ` or `#` without quotes: their values are quoted.
fn quote_values(header: &str) -> String {
    let line = |line: &str| {
        let (key, value) = line.split_once(": ")?;
        let value = value.trim();
        let is_key = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let is_plain = !value.starts_with(['\'', '"', '|', '>', '[', '{']) && !value.is_empty();
        (is_key && is_plain).then(|| format!("{key}: '{}'\n", value.replace('\'', "''")))
    };
    header.lines().map(|text| line(text).unwrap_or_else(|| format!("{text}\n"))).collect()
}

/// Reads the events of the parser.
#[derive(Default)]
struct Reader {
    fields: Vec<(String, Field)>,
    depth: usize,
    key: Option<String>,
    /// The items of the list that is open below the top level; `None` if it has others than texts.
    items: Option<Vec<String>>,
}

fn fields(yaml: &str) -> Result<Vec<(String, Field)>, String> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(yaml) {
        let (event, _) = event.map_err(|error| message(&error))?;
        reader.read(&event)?;
    }
    Ok(reader.fields)
}

fn message(error: &ScanError) -> String {
    format!("the header is not valid YAML (line {}: {})", error.marker().line() + 1, error.info())
}

impl Reader {
    fn read(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Alias(_) => Err("the header has a YAML alias, which is not supported".into()),
            Event::Scalar(value, style, ..) => {
                let is_null = *style == ScalarStyle::Plain && matches!(value.as_ref(), "~" | "null");
                self.on_text(if is_null { "" } else { value })
            }
            Event::MappingStart(..) => self.open(false),
            Event::SequenceStart(..) => self.open(true),
            Event::MappingEnd | Event::SequenceEnd => {
                self.close();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn on_text(&mut self, text: &str) -> Result<(), String> {
        match (self.depth, self.key.take()) {
            (0, _) if text.is_empty() => {}
            (0, _) => return Err("the header has no fields: write `name: value`".into()),
            (1, None) => self.key = Some(text.to_owned()),
            (1, Some(key)) => self.fields.push((key, Field::Text(text.to_owned()))),
            (_, key) => {
                self.key = key;
                self.items.iter_mut().filter(|_| self.depth == 2).for_each(|items| items.push(text.to_owned()));
            }
        }
        Ok(())
    }

    fn open(&mut self, is_list: bool) -> Result<(), String> {
        match self.depth {
            0 if is_list => return Err("the header is a list: write `name: value`".into()),
            1 if self.key.is_none() => return Err("the header has a field without a name".into()),
            1 => self.items = is_list.then(Vec::new),
            _ => self.items = None,
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err("the header is nested too deeply".into()) } else { Ok(()) }
    }

    fn close(&mut self) {
        self.depth -= 1;
        if self.depth == 1
            && let Some(key) = self.key.take()
        {
            self.fields.push((key, self.items.take().map_or(Field::Other, Field::List)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> FrontMatter {
        split(&format!("---\n{header}\n---\nText.\n")).unwrap().0
    }

    #[test]
    fn folded_texts_lists_quotes_and_comments_are_yaml() {
        let read = read(
            "# a comment\nname: notes\ndescription: >-\n  Writes notes: of\n  releases.\ntools: [Read, \"Grep\"]\n\
             other:\n  - Bash(git log *)\n  - Glob\nmetadata:\n  name: inner\n  list: [a, {b: c}]\nquoted: 'it''s: so'\n\
             empty: ~\nflag: true\nwords: Bash(git log *), Read Grep",
        );
        assert_eq!(read.text("name"), Some("notes"));
        assert_eq!(read.text("description"), Some("Writes notes: of releases."));
        assert_eq!(read.text("quoted"), Some("it's: so"));
        assert_eq!((read.text("empty"), read.text("metadata"), read.text("missing")), (None, None, None));
        assert_eq!(read.list("tools").unwrap(), ["Read", "Grep"]);
        assert_eq!(read.list("other").unwrap(), ["Bash(git log *)", "Glob"]);
        assert_eq!(read.list("words").unwrap(), ["Bash(git log *)", "Read", "Grep"]);
        assert_eq!((read.flag("flag"), read.flag("name")), (Some(true), None));
        assert!(!read.is_repaired);
    }

    #[test]
    fn a_text_with_a_colon_that_is_not_quoted_is_read_all_the_same() {
        let read = read("name: notes\ndescription: Use it when: the user says so # and 'more'");
        assert_eq!(read.text("description"), Some("Use it when: the user says so # and 'more'"));
        assert!(read.is_repaired);
        // What YAML reads as an alias is also a text.
        assert_eq!(self::read("a: &x 1\nb: *x").text("b"), Some("*x"));
    }

    #[test]
    fn the_text_follows_the_header_and_is_all_there_is_without_one() {
        let (read, body) = split("---\r\nname: a\r\n---\r\n\r\n# Title\r\n---\r\nText\r\n").unwrap();
        assert_eq!((read.text("name"), body.as_str()), (Some("a"), "# Title\n---\nText"));
        assert_eq!(split("# Title\n").unwrap(), (FrontMatter::default(), "# Title\n".into()));
        assert_eq!(split("---\n---\nText").unwrap().1, "Text");
    }

    #[test]
    fn what_is_no_header_is_an_error_that_says_why() {
        let nested = format!("a: {}1{}", "[".repeat(40), "]".repeat(40));
        let large = format!("a: {}", "x".repeat(MAX_BYTES));
        for (header, expected) in [
            ("a: [&x 1, *x]", "alias"),
            ("- a\n- b", "is a list"),
            ("just words", "no fields"),
            (nested.as_str(), "nested too deeply"),
            (large.as_str(), "larger than 64 KiB"),
            ("a: \"open", "not valid YAML (line"),
        ] {
            let problem = split(&format!("---\n{header}\n---\n")).unwrap_err();
            assert!(problem.contains(expected), "{header:.40}: {problem}");
        }
        assert!(split("---\nname: a\n").unwrap_err().contains("no end"));
    }
}
