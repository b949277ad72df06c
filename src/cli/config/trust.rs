//! Trust in the contents of a project: its `.polylogue` directory, its `.mcp.json`, its `AGENTS.md` files, its skills,
//! hooks and definitions of agents.
//!
//! Trust is given to contents: the bytes that are used are the bytes whose digest is compared. Beside the user's
//! configuration, the file `trusted` has a line for each directory or file: the digest, a space, the path. The file
//! `trusted-contents.json` keeps the texts, so that only what has changed has to be read again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::base::digest::sha256;

use super::claude;
use super::hooks;
use super::mcp;
use super::project::{Project, create_private, write_private};
use super::providers::FileProvider;
use super::show::public_url;
use super::{hooks_of, providers_of};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::project::ProjectDirectories;
use crate::domain::hook::Hook;
use crate::domain::instructions::InstructionFile;
use crate::team::instruction_files;
use crate::tools::definitions;
use crate::tools::diff::Summary;
use crate::tools::skill::find;

const TRUSTED: &str = "trusted";
/// What the user has put off judging, with lines as in `trusted`.
const PUT_OFF: &str = "not-now";
const CONTENTS: &str = "trusted-contents.json";

/// What the user has trusted so far.
#[derive(Debug, Default)]
pub struct Trusted {
    lines: Vec<(String, PathBuf)>,
}

impl Trusted {
    pub fn read(config_directory: &Path) -> Self {
        Self::in_file(&config_directory.join(TRUSTED))
    }

    fn in_file(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Self { lines: lines.map(|(digest, path)| (digest.to_owned(), path.into())).collect() }
    }

    pub fn has(&self, digest: &str, path: &Path) -> bool {
        self.lines.iter().any(|(known, at)| known == digest && at == path)
    }

    /// The digest of what is trusted at this path.
    pub fn digest_at(&self, path: &Path) -> Option<&str> {
        self.lines.iter().find(|(_, at)| at == path).map(|(digest, _)| digest.as_str())
    }

    /// Whether these contents are trusted at this path: programs may name other files beside it.
    pub fn has_file(&self, file: &OtherFile) -> bool {
        digest(file).is_some_and(|digest| self.has(&digest, &file.0))
    }

    /// Whether these contents are trusted, wherever they lie: worktrees have copies.
    pub fn knows(&self, file: &OtherFile) -> bool {
        digest(file).is_some_and(|digest| self.lines.iter().any(|(known, _)| *known == digest))
    }

    /// The digests of all trusted contents.
    pub fn digests(&self) -> BTreeSet<String> {
        self.lines.iter().map(|(digest, _)| digest.clone()).collect()
    }

    /// Trusts these contents instead of earlier ones at the same path.
    fn put(&mut self, digest: String, path: &Path) {
        self.lines.retain(|(_, at)| at != path);
        self.lines.push((digest, path.to_owned()));
    }

    fn write(&self, file: &Path) -> Result<()> {
        let lines = self.lines.iter().map(|(digest, path)| format!("{digest} {}\n", path.display()));
        write(file, &lines.collect::<String>())
    }
}

/// The contents of a project that are used only if the user trusts them.
#[derive(Debug)]
pub struct Contents {
    pub project: Option<Project>,
    /// The programs and URLs of its MCP servers.
    pub mcp: Option<mcp::ProjectFile>,
    /// Those that are not regular files never count.
    pub instructions: Vec<InstructionFile>,
    /// Its skills and definitions of agents.
    pub skills: Vec<OtherFile>,
    /// Its `.claude/settings.json`, if it has hooks or refuses something.
    pub claude: Option<OtherFile>,
    /// Its commands for other agents.
    pub commands: Vec<OtherFile>,
    /// The files of the project that its hooks name.
    pub scripts: Vec<OtherFile>,
}

/// A file with its contents, or why they cannot be read.
pub type OtherFile = (PathBuf, std::result::Result<Vec<u8>, String>);

fn digest(file: &OtherFile) -> Option<String> {
    file.1.as_ref().ok().map(sha256)
}

impl Contents {
    /// `skills` has the directories of the user's own skills.
    pub fn of(directories: &ProjectDirectories, skills: &[PathBuf]) -> Self {
        let (mcp, instructions) = (mcp::ProjectFile::of(directories), instruction_files(directories));
        let mut skills = find::files_of_project(skills, directories);
        skills.extend(definitions::files_of_project(directories));
        let (project, claude) = (Project::of(directories), hooks::claude_file(directories));
        let mut all: Vec<Hook> = project.iter().flat_map(hooks_of).collect();
        if let Some((path, Ok(bytes))) = &claude {
            all.extend(hooks::of_claude(path, bytes, &mut Vec::new()));
        }
        let commands = claude::command_files(directories).into_iter().map(|file| (file.path, file.bytes)).collect();
        Self { project, mcp, instructions, skills, claude, commands, scripts: hooks::scripts_of(&all) }
    }

    pub fn is_empty(&self) -> bool {
        self.project.is_none()
            && self.mcp.is_none()
            && self.others().next().is_none()
            && self.instructions.iter().all(|file| file.content.is_err())
    }

    /// Whether all of them are used already.
    pub fn is_trusted(&self, config_directory: &Path) -> bool {
        let trusted = Trusted::read(config_directory);
        let is_known = |project: &Project| trusted.has(&project.digest(), &project.directory);
        self.project.as_ref().is_none_or(is_known)
            && self.untrusted_servers(&trusted).is_none()
            && self.untrusted_instructions(&trusted).next().is_none()
            && self.untrusted_files(&trusted).next().is_none()
            && self.scripts.iter().all(|file| file.1.is_err() || trusted.has_file(file))
    }

    /// The file of MCP servers, if it is new or was changed.
    pub fn untrusted_servers(&self, trusted: &Trusted) -> Option<&Path> {
        let is_new = |file: &&mcp::ProjectFile| !trusted.has(&file.digest(), &file.path);
        self.mcp.as_ref().filter(is_new).map(|file| &*file.path)
    }

    /// The instructions that are new or were changed.
    pub fn untrusted_instructions<'a>(&'a self, trusted: &'a Trusted) -> impl Iterator<Item = &'a Path> {
        let is_known = |digest: String| trusted.lines.iter().any(|(known, _)| *known == digest);
        let is_new = move |file: &&InstructionFile| file.digest().is_some_and(|digest| !is_known(digest));
        self.instructions.iter().filter(is_new).map(|file| &*file.path)
    }

    /// The files that are trusted one by one.
    fn others(&self) -> impl Iterator<Item = &OtherFile> {
        self.skills.iter().chain(&self.claude).chain(&self.commands).chain(&self.scripts)
    }

    /// Those that are ignored because they are new or were changed; scripts of hooks are not ignored.
    pub fn untrusted_files<'a>(&'a self, trusted: &'a Trusted) -> impl Iterator<Item = &'a Path> {
        let skills = self.skills.iter().chain(&self.commands).filter(|file| !trusted.knows(file));
        let claude = self.claude.iter().filter(|file| !trusted.has_file(file));
        skills.chain(claude).filter(|file| file.1.is_ok()).map(|(path, _)| &**path)
    }

    /// Every file with its text, or why it cannot be read.
    fn texts(&self) -> BTreeMap<String, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let files = self.project.iter().flat_map(Project::files);
        let files = files.chain(self.mcp.iter().map(|file| (file.path.clone(), &file.bytes)));
        let files = files.chain(self.others().map(|(path, bytes)| (path.clone(), bytes)));
        let files = files.map(|(path, bytes)| {
            (path.display().to_string(), bytes.as_ref().map_or_else(|why| format!("({why})\n"), |bytes| text(bytes)))
        });
        let instructions = self.instructions.iter();
        let instructions =
            instructions.filter_map(|file| Some((file.path.display().to_string(), text(file.content.as_ref().ok()?))));
        files.chain(instructions).collect()
    }

    /// Everything that would be trusted: new files whole, changed ones as a diff to what was trusted before.
    pub fn describe_contents(&self, config_directory: &Path) -> String {
        let (earlier, now) = (earlier_texts(config_directory), self.texts());
        let mut out = String::new();
        for (path, text) in &now {
            // Writing into a `String` cannot fail.
            let _ = match earlier.get(path) {
                Some(before) if before == text => writeln!(out, "{path} (unchanged)"),
                Some(before) => {
                    let diff = Summary::new(before, text, usize::MAX).lines.join("\n");
                    writeln!(out, "{path} (changed)\n{}", indented(&diff))
                }
                None => writeln!(out, "{path} (new)\n{}", indented(text)),
            };
        }
        let is_gone = |path: &&String| self.covers(path) && !now.contains_key(*path);
        let gone = earlier.keys().filter(is_gone).map(|path| format!("{path} (deleted)\n"));
        out + &gone.collect::<String>()
    }

    /// Where conversations would be sent, a line for each provider.
    pub fn shown_providers(&self) -> String {
        let line = |provider: FileProvider| {
            let url = provider.base_url.as_deref().map_or_else(|| "its default URL".into(), public_url);
            let key = provider.key_variable.map(|name| format!(", with the key in {name}")).unwrap_or_default();
            let headers: String =
                provider.headers.iter().map(|(name, _)| format!(", with the header {name}")).collect();
            format!("provider {}: sends conversations to {url}{key}{headers}\n", provider.name)
        };
        self.project.iter().flat_map(providers_of).map(line).collect()
    }

    fn covers(&self, path: &str) -> bool {
        let is_in_project = |project: &Project| Path::new(path).starts_with(&project.directory);
        self.project.as_ref().is_some_and(is_in_project)
            || self.mcp.as_ref().is_some_and(|file| file.path == Path::new(path))
    }

    /// All that is trusted by its digest, with its paths.
    fn digests(&self) -> Vec<(String, &Path)> {
        let project = self.project.iter().map(|project| (project.digest(), project.directory.as_path()));
        let instructions = self.instructions.iter().filter_map(|file| Some((file.digest()?, file.path.as_path())));
        let servers = self.mcp.iter().map(|file| (file.digest(), file.path.as_path()));
        let files = self.others().filter_map(|file| Some((digest(file)?, file.0.as_path())));
        project.chain(servers).chain(instructions).chain(files).collect()
    }

    /// What is new or was changed, by name.
    pub fn untrusted_names(&self, config_directory: &Path) -> Vec<String> {
        let trusted = Trusted::read(config_directory);
        let new = self.digests().into_iter().filter(|(digest, path)| !trusted.has(digest, path));
        let name = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let mut names: Vec<String> = new.map(|(_, path)| name(path)).collect();
        names.dedup();
        names
    }

    /// Trusts these contents instead of earlier ones.
    pub fn trust(&self, config_directory: &Path) -> Result<()> {
        create_private(config_directory)?;
        let mut trusted = Trusted::read(config_directory);
        for (digest, path) in self.digests() {
            if path.to_string_lossy().contains('\n') {
                return Err(Error::new(ErrorKind::Usage, "cannot trust a path with a line break in it"));
            }
            trusted.put(digest, path);
        }
        let mut texts = earlier_texts(config_directory);
        texts.retain(|path, _| !self.covers(path));
        texts.extend(self.texts());
        let json = serde_json::to_string(&texts).expect("a map of texts");
        write(&config_directory.join(CONTENTS), &json)?;
        trusted.write(&config_directory.join(TRUSTED))
    }
}

/// Whether the user was asked about these very contents and did not want to judge them then.
pub fn is_put_off(contents: &Contents, config_directory: &Path) -> bool {
    let (known, trusted) = (Trusted::in_file(&config_directory.join(PUT_OFF)), Trusted::read(config_directory));
    contents.digests().iter().all(|(digest, path)| known.has(digest, path) || trusted.has(digest, path))
}

/// Does not ask about these contents again until they change.
pub fn put_off(contents: &Contents, config_directory: &Path) -> Result<()> {
    create_private(config_directory)?;
    let file = config_directory.join(PUT_OFF);
    let mut known = Trusted::in_file(&file);
    contents.digests().into_iter().for_each(|(digest, path)| known.put(digest, path));
    known.write(&file)
}

/// What was trusted before. Only for display, so a damaged file counts as none.
fn earlier_texts(config_directory: &Path) -> BTreeMap<String, String> {
    let bytes = fs::read(config_directory.join(CONTENTS)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write(file: &Path, text: &str) -> Result<()> {
    write_private(file, text).map_err(|error| Error::from(error).context(file.display()))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
