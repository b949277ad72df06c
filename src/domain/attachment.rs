//! Files in messages of the user. For an image or a PDF file a message holds a marker with the beginning of the file's
//! SHA-256, by which the bytes are found in the store, so that drafts, queues, forks and logs carry files as they carry text.
//! The content of a text file follows the message.
//!
//! ```text
//!   [image: shot.png, 120 KB #0123456789abcdef]      a reader sees [image: shot.png, 120 KB]
//!
//!   see @src/main.rs                                 a reader sees see @src/main.rs
//!                                                                  [file: src/main.rs, 2 lines]
//!   <file path="src/main.rs">
//!   1    fn main() {
//!   2    }
//!   </file>
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::base::text;

/// Hexadecimal digits of a file in its marker.
pub const DIGEST_LENGTH: usize = 32;
/// The most bytes of an image: services refuse larger ones.
pub const MAX_IMAGE: usize = 5 << 20;
/// The most bytes of a PDF file.
pub const MAX_DOCUMENT: usize = 20 << 20;
/// How much of the context a file takes, as bytes of text, about: services count about 1,500 tokens for an image.
pub const CONTEXT_BYTES: usize = 6_000;

/// The type of a file, by its first bytes; `None` if no protocol takes it.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some(PDF),
        _ => None,
    }
}

/// The type of a PDF file.
pub const PDF: &str = "application/pdf";

/// Whether the name of a file looks like one that can be attached.
pub fn is_attachable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"].iter().any(|end| name.ends_with(end))
}

/// The marker of a file in a message.
pub fn marker(name: &str, media_type: &str, size: usize, digest: &str) -> String {
    let kind = if media_type == PDF { "PDF" } else { "image" };
    let is_fine = |c: &char| !c.is_control() && !"[]#,".contains(*c);
    let name: String = name.chars().filter(is_fine).take(80).collect();
    let size = if size < 1 << 20 { format!("{} KB", size.div_ceil(1 << 10)) } else { format!("{} MB", size >> 20) };
    format!("[{kind}: {name}, {size} #{}]", digest.get(..DIGEST_LENGTH).unwrap_or(digest))
}

/// A marker in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Its bytes.
    pub range: Range<usize>,
    /// The name of the file.
    pub name: &'a str,
    /// The beginning of its SHA-256.
    pub digest: &'a str,
}

/// All markers in a text, in order.
pub fn references(text: &str) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    for kind in ["[image: ", "[PDF: "] {
        for (start, _) in text.match_indices(kind) {
            let rest = &text[start + kind.len()..];
            let Some((inner, _)) = rest.split_once(']') else { continue };
            let Some((label, digest)) = inner.rsplit_once(" #") else { continue };
            let is_digest = digest.len() == DIGEST_LENGTH && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            let Some((name, _)) = label.rsplit_once(", ").filter(|_| is_digest) else { continue };
            found.push(Reference { range: start..start + kind.len() + inner.len() + 1, name, digest });
        }
    }
    found.sort_by_key(|reference| reference.range.start);
    found
}

/// The text as a reader sees it.
pub fn readable_text(text: &str) -> Cow<'_, str> {
    let found = references(text);
    if found.is_empty() {
        return text.into();
    }
    let mut shown = text.to_owned();
    for reference in found.iter().rev() {
        let hidden = reference.digest.len() + " #".len();
        let end = reference.range.end - 1;
        shown.replace_range(end - hidden..end, "");
    }
    shown.into()
}

/// The line before the content of a text file.
fn file_head(path: &str) -> String {
    format!("\n\n<file path={path:?}>\n")
}

const FILE_HEAD: &str = "\n\n<file path=\"";
const FILE_END: &str = "\n</file>";

/// Adds the content of a text file to a message. Each of its lines begins with its number, so that none is the end.
pub fn add_text_file(message: &mut String, path: &str, content: &str) {
    message.push_str(&file_head(path));
    message.push_str(content.trim_end_matches('\n'));
    message.push_str(FILE_END);
}

/// Whether the message has the content of this file.
pub fn has_text_file(message: &str, path: &str) -> bool {
    message.contains(&file_head(path))
}

/// The content of a text file in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile<'a> {
    /// Its bytes, with the blank line before it.
    pub range: Range<usize>,
    path: &'a str,
    content: &'a str,
}

impl TextFile<'_> {
    /// What a reader sees of the file.
    pub fn label(&self) -> String {
        let is_numbered = |line: &&str| line.split_once('\t').is_some_and(|(number, _)| number.parse::<u64>().is_ok());
        // Editors include files without numbers.
        let count = match self.content.lines().filter(is_numbered).count() {
            0 => self.content.lines().count(),
            count => count,
        };
        let part = self.content.rsplit('\n').next().and_then(|last| last.strip_prefix("[lines "));
        let lines = match part.and_then(|part| part.split([';', ']']).next()) {
            Some(part) => format!("lines {part}"),
            None => text::counted(count, "line", "lines"),
        };
        format!("[file: {}, {lines}]", self.path)
    }
}

/// The text files whose content a message has, in order.
pub fn text_files(message: &str) -> Vec<TextFile<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = message[at..].find(FILE_HEAD).map(|start| at + start) {
        at = start + FILE_HEAD.len();
        let Some((path, rest)) = message[at..].split_once("\">\n").filter(|(path, _)| !path.contains('\n')) else {
            continue;
        };
        let begin = message.len() - rest.len();
        let Some(length) = rest.find(FILE_END) else { continue };
        at = begin + length + FILE_END.len();
        found.push(TextFile { range: start..at, path, content: &rest[..length] });
    }
    found
}

/// A message as a reader sees it, with a line for each file.
pub fn fold_files(message: &str) -> Cow<'_, str> {
    let files = text_files(message);
    if files.is_empty() {
        return readable_text(message);
    }
    let (mut folded, mut at) = (String::new(), 0);
    for file in &files {
        folded.push_str(&readable_text(&message[at..file.range.start]));
        folded.push('\n');
        folded.push_str(&file.label());
        at = file.range.end;
    }
    folded.push_str(&readable_text(&message[at..]));
    folded.into()
}

/// A file as it is sent.
#[derive(Debug, PartialEq, Eq)]
pub struct LoadedFile {
    pub media_type: String,
    pub base64: String,
}

/// The files that the messages of a request refer to, by the beginning of their SHA-256.
pub type Files = BTreeMap<String, Rc<LoadedFile>>;

/// A part of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text, never blank.
    Text(String),
    /// A file with its name.
    File(&'a str, &'a LoadedFile),
}

/// The parts of a message; one text if it refers to none of these files.
pub fn pieces<'a>(text: &'a str, files: &'a Files) -> Vec<Piece<'a>> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    let mut push = |text: &str| {
        let text = readable_text(text);
        if !text.trim().is_empty() {
            pieces.push(Piece::Text(text.into_owned()));
        }
    };
    let known = references(text).into_iter().filter_map(|found| Some((files.get(found.digest)?, found)));
    let known: Vec<_> = known.collect();
    // The marker stays in the text, so that the model knows the name of the file that follows.
    for (_, found) in &known {
        push(&text[at..found.range.end]);
        at = found.range.end;
    }
    push(&text[at..]);
    let mut whole = Vec::new();
    let mut files = known.into_iter();
    for piece in pieces {
        let has_marker = matches!(&piece, Piece::Text(text) if text.ends_with(']'));
        whole.push(piece);
        if has_marker && let Some((file, found)) = files.next() {
            whole.push(Piece::File(found.name, file));
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_marker_is_found_and_shown_without_its_digest() {
        let one = marker("a [1], b#.png", "image/png", 120 << 10, DIGEST);
        assert_eq!(one, format!("[image: a 1 b.png, 120 KB #{DIGEST}]"));
        let two = marker("p.pdf", PDF, 3 << 20, DIGEST);
        let text = format!("see {one} and {two}.");
        let found = references(&text);
        assert_eq!(found.iter().map(|found| found.name).collect::<Vec<_>>(), ["a 1 b.png", "p.pdf"]);
        assert_eq!(readable_text(&text), "see [image: a 1 b.png, 120 KB] and [PDF: p.pdf, 3 MB].");
        for plain in ["[image: x, 1 KB]", "[image: x #12]", "[image: ", "no marker"] {
            assert!(references(plain).is_empty() && readable_text(plain) == plain, "{plain}");
        }
    }

    #[test]
    fn a_message_is_split_at_the_files_that_are_known() {
        let text =
            format!("look at {} now {}", marker("a.png", "image/png", 9, DIGEST), marker("b", PDF, 9, &"f".repeat(32)));
        let file = Rc::new(LoadedFile { media_type: "image/png".into(), base64: "AA==".into() });
        let files = Files::from([(DIGEST.to_owned(), file.clone())]);
        let expected = [
            Piece::Text("look at [image: a.png, 1 KB]".into()),
            Piece::File("a.png", &file),
            Piece::Text(" now [PDF: b, 1 KB]".into()),
        ];
        assert_eq!(pieces(&text, &files), expected);
        assert_eq!(pieces("plain", &files), [Piece::Text("plain".into())]);
    }

    #[test]
    fn the_content_of_text_files_is_one_line_for_a_reader() {
        let mut message = "compare @a.rs and @b \"c\".txt".to_owned();
        add_text_file(&mut message, "a.rs", "1\tfn a() {\n2\t</file>\n3\t}\n");
        add_text_file(&mut message, "b \"c\".txt", "1\tx\n[lines 1-1 of 20; continue with offset 2]");
        assert!(has_text_file(&message, "a.rs") && has_text_file(&message, "b \"c\".txt"));
        assert!(!has_text_file(&message, "c.rs"));
        let labels: Vec<String> = text_files(&message).iter().map(TextFile::label).collect();
        assert_eq!(labels[0], "[file: a.rs, 3 lines]");
        assert!(labels[1].ends_with(", lines 1-1 of 20]"), "{}", labels[1]);
        let expected = format!("compare @a.rs and @b \"c\".txt\n{}\n{}", labels[0], labels[1]);
        assert_eq!(fold_files(&message), expected);
        for plain in ["a\n\n<file path=\"x\">\nno end", "<file path=\"x\">\n</file>", "plain"] {
            assert!(text_files(plain).is_empty() && fold_files(plain) == plain, "{plain}");
        }
    }

    #[test]
    fn a_type_is_known_by_the_first_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"%PDF-1.7", Some(PDF)),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"", None),
        ] {
            assert_eq!(media_type(bytes), expected);
        }
    }
}
