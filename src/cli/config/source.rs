//! Where a value comes from, and the value as it stood there.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Where a value comes from. What stands later wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The person's own file.
    User(Place),
    /// The project's file, which the person trusts.
    Project(Place),
    /// A variable of the environment.
    Variable(String),
    /// The command line.
    Flag(&'static str),
}

/// A line of a file, from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as it was found.
    pub file: PathBuf,
    /// The line.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(place) | Self::Project(place) => place.fmt(f),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A value before it is known whether it fits. Files know types; variables and the command line are words.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Anything, from a variable or the command line.
    Words(OsString),
    /// Text in quotes.
    Text(String),
    /// A number.
    Number(f64),
    /// `true` or `false`.
    Truth(bool),
    /// What no setting is: a list, a table, a date.
    Other,
}

impl Value {
    /// A number, where it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Words(words) => words.to_str()?.trim().parse().ok(),
            _ => None,
        }
        .filter(|number: &f64| number.is_finite())
    }

    /// True or false, where it is one of them.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Truth(truth) => Some(*truth),
            Self::Words(words) => match words.to_str()?.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// Text, where it is not empty.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_str()),
            Self::Words(words) => words.to_str(),
            _ => None,
        }
        .filter(|text| !text.is_empty())
    }

    /// A path, where it is not empty. A file's begins at the root or at the person's home, so that it means the same
    /// wherever the program is started.
    pub fn path(&self, home: Option<&std::path::Path>) -> Option<PathBuf> {
        match self {
            Self::Words(words) => (!words.is_empty()).then(|| PathBuf::from(words)),
            Self::Text(text) => absolute(text, home),
            _ => None,
        }
    }
}

/// The path that a file names, if it begins at the root or at the person's home (`~/`).
pub fn absolute(text: &str, home: Option<&std::path::Path>) -> Option<PathBuf> {
    match text.strip_prefix("~/") {
        Some(below) => home.map(|home| home.join(below)),
        None if text == "~" => home.map(PathBuf::from),
        None => Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
    }
}
