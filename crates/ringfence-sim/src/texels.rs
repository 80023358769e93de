//! Copies of texels on the simulated device, slice by slice. The distance between rows of blocks can differ between the
//! buffer and the texture.
//!
//! ```text
//!   a box of 2 slices   buffer    │ row ▒│ row ▒│ row ▒│ row ▒│        ──▶  one step per slice
//!                       texture   · · │ row │ · · │ row │ · · · · · │ row │ · · │ row │ · ·
//! ```
//!
//! The size and format of a texture come from its own description. The format in a region is ignored.

use super::access::Placed;
use super::command::{BufferLayout, BufferRange, TextureRegion};
use super::hazard::HazardKind;
use super::ids::{Buffer, Label, Texture, What};
use super::layout::{Subresource, subresource};
use super::objects::Shape;
use super::order::Access;
use super::state::State;
use super::step::{Address, Rows, Step, Uses};
use ringfence_hal::record::TexelRegion;
use ringfence_hal::{BufferUsage, TextureAspect, TextureDesc, TextureUsage};

/// A box of texels in one subresource: one aspect of one mip level of one array layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) mip: u32,
    pub(super) layer: u32,
    pub(super) aspect: TextureAspect,
    pub(super) first: [u32; 3],
    pub(super) extent: [u32; 3],
}

impl Part {
    /// Returns all texels of one aspect of a mip level of an array layer.
    pub(super) fn whole(desc: &TextureDesc, mip: u32, layer: u32, aspect: TextureAspect) -> Self {
        let extent = [desc.width, desc.height, desc.depth].map(|side| side.checked_shr(mip).unwrap_or(0).max(1));
        Self { mip, layer, aspect, first: [0; 3], extent }
    }

    /// Returns `true` if the texture has only one subresource, and the box contains all its texels.
    pub(super) fn is_all_of(&self, desc: &TextureDesc) -> bool {
        let is_single = desc.mips == 1 && desc.layers == 1 && desc.format.texels().aspects().bits().count_ones() == 1;
        is_single && *self == Self::whole(desc, 0, 0, desc.format.texels().first_aspect())
    }

    pub(super) fn of(region: &TexelRegion) -> Self {
        let TexelRegion { mip, layer, aspect, x, y, z, width, height, depth, .. } = *region;
        Self { mip, layer, aspect, first: [x, y, z], extent: [width, height, depth] }
    }

    /// Returns the region as a box in the first aspect and the first slice.
    pub(super) fn flat(region: &TextureRegion, desc: &TextureDesc) -> Self {
        let TextureRegion { mip, layer, x, y, width, height } = *region;
        let aspect = desc.format.texels().first_aspect();
        Self { mip, layer, aspect, first: [x, y, 0], extent: [width, height, 1] }
    }
}

/// Rows of blocks of a part, in the texture's memory: the rows of the first slice, and the distance between slices.
#[derive(Clone, Debug)]
pub(super) struct TexelRows {
    first: Rows,
    pub(super) row_bytes: u64,
    pub(super) count: u64,
    pub(super) slices: u64,
    slice_pitch: u64,
    block_bytes: u64,
    aspect: TextureAspect,
    /// `true` if the texture has depth and stencil, which are separate planes.
    is_planar: bool,
    /// `true` if the part contains all texels of its subresource.
    pub(super) is_whole: bool,
    pub(super) label: Label,
    space_label: Label,
}

impl TexelRows {
    pub(super) fn slice(&self, slice: u64) -> Rows {
        let Address { memory, offset } = self.first.first;
        let first = Address { memory, offset: offset + slice * self.slice_pitch };
        Rows { first, ..self.first }
    }

    pub(super) fn access(&self, slice: u64, writes: bool) -> Access {
        let Rows { first: Address { memory, offset }, pitch } = self.slice(slice);
        let range = offset..offset + (self.count - 1) * pitch + self.row_bytes;
        Access { space: memory, range, writes, label: self.label.clone(), space_label: self.space_label.clone() }
    }

    /// Returns the access to all rows of all slices. They are adjacent if the part is whole.
    pub(super) fn all(&self, writes: bool) -> Access {
        let first = self.access(0, writes);
        let last = self.access(self.slices - 1, writes);
        Access { range: first.range.start..last.range.end, ..first }
    }
}

/// A copy between a buffer and a texture.
pub(super) struct TexelCopy {
    pub(super) buffer: Buffer,
    pub(super) layout: BufferLayout,
    pub(super) texture: Texture,
    pub(super) into_texture: bool,
}

impl State {
    /// Returns the steps of a copy between a buffer and a texture. If `part` is `None`, the texture is destroyed; this
    /// is reported.
    pub(super) fn texel_copy_steps(&mut self, copy: &TexelCopy, part: Option<Part>, uses: &mut Uses) -> Vec<Step> {
        let Some(part) = part else {
            self.report_stale(What::Texture, copy.texture.0, "");
            return Vec::new();
        };
        // Sparse textures have one slice and one aspect.
        let is_tiled = self.is_sparse(copy.texture.0) && (part.first[2], part.extent[2]) == (0, 1);
        let steps = if is_tiled { self.tile_steps(copy, &part, uses) } else { self.texel_steps(copy, part, uses) };
        steps.unwrap_or_default()
    }

    /// Returns the steps of a copy. If the copy is invalid, reports a hazard and returns `None`.
    fn texel_steps(&mut self, copy: &TexelCopy, part: Part, uses: &mut Uses) -> Option<Vec<Step>> {
        let (usage, buffer_usage) = if copy.into_texture {
            (TextureUsage::COPY_DST, BufferUsage::COPY_SRC)
        } else {
            (TextureUsage::COPY_SRC, BufferUsage::COPY_DST)
        };
        let texels = self.texel_rows(copy.texture, part, usage)?;
        self.check_single_sample(copy.texture)?;
        let BufferLayout { offset, row_bytes } = copy.layout;
        self.check_layout(copy.buffer, copy.layout, (texels.is_planar, texels.row_bytes))?;
        self.check_blocks(copy.buffer, copy.layout, &texels)?;
        let subresource = (part.mip, part.layer, part.aspect);
        if !(copy.into_texture && texels.is_whole) {
            self.check_initialized(copy.texture, subresource, &texels.label)?;
        }
        let size = (texels.count - 1).saturating_mul(row_bytes).saturating_add(texels.row_bytes);
        let slice_bytes = texels.count.saturating_mul(row_bytes);
        let mut steps = Vec::new();
        for slice in 0..texels.slices {
            let range = BufferRange::new(copy.buffer, offset.saturating_add(slice.saturating_mul(slice_bytes)), size);
            let in_buffer = self.buffer_access(range, Some(buffer_usage), !copy.into_texture)?;
            let buffer_rows = Rows { first: Address::of(&in_buffer), pitch: row_bytes };
            let texel_rows = texels.slice(slice);
            let (src, dst) = if copy.into_texture { (buffer_rows, texel_rows) } else { (texel_rows, buffer_rows) };
            uses.extend([in_buffer, texels.access(slice, copy.into_texture)]);
            steps.push(Step::Copy { src, dst, row_bytes: texels.row_bytes, rows: texels.count });
        }
        if copy.into_texture {
            self.initialize(copy.texture, subresource);
        }
        Some(steps)
    }

    /// Returns the steps that copy a mip level of an array layer from one texture to another. If the copy is invalid,
    /// reports a hazard and returns `None`.
    pub(super) fn texture_copy_steps(
        &mut self,
        (src, dst): (Texture, Texture),
        (mip, layer): (u32, u32),
        uses: &mut Uses,
    ) -> Option<Vec<Step>> {
        let shape = |desc: TextureDesc| TextureDesc { usage: TextureUsage::empty(), ..desc };
        let (from, to) = (self.texture_desc(src), self.texture_desc(dst));
        if let (Some(from), Some(to)) = (from, to)
            && shape(from) != shape(to)
        {
            let label = self.label_of(What::Texture, dst.0);
            return self.refuse(HazardKind::Misuse, label, "a copy between textures of different shapes");
        }
        let desc = from.unwrap_or_default();
        let has = desc.format.texels().aspects();
        let mut steps = Vec::new();
        for aspect in TextureAspect::ALL.into_iter().filter(|aspect| has.contains(aspect.flag())) {
            let part = Part::whole(&desc, mip, layer, aspect);
            let rows = self.texel_rows(src, part, TextureUsage::COPY_SRC)?;
            let into = self.texel_rows(dst, part, TextureUsage::COPY_DST)?;
            self.check_initialized(src, (mip, layer, aspect), &rows.label)?;
            self.initialize(dst, (mip, layer, aspect));
            for slice in 0..rows.slices {
                uses.extend([rows.access(slice, false), into.access(slice, true)]);
                let (src, dst) = (rows.slice(slice), into.slice(slice));
                steps.push(Step::Copy { src, dst, row_bytes: rows.row_bytes, rows: rows.count });
            }
        }
        Some(steps)
    }

    /// Returns the location of the texels of a part in their texture. If the part or the usage is invalid, reports a
    /// hazard and returns `None`.
    pub(super) fn texel_rows(&mut self, texture: Texture, part: Part, usage: TextureUsage) -> Option<TexelRows> {
        let Placed { shape, memory, base, label, space_label } = self.placed(What::Texture, texture.0)?;
        let Shape::Texture(desc) = shape else { return None };
        let found = subresource(&self.profile, &desc, (part.mip, part.layer), part.aspect);
        let Some(found) = found.filter(|found| fits(&part, found)) else {
            return self.refuse(HazardKind::OutOfRange, label, "a region outside of the texture");
        };
        if !is_whole_blocks(&part, &found) {
            return self.refuse(HazardKind::Unaligned, label, "a region with partial blocks of texels");
        }
        let is_part = part.first != [0; 3] || part.extent != found.extent;
        if is_part && part.aspect != TextureAspect::Color && !self.profile.capabilities.partial_depth_copies {
            return self.refuse(HazardKind::Misuse, label, "part of a mip level of depth or stencil");
        }
        if !desc.usage.contains(usage) {
            return self.refuse(HazardKind::Misuse, label, "a texture without this usage");
        }
        let [across, down] = found.block;
        let ([x, y, z], [width, height, depth]) = (part.first, part.extent);
        let (pitch, slice_pitch) = (found.row_bytes(), found.slice_bytes());
        let in_slice = u64::from(y / down) * pitch + u64::from(x / across) * found.block_bytes;
        let first = base + found.offset + u64::from(z) * slice_pitch + in_slice;
        Some(TexelRows {
            first: Rows { first: Address { memory, offset: first }, pitch },
            row_bytes: u64::from(width.div_ceil(across)) * found.block_bytes,
            count: u64::from(height.div_ceil(down)),
            slices: u64::from(depth),
            slice_pitch,
            block_bytes: found.block_bytes,
            aspect: part.aspect,
            is_whole: !is_part,
            is_planar: desc.format.texels().aspects().bits().count_ones() > 1,
            label,
            space_label,
        })
    }

    /// If the texture is multisampled, reports its copy to or from a buffer, which no device supports, and returns
    /// `None`.
    fn check_single_sample(&mut self, texture: Texture) -> Option<()> {
        if self.texture_desc(texture)?.samples == 1 {
            return Some(());
        }
        let label = self.resources.get(&texture.0)?.label.clone();
        self.refuse(HazardKind::Misuse, label, "a multisampled texture copied to or from a buffer")
    }

    /// Checks Vulkan's rules for texels in a buffer: offsets are multiples of the block size (for depth and stencil, of
    /// 4 bytes), and rows have whole blocks. If a rule is broken, reports a hazard and returns `None`. Strict devices
    /// do not have these rules.
    fn check_blocks(&mut self, buffer: Buffer, layout: BufferLayout, texels: &TexelRows) -> Option<()> {
        let unit = if texels.aspect == TextureAspect::Color { texels.block_bytes } else { 4 };
        // Vulkan measures rows and offsets in texels; Direct3D 12 measures them in bytes.
        let in_texels = layout.offset.is_multiple_of(unit) && layout.row_bytes.is_multiple_of(texels.block_bytes);
        if self.profile.strict || in_texels {
            return Some(());
        }
        let label = self.label_of(What::Buffer, buffer.0);
        self.refuse(HazardKind::Unaligned, label, "the offset or row of texels is not a multiple of a block")
    }
}

/// Returns `true` if the part is not empty and inside its mip level.
fn fits(part: &Part, found: &Subresource) -> bool {
    let inside = |axis: usize| {
        let (first, count) = (part.first[axis], part.extent[axis]);
        count > 0 && first.checked_add(count).is_some_and(|end| end <= found.extent[axis])
    };
    (0..3).all(inside)
}

/// Returns `true` if the part starts at a block boundary, and ends at a block boundary or at the edge of the mip level.
/// The part must be inside the mip level.
fn is_whole_blocks(part: &Part, found: &Subresource) -> bool {
    (0..2).all(|axis| {
        let (first, end, block) = (part.first[axis], part.first[axis] + part.extent[axis], found.block[axis]);
        first.is_multiple_of(block) && (end.is_multiple_of(block) || end == found.extent[axis])
    })
}
