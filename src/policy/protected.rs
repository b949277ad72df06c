//! The names of files and directories that decide what agents may do or be told; changing them asks under every policy.

/// Compared without regard to case, since some file systems ignore it.
pub const PROTECTED: &[&str] = &[
    ".git",
    ".polylogue",
    ".claude",
    ".agents",
    ".codex",
    ".mcp.json",
    "agents.md",
    "agents.override.md",
    "claude.md",
];

/// The protected name in a path, if there is one.
pub fn protected_name(path: &str) -> Option<&'static str> {
    path.split('/').find_map(|name| PROTECTED.iter().find(|known| name.eq_ignore_ascii_case(known)).copied())
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
            ("AGENTS.md", Some("agents.md")),
            ("docs/Claude.MD", Some("claude.md")),
            (".gitignore", None),
            ("src/commands/git.rs", None),
        ] {
            assert_eq!(protected_name(path), expected, "{path}");
        }
        assert_eq!(protected_name_in("echo x > '.g'it/config"), Some(".git"));
        assert_eq!(protected_name_in("sed -i s/a/b/ ./AGENTS.md;ls"), Some("agents.md"));
        assert_eq!(protected_name_in("git commit -m .gitignore"), None);
    }
}
