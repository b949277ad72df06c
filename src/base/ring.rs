//! A ring buffer of numbered records. A new record gets the next number; the oldest records are dropped when a limit is
//! exceeded. Readers hold numbers, not references, and can tell a dropped record from one that does not exist yet.
//!
//! ```text
//!   records   tag,end  tag,end  tag,end         8 bytes each
//!             ▲ first                    ▲ next
//!   bytes     aaaaaaaa|bbb|cccccccccccc         the contents, concatenated
//! ```

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub records: usize,
    /// The most bytes of all contents. The newest record is never dropped, even if it alone is larger.
    pub bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    tag: u8,
    /// Where its content ends, counted from an arbitrary start, modulo 2^32: a ring holds far less than 4 GiB.
    end: u32,
}

/// A ring of records, each with a tag and a content.
#[derive(Debug)]
pub struct Ring {
    records: VecDeque<Record>,
    bytes: VecDeque<u8>,
    /// Where the content of the first record begins, counted as in [`Record::end`].
    start: u32,
    first: u64,
    limits: Limits,
}

impl Ring {
    /// An empty ring whose first record gets the number `first`; up to `first` records can be put in front of it later.
    pub fn new(limits: Limits, first: u64) -> Self {
        Self { records: VecDeque::new(), bytes: VecDeque::new(), start: 0, first, limits }
    }

    /// The number of the oldest record; that of the next one if the ring is empty.
    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// Appends a record and drops the oldest ones as necessary.
    pub fn push(&mut self, tag: u8, content: &[u8]) {
        let has_space = |ring: &Self| {
            ring.records.len() < ring.limits.records && ring.bytes.len() + content.len() <= ring.limits.bytes
        };
        while !self.records.is_empty() && !has_space(self) {
            self.drop_oldest();
        }
        self.reserve(content.len());
        self.bytes.extend(content);
        let end = self.start.wrapping_add(wrapped_length(self.bytes.len()));
        self.records.push_back(Record { tag, end });
    }

    /// Prepends a record. False, without effect, if there is no space or no number for it.
    pub fn push_front(&mut self, tag: u8, content: &[u8]) -> bool {
        let has_space =
            self.records.len() < self.limits.records && self.bytes.len() + content.len() <= self.limits.bytes;
        if !has_space || self.first == 0 {
            return false;
        }
        self.reserve(content.len());
        self.records.push_front(Record { tag, end: self.start });
        self.bytes.extend(content);
        self.bytes.rotate_right(content.len());
        self.start = self.start.wrapping_sub(wrapped_length(content.len()));
        self.first -= 1;
        true
    }

    /// Tag and content of the record with this number.
    pub fn get(&self, number: u64) -> Option<(u8, Vec<u8>)> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let record = self.records.get(at)?;
        let begin = at.checked_sub(1).map_or(self.start, |before| self.records[before].end);
        let from = begin.wrapping_sub(self.start) as usize;
        let length = record.end.wrapping_sub(begin) as usize;
        Some((record.tag, self.copy(from, length)))
    }

    /// Reserves memory for one more record. It grows by a quarter instead of doubling, because every agent has a ring.
    fn reserve(&mut self, bytes: usize) {
        if self.records.len() == self.records.capacity() {
            self.records.reserve_exact(self.records.len() / 4 + 4);
        }
        if self.bytes.len() + bytes > self.bytes.capacity() {
            self.bytes.reserve_exact(bytes.max(self.bytes.len() / 4 + 64));
        }
    }

    fn copy(&self, from: usize, length: usize) -> Vec<u8> {
        let (front, back) = self.bytes.as_slices();
        let mut content = Vec::with_capacity(length);
        let in_front = &front[from.min(front.len())..(from + length).min(front.len())];
        content.extend_from_slice(in_front);
        let from_back = (from + in_front.len()).saturating_sub(front.len());
        content.extend_from_slice(&back[from_back..from_back + length - in_front.len()]);
        content
    }

    fn drop_oldest(&mut self) {
        let Some(record) = self.records.pop_front() else { return };
        self.bytes.drain(..record.end.wrapping_sub(self.start) as usize);
        self.start = record.end;
        self.first += 1;
    }
}

/// A length as it is counted in [`Record::end`].
fn wrapped_length(length: usize) -> u32 {
    (length as u64 & u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(records: usize, bytes: usize) -> Ring {
        Ring::new(Limits { records, bytes }, 100)
    }

    fn contents(ring: &Ring) -> Vec<(u64, u8, Vec<u8>)> {
        (ring.first()..ring.next())
            .map(|number| (number, ring.get(number).unwrap()))
            .map(|(n, (t, c))| (n, t, c))
            .collect()
    }

    #[test]
    fn at_the_limit_nothing_goes_and_one_more_drops_the_oldest() {
        let mut ring = ring(3, 100);
        for tag in 0..3 {
            ring.push(tag, &[tag; 4]);
        }
        assert_eq!(ring.first(), 100);
        ring.push(3, b"new");
        assert_eq!((ring.first(), ring.next()), (101, 104));
        assert_eq!(ring.get(100), None);
        assert_eq!(ring.get(101), Some((1, vec![1; 4])));
        assert_eq!(ring.get(103), Some((3, b"new".to_vec())));
        assert_eq!(ring.get(104), None);
    }

    #[test]
    fn bytes_are_counted_to_the_last_one_and_the_newest_always_stays() {
        let mut ring = ring(100, 10);
        ring.push(0, &[0; 6]);
        ring.push(1, &[1; 4]);
        assert_eq!((ring.first(), ring.bytes.len()), (100, 10));
        ring.push(2, &[2; 1]);
        assert_eq!((ring.first(), ring.bytes.len()), (101, 5));
        ring.push(3, &[3; 50]);
        assert_eq!(contents(&ring), [(103, 3, vec![3; 50])]);
        ring.push(4, b"");
        assert_eq!(contents(&ring), [(104, 4, vec![])]);
    }

    #[test]
    fn what_is_put_in_front_has_the_numbers_before_as_far_as_there_is_room() {
        let mut ring = ring(4, 10);
        ring.push(9, b"now");
        assert!(ring.push_front(8, b"before"));
        assert!(!ring.push_front(7, b"too much"));
        assert!(ring.push_front(7, b"1"));
        assert_eq!(contents(&ring), [(98, 7, b"1".to_vec()), (99, 8, b"before".to_vec()), (100, 9, b"now".to_vec())]);
        let mut ring = Ring::new(Limits { records: 4, bytes: 10 }, 0);
        assert!(!ring.push_front(0, b""), "there is no number before 0");
    }

    #[test]
    fn memory_is_at_most_a_quarter_more_than_what_is_kept() {
        let mut ring = ring(10_000, 10_000_000);
        for _ in 0..9_000 {
            ring.push(1, b"a few bytes");
            assert!(ring.bytes.capacity() <= ring.bytes.len() * 5 / 4 + 64, "{}", ring.bytes.len());
            assert!(ring.records.capacity() <= ring.records.len() * 5 / 4 + 4, "{}", ring.records.len());
        }
    }

    #[test]
    fn contents_are_whole_wherever_the_ring_wraps() {
        let mut ring = ring(50, 700);
        let content = |n: u64| (0..n % 41).map(|at| (n + at) as u8).collect::<Vec<u8>>();
        for n in 100..5_000 {
            ring.push((n % 251) as u8, &content(n));
            assert_eq!(ring.next(), n + 1);
            for number in ring.first()..ring.next() {
                assert_eq!(ring.get(number), Some(((number % 251) as u8, content(number))));
            }
        }
    }
}
