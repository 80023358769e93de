//! A per-thread free list of the boxes of handles, so that a steady frame allocates no host memory. All operations are
//! O(1).
//!
//! ```text
//!   made ◀── Box<PlacedObject> ◀── this thread's empty boxes, by kind ◀── Box<PlacedObject>, empty ◀── destroyed
//! ```

use std::mem::{self, MaybeUninit};
use std::ptr;

use ringfence_lockfree::recycled::Recycling;
use ringfence_lockfree::thread_cache::{ROOM_MAX, ThreadCaches};

use super::place::Place;
use super::placed_object::{Item, ItemKind, PlacedObject, PlacedSmallBuffer};
use crate::device::{Buffers, Create, Device, Textures};
use ringfence_arena::RawObject;

/// A box without a value.
enum EmptyBox<D: Device> {
    Buffer(Box<MaybeUninit<PlacedObject<D, Buffers>>>),
    Texture(Box<MaybeUninit<PlacedObject<D, Textures>>>),
    Small(Box<MaybeUninit<PlacedSmallBuffer<D>>>),
}

pub(crate) struct BoxCache<D: Device>(ThreadCaches<EmptyBox<D>, (), 3>);

/// Moves parts of the value out with `take`, which must drop the rest. Returns the parts and the empty box.
fn moved_out<T, P>(value: Box<T>, take: impl FnOnce(*mut T) -> P) -> (P, Box<MaybeUninit<T>>) {
    let shell = Box::into_raw(value);
    // SAFETY: the pointer comes from a box that has no other owner; the value is treated as uninitialised from now on.
    (take(shell), unsafe { Box::from_raw(shell.cast()) })
}

/// Moves object and place out of a bound object, and drops its other fields in place.
///
/// # Safety
/// The value is not used or dropped afterwards.
unsafe fn parts_of<D: Create<K> + Device, K: ItemKind>(
    bound: *mut PlacedObject<D, K>,
) -> (<D as Create<K>>::Object, Place<D>) {
    const { assert!(!mem::needs_drop::<(K::Desc, K::Parts, Recycling)>(), "what is left needs no drop") };
    // SAFETY: the caller gives up the value; each part is moved or dropped once.
    unsafe {
        let PlacedObject { placed, place, key, content, .. } = &mut *bound;
        ptr::drop_in_place(key);
        ptr::drop_in_place(content);
        (ptr::read(&placed.object), ptr::read(place))
    }
}

impl<D: Device> BoxCache<D> {
    pub(crate) fn new() -> Self {
        Self(ThreadCaches::new([ROOM_MAX; 3]))
    }

    #[inline(always)]
    pub(crate) fn buffer(&self, bound: PlacedObject<D, Buffers>) -> Box<PlacedObject<D, Buffers>> {
        let shell = if let Some(EmptyBox::Buffer(shell)) = self.0.take_item(0) { shell } else { Box::new_uninit() };
        Box::write(shell, bound)
    }

    #[inline(always)]
    pub(crate) fn texture(&self, bound: PlacedObject<D, Textures>) -> Box<PlacedObject<D, Textures>> {
        let shell = if let Some(EmptyBox::Texture(shell)) = self.0.take_item(1) { shell } else { Box::new_uninit() };
        Box::write(shell, bound)
    }

    pub(crate) fn small(&self, bound: PlacedSmallBuffer<D>) -> Box<PlacedSmallBuffer<D>> {
        let shell = if let Some(EmptyBox::Small(shell)) = self.0.take_item(2) { shell } else { Box::new_uninit() };
        Box::write(shell, bound)
    }

    /// Takes an item apart. Returns its place, and the driver's object unless other items share the object.
    #[inline]
    pub(crate) fn take_apart(&self, item: Item<D>) -> (Option<RawObject<D>>, Place<D>) {
        match item {
            Item::Buffer(bound) => {
                // SAFETY: the value is treated as uninitialised afterwards.
                let ((object, place), shell) = moved_out(bound, |bound| unsafe { parts_of(bound) });
                self.keep(0, EmptyBox::Buffer(shell));
                (Some(RawObject::Buffer(object)), place)
            }
            Item::Texture(bound) => {
                // SAFETY: as above.
                let ((object, place), shell) = moved_out(bound, |bound| unsafe { parts_of(bound) });
                self.keep(1, EmptyBox::Texture(shell));
                (Some(RawObject::Texture(object)), place)
            }
            Item::Small(bound) => {
                // SAFETY: as above.
                let (bound, shell) = moved_out(bound, |bound| unsafe { ptr::read(bound) });
                self.keep(2, EmptyBox::Small(shell));
                (None, bound.place)
            }
        }
    }

    fn keep(&self, class: usize, shell: EmptyBox<D>) {
        let Err(shell) = self.0.put_item(class, shell) else { return };
        // The cache has no room: the box is the first of its thread, or one beyond the capacity.
        self.0.wanted(class);
        drop(self.0.put_item(class, shell));
    }
}
