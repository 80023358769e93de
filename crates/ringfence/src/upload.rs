//! Data on its way to the GPU: one mapped buffer, used as a ring.
//!
//! ```text
//!        tail (oldest submission in flight)          head (next write)
//!          ▼                                           ▼
//!   ┌──────┬───────────┬───────────────┬───────────────┬──────────────────────┐
//!   │ free │  frame 3  │    frame 4    │    frame 5    │        free          │
//!   └──────┴───────────┴───────────────┴───────────────┴──────────────────────┘
//! ```
//!
//! A write belongs to the frames that are open when it is made, and its bytes are used again once they are complete.
//! Short of space, the ring does what document 001 asks (rows 001-5 to 001-7):
//!
//! 1. polls the timelines and frees all that is complete, without waiting;
//! 2. while still short: waits for the *oldest* submission only, frees it, looks again;
//! 3. never waits for a frame that is not submitted (it would wait for ever): that is [`UploadError::Full`].
//!
//! | operation | cost |
//! |---|---|
//! | write | O(timelines) + the copy, one short lock; the copy is made outside of it |
//! | short of space | one driver call a timeline, and a wait for each submission that is waited for |

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ringfence_core::range::Invalid;
use ringfence_core::ring::{Ring, RingError, RingRange};
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};

use crate::device::{BufferDesc, BufferUsage, Buffers, Create, Device, DeviceError, RawBuffer};
use crate::error::{AccessError, Error};
use crate::lifetime::{Frame, Passed, WaitError};
use crate::memory::{Allocator, Location, RingSnapshot};
use crate::resource::{AllocationDesc, Buffer};

/// How an upload ring is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadDesc<'a> {
    /// Bytes that it holds at most: what the frames in flight write together. [`UploadRing::high_water`] tells how
    /// much was needed.
    pub capacity: u64,
    /// What the written bytes may be used for, besides being copied.
    pub usage: BufferUsage,
    /// What to do when it is full.
    pub when_full: WhenFull,
    /// Where it lives: [`Location::Upload`], or [`Location::DeviceUpload`] for bytes that shaders read many times.
    pub location: Location,
    /// A name for reports and for the driver's object.
    pub name: &'a str,
}

impl Default for UploadDesc<'_> {
    fn default() -> Self {
        Self {
            capacity: 64 << 20,
            usage: BufferUsage::COPY_SRC | BufferUsage::VERTEX | BufferUsage::INDEX | BufferUsage::CONSTANT,
            when_full: WhenFull::Wait { timeout: Duration::from_secs(10) },
            location: Location::Upload,
            name: "upload ring",
        }
    }
}

/// What a write does that finds no room even after polling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenFull {
    /// Waits for the oldest submission, again and again, for so long at the most.
    Wait {
        /// The longest wait of one write.
        timeout: Duration,
    },
    /// Fails at once.
    Fail,
}

/// Bytes in the ring.
pub struct Staged<D: Device> {
    /// The driver's buffer.
    pub buffer: RawBuffer<D>,
    /// The first byte there.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
}

impl<D: Device> Clone for Staged<D> {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), offset: self.offset, size: self.size }
    }
}

impl<D: Device> fmt::Debug for Staged<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staged({:?} from {}, {} bytes)", self.buffer, self.offset, self.size)
    }
}

/// Why nothing was written. The ring is as it was, but that what was complete has been freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// No bytes were given.
    #[error("a write of 0 bytes")]
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    #[error("the alignment {alignment} is not a power of two")]
    BadAlignment {
        /// What was asked for, in bytes.
        alignment: u64,
    },
    /// The ring could never hold this, however long one waited: make a larger one.
    #[error("{size} bytes never fit in a ring of {capacity} bytes")]
    TooLarge {
        /// What was asked for, in bytes.
        size: u64,
        /// The ring's capacity in bytes.
        capacity: u64,
    },
    /// There is no room, and waiting is of no use or not wanted.
    #[error("{size} bytes do not fit: {free} of {capacity} bytes are free ({})", unsubmitted(.waits_for))]
    Full {
        /// What was asked for, in bytes.
        size: u64,
        /// Bytes that are free, maybe in two parts.
        free: u64,
        /// The ring's capacity in bytes.
        capacity: u64,
        /// What holds the oldest bytes, if it is not submitted yet.
        waits_for: Option<SyncPoint>,
    },
    /// No frame is open that could use the bytes: begin one first.
    #[error("no frame is open: a write belongs to the submission that is being recorded")]
    NoFrame,
    /// The oldest submission did not complete in time.
    #[error("no room after waiting for {waited_ns} ns")]
    Timeout {
        /// How long was waited.
        waited_ns: u64,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn unsubmitted(point: &Option<SyncPoint>) -> String {
    match point {
        Some(point) => format!("the oldest wait for {point}, which is not submitted"),
        None => "waiting is not wanted".to_owned(),
    }
}

/// A ring of mapped memory that every thread may write to. See the [module](self).
pub struct UploadRing<D: Device> {
    buffer: Buffer<D>,
    state: Arc<RingState>,
    when_full: WhenFull,
    /// Writes start and end at multiples of this: the atom of flushes, where there is one.
    atom: u64,
}

/// The part of a ring that snapshots read.
pub(crate) struct RingState {
    name: String,
    ring: Mutex<Ring<SyncSet>>,
    wait_count: AtomicU64,
    wait_ns: AtomicU64,
    written_bytes: AtomicU64,
}

impl RingState {
    /// Frees the oldest submissions, as long as `passed` says so of them.
    pub(crate) fn release(&self, passed: impl FnMut(&SyncSet) -> bool) {
        self.ring.lock().release_while(passed);
    }

    pub(crate) fn snapshot(&self) -> RingSnapshot {
        let ring = self.ring.lock();
        RingSnapshot {
            name: self.name.clone(),
            capacity_bytes: ring.capacity(),
            used_bytes: ring.used(),
            high_water_bytes: ring.high_water(),
            submission_count: ring.submissions() as u64,
            wait_count: self.wait_count.load(Ordering::Relaxed),
            wait_ns: self.wait_ns.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
        }
    }
}

impl<D: Device> UploadRing<D> {
    pub(crate) fn new(memory: &Allocator<D>, desc: UploadDesc<'_>) -> Result<Self, Error> {
        let device = memory.device();
        let info = Create::<Buffers>::describe(device, &BufferDesc { size: desc.capacity, usage: desc.usage })?;
        let buffer = memory
            .create_buffer(&info, AllocationDesc { name: desc.name, location: desc.location, ..Default::default() })?;
        let atomic = device.capabilities().is_non_coherent(buffer.memory_type());
        let atom = if atomic { device.capabilities().non_coherent_atom_bytes } else { 1 };
        let state = Arc::new(RingState {
            name: desc.name.to_owned(),
            ring: Mutex::new(Ring::new(desc.capacity)),
            wait_count: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        });
        memory.shared().add_ring(&state);
        Ok(Self { buffer, state, when_full: desc.when_full, atom })
    }

    /// Copies bytes into the ring, at a multiple of `alignment` (4 for vertices, 256 for constants, 512 for texels;
    /// see [`Capabilities`](crate::device::Capabilities)). They may be used by the submissions that are being recorded
    /// now, and only by them.
    ///
    /// # Errors
    /// No frame is open; the bytes never fit; there is no room and waiting is of no use, not wanted or too long; the
    /// device is lost. Nothing is written then.
    pub fn write(&self, bytes: &[u8], alignment: u64) -> Result<Staged<D>, UploadError> {
        let mut users = SyncSet::new();
        self.buffer.shared().lifetimes.open(&mut users);
        self.write_for_users(&users, bytes, alignment)
    }

    /// As [`UploadRing::write`], for the submission of `frame` alone: other open frames do not hold the bytes.
    ///
    /// # Errors
    /// As [`UploadRing::write`].
    pub fn write_for(&self, frame: &Frame, bytes: &[u8], alignment: u64) -> Result<Staged<D>, UploadError> {
        self.write_for_users(&frame.point().into(), bytes, alignment)
    }

    fn write_for_users(&self, users: &SyncSet, bytes: &[u8], alignment: u64) -> Result<Staged<D>, UploadError> {
        let size = bytes.len() as u64;
        let range = self.reserve(users, size, alignment)?;
        // SAFETY: the ring gives these bytes to nobody else until `users` have passed, and they are open.
        let written = unsafe {
            self.buffer.write_shared(range.offset(), size, |to| {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            })
        };
        match written {
            Ok(()) => {}
            Err(AccessError::Device(error)) => return Err(error.into()),
            Err(AccessError::NotMapped | AccessError::OutOfRange { .. }) => unreachable!("a ring is mapped as a whole"),
        }
        self.state.written_bytes.fetch_add(size, Ordering::Relaxed);
        self.buffer.shared().count_staged();
        Ok(Staged { buffer: self.buffer.object().clone(), offset: range.offset(), size })
    }

    fn reserve(&self, users: &SyncSet, size: u64, alignment: u64) -> Result<RingRange, UploadError> {
        if users.is_empty() {
            return Err(UploadError::NoFrame);
        }
        self.buffer.shared().check_lost()?;
        let padded = size.div_ceil(self.atom).saturating_mul(self.atom);
        let alignment = if alignment.is_power_of_two() { alignment.max(self.atom) } else { alignment };
        if let Some(range) = self.try_reserve(users, padded, alignment)? {
            return Ok(range);
        }
        self.poll()?;
        if let Some(range) = self.try_reserve(users, padded, alignment)? {
            return Ok(range);
        }
        let WhenFull::Wait { timeout } = self.when_full else { return Err(self.full(padded, None)) };
        self.wait_for_room(users, padded, alignment, timeout)
    }

    /// `None` if the ring is full for now.
    fn try_reserve(&self, users: &SyncSet, size: u64, alignment: u64) -> Result<Option<RingRange>, UploadError> {
        match self.state.ring.lock().allocate(size, alignment, users) {
            Ok(range) => Ok(Some(range)),
            Err(RingError::Full { .. }) => Ok(None),
            Err(RingError::ZeroSize) => Err(UploadError::ZeroSize),
            Err(RingError::BadAlignment { alignment }) => Err(UploadError::BadAlignment { alignment }),
            Err(RingError::TooLarge { size, capacity }) => Err(UploadError::TooLarge { size, capacity }),
        }
    }

    /// Frees what is complete, without waiting (row 001-5).
    fn poll(&self) -> Result<(), DeviceError> {
        let shared = self.buffer.shared();
        let mut passed = Passed::default();
        shared.lifetimes.read(&shared.device, &mut passed)?;
        self.state.release(|users| passed.passed_all(users));
        Ok(())
    }

    /// Waits for the oldest submission, again and again, without holding the lock meanwhile (row 001-6).
    fn wait_for_room(
        &self,
        users: &SyncSet,
        size: u64,
        alignment: u64,
        timeout: Duration,
    ) -> Result<RingRange, UploadError> {
        let started = Instant::now();
        let deadline = started.checked_add(timeout);
        loop {
            let oldest = self.state.ring.lock().oldest().cloned();
            let Some(oldest) = oldest else { return Err(self.full(size, None)) };
            let waiting = Instant::now();
            let waited = self.buffer.shared().wait(&oldest, deadline);
            self.state.wait_count.fetch_add(1, Ordering::Relaxed);
            self.state.wait_ns.fetch_add(nanoseconds(waiting.elapsed()), Ordering::Relaxed);
            match waited {
                Ok(()) => {}
                Err(WaitError::NotSubmitted(point)) => return Err(self.full(size, Some(point))),
                Err(WaitError::Timeout) => {
                    return Err(UploadError::Timeout { waited_ns: nanoseconds(started.elapsed()) });
                }
                Err(WaitError::Device(error)) => return Err(error.into()),
            }
            self.release_if_oldest(&oldest);
            if let Some(range) = self.try_reserve(users, size, alignment)? {
                return Ok(range);
            }
        }
    }

    /// Another thread may have waited for the same submission and freed it already.
    fn release_if_oldest(&self, passed: &SyncSet) {
        let mut ring = self.state.ring.lock();
        if ring.oldest() == Some(passed) {
            ring.release_oldest();
        }
    }

    fn full(&self, size: u64, waits_for: Option<SyncPoint>) -> UploadError {
        let ring = self.state.ring.lock();
        UploadError::Full { size, free: ring.free(), capacity: ring.capacity(), waits_for }
    }

    /// Bytes that it holds at most.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.state.ring.lock().capacity()
    }

    /// The most bytes that were ever in use, padding included: what the capacity has to be (row 001-11).
    #[must_use]
    pub fn high_water(&self) -> u64 {
        self.state.ring.lock().high_water()
    }

    /// The driver's buffer.
    #[must_use]
    pub fn buffer(&self) -> &Buffer<D> {
        &self.buffer
    }

    /// Its figures: occupancy, high-water mark, waits and their time.
    #[must_use]
    pub fn snapshot(&self) -> RingSnapshot {
        self.state.snapshot()
    }

    /// Checks every rule of the ring. For tests.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.state.ring.lock().validate()
    }
}

impl<D: Device> fmt::Debug for UploadRing<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadRing")
            .field("name", &self.state.name)
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
