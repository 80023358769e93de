//! Recording of commands into a command list, in order.
//!
//! Between two commands, every resource is in the common state. A command transitions its resources to the states that
//! it needs, and back, so the next command waits for it. Resources in UPLOAD and READBACK heaps are permanently in one
//! state and get no transitions.
//!
//! ```text
//!   COMMON ──▶ COPY_SOURCE ──▶ COMMON         COMMON ──▶ COPY_DEST ──▶ COMMON
//! ```

use std::mem::ManuallyDrop;

use ringfence::d3d12::{Backing, CopyRecorder, Device, backing, cpu_handle, gpu_handle};
use ringfence::device::record::Record;
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, MemoryDesc, ResourceClass, TextureAspect,
};
use windows::Win32::Graphics::Direct3D12::*;

use super::device_error;
use crate::descriptor_work::{DescriptorWork, Job};
use crate::{Command, Subresource, TextureRegion};

/// Maximum size of the buffer that a fill copies repeatedly, in bytes.
const FILL_BYTES_MAX: u64 = 64 << 10;

pub(super) struct Recorder<'a> {
    device: &'a Device,
    list: &'a ID3D12GraphicsCommandList,
    /// Resources that must live until the list has run.
    kept: &'a mut Vec<ID3D12Resource>,
}

#[derive(Clone, Copy)]
struct Bytes<'a> {
    buffer: &'a ID3D12Resource,
    offset: u64,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        device: &'a Device,
        list: &'a ID3D12GraphicsCommandList,
        kept: &'a mut Vec<ID3D12Resource>,
    ) -> Self {
        Self { device, list, kept }
    }

    pub(super) fn record(&mut self, command: &Command<Device>) -> Result<(), DeviceError> {
        match command {
            Command::Upload(batch) => {
                // SAFETY: the list is open. The creator of the command promises that the copies are valid.
                let recorded = unsafe { batch.as_ref().clone().record(&mut CopyRecorder::new(self.device, self.list)) };
                recorded.expect("its frame is open");
                Ok(())
            }
            Command::CopyTextures(copies) => {
                // SAFETY: the list is open; as above.
                unsafe { CopyRecorder::new(self.device, self.list).copy_textures(copies) };
                Ok(())
            }
            Command::CopyBufferToTexels { src, dst, region } => {
                let targets = std::slice::from_ref(dst);
                // SAFETY: the list is open; as above.
                unsafe {
                    let mut recorder = CopyRecorder::new(self.device, self.list);
                    recorder.begin_copies(&[], targets);
                    recorder.copy_buffer_to_texture(src, &dst.texture, region);
                    recorder.end_copies(&[], targets);
                }
                Ok(())
            }
            Command::ReadTexels(reads) => {
                // SAFETY: the list is open; as above.
                unsafe { CopyRecorder::new(self.device, self.list).read_texels(reads) };
                Ok(())
            }
            // SAFETY: the list is open; as above.
            Command::Transfers(list) => unsafe { list.replay(&mut CopyRecorder::new(self.device, self.list)) },
            Command::CopySubresource { buffer, texture, part, into_texture, discard } => {
                self.copy_subresource((buffer, texture), part, *into_texture, *discard)
            }
            Command::TakeOver { buffer } => {
                self.take_over(buffer);
                Ok(())
            }
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size } => {
                let src = Bytes { buffer: src, offset: *src_offset };
                self.copy_buffer(src, Bytes { buffer: dst, offset: *dst_offset }, *size)
            }
            Command::FillBuffer { dst, offset, size, value } => {
                self.fill(Bytes { buffer: dst, offset: *offset }, *size, *value)
            }
            Command::CopyBufferToTexture { src, dst, region, discard } => {
                if *discard {
                    self.take_over(dst);
                }
                self.copy_region((src, dst), region, true)
            }
            Command::CopyTextureToBuffer { src, dst, region } => self.copy_region((dst, src), region, false),
            Command::Draw { .. } => Err(DeviceError::unsupported("drawing on Direct3D 12")),
        }
    }

    /// Binds the heap and clears buffers through its descriptors. Without a shader, only clears can use a descriptor.
    pub(super) fn record_descriptor_work(&mut self, work: DescriptorWork<'_, Device>) -> Result<(), DeviceError> {
        // SAFETY: the list is open and empty.
        unsafe { work.binding.set(self.list) }.map_err(|_| DeviceError::invalid("a binding that was set before"))?;
        for job in work.jobs {
            let Job::Fill { to, value, .. } = job else {
                return Err(DeviceError::unsupported("copies through descriptors on Direct3D 12"));
            };
            self.enter(&to.buffer, D3D12_RESOURCE_STATE_UNORDERED_ACCESS)?;
            let values = [*value; 4];
            // SAFETY: the list is open, and the heap of the first handle is bound. The second handle is CPU-only and
            // has the same view: an unordered-access view of this live buffer.
            unsafe {
                self.list.ClearUnorderedAccessViewUint(
                    gpu_handle(to.gpu),
                    cpu_handle(to.cpu),
                    &to.buffer,
                    &values,
                    &[],
                );
            }
            self.leave(&to.buffer, D3D12_RESOURCE_STATE_UNORDERED_ACCESS)?;
        }
        Ok(())
    }

    /// Copies bytes. If both ranges are in one buffer, copies through a temporary buffer, because a buffer has one
    /// state at a time.
    fn copy_buffer(&mut self, src: Bytes<'_>, dst: Bytes<'_>, size: u64) -> Result<(), DeviceError> {
        if src.buffer != dst.buffer {
            return self.copy_pieces(src, dst, size, size);
        }
        let detour = self.own_buffer(D3D12_HEAP_TYPE_DEFAULT, size)?.0;
        let detour = Bytes { buffer: &detour, offset: 0 };
        self.copy_pieces(src, detour, size, size)?;
        self.copy_pieces(detour, dst, size, size)
    }

    /// Fills a range by copies from a buffer that the host has filled. The destination needs no usage for shaders.
    fn fill(&mut self, dst: Bytes<'_>, size: u64, value: u32) -> Result<(), DeviceError> {
        let piece = size.min(FILL_BYTES_MAX);
        let (source, mapped) = self.own_buffer(D3D12_HEAP_TYPE_UPLOAD, piece)?;
        let words = mapped.ok_or(DeviceError::MapFailed)?.cast::<u32>();
        for index in 0..piece as usize / size_of::<u32>() {
            // SAFETY: the buffer is unused, is mapped for `piece` bytes, and is aligned for words.
            unsafe { words.add(index).write(value) };
        }
        self.copy_pieces(Bytes { buffer: &source, offset: 0 }, dst, size, piece)
    }

    /// Copies `size` bytes. The source has only `piece` bytes, which are copied repeatedly.
    fn copy_pieces(&self, src: Bytes<'_>, dst: Bytes<'_>, size: u64, piece: u64) -> Result<(), DeviceError> {
        self.enter(src.buffer, D3D12_RESOURCE_STATE_COPY_SOURCE)?;
        self.enter(dst.buffer, D3D12_RESOURCE_STATE_COPY_DEST)?;
        let mut done = 0;
        while done < size {
            let bytes = piece.min(size - done);
            let dst_offset = dst.offset + done;
            // SAFETY: the list is open, both buffers are alive, and the caller's ranges are inside them.
            unsafe { self.list.CopyBufferRegion(dst.buffer, dst_offset, src.buffer, src.offset, bytes) };
            done += bytes;
        }
        self.leave(dst.buffer, D3D12_RESOURCE_STATE_COPY_DEST)?;
        self.leave(src.buffer, D3D12_RESOURCE_STATE_COPY_SOURCE)
    }

    fn copy_region(
        &self,
        (buffer, texture): (&ID3D12Resource, &ID3D12Resource),
        region: &TextureRegion,
        into_texture: bool,
    ) -> Result<(), DeviceError> {
        let bytes = self.placed_footprint(buffer, texture, region);
        self.copy_between((buffer, bytes), (texture, subresource(texture, region)), into_texture)
    }

    fn copy_between(
        &self,
        in_buffer: (&ID3D12Resource, D3D12_TEXTURE_COPY_LOCATION),
        in_texture: (&ID3D12Resource, D3D12_TEXTURE_COPY_LOCATION),
        into_texture: bool,
    ) -> Result<(), DeviceError> {
        let (from, to) = if into_texture { (in_buffer, in_texture) } else { (in_texture, in_buffer) };
        self.enter(from.0, D3D12_RESOURCE_STATE_COPY_SOURCE)?;
        self.enter(to.0, D3D12_RESOURCE_STATE_COPY_DEST)?;
        // SAFETY: the list is open, both resources are alive, and the caller's region is inside them.
        unsafe { self.list.CopyTextureRegion(&to.1, 0, 0, 0, &from.1, None) };
        self.leave(to.0, D3D12_RESOURCE_STATE_COPY_DEST)?;
        self.leave(from.0, D3D12_RESOURCE_STATE_COPY_SOURCE)
    }

    fn copy_subresource(
        &self,
        (buffer, texture): (&ID3D12Resource, &ID3D12Resource),
        part: &Subresource,
        into_texture: bool,
        discard: bool,
    ) -> Result<(), DeviceError> {
        if discard {
            self.take_over(texture);
        }
        // SAFETY: a call without arguments on a live object.
        let mut desc = unsafe { texture.GetDesc() };
        desc.Alignment = 0;
        let layers = if desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D { 1 } else { desc.DepthOrArraySize };
        let plane = u32::from(part.has_both && part.aspect == TextureAspect::Stencil);
        let index = part.mip + (part.layer + plane * u32::from(layers)) * u32::from(desc.MipLevels);
        let mut layout = D3D12_PLACED_SUBRESOURCE_FOOTPRINT::default();
        // SAFETY: the description and the layout live through the call, and the texture has this subresource.
        unsafe {
            self.device.raw().GetCopyableFootprints(&desc, index, 1, 0, Some(&mut layout), None, None, None);
        }
        if u64::from(layout.Footprint.RowPitch) > part.row_bytes {
            return Err(DeviceError::invalid("a row pitch that is less than the driver's"));
        }
        layout.Footprint.RowPitch = part.row_bytes as u32;
        layout.Offset = part.buffer_offset;
        let in_buffer = D3D12_TEXTURE_COPY_LOCATION {
            pResource: borrowed(buffer),
            Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { PlacedFootprint: layout },
        };
        let in_texture = D3D12_TEXTURE_COPY_LOCATION {
            pResource: borrowed(texture),
            Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: index },
        };
        self.copy_between((buffer, in_buffer), (texture, in_texture), into_texture)
    }

    fn placed_footprint(
        &self,
        buffer: &ID3D12Resource,
        texture: &ID3D12Resource,
        region: &TextureRegion,
    ) -> D3D12_TEXTURE_COPY_LOCATION {
        let mut layout = D3D12_PLACED_SUBRESOURCE_FOOTPRINT::default();
        // SAFETY: a call without arguments on a live object.
        let mut desc = unsafe { texture.GetDesc() };
        desc.Alignment = 0; // the driver may report another than the requested one
        let index = subresource_index(&desc, region);
        // SAFETY: the description and the layout live through the call, and the texture has this subresource.
        unsafe {
            self.device.raw().GetCopyableFootprints(&desc, index, 1, 0, Some(&mut layout), None, None, None);
        }
        let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
            Format: layout.Footprint.Format,
            Width: region.width,
            Height: region.height,
            Depth: 1,
            RowPitch: region.row_bytes as u32,
        };
        let placed = D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: region.buffer_offset, Footprint: footprint };
        D3D12_TEXTURE_COPY_LOCATION {
            pResource: borrowed(buffer),
            Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { PlacedFootprint: placed },
        }
    }

    /// Creates a committed buffer that lives until the list has run. Returns the buffer and its mapping.
    fn own_buffer(
        &mut self,
        heap_type: D3D12_HEAP_TYPE,
        size: u64,
    ) -> Result<(ID3D12Resource, Option<*mut u8>), DeviceError> {
        let memory_type = self.device.memory_type(heap_type).ok_or(DeviceError::unsupported("the heap type"))?;
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let info = Create::<Buffers>::describe(self.device, &BufferDesc { size, usage })?;
        let class = ResourceClass::Buffer;
        // SAFETY: the description contains no pointer, and the buffer, which owns its memory, allows every type.
        let (placed, _memory) = unsafe {
            let (unplaced, needs) = Create::<Buffers>::prepare(self.device, &info)?;
            let desc = MemoryDesc {
                share: None,
                priority: Default::default(),
                memory_type,
                size: needs.size,
                alignment: needs.alignment,
                class,
                name: "",
            };
            Create::<Buffers>::dedicate(self.device, &unplaced, &desc)?
        };
        self.kept.push(placed.object.clone());
        Ok((placed.object, placed.mapped.map(|mapped| mapped.as_ptr())))
    }

    /// Transitions a resource from the common state to `state`.
    fn enter(&self, resource: &ID3D12Resource, state: D3D12_RESOURCE_STATES) -> Result<(), DeviceError> {
        if has_states(resource)? {
            self.barrier(&transition(resource, D3D12_RESOURCE_STATE_COMMON, state));
        }
        Ok(())
    }

    /// Transitions a resource from `state` to the common state.
    fn leave(&self, resource: &ID3D12Resource, state: D3D12_RESOURCE_STATES) -> Result<(), DeviceError> {
        if has_states(resource)? {
            self.barrier(&transition(resource, state, D3D12_RESOURCE_STATE_COMMON));
        }
        Ok(())
    }

    /// Records an aliasing barrier if the API allows it. The API allows none for committed resources and on lists for
    /// copy queues.
    fn take_over(&self, resource: &ID3D12Resource) {
        // SAFETY: a call without arguments on a live object.
        let kind = unsafe { self.list.GetType() };
        if kind != D3D12_COMMAND_LIST_TYPE_COPY && backing(resource) != Backing::Committed {
            self.barrier(&aliasing(resource));
        }
    }

    fn barrier(&self, barrier: &D3D12_RESOURCE_BARRIER) {
        // SAFETY: the list is open and the barrier names a live resource.
        unsafe { self.list.ResourceBarrier(std::slice::from_ref(barrier)) };
    }
}

/// Returns `true` if the resource can change its state. Resources in UPLOAD and READBACK heaps cannot; reserved
/// resources, which have no heap, can.
fn has_states(resource: &ID3D12Resource) -> Result<bool, DeviceError> {
    if backing(resource) == Backing::Reserved {
        return Ok(true);
    }
    let mut properties = D3D12_HEAP_PROPERTIES::default();
    // SAFETY: the pointer points to a local that lives through the call.
    unsafe { resource.GetHeapProperties(Some(&mut properties), None) }.map_err(|error| device_error(&error))?;
    Ok(![D3D12_HEAP_TYPE_UPLOAD, D3D12_HEAP_TYPE_READBACK].contains(&properties.Type))
}

/// Returns the resource for a structure that the driver only reads. Adds no reference.
fn borrowed(resource: &ID3D12Resource) -> ManuallyDrop<Option<ID3D12Resource>> {
    // SAFETY: an interface and an option of it are both one pointer. The copy is never dropped, so it releases no
    // reference, and the structure is not used after the resource is dropped.
    unsafe { std::mem::transmute_copy(resource) }
}

fn transition(
    resource: &ID3D12Resource,
    before: D3D12_RESOURCE_STATES,
    after: D3D12_RESOURCE_STATES,
) -> D3D12_RESOURCE_BARRIER {
    let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
        pResource: borrowed(resource),
        Subresource: D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
        StateBefore: before,
        StateAfter: after,
    };
    D3D12_RESOURCE_BARRIER {
        Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
        Flags: D3D12_RESOURCE_BARRIER_FLAG_NONE,
        Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: ManuallyDrop::new(transition) },
    }
}

/// Returns an aliasing barrier: the resource becomes the owner of its bytes, and their previous contents are discarded.
fn aliasing(resource: &ID3D12Resource) -> D3D12_RESOURCE_BARRIER {
    let aliasing = D3D12_RESOURCE_ALIASING_BARRIER {
        pResourceBefore: ManuallyDrop::new(None),
        pResourceAfter: borrowed(resource),
    };
    D3D12_RESOURCE_BARRIER {
        Type: D3D12_RESOURCE_BARRIER_TYPE_ALIASING,
        Flags: D3D12_RESOURCE_BARRIER_FLAG_NONE,
        Anonymous: D3D12_RESOURCE_BARRIER_0 { Aliasing: ManuallyDrop::new(aliasing) },
    }
}

fn subresource_index(desc: &D3D12_RESOURCE_DESC, region: &TextureRegion) -> u32 {
    region.mip + region.layer * u32::from(desc.MipLevels)
}

fn subresource(texture: &ID3D12Resource, region: &TextureRegion) -> D3D12_TEXTURE_COPY_LOCATION {
    // SAFETY: a call without arguments on a live object.
    let desc = unsafe { texture.GetDesc() };
    D3D12_TEXTURE_COPY_LOCATION {
        pResource: borrowed(texture),
        Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
        Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: subresource_index(&desc, region) },
    }
}
