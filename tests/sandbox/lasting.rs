//! Processes that last wait for what somebody else creates, and change it then.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use polylogue::config::Policy;
use serde_json::json;

use super::obeyed::{environment, run, set_up};
use super::{Level, Place, everywhere};
use crate::support::eventually;
use crate::support::harness::{Harness, Plan};

/// Waits until somebody has made a repository, and tries to become a part of it.
const WAITS: &str = "until [ -e .git/HEAD ]; do sleep 0.01; done
    echo x > .git/hooks/pre-commit && echo planted
    echo x >> .git/config && echo configured
    mv .git g && mkdir -p .git/hooks && echo moved
    rmdir .git/hooks && echo removed
    rmdir .claude && ln -s src .claude && echo linked
    mkdir .vscode/x && echo made
    echo x > .husky/pre-commit && echo hooked
    echo done";

#[test]
fn what_appears_while_a_process_lasts_is_protected_from_it() {
    everywhere(|place, level| {
        if !level.has_namespaces() {
            return;
        }
        let place = Place { is_lasting: true, ..Place::new(place.user) };
        let work = place.path("home/work");
        let response = std::thread::scope(|scope| {
            let running = scope.spawn(|| place.run(level, &format!("exec 2> /dev/null; {WAITS}")));
            eventually(|| work.join(".git").is_dir());
            set_up(&place, "mkdir .git/hooks; echo before > .git/config; echo x > .git/HEAD");
            running.join().expect("a thread")
        });
        assert_eq!(response.out, "done\n", "{level:?} {:?}", place.user);
        assert_eq!(fs::read_to_string(work.join(".git/config")).expect("a file"), "before\n");
        assert!(response.changes[0].starts_with(".git was created during this command"), "{:?}", response.changes);
        let left: Vec<_> = fs::read_dir(&work).expect("a directory").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".git"], "covers are removed");
        assert_eq!(work.join(".git").metadata().expect("a directory").permissions().mode() & 0o7777, 0o755);
    });
}

#[test]
fn covers_are_neither_in_the_way_of_other_commands_nor_reported() {
    let place = Place::new(None);
    if !super::levels(&place).contains(&Level::Namespaces) {
        return eprintln!("there are no namespaces here");
    }
    let lasting = Place { is_lasting: true, ..Place::new(None) };
    let work = lasting.path("home/work");
    std::thread::scope(|scope| {
        let running = scope.spawn(|| lasting.run(Level::Namespaces, "until [ -e go ]; do sleep 0.01; done; ls -A"));
        eventually(|| work.join(".agents").is_dir());
        let env = environment(&lasting, Level::Namespaces);
        let (output, warnings) =
            run(&env, "git init -q . && git add -A && git status --short; ls -d .claude; echo made");
        assert!(output.content.contains(".claude\nmade\n"), "{}", output.content);
        assert!(!output.content.contains(".claude was"), "{}", output.content);
        assert!(warnings.iter().all(|line| line.contains(".git was created")), "{warnings:?}");
        fs::write(work.join("go"), "").expect("a file");
        let response = running.join().expect("a thread");
        assert!(response.changes.iter().all(|line| line.starts_with(".git was created")), "{:?}", response.changes);
    });
    assert!(work.join(".git").is_dir() && !work.join(".claude").exists());
}

#[test]
fn the_person_is_told_while_a_command_in_the_background_runs() {
    let mut app =
        Harness::new(Plan { policy: Policy::Yolo, rules: Default::default(), real_time: true, ..Plan::default() });
    // Commands that name a protected file ask.
    let command = "F=AGENTS; echo x > $F.md; until [ -e go ]; do sleep 0.01; done";
    app.say(0, &format!("%tool bash {}", json!({"command": command, "run_in_background": true})));
    app.turn_until("a warning", |app| app.screen_text().contains("AGENTS.md was created during this command"));
    fs::write(app.directory().join("go"), "").expect("a file");
    app.turn_until("the end", |app| app.screen_text().contains("ended: exit code 0"));
    assert_eq!(app.screen_text().matches("AGENTS.md was created").count(), 1, "{}", app.screen_text());
}
