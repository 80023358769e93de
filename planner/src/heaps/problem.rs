//! The problem of several heaps: checks the heaps and items, and lays them out for the planners.

use super::alive::Alive;
use super::occupied::{Flat, Occupied};
use super::{Heap, HeapError, HeapItem, HeapOffset};
use crate::limits::{SUM_MAX, check_lifetimes, check_sizes};
use alloc::vec;
use alloc::vec::Vec;
use ringfence_alias::{Item, ItemError};

/// Largest height of a plan, so that no sum of an offset, a size and an alignment overflows.
const HEIGHT_MAX: u64 = SUM_MAX;
/// Largest granularity, so that no sum of an offset and a page overflows.
const GRANULARITY_MAX: u64 = 1 << 32;
/// Largest number of distinct sets of heaps that are checked for an overload individually.
const SETS_MAX: usize = 32;

/// A heap that an item can be placed in, and the number of classes before its class in the item's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub heap: u32,
    pub rank: u32,
}

/// Checked heaps and items, ready to be planned.
#[derive(Clone, Debug)]
pub struct HeapProblem {
    pub(super) heaps: Vec<Heap>,
    pub(super) flat: Vec<Flat>,
    pub(super) pinned: Vec<Option<HeapOffset>>,
    /// Choices of all items, the preferred one first. Those of item i are `choices[starts[i]..starts[i + 1]]`.
    choices: Vec<Choice>,
    starts: Vec<u32>,
    /// Events in the order of time, ends before beginnings: moment, `true` for a beginning, item.
    pub(super) events: Vec<(u64, bool, u32)>,
    lower_bound: u64,
}

impl HeapProblem {
    /// Creates the problem. O(n log n), plus the pairs of pinned items of different kinds on the same pages.
    ///
    /// # Errors
    /// The first fault of the heaps and items that was found.
    pub fn new(heaps: &[Heap], items: &[HeapItem]) -> Result<Self, HeapError> {
        check_heaps(heaps)?;
        check_sizes(items.iter().map(|held| (held.item.size, held.item.alignment))).map_err(HeapError::Item)?;
        let empty = |held: &HeapItem| check_lifetimes(&[held.item]).is_err();
        if let Some(index) = items.iter().position(empty) {
            return Err(HeapError::Item(ItemError::EmptyLifetime { index, lifetime: items[index].item.lifetime }));
        }
        let mut problem = Self {
            heaps: heaps.to_vec(),
            flat: items.iter().map(|held| flat(&held.item, held.kind)).collect(),
            pinned: items.iter().map(|held| held.pinned).collect(),
            choices: Vec::with_capacity(items.len()),
            starts: Vec::with_capacity(items.len() + 1),
            events: events(items),
            lower_bound: 0,
        };
        problem.starts.push(0);
        for (index, item) in items.iter().enumerate() {
            problem.choose(index, item)?;
        }
        problem.check_pins()?;
        problem.check_loads()?;
        problem.lower_bound = problem.bound();
        Ok(problem)
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flat.len()
    }

    /// Returns `true` if there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flat.is_empty()
    }

    /// Returns a lower bound of the total height of all plans, in units.
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.lower_bound
    }

    /// Returns the heaps that an item can be placed in, the preferred one first. A pinned item has only its heap.
    pub(super) fn choices(&self, item: usize) -> &[Choice] {
        &self.choices[self.starts[item] as usize..self.starts[item + 1] as usize]
    }

    /// Returns `true` if there may be a plan above `HEIGHT_MAX`. Without pins the answer is `false`, because all items
    /// stacked on one another end below it.
    pub(super) fn is_cut_off(&self) -> bool {
        let pages = |heap: &Heap| 2 * u128::from(heap.granularity);
        let sum = |heap: &Heap| -> u128 {
            self.flat.iter().map(|flat| u128::from(flat.size) + u128::from(flat.alignment) + pages(heap)).sum()
        };
        let pins = self.pinned_ends();
        let is_cut_off = |(heap, pin): (&Heap, u64)| {
            heap.capacity > HEIGHT_MAX && u128::from(pin) + sum(heap) > u128::from(HEIGHT_MAX)
        };
        self.heaps.iter().zip(pins).any(is_cut_off)
    }

    /// Returns the capacity of a heap, at most 2^63 - 1.
    pub(super) fn capacity(&self, heap: usize) -> u64 {
        self.heaps[heap].capacity.min(HEIGHT_MAX)
    }

    /// Returns the heaps with the pinned items in them.
    pub(super) fn with_pins(&self) -> Vec<Occupied> {
        let mut heaps: Vec<Occupied> = self.empty_heaps();
        let mut pins: Vec<Vec<(u32, Flat, u64)>> = vec![Vec::new(); heaps.len()];
        for (item, pin) in self.pinned.iter().enumerate() {
            if let Some(pin) = pin {
                pins[pin.heap].push((item as u32, self.flat[item], pin.offset));
            }
        }
        heaps.iter_mut().zip(pins).for_each(|(heap, pins)| heap.fill(pins.into_iter()));
        heaps
    }

    pub(super) fn empty_heaps(&self) -> Vec<Occupied> {
        let empty = |(place, heap): (usize, &Heap)| Occupied::new(heap.granularity, self.capacity(place));
        self.heaps.iter().enumerate().map(empty).collect()
    }

    fn choose(&mut self, index: usize, held: &HeapItem) -> Result<(), HeapError> {
        let Item { size, alignment, .. } = held.item;
        if let Some(pin) = held.pinned {
            self.check_pin(index, pin)?;
            self.choices.push(Choice { heap: pin.heap as u32, rank: 0 });
        } else {
            let begin = self.choices.len();
            for (rank, class) in held.classes.iter().enumerate() {
                if held.classes[..rank].contains(class) {
                    continue;
                }
                let from = self.choices.len();
                let fits = |&place: &usize| {
                    let heap = &self.heaps[place];
                    heap.class == *class && heap.alignment >= alignment && heap.capacity >= size
                };
                let chosen = (0..self.heaps.len()).filter(fits);
                self.choices.extend(chosen.map(|heap| Choice { heap: heap as u32, rank: rank as u32 }));
                // Heaps with a larger alignment are kept for the items that need it.
                let heaps = &self.heaps;
                self.choices[from..].sort_by_key(|choice| heaps[choice.heap as usize].alignment);
            }
            if self.choices.len() == begin {
                let own = || self.heaps.iter().filter(|heap| held.classes.contains(&heap.class));
                let capacity = own().map(|heap| heap.capacity).max().unwrap_or(0);
                let heap_alignment = own().map(|heap| heap.alignment).max().unwrap_or(0);
                return Err(HeapError::NoHeap { index, size, alignment, capacity, heap_alignment });
            }
        }
        let count = u32::try_from(self.choices.len());
        self.starts.push(count.map_err(|_| HeapError::Item(ItemError::TooMany { count: self.choices.len() }))?);
        Ok(())
    }

    /// Checks one pin.
    fn check_pin(&self, index: usize, pin: HeapOffset) -> Result<(), HeapError> {
        let Flat { size, alignment, .. } = self.flat[index];
        let HeapOffset { heap, offset } = pin;
        let Some(held) = self.heaps.get(heap) else {
            return Err(HeapError::UnknownHeap { index, heap, heap_count: self.heaps.len() });
        };
        if offset & (alignment - 1) != 0 || held.alignment < alignment {
            return Err(HeapError::PinMisaligned { index, offset, alignment, heap_alignment: held.alignment });
        }
        let capacity = self.capacity(heap);
        if offset.checked_add(size).is_none_or(|end| end > capacity) {
            return Err(HeapError::PinBeyondCapacity { index, offset, size, capacity });
        }
        Ok(())
    }

    /// Checks the pins for clashes, by a sweep over time.
    fn check_pins(&self) -> Result<(), HeapError> {
        let mut alive = Alive::default();
        for &(_, begins, item) in &self.events {
            let Some(at) = self.pinned[item as usize] else { continue };
            if !begins {
                alive.end(item, at);
                continue;
            }
            if let Some(&(other, _)) = alive.clashing(self, item as usize, at).first() {
                let (first, second) = (item.min(other) as usize, item.max(other) as usize);
                let granularity = self.heaps[at.heap].granularity;
                return Err(HeapError::PinsClash { first, second, heap: at.heap, granularity });
            }
            alive.begin(item, at);
        }
        Ok(())
    }

    /// Checks, for each set of heaps, that the items limited to the set fit its capacity at each moment.
    fn check_loads(&self) -> Result<(), HeapError> {
        let set = |item: usize| {
            let mut set: Vec<u32> = self.choices(item).iter().map(|choice| choice.heap).collect();
            set.sort_unstable();
            set
        };
        let own: Vec<Vec<u32>> = (0..self.len()).map(set).collect();
        let mut sets = own.clone();
        sets.sort_unstable();
        sets.dedup();
        if sets.len() > SETS_MAX {
            sets.clear();
        }
        let mut all: Vec<u32> = own.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        if !sets.contains(&all) {
            sets.push(all);
        }
        for set in sets {
            let capacity = set.iter().fold(0, |sum: u64, &heap| sum.saturating_add(self.heaps[heap as usize].capacity));
            let inside: Vec<bool> = own.iter().map(|own| own.iter().all(|heap| set.contains(heap))).collect();
            let (load, moment) = self.load(|item| inside[item]);
            if load > capacity {
                return Err(HeapError::Overload { moment, load, capacity });
            }
        }
        Ok(())
    }

    /// Returns the largest sum of sizes alive at once, and its moment.
    fn load(&self, counts: impl Fn(usize) -> bool) -> (u64, u64) {
        let (mut alive, mut most, mut moment) = (0_u64, 0, 0);
        for &(at, begins, item) in self.events.iter().filter(|event| counts(event.2 as usize)) {
            let size = self.flat[item as usize].size;
            alive = if begins { alive + size } else { alive - size };
            if alive > most {
                (most, moment) = (alive, at);
            }
        }
        (most, moment)
    }

    /// Returns the larger of the load and the sum of the heaps' highest pinned ends.
    fn bound(&self) -> u64 {
        self.load(|_| true).0.max(self.pinned_ends().into_iter().fold(0, u64::saturating_add))
    }

    /// Returns the highest end of a pinned item in each heap.
    pub(super) fn pinned_ends(&self) -> Vec<u64> {
        let mut ends = vec![0_u64; self.heaps.len()];
        for (item, pin) in self.pinned.iter().enumerate() {
            if let Some(pin) = pin {
                ends[pin.heap] = ends[pin.heap].max(pin.offset + self.flat[item].size);
            }
        }
        ends
    }
}

fn flat(item: &Item, kind: u32) -> Flat {
    let Item { size, alignment, lifetime, .. } = *item;
    Flat { size, alignment, lower: lifetime.lower, upper: lifetime.upper, kind }
}

fn check_heaps(heaps: &[Heap]) -> Result<(), HeapError> {
    let bad = |heap: &Heap| {
        let Heap { alignment, granularity, .. } = *heap;
        !alignment.is_power_of_two() || !granularity.is_power_of_two() || granularity > GRANULARITY_MAX
    };
    match heaps.iter().position(bad) {
        Some(heap) => {
            let Heap { alignment, granularity, .. } = heaps[heap];
            Err(HeapError::BadHeap { heap, alignment, granularity })
        }
        None => Ok(()),
    }
}

/// Returns the events in the order of time. At each moment the ends come first, because `false` sorts before `true`.
fn events(items: &[HeapItem]) -> Vec<(u64, bool, u32)> {
    let both = |(index, held): (usize, &HeapItem)| {
        let lifetime = held.item.lifetime;
        [(lifetime.lower, true, index as u32), (lifetime.upper, false, index as u32)]
    };
    let mut events: Vec<_> = items.iter().enumerate().flat_map(both).collect();
    events.sort_unstable();
    events
}
