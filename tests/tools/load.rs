//! Many commands at once: only as many agents run one as the working limit allows. `make bench ARGS="only commands-100"` does
//! the same with a hundred agents and measures it.

use polylogue::config::Policy;
use serde_json::json;

use crate::support::harness::Plan;
use crate::support::internals::Probe;
use crate::support::scene::app_with_agents;

const AGENTS: usize = 20;
const COMMANDS: usize = 5;
const LIMIT: usize = 3;

#[test]
fn commands_of_many_agents_never_exceed_the_working_limit() {
    let plan = Plan {
        policy: Policy::Yolo,
        rules: Default::default(),
        real_time: true,
        has_sandbox: false,
        working_limit: LIMIT,
        ..Plan::default()
    };
    let mut app = app_with_agents(AGENTS, plan);
    for n in 0..AGENTS {
        let calls: Vec<String> =
            (0..COMMANDS).map(|at| format!("%tool bash {}", json!({"command": format!("echo {n}-{at}")}))).collect();
        app.say(n, &format!("{}\n%next\ndone", calls.join("\n")));
    }
    let mut most = 0;
    app.turn_until("the end of all commands", |app| {
        let running = app.repl.roster().iter().filter(|agent| agent.has_live_tool()).count();
        most = most.max(running);
        app.repl.roster().busy().is_empty()
    });
    assert!((1..=LIMIT).contains(&most), "{most} agents ran commands at once");
    for n in 0..AGENTS {
        let results: Vec<String> = app.tool_results(n).into_iter().map(|result| result.content).collect();
        let expected: Vec<String> = (0..COMMANDS).map(|at| format!("{n}-{at}\n")).collect();
        assert_eq!(results, expected);
        assert_eq!(app.replies(n).last().map(String::as_str), Some("done"));
    }
}
