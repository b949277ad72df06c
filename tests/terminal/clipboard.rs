//! Ctrl+V attaches the image in the clipboard, which a helper program reads.

use std::path::Path;

use tempfile::TempDir;

use super::{Chat, Start, eventually};
use crate::support::peer::Peer;
use crate::support::write_executable;

const CTRL_V: &str = "\x16";
const PNG: &str = r"printf '\211PNG\r\n\032\n not a whole one'";

/// A directory with this script as `wl-paste`, and the search path with nothing else but the programs of the system.
fn helper(script: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    write_executable(&directory.path().join("wl-paste"), format!("#!/bin/sh\n{script}\n").as_bytes());
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    (directory, path)
}

fn start<'a>(url: &'a str, path: &'a str) -> Chat {
    let mut start = Start::with_server(url);
    start.envs.extend([("PATH", path), ("WAYLAND_DISPLAY", "wayland-test")]);
    Chat::start(start)
}

fn ends(mut chat: Chat) {
    chat.pty.send("\x15");
    chat.sees_draft("");
    chat.pty.send("\x03");
    chat.ends_well();
}

#[test]
fn the_image_in_the_clipboard_is_attached_to_the_draft_and_sent() {
    let peer = Peer::start();
    let script = format!("echo \"$@\" >> \"$(dirname \"$0\")/asked\"\n[ \"$3\" = image/png ] && {PNG}");
    let (directory, path) = helper(&script);
    let mut chat = start(&peer.url(), &path);
    chat.pty.send("see ");
    chat.sees_draft("see");
    chat.pty.send(CTRL_V);
    chat.sees_draft("see [image: clipboard.png, 1 KB]");
    chat.pty.send("please\r");
    let exchange = peer.accept();
    let content =
        exchange.request().json()["messages"].as_array().expect("messages").last().expect("one")["content"].clone();
    assert_eq!(content[0]["text"], "see [image: clipboard.png, 1 KB]");
    assert!(
        content[1]["image_url"]["url"].as_str().is_some_and(|url| url.starts_with("data:image/png;base64,iVBORw0K"))
    );
    assert_eq!(content[2]["text"], " please");
    exchange.stream().text("a shot").usage(5, 5).finish("stop").done();
    chat.is_answered();
    let asked = std::fs::read_to_string(directory.path().join("asked")).expect("it was asked");
    assert_eq!(asked, "--no-newline --type image/png\n");
    ends(chat);
}

#[test]
fn an_image_that_is_not_sent_does_not_stay_in_the_store() {
    let peer = Peer::start();
    let (_directory, path) = helper(&format!("[ \"$3\" = image/png ] && {PNG} && echo $$"));
    let url = peer.url();
    let mut chat = start(&url, &path);
    let images = |chat: &Chat| -> i64 {
        let conn = rusqlite::Connection::open(chat.directory.path().join("polylogue.db")).expect("a store");
        conn.query_row("SELECT count(*) FROM attachments", [], |row| row.get(0)).expect("a number")
    };
    chat.pty.send(CTRL_V);
    chat.sees_draft("[image: clipboard.png, 1 KB]");
    chat.pty.send("sent\r");
    peer.accept().stream().text("a shot").usage(5, 5).finish("stop").done();
    chat.is_answered();
    chat.pty.send(CTRL_V);
    chat.sees_draft("[image: clipboard.png, 1 KB]");
    assert_eq!(images(&chat), 2);
    chat.pty.send("\x15");
    chat.sees_draft("");
    chat.pty.send("\x03");
    chat.ends_well();
    assert_eq!(images(&chat), 1);
}

#[test]
fn why_nothing_is_attached_is_said() {
    let empty = tempfile::tempdir().expect("a directory");
    let nothing = empty.path().display().to_string();
    let large = format!("{PNG}\nhead -c 6000000 /dev/zero");
    for (script, expected) in [
        ("exit 1", "the clipboard has no image"),
        ("echo some text", "the clipboard has no image"),
        ("printf '%%PDF-1.7'", "the clipboard has no image"),
        (&large, "wl-paste: the image is larger than 5 MB"),
        ("", "no program that reads images from the clipboard: install wl-clipboard"),
    ] {
        let peer = Peer::start();
        let (_directory, path) = helper(script);
        let url = peer.url();
        let mut chat = start(&url, if script.is_empty() { &nothing } else { &path });
        chat.pty.send("kept");
        chat.sees_draft("kept");
        chat.pty.send(CTRL_V);
        chat.sees(expected);
        chat.sees_draft("kept");
        ends(chat);
    }
}

/// Whether a process with this number runs.
fn lives(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).expect("a number");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A helper that writes nothing and does not end. The file `pid` has the number of a process that it has started.
fn hanging() -> (TempDir, String) {
    helper("cd \"$(dirname \"$0\")\"\nsleep 1000 &\necho $! > pid.new\nmv pid.new pid\nwait")
}

#[test]
fn a_helper_that_hangs_ends_with_the_program() {
    let peer = Peer::start();
    let ((directory, path), url) = (hanging(), peer.url());
    let mut chat = start(&url, &path);
    chat.pty.send(CTRL_V);
    let pid = directory.path().join("pid");
    eventually("the helper", || pid.exists());
    chat.pty.send("\x03");
    chat.ends_well();
    eventually("its end", || !lives(&pid));
}

#[test]
fn a_helper_that_hangs_delays_nothing_and_is_ended() {
    let peer = Peer::start();
    let (directory, path) = hanging();
    let url = peer.url();
    let mut chat = start(&url, &path);
    chat.pty.send(CTRL_V);
    chat.sees("reading the clipboard");
    let pid = directory.path().join("pid");
    eventually("the helper", || pid.exists());
    chat.pty.send("typed meanwhile");
    chat.sees_draft("typed meanwhile");
    assert!(lives(&pid));
    chat.sees("wl-paste: no answer within 5 s");
    eventually("its end", || !lives(&pid));
    chat.sees_draft("typed meanwhile");
    ends(chat);
}

#[test]
fn a_model_that_takes_no_images_gets_none() {
    let (_directory, path) = helper(PNG);
    let mut start = Start::default();
    start.envs.extend([("PATH", path.as_str()), ("WAYLAND_DISPLAY", "wayland-test")]);
    let mut chat = Chat::start(start);
    chat.pty.send(CTRL_V);
    chat.sees("echo/echo takes no images");
    chat.sees_draft("");
    chat.pty.send("\x03");
    chat.ends_well();
}
