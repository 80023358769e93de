//! Resources that the allocator creates: placed in its memory, or committed.
//!
//! ```text
//!   initial            castable formats    ID3D12Device     created with
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

/// Initial state or barrier layout of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceStateOrBarrierLayout {
    /// A state, for legacy barriers.
    ResourceState(D3D12_RESOURCE_STATES),
    /// A layout, for enhanced barriers.
    BarrierLayout(D3D12_BARRIER_LAYOUT),
}

/// Kind of a resource's memory.
pub enum ResourceType<'a> {
    /// The driver creates dedicated memory.
    Committed {
        /// Heap properties of that memory.
        heap_properties: &'a D3D12_HEAP_PROPERTIES,
        /// Heap flags of that memory.
        heap_flags: D3D12_HEAP_FLAGS,
    },
    /// The resource is placed in the allocator's memory.
    Placed,
}

/// Description of a resource to create.
#[derive(Clone, Copy)]
pub struct ResourceCreateDesc<'a> {
    /// Name for reports.
    pub name: &'a str,
    /// Preferred location.
    pub memory_location: MemoryLocation,
    /// Category of the resource.
    pub resource_category: ResourceCategory,
    /// Direct3D's description.
    pub resource_desc: &'a D3D12_RESOURCE_DESC,
    /// Formats of later views; needs a barrier layout and `ID3D12Device12`.
    pub castable_formats: &'a [DXGI_FORMAT],
    /// The colour, or the depth and stencil, for which Direct3D optimizes clears; `None` for none.
    pub clear_value: Option<&'a D3D12_CLEAR_VALUE>,
    /// Initial state or barrier layout.
    pub initial_state_or_layout: ResourceStateOrBarrierLayout,
    /// Kind of its memory.
    pub resource_type: &'a ResourceType<'a>,
}

/// A resource that [`Allocator::create_resource`] created. [`Allocator::free_resource`] frees it.
#[derive(Debug)]
pub struct Resource {
    name: String,
    /// Memory of a placed resource; `None` if it is committed.
    pub allocation: Option<Allocation>,
    resource: Option<ID3D12Resource>,
    /// Requested location.
    pub memory_location: MemoryLocation,
    /// Size in bytes.
    pub size: u64,
    is_committed: bool,
}

impl Resource {
    /// Returns Direct3D's resource.
    #[must_use]
    pub fn resource(&self) -> &ID3D12Resource {
        self.resource.as_ref().expect("only `free_resource`, which consumes the value, takes it")
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        if self.resource.is_some() {
            log::warn!("the resource {:?} was dropped without `Allocator::free_resource`", self.name);
        }
    }
}

/// Figures of the live committed resources.
#[derive(Debug)]
pub struct CommittedAllocationStatistics {
    /// Number of resources.
    pub num_allocations: usize,
    /// Total size of the resources, in bytes.
    pub total_size: u64,
}

impl Allocator {
    /// Creates a resource.
    ///
    /// # Errors
    /// As [`Allocator::allocate`]; the driver failed; or the device version is too old for the initial layout. The
    /// allocator is unchanged then, and no memory is reserved.
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
            Ok(None) => Err(AllocationError::Internal(format!("the driver returned no {what} and no error"))),
            Err(error) if error.code() == DXGI_ERROR_DEVICE_REMOVED => {
                // SAFETY: a call without arguments on a live object.
                let reason = unsafe { self.device.GetDeviceRemovedReason() };
                Err(AllocationError::Internal(format!("no {what}: the device is removed ({reason:?})")))
            }
            Err(error) => Err(AllocationError::Internal(format!("no {what}: {error}"))),
        }
    }

    /// Releases a resource and frees its memory.
    ///
    /// # Errors
    /// Its memory belongs to another allocator.
    pub fn free_resource(&mut self, mut resource: Resource) -> Result<()> {
        drop(resource.resource.take());
        if resource.is_committed {
            self.committed.num_allocations = self.committed.num_allocations.saturating_sub(1);
            self.committed.total_size = self.committed.total_size.saturating_sub(resource.size);
        }
        resource.allocation.take().map_or(Ok(()), |allocation| self.free(allocation))
    }
}

/// The creation function of a resource: see the table of the module.
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

    /// Returns the size and alignment in bytes.
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
                // SAFETY: one description, one count and one list of that many formats, which live through the call.
                unsafe { device.GetResourceAllocationInfo3(0, 1, &resource, Some(&count), Some(&formats), None) }
            }
            // SAFETY: the slice has one description, which lives through the call.
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
        // SAFETY: only the allocation uses the range, which has the size and alignment that the driver returned. The
        // pointers are to values that live through the call.
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

/// Drops the clear value of a resource that cannot be a target, because Direct3D refuses it. A committed resource gets
/// the program's value, as in gpu-allocator, which passes none for placed resources.
fn placed_clear_value(desc: &ResourceCreateDesc<'_>) -> Option<*const D3D12_CLEAR_VALUE> {
    let target = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL;
    clear_value(desc).filter(|_| desc.resource_desc.Flags & target != D3D12_RESOURCE_FLAG_NONE)
}

fn clear_value(desc: &ResourceCreateDesc<'_>) -> Option<*const D3D12_CLEAR_VALUE> {
    desc.clear_value.map(std::ptr::from_ref)
}

/// Converts a description to the newer form, which has one more field.
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
