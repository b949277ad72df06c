//! Environments as a person writes and defines them: which tools an agent has, where they work, and what it is told about
//! itself. What exists on the disk is no affair of this file.
//!
//! ```text
//!   SPEC  := PART ("+" PART)* ["@" DIR]       coding    readonly+bash@~/project    chat+grep
//!   PART  := the name of an environment or of a tool
//!   DIR   := everything behind the first "@"
//! ```
//!
//! Two parts may not provide the same tool: then one of them is superfluous or not what the person thinks it is, and the
//! error says which one to leave out.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::base::error::{Error, ErrorKind};

/// One environment of the configuration (`[environments.NAME]`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvironmentEntry {
    /// What people call it.
    pub name: String,
    /// Names of tools, or of other environments whose tools it has.
    pub tools: Vec<String>,
    /// Where its tools work; `None`: where the agent works that asks for it.
    pub directory: Option<PathBuf>,
    /// What the model is told in place of the usual instructions.
    pub system: Option<String>,
}

/// What an agent has that was told nothing else.
pub const USUAL: &str = "coding";

/// The built-in environment in a git worktree of its own.
pub const WORKTREE: &str = "worktree";

/// The built-in environments: name, the one whose tools it has too, its own tools, and what it is.
const BUILT_IN: &[(&str, Option<&str>, &[&str], &str)] = &[
    ("none", None, &[], "no tools at all"),
    (
        "chat",
        None,
        &["fork", "kill", "send_mail", "check_mail", "read_mail", "wait", "agents"],
        "other agents, no files",
    ),
    ("readonly", Some("chat"), &["read_file", "glob", "grep", "list_dir"], "chat, and looking at files"),
    ("coding", Some("readonly"), &["bash", "write_file", "edit_file"], "readonly, and changing files and commands"),
    (WORKTREE, Some("coding"), &[], "coding in a git worktree of its own"),
];

/// A specification that can be read; whether its names mean anything is another question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentSpec {
    parts: Vec<Part>,
    /// Where its tools work, as written.
    pub directory: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: String,
    /// Where it stands: which character, from 1.
    at: usize,
}

impl EnvironmentSpec {
    /// The same parts in another directory, or wherever the program is started.
    pub fn in_directory(&self, directory: Option<&Path>) -> Self {
        let directory = directory.map(|directory| directory.to_string_lossy().into_owned());
        Self { directory, ..self.clone() }
    }
}

impl FromStr for EnvironmentSpec {
    type Err = Error;

    /// # Errors
    /// It is no specification; the words say at which character.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (names, directory) = text.split_once('@').map_or((text, None), |(names, rest)| (names, Some(rest)));
        let mut at = 1;
        let mut parts: Vec<Part> = Vec::new();
        for name in names.split('+') {
            parts.push(Part { name: checked(name, at)?.to_owned(), at });
            at += name.chars().count() + 1;
        }
        if let Some(directory) = directory
            && (directory.trim().is_empty() || directory.contains(char::is_control))
        {
            return Err(wrong(at, "a directory must stand behind @"));
        }
        Ok(Self { parts, directory: directory.map(str::to_owned) })
    }
}

fn checked(name: &str, at: usize) -> Result<&str, Error> {
    let odd = name.chars().position(|c| !c.is_alphanumeric() && c != '_' && c != '-');
    match odd {
        Some(odd) => Err(wrong(at + odd, "names of environments and tools are joined with +, without blanks")),
        None if name.is_empty() => Err(wrong(at, "the name of an environment or a tool must stand here")),
        None => Ok(name),
    }
}

fn wrong(at: usize, words: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("character {at}: {words}"))
}

/// What [`FromStr`] reads back.
impl fmt::Display for EnvironmentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parts.iter().map(|part| part.name.as_str()).collect();
        f.write_str(&names.join("+"))?;
        self.directory.iter().try_for_each(|directory| write!(f, "@{directory}"))
    }
}

/// What a specification means.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvedSpec {
    /// The names of its tools.
    pub tools: Vec<String>,
    /// It has a git worktree of its own.
    pub has_worktree: bool,
    /// Where its tools work, if it says: as the configuration has it.
    pub directory: Option<PathBuf>,
    /// What the model is told in place of the usual instructions.
    pub system: Option<String>,
}

/// Everything that a name can mean.
#[derive(Debug, Clone, Copy)]
pub struct EnvironmentNames<'a> {
    /// What the person defined.
    pub entries: &'a [EnvironmentEntry],
    /// All tools.
    pub tools: &'a [&'a str],
}

/// A search for what names mean. Each environment is looked into once, however many others it is part of; one that cannot
/// be had ends the search.
#[derive(Debug, Default)]
struct Search {
    /// The user's environments that are being looked into, the outermost first.
    within: Vec<String>,
    /// What those mean that were looked into.
    known: HashMap<String, ResolvedSpec>,
}

impl EnvironmentNames<'_> {
    /// Every environment and what it is, the built-in ones first.
    pub fn list(&self) -> Vec<(String, String)> {
        let built_in = BUILT_IN.iter().map(|(name, _, _, about)| ((*name).to_owned(), (*about).to_owned()));
        let mut search = Search::default();
        let mut about = |entry| self.fault(entry, &mut search).unwrap_or_else(|| entry.tools.join("+"));
        let own = self.entries.iter().map(|entry| (entry.name.clone(), about(entry)));
        built_in.chain(own).collect()
    }

    /// Every environment of the person that is none, and why.
    pub fn faults(&self) -> Vec<(String, String)> {
        let mut search = Search::default();
        let mut fault = |entry: &EnvironmentEntry| Some((entry.name.clone(), self.fault(entry, &mut search)?));
        self.entries.iter().filter_map(&mut fault).collect()
    }

    fn fault(&self, entry: &EnvironmentEntry, search: &mut Search) -> Option<String> {
        let is_shadowed = BUILT_IN.iter().any(|(name, ..)| *name == entry.name) || self.is_tool(&entry.name);
        if is_shadowed {
            return Some("cannot be had: the name means something else already".into());
        }
        let meaning = self.resolve_name(&entry.name, search);
        meaning.err().map(|words| format!("cannot be had: {words}"))
    }

    fn is_tool(&self, name: &str) -> bool {
        self.tools.contains(&name)
    }

    /// What a specification means.
    ///
    /// # Errors
    /// A name means nothing, or two parts provide the same or contradict each other; the words say at which character.
    pub fn resolve(&self, spec: &EnvironmentSpec) -> Result<ResolvedSpec, Error> {
        let mut whole = ResolvedSpec::default();
        let mut search = Search::default();
        let mut known: Vec<(&Part, ResolvedSpec)> = Vec::new();
        for part in &spec.parts {
            let meaning = self.resolve_name(&part.name, &mut search).map_err(|words| wrong(part.at, &words))?;
            for (before, other) in &known {
                agree((&before.name, other), (&part.name, &meaning)).map_err(|words| wrong(part.at, &words))?;
            }
            whole.add(&meaning);
            known.push((part, meaning));
        }
        Ok(whole)
    }

    fn resolve_name(&self, name: &str, search: &mut Search) -> Result<ResolvedSpec, String> {
        if let Some(meaning) = built_in(name) {
            return Ok(meaning);
        }
        if self.is_tool(name) {
            return Ok(ResolvedSpec { tools: vec![name.to_owned()], ..ResolvedSpec::default() });
        }
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            return Err(unknown(name, &search.within));
        };
        if search.within.iter().any(|outer| outer == name) {
            return Err(format!("the environment {name} contains itself"));
        }
        if let Some(known) = search.known.get(name) {
            return Ok(known.clone());
        }
        search.within.push(name.to_owned());
        let whole = self.sum(entry, search);
        search.within.pop();
        if let Ok(meaning) = &whole {
            search.known.insert(name.to_owned(), meaning.clone());
        }
        whole
    }

    fn sum(&self, entry: &EnvironmentEntry, search: &mut Search) -> Result<ResolvedSpec, String> {
        let mut whole = ResolvedSpec::default();
        let mut known: Vec<(&String, ResolvedSpec)> = Vec::new();
        for name in &entry.tools {
            let meaning = self.resolve_name(name, search)?;
            for (before, other) in &known {
                agree((before, other), (name, &meaning))
                    .map_err(|words| format!("in the environment {}: {words}", entry.name))?;
            }
            whole.add(&meaning);
            known.push((name, meaning));
        }
        // What the entry says itself counts for more than what its parts say.
        whole.directory = entry.directory.clone().or(whole.directory);
        whole.system = entry.system.clone().or(whole.system);
        Ok(whole)
    }
}

fn unknown(name: &str, within: &[String]) -> String {
    let place = within.last().map(|outer| format!("in the environment {outer}: ")).unwrap_or_default();
    format!("{place}there is no environment or tool called {name:?}: /env list shows them")
}

fn built_in(name: &str) -> Option<ResolvedSpec> {
    let (_, base, own, _) = BUILT_IN.iter().find(|(known, ..)| *known == name)?;
    let mut meaning = base.and_then(built_in).unwrap_or_default();
    meaning.tools.extend(own.iter().map(|tool| (*tool).to_owned()));
    meaning.has_worktree = name == WORKTREE;
    Some(meaning)
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

/// Whether two parts go together.
fn agree((left, of_left): (&str, &ResolvedSpec), (right, of_right): (&str, &ResolvedSpec)) -> Result<(), String> {
    if left == right {
        return Err(format!("{left} is named twice"));
    }
    if let Some(tool) = of_left.tools.iter().find(|tool| of_right.tools.contains(tool)) {
        let way_out = match (of_left.has_all_of(of_right), of_right.has_all_of(of_left)) {
            (true, _) => format!("leave {right} out"),
            (_, true) => format!("leave {left} out"),
            _ => "leave one of them out, or name tools one by one".into(),
        };
        return Err(format!("{left} and {right} both provide {tool}: {way_out}"));
    }
    if of_left.directory.is_some() && of_right.directory.is_some() {
        return Err(format!("{left} and {right} both say where to work"));
    }
    if of_left.system.is_some() && of_right.system.is_some() {
        return Err(format!("{left} and {right} both say what the model is told"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
