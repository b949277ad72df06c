//! Looks for the skills of a directory, on a thread or at the start: those of the person and those of the project, which
//! cannot replace them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::base::digest::sha256;

use crate::base::file::open_regular;
use crate::base::project::ProjectDirectories;
use crate::base::text::{sanitise, shortened};
use crate::domain::front_matter;
use crate::domain::skill::{Author, FILE, Skill, SkillList};

/// Folders of one directory.
const MAX_FOLDERS: usize = 256;
const MAX_BYTES: usize = 256 << 10;
/// In characters (agentskills.io).
const MAX_DESCRIPTION: usize = 1024;
const MAX_NAME: usize = 64;
/// Below a directory of a project, in the order in which they count.
pub const IN_PROJECT: [&str; 3] = [".polylogue/skills", ".claude/skills", ".agents/skills"];
/// Fields of other agents that would change the behaviour of a skill.
const UNUSED: [&str; 6] = ["allowed-tools", "context", "agent", "model", "hooks", "paths"];
const CHANGED: &str = "ignored: new or changed; see polylogue config trust";

/// A folder that may be a skill.
struct Folder {
    /// Canonical.
    directory: PathBuf,
    /// The name under which it was found.
    name: String,
    author: Author,
}

/// The skills for agents in a project. `person` has the directories of the person's skills, the preferred ones first;
/// `origins` the originals of the project's directory; `trusted` the trusted digests of files of projects.
pub fn skills(
    person: &[PathBuf],
    project: &ProjectDirectories,
    origins: &[PathBuf],
    trusted: &BTreeSet<String>,
) -> SkillList {
    let mut found: BTreeMap<String, Skill> = BTreeMap::new();
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    let own = person.iter().flat_map(|above| folders_of_person(above));
    for folder in own.chain(folders_of_project(person, project)) {
        if !seen.insert(folder.directory.clone()) {
            continue;
        }
        let file = folder.directory.join(FILE);
        match read(&folder, &mut problems) {
            Ok(skill) if folder.author == Author::Project && !trusted.contains(&skill.digest) => {
                problems.push(format!("{}: {CHANGED}", file.display()));
            }
            Ok(skill) => match found.get(&skill.name) {
                Some(first) => {
                    let first = first.file().display().to_string();
                    problems.push(format!("{}: hidden by {first}, which has the same name", file.display()));
                }
                None => drop(found.insert(skill.name.clone(), skill)),
            },
            Err(problem) => problems.push(format!("{}: ignored: {problem}", file.display())),
        }
    }
    // Files of a project that git does not track are missing in a worktree of it.
    let original = |origin: &PathBuf| folders_of_project(person, &ProjectDirectories::of(origin));
    for folder in origins.iter().flat_map(original) {
        if let Ok(skill) = read(&folder, &mut Vec::new())
            && trusted.contains(&skill.digest)
        {
            found.entry(skill.name.clone()).or_insert(skill);
        }
    }
    SkillList { skills: found.into_values().collect(), problems }
}

/// The files of the skills that a project brings, with their contents or why they cannot be read.
pub fn files_of_project(person: &[PathBuf], project: &ProjectDirectories) -> Vec<(PathBuf, Result<Vec<u8>, String>)> {
    let files = folders_of_project(person, project).into_iter().map(|folder| folder.directory.join(FILE));
    files.map(|file| (file.clone(), bytes(&file))).collect()
}

/// The trusted skills of a remote project, given its folders and texts. `trust` is the command with which a person
/// trusts them.
pub fn remote_skills(files: &[(PathBuf, Vec<u8>)], trusted: &BTreeSet<String>, trust: &str) -> SkillList {
    let mut list = SkillList::default();
    for (directory, text) in files {
        let file = file(directory).display().to_string();
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = Folder { directory: directory.clone(), name, author: Author::Project };
        let parsed = match text.len() {
            0..=MAX_BYTES => parse(&folder, text.clone(), &mut list.problems),
            _ => Err(too_large()),
        };
        match parsed {
            Ok(skill) if !trusted.contains(&skill.digest) => {
                list.problems.push(format!("{file}: ignored: new or changed; see {trust}"));
            }
            Ok(skill) if list.find(&skill.name).is_some() => {
                list.problems.push(format!("{file}: hidden by a nearer one of the same name"));
            }
            Ok(skill) => list.skills.push(skill),
            Err(problem) => list.problems.push(format!("{file}: ignored: {problem}")),
        }
    }
    list.skills.sort_by(|one, other| one.name.cmp(&other.name));
    list
}

/// The skill as it is now.
pub fn read_again(skill: &Skill) -> Result<Skill, String> {
    let folder = Folder { directory: skill.directory.clone(), name: skill.name.clone(), author: skill.author };
    let now = read(&folder, &mut Vec::new())?;
    if skill.author == Author::Project && now.digest != skill.digest {
        return Err(super::CHANGED.into());
    }
    Ok(now)
}

fn folders_of_person(above: &Path) -> Vec<Folder> {
    // A person may keep them elsewhere and link to them.
    let canonical = |(name, path): (String, PathBuf)| {
        Some(Folder { directory: path.canonicalize().ok()?, name, author: Author::Person })
    };
    entries(above).into_iter().filter_map(canonical).collect()
}

/// Folders nearest to the directory first. A link counts only if it leads to a folder of another place for skills of the same
/// project.
fn folders_of_project(person: &[PathBuf], project: &ProjectDirectories) -> Vec<Folder> {
    let mut places = project.places(&IN_PROJECT);
    // A person may work in their home directory.
    places.retain(|place| !person.iter().any(|own| own.canonicalize().is_ok_and(|own| own == *place)));
    let folder = |(name, path): (String, PathBuf)| {
        let directory = path.canonicalize().ok()?;
        let is_in_place = directory.parent().is_some_and(|parent| places.iter().any(|place| place == parent));
        is_in_place.then_some(Folder { directory, name, author: Author::Project })
    };
    places.iter().flat_map(|place| entries(place)).filter_map(folder).collect()
}

/// The folders with a file of a skill, sorted by name.
fn entries(above: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(above).into_iter().flatten().flatten().take(MAX_FOLDERS);
    let paths = entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    let mut found: Vec<(String, PathBuf)> =
        paths.filter(|(_, path)| path.join(FILE).symlink_metadata().is_ok()).collect();
    found.sort();
    found
}

fn bytes(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let opened = open_regular(file).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes));
    opened.map_err(|_| "is not a regular file, or cannot be read".to_owned())?;
    if bytes.len() > MAX_BYTES { Err(too_large()) } else { Ok(bytes) }
}

fn too_large() -> String {
    format!("is larger than {} KiB", MAX_BYTES / 1024)
}

fn read(folder: &Folder, problems: &mut Vec<String>) -> Result<Skill, String> {
    parse(folder, bytes(&file(&folder.directory))?, problems)
}

/// The file of a skill in this folder.
pub fn file(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

fn parse(folder: &Folder, bytes: Vec<u8>, problems: &mut Vec<String>) -> Result<Skill, String> {
    let file = file(&folder.directory);
    let digest = sha256(&bytes);
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    let (header, body) = front_matter::split(&text)?;
    let mut warn = |problem: &str| problems.push(format!("{}: {problem}", file.display()));
    if header.is_repaired {
        warn("the header is not valid YAML: a text with `: ` needs quotes");
    }
    let unused = header.present_fields(&UNUSED);
    if !unused.is_empty() {
        warn(&format!("not supported, and ignored: {}", unused.join(", ")));
    }
    let name = match header.text("name") {
        Some(name) if !is_name(name) => return Err("the name must be 1 to 64 letters a-z, digits and single -".into()),
        Some(name) => name.to_owned(),
        None => folder.name.clone(),
    };
    if !is_name(&name) {
        return Err("has no name, and that of its folder cannot be one".into());
    }
    if name != folder.name {
        warn(&format!("is named {name}, other than its folder"));
    }
    let described = header.text("description").or_else(|| body.lines().find(|line| !line.trim().is_empty()));
    let described = described.ok_or("has no description")?.trim_start_matches('#');
    Ok(Skill {
        name,
        description: one_line(described, MAX_DESCRIPTION),
        argument_hint: one_line(header.text("argument-hint").unwrap_or_default(), 40),
        directory: folder.directory.clone(),
        author: folder.author,
        is_for_models: header.flag("disable-model-invocation") != Some(true),
        is_for_people: header.flag("user-invocable") != Some(false),
        body: body.into(),
        digest,
    })
}

fn one_line(text: &str, width: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&sanitise(&text), width).into_owned()
}

/// The names of agentskills.io.
fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let has_single = !name.starts_with('-') && !name.ends_with('-') && !name.contains("--");
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_fine) && has_single
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Tree {
        top: tempfile::TempDir,
        person: Vec<PathBuf>,
    }

    impl Tree {
        /// A repository, and a directory of the person's skills.
        fn new() -> Self {
            let top = tempfile::tempdir().unwrap();
            fs::create_dir_all(top.path().join("project/.git")).unwrap();
            fs::create_dir_all(top.path().join("project/below")).unwrap();
            let person = ["one", "two"].map(|name| top.path().join("home").join(name)).to_vec();
            Self { top, person }
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn skill(&self, folder: &str, description: &str) {
            let name = folder.rsplit('/').next().unwrap();
            self.write(
                &format!("{folder}/SKILL.md"),
                &format!("---\nname: {name}\ndescription: {description}\n---\nBody.\n"),
            );
        }

        fn project(&self) -> ProjectDirectories {
            ProjectDirectories::of(&self.top.path().join("project/below"))
        }

        /// The result if all files of the project are trusted.
        fn found(&self) -> SkillList {
            let files = files_of_project(&self.person, &self.project());
            let digests = files.into_iter().filter_map(|(_, bytes)| Some(sha256(bytes.ok()?))).collect();
            skills(&self.person, &self.project(), &[], &digests)
        }
    }

    fn descriptions(list: &SkillList) -> Vec<(&str, &str)> {
        list.skills.iter().map(|skill| (skill.name.as_str(), skill.description.as_str())).collect()
    }

    #[test]
    fn the_persons_skills_come_before_those_of_the_project_and_the_nearest_first() {
        let tree = Tree::new();
        tree.skill("home/one/a", "person");
        tree.skill("home/two/a", "second");
        tree.skill("project/.claude/skills/a", "project");
        tree.skill("project/.agents/skills/b", "root");
        tree.skill("project/below/.claude/skills/b", "near");
        tree.skill("project/.polylogue/skills/c", "ours");
        let list = tree.found();
        assert_eq!(descriptions(&list), [("a", "person"), ("b", "near"), ("c", "ours")]);
        assert_eq!(list.problems.len(), 3, "{:?}", list.problems);
        assert!(list.problems.iter().all(|problem| problem.contains("hidden by")));
    }

    #[test]
    fn a_skill_of_a_project_counts_only_as_it_was_trusted() {
        let tree = Tree::new();
        tree.skill("project/.claude/skills/a", "as trusted");
        let list = tree.found();
        assert!(read_again(&list.skills[0]).is_ok());
        tree.skill("project/.claude/skills/a", "as changed");
        assert!(read_again(&list.skills[0]).unwrap_err().contains("config trust"));
        let trusted = list.skills.iter().map(|skill| skill.digest.clone()).collect();
        let list = skills(&tree.person, &tree.project(), &[], &trusted);
        assert!(list.skills.is_empty() && list.problems[0].contains(CHANGED), "{list:?}");
    }

    #[test]
    fn links_of_a_project_stay_in_its_places_and_those_of_a_person_lead_anywhere() {
        let tree = Tree::new();
        let link = |from: &str, to: &str| {
            let from = tree.top.path().join(from);
            fs::create_dir_all(from.parent().unwrap()).unwrap();
            symlink(tree.top.path().join(to), from).unwrap();
        };
        tree.skill("elsewhere/x", "elsewhere");
        tree.skill("project/.agents/skills/b", "once");
        tree.write("project/SKILL.md", "---\nname: c\ndescription: the whole project\n---\n");
        link("project/.claude/skills/a", "elsewhere/x");
        link("project/.claude/skills/b", "project/.agents/skills/b");
        link("project/.claude/skills/c", "project");
        link("project/.polylogue/skills", "elsewhere");
        link("home/one/x", "elsewhere/x");
        tree.write("home/one/y/SKILL.md", "---\ndescription: no name\n---\n");
        link("home/one/z/SKILL.md", "elsewhere/x/SKILL.md");
        let list = tree.found();
        assert_eq!(descriptions(&list), [("b", "once"), ("x", "elsewhere"), ("y", "no name")]);
        assert!(list.problems.iter().any(|problem| problem.contains("z/SKILL.md: ignored: is not a regular file")));
    }

    #[test]
    fn what_is_wrong_is_named_and_what_can_be_used_is() {
        let tree = Tree::new();
        for (folder, text) in [
            ("upper", "---\nname: Upper\ndescription: x\n---\n"),
            ("other", "---\nname: another\ndescription: x\n---\n"),
            ("plain", "# Do it well\n\nThen more."),
            ("empty", ""),
            ("bad", "---\nname: [\n---\n"),
            ("hidden", "---\ndescription: x\ndisable-model-invocation: true\nuser-invocable: false\n---\n"),
            ("alias", "---\nname: &a alias\ndescription: *a\n---\n"),
            ("big", &"x".repeat(MAX_BYTES + 1)),
        ] {
            tree.write(&format!("home/one/{folder}/SKILL.md"), text);
        }
        let list = tree.found();
        assert_eq!(descriptions(&list), [("another", "x"), ("hidden", "x"), ("plain", "Do it well")]);
        let hidden = list.find("hidden").unwrap();
        assert!(!hidden.is_for_models && !hidden.is_for_people);
        assert_eq!(list.problems.len(), 7, "{:#?}", list.problems);
    }

    #[test]
    fn a_worktree_has_the_skills_of_its_project_that_git_does_not_track_as_they_were_trusted() {
        let tree = Tree::new();
        tree.skill("project/.agents/skills/shared", "as in the project");
        tree.skill("project/.agents/skills/private", "not tracked");
        tree.skill("worktree/.agents/skills/shared", "as on the branch");
        fs::write(tree.top.path().join("worktree/.git"), "gitdir: elsewhere").unwrap();
        let (project, worktree) = (tree.top.path().join("project"), tree.top.path().join("worktree"));
        let all = [&project, &worktree].map(|at| files_of_project(&[], &ProjectDirectories::of(at))).concat();
        let digest = |(_, bytes): (PathBuf, Result<Vec<u8>, String>)| sha256(bytes.unwrap());
        let trusted: BTreeSet<String> = all.into_iter().map(digest).collect();
        let worktree = ProjectDirectories::of(&worktree);
        let found = |origins: &[PathBuf]| skills(&[], &worktree, origins, &trusted);
        assert_eq!(descriptions(&found(&[])), [("shared", "as on the branch")]);
        let list = found(std::slice::from_ref(&project));
        assert_eq!(descriptions(&list), [("private", "not tracked"), ("shared", "as on the branch")]);
        assert!(list.problems.is_empty(), "{:?}", list.problems);
        assert!(skills(&[], &worktree, &[project], &BTreeSet::new()).skills.is_empty());
    }

    /// Files in the shapes that projects have.
    #[test]
    fn each_skill_of_a_project_is_read_and_what_is_not_supported_is_said_in_one_line() {
        let tree = Tree::new();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/projects/skills");
        for folder in fs::read_dir(fixtures).unwrap().flatten() {
            let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
            tree.write(&format!("home/one/{}/SKILL.md", folder.file_name().display()), &text);
        }
        let list = tree.found();
        let expected = [
            ("commit-notes", "Writes the notes of a commit: what changed and why."),
            ("deep-review", "Reviews a change in depth. Use it when a person asks for a review."),
            ("plain-steps", "Steps without a header"),
            ("table-reader", "Reads tables from files (csv, tsv). Use when: a file has rows."),
        ];
        assert_eq!(descriptions(&list), expected);
        for said in [
            "commit-notes/SKILL.md: not supported, and ignored: allowed-tools",
            "deep-review/SKILL.md: not supported, and ignored: allowed-tools, context, agent, model, hooks",
            "table-reader/SKILL.md: the header is not valid YAML",
        ] {
            assert_eq!(list.problems.iter().filter(|line| line.contains(said)).count(), 1, "{:#?}", list.problems);
        }
        assert_eq!(list.problems.len(), 3, "{:#?}", list.problems);
    }

    #[test]
    fn names_are_those_of_the_specification() {
        let long = "x".repeat(MAX_NAME + 1);
        for (name, expected) in
            [("a", true), ("a-1", true), ("a--b", false), ("-a", false), ("a-", false), ("A", false), ("", false)]
        {
            assert_eq!(is_name(name), expected, "{name}");
        }
        assert!(!is_name(&long));
    }
}
