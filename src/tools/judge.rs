//! Whether a prepared call needs approval: it becomes a request to `policy`, with the paths resolved.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::locate::{MAX_LINKS, Opener, canonical};
use super::{Environment, PathVerdict, Prepared, ToolSpec};
use crate::domain::approval::Policy;
use crate::domain::endpoint::Endpoint;
use crate::domain::host::HostPattern;
use crate::domain::tool::Reach;
use crate::policy::paths::{Access, AllowedDirectories};
use crate::policy::readonly::{Extent, Read};
use crate::policy::{CommandRequest, Permissions, Request, Verdict, decide};

/// A directory with more entries is not searched for symbolic links.
const MAX_ENTRIES: usize = 10_000;

/// What the policy judges of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// Nothing: the call is free.
    Nothing,
    /// The path of the question is read.
    Read,
    /// The path of the question is written.
    Write,
    /// `command` runs in `workdir`.
    Command,
    /// An agent with `model` is started.
    Fork,
    /// Something else changes.
    Change,
}

/// What the calls of one agent are judged by.
pub struct Judge<'a> {
    /// Where they run, with the rules of the user.
    pub environment: &'a Environment,
    /// What the agent may do without a question.
    pub policy: Policy,
    /// The directories that a person allowed this agent to read.
    pub allowed: &'a AllowedDirectories,
    /// The hosts that a person allowed this agent to reach.
    pub hosts: &'a [HostPattern],
    /// Where the agent's conversation is sent.
    pub endpoint: &'a Endpoint,
}

impl Judge<'_> {
    /// Judges a call of this tool.
    pub fn verdict(&self, spec: &ToolSpec, prepared: &Prepared) -> Verdict {
        let text = |name: &str| prepared.arguments[name].as_str();
        match spec.judged {
            Judged::Nothing => Verdict::Free,
            Judged::Change => self.decide(&Request::Change),
            Judged::Read | Judged::Write => self.file(spec.reach, prepared),
            Judged::Command => {
                let command = self.command(text("command").unwrap_or_default(), text("workdir"));
                stricter(self.network(prepared), command)
            }
            Judged::Fork => text("model").map_or(Verdict::Free, |model| {
                let is_other_provider = model.split('/').next() != self.endpoint.full_name().split('/').next();
                self.decide(&Request::Fork { model, is_other_provider })
            }),
        }
    }

    /// Whether a person has to be asked about the hosts that a call names.
    pub fn asks_for_network(&self, prepared: &Prepared) -> bool {
        matches!(self.network(prepared), Verdict::Ask(_))
    }

    fn network(&self, prepared: &Prepared) -> Verdict {
        let Some(request) = &prepared.question.network else { return Verdict::Free };
        let verdict = |wanted: &HostPattern, is_granted: bool| {
            self.decide(&Request::Network { host: &wanted.to_string(), is_granted })
        };
        let is_granted = |wanted: &HostPattern| self.hosts.iter().any(|granted| granted.allows_all_of(wanted));
        let wanted = request.wanted().iter().map(|wanted| verdict(wanted, is_granted(wanted)));
        // A rule against a host that is named holds also where the network cannot be restricted.
        let named = request.hosts.iter().map(|named| verdict(named, true));
        named.filter(|verdict| matches!(verdict, Verdict::Refuse(_))).chain(wanted).fold(Verdict::Free, stricter)
    }

    fn decide(&self, request: &Request<'_>) -> Verdict {
        let env = self.environment;
        let permissions = Permissions {
            policy: self.policy,
            rules: &env.rules,
            sandboxed: env.is_sandboxed(),
            workspace: env.path_policy().workspace,
            home: env.denied.home.as_deref(),
        };
        decide(&permissions, request)
    }

    fn file(&self, reach: Reach, prepared: &Prepared) -> Verdict {
        let Some(file) = &prepared.question.file else { return self.decide(&Request::Change) };
        let (path, place) = (file.path.as_path(), self.after_answers(&file.verdict));
        match reach {
            Reach::Reads => self.decide(&Request::Read { path, place: &place }),
            Reach::Writes => self.decide(&Request::Write { path, place: &file.verdict }),
        }
    }

    /// A directory that a person allowed is as the workspace.
    fn after_answers(&self, verdict: &PathVerdict) -> PathVerdict {
        match verdict {
            PathVerdict::AskOutside(directory) if self.allowed.covers(directory, &self.environment.denied) => {
                PathVerdict::Free
            }
            verdict => verdict.clone(),
        }
    }

    fn command(&self, text: &str, directory: Option<&str>) -> Verdict {
        let resolve = |read: &Read| {
            let (path, verdict) = self.environment.place(read);
            (path, self.after_answers(&verdict))
        };
        // Written in another way, it may still be the directory of the agent.
        let directory = directory.map(|written| self.environment.resolve(written));
        let directory = directory.filter(|directory| *directory != self.environment.working_directory);
        let directory = directory.as_deref().map(|directory| directory.to_string_lossy());
        let has_unsafe_path = self.environment.has_unsafe_path();
        self.decide(&Request::Command(CommandRequest {
            text,
            directory: directory.as_deref(),
            has_unsafe_path,
            resolve: &resolve,
        }))
    }
}

impl Environment {
    /// Where something is that a command reads. In doubt it asks.
    fn place(&self, read: &Read) -> (PathBuf, PathVerdict) {
        let written = self.working_directory.join(&read.path);
        if read.extent == Extent::Pattern {
            return self.place_of_pattern(&written, &read.path);
        }
        let (path, verdict) = self.place_of_one(&written);
        let is_free = verdict == PathVerdict::Free;
        match read.extent {
            Extent::Tree if is_free && self.path_policy().may_contain_denied(&path) => ask(path),
            Extent::Entries if is_free && path.is_dir() => self.place_of_entries(&path),
            _ => (path, verdict),
        }
    }

    fn place_of_one(&self, written: &Path) -> (PathBuf, PathVerdict) {
        let Ok(path) = canonical(written, MAX_LINKS) else { return ask(written.to_path_buf()) };
        let access = if path.is_dir() { Access::List } else { Access::Read };
        let has_denied_name = rustix::fs::stat(&path)
            .is_ok_and(|stat| access == Access::Read && Opener::new(self).check_names(&stat).is_err());
        let verdict = match self.path_policy().verdict(&path, access) {
            _ if has_denied_name => PathVerdict::Denied("another name of a file"),
            verdict => verdict,
        };
        (path, verdict)
    }

    /// A pattern in the last part of a path; in another part, it may stand for any directory.
    fn place_of_pattern(&self, written: &Path, pattern: &str) -> (PathBuf, PathVerdict) {
        let above = Path::new(pattern).parent().unwrap_or(Path::new("/"));
        if above.to_string_lossy().contains(['*', '?', '[']) {
            return ask(written.into());
        }
        let parent = written.parent().unwrap_or(Path::new("/"));
        let (path, verdict) = self.place_of_one(parent);
        if verdict == PathVerdict::Free && path.is_dir() { self.place_of_entries(&path) } else { ask(path) }
    }

    /// All files of a directory: symbolic links may lead elsewhere.
    fn place_of_entries(&self, directory: &Path) -> (PathBuf, PathVerdict) {
        let may_be_denied = self.path_policy().may_contain_denied(directory);
        let Ok(entries) = fs::read_dir(directory) else { return ask(directory.into()) };
        for (count, entry) in entries.enumerate() {
            let Ok(entry) = entry else { return ask(directory.into()) };
            if count >= MAX_ENTRIES {
                return ask(directory.into());
            }
            if may_be_denied || entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                let (path, verdict) = self.place_of_one(&entry.path());
                if verdict != PathVerdict::Free {
                    return (path, verdict);
                }
            }
        }
        (directory.into(), PathVerdict::Free)
    }

    /// Whether a command can run a program that an agent wrote.
    fn has_unsafe_path(&self) -> bool {
        let workspace = self.path_policy().workspace;
        let is_unsafe = |directory: PathBuf| {
            let real = fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone());
            !directory.is_absolute() || real.starts_with(workspace)
        };
        env::var_os("PATH").is_none_or(|path| env::split_paths(&path).any(is_unsafe))
    }
}

/// The first one, unless the second one is stricter.
fn stricter(one: Verdict, other: Verdict) -> Verdict {
    match (&one, &other) {
        (Verdict::Refuse(_), _) | (Verdict::Ask(_), Verdict::Free | Verdict::Ask(_)) | (_, Verdict::Free) => one,
        _ => other,
    }
}

fn ask(path: PathBuf) -> (PathBuf, PathVerdict) {
    (path.clone(), PathVerdict::AskOutside(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn is_free(environment: &Environment, path: &str, extent: Extent) -> bool {
        environment.place(&Read { path: path.into(), extent }).1 == PathVerdict::Free
    }

    #[test]
    fn a_pattern_is_judged_as_a_pattern_also_if_a_file_has_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = fs::canonicalize(directory.path()).unwrap();
        let environment = Environment::at(workspace.clone());
        for name in ["plain", "d*/deep", "deep/below"] {
            fs::create_dir_all(workspace.join(name)).unwrap();
        }
        for name in ["x*", "plain/a*", "d*/deep/a"] {
            fs::write(workspace.join(name), "text").unwrap();
        }
        symlink("/etc/passwd", workspace.join("xlink")).unwrap();
        symlink("/etc", workspace.join("deep/link")).unwrap();

        assert!(is_free(&environment, "x*", Extent::One), "without a pattern, it is the file");
        assert!(is_free(&environment, "plain/a*", Extent::Pattern));
        for pattern in ["x*", "./x*", "deep/*", "deep/*/", "d*/*", "d*/deep/a*", "deep/[l]ink/passwd", "gone/*"] {
            assert!(!is_free(&environment, pattern, Extent::Pattern), "{pattern}");
        }
        assert!(is_free(&environment, "plain", Extent::Entries));
        assert!(!is_free(&environment, "deep", Extent::Entries));
    }

    #[cfg(feature = "shell-grammar")]
    #[test]
    fn a_command_asks_if_its_pattern_or_its_directory_leads_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(workspace.join("d")).unwrap();
        for name in ["x*", "d/a"] {
            fs::write(workspace.join(name), "text").unwrap();
        }
        symlink("/etc/passwd", workspace.join("xlink")).unwrap();
        let environment = Environment::at(workspace);
        let permissions = Permissions {
            policy: Policy::Ask,
            rules: &environment.rules,
            sandboxed: true,
            workspace: &environment.working_directory,
            home: None,
        };
        let is_free = |text: &str, directory: Option<&str>| {
            let resolve = |read: &Read| environment.place(read);
            let request = CommandRequest { text, directory, has_unsafe_path: false, resolve: &resolve };
            decide(&permissions, &Request::Command(request)) == Verdict::Free
        };
        for command in ["cat 'x*'", "cat d/*", "ls d/*", "cd d && cat a", "git status"] {
            assert!(is_free(command, None), "{command}");
        }
        for command in ["cat x*", "cat xlink", "ls *", "echo x*", "cd d && cat ../x*", "cd d && git status"] {
            assert!(!is_free(command, None), "{command}");
        }
        assert!(is_free("cat a", Some("d")));
        assert!(!is_free("git status", Some("d")));
    }
}
