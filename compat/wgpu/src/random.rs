//! Pseudorandom numbers that are the same in each run.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns a number in `low..high`; every power of two is equally likely.
    pub fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        let powers = u64::from(high.ilog2() - low.ilog2());
        let least = low << self.below(powers);
        least + self.below(least)
    }
}

/// Returns `count` bytes that depend only on `seed`.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut bytes = Vec::with_capacity(count.next_multiple_of(8));
    while bytes.len() < count {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// Adds bytes to a running digest: FNV-1a over words of eight bytes.
pub fn digest(so_far: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(so_far, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3)
    })
}
