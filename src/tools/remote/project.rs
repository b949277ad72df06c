//! The project at a place: its instructions for agents, and its skills. One script reads them, and one more each level
//! of files that a `CLAUDE.md` imports.

use std::path::{Component, Path, PathBuf};

use super::call::Request;
use super::place::LOOK_LIMIT;
use super::{Remote, script};
use crate::domain::instructions::{IMPORTER, InstructionFile, MAX_BYTES, MAX_DEPTH, MAX_FILES, imports};
use crate::tools::Job;
use crate::tools::skill::find::{self, IN_PROJECT};

/// The most bytes of all files together.
const MAX_OUTPUT: usize = 4 << 20;

#[derive(Debug, Clone, Default)]
pub struct RemoteProject {
    /// From the root of the repository down to the directory, with the paths as questions and rules name them.
    pub instructions: Vec<InstructionFile>,
    /// The folders of skills, the nearest first, with the text of each `SKILL.md`.
    pub skills: Vec<(PathBuf, Vec<u8>)>,
    /// Why they are not known.
    pub problem: Option<String>,
}

/// A file, or something else at its path.
struct Found {
    path: PathBuf,
    content: Result<Vec<u8>, ()>,
}

impl RemoteProject {
    /// Reads the project. Waits for the place, so it is for threads.
    pub fn read(remote: &Remote, job: &Job) -> Self {
        match read(remote, job) {
            Ok(project) => project,
            Err(problem) => Self { problem: Some(problem), ..Self::default() },
        }
    }

    /// The files of its skills as they are shown and trusted.
    pub fn skill_files(&self, remote: &Remote) -> Vec<(PathBuf, Vec<u8>)> {
        let file = |(folder, text): &(PathBuf, Vec<u8>)| (remote.display_path(&find::file(folder)), text.clone());
        self.skills.iter().map(file).collect()
    }
}

fn read(remote: &Remote, job: &Job) -> Result<RemoteProject, String> {
    let records = run(remote, &script::project(remote.directory(), &IN_PROJECT), job)?;
    let (mut files, mut skills, mut top) = (Vec::new(), Vec::new(), remote.directory().to_path_buf());
    for (kind, path, content) in records {
        match kind {
            't' => top = path,
            'i' => files.push(Found { path, content: Ok(shortened(content)) }),
            's' => skills.extend(path.parent().map(|folder| (folder.to_path_buf(), content))),
            _ => files.push(Found { path, content: Err(()) }),
        }
    }
    add_imports(remote, &top, &mut files, job)?;
    let shown = |file: Found| InstructionFile { path: remote.display_path(&file.path), content: file.content };
    Ok(RemoteProject { instructions: files.into_iter().map(shown).collect(), skills, problem: None })
}

/// Adds the files of the project that a `CLAUDE.md` imports by `@path`, and those that these import, each after its importers.
fn add_imports(remote: &Remote, top: &Path, files: &mut Vec<Found>, job: &Job) -> Result<(), String> {
    let mut importers: Vec<usize> = (0..files.len()).filter(|at| files[*at].path.ends_with(IMPORTER)).collect();
    for _ in 0..MAX_DEPTH {
        let named =
            importers.iter().flat_map(|at| imported_files(&files[*at], top)).filter(|path| !is_known(files, path));
        let mut wanted: Vec<PathBuf> = Vec::new();
        named.for_each(|path| {
            if !wanted.contains(&path) {
                wanted.push(path)
            }
        });
        wanted.truncate(MAX_FILES.saturating_sub(files.len()));
        if wanted.is_empty() {
            return Ok(());
        }
        let paths: Vec<&Path> = wanted.iter().map(PathBuf::as_path).collect();
        let records = run(remote, &script::imported(&paths), job)?;
        let before = files.len();
        files.extend(records.into_iter().map(|(_, path, content)| Found { path, content: Ok(shortened(content)) }));
        importers = (before..files.len()).collect();
    }
    Ok(())
}

fn is_known(files: &[Found], path: &Path) -> bool {
    files.iter().any(|file| file.path == path)
}

/// The files that one imports: only those of the project that are not hidden, because hidden ones may be private.
fn imported_files(importer: &Found, top: &Path) -> Vec<PathBuf> {
    let Ok(content) = &importer.content else { return Vec::new() };
    let above = importer.path.parent().unwrap_or(top);
    let text = String::from_utf8_lossy(content);
    let is_open = |path: &PathBuf| {
        let is_hidden = |part: Component<'_>| part.as_os_str().to_string_lossy().starts_with('.');
        let below = path.strip_prefix(top);
        below.is_ok_and(|below| !below.components().any(is_hidden))
            && !path.to_string_lossy().contains(char::is_control)
    };
    imports(&text).into_iter().map(|name| normal(&above.join(name))).filter(is_open).collect()
}

/// The path without `.` and `..`.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// One byte more than is used, as for files of this machine: the digest for trust is the same.
fn shortened(mut content: Vec<u8>) -> Vec<u8> {
    content.truncate(MAX_BYTES + 1);
    content
}

/// The records of a script: a kind, a path and a content each.
fn run(remote: &Remote, script: &str, job: &Job) -> Result<Vec<(char, PathBuf, Vec<u8>)>, String> {
    let found = remote.collect(&Request { script, data: None, limit: LOOK_LIMIT }, MAX_OUTPUT, job)?;
    match found.status.as_deref() {
        Some("ok") => {}
        Some(word) => return Err(super::fetch::problem(word)),
        None => return Err(format!("they have more than {} MiB", MAX_OUTPUT >> 20)),
    }
    let fields: Vec<&[u8]> = found.output.split(|byte| *byte == 0).collect();
    let record = |fields: &[&[u8]]| {
        let [kind, path, content] = fields else { return None };
        let path = String::from_utf8(path.to_vec()).ok().filter(|path| !path.contains(char::is_control))?;
        Some((char::from(*kind.first()?), PathBuf::from(path), content.to_vec()))
    };
    Ok(fields.chunks_exact(3).filter_map(record).collect())
}
