//! Templates and workflows: built in, and from files. A file replaces the built-in definition of the same name, and a file
//! of the project that of the user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::settings::unknown;
use super::template::{self, Template};
use super::workflow::Workflow;
use crate::base::error::{Error, Result};
use crate::domain::custom::TeamFile;

#[derive(Debug, Default)]
pub struct Definitions {
    /// Built-in ones first.
    pub templates: Vec<Template>,
    pub workflows: Vec<Workflow>,
    /// The files of templates, and those of workflows, by name.
    sources: [BTreeMap<String, PathBuf>; 2],
    /// The stems of invalid files, with the error.
    errors: Vec<(String, Error)>,
}

impl Definitions {
    pub fn built_in() -> Self {
        Self { templates: template::built_in(), ..Self::default() }
    }

    /// Parses all files. An invalid file is an error only for a command that needs it.
    pub fn of(files: &[TeamFile]) -> Self {
        let mut definitions = Self::built_in();
        for file in files.iter().filter(|file| !file.is_workflow) {
            let read = text_of(file).and_then(|text| Template::parse(&display_path(file), &file.stem(), text));
            if let Some(template) = definitions.valid(read, file) {
                definitions.sources[0].insert(template.name.clone(), file.path.clone());
                definitions.templates.retain(|other| other.name != template.name);
                definitions.templates.push(template);
            }
        }
        for file in files.iter().filter(|file| file.is_workflow) {
            let read = definitions.parse(file);
            if let Some(workflow) = definitions.valid(read, file) {
                definitions.sources[1].insert(workflow.name.clone(), file.path.clone());
                definitions.workflows.retain(|other| other.name != workflow.name);
                definitions.workflows.push(workflow);
            }
        }
        definitions
    }

    pub fn parse(&self, file: &TeamFile) -> Result<Workflow> {
        Workflow::parse(&display_path(file), &file.stem(), text_of(file)?, &self.templates)
    }

    fn valid<T>(&mut self, read: Result<T>, file: &TeamFile) -> Option<T> {
        read.map_err(|error| self.errors.push((file.stem(), error))).ok()
    }

    pub fn template(&self, name: &str) -> Result<&Template> {
        template::find(&self.templates, name).map_err(|error| self.with_file_errors(name, error))
    }

    pub fn workflow(&self, name: &str) -> Result<&Workflow> {
        let found = self.workflows.iter().find(|workflow| workflow.name == name);
        let names = self.workflows.iter().map(|workflow| workflow.name.as_str());
        found.ok_or_else(|| self.with_file_errors(name, unknown("workflow", name, name, names)))
    }

    pub fn file_of_template(&self, name: &str) -> Option<&Path> {
        self.sources[0].get(name).map(PathBuf::as_path)
    }

    pub fn file_of_workflow(&self, name: &str) -> Option<&Path> {
        self.sources[1].get(name).map(PathBuf::as_path)
    }

    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.errors.iter().map(|(_, error)| error)
    }

    /// The error for a definition that was not found: that of the invalid file with this name, if there is one, or else
    /// followed by the errors of all invalid files.
    pub fn with_file_errors(&self, name: &str, not_found: Error) -> Error {
        if let Some((_, error)) = self.errors.iter().find(|(stem, _)| stem == name) {
            return error.clone();
        }
        let errors = self.errors().map(|error| format!("\n{}", error.message));
        Error::usage(not_found.message + &errors.collect::<String>())
    }
}

fn text_of(file: &TeamFile) -> Result<&str> {
    file.text.as_deref().map_err(|message| Error::usage(format!("{}: {message}", display_path(file))))
}

fn display_path(file: &TeamFile) -> String {
    file.path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_file_is_the_error_of_its_name_and_a_line_for_other_unknown_names() {
        let error = || Error::usage("mine.toml:3: name: is missing");
        let definitions = Definitions { errors: vec![("mine".into(), error())], ..Definitions::built_in() };
        assert_eq!(definitions.template("mine"), Err(error()));
        let message = definitions.template("refactr").unwrap_err().message;
        assert!(
            message.contains("did you mean refactor?") && message.ends_with("\nmine.toml:3: name: is missing"),
            "{message}"
        );
        let message = definitions.workflow("mine-too").unwrap_err().message;
        assert!(message.starts_with("unknown workflow \"mine-too\" (known: none)"), "{message}");
        assert!(definitions.template("refactor").is_ok());
    }
}
