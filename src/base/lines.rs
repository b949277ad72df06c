//! Messages on a pipe: one on each line, bounded in length.

/// A longer line ends the session, in bytes.
pub const MAX_LINE: usize = 16 << 20;

/// Splits what was read into lines. Memory is bounded by [`MAX_LINE`].
#[derive(Default)]
pub struct Lines {
    buffer: Vec<u8>,
    /// No line ends before this position.
    searched: usize,
}

/// A line is longer than [`MAX_LINE`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

impl Lines {
    /// Adds bytes and takes all lines that are complete, without their ends. Empty lines are left out.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        self.buffer.extend_from_slice(bytes);
        let mut lines = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            let end = self.searched + length;
            let line = self.buffer[start..end].trim_ascii();
            if !line.is_empty() {
                lines.push(line.to_vec());
            }
            (start, self.searched) = (end + 1, end + 1);
        }
        self.buffer.drain(..start);
        self.searched = self.buffer.len();
        if self.buffer.len() > MAX_LINE { Err(TooLong) } else { Ok(lines) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_wherever_the_bytes_are_cut() {
        let bytes = b"one\r\n\n two\nthr";
        for cut in 0..bytes.len() {
            let mut lines = Lines::default();
            let mut found = lines.push(&bytes[..cut]).unwrap();
            found.extend(lines.push(&bytes[cut..]).unwrap());
            found.extend(lines.push(b"ee\n").unwrap());
            assert_eq!(found, [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()], "{cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut lines = Lines::default();
        let block = vec![b'x'; 1 << 20];
        let refused = (0..32).find(|_| lines.push(&block).is_err());
        assert_eq!(refused, Some(16));
    }
}
