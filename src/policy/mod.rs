//! Decides whether a request of an agent may be carried out, needs a question, or is refused.
//!
//! Pure verdicts: this module opens no file and starts nothing. The caller passes what a verdict depends on, and resolves
//! paths. The order is the same for everything:
//!
//! ```text
//!   files that are never open, deny rules   -> refused
//!   protected files, ask rules              -> asks      (refused under `never`)
//!   allow rules, what is known to only read -> free      (changes are refused under `plan`)
//!   everything else                         -> the policy decides
//! ```

mod commands;
mod matching;
mod network;
pub mod paths;
mod protected;
pub mod readonly;
pub mod shell;
mod suggest;
#[cfg(test)]
mod tests;
#[cfg(feature = "shell-grammar")]
mod variables;

use std::path::{Path, PathBuf};

use crate::domain::approval::Policy;
use crate::domain::rule::{Rule, Rules, Subject};
use paths::Verdict as Place;
use readonly::Read;
pub use suggest::{suggest_directory, suggest_rules};

/// Everything that a verdict depends on besides the request.
#[derive(Clone, Copy)]
pub struct Permissions<'a> {
    pub policy: Policy,
    pub rules: &'a Rules,
    /// Commands run in a sandbox.
    pub sandboxed: bool,
    /// Where relative patterns of rules begin.
    pub workspace: &'a Path,
    pub home: Option<&'a Path>,
}

/// What an agent is about to do.
pub enum Request<'a> {
    /// Reads the file or directory at this resolved path.
    Read {
        path: &'a Path,
        place: &'a Place,
    },
    /// Writes the file at this resolved path.
    Write {
        path: &'a Path,
        place: &'a Place,
    },
    Command(CommandRequest<'a>),
    /// Connects to these hosts.
    Network {
        host: &'a str,
    },
    /// Calls a program that is a tool.
    Tool {
        name: &'a str,
        /// It reaches hosts that commands do not reach.
        needs_network: bool,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        server: &'a str,
        tool: &'a str,
    },
    /// Starts an MCP server, which needs the person's consent.
    McpStart {
        server: &'a str,
    },
    /// Starts an agent with this model (`provider/model`).
    Fork {
        model: &'a str,
        is_other_provider: bool,
    },
    /// Changes something that no rule can name.
    Change,
}

/// A shell command.
pub struct CommandRequest<'a> {
    pub text: &'a str,
    /// Where it runs, if that is not the directory of the agent.
    pub directory: Option<&'a str>,
    /// Why no command counts as one that only reads, if so: programs may come from a directory that an agent can write
    /// to.
    pub distrust: Option<&'a str>,
    /// Resolves what a command reads, relative to the directory of the agent.
    pub resolve: &'a dyn Fn(&Read) -> (PathBuf, Place),
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs without a question.
    Free,
    /// A person has to be asked; the reason is for them.
    Ask(String),
    /// A person would have to be asked, but the policy is `never`: it does not run.
    Unasked(String),
    /// It does not run; the reason is for the model.
    Refuse(String),
}

/// Whether a shell command is known to change no file.
pub fn only_reads(command: &str, sandboxed: bool) -> bool {
    shell::parse(command).is_ok_and(|commands| readonly::reads(&commands, None, sandboxed, &|_| false).is_ok())
}

/// Judges a request.
pub fn decide(permissions: &Permissions<'_>, request: &Request<'_>) -> Verdict {
    match request {
        Request::Read { path, place } => permissions.read(path, place),
        Request::Write { path, place } => permissions.write(path, place),
        Request::Command(command) => permissions.command(command),
        Request::Network { host } => permissions.network(host),
        Request::Tool { name, needs_network } => permissions.tool(name, *needs_network),
        Request::Mcp { server, tool } => permissions.mcp(&format!("{server}.{tool}")),
        Request::McpStart { server } => permissions.start(server),
        Request::Fork { model, is_other_provider } => permissions.fork(model, *is_other_provider),
        Request::Change => permissions.change("it changes something".into()),
    }
}

impl Permissions<'_> {
    fn read(&self, path: &Path, place: &Place) -> Verdict {
        let matches = |rule: &&Rule| self.matches_path(rule, Subject::Read, path);
        if let Place::Denied(what) = place {
            return Verdict::Refuse(format!("{}: access denied: {what}; tools never open it", path.display()));
        }
        if let Some(rule) = self.rules.deny.iter().find(matches) {
            return refuse_by_rule(rule);
        }
        if let Some(rule) = self.rules.ask.iter().find(matches) {
            return self.ask(asks_for(rule));
        }
        let is_free = !matches!(place, Place::AskOutside(_))
            || self.policy == Policy::Yolo
            || self.rules.allow.iter().any(|rule| matches(&rule));
        if is_free { Verdict::Free } else { self.ask(format!("{} is outside of the workspace", path.display())) }
    }

    fn write(&self, path: &Path, place: &Place) -> Verdict {
        let matches = |rule: &&Rule| self.matches_path(rule, Subject::Edit, path);
        if let Place::Denied(what) = place {
            return Verdict::Refuse(format!("{}: access denied: {what}; tools never open it", path.display()));
        }
        if let Some(rule) = self.rules.deny.iter().find(matches) {
            return refuse_by_rule(rule);
        }
        let ask = |reason| self.ask_for_change(reason);
        if *place == Place::AskProtected {
            return ask(format!("{} is protected: changes of it always ask", path.display()));
        }
        if let Some(rule) = self.rules.ask.iter().find(matches) {
            return ask(asks_for(rule));
        }
        if self.policy > Policy::Plan && self.rules.allow.iter().any(|rule| matches(&rule)) {
            return Verdict::Free;
        }
        match place {
            Place::Free => self.change("no rule allows changes of this file".into()),
            _ if self.policy == Policy::Auto => self.ask(format!("{} is outside of the workspace", path.display())),
            _ => self.change(format!("{} is outside of the workspace", path.display())),
        }
    }

    /// A program that is a tool: as a command in the sandbox, unless it reaches the network.
    fn tool(&self, name: &str, needs_network: bool) -> Verdict {
        self.by_rules(Subject::Tool, name).unwrap_or_else(|| match needs_network {
            true => self.ask(format!("no rule allows tool({name}), which uses the network")),
            false => self.change(format!("no rule allows tool({name})")),
        })
    }

    /// A tool of an MCP server.
    fn mcp(&self, name: &str) -> Verdict {
        self.by_rules(Subject::Mcp, name).unwrap_or_else(|| self.ask(format!("no rule allows mcp({name})")))
    }

    /// The verdict on starting an MCP server. If all calls of its tools are refused, so is the start.
    fn start(&self, server: &str) -> Verdict {
        let refuses_all = |rule: &&Rule| {
            rule.subject() == Subject::Mcp
                && !rule.pattern().contains('.')
                && matching::is_wildcard(rule.pattern(), server)
        };
        let refused = self.rules.deny.iter().find(refuses_all).map(refuse_by_rule);
        let verdict = refused.or_else(|| self.by_rules(Subject::Start, server));
        verdict.unwrap_or_else(|| self.ask(format!("no rule allows start({server})")))
    }

    /// The verdict of rules and the policy on a call of a program that may change anything; `None` if they leave it
    /// open.
    fn by_rules(&self, subject: Subject, name: &str) -> Option<Verdict> {
        let matches = |rule: &&Rule| rule.subject() == subject && matches_name(rule, name);
        if let Some(rule) = self.rules.deny.iter().find(matches) {
            return Some(refuse_by_rule(rule));
        }
        if self.policy == Policy::Plan {
            return Some(self.change(String::new()));
        }
        if let Some(rule) = self.rules.ask.iter().find(matches) {
            return Some(self.ask(asks_for(rule)));
        }
        let allows = |rule: &Rule| rule.holds(self.sandboxed) && matches(&rule);
        let is_free = self.policy == Policy::Yolo || self.rules.allow.iter().any(allows);
        is_free.then_some(Verdict::Free)
    }

    fn fork(&self, model: &str, is_other_provider: bool) -> Verdict {
        let matches = |rule: &&Rule| rule.subject() == Subject::Fork && matches_name(rule, model);
        if let Some(rule) = self.rules.deny.iter().find(matches) {
            return refuse_by_rule(rule);
        }
        if let Some(rule) = self.rules.ask.iter().find(matches) {
            return self.ask(asks_for(rule));
        }
        let is_allowed = self.policy == Policy::Yolo || self.rules.allow.iter().any(|rule| matches(&rule));
        if is_allowed || !is_other_provider {
            return Verdict::Free;
        }
        self.ask(format!("it sends the conversation to another provider ({model})"))
    }

    fn matches_path(&self, rule: &Rule, subject: Subject, path: &Path) -> bool {
        let matcher = || rule.path_matcher(self.workspace, self.home);
        rule.subject() == subject && matcher().is_some_and(|matcher| matcher.is_match(path))
    }

    /// Asks, where questions are asked.
    fn ask(&self, reason: String) -> Verdict {
        match self.policy {
            Policy::Never => Verdict::Unasked(reason),
            _ => Verdict::Ask(reason),
        }
    }

    /// A change that asks under every policy that allows changes.
    fn ask_for_change(&self, reason: String) -> Verdict {
        if self.policy == Policy::Plan { self.change(reason) } else { self.ask(reason) }
    }

    /// The verdict of the policy on a change that no rule matches; `reason` says why it would ask.
    fn change(&self, reason: String) -> Verdict {
        match self.policy {
            Policy::Plan => Verdict::Refuse("refused: this agent may only read (policy plan)".into()),
            Policy::Auto if self.sandboxed => Verdict::Free,
            Policy::Yolo => Verdict::Free,
            Policy::Never | Policy::Ask | Policy::Auto => self.ask(reason),
        }
    }
}

/// The rule that asks, and where it is.
fn asks_for(rule: &Rule) -> String {
    let source = rule.source().map(|source| format!(" ({source})")).unwrap_or_default();
    format!("the rule ask {rule}{source}")
}

fn refuse_by_rule(rule: &Rule) -> Verdict {
    Verdict::Refuse(format!("refused by the rule deny {rule}"))
}

/// Names of tools and models; the name of a server matches all its tools.
fn matches_name(rule: &Rule, name: &str) -> bool {
    let pattern = rule.pattern();
    match rule.subject() {
        Subject::Mcp if !pattern.contains('.') => {
            name.split_once('.').is_some_and(|(server, _)| matching::is_wildcard(pattern, server))
        }
        _ => matching::is_wildcard(pattern, name),
    }
}
