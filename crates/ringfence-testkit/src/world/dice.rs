//! SplitMix64: a small generator with the same numbers on every platform.

/// Pseudo-random numbers that depend only on the seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x5eed_0000_0000_0000)
    }

    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound.max(1)
    }

    /// Returns a random index below `length`. Returns `None` if `length` is 0.
    pub fn pick(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.below(length as u64) as usize)
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let words = (0..count.div_ceil(8)).flat_map(|_| self.any().to_le_bytes());
        words.take(count).collect()
    }

    /// Returns a size below 16 KiB, a multiple of 4 bytes. Each interval between powers of two is equally likely.
    pub fn size(&mut self) -> usize {
        let scale = 64 << self.below(8);
        ((scale + self.below(scale)) / 4 * 4) as usize
    }
}
