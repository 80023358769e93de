//! Heaps of descriptor bytes: `VK_EXT_descriptor_buffer`.
//!
//! ```text
//!   CPU-only         slot 0     slot 1    …            each with the size of the largest type
//!   shader-visible   ├ constants ─ 0 1 2 … ┤├ storage buffers ─ 0 1 2 … ┤ …    arrays at offsets from the driver
//!                      element i of an array at offset + i * bytes of its type
//! ```
//!
//! The driver defines the size of each descriptor type, the offset of each array and the alignment of the buffer.
//! `vkGetDescriptorEXT` writes a descriptor to the stack, and its bytes are copied to the slot. The buffer is mapped
//! and coherent, so it needs no flush.

use ash::vk;

use crate::error::failed;
use ringfence_hal::lock::Lock;
use smallvec::SmallVec;

use super::bound::How;
use super::types;
use super::view::{Real, Shown, Slot};
use crate::device::Device;
use crate::features::Features;
use crate::memory::Memory;
use ringfence_hal::descriptors::{HeapDesc, HeapKind, ViewCopy};
use ringfence_hal::{DeviceError, Driver, Mapped, MemoryProperties, ResourceClass};

/// Size of the largest supported descriptor, in bytes; the size of the stack buffer. Descriptors of known devices have
/// 4 to 64 bytes.
const DESCRIPTOR_BYTES: usize = 256;

/// A heap of descriptor bytes.
pub(super) enum Bytes {
    /// CPU-only: slots of equal size in host memory.
    Host { kind: HeapKind, slot_bytes: usize, bytes: Lock<Box<[u8]>> },
    /// Shader-visible: arrays in a mapped buffer.
    Visible(Visible),
}

/// A descriptor buffer.
pub(super) struct Visible {
    kind: HeapKind,
    layout: vk::DescriptorSetLayout,
    buffer: vk::Buffer,
    memory: Lock<Option<Memory>>,
    mapped: Mapped,
    address: vk::DeviceAddress,
    usage: vk::BufferUsageFlags,
    /// Bytes of this buffer in the count of the address space for descriptor buffers.
    counted_bytes: u64,
    /// For each binding, the offset of its array and the size of an element, in bytes. The size is 0 if the heap lacks
    /// the type.
    arrays: [(u64, usize); 6],
}

impl Bytes {
    pub(super) fn new(device: &Device, desc: &HeapDesc<'_>) -> Result<Self, DeviceError> {
        if desc.shader_visible {
            return Visible::new(device, desc).map(Self::Visible);
        }
        let facts = &device.0.descriptors;
        let lengths = types::bindings(desc.kind, desc.types).map(|(_, of)| facts.descriptor_bytes(of));
        let slot_bytes = lengths.max().unwrap_or(0);
        let bytes = Lock::new(vec![0; slot_bytes * desc.slots as usize].into_boxed_slice());
        Ok(Self::Host { kind: desc.kind, slot_bytes, bytes })
    }

    pub(super) fn layout(&self) -> vk::DescriptorSetLayout {
        match self {
            Self::Host { .. } => vk::DescriptorSetLayout::null(),
            Self::Visible(visible) => visible.layout,
        }
    }

    pub(super) fn how(&self) -> How {
        match self {
            Self::Host { .. } => How::Buffer { address: 0, usage: vk::BufferUsageFlags::empty() },
            Self::Visible(visible) => How::Buffer { address: visible.address, usage: visible.usage },
        }
    }

    fn kind(&self) -> HeapKind {
        match self {
            Self::Host { kind, .. } => *kind,
            Self::Visible(visible) => visible.kind,
        }
    }

    /// # Safety
    /// The slot may be written, and no other thread accesses it. The view's objects are alive, and the heap accepts the
    /// view's type.
    pub(super) unsafe fn write(
        &self,
        device: &Device,
        (slot, before): (u32, Option<u32>),
        real: &Real,
    ) -> Result<(), DeviceError> {
        if let Some(before) = before.filter(|before| *before != real.binding) {
            // SAFETY: the caller promises that the slot may be written and that no other thread accesses it.
            unsafe { self.clear(device, slot, before) };
        }
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        // SAFETY: the caller promises that the view's objects are alive.
        let descriptor = unsafe { encode(device, real.descriptor_type, Some(real.shown), &mut descriptor) }?;
        // SAFETY: the caller promises that the slot may be written and that no other thread accesses it.
        unsafe { self.put(slot, real.binding, descriptor) };
        Ok(())
    }

    /// Writes an empty descriptor to a binding of a slot. It consists of zeros if the device has no null descriptors,
    /// and for samplers.
    ///
    /// # Safety
    /// The slot may be written, and no other thread accesses it.
    pub(super) unsafe fn clear(&self, device: &Device, slot: u32, binding: u32) {
        let descriptor_type = types::type_of(self.kind(), binding);
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        // SAFETY: an empty descriptor refers to no object.
        if let Ok(descriptor) = unsafe { encode(device, descriptor_type, None, &mut descriptor) } {
            // SAFETY: the caller promises that the slot may be written and that no other thread accesses it.
            unsafe { self.put(slot, binding, descriptor) };
        }
    }

    /// # Safety
    /// The slot may be written, and no other thread accesses it.
    unsafe fn put(&self, slot: u32, binding: u32, descriptor: &[u8]) {
        match self {
            Self::Host { slot_bytes, bytes, .. } => {
                let at = slot as usize * slot_bytes;
                bytes.lock()[at..at + descriptor.len()].copy_from_slice(descriptor);
            }
            Self::Visible(visible) => {
                let (offset, length) = visible.arrays[binding as usize];
                assert_eq!(descriptor.len(), length, "a descriptor has the size of its array's elements");
                let at = offset + u64::from(slot) * length as u64;
                // SAFETY: the array has the slot and is inside the mapped buffer. The caller promises that neither
                // another thread nor the device accesses these bytes.
                unsafe {
                    let to = visible.mapped.add(at).as_ptr();
                    std::ptr::copy_nonoverlapping(descriptor.as_ptr(), to, length);
                }
            }
        }
    }

    /// # Safety
    /// The rules of [`copy_views`](ringfence_hal::descriptors::Descriptors::copy_views).
    pub(super) unsafe fn copy<H>(
        &self,
        device: &Device,
        from: &Self,
        copy: &ViewCopy<'_, H>,
        held: &[Slot],
        shown: &[Slot],
    ) {
        let Self::Host { slot_bytes, bytes, .. } = from else { return };
        let (first, count) = (copy.src_start as usize * slot_bytes, shown.len() * slot_bytes);
        // The source is copied first, so that this thread never holds two locks: both heaps may be CPU-only.
        let bytes: SmallVec<[u8; 1024]> = SmallVec::from_slice(&bytes.lock()[first..first + count]);
        for (index, (held, shown)) in (0..).zip(held.iter().zip(shown)) {
            let slot = copy.dst_start + index;
            if let Some(before) = held.binding.filter(|before| Some(*before) != shown.binding) {
                // SAFETY: the caller promises that the slot may be written and that no other thread accesses it.
                unsafe { self.clear(device, slot, before) };
            }
            let Some(binding) = shown.binding else { continue };
            let length = device.0.descriptors.descriptor_bytes(types::type_of(self.kind(), binding));
            let at = index as usize * slot_bytes;
            // SAFETY: the caller promises that the slot may be written and that no other thread accesses it.
            unsafe { self.put(slot, binding, &bytes[at..at + length]) };
        }
    }

    /// # Safety
    /// No pending work uses the heap, and it is not used again.
    pub(super) unsafe fn destroy(&self, device: &Device) {
        let Self::Visible(visible) = self else { return };
        // SAFETY: the caller promises that no work uses the heap any more. Each object belongs to the device and is
        // destroyed once.
        unsafe {
            device.raw().destroy_buffer(visible.buffer, None);
            if let Some(memory) = visible.memory.lock().take() {
                device.free_memory(memory);
            }
            device.raw().destroy_descriptor_set_layout(visible.layout, None);
        }
        device.0.counts.remove_descriptor_buffer(visible.kind, visible.counted_bytes);
    }
}

impl Visible {
    fn new(device: &Device, desc: &HeapDesc<'_>) -> Result<Self, DeviceError> {
        let (raw, facts) = (device.raw(), &device.0.descriptors);
        let api = facts.buffer_api.as_ref().ok_or(DeviceError::unsupported("descriptor buffers"))?;
        let bindings = types::bindings(desc.kind, desc.types);
        let flags = vk::DescriptorSetLayoutCreateFlags::DESCRIPTOR_BUFFER_EXT;
        // No binding flag is needed: in descriptor buffers, elements that no shader reads may contain any bytes.
        let none = vk::DescriptorBindingFlags::empty();
        // SAFETY: `DeviceDesc` says that the extension is enabled.
        let layout = unsafe { types::make_layout(raw, bindings.clone(), desc.layout_slots, facts.stages, flags, none) }
            .map_err(failed("vkCreateDescriptorSetLayout"))?;
        let mut arrays = [(0, 0); 6];
        for (binding, of) in bindings {
            // SAFETY: the layout belongs to the device, was created for descriptor buffers, and has the binding.
            let offset = unsafe { api.get_descriptor_set_layout_binding_offset(layout, binding) };
            arrays[binding as usize] = (offset, facts.descriptor_bytes(of));
        }
        // SAFETY: the layout belongs to the device and was created for descriptor buffers.
        let bytes = unsafe { api.get_descriptor_set_layout_size(layout) };
        let usage = vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
            | match desc.kind {
                HeapKind::Samplers => vk::BufferUsageFlags::SAMPLER_DESCRIPTOR_BUFFER_EXT,
                _ => vk::BufferUsageFlags::RESOURCE_DESCRIPTOR_BUFFER_EXT,
            };
        // The buffer is larger than its descriptors by one alignment, so that they can start at an aligned address:
        // Vulkan does not promise an aligned address for descriptor buffers.
        let counted_bytes = bytes + facts.buffer.descriptor_buffer_offset_alignment.max(1);
        let counted = device.0.counts.add_descriptor_buffer(desc.kind, counted_bytes);
        let made = counted.and_then(|()| {
            make_buffer(device, counted_bytes, usage, desc.name)
                .inspect_err(|_| device.0.counts.remove_descriptor_buffer(desc.kind, counted_bytes))
        });
        match made {
            Ok((buffer, memory, mapped, address)) => {
                let memory = Lock::new(Some(memory));
                Ok(Self { kind: desc.kind, layout, buffer, memory, mapped, address, usage, counted_bytes, arrays })
            }
            Err(error) => {
                // SAFETY: no object uses the layout.
                unsafe { raw.destroy_descriptor_set_layout(layout, None) };
                Err(error)
            }
        }
    }
}

type Made = (vk::Buffer, Memory, Mapped, vk::DeviceAddress);

/// Creates a mapped, coherent buffer with a device address, in device-local memory if possible. The buffer has its own
/// memory object, because heaps are created rarely and live long. The returned mapping and address are the first
/// aligned ones in the buffer.
fn make_buffer(device: &Device, bytes: u64, usage: vk::BufferUsageFlags, name: &str) -> Result<Made, DeviceError> {
    let raw = device.raw();
    let alignment = device.0.descriptors.buffer.descriptor_buffer_offset_alignment.max(1);
    let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
    // SAFETY: the description is valid.
    let buffer = unsafe { raw.create_buffer(&info, None) }.map_err(failed("vkCreateBuffer"))?;
    // SAFETY: the buffer is new.
    let needed = unsafe { raw.get_buffer_memory_requirements(buffer) };
    let types = mapped_memory_types(device, needed.memory_type_bits);
    let none = "descriptor buffers in memory that is mapped and coherent";
    let bound = device.allocate_first(types, needed, ResourceClass::Buffer, name, none).and_then(|memory| {
        // SAFETY: the buffer is new and unbound. The memory has an allowed type and is large enough.
        match unsafe { raw.bind_buffer_memory(buffer, memory.raw(), 0) } {
            Ok(()) => Ok(memory),
            Err(error) => {
                // SAFETY: the memory contains no resource.
                unsafe { device.free_memory(memory) };
                Err(failed("vkBindBufferMemory")(error))
            }
        }
    });
    let memory = bound.inspect_err(|_| {
        // SAFETY: no work uses the buffer.
        unsafe { raw.destroy_buffer(buffer, None) };
    })?;
    // SAFETY: the buffer is bound and has the address usage.
    let address = unsafe { raw.get_buffer_device_address(&vk::BufferDeviceAddressInfo::default().buffer(buffer)) };
    let mapped = memory.mapped().expect("memory of a host-visible type is mapped when it is allocated");
    let skipped = address.next_multiple_of(alignment) - address;
    // SAFETY: the buffer is larger than its descriptors by the alignment, and `skipped` is less than the alignment.
    let mapped = unsafe { mapped.add(skipped) };
    Ok((buffer, memory, mapped, address + skipped))
}

/// Returns the memory types that are mapped and coherent, device-local ones first.
fn mapped_memory_types(device: &Device, bits: u32) -> impl Iterator<Item = u32> {
    let wanted = MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT;
    // Memory of these types needs a feature, or follows special rules.
    let special = MemoryProperties::PROTECTED | MemoryProperties::SPECIAL;
    let properties = |index: &u32| device.capabilities().properties(*index);
    let is_plain = |index: &u32| properties(index).contains(wanted) && !properties(index).intersects(special);
    let types = 0..device.capabilities().memory_types.len() as u32;
    let fits = types.filter(|index| bits >> index & 1 == 1 && is_plain(index));
    let mut fits: SmallVec<[u32; 8]> = fits.collect();
    fits.sort_by_key(|index| !properties(index).contains(MemoryProperties::DEVICE_LOCAL));
    fits.into_iter()
}

/// Encodes a descriptor as bytes. If `shown` is `None`, encodes an empty descriptor.
///
/// # Safety
/// The objects of the view belong to the device and are alive.
unsafe fn encode<'a>(
    device: &Device,
    descriptor_type: vk::DescriptorType,
    shown: Option<Shown>,
    into: &'a mut [u8; DESCRIPTOR_BYTES],
) -> Result<&'a [u8], DeviceError> {
    let facts = &device.0.descriptors;
    let length = facts.descriptor_bytes(descriptor_type);
    DeviceError::unsupported("descriptors of this size").at_most(length as u64, DESCRIPTOR_BYTES as u64)?;
    let into = &mut into[..length];
    let Some(api) = &facts.buffer_api else { return Err(DeviceError::unsupported("descriptor buffers")) };
    let is_sampler = descriptor_type == vk::DescriptorType::SAMPLER;
    if shown.is_none() && (is_sampler || !facts.has(Features::NULL_DESCRIPTOR)) {
        // Without null descriptors, an empty slot contains zeros. There are no null samplers.
        return Ok(into);
    }
    let (mut address, mut image) = (None, vk::DescriptorImageInfo::default());
    match shown {
        None => {}
        Some(Shown::Buffer { buffer, offset, range }) => {
            // SAFETY: the caller promises that the buffer belongs to the device and is alive.
            address = Some(unsafe { address_info(device, buffer, offset, range) }?);
        }
        Some(Shown::Texels { buffer, format, offset, range, .. }) => {
            // SAFETY: the caller promises that the buffer belongs to the device and is alive.
            address = Some(unsafe { address_info(device, buffer, offset, range) }?.format(format));
        }
        Some(Shown::Image(held)) => image = held,
    }
    // A null pointer encodes a null descriptor, which the feature `nullDescriptor` allows.
    let address = address.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let data = match descriptor_type {
        vk::DescriptorType::SAMPLER => vk::DescriptorDataEXT { p_sampler: &image.sampler },
        vk::DescriptorType::SAMPLED_IMAGE => vk::DescriptorDataEXT { p_sampled_image: null_or(&image) },
        vk::DescriptorType::STORAGE_IMAGE => vk::DescriptorDataEXT { p_storage_image: null_or(&image) },
        vk::DescriptorType::UNIFORM_BUFFER => vk::DescriptorDataEXT { p_uniform_buffer: address },
        vk::DescriptorType::STORAGE_BUFFER => vk::DescriptorDataEXT { p_storage_buffer: address },
        vk::DescriptorType::UNIFORM_TEXEL_BUFFER => vk::DescriptorDataEXT { p_uniform_texel_buffer: address },
        _ => vk::DescriptorDataEXT { p_storage_texel_buffer: address },
    };
    let info = vk::DescriptorGetInfoEXT::default().ty(descriptor_type).data(data);
    // SAFETY: the data has that type and lives through the call. The slice has the descriptor size that the device
    // reports.
    unsafe { api.get_descriptor(&info, into) };
    Ok(into)
}

/// Returns a pointer to the image info, or null if it has no image view.
fn null_or(image: &vk::DescriptorImageInfo) -> *const vk::DescriptorImageInfo {
    if image.image_view == vk::ImageView::null() { std::ptr::null() } else { image }
}

/// # Safety
/// The buffer belongs to the device and is alive.
unsafe fn address_info(
    device: &Device,
    buffer: vk::Buffer,
    offset: u64,
    range: u64,
) -> Result<vk::DescriptorAddressInfoEXT<'static>, DeviceError> {
    let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
    // SAFETY: the caller promises that the buffer is alive. Portable buffers have the address usage; the program
    // promises it for others.
    let base = unsafe { device.raw().get_buffer_device_address(&info) };
    if base == 0 {
        return Err(DeviceError::invalid("a buffer without SHADER_DEVICE_ADDRESS in a descriptor buffer"));
    }
    Ok(vk::DescriptorAddressInfoEXT::default().address(base + offset).range(range))
}
