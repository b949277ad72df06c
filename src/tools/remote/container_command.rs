//! The command lines of podman and docker: one process holds the container, which ends with it; all others run commands in
//! it. When one is started and ended: `connection`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::call::Prefix;

/// Commands in one container at once.
pub const MAX_COMMANDS: usize = 64;

/// Processes and threads in a container.
const MAX_PROCESSES: u32 = 2048;

pub struct Container {
    pub program: PathBuf,
    pub is_podman: bool,
    pub image: String,
    /// Mounted at its own path.
    pub workspace: PathBuf,
    /// Of the workspace: what must not be moved, and what must not be written.
    pub kept: Vec<PathBuf>,
    pub protected: Vec<PathBuf>,
    pub has_network: bool,
    /// In bytes.
    pub memory: u64,
    pub user: (u32, u32),
    pub withheld: Vec<String>,
}

impl Container {
    /// Starts the container. It ends, and is removed, when the standard input of this process ends.
    pub fn hold(&self, name: &str) -> Prefix {
        let mut arguments = words(&["run", "--rm", "-i", "--name", name]);
        arguments.extend(words(&["--security-opt", "no-new-privileges", "--cap-drop", "ALL"]));
        if self.is_podman {
            // Its default passes the variables of proxies on, which may have passwords.
            arguments.push("--http-proxy=false".into());
        }
        let limits = [format!("--pids-limit={MAX_PROCESSES}"), format!("--memory={}", self.memory)];
        arguments.extend(limits.iter().map(OsString::from));
        if !self.has_network {
            arguments.extend(words(&["--network", "none"]));
        }
        let (user, group) = self.user;
        arguments.extend(words(&["--user", &format!("{user}:{group}")]));
        if self.is_podman && user != 0 {
            arguments.extend(words(&["--userns", "keep-id"]));
        }
        arguments.extend(mount(&self.workspace, ""));
        self.kept.iter().for_each(|path| arguments.extend(mount(path, "")));
        self.protected.iter().for_each(|path| arguments.extend(mount(path, ",readonly")));
        // No user of the image may have a home, and the entry point of the image is not ours to run.
        arguments.extend(words(&["--env", "HOME=/tmp", "--entrypoint", "", "--workdir"]));
        arguments.extend([self.workspace.clone().into(), (&self.image).into()]);
        self.prefix(arguments)
    }

    /// Runs a command in the container.
    pub fn enter(&self, name: &str) -> Prefix {
        self.prefix(words(&["exec", "-i", name]))
    }

    fn prefix(&self, arguments: Vec<OsString>) -> Prefix {
        let (program, withheld) = (self.program.clone().into(), self.withheld.clone());
        Prefix { program, arguments, is_line: false, withheld }
    }

    /// Why there is no container, with what to do.
    pub fn not_started(&self, why: &str) -> String {
        let (image, program) = (&self.image, self.program.display());
        format!("cannot start a container of {image} ({why}): check that `{program} run --rm {image} true` works")
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Paths with a comma or a quote were refused before.
fn mount(path: &Path, options: &str) -> [OsString; 2] {
    let path = path.to_string_lossy();
    ["--mount".into(), format!("type=bind,source={path},target={path}{options}").into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_no_network_no_powers_and_protected_files_are_read_only() {
        let container = Container {
            program: "podman".into(),
            is_podman: true,
            image: "alpine".into(),
            workspace: "/w".into(),
            kept: vec!["/w/.git".into()],
            protected: vec!["/w/.git/hooks".into()],
            has_network: false,
            memory: 1 << 30,
            user: (1000, 1000),
            withheld: Vec::new(),
        };
        let line = |container: &Container| {
            let arguments = container.hold("n").arguments;
            arguments.iter().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let held = line(&container);
        for part in [
            "--network none",
            "no-new-privileges",
            "--cap-drop ALL",
            "--pids-limit=2048",
            "--memory=1073741824",
            "--userns keep-id",
            "source=/w,target=/w ",
            "source=/w/.git/hooks,target=/w/.git/hooks,readonly",
        ] {
            assert!(held.contains(part), "{part}: {held}");
        }
        assert!(held.ends_with(" /w alpine"), "{held}");
        assert!(!line(&Container { has_network: true, ..container }).contains("--network"));
    }
}
