//! What a file says: its keys one by one. A key that nobody knows is a warning, a value that does not fit an error.

use toml::de::DeValue;

use super::file::{self, Entry, Reading};
use super::providers::{self, FileProvider};
use super::settings::{Files, SETTINGS, Setting, Wanted};
use super::source::{Place, Value, absolute};
use crate::domain::environment::EnvironmentEntry;

/// What a file says, as far as it can be understood.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    /// Settings by their number in the table.
    pub settings: Vec<(usize, Value, Place)>,
    /// `[providers.NAME]`, in order.
    pub providers: Vec<FileProvider>,
    /// `[environments.NAME]`, in order.
    pub environments: Vec<EnvironmentEntry>,
}

/// The tables of a file.
const TABLES: [&str; 4] = ["providers", "environments", "limits", "team"];
/// Environments may be parts of one another, as deep as there are environments: so many can be looked through.
const MOST_ENVIRONMENTS: usize = 100;
/// The keys of an environment.
pub const ENVIRONMENT: [&str; 3] = ["tools", "directory", "system"];

/// Reads a whole file.
pub fn read(reading: &mut Reading<'_>) -> Layer {
    let mut layer = Layer::default();
    let text = reading.text;
    let Some(table) = reading.parse(text) else { return layer };
    for entry in file::entries("", &table) {
        match entry.name {
            "providers" => layer.providers = providers::read(reading, &entry),
            "environments" => layer.environments = environments(reading, &entry),
            "limits" | "team" => {
                for inner in reading.table(&entry) {
                    setting(reading, &inner, &mut layer);
                }
            }
            _ => setting(reading, &entry, &mut layer),
        }
    }
    layer
}

fn setting(reading: &mut Reading<'_>, entry: &Entry<'_>, layer: &mut Layer) {
    let Some(number) = SETTINGS.iter().position(|setting| is_in_files(setting) && setting.key == entry.key) else {
        let table = entry.key.strip_suffix(entry.name).unwrap_or_default();
        let settings = SETTINGS.iter().filter(|setting| is_in_files(setting));
        let siblings = settings.filter_map(|setting| setting.key.strip_prefix(table)).filter(|key| !key.contains('.'));
        let tables = if table.is_empty() { &TABLES[..] } else { &[] };
        return reading.unknown(entry, siblings.chain(tables.iter().copied()));
    };
    if reading.is_project && SETTINGS[number].files == Files::Own {
        return reading.refuse(entry, "a project may not set this: it belongs into your own configuration");
    }
    let value = file::value_of(entry.value.get_ref());
    match SETTINGS[number].set(&mut Wanted::default(), &value, reading.home) {
        Ok(()) => layer.settings.push((number, value, reading.place(&entry.value.span()))),
        Err(expected) => reading.refuse(entry, &format!("expected {expected}")),
    }
}

fn is_in_files(setting: &Setting) -> bool {
    setting.files != Files::None
}

fn environments(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Vec<EnvironmentEntry> {
    let mut environments = Vec::new();
    let written = reading.table(entry);
    if written.len() > MOST_ENVIRONMENTS {
        reading
            .refuse(entry, &format!("there may be {MOST_ENVIRONMENTS} environments, and here are {}", written.len()));
        return environments;
    }
    for inner in written {
        if !is_name(inner.name) {
            reading.refuse(&inner, NO_NAME);
            continue;
        }
        environments.push(environment(reading, &inner));
    }
    environments
}

fn environment(reading: &mut Reading<'_>, entry: &Entry<'_>) -> EnvironmentEntry {
    let mut environment = EnvironmentEntry { name: entry.name.to_owned(), ..EnvironmentEntry::default() };
    for inner in reading.table(entry) {
        match inner.name {
            "tools" => environment.tools = reading.texts(&inner),
            "directory" => environment.directory = directory(reading, &inner),
            "system" => environment.system = reading.text(&inner),
            _ => reading.unknown(&inner, ENVIRONMENT.into_iter()),
        }
    }
    environment
}

/// In a project's file a path may begin at the project's own directory.
fn directory(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Option<std::path::PathBuf> {
    let DeValue::String(text) = entry.value.get_ref() else {
        reading.refuse(entry, "expected a path in quotes");
        return None;
    };
    let project = reading.path.ancestors().nth(2).filter(|_| reading.is_project);
    let path = absolute(text, reading.home).or_else(|| project.map(|project| project.join(text.as_ref())));
    if path.is_none() {
        reading.refuse(entry, "expected a path in quotes that begins with / or ~/");
    }
    path
}

/// What a name may be made of, for people who chose another.
pub const NO_NAME: &str = "expected a name of small letters, digits and -";

/// Whether a provider, an environment or a command may be called so.
pub fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(is_fine)
}
