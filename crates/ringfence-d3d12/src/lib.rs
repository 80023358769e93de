//! The Direct3D 12 device, through the `windows` crate: mechanism only, as `ringfence-hal` asks for it.
//!
//! ```text
//!   contract            Direct3D 12
//!   ─────────────────   ──────────────────────────────────────────────────────────────────────
//!   memory type         heap type: DEFAULT, UPLOAD, READBACK, GPU_UPLOAD where the device has it
//!   memory heap         DXGI segment group: local, non-local; one of both on a unified memory
//!   Memory              ID3D12Heap; nothing for a committed resource, which brings its own
//!   prepare             GetResourceAllocationInfo
//!   place, dedicate     CreatePlacedResource, CreateCommittedResource
//!   mapped              the resource's Map: buffers in host-visible types, for their whole life
//!   Fence               ID3D12Fence
//! ```
//!
//! What newer runtimes add is asked for once, in `Features`, and used where it is there; nothing beyond
//! `ID3D12Device` and feature level 11.0 is needed.
//!
//! The `windows` crate is taken in a range of versions, so that it is the engine's own; the objects of this module are
//! that crate's.
//!
//! Off Windows this crate is empty.

#![cfg(windows)]

mod capabilities;
mod describe;
mod descriptor;
mod error;
mod event;
mod measure;
mod record;
mod resource;
mod sharing;
mod sparse;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::{IDXGIAdapter, IDXGIAdapter3};
use windows::core::{HSTRING, Interface};

use ringfence_hal::{
    Capabilities, DeviceError, Driver, HeapBudgets, Mapped, MemoryDesc, MemoryPriority, Priority, ResourceClass,
};

pub use self::capabilities::Features;
pub use self::describe::texel_format;
pub use self::descriptor::{DescriptorHeap, View, cpu_handle, gpu_handle};
pub use self::record::CopyRecorder;
pub use self::resource::{ResourceInfo, Shape};
pub use self::sharing::ShareHandle;

/// A Direct3D 12 device. A copy is the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

/// What the copies of a device share.
struct Inner {
    raw: ID3D12Device,
    /// The same, where the runtime knows of residency priorities.
    raw1: Option<ID3D12Device1>,
    adapter: Option<IDXGIAdapter3>,
    features: Features,
    capabilities: Capabilities,
    /// The heap type of each memory type: as long as `capabilities.memory_types`.
    heap_types: Vec<D3D12_HEAP_TYPE>,
    /// Whether heaps that the host can map are the custom ones that UPLOAD and READBACK stand for.
    custom_heaps: bool,
    events: event::Pool,
}

impl Device {
    /// Wraps a device that the program has made. `adapter` is the one it was made on, for its name, its sizes and its
    /// budgets; without it, it is looked up by the device's LUID, and if that fails there are no budgets.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if the device is removed already, or what the driver says to the first questions.
    pub fn new(device: &ID3D12Device, adapter: Option<&IDXGIAdapter>) -> Result<Self, DeviceError> {
        Self::wrap(device, adapter, false)
    }

    /// As [`Device::new`], with custom heaps in place of UPLOAD and READBACK: of the same memory
    /// (`GetCustomHeapProperties`), but what is placed in them may change its state. What the library places there begins in
    /// the state that UPLOAD and READBACK prescribe; programs that place their resources themselves choose one.
    ///
    /// # Errors
    /// As [`Device::new`].
    pub fn with_custom_heaps(device: &ID3D12Device, adapter: Option<&IDXGIAdapter>) -> Result<Self, DeviceError> {
        Self::wrap(device, adapter, true)
    }

    fn wrap(device: &ID3D12Device, adapter: Option<&IDXGIAdapter>, custom_heaps: bool) -> Result<Self, DeviceError> {
        // SAFETY: a call without arguments on a live object.
        unsafe { device.GetDeviceRemovedReason() }.map_err(|error| {
            error::from_driver(&error, error::call!("ID3D12Device::GetDeviceRemovedReason", "a removed device"))
        })?;
        let adapter = adapter.cloned().or_else(|| capabilities::find_adapter(device));
        let features = Features::query(device)?;
        let (mut capabilities, heap_types) = capabilities::query(adapter.as_ref(), features);
        let raw1 = device.cast().ok();
        if raw1.is_some() {
            capabilities.memory_priority = MemoryPriority::AtAnyTime;
        }
        let adapter = adapter.and_then(|adapter| adapter.cast().ok());
        let events = event::Pool::default();
        let raw = device.clone();
        Ok(Self(Arc::new(Inner { raw, raw1, adapter, features, capabilities, heap_types, custom_heaps, events })))
    }

    /// The driver's device.
    #[must_use]
    pub fn raw(&self) -> &ID3D12Device {
        &self.0.raw
    }

    /// The adapter, if it tells budgets.
    #[must_use]
    pub fn adapter(&self) -> Option<&IDXGIAdapter3> {
        self.0.adapter.as_ref()
    }

    /// What the device has of the things that not every device has.
    #[must_use]
    pub fn features(&self) -> Features {
        self.0.features
    }

    /// The heap type that a memory type stands for, if there is such a memory type.
    #[must_use]
    pub fn heap_type(&self, memory_type: u32) -> Option<D3D12_HEAP_TYPE> {
        self.0.heap_types.get(memory_type as usize).copied()
    }

    /// The memory type that stands for a heap type, if the device has it; every device has DEFAULT, UPLOAD and
    /// READBACK.
    #[must_use]
    pub fn memory_type(&self, heap_type: D3D12_HEAP_TYPE) -> Option<u32> {
        self.0.heap_types.iter().position(|held| *held == heap_type).map(|index| index as u32)
    }

    fn heap_properties(&self, memory_type: u32) -> Result<D3D12_HEAP_PROPERTIES, DeviceError> {
        let heap_type = self.heap_type(memory_type).ok_or(DeviceError::InvalidInfo("no such memory type"))?;
        let is_mapped = [D3D12_HEAP_TYPE_UPLOAD, D3D12_HEAP_TYPE_READBACK].contains(&heap_type);
        let of = |heap_type, page, pool| D3D12_HEAP_PROPERTIES {
            Type: heap_type,
            CPUPageProperty: page,
            MemoryPoolPreference: pool,
            CreationNodeMask: 1,
            VisibleNodeMask: 1,
        };
        if self.0.custom_heaps && is_mapped {
            // SAFETY: a call on a live object, with a heap type that it knows.
            let custom = unsafe { self.raw().GetCustomHeapProperties(0, heap_type) };
            return Ok(of(custom.Type, custom.CPUPageProperty, custom.MemoryPoolPreference));
        }
        Ok(of(heap_type, D3D12_CPU_PAGE_PROPERTY_UNKNOWN, D3D12_MEMORY_POOL_UNKNOWN))
    }

    /// Leave the memory as it is where the device can: whoever needs zeros writes them, and nobody pays for them twice.
    fn base_heap_flags(&self) -> D3D12_HEAP_FLAGS {
        if self.0.features.not_zeroed { D3D12_HEAP_FLAG_CREATE_NOT_ZEROED } else { D3D12_HEAP_FLAG_NONE }
    }

    /// At heap tier 1 a heap takes resources of one class only, and has to say which.
    fn heap_flags(&self, class: ResourceClass) -> D3D12_HEAP_FLAGS {
        if self.0.features.mixed_heaps {
            return self.base_heap_flags();
        }
        let only = match class {
            ResourceClass::Buffer => D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS,
            ResourceClass::Texture => D3D12_HEAP_FLAG_ALLOW_ONLY_NON_RT_DS_TEXTURES,
            ResourceClass::RenderTarget => D3D12_HEAP_FLAG_ALLOW_ONLY_RT_DS_TEXTURES,
        };
        only | self.base_heap_flags()
    }
}

impl Device {
    /// New memory is of normal priority: nothing has to be said then.
    fn tell_priority(&self, memory: &Memory, priority: Priority) {
        if priority != Priority::Normal {
            self.set_residency_priority(memory, priority);
        }
    }

    /// A priority is help, so a failure to set it is none.
    fn set_residency_priority(&self, memory: &Memory, priority: Priority) {
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

/// A memory object: a heap, or the memory that a committed resource brings with it.
#[derive(Debug)]
pub struct Memory {
    heap: Option<ID3D12Heap>,
    /// The heap, or the committed resource.
    pageable: Option<ID3D12Pageable>,
    memory_type: u32,
    size: u64,
    /// A buffer over all of the heap, and where the host sees it: made when debugging asks for it.
    window: OnceLock<Option<(ID3D12Resource, Mapped)>>,
}

impl Memory {
    fn new(heap: Option<ID3D12Heap>, pageable: ID3D12Pageable, desc: &MemoryDesc<'_>) -> Self {
        let (memory_type, size) = (desc.memory_type, desc.size);
        Self { heap, pageable: Some(pageable), memory_type, size, window: OnceLock::new() }
    }

    /// The driver's heap; `None` if the memory is that of a committed resource.
    #[must_use]
    pub fn heap(&self) -> Option<&ID3D12Heap> {
        self.heap.as_ref()
    }

    /// Index into [`Capabilities::memory_types`].
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.memory_type
    }

    /// Bytes that were asked for.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// The description of the heap for `desc`: its alignment is one of the two that heaps have, and its size a multiple.
fn heap_desc(device: &Device, desc: &MemoryDesc<'_>) -> Result<D3D12_HEAP_DESC, DeviceError> {
    let default = u64::from(D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT);
    let msaa = u64::from(D3D12_DEFAULT_MSAA_RESOURCE_PLACEMENT_ALIGNMENT);
    let alignment = if desc.alignment > default { msaa } else { default };
    if let Some(kind) = desc.share {
        sharing::check(kind)?;
        if device.heap_type(desc.memory_type) != Some(D3D12_HEAP_TYPE_DEFAULT) {
            return Err(DeviceError::Unsupported("sharing a heap that the host sees"));
        }
    }
    if desc.size == 0 || desc.alignment > msaa {
        return Err(DeviceError::InvalidInfo("a heap without bytes, or aligned to more than 4 MiB"));
    }
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

/// Names an object for debuggers; a name is help, so a failure to set it is none.
fn name_object(object: &ID3D12Object, name: &str) {
    if !name.is_empty() {
        // SAFETY: the object is alive, and the string ends with a zero and lives through the call.
        let _ = unsafe { object.SetName(&HSTRING::from(name)) };
    }
}

// SAFETY: buffers in host-visible heaps are mapped when they are made and stay mapped until the driver destroys them,
// since nothing here unmaps; every object handed out is one that the driver returned with success.
unsafe impl Driver for Device {
    type Memory = Memory;
    type Fence = ID3D12Fence;
    type Pageable = ID3D12Pageable;

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        let heap_desc = heap_desc(self, desc)?;
        let mut heap: Option<ID3D12Heap> = None;
        // SAFETY: both pointers are to locals that live through the call.
        let made = unsafe { self.raw().CreateHeap(&heap_desc, &mut heap) };
        let heap = error::made(made, heap, error::call!("ID3D12Device::CreateHeap", "the description of a heap"))?;
        name_object(&heap, desc.name);
        let pageable = <&ID3D12Pageable>::from(&heap).clone();
        let memory = Memory::new(Some(heap), pageable, desc);
        self.tell_priority(&memory, desc.priority);
        Ok(memory)
    }

    fn pageable(&self, memory: &Memory) -> Option<ID3D12Pageable> {
        memory.pageable.clone()
    }

    unsafe fn make_resident(&self, memory: &[ID3D12Pageable]) -> Result<(), DeviceError> {
        let objects: Vec<_> = memory.iter().cloned().map(Some).collect();
        // SAFETY: the objects are alive; the caller promises that they are this device's.
        let made = unsafe { self.raw().MakeResident(&objects) };
        made.map_err(|error| {
            error::from_driver(&error, error::call!("ID3D12Device::MakeResident", "making memory resident"))
        })
    }

    unsafe fn evict(&self, memory: &[ID3D12Pageable]) -> Result<(), DeviceError> {
        let objects: Vec<_> = memory.iter().cloned().map(Some).collect();
        // SAFETY: the objects are alive; the caller promises that they are this device's and that no work uses them.
        let evicted = unsafe { self.raw().Evict(&objects) };
        evicted.map_err(|error| error::from_driver(&error, error::call!("ID3D12Device::Evict", "evicting memory")))
    }

    unsafe fn set_priority(&self, memory: &Memory, priority: Priority) {
        self.set_residency_priority(memory, priority);
    }

    unsafe fn free_memory(&self, memory: Memory) {
        drop(memory); // the heap's last reference, unless the program holds one of its own
    }

    unsafe fn flush(&self, _memory: &Memory, _offset: u64, _size: u64) -> Result<(), DeviceError> {
        Ok(()) // every heap type that can be mapped is coherent
    }

    unsafe fn read_back(
        &self,
        _memory: &Memory,
        _offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller promises that `mapped` is where the range is mapped and that it is as long as `into`,
        // which, as an exclusive slice of the program's, is not part of it.
        unsafe { std::ptr::copy_nonoverlapping(mapped.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    unsafe fn completed(&self, fence: &ID3D12Fence) -> Result<u64, DeviceError> {
        event::completed(fence)
    }

    unsafe fn wait(&self, fence: &ID3D12Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        self.0.events.wait(fence, value, timeout)
    }

    fn map_whole(&self, memory: &Memory) -> Option<Mapped> {
        memory.window.get_or_init(|| self.make_window(memory)).as_ref().map(|(_, mapped)| *mapped)
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        capabilities::budgets(self.adapter()?, self.0.capabilities.memory_heaps.len())
    }
}
