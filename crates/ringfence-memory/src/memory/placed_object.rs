//! A driver's object that is bound to its memory, with the library's data. It is owned by a handle, then retired, then
//! recycled.
//!
//! ```text
//!   Resource ── owns ──▶ Box<PlacedObject> ── drop ──▶ retired ── the device is done with it ──┬─▶ destroyed
//!       ▲                                                                               └─▶ Recycled ─┐
//!       └───────────────────────────── the next equal request ────────────────────────────────────────┘
//! ```
//!
//! A `PlacedObject` stays at one address from the object's creation to its destruction; only its pointer moves.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ringfence_decision::Location;
use ringfence_lockfree::delivery::Content;
use ringfence_lockfree::recycled::Recycling;

use super::box_cache::BoxCache;
use super::place::Place;
use crate::device::record::TextureParts;
use crate::device::{
    BufferDesc, Buffers, Create, Device, InfoKey, Kind, Mapped, Placed, RawBuffer, TextureDesc, Textures,
};
use ringfence_arena::RawObject;

pub(crate) struct PlacedObject<D: Create<K> + Device, K: ItemKind> {
    pub(crate) placed: Placed<<D as Create<K>>::Object>,
    pub(crate) place: Place<D>,
    /// Size of the object's memory requirements in bytes, as the driver measured them. The size of a buffer may be
    /// smaller.
    pub(crate) memory_bytes: u64,
    pub(crate) location: Location,
    pub(crate) has_address: bool,
    /// Number of bytes by which the buffer is larger than its owner's description.
    pub(crate) added: u64,
    pub(crate) user_data: u64,
    /// The portable description that the object was created with, if the device has one.
    pub(crate) desc: Option<K::Desc>,
    /// `true` if `desc` describes the object completely.
    pub(crate) is_desc_full: bool,
    /// A key of the object's native description, if there is no portable description; rarely `Some`.
    pub(crate) key: Option<Box<InfoKey>>,
    /// The subresources of a texture, if the device knows them.
    pub(crate) parts: K::Parts,
    /// `true` if the description, or the priority of the memory, is no longer the requested one. The object is then not
    /// recycled.
    pub(crate) is_altered: AtomicBool,
    /// `Some` if the object may be recycled.
    pub(crate) recycling: Option<Recycling>,
    /// The state of copies to the object, if there were any.
    pub(crate) content: OnceLock<Arc<Content>>,
}

impl<D: Create<K> + Device, K: ItemKind> PlacedObject<D, K> {
    /// Forgets the copies that the previous owner of the object made to it.
    #[inline]
    pub(crate) fn renew_content(&mut self) {
        let Some(content) = self.content.get_mut() else { return };
        match Arc::get_mut(content) {
            Some(content) => *content = Content::default(),
            None => _ = self.content.take(),
        }
    }
}

/// The value that the handle of a small buffer owns: a range of a driver's buffer that small buffers share.
pub(crate) struct PlacedSmallBuffer<D: Device> {
    pub(crate) place: Place<D>,
    pub(crate) object: RawBuffer<D>,
    /// Offset in the driver's buffer, in bytes.
    pub(crate) offset: u64,
    /// Requested size, in bytes.
    pub(crate) size: u64,
    pub(crate) mapped: Option<Mapped>,
    pub(crate) address: Option<u64>,
    pub(crate) recycling: Option<Recycling>,
}

pub(crate) enum Item<D: Device> {
    Buffer(Box<PlacedObject<D, Buffers>>),
    Texture(Box<PlacedObject<D, Textures>>),
    Small(Box<PlacedSmallBuffer<D>>),
}

impl<D: Device> Item<D> {
    pub(crate) fn place(&self) -> &Place<D> {
        match self {
            Self::Buffer(bound) => &bound.place,
            Self::Texture(bound) => &bound.place,
            Self::Small(bound) => &bound.place,
        }
    }

    #[inline]
    pub(crate) fn note_retired(&self, device: &D) {
        match self {
            Self::Buffer(bound) => Create::<Buffers>::note_retired(device, &bound.placed.object),
            Self::Texture(bound) => Create::<Textures>::note_retired(device, &bound.placed.object),
            // The driver's buffer stays alive, because other small buffers use it.
            Self::Small(_) => {}
        }
    }

    /// Returns `true` if the object no longer matches the request that created it.
    pub(crate) fn is_altered(&self) -> bool {
        match self {
            Self::Buffer(bound) => bound.is_altered.load(Ordering::Relaxed),
            Self::Texture(bound) => bound.is_altered.load(Ordering::Relaxed),
            Self::Small(_) => false,
        }
    }

    /// Calls [`Create::recycle`] on the object, for its next owner.
    ///
    /// # Safety
    /// As [`Create::recycle`].
    pub(crate) unsafe fn rename_for_next(&mut self, device: &D) {
        // SAFETY: the caller promises that the device is done with the object.
        unsafe {
            match self {
                Self::Buffer(bound) => {
                    bound.placed.object = Create::<Buffers>::recycle(device, bound.placed.object.clone());
                }
                Self::Texture(bound) => {
                    bound.placed.object = Create::<Textures>::recycle(device, bound.placed.object.clone());
                }
                // The driver's buffer stays alive, because other small buffers use it.
                Self::Small(_) => {}
            }
        }
    }
}

/// The kinds of resources that the allocator creates: [`Buffers`] and [`Textures`].
#[allow(private_bounds, reason = "sealed: there are no other kinds")]
pub trait ResourceKind: ItemKind {
    /// Converts the object to [`RawObject`].
    fn raw<D: Device + Create<Self>>(object: <D as Create<Self>>::Object) -> RawObject<D>;
}

impl ResourceKind for Buffers {
    fn raw<D: Device + Create<Self>>(object: <D as Create<Self>>::Object) -> RawObject<D> {
        RawObject::Buffer(object)
    }
}

impl ResourceKind for Textures {
    fn raw<D: Device + Create<Self>>(object: <D as Create<Self>>::Object) -> RawObject<D> {
        RawObject::Texture(object)
    }
}

/// Properties of a kind that differ between buffers and textures.
pub(crate) trait ItemKind: Kind {
    const NUMBER: u64;
    /// The part of [`Create::parts`] that a resource caches: everything for textures, nothing for buffers.
    type Parts: Copy + PartialEq + fmt::Debug + Send + Sync;

    /// Returns `true` if two descriptions create the same object.
    fn is_same(one: &Self::Desc, other: &Self::Desc) -> bool;

    /// Returns the size of a described resource in bytes. Returns `None` if the driver decides the size.
    fn bytes(desc: &Self::Desc) -> Option<u64>;

    /// Returns the part of the device's answer that a resource caches. `said` returns the answer; buffers do not call
    /// it.
    fn parts_of(said: impl FnOnce() -> Option<TextureParts>) -> Self::Parts;

    /// Boxes `bound`, in a recycled box if there is one.
    fn boxed<D: Device + Create<Self>>(boxes: &BoxCache<D>, bound: PlacedObject<D, Self>)
    -> Box<PlacedObject<D, Self>>;

    fn item<D: Device + Create<Self>>(bound: Box<PlacedObject<D, Self>>) -> Item<D>;

    /// Returns the boxed value. If the item has another kind, returns the item as the error.
    fn of_item<D: Device + Create<Self>>(item: Item<D>) -> Result<Box<PlacedObject<D, Self>>, Item<D>>;
}

impl ItemKind for Buffers {
    const NUMBER: u64 = 0;
    type Parts = ();

    fn is_same(one: &BufferDesc, other: &BufferDesc) -> bool {
        one == other
    }

    fn bytes(desc: &BufferDesc) -> Option<u64> {
        Some(desc.size)
    }

    fn parts_of(_: impl FnOnce() -> Option<TextureParts>) -> Self::Parts {}

    #[inline(always)]
    fn boxed<D: Device + Create<Self>>(
        boxes: &BoxCache<D>,
        bound: PlacedObject<D, Self>,
    ) -> Box<PlacedObject<D, Self>> {
        boxes.buffer(bound)
    }

    fn item<D: Device + Create<Self>>(bound: Box<PlacedObject<D, Self>>) -> Item<D> {
        Item::Buffer(bound)
    }

    fn of_item<D: Device + Create<Self>>(item: Item<D>) -> Result<Box<PlacedObject<D, Self>>, Item<D>> {
        if let Item::Buffer(bound) = item { Ok(bound) } else { Err(item) }
    }
}

impl ItemKind for Textures {
    const NUMBER: u64 = 1;
    type Parts = Option<TextureParts>;

    /// Clear values are not compared: if the API's description has no clear value, only the owner knows the value.
    fn is_same(one: &TextureDesc, other: &TextureDesc) -> bool {
        *one == TextureDesc { clear_value: one.clear_value, ..*other }
    }

    fn bytes(_: &TextureDesc) -> Option<u64> {
        None
    }

    fn parts_of(said: impl FnOnce() -> Option<TextureParts>) -> Self::Parts {
        said()
    }

    #[inline(always)]
    fn boxed<D: Device + Create<Self>>(
        boxes: &BoxCache<D>,
        bound: PlacedObject<D, Self>,
    ) -> Box<PlacedObject<D, Self>> {
        boxes.texture(bound)
    }

    fn item<D: Device + Create<Self>>(bound: Box<PlacedObject<D, Self>>) -> Item<D> {
        Item::Texture(bound)
    }

    fn of_item<D: Device + Create<Self>>(item: Item<D>) -> Result<Box<PlacedObject<D, Self>>, Item<D>> {
        if let Item::Texture(bound) = item { Ok(bound) } else { Err(item) }
    }
}
