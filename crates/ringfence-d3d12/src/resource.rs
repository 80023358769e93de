//! Buffers and textures: one way for both, since Direct3D 12 has one kind of resource.
//!
//! ```text
//!   heap type      may hold                                 begins in
//!   DEFAULT        everything                               textures the state of their description, buffers COMMON
//!   UPLOAD         buffers that shaders do not write        GENERIC_READ, permanently
//!   READBACK       buffers that shaders do not write        COPY_DEST, permanently
//!   GPU_UPLOAD     buffers                                  COMMON
//! ```
//!
//! Textures in GPU_UPLOAD heaps could be written by the host only through the driver (`WriteToSubresource`), which the
//! traits do not have; so they are not offered there.

use std::ffi::c_void;
use std::ptr::NonNull;

use windows::Win32::Graphics::Direct3D12::*;

use super::backing::{Backing, mark};
use super::describe::{self, Shape};
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

// SAFETY: buffers in host-visible memory are mapped when they are made and stay mapped until the driver destroys them;
// every object handed out is one that the driver returned with success.
unsafe impl<K: Shape> Create<K> for Device {
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
        if self.features().tight_alignment {
            described.Alignment = K::floor(desc);
        }
        let (clear_value, is_cube) = (K::clear_value(desc), K::is_cube(desc));
        Ok(ResourceInfo { clear_value, is_cube, ..ResourceInfo::from(described) })
    }

    fn portable(&self, info: &ResourceInfo) -> Option<K::Desc> {
        let mut desc = K::portable_desc(&info.desc)?;
        if let Some((_, value)) = info.clear_value {
            K::set_clear_value(&mut desc, value);
        }
        if info.is_cube {
            K::set_cube(&mut desc);
        }
        Some(desc)
    }

    fn parts(&self, info: &ResourceInfo) -> Option<TextureParts> {
        K::all_parts(&info.desc)
    }

    fn key(&self, info: &ResourceInfo) -> Option<InfoKey> {
        Some(describe::key(info))
    }

    /// Buffers, and textures for simultaneous access, are in their first state again once the submissions that used
    /// them are complete. Any other texture is in the state that its owner left it in, which only the owner knows. Only
    /// new memory is zeroed.
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
        // SAFETY: `prepare` reads `info` alone, which holds no pointer.
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
        let heap = memory.heap().ok_or(DeviceError::invalid("the memory is a committed resource's own"))?;
        if unplaced.zeroed {
            return Err(DeviceError::unsupported("a place in a heap that the system fills with zeros"));
        }
        let state = self.initial_state(unplaced, memory.memory_type);
        let mut object: Option<ID3D12Resource> = None;
        // SAFETY: the caller promises that the range lies inside the heap, aligned and of a type and class that will
        // do; the pointers are to values that live through the call.
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
        // SAFETY: the pointers are to values that live through the call.
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
        Buffers::is_shape_of(&info.desc)
    }

    unsafe fn address(&self, object: &ID3D12Resource) -> u64 {
        // SAFETY: a call without arguments on a live object.
        unsafe { object.GetGPUVirtualAddress() }
    }

    unsafe fn destroy(&self, object: ID3D12Resource) {
        drop(object); // the driver unmaps what is mapped when the last reference goes
    }

    unsafe fn set_name(&self, object: &ID3D12Resource, name: &str) {
        name_object(object, name);
    }
}

impl Device {
    /// In a heap of its own, which unlike a committed resource's can be shared.
    ///
    /// # Safety
    /// As [`Create::dedicate`].
    unsafe fn place_alone<K: Shape>(
        &self,
        unplaced: &ResourceInfo,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<ID3D12Resource>, Memory), DeviceError> {
        let memory = self.create_heap(desc)?;
        // SAFETY: the heap was made for it; should this fail, the heap goes with `memory`.
        let placed = unsafe { Create::<K>::place(self, unplaced, &memory, 0) }?;
        name_object(&placed.object, desc.name);
        Ok((placed, memory))
    }

    /// The memory types that may hold such a resource.
    fn memory_type_bits(&self, desc: &D3D12_RESOURCE_DESC) -> u32 {
        let is_buffer = Buffers::is_shape_of(desc);
        let written = desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
        let may_hold = |heap_type: &D3D12_HEAP_TYPE| match *heap_type {
            D3D12_HEAP_TYPE_DEFAULT => true,
            D3D12_HEAP_TYPE_GPU_UPLOAD => is_buffer,
            _ => is_buffer && !written,
        };
        let heap_types = self.0.heap_types.iter().enumerate();
        heap_types.filter(|(_, heap_type)| may_hold(heap_type)).fold(0, |bits, (index, _)| bits | 1 << index)
    }

    /// A buffer over all of a heap that the host sees, for debugging to look at what lies between resources.
    pub(super) fn make_window(&self, memory: &Memory) -> Option<(ID3D12Resource, Mapped)> {
        let properties = self.capabilities().properties(memory.memory_type);
        if memory.heap.is_none() || !properties.contains(MemoryProperties::HOST_VISIBLE) {
            return None;
        }
        let desc = BufferDesc { size: memory.size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
        // Without an alignment of its own, which takes a flag that only measuring sets: it lies at the heap's begin.
        let info = ResourceInfo::from(Buffers::resource_desc(&desc).ok()?);
        // SAFETY: the heap is as large as the buffer, of a type that holds buffers, and the host reaches through the
        // window only bytes that no resource has.
        let placed = unsafe { Create::<Buffers>::place(self, &info, memory, 0) }.ok()?;
        Some((placed.object, placed.mapped?))
    }

    fn initial_state(&self, info: &ResourceInfo, memory_type: u32) -> D3D12_RESOURCE_STATES {
        match self.heap_type(memory_type) {
            // Custom heaps do not prescribe a state, even where they stand for these types.
            _ if self.0.custom_heaps => describe::initial_state(info),
            Some(D3D12_HEAP_TYPE_UPLOAD) => D3D12_RESOURCE_STATE_GENERIC_READ,
            Some(D3D12_HEAP_TYPE_READBACK) => D3D12_RESOURCE_STATE_COPY_DEST,
            _ => describe::initial_state(info),
        }
    }

    /// Maps a resource that has just been made, if its memory is host-visible; destroys it if that fails.
    fn mapped(&self, object: ID3D12Resource, memory_type: u32) -> Result<Placed<ID3D12Resource>, DeviceError> {
        let properties = self.capabilities().properties(memory_type);
        if !properties.contains(MemoryProperties::HOST_VISIBLE) {
            return Ok(Placed { object, mapped: None });
        }
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // The host reads only from cached memory; elsewhere an empty range states that.
        let nothing = std::ptr::from_ref(&D3D12_RANGE { Begin: 0, End: 0 });
        let read_range = if properties.contains(MemoryProperties::HOST_CACHED) { None } else { Some(nothing) };
        // SAFETY: the resource is alive and a buffer, whose one subresource is 0; the pointers are to values that live
        // through the call.
        unsafe { object.Map(0, read_range, Some(&mut pointer)) }.map_err(map_error)?;
        let pointer = NonNull::new(pointer.cast()).ok_or(DeviceError::MapFailed)?;
        Ok(Placed { object, mapped: Some(Mapped::new(pointer)) })
    }
}

/// A map that fails for anything but a lost device has failed as a map.
fn map_error(failed: windows::core::Error) -> DeviceError {
    match error::failed(error::call!("ID3D12Resource::Map", "a mapping"))(failed) {
        DeviceError::Lost => DeviceError::Lost,
        _ => DeviceError::MapFailed,
    }
}

/// What the driver would answer with a removed device or a message only the debug layer prints.
pub(super) fn check<K: Shape>(desc: &D3D12_RESOURCE_DESC) -> Result<(), DeviceError> {
    if !K::is_shape_of(desc) {
        let dimension = Numbers::Given(desc.Dimension.0 as u32 as u64);
        return Err(DeviceError::invalid("the dimension is another kind's").with(dimension));
    }
    DeviceError::invalid("a resource is at least 1 wide").at_least(desc.Width, 1)?;
    DeviceError::invalid("a resource is at least 1 high").at_least(desc.Height.into(), 1)?;
    DeviceError::invalid("a resource is at least 1 deep").at_least(desc.DepthOrArraySize.into(), 1)?;
    DeviceError::invalid("a resource has at least one sample a texel").at_least(desc.SampleDesc.Count.into(), 1)
}

pub(super) fn class(desc: &D3D12_RESOURCE_DESC) -> ResourceClass {
    match desc {
        desc if Buffers::is_shape_of(desc) => ResourceClass::Buffer,
        desc if is_target(desc.Flags) => ResourceClass::RenderTarget,
        _ => ResourceClass::Texture,
    }
}

/// As the driver takes it: all bytes of the union are set, whichever member it reads.
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
