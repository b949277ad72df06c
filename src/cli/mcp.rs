//! `polylogue mcp`: lists, tests and adds MCP servers.

use std::fmt::Write as _;

use super::arguments::{Arguments, McpAdd, McpCommand};
use super::config::{self, ProcessEnvironment};
use crate::base::clock::Clock;
use crate::base::error::{Error, Result};
use crate::base::text::counted;
use crate::domain::approval::Policy;
use crate::domain::change::Change;
use crate::domain::config::Config;
use crate::domain::endpoint::{Catalog, Endpoint};
use crate::domain::host::HostPattern;
use crate::domain::mcp::{McpServer, McpTool, is_server_name};
use crate::domain::rule::Rules;
use crate::repl::Repl;
use crate::repl::component::ServerReport;
use crate::store::Store;

/// Returns whether all servers that were tested work.
pub fn run(command: &McpCommand, arguments: &Arguments, env: &ProcessEnvironment) -> Result<bool> {
    match command {
        McpCommand::List => list(arguments, env),
        McpCommand::Test { names } => test(names, arguments, env),
        McpCommand::Add(options) => add(options, arguments, env).map(|()| true),
    }
}

fn list(arguments: &Arguments, env: &ProcessEnvironment) -> Result<bool> {
    let config = config::load(arguments, env).into_config()?;
    let mut out = String::new();
    for server in &config.mcp {
        let about = in_one_line(&server.written.about());
        // Writing into a `String` cannot fail.
        let _ = writeln!(out, "{}\t{about}\t({})", server.name, server.source);
    }
    if out.is_empty() {
        out = "no MCP servers are declared: see polylogue help mcp\n".into();
    }
    config::show::print(&out);
    Ok(true)
}

fn test(names: &[String], arguments: &Arguments, env: &ProcessEnvironment) -> Result<bool> {
    let config = config::load(arguments, env).into_config()?;
    if let Some(name) = names.iter().find(|name| !config.mcp.iter().any(|server| server.name == **name)) {
        return Err(Error::usage(format!("no MCP server is named {name:?}: polylogue mcp list lists them")));
    }
    let is_meant = |server: &&McpServer| names.is_empty() || names.contains(&server.name);
    let servers: Vec<McpServer> = config.mcp.iter().filter(is_meant).cloned().collect();
    let (mut out, mut has_passed) = (String::new(), true);
    for (name, outcome) in try_servers(&config, servers) {
        has_passed &= outcome.is_ok();
        let _ = match outcome {
            Ok(tools) => writeln!(out, "ok    {name}: {}{}", counted(tools.len(), "tool", "tools"), rows(&tools)),
            Err(why) => writeln!(out, "fail  {name}: {}", in_one_line(&why)),
        };
    }
    config::show::print(&out);
    Ok(has_passed)
}

/// Each tool with the first line of its description.
fn rows(tools: &[McpTool]) -> String {
    let row = |tool: &McpTool| {
        let about = tool.description.lines().next().unwrap_or_default();
        format!("\n      {:<30} {}", in_one_line(&tool.name), in_one_line(&about.chars().take(100).collect::<String>()))
    };
    tools.iter().map(row).collect()
}

/// Starts servers, and returns the tools of each or why it does not work. A person calls this, which is the consent.
pub fn try_servers(
    config: &Config,
    servers: Vec<McpServer>,
) -> Vec<(String, std::result::Result<Vec<McpTool>, String>)> {
    if servers.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    let found = start(config, servers).map_err(|error| error.message);
    let outcome = |name: &String| match &found {
        Err(why) => Err(why.clone()),
        Ok(reports) => match reports.iter().find(|report| report.name == *name) {
            None => Err("only for agents in another directory".into()),
            Some(report) => report.failure.clone().map_or_else(|| Ok(report.tools.clone()), Err),
        },
    };
    names.iter().map(|name| (name.clone(), outcome(name))).collect()
}

/// Has an agent of the built-in model send one message, for which its servers are started.
fn start(config: &Config, mcp: Vec<McpServer>) -> Result<Vec<ServerReport>> {
    if cfg!(not(feature = "mcp")) {
        return Err(Error::not_built_in("mcp"));
    }
    let config = Config {
        data_directory: None,
        catalog: Catalog::default(),
        endpoint: Endpoint::echo(),
        environments: Vec::new(),
        mcp,
        policy: Policy::Never,
        rules: Rules { allow: vec!["mcp(*)".parse().expect("a rule")], ..Rules::default() },
        trace: None,
        ..config.clone()
    };
    let mut repl = Repl::open(config, Store::in_memory()?, Clock::system())?;
    let agent = repl.list().first().map(|agent| agent.id).ok_or_else(|| Error::usage("there is no agent"))?;
    repl.apply(agent, Change::Submit("hello".into()))?;
    while !repl.status(agent)?.is_at_rest() {
        repl.turn(None)?;
    }
    let reports = repl.servers();
    repl.leave()?;
    Ok(reports)
}

fn add(options: &McpAdd, arguments: &Arguments, env: &ProcessEnvironment) -> Result<()> {
    let name = &options.name;
    if !is_server_name(name) {
        return Err(Error::usage(format!("{name:?} cannot name a server: use letters, digits, - and _")));
    }
    let config = config::load(arguments, env).into_config()?;
    if config.mcp.iter().any(|server| server.name == *name && server.project.is_none()) {
        return Err(Error::usage(format!("there is an MCP server {name} already: polylogue config edit changes it")));
    }
    let block = block(options)?;
    let file = config.user_file.ok_or_else(|| Error::usage("there is no configuration directory: set HOME"))?;
    config::append(&file, &block)?;
    config::show::print(&format!("added to {}:\n{block}\npolylogue mcp test {name} tries it\n", file.display()));
    Ok(())
}

/// The table of the new server.
fn block(options: &McpAdd) -> Result<String> {
    let text = |text: &str| toml_text(text);
    let list = |texts: &[String]| texts.iter().map(|one| text(one)).collect::<Vec<_>>().join(", ");
    let mut block = format!("\n[mcp.{}]\n", options.name);
    if let Some(url) = &options.url {
        let _ = writeln!(block, "url = {}", text(url));
    }
    if let Some((command, args)) = options.command.split_first() {
        let _ = writeln!(block, "command = {}", text(command));
        if !args.is_empty() {
            let _ = writeln!(block, "args = [{}]", list(args));
        }
    }
    for (key, pairs) in [("env", &options.env), ("headers", &options.header)] {
        let parse = |pair: &String| {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| Error::usage(format!("expected NAME=VALUE (got {pair:?})")))?;
            Ok(format!("{} = {}", text(name), text(value)))
        };
        let pairs: Vec<String> = pairs.iter().map(parse).collect::<Result<_>>()?;
        if !pairs.is_empty() {
            let _ = writeln!(block, "{key} = {{ {} }}", pairs.join(", "));
        }
    }
    options.net.iter().try_for_each(|host| host.parse::<HostPattern>().map(drop))?;
    if !options.net.is_empty() {
        let _ = writeln!(block, "net = [{}]", list(&options.net));
    }
    Ok(block)
}

fn in_one_line(text: &str) -> String {
    text.replace(['\n', '\r', '\t'], " ")
}

/// A basic string of TOML, which escapes as JSON does but for DEL.
fn toml_text(text: &str) -> String {
    serde_json::to_string(text).expect("a string").replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_server_is_a_table_that_can_be_read() {
        let options = McpAdd {
            name: "files".into(),
            net: vec!["*.example.org".into()],
            env: vec!["A=b=\"c\"".into()],
            url: None,
            header: Vec::new(),
            command: ["npx", "-y", "it's"].map(String::from).to_vec(),
        };
        let expected = "\n[mcp.files]\ncommand = \"npx\"\nargs = [\"-y\", \"it's\"]\nenv = { \"A\" = \"b=\\\"c\\\"\" }\nnet = [\"*.example.org\"]\n";
        assert_eq!(block(&options).unwrap(), expected);
        assert!(block(&McpAdd { env: vec!["A".into()], ..options.clone() }).is_err());
        assert!(block(&McpAdd { net: vec!["a b".into()], ..options }).is_err());
    }
}
