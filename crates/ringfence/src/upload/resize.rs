//! How a ring grows when it is full and shrinks when it was mostly empty for long.
//!
//! ```text
//!   capacity   64 KiB ──full──▶ 128 KiB ──full──▶ 256 KiB (cap) ──full──▶ waits
//!                 ▲                 ▲────────────────│
//!                 └─────────────────┘   in so many calls of reclaim in a row never more than a quarter in use
//! ```
//!
//! Growing at full and shrinking by half at a quarter leaves a factor of two between them, so that no load makes a ring
//! go up and down. The buffer that is left is let go of like any other: it is destroyed once every submission that had
//! begun by then is complete, and no thread writes to it any more. What a ring holds together with the buffers that it
//! left and that wait is thus at most twice its cap.
//!
//! | operation | cost |
//! |---|---|
//! | a resize | a buffer made by the allocator, outside of the ring's lock |
//! | looking whether it is time to shrink | O(1), once a reclaim |

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringfence_core::ring::Ring;
use ringfence_core::sync::SyncSet;

use super::pin::Pin;
use super::segment::Segment;
use super::state::{Config, Lease, Request, RingState};
use super::{UploadError, WhenFull};
use crate::device::Device;
use ringfence_memory::Buffer;
use ringfence_memory::Error;
use ringfence_memory::extend::asking;

/// How long a ring has been mostly empty.
#[derive(Default)]
pub(super) struct Calm {
    /// The most bytes in use since the count began.
    peak: u64,
    /// Calls of reclaim since then.
    ticks: u32,
}

impl Calm {
    /// Notes how many bytes are in use.
    pub(super) fn note(&mut self, used: u64) {
        self.peak = self.peak.max(used);
    }

    /// Counts a call of reclaim; says whether it is time to shrink.
    pub(super) fn tick<D: Device>(&mut self, config: &Config<D>, capacity: u64) -> bool {
        let WhenFull::Grow { shrink_after, .. } = config.desc.when_full else { return false };
        if self.peak > capacity / 4 || capacity <= config.desc.capacity {
            *self = Self::default();
            return false;
        }
        self.ticks = self.ticks.saturating_add(1);
        self.ticks >= shrink_after.max(1)
    }
}

/// What a ring that is to grow came to.
enum Grown<D: Device> {
    /// Another thread was faster.
    Already,
    /// It has all that it may have.
    AtCap,
    /// A buffer of so many bytes, to follow that of this generation.
    By(Buffer<D>, u64, u64),
}

impl<D: Device> RingState<D> {
    /// Grows until the request fits; at the cap, or where there is no memory, waits for the device instead.
    pub(super) fn grow_or_wait(
        &self,
        users: &SyncSet,
        request: Request,
        pin: Option<&Pin>,
        timeout: Duration,
    ) -> Result<Lease<D>, UploadError> {
        loop {
            let refused = match self.grow(request.size) {
                Ok(true) => None,
                Ok(false) => return self.wait_for_room(users, request, pin, timeout),
                Err(error) => Some(error),
            };
            if let Some(lease) = self.try_reserve(users, request, pin)? {
                return Ok(lease);
            }
            let Some(refused) = refused else { continue };
            return match self.wait_for_room(users, request, pin, timeout) {
                Err(UploadError::Full { .. }) => Err(refused.into()),
                result => result,
            };
        }
    }

    /// Gives the ring a buffer of at least twice the size, or what the cap allows; `false` if it is there already.
    fn grow(&self, needed: u64) -> Result<bool, Error> {
        let before = self.capacity();
        let made = asking(|| {
            let _resizing = self.resizing.lock();
            let (capacity, generation) = self.present();
            if capacity > before {
                return Ok(Grown::Already); // another thread was faster
            }
            let wanted = capacity.saturating_mul(2).max(needed.checked_next_power_of_two().unwrap_or(needed));
            let wanted = wanted.min(self.config.capacity_max());
            if wanted <= capacity {
                return Ok(Grown::AtCap);
            }
            Ok(Grown::By(Segment::buffer(&self.memory, &self.config, wanted)?, wanted, generation))
        });
        match made? {
            Grown::AtCap => return Ok(false),
            Grown::Already => {}
            Grown::By(buffer, capacity, generation) => {
                if self.exchange(buffer, capacity, generation)? {
                    self.figures.grow_count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(true)
    }

    /// Halves the ring, if it still is time to.
    pub(super) fn shrink(&self) {
        let made = {
            let Some(_resizing) = self.resizing.try_lock() else { return };
            let (capacity, generation) = self.present();
            let wanted = (capacity / 2).max(self.config.desc.capacity);
            if wanted >= capacity {
                return;
            }
            let buffer = Segment::buffer(&self.memory, &self.config, wanted);
            buffer.map(|buffer| (buffer, wanted, generation))
        };
        // Without memory for the smaller one there is nothing to gain now.
        if let Ok((buffer, capacity, generation)) = made
            && self.exchange(buffer, capacity, generation) == Ok(true)
        {
            self.figures.shrink_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Puts an empty buffer of `capacity` bytes in the place of that of `generation`, which goes once nothing uses it. Says
    /// whether it did: not if another thread was faster.
    fn exchange(&self, buffer: Buffer<D>, capacity: u64, generation: u64) -> Result<bool, Error> {
        // The program's code may run here: no lock is held, so that it may come by here again.
        let segment = Segment::around(buffer, &self.memory, &self.config, capacity, generation + 1)?;
        let mut segment = Arc::new(segment);
        let is_first = {
            let mut books = self.books.lock();
            let is_first = books.segment.generation == generation;
            if is_first {
                books.past_high_water = books.high_water();
                books.ring = Ring::new(capacity);
                books.calm = Calm::default();
                self.generation.store(generation + 1, Ordering::Release);
                std::mem::swap(&mut books.segment, &mut segment);
            }
            is_first
        };
        // Retired here, outside of the lock, unless a writer still holds it.
        drop(segment);
        Ok(is_first)
    }

    /// How large the present buffer is, and which one.
    fn present(&self) -> (u64, u64) {
        let books = self.books.lock();
        (books.ring.capacity(), books.segment.generation)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.books.lock().ring.capacity()
    }
}
