//! The host memory of what handles own: kept for the next, so that neither making nor destroying an object asks the
//! host for memory in steady state.
//!
//! ```text
//!   made ◀── Box<Bound> ◀── this thread's shells, by kind ◀── Box<Bound>, empty ◀── destroyed
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | all | O(1): an exchange, and the value is moved once |

use std::mem::MaybeUninit;

use ringfence_core::thread_cache::{ROOM_MAX, ThreadCaches};

use super::bound::{Bound, Item, SmallBound};
use super::memory_object::RawObject;
use super::place::Place;
use crate::device::{Buffers, Device, Textures};

/// Host memory without a value.
enum Shell<D: Device> {
    Buffer(Box<MaybeUninit<Bound<D, Buffers>>>),
    Texture(Box<MaybeUninit<Bound<D, Textures>>>),
    Small(Box<MaybeUninit<SmallBound<D>>>),
}

pub(crate) struct Shells<D: Device>(ThreadCaches<Shell<D>, (), 3>);

/// The value, and the host memory that it lay in.
fn moved_out<T>(value: Box<T>) -> (T, Box<MaybeUninit<T>>) {
    let shell = Box::into_raw(value).cast::<MaybeUninit<T>>();
    // SAFETY: the pointer is a box's, which nothing else owns from here on; the value is read once, and then counts as
    // none.
    unsafe { (shell.read().assume_init(), Box::from_raw(shell)) }
}

impl<D: Device> Shells<D> {
    pub(crate) fn new() -> Self {
        Self(ThreadCaches::new([ROOM_MAX; 3]))
    }

    pub(crate) fn buffer(&self, bound: Bound<D, Buffers>) -> Box<Bound<D, Buffers>> {
        match self.0.take_item(0) {
            Some(Shell::Buffer(shell)) => Box::write(shell, bound),
            _ => Box::new(bound),
        }
    }

    pub(crate) fn texture(&self, bound: Bound<D, Textures>) -> Box<Bound<D, Textures>> {
        match self.0.take_item(1) {
            Some(Shell::Texture(shell)) => Box::write(shell, bound),
            _ => Box::new(bound),
        }
    }

    pub(crate) fn small(&self, bound: SmallBound<D>) -> Box<SmallBound<D>> {
        match self.0.take_item(2) {
            Some(Shell::Small(shell)) => Box::write(shell, bound),
            _ => Box::new(bound),
        }
    }

    /// The driver's object, unless others share it, and where it lies.
    pub(crate) fn take_apart(&self, item: Item<D>) -> (Option<RawObject<D>>, Place<D>) {
        match item {
            Item::Buffer(bound) => {
                let (bound, shell) = moved_out(bound);
                self.keep(0, Shell::Buffer(shell));
                (Some(RawObject::Buffer(bound.placed.object)), bound.place)
            }
            Item::Texture(bound) => {
                let (bound, shell) = moved_out(bound);
                self.keep(1, Shell::Texture(shell));
                (Some(RawObject::Texture(bound.placed.object)), bound.place)
            }
            Item::Small(bound) => {
                let (bound, shell) = moved_out(bound);
                self.keep(2, Shell::Small(shell));
                (None, bound.place)
            }
        }
    }

    fn keep(&self, class: usize, shell: Shell<D>) {
        let Err(shell) = self.0.put_item(class, shell) else { return };
        // The first of its thread, or one too many.
        self.0.wanted(class);
        drop(self.0.put_item(class, shell));
    }
}
