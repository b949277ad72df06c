//! Files that a person attaches to a message: `@main.rs`, `@shot.png`, `@"a b.pdf"`, or the pasted path of an image. They are
//! read when the message is sent or queued. Images are stored by content.

use std::io::{Read as _, Seek as _};
use std::rc::Rc;

use crate::base::digest::sha256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::agent::{Agent, Role};
use crate::base::error::{Error, Result, system_message};
use crate::base::id::AgentId;
use crate::domain::attachment::{self, Files, LoadedFile, MAX_DOCUMENT, MAX_IMAGE, PDF, references};
use crate::domain::message::Body;
use crate::repl::core::{Core, agent_gone};
use crate::store::DraftFile;
use crate::tools::{AttachedFile, beginning_of_file, open_attached, similar_name};

/// The most files of one message.
const MAX_FILES: usize = 20;
/// The bytes that tell the type of a file.
const HEAD: u64 = 16;
/// Maximum images from tool results per request; older ones are sent as markers.
const MAX_OF_RESULTS: usize = 20;

/// The most paths of a text that are looked up: a pasted text may have any number.
const MAX_LOOKED_UP: usize = 200;

/// A path in a text: its bytes with what marks it, and the path.
struct Mention {
    range: std::ops::Range<usize>,
    path: String,
}

/// A message with the files that it names.
pub(in crate::repl) struct Attached {
    pub text: String,
    /// What was sent by name only, and why.
    pub note: Option<String>,
}

/// The target of a path in a text.
enum Named {
    File(String),
    /// Only the name is sent, for this reason.
    Left(String),
    Word,
}

/// The form of a file in a message.
enum Content {
    Marker(String),
    Text(String),
    Left(String),
}

/// Reads the files that a text names: an image is stored and its path replaced by a marker, the content of a text file
/// follows the text.
pub(in crate::repl) fn attach(core: &Core, agent_id: AgentId, text: String, is_typed: bool) -> Result<Attached> {
    let mentions = mentions(&text);
    if mentions.is_empty() {
        return Ok(Attached { text, note: None });
    }
    let agent = core.roster.get(agent_id).ok_or_else(agent_gone)?;
    let (mut attached, mut contents, mut left, mut count) = (text.clone(), Vec::new(), Vec::new(), 0);
    for mention in mentions.iter().take(MAX_LOOKED_UP).rev() {
        let path = match look_up(core, agent, &mention.path) {
            Named::File(path) => path,
            Named::Left(why) => {
                left.push(why);
                continue;
            }
            Named::Word => continue,
        };
        if attachment::has_text_file(&text, &path) || contents.iter().any(|(other, _)| *other == path) {
            continue;
        }
        count += 1;
        if count > MAX_FILES {
            return Err(Error::usage(format!("a message has at most {MAX_FILES} files")));
        }
        match read(core, agent, &path, is_typed).map_err(|error| error.context(&path))? {
            Content::Marker(marker) => {
                let cut = mention.path.len() - path.len();
                attached.replace_range(mention.range.start..mention.range.end - cut, &marker);
            }
            Content::Text(content) => contents.push((path, content)),
            Content::Left(why) => left.push(why),
        }
    }
    contents.iter().rev().for_each(|(path, content)| attachment::add_text_file(&mut attached, path, content));
    left.reverse();
    left.dedup();
    let note = (!left.is_empty()).then(|| format!("sent by name only: {}", left.join("; ")));
    Ok(Attached { text: attached, note })
}

/// The target of a path in a text. A sentence may end after it.
fn look_up(core: &Core, agent: &Agent, path: &str) -> Named {
    let environment = &agent.inputs.environment;
    let shorter = path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
    let is_known = |path: &&str| !path.is_empty() && environment.resolve(path).exists();
    let is_other =
        path.contains(':') || core.roster.iter().any(|agent| agent.identity.name.as_deref() == Some(shorter));
    if environment.remote.is_some() && !attachment::is_attachable(path) {
        let is_path = path.contains('/') && !is_other;
        return if is_path { Named::Left(format!("{path} (a file in {})", environment.spec)) } else { Named::Word };
    }
    let Some(path) = [path, shorter].into_iter().find(is_known) else {
        let written = environment.resolve(shorter);
        let nearest = similar_name(&written, &std::io::ErrorKind::NotFound.into());
        let is_path = shorter.contains('/') || !nearest.is_empty();
        return match is_path && !is_other {
            true => Named::Left(format!("{shorter} (no such file{})", nearest.replacen(';', ",", 1))),
            // A word that names no file is a word.
            false => Named::Word,
        };
    };
    match environment.resolve(path) {
        found if found.is_file() => Named::File(path.to_owned()),
        found if found.is_dir() => Named::Left(format!("{path} (a directory)")),
        _ => Named::Left(format!("{path} (not a regular file)")),
    }
}

/// Reads a file that a text names. A text that nobody typed at a terminal may come from anywhere, so the content of
/// files outside of the workspace is not sent with it.
fn read(core: &Core, agent: &Agent, path: &str, is_typed: bool) -> Result<Content> {
    let environment = &agent.inputs.environment;
    let opened = open_attached(environment, &agent.rules, path).map_err(|why| refusal(path, &why))?;
    let AttachedFile { path: found, mut file, is_outside } = opened;
    let unreadable = |error: std::io::Error| Error::usage(format!("cannot be read: {}", system_message(&error)));
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    if attachment::media_type(&head).is_none() && !attachment::is_attachable(path) {
        if is_outside && !is_typed {
            return Ok(Content::Left(format!("{path} (outside of the workspace)")));
        }
        return Ok(match beginning_of_file(path, file, &found, environment) {
            Ok(content) => Content::Text(content),
            Err(why) => Content::Left(format!("{path} ({})", why.strip_prefix(path).map_or(&*why, |why| &why[2..]))),
        });
    }
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let name = found.file_name().unwrap_or_default().to_string_lossy();
    store_bytes(core, agent, &name, &bytes).map(|(marker, _)| Content::Marker(marker))
}

/// Stores the image that was in the clipboard, and returns its marker.
pub(in crate::repl) fn attach_image(core: &mut Core, agent_id: AgentId, bytes: &[u8]) -> Result<String> {
    let agent = core.roster.get(agent_id).ok_or_else(agent_gone)?;
    let kind = attachment::media_type(bytes).and_then(|media_type| media_type.strip_prefix("image/"));
    let name = format!("clipboard.{}", kind.ok_or_else(|| Error::usage("the clipboard has no image"))?);
    let stored = store_bytes(core, agent, &name, bytes).map_err(|error| error.context("clipboard"));
    let (marker, newest) = stored?;
    if let Some(after) = newest {
        let found = references(&marker);
        let files = found.iter().map(|found| DraftFile { digest: found.digest.to_owned(), after });
        core.draft_files.extend(files);
    }
    Ok(marker)
}

/// Removes the files that were pasted into drafts and were not sent, when the program ends.
pub(in crate::repl) fn free_unsent(core: &mut Core) {
    let files = std::mem::take(&mut core.draft_files);
    if !files.is_empty() && !core.store.is_read_only() {
        // They take some room in the store.
        drop(core.store.free_files_of_drafts(&files));
    }
}

/// Stores a file. Returns its marker and, if the file is new, the newest message at that time.
fn store_bytes(core: &Core, agent: &Agent, name: &str, bytes: &[u8]) -> Result<(String, Option<i64>)> {
    let media_type = attachment::media_type(bytes)
        .ok_or_else(|| Error::usage("is not a PNG, JPEG, GIF, WebP or PDF file: it cannot be attached"))?;
    let (most, can_read, what) = match media_type {
        PDF => (MAX_DOCUMENT, agent.inputs.endpoint.facts.documents, "PDF files"),
        _ => (MAX_IMAGE, agent.inputs.endpoint.facts.images, "images"),
    };
    let endpoint = &agent.inputs.endpoint;
    let can_be_sent = endpoint.has_server() || endpoint.is_host() && media_type != PDF;
    if can_read == Some(false) || !can_be_sent {
        let model = endpoint.full_name();
        return Err(Error::usage(format!("{model} takes no {what}: choose another model with /model")));
    }
    if bytes.len() > most {
        return Err(Error::usage(format!("is larger than {} MB, the limit for {what}", most >> 20)));
    }
    let digest = sha256(bytes);
    let newest = core.store.put_attachment(&digest, media_type, bytes)?;
    Ok((attachment::marker(name, media_type, bytes.len(), &digest), newest))
}

/// Some messages begin with the path, which is added to all.
fn refusal(path: &str, why: &str) -> Error {
    Error::usage(why.strip_prefix(path).and_then(|why| why.strip_prefix(": ")).unwrap_or(why))
}

/// The paths in a text that may be files to attach.
fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let is_start = text[..at].chars().next_back().is_none_or(char::is_whitespace);
        let word = rest.split(char::is_whitespace).next().unwrap_or_default();
        let quoted = rest.strip_prefix("@\"").and_then(|rest| rest.split_once('"')).map(|(path, _)| path);
        let (length, path) = match quoted {
            Some(path) if is_start => (path.len() + 3, Some(path)),
            _ if !is_start || word.is_empty() => (0, None),
            _ if word.starts_with('@') => (word.len(), Some(&word[1..])),
            _ => (word.len(), Some(word).filter(|word| word.starts_with('/') && attachment::is_attachable(word))),
        };
        let path = path.filter(|path| !path.is_empty());
        found.extend(path.map(|path| Mention { range: at..at + length, path: path.to_owned() }));
        at += if length > 0 { length } else { rest.chars().next().map_or(1, char::len_utf8) };
    }
    found
}

/// The text with every path that would be attached in quotes, so that it is not: it was not the person who wrote it.
#[cfg_attr(not(feature = "mcp"), allow(dead_code))]
pub(crate) fn disarmed(text: &str) -> String {
    let mut disarmed = text.to_owned();
    for mention in mentions(text).into_iter().rev() {
        let quoted = format!("`{}`", &text[mention.range.clone()]);
        disarmed.replace_range(mention.range, &quoted);
    }
    disarmed
}

/// Loads the files that the conversation of an agent refers to, for its next request. A summary is written without them.
pub(in crate::repl) fn load(core: &mut Core, agent_id: AgentId) {
    let Some(agent) = core.roster.get(agent_id).filter(|agent| agent.role != Role::Summary) else { return };
    let facts = agent.inputs.endpoint.facts;
    let Some(history) = &agent.inputs.history else { return };
    let mut files = Files::new();
    let mut of_results = 0;
    // The newest results keep their images.
    for message in history.conversation().into_iter().rev() {
        let text = match &message.body {
            Body::User(text) => text,
            Body::ToolResult(result) if result.may_have_images() && of_results < MAX_OF_RESULTS => &result.content,
            _ => continue,
        };
        for found in references(text) {
            of_results += usize::from(matches!(message.body, Body::ToolResult(_)));
            let known = agent.inputs.files.get(found.digest).cloned();
            let Some(file) = known.or_else(|| stored_file(core, found.digest)) else { continue };
            let can_read = if file.media_type == PDF { facts.documents } else { facts.images };
            if can_read != Some(false) {
                files.insert(found.digest.to_owned(), file);
            }
        }
    }
    core.roster.with(agent_id, |agent| agent.inputs.files = files);
}

fn stored_file(core: &Core, digest: &str) -> Option<Rc<LoadedFile>> {
    let (media_type, bytes) = core.store.attachment(digest).ok()??;
    Some(Rc::new(LoadedFile { media_type, base64: BASE64.encode(bytes) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_files_are_found_in_a_text() {
        let paths = |text: &str| mentions(text).into_iter().map(|mention| mention.path).collect::<Vec<_>>();
        assert_eq!(paths("look at @a/b.png and @\"c d.pdf\", not me@x.png"), ["a/b.png", "c d.pdf"]);
        assert_eq!(paths("/tmp/shot.PNG"), ["/tmp/shot.PNG"]);
        assert_eq!(paths("@src/main.rs, a.png @ é@.png /etc/hosts"), ["src/main.rs,"]);
        let disarmed = disarmed("see @a.png or /b.pdf and @\"c d\"");
        assert_eq!(disarmed, "see `@a.png` or `/b.pdf` and `@\"c d\"`");
        assert!(paths(&disarmed).is_empty());
    }
}
