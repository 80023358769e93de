//! The driver's out-of-memory errors, remembered to avoid calls that would fail again.
//!
//! ```text
//!   the driver is out of memory ──▶ a note: memory type, kind of object, bytes, and the heap's epoch before the call
//!   a later request of as many bytes or more, in the same epoch ──▶ refused without a call
//!   an object of the heap is freed or evicted, or the driver reports more left ──▶ the next epoch: notes expire
//!
//!   a trim that released nothing ──▶ a note of `trim_mark`, a hash of the counters of released objects
//!   the same `trim_mark` ──▶ no further trim
//! ```
//!
//! A note saves driver calls, but never fails a request: if a request fails and one of its steps was skipped because of
//! a note, the request starts again and ignores the notes. An epoch has 16 bits, so after 65,536 epochs an old note may
//! apply again. Each operation is a few atomic accesses without a lock; [`Refusals::forget_all`] is O(heaps).

use std::sync::atomic::{AtomicU64, Ordering};

/// The purpose of a memory object. A driver may refuse one kind but grant the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// A block.
    Block,
    /// Dedicated memory.
    Dedicated,
}

/// Number of low bits of a note that contain the bytes; the bits above them contain the epoch.
const BYTES_BITS: u32 = 48;
const BYTES: u64 = (1 << BYTES_BITS) - 1;

#[derive(Default)]
struct HeapMarks {
    epoch: AtomicU64,
    /// Value of `trim_mark` before the last trim that released nothing; 0 if there was none.
    trimmed_at: AtomicU64,
}

/// The refusals of all memory types, and the epochs of all heaps.
pub struct Refusals {
    /// The smallest refused size in bytes, with its epoch, by memory type and kind.
    notes: Box<[[AtomicU64; 2]]>,
    /// By heap; the last entry is for trims of all heaps.
    heaps: Box<[HeapMarks]>,
}

impl Refusals {
    /// Creates an empty list of refusals for a device.
    #[must_use]
    pub fn new(memory_types: usize, heaps: usize) -> Self {
        let none = || AtomicU64::new(BYTES);
        Self {
            notes: (0..memory_types).map(|_| [none(), none()]).collect(),
            heaps: (0..=heaps).map(|_| HeapMarks::default()).collect(),
        }
    }

    /// Returns the heap's epoch: a number that changes when more memory of the heap may be free. It must be read before
    /// a driver call.
    pub fn epoch(&self, heap: u32) -> u64 {
        self.heaps[heap as usize].epoch.load(Ordering::SeqCst)
    }

    /// Returns `true` if the driver refused an object of this memory type and kind with at most `bytes` in this epoch.
    pub fn covers(&self, memory_type: u32, kind: ObjectKind, bytes: u64, epoch: u64) -> bool {
        let note = self.notes[memory_type as usize][kind as usize].load(Ordering::Relaxed);
        note >> BYTES_BITS == short(epoch) && bytes >= note & BYTES
    }

    /// Records that the driver refused `bytes`. `epoch` must have been read before the driver call.
    pub fn note(&self, memory_type: u32, kind: ObjectKind, bytes: u64, epoch: u64) {
        let (epoch, bytes) = (short(epoch), bytes.min(BYTES));
        let with = |note: u64| {
            let least = if note >> BYTES_BITS == epoch { bytes.min(note & BYTES) } else { bytes };
            Some(epoch << BYTES_BITS | least)
        };
        _ = self.notes[memory_type as usize][kind as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
    }

    /// Begins a new epoch of a heap, because the heap may have more memory left.
    pub fn forget(&self, heap: u32) {
        self.heaps[heap as usize].epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Begins a new epoch of every heap.
    pub fn forget_all(&self) {
        self.heaps.iter().for_each(|heap| _ = heap.epoch.fetch_add(1, Ordering::SeqCst));
    }

    /// Returns `true` if the last trim that released nothing began at this `trim_mark`, a hash of the counters of
    /// released objects. `heap` is `None` for trims of all heaps.
    pub fn was_trimmed(&self, heap: Option<u32>, mark: u64) -> bool {
        self.marks(heap).trimmed_at.load(Ordering::Relaxed) == mark
    }

    /// Records that a trim has released nothing. `mark` must be the `trim_mark` before the trim. `heap` is `None` for
    /// trims of all heaps.
    pub fn note_trimmed(&self, heap: Option<u32>, mark: u64) {
        self.marks(heap).trimmed_at.store(mark, Ordering::Relaxed);
    }

    fn marks(&self, heap: Option<u32>) -> &HeapMarks {
        &self.heaps[heap.map_or(self.heaps.len() - 1, |heap| heap as usize)]
    }
}

const fn short(epoch: u64) -> u64 {
    epoch & (u64::MAX >> BYTES_BITS)
}

#[cfg(test)]
mod tests;
