//! The tools that a server offers, and the names by which models call them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::base::digest::sha256;
use crate::base::text;
use crate::domain::http::is_token;
use crate::domain::mcp::{McpCall, McpPrompt, McpResource, McpServer, McpTool, PREFIX};
use crate::domain::tool_schema;

/// Further tools of a server are left out.
pub const MAX_TOOLS: usize = 256;
/// In characters; longer descriptions are cut off.
const MAX_DESCRIPTION: usize = 8_000;
/// MCP itself allows 128 characters.
const MAX_TOOL_NAME: usize = 128;
/// OpenAI and Google take names of 64 characters.
const MAX_FULL_NAME: usize = 64;
/// Of the digest in a name that would be too long or not unique.
const DIGITS: usize = 8;

/// The tools in the answers to `tools/list`, and why others are left out.
pub fn tools(server: &McpServer, listed: &[Value]) -> (Vec<McpTool>, Vec<String>) {
    let (mut tools, mut left_out) = (Vec::<McpTool>::new(), Vec::new());
    for entry in listed {
        match tool(server, entry) {
            Ok(None) => {}
            Ok(Some(tool)) if tools.iter().any(|known| known.name == tool.name) => {
                left_out.push(format!("{}: listed twice", tool.name));
            }
            Ok(Some(_)) if tools.len() == MAX_TOOLS => {
                left_out.push(format!("more than {MAX_TOOLS} tools"));
                break;
            }
            Ok(Some(tool)) => tools.push(tool),
            Err(why) => left_out.push(why),
        }
    }
    (tools, left_out)
}

/// `None` if the tool is not to be offered.
fn tool(server: &McpServer, entry: &Value) -> Result<Option<McpTool>, String> {
    let name = entry["name"].as_str().unwrap_or_default();
    if !(1..=MAX_TOOL_NAME).contains(&name.len()) || !name.chars().all(is_plain) {
        return Err("a tool has no valid name".into());
    }
    let is_named = |list: &[String]| list.iter().any(|known| known == name);
    let is_wanted = server.enabled_tools.is_empty() || is_named(&server.enabled_tools);
    // A call of it would always fail, because polylogue has no tasks.
    let needs_task = entry["execution"]["taskSupport"] == "required";
    if !is_wanted || is_named(&server.disabled_tools) || needs_task {
        return Ok(None);
    }
    let normal = tool_schema::normalise(&entry["inputSchema"]).map_err(|why| format!("{name}: {why}"))?;
    let about = entry["description"].as_str().or_else(|| entry["title"].as_str()).unwrap_or_default();
    let mut description: String = about.trim().chars().take(MAX_DESCRIPTION).collect();
    if let Some(note) = normal.note {
        description = format!("{description}\n{note}").trim().to_owned();
    }
    Ok(Some(McpTool {
        server: server.name.clone(),
        name: name.to_owned(),
        full_name: full_name(&server.name, name),
        description,
        parameters: normal.schema,
        headers: headers(&entry["inputSchema"]).map_err(|why| format!("{name}: {why}"))?,
        kind: McpCall::Tool,
    }))
}

/// The arguments that a server over HTTP wants repeated as headers (MCP 2026-07-28, `x-mcp-header`).
fn headers(schema: &Value) -> Result<Vec<(String, String)>, &'static str> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (property, part) in schema["properties"].as_object().into_iter().flatten() {
        let Some(header) = part.get("x-mcp-header") else { continue };
        let header = header.as_str().filter(|name| is_token(name)).ok_or("invalid header name")?;
        if !["string", "integer", "boolean"].iter().any(|kind| part["type"] == *kind) {
            return Err("only string, integer and boolean arguments can be headers");
        }
        let header = format!("Mcp-Param-{header}");
        if headers.iter().any(|(_, known)| known.eq_ignore_ascii_case(&header)) {
            return Err("two arguments for the same header");
        }
        headers.push((property.clone(), header));
    }
    Ok(headers)
}

/// Further resources of a server are left out.
pub const MAX_RESOURCES: usize = 500;
/// Further prompts of a server are left out.
pub const MAX_PROMPTS: usize = 100;
const MAX_ARGUMENTS: usize = 20;
/// In bytes.
const MAX_URI: usize = 2_000;
/// The width of what is shown about a resource or a prompt, in columns.
const ABOUT: usize = 200;

/// The resources in the answers to `resources/list`, or the templates in those to `resources/templates/list`.
pub fn resources(server: &str, listed: &[Value], is_template: bool) -> Vec<McpResource> {
    let key = if is_template { "uriTemplate" } else { "uri" };
    let resource = |entry: &Value| {
        let uri = entry[key].as_str().filter(|uri| (1..=MAX_URI).contains(&uri.len()) && uri.chars().all(is_plain))?;
        Some(McpResource { server: server.to_owned(), uri: uri.to_owned(), about: about(entry), is_template })
    };
    listed.iter().filter_map(resource).take(MAX_RESOURCES).collect()
}

/// The prompts in the answers to `prompts/list`. Those whose commands would have the same name become one.
pub fn prompts(server: &str, listed: &[Value]) -> Vec<McpPrompt> {
    let is_name = |name: &&str| (1..=MAX_TOOL_NAME).contains(&name.len()) && name.chars().all(is_plain);
    let argument = |entry: &Value| {
        let name = entry["name"].as_str().filter(is_name).filter(|name| !name.contains('='))?;
        Some((name.to_owned(), entry["required"] == true))
    };
    let mut prompts: Vec<McpPrompt> = Vec::new();
    for entry in listed {
        let Some(name) = entry["name"].as_str().filter(is_name) else { continue };
        let full_name = full_name(server, name);
        if prompts.len() < MAX_PROMPTS && prompts.iter().all(|known| known.full_name != full_name) {
            let arguments = entry["arguments"].as_array().into_iter().flatten().filter_map(argument);
            let arguments = arguments.take(MAX_ARGUMENTS).collect();
            let (server, name) = (server.to_owned(), name.to_owned());
            prompts.push(McpPrompt { server, name, full_name, about: about(entry), arguments });
        }
    }
    prompts
}

/// Whether a character can appear in a name or a URI without hiding anything.
fn is_plain(c: char) -> bool {
    !c.is_control() && !c.is_whitespace() && !text::is_unseen(c)
}

/// A description of an entry, in one line.
fn about(entry: &Value) -> String {
    let words = ["title", "description", "name"].iter().find_map(|key| entry[key].as_str());
    let line = words.unwrap_or_default().trim().lines().next().unwrap_or_default();
    text::shortened(&text::sanitise(line), ABOUT).into_owned()
}

/// The name that models call. Claude Code and Codex use the same form, and models know it.
pub fn full_name(server: &str, tool: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let full: String = format!("{PREFIX}{server}__{tool}").chars().map(|c| if is_fine(c) { c } else { '_' }).collect();
    if full.len() <= MAX_FULL_NAME { full } else { with_digest(&full, server, tool) }
}

fn with_digest(full: &str, server: &str, tool: &str) -> String {
    let digest = sha256(format!("{server}.{tool}"))[..DIGITS].to_owned();
    let start: String = full.chars().take(MAX_FULL_NAME - DIGITS - 1).collect();
    format!("{start}_{digest}")
}

/// Makes the names of the tools of all servers unique.
pub fn make_unique(tools: &mut [McpTool]) {
    let mut taken = BTreeSet::new();
    for tool in tools {
        let (full, mut name) = (tool.full_name.clone(), tool.name.clone());
        while !taken.insert(tool.full_name.clone()) {
            tool.full_name = with_digest(&full, &tool.server, &name);
            name.push('#');
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::domain::mcp::Transport;

    fn server() -> McpServer {
        McpServer {
            name: "s".into(),
            transport: Transport::Http { url: String::new(), headers: Vec::new() },
            written: Transport::Http { url: String::new(), headers: Vec::new() },
            net: Vec::new(),
            may_write: false,
            start_timeout: Duration::ZERO,
            call_timeout: Duration::ZERO,
            enabled_tools: Vec::new(),
            disabled_tools: vec!["off".into()],
            project: None,
            is_remote: false,
            source: String::new(),
        }
    }

    #[test]
    fn names_are_short_plain_and_unique() {
        assert_eq!(full_name("time", "get.time now"), "mcp__time__get_time_now");
        let long = [full_name("s", &"x".repeat(100)), full_name("s", &"x".repeat(101))];
        assert!(long.iter().all(|name| name.len() == 64) && long[0] != long[1], "{long:?}");
        let predicted = with_digest(&full_name("s", "a_b"), "s", "a_b");
        let predicted = predicted.strip_prefix("mcp__s__").expect("a name");
        let (mut tools, _) = tools(&server(), &["a.b", predicted, "a_b"].map(|name| json!({"name": name})));
        make_unique(&mut tools);
        assert_eq!(tools.iter().map(|tool| &tool.full_name).collect::<BTreeSet<_>>().len(), 3, "{tools:?}");
    }

    #[test]
    fn resources_and_prompts_that_hide_something_are_left_out() {
        let listed = [
            json!({"uri": "demo://a", "name": "a", "title": "A\u{1b}[2J"}),
            json!({"uri": "demo://a b"}),
            json!({"uri": "demo://\u{202e}a"}),
            json!({"name": "no uri"}),
        ];
        let found = resources("s", &listed, false);
        assert_eq!((found.len(), &*found[0].uri, found[0].about.contains('\u{1b}')), (1, "demo://a", false));
        let listed = [
            json!({"name": "a.b", "arguments": [{"name": "x", "required": true}, {"name": "y z"}, {"name": "q=r"}]}),
            json!({"name": "a_b"}),
            json!({"name": ""}),
        ];
        let found = prompts("s", &listed);
        assert_eq!((found.len(), &*found[0].full_name), (1, "mcp__s__a_b"));
        assert_eq!(found[0].arguments, [("x".to_owned(), true)]);
    }

    #[test]
    fn a_tool_may_have_the_name_of_the_start() {
        let listed = [json!({"name": "start"})];
        let asked = McpServer { net: vec!["example.org".parse().expect("a host")], ..server() };
        assert_eq!([server(), asked].map(|server| tools(&server, &listed).0.len()), [1, 1]);
    }

    #[test]
    fn tools_that_lie_are_left_out_and_the_others_stay() {
        let listed = [
            json!({"name": "good", "description": "Does good.", "inputSchema": {"type": "object"}}),
            json!({"name": "good"}),
            json!({"name": "off"}),
            json!({"name": "a\nb"}),
            json!({"name": "text", "inputSchema": {"type": "string"}}),
            json!({"name": "header", "inputSchema": {"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}}),
            json!({"name": "same", "inputSchema": {"properties": {
                "a": {"type": "string", "x-mcp-header": "Place"}, "b": {"type": "string", "x-mcp-header": "place"},
            }}}),
            json!({"name": "task", "execution": {"taskSupport": "required"}}),
            json!(7),
        ];
        let (tools, left_out) = tools(&server(), &listed);
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["good"]);
        assert_eq!(left_out.len(), 6, "{left_out:?}");
    }
}
