//! One file: read within bounds, parsed, and spoken of by line and key.
//!
//! Nothing that stands in a file is repeated in an error: it may be a key that was put into the wrong place.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind as IoKind, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{Place, Value};
use crate::base::error::{Error, ErrorKind};
use crate::base::file::{Links, ancestors_in_repository, open_regular};
use crate::base::text;

/// A configuration is written by hand: what is larger is something else.
const MOST_BYTES: usize = 1024 * 1024;
/// Of one directory more are not read.
const MOST_FILES: usize = 256;

/// What is wrong with the configuration.
#[derive(Debug, Clone, Default)]
pub struct Complaints {
    /// What is ignored, and the program starts all the same.
    pub warnings: Vec<String>,
    /// What must be mended before it starts.
    pub errors: Vec<Error>,
    /// The words of all errors.
    told: HashSet<String>,
}

impl Complaints {
    /// Something that must be mended. It is told once, however many stumble over it.
    pub fn refuse(&mut self, words: impl Into<String>) {
        let words = words.into();
        if self.told.insert(words.clone()) {
            self.errors.push(Error::new(ErrorKind::Usage, words));
        }
    }
}

/// The bytes of a person's own file, which may be a pipe; `None` if there is no such file. One that is too large is cut:
/// [`text_of`] refuses it.
///
/// # Errors
/// It cannot be read; the words say why.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    bytes_of(File::open(path))
}

/// The same of what lies in a directory that may be anybody's: a pipe there is not waited for.
///
/// # Errors
/// As for [`read`].
pub fn read_regular(path: &Path) -> Result<Option<Vec<u8>>, String> {
    bytes_of(open_regular(path, Links::Followed))
}

/// A file of a directory, as it was found.
#[derive(Debug, Clone)]
pub struct FoundFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds, or why that cannot be read.
    pub bytes: Result<Vec<u8>, String>,
}

/// The files of a directory whose names end like this, by name.
pub fn files(directory: &Path, ends: &[&str]) -> Vec<FoundFile> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_meant =
        |path: &PathBuf| path.extension().and_then(|end| end.to_str()).is_some_and(|end| ends.contains(&end));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| is_meant(path) && path.is_file());
    paths.sort();
    paths.truncate(MOST_FILES);
    let read = |path: PathBuf| FoundFile { bytes: read_regular(&path).map(Option::unwrap_or_default), path };
    paths.into_iter().map(read).collect()
}

fn bytes_of(opened: io::Result<File>) -> Result<Option<Vec<u8>>, String> {
    let file = match opened {
        Ok(file) => file,
        // A home that is no directory, as that of many a service, holds no configuration either.
        Err(error) if matches!(error.kind(), IoKind::NotFound | IoKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
    };
    let mut bytes = Vec::new();
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    Ok(Some(bytes))
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        IoKind::IsADirectory => "is a directory, not a file".into(),
        IoKind::PermissionDenied => "may not be read: change its permissions".into(),
        _ => format!("cannot be read: {error}"),
    }
}

/// The bytes as text.
///
/// # Errors
/// They are none of a usual size; the words say why.
pub fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!("is larger than {} MiB: this is no configuration", MOST_BYTES / 1024 / 1024));
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err("is UTF-16: save it as UTF-8".into());
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err("begins with a byte order mark: save it as UTF-8 without one".into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count();
        format!("is not UTF-8 (line {line}): save it as UTF-8")
    })
}

/// One file as it is being read.
pub struct Reading<'a> {
    /// Where it was found.
    pub path: &'a Path,
    /// Its text, in which positions count.
    pub text: &'a str,
    /// Where its lines are.
    pub lines: Lines,
    /// The person's home, for `~/`.
    pub home: Option<&'a Path>,
    /// Whether it is a project's.
    pub is_project: bool,
    /// What is wrong with it.
    pub complaints: Complaints,
}

/// An entry of a table: its key, and the value behind it.
pub struct Entry<'t> {
    /// With the tables before it, as a person would write it: `providers.work.kind`.
    pub key: String,
    /// The last part of it.
    pub name: &'t str,
    /// The value, which knows where it stands.
    pub value: &'t Spanned<DeValue<'t>>,
    /// Where the key stands.
    pub span: Range<usize>,
}

/// Where the lines of a text begin: each of its faults may ask on which line it stands.
pub struct Lines(Vec<usize>);

impl Lines {
    /// Looks through a text once.
    pub fn of(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// Line and column, from 1, of a byte of that text; columns are characters.
    fn position(&self, text: &str, at: usize) -> (usize, usize) {
        let line = self.0.partition_point(|start| *start <= at);
        let before = text.get(self.0[line - 1]..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

impl Reading<'_> {
    /// The whole file as a table; nothing, with the place where it goes wrong, if it is not TOML.
    pub fn parse<'t>(&mut self, text: &'t str) -> Option<DeTable<'t>> {
        match DeTable::parse(text) {
            Ok(table) => Some(table.into_inner()),
            Err(error) => {
                let (line, column) = self.lines.position(text, error.span().map_or(0, |span| span.start));
                let path = self.path.display();
                self.complaints.refuse(format!("{path}:{line}:{column}: this is not TOML: {}", error.message()));
                None
            }
        }
    }

    /// The line on which something stands.
    pub fn place(&self, at: &Range<usize>) -> Place {
        Place { file: self.path.to_owned(), line: self.lines.position(self.text, at.start).0 }
    }

    /// A value that must be mended.
    pub fn refuse(&mut self, entry: &Entry<'_>, words: &str) {
        let place = self.place(&entry.value.span());
        self.complaints.refuse(format!("{place}: {}: {words}", entry.key));
    }

    /// A key that nobody knows.
    pub fn unknown<'k>(&mut self, entry: &Entry<'_>, known: impl Iterator<Item = &'k str>) {
        let place = self.place(&entry.span);
        let is_short = entry.name.len() <= 40;
        let meant = text::nearest(entry.name, known.filter(|_| is_short));
        let meant = meant.map_or_else(String::new, |name| format!(": did you mean {name}?"));
        self.complaints.warnings.push(format!("{place}: {} is not known and ignored{meant}", entry.key));
    }

    /// The text of an entry, not empty.
    pub fn text(&mut self, entry: &Entry<'_>) -> Option<String> {
        let text = entry.value.get_ref().as_str().filter(|text| !text.trim().is_empty());
        if text.is_none() {
            self.refuse(entry, "expected a text in quotes");
        }
        text.map(str::to_owned)
    }

    /// The table of an entry, in the order in which it is written.
    pub fn table<'t>(&mut self, entry: &Entry<'t>) -> Vec<Entry<'t>> {
        match entry.value.get_ref().as_table() {
            Some(table) => entries(&entry.key, table),
            None => {
                self.refuse(entry, "expected a table");
                Vec::new()
            }
        }
    }

    /// The texts of a list.
    pub fn texts(&mut self, entry: &Entry<'_>) -> Vec<String> {
        let list = entry.value.get_ref().as_array();
        let texts = list.map(|list| list.iter().map(|one| one.get_ref().as_str().map(str::to_owned)).collect());
        texts.flatten().unwrap_or_else(|| {
            self.refuse(entry, "expected a list of texts: [\"...\", \"...\"]");
            Vec::new()
        })
    }
}

/// The entries of a table in the order in which they are written.
pub fn entries<'t>(prefix: &str, table: &'t DeTable<'t>) -> Vec<Entry<'t>> {
    let dot = if prefix.is_empty() { "" } else { "." };
    let mut entries: Vec<Entry<'t>> = table
        .iter()
        .map(|(key, value)| {
            let name: &str = key.get_ref();
            Entry { key: format!("{prefix}{dot}{}", shown(name)), name, value, span: key.span() }
        })
        .collect();
    entries.sort_by_key(|entry| entry.span.start);
    entries
}

/// A key as a line of a message may hold it.
fn shown(name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let short: String = name.chars().take(40).collect();
    if is_plain { short } else { format!("{short:?}") }
}

/// The value of an entry, as settings take it.
pub fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Boolean(truth) => Value::Truth(*truth),
        DeValue::Float(float) => float.as_str().parse().map_or(Value::Other, Value::Number),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).map_or(Value::Other, |n| Value::Number(n as f64))
        }
        DeValue::Array(_) | DeValue::Table(_) | DeValue::Datetime(_) => Value::Other,
    }
}

/// The file that was read, for those who only want to know that it is there.
pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The directory `name` in this one or in the nearest above it, up to the root of its repository.
pub fn upwards(directory: &Path, name: &str) -> Option<PathBuf> {
    ancestors_in_repository(directory).map(|above| above.join(name)).find(|path| path.is_dir())
}
