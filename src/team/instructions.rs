//! What a model is told of its environment before everything: what it can do, where, and what the project's `AGENTS.md`
//! files say.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::base::file::{Links, ancestors_in_repository, open_regular};
use crate::domain::tool::Reach;
use crate::tools::ToolSpec;

/// The file in which a project tells agents how to work in it.
const FILE: &str = "AGENTS.md";

/// How many bytes of all these files a model is told.
const CAP: usize = 32 << 10;

/// The instructions, and a line for each file that went into them or could not, for a person.
pub fn write(tools: &[&ToolSpec], directory: &Path, own: Option<&str>) -> (String, Vec<String>) {
    let mut text = own.map_or_else(|| usual(tools, directory), str::to_owned);
    let (project, sources) = project(directory);
    text.push_str(&project);
    (text, sources)
}

fn usual(tools: &[&ToolSpec], directory: &Path) -> String {
    let mut text = "You are a helpful assistant in a terminal. Answer in plain, concise language.".to_owned();
    if tools.is_empty() {
        text.push_str(" You have no tools.");
        return text;
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.declaration.name).collect();
    // Writing into a `String` cannot fail.
    let _ = write!(text, " Your tools are {}.", names.join(", "));
    if tools.iter().any(|tool| tool.reach == Reach::Writes) {
        text.push_str(" Writes and commands are shown to the person first, who may refuse.");
    }
    let _ = write!(text, " The working directory is {}.", directory.display());
    text
}

/// What the project says, from its root down to this directory: what is nearer comes later.
fn project(directory: &Path) -> (String, Vec<String>) {
    let (mut text, mut sources, mut room) = (String::new(), Vec::new(), CAP);
    for path in places(directory) {
        let Some(content) = read(&path) else { continue };
        let shown = path.display();
        let Ok(content) = content else {
            sources.push(format!("{shown}: not read, it is no regular file"));
            continue;
        };
        let kept = room.min(content.len());
        room -= kept;
        let cut =
            if kept < content.len() { format!("\n[cut here: {CAP} bytes of {FILE} are told]") } else { String::new() };
        // Cutting may leave part of a character, which is replaced as everything is that is not UTF-8.
        let _ = write!(text, "\n\nFrom {shown}:\n{}{cut}", String::from_utf8_lossy(&content[..kept]).trim_end());
        let size = if cut.is_empty() { format!("{kept} bytes") } else { format!("cut after {kept} bytes") };
        sources.push(format!("{shown}: {size}"));
    }
    (text, sources)
}

/// Where such files may be: from the root of the repository down to this directory.
fn places(directory: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = ancestors_in_repository(directory).map(|place| place.join(FILE)).collect();
    places.reverse();
    places
}

/// The beginning of a file: nothing if there is none, an error if it is no regular file of its own. A link could lead to
/// what the project has no business to tell, and a pipe or a device would never end.
fn read(path: &Path) -> Option<Result<Vec<u8>, ()>> {
    path.symlink_metadata().ok()?;
    let mut content = Vec::new();
    let read = open_regular(path, Links::Refused).and_then(|file| file.take(CAP as u64 + 1).read_to_end(&mut content));
    Some(read.map(|_| content).map_err(|_| ()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::{TOOLS, find};

    #[test]
    fn files_from_the_root_of_the_project_down_are_told_in_that_order_and_none_above_it() {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("project/a/b");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir(top.path().join("project/.git")).unwrap();
        for (place, words) in [("", "above"), ("project", "root"), ("project/a/b", "near")] {
            fs::write(top.path().join(place).join(FILE), words).unwrap();
        }
        let (text, sources) = write(TOOLS, &below, None);
        assert!(text.find("root").unwrap() < text.find("near").unwrap() && !text.contains("above"), "{text}");
        assert_eq!(sources.len(), 2);
        let (text, _) = write(TOOLS, top.path(), None);
        assert!(text.ends_with("above") && !text.contains("root"), "outside of a repository only what is here: {text}");
    }

    #[test]
    fn too_much_is_cut_with_a_note_and_what_is_no_text_is_replaced() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join(".git")).unwrap();
        fs::create_dir(top.path().join("d")).unwrap();
        fs::write(top.path().join(FILE), [&b"\xff"[..], &vec![b'x'; CAP - 10]].concat()).unwrap();
        fs::write(top.path().join("d").join(FILE), "0123456789").unwrap();
        let (text, sources) = write(&[], &top.path().join("d"), Some("Mine."));
        assert!(text.starts_with("Mine.") && text.contains("\u{fffd}xxx"), "{}", &text[..200]);
        assert!(text.ends_with("012345678\n[cut here: 32768 bytes of AGENTS.md are told]"));
        assert!(sources[1].ends_with("cut after 9 bytes"), "{sources:?}");
    }

    #[test]
    fn links_and_pipes_are_not_read() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("secret"), "secret words").unwrap();
        symlink("secret", top.path().join(FILE)).unwrap();
        let (text, sources) = write(&[], top.path(), None);
        assert!(!text.contains("secret words") && sources[0].ends_with("not read, it is no regular file"));
        fs::remove_file(top.path().join(FILE)).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(top.path().join(FILE)).status().unwrap().success());
        assert_eq!(write(&[], top.path(), None).1.len(), 1);
    }

    #[test]
    fn a_model_is_told_what_it_has_and_that_a_person_may_refuse_only_where_that_can_happen() {
        let told = |tools: &[&ToolSpec]| write(tools, Path::new("/"), None).0;
        assert!(told(&[]).contains("no tools") && !told(&[]).contains("refuse"));
        assert!(!told(&[find("glob").unwrap()]).contains("refuse"));
        assert!(told(TOOLS).contains("bash, read_file") && told(TOOLS).contains("refuse"));
    }
}
