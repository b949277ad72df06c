//! The tables, and the migration from older versions.
//!
//! `application_id` marks a database of polylogue, `user_version` counts the steps that it has been through. A shipped
//! step is never edited: a change of the schema is a new step at the end, and
//! `UPDATE_FIXTURES=1 cargo test --lib store::schema` writes [`NEW`] anew. `sqlite3 src/store/new.db .schema` shows the tables.

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, MAIN_DB, Transaction, TransactionBehavior};

use super::error::{locked, store_error};
use crate::base::error::{Error, Result};

/// "plog" in ASCII.
const APPLICATION_ID: i32 = 0x706c_6f67;

/// A new database, after all steps. Copying it takes a tenth of the time of the steps, which a run without a data directory
/// would wait for.
const NEW: &[u8] = include_bytes!("new.db");

/// Step `n` turns version `n` into version `n + 1`.
const STEPS: [&str; 18] = [
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7, VERSION_8, VERSION_9, VERSION_10,
    VERSION_11, VERSION_12, VERSION_13, VERSION_14, VERSION_15, VERSION_16, VERSION_17, VERSION_18,
];

/// `agents.ordinal` is the order of creation from 0, the root. Messages refer to their agent by it, because an index of
/// small integers is a fraction of one of uuids. An index on `agent` alone is one on (agent, id), because SQLite ends
/// every index entry with the rowid, which is `id`.
const VERSION_1: &str = "
CREATE TABLE agents (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT,
    parent_uuid TEXT REFERENCES agents (uuid),
    fork_message_id INTEGER,
    status TEXT NOT NULL CHECK (status IN ('running', 'dead')),
    activity TEXT NOT NULL CHECK (activity IN ('idle', 'running')),
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    endpoint TEXT,
    thinking TEXT,
    environment TEXT,
    powers TEXT
);
CREATE UNIQUE INDEX agents_name ON agents (name) WHERE status = 'running';
CREATE INDEX agents_living ON agents (status) WHERE status = 'running';
CREATE INDEX agents_busy ON agents (activity) WHERE activity = 'running';

CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    data TEXT,
    created_at INTEGER NOT NULL
);
CREATE INDEX messages_agent ON messages (agent);
CREATE INDEX messages_clear ON messages (agent) WHERE kind = 'clear';

CREATE TABLE partials (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    content TEXT NOT NULL,
    thinking TEXT NOT NULL
);
CREATE INDEX partials_agent ON partials (agent);

CREATE TABLE queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    content TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX queue_agent ON queue (agent);

CREATE TABLE mail (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    from_uuid TEXT NOT NULL REFERENCES agents (uuid),
    to_uuid TEXT NOT NULL REFERENCES agents (uuid),
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    read_at INTEGER
);
CREATE INDEX mail_to ON mail (to_uuid);
CREATE INDEX mail_from ON mail (from_uuid);
CREATE INDEX mail_unread ON mail (to_uuid) WHERE read_at IS NULL;

CREATE TABLE drafts (agent INTEGER PRIMARY KEY REFERENCES agents (ordinal), content TEXT NOT NULL);
CREATE TABLE inputs (id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL UNIQUE);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
";

/// Queued commands, and a system prompt per agent. The index sums usage without reading messages.
const VERSION_2: &str = "
ALTER TABLE queue ADD COLUMN is_command INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN system TEXT;
CREATE INDEX messages_usage ON messages (agent) WHERE kind = 'usage';
";

/// Runs and their members, for recovery after a crash.
const VERSION_3: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL UNIQUE,
    asker TEXT NOT NULL REFERENCES agents (uuid),
    task TEXT NOT NULL,
    strategy TEXT NOT NULL,
    aggregation TEXT NOT NULL,
    keeps_members INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    outcome TEXT
);
CREATE INDEX runs_open ON runs (ended_at) WHERE ended_at IS NULL;
ALTER TABLE agents ADD COLUMN run INTEGER REFERENCES runs (id);
CREATE INDEX agents_run ON agents (run) WHERE run IS NOT NULL;
";

/// Limits of trees of agents, and what counts against them. `made_by` is 0 for a person, 1 for a run that a person
/// started, 2 for a model. `spent` has what an agent used itself, and in `millis` how long it or an agent below it worked.
const VERSION_4: &str = "
ALTER TABLE agents ADD COLUMN made_by INTEGER NOT NULL DEFAULT 0;
CREATE TABLE limits (
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    name TEXT NOT NULL,
    value INTEGER,
    base INTEGER NOT NULL,
    PRIMARY KEY (agent, name)
);
CREATE TABLE spent (
    agent INTEGER PRIMARY KEY REFERENCES agents (ordinal),
    requests INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    millis INTEGER NOT NULL
);
";

/// What a person set for one agent: the name of its policy, and the rules given to it as JSON; null: as configured. And
/// whether its turn waits for the answer to a question.
const VERSION_5: &str = "
ALTER TABLE agents ADD COLUMN policy TEXT;
ALTER TABLE agents ADD COLUMN rules TEXT;
ALTER TABLE agents ADD COLUMN asking INTEGER NOT NULL DEFAULT 0;
";

/// The history of inputs has the directory in which each was entered; those from before belong to none.
const VERSION_6: &str = "
CREATE TABLE entered (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (content, project)
);
CREATE INDEX entered_project ON entered (project);
INSERT INTO entered (id, project, content) SELECT id, '', content FROM inputs;
DROP TABLE inputs;
";

/// A draft for each terminal at an agent; those from before are of the first. The index finds `/clear undo`.
const VERSION_7: &str = "
ALTER TABLE drafts RENAME TO shared_drafts;
CREATE TABLE drafts (
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    slot INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (agent, slot)
);
INSERT INTO drafts (agent, slot, content) SELECT agent, 0, content FROM shared_drafts;
DROP TABLE shared_drafts;
CREATE INDEX messages_clear_undone ON messages (agent) WHERE kind = 'clear_undone';
";

/// The parameters of the requests of an agent, as JSON. And the files that messages refer to, by SHA-256 in hexadecimal.
const VERSION_8: &str = "
ALTER TABLE agents ADD COLUMN parameters TEXT;
CREATE TABLE attachments (
    digest TEXT PRIMARY KEY,
    media_type TEXT NOT NULL,
    bytes BLOB NOT NULL
);
";

/// The index for searches, and up to which messages it is complete. Merges are steps of our own, because an automatic one may
/// take 20 ms.
const VERSION_9: &str = "
CREATE VIRTUAL TABLE search
    USING fts5 (content, tags, content = '', contentless_delete = 1, tokenize = 'unicode61');
INSERT INTO search (search, rank) VALUES ('automerge', 0);
INSERT INTO search (search, rank) VALUES ('crisismerge', 64);
CREATE TABLE search_marks (below INTEGER NOT NULL, above INTEGER NOT NULL);
INSERT INTO search_marks SELECT newest, newest FROM (SELECT coalesce(max(id), 0) AS newest FROM messages);
";

/// Agents that lists do not show: archived ones, and deleted ones of which another agent still inherits. Whether an agent was
/// made for one `--print` run, the title of its conversation and the directory in which it works; null: as the program.
const VERSION_10: &str = "
ALTER TABLE agents ADD COLUMN archived_at INTEGER;
ALTER TABLE agents ADD COLUMN deleted_at INTEGER;
ALTER TABLE agents ADD COLUMN is_print_run INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN title TEXT;
ALTER TABLE agents ADD COLUMN directory TEXT;
CREATE INDEX agents_parent ON agents (parent_uuid);
CREATE INDEX agents_archived ON agents (archived_at) WHERE archived_at IS NOT NULL;
";

/// What tool calls and undos changed in files. `message` is that of the call, or the one before which an undo brought the files
/// back. States are written as `domain::file_change` says.
const VERSION_11: &str = "
CREATE TABLE file_steps (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    step TEXT NOT NULL UNIQUE,
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    message INTEGER NOT NULL,
    call TEXT NOT NULL,
    tool TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    is_compared INTEGER NOT NULL,
    flaw TEXT
);
CREATE INDEX file_steps_agent ON file_steps (agent, message);
CREATE TABLE file_changes (
    step INTEGER NOT NULL REFERENCES file_steps (id),
    path TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    undone_by INTEGER REFERENCES file_steps (id),
    PRIMARY KEY (step, path)
) WITHOUT ROWID;
CREATE INDEX file_changes_path ON file_changes (path);
CREATE INDEX file_changes_undone ON file_changes (undone_by) WHERE undone_by IS NOT NULL;
";

/// How the last turn of an agent ended ('completed', 'failed', 'interrupted'; null: unknown), and since when no terminal has shown
/// that. What its requests have used, so that lists need not sum the log; `used_cost` is null if a cost is unknown. And the
/// agent that was shown last in each directory, with the newest message at that time.
const VERSION_12: &str = "
ALTER TABLE agents ADD COLUMN last_end TEXT;
ALTER TABLE agents ADD COLUMN unseen_since INTEGER;
ALTER TABLE agents ADD COLUMN used_input INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN used_output INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN used_cost INTEGER;
UPDATE agents SET last_end = 'interrupted'
    WHERE status = 'running' AND coalesce((SELECT kind FROM messages WHERE agent = ordinal
        AND kind IN ('user', 'assistant', 'tool_call', 'tool_result', 'clear', 'rewind', 'interrupted', 'exited')
        ORDER BY id DESC LIMIT 1), '') IN ('interrupted', 'exited');
UPDATE agents SET (used_input, used_output, used_cost) = (
    SELECT cast(min(total(json ->> 'input'), 9007199254740991) AS INTEGER),
        cast(min(total(json ->> 'output'), 9007199254740991) AS INTEGER),
        iif(count(json ->> 'cost') = count(*), cast(min(total(json ->> 'cost'), 9007199254740991) AS INTEGER), NULL)
    FROM (SELECT iif(json_valid(data), data, '{}') AS json FROM messages INDEXED BY messages_usage
        WHERE kind = 'usage' AND agent = ordinal))
    WHERE status = 'running' AND EXISTS (SELECT 1 FROM messages WHERE kind = 'usage' AND agent = ordinal);
CREATE TABLE last_shown (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    directory TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    message INTEGER NOT NULL
);
";

/// One prompt that several agents answer, until one answer is chosen: where it was typed, and who answers in which column. The
/// judge has a blank as its letter. `after` is the newest message before the prompt.
const VERSION_13: &str = "
CREATE TABLE comparisons (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    origin TEXT NOT NULL,
    prompt TEXT NOT NULL
);
CREATE TABLE compared (
    comparison INTEGER NOT NULL REFERENCES comparisons (id),
    letter TEXT NOT NULL,
    agent TEXT NOT NULL,
    label TEXT NOT NULL,
    prompt TEXT NOT NULL,
    after INTEGER NOT NULL,
    is_fork INTEGER NOT NULL,
    PRIMARY KEY (comparison, letter)
) WITHOUT ROWID;
CREATE INDEX compared_agent ON compared (agent);
";

/// The usage of a request that is under way, as JSON.
const VERSION_14: &str = "ALTER TABLE partials ADD COLUMN usage TEXT;";

/// The message from which a draft was made, and which it replaces.
const VERSION_15: &str = "ALTER TABLE drafts ADD COLUMN edited INTEGER;";

/// The numbers of agents, as [`super::numbers`] says; at first they are counted in order of creation.
const VERSION_16: &str = "
ALTER TABLE agents ADD COLUMN number INTEGER;
CREATE INDEX agents_number ON agents (number)
    WHERE status = 'running' AND archived_at IS NULL AND NOT is_print_run AND run IS NULL;
UPDATE agents SET number = numbered.number
    FROM (SELECT ordinal AS numbered, row_number() OVER (ORDER BY ordinal) - 1 AS number FROM agents
        WHERE status = 'running' AND archived_at IS NULL AND NOT is_print_run AND run IS NULL) AS numbered
    WHERE ordinal = numbered;
";

/// The shell command that says whether an agent is done: empty for none, null for the configured one.
const VERSION_17: &str = "ALTER TABLE agents ADD COLUMN done TEXT;";

/// The beginning of what the user said first, for lists of agents: reading it from the messages took as long as the rest of
/// a start with many agents.
const VERSION_18: &str = "
ALTER TABLE agents ADD COLUMN said TEXT;
UPDATE agents SET said = (SELECT substr(trim(content, char(9, 10, 13, 32)), 1, 200) FROM messages
    WHERE agent = ordinal AND kind = 'user' ORDER BY id LIMIT 1) WHERE deleted_at IS NULL;
CREATE TRIGGER messages_said AFTER INSERT ON messages WHEN new.kind = 'user' BEGIN
    UPDATE agents SET said = substr(trim(new.content, char(9, 10, 13, 32)), 1, 200)
        WHERE ordinal = new.agent AND said IS NULL;
END;
";

/// Rejects the database of another program before anything in it is changed.
pub(super) fn require_ours(conn: &Connection) -> Result<()> {
    let id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if id == APPLICATION_ID || (id == 0 && is_empty(conn)?) {
        return Ok(());
    }
    Err(store_error("polylogue.db belongs to another program: move it away or choose another directory"))
}

fn is_empty(conn: &Connection) -> Result<bool> {
    Ok(!conn.prepare("SELECT 1 FROM sqlite_schema")?.exists([])?)
}

/// Rejects every other version: when nothing may be written, an older one cannot be migrated.
pub(super) fn require_current(conn: &Connection) -> Result<()> {
    require_ours(conn)?;
    match version(conn)? {
        known if known == STEPS.len() => Ok(()),
        found if found > STEPS.len() => Err(too_new(found)),
        _ => Err(store_error("the database has an older schema: open it once without --read-only to update it")),
    }
}

/// Copies the new database into an empty one, or runs the missing steps in one transaction.
pub(super) fn migrate(conn: &mut Connection) -> Result<()> {
    match version(conn)? {
        // A version of 0 with tables is a mistake, at which the first step fails.
        0 if is_empty(conn)? => copy_new(conn),
        found => run_steps(conn, &STEPS, found),
    }
}

fn copy_new(conn: &mut Connection) -> Result<()> {
    let mut new = Connection::open_in_memory()?;
    new.deserialize_bytes(MAIN_DB, NEW)?;
    match Backup::new(&new, conn)?.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(locked()),
    }
}

fn run_steps(conn: &Connection, steps: &[&str], found: usize) -> Result<()> {
    match steps.get(found..) {
        None => Err(too_new(found)),
        Some([]) => Ok(()),
        Some(missing) => {
            let transaction = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
            missing.iter().try_for_each(|step| transaction.execute_batch(step))?;
            let marks = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}", steps.len());
            transaction.execute_batch(&marks)?;
            Ok(transaction.commit()?)
        }
    }
}

/// The version of the database, and the one that this program writes.
pub(super) fn versions(conn: &Connection) -> Result<(usize, usize)> {
    Ok((version(conn)?, STEPS.len()))
}

fn version(conn: &Connection) -> Result<usize> {
    let number: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    usize::try_from(number).map_err(|_| store_error(format!("the database has an invalid schema version ({number})")))
}

fn too_new(found: usize) -> Error {
    store_error(format!(
        "the database was written by a newer polylogue (schema version {found}, this one knows up to {}): use the newer \
         one or choose another directory",
        STEPS.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_runs_once_and_a_failed_step_leaves_the_version_before() {
        let conn = Connection::open_in_memory().unwrap();
        let run = |conn: &Connection, steps: &[&str]| run_steps(conn, steps, version(conn)?);
        run(&conn, &["CREATE TABLE one (x)"]).unwrap();
        let failed = run(&conn, &["CREATE TABLE one (x)", "CREATE TABLE two (x); CREATE TABLE one (x)"]);
        assert!(failed.is_err());
        assert_eq!(version(&conn).unwrap(), 1);
        run(&conn, &["CREATE TABLE one (x)", "CREATE TABLE two (x)"]).unwrap();
        run(&conn, &["CREATE TABLE one (x)", "CREATE TABLE two (x)"]).unwrap();
        assert_eq!(version(&conn).unwrap(), 2);
        assert!(run(&conn, &["CREATE TABLE one (x)"]).unwrap_err().message.contains("newer polylogue"));
    }

    #[test]
    fn a_new_database_is_what_all_steps_make_of_an_empty_one() {
        let [mut new, mut migrated] = [(); 2].map(|()| Connection::open_in_memory().unwrap());
        run_steps(&migrated, &STEPS, 0).unwrap();
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/new.db");
            std::fs::write(path, &*migrated.serialize(MAIN_DB).unwrap()).unwrap();
            return;
        }
        migrate(&mut new).unwrap();
        let without_spaces = |sql: String| sql.split_whitespace().collect::<String>();
        let all = |conn: &Connection, sql: &str| -> Vec<(String, String)> {
            let mut statement = conn.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, without_spaces(row.get(1)?)))).unwrap();
            rows.collect::<rusqlite::Result<_>>().unwrap()
        };
        for sql in [
            "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name",
            "SELECT k, v || '' FROM search_config ORDER BY k",
            "SELECT below || '', above || '' FROM search_marks",
        ] {
            assert_eq!(all(&new, sql), all(&migrated, sql), "UPDATE_FIXTURES=1 writes new.db anew");
        }
        assert_eq!(versions(&new).unwrap(), versions(&migrated).unwrap());
    }

    #[test]
    fn a_filled_database_without_a_version_is_not_replaced() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn).unwrap();
        conn.execute_batch("INSERT INTO meta (key, value) VALUES ('a', 'kept'); PRAGMA user_version = 0").unwrap();
        assert!(require_ours(&conn).is_ok() && migrate(&mut conn).is_err());
        assert_eq!(
            conn.query_row("SELECT value FROM meta WHERE key = 'a'", [], |row| row.get(0)),
            Ok("kept".to_owned())
        );
    }

    #[test]
    fn a_database_of_another_program_is_rejected_unchanged() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE recipes (x)").unwrap();
        assert!(require_ours(&conn).unwrap_err().message.contains("another program"));
        conn.execute_batch("DROP TABLE recipes; PRAGMA application_id = 7").unwrap();
        assert!(require_ours(&conn).is_err());
    }
}
