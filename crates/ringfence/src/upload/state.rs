//! What the handles of a ring share: its bookkeeping under one short lock, and how room is found.
//!
//! ```text
//!   try ──fits──▶ lease
//!    │ full
//!    ▼
//!   poll: what is complete goes ──fits──▶ lease
//!    │ still full
//!    ├── Fail ──────────▶ Full
//!    ├── Grow ──▶ a buffer of twice the size, made without the lock; at the cap, or without memory: as Wait
//!    └── Wait ──▶ the oldest submission only, without the lock; again and again until it fits or the time is over
//! ```

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ringfence_core::range::Invalid;
use ringfence_core::ring::{Ring, RingError, RingRange};
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};

use super::pin::{HeldPin, Pin, Pins, release, tail};
use super::resize::Calm;
use super::ring::Filling;
use super::segment::Segment;
use super::{UploadDesc, UploadError, WhenFull};
use crate::device::{Device, DeviceError};
use ringfence_memory::Allocator;
use ringfence_memory::Buffer;
use ringfence_memory::Error;
use ringfence_memory::extend::Shared;
use ringfence_memory::extend::{Completed, ReclaimRing};
use ringfence_memory::extend::{Lock, is_locked};
use ringfence_memory::extend::{Passed, WaitError};
use ringfence_memory::memory::RingSnapshot;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// What has to fit, in bytes.
    pub(super) size: u64,
    /// What is rather taken, if there is room: a page. At least `size`.
    pub(super) page: u64,
    /// A power of two.
    pub(super) alignment: u64,
}

impl Request {
    pub(super) const fn exactly(size: u64, alignment: u64) -> Self {
        Self { size, page: size, alignment }
    }
}

/// Bytes of a ring that one thread may write, as long as the pin that was set for it stands.
pub(super) struct Lease<D: Device> {
    pub(super) segment: Arc<Segment<D>>,
    pub(super) range: RingRange,
    /// There iff the caller brought no pin of its own.
    pub(super) pin: Option<HeldPin>,
}

/// How a ring was made, and what follows from it.
pub(super) struct Config<D: Device> {
    pub(super) name: String,
    pub(super) desc: UploadDesc<'static>,
    /// Whether pins stand only for as long as a copy takes. Those of results wait for the program to read them.
    pub(super) short_pins: bool,
    /// Makes what goes with each buffer: views of its slots.
    pub(super) pair: Option<Pair<D>>,
}

/// Makes what goes with a buffer of so many bytes for as long as it lives.
pub(super) type Pair<D> = Box<dyn Fn(&Buffer<D>, u64) -> Result<Paired, Error> + Send + Sync>;
/// What goes with a buffer; only who asked for it knows what it is.
pub(super) type Paired = Box<dyn Any + Send + Sync>;

impl<D: Device> Config<D> {
    pub(super) fn capacity_max(&self) -> u64 {
        match self.desc.when_full {
            WhenFull::Grow { capacity_max, .. } => capacity_max.max(self.desc.capacity),
            WhenFull::Wait { .. } | WhenFull::Fail => self.desc.capacity,
        }
    }
}

/// The part under the lock.
pub(super) struct Books<D: Device> {
    pub(super) ring: Ring<SyncSet>,
    pub(super) segment: Arc<Segment<D>>,
    pub(super) pins: Pins,
    /// The high-water mark of the buffers before this one.
    pub(super) past_high_water: u64,
    pub(super) calm: Calm,
}

/// What the handles of a ring share.
pub(crate) struct RingState<D: Device> {
    pub(super) memory: Allocator<D>,
    pub(super) config: Config<D>,
    /// Which buffer the ring has now: [`Segment::generation`], for whoever wants to know without the lock.
    pub(super) generation: AtomicU64,
    pub(super) books: Mutex<Books<D>>,
    /// Held while a new buffer is made for the ring, so that one thread does; not while the program's code runs, so that
    /// there may be a second one after all. Never taken under `books`.
    pub(super) resizing: Lock<()>,
    /// What polling works with, kept so that it makes nothing.
    polled: Mutex<Passed>,
    pub(super) figures: Figures,
}

/// Counters. Relaxed: they order nothing.
#[derive(Default)]
pub(super) struct Figures {
    wait_count: AtomicU64,
    wait_ns: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) grow_count: AtomicU64,
    pub(super) shrink_count: AtomicU64,
}

impl<D: Device> RingState<D> {
    pub(super) fn new(
        memory: &Allocator<D>,
        desc: UploadDesc<'_>,
        short_pins: bool,
        pair: Option<Pair<D>>,
    ) -> Result<Arc<Self>, Error> {
        let config = Config { name: desc.name.to_owned(), desc: UploadDesc { name: "", ..desc }, short_pins, pair };
        let buffer = Segment::buffer(memory, &config, desc.capacity)?;
        let segment = Segment::around(buffer, memory, &config, desc.capacity, 0)?;
        let books = Books {
            ring: Ring::new(desc.capacity),
            segment: Arc::new(segment),
            pins: Pins::default(),
            past_high_water: 0,
            calm: Calm::default(),
        };
        let state = Arc::new(Self {
            memory: memory.clone(),
            config,
            generation: AtomicU64::new(0),
            books: Mutex::new(books),
            resizing: Lock::new(()),
            polled: Mutex::new(Passed::default()),
            figures: Figures::default(),
        });
        let listed: Arc<dyn ReclaimRing> = state.clone();
        memory.shared().add_ring(&listed);
        Ok(state)
    }

    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        self.memory.shared()
    }

    /// Its figures with its name.
    pub(super) fn shown(&self) -> RingSnapshot {
        RingSnapshot { name: self.config.name.clone(), ..self.now() }
    }

    /// Its figures without its name.
    fn now(&self) -> RingSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let books = self.books.lock();
        RingSnapshot {
            name: String::new(),
            capacity_bytes: books.ring.capacity(),
            used_bytes: books.ring.used(),
            high_water_bytes: books.high_water(),
            submission_count: books.ring.submissions() as u64,
            wait_count: get(&self.figures.wait_count),
            wait_ns: get(&self.figures.wait_ns),
            written_bytes: get(&self.figures.written_bytes),
            grow_count: get(&self.figures.grow_count),
            shrink_count: get(&self.figures.shrink_count),
        }
    }

    /// Finds room for `users`, as the [module](self) shows. `pin` is the caller's own, if it has one.
    pub(super) fn reserve(
        &self,
        users: &SyncSet,
        request: Request,
        pin: Option<&Pin>,
    ) -> Result<Lease<D>, UploadError> {
        if users.is_empty() {
            return Err(UploadError::NoFrame);
        }
        self.shared().check_lost()?;
        if let Some(lease) = self.try_reserve(users, request, pin)? {
            return Ok(lease);
        }
        self.poll()?;
        if let Some(lease) = self.try_reserve(users, request, pin)? {
            return Ok(lease);
        }
        match self.config.desc.when_full {
            WhenFull::Fail => Err(self.full(request.size, None)),
            WhenFull::Wait { timeout } => self.wait_for_room(users, request, pin, timeout),
            WhenFull::Grow { timeout, .. } => self.grow_or_wait(users, request, pin, timeout),
        }
    }

    /// `None` if the ring is full for now.
    pub(super) fn try_reserve(
        &self,
        users: &SyncSet,
        request: Request,
        pin: Option<&Pin>,
    ) -> Result<Option<Lease<D>>, UploadError> {
        let mut books = self.books.lock();
        match books.lease(users, request, request.page, pin) {
            Err(RingError::Full { .. } | RingError::TooLarge { .. }) if request.page > request.size => {}
            result => return self.sort_out(result),
        }
        let result = books.lease(users, request, request.size, pin);
        self.sort_out(result)
    }

    /// Parts what may fit later from what never will.
    fn sort_out(&self, result: Result<Lease<D>, RingError>) -> Result<Option<Lease<D>>, UploadError> {
        let capacity = self.config.capacity_max();
        match result {
            Ok(lease) => Ok(Some(lease)),
            Err(RingError::Full { .. }) => Ok(None),
            Err(RingError::TooLarge { size, .. }) if size <= capacity => Ok(None),
            Err(RingError::TooLarge { size, .. }) => Err(UploadError::TooLarge { size, capacity }),
            Err(RingError::ZeroSize) => Err(UploadError::ZeroSize),
            Err(RingError::BadAlignment { alignment }) => Err(UploadError::BadAlignment { alignment }),
        }
    }

    /// Frees what is complete, without waiting.
    fn poll(&self) -> Result<(), DeviceError> {
        let shared = self.shared();
        let mut passed = self.polled.lock();
        shared.lifetimes.read(&shared.device, &mut passed)?;
        self.books.lock().release(&mut |users| passed.passed_all(users));
        Ok(())
    }

    /// Waits for the oldest submission, again and again, without holding the lock meanwhile.
    pub(super) fn wait_for_room(
        &self,
        users: &SyncSet,
        request: Request,
        pin: Option<&Pin>,
        timeout: Duration,
    ) -> Result<Lease<D>, UploadError> {
        let started = Instant::now();
        let deadline = started.checked_add(timeout);
        loop {
            let Some(oldest) = self.books.lock().ring.oldest().cloned() else {
                // Another thread has freed all of it just now.
                match self.try_reserve(users, request, pin)? {
                    Some(lease) => return Ok(lease),
                    None if self.books.lock().ring.is_empty() => return Err(self.full(request.size, None)),
                    None => continue,
                }
            };
            self.wait_for(&oldest, deadline, request.size, started)?;
            let held_up = self.books.lock().release(&mut |users| *users == oldest);
            if let Some(lease) = self.try_reserve(users, request, pin)? {
                return Ok(lease);
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
        self.figures.wait_count.fetch_add(1, Ordering::Relaxed);
        self.figures.wait_ns.fetch_add(nanoseconds(waiting.elapsed()), Ordering::Relaxed);
        match waited {
            Ok(()) => Ok(()),
            Err(WaitError::NotSubmitted(point) | WaitError::Unresolved(point)) => Err(self.full(size, Some(point))),
            Err(WaitError::Timeout) => Err(UploadError::Timeout { waited_ns: nanoseconds(started.elapsed()) }),
            Err(WaitError::Device(error)) => Err(error.into()),
        }
    }

    /// The device is done with the oldest bytes, but a host thread is not.
    fn wait_for_a_thread(&self, size: u64, deadline: Option<Instant>, started: Instant) -> Result<(), UploadError> {
        if !self.config.short_pins {
            return Err(UploadError::Unread { size, capacity: self.books.lock().ring.capacity() });
        }
        if Filling::is_under_way() {
            // It may be this one, whose copy calls in again.
            return Err(self.full(size, None));
        }
        if deadline.is_some_and(|at| Instant::now() >= at) {
            return Err(UploadError::Timeout { waited_ns: nanoseconds(started.elapsed()) });
        }
        // It is in the middle of a copy, for a frame that it let be submitted under its hands.
        std::thread::yield_now();
        Ok(())
    }

    pub(super) fn full(&self, size: u64, waits_for: Option<SyncPoint>) -> UploadError {
        let books = self.books.lock();
        UploadError::Full { size, free: books.ring.free(), capacity: books.ring.capacity(), waits_for }
    }

    /// Counts what was written.
    pub(super) fn count_written(&self, writes: u64, bytes: u64) {
        self.figures.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared().count_staged(writes, bytes);
    }

    pub(super) fn high_water(&self) -> u64 {
        self.books.lock().high_water()
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let books = self.books.lock();
        books.ring.validate()?;
        let (tail, used) = (tail(&books.ring, &books.segment.released), books.ring.used());
        let released = &books.segment.released;
        Invalid::unless(released.holds(tail), "what is in use is its owners'", tail)?;
        Invalid::unless(tail == 0 || !released.holds(tail - 1), "what is released is nobody's", tail)?;
        Invalid::unless(used <= books.segment.buffer.size(), "no more is in use than the buffer has", used)
    }
}

impl<D: Device> Books<D> {
    fn lease(
        &mut self,
        users: &SyncSet,
        request: Request,
        size: u64,
        pin: Option<&Pin>,
    ) -> Result<Lease<D>, RingError> {
        let atom = self.segment.atom;
        let padded = size.div_ceil(atom).saturating_mul(atom);
        let alignment = request.alignment;
        let alignment = if alignment.is_power_of_two() { alignment.max(atom) } else { alignment };
        let range = self.ring.allocate(padded, alignment, users)?;
        self.calm.note(self.ring.used());
        let pin = match pin {
            Some(pin) => {
                pin.set(range.position());
                None
            }
            None => Some(self.pins.claim(range.position())),
        };
        Ok(Lease { segment: Arc::clone(&self.segment), range, pin })
    }

    /// Frees the oldest submissions, as long as they have `passed` and no thread writes their bytes. Says whether a
    /// thread was in the way.
    pub(super) fn release(&mut self, passed: &mut dyn FnMut(&SyncSet) -> bool) -> bool {
        release(&mut self.ring, &self.segment.released, &self.pins, passed)
    }

    pub(super) fn high_water(&self) -> u64 {
        self.past_high_water.max(self.ring.high_water())
    }
}

impl<D: Device> ReclaimRing for RingState<D> {
    fn reclaim(&self, completed: &Completed<'_>) -> bool {
        let mut books = self.books.lock();
        books.release(&mut |users| completed.has_passed(users));
        let capacity = books.ring.capacity();
        books.calm.tick(&self.config, capacity)
    }

    fn upkeep(&self) {
        // What goes with a buffer is made by the program's code. Under a lock the next call of reclaim asks again.
        if !is_locked() {
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

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
