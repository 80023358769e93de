//! The bytes that a command uses, and checks of their use. If a check fails, the function reports a hazard and returns
//! `None`.

use super::command::{BufferLayout, BufferRange, DescriptorUse};
use super::hazard::{Hazard, HazardKind};
use super::ids::{Buffer, Label, What};
use super::objects::Shape;
use super::order::Access;
use super::state::State;
use super::step::{Address, Rows, Step, Uses};
use ringfence_hal::{BufferDesc, BufferUsage, TextureAspect};
use std::ops::Range;

/// A placed resource: its description and its location.
pub(super) struct Placed {
    pub(super) shape: Shape,
    pub(super) memory: u64,
    /// Offset of the resource in the memory, in bytes.
    pub(super) base: u64,
    pub(super) label: Label,
    /// Label of the memory.
    pub(super) space_label: Label,
}

/// Returns the rule that this use of a buffer breaks. Returns `None` if it breaks none. Does not check the location of
/// the buffer.
fn misused(desc: BufferDesc, range: BufferRange, usage: Option<BufferUsage>) -> Option<(HazardKind, &'static str)> {
    if range.size == 0 {
        Some((HazardKind::Misuse, "a range of size 0"))
    } else if range.offset.saturating_add(range.size) > desc.size {
        Some((HazardKind::OutOfRange, "a range beyond the end of the buffer"))
    } else if usage.is_some_and(|usage| !desc.usage.contains(usage)) {
        Some((HazardKind::Misuse, "a buffer without this usage"))
    } else {
        None
    }
}

impl State {
    /// Reports a slot that does not exist or is empty.
    pub(super) fn report_slot(&mut self, heap: Label, slot: u32) {
        let range = u64::from(slot)..u64::from(slot) + 1;
        let hazard = Hazard::about(HazardKind::OutOfRange, heap.clone()).within(heap, range);
        self.report(hazard.detail("a slot that does not exist or is empty"));
    }

    /// Returns a buffer or texture with its location. Reports a hazard and returns `None` unless the resource is alive
    /// and placed and its memory is alive.
    pub(super) fn placed(&mut self, what: What, id: u64) -> Option<Placed> {
        let held = self.resources.get(&id).filter(|held| held.label.what == what);
        let Some((held, (memory, base))) = held.and_then(|held| Some((held, held.location?))) else {
            self.report_stale(what, id, "");
            return None;
        };
        let (shape, label) = (held.shape.clone(), held.label.clone());
        let Some(object) = self.memories.get(&memory) else {
            self.report_stale(What::Memory, memory, "a resource in it was used");
            return None;
        };
        Some(Placed { shape, memory, base, label, space_label: object.label.clone() })
    }

    /// Returns the bytes of a buffer range. Reports a hazard and returns `None` unless:
    ///
    /// - the buffer is alive and placed, and its memory is alive;
    /// - the range is not empty and is inside the buffer, and for a sparse buffer, inside one bound page;
    /// - the buffer has `usage`, if this is not `None`.
    pub(super) fn buffer_access(
        &mut self,
        range: BufferRange,
        usage: Option<BufferUsage>,
        writes: bool,
    ) -> Option<Access> {
        let BufferRange { buffer, offset, size } = range;
        if self.is_sparse(buffer.0) {
            return self.sparse_access(range, usage, writes);
        }
        let Placed { shape, memory, base, label, space_label } = self.placed(What::Buffer, buffer.0)?;
        let Shape::Buffer(desc) = shape else { return None };
        let start = base.saturating_add(offset);
        let place = start..start.saturating_add(size);
        if let Some((kind, detail)) = misused(desc, range, usage) {
            self.report(Hazard::about(kind, label).within(space_label, place).detail(detail));
            return None;
        }
        Some(Access { space: memory, range: place, writes, label, space_label })
    }

    /// Returns the accesses of a descriptor use: to the slot, and to the bytes that the slot refers to at submission.
    pub(super) fn descriptor_accesses(&mut self, used: DescriptorUse) -> Option<Vec<Access>> {
        let Some(heap) = self.descriptor_heaps.get(&used.heap.0) else {
            self.report_stale(What::DescriptorHeap, used.heap.0, "");
            return None;
        };
        let label = heap.label.clone();
        if !self.is_visible(used.heap) {
            return self.refuse(HazardKind::Misuse, label, "a kernel uses a heap that is not shader-visible");
        }
        let Some(shown) = self.descriptor(used.heap, used.slot).cloned() else {
            self.report_slot(label, used.slot);
            return None;
        };
        let slot = u64::from(used.slot);
        let space_label = label.clone();
        let slot = Access { space: used.heap.0, range: slot..slot + 1, writes: false, label, space_label };
        if let Some(dead) = self.dead_behind(&shown) {
            let hazard = Hazard::about(HazardKind::Stale, dead).within(slot.space_label, slot.range);
            self.report(hazard.detail("a slot still refers to it"));
            return None;
        }
        Some(vec![slot, Access { writes: used.writes, ..shown }])
    }

    /// Returns the label of the resource or memory of a descriptor if that resource or memory is no longer alive.
    /// Returns `None` otherwise, and for samplers.
    fn dead_behind(&self, shown: &Access) -> Option<Label> {
        let Label { what, id, .. } = shown.label;
        if what == What::DescriptorHeap {
            None
        } else if !self.resources.contains_key(&id) {
            Some(self.dead_label(what, id))
        } else if !self.memories.contains_key(&shown.space) {
            Some(shown.space_label.clone())
        } else {
            None
        }
    }

    pub(super) fn copy_step(&mut self, src: BufferRange, dst: BufferRange, uses: &mut Uses) -> Option<Step> {
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

    /// Returns the bytes of a range of a sparse buffer, like [`State::buffer_access`].
    pub(super) fn sparse_access(
        &mut self,
        range: BufferRange,
        usage: Option<BufferUsage>,
        writes: bool,
    ) -> Option<Access> {
        let BufferRange { buffer, offset, size } = range;
        let page_bytes = self.profile.page_bytes;
        let resource = self.resources.get(&buffer.0)?;
        let label = resource.label.clone();
        let Shape::Buffer(desc) = resource.shape else { return None };
        let page = resource.pages.as_ref().and_then(|pages| pages.get((offset / page_bytes) as usize).copied());
        let behind = page.flatten().and_then(|(memory, first)| Some((memory, first, self.memories.get(&memory)?)));
        let wrong = if let Some(wrong) = misused(desc, range, usage) {
            wrong
        } else if offset % page_bytes + size > page_bytes {
            (HazardKind::Misuse, "only copies and fills may use more than one page of a sparse buffer")
        } else if let Some((memory, first, object)) = behind {
            let start = first + offset % page_bytes;
            let place: Range<u64> = start..start + size;
            return Some(Access { space: memory, range: place, writes, label, space_label: object.label.clone() });
        } else {
            (HazardKind::Misuse, "only copies and fills may use an unbound page")
        };
        self.refuse(wrong.0, label, wrong.1)
    }

    /// Checks the layout of texels in a buffer. If the layout is invalid, reports a hazard and returns `None`.
    pub(super) fn check_layout(
        &mut self,
        buffer: Buffer,
        layout: BufferLayout,
        (is_planar, texel_row_bytes): (bool, u64),
    ) -> Option<()> {
        let capabilities = &self.profile.capabilities;
        let rows = capabilities.copy_row_alignment(if is_planar { TextureAspect::Depth } else { TextureAspect::Color });
        let is_aligned = layout.offset.is_multiple_of(capabilities.texture_copy_offset_alignment)
            && layout.row_bytes.is_multiple_of(rows);
        let label = self.label_of(What::Buffer, buffer.0);
        if self.profile.strict && !is_aligned {
            return self.refuse(HazardKind::Unaligned, label, "the offset or row of a texture copy");
        }
        if layout.row_bytes < texel_row_bytes {
            return self.refuse(HazardKind::Misuse, label, "overlapping rows of a texture copy");
        }
        Some(())
    }

    pub(super) fn fill_step(&mut self, dst: BufferRange, value: u8, uses: &mut Uses) -> Option<Step> {
        if self.is_unbound(dst) {
            return None;
        }
        let access = self.buffer_access(dst, Some(BufferUsage::COPY_DST), true)?;
        let step = Step::Fill { dst: Address::of(&access), size: dst.size, value };
        uses.push(access);
        Some(step)
    }

    /// Returns `true` if the range begins in an unbound page.
    pub(super) fn is_unbound(&self, range: BufferRange) -> bool {
        let page = (range.offset / self.profile.page_bytes) as usize;
        let pages = self.resources.get(&range.buffer.0).and_then(|held| held.pages.as_ref());
        pages.is_some_and(|pages| pages.get(page).is_some_and(Option::is_none))
    }
}
