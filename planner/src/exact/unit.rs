//! Numbers as small as the sizes allow: sizes divided by their greatest common divisor, in 16 or 32 bits if they fit.

use crate::sizes::Sizes;
use alloc::vec::Vec;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A signed number of grains.
pub(crate) trait Unit:
    Copy + Ord + Add<Output = Self> + Sub<Output = Self> + AddAssign + SubAssign + Default
{
    /// A value above all numbers that occur; the sum of two such values does not overflow.
    const FAR: Self;

    /// Converts from a number that is known to fit.
    fn of(number: u64) -> Self;

    /// Converts a number that is not negative to 64 bits.
    fn get(self) -> u64;

    /// Converts a number of either sign to 64 bits.
    fn signed(self) -> i64;

    /// Rounds up to a multiple of `mask + 1`, a power of two.
    fn up(self, mask: Self) -> Self;

    /// Rounds down to a multiple of `mask + 1`, a power of two.
    fn down(self, mask: Self) -> Self;
}

macro_rules! unit {
    ($int:ty) => {
        impl Unit for $int {
            const FAR: Self = <$int>::MAX / 2;

            fn of(number: u64) -> Self {
                number as Self
            }

            fn get(self) -> u64 {
                self as u64
            }

            fn signed(self) -> i64 {
                self as i64
            }

            fn up(self, mask: Self) -> Self {
                (self + mask) & !mask
            }

            fn down(self, mask: Self) -> Self {
                self & !mask
            }
        }
    };
}

unit!(i16);
unit!(i32);
unit!(i64);

/// Scale of the sizes: all offsets of canonical plans are multiples of `grain`.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub grain: u64,
    /// Size of each item, rounded up to the smallest alignment, in grains.
    pub sizes: Vec<u64>,
    /// Alignment of each item in grains, minus one.
    pub masks: Vec<u64>,
    /// Sum of all sizes and masks.
    pub sum: u64,
}

impl Scale {
    /// Computes the scale. O(n log size).
    pub fn new(sizes: &Sizes) -> Self {
        let least = sizes.alignment.iter().copied().min().unwrap_or(1);
        let most = sizes.alignment.iter().copied().max().unwrap_or(1);
        let padded = sizes.size.iter().map(|size| size.next_multiple_of(least));
        let common = padded.clone().fold(0, gcd).max(1);
        // An alignment that divides every size has no effect. Otherwise offsets are only multiples of its common
        // divisors with the sizes.
        let grain = if common % most == 0 { common } else { gcd(common, most) };
        let scaled: Vec<u64> = padded.map(|size| size / grain).collect();
        let masks: Vec<u64> = sizes.alignment.iter().map(|alignment| (alignment / grain).max(1) - 1).collect();
        let sum = scaled.iter().chain(&masks).sum();
        Self { grain, sizes: scaled, masks, sum }
    }

    /// Returns `true` if the unit can represent every sum of two offsets.
    pub fn fits<U: Unit>(&self) -> bool {
        self.sum < U::FAR.get()
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
