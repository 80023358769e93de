//! Sparse buffers: `vkCreateBuffer` with sparse residency, `vkQueueBindSparse`.

use ash::vk;

use super::Device;
use super::info::BufferInfo;
use super::memory::Memory;
use crate::device::sparse::{PageBind, Sparse, SparseNeeds, SparseSupport, UnboundReads};
use crate::device::{DeviceError, Driver};

// SAFETY: a sparse buffer is the driver's own, and so is what is bound to it.
unsafe impl Sparse for Device {
    /// A queue of a family with `SPARSE_BINDING`.
    type BindQueue = vk::Queue;

    fn sparse_support(&self) -> Option<SparseSupport> {
        let strict = self.0.found.reads_zero_where_unbound;
        let unbound_reads = if strict { UnboundReads::Zero } else { UnboundReads::Undefined };
        self.0.desc.sparse_buffers.then_some(SparseSupport { unbound_reads })
    }

    unsafe fn make_sparse(&self, info: &BufferInfo<'_>) -> Result<(vk::Buffer, SparseNeeds), DeviceError> {
        if !self.0.desc.sparse_buffers {
            return Err(DeviceError::Unsupported("sparse buffers: the features were not enabled"));
        }
        self.check_buffer(info.raw())?;
        let flags = vk::BufferCreateFlags::SPARSE_BINDING | vk::BufferCreateFlags::SPARSE_RESIDENCY;
        let info = info.raw().flags(info.raw().flags | flags);
        let device = &self.0.device;
        // SAFETY: the caller promises that `info` is valid, and the features are enabled.
        let raw = unsafe { device.create_buffer(&info, None) }?;
        // SAFETY: the buffer is this device's and alive.
        let needed = unsafe { device.get_buffer_memory_requirements(raw) };
        let (page_bytes, memory_type_bits) = (needed.alignment, needed.memory_type_bits);
        let size = needed.size.next_multiple_of(page_bytes);
        Ok((raw, SparseNeeds { size, page_bytes, memory_type_bits }))
    }

    unsafe fn bind_pages(
        &self,
        queue: &vk::Queue,
        buffer: &vk::Buffer,
        binds: &[PageBind<'_, Memory>],
        waits: &[(vk::Semaphore, u64)],
        signal: (vk::Semaphore, u64),
    ) -> Result<(), DeviceError> {
        let binds: Vec<_> = binds.iter().map(bind).collect();
        let buffers = [vk::SparseBufferMemoryBindInfo::default().buffer(*buffer).binds(&binds)];
        let (fences, values): (Vec<_>, Vec<_>) = waits.iter().copied().unzip();
        let (signalled, signal) = ([signal.0], [signal.1]);
        let mut timeline =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&values).signal_semaphore_values(&signal);
        let mut info = vk::BindSparseInfo::default()
            .wait_semaphores(&fences)
            .signal_semaphores(&signalled)
            .push_next(&mut timeline);
        if !binds.is_empty() {
            info = info.buffer_binds(&buffers);
        }
        // SAFETY: the caller promises that all is alive, that the queue can bind and is his, and that runs and memory fit.
        unsafe { self.0.device.queue_bind_sparse(*queue, &[info], vk::Fence::null()) }.map_err(DeviceError::from)
    }
}

fn bind(run: &PageBind<'_, <Device as Driver>::Memory>) -> vk::SparseMemoryBind {
    let bind = vk::SparseMemoryBind::default().resource_offset(run.offset).size(run.size);
    match run.memory {
        Some((memory, offset)) => bind.memory(memory.raw()).memory_offset(offset),
        None => bind,
    }
}
