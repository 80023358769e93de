//! New contents of static slots: collected until they are staged, and kept until the frame that staged them is
//! submitted.
//!
//! | operation | cost |
//! |---|---|
//! | put, remove | O(bytes) expected |
//! | put back a list after staging | O(slots of the list · open frames) expected |

use std::collections::HashMap;

use ringfence_lockfree::clock::{End, Watch};

/// Identifies a slot of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct SlotKey {
    pub(super) pool: u64,
    pub(super) slot: u32,
}

/// Content of a slot that is not on the device yet.
pub(super) struct Pending<P> {
    pub(super) key: SlotKey,
    pub(super) pool: P,
    /// Position of the content in [`Gathered::bytes`], its size, and the number of bytes reserved for it.
    first: usize,
    size: usize,
    room: usize,
}

impl<P> Pending<P> {
    pub(super) fn content<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.first..][..self.size]
    }
}

/// A list of contents: the latest content of each slot.
pub(super) struct Gathered<P> {
    pub(super) list: Vec<Pending<P>>,
    pub(super) bytes: Vec<u8>,
    /// Index of each slot's content in `list`.
    known: HashMap<SlotKey, u32>,
    /// Number of the call of [`Contents::take`] that took this list out. Later calls have higher numbers.
    turn: u64,
}

impl<P: Clone> Gathered<P> {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), bytes: Vec::new(), known: HashMap::new(), turn: 0 }
    }

    pub(super) fn put(&mut self, key: SlotKey, pool: &P, content: &[u8]) {
        let (first, size) = (self.bytes.len(), content.len());
        if let Some(&index) = self.known.get(&key) {
            let held = &mut self.list[index as usize];
            held.size = size;
            if size <= held.room {
                self.bytes[held.first..][..size].copy_from_slice(content);
                return;
            }
            (held.first, held.room) = (first, size);
        } else {
            self.known.insert(key, self.list.len() as u32);
            self.list.push(Pending { key, pool: pool.clone(), first, size, room: size });
        }
        self.bytes.extend_from_slice(content);
    }

    /// Adds older contents, but not for slots that have newer content in this list.
    fn put_older(&mut self, list: &[Pending<P>], bytes: &[u8]) {
        for older in list {
            if !self.known.contains_key(&older.key) {
                self.put(older.key, &older.pool, older.content(bytes));
            }
        }
    }

    pub(super) fn remove(&mut self, key: SlotKey) {
        let Some(index) = self.known.remove(&key) else { return };
        self.list.swap_remove(index as usize);
        match self.list.get(index as usize) {
            Some(moved) => _ = self.known.insert(moved.key, index),
            None if self.list.is_empty() => self.bytes.clear(),
            None => {}
        }
    }

    /// Rebuilds `known` after the list was reordered.
    fn know_again(&mut self) {
        self.known.clear();
        self.known.extend((0..).zip(&self.list).map(|(index, pending)| (pending.key, index)));
    }

    fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
        self.known.clear();
    }
}

/// Contents of slots, from the update of the slot until the frame that staged them is submitted. Every slot in the
/// lists is in use, so dropping an entry never drops the last reference to a pool.
pub(super) struct Contents<P> {
    pub(super) pending: Gathered<P>,
    /// Lists that were staged in frames that are not known to be submitted. A slot is in at most one of these lists,
    /// the latest.
    staged: Vec<(Watch, Gathered<P>)>,
    /// Empty lists, kept to reuse their host memory.
    spare: Vec<Gathered<P>>,
    turns: u64,
    /// Number of lists that were taken out and not put back. While it is not 0, the contents of submitted frames are
    /// kept too, to recognize older contents in a list that is put back.
    out: u32,
}

impl<P: Clone> Contents<P> {
    pub(super) fn new() -> Self {
        Self { pending: Gathered::new(), staged: Vec::new(), spare: Vec::new(), turns: 0, out: 0 }
    }

    /// Takes out the contents to stage, including those of frames that ended without being submitted.
    pub(super) fn take(&mut self) -> Gathered<P> {
        for at in (0..self.staged.len()).rev() {
            let end = self.staged[at].0.end();
            if end == End::Open || end == End::Submitted && self.out > 0 {
                continue;
            }
            let (_, mut gathered) = self.staged.swap_remove(at);
            if end == End::Unsubmitted {
                self.pending.put_older(&gathered.list, &gathered.bytes);
            }
            gathered.clear();
            self.spare.push(gathered);
        }
        self.out += 1;
        self.turns += 1;
        self.pending.turn = self.turns;
        std::mem::replace(&mut self.pending, self.spare.pop().unwrap_or_else(Gathered::new))
    }

    /// Puts back a list that was taken out. Its contents except `rest` were staged in the frame of `watch`. The
    /// contents in `rest` become pending again, unless newer content of the slot is pending or was staged meanwhile.
    pub(super) fn put_back(&mut self, mut gathered: Gathered<P>, mut rest: Vec<Pending<P>>, watch: Watch) {
        self.out -= 1;
        for (_, other) in &mut self.staged {
            if other.turn < gathered.turn {
                gathered.list.iter().for_each(|newer| other.remove(newer.key));
            } else {
                let is_latest = |older: &Pending<P>| !other.known.contains_key(&older.key);
                gathered.list.retain(is_latest);
                rest.retain(is_latest);
            }
        }
        self.pending.put_older(&rest, &gathered.bytes);
        if gathered.list.is_empty() {
            gathered.clear();
            self.spare.push(gathered);
        } else {
            gathered.know_again();
            self.staged.push((watch, gathered));
        }
    }

    /// Removes the contents of a slot that is released.
    pub(super) fn remove(&mut self, key: SlotKey) {
        self.pending.remove(key);
        self.staged.iter_mut().for_each(|(_, gathered)| gathered.remove(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Device, Profile, SimOptions};
    use ringfence_memory::extend::OpenFrame;
    use ringfence_memory::{Allocator, AllocatorDesc};

    /// If one thread waits for space with contents that it took out, and another thread stages and submits newer
    /// content, the older content does not replace the newer.
    #[test]
    fn content_that_comes_back_does_not_replace_what_was_submitted_meanwhile() {
        let device = Device::new(Profile::h200(), SimOptions::default());
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        // SAFETY: no work is submitted to the device.
        let timeline = unsafe { memory.timeline(device.create_fence(0)) }.expect("the device is not lost");
        let key = SlotKey { pool: 1, slot: 2 };
        let mut contents = Contents::new();
        contents.pending.put(key, &(), &[1]);
        let first = timeline.begin();
        let older = contents.take();
        contents.pending.put(key, &(), &[2]);
        let second = timeline.begin();
        let (newer, watch) = (contents.take(), OpenFrame::of(&second).watch());
        contents.put_back(newer, Vec::new(), watch);
        first.discard();
        timeline.submitted(second).expect("in order");
        let (nothing, third) = (contents.take(), timeline.begin());
        assert!(nothing.list.is_empty());
        contents.put_back(nothing, Vec::new(), OpenFrame::of(&third).watch());
        // The first list found no space, so all of it is pending again.
        let (mut gathered, watch) = (older, OpenFrame::of(&third).watch());
        let rest = gathered.list.drain(..).collect();
        contents.put_back(gathered, rest, watch);
        assert!(contents.pending.list.is_empty(), "the device has newer content");
        third.discard();
    }
}
