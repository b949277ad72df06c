//! Environment specifications: which tools an agent has, their working directory and its system prompt. This module does
//! not access the disk.
//!
//! ```text
//!   SPEC  := PART ("+" PART)* ["@" DIR]       coding    readonly+bash@~/project    chat+grep
//!          | [PART ("+" PART)* "+"] PLACE     ssh:web1:/srv/app    readonly+container:alpine@~/project
//!   PART  := the name of an environment or of a tool
//!   DIR   := everything after the first "@"
//!   PLACE := "ssh:" HOST ":" DIR | "container:" IMAGE ["@" DIR]
//! ```
//!
//! A place without parts has the tools of the environment in which agents start.
//!
//! Two parts must not provide the same tool; the error says which of them to omit.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::base::error::Error;
use crate::domain::remote_place::RemotePlace;

/// One environment of the configuration (`[environments.NAME]`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvironmentEntry {
    /// Its name.
    pub name: String,
    /// Names of tools, or of environments whose tools are included.
    pub tools: Vec<String>,
    /// The working directory; `None` for that of the agent whose command enters the environment.
    pub directory: Option<PathBuf>,
    /// Replaces the default system prompt.
    pub system: Option<String>,
}

pub const DEFAULT_ENVIRONMENT: &str = "coding";

/// The built-in environment in a git worktree of its own.
pub const WORKTREE: &str = "worktree";

/// The built-in environments: name, the environment that it extends, its own tools and its description.
const BUILT_IN: &[(&str, Option<&str>, &[&str], &str)] = &[
    ("none", None, &[], "no tools"),
    (
        "chat",
        None,
        &["fork", "kill", "send_mail", "check_mail", "read_mail", "wait", "agents"],
        "tools for other agents",
    ),
    ("readonly", Some("chat"), &["read_file", "glob", "grep", "list_dir", "skill"], "chat and reading files"),
    (
        "coding",
        Some("readonly"),
        &["bash", "bash_output", "bash_kill", "write_file", "edit_file", "multi_edit", "web_fetch", "todo"],
        "readonly, plus changing files and running commands",
    ),
    (WORKTREE, Some("coding"), &[], "coding in its own git worktree"),
];

/// Whether an environment of this name is built in. One of the configuration replaces it; in its `tools` the name means the
/// built-in one.
pub fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(known, ..)| *known == name)
}

/// A parsed specification. Its names may be unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentSpec {
    parts: Vec<Part>,
    /// Where its tools run, if not on this machine.
    pub remote: Option<RemotePlace>,
    /// The working directory on this machine, as written.
    pub directory: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: String,
    /// The position of its first character, from 1.
    position: usize,
}

impl EnvironmentSpec {
    /// The same parts in another directory, or in that of the program.
    pub fn in_directory(&self, directory: Option<&Path>) -> Self {
        let directory = directory.map(|directory| directory.to_string_lossy().into_owned());
        Self { directory, ..self.clone() }
    }

    /// The same parts at another place.
    pub fn at(&self, place: RemotePlace) -> Self {
        Self { remote: Some(place), ..self.clone() }
    }
}

impl FromStr for EnvironmentSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (names, remote, directory) = match RemotePlace::start_in(text) {
            Some(at) => {
                let (place, directory) = RemotePlace::split(&text[at..])?;
                (text[..at].strip_suffix('+'), Some(place), directory)
            }
            None => {
                let (names, directory) = text.split_once('@').map_or((text, None), |(names, rest)| (names, Some(rest)));
                (Some(names), None, directory)
            }
        };
        let mut position = 1;
        let mut parts: Vec<Part> = Vec::new();
        for name in names.into_iter().flat_map(|names| names.split('+')) {
            parts.push(Part { name: check_name(name, position)?.to_owned(), position });
            position += name.chars().count() + 1;
        }
        if let Some(directory) = directory
            && (directory.trim().is_empty() || directory.contains(char::is_control))
        {
            return Err(invalid(position, "directory expected after @"));
        }
        Ok(Self { parts, remote, directory: directory.map(str::to_owned) })
    }
}

fn check_name(name: &str, position: usize) -> Result<&str, Error> {
    let invalid_char = name.chars().position(|c| !c.is_alphanumeric() && c != '_' && c != '-');
    match invalid_char {
        Some(offset) => Err(invalid(position + offset, "join names of environments and tools with +, without spaces")),
        None if name.is_empty() => Err(invalid(position, "name of an environment or a tool expected")),
        None => Ok(name),
    }
}

fn invalid(position: usize, message: &str) -> Error {
    Error::usage(format!("character {position}: {message}"))
}

impl fmt::Display for EnvironmentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parts.iter().map(|part| part.name.as_str()).collect();
        let place = self.remote.as_ref().map(ToString::to_string);
        let all: Vec<&str> = names.into_iter().chain(place.as_deref()).collect();
        f.write_str(&all.join("+"))?;
        self.directory.iter().try_for_each(|directory| write!(f, "@{directory}"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvedSpec {
    pub tools: Vec<String>,
    pub has_worktree: bool,
    /// The working directory, if configured.
    pub directory: Option<PathBuf>,
    /// Replaces the default system prompt.
    pub system: Option<String>,
}

/// The names that a specification can use.
#[derive(Debug, Clone, Copy)]
pub struct EnvironmentNames<'a> {
    /// The environments of the configuration.
    pub entries: &'a [EnvironmentEntry],
    /// All tools.
    pub tools: &'a [&'a str],
}

/// State of resolving names. Each environment is resolved once, however many others contain it; an invalid one ends the
/// search.
#[derive(Debug, Default)]
struct Search {
    /// The configured environments being resolved, the outermost first.
    stack: Vec<String>,
    resolved: HashMap<String, ResolvedSpec>,
}

impl EnvironmentNames<'_> {
    /// Every environment with its description, the built-in ones first.
    pub fn list(&self) -> Vec<(String, String)> {
        let is_replaced = |name: &str| self.entries.iter().any(|entry| entry.name == name);
        let built_in = BUILT_IN.iter().filter(|(name, ..)| !is_replaced(name));
        let built_in = built_in.map(|(name, _, _, about)| ((*name).to_owned(), (*about).to_owned()));
        let mut search = Search::default();
        let mut about = |entry| self.fault(entry, &mut search).unwrap_or_else(|| entry.tools.join("+"));
        let own = self.entries.iter().map(|entry| (entry.name.clone(), about(entry)));
        built_in.chain(own).collect()
    }

    /// Every invalid environment of the configuration with the reason.
    pub fn faults(&self) -> Vec<(String, String)> {
        let mut search = Search::default();
        let mut fault = |entry: &EnvironmentEntry| Some((entry.name.clone(), self.fault(entry, &mut search)?));
        self.entries.iter().filter_map(&mut fault).collect()
    }

    fn fault(&self, entry: &EnvironmentEntry, search: &mut Search) -> Option<String> {
        if self.is_tool(&entry.name) {
            return Some("not available: the name is already used".into());
        }
        let resolved = self.resolve_name(&entry.name, search);
        resolved.err().map(|reason| format!("not available: {reason}"))
    }

    fn is_tool(&self, name: &str) -> bool {
        self.tools.contains(&name)
    }

    /// The combined contents of all parts of a specification.
    ///
    /// # Errors
    /// A name is unknown, or two parts conflict; the error names the character.
    pub fn resolve(&self, spec: &EnvironmentSpec) -> Result<ResolvedSpec, Error> {
        let mut whole = ResolvedSpec::default();
        let mut search = Search::default();
        let mut known: Vec<(&Part, ResolvedSpec)> = Vec::new();
        if spec.parts.is_empty() {
            whole = self.resolve_name(DEFAULT_ENVIRONMENT, &mut search).map_err(|reason| invalid(1, &reason))?;
        }
        for part in &spec.parts {
            let resolved =
                self.resolve_name(&part.name, &mut search).map_err(|reason| invalid(part.position, &reason))?;
            for (before, other) in &known {
                check_compatible((&before.name, other), (&part.name, &resolved))
                    .map_err(|reason| invalid(part.position, &reason))?;
            }
            whole.add(&resolved);
            known.push((part, resolved));
        }
        if let Some(place) = spec.remote.as_ref().filter(|_| whole.has_worktree) {
            return Err(Error::usage(format!("{WORKTREE} and {place} cannot be combined: omit one of them")));
        }
        Ok(whole)
    }

    fn resolve_name(&self, name: &str, search: &mut Search) -> Result<ResolvedSpec, String> {
        let is_inside = search.stack.last().is_some_and(|outer| outer == name);
        let is_configured = self.entries.iter().any(|entry| entry.name == name);
        if is_built_in(name) && (is_inside || !is_configured) {
            // A worktree has the tools of the environment in which agents start.
            if name == WORKTREE && self.entries.iter().any(|entry| entry.name == DEFAULT_ENVIRONMENT) {
                let whole = self.resolve_name(DEFAULT_ENVIRONMENT, search)?;
                return Ok(ResolvedSpec { has_worktree: true, ..whole });
            }
            return Ok(built_in(name).expect("it is built in"));
        }
        if self.is_tool(name) {
            return Ok(ResolvedSpec { tools: vec![name.to_owned()], ..ResolvedSpec::default() });
        }
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            return Err(unknown(name, &search.stack));
        };
        if search.stack.iter().any(|outer| outer == name) {
            return Err(format!("environment {name} contains itself"));
        }
        if let Some(known) = search.resolved.get(name) {
            return Ok(known.clone());
        }
        search.stack.push(name.to_owned());
        let whole = self.sum(entry, search);
        search.stack.pop();
        if let Ok(resolved) = &whole {
            search.resolved.insert(name.to_owned(), resolved.clone());
        }
        whole
    }

    fn sum(&self, entry: &EnvironmentEntry, search: &mut Search) -> Result<ResolvedSpec, String> {
        let mut whole = ResolvedSpec::default();
        let mut known: Vec<(&String, ResolvedSpec)> = Vec::new();
        for name in &entry.tools {
            let resolved = self.resolve_name(name, search)?;
            for (before, other) in &known {
                check_compatible((before, other), (name, &resolved))
                    .map_err(|reason| format!("in environment {}: {reason}", entry.name))?;
            }
            whole.add(&resolved);
            known.push((name, resolved));
        }
        // The settings of the entry itself override those of its parts.
        whole.directory = entry.directory.clone().or(whole.directory);
        whole.system = entry.system.clone().or(whole.system);
        whole.has_worktree |= entry.name == WORKTREE;
        Ok(whole)
    }
}

fn unknown(name: &str, stack: &[String]) -> String {
    let context = stack.last().map(|outer| format!("in environment {outer}: ")).unwrap_or_default();
    format!("{context}unknown environment or tool {name:?}: /env list shows all")
}

fn built_in(name: &str) -> Option<ResolvedSpec> {
    let (_, base, own, _) = BUILT_IN.iter().find(|(known, ..)| *known == name)?;
    let mut resolved = base.and_then(built_in).unwrap_or_default();
    resolved.tools.extend(own.iter().map(|tool| (*tool).to_owned()));
    resolved.has_worktree = name == WORKTREE;
    Some(resolved)
}

impl ResolvedSpec {
    fn add(&mut self, other: &Self) {
        self.tools.extend(other.tools.iter().cloned());
        self.has_worktree |= other.has_worktree;
        self.directory = self.directory.take().or(other.directory.clone());
        self.system = self.system.take().or(other.system.clone());
    }

    fn has_all_of(&self, other: &Self) -> bool {
        other.tools.iter().all(|tool| self.tools.contains(tool))
    }
}

fn check_compatible(
    (left, of_left): (&str, &ResolvedSpec),
    (right, of_right): (&str, &ResolvedSpec),
) -> Result<(), String> {
    if left == right {
        return Err(format!("{left} is given twice"));
    }
    if let Some(tool) = of_left.tools.iter().find(|tool| of_right.tools.contains(tool)) {
        let advice = match (of_left.has_all_of(of_right), of_right.has_all_of(of_left)) {
            (true, _) => format!("omit {right}"),
            (_, true) => format!("omit {left}"),
            _ => "omit one of them, or list tools one by one".into(),
        };
        return Err(format!("{left} and {right} both provide {tool}: {advice}"));
    }
    if of_left.directory.is_some() && of_right.directory.is_some() {
        return Err(format!("{left} and {right} both set the directory"));
    }
    if of_left.system.is_some() && of_right.system.is_some() {
        return Err(format!("{left} and {right} both set the system prompt"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
