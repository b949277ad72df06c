//! `polylogue doctor`: checks everything that polylogue needs, and says how to fix what is missing. Each check prints a line
//! that begins with `ok`, `warn` or `fail`. No key is ever shown.

mod provider;
mod sandbox;
mod system;

use std::path::Path;

use crate::base::error::system_message;
use crate::base::text::counted;
use crate::cli::arguments::Arguments;
use crate::cli::config::{self, Loaded, ProcessEnvironment};
use crate::cli::mcp;
use crate::domain::config::Config;
use crate::domain::mcp::McpServer;
use crate::features::FEATURES;
use crate::sandbox::Policy;
use crate::tools::{Environment, Job, user_tool};
use crate::{socket, store};

#[derive(Debug, Default)]
struct Report {
    lines: Vec<(Verdict, &'static str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Report {
    fn add(&mut self, verdict: Verdict, subject: &'static str, message: impl Into<String>) {
        self.lines.push((verdict, subject, message.into()));
    }

    fn ok(&mut self, subject: &'static str, message: impl Into<String>) {
        self.add(Verdict::Ok, subject, message);
    }

    fn warn(&mut self, subject: &'static str, message: impl Into<String>) {
        self.add(Verdict::Warn, subject, message);
    }

    fn fail(&mut self, subject: &'static str, message: impl Into<String>) {
        self.add(Verdict::Fail, subject, message);
    }

    fn text(&self) -> String {
        let row = |(verdict, subject, message): &(Verdict, &str, String)| {
            let verdict = match verdict {
                Verdict::Ok => "ok",
                Verdict::Warn => "warn",
                Verdict::Fail => "fail",
            };
            format!("{verdict:<5} {subject:<14} {}\n", message.replace('\n', " "))
        };
        self.lines.iter().map(row).collect()
    }

    fn has_failed(&self) -> bool {
        self.lines.iter().any(|(verdict, ..)| *verdict == Verdict::Fail)
    }
}

fn features(report: &mut Report) {
    let built_in: Vec<&str> = FEATURES.iter().map(|feature| feature.name).collect();
    report.ok("features", built_in.join(", "));
}

/// Prints all checks. Returns whether all passed.
pub fn run(arguments: &Arguments, env: &ProcessEnvironment, is_offline: bool) -> bool {
    let loaded = config::load(arguments, env);
    let mut report = Report::default();
    features(&mut report);
    configuration(&mut report, &loaded);
    provider::check(&mut report, &loaded, is_offline);
    match loaded.config().data_directory.as_deref() {
        Some(directory) => store(&mut report, directory),
        None => report.ok("store", "nothing is stored (--ephemeral)"),
    }
    system::check(&mut report, env);
    sandbox::check(&mut report, loaded.config());
    user_tools(&mut report, loaded.config());
    skills(&mut report, loaded.config());
    servers(&mut report, loaded.config(), is_offline);
    config::show::print(&report.text());
    !report.has_failed()
}

/// Reads the schema of every program that is a tool.
fn user_tools(report: &mut Report, config: &Config) {
    let env = Environment {
        supervisor: config.supervisor.clone(),
        sandbox: Policy::new(config.sandbox.clone()),
        ..Environment::at(config.working_directory.clone())
    };
    for entry in &config.user_tools {
        let job = Job::new().map_err(|error| error.message);
        let read = job.and_then(|job| {
            user_tool::read_schema(entry, user_tool::identify(entry, &env.working_directory)?, &env, &job)
        });
        match read {
            Ok(tool) => {
                report.ok("tools", format!("{}: {}", entry.name, tool.description.lines().next().unwrap_or("")))
            }
            Err(why) => report.warn("tools", format!("{}: {why}", entry.name)),
        }
    }
}

/// Starts every MCP server.
fn servers(report: &mut Report, config: &Config, is_offline: bool) {
    let is_tried = |server: &&McpServer| !is_offline || !server.uses_network();
    let servers: Vec<McpServer> = config.mcp.iter().filter(is_tried).cloned().collect();
    for (name, outcome) in mcp::try_servers(config, servers) {
        match outcome {
            Ok(tools) => report.ok("mcp", format!("{name}: {}", counted(tools.len(), "tool", "tools"))),
            Err(why) => report.warn("mcp", format!("{name}: {why}")),
        }
    }
}

fn skills(report: &mut Report, config: &Config) {
    let list = &config.skills;
    list.problems.iter().for_each(|problem| report.warn("skills", problem));
    if !list.skills.is_empty() {
        report.ok("skills", format!("{} can be used", counted(list.skills.len(), "skill", "skills")));
    }
}

fn configuration(report: &mut Report, loaded: &Loaded) {
    for error in &loaded.diagnostics.errors {
        error.message.lines().for_each(|line| report.fail("configuration", line));
    }
    for warning in &loaded.diagnostics.warnings {
        report.warn("configuration", warning);
    }
    if loaded.diagnostics.errors.is_empty() {
        report.ok("configuration", format!("valid; model of new agents: {}", loaded.config().endpoint.full_name()));
    }
}

const MIN_FREE_BYTES: u64 = 100 * 1024 * 1024;

fn store(report: &mut Report, directory: &Path) {
    let path = directory.display();
    match store::health(directory) {
        Ok(None) => report.ok("store", format!("{path} does not exist yet; the first start creates it")),
        Ok(Some(health)) if !health.damage.is_empty() => {
            let damage = health.damage.join("; ");
            report.fail(
                "store",
                format!("{path} is damaged ({damage}): make a copy, then recover it with sqlite3 FILE .recover"),
            );
        }
        Ok(Some(health)) if health.version > health.current => {
            let message =
                format!("{path} was written by a newer polylogue (schema {}): use that version", health.version);
            report.fail("store", message);
        }
        Ok(Some(health)) => {
            let upgrade = if health.version < health.current { ", upgraded by the next start" } else { "" };
            report.ok("store", format!("{path}: no damage, schema {}{upgrade}", health.version));
        }
        Err(error) => report.fail("store", error.message),
    }
    if let Some(process) = store::holder(directory) {
        report.warn("store", format!("in use by process {process}: {}", uses(directory)));
    }
    free_space(report, directory);
}

/// How a store is used that another process holds.
fn uses(directory: &Path) -> &'static str {
    match socket::connect(directory) {
        Ok(Some(_)) => "polylogue attaches to it, and polylogue -p uses its agents",
        _ => "others can only view it (--read-only)",
    }
}

fn free_space(report: &mut Report, directory: &Path) {
    let existing = directory.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Ok(volume) => {
            let free = volume.f_bavail.saturating_mul(volume.f_frsize);
            let message = format!("{} MB free", free / 1_000_000);
            match free < MIN_FREE_BYTES {
                true => report
                    .warn("store", format!("only {message}: free some space, or use another disk with --data-dir")),
                false => report.ok("store", message),
            }
        }
        Err(error) => report.warn("store", format!("free space is unknown: {}", system_message(&error))),
    }
}
