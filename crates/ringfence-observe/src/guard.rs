//! Guards: bytes before and after the bytes of a resource, in the same range. No resource owns them. They are written
//! when the range is created, and compared later.
//!
//! ```text
//!   offset of the range          offset of its owner's bytes                     end
//!   │ front: a multiple of the   │ size, in whole atoms               │ back:     │
//!   │ alignment, at least margin │                                    │ margin    │
//! ```
//!
//! The host accesses guards through the mapping of the whole memory object, or through a buffer over it
//! ([`Watched::guards`]). A damaged guard is restored.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::debugging::Side;
use crate::device::{DeviceError, Mapped, Requirements};
use crate::watched::Watched;

const GUARD: u8 = 0x9e;

/// Sizes of the guards of a range, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Margins {
    /// Size of the guard before the owner's bytes.
    pub front: u64,
    /// Size of the guard after them.
    pub back: u64,
}

impl Margins {
    /// Returns the margins for these requirements, which are already padded to `atom`.
    #[inline]
    #[must_use]
    pub fn of(margin_bytes: u32, needs: &Requirements, atom: u64) -> Self {
        if margin_bytes == 0 {
            return Self::default();
        }
        let margin = u64::from(margin_bytes).next_multiple_of(16.max(atom));
        Self { front: margin.next_multiple_of(needs.alignment), back: margin }
    }

    /// Returns the requirements of the range with its guards.
    #[inline]
    #[must_use]
    pub fn around(self, needs: Requirements) -> Requirements {
        Requirements { size: needs.size.saturating_add(self.front + self.back), ..needs }
    }

    /// Returns the bytes between the guards of a range of `size` bytes.
    #[must_use]
    pub fn inside(self, size: u64) -> u64 {
        size - self.front - self.back
    }
}

/// The guards of a live range, in bytes of its memory object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Guards {
    pub(crate) front: Range<u64>,
    pub(crate) back: Range<u64>,
}

/// A damaged guard.
pub(crate) struct Damage {
    pub(crate) side: Side,
    pub(crate) distance_bytes: u64,
    pub(crate) damaged_bytes: u64,
    pub(crate) found: u8,
}

impl Guards {
    /// Returns the guards around the owner's bytes: `size` bytes at `offset`. Returns `None` if there are no margins.
    pub(crate) fn around(margins: Margins, offset: u64, size: u64) -> Option<Self> {
        let Margins { front, back } = margins;
        let end = offset + size;
        (back != 0).then(|| Self { front: offset - front..offset, back: end..end + back })
    }

    fn sides(&self) -> [(Side, &Range<u64>); 2] {
        [(Side::Before, &self.front), (Side::After, &self.back)]
    }

    /// Writes both guards.
    ///
    /// # Errors
    /// A flush failed. The device sees other bytes there, so the guards must not be compared.
    ///
    /// # Safety
    /// The memory is alive and mapped at `base`, and belongs to `context`; no resource owns the guards' bytes.
    pub(crate) unsafe fn write<M: Watched>(
        &self,
        context: &M::Context,
        memory: &M,
        base: Mapped,
    ) -> Result<(), DeviceError> {
        for (_, range) in self.sides() {
            // SAFETY: as the caller promises.
            unsafe { fill(context, memory, base, range.clone(), GUARD) }?;
        }
        Ok(())
    }

    /// Compares both guards, each in the host's view and, if that view is intact, in the device's view. Restores
    /// damaged guards. Returns the damages, and `true` if both guards are now intact. If the result is `false`, the
    /// guards must not be compared any more.
    ///
    /// # Safety
    /// As for [`Guards::write`].
    pub(crate) unsafe fn check<M: Watched>(
        &self,
        context: &M::Context,
        memory: &M,
        base: Mapped,
    ) -> (Vec<Damage>, bool) {
        let (mut found, mut is_mended) = (Vec::new(), true);
        for (side, range) in self.sides() {
            // SAFETY: as the caller promises.
            let bytes = unsafe { seen(context, memory, base, range) };
            if let Some(damage) = damage(side, &bytes) {
                found.push(damage);
                // SAFETY: as above.
                is_mended &= unsafe { fill(context, memory, base, range.clone(), GUARD) }.is_ok();
            }
        }
        (found, is_mended)
    }
}

/// Fills mapped bytes, for the host and for the device.
///
/// # Errors
/// The flush failed or panicked.
///
/// # Safety
/// The memory is alive and mapped at `base`, and belongs to `context`; the range is inside it, in whole atoms; no other
/// code uses its bytes.
pub(crate) unsafe fn fill<M: Watched>(
    context: &M::Context,
    memory: &M,
    base: Mapped,
    range: Range<u64>,
    value: u8,
) -> Result<(), DeviceError> {
    let bytes = range.end - range.start;
    // SAFETY: the range is inside the mapping, and the caller promises that no other code uses it.
    unsafe { base.add(range.start).as_ptr().write_bytes(value, bytes as usize) };
    // The resource is already created, and debugging must not fail its request: if the program's own device panics in
    // the flush, the flush counts as failed.
    let flushed = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as the caller promises.
        unsafe { memory.flush(context, range) }
    }));
    flushed.unwrap_or(Err(DeviceError::Other(-1)))
}

/// Returns the bytes of a guard: in the host's view if that view shows a damage, otherwise in the device's view.
///
/// # Safety
/// As for [`fill`].
unsafe fn seen<M: Watched>(context: &M::Context, memory: &M, base: Mapped, range: &Range<u64>) -> Vec<u8> {
    let size = (range.end - range.start) as usize;
    // SAFETY: inside the mapping, as the caller promises.
    let first = unsafe { base.add(range.start) };
    // Volatile, because a faulty program may write here on any thread.
    // SAFETY: `size` mapped bytes follow `first`.
    let mut bytes: Vec<u8> = (0..size).map(|at| unsafe { first.as_ptr().add(at).read_volatile() }).collect();
    let by_host = bytes.iter().any(|byte| *byte != GUARD);
    if !by_host {
        let mut device_side = vec![GUARD; size];
        // SAFETY: the memory is mapped at `first` for the byte at the range's start; the range is inside.
        let read = || unsafe { memory.read_device_side(context, range.start, first, &mut device_side) };
        // The range is about to be freed, and a panic must not prevent that.
        if catch_unwind(AssertUnwindSafe(read)).unwrap_or(false) {
            bytes = device_side;
        }
    }
    bytes
}

/// Returns the damage of a guard. Distances are measured from the owner's bytes. Returns `None` if the guard is intact.
fn damage(side: Side, bytes: &[u8]) -> Option<Damage> {
    let wrong = |byte: &&u8| **byte != GUARD;
    let damaged_bytes = bytes.iter().filter(wrong).count() as u64;
    let nearest = match side {
        Side::After => bytes.iter().enumerate().find(|(_, byte)| wrong(byte)),
        Side::Before => bytes.iter().rev().enumerate().find(|(_, byte)| wrong(byte)),
    };
    nearest.map(|(at, byte)| Damage { side, distance_bytes: at as u64, damaged_bytes, found: *byte })
}

#[cfg(test)]
mod tests;
