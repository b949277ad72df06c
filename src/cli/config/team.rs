//! The files of templates and workflows, of the user and of a trusted project. Their contents are parsed when they are run.

use std::path::Path;

use super::Loaded;
use super::file::{self, FoundFile};
use crate::base::error::{Error, ErrorKind, Result};

/// The directories of these files, beside the configuration.
pub const DIRECTORIES: [&str; 2] = [TEMPLATES, WORKFLOWS];
pub const TEMPLATES: &str = "templates";
pub const WORKFLOWS: &str = "workflows";
const EXTENSIONS: &[&str] = &["toml", "json"];

pub fn files(directory: &Path) -> Vec<FoundFile> {
    file::files(directory, EXTENSIONS)
}

impl FoundFile {
    /// The name of a template or workflow whose file contains none.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its contents.
    ///
    /// # Errors
    /// They cannot be read, are too large or not UTF-8.
    pub fn text(&self) -> Result<String> {
        let text = self.bytes.clone().and_then(file::text_of);
        text.map_err(|message| Error::new(ErrorKind::Usage, format!("{}: {message}", self.path.display())))
    }
}

impl Loaded {
    /// The files of one of the `DIRECTORIES`: the user's, then those of the project if it is trusted.
    pub fn team_files(&self, directory: &str) -> Vec<FoundFile> {
        let users = self.files.directory.as_ref().map(|above| files(&above.join(directory))).unwrap_or_default();
        let trusted = self.files.project.iter().filter(|_| self.files.is_trusted);
        let projects = trusted.flat_map(|project| {
            let directory = project.directory.join(directory);
            project.teams.iter().filter(move |file| file.path.parent() == Some(&directory)).cloned()
        });
        users.into_iter().chain(projects).collect()
    }
}
