//! The wrapped device, and the properties and flags of its heaps.

use std::sync::{Arc, OnceLock};

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::{IDXGIAdapter, IDXGIAdapter3};
use windows::core::{HSTRING, Interface};

use super::capabilities::{self, Features};
use super::{error, event};
use ringfence_hal::{Capabilities, DeviceError, Format, FormatSupport, MemoryPriority, Numbers, ResourceClass};

/// A Direct3D 12 device. Clones refer to the same device.
#[derive(Clone)]
pub struct Device(pub(super) Arc<Inner>);

/// State that the clones of a [`Device`] share.
pub(super) struct Inner {
    pub(super) raw: ID3D12Device,
    /// Interface of the same device for residency priorities, or `None` if the runtime does not support them.
    pub(super) raw1: Option<ID3D12Device1>,
    pub(super) adapter: Option<IDXGIAdapter3>,
    pub(super) features: Features,
    pub(super) capabilities: Capabilities,
    /// Heap type of each memory type, in the order of `capabilities.memory_types`.
    pub(super) heap_types: Vec<D3D12_HEAP_TYPE>,
    /// `true` if custom heaps are used instead of UPLOAD and READBACK heaps.
    pub(super) custom_heaps: bool,
    pub(super) events: event::Pool,
    /// The uses of each portable format, once they are queried.
    pub(super) formats: Box<[OnceLock<FormatSupport>]>,
}

impl Device {
    /// Wraps a device that the program created. The name, memory sizes and budgets are read from `adapter`, which must
    /// be the device's adapter. If `adapter` is `None`, the adapter is looked up by the device's LUID. If no adapter is
    /// found, the memory sizes are unknown and budgets are not available.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if the device is already removed, or the error of a failed query.
    pub fn new(device: &ID3D12Device, adapter: Option<&IDXGIAdapter>) -> Result<Self, DeviceError> {
        Self::wrap(device, adapter, false)
    }

    /// Wraps a device like [`Device::new`], but uses custom heaps instead of UPLOAD and READBACK heaps. Custom heaps
    /// use the same memory (`GetCustomHeapProperties`), but their buffers may change their state, and start in the
    /// common state like buffers in DEFAULT heaps.
    ///
    /// # Errors
    /// The errors of [`Device::new`].
    pub fn with_custom_heaps(device: &ID3D12Device, adapter: Option<&IDXGIAdapter>) -> Result<Self, DeviceError> {
        Self::wrap(device, adapter, true)
    }

    fn wrap(device: &ID3D12Device, adapter: Option<&IDXGIAdapter>, custom_heaps: bool) -> Result<Self, DeviceError> {
        // SAFETY: a call without arguments on a live object.
        unsafe { device.GetDeviceRemovedReason() }
            .map_err(error::failed(error::call!("ID3D12Device::GetDeviceRemovedReason", "a removed device")))?;
        let adapter = adapter.cloned().or_else(|| capabilities::find_adapter(device));
        let features = Features::query(device)?;
        let (mut capabilities, heap_types) = capabilities::query(device, adapter.as_ref(), features);
        let raw1 = device.cast().ok();
        if raw1.is_some() {
            capabilities.memory_priority = MemoryPriority::AtAnyTime;
        }
        let adapter = adapter.and_then(|adapter| adapter.cast().ok());
        let events = event::Pool::default();
        let (raw, formats) = (device.clone(), Format::ALL.iter().map(|_| OnceLock::new()).collect());
        Ok(Self(Arc::new(Inner {
            raw,
            raw1,
            adapter,
            features,
            capabilities,
            heap_types,
            custom_heaps,
            events,
            formats,
        })))
    }

    /// Returns the driver's device.
    #[must_use]
    pub fn raw(&self) -> &ID3D12Device {
        &self.0.raw
    }

    /// Returns the adapter. Returns `None` if no adapter was found, or if the adapter cannot report budgets.
    #[must_use]
    pub fn adapter(&self) -> Option<&IDXGIAdapter3> {
        self.0.adapter.as_ref()
    }

    /// Returns the optional features of the device.
    #[must_use]
    pub fn features(&self) -> Features {
        self.0.features
    }

    /// Returns the heap type of a memory type. Returns `None` if `memory_type` is out of range.
    #[must_use]
    pub fn heap_type(&self, memory_type: u32) -> Option<D3D12_HEAP_TYPE> {
        self.0.heap_types.get(memory_type as usize).copied()
    }

    /// Returns the memory type of a heap type. Returns `None` if the device lacks it. Every device has DEFAULT, UPLOAD
    /// and READBACK.
    #[must_use]
    pub fn memory_type(&self, heap_type: D3D12_HEAP_TYPE) -> Option<u32> {
        self.0.heap_types.iter().position(|held| *held == heap_type).map(|index| index as u32)
    }

    pub(super) fn heap_properties(&self, memory_type: u32) -> Result<D3D12_HEAP_PROPERTIES, DeviceError> {
        let heap_type = self
            .heap_type(memory_type)
            .ok_or(DeviceError::invalid("no such memory type").with(Numbers::Given(memory_type.into())))?;
        let is_mapped = [D3D12_HEAP_TYPE_UPLOAD, D3D12_HEAP_TYPE_READBACK].contains(&heap_type);
        let of = |heap_type, page, pool| D3D12_HEAP_PROPERTIES {
            Type: heap_type,
            CPUPageProperty: page,
            MemoryPoolPreference: pool,
            CreationNodeMask: 1,
            VisibleNodeMask: 1,
        };
        if self.0.custom_heaps && is_mapped {
            // SAFETY: the object is alive, and the heap type is one that it supports.
            let custom = unsafe { self.raw().GetCustomHeapProperties(0, heap_type) };
            return Ok(of(custom.Type, custom.CPUPageProperty, custom.MemoryPoolPreference));
        }
        Ok(of(heap_type, D3D12_CPU_PAGE_PROPERTY_UNKNOWN, D3D12_MEMORY_POOL_UNKNOWN))
    }

    /// Returns the flags that all heaps have: not zeroed, if the runtime supports that flag. See
    /// [`ResourceInfo::zeroed`](super::ResourceInfo::zeroed).
    pub(super) fn base_heap_flags(&self) -> D3D12_HEAP_FLAGS {
        if self.0.features.not_zeroed { D3D12_HEAP_FLAG_CREATE_NOT_ZEROED } else { D3D12_HEAP_FLAG_NONE }
    }

    /// Returns the flags of a heap for resources of `class`. At heap tier 1, a heap may contain only one class of
    /// resources, which its flags must name.
    pub(super) fn heap_flags(&self, class: ResourceClass) -> D3D12_HEAP_FLAGS {
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

/// Names an object for debuggers. Failures are ignored, because names have no effect on behaviour.
pub(super) fn name_object(object: &ID3D12Object, name: &str) {
    if !name.is_empty() {
        // SAFETY: the object is alive; the string is zero-terminated and lives through the call.
        let _ = unsafe { object.SetName(&HSTRING::from(name)) };
    }
}
