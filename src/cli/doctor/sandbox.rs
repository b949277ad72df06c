//! Checks which level of the sandbox can be built here, by running a command in it.

use super::Report;
use crate::domain::config::Config;
use crate::domain::sandbox::Network;
use crate::sandbox::{Level, Policy};
use crate::tools::{Environment, find_level, try_proxy};

pub fn check(report: &mut Report, config: &Config) {
    if !config.sandbox.is_enabled {
        return report.warn("sandbox", "off: commands can do whatever you can; see sandbox.enabled");
    }
    let env = Environment {
        supervisor: config.supervisor.clone(),
        sandbox: Policy::new(config.sandbox.clone()),
        ..Environment::at(std::env::temp_dir())
    };
    let (level, failed) = find_level(&env);
    for (stronger, why) in failed.iter().filter(|(stronger, _)| *stronger != Level::None) {
        report.warn("sandbox", format!("not available: {}: {why}", stronger.name()));
    }
    match level {
        Level::Namespaces => report.ok("sandbox", format!("commands run in it: {}", level.name())),
        Level::SharedProc => {
            report.warn("sandbox", format!("commands run with {}: they see the list of all processes", level.name()));
        }
        Level::Landlock => report.warn(
            "sandbox",
            format!(
                "commands run with {}: they can change .git, AGENTS.md and other protected files of the workspace, and \
                 permissions of any file of yours",
                level.name()
            ),
        ),
        Level::None => report.warn("sandbox", "none can be built: commands can do whatever you can"),
    }
    network(report, &env, level);
}

/// What commands reach of the network, and whether a call can be given single hosts.
fn network(report: &mut Report, env: &Environment, level: Level) {
    let configured = &env.sandbox.settings.network;
    if level == Level::None {
        return;
    }
    if *configured == Network::Host {
        return report.warn("network", "commands reach everything that you reach; see sandbox.network");
    }
    let proxy = match level.has_namespaces() {
        true => try_proxy(env, level),
        false => Err(format!("it needs namespaces, and commands run with {}", level.name())),
    };
    match proxy {
        Ok(()) => {
            report.ok("network", format!("{}; a call can ask for hosts (polylogue help network)", configured.about()))
        }
        Err(why) => report.warn(
            "network",
            format!("commands cannot be restricted to hosts: a call asks for the whole network or has none ({why})"),
        ),
    }
}
