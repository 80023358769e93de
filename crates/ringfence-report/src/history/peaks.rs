//! Maxima of heaps, rings and descriptors at the ends of frames since the last moment. No peak is lost if a moment
//! stands for many frames.

use std::collections::HashMap;

/// A ring in the frames since the previous moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct RingMoment {
    /// Maximum bytes in use at the end of a frame.
    pub used_bytes: u64,
    /// Maximum capacity, in bytes.
    pub capacity_bytes: u64,
}

/// The descriptors of a shader-visible heap, or of an allocator of CPU-only descriptors, since the previous moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct DescriptorMoment {
    /// Maximum number in use at the end of a frame, including those in tables of single frames.
    pub used_count: u64,
    /// Maximum number in use for tables of single frames.
    pub frame_count: u64,
    /// Maximum number of slots.
    pub slot_count: u64,
}

/// A heap in the frames since the previous moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct HeapMoment {
    /// Maximum bytes of ranges at the end of a frame.
    pub used_bytes: u64,
    /// Maximum bytes of memory objects at the end of a frame.
    pub reserved_bytes: u64,
    /// The last budget that the driver reported, in bytes.
    pub budget_bytes: Option<u64>,
}

/// Figures with recorded maxima.
pub(super) trait Most: Copy + Default {
    /// Returns the maximum of each amount of `self` and `other`. Values that are not amounts are taken from `self`, the
    /// later one.
    fn most(self, other: Self) -> Self;
}

impl Most for HeapMoment {
    fn most(self, other: Self) -> Self {
        Self {
            used_bytes: self.used_bytes.max(other.used_bytes),
            reserved_bytes: self.reserved_bytes.max(other.reserved_bytes),
            budget_bytes: self.budget_bytes,
        }
    }
}

impl Most for RingMoment {
    fn most(self, other: Self) -> Self {
        Self {
            used_bytes: self.used_bytes.max(other.used_bytes),
            capacity_bytes: self.capacity_bytes.max(other.capacity_bytes),
        }
    }
}

impl Most for DescriptorMoment {
    fn most(self, other: Self) -> Self {
        Self {
            used_count: self.used_count.max(other.used_count),
            frame_count: self.frame_count.max(other.frame_count),
            slot_count: self.slot_count.max(other.slot_count),
        }
    }
}

/// The current and maximum figures of numbered items while a trace is read.
#[derive(Default)]
pub(super) struct Peaks<M> {
    places: HashMap<u64, usize>,
    now: Vec<M>,
    most: Vec<M>,
}

impl<M: Most> Peaks<M> {
    /// Adds an item with this number. A number that is reused stands for a new item.
    pub(super) fn add(&mut self, number: u64) {
        self.places.insert(number, self.now.len());
        self.now.push(M::default());
        self.most.push(M::default());
    }

    pub(super) fn knows(&self, number: u64) -> bool {
        self.places.contains_key(&number)
    }

    pub(super) fn now(&mut self, number: u64, now: M) {
        if let Some(place) = self.places.get(&number) {
            self.now[*place] = now;
        }
    }

    /// Ends a frame: updates the maxima with the current figures.
    pub(super) fn settle(&mut self) {
        self.most.iter_mut().zip(&self.now).for_each(|(most, now)| *most = most.most(*now));
    }

    /// Resets the current figures of all items for which `is_there` returns `false`.
    pub(super) fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        for (_, place) in self.places.iter().filter(|(number, _)| !is_there(**number)) {
            self.now[*place] = M::default();
        }
    }

    /// Returns the maxima at the ends of frames since the last call.
    pub(super) fn take(&mut self) -> Vec<M> {
        let none = vec![M::default(); self.most.len()];
        std::mem::replace(&mut self.most, none)
    }
}

/// Stores the maximum of each pair of elements in `into`.
pub(super) fn fold<M: Most>(into: &mut Vec<M>, other: &[M]) {
    into.resize(into.len().max(other.len()), M::default());
    into.iter_mut().zip(other).for_each(|(into, other)| *into = into.most(*other));
}
