-- The tables of a new database. They are what the steps in schema.rs make of an old one: a test compares them.

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
    powers TEXT,
    system TEXT,
    run INTEGER REFERENCES runs (id),
    made_by INTEGER NOT NULL DEFAULT 0,
    policy TEXT,
    rules TEXT,
    asking INTEGER NOT NULL DEFAULT 0,
    parameters TEXT,
    archived_at INTEGER,
    deleted_at INTEGER,
    is_print_run INTEGER NOT NULL DEFAULT 0,
    title TEXT,
    directory TEXT,
    last_end TEXT,
    unseen_since INTEGER,
    used_input INTEGER NOT NULL DEFAULT 0,
    used_output INTEGER NOT NULL DEFAULT 0,
    used_cost INTEGER,
    number INTEGER,
    done TEXT,
    said TEXT
);
CREATE UNIQUE INDEX agents_name ON agents (name) WHERE status = 'running';
CREATE INDEX agents_living ON agents (status) WHERE status = 'running';
CREATE INDEX agents_busy ON agents (activity) WHERE activity = 'running';
CREATE INDEX agents_run ON agents (run) WHERE run IS NOT NULL;
CREATE INDEX agents_parent ON agents (parent_uuid);
CREATE INDEX agents_archived ON agents (archived_at) WHERE archived_at IS NOT NULL;
CREATE INDEX agents_number ON agents (number)
    WHERE status = 'running' AND archived_at IS NULL AND NOT is_print_run AND run IS NULL;

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
CREATE INDEX messages_usage ON messages (agent) WHERE kind = 'usage';
CREATE INDEX messages_clear_undone ON messages (agent) WHERE kind = 'clear_undone';
CREATE TRIGGER messages_said AFTER INSERT ON messages WHEN new.kind = 'user' BEGIN
    UPDATE agents SET said = substr(trim(new.content, char(9, 10, 13, 32)), 1, 200)
        WHERE ordinal = new.agent AND said IS NULL;
END;

CREATE TABLE partials (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    content TEXT NOT NULL,
    thinking TEXT NOT NULL,
    usage TEXT
);
CREATE INDEX partials_agent ON partials (agent);

CREATE TABLE queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    content TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    is_command INTEGER NOT NULL DEFAULT 0
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

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

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

CREATE TABLE entered (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (content, project)
);
CREATE INDEX entered_project ON entered (project);

CREATE TABLE drafts (
    agent INTEGER NOT NULL REFERENCES agents (ordinal),
    slot INTEGER NOT NULL,
    content TEXT NOT NULL,
    edited INTEGER,
    PRIMARY KEY (agent, slot)
);

CREATE TABLE attachments (
    digest TEXT PRIMARY KEY,
    media_type TEXT NOT NULL,
    bytes BLOB NOT NULL
);

CREATE VIRTUAL TABLE search
    USING fts5 (content, tags, content = '', contentless_delete = 1, tokenize = 'unicode61');
INSERT INTO search (search, rank) VALUES ('automerge', 0);
INSERT INTO search (search, rank) VALUES ('crisismerge', 64);

CREATE TABLE search_marks (below INTEGER NOT NULL, above INTEGER NOT NULL);
INSERT INTO search_marks VALUES (0, 0);

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

CREATE TABLE last_shown (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    directory TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    message INTEGER NOT NULL
);

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
