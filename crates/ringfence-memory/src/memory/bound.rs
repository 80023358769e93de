//! A driver's object that is bound to its memory, with what is known of it: what a handle owns, what waits for the
//! device after that, and what is recycled then.
//!
//! ```text
//!   Resource ── owns ──▶ Box<Bound> ── drop ──▶ retired ── the device is done with it ──┬─▶ destroyed
//!       ▲                                                                               └─▶ Recycled ─┐
//!       └───────────────────────────── the next request for the same ─────────────────────────────────┘
//! ```
//!
//! It lies on the host's heap from its making to its destruction, and what moves is its pointer.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ringfence_lockfree::delivery::Content;
use ringfence_lockfree::recycled::Recycling;

use super::location::Location;
use super::memory_object::RawObject;
use super::place::Place;
use super::shells::Shells;
use crate::device::record::TextureParts;
use crate::device::{
    BufferDesc, Buffers, Create, Device, InfoKey, Kind, Mapped, Placed, RawBuffer, TextureDesc, Textures,
};

pub(crate) struct Bound<D: Create<K> + Device, K: ItemKind> {
    pub(crate) placed: Placed<<D as Create<K>>::Object>,
    pub(crate) place: Place<D>,
    /// What its memory needs, as the driver measured. A buffer may have less.
    pub(crate) memory_bytes: u64,
    pub(crate) location: Location,
    pub(crate) has_address: bool,
    /// Bytes by which it is larger than its owner has described it.
    pub(crate) added: u64,
    pub(crate) user_data: u64,
    /// What it was made as, where that can be said portably.
    pub(crate) desc: Option<K::Desc>,
    /// Whether that says all of it.
    pub(crate) is_desc_full: bool,
    /// What tells its description from others where it cannot be said portably. Seldom there.
    pub(crate) key: Option<Box<InfoKey>>,
    /// What all of a texture is, as far as that can be said.
    pub(crate) parts: K::Parts,
    /// Its memory's priority is another than was asked for.
    pub(crate) is_altered: AtomicBool,
    /// There iff it may be recycled.
    pub(crate) recycling: Option<Recycling>,
    /// What is known of copies to it, if there were any.
    pub(crate) content: OnceLock<Arc<Content>>,
}

impl<D: Create<K> + Device, K: ItemKind> Bound<D, K> {
    /// Forgets the copies to its last owner's resource.
    #[inline]
    pub(crate) fn renew_content(&mut self) {
        let Some(content) = self.content.get_mut() else { return };
        match Arc::get_mut(content) {
            Some(content) => *content = Content::default(),
            None => _ = self.content.take(),
        }
    }
}

/// A range of a buffer that small ones share, as what a handle owns.
pub(crate) struct SmallBound<D: Device> {
    pub(crate) place: Place<D>,
    pub(crate) object: RawBuffer<D>,
    /// In the driver's buffer.
    pub(crate) offset: u64,
    /// Bytes that were asked for.
    pub(crate) size: u64,
    pub(crate) mapped: Option<Mapped>,
    pub(crate) address: Option<u64>,
    pub(crate) recycling: Option<Recycling>,
}

pub(crate) enum Item<D: Device> {
    Buffer(Box<Bound<D, Buffers>>),
    Texture(Box<Bound<D, Textures>>),
    Small(Box<SmallBound<D>>),
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
            // The driver's buffer goes on, with what others have in it.
            Self::Small(_) => {}
        }
    }

    /// Whether it is no longer what its description says.
    pub(crate) fn is_altered(&self) -> bool {
        match self {
            Self::Buffer(bound) => bound.is_altered.load(Ordering::Relaxed),
            Self::Texture(bound) => bound.is_altered.load(Ordering::Relaxed),
            Self::Small(_) => false,
        }
    }

    /// Has the device name it anew, for its next owner.
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
                // The driver's buffer goes on, with what others have in it.
                Self::Small(_) => {}
            }
        }
    }
}

/// The kinds that the allocator makes: [`Buffers`] and [`Textures`].
#[allow(private_bounds, reason = "sealed: there are no other kinds")]
pub trait ResourceKind: ItemKind {
    /// The object as one of either kind.
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

/// What sets the kinds apart.
pub(crate) trait ItemKind: Kind {
    const NUMBER: u64;
    /// What a resource keeps of [`Create::parts`]: all for textures, nothing for buffers.
    type Parts: Copy + PartialEq + fmt::Debug + Send + Sync;

    /// Whether two descriptions make the same object.
    fn is_same(one: &Self::Desc, other: &Self::Desc) -> bool;

    /// The bytes of what a description makes; `None` where it leaves them to the driver.
    fn bytes(desc: &Self::Desc) -> Option<u64>;

    /// What a resource keeps of what the device says.
    fn parts_of(said: impl FnOnce() -> Option<TextureParts>) -> Self::Parts;

    /// With host memory that another had before, if there is some.
    fn boxed<D: Device + Create<Self>>(shells: &Shells<D>, bound: Bound<D, Self>) -> Box<Bound<D, Self>>;

    fn item<D: Device + Create<Self>>(bound: Box<Bound<D, Self>>) -> Item<D>;

    /// Gives the item back if it is of another kind.
    fn of_item<D: Device + Create<Self>>(item: Item<D>) -> Result<Box<Bound<D, Self>>, Item<D>>;
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
    fn boxed<D: Device + Create<Self>>(shells: &Shells<D>, bound: Bound<D, Self>) -> Box<Bound<D, Self>> {
        shells.buffer(bound)
    }

    fn item<D: Device + Create<Self>>(bound: Box<Bound<D, Self>>) -> Item<D> {
        Item::Buffer(bound)
    }

    fn of_item<D: Device + Create<Self>>(item: Item<D>) -> Result<Box<Bound<D, Self>>, Item<D>> {
        if let Item::Buffer(bound) = item { Ok(bound) } else { Err(item) }
    }
}

impl ItemKind for Textures {
    const NUMBER: u64 = 1;
    type Parts = Option<TextureParts>;

    /// What it is cleared to as a rule is known to the owner alone where the API knows of no such value.
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
    fn boxed<D: Device + Create<Self>>(shells: &Shells<D>, bound: Bound<D, Self>) -> Box<Bound<D, Self>> {
        shells.texture(bound)
    }

    fn item<D: Device + Create<Self>>(bound: Box<Bound<D, Self>>) -> Item<D> {
        Item::Texture(bound)
    }

    fn of_item<D: Device + Create<Self>>(item: Item<D>) -> Result<Box<Bound<D, Self>>, Item<D>> {
        if let Item::Texture(bound) = item { Ok(bound) } else { Err(item) }
    }
}
