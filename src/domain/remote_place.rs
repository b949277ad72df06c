//! Where the tools of an environment run, if that is not this machine: `ssh:HOST:DIR` and `container:IMAGE`.

use std::fmt;
use std::str::FromStr;

use crate::base::error::Error;

const SSH: &str = "ssh:";
const CONTAINER: &str = "container:";

/// Before a digest in the name of an image, where `@` begins no directory.
const DIGEST: &str = "@sha256:";

/// A place that a person named in the specification of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RemotePlace {
    /// A directory of another machine, reached by the system's ssh.
    Ssh {
        /// As ssh takes it: a name of its configuration, perhaps with `USER@`.
        host: String,
        /// As it was written; absolute once it was looked up.
        directory: String,
    },
    /// A container of an image, in which the working directory is mounted.
    Container {
        /// As podman and docker take it.
        image: String,
    },
}

impl RemotePlace {
    /// The position at which a place begins in a specification: at its start or after a `+`, before any `@`.
    pub fn start_in(spec: &str) -> Option<usize> {
        let names = spec.find('@').map_or(spec, |at| &spec[..at]);
        let starts = std::iter::once(0).chain(names.match_indices('+').map(|(at, _)| at + 1));
        starts.into_iter().find(|at| [SSH, CONTAINER].iter().any(|prefix| names[*at..].starts_with(prefix)))
    }

    /// Splits a place from the directory after it, which only a container can have.
    pub fn split(text: &str) -> Result<(Self, Option<&str>), Error> {
        if text.starts_with(SSH) {
            return Ok((text.parse()?, None));
        }
        let begins_directory = |at: &usize| !text[*at..].starts_with(DIGEST);
        match text.match_indices('@').map(|(at, _)| at).find(begins_directory) {
            Some(at) => Ok((text[..at].parse()?, Some(&text[at + 1..]))),
            None => Ok((text.parse()?, None)),
        }
    }
}

impl RemotePlace {
    /// The same place with the directory that was found there; a container has the directory of this machine.
    pub fn with_directory(&self, found: &str) -> Self {
        match self {
            Self::Ssh { host, .. } => Self::Ssh { host: host.clone(), directory: found.to_owned() },
            Self::Container { .. } => self.clone(),
        }
    }
}

impl FromStr for RemotePlace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(rest) = text.strip_prefix(SSH) {
            // The colons of an address are in brackets.
            let end = rest.find(']').unwrap_or(0);
            let colon = rest[end..].find(':').map(|at| end + at);
            let (host, directory) = colon.map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
            let is_host = |c: char| c.is_ascii_alphanumeric() || "._-@[]:%".contains(c);
            check(text, host, is_host, "expected ssh:HOST:DIR, with a host as ssh takes it")?;
            if directory.trim().is_empty() || directory.starts_with('-') || directory.contains(char::is_control) {
                return Err(invalid(text, "expected ssh:HOST:DIR, with a directory such as /srv/app or ~/app"));
            }
            return Ok(Self::Ssh { host: host.to_owned(), directory: directory.to_owned() });
        }
        let image = text.strip_prefix(CONTAINER).unwrap_or_default();
        let is_image = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        check(text, image, is_image, "expected container:IMAGE, with the name of an image")?;
        Ok(Self::Container { image: image.to_owned() })
    }
}

/// A name that begins with `-` would be an option of the program that gets it.
fn check(text: &str, name: &str, is_allowed: impl Fn(char) -> bool, expected: &str) -> Result<(), Error> {
    let option = name.starts_with('-') || name.contains("@-");
    if name.is_empty() || option || !name.chars().all(is_allowed) {
        return Err(invalid(text, expected));
    }
    Ok(())
}

fn invalid(text: &str, expected: &str) -> Error {
    Error::usage(format!("invalid environment {text:?}: {expected}"))
}

impl fmt::Display for RemotePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh { host, directory } => write!(f, "{SSH}{host}:{directory}"),
            Self::Container { image } => write!(f, "{CONTAINER}{image}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        for text in [
            "ssh:web1:/srv/app",
            "ssh:me@web1.example.org:~/a b",
            "ssh:[::1]:/srv",
            "ssh:web1:app:old",
            "container:alpine",
            "container:docker.io/library/alpine:3.20",
            "container:alpine@sha256:abc",
        ] {
            assert_eq!(text.parse::<RemotePlace>().unwrap().to_string(), text);
            assert_eq!(RemotePlace::start_in(text), Some(0), "{text}");
        }
    }

    #[test]
    fn names_that_are_options_or_nothing_are_refused() {
        for text in [
            "ssh:",
            "ssh:web1",
            "ssh:web1:",
            "ssh::/srv",
            "ssh:-oProxyCommand=x:/srv",
            "ssh:me@-oProxyCommand:/srv",
            "ssh:a b:/srv",
            "ssh:a/b:/srv",
            "ssh:web1:-x",
            "ssh:web1:/srv\n",
            "container:",
            "container:--privileged",
            "container:a b",
        ] {
            assert!(text.parse::<RemotePlace>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_place_begins_after_a_plus_and_a_container_may_have_a_directory() {
        assert_eq!(RemotePlace::start_in("readonly+ssh:me@web1:/srv"), Some(9));
        assert_eq!(RemotePlace::start_in("coding@/a+ssh:x:/srv"), None);
        assert_eq!(RemotePlace::start_in("coding"), None);
        let (place, directory) = RemotePlace::split("container:alpine@sha256:abc@../other").unwrap();
        assert_eq!((place.to_string().as_str(), directory), ("container:alpine@sha256:abc", Some("../other")));
        let (place, directory) = RemotePlace::split("ssh:me@web1:/srv").unwrap();
        assert_eq!((place.to_string().as_str(), directory), ("ssh:me@web1:/srv", None));
    }
}
