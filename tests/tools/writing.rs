//! What `write_file` writes, and what it asks first.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::json;

use super::Workspace;
use crate::support::internals::tools;
use crate::support::internals::tools::{Job, Run};

fn names(workspace: &Workspace) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(&workspace.env.working_directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_new_file_is_created_with_its_directories() {
    let workspace = Workspace::new();
    let result = workspace.run("write_file", &json!({"file_path": "a/b/c.txt", "content": "ä\n"}));
    assert_eq!((result.content.as_str(), result.is_error), ("created a/b/c.txt (3 bytes)", false));
    assert_eq!(fs::read_to_string(workspace.path("a/b/c.txt")).unwrap(), "ä\n");
    let fresh = fs::metadata(workspace.path("a/b/c.txt")).unwrap().permissions().mode();
    let usual = File::create(workspace.path("usual")).unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(fresh, usual);
}

#[test]
fn a_reader_of_the_old_file_keeps_the_old_content_and_no_other_file_is_left() {
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "old").unwrap();
    let mut reader = File::open(workspace.path("f")).unwrap();
    let before = fs::metadata(workspace.path("f")).unwrap().ino();
    let result = workspace.run("write_file", &json!({"file_path": "f", "content": "new"}));
    let said = "overwrote f (3 bytes)\n@@ -1 +1 @@\n-old (no newline at end of file)\n+new (no newline at end of file)";
    assert_eq!(result.content, said);
    let mut content = String::new();
    reader.read_to_string(&mut content).unwrap();
    assert_eq!(content, "old");
    assert_eq!(fs::read_to_string(workspace.path("f")).unwrap(), "new");
    assert_ne!(fs::metadata(workspace.path("f")).unwrap().ino(), before);
    assert_eq!(names(&workspace), ["f"]);
}

#[test]
fn the_mode_is_kept() {
    let workspace = Workspace::new();
    for mode in [0o755, 0o600, 0o666, 0o644] {
        fs::write(workspace.path("f"), "old").unwrap();
        fs::set_permissions(workspace.path("f"), fs::Permissions::from_mode(mode)).unwrap();
        workspace.run("read_file", &json!({"file_path": "f"}));
        assert!(!workspace.run("write_file", &json!({"file_path": "f", "content": "new"})).is_error);
        assert_eq!(fs::metadata(workspace.path("f")).unwrap().permissions().mode() & 0o7777, mode);
    }
}

#[test]
fn a_link_is_followed_and_stays_a_link() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.path("d")).unwrap();
    fs::write(workspace.path("d/real"), "old").unwrap();
    symlink("d/real", workspace.path("link")).unwrap();
    symlink("link", workspace.path("link to link")).unwrap();
    symlink("d/none", workspace.path("dangling")).unwrap();
    for (link, real) in [("link to link", "d/real"), ("dangling", "d/none")] {
        let result = workspace.run("write_file", &json!({"file_path": link, "content": "new"}));
        assert!(!result.is_error, "{}", result.content);
        assert_eq!(fs::read_to_string(workspace.path(real)).unwrap(), "new");
        assert!(fs::symlink_metadata(workspace.path(link)).unwrap().is_symlink());
    }
    assert_eq!(names(&workspace), ["d", "dangling", "link", "link to link"]);
}

#[test]
fn a_path_that_cannot_be_a_file_is_refused_before_the_user_is_asked() {
    let workspace = Workspace::new();
    workspace.make_fifo("pipe");
    fs::create_dir(workspace.path("d")).unwrap();
    fs::write(workspace.path("f"), "old").unwrap();
    symlink("d", workspace.path("link")).unwrap();
    symlink("loop", workspace.path("loop")).unwrap();
    for (path, expected) in [
        ("d", "is a directory"),
        ("link", "is a directory"),
        ("d/", "directory"),
        ("..", "directory"),
        ("pipe", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("loop", "too many symbolic links"),
        ("f/x", "f/x: not a directory"),
        ("", "empty"),
        ("a\0b", "NUL"),
    ] {
        let message = workspace.prepare("write_file", &json!({"file_path": path, "content": ""})).unwrap_err();
        assert!(message.contains(expected), "{path}: {message}");
    }
    assert!(workspace.prepare("write_file", &json!({"file_path": "a"})).unwrap_err().contains("`content` is missing"));
}

#[test]
fn a_read_only_file_is_not_overwritten() {
    if rustix::process::geteuid().is_root() {
        return; // Nothing is protected from root.
    }
    let workspace = Workspace::new();
    fs::write(workspace.path("f"), "old").unwrap();
    fs::set_permissions(workspace.path("f"), fs::Permissions::from_mode(0o444)).unwrap();
    assert!(
        workspace
            .prepare("write_file", &json!({"file_path": "f", "content": ""}))
            .unwrap_err()
            .contains("permission denied")
    );
}

#[test]
fn a_name_may_have_the_maximum_length() {
    let workspace = Workspace::new();
    let name = "n".repeat(255);
    assert!(!workspace.run("write_file", &json!({"file_path": name, "content": "a"})).is_error);
    assert_eq!(names(&workspace), [name]);
}

#[test]
fn a_failure_is_reported_and_leaves_no_new_file() {
    let workspace = Workspace::new();
    let call = workspace.prepare("write_file", &json!({"file_path": "d/f", "content": "new"})).unwrap();
    fs::write(workspace.path("d"), "in the way").unwrap();
    let Run::OnThread(write) = tools::find("write_file").unwrap().run else { panic!("it writes on a thread") };
    let output = write(&call, &workspace.env, &Job::new().unwrap());
    assert!(output.is_error && output.content.starts_with("nothing was written: "), "{}", output.content);
    assert_eq!(names(&workspace), ["d"]);
}

#[test]
fn the_user_is_shown_the_path_and_the_change() {
    let workspace = Workspace::new();
    let question = |content: &str| {
        workspace.prepare("write_file", &json!({"file_path": "f", "content": content})).unwrap().question
    };
    let path = workspace.path("f").display().to_string();
    let new = question("a\nb\n");
    assert_eq!(new.title, "write_file: f (new, 2 lines, 4 bytes)");
    assert_eq!(new.detail, [&format!("{path}: new, 2 lines, 4 bytes"), "+a", "+b"]);
    fs::write(workspace.path("f"), "a\nc\n").unwrap();
    let changed = question("a\nb\n");
    assert_eq!(changed.title, "write_file: f (+1 -1 lines)");
    assert_eq!(changed.detail, [&format!("{path}: +1 -1 lines"), "@@ -1,2 +1,2 @@", " a", "-c", "+b"]);
    assert_eq!(question("a\nc\n").title, "write_file: f (unchanged)");
    fs::write(workspace.path("f"), b"\xff\xfe").unwrap();
    assert_eq!(
        question("a\n").title,
        "write_file: f (1 line, 2 bytes, replaces 2 bytes (not text, or too large to show))"
    );
    let long = question(&"x\n".repeat(500));
    assert_eq!(long.detail.len(), 1 + 500, "all of it");
}

#[test]
fn the_target_of_a_link_is_shown() {
    let workspace = Workspace::new();
    let elsewhere = Workspace::new();
    symlink(elsewhere.path("secret"), workspace.path("harmless")).unwrap();
    let question = workspace.prepare("write_file", &json!({"file_path": "harmless", "content": "x"})).unwrap().question;
    assert!(question.detail[0].starts_with(elsewhere.path("secret").to_str().unwrap()), "{:?}", question.detail);
}
