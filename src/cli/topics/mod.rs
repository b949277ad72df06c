//! The reference: one text a topic, printed by `polylogue help TOPIC` and contained in the manual page.
//!
//! The form of the texts, which `man` turns into roff: lines at column 0 are paragraphs, lines indented by two spaces begin
//! an item (a term, then its description after two spaces or on deeper lines), blocks indented by four are verbatim.

mod tables;

use std::fmt::Write as _;

use super::help;
use crate::base::error::{Error, Result};
use crate::features::FEATURES;

#[derive(Clone, Copy)]
pub struct Topic {
    pub name: &'static str,
    pub about: &'static str,
    text: Text,
}

#[derive(Clone, Copy)]
enum Text {
    Generated(fn() -> String),
    Fixed(&'static str),
}

impl Topic {
    const fn generated(name: &'static str, about: &'static str, text: fn() -> String) -> Self {
        Self { name, about, text: Text::Generated(text) }
    }

    const fn fixed((name, about, text): (&'static str, &'static str, &'static str)) -> Self {
        Self { name, about, text: Text::Fixed(text) }
    }

    pub fn text(&self) -> String {
        match self.text {
            Text::Generated(make) => make(),
            Text::Fixed(text) => text.to_owned(),
        }
    }
}

/// All topics, those of features at the end.
pub fn topics() -> impl Iterator<Item = Topic> {
    TOPICS.iter().copied().chain(FEATURES.iter().filter_map(|feature| feature.topic.map(Topic::fixed)))
}

const TOPICS: &[Topic] = &[
    Topic::generated("commands", "Commands in the chat", tables::commands),
    Topic::generated("keys", "Keys in the chat", tables::keys),
    Topic::generated("tools", "Tools that models can call", tables::tools),
    Topic::generated("approval", "What agents may do without a question", tables::approval),
    Topic::generated("files", "Which files the tools may open", tables::files),
    Topic::fixed(("network", "What commands reach of the network", include_str!("network.txt"))),
    Topic::generated("user-tools", "Programs of yours as tools", tables::user_tools),
    Topic::generated("mcp", "Tools of MCP servers", tables::mcp),
    Topic::generated("hosts", "Claude Code, Codex and others as agents", tables::hosts),
    Topic::fixed(("skills", "Instructions for certain tasks", include_str!("skills.txt"))),
    Topic::generated("hooks", "Programs that may object to tool calls", tables::hooks),
    Topic::generated("settings", "Configuration files and settings", tables::settings),
    Topic::generated("parameters", "Parameters of requests, and models to fall back on", tables::parameters),
    Topic::generated("environments", "Tools, directory and instructions of agents", tables::environments),
    Topic::generated("variables", "Environment variables", tables::variables),
    Topic::fixed(("scripts", "Use in scripts: polylogue --print", include_str!("scripts.txt"))),
    Topic::fixed(("server", "Agents that outlive the terminal", include_str!("server.txt"))),
    Topic::fixed(("editors", "Agents in an editor: polylogue acp", include_str!("editors.txt"))),
    Topic::fixed(("workflows", "Several agents on one task", include_str!("workflows.txt"))),
    Topic::fixed(("json", "JSON output", include_str!("json.txt"))),
    Topic::fixed(("trace", "What happens in the event loop", include_str!("trace.txt"))),
    Topic::fixed(("scenarios", "Replays of the event loop", include_str!("scenarios.txt"))),
    Topic::fixed(("exit-codes", "Exit codes", include_str!("exit-codes.txt"))),
    Topic::fixed(("echo", "The built-in model for trying things out", include_str!("echo.txt"))),
];

/// The help about a topic or the path of a subcommand.
pub fn help(path: &[String]) -> Result<String> {
    match path {
        [] => return Ok(help::overview()),
        [name] if name == "topics" => return Ok(list()),
        [name] => {
            if let Some(topic) = find(name) {
                let is_subcommand = help::command().find_subcommand(name).is_some();
                let more = format!("\nThe options of the subcommand: polylogue {name} --help\n");
                return Ok(topic.text() + if is_subcommand { &more } else { "" });
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

fn find(name: &str) -> Option<Topic> {
    topics().find(|topic| topic.name == name)
}

fn list() -> String {
    let mut list = "Topics of polylogue help TOPIC:\n".to_owned();
    for topic in topics() {
        // Writing into a `String` cannot fail.
        let _ = writeln!(list, "  {:<12} {}", topic.name, topic.about);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_with_the_name_of_a_subcommand_says_where_its_options_are() {
        let help_of = |name: &str| help(&[name.to_owned()]).unwrap();
        assert!(help_of("review").ends_with("The options of the subcommand: polylogue review --help\n"));
        assert!(!help_of("approval").contains("subcommand: "));
    }

    #[test]
    fn every_topic_fits_a_terminal_of_eighty_columns() {
        for topic in topics() {
            let text = topic.text();
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{}", topic.name);
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{}: {wide:?}", topic.name);
        }
    }

    #[test]
    fn help_prints_topics_and_subcommands_and_refuses_other_words() {
        let help = |path: &[&str]| help(&path.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let (overview, list) = (help(&[]).unwrap(), help(&["topics"]).unwrap());
        assert!(topics().all(|topic| overview.contains(topic.name) && list.contains(topic.about)));
        assert_eq!(help(&["json"]).unwrap(), include_str!("json.txt"));
        assert!(help(&["multi-agent", "run"]).unwrap().contains("--strategy"));
        assert!(help(&["nonsense"]).unwrap_err().message.contains("polylogue help lists the topics"));
    }
}
