//! What heaps, rings and descriptors came to at the ends of frames: of each the most since the last moment, so that no peak is
//! lost where a moment stands for many frames.

use std::collections::HashMap;

/// A ring in the frames since the moment before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct RingMoment {
    /// The most bytes that were in use at the end of a frame.
    pub used_bytes: u64,
    /// The most bytes that it held.
    pub capacity_bytes: u64,
}

/// The descriptors of one heap that shaders see, or of one allocator of CPU-only ones, since the moment before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct DescriptorMoment {
    /// The most that were in use at the end of a frame, those for tables of single frames among them.
    pub used_count: u64,
    /// The most that were in use for tables of single frames.
    pub frame_count: u64,
    /// The most slots that there were.
    pub slot_count: u64,
}

/// A heap in the frames since the moment before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct HeapMoment {
    /// The most bytes that ranges had at the end of a frame.
    pub used_bytes: u64,
    /// The most bytes that memory objects had at the end of a frame.
    pub reserved_bytes: u64,
    /// What the driver said last that the process may use.
    pub budget_bytes: Option<u64>,
}

/// A figure of which the most is kept.
pub(super) trait Most: Copy + Default {
    /// Of each part the most of both; of what is no amount, this one's, which is the later.
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

/// Things of a trace, by their numbers there, while it is read.
#[derive(Default)]
pub(super) struct Peaks<M> {
    places: HashMap<u64, usize>,
    now: Vec<M>,
    most: Vec<M>,
}

impl<M: Most> Peaks<M> {
    /// A thing of this number begins; a number that is used again is another thing.
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

    /// The end of a frame: what is now, counts.
    pub(super) fn settle(&mut self) {
        self.most.iter_mut().zip(&self.now).for_each(|(most, now)| *most = most.most(*now));
    }

    /// Everything whose number is not among these is gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        for (_, place) in self.places.iter().filter(|(number, _)| !is_there(**number)) {
            self.now[*place] = M::default();
        }
    }

    /// The most at the ends of frames since the last call.
    pub(super) fn take(&mut self) -> Vec<M> {
        let none = vec![M::default(); self.most.len()];
        std::mem::replace(&mut self.most, none)
    }
}

/// Of each the most of both.
pub(super) fn fold<M: Most>(into: &mut Vec<M>, other: &[M]) {
    into.resize(into.len().max(other.len()), M::default());
    into.iter_mut().zip(other).for_each(|(into, other)| *into = into.most(*other));
}
