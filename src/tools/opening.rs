//! How tools open a file to read it: never one that can block, do something by being opened, or holds a process's secrets.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path};

use crate::base::file::{Links, open_regular};

/// Opens a regular file without ever waiting for one that is not.
///
/// # Errors
/// Words that go on after the path.
pub fn open(path: &Path) -> Result<File, String> {
    let real = fs::canonicalize(path).map_err(|error| cannot(&error))?;
    readable_kind(&fs::metadata(&real).map_err(|error| cannot(&error))?)?;
    if is_of_a_process(&real) {
        return Err("belongs to a process and may hold secrets; a command may read it, since that asks first".into());
    }
    open_regular(&real, Links::Refused).map_err(|error| cannot(&error))
}

fn readable_kind(found: &fs::Metadata) -> Result<(), String> {
    match found.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err("is a directory; list it with `list_dir`".into()),
        _ => Err("is no regular file but a device, pipe or socket, and those are not read".into()),
    }
}

/// Whether this is `/proc/PID/...`, to which `/proc/self` leads too.
pub fn is_of_a_process(real: &Path) -> bool {
    let mut parts = real.components().skip(1).map(Component::as_os_str);
    parts.next().is_some_and(|first| first == "proc")
        && parts.next().and_then(|second| second.to_str()).is_some_and(|pid| pid.parse::<u32>().is_ok())
}

/// Why a path cannot be looked at, in words that go on after the path.
pub fn cannot(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".into(),
        io::ErrorKind::PermissionDenied => "may not be read: permission denied".into(),
        _ => format!("could not be opened: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_directories_of_proc_belong_to_a_process() {
        for (path, expected) in [
            ("/proc/1/environ", true),
            ("/proc/77", true),
            ("/proc/cpuinfo", false),
            ("/proc/sys/kernel/pid_max", false),
            ("/home/proc/1/environ", false),
        ] {
            assert_eq!(is_of_a_process(Path::new(path)), expected, "{path}");
        }
    }
}
