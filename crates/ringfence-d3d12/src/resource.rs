//! Buffers and textures. Both use the same code, because Direct3D 12 has one type for all resources.
//!
//! ```text
//!   heap type      contains                                 initial state
//!   DEFAULT        all resources                            textures: `initial_state`; buffers: COMMON
//!   UPLOAD         buffers that shaders do not write        GENERIC_READ, permanently
//!   READBACK       buffers that shaders do not write        COPY_DEST, permanently
//!   GPU_UPLOAD     buffers                                  COMMON
//! ```
//!
//! Custom heaps ([`Device::with_custom_heaps`]) prescribe no state, so their buffers start in COMMON.
//!
//! Textures are not offered in GPU_UPLOAD heaps: the host could write them only with `WriteToSubresource`, for which
//! the traits have no function.

use std::ffi::c_void;
use std::ptr::NonNull;

use windows::Win32::Graphics::Direct3D12::*;

use super::backing::{Backing, mark};
use super::describe::{self, NativeKind};
use super::device::{Device, name_object};
use super::error;
use super::info::ResourceInfo;
use super::measure::{is_target, measure};
use super::memory::{Memory, check_share, share_support};
use ringfence_hal::record::TextureParts;
use ringfence_hal::sharing::{ShareKind, ShareSupport};
use ringfence_hal::{
    BufferDesc, BufferUsage, Buffers, ClearValue, Create, DeviceError, Driver, InfoKey, Mapped, MemoryDesc,
    MemoryProperties, Numbers, Placed, Requirements, ResourceClass,
};

// SAFETY: a buffer in host-visible memory is mapped when it is created, and stays mapped until the driver destroys it.
// The driver has returned each object with success.
unsafe impl<K: NativeKind> Create<K> for Device {
    type Info<'a> = ResourceInfo;
    type Unplaced = ResourceInfo;
    type Object = ID3D12Resource;
    type Raw<'a> = &'a ID3D12Resource;

    fn raw(object: &Self::Object) -> Self::Raw<'_> {
        object
    }

    fn describe(&self, desc: &K::Desc) -> Result<ResourceInfo, DeviceError> {
        K::check(desc)?;
        let mut described = K::resource_desc(desc)?;
        if let Some(desc) = K::as_texture(desc) {
            self.supported_uses(desc.format).check(desc.usage, desc.samples)?;
        }
        if self.features().tight_alignment {
            described.Alignment = K::alignment_min(desc);
        }
        let (clear_value, is_cube) = (K::clear_value(desc), K::is_cube(desc));
        let castable = K::as_texture(desc).filter(|desc| !desc.view_formats.is_empty());
        let views = castable.map(|desc| (desc.format, desc.view_formats));
        Ok(ResourceInfo { clear_value, is_cube, views, ..ResourceInfo::from(described) })
    }

    fn portable(&self, info: &ResourceInfo) -> Option<K::Desc> {
        let mut desc = K::portable_desc(&describe::typed(info))?;
        if let Some((_, value)) = info.clear_value {
            K::set_clear_value(&mut desc, value);
        }
        if info.is_cube {
            K::set_cube(&mut desc);
        }
        if let Some((_, formats)) = info.views {
            K::set_view_formats(&mut desc, formats);
        }
        Some(desc)
    }

    fn parts(&self, info: &ResourceInfo) -> Option<TextureParts> {
        K::all_parts(&describe::typed(info))
    }

    fn key(&self, info: &ResourceInfo) -> Option<InfoKey> {
        Some(describe::key(info))
    }

    /// Returns a key for resources that are in their initial state again once the work that uses them is complete:
    /// buffers, textures for simultaneous access, and textures with `returns_to_initial_state`. The state of other
    /// textures is not known, so they are not recycled. Zeroed resources are not recycled, because only new memory is
    /// zeroed.
    fn recycle_key(&self, info: &ResourceInfo) -> Option<InfoKey> {
        let is_buffer = info.desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER;
        let returns = is_buffer
            || info.desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS)
            || info.returns_to_initial_state;
        (returns && !info.zeroed).then(|| describe::key(info))
    }

    fn rounded<'a>(&self, info: &Self::Info<'a>, round: fn(u64) -> u64) -> Option<(Self::Info<'a>, u64)> {
        if info.desc.Dimension != D3D12_RESOURCE_DIMENSION_BUFFER {
            return None;
        }
        let mut larger = *info;
        larger.desc.Width = round(info.desc.Width);
        let added = larger.desc.Width - info.desc.Width;
        Some((larger, added))
    }

    unsafe fn prepare(&self, info: &ResourceInfo) -> Result<(ResourceInfo, Requirements), DeviceError> {
        check::<K>(&info.desc)?;
        let (desc, measured) = measure(self, &info.desc)?;
        DeviceError::invalid("more bytes than the device can address in a resource")
            .at_most(measured.SizeInBytes, self.capabilities().memory_object_bytes_max)?;
        let requirements = Requirements {
            size: measured.SizeInBytes,
            alignment: measured.Alignment,
            memory_type_bits: self.memory_type_bits(&desc),
            class: class(&desc),
            prefers_dedicated: false,
            requires_dedicated: info.zeroed,
        };
        Ok((ResourceInfo { desc, ..*info }, requirements))
    }

    fn share_support(&self, _: &ResourceInfo, kind: ShareKind) -> ShareSupport {
        share_support(kind)
    }

    unsafe fn prepare_shared(
        &self,
        info: &ResourceInfo,
        kind: ShareKind,
    ) -> Result<(ResourceInfo, Requirements), DeviceError> {
        check_share(kind)?;
        if info.zeroed {
            return Err(DeviceError::unsupported("shared memory that the system fills with zeros"));
        }
        // SAFETY: `prepare` reads only `info`, which contains no pointer.
        let (unplaced, needs) = unsafe { Create::<K>::prepare(self, info) }?;
        // Only heaps of the type DEFAULT can be shared.
        let default = self.memory_type(D3D12_HEAP_TYPE_DEFAULT).map_or(0, |memory_type| 1 << memory_type);
        Ok((unplaced, Requirements { memory_type_bits: needs.memory_type_bits & default, ..needs }))
    }

    unsafe fn discard(&self, _unplaced: ResourceInfo) {}

    unsafe fn place(
        &self,
        unplaced: &ResourceInfo,
        memory: &Memory,
        offset: u64,
    ) -> Result<Placed<ID3D12Resource>, DeviceError> {
        let heap =
            memory.heap().ok_or(DeviceError::invalid("the memory belongs to a committed resource, not to a heap"))?;
        if unplaced.zeroed {
            return Err(DeviceError::unsupported("a placed resource that the system fills with zeros"));
        }
        let state = self.initial_state(unplaced, memory.memory_type);
        let mut object: Option<ID3D12Resource> = None;
        // SAFETY: the caller promises that the range is inside the heap and aligned, and that the heap's type and class
        // allow the resource. The pointers point to values that live through the call.
        let made = unsafe {
            let clear = clear_value(unplaced);
            let clear = clear.as_ref().map(std::ptr::from_ref);
            self.raw().CreatePlacedResource(heap, offset, &unplaced.desc, state, clear, &mut object)
        };
        let object =
            error::made(made, object, error::call!("ID3D12Device::CreatePlacedResource", "a placed resource"))?;
        self.mapped(object, memory.memory_type)
    }

    unsafe fn dedicate(
        &self,
        unplaced: &ResourceInfo,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<ID3D12Resource>, Memory), DeviceError> {
        if desc.share.is_some() {
            // SAFETY: the caller promises that the requirements of `unplaced` allow `desc`.
            return unsafe { self.place_alone::<K>(unplaced, desc) };
        }
        let properties = self.heap_properties(desc.memory_type)?;
        let state = self.initial_state(unplaced, desc.memory_type);
        let flags = if unplaced.zeroed { D3D12_HEAP_FLAG_NONE } else { self.base_heap_flags() };
        let mut object: Option<ID3D12Resource> = None;
        // SAFETY: the pointers point to values that live through the call.
        let made = unsafe {
            let clear = clear_value(unplaced);
            let clear = clear.as_ref().map(std::ptr::from_ref);
            self.raw().CreateCommittedResource(&properties, flags, &unplaced.desc, state, clear, &mut object)
        };
        let object =
            error::made(made, object, error::call!("ID3D12Device::CreateCommittedResource", "a committed resource"))?;
        mark(&object, Backing::Committed)?;
        name_object(&object, desc.name);
        let pageable = <&ID3D12Pageable>::from(&object).clone();
        let memory = Memory::new(None, pageable, desc);
        self.apply_priority(&memory, desc.priority);
        Ok((self.mapped(object, desc.memory_type)?, memory))
    }

    fn has_address(&self, info: &ResourceInfo) -> bool {
        Buffers::is_described_by(&info.desc)
    }

    unsafe fn address(&self, object: &ID3D12Resource) -> u64 {
        // SAFETY: a call without arguments on a live object.
        unsafe { object.GetGPUVirtualAddress() }
    }

    unsafe fn destroy(&self, object: ID3D12Resource) {
        drop(object); // the driver unmaps the resource with its last reference
    }

    unsafe fn set_name(&self, object: &ID3D12Resource, name: &str) {
        name_object(object, name);
    }
}

impl Device {
    /// Places the resource alone in a heap of its own. Unlike the memory of a committed resource, a heap can be shared.
    ///
    /// # Safety
    /// The rules of [`Create::dedicate`].
    unsafe fn place_alone<K: NativeKind>(
        &self,
        unplaced: &ResourceInfo,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<ID3D12Resource>, Memory), DeviceError> {
        let memory = self.create_heap(desc)?;
        // SAFETY: the heap was created for this resource. If placing fails, the heap is dropped with `memory`.
        let placed = unsafe { Create::<K>::place(self, unplaced, &memory, 0) }?;
        name_object(&placed.object, desc.name);
        Ok((placed, memory))
    }

    /// Returns the memory types that may contain a resource with this description, as a bit mask.
    fn memory_type_bits(&self, desc: &D3D12_RESOURCE_DESC) -> u32 {
        let is_buffer = Buffers::is_described_by(desc);
        let written = desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
        let may_hold = |heap_type: &D3D12_HEAP_TYPE| match *heap_type {
            D3D12_HEAP_TYPE_DEFAULT => true,
            D3D12_HEAP_TYPE_GPU_UPLOAD => is_buffer,
            _ => is_buffer && !written,
        };
        let heap_types = self.0.heap_types.iter().enumerate();
        heap_types.filter(|(_, heap_type)| may_hold(heap_type)).fold(0, |bits, (index, _)| bits | 1 << index)
    }

    /// Creates a buffer that covers a host-visible heap. Debugging reads the bytes between resources through it.
    /// Returns `None` for other memory, or if the buffer cannot be created.
    pub(super) fn make_window(&self, memory: &Memory) -> Option<(ID3D12Resource, Mapped)> {
        let properties = self.capabilities().properties(memory.memory_type);
        if memory.heap.is_none() || !properties.contains(MemoryProperties::HOST_VISIBLE) {
            return None;
        }
        let desc = BufferDesc { size: memory.size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
        // The alignment in the description is 0 (default): any other value needs a flag that only `measure` sets.
        // Offset 0 satisfies every alignment.
        let info = ResourceInfo::from(Buffers::resource_desc(&desc).ok()?);
        // SAFETY: the heap is as large as the buffer and has a type for buffers. Through the window, the host accesses
        // only bytes that belong to no resource.
        let placed = unsafe { Create::<Buffers>::place(self, &info, memory, 0) }.ok()?;
        Some((placed.object, placed.mapped?))
    }

    fn initial_state(&self, info: &ResourceInfo, memory_type: u32) -> D3D12_RESOURCE_STATES {
        match self.heap_type(memory_type) {
            // Custom heaps do not prescribe a state, although UPLOAD and READBACK heaps do.
            _ if self.0.custom_heaps => describe::initial_state(info),
            Some(D3D12_HEAP_TYPE_UPLOAD) => D3D12_RESOURCE_STATE_GENERIC_READ,
            Some(D3D12_HEAP_TYPE_READBACK) => D3D12_RESOURCE_STATE_COPY_DEST,
            _ => describe::initial_state(info),
        }
    }

    /// Maps a new resource if its memory is host-visible. If mapping fails, destroys the resource.
    fn mapped(&self, object: ID3D12Resource, memory_type: u32) -> Result<Placed<ID3D12Resource>, DeviceError> {
        let properties = self.capabilities().properties(memory_type);
        if !properties.contains(MemoryProperties::HOST_VISIBLE) {
            return Ok(Placed { object, mapped: None });
        }
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // An empty read range says that the host reads nothing. It is passed unless the memory is cached.
        let nothing = std::ptr::from_ref(&D3D12_RANGE { Begin: 0, End: 0 });
        let read_range = if properties.contains(MemoryProperties::HOST_CACHED) { None } else { Some(nothing) };
        // SAFETY: the resource is alive and a buffer, which has only subresource 0. The pointers point to values that
        // live through the call.
        unsafe { object.Map(0, read_range, Some(&mut pointer)) }.map_err(map_error)?;
        let pointer = NonNull::new(pointer.cast()).ok_or(DeviceError::MapFailed)?;
        Ok(Placed { object, mapped: Some(Mapped::new(pointer)) })
    }
}

/// Converts a failure of `Map`: every error except a lost device becomes [`DeviceError::MapFailed`].
fn map_error(failed: windows::core::Error) -> DeviceError {
    match error::failed(error::call!("ID3D12Resource::Map", "a mapping"))(failed) {
        DeviceError::Lost => DeviceError::Lost,
        _ => DeviceError::MapFailed,
    }
}

/// Checks rules that the API does not check: a violation would remove the device, or only the debug layer would report
/// it.
pub(super) fn check<K: NativeKind>(desc: &D3D12_RESOURCE_DESC) -> Result<(), DeviceError> {
    if !K::is_described_by(desc) {
        let dimension = Numbers::Given(desc.Dimension.0 as u32 as u64);
        return Err(DeviceError::invalid("the dimension belongs to another kind of resource").with(dimension));
    }
    DeviceError::invalid("the width of a resource must be at least 1").at_least(desc.Width, 1)?;
    DeviceError::invalid("the height of a resource must be at least 1").at_least(desc.Height.into(), 1)?;
    DeviceError::invalid("the depth or array size of a resource must be at least 1")
        .at_least(desc.DepthOrArraySize.into(), 1)?;
    DeviceError::invalid("a resource must have at least one sample per texel").at_least(desc.SampleDesc.Count.into(), 1)
}

pub(super) fn class(desc: &D3D12_RESOURCE_DESC) -> ResourceClass {
    match desc {
        desc if Buffers::is_described_by(desc) => ResourceClass::Buffer,
        desc if is_target(desc.Flags) => ResourceClass::RenderTarget,
        _ => ResourceClass::Texture,
    }
}

/// Returns the driver's clear value. All bytes of its union are set, so the driver may read any member.
pub(super) fn clear_value(info: &ResourceInfo) -> Option<D3D12_CLEAR_VALUE> {
    let (format, value) = info.clear_value?;
    let mut union = D3D12_CLEAR_VALUE_0 { Color: [0.0; 4] };
    match value {
        ClearValue::Color(bits) => union.Color = bits.map(f32::from_bits),
        ClearValue::DepthStencil { depth, stencil } => {
            union.DepthStencil.Depth = f32::from_bits(depth);
            union.DepthStencil.Stencil = stencil;
        }
    }
    Some(D3D12_CLEAR_VALUE { Format: format, Anonymous: union })
}
