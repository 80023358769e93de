//! A table of samplers with one slot for each distinct sampler. Programs request thousands of samplers, but few
//! distinct ones.
//!
//! ```text
//!   request ──▶ by content ──▶ slot and number of users ──last one dropped──▶ removed from the bindless table
//!                                 ▲                                                   │
//!                                 └──requested again, before the slot is free─────────┘
//! ```
//!
//! Direct3D 12 allows 2,048 samplers in the bound heap, and many Vulkan devices 4,000 sampler objects: too few for one
//! slot per request.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::device::lock::Lock;

use super::{BindlessDesc, BindlessIndex, BindlessTable, DescriptorError, ShaderVisibleHeap, View};
use crate::device::descriptors::{Descriptors, SamplerDesc};
use ringfence_memory::Allocator;
use ringfence_memory::extend::run_unlocked;

/// A table of samplers, indexed by content. Cheap to clone; clones refer to the same table.
pub struct SamplerTable<D: Descriptors> {
    state: Arc<State<D>>,
}

impl<D: Descriptors> Clone for SamplerTable<D> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

struct State<D: Descriptors> {
    table: BindlessTable<D>,
    /// Samplers in use, and removed samplers, which may still have their slots.
    held: Lock<HashMap<Key, Held>>,
}

#[derive(Clone, Copy)]
struct Held {
    index: BindlessIndex,
    /// Number of users; 0 if the entry was removed.
    users: u64,
}

/// The fields of a description, as integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key([u32; 12]);

impl Key {
    fn of(desc: &SamplerDesc) -> Self {
        let [across, down, deep] = desc.address.map(|mode| mode as u32);
        // Maps -0.0 to 0.0, which means the same.
        let bits = |number: f32| (number + 0.0).to_bits();
        Self([
            desc.magnify as u32,
            desc.minify as u32,
            desc.mip as u32,
            across,
            down,
            deep,
            bits(desc.level_bias),
            bits(desc.levels[0]),
            bits(desc.levels[1]),
            desc.anisotropy.into(),
            desc.compare.map_or(0, |compare| compare as u32 + 1),
            desc.border as u32,
        ])
    }
}

impl<D: Descriptors> SamplerTable<D> {
    /// Creates a table in a run of a heap of samplers.
    ///
    /// # Errors
    /// As [`BindlessTable::new`].
    pub fn new(
        memory: &Allocator<D>,
        heap: &ShaderVisibleHeap<D>,
        desc: BindlessDesc,
    ) -> Result<Self, DescriptorError> {
        let table = BindlessTable::new(memory, heap, desc)?;
        Ok(Self { state: Arc::new(State { table, held: Lock::new(HashMap::new()) }) })
    }

    /// Returns a sampler with this description: an existing one, or a new one. O(1) amortized; one driver call for a
    /// new sampler.
    ///
    /// # Errors
    /// - The description is not valid.
    /// - No slot is free. `reclaim` frees the slot of a dropped sampler once the device no longer uses the slot.
    /// - The heap is not a heap of samplers.
    /// - The driver is out of memory.
    pub fn get(&self, desc: SamplerDesc) -> Result<Sampler<D>, DescriptorError> {
        let view = View::sampler(desc)?;
        let key = Key::of(&desc);
        // The driver creates a sampler while the lock is held, so that two threads do not create equal samplers.
        // Allocations of memory and of other descriptors do not need this lock.
        let mut held = self.state.held.lock();
        let index = match held.get_mut(&key) {
            Some(found) if found.users > 0 => {
                found.users += 1;
                found.index
            }
            found => {
                // The slot of a removed entry still contains this sampler until the slot is freed.
                let revived = found.and_then(|found| self.state.table.revive(found.index));
                let index = revived.map_or_else(|| self.state.table.insert_index(&view), Ok)?;
                self.state.forget(&mut held);
                held.insert(key, Held { index, users: 1 });
                index
            }
        };
        drop(held);
        Ok(Sampler { state: Arc::clone(&self.state), key, index })
    }

    /// Returns the number of distinct samplers in use.
    #[must_use]
    pub fn distinct_count(&self) -> usize {
        self.state.table.live_count() as usize
    }

    /// Returns the underlying table of slots.
    #[must_use]
    pub fn table(&self) -> &BindlessTable<D> {
        &self.state.table
    }
}

impl<D: Descriptors> State<D> {
    /// Ends one use of a sampler.
    fn release(&self, key: Key, index: BindlessIndex) {
        let mut held = self.held.lock();
        let Some(found) = held.get_mut(&key) else { return };
        found.users -= 1;
        if found.users == 0 {
            let removed = self.table.remove(index);
            debug_assert!(removed.is_ok(), "a sampler in use is in the table");
        }
    }

    /// Removes the records of samplers whose slots are free or reused, if there are at least twice as many records as
    /// slots.
    fn forget(&self, held: &mut HashMap<Key, Held>) {
        if held.len() >= 2 * self.table.capacity() as usize {
            held.retain(|_, held| self.table.is_there(held.index));
        }
    }
}

/// A sampler of a table. Its slot is in use while a sampler with an equal description is alive.
pub struct Sampler<D: Descriptors> {
    state: Arc<State<D>>,
    key: Key,
    index: BindlessIndex,
}

impl<D: Descriptors> Sampler<D> {
    /// Returns the index for shaders.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.index.slot()
    }
}

impl<D: Descriptors> Drop for Sampler<D> {
    fn drop(&mut self) {
        let (state, key, index) = (Arc::clone(&self.state), self.key, self.index);
        run_unlocked(move || state.release(key, index));
    }
}

impl<D: Descriptors> fmt::Debug for SamplerTable<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SamplerTable({} distinct, {:?})", self.distinct_count(), self.state.table)
    }
}

impl<D: Descriptors> fmt::Debug for Sampler<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sampler({:?})", self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::device::descriptors::{AddressMode, BorderColor, Compare, Filter};

    #[test]
    fn samplers_are_equal_if_every_field_is() {
        let desc = SamplerDesc::default();
        let repeat = AddressMode::Repeat;
        let different = [
            desc,
            SamplerDesc { magnify: Filter::Nearest, ..desc },
            SamplerDesc { minify: Filter::Nearest, ..desc },
            SamplerDesc { mip: Filter::Nearest, ..desc },
            SamplerDesc { address: [AddressMode::Clamp, repeat, repeat], ..desc },
            SamplerDesc { address: [repeat, AddressMode::Clamp, repeat], ..desc },
            SamplerDesc { address: [repeat, repeat, AddressMode::Clamp], ..desc },
            SamplerDesc { level_bias: 0.5, ..desc },
            SamplerDesc { level_bias: -0.5, ..desc },
            SamplerDesc { levels: [0.5, 1000.0], ..desc },
            SamplerDesc { levels: [0.0, 5.0], ..desc },
            SamplerDesc { anisotropy: 2, ..desc },
            SamplerDesc { compare: Some(Compare::Never), ..desc },
            SamplerDesc { compare: Some(Compare::Less), ..desc },
            SamplerDesc { border: BorderColor::White, ..desc },
        ];
        for (number, one) in different.iter().enumerate() {
            for (other_number, other) in different.iter().enumerate() {
                assert_eq!(Key::of(one) == Key::of(other), number == other_number, "{one:?} and {other:?}");
            }
        }
        for (zero, negative) in [
            (SamplerDesc { level_bias: 0.0, ..desc }, SamplerDesc { level_bias: -0.0, ..desc }),
            (SamplerDesc { levels: [0.0, 0.0], ..desc }, SamplerDesc { levels: [-0.0, -0.0], ..desc }),
        ] {
            assert!(Key::of(&zero) == Key::of(&negative), "the signs of zero mean the same");
        }
    }
}
