//! What a command leaves behind for programs that obey it later: repositories, instructions of agents, hooks.

use std::process::Command;

use polylogue::config::SandboxSettings;
use serde_json::json;

use super::{Level, Place, everywhere};
use crate::support::internals::sandbox::Policy;
use crate::support::internals::tools::{Environment, Output, Running};
use crate::support::internals::{ToolCall, tools};
use crate::support::program::PROGRAM;

fn has_git() -> bool {
    let has = Command::new("git").arg("--version").output().is_ok();
    if !has {
        eprintln!("there is no git here: repositories are not tried");
    }
    has
}

/// A script outside of the sandbox.
pub fn set_up(place: &Place, script: &str) {
    let mut command = place.command("bash");
    command.args(["-ec", script]).env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(command.status().expect("bash").success(), "{script}");
}

#[test]
fn what_a_command_creates_is_told() {
    const CREATED: &[(&str, &str)] = &[
        ("mkdir -p sub/.git/hooks && echo x > sub/.git/hooks/pre-commit", "sub/.git"),
        ("mkdir -p deep/er && echo 'gitdir: /tmp' > deep/er/.git", "deep/er/.git"),
        ("mkdir -p bare/objects bare/refs && echo 'ref: x' > bare/HEAD", "bare"),
        ("mkdir d && echo x > d/AGENTS.md", "d/AGENTS.md"),
        ("mkdir e && echo x > e/Claude.md", "e/Claude.md"),
        ("mkdir -p f/.claude && echo {} > f/.claude/settings.json", "f/.claude"),
        ("mkdir g && echo {} > g/.mcp.json", "g/.mcp.json"),
        ("mkdir -p .agents/skills/x && echo x > .agents/skills/x/SKILL.md", ".agents"),
        ("mkdir h && ln -s ../d h/.polylogue", "h/.polylogue"),
        ("mkdir moved && mkdir m && mv m moved/.claude", "moved/.claude"),
    ];
    everywhere(|place, level| {
        for (script, created) in CREATED {
            let response = place.run(level, script);
            assert_eq!(response.code, Some(0), "{level:?} {script}: {}", response.out);
            let expected = format!("{created} was created during this command: ");
            let is_told = response.changes.len() == 1 && response.changes[0].starts_with(&expected);
            assert!(is_told, "{level:?} {script}: {:?}", response.changes);
        }
        let harmless = "mkdir -p x/HEAD && echo x > AGENTS.txt && rm -r sub/.git/hooks/none; echo x > .gitignore";
        assert_eq!(place.run(level, harmless).changes, Vec::<String>::new(), "{level:?}");
    });
}

#[test]
fn repositories_and_instructions_below_the_top_are_protected_however_large_the_tree_is() {
    everywhere(|place, level| {
        // Files are made slowly on some machines: once is enough.
        if level == Level::Namespaces && place.user.is_none() {
            set_up(place, "for d in $(seq 90); do mkdir a$d; for f in $(seq 50); do : > a$d/$f; done; done");
        }
        set_up(
            place,
            "mkdir -p z/y/x/repo/.git z/doc; echo before > z/y/x/repo/.git/config; : > z/y/x/repo/.git/HEAD
             echo before > z/doc/AGENTS.md; ln -s ../doc/AGENTS.md z/y/CLAUDE.md
             mkdir -p z/node_modules/p; echo before > z/node_modules/p/CLAUDE.md",
        );
        let attempts = [
            ("configure", "echo x >> z/y/x/repo/.git/config"),
            ("instruct", "echo x >> z/doc/AGENTS.md"),
            ("through a link", "echo x >> z/y/CLAUDE.md"),
            ("move", "mv z/doc z/other"),
        ];
        let allowed = place.allowed(&place.path("home/work"), level, &attempts);
        let gaps = if level == Level::Landlock { attempts.map(|(name, _)| name).to_vec() } else { vec![] };
        assert_eq!(allowed, gaps, "{level:?}");
        let replaced = place.run(level, "echo x >> z/node_modules/p/CLAUDE.md && rm -r z/node_modules");
        assert_eq!(replaced.code, Some(0), "{level:?}: {}", replaced.out);
        let told = place.run(level, "mkdir -p n/node_modules/p; echo x > n/node_modules/p/CLAUDE.md").changes;
        assert_eq!(told.len(), 1, "{level:?}: {told:?}");
    });
}

#[test]
fn the_directory_of_hooks_and_the_files_that_a_configuration_names_are_protected() {
    everywhere(|place, level| {
        set_up(
            place,
            "mkdir -p .git .husky/_ shared/mine; : > .git/HEAD; echo before > .husky/_/pre-commit; echo before > shared/git
             printf '[core]\nhooksPath = .husky/_\n[include]\npath = ../shared/git\n' > .git/config
             printf '[core]\nhooksPath = shared/mine\n' > ~/.gitconfig",
        );
        let attempts = [
            ("write a hook", "echo x >> .husky/_/pre-commit"),
            ("add a hook", "echo x > .husky/_/post-checkout"),
            ("move the hooks", "mv .husky h"),
            ("add a personal hook", "echo x > shared/mine/pre-commit"),
            ("write an included file", "echo x >> shared/git"),
        ];
        let allowed = place.allowed(&place.path("home/work"), level, &attempts);
        let gaps = if level == Level::Landlock { attempts.map(|(name, _)| name).to_vec() } else { vec![] };
        assert_eq!(allowed, gaps, "{level:?}");
        set_up(place, "printf '[core]\nhooksPath = later\n' > .git/config");
        let told = place.run(level, "mkdir later && echo x > later/pre-commit").changes;
        assert!(told.len() == 1 && told[0].starts_with("later was created"), "{level:?}: {told:?}");
    });
}

pub fn environment(place: &Place, level: Level) -> Environment {
    Environment {
        supervisor: PROGRAM.into(),
        sandbox: Policy::new(SandboxSettings::default()).at_level(level),
        ..Environment::at(place.path("home/work"))
    }
}

pub fn prepared(env: &Environment, command: &str) -> tools::Prepared {
    let arguments = json!({ "command": command }).to_string();
    tools::find("bash").expect("a tool").prepare(&arguments, env).expect("arguments")
}

/// Runs a command by the tool, as an agent does.
pub fn run(env: &Environment, command: &str) -> (Output, Vec<String>) {
    let call = ToolCall { id: "call-1".into(), name: "bash".into(), arguments: String::new() };
    let (sender, wakes) = std::sync::mpsc::sync_channel(1);
    let wake = std::sync::Arc::new(move || sender.send(()).unwrap_or_default());
    let tool = tools::find("bash").expect("a tool");
    let running = Running::start(tool, call, prepared(env, command), std::sync::Arc::new(env.clone()), wake);
    let running = running.expect("a thread");
    wakes.recv_timeout(crate::support::PATIENCE).expect("an end");
    let warnings = running.warnings();
    let result = running.collect();
    (Output { content: result.content, is_error: result.is_error, warnings: Vec::new(), changed: None }, warnings)
}

pub fn bash(place: &Place, level: Level, command: &str) -> (Output, Vec<String>) {
    run(&environment(place, level), command)
}

/// A machine that is busy may leave the search no time, which is said first.
fn is_whole(told: &[String]) -> bool {
    !told[0].contains("the workspace was not searched whole")
}

#[test]
fn decoys_neither_end_the_protection_nor_hide_what_was_changed() {
    let place = Place::new(None);
    if !super::levels(&place).contains(&Level::Namespaces) {
        return eprintln!("there are no namespaces here");
    }
    let decoys = "for d in $(seq -w 200); do mkdir -p a$d/.claude; : > a$d/.claude/x; : > a$d/AGENTS.md; done
        mkdir -p z/deep n/node_modules/p; echo before > z/deep/AGENTS.md; echo before > n/node_modules/p/CLAUDE.md";
    set_up(&place, decoys);
    let work = place.path("home/work");
    let attempts =
        [("instruct", "echo x >> z/deep/AGENTS.md"), ("move", "mv z y"), ("a decoy", "echo x > a200/AGENTS.md")];
    assert_eq!(place.allowed(&work, Level::Namespaces, &attempts), Vec::<&str>::new());
    // What a package manager replaces is not protected, but compared.
    let many = |round| format!("mkdir -p $(seq -f b{round}-%g/.git 100); echo x >> n/node_modules/p/CLAUDE.md");
    let mut told = (0..).map(|round| place.run(Level::Namespaces, &many(round)).changes);
    let told = told.find(|told| is_whole(told)).expect("a search that was not cut");
    assert!(told[0].starts_with("n/node_modules/p/CLAUDE.md was changed"), "{told:?}");
    assert_eq!(told.len(), 101);
    // The tool shows the beginning, and names a file with all of it.
    let many = |round| format!("mkdir -p $(seq -f c{round}-%g/.git 300)");
    let mut told = (0..).map(|round| bash(&place, Level::Namespaces, &many(round)));
    let (output, warnings) = told.find(|(_, told)| is_whole(told)).expect("a search that was not cut");
    assert!(warnings.len() == 21 && warnings[20].contains("280 more protected files"), "{warnings:?}");
    let file = warnings[20].rsplit(' ').next().expect("a file");
    let all = std::fs::read_to_string(file).expect("all of them");
    assert_eq!((all.lines().count(), output.content.contains(file)), (300, true), "{}", output.content);
    // Past the limit it asks.
    set_up(&place, "for d in $(seq -w 1000); do mkdir d$d; : > d$d/AGENTS.md; done");
    let (output, _) = bash(&place, Level::Namespaces, "true");
    assert!(output.content.contains("more than 1000 protected files"), "{}", output.content);
}

#[test]
fn git_config_says_why_it_fails_and_what_to_do() {
    if !has_git() {
        return;
    }
    let place = Place::new(None);
    for level in super::levels(&place).into_iter().filter(|level| level.has_namespaces()) {
        let place = Place::new(None);
        set_up(&place, "git init -q .");
        for command in ["git config user.name x", "git remote add origin https://example.org/x"] {
            let (output, _) = bash(&place, level, command);
            assert!(output.content.contains("[the sandbox may be the cause: commands cannot change the configuration"));
            assert!(output.content.contains("git -c NAME=VALUE"), "{level:?}: {}", output.content);
        }
    }
}

#[test]
fn the_model_and_the_person_are_told() {
    let place = Place::new(None);
    for level in super::levels(&place) {
        let place = Place::new(None);
        let (output, warnings) = bash(&place, level, "mkdir -p sub/.git; echo made");
        let line = "sub/.git was created during this command: git runs its hooks and the programs that its configuration names";
        assert_eq!(output.content, format!("made\n[protected: {line}]\n"), "{level:?}");
        assert!(!output.is_error);
        assert_eq!(warnings, [format!("bash: {line}")]);
    }
}

#[test]
fn a_failure_that_the_sandbox_may_have_caused_says_so() {
    let place = Place::new(None);
    for level in super::levels(&place) {
        let cause = |command: &str| bash(&Place::new(None), level, command).0.content;
        let outside = cause("touch /usr/polylogue-test");
        assert!(outside.contains("[the sandbox may be the cause: commands write only in the workspace"), "{outside}");
        assert!(outside.ends_with("[exit code 1]"), "{outside}");
        let network = cause("getent hosts example.invalid || { echo 'Could not resolve host'; exit 2; }");
        assert!(network.contains("[the sandbox may be the cause: commands have no network"), "{network}");
        assert!(!cause("echo no; exit 3").contains("sandbox"));
        assert!(!cause("echo 'Read-only file system'").contains("sandbox"), "it did not fail");
    }
}

#[test]
fn a_partial_clone_fetches_nothing_through_a_program_that_it_names() {
    if !has_git() {
        return;
    }
    let clone = "git init -q src && cd src && git config user.name t && git config user.email t@localhost &&
        git config uploadpack.allowFilter true && echo text > f && git add f && git commit -q -m first && cd .. &&
        git -c protocol.file.allow=always clone -q --no-checkout --filter=blob:none file://$PWD/src part && cd part &&
        git config protocol.ext.allow always && git config remote.origin.url \"ext::touch $PWD/../ran\"";
    everywhere(|place, level| {
        set_up(place, clone);
        place.run(level, "cd part && git show HEAD:f; git checkout -f");
        assert!(!place.path("home/work/ran").exists(), "{level:?}");
    });
    let place = Place::new(None);
    set_up(&place, clone);
    set_up(&place, "cd part && ! git show HEAD:f 2> /dev/null");
    assert!(place.path("home/work/ran").exists(), "without the variable git runs it");
}

#[test]
fn a_git_file_that_a_command_wrote_opens_no_other_directory() {
    everywhere(|place, level| {
        set_up(place, "mkdir -p ../victim/.git/worktrees/w ../victim/.git/objects; : > ../victim/.git/HEAD");
        let attempts =
            [("write in it", "echo x > ../victim/.git/new"), ("configure it", "echo x >> ../victim/.git/config")];
        for link in [
            "echo 'gitdir: ../victim/.git/worktrees/w' > .git",
            "rm .git; ln -s ../victim/.git .git",
            "rm .git; mkdir .git
             echo ../../victim/.git > .git/commondir; : > .git/HEAD",
        ] {
            set_up(place, link);
            assert_eq!(
                place.allowed(&place.path("home/work"), level, &attempts),
                Vec::<&str>::new(),
                "{level:?} {link}"
            );
        }
    });
}
