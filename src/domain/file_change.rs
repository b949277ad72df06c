//! What tools changed in files, and which files an undo has to restore.
//!
//! A step is what one tool call, or one undo, changed. Its files have a state before and after it. An undo goes back over the
//! steps of one agent from a message on; it restores a file only if nothing else changed it between or after them:
//!
//! ```text
//!   step 1   a: A ──► B                        an undo of both steps: a from C to A, b from E to D
//!   step 2   a: B ──► C    b: D ──► E          if a is not in state C now, or was not in state B before step 2: refused
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::base::id::{AgentId, MessageId};

/// The tool name of a step that an undo made.
pub const UNDO: &str = "undo";
/// The tool name of a step that took an undo back.
pub const REDO: &str = "redo";

/// A file at one moment. Written as `-`, `f MODE DIGEST SIZE`, `l DIGEST SIZE`, `d MODE` or `?`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FileState {
    Absent,
    File {
        /// The permission bits.
        mode: u32,
        /// SHA-256 of the content, in hexadecimal.
        digest: String,
        /// In bytes.
        size: u64,
    },
    /// A symbolic link; the digest is that of the path that it contains.
    Link {
        digest: String,
        size: u64,
    },
    Directory {
        mode: u32,
    },
    /// A device, a pipe, a socket, or a file that cannot be read.
    Other,
}

impl FileState {
    /// The digest and the size of the content to keep.
    pub fn content(&self) -> Option<(&str, u64)> {
        match self {
            Self::File { digest, size, .. } | Self::Link { digest, size } => Some((digest, *size)),
            Self::Absent | Self::Directory { .. } | Self::Other => None,
        }
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("-"),
            Self::File { mode, digest, size } => write!(f, "f {mode:o} {digest} {size}"),
            Self::Link { digest, size } => write!(f, "l {digest} {size}"),
            Self::Directory { mode } => write!(f, "d {mode:o}"),
            Self::Other => f.write_str("?"),
        }
    }
}

impl FromStr for FileState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(' ').collect();
        let mode = |mode: &str| u32::from_str_radix(mode, 8).ok();
        let state = match parts[..] {
            ["-"] => Some(Self::Absent),
            ["?"] => Some(Self::Other),
            ["d", bits] => mode(bits).map(|mode| Self::Directory { mode }),
            ["l", digest, size] => size.parse().ok().map(|size| Self::Link { digest: digest.into(), size }),
            ["f", bits, digest, size] => {
                let size = size.parse().ok();
                mode(bits).zip(size).map(|(mode, size)| Self::File { mode, digest: digest.into(), size })
            }
            _ => None,
        };
        state.ok_or_else(|| format!("unknown state of a file {text:?}"))
    }
}

impl Serialize for FileState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The id of a step, and one of its files.
pub type FileOfStep = (String, PathBuf);

/// One file of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Absolute, without symbolic links on the way.
    pub path: PathBuf,
    pub before: FileState,
    pub after: FileState,
}

/// What one tool call, one turn of a host or one undo changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStep {
    /// Unique; also the name of its journal.
    pub id: String,
    pub agent: AgentId,
    /// The tool call, as the provider named it; empty for an undo and for a turn of a host.
    pub call: String,
    /// The tool or the host, or [`UNDO`] or [`REDO`].
    pub tool: String,
    /// In milliseconds since 1970.
    pub began_at: i64,
    pub ended_at: i64,
    /// The files were compared before and after the call, so that what others wrote meanwhile is among them.
    pub is_compared: bool,
    /// Why the changes of the call are not or not fully known.
    pub flaw: Option<String>,
    pub changes: Vec<FileChange>,
    /// For an undo: the files of steps whose change no longer counts; for a redo, counts again.
    #[serde(default)]
    pub undoes: Vec<FileOfStep>,
}

impl FileStep {
    /// A step without results yet, with a new id.
    pub fn new(agent: AgentId, tool: &str) -> Self {
        Self {
            id: AgentId::random().to_string(),
            agent,
            call: String::new(),
            tool: tool.into(),
            began_at: 0,
            ended_at: 0,
            is_compared: false,
            flaw: None,
            changes: Vec::new(),
            undoes: Vec::new(),
        }
    }
}

/// A step as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStep {
    pub step: FileStep,
    /// The message with the tool call; for an undo the message before which the files were brought back.
    pub message: MessageId,
    /// The files that an undo brought back.
    pub undone: BTreeSet<PathBuf>,
}

impl StoredStep {
    /// The changes that were not undone.
    pub fn open_changes(&self) -> impl Iterator<Item = &FileChange> {
        self.step.changes.iter().filter(|change| !self.undone.contains(&change.path))
    }

    /// Whether a tool or a host made it, and not a person who undid something.
    pub fn is_of_tool(&self) -> bool {
        self.step.tool != UNDO && self.step.tool != REDO
    }
}

/// How far an undo goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoTo {
    /// Before the newest turn that changed files.
    LastTurn,
    /// Before this message.
    Before(MessageId),
    /// Takes the newest undo back.
    Redo,
}

/// What a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoRequest {
    pub to: UndoTo,
    /// Brings the other files back where some cannot be.
    pub skips: bool,
}

impl UndoRequest {
    /// From options: the message, if one is given, and whether an undo is taken back.
    pub fn new(to: Option<i64>, skips: bool, is_redo: bool) -> Self {
        let to = match to {
            _ if is_redo => UndoTo::Redo,
            Some(message) => UndoTo::Before(MessageId(message)),
            None => UndoTo::LastTurn,
        };
        Self { to, skips }
    }
}

/// How commits are applied to the base branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LandMethod {
    /// With a merge commit, unless the branch can just move on.
    #[default]
    Merge,
    /// One after another, onto the branch.
    Rebase,
    /// All of them as one.
    Squash,
}

impl LandMethod {
    /// The option that selects it.
    pub const fn option(self) -> Option<&'static str> {
        match self {
            Self::Merge => None,
            Self::Rebase => Some("rebase"),
            Self::Squash => Some("squash"),
        }
    }
}

/// How the branch of a worktree is brought to where it left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LandRequest {
    /// How the branches are combined.
    pub method: LandMethod,
    /// The message with which uncommitted changes are committed first.
    pub commit: Option<String>,
    /// The last lines of the messages of the commits that are made, such as `Assisted-by: polylogue`.
    pub trailers: Vec<String>,
    /// Without such a message, uncommitted changes are left where they are, instead of refused.
    pub only_committed: bool,
    /// Whether the commit runs the hooks of the repository and is signed, as the person's own commits are.
    pub verifies: bool,
    /// The agent is killed when its work has landed.
    pub kills_agent_after: bool,
    /// The command that has to succeed on the result before the branch moves on, with its arguments; empty for none.
    pub check: Vec<String>,
    /// What the directory gets in which it runs.
    pub extras: WorktreeExtras,
    /// What has landed before it in one go, and whose work it was: one of them may be why the command fails.
    pub before: Vec<(Landed, String)>,
}

/// What a new worktree gets besides a checkout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorktreeExtras {
    /// The command that is run there, with its arguments; empty for none.
    pub setup: Vec<String>,
    /// Untracked files, relative to the repository.
    pub copy: Vec<String>,
}

/// What was landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    /// For the person.
    pub text: String,
    /// The branch that has moved on.
    pub target: String,
    /// Its commit before, and after.
    pub commits: (String, String),
}

impl Landed {
    /// For programs, with the name of the agent.
    pub fn as_json(&self, agent: &str) -> Value {
        let Self { text, target, commits: (before, after) } = self;
        json!({"agent": agent, "landed": true, "target": target, "before": before, "after": after, "text": text})
    }
}

/// Why a worktree has not landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLanded {
    pub why: String,
    /// The branch has everything already.
    pub is_up_to_date: bool,
}

impl<T: Into<String>> From<T> for NotLanded {
    fn from(why: T) -> Self {
        Self { why: why.into(), is_up_to_date: false }
    }
}

impl NotLanded {
    /// For programs, with the name of the agent.
    pub fn as_json(&self, agent: &str) -> Value {
        json!({"agent": agent, "landed": false, "up_to_date": self.is_up_to_date, "text": self.why})
    }
}

/// How several worktrees are landed, one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandMany {
    /// The agents, which may have been killed; empty for all that have a worktree.
    pub agents: Vec<AgentId>,
    pub method: LandMethod,
    /// Leaves uncommitted changes, instead of committing them with the agent's title.
    pub only_committed: bool,
}

/// A file that an undo restores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    pub path: PathBuf,
    /// Its state now, unless somebody else changed it.
    pub from: FileState,
    pub to: FileState,
}

/// Why an undo does not restore something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The file; none if it is a whole call.
    pub path: Option<PathBuf>,
    pub why: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.why),
            None => f.write_str(&self.why),
        }
    }
}

/// What an undo has to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoPlan {
    pub restores: Vec<Restore>,
    /// The files and calls that cannot be undone, so far as the steps tell it.
    pub conflicts: Vec<Conflict>,
    /// The files of steps whose change no longer counts.
    pub undoes: Vec<FileOfStep>,
}

/// The plan to undo these steps, oldest first. `also_wrote` names another agent that wrote a file during a step, if that is
/// known.
pub fn plan_undo(steps: &[StoredStep], also_wrote: impl Fn(&FileStep, &Path) -> Option<String>) -> UndoPlan {
    let mut files: BTreeMap<&Path, Restore> = BTreeMap::new();
    let (mut refused, mut conflicts) = (BTreeSet::new(), Vec::new());
    let mut refuse = |path: &Path, why: String, conflicts: &mut Vec<Conflict>| {
        if refused.insert(path.to_owned()) {
            conflicts.push(Conflict { path: Some(path.into()), why });
        }
    };
    let mut undoes = Vec::new();
    for stored in steps {
        let StoredStep { step, message, .. } = stored;
        if let Some(flaw) = &step.flaw {
            let why = format!("{} in message {}: {flaw}", step.tool, message.0);
            conflicts.push(Conflict { path: None, why });
        }
        for change in stored.open_changes() {
            undoes.push((step.id.clone(), change.path.clone()));
            let path = change.path.as_path();
            if let Some(other) = also_wrote(step, path).filter(|_| step.is_compared) {
                refuse(
                    path,
                    format!("{other} wrote it too while {} of message {} ran", step.tool, message.0),
                    &mut conflicts,
                );
            }
            match files.get_mut(path) {
                None => {
                    let (from, to) = (change.after.clone(), change.before.clone());
                    files.insert(path, Restore { path: path.into(), from, to });
                }
                Some(restore) => {
                    // A directory may have stayed because of files of others.
                    let is_directory = matches!(change.before, FileState::Directory { .. });
                    if restore.from != change.before && !is_directory {
                        refuse(path, format!("others changed it before message {}", message.0), &mut conflicts);
                    }
                    restore.from = change.after.clone();
                }
            }
        }
    }
    let restores = files.into_values().filter(|file| !refused.contains(&file.path) && file.from != file.to);
    let restores = restores.collect();
    undoes.retain(|(_, path)| !refused.contains(path));
    UndoPlan { restores, conflicts, undoes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(digest: &str) -> FileState {
        FileState::File { mode: 0o644, digest: digest.into(), size: 3 }
    }

    fn step(number: i64, changes: &[(&str, FileState, FileState)]) -> StoredStep {
        let change = |(path, before, after): &(&str, FileState, FileState)| FileChange {
            path: path.into(),
            before: before.clone(),
            after: after.clone(),
        };
        let step = FileStep {
            id: format!("s{number}"),
            agent: AgentId::from_bytes([1; 16]),
            call: String::new(),
            tool: "bash".into(),
            began_at: number,
            ended_at: number,
            is_compared: false,
            flaw: None,
            changes: changes.iter().map(change).collect(),
            undoes: Vec::new(),
        };
        StoredStep { step, message: MessageId(number), undone: BTreeSet::new() }
    }

    #[test]
    fn states_read_back() {
        let link = FileState::Link { digest: "ab".into(), size: 1 };
        for state in [FileState::Absent, file("00"), link, FileState::Directory { mode: 0o755 }, FileState::Other] {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        for wrong in ["", "f", "f 8 ab 1", "l ab x", "x"] {
            assert!(wrong.parse::<FileState>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_undo_goes_from_the_newest_state_to_the_oldest() {
        let steps = [
            step(1, &[("/a", file("A"), file("B"))]),
            step(2, &[("/a", file("B"), file("C")), ("/b", FileState::Absent, file("E"))]),
        ];
        let plan = plan_undo(&steps, |_, _| None);
        let restore = |path: &str, from, to| Restore { path: path.into(), from, to };
        assert_eq!(plan.restores, [restore("/a", file("C"), file("A")), restore("/b", file("E"), FileState::Absent)]);
        let undoes = [("s1", "/a"), ("s2", "/a"), ("s2", "/b")].map(|(step, path)| (step.to_owned(), path.into()));
        assert_eq!((plan.conflicts, plan.undoes), (Vec::new(), undoes.to_vec()));
    }

    #[test]
    fn a_file_that_others_changed_between_is_refused_and_named() {
        let steps = [step(1, &[("/a", file("A"), file("B"))]), step(2, &[("/a", file("X"), file("C"))])];
        let plan = plan_undo(&steps, |_, _| None);
        assert_eq!(plan.restores, []);
        assert_eq!(plan.conflicts[0].to_string(), "/a: others changed it before message 2");
        let later = plan_undo(&steps[1..], |_, _| None);
        assert_eq!((later.restores.len(), later.conflicts), (1, Vec::new()));
    }

    #[test]
    fn what_another_agent_wrote_during_a_compared_call_is_refused() {
        let mut compared = step(1, &[("/a", file("A"), file("B"))]);
        compared.step.is_compared = true;
        let plan = plan_undo(&[compared], |_, path| (path == Path::new("/a")).then(|| "web".into()));
        assert_eq!(plan.conflicts[0].to_string(), "/a: web wrote it too while bash of message 1 ran");
    }
}
