//! Commands that a person wrote, and completion by position.

use polylogue::config::CustomCommand;
use polylogue::{Change, HistoryEdit, MailAct};

use super::{done, waiting};
use crate::support::harness::{Harness, Plan};
use crate::support::scene::{assert_refused, assert_shows};

fn plan() -> Plan {
    let command = |name: &str, body: &str| CustomCommand {
        name: name.into(),
        description: format!("the {name} of this project"),
        body: body.into(),
        source: format!("{name}.md").into(),
    };
    let commands = vec![
        command("inspect", "Review $1 for $2."),
        command("all", "All of: $@"),
        command("loop", "/loop"),
        command("issue", "Fix issue $ARGUMENTS."),
        command("clear", "never"),
    ];
    Plan { size: Some((100, 60)), commands, ..Plan::default() }
}

#[test]
fn a_custom_command_becomes_a_message_and_is_not_parsed_again() {
    let mut app = Harness::new(plan());
    for line in ["/inspect 'a file.rs' bugs", "/all don't  stop", "/loop", "/issue 12  now"] {
        app.enter(line);
        app.turn_until_idle();
    }
    assert_eq!(done(&app, 0), ["Review a file.rs for bugs.", "All of: don't  stop", "/loop", "Fix issue 12  now."]);
    assert_refused(&mut app, "/loop twice", "takes no arguments");
    app.enter("/clear");
    assert_shows(&mut app, "- cleared");
}

#[test]
fn a_custom_command_is_queued_as_its_text() {
    let mut app = Harness::new(plan());
    app.enter("%hang");
    app.enter("/inspect x y");
    app.enter("/loop");
    assert_eq!(waiting(&app, 0), ["Review x for y.", "//loop"]);
    app.escape();
    app.type_bytes(b"\r");
    app.turn_until_idle();
    assert_eq!(done(&app, 0)[1..], ["Review x for y.", "/loop"]);
}

#[test]
fn custom_commands_are_listed_completed_and_suggested() {
    let mut app = Harness::new(plan());
    app.enter("/help");
    app.type_bytes(b"inspect");
    assert_shows(&mut app, "the inspect of this project");
    app.escape();
    assert_refused(&mut app, "/inspct", "did you mean /inspect?");
    app.type_bytes(b"/insp\t");
    assert_eq!(app.draft(0).text(), "/inspect ");
}

#[test]
fn arguments_are_completed_by_position() {
    let mut app = Harness::new(plan());
    app.ask(0, Change::EditHistory(HistoryEdit::Mark("before-lunch".into())));
    app.fork_named(0, "scout");
    let root = app.id(0);
    app.ask(1, Change::Mail(MailAct::Send { to: root, body: "x".into() }));
    app.enter("%hang");
    app.enter("queued");
    for (typed, completed) in [
        ("/mo", "/model "),
        ("/fork --m", "/fork --model "),
        ("/fork --model ", "/fork --model echo/echo"),
        ("/fork --name x --mo", "/fork --name x --model "),
        ("/fork look --m", "/fork look --m"),
        ("/rewind b", "/rewind before-lunch"),
        ("/read-mail ", "/read-mail 1"),
        ("/delete-mail ", "/delete-mail 1"),
        ("/kill --cascade s", "/kill --cascade scout"),
        ("/kill scout --c", "/kill scout --cascade "),
        ("/kill scout --de", "/kill scout --descendants "),
        ("/limit req", "/limit requests "),
        ("/stop sc", "/stop scout"),
        ("/send sc", "/send scout"),
        ("/filter-mail --from s", "/filter-mail --from scout"),
        ("/queue d", "/queue drop "),
        ("/queue drop ", "/queue drop 1"),
        ("/thinking h", "/thinking high"),
        ("/system --", "/system --default"),
        ("/name --", "/name --none"),
        ("/export j", "/export json "),
        ("/copy c", "/copy code"),
        ("//mo", "//mo"),
    ] {
        app.type_bytes(b"\x15");
        app.type_bytes(typed.as_bytes());
        app.type_bytes(b"\t");
        assert_eq!(app.draft(0).text(), completed, "{typed}");
    }
}

#[test]
fn escape_closes_completions_before_it_clears_the_draft() {
    let mut app = Harness::new(plan());
    app.type_bytes(b"/re\t");
    assert_shows(&mut app, "/read-mail");
    app.escape();
    app.turn();
    assert!(!app.screen_text().contains("/read-mail"), "{}", app.screen_text());
    assert_eq!(app.draft(0).text(), "/re");
    app.escape();
    assert_eq!(app.draft(0).text(), "");
}

#[test]
fn a_command_of_the_person_replaces_init_and_review_and_no_other() {
    let mut app = Harness::new(plan());
    if cfg!(feature = "coordinator") {
        assert_refused(&mut app, "/review a b", "/review takes one branch or commit");
    }
    let own = |name: &str| CustomCommand {
        name: name.into(),
        description: format!("my {name}"),
        body: format!("My {name}: $@"),
        source: format!("{name}.md").into(),
    };
    let commands = ["init", "review", "clear"].map(own).to_vec();
    let mut app = Harness::new(Plan { commands, ..plan() });
    for line in ["/init now", "/review a b"] {
        app.enter(line);
        app.turn_until_idle();
    }
    assert_eq!(done(&app, 0), ["My init: now", "My review: a b"]);
    app.enter("/help");
    app.type_bytes(b"review");
    assert_shows(&mut app, "my review");
    assert!(!app.screen_text().contains("review the changes since HEAD"), "{}", app.screen_text());
    app.escape();
    app.enter("/clear");
    assert_shows(&mut app, "- cleared");
}
