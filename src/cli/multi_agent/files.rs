//! Workflows that are named by the path of a file.

use std::path::Path;

use crate::base::error::{Error, Result};
use crate::cli::config::file;
use crate::domain::custom::TeamFile;
use crate::team::coordinator::definitions::Definitions;
use crate::team::coordinator::workflow::Workflow;

/// The workflow of this name, or of this file if [`is_path`].
pub fn workflow(definitions: &Definitions, name: &str) -> Result<Workflow> {
    if is_path(name) {
        return definitions.parse(&read_file(Path::new(name))?);
    }
    definitions.workflow(name).cloned()
}

fn read_file(path: &Path) -> Result<TeamFile> {
    let refuse = |message: &str| Error::usage(format!("{}: {message}", path.display()));
    match file::read(path) {
        Ok(Some(bytes)) => Ok(TeamFile { path: path.to_owned(), is_workflow: true, text: file::text_of(bytes) }),
        Ok(None) => Err(refuse("no such file")),
        Err(message) => Err(refuse(&message)),
    }
}

/// Whether the name of a workflow is the path of a file.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml") || name.ends_with(".json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_or_an_extension_is_a_path() {
        for (name, is_file) in
            [("plan", false), ("./plan", true), ("plan.toml", true), ("a.b", false), ("x.json", true)]
        {
            assert_eq!(is_path(name), is_file, "{name}");
        }
    }
}
