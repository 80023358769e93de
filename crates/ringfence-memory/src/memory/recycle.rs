//! Recycling: reusing released objects for new requests.
//!
//! ```text
//!   create ── wanted? ──▶ take: this thread's list, its class's list, or objects that this thread has retired and the
//!                           │   device is done with
//!                           └─▶ its next owner's name, user data
//!   reclaim, destroy_now ── release_item ──▶ kept, or destroyed
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use ringfence_decision::AllocationDesc;
use ringfence_lockfree::recycled::{Held, Key, Recyclable, Recycled, Recycling, Wanted};

use super::place::Place;
use super::placed_object::{Item, ItemKind, PlacedObject, PlacedSmallBuffer};
use super::shared::Shared;
use crate::device::{Create, Device, InfoKey};
use ringfence_arena::RawObject;

/// The recycled objects of an allocator.
pub(crate) type RecycledItems<D> = Recycled<Item<D>, Arc<Shared<D>>>;

/// The parts of a handle: the object, and a reference to the allocator.
type Owned<D, K> = (Box<PlacedObject<D, K>>, Arc<Shared<D>>);

type Taken<D> = Result<(Item<D>, Option<Arc<Shared<D>>>), Item<D>>;

/// The kind number ([`Held::kind`]) of ranges of a shared buffer. The kind number of other memory is twice its memory
/// type, plus 1 for dedicated memory.
pub(super) const SMALL: u32 = 127;

/// Returns the memory type of a kind number, and `true` for dedicated memory. Returns `None` for ranges of a shared
/// buffer.
pub(super) fn memory_of_kind(kind: u32) -> Option<(u32, bool)> {
    (kind != SMALL).then_some((kind >> 1, kind & 1 == 1))
}

/// Number of words of a key that describe the request for memory. The words of the resource's description follow them.
const HOW_WORDS: usize = 2;

/// Returns the key of a request for a resource: equal keys mean that one object can serve both requests. `kind` is 0
/// for buffers and 1 for textures. The alignment must be a power of two or 0.
#[inline(always)]
fn key_of(kind: u64, info: &InfoKey, desc: &AllocationDesc<'_>) -> Key {
    let mut words = [0; Key::WORDS];
    let how = desc.location as u64 | (desc.dedicated as u64) << 4 | (desc.priority as u64) << 8;
    let alignment = u64::from(desc.alignment.max(1).trailing_zeros());
    words[0] = kind | how << 4 | alignment << 16 | u64::from(desc.memory_types) << 32;
    words[1] = u64::from(desc.required.bits()) | u64::from(desc.preferred.bits()) << 32;
    words[HOW_WORDS..].copy_from_slice(info.pairs());
    Key::new(words, HOW_WORDS + info.used())
}

/// Returns the key of a request for a range of a shared buffer.
#[inline(always)]
fn key_of_small(class: u64, size: u64, alignment: u64) -> Key {
    let mut words = [0; Key::WORDS];
    // The kind comes first, as in `key_of`.
    words[..3].copy_from_slice(&[2 | class << 4, size, alignment]);
    Key::new(words, 3)
}

impl<D: Device> Recyclable for Item<D> {
    #[inline]
    fn recycling(&self) -> Option<&Recycling> {
        match self {
            Self::Buffer(bound) => bound.recycling.as_ref(),
            Self::Texture(bound) => bound.recycling.as_ref(),
            Self::Small(bound) => bound.recycling.as_ref(),
        }
    }
}

/// Returns a 64-bit hash of a name, by which names are compared.
pub(crate) fn name_bits(name: &str) -> u64 {
    static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    if name.is_empty() { 0 } else { ringfence_lockfree::recycled::name_bits(name, *KEY) }
}

impl<D: Device> Shared<D> {
    /// Returns the memory of the recycled object that the request would get, if there is one. May first release objects
    /// of this thread that the device is done with.
    pub(super) fn peek_recycled<K: ItemKind>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: &AllocationDesc<'_>,
    ) -> Option<Held>
    where
        D: Create<K>,
    {
        let key = self.recycle_key::<K>(info, desc)?;
        self.recycled.peek(&key).or_else(|| self.release_some().then(|| self.recycled.peek(&key)).flatten())
    }

    /// Returns the key of a request, if a recycled object could serve the request.
    #[inline(always)]
    pub(crate) fn recycle_key<K: ItemKind>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: &AllocationDesc<'_>,
    ) -> Option<Key>
    where
        D: Create<K>,
    {
        let AllocationDesc { recycle, movable, evictable, share, alignment, .. } = *desc;
        let may_be = recycle && !movable && !evictable && share.is_none() && alignment.max(1).is_power_of_two();
        if !may_be || !self.recycled.is_on() || self.is_watched() {
            return None;
        }
        let info = Create::<K>::recycle_key(&self.device, info)?;
        Some(key_of(K::NUMBER, &info, desc))
    }

    /// As [`Shared::recycle_key`], for a range of a shared buffer.
    #[inline(always)]
    pub(crate) fn recycle_key_of_small(&self, class: u64, size: u64, alignment: u64) -> Option<Key> {
        let may_be = self.recycled.is_on() && !self.is_watched();
        may_be.then(|| key_of_small(class, size, alignment))
    }

    /// Returns the recycling record of an object that was created for `wanted`. Returns `None` if the object is not in
    /// the best memory type: that type had no room for the object, but may have room for a later request.
    #[inline(always)]
    pub(crate) fn recycling_of(
        &self,
        wanted: &Wanted<'_>,
        place: &Place<D>,
        desc: &AllocationDesc<'_>,
        memory_type_bits: u32,
    ) -> Option<Recycling> {
        let memory_type = self.memory_of(place).memory_type;
        let best = self.order.best(self.device.capabilities(), desc, memory_type_bits);
        if !place.is_own_range() || best != Some(memory_type) {
            return None;
        }
        let held = Held { bytes: place.size(), kind: memory_type << 1 | u32::from(place.is_dedicated()) };
        self.recycled.recycling(wanted, held, name_bits(desc.name))
    }

    /// As [`Shared::recycling_of`], for a range of a shared buffer.
    pub(crate) fn recycling_of_small(&self, wanted: &Wanted<'_>, bytes: u64) -> Option<Recycling> {
        self.recycled.recycling(wanted, Held { bytes, kind: SMALL }, 0)
    }

    /// Takes a recycled object that matches the request, and gives it the name and user data of its next owner. Also
    /// returns a reference to the allocator, for the handle.
    #[inline(always)]
    pub(crate) fn take_recycled<K: ItemKind>(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        desc: &AllocationDesc<'_>,
    ) -> Option<Owned<D, K>>
    where
        D: Create<K>,
    {
        let (item, owner) = self.take_item(wanted)?;
        let mut bound = K::of_item(item).map_err(|other| self.destroy_item(other)).ok()?;
        bound.renew_content();
        let recycling = bound.recycling.as_mut()?;
        let name = name_bits(desc.name);
        if recycling.name != name || bound.user_data != desc.user_data {
            recycling.name = name;
            bound.user_data = desc.user_data;
            self.give_name::<K>(&mut bound, desc);
        }
        Some((bound, owner))
    }

    /// As [`Shared::take_recycled`], for a range of a shared buffer.
    #[inline(always)]
    pub(crate) fn take_recycled_small(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
    ) -> Option<(Box<PlacedSmallBuffer<D>>, Arc<Self>)> {
        match self.take_item(wanted)? {
            (Item::Small(bound), owner) => Some((bound, owner)),
            (other, _) => {
                self.destroy_item(other);
                None
            }
        }
    }

    #[inline(always)]
    fn take_item(self: &Arc<Self>, wanted: &Wanted<'_>) -> Option<(Item<D>, Arc<Self>)> {
        // Two calls instead of one with a merged result, which would be written in parts and read as a whole: that
        // costs a store-forwarding stall.
        if let Some(found) = self.recycled.take(wanted) {
            return self.with_owner(found);
        }
        self.with_owner(self.take_retired(wanted)?)
    }

    #[inline(always)]
    fn with_owner(self: &Arc<Self>, found: Taken<D>) -> Option<(Item<D>, Arc<Self>)> {
        match found {
            Ok((item, Some(owner))) => Some((item, owner)),
            Ok((item, None)) => Some((item, Arc::clone(self))),
            Err(other) => {
                self.destroy_item(other);
                None
            }
        }
    }

    /// Releases some objects of this thread that the device was seen to be done with, then searches again.
    #[cold]
    #[inline(never)]
    fn take_retired(&self, wanted: &Wanted<'_>) -> Option<Taken<D>> {
        if !self.recycled.knows(wanted) || !self.release_some() {
            return None;
        }
        self.recycled.take(wanted)
    }

    #[cold]
    fn give_name<K: ItemKind>(&self, bound: &mut PlacedObject<D, K>, desc: &AllocationDesc<'_>)
    where
        D: Create<K>,
    {
        // SAFETY: the object is alive, and its handle is not returned yet.
        unsafe { Create::<K>::set_name(&self.device, &bound.placed.object, desc.name) };
        self.change_info(&mut bound.place, desc.name, Some(desc.user_data));
    }

    /// Recycles an item that the device is done with, or destroys it.
    #[inline]
    pub(crate) fn release_item(&self, item: Item<D>) {
        let keep = |item| self.recycled.keep(item, |gone| self.destroy_item(gone));
        if let Err(item) = self.ready_for_next(item).and_then(keep) {
            self.destroy_item(item);
        }
    }

    /// As [`Shared::release_item`]; also caches the handle's reference to the allocator for this thread's next handle.
    #[inline]
    pub(crate) fn release_item_and_owner(owner: Arc<Self>, item: Item<D>) {
        let item = match owner.ready_for_next(item) {
            Ok(item) => item,
            Err(item) => return Self::destroy_item_and_owner(owner, item),
        };
        let shared = Arc::as_ptr(&owner);
        // SAFETY: the owner keeps `recycled` alive, and `gone` is called while this function has a reference to the
        // owner.
        let kept = unsafe {
            RecycledItems::<D>::keep_with_owner(
                item,
                owner,
                |owner| &owner.recycled,
                |gone| (*shared).destroy_item(gone),
            )
        };
        if let Err((item, owner)) = kept {
            Self::destroy_item_and_owner(owner, item);
        }
    }

    /// Prepares an object for its next owner. Returns the object as the error if it may not be recycled.
    #[inline]
    fn ready_for_next(&self, mut item: Item<D>) -> Result<Item<D>, Item<D>> {
        let may_be = |held: &Recycling| self.recycled.would_keep(held);
        if self.is_watched() || item.is_altered() || !item.recycling().is_some_and(may_be) {
            return Err(item);
        }
        // SAFETY: every submission that used the object is complete, and its owner has released it.
        unsafe { item.rename_for_next(&self.device) };
        Ok(item)
    }

    /// Takes an item apart, for a caller that destroys the parts. Returns its place, and the driver's object unless
    /// other items share the object.
    pub(crate) fn take_apart(&self, item: Item<D>) -> (Option<RawObject<D>>, Place<D>) {
        item.recycling().into_iter().for_each(|held| self.recycled.forget(held));
        self.boxes.take_apart(item)
    }

    /// Caches a handle's reference to the allocator for this thread's next handle.
    #[inline]
    pub(crate) fn keep_owner(owner: Arc<Self>) {
        // SAFETY: the owner keeps `recycled` alive.
        unsafe { RecycledItems::<D>::keep_owner(owner, |owner| &owner.recycled) };
    }

    /// Destroys the recycled objects in the heaps for which `heaps` returns `true`, and those in shared buffers of all
    /// heaps. Returns `true` if there were any.
    pub(crate) fn empty_recycled(&self, heaps: impl Fn(u32) -> bool) -> bool {
        let mut any = false;
        self.recycled.empty(
            |kind| memory_of_kind(kind).is_none_or(|(memory_type, _)| heaps(self.heap_of(memory_type))),
            |item| {
                any = true;
                self.destroy_item(item);
            },
        );
        any
    }
}
