//! Templates and workflows that a person has written, or that a project brings along: which files they are. What stands in
//! them is read by whoever runs them.

use std::path::Path;

use super::Loaded;
use super::file::{self, FoundFile};
use crate::base::error::{Error, ErrorKind, Result};

/// The directories beside the configuration that hold them.
pub const DIRECTORIES: [&str; 2] = [TEMPLATES, WORKFLOWS];
/// Members with roles that belong together.
pub const TEMPLATES: &str = "templates";
/// Steps that hang on one another.
pub const WORKFLOWS: &str = "workflows";
/// How the names of such files end.
const ENDS: &[&str] = &["toml", "json"];

/// Those of this directory, by name.
pub fn files(directory: &Path) -> Vec<FoundFile> {
    file::files(directory, ENDS)
}

impl FoundFile {
    /// What it is called where it says no name itself.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What it holds.
    ///
    /// # Errors
    /// It cannot be read, or is no text of a usual size.
    pub fn text(&self) -> Result<String> {
        let text = self.bytes.clone().and_then(file::text_of);
        text.map_err(|words| Error::new(ErrorKind::Usage, format!("{}: {words}", self.path.display())))
    }
}

impl Loaded {
    /// The files of one of the `DIRECTORIES`: the person's own, then the project's, if it is trusted.
    pub fn team_files(&self, directory: &str) -> Vec<FoundFile> {
        let own = self.files.directory.as_ref().map(|above| files(&above.join(directory))).unwrap_or_default();
        let trusted = self.files.project.iter().filter(|_| self.files.is_trusted);
        let projects = trusted.flat_map(|project| {
            let place = project.directory.join(directory);
            project.teams.iter().filter(move |file| file.path.parent() == Some(&place)).cloned()
        });
        own.into_iter().chain(projects).collect()
    }
}
