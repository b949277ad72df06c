//! Images and PDF files in messages, as each protocol takes them.

use std::path::Path;

use polylogue::config::{Endpoint, ModelFacts, Rules};
use serde_json::{Value, json};

use crate::support::harness::{self, Harness, Plan};
use crate::support::peer::Peer;
use crate::support::scene::assert_shows;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n not a whole one";
const PDF: &[u8] = b"%PDF-1.7 nor this";

fn write(app: &Harness, name: &str, bytes: &[u8]) {
    std::fs::write(app.directory().join(name), bytes).expect("a file");
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The request that the server gets; it is refused.
fn refused(app: &mut Harness, peer: &Peer) -> Value {
    let exchange = app.accept(peer);
    exchange.error(400, "invalid_request_error", "enough");
    app.turn_until_idle();
    exchange.request().json()
}

fn plan(kind: &str, model: &str, peer: &Peer) -> Plan {
    Plan { endpoint: harness::endpoint(kind, model, &peer.url()), ..Plan::default() }
}

#[test]
fn each_protocol_gets_the_files_in_its_own_form() {
    for (kind, model, place, expected) in files_in_requests() {
        let peer = Peer::start();
        let mut app = Harness::new(plan(kind, model, &peer));
        write(&app, "shot.png", PNG);
        write(&app, "paper.pdf", PDF);
        app.enter("see @shot.png and @paper.pdf please");
        assert_eq!(refused(&mut app, &peer).pointer(place), Some(&expected), "{kind}");
        assert_shows(&mut app, "see [image: shot.png, 1 KB] and [PDF: paper.pdf, 1 KB] please");
    }
}

/// A kind of provider, its model, and where in its requests a message with files is, and what it is.
fn files_in_requests() -> [(&'static str, &'static str, &'static str, Value); 4] {
    let (png, pdf) = (base64(PNG), base64(PDF));
    let (png_url, pdf_url) = (format!("data:image/png;base64,{png}"), format!("data:application/pdf;base64,{pdf}"));
    let texts = ["see [image: shot.png, 1 KB]", " and [PDF: paper.pdf, 1 KB]", " please"];
    let text = |kind: &str, at: usize| json!({"type": kind, "text": texts[at]});
    [
        (
            "openai",
            "m",
            "/messages/1/content",
            json!([
                text("text", 0), {"type": "image_url", "image_url": {"url": png_url}},
                text("text", 1), {"type": "file", "file": {"filename": "paper.pdf", "file_data": pdf_url}}, text("text", 2),
            ]),
        ),
        (
            "openai-responses",
            "m",
            "/input/0/content",
            json!([
                text("input_text", 0), {"type": "input_image", "image_url": png_url, "detail": "auto"},
                text("input_text", 1), {"type": "input_file", "filename": "paper.pdf", "file_data": pdf_url},
                text("input_text", 2),
            ]),
        ),
        (
            "anthropic",
            "claude-haiku-4-5",
            "/messages/0/content",
            json!([
                text("text", 0), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
                text("text", 1),
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": pdf}},
                {"type": "text", "text": texts[2], "cache_control": {"type": "ephemeral"}},
            ]),
        ),
        (
            "google",
            "gemini-2.5-pro",
            "/contents/0/parts",
            json!([
                {"text": texts[0]}, {"inlineData": {"mimeType": "image/png", "data": png}},
                {"text": texts[1]}, {"inlineData": {"mimeType": "application/pdf", "data": pdf}}, {"text": texts[2]},
            ]),
        ),
    ]
}

#[test]
fn a_file_is_sent_from_the_store_after_a_restart_and_to_forks_and_not_to_a_model_without_images() {
    let peer = Peer::start();
    let mut app = Harness::new(plan("openai", "m", &peer));
    write(&app, "shot.png", PNG);
    let path = app.directory().join("shot.png").display().to_string();
    app.enter(&format!("{path} what is this?"));
    app.accept(&peer).stream().text("a picture").finish("stop").done();
    app.turn_until_idle();
    std::fs::remove_file(Path::new(&path)).expect("it was there");
    app.fork(0);
    let mut app = app.crash_and_restart();
    for n in [0, 1] {
        app.say(n, "and now?");
        let sent = refused(&mut app, &peer)["messages"].to_string();
        assert!(sent.contains(&base64(PNG)) && sent.contains("[image: shot.png, 1 KB]"), "{n}: {sent}");
    }
    let facts = ModelFacts { images: Some(false), ..ModelFacts::default() };
    app.reconfigure(|plan| Plan { endpoint: Endpoint { facts, ..plan.endpoint }, ..plan });
    let mut app = app.crash_and_restart();
    app.say(0, "and now?");
    let sent = refused(&mut app, &peer)["messages"].to_string();
    assert!(!sent.contains(&base64(PNG)) && sent.contains("[image: shot.png, 1 KB]"), "{sent}");
}

#[test]
fn a_person_attaches_any_file_but_what_is_on_the_deny_list_or_named_by_a_deny_rule() {
    let peer = Peer::start();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let outside = |name: &str| elsewhere.path().join(name).display().to_string();
    let rules = [format!("read({}/secret*)", elsewhere.path().canonicalize().expect("a path").display())];
    let rules = rules.iter().map(String::as_str).chain(["read(hidden/**)"]);
    let deny = rules.map(|rule| rule.parse().expect("a rule")).collect();
    let rules = Rules { deny, ..Rules::default() };
    let mut app = Harness::new(Plan { rules, size: Some((200, 24)), ..plan("openai", "m", &peer) });
    for name in ["free.png", "secret.png"] {
        std::fs::write(outside(name), PNG).expect("a file");
    }
    std::fs::create_dir(app.directory().join("hidden")).expect("a directory");
    write(&app, "hidden/shot.png", PNG);
    std::os::unix::fs::symlink(outside("secret.png"), app.directory().join("link.png")).expect("a link");
    let own = app.data().join("shot.png");
    std::fs::write(&own, PNG).expect("a file");
    std::fs::hard_link(&own, app.directory().join("same.png")).expect("a link");
    for (line, expected) in [
        ("see @hidden/shot.png now".to_owned(), "hidden/shot.png: refused by the rule deny read(hidden/**)"),
        ("see @link.png now".to_owned(), "link.png: refused by the rule deny read("),
        (format!("{} what is it", outside("secret.png")), "refused by the rule deny read("),
        (format!("see @{} now", own.display()), "access denied: data and configuration of polylogue"),
        ("see @same.png now".to_owned(), "same.png: access denied: another name of this file"),
    ] {
        app.enter(&line);
        assert_shows(&mut app, expected);
        assert_eq!(app.draft(0).text(), line);
        app.type_bytes(b"\x15");
    }
    assert!(peer.try_accept().is_none());
    app.enter(&format!("see @{} now", outside("free.png")));
    let sent = refused(&mut app, &peer)["messages"].to_string();
    assert!(sent.contains(&base64(PNG)), "{sent}");
}

#[test]
fn what_cannot_be_attached_is_refused_and_the_message_stays() {
    let peer = Peer::start();
    let mut plan = plan("openai", "m", &peer);
    plan.endpoint.facts.documents = Some(false);
    let mut app = Harness::new(plan);
    write(&app, "text.png", b"no image");
    write(&app, "paper.pdf", PDF);
    write(&app, "large.png", &[PNG, &vec![0; 5 << 20]].concat());
    for (line, expected) in [
        ("see @text.png now", "is not a PNG, JPEG, GIF"),
        ("see @paper.pdf now", "openai/m takes no PDF files"),
        ("see @large.png now", "is larger than 5 MB"),
    ] {
        app.enter(line);
        assert_shows(&mut app, expected);
        assert_eq!(app.draft(0).text(), line);
        app.type_bytes(b"\x15");
    }
    assert!(peer.try_accept().is_none());
    app.enter("see @none.png and me@home.png");
    let sent = refused(&mut app, &peer)["messages"].to_string();
    assert!(sent.contains("see @none.png and me@home.png"), "{sent}");
}

/// The text of the newest message in the request that the server gets; it is refused.
fn sent_text(app: &mut Harness, peer: &Peer) -> String {
    let sent = refused(app, peer);
    let messages = sent["messages"].as_array().expect("messages");
    messages.last().expect("a message")["content"].as_str().expect("a text").to_owned()
}

#[test]
fn the_content_of_a_text_file_goes_along_and_is_one_line_on_the_screen() {
    let peer = Peer::start();
    let mut app = Harness::new(plan("openai", "m", &peer));
    write(&app, "main.rs", b"fn main() {\n}\n");
    write(&app, "a b.txt", b"no end");
    app.enter("compare @main.rs, with @\"a b.txt\" and @main.rs please");
    let expected = "compare @main.rs, with @\"a b.txt\" and @main.rs please\n\n<file path=\"a b.txt\">\n1\tno end\n</file>\n\n\
                    <file path=\"main.rs\">\n1\tfn main() {\n2\t}\n</file>";
    assert_eq!(sent_text(&mut app, &peer), expected);
    let shown = |app: &mut Harness| {
        for text in ["compare @main.rs, with", "[file: a b.txt, 1 line]", "[file: main.rs, 2 lines]"] {
            assert_shows(app, text);
        }
        let screen = app.screen_text();
        assert!(!screen.contains("fn main()") && !screen.contains("<file"), "{screen}");
    };
    shown(&mut app);
    let mut app = app.crash_and_restart();
    shown(&mut app);
}

#[test]
fn a_long_text_file_is_cut_as_the_tool_cuts_it() {
    let peer = Peer::start();
    let mut app = Harness::new(plan("openai", "m", &peer));
    let long: String = (1..=3_000).map(|n| format!("{n}.\n")).collect();
    write(&app, "long.txt", long.as_bytes());
    app.enter("see @long.txt");
    let sent = sent_text(&mut app, &peer);
    assert!(sent.ends_with("2000\t2000.\n[lines 1-2000 of 3000; continue with offset 2001]\n</file>"), "{sent}");
    assert_shows(&mut app, "[file: long.txt, lines 1-2000 of 3000]");
}

#[test]
fn what_has_no_text_is_sent_by_name_and_a_note_says_so() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { size: Some((200, 24)), ..plan("openai", "m", &peer) });
    std::fs::create_dir(app.directory().join("src")).expect("a directory");
    write(&app, "main.rs", b"fn main() {}\n");
    write(&app, "program", b"\x7fELF\0\0");
    let line = "see @src and @mian.rs and @docs/none.md and @program and @someone";
    app.enter(line);
    assert_eq!(sent_text(&mut app, &peer), line);
    let screen = app.screen_text().replace('\n', "").replace("  ", "");
    for text in [
        "sent by name only: src (a directory); mian.rs (no such file, did you mean ",
        "docs/none.md (no such file); program (not a text file (contains NUL bytes))",
    ] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
    assert!(!screen.contains("someone ("), "{screen}");
}

#[test]
fn a_text_file_that_may_not_be_read_is_refused_and_one_outside_is_sent_from_a_terminal() {
    let peer = Peer::start();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let outside = elsewhere.path().join("notes.txt");
    std::fs::write(&outside, "outside").expect("a file");
    let deny = vec!["read(hidden/**)".parse().expect("a rule")];
    let rules = Rules { deny, ..Rules::default() };
    let mut app = Harness::new(Plan { rules, size: Some((200, 24)), ..plan("openai", "m", &peer) });
    std::fs::create_dir(app.directory().join("hidden")).expect("a directory");
    write(&app, "hidden/notes.txt", b"hidden");
    app.enter("see @hidden/notes.txt now");
    assert_shows(&mut app, "hidden/notes.txt: refused by the rule deny read(hidden/**)");
    assert_eq!(app.draft(0).text(), "see @hidden/notes.txt now");
    app.type_bytes(b"\x15");
    assert!(peer.try_accept().is_none());
    let line = format!("see @{}", outside.display());
    app.enter(&line);
    assert!(sent_text(&mut app, &peer).contains("1\toutside"));
}
