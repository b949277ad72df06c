//! Files that messages refer to, by SHA-256 in hexadecimal.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::database::Store;
use crate::base::error::Result;
use crate::domain::attachment::references;

/// A file of a draft, to which perhaps nothing refers any more when the program ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DraftFile {
    /// As in its marker.
    pub digest: String,
    /// Only newer messages can refer to it.
    pub after: i64,
}

impl Store {
    /// Stores a file, unless it is stored already. Returns the newest message at that time if the file is new.
    pub(crate) fn put_attachment(&self, digest: &str, media_type: &str, bytes: &[u8]) -> Result<Option<i64>> {
        let sql = "INSERT OR IGNORE INTO attachments (digest, media_type, bytes) VALUES (?1, ?2, ?3)";
        self.write(|conn| {
            let is_new = conn.prepare_cached(sql)?.execute(params![digest, media_type, bytes])? > 0;
            let newest = "SELECT coalesce(max(id), 0) FROM messages";
            let newest = conn.prepare_cached(newest)?.query_row([], |row| row.get(0))?;
            Ok(is_new.then_some(newest))
        })
    }

    /// The type and the bytes of the file whose digest begins so.
    pub(crate) fn attachment(&self, digest: &str) -> Result<Option<(String, Vec<u8>)>> {
        let sql = "SELECT media_type, bytes FROM attachments WHERE digest >= ?1 AND digest < ?1 || 'g' LIMIT 1";
        let mut statement = self.conn.prepare_cached(sql)?;
        Ok(statement.query_row([digest], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }

    pub(crate) fn files_of_drafts(&self) -> Result<Vec<DraftFile>> {
        let mut statement = self.conn.prepare_cached("SELECT content FROM drafts WHERE instr(content, ' #')")?;
        let mut rows = statement.query([])?;
        let mut files = Vec::new();
        while let Some(row) = rows.next()? {
            let content: String = row.get(0)?;
            let found = references(&content);
            files.extend(found.iter().map(|found| DraftFile { digest: found.digest.to_owned(), after: 0 }));
        }
        Ok(files)
    }

    /// Removes those of these files to which no text refers.
    pub(crate) fn free_files_of_drafts(&self, files: &[DraftFile]) -> Result<()> {
        self.write(|conn| files.iter().try_for_each(|file| free_draft_file(conn, file)))
    }
}

fn free_draft_file(conn: &Connection, DraftFile { digest, after }: &DraftFile) -> Result<()> {
    let mark = format!(" #{digest}]");
    let mut is_used = false;
    for (table, column) in [("queue", "content"), ("drafts", "content"), ("entered", "content"), ("mail", "body")] {
        let sql = format!("SELECT 1 FROM {table} WHERE instr({column}, ?1) LIMIT 1");
        is_used = is_used || conn.prepare_cached(&sql)?.exists([&mark])?;
    }
    // The longest table is the last. A message that refers to it is most likely one of the last.
    let of_messages = "SELECT 1 FROM messages WHERE id > ?2 AND instr(content, ?1) ORDER BY id DESC LIMIT 1";
    is_used = is_used || conn.prepare_cached(of_messages)?.exists(params![mark, after])?;
    if !is_used {
        let sql = "DELETE FROM attachments WHERE digest >= ?1 AND digest < ?1 || 'g'";
        conn.prepare_cached(sql)?.execute([digest])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::AgentId;
    use crate::domain::attachment::marker;
    use crate::domain::drafts::DraftSlot;
    use crate::domain::message::Body;

    /// Stores the file of this number, and returns it with its marker.
    fn put(store: &Store, n: u8) -> (DraftFile, String) {
        let digest = format!("{n:064x}").chars().rev().collect::<String>();
        let after = store.put_attachment(&digest, "image/png", &[n]).expect("stored").expect("it is new");
        let marker = marker("a.png", "image/png", 1, &digest);
        let digest = references(&marker)[0].digest.to_owned();
        (DraftFile { digest, after }, marker)
    }

    #[test]
    fn files_to_which_no_text_refers_are_removed() {
        let (store, root) = (Store::in_memory().expect("a store"), AgentId::random());
        store.create_root(root, None, None, 0).expect("a root");
        store.append(root, vec![Body::User("before".into())], 0).expect("a message");
        let ((sent, of_sent), (kept, of_kept), (thrown, _)) = (put(&store, 1), put(&store, 2), put(&store, 3));
        store.append(root, vec![Body::User(format!("see {of_sent}"))], 0).expect("a message");
        store.set_draft(root, DraftSlot::default(), &of_kept, None).expect("a draft");
        assert!(sent.after > 0);
        let (files, old) = ([sent.clone(), kept.clone(), thrown.clone()], store.files_of_drafts().expect("drafts"));
        assert_eq!(old, [DraftFile { after: 0, ..kept.clone() }]);
        store.free_files_of_drafts(&files).expect("freed");
        let has = |file: &DraftFile| store.attachment(&file.digest).expect("the store").is_some();
        assert_eq!(files.each_ref().map(has), [true, true, false]);
        store.set_draft(root, DraftSlot::default(), "", None).expect("no draft");
        store.free_files_of_drafts(&old).expect("freed");
        assert_eq!(files.each_ref().map(has), [true, false, false]);
        assert_eq!(store.put_attachment(&format!("1{}", "0".repeat(63)), "image/png", &[1]), Ok(None));
    }
}
