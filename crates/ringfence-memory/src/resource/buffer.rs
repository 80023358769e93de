//! Buffers: host access, the device address, and another size.

use ringfence_timeline::Frame;

use super::{AccessError, BufferCopy, ReplaceError, Resource, replace};
use crate::device::{Buffers, Describe, Device};
use crate::memory::AllocationDesc;

/// A buffer with its memory. See [`Resource`].
///
/// Use it for data that lives longer than a frame: vertices, indices, storage and staging buffers. Create it with
/// [`Allocator::create_buffer`](crate::Allocator::create_buffer). A drop retires it: object and memory are freed after
/// the submissions that may use them. For many buffers of at most 256 KiB, a [`SmallBuffer`](crate::SmallBuffer) costs
/// less.
///
/// # Examples
///
/// The host writes an upload buffer, the GPU copies it, and the host reads the result. `device`, `fence`, `memory` and
/// `timeline` are created as in the example of [`Allocator`](crate::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use std::time::Duration;
/// use ringfence::device::{BufferDesc, BufferUsage};
/// use ringfence::{AllocationDesc, Location};
///
/// let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
/// // On Vulkan, `vulkan::BufferInfo` describes a buffer with Vulkan's own flags.
/// let at = |location| memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() });
/// let mut source = at(Location::Upload)?;
/// let result = at(Location::Readback)?;
/// source.write(0, &[7; 256])?; // the buffer is mapped, because the host uses it
///
/// let frame = timeline.begin();
/// let (src, dst) = (*source.object(), *result.object()); // for Vulkan's calls: `raw()`
/// let copy = sim::Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 256 };
/// device.submit(0, &[], vec![copy], (fence, frame.value()))?;
/// let point = timeline.submitted(frame)?;
/// drop(source); // retired until the copy is complete
///
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// let mut bytes = [0; 256];
/// result.read(0, &mut bytes)?;
/// assert_eq!(bytes, [7; 256]);
/// assert_eq!(memory.reclaim().objects, 1);
/// # assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Buffer<D> = Resource<D, Buffers>;

impl<D: Device> Buffer<D> {
    /// Returns the device address of the buffer's first byte, if the buffer was created with one (Vulkan: with the
    /// usage `SHADER_DEVICE_ADDRESS`; Direct3D 12: every buffer). One driver call.
    #[must_use]
    pub fn device_address(&self) -> Option<u64> {
        self.address()
    }

    /// Replaces this buffer with one of another size, and returns the copy that preserves the first `keep_bytes`:
    /// record it in `frame`, before any command that reads the new buffer. Returns `None` if `keep_bytes` is 0. The new
    /// buffer is created in the same [`Pool`](crate::Pool), unless the pool was dropped.
    ///
    /// `frame` may belong to any queue; the program must order the copy after other queues' writes to the old buffer.
    /// Both buffers need the usages for copies. If the frame is not submitted, the bytes are lost
    /// ([`Resource::take_content_lost`]). Before this call, record the uploads that were gathered for this buffer.
    /// After this call, they are refused, because they would write to the old buffer.
    ///
    /// # Errors
    /// The frame belongs to another allocator, `keep_bytes` exceeds one of the two buffers, the old buffer could not be
    /// made resident, or the new one could not be created. Nothing has changed then.
    ///
    /// # Examples
    ///
    /// A list of particles that grows and keeps its contents:
    ///
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::AllocationDesc;
    /// # use ringfence::device::{BufferDesc, BufferUsage};
    /// # let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    /// # let request = AllocationDesc { name: "particles", ..Default::default() };
    /// # let mut particles = memory.create_buffer(&BufferDesc { size: 1024, usage }, request)?;
    /// let frame = timeline.begin();
    /// let copy = particles.resize(&frame, &BufferDesc { size: 4096, usage }, 1024, request)?;
    /// let mut commands = Vec::new(); // on Vulkan and Direct3D 12: a `CopyRecorder`
    /// if let Some(copy) = copy {
    ///     // SAFETY: the commands are submitted as this frame.
    ///     unsafe { copy.record(&mut commands) };
    /// }
    /// device.submit(0, &[], commands, (fence, frame.value()))?;
    /// timeline.submitted(frame)?;
    /// assert_eq!(particles.size(), 4096);
    /// assert!(device.run_until_idle());
    /// assert_eq!(memory.reclaim().objects, 1); // the old buffer
    /// # assert!(device.take_hazards().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn resize(
        &mut self,
        frame: &Frame,
        info: &impl Describe<D, Buffers>,
        keep_bytes: u64,
        desc: AllocationDesc<'_>,
    ) -> Result<Option<BufferCopy<D>>, ReplaceError> {
        replace::resize(self, frame, info, keep_bytes, desc)
    }

    /// Copies bytes into the buffer and makes them visible to the device. No submission under way may use these bytes.
    /// This is not checked: the device would read wrong bytes. In memory that is not coherent, the rule applies to
    /// whole atoms (`Capabilities::non_coherent_atom_bytes`), and earlier host writes to the rest of these atoms are
    /// lost if they were not flushed.
    ///
    /// # Errors
    /// The buffer is not mapped, or the bytes do not fit; no byte is written then. Or the driver failed.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        // SAFETY: `&mut self` excludes every other host access.
        unsafe { self.host().write(offset, bytes) }
    }

    /// As [`Buffer::write`], for plain values: writes `values` from byte `offset` on.
    ///
    /// # Errors
    /// As [`Buffer::write`].
    #[cfg(feature = "bytemuck")]
    pub fn write_slice<T: bytemuck::NoUninit>(&mut self, offset: u64, values: &[T]) -> Result<(), AccessError> {
        self.write(offset, bytemuck::cast_slice(values))
    }

    /// Copies bytes out of the buffer, and invalidates host caches if needed. The bytes include the writes of all
    /// submissions that were complete before the call.
    ///
    /// # Errors
    /// The buffer is not mapped, or the bytes are outside of it; or the driver failed.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.host().read(offset, into)
    }

    /// As [`Buffer::read`], for plain values: fills `into` from byte `offset` on.
    ///
    /// # Errors
    /// As [`Buffer::read`].
    #[cfg(feature = "bytemuck")]
    pub fn read_slice<T: bytemuck::Pod>(&self, offset: u64, into: &mut [T]) -> Result<(), AccessError> {
        self.read(offset, bytemuck::cast_slice_mut(into))
    }

    /// Calls `fill` with the mapped address of byte `offset`. `fill` writes `size` bytes, which this function then
    /// makes visible to the device. Submissions that are under way must not use these bytes, as for [`Buffer::write`].
    /// In memory that is not coherent, the rest of their atoms is flushed too, with the values that the host saw last.
    ///
    /// # Errors
    /// [`AccessError::NotMapped`] or [`AccessError::OutOfRange`], without a call of `fill`; or the driver failed to
    /// flush.
    ///
    /// # Safety
    /// No other host access to these bytes happens at the same time.
    pub unsafe fn write_shared(&self, offset: u64, size: u64, fill: impl FnOnce(*mut u8)) -> Result<(), AccessError> {
        fill(self.host().at(offset, size)?.as_ptr());
        self.host().flush(offset, size)
    }
}
