//! The public interface of the transient allocator, and one execution of a graph.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic;
use std::sync::Arc;

use ringfence_alias::{PassOrder, PassUse, Progress};
use ringfence_core::range::Invalid;
use ringfence_core::sync::{SyncPoint, TimelineId};

use super::barrier::Barrier;
use super::desc::{TransientDesc, TransientFigures};
use super::error::TransientError;
use super::frame::{Described, FramePass, FrameResource, check_places};
use super::handle::{Transient, TransientBuffer, TransientTexture};
use super::heap::{Tenancy, TransientKind};
use super::pass::{Clock, Pass, TransientId};
use super::state::{State, Wanted};
use crate::device::descriptors::PlacedTexture;
use crate::device::{Buffers, Create, Describe, Device, RawBuffer, RawTexture, Textures};
use ringfence_memory::{Allocator, Error, RawObject};

/// An allocator of aliased memory for the resources of graph executions. See the [crate](super).
///
/// Use it for the render targets and buffers of a frame. Resources whose passes do not overlap get the same bytes. If
/// it is dropped, its objects and heaps live until the submissions that use them are complete.
///
/// # Examples
///
/// Two targets of a frame with three passes. `device`, `fence`, `memory` and `timeline` are created as in the example
/// of [`Allocator`](ringfence_memory::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// use ringfence::device::{TextureDesc, TextureUsage};
/// use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc};
/// use ringfence::TransientAllocator;
///
/// let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
/// let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
/// let target = TextureDesc { width: 512, height: 512, usage, ..Default::default() };
/// // On Vulkan, `target` is a `vulkan::TextureInfo`.
/// let info = Described::Texture(&target);
/// let normals = FrameResource { info, first: 0, last: &[1], name: "normals" }; // used by passes 0 and 1
/// let bloom = FrameResource { info, first: 2, last: &[], name: "bloom" }; // used by pass 2 only
///
/// let frame = timeline.begin();
/// let execution = transient.plan(&[FramePass::on(timeline.id()); 3], &[normals, bloom], |_progress| true)?;
/// let (normals, bloom) = (execution.planned(0)?, execution.planned(1)?);
/// assert_eq!(execution.place(normals)?, execution.place(bloom)?); // the same bytes
/// # let mut commands = Vec::new();
/// for target in [normals, bloom] {
///     // Before each pass: record its barriers from `execution.barriers()`. A clear stands for the draws.
///     commands.push(sim::Command::Clear { texture: *execution.texture(target)?, value: 0 });
/// }
/// device.submit(0, &[], commands, (fence, frame.value()))?;
/// execution.finish(&[timeline.submitted(frame)?]);
/// transient.end_frame(); // once a frame, with `memory.reclaim()`
/// assert!(transient.figures().saved_bytes() >= 512 * 512 * 4);
/// # assert!(device.run_until_idle() && device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TransientAllocator<D: Device>(State<D>);

impl<D: Device> TransientAllocator<D> {
    /// Creates a transient allocator over an allocator. No memory is allocated yet.
    #[must_use]
    #[track_caller]
    pub fn new(memory: &Allocator<D>, desc: TransientDesc<'_>) -> Self {
        Self(State::new(memory, desc, panic::Location::caller()))
    }

    /// Begins a graph execution. Handles of the previous execution become stale. Makes no driver call.
    ///
    /// # Examples
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::TransientAllocator;
    /// # use ringfence::device::{TextureDesc, TextureUsage};
    /// # use ringfence::transient::TransientDesc;
    /// # let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
    /// # let usage = TextureUsage::RENDER_TARGET;
    /// # let desc = TextureDesc { width: 512, height: 512, usage, ..Default::default() };
    /// let frame = timeline.begin();
    /// let mut execution = transient.begin();
    /// let first = execution.pass(timeline.id(), &[])?;
    /// let depth = execution.acquire_texture(&desc, first, "depth")?;
    /// execution.discard(depth, &[first])?; // no later pass uses it
    /// let second = execution.pass(timeline.id(), &[])?;
    /// let bloom = execution.acquire_texture(&desc, second, "bloom")?;
    /// assert_eq!(execution.place(bloom)?.1.start, 0); // the bytes of `depth`
    /// execution.discard(bloom, &[second])?;
    /// assert_eq!(execution.finish(&[frame.point()]), 0); // all resources were discarded
    /// # device.submit(0, &[], vec![], (fence, frame.value()))?;
    /// # timeline.submitted(frame)?;
    /// # assert!(device.run_until_idle() && device.take_hazards().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin(&mut self) -> Execution<'_, D> {
        self.0.start();
        self.0.plans.forget_frame();
        Execution::new(self)
    }

    /// Begins an execution whose resources are all known up front. Plans their offsets, or reuses the plan of an
    /// earlier frame of the same shape (equal passes, waits and descriptions of resources), and acquires the resources.
    /// [`TransientAllocator::planned`] returns the handles, [`TransientAllocator::frame_pass`] the passes. Do not
    /// discard these resources: their bytes are free after their last passes.
    ///
    /// While a new shape is planned and its plan is not proven to be optimal, `go_on` is called as in
    /// [`plan`](ringfence_alias::plan). If the shape is known, and the heaps and objects of its plan are cached and
    /// free, this function makes no driver call and allocates no host memory.
    ///
    /// # Errors
    /// - [`TransientError::NotPlanned`]: an index is out of range for the lists, or a pass waits for itself or a later
    ///   pass.
    /// - [`TransientError::NotAfter`]: a last use is not ordered after the first use.
    /// - The errors of [`Execution::pass`].
    /// - [`TransientError::Passes`] or [`TransientError::Resources`]: a table of the planner would be too large.
    /// - [`TransientError::Memory`]: there is no memory, or the driver failed.
    ///
    /// If the error occurs after this call has begun the execution, the execution ends. Objects that this call has
    /// created stay in the caches.
    pub fn plan(
        &mut self,
        passes: &[FramePass<'_>],
        resources: &[FrameResource<'_, '_, D>],
        go_on: impl FnMut(&Progress) -> bool,
    ) -> Result<Execution<'_, D>, TransientError> {
        check_places(passes, resources)?;
        self.0.shared.check_lost()?;
        let plan = self.0.plan_index(passes, resources, go_on)?;
        self.0.start();
        self.0.plans.placed.clear();
        // From here on a failure ends the execution, because the error path drops `execution`.
        let execution = Execution::new(self);
        execution.transient.0.plan(passes, resources, plan)?;
        Ok(execution)
    }

    /// Searches for an order of the passes of one queue in which the resources need fewer bytes. Returns the order and
    /// its saving. If no better order is found, returns the present order.
    ///
    /// - Passes are given by their index in the present order, `0..pass_count`.
    /// - Each resource needs at least one use; the order of the list does not matter. The use by the earliest pass
    ///   counts as a write.
    /// - `order` contains further pairs *(before, after)* of passes that must keep their order, although no use of a
    ///   resource requires it. An example are two passes that write a buffer of another allocator.
    /// - `go_on` is called before each pass that is tried at another position, with the load reached so far, in bytes.
    ///   If it returns `false`, the search stops.
    ///
    /// The load is the largest sum of the memory requirements of resources that are alive at the same time, as if all
    /// resources could share one heap. The driver is called for requirements that are not known yet; no objects are
    /// created.
    ///
    /// # Errors
    /// - [`TransientError::NotPlanned`]: a pass does not exist, a resource has no use, or the passes of a pair are not
    ///   in order at present.
    /// - [`TransientError::Passes`]: there are more than 92,680 passes, so their table would exceed 1 GiB.
    /// - [`TransientError::Memory`]: the driver rejects a description, a resource is larger than any memory object, or
    ///   the sizes sum up to 2^63 bytes or more.
    ///
    /// # Example
    /// ```
    /// # use ringfence_hal::{Create, TextureDesc, Textures};
    /// # use ringfence_sim as sim;
    /// # use ringfence_transient::{Described, TransientAllocator, TransientDesc};
    /// # use ringfence_memory::{Allocator, AllocatorDesc};
    /// use ringfence_alias::PassUse;
    /// # let gpu = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(gpu, AllocatorDesc::default());
    /// # let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
    /// // Now: 0 draws shadows, 1 draws reflections, 2 reads reflections, 3 reads shadows.
    /// let target = TextureDesc { width: 512, height: 512, ..Default::default() };
    /// let shadows = (Described::Texture(&target), &[PassUse::write(0), PassUse::read(3)][..]);
    /// let reflections = (Described::Texture(&target), &[PassUse::write(1), PassUse::read(2)][..]);
    /// let advice = transient.suggest_order(4, &[shadows, reflections], &[], |_| true)?;
    /// // In the suggested order, the two targets are never alive at the same time.
    /// assert_eq!(advice.saving(), advice.load_before / 2);
    /// println!("{:?} would save {} bytes", advice.order, advice.saving());
    /// # Ok::<(), ringfence_transient::TransientError>(())
    /// ```
    pub fn suggest_order(
        &mut self,
        pass_count: usize,
        resources: &[(Described<'_, '_, D>, &[PassUse])],
        order: &[(usize, usize)],
        go_on: impl FnMut(u64) -> bool,
    ) -> Result<PassOrder, TransientError> {
        self.0.suggest_order(pass_count, resources, order, go_on)
    }

    /// Returns the underlying device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.0.shared.device
    }

    /// Returns the driver's texture for a handle of the last execution.
    ///
    /// # Errors
    /// - [`TransientError::Stale`].
    /// - [`TransientError::Taken`] if the texture was discarded, and after that another resource was acquired over its
    ///   bytes, or its object was acquired again.
    ///
    /// A program that records a pass after the discard of its resources must get the objects before the discard, use
    /// [`TransientAllocator::raw`], or plan the frame.
    pub fn texture(&self, handle: Transient<Textures>) -> Result<&RawTexture<D>, TransientError> {
        self.0.own_object_of(handle)?.texture().ok_or(TransientError::Stale { id: handle.id() })
    }

    /// Returns the texture of a handle of the last execution, for views (`View::target` of `ringfence`).
    ///
    /// # Errors
    /// As [`TransientAllocator::texture`]; or [`TransientError::Undescribed`].
    pub fn target(&self, handle: Transient<Textures>) -> Result<PlacedTexture<'_, D>, TransientError> {
        let object = self.texture(handle)?;
        let id = handle.id();
        let desc = self.0.object_of(handle)?.texture.ok_or(TransientError::Undescribed { id })?;
        // SAFETY: this allocator has created the object from that description, and owns it.
        Ok(unsafe { PlacedTexture::new(object, desc, self.0.shared.owner()) })
    }

    /// Returns the driver's buffer for a handle of the last execution.
    ///
    /// # Errors
    /// As [`TransientAllocator::texture`].
    pub fn buffer(&self, handle: Transient<Buffers>) -> Result<&RawBuffer<D>, TransientError> {
        self.0.own_object_of(handle)?.buffer().ok_or(TransientError::Stale { id: handle.id() })
    }

    /// Returns the number of the resource's heap (`None` for dedicated memory), and the resource's range in the heap,
    /// in bytes.
    ///
    /// # Errors
    /// [`TransientError::Stale`].
    pub fn place<K: TransientKind>(
        &self,
        handle: Transient<K>,
    ) -> Result<(Option<u32>, std::ops::Range<u64>), TransientError> {
        let object = self.0.object_of(handle)?;
        Ok((object.heap, object.offset..object.offset + object.size))
    }

    /// Returns the driver's object for an id in a barrier.
    ///
    /// # Errors
    /// [`TransientError::Stale`] if the object was released, or belongs to another transient allocator.
    pub fn raw(&self, id: TransientId) -> Result<&RawObject<D>, TransientError> {
        let object = self.0.objects.get(id.object as usize).and_then(Option::as_ref);
        let is_present = id.owner == self.0.owner && self.0.generations.get(id.object as usize) == Some(&id.generation);
        let held = object.filter(|_| is_present);
        held.map(|held| &held.raw).ok_or(TransientError::Stale { id })
    }

    /// Continues a suspended execution.
    ///
    /// # Errors
    /// [`TransientError::NotSuspended`] in these cases:
    ///
    /// - The execution belongs to another transient allocator.
    /// - The execution has ended as if it had been dropped, because another execution began, or because of
    ///   [`TransientAllocator::trim`].
    pub fn resume(&mut self, suspended: Suspended) -> Result<Execution<'_, D>, TransientError> {
        let Suspended { owner, execution } = suspended;
        let state = &self.0;
        if (owner, execution, true) == (state.owner, state.execution, state.is_open) {
            Ok(Execution::new(self))
        } else {
            Err(TransientError::NotSuspended { execution })
        }
    }

    /// Returns the handle of the resource at index `place` of the list that the frame was planned from.
    ///
    /// # Errors
    /// [`TransientError::NotPlanned`] if the index is out of range, or if the resource is not of kind `K`.
    pub fn planned<K: TransientKind>(&self, place: usize) -> Result<Transient<K>, TransientError> {
        let placed = self.0.plans.placed.get(place);
        let &(object, acquire) = placed.ok_or(TransientError::NotPlanned { place })?;
        let held = self.0.objects.get(object as usize).and_then(Option::as_ref);
        held.filter(|held| held.is_texture == K::IS_TEXTURE).ok_or(TransientError::NotPlanned { place })?;
        let (owner, execution, generation) = (self.0.owner, self.0.execution, self.0.generations[object as usize]);
        Ok(Transient { owner, object, execution, acquire, generation, kind: PhantomData })
    }

    /// Returns the pass at index `place` of the list that the frame was planned from. Returns `None` if the index is
    /// out of range.
    #[must_use]
    pub fn frame_pass(&self, place: usize) -> Option<Pass> {
        self.0.plans.passes.get(place).copied()
    }

    /// Returns the barriers of the last execution, in the order of the acquires.
    #[must_use]
    pub fn barriers(&self) -> &[Barrier] {
        self.0.barriers.list()
    }

    /// Returns the statistics of the allocator, and the quality of the layout of a planned frame. O(heaps + objects +
    /// barriers).
    #[must_use]
    pub fn figures(&self) -> TransientFigures {
        self.0.figures()
    }

    /// Ends a frame: releases heaps that were in the cache for too long, and returns their number. Call this function
    /// once a frame, in addition to [`Allocator::reclaim`](ringfence_memory::Allocator::reclaim): the ages of objects
    /// and heaps are counted in these calls.
    pub fn end_frame(&mut self) -> usize {
        self.0.end_frame()
    }

    /// Releases all objects and heaps, regardless of number and age, and returns the number of objects. They are
    /// destroyed once the device has finished with them. All handles become stale. Use this function when memory is
    /// short or after the window was resized. A suspended execution ends as if it had been dropped:
    /// [`TransientAllocator::resume`] then returns [`TransientError::NotSuspended`].
    pub fn trim(&mut self) -> usize {
        self.0.trim()
    }

    /// Checks the invariants of the data structures. For tests.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.0.validate()
    }
}

impl<D: Device> Drop for TransientAllocator<D> {
    /// Releases everything. Objects and heaps are destroyed once the device has finished with them.
    fn drop(&mut self) {
        self.0.trim();
    }
}

impl<D: Device> fmt::Debug for TransientAllocator<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransientAllocator")
            .field("name", &self.0.name)
            .field("desc", &self.0.desc)
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

/// A graph execution that was suspended by [`Execution::suspend`], so that the allocator is not borrowed while passes
/// are recorded. If this value is dropped, the execution ends when the next execution begins (or at a `trim`), as if
/// the [`Execution`] had been dropped.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "continue the execution with `TransientAllocator::resume`, and end it with `Execution::finish`"]
pub struct Suspended {
    owner: u32,
    execution: u64,
}

/// A graph execution in progress. Dropping it ends the execution as [`Execution::finish`] without points does, but its
/// passes count as not submitted. Their waits are ignored when later passes are ordered, so later passes can reuse
/// fewer bytes.
///
/// An execution dereferences to [`TransientAllocator`], for the methods that read, and borrows the allocator
/// exclusively. A renderer that owns both its passes and the allocator suspends the execution while it records:
/// [`Execution::suspend`].
pub struct Execution<'a, D: Device> {
    transient: &'a mut TransientAllocator<D>,
    is_over: bool,
}

impl<'a, D: Device> Execution<'a, D> {
    fn new(transient: &'a mut TransientAllocator<D>) -> Self {
        Self { transient, is_over: false }
    }

    /// Adds the next pass of a queue. The pass begins once the passes of `waits` are over; `waits` may contain passes
    /// of earlier executions.
    ///
    /// Passes of a queue are numbered in the order of these calls. The caller makes the queue wait for `waits` by
    /// semaphores or fences. All commands of this pass and of later passes of the queue must wait (on Vulkan with
    /// `ALL_COMMANDS` as the waiting stages). O(waits).
    ///
    /// # Errors
    /// A pass of `waits` belongs to another transient allocator, the timeline belongs to another allocator, or there
    /// are more than [`QUEUES_MAX`](super::QUEUES_MAX) queues.
    pub fn pass(&mut self, queue: TimelineId, waits: &[Pass]) -> Result<Pass, TransientError> {
        self.transient.0.order.pass(queue, waits)
    }

    /// Acquires a buffer from `pass` on. Its initial contents are undefined. See [`Execution::acquire_texture`].
    ///
    /// # Errors
    /// As [`Execution::acquire_texture`].
    pub fn acquire_buffer(
        &mut self,
        info: &impl Describe<D, Buffers>,
        pass: Pass,
        name: &str,
    ) -> Result<TransientBuffer, TransientError> {
        self.acquire(info, pass, name)
    }

    /// Acquires a texture. `pass` is the first pass that uses it; all other uses must come after `pass`. The initial
    /// contents of the texture are undefined. [`TransientAllocator::barriers`] returns the barriers to record at the
    /// beginning of the pass.
    ///
    /// A new driver object gets the name, and keeps it when the object is reused. The passes of a queue must acquire in
    /// the order of the passes. O(spans of the existing heaps). Creates an object or a heap only if no existing one can
    /// be used.
    ///
    /// # Errors
    /// There is no memory, the driver rejects the description, the pass does not belong to this execution, or a later
    /// pass of its queue has already acquired a resource. After an error, no resource is acquired.
    pub fn acquire_texture(
        &mut self,
        info: &impl Describe<D, Textures>,
        pass: Pass,
        name: &str,
    ) -> Result<TransientTexture, TransientError> {
        self.acquire(info, pass, name)
    }

    fn acquire<K: TransientKind>(
        &mut self,
        info: &impl Describe<D, K>,
        pass: Pass,
        name: &str,
    ) -> Result<Transient<K>, TransientError>
    where
        D: Create<K>,
    {
        let shared = Arc::clone(&self.transient.0.shared);
        info.with_info(&shared.device, |info| self.acquire_described(info, pass, name)).map_err(Error::from)?
    }

    fn acquire_described<K: TransientKind>(
        &mut self,
        info: &<D as Create<K>>::Info<'_>,
        pass: Pass,
        name: &str,
    ) -> Result<Transient<K>, TransientError>
    where
        D: Create<K>,
    {
        let transient = &mut self.transient.0;
        transient.shared.check_lost()?;
        transient.order.check_current(pass)?;
        transient.barriers.check(pass)?;
        let (key, needs) = transient.measure::<K>(info)?;
        let clock = *transient.order.begin_of(pass);
        let object = transient.find_or_make::<K>(info, Wanted { key, needs, name }, &clock)?;
        transient.occupy(object, pass, None);
        Ok(transient.handle(object, pass))
    }

    /// Ends the use of a resource. `last` are the last passes that use the resource. Each must be the pass that
    /// acquired the resource, or a pass that is ordered after that pass. If `last` is empty, the pass that acquired the
    /// resource was the only use.
    ///
    /// From now on, another resource can be acquired over the bytes. After such an acquire, requests for the driver's
    /// object of the handle fail ([`TransientError::Taken`]). The object is kept for reuse. O(log spans), and moving
    /// the later spans.
    ///
    /// # Errors
    /// - The handle is stale, was already discarded, or belongs to a planned frame.
    /// - A last use is not ordered after the first use, or its pass does not belong to this execution.
    ///
    /// After an error, nothing has changed.
    pub fn discard<K: TransientKind>(&mut self, handle: Transient<K>, last: &[Pass]) -> Result<(), TransientError> {
        let stale = TransientError::Stale { id: handle.id() };
        let transient = &mut self.transient.0;
        let current = handle.owner == transient.owner && handle.execution == transient.execution;
        let object = transient.objects.get(handle.object as usize).and_then(Option::as_ref).filter(|_| current);
        let tenancy = object.and_then(|object| object.tenancy).filter(|held| held.acquire == handle.acquire);
        let Tenancy { first, .. } = tenancy.ok_or(stale)?;
        let mut users = Clock::of(first);
        for &pass in last {
            transient.order.check_current(pass)?;
            if !transient.order.ends_after(pass, first) {
                return Err(TransientError::NotAfter { first, last: pass });
            }
            users.join(&Clock::of(pass));
        }
        transient.vacate(handle.object, users);
        Ok(())
    }

    /// Suspends the execution: it stays open, and the [`TransientAllocator`] is not borrowed until
    /// [`TransientAllocator::resume`]. During the suspension, `texture`, `buffer`, `barriers` and the other `&self`
    /// methods of the allocator return the resources of this execution.
    pub fn suspend(mut self) -> Suspended {
        self.is_over = true;
        Suspended { owner: self.transient.0.owner, execution: self.transient.0.execution }
    }

    /// Ends the execution. Its passes must have been submitted or be submitted later; if their frame is discarded
    /// ([`Frame::discard`](ringfence_memory::Frame::discard)), drop the execution instead. Releases objects that were
    /// not used for a long time, beyond the number that each heap keeps, and moves heaps without objects to the cache.
    ///
    /// `ends` contains, for each queue, the point at which the execution's passes on this queue are complete: the point
    /// of the last frame that contains them ([`Frame::point`](ringfence_memory::Frame::point)). Later executions use
    /// the points to find out which passes are complete. Points on timelines of other allocators are ignored. If there
    /// is no point for a queue, its passes count as complete at the next point that a later call gives for the queue.
    /// Until then, a pass of another queue reuses the bytes of such a pass only if it waits for that pass.
    ///
    /// Returns the number of resources that were not discarded. These resources count as used by every pass. O(heaps ·
    /// objects).
    pub fn finish(mut self, ends: &[SyncPoint]) -> usize {
        self.is_over = true;
        self.transient.0.end(Some(ends));
        self.transient.0.figures.left_in_use
    }
}

impl<D: Device> Deref for Execution<'_, D> {
    type Target = TransientAllocator<D>;

    fn deref(&self) -> &TransientAllocator<D> {
        self.transient
    }
}

impl<D: Device> Drop for Execution<'_, D> {
    fn drop(&mut self) {
        if !self.is_over {
            self.transient.0.end(None);
        }
    }
}

impl<D: Device> fmt::Debug for Execution<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Execution({})", self.transient.0.execution)
    }
}
