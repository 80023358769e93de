//! Sparse buffers on the simulated device, and what they have in common with its [sparse textures](super::tiles).
//!
//! ```text
//!   buffer #9, pages   │ memory 3 + 64 Ki │ none │ memory 3 │
//!   a copy of 100 KiB at 32 KiB ──▶ a part a page ──▶ steps over addresses, as of any buffer
//! ```
//!
//! Pages are looked up when work is submitted, as binding comes before it in its queue: what was looked up outlives the
//! binding, so that memory which is given to others too early is seen to be.

use std::ops::Range;

use super::Device;
use super::check::{Address, Step, Uses};
use super::command::{BufferRange, Command};
use super::hazard::{Hazard, HazardKind};
use super::ids::{Buffer, Fence, Memory, Texture, What};
use super::layout::buffer_requirements;
use super::order::Access;
use super::state::{Placement, Shape, State};
use ringfence_hal::sparse::{PageBind, Sparse, SparseNeeds, SparseSupport, TextureTiling, TileBind, UnboundReads};
use ringfence_hal::{BufferDesc, BufferUsage, DeviceError, TextureDesc};

/// A part of a copy or a fill that touches one page of each buffer.
pub(super) enum Part {
    Copy { src: BufferRange, dst: BufferRange },
    Fill { dst: BufferRange, value: u8 },
}

// SAFETY: as for `Driver`: a page lies in memory that the device view of a memory object holds.
unsafe impl Sparse for Device {
    /// The number of the queue.
    type BindQueue = usize;

    fn sparse_support(&self) -> Option<SparseSupport> {
        self.profile().sparse.map(|unbound_reads| SparseSupport { unbound_reads })
    }

    unsafe fn make_sparse(&self, info: &BufferDesc) -> Result<(Buffer, SparseNeeds), DeviceError> {
        self.with(|state| state.make_sparse(info))
    }

    unsafe fn bind_pages(
        &self,
        queue: &usize,
        buffer: &Buffer,
        binds: &[PageBind<'_, Memory>],
        waits: &[(Fence, u64)],
        signal: (Fence, u64),
    ) -> Result<(), DeviceError> {
        self.with(|state| {
            state.submit(*queue, waits, Vec::new(), signal)?;
            let page_bytes = state.profile.page_bytes;
            for bind in binds {
                let (first, count) = (bind.offset / page_bytes, bind.size / page_bytes);
                state.bind((What::Buffer, buffer.0), first, count, bind.memory);
            }
            Ok(())
        })
    }

    fn sparse_texture_support(&self) -> Option<SparseSupport> {
        self.sparse_support()
    }

    unsafe fn make_sparse_texture(&self, info: &TextureDesc) -> Result<(Texture, TextureTiling), DeviceError> {
        self.with(|state| state.make_sparse_texture(info))
    }

    unsafe fn bind_tiles(
        &self,
        queue: &usize,
        (texture, tiling): (&Texture, &TextureTiling),
        binds: &[TileBind<'_, Memory>],
        waits: &[(Fence, u64)],
        signal: (Fence, u64),
    ) -> Result<(), DeviceError> {
        self.with(|state| {
            state.submit(*queue, waits, Vec::new(), signal)?;
            for bind in binds {
                state.bind((What::Texture, texture.0), tiling.page(bind.place), bind.count, bind.memory);
            }
            Ok(())
        })
    }
}

impl State {
    fn make_sparse(&mut self, info: &BufferDesc) -> Result<(Buffer, SparseNeeds), DeviceError> {
        self.check_alive()?;
        if self.profile.sparse.is_none() {
            return Err(DeviceError::Unsupported("sparse buffers"));
        }
        self.counts.create_buffer += 1;
        let page_bytes = self.profile.page_bytes;
        let mut needs = buffer_requirements(&self.profile, info)?;
        needs.size = needs.size.checked_next_multiple_of(page_bytes).ok_or(DeviceError::OutOfDeviceMemory)?;
        needs.alignment = page_bytes;
        let pages = usize::try_from(needs.size / page_bytes).map_err(|_| DeviceError::OutOfHostMemory)?;
        let id = self.prepare(Shape::Buffer(BufferDesc { size: needs.size, ..*info }), needs);
        if let Some(held) = self.resources.get_mut(&id) {
            held.pages = Some(vec![None; pages].into_boxed_slice());
        }
        let (size, memory_type_bits) = (needs.size, needs.memory_type_bits);
        Ok((Buffer(id), SparseNeeds { size, page_bytes, memory_type_bits }))
    }

    /// Binds pages that follow each other, or unbinds them.
    fn bind(&mut self, resource: (What, u64), first: u64, count: u64, memory: Option<(&Memory, u64)>) {
        let page_bytes = self.profile.page_bytes;
        for step in 0..count {
            let memory = memory.map(|(memory, first)| (self.root(memory.0), first + step * page_bytes));
            self.bind_page(resource, (first + step) as usize, memory);
        }
    }

    fn bind_page(&mut self, (what, id): (What, u64), page: usize, memory: Option<(u64, u64)>) {
        let Some(resource) = self.resources.get(&id).cloned() else {
            return self.report_stale(what, id, "bound");
        };
        let Some(held) = resource.pages.as_ref().and_then(|pages| pages.get(page)) else {
            let hazard = Hazard::about(HazardKind::OutOfRange, resource.label);
            return self.report(hazard.detail("a page that a sparse resource has not"));
        };
        let page_bytes = self.profile.page_bytes;
        if let Some((old, offset)) = *held
            && let Some(object) = self.memories.get_mut(&old)
        {
            object.placed.remove(&(offset, id));
        }
        if let Some((new, offset)) = memory {
            let range = offset..offset + page_bytes;
            let is_inside = self.memories.get(&new).is_some_and(|object| range.end <= object.size);
            if !is_inside || !offset.is_multiple_of(page_bytes) {
                let hazard = Hazard::about(HazardKind::OutOfRange, resource.label);
                return self.report(hazard.detail("a page behind which there is no memory, or not aligned"));
            }
            self.watch_place(&resource, new, &range);
            if let Some(object) = self.memories.get_mut(&new) {
                let class = resource.requirements.class;
                object.placed.insert((offset, id), Placement { end: range.end, class });
                object.longest = object.longest.max(page_bytes);
            }
        }
        if let Some(slot) = self.resources.get_mut(&id).and_then(|held| held.pages.as_mut()?.get_mut(page)) {
            *slot = memory;
        }
    }

    /// The resource is destroyed: its pages are free for others.
    pub(super) fn take_pages_away(&mut self, id: u64, pages: &[Option<(u64, u64)>], page_bytes: u64) {
        for (memory, offset) in pages.iter().flatten() {
            let range = *offset..offset + page_bytes;
            self.report_pending(HazardKind::DestroyedWhilePending, *memory, &range, |access| access.label.id == id);
            if let Some(object) = self.memories.get_mut(memory) {
                object.placed.remove(&(*offset, id));
            }
        }
    }

    pub(super) fn is_sparse(&self, buffer: Buffer) -> bool {
        self.resources.get(&buffer.0).is_some_and(|held| held.pages.is_some())
    }

    /// The parts of a copy or a fill of sparse buffers; any other command as it is.
    pub(super) fn by_page(&self, command: Command) -> Result<Vec<Part>, Command> {
        match command {
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size }
                if self.is_sparse(src) || self.is_sparse(dst) =>
            {
                let cut = |at: u64| {
                    let left = self.left_of_page(src, src_offset + at).min(self.left_of_page(dst, dst_offset + at));
                    left.min(size - at)
                };
                let part = |at: u64, size: u64| Part::Copy {
                    src: BufferRange::new(src, src_offset + at, size),
                    dst: BufferRange::new(dst, dst_offset + at, size),
                };
                Ok(parts(size, cut, part))
            }
            Command::FillBuffer { dst, offset, size, value } if self.is_sparse(dst) => {
                let cut = |at: u64| self.left_of_page(dst, offset + at).min(size - at);
                let part = |at: u64, size: u64| Part::Fill { dst: BufferRange::new(dst, offset + at, size), value };
                Ok(parts(size, cut, part))
            }
            command => Err(command),
        }
    }

    /// Bytes from here to the end of the page; as many as there may be where there are no pages.
    fn left_of_page(&self, buffer: Buffer, offset: u64) -> u64 {
        let page_bytes = self.profile.page_bytes;
        if self.is_sparse(buffer) { page_bytes - offset % page_bytes } else { u64::MAX }
    }

    /// The step of a part. What is written to a page without memory is lost; what is read there is zeros, or on devices
    /// that promise less, poison.
    pub(super) fn check_part(&mut self, part: Part, uses: &mut Uses) -> Option<Step> {
        match part {
            Part::Fill { dst, value } => self.fill_step(dst, value, uses),
            Part::Copy { src, dst } if self.is_unbound(src) => {
                let zero = self.profile.sparse == Some(UnboundReads::Zero);
                self.fill_step(dst, if zero { 0 } else { self.poison }, uses)
            }
            Part::Copy { dst, .. } if self.is_unbound(dst) => None,
            Part::Copy { src, dst } => {
                let (src, src_offset, size) = (src.buffer, src.offset, src.size);
                self.check(Command::CopyBuffer { src, src_offset, dst: dst.buffer, dst_offset: dst.offset, size }, uses)
            }
        }
    }

    fn fill_step(&mut self, dst: BufferRange, value: u8, uses: &mut Uses) -> Option<Step> {
        if self.is_unbound(dst) {
            return None;
        }
        let access = self.buffer_access(dst, Some(BufferUsage::COPY_DST), true)?;
        let step = Step::Fill { dst: Address::of(&access), size: dst.size, value };
        uses.push(access);
        Some(step)
    }

    /// Whether the range begins in a page without memory.
    fn is_unbound(&self, range: BufferRange) -> bool {
        let page = (range.offset / self.profile.page_bytes) as usize;
        let pages = self.resources.get(&range.buffer.0).and_then(|held| held.pages.as_ref());
        pages.is_some_and(|pages| pages.get(page).is_some_and(Option::is_none))
    }

    /// As [`State::buffer_access`], for a range inside one page of a sparse buffer.
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
        let wrong = if page.is_none() || size == 0 || offset.saturating_add(size) > desc.size {
            (HazardKind::OutOfRange, "a range of no bytes, or beyond the end of the buffer")
        } else if usage.is_some_and(|usage| !desc.usage.contains(usage)) {
            (HazardKind::Misuse, "a buffer not made for this usage")
        } else if offset % page_bytes + size > page_bytes {
            (HazardKind::Misuse, "more than a page of a sparse buffer, which only copies and fills may use at once")
        } else if let Some((memory, first, object)) = behind {
            let start = first + offset % page_bytes;
            let place: Range<u64> = start..start + size;
            return Some(Access { space: memory, range: place, writes, label, space_label: object.label.clone() });
        } else {
            (HazardKind::Misuse, "a page without memory, which only copies and fills may use")
        };
        self.report(Hazard::about(wrong.0, label).detail(wrong.1));
        None
    }
}

/// Cuts `size` bytes into parts.
fn parts(size: u64, cut: impl Fn(u64) -> u64, part: impl Fn(u64, u64) -> Part) -> Vec<Part> {
    let (mut at, mut found) = (0, Vec::new());
    while at < size {
        let length = cut(at);
        found.push(part(at, length));
        at += length;
    }
    found
}
