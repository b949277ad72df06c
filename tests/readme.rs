//! The help topics, the manual page and the README agree with the program.

use std::path::Path;
use std::process::Command;

use crate::support::internals::commands;

const TOPICS: &[&str] = &[
    "commands",
    "keys",
    "tools",
    "approval",
    "files",
    "network",
    "user-tools",
    "mcp",
    "hosts",
    "skills",
    "hooks",
    "settings",
    "parameters",
    "environments",
    "variables",
    "scripts",
    "server",
    "editors",
    "workflows",
    "json",
    "trace",
    "scenarios",
    "exit-codes",
    "echo",
    "review",
];

fn output_of(arguments: &[&str]) -> String {
    let output = crate::support::output(Command::new(env!("CARGO_BIN_EXE_polylogue")).args(arguments));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The items of a topic with their descriptions, each in one line.
fn items(topic: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in output_of(&["help", topic]).lines() {
        let text = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match (line.len() - line.trim_start().len(), items.last_mut()) {
            (2, _) => items.push(text),
            (3.., Some(item)) => *item += &format!(" {text}"),
            _ => {}
        }
    }
    items
}

#[test]
fn the_help_lists_every_command_and_key_and_no_other() {
    let joined = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let commands = commands::all().map(|spec| joined(format!("/{} {} {}", spec.name, spec.arguments, spec.about)));
    assert_eq!(items("commands"), commands.collect::<Vec<_>>());
    let keys = items("keys");
    for shown in
        ["Enter send; if empty: retry now", "Ctrl+J, Alt+Enter insert a line break (newline)", "Alt+0 .. Alt+9 "]
    {
        assert!(keys.iter().any(|item| item.starts_with(shown)), "{shown}: {keys:#?}");
    }
}

#[test]
fn the_manual_page_contains_every_option_subcommand_setting_and_topic() {
    let page = output_of(&["man"]).replace("\\-", "-").replace("\\*(Aq", "'").replace("\\fB", "").replace("\\fR", "");
    let help = output_of(&["--help"]);
    let options = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned);
    let shown = output_of(&["config", "show", "--config", "/dev/null"]);
    let names = shown.lines().filter_map(|line| line.trim_start_matches("# ").split_once(" = ")).map(|(name, _)| name);
    let terms = TOPICS.iter().flat_map(|topic| {
        let text = output_of(&["help", topic]);
        let items = text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        items.map(|line| line.trim_start().split("  ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    });
    let expected: Vec<String> = options.chain(names.map(str::to_owned)).chain(terms).collect();
    assert!(expected.len() > 150, "{expected:?}");
    let is_missing =
        |word: &&String| !page.contains(word.trim_end_matches([',', '.', ':']).trim_end_matches(['\'', '`']));
    let missing: Vec<&String> = expected.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn help_lists_exactly_the_topics_that_are_tested() {
    let help = output_of(&["help", "topics"]);
    let list = help.split("Topics of polylogue help TOPIC:\n").nth(1).expect("a list of topics");
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, TOPICS);
}

#[test]
fn every_path_in_the_readme_exists() {
    let readme = include_str!("../README.md");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let code = readme.split('`').skip(1).step_by(2);
    let paths: Vec<&str> = code.filter(|word| word.starts_with("src/") || word.starts_with("tests/")).collect();
    assert!(paths.len() > 10, "{paths:?}");
    let missing: Vec<&&str> = paths.iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_target_of_make_in_the_readme_exists() {
    let makefile = include_str!("../Makefile");
    let code = include_str!("../README.md").split('`').skip(1).step_by(2);
    let commands = code.flat_map(str::lines).filter_map(|line| line.trim().strip_prefix("make "));
    let targets: Vec<&str> = commands.filter_map(|rest| rest.split_whitespace().next()).collect();
    assert!(targets.len() > 3, "{targets:?}");
    let missing: Vec<&&str> = targets.iter().filter(|target| !makefile.contains(&format!("\n{target}:"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
