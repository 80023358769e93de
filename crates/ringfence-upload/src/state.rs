//! State that is shared by all handles of a ring: its configuration, its bookkeeping under one short lock, and
//! counters.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::lock::Lock;
use ringfence_core::range::Invalid;
use ringfence_core::ring::{Ring, RingError, RingRange};
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};

use super::segment::{Config, Exchanged, Pair, Segment};
use super::{UploadDesc, UploadError, WhenFull};
use crate::device::{Device, DeviceError};
use ringfence_lockfree::pin::{HeldPin, Pin, Pins, release, tail};
use ringfence_memory::extend::{Passed, ReclaimRing, Shared};
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::RingSnapshot;
use ringfence_memory::{Allocator, Error};

/// A request for bytes of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Required size, in bytes.
    pub(super) size: u64,
    /// Size to reserve if there is space for it, in bytes: a page for small writes, otherwise `size`. At least `size`.
    pub(super) page: u64,
    /// A power of two.
    pub(super) alignment: u64,
}

impl Request {
    pub(super) const fn exactly(size: u64, alignment: u64) -> Self {
        Self { size, page: size, alignment }
    }
}

/// Bytes of a ring that one thread may write while the pin on them is set.
pub(super) struct Reserved<D: Device> {
    pub(super) segment: Arc<Segment<D>>,
    pub(super) range: RingRange,
    /// `None` if the caller passed its own pin.
    pub(super) pin: Option<HeldPin>,
}

/// Bookkeeping of a ring, protected by the lock `RingState::books`.
pub(super) struct Locked<D: Device> {
    pub(super) ring: Ring<SyncSet>,
    pub(super) segment: Arc<Segment<D>>,
    pub(super) exchanged: Exchanged<D>,
    pub(super) pins: Pins,
    /// Largest high-water mark of the ring's earlier buffers, in bytes.
    pub(super) past_high_water: u64,
    pub(super) shrink_timer: ShrinkTimer,
}

/// Count of the consecutive calls of `reclaim` during which at most a quarter of a ring was in use.
#[derive(Default)]
pub(super) struct ShrinkTimer {
    /// Largest number of bytes in use at the same time since the count was reset.
    peak: u64,
    /// Calls of `reclaim` since the count was reset.
    ticks: u32,
}

impl ShrinkTimer {
    /// Records the number of bytes in use.
    pub(super) fn note(&mut self, used: u64) {
        self.peak = self.peak.max(used);
    }

    /// Counts a call of `reclaim`. Returns `true` if the ring should shrink. If more than a quarter was in use, or if
    /// the ring has its initial capacity, resets the count.
    pub(super) fn tick<D: Device>(&mut self, config: &Config<D>, capacity: u64) -> bool {
        let WhenFull::Grow { shrink_after, .. } = config.desc.when_full else { return false };
        if self.peak > capacity / 4 || capacity <= config.desc.capacity {
            *self = Self::default();
            return false;
        }
        self.ticks = self.ticks.saturating_add(1);
        self.ticks >= shrink_after.max(1)
    }

    /// Returns `true` if the ring should shrink: the result of the last [`ShrinkTimer::tick`].
    pub(super) fn is_over<D: Device>(&self, config: &Config<D>) -> bool {
        matches!(config.desc.when_full, WhenFull::Grow { shrink_after, .. } if self.ticks >= shrink_after.max(1))
    }
}

/// State that the handles of a ring share.
pub(crate) struct RingState<D: Device> {
    pub(super) memory: Allocator<D>,
    pub(super) config: Config<D>,
    /// Generation of the present buffer ([`Segment::generation`]), readable without the lock.
    pub(super) generation: AtomicU64,
    pub(super) books: Lock<Locked<D>>,
    /// Held by a thread while it creates the ring's next buffer, so that usually only one thread creates a buffer. It
    /// is not held while the program's code runs, so a second thread may create a buffer too, which is then dropped.
    /// Never taken while `books` is held.
    pub(super) resizing: Lock<()>,
    /// Result of the last poll. Kept to reuse its host memory.
    polled: Lock<Passed>,
    pub(super) figures: Figures,
}

/// Counters. Accessed with relaxed ordering, since they order no other memory.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) wait_count: AtomicU64,
    pub(super) wait_ns: AtomicU64,
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
        at: &'static Location<'static>,
    ) -> Result<Arc<Self>, Error> {
        let (name, desc) = (desc.name.to_owned(), UploadDesc { name: "", ..desc });
        let config = Config { name, at, desc, short_pins, pair };
        let buffer = Segment::buffer(memory, &config, desc.capacity)?;
        let segment = Segment::around(buffer, memory, &config, desc.capacity, 0)?;
        let books = Locked {
            ring: Ring::for_frames(desc.capacity),
            segment: Arc::new(segment),
            exchanged: Exchanged::new(),
            pins: Pins::default(),
            past_high_water: 0,
            shrink_timer: ShrinkTimer::default(),
        };
        let state = Arc::new(Self {
            memory: memory.clone(),
            config,
            generation: AtomicU64::new(0),
            books: Lock::new(books),
            resizing: Lock::new(()),
            polled: Lock::new(Passed::default()),
            figures: Figures::default(),
        });
        let listed: Arc<dyn ReclaimRing> = state.clone();
        memory.shared().add_ring(&listed);
        Ok(state)
    }

    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        self.memory.shared()
    }

    /// Returns the statistics of the ring, with its name.
    pub(super) fn shown(&self) -> RingSnapshot {
        RingSnapshot { name: self.config.name.clone(), ..self.now() }
    }

    /// Returns the statistics of the ring, without its name.
    pub(super) fn now(&self) -> RingSnapshot {
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

    /// Reserves `request.page` bytes, or `request.size` bytes if a page does not fit. Returns `None` if the ring has no
    /// space for either at present.
    pub(super) fn try_reserve(
        &self,
        users: &SyncSet,
        request: Request,
        pin: Option<&Pin>,
    ) -> Result<Option<Reserved<D>>, UploadError> {
        let mut books = self.books.lock();
        match books.reserve(users, request, request.page, pin) {
            Err(RingError::Full { .. } | RingError::TooLarge { .. }) if request.page > request.size => {}
            result => return self.sort_out(result),
        }
        let result = books.reserve(users, request, request.size, pin);
        self.sort_out(result)
    }

    /// Converts the result of a reservation. Returns `None` if the bytes may fit after a release or a growth of the
    /// ring.
    fn sort_out(&self, result: Result<Reserved<D>, RingError>) -> Result<Option<Reserved<D>>, UploadError> {
        let capacity = self.config.capacity_max();
        match result {
            Ok(reserved) => Ok(Some(reserved)),
            Err(RingError::Full { .. }) => Ok(None),
            Err(RingError::TooLarge { size, .. }) if size <= capacity => Ok(None),
            Err(RingError::TooLarge { size, .. }) => Err(UploadError::TooLarge { size, capacity }),
            Err(RingError::ZeroSize) => Err(UploadError::ZeroSize),
            Err(RingError::BadAlignment { alignment }) => Err(UploadError::BadAlignment { alignment }),
        }
    }

    /// Frees the bytes of complete submissions, without waiting.
    pub(super) fn poll(&self) -> Result<(), DeviceError> {
        let shared = self.shared();
        let mut passed = self.polled.lock();
        shared.read(&mut passed)?;
        self.books.lock().release(&mut |users| passed.passed_all(users));
        Ok(())
    }

    pub(super) fn full(&self, size: u64, waits_for: Option<SyncPoint>) -> UploadError {
        let books = self.books.lock();
        UploadError::Full { size, free: books.ring.free(), capacity: books.ring.capacity(), waits_for }
    }

    /// Returns a set with the point of `frame` only. Fails if the frame belongs to another allocator.
    pub(super) fn users_of(&self, frame: &Frame) -> Result<SyncSet, UploadError> {
        if !self.shared().owns(frame) {
            return Err(UploadError::ForeignFrame { frame: frame.point() });
        }
        Ok(frame.point().into())
    }

    /// Returns the size of a writer's page, in bytes: `page_bytes` of the description, but at most an eighth of the
    /// initial capacity.
    pub(super) fn page_bytes(&self) -> u64 {
        self.config.desc.page_bytes.min(self.config.desc.capacity / 8)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.books.lock().ring.capacity()
    }

    /// Adds a number of writes, and their bytes in total, to the statistics.
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
        Invalid::unless(released.holds(tail), "the oldest byte in use is released", tail)?;
        Invalid::unless(
            tail == 0 || !released.holds(tail - 1),
            "the byte before the oldest byte in use is not released",
            tail,
        )?;
        Invalid::unless(used <= books.segment.buffer.size(), "more bytes are in use than the buffer has", used)
    }
}

impl<D: Device> Locked<D> {
    fn reserve(
        &mut self,
        users: &SyncSet,
        request: Request,
        size: u64,
        pin: Option<&Pin>,
    ) -> Result<Reserved<D>, RingError> {
        let atom = self.segment.atom;
        let padded = size.div_ceil(atom).saturating_mul(atom);
        let alignment = request.alignment;
        let alignment = if alignment.is_power_of_two() { alignment.max(atom) } else { alignment };
        let range = self.ring.allocate(padded, alignment, users)?;
        self.shrink_timer.note(self.ring.used());
        let pin = match pin {
            Some(pin) => {
                pin.set(range.position());
                None
            }
            None => Some(self.pins.claim(range.position())),
        };
        Ok(Reserved { segment: Arc::clone(&self.segment), range, pin })
    }

    /// Frees the bytes of the oldest submissions, up to the first one for which `passed` returns `false` or whose bytes
    /// a thread has pinned. Returns `true` if a pin prevented the release of a complete submission.
    pub(super) fn release(&mut self, passed: &mut dyn FnMut(&SyncSet) -> bool) -> bool {
        release(&mut self.ring, &self.segment.released, &self.pins, passed)
    }

    pub(super) fn high_water(&self) -> u64 {
        self.past_high_water.max(self.ring.high_water())
    }
}
