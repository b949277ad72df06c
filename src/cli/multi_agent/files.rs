//! Templates and workflows: those that everybody has, and those in files. A file's template stands in for a built-in one of
//! its name, and the project's for the person's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::config::Loaded;
use crate::cli::config::file::{self, FoundFile};
use crate::cli::config::team::{TEMPLATES, WORKFLOWS};
use crate::team::coordinator::settings::unknown;
use crate::team::coordinator::template::{self, Template};
use crate::team::coordinator::workflow::Workflow;

/// All that can be run by name.
#[derive(Debug, Default)]
pub struct Shelf {
    /// Built-in ones first, then by file.
    pub templates: Vec<Template>,
    /// By file.
    pub workflows: Vec<Workflow>,
    /// Where those come from that have a file; names of templates and of workflows apart.
    sources: [BTreeMap<String, PathBuf>; 2],
    /// What is wrong with files, and what they are called.
    faults: Vec<(String, Error)>,
}

impl Shelf {
    /// What everybody has.
    pub fn built_in() -> Self {
        Self { templates: template::built_in(), ..Self::default() }
    }

    /// Everything that is found. What is wrong with a file is told to who asks for it, and to who asks for what there is
    /// not.
    pub fn of(loaded: &Loaded) -> Self {
        let mut shelf = Self::built_in();
        for file in loaded.team_files(TEMPLATES) {
            let read = file.text().and_then(|text| Template::parse(&shown(&file), &file.stem(), &text));
            if let Some(template) = shelf.noted(read, &file) {
                shelf.sources[0].insert(template.name.clone(), file.path);
                shelf.templates.retain(|other| other.name != template.name);
                shelf.templates.push(template);
            }
        }
        for file in loaded.team_files(WORKFLOWS) {
            let read = shelf.parse(&file);
            if let Some(workflow) = shelf.noted(read, &file) {
                shelf.sources[1].insert(workflow.name.clone(), file.path);
                shelf.workflows.retain(|other| other.name != workflow.name);
                shelf.workflows.push(workflow);
            }
        }
        shelf
    }

    fn parse(&self, file: &FoundFile) -> Result<Workflow> {
        Workflow::parse(&shown(file), &file.stem(), &file.text()?, &self.templates)
    }

    fn noted<T>(&mut self, read: Result<T>, file: &FoundFile) -> Option<T> {
        read.map_err(|error| self.faults.push((file.stem(), error))).ok()
    }

    /// The template of this name.
    ///
    /// # Errors
    /// There is none, or its file is faulty.
    pub fn template(&self, name: &str) -> Result<&Template> {
        template::find(&self.templates, name).map_err(|error| self.explained(name, error))
    }

    /// The workflow of this name, or in this file, if it has a `/` or ends like one.
    ///
    /// # Errors
    /// There is none, or its file is faulty.
    pub fn workflow(&self, name: &str) -> Result<Workflow> {
        if is_path(name) {
            return self.parse(&named(Path::new(name))?);
        }
        let found = self.workflows.iter().find(|workflow| workflow.name == name);
        let names = self.workflows.iter().map(|workflow| workflow.name.as_str());
        found.cloned().ok_or_else(|| self.explained(name, unknown("workflow", name, name, names)))
    }

    /// Where this template comes from, if it has a file.
    pub fn source_of_template(&self, name: &str) -> Option<&Path> {
        self.sources[0].get(name).map(PathBuf::as_path)
    }

    /// Where this workflow comes from.
    pub fn source_of_workflow(&self, name: &str) -> Option<&Path> {
        self.sources[1].get(name).map(PathBuf::as_path)
    }

    /// What is wrong with files.
    pub fn faults(&self) -> impl Iterator<Item = &Error> {
        self.faults.iter().map(|(_, error)| error)
    }

    /// What is not there may be in a file that cannot be read: its fault is the whole answer if it is called so, and else
    /// a further line.
    pub fn explained(&self, name: &str, missing: Error) -> Error {
        if let Some((_, fault)) = self.faults.iter().find(|(stem, _)| stem == name) {
            return fault.clone();
        }
        let faults = self.faults().map(|fault| format!("\n{}", fault.message));
        Error::new(ErrorKind::Usage, missing.message + &faults.collect::<String>())
    }
}

/// A file that a person names, as it is found.
fn named(path: &Path) -> Result<FoundFile> {
    let refuse = |words: &str| Error::new(ErrorKind::Usage, format!("{}: {words}", path.display()));
    match file::read(path) {
        Ok(Some(bytes)) => Ok(FoundFile { path: path.to_owned(), bytes: Ok(bytes) }),
        Ok(None) => Err(refuse("there is no such file")),
        Err(words) => Err(refuse(&words)),
    }
}

/// Whether a file is meant, and not a name.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml") || name.ends_with(".json")
}

fn shown(file: &FoundFile) -> String {
    file.path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_or_an_end_is_a_file() {
        for (name, is_file) in
            [("plan", false), ("./plan", true), ("plan.toml", true), ("a.b", false), ("x.json", true)]
        {
            assert_eq!(is_path(name), is_file, "{name}");
        }
    }

    #[test]
    fn a_faulty_file_is_told_to_who_asks_for_it_and_beside_the_words_for_what_is_not_there() {
        let fault = || Error::new(ErrorKind::Usage, "mine.toml:3: name: is missing");
        let shelf = Shelf { faults: vec![("mine".into(), fault())], ..Shelf::built_in() };
        assert_eq!(shelf.template("mine"), Err(fault()));
        let words = shelf.template("refactr").unwrap_err().message;
        assert!(
            words.contains("did you mean refactor?") && words.ends_with("\nmine.toml:3: name: is missing"),
            "{words}"
        );
        let words = shelf.workflow("mine-too").unwrap_err().message;
        assert!(words.starts_with("unknown workflow \"mine-too\" (known: none)"), "{words}");
        assert!(shelf.template("refactor").is_ok());
    }
}
