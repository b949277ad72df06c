//! The workspace of a life and its configuration: MCP servers that misbehave, hooks that hang or flood, a user tool.

use std::path::Path;
use std::time::Duration;

use polylogue::Config;
use polylogue::config::{Author, Hook, HookEvent, McpServer, McpTransport, Policy, Rules, Settings, UserToolEntry};

use crate::chance::Chance;
use crate::support::write_executable;

/// The behaviours of `tests/mcp/server.sh` that are met, and the tool that the model calls.
const SERVERS: &[&str] =
    &["plain", "dies", "hangs", "garbage", "liar", "flood", "asks", "elicits", "crash", "mute", "changing", "long"];

/// What a hook does: nothing, refuse, wait until it is ended, write without end, say something.
const HOOKS: &[&str] = &[
    "true",
    "echo no >&2; exit 2",
    "sleep 1000",
    "yes",
    "echo '{\"additionalContext\":\"a word\"}'",
    "exit 1",
    "echo {",
];

const TOOL: &str = r#"#!/bin/sh
case $1 in
--schema) echo '{"name":"mine","description":"Repeats.","parameters":{"type":"object","properties":{"word":{"type":"string"}}}}' ;;
*) head -c 300 ;;
esac
"#;

/// Writes the files of the workspace.
pub fn write(workspace: &Path) {
    std::fs::write(workspace.join("note"), "a short file\n".repeat(20)).expect("a file");
    write_executable(&workspace.join("server.sh"), include_bytes!("../../mcp/server.sh"));
    write_executable(&workspace.join("mine.sh"), TOOL.as_bytes());
}

/// A configuration at random for this workspace.
pub fn config(chance: &mut Chance, settings: Settings, trace: &Path) -> Config {
    let rules = ["mcp(*)", "tool(mine)", "bash(echo *)"].map(|rule| rule.parse().expect("a rule"));
    Config {
        settings,
        trace: Some(trace.into()),
        mcp: (0..2).map(|number| server(number, chance.of(SERVERS))).collect(),
        hooks: (0..chance.below(3)).map(|_| hook(chance)).collect(),
        user_tools: vec![tool()],
        rules: Rules { allow: rules.into(), ..Rules::default() },
        policy: chance.of(&[Policy::Ask, Policy::Ask, Policy::Auto, Policy::Plan]),
        ..Config::default()
    }
}

fn server(number: usize, behaviour: &str) -> McpServer {
    let args: Vec<String> = vec!["-c".into(), format!("exec ./server.sh {behaviour}")];
    let transport = McpTransport::Stdio { command: "sh".into(), args, env: Vec::new() };
    McpServer {
        start_timeout: Duration::from_secs(2),
        call_timeout: Duration::from_secs(1),
        ..McpServer::new(&format!("s{number}"), transport, "config.toml:1".into())
    }
}

fn hook(chance: &mut Chance) -> Hook {
    Hook {
        event: chance.of(&[HookEvent::PreTool, HookEvent::PostTool, HookEvent::Stop]),
        matcher: String::new(),
        command: ["sh", "-c", chance.of(HOOKS)].map(str::to_owned).into(),
        timeout: Duration::from_millis(300),
        is_required: chance.once_in(4),
        author: Author::Person,
        has_claude_names: false,
        source: "config.toml:2".into(),
        project: None,
        scripts: Vec::new(),
    }
}

fn tool() -> UserToolEntry {
    UserToolEntry {
        name: "mine".into(),
        command: vec!["./mine.sh".into()],
        env: Vec::new(),
        net: Vec::new(),
        timeout: Some(Duration::from_secs(2)),
        project: None,
        source: "config.toml:3".into(),
    }
}
