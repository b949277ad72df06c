//! Why a command may have failed in the sandbox: signs in its output, and what would allow it.

use std::path::Path;

use super::{Level, Plan};
use crate::domain::sandbox::Network;

/// Lower case, as all signs.
const NO_NETWORK: [&str; 17] = [
    "could not resolve host",
    "couldn't resolve host",
    "failed to resolve",
    "temporary failure in name resolution",
    "name or service not known",
    "failed to lookup address",
    "eai_again",
    "enotfound",
    "nodename nor servname",
    "network is unreachable",
    "network unreachable",
    "enetunreach",
    "unable to resolve host",
    "dns error",
    "no such host",
    "unknownhostexception",
    "no matching distribution found",
];
const READ_ONLY: [&str; 2] = ["read-only file system", "erofs"];
/// Renaming into or out of a directory with protected files fails as between two file systems.
const BUSY: [&str; 4] = ["device or resource busy", "ebusy", "invalid cross-device link", "exdev"];
/// How git says that a configuration file cannot be replaced.
const CONFIG: [&str; 4] = ["could not write", "could not lock", "failed to write", "unable to write"];
const NOT_PERMITTED: [&str; 2] = ["operation not permitted", "eperm"];
const DENIED: [&str; 2] = ["permission denied", "eacces"];
const MISSING: [&str; 2] = ["no such file or directory", "enoent"];

/// The reason for which a command with this output may have failed, in one line for the model. `None` if nothing in the
/// output is a sign of the sandbox.
pub fn likely_cause(plan: &Plan, output: &str) -> Option<String> {
    if plan.level == Level::None {
        return None;
    }
    let text = output.to_lowercase();
    let has = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    let line_has = |signs: &[&str], is_sign: &dyn Fn(&Path) -> bool| {
        let lines = output.lines().filter(|line| signs.iter().any(|sign| line.to_lowercase().contains(sign)));
        lines.flat_map(paths_in).any(|path| is_sign(Path::new(path)))
    };
    let is_open = |path: &Path| plan.writable.iter().any(|open| path.starts_with(open));
    let is_denied = |path: &Path| plan.denied.iter().any(|denied| path.starts_with(denied));
    let seen = || plan.readable.iter().chain(&plan.caches).chain(&plan.missing_caches);
    let is_seen = |path: &Path| seen().any(|open| path.starts_with(open));
    let is_in_home = |path: &Path| plan.homes().any(|home| path.starts_with(home));
    let is_hidden = |path: &Path| is_in_home(path) && !is_open(path) && !is_seen(path);
    let is_outside = |path: &Path| plan.level == Level::Landlock && !is_open(path) && !path.starts_with("/dev");
    let mut lines = text.lines();
    let is_configuration =
        lines.any(|line| line.contains("config file") && CONFIG.iter().any(|sign| line.contains(sign)));
    let cause = if is_configuration {
        "commands cannot change the configuration of a repository, because git runs programs that it names; for one \
         command use git -c NAME=VALUE, or let the user run git config, in the chat with ! before it"
    } else if plan.network == Network::Off && has(&NO_NETWORK) {
        "commands have no network but the hosts that `network` of a call names; the user can allow more with \
         sandbox.network in config.toml"
    } else if has(&READ_ONLY) {
        "commands write only in the workspace, and not to its protected files such as .git/config and AGENTS.md; the user \
         can open another directory with sandbox.write in config.toml"
    } else if has(&BUSY) {
        "protected files, and directories that contain them, cannot be moved, replaced or removed, and nothing is renamed \
         into or out of such a directory: copy and remove it instead, or let the user do it"
    } else if line_has(&DENIED, &is_denied) {
        "it opened a file that commands never see, such as keys and logins"
    } else if line_has(&DENIED, &is_outside) {
        "commands write only in the workspace and do not see all other files; the user can open a directory with \
         sandbox.read or sandbox.write in config.toml"
    } else if has(&NOT_PERMITTED) {
        "commands cannot debug other processes, make containers or mounts, or change what is outside of the workspace"
    } else if line_has(&MISSING, &is_hidden) {
        "commands do not see most of the home directory; the user can open a path with sandbox.read in config.toml"
    } else {
        return None;
    };
    Some(format!("the sandbox may be the cause: {cause}"))
}

/// The absolute paths in a message.
fn paths_in(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split([' ', '\t', '\'', '"', '`', '(', ')', ',', '‘', '’']);
    words.filter(|word| word.starts_with('/')).map(|word| word.trim_end_matches([':', '.', ';']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sandbox::SandboxSettings;
    use crate::sandbox::search::Index;
    use crate::sandbox::{Places, ResourceLimits};

    fn plan(level: Level, network: Network) -> Plan {
        let workspace = Path::new("/home/ada/work");
        let places = Places { workspace, is_own_worktree: false, directory: workspace, more: &[], is_git: false };
        let settings = SandboxSettings { network, ..SandboxSettings::default() };
        let mut plan = Plan::new(
            &places,
            &settings,
            [Some(Path::new("/home/ada")), None],
            level,
            ResourceLimits::default(),
            &Index::default(),
        )
        .unwrap();
        plan.denied.push("/home/ada/.ssh".into());
        plan
    }

    #[test]
    fn a_sign_of_the_sandbox_names_what_would_allow_it_and_other_failures_do_not() {
        let cause = |output: &str| likely_cause(&plan(Level::Namespaces, Network::Off), output);
        for (output, expected) in [
            ("curl: (6) Could not resolve host: example.org", "sandbox.network"),
            ("npm error code EAI_AGAIN", "sandbox.network"),
            ("touch: cannot touch '/etc/x': Read-only file system", "sandbox.write"),
            ("error: could not write config file .git/config: Device or resource busy", "git -c NAME=VALUE"),
            ("mv: cannot move '.git' to 'g': Device or resource busy", "protected"),
            ("fatal: renaming 'docs/page' failed: Invalid cross-device link", "copy and remove"),
            ("cat: /home/ada/.ssh/id: Permission denied", "keys and logins"),
            ("strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted", "debug"),
            ("cat: /home/ada/notes: No such file or directory", "sandbox.read"),
        ] {
            assert!(cause(output).is_some_and(|cause| cause.contains(expected)), "{output}: {:?}", cause(output));
        }
        for output in
            ["", "error[E0308]: mismatched types", "cat: x: No such file or directory", "./run.sh: Permission denied"]
        {
            assert_eq!(cause(output), None, "{output}");
        }
        let lookup = "Could not resolve host: example.org";
        assert_eq!(likely_cause(&plan(Level::Namespaces, Network::Host), lookup), None);
        assert_eq!(likely_cause(&plan(Level::None, Network::Off), lookup), None);
        let outside = "touch: cannot touch '/etc/x': Permission denied";
        assert!(cause(outside).is_none() && likely_cause(&plan(Level::Landlock, Network::Off), outside).is_some());
    }
}
