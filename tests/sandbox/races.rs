//! Other processes that change something while the sandbox is built.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use polylogue::config::SandboxSettings;
use serde_json::json;

use super::{Level, Place, levels, users};
use crate::support::internals::sandbox::Policy;
use crate::support::internals::tools::Environment;
use crate::support::internals::{ToolCall, tools};
use crate::support::program::PROGRAM;
use crate::support::write_executable;

#[test]
fn a_mount_that_is_moved_meanwhile_does_not_stay_writable() {
    // Not below /tmp, which the sandbox replaces.
    const MOVES: &str = "mount -t tmpfs none /mnt && mkdir -p /mnt/a/m && mount -t tmpfs none /mnt/a/m || exit 1
        setsid bash -c 'cd /mnt; while mv a b; do mv b a; done' 0<&- >&- 2>&- &";
    for user in users() {
        let place = Place { before: Some(MOVES.into()), ..Place::new(user) };
        if place.run(Level::None, "true").code != Some(0) {
            return eprintln!("there are no namespaces here: no mount is moved");
        }
        for level in levels(&Place::new(user)).into_iter().filter(|level| level.has_namespaces()) {
            for _ in 0..10 {
                let place = Place { before: Some(MOVES.into()), ..Place::new(user) };
                // Behind the mounts, Landlock would deny it as well.
                let out = place.run(level, "grep -E '/mnt/[ab]/m [^ ]*' -o /proc/self/mountinfo; echo done").out;
                let is_kept = out.lines().all(|line| line == "done" || line.contains("/m ro,"));
                assert!(out.ends_with("done\n") && is_kept, "{level:?} {user:?}: {out}");
            }
        }
    }
}

fn run(env: &Environment, command: &str, between: impl FnOnce()) -> String {
    let bash = tools::find("bash").expect("a tool");
    let arguments = json!({"command": command}).to_string();
    let prepared = bash.prepare(&arguments, env).expect("arguments");
    between();
    let call = ToolCall { id: "call-1".into(), name: "bash".into(), arguments };
    let (sender, wakes) = std::sync::mpsc::sync_channel(1);
    let wake = std::sync::Arc::new(move || sender.send(()).unwrap_or_default());
    let running =
        tools::Running::start(bash, call, prepared, std::sync::Arc::new(env.clone()), wake).expect("a thread");
    wakes.recv_timeout(crate::support::PATIENCE).expect("an end");
    running.collect().content
}

fn environment(place: &Place) -> Environment {
    Environment {
        supervisor: PROGRAM.into(),
        sandbox: Policy::new(SandboxSettings::default()),
        ..Environment::at(place.path("home/work"))
    }
}

#[test]
fn a_repository_that_is_removed_meanwhile_stops_no_command() {
    let place = Place::new(None);
    let tops: Vec<_> = (0..8).map(|n| place.path("home/work").join(format!("clone-{n}"))).collect();
    commands_start_beside(&place, &environment(&place), || {
        for top in &tops {
            let git = top.join("below/.git");
            // What a command that starts protects may be kept for a moment.
            let made = fs::create_dir_all(git.join("hooks"));
            made.and_then(|()| fs::write(git.join("HEAD"), "ref: refs/heads/main\n")).unwrap_or_default();
        }
        tops.iter().for_each(|top| fs::remove_dir_all(top).unwrap_or_default());
    });
}

#[test]
fn hidden_files_that_are_removed_meanwhile_stop_no_command() {
    let place = Place::new(None);
    let keys: Vec<_> = (0..8).map(|n| place.path("home").join(format!("key-{n}"))).collect();
    let settings = SandboxSettings { hidden: keys.clone(), ..SandboxSettings::default() };
    let env = Environment { sandbox: Policy::new(settings), ..environment(&place) };
    commands_start_beside(&place, &env, || {
        keys.iter().for_each(|key| fs::write(key, "secret").unwrap_or_default());
        keys.iter().for_each(|key| fs::remove_file(key).unwrap_or_default());
    });
}

/// Runs commands while something else is repeated.
fn commands_start_beside(place: &Place, env: &Environment, repeated: impl Fn() + Sync) {
    if !levels(place).iter().any(|level| level.has_namespaces()) {
        return eprintln!("there are no namespaces here: nothing is mounted");
    }
    let is_over = AtomicBool::new(false);
    let contents: Vec<String> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                repeated();
            }
        });
        let contents = (0..20).map(|_| run(env, "echo started", || {})).collect();
        is_over.store(true, Ordering::Relaxed);
        contents
    });
    assert!(contents.iter().all(|content| content.contains("started\n")), "{contents:?}");
}

#[test]
fn a_failure_in_one_workspace_takes_no_walls_from_the_others() {
    let place = Place::new(None);
    if !levels(&place).contains(&Level::Namespaces) {
        return eprintln!("there are no namespaces here");
    }
    let supervisor = place.path("supervisor");
    let work = place.path("home/work");
    let script = format!(
        "#!/bin/sh\nif [ \"$PWD\" = '{}' ]; then printf '%s\\n' '{{\"Unavailable\":\"swapped\"}}' >&0; exit 126; fi\n\
         exec {PROGRAM} \"$@\"\n",
        work.display()
    );
    write_executable(&supervisor, script.as_bytes());
    let env = Environment { supervisor, ..environment(&place) };
    let content = run(&env, "touch it-ran", || {});
    assert_eq!(content, "[not started: the sandbox cannot be set up here: swapped]");
    assert_eq!(env.sandbox.level(), Level::Namespaces);
    assert!(!work.join("it-ran").exists());
}

#[test]
fn a_command_that_was_judged_by_stronger_walls_does_not_run_behind_weaker_ones() {
    let place = Place::new(None);
    for weaker in [Level::Landlock, Level::None] {
        let env = environment(&place);
        let weaken = || {
            let mut level = env.sandbox.level();
            while level != weaker {
                level = env.sandbox.falls_from(level);
            }
        };
        let content = run(&env, "touch it-ran", weaken);
        assert!(content.starts_with("[not started: cannot create the full sandbox"), "{content}");
        assert!(!place.path("home/work/it-ran").exists());
        assert!(!env.is_sandboxed(), "auto asks");
        let again = run(&env, "touch it-ran", || {});
        assert!(!again.contains("not started") || weaker == Level::Landlock, "{again}");
        fs::remove_file(place.path("home/work/it-ran")).unwrap_or_default();
    }
}
