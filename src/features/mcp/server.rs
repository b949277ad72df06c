//! One declared server in one directory, shared by the agents that work there with the same powers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::link::Link;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::mcp::{McpCall, McpPrompt, McpResource, McpServer, McpTool, Transport};
use crate::domain::rule::Rule;
use crate::domain::sandbox::Network;
use crate::features::mcp::protocol::Catalog;
use crate::features::mcp::protocol::list::{self, full_name};
use crate::sandbox::Watch;
use crate::tools::Environment;
use crate::tools::line_process::Starting;
use crate::tools::mcp::START;
use crate::tools::server_process::ServerProgram;

/// How long a failed server is not started automatically; four times as long after each further failure.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Programs that download what they run, and from where.
const DOWNLOADERS: [(&str, &str); 5] = [("npx", NPM), ("pnpx", NPM), ("bunx", NPM), ("uvx", PYPI), ("pipx", PYPI)];
const NPM: &str = r#"["registry.npmjs.org"]"#;
const PYPI: &str = r#"["pypi.org", "files.pythonhosted.org"]"#;

/// The common properties of agents that share a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) worktree: Option<PathBuf>,
    /// The hosts that these agents are refused.
    pub(super) denied: Vec<Rule>,
}

pub(super) enum State {
    Stopped,
    Starting(Starting),
    Running(Link),
}

/// The purpose of a call.
pub(super) enum Work {
    /// Start the server, to which the person has consented under this sandbox.
    Start {
        sandbox: String,
    },
    Call {
        tool: String,
        arguments: Map<String, Value>,
    },
}

/// The request to a server.
pub(super) enum Asked {
    /// To start, nothing else.
    Start,
    /// A tool is called with these arguments.
    Tool(String, Map<String, Value>),
    /// A resource is read for a message of the person.
    Resource(String),
    /// A prompt is made for the person.
    Prompt(String, Map<String, Value>),
}

impl Asked {
    /// The method and the parameters.
    pub(super) fn request(&self) -> Option<(&'static str, Map<String, Value>)> {
        let named = |name: &str, arguments: &Map<String, Value>| {
            Map::from_iter([("name".to_owned(), name.into()), ("arguments".into(), arguments.clone().into())])
        };
        match self {
            Self::Start => None,
            Self::Tool(name, arguments) => Some(("tools/call", named(name, arguments))),
            Self::Resource(uri) => Some(("resources/read", Map::from_iter([("uri".to_owned(), uri.as_str().into())]))),
            Self::Prompt(name, arguments) => Some(("prompts/get", named(name, arguments))),
        }
    }

    /// Whether a model waits for the answer.
    pub(super) fn is_of_model(&self) -> bool {
        matches!(self, Self::Start | Self::Tool(..))
    }
}

/// A call of an agent, or a request for the person.
pub(super) struct Call {
    pub(super) agent: AgentId,
    /// The id that the model gave it; empty for a request for the person.
    pub(super) id: String,
    /// The number by which the session knows it.
    pub(super) tag: u64,
    pub(super) asked: Asked,
    pub(super) is_sent: bool,
}

pub(super) struct Server {
    pub(super) key: Key,
    pub(super) declaration: McpServer,
    pub(super) environment: Arc<Environment>,
    pub(super) users: BTreeSet<AgentId>,
    pub(super) state: State,
    /// Its tools, as known when it last ran.
    pub(super) tools: Vec<McpTool>,
    /// Likewise for resources, templates and prompts.
    pub(super) resources: Vec<McpResource>,
    pub(super) templates: Vec<McpResource>,
    pub(super) prompts: Vec<McpPrompt>,
    /// A person has consented to its start, or it needs no consent.
    pub(super) has_consent: bool,
    /// The sandbox to which the consent was given, in words.
    pub(super) promised: Option<String>,
    failures: u32,
    /// It is not started automatically before this moment.
    pub(super) retry_at: Option<Moment>,
    pub(super) calls: Vec<Call>,
    /// Why it failed the last time, if it has not worked since.
    pub(super) failure: Option<String>,
    /// When logins had changed as it failed, if it may need one.
    pub(super) failed_login: Option<Option<SystemTime>>,
}

impl Server {
    pub(super) fn new(key: Key, declaration: McpServer, environment: Arc<Environment>) -> Self {
        let has_consent = !needs_consent(&declaration, &environment);
        let tools = if has_consent { Vec::new() } else { vec![start_tool(&declaration, &environment)] };
        Self {
            key,
            declaration,
            environment,
            users: BTreeSet::new(),
            state: State::Stopped,
            tools,
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            has_consent,
            promised: None,
            failures: 0,
            retry_at: None,
            calls: Vec::new(),
            failure: None,
            failed_login: None,
        }
    }

    /// Whether a request of an agent waits for it: only for its first start.
    pub(super) fn is_awaited(&self) -> bool {
        let is_under_way = match &self.state {
            State::Stopped => false,
            State::Starting(_) => true,
            State::Running(link) => !link.session().is_ready(),
        };
        is_under_way && self.failures == 0
    }

    /// It has listed resources, templates or prompts.
    pub(super) fn on_catalog(&mut self, catalog: Catalog, listed: &[Value]) {
        let name = &self.key.name;
        match catalog {
            Catalog::Resources => self.resources = list::resources(name, listed, false),
            Catalog::Templates => self.templates = list::resources(name, listed, true),
            Catalog::Prompts => self.prompts = list::prompts(name, listed),
        }
    }

    pub(super) fn on_ready(&mut self) {
        (self.failures, self.retry_at, self.failure, self.failed_login) = (0, None, None, None);
    }

    /// It is not started automatically for a while.
    pub(super) fn on_failed(&mut self, why: &str, now: Moment) {
        self.failure = Some(why.to_owned());
        let pause = PAUSE.saturating_mul(4_u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.retry_at = Some(now + pause);
    }

    /// Whether it can be started automatically.
    pub(super) fn may_start(&self, now: Moment) -> bool {
        matches!(self.state, State::Stopped) && self.has_consent && self.retry_at.is_none_or(|at| at <= now)
    }

    /// What happens to protected files while it runs, if it can write any.
    pub(super) fn watch(&self) -> Option<Arc<Mutex<Watch>>> {
        match &self.state {
            State::Running(Link::Pipe(pipe)) => pipe.process.watch(),
            _ => None,
        }
    }

    /// `None` for a server that is no process.
    pub(super) fn program(&self) -> Option<ServerProgram> {
        let Transport::Stdio { command, args, env } = &self.declaration.transport else { return None };
        let arguments = std::iter::once(command).chain(args).cloned().collect();
        Some(ServerProgram {
            arguments,
            variables: env.clone(),
            hosts: self.declaration.net.clone(),
            may_write: self.declaration.may_write,
            writable: Vec::new(),
            promised: self.promised.clone(),
            is_served: false,
        })
    }

    /// Why it may take long to start, if it has no network to download with.
    pub(super) fn slow_start_reason(&self) -> Option<String> {
        let Transport::Stdio { command, .. } = &self.declaration.transport else { return None };
        let program = Path::new(command).file_name()?.to_str()?;
        let (_, hosts) = DOWNLOADERS.into_iter().find(|(name, _)| *name == program)?;
        let sandbox = &self.environment.sandbox.settings;
        let is_offline = self.declaration.net.is_empty() && sandbox.is_enabled && sandbox.network == Network::Off;
        let name = &self.key.name;
        let place = match self.declaration.project {
            Some(_) => format!("a declaration of {name} in your own config.toml with net = {hosts} gives it one"),
            None => format!("net = {hosts} in [mcp.{name}] gives it one"),
        };
        is_offline.then(|| format!("not started yet: {program} has no network to download with; {place}"))
    }

    /// Withdraws a consent that was given to another sandbox than the current one. Returns whether there was one.
    pub(super) fn withdraw_consent(&mut self) -> bool {
        let is_broken = self.program().is_some_and(|program| program.breaks_promise(&self.environment));
        if is_broken {
            (self.has_consent, self.promised) = (false, None);
            self.tools = vec![start_tool(&self.declaration, &self.environment)];
        }
        is_broken
    }
}

/// Whether a person has to consent before it starts: it uses the network or writes in the workspace, or it is a process
/// without a sandbox.
fn needs_consent(declaration: &McpServer, environment: &Environment) -> bool {
    let is_process = matches!(declaration.transport, Transport::Stdio { .. });
    let is_held = environment.sandbox.settings.is_enabled && !declaration.may_write;
    !declaration.net.is_empty() || is_process && !is_held
}

/// The tool with which a model asks for the start of a server that needs consent.
fn start_tool(server: &McpServer, environment: &Environment) -> McpTool {
    let hosts: Vec<String> = server.net.iter().map(ToString::to_string).collect();
    let access = if server.may_write { "it may write in the workspace" } else { "it reads the workspace" };
    let about = vec![
        server.written.about(),
        access.into(),
        format!("working directory: {}", environment.working_directory.display()),
        format!("declared in {}", server.source),
    ];
    McpTool {
        server: server.name.clone(),
        name: START.into(),
        full_name: full_name(&server.name, START),
        description: format!(
            "Starts the MCP server {} and makes its tools available from your next message on. The user is asked first, because \
             the server {}.",
            server.name,
            match (hosts.is_empty(), server.may_write) {
                (false, _) => format!("uses the network ({})", hosts.join(", ")),
                (true, true) => "writes in the workspace".to_owned(),
                (true, false) => "runs without a sandbox".to_owned(),
            }
        ),
        parameters: r#"{"type":"object","properties":{}}"#.into(),
        headers: Vec::new(),
        kind: McpCall::Start { about, hosts: server.net.clone() },
    }
}
