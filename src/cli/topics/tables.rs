//! Topics that are made from the tables of commands, keys, tools, settings and providers.

use std::fmt::Write as _;

use crate::base::text;
use crate::cli::config::settings::{Files, SETTINGS, Setting, Values};
use crate::cli::config::{agent_hosts, hooks, layer, mcp, providers, user_tools};
use crate::commands::{self, key_rows};
use crate::domain::approval::Policy;
use crate::domain::environment::EnvironmentNames;
use crate::domain::keymap::KeyMap;
use crate::domain::parameters::Parameter;
use crate::domain::tool::Reach;
use crate::policy::paths;
use crate::provider::presets::{PRESETS, Preset};
use crate::provider::{PROVIDERS, Service};
use crate::tools;

const COLUMNS: usize = 80;
/// Width of a term that has its description on the same line.
const TERM_COLUMNS: usize = 24;

pub fn commands() -> String {
    let mut out = paragraph(
        "A line that begins with a slash is a command; to send a message that begins with a slash, type two. \
         !COMMAND runs a shell command of yours, outside of the sandbox, and puts its output into the conversation; \
         !!COMMAND only shows it. #TEXT adds a line to AGENTS.md. To send a message that begins with ! or #, put a space \
         before it. @ completes files and agents; @src/main.rs or @\"a b.txt\" sends the beginning of a file along, as \
         read_file returns it, and @shot.png an image or a PDF file, as does its pasted path. Tab completes names and arguments. NAME.md in the commands directory beside config.toml defines the command \
         /NAME: see polylogue help settings.",
    );
    out.push('\n');
    for spec in commands::all() {
        item(&mut out, format!("/{} {}", spec.name, spec.arguments).trim_end(), spec.about);
    }
    out
}

pub fn keys() -> String {
    let mut out = paragraph(
        "The table [keys] of the configuration binds other keys to the actions in parentheses. A binding is one key, such \
         as \"ctrl+k\", \"alt+enter\", \"f5\" or \"?\", or a prefix and a key, such as \"leader e\"; a list binds several, an \
         empty list none. A key that types a character acts only on an empty draft. leader = \"ctrl+x\" sets the \
         key that \"leader\" means. With editing = \"vi\" the input has the modes of vi.",
    );
    out.push('\n');
    for row in key_rows(&KeyMap::default()) {
        let name = if row.name.is_empty() { String::new() } else { format!(" ({})", row.name) };
        item(&mut out, &row.keys, &format!("{}{name}", row.about));
    }
    out
}

pub fn tools() -> String {
    let mut out = paragraph(
        "Models can call these tools. A tool marked (asks) changes something or runs commands: its question shows the \
         exact command or change and waits for y or n. The others ask outside of the workspace (polylogue help files). Policy \
         and rules can decide otherwise (polylogue help approval). An environment (polylogue help environments) chooses which tools an agent has; /tools lists \
         those of an agent.",
    );
    out.push('\n');
    for tool in tools::all() {
        let asks = if tool.reach == Reach::Writes { " (asks)" } else { "" };
        let about = tool.declaration.description;
        let sentence = about.split_once(". ").map_or(about, |(first, _)| first).trim_end_matches('.');
        item(&mut out, &format!("{}{asks}", tool.declaration.name), sentence);
    }
    out
}

pub fn user_tools() -> String {
    let mut out = include_str!("user-tools.txt").to_owned();
    user_tools::KEYS.iter().for_each(|(key, about)| item(&mut out, key, about));
    out
}

pub fn mcp() -> String {
    let mut out = include_str!("mcp.txt").to_owned();
    mcp::KEYS.iter().for_each(|(key, about)| item(&mut out, key, about));
    out
}

pub fn hosts() -> String {
    let mut out = include_str!("hosts.txt").to_owned();
    agent_hosts::KEYS.iter().for_each(|(key, about)| item(&mut out, key, about));
    out
}

pub fn hooks() -> String {
    let mut out = include_str!("hooks.txt").to_owned();
    hooks::KEYS.iter().for_each(|(key, about)| item(&mut out, key, about));
    out
}

pub fn files() -> String {
    let mut out = include_str!("files.txt").to_owned();
    item(&mut out, "polylogue", "its data and configuration, with its socket");
    for (path, about) in paths::DENIED {
        item(&mut out, &format!("~/{path}"), about);
    }
    paths::DENIED_SYSTEM.iter().for_each(|(path, about)| item(&mut out, path, about));
    out += "\nProtected, wherever they are in a workspace, with everything below them:\n\n";
    paths::PROTECTED.iter().for_each(|protected| item(&mut out, protected.name, protected.about));
    out
}

pub fn settings() -> String {
    let mut out = include_str!("settings.txt").to_owned();
    let defaults = Values::default();
    for setting in SETTINGS {
        let default = setting.display_value(&defaults).map(|value| format!(" (default {value})")).unwrap_or_default();
        let about = format!("{}: {}{default}. {}.", setting.about, setting.kind.expected(), set_by(setting));
        write_entry(&mut out, setting.key, &about);
    }
    out += "\n[rules] has lists of rules (polylogue help approval):\n\n";
    layer::RULES.iter().for_each(|(key, about)| item(&mut out, key, about));
    out +=
        "\n[projects.DIRECTORY], only in your own file, has the same lists for agents that\nwork in that directory.\n";
    out += "\n[providers.NAME] defines a provider; its models are named NAME/MODEL:\n\n";
    providers::KEYS.iter().for_each(|(key, about)| item(&mut out, key, about));
    out += "\nAn entry of models is a name, or a table with these keys:\n\n";
    providers::MODEL_KEYS.iter().for_each(|(key, about)| item(&mut out, key, about));
    write_entry(
        &mut out,
        "fallback",
        "At the top level: models that answer where one of any provider cannot; see polylogue help parameters. Not in a \
         project's file.",
    );
    out += "\nValues of kind:\n\n";
    for spec in PROVIDERS.iter().filter(|spec| spec.has_server()) {
        item(&mut out, spec.kind, spec.about);
    }
    out
}

pub fn parameters() -> String {
    let mut out = include_str!("parameters.txt").to_owned();
    for (_, name, expected) in Parameter::ALL {
        item(&mut out, name, expected);
    }
    item(&mut out, "body.NAME", "any value: a field of the body that polylogue does not set itself");
    out += "\nParameters of the protocols, besides thinking and body.NAME:\n\n";
    for spec in PROVIDERS.iter().filter(|spec| spec.has_server()) {
        let names: Vec<&str> = spec.parameters.iter().map(|parameter| parameter.name()).collect();
        item(&mut out, spec.kind, &names.join(", "));
    }
    out
}

pub fn approval() -> String {
    let mut out = include_str!("approval.txt").to_owned();
    out += "\nPolicies:\n\n";
    Policy::ALL.iter().for_each(|policy| item(&mut out, policy.name(), policy.about()));
    out
}

fn set_by(setting: &Setting) -> String {
    match (setting.files, setting.flag) {
        (Files::None, Some((flag, _))) => format!("Only {flag} and {}", setting.variable()),
        (_, Some((flag, _))) => format!("Also {flag} and {}", setting.variable()),
        (_, None) => format!("Also {}", setting.variable()),
    }
}

pub fn environments() -> String {
    let mut out = include_str!("environments.txt").to_owned();
    let built_in = EnvironmentNames { entries: &[], tools: &[] }.list();
    built_in.iter().for_each(|(name, about)| item(&mut out, name, about));
    out += "\nIn config.toml, [environments.NAME] defines another one, with these keys:\n\n";
    layer::ENVIRONMENT.iter().for_each(|(key, about)| item(&mut out, key, about));
    out
}

pub fn variables() -> String {
    let mut out = include_str!("variables.txt").to_owned();
    out += "\nKeys and addresses of providers that need no configuration:\n\n";
    let services: Vec<Service> = PROVIDERS.iter().filter_map(|spec| spec.service).collect();
    // Providers that share a key and an address are next to each other in the table.
    for services in services.chunk_by(|a, b| a.url_variable == b.url_variable) {
        let Service { key_variables, url_variable, base_url, .. } = services[0];
        let names = services.iter().map(|service| service.name).collect::<Vec<_>>().join(" and ");
        item(&mut out, &key_variables.join(", "), &format!("Key of {names}"));
        item(&mut out, url_variable, &format!("Base URL of {names}, instead of {base_url}"));
    }
    out += "\nServices that a model names without configuration, as in openrouter/MODEL:\n\n";
    for Preset { name, base_url, key_variable } in PRESETS {
        let key = key_variable.map_or("without key".to_owned(), |variable| format!("key in {variable}"));
        item(&mut out, name, &format!("{base_url}, {key}"));
    }
    out += "\nVariables of settings:\n\n";
    SETTINGS.iter().for_each(|setting| item(&mut out, &setting.variable(), setting.about));
    out
}

/// A term with its description: on one line if the term is short.
fn item(out: &mut String, term: &str, about: &str) {
    if text::width(term) > TERM_COLUMNS {
        return write_entry(out, term, about);
    }
    let indent = TERM_COLUMNS + 4;
    let mut rows = text::wrap(about, COLUMNS - indent).map(|(_, row)| row);
    // Writing into a `String` cannot fail.
    let _ = writeln!(out, "  {term:<TERM_COLUMNS$}  {}", rows.next().unwrap_or_default());
    for row in rows {
        let _ = writeln!(out, "{:indent$}{row}", "");
    }
}

fn write_entry(out: &mut String, term: &str, about: &str) {
    let _ = writeln!(out, "  {term}");
    for (_, row) in text::wrap(about, COLUMNS - 6) {
        let _ = writeln!(out, "      {row}");
    }
}

fn paragraph(about: &str) -> String {
    text::wrap(about, COLUMNS).map(|(_, row)| format!("{row}\n")).collect()
}
