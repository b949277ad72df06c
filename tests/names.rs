//! How an agent is called: by name, number, id or the beginning of its id; giving and taking names; completion.

use polylogue::AgentId;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{MessageId, NewAgent, Probe};
use crate::support::scene::{assert_refused, assert_shows};

fn app() -> Harness {
    Harness::new(Plan::default())
}

/// An id that begins like this.
fn id_of(beginning: &str) -> AgentId {
    format!("{beginning:A<22}").parse().expect("22 characters of base64url")
}

/// Children of the root, in this order, with names (or none) and with ids that begin like this.
fn children(names_and_ids: &[(&str, &str)]) -> Harness {
    let app = app();
    for (name, beginning) in names_and_ids {
        let new = NewAgent {
            id: id_of(beginning),
            name: (!name.is_empty()).then(|| (*name).into()),
            parent: app.id(0),
            fork_point: MessageId(0),
            endpoint: None,
            environment: None,
        };
        app.repl.store().fork(&new, 0).expect("a child");
    }
    app.crash_and_restart()
}

/// The agent on the screen after this was typed at agent 0; the line is refused if it is still agent 0.
fn switched(app: &mut Harness, agent_id: &str) -> usize {
    app.switch(0);
    app.enter(&format!("/switch {agent_id}"));
    let focus = app.focus();
    app.type_bytes(b"\x15");
    focus
}

#[test]
fn an_agent_is_found_by_name_number_id_and_the_beginning_of_its_id() {
    let mut app = children(&[("scout", "wxyz1"), ("", "wxyz2"), ("", "1234")]);
    let whole = app.id(2).to_string();
    for (agent_id, n) in
        [("scout", 1), ("1", 1), ("2", 2), (&*whole, 2), ("wxyz1", 1), ("wxyz2", 2), ("1234", 3), ("agent 2", 2)]
    {
        assert_eq!(switched(&mut app, agent_id), n, "{agent_id}");
    }
    for unknown in ["scou", "Scout", "wxy", "4", "-1", "agent", "wxyz3", "wxyz1AAAAAAAAAAAAAAAAAAAA"] {
        assert_eq!(switched(&mut app, unknown), 0, "{unknown}");
    }
}

#[test]
fn every_command_understands_each_way_to_call_an_agent() {
    for called in ["scout", "1", "agent 1", "wxyz1", "\"agent 1\""] {
        let mut app = children(&[("scout", "wxyz1"), ("", "wxyz2")]);
        for (line, expected) in [
            ("/tell WHO hello", "told scout"),
            ("/send WHO a letter", "the mail waits until the agent looks"),
            ("/limit WHO requests 5", "the limit `requests` is set"),
            ("/undo WHO", "no tool of this agent has changed files"),
            ("/land WHO --rebase", "scout does not work in a git worktree"),
        ] {
            let line = line.replace("WHO", called);
            app.enter(&line);
            app.turn_until_idle();
            assert!(app.screen_text().contains(expected), "{line}\n{}", app.screen_text());
            app.type_bytes(b"\x15");
        }
        app.enter(&format!("/diff {called}"));
        app.turn_until("the review", |app| app.screen_text().contains("no tool of scout has changed a file"));
        app.escape();
        app.enter(&format!("/ask {called} why?"));
        app.turn_until_idle();
        assert!(app.replies(1).contains(&"why?".to_owned()), "{called}");
        app.escape();
        app.switch(0);
        app.say(0, &format!("%tool kill {{\"agent\":\"{}\"}}", called.trim_matches('"')));
        app.turn_until_idle();
        assert_eq!(app.repl.roster().len(), 2, "{called}");
        let mut app = children(&[("scout", "wxyz1"), ("", "wxyz2")]);
        app.enter_and_confirm(&format!("/kill {called} --cascade"));
        assert_eq!((app.repl.roster().len(), app.repl.roster().find("scout").one()), (2, None), "{called}");
    }
}

#[test]
fn an_ambiguous_prefix_is_refused_with_all_matches() {
    let mut app = children(&[("", "wxyz1"), ("", "wxyz2"), ("", "wxyA")]);
    for line in ["/switch wxyz", "/kill wxyz", "/send wxyz hello", "/filter-mail --from wxyz"] {
        app.enter(line);
        for candidate in ["wxyz1", "wxyz2"].map(|beginning| id_of(beginning).to_string()) {
            assert_shows(&mut app, &candidate);
        }
        assert_shows(&mut app, "is ambiguous");
        assert!(!app.screen_text().contains(&id_of("wxyA").to_string()), "{}", app.screen_text());
        app.type_bytes(b"\x15");
    }
    assert_eq!(app.repl.roster().len(), 4);
    app.enter("/kill wxyz1");
    assert_eq!(switched(&mut app, "wxyz"), 1, "the dead are no candidates");
}

#[test]
fn names_and_numbers_are_preferred_to_id_prefixes() {
    let mut app = children(&[("", "wxyz"), ("wxyz", "other"), ("", "0001")]);
    assert_eq!(switched(&mut app, "wxyz"), 2);
    assert_eq!(switched(&mut app, "0001"), 1);
}

#[test]
fn a_number_is_kept_over_a_start_and_is_free_again_after_a_kill() {
    let mut app = app();
    for name in ["a", "b", "c"] {
        app.fork_named(0, name);
    }
    app.enter("/kill b");
    assert_eq!(switched(&mut app, "3"), app.n("c"));
    assert_eq!(switched(&mut app, "2"), 0, "no agent has the number of a dead one");
    let mut app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "", "a command that failed is not kept over a start");
    assert_eq!(switched(&mut app, "3"), app.n("c"));
    for (name, number) in [("d", "2"), ("e", "4")] {
        app.fork_named(0, name);
        assert_eq!(switched(&mut app, number), app.n(name), "the lowest that is free");
    }
    app.type_bytes(b"\x1b2");
    assert_eq!(app.focus(), app.n("d"));
}

#[test]
fn a_name_is_set_shown_changed_removed_and_stored() {
    let mut app = app();
    app.fork(0);
    assert_shows(&mut app, "── agent 1 ");
    app.enter("/name scout");
    assert_shows(&mut app, "── scout ");
    app.enter("/name scout");
    app.enter("/name späher-2_b");
    assert_shows(&mut app, "── späher-2_b ");
    let mut app = app.crash_and_restart();
    assert_eq!(switched(&mut app, "späher-2_b"), 1);
    app.enter("/name --none");
    assert_shows(&mut app, "── agent 1 ");
    assert_eq!(app.crash_and_restart().agent(1).identity.name, None);
}

#[test]
fn names_of_living_agents_are_unique() {
    let mut app = app();
    app.fork_named(0, "scout");
    app.fork_named(0, "other");
    assert_refused(&mut app, "/name scout", "another running agent is called `scout`");
    app.switch(2);
    assert_refused(&mut app, "/name scout", "another running agent is called `scout`");
    app.enter("/kill scout");
    app.enter("/name scout");
    assert_eq!((app.n("scout"), app.repl.roster().len()), (1, 2));
}

#[test]
fn names_that_look_like_numbers_options_or_two_words_are_refused() {
    let mut app = app();
    let long = format!("/name {}", "x".repeat(33));
    for line in ["/name 7", "/name 7up", "/name -x", "/name --cascade", "/name a b", "/name a/b", "/name \"a\"", &long]
    {
        assert_refused(&mut app, line, "invalid name");
    }
    assert_eq!(app.agent(0).identity.name, None);
    app.enter(&format!("/name {}", "x".repeat(32)));
    assert!(app.agent(0).identity.name.is_some());
}

/// The draft after this and Tab were typed.
fn completed(app: &mut Harness, typed: &str) -> String {
    app.type_bytes(b"\x15");
    app.type_bytes(format!("{typed}\t").as_bytes());
    let focus = app.focus();
    app.draft(focus).text().to_owned()
}

#[test]
fn tab_completes_commands_and_names_of_agents() {
    let mut app = children(&[("scout", "aaaa"), ("scribe", "bbbb"), ("", "wxyz12345")]);
    for (typed, whole) in [
        ("/ki", "/kill "),
        ("/kill sco", "/kill scout"),
        ("/switch scr", "/switch scribe"),
        ("/s scr", "/s scribe"),
        ("/switch w", "/switch wxyz12"),
        ("/send sc", "/send sc"),
        ("/filter-mail --from scr", "/filter-mail --from scribe"),
        ("/kill nobody", "/kill nobody"),
        ("/name sc", "/name sc"),
        ("no command sc", "no command sc"),
    ] {
        assert_eq!(completed(&mut app, typed), whole);
    }
    completed(&mut app, "/kill sc");
    assert_shows(&mut app, "> scout ");
    assert_shows(&mut app, "  scribe ");
}

#[test]
fn completed_names_find_their_agents() {
    let mut app = children(&[("scout", "aaaa"), ("", "wxyz12345")]);
    for (typed, n) in [("/switch sc", 1), ("/switch wx", 2)] {
        completed(&mut app, typed);
        app.type_bytes(b"\r");
        assert_eq!(app.focus(), n, "{typed}");
        app.switch(0);
    }
}

#[test]
fn a_conversation_that_was_begun_has_no_parent_on_the_screen_for_keys_and_for_models() {
    let mut app = app();
    app.say(0, "hello");
    app.turn_until_idle();
    app.enter("/new");
    assert_eq!(app.focus(), 1);
    assert_shows(&mut app, "── agent 1 ─");
    app.type_bytes(b"\x1b[1;5A");
    assert_eq!(app.focus(), 1, "Ctrl+Up");
    assert!(app.repl.list().iter().all(|agent| agent.parent.is_none()));
    app.say(1, "%tool send_mail {\"to\":\"parent\",\"body\":\"x\"}");
    app.turn_until_idle();
    assert!(app.screen_text().contains("you have no parent"), "{}", app.screen_text());
    app.type_bytes(b"\x1b[1;5C");
    assert_eq!(app.focus(), 0, "Ctrl+Right: conversations are beside each other");
    app.type_bytes(b"\x1b[1;5B");
    assert_eq!(app.focus(), 0, "Ctrl+Down: it is not below the first one");
    assert!(!app.screen_text().contains("forked"), "{}", app.screen_text());
}

#[test]
fn the_title_is_on_the_screen_where_there_are_other_agents() {
    let mut app = app();
    app.say(0, "why is the build red?\nsee below");
    app.turn_until_idle();
    assert_shows(&mut app, "── agent 0 ───");
    app.enter("/fork --stay look at the tests");
    app.turn_until_idle();
    assert_shows(&mut app, "── agent 0 ─ why is the build red? ─");
    app.enter("/agents");
    assert_shows(&mut app, "> 0   why is the build red?");
    let mut app = app.crash_and_restart();
    app.switch(1);
    assert_shows(&mut app, "── agent 1 ↑ agent 0 ─ look at the tests ─");
    app.enter("/name scout");
    app.enter("/agents");
    assert_shows(&mut app, ">   1   scout: look at the tes…");
}

#[test]
fn the_separator_shows_the_agent_and_its_parent() {
    let mut app = app();
    for name in ["a", "b"] {
        app.fork_named(0, name);
    }
    app.fork_named(1, "below");
    app.switch(1);
    app.turn();
    assert_shows(&mut app, "── a ↑ agent 0 ─");
    app.switch(0);
    app.enter("/name root");
    app.switch(1);
    assert_shows(&mut app, "── a ↑ root ─");
    app.switch(2);
    assert_shows(&mut app, "── b ↑ root ─");
}
