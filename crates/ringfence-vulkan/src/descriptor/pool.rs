//! Descriptor sets of one layout, from pools that do not fragment.
//!
//! ```text
//!   pool of 8 sets of the layout (first pool: 1), all allocated when the pool is created, never freed one by one
//!   free ──take──▶ in use ──its sync points passed──▶ free
//! ```
//!
//! A pool for many layouts can fragment until no set fits. These pools cannot: each has one layout, and its sets are
//! reused.

use ash::vk;
use smallvec::SmallVec;

use crate::error::{device_error, failed};
use ringfence_hal::DeviceError;

/// Number of sets in a pool.
const POOL_SETS: u32 = 8;

/// Descriptor sets of one layout.
pub(super) struct SetPool {
    layout: vk::DescriptorSetLayout,
    /// Pool sizes for one set.
    sizes: SmallVec<[vk::DescriptorPoolSize; 12]>,
    flags: vk::DescriptorPoolCreateFlags,
    pools: Vec<vk::DescriptorPool>,
    free: Vec<vk::DescriptorSet>,
}

impl SetPool {
    pub(super) fn new(
        layout: vk::DescriptorSetLayout,
        types: impl Iterator<Item = vk::DescriptorType>,
        slots: u32,
        flags: vk::DescriptorPoolCreateFlags,
    ) -> Self {
        let sizes = types.map(|ty| vk::DescriptorPoolSize { ty, descriptor_count: slots }).collect();
        Self { layout, sizes, flags, pools: Vec::new(), free: Vec::new() }
    }

    /// Returns an unused set. Its content is undefined.
    ///
    /// # Safety
    /// The layout belongs to the device and is alive.
    pub(super) unsafe fn take(&mut self, device: &ash::Device) -> Result<vk::DescriptorSet, DeviceError> {
        if let Some(set) = self.free.pop() {
            return Ok(set);
        }
        // The first pool has one set, which suffices for most heaps.
        let count = if self.pools.is_empty() { 1 } else { POOL_SETS };
        // SAFETY: the caller promises that the layout belongs to the device and is alive.
        unsafe { self.add_pool(device, count) }?;
        self.free.pop().ok_or_else(|| device_error(vk::Result::ERROR_OUT_OF_POOL_MEMORY, "vkAllocateDescriptorSets"))
    }

    /// # Safety
    /// The rules of `take`.
    unsafe fn add_pool(&mut self, device: &ash::Device, count: u32) -> Result<(), DeviceError> {
        let sizes: SmallVec<[_; 12]> = self
            .sizes
            .iter()
            .map(|size| vk::DescriptorPoolSize { ty: size.ty, descriptor_count: size.descriptor_count * count })
            .collect();
        let info = vk::DescriptorPoolCreateInfo::default().flags(self.flags).max_sets(count).pool_sizes(&sizes);
        let layouts = [self.layout; POOL_SETS as usize];
        // SAFETY: the description lives through the call. The pool is new and large enough for exactly these sets.
        unsafe {
            let pool = device.create_descriptor_pool(&info, None).map_err(failed("vkCreateDescriptorPool"))?;
            let sets =
                vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts[..count as usize]);
            match device.allocate_descriptor_sets(&sets) {
                Ok(sets) => self.free.extend(sets),
                Err(error) => {
                    device.destroy_descriptor_pool(pool, None);
                    return Err(failed("vkAllocateDescriptorSets")(error));
                }
            }
            self.pools.push(pool);
        }
        Ok(())
    }

    /// Returns a set to the pool. No work may use it any more.
    pub(super) fn put(&mut self, set: vk::DescriptorSet) {
        self.free.push(set);
    }

    /// # Safety
    /// No pending work uses a set of the pool, and no set is used again.
    pub(super) unsafe fn destroy(&mut self, device: &ash::Device) {
        self.free.clear();
        for pool in self.pools.drain(..) {
            // SAFETY: the caller promises that no pending work uses a set of the pool.
            unsafe { device.destroy_descriptor_pool(pool, None) };
        }
    }
}
