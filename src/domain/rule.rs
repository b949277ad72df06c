//! Rules that allow, ask for or deny what agents do. `policy` decides what they match.
//!
//! ```text
//!   bash(git status*)     commands; * matches any text, at the end after a space or colon any arguments
//!   edit(src/**)          files that are written; relative to the workspace, or with ~/ or / in front
//!   read(~/docs/**)       files that are read
//!   net(example.org)      hosts; *.example.org for all hosts below, example.org:8080 for another port than 80 and 443
//!   tool(name)            programs that are tools
//!   mcp(server.tool)      tools of MCP servers
//!   start(server)         MCP servers that are started
//!   fork(provider/*)      models of new agents
//! ```

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind};
use crate::base::text;
use crate::domain::host::HostPattern;

/// A longer rule is a mistake, in bytes.
const MAX_LENGTH: usize = 4096;

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Commands.
    Bash,
    /// Files that are written.
    Edit,
    /// Files that are read.
    Read,
    /// Hosts.
    Net,
    /// Programs that are tools.
    Tool,
    /// Tools of MCP servers.
    Mcp,
    /// MCP servers that are started.
    Start,
    /// Models of new agents.
    Fork,
}

impl Subject {
    const ALL: [Self; 8] =
        [Self::Bash, Self::Edit, Self::Read, Self::Net, Self::Tool, Self::Mcp, Self::Start, Self::Fork];

    /// The word before the parenthesis.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Edit => "edit",
            Self::Read => "read",
            Self::Net => "net",
            Self::Tool => "tool",
            Self::Mcp => "mcp",
            Self::Start => "start",
            Self::Fork => "fork",
        }
    }
}

/// A subject with a pattern: `bash(cargo test:*)`. Rules with the same text are equal, whatever their source.
#[derive(Debug, Clone)]
pub struct Rule {
    subject: Subject,
    pattern: String,
    /// It allows only what the sandbox holds.
    in_sandbox: bool,
    source: Option<Arc<str>>,
}

/// Follows a rule that a person gave for programs in the sandbox: without one it allows nothing.
const IN_SANDBOX: &str = " in sandbox";

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.says_as(other) && self.in_sandbox == other.in_sandbox
    }
}

impl Eq for Rule {}

/// A rule that a person gave one agent or session. It applies only where it was given: the same pattern means other
/// files and programs elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What runs without a question.
    pub rule: Rule,
    /// The workspace in which it holds; canonical.
    pub workspace: PathBuf,
}

/// For how long and for whom a rule is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All agents that work in the same directory, until polylogue exits.
    Session,
    /// One agent and those that it forks from then on.
    Agent,
    /// All agents that work in the same directory; saved in the person's configuration.
    Project,
}

/// The rules of an agent; `deny` wins over `ask`, and `ask` over `allow`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// What runs without a question.
    pub allow: Vec<Rule>,
    /// What asks under every policy.
    pub ask: Vec<Rule>,
    /// What is refused under every policy.
    pub deny: Vec<Rule>,
}

/// The rules of one agent besides those of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentRules {
    /// Given to this agent, or to its parent before the fork.
    pub own: Vec<Grant>,
    /// Additional rules that ask; children inherit them, wherever they work.
    pub ask: Vec<Rule>,
    /// Additional rules that refuse; children inherit them, wherever they work.
    pub deny: Vec<Rule>,
}

impl AgentRules {
    /// The rules that apply to this agent in this workspace, with those that were given to all agents of the session.
    pub fn over<'a>(&self, configured: &'a Rules, session: &[Grant], workspace: &Path) -> Cow<'a, Rules> {
        let grants = self.own.iter().chain(session).filter(|grant| grant.workspace == workspace);
        let granted: Vec<Rule> = grants.map(|grant| grant.rule.clone()).collect();
        if granted.is_empty() && self.ask.is_empty() && self.deny.is_empty() {
            return Cow::Borrowed(configured);
        }
        let mut all = configured.clone();
        all.allow.extend(granted);
        all.ask.extend(self.ask.iter().cloned());
        all.deny.extend(self.deny.iter().cloned());
        Cow::Owned(all)
    }

    /// The rules in stored form, as JSON: the agent's own that a person gave, with their workspaces, and those that
    /// refuse.
    pub fn to_stored(&self) -> Option<String> {
        let given = self.own.iter().filter(|grant| grant.rule.source().is_none());
        let own: Vec<(&str, String)> =
            given.filter_map(|grant| Some((grant.workspace.to_str()?, grant.rule.to_string()))).collect();
        let [ask, deny] = [&self.ask, &self.deny].map(|rules| rules.iter().map(ToString::to_string).collect());
        let (ask, deny): (Vec<String>, Vec<String>) = (ask, deny);
        match (own.is_empty(), ask.is_empty() && deny.is_empty()) {
            (true, true) => None,
            (_, true) => Some(json!(own).to_string()),
            _ if ask.is_empty() => Some(json!({"allow": own, "deny": deny}).to_string()),
            _ => Some(json!({"allow": own, "ask": ask, "deny": deny}).to_string()),
        }
    }

    /// Rules from the store. What this version cannot read is ignored; `None` if that may be a refusal.
    pub fn of_stored(text: Option<&str>) -> Option<Self> {
        let Some(text) = text else { return Some(Self::default()) };
        let value: Value = serde_json::from_str(text).ok()?;
        let own = if value.is_array() { &value } else { &value["allow"] };
        let own: Vec<(PathBuf, String)> = Vec::deserialize(own).unwrap_or_default();
        let grant = |(workspace, rule): (PathBuf, String)| Some(Grant { rule: rule.parse().ok()?, workspace });
        let strict = |name: &str| -> Option<Vec<Rule>> {
            let rules: Option<Vec<String>> = Option::deserialize(&value[name]).ok()?;
            rules.unwrap_or_default().iter().map(|rule| rule.parse().ok()).collect()
        };
        let (ask, deny) = (strict("ask")?, strict("deny")?);
        Some(Self { own: own.into_iter().filter_map(grant).collect(), ask, deny })
    }
}

impl Rule {
    /// Checks the pattern.
    ///
    /// # Errors
    /// The pattern is invalid for this subject.
    pub fn new(subject: Subject, pattern: &str) -> Result<Self, Error> {
        let pattern = pattern.trim();
        let fault = fault(subject, pattern);
        match fault {
            None => Ok(Self { subject, pattern: pattern.to_owned(), in_sandbox: false, source: None }),
            Some(fault) => Err(invalid(&format!("{}({pattern})", subject.name()), &fault)),
        }
    }

    /// The same rule, limited to the sandbox. Rules about files, hosts and models mean the same everywhere.
    pub fn in_sandbox(self) -> Self {
        let in_sandbox = matches!(self.subject, Subject::Bash | Subject::Tool | Subject::Start);
        Self { in_sandbox, ..self }
    }

    /// Whether it allows anything where programs run in the sandbox, or where they do not.
    pub fn holds(&self, is_sandboxed: bool) -> bool {
        is_sandboxed || !self.in_sandbox
    }

    /// Whether it has the same subject and pattern, wherever that runs.
    pub fn says_as(&self, other: &Self) -> bool {
        (self.subject, &self.pattern) == (other.subject, &other.pattern)
    }

    /// The same rule, with this file and line or option as its source.
    pub fn from_source(self, source: &impl ToString) -> Self {
        Self { source: Some(source.to_string().into()), ..self }
    }

    /// The file and line or the option that it comes from, if that is known.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// What it is about.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// The text in the parentheses.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The hosts of a rule about hosts.
    pub fn hosts(&self) -> Option<HostPattern> {
        (self.subject == Subject::Net).then(|| self.pattern.parse().ok())?
    }

    /// What a person should know before the rule allows anything.
    pub fn caution(&self) -> Option<&'static str> {
        let takes_any = self.subject == Subject::Bash && (self.pattern.ends_with(":*") || self.pattern.ends_with(" *"));
        self.surprise()
            .or_else(|| takes_any.then_some("with any arguments, also options that run other programs or change files"))
    }

    /// How the rule may differ from what its author meant.
    pub fn surprise(&self) -> Option<&'static str> {
        let inner = self.pattern.trim_end_matches('*').contains('*');
        (self.subject == Subject::Bash && inner)
            .then_some("a * that is not at the end also matches options that run other programs")
    }

    /// The pattern of a path rule as a matcher of absolute paths; `None` if it begins with `~/` and there is no home.
    pub fn path_matcher(&self, workspace: &Path, home: Option<&Path>) -> Option<GlobMatcher> {
        // The crate's function escapes everything but the sign that escapes.
        let below = |directory: &Path, rest: &str| {
            format!("{}/{rest}", globset::escape(&directory.to_string_lossy().replace('\\', r"\\")))
        };
        let pattern = match self.pattern.strip_prefix("~/") {
            Some(rest) => below(home?, rest),
            None if self.pattern.starts_with('/') => self.pattern.clone(),
            None => below(workspace, &self.pattern),
        };
        path_glob(&pattern).ok()
    }
}

/// `*` matches within one name, `**` any directories.
fn path_glob(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

fn fault(subject: Subject, pattern: &str) -> Option<String> {
    if pattern.is_empty() {
        return Some("the pattern is empty".into());
    }
    if pattern.len() > MAX_LENGTH || pattern.contains(char::is_control) {
        return Some("the pattern must be one line of at most 4096 bytes".into());
    }
    match subject {
        Subject::Bash => None,
        Subject::Edit | Subject::Read => path_fault(pattern),
        Subject::Net => pattern.parse::<HostPattern>().err().map(|error| error.message),
        Subject::Tool if pattern.contains(char::is_whitespace) => Some("expected the name of a tool".into()),
        Subject::Mcp if pattern.contains(char::is_whitespace) => Some("expected SERVER.TOOL".into()),
        Subject::Start if pattern.contains(char::is_whitespace) => Some("expected the name of an MCP server".into()),
        Subject::Fork if pattern.contains(char::is_whitespace) => Some("expected PROVIDER/MODEL".into()),
        Subject::Tool | Subject::Mcp | Subject::Start | Subject::Fork => None,
    }
}

fn path_fault(pattern: &str) -> Option<String> {
    if pattern.split('/').any(|name| name == ".." || name == ".") {
        return Some("a path pattern must not contain . or ..".into());
    }
    path_glob(pattern).err()
}

/// A text as a shell reads it, for a command that a person can copy.
pub fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn invalid(rule: &str, fault: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("invalid rule {rule:?}: {fault}"))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.in_sandbox { IN_SANDBOX } else { "" };
        write!(f, "{}({}){place}", self.subject.name(), self.pattern)
    }
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let expected = "expected SUBJECT(PATTERN), for example bash(git status*) or edit(src/**)";
        if let Some(rule) = text.strip_suffix(IN_SANDBOX).filter(|rule| rule.ends_with(')')) {
            return rule.parse().map(Self::in_sandbox);
        }
        let (name, rest) = text.split_once('(').ok_or_else(|| invalid(text, expected))?;
        let pattern = rest.strip_suffix(')').ok_or_else(|| invalid(text, expected))?;
        let Some(subject) = Subject::ALL.into_iter().find(|subject| subject.name() == name) else {
            let nearest = text::nearest(name, Subject::ALL.iter().map(|subject| subject.name()));
            let nearest = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
            let names = Subject::ALL.map(Subject::name).join(", ");
            return Err(invalid(text, &format!("unknown subject {name:?}, expected one of {names}{nearest}")));
        };
        Self::new(subject, pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for text in [
            "bash(git status*)",
            "bash(cargo test:*)",
            "bash(cargo test:*) in sandbox",
            "bash(echo (a))",
            "edit(src/**)",
            "read(~/docs/**)",
            "read(/usr/include/**/*.h)",
            "net(example.org)",
            "net(*.example.org)",
            "tool(count)",
            "mcp(server.tool)",
            "fork(provider/*)",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        assert_eq!(" bash( ls ) ".parse::<Rule>().unwrap().to_string(), "bash(ls)");
    }

    #[test]
    fn stored_rules_are_read_back_and_what_is_refused_is_never_dropped() {
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        let own = vec![Grant { rule: rule("edit(src/**)"), workspace: "/w".into() }];
        for deny in [Vec::new(), vec![rule("bash(rm *)")]] {
            let rules = AgentRules { own: own.clone(), ask: deny.clone(), deny };
            assert_eq!(AgentRules::of_stored(rules.to_stored().as_deref()), Some(rules));
        }
        let only_deny = AgentRules { deny: vec![rule("bash(rm *)")], ..AgentRules::default() };
        assert_eq!(AgentRules::of_stored(only_deny.to_stored().as_deref()), Some(only_deny));
        assert_eq!(AgentRules::of_stored(None), Some(AgentRules::default()));
        let earlier = r#"[["/w","edit(src/**)"],["/w","future(x)"]]"#;
        assert_eq!(AgentRules::of_stored(Some(earlier)).map(|rules| rules.own), Some(own));
        for unreadable in ["?", r#"{"deny":["future(x)"]}"#, r#"{"deny":"bash(rm *)"}"#] {
            assert_eq!(AgentRules::of_stored(Some(unreadable)), None, "{unreadable}");
        }
    }

    #[test]
    fn signs_in_the_names_of_directories_mean_themselves() {
        let rule: Rule = "edit(src/**)".parse().unwrap();
        for directory in [r"/we\ird]\dir", "/a*b", "/a{b,c}", "/[x]"] {
            let matcher = rule.path_matcher(Path::new(directory), None).unwrap();
            assert!(matcher.is_match(format!("{directory}/src/y")), "{directory}");
        }
    }

    #[test]
    fn an_invalid_rule_is_explained() {
        for (text, part) in [
            ("git status", "expected SUBJECT(PATTERN)"),
            ("bash(ls", "expected SUBJECT(PATTERN)"),
            ("bash()", "the pattern is empty"),
            (
                "bsh(ls)",
                "unknown subject \"bsh\", expected one of bash, edit, read, net, tool, mcp, start, fork; did you mean bash?",
            ),
            ("edit(../x)", "must not contain . or .."),
            ("edit([)", "unclosed character class"),
            ("net(https://example.org/)", "without scheme and path"),
            ("mcp(a b)", "expected SERVER.TOOL"),
            ("bash(a\nb)", "one line"),
        ] {
            let message = text.parse::<Rule>().unwrap_err().message;
            assert!(message.contains(part) && message.starts_with("invalid rule"), "{message}");
        }
    }

    #[test]
    fn only_a_star_within_a_command_needs_a_caution() {
        assert!("bash(git * main)".parse::<Rule>().unwrap().caution().is_some());
        assert!("bash(git log*)".parse::<Rule>().unwrap().caution().is_none());
        assert!("edit(src/*/x)".parse::<Rule>().unwrap().caution().is_none());
    }

    #[test]
    fn a_rule_for_any_arguments_says_so_when_it_is_offered() {
        for text in ["bash(cargo test:*)", "bash(make *)"] {
            let rule = text.parse::<Rule>().unwrap();
            assert!(rule.caution().unwrap().starts_with("with any arguments") && rule.surprise().is_none(), "{text}");
        }
        assert_eq!("bash(make check)".parse::<Rule>().unwrap().caution(), None);
    }
}
