//! Links as OSC 8: where the terminal may open them, and nowhere else.

use polylogue::config::Abilities;

use crate::support::attached::{ATTACHED, AttachedTerminal};
use crate::support::harness::{Harness, Plan};
use crate::support::scene::app_with_agents;

fn sent(app: &mut Harness, terminal: &AttachedTerminal) -> String {
    String::from_utf8(std::mem::take(&mut terminal.remote(app).output)).expect("text")
}

fn shown(has_links: bool, message: &str) -> String {
    let mut app = app_with_agents(1, Plan::default());
    let terminal = AttachedTerminal::with(&mut app, Abilities { has_links, ..Abilities::default() }, 0, ATTACHED);
    app.say(0, message);
    app.turn_until_idle();
    app.turn();
    sent(&mut app, &terminal)
}

#[test]
fn a_link_is_opened_and_closed_where_the_terminal_has_them() {
    let output = shown(true, "see [the page](https://example.com/a) now");
    let links: Vec<&str> = output.split("\x1b]8;").skip(1).filter_map(|rest| rest.split("\x1b\\").next()).collect();
    let (opened, closed): (Vec<&str>, Vec<&str>) = links.iter().partition(|link| **link != ";");
    assert!(opened.len() == 2 && closed.len() == 2, "the text and its target: {links:?}");
    assert!(opened.iter().all(|link| link.starts_with("id=") && link.ends_with(";https://example.com/a")), "{links:?}");
    assert!(!shown(false, "see [the page](https://example.com/a) now").contains("\x1b]8;"));
}

#[test]
fn what_is_not_a_reply_and_what_must_not_be_opened_has_no_link() {
    let code = "```\n[a](http://x.y)\n```\n`<http://x.y>` [a](file:///x) [a](javascript:1)";
    assert!(!shown(true, code).contains("\x1b]8;"));
    let tool = shown(true, "%tool read_file {\"path\":\"[a](http://x.y)\"}");
    for plain in [
        "┃ \x1b[0;1m%tool read_file {\"path\":\"[a](http://x.y)\"}",
        "read_file: [a](http://x.y)",
        "│ [a](http://x.y): ",
    ] {
        assert!(tool.contains(plain), "{plain}: {tool:?}");
    }
    let target = "[a](<http://x.y/\u{1b}\\\u{7}\u{9c}\u{1b}]52;c;eA==\u{7}>)";
    let output = shown(true, target);
    assert!(!output.contains("]52;c") || !output.contains("\x1b]52"), "{output:?}");
    assert!(!output.contains('\u{9c}') && !output.contains("\x1b\\\x07"), "{output:?}");
}

#[test]
fn an_address_before_another_one_in_parentheses_leads_to_itself() {
    let output = shown(true, "<http://a.b> (<http://c.d>)");
    for target in ["http://a.b", "http://c.d"] {
        assert!(output.contains(&format!(";{target}\x1b\\")), "{target}: {output:?}");
    }
}
