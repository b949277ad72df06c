//! The changes of a command in a repository: git compares the working tree before and after it.
//!
//! Git works in a directory of ours, with an index and objects of its own; the objects of the repository are only read,
//! and no configuration, hook, filter or attribute of it is used. The contents of changed files move to the kept ones,
//! so that nothing here is needed afterwards. Ignored files are not compared.
//!
//! ```text
//!   DATA/snapshots/trees/ROOT/            a git directory; ROOT is a digest of the path of the working tree
//!   DATA/snapshots/trees/ROOT/index       which files had which content; each call works on a copy and leaves it as the next one
//!   DATA/snapshots/trees/ROOT/call-ID/    the copy of the index, and what git prints
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::digest::sha256;

use super::{MOST_KEPT, OpenStep, Snapshots};
use crate::base::beneath::{copy, open_path, read, read_followed};
use crate::base::file::git_in;
use crate::base::id::AgentId;
use crate::base::project::ProjectDirectories;
use crate::domain::file_change::{FileChange, FileState, FileStep};
use crate::policy;
use crate::sandbox;
use crate::tools::branch_diff::quote_path;
use crate::tools::capture::Capture;
use crate::tools::command::{self, Ending, Program};
use crate::tools::file_access::reason;
use crate::tools::{Environment, Job};

/// For one comparison. The first one of a repository reads every file.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The same after an interrupted command: the person waits for its end.
const TIME_LIMIT_AT_END: Duration = Duration::from_secs(2);
/// The directory of an older call was left by a process that was killed.
const LONGEST_CALL: Duration = Duration::from_hours(24);
const IGNORE_FILE: &str = ".gitignore";
/// Of an exclude file of a repository, in bytes.
const MOST_EXCLUDED: u64 = 1 << 20;
/// Of an index, in bytes.
pub const MOST_IN_INDEX: u64 = 1 << 30;
/// Of a list of files, in bytes.
const MOST_PRINTED: u64 = 128 << 20;
/// Maximum changed files kept for one command.
const MOST_FILES: usize = 5_000;
/// Entries of one of the 256 directories of objects from which on all objects are removed, as in `git gc --auto`.
const MANY_OBJECTS: usize = 27;
/// Of a line of `git cat-file`, in bytes: an id, a type and a size.
const MOST_IN_LINE: u64 = 256;
/// The permissions that most directories have.
const DIRECTORY_MODE: u32 = 0o755;

/// Takes other repositories out of the index: git would look into those that it knows, with their own filters.
const FORGET_REPOSITORIES: &str = "git ls-files -s | sed -n 's/^160000 /0 /p' | git update-index --index-info; ";
const BEFORE: &str = "git add -A --ignore-errors 2>>\"$OUT/errors\"; git write-tree >\"$OUT/before\"; \
    git ls-files -z >\"$OUT/files\"";
const AFTER: &str = "git add -A --ignore-errors 2>>\"$OUT/errors\"; \
    git diff-tree -r -t -z --no-renames \"$(cat \"$OUT/before\")\" \"$(git write-tree)\" >\"$OUT/changes\"";
const CONTENTS: &str = "git cat-file --batch <\"$OUT/wanted\" >\"$OUT/contents\"";

/// What the scripts do does not depend on anybody's configuration.
const FIXED: [(&str, &str); 14] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_COUNT", "5"),
    ("GIT_CONFIG_KEY_0", "core.autocrlf"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "core.attributesFile"),
    ("GIT_CONFIG_VALUE_1", "/dev/null"),
    ("GIT_CONFIG_KEY_2", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_2", "false"),
    ("GIT_CONFIG_KEY_3", "core.compression"),
    ("GIT_CONFIG_VALUE_3", "1"),
    ("GIT_CONFIG_KEY_4", "advice.addEmbeddedRepo"),
    ("GIT_CONFIG_VALUE_4", "false"),
];

/// Working trees in which a comparison took too long in this process.
static SLOW: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A command, or another program, that is about to run, or runs.
pub struct Watched {
    snapshots: Snapshots,
    step: OpenStep,
    /// `None` if its changes are unknown.
    tree: Option<Tree>,
}

/// Records the working tree before a command, unless it only reads. `None` if nothing is kept.
pub fn watch(tool: &str, command: &str, env: &Environment, job: &Job) -> Option<Watched> {
    if policy::only_reads(command, env.is_sandboxed()) { None } else { Watched::begin(tool, env, job) }
}

impl Watched {
    /// Records the working tree. `None` if nothing is kept.
    pub fn begin(tool: &str, env: &Environment, job: &Job) -> Option<Self> {
        let recorder = env.recorder.as_ref()?;
        let mut step = recorder.begin(tool);
        let tree = Tree::before(env, &recorder.snapshots, job);
        let flaw = match &tree {
            Ok(_) => "the program ended while it ran, so its changes are unknown".to_owned(),
            Err(why) => format!("its changes are unknown: {why}"),
        };
        step.set_flaw(Some(flaw));
        step.save();
        Some(Self { snapshots: recorder.snapshots.clone(), step, tree: tree.ok() })
    }

    /// Nothing was run.
    pub fn forget(self) {
        self.step.finish(false);
    }

    /// Looks at the working tree again. `has_run` is false if nothing was run that may have changed it.
    pub fn finish(mut self, env: &Environment, has_run: bool, is_interrupted: bool) -> Option<FileStep> {
        if let Some(tree) = self.tree.take() {
            let limit = if is_interrupted { TIME_LIMIT_AT_END } else { TIME_LIMIT };
            match tree.changes(env, &self.snapshots, limit) {
                Ok((changes, flaw)) => {
                    self.step.set_flaw(flaw);
                    self.step.set_compared(changes);
                }
                Err(why) => self.step.set_flaw(Some(format!("its changes are unknown: {why}"))),
            }
        }
        self.step.finish(has_run)
    }
}

/// A working tree, and where git compares it.
struct Tree {
    top: PathBuf,
    git: PathBuf,
    /// The objects of the repository.
    objects: PathBuf,
    /// The directory of this call.
    out: PathBuf,
    /// Unusual permissions before the command: git records only whether a file is executable.
    modes: HashMap<Vec<u8>, u32>,
    /// The directories with files that git knows, and whether an ignore file there hides everything new.
    hides_all: BTreeMap<PathBuf, bool>,
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Files that stay only take space.
        let _ = fs::remove_dir_all(&self.out);
    }
}

impl Tree {
    fn before(env: &Environment, snapshots: &Snapshots, job: &Job) -> Result<Self, String> {
        let workspace = env.worktree.as_ref().unwrap_or(&env.working_directory);
        let project = ProjectDirectories::of(workspace);
        let is_top = |path: &&Path| git_in(path).is_some();
        let top = project.root().filter(is_top).ok_or("its directory is in no git repository")?;
        let common = sandbox::git_directory(top).ok_or("its repository is not readable")?;
        let data = snapshots.directory.parent().unwrap_or(&snapshots.directory);
        if real(data).starts_with(real(top)) {
            return Err("the data directory of polylogue is in its repository".into());
        }
        if SLOW.lock().unwrap_or_else(PoisonError::into_inner).contains(top) {
            return Err("its repository is too large to compare".into());
        }
        let git = snapshots.directory.join("trees").join(sha256(top.as_os_str().as_bytes()));
        let out = git.join(format!("call-{}", AgentId::random()));
        let mut tree = Self {
            top: top.to_owned(),
            objects: common.join("objects"),
            out,
            git,
            modes: HashMap::new(),
            hides_all: BTreeMap::new(),
        };
        tree.prepare(&common).map_err(|error| reason(&error))?;
        tree.run(&format!("{FORGET_REPOSITORIES}{BEFORE}"), TIME_LIMIT, env, job)?;
        let files = tree.read_output("files").map_err(|error| reason(&error))?;
        tree.modes = tree.unusual_modes(&files);
        let parents = files.split(|byte| *byte == 0).filter_map(|path| Path::new(OsStr::from_bytes(path)).parent());
        let top = real(top);
        let directories: BTreeSet<PathBuf> = parents.map(|parent| top.join(parent)).chain([top.clone()]).collect();
        tree.hides_all = directories.into_iter().map(|path| (path.clone(), hides_all(&path))).collect();
        Ok(tree)
    }

    /// The permissions of files and directories that git would not make in the same way.
    fn unusual_modes(&self, files: &[u8]) -> HashMap<Vec<u8>, u32> {
        let (mut modes, mut last) = (HashMap::new(), PathBuf::new());
        let mut look = |path: &Path| {
            let Ok(found) = self.top.join(path).symlink_metadata() else { return };
            let mode = found.mode() & 0o7777;
            let is_usual = if found.is_file() { matches!(mode, 0o644 | 0o755) } else { mode == DIRECTORY_MODE };
            if !is_usual && !found.is_symlink() {
                modes.insert(path.as_os_str().as_bytes().to_owned(), mode);
            }
        };
        for path in files.split(|byte| *byte == 0).map(|path| Path::new(OsStr::from_bytes(path))) {
            let parent = path.parent().unwrap_or(Path::new(""));
            // Files of a directory follow each other.
            if parent != last {
                parent.ancestors().filter(|above| !last.starts_with(above)).for_each(&mut look);
                last = parent.to_owned();
            }
            look(path);
        }
        modes
    }

    /// Ignored files are not compared, which a command can use.
    fn hidden_files_note(&self) -> Option<String> {
        let mut new = self.hides_all.iter().filter(|(directory, hid_all)| !**hid_all && hides_all(directory));
        let (directory, _) = new.next()?;
        let file = directory.join(IGNORE_FILE);
        Some(format!("{} hides files since then, which are not known", file.display()))
    }

    /// Whether another call may need the objects.
    fn is_shared(&self) -> bool {
        let is_recent = |found: &fs::DirEntry| {
            let age = found.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
            age.is_none_or(|age| age < LONGEST_CALL)
        };
        let is_call = |found: &fs::DirEntry| found.file_name().as_bytes().starts_with(b"call-");
        fs::read_dir(&self.git).into_iter().flatten().flatten().any(|found| is_call(&found) && is_recent(&found))
    }

    /// Makes the git directory and the directory of this call, with a copy of the index.
    fn prepare(&self, common: &Path) -> io::Result<()> {
        let is_many = |below: &str| fs::read_dir(self.git.join(below)).is_ok_and(|found| found.count() > MANY_OBJECTS);
        if (is_many("objects/17") || is_many("objects/pack")) && !self.is_shared() {
            fs::remove_file(self.git.join("index")).or_else(ignore_missing)?;
            fs::remove_dir_all(self.git.join("objects"))?;
        }
        let create = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        for directory in [&self.out, &self.git.join("objects"), &self.git.join("refs"), &self.git.join("info")] {
            create(directory)?;
        }
        // Nothing of an earlier call configures git.
        fs::remove_file(self.git.join("config")).or_else(ignore_missing)?;
        fs::remove_dir_all(self.git.join("hooks")).or_else(ignore_missing)?;
        fs::write(self.git.join("HEAD"), "ref: refs/heads/none\n")?;
        // The bytes of each file are compared, whatever the attributes of the repository say.
        let attributes = "* -text -ident -filter -working-tree-encoding !eol\n";
        fs::write(self.git.join("info/attributes"), attributes)?;
        // Commands can put anything there; without it, more files are compared.
        let exclude = common.canonicalize().and_then(|common| read(&common.join("info/exclude"), MOST_EXCLUDED));
        let exclude = exclude.unwrap_or_default();
        fs::write(self.git.join("info/exclude"), exclude)?;
        let (kept, own) = (self.git.join("index"), self.out.join("index"));
        // Git compares files that were written when the index was, because of the coarse clock of file systems.
        kept.canonicalize().and_then(|kept| copy(&kept, &own, MOST_IN_INDEX)).or_else(ignore_missing)
    }

    /// Runs a script in the sandbox, so that it changes nothing of ours.
    fn run(&self, script: &str, limit: Duration, env: &Environment, job: &Job) -> Result<(), String> {
        let path = |path: &Path| path.display().to_string();
        let own = [
            ("GIT_DIR", path(&self.git)),
            ("GIT_WORK_TREE", path(&self.top)),
            ("GIT_INDEX_FILE", path(&self.out.join("index"))),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", quote_path(&self.objects)),
            ("OUT", path(&self.out)),
        ];
        let fixed = FIXED.map(|(name, value)| (name, value.to_owned()));
        let variables: Vec<_> = own.into_iter().chain(fixed).map(|(name, value)| (name.to_owned(), value)).collect();
        let arguments = ["sh", "-c", script];
        let mut capture = Capture::new(4 << 10, &env.output_directory);
        let writable = [self.git.clone()];
        let program = Program {
            workspace: Some(&self.top),
            writable: &writable,
            variables: &variables,
            ..Program::new(&arguments, &self.top)
        };
        let outcome = command::run(&program, env, &mut capture, limit, job).map_err(|error| reason(&error))?;
        match outcome.ending {
            Ending::Exited(Some(0)) => Ok(()),
            Ending::Exited(Some(127)) => Err("git is not installed".into()),
            Ending::Exited(_) => Err(format!("git failed: {}", capture.finish().lines().last().unwrap_or_default())),
            Ending::TimedOut => {
                SLOW.lock().unwrap_or_else(PoisonError::into_inner).insert(self.top.clone());
                Err("its repository is too large to compare".into())
            }
            Ending::Interrupted => Err("interrupted".into()),
            Ending::Lost(why) | Ending::NotStarted(why) | Ending::Weaker(why) => Err(why),
        }
    }

    /// The changes, and why they are not complete.
    fn changes(
        self,
        env: &Environment,
        snapshots: &Snapshots,
        limit: Duration,
    ) -> Result<(Vec<FileChange>, Option<String>), String> {
        // The job of the call may have been cancelled.
        let job = Job::new().map_err(|error| error.message)?;
        self.run(&format!("{FORGET_REPOSITORIES}{AFTER}"), limit, env, &job)?;
        let entries = self.entries().map_err(|error| reason(&error))?;
        if !entries.iter().all(Entry::is_inside) {
            return Err("git printed something unexpected".into());
        }
        // The next call begins with what this one knows.
        let _ = fs::rename(self.out.join("index"), self.git.join("index"));
        let mut flaw = self.hidden_files_note();
        let too_many = entries.len().checked_sub(MOST_FILES).filter(|more| *more > 0);
        if let Some(more) = too_many {
            flaw = Some(format!("it changed {} files; {more} of them were not kept", entries.len()));
        }
        let entries = &entries[..entries.len().min(MOST_FILES)];
        if entries.is_empty() {
            return Ok((Vec::new(), flaw));
        }
        let until = Instant::now() + limit;
        let before = self.contents(entries, snapshots, limit, env, &job)?;
        let mut changes = Vec::new();
        for (entry, before) in entries.iter().zip(before) {
            if Instant::now() > until {
                flaw = Some(format!("comparing its {} changed files took too long", entries.len()));
                break;
            }
            let path = self.top.join(OsStr::from_bytes(&entry.path));
            match (path.to_str(), entry.is_repository()) {
                (Some(_), false) => {
                    let after = snapshots.state(&path).unwrap_or(FileState::Other);
                    changes.push(FileChange { path, before, after });
                }
                (None, _) => flaw = Some(format!("the name of {} is not UTF-8", path.display())),
                (_, true) => flaw = Some(format!("{} is another repository", path.display())),
            }
        }
        Ok((changes, flaw))
    }

    /// The output of git in a file.
    fn read_output(&self, name: &str) -> io::Result<Vec<u8>> {
        read_followed(&self.out.join(name), MOST_PRINTED)
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        let raw = self.read_output("changes")?;
        let mut parts = raw.split(|byte| *byte == 0);
        let mut entries = Vec::new();
        while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
            entries.extend(Entry::parse(head, path));
        }
        Ok(entries)
    }

    /// The states before the command. Keeps the contents of files and links.
    fn contents(
        &self,
        entries: &[Entry],
        snapshots: &Snapshots,
        limit: Duration,
        env: &Environment,
        job: &Job,
    ) -> Result<Vec<FileState>, String> {
        let wanted: Vec<String> =
            entries.iter().filter(|entry| entry.has_content()).map(|entry| entry.id.clone()).collect();
        fs::write(self.out.join("wanted"), wanted.join("\n") + "\n").map_err(|error| reason(&error))?;
        if !wanted.is_empty() {
            self.run(CONTENTS, limit, env, job)?;
        }
        self.states(entries, snapshots).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => "git printed something unexpected".into(),
            _ => reason(&error),
        })
    }

    fn states(&self, entries: &[Entry], snapshots: &Snapshots) -> io::Result<Vec<FileState>> {
        let mut objects = match open_path(&self.out.join("contents").canonicalize().unwrap_or_default()) {
            Ok((file, _)) => Objects(Some(BufReader::new(file))),
            // No entry has a content.
            Err(_) => Objects(None),
        };
        let mut state = |entry: &Entry| {
            let known = self.modes.get(&entry.path).copied();
            if !entry.has_content() {
                let mode = known.unwrap_or(DIRECTORY_MODE);
                return Ok(if entry.mode == 0o040_000 { FileState::Directory { mode } } else { FileState::Absent });
            }
            let (digest, size) = objects.next(|digest, content| snapshots.put(digest, content))?;
            Ok(match entry.mode {
                0o120_000 => FileState::Link { digest, size },
                _ => FileState::File { mode: known.unwrap_or(entry.mode & 0o777), digest, size },
            })
        };
        entries.iter().map(&mut state).collect()
    }
}

/// The output of `git cat-file --batch`: for each object a line that ends with its size, its content, and the end of a
/// line.
struct Objects<R>(Option<R>);

impl<R: BufRead> Objects<R> {
    /// The digest and the size of the next object. Its content is kept, unless it is too large, perhaps by far.
    fn next(&mut self, keep: impl FnOnce(&str, &[u8]) -> io::Result<()>) -> io::Result<(String, u64)> {
        let unexpected = || io::Error::from(io::ErrorKind::InvalidData);
        let from = self.0.as_mut().ok_or_else(unexpected)?;
        let mut line = String::new();
        from.take(MOST_IN_LINE).read_line(&mut line)?;
        let size = line.strip_suffix('\n').and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        let size = size.ok_or_else(unexpected)?;
        let mut content = Vec::new();
        let (digest, found) = super::read(from.take(size), Some(&mut content))?;
        let mut end = [0];
        from.read_exact(&mut end)?;
        if found != size || end != *b"\n" {
            return Err(unexpected());
        }
        if size <= MOST_KEPT {
            keep(&digest, &content)?;
        }
        Ok((digest, size))
    }
}

/// A line of `git diff-tree`: the state of a path before.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    mode_after: u32,
    id: String,
    path: Vec<u8>,
}

impl Entry {
    /// `:100644 100755 ID ID M`
    fn parse(head: &[u8], path: &[u8]) -> Option<Self> {
        let head = std::str::from_utf8(head).ok()?.strip_prefix(':')?;
        let mut parts = head.split(' ');
        let mut mode = || u32::from_str_radix(parts.next()?, 8).ok();
        let (mode, mode_after) = (mode()?, mode()?);
        let id = parts.next()?.to_owned();
        // A directory in which only files changed.
        let is_same = mode == 0o040_000 && mode_after == 0o040_000;
        (!is_same).then(|| Self { mode, mode_after, id, path: path.to_owned() })
    }

    /// Whether its path leads neither out of the working tree nor to a repository's own files.
    fn is_inside(&self) -> bool {
        let is_usual = |part: Component<'_>| match part {
            Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
            _ => false,
        };
        Path::new(OsStr::from_bytes(&self.path)).components().all(is_usual)
    }

    fn has_content(&self) -> bool {
        matches!(self.mode & 0o170_000, 0o100_000 | 0o120_000)
    }

    fn is_repository(&self) -> bool {
        self.mode == 0o160_000 || self.mode_after == 0o160_000
    }
}

/// Whether an ignore file of a directory hides everything that git does not know yet.
fn hides_all(directory: &Path) -> bool {
    let is_all = |line: &[u8]| matches!(line.trim_ascii(), b"*" | b"/*" | b"**" | b"/**" | b"**/*" | b"*/" | b"*.*");
    match read(&directory.join(IGNORE_FILE), MOST_EXCLUDED) {
        Ok(text) => text.split(|byte| *byte == b'\n').any(is_all),
        Err(error) => error.kind() == io::ErrorKind::FileTooLarge,
    }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_one_by_one_and_large_ones_are_not_kept() {
        let large = MOST_KEPT + 1;
        let head = format!("aa blob 3\nx\ny\nbb blob {large}\n");
        let printed = head.as_bytes().chain(io::repeat(0).take(large)).chain(&b"\ncc blob 0\n\ndd missing\n"[..]);
        let (mut objects, mut kept) = (Objects(Some(BufReader::new(printed))), Vec::new());
        for expected in [3, large, 0] {
            let (digest, size) = objects
                .next(|digest, content| {
                    kept.push((digest.to_owned(), content.len() as u64));
                    Ok(())
                })
                .unwrap();
            assert_eq!((digest.len(), size), (64, expected));
        }
        assert_eq!(kept.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [3, 0]);
        assert_eq!(objects.next(|_, _| Ok(())).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
