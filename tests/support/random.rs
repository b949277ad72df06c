//! Random numbers that can be repeated.

/// A small generator (xorshift64*, Vigna 2016), started with a seed.
pub struct Random(pub u64);

impl Random {
    /// A number from 0 up to, but not including, `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}
