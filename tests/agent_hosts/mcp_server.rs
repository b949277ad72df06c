//! `polylogue mcp-server`: a program without our protocol starts agents and writes to them.

use serde_json::{Value, json};

use crate::support::program::{Home, Program};

/// A scripted program that uses the MCP server.
struct Client {
    program: Program,
    count: u64,
}

impl Client {
    fn start(home: &Home, args: &[&str]) -> Self {
        let program = home.start_with_input(&[&["mcp-server", "--model", "echo"], args].concat());
        let mut client = Self { program, count: 0 };
        let begun = client.ask("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
        assert_eq!(begun["result"]["protocolVersion"], "2025-06-18", "{begun}");
        client.program.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        client
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.count += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params});
        self.program.write(&format!("{message}\n"));
        self.count
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.program.object();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The text of the result, or of the error.
    fn call(&mut self, name: &str, arguments: Value) -> Result<String, String> {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
        if answer["result"]["isError"] == true { Err(text) } else { Ok(text) }
    }
}

/// What a program does with its agents, and in the end the agents that there are.
fn converse(client: &mut Client) {
    let sends = |body: &str| format!("%tool send_mail {{\"to\":\"parent\",\"body\":\"{body}\"}}");
    let forked = client.call("fork", json!({"prompt": sends("the answer"), "name": "helper"})).expect("forked");
    assert!(forked.contains("\"name\":\"helper\""), "{forked}");
    assert_eq!(client.call("wait", json!({"timeout": 50})), Ok("1 unread message.".into()));
    let read = client.call("read_mail", Value::Null).expect("read");
    assert!(read.contains("from helper") && read.ends_with("the answer"), "{read}");
    client.call("fork", json!({"prompt": "hello", "name": "other"})).expect("forked");
    client.call("fork", json!({"prompt": sends("unread"), "name": "third"})).expect("forked");
    assert_eq!(client.call("wait", json!({"timeout": 50})), Ok("1 unread message.".into()));
    let waited = client.call("wait", json!({"from": ["other"], "timeout": 50})).expect("waited");
    assert!(waited.contains("other: idle"), "{waited}");
    client.call("send_mail", json!({"to": "helper", "body": "thanks"})).expect("sent");
    assert_eq!(client.call("kill", json!({"agent": "0"})), Err("refused: agent 0 is not your descendant".into()));
    assert_eq!(client.call("kill", json!({"agent": "other"})), Ok("killed other".into()));
    let why = client.call("fork", json!({"name": "x"})).expect_err("no prompt");
    assert!(why.contains("`prompt` is missing"), "{why}");
    let unknown = client.ask("tools/call", json!({"name": "bash", "arguments": {"command": "ls"}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn a_program_starts_agents_and_reads_their_mail_in_a_loop_of_its_own_and_in_a_server() {
    for is_served in [false, true] {
        let home = Home::new();
        let server = is_served.then(|| home.serve());
        let mut client = Client::start(&home, &[]);
        converse(&mut client);
        assert_eq!(client.program.ends().code, 0, "served: {is_served}");
        let listed = home.run(&["ps", "--all", "--json"]).out;
        assert!(listed.contains("\"helper\"") && !listed.contains("\"other\""), "served: {is_served}: {listed}");
        drop(server);
    }
}

#[test]
fn calls_are_judged_by_the_rules_and_no_question_is_asked() {
    let home = Home::new();
    let mut client = Client::start(&home, &["--deny", "fork(openai/*)"]);
    let why = client.call("fork", json!({"prompt": "x", "model": "openai/m"})).expect_err("refused");
    assert!(why.contains("fork(openai/*)"), "{why}");
    client.call("fork", json!({"prompt": "hello", "name": "own"})).expect("the model of the agent is allowed");
    drop(client);
    let mut client = Client::start(&home, &["--approval", "plan"]);
    client.call("fork", json!({"prompt": "hello", "name": "second"})).expect("forked");
    let why = client.call("kill", json!({"agent": "second"})).expect_err("it would change something");
    assert!(why.contains("plan"), "{why}");
}

#[test]
fn a_wait_is_withdrawn_and_an_agent_that_was_not_used_does_not_stay() {
    let home = Home::new();
    let mut client = Client::start(&home, &[]);
    let id = client.send("tools/call", json!({"name": "wait", "arguments": {}}));
    let params = json!({"requestId": id});
    client
        .program
        .write(&format!("{}\n", json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})));
    let answer = client.ask("ping", json!({}));
    assert_eq!(answer["result"], json!({}), "the wait is not answered: {answer}");
    assert_eq!(client.program.ends().out, "", "nothing is answered that was not asked");
    let mut client = Client::start(&home, &[]);
    client.call("agents", json!({})).expect("a list");
    client.program.ends();
    assert_eq!(home.run(&["ps", "--all", "--json"]).out.lines().count(), 1, "the first conversation alone");
}
