//! The data directory: private, held by one process, and the errors that it can give.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use polylogue::{AgentId, Error, ErrorKind, Store};
use rusqlite::Connection;

use super::*;
use crate::support::internals::DraftSlot;
use crate::support::internals::TurnEnd;
use crate::support::internals::limits::MadeBy;
use crate::support::internals::store::{holder, typed_line};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn refusal(dir: &Path) -> Error {
    let error = Store::open(dir).err().unwrap_or_else(|| panic!("{} was opened", dir.display()));
    assert_eq!(error.kind, ErrorKind::Store);
    assert!(error.message.contains(&*dir.display().to_string()), "{error}");
    error
}

fn raw(dir: &Path) -> Connection {
    Connection::open(dir.join("polylogue.db")).unwrap()
}

#[test]
fn the_directory_and_all_files_in_it_are_the_owners_alone() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("a/b");
    let store = Store::open(&dir).unwrap();
    store.create_root(AgentId::random(), None, None, 1).unwrap();
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3, "database, its journal and the lock: {files:?}");
    files.iter().for_each(|file| assert_eq!(mode(file), 0o600, "{}", file.display()));
}

#[test]
fn a_link_or_a_pipe_in_the_place_of_a_file_is_refused_at_once_and_its_target_is_not_touched() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = elsewhere.path().join("target");
    std::fs::write(&target, "another file").unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o644)).unwrap();
    for name in ["polylogue.lock", "polylogue.db", "polylogue.db-wal", "polylogue.db-shm", "polylogue.db-journal"] {
        let path = dir.path().join(name);
        symlink(&target, &path).unwrap();
        assert!(refusal(dir.path()).message.contains(&format!("{name}: is a symbolic link")));
        assert!(name == "polylogue.lock" || Store::open_read_only(dir.path()).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(refusal(dir.path()).message.contains(&format!("{name}: is not a regular file")));
        assert_eq!(holder(dir.path()), None);
        assert!(name == "polylogue.lock" || Store::open_read_only(dir.path()).is_err());
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!((std::fs::read(&target).unwrap().as_slice(), mode(&target)), (&b"another file"[..], 0o644));
    drop(Store::open(dir.path()).unwrap());
}

#[test]
fn files_that_others_could_read_are_closed_to_them() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let file = dir.path().join("polylogue.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(Store::open(dir.path()).unwrap());
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn a_second_process_learns_which_one_holds_the_store_and_gets_it_afterwards() {
    const STORY: &str = "POLYLOGUE_TEST_SECOND_PROCESS";
    if let Ok(dir) = std::env::var(STORY) {
        let outcome = Store::open(Path::new(&dir)).map_or_else(|error| error.message, |_| "opened".into());
        println!("outcome: {outcome}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let second = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture"]).arg(std::thread::current().name().unwrap()).env(STORY, dir.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let first = Store::open(dir.path()).unwrap();
    let refused = second();
    assert!(refused.contains(&format!("in use by another polylogue (process {})", std::process::id())), "{refused}");
    assert!(refused.contains("--read-only") && refused.contains("another directory"), "{refused}");
    assert_eq!(holder(dir.path()), Some(std::process::id()));
    drop(first);
    assert!(second().contains("outcome: opened"));
    assert_eq!(holder(dir.path()), None);
}

#[test]
fn a_held_store_can_be_read_but_not_written() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Store::open_read_only(dir.path()).is_err(), "there is none yet");
    let writer = Store::open(dir.path()).unwrap();
    let root = AgentId::random();
    writer.create_root(root, None, None, 1).unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap();
    append(&writer, root, "news");
    assert_eq!(texts(&reader, root), ["news"]);
    let refused = reader.append(root, vec![user("no")], 2).unwrap_err();
    assert!(refused.message.contains("the database is read-only"), "{refused}");
}

#[test]
fn a_newer_schema_is_rejected_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    raw(dir.path()).execute_batch("PRAGMA user_version = 99").unwrap();
    let error = refusal(dir.path());
    assert!(error.message.contains("newer polylogue") && error.message.contains("version 99"), "{error}");
    assert!(Store::open_read_only(dir.path()).is_err());
    let version: i64 = raw(dir.path()).pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn the_file_of_another_program_is_rejected_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("polylogue.db");
    let text = "This is not a database. ".repeat(100);
    std::fs::write(&file, &text).unwrap();
    assert!(refusal(dir.path()).message.contains("not a database"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    std::fs::remove_file(&file).unwrap();
    raw(dir.path()).execute_batch("CREATE TABLE recipes (x)").unwrap();
    assert!(refusal(dir.path()).message.contains("another program"));
}

#[test]
fn a_path_that_cannot_be_a_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(refusal(&file).message.contains("is a file"));
    let below = file.join("deeper");
    assert!(Store::open(&below).err().unwrap().message.contains("a part of the path is not a directory"));
    let dangling = dir.path().join("dangling");
    symlink(dir.path().join("nowhere"), &dangling).unwrap();
    refusal(&dangling);
    // No user can make a directory there, not even root.
    refusal(Path::new("/proc/polylogue"));
}

#[test]
fn a_database_of_version_1_is_migrated() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v1.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let registry = store.load_agents().unwrap();
    assert_eq!(registry.damaged, Vec::<String>::new());
    let [root, scout] = &registry.agents[..] else { panic!("{registry:?}") };
    assert_eq!((root.endpoint.as_deref(), scout.name.as_deref()), (Some("echo/echo"), Some("scout")));
    assert_eq!(texts(&store, scout.id), ["hello", "look around"]);
    assert_eq!(store.recover(9).unwrap(), [scout.id]);
    assert_eq!(store.queued(root.id).unwrap()[0].text, "and then this");
    assert_eq!(store.drafts(root.id).unwrap(), [(DraftSlot(0), "half a thought".to_owned())]);
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_2_is_migrated() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v2.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let registry = store.load_agents().unwrap();
    assert_eq!(registry.damaged, Vec::<String>::new());
    let [root, scout] = &registry.agents[..] else { panic!("{registry:?}") };
    assert_eq!((scout.system.as_deref(), scout.thinking.as_deref()), (Some("be a scout"), Some("high")));
    assert_eq!(store.recover(9).unwrap(), [scout.id]);
    let queued = store.queued(root.id).unwrap();
    let lines: Vec<(String, bool)> =
        queued.iter().map(|entry| (typed_line(&entry.text, entry.is_command), entry.is_command)).collect();
    let expected = [("and then this", false), ("/mark after it", true), ("//etc/hosts is a file", false)];
    assert_eq!(lines, expected.map(|(line, is_command)| (line.to_owned(), is_command)));
    let usage = store.usage(Some(root.id)).unwrap();
    assert_eq!((usage.requests, usage.input, usage.output, usage.cost, usage.priced), (2, 30, 12, 1500, 1));
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_3_is_migrated() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v3.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let scout = store.load_agents().unwrap().agents[1].id;
    #[cfg(feature = "coordinator")]
    let states = || -> Vec<&str> { store.runs(9).unwrap().iter().map(|run| run.state()).collect() };
    #[cfg(feature = "coordinator")]
    assert_eq!(states(), ["running", "completed"]);
    assert_eq!(store.recover(9).unwrap(), [scout]);
    #[cfg(feature = "coordinator")]
    assert_eq!(states(), ["cut", "completed"]);
    assert_eq!(store.load_agents().unwrap().agents.len(), 1, "a member whose run was cut dies with it");
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_4_keeps_its_limits() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v4.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let made: Vec<MadeBy> = store.load_agents().unwrap().agents.iter().map(|agent| agent.made_by).collect();
    assert_eq!(made, [MadeBy::Person, MadeBy::Model]);
    let stored = store.load_limits(0).unwrap();
    assert_eq!((stored.set.len(), stored.spent.len(), stored.creations.len()), (3, 2, 1));
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_5_keeps_policies_rules_and_open_questions_of_agents() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v5.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let agents = store.load_agents().unwrap().agents;
    let kept: Vec<_> = agents.iter().map(|agent| (agent.policy.as_deref(), agent.rules.as_deref())).collect();
    let rules = "[[\"/w\",\"bash(cargo test:*)\"]]";
    assert_eq!(kept, [(Some("auto"), None), (Some("plan"), Some(rules))]);
    assert_eq!(agents.iter().map(|agent| agent.is_asking).collect::<Vec<_>>(), [false, true]);
    assert_eq!(store.input("/any", 0).unwrap().as_deref(), Some("hello"), "inputs of no project are of all");
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn messages_of_every_kind_are_read_as_they_were_stored() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v8.sql")).unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/kinds.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let stored: i64 =
        raw(dir.path()).query_row("SELECT count(DISTINCT kind) FROM messages", [], |row| row.get(0)).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    let mut bodies = Vec::new();
    for agent in ["AQEBAQEBAQEBAQEBAQEBAQ", "AgICAgICAgICAgICAgICAg", "AwMDAwMDAwMDAwMDAwMDAw"] {
        let (messages, damage) = store.replay(agent.parse().unwrap()).unwrap();
        assert!(damage.is_empty(), "{damage:?}");
        kinds.extend(messages.iter().map(|message| message.body.kind()));
        bodies.extend(messages.into_iter().map(|message| message.body));
    }
    // Commands are part of what is shown, and not of what is replayed.
    assert_eq!((kinds.len(), stored), (17, 18), "{kinds:?}");
    let compaction = bodies.iter().find_map(|body| if let Body::Compaction(it) = body { Some(it) } else { None });
    let compaction = compaction.expect("a compaction");
    assert_eq!((compaction.from, compaction.up_to, compaction.messages), (MessageId(40), MessageId(41), 2));
    assert_eq!((compaction.before, compaction.after, compaction.summary.as_str()), (1742, 803, "They counted."));
    assert_eq!((compaction.task.as_str(), compaction.request.as_str()), ("count the files", "go on"));
    assert_eq!(compaction.files, ["/w/notes"]);
    let usage = bodies.iter().filter_map(|body| if let Body::Usage(it) = body { Some(it) } else { None });
    let counted: Vec<_> = usage.map(|it| (it.input, it.written, it.reasoning, it.model.as_str())).collect();
    assert!(counted.contains(&(100, 20, 4, "openai/gpt-5-mini")) && counted.contains(&(20, 2, 0, "")), "{counted:?}");
}

#[test]
fn a_database_of_version_7_keeps_the_drafts_of_several_terminals() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v7.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let root = store.load_agents().unwrap().agents[0].id;
    let drafts = [(DraftSlot(0), "half a thought".to_owned()), (DraftSlot(1), "typed elsewhere".to_owned())];
    assert_eq!(store.drafts(root).unwrap(), drafts);
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_8_keeps_the_parameters_of_each_agent() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v8.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let rows = store.load_agents().unwrap().agents;
    let parameters: Vec<_> = rows.iter().map(|row| row.parameters.as_deref()).collect();
    assert_eq!(parameters, [None, Some(r#"{"temperature":0.5}"#)]);
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn agents_of_version_9_are_listed_and_work_where_the_program_is_started() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v9.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let rows = store.load_agents().unwrap().agents;
    assert_eq!((rows.len(), store.archived_agents().unwrap().agents.len()), (2, 0));
    assert!(rows.iter().all(|row| row.directory.is_none() && row.title.is_none() && !row.is_print_run));
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_10_keeps_what_was_archived_and_knows_no_changes_of_files() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v10.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let archived = store.archived_agents().unwrap().agents;
    assert_eq!((archived.len(), archived[0].title.as_deref()), (1, Some("look around")));
    assert_eq!(store.file_steps(archived[0].id, MessageId(0)), Ok(Vec::new()));
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_11_learns_which_turns_were_cut_and_what_was_used() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v11.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let rows = store.load_agents().unwrap().agents;
    let ends: Vec<_> = rows.iter().map(|row| (row.ordinal, row.last_end, row.unseen_since)).collect();
    assert_eq!(ends, [(0, None, None), (3, Some(TurnEnd::Interrupted), None)]);
    let used: Vec<_> = rows.iter().map(|row| (row.used.input, row.used.output, row.used.cost)).collect();
    assert_eq!(used, [(30, 12, None), (30, 2, None)], "a cost is unknown");
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_12_keeps_how_turns_ended_and_has_no_comparisons() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v12.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let ends: Vec<_> = store.load_agents().unwrap().agents.iter().map(|row| (row.ordinal, row.last_end)).collect();
    assert_eq!(ends, [(0, None), (3, Some(TurnEnd::Interrupted))]);
    drop(store);
    let count = |sql: &str| raw(dir.path()).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((count("SELECT count(*) FROM last_shown"), count("SELECT count(*) FROM comparisons")), (1, 0));

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_13_closes_a_reply_that_was_cut_without_usage() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v13.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let cut: Vec<AgentId> = store.recover(9).unwrap();
    assert_eq!(cut.len(), 1);
    let kinds: Vec<_> = store.replay(cut[0]).unwrap().0.iter().map(|message| message.body.kind()).collect();
    assert_eq!(kinds[kinds.len() - 3..], ["assistant", "interrupted", "agent_killed"]);
    drop(store);
    let count = |sql: &str| raw(dir.path()).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((count("SELECT count(*) FROM compared"), count("SELECT count(*) FROM partials")), (1, 0));
    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_14_has_drafts_that_replace_no_message() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v14.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let root = store.load_agents().unwrap().agents[0].id;
    assert_eq!((store.drafts(root).unwrap().len(), store.edited_draft(root).unwrap()), (2, None));
    drop(store);
    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn agents_of_version_15_get_numbers_in_order_of_creation_unless_no_list_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v15.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let numbers: Vec<_> = store.load_agents().unwrap().agents.iter().map(|row| (row.ordinal, row.number)).collect();
    assert_eq!(numbers, [(0, Some(0)), (3, Some(1)), (10, Some(2)), (13, None), (14, Some(3))]);
    assert!(store.archived_agents().unwrap().agents.iter().all(|row| row.number.is_none()));
    drop(store);
    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn agents_of_version_17_are_listed_by_what_was_said_first_and_so_are_new_ones() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v17.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let agents = store.load_agents().unwrap().agents;
    let said: Vec<_> = agents.iter().map(|row| (row.ordinal, row.said.as_str())).collect();
    let first = "fix   the build\nand more";
    assert_eq!(said, [(0, "hello"), (3, "count to ten"), (10, first), (13, ""), (14, "")]);
    assert_eq!(agents[1].done.as_deref(), Some("cargo test"));
    let new = agents[4].id;
    let long = format!("\t{}", "é".repeat(300));
    store.append(new, vec![Body::Mark("m".into()), Body::User(long.clone()), Body::User("again".into())], 0).unwrap();
    assert_eq!(store.agent(new).unwrap().unwrap().said, long[1..=400]);
    drop(store);
    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

#[test]
fn a_database_of_version_6_keeps_the_inputs_of_each_project() {
    let dir = tempfile::tempdir().unwrap();
    raw(dir.path()).execute_batch(include_str!("../../fixtures/store/v6.sql")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let inputs = |project: &str| (0..).map_while(|newer| store.input(project, newer).unwrap()).collect::<Vec<_>>();
    assert_eq!([inputs("/w"), inputs("/other")], [["look around", "hello"], ["look around", "hello"]]);
    drop(store);

    let today = tempfile::tempdir().unwrap();
    drop(Store::open(today.path()).unwrap());
    assert_eq!(schema(&raw(dir.path())), schema(&raw(today.path())));
}

/// The schema of a database, without spaces: SQLite keeps statements as they were written, and puts added columns into them.
fn schema(conn: &Connection) -> Vec<String> {
    let mut statement = conn.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    let statements = rows.map(|sql: rusqlite::Result<String>| sql.unwrap().split_whitespace().collect());
    let mut statements: Vec<String> = statements.collect();
    statements.sort();
    statements
}
