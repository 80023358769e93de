//! Turns the commands of a submission into steps over addresses, and finds what is wrong with them.
//!
//! A command with a mistake is reported and left out. The rest becomes [`Step`]s, which name memory and offset: like
//! an address in recorded GPU work, they outlive the object that they were taken from.

use super::command::{BufferRange, Command, DescriptorUse, Kernel, KernelFn};
use super::hazard::{Hazard, HazardKind};
use super::ids::{Label, What};
use super::order::Access;
use super::state::{Shape, State};
use ringfence_hal::BufferUsage;

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
    /// The steps of a command: one, but for copies and fills of sparse resources, which go page
    /// by page, and copies of texels, which go slice by slice.
    pub(super) fn steps(&mut self, command: Command, uses: &mut Uses) -> Vec<Step> {
        let command = match self.by_tile(command, uses) {
            Ok(steps) => return steps,
            Err(command) => command,
        };
        let command = match self.by_slice(command, uses) {
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
            Command::Kernel(kernel) => self.check_kernel(kernel, uses),
            // Texels were copied slice by slice; the others are carried out with the submission.
            Command::CopyBufferToTexture { .. }
            | Command::CopyTextureToBuffer { .. }
            | Command::CopyBufferToTexels { .. }
            | Command::CopyTexelsToBuffer { .. }
            | Command::CopyTexture { .. }
            | Command::Release { .. }
            | Command::Acquire { .. }
            | Command::Barrier(_) => None,
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
}
