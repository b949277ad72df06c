//! `/init` and `/review`.

use std::process::Command;

use polylogue::config::EnvironmentEntry;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::peer::Peer;
use crate::support::scene::{answer_next, assert_refused, texts_in};

fn git(app: &Harness, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
    let mut command = Command::new("git");
    command.current_dir(app.directory()).args(identity).args(arguments);
    let output = crate::support::output(&mut command);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

fn write(app: &Harness, name: &str, text: &str) {
    std::fs::write(app.directory().join(name), text).expect("a file");
}

fn app() -> Harness {
    Harness::new(Plan { real_time: true, size: Some((110, 30)), ..Plan::default() })
}

#[test]
fn init_asks_the_model_to_write_an_agents_md() {
    let peer = Peer::start();
    let environments = vec![EnvironmentEntry { name: "look".into(), tools: vec!["grep".into()], ..Default::default() }];
    let mut app = Harness::new(Plan { environments, real_time: true, ..Plan::peer(&peer.url()) });
    app.enter("/init keep it short");
    let said = texts_in(&answer_next(&mut app, &peer, 0, "done"));
    let said = said.last().expect("a message");
    assert!(said.starts_with("Write an AGENTS.md") && said.ends_with("The user's wishes: keep it short"), "{said}");
    app.enter("/env look");
    assert_refused(&mut app, "/init", "this agent cannot write files");
}

#[cfg(feature = "coordinator")]
#[test]
fn review_says_where_there_is_nothing_to_review() {
    let mut app = app();
    app.enter("/review");
    app.turn_until("the answer", |app| app.screen_text().contains("is in no git repository"));
    git(&app, &["init", "-q"]);
    app.enter("/review");
    app.turn_until("the answer", |app| app.screen_text().contains("the repository has no commits yet"));
    git(&app, &["commit", "-q", "--allow-empty", "-m", "first"]);
    app.enter("/review");
    app.turn_until("the answer", |app| app.screen_text().contains("nothing to review"));
    app.enter("/review nowhere");
    app.turn_until("the answer", |app| app.screen_text().contains("\"nowhere\" is no commit of this repository"));
    assert_refused(&mut app, "/review --output=x", "takes one branch or commit");
    assert_eq!(app.repl.roster().len(), 1);
}

#[cfg(feature = "coordinator")]
#[test]
fn review_starts_the_template_with_the_changes_of_the_working_tree() {
    for (line, has_second) in [("/review", false), ("/review main", true)] {
        let mut app = app();
        git(&app, &["init", "-q"]);
        write(&app, "a.txt", "one\n");
        git(&app, &["add", "."]);
        git(&app, &["commit", "-q", "-m", "first"]);
        git(&app, &["checkout", "-q", "-b", "work"]);
        write(&app, "b.txt", "two\n");
        git(&app, &["add", "."]);
        git(&app, &["commit", "-q", "-m", "second"]);
        write(&app, "a.txt", "one changed\n");
        write(&app, "new.txt", "three\n");
        app.enter(line);
        app.turn_until("the members", |app| app.repl.roster().len() > 1);
        let members = ["reviewer", "security", "performance"];
        let found = members.map(|name| app.repl.roster().find(name).one().is_some());
        assert_eq!(found, [true; 3], "{line}");
        let n = app.n("reviewer");
        let said = app.log(n).iter().map(|message| format!("{:?}", message.body)).collect::<String>();
        assert!(said.contains("+one changed") && said.contains("new.txt"), "{said}");
        assert_eq!(said.contains("+two"), has_second, "{line}: {said}");
        app.turn_until("the end", |app| app.repl.roster().len() == 1);
    }
}
