//! A map from constants that were copied in this frame to their copies, so that equal constants share one copy.
//!
//! ```text
//!   content ──hash──▶ index ──▶ entry { its range in `bytes`, its value } ──all bytes equal?──▶ found
//! ```
//!
//! A lookup compares the whole content, not only its hash. Finding and adding cost O(bytes), expected. Host memory is
//! kept from frame to frame.

use nohash_hasher::IntMap;

/// A map from contents to values.
pub(super) struct Shares<T> {
    /// Contents of all entries, concatenated.
    bytes: Vec<u8>,
    entries: Vec<Entry<T>>,
    /// The latest entry of each hash. If two contents have the same hash, the earlier one is no longer found.
    index: IntMap<u64, u32>,
}

struct Entry<T> {
    first: usize,
    size: usize,
    made: T,
}

impl<T> Shares<T> {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), entries: Vec::new(), index: IntMap::default() }
    }

    /// Returns the value of an equal content, if `fits` accepts the value.
    pub(super) fn find(&self, hash: u64, content: &[u8], fits: impl FnOnce(&T) -> bool) -> Option<&T> {
        let entry = &self.entries[*self.index.get(&hash)? as usize];
        (self.bytes[entry.first..][..entry.size] == *content && fits(&entry.made)).then_some(&entry.made)
    }

    pub(super) fn insert(&mut self, hash: u64, content: &[u8], made: T) {
        let entry = Entry { first: self.bytes.len(), size: content.len(), made };
        self.bytes.extend_from_slice(content);
        let number = self.entries.len() as u32;
        self.entries.push(entry);
        self.index.insert(hash, number);
    }

    /// Removes all entries and keeps the host memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.index.clear();
    }
}

/// Returns a hash of the bytes. Reads eight bytes at a time. Not resistant to chosen collisions: a collision costs a
/// copy, not correctness, because a lookup compares the content.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let mut hash = fold(MULTIPLIER, bytes.len() as u64);
    let words = bytes.chunks_exact(8);
    let mut rest = [0; 8];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    for word in words {
        hash = fold(hash.rotate_left(23), u64::from_le_bytes(word.try_into().expect("eight bytes")));
    }
    fold(hash, u64::from_le_bytes(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn equal_content_is_found_and_no_other() {
        let mut shares = Shares::new();
        let contents: Vec<Vec<u8>> =
            (0..200_u32).map(|number| number.to_le_bytes().repeat(1 + number as usize % 9)).collect();
        for (number, content) in contents.iter().enumerate() {
            assert!(shares.find(hash(content), content, |_| true).is_none());
            shares.insert(hash(content), content, number);
        }
        for (number, content) in contents.iter().enumerate() {
            assert_eq!(shares.find(hash(content), content, |_| true), Some(&number));
            assert!(shares.find(hash(content), content, |_| false).is_none(), "found, but `fits` refuses it");
            assert!(shares.find(hash(content), &content[1..], |_| true).is_none(), "same hash, other content");
        }
        shares.clear();
        assert!(shares.find(hash(&contents[3]), &contents[3], |_| true).is_none());
    }

    #[test]
    fn one_bit_changes_the_hash() {
        let mut seen = HashSet::new();
        for size in [1, 7, 8, 9, 64, 256] {
            assert!(seen.insert(hash(&vec![0; size])), "{size} bytes of 0");
            for bit in 0..size * 8 {
                let mut bytes = vec![0; size];
                bytes[bit / 8] = 1 << (bit % 8);
                assert!(seen.insert(hash(&bytes)), "bit {bit} of {size} bytes");
            }
        }
    }
}
