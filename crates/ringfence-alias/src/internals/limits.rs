//! Limits of the items, and the checks that every problem begins with. O(n).

use super::shape::RELATION_BYTES_MAX;
use crate::item::{Item, ItemError};

/// Largest sum of sizes and alignments, half of the range of 64 bits, so that no sum of two offsets can overflow.
pub const SUM_MAX: u64 = i64::MAX as u64;

/// Returns an error if a relation of `count` items needs more than [`RELATION_BYTES_MAX`].
pub fn check_relation(count: usize, bytes: u64) -> Result<(), ItemError> {
    let bytes_max = RELATION_BYTES_MAX;
    if bytes > bytes_max { Err(ItemError::RelationTooLarge { count, bytes, bytes_max }) } else { Ok(()) }
}

/// Checks the number of items, their sizes and their alignments. O(n).
pub fn check_sizes(items: impl ExactSizeIterator<Item = (u64, u64)>) -> Result<(), ItemError> {
    let count = items.len();
    if u32::try_from(count).is_err() {
        return Err(ItemError::TooMany { count });
    }
    let mut sum = 0_u64;
    for (index, (size, alignment)) in items.enumerate() {
        if size == 0 {
            return Err(ItemError::ZeroSize { index });
        }
        if !alignment.is_power_of_two() {
            return Err(ItemError::BadAlignment { index, alignment });
        }
        // The padding before an item is less than its alignment.
        let grown = sum.checked_add(size).and_then(|sum| sum.checked_add(alignment));
        sum = grown.filter(|&sum| sum <= SUM_MAX).ok_or(ItemError::Overflow { index })?;
    }
    Ok(())
}

/// Checks the lifetimes. O(n).
pub fn check_lifetimes(items: &[Item]) -> Result<(), ItemError> {
    let bad = |item: &Item| item.lifetime.upper <= item.lifetime.lower;
    match items.iter().position(bad) {
        Some(index) => Err(ItemError::EmptyLifetime { index, lifetime: items[index].lifetime }),
        None => Ok(()),
    }
}
