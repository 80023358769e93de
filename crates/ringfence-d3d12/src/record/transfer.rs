//! Clears, copies of boxes and resolves in a command list of Direct3D 12.
//!
//! ```text
//!   clear      COMMON ─▶ RENDER_TARGET or DEPTH_WRITE ─▶ COMMON      a view in a heap of one descriptor
//!   copy       COMMON ─▶ COPY_SOURCE, COPY_DEST ─▶ COMMON            CopyTextureRegion for each layer
//!   resolve    COMMON ─▶ RESOLVE_SOURCE, RESOLVE_DEST ─▶ COMMON      ResolveSubresource for each layer
//! ```
//!
//! Direct3D 12 has neither fills of buffers nor blits.

use smallvec::SmallVec;
use windows::Win32::Graphics::Direct3D12::*;

use super::{CopyRecorder, bounds, desc_of, in_texture, planes, promoted, subresource, subresource_count};
use crate::describe;
use crate::device::Device;
use crate::error;
use ringfence_hal::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureAspects, TextureTarget};
use ringfence_hal::transfer::{
    ClearColor, ClearTexel, MipChain, SubresourceRange, TexelAlignment, TexelOrigin, TextureBoxCopy, TextureClear,
    TextureResolve, Transfer, TransferSupport,
};
use ringfence_hal::{DeviceError, Driver, Format, TexelFormat, TextureAspect, TextureDesc, TextureUsage};

const NO_FILL: DeviceError = DeviceError::unsupported("fills of buffers without a usage for shaders");
const NO_BLIT: DeviceError = DeviceError::unsupported("blits (Direct3D 12 has none)");

impl TransferSupport for Device {
    fn has_fill(&self) -> bool {
        false
    }

    fn clear_usage(&self, format: Format) -> TextureUsage {
        if format.is_depth_stencil() { TextureUsage::DEPTH_STENCIL } else { TextureUsage::RENDER_TARGET }
    }

    /// Refuses integers above 2²⁴ or below −2²⁴, because the API takes colours as floating-point numbers.
    fn check_clear(&self, _: &TextureDesc, value: &ClearTexel) -> Result<(), DeviceError> {
        let is_exact = match *value {
            ClearTexel::Color(ClearColor::Uint(color)) => color.iter().all(|&value| value <= 1 << 24),
            ClearTexel::Color(ClearColor::Sint(color)) => color.iter().all(|&value| value.unsigned_abs() <= 1 << 24),
            _ => true,
        };
        if is_exact { Ok(()) } else { Err(DeviceError::unsupported("a clear to integers above 16,777,216")) }
    }

    fn check_copy(&self, src: Format, dst: Format) -> Result<(), DeviceError> {
        let family = |of| describe::format(of, TextureUsage::empty()).map(describe::family);
        if family(src)? == family(dst)? {
            return Ok(());
        }
        Err(DeviceError::unsupported("copies between formats of different families"))
    }

    fn check_resolve(&self, desc: &TextureDesc) -> Result<(), DeviceError> {
        let format = describe::format(desc.format, desc.usage)?;
        let mut support = D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: format, ..Default::default() };
        // SAFETY: the pointer points to a structure of the feature that lives through the call.
        unsafe {
            self.raw().CheckFeatureSupport(
                D3D12_FEATURE_FORMAT_SUPPORT,
                (&raw mut support).cast(),
                size_of_val(&support) as u32,
            )
        }
        .map_err(error::failed(error::call!("ID3D12Device::CheckFeatureSupport", "the support of a format")))?;
        if support.Support1.0 & D3D12_FORMAT_SUPPORT1_MULTISAMPLE_RESOLVE.0 != 0 {
            return Ok(());
        }
        Err(DeviceError::unsupported("resolves of this format (it lacks MULTISAMPLE_RESOLVE)"))
    }

    fn check_blit(&self, _: &TextureDesc) -> Result<(), DeviceError> {
        Err(NO_BLIT)
    }

    fn texel_alignment(&self, format: TexelFormat, aspect: TextureAspect) -> TexelAlignment {
        TexelAlignment::of_device(self.capabilities(), format, aspect)
    }
}

/// The descriptors of a recorder's clears. A clear reads its descriptor when it is recorded, so each kind of view needs
/// only one descriptor.
#[derive(Default)]
pub(super) struct ClearViews {
    color: Option<ID3D12DescriptorHeap>,
    depth: Option<ID3D12DescriptorHeap>,
}

impl ClearViews {
    /// Returns the heap for views of colour or of depth. Creates it at the first call.
    fn heap(&mut self, device: &Device, is_depth: bool) -> Result<&ID3D12DescriptorHeap, DeviceError> {
        let (slot, kind) = match is_depth {
            false => (&mut self.color, D3D12_DESCRIPTOR_HEAP_TYPE_RTV),
            true => (&mut self.depth, D3D12_DESCRIPTOR_HEAP_TYPE_DSV),
        };
        if slot.is_none() {
            let desc = D3D12_DESCRIPTOR_HEAP_DESC { Type: kind, NumDescriptors: 1, ..Default::default() };
            // SAFETY: the description lives through the call.
            let heap = unsafe { device.raw().CreateDescriptorHeap(&desc) }
                .map_err(error::failed(error::call!("ID3D12Device::CreateDescriptorHeap", "a descriptor")))?;
            *slot = Some(heap);
        }
        Ok(slot.as_ref().expect("it was created above"))
    }
}

fn color_view(
    desc: &D3D12_RESOURCE_DESC,
    format: Format,
    mip: u32,
    range: SubresourceRange,
) -> Result<D3D12_RENDER_TARGET_VIEW_DESC, DeviceError> {
    type Shown = D3D12_RENDER_TARGET_VIEW_DESC_0;
    let (first, count) = (range.layer, range.layers);
    let (dimension, shown) = match desc.Dimension {
        D3D12_RESOURCE_DIMENSION_TEXTURE1D => {
            let view = D3D12_TEX1D_ARRAY_RTV { MipSlice: mip, FirstArraySlice: first, ArraySize: count };
            (D3D12_RTV_DIMENSION_TEXTURE1DARRAY, Shown { Texture1DArray: view })
        }
        D3D12_RESOURCE_DIMENSION_TEXTURE3D => {
            // The number of slices is explicit: for `u32::MAX`, which stands for all slices, vkd3d-proton takes the
            // number of mip 0.
            let slices = u32::from(desc.DepthOrArraySize).checked_shr(mip).unwrap_or(0).max(1);
            let view = D3D12_TEX3D_RTV { MipSlice: mip, FirstWSlice: 0, WSize: slices };
            (D3D12_RTV_DIMENSION_TEXTURE3D, Shown { Texture3D: view })
        }
        _ if desc.SampleDesc.Count > 1 => {
            let view = D3D12_TEX2DMS_ARRAY_RTV { FirstArraySlice: first, ArraySize: count };
            (D3D12_RTV_DIMENSION_TEXTURE2DMSARRAY, Shown { Texture2DMSArray: view })
        }
        _ => {
            let view = D3D12_TEX2D_ARRAY_RTV { MipSlice: mip, FirstArraySlice: first, ArraySize: count, PlaneSlice: 0 };
            (D3D12_RTV_DIMENSION_TEXTURE2DARRAY, Shown { Texture2DArray: view })
        }
    };
    let format = describe::shader_format(format)?;
    Ok(D3D12_RENDER_TARGET_VIEW_DESC { Format: format, ViewDimension: dimension, Anonymous: shown })
}

fn depth_view(
    desc: &D3D12_RESOURCE_DESC,
    format: Format,
    mip: u32,
    range: SubresourceRange,
) -> Result<D3D12_DEPTH_STENCIL_VIEW_DESC, DeviceError> {
    type Shown = D3D12_DEPTH_STENCIL_VIEW_DESC_0;
    let (first, count) = (range.layer, range.layers);
    let (dimension, shown) = if desc.SampleDesc.Count > 1 {
        let view = D3D12_TEX2DMS_ARRAY_DSV { FirstArraySlice: first, ArraySize: count };
        (D3D12_DSV_DIMENSION_TEXTURE2DMSARRAY, Shown { Texture2DMSArray: view })
    } else {
        let view = D3D12_TEX2D_ARRAY_DSV { MipSlice: mip, FirstArraySlice: first, ArraySize: count };
        (D3D12_DSV_DIMENSION_TEXTURE2DARRAY, Shown { Texture2DArray: view })
    };
    let (format, flags) = (describe::depth_format(format)?, D3D12_DSV_FLAG_NONE);
    Ok(D3D12_DEPTH_STENCIL_VIEW_DESC { Format: format, ViewDimension: dimension, Flags: flags, Anonymous: shown })
}

fn channels(color: ClearColor) -> [f32; 4] {
    match color {
        ClearColor::Float(channels) => channels,
        ClearColor::Sint(channels) => channels.map(|channel| channel as f32),
        ClearColor::Uint(channels) => channels.map(|channel| channel as f32),
    }
}

/// Subresources of a texture that a command uses in one state.
struct Used<'a> {
    texture: &'a ID3D12Resource,
    subresources: SmallVec<[u32; 8]>,
    state: D3D12_RESOURCE_STATES,
}

impl<'a> Used<'a> {
    fn new(
        texture: &'a ID3D12Resource,
        aspects: TextureAspects,
        range: SubresourceRange,
        state: D3D12_RESOURCE_STATES,
    ) -> Self {
        let subresources = range.each().flat_map(|(mip, layer)| planes(texture, aspects, mip, layer)).collect();
        Self { texture, subresources, state }
    }

    fn each(&self) -> impl Iterator<Item = (&ID3D12Resource, u32)> {
        self.subresources.iter().map(|&index| (self.texture, index))
    }
}

impl CopyRecorder<'_> {
    /// Records an aliasing barrier if a command overwrites the whole texture. The barrier discards the contents of all
    /// subresources, so a command that keeps some of them must not record it.
    fn activate(&self, texture: &ID3D12Resource, written: SubresourceRange) {
        if written.mips * written.layers == subresource_count(&desc_of(texture)) {
            self.alias(std::iter::once(texture));
        }
    }

    /// Initializes a render target that a resolve overwrites as a whole. Direct3D 12 requires a clear, a discard or a
    /// copy before the first other use of a placed render target. A resolve does not count.
    fn initialize_target(&self, texture: &ID3D12Resource, desc: &D3D12_RESOURCE_DESC, written: SubresourceRange) {
        let is_target = (desc.Flags & D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET) != D3D12_RESOURCE_FLAG_NONE;
        if !is_target || written.mips * written.layers != subresource_count(desc) {
            return;
        }
        let used = [Used::new(texture, TextureAspects::COLOR, written, D3D12_RESOURCE_STATE_RENDER_TARGET)];
        self.enter(&used);
        // SAFETY: the list is open, and the texture is alive and in the state for this command.
        unsafe { self.list.DiscardResource(texture, None) };
        self.leave(&used);
    }

    fn enter(&self, used: &[Used<'_>]) {
        for Used { state, .. } in used {
            let of = used.iter().filter(|used| used.state == *state).flat_map(Used::each);
            self.transition(of, D3D12_RESOURCE_STATE_COMMON, *state);
        }
    }

    fn leave(&self, used: &[Used<'_>]) {
        for Used { state, .. } in used {
            let of = used.iter().filter(|used| used.state == *state).flat_map(Used::each);
            self.transition(of, *state, D3D12_RESOURCE_STATE_COMMON);
        }
    }

    /// Records the clear of one mip level.
    fn clear_mip(
        &mut self,
        clear: &TextureClear<ID3D12Resource>,
        desc: &D3D12_RESOURCE_DESC,
        mip: u32,
    ) -> Result<(), DeviceError> {
        let (texture, raw) = (&clear.texture, self.device.raw());
        // The rectangles have different types in the versions of `windows`; without any, the whole view is cleared.
        match clear.value {
            ClearTexel::Color(color) => {
                let view = color_view(desc, clear.format, mip, clear.range)?;
                let heap = self.views.heap(self.device, false)?;
                // SAFETY: the heap has one slot for such views, the view is one of the live texture, and the list is
                // open. The texture is in the state for render targets.
                unsafe {
                    let slot = heap.GetCPUDescriptorHandleForHeapStart();
                    raw.CreateRenderTargetView(texture, Some(&view), slot);
                    self.list.ClearRenderTargetView(slot, &channels(color), Default::default());
                }
            }
            ClearTexel::DepthStencil { depth, stencil } => {
                let view = depth_view(desc, clear.format, mip, clear.range)?;
                let heap = self.views.heap(self.device, true)?;
                let flag = |is_cleared, flag| if is_cleared { flag } else { D3D12_CLEAR_FLAGS(0) };
                let flags =
                    flag(depth.is_some(), D3D12_CLEAR_FLAG_DEPTH) | flag(stencil.is_some(), D3D12_CLEAR_FLAG_STENCIL);
                // SAFETY: as above, for depth.
                unsafe {
                    let slot = heap.GetCPUDescriptorHandleForHeapStart();
                    raw.CreateDepthStencilView(texture, Some(&view), slot);
                    let (depth, stencil) = (depth.unwrap_or(0.0), stencil.unwrap_or(0));
                    self.list.ClearDepthStencilView(slot, flags, depth, stencil, Default::default());
                }
            }
        }
        Ok(())
    }
}

/// Returns the region of a box in one layer, for the functions that describe copies with buffers.
fn box_region<T>(copy: &TextureBoxCopy<T>, origin: &TexelOrigin, layer: u32) -> TexelRegion {
    let (&TexelOrigin { mip, x, y, z, .. }, [width, height, depth]) = (origin, copy.extent);
    let (format, aspect, layer) = (copy.format, copy.aspect, origin.layer + layer);
    TexelRegion { buffer_offset: 0, row_bytes: 0, format, aspect, mip, layer, x, y, z, width, height, depth }
}

fn box_range<T>(copy: &TextureBoxCopy<T>, origin: &TexelOrigin) -> SubresourceRange {
    SubresourceRange { mip: origin.mip, mips: 1, layer: origin.layer, layers: copy.layers }
}

/// Returns the box to copy from. Returns `None` for depth and stencil, which are copied whole.
fn source_box(region: &TexelRegion) -> Option<D3D12_BOX> {
    (region.aspect == TextureAspect::Color).then(|| bounds(region))
}

impl Transfer<Device> for CopyRecorder<'_> {
    unsafe fn fill_buffer(&mut self, _: &ID3D12Resource, _: u64, _: u64, _: u32) -> Result<(), DeviceError> {
        Err(NO_FILL)
    }

    unsafe fn clear_texture(&mut self, clear: &TextureClear<ID3D12Resource>) -> Result<(), DeviceError> {
        let (desc, is_depth) = (desc_of(&clear.texture), clear.format.is_depth_stencil());
        // Everything that can fail runs before the first command.
        self.views.heap(self.device, is_depth)?;
        match is_depth {
            false => color_view(&desc, clear.format, clear.range.mip, clear.range).map(drop)?,
            true => depth_view(&desc, clear.format, clear.range.mip, clear.range).map(drop)?,
        }
        let state = if is_depth { D3D12_RESOURCE_STATE_DEPTH_WRITE } else { D3D12_RESOURCE_STATE_RENDER_TARGET };
        let used = [Used::new(&clear.texture, clear.aspects, clear.range, state)];
        if clear.discard {
            self.activate(&clear.texture, clear.range);
        }
        self.enter(&used);
        let mips = clear.range.mip..clear.range.mip + clear.range.mips;
        mips.into_iter().try_for_each(|mip| self.clear_mip(clear, &desc, mip))?;
        self.leave(&used);
        Ok(())
    }

    unsafe fn copy_buffer_regions(&mut self, src: &ID3D12Resource, dst: &ID3D12Resource, regions: &[CopyRegion]) {
        let targets = std::slice::from_ref(dst);
        // SAFETY: the caller promises that buffers and regions are valid.
        unsafe {
            self.begin_copies(targets, &[]);
            self.copy_buffer(src, dst, regions);
            self.end_copies(targets, &[]);
        }
    }

    unsafe fn copy_buffer_to_box(
        &mut self,
        src: &ID3D12Resource,
        targets: &[TextureTarget<ID3D12Resource>],
        regions: &[TexelRegion],
    ) {
        let Some(TextureTarget { texture, .. }) = targets.first() else { return };
        // SAFETY: the caller promises that buffer, texture and regions are valid.
        unsafe {
            self.begin_copies(&[], targets);
            regions.iter().for_each(|region| self.copy_buffer_to_texture(src, texture, region));
            self.end_copies(&[], targets);
        }
    }

    unsafe fn copy_box_to_buffer(&mut self, reads: &[TexelRead<ID3D12Resource, ID3D12Resource>]) {
        let Some(TexelRead { dst, .. }) = reads.first() else { return };
        // SAFETY: the caller makes the same promise. The copy promotes a buffer that is not in readback memory.
        unsafe { self.read_texels(reads) };
        let targets = std::slice::from_ref(dst);
        self.transition(promoted(targets), D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_COMMON);
    }

    unsafe fn copy_texture_box(&mut self, copy: &TextureBoxCopy<ID3D12Resource>) {
        let (from, to) = (box_range(copy, &copy.from), box_range(copy, &copy.to));
        let used = [
            Used::new(&copy.src, copy.aspects, from, D3D12_RESOURCE_STATE_COPY_SOURCE),
            Used::new(&copy.dst, copy.aspects, to, D3D12_RESOURCE_STATE_COPY_DEST),
        ];
        if copy.discard {
            self.activate(&copy.dst, to);
        }
        self.enter(&used);
        for layer in 0..copy.layers {
            let source = box_region(copy, &copy.from, layer);
            let [src, dst] =
                [in_texture(&copy.src, &source), in_texture(&copy.dst, &box_region(copy, &copy.to, layer))];
            let part = source_box(&source);
            let part = part.as_ref().map(std::ptr::from_ref);
            let TexelOrigin { x, y, z, .. } = copy.to;
            // SAFETY: the list is open. The caller promises that both textures are alive and contain the boxes. The
            // box lives through the call.
            unsafe { self.list.CopyTextureRegion(&dst, x, y, z, &src, part) };
        }
        self.leave(&used);
    }

    unsafe fn resolve_texture(&mut self, resolve: &TextureResolve<ID3D12Resource>) {
        let (color, layers) = (TextureAspects::COLOR, resolve.layers);
        let range = |mip, layer| SubresourceRange { mip, mips: 1, layer, layers };
        let from = range(0, resolve.src_layer);
        let to = range(resolve.dst_mip, resolve.dst_layer);
        let used = [
            Used::new(&resolve.src, color, from, D3D12_RESOURCE_STATE_RESOLVE_SOURCE),
            Used::new(&resolve.dst, color, to, D3D12_RESOURCE_STATE_RESOLVE_DEST),
        ];
        let [src, dst] = [desc_of(&resolve.src), desc_of(&resolve.dst)];
        // A texture with view formats is typeless, and a typeless format cannot be resolved.
        let format = describe::shader_format(resolve.format).unwrap_or(dst.Format);
        self.activate(&resolve.dst, to);
        self.initialize_target(&resolve.dst, &dst, to);
        self.enter(&used);
        for layer in 0..layers {
            let from = subresource(&src, 0, resolve.src_layer + layer, 0);
            let to = subresource(&dst, resolve.dst_mip, resolve.dst_layer + layer, 0);
            // SAFETY: the list is open. The caller promises that both textures are alive and have the subresources.
            unsafe { self.list.ResolveSubresource(&resolve.dst, to, &resolve.src, from, format) };
        }
        self.leave(&used);
    }

    unsafe fn blit_mips(&mut self, _: &MipChain<ID3D12Resource>) -> Result<(), DeviceError> {
        Err(NO_BLIT)
    }
}

#[cfg(test)]
mod tests {
    use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_R8G8B8A8_UNORM, DXGI_SAMPLE_DESC};

    use super::*;

    #[test]
    fn the_view_of_a_volume_has_the_slices_of_its_mip_level() {
        let desc = D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE3D,
            DepthOrArraySize: 5,
            MipLevels: 4,
            Format: DXGI_FORMAT_R8G8B8A8_UNORM,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            ..Default::default()
        };
        for (mip, slices) in [(0, 5), (1, 2), (2, 1), (3, 1)] {
            let range = SubresourceRange { mip, mips: 1, layer: 0, layers: 1 };
            let view = color_view(&desc, Format::Rgba8Unorm, mip, range).expect("a format for targets");
            // SAFETY: the view of a volume has this dimension.
            let shown = unsafe { view.Anonymous.Texture3D };
            assert_eq!((shown.MipSlice, shown.FirstWSlice, shown.WSize), (mip, 0, slices));
        }
    }
}
