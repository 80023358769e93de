//! Numbers by chance, the same for the same seed.
//!
//! ```text
//!   seed ──▶ xorshift ──▶ 53 bits ──▶ 0 ≤ number < 1
//! ```
//!
//! O(1) each, no state but one word.

/// The state, which is not 0.
pub(super) struct Random(pub u64);

impl Random {
    /// From 0 to below 1.
    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
