//! Recording copies into a Direct3D 12 command list.
//!
//! ```text
//!   ResourceBarrier       aliasing, of placed and reserved textures that are overwritten as a whole
//!   ResourceBarrier       textures COMMON ─▶ COPY_DEST, all in one call
//!   CopyBufferRegion …    one call a region: the API has no call for several
//!   ResourceBarrier       COPY_DEST ─▶ COMMON, all textures and buffers; COPY_SOURCE ─▶ COMMON, buffers: in one call
//!   CopyResource …        whole textures, between separate barriers
//! ```
//!
//! A copy promotes its buffers from the common state to `COPY_DEST` and `COPY_SOURCE` without a barrier. A buffer
//! decays to the common state when its call of `ExecuteCommandLists` is complete, but not between the commands and the
//! lists of one call. A buffer in `COPY_DEST` is not promoted again, and a buffer in `COPY_SOURCE` is not promoted to a
//! state for writes. Therefore a transition returns each buffer to the common state, so that later commands can use it.
//! Earlier commands in the same call must also leave the buffers in the common state.
//!
//! Buffers in upload heaps and in readback heaps are permanently in one state and get no transition.

use std::mem::ManuallyDrop;

use smallvec::SmallVec;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

mod transfer;

use self::transfer::ClearViews;
use super::backing::{Backing, backing};
use super::describe;
use super::device::Device;
use ringfence_hal::record::{
    CopyRegion, Record, TexelRead, TexelRegion, TextureAspects, TextureCopy, TextureParts, TextureTarget,
};

/// Recorder of copies into a command list. Except for buffers in upload and readback heaps, all sources and
/// destinations must be in the common state before the copies, and are in the common state after them.
pub struct CopyRecorder<'a> {
    device: &'a Device,
    list: &'a ID3D12GraphicsCommandList,
    /// `true` if aliasing barriers are recorded. Lists for copy queues accept transitions only.
    aliases: bool,
    /// Buffers that copies since `begin_copies` have promoted to `COPY_SOURCE`.
    sources: SmallVec<[ID3D12Resource; 2]>,
    views: ClearViews,
}

impl<'a> CopyRecorder<'a> {
    /// Creates a recorder over a command list.
    ///
    /// # Safety
    /// While the recorder exists, the list must belong to the device, must be open, and may be recorded only by the
    /// calling thread.
    #[must_use]
    pub unsafe fn new(device: &'a Device, list: &'a ID3D12GraphicsCommandList) -> Self {
        // SAFETY: a call without arguments on a live object.
        let kind = unsafe { list.GetType() };
        let (aliases, sources) = (kind != D3D12_COMMAND_LIST_TYPE_COPY, SmallVec::new());
        Self { device, list, aliases, sources, views: ClearViews::default() }
    }

    /// Records all barriers in one call.
    fn barrier(&self, barriers: impl Iterator<Item = D3D12_RESOURCE_BARRIER>) {
        let barriers: SmallVec<[_; 32]> = barriers.collect();
        if !barriers.is_empty() {
            // SAFETY: the list is open, and the barriers name live resources.
            unsafe { self.list.ResourceBarrier(&barriers) };
        }
    }

    /// Records aliasing barriers for the textures that can share memory: all except committed textures, for which the
    /// API forbids the barrier.
    fn alias<'b>(&self, textures: impl Iterator<Item = &'b ID3D12Resource>) {
        if self.aliases {
            self.barrier(textures.filter(|texture| backing(texture) != Backing::Committed).map(aliasing));
        }
    }

    /// Remembers that a copy promotes `buffer` to `COPY_SOURCE`.
    fn promote_source(&mut self, buffer: &ID3D12Resource) {
        if !self.sources.contains(buffer) && has_states(buffer) {
            self.sources.push(buffer.clone());
        }
    }

    fn transition<'b>(
        &self,
        resources: impl Iterator<Item = (&'b ID3D12Resource, u32)>,
        before: D3D12_RESOURCE_STATES,
        after: D3D12_RESOURCE_STATES,
    ) {
        self.barrier(resources.map(|(resource, subresource)| transition(resource, subresource, before, after)));
    }
}

/// Returns each destination texture with the subresources that are copied to.
fn touched(textures: &[TextureTarget<ID3D12Resource>]) -> impl Iterator<Item = (&ID3D12Resource, u32)> {
    textures.iter().flat_map(|target| {
        let planes = planes(&target.texture, target.aspects, target.mip, target.layer);
        planes.map(|index| (&target.texture, index))
    })
}

/// Returns the textures whose subresources are all discarded. An aliasing barrier discards the contents of a whole
/// texture, so a texture that keeps a subresource gets no such barrier.
fn overwritten(textures: &[TextureTarget<ID3D12Resource>]) -> impl Iterator<Item = &ID3D12Resource> {
    let discarded = textures.iter().filter(|target| target.discard).map(|target| &target.texture);
    let counts = counts(discarded).into_iter();
    counts.filter(|(texture, count)| *count == subresource_count(&desc_of(texture))).map(|(texture, _)| texture)
}

/// Returns each item once, with the number of times that it occurs.
fn counts<'b, T: PartialEq>(items: impl Iterator<Item = &'b T>) -> SmallVec<[(&'b T, u32); 8]> {
    let mut counts = SmallVec::<[(&T, u32); 8]>::new();
    for item in items {
        // From the back, because the subresources of a texture are usually adjacent.
        match counts.iter_mut().rev().find(|(other, _)| *other == item) {
            Some((_, count)) => *count += 1,
            None => counts.push((item, 1)),
        }
    }
    counts
}

/// Returns the number of mip levels of all array layers.
fn subresource_count(desc: &D3D12_RESOURCE_DESC) -> u32 {
    let is_volume = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
    let layers = if is_volume { 1 } else { u32::from(desc.DepthOrArraySize) };
    layers * u32::from(desc.MipLevels)
}

/// Returns the buffers that a copy promotes, which must be returned to the common state.
fn promoted(buffers: &[ID3D12Resource]) -> impl Iterator<Item = (&ID3D12Resource, u32)> {
    let changed = buffers.iter().filter(|buffer| has_states(buffer));
    changed.map(|buffer| (buffer, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES))
}

/// Returns `true` if the heap of a buffer allows more than one state. Reserved buffers have no heap, so the query is
/// not made for them: it would fail, and the debug layer would report the failure.
fn has_states(buffer: &ID3D12Resource) -> bool {
    if backing(buffer) == Backing::Reserved {
        return true;
    }
    let mut heap = D3D12_HEAP_PROPERTIES::default();
    // SAFETY: the resource is alive, and the properties live through the call.
    let known = unsafe { buffer.GetHeapProperties(Some(&mut heap), None) };
    known.is_err() || ![D3D12_HEAP_TYPE_UPLOAD, D3D12_HEAP_TYPE_READBACK].contains(&heap.Type)
}

/// Returns the driver's description of a resource.
fn desc_of(resource: &ID3D12Resource) -> D3D12_RESOURCE_DESC {
    // SAFETY: a call without arguments on a live object.
    unsafe { resource.GetDesc() }
}

/// Returns the index of the subresource: one plane of a mip level of an array layer.
fn subresource(desc: &D3D12_RESOURCE_DESC, mip: u32, layer: u32, plane: u32) -> u32 {
    let is_volume = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
    let layers = if is_volume { 1 } else { u32::from(desc.DepthOrArraySize) };
    mip + (layer + plane * layers) * u32::from(desc.MipLevels)
}

/// Returns the subresources of all planes of a mip level of a layer. Depth and stencil change their state together.
fn planes(
    texture: &ID3D12Resource,
    aspects: TextureAspects,
    mip: u32,
    layer: u32,
) -> impl Iterator<Item = u32> + use<> {
    let desc = desc_of(texture);
    let both = aspects.contains(TextureAspects::DEPTH | TextureAspects::STENCIL);
    let count = if both { describe::plane_count(desc.Format) } else { 1 };
    (0..count).map(move |plane| subresource(&desc, mip, layer, plane))
}

/// Returns the resource for a structure that the driver only reads. Adds no reference.
fn borrowed(resource: &ID3D12Resource) -> ManuallyDrop<Option<ID3D12Resource>> {
    // SAFETY: an interface and an option of it are both one pointer. The copy is never dropped, so it releases no
    // reference, and the structure is not used after the resource is dropped.
    unsafe { std::mem::transmute_copy(resource) }
}

fn transition(
    resource: &ID3D12Resource,
    subresource: u32,
    before: D3D12_RESOURCE_STATES,
    after: D3D12_RESOURCE_STATES,
) -> D3D12_RESOURCE_BARRIER {
    let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
        pResource: borrowed(resource),
        Subresource: subresource,
        StateBefore: before,
        StateAfter: after,
    };
    D3D12_RESOURCE_BARRIER {
        Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
        Flags: D3D12_RESOURCE_BARRIER_FLAG_NONE,
        Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: ManuallyDrop::new(transition) },
    }
}

/// Returns an aliasing barrier: the previous contents of the resource's memory are discarded.
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

/// Returns the source or the destination of each copy, with all of its subresources.
fn sides<'b>(
    copies: &'b [TextureCopy<ID3D12Resource>],
    side: impl Fn(&'b TextureCopy<ID3D12Resource>) -> &'b ID3D12Resource,
) -> impl Iterator<Item = (&'b ID3D12Resource, u32)> {
    copies.iter().map(move |copy| (side(copy), D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES))
}

/// Returns all planes of each mip level of a layer that is read. Returns each plane once, even if several boxes are
/// read.
fn read_from(reads: &[TexelRead<ID3D12Resource, ID3D12Resource>]) -> impl Iterator<Item = (&ID3D12Resource, u32)> {
    let place = |read: &TexelRead<ID3D12Resource, _>| (read.region.mip, read.region.layer);
    let is_first = move |index: usize| {
        let read = &reads[index];
        !reads[..index].iter().any(|other| other.src == read.src && place(other) == place(read))
    };
    let first = reads.iter().enumerate().filter(move |(index, _)| is_first(*index));
    first.flat_map(|(_, TexelRead { src, aspects, region, .. })| {
        planes(src, *aspects, region.mip, region.layer).map(move |index| (src, index))
    })
}

/// Returns the copy location of a region in the texture.
fn in_texture(texture: &ID3D12Resource, region: &TexelRegion) -> D3D12_TEXTURE_COPY_LOCATION {
    let desc = desc_of(texture);
    let plane = describe::plane(desc.Format, region.aspect);
    let index = subresource(&desc, region.mip, region.layer, plane);
    D3D12_TEXTURE_COPY_LOCATION {
        pResource: borrowed(texture),
        Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
        Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: index },
    }
}

/// Returns `texels` rounded up to whole blocks.
const fn whole_blocks(texels: u32, block: u32) -> u32 {
    texels.div_ceil(block) * block
}

/// Returns the box to copy from. Returns `None` if the region is a whole mip level, which is the only region that depth
/// and stencil allow.
fn box_of(desc: &D3D12_RESOURCE_DESC, region: &TexelRegion) -> Option<D3D12_BOX> {
    let parts: TextureParts = describe::parts(desc)?;
    let is_whole = [region.x, region.y, region.z] == [0; 3]
        && [region.width, region.height, region.depth] == parts.extent(region.mip);
    (!is_whole).then(|| bounds(region))
}

/// Returns the bounds of a region, in whole blocks.
fn bounds(region: &TexelRegion) -> D3D12_BOX {
    let [across, down] = region.format.block();
    D3D12_BOX {
        left: region.x,
        top: region.y,
        front: region.z,
        right: region.x + whole_blocks(region.width, across),
        bottom: region.y + whole_blocks(region.height, down),
        back: region.z + region.depth,
    }
}

impl CopyRecorder<'_> {
    /// Returns the copy location of a region in the buffer. The size is rounded up to whole blocks.
    fn in_buffer(
        &self,
        buffer: &ID3D12Resource,
        texture: &ID3D12Resource,
        region: &TexelRegion,
    ) -> D3D12_TEXTURE_COPY_LOCATION {
        let desc = desc_of(texture);
        let [across, down] = region.format.block();
        let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
            Format: self.buffer_format(desc, region),
            Width: whole_blocks(region.width, across),
            Height: whole_blocks(region.height, down),
            Depth: region.depth,
            // At most `ROW_BYTES_MAX`, as the caller of the recorder promises.
            RowPitch: region.row_bytes as u32,
        };
        let placed = D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: region.buffer_offset, Footprint: footprint };
        D3D12_TEXTURE_COPY_LOCATION {
            pResource: borrowed(buffer),
            Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { PlacedFootprint: placed },
        }
    }

    /// Returns the format that the texels of a plane have in a buffer: for formats with several planes the documented
    /// format, otherwise the format that the driver reports.
    fn buffer_format(&self, mut desc: D3D12_RESOURCE_DESC, region: &TexelRegion) -> DXGI_FORMAT {
        let plane = describe::plane(desc.Format, region.aspect);
        if describe::plane_count(desc.Format) > 1 {
            return describe::plane_format(desc.Format, plane);
        }
        let index = subresource(&desc, region.mip, region.layer, plane);
        let mut layout = D3D12_PLACED_SUBRESOURCE_FOOTPRINT::default();
        desc.Alignment = 0; // the driver may report another than the requested one
        // SAFETY: the description and the layout live through the call. Only the format of the layout is used.
        unsafe { self.device.raw().GetCopyableFootprints(&desc, index, 1, 0, Some(&mut layout), None, None, None) };
        layout.Footprint.Format
    }
}

impl Record<Device> for CopyRecorder<'_> {
    unsafe fn begin_copies(&mut self, _buffers: &[ID3D12Resource], textures: &[TextureTarget<ID3D12Resource>]) {
        self.alias(overwritten(textures));
        self.transition(touched(textures), D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_DEST);
    }

    unsafe fn copy_buffer(&mut self, src: &ID3D12Resource, dst: &ID3D12Resource, regions: &[CopyRegion]) {
        self.promote_source(src);
        for region in regions {
            // SAFETY: the list is open. The caller promises that both buffers are alive and that the region is inside
            // both.
            unsafe { self.list.CopyBufferRegion(dst, region.dst_offset, src, region.src_offset, region.size) };
        }
    }

    unsafe fn copy_buffer_to_texture(&mut self, src: &ID3D12Resource, dst: &ID3D12Resource, region: &TexelRegion) {
        self.promote_source(src);
        let (from, to) = (self.in_buffer(src, dst, region), in_texture(dst, region));
        // SAFETY: the list is open. The caller promises that buffer and texture are alive and that the region is inside
        // both.
        unsafe { self.list.CopyTextureRegion(&to, region.x, region.y, region.z, &from, None) };
    }

    unsafe fn read_texels(&mut self, reads: &[TexelRead<ID3D12Resource, ID3D12Resource>]) {
        const COMMON: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COMMON;
        self.transition(read_from(reads), COMMON, D3D12_RESOURCE_STATE_COPY_SOURCE);
        for TexelRead { src, dst, region, .. } in reads {
            let (from, to) = (in_texture(src, region), self.in_buffer(dst, src, region));
            let part = box_of(&desc_of(src), region);
            let part = part.as_ref().map(std::ptr::from_ref);
            // SAFETY: the list is open. The caller promises that buffer and texture are alive and that the region is
            // inside both. The box lives through the call.
            unsafe { self.list.CopyTextureRegion(&to, 0, 0, 0, &from, part) };
        }
        self.transition(read_from(reads), D3D12_RESOURCE_STATE_COPY_SOURCE, COMMON);
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<ID3D12Resource>]) {
        const COMMON: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COMMON;
        self.alias(copies.iter().map(|copy| &copy.dst));
        self.transition(sides(copies, |copy| &copy.src), COMMON, D3D12_RESOURCE_STATE_COPY_SOURCE);
        self.transition(sides(copies, |copy| &copy.dst), COMMON, D3D12_RESOURCE_STATE_COPY_DEST);
        for TextureCopy { src, dst, .. } in copies {
            // SAFETY: the list is open. The caller promises that both textures are alive and have the same description.
            unsafe { self.list.CopyResource(dst, src) };
        }
        self.transition(sides(copies, |copy| &copy.src), D3D12_RESOURCE_STATE_COPY_SOURCE, COMMON);
        self.transition(sides(copies, |copy| &copy.dst), D3D12_RESOURCE_STATE_COPY_DEST, COMMON);
    }

    unsafe fn end_copies(&mut self, buffers: &[ID3D12Resource], textures: &[TextureTarget<ID3D12Resource>]) {
        const WHOLE: u32 = D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES;
        let sources = std::mem::take(&mut self.sources);
        let read = sources.iter().map(|buffer| (buffer, WHOLE, D3D12_RESOURCE_STATE_COPY_SOURCE));
        let written = promoted(buffers).chain(touched(textures));
        let written = written.map(|(resource, part)| (resource, part, D3D12_RESOURCE_STATE_COPY_DEST));
        let after = D3D12_RESOURCE_STATE_COMMON;
        self.barrier(written.chain(read).map(|(resource, part, before)| transition(resource, part, before, after)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_counted_once() {
        let items = [7, 7, 3, 7, 3, 9];
        assert_eq!(counts(items.iter()).as_slice(), [(&7, 3), (&3, 2), (&9, 1)]);
    }

    /// A texture that keeps a mip level or a layer must not be discarded as a whole.
    #[test]
    fn a_texture_has_a_subresource_for_each_mip_of_each_layer() {
        let desc = D3D12_RESOURCE_DESC { DepthOrArraySize: 6, MipLevels: 4, ..Default::default() };
        assert_eq!(subresource_count(&desc), 24);
        let volume = D3D12_RESOURCE_DESC { Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE3D, ..desc };
        assert_eq!(subresource_count(&volume), 4);
    }
}
