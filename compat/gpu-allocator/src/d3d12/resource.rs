//! Resources that the allocator makes: placed in its memory, or committed.
//!
//! ```text
//!   begins in          castable formats    ID3D12Device     made with
//!   a state            none                any              CreatePlacedResource, CreateCommittedResource
//!   a state            some                                 refused
//!   a barrier layout   none                10 or 12         CreatePlacedResource2, CreateCommittedResource3
//!   a barrier layout   some                12               the same
//! ```

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::Win32::Graphics::Dxgi::DXGI_ERROR_DEVICE_REMOVED;

use super::{Allocation, AllocationCreateDesc, Allocator, ID3D12DeviceVersion, ResourceCategory};
use crate::{AllocationError, MemoryLocation, Result};

/// What a resource begins in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceStateOrBarrierLayout {
    /// A state, for legacy barriers.
    ResourceState(D3D12_RESOURCE_STATES),
    /// A layout, for enhanced barriers.
    BarrierLayout(D3D12_BARRIER_LAYOUT),
}

/// Whether a resource shares memory.
pub enum ResourceType<'a> {
    /// It has memory of its own, as the driver makes it.
    Committed {
        /// Properties of that memory.
        heap_properties: &'a D3D12_HEAP_PROPERTIES,
        /// Flags of that memory.
        heap_flags: D3D12_HEAP_FLAGS,
    },
    /// It lies in the allocator's memory.
    Placed,
}

/// A resource to be made.
#[derive(Clone, Copy)]
pub struct ResourceCreateDesc<'a> {
    /// What it is called in reports.
    pub name: &'a str,
    /// Where it should be.
    pub memory_location: MemoryLocation,
    /// What it is.
    pub resource_category: ResourceCategory,
    /// Its description.
    pub resource_desc: &'a D3D12_RESOURCE_DESC,
    /// Formats that it may be seen as; needs a barrier layout and `ID3D12Device12`.
    pub castable_formats: &'a [DXGI_FORMAT],
    /// The colour or depth that clearing is made fast for.
    pub clear_value: Option<&'a D3D12_CLEAR_VALUE>,
    /// What it begins in.
    pub initial_state_or_layout: ResourceStateOrBarrierLayout,
    /// Whether it shares memory.
    pub resource_type: &'a ResourceType<'a>,
}

/// A resource that [`Allocator::create_resource`] made. It goes back by [`Allocator::free_resource`].
#[derive(Debug)]
pub struct Resource {
    name: String,
    /// Its memory; `None` if it is committed.
    pub allocation: Option<Allocation>,
    resource: Option<ID3D12Resource>,
    /// Where it was asked to be.
    pub memory_location: MemoryLocation,
    /// Its bytes.
    pub size: u64,
    is_committed: bool,
}

impl Resource {
    /// Direct3D's resource.
    #[must_use]
    pub fn resource(&self) -> &ID3D12Resource {
        self.resource.as_ref().expect("it is taken out only by what takes the whole value")
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        if self.resource.is_some() {
            log::warn!("the resource {:?} was dropped without `Allocator::free_resource`", self.name);
        }
    }
}

/// How many committed resources are alive.
#[derive(Debug)]
pub struct CommittedAllocationStatistics {
    /// How many.
    pub num_allocations: usize,
    /// Their bytes.
    pub total_size: u64,
}

impl Allocator {
    /// Makes a resource.
    ///
    /// # Errors
    /// What [`Allocator::allocate`] says, what the driver says, or the device is too old for what it is to begin in.
    /// Nothing has changed then, and no memory is held.
    pub fn create_resource(&mut self, desc: &ResourceCreateDesc<'_>) -> Result<Resource> {
        let device = self.device.clone();
        let start = Start::of(&device, desc)?;
        let info = start.measure(&device, desc)?;
        let (allocation, resource) = match desc.resource_type {
            ResourceType::Committed { heap_properties, heap_flags } => {
                let made = start.commit(desc, heap_properties, *heap_flags);
                (None, self.made(made, "committed resource")?)
            }
            ResourceType::Placed => {
                let allocation = self.allocate(&AllocationCreateDesc {
                    name: desc.name,
                    location: desc.memory_location,
                    size: info.SizeInBytes,
                    alignment: info.Alignment,
                    resource_category: desc.resource_category,
                })?;
                let made = start.place(desc, &allocation);
                match self.made(made, "placed resource") {
                    Ok(resource) => (Some(allocation), resource),
                    Err(error) => {
                        self.free(allocation)?;
                        return Err(error);
                    }
                }
            }
        };
        let (size, is_committed) = (info.SizeInBytes, allocation.is_none());
        if is_committed {
            self.committed.num_allocations += 1;
            self.committed.total_size += size;
        }
        let (name, memory_location) = (desc.name.to_owned(), desc.memory_location);
        Ok(Resource { name, allocation, resource: Some(resource), memory_location, size, is_committed })
    }

    fn made(&self, made: windows::core::Result<Option<ID3D12Resource>>, what: &str) -> Result<ID3D12Resource> {
        match made {
            Ok(Some(resource)) => Ok(resource),
            Ok(None) => Err(AllocationError::Internal(format!("no {what}, and no error of the driver's"))),
            Err(error) if error.code() == DXGI_ERROR_DEVICE_REMOVED => {
                // SAFETY: a call without arguments on a live object.
                let reason = unsafe { self.device.GetDeviceRemovedReason() };
                Err(AllocationError::Internal(format!("no {what}: the device is removed ({reason:?})")))
            }
            Err(error) => Err(AllocationError::Internal(format!("no {what}: {error}"))),
        }
    }

    /// Releases a resource and gives its memory back.
    ///
    /// # Errors
    /// Its memory is of another allocator.
    pub fn free_resource(&mut self, mut resource: Resource) -> Result<()> {
        drop(resource.resource.take());
        if resource.is_committed {
            self.committed.num_allocations = self.committed.num_allocations.saturating_sub(1);
            self.committed.total_size = self.committed.total_size.saturating_sub(resource.size);
        }
        resource.allocation.take().map_or(Ok(()), |allocation| self.free(allocation))
    }
}

/// How a resource is to be made: what the table of the module says.
enum Start<'a> {
    State(&'a ID3D12Device, D3D12_RESOURCE_STATES),
    Layout(&'a ID3D12Device10, D3D12_BARRIER_LAYOUT, Option<&'a [DXGI_FORMAT]>),
}

impl<'a> Start<'a> {
    fn of(device: &'a ID3D12DeviceVersion, desc: &ResourceCreateDesc<'a>) -> Result<Self> {
        use ResourceStateOrBarrierLayout::{BarrierLayout, ResourceState};
        let formats = desc.castable_formats;
        match (device, desc.initial_state_or_layout) {
            (_, ResourceState(_)) if !formats.is_empty() => {
                Err(AllocationError::CastableFormatsRequiresEnhancedBarriers)
            }
            (device, ResourceState(state)) => Ok(Self::State(device, state)),
            (ID3D12DeviceVersion::Device12(device), BarrierLayout(layout)) => {
                Ok(Self::Layout(device, layout, Some(formats)))
            }
            (_, BarrierLayout(_)) if !formats.is_empty() => {
                Err(AllocationError::CastableFormatsRequiresAtLeastDevice12)
            }
            (ID3D12DeviceVersion::Device10(device), BarrierLayout(layout)) => Ok(Self::Layout(device, layout, None)),
            (ID3D12DeviceVersion::Device(_), BarrierLayout(_)) => Err(AllocationError::BarrierLayoutNeedsDevice10),
        }
    }

    /// Bytes and alignment.
    fn measure(
        &self,
        device: &ID3D12DeviceVersion,
        desc: &ResourceCreateDesc<'_>,
    ) -> Result<D3D12_RESOURCE_ALLOCATION_INFO> {
        let info = match device {
            ID3D12DeviceVersion::Device12(device) if !desc.castable_formats.is_empty() => {
                let count = desc.castable_formats.len() as u32;
                let formats = desc.castable_formats.as_ptr();
                let resource = desc1(desc.resource_desc);
                // SAFETY: one description, one count and one list of this many formats, which live through the call.
                unsafe { device.GetResourceAllocationInfo3(0, 1, &resource, Some(&count), Some(&formats), None) }
            }
            // SAFETY: the slice is of one description that lives through the call.
            device => unsafe { device.GetResourceAllocationInfo(0, std::slice::from_ref(desc.resource_desc)) },
        };
        let is_measured = info.SizeInBytes != 0 && info.SizeInBytes != u64::MAX;
        is_measured.then_some(info).ok_or(AllocationError::InvalidAllocationCreateDesc)
    }

    fn place(
        &self,
        desc: &ResourceCreateDesc<'_>,
        allocation: &Allocation,
    ) -> windows::core::Result<Option<ID3D12Resource>> {
        let (clear, mut resource) = (placed_clear_value(desc), None);
        let (heap, offset) = (&allocation.heap, allocation.offset);
        // SAFETY: the range is the allocation's alone, of the size and alignment that the driver named; the pointers
        // are to values that live through the call.
        unsafe {
            match self {
                Self::State(device, state) => {
                    device.CreatePlacedResource(heap, offset, desc.resource_desc, *state, clear, &mut resource)
                }
                Self::Layout(device, layout, formats) => {
                    let of = desc1(desc.resource_desc);
                    device.CreatePlacedResource2(heap, offset, &of, *layout, clear, *formats, &mut resource)
                }
            }
        }
        .map(|()| resource)
    }

    fn commit(
        &self,
        desc: &ResourceCreateDesc<'_>,
        heap: &D3D12_HEAP_PROPERTIES,
        flags: D3D12_HEAP_FLAGS,
    ) -> windows::core::Result<Option<ID3D12Resource>> {
        let (clear, mut resource) = (clear_value(desc), None);
        // SAFETY: the pointers are to values that live through the call.
        unsafe {
            match self {
                Self::State(device, state) => {
                    device.CreateCommittedResource(heap, flags, desc.resource_desc, *state, clear, &mut resource)
                }
                Self::Layout(device, layout, formats) => {
                    let of = desc1(desc.resource_desc);
                    device.CreateCommittedResource3(heap, flags, &of, *layout, clear, None, *formats, &mut resource)
                }
            }
        }
        .map(|()| resource)
    }
}

/// Direct3D refuses one for what is never a target. A committed resource gets what the program passed, as in
/// gpu-allocator, which passes none for placed ones.
fn placed_clear_value(desc: &ResourceCreateDesc<'_>) -> Option<*const D3D12_CLEAR_VALUE> {
    let target = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL;
    clear_value(desc).filter(|_| desc.resource_desc.Flags & target != D3D12_RESOURCE_FLAG_NONE)
}

fn clear_value(desc: &ResourceCreateDesc<'_>) -> Option<*const D3D12_CLEAR_VALUE> {
    desc.clear_value.map(std::ptr::from_ref)
}

/// The newer form of a description, which has one field more.
fn desc1(desc: &D3D12_RESOURCE_DESC) -> D3D12_RESOURCE_DESC1 {
    let D3D12_RESOURCE_DESC { Dimension, Alignment, Width, Height, DepthOrArraySize, MipLevels, .. } = *desc;
    let D3D12_RESOURCE_DESC { Format, SampleDesc, Layout, Flags, .. } = *desc;
    D3D12_RESOURCE_DESC1 {
        Dimension,
        Alignment,
        Width,
        Height,
        DepthOrArraySize,
        MipLevels,
        Format,
        SampleDesc,
        Layout,
        Flags,
        SamplerFeedbackMipRegion: D3D12_MIP_REGION::default(),
    }
}
