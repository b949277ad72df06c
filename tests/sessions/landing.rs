//! `polylogue land` from the shell, of living and of killed agents, beside a chat and without one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::App;
use super::chats::chat;
use crate::environments::worktrees::{git, make_repository};
use crate::support::pty::Pty;

/// A chat with an agent in a worktree of a repository, the repository, and the worktree.
fn in_worktree() -> Option<(App, Pty, PathBuf, PathBuf)> {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("there is no git here: landing is not tried");
        return None;
    }
    let app = App::new();
    let repo = app.workspace.path().canonicalize().expect("a directory").join("repo");
    make_repository(&repo);
    git(&repo, &["config", "user.name", "test"]);
    git(&repo, &["config", "user.email", "test@localhost"]);
    let mut chat = chat(&app, &[]);
    chat.send(format!("/env worktree@{}\r", repo.display()));
    chat.wait_for_text("── agent 1 ");
    let listed = fs::read_dir(app.path().join("worktrees")).expect("worktrees").flatten().map(|entry| entry.path());
    // The conflict radar has directories there for a moment.
    let mut worktrees =
        listed.filter(|path| !path.to_string_lossy().contains("-survey-") && path.join(".git").exists());
    let worktree = worktrees.next().expect("a worktree");
    Some((app, chat, repo, worktree))
}

fn commit(at: &Path, file: &str) {
    fs::write(at.join(file), "of the agent\n").expect("a file");
    git(at, &["add", "."]);
    git(at, &["commit", "-q", "-m", &format!("add {file}")]);
}

/// The id of agent 1, which it keeps after its end.
fn id(app: &App) -> String {
    let listed = app.get(&["ps", "--json"]);
    let last: Value = serde_json::from_str(listed.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["number"], 1);
    last["id"].as_str().expect("an id").to_owned()
}

/// Lands this agent; what was printed.
fn landed(app: &App, repo: &Path, agent: &str, file: &str) -> String {
    let printed = app.get(&["land", agent]);
    assert!(repo.join(file).exists(), "{printed}");
    assert_eq!(git(repo, &["status", "--porcelain"]), "");
    printed
}

#[test]
fn a_living_agent_is_landed_beside_a_chat_and_after_it() {
    let Some((app, mut chat, repo, worktree)) = in_worktree() else { return };
    commit(&worktree, "one");
    assert!(landed(&app, &repo, "1", "one").contains("(fast-forward)"));
    assert!(app.run(&["land", "1"]).err.contains("nothing to land"));
    fs::write(worktree.join("loose"), "not committed\n").expect("a file");
    let refused = app.run(&["land", "1"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("--commit MESSAGE commits them first:\n  loose"), "{refused:?}");
    assert!(!chat.screen_text().contains("/land"), "what a script asks for is not typed here");
    chat.leave();
    let refused = app.run(&["land", "1"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("--commit MESSAGE commits them first:\n  loose"), "{refused:?}");
    assert!(app.get(&["land", "1", "--commit", "the rest"]).contains("(fast-forward)"));
    assert_eq!(git(&repo, &["log", "--format=%s"]), "the rest\nadd one\nfirst");
    let unknown = app.run(&["land", "nobody"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("no agent \"nobody\""), "{unknown:?}");
    assert!(app.run(&["land", "0"]).err.contains("does not work in a git worktree"));
}

#[test]
fn a_killed_agent_is_landed_beside_a_chat() {
    let Some((app, mut chat, repo, worktree)) = in_worktree() else { return };
    commit(&worktree, "one");
    let id = id(&app);
    app.get(&["kill", "1"]);
    chat.wait_for_text("agent 1 killed");
    assert!(landed(&app, &repo, &id, "one").contains("(fast-forward)"));
    super::eventually("the landed worktree is removed", || !worktree.exists());
    chat.leave();
}

#[test]
fn a_killed_agent_is_landed_without_a_chat() {
    let Some((app, mut chat, repo, worktree)) = in_worktree() else { return };
    commit(&worktree, "one");
    let id = id(&app);
    app.get(&["kill", "1"]);
    chat.wait_for_text("agent 1 killed");
    chat.leave();
    assert!(landed(&app, &repo, &id, "one").contains("(fast-forward)"));
}

#[test]
fn scripts_get_reviews_and_landings_as_json() {
    let Some((app, mut chat, repo, worktree)) = in_worktree() else { return };
    let json = |line: &str| -> Value { serde_json::from_str(line).expect("JSON") };
    commit(&worktree, "one");
    fs::write(worktree.join("src/f"), "of the agent\n").expect("a file");
    let review = json(&app.get(&["review", "1", "--json"]));
    assert_eq!((&review["agent"], &review["target"]), (&"agent 1".into(), &"main".into()), "{review}");
    let files = review["files"].as_array().expect("files");
    let counts = files.iter().map(|file| (file["path"].as_str().unwrap(), file["added"].as_u64().unwrap()));
    assert_eq!(counts.collect::<Vec<_>>(), [("one", 1), ("src/f", 1)]);
    assert_eq!(files[0]["hunks"][0]["line"], 1, "{review}");
    assert_eq!(files[0]["hunks"][0]["lines"].as_array().and_then(|lines| lines.last()), Some(&"+of the agent".into()));
    assert!(app.get(&["review", "1"]).contains("one  new, +1 -0 lines"), "without --json it is a text");
    assert!(!chat.screen_text().contains("+1 -0"), "what a script asks for is not shown here");

    let landed = json(&app.get(&["land", "1", "--only-committed", "--json"]));
    assert_eq!((&landed["agent"], &landed["landed"]), (&"agent 1".into(), &true.into()), "{landed}");
    assert_eq!(landed["after"], git(&repo, &["rev-parse", "main"]), "{landed}");
    assert!(landed["text"].as_str().expect("a text").contains("uncommitted changes in"), "{landed}");
    assert_eq!(git(&worktree, &["status", "--porcelain"]), "M src/f");

    fs::write(repo.join("src/f"), "not committed\n").expect("a file");
    let left = app.run(&["kill", "1", "--land"]);
    assert_eq!(left.code, Some(2), "{left:?}");
    assert!(left.err.contains("has uncommitted changes"), "{left:?}");
    git(&repo, &["checkout", "-q", "src/f"]);
    chat.leave();
    let left = app.run(&["land", "--all", "--only-committed", "--json"]);
    assert_eq!(left.code, Some(1), "{left:?}");
    let left = json(&left.out);
    assert_eq!(left["landed"], false, "{left}");
    assert!(left["text"].as_str().expect("a reason").starts_with("nothing to land"), "{left}");
    let left = app.run(&["land", "1", "--json"]);
    assert_eq!(left.code, Some(1), "{left:?}");
    let left = json(&left.out);
    assert_eq!((&left["landed"], &left["up_to_date"]), (&false.into(), &false.into()), "{left}");
    assert!(left["text"].as_str().expect("a reason").starts_with("uncommitted changes in"), "{left}");
    let left = app.run(&["land", "1"]);
    assert_eq!((left.code, left.out.as_str()), (Some(2), ""), "{left:?}");
    assert!(left.err.contains("uncommitted changes in"), "{left:?}");
    assert_eq!(json(&app.get(&["land", "--all", "--json"]))["landed"], true);
    let nothing = json(&app.get(&["land", "1", "--json"]));
    assert_eq!((&nothing["landed"], &nothing["up_to_date"]), (&false.into(), &true.into()), "{nothing}");
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(repo.join("src/f")).unwrap(), "of the agent\n");
}
