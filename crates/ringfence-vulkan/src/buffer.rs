//! Buffers: creation, requirements, binding.

use ash::vk;

use crate::error::failed;

use super::device::Device;
use super::external::{NOT_ENABLED, handle_type};
use super::features::Features;
use super::info::BufferInfo;
use super::memory::{Memory, Owner, requirements};
use super::plain_heaps::Resource;
use super::pnext_chain;
use super::share_support::{check, tied};
use super::valid;
use ringfence_hal::sharing::{ShareKind, ShareSupport};
use ringfence_hal::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, InfoKey, MemoryDesc, Placed, Requirements, ResourceClass,
};

// SAFETY: a buffer stays bound to its memory, which stays mapped until it is freed.
unsafe impl Create<Buffers> for Device {
    type Info<'a> = BufferInfo<'a>;
    type Unplaced = vk::Buffer;
    type Object = vk::Buffer;
    type Raw<'a> = vk::Buffer;

    fn raw(object: &Self::Object) -> Self::Raw<'_> {
        *object
    }

    fn describe(&self, desc: &BufferDesc) -> Result<BufferInfo<'static>, DeviceError> {
        let mut usage = buffer_usage(desc.usage);
        if self.has(Features::DESCRIPTOR_BUFFER) && desc.usage.intersects(SHOWN) {
            // With descriptor buffers, descriptors contain device addresses.
            usage |= vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        }
        let info = BufferInfo::new(desc.size, usage);
        self.check_buffer(&info).map(|()| info)
    }

    #[inline]
    fn portable(&self, info: &BufferInfo<'_>) -> Option<BufferDesc> {
        let (size, flags) = (info.raw().size, info.usage());
        let held = USAGES.into_iter().filter(|(_, equal)| flags.contains(*equal));
        let usage = held.fold(BufferUsage::empty(), |all, (usage, _)| all | usage);
        // The flags must be equal: the format features that a view requires depend on the usage flags of the buffer.
        let has_texels = flags & ALL_TEXELS == texel_usage(usage | BufferUsage::TEXELS);
        let usage = if has_texels { usage | BufferUsage::TEXELS } else { usage };
        // With descriptor buffers, a buffer without a device address cannot have descriptors, so these usages are
        // removed.
        let shown = usage.contains(BufferUsage::DEVICE_ADDRESS) || !self.has(Features::DESCRIPTOR_BUFFER);
        Some(BufferDesc { size, usage: if shown { usage } else { usage - SHOWN } })
    }

    #[inline]
    fn key(&self, info: &BufferInfo<'_>) -> Option<InfoKey> {
        let info = info.raw();
        let own = [info.size as u32, (info.size >> 32) as u32, info.usage.as_raw(), info.flags.as_raw()];
        let families = (info.queue_family_index_count, info.p_queue_family_indices);
        // SAFETY: descriptions from safe code have no chained structures and no list of families. For other
        // descriptions, the caller of `from_raw` promises that both are valid.
        unsafe { pnext_chain::key(&own, info.p_next, info.sharing_mode, families) }
    }

    /// Returns `None` if structures are chained, because chained structures may depend on the size.
    fn rounded<'a>(&self, info: &Self::Info<'a>, round: fn(u64) -> u64) -> Option<(Self::Info<'a>, u64)> {
        let before = info.raw();
        let size = round(before.size).min(self.0.found.buffer_bytes_max).max(before.size);
        before.p_next.is_null().then(|| (info.with_size(size), size - before.size))
    }

    #[inline]
    unsafe fn prepare(&self, info: &BufferInfo<'_>) -> Result<(vk::Buffer, Requirements), DeviceError> {
        self.check_whole()?;
        self.check_buffer(info)?;
        let info = info.raw();
        if info.flags.intersects(vk::BufferCreateFlags::SPARSE_BINDING) {
            return Err(DeviceError::invalid("a sparse buffer cannot be placed in one memory object"));
        }
        let device = &self.0.device;
        // SAFETY: the caller promises that `info` is valid.
        let raw = unsafe { self.create_buffer(info) }?;
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        if info.p_next.is_null() && info.size <= NEVER_DEDICATED_BYTES_MAX {
            // SAFETY: the buffer belongs to this device and is alive.
            let needed = unsafe { device.get_buffer_memory_requirements(raw) };
            return Ok((raw, requirements(needed, dedicated, ResourceClass::Buffer)));
        }
        let mut needed = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        let of = vk::BufferMemoryRequirementsInfo2::default().buffer(raw);
        // SAFETY: the buffer belongs to this device and is alive.
        unsafe { device.get_buffer_memory_requirements2(&of, &mut needed) };
        let needed = needed.memory_requirements;
        Ok((raw, requirements(needed, dedicated, ResourceClass::Buffer)))
    }

    fn share_support(&self, info: &BufferInfo<'_>, kind: ShareKind) -> ShareSupport {
        if self.check_buffer(info).is_err() {
            return ShareSupport::default();
        }
        self.buffer_share_support(info.raw(), kind)
    }

    unsafe fn prepare_shared(
        &self,
        info: &BufferInfo<'_>,
        kind: ShareKind,
    ) -> Result<(vk::Buffer, Requirements), DeviceError> {
        if !self.0.sharing.has(kind) {
            return Err(NOT_ENABLED);
        }
        self.check_buffer(info)?;
        let support = check(self.buffer_share_support(info.raw(), kind))?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(handle_type(kind)?);
        let raw = info.raw().push_next(&mut external);
        // SAFETY: the caller promises that `info` is valid, and the device can share the buffer.
        let (object, needs) = unsafe { Create::<Buffers>::prepare(self, &BufferInfo::from_raw(raw)) }?;
        Ok((object, tied(needs, support)))
    }

    unsafe fn discard(&self, unplaced: vk::Buffer) {
        // SAFETY: the caller promises that the buffer is unused.
        unsafe { self.destroy_buffer(unplaced) }
    }

    #[inline]
    unsafe fn place(
        &self,
        unplaced: &vk::Buffer,
        memory: &Memory,
        offset: u64,
    ) -> Result<Placed<vk::Buffer>, DeviceError> {
        // SAFETY: the caller promises that the buffer is unbound and that its requirements allow this memory.
        unsafe { self.0.device.bind_buffer_memory(*unplaced, memory.raw(), offset) }
            .map_err(failed("vkBindBufferMemory"))?;
        // SAFETY: the caller promises that the offset is inside the memory.
        Ok(unsafe { memory.placed(*unplaced, offset) })
    }

    unsafe fn dedicate(
        &self,
        unplaced: &vk::Buffer,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<vk::Buffer>, Memory), DeviceError> {
        // SAFETY: the caller promises that the buffer is unbound and that its requirements allow `desc`.
        let memory = unsafe { self.allocate(desc, Some(Owner::Buffer(*unplaced)), None) }?;
        // SAFETY: the caller promises that the resource is unbound. The memory was allocated for it.
        let placed = unsafe { Create::<Buffers>::place(self, unplaced, &memory, 0) };
        // SAFETY: the memory is new and contains only `placed`.
        unsafe { self.with_memory(placed, memory) }
    }

    unsafe fn allocate_memory_for(&self, unplaced: &vk::Buffer, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        // SAFETY: the caller promises that the buffer is unbound and that its requirements allow `desc`.
        unsafe { self.allocate(desc, Some(Owner::Buffer(*unplaced)), None) }
    }

    #[inline]
    fn has_address(&self, info: &BufferInfo<'_>) -> bool {
        info.usage().contains(vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS)
    }

    unsafe fn address(&self, object: &vk::Buffer) -> u64 {
        let info = vk::BufferDeviceAddressInfo::default().buffer(*object);
        // SAFETY: the buffer is alive, bound, and has the address usage. `prepare` has checked that the feature is
        // enabled.
        unsafe { self.0.device.get_buffer_device_address(&info) }
    }

    #[inline]
    fn note_retired(&self, object: &vk::Buffer) {
        self.clear_slots_of(Resource::Buffer(*object));
    }

    unsafe fn destroy(&self, object: vk::Buffer) {
        self.clear_slots_of(Resource::Buffer(object));
        // SAFETY: the caller promises that the buffer is alive and unused.
        unsafe { self.destroy_buffer(object) }
    }

    unsafe fn set_name(&self, object: &vk::Buffer, name: &str) {
        // SAFETY: the caller promises that the buffer belongs to this device and is alive.
        unsafe { self.name(*object, name) }
    }
}

impl Device {
    /// Refuses descriptions that would cause undefined behaviour, and those that this crate does not support.
    pub(super) fn check_buffer(&self, info: &BufferInfo<'_>) -> Result<(), DeviceError> {
        if info.needs_check() {
            valid::buffer(info.raw(), self.0.desc.features)?;
        }
        let (info, usage) = (info.raw(), info.usage());
        DeviceError::invalid("a buffer must have at least one byte").at_least(info.size, 1)?;
        let replayed = vk::BufferCreateFlags::DEVICE_ADDRESS_CAPTURE_REPLAY
            | vk::BufferCreateFlags::DESCRIPTOR_BUFFER_CAPTURE_REPLAY_EXT;
        DeviceError::unsupported("buffers whose addresses are captured and replayed")
            .flags(info.flags.as_raw().into(), (info.flags & !replayed).as_raw().into())?;
        // The flags of a chained structure can be in its high 32 bits, which `usage` does not contain.
        if info.p_next.is_null() {
            DeviceError::invalid("a buffer must have at least one usage").at_least(usage.as_raw().into(), 1)?;
        }
        DeviceError::unsupported("a buffer of this size").at_most(info.size, self.0.found.buffer_bytes_max)?;
        let device_address = usage.contains(vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS);
        if device_address && !self.has(Features::BUFFER_DEVICE_ADDRESS) {
            let (given, plain) = (usage, usage & !vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS);
            return DeviceError::invalid("SHADER_DEVICE_ADDRESS without Features::BUFFER_DEVICE_ADDRESS")
                .flags(given.as_raw().into(), plain.as_raw().into());
        }
        Ok(())
    }
}

/// Size up to which the dedicated requirements of a plain buffer (without chained structures) are not queried, in
/// bytes. Vulkan never requires dedicated memory for a plain buffer, and for small buffers a driver's preference does
/// not justify a memory object. The query of dedicated requirements takes three times as long as the plain query.
const NEVER_DEDICATED_BYTES_MAX: u64 = 64 << 10;

/// Portable usages, and Vulkan's flags for them. Texel usages can have two flags: see [`texel_usage`]. `STORAGE_READ`
/// counts as storage.
const USAGES: [(BufferUsage, vk::BufferUsageFlags); 8] = [
    (BufferUsage::COPY_SRC, vk::BufferUsageFlags::TRANSFER_SRC),
    (BufferUsage::COPY_DST, vk::BufferUsageFlags::TRANSFER_DST),
    (BufferUsage::VERTEX, vk::BufferUsageFlags::VERTEX_BUFFER),
    (BufferUsage::INDEX, vk::BufferUsageFlags::INDEX_BUFFER),
    (BufferUsage::CONSTANT, vk::BufferUsageFlags::UNIFORM_BUFFER),
    (BufferUsage::STORAGE, vk::BufferUsageFlags::STORAGE_BUFFER),
    (BufferUsage::INDIRECT, vk::BufferUsageFlags::INDIRECT_BUFFER),
    (BufferUsage::DEVICE_ADDRESS, vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS),
];

/// Usages for which a buffer needs descriptors.
const SHOWN: BufferUsage = BufferUsage::from_bits_truncate(
    BufferUsage::STORAGE.bits()
        | BufferUsage::STORAGE_READ.bits()
        | BufferUsage::CONSTANT.bits()
        | BufferUsage::TEXELS.bits(),
);

/// Usage flags for texels that shaders read, and for texels that shaders write.
const ALL_TEXELS: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER.as_raw() | vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER.as_raw(),
);

/// Returns Vulkan's usage flags for texels. Shaders can write the texels only if the buffer also has storage usage.
pub(crate) fn texel_usage(usage: BufferUsage) -> vk::BufferUsageFlags {
    if !usage.contains(BufferUsage::TEXELS) {
        vk::BufferUsageFlags::empty()
    } else if usage.intersects(BufferUsage::STORAGE | BufferUsage::STORAGE_READ) {
        ALL_TEXELS
    } else {
        vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER
    }
}

/// Returns Vulkan's usage flags for the portable ones.
fn buffer_usage(usage: BufferUsage) -> vk::BufferUsageFlags {
    let usage = if usage.contains(BufferUsage::STORAGE_READ) { usage | BufferUsage::STORAGE } else { usage };
    let present = USAGES.into_iter().filter(|(flag, _)| usage.contains(*flag));
    present.fold(texel_usage(usage), |all, (_, equal)| all | equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_portable_usage_has_an_equal_of_its_own() {
        let usages = [
            BufferUsage::COPY_SRC,
            BufferUsage::COPY_DST,
            BufferUsage::VERTEX,
            BufferUsage::INDEX,
            BufferUsage::CONSTANT,
            BufferUsage::STORAGE,
            BufferUsage::INDIRECT,
            BufferUsage::DEVICE_ADDRESS,
        ];
        let mapped = usages.map(buffer_usage);
        assert!(mapped.iter().all(|usage| usage.as_raw().count_ones() == 1));
        assert_eq!(mapped.iter().fold(0, |all, usage| all | usage.as_raw()).count_ones(), 8);
    }
}
