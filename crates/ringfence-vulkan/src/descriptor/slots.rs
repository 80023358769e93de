//! The slots of a heap, and an index from each buffer or image to the slots that refer to it.
//!
//! ```text
//!   first   buffer 7 ──▶ slot 2        links   2 ◀──▶ 9 ◀──▶ 4        a list for each resource
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | `put` | O(1) |
//! | `take_showing` | O(1) |

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use super::view::Slot;
use crate::plain_heaps::{Counts, Resource};

/// The slots of a heap.
#[derive(Default)]
pub(super) struct Slots {
    held: Box<[Slot]>,
    /// Index from buffers and images to slots. Only heaps of plain sets have one.
    index: Option<Index>,
}

/// Index from a buffer or image to its slots: a linked list of slots for each resource.
struct Index {
    first: HashMap<Resource, u32>,
    links: Box<[Link]>,
    counts: Arc<Counts>,
}

/// Previous and next slot in the list of a resource.
#[derive(Clone, Copy, Default)]
struct Link {
    before: Option<u32>,
    after: Option<u32>,
}

impl Slots {
    /// Returns `count` empty slots. They have an index if `counts` is `Some`.
    pub(super) fn new(count: u32, counts: Option<Arc<Counts>>) -> Self {
        let links = || vec![Link::default(); count as usize].into_boxed_slice();
        let index = counts.map(|counts| Index { first: HashMap::new(), links: links(), counts });
        Self { held: vec![Slot::default(); count as usize].into_boxed_slice(), index }
    }

    /// Sets the content of a slot and returns the previous content.
    pub(super) fn put(&mut self, at: usize, shown: Slot) -> Slot {
        let (before, after) = (self.held[at].resource, shown.resource);
        if let Some(index) = self.index.as_mut().filter(|_| before != after) {
            before.into_iter().for_each(|resource| index.remove(resource, at as u32));
            after.into_iter().for_each(|resource| index.add(resource, at as u32));
        }
        std::mem::replace(&mut self.held[at], shown)
    }

    /// Clears one slot that refers to `resource` and returns its previous content. Returns `None` if no slot refers to
    /// `resource`.
    pub(super) fn take_showing(&mut self, resource: Resource) -> Option<Slot> {
        let at = *self.index.as_ref()?.first.get(&resource)?;
        Some(self.put(at as usize, Slot::default()))
    }
}

impl Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.held
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let Some(index) = &self.index else { return };
        self.held.iter().filter_map(|slot| slot.resource).for_each(|resource| index.counts.remove(resource));
    }
}

impl Index {
    fn add(&mut self, resource: Resource, slot: u32) {
        self.counts.add(resource);
        let after = self.first.insert(resource, slot);
        self.links[slot as usize] = Link { before: None, after };
        if let Some(after) = after {
            self.links[after as usize].before = Some(slot);
        }
    }

    fn remove(&mut self, resource: Resource, slot: u32) {
        self.counts.remove(resource);
        let Link { before, after } = self.links[slot as usize];
        if let Some(after) = after {
            self.links[after as usize].before = before;
        }
        match (before, after) {
            (Some(before), _) => self.links[before as usize].after = after,
            (None, Some(after)) => _ = self.first.insert(resource, after),
            (None, None) => _ = self.first.remove(&resource),
        }
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::{self, Handle};

    use super::*;
    use crate::plain_heaps::{PlainHeaps, ShowsResources};

    fn buffer(number: u64) -> Resource {
        Resource::Buffer(vk::Buffer::from_raw(number))
    }

    fn slot(resource: Option<Resource>) -> Slot {
        Slot { resource, ..Slot::default() }
    }

    #[test]
    fn slots_are_found_by_what_they_show() {
        let heaps = PlainHeaps::default();
        let mut slots = Slots::new(40, Some(Arc::clone(heaps.counts())));
        let mut twin = [None; 40];
        let mut state = 7_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (at, number) = ((state >> 33) as usize % 40, state >> 45 & 7);
            // A buffer and an image with equal handles are different resources.
            let image = Resource::Image(vk::Image::from_raw(number));
            let resource = if state >> 60 < 8 { buffer(number) } else { image };
            match state >> 57 & 7 {
                0 => {
                    let expected = twin.iter().filter(|held| **held == Some(resource)).count();
                    let found = std::iter::from_fn(|| slots.take_showing(resource)).count();
                    assert_eq!(found, expected);
                    twin.iter_mut().filter(|held| **held == Some(resource)).for_each(|held| *held = None);
                }
                1 => {
                    assert_eq!(slots.put(at, slot(None)).resource, twin[at]);
                    twin[at] = None;
                }
                _ => {
                    assert_eq!(slots.put(at, slot(Some(resource))).resource, twin[at]);
                    twin[at] = Some(resource);
                }
            }
            assert!(slots.iter().map(|held| held.resource).eq(twin));
        }
    }

    #[test]
    fn only_what_may_be_shown_has_the_heaps_looked_at() {
        struct Never;
        impl ShowsResources for Never {
            fn clear_slots_of(&self, resource: Resource) {
                assert_eq!(resource, buffer(3), "no slot refers to it");
            }
        }
        let heaps = PlainHeaps::default();
        let mut slots = Slots::new(4, Some(Arc::clone(heaps.counts())));
        let heap: Arc<dyn ShowsResources> = Arc::new(Never);
        heaps.add(Arc::downgrade(&heap));
        heaps.clear_slots_of(buffer(3));
        slots.put(1, slot(Some(buffer(3))));
        (0..3).chain(4..50).for_each(|number| heaps.clear_slots_of(buffer(number)));
        heaps.clear_slots_of(buffer(3));
        drop(slots);
        struct Gone;
        impl ShowsResources for Gone {
            fn clear_slots_of(&self, _: Resource) {
                panic!("the slots were dropped");
            }
        }
        let gone: Arc<dyn ShowsResources> = Arc::new(Gone);
        heaps.add(Arc::downgrade(&gone));
        heaps.clear_slots_of(buffer(3));
    }
}
