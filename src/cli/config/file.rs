//! One file: reading it within bounds, parsing it, and messages with line and key, also about unknown keys.
//!
//! Messages never contain a value of the file: it may be a misplaced secret.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind as IoKind, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{Location, Value};
use crate::base::error::{Error, system_message};
use crate::base::file::open_regular;
use crate::base::text;

/// Of a larger file only the start is read.
pub const MAX_BYTES: usize = 1024 * 1024;
/// Further files of a directory are ignored.
const MAX_FILES: usize = 256;
/// Deeper directories are ignored.
const MAX_DEPTH: usize = 4;

#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    /// Problems with which the program starts.
    pub warnings: Vec<String>,
    /// Problems that must be solved before it starts.
    pub errors: Vec<Error>,
    reported: HashSet<String>,
}

impl Diagnostics {
    /// Adds an error, unless it was added before.
    pub fn error(&mut self, message: impl Into<String>) {
        let message = message.into();
        if self.reported.insert(message.clone()) {
            self.errors.push(Error::usage(message));
        }
    }
}

/// The bytes of the user's file, which may be a pipe; `None` if it does not exist. A file that is too large is cut off, and
/// [`text_of`] rejects it.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    bytes_of(File::open(path))
}

/// Like [`read`], for a directory that others can write to: neither a pipe, which could block, nor a symbolic link,
/// whose target could be private, is opened.
pub fn read_regular(path: &Path) -> Result<Option<Vec<u8>>, String> {
    bytes_of(open_regular(path))
}

/// Like [`read_regular`], for a file that may be a link to another one in its directory.
fn read_inside(path: &Path, directory: &Path) -> Result<Vec<u8>, String> {
    let real = path.canonicalize().map_err(|error| unreadable(&error))?;
    let (Ok(directory), Some(Ok(parent))) = (directory.canonicalize(), directory.parent().map(Path::canonicalize))
    else {
        return Err("its directory cannot be read".into());
    };
    if !directory.starts_with(parent) || !real.starts_with(directory) {
        return Err("is a symbolic link that leads out of its directory".into());
    }
    read_regular(&real).map(Option::unwrap_or_default)
}

#[derive(Debug, Clone)]
pub struct FoundFile {
    pub path: PathBuf,
    /// Its contents, or why they cannot be read.
    pub bytes: Result<Vec<u8>, String>,
}

/// The files of a directory that have one of these extensions, sorted by name.
pub fn files(directory: &Path, extensions: &[&str]) -> Vec<FoundFile> {
    files_that(directory, &|path| {
        path.extension().and_then(|extension| extension.to_str()).is_some_and(|name| extensions.contains(&name))
    })
}

/// Like the above, including the directories below; a link to one is not followed.
pub fn files_below(directory: &Path, extensions: &[&str]) -> Vec<FoundFile> {
    fn collect(directory: &Path, extensions: &[&str], depth: usize, found: &mut Vec<FoundFile>) {
        found.extend(files(directory, extensions));
        if depth == 0 || found.len() >= MAX_FILES {
            return;
        }
        let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().filter(is_directory);
        let mut below: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        below.sort();
        below.iter().for_each(|below| collect(below, extensions, depth - 1, found));
    }
    let mut found = Vec::new();
    collect(directory, extensions, MAX_DEPTH, &mut found);
    found.truncate(MAX_FILES);
    found
}

/// The files of a directory, sorted by name.
pub fn all_files(directory: &Path) -> Vec<FoundFile> {
    files_that(directory, &|_| true)
}

fn files_that(directory: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<FoundFile> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| is_wanted(path) && path.is_file());
    paths.sort();
    paths.truncate(MAX_FILES);
    let read = |path: PathBuf| FoundFile { bytes: read_inside(&path, directory), path };
    paths.into_iter().map(read).collect()
}

fn bytes_of(opened: io::Result<File>) -> Result<Option<Vec<u8>>, String> {
    let file = match opened {
        Ok(file) => file,
        // The home of a system user may not be a directory.
        Err(error) if matches!(error.kind(), IoKind::NotFound | IoKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    Ok(Some(bytes))
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        IoKind::IsADirectory => "is a directory, not a file".into(),
        IoKind::PermissionDenied => "permission denied".into(),
        _ => format!("cannot be read: {}", system_message(error)),
    }
}

pub fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() > MAX_BYTES {
        return Err(format!("is larger than {} MiB", MAX_BYTES / 1024 / 1024));
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err("is UTF-16: save it as UTF-8".into());
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err("begins with a byte order mark: save it as UTF-8 without BOM".into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count();
        format!("is not UTF-8 (line {line}): save it as UTF-8")
    })
}

pub struct FileReader<'a> {
    pub path: &'a Path,
    pub text: &'a str,
    pub lines: Lines,
    /// The user's home, for `~/`.
    pub home: Option<&'a Path>,
    /// The directory of the project that the file belongs to.
    pub root: Option<&'a Path>,
    pub diagnostics: Diagnostics,
}

pub struct Entry<'t> {
    /// The full key: `providers.work.kind`.
    pub key: String,
    /// The last part of it.
    pub name: &'t str,
    pub value: &'t Spanned<DeValue<'t>>,
    pub span: Range<usize>,
}

/// The offsets at which the lines of a text begin.
pub struct Lines(Vec<usize>);

impl Lines {
    pub fn of(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// Line and column of a byte of that text, counted from 1; columns are characters.
    fn position(&self, text: &str, at: usize) -> (usize, usize) {
        let line = self.0.partition_point(|start| *start <= at);
        let before = text.get(self.0[line - 1]..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

impl FileReader<'_> {
    pub fn is_project(&self) -> bool {
        self.root.is_some()
    }

    /// The whole file as a table; `None`, with an error, if it is not TOML.
    pub fn parse<'t>(&mut self, text: &'t str) -> Option<DeTable<'t>> {
        match DeTable::parse(text) {
            Ok(table) => Some(table.into_inner()),
            Err(error) => {
                let (line, column) = self.lines.position(text, error.span().map_or(0, |span| span.start));
                let path = self.path.display();
                self.diagnostics.error(format!("{path}:{line}:{column}: invalid TOML: {}", error.message()));
                None
            }
        }
    }

    pub fn location(&self, at: &Range<usize>) -> Location {
        Location { file: self.path.to_owned(), line: self.lines.position(self.text, at.start).0 }
    }

    /// Adds an error about the value of an entry.
    pub fn error(&mut self, entry: &Entry<'_>, message: &str) {
        let location = self.location(&entry.value.span());
        self.diagnostics.error(format!("{location}: {}: {message}", entry.key));
    }

    /// Adds a warning about an entry that does not count.
    pub fn warn(&mut self, entry: &Entry<'_>, message: &str) {
        let location = self.location(&entry.value.span());
        self.diagnostics.warnings.push(format!("{location}: {}: {message}", entry.key));
    }

    /// Adds a warning about an unknown key.
    pub fn unknown<'k>(&mut self, entry: &Entry<'_>, known: impl Iterator<Item = &'k str>) {
        let location = self.location(&entry.span);
        let is_short = entry.name.len() <= 40;
        let nearest = text::nearest(entry.name, known.filter(|_| is_short));
        let suggestion = nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"));
        self.diagnostics.warnings.push(format!("{location}: unknown key {}: ignored{suggestion}", entry.key));
    }

    /// The string of an entry, which must not be empty.
    pub fn text(&mut self, entry: &Entry<'_>) -> Option<String> {
        let text = entry.value.get_ref().as_str().filter(|text| !text.trim().is_empty());
        if text.is_none() {
            self.error(entry, "expected a string");
        }
        text.map(str::to_owned)
    }

    pub fn boolean(&mut self, entry: &Entry<'_>) -> Option<bool> {
        let value = value_of(entry.value.get_ref()).boolean();
        if value.is_none() {
            self.error(entry, "expected true or false");
        }
        value
    }

    pub fn table<'t>(&mut self, entry: &Entry<'t>) -> Vec<Entry<'t>> {
        match entry.value.get_ref().as_table() {
            Some(table) => entries(&entry.key, table),
            None => {
                self.error(entry, "expected a table");
                Vec::new()
            }
        }
    }

    pub fn texts(&mut self, entry: &Entry<'_>) -> Vec<String> {
        let list = entry.value.get_ref().as_array();
        let texts = list.map(|list| list.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect());
        texts.flatten().unwrap_or_else(|| {
            self.error(entry, "expected a list of strings: [\"...\", \"...\"]");
            Vec::new()
        })
    }
}

pub fn entries<'t>(prefix: &str, table: &'t DeTable<'t>) -> Vec<Entry<'t>> {
    let dot = if prefix.is_empty() { "" } else { "." };
    let mut entries: Vec<Entry<'t>> = table
        .iter()
        .map(|(key, value)| {
            let name: &str = key.get_ref();
            Entry { key: format!("{prefix}{dot}{}", quote_key(name)), name, value, span: key.span() }
        })
        .collect();
    entries.sort_by_key(|entry| entry.span.start);
    entries
}

/// A key as part of a one-line message.
pub fn quote_key(name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let short: String = name.chars().take(40).collect();
    if is_plain { short } else { format!("{short:?}") }
}

pub fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Float(float) => float.as_str().parse().map_or(Value::Other, Value::Number),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).map_or(Value::Other, |n| Value::Number(n as f64))
        }
        DeValue::Array(list) => {
            let texts = list.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
            Option::map_or(texts, Value::Other, Value::Texts)
        }
        DeValue::Table(_) | DeValue::Datetime(_) => Value::Other,
    }
}

/// The value as JSON; `None` for a date or a number that JSON does not have.
pub fn json_of(value: &DeValue<'_>) -> Option<serde_json::Value> {
    Some(match value {
        DeValue::String(text) => text.clone().into_owned().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Float(float) => serde_json::Number::from_f64(float.as_str().replace('_', "").parse().ok()?)?.into(),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok()?.into(),
        DeValue::Array(list) => list.iter().map(|item| json_of(item.get_ref())).collect::<Option<Vec<_>>>()?.into(),
        DeValue::Table(table) => {
            let fields = table.iter().map(|(key, value)| Some((key.get_ref().to_string(), json_of(value.get_ref())?)));
            serde_json::Value::Object(fields.collect::<Option<_>>()?)
        }
        DeValue::Datetime(_) => return None,
    })
}

/// The path without symbolic links and `..`; its end need not exist. `None` if its target is unknown.
pub fn resolved(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(path) => Some(path),
        // A link without a target could get one later.
        Err(error) if error.kind() != IoKind::NotFound || exists(path) => None,
        Err(_) => Some(resolved(path.parent()?)?.join(path.file_name()?)),
    }
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
