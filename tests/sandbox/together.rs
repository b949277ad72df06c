//! Two calls at the same time in one workspace, and work beside protected files further down.

use std::process::Command;
use std::thread;

use super::{Level, Place, everywhere};

#[test]
fn two_calls_at_once_neither_reach_nor_disturb_each_other() {
    // With namespaces the directory for temporary files has the same name in each, and the second call sees its own.
    let first = "echo mine > $TMPDIR/mine; echo $TMPDIR $$ > ready; cat go; cat $TMPDIR/mine; echo over";
    let second = "read directory pid < ready
        cat $directory/mine && echo read; echo theirs > $directory/mine; ls $directory | grep mine && echo listed
        [ $LEVEL = Landlock ] && { kill -9 $pid; kill -STOP $pid; cat /proc/$pid/environ && echo environment; }
        rm -f $directory/mine; echo > go; echo over";
    everywhere(|place, level| {
        let place = Place::new(place.user);
        let fifos = place.command("mkfifo").args(["ready", "go"]).status().expect("mkfifo");
        assert!(fifos.success());
        let second = format!("LEVEL={level:?}; exec 2> /dev/null; {second}");
        let [one, other] = thread::scope(|scope| {
            let one = scope.spawn(|| place.run(level, first));
            let other = scope.spawn(|| place.run(level, &second));
            [one, other].map(|call| call.join().expect("a call"))
        });
        assert_eq!((one.out.as_str(), one.code), ("\nmine\nover\n", Some(0)), "{level:?} {:?}", place.user);
        assert_eq!(other.out, if level == Level::Landlock { "over\n" } else { "mine\nlisted\nover\n" });
        assert_eq!((one.reports, other.reports, one.changes, other.changes), (vec![], vec![], vec![], vec![]));
    });
}

/// Each succeeds in a repository with instructions in `docs` and a repository in `deep/er/lib`.
const BESIDE: &[&str] = &[
    "mv docs/page docs/paper && mv docs/paper docs/page",
    "echo more >> docs/page && sed -i s/more/less/ docs/page",
    "mkdir docs/new && mv docs/page docs/new/page && mv docs/new/page docs/page && rmdir docs/new",
    "mv docs/page page && mv page docs/page",
    "git stash -q && git stash pop -q",
    "git commit -qam second && git checkout -q other && git checkout -q - && git merge -q other",
    "echo x > docs/junk && git clean -fdq && [ ! -e docs/junk ]",
    "mkdir -p build/x && echo x > build/x/f && ln build/x/f build/g && rm -r build",
    "cp -a docs copied && rm -r copied",
    "rm deep/er/file && echo x > deep/er/file && mv deep/er/file deep/file && mv deep/file deep/er/file",
];

/// Each fails where protected files are mounts.
const MOVES: &[&str] = &["git mv docs/page page", "mv deep deeper", "rm docs/AGENTS.md", "rm -r docs"];

fn has_git() -> bool {
    Command::new("git").arg("--version").output().is_ok()
}

#[test]
fn beside_protected_files_further_down_all_works_but_moving_them() {
    if !has_git() {
        return eprintln!("there is no git here: repositories are not tried");
    }
    let set_up = "git init -q . && git config user.name t && git config user.email t@localhost && mkdir -p docs deep/er
        echo text > docs/page; echo before > docs/AGENTS.md; echo x > deep/er/file; git init -q deep/er/lib
        git add docs deep/er/file && git commit -qm first && git checkout -qb other && echo x > docs/other && git add docs
        git commit -qm other && git checkout -q - && echo changed >> docs/page";
    everywhere(|place, level| {
        let place = Place::new(place.user);
        assert!(place.command("bash").args(["-ec", set_up]).status().expect("bash").success());
        for script in BESIDE {
            let response = place.run(level, script);
            assert_eq!(response.code, Some(0), "{level:?} {:?} {script}: {}", place.user, response.out);
            // Copies are told, and gone.
            assert!(script.contains("copied") || response.changes.is_empty(), "{script}: {:?}", response.changes);
        }
        for script in MOVES.iter().filter(|_| level.has_namespaces()) {
            let response = place.run(level, script);
            assert_ne!(response.code, Some(0), "{level:?} {script}");
            let signs = ["Device or resource busy", "Invalid cross-device link"];
            assert!(signs.iter().any(|sign| response.out.contains(sign)), "{script}: {}", response.out);
        }
        // Without the sandbox, also while a command runs, a person moves them.
        if level.has_namespaces() {
            let fifos = place.command("mkfifo").args(["ready", "go"]).status().expect("mkfifo");
            assert!(fifos.success());
            thread::scope(|scope| {
                let call = scope.spawn(|| place.run(level, "echo > ready; cat go; echo over"));
                let script =
                    "read < ready; mv docs/AGENTS.md docs/A && rm -r docs && mv deep deeper; s=$?; echo > go; exit $s";
                assert_eq!(place.command("bash").args(["-c", script]).status().expect("bash").code(), Some(0));
                assert_eq!(call.join().expect("a call").out, "\nover\n");
            });
        }
    });
}
