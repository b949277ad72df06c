//! Repeatable chance: the same seed gives the same run.

use std::collections::VecDeque;

/// A generator of numbers (SplitMix64, Steele, Lea and Flood 2014), or numbers that are given.
#[derive(Clone)]
pub struct Chance {
    state: u64,
    given: Option<VecDeque<u8>>,
}

impl Chance {
    /// The generator that begins with this seed.
    pub fn new(seed: u64) -> Chance {
        Chance { state: seed, given: None }
    }

    /// Numbers made of these bytes, as few as possible each; 0 behind their end.
    pub fn given(bytes: &[u8]) -> Chance {
        Chance { state: 0, given: Some(bytes.iter().copied().collect()) }
    }

    /// A seed that no run before had.
    pub fn fresh_seed() -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Chance::new(now.map_or(0, |since| since.as_nanos() as u64)).next() % 1_000_000_000
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        if self.given.is_some() {
            return self.take(8);
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = limit.max(1) as u64;
        let number = match (&self.given, limit) {
            (None, _) => self.next(),
            (Some(_), ..=0x100) => self.take(1),
            (Some(_), ..=0x1_0000) => self.take(2),
            (Some(_), _) => self.take(4),
        };
        (number % limit) as usize
    }

    fn take(&mut self, count: usize) -> u64 {
        let given = self.given.iter_mut().flat_map(|bytes| bytes.drain(..count.min(bytes.len())));
        given.fold(0, |number, byte| number << 8 | u64::from(byte))
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Up to `limit` bytes of anything.
    pub fn bytes(&mut self, limit: usize) -> Vec<u8> {
        (0..self.below(limit + 1)).map(|_| self.next() as u8).collect()
    }

    /// The bytes with a few of them changed, lost, doubled or strangers among them.
    pub fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut changed = bytes.to_vec();
        for _ in 0..=self.below(8) {
            let at = self.below(changed.len() + 1);
            match self.below(5) {
                0 => changed.insert(at, self.next() as u8),
                1 if at < changed.len() => changed[at] = self.next() as u8,
                2 if at < changed.len() => changed[at] ^= 1 << self.below(8),
                3 => drop(changed.drain(at..(at + self.below(40)).min(changed.len()))),
                _ => {
                    let piece = changed[at..(at + self.below(200)).min(changed.len())].to_vec();
                    let to = self.below(changed.len() + 1);
                    changed.splice(to..to, piece);
                }
            }
        }
        changed
    }

    /// Where to cut something of this length: pieces that are together the whole.
    pub fn cuts<'a>(&mut self, whole: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        let mut rest = whole;
        while !rest.is_empty() {
            let most = if self.once_in(3) { 4 } else { rest.len() };
            let (piece, later) = rest.split_at((1 + self.below(most)).min(rest.len()));
            pieces.push(piece);
            rest = later;
        }
        pieces
    }

    /// Text of characters that are known to cause bugs: wide, joined, combining, invisible, controls.
    pub fn text(&mut self, limit: usize) -> String {
        const ODD: &[&str] = &[
            " ",
            "  ",
            "\n",
            "\t",
            "\r",
            "a",
            "word",
            "é",
            "e\u{301}",
            "語",
            "한",
            "👨‍👩‍👧",
            "🇩🇪",
            "\u{200d}",
            "\u{fe0f}",
            "❤️",
            "\u{202e}",
            "\u{1b}[2J",
            "\u{1b}]52;c;eA==\u{7}",
            "\u{9b}1m",
            "\u{7f}",
            "\0",
            "\u{f0000}",
            "\u{ffff}",
            "नि",
            "ﷺ",
            "\u{301}",
            "\u{ad}",
            "\u{2028}",
            "0123456789",
            "/fork",
            "--name",
        ];
        let mut text = String::new();
        for _ in 0..self.below(limit + 1) {
            match self.below(8) {
                0 => text.extend(char::from_u32(self.next() as u32 % 0x11_0000)),
                _ => text.push_str(self.of(ODD)),
            }
        }
        text
    }
}
