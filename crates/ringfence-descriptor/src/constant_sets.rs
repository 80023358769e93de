//! Vulkan descriptor sets for constants that are bound with dynamic offsets.
//!
//! ```text
//!   FastWriter::write ─▶ Staged: buffer B, offset 512, 64 bytes ─▶ set of (B, 64) ─▶ vkCmdBindDescriptorSets(set, 512)
//!
//!   frame 8   pool: sets of (B, 64) (B, 256) (C, 64)          a set for each buffer and size
//!   frame 7   pool: sets of (B, 64) ── frame 7 is complete ──▶ reset, idle ──▶ a later frame
//! ```
//!
//! A set lives for one frame, like the constants, because the buffer of the constants may be destroyed after that
//! frame.
//!
//! | operation | cost |
//! |---|---|
//! | [`ConstantSets::begin`] | O(1), a short lock |
//! | [`ConstantSets::set`] | O(sets of the frame); three driver calls for a buffer and size that are new in the frame |
//! | reclaim | one driver call for each pool of a complete frame |

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use ringfence_core::retire::RetireQueue;
use ringfence_memory::Allocator;
use ringfence_memory::extend::{OpenFrame, Passed, ReclaimHeap, Shared, run_unlocked};
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::DescriptorSnapshot;
use ringfence_memory::resource::AsBufferSlice;
use ringfence_upload::Staged;
use ringfence_vulkan::{Device, device_error};

use super::view::check_buffer;
use crate::device::DeviceError;
use crate::device::descriptors::{BufferView, BufferViewKind, DescriptorError, Descriptors};
use crate::device::lock::Lock;

const KIND: vk::DescriptorType = vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC;
/// Number of sets of a pool. A frame with more sets takes several pools.
const POOL_SETS: usize = 16;

/// Descriptor sets with one binding each, a dynamic uniform buffer, for constants that were written for one frame: by
/// `FastConstants`, or by [`UploadRing::write_for`](ringfence_upload::UploadRing::write_for) into a ring with the usage
/// `CONSTANT`. Each thread that records command buffers has a `ConstantSets` of its own.
///
/// If the device has [`Features::DESCRIPTOR_BUFFER`](ringfence_vulkan::Features), a pipeline layout cannot have these sets
/// beside a set of a [`ShaderVisibleHeap`](crate::ShaderVisibleHeap): pass the address of the constants there.
///
/// On Direct3D 12 no sets are needed: pass the address of the constants to `SetGraphicsRootConstantBufferView`.
pub struct ConstantSets {
    shared: Arc<Shared<Device>>,
    state: Arc<State>,
    frame: Option<OpenFrame>,
    /// The pools of the frame. Only the last one can have free sets.
    pools: Vec<SetPool>,
}

/// The set layout, and the pools of earlier frames: retired until their frame is complete, then idle.
struct State {
    layout: vk::DescriptorSetLayout,
    pools: Lock<Pools>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Pools {
    idle: Vec<SetPool>,
    retired: RetireQueue<SetPool>,
}

struct SetPool {
    pool: vk::DescriptorPool,
    sets: Vec<KnownSet>,
}

struct KnownSet {
    buffer: vk::Buffer,
    /// Size of the constants, in bytes.
    size: u64,
    set: vk::DescriptorSet,
}

impl ConstantSets {
    /// Creates the set layout: binding 0 is a dynamic uniform buffer for shaders of these stages. The pools of the sets
    /// are created by the first frames.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(memory: &Allocator<Device>, stages: vk::ShaderStageFlags) -> Result<Self, DeviceError> {
        let shared = Arc::clone(memory.shared());
        let binding = vk::DescriptorSetLayoutBinding::default().descriptor_type(KIND).descriptor_count(1);
        let bindings = [binding.stage_flags(stages)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device is alive, and the structures live through the call.
        let layout = unsafe { shared.device.raw().create_descriptor_set_layout(&info, None) }
            .map_err(|result| device_error(result, "vkCreateDescriptorSetLayout"))?;
        let state = Arc::new(State { layout, pools: Lock::default(), is_closed: AtomicBool::new(false) });
        shared.add_heap(Arc::clone(&state) as Arc<dyn ReclaimHeap<Device>>);
        Ok(Self { shared, state, frame: None, pools: Vec::new() })
    }

    /// Returns the set layout, for pipeline layouts. It is alive until this value is dropped and the frames with its
    /// sets are complete. Pipeline layouts that were created with it stay valid after that.
    #[must_use]
    pub fn layout(&self) -> vk::DescriptorSetLayout {
        self.state.layout
    }

    /// Starts a frame: later sets are for `frame`. The sets of the previous frame live until that frame is complete.
    ///
    /// # Errors
    /// [`DescriptorError::Foreign`] if the frame belongs to another allocator. Nothing has changed then.
    pub fn begin(&mut self, frame: &Frame) -> Result<(), DescriptorError> {
        if !self.shared.owns(frame) {
            return Err(DescriptorError::Foreign);
        }
        if self.frame.as_ref().is_none_or(|open| open.point() != frame.point()) {
            self.end_frame();
            self.frame = Some(OpenFrame::of(frame));
        }
        Ok(())
    }

    /// Returns the descriptor set and the dynamic offset for constants of the frame. The set is alive until the frame
    /// is complete.
    ///
    /// # Errors
    /// - [`DescriptorError::BadView`]: no frame was begun, the frame is over, or the constants were not written for
    ///   this frame (for instance they are bytes of the program's own buffer); the buffer lacks the usage `CONSTANT`;
    ///   or the offset exceeds 32 bits.
    /// - [`DescriptorError::BadRange`]: the offset breaks the device's alignment for constants, the size is not a
    ///   multiple of 4, or the size exceeds the device's limit.
    /// - [`DescriptorError::Device`]: the device is out of memory. Nothing has changed then.
    pub fn set(&mut self, constants: &Staged<Device>) -> Result<(vk::DescriptorSet, u32), DescriptorError> {
        let is_open = self.frame.as_mut().is_some_and(OpenFrame::is_open);
        let Some(frame) = self.frame.as_ref().filter(|_| is_open) else {
            return Err(DescriptorError::BadView("no frame was begun for the sets, or it is over: call `begin`"));
        };
        if !constants.is_for(frame.point()) {
            return Err(DescriptorError::BadView("the constants were not written for the frame of the sets"));
        }
        let offset = u32::try_from(constants.offset)
            .map_err(|_| DescriptorError::BadView("the offset of the constants exceeds 32 bits"))?;
        let (buffer, size) = (constants.buffer, constants.size);
        let known = self.pools.iter().flat_map(|pool| &pool.sets);
        let known = known.rev().find(|known| (known.buffer, known.size) == (buffer, size)).map(|known| known.set);
        let desc =
            constants.as_slice().desc.ok_or(DescriptorError::BadView("the buffer was created without usages"))?;
        let view = BufferView { kind: BufferViewKind::Constants, offset: constants.offset, size };
        check_buffer(desc, view, &self.shared.device.descriptor_support())?;
        let set = known.map_or_else(|| self.make_set(buffer, size), Ok)?;
        Ok((set, offset))
    }

    /// Binds constants of the frame to set number `set` of a pipeline layout, with their dynamic offset.
    ///
    /// # Errors
    /// As [`ConstantSets::set`]. Nothing is recorded then.
    ///
    /// # Safety
    /// The command buffer must belong to the device, be in the recording state, be recorded by this thread only, and be
    /// submitted as the frame. The layout must have [`ConstantSets::layout`] at number `set`.
    pub unsafe fn bind(
        &mut self,
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        set: u32,
        constants: &Staged<Device>,
    ) -> Result<(), DescriptorError> {
        let (descriptors, offset) = self.set(constants)?;
        let device = self.shared.device.raw();
        // SAFETY: the caller promises that commands and layout fit. The set is alive until the frame is complete.
        unsafe { device.cmd_bind_descriptor_sets(commands, point, layout, set, &[descriptors], &[offset]) };
        Ok(())
    }

    fn make_set(&mut self, buffer: vk::Buffer, size: u64) -> Result<vk::DescriptorSet, DeviceError> {
        if self.pools.last().is_none_or(|pool| pool.sets.len() == POOL_SETS) {
            let idle = self.state.pools.lock().idle.pop();
            let pool = idle.map_or_else(|| SetPool::new(self.shared.device.raw()), Ok)?;
            self.pools.push(pool);
        }
        let (device, pool) = (self.shared.device.raw(), self.pools.last_mut().expect("just added"));
        let layouts = [self.state.layout];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool.pool).set_layouts(&layouts);
        // SAFETY: the pool has a free set, and only this value uses it.
        let set = unsafe { device.allocate_descriptor_sets(&info) }
            .map_err(|result| device_error(result, "vkAllocateDescriptorSets"))?[0];
        let range = [vk::DescriptorBufferInfo { buffer, offset: 0, range: size }];
        let write = vk::WriteDescriptorSet::default().dst_set(set).descriptor_type(KIND).buffer_info(&range);
        // SAFETY: the set is new. The frame of the constants is open, so their buffer is alive; it has the usage, and
        // the size is within the limit.
        unsafe { device.update_descriptor_sets(&[write], &[]) };
        pool.sets.push(KnownSet { buffer, size, set });
        Ok(set)
    }

    /// Retires the pools of the frame.
    fn end_frame(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.state.retire(&frame, &mut self.pools);
        }
    }
}

impl State {
    fn retire(&self, frame: &OpenFrame, pools: &mut Vec<SetPool>) {
        self.pools.lock().retired.retire_batch(&frame.point().into(), pools.drain(..));
    }
}

impl SetPool {
    fn new(device: &ash::Device) -> Result<Self, DeviceError> {
        let sizes = [vk::DescriptorPoolSize { ty: KIND, descriptor_count: POOL_SETS as u32 }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(POOL_SETS as u32).pool_sizes(&sizes);
        // SAFETY: the device is alive, and the structures live through the call.
        let pool = unsafe { device.create_descriptor_pool(&info, None) }
            .map_err(|result| device_error(result, "vkCreateDescriptorPool"))?;
        Ok(Self { pool, sets: Vec::with_capacity(POOL_SETS) })
    }
}

impl ReclaimHeap<Device> for State {
    fn reclaim(&self, shared: &Shared<Device>, passed: &Passed, device_lost: bool, _: bool) -> bool {
        let mut complete = Vec::new();
        {
            let mut pools = self.pools.lock();
            let release = |pool| complete.push(pool);
            if device_lost {
                pools.retired.release_all(release)
            } else {
                pools.retired.reclaim(passed, release)
            };
        }
        for pool in &mut complete {
            pool.sets.clear();
            // SAFETY: the frame of its sets is complete, and no other thread uses the pool.
            _ = unsafe { shared.device.raw().reset_descriptor_pool(pool.pool, vk::DescriptorPoolResetFlags::empty()) };
        }
        let mut pools = self.pools.lock();
        pools.idle.append(&mut complete);
        let is_over = self.is_closed.load(Ordering::Acquire) && pools.retired.is_empty();
        drop(pools);
        if is_over {
            // SAFETY: no frame uses a pool, and `ConstantSets` is dropped.
            unsafe { self.destroy(shared) };
        }
        !is_over
    }

    fn snapshot(&self, _: &mut Vec<DescriptorSnapshot>) {}

    unsafe fn destroy(&self, shared: &Shared<Device>) {
        let device = shared.device.raw();
        let Pools { mut idle, mut retired } = std::mem::take(&mut *self.pools.lock());
        retired.release_all(|pool| idle.push(pool));
        // SAFETY: the caller promises that no work uses the sets. The objects belong to this value only.
        unsafe {
            idle.iter().for_each(|pool| device.destroy_descriptor_pool(pool.pool, None));
            device.destroy_descriptor_set_layout(self.layout, None);
        }
    }
}

impl Drop for ConstantSets {
    fn drop(&mut self) {
        let (state, frame) = (Arc::clone(&self.state), self.frame.take());
        let mut pools = std::mem::take(&mut self.pools);
        // The drop may be within a host allocation, while this thread holds the lock of the pools.
        run_unlocked(move || {
            if let Some(frame) = &frame {
                state.retire(frame, &mut pools);
            }
            state.is_closed.store(true, Ordering::Release);
        });
    }
}

impl fmt::Debug for ConstantSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sets = self.pools.iter().map(|pool| pool.sets.len()).sum::<usize>();
        write!(f, "ConstantSets({sets} sets in this frame)")
    }
}
