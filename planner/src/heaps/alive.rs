//! The items that are alive at a moment of a sweep over time, by heap and offset.
//!
//! No two of them clash, so an item that begins is only compared with those on its pages.

use super::HeapOffset;
use super::occupied::Flat;
use super::problem::HeapProblem;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Live items by heap and offset.
#[derive(Default)]
pub(super) struct Alive {
    items: BTreeMap<(usize, u64), u32>,
}

impl Alive {
    /// Adds an item that begins and clashes with none.
    pub fn begin(&mut self, item: u32, at: HeapOffset) {
        self.items.insert((at.heap, at.offset), item);
    }

    /// Removes an item that ends, unless it was removed before.
    pub fn end(&mut self, item: u32, at: HeapOffset) {
        let key = (at.heap, at.offset);
        if self.items.get(&key) == Some(&item) {
            self.items.remove(&key);
        }
    }

    /// Returns the items that clash with `item` at `at`. O(items on the pages of `item` + log n).
    pub fn clashing(&self, problem: &HeapProblem, item: usize, at: HeapOffset) -> Vec<(u32, HeapOffset)> {
        let mask = problem.heaps[at.heap].granularity - 1;
        let page = |flat: &Flat, offset: u64| (offset & !mask, (offset + flat.size + mask) & !mask);
        let flat = &problem.flat[item];
        let (from, to) = page(flat, at.offset);
        let mut found = Vec::new();
        for (&(heap, offset), &other) in self.items.range((at.heap, 0)..(at.heap, to)).rev() {
            let held = &problem.flat[other as usize];
            let is_same = held.kind == flat.kind;
            let (low, high) = if is_same { (offset, offset + held.size) } else { page(held, offset) };
            if low < at.offset + flat.size && at.offset < high {
                found.push((other, HeapOffset { heap, offset }));
            } else if offset + held.size <= from {
                // Live items do not overlap, so all items at lower offsets end lower.
                break;
            }
        }
        found
    }
}
