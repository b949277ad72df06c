//! What `read_file` returns and refuses.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::json;

use super::{Workspace, refused};
use crate::support::internals::tools::{self, Job, Run};

fn numbered(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

/// The same as `read_file` shows it.
fn shown(range: impl Iterator<Item = usize>) -> String {
    range.map(|n| format!("{n}\tline {n}\n")).collect()
}

#[test]
fn a_short_file_is_returned_whole_with_line_numbers() {
    let workspace = Workspace::new();
    for (text, expected) in [
        ("a\nb\n", "1\ta\n2\tb\n"),
        ("a\r\nb", "1\ta\r\n2\tb"),
        ("\n", "1\t\n"),
        ("ä€\u{1f600}\n", "1\tä€\u{1f600}\n"),
        ("\u{feff}a\n", "1\t\u{feff}a\n"),
        ("", "[the file is empty]"),
    ] {
        fs::write(workspace.path("f"), text).unwrap();
        let result = workspace.run("read_file", &json!({"file_path": "f"}));
        assert_eq!((result.content.as_str(), result.is_error), (expected, false));
    }
}

#[test]
fn absolute_paths_links_and_other_names_of_the_parameter_are_accepted() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "a\n").unwrap();
    symlink("f", workspace.path("link")).unwrap();
    for (name, path) in [("file_path", "link"), ("path", "f"), ("filePath", "f"), ("absolute_path", "f")] {
        assert_eq!(workspace.run("read_file", &json!({name: workspace.path(path)})).content, "1\ta\n");
    }
}

#[test]
fn a_cancelled_read_stops_on_its_way_to_a_late_line() {
    let workspace = Workspace::new();
    fs::write(workspace.path("long"), "line\n".repeat(100_000)).unwrap();
    let call = workspace.prepare("read_file", &json!({"file_path": "long", "offset": 99_999})).unwrap();
    let Run::OnThread(run) = tools::find("read_file").unwrap().run else { panic!("it runs on a thread") };
    let job = Job::new().unwrap();
    assert!(run(&call, &workspace.env, &job).content.starts_with("99999\tline\n"));
    job.cancel();
    assert_eq!(run(&call, &workspace.env, &job).content, "[interrupted]");
}

#[test]
fn a_sparse_file_without_lines_is_not_read_to_its_end() {
    let workspace = Workspace::new();
    let file = fs::File::create(workspace.path("sparse")).unwrap();
    // Some file systems refuse so large a file; reading a tenth of it would take a minute as well.
    file.set_len(1 << 43).or_else(|_| file.set_len(1 << 39)).unwrap();
    let read = |arguments| workspace.run("read_file", &arguments).content;
    let refusal = "sparse: not a text file (contains NUL bytes)";
    assert_eq!(read(json!({"file_path": "sparse", "offset": 1_000_000_000_000_u64})), refusal);
    fs::OpenOptions::new().write(true).open(workspace.path("sparse")).unwrap().write_all(b"a\nb\n").unwrap();
    assert_eq!(
        read(json!({"file_path": "sparse", "limit": 1})),
        "1\ta\n[lines 1-1; the file has more lines; continue with offset 2]"
    );
    assert_eq!(read(json!({"file_path": "sparse", "offset": 4})), refusal);
}

#[test]
fn a_range_names_its_lines_the_total_and_where_to_continue() {
    let mut workspace = Workspace::new();
    workspace.env.output_cap = 1 << 20;
    fs::write(workspace.path("f"), numbered(2500)).unwrap();
    let whole = workspace.run("read_file", &json!({"file_path": "f"})).content;
    assert_eq!(whole, shown(1..=2000) + "[lines 1-2000 of 2500; continue with offset 2001]");
    let part = |offset: u64, limit: u64| {
        workspace.run("read_file", &json!({"file_path": "f", "offset": offset, "limit": limit})).content
    };
    assert_eq!(part(3, 2), shown(3..=4) + "[lines 3-4 of 2500; continue with offset 5]");
    assert_eq!(part(2499, 2), shown(2499..=2500) + "[lines 2499-2500 of 2500]");
    assert_eq!(part(2500, 9), shown(2500..=2500) + "[lines 2500-2500 of 2500]");
    assert_eq!(part(1, 2500), shown(1..=2500));
    assert_eq!(part(2501, 9), "f: offset 2501 is past the end of the file (2500 lines)");
    assert_eq!(part(9000, 9), "f: offset 9000 is past the end of the file (2500 lines)");
}

#[test]
fn the_ranges_of_a_file_longer_than_the_output_cap_add_up_to_the_whole() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), numbered(1500)).unwrap();
    let (mut offset, mut read) = (1, String::new());
    loop {
        let content = workspace.run("read_file", &json!({"file_path": "f", "offset": offset})).content;
        assert!(content.len() < 4096 + 100);
        let (text, note) = content.rsplit_once('[').unwrap();
        read.push_str(text);
        match note.split_once("; continue with offset ") {
            Some((_, next)) => offset = next.trim_end_matches(']').parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(read, shown(1..=1500));
}

#[test]
fn a_long_line_is_cut_between_characters_and_the_next_one_is_shown() {
    let mut workspace = Workspace::new();
    fs::write(workspace.path("f"), format!("{}\nshort\n", "€".repeat(9000))).unwrap();
    let read = |workspace: &Workspace, offset: u64| {
        workspace.run("read_file", &json!({"file_path": "f", "offset": offset})).content
    };
    let content = read(&workspace, 1);
    assert!(content.starts_with("1\t€€") && !content.contains('\u{fffd}') && content.len() < 4096 + 100);
    assert!(content.ends_with("€… [line truncated]\n[lines 1-1 of 2; continue with offset 2]"), "{content}");
    assert_eq!(read(&workspace, 2), "2\tshort\n[lines 2-2 of 2]");
    workspace.env.output_cap = 32 << 10;
    assert_eq!(read(&workspace, 1), format!("1\t{}… [line truncated]\n2\tshort\n", "€".repeat(2000)));
    fs::write(workspace.path("f"), "x".repeat(2000)).unwrap();
    assert_eq!(read(&workspace, 1), format!("1\t{}", "x".repeat(2000)));
}

#[test]
fn invalid_utf8_is_replaced_with_a_note() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), b"caf\xe9\n").unwrap();
    let content = workspace.run("read_file", &json!({"file_path": "f"})).content;
    assert_eq!(content, "1\tcaf\u{fffd}\n[bytes that are not valid UTF-8 are shown as \u{fffd}]");
    fs::write(workspace.path("f"), "caf\u{fffd}\n").unwrap();
    assert_eq!(workspace.run("read_file", &json!({"file_path": "f"})).content, "1\tcaf\u{fffd}\n");
}

#[test]
fn a_file_that_cannot_be_read_as_text_is_refused_without_blocking() {
    let workspace = Workspace::new();
    workspace.make_fifo("pipe");
    let _listener = UnixListener::bind(workspace.path("socket")).unwrap();
    fs::write(workspace.path("binary"), b"\x7fELF\0\0").unwrap();
    fs::create_dir(workspace.path("directory")).unwrap();
    symlink("loop", workspace.path("loop")).unwrap();
    symlink("pipe", workspace.path("link")).unwrap();
    for (path, expected) in [
        ("missing", "missing: does not exist"),
        ("directory", "is a directory"),
        ("pipe", "not a regular file"),
        ("link", "not a regular file"),
        ("socket", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("/dev/tty", "not a regular file"),
        ("binary", "not a text file"),
        ("binary/x", "not a directory"),
        ("loop", "too many symbolic links"),
        ("/proc/self/environ", "access denied"),
        ("/proc/thread-self/mem", "access denied"),
    ] {
        let message = refused(&workspace, "read_file", &json!({"file_path": path}));
        assert!(message.contains(expected), "{path}: {message}");
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let workspace = Workspace::new();
    for (arguments, expected) in [
        (json!({"fil": "a"}), "unknown argument `fil`"),
        (json!({"file_path": "a", "offset": 0}), "`offset` must be at least 1"),
        (json!({"file_path": ""}), "empty"),
        (json!({"file_path": "a\0"}), "NUL"),
    ] {
        let message = workspace.prepare("read_file", &arguments).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn the_title_has_the_file_and_the_lines() {
    let workspace = Workspace::new();
    let title = |arguments| workspace.prepare("read_file", &arguments).unwrap().question.title;
    assert_eq!(title(json!({"file_path": "a"})), "read_file: a");
    assert_eq!(title(json!({"file_path": "a", "offset": 5, "limit": 3})), "read_file: a, lines 5 to 7");
}
