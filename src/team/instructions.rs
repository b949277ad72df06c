//! Builds the system prompt of an environment: tools, directory, and the instruction files of the project.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::base::file::open_regular;
use crate::base::project::ProjectDirectories;
use crate::domain::instructions::{
    AGENTS_FILE, FILES, IMPORTER, InstructionFile, MAX_BYTES, MAX_DEPTH, MAX_FILES, imports,
};
use crate::domain::tool::Reach;
use crate::tools::{ToolSpec, skill};

/// The instructions of a project, from the root of its repository down to the directory.
pub fn instruction_files(project: &ProjectDirectories) -> Vec<InstructionFile> {
    let mut files = Vec::new();
    for path in project.iter().rev().filter_map(found_file) {
        let Some(content) = read(&path) else { continue };
        let has_imports = path.ends_with(IMPORTER);
        files.push(InstructionFile { content, path });
        if let Some(root) = project.root().filter(|_| has_imports) {
            add_imports(root, files.len() - 1, 1, &mut files);
        }
    }
    files
}

/// Adds the files that one imports by `@path`, and those that these import in turn: only files of the project that are
/// not hidden, because hidden ones may be private.
fn add_imports(root: &Path, importer: usize, depth: usize, files: &mut Vec<InstructionFile>) {
    let InstructionFile { path, content: Ok(content) } = &files[importer] else { return };
    let (text, above) = (String::from_utf8_lossy(content).into_owned(), path.parent().unwrap_or(root).to_owned());
    for name in imports(&text) {
        let is_open = |path: &PathBuf| {
            let is_hidden = |part: Component<'_>| part.as_os_str().to_string_lossy().starts_with('.');
            path.strip_prefix(root).is_ok_and(|below| !below.components().any(is_hidden))
        };
        let Some(path) = above.join(name).canonicalize().ok().filter(is_open) else { continue };
        let is_known = files.iter().any(|file| file.path.canonicalize().is_ok_and(|known| known == path));
        if is_known || files.len() >= MAX_FILES || depth > MAX_DEPTH {
            continue;
        }
        if let Some(content) = read(&path) {
            files.push(InstructionFile { content, path });
            add_imports(root, files.len() - 1, depth + 1, files);
        }
    }
}

/// The file with the instructions of this directory, which may not exist.
pub fn instruction_file(directory: &Path) -> PathBuf {
    found_file(directory).unwrap_or_else(|| directory.join(AGENTS_FILE))
}

fn found_file(directory: &Path) -> Option<PathBuf> {
    FILES.map(|name| directory.join(name)).into_iter().find(|path| path.symlink_metadata().is_ok())
}

/// Where tools run.
#[derive(Clone, Copy)]
pub enum Where<'a> {
    /// In this directory.
    Here(&'a Path),
    /// As a text for the model says, with the place as a person names it for trust; empty for the files of this machine.
    Elsewhere(&'a str, &'a str),
}

impl Where<'_> {
    /// The command with which a person trusts the files there.
    pub fn trust(self) -> String {
        match self {
            Self::Here(_) | Self::Elsewhere(_, "") => "polylogue config trust".into(),
            Self::Elsewhere(_, place) => format!("polylogue config trust {place}"),
        }
    }
}

/// The system prompt, and a line for the user about each of the project's `files`. `own` replaces the general part;
/// `trusted` has the digests of the files that are used.
pub fn write(
    tools: &[&ToolSpec],
    place: Where<'_>,
    own: Option<&str>,
    files: &[InstructionFile],
    trusted: &BTreeSet<String>,
) -> (String, Vec<String>) {
    let mut text = own.map_or_else(|| general(tools, place), str::to_owned);
    let (project, sources) = project(files, trusted, &place.trust());
    text.push_str(&project);
    (text, sources)
}

fn general(tools: &[&ToolSpec], place: Where<'_>) -> String {
    let mut text = "You are a helpful assistant in a terminal. Answer in plain, concise language.".to_owned();
    if tools.is_empty() {
        text.push_str(" You have no tools.");
        return text;
    }
    // The tool for skills is explained with them.
    let names = tools.iter().map(|tool| tool.declaration.name).filter(|name| *name != skill::NAME);
    let names: Vec<&str> = names.collect();
    // Writing into a `String` cannot fail.
    let _ = write!(text, " You have these tools: {}.", names.join(", "));
    if tools.iter().any(|tool| tool.reach == Reach::Writes) {
        text.push_str(" Changing files and running commands needs the user's approval, which may be denied.");
    }
    let _ = match place {
        Where::Here(directory) => write!(text, " The working directory is {}.", directory.display()),
        Where::Elsewhere(about, _) => write!(text, "{about}"),
    };
    text
}

/// The trusted ones of these instructions.
fn project(files: &[InstructionFile], trusted: &BTreeSet<String>, trust: &str) -> (String, Vec<String>) {
    let (mut text, mut sources, mut remaining) = (String::new(), Vec::new(), MAX_BYTES);
    for file in files {
        let shown = file.path.display();
        let digest = file.digest();
        let Ok(content) = &file.content else {
            sources.push(format!("{shown}: skipped: not a regular file"));
            continue;
        };
        if digest.is_none_or(|digest| !trusted.contains(&digest)) {
            sources.push(format!("{shown}: ignored: new or changed; see {trust}"));
            continue;
        }
        let length = remaining.min(content.len());
        remaining -= length;
        let is_truncated = length < content.len();
        let notice = if is_truncated {
            format!("\n[truncated: the instructions exceed {MAX_BYTES} bytes]")
        } else {
            String::new()
        };
        // A character that is split is replaced, as is everything that is not UTF-8.
        let _ = write!(
            text,
            "\n\nInstructions from {shown}:\n{}{notice}",
            String::from_utf8_lossy(&content[..length]).trim_end()
        );
        let size = if is_truncated { format!("truncated to {length} bytes") } else { format!("{length} bytes") };
        sources.push(format!("{shown}: {size}"));
    }
    (text, sources)
}

/// `None` if there is no such file.
fn read(path: &Path) -> Option<Result<Vec<u8>, ()>> {
    path.symlink_metadata().ok()?;
    let mut content = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut content));
    Some(read.map(|_| content).map_err(|_| ()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::{all, find};

    /// The prompt where everything that was found is trusted.
    fn written(tools: &[&ToolSpec], directory: &Path, own: Option<&str>) -> (String, Vec<String>) {
        let files = instruction_files(&ProjectDirectories::of(directory));
        let trusted = files.iter().filter_map(InstructionFile::digest).collect();
        write(tools, Where::Here(directory), own, &files, &trusted)
    }

    #[test]
    fn only_the_trusted_contents_of_a_file_are_used() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join(AGENTS_FILE), "as trusted").unwrap();
        let files = instruction_files(&ProjectDirectories::of(top.path()));
        let trusted = files.iter().filter_map(InstructionFile::digest).collect();
        assert!(write(&[], Where::Here(top.path()), None, &files, &trusted).0.ends_with("as trusted"));
        fs::write(top.path().join(AGENTS_FILE), "as changed").unwrap();
        let (text, sources) = write(
            &[],
            Where::Here(top.path()),
            None,
            &instruction_files(&ProjectDirectories::of(top.path())),
            &trusted,
        );
        assert!(!text.contains("as changed") && sources[0].contains("config trust"), "{text} {sources:?}");
    }

    #[test]
    fn files_are_included_from_the_root_of_the_project_down() {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("project/a/b");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir(top.path().join("project/.git")).unwrap();
        for (directory, text) in [("", "above"), ("project", "root"), ("project/a/b", "near")] {
            fs::write(top.path().join(directory).join(AGENTS_FILE), text).unwrap();
        }
        let (text, sources) = written(&all().collect::<Vec<_>>(), &below, None);
        assert!(text.find("root").unwrap() < text.find("near").unwrap() && !text.contains("above"), "{text}");
        assert_eq!(sources.len(), 2);
        let (text, _) = written(&all().collect::<Vec<_>>(), top.path(), None);
        assert!(
            text.ends_with("above") && !text.contains("root"),
            "outside of a repository only this directory: {text}"
        );
    }

    #[test]
    fn claude_md_counts_where_there_is_no_agents_md() {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("d");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir(top.path().join(".git")).unwrap();
        for (path, text) in [("CLAUDE.md", "other tool"), ("AGENTS.md", "at the root"), ("d/CLAUDE.md", "below")] {
            fs::write(top.path().join(path), text).unwrap();
        }
        let (text, sources) = written(&[], &below, None);
        assert!(text.contains("at the root") && text.ends_with("below") && !text.contains("other tool"), "{text}");
        assert!(sources[1].contains("CLAUDE.md"), "{sources:?}");
        let names = [top.path(), &below].map(|directory| instruction_file(directory).file_name().unwrap().to_owned());
        assert_eq!(names, ["AGENTS.md", "CLAUDE.md"]);
        fs::write(top.path().join("AGENTS.override.md"), "my own").unwrap();
        let (text, _) = written(&[], &below, None);
        assert!(text.contains("my own") && text.ends_with("below") && !text.contains("at the root"), "{text}");
        fs::remove_file(top.path().join("AGENTS.override.md")).unwrap();
        // A link that is not read does not make the other file count.
        fs::remove_file(top.path().join("AGENTS.md")).unwrap();
        symlink("CLAUDE.md", top.path().join("AGENTS.md")).unwrap();
        assert!(!written(&[], &below, None).0.contains("other tool"));
    }

    #[test]
    fn claude_md_imports_files_of_the_project_and_no_others() {
        let top = tempfile::tempdir().unwrap();
        let project = top.path().join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::create_dir_all(project.join("docs")).unwrap();
        fs::create_dir(project.join(".private")).unwrap();
        let claude = "See @docs/style.md, and @../outside.md @.private/key.md @missing.md @somebody `@docs/code.md`\n\
                      ```\n@docs/code.md\n```\n@/etc/hostname @link.md";
        for (path, text) in [
            ("CLAUDE.md", claude),
            ("docs/style.md", "the style @more.md"),
            ("docs/more.md", "and more @style.md @../CLAUDE.md"),
            ("docs/code.md", "only named"),
            (".private/key.md", "hidden key"),
            ("../outside.md", "outside"),
        ] {
            fs::write(project.join(path), text).unwrap();
        }
        symlink("../outside.md", project.join("link.md")).unwrap();
        let (text, sources) = written(&[], &project, None);
        assert!(text.contains("the style") && text.contains("and more"), "{text}");
        for absent in ["only named", "hidden key", "\noutside"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        assert_eq!(sources.len(), 3, "{sources:?}");
        // AGENTS.md knows no imports.
        fs::write(project.join("AGENTS.md"), "@docs/style.md").unwrap();
        assert!(!written(&[], &project, None).0.contains("the style"));
    }

    #[test]
    fn imports_end_at_a_depth() {
        let top = tempfile::tempdir().unwrap();
        for n in 0..9 {
            fs::write(top.path().join(format!("{n}.md")), format!("level-{n} @{}.md", n + 1)).unwrap();
        }
        fs::write(top.path().join("CLAUDE.md"), "@0.md").unwrap();
        let text = written(&[], top.path(), None).0;
        assert!(text.contains("level-3") && !text.contains("level-4"), "{text}");
    }

    #[test]
    fn long_files_are_truncated_and_invalid_utf8_is_replaced() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join(".git")).unwrap();
        fs::create_dir(top.path().join("d")).unwrap();
        fs::write(top.path().join(AGENTS_FILE), [&b"\xff"[..], &vec![b'x'; MAX_BYTES - 10]].concat()).unwrap();
        fs::write(top.path().join("d").join(AGENTS_FILE), "0123456789").unwrap();
        let (text, sources) = written(&[], &top.path().join("d"), Some("Mine."));
        assert!(text.starts_with("Mine.") && text.contains("\u{fffd}xxx"), "{}", &text[..200]);
        assert!(text.ends_with("012345678\n[truncated: the instructions exceed 32768 bytes]"));
        assert!(sources[1].ends_with("truncated to 9 bytes"), "{sources:?}");
    }

    #[test]
    fn links_and_pipes_are_not_read() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("secret"), "secret text").unwrap();
        symlink("secret", top.path().join(AGENTS_FILE)).unwrap();
        let (text, sources) = written(&[], top.path(), None);
        assert!(!text.contains("secret text") && sources[0].ends_with("skipped: not a regular file"));
        fs::remove_file(top.path().join(AGENTS_FILE)).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(top.path().join(AGENTS_FILE)).status().unwrap().success());
        assert_eq!(written(&[], top.path(), None).1.len(), 1);
    }

    #[test]
    fn the_prompt_lists_tools_and_mentions_approval_only_where_it_can_happen() {
        let prompt = |tools: &[&ToolSpec]| written(tools, Path::new("/"), None).0;
        assert!(prompt(&[]).contains("no tools") && !prompt(&[]).contains("approval"));
        assert!(!prompt(&[find("glob").unwrap()]).contains("approval"));
        assert!(
            prompt(&all().collect::<Vec<_>>()).contains("read_file, write_file")
                && prompt(&all().collect::<Vec<_>>()).contains("approval")
        );
    }
}
