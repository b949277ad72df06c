//! Reads definitions of agents, and finds those of an environment.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::base::digest::sha256;

use super::{Environment, all};
use crate::base::file::open_regular;
use crate::base::project::ProjectDirectories;
use crate::base::text::{nearest, sanitise, shortened};
use crate::domain::approval::Policy;
use crate::domain::definition::AgentDefinition;
use crate::domain::front_matter::{self, FrontMatter};
use crate::domain::hook::own_name;
use crate::domain::skill::Author;

const MAX_FILES: usize = 128;
/// Deeper folders are ignored.
const MAX_DEPTH: usize = 4;
const MAX_BYTES: usize = 64 << 10;
/// In characters.
const MAX_DESCRIPTION: usize = 500;
/// Bytes of the list in the system prompt.
const MAX_LIST: usize = 4 << 10;
/// Below a directory of a project.
pub const IN_PROJECT: [&str; 2] = [".polylogue/agents", ".claude/agents"];
/// Fields of other agents that would change the behaviour of an agent.
const UNUSED: [&str; 5] = ["disallowedTools", "hooks", "mcpServers", "skills", "isolation"];
const BEGINNING: &str = "\n\nDefinitions of agents, for the parameter `agent` of fork:";

/// A file with its contents, or why they cannot be read.
type File = (PathBuf, Result<Vec<u8>, String>);

/// The definitions of the person, in this directory, then those of a project whose digests are trusted.
pub fn definitions(
    person: Option<&Path>,
    project: &ProjectDirectories,
    trusted: &BTreeSet<String>,
    warnings: &mut Vec<String>,
) -> Vec<AgentDefinition> {
    let own = person.map(files).unwrap_or_default().into_iter().map(|file| (file, None));
    let of_project = project.places(&IN_PROJECT).into_iter().flat_map(|place| {
        let top = place.ancestors().nth(2).map(Path::to_owned);
        files(&place).into_iter().map(move |file| (file, top.clone())).collect::<Vec<_>>()
    });
    let is_trusted = |(_, bytes): &File| bytes.as_ref().is_ok_and(|bytes| trusted.contains(&sha256(bytes)));
    let mut found: Vec<AgentDefinition> = Vec::new();
    for (file, project) in own.chain(of_project) {
        if project.is_some() && !is_trusted(&file) {
            continue;
        }
        match read(&file, project, warnings) {
            Ok(definition) if found.iter().all(|known| known.name != definition.name) => found.push(definition),
            Ok(definition) => {
                warnings.push(format!("{}: hidden by another one of this name", definition.source.display()))
            }
            Err(problem) => warnings.push(format!("{}: ignored: {problem}", file.0.display())),
        }
    }
    found
}

/// The files that a project brings.
pub fn files_of_project(project: &ProjectDirectories) -> Vec<File> {
    project.places(&IN_PROJECT).iter().flat_map(|place| files(place)).collect()
}

fn files(place: &Path) -> Vec<File> {
    let mut paths = Vec::new();
    collect(place, MAX_DEPTH, &mut paths);
    paths.truncate(MAX_FILES);
    paths.into_iter().map(|path| (path.clone(), bytes(&path))).collect()
}

/// The files in a directory and in those below it; a link to one is not followed.
fn collect(place: &Path, depth: usize, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten().take(MAX_FILES * 2);
    let mut found: Vec<(PathBuf, bool)> =
        entries.map(|entry| (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir()))).collect();
    found.sort();
    let is_definition = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    paths.extend(
        found.iter().filter(|(path, is_directory)| !is_directory && is_definition(path)).map(|(path, _)| path.clone()),
    );
    for (below, _) in found.iter().filter(|(_, is_directory)| *is_directory && depth > 0) {
        if paths.len() < MAX_FILES {
            collect(below, depth - 1, paths);
        }
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let opened = open_regular(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes));
    opened.map_err(|_| "is not a regular file, or cannot be read".to_owned())?;
    if bytes.len() > MAX_BYTES { Err(format!("is larger than {} KiB", MAX_BYTES / 1024)) } else { Ok(bytes) }
}

fn read((path, bytes): &File, project: Option<PathBuf>, warnings: &mut Vec<String>) -> Result<AgentDefinition, String> {
    let text = String::from_utf8(bytes.clone()?).map_err(|_| "is not UTF-8")?;
    let (header, body) = front_matter::split(&text)?;
    let stem = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let name = header.text("name").unwrap_or(stem).to_owned();
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_fine) {
        return Err("the name must be 1 to 64 letters, digits, - and _".into());
    }
    if body.trim().is_empty() {
        return Err("has no prompt: write it after the header".into());
    }
    let description = header.text("description").or_else(|| body.lines().next()).unwrap_or_default();
    let description = sanitise(description).split_whitespace().collect::<Vec<_>>().join(" ");
    let policy = match (header.text("policy"), header.text("permissionMode")) {
        (Some(policy), _) => Some(policy.parse::<Policy>().map_err(|error| error.message)?),
        (None, mode) => mode.and_then(policy_of),
    };
    let names = header.list("tools").filter(|names| names.iter().all(|name| name != "*"));
    let left_out = left_out(&header, names.as_deref().unwrap_or_default(), policy);
    if !left_out.is_empty() {
        warnings.push(format!("{}: not supported, and ignored: {}", path.display(), left_out.join(", ")));
    }
    Ok(AgentDefinition {
        name,
        description: shortened(&description, MAX_DESCRIPTION).into_owned(),
        tools: names.map(|names| names.iter().filter_map(|name| tool(name)).collect()),
        // Names without a provider are those of other agents.
        model: header.text("model").filter(|model| model.contains('/')).map(str::to_owned),
        policy,
        prompt: body,
        author: if project.is_some() { Author::Project } else { Author::Person },
        source: path.clone(),
        project,
    })
}

/// The entries of a header that have no effect here, one text each.
fn left_out(header: &FrontMatter, tools: &[String], policy: Option<Policy>) -> Vec<String> {
    let shown = |text: &str| shortened(&sanitise(text), 60).into_owned();
    let mut left_out: Vec<String> = tools.iter().filter(|name| tool(name).is_none()).map(|name| shown(name)).collect();
    let of_others = |model: &&str| !model.contains('/') && *model != "inherit";
    left_out.extend(header.text("model").filter(of_others).map(|model| format!("model {}", shown(model))));
    let mode = header.text("permissionMode").filter(|_| policy.is_none());
    left_out.extend(mode.map(|mode| format!("permissionMode {}", shown(mode))));
    left_out.extend(header.present_fields(&UNUSED).into_iter().map(str::to_owned));
    left_out
}

/// A mode of Claude Code.
fn policy_of(mode: &str) -> Option<Policy> {
    match mode {
        "plan" => Some(Policy::Plan),
        "dontAsk" => Some(Policy::Never),
        "default" => Some(Policy::Ask),
        "acceptEdits" => Some(Policy::Auto),
        _ => None,
    }
}

/// Our name of a tool. One with a pattern, as in `Bash(git log *)`, is left out: it would become the whole tool.
fn tool(name: &str) -> Option<String> {
    let known = own_name(name).unwrap_or(name);
    all().any(|spec| spec.declaration.name == known).then(|| known.to_owned())
}

impl Environment {
    /// The definitions for agents that work here.
    pub fn definitions_here(&self) -> impl Iterator<Item = &AgentDefinition> {
        self.definitions.iter().filter(|definition| self.is_of(definition.project.as_ref()))
    }

    pub fn definition(&self, name: &str) -> Result<&AgentDefinition, String> {
        self.definitions_here().find(|definition| definition.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.definitions_here().map(|definition| definition.name.as_str()).collect();
            let hint = nearest(name, names.iter().copied());
            let hint = hint.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            let names = if names.is_empty() { "none".into() } else { names.join(", ") };
            format!("unknown agent definition {:?}{hint}; available definitions: {names}", super::one_line(name, 64))
        })
    }

    /// The specification of the environment of a child with this definition: its tools, as far as this environment has
    /// them or a person gives more.
    pub fn spec_for(&self, definition: &AgentDefinition, may_add: bool) -> String {
        let own = || self.tools.iter().map(|spec| spec.declaration.name);
        let may_add = may_add && definition.author == Author::Person;
        let tools: Vec<&str> = match &definition.tools {
            None => own().collect(),
            Some(names) => {
                let is_open = |name: &&str| may_add || own().any(|known| known == *name);
                names.iter().map(String::as_str).filter(is_open).collect()
            }
        };
        let distinct: BTreeSet<&str> = tools.iter().copied().collect();
        if distinct.is_empty() { "none".into() } else { distinct.into_iter().collect::<Vec<_>>().join("+") }
    }

    /// The part of the system prompt about them.
    pub fn definition_prompt(&self) -> String {
        let has_fork = self.tools.iter().any(|spec| spec.declaration.name == "fork");
        let mut text = String::new();
        for definition in self.definitions_here().filter(|_| has_fork) {
            let line = format!("\n- {}: {}", definition.name, definition.description);
            if text.len() + line.len() > MAX_LIST {
                text.push_str("\n[more are left out]");
                break;
            }
            text.push_str(&line);
        }
        if text.is_empty() { text } else { format!("{BEGINNING}{text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(top: &Path, path: &str, text: &str) {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn files_of_both_forms_are_read_and_a_project_counts_as_it_was_trusted() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("project/.git")).unwrap();
        written(
            &top,
            "own/critic.md",
            "---\ndescription: Finds faults.\ntools: [read_file, grep]\npolicy: plan\nmodel: far/one\n---\nFind faults.",
        );
        written(&top, "own/empty.md", "---\ndescription: x\n---\n");
        written(
            &top,
            "project/.claude/agents/scout.md",
            "---\nname: scout\ndescription: Looks around.\ntools: Read, Bash(git log *), WebSearch, Glob\nmodel: sonnet\n\
             permissionMode: bypassPermissions\n---\nLook around.",
        );
        written(&top, "project/.polylogue/agents/critic.md", "---\n---\nMine.");
        let own = top.join("own");
        let find = |trusted: &BTreeSet<String>, warnings: &mut Vec<String>| {
            definitions(Some(&own), &ProjectDirectories::of(&top.join("project")), trusted, warnings)
        };
        let names = |found: &[AgentDefinition]| found.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let mut warnings = Vec::new();
        assert_eq!(names(&find(&BTreeSet::new(), &mut warnings)), ["critic"]);
        assert!(warnings.len() == 1 && warnings[0].contains("has no prompt"), "{warnings:?}");
        let trusted = files_of_project(&ProjectDirectories::of(&top.join("project"))).into_iter();
        let trusted = trusted.map(|(_, bytes)| sha256(bytes.unwrap())).collect();
        let found = find(&trusted, &mut warnings);
        assert_eq!(names(&found), ["critic", "scout"]);
        assert!(warnings.iter().any(|warning| warning.contains("hidden by another")), "{warnings:?}");
        assert_eq!((found[0].policy, found[0].model.as_deref()), (Some(Policy::Plan), Some("far/one")));
        let scout = &found[1];
        assert_eq!(scout.tools.as_deref().unwrap(), ["read_file", "glob"]);
        assert_eq!((scout.model.as_ref(), scout.policy, scout.author), (None, None, Author::Project));
    }

    /// Files in the shapes that projects have.
    #[test]
    fn each_definition_of_a_project_is_read_and_what_is_not_supported_is_said_in_one_line() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/projects/agents");
        let mut warnings = Vec::new();
        let found = definitions(Some(&fixtures), &ProjectDirectories::default(), &BTreeSet::new(), &mut warnings);
        let shown = found.iter().map(|one| {
            let tools = one.tools.as_ref().map_or_else(|| "all".to_owned(), |tools| tools.join(" "));
            format!("{}: {tools}; {:?}", one.name, one.policy)
        });
        let expected = ["everything: all; None", "reader: read_file grep glob; Some(Plan)", "tester: read_file; None"];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        let said = [
            "everything.md: not supported, and ignored: permissionMode bypassPermissions, disallowedTools, mcpServers",
            "tester.md: not supported, and ignored: Bash(npm test:*), WebSearch, model opus",
        ];
        assert_eq!(warnings.len(), said.len(), "{warnings:#?}");
        assert!(said.iter().all(|said| warnings.iter().any(|line| line.ends_with(said))), "{warnings:#?}");
    }

    #[test]
    fn a_definition_takes_tools_away_and_only_a_persons_own_adds_some() {
        let definition = |author, tools: &[&str]| AgentDefinition {
            name: "x".into(),
            description: String::new(),
            tools: Some(tools.iter().map(|name| (*name).to_owned()).collect()),
            model: Some("far/one".into()),
            policy: None,
            prompt: "x".into(),
            author,
            source: PathBuf::new(),
            project: None,
        };
        let tools = ["grep", "glob"].map(|name| crate::tools::find(name).unwrap()).to_vec();
        let env = Environment { tools, ..Environment::at("/".into()) };
        for (author, may_add, expected) in
            [(Author::Person, true, "bash+grep"), (Author::Person, false, "grep"), (Author::Project, true, "grep")]
        {
            assert_eq!(env.spec_for(&definition(author, &["grep", "bash"]), may_add), expected);
        }
        assert_eq!(env.spec_for(&definition(Author::Project, &["bash"]), true), "none");
        assert_eq!(definition(Author::Project, &[]).model_beside("near"), None);
        assert_eq!(definition(Author::Project, &[]).model_beside("far"), Some("far/one"));
        assert_eq!(definition(Author::Person, &[]).model_beside("near"), Some("far/one"));
    }
}
