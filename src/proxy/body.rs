//! Where the body of a plain request ends (RFC 9112, 6 and 7.1): nothing after it goes to the server.

/// The part of a client's data that belongs to its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// All of it: a tunnel.
    Endless,
    /// This many bytes more.
    Length(u64),
    Chunked(Chunk),
    /// Its end is unknown.
    Malformed,
}

/// The next part of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    Size(Option<u64>),
    /// The rest of the line with the size.
    Extension(u64),
    /// The end of that line.
    LineEnd(u64),
    Data(u64),
    DataReturn,
    DataEnd,
    /// A line of the trailer, with or without text so far.
    Trailer(bool),
    TrailerEnd(bool),
    Done,
}

impl Body {
    pub const CHUNKED: Self = Self::Chunked(Chunk::Size(None));

    /// How many of these bytes belong to it. What follows is not part of it.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Endless => bytes.len(),
            Self::Malformed => 0,
            Self::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= count as u64;
                count
            }
            Self::Chunked(chunk) => match take_chunks(chunk, bytes) {
                Some(count) => count,
                None => {
                    *self = Self::Malformed;
                    0
                }
            },
        }
    }
}

fn take_chunks(chunk: &mut Chunk, bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() && *chunk != Chunk::Done {
        if let Chunk::Data(left) = chunk {
            let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
            at += count;
            *chunk = if *left == count as u64 { Chunk::DataReturn } else { Chunk::Data(*left - count as u64) };
            continue;
        }
        *chunk = after(*chunk, bytes[at])?;
        at += 1;
    }
    Some(at)
}

/// The state after a byte that is not data.
fn after(chunk: Chunk, byte: u8) -> Option<Chunk> {
    let digit = char::from(byte).to_digit(16).map(u64::from);
    Some(match (chunk, byte) {
        (Chunk::Size(size), _) if digit.is_some() => {
            Chunk::Size(Some(size.unwrap_or(0).checked_mul(16)?.checked_add(digit?)?))
        }
        (Chunk::Size(Some(size)), b'\r') | (Chunk::Extension(size), b'\r') => Chunk::LineEnd(size),
        (Chunk::Size(Some(size)), b';' | b' ' | b'\t') => Chunk::Extension(size),
        (Chunk::Extension(size), byte) if byte != b'\n' => Chunk::Extension(size),
        (Chunk::LineEnd(0), b'\n') => Chunk::Trailer(false),
        (Chunk::LineEnd(size), b'\n') => Chunk::Data(size),
        (Chunk::DataReturn, b'\r') => Chunk::DataEnd,
        (Chunk::DataEnd, b'\n') => Chunk::Size(None),
        (Chunk::Trailer(has_text), b'\r') => Chunk::TrailerEnd(has_text),
        (Chunk::Trailer(_), byte) if byte != b'\n' => Chunk::Trailer(true),
        (Chunk::TrailerEnd(true), b'\n') => Chunk::Trailer(false),
        (Chunk::TrailerEnd(false), b'\n') => Chunk::Done,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_where_its_length_or_its_last_chunk_says_wherever_it_is_cut() {
        let chunked = "5\r\nhello\r\n1;a=b\r\nx\r\n00\r\nT: v\r\n\r\n";
        for (body, text) in [(Body::Length(5), "hello"), (Body::CHUNKED, chunked), (Body::CHUNKED, "0\r\n\r\n")] {
            let all = format!("{text}GET http://other/ HTTP/1.1\r\n\r\n");
            for cut in 0..=all.len() {
                let mut body = body.clone();
                let (first, second) = all.as_bytes().split_at(cut);
                let taken = body.take(first);
                let taken = taken + if taken == first.len() { body.take(second) } else { 0 };
                assert_eq!(taken, text.len(), "{text:?} cut at {cut}");
                assert!(matches!(body, Body::Length(0) | Body::Chunked(Chunk::Done)), "{body:?}");
            }
        }
        let mut tunnel = Body::Endless;
        assert_eq!(tunnel.take(b"any"), 3);
        assert_eq!(Body::Length(0).take(b"x"), 0);
    }

    #[test]
    fn what_is_no_chunk_ends_the_body() {
        for text in ["\r\n", "x\r\n", "5\nhello", "1\r\nab", "1\r\na\n", "11111111111111111\r\n", "-1\r\n", "0\r\n\n"] {
            let mut body = Body::CHUNKED;
            body.take(text.as_bytes());
            assert_eq!(body, Body::Malformed, "{text:?}");
        }
    }
}
