//! Size classes: the sizes from one power of two to the next form 32 classes; each size below 32 has its own class.
//!
//! ```text
//!   size    0 1 2 … 31 │ 32 33 … 63 │ 64 66 68 … 126 │ 128 132 136 … 252 │ …     smallest size of each class
//!   class   0 1 2 … 31 │ 32 33 … 63 │ 64 65 66 …  95 │  96  97  98 … 127 │ …
//! ```
//!
//! Each function is O(1).

/// The sizes from one power of two to the next form `1 << SECOND_LOG2` classes.
pub(super) const SECOND_LOG2: u32 = 5;

/// Returns the number of low bits of `size` that may differ between sizes of the same class.
#[inline(always)]
pub(super) const fn open_bits(size: u64) -> u32 {
    (size | 1 << SECOND_LOG2).ilog2() - SECOND_LOG2
}

/// Returns the class of a span of `size` units.
#[inline(always)]
pub(crate) const fn class_of(size: u64) -> u32 {
    let open = open_bits(size);
    (open << SECOND_LOG2) + (size >> open) as u32
}

/// Returns the lowest class in which all spans have at least `size` units. `size` must not be 0.
#[inline(always)]
pub(crate) const fn fitting_class_of(size: u64) -> u32 {
    class_of(size - 1) + 1
}

/// Returns the smallest size of a class. Returns `u64::MAX` if no size has this class.
pub(crate) const fn least_of(class: u32) -> u64 {
    let (step, magnitude) = (class as u64 & 31, class >> SECOND_LOG2);
    if magnitude == 0 {
        return step;
    }
    let least = (step + 32) << ((magnitude - 1) % 64);
    if class > class_of(u64::MAX) { u64::MAX } else { least }
}

/// Rounds `size` up to the smallest size of the class `fitting_class_of(size)`. `size` must be below 2⁶³.
#[inline(always)]
pub(super) const fn rounded_up(size: u64) -> u64 {
    let open = (1 << open_bits(size)) - 1;
    (size + open) & !open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_the_sizes_from_their_least_to_the_next_least() {
        let last = class_of(u64::MAX);
        for class in 1..=last {
            let least = least_of(class);
            assert_eq!((class_of(least), fitting_class_of(least)), (class, class));
            assert_eq!(class_of(least - 1), class - 1);
            let one_size_wide = least - least_of(class - 1) == 1;
            if least > 1 {
                assert_eq!(fitting_class_of(least - 1), if one_size_wide { class - 1 } else { class });
            }
        }
        assert_eq!((class_of(0), fitting_class_of(u64::MAX)), (0, last + 1));
    }
}
