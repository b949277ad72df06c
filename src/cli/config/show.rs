//! `polylogue config`: shows and changes the configuration. Keys and values of headers are never shown.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::catalog::{KeySource, KnownProvider};
use super::project::{DIRECTORY, create_private, write_private};
use super::settings::SETTINGS;
use super::trust::Contents;
use super::{Loaded, ProcessEnvironment, elsewhere, file, load};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::project::ProjectDirectories;
use crate::base::text::sanitise;
use crate::cli::arguments::{Arguments, ConfigCommand};
use crate::domain::endpoint::{ModelFacts, ModelSettings};
use crate::domain::environment::EnvironmentEntry;
use crate::domain::mcp::{McpServer, Transport};
use crate::domain::reasoning::SendReasoning;
use crate::domain::remote_place::RemotePlace;
use crate::domain::rule::Rules;
use crate::domain::user_tool::UserToolEntry;

/// Runs the subcommand. Returns whether the configuration is valid.
pub fn run(command: &ConfigCommand, arguments: &Arguments, env: &ProcessEnvironment) -> Result<bool> {
    match command {
        ConfigCommand::Path => print(&paths(&load(arguments, env))),
        ConfigCommand::Show => return Ok(show(&load(arguments, env))),
        ConfigCommand::Edit => return edit(arguments, env),
        ConfigCommand::Trust { directory, yes } => return trust(directory.as_deref(), *yes, env),
    }
    Ok(true)
}

/// Prints text to standard output, without control characters.
pub fn print(text: &str) {
    use std::io::Write as _;
    // A closed pipe is not an error: its reader has read enough.
    let _ = std::io::stdout().write_all(sanitise(text).as_bytes());
}

fn paths(loaded: &Loaded) -> String {
    let files = &loaded.files;
    let mut lines = String::new();
    let mut row = |kind: &str, path: &Path, state: &str| {
        // Writing into a `String` cannot fail.
        let _ = writeln!(lines, "{kind:<9} {} ({state})", path.display());
    };
    let state = |path: &Path| if file::exists(path) { "found" } else { "missing" };
    if let Some(user) = &files.user {
        row("user", user, state(user));
    }
    if let Some(commands) = files.directory.as_ref().map(|directory| directory.join("commands")) {
        row("commands", &commands, state(&commands));
    }
    if let Some(project) = &files.project {
        let trusted = if files.is_trusted { "trusted" } else { "not trusted; see polylogue config trust" };
        row("project", &project.file(), if project.config.is_some() { trusted } else { "missing" });
        let commands = project.directory.join("commands");
        row("commands", &commands, if project.commands.is_empty() { "missing" } else { trusted });
        project.teams.iter().for_each(|file| row("team", &file.path, trusted));
    }
    lines
}

/// Returns whether the configuration is valid.
fn show(loaded: &Loaded) -> bool {
    print(&render_config(loaded));
    print_diagnostics(loaded);
    loaded.diagnostics.errors.is_empty()
}

fn print_diagnostics(loaded: &Loaded) {
    use std::io::Write as _;
    print_errors(loaded.diagnostics.errors.iter().map(|error| error.message.as_str()));
    for warning in &loaded.diagnostics.warnings {
        let _ = writeln!(std::io::stderr(), "warning: {}", sanitise(warning));
    }
}

/// Prints errors to standard error. Returns whether there are any.
pub fn print_errors<'a>(errors: impl Iterator<Item = &'a str>) -> bool {
    use std::io::Write as _;
    let mut has_any = false;
    for error in errors {
        has_any = true;
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "error: {}", sanitise(error));
    }
    has_any
}

/// The configuration in the form of a file, with the source of each value as a comment.
pub(super) fn render_config(loaded: &Loaded) -> String {
    let mut out = String::new();
    let mut table = "";
    for (setting, source) in SETTINGS.iter().zip(&loaded.sources) {
        let (section, name) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
        if section != table {
            let _ = writeln!(out, "\n[{section}]");
            table = section;
        }
        let model = || format!("{:?}", loaded.config().endpoint.full_name());
        match setting.display_value(&loaded.values).or_else(|| (name == "model").then(model)) {
            Some(value) => line(&mut out, &format!("{name} = {value}"), &source.to_string()),
            None => line(&mut out, &format!("# {name}"), "not set"),
        }
    }
    loaded.providers_in_use().for_each(|known| provider(&mut out, known));
    rules(&mut out, "rules", &loaded.config().rules);
    for (directory, of_project) in &loaded.config().project_rules {
        rules(&mut out, &format!("projects.{:?}", directory.display().to_string()), of_project);
    }
    loaded.config().environments.iter().for_each(|entry| environment(&mut out, entry));
    loaded.config().user_tools.iter().for_each(|tool| user_tool(&mut out, tool));
    loaded.config().mcp.iter().for_each(|server| mcp_server(&mut out, server));
    for command in &loaded.config().commands {
        line(&mut out, &format!("# /{}", command.name), &command.source.display().to_string());
    }
    for definition in loaded.config().definitions.iter() {
        line(&mut out, &format!("# agent {}", definition.name), &definition.source.display().to_string());
    }
    for hook in loaded.config().hooks.iter() {
        line(&mut out, &format!("# hook {} {}", hook.event.name(), hook.matcher), &hook.source);
    }
    for skill in &loaded.config().skills.skills {
        line(&mut out, &format!("# skill {}", skill.name), &skill.file().display().to_string());
    }
    out
}

fn line(out: &mut String, assignment: &str, source: &str) {
    let _ = writeln!(out, "{assignment:<40} # {source}");
}

fn provider(out: &mut String, known: &KnownProvider) {
    let entry = &known.entry;
    let _ = writeln!(out, "\n[providers.{}]", entry.name);
    let _ = writeln!(out, "kind = {:?}", entry.kind);
    line(out, &format!("base_url = {:?}", public_url(&entry.base_url)), &known.url_source);
    let key = match &known.key {
        KeySource::None => "# no key".to_owned(),
        KeySource::Command => "# key from api_key_command".to_owned(),
        KeySource::Variable(name) if known.has_key() => format!("# key from {name}"),
        KeySource::Variable(name) => format!("# key from {name}, which is not set"),
    };
    let _ = writeln!(out, "{key}");
    for (name, _) in &entry.headers {
        let _ = writeln!(out, "# header {name}");
    }
    if entry.send_reasoning != SendReasoning::Auto {
        let _ = writeln!(out, "send_reasoning = {:?}", entry.send_reasoning.name());
    }
    if let Some(timeout) = entry.stall_timeout {
        let _ = writeln!(out, "stall_timeout = {}", timeout.as_secs_f64());
    }
    if !entry.fallback.is_empty() {
        let _ = writeln!(out, "fallback = {:?}", entry.fallback);
    }
    let of = |name: &str| entry.overrides.iter().find(|(other, _)| other == name).map(|(_, settings)| settings);
    let models: Vec<String> = entry.models.iter().map(|(name, facts)| model(name, facts, of(name))).collect();
    let _ = writeln!(out, "models = [{}]", models.join(", "));
    for (name, set) in entry.parameters.iter() {
        line(out, &format!("parameters.{name} = {}", set.value), &set.source);
    }
}

fn model(name: &str, facts: &ModelFacts, settings: Option<&ModelSettings>) -> String {
    let mut parts = vec![format!("name = {name:?}")];
    parts.extend(facts.context.map(|tokens| format!("context = {tokens}")));
    parts.extend(facts.max_output.map(|tokens| format!("max_output = {tokens}")));
    parts.extend(facts.tools.map(|can| format!("tools = {can}")));
    parts.extend(facts.images.map(|can| format!("images = {can}")));
    if let Some(prices) = facts.prices {
        let dollars = |price: u64| price as f64 / 1e6;
        parts.push(format!("input_price = {}", dollars(prices.input)));
        parts.push(format!("cached_price = {}", dollars(prices.cached)));
        parts.push(format!("written_price = {}", dollars(prices.written)));
        parts.push(format!("output_price = {}", dollars(prices.output)));
    }
    if let Some(settings) = settings {
        let parameters: Vec<_> =
            settings.parameters.iter().map(|(name, set)| format!("{name} = {}", set.value)).collect();
        parts.extend((!parameters.is_empty()).then(|| format!("parameters = {{ {} }}", parameters.join(", "))));
        parts.extend(settings.fallback.as_ref().map(|models| format!("fallback = {models:?}")));
    }
    if parts.len() == 1 { format!("{name:?}") } else { format!("{{ {} }}", parts.join(", ")) }
}

/// `table` is the name of the table in the file.
fn rules(out: &mut String, table: &str, rules: &Rules) {
    let lists = [("allow", &rules.allow), ("ask", &rules.ask), ("deny", &rules.deny)];
    for (at, (name, list)) in lists.into_iter().filter(|(_, list)| !list.is_empty()).enumerate() {
        let table = if at == 0 { format!("\n[{table}]\n") } else { String::new() };
        let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "{table}{name} = {texts:?}");
    }
}

fn environment(out: &mut String, entry: &EnvironmentEntry) {
    let _ = writeln!(out, "\n[environments.{}]\ntools = {:?}", entry.name, entry.tools);
    if let Some(directory) = &entry.directory {
        let _ = writeln!(out, "directory = {directory:?}");
    }
    if let Some(system) = &entry.system {
        let _ = writeln!(out, "system = {system:?}");
    }
}

/// Values of variables may be secrets.
fn user_tool(out: &mut String, tool: &UserToolEntry) {
    let _ = writeln!(out, "\n[tools.{}]", tool.name);
    line(out, &format!("command = {:?}", tool.command), &tool.source);
    if !tool.env.is_empty() {
        let names: Vec<String> = tool.env.iter().map(|(name, _)| format!("{name:?} = \"…\"")).collect();
        let _ = writeln!(out, "env = {{ {} }}", names.join(", "));
    }
    if !tool.net.is_empty() {
        let hosts: Vec<String> = tool.net.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "net = {hosts:?}");
    }
    if let Some(limit) = tool.timeout {
        let _ = writeln!(out, "timeout = {}", limit.as_secs());
    }
}

/// Values of variables and headers may be secrets.
fn mcp_server(out: &mut String, server: &McpServer) {
    let _ = writeln!(out, "\n[mcp.{}]", server.name);
    let names = |pairs: &[(String, String)]| {
        let names: Vec<String> = pairs.iter().map(|(name, _)| format!("{name:?} = \"…\"")).collect();
        if names.is_empty() { None } else { Some(format!("{{ {} }}", names.join(", "))) }
    };
    let secrets = match &server.written {
        Transport::Stdio { command, args, env } => {
            line(out, &format!("command = {command:?}"), &server.source);
            if !args.is_empty() {
                let _ = writeln!(out, "args = {args:?}");
            }
            names(env).map(|env| format!("env = {env}"))
        }
        Transport::Http { url, headers } => {
            line(out, &format!("url = {:?}", public_url(url)), &server.source);
            names(headers).map(|headers| format!("headers = {headers}"))
        }
    };
    if let Some(secrets) = secrets {
        let _ = writeln!(out, "{secrets}");
    }
    if !server.net.is_empty() {
        let hosts: Vec<String> = server.net.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "net = {hosts:?}");
    }
}

/// The URL without the parts that can contain credentials: user, password and query.
pub fn public_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", authority.rsplit('@').next().unwrap_or(authority))
}

/// The initial text in the editor for a person without a configuration.
const TEMPLATE: &str = r##"# The configuration of polylogue. Nothing is needed here for the services in
# `polylogue help variables`; `polylogue help settings` has all settings, and
# `polylogue config show` prints each with its source.
#
# Remove the # before a line to set it.

#model = "ollama/qwen3"           # of new agents
#thinking = "low"
#approval = "ask"                 # ask, auto, plan, never or yolo

#[providers.work]                 # its models are work/small and work/large
#kind = "openai"
#base_url = "https://llm.example.com/v1"
#api_key_env = "WORK_API_KEY"
#models = ["small", "large"]

#[rules]
#allow = ["bash(cargo test:*)"]
#deny = ["bash(rm *)"]
"##;

/// Opens the user's file in the editor and checks it afterwards. A new one has examples, in comments.
fn edit(arguments: &Arguments, env: &ProcessEnvironment) -> Result<bool> {
    let path = load(arguments, env).files.user.ok_or_else(no_directory)?;
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        create_private(directory)?;
    }
    if path.symlink_metadata().is_err() {
        write_private(&path, TEMPLATE).map_err(|error| Error::from(error).context(path.display()))?;
    }
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| env.text(name)).unwrap_or_else(|| "vi".into());
    // $EDITOR may contain options, so that a shell has to split it.
    let status = Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "polylogue"]).arg(&path).status()?;
    if !status.success() {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("the editor {editor:?} failed with {status}: check $VISUAL and $EDITOR"),
        ));
    }
    let loaded = load(arguments, env);
    print_diagnostics(&loaded);
    let is_valid = loaded.diagnostics.errors.is_empty();
    if is_valid {
        print(&format!("{} is valid\n", path.display()));
    }
    Ok(is_valid)
}

/// Shows everything that would be trusted, then asks unless it is trusted already. Returns whether it is trusted now.
fn trust(directory: Option<&Path>, yes: bool, env: &ProcessEnvironment) -> Result<bool> {
    let place = directory.and_then(Path::to_str).filter(|place| RemotePlace::start_in(place) == Some(0));
    let directory = directory.map_or_else(|| env.directory.clone(), |path| env.directory.join(path));
    let contents = match place {
        Some(place) => elsewhere::contents(place, env)?,
        None => Contents::of(&ProjectDirectories::of(&directory), &env.skill_directories()),
    };
    if contents.is_empty() {
        let message = format!(
            "no {DIRECTORY} directory, .mcp.json, AGENTS.md, CLAUDE.md, skill, hook or agent in {} or above it",
            place.map_or_else(|| directory.display().to_string(), str::to_owned)
        );
        return Err(Error::usage(message));
    }
    let config_directory = env.config_directory().ok_or_else(no_directory)?;
    print(&contents.describe_contents(&config_directory));
    print(&contents.shown_providers());
    if contents.is_trusted(&config_directory) {
        print("already trusted\n");
        return Ok(true);
    }
    if !yes && !confirm("Trust these contents? [y/N] ")? {
        print("not trusted: new and changed files stay ignored\n");
        return Ok(false);
    }
    contents.trust(&config_directory)?;
    print("trusted until they change\n");
    Ok(true)
}

/// Whether the user answers yes.
fn confirm(question: &str) -> Result<bool> {
    use std::io::Write as _;
    if !rustix::termios::isatty(std::io::stdin()) {
        let message =
            "standard input is not a terminal, so the question cannot be asked: pass --yes to trust the contents";
        return Err(Error::usage(message));
    }
    print(question);
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn no_directory() -> Error {
    Error::usage("neither XDG_CONFIG_HOME nor HOME is set: there is no configuration directory")
}
