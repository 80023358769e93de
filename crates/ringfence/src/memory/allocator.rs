//! The allocator that users hold: makes resources, gives them memory, and takes back what the GPU is done with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringfence_core::range::Invalid;

use super::shared::Shared;
use super::{Snapshot, Statistics};
use crate::device::{BufferInfo, Create, Device, DeviceError, TextureInfo};
use crate::error::Error;
use crate::lifetime::Timeline;
use crate::resource::{AllocationDesc, Buffer, Resource, ResourceKind, Texture};
use crate::upload::{UploadDesc, UploadRing};

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
        let ((placed, place), requirements) = self.shared.create::<K>(info, desc)?;
        let portable = Create::<K>::portable(&self.shared.device, info);
        Ok(Resource::new(Arc::clone(&self.shared), placed, place, (requirements.size, portable), desc.location))
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
        self.shared.trim()
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
        self.shared.validate()
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
