//! Protected files that are symbolic links, lead through some, or have other names.

use super::obeyed::{environment, prepared, run, set_up};
use super::{Level, Place, everywhere};

/// What is set up outside of the sandbox, and attempts to change what later programs obey.
const LINKED: &[(&str, &[(&str, &str)])] = &[
    (
        "mkdir .git .githooks; : > .git/HEAD; ln -s ../.githooks .git/hooks; echo before > .githooks/pre-commit",
        &[
            ("replace the link", "rm .git/hooks; mkdir .git/hooks"),
            ("put a directory in its place", "mkdir h; mv -Tf h .git/hooks"),
            ("lead it elsewhere", "mkdir h2; ln -sfn ../h2 .git/hooks && [ $(readlink .git/hooks) = ../h2 ]"),
            ("change a hook", "echo x > .githooks/pre-commit"),
            ("add a hook", "echo x > .git/hooks/post-commit"),
            ("move the hooks", "mv .githooks g && mkdir .githooks"),
            ("move .git", "mv .git g2"),
        ],
    ),
    (
        "mkdir .git meta; : > .git/HEAD; echo before > meta/gitconfig; ln -s ../meta/gitconfig .git/config",
        &[
            ("replace the link", "echo x > c; mv -f c .git/config"),
            ("write the configuration", "echo x >> .git/config"),
            ("write its target", "echo x >> meta/gitconfig"),
            ("move its directory", "mv meta m && mkdir meta && echo x > meta/gitconfig"),
        ],
    ),
    (
        "echo before > AGENTS.md; ln -s AGENTS.md CLAUDE.md; mkdir below; ln -s ../AGENTS.md below/CLAUDE.md",
        &[
            ("replace", "echo x > c; mv -f c CLAUDE.md"),
            ("remove", "rm CLAUDE.md"),
            ("remove below", "rm below/CLAUDE.md"),
            ("move its directory", "mv below b"),
            ("write through it", "echo x >> below/CLAUDE.md"),
        ],
    ),
    (
        "mkdir -p dot/real/skills one; ln -s one/two .claude; ln -s ../dot one/two; echo before > dot/settings.json
         mkdir other; echo before > other/SKILL.md; ln -s ../../../other dot/real/skills/x",
        &[
            ("write through the links", "echo x > .claude/settings.json"),
            ("write the target", "echo x > dot/settings.json"),
            ("replace the first link", "ln -sfn other .claude && [ $(readlink .claude) = other ]"),
            ("replace the second link", "rm one/two"),
            ("move the directory of the second link", "mv one three"),
            ("write through a link in the directory", "echo x > .claude/real/skills/x/SKILL.md"),
            ("write the target of that link", "echo x > other/SKILL.md"),
        ],
    ),
    (
        "mkdir servers; echo before > servers/mcp; ln -s servers/mcp .mcp.json",
        &[("replace", "rm .mcp.json; echo x > .mcp.json"), ("write", "echo x > servers/mcp")],
    ),
    (
        "mkdir -p real/.git/hooks; : > real/.git/HEAD; echo before > real/.git/config; ln -s real/.git .git",
        &[
            ("configure", "echo x >> .git/config"),
            ("add a hook", "echo x > real/.git/hooks/pre-commit"),
            ("replace the link", "rm .git && mkdir -p .git/hooks"),
        ],
    ),
    (
        "mkdir -p .git/hooks checks; : > .git/HEAD; echo before > checks/x; ln -s ../../checks/x .git/hooks/pre-commit",
        &[("change what a hook leads to", "echo x > checks/x"), ("move it", "mv checks c; mkdir checks")],
    ),
];

#[test]
fn a_protected_link_stays_where_it_is_and_what_it_leads_to_stays_as_it_is() {
    everywhere(|place, level| {
        for (script, attempts) in LINKED {
            let place = Place::new(place.user);
            set_up(&place, script);
            let allowed = place.allowed(&place.path("home/work"), level, attempts);
            // Without mounts nothing in the workspace is protected, and auto asks for every command.
            assert!(allowed.is_empty() == level.has_namespaces(), "{level:?} {script}: {allowed:?}");
        }
    });
}

#[test]
fn protected_links_are_as_usable_as_before() {
    let place = Place::new(None);
    for level in super::levels(&place) {
        let place = Place::new(None);
        set_up(
            &place,
            "echo text > AGENTS.md; ln -s AGENTS.md CLAUDE.md; mkdir skills; ln -s skills .agents; : > skills/x",
        );
        let response = place.run(level, "cat CLAUDE.md; readlink CLAUDE.md; ls .agents; ls -d *");
        assert_eq!(response.out, "text\nAGENTS.md\nx\nAGENTS.md\nCLAUDE.md\nskills\n", "{level:?}");
        assert_eq!((response.reports, response.changes), (vec![], vec![]));
    }
}

/// What mounts cannot keep from commands: then the tool asks first.
const UNPROTECTED: &[(&str, &str, &str)] = &[
    ("mkdir .git; : > .git/HEAD; echo before > other; ln other .git/config", "echo x > other", "hard links"),
    ("mkdir -p .git/hooks; echo x > t; ln t .git/hooks/pre-commit; : > .git/HEAD", "echo y > t", "hard links"),
    ("ln -s . .claude", "echo {} > settings.json", "contains the workspace"),
    ("ln -s missing CLAUDE.md", "echo x > missing", "does not exist"),
    ("ln -s /proc/self/cwd/x .claude", "mkdir x", "is unknown"),
    ("ln -s .agents .agents", "rm .agents", "is unknown"),
    ("mkdir .git; : > .git/HEAD; ln -s /dev/zero .git/config", "true > x", "cannot be read as a configuration"),
    ("mkdir .git; : > .git/HEAD; mkfifo .git/config", "true > x", "cannot be read as a configuration"),
    ("mkdir .git; : > .git/HEAD; printf '[core]\nhooksPath = .\n' > .git/config", "echo x > pre-commit", "contains"),
];

#[test]
fn what_cannot_be_protected_is_asked_for() {
    let place = Place::new(None);
    if !super::levels(&place).contains(&Level::Namespaces) {
        return eprintln!("there are no namespaces here");
    }
    for (script, command, why) in UNPROTECTED {
        let place = Place::new(None);
        set_up(&place, script);
        let env = environment(&place, Level::Namespaces);
        let [first, second] = [(), ()].map(|()| run(&env, command).0.content);
        assert!(first.starts_with("[not started: the sandbox cannot protect everything here: "), "{script}: {first}");
        assert!(first.contains(why) && first.contains("call again to ask"), "{script}: {first}");
        assert!(!second.contains("not started"), "{script}: {second}");
        assert!(!env.is_sandboxed(), "{script}: auto asks");
        let prepared = prepared(&env, command);
        assert!(prepared.question.detail.iter().any(|line| line.starts_with("not protected: ")), "{script}");
        // What was in the way is gone.
        set_up(&place, "rm -rf .git .claude .agents CLAUDE.md");
        run(&env, "true");
        assert!(env.is_sandboxed(), "{script}");
    }
}
