//! Counts of objects that Vulkan limits per device. A request above a limit is refused before the driver is called.
//!
//! ```text
//!   memory objects              maxMemoryAllocationCount          the allocator's, descriptor heaps', placeholders'
//!   samplers                    maxSamplerAllocationCount
//!   bytes of descriptor buffers …DescriptorBufferAddressSpaceSize of each kind, and of both; a heap that grows counts
//!                                                                 twice until the device has finished with the old one
//! ```
//!
//! Objects that the program creates without Ringfence are not counted. Counting is O(1), without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use ash::vk;

use super::descriptor::facts::Facts;
use super::device::Device;
use super::error::failed;
use ringfence_hal::descriptors::HeapKind;
use ringfence_hal::{Capabilities, DeviceError, Numbers};

/// A count and its limit.
pub(super) struct Counted {
    now: AtomicU64,
    max: u64,
}

impl Counted {
    fn up_to(max: u64) -> Self {
        Self { now: AtomicU64::new(0), max }
    }

    /// Adds `more` to the count, unless this exceeds the limit.
    pub(super) fn add(&self, more: u64) -> Result<(), Numbers> {
        let sum = |now: u64| now.checked_add(more).filter(|sum| *sum <= self.max);
        // Relaxed: the count does not order other memory accesses.
        let added = self.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
        added.map(drop).map_err(|now| Numbers::AtMost { given: now.saturating_add(more), max: self.max })
    }

    pub(super) fn remove(&self, count: u64) {
        self.now.fetch_sub(count, Ordering::Relaxed);
    }
}

/// The counts of a device.
pub(super) struct Counts {
    pub(super) memory_objects: Counted,
    samplers: Counted,
    resource_bytes: Counted,
    sampler_bytes: Counted,
    descriptor_bytes: Counted,
}

impl Counts {
    pub(super) fn new(capabilities: &Capabilities, facts: &Facts) -> Self {
        let kind_bytes = |kind| Counted::up_to(facts.address_space(kind));
        Self {
            memory_objects: Counted::up_to(capabilities.memory_objects_max),
            samplers: Counted::up_to(facts.samplers_max()),
            resource_bytes: kind_bytes(HeapKind::Resources),
            sampler_bytes: kind_bytes(HeapKind::Samplers),
            descriptor_bytes: Counted::up_to(facts.whole_address_space()),
        }
    }

    fn bytes_of(&self, kind: HeapKind) -> &Counted {
        if kind == HeapKind::Samplers { &self.sampler_bytes } else { &self.resource_bytes }
    }

    /// Counts a descriptor buffer for a heap of this kind.
    pub(super) fn add_descriptor_buffer(&self, kind: HeapKind, bytes: u64) -> Result<(), DeviceError> {
        let full = |numbers| DeviceError::unsupported("this many bytes of descriptor buffers at once").with(numbers);
        self.bytes_of(kind).add(bytes).map_err(full)?;
        self.descriptor_bytes.add(bytes).map_err(full).inspect_err(|_| self.bytes_of(kind).remove(bytes))
    }

    pub(super) fn remove_descriptor_buffer(&self, kind: HeapKind, bytes: u64) {
        self.bytes_of(kind).remove(bytes);
        self.descriptor_bytes.remove(bytes);
    }
}

impl Device {
    /// # Safety
    /// The description is valid.
    pub(super) unsafe fn create_sampler(&self, info: &vk::SamplerCreateInfo<'_>) -> Result<vk::Sampler, DeviceError> {
        let full = |numbers| DeviceError::unsupported("this many samplers at once").with(numbers);
        self.0.counts.samplers.add(1).map_err(full)?;
        // SAFETY: the caller promises that the description is valid. The number of samplers is below the device's
        // limit.
        let made = unsafe { self.0.device.create_sampler(info, None) }.map_err(failed("vkCreateSampler"));
        made.inspect_err(|_| self.0.counts.samplers.remove(1))
    }

    /// # Safety
    /// The sampler is null, or it was created by [`Device::create_sampler`] of this device, is alive, and no pending
    /// work uses it.
    pub(super) unsafe fn destroy_sampler(&self, sampler: vk::Sampler) {
        if sampler != vk::Sampler::null() {
            // SAFETY: the caller promises that the sampler belongs to this device, is alive and unused.
            unsafe { self.0.device.destroy_sampler(sampler, None) };
            self.0.counts.samplers.remove(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_counted_than_may_be_and_refusals_count_nothing() {
        let counted = Counted::up_to(10);
        assert_eq!(counted.add(7), Ok(()));
        assert_eq!(counted.add(4), Err(Numbers::AtMost { given: 11, max: 10 }));
        assert_eq!(counted.add(u64::MAX), Err(Numbers::AtMost { given: u64::MAX, max: 10 }));
        assert_eq!(counted.add(3), Ok(()));
        counted.remove(7);
        assert_eq!((counted.add(7), counted.add(1)), (Ok(()), Err(Numbers::AtMost { given: 11, max: 10 })));
    }

    /// While a heap grows, its old and its new buffer count.
    #[test]
    fn descriptor_buffers_are_counted_by_kind_and_together() {
        let counts = Counts {
            memory_objects: Counted::up_to(0),
            samplers: Counted::up_to(0),
            resource_bytes: Counted::up_to(100),
            sampler_bytes: Counted::up_to(40),
            descriptor_bytes: Counted::up_to(120),
        };
        let full = |given, max| {
            let numbers = Numbers::AtMost { given, max };
            Err(DeviceError::unsupported("this many bytes of descriptor buffers at once").with(numbers))
        };
        let (resources, samplers) = (HeapKind::Resources, HeapKind::Samplers);
        assert_eq!(counts.add_descriptor_buffer(resources, 60), Ok(()));
        assert_eq!(counts.add_descriptor_buffer(resources, 60), full(120, 100));
        assert_eq!(counts.add_descriptor_buffer(resources, 40), Ok(()));
        assert_eq!(counts.add_descriptor_buffer(samplers, 41), full(41, 40));
        assert_eq!(counts.add_descriptor_buffer(samplers, 30), full(130, 120));
        counts.remove_descriptor_buffer(resources, 60);
        assert_eq!(counts.add_descriptor_buffer(samplers, 40), Ok(()), "a refused request is not counted");
    }
}
