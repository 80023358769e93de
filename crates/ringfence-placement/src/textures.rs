//! Textures of the policy: planning, pools by kind, and readback.

use std::panic;
use std::sync::Arc;

use super::desc::{BufferRequest, Route, TextureKind};
use super::inner::Inner;
use super::location::{BufferLocation, TextureLocation};
use crate::device::common_alignment;
use crate::device::record::TexelRegion;
use crate::device::{BufferUsage, Create, Device, DeviceError, Requirements, TextureDesc, TextureInfo, Textures};
use ringfence_memory::memory::Location;
use ringfence_memory::{AllocationDesc, Dedicated, Error, Resource};

/// Largest number of subresources of a texture that is read back: 2,048 layers of 16 mip levels.
const FOOTPRINTS_MAX: u64 = 1 << 15;

impl<D: Device> Inner<D> {
    /// See [`Placement::plan_texture`](super::Placement::plan_texture).
    pub(super) fn plan_texture(&self, desc: &TextureDesc) -> Result<(TextureKind, Route, Requirements), Error> {
        let device = self.memory.device();
        self.shared().check_lost()?;
        let info = Create::<Textures>::describe(device, desc)?;
        let needs = self.shared().measure::<Textures>(&info)?;
        let kind = TextureKind::of(desc).measured(needs.size, &self.desc);
        let alone = needs.requires_dedicated || needs.size > self.desc.texture_bytes_max;
        let route = if alone { Route::StandAlone } else { Route::Textures(kind) };
        Ok((kind, route, needs))
    }

    /// See [`Placement::create_texture`](super::Placement::create_texture).
    #[track_caller]
    pub(super) fn create_texture(&self, desc: &TextureDesc, name: &str) -> Result<TextureLocation<D>, Error> {
        let info = Create::<Textures>::describe(self.memory.device(), desc)?;
        self.create_texture_as(TextureKind::of(desc), &info, name)
    }

    /// See [`Placement::create_texture_as`](super::Placement::create_texture_as).
    #[track_caller]
    pub(super) fn create_texture_as(
        &self,
        kind: TextureKind,
        info: &TextureInfo<'_, D>,
        name: &str,
    ) -> Result<TextureLocation<D>, Error> {
        let (shared, policy) = (self.shared(), &self.desc);
        let (mut texture_kind, mut route) = (kind, Route::StandAlone);
        let desc = AllocationDesc { name, dedicated: Dedicated::Always, ..Default::default() };
        let place = |unplaced: &_, needs: Requirements| {
            texture_kind = kind.measured(needs.size, policy);
            let alone = needs.requires_dedicated || needs.size > policy.texture_bytes_max;
            if !alone {
                route = Route::Textures(texture_kind);
                let pools = &self.textures[texture_kind as usize];
                match pools.place::<Textures>(shared, unplaced, needs, Location::Device) {
                    Err(error) if error.may_fit_elsewhere() => route = Route::StandAlone,
                    made => return made,
                }
            }
            // SAFETY: `create_with` has measured the object, and it was not placed.
            unsafe { shared.place::<Textures>(unplaced, needs, desc) }
        };
        // SAFETY: `place` returns the object that it was passed, placed.
        let ((placed, place), needs) = unsafe { shared.create_with::<Textures>(info, desc, place) }?;
        // SAFETY: this allocator has just created the suballocation.
        unsafe { shared.note_line(&place, panic::Location::caller()) };
        // SAFETY: the object was just created from `info`, and bound to the suballocation.
        let texture =
            unsafe { Resource::new(Arc::clone(shared), placed, place, needs.size, Location::Device).made_as(info) };
        Ok(TextureLocation { texture, texture_kind, route })
    }

    /// See [`Placement::create_readback_texture`](super::Placement::create_readback_texture).
    #[track_caller]
    pub(super) fn create_readback_texture(
        &self,
        desc: &TextureDesc,
        name: &str,
    ) -> Result<(BufferLocation<D>, Vec<TexelRegion>), Error> {
        DeviceError::invalid("a multisampled texture cannot be read back").exactly(desc.samples.into(), 1)?;
        let (footprints, size) = self.footprints(desc)?;
        let request = BufferRequest { size, usage: BufferUsage::COPY_DST, name, ..Default::default() };
        let buffer = self.create_stand_alone(&request, Location::Readback)?;
        Ok((buffer, footprints))
    }

    /// Returns the region of each mip level of each layer in a buffer, and the size of the buffer in bytes.
    fn footprints(&self, desc: &TextureDesc) -> Result<(Vec<TexelRegion>, u64), Error> {
        let TextureDesc { width, height, depth, layers, mips, format, .. } = *desc;
        let least = [width, height, depth, layers, mips].into_iter().min().unwrap_or(0);
        DeviceError::invalid("a texture has too few texels, layers or mip levels").at_least(least.into(), 1)?;
        DeviceError::invalid("more mip levels than the size allows")
            .at_most(mips.into(), (desc.longest().ilog2() + 1).into())?;
        DeviceError::invalid("more subresources than one readback supports")
            .at_most(u64::from(layers) * u64::from(mips), FOOTPRINTS_MAX)?;
        let texels = format.texels();
        if texels.aspects().bits().count_ones() != 1 {
            return Err(DeviceError::unsupported("reading back depth and stencil in one copy").into());
        }
        let ([across, down], block) = (texels.block(), format.texel_bytes());
        let capabilities = self.memory.device().capabilities();
        let max = capabilities.memory_object_bytes_max;
        let (mut footprints, mut end) = (Vec::with_capacity((layers * mips) as usize), 0_u64);
        for (layer, mip) in (0..layers).flat_map(|layer| (0..mips).map(move |mip| (layer, mip))) {
            let [width, height, depth] = [width, height, depth].map(|side| (side >> mip).max(1));
            let (blocks, rows) = (width.div_ceil(across), u64::from(height.div_ceil(down)) * u64::from(depth));
            let row_bytes = next_multiple(u64::from(blocks) * block, capabilities.texture_copy_row_alignment, block);
            let offset = next_multiple(end, capabilities.texture_copy_offset_alignment.max(4), block);
            footprints.push(TexelRegion {
                buffer_offset: offset,
                row_bytes,
                format: texels,
                aspect: texels.first_aspect(),
                mip,
                layer,
                x: 0,
                y: 0,
                z: 0,
                width,
                height,
                depth,
            });
            // No sum overflows: each is compared with the largest memory object before the next one.
            end = offset.saturating_add(row_bytes.saturating_mul(rows));
            if end > max {
                return Err(Error::TooLarge { size: end, max });
            }
        }
        Ok((footprints, end))
    }
}

/// Returns the next common multiple of an alignment and of the size of a block, in bytes. Returns `u64::MAX` on
/// overflow.
fn next_multiple(bytes: u64, alignment: u64, block: u64) -> u64 {
    bytes.checked_next_multiple_of(common_alignment(alignment.max(1), block.max(1))).unwrap_or(u64::MAX)
}
