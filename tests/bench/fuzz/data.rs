//! What comes from a model, and what is read back from the disk.

use std::fs;
use std::path::Path;

use polylogue::{AgentId, Store};
use rusqlite::types::Value;
use rusqlite::{Connection, params};
use tempfile::TempDir;
use unicode_segmentation::UnicodeSegmentation as _;

use super::Step;
use crate::chance::Chance;
use crate::support::internals::{Body, HttpHead, LineKind, Reader, Scrollback, StreamEvent, provider, text};

/// Anything made safe, cut and wrapped: no control survives, every row fits, nothing but spaces is lost.
pub fn text() -> Step {
    Box::new(|chance| {
        let raw = chance.text(120);
        let safe = text::sanitise(&raw).into_owned();
        assert!(safe.chars().all(|c| !c.is_control() || c == '\t' || c == '\n'), "{raw:?}");
        let flat = text::expand_tabs(&safe).replace('\n', " ");
        let columns = chance.below(50);
        let rows: Vec<(usize, &str)> = text::wrap(&flat, columns).collect();
        for (at, row) in &rows {
            assert!(flat[*at..].starts_with(row));
            assert!(text::width(row) <= columns.max(1) || row.graphemes(true).count() == 1, "{row:?} at {columns}");
        }
        let kept: String = rows.iter().map(|(_, row)| *row).collect();
        assert_eq!(kept.replace(' ', ""), flat.replace(' ', ""));
        assert!(text::width(text::truncate(&flat, columns)) <= columns);
    })
}

/// Blocks that grow in pieces, scrolled and looked at in any size: cuts make no difference, every row fits. Tabs are
/// left out: behind a grapheme that was cut in two a tab stop may be one column off.
pub fn scrollback() -> Step {
    const KINDS: &[LineKind] = &[LineKind::Person, LineKind::Assistant, LineKind::ToolCall, LineKind::ToolOutput];
    Box::new(|chance| {
        let (mut whole, mut pieces) = (Scrollback::default(), Scrollback::default());
        for _ in 0..chance.below(12) {
            let kind = chance.of(KINDS);
            let times = if chance.once_in(20) { 40 } else { 1 };
            let text_pushed = chance.text(40).repeat(times).replace('\t', " ");
            whole.push(kind, &text_pushed);
            let mut rest = text_pushed.as_str();
            while let Some(next) = rest.chars().next() {
                let most = chance.below(rest.len()) + next.len_utf8();
                let (piece, later) = rest.split_at((0..=most).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(0));
                pieces.extend(kind, piece);
                rest = later;
            }
            pieces.close();
        }
        if chance.once_in(4) {
            let mut older = Scrollback::default();
            older.push(LineKind::Note, &chance.text(60));
            whole.prepend(older.clone());
            pieces.prepend(older);
        }
        for _ in 0..6 {
            look(chance, &mut whole, &mut pieces);
        }
    })
}

fn look(chance: &mut Chance, whole: &mut Scrollback, pieces: &mut Scrollback) {
    let (width, height) = (1 + chance.below(60) as u16, 1 + chance.below(30) as u16);
    let rows = chance.below(80) as isize - 40;
    for scrollback in [&mut *whole, &mut *pieces] {
        scrollback.scroll(Reader::Shared, rows, width, height);
    }
    let shown = whole.visible(Reader::Shared, width, height);
    assert_eq!(shown, pieces.visible(Reader::Shared, width, height), "cut or not");
    assert!(shown.len() <= usize::from(height));
    for row in shown {
        let fits = text::width(&row.text) <= usize::from(width) || row.text.graphemes(true).count() == 1;
        assert!(fits, "{:?} at {width}", row.text);
    }
}

/// Recorded answers with a few bytes changed, and anything at all, under any status: exactly one end, nothing behind
/// it, and the same whatever the cuts.
pub fn openai() -> Step {
    answers("openai")
}

/// The same for Responses.
pub fn responses() -> Step {
    answers("openai-responses")
}

/// The same for Messages.
pub fn anthropic() -> Step {
    answers("anthropic")
}

/// The same for Gemini.
pub fn google() -> Step {
    answers("google")
}

fn answers(kind: &'static str) -> Step {
    let folder = super::fixtures().join("sse").join(kind);
    let files = fs::read_dir(folder).expect("recordings").map(|entry| entry.expect("a file").path());
    let recorded = files.filter(|path| path.extension().is_some_and(|end| end == "sse"));
    let recorded: Vec<Vec<u8>> = recorded.map(|path| fs::read(path).expect("a recording")).collect();
    assert!(!recorded.is_empty(), "the recordings are there");
    Box::new(move |chance| {
        let at = chance.below(recorded.len());
        let bytes = match chance.below(8) {
            0 => chance.bytes(2_000),
            1 => recorded[at][..chance.below(recorded[at].len() + 1)].to_vec(),
            _ => chance.mutated(&recorded[at]),
        };
        let head = HttpHead {
            status: chance.of(&[200, 200, 200, 200, 201, 400, 401, 404, 429, 500, 503]),
            content_type: chance.of(&["text/event-stream", "application/json", "text/html", ""]).to_owned(),
            ..HttpHead::default()
        };
        let pieces = chance.cuts(&bytes);
        let (whole, cut) = (decoded(kind, &head, &[&bytes]), decoded(kind, &head, &pieces));
        assert_eq!(whole, cut, "{}", String::from_utf8_lossy(&bytes));
    })
}

/// The events, with neighbouring texts put together: where a text is split is the only thing that a cut may change.
fn decoded(kind: &str, head: &HttpHead, pieces: &[&[u8]]) -> Vec<StreamEvent> {
    let mut decoder = (provider::find(kind).expect("a provider").decoder)();
    let mut events = Vec::new();
    decoder.head(head);
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut events));
    decoder.end(&mut events);
    let is_end = |event: &StreamEvent| matches!(event, StreamEvent::Done | StreamEvent::Error(_));
    assert_eq!(events.iter().filter(|event| is_end(event)).count(), 1, "exactly one end: {events:?}");
    assert!(events.last().is_some_and(is_end), "nothing after the end: {events:?}");
    let mut calls = 0;
    for event in &events {
        if let StreamEvent::ToolCall { index, .. } = event {
            assert!(*index <= calls, "no call is skipped: {events:?}");
            calls = calls.max(index + 1);
        }
    }
    let mut joined: Vec<StreamEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), &event) {
            (Some(StreamEvent::Text(before)), StreamEvent::Text(more))
            | (Some(StreamEvent::Thinking(before)), StreamEvent::Thinking(more)) => before.push_str(more),
            (
                Some(StreamEvent::ToolCall { index, arguments, .. }),
                StreamEvent::ToolCall { index: same, arguments: more, .. },
            ) if index == same => arguments.push_str(more),
            _ => joined.push(event),
        }
    }
    joined
}

/// Rows that no program of ours wrote, of every type and kind: they are left out with an error, and what is read besides,
/// recovered and written works on.
pub fn store() -> Step {
    let directory = TempDir::new().expect("a directory");
    let root = AgentId::random();
    let store = Store::open(directory.path()).expect("a store");
    store.create_root(root, None, None, 0).expect("a root");
    drop(store);
    Box::new(move |chance| {
        spoil(&directory.path().join("polylogue.db"), chance);
        let store = Store::open(directory.path()).expect("a store with strange rows opens");
        drop(store.recover(0));
        let (messages, damaged) = store.replay(root).expect("the rest is read");
        assert!(messages.len() + damaged.len() <= 41, "{} {}", messages.len(), damaged.len());
        let tail = store.tail(root, None, 10).expect("the end is read");
        assert!(tail.len() <= 10);
        let registry = store.load_agents().expect("the living are read");
        registry.agents.iter().for_each(|agent| drop(store.replay(agent.id)));
        drop((store.drafts(root), store.queued(root), store.input("", 0), store.agents_with_queue()));
        store.append(root, vec![Body::User("still works".into())], 0).expect("the store still takes a message");
    })
}

fn spoil(file: &Path, chance: &mut Chance) {
    let conn = Connection::open(file).expect("a database");
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF; BEGIN; DELETE FROM messages; DELETE FROM partials",
    )
    .expect("an empty log");
    conn.execute("DELETE FROM agents WHERE ordinal > 0", []).expect("only the root is left");
    for _ in 0..chance.below(30) {
        let sql = "INSERT INTO messages (agent, kind, content, data, created_at) VALUES (0, ?1, ?2, ?3, ?4)";
        // What the schema itself refuses never gets in.
        drop(conn.execute(sql, params![kind(chance), value(chance), data(chance), value(chance)]));
    }
    for _ in 0..chance.below(4) {
        let sql =
            "INSERT INTO agents (uuid, name, parent_uuid, fork_message_id, status, activity, created_at, endpoint)
                   VALUES (?1, ?2, (SELECT uuid FROM agents WHERE ordinal = 0), ?3, 'running', ?4, ?5, ?6)";
        let activity = chance.of(&["idle", "running"]);
        let row = params![uuid(chance), value(chance), value(chance), activity, value(chance), value(chance)];
        drop(conn.execute(sql, row));
        let piece = params![chance.below(3) as i64, value(chance), value(chance)];
        drop(conn.execute("INSERT INTO partials (agent, content, thinking) VALUES (?1, ?2, ?3)", piece));
    }
    conn.execute_batch("COMMIT").expect("written");
}

fn kind(chance: &mut Chance) -> Value {
    const KINDS: &[&str] = &[
        "system",
        "user",
        "assistant",
        "tool_call",
        "tool_result",
        "clear",
        "mark",
        "rewind",
        "fork",
        "interrupted",
        "agent_killed",
        "command",
        "usage",
        "error",
        "unheard-of",
    ];
    if chance.once_in(10) { value(chance) } else { Value::Text(chance.of(KINDS).to_owned()) }
}

fn data(chance: &mut Chance) -> Value {
    const DATA: &[&str] = &[
        "{\"thinking\":\"hm\",\"is_partial\":true}",
        "{\"id\":\"call\",\"name\":\"bash\"}",
        "{\"call_id\":\"call\",\"name\":\"bash\",\"is_error\":true,\"duration_ns\":18446744073709551615}",
        "{\"to\":-9223372036854775808}",
        "{\"input\":1,\"cached\":2,\"output\":3}",
    ];
    let known = chance.of(DATA);
    match chance.below(3) {
        0 => value(chance),
        1 => Value::Text(String::from_utf8_lossy(&chance.mutated(known.as_bytes())).into_owned()),
        _ => Value::Text(known.to_owned()),
    }
}

fn uuid(chance: &mut Chance) -> Value {
    if chance.once_in(2) { Value::Text(AgentId::random().to_string()) } else { value(chance) }
}

fn value(chance: &mut Chance) -> Value {
    match chance.below(6) {
        0 => Value::Null,
        1 => Value::Integer(chance.next() as i64),
        2 => Value::Real(f64::from_bits(chance.next())),
        3 => Value::Blob(chance.bytes(30)),
        _ => Value::Text(chance.text(20)),
    }
}
