//! What a project has for Claude Code, as it is used here.

use super::*;
use crate::domain::rule::Rule;

fn write(scene: &Scene, path: &str, text: &str) {
    let path = scene.home.path().join("work/.claude").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn scene() -> Scene {
    let scene = Scene::new();
    write(
        &scene,
        "commands/issue.md",
        "---\ndescription: Fix an issue\nallowed-tools: Bash(gh:*)\n---\nFix $ARGUMENTS.",
    );
    write(&scene, "commands/front/component.md", "State: !`git status`. Write $1.");
    write(&scene, "agents/team/reviewer.md", "---\nname: reviewer\ndescription: Reviews\n---\nReview.");
    let settings = r#"{"permissions": {"deny": ["Bash(curl:*)", "Read(./.env)", "WebSearch"], "ask": ["Bash(git push:*)"],
        "allow": ["Bash(ls:*)"], "defaultMode": "acceptEdits"}}"#;
    write(&scene, "settings.json", settings);
    scene
}

#[test]
fn commands_definitions_and_what_is_refused_hold_once_they_are_trusted() {
    let scene = scene();
    let found = |scene: &Scene| {
        let config = scene.config();
        let commands = config.commands.iter().map(|command| command.name.clone()).collect::<Vec<_>>();
        let rules = |rules: &[Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (deny, ask) = (rules(&config.rules.deny), rules(&config.rules.ask));
        let definitions = config.definitions.iter().map(|definition| definition.name.clone()).collect::<Vec<_>>();
        assert!(config.rules.allow.is_empty());
        (commands.join(" "), deny.join(" "), ask.join(" "), definitions.join(" "))
    };
    let none = (String::new(), String::new(), String::new(), String::new());
    assert_eq!(found(&scene), none);
    let notes = scene.config().notes;
    assert!(notes.iter().any(|note| note.contains(".claude") && note.contains("polylogue config trust")), "{notes:?}");
    scene.trust();
    let all = found(&scene);
    assert_eq!((all.0.as_str(), all.2.as_str(), all.3.as_str()), ("component issue", "bash(git push:*)", "reviewer"));
    assert!(all.1.starts_with("bash(curl:*) read(.env) "), "{}", all.1);
    let issue = scene.config().commands[1].clone();
    assert_eq!((issue.description.as_str(), issue.body.as_str()), ("Fix an issue", "Fix $ARGUMENTS."));
    write(&scene, "commands/issue.md", "changed");
    write(&scene, "settings.json", r#"{"permissions": {"deny": ["Bash"]}}"#);
    let all = found(&scene);
    assert_eq!((all.0.as_str(), all.1.as_str()), ("component", ""));
}

#[test]
fn what_is_not_used_is_said_in_one_line_each() {
    let scene = scene();
    write(&scene, "settings.local.json", r#"{"permissions": {"deny": ["Bash(rm:*)"]}}"#);
    scene.trust();
    let notes = scene.config().notes;
    for part in [
        "the commands beside it: not supported, and ignored: !`COMMAND`, which is sent as text, allowed-tools",
        "settings.json: permissions.deny: WebSearch: not supported, and ignored",
        "settings.json: permissions: not read: allow, defaultMode; what is allowed is in [rules] of your configuration",
        "settings.local.json: not read; use [[hooks]] and [rules] in your configuration",
    ] {
        assert_eq!(notes.iter().filter(|note| note.contains(part)).count(), 1, "{part}: {notes:#?}");
    }
    assert_eq!(notes.len(), 4, "{notes:#?}");
    write(&scene, "settings.json", r#"{"permissions": {"allow": ["Bash(ls:*)"]}}"#);
    let notes = scene.config().notes;
    assert!(notes.iter().any(|note| note.contains("permissions: not read: allow;")), "{notes:#?}");
    assert!(!notes.iter().any(|note| note.contains("config trust")), "it brings nothing to trust: {notes:#?}");
}

#[test]
fn relative_paths_of_the_settings_hold_below_the_directory_of_the_project_too() {
    let scene = scene();
    scene.trust();
    let mut env = scene.env();
    env.directory = scene.home.path().join("work/deep");
    let config = load(&Arguments::read(["polylogue"]).unwrap(), &env).into_config().unwrap();
    let root = scene.home.path().canonicalize().unwrap().join("work");
    let expected: Rule = format!("read({}/.env)", root.display()).parse().unwrap();
    assert!(config.rules.deny.contains(&expected), "{:?}", config.rules.deny);
}
