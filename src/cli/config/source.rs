//! The source of a value, and the value as that source has it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a value comes from; later variants take precedence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Default,
    User(Location),
    /// The file of a trusted project.
    Project(Location),
    Variable(String),
    /// An option of the command line.
    Flag(&'static str),
}

/// A line of a file, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub file: PathBuf,
    pub line: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(location) | Self::Project(location) => location.fmt(f),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A value before it is checked against its setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The text of a variable or an option, which can be of any type.
    Untyped(OsString),
    Text(String),
    Number(f64),
    Bool(bool),
    /// A list of texts.
    Texts(Vec<String>),
    /// A type that no setting has: another list, a table, a date.
    Other,
}

impl Value {
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Untyped(text) => text.to_str()?.trim().parse().ok(),
            _ => None,
        }
        .filter(|number: &f64| number.is_finite())
    }

    pub fn boolean(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Untyped(text) => match text.to_str()?.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// Text that is not empty.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_str()),
            Self::Untyped(text) => text.to_str(),
            _ => None,
        }
        .filter(|text| !text.is_empty())
    }

    /// A path that is not empty. In a file it is absolute, so that it does not depend on the working directory.
    pub fn path(&self, home: Option<&Path>) -> Option<PathBuf> {
        match self {
            Self::Untyped(text) => (!text.is_empty()).then(|| PathBuf::from(text)),
            Self::Text(text) => absolute(text, home),
            _ => None,
        }
    }
}

/// A path that begins with `/` or `~/`.
pub fn absolute(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix("~/") {
        Some(below) => home.map(|home| home.join(below)),
        None if text == "~" => home.map(PathBuf::from),
        None => Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
    }
}
