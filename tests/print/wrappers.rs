//! The options with which programs made for other agents start this one.

use serde_json::{Value, json};

use super::Home;
use super::served::Server;
use crate::support::peer::{Exchange, Peer};

const ID: &str = "6f1f9d0e-3c1b-4d2a-9a55-0c6f3b1d2e4f";

/// Starts a run and answers its request, which is returned.
fn asked(home: &Home, peer: &Peer, args: &[&str]) -> Value {
    let program = home.start(args);
    let exchange = peer.accept();
    reply_to(&exchange);
    let ended = program.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    exchange.request().json()
}

fn reply_to(exchange: &Exchange) {
    exchange.stream().text("well").finish("stop").done();
}

fn contents(request: &Value, role: &str) -> Vec<String> {
    let messages = request["messages"].as_array().expect("messages").iter();
    let said = messages.filter(|message| message["role"] == role).filter_map(|message| message["content"].as_str());
    said.map(str::to_owned).collect()
}

#[test]
fn a_session_has_the_id_that_is_given_and_is_resumed_with_it() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    asked(&home, &peer, &["-p", "--session-id", ID, "one"]);
    let resumed = asked(&home, &peer, &["-p", "--resume", ID, "two"]);
    assert_eq!(contents(&resumed, "user"), ["one", "two"]);
    assert!(home.run(&["logs", ID]).out.contains("two"));
    let again = home.run(&["-p", "--session-id", ID, "three"]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.err.contains("--resume") && again.err.contains("continues it"), "{again:?}");
    let malformed = home.run(&["-p", "--session-id", "seven", "three"]);
    assert!(malformed.code == 2 && malformed.err.contains("expected a UUID"), "{malformed:?}");

    let other = ID.replace('6', "7");
    let _server = Server::at(&home);
    asked(&home, &peer, &["-p", "--session-id", &other, "four"]);
    let resumed = asked(&home, &peer, &["-p", "--resume", &other, "five"]);
    assert_eq!(contents(&resumed, "user"), ["four", "five"]);
}

#[test]
fn a_text_is_added_to_the_system_prompt_of_this_run() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let system = |args: &[&str]| contents(&asked(&home, &peer, args), "system").concat();
    let added = "Speak like a sailor.";
    let first = system(&["-p", "--append-system-prompt", added, "one"]);
    assert!(first.starts_with("You are") && first.ends_with(&format!("\n\n{added}")), "{first}");
    assert!(!system(&["-p", "-c", "two"]).contains(added));
    assert!(system(&["-p", "-c", "--append-system-prompt", added, "three"]).ends_with(added));

    let _server = Server::at(&home);
    assert!(system(&["-p", "--append-system-prompt", added, "four"]).ends_with(added));
    let refused = home.run(&["-p", "-c", "--append-system-prompt", added, "five"]);
    assert!(refused.code == 2 && refused.err.contains("--append-system-prompt holds for a new agent"), "{refused:?}");
}

#[test]
fn a_run_works_in_the_directory_that_is_named() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let work = home.directory.path().join("work");
    std::fs::create_dir(&work).expect("a directory");
    std::fs::write(work.join("note.txt"), "from the file").expect("a file");
    let request = asked(&home, &peer, &["-C", "work", "-p", "--attach", "note.txt", "read this"]);
    let system = contents(&request, "system").concat();
    let real = work.canonicalize().expect("a directory");
    assert!(system.contains(&format!("working directory is {}", real.display())), "{system}");
    assert!(contents(&request, "user").concat().contains("from the file"));
    let served = home.run(&["-C", "work", "serve", "--background"]);
    assert!(served.code == 0 && served.err.contains(&format!("attach -C {}", real.display())), "{served:?}");
    assert_eq!(home.run(&["stop"]).code, 0);
    let missing = home.run(&["--cwd", "nowhere", "-p", "hello"]);
    assert!(missing.code == 2 && missing.err.contains("--cwd nowhere: No such file"), "{missing:?}");
}

// Rules about commands need the grammar of the shell.
#[cfg(feature = "shell-grammar")]
#[test]
fn tools_are_allowed_and_refused_by_the_names_of_claude_code() {
    let home = Home::new();
    let call = |options: &[&str]| {
        let prompt = format!("%tool bash {}", json!({"command": "touch made"}));
        let ended = home.run(&[&["-p", "--ephemeral"], options, &["--output-format", "stream-json", &prompt]].concat());
        let mut chunks = ended.out.lines().map(|line| line.parse::<Value>().expect("JSON"));
        chunks.find(|chunk| chunk["type"] == "tool_result").expect("a result")["is_error"] == false
    };
    assert!(!call(&[]));
    assert!(call(&["--allowedTools", "TodoWrite, Bash Read"]));
    assert!(call(&["--allowed-tools", "Bash(touch:*)"]));
    assert!(!call(&["--allowed-tools", "Bash(git log:*),Edit(docs/**)"]));
    assert!(!call(&["--allowed-tools", "Bash", "--disallowed-tools", "Bash(touch:*)"]));
    let separate = home.run(&["-p", "--disallowedTools", "Bash", "Edit", "hello"]);
    assert!(separate.code == 2 && separate.err.contains("take one value, as in 'Bash,Edit'"), "{separate:?}");
    let open = home.run(&["-p", "--disallowed-tools", "Bash(rm:*,Edit,Write(src/**)", "hello"]);
    assert!(open.code == 2 && open.err.contains("a parenthesis is not closed"), "{open:?}");
    let fork = |options: &[&str]| {
        let prompt = "%tool fork {\"prompt\": \"hello\"}";
        home.run(&[&["-p", "--ephemeral"], options, &["--output-format", "stream-json", prompt]].concat()).out
    };
    assert!(fork(&[]).contains("\"is_error\":false"));
    assert!(fork(&["--disallowed-tools", "Task"]).contains("\"is_error\":true"));
    let unknown = home.run(&["-p", "--allowed-tools", "Bash,bahs", "hello"]);
    assert!(unknown.code == 2 && unknown.err.contains("\"bahs\" is no tool"), "{unknown:?}");
}

#[test]
fn the_lines_are_those_of_claude_code_if_they_are_wanted() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let options = ["-p", "--session-id", ID, "--input-format", "stream-json", "--output-format", "claude-stream-json"];
    let mut program = home.start_with_input(&options);
    program.write(
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]}}\n",
    );
    program.input = None;
    let first = peer.accept();
    assert_eq!(contents(&first.request().json(), "user"), ["go"]);
    let calls = first.stream().text("I look").tool_call(0, "c1", "list_dir", "{}");
    calls.tool_call(1, "c2", "bash", "{\"command\":\"touch made\"}").finish("tool_calls").done();
    reply_to(&peer.accept());
    let ended = program.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines: Vec<Value> = ended.out.lines().map(|line| line.parse().expect("JSON")).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"system"));
    assert_eq!((&lines[0]["subtype"], &lines[0]["model"]), (&json!("init"), &json!("openai/test")));
    assert!(lines.iter().all(|line| line["session_id"] == ID && line["uuid"].is_string()), "{lines:#?}");
    let parts = |kind: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["type"] == kind).map(|line| &line["message"]["content"][0]).collect()
    };
    let said = parts("assistant");
    assert_eq!(said.len(), 4, "{lines:#?}");
    assert_eq!(said[0], &json!({"type": "text", "text": "I look"}));
    // A call that is refused is answered before the others.
    let refused = json!({"type": "tool_use", "id": "c2", "name": "bash", "input": {"command": "touch made"}});
    assert!(said[1..3].contains(&&refused), "{said:?}");
    assert_eq!(said[3]["text"], "well");
    let results = parts("user");
    assert_eq!(results.len(), 2, "{lines:#?}");
    let of = |id: &str| results.iter().find(|result| result["tool_use_id"] == id).expect("its result");
    assert_eq!((&of("c1")["is_error"], &of("c2")["is_error"]), (&json!(false), &json!(true)));
    let result = lines.last().expect("a line");
    assert_eq!(
        (&result["type"], &result["subtype"], &result["is_error"]),
        (&json!("result"), &json!("success"), &json!(false))
    );
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("well"), &json!(2)));
    assert_eq!(result["permission_denials"][0]["tool_use_id"], "c2", "{result}");
    let limited = home.run(&["-p", "-r", ID, "--output-format", "claude-stream-json", "--timeout", "0", "hello"]);
    let result: Value = limited.out.lines().last().expect("a line").parse().expect("JSON");
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("error_during_execution"), &json!(true)), "{result}");
}

#[cfg(feature = "mcp")]
#[test]
fn the_servers_of_a_file_or_a_text_are_added() {
    let home = Home::new();
    let path = |name: &str| home.directory.path().join(name);
    crate::support::write_executable(&path("server.sh"), include_bytes!("../mcp/server.sh"));
    let declared =
        |name: &str| json!({"mcpServers": {name: {"command": "./server.sh", "args": ["legacy"]}}}).to_string();
    std::fs::write(path("servers.json"), declared("file")).expect("a file");
    let tested = home.run(&["mcp", "test", "--mcp-config", "servers.json", "--mcp-config", &declared("text")]);
    assert!(tested.out.contains("ok    file: 2 tools") && tested.out.contains("ok    text: 2 tools"), "{tested:?}");
    let ended = home.run(&["-p", "--mcp-config", "servers.json", "--allow", "mcp(*)", "%tool mcp__file__first {}"]);
    assert!(ended.code == 0 && ended.err.contains("calls mcp: file.first"), "{ended:?}");
    for (value, why) in [
        ("nowhere.json", "nowhere.json: does not exist"),
        ("{\"servers\": {}}", "--mcp-config: expected an object mcpServers"),
        ("{\"mcpServers\": {\"a\": {}}}", "--mcp-config: mcpServers.a: expected command or url"),
        ("{", "--mcp-config: invalid JSON"),
    ] {
        let refused = home.run(&["-p", "--mcp-config", value, "hello"]);
        assert!(refused.code == 2 && refused.err.contains(why), "{value}: {refused:?}");
    }
}
