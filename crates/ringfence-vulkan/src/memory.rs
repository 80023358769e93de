//! Memory objects: allocation, mapping and flushed ranges.

use std::ptr::NonNull;

use ash::vk;

use crate::error::failed;

use super::device::Device;
use super::external::{self, Import, NOT_ENABLED, RawImport};
use super::features::Features;
use ringfence_hal::{
    DeviceError, Driver, Mapped, MemoryDesc, MemoryProperties, Numbers, Placed, Priority, Requirements, ResourceClass,
};

/// A `VkDeviceMemory` and its mapping.
#[derive(Debug)]
pub struct Memory {
    raw: vk::DeviceMemory,
    size: u64,
    memory_type: u32,
    /// Address of the first byte, or `None` if the type is not host-visible or imported memory cannot be mapped.
    base: Option<Mapped>,
    /// `true` if the memory was allocated for one resource. No other resource may be bound to it.
    is_tied: bool,
}

impl Memory {
    /// Returns Vulkan's handle.
    #[must_use]
    pub fn raw(&self) -> vk::DeviceMemory {
        self.raw
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the index of the memory type in the device's list.
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.memory_type
    }

    /// Returns the address of the first byte. Returns `None` if the type is not host-visible, or for imported memory
    /// that cannot be mapped.
    #[must_use]
    pub fn mapped(&self) -> Option<Mapped> {
        self.base
    }

    /// Returns `true` if the memory was allocated for one resource. No other resource may be bound to it.
    #[must_use]
    pub fn is_tied(&self) -> bool {
        self.is_tied
    }

    /// Returns a resource that is bound at `offset` bytes of this memory, with its host address if the memory is
    /// mapped.
    ///
    /// # Safety
    /// `offset` is inside the memory.
    pub(super) unsafe fn placed<O>(&self, object: O, offset: u64) -> Placed<O> {
        // SAFETY: the whole memory is mapped at `base`, and the caller promises that the offset is inside the memory.
        Placed { object, mapped: self.base.map(|base| unsafe { base.add(offset) }) }
    }
}

/// Resource for which a dedicated memory object is allocated.
#[derive(Clone, Copy)]
pub(super) enum Owner {
    Buffer(vk::Buffer),
    Image(vk::Image),
}

impl Device {
    /// Returns `true` if memory must be allocated with `VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT`: the feature is enabled,
    /// and the memory may contain buffers. The usages of the buffers are unknown when a block is allocated. On a device
    /// for memory only, memory without an owner may always contain buffers, because the program may bind any resource
    /// to it.
    fn needs_address(&self, class: ResourceClass, owner: Option<Owner>) -> bool {
        let groups = self.capabilities().class_groups;
        let beside_buffers = groups[class as usize] == groups[ResourceClass::Buffer as usize];
        let may_hold_buffers = match owner {
            Some(Owner::Image(_)) => false,
            Some(Owner::Buffer(_)) => true,
            None => beside_buffers || self.0.memory_only,
        };
        may_hold_buffers && self.has(Features::BUFFER_DEVICE_ADDRESS)
    }

    /// Allocates or imports memory, maps it if its type is host-visible, and names it. An imported handle is always
    /// consumed; if the call fails, the handle is closed. Imported memory that the driver cannot map stays unmapped,
    /// because no caller needs host access to imported memory.
    ///
    /// # Safety
    /// The memory type exists. The owner belongs to this device, is not bound to memory, and requires exactly the size
    /// in `desc`.
    pub(super) unsafe fn allocate(
        &self,
        desc: &MemoryDesc<'_>,
        owner: Option<Owner>,
        import: Option<Import>,
    ) -> Result<Memory, DeviceError> {
        self.check_type(desc.memory_type)?;
        self.check_size(desc)?;
        let mut dedicated = match owner {
            Some(Owner::Buffer(buffer)) => vk::MemoryDedicatedAllocateInfo::default().buffer(buffer),
            Some(Owner::Image(image)) => vk::MemoryDedicatedAllocateInfo::default().image(image),
            None => vk::MemoryDedicatedAllocateInfo::default(),
        };
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut info = vk::MemoryAllocateInfo::default().allocation_size(desc.size).memory_type_index(desc.memory_type);
        let is_tied = owner.is_some() && self.0.has_dedicated;
        if is_tied {
            info = info.push_next(&mut dedicated);
        }
        if self.needs_address(desc.class, owner) {
            info = info.push_next(&mut flags);
        }
        let mut priority = vk::MemoryPriorityAllocateInfoEXT::default().priority(desc.priority.as_f32());
        if self.has(Features::MEMORY_PRIORITY) {
            info = info.push_next(&mut priority);
        }
        let mut export = vk::ExportMemoryAllocateInfo::default();
        let mut imported = RawImport::of(import.as_ref());
        match desc.share.filter(|_| import.is_none()) {
            Some(kind) if !self.0.sharing.has(kind) => return Err(NOT_ENABLED),
            Some(kind) => {
                export = export.handle_types(external::handle_type(kind)?);
                info = info.push_next(&mut export);
            }
            None => info = imported.push_to(info),
        }
        self.0.counts.memory_objects.add(1).map_err(|_| DeviceError::TooManyObjects)?;
        // SAFETY: the size is neither zero nor larger than the heap. The caller promises the rest.
        let made = unsafe { self.0.device.allocate_memory(&info, None) }.map_err(failed("vkAllocateMemory"));
        let raw = made.inspect_err(|_| self.0.counts.memory_objects.remove(1))?;
        let is_imported = import.is_some();
        if let Some(import) = import {
            import.used_up();
        }
        // SAFETY: the memory is new, has that type, and contains no resource.
        let base = match unsafe { self.map_whole(raw, desc.memory_type) } {
            Err(DeviceError::MapFailed) if is_imported => None,
            // SAFETY: the memory belongs to this device and was not returned to a caller.
            mapped => mapped.inspect_err(|_| unsafe { self.free(raw) })?,
        };
        if !desc.name.is_empty() {
            // SAFETY: the memory belongs to this device and is alive.
            unsafe { self.name(raw, desc.name) };
        }
        Ok(Memory { raw, size: desc.size, memory_type: desc.memory_type, base, is_tied })
    }

    /// Allocates memory for one of this crate's own objects, from the first of `types` that has enough free memory. All
    /// of `types` must exist. If `types` is empty, the error has the text `none`.
    pub(super) fn allocate_first(
        &self,
        types: impl Iterator<Item = u32>,
        needed: vk::MemoryRequirements,
        class: ResourceClass,
        name: &str,
        none: &'static str,
    ) -> Result<Memory, DeviceError> {
        let mut failure = DeviceError::unsupported(none);
        for memory_type in types {
            let (size, alignment, priority) = (needed.size, needed.alignment, Priority::Normal);
            let desc = MemoryDesc { memory_type, size, alignment, class, priority, name, share: None };
            // SAFETY: the memory type exists.
            match unsafe { self.allocate_memory(&desc) } {
                Ok(memory) => return Ok(memory),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Refuses memory types that need a feature that is not enabled: Vulkan forbids allocating from them.
    fn check_type(&self, memory_type: u32) -> Result<(), DeviceError> {
        let numbers = Numbers::Given(memory_type.into());
        self.0.found.refusals[memory_type as usize]
            .map_or(Ok(()), |reason| Err(DeviceError::unsupported(reason).with(numbers)))
    }

    /// Refuses a size of 0 and sizes that exceed the memory heap.
    fn check_size(&self, desc: &MemoryDesc<'_>) -> Result<(), DeviceError> {
        let capabilities = self.capabilities();
        let heap = capabilities.memory_types[desc.memory_type as usize].heap;
        match desc.size {
            0 => DeviceError::invalid("memory must have at least one byte").at_least(0, 1),
            size if size > capabilities.memory_heaps[heap as usize].bytes => Err(DeviceError::OutOfDeviceMemory),
            _ => Ok(()),
        }
    }

    /// Maps new memory if its type is host-visible.
    ///
    /// # Safety
    /// The memory belongs to this device, has that type, is not mapped, and contains no resource.
    unsafe fn map_whole(&self, raw: vk::DeviceMemory, memory_type: u32) -> Result<Option<Mapped>, DeviceError> {
        if !self.capabilities().properties(memory_type).contains(MemoryProperties::HOST_VISIBLE) {
            return Ok(None);
        }
        // SAFETY: the caller promises that the memory is host-visible and not mapped.
        let mapped = unsafe { self.0.device.map_memory(raw, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
        let pointer = NonNull::new(mapped.map_err(failed("vkMapMemory"))?.cast());
        pointer.map(Mapped::new).map(Some).ok_or(DeviceError::MapFailed)
    }

    /// # Safety
    /// The memory belongs to this device, comes from [`Device::allocate`], and is unused.
    pub(super) unsafe fn free(&self, raw: vk::DeviceMemory) {
        // SAFETY: the caller promises that the memory belongs to this device and is unused. Freeing unmaps it.
        unsafe { self.0.device.free_memory(raw, None) };
        self.0.counts.memory_objects.remove(1);
    }

    /// Returns a dedicated resource with its memory. If `placed` is an error, frees the memory and returns the error.
    ///
    /// # Safety
    /// The memory belongs to this device and contains only this resource.
    pub(super) unsafe fn with_memory<O>(
        &self,
        placed: Result<Placed<O>, DeviceError>,
        memory: Memory,
    ) -> Result<(Placed<O>, Memory), DeviceError> {
        match placed {
            Ok(placed) => Ok((placed, memory)),
            Err(error) => {
                // SAFETY: no resource was bound to the memory.
                unsafe { self.free_memory(memory) };
                Err(error)
            }
        }
    }

    /// Returns the smallest range of whole atoms that contains `offset..offset + size`.
    pub(super) fn mapped_range(&self, memory: &Memory, offset: u64, size: u64) -> vk::MappedMemoryRange<'static> {
        let (offset, size) = whole_atoms(self.capabilities().non_coherent_atom_bytes, memory.size, offset, size);
        vk::MappedMemoryRange::default().memory(memory.raw).offset(offset).size(size)
    }
}

/// Returns the offset and size of the smallest range of whole atoms that contains a range. At the end of the memory,
/// the last atom may be incomplete.
fn whole_atoms(atom_bytes: u64, memory_bytes: u64, offset: u64, size: u64) -> (u64, u64) {
    let start = offset - offset % atom_bytes;
    let end = (offset + size).next_multiple_of(atom_bytes).min(memory_bytes);
    (start, end - start)
}

/// Converts Vulkan's requirements.
pub(super) fn requirements(
    needed: vk::MemoryRequirements,
    dedicated: vk::MemoryDedicatedRequirements<'_>,
    class: ResourceClass,
) -> Requirements {
    Requirements {
        size: needed.size,
        alignment: needed.alignment,
        memory_type_bits: needed.memory_type_bits,
        class,
        prefers_dedicated: dedicated.prefers_dedicated_allocation == vk::TRUE,
        requires_dedicated: dedicated.requires_dedicated_allocation == vk::TRUE,
    }
}

#[cfg(test)]
mod tests {
    use super::whole_atoms;

    #[test]
    fn ranges_grow_to_whole_atoms_but_not_past_the_memory() {
        assert_eq!(whole_atoms(64, 1000, 0, 64), (0, 64));
        assert_eq!(whole_atoms(64, 1000, 70, 10), (64, 64));
        assert_eq!(whole_atoms(64, 1000, 60, 10), (0, 128));
        assert_eq!(whole_atoms(64, 1000, 990, 10), (960, 40));
        assert_eq!(whole_atoms(1, 1000, 7, 3), (7, 3));
    }
}
