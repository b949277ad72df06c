//! One declared server in one directory, shared by the agents that work there with the same powers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::link::Link;
use super::process::Starting;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::mcp::{McpCall, McpServer, McpTool, Transport};
use crate::domain::rule::Rule;
use crate::mcp::list::full_name;
use crate::tools::Environment;
use crate::tools::mcp::START;
use crate::tools::server_process::ServerProgram;

/// How long a server that has failed is not started by itself; four times as long after each further failure.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// What agents have in common that share a server.
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

/// What a call is to do.
pub(in crate::repl) enum Work {
    /// Start the server, to which the person has consented under this sandbox.
    Start { sandbox: String },
    /// Call this tool.
    Call { tool: String, arguments: Map<String, Value> },
}

/// A call of an agent.
pub(super) struct Call {
    pub(super) agent: AgentId,
    /// The id that the model gave it.
    pub(super) id: String,
    /// The number by which the session knows it.
    pub(super) tag: u64,
    /// `None` for a call that starts the server.
    pub(super) tool: Option<(String, Map<String, Value>)>,
    pub(super) is_sent: bool,
}

pub(super) struct Server {
    pub(super) key: Key,
    pub(super) declaration: McpServer,
    /// Where it runs.
    pub(super) environment: Arc<Environment>,
    pub(super) users: BTreeSet<AgentId>,
    pub(super) state: State,
    /// Its tools, as far as they were known the last time it ran.
    pub(super) tools: Vec<McpTool>,
    /// A person has consented to its start, or it needs no consent.
    pub(super) has_consent: bool,
    /// The sandbox to which the consent was given, in words.
    pub(super) promised: Option<String>,
    failures: u32,
    /// It is not started by itself before this moment.
    pub(super) retry_at: Option<Moment>,
    pub(super) calls: Vec<Call>,
    /// Why it failed the last time, if it has not worked since.
    pub(super) failure: Option<String>,
}

impl Server {
    pub(super) fn new(key: Key, declaration: McpServer, environment: Arc<Environment>) -> Self {
        let has_consent = declaration.net.is_empty();
        let tools = if has_consent { Vec::new() } else { vec![start_tool(&declaration, &environment)] };
        Self {
            key,
            declaration,
            environment,
            users: BTreeSet::new(),
            state: State::Stopped,
            tools,
            has_consent,
            promised: None,
            failures: 0,
            retry_at: None,
            calls: Vec::new(),
            failure: None,
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

    pub(super) fn on_ready(&mut self) {
        (self.failures, self.retry_at, self.failure) = (0, None, None);
    }

    /// It is not started by itself for a while.
    pub(super) fn on_failed(&mut self, why: &str, now: Moment) {
        self.failure = Some(why.to_owned());
        let pause = PAUSE.saturating_mul(4_u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.retry_at = Some(now + pause);
    }

    /// Whether it can be started by itself.
    pub(super) fn may_start(&self, now: Moment) -> bool {
        matches!(self.state, State::Stopped) && self.has_consent && self.retry_at.is_none_or(|at| at <= now)
    }

    /// `None` for a server that is no process.
    pub(super) fn program(&self) -> Option<ServerProgram> {
        let Transport::Stdio { command, args, env } = &self.declaration.transport else { return None };
        let arguments = std::iter::once(command).chain(args).cloned().collect();
        Some(ServerProgram {
            arguments,
            variables: env.clone(),
            hosts: self.declaration.net.clone(),
            promised: self.promised.clone(),
        })
    }

    /// Takes back a consent that was given to another sandbox than the one that works now. Whether there was one.
    pub(super) fn withdraw_consent(&mut self) -> bool {
        let is_broken = self.program().is_some_and(|program| program.breaks_promise(&self.environment));
        if is_broken {
            (self.has_consent, self.promised) = (false, None);
            self.tools = vec![start_tool(&self.declaration, &self.environment)];
        }
        is_broken
    }
}

/// The tool with which a model asks for the start of a server that needs consent.
fn start_tool(server: &McpServer, environment: &Environment) -> McpTool {
    let hosts: Vec<String> = server.net.iter().map(ToString::to_string).collect();
    let about = vec![
        server.written.about(),
        format!("working directory: {}", environment.working_directory.display()),
        format!("declared in {}", server.source),
    ];
    McpTool {
        server: server.name.clone(),
        name: START.into(),
        full_name: full_name(&server.name, START),
        description: format!(
            "Starts the MCP server {} and makes its tools available from your next message on. The user is asked first, because \
             the server uses the network ({}).",
            server.name,
            hosts.join(", ")
        ),
        parameters: r#"{"type":"object","properties":{}}"#.into(),
        headers: Vec::new(),
        kind: McpCall::Start { about, hosts: server.net.clone() },
    }
}
