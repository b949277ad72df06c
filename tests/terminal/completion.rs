//! The list below the input: completions, files and agents, the history of inputs, help.

use crate::support::harness::{Harness, Plan};
use crate::support::internals::WakeReason;
use crate::support::scene::{app_with_agents, assert_shows};

fn draft(app: &Harness) -> String {
    app.draft(0).text().to_owned()
}

#[test]
fn tab_opens_a_list_with_descriptions_that_filters_and_cycles() {
    let mut app = Harness::new(Plan::default());
    app.type_bytes(b"/s\t");
    let screen = app.screen_text();
    assert!(screen.contains("> /switch") && screen.contains("show another agent"), "{screen}");
    app.type_bytes(b"e");
    let screen = app.screen_text();
    assert!(!screen.contains("/switch") && screen.contains("> /search") && screen.contains("  /sessions"), "{screen}");
    app.type_bytes(b"\x1b[B\x1b[B\x1b[B\x1b[B\r");
    assert_eq!((draft(&app), app.replies(0).len()), ("/sessions ".into(), 0), "Enter accepts and sends nothing");
    assert!(!app.screen_text().contains("/send"));
    app.type_bytes(b"\x15/s\t");
    app.escape();
    assert_eq!(draft(&app), "/s", "Esc closes the list only");
    assert!(!app.screen_text().contains("/switch"));
}

#[test]
fn a_slash_opens_the_list_of_commands_which_filters_while_typing() {
    let mut app = Harness::new(Plan::default());
    app.type_bytes(b"/");
    assert_shows(&mut app, "> /fork");
    app.type_bytes(b"ag");
    let screen = app.screen_text();
    assert!(screen.contains("> /agents") && !screen.contains("create a child"), "{screen}");
    app.type_bytes(b"\r");
    assert_eq!((draft(&app), app.replies(0).len()), ("/agents ".into(), 0), "Enter completes the beginning of a name");
    app.type_bytes(b"\x15/agents\r");
    assert_eq!(draft(&app), "", "a whole name is sent");
    app.type_bytes(b"/agnets\r");
    assert_shows(&mut app, "unknown command /agnets: did you mean /agents?");
    // The marked one is taken once a person has moved in the list.
    app.type_bytes(b"\x15/s\x1b[B\r");
    let moved = draft(&app);
    assert!(moved.starts_with("/s") && moved.ends_with(' '), "{moved:?}");
    app.type_bytes(b"\x15/switch ");
    assert!(!app.screen_text().contains("show another agent"), "arguments are offered by Tab");
    app.type_bytes(b"\x15a/");
    assert!(!app.screen_text().contains("create a child"), "only at the beginning");
    app.type_bytes(b"\x15/");
    app.escape();
    assert_eq!(draft(&app), "/");
}

#[test]
fn the_nearest_name_is_offered_for_a_typo_and_never_acted_on() {
    let mut app = Harness::new(Plan::default());
    app.type_bytes(b"/agnets\t");
    assert_eq!(draft(&app), "/agnets");
    assert_shows(&mut app, "> /agents");
    app.type_bytes(b"\t");
    assert_eq!(draft(&app), "/agents ");
}

#[test]
fn at_completes_files_and_agents_and_leaves_ignored_and_private_files_out() {
    let mut app = app_with_agents(1, Plan::default());
    for name in ["src/draft.rs", "src/main.rs", "target/draft.o", ".gitignore", ".env"] {
        let path = app.directory().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, "target\n").expect("a file");
    }
    app.enter("/fork --name drafter");
    app.type_bytes(b"\x1b0read @");
    app.turn_until("the files", |app| app.screen_text().contains("src/main.rs"));
    app.type_bytes(b"dra");
    app.turn_until("the matches", |app| !app.screen_text().contains("src/main.rs"));
    let screen = app.screen_text();
    assert!(
        screen.contains("> drafter") && screen.contains("agent 1, idle") && screen.contains("src/draft.rs"),
        "{screen}"
    );
    assert!(!screen.contains("draft.o"), "{screen}");
    app.type_bytes(b"\x1b[B\t");
    assert_eq!(draft(&app), "read @src/draft.rs ");
    app.type_bytes(b"me@home");
    assert!(!app.screen_text().contains("agent 1, idle"), "no list within a word");
    // The list is dropped some time after its last use, and then nothing wakes the loop.
    app.advance(std::time::Duration::from_secs(1));
    assert_eq!(app.timeout().why, WakeReason::Files);
    app.advance(std::time::Duration::from_secs(60));
    assert_eq!(app.timeout().after, None);
}

#[test]
fn letters_that_come_before_the_files_do_not_hide_them() {
    let mut app = Harness::new(Plan::default());
    std::fs::write(app.directory().join("numbers.txt"), "one").expect("a file");
    app.type_bytes(b"look at @num");
    app.turn_until("the file", |app| app.screen_text().contains("> numbers.txt"));
}

#[test]
fn enter_takes_a_file_from_the_list_and_sends_a_name_that_is_whole() {
    for (typed, is_sent_at_once) in [("read @no", false), ("read @notes.txt", true)] {
        let mut app = Harness::new(Plan::default());
        std::fs::write(app.directory().join("notes.txt"), "two lines").expect("a file");
        app.type_bytes(b"read @");
        app.turn_until("the files", |app| app.screen_text().contains("> notes.txt"));
        app.type_bytes(&typed.as_bytes()["read @".len()..]);
        app.turn_until("the matches", |app| app.screen_text().contains("> notes.txt"));
        app.type_bytes(b"\r");
        if !is_sent_at_once {
            assert_eq!(draft(&app), "read @notes.txt ");
            app.type_bytes(b"\r");
        }
        assert_eq!(draft(&app), "", "{typed}");
        app.turn_until("the answer", |app| app.replies(0).len() == 1);
    }
}

#[test]
fn ctrl_r_searches_the_history_and_puts_the_choice_into_the_draft() {
    let mut app = Harness::new(Plan::default());
    for line in ["cargo test", "git push", "cargo build"] {
        app.enter(line);
        app.turn_until_idle();
    }
    app.type_bytes(b"half\x12");
    assert_shows(&mut app, "search history:   3 of 3");
    app.type_bytes(b"cargo\x12");
    assert_shows(&mut app, "> cargo test");
    app.type_bytes(b"\r");
    assert_eq!((draft(&app), app.replies(0).len()), ("cargo test".into(), 3));
    app.type_bytes(b"\x1f");
    assert_eq!(draft(&app), "half");
}

#[test]
fn help_is_a_list_that_is_searched_and_a_question_mark_shows_the_keys_first() {
    let mut app = Harness::new(Plan::default());
    app.enter("/help");
    assert_shows(&mut app, "> /fork");
    app.type_bytes(b"as a tree");
    let screen = app.screen_text();
    assert!(screen.contains("> /agents") && !screen.contains("create a child"), "{screen}");
    app.type_bytes(b"\r");
    assert_eq!(draft(&app), "/agents ");
    app.type_bytes(b"\x15?");
    assert_shows(&mut app, "Most used");
    assert_shows(&mut app, "> Alt+A");
    app.type_bytes(b"\x03x?");
    assert_eq!(draft(&app), "x?", "in a text it is a character");
    app.type_bytes(b"\x15");
    app.escape();
    assert!(!app.screen_text().contains("Keys:"));
}
