//! Maxima of heaps, rings and descriptors in the frames since the previous [`Moment`](super::Moment), so that peaks
//! stay visible if a moment stands for many frames.

use std::collections::HashMap;

/// Figures of a ring in the frames since the previous moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct RingMoment {
    /// Maximum number of bytes in use at the end of a frame.
    pub used_bytes: u64,
    /// Maximum capacity at the end of a frame, in bytes.
    pub capacity_bytes: u64,
}

/// Figures of a shader-visible descriptor heap, or of an allocator of CPU-only descriptors, in the frames since the
/// previous moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct DescriptorMoment {
    /// Maximum number of slots in use at the end of a frame, including those of frame tables.
    pub used_count: u64,
    /// Maximum number of slots in use for frame tables (descriptor tables of a single frame), at the end of a frame.
    pub frame_count: u64,
    /// Maximum number of slots, at the end of a frame.
    pub slot_count: u64,
}

/// Figures of a memory heap in the frames since the previous moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct HeapMoment {
    /// Maximum total size of the ranges in use at the end of a frame, in bytes.
    pub used_bytes: u64,
    /// Maximum total size of the memory objects at the end of a frame, in bytes.
    pub reserved_bytes: u64,
    /// The last budget that the driver reported, in bytes; `None` if it reported none.
    pub budget_bytes: Option<u64>,
    /// Maximum number of bytes of paged resources that are not on the device, at the end of a frame.
    #[serde(default)]
    pub away_bytes: u64,
}

/// Figures with maxima.
pub(super) trait Most: Copy + Default {
    /// Returns the maximum of each amount in `self` and `other`. The budget is taken from `self`, which is the later
    /// one.
    fn most(self, other: Self) -> Self;
}

impl Most for HeapMoment {
    fn most(self, other: Self) -> Self {
        Self {
            used_bytes: self.used_bytes.max(other.used_bytes),
            reserved_bytes: self.reserved_bytes.max(other.reserved_bytes),
            budget_bytes: self.budget_bytes,
            away_bytes: self.away_bytes.max(other.away_bytes),
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

/// Current figures and maxima of numbered items (rings, heaps) while a trace is read.
#[derive(Default)]
pub(super) struct Peaks<M> {
    places: HashMap<u64, usize>,
    now: Vec<M>,
    most: Vec<M>,
}

impl<M: Most> Peaks<M> {
    /// Adds an item with this number. If an earlier item had the number, the number now refers to the new item.
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

    /// Called at the end of a frame: updates the maxima with the current figures.
    pub(super) fn settle(&mut self) {
        self.most.iter_mut().zip(&self.now).for_each(|(most, now)| *most = most.most(*now));
    }

    /// Sets to zero the current figures of each item for which `is_there` returns `false`.
    pub(super) fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        for (_, place) in self.places.iter().filter(|(number, _)| !is_there(**number)) {
            self.now[*place] = M::default();
        }
    }

    /// Returns the maxima since the last call, and resets them.
    pub(super) fn take(&mut self) -> Vec<M> {
        let none = vec![M::default(); self.most.len()];
        std::mem::replace(&mut self.most, none)
    }
}

/// Replaces each element of `into` by the maximum of this element and the element of `other` with the same index. If
/// `other` is longer, extends `into`.
pub(super) fn fold<M: Most>(into: &mut Vec<M>, other: &[M]) {
    into.resize(into.len().max(other.len()), M::default());
    into.iter_mut().zip(other).for_each(|(into, other)| *into = into.most(*other));
}
