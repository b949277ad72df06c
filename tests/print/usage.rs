//! `usage`: the sums over all runs equal what the servers said.

use serde_json::Value;

use super::Home;
use crate::support::peer::Peer;

/// A run with one tool call, so two requests, of which the server says how many tokens they had.
fn run(home: &Home, peer: &Peer, tokens: [(u64, u64); 2]) {
    let program = home.start(&["-p", "look", "-m", "priced/test"]);
    let first = peer.accept();
    first.stream().tool_call(0, "call", "read_file", r#"{"path":"none"}"#).finish("tool_calls");
    first.usage(tokens[0].0, tokens[0].1).done();
    let second = peer.accept();
    second.stream().text("done").finish("stop");
    second.usage(tokens[1].0, tokens[1].1).done();
    let output = program.ends();
    assert_eq!(output.code, 0, "{output:?}");
}

fn rows(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let output = home.run(arguments);
    assert_eq!(output.code, 0, "{output:?}");
    output.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn sum(rows: &[Value], column: &str) -> u64 {
    rows.iter().filter_map(|row| row[column].as_u64()).sum()
}

#[test]
fn tokens_and_cost_over_restarts_are_the_sums_of_what_the_servers_said() {
    let peer = Peer::start();
    let home = Home::new();
    let folder = home.directory.path().join(".config/polylogue");
    std::fs::create_dir_all(&folder).expect("a directory");
    let model = "models = [{ name = \"test\", input_price = 2, output_price = 10 }]";
    let provider = format!("[providers.priced]\nkind = \"openai\"\nbase_url = \"{}\"\n{model}\n", peer.url());
    std::fs::write(folder.join("config.toml"), provider).expect("a configuration");
    let runs = [[(100, 10), (150, 7)], [(1_000, 20), (1_020, 3)], [(5, 1), (9, 2)]];
    runs.iter().for_each(|tokens| run(&home, &peer, *tokens));
    let all = || runs.iter().flatten();
    let (input, output): (u64, u64) = (all().map(|(input, _)| input).sum(), all().map(|(_, output)| output).sum());
    let days = rows(&home, &["usage", "--json"]);
    assert!((1..=2).contains(&days.len()), "at midnight two: {days:?}");
    for rows in [days, rows(&home, &["usage", "--by", "agent", "--json"])] {
        assert_eq!((sum(&rows, "requests"), sum(&rows, "priced")), (6, 6), "{rows:?}");
        assert_eq!((sum(&rows, "input"), sum(&rows, "output")), (input, output), "{rows:?}");
        // A dollar per million tokens is 1,000 billionths of a dollar per token.
        assert_eq!(sum(&rows, "cost"), input * 2_000 + output * 10_000, "{rows:?}");
    }
    let table = home.run(&["usage", "--by", "agent"]).out;
    let total = table.lines().last().expect("a line");
    assert!(total.contains("total") && total.contains(&input.to_string()), "{table}");
    assert!(total.contains("$0.0049"), "{table}");
}

#[test]
fn without_requests_there_is_nothing_to_show() {
    let home = Home::new();
    home.run(&["-p", "hello"]);
    assert_eq!(home.run(&["usage", "--by", "agent"]).code, 0);
}
