//! Which conversation a chat begins with.

use rustix::process::Signal;

use crate::support::program::{Home, PROGRAM};
use crate::support::pty::Pty;

fn chat(home: &Home, args: &[&str]) -> Pty {
    let (path, data) = (home.directory.path().to_str().expect("UTF-8"), home.data());
    let envs = [("HOME", path), ("LANG", "C.UTF-8"), ("POLYLOGUE_DATA_DIR", data.to_str().expect("UTF-8"))];
    let mut pty = Pty::spawn(PROGRAM, args, &envs, (120, 30));
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
    assert_eq!(home.agents(), 2, "a conversation that was not begun is used");
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
    pty.wait_for_text("── agent 2 ");
    assert!(!pty.screen_text().contains("in the home directory"), "{}", pty.screen_text());
    pty.leave();
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
    later.wait_for_text("┃ said later");
    later.leave();
}
