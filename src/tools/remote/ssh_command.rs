//! The command lines of the system's ssh: one process holds a connection, all others use it by its control socket. When one
//! is started and ended: `connection`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::call::Prefix;

/// In seconds.
const CONNECT_TIMEOUT: u32 = 10;

/// Sessions of one connection at once, the one that holds it not counted: sshd allows 10 (`MaxSessions`, sshd_config(5)).
pub const MAX_SESSIONS: usize = 8;

/// Options of every ssh. It asks nothing, forwards nothing and notices within 15 s that a connection is dead.
const OPTIONS: &[&str] = &[
    "BatchMode=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ForwardX11Trusted=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "EscapeChar=none",
    "Tunnel=no",
    "LogLevel=ERROR",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
];

pub struct Ssh {
    pub program: PathBuf,
    pub host: String,
    pub withheld: Vec<String>,
}

impl Ssh {
    /// Connects, and lets others use the connection by this socket.
    pub fn hold(&self, socket: &Path) -> Prefix {
        let timeout = format!("ConnectTimeout={CONNECT_TIMEOUT}");
        self.prefix(&["-M", "-o", "ControlPersist=no", "-o", &timeout], socket)
    }

    /// Uses the connection. Without it, it fails instead of making one of its own.
    pub fn enter(&self, socket: &Path) -> Prefix {
        self.prefix(&["-o", "ControlMaster=no", "-o", "ProxyCommand=false"], socket)
    }

    fn prefix(&self, own: &[&str], socket: &Path) -> Prefix {
        let mut arguments: Vec<OsString> = vec!["-T".into(), "-S".into(), socket.into()];
        arguments.extend(own.iter().map(OsString::from));
        arguments.extend(OPTIONS.iter().flat_map(|option| ["-o", option]).map(OsString::from));
        // An address in brackets is one word of ssh without them.
        let host = self.host.replace(['[', ']'], "");
        arguments.extend(["--".into(), host.into()]);
        Prefix { program: self.program.clone().into(), arguments, is_line: true, withheld: self.withheld.clone() }
    }

    /// Why there is no connection, with what to do.
    pub fn unreachable(&self, why: &str) -> String {
        let host = &self.host;
        let fix = match why {
            _ if why.contains("Host key verification failed") || why.contains("HOST IDENTIFICATION HAS CHANGED") => {
                format!("run `ssh {host}` in a terminal to check and accept its host key")
            }
            _ if why.contains("Permission denied") => {
                format!(
                    "no password is asked for here: use a key (ssh-copy-id {host}, ssh-add), or check the user name"
                )
            }
            _ if why.contains("resolve hostname") => {
                format!("check the name, or add {host} to ~/.ssh/config")
            }
            _ if why.contains("refused by peer") => "it allows fewer sessions on one connection (MaxSessions)".into(),
            _ => format!("check that it is up and that `ssh {host}` works in a terminal"),
        };
        format!("cannot reach {host} by ssh ({why}): {fix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_forwarded_and_the_host_is_never_an_option() {
        let ssh = Ssh { program: "ssh".into(), host: "me@[::1]".into(), withheld: Vec::new() };
        for prefix in [ssh.hold(Path::new("/s")), ssh.enter(Path::new("/s"))] {
            let arguments: Vec<&str> = prefix.arguments.iter().filter_map(|part| part.to_str()).collect();
            assert!(arguments.ends_with(&["--", "me@::1"]), "{arguments:?}");
            for option in ["BatchMode=yes", "ForwardAgent=no", "ClearAllForwardings=yes", "PermitLocalCommand=no"] {
                assert!(arguments.contains(&option), "{arguments:?}");
            }
        }
    }

    #[test]
    fn a_known_reason_comes_with_what_to_do() {
        let ssh = Ssh { program: "ssh".into(), host: "web1".into(), withheld: Vec::new() };
        for (why, fix) in [
            ("Host key verification failed.", "run `ssh web1`"),
            ("me@web1: Permission denied (publickey).", "ssh-copy-id web1"),
            ("ssh: Could not resolve hostname web1", "~/.ssh/config"),
            ("Connection refused", "check that it is up"),
        ] {
            let message = ssh.unreachable(why);
            assert!(message.starts_with("cannot reach web1 by ssh (") && message.contains(fix), "{message}");
        }
    }
}
