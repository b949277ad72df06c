//! What `read_file` gives, and what it refuses.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::json;

use super::Room;

fn numbered(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn a_short_file_comes_as_it_is() {
    let room = Room::new();
    for text in ["a\nb\n", "a\r\nb", "\n", "ä€\u{1f600}\n", "\u{feff}a\n"] {
        fs::write(room.path("f"), text).unwrap();
        let result = room.run("read_file", &json!({"path": "f"}));
        assert_eq!((result.content.as_str(), result.is_error), (text, false));
    }
    fs::write(room.path("f"), "").unwrap();
    assert_eq!(room.run("read_file", &json!({"path": "f"})).content, "[the file is empty]");
}

#[test]
fn an_absolute_path_and_a_link_lead_to_the_file() {
    let room = Room::new();
    fs::write(room.path("f"), "a\n").unwrap();
    symlink("f", room.path("link")).unwrap();
    assert_eq!(room.run("read_file", &json!({"path": room.path("f")})).content, "a\n");
    assert_eq!(room.run("read_file", &json!({"path": "link"})).content, "a\n");
}

#[test]
fn a_part_says_where_to_go_on_and_the_last_part_does_not() {
    let mut room = Room::new();
    room.env.output_cap = 1 << 20;
    fs::write(room.path("f"), numbered(2500)).unwrap();
    let whole = room.run("read_file", &json!({"path": "f"})).content;
    assert!(whole.ends_with("line 2000\n[lines 1 to 2000; go on with offset 2001]"));
    let part = |offset: u64, limit: u64| {
        room.run("read_file", &json!({"path": "f", "offset": offset, "limit": limit})).content
    };
    assert_eq!(part(3, 2), "line 3\nline 4\n[lines 3 to 4; go on with offset 5]");
    assert_eq!(part(2499, 2), "line 2499\nline 2500\n");
    assert_eq!(part(2500, 9), "line 2500\n");
    assert_eq!(part(2501, 9), "f has only 2500 lines.");
    assert_eq!(part(9000, 9), "f has only 2500 lines.");
}

#[test]
fn the_parts_of_a_file_too_large_for_a_model_add_up_to_the_whole() {
    let room = Room::new();
    fs::write(room.path("f"), numbered(1500)).unwrap();
    let (mut offset, mut read) = (1, String::new());
    loop {
        let content = room.run("read_file", &json!({"path": "f", "offset": offset})).content;
        assert!(content.len() < 4096 + 100);
        let Some((text, note)) = content.rsplit_once('[') else {
            read.push_str(&content);
            break;
        };
        read.push_str(text);
        offset = note.rsplit_once(' ').unwrap().1.trim_end_matches(']').parse().unwrap();
    }
    assert_eq!(read, numbered(1500));
}

#[test]
fn a_line_longer_than_the_cap_is_cut_between_characters_and_can_be_passed() {
    let room = Room::new();
    fs::write(room.path("f"), format!("{}\nshort\n", "€".repeat(9000))).unwrap();
    let content = room.run("read_file", &json!({"path": "f"})).content;
    assert!(content.starts_with("€€") && !content.contains('\u{fffd}') && content.len() < 4096 + 100);
    assert!(content.ends_with("[line 1 is too long and cut here; the next one is at offset 2]"), "{content}");
    assert_eq!(room.run("read_file", &json!({"path": "f", "offset": 2})).content, "short\n");
}

#[test]
fn bytes_that_are_no_utf8_are_replaced_and_that_is_said() {
    let room = Room::new();
    fs::write(room.path("f"), b"caf\xe9\n").unwrap();
    let content = room.run("read_file", &json!({"path": "f"})).content;
    assert_eq!(content, "caf\u{fffd}\n[bytes that are not UTF-8 are shown as \u{fffd}]");
    fs::write(room.path("f"), "caf\u{fffd}\n").unwrap();
    assert_eq!(room.run("read_file", &json!({"path": "f"})).content, "caf\u{fffd}\n");
}

#[test]
fn what_is_no_readable_text_file_is_refused_without_waiting_for_it() {
    let room = Room::new();
    room.bell("pipe");
    let _listener = UnixListener::bind(room.path("socket")).unwrap();
    fs::write(room.path("binary"), b"\x7fELF\0\0").unwrap();
    fs::create_dir(room.path("directory")).unwrap();
    symlink("loop", room.path("loop")).unwrap();
    symlink("pipe", room.path("link")).unwrap();
    for (path, expected) in [
        ("missing", "missing does not exist."),
        ("directory", "is a directory"),
        ("pipe", "no regular file"),
        ("link", "no regular file"),
        ("socket", "no regular file"),
        ("/dev/zero", "no regular file"),
        ("/dev/tty", "no regular file"),
        ("binary", "no text"),
        ("binary/x", "could not be opened"),
        ("loop", "could not be opened"),
        ("/proc/self/environ", "belongs to a process"),
        ("/proc/thread-self/mem", "belongs to a process"),
    ] {
        let result = room.run("read_file", &json!({"path": path}));
        assert!(result.is_error && result.content.contains(expected), "{path}: {}", result.content);
    }
}

#[test]
fn arguments_that_do_not_fit_are_named() {
    let room = Room::new();
    for (arguments, expected) in [
        (json!({"file": "a"}), "there is no argument `file`"),
        (json!({"path": "a", "offset": 0}), "`offset` must be at least 1"),
        (json!({"path": ""}), "empty"),
        (json!({"path": "a\0"}), "NUL"),
    ] {
        let words = room.prepare("read_file", &arguments).unwrap_err();
        assert!(words.contains(expected), "{words}");
    }
}

#[test]
fn a_title_names_the_file_and_the_lines_asked_for() {
    let room = Room::new();
    let title = |arguments| room.prepare("read_file", &arguments).unwrap().question.title;
    assert_eq!(title(json!({"path": "a"})), "read_file: a");
    assert_eq!(title(json!({"path": "a", "offset": 5, "limit": 3})), "read_file: a, lines 5 to 7");
}
