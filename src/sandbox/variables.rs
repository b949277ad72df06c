//! The environment variables of commands: a list of names; all others are withheld.

use std::ffi::OsString;

/// Names that every command gets. One that ends in `_` means all that begin with it.
const GIVEN: [&str; 33] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_",
    "TERM",
    "TZ",
    "TMPDIR",
    "EDITOR",
    "COLORTERM",
    // Where tool chains are.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PNPM_HOME",
    "NODE_PATH",
    // Certificates that replace the system's.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
];

/// Keep programs from using a pager or asking for input, and git from fetching missing parts of a partial clone through
/// a program that the repository names.
const SETTINGS: [(&str, &str); 4] =
    [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_NO_LAZY_FETCH", "1")];

/// Reaches the person's keys.
const AGENT_SOCKET: &str = "SSH_AUTH_SOCK";

/// The variables of this process that a command gets: the usual ones and those named in `more`, but none of `withheld`.
pub fn given_variables(more: &[String], withheld: &[String]) -> impl Iterator<Item = (OsString, OsString)> {
    let inherited = std::env::vars_os().filter(move |(name, _)| {
        name.to_str().is_some_and(|name| is_given(name, more) && !is_withheld(name, withheld))
    });
    inherited.chain(SETTINGS.iter().map(|(name, value)| ((*name).into(), (*value).into())))
}

fn is_given(name: &str, more: &[String]) -> bool {
    let is_usual = GIVEN.iter().any(|given| name == *given || given.ends_with('_') && name.starts_with(given));
    is_usual || more.iter().any(|given| name == given)
}

fn is_withheld(name: &str, withheld: &[String]) -> bool {
    is_never_given(name) || withheld.iter().any(|key| key == name)
}

/// Libraries that the dynamic linker loads on request run in the helpers too, before they are restricted.
pub fn is_never_given(name: &str) -> bool {
    name == AGENT_SOCKET || name.starts_with("LD_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_given_by_name_and_never_if_it_is_withheld() {
        let more = ["MY_FLAGS", "OPENAI_API_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD"].map(String::from);
        let withheld = ["OPENAI_API_KEY".to_owned()];
        let is_there = |name: &str| is_given(name, &more) && !is_withheld(name, &withheld);
        for name in ["PATH", "LC_ALL", "LC_", "MY_FLAGS", "TMPDIR"] {
            assert!(is_there(name), "{name}");
        }
        for name in ["OPENAI_API_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "GH_TOKEN", "PATHS", "HOMEBREW", "LC"] {
            assert!(!is_there(name), "{name}");
        }
    }
}
