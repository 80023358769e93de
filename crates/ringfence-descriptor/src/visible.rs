//! The shader-visible heap. A program creates one large heap for each kind, once, and binds it once for each command
//! list.
//!
//! ```text
//!   0              frame_slots                               slots       slots_max
//!   ├───────────────┼──────────────────────────────────────────┼ ─ ─ ─ ─ ─ ─┤
//!   │ frame region  │ persistent region: a free list           │ grow()     │
//!   │ a ring of     │ released ─▶ retired ─▶ reclaim ─▶ free    │ a larger   │
//!   │ chunks        │                                          │ heap, the  │
//!   └───────────────┴──────────────────────────────────────────┴ same slots ┘
//!
//!   grow():  version 0 ── frames begun before ──▶ retired
//!            version 1 ── frames begun from now on
//! ```
//!
//! A heap that may grow keeps a CPU-only shadow of its persistent region, because the device interface has no copies
//! from a shader-visible heap. A frame uses the same version from its begin to its end. A persistent slot is written in
//! every version that has the slot and is not yet destroyed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::device::lock::{Lock, SharedLock};
use ringfence_core::blocks::{Blocks, BlocksDesc};
use ringfence_core::range::{AllocError, Allocate, FreeError, Invalid};
use ringfence_core::ring::Ring;
use ringfence_core::sync::SyncSet;
use smallvec::SmallVec;

use super::desc::{ShaderVisibleDesc, VisibleStatistics, check_desc};
use super::heap_state::{Core, Epochs, HeapOwner, HeapVersion, Retired, State};
use super::tables::FrameTables;
use super::{Binding, DescriptorError, FrameDescriptors, Persistent, Region};
use crate::device::descriptors::{Descriptors, GpuHandle, HeapKind, ViewTypes};
use ringfence_memory::Allocator;
use ringfence_memory::extend::{Passed, ReclaimHeap};
use ringfence_memory::lifetime::{Frame, RetireBin};
use ringfence_memory::trace::Event;

/// A shader-visible heap: descriptors of one kind, which shaders read.
///
/// Cheap to clone; clones refer to the same heap. All threads may use it.
///
/// If the last clone is dropped, the heap lives until its runs of slots and its bindless tables are dropped and the
/// submissions that use it are complete.
///
/// # Examples
///
/// A table of descriptors for one draw. `device`, `fence`, `memory` and `timeline` are created as in the example of
/// [`Allocator`](ringfence_memory::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use std::time::Duration;
/// # use ringfence::device::{BufferDesc, BufferUsage};
/// # use ringfence::sim::{BufferRange, Command, DescriptorUse, Kernel};
/// # use ringfence::{AllocationDesc, Location};
/// # let desc = BufferDesc { size: 256, usage: BufferUsage::STORAGE };
/// # let create = |location| memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() });
/// # let (mut lights, back) = (create(Location::Upload)?, create(Location::Readback)?);
/// # let result = BufferRange::new(*back.object(), 0, 256);
/// # lights.write(0, &[7; 256])?;
/// use ringfence::ShaderVisibleHeap;
/// use ringfence::descriptor::{ShaderVisibleDesc, View};
/// use ringfence::device::descriptors::{BufferView, BufferViewKind, HeapKind};
///
/// let heap = ShaderVisibleHeap::new(&memory, ShaderVisibleDesc::default())?; // one for the whole program
/// let frame = timeline.begin();
/// let kind = BufferViewKind::Storage { stride: 0, writes: false };
/// let view = View::buffer(&lights, BufferView { kind, offset: 0, size: 256 })?;
/// let table = heap.frame_descriptors(&frame)?.table_of(&[view])?; // slots that live for this frame
///
/// // Once, at the beginning of the command list. On Vulkan: `binding.set(…)` records it.
/// let binding = heap.bind(&frame)?;
/// let heap_object = *binding.bound(HeapKind::Resources).ok_or("this kind is bound")?;
/// // A kernel stands for a shader that reads slot `table.start()`.
/// let slot = DescriptorUse { heap: heap_object, slot: table.start(), writes: false };
/// let shader = Kernel::new(vec![], vec![result], |memory| memory.writes[0].copy_from_slice(&memory.descriptors[0]));
/// let draw = Command::Kernel(Kernel { descriptors: vec![slot], ..shader });
/// device.submit(0, &[], vec![draw], (fence, frame.value()))?;
/// let point = timeline.submitted(frame)?;
///
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// memory.reclaim(); // frees the slots of the table
/// assert_eq!(heap.statistics().tables_made, 1);
/// # let mut bytes = [0; 256];
/// # back.read(0, &mut bytes)?;
/// # assert_eq!(bytes, [7; 256]); // read by the shader through the descriptor
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ShaderVisibleHeap<D: Descriptors> {
    pub(super) heap_owner: Arc<HeapOwner<D>>,
}

impl<D: Descriptors> Clone for ShaderVisibleHeap<D> {
    fn clone(&self) -> Self {
        Self { heap_owner: Arc::clone(&self.heap_owner) }
    }
}

impl<D: Descriptors> ShaderVisibleHeap<D> {
    /// Creates a heap.
    ///
    /// # Errors
    /// - The allocator has a heap of this kind already. A dropped heap counts until its last run and table are dropped,
    ///   and the submissions that had begun before are complete.
    /// - The kind cannot be shader-visible.
    /// - `chunk_slots` is 0, or the description has no slots.
    /// - [`DescriptorError::TooMany`]: the description's slots or its `slots_max` are more than the device supports.
    ///   Default numbers of slots are reduced instead.
    /// - The driver failed.
    pub fn new(memory: &Allocator<D>, desc: ShaderVisibleDesc<'_>) -> Result<Self, DescriptorError> {
        let shared = Arc::clone(memory.shared());
        let (desc, slots) = check_desc(&shared.device, desc)?;
        let only = shared.claim_visible(desc.kind).ok_or(DescriptorError::SecondHeap { kind: desc.kind })?;
        let number = shared.descriptors_number();
        let mut state = State {
            kind: desc.kind,
            algorithm: desc.algorithm,
            types: desc.types,
            chunk_slots: desc.chunk_slots,
            frame_slots: desc.frame_slots,
            slots_max: desc.slots_max,
            name: desc.name.into(),
            number,
            owning: shared.device.descriptor_support().slots_own_objects,
            persistent: Lock::new(Blocks::new(BlocksDesc::default())),
            ring: Lock::new(Ring::for_frames(desc.frame_slots.into())),
            spare_tables: Lock::new(Vec::new()),
            frames: Lock::new(FrameTables::default()),
            core: Arc::new(Core {
                kind: desc.kind,
                versions: SharedLock::new(Epochs {
                    current: Arc::new(HeapVersion::new(&shared.device, &desc, (slots, 0, number))?),
                    old: SmallVec::new(),
                }),
                waiting: RetireBin::new(),
            }),
            scratch: Lock::new(Passed::default()),
            tables_made: AtomicU64::new(0),
            tables_shared: AtomicU64::new(0),
            waiting_slots: AtomicU64::new(0),
            traced: Lock::new([0; 3]),
            closed: AtomicBool::new(false),
            only: Lock::new(Some(only)),
        };
        if desc.persistent_slots != 0 {
            state.persistent.get_mut().insert(desc.frame_slots, state.algorithm.slots(desc.persistent_slots));
        }
        let state = Arc::new(state);
        state.trace_heap(&shared);
        shared.add_heap(Arc::clone(&state) as Arc<dyn ReclaimHeap<D>>);
        Ok(Self { heap_owner: Arc::new(HeapOwner { shared, state }) })
    }

    /// Allocates a run of slots in the persistent region. The run lives until the returned value is dropped.
    ///
    /// # Errors
    /// `count` is 0, or no free run is long enough. Released slots are freed in [`Allocator::reclaim`].
    pub fn allocate(&self, count: u32) -> Result<Persistent<D>, DescriptorError> {
        self.allocate_aligned(count, 1)
    }

    /// Returns the number of slots of the longest free run of the persistent region.
    pub(super) fn longest_free(&self) -> u32 {
        self.heap_owner.state.persistent.lock().statistics().largest_free as u32
    }

    fn allocate_aligned(&self, count: u32, alignment: u64) -> Result<Persistent<D>, DescriptorError> {
        let HeapOwner { shared, state } = &*self.heap_owner;
        let mut blocks = state.persistent.lock();
        let allocation = match blocks.try_allocate(count.into(), alignment) {
            Ok(allocation) => allocation,
            Err(AllocError::ZeroSize) => return Err(DescriptorError::ZeroCount),
            Err(AllocError::OutOfSpace { free, largest_free, .. }) => {
                let (free, largest_free) = (free as u32, largest_free as u32);
                return Err(DescriptorError::Full { region: Region::Persistent, need: count, free, largest_free });
            }
            Err(_) => return Err(DescriptorError::BadAlignment { alignment }),
        };
        let (base, _) = blocks.get(allocation.block()).expect("the block of an allocation exists");
        let start = base + allocation.offset() as u32;
        drop(blocks);
        let (heap, first) = (state.number, start.into());
        shared.record(|| Event::DescriptorsAllocated { heap, first, count: count.into() });
        let written = SmallVec::from_elem(0, count.div_ceil(u64::BITS) as usize);
        Ok(Persistent { heap_owner: Arc::clone(&self.heap_owner), allocation, start, written })
    }

    /// Creates an allocator of tables for a frame, for one recording thread.
    ///
    /// # Errors
    /// [`DescriptorError::Foreign`] if the frame belongs to another allocator.
    pub fn frame_descriptors<'f>(&self, frame: &'f Frame) -> Result<FrameDescriptors<'f, D>, DescriptorError> {
        self.check_frame(frame)?;
        let version = Arc::clone(self.heap_owner.state.core.versions.read().of(frame.point()));
        Ok(FrameDescriptors::new(Arc::clone(&self.heap_owner), version, frame.point()))
    }

    fn check_frame(&self, frame: &Frame) -> Result<(), DescriptorError> {
        if self.heap_owner.shared.owns(frame) { Ok(()) } else { Err(DescriptorError::Foreign) }
    }

    /// Creates a binding of this heap for a command list of this frame. The binding must be set at the beginning of the
    /// list.
    ///
    /// # Errors
    /// The frame belongs to another allocator, or the driver is out of memory.
    pub fn bind(&self, frame: &Frame) -> Result<Binding<D>, DescriptorError> {
        self.check_frame(frame)?;
        Binding::new(frame).and(self)
    }

    /// Adds slots to the persistent region. Creates a larger heap with the same descriptors in the same slots, for
    /// frames that begin from now on. The old heap is destroyed once earlier frames are complete. This function is
    /// slow: call it while loading.
    ///
    /// The slots of one call form a separate range, and no run crosses its bounds. Add at least the length of the
    /// longest run that the new slots must hold.
    ///
    /// # Errors
    /// - `more_slots` is 0.
    /// - The new number of slots is above [`ShaderVisibleDesc::slots_max`].
    /// - Another thread grows the heap at the same time.
    /// - The driver failed.
    pub fn grow(&self, more_slots: u32) -> Result<(), DescriptorError> {
        let HeapOwner { shared, state } = &*self.heap_owner;
        if more_slots == 0 {
            return Err(DescriptorError::ZeroCount);
        }
        let before = Arc::clone(&state.core.versions.read().current);
        let slots = u64::from(before.heap.slots()) + u64::from(more_slots);
        if slots > u64::from(state.slots_max) {
            return Err(DescriptorError::TooMany { count: slots, max: state.slots_max.into() });
        }
        let next = HeapVersion::new(&shared.device, &state.desc(), (slots as u32, before.number + 1, state.number))?;
        let mut versions = state.core.versions.write();
        if !Arc::ptr_eq(&versions.current, &before) {
            drop(versions);
            // SAFETY: no other thread has the new heap.
            unsafe { next.destroy(&shared.device) };
            return Err(DescriptorError::GrownMeanwhile);
        }
        state.copy_shadow(&shared.device, &before, &next);
        let mut until = SyncSet::new();
        shared.begun(&mut until);
        let old = std::mem::replace(&mut versions.current, Arc::new(next));
        state.core.waiting.retire(&until, Retired::HeapVersion(old.number));
        versions.old.push((until, old));
        drop(versions);
        state.trace_heap(shared);
        state.persistent.lock().insert(before.heap.slots(), state.algorithm.slots(more_slots));
        Ok(())
    }

    /// Returns the kind of the descriptors.
    #[must_use]
    pub fn kind(&self) -> HeapKind {
        self.heap_owner.state.kind
    }

    /// Returns the view types of a heap of resources. CPU-only descriptors that are copied to this heap must have the
    /// same types.
    #[must_use]
    pub fn types(&self) -> ViewTypes {
        self.heap_owner.state.types
    }

    /// Returns the number of slots of the heap that new frames use.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.heap_owner.state.core.versions.read().current.heap.slots()
    }

    /// Returns the device handle of a slot, for command lists of this frame.
    ///
    /// # Panics
    /// If the heap of this frame has no slot with this number, or if the frame belongs to another allocator.
    #[must_use]
    pub fn gpu_handle(&self, slot: u32, frame: &Frame) -> GpuHandle {
        assert!(self.check_frame(frame).is_ok(), "the frame belongs to another allocator than the heap");
        let versions = self.heap_owner.state.core.versions.read();
        versions.of(frame.point()).heap.gpu_handle(slot).expect("the heap is shader-visible")
    }

    /// Returns the statistics of the heap. Cheap enough for every frame.
    #[must_use]
    pub fn statistics(&self) -> VisibleStatistics {
        let state = &self.heap_owner.state;
        let ring = state.ring.lock();
        let (frame_slots, frame_used, frame_high_water) = (ring.capacity(), ring.used(), ring.high_water());
        drop(ring);
        let blocks = state.persistent.lock().statistics();
        VisibleStatistics {
            frame_slots,
            frame_used,
            frame_high_water,
            persistent_slots: blocks.capacity,
            persistent_free: blocks.free_size,
            waiting_count: state.core.waiting.len() as u64,
            tables_made: state.tables_made.load(Ordering::Relaxed),
            tables_shared: state.tables_shared.load(Ordering::Relaxed),
            heap_count: state.core.versions.read().all().count() as u64,
        }
    }

    /// Checks every invariant of the structure. For tests.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let state = &self.heap_owner.state;
        state.core.waiting.validate()?;
        state.ring.lock().validate()?;
        state.persistent.lock().validate()
    }
}

impl<D: Descriptors> Allocate for ShaderVisibleHeap<D> {
    type Allocation = Persistent<D>;
    type Error = DescriptorError;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Persistent<D>, DescriptorError> {
        let max = u64::from(self.slots() - self.heap_owner.state.frame_slots);
        match u32::try_from(size) {
            Ok(count) if size <= max => self.allocate_aligned(count, alignment),
            _ => Err(DescriptorError::TooMany { count: size, max }),
        }
    }

    /// Drops the allocation. If it belongs to another heap, it is freed in that heap, and an error is returned.
    fn free(&mut self, allocation: Persistent<D>) -> Result<(), FreeError> {
        let (offset, size) = (allocation.start().into(), allocation.len().into());
        let own = Arc::ptr_eq(&allocation.heap_owner.state, &self.heap_owner.state);
        if own { Ok(()) } else { Err(FreeError::Foreign { offset, size }) }
    }
}

impl<D: Descriptors> fmt::Debug for ShaderVisibleHeap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShaderVisibleHeap({}, {:?})", self.kind(), self.statistics())
    }
}
