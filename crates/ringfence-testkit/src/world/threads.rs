//! A world of several threads. Each thread has its own queue and resources (things). All threads share the allocator,
//! the ring and the device. The seed determines the actions of each thread, but not their interleaving.
//!
//! ```text
//!   thread 0, queue 0   create · write · copy · draw · check · resize · move · drop
//!        │  ▲                                     │  ▲       small memory without a resource: allocate, destroy
//!        ▼  │  with the point of its last use     ▼  │
//!       pot of things                            pot of memory      one thread puts an item in, another takes it out
//!        ▲  │
//!        │  ▼
//!   thread 1, queue 1   …                        all: reclaim · trim · look (statistics, snapshot)
//!                                                     evict unused memory, and make used memory resident
//!                                                     the first loses the device; the others detect that
//! ```
//!
//! An evictable resource has its own memory object, or is in a block of a pool that also has other resources. One
//! thread can therefore make a block resident while another thread is about to evict it.

mod memory;
mod things;
mod worker;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::memory::{Allocation, Error, PoolDesc};
use ringfence::residency::Residency;
use ringfence::sim::{Device, Fence, Profile, SimOptions};
use ringfence::upload::{UploadDesc, WhenFull};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Pool, UploadRing};

use super::dice::Dice;
use super::outcome::Stop;
use super::thing::Body;
use super::{Bug, Figures, Finding, WorldOptions};
use worker::Worker;

const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);
/// Side of a picture, in texels. Its rows need no padding on any device.
const PICTURE_SIDE: u32 = 64;

/// A fence, and a value that work signals.
type Point = (Fence, u64);
type Canvas = Arc<Buffer<Device>>;

/// State that all threads share.
struct Shared {
    options: WorldOptions,
    device: Device,
    memory: Allocator<Device>,
    ring: UploadRing<Device>,
    /// A pool whose blocks contain both evictable and other resources.
    pool: Pool<Device>,
    residency: Residency<Device>,
    /// With [`Bug::SharedCanvas`], the canvas of all threads.
    canvas: Option<Canvas>,
    things: Mutex<Vec<Thing>>,
    slots: Mutex<Vec<Allocation<Device>>>,
    /// With [`Bug::KeptAfterLoss`], the things that are not released when the device is lost.
    kept: Mutex<Vec<Thing>>,
    /// All threads wait for it before their first step.
    start: Barrier,
    /// `true` if the first thread loses the device after half of its steps.
    loses: bool,
    /// `true` once the device is lost. Before that, no call may report that the device is lost.
    is_lost: AtomicBool,
}

/// A resource, its expected contents, and the work that must precede its next use.
struct Thing {
    body: Body,
    bytes: Vec<u8>,
    is_upload: bool,
    /// `true` if its memory is evictable: each submission that uses the resource must declare the use.
    is_evictable: bool,
    /// Work of another queue that must be complete before the next use.
    after: Option<Point>,
}

impl Thing {
    fn new(body: Body, bytes: Vec<u8>) -> Self {
        Self { body, bytes, is_upload: false, is_evictable: false, after: None }
    }

    fn buffer(&self) -> Option<&Buffer<Device>> {
        match &self.body {
            Body::Buffer(buffer) => Some(buffer),
            Body::Texture(..) => None,
        }
    }
}

fn lock<T>(pot: &Mutex<T>) -> MutexGuard<'_, T> {
    pot.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub fn run(options: &WorldOptions) -> Result<Figures, Finding> {
    let finding = |step, what| Finding { seed: options.seed, step, what };
    let mut dice = Dice::new(options.seed);
    let shared = Shared::new(*options, &mut dice).map_err(|error| finding(0, error.to_string()))?;
    let mut figures = Figures { lost: shared.loses, ..Default::default() };
    let mut stopped = None;
    for (part, what) in all_at_once(&shared, &mut dice) {
        stopped = stopped.or(what.map(|what| (part.steps, what)));
        figures.add(&part);
    }
    // A hazard of the device says more than its consequences, so it is reported instead.
    let hazard = shared.device.take_hazards().first().map(|hazard| (0, hazard.to_string()));
    if let Some((step, what)) = hazard.or(stopped) {
        return Err(finding(step, what));
    }
    shared.end().map_err(|what| finding(figures.steps, what))?;
    Ok(figures)
}

/// Runs all threads. For each thread, returns its statistics, and the finding that ended it early, if there is one.
fn all_at_once(shared: &Shared, dice: &mut Dice) -> Vec<(Figures, Option<String>)> {
    std::thread::scope(|scope| {
        let seeds: Vec<_> = (0..shared.options.threads).map(|queue| (queue, dice.any())).collect();
        let thread = |(queue, seed)| scope.spawn(move || one(shared, queue, seed));
        let threads: Vec<_> = seeds.into_iter().map(thread).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        threads.into_iter().map(join).collect()
    })
}

fn one(shared: &Shared, queue: usize, seed: u64) -> (Figures, Option<String>) {
    match Worker::new(shared, queue, seed) {
        Ok(worker) => worker.work(),
        Err(stopped) => {
            shared.start.wait();
            (Figures::default(), shared.finding(stopped))
        }
    }
}

impl Shared {
    fn new(options: WorldOptions, dice: &mut Dice) -> Result<Self, Box<dyn std::error::Error>> {
        let profiles = Profile::all();
        let profile = profiles[dice.below(profiles.len() as u64) as usize].clone();
        // The additional queue signals the fences that run ahead of the work.
        let (seed, lateness) = (dice.any(), 1 + dice.below(16) as u32);
        let sim = SimOptions { seed, queues: options.threads + 1, lateness, ..Default::default() };
        let device = Device::new(profile, sim);
        let desc = AllocatorDesc { device_block_bytes_max: 256 << 10, empty_block_grace: 2, ..Default::default() };
        let memory = Allocator::over(device.clone(), desc);
        let when_full = WhenFull::grow(4 << 20);
        let ring = UploadRing::new(&memory, UploadDesc { capacity: 256 << 10, when_full, ..Default::default() })?;
        let info = Create::<Buffers>::describe(&device, &BufferDesc { size: 4096, usage: COPIED })?;
        let memory_type = memory.plan().buffer(&info, AllocationDesc::default())?.memory_type;
        let pool = memory.create_pool(PoolDesc { memory_type, block_bytes: 128 << 10, ..Default::default() })?;
        // With this headroom, every heap is over its budget, so all evictable memory is evicted.
        let headroom_bytes = if dice.one_in(4) { 0 } else { u64::MAX / 2 };
        // SAFETY: workers list and commit evictable resources before each submission. If a deliberate bug omits that,
        // the simulated device reports it.
        let residency = unsafe { memory.residency() };
        let residency = residency.with_headroom(headroom_bytes).with_evictions(u64::MAX);
        let is_shared = options.bug == Some(Bug::SharedCanvas);
        let canvas = if is_shared { Some(canvas(&device, &memory)?) } else { None };
        let (things, slots, kept) = Default::default();
        let loses = dice.one_in(if options.bug == Some(Bug::KeptAfterLoss) { 2 } else { 8 });
        let (start, is_lost) = (Barrier::new(options.threads), AtomicBool::new(false));
        Ok(Self { options, device, memory, ring, pool, residency, canvas, things, slots, kept, start, loses, is_lost })
    }

    fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
        self.device.lose_device();
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// Returns the error of a step that ended early. Returns `None` if the step ended because the device is lost.
    fn finding(&self, stopped: Stop) -> Option<String> {
        match stopped {
            Stop::Lost if self.is_lost() => None,
            Stop::Lost => Some("a call reports a lost device, but the device is not lost".to_owned()),
            Stop::Wrong(what) => Some(what),
        }
    }

    /// Releases everything, and reports leaks and hazards.
    fn end(self) -> Result<(), String> {
        let Self { device, memory, ring, pool, residency, canvas, things, slots, kept, .. } = self;
        drop((things, slots, canvas, ring, residency, pool));
        memory.debug().validate().map_err(|error| format!("{error:?}"))?;
        memory.shutdown(Duration::MAX).map_err(|error| error.to_string())?;
        drop(memory);
        let (hazards, left) = (device.take_hazards(), device.live());
        drop(kept);
        match hazards.first() {
            Some(hazard) => Err(hazard.to_string()),
            None if left != Default::default() => Err(format!("left over: {left:?}")),
            None => Ok(()),
        }
    }
}

/// Creates a buffer into which pictures are drawn.
fn canvas(device: &Device, memory: &Allocator<Device>) -> Result<Canvas, Error> {
    let (side, usage) = (u64::from(PICTURE_SIDE), BufferUsage::COPY_SRC | BufferUsage::STORAGE);
    let info =
        Create::<Buffers>::describe(device, &BufferDesc { size: side * side * 4, usage }).map_err(Error::Device)?;
    Ok(Arc::new(memory.create_buffer(&info, AllocationDesc { name: "canvas", ..Default::default() })?))
}
