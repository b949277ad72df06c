//! MCP servers: real processes that speak the protocol, or pretend to.

mod asking;
mod faults;
mod images;
mod library;
mod login;
mod program;
mod transports;

use std::path::Path;
use std::time::Duration;

use polylogue::config::{McpServer, McpTransport, Network, Policy, Rules};
use serde_json::Value;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe as _;
use crate::support::internals::sandbox::Level;
use crate::support::peer::Peer;
use crate::support::scene::{reply_with_calls, results_in};
use crate::support::write_executable;

/// The program of a scripted server, in this workspace: the rest of the disk may be invisible to it.
const PROGRAM: &str = "server.sh";

/// A scripted server of this behaviour, which is also its name.
pub fn server(behaviour: &str) -> McpServer {
    let args: Vec<String> = vec!["-c".into(), format!("exec ./{PROGRAM} {behaviour}")];
    let transport = |token: &str| McpTransport::Stdio {
        command: "sh".into(),
        args: args.clone(),
        env: vec![("TOKEN".into(), token.into())],
    };
    McpServer {
        name: behaviour.into(),
        transport: transport("t0ken"),
        written: transport("${TOKEN}"),
        net: Vec::new(),
        may_write: matches!(behaviour, "writes" | "library" | "hangs" | "plants"),
        start_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(60),
        enabled_tools: Vec::new(),
        disabled_tools: Vec::new(),
        project: None,
        is_remote: false,
        source: "config.toml:1".into(),
    }
}

/// A program whose agents have these servers, and may call them without a question.
pub fn app_with(peer: &Peer, servers: Vec<McpServer>) -> Harness {
    app_under(peer, servers, allow(&["mcp(*)", "start(*)"]), Policy::Ask)
}

fn allow(rules: &[&str]) -> Rules {
    Rules { allow: rules.iter().map(|rule| rule.parse().expect("a rule")).collect(), ..Rules::default() }
}

pub fn app_under(peer: &Peer, mcp: Vec<McpServer>, rules: Rules, policy: Policy) -> Harness {
    let app = Harness::new(Plan { real_time: true, mcp, rules, policy, ..Plan::peer(&peer.url()) });
    write_executable(&app.directory().join(PROGRAM), include_bytes!("mcp/server.sh"));
    app
}

/// The names of the servers' tools in a request.
pub fn offered(request: &Value) -> Vec<String> {
    let names = request["tools"].as_array().into_iter().flatten();
    let names = names.filter_map(|tool| tool["function"]["name"].as_str());
    names.filter(|name| name.starts_with("mcp__")).map(str::to_owned).collect()
}

/// Sends a message, and answers with a call of this tool. Returns its result.
pub fn result_of(app: &mut Harness, peer: &Peer, tool: &str) -> String {
    app.enter("do it");
    let exchange = app.accept(peer);
    reply_with_calls(&exchange, &[(tool, r#"{"word":"hello"}"#)]);
    let next = app.accept(peer);
    let results = results_in(&next.request().json());
    next.stream().text("done").finish("stop").done();
    app.turn_until_idle();
    results.last().expect("a result").1.clone()
}

/// Sends a message and returns the request for it, which is answered.
pub fn request_of(app: &mut Harness, peer: &Peer) -> Value {
    app.enter("hello");
    let exchange = app.accept(peer);
    exchange.stream().text("hi").finish("stop").done();
    app.turn_until_idle();
    exchange.request().json()
}

#[test]
fn tools_of_all_pages_are_offered_and_called_in_both_eras() {
    for behaviour in ["legacy", "modern", "fragile"] {
        let peer = Peer::start();
        let mut app = app_with(&peer, vec![server(behaviour)]);
        let request = request_of(&mut app, &peer);
        assert_eq!(offered(&request), [format!("mcp__{behaviour}__first"), format!("mcp__{behaviour}__second")]);
        app.enter("/tools");
        app.turn_until("its tools", |app| app.screen_text().contains("MCP server: first, second"));
        let result = result_of(&mut app, &peer, &format!("mcp__{behaviour}__second"));
        assert!(result.starts_with("marker "), "{behaviour}: {result}");
    }
}

#[test]
#[cfg(feature = "web-fetch")]
fn a_policy_that_is_lowered_while_a_command_runs_holds_for_the_calls_after_it() {
    let peer = Peer::start();
    let mut app = app_under(&peer, vec![server("legacy")], Rules::default(), Policy::Yolo);
    app.enter("do it");
    let wait = r#"{"command":"touch begun; until [ -e go ]; do sleep 0.01; done"}"#;
    let calls = [("bash", wait), ("mcp__legacy__first", "{}"), ("web_fetch", r#"{"url":"http://127.0.0.1:1/"}"#)];
    reply_with_calls(&app.accept(&peer), &calls);
    let directory = app.directory();
    app.turn_until("the command runs", |_| directory.join("begun").exists());
    app.enter("/approval plan");
    std::fs::write(directory.join("go"), "").expect("a file");
    // The policy plan lets pages of the web be read, and asks for each.
    app.turn_until_asked(0);
    app.press_at_question(b"n");
    let next = app.accept(&peer);
    let results = results_in(&next.request().json());
    assert!(results[1].1.contains("policy plan") && results[2].1.contains("denied"), "{results:?}");
    next.stream().text("done").finish("stop").done();
    app.turn_until_idle();
}

#[test]
fn a_call_asks_with_all_arguments_and_a_rule_or_plan_decides_without() {
    let peer = Peer::start();
    let mut app = app_under(&peer, vec![server("legacy")], Rules::default(), Policy::Auto);
    app.enter("do it");
    reply_with_calls(&app.accept(&peer), &[("mcp__legacy__first", r#"{"word":"one\ntwo","n":1}"#)]);
    app.turn_until_asked(0);
    let shown = app.screen_text();
    for part in ["mcp: legacy.first", "    two", "n: 1"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    app.press_at_question(b"y");
    let next = app.accept(&peer);
    assert!(results_in(&next.request().json())[0].1.starts_with("marker "));
    next.stream().text("done").finish("stop").done();
    app.turn_until_idle();

    let deny = Rules { deny: vec!["mcp(legacy.first)".parse().expect("a rule")], ..Rules::default() };
    let mut denied = app_under(&peer, vec![server("legacy")], deny, Policy::Yolo);
    assert!(result_of(&mut denied, &peer, "mcp__legacy__first").contains("refused by the rule deny mcp(legacy.first)"));
    assert!(result_of(&mut denied, &peer, "mcp__legacy__second").starts_with("marker "));
    let allow = Rules { allow: vec!["mcp(*)".parse().expect("a rule")], ..Rules::default() };
    let mut plan = app_under(&peer, vec![server("legacy")], allow, Policy::Plan);
    assert!(result_of(&mut plan, &peer, "mcp__legacy__first").contains("not offered by any MCP server"));
    assert_eq!(servers_in(&plan.directory()), 0, "it could change files by itself");
    plan.enter("/approval ask");
    assert!(result_of(&mut plan, &peer, "mcp__legacy__first").starts_with("marker "));
    plan.enter("/approval plan");
    assert!(result_of(&mut plan, &peer, "mcp__legacy__first").contains("policy plan"));
    let mut never = app_under(&peer, vec![server("legacy")], Rules::default(), Policy::Never);
    let refused = result_of(&mut never, &peer, "mcp__legacy__first");
    assert!(
        refused.contains("--allow \"mcp(legacy.first)\"") || refused.contains("--allow 'mcp(legacy.first)'"),
        "{refused}"
    );
}

#[test]
fn a_question_that_was_open_at_the_end_is_asked_again_and_starts_the_server() {
    let peer = Peer::start();
    let mut app = app_under(&peer, vec![server("legacy")], Rules::default(), Policy::Ask);
    app.enter("do it");
    reply_with_calls(&app.accept(&peer), &[("mcp__legacy__first", r#"{"word":"hello"}"#)]);
    app.turn_until_asked(0);
    let mut app = app.crash_and_restart();
    app.turn_until_asked(0);
    let shown = app.screen_text();
    assert!(shown.contains("mcp: legacy.first") && shown.contains("word: \"hello\""), "{shown}");
    assert_eq!(servers_in(&app.directory()), 0, "nothing runs because of it");
    app.press_at_question(b"y");
    let next = app.accept(&peer);
    assert!(results_in(&next.request().json())[0].1.starts_with("marker "));
    next.stream().text("done").finish("stop").done();
    app.turn_until_idle();
}

#[test]
fn without_a_sandbox_a_server_starts_after_a_question() {
    let peer = Peer::start();
    let plan = Plan { real_time: true, mcp: vec![server("legacy")], has_sandbox: false, ..Plan::peer(&peer.url()) };
    let mut app = Harness::new(Plan { rules: Rules::default(), ..plan });
    write_executable(&app.directory().join(PROGRAM), include_bytes!("mcp/server.sh"));
    assert_eq!(offered(&request_of(&mut app, &peer)), ["mcp__legacy__start"]);
    assert_eq!(servers_in(&app.directory()), 0);
}

#[test]
fn twenty_agents_share_one_process() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("legacy")]);
    request_of(&mut app, &peer);
    for _ in 1..20 {
        app.fork(0);
    }
    (0..20).for_each(|n| app.say(n, "hello"));
    for _ in 0..20 {
        app.accept(&peer).stream().text("hi").finish("stop").done();
    }
    app.turn_until_idle();
    let known = |n: usize| app.agent(n).inputs.environment.mcp_tools.len();
    assert!((0..20).all(|n| known(n) == 2));
    assert_eq!(servers_in(&app.directory()), 1);
}

#[test]
fn agents_of_one_directory_share_a_process_and_it_ends_with_the_program() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("legacy")]);
    let first = result_of(&mut app, &peer, "mcp__legacy__first");
    app.fork(0);
    let second = result_of(&mut app, &peer, "mcp__legacy__first");
    assert_eq!(first, second);
    assert_eq!(servers_in(&app.directory()), 1);
    app.repl.leave().expect("the end");
    assert_eq!(servers_in(&app.directory()), 0);
}

#[test]
fn a_server_runs_in_the_sandbox_with_its_own_variables_only() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("writes"), server("shows")]);
    assert_eq!(result_of(&mut app, &peer, "mcp__writes__first"), "outside is closed");
    assert_eq!(std::fs::read_to_string(app.directory().join("inside")).expect("a file"), "mine\n");
    let shown = result_of(&mut app, &peer, "mcp__shows__first");
    let directory = app.directory().canonicalize().expect("a directory");
    assert_eq!(shown, format!("token t0ken, key none, at {}", directory.display()));
}

#[test]
fn a_server_reads_the_workspace_unless_its_declaration_says_that_it_writes() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![McpServer { may_write: false, ..server("plants") }]);
    assert_eq!(result_of(&mut app, &peer, "mcp__plants__first"), "read-only");
    assert!(!app.directory().join("sub").exists());

    let mut app = app_under(&peer, vec![server("plants")], Rules::default(), Policy::Auto);
    assert_eq!(offered(&request_of(&mut app, &peer)), ["mcp__plants__start"]);
    app.enter("start it");
    reply_with_calls(&app.accept(&peer), &[("mcp__plants__start", "{}")]);
    app.turn_until_asked(0);
    assert!(in_one_line(&app.screen_text()).contains("it may write in the workspace"), "{}", app.screen_text());
}

#[test]
fn what_a_server_plants_is_reported_as_of_commands() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("plants")]);
    let result = result_of(&mut app, &peer, "mcp__plants__first");
    assert!(result.starts_with("planted\n[protected: sub/.git was created during this command: "), "{result}");
    let shown = in_one_line(&app.screen_text());
    assert!(shown.contains("mcp server plants: sub/.git was created"), "{shown}");
    assert_eq!(result_of(&mut app, &peer, "mcp__plants__first"), "planted", "told once");
}

#[test]
fn a_server_that_uses_the_network_starts_after_a_question_that_shows_all_of_it() {
    let peer = Peer::start();
    let net = McpServer { net: vec!["example.org".parse().expect("a host")], ..server("legacy") };
    let mut app = app_under(&peer, vec![net.clone()], Rules::default(), Policy::Auto);
    assert_eq!(offered(&request_of(&mut app, &peer)), ["mcp__legacy__start"]);
    assert_eq!(servers_in(&app.directory()), 0);
    app.enter("start it");
    reply_with_calls(&app.accept(&peer), &[("mcp__legacy__start", "{}")]);
    app.turn_until_asked(0);
    let shown = in_one_line(&app.screen_text());
    for part in ["start the MCP server legacy", "server.sh legacy", "only example.org", "config.toml:1"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains("t0ken"), "{shown}");
    app.press_at_question(b"y");
    let next = app.accept(&peer).request().json();
    assert!(results_in(&next)[0].1.contains("mcp__legacy__second"), "{next}");
    assert_eq!(offered(&next), ["mcp__legacy__first", "mcp__legacy__second"]);

    // Where a rule allows it, nothing is asked. Rules for tools are not about the start, whatever the tools are called.
    let mut allowed = app_under(&peer, vec![net.clone()], allow(&["start(legacy)"]), Policy::Auto);
    assert_eq!(offered(&request_of(&mut allowed, &peer)).len(), 2);
    let mut of_tools = app_under(&peer, vec![net], allow(&["mcp(legacy)", "mcp(legacy.start)"]), Policy::Auto);
    assert_eq!(offered(&request_of(&mut of_tools, &peer)), ["mcp__legacy__start"]);
    assert_eq!(servers_in(&of_tools.directory()), 0);
}

#[test]
fn the_question_about_a_start_shows_the_network_that_is_really_open() {
    let peer = Peer::start();
    let net = McpServer { net: vec!["example.org".parse().expect("a host")], ..server("legacy") };
    let plan = || Plan { real_time: true, mcp: vec![net.clone()], rules: Rules::default(), ..Plan::peer(&peer.url()) };
    let shown = |plan: Plan, level: Option<Level>| {
        let mut app = Harness::new(plan);
        level.map(|level| app.agent(0).inputs.environment.sandbox.falls_from(level));
        app.enter("start it");
        reply_with_calls(&app.accept(&peer), &[("mcp__legacy__start", "{}")]);
        app.turn_until_asked(0);
        in_one_line(&app.screen_text())
    };
    let off = shown(Plan { has_sandbox: false, ..plan() }, None);
    let host = shown(Plan { network: Network::Host, ..plan() }, None);
    let landlock = shown(plan(), Some(Level::SharedProc));
    for (shown, part) in [(off, "sandbox: off"), (host, "discarded; network yes"), (landlock, "the whole network")] {
        assert!(shown.contains(part), "{part}\n{shown}");
        assert!(!shown.contains("only example.org"), "{shown}");
    }
}

#[test]
fn a_consent_does_not_hold_for_a_weaker_sandbox() {
    let peer = Peer::start();
    let net = McpServer { net: vec!["example.org".parse().expect("a host")], ..server("dies") };
    let rules = Rules { allow: vec!["mcp(dies.first)".parse().expect("a rule")], ..Rules::default() };
    let mut app = app_under(&peer, vec![net], rules, Policy::Auto);
    app.enter("start it");
    reply_with_calls(&app.accept(&peer), &[("mcp__dies__start", "{}")]);
    app.turn_until_asked(0);
    app.press_at_question(b"y");
    app.accept(&peer).stream().text("done").finish("stop").done();
    app.turn_until_idle();
    assert!(result_of(&mut app, &peer, "mcp__dies__first").contains("ended with exit code 9"));
    app.agent(0).inputs.environment.sandbox.falls_from(Level::SharedProc);
    let refused = result_of(&mut app, &peer, "mcp__dies__first");
    assert!(
        refused.contains("weaker than the one that was allowed") || refused.contains("needs a sandbox"),
        "{refused}"
    );
    assert_eq!(offered(&request_of(&mut app, &peer)), ["mcp__dies__start"]);
    assert_eq!(servers_in(&app.directory()), 0);
}

#[test]
fn only_agents_that_can_run_commands_get_servers_and_a_project_s_only_below_it() {
    let peer = Peer::start();
    let elsewhere = McpServer { project: Some("/elsewhere".into()), name: "project".into(), ..server("legacy") };
    let mut app = app_with(&peer, vec![server("legacy"), elsewhere]);
    assert_eq!(offered(&request_of(&mut app, &peer)).len(), 2);
    app.enter("/env readonly");
    app.turn_until("the child", |app| app.repl.roster().len() == 2);
    assert_eq!(offered(&request_of(&mut app, &peer)), Vec::<String>::new());
}

/// Without the breaks of lines.
pub fn in_one_line(screen: &str) -> String {
    screen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How many scripted servers run in a directory.
pub fn servers_in(directory: &Path) -> usize {
    let directory = directory.canonicalize().expect("a directory");
    let processes = std::fs::read_dir("/proc").expect("a directory").flatten();
    let is_server = |process: &std::fs::DirEntry| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let is_shell = line.starts_with(b"/bin/sh\0./server.sh") || line.starts_with(b"sh\0./server.sh");
        is_shell && std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == directory)
    };
    processes.filter(is_server).count()
}
