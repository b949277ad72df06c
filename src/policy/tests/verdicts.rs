//! Policies and rules on every kind of request.

use super::*;

struct Case {
    policy: Policy,
    rules: Rules,
    sandboxed: bool,
}

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
    let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Rules { allow: parse(allow), ask: parse(ask), deny: parse(deny) }
}

impl Case {
    fn new(policy: Policy, rules: Rules) -> Self {
        Self { policy, rules, sandboxed: false }
    }

    /// `f`ree, `a`sks or `r`efused.
    fn of(&self, request: &Request<'_>) -> char {
        let permissions = Permissions {
            policy: self.policy,
            rules: &self.rules,
            sandboxed: self.sandboxed,
            workspace: Path::new("/w"),
            home: Some(Path::new("/home/me")),
        };
        match decide(&permissions, request) {
            Verdict::Free => 'f',
            Verdict::Ask(_) => 'a',
            Verdict::Unasked(_) | Verdict::Refuse(_) => 'r',
        }
    }

    fn read(&self, path: &str) -> char {
        self.of(&Request::Read { path: Path::new(path), place: &place(path) })
    }

    fn write(&self, path: &str) -> char {
        let protected = path.contains("AGENTS.md");
        let place = if protected { Place::AskProtected } else { place(path) };
        self.of(&Request::Write { path: Path::new(path), place: &place })
    }

    fn command(&self, text: &str) -> char {
        let resolve = |read: &Read| {
            let path = Path::new("/w").join(&read.path);
            let place = place(&path.to_string_lossy());
            (path, place)
        };
        let request = CommandRequest { text, directory: None, distrust: None, resolve: &resolve };
        self.of(&Request::Command(request))
    }
}

fn place(path: &str) -> Place {
    match path {
        _ if path.contains(".ssh") => Place::Denied("SSH keys"),
        _ if path.contains("/../") => Place::AskOutside(path.into()),
        _ if path.starts_with("/w/") || path == "/w" => Place::Free,
        _ => Place::AskOutside(path.into()),
    }
}

/// The verdicts under plan, never, ask, auto (without and with a sandbox) and yolo.
fn under_all(judge: impl Fn(&Case) -> char, rules: &Rules) -> String {
    let mut verdicts = String::new();
    for policy in Policy::ALL {
        let mut case = Case::new(policy, rules.clone());
        verdicts.push(judge(&case));
        if policy == Policy::Auto {
            case.sandboxed = true;
            verdicts.push(judge(&case));
        }
    }
    verdicts
}

#[test]
fn every_policy_has_its_verdict_on_every_request() {
    let none = Rules::default();
    let verdicts = |judge: &dyn Fn(&Case) -> char| under_all(judge, &none);
    assert_eq!(verdicts(&|case| case.read("/w/a")), "ffffff");
    assert_eq!(verdicts(&|case| case.read("/etc/hosts")), "araaaf");
    assert_eq!(verdicts(&|case| case.read("/home/me/.ssh/id")), "rrrrrr");
    assert_eq!(verdicts(&|case| case.write("/w/a")), "rraaff");
    assert_eq!(verdicts(&|case| case.write("/w/AGENTS.md")), "rraaaa");
    assert_eq!(verdicts(&|case| case.write("/etc/hosts")), "rraaaf");
    assert_eq!(verdicts(&|case| case.write("/home/me/.ssh/id")), "rrrrrr");
    assert_eq!(verdicts(&|case| case.command("make; rm x")), "rraaff");
    assert_eq!(verdicts(&|case| case.command("echo x > .git/config")), "rraaaa");
    assert_eq!(verdicts(&|case| case.of(&Request::Network { host: "example.org" })), "araaaf");
    for private in ["127.0.0.1", "localhost:8080", "a.localhost", "[::1]", "10.1.2.3", "169.254.169.254"] {
        assert_eq!(verdicts(&|case| case.of(&Request::Network { host: private })), "araaaa", "{private}");
    }
    assert_eq!(verdicts(&|case| case.of(&Request::Mcp { server: "s", tool: "t" })), "rraaaf");
    let tool = |needs_network| Request::Tool { name: "t", needs_network };
    assert_eq!(verdicts(&|case| case.of(&tool(false))), "rraaff");
    assert_eq!(verdicts(&|case| case.of(&tool(true))), "rraaaf");
    let fork = |is_other_provider| Request::Fork { model: "p/m", is_other_provider };
    assert_eq!(verdicts(&|case| case.of(&Request::McpStart { server: "s" })), "rraaaf");
    assert_eq!(verdicts(&|case| case.of(&fork(false))), "ffffff");
    assert_eq!(verdicts(&|case| case.of(&fork(true))), "araaaf");
    assert_eq!(verdicts(&|case| case.of(&Request::Change)), "rraaff");
}

#[test]
fn what_a_lesser_policy_allows_a_greater_one_allows_too() {
    let rules = rules(&["bash(make*)", "edit(src/**)", "mcp(s)"], &["bash(git push*)"], &["bash(rm *)"]);
    for command in ["ls", "make x", "git push", "rm x", "ls /etc", "make && ls", "echo x > AGENTS.md", "touch a"] {
        let verdicts = under_all(|case| case.command(command), &rules);
        assert!(!verdicts.trim_start_matches(['a', 'r']).contains(['a', 'r']), "{command}: {verdicts}");
    }
}

#[cfg(feature = "shell-grammar")]
#[test]
fn every_simple_command_needs_a_rule_of_its_own_or_only_reads() {
    let allow = ["cargo test:*", "git status*", "X=2 ./check", "python run.py"].map(|text| format!("bash({text})"));
    let allow: Vec<&str> = allow.iter().map(String::as_str).chain(["read(/usr/share/**)"]).collect();
    let rules = rules(&allow, &[], &[]);
    let case = Case::new(Policy::Ask, rules);
    for (command, expected) in [
        ("cargo test --all", 'f'),
        ("cargo test && git status -s | head", 'f'),
        ("cd src && cargo test", 'f'),
        ("cargo test; cargo build", 'a'),
        ("cargo test > log", 'a'),
        ("X=1 cargo test", 'a'),
        ("X=2 ./check", 'f'),
        ("X=2 ./check && cargo test | head", 'f'),
        ("X=2 ./check --all", 'a'),
        ("X=1 ./check", 'a'),
        ("X=2 Y=3 ./check", 'a'),
        ("./check", 'a'),
        ("LC_ALL=C ls", 'a'),
        ("python run.py", 'f'),
        ("echo x | python run.py", 'a'),
        ("python run.py < in", 'a'),
        ("cargo test $(x)", 'a'),
        ("git 'status; rm x'", 'a'),
        ("./cargo test", 'a'),
        ("cargo test .git/hooks", 'a'),
        ("ls", 'f'),
        ("cat /usr/share/doc/a", 'f'),
        ("cat /etc/hosts", 'a'),
        ("cat < /etc/hosts", 'a'),
        ("cd /etc && cat hosts", 'a'),
        ("cat ../x", 'a'),
        ("cat /home/me/.ssh/id", 'r'),
    ] {
        assert_eq!(case.command(command), expected, "{command}");
    }
    let plan = Case::new(Policy::Plan, case.rules);
    assert_eq!((plan.command("cargo test"), plan.command("ls | wc"), plan.command("cat /etc/hosts")), ('r', 'f', 'a'));
}

#[cfg(feature = "shell-grammar")]
#[test]
fn a_command_that_changes_the_shell_leaves_nothing_free_behind_it() {
    let case = Case::new(Policy::Ask, rules(&["bash(export *)", "bash(cd *)", "bash(touch *)"], &[], &[]));
    assert_eq!(case.command("touch a && ls"), 'f');
    assert_eq!(case.command("export PATH=x && ls"), 'a');
    assert_eq!(case.command("cd .. && cat a"), 'a');
}

#[test]
fn deny_wins_over_ask_and_ask_over_allow() {
    let all = ["bash(*)", "edit(**)", "read(**)", "net(*)", "tool(*)", "mcp(*)", "fork(*)"];
    let requests = |case: &Case| {
        let network = case.of(&Request::Network { host: "Example.ORG." });
        let mine = case.of(&Request::Tool { name: "t", needs_network: true });
        let tool = case.of(&Request::Mcp { server: "s", tool: "t" });
        let fork = case.of(&Request::Fork { model: "p/m", is_other_provider: false });
        [case.command("ls"), case.write("/w/a"), case.read("/w/a"), network, mine, tool, fork]
            .iter()
            .collect::<String>()
    };
    let ask = ["bash(ls*)", "edit(a)", "read(a)", "net(*.org)", "tool(t)", "mcp(s.*)", "fork(p/*)"];
    let deny = ["bash(l*)", "edit(/w/*)", "read(a)", "net(example.org)", "tool(*)", "mcp(s)", "fork(*/m)"];
    let only_allowed = if cfg!(feature = "shell-grammar") { "fffffff" } else { "affffff" };
    assert_eq!(requests(&Case::new(Policy::Ask, rules(&all, &[], &[]))), only_allowed);
    assert_eq!(requests(&Case::new(Policy::Ask, rules(&all, &ask, &[]))), "aaaaaaa");
    assert_eq!(requests(&Case::new(Policy::Yolo, rules(&all, &ask, &deny))), "rrrrrrr");
    assert_eq!(requests(&Case::new(Policy::Never, rules(&all, &ask, &[]))), "rrrrrrr");
}

#[test]
fn only_a_rule_that_names_it_allows_a_host_that_is_not_public() {
    let rules = rules(&["net(*)", "net(*:8080)", "net(*.localhost)", "net(localhost)", "net(10.0.0.1:8080)"], &[], &[]);
    for policy in [Policy::Ask, Policy::Auto, Policy::Yolo] {
        let case = Case::new(policy, rules.clone());
        for (host, expected) in [
            ("example.org", 'f'),
            ("*", 'f'),
            ("localhost", 'f'),
            ("localhost:443", 'f'),
            ("localhost:8080", 'a'),
            ("a.localhost", 'a'),
            ("127.0.0.1", 'a'),
            ("10.0.0.1:8080", 'f'),
            ("10.0.0.2:8080", 'a'),
            ("[64:ff9b::a00:1]:8080", 'a'),
        ] {
            assert_eq!(case.of(&Request::Network { host }), expected, "{policy} {host}");
        }
    }
}

#[test]
fn a_rule_for_a_tool_does_not_start_its_server() {
    let start = |allow: &[&str], deny: &[&str]| {
        Case::new(Policy::Auto, rules(allow, &[], deny)).of(&Request::McpStart { server: "s" })
    };
    assert_eq!(start(&["mcp(s)", "mcp(s.start)", "mcp(s.*)", "start(t)"], &[]), 'a');
    assert_eq!((start(&["start(s)"], &[]), start(&["start(*)"], &["mcp(s.start)"])), ('f', 'f'));
    assert_eq!((start(&["start(s)"], &["mcp(s)"]), start(&["start(s)"], &["start(s)"])), ('r', 'r'));
    let tool =
        |rule: &str| Case::new(Policy::Auto, rules(&[rule], &[], &[])).of(&Request::Mcp { server: "s", tool: "start" });
    assert_eq!((tool("start(s)"), tool("mcp(s.start)")), ('a', 'f'));
}

#[test]
fn a_rule_that_was_given_for_the_sandbox_allows_nothing_without_it() {
    let rules = rules(&["bash(make x) in sandbox", "tool(t) in sandbox", "edit(a) in sandbox"], &[], &[]);
    let verdicts = |sandboxed| {
        let case = Case { sandboxed, ..Case::new(Policy::Ask, rules.clone()) };
        let tool = case.of(&Request::Tool { name: "t", needs_network: false });
        [case.command("make x"), tool, case.write("/w/a")]
    };
    let command = if cfg!(feature = "shell-grammar") { 'f' } else { 'a' };
    assert_eq!(verdicts(true), [command, 'f', 'f']);
    assert_eq!(verdicts(false), ['a', 'a', 'f'], "a file tool needs no sandbox");
}

#[test]
fn patterns_of_paths_begin_in_the_workspace_the_home_or_the_root() {
    let case = Case::new(Policy::Ask, rules(&["edit(src/**)", "read(~/docs/**)", "read(/usr/*.h)"], &[], &[]));
    assert_eq!((case.write("/w/src/a/b"), case.write("/w/other"), case.write("/x/src/a")), ('f', 'a', 'a'));
    assert_eq!((case.read("/home/me/docs/a"), case.read("/home/you/docs/a")), ('f', 'a'));
    assert_eq!((case.read("/usr/a.h"), case.read("/usr/x/a.h")), ('f', 'a'));
}

#[cfg(feature = "shell-grammar")]
#[test]
fn suggested_rules_allow_the_command_that_they_were_suggested_for() {
    let suggested = |command| suggest_rules(command, true).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(suggested("cargo test --all && git add ."), ["bash(cargo test:*)", "bash(git add:*)"]);
    assert_eq!(suggested("ls | ./report 'a b.txt'"), ["bash(./report 'a b.txt')"]);
    assert_eq!(suggested("npm run build -- --x"), ["bash(npm run build:*)"]);
    assert_eq!(suggested("PYTHONPATH=src python -m pytest -q"), ["bash(PYTHONPATH=src python -m pytest:*)"]);
    assert_eq!(
        suggested("cd sub && A='x y' ./check && npm test 2>&1 | tail -5"),
        ["bash(A='x y' ./check)", "bash(npm test:*)"]
    );
    assert_eq!(suggested("python tests/run.py -v; node x.js"), ["bash(python tests/run.py -v)", "bash(node x.js)"]);
    let unsandboxed = suggest_rules("cargo test --all", false);
    assert_eq!(unsandboxed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["bash(cargo test --all)"]);
    let by_input = [
        "echo ls | sh",
        "cat i | bash -s",
        "xargs rm < list",
        "python3.12 - < x",
        "echo a | tee cfg",
        "make < x",
        "echo a | python x.py",
        "python -",
        "python -m code",
        "python -c 'x'",
        "PATH=. make",
        "GIT_PAGER=x git add .",
    ];
    for none in ["ls", "echo $(x)", "rm *", "rm '*'", "a; b; c; d; e; f"].into_iter().chain(by_input) {
        assert_eq!(suggested(none), [""; 0], "{none}");
    }
    for (_, command) in corpus() {
        let allow = suggest_rules(&command, false);
        let case = Case::new(Policy::Ask, Rules { allow: allow.clone(), ..Rules::default() });
        let is_elsewhere = ["/", "..", ".git", "AGENTS"].iter().any(|part| command.contains(part));
        assert!(allow.is_empty() || is_elsewhere || case.command(&command) == 'f', "{command:?} {allow:?}");
    }
}
