//! The MCP servers that an editor declares for a session.

use serde_json::Value;

use crate::base::json_rpc::Fault;
use crate::domain::mcp::{ClientServer, Transport, server_name};

/// The declared servers, and a line about each that cannot be used.
pub fn read(declared: &Value) -> Result<(Vec<ClientServer>, Vec<String>), Fault> {
    let (mut servers, mut notes) = (Vec::new(), Vec::new());
    for (at, entry) in declared.as_array().into_iter().flatten().enumerate() {
        let malformed = |what: &str| Fault::params(format!("mcpServers[{at}]: {what}"));
        let text = |name: &str| {
            entry[name].as_str().map(str::to_owned).ok_or_else(|| malformed(&format!("`{name}` must be a string")))
        };
        let pairs =
            |name: &str| pairs(&entry[name]).ok_or_else(|| malformed(&format!("`{name}` must list names and values")));
        let name = text("name")?;
        let transport = match entry["type"].as_str() {
            None | Some("stdio") => {
                let args = entry["args"].as_array().into_iter().flatten();
                let args: Option<Vec<String>> = args.map(|arg| arg.as_str().map(str::to_owned)).collect();
                let args = args.ok_or_else(|| malformed("`args` must be a list of strings"))?;
                Transport::Stdio { command: text("command")?, args, env: pairs("env")? }
            }
            Some("http") => Transport::Http { url: text("url")?, headers: pairs("headers")? },
            Some(other) => {
                notes.push(format!(
                    "the MCP server {name} of the editor is not used: {other} is not supported, use stdio or http"
                ));
                continue;
            }
        };
        let server = ClientServer { name: server_name(&name), transport };
        server.check().map_err(malformed)?;
        servers.push(server);
    }
    Ok((servers, notes))
}

/// A list of objects with `name` and `value`; a missing one is empty.
fn pairs(list: &Value) -> Option<Vec<(String, String)>> {
    let pair = |pair: &Value| Some((pair["name"].as_str()?.to_owned(), pair["value"].as_str()?.to_owned()));
    match list {
        Value::Null => Some(Vec::new()),
        list => list.as_array()?.iter().map(pair).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_of_both_kinds_are_read_and_others_are_named() {
        let (servers, notes) = read(&json!([
            {"name": "my files", "command": "/bin/files", "args": ["-v"], "env": [{"name": "A", "value": "b"}]},
            {"type": "http", "name": "web", "url": "https://example.org/mcp", "headers": [{"name": "X", "value": "y"}]},
            {"type": "sse", "name": "old", "url": "https://example.org/sse", "headers": []}
        ]))
        .expect("servers");
        let shown: Vec<String> =
            servers.iter().map(|server| format!("{} {:?}", server.name, server.transport)).collect();
        assert_eq!(shown, ["my_files A=… /bin/files -v", "web https://example.org/mcp"]);
        assert!(notes.len() == 1 && notes[0].contains("server old") && notes[0].contains("sse"), "{notes:?}");
    }

    #[test]
    fn a_malformed_declaration_is_refused_by_its_place() {
        for (server, expected) in [
            (json!({"command": "x"}), "`name`"),
            (json!({"name": "a"}), "`command`"),
            (json!({"name": "a", "command": "x", "args": [1]}), "`args`"),
            (json!({"name": "a", "command": "x", "env": {"A": "b"}}), "`env`"),
            (json!({"name": "a", "command": "x", "env": [{"name": "A", "value": "b\nc"}]}), "line breaks"),
            (json!({"name": "", "command": "x"}), "expected a name"),
            (json!({"name": "a", "type": "http", "url": "file:///x"}), "http://"),
        ] {
            let message = read(&json!([server])).expect_err("refused").message;
            assert!(message.starts_with("mcpServers[0]: ") && message.contains(expected), "{server}: {message}");
        }
    }
}
