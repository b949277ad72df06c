//! Finds the names of protected files in the text of a command.

use super::paths::PROTECTED;

/// The protected name in a path, if there is one. Case does not matter, since some file systems ignore it.
fn protected_name(path: &str) -> Option<&'static str> {
    let names = || PROTECTED.iter().map(|protected| protected.name);
    path.split('/').find_map(|part| names().find(|name| part.eq_ignore_ascii_case(name)))
}

/// The first protected name that a command mentions as a path.
pub fn protected_name_in(command: &str) -> Option<&'static str> {
    let is_part_of_path = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    // The shell removes quotes and backslashes.
    let unquoted = command.replace(['\'', '"', '\\'], "");
    unquoted.split(|c| !is_part_of_path(c)).find_map(protected_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_are_found_as_whole_components() {
        for (path, expected) in [
            ("a/.git/hooks/pre-commit", Some(".git")),
            ("AGENTS.md", Some("AGENTS.md")),
            ("docs/Claude.MD", Some("CLAUDE.md")),
            (".gitignore", None),
            ("src/commands/git.rs", None),
        ] {
            assert_eq!(protected_name(path), expected, "{path}");
        }
        assert_eq!(protected_name_in("echo x > '.g'it/config"), Some(".git"));
        assert_eq!(protected_name_in("sed -i s/a/b/ ./AGENTS.md;ls"), Some("AGENTS.md"));
        assert_eq!(protected_name_in("git commit -m .gitignore"), None);
    }
}
