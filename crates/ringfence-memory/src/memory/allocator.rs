//! The allocator that users hold: makes resources, gives them memory, and takes back what the GPU is done with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringfence_core::range::Invalid;
use ringfence_core::sync::SyncPoint;

use super::place::ArenaRef;
use super::shared::Shared;
use super::{Budget, Evict, Maintenance, Plan, Pool, PoolDesc, Snapshot, Statistics};
use crate::defrag::{Defrag, DefragDesc};
use crate::device::{BufferInfo, Buffers, Device, DeviceError, Requirements, ResourceClass, TextureInfo, Textures};
use crate::error::Error;
use crate::observe::debugging::{DebugDesc, Finding, GuardCheck, Leak, Operation, Spot};
use crate::observe::trace::{StartTraceError, TraceSummary};
use crate::resource::{AllocationDesc, Buffer, Texture};
use crate::timeline::{Passed, RetireBin, Timeline};

/// How an allocator is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocatorDesc {
    /// The largest block in bytes of memory that only the device uses. Less where a heap is small: at most an eighth of it.
    pub device_block_bytes_max: u64,
    /// The largest block in bytes of memory that the host sees too: making it takes the driver longer.
    pub host_block_bytes_max: u64,
    /// How many empty blocks of one memory type and class are kept for good.
    pub empty_blocks_kept: usize,
    /// For how many calls of [`Allocator::reclaim`] an empty block beyond those is kept. 0: none; what empties it gives it
    /// back. That is for programs that have no frames to count, and may make a block come and go with one resource.
    pub empty_block_grace: u64,
    /// Whether common small sizes get pools of equal cells, which are lock-free. A cell may be half as large again as what
    /// lies in it, and a pool that is empty holds its bytes until a reclaim. Without them every range is exact.
    pub cells: bool,
    /// What is taken of each memory heap at the most, in bytes, by heap index: to share a device, or to try out a
    /// smaller one.
    pub heap_bytes_max: [u64; 16],
    /// What is taken at the most, in bytes, of a *small window*: a heap of up to 256 MiB through which the host reaches
    /// into a larger device memory. Beyond it, [`Location::DeviceUpload`] falls back to host memory, so that what
    /// cannot do without the window still finds room there.
    ///
    /// [`Location::DeviceUpload`]: super::Location::DeviceUpload
    pub window_bytes_max: u64,
    /// What is looked for while the program runs: see [`debugging`](crate::debugging). Nothing, by default.
    pub debug: DebugDesc,
}

impl Default for AllocatorDesc {
    fn default() -> Self {
        Self {
            device_block_bytes_max: 256 << 20,
            host_block_bytes_max: 64 << 20,
            empty_blocks_kept: 1,
            empty_block_grace: 120,
            cells: true,
            heap_bytes_max: [u64::MAX; 16],
            window_bytes_max: 128 << 20,
            debug: DebugDesc::default(),
        }
    }
}

/// Makes buffers and textures with memory, and takes them back once the GPU is done with them.
///
/// Cheap to clone; every clone is the same allocator. All methods may be called from any thread. The allocator lives as
/// long as something that it made.
pub struct Allocator<D: Device> {
    shared: Arc<Shared<D>>,
    /// What all clones have together, and nothing else.
    handle: Arc<Handle<D>>,
}

/// Goes with the last clone of an allocator.
struct Handle<D: Device>(Arc<Shared<D>>);

impl<D: Device> Drop for Handle<D> {
    fn drop(&mut self) {
        self.0.close_stocks();
    }
}

/// What [`Allocator::reclaim`] did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reclaimed {
    /// Resources that were destroyed.
    pub objects: usize,
    /// Blocks that were given back to the driver.
    pub blocks: usize,
    /// Resources that still wait for the device (or for a later call, if this one was bounded).
    pub waiting: usize,
    /// Whether the device is lost. Everything that was waiting for it has been destroyed then.
    pub device_lost: bool,
}

/// Why [`Allocator::shutdown`] ended early. What was waiting still waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The GPU did not finish what was submitted in time.
    #[error("the device did not finish its work within {waited_ns} ns: {waiting} objects still wait for it")]
    Timeout {
        /// How long was waited.
        waited_ns: u64,
        /// Resources that wait for the device.
        waiting: usize,
    },
    /// Frames are open, which may still be submitted.
    #[error("{open} frames are open, among them the one with {frame}: {waiting} objects still wait")]
    OpenFrames {
        /// What the oldest of them on its timeline signals.
        frame: SyncPoint,
        /// How many are open, on all timelines.
        open: usize,
        /// Resources that wait for them or for the device.
        waiting: usize,
    },
    /// A frame was dropped, neither submitted nor discarded, and its value was not reached in time.
    #[error(
        "the frame with {frame} was dropped, and was not complete within {waited_ns} ns: {waiting} objects still wait \
         (if it was not submitted, it had to be discarded; see `Timeline::discard_dropped`)"
    )]
    DroppedFrame {
        /// What the last such frame of its timeline signals, if it was submitted.
        frame: SyncPoint,
        /// How long was waited.
        waited_ns: u64,
        /// Resources that wait for it or for the device.
        waiting: usize,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl<D: Device> Allocator<D> {
    /// An allocator over a device. Each backend has a `new` that takes the API's own objects.
    #[must_use]
    pub fn over(device: D, desc: AllocatorDesc) -> Self {
        let shared = Arc::new(Shared::new(device, desc));
        Self { handle: Arc::new(Handle(Arc::clone(&shared))), shared }
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
    /// The fence is of this allocator's device and outlives the allocator and all that it makes. For as long as that, the
    /// caller sees to it, in the whole program, that:
    ///
    /// 1. Each submission that touches what the allocator made is begun with [`Timeline::begin`] *before* any command of it
    ///    that uses such an object is recorded, and before the object is written for it. While it records, the program
    ///    holds the objects or has dropped them since the frame began.
    /// 2. The submission signals this fence with [`Frame::value`](crate::Frame::value) once it is complete, with all of its
    ///    commands. Submissions of one timeline go to one queue, in the order of their values, so that a value that is
    ///    reached means that all work with lower values is complete. Nothing else signals the fence.
    /// 3. The frame stays open until the submission is made: [`Timeline::submitted`] is called after it, and neither
    ///    that nor dropping the frame comes before the submission. After either, no command is added for it.
    /// 4. A frame that is [discarded](crate::Frame::discard) was not submitted and never will be. When
    ///    [`Timeline::discard_dropped`] is called, no work of the frames that were dropped on the timeline is under way
    ///    or comes later.
    ///
    /// A frame that is dropped says nothing: it may have been submitted or not, and both are sound. That holds for one that
    /// is dropped by an early return or a panic between the submission and [`Timeline::submitted`], too.
    pub unsafe fn timeline(&self, fence: D::Fence) -> Result<Timeline<D>, DeviceError> {
        Timeline::new(Arc::clone(&self.shared), fence)
    }

    /// Makes a buffer.
    ///
    /// O(1) with room in a block; a new block or memory of its own is a driver call that may take milliseconds.
    ///
    /// # Errors
    /// No memory, no memory type for the location, or the driver refuses the description. Nothing has changed then.
    #[track_caller]
    pub fn create_buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Buffer<D>, Error> {
        self.create(info, desc, None)
    }

    /// Makes a texture.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`].
    #[track_caller]
    pub fn create_texture(&self, info: &TextureInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Texture<D>, Error> {
        self.create(info, desc, None)
    }

    /// What [`Allocator::allocate`] would do: which memory type, in a block or by itself, what the driver would be asked
    /// for. Changes nothing. With nobody else taking memory meanwhile, the call does what the plan says, as long as the
    /// driver grants what its budgets promise.
    ///
    /// # Errors
    /// Those of the call that can be foreseen; [`Error::OverBudget`] where no heap has room.
    pub fn plan(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.shared.plan(&self.ask(needs, &desc))
    }

    /// What [`Allocator::create_buffer`] would do. On Vulkan the driver's object is made, measured and destroyed.
    ///
    /// # Errors
    /// As [`Allocator::plan`], or the driver refuses the description.
    pub fn plan_buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.plan_resource::<Buffers>(info, desc)
    }

    /// What [`Allocator::create_texture`] would do.
    ///
    /// # Errors
    /// As [`Allocator::plan_buffer`].
    pub fn plan_texture(&self, info: &TextureInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.plan_resource::<Textures>(info, desc)
    }

    /// The memory type that is tried first for such requirements, for [`PoolDesc`]; `None` if there is none.
    #[must_use]
    pub fn memory_type_for(&self, memory_type_bits: u32, desc: AllocationDesc<'_>) -> Option<u32> {
        self.shared.order.candidates_for(self.shared.device.capabilities(), &desc, memory_type_bits).next()
    }

    /// Makes a custom pool.
    ///
    /// # Errors
    /// No such memory type, blocks larger than the device allows, an alignment that is not a power of two; or the
    /// blocks that it is to have from the start could not be made.
    pub fn create_pool(&self, desc: PoolDesc<'_>) -> Result<Pool<D>, Error> {
        Pool::new(self, desc)
    }

    /// Sets what is called when memory runs short and nothing else has helped: see the ladder in
    /// [`memory`](crate::memory). It lets go of what it can do without and says whether it did; then what the device
    /// is done with is reclaimed and everything is tried again, a few times at most. `None` takes the callback away.
    ///
    /// It is called on the thread whose allocation failed, without a lock held, and may use the allocator; what it asks
    /// for itself does not call it again. If it panics, nothing was made and nothing is lost. The callback before goes
    /// here, or with the call of it that is under way.
    pub fn set_eviction(&self, evict: Option<Box<Evict>>) {
        let replaced = std::mem::replace(&mut *self.shared.evict.write(), evict.map(Arc::from));
        // Its `Drop` is the program's code, so it runs with no lock held.
        drop(replaced);
    }

    /// Announces that the program is going to allocate `bytes` for resources of `class`, where `desc` says: before it
    /// loads a level, say. The blocks for them are made now, a driver call each on this thread, so that what is
    /// allocated then asks for none. Says how many bytes were asked of the driver: fewer than announced if empty blocks
    /// are at hand.
    ///
    /// [`Allocator::reclaim`] does not give these blocks back before as many bytes were allocated there.
    /// [`Allocator::trim`] and a shortage of memory do: what was announced is void then. Resources that get memory of
    /// their own, for their size or by the driver's wish, find nothing here; and where the ends of blocks are too small
    /// for what comes, the last of it may need a block more.
    ///
    /// Of `desc`, the location, the memory types and properties, `within_budget` and `never_grow` count. The best memory
    /// type is taken and no other tried; where the resources' requirements are known, `memory_types` should name the
    /// types that these allow. No lock is held that an allocation needs: another thread can announce while this one draws.
    ///
    /// # Errors
    /// More than the heap has, no memory type, no memory, over the budget. Nothing has changed then.
    pub fn reserve(&self, class: ResourceClass, bytes: u64, desc: AllocationDesc<'_>) -> Result<u64, Error> {
        self.shared.reserve(class, bytes, &desc)
    }

    /// Makes the blocks that are going to be needed soon, so that no allocation waits for them: a driver call each.
    /// Says how many. For programs that have a thread of their own for it; else there is
    /// [`Allocator::maintain_in_background`].
    pub fn maintain(&self) -> usize {
        self.shared.maintain()
    }

    /// Starts a thread that makes blocks before they are needed. It sleeps until an arena falls below its low-water
    /// mark; it ends when the value that this returns is dropped.
    ///
    /// The mark is half a block, or more where more is used while the driver makes one: up to four blocks. Where the
    /// program asks for more in a second than the driver can make, nothing helps but [`Allocator::reserve`].
    ///
    /// The thread may be in a driver call when the allocator is dropped: drop the value that this returns before the
    /// device is destroyed.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn maintain_in_background(&self) -> std::io::Result<Maintenance> {
        Maintenance::spawn(&self.shared)
    }

    /// Use and limits of a memory heap, from what the driver said last and what was taken since. A few loads.
    ///
    /// # Panics
    /// If there is no such heap.
    #[must_use]
    pub fn budget(&self, heap: u32) -> Budget {
        self.shared.budgets.heap(heap)
    }

    /// Destroys what every timeline has passed, and gives blocks back that have been empty for long. Call it once a
    /// frame. Never waits for the GPU; one driver call a timeline, and one for each object that goes.
    ///
    /// If another thread is at it already, or this one further up, there is nothing to do and nothing is done. Threads that
    /// drop faster than one destroys help it: of what each has dropped at most 1,280 objects wait that the GPU is done with.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.reclaim(usize::MAX)
    }

    /// As [`Allocator::reclaim`], but destroys `objects_max` resources at the most, so that a frame in which very much
    /// is let go of does not pay for all of it. The rest is left for the next call, nobody's turn being passed over.
    /// After a device loss everything goes, as nothing is left to be smooth for.
    pub fn reclaim_at_most(&self, objects_max: usize) -> Reclaimed {
        self.shared.reclaim(objects_max)
    }

    /// Puts an object of the program's own into `bin`, to come out once every submission that has begun is complete,
    /// as if it were a resource of this allocator that is dropped. O(1).
    pub fn retire_into<T>(&self, bin: &RetireBin<T>, item: T) {
        self.shared.lifetimes.retire_into(bin, item);
    }

    /// As [`Allocator::retire_into`] for each of them, with one step that other threads see instead of one an item. `items`
    /// is empty afterwards, and keeps its memory.
    pub fn retire_all_into<T>(&self, bin: &RetireBin<T>, items: &mut Vec<T>) {
        self.shared.lifetimes.retire_all_into(bin, items);
    }

    /// Moves what has passed out of `bin`, `items_max` items at the most, and says how many those were. One driver call
    /// a timeline. Points on timelines of another allocator never pass here: items of several allocators may share a bin,
    /// and each comes out where it was put in.
    ///
    /// # Errors
    /// [`DeviceError::Lost`]: [`RetireBin::collect_all`] gives everything then. Or a driver's failure; nothing has
    /// changed.
    pub fn collect_from<T>(
        &self,
        bin: &RetireBin<T>,
        items_max: usize,
        into: &mut Vec<T>,
    ) -> Result<usize, DeviceError> {
        let mut passed = Passed::default();
        self.shared.lifetimes.read(&self.shared.device, &mut passed)?;
        Ok(bin.collect_passed(&passed, items_max, into))
    }

    /// Gives what has passed of `bin` to `each`, as [`RetireBin::release`] does: [`Allocator::collect_from`] without the
    /// vector.
    ///
    /// # Errors
    /// As [`Allocator::collect_from`].
    pub fn release_from<T>(
        &self,
        bin: &RetireBin<T>,
        items_max: usize,
        each: impl FnMut(T),
    ) -> Result<usize, DeviceError> {
        let mut passed = Passed::default();
        self.shared.lifetimes.read(&self.shared.device, &mut passed)?;
        Ok(bin.release_passed(&passed, items_max, each))
    }

    /// Waits until all that was submitted is complete, at most for `timeout`, then destroys what waits for it. After `Ok`
    /// nothing waits.
    ///
    /// Frames that were dropped may have been submitted, and are waited for as well. With a timeout of zero it is a
    /// question, with [`Duration::MAX`] it waits for however long it takes, but for dropped frames not at all, as these may
    /// never come. After a device loss nothing is waited for, and everything is destroyed at once.
    ///
    /// # Errors
    /// A frame is open, or was dropped and is not complete; the time is over; or the driver failed for another reason than
    /// device loss. What was waiting still waits.
    pub fn shutdown(&self, timeout: Duration) -> Result<Reclaimed, ShutdownError> {
        self.shared.shutdown(timeout)
    }

    /// Records everything that happens to memory from now on into `to`, until [`Allocator::stop_trace`] or until the
    /// allocator is gone: see [`crate::trace`]. Writes come in pieces of 64 KiB or of a quarter of a second, from
    /// [`Allocator::reclaim`], so that a file needs no buffer of its own.
    ///
    /// A write that fails, or panics, ends the recording and nothing else; `stop_trace` says why. It runs with no lock held,
    /// and may use the allocator.
    ///
    /// # Errors
    /// A recording is under way, something was made already, or the beginning cannot be written.
    pub fn start_trace(&self, to: impl std::io::Write + Send + 'static) -> Result<(), StartTraceError> {
        self.shared.start_trace(Box::new(to))
    }

    /// Ends the recording and says how large it is; `None` if nothing was being recorded. Waits for a write that is under
    /// way on another thread.
    ///
    /// # Errors
    /// Some of it could not be written: what was written before that can be read. Or the write itself asks for it: the
    /// recording goes on then.
    pub fn stop_trace(&self) -> std::io::Result<Option<TraceSummary>> {
        self.shared.stop_trace().transpose()
    }

    /// Gives every empty block back to the driver, and says how many there were.
    pub fn trim(&self) -> usize {
        self.shared.trim()
    }

    /// Gives empty blocks back to the driver until this allocator holds no more than `target_bytes` of all heaps, or has
    /// no empty block left; says how many bytes that were.
    pub fn trim_to(&self, target_bytes: u64) -> u64 {
        self.shared.trim_small_buffers();
        self.shared.free_empty_blocks(|_| true, target_bytes).1
    }

    /// Begins to bring together what is in memory, that of custom pools too: see [`defrag`](crate::defrag). Nothing is
    /// moved yet.
    #[must_use]
    pub fn defragment(&self, desc: DefragDesc) -> Defrag<D> {
        let own = (0..self.shared.arenas.len() as u64).map(ArenaRef::Own);
        let pools =
            self.shared.custom_pools.read().iter().map(|pool| ArenaRef::Pool(Arc::clone(pool))).collect::<Vec<_>>();
        Defrag::new(Arc::clone(&self.shared), own.chain(pools).collect(), desc)
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

    /// Checks every rule of the allocator's own structures. For tests; no other thread may use the allocator meanwhile.
    ///
    /// What threads share without a lock is between two states while one of them changes it, and nothing here holds them
    /// up: a sound allocator that is in use may be told to be unsound.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.shared.validate()
    }

    /// Compares the guards of every live range that has some, and mends those that were written: see
    /// [`debugging`](crate::debugging). O(live ranges); nothing without margins.
    #[must_use]
    pub fn check_guards(&self) -> GuardCheck {
        self.shared.debug.as_ref().map(|debug| debug.check_guards(&self.shared)).unwrap_or_default()
    }

    /// What is alive, by name and place of creation, what waits for the device too; nothing unless something is looked
    /// for ([`AllocatorDesc::debug`]). O(live ranges).
    #[must_use]
    pub fn live(&self) -> Vec<Leak> {
        self.shared.debug.as_ref().map(|debug| debug.live()).unwrap_or_default()
    }

    /// What was found since the last call: overruns as they are found, leaks at [`Allocator::shutdown`]. The last 1024.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        self.shared.debug.as_ref().map(|debug| debug.take_findings()).unwrap_or_default()
    }

    /// What happened last, oldest first: as much as [`DebugDesc::history_count`] says.
    #[must_use]
    pub fn history(&self) -> Vec<Operation> {
        self.shared.debug.as_ref().map(|debug| debug.history(None)).unwrap_or_default()
    }

    /// Of what happened last what was about the byte at `spot`: who had it, and when he got it and let go of it. O(history).
    #[must_use]
    pub fn history_of(&self, spot: Spot) -> Vec<Operation> {
        self.shared.debug.as_ref().map(|debug| debug.history(Some(spot))).unwrap_or_default()
    }

    /// What libraries build on: see [`extend`](crate::extend).
    #[inline]
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }
}

impl<D: Device> Clone for Allocator<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), handle: Arc::clone(&self.handle) }
    }
}

impl<D: Device> fmt::Debug for Allocator<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Allocator({})", self.shared.device.capabilities().name)
    }
}
