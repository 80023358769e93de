//! Which items may not share bytes, as the planners see it: over one queue, or over several.
//!
//! ```text
//!   one queue: intervals                several queues: a cover by cliques
//!
//!     item ──▶ sections first..last       item ──▶ any sections
//!     clash: the ranges meet              clash: a bit in a matrix
//! ```
//!
//! Every planner is written once, over [`Shape`], and compiled for both. A *section* is a set of items that all clash
//! with one another, and every two that clash share one. So an item that is put upon all that lies in its sections
//! overlaps nothing, and what lies in a section can be no lower than the sum of its sizes.

use super::exact::Unit;
use super::sections::{self, Span};
use alloc::vec;
use alloc::vec::Vec;

/// The relation between items, and its cover by sections.
pub(super) trait Shape {
    /// What decides whether two items clash, small enough to lie beside an offset.
    type Key: Copy;

    /// The key of an item.
    fn key(&self, item: usize) -> Self::Key;

    /// Whether two items may not share bytes. An item clashes with itself.
    fn clash(&self, a: Self::Key, b: Self::Key) -> bool;

    /// Whether of any two items that do not clash one is over before the other begins. Items that are alive several
    /// times are not: one may come between two lives of another.
    fn are_in_turns(&self) -> bool {
        true
    }

    /// How many sections there are.
    fn section_count(&self) -> usize;

    /// The sections of an item; at least one.
    fn sections(&self, item: usize) -> impl Iterator<Item = usize> + Clone + use<'_, Self>;

    /// From the first section of an item to the last.
    fn hull(&self, item: usize) -> Span;

    /// Whether the section is one of the item's.
    fn is_in(&self, item: usize, section: usize) -> bool;

    /// Adds to every section of an item.
    fn add<U: Unit>(&self, item: usize, sums: &mut [U], size: U) {
        self.sections(item).for_each(|section| sums[section] += size);
    }

    /// Takes away from every section of an item.
    fn take<U: Unit>(&self, item: usize, sums: &mut [U], size: U) {
        self.sections(item).for_each(|section| sums[section] -= size);
    }

    /// Lowers every section of an item to `low`.
    fn lower<U: Unit>(&self, item: usize, floors: &mut [U], low: U) {
        self.sections(item).for_each(|section| floors[section] = floors[section].min(low));
    }

    /// The sum of the sizes in every section.
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
pub(super) struct Intervals {
    pub spans: Vec<Span>,
    pub section_count: usize,
}

impl Shape for Intervals {
    type Key = Span;

    fn key(&self, item: usize) -> Span {
        self.spans[item]
    }

    fn clash(&self, a: Span, b: Span) -> bool {
        a.overlaps(b)
    }

    fn section_count(&self) -> usize {
        self.section_count
    }

    fn sections(&self, item: usize) -> impl Iterator<Item = usize> + Clone + use<'_> {
        self.spans[item].range()
    }

    fn hull(&self, item: usize) -> Span {
        self.spans[item]
    }

    fn is_in(&self, item: usize, section: usize) -> bool {
        self.spans[item].range().contains(&section)
    }

    // Slices instead of indices: these three are what the search spends its time in.
    fn add<U: Unit>(&self, item: usize, sums: &mut [U], size: U) {
        sums[self.spans[item].range()].iter_mut().for_each(|sum| *sum += size);
    }

    fn take<U: Unit>(&self, item: usize, sums: &mut [U], size: U) {
        sums[self.spans[item].range()].iter_mut().for_each(|sum| *sum -= size);
    }

    fn lower<U: Unit>(&self, item: usize, floors: &mut [U], low: U) {
        floors[self.spans[item].range()].iter_mut().for_each(|floor| *floor = (*floor).min(low));
    }

    fn loads(&self, sizes: &[u64]) -> Vec<u64> {
        sections::loads(&self.spans, sizes, self.section_count)
    }
}

/// Any relation, with its cover.
#[derive(Clone, Debug)]
pub(super) struct Cliques {
    pub clashes: Bits,
    /// Of item i the sections `lists[starts[i]..starts[i + 1]]`, ascending.
    pub lists: Vec<u32>,
    pub starts: Vec<u32>,
    pub section_count: usize,
    /// Whether items are alive several times.
    pub is_recurring: bool,
}

impl Shape for Cliques {
    type Key = u32;

    fn key(&self, item: usize) -> u32 {
        item as u32
    }

    fn clash(&self, a: u32, b: u32) -> bool {
        self.clashes.get(a as usize, b as usize)
    }

    fn are_in_turns(&self) -> bool {
        !self.is_recurring
    }

    fn section_count(&self) -> usize {
        self.section_count
    }

    fn sections(&self, item: usize) -> impl Iterator<Item = usize> + Clone + use<'_> {
        let list = self.starts[item] as usize..self.starts[item + 1] as usize;
        self.lists[list].iter().map(|&section| section as usize)
    }

    fn hull(&self, item: usize) -> Span {
        let list = &self.lists[self.starts[item] as usize..self.starts[item + 1] as usize];
        Span { first: list[0], last: list[list.len() - 1] + 1 }
    }

    fn is_in(&self, item: usize, section: usize) -> bool {
        self.sections(item).any(|other| other == section)
    }
}

/// The most host memory that a relation may take, in bytes: 1 GiB. More is refused by a typed error.
pub(super) const RELATION_BYTES_MAX: u64 = 1 << 30;

/// A square matrix of bits.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    row_words: usize,
}

impl Bits {
    /// Bytes of a matrix of `count` rows.
    pub fn bytes(count: usize) -> u64 {
        let count = count as u64;
        count.div_ceil(64).saturating_mul(count).saturating_mul(8)
    }

    /// `count` rows of `count` bits, all clear.
    pub fn new(count: usize) -> Self {
        let row_words = count.div_ceil(64);
        Self { words: vec![0; row_words * count], row_words }
    }

    pub fn get(&self, row: usize, column: usize) -> bool {
        self.words[row * self.row_words + column / 64] >> (column % 64) & 1 == 1
    }

    pub fn set(&mut self, row: usize, column: usize) {
        self.words[row * self.row_words + column / 64] |= 1 << (column % 64);
    }

    pub fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.row_words..][..self.row_words]
    }

    /// Sets in the one row whatever is set in the other.
    pub fn join(&mut self, into: usize, from: usize) {
        for word in 0..self.row_words {
            self.words[into * self.row_words + word] |= self.words[from * self.row_words + word];
        }
    }
}

/// The places of the bits that are set, ascending.
pub(super) fn ones(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(place, &word)| {
        let mut left = word;
        core::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(64 * place + bit)
        })
    })
}
