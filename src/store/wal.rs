//! The write-ahead log as a file, beside SQLite's own use of it. SQLite locks the database and the `-shm` file, never the
//! log, so another descriptor of the log can be opened and closed; one of the database could not.

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Read, Seek as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::connection::log_path;
use crate::base::file::open_regular;

/// The number that begins a log, without its lowest bit (<https://www.sqlite.org/fileformat2.html#walformat>).
const MAGIC: [u8; 3] = [0x37, 0x7f, 0x06];

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Two numbers in the header of a log and in each of its frames; others with each restart of the log.
pub(super) type Salts = [u8; 8];

pub(super) struct LogFile {
    dir: PathBuf,
    path: PathBuf,
    /// Kept open, so that it is told every failed write.
    open: Option<File>,
    /// The directory was synced since the file was opened, which this process may have created.
    is_in_directory: bool,
}

impl LogFile {
    pub(super) fn new(dir: &Path) -> Self {
        let mut log = Self { dir: dir.to_owned(), path: log_path(dir), open: None, is_in_directory: false };
        // What fails now fails again when it is needed.
        let _ = log.open_current();
        log
    }

    /// Makes durable what was written to the log before the call. No log is no error: nothing was written.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.open_current()?;
        let Some(file) = &self.open else { return Ok(()) };
        file.sync_data()?;
        if !self.is_in_directory && self.dir.exists() {
            File::open(&self.dir)?.sync_all()?;
            self.is_in_directory = true;
        }
        Ok(())
    }

    /// How long the log is.
    pub(super) fn len(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |found| found.len())
    }

    /// The salts in the header; `None` if there is no whole header.
    pub(super) fn salts(&mut self) -> io::Result<Option<Salts>> {
        self.open_current()?;
        let Some(file) = &self.open else { return Ok(None) };
        let mut header = [0; HEADER];
        match file.read_exact_at(&mut header, 0) {
            Ok(()) if header.starts_with(&MAGIC) => Ok(header[16..24].try_into().ok()),
            Ok(()) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How many frames SQLite finds when it recovers: those up to the first that does not fit its checksum, without what
    /// follows the last commit. SQLite itself cannot be asked: it reads the schema first, which a power cut may have mixed.
    pub(super) fn whole_frames(&self) -> io::Result<u32> {
        let Some(file) = &self.open else { return Ok(0) };
        let mut reader = BufReader::new(file);
        let mut header = [0; HEADER];
        let Some(mut sums) = read_header(&mut reader, &mut header)? else { return Ok(0) };
        let mut frame = vec![0; FRAME_HEADER + word(&header, 8, false) as usize];
        let (mut count, mut whole) = (0, 0);
        while read_all(&mut reader, &mut frame)? && frame[8..16] == header[16..24] {
            let is_big_endian = header[3] & 1 == 1;
            sums = add_to(sums, &frame[..8], is_big_endian);
            sums = add_to(sums, &frame[FRAME_HEADER..], is_big_endian);
            if sums != (word(&frame, 16, false), word(&frame, 20, false)) {
                break;
            }
            count += 1;
            // The size of the database, in the last frame of a commit.
            if word(&frame, 4, false) != 0 {
                whole = count;
            }
        }
        Ok(whole)
    }

    /// Opens the log that is there now, if it is not open.
    fn open_current(&mut self) -> io::Result<()> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let identity = |found: &Metadata| (found.dev(), found.ino());
        let is_open = match &self.open {
            Some(file) => identity(&file.metadata()?) == identity(&found),
            None => false,
        };
        if !is_open {
            (self.open, self.is_in_directory) = (Some(open_regular(&self.path)?), false);
        }
        Ok(())
    }
}

/// Reads the header from the beginning of the log. Returns its checksum, with which that of the first frame begins; `None` if
/// it is no whole header.
fn read_header(reader: &mut BufReader<&File>, header: &mut [u8; HEADER]) -> io::Result<Option<(u32, u32)>> {
    reader.rewind()?;
    if !read_all(reader, header)? || !header.starts_with(&MAGIC) {
        return Ok(None);
    }
    let sums = add_to((0, 0), &header[..24], header[3] & 1 == 1);
    let is_page_size = (9..=16).any(|power| word(header, 8, false) == 1 << power);
    Ok((is_page_size && sums == (word(header, 24, false), word(header, 28, false))).then_some(sums))
}

/// Whether there were so many bytes.
fn read_all(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// The checksum of SQLite, with these words added.
fn add_to((mut first, mut second): (u32, u32), bytes: &[u8], is_big_endian: bool) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(pair, 0, !is_big_endian)).wrapping_add(second);
        second = second.wrapping_add(word(pair, 4, !is_big_endian)).wrapping_add(first);
    }
    (first, second)
}

fn word(bytes: &[u8], at: usize, is_little_endian: bool) -> u32 {
    let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if is_little_endian { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
}
