//! Whether a prepared call needs approval: it becomes a request to `policy`, with the paths resolved.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::locate::{MAX_LINKS, Opener, canonical};
use super::{Environment, NetworkAccess, PathVerdict, Prepared, ToolSpec, mcp, user_tool};
use crate::domain::approval::Policy;
use crate::domain::endpoint::Endpoint;
use crate::domain::host::HostPattern;
use crate::domain::rule::{AgentRules, Grant, Rule, Rules, Subject, shell_quote};
use crate::domain::tool::Reach;
use crate::policy::paths::{Access, AllowedDirectories};
use crate::policy::readonly::{Extent, Read};
use crate::policy::{CommandRequest, Permissions, Request, Verdict, decide, suggest_directory, suggest_rules};

/// Why no command is known to only read.
const UNSAFE_PATH: &str = "PATH contains a directory that agents can write to";

/// A directory with more entries is not searched for symbolic links.
const MAX_ENTRIES: usize = 10_000;

/// The subject of the policy in a call.
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
    /// The hosts of the question are reached.
    Network,
    /// An agent with `model` is started.
    Fork,
    /// A tool of an MCP server is called.
    Mcp,
    /// A program that is a tool is called, which may reach the hosts of the question.
    UserTool,
    /// The path of the question is read or written, where the environment runs.
    RemoteFile,
    /// `command` runs there.
    RemoteCommand,
    /// Something else changes.
    Change,
}

/// Everything that the verdict on an agent's calls depends on.
pub struct Judge<'a> {
    /// Where they run, with the rules of the user.
    pub environment: &'a Environment,
    /// What the agent may do without a question.
    pub policy: Policy,
    /// The rules of this agent besides those of the configuration.
    pub rules: &'a AgentRules,
    /// The rules that were given to all agents until the program exits.
    pub session_rules: &'a [Grant],
    /// The directories that a person allowed this agent to read.
    pub allowed: &'a AllowedDirectories,
    /// Where the agent's conversation is sent.
    pub endpoint: &'a Endpoint,
}

/// A file that is attached to a message.
pub struct AttachedFile {
    /// Its canonical path.
    pub path: PathBuf,
    /// It is open for reading.
    pub file: File,
    /// It is not in the workspace: a tool would ask before it reads it.
    pub is_outside: bool,
}

/// Opens a file that a person attaches to a message. A person may attach what no tool would open without a question, but
/// nothing that is on the deny list or that a deny rule of the agent names.
///
/// # Errors
/// Why it is not opened; the text follows the path and `: `.
pub fn open_attached(environment: &Environment, rules: &AgentRules, path: &str) -> Result<AttachedFile, String> {
    let found = environment.locate(path, Access::Read)?;
    let workspace = environment.path_policy().workspace;
    let rules = rules.over(&environment.rules, &[], workspace);
    let home = environment.denied.home.as_deref();
    let permissions = Permissions { policy: Policy::Yolo, rules: &rules, sandboxed: false, workspace, home };
    if let Verdict::Refuse(why) = decide(&permissions, &Request::Read { path: &found.path, place: &found.verdict }) {
        return Err(why);
    }
    let (file, _) = Opener::new(environment).open(&found.path)?;
    let is_outside = matches!(found.verdict, PathVerdict::AskOutside(_));
    Ok(AttachedFile { path: found.path, file, is_outside })
}

/// The decision about a call.
pub struct Judgement {
    pub verdict: Verdict,
    pub ways: WaysToAllow,
}

/// Ways to let a call that needs approval, and others like it, run without a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaysToAllow {
    /// The rules that would allow it; empty if none can.
    pub rules: Vec<Rule>,
    /// The rules would be given for the sandbox, in which the call runs.
    pub in_sandbox: bool,
    /// The policy `auto` would allow it.
    pub by_auto: bool,
}

impl WaysToAllow {
    /// A rule as given in an answer: it remembers whether the question was about a call in the sandbox.
    pub fn given(&self, rule: Rule) -> Rule {
        if self.in_sandbox { rule.in_sandbox() } else { rule }
    }

    /// The command-line options that allow it, after these words; empty if there are none.
    pub fn remedy(&self, words: &str) -> String {
        let rules: Vec<String> =
            self.rules.iter().map(|rule| format!("--allow {}", shell_quote(&rule.to_string()))).collect();
        let by_rules = Some(rules.join(" ")).filter(|options| !options.is_empty());
        let ways: Vec<String> = by_rules.into_iter().chain(self.by_auto.then(|| "--approval auto".into())).collect();
        if ways.is_empty() { String::new() } else { format!("; {words} {}", ways.join(" or ")) }
    }
}

impl Judge<'_> {
    /// Judges a call of this tool.
    pub fn judge(&self, spec: &ToolSpec, prepared: &Prepared) -> Judgement {
        let configured = &self.environment.rules;
        let rules = self.rules.over(configured, self.session_rules, self.environment.workspace());
        let verdict = match self.verdict(spec, prepared, self.policy, &rules) {
            Verdict::Ask(_) | Verdict::Unasked(_) if self.environment.sandbox.settings.asks_nothing => Verdict::Free,
            verdict => verdict,
        };
        if matches!(verdict, Verdict::Free | Verdict::Refuse(_)) {
            return Judgement { verdict, ways: WaysToAllow::default() };
        }
        let suggested = self.suggestions(spec, prepared, &rules);
        let with_suggested =
            Rules { allow: [rules.allow.clone(), suggested.clone()].concat(), ..rules.clone().into_owned() };
        let helps = self.verdict(spec, prepared, self.policy, &with_suggested) == Verdict::Free;
        let by_auto = self.verdict(spec, prepared, Policy::Auto, &rules) == Verdict::Free;
        let (rules, in_sandbox) = (if helps { suggested } else { Vec::new() }, self.environment.is_sandboxed());
        Judgement { verdict, ways: WaysToAllow { rules, in_sandbox, by_auto } }
    }

    fn verdict(&self, spec: &ToolSpec, prepared: &Prepared, policy: Policy, rules: &Rules) -> Verdict {
        let text = |name: &str| prepared.arguments[name].as_str();
        let decide = |request: &Request<'_>| self.decide(request, policy, rules);
        match spec.judged {
            Judged::Nothing => Verdict::Free,
            Judged::Change => decide(&Request::Change),
            Judged::Mcp => {
                let (server, tool) = (text("server").unwrap_or_default(), text("tool").unwrap_or_default());
                match mcp::starts_server(&prepared.arguments) {
                    true => decide(&Request::McpStart { server }),
                    false => decide(&Request::Mcp { server, tool }),
                }
            }
            Judged::UserTool => {
                let needs_network = prepared.question.network.is_some();
                let tool = decide(&Request::Tool { name: text("tool").unwrap_or_default(), needs_network });
                // A rule for the tool allows its hosts, except those that another rule refuses.
                match network(prepared, &decide) {
                    refused @ Verdict::Refuse(_) => refused,
                    _ => tool,
                }
            }
            Judged::Read | Judged::Write | Judged::RemoteFile => match &prepared.question.file {
                None => decide(&Request::Change),
                Some(file) if spec.reach == Reach::Reads => {
                    let place = self.places().after_answers(&file.verdict);
                    decide(&Request::Read { path: &file.path, place: &place })
                }
                Some(file) => decide(&Request::Write { path: &file.path, place: &file.verdict }),
            },
            Judged::Command => stricter(network(prepared, &decide), self.command(prepared, &decide)),
            Judged::RemoteCommand => remote_command(prepared, &decide),
            Judged::Network => network(prepared, &decide),
            Judged::Fork => {
                let full_name = self.endpoint.full_name();
                let model = self.model_of_fork(prepared).unwrap_or(&full_name);
                // All hosts have the provider `acp`, but each sends the conversation to another company.
                let is_other_provider = match self.endpoint.is_host() {
                    true => model != full_name,
                    false => model.split('/').next() != full_name.split('/').next(),
                };
                decide(&Request::Fork { model, is_other_provider })
            }
        }
    }

    /// The model that a call of `fork` names, itself or by a definition.
    fn model_of_fork<'a>(&'a self, prepared: &'a Prepared) -> Option<&'a str> {
        let full_name = self.endpoint.full_name();
        let provider = full_name.split('/').next().unwrap_or_default();
        let definition = || self.environment.definition(prepared.arguments["agent"].as_str()?).ok();
        prepared.arguments["model"].as_str().or_else(|| definition()?.model_beside(provider))
    }

    /// The narrowest rules of use that could allow calls like this one.
    fn suggestions(&self, spec: &ToolSpec, prepared: &Prepared, rules: &Rules) -> Vec<Rule> {
        let text = |name: &str| prepared.arguments[name].as_str();
        let workspace = self.environment.workspace();
        let in_directory = |subject| {
            let file = prepared.question.file.as_ref()?;
            let directory = if file.path.is_dir() { &file.path } else { file.path.parent()? };
            // A home directory has files of all kinds, so each of them asks.
            let is_own = directory.starts_with(workspace);
            if !is_own && self.environment.denied.is_broad(directory) {
                return None;
            }
            suggest_directory(subject, directory, workspace)
        };
        match spec.judged {
            Judged::Command => self.suggestions_for_command(prepared, rules),
            Judged::Network => self.suggestions_for_hosts(prepared, rules),
            Judged::Write => in_directory(Subject::Edit).into_iter().collect(),
            Judged::Read => in_directory(Subject::Read).into_iter().collect(),
            // A star of the call would become one of the rule.
            Judged::Fork => self
                .model_of_fork(prepared)
                .filter(|model| !model.contains('*'))
                .and_then(|model| Rule::new(Subject::Fork, model).ok())
                .into_iter()
                .collect(),
            Judged::Mcp => mcp::rule(&prepared.arguments).into_iter().collect(),
            Judged::UserTool => user_tool::rule(&prepared.arguments).into_iter().collect(),
            Judged::RemoteCommand => suggest_rules(text("command").unwrap_or_default(), false),
            Judged::Nothing | Judged::Change | Judged::RemoteFile => Vec::new(),
        }
    }

    /// For the command, and for those of its hosts that ask.
    fn suggestions_for_command(&self, prepared: &Prepared, rules: &Rules) -> Vec<Rule> {
        let decide = |request: &Request<'_>| self.decide(request, self.policy, rules);
        let mut suggested = Vec::new();
        if self.command(prepared, &decide) != Verdict::Free {
            let command = prepared.arguments["command"].as_str().unwrap_or_default();
            suggested = suggest_rules(command, self.environment.is_sandboxed());
        }
        for rule in self.suggestions_for_hosts(prepared, rules) {
            if !suggested.contains(&rule) {
                suggested.push(rule);
            }
        }
        suggested
    }

    /// For those of a call's hosts that ask.
    fn suggestions_for_hosts(&self, prepared: &Prepared, rules: &Rules) -> Vec<Rule> {
        let decide = |request: &Request<'_>| self.decide(request, self.policy, rules);
        // Rules for hosts do not help where the network cannot be restricted to them.
        let named = prepared.question.network.iter().filter(|network| network.access == NetworkAccess::Hosts);
        let names = named.flat_map(|network| &network.hosts).map(ToString::to_string);
        let asking = names.filter(|host| decide(&Request::Network { host }) != Verdict::Free);
        asking.filter_map(|host| Rule::new(Subject::Net, &host).ok()).collect()
    }

    fn decide(&self, request: &Request<'_>, policy: Policy, rules: &Rules) -> Verdict {
        let env = self.environment;
        let permissions = Permissions {
            policy,
            rules,
            sandboxed: env.is_sandboxed(),
            workspace: env.workspace(),
            home: env.denied.home.as_deref(),
        };
        decide(&permissions, request)
    }

    fn places(&self) -> Places<'_> {
        Places { environment: self.environment, allowed: self.allowed }
    }

    fn command(&self, prepared: &Prepared, decide: &dyn Fn(&Request<'_>) -> Verdict) -> Verdict {
        let text = |name: &str| prepared.arguments[name].as_str();
        let places = self.places();
        let resolve = |read: &Read| places.place(read);
        // Written in another way, it may still be the directory of the agent.
        let directory = text("workdir").map(|written| self.environment.resolve(written));
        let directory = directory.filter(|directory| *directory != self.environment.working_directory);
        let directory = directory.as_deref().map(|directory| directory.to_string_lossy());
        let has_unsafe_path = self.environment.has_unsafe_path();
        decide(&Request::Command(CommandRequest {
            text: text("command").unwrap_or_default(),
            directory: directory.as_deref(),
            distrust: has_unsafe_path.then_some(UNSAFE_PATH),
            resolve: &resolve,
        }))
    }
}

/// Where the commands of one agent read.
#[derive(Clone, Copy)]
struct Places<'a> {
    environment: &'a Environment,
    allowed: &'a AllowedDirectories,
}

impl Places<'_> {
    /// A directory that a person allowed is as the workspace.
    fn after_answers(&self, verdict: &PathVerdict) -> PathVerdict {
        match verdict {
            PathVerdict::AskOutside(directory) if self.allowed.covers(directory, &self.environment.denied) => {
                PathVerdict::Free
            }
            verdict => verdict.clone(),
        }
    }

    /// Where something is that a command reads. In doubt it asks.
    fn place(&self, read: &Read) -> (PathBuf, PathVerdict) {
        let written = self.environment.working_directory.join(&read.path);
        if read.extent == Extent::Pattern {
            return self.place_of_pattern(&written, &read.path);
        }
        let (path, verdict) = self.place_of_one(&written);
        let is_free = verdict == PathVerdict::Free;
        match read.extent {
            Extent::Tree if is_free && self.environment.path_policy().may_contain_denied(&path) => ask(path),
            Extent::Entries if is_free && path.is_dir() => self.place_of_entries(&path),
            _ => (path, verdict),
        }
    }

    fn place_of_one(&self, written: &Path) -> (PathBuf, PathVerdict) {
        let Ok(path) = canonical(written, MAX_LINKS) else { return ask(written.to_path_buf()) };
        let access = if path.is_dir() { Access::List } else { Access::Read };
        let has_denied_name = rustix::fs::stat(&path)
            .is_ok_and(|stat| access == Access::Read && Opener::new(self.environment).check_names(&stat).is_err());
        let verdict = match self.environment.path_policy().verdict(&path, access) {
            _ if has_denied_name => PathVerdict::Denied("another name of a file"),
            verdict => self.after_answers(&verdict),
        };
        (path, verdict)
    }

    /// A pattern in the last part of a path; in another part, it may match any directory.
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
        let may_be_denied = self.environment.path_policy().may_contain_denied(directory);
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
}

impl Environment {
    /// Whether a command can run a program that an agent wrote.
    pub(super) fn has_unsafe_path(&self) -> bool {
        let workspace = self.path_policy().workspace;
        let is_unsafe = |directory: PathBuf| {
            let real = fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone());
            !directory.is_absolute() || real.starts_with(workspace)
        };
        env::var_os("PATH").is_none_or(|path| env::split_paths(&path).any(is_unsafe))
    }
}

/// The verdict on a remote command: the files and programs there are unknown, so no command counts as one that only
/// reads.
fn remote_command(prepared: &Prepared, decide: &dyn Fn(&Request<'_>) -> Verdict) -> Verdict {
    let text = |name: &str| prepared.arguments[name].as_str();
    decide(&Request::Command(CommandRequest {
        text: text("command").unwrap_or_default(),
        directory: text("workdir"),
        distrust: Some("no rule allows this command where it runs"),
        resolve: &|read: &Read| ask(PathBuf::from(&read.path)),
    }))
}

/// The verdict on the hosts that a call names.
fn network(prepared: &Prepared, decide: &dyn Fn(&Request<'_>) -> Verdict) -> Verdict {
    let Some(request) = &prepared.question.network else { return Verdict::Free };
    let verdict = |wanted: &HostPattern| decide(&Request::Network { host: &wanted.to_string() });
    // A rule against a named host applies even if the network cannot be restricted.
    let named = request.hosts.iter().map(verdict).filter(|verdict| matches!(verdict, Verdict::Refuse(_)));
    named.chain(request.wanted_hosts().iter().map(verdict)).fold(Verdict::Free, stricter)
}

/// The verdict on two things at once: the stricter one, with both reasons if both ask.
fn stricter(one: Verdict, other: Verdict) -> Verdict {
    let joined = |one: String, other: String| if one == other { one } else { format!("{one}; {other}") };
    match (one, other) {
        (Verdict::Free, verdict) | (verdict, Verdict::Free) => verdict,
        (Verdict::Refuse(reason), _) | (_, Verdict::Refuse(reason)) => Verdict::Refuse(reason),
        (Verdict::Ask(one), Verdict::Ask(other)) => Verdict::Ask(joined(one, other)),
        (Verdict::Unasked(one) | Verdict::Ask(one), Verdict::Unasked(other) | Verdict::Ask(other)) => {
            Verdict::Unasked(joined(one, other))
        }
    }
}

fn ask(path: PathBuf) -> (PathBuf, PathVerdict) {
    (path.clone(), PathVerdict::AskOutside(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::*;
    use crate::domain::endpoint::HOSTS;
    use crate::policy::paths::DenyList;
    #[cfg(feature = "shell-grammar")]
    use crate::sandbox::Level;

    fn is_free(environment: &Environment, path: &str, extent: Extent) -> bool {
        Places { environment, allowed: &AllowedDirectories::default() }.place(&Read { path: path.into(), extent }).1
            == PathVerdict::Free
    }

    #[test]
    fn a_fork_from_one_host_to_another_asks() {
        let environment = Environment::at("/".into());
        let (rules, allowed) = (AgentRules::default(), AllowedDirectories::default());
        let endpoint =
            Endpoint { provider: HOSTS.into(), kind: HOSTS.into(), model: "claude".into(), ..Endpoint::echo() };
        let judge = Judge {
            environment: &environment,
            policy: Policy::Auto,
            rules: &rules,
            session_rules: &[],
            allowed: &allowed,
            endpoint: &endpoint,
        };
        let verdict = |model: &str| {
            let arguments = serde_json::json!({"prompt": "x", "model": model}).to_string();
            let (spec, prepared) = environment.prepare("fork", &arguments).unwrap();
            judge.judge(spec, &prepared).verdict
        };
        assert_eq!(verdict("acp/claude"), Verdict::Free);
        assert!(matches!(verdict("acp/codex"), Verdict::Ask(_)));
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

    #[test]
    fn a_directory_that_was_allowed_is_searched_for_links() {
        let (inside, outside, secret) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let real = |directory: &tempfile::TempDir| fs::canonicalize(directory.path()).unwrap();
        let environment = Environment::at(real(&inside));
        fs::write(real(&outside).join("plain"), "text").unwrap();
        let mut allowed = AllowedDirectories::default();
        allowed.allow(real(&outside));
        let places = Places { environment: &environment, allowed: &allowed };
        let is_free = |path: PathBuf, extent| {
            places.place(&Read { path: path.to_str().unwrap().into(), extent }).1 == PathVerdict::Free
        };
        let everything =
            || is_free(real(&outside), Extent::Entries) && is_free(real(&outside).join("*"), Extent::Pattern);
        assert!(everything(), "what a person allowed is open");
        symlink(real(&secret), real(&outside).join("link")).unwrap();
        assert!(!is_free(real(&outside), Extent::Entries) && !is_free(real(&outside).join("*"), Extent::Pattern));
        assert!(is_free(real(&outside).join("plain"), Extent::One));
    }

    #[test]
    fn rules_are_offered_for_a_directory_but_not_for_a_home_or_for_protected_files() {
        let workspace = tempfile::tempdir().unwrap();
        let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let real = |directory: &tempfile::TempDir| fs::canonicalize(directory.path()).unwrap();
        let mut environment = Environment::at(real(&workspace));
        environment.denied = Arc::new(DenyList { home: Some(real(&home)), ..DenyList::default() });
        let (rules, allowed, endpoint) = (AgentRules::default(), AllowedDirectories::default(), Endpoint::echo());
        let judge = Judge {
            environment: &environment,
            policy: Policy::Ask,
            rules: &rules,
            session_rules: &[],
            allowed: &allowed,
            endpoint: &endpoint,
        };
        let offered = |path: &Path| {
            let spec = environment.tool("write_file").unwrap();
            let arguments = serde_json::json!({"file_path": path, "content": "text"}).to_string();
            let prepared = spec.prepare(&arguments, &environment).unwrap();
            let rules = judge.judge(spec, &prepared).ways.rules;
            rules.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(offered(Path::new("a")), ["edit(*)"]);
        assert_eq!(offered(Path::new("src/[x]/a")), ["edit(src/[[]x[]]/**)"]);
        assert_eq!(offered(Path::new("AGENTS.md")), [""; 0]);
        assert_eq!(offered(&real(&outside).join("a")), [format!("edit({}/**)", real(&outside).display())]);
        assert_eq!(offered(&real(&home).join(".bashrc")), [""; 0]);
    }

    #[cfg(feature = "shell-grammar")]
    #[test]
    fn rules_are_offered_for_the_hosts_of_a_command_where_the_network_can_be_restricted() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = fs::canonicalize(directory.path()).unwrap();
        let (allowed, endpoint) = (AllowedDirectories::default(), Endpoint::echo());
        let judged = |level: Level, policy: Policy, given: &[&str]| {
            let mut environment = Environment::at(workspace.clone());
            environment.sandbox = environment.sandbox.at_level(level);
            let grant = |text: &&str| Grant { rule: text.parse().unwrap(), workspace: workspace.clone() };
            let rules = AgentRules { own: given.iter().map(grant).collect(), ..AgentRules::default() };
            let (environment, session_rules) = (&environment, &[][..]);
            let judge =
                Judge { environment, policy, rules: &rules, session_rules, allowed: &allowed, endpoint: &endpoint };
            let arguments = r#"{"command": "make x", "network": ["a.org", "b.org:22"]}"#;
            let spec = environment.tool("bash").unwrap();
            let Judgement { verdict, ways } = judge.judge(spec, &spec.prepare(arguments, environment).unwrap());
            (verdict, ways.rules.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let hosts = "no rule allows net(a.org); no rule allows net(b.org:22)";
        assert_eq!(
            judged(Level::Namespaces, Policy::Auto, &[]),
            (Verdict::Ask(hosts.into()), vec!["net(a.org)".into(), "net(b.org:22)".into()])
        );
        assert_eq!(judged(Level::Namespaces, Policy::Auto, &["net(a.org)", "net(b.org:22)"]).0, Verdict::Free);
        let (verdict, rules) = judged(Level::Namespaces, Policy::Ask, &["net(*.org)", "net(a.org)"]);
        assert!(matches!(verdict, Verdict::Ask(why) if why.starts_with("no rule allows net(b.org:22); ")));
        assert_eq!(rules, ["bash(make x)", "net(b.org:22)"]);
        assert!(
            matches!(judged(Level::Namespaces, Policy::Never, &[]).0, Verdict::Unasked(why) if why.contains(hosts))
        );
        // There a rule for a host allows nothing, so none is offered.
        let (verdict, rules) = judged(Level::Landlock, Policy::Ask, &["net(a.org)", "net(b.org:22)", "bash(make x)"]);
        assert_eq!((verdict, rules), (Verdict::Ask("no rule allows net(*)".into()), Vec::new()));
        assert_eq!(judged(Level::None, Policy::Ask, &[]).1, ["bash(make x)"]);
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
            let allowed = AllowedDirectories::default();
            let places = Places { environment: &environment, allowed: &allowed };
            let resolve = |read: &Read| places.place(read);
            let request = CommandRequest { text, directory, distrust: None, resolve: &resolve };
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
