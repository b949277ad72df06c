//! What an agent that works elsewhere knows of the project there: instructions, skills, definitions and MCP servers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use polylogue::config::{AgentDefinition, Author, Policy};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::instructions_in;
use super::remote::{There, call, content};
#[cfg(feature = "mcp")]
use crate::mcp::{offered, server};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::peer::Peer;
use crate::support::program::Home;
use crate::support::scene::answer_next;
use crate::support::write_executable;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, text).expect("a file");
}

fn digests(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()).collect()
}

const CLAUDE: &str = "See @docs/style.md @../outside.md @link.md @.private/key.md";
const SKILL: &str = "---\nname: tidy\ndescription: Tidies.\n---\nSort $ARGUMENTS.\n";

/// A repository there, whose agents work below its root.
fn project() -> There {
    let there = There::new();
    for (name, text) in [
        ("app/.git/HEAD", ""),
        ("app/AGENTS.md", "At the root."),
        ("app/src/CLAUDE.md", CLAUDE),
        ("app/src/docs/style.md", "The style."),
        ("app/src/.private/key.md", "hidden key"),
        ("outside.md", "outside"),
        ("app/src/.claude/skills/tidy/SKILL.md", SKILL),
        ("app/src/.claude/skills/tidy/scripts/run.sh", "true"),
        ("app/.agents/skills/other/SKILL.md", "---\nname: other\ndescription: Is not trusted.\n---\nx\n"),
    ] {
        write(&there.path(name), text);
    }
    std::os::unix::fs::symlink(there.path("outside.md"), there.path("app/src/link.md")).expect("a link");
    there
}

/// An app that has entered it, with what is trusted.
fn entered(there: &There, plan: Plan) -> Harness {
    let trusted_instructions = digests(&["At the root.", CLAUDE, "The style.", "outside", "hidden key", SKILL]);
    let mut app = Harness::new(Plan { trusted_instructions, ..plan });
    app.enter(&format!("/env ssh:web1:{}", there.path("app/src").display()));
    app.turn_until("the environment", |app| app.repl.roster().len() == 2);
    app
}

#[test]
fn instructions_and_skills_of_the_place_are_used_as_far_as_they_are_trusted() {
    let there = project();
    let mut app = entered(&there, there.plan(Policy::Yolo));
    let inputs = &app.agent(1).inputs;
    let (root, style) = (there.path("app/AGENTS.md"), there.path("app/src/docs/style.md"));
    for (path, text) in [(root, "At the root."), (style, "The style.")] {
        let expected = format!("\n\nInstructions from ssh:web1:{}:\n{text}", path.display());
        assert!(inputs.system.contains(&expected), "{}", inputs.system);
    }
    for absent in ["hidden key", "\noutside"] {
        assert!(!inputs.system.contains(absent), "{}", inputs.system);
    }
    let skills = &inputs.environment.skills;
    assert_eq!(skills.skills.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["tidy"]);
    let place = format!("polylogue config trust ssh:web1:{}", there.path("app/src").display());
    assert!(
        skills.problems[0].contains("other/SKILL.md: ignored: new or changed") && skills.problems[0].ends_with(&place)
    );
    let text = content(&mut app, 1, "skill", json!({"name": "tidy", "arguments": "it"}));
    let folder = there.path("app/src/.claude/skills/tidy");
    assert_eq!(
        text,
        format!(
            "Skill tidy\nFolder: {} (relative paths begin here)\nFiles: scripts/run.sh\n\nSort it.",
            folder.display()
        )
    );
    assert_eq!(content(&mut app, 1, "read_file", json!({"file_path": folder.join("scripts/run.sh")})), "1\ttrue");
    write(&folder.join("SKILL.md"), &SKILL.replace("Sort", "Delete"));
    let refused = call(&mut app, 1, "skill", json!({"name": "tidy"}));
    assert!(refused.is_error && refused.content.contains("changed since the user trusted it"), "{}", refused.content);
}

#[test]
fn what_is_not_trusted_there_is_named_and_not_used() {
    let there = project();
    let mut app = Harness::new(there.plan(Policy::Yolo));
    app.resize((200, 40));
    app.enter(&format!("/env ssh:web1:{}", there.path("app").display()));
    app.turn_until("the environment", |app| app.repl.roster().len() == 2);
    let inputs = &app.agent(1).inputs;
    assert!(!inputs.system.contains("At the root.") && inputs.environment.skills.skills.is_empty());
    let source = &inputs.environment.sources[0];
    let command = format!("polylogue config trust ssh:web1:{}", there.path("app").display());
    assert!(source.contains("AGENTS.md: ignored: new or changed") && source.ends_with(&command), "{source}");
}

#[test]
fn the_first_message_after_a_restart_waits_for_the_instructions_and_not_for_a_host_that_is_gone() {
    let (there, peer) = (project(), Peer::start());
    let program_path = there.plan(Policy::Ask).program_path;
    let app = entered(&there, Plan { program_path, real_time: true, ..Plan::peer(&peer.url()) });
    let mut app = app.crash_and_restart();
    assert!(!app.agent(1).inputs.system.contains("At the root."), "nothing is connected at the start");
    app.say(1, "hello");
    let body = answer_next(&mut app, &peer, 1, "hi");
    assert!(instructions_in(&body).contains("At the root."), "{}", instructions_in(&body));
    let mut app = app.crash_and_restart();
    write_executable(&there.path("../bin/ssh"), b"#!/bin/sh\nexit 255\n");
    app.say(1, "hello");
    let body = answer_next(&mut app, &peer, 1, "hi");
    assert!(!instructions_in(&body).contains("At the root."));
    assert!(app.agent(1).inputs.environment.sources[0].contains("AGENTS.md there: not read: cannot reach web1"));
}

#[test]
fn a_definition_chooses_among_the_tools_there() {
    let there = project();
    let critic = AgentDefinition {
        name: "critic".into(),
        description: "Finds faults.".into(),
        tools: Some(vec!["read_file".into(), "bash".into()]),
        model: None,
        policy: Some(Policy::Yolo),
        prompt: "You are the critic.".into(),
        author: Author::Person,
        source: "critic.md".into(),
        project: None,
    };
    let mut app = entered(&there, Plan { definitions: vec![critic], ..there.plan(Policy::Yolo) });
    app.switch(1);
    app.enter("/fork --as critic");
    app.turn_until("the child", |app| app.repl.roster().len() == 3);
    let tools = |app: &Harness| -> Vec<&str> {
        app.agent(2).inputs.environment.tools.iter().map(|tool| tool.declaration.name).collect()
    };
    assert_eq!(tools(&app), ["bash", "read_file"]);
    let system = app.agent(2).inputs.system.to_string();
    assert!(system.starts_with("You are the critic.") && system.contains("At the root."), "{system}");
    let here = format!("{}\n", there.path("app/src").display());
    assert_eq!(content(&mut app, 2, "bash", json!({"command": "pwd"})), here);
    let mut app = app.crash_and_restart();
    app.reconfigure(|plan| Plan { policy: Policy::Yolo, ..plan });
    assert_eq!(tools(&app), ["bash", "read_file"]);
    assert_eq!(content(&mut app, 2, "bash", json!({"command": "pwd"})), here);
}

#[test]
#[cfg(feature = "mcp")]
fn a_server_is_for_agents_elsewhere_only_if_it_says_so() {
    let (there, peer) = (project(), Peer::start());
    let program_path = there.plan(Policy::Ask).program_path;
    let mcp = vec![server("legacy"), polylogue::config::McpServer { is_remote: true, ..server("modern") }];
    let mut app = entered(&there, Plan { program_path, mcp, real_time: true, ..Plan::peer(&peer.url()) });
    write_executable(&app.directory().join("server.sh"), include_bytes!("../mcp/server.sh"));
    app.say(1, "hello");
    let body = answer_next(&mut app, &peer, 1, "hi");
    let request = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(offered(&request), ["mcp__modern__first", "mcp__modern__second"]);
    app.resize((120, 60));
    app.switch(1);
    app.enter("/tools");
    crate::support::scene::assert_shows(
        &mut app,
        "MCP server that works on this machine: remote = true in [mcp.NAME] offers it",
    );
    crate::support::scene::assert_shows(&mut app, "MCP server: first, second");
}

#[test]
fn the_files_of_a_place_are_trusted_as_those_of_this_machine_are() {
    let (there, mut home) = (project(), Home::new());
    let bin = there.path("../bin").display().to_string();
    home.variables.push(("PATH".into(), format!("{bin}:{}", std::env::var("PATH").expect("a path"))));
    let place = format!("ssh:web1:{}", there.path("app").display());
    let shown = home.run(&["config", "trust", "--yes", &place]);
    assert!(shown.code == 0 && shown.out.contains("At the root.") && shown.out.contains("trusted until"), "{shown:?}");
    assert!(shown.out.contains("other/SKILL.md (new)"), "{shown:?}");
    assert!(home.run(&["config", "trust", &place]).out.contains("already trusted"));
    let failed = home.run(&["config", "trust", "ssh:refusing:/srv"]);
    assert!(failed.code != 0 && failed.err.contains("cannot reach refusing by ssh"), "{failed:?}");
}
