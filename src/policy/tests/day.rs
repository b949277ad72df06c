//! How often an ordinary day asks: fifty commands of a Rust and of a Node project.
//!
//! The columns for other programs follow their documentation of 2026. Codex CLI with the sandbox `workspace-write` and
//! approvals `on-request` (<https://developers.openai.com/codex/agent-approvals-security>) runs commands in its sandbox
//! and asks for what needs the network or writes outside; the `.git` of a writable root is read-only, so that what writes
//! there asks too. Claude Code in its default mode (<https://code.claude.com/docs/en/permissions>) asks for each command
//! unless a rule allows it or it is one of those that it knows to only read, such as `ls`, `cat`, `head`, `grep`, `find`,
//! `wc`, `cd` and the reading forms of git; `rg` is counted among them.

use super::*;

struct Day {
    rules: Vec<Rule>,
    rows: Vec<Row>,
}

struct Row {
    /// Under ask, ask with the rules, auto; then of the other programs.
    marks: Vec<char>,
    needs_network: bool,
    command: &'static str,
}

fn day(text: &'static str) -> Day {
    let mut day = Day { rules: Vec::new(), rows: Vec::new() };
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(rule) = line.strip_prefix("rule ") {
            day.rules.push(rule.parse().unwrap());
            continue;
        }
        let (marks, rest) = line.split_at(12);
        let (needs, command) = rest.split_once(' ').unwrap();
        let marks = marks.chars().filter(|c| !c.is_whitespace()).collect();
        day.rows.push(Row { marks, needs_network: needs == "network", command: command.trim_start() });
    }
    day
}

fn asks(policy: Policy, rules: &Rules, command: &str) -> char {
    let permissions = Permissions { policy, rules, sandboxed: true, workspace: Path::new("/w"), home: None };
    let resolve = |read: &Read| (Path::new("/w").join(&read.path), Place::Free);
    let request = CommandRequest { text: command, directory: None, distrust: None, resolve: &resolve };
    match decide(&permissions, &Request::Command(request)) {
        Verdict::Free => '.',
        _ => '?',
    }
}

#[test]
fn an_ordinary_day_asks_as_often_as_the_fixture_says() {
    // Under ask, ask with three rules, auto; Codex CLI, Claude Code.
    let days = [
        ("rust", day(include_str!("../../../fixtures/policy/day-rust.txt")), [33, 27, 0, 8, 34], 3),
        ("node", day(include_str!("../../../fixtures/policy/day-node.txt")), [34, 26, 0, 9, 35], 6),
    ];
    let mut wrong = Vec::new();
    for (name, day, expected, networked) in days {
        assert_eq!((day.rules.len(), day.rows.len()), (3, 50), "{name}");
        assert_eq!(day.rows.iter().filter(|row| row.needs_network).count(), networked, "{name}");
        let with_rules = Rules { allow: day.rules.clone(), ..Rules::default() };
        for Row { marks, command, .. } in &day.rows {
            let found = [
                asks(Policy::Ask, &Rules::default(), command),
                asks(Policy::Ask, &with_rules, command),
                asks(Policy::Auto, &Rules::default(), command),
            ];
            if marks[..3] != found {
                wrong.push(format!("{} {} {}  {command}", found[0], found[1], found[2]));
            }
        }
        let count = |at: usize| day.rows.iter().filter(|row| row.marks[at] == '?').count();
        let counts = [0, 1, 2, 3, 4].map(count);
        assert!(!wrong.is_empty() || counts == expected, "{name}: {counts:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
