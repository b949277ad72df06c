//! How tools open a file to read it: regular files only, because opening a pipe or device can block or change
//! something, and no files of processes, which may contain secrets.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path};

use crate::base::file::{Links, open_regular};
use crate::base::text;

/// How many names of a directory are compared with a name that was not found.
const MAX_COMPARED_NAMES: usize = 2000;

pub const PROCESS_FILES: &str =
    "reading /proc/PID is not allowed, because it may contain secrets; use bash, which asks the user";

/// Opens a regular file without blocking.
///
/// # Errors
/// A message for the model that follows the path and `: `.
pub fn open_readable(path: &Path) -> Result<File, String> {
    let real = fs::canonicalize(path).map_err(|error| not_readable(&error) + &suggestion(path, &error))?;
    require_regular(&fs::metadata(&real).map_err(|error| not_readable(&error))?)?;
    if is_process_file(&real) {
        return Err(PROCESS_FILES.into());
    }
    open_regular(&real, Links::Refused).map_err(|error| not_readable(&error))
}

fn require_regular(found: &fs::Metadata) -> Result<(), String> {
    match found.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err("is a directory; use list_dir".into()),
        _ => Err("not a regular file".into()),
    }
}

/// Whether this is `/proc/PID/...`, to which `/proc/self` leads too.
pub fn is_process_file(real: &Path) -> bool {
    let mut parts = real.components().skip(1).map(Component::as_os_str);
    parts.next().is_some_and(|first| first == "proc")
        && parts.next().and_then(|second| second.to_str()).is_some_and(|pid| pid.parse::<u32>().is_ok())
}

/// Why a path cannot be read.
pub fn not_readable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => format!("cannot be opened: {}", reason(error)),
    }
}

/// The error in lower case and without its number: `no space left on device`.
pub fn reason(error: &io::Error) -> String {
    let message = error.to_string();
    let message = message.split(" (os error ").next().unwrap_or_default();
    let mut rest = message.chars();
    rest.next().map_or_else(String::new, |first| first.to_lowercase().chain(rest).collect())
}

/// The nearest name in the same directory, if the path was not found and one is similar.
pub fn suggestion(path: &Path, error: &io::Error) -> String {
    let Some(name) = path.file_name().filter(|_| error.kind() == io::ErrorKind::NotFound) else { return String::new() };
    let siblings = path.parent().and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten().flatten();
    let names: Vec<String> =
        siblings.take(MAX_COMPARED_NAMES).filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let nearest = text::nearest(&name.to_string_lossy(), names.iter().map(String::as_str));
    nearest.map_or_else(String::new, |nearest| format!("; did you mean {}?", path.with_file_name(nearest).display()))
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
            assert_eq!(is_process_file(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn an_error_has_no_number_and_starts_in_lower_case() {
        assert_eq!(reason(&io::Error::from_raw_os_error(28)), "no space left on device");
        assert_eq!(reason(&io::Error::other("too many links")), "too many links");
    }

    #[test]
    fn a_missing_file_is_reported_with_the_nearest_name() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("main.rs"), "").unwrap();
        let missing = |name: &str| open_readable(&directory.path().join(name)).unwrap_err();
        let expected = format!("does not exist; did you mean {}?", directory.path().join("main.rs").display());
        assert_eq!(missing("mian.rs"), expected);
        assert_eq!(missing("other.py"), "does not exist");
    }
}
