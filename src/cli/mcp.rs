//! `polylogue mcp`: lists, tests and adds MCP servers, and logs in at them.

use std::fmt::Write as _;

use super::arguments::{Arguments, McpAdd, McpCommand, McpLogin};
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
use logins::{has_login, login, logout};

/// Returns whether all servers that were tested work.
pub fn run(command: &McpCommand, arguments: &Arguments, env: &ProcessEnvironment) -> Result<bool> {
    match command {
        McpCommand::List => list(arguments, env),
        McpCommand::Test { names } => test(names, arguments, env),
        McpCommand::Add(options) => add(options, arguments, env).map(|()| true),
        McpCommand::Login(options) => login(options, arguments, env).map(|()| true),
        McpCommand::Logout { name } => logout(name, arguments, env).map(|()| true),
    }
}

fn list(arguments: &Arguments, env: &ProcessEnvironment) -> Result<bool> {
    let config = config::load(arguments, env).into_config()?;
    let mut out = String::new();
    for server in &config.mcp {
        let about = in_one_line(&server.written.about());
        let login = if has_login(&config, server) { ", logged in" } else { "" };
        // Writing into a `String` cannot fail.
        let _ = writeln!(out, "{}\t{about}\t({}{login})", server.name, server.source);
    }
    if out.is_empty() {
        out = "no MCP servers are declared: see polylogue help mcp\n".into();
    }
    config::show::print(&out);
    Ok(true)
}

fn test(names: &[String], arguments: &Arguments, env: &ProcessEnvironment) -> Result<bool> {
    let config = config::load(arguments, env).into_config()?;
    names.iter().try_for_each(|name| server_named(&config, name).map(drop))?;
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

fn server_named<'a>(config: &'a Config, name: &str) -> Result<&'a McpServer> {
    let unknown = || Error::usage(format!("no MCP server is named {name:?}: polylogue mcp list lists them"));
    config.mcp.iter().find(|server| server.name == name).ok_or_else(unknown)
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

#[cfg(feature = "mcp")]
mod logins {
    //! Logins at servers, which are the same for all agents.

    use super::*;
    use crate::base::text::sanitise;
    use crate::domain::mcp::Transport;
    use crate::net::oauth::{LoginOptions, Logins, PendingLogin};

    pub fn login(options: &McpLogin, arguments: &Arguments, env: &ProcessEnvironment) -> Result<()> {
        let config = config::load(arguments, env).into_config()?;
        let name = &options.name;
        let (url, logins) = place(&config, name)?;
        let unset =
            |variable: &String| Error::usage(format!("{variable} is not set: it is to hold the client's secret"));
        let secret = options.client_secret_env.as_ref();
        let secret = secret.map(|variable| env.text(variable).ok_or_else(|| unset(variable))).transpose()?;
        let wanted = LoginOptions {
            issuer: options.issuer.clone(),
            scope: options.scope.clone(),
            client_id: options.client_id.clone(),
            client_secret: secret,
            has_browser: !options.device,
            port: options.port,
        };
        let Some(pending) = PendingLogin::begin(&url, &wanted, &logins)? else {
            config::show::print(&format!("{name} needs no login\n"));
            return Ok(());
        };
        let scope = pending.scope.as_ref().map(|scope| format!(" for: {}", sanitise(scope))).unwrap_or_default();
        let rest = match &pending.code {
            Some(code) => format!("If you are asked for a code, enter {}", sanitise(code)),
            None => "If the browser is on another machine, paste the address that it ends at.".into(),
        };
        let (hosts, address) = (pending.hosts.join(", with tokens of "), &pending.url);
        config::show::print(&format!(
            "{name} wants a login at {hosts}{scope}\nOpen this address in a browser:\n\n{address}\n\n{rest}\n"
        ));
        pending.finish(&logins, &url, std::io::stdin())?;
        config::show::print(&format!("logged in: polylogue mcp test {name} tries it\n"));
        Ok(())
    }

    pub fn logout(name: &str, arguments: &Arguments, env: &ProcessEnvironment) -> Result<()> {
        let config = config::load(arguments, env).into_config()?;
        let (url, logins) = place(&config, name)?;
        let said = if logins.forget(&url)? { "the login is forgotten" } else { "there is no login" };
        config::show::print(&format!("{name}: {said}\n"));
        Ok(())
    }

    pub fn has_login(config: &Config, server: &McpServer) -> bool {
        place(config, &server.name).is_ok_and(|(url, logins)| logins.has(&url))
    }

    /// The URL of a server, and where its login is kept.
    fn place(config: &Config, name: &str) -> Result<(String, Logins)> {
        let transport = &server_named(config, name)?.transport;
        let Transport::Http { url, .. } = transport else {
            return Err(Error::usage(format!("{name} is a program: only servers with a url have a login")));
        };
        if transport.has_credentials() {
            return Err(Error::usage(format!("{name} has credentials in its declaration: remove them to log in")));
        }
        let directory = config.shared_directory.as_deref();
        let directory = directory.ok_or_else(|| Error::usage("there is no data directory for logins: set HOME"))?;
        Ok((url.clone(), Logins::in_directory(directory)))
    }
}

#[cfg(not(feature = "mcp"))]
mod logins {
    use super::*;

    pub fn login(_: &McpLogin, _: &Arguments, _: &ProcessEnvironment) -> Result<()> {
        Err(Error::not_built_in("mcp"))
    }

    pub fn logout(_: &str, _: &Arguments, _: &ProcessEnvironment) -> Result<()> {
        Err(Error::not_built_in("mcp"))
    }

    pub fn has_login(_: &Config, _: &McpServer) -> bool {
        false
    }
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
