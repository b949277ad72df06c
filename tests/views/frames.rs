//! Golden frames of the views, with few agents and with many: see [`crate::frames`].

use std::time::Duration;

use polylogue::config::{Endpoint, ModelFacts, Prices};
use polylogue::{ArchiveAct, Change};

use crate::frames::{compare, drawn, merged, terminal};
use crate::support::attached::AttachedTerminal;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe, Reply, Wait};
use crate::support::scene::app_with_agents;

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];

/// Of ten agents one asks, one has failed and one works; the others have finished.
fn agents(count: usize) -> Harness {
    agents_of(count, Endpoint::echo())
}

/// The same, with this model.
fn agents_of(count: usize, endpoint: Endpoint) -> Harness {
    let plan = Plan { size: Some(SIZES[0]), device: || terminal(true), working_limit: 200, ..Plan::default() };
    let mut app = app_with_agents(count, Plan { endpoint, ..plan });
    for n in 1..count {
        let text = match n % 10 {
            2 => format!("%tool bash {{\"command\":\"make number-{n}\"}}"),
            4 => "%fail 400 no".to_owned(),
            6 => "%hang".to_owned(),
            _ => format!("item {n} of the list\nis done, with **one** change in `src/item{n}.rs`"),
        };
        app.say(n, &text);
        app.turn_until("a reply", |app| {
            let agent = app.agent(n);
            matches!(agent.wait(), Wait::Script { .. }) && n % 10 == 6
                || agent.status().is_at_rest()
                || agent.question().is_some()
        });
        app.advance(Duration::from_millis(50));
    }
    app
}

fn check(app: &mut Harness, name: &str) {
    for size in SIZES {
        app.resize(size);
        app.turn_until_colored();
        compare(&format!("{name}-{}x{}", size.0, size.1), &merged(&[&drawn(app.screen())]));
    }
}

#[test]
fn views_over_one_ten_a_hundred_and_a_thousand_agents() {
    // The tokens in the pictures are those of requests with all tools.
    if !cfg!(feature = "web-fetch") {
        return;
    }
    for count in [1, 10, 100, 1_000] {
        let mut app = agents(count);
        for (view, open) in [("inbox", &b"\x1ba"[..]), ("wall", b"\x1bw"), ("search", b"\x06item src")] {
            app.type_bytes(open);
            check(&mut app, &format!("{view}-{count}"));
            app.escape();
            app.escape();
        }
    }
}

#[test]
fn the_inbox_with_costs() {
    let prices = Prices { input: 2_500_000, output: 10_000_000, ..Prices::default() };
    let facts = ModelFacts { prices: Some(prices), ..ModelFacts::default() };
    let mut app = agents_of(10, Endpoint { facts, ..Endpoint::echo() });
    app.type_bytes(b"\x1ba");
    assert!(app.screen_text().contains(" $0.000"), "{}", app.screen_text());
    check(&mut app, "inbox-costs");
}

#[test]
fn views_with_nothing_in_them() {
    let mut app = app_with_agents(1, Plan { size: Some(SIZES[0]), device: || terminal(true), ..Plan::default() });
    for (view, open) in [("wall", &b"\x1bw/nobody\r"[..]), ("search", b"\x06"), ("timeline", b"\x18t")] {
        app.type_bytes(open);
        check(&mut app, &format!("{view}-0"));
        app.escape();
        app.escape();
    }
}

#[test]
fn timelines_of_one_ten_a_hundred_and_a_thousand_messages() {
    for count in [1, 10, 100, 1_000] {
        let plan = Plan { size: Some(SIZES[0]), device: || terminal(true), ..Plan::default() };
        let app = app_with_agents(1, plan);
        let reply = |text| Body::Assistant(Reply { text, ..Reply::default() });
        let body =
            |n: usize| if n.is_multiple_of(2) { Body::User(format!("step {n}")) } else { reply(format!("did {n}")) };
        app.repl.store().append(app.id(0), (0..count).map(body).collect(), 0).expect("messages");
        let mut app = app.crash_and_restart();
        app.type_bytes(b"\x18t");
        app.type_bytes(b"\x1b[5~");
        check(&mut app, &format!("timeline-{count}"));
    }
}

#[test]
fn conversations_to_choose_from() {
    for count in [0, 1, 10, 100, 1_000] {
        let mut app = agents(count);
        for archived in [3, 8].into_iter().filter(|n| *n < count) {
            let change = Change::Archive(ArchiveAct::Archive(app.id(archived)));
            app.ask(0, change);
        }
        // How many turns the replies take differs: all are a minute old.
        app.advance(Duration::from_secs(65));
        for size in SIZES {
            let mut terminal = AttachedTerminal::picker(&mut app, size, None);
            terminal.type_bytes(&mut app, if count == 100 { b"%hang" } else { b"" });
            compare(&format!("picker-{count}-{}x{}", size.0, size.1), &merged(&[&drawn(terminal.screen(&mut app))]));
        }
    }
}

#[test]
fn answers_of_one_and_of_ten_agents() {
    // The tokens in the pictures are those of requests with all tools.
    if !cfg!(feature = "web-fetch") {
        return;
    }
    for count in [1, 10] {
        let plan = Plan { size: Some(SIZES[0]), device: || terminal(true), ..Plan::default() };
        let mut app = app_with_agents(count, plan);
        app.enter("/ask all which crate reads the store?");
        app.turn_until_idle();
        app.advance(Duration::from_millis(300));
        check(&mut app, &format!("compare-{count}"));
    }
}

/// A file as an agent has found it, and as it has left it: changed words, a long line, wide characters, and hunks far apart.
#[cfg(feature = "syntax-colors")]
fn versions(n: usize) -> (String, String) {
    let line = |at: usize| format!("    let value_{at} = compute(input, {at}); // of file {n}\n");
    let before: String = (1..=60).map(line).collect();
    let long = format!("    let long = \"{}\";\n", "a long text with 漢字 in it, ".repeat(8));
    let after = before
        .replace("compute(input, 3)", "compute(output, 3)")
        .replace(&line(20), "")
        .replace(&line(45), &(line(45) + &long));
    (before, after)
}

#[cfg(feature = "syntax-colors")]
#[test]
fn the_review_of_one_file_and_of_three_hundred() {
    if std::process::Command::new("git").arg("--version").output().is_err() {
        return eprintln!("there is no git here: worktrees are not tried");
    }
    for count in [1, 300] {
        let plan = Plan { size: Some(SIZES[0]), device: || terminal(true), real_time: true, ..Plan::default() };
        let mut app = Harness::new(plan);
        let repo = app.directory().join("repo");
        std::fs::create_dir_all(repo.join("src")).expect("a directory");
        let git = |arguments: &[&str]| {
            let mut git = std::process::Command::new("git");
            // The frames name the commit.
            git.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]).args(arguments).current_dir(&repo);
            git.env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z").env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z");
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            assert!(git.output().expect("git runs").status.success(), "{arguments:?}");
        };
        git(&["init", "-q", "-b", "main"]);
        for n in 0..count {
            std::fs::write(repo.join(format!("src/part_{n:03}.rs")), versions(n).0).expect("a file");
        }
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "first"]);
        app.enter("/env coding@repo");
        app.enter("/fork --worktree --name json");
        app.turn_until("a child", |app| app.repl.roster().len() == 3);
        let root = app.agent(2).inputs.environment.worktree.clone().expect("a worktree");
        for n in 0..count {
            std::fs::write(root.join(format!("src/part_{n:03}.rs")), versions(n).1).expect("a file");
        }
        app.enter("/diff");
        app.turn_until("compared", |app| app.screen_text().contains("part_000.rs"));
        app.turn_until_colored();
        check(&mut app, &format!("review-{count}"));
    }
}
