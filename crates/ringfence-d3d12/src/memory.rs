//! Memory objects: heaps, and the memory of committed resources.

use std::sync::OnceLock;

use windows::Win32::Graphics::Direct3D12::*;

use super::device::{Device, name_object};
use super::error;
use ringfence_hal::sharing::{ShareKind, ShareSupport};
use ringfence_hal::{DeviceError, Mapped, MemoryDesc, Priority};

/// A memory object: a heap, or the memory of a committed resource.
#[derive(Debug)]
pub struct Memory {
    pub(super) heap: Option<ID3D12Heap>,
    /// The heap, or the committed resource.
    pub(super) pageable: Option<ID3D12Pageable>,
    pub(super) memory_type: u32,
    pub(super) size: u64,
    /// A mapped buffer that covers the heap. It is created when debugging first needs it. `None` if the creation
    /// failed.
    pub(super) window: OnceLock<Option<(ID3D12Resource, Mapped)>>,
}

impl Memory {
    pub(super) fn new(heap: Option<ID3D12Heap>, pageable: ID3D12Pageable, desc: &MemoryDesc<'_>) -> Self {
        let (memory_type, size) = (desc.memory_type, desc.size);
        Self { heap, pageable: Some(pageable), memory_type, size, window: OnceLock::new() }
    }

    /// Returns the driver's heap. Returns `None` if the memory belongs to a committed resource.
    #[must_use]
    pub fn heap(&self) -> Option<&ID3D12Heap> {
        self.heap.as_ref()
    }

    /// Returns the index into [`Capabilities::memory_types`](ringfence_hal::Capabilities::memory_types).
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.memory_type
    }

    /// Returns the requested size, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// Returns the heap description for `desc`. The alignment is one of the two that the API allows, and the size is a
/// multiple of the alignment.
fn heap_desc(device: &Device, desc: &MemoryDesc<'_>) -> Result<D3D12_HEAP_DESC, DeviceError> {
    let default = u64::from(D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT);
    let msaa = u64::from(D3D12_DEFAULT_MSAA_RESOURCE_PLACEMENT_ALIGNMENT);
    let alignment = if desc.alignment > default { msaa } else { default };
    if let Some(kind) = desc.share {
        check_share(kind)?;
        if device.heap_type(desc.memory_type) != Some(D3D12_HEAP_TYPE_DEFAULT) {
            return Err(DeviceError::unsupported("sharing a host-visible heap"));
        }
    }
    DeviceError::invalid("a heap must have at least one byte").at_least(desc.size, 1)?;
    let fits = |size: &u64| *size <= device.0.capabilities.memory_object_bytes_max;
    let size = desc.size.checked_next_multiple_of(alignment).filter(fits).ok_or(DeviceError::OutOfDeviceMemory)?;
    Ok(D3D12_HEAP_DESC {
        SizeInBytes: size,
        Properties: device.heap_properties(desc.memory_type)?,
        Alignment: alignment,
        Flags: device.heap_flags(desc.class)
            | if desc.share.is_some() { D3D12_HEAP_FLAG_SHARED } else { D3D12_HEAP_FLAG_NONE },
    })
}

impl Device {
    /// Creates a heap, names it and sets its priority.
    pub(super) fn create_heap(&self, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        let heap_desc = heap_desc(self, desc)?;
        let mut heap: Option<ID3D12Heap> = None;
        // SAFETY: both pointers point to locals that live through the call.
        let made = unsafe { self.raw().CreateHeap(&heap_desc, &mut heap) };
        let heap = error::made(made, heap, error::call!("ID3D12Device::CreateHeap", "the description of a heap"))?;
        name_object(&heap, desc.name);
        let pageable = <&ID3D12Pageable>::from(&heap).clone();
        let memory = Memory::new(Some(heap), pageable, desc);
        self.apply_priority(&memory, desc.priority);
        Ok(memory)
    }

    /// Sets the priority of new memory. Makes no call for the normal priority, which new memory has.
    pub(super) fn apply_priority(&self, memory: &Memory, priority: Priority) {
        if priority != Priority::Normal {
            self.set_residency_priority(memory, priority);
        }
    }

    /// Sets the priority. Failures are ignored, because a priority is only a hint.
    pub(super) fn set_residency_priority(&self, memory: &Memory, priority: Priority) {
        let native = match priority {
            Priority::Lowest => D3D12_RESIDENCY_PRIORITY_MINIMUM,
            Priority::Low => D3D12_RESIDENCY_PRIORITY_LOW,
            Priority::Normal => D3D12_RESIDENCY_PRIORITY_NORMAL,
            Priority::High => D3D12_RESIDENCY_PRIORITY_HIGH,
            Priority::Highest => D3D12_RESIDENCY_PRIORITY_MAXIMUM,
        };
        if let (Some(device), Some(_)) = (&self.0.raw1, &memory.pageable) {
            // SAFETY: both arrays have one element and live through the call; the object is alive.
            let _ = unsafe { device.SetResidencyPriority(1, &memory.pageable, &native) };
        }
    }
}

pub(super) fn share_support(kind: ShareKind) -> ShareSupport {
    let known = kind == ShareKind::D3d12Heap;
    ShareSupport { can_export: known, can_import: known, needs_dedicated: false }
}

pub(super) fn check_share(kind: ShareKind) -> Result<(), DeviceError> {
    let known = kind == ShareKind::D3d12Heap;
    if known { Ok(()) } else { Err(DeviceError::unsupported("handles of this kind on Direct3D 12")) }
}
