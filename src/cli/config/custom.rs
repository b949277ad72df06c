//! Custom commands: `commands/*.md`, each with an optional description at the top.
//!
//! ```text
//! ---
//! description: Look over a change
//! ---
//! Review the change in $1. Say what can break.
//! ```

use std::collections::BTreeMap;

use super::file::{self, FoundFile};
use super::layer::is_name;
use crate::base::text::{sanitise, truncate};
use crate::commands;
use crate::domain::custom::CustomCommand;
use crate::domain::front_matter;

const MAX_BYTES: usize = 64 * 1024;
/// Width of a description that is taken from the text itself.
const DESCRIPTION_COLUMNS: usize = 60;

pub const EXTENSIONS: &[&str] = &["md"];

/// All commands, sorted by name; a later file overrides an earlier one. An invalid file is a warning.
pub fn commands(files: &[FoundFile], warnings: &mut Vec<String>) -> Vec<CustomCommand> {
    let mut commands = BTreeMap::new();
    for file in files {
        match command(file) {
            Ok(command) => drop(commands.insert(command.name.clone(), command)),
            Err(message) => warnings.push(format!("{}: ignored: {message}", file.path.display())),
        }
    }
    commands.into_values().collect()
}

fn command(file: &FoundFile) -> Result<CustomCommand, String> {
    let name = file.path.file_stem().and_then(|name| name.to_str()).filter(|name| is_name(name));
    let name = name.ok_or("the file name may contain only lower-case letters, digits and -")?.to_owned();
    if !commands::is_free_name(&name) {
        return Err(format!("/{name} is a built-in command"));
    }
    let bytes = file.bytes.clone()?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("is larger than {} KiB", MAX_BYTES / 1024));
    }
    let (header, body) = front_matter::split(&file::text_of(bytes)?)?;
    let body = body.trim().to_owned();
    let first = body.lines().next().ok_or("the file is empty")?;
    let description = header.text("description").unwrap_or_else(|| truncate(first, DESCRIPTION_COLUMNS));
    let description = sanitise(description).replace('\t', " ");
    Ok(CustomCommand { name, description, body, source: file.path.clone() })
}
