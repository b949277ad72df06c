//! Which conversation a chat begins with.

use std::path::Path;

use polylogue::Store;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::internals::Body;
use crate::support::program::{Home, PROGRAM};
use crate::support::pty::Pty;

fn variables(home: &Home) -> Vec<(&str, &str)> {
    let path = home.directory.path().to_str().expect("UTF-8");
    // A path is its own for the length of a test.
    let data: &'static str = home.data().to_str().expect("UTF-8").to_owned().leak();
    let own = home.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    [("HOME", path), ("LANG", "C.UTF-8"), ("POLYLOGUE_DATA_DIR", data)].into_iter().chain(own).collect()
}

fn chat(home: &Home, args: &[&str]) -> Pty {
    let mut pty = Pty::spawn(PROGRAM, args, &variables(home), (120, 30));
    pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    pty
}

#[test]
fn a_chat_begins_a_conversation_and_names_the_last_one_here() {
    let home = Home::new();
    let mut first = chat(&home, &[]);
    first.send("why is the build red?\r");
    first.wait_for_answer("why is the build red?", "why is the build red?");
    first.wait_for_text("── agent 0 ");
    first.leave();
    let last = "the last conversation here is agent 0, ";
    let title = "ago: \"why is the build red?\"; polylogue -c continues it";
    for _ in 0..2 {
        let mut second = chat(&home, &[]);
        second.wait_for_text(last);
        second.wait_for_text(title);
        second.wait_for_text("── agent 1 ");
        second.leave();
    }
    assert_eq!(home.agents(), 1, "a conversation in which nothing was written is not kept");
    let mut continued = chat(&home, &["-c"]);
    continued.wait_for_text("┃ why is the build red?");
    continued.leave();
    for n in ["2", "3"] {
        let mut prompted = chat(&home, &["something", "else"]);
        prompted.wait_for_answer("something else", "something else");
        let agent = if n == "2" { "── agent 1 " } else { "── agent 2 " };
        prompted.wait_for_text(agent);
        prompted.leave();
    }
    assert_eq!(home.agents(), 3);
}

#[test]
fn a_conversation_of_another_directory_is_not_continued() {
    let home = Home::new();
    assert_eq!(home.run(&["-p", "in the home directory"]).code, 0);
    let mut pty = chat(&home, &["-c"]);
    pty.wait_for_text("── agent 0 ");
    assert!(!pty.screen_text().contains("in the home directory"), "{}", pty.screen_text());
    pty.leave();
}

/// A chat in another directory than that of [`chat`].
fn chat_in(home: &Home, directory: &Path, args: &[&str]) -> Pty {
    let mut pty = Pty::spawn_in(PROGRAM, args, &variables(home), (120, 30), directory);
    pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    pty
}

#[test]
fn a_terminal_stays_in_its_directory_when_its_conversation_is_gone() {
    let home = Home::new();
    let mut first = chat(&home, &["in one"]);
    first.wait_for_answer("in one", "in one");
    first.leave();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let mut pty = chat_in(&home, elsewhere.path(), &["in two"]);
    pty.wait_for_answer("in two", "in two");
    pty.leave();
    // The earlier conversation of this directory, and then a new one.
    let mut pty = chat_in(&home, elsewhere.path(), &["second two"]);
    pty.wait_for_answer("second two", "second two");
    pty.send("/kill\r");
    pty.wait_for(|screen| screen.contents().contains("┃ in two"), "the earlier conversation");
    pty.send("/archive\r");
    pty.wait_for(|screen| !screen.contents().contains("in two"), "a new conversation");
    pty.send("%tool bash {\"command\":\"pwd\"}\r");
    let directory = elsewhere.path().canonicalize().expect("a directory").display().to_string();
    pty.wait_for_text(&format!("│ {directory}"));
    // The turn is over.
    pty.wait_for_text(" tokens, ");
    pty.leave();
}

#[test]
fn a_conversation_of_another_directory_that_was_looked_at_is_not_continued() {
    let home = Home::new();
    let mut first = chat(&home, &["in one"]);
    first.wait_for_answer("in one", "in one");
    first.leave();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let mut pty = chat_in(&home, elsewhere.path(), &["in two"]);
    pty.wait_for_answer("in two", "in two");
    pty.send("/switch 0\r");
    pty.wait_for_text("┃ in one");
    pty.leave();
    let mut continued = chat_in(&home, elsewhere.path(), &["-c"]);
    continued.wait_for_text("┃ in two");
    continued.leave();
}

#[test]
fn an_empty_chat_elsewhere_shows_and_keeps_nothing_of_another_directory() {
    let home = Home::new();
    let mut first = chat(&home, &[]);
    first.send("said here alone\r");
    first.wait_for_answer("said here alone", "said here alone");
    first.leave();
    let elsewhere = tempfile::tempdir().expect("a directory");
    for args in [&[][..], &["-c"], &["-c"]] {
        let mut pty = chat_in(&home, elsewhere.path(), args);
        if !args.is_empty() {
            pty.wait_for_text("no conversation to continue here: this is a new one");
        }
        pty.leave();
        let all = String::from_utf8_lossy(pty.raw_output()).into_owned();
        assert!(!all.contains("said here alone"), "{args:?}: {all}");
    }
    assert_eq!(home.agents(), 1);
}

#[test]
fn a_chat_that_is_continued_opens_at_the_agent_that_was_shown_last() {
    let home = Home::new();
    let mut first = chat(&home, &[]);
    first.send("the parent\r");
    first.wait_for_answer("the parent", "the parent");
    first.send("/fork --name kid\r");
    first.wait_for_text("── kid ");
    first.send("the child\r");
    first.wait_for_answer("the child", "the child");
    first.send("/switch 0\r");
    first.wait_for_text("── agent 0 ");
    first.kill(Signal::KILL);
    first.wait_exit();
    let mut continued = chat(&home, &["-c"]);
    continued.wait_for_text("── agent 0 ");
    continued.send("/switch kid\r");
    continued.wait_for_text("── kid ");
    continued.leave();
    let mut again = chat(&home, &["-c"]);
    again.wait_for_text("── kid ");
    again.leave();
    let mut script = home.command(PROGRAM, &["-p", "said later"]);
    script.current_dir(std::env::current_dir().expect("that of the chats"));
    assert!(crate::support::output(&mut script).status.success());
    let mut later = chat(&home, &["-c"]);
    later.wait_for_text("── kid ");
    later.leave();
}

#[test]
fn the_end_says_how_to_come_back_and_what_is_not_kept() {
    let home = Home::new();
    let data = home.data();
    let ends = |pty: &mut Pty, expected: &str| {
        pty.leave();
        let screen = pty.screen_text();
        let expected = expected.replace("DATA", data.to_str().expect("UTF-8"));
        assert!(screen.trim_end().replace('\n', "").ends_with(&expected), "{expected}:\n{screen}");
    };
    let mut first = chat(&home, &["hello"]);
    first.wait_for_answer("hello", "hello");
    ends(&mut first, "1 agent stored; to continue: polylogue --data-dir DATA -c");
    let mut empty = chat(&home, &[]);
    empty.wait_for_text("── agent 1 ");
    ends(&mut empty, "nothing was written, so this conversation is not kept; 1 agent stored");
    let mut second = chat(&home, &["again"]);
    second.wait_for_answer("again", "again");
    ends(&mut second, "2 agents stored; to continue: polylogue --data-dir DATA -c");
    // Behind the list of conversations nothing was opened.
    let mut list = Pty::spawn(PROGRAM, &["-r"], &variables(&home), (120, 30));
    list.wait_for_text("resume ─ 2 conversations");
    list.send("\x1b");
    assert!(list.wait_exit().success());
    assert_eq!(list.screen_text().trim(), "");
    assert_eq!(home.agents(), 2);
}

#[test]
fn a_crash_leaves_no_conversation_in_which_nothing_was_written() {
    let home = Home::new();
    let mut first = chat(&home, &["hello"]);
    first.wait_for_answer("hello", "hello");
    first.leave();
    let mut killed = chat(&home, &[]);
    killed.wait_for_text("── agent 1 ");
    killed.kill(Signal::KILL);
    killed.wait_exit();
    assert_eq!(home.agents(), 2);
    let mut next = chat(&home, &[]);
    next.wait_for_text("── agent 1 ");
    next.send("a draft");
    next.wait_for_text("> a draft");
    next.kill(Signal::TERM);
    next.wait_exit();
    assert_eq!(home.agents(), 2, "one with a draft is kept");
}

#[test]
fn a_conversation_whose_provider_is_gone_opens_and_gives_the_text_back() {
    let mut home = Home::new();
    let url = "http://127.0.0.1:9/v1";
    home.variables = vec![("OPENAI_BASE_URL".into(), url.into()), ("POLYLOGUE_MODEL".into(), "openai/test".into())];
    let mut first = chat(&home, &[]);
    first.send("/name kept\r");
    first.wait_for_text("── kept ");
    first.leave();
    home.variables.clear();
    for options in [&["-r", "kept"][..], &["-r", "kept", "with a prompt"]] {
        let mut without = chat(&home, options);
        without.wait_for_text("openai/test");
        if options.len() == 2 {
            without.send("hello\r");
        }
        without.wait_for_text("no key for openai: export OPENAI_API_KEY=… and start again");
        without.wait_for_text(if options.len() == 2 { "> hello" } else { "> with a prompt" });
        without.send("\x15");
        without.leave();
    }
    let is_answered = |body: &Body| matches!(body, Body::Assistant(_));
    assert!(!home.log(0).iter().any(is_answered), "nothing went to another model");
}

#[cfg(feature = "coordinator")]
#[test]
fn a_chat_that_was_cut_during_a_task_of_a_team_opens_at_the_conversation_which_says_so() {
    let home = Home::new();
    let mut first = chat(&home, &[]);
    first.send("/team --count 2 %hang\r");
    first.wait_for_text("forked agent-2");
    first.kill(Signal::KILL);
    first.wait_exit();
    let mut again = chat(&home, &["-c"]);
    again.wait_for_text("── agent 0 ");
    again.wait_for_text("was interrupted when the program ended: %hang");
    again.leave();
}

#[test]
fn a_new_conversation_takes_nothing_from_the_one_that_is_shown() {
    let home = Home::new();
    let mut pty = chat(&home, &["--approval", "plan", "hello"]);
    pty.wait_for_answer("hello", "hello");
    for line in ["/approval auto", "/thinking high", "/system You are somebody else.", "/new"] {
        pty.send(format!("{line}\r"));
    }
    pty.wait_for_text("── agent 1 ");
    pty.send("on its own\r");
    pty.wait_for_answer("on its own", "on its own");
    pty.leave();
    let store = Store::open(&home.data()).expect("a store");
    let rows = store.load_agents().expect("agents").agents;
    drop(store);
    let settings = |n: usize| (rows[n].policy.as_deref(), rows[n].thinking.as_deref(), rows[n].system.is_some());
    assert_eq!(
        (settings(0), settings(1)),
        ((Some("auto"), Some("high"), true), (Some("plan"), Some("default"), false))
    );
    let has_fork = |n| home.log(n).iter().any(|body| matches!(body, Body::Fork(_)));
    assert!(!has_fork(0) && !has_fork(1), "nothing was forked");
}

#[test]
fn conversations_of_two_directories_are_listed_with_title_directory_branch_and_model_and_have_no_parent() {
    let home = Home::new();
    let all = [("api", "mend the api"), ("web", "draw the page")];
    for (name, prompt) in all {
        let git = home.directory.path().join(name).join(".git");
        std::fs::create_dir_all(&git).expect("a directory");
        std::fs::write(git.join("HEAD"), format!("ref: refs/heads/of-{name}\n")).expect("a file");
        let script = format!("cd \"$HOME/{name}\" && exec \"$0\" \"$@\"");
        let mut pty = Pty::spawn("sh", &["-c", &script, PROGRAM, prompt], &variables(&home), (120, 30));
        pty.wait_for_answer(prompt, prompt);
        pty.leave();
    }
    let assert_listed = || {
        let listed = home.run(&["ps", "--json"]).out;
        for ((number, (name, prompt)), line) in (0..).zip(all).zip(listed.lines()) {
            let row: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!((&row["number"], &row["title"], &row["parent"]), (&json!(number), &json!(prompt), &Value::Null));
            assert!(row["directory"].as_str().expect("a path").ends_with(name), "{row}");
            assert_eq!((&row["branch"], &row["model"]), (&json!(format!("of-{name}")), &json!("echo/echo")));
        }
        assert!(listed.lines().count() >= 2, "{listed}");
    };
    assert_listed();
    let mut pty = Pty::spawn(PROGRAM, &["ps"], &variables(&home), (80, 24));
    assert!(pty.wait_exit().success());
    for (name, prompt) in all {
        let screen = pty.screen_text();
        let row = screen.lines().find(|row| row.contains(prompt)).unwrap_or_else(|| panic!("{screen}"));
        assert!([name, "of-", "echo/echo", "idle"].iter().all(|part| row.contains(part)), "{screen}");
    }
    let _beside = chat(&home, &["-r", "agent", "1"]);
    assert_listed();
}
