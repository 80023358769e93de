//! The relation of clashing items as the planners use it: for one queue or for several.
//!
//! ```text
//!   one queue: intervals                several queues: a cover by cliques
//!
//!     item ──▶ sections first..last       item ──▶ any sections
//!     clash: the ranges overlap           clash: a bit in a matrix
//! ```
//!
//! Every planner is written once, over [`Shape`], and compiled for both. A *section* is a set of items that all clash
//! with one another; every two items that clash share a section. So an item on top of all items in its sections
//! overlaps none, and the height of a section is at least the sum of its sizes.

use super::sections::{self, Span};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{AddAssign, SubAssign};

/// The relation of clashing items, and its cover by sections.
pub trait Shape {
    /// The data that decides if two items clash, small enough to be stored beside an offset.
    type Key: Copy;

    /// Returns the key of an item.
    fn key(&self, item: usize) -> Self::Key;

    /// Returns `true` if two items must not share bytes. An item clashes with itself.
    fn clash(&self, a: Self::Key, b: Self::Key) -> bool;

    /// Returns `true` if of any two items that do not clash, one ends before the other begins. Returns `false` for
    /// items with several lifetimes, because one item may come between two lifetimes of another.
    fn are_in_turns(&self) -> bool {
        true
    }

    /// Returns the number of sections.
    fn section_count(&self) -> usize;

    /// Returns the sections of an item; at least one.
    fn sections(&self, item: usize) -> impl Iterator<Item = usize> + Clone + use<'_, Self>;

    /// Returns the range from the first section of an item to the last.
    fn hull(&self, item: usize) -> Span;

    /// Returns `true` if the item is in the section.
    fn is_in(&self, item: usize, section: usize) -> bool;

    /// Adds `size` to every section of an item.
    fn add<U: Copy + AddAssign>(&self, item: usize, sums: &mut [U], size: U) {
        self.sections(item).for_each(|section| sums[section] += size);
    }

    /// Subtracts `size` from every section of an item.
    fn take<U: Copy + SubAssign>(&self, item: usize, sums: &mut [U], size: U) {
        self.sections(item).for_each(|section| sums[section] -= size);
    }

    /// Lowers the entry of every section of an item to at most `low`.
    fn lower<U: Copy + Ord>(&self, item: usize, lows: &mut [U], low: U) {
        self.sections(item).for_each(|section| lows[section] = lows[section].min(low));
    }

    /// Returns the sum of the sizes in every section.
    fn loads(&self, sizes: &[u64]) -> Vec<u64> {
        let mut loads = vec![0; self.section_count()];
        for (item, size) in sizes.iter().enumerate() {
            self.sections(item).for_each(|section| loads[section] += size);
        }
        loads
    }
}

/// Lifetimes on one queue.
#[derive(Clone, Debug)]
pub struct Intervals {
    pub spans: Vec<Span>,
    pub section_count: usize,
}

impl Shape for Intervals {
    type Key = Span;

    #[inline]
    fn key(&self, item: usize) -> Span {
        self.spans[item]
    }

    #[inline]
    fn clash(&self, a: Span, b: Span) -> bool {
        a.overlaps(b)
    }

    #[inline]
    fn section_count(&self) -> usize {
        self.section_count
    }

    #[inline]
    fn sections(&self, item: usize) -> impl Iterator<Item = usize> + Clone + use<'_> {
        self.spans[item].range()
    }

    #[inline]
    fn hull(&self, item: usize) -> Span {
        self.spans[item]
    }

    #[inline]
    fn is_in(&self, item: usize, section: usize) -> bool {
        self.spans[item].range().contains(&section)
    }

    // Slices instead of indices: the search spends most of its time in these three functions.
    fn add<U: Copy + AddAssign>(&self, item: usize, sums: &mut [U], size: U) {
        sums[self.spans[item].range()].iter_mut().for_each(|sum| *sum += size);
    }

    fn take<U: Copy + SubAssign>(&self, item: usize, sums: &mut [U], size: U) {
        sums[self.spans[item].range()].iter_mut().for_each(|sum| *sum -= size);
    }

    fn lower<U: Copy + Ord>(&self, item: usize, lows: &mut [U], low: U) {
        lows[self.spans[item].range()].iter_mut().for_each(|least| *least = (*least).min(low));
    }

    fn loads(&self, sizes: &[u64]) -> Vec<u64> {
        sections::loads(&self.spans, sizes, self.section_count)
    }
}

/// Any relation, with its cover by cliques.
#[derive(Clone, Debug)]
pub struct Cliques {
    pub clashes: Bits,
    /// Sections of all items, ascending for each. Those of item i are `lists[starts[i]..starts[i + 1]]`.
    pub lists: Vec<u32>,
    pub starts: Vec<u32>,
    pub section_count: usize,
    /// `true` if items have several lifetimes.
    pub is_recurring: bool,
}

impl Shape for Cliques {
    type Key = u32;

    #[inline]
    fn key(&self, item: usize) -> u32 {
        item as u32
    }

    #[inline]
    fn clash(&self, a: u32, b: u32) -> bool {
        self.clashes.get(a as usize, b as usize)
    }

    #[inline]
    fn are_in_turns(&self) -> bool {
        !self.is_recurring
    }

    #[inline]
    fn section_count(&self) -> usize {
        self.section_count
    }

    #[inline]
    fn sections(&self, item: usize) -> impl Iterator<Item = usize> + Clone + use<'_> {
        let list = self.starts[item] as usize..self.starts[item + 1] as usize;
        self.lists[list].iter().map(|&section| section as usize)
    }

    #[inline]
    fn hull(&self, item: usize) -> Span {
        let list = &self.lists[self.starts[item] as usize..self.starts[item + 1] as usize];
        Span { first: list[0], last: list[list.len() - 1] + 1 }
    }

    #[inline]
    fn is_in(&self, item: usize, section: usize) -> bool {
        self.sections(item).any(|other| other == section)
    }
}

/// Largest host memory of a relation, in bytes: 1 GiB. A larger one is an error.
pub const RELATION_BYTES_MAX: u64 = 1 << 30;

/// A square matrix of bits.
#[derive(Clone, Debug)]
pub struct Bits {
    words: Vec<u64>,
    row_words: usize,
}

impl Bits {
    /// Returns the size of a matrix of `count` rows, in bytes.
    pub fn bytes(count: usize) -> u64 {
        let count = count as u64;
        count.div_ceil(64).saturating_mul(count).saturating_mul(8)
    }

    /// Creates a matrix of `count` rows of `count` bits, all clear.
    pub fn new(count: usize) -> Self {
        let row_words = count.div_ceil(64);
        Self { words: vec![0; row_words * count], row_words }
    }

    #[inline]
    pub fn get(&self, row: usize, column: usize) -> bool {
        self.words[row * self.row_words + column / 64] >> (column % 64) & 1 == 1
    }

    #[inline]
    pub fn set(&mut self, row: usize, column: usize) {
        self.words[row * self.row_words + column / 64] |= 1 << (column % 64);
    }

    #[inline]
    pub fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.row_words..][..self.row_words]
    }

    /// Sets in the row `into` all bits of the row `from`.
    pub fn join(&mut self, into: usize, from: usize) {
        for word in 0..self.row_words {
            self.words[into * self.row_words + word] |= self.words[from * self.row_words + word];
        }
    }
}

/// Returns the indices of the set bits, ascending.
pub fn ones(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(place, &word)| {
        let mut left = word;
        core::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(64 * place + bit)
        })
    })
}
