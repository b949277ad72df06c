//! Places of the file system that have a meaning for approvals, file tools and the sandbox alike. These tables stand only
//! here.

/// What a command may do with a place below the home directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Read,
    /// Read, and written to in an overlay: what is written lasts until the end of the call, the real place stays as it
    /// was.
    Cache,
}

/// Below the home directory: what tool chains need. Everything else there is absent in the sandbox.
pub const TOOL_CHAINS: &[(&str, Use)] = &[
    (".asdf", Use::Read),
    (".bun", Use::Read),
    (".cache", Use::Cache),
    (".cargo", Use::Cache),
    (".config/git", Use::Read),
    (".deno", Use::Read),
    (".dotnet", Use::Read),
    (".fnm", Use::Read),
    (".gem", Use::Read),
    (".ghcup", Use::Read),
    (".gitconfig", Use::Read),
    (".gradle", Use::Cache),
    (".juliaup", Use::Read),
    (".local/bin", Use::Read),
    (".local/lib", Use::Read),
    (".local/share/fnm", Use::Read),
    (".local/share/mise", Use::Read),
    (".local/share/pnpm", Use::Read),
    (".local/share/uv", Use::Read),
    (".m2", Use::Cache),
    (".npm", Use::Cache),
    (".nuget", Use::Cache),
    (".nvm", Use::Read),
    (".opam", Use::Read),
    (".pyenv", Use::Read),
    (".rbenv", Use::Read),
    (".rustup", Use::Read),
    (".sdkman", Use::Read),
    (".volta", Use::Read),
    ("bin", Use::Read),
    ("go", Use::Cache),
];

/// Below the home directory: secrets. No rule and no setting opens them. A `*` at the end stands for any ending.
pub const DENIED: &[&str] = &[
    ".anthropic",
    ".aws",
    ".azure",
    ".bash_history",
    ".cargo/credentials*",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/polylogue",
    ".docker/config.json",
    ".fish_history",
    ".gem/credentials",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".histfile",
    ".kube",
    ".local/share/fish/fish_history",
    ".local/share/keyrings",
    ".local/share/opencode",
    ".local/share/polylogue",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".npmrc",
    ".nuget/NuGet/NuGet.Config",
    ".pgpass",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".sh_history",
    ".sqlite_history",
    ".ssh",
    ".zhistory",
    ".zsh_history",
];

/// In every workspace: files that later programs or agents of the person obey. Commands cannot write them.
pub const PROTECTED: &[&str] = &[".polylogue", "AGENTS.md", "CLAUDE.md", ".mcp.json"];

/// In every git directory: what makes git run programs, and what leads it to another configuration (gitrepository-layout(5)).
pub const PROTECTED_IN_GIT: &[&str] = &["config", "hooks", "config.worktree", "commondir", "gitdir"];
