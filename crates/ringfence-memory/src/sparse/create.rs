//! Where sparse resources are made.

use std::sync::Arc;

use super::Sparse;
use super::resource::{SparseBuffer, SparseTexture};
use crate::device::{BufferInfo, Device, TextureInfo};
use crate::error::Error;
use crate::memory::{AllocationDesc, Shared};

/// Makes sparse resources. Made by [`Allocator::sparse`](crate::Allocator::sparse).
pub struct SparseResources<'a, D: Device> {
    shared: &'a Arc<Shared<D>>,
}

impl<'a, D: Device> SparseResources<'a, D> {
    pub(crate) fn new(shared: &'a Arc<Shared<D>>) -> Self {
        Self { shared }
    }
}

impl<D: Sparse> SparseResources<'_, D> {
    /// Makes a sparse buffer, without memory. Of `desc` those fields count that say where its pages lie.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`](ringfence_hal::DeviceError::Unsupported) where the device has none, or the driver refuses the description.
    pub fn create_buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<SparseBuffer<D>, Error> {
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        SparseBuffer::new(self.shared, desc, |device| unsafe { device.make_sparse(info) })
    }

    /// Makes a sparse texture, without memory. Of `desc` those fields count that say where its pages lie.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`](ringfence_hal::DeviceError::Unsupported) where the device has none, or none of this format or usage; or the driver refuses the
    /// description.
    pub fn create_texture(
        &self,
        info: &TextureInfo<'_, D>,
        desc: AllocationDesc<'_>,
    ) -> Result<SparseTexture<D>, Error> {
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        SparseTexture::new(self.shared, desc, |device| unsafe { device.make_sparse_texture(info) })
    }
}
