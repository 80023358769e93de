//! The allocator that users hold: makes resources, gives them memory, and takes back what the GPU is done with.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ringfence_core::blocks::{BlockAllocation, BlocksDesc};
use ringfence_core::range::Invalid;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::SyncSet;

use super::arena::{Arena, BlockSizes, Memory, Request};
use super::types::{Location, TypeOrder};
use super::{DriverCalls, HeapSnapshot, Snapshot, Statistics, TypeSnapshot, TypeStatistics};
use crate::device::{
    BufferInfo, Create, Device, DeviceError, MemoryDesc, MemoryProperties, Placed, Requirements, ResourceClass,
    TextureInfo,
};
use crate::error::Error;
use crate::lifetime::{Lifetimes, Passed, Timeline, WaitError};
use crate::resource::{AllocationDesc, Buffer, Dedicated, RawObject, Resource, ResourceKind, Texture};
use crate::upload::{RingState, UploadDesc, UploadRing};

/// How an allocator is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocatorDesc {
    /// The largest block in bytes of memory that only the device uses. Less where a heap is small: at most an eighth of it.
    pub device_block_bytes_max: u64,
    /// The largest block in bytes of memory that the host sees too: making it takes the driver longer.
    pub host_block_bytes_max: u64,
    /// How many empty blocks of one memory type and class are kept for good.
    pub empty_blocks_kept: usize,
    /// For how many calls of [`Allocator::reclaim`] an empty block beyond those is kept.
    pub empty_block_grace: u64,
}

impl Default for AllocatorDesc {
    fn default() -> Self {
        Self {
            device_block_bytes_max: 256 << 20,
            host_block_bytes_max: 64 << 20,
            empty_blocks_kept: 1,
            empty_block_grace: 120,
        }
    }
}

/// Makes buffers and textures with memory, and takes them back once the GPU is done with them.
///
/// Cheap to clone; every clone is the same allocator. All methods may be called from any thread. The allocator lives as
/// long as something that it made.
pub struct Allocator<D: Device> {
    shared: Arc<Shared<D>>,
}

/// What [`Allocator::reclaim`] did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reclaimed {
    /// Resources that were destroyed.
    pub objects: usize,
    /// Blocks that were given back to the driver.
    pub blocks: usize,
    /// Whether the device is lost. Everything that was waiting for it has been destroyed then.
    pub device_lost: bool,
}

/// Why [`Allocator::shutdown`] ended early. What was waiting still waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The GPU did not finish what was submitted in time.
    #[error("the device did not finish its work in time")]
    Timeout,
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl<D: Device> Allocator<D> {
    /// An allocator over a device. Each backend has a `new` that takes the API's own objects.
    #[must_use]
    pub fn over(device: D, desc: AllocatorDesc) -> Self {
        Self { shared: Arc::new(Shared::new(device, desc)) }
    }

    /// The device underneath.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.shared.device
    }

    /// Adds a queue's progress: what is let go of from now on waits for this timeline too.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    ///
    /// # Safety
    /// The fence is of this allocator's device and outlives the allocator and all that it makes. Every submission that
    /// touches what the allocator made is begun with [`Timeline::begin`] before it is recorded, and signals this fence
    /// with the value of its [`Frame`](crate::Frame) when it is complete.
    pub unsafe fn timeline(&self, fence: D::Fence) -> Result<Timeline<D>, DeviceError> {
        Timeline::new(Arc::clone(&self.shared), fence)
    }

    /// Makes a buffer.
    ///
    /// O(1) with room in a block; a new block or memory of its own is a driver call that may take milliseconds.
    ///
    /// # Errors
    /// No memory, no memory type for the location, or the driver refuses the description. Nothing has changed then.
    pub fn create_buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Buffer<D>, Error> {
        self.create(info, desc)
    }

    /// Makes a texture.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`].
    pub fn create_texture(&self, info: &TextureInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Texture<D>, Error> {
        self.create(info, desc)
    }

    fn create<K>(&self, info: &<D as Create<K>>::Info<'_>, desc: AllocationDesc<'_>) -> Result<Resource<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let (placed, place, requirements) = self.shared.create::<K>(info, desc)?;
        Ok(Resource::new(Arc::clone(&self.shared), placed, place, requirements.size, desc.location))
    }

    /// Makes a ring for data on its way to the GPU.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`].
    pub fn upload_ring(&self, desc: UploadDesc<'_>) -> Result<UploadRing<D>, Error> {
        UploadRing::new(self, desc)
    }

    /// Destroys what every timeline has passed, and gives blocks back that have been empty for long. Call it once a
    /// frame. Never waits for the GPU; one driver call a timeline, and one for each object that goes.
    ///
    /// If another thread is at it already, there is nothing to do and nothing is done.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.reclaim()
    }

    /// Waits until all that was submitted is complete, at most for `timeout`, then destroys what waits for it.
    ///
    /// Frames that are open are not waited for, and what they hold stays. After a device loss nothing is waited for.
    ///
    /// # Errors
    /// The time is over, or the driver failed for another reason than device loss.
    pub fn shutdown(&self, timeout: Duration) -> Result<Reclaimed, ShutdownError> {
        self.shared.wait_submitted(timeout)?;
        let mut reclaimed = self.reclaim();
        reclaimed.blocks += self.trim();
        Ok(reclaimed)
    }

    /// Gives every empty block back to the driver, and says how many there were.
    pub fn trim(&self) -> usize {
        self.shared.arenas.iter().map(|arena| self.shared.free_all(|| arena.take_empty())).sum()
    }

    /// Figures that are cheap enough for each frame: O(memory types).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Everything that is in memory. O(ranges): not for each frame.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Checks every rule of the allocator's own structures. For tests.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.shared.arenas.iter().try_for_each(Arena::validate)?;
        self.shared.retired.lock().queue.validate()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }
}

impl<D: Device> Clone for Allocator<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: Device> fmt::Debug for Allocator<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Allocator({})", self.shared.device.capabilities().name)
    }
}

/// Where a resource's bytes are.
pub(crate) struct Place<D: Device> {
    pub(crate) memory: Arc<Memory<D>>,
    pub(crate) offset: u64,
    arena: u32,
    hold: Hold,
}

/// By what right.
enum Hold {
    Range(BlockAllocation),
    /// Memory of its own, and the number under which the arena knows it.
    Dedicated(u64),
}

/// What waits for the GPU.
struct Retired<D: Device> {
    object: RawObject<D>,
    place: Place<D>,
}

struct RetiredQueue<D: Device> {
    queue: RetireQueue<Retired<D>>,
    /// What is retired during `turn` waits for this.
    waits: SyncSet,
    turn: Option<u64>,
}

/// What `reclaim` works with, kept so that a steady frame makes nothing.
struct Scratch<D: Device> {
    passed: Passed,
    released: Vec<Retired<D>>,
    /// Counts the calls of reclaim: the clock of empty blocks.
    tick: u64,
}

/// What every clone of the allocator and everything that it made share.
pub(crate) struct Shared<D: Device> {
    pub(crate) device: D,
    pub(crate) lifetimes: Lifetimes<D>,
    rings: Mutex<Vec<std::sync::Weak<RingState>>>,
    order: TypeOrder,
    /// One for each memory type and class group: see [`Shared::arena_index`].
    arenas: Box<[Arena<D>]>,
    retired: Mutex<RetiredQueue<D>>,
    scratch: Mutex<Scratch<D>>,
    lost: AtomicBool,
    memory_objects: AtomicU64,
    calls: Calls,
}

#[derive(Default)]
struct Calls {
    allocate_memory: AtomicU64,
    free_memory: AtomicU64,
    create_object: AtomicU64,
    destroy_object: AtomicU64,
    placed: AtomicU64,
    staged: AtomicU64,
    wait: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

const CLASSES: [ResourceClass; 3] = [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget];

impl<D: Device> Shared<D> {
    fn new(device: D, desc: AllocatorDesc) -> Self {
        let capabilities = device.capabilities();
        let blocks = BlocksDesc { destroy_threshold: desc.empty_blocks_kept, grace_ticks: desc.empty_block_grace };
        let arenas = (0..).zip(&capabilities.memory_types).flat_map(|(index, held)| {
            let heap = capabilities.memory_heaps[held.heap as usize].bytes;
            let host = held.properties.contains(MemoryProperties::HOST_VISIBLE);
            let wanted = if host { desc.host_block_bytes_max } else { desc.device_block_bytes_max };
            let sizes = BlockSizes::for_heap(heap, capabilities.memory_object_bytes_max, wanted);
            CLASSES.map(|class| Arena::new(index, class, sizes, blocks))
        });
        Self {
            order: TypeOrder::new(capabilities),
            arenas: arenas.collect(),
            lifetimes: Lifetimes::new(),
            rings: Mutex::new(Vec::new()),
            retired: Mutex::new(RetiredQueue { queue: RetireQueue::new(), waits: SyncSet::new(), turn: None }),
            scratch: Mutex::new(Scratch { passed: Passed::default(), released: Vec::new(), tick: 0 }),
            lost: AtomicBool::new(false),
            memory_objects: AtomicU64::new(0),
            calls: Calls::default(),
            device,
        }
    }

    // ---- making ----

    fn create<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
    ) -> Result<(Placed<<D as Create<K>>::Object>, Place<D>, Requirements), Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        self.check_lost()?;
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let (unplaced, requirements) = unsafe { self.device.prepare(info) }?;
        let needs = self.padded(requirements, desc.location);
        match self.place::<K>(&unplaced, needs, desc) {
            Ok((placed, place)) => {
                count(&self.calls.create_object);
                if !desc.name.is_empty() {
                    // SAFETY: the object was made just now.
                    unsafe { self.device.set_name(&placed.object, desc.name) };
                }
                Ok((placed, place, requirements))
            }
            Err(error) => {
                // SAFETY: nothing has used it up, since `place` failed.
                unsafe { self.device.discard(unplaced) };
                Err(error)
            }
        }
    }

    /// Host-visible memory that is not coherent is flushed in whole atoms: no two resources may share one.
    fn padded(&self, mut needs: Requirements, location: Location) -> Requirements {
        let atom = self.device.capabilities().non_coherent_atom_bytes;
        if location != Location::Device && atom > 1 {
            needs.alignment = needs.alignment.max(atom);
            needs.size = needs.size.div_ceil(atom).saturating_mul(atom);
        }
        needs
    }

    /// Tries every memory type that will do: see the order in [`crate::memory`].
    fn place<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<(Placed<<D as Create<K>>::Object>, Place<D>), Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let max = self.device.capabilities().memory_object_bytes_max;
        if needs.size > max {
            return Err(Error::TooLarge { size: needs.size, max });
        }
        let (mut tried, mut best, mut cause) = (0_u32, None, DeviceError::OutOfDeviceMemory);
        for memory_type in self.order.candidates(desc.location, needs.memory_type_bits) {
            best.get_or_insert(memory_type);
            tried |= 1 << memory_type;
            match self.place_in_type::<K>(unplaced, needs, desc, memory_type) {
                Ok(placed) => return Ok(placed),
                Err(error) if error.is_out_of_memory() => cause = error,
                Err(error) => return Err(error.into()),
            }
        }
        match best {
            None => Err(Error::NoMemoryType { location: desc.location, memory_type_bits: needs.memory_type_bits }),
            Some(best) => Err(self.out_of_memory(needs.size, desc.location, tried, best, cause)),
        }
    }

    fn out_of_memory(&self, size: u64, location: Location, tried: u32, best: u32, cause: DeviceError) -> Error {
        let capabilities = self.device.capabilities();
        let heap = capabilities.memory_types[best as usize].heap;
        Error::OutOfMemory {
            size,
            location,
            tried_type_bits: tried,
            heap,
            reserved_bytes: self.reserved_bytes(heap),
            heap_bytes: capabilities.memory_heaps[heap as usize].bytes,
            cause,
        }
    }

    fn place_in_type<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
        memory_type: u32,
    ) -> Result<(Placed<<D as Create<K>>::Object>, Place<D>), DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let arena = self.arena_index(memory_type, needs.class);
        if self.wants_dedicated(needs, desc.dedicated, arena) {
            return self.place_dedicated::<K>(unplaced, needs, desc, arena);
        }
        match self.place_in_block::<K>(unplaced, needs, desc, arena) {
            Err(error) if error.is_out_of_memory() && desc.dedicated != Dedicated::Never => {
                self.place_dedicated::<K>(unplaced, needs, desc, arena)
            }
            result => result,
        }
    }

    fn wants_dedicated(&self, needs: Requirements, wish: Dedicated, arena: u32) -> bool {
        let limit = self.device.capabilities().memory_objects_max;
        let near_limit = self.memory_objects.load(Ordering::Relaxed) >= limit / 4 * 3;
        match wish {
            _ if needs.requires_dedicated => true,
            Dedicated::Always => true,
            Dedicated::Never => false,
            Dedicated::Auto if !self.arenas[arena as usize].shares(needs.size) => true,
            Dedicated::Auto => needs.prefers_dedicated && !near_limit,
        }
    }

    fn place_in_block<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
        arena: u32,
    ) -> Result<(Placed<<D as Create<K>>::Object>, Place<D>), DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let request = Request { size: needs.size, alignment: needs.alignment, name: desc.name };
        let found = self.arenas[arena as usize].allocate(self, request)?;
        let offset = found.allocation.range().offset();
        let place = Place { memory: found.memory, offset, arena, hold: Hold::Range(found.allocation) };
        // SAFETY: the arena's memory is of a type and class that the requirements allow, and the range is aligned.
        match unsafe { self.device.place(unplaced, &place.memory.object, offset) } {
            Ok(placed) => {
                count(&self.calls.placed);
                Ok((placed, place))
            }
            Err(error) => {
                self.give_back(place);
                Err(error)
            }
        }
    }

    fn place_dedicated<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
        arena: u32,
    ) -> Result<(Placed<<D as Create<K>>::Object>, Place<D>), DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let Arena { memory_type, class, .. } = self.arenas[arena as usize];
        let memory =
            MemoryDesc { memory_type, size: needs.size, alignment: needs.alignment, class, name: desc.name };
        let (placed, object) = self.counted_memory(|| {
            // SAFETY: the type is one that the requirements allow; nothing has used `unplaced` up.
            unsafe { self.device.dedicate(unplaced, &memory) }
        })?;
        let number = self.arenas[arena as usize].add_dedicated(needs.size, desc.name);
        let memory = Arc::new(Memory { object, memory_type, size: needs.size });
        Ok((placed, Place { memory, offset: 0, arena, hold: Hold::Dedicated(number) }))
    }

    /// A memory object from the driver. No lock may be held that an allocation needs.
    pub(crate) fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory<D>, DeviceError> {
        // SAFETY: the arenas are made from the device's own list of types.
        let object = self.counted_memory(|| unsafe { self.device.allocate_memory(desc) })?;
        Ok(Memory { object, memory_type: desc.memory_type, size: desc.size })
    }

    /// Keeps the number of memory objects below the driver's limit, with threads racing for the last one.
    fn counted_memory<R>(&self, make: impl FnOnce() -> Result<R, DeviceError>) -> Result<R, DeviceError> {
        let limit = self.device.capabilities().memory_objects_max;
        if self.memory_objects.fetch_add(1, Ordering::Relaxed) >= limit {
            self.memory_objects.fetch_sub(1, Ordering::Relaxed);
            return Err(DeviceError::TooManyObjects);
        }
        let made = make();
        match &made {
            Ok(_) => count(&self.calls.allocate_memory),
            Err(_) => _ = self.memory_objects.fetch_sub(1, Ordering::Relaxed),
        }
        made
    }

    /// The arena of a memory type and the group that a class falls in.
    fn arena_index(&self, memory_type: u32, class: ResourceClass) -> u32 {
        let group = self.device.capabilities().class_groups[class as usize];
        memory_type * CLASSES.len() as u32 + u32::from(group)
    }

    // ---- letting go ----

    /// Lets go of a resource: it is destroyed once every submission that has begun is complete.
    pub(crate) fn retire(&self, object: RawObject<D>, place: Place<D>) {
        let mut retired = self.retired.lock();
        let RetiredQueue { queue, waits, turn } = &mut *retired;
        let now = self.lifetimes.current_turn();
        if *turn != Some(now) {
            self.lifetimes.begun(waits);
            *turn = Some(now);
        }
        queue.retire(waits, Retired { object, place });
    }

    /// Lets go of a resource that only the submissions of `points` use.
    pub(crate) fn retire_after(&self, points: &SyncSet, object: RawObject<D>, place: Place<D>) {
        self.retired.lock().queue.retire(points, Retired { object, place });
    }

    pub(crate) fn reclaim(&self) -> Reclaimed {
        let Some(mut scratch) = self.scratch.try_lock() else { return Reclaimed::default() };
        let Scratch { passed, released, tick } = &mut *scratch;
        *tick += 1;
        if self.lifetimes.read(&self.device, passed).is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
        let device_lost = self.lost.load(Ordering::Relaxed);
        if device_lost {
            self.retired.lock().queue.release_all(|item| released.push(item));
        } else {
            self.retired.lock().queue.reclaim(passed, |item| released.push(item));
        }
        let objects = released.len();
        for item in released.drain(..) {
            self.destroy(item);
        }
        let blocks = self.arenas.iter().map(|arena| self.free_all(|| arena.take_surplus(*tick))).sum();
        Reclaimed { objects, blocks, device_lost }
    }

    fn destroy(&self, Retired { object, place }: Retired<D>) {
        self.device.note_retired(&place.memory.object, place.offset, place.memory.size);
        // SAFETY: every submission that used the object is complete, or the device is lost; it is destroyed once, as
        // the queue gives each item out once.
        unsafe { object.destroy(&self.device) };
        count(&self.calls.destroy_object);
        self.give_back(place);
    }

    /// Gives a resource's bytes back, its object being gone.
    fn give_back(&self, Place { memory, arena, hold, .. }: Place<D>) {
        let arena = &self.arenas[arena as usize];
        match hold {
            Hold::Range(allocation) => {
                // First, so that whoever takes the block out when it is empty is the last to hold its memory.
                drop(memory);
                arena.free(allocation);
            }
            Hold::Dedicated(number) => {
                arena.remove_dedicated(number);
                let memory = Arc::into_inner(memory).expect("dedicated memory has one owner");
                self.free_memory(memory);
            }
        }
    }

    fn free_all(&self, mut next: impl FnMut() -> Option<Memory<D>>) -> usize {
        std::iter::from_fn(&mut next).map(|memory| self.free_memory(memory)).count()
    }

    fn free_memory(&self, memory: Memory<D>) {
        // SAFETY: this device made it, and nothing is placed in it: its block is empty, or its only resource destroyed.
        unsafe { self.device.free_memory(memory.object) };
        self.memory_objects.fetch_sub(1, Ordering::Relaxed);
        count(&self.calls.free_memory);
    }

    fn wait_submitted(&self, timeout: Duration) -> Result<(), ShutdownError> {
        let deadline = Instant::now().checked_add(timeout);
        match self.wait(&self.lifetimes.submitted(), deadline) {
            Ok(()) | Err(WaitError::Device(DeviceError::Lost)) => Ok(()),
            Err(WaitError::Device(error)) => Err(error.into()),
            Err(WaitError::Timeout | WaitError::NotSubmitted(_)) => Err(ShutdownError::Timeout),
        }
    }

    /// Waits for points, counted.
    pub(crate) fn wait(&self, points: &SyncSet, deadline: Option<Instant>) -> Result<(), WaitError> {
        count(&self.calls.wait);
        self.lifetimes.wait(&self.device, points, deadline)
    }

    // ---- the host's access ----

    /// Makes host writes at `offset..offset + size` of the place visible to the device, where that needs a call.
    pub(crate) fn flush(&self, place: &Place<D>, offset: u64, size: u64) -> Result<(), DeviceError> {
        let memory = &place.memory;
        let capabilities = self.device.capabilities();
        if size == 0 || !capabilities.needs_flush(memory.memory_type) {
            return Ok(());
        }
        let atom = if capabilities.is_non_coherent(memory.memory_type) { capabilities.non_coherent_atom_bytes } else { 1 };
        let start = (place.offset + offset) / atom * atom;
        let end = (place.offset + offset + size).div_ceil(atom).saturating_mul(atom).min(memory.size);
        // SAFETY: the range lies in this device's memory, which is mapped as long as it exists, and is atom-aligned.
        unsafe { self.device.flush(&memory.object, start, end - start) }
    }

    /// Notes a ring, for snapshots.
    pub(crate) fn add_ring(&self, ring: &Arc<RingState>) {
        let mut rings = self.rings.lock();
        rings.retain(|held| held.strong_count() > 0);
        rings.push(Arc::downgrade(ring));
    }

    pub(crate) fn count_staged(&self) {
        count(&self.calls.staged);
    }

    pub(crate) fn check_lost(&self) -> Result<(), DeviceError> {
        if self.lost.load(Ordering::Relaxed) { Err(DeviceError::Lost) } else { Ok(()) }
    }

    // ---- seeing ----

    fn type_statistics(&self) -> Vec<TypeStatistics> {
        let by_type = self.arenas.chunks(CLASSES.len());
        by_type
            .map(|classes| {
                let mut sum = TypeStatistics::default();
                classes.iter().for_each(|arena| sum.add(&arena.statistics()));
                sum
            })
            .collect()
    }

    fn reserved_bytes(&self, heap: u32) -> u64 {
        let types = &self.device.capabilities().memory_types;
        let held = types.iter().zip(self.type_statistics());
        held.filter(|(held, _)| held.heap == heap).map(|(_, statistics)| statistics.reserved_bytes()).sum()
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            types: self.type_statistics(),
            retired_count: self.retired.lock().queue.len() as u64,
            calls: self.driver_calls(),
        }
    }

    fn driver_calls(&self) -> DriverCalls {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DriverCalls {
            allocate_memory: get(&self.calls.allocate_memory),
            free_memory: get(&self.calls.free_memory),
            create_object: get(&self.calls.create_object),
            destroy_object: get(&self.calls.destroy_object),
            placed: get(&self.calls.placed),
            staged: get(&self.calls.staged),
            wait: get(&self.calls.wait),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let capabilities = self.device.capabilities();
        let statistics = self.statistics();
        let budgets = self.device.budgets();
        let heaps = (0..).zip(&capabilities.memory_heaps).map(|(index, heap)| {
            let told = budgets.as_ref().and_then(|budgets| budgets.get(index as usize));
            HeapSnapshot {
                bytes: heap.bytes,
                device_local: heap.device_local,
                reserved_bytes: self.reserved_bytes(index),
                usage_bytes: told.map(|told| told.usage_bytes),
                budget_bytes: told.map(|told| told.budget_bytes),
            }
        });
        let types = capabilities.memory_types.iter().zip(&statistics.types).map(|(held, statistics)| TypeSnapshot {
            heap: held.heap,
            properties: held.properties.names().map(str::to_owned).collect(),
            statistics: *statistics,
        });
        let mut blocks = Vec::new();
        for arena in &self.arenas {
            arena.snapshot(class_name(capabilities.class_groups, arena.class), &mut blocks);
        }
        Snapshot {
            version: 1,
            device: capabilities.name.clone(),
            heaps: heaps.collect(),
            types: types.collect(),
            blocks,
            rings: self.rings.lock().iter().filter_map(std::sync::Weak::upgrade).map(|ring| ring.snapshot()).collect(),
            retired_count: statistics.retired_count,
            calls: statistics.calls,
        }
    }
}

/// What lies in the blocks of a class, where some classes share them.
fn class_name(groups: [u8; 3], class: ResourceClass) -> &'static str {
    let [buffer, texture, target] = groups;
    match class {
        ResourceClass::Buffer if buffer == texture && texture == target => "all",
        ResourceClass::Buffer => "buffers",
        ResourceClass::Texture => "textures",
        ResourceClass::RenderTarget => "render targets",
    }
}

impl<D: Device> Drop for Shared<D> {
    /// Whatever is left waits for the GPU here: nothing may be destroyed under it. After [`Allocator::shutdown`] there
    /// is nothing left to wait for.
    fn drop(&mut self) {
        let idle = self.retired.lock().queue.is_empty() || self.wait_submitted(Duration::MAX).is_ok();
        let mut left = Vec::new();
        self.retired.lock().queue.release_all(|item| left.push(item));
        if !idle {
            // The driver failed while waiting: what the GPU may still use is better leaked than destroyed under it.
            return std::mem::forget(left);
        }
        left.into_iter().for_each(|item| self.destroy(item));
        for index in 0..self.arenas.len() {
            self.free_all(|| self.arenas[index].take_empty());
        }
    }
}
