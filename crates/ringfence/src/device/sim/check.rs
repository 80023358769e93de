//! Turns the commands of a submission into steps over addresses, and finds what is wrong with them.
//!
//! A command with a mistake is reported and left out. The rest becomes [`Step`]s, which name memory and offset: like
//! an address in recorded GPU work, they outlive the object that they were taken from.

use super::command::{BufferLayout, BufferRange, Command, DescriptorUse, Kernel, KernelFn, TextureRegion};
use super::hazard::{Hazard, HazardKind};
use super::ids::{Buffer, Label, Texture, What};
use super::layout::{Subresource, subresource};
use super::order::Access;
use super::state::{Shape, State};
use crate::device::{BufferUsage, TextureDesc, TextureUsage};

/// A place in a memory object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Address {
    pub(super) memory: u64,
    pub(super) offset: u64,
}

impl Address {
    pub(super) fn of(access: &Access) -> Self {
        Self { memory: access.space, offset: access.range.start }
    }
}

/// Rows of equal length at equal distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) first: Address,
    pub(super) pitch: u64,
}

/// What a queue does when its turn comes.
pub(super) enum Step {
    Copy { src: Rows, dst: Rows, row_bytes: u64, rows: u64 },
    Fill { dst: Address, size: u64, value: u8 },
    Kernel { reads: Vec<Access>, writes: Vec<Access>, descriptors: Vec<DescriptorUse>, run: KernelFn },
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Copy { .. } => "Copy",
            Self::Fill { .. } => "Fill",
            Self::Kernel { .. } => "Kernel",
        })
    }
}

/// Collects the uses of a submission.
pub(super) type Uses = Vec<Access>;

impl State {
    /// The steps of a command: one, but for copies and fills of sparse resources, which go page by page.
    pub(super) fn steps(&mut self, command: Command, uses: &mut Uses) -> Vec<Step> {
        let command = match self.by_tile(command, uses) {
            Ok(steps) => return steps,
            Err(command) => command,
        };
        match self.by_page(command) {
            Ok(parts) => parts.into_iter().filter_map(|part| self.check_part(part, uses)).collect(),
            Err(command) => self.check(command, uses).into_iter().collect(),
        }
    }

    /// The step of a command, its uses added to `uses`; `None` if it is wrong, which is then reported.
    pub(super) fn check(&mut self, command: Command, uses: &mut Uses) -> Option<Step> {
        match command {
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size } => {
                self.check_copy(BufferRange::new(src, src_offset, size), BufferRange::new(dst, dst_offset, size), uses)
            }
            Command::FillBuffer { dst, offset, size, value } => {
                let range = BufferRange::new(dst, offset, size);
                let dst = self.buffer_access(range, Some(BufferUsage::COPY_DST), true)?;
                let step = Step::Fill { dst: Address::of(&dst), size, value };
                uses.push(dst);
                Some(step)
            }
            Command::CopyBufferToTexture { src, layout, dst, region } => {
                let (rows, texels) = self.texture_rows(dst, region, TextureUsage::COPY_DST, true)?;
                let (src, src_access) = self.buffer_rows(src, layout, rows, BufferUsage::COPY_SRC, false)?;
                uses.extend([src_access, texels]);
                Some(Step::Copy { src, dst: rows.at, row_bytes: rows.row_bytes, rows: rows.count })
            }
            Command::CopyTextureToBuffer { src, region, dst, layout } => {
                let (rows, texels) = self.texture_rows(src, region, TextureUsage::COPY_SRC, false)?;
                let (dst, dst_access) = self.buffer_rows(dst, layout, rows, BufferUsage::COPY_DST, true)?;
                uses.extend([texels, dst_access]);
                Some(Step::Copy { src: rows.at, dst, row_bytes: rows.row_bytes, rows: rows.count })
            }
            Command::CopyTexture { src, dst, mip, layer } => self.check_texture_copy((src, dst), (mip, layer), uses),
            Command::Kernel(kernel) => self.check_kernel(kernel, uses),
            // Carried out with the submission.
            Command::Release { .. } | Command::Acquire { .. } | Command::Barrier(_) => None,
        }
    }

    fn check_copy(&mut self, src: BufferRange, dst: BufferRange, uses: &mut Uses) -> Option<Step> {
        let from = self.buffer_access(src, Some(BufferUsage::COPY_SRC), false)?;
        let to = self.buffer_access(dst, Some(BufferUsage::COPY_DST), true)?;
        if from.space == to.space && from.range.start < to.range.end && to.range.start < from.range.end {
            let hazard = Hazard::about(HazardKind::Misuse, to.label).other(from.label);
            let hazard = hazard.within(to.space_label, to.range).detail("a copy between overlapping ranges");
            self.report(hazard);
            return None;
        }
        let rows = |access: &Access| Rows { first: Address::of(access), pitch: src.size };
        let step = Step::Copy { src: rows(&from), dst: rows(&to), row_bytes: src.size, rows: 1 };
        uses.extend([from, to]);
        Some(step)
    }

    fn check_texture_copy(
        &mut self,
        (src, dst): (Texture, Texture),
        (mip, layer): (u32, u32),
        uses: &mut Uses,
    ) -> Option<Step> {
        let desc = |texture: Texture| match self.resources.get(&texture.0)?.shape {
            Shape::Texture(desc) => Some(desc),
            Shape::Buffer(_) => None,
        };
        let shape = |desc: TextureDesc| (desc.width, desc.height, desc.mips, desc.layers, desc.samples, desc.format);
        let (from, to) = (desc(src), desc(dst));
        if let (Some(from), Some(to)) = (from, to)
            && shape(from) != shape(to)
        {
            let label = self.resources.get(&dst.0).map(|held| held.label.clone());
            let hazard = Hazard::about(HazardKind::Misuse, label.unwrap_or(Label::unnamed(What::Texture, dst.0)));
            self.report(hazard.detail("a copy between textures of different shapes"));
            return None;
        }
        let region = TextureRegion::whole(&from.unwrap_or_default(), mip, layer);
        let (rows, read) = self.texture_rows(src, region, TextureUsage::COPY_SRC, false)?;
        let (into, written) = self.texture_rows(dst, region, TextureUsage::COPY_DST, true)?;
        uses.extend([read, written]);
        Some(Step::Copy { src: rows.at, dst: into.at, row_bytes: rows.row_bytes, rows: rows.count })
    }

    fn check_kernel(&mut self, kernel: Kernel, uses: &mut Uses) -> Option<Step> {
        let Kernel { reads, writes, descriptors, run } = kernel;
        let reads: Option<Vec<_>> = reads.into_iter().map(|range| self.buffer_access(range, None, false)).collect();
        let writes: Option<Vec<_>> = writes.into_iter().map(|range| self.buffer_access(range, None, true)).collect();
        let shown: Option<Vec<_>> = descriptors.iter().map(|&held| self.descriptor_accesses(held)).collect();
        let (reads, writes, shown) = (reads?, writes?, shown?);
        uses.extend(reads.iter().chain(&writes).chain(shown.iter().flatten()).cloned());
        Some(Step::Kernel { reads, writes, descriptors, run })
    }

    /// The slot itself, and what it shows at submission.
    fn descriptor_accesses(&mut self, used: DescriptorUse) -> Option<Vec<Access>> {
        let Some(heap) = self.descriptor_heaps.get(&used.heap.0) else {
            self.report_stale(What::DescriptorHeap, used.heap.0, "");
            return None;
        };
        let label = heap.label.clone();
        if !self.is_visible(used.heap) {
            let hazard = Hazard::about(HazardKind::Misuse, label);
            self.report(hazard.detail("a kernel through a heap that shaders do not see"));
            return None;
        }
        let Some(shown) = self.descriptor(used.heap, used.slot).cloned() else {
            self.report_slot(label, used.slot);
            return None;
        };
        let slot = u64::from(used.slot);
        let space_label = label.clone();
        let slot = Access { space: used.heap.0, range: slot..slot + 1, writes: false, label, space_label };
        Some(vec![slot, Access { writes: used.writes, ..shown }])
    }

    /// Reports a slot that does not exist or shows nothing.
    pub(super) fn report_slot(&mut self, heap: Label, slot: u32) {
        let range = u64::from(slot)..u64::from(slot) + 1;
        let hazard = Hazard::about(HazardKind::OutOfRange, heap.clone()).within(heap, range);
        self.report(hazard.detail("a slot that does not exist or shows nothing"));
    }

    /// The bytes of a buffer's range, if it is alive, placed, long enough and made for `usage`.
    pub(super) fn buffer_access(
        &mut self,
        range: BufferRange,
        usage: Option<BufferUsage>,
        writes: bool,
    ) -> Option<Access> {
        let BufferRange { buffer, offset, size } = range;
        if self.is_sparse(buffer) {
            return self.sparse_access(range, usage, writes);
        }
        let resource = self.resources.get(&buffer.0);
        let Some((resource, (memory, base), Shape::Buffer(desc))) =
            resource.and_then(|held| Some((held, held.place?, held.shape)))
        else {
            self.report_stale(What::Buffer, buffer.0, "");
            return None;
        };
        let label = resource.label.clone();
        let Some(object) = self.memories.get(&memory) else {
            self.report_stale(What::Memory, memory, "a resource in it was used");
            return None;
        };
        let space_label = object.label.clone();
        let end = offset.saturating_add(size);
        let start = base.saturating_add(offset);
        let place = start..start.saturating_add(size);
        let wrong = if size == 0 {
            Some((HazardKind::Misuse, "a range of size 0"))
        } else if end > desc.size {
            Some((HazardKind::OutOfRange, "a range beyond the end of the buffer"))
        } else if usage.is_some_and(|usage| !desc.usage.contains(usage)) {
            Some((HazardKind::Misuse, "a buffer not made for this usage"))
        } else {
            None
        };
        if let Some((kind, detail)) = wrong {
            self.report(Hazard::about(kind, label).within(space_label, place).detail(detail));
            return None;
        }
        Some(Access { space: memory, range: place, writes, label, space_label })
    }

    /// Where the texels of a region lie in their texture.
    fn texture_rows(
        &mut self,
        texture: Texture,
        region: TextureRegion,
        usage: TextureUsage,
        writes: bool,
    ) -> Option<(TexelRows, Access)> {
        let resource = self.resources.get(&texture.0);
        let Some((resource, (memory, base), Shape::Texture(desc))) =
            resource.and_then(|held| Some((held, held.place?, held.shape)))
        else {
            self.report_stale(What::Texture, texture.0, "");
            return None;
        };
        let label = resource.label.clone();
        let Some(object) = self.memories.get(&memory) else {
            self.report_stale(What::Memory, memory, "a resource in it was used");
            return None;
        };
        let space_label = object.label.clone();
        let part = subresource(&self.profile, &desc, region.mip, region.layer).filter(|part| fits(region, part));
        let Some(part) = part else {
            let hazard = Hazard::about(HazardKind::OutOfRange, label).detail("a region that the texture does not have");
            self.report(hazard);
            return None;
        };
        if !desc.usage.contains(usage) {
            self.report(Hazard::about(HazardKind::Misuse, label).detail("a texture not made for this usage"));
            return None;
        }
        let row_bytes = u64::from(region.width) * part.texel_bytes;
        let pitch = part.row_bytes();
        let first = base + part.offset + u64::from(region.y) * pitch + u64::from(region.x) * part.texel_bytes;
        let count = u64::from(region.height);
        let at = Rows { first: Address { memory, offset: first }, pitch };
        let range = first..first + (count - 1) * pitch + row_bytes;
        Some((TexelRows { at, row_bytes, count }, Access { space: memory, range, writes, label, space_label }))
    }

    /// Where the texels of a region lie in a buffer.
    fn buffer_rows(
        &mut self,
        buffer: Buffer,
        layout: BufferLayout,
        texels: TexelRows,
        usage: BufferUsage,
        writes: bool,
    ) -> Option<(Rows, Access)> {
        self.check_layout(buffer, layout, texels.row_bytes)?;
        let size = (texels.count - 1).saturating_mul(layout.row_bytes).saturating_add(texels.row_bytes);
        let access = self.buffer_access(BufferRange::new(buffer, layout.offset, size), Some(usage), writes)?;
        Some((Rows { first: Address::of(&access), pitch: layout.row_bytes }, access))
    }

    /// Whether texels may lie in a buffer in this way; `None` if not, which is then reported.
    pub(super) fn check_layout(&mut self, buffer: Buffer, layout: BufferLayout, texel_row_bytes: u64) -> Option<()> {
        let capabilities = &self.profile.capabilities;
        let is_aligned = layout.offset.is_multiple_of(capabilities.texture_copy_offset_alignment)
            && layout.row_bytes.is_multiple_of(capabilities.texture_copy_row_alignment);
        let label = self.resources.get(&buffer.0).map(|held| held.label.clone());
        let label = label.unwrap_or(Label::unnamed(What::Buffer, buffer.0));
        if self.profile.strict && !is_aligned {
            let hazard = Hazard::about(HazardKind::Unaligned, label);
            self.report(hazard.detail("the offset or row of a texture copy"));
            return None;
        }
        if layout.row_bytes < texel_row_bytes {
            let hazard = Hazard::about(HazardKind::Misuse, label);
            self.report(hazard.detail("rows of a texture copy that overlap"));
            return None;
        }
        Some(())
    }
}

/// The rows of a region in its texture.
#[derive(Clone, Copy)]
struct TexelRows {
    at: Rows,
    row_bytes: u64,
    count: u64,
}

/// Whether the region has texels and all of them are in the mip.
fn fits(region: TextureRegion, part: &Subresource) -> bool {
    let inside =
        |first: u32, count: u32, side: u32| count > 0 && first.checked_add(count).is_some_and(|end| end <= side);
    inside(region.x, region.width, part.width) && inside(region.y, region.height, part.height)
}
