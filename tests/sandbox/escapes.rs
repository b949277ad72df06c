//! Files, processes and the environment.

use std::fs;
use std::process::{Child, Command, Stdio};

use super::{Level, Place, SECRETS, everywhere, users};

/// At which levels an attempt succeeds although it should not: the gaps that `doctor` tells.
#[derive(PartialEq, Eq)]
pub enum Gap {
    None,
    /// Landlock has no right for it.
    Landlock,
}

/// Outside of the workspace. Each succeeds without the sandbox.
pub const FILES: &[(&str, &str, Gap)] = &[
    ("write outside", "echo x > $OUT/new", Gap::None),
    ("append outside", "echo x >> $OUT/file", Gap::None),
    ("write through ..", "echo x > ../../outside/new2", Gap::None),
    ("write through a link", "ln -s $OUT link && echo x > link/new3", Gap::None),
    ("write through a swapped directory", "mkdir d && mv d e && ln -s $OUT d && echo x > d/new4", Gap::None),
    ("hard link", "ln $OUT/file hard && echo x >> hard", Gap::None),
    ("move outside", "echo x > f && mv f $OUT/new5", Gap::None),
    ("remove outside", "touch $OUT/gone; rm $OUT/gone", Gap::None),
    ("write to the home", "echo x > ~/new", Gap::None),
    ("write to .bashrc", "echo x >> ~/.bashrc", Gap::None),
    ("chmod outside", "chmod 640 $OUT/file", Gap::Landlock),
    ("touch outside", "touch -d 2001-01-01 $OUT/file", Gap::Landlock),
    ("write to the system", "echo x > /etc/polylogue-test && rm /etc/polylogue-test", Gap::None),
    ("read a key", "cat ~/.ssh/id", Gap::None),
    ("list keys", "ls ~/.ssh", Gap::None),
    ("read through a link", "ln -s ~/.ssh/id key && cat key", Gap::None),
    ("read through /proc", "cat /proc/self/root$HOME/.ssh/id", Gap::None),
    ("read our store", "cat ~/.local/share/polylogue/polylogue.db", Gap::None),
    ("write our store", "echo x >> ~/.local/share/polylogue/polylogue.db", Gap::None),
    ("open our lock", "exec 3>> ~/.local/share/polylogue/lock", Gap::None),
    ("read our configuration", "cat ~/.config/polylogue/config.toml", Gap::None),
    (
        "move our data away",
        "mv ~/.local ~/.local2 && mkdir -p ~/.local/share && mv ~/.local2/share/* ~/.local/share",
        Gap::None,
    ),
];

fn expected(attempts: &[(&'static str, &str, Gap)], level: Level) -> Vec<&'static str> {
    let is_gap = |gap: &Gap| *gap == Gap::Landlock && level == Level::Landlock;
    attempts.iter().filter(|(.., gap)| is_gap(gap)).map(|(name, ..)| *name).collect()
}

#[test]
fn nothing_outside_the_workspace_is_written_and_no_secret_read() {
    everywhere(|place, level| {
        let attempts: Vec<_> = FILES.iter().map(|(name, line, _)| (*name, *line)).collect();
        let allowed = place.allowed(&place.path("home/work"), level, &attempts);
        assert_eq!(allowed, expected(FILES, level), "{level:?} {:?}", place.user);
        for file in ["outside/file", "home/.bashrc"] {
            assert_eq!(fs::read_to_string(place.path(file)).expect("a file"), "before\n");
        }
        let names = fs::read_dir(place.path("outside")).expect("a directory").count();
        assert_eq!(names, 1, "{level:?}");
    });
}

#[test]
fn everything_on_the_deny_list_is_unreadable_also_with_the_home_as_workspace() {
    everywhere(|place, level| {
        for workspace in ["home/work", "home"] {
            let attempts: Vec<(&str, String)> =
                SECRETS.iter().map(|file| (*file, format!("cat '{}'", place.path(file).display()))).collect();
            let attempts: Vec<(&str, &str)> = attempts.iter().map(|(name, line)| (*name, &**line)).collect();
            let allowed = place.allowed(&place.path(workspace), level, &attempts);
            assert_eq!(allowed, Vec::<&str>::new(), "{level:?} {workspace}");
            let moved = [
                ("move", "mv ~/.local ~/.other"),
                ("move deeper", "mv ~/.local/share ~/.other"),
                ("unmask", "rm ~/.ssh/id || mv ~/.ssh ~/.ssh2"),
                ("write", "echo x > ~/.ssh/new"),
            ];
            let allowed = place.allowed(&place.path(workspace), level, &moved);
            assert_eq!(allowed, Vec::<&str>::new(), "{level:?} {workspace}");
            assert!(SECRETS.iter().all(|file| place.path(file).is_file()));
        }
    });
}

#[test]
fn the_home_of_the_account_is_closed_as_well_where_home_names_another() {
    everywhere(|place, level| {
        for file in ["account/.ssh/id", "account/notes", "account/.cargo/tool", "account/.cargo/credentials.toml"] {
            fs::create_dir_all(place.path(file).parent().expect("a parent")).expect("a directory");
            fs::write(place.path(file), "SECRET\n").expect("a file");
        }
        place.own();
        let account = place.path("account").display().to_string();
        let lines = [".ssh/id", "notes", ".cargo/credentials.toml", ".cargo/tool"].map(|file| {
            let line = format!("cat {account}/{file}");
            (file, line)
        });
        let attempts: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (*name, &**line)).collect();
        let allowed = place.allowed(&place.path("home/work"), level, &attempts);
        assert_eq!(allowed, [".cargo/tool"], "{level:?} {:?}", place.user);
    });
}

#[test]
fn of_the_directory_of_caches_only_those_of_tool_chains_are_seen() {
    everywhere(|place, level| {
        for file in ["home/.cache/pip/wheel", "home/.cache/some-program/private"] {
            fs::create_dir_all(place.path(file).parent().expect("a parent")).expect("a directory");
            fs::write(place.path(file), "SECRET\n").expect("a file");
        }
        place.own();
        let attempts = [("a package", "cat ~/.cache/pip/wheel"), ("another", "cat ~/.cache/some-program/private")];
        let allowed = place.allowed(&place.path("home/work"), level, &attempts);
        assert_eq!(allowed, ["a package"], "{level:?} {:?}", place.user);
    });
}

#[test]
fn what_is_written_to_a_cache_is_gone_after_the_call() {
    everywhere(|place, level| {
        let response = place.run(level, "cat ~/.cargo/tool; echo x > ~/.cargo/new && cat ~/.cargo/new");
        assert!(response.out.starts_with("before\n"), "{level:?}: {}", response.out);
        if level != Level::Landlock {
            assert_eq!(response.out, "before\nx\n", "{level:?}");
        }
        assert!(!place.path("home/.cargo/new").exists());
    });
}

#[test]
fn a_cache_that_does_not_exist_can_be_filled_during_a_call() {
    everywhere(|place, level| {
        let script = "for d in .npm/_cacache .cache/pip/http go/pkg .gradle .m2/repository .nuget/packages; do
            mkdir -p ~/$d && echo filled > ~/$d/f && cat ~/$d/f; done; mkdir ~/.other 2> /dev/null || echo closed";
        fs::remove_dir_all(place.path("home/.cache")).expect("a directory");
        let out = place.run(level, script).out;
        // Landlock can only take away, and what is absent cannot be opened.
        let filled = if level.has_namespaces() { 6 } else { 0 };
        assert_eq!(out.matches("filled\n").count(), filled, "{level:?} {:?}: {out}", place.user);
        assert!(out.contains("closed\n"), "{level:?}: {out}");
        for cache in [".npm", ".cache", "go", ".gradle", ".m2", ".nuget"] {
            assert!(!place.path("home").join(cache).exists(), "{level:?} {cache}");
        }
        // Nothing is covered there: the directory would be a real one.
        let home = place.path("home");
        assert_eq!(place.run_in(&home, level, "ls -d ~/.npm ~/go 2> /dev/null").out, "");
    });
}

/// Files of the workspace that later programs obey.
const PROTECTED: &[(&str, &str, Gap)] = &[
    ("write .git/config", "echo x >> .git/config", Gap::Landlock),
    ("replace .git/config", "echo x > c && mv -f c .git/config", Gap::Landlock),
    ("write a hook", "echo x > .git/hooks/pre-commit", Gap::Landlock),
    ("replace AGENTS.md", "echo x > a && mv -f a AGENTS.md", Gap::Landlock),
    ("write AGENTS.md", "echo x >> AGENTS.md", Gap::Landlock),
    ("write .polylogue", "echo x > .polylogue/config.toml", Gap::Landlock),
    ("move .polylogue", "mv .polylogue p && mkdir .polylogue", Gap::Landlock),
    ("write the hooks of a nested repository", "echo x > nested/.git/hooks/pre-commit", Gap::Landlock),
    ("configure a repository further down", "echo x >> some/where/below/.git/config", Gap::Landlock),
    ("configure a submodule with a slash in its name", "echo x >> .git/modules/libs/one/config", Gap::Landlock),
    ("move .git", "mv .git g && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit", Gap::Landlock),
];

#[test]
fn protected_files_are_not_written_or_the_user_is_told() {
    everywhere(|place, level| {
        for directory in
            [".git/hooks", "nested/.git/hooks", "some/where/below/.git", ".git/modules/libs/one", ".polylogue"]
        {
            fs::create_dir_all(place.path("home/work").join(directory)).expect("a directory");
        }
        let further = [
            "some/where/below/.git/HEAD",
            "some/where/below/.git/config",
            ".git/modules/libs/one/HEAD",
            ".git/modules/libs/one/config",
        ];
        for file in [".git/config", ".git/HEAD", "AGENTS.md", "nested/.git/HEAD"].into_iter().chain(further) {
            fs::write(place.path("home/work").join(file), "before\n").expect("a file");
        }
        place.own();
        let attempts: Vec<_> = PROTECTED.iter().map(|(name, line, _)| (*name, *line)).collect();
        let allowed = place.allowed(&place.path("home/work"), level, &attempts);
        assert_eq!(allowed, expected(PROTECTED, level), "{level:?}");
        let told = place.run(level, "echo ../evil > .git/commondir; echo x > CLAUDE.md; echo x >> AGENTS.md").changes;
        let tells = |text: &str| told.iter().any(|line| line.contains(text));
        assert!(tells(".git/commondir was created during this command, and is removed"), "{told:?}");
        assert!(tells("CLAUDE.md was created during this command: instructions of agents"), "{told:?}");
        assert_eq!(tells("AGENTS.md was changed"), level == Level::Landlock, "{told:?}");
        assert!(!place.path("home/work/.git/commondir").exists());
    });
}

/// A process of the same user outside of the sandbox, which ends with the test.
struct Other(Child);

impl Other {
    fn of(place: &Place) -> Self {
        let mut command = place.command("sleep");
        Self(command.arg("1000").env("PROBE_SECRET", "SECRET").stdout(Stdio::null()).spawn().expect("a process"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("a child");
    }
}

#[test]
fn other_processes_are_out_of_reach() {
    everywhere(|place, level| {
        let mut other = Other::of(place);
        let pid = other.0.id();
        let lines = [
            ("environ of another", format!("grep -q SECRET /proc/{pid}/environ")),
            ("memory of another", format!("head -c 1 /proc/{pid}/mem")),
            ("root of another", format!("ls /proc/{pid}/root/")),
            ("descriptors of another", format!("head -c 0 /proc/{pid}/fd/0")),
            ("environ of the parent", "grep -q . /proc/$PPID/environ".into()),
            ("memory of the parent", "head -c 1 /proc/$PPID/mem".into()),
            ("descriptors of the parent", "ls -l /proc/$PPID/fd/ | grep -q -- '->'".into()),
            ("root of the parent", "ls /proc/$PPID/root/".into()),
            ("own memory", "exec 3> /proc/self/mem".into()),
            ("sysrq", "echo h > /proc/sysrq-trigger".into()),
            ("system settings", "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness".into()),
            ("a lower oom score", "echo -1000 > /proc/self/oom_score_adj".into()),
            ("signal to another", format!("kill -0 {pid}")),
            ("stop of another", format!("kill -STOP {pid}")),
            ("end of another", format!("kill -9 {pid}")),
        ];
        let lines: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (*name, &**line)).collect();
        let allowed = place.allowed(&place.path("home/work"), level, &lines);
        assert_eq!(allowed, Vec::<&str>::new(), "{level:?} {:?}", place.user);
        assert!(other.0.try_wait().expect("a child").is_none(), "{level:?}");
    });
}

#[test]
fn the_supervisor_and_the_init_process_survive_every_signal() {
    everywhere(|place, level| {
        let script = "for s in TERM STOP KILL; do kill -$s $PPID 2> /dev/null; done; sleep 0.01; echo alive";
        let response = place.run(level, script);
        assert_eq!((response.out.as_str(), response.code), ("alive\n", Some(0)), "{level:?}");
    });
}

#[test]
fn neither_keys_nor_the_agent_nor_descriptors_are_inherited() {
    everywhere(|place, level| {
        let response =
            place.run(level, "env; cat /proc/self/cmdline /proc/$PPID/cmdline; echo; ls /proc/self/fd | tr '\\n' ' '");
        assert!(!response.out.contains("SECRET") && !response.out.contains("SSH_AUTH_SOCK"), "{}", response.out);
        // The last one is the directory that ls reads.
        assert!(response.out.ends_with("\n0 1 2 3 "), "{level:?}: {}", response.out);
    });
}

#[test]
fn without_any_wall_a_command_gets_no_secret_and_leaves_no_process() {
    for user in users() {
        let place = Place::new(user);
        let mark = crate::support::scene::mark();
        let script = format!(
            "env; tr '\\0' ' ' < /proc/self/environ; cat /proc/self/cmdline /proc/$PPID/cmdline; echo
             ls /proc/self/fd | tr '\\n' ' '; (setsid bash -c \"trap '' TERM; sleep {mark}\" &)"
        );
        let response = place.run(Level::None, &script);
        assert!(!response.out.contains("SECRET") && !response.out.contains("SSH_AUTH_SOCK"), "{}", response.out);
        assert!(response.out.ends_with("\n0 1 2 3 "), "{user:?}: {}", response.out);
        assert!(!crate::support::scene::is_running(&mark), "{user:?}");
    }
}

#[test]
fn a_named_variable_is_given() {
    everywhere(|place, level| {
        let mut place = Place::new(place.user);
        place.settings.variables = vec!["OUT".into(), "SSH_AUTH_SOCK".into()];
        let response = place.run(level, "echo ${OUT:-none} ${SSH_AUTH_SOCK:-none}");
        assert_eq!(response.out, format!("{} none\n", place.path("outside").display()));
    });
}

#[test]
fn paths_that_the_person_opened_are_open() {
    everywhere(|place, level| {
        let mut place = Place::new(place.user);
        fs::create_dir_all(place.path("home/docs")).expect("a directory");
        fs::write(place.path("home/docs/read"), "a text\n").expect("a file");
        place.own();
        place.settings.read = vec![place.path("home/docs"), place.path("home/.ssh")];
        place.settings.write = vec![place.path("outside"), place.path("home/.aws")];
        let attempts = [
            ("read", "cat ~/docs/read"),
            ("write", "echo x > $OUT/new"),
            ("write what is read", "echo x > ~/docs/new"),
            ("read a key", "cat ~/.ssh/id"),
            ("write the deny list", "echo x > ~/.aws/new"),
        ];
        assert_eq!(place.allowed(&place.path("home/work"), level, &attempts), ["read", "write"], "{level:?}");
    });
}

#[test]
fn no_process_outlives_the_call() {
    everywhere(|place, level| {
        let mark = crate::support::scene::mark();
        let script =
            format!("(setsid bash -c \"trap '' TERM; sleep {mark}\" &); (nohup sleep {mark} > /dev/null 2>&1 &)");
        assert_eq!(place.run(level, &script).code, Some(0));
        assert!(!crate::support::scene::is_running(&mark), "{level:?}");
    });
}

#[test]
fn a_directory_of_a_repository_can_commit_and_the_rest_of_it_is_only_read() {
    if Command::new("git").arg("--version").output().is_err() {
        return eprintln!("there is no git here: repositories are not tried");
    }
    everywhere(|place, level| {
        let setup =
            "cd .. && git init -q repo && cd repo && git config user.name t && git config user.email t@localhost &&
            mkdir sub && echo a > top && git add top && git commit -q -m first";
        assert!(place.command("bash").args(["-c", setup]).status().expect("bash").success());
        let script = "echo a > f && git add f && git commit -q -m second && git status --short && echo clean";
        let response = place.run_in(&place.path("home/repo/sub"), level, script);
        assert_eq!(response.out, "clean\n", "{level:?} {:?}", place.user);
        let attempts = [("the rest", "echo x >> ../top"), ("a hook", "echo x > ../.git/hooks/pre-commit")];
        let allowed = place.allowed(&place.path("home/repo/sub"), level, &attempts);
        let gaps: &[&str] = if level == Level::Landlock { &["a hook"] } else { &[] };
        assert_eq!(allowed, gaps, "{level:?}");
    });
}

#[test]
fn a_worktree_can_commit_and_its_repository_is_protected() {
    if Command::new("git").arg("--version").output().is_err() {
        return eprintln!("there is no git here: worktrees are not tried");
    }
    everywhere(|place, level| {
        let setup =
            "cd ../ && git init -q repo && cd repo && git config user.name t && git config user.email t@localhost &&
            git commit -q --allow-empty -m first && git worktree add -q ../tree";
        let status = place.command("bash").args(["-c", setup]).status().expect("bash");
        assert!(status.success());
        let response = place.run_in(
            &place.path("home/tree"),
            level,
            "echo a > f && git add f && git commit -q -m second && echo fine",
        );
        assert_eq!(response.out, "fine\n", "{level:?} {:?}", place.user);
        let attempts = [
            ("configuration", "echo x >> ../repo/.git/config"),
            ("hook", "echo x > ../repo/.git/hooks/pre-commit"),
            ("another directory", "echo /tmp > ../repo/.git/worktrees/tree/commondir"),
            ("the working tree", "echo x > ../repo/file"),
        ];
        let allowed = place.allowed(&place.path("home/tree"), level, &attempts);
        let gaps: &[&str] =
            if level == Level::Landlock { &["configuration", "hook", "another directory"] } else { &[] };
        assert_eq!(allowed, gaps, "{level:?}");
    });
}
