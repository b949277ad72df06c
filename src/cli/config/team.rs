//! The files of templates and workflows, of the user and of a trusted project. Their contents are parsed when they are run.

use super::Loaded;
use super::file::{self, FoundFile};
use super::project::team_files;
pub use super::project::{TEMPLATES, WORKFLOWS};
use crate::base::error::{Error, Result};

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
        text.map_err(|message| Error::usage(format!("{}: {message}", self.path.display())))
    }
}

impl Loaded {
    /// The files in `TEMPLATES` or `WORKFLOWS`: the user's, then those of the project if it is trusted.
    pub fn team_files(&self, directory: &str) -> Vec<FoundFile> {
        let users = self.files.directory.as_ref().map(|above| team_files(&above.join(directory))).unwrap_or_default();
        let trusted = self.files.project.iter().filter(|_| self.files.is_trusted);
        let projects = trusted.flat_map(|project| {
            let directory = project.directory.join(directory);
            project.teams.iter().filter(move |file| file.path.parent() == Some(&directory)).cloned()
        });
        users.into_iter().chain(projects).collect()
    }
}
