//! Size classes of the blocks of pools.
//!
//! ```text
//!   256  384  512  768  1 Ki  1.5 Ki  …  32 Ki  48 Ki │ 64 Ki   128 Ki   192 Ki   256 Ki  …
//!   ├──────── powers of two and 1.5 times those ─────────────┤├──── multiples of `step` ───────
//!   least                                                step
//! ```
//!
//! A class is a *size*, not the logarithm of a size. 128 KiB and 192 KiB are two classes; if the class were the
//! logarithm to base 2, the two would be one class, and blocks of 192 KiB would overlap. A class is also a multiple of
//! the alignment, so every block of a pool is aligned if its heap is aligned. For the classes of 64 KiB
//! ([`SizeClasses::COARSE`]), it is not enough to round max(size, alignment) up to a multiple of 64 KiB: with a class
//! of 192 KiB, the second block would not be aligned to 128 KiB. If the alignment is at most 64 KiB, this rounding
//! gives the class.
//!
//! If the alignment is small, rounding wastes less than a third of a block between `least` and `step`, and less than
//! `step` units above `step`. All functions are O(1).

use crate::range::{AllocError, align_up};

/// Rule by which sizes are rounded up to the block sizes of pools.
///
/// ```
/// # use ringfence_core::size_class::SizeClasses;
/// assert_eq!(SizeClasses::COARSE.class(1, 1), Ok(64 << 10));
/// assert_eq!(SizeClasses::FINE.class(1000, 16), Ok(1024));
/// assert_eq!(SizeClasses::FINE.class(1100, 16), Ok(1536));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SizeClasses {
    /// The smallest class: a power of two, at most `step`.
    least: u64,
    /// Distance between classes from `step` on: a power of two.
    step: u64,
}

impl SizeClasses {
    /// Multiples of 64 Ki. There are few classes, so a program needs few pools.
    pub const COARSE: Self = Self::new(64 << 10, 64 << 10);
    /// From 256 to 64 Ki, powers of two and 1.5 times powers of two; above, multiples of 64 Ki.
    pub const FINE: Self = Self::new(256, 64 << 10);

    /// Creates classes of at least `least`: below `step`, powers of two and 1.5 times powers of two; from `step` on,
    /// multiples of `step`. If `least` equals `step`, there are only multiples.
    ///
    /// # Panics
    /// If `least` or `step` is not a power of two, or `least` exceeds `step`.
    #[must_use]
    pub const fn new(least: u64, step: u64) -> Self {
        assert!(least.is_power_of_two() && step.is_power_of_two(), "`least` and `step` must be powers of two");
        assert!(least <= step, "`least` must not exceed `step`");
        Self { least, step }
    }

    /// Returns the smallest class that is at least `size` and a multiple of `alignment`.
    ///
    /// # Errors
    /// The size is 0, the alignment is not a power of two, or the class exceeds `u64::MAX`.
    pub const fn class(self, size: u64, alignment: u64) -> Result<u64, AllocError> {
        if size == 0 {
            return Err(AllocError::ZeroSize);
        }
        if !alignment.is_power_of_two() {
            return Err(AllocError::BadAlignment { alignment });
        }
        let need = if size > alignment { size } else { alignment };
        if need <= self.step / 4 * 3 {
            return Ok(self.fine_class(need, alignment));
        }
        let step = if alignment > self.step { alignment } else { self.step };
        match align_up(need, step) {
            Some(class) => Ok(class),
            None => Err(AllocError::TooLarge { size, capacity: u64::MAX }),
        }
    }

    /// Returns the class for `need` units. `need` is at least the alignment and at most 3/4 of `step`.
    const fn fine_class(self, need: u64, alignment: u64) -> u64 {
        let power = need.next_power_of_two();
        if power <= self.least {
            return self.least;
        }
        let between = power / 4 * 3;
        let fits = need <= between && between.is_multiple_of(alignment);
        if fits { between } else { power }
    }
}

/// Returns the block size for a request in pools of [`SizeClasses::COARSE`]: max(`size`, `alignment`) rounded up to a
/// multiple of 64 KiB and of `alignment`.
///
/// # Errors
/// The errors of [`SizeClasses::class`].
pub const fn size_class(size: u64, alignment: u64) -> Result<u64, AllocError> {
    SizeClasses::COARSE.class(size, alignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn seed_003_03_blocks_are_rounded_to_64_kib() {
        for (size, alignment, class) in [
            (1, 1, 64),
            (64 * KIB, 1, 64),
            (64 * KIB + 1, 1, 128),
            (1, 64 * KIB, 64),
            (1, 128 * KIB, 128),
            (129 * KIB, 256, 192),
            (1 << 30, 4, 1 << 20),
        ] {
            assert_eq!(size_class(size, alignment), Ok(class * KIB), "{size} aligned to {alignment}");
        }
    }

    #[test]
    fn fault_11_192_kib_and_128_kib_are_two_classes() {
        let (smaller, larger) = (size_class(128 * KIB, 256).unwrap(), size_class(192 * KIB, 256).unwrap());
        assert_eq!(smaller.ilog2(), larger.ilog2(), "a key of logarithms would merge them");
        assert_eq!((smaller, larger), (128 * KIB, 192 * KIB));
    }

    #[test]
    fn fault_11_every_block_of_a_pool_is_aligned() {
        assert_eq!(size_class(192 * KIB, 128 * KIB), Ok(256 * KIB), "not 192: its second block would not be aligned");
        assert_eq!(SizeClasses::FINE.class(300, 256), Ok(512), "not 384");
        assert_eq!(SizeClasses::FINE.class(300, 128), Ok(384));
    }

    #[test]
    fn fault_11_device_local_64_kib_and_128_kib_have_two_keys() {
        // With VK_MAX_MEMORY_TYPES = 32, the class overwrites the properties.
        let printed = |block: u64, properties: u64| (u64::from(block.ilog2()) << 32) | (properties << 32);
        assert_eq!(printed(64 * KIB, 1), printed(128 * KIB, 1), "16 and 17 differ in the bit of device-local");
        // A size is its own class, and the key has no other packed value.
        for (size, next) in [(64 * KIB, 128 * KIB), (128 * KIB, 192 * KIB), (192 * KIB, 256 * KIB)] {
            assert_eq!((size_class(size, 256), size_class(size + 1, 256)), (Ok(size), Ok(next)));
        }
    }

    /// Iterates over all classes in ascending order.
    fn all(classes: SizeClasses) -> impl Iterator<Item = u64> {
        let powers = (0..64).map(|log2| 1 << log2).filter(move |power| (classes.least..classes.step).contains(power));
        let fine = powers.flat_map(|power: u64| [power, power / 2 * 3]);
        fine.chain((1..).map(move |times| times * classes.step))
    }

    #[test]
    fn a_class_is_the_least_that_holds_and_aligns() {
        for classes in [SizeClasses::FINE, SizeClasses::COARSE, SizeClasses::new(16, 64), SizeClasses::new(2, 2)] {
            for size in (1..3000).chain((3..400).map(|part| part * 997)) {
                for alignment in [1, 2, 16, 128, 256, 1024, 64 * KIB, 256 * KIB] {
                    let naive = all(classes).find(|class| *class >= size && class % alignment == 0);
                    assert_eq!(classes.class(size, alignment).ok(), naive, "{size}, {alignment}, {classes:?}");
                }
            }
        }
    }

    #[test]
    fn bad_requests_are_named() {
        assert_eq!(size_class(0, 1), Err(AllocError::ZeroSize));
        assert_eq!(size_class(1, 3), Err(AllocError::BadAlignment { alignment: 3 }));
        assert_eq!(size_class(1, 0), Err(AllocError::BadAlignment { alignment: 0 }));
        assert_eq!(size_class(u64::MAX, 1), Err(AllocError::TooLarge { size: u64::MAX, capacity: u64::MAX }));
        assert_eq!(size_class(1, 1 << 63), Ok(1 << 63));
    }
}
