//! Places of the file system that have a meaning for approvals, file tools and the sandbox alike. These tables exist
//! only here.

/// What a command may do with a place below the home directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Read,
    /// Read, and written to in an overlay: written files last until the end of the call, and the real place is
    /// unchanged.
    Cache,
    /// Empty; written files last until the end of the call. Other rows open parts of it.
    Empty,
}

/// Places below the home directory that tool chains need. Everything else there is absent in the sandbox.
pub const TOOL_CHAINS: &[(&str, Use)] = &[
    (".asdf", Use::Read),
    (".bun", Use::Read),
    (".cache", Use::Empty),
    (".cache/Cypress", Use::Cache),
    (".cache/bazel", Use::Cache),
    (".cache/bazelisk", Use::Cache),
    (".cache/bun", Use::Cache),
    (".cache/ccache", Use::Cache),
    (".cache/composer", Use::Cache),
    (".cache/conan", Use::Cache),
    (".cache/coursier", Use::Cache),
    (".cache/deno", Use::Cache),
    (".cache/dune", Use::Cache),
    (".cache/electron", Use::Cache),
    (".cache/electron-builder", Use::Cache),
    (".cache/go-build", Use::Cache),
    (".cache/golangci-lint", Use::Cache),
    (".cache/hex", Use::Cache),
    (".cache/huggingface", Use::Cache),
    (".cache/matplotlib", Use::Cache),
    (".cache/meson", Use::Cache),
    (".cache/ms-playwright", Use::Cache),
    (".cache/nix", Use::Cache),
    (".cache/node", Use::Cache),
    (".cache/node-gyp", Use::Cache),
    (".cache/npm", Use::Cache),
    (".cache/pip", Use::Cache),
    (".cache/pipenv", Use::Cache),
    (".cache/pnpm", Use::Cache),
    (".cache/pre-commit", Use::Cache),
    (".cache/puppeteer", Use::Cache),
    (".cache/pypoetry", Use::Cache),
    (".cache/rebar3", Use::Cache),
    (".cache/ruff", Use::Cache),
    (".cache/sccache", Use::Cache),
    (".cache/selenium", Use::Cache),
    (".cache/torch", Use::Cache),
    (".cache/typescript", Use::Cache),
    (".cache/uv", Use::Cache),
    (".cache/vcpkg", Use::Cache),
    (".cache/virtualenv", Use::Cache),
    (".cache/yarn", Use::Cache),
    (".cache/zig", Use::Cache),
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

/// Files that are never opened for a model, below every home directory. A `*` matches any text in a name.
pub const DENIED: &[(&str, &str)] = &[
    (".ssh", "SSH keys"),
    (".gnupg", "GnuPG keys"),
    (".aws", "the login of the AWS command line"),
    (".azure", "the login of the Azure command line"),
    (".kube", "the login of kubectl"),
    (".config/gcloud", "the login of the Google Cloud command line"),
    (".config/gh", "the login of the GitHub command line"),
    (".config/glab-cli", "the login of the GitLab command line"),
    (".netrc", "passwords of servers"),
    (".git-credentials", "passwords of git"),
    (".config/git/credentials", "passwords of git"),
    (".npmrc", "the login of npm"),
    (".pypirc", "the login of PyPI"),
    (".cargo/credentials*", "the login of cargo"),
    (".docker/config.json", "the login of docker"),
    (".config/containers/auth.json", "the login of podman"),
    (".pgpass", "passwords of PostgreSQL"),
    (".my.cnf", "passwords of MySQL"),
    (".password-store", "passwords"),
    (".local/share/keyrings", "passwords"),
    (".gem/credentials", "the login of RubyGems"),
    (".gradle/gradle.properties", "passwords of Gradle"),
    (".m2/settings-security.xml", "passwords of Maven"),
    (".m2/settings.xml", "passwords of Maven"),
    (".nuget/NuGet/NuGet.Config", "the login of NuGet"),
    (".config/NuGet/NuGet.Config", "the login of NuGet"),
    (".cache/huggingface/stored_tokens", "the login of Hugging Face"),
    (".cache/huggingface/token", "the login of Hugging Face"),
    (".huggingface/token", "the login of Hugging Face"),
    (".local/share/uv/credentials", "the login of uv"),
    (".config/pypoetry/auth.toml", "the login of Poetry"),
    (".config/pip/pip.conf", "passwords of pip"),
    (".pip/pip.conf", "passwords of pip"),
    (".kaggle", "the login of Kaggle"),
    (".config/kaggle", "the login of Kaggle"),
    (".yarnrc.yml", "the login of Yarn"),
    (".config/pnpm/auth.ini", "the login of pnpm"),
    (".config/pnpm/rc", "the login of pnpm"),
    (".bunfig.toml", "the login of Bun"),
    (".deno/credentials.json", "the login of Deno"),
    (".config/configstore", "logins of programs from npm"),
    (".bundle/config", "passwords of Bundler"),
    (".local/share/gem/credentials", "the login of RubyGems"),
    (".composer/auth.json", "the login of Composer"),
    (".config/composer/auth.json", "the login of Composer"),
    (".opam/plugins/opam-publish", "the login of opam"),
    (".hex/hex.config", "the login of Hex"),
    (".pub-cache/credentials.json", "the login of Dart"),
    (".config/dart/pub-credentials.json", "the login of Dart"),
    (".ivy2/.credentials", "passwords of sbt"),
    (".sbt/.credentials", "passwords of sbt"),
    (".dotnet/corefx/cryptography", "keys of .NET"),
    (".terraform.d/credentials.tfrc.json", "the login of Terraform"),
    (".terraformrc", "the login of Terraform"),
    (".config/helm/registry", "the login of Helm"),
    (".config/rclone/rclone.conf", "passwords of rclone"),
    (".vault-token", "the login of Vault"),
    (".config/doctl", "the login of a cloud provider"),
    (".config/hcloud", "the login of a cloud provider"),
    (".config/linode-cli", "the login of a cloud provider"),
    (".config/netlify", "the login of a cloud provider"),
    (".config/stripe", "the login of Stripe"),
    (".fly/config.yml", "the login of a cloud provider"),
    (".local/share/com.vercel.cli", "the login of a cloud provider"),
    (".oci", "the login of a cloud provider"),
    (".boto", "the login of a cloud provider"),
    (".s3cfg", "the login of a cloud provider"),
    (".cache/git/credential", "passwords of git"),
    (".git-credential-cache", "passwords of git"),
    (".cache/op", "sessions of 1Password"),
    (".config/op", "sessions of 1Password"),
    (".cache/rbw", "passwords"),
    (".cache/keyring-*", "passwords"),
    (".local/share/kwalletd", "passwords"),
    (".cache/mozilla", "data of a browser"),
    (".cache/google-chrome*", "data of a browser"),
    (".cache/chromium", "data of a browser"),
    (".cache/microsoft-edge*", "data of a browser"),
    (".cache/BraveSoftware", "data of a browser"),
    (".mozilla", "data of a browser"),
    (".config/google-chrome*", "data of a browser"),
    (".config/chromium", "data of a browser"),
    (".config/microsoft-edge*", "data of a browser"),
    (".config/BraveSoftware", "data of a browser"),
    (".cache/evolution", "mail"),
    (".cache/mutt", "mail"),
    (".cache/thunderbird", "mail"),
    (".thunderbird", "mail"),
    (".claude/.credentials*", "the login of another agent"),
    (".claude.json*", "the login of another agent"),
    (".codex/auth.json", "the login of another agent"),
    (".gemini/oauth_creds.json", "the login of another agent"),
    (".gemini/google_accounts.json", "the login of another agent"),
    (".qwen/oauth_creds.json", "the login of another agent"),
    (".config/github-copilot", "the login of another agent"),
    (".copilot/config.json", "the login of another agent"),
    (".local/share/opencode/auth.json", "the login of another agent"),
    (".local/share/amp/secrets.json", "the login of another agent"),
    (".config/goose/secrets.yaml", "the login of another agent"),
    (".aider.conf.yml", "the login of another agent"),
    (".*_history", "the history of a shell"),
    (".*_history.*", "the history of a shell"),
    (".*-history", "the history of a shell"),
    (".histfile", "the history of a shell"),
    (".zhistory", "the history of a shell"),
    (".zsh_sessions", "the history of a shell"),
    (".local/share/fish/fish_history*", "the history of a shell"),
    (".config/nushell/history*", "the history of a shell"),
];

/// Variables that move a part of [`DENIED`] to another directory.
pub const MOVED: &[(&str, &str)] = &[
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_CACHE_HOME", ".cache"),
    ("HF_HOME", ".cache/huggingface"),
    ("GNUPGHOME", ".gnupg"),
    ("CARGO_HOME", ".cargo"),
    ("DOCKER_CONFIG", ".docker"),
    ("CLAUDE_CONFIG_DIR", ".claude"),
    ("CODEX_HOME", ".codex"),
];

/// Below the home directory: our own data and configuration, even if this process uses other directories.
pub const OWN: &[&str] = &[".config/polylogue", ".local/share/polylogue"];

/// A name that is protected everywhere in a workspace, with everything below it.
#[derive(Debug, Clone, Copy)]
pub struct ProtectedName {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether it is usually a directory.
    pub is_directory: bool,
}

const fn directory(name: &'static str, about: &'static str) -> ProtectedName {
    ProtectedName { name, about, is_directory: true }
}

const fn file(name: &'static str, about: &'static str) -> ProtectedName {
    ProtectedName { name, about, is_directory: false }
}

/// The protected names: file tools, rules and the sandbox go by this table alone.
pub const PROTECTED: &[ProtectedName] = &[
    directory(".git", "git runs its hooks and the programs that its configuration names"),
    directory(".polylogue", "settings, commands, skills and hooks of polylogue"),
    directory(".claude", "settings, commands, skills and hooks of other agents"),
    directory(".agents", "skills of agents"),
    directory(".codex", "settings and instructions of other agents"),
    directory(".cursor", "settings, rules and programs of an editor with agents"),
    directory(".vscode", "programs and settings that an editor runs and uses"),
    directory(".idea", "programs and settings that an editor runs and uses"),
    directory(".devcontainer", "programs that editors run for a container"),
    directory(".husky", "hooks of git"),
    file("AGENTS.md", "instructions of agents"),
    file("AGENTS.override.md", "instructions of agents"),
    file("CLAUDE.md", "instructions of agents"),
    file("GEMINI.md", "instructions of agents"),
    file(".mcp.json", "programs that agents start"),
    file(".envrc", "a script that shells run on entering the directory"),
];

/// In every git directory: what makes git run programs, what leads it to another configuration, and what hides files from it
/// and so from /undo (gitrepository-layout(5)).
pub const PROTECTED_IN_GIT: &[&str] = &["config", "hooks", "config.worktree", "commondir", "gitdir", "info/exclude"];

/// Names that make git treat a directory as a git directory (gitrepository-layout(5)).
pub const GIT_MARKS: [&str; 3] = ["HEAD", "objects", "refs"];

/// Whether a name matches a pattern, in which `*` matches any text. Case is ignored.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return name.eq_ignore_ascii_case(pattern) };
    let name = name.to_ascii_lowercase();
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = name.find(piece) else { return false };
        name = &name[at + piece.len()..];
    }
    name.ends_with(last)
}
