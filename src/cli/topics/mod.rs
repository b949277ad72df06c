//! The reference: one text a topic, printed by `polylogue help TOPIC` and contained in the manual page.
//!
//! The form of the texts, which `man` turns into roff: lines at column 0 are paragraphs, lines indented by two spaces begin
//! an item (a term, then its description after two spaces or on deeper lines), blocks indented by four are verbatim.

mod tables;

use std::fmt::Write as _;

use super::help;
use crate::base::error::{Error, Result};

pub struct Topic {
    pub name: &'static str,
    pub about: &'static str,
    pub text: fn() -> String,
}

pub const TOPICS: &[Topic] = &[
    Topic { name: "commands", about: "Commands in the chat", text: tables::commands },
    Topic { name: "keys", about: "Keys in the chat", text: tables::keys },
    Topic { name: "tools", about: "Tools that models can call", text: tables::tools },
    Topic { name: "approval", about: "What agents may do without a question", text: tables::approval },
    Topic { name: "files", about: "Which files the tools may open", text: tables::files },
    Topic { name: "network", about: "What commands reach of the network", text: || include_str!("network.txt").into() },
    Topic { name: "user-tools", about: "Programs of yours as tools", text: tables::user_tools },
    Topic { name: "mcp", about: "Tools of MCP servers", text: tables::mcp },
    Topic { name: "skills", about: "Instructions for certain tasks", text: || include_str!("skills.txt").into() },
    Topic { name: "hooks", about: "Programs that may object to tool calls", text: tables::hooks },
    Topic { name: "settings", about: "Configuration files and settings", text: tables::settings },
    Topic { name: "parameters", about: "Parameters of requests, and models to fall back on", text: tables::parameters },
    Topic { name: "environments", about: "Tools, directory and instructions of agents", text: tables::environments },
    Topic { name: "variables", about: "Environment variables", text: tables::variables },
    Topic { name: "scripts", about: "Use in scripts: polylogue --print", text: || include_str!("scripts.txt").into() },
    Topic { name: "server", about: "Agents that outlive the terminal", text: || include_str!("server.txt").into() },
    Topic { name: "editors", about: "Agents in an editor: polylogue acp", text: || include_str!("editors.txt").into() },
    Topic { name: "workflows", about: "Several agents on one task", text: || include_str!("workflows.txt").into() },
    Topic { name: "json", about: "JSON output", text: || include_str!("json.txt").into() },
    Topic { name: "trace", about: "What happens in the event loop", text: || include_str!("trace.txt").into() },
    Topic { name: "scenarios", about: "Replays of the event loop", text: || include_str!("scenarios.txt").into() },
    Topic { name: "exit-codes", about: "Exit codes", text: || include_str!("exit-codes.txt").into() },
    Topic { name: "echo", about: "The built-in model for trying things out", text: || include_str!("echo.txt").into() },
];

/// The help about a topic or the path of a subcommand.
pub fn help(path: &[String]) -> Result<String> {
    match path {
        [] => return Ok(help::overview()),
        [name] if name == "topics" => return Ok(list()),
        [name] => {
            if let Some(topic) = find(name) {
                return Ok((topic.text)());
            }
        }
        _ => {}
    }
    let mut command = help::command();
    let subcommand = path.iter().try_fold(&mut command, |command, word| command.find_subcommand_mut(word));
    subcommand.map(|command| command.render_long_help().to_string()).ok_or_else(|| {
        let name = path.join(" ");
        let message = format!("no help for {name:?}: polylogue help lists the topics; to send a prompt that begins with help, put -- before it");
        Error::usage(message)
    })
}

fn find(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

fn list() -> String {
    let mut list = "Topics of polylogue help TOPIC:\n".to_owned();
    for topic in TOPICS {
        // Writing into a `String` cannot fail.
        let _ = writeln!(list, "  {:<12} {}", topic.name, topic.about);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_fits_a_terminal_of_eighty_columns() {
        for topic in TOPICS {
            let text = (topic.text)();
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{}", topic.name);
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{}: {wide:?}", topic.name);
        }
    }

    #[test]
    fn help_prints_topics_and_subcommands_and_refuses_other_words() {
        let help = |path: &[&str]| help(&path.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let (overview, list) = (help(&[]).unwrap(), help(&["topics"]).unwrap());
        assert!(TOPICS.iter().all(|topic| overview.contains(topic.name) && list.contains(topic.about)));
        assert_eq!(help(&["json"]).unwrap(), include_str!("json.txt"));
        assert!(help(&["multi-agent", "run"]).unwrap().contains("--strategy"));
        assert!(help(&["nonsense"]).unwrap_err().message.contains("polylogue help lists the topics"));
    }
}
