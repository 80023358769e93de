//! Copies into a Direct3D 12 command list.
//!
//! ```text
//!   ResourceBarrier       COMMON ─▶ COPY_DEST, all resources in one call
//!   CopyBufferRegion …    one call a region: the API has no call for several
//!   ResourceBarrier       COPY_DEST ─▶ COMMON, all resources in one call
//!   CopyResource …        textures as a whole, between barriers of their own
//! ```
//!
//! Buffers are in the common state whenever a command list begins, and are promoted from there to whatever reads them
//! first: so it is the one state in which every later use finds them. What is copied *from* lies in an upload heap and
//! has one state for good. On a copy queue there are no states to change but this one, which promotion does by itself;
//! barriers are left out there.

use std::mem::ManuallyDrop;

use smallvec::SmallVec;
use windows::Win32::Graphics::Direct3D12::*;

use super::Device;
use crate::device::record::{CopyRegion, Record, TexelRegion, TextureCopy, TextureTarget};

/// Records copies into a command list. All destinations are in the common state before and after.
pub struct CopyRecorder<'a> {
    device: &'a Device,
    list: &'a ID3D12GraphicsCommandList,
    barriers: bool,
}

impl<'a> CopyRecorder<'a> {
    /// A recorder over a command list.
    ///
    /// # Safety
    /// The list is the device's, and is open and recorded by this thread alone, as long as this value lives.
    #[must_use]
    pub unsafe fn new(device: &'a Device, list: &'a ID3D12GraphicsCommandList) -> Self {
        // SAFETY: a call without arguments on a live object.
        let kind = unsafe { list.GetType() };
        Self { device, list, barriers: kind != D3D12_COMMAND_LIST_TYPE_COPY }
    }

    /// What lay in their memory before is of no use any more.
    fn take_over<'b>(&self, textures: impl Iterator<Item = &'b ID3D12Resource>) {
        if !self.barriers {
            return;
        }
        let barriers: SmallVec<[_; 32]> = textures.map(aliasing).collect();
        if !barriers.is_empty() {
            // SAFETY: the list is open, and the barriers name live resources.
            unsafe { self.list.ResourceBarrier(&barriers) };
        }
    }

    fn transition<'b>(
        &self,
        resources: impl Iterator<Item = (&'b ID3D12Resource, u32)>,
        before: D3D12_RESOURCE_STATES,
        after: D3D12_RESOURCE_STATES,
    ) {
        if !self.barriers {
            return;
        }
        let barriers: SmallVec<[_; 32]> =
            resources.map(|(resource, subresource)| transition(resource, subresource, before, after)).collect();
        if !barriers.is_empty() {
            // SAFETY: the list is open, and the barriers name live resources.
            unsafe { self.list.ResourceBarrier(&barriers) };
        }
    }
}

/// Every resource with what changes of it.
fn touched<'b>(
    buffers: &'b [ID3D12Resource],
    textures: &'b [TextureTarget<ID3D12Resource>],
) -> impl Iterator<Item = (&'b ID3D12Resource, u32)> {
    let buffers = buffers.iter().map(|buffer| (buffer, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES));
    let textures =
        textures.iter().map(|target| (&target.texture, subresource(&target.texture, target.mip, target.layer)));
    buffers.chain(textures)
}

fn subresource(texture: &ID3D12Resource, mip: u32, layer: u32) -> u32 {
    // SAFETY: a call without arguments on a live object.
    let desc = unsafe { texture.GetDesc() };
    mip + layer * u32::from(desc.MipLevels)
}

/// The resource for a structure that the driver only reads, without counting a reference for it.
fn borrowed(resource: &ID3D12Resource) -> ManuallyDrop<Option<ID3D12Resource>> {
    // SAFETY: an interface is one pointer, which an option of it is too; the copy is never dropped, so that it takes no
    // reference away, and the structure is used no longer than the resource.
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

/// Both textures of each copy, as a whole.
fn sides<'b>(
    copies: &'b [TextureCopy<ID3D12Resource>],
    side: impl Fn(&'b TextureCopy<ID3D12Resource>) -> &'b ID3D12Resource,
) -> impl Iterator<Item = (&'b ID3D12Resource, u32)> {
    copies.iter().map(move |copy| (side(copy), D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES))
}

impl Record<Device> for CopyRecorder<'_> {
    unsafe fn begin_copies(&mut self, buffers: &[ID3D12Resource], textures: &[TextureTarget<ID3D12Resource>]) {
        self.take_over(textures.iter().filter(|target| target.discard).map(|target| &target.texture));
        self.transition(touched(buffers, textures), D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_DEST);
    }

    unsafe fn copy_buffer(&mut self, src: &ID3D12Resource, dst: &ID3D12Resource, regions: &[CopyRegion]) {
        for region in regions {
            // SAFETY: the list is open; the caller promises that the region lies inside both buffers, which are alive.
            unsafe { self.list.CopyBufferRegion(dst, region.dst_offset, src, region.src_offset, region.size) };
        }
    }

    unsafe fn copy_buffer_to_texture(&mut self, src: &ID3D12Resource, dst: &ID3D12Resource, region: &TexelRegion) {
        let index = subresource(dst, region.mip, region.layer);
        let mut layout = D3D12_PLACED_SUBRESOURCE_FOOTPRINT::default();
        // SAFETY: a call without arguments on a live object.
        let mut desc = unsafe { dst.GetDesc() };
        desc.Alignment = 0; // as it was asked for, where the driver reports another
        // SAFETY: the description and the layout live through the call. Of the layout only the format is used.
        unsafe { self.device.raw().GetCopyableFootprints(&desc, index, 1, 0, Some(&mut layout), None, None, None) };
        let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
            Format: layout.Footprint.Format,
            Width: region.width,
            Height: region.height,
            Depth: 1,
            RowPitch: region.row_bytes as u32,
        };
        let placed = D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: region.buffer_offset, Footprint: footprint };
        let from = D3D12_TEXTURE_COPY_LOCATION {
            pResource: borrowed(src),
            Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { PlacedFootprint: placed },
        };
        let to = D3D12_TEXTURE_COPY_LOCATION {
            pResource: borrowed(dst),
            Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: index },
        };
        // SAFETY: the list is open; the caller promises that the region lies inside both, which are alive.
        unsafe { self.list.CopyTextureRegion(&to, region.x, region.y, 0, &from, None) };
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<ID3D12Resource>]) {
        const COMMON: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COMMON;
        self.take_over(copies.iter().map(|copy| &copy.dst));
        self.transition(sides(copies, |copy| &copy.src), COMMON, D3D12_RESOURCE_STATE_COPY_SOURCE);
        self.transition(sides(copies, |copy| &copy.dst), COMMON, D3D12_RESOURCE_STATE_COPY_DEST);
        for TextureCopy { src, dst, .. } in copies {
            // SAFETY: the list is open; the caller promises that both were made with the same description and are alive.
            unsafe { self.list.CopyResource(dst, src) };
        }
        self.transition(sides(copies, |copy| &copy.src), D3D12_RESOURCE_STATE_COPY_SOURCE, COMMON);
        self.transition(sides(copies, |copy| &copy.dst), D3D12_RESOURCE_STATE_COPY_DEST, COMMON);
    }

    unsafe fn end_copies(&mut self, buffers: &[ID3D12Resource], textures: &[TextureTarget<ID3D12Resource>]) {
        self.transition(touched(buffers, textures), D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_COMMON);
    }
}
