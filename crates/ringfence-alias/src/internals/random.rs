//! Pseudo-random numbers, the same for the same seed.
//!
//! ```text
//!   seed ──▶ xorshift ──▶ 53 bits ──▶ 0 ≤ number < 1
//! ```
//!
//! O(1) per number; the state is one word.

/// The state, which must not be 0.
pub struct Random(pub u64);

#[allow(clippy::should_implement_trait, reason = "the numbers do not end, so there is no `Option`")]
impl Random {
    /// Returns the next number, from 0 to below 1.
    #[inline]
    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
