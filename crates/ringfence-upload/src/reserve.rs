//! Reservation of bytes in a ring. If the ring is full, a reservation reads the timelines, then waits or grows the
//! ring. A ring shrinks after many calls of `reclaim` with little use.
//!
//! ```text
//!   try ──fits──▶ reserved
//!    │ full
//!    ▼
//!   poll: free complete frames ──fits──▶ reserved
//!    │ still full
//!    ├── Fail ──────────▶ Full
//!    ├── Grow ──▶ a buffer of twice the size, created without the lock; at the cap, or without memory: as Wait
//!    └── Wait ──▶ the oldest submission only, without the lock; repeated until it fits or the timeout expires
//! ```
//!
//! ```text
//!   capacity   64 KiB ──full──▶ 128 KiB ──full──▶ 256 KiB (cap) ──full──▶ waits
//!                 ▲                 ▲────────────────│
//!                 └─────────────────┘   after `shrink_after` calls of reclaim with at most a quarter in use
//! ```
//!
//! A ring grows when it is full, and is halved when at most a quarter was in use. A steady load does not alternate
//! between growth and shrinking: a load that fills a ring takes more than a quarter of the larger ring, and a load of
//! at most a quarter takes at most half of the smaller ring.
//!
//! A replaced buffer is kept until the frames that were open at its replacement are complete, because tables of these
//! frames may have views of it. After that, it is released as soon as no thread writes to it. Each growth at least
//! doubles the ring, except a growth that reaches the cap. Therefore the ring's buffer and the replaced buffers that
//! are not freed yet take less than three times the cap together, unless the ring has shrunk meanwhile.
//!
//! | operation | cost |
//! |---|---|
//! | a resize | the creation of a buffer by the allocator, without the ring's lock |
//! | check for shrinking | O(1), once per call of `reclaim` |

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringfence_core::ring::Ring;
use ringfence_core::sync::{Progress, SyncSet};

use super::fill::Filling;
use super::segment::{Kept, Segment};
use super::state::{Request, Reserved, RingState, ShrinkTimer};
use super::{UploadError, WhenFull};
use crate::device::Device;
use ringfence_lockfree::pin::Pin;
use ringfence_memory::extend::{Passed, ReclaimRing, WaitError, is_locked, retry_after_eviction};
use ringfence_memory::memory::RingSnapshot;
use ringfence_memory::{Buffer, Error};

/// Result of an attempt to create a larger buffer.
enum Grown<D: Device> {
    /// Another thread has grown the ring meanwhile.
    Already,
    /// The ring has its largest capacity.
    AtCap,
    /// The new buffer, its size in bytes, and the generation of the buffer that it replaces.
    By(Buffer<D>, u64, u64),
}

impl<D: Device> RingState<D> {
    /// Reserves bytes for `users`, as the [module](self) describes. `pin` is the caller's own pin, if it has one.
    pub(super) fn reserve(
        &self,
        users: &SyncSet,
        request: Request,
        pin: Option<&Pin>,
    ) -> Result<Reserved<D>, UploadError> {
        if users.is_empty() {
            return Err(UploadError::NoFrame);
        }
        self.shared().check_lost()?;
        if let Some(reserved) = self.try_reserve(users, request, pin)? {
            return Ok(reserved);
        }
        self.poll()?;
        if let Some(reserved) = self.try_reserve(users, request, pin)? {
            return Ok(reserved);
        }
        match self.config.desc.when_full {
            WhenFull::Fail => Err(self.full(request.size, None)),
            WhenFull::Wait { timeout } => self.wait_for_room(users, request, pin, timeout),
            WhenFull::Grow { timeout, .. } => self.grow_or_wait(users, request, pin, timeout),
        }
    }

    /// Waits for the oldest submission, again and again, until the request fits or the timeout expires. Holds no lock
    /// during a wait.
    pub(super) fn wait_for_room(
        &self,
        users: &SyncSet,
        request: Request,
        pin: Option<&Pin>,
        timeout: Duration,
    ) -> Result<Reserved<D>, UploadError> {
        let started = Instant::now();
        let deadline = started.checked_add(timeout);
        loop {
            let Some(oldest) = self.books.lock().ring.oldest().cloned() else {
                // Another thread has just freed all bytes.
                match self.try_reserve(users, request, pin)? {
                    Some(reserved) => return Ok(reserved),
                    None if self.books.lock().ring.is_empty() => return Err(self.full(request.size, None)),
                    None => continue,
                }
            };
            self.wait_for(&oldest, deadline, request.size, started)?;
            let held_up = self.books.lock().release(&mut |users| *users == oldest);
            if let Some(reserved) = self.try_reserve(users, request, pin)? {
                return Ok(reserved);
            }
            if held_up {
                self.wait_for_a_thread(request.size, deadline, started)?;
            }
        }
    }

    fn wait_for(
        &self,
        oldest: &SyncSet,
        deadline: Option<Instant>,
        size: u64,
        started: Instant,
    ) -> Result<(), UploadError> {
        let waiting = Instant::now();
        let waited = self.shared().wait(oldest, deadline);
        // Unsubmitted points fail immediately. A dropped frame causes a wait only if there is a deadline.
        let is_wait = match waited {
            Err(WaitError::NotSubmitted(_)) => false,
            Err(WaitError::Unresolved(_)) => deadline.is_some(),
            _ => true,
        };
        if is_wait {
            self.figures.wait_count.fetch_add(1, Ordering::Relaxed);
            self.figures.wait_ns.fetch_add(nanoseconds(waiting.elapsed()), Ordering::Relaxed);
        }
        match waited {
            Ok(()) => Ok(()),
            Err(WaitError::NotSubmitted(point) | WaitError::Unresolved(point)) => Err(self.full(size, Some(point))),
            Err(WaitError::Timeout) => Err(UploadError::Timeout { waited_ns: nanoseconds(started.elapsed()) }),
            Err(WaitError::Device(error)) => Err(error.into()),
        }
    }

    /// Yields to the thread that has pinned the oldest bytes, which the device no longer uses. Fails if waiting would
    /// not help, because the pin belongs to a readback result or possibly to this thread, or if the deadline has
    /// passed.
    fn wait_for_a_thread(&self, size: u64, deadline: Option<Instant>, started: Instant) -> Result<(), UploadError> {
        if !self.config.short_pins {
            return Err(UploadError::Unread { size, capacity: self.books.lock().ring.capacity() });
        }
        if Filling::is_under_way() {
            // The pin may belong to this thread: its copy may have called this function again.
            return Err(self.full(size, None));
        }
        if deadline.is_some_and(|at| Instant::now() >= at) {
            return Err(UploadError::Timeout { waited_ns: nanoseconds(started.elapsed()) });
        }
        // Another thread is copying, for a frame that was submitted during the copy.
        std::thread::yield_now();
        Ok(())
    }

    /// Grows until the request fits. At the largest capacity, or without memory, waits for the device instead.
    pub(super) fn grow_or_wait(
        &self,
        users: &SyncSet,
        request: Request,
        pin: Option<&Pin>,
        timeout: Duration,
    ) -> Result<Reserved<D>, UploadError> {
        loop {
            let failure = match self.grow(request.size) {
                Ok(true) => None,
                Ok(false) => return self.wait_for_room(users, request, pin, timeout),
                Err(error) => Some(error),
            };
            if let Some(reserved) = self.try_reserve(users, request, pin)? {
                return Ok(reserved);
            }
            let Some(failure) = failure else { continue };
            return match self.wait_for_room(users, request, pin, timeout) {
                Err(UploadError::Full { .. }) => Err(failure.into()),
                result => result,
            };
        }
    }

    /// Replaces the ring's buffer with one of at least twice the size and at least `needed` bytes, but at most the cap.
    /// Returns `false` if the ring is at the cap, and `true` if this or another thread has grown it.
    fn grow(&self, needed: u64) -> Result<bool, Error> {
        let before = self.capacity();
        let made = retry_after_eviction(|| {
            let _resizing = self.resizing.lock();
            let (capacity, generation) = self.present();
            if capacity > before {
                return Ok(Grown::Already); // another thread has grown the ring
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

    /// Halves the ring, but not below its initial capacity.
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
        // Without memory for the smaller buffer, the ring keeps the larger one.
        if let Ok((buffer, capacity, generation)) = made
            && self.exchange(buffer, capacity, generation) == Ok(true)
        {
            self.figures.shrink_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Replaces buffer `generation` with an empty one of `capacity` bytes and retires the old one. Returns `false` if
    /// another thread has replaced it already.
    fn exchange(&self, buffer: Buffer<D>, capacity: u64, generation: u64) -> Result<bool, Error> {
        // This may call the program's code, which may call this function again, so no lock is held.
        let segment = Segment::around(buffer, &self.memory, &self.config, capacity, generation + 1)?;
        let mut segment = Arc::new(segment);
        let is_first = {
            let mut books = self.books.lock();
            let is_first = books.segment.generation == generation;
            if is_first {
                books.past_high_water = books.high_water();
                books.ring = Ring::for_frames(capacity);
                books.shrink_timer = ShrinkTimer::default();
                self.generation.store(generation + 1, Ordering::Release);
                std::mem::swap(&mut books.segment, &mut segment);
            }
            is_first
        };
        if is_first {
            self.keep(segment);
        }
        Ok(is_first)
    }

    /// Keeps a replaced buffer until the frames that are open now are complete. If no frame is open, the buffer is
    /// retired here, without the lock, unless a writer still uses it.
    fn keep(&self, segment: Arc<Segment<D>>) {
        let mut open = SyncSet::new();
        self.shared().open(&mut open);
        if !open.is_empty() {
            let kept = Kept::new(open, segment);
            self.books.lock().exchanged.add(kept);
        }
    }

    /// Returns the capacity and the generation of the present buffer.
    fn present(&self) -> (u64, u64) {
        let books = self.books.lock();
        (books.ring.capacity(), books.segment.generation)
    }
}

impl<D: Device> ReclaimRing for RingState<D> {
    fn reclaim(&self, passed: &Passed, device_lost: bool, is_short: bool) -> bool {
        let mut books = self.books.lock();
        let mut has_passed = |users: &SyncSet| device_lost || passed.passed_all(users);
        books.release(&mut has_passed);
        let are_over = books.exchanged.note(&mut has_passed);
        let (capacity, used) = (books.ring.capacity(), books.ring.used());
        books.shrink_timer.note(used);
        let should_shrink = !is_short && books.shrink_timer.tick(&self.config, capacity);
        should_shrink || are_over
    }

    fn upkeep(&self) {
        // The program's code drops a buffer's companion and creates the next one. If this thread holds a lock, the next
        // reclaim tries again.
        if is_locked() {
            return;
        }
        let exchanged = || self.books.lock().exchanged.take();
        std::iter::from_fn(exchanged).for_each(drop);
        let should_shrink = self.books.lock().shrink_timer.is_over(&self.config);
        if should_shrink {
            self.shrink();
        }
    }

    fn figures(&self) -> Option<RingSnapshot> {
        Some(self.now())
    }

    fn name(&self) -> &str {
        &self.config.name
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_nanoseconds_up_to_the_largest_number() {
        assert_eq!([Duration::ZERO, Duration::from_micros(3)].map(nanoseconds), [0, 3000]);
        assert_eq!([Duration::MAX, Duration::from_nanos(u64::MAX)].map(nanoseconds), [u64::MAX; 2]);
    }
}
