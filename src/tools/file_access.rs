//! Messages for models about a file that cannot be opened.

use std::fs;
use std::io;
use std::path::Path;

use crate::base::text;

/// How many names of a directory are compared with a name that was not found.
const MAX_COMPARED_NAMES: usize = 2000;

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
    fn an_error_has_no_number_and_starts_in_lower_case() {
        assert_eq!(reason(&io::Error::from_raw_os_error(28)), "no space left on device");
        assert_eq!(reason(&io::Error::other("too many links")), "too many links");
    }

    #[test]
    fn a_missing_file_is_reported_with_the_nearest_name() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("main.rs"), "").unwrap();
        let missing = |name: &str| suggestion(&directory.path().join(name), &io::ErrorKind::NotFound.into());
        assert_eq!(missing("mian.rs"), format!("; did you mean {}?", directory.path().join("main.rs").display()));
        assert_eq!(missing("other.py"), "");
    }
}
