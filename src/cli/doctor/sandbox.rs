//! Checks which level of the sandbox can be built here, by running a command in it.

use std::fs;

use super::Report;
use crate::base::file::TemporaryDirectory;
use crate::domain::config::Config;
use crate::domain::sandbox::Network;
use crate::sandbox::{Level, Policy};
use crate::tools::{Environment, find_level, try_proxy};

pub fn check(report: &mut Report, config: &Config) {
    if !config.sandbox.is_enabled {
        return report.warn("sandbox", "off: commands can do whatever you can; see sandbox.enabled");
    }
    // The workspace is empty, so that only the sandbox itself is tried and nothing is searched.
    let directory = match TemporaryDirectory::create() {
        Ok(directory) => directory,
        Err(error) => {
            let place = std::env::temp_dir();
            return report.fail("sandbox", format!("cannot create a directory in {}: {error}", place.display()));
        }
    };
    let env = Environment {
        supervisor: config.supervisor.clone(),
        sandbox: Policy::new(config.sandbox.clone()),
        ..Environment::at(directory.path().to_owned())
    };
    let (level, failed) = find_level(&env);
    for (stronger, why) in failed.iter().filter(|(stronger, _)| *stronger != Level::None) {
        report.warn("sandbox", format!("not available: {}: {why}", stronger.name()));
    }
    if !level.has_namespaces()
        && let Some(setting) = forbids_namespaces()
    {
        report.warn("sandbox", format!("this setting of the system forbids namespaces: {setting}"));
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
                 permissions of any file of yours; the policy auto asks for each command",
                level.name()
            ),
        ),
        Level::None => {
            report.warn("sandbox", "not available: commands can do whatever you can; the policy auto asks for each")
        }
    }
    network(report, &env, level);
}

/// Which part of the network commands reach, and whether a call can be given single hosts.
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

/// The setting that keeps ordinary users from making namespaces, if any. The last two are of Debian and of AppArmor.
fn forbids_namespaces() -> Option<&'static str> {
    let is = |name: &str, value: &str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|text| text.trim() == value)
    };
    [
        ("user.max_user_namespaces", "0", "user.max_user_namespaces = 0"),
        ("kernel.unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone = 0"),
        (
            "kernel.apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns = 1 (an AppArmor profile with \"userns,\" for polylogue allows them)",
        ),
    ]
    .into_iter()
    .find_map(|(name, value, setting)| is(name, value).then_some(setting))
}
