//! Fast constants: bytes for one frame or one draw, bumped in a page (rows 004-14, 004-18).
//!
//! ```text
//!   page ─┬─ 0 ──── a ─── b ── c ────── free ──┐   next one does not fit: the page is let go of, deferred,
//!         └────────────────────────────────────┘   and another comes from the buddies
//! ```
//!
//! A thread that records has a page of its own, and asks for the next when one is full: no lock but that of the buddies,
//! once a page. Dropping the full one lets go of it.

use std::fmt;

use ringfence_core::linear::Linear;

use super::desc::{LocationKind, Route};
use super::location::BufferLocation;
use crate::device::{Device, RawBuffer};
use crate::error::AccessError;

/// A page of fast constants. Dropping it lets go of all that was put in it.
pub struct FastPage<D: Device> {
    bytes: BufferLocation<D>,
    used: Linear,
    /// Bytes of a flush: no two pushes share one, so that nothing is flushed again under the device.
    atom: u64,
}

/// Bytes in a page: for the submissions that are being recorded, until the page is let go of.
pub struct FastLocation<D: Device> {
    /// The driver's buffer.
    pub object: RawBuffer<D>,
    /// The first byte there.
    pub offset: u64,
    /// How many.
    pub size: u64,
}

impl<D: Device> FastLocation<D> {
    /// How it is let go of: not at all, its page is.
    #[must_use]
    pub const fn kind(&self) -> LocationKind {
        Route::FastPage.kind()
    }
}

impl<D: Device> FastPage<D> {
    pub(super) fn new(bytes: BufferLocation<D>, atom: u64) -> Self {
        let used = Linear::new(bytes.size());
        Self { bytes, used, atom }
    }

    /// Copies bytes in, at a multiple of `alignment` of the driver's buffer; `None` if the rest of the page does not hold
    /// them (no bytes, or an alignment that is not a power of two, it never holds).
    ///
    /// # Errors
    /// The driver failed to make them visible.
    pub fn push(&mut self, bytes: &[u8], alignment: u64) -> Result<Option<FastLocation<D>>, AccessError> {
        let size = bytes.len() as u64;
        // The page begins at a multiple of its own size, so that aligned in the page is aligned in the buffer.
        let padded = size.checked_next_multiple_of(self.atom).unwrap_or(size);
        let alignment = if alignment.is_power_of_two() { alignment.max(self.atom) } else { alignment };
        let before = self.used.mark();
        let Ok(at) = self.used.allocate(padded, alignment) else { return Ok(None) };
        self.bytes.write(at, bytes).inspect_err(|_| {
            self.used.rewind(before).expect("the page stands behind the mark");
        })?;
        Ok(Some(FastLocation { object: self.bytes.object().clone(), offset: self.bytes.offset() + at, size }))
    }

    /// Bytes that are left.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.used.remaining()
    }

    /// Bytes of the page.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.used.capacity()
    }
}

impl<D: Device> Clone for FastLocation<D> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), offset: self.offset, size: self.size }
    }
}

impl<D: Device> fmt::Debug for FastLocation<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FastLocation({:?} from {}, {} bytes)", self.object, self.offset, self.size)
    }
}

impl<D: Device> fmt::Debug for FastPage<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FastPage({:?}, {} bytes left)", self.bytes, self.remaining())
    }
}
