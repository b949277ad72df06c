//! Commands that a person has written: `commands/*.md`, each with a few lines in front that describe it.
//!
//! ```text
//! ---
//! description: Look over a change
//! ---
//! Review the change in $1. Say what can break.
//! ```

use std::collections::BTreeMap;

use super::file::{self, FoundFile};
use super::keys::is_name;
use crate::base::text::{sanitise, truncate};
use crate::commands;
use crate::domain::custom::CustomCommand;

/// A command is a message: what is larger is something else.
const MOST_BYTES: usize = 64 * 1024;
/// Columns of a description that is taken from the text itself.
const DESCRIPTION_COLUMNS: usize = 60;

/// How the names of the files end that are commands.
pub const ENDS: &[&str] = &["md"];

/// All commands by name; of two with one name the later is taken. What cannot be one is told and ignored.
pub fn commands(files: &[FoundFile], warnings: &mut Vec<String>) -> Vec<CustomCommand> {
    let mut commands = BTreeMap::new();
    for file in files {
        match command(file) {
            Ok(command) => drop(commands.insert(command.name.clone(), command)),
            Err(words) => warnings.push(format!("{}: {words}: ignored", file.path.display())),
        }
    }
    commands.into_values().collect()
}

fn command(file: &FoundFile) -> Result<CustomCommand, String> {
    let name = file.path.file_stem().and_then(|name| name.to_str()).filter(|name| is_name(name));
    let name = name.ok_or("its name is not made of small letters, digits and -")?.to_owned();
    if commands::find(&name).is_some() {
        return Err(format!("/{name} is built in"));
    }
    let bytes = file.bytes.clone()?;
    if bytes.len() > MOST_BYTES {
        return Err(format!("is larger than {} KiB", MOST_BYTES / 1024));
    }
    let text = file::text_of(bytes)?.replace("\r\n", "\n");
    let (described, body) = parts(&text)?;
    let body = body.trim().to_owned();
    let first = body.lines().next().ok_or("holds no message")?;
    let description = described.unwrap_or_else(|| truncate(first, DESCRIPTION_COLUMNS));
    let description = sanitise(description).replace('\t', " ");
    Ok(CustomCommand { name, description, body, source: file.path.clone() })
}

/// The description, if there is one, and the message.
fn parts(text: &str) -> Result<(Option<&str>, &str), String> {
    let Some(front) = text.strip_prefix("---\n") else { return Ok((None, text)) };
    let end = front.match_indices("---").find(|(at, _)| {
        let is_begin = *at == 0 || front[..*at].ends_with('\n');
        is_begin && matches!(front.as_bytes().get(at + 3), None | Some(b'\n'))
    });
    let (at, _) = end.ok_or("its first lines have no end: a line --- is missing")?;
    let mut description = None;
    for line in front[..at].lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
        let (key, value) = line.split_once(':').ok_or("its first lines are not `key: value`")?;
        if key.trim() == "description" {
            description = Some(unquoted(value.trim()));
        }
    }
    Ok((description, &front[at + 3..]))
}

fn unquoted(text: &str) -> &str {
    let within = |quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(text)
}
