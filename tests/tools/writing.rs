//! What `write_file` leaves on the disk, and what it asks first.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use polylogue::tools::{self, Job, Run};
use serde_json::json;

use super::Room;

fn names(room: &Room) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(&room.env.working_directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_new_file_is_written_with_the_directories_that_lead_to_it() {
    let room = Room::new();
    let result = room.run("write_file", &json!({"path": "a/b/c.txt", "content": "ä\n"}));
    assert_eq!((result.content.as_str(), result.is_error), ("a/b/c.txt is written: 3 bytes.", false));
    assert_eq!(fs::read_to_string(room.path("a/b/c.txt")).unwrap(), "ä\n");
    let fresh = fs::metadata(room.path("a/b/c.txt")).unwrap().permissions().mode();
    let usual = File::create(room.path("usual")).unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(fresh, usual);
}

#[test]
fn a_reader_of_the_old_file_keeps_the_old_content_and_nothing_else_is_left() {
    let room = Room::new();
    fs::write(room.path("f"), "old").unwrap();
    let mut reader = File::open(room.path("f")).unwrap();
    let before = fs::metadata(room.path("f")).unwrap().ino();
    room.run("write_file", &json!({"path": "f", "content": "new"}));
    let mut seen = String::new();
    reader.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "old");
    assert_eq!(fs::read_to_string(room.path("f")).unwrap(), "new");
    assert_ne!(fs::metadata(room.path("f")).unwrap().ino(), before);
    assert_eq!(names(&room), ["f"]);
}

#[test]
fn the_mode_is_kept() {
    let room = Room::new();
    for mode in [0o755, 0o600, 0o666, 0o644] {
        fs::write(room.path("f"), "old").unwrap();
        fs::set_permissions(room.path("f"), fs::Permissions::from_mode(mode)).unwrap();
        assert!(!room.run("write_file", &json!({"path": "f", "content": "new"})).is_error);
        assert_eq!(fs::metadata(room.path("f")).unwrap().permissions().mode() & 0o7777, mode);
    }
}

#[test]
fn a_link_stays_and_the_file_at_its_end_is_written() {
    let room = Room::new();
    fs::create_dir(room.path("d")).unwrap();
    fs::write(room.path("d/real"), "old").unwrap();
    symlink("d/real", room.path("link")).unwrap();
    symlink("link", room.path("link to link")).unwrap();
    symlink("d/none", room.path("dangling")).unwrap();
    for (link, real) in [("link to link", "d/real"), ("dangling", "d/none")] {
        let result = room.run("write_file", &json!({"path": link, "content": "new"}));
        assert!(!result.is_error, "{}", result.content);
        assert_eq!(fs::read_to_string(room.path(real)).unwrap(), "new");
        assert!(fs::symlink_metadata(room.path(link)).unwrap().is_symlink());
    }
    assert_eq!(names(&room), ["d", "dangling", "link", "link to link"]);
}

#[test]
fn what_cannot_be_a_file_is_refused_before_anybody_is_asked() {
    let room = Room::new();
    room.bell("pipe");
    fs::create_dir(room.path("d")).unwrap();
    fs::write(room.path("f"), "old").unwrap();
    symlink("d", room.path("link")).unwrap();
    symlink("loop", room.path("loop")).unwrap();
    for (path, expected) in [
        ("d", "is a directory"),
        ("link", "is a directory"),
        ("d/", "directory"),
        ("..", "directory"),
        ("pipe", "no regular file"),
        ("/dev/null", "no regular file"),
        ("loop", "too many symbolic links"),
        ("f/x", "leads nowhere"),
        ("", "empty"),
        ("a\0b", "NUL"),
    ] {
        let words = room.prepare("write_file", &json!({"path": path, "content": ""})).unwrap_err();
        assert!(words.contains(expected), "{path}: {words}");
    }
    assert!(room.prepare("write_file", &json!({"path": "a"})).unwrap_err().contains("`content` is missing"));
}

#[test]
fn a_write_protected_file_is_not_written_over() {
    if rustix::process::geteuid().is_root() {
        return; // Nothing is protected from root.
    }
    let room = Room::new();
    fs::write(room.path("f"), "old").unwrap();
    fs::set_permissions(room.path("f"), fs::Permissions::from_mode(0o444)).unwrap();
    assert!(
        room.prepare("write_file", &json!({"path": "f", "content": ""})).unwrap_err().contains("may not be written")
    );
}

#[test]
fn a_name_may_be_as_long_as_names_can_be() {
    let room = Room::new();
    let name = "n".repeat(255);
    assert!(!room.run("write_file", &json!({"path": name, "content": "a"})).is_error);
    assert_eq!(names(&room), [name]);
}

#[test]
fn a_failure_is_told_and_leaves_the_old_file_and_nothing_new() {
    let room = Room::new();
    let call = room.prepare("write_file", &json!({"path": "d/f", "content": "new"})).unwrap();
    fs::write(room.path("d"), "in the way").unwrap();
    let Run::OnThread(write) = tools::find("write_file").unwrap().run else { panic!("it writes on a thread") };
    let output = write(&call, &room.env, &Job::new().unwrap());
    assert!(output.is_error && output.content.starts_with("Nothing was written: "), "{}", output.content);
    assert_eq!(names(&room), ["d"]);
}

#[test]
fn a_person_is_shown_the_path_and_the_change() {
    let room = Room::new();
    let question =
        |content: &str| room.prepare("write_file", &json!({"path": "f", "content": content})).unwrap().question;
    let path = room.path("f").display().to_string();
    let new = question("a\nb\n");
    assert_eq!(new.title, "write_file: f (new, 2 lines, 4 bytes)");
    assert_eq!(new.detail, [&format!("{path}: new, 2 lines, 4 bytes"), "+a", "+b"]);
    fs::write(room.path("f"), "a\nc\n").unwrap();
    let changed = question("a\nb\n");
    assert_eq!(changed.title, "write_file: f (-1 +1 lines)");
    assert_eq!(changed.detail, [&format!("{path}: -1 +1 lines"), " a", "-c", "+b"]);
    assert_eq!(question("a\nc\n").title, "write_file: f (unchanged)");
    fs::write(room.path("f"), b"\xff\xfe").unwrap();
    assert_eq!(question("a\n").title, "write_file: f (1 lines, 2 bytes, replaces 2 bytes that are not shown)");
    let long = question(&"x\n".repeat(500));
    assert_eq!(long.detail.len(), 1 + 40 + 1);
}

#[test]
fn a_link_that_leads_elsewhere_is_shown_with_its_end() {
    let room = Room::new();
    let elsewhere = Room::new();
    symlink(elsewhere.path("secret"), room.path("harmless")).unwrap();
    let question = room.prepare("write_file", &json!({"path": "harmless", "content": "x"})).unwrap().question;
    assert!(question.detail[0].starts_with(elsewhere.path("secret").to_str().unwrap()), "{:?}", question.detail);
}
