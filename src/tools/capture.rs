//! The output of a command: its start and end for the model, and all of it in a file.
//!
//! ```text
//!   bytes ─▶ head (half the cap) ─▶ tail (half the cap, the oldest bytes are dropped)
//!        └─▶ file, created before the first byte would be dropped
//! ```
//!
//! Memory is bounded by the cap, the file by [`FILE_CAP`]; bytes beyond both are counted and dropped. The output of a
//! command in the background is taken in parts ([`Capture::take`]); its file is created with its first byte.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::file_access::reason;
use super::visible;

/// How many bytes of one output are written to its file.
pub const FILE_CAP: u64 = 64 << 20;

/// Takes the output of a command.
pub trait Sink {
    fn push(&mut self, bytes: &[u8]);

    /// Standard error, if it is read separately.
    fn push_errors(&mut self, bytes: &[u8]) {
        self.push(bytes);
    }

    /// Changes of a protected file while the command runs.
    fn warn(&mut self, line: &str) {
        self.push(format!("[protected: {}]\n", visible(line)).as_bytes());
    }

    /// Whether the command should be ended because no more output is wanted.
    fn has_enough(&self) -> bool {
        false
    }
}

pub struct Capture {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes since the last [`Capture::take`].
    total: u64,
    /// Bytes before that.
    taken: u64,
    /// Everything is written to the file, not only what would be dropped.
    keeps_all: bool,
    directory: PathBuf,
    file: FullOutput,
    /// NUL stays as it is.
    keeps_nul: bool,
}

enum FullOutput {
    NotNeeded,
    Open { file: File, path: PathBuf, bytes: u64 },
    Failed(String),
}

impl Capture {
    /// The model gets about `cap` bytes; a file is created in `directory` if there are more.
    pub fn new(cap: usize, directory: &Path) -> Self {
        let (head, tail) = (Vec::new(), VecDeque::new());
        let (half, directory) = (cap / 2, directory.into());
        Self {
            half,
            head,
            tail,
            total: 0,
            taken: 0,
            keeps_all: false,
            directory,
            file: FullOutput::NotNeeded,
            keeps_nul: false,
        }
    }

    /// The output is for the program itself, which reads NUL.
    pub fn for_program(cap: usize, directory: &Path) -> Self {
        Self { keeps_nul: true, ..Self::new(cap, directory) }
    }

    /// The output is taken in parts, each of about `cap` bytes at most; all of it is in a file.
    pub fn in_parts(cap: usize, directory: &Path) -> Self {
        Self { keeps_all: true, ..Self::new(cap, directory) }
    }

    /// The text for the model; a line in it says how much is missing and where the full output is.
    pub fn finish(mut self) -> String {
        self.text()
    }

    /// Likewise, for output since the last call. Without `is_last`, an incomplete character waits for the next call.
    pub fn take(&mut self, is_last: bool) -> String {
        let is_whole = self.total == (self.head.len() + self.tail.len()) as u64;
        let mut rest = Vec::new();
        if is_whole && !is_last {
            let all: Vec<u8> = self.head.iter().chain(&self.tail).copied().collect();
            rest = all[without_cut_end(&all).len()..].to_vec();
            (self.head, self.tail) = (all[..all.len() - rest.len()].to_vec(), VecDeque::new());
            self.total -= rest.len() as u64;
        }
        let text = self.text();
        self.taken += self.total;
        self.total = rest.len() as u64;
        (self.head, self.tail) = (rest, VecDeque::new());
        text
    }

    /// The file with all of the output, once there is one.
    pub fn path(&self) -> Option<&Path> {
        if let FullOutput::Open { path, .. } = &self.file { Some(path) } else { None }
    }

    fn text(&mut self) -> String {
        let is_whole = self.total == (self.head.len() + self.tail.len()) as u64;
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if is_whole {
            let all = characters(&[self.head.as_slice(), &tail].concat(), self.keeps_nul);
            if length(&all) <= 2 * self.half {
                return text(&all);
            }
            self.open();
            return self.truncated(&all, &all);
        }
        let head = characters(without_cut_end(&self.head), self.keeps_nul);
        let tail = characters(without_cut_start(&tail), self.keeps_nul);
        self.truncated(&head, &tail)
    }

    /// The start of `head`, a line about what is missing, the end of `tail`.
    fn truncated(&self, head: &[Character], tail: &[Character]) -> String {
        let (head, tail) = (first(head, self.half), last(tail, self.half));
        let shown: usize = head.iter().chain(tail).map(|c| c.raw).sum();
        let omitted = self.total - shown as u64;
        let gap = if text(head).ends_with('\n') { "" } else { "\n" };
        let location = self.file.describe(self.taken + self.total);
        format!("{}{gap}[{omitted} bytes omitted; {location}]\n{}", text(head), text(tail))
    }

    /// Creates the file and writes everything so far, which is in memory.
    fn open(&mut self) {
        if !matches!(self.file, FullOutput::NotNeeded) {
            return;
        }
        self.file = match create(&self.directory) {
            Ok((file, path)) => FullOutput::Open { file, path, bytes: 0 },
            Err(error) => FullOutput::Failed(reason(&error)),
        };
        self.file.write(&self.head);
        let (older, newer) = self.tail.as_slices();
        self.file.write(older);
        self.file.write(newer);
    }
}

impl Sink for Capture {
    fn push(&mut self, bytes: &[u8]) {
        if self.keeps_all || self.head.len() + self.tail.len() + bytes.len() > 2 * self.half {
            self.open();
        }
        self.file.write(bytes);
        self.total += bytes.len() as u64;
        let (to_head, to_tail) = bytes.split_at(bytes.len().min(self.half.saturating_sub(self.head.len())));
        self.head.extend_from_slice(to_head);
        self.tail.extend(&to_tail[to_tail.len().saturating_sub(self.half)..]);
        let surplus = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..surplus);
    }
}

impl FullOutput {
    fn write(&mut self, chunk: &[u8]) {
        let Self::Open { file, bytes, .. } = self else { return };
        let remaining = usize::try_from(FILE_CAP - *bytes).unwrap_or(usize::MAX);
        let chunk = &chunk[..chunk.len().min(remaining)];
        match file.write_all(chunk) {
            Ok(()) => *bytes += chunk.len() as u64,
            Err(error) => *self = Self::Failed(reason(&error)),
        }
    }

    fn describe(&self, total: u64) -> String {
        match self {
            Self::NotNeeded => format!("the full output is {total} bytes"),
            Self::Open { path, bytes, .. } if *bytes == total => {
                format!("the full output of {total} bytes is in {}", path.display())
            }
            Self::Open { path, bytes, .. } => {
                format!("the first {bytes} of {total} bytes are saved in {}", path.display())
            }
            Self::Failed(why) => format!("the full output is {total} bytes and could not be saved: {why}"),
        }
    }
}

/// A new file with a unique name that only its owner can read.
fn create(directory: &Path) -> io::Result<(File, PathBuf)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if fs::symlink_metadata(directory)?.is_symlink() {
        return Err(io::Error::other(format!("{} is a symbolic link: remove it", directory.display())));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("bash-{now}-{}-{count}.txt", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok((file, path))
}

/// A character of the text for the model, and how many bytes of the output it represents.
#[derive(Clone, Copy)]
struct Character {
    shown: char,
    raw: usize,
}

/// Decodes UTF-8. Invalid bytes become U+FFFD, and so does NUL, which some providers refuse, unless it is kept.
fn characters(bytes: &[u8], keeps_nul: bool) -> Vec<Character> {
    let mut all = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let shown = |c| if c == '\0' && !keeps_nul { char::REPLACEMENT_CHARACTER } else { c };
        all.extend(chunk.valid().chars().map(|c| Character { shown: shown(c), raw: c.len_utf8() }));
        if !chunk.invalid().is_empty() {
            all.push(Character { shown: char::REPLACEMENT_CHARACTER, raw: chunk.invalid().len() });
        }
    }
    all
}

fn text(characters: &[Character]) -> String {
    characters.iter().map(|c| c.shown).collect()
}

fn length(characters: &[Character]) -> usize {
    characters.iter().map(|c| c.shown.len_utf8()).sum()
}

/// How many of these characters fit into `max_bytes` bytes.
fn fitting<'a>(characters: impl Iterator<Item = &'a Character>, max_bytes: usize) -> usize {
    let ends = characters.scan(0, |used, c| {
        *used += c.shown.len_utf8();
        Some(*used)
    });
    ends.take_while(|end| *end <= max_bytes).count()
}

/// The first characters that fit into `max_bytes` bytes, cut after the last line end in their second half, if any.
fn first(all: &[Character], max_bytes: usize) -> &[Character] {
    let fits = &all[..fitting(all.iter(), max_bytes)];
    let end = fits.iter().rposition(|c| c.shown == '\n').map_or(0, |newline| newline + 1);
    if end > fits.len() / 2 { &fits[..end] } else { fits }
}

/// The last characters that fit into `max_bytes` bytes, cut before the first line in their first half, if any.
fn last(all: &[Character], max_bytes: usize) -> &[Character] {
    let fits = &all[all.len() - fitting(all.iter().rev(), max_bytes)..];
    let start = fits.iter().position(|c| c.shown == '\n').map_or(fits.len(), |newline| newline + 1);
    if start < fits.len() / 2 { &fits[start..] } else { fits }
}

/// `bytes` without an incomplete character at the end.
pub fn without_cut_end(bytes: &[u8]) -> &[u8] {
    let cut = bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
    let is_incomplete =
        std::str::from_utf8(&bytes[bytes.len() - cut..]).is_err_and(|error| error.error_len().is_none());
    if is_incomplete { &bytes[..bytes.len() - cut] } else { bytes }
}

/// `bytes` without an incomplete character at the start.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let continued = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &bytes[continued..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(cap: usize, directory: &Path, chunks: &[&[u8]]) -> String {
        let mut capture = Capture::new(cap, directory);
        chunks.iter().for_each(|chunk| capture.push(chunk));
        capture.finish()
    }

    #[test]
    fn short_output_is_returned_whole_without_a_file() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(capture(10, directory.path(), &[b"0123", b"456789"]), "0123456789");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn long_output_keeps_head_and_tail_and_counts_the_rest() {
        let all: Vec<u8> = (0..200).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        for size in [1, 7, 40, 41, 1000] {
            let directory = tempfile::tempdir().unwrap();
            let content = capture(40, directory.path(), &all.chunks(size).collect::<Vec<_>>());
            let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
            assert_eq!(fs::read(&path).unwrap(), all, "chunks of {size}");
            assert!(content.starts_with("0\n1\n2\n") && content.ends_with("\n198\n199\n"), "{content}");
            assert!(content.contains(&format!("the full output of 690 bytes is in {}", path.display())), "{content}");
            let shown = content.lines().filter(|line| !line.starts_with('[')).map(|line| line.len() + 1).sum::<usize>();
            assert!(content.contains(&format!("[{} bytes omitted", 690 - shown)), "{content}");
        }
    }

    #[test]
    fn a_character_is_never_cut() {
        let all = "€".repeat(100);
        for cap in 8..30 {
            let directory = tempfile::tempdir().unwrap();
            let content = capture(cap, directory.path(), &[all.as_bytes()]);
            assert!(!content.contains('\u{fffd}'), "{cap}: {content}");
        }
    }

    #[test]
    fn invalid_bytes_are_replaced_within_the_cap() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(capture(100, directory.path(), &[b"a\xff\0b\xe2\x82"]), "a\u{fffd}\u{fffd}b\u{fffd}");
        let content = capture(100, directory.path(), &[&[0xff; 90]]);
        let shown = content.chars().filter(|c| *c == '\u{fffd}').count();
        assert!(shown <= 33 && content.contains(&format!("[{} bytes omitted", 90 - shown)), "{content}");
    }

    #[test]
    fn a_link_in_place_of_the_directory_is_not_followed() {
        let (top, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = top.path().join("outputs");
        std::os::unix::fs::symlink(target.path(), &link).unwrap();
        let content = capture(4, &link, &[b"0123456789"]);
        assert!(content.contains("could not be saved") && content.contains("is a symbolic link"), "{content}");
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_created_is_reported() {
        let content = capture(4, Path::new("/dev/null/nowhere"), &[b"0123456789"]);
        assert!(content.starts_with("01\n[6 bytes omitted") && content.ends_with("89"), "{content}");
        assert!(content.contains("could not be saved"), "{content}");
    }
}
