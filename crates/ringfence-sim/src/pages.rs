//! Copies and fills of sparse buffers. They are split into parts; each part uses only one page of each buffer. An
//! invalid part is skipped, the others are executed.
//!
//! ```text
//!   buffer #9, pages   │ memory 3 + 64 Ki │ none │ memory 3 │
//!   a copy of 100 KiB at 32 KiB ──▶ one part per page ──▶ steps over addresses, like other copies
//! ```
//!
//! Pages are resolved at submission, because the binds of the pages were submitted before the work. The resulting
//! addresses stay in the steps if a page is unbound later. If the memory of the page is reused too early, this is
//! detected.

use super::command::BufferRange;
use super::state::State;
use super::step::{Step, Uses};
use ringfence_hal::sparse::UnboundReads;

impl State {
    /// Returns the steps of a copy. Writes to an unbound page have no effect. Reads from an unbound page return zeros,
    /// or poison if the device has undefined reads.
    pub(super) fn copy_steps(&mut self, src: BufferRange, dst: BufferRange, uses: &mut Uses) -> Vec<Step> {
        let mut steps = Vec::new();
        for (at, size) in self.parts(&[src, dst]) {
            let [src, dst] = [src, dst].map(|range| BufferRange::new(range.buffer, range.offset + at, size));
            steps.extend(if self.is_unbound(src) {
                let zero = self.profile.sparse == Some(UnboundReads::Zero);
                self.fill_step(dst, if zero { 0 } else { self.poison }, uses)
            } else if self.is_unbound(dst) {
                None
            } else {
                self.copy_step(src, dst, uses)
            });
        }
        steps
    }

    /// Returns the steps of a fill.
    pub(super) fn fill_steps(&mut self, dst: BufferRange, value: u8, uses: &mut Uses) -> Vec<Step> {
        let parts = self.parts(&[dst]).into_iter();
        let part = |(at, size)| BufferRange::new(dst.buffer, dst.offset + at, size);
        parts.filter_map(|found| self.fill_step(part(found), value, uses)).collect()
    }

    /// Returns the steps of a fill with words. Pages end at multiples of a word.
    pub(super) fn word_steps(&mut self, dst: BufferRange, value: u32, uses: &mut Uses) -> Vec<Step> {
        let parts = self.parts(&[dst]).into_iter();
        let part = |(at, size)| BufferRange::new(dst.buffer, dst.offset + at, size);
        parts.filter_map(|found| self.word_step(part(found), value, uses)).collect()
    }

    /// Splits ranges of equal size into parts, so that each part uses only one page of each buffer. Returns the offset
    /// of each part in the ranges, and its size.
    fn parts(&self, ranges: &[BufferRange]) -> Vec<(u64, u64)> {
        let page_bytes = self.profile.page_bytes;
        let (mut at, mut found) = (0, Vec::new());
        loop {
            let left = ranges.iter().map(|range| {
                let left = range.size - at;
                let is_sparse = self.is_sparse(range.buffer.0);
                if is_sparse { left.min(page_bytes - (range.offset + at) % page_bytes) } else { left }
            });
            let size = left.min().unwrap_or(0);
            found.push((at, size));
            at += size;
            if ranges.iter().all(|range| range.size <= at) {
                return found;
            }
        }
    }
}
