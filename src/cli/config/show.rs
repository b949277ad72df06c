//! `polylogue config`: where the files are, what is in force and why, and how to change it. Keys and what headers hold
//! are never shown.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::catalog::{KeySource, Known};
use super::project::{DIRECTORY, Project, make_private};
use super::settings::SETTINGS;
use super::{Loaded, Surroundings, file, load};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::sanitise;
use crate::cli::arguments::{Arguments, ConfigCommand};
use crate::domain::endpoint::ModelFacts;
use crate::domain::environment::EnvironmentEntry;

/// Carries the subcommand out; what it has to say goes to the standard output. True if all is well.
///
/// # Errors
/// It cannot be carried out.
pub fn run(command: &ConfigCommand, arguments: &Arguments, around: &Surroundings) -> Result<bool> {
    match command {
        ConfigCommand::Path => print(&paths(&load(arguments, around))),
        ConfigCommand::Show => return Ok(show(&load(arguments, around))),
        ConfigCommand::Edit => return edit(arguments, around),
        ConfigCommand::Trust { directory } => trust(directory.as_deref(), around)?,
    }
    Ok(true)
}

/// Text for a person: nothing in it may steer the terminal.
pub fn print(text: &str) {
    use std::io::Write as _;
    // Whoever closed the pipe has read enough.
    let _ = std::io::stdout().write_all(sanitise(text).as_bytes());
}

fn paths(loaded: &Loaded) -> String {
    let files = &loaded.files;
    let mut lines = String::new();
    let mut row = |what: &str, path: &Path, state: &str| {
        // A string takes everything.
        let _ = writeln!(lines, "{what:<9} {} ({state})", path.display());
    };
    let is_there = |path: &Path| if file::exists(path) { "there" } else { "missing" };
    if let Some(user) = &files.user {
        row("user", user, is_there(user));
    }
    if let Some(commands) = files.directory.as_ref().map(|directory| directory.join("commands")) {
        row("commands", &commands, is_there(&commands));
    }
    if let Some(project) = &files.project {
        let trusted = if files.is_trusted { "trusted" } else { "not trusted: polylogue config trust" };
        row("project", &project.file(), if project.config.is_some() { trusted } else { "missing" });
        let commands = project.directory.join("commands");
        row("commands", &commands, if project.commands.is_empty() { "missing" } else { trusted });
        project.teams.iter().for_each(|file| row("team", &file.path, trusted));
    }
    lines
}

/// True if nothing must be mended.
fn show(loaded: &Loaded) -> bool {
    print(&shown(loaded));
    complain(loaded);
    loaded.complaints.errors.is_empty()
}

/// What is wrong, on the standard error.
fn complain(loaded: &Loaded) {
    use std::io::Write as _;
    complain_of(loaded.complaints.errors.iter().map(|error| error.message.as_str()));
    for words in &loaded.complaints.warnings {
        let _ = writeln!(std::io::stderr(), "warning: {}", sanitise(words));
    }
}

/// Tells of errors on the standard error. Returns whether there are any.
pub fn complain_of<'a>(errors: impl Iterator<Item = &'a str>) -> bool {
    use std::io::Write as _;
    let mut has_any = false;
    for words in errors {
        has_any = true;
        // It may be closed, and then nobody is left to tell.
        let _ = writeln!(std::io::stderr(), "error: {}", sanitise(words));
    }
    has_any
}

/// As a file would have it, with where each value came from behind it.
pub(super) fn shown(loaded: &Loaded) -> String {
    let mut out = String::new();
    let mut table = "";
    for (setting, source) in SETTINGS.iter().zip(&loaded.sources) {
        let (of, name) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
        if of != table {
            let _ = writeln!(out, "\n[{of}]");
            table = of;
        }
        let usual = || format!("{:?}", loaded.config().endpoint.full_name());
        match setting.shown(&loaded.wanted).or_else(|| (name == "model").then(usual)) {
            Some(value) => line(&mut out, &format!("{name} = {value}"), &source.to_string()),
            None => line(&mut out, &format!("# {name}"), "not set"),
        }
    }
    loaded.providers.iter().for_each(|known| provider(&mut out, known));
    loaded.config().environments.iter().for_each(|one| environment(&mut out, one));
    for command in &loaded.config().commands {
        line(&mut out, &format!("# /{}", command.name), &command.source.display().to_string());
    }
    out
}

fn line(out: &mut String, what: &str, source: &str) {
    let _ = writeln!(out, "{what:<40} # {source}");
}

fn provider(out: &mut String, known: &Known) {
    let entry = &known.entry;
    let _ = writeln!(out, "\n[providers.{}]", entry.name);
    let _ = writeln!(out, "kind = {:?}", entry.kind);
    line(out, &format!("base_url = {:?}", public_url(&entry.base_url)), &known.url_source);
    let key = match &known.key {
        KeySource::None => "# no key".to_owned(),
        KeySource::Command => "# its key comes from a command".to_owned(),
        KeySource::Variable(name) if known.has_key() => format!("# its key comes from {name}"),
        KeySource::Variable(name) => format!("# its key should come from {name}, which is not set"),
    };
    let _ = writeln!(out, "{key}");
    for (name, _) in &entry.headers {
        let _ = writeln!(out, "# with the header {name}");
    }
    let models: Vec<String> = entry.models.iter().map(|(name, facts)| model(name, facts)).collect();
    let _ = writeln!(out, "models = [{}]", models.join(", "));
}

fn model(name: &str, facts: &ModelFacts) -> String {
    let mut parts = vec![format!("name = {name:?}")];
    parts.extend(facts.context.map(|tokens| format!("context = {tokens}")));
    parts.extend(facts.max_output.map(|tokens| format!("max_output = {tokens}")));
    if let Some(prices) = facts.prices {
        let dollars = |price: u64| price as f64 / 1000.0;
        parts.push(format!("input_price = {}", dollars(prices.input)));
        parts.push(format!("cached_price = {}", dollars(prices.cached)));
        parts.push(format!("written_price = {}", dollars(prices.written)));
        parts.push(format!("output_price = {}", dollars(prices.output)));
    }
    if parts.len() == 1 { format!("{name:?}") } else { format!("{{ {} }}", parts.join(", ")) }
}

fn environment(out: &mut String, one: &EnvironmentEntry) {
    let _ = writeln!(out, "\n[environments.{}]\ntools = {:?}", one.name, one.tools);
    if let Some(directory) = &one.directory {
        let _ = writeln!(out, "directory = {directory:?}");
    }
    if let Some(system) = &one.system {
        let _ = writeln!(out, "system = {system:?}");
    }
}

/// The URL without what could be a credential: before the host, and in a query.
pub fn public_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", authority.rsplit('@').next().unwrap_or(authority))
}

/// Opens the person's own file in the editor, and looks at it afterwards.
fn edit(arguments: &Arguments, around: &Surroundings) -> Result<bool> {
    let path = load(arguments, around).files.user.ok_or_else(nowhere)?;
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        make_private(directory)?;
    }
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| around.text(name)).unwrap_or_else(|| "vi".into());
    // Editors come with options; the shell takes them apart as it does for everybody else.
    let status = Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "polylogue"]).arg(&path).status()?;
    if !status.success() {
        return Err(Error::new(ErrorKind::Usage, format!("the editor ({editor}) ended with {status}: see $EDITOR")));
    }
    let loaded = load(arguments, around);
    complain(&loaded);
    let is_well = loaded.complaints.errors.is_empty();
    if is_well {
        print(&format!("{} is in order.\n", path.display()));
    }
    Ok(is_well)
}

fn trust(directory: Option<&Path>, around: &Surroundings) -> Result<()> {
    let directory = directory.map_or_else(|| around.directory.clone(), |told| around.directory.join(told));
    let project = Project::of(&directory).ok_or_else(|| {
        let words = format!("there is no {DIRECTORY} with anything in it in {} or above it", directory.display());
        Error::new(ErrorKind::Usage, words)
    })?;
    project.trust(&around.config_directory().ok_or_else(nowhere)?)?;
    let files: Vec<PathBuf> = project.config.iter().map(|_| project.file()).collect();
    let all = files.iter().chain(project.commands.iter().chain(&project.teams).map(|file| &file.path));
    let lines: String = all.map(|path| format!("trusted as it is now: {}\n", path.display())).collect();
    print(&lines);
    Ok(())
}

fn nowhere() -> Error {
    Error::new(ErrorKind::Usage, "neither XDG_CONFIG_HOME nor HOME is set: there is no place for a configuration")
}
