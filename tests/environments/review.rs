//! The review of what an agent has changed.

use std::fs;
use std::path::{Path, PathBuf};

use super::worktrees::{app as app_with_repository, git, worktrees};
use crate::support::harness::{Harness, QUESTION_SETTLES};
use crate::support::internals::{Body, Probe as _, WakeReason};
use crate::support::scene::assert_shows;

/// An agent in a repository that has a name for commits.
pub(super) fn in_repository() -> Option<(Harness, PathBuf)> {
    let mut app = app_with_repository()?;
    let repo = fs::canonicalize(app.directory().join("repo")).expect("a repository");
    git(&repo, &["config", "user.name", "test"]);
    git(&repo, &["config", "user.email", "test@localhost"]);
    app.enter("/env coding@repo");
    app.enter("/approval auto");
    Some((app, repo))
}

/// Two agents in worktrees: `json` has changed two hunks of one file and added another, `docs` has changed nothing.
fn reviewed() -> Option<(Harness, PathBuf, PathBuf)> {
    let (mut app, repo) = in_repository()?;
    let lines: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    fs::write(repo.join("src/long"), &lines).expect("a file");
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "second"]);
    app.enter("/fork --worktree --stay --name json");
    app.turn_until("a child", |app| app.repl.roster().len() == 3);
    app.enter("/fork --worktree --stay --name docs");
    app.turn_until("a child", |app| app.repl.roster().len() == 4);
    let root = worktrees(&app).into_iter().find(|root| root.ends_with("repo@json")).expect("a worktree");
    let changed = lines.replace("line 2\n", "line two\n").replace("line 28\n", "line 28\nline 28b\n");
    fs::write(root.join("src/long"), changed).expect("a file");
    fs::write(root.join("new"), "all new\n").expect("a file");
    Some((app, repo, root))
}

fn open(app: &mut Harness) {
    app.enter("/diff json");
    app.turn_until("compared", |app| app.screen_text().contains("src/long"));
}

pub(super) fn wait_for_text(app: &mut Harness, expected: &str) {
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    app.turn_until(expected, |app| words(app.screen_text()).contains(expected));
}

fn main_log(repo: &Path) -> String {
    git(repo, &["log", "--format=%s", "main"])
}

#[test]
fn a_fork_in_a_worktree_is_begun_from_the_wall() {
    let Some((mut app, _)) = in_repository() else { return };
    app.type_bytes(b"\x1bw");
    app.type_bytes(b"1f");
    wait_for_text(&mut app, "task for a fork in a git worktree of its own");
    app.type_bytes(b"count the pieces\r");
    app.turn_until("a child", |app| app.repl.roster().len() == 3);
    assert_eq!(app.agent(2).inputs.environment.place_name().as_deref(), Some("repo:count-the-pieces"));
    app.turn_until_idle();
    assert_eq!(app.agent(2).title, "count the pieces");
    wait_for_text(&mut app, "wall ─ 3 agents");
}

#[test]
fn files_and_hunks_are_read_with_few_keys_and_agents_follow_each_other() {
    let Some((mut app, ..)) = reviewed() else { return };
    open(&mut app);
    for expected in ["review ─ json ─ repo:json ─ idle ─ 2 files +3 -1", "> new", "+all new", "src/long +2 -1"]
    {
        wait_for_text(&mut app, expected);
    }
    app.type_bytes(b"j");
    wait_for_text(&mut app, "src/long:2 +2 -1 lines hunk 1 of 2");
    assert_shows(&mut app, "   2 -line 2");
    assert_shows(&mut app, "   2 +line two");
    app.type_bytes(b"j");
    wait_for_text(&mut app, "src/long:29 +2 -1 lines hunk 2 of 2");
    app.type_bytes(b"jjkk");
    wait_for_text(&mut app, "new:1 new, +1 -0 lines");
    app.type_bytes(b"]");
    wait_for_text(&mut app, "nothing has changed since polylogue/docs left main");
    app.type_bytes(b"[");
    wait_for_text(&mut app, "2 files +3 -1");
    app.escape();
    assert!(!app.screen_text().contains("review ─"), "{}", app.screen_text());
    app.switch(2);
    app.type_bytes(b"\x1br");
    wait_for_text(&mut app, "2 files +3 -1");
}

#[test]
fn comments_go_to_the_agent_as_one_message_with_their_places() {
    let Some((mut app, ..)) = reviewed() else { return };
    open(&mut app);
    app.type_bytes(b"s");
    wait_for_text(&mut app, "no comments: c comments the marked hunk");
    app.type_bytes(b"jc");
    wait_for_text(&mut app, "comment on src/long:2");
    app.type_bytes(b"why two?\r");
    wait_for_text(&mut app, "✎ why two?");
    app.type_bytes(b"jcand this?\r]");
    wait_for_text(&mut app, "s sends the comments first");
    app.type_bytes(b"s");
    app.turn_until_idle();
    let log = app.log(2);
    let sent = log.iter().rev().find_map(|message| match &message.body {
        Body::User(text) => Some(text.to_string()),
        _ => None,
    });
    let sent = sent.expect("a message");
    assert!(sent.contains("src/long:2: why two?\n```diff\n@@"), "{sent}");
    assert!(sent.contains("src/long:29: and this?") && sent.contains("+line 28b"), "{sent}");
}

#[test]
fn a_hunk_is_taken_back_and_made_again() {
    let Some((mut app, _, root)) = reviewed() else { return };
    open(&mut app);
    app.type_bytes(b"jx");
    wait_for_text(&mut app, "reverted one hunk of");
    let text = fs::read_to_string(root.join("src/long")).expect("a file");
    assert!(text.contains("line 2\n") && text.contains("line 28b\n"), "{text}");
    wait_for_text(&mut app, "src/long +1 -0");
    app.type_bytes(b"Kx");
    app.turn_until("the new file is gone", |_| !root.join("new").exists());
    wait_for_text(&mut app, "1 file +1 -0");
    app.escape();
    app.enter("/undo json --redo");
    app.turn_until("it is back", |_| root.join("new").exists());
    // What was written meanwhile is not lost.
    open(&mut app);
    app.type_bytes(b"J");
    wait_for_text(&mut app, "src/long:29");
    fs::write(root.join("src/long"), "other\n").expect("a file");
    app.type_bytes(b"x");
    wait_for_text(&mut app, "src/long: the file changed after this hunk was shown, nothing was reverted");
    assert_eq!(fs::read_to_string(root.join("src/long")).expect("a file"), "other\n");
}

#[test]
fn marked_hunks_of_several_files_are_commented_and_reverted_together() {
    let Some((mut app, _, root)) = reviewed() else { return };
    open(&mut app);
    // A second Space takes the mark away.
    app.type_bytes(b"  ");
    wait_for_text(&mut app, "2 hunks marked");
    app.type_bytes(b"Jf");
    wait_for_text(&mut app, "3 hunks marked");
    app.type_bytes(b"kk ");
    wait_for_text(&mut app, "2 hunks marked");
    app.type_bytes(b"c");
    wait_for_text(&mut app, "comment on 2 hunks");
    app.type_bytes(b"not like this\r");
    wait_for_text(&mut app, "2 comments");
    assert!(!app.screen_text().contains("marked"), "{}", app.screen_text());
    app.type_bytes(b"Cf");
    wait_for_text(&mut app, "2 hunks marked");
    app.type_bytes(b"f");
    app.turn_until("no mark", |app| !app.screen_text().contains("marked"));
    app.type_bytes(b"KKfJfx");
    app.turn_until("the new file is gone", |_| !root.join("new").exists());
    wait_for_text(&mut app, "reverted 3 hunks of 2 files");
    let text = fs::read_to_string(root.join("src/long")).expect("a file");
    assert!(text.contains("line 2\n") && !text.contains("line 28b\n"), "{text}");
    app.escape();
    app.enter("/undo json --redo");
    let is_back = |text: String| text.contains("line two\n") && text.contains("line 28b\n");
    app.turn_until("both files are back", |_| {
        root.join("new").exists() && fs::read_to_string(root.join("src/long")).is_ok_and(is_back)
    });
}

#[test]
fn a_mark_moves_with_its_hunk_and_one_that_is_lost_is_told_before_a_key_acts() {
    let Some((mut app, _, root)) = reviewed() else { return };
    open(&mut app);
    app.type_bytes(b"j j ");
    wait_for_text(&mut app, "2 hunks marked");
    let long = root.join("src/long");
    let text = fs::read_to_string(&long).expect("a file");
    // The first hunk changes, and the second moves down.
    let text = text.replace("line two", "line zwei").replace("line 15\n", "line 15\n15b\n15c\n");
    fs::write(&long, &text).expect("a file");
    app.say(2, "go on");
    wait_for_text(&mut app, "1 hunk marked");
    app.type_bytes(b"x");
    wait_for_text(&mut app, "marked hunks have changed and lost their marks");
    app.type_bytes(b"x");
    wait_for_text(&mut app, "reverted one hunk of");
    assert_eq!(fs::read_to_string(&long).expect("a file"), text.replace("line 28b\n", ""));
}

#[test]
fn the_work_lands_with_a_proposed_message() {
    let Some((mut app, repo, root)) = reviewed() else { return };
    open(&mut app);
    app.type_bytes(b"l");
    wait_for_text(&mut app, "land on main");
    app.type_bytes(b"\r");
    wait_for_text(&mut app, "landed 1 commit of polylogue/json on main");
    assert_eq!(main_log(&repo), "json\nsecond\nfirst");
    assert_eq!(fs::read_to_string(repo.join("new")).expect("a file"), "all new\n");
    wait_for_text(&mut app, "nothing has changed since polylogue/json left main");
    // A conflict: the agent is asked to merge.
    fs::write(root.join("src/f"), "of the agent\n").expect("a file");
    fs::write(repo.join("src/f"), "of the person\n").expect("a file");
    git(&repo, &["commit", "-q", "-a", "-m", "third"]);
    app.type_bytes(b"l\r");
    wait_for_text(&mut app, "conflicts with main, nothing was landed");
    app.type_bytes(b"m");
    app.turn_until_idle();
    wait_for_text(&mut app, "review ─ json");
    app.escape();
    app.switch(2);
    assert_shows(&mut app, "merge the branch main into yours");
}

#[test]
fn discarded_work_is_kept_as_a_ref_and_the_agent_ends() {
    let Some((mut app, repo, root)) = reviewed() else { return };
    open(&mut app);
    app.type_bytes(b"D");
    wait_for_text(&mut app, "D again deletes the worktree, its branch and this agent");
    app.type_bytes(b"jD");
    assert!(root.exists(), "another key between them");
    app.type_bytes(b"D");
    wait_for_text(
        &mut app,
        "discarded polylogue/json; to restore it within 30 days: git branch polylogue/json refs/polylogue/discarded/json-",
    );
    assert_eq!((root.exists(), app.repl.roster().len()), (false, 3));
    assert!(git(&repo, &["branch", "--list", "polylogue/json"]).is_empty());
    let kept = git(&repo, &["for-each-ref", "--format=%(refname)", "refs/polylogue/discarded"]);
    assert_eq!(git(&repo, &["show", &format!("{kept}:new")]), "all new");
    app.turn_until("git has nothing more to do", |app| app.timeout().why == WakeReason::Nothing);
    assert_eq!(worktrees(&app).len(), 1);
}

/// The ways to end an agent with a worktree are said before; what became of it, where that was typed.
#[test]
fn an_agent_with_a_worktree_is_killed_with_it_without_it_or_after_its_work_has_landed() {
    for (end, expected, is_kept, log) in [
        ("", "kept the worktree", true, "second\nfirst"),
        (" --land", "removed the worktree", false, "json\nsecond\nfirst"),
        (" --discard", "discarded polylogue/json", false, "second\nfirst"),
    ] {
        let Some((mut app, repo, root)) = reviewed() else { return };
        app.switch(3);
        if end.is_empty() {
            app.enter("/kill json");
            wait_for_text(
                &mut app,
                "press Enter again to kill json (its worktree repo:json is kept if it has changes)",
            );
            app.enter_and_confirm("\x15/kill json");
        } else {
            app.enter(&format!("/kill json{end}"));
        }
        wait_for_text(&mut app, expected);
        app.turn_until("git has nothing more to do", |app| app.timeout().why == WakeReason::Nothing);
        assert_eq!((app.repl.roster().len(), root.exists()), (3, is_kept), "{end}");
        assert_eq!((main_log(&repo).as_str(), app.focus()), (log, 2), "{end}");
    }
}

/// Three changes in worktrees: one asks and lands, one lands, one is thrown away; by a person who stays in the program.
#[test]
fn three_agents_are_started_answered_reviewed_and_landed_with_less_than_forty_keys() {
    let Some((mut app, repo)) = in_repository() else { return };
    let mut count = 0;
    let mut press = |app: &mut Harness, keys: &[&[u8]]| {
        for key in keys {
            app.type_bytes(key);
            app.turn();
            count += 1;
        }
    };
    for prompt in [
        r#"%tool write_file {"file_path":"one.py","content":"1\n"}"#,
        r#"%tool bash {"command":"touch two.py"}"#,
        r#"%tool write_file {"file_path":"three.py","content":"3\n"}"#,
    ] {
        // What is asked for is typed in any case.
        app.type_bytes(prompt.as_bytes());
        press(&mut app, &[b"\x18", b"\r"]);
    }
    app.turn_until("three children", |app| app.repl.roster().len() == 5);
    app.turn_until("one asks, the others are done", |app| {
        app.repl.roster().asking().len() == 1 && app.repl.roster().at_work().is_empty()
    });
    press(&mut app, &[b"\x1ba"]);
    assert_shows(&mut app, "bash: touch two.py");
    let settled = app.clock.now() + QUESTION_SETTLES * 3;
    app.turn_until("keys are answers", |app| app.clock.now() > settled);
    app.turn();
    press(&mut app, &[b"y"]);
    app.turn_until("nobody asks", |app| {
        app.repl.roster().asking().is_empty() && app.repl.roster().at_work().is_empty()
    });
    app.turn_until("all have finished", |app| app.screen_text().contains("3 finished"));
    press(&mut app, &[b"\r"]);
    let mut reviewed = Vec::new();
    while reviewed.len() < 3 {
        let mut name = "";
        app.turn_until("a review", |app| {
            let screen = app.screen_text();
            let is_shown = |name: &&str| screen.contains(&format!("> {name}")) && !reviewed.contains(name);
            name = ["one.py", "two.py", "three.py"].into_iter().find(is_shown).unwrap_or_default();
            !name.is_empty() || screen.contains("nothing has changed since")
        });
        if name.is_empty() {
            press(&mut app, &[b"]"]);
            continue;
        }
        reviewed.push(name);
        if name == "three.py" {
            press(&mut app, &[b"D", b"D"]);
            wait_for_text(&mut app, "discarded polylogue/");
        } else {
            press(&mut app, &[b"l", b"\r"]);
            wait_for_text(&mut app, "landed 1 commit");
        }
        if reviewed.len() < 3 && name != "three.py" {
            press(&mut app, &[b"]"]);
        }
    }
    press(&mut app, &[b"\x1b"]);
    assert!(repo.join("one.py").exists() && repo.join("two.py").exists() && !repo.join("three.py").exists());
    assert_eq!(main_log(&repo).lines().count(), 4, "{}", main_log(&repo));
    assert!(count <= 40, "{count} keys");
}

/// Without a worktree, a hunk is what tools changed: line ends and a missing last one come back as they were.
#[test]
fn a_hunk_of_an_agent_without_a_worktree_is_reverted_exactly() {
    let Some((mut app, repo)) = in_repository() else { return };
    fs::write(repo.join("crlf"), "a\r\nb").expect("a file");
    app.enter(r#"%tool read_file {"path":"crlf"}"#);
    app.turn_until_idle();
    app.enter(r#"%tool write_file {"file_path":"crlf","content":"a\nb\nc\n"}"#);
    app.turn_until_idle();
    assert_eq!(fs::read_to_string(repo.join("crlf")).expect("a file"), "a\nb\nc\n");
    app.enter("/diff");
    wait_for_text(&mut app, "hunk 1 of 1");
    app.type_bytes(b"x");
    wait_for_text(&mut app, "reverted one hunk of");
    assert_eq!(fs::read_to_string(repo.join("crlf")).expect("a file"), "a\r\nb");
}

#[test]
fn comments_that_were_not_sent_are_left_only_with_a_second_key() {
    let Some((mut app, ..)) = reviewed() else { return };
    open(&mut app);
    app.type_bytes(b"cwhy?\r");
    wait_for_text(&mut app, "✎ why?");
    app.escape();
    wait_for_text(&mut app, "s sends the comments first");
    app.type_bytes(b"j");
    app.escape();
    wait_for_text(&mut app, "s sends the comments first");
    app.escape();
    assert!(!app.screen_text().contains("review ─"), "{}", app.screen_text());
}

/// Git says of a rename with few bytes what could be cut within a letter.
#[test]
fn a_renamed_file_and_commits_beside_the_branch_are_neither_hidden_nor_lost() {
    let Some((mut app, repo, root)) = reviewed() else { return };
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "of the branch"]);
    git(&root, &["mv", "src/f", "src/日本語"]);
    open(&mut app);
    app.type_bytes(b"JJ");
    wait_for_text(&mut app, "src/日本語 renamed from src/f");
    git(&root, &["checkout", "-q", "--detach", "HEAD~1"]);
    app.type_bytes(b"DD");
    wait_for_text(&mut app, "discarded polylogue/json");
    let kept = git(&repo, &["for-each-ref", "--format=%(refname)", "refs/polylogue/discarded"]);
    assert!(git(&repo, &["log", "--format=%s", &kept]).contains("of the branch"));
    app.turn_until("git has nothing more to do", |app| app.timeout().why == WakeReason::Nothing);
    assert!(!root.exists());
}
