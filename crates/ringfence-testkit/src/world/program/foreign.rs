//! Steps with shared memory and with sparse memory.

use ringfence::device::sharing::ShareKind;
use ringfence::device::sparse::Sparse;
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::sharing::ShareError;
use ringfence::sim::Device;
use ringfence::sparse::{SparseBuffer, SparseError};
use ringfence::{AllocationDesc, Location, sharing};

use super::super::outcome::{Step, Stop, granted, stop, wrong};
use super::super::thing::{Body, Check, Thing, Use};
use super::Program;
use super::steps::{COPIED, FILLED};
use crate::sim::SimGpu;
use crate::{Command, Gpu};

/// A sparse buffer, and the expected contents of its pages.
pub struct Pages {
    buffer: SparseBuffer<Device>,
    /// For each page, the word that fills its first [`SHOWN`] bytes; `None` if the page is not bound.
    words: Vec<Option<u32>>,
    last: Option<Use>,
}

const PAGE_COUNT: u64 = 24;
/// Size of the part of a page that is written and read back, in bytes.
const SHOWN: u64 = 256;

impl Program {
    /// Exports a buffer and imports it again. Writes through one and reads through the other. Keeps the import.
    pub fn share(&mut self) -> Step {
        if self.things.len() > 60 {
            return Ok(());
        }
        let (queue, size) = (self.queue(), self.dice.size());
        let bytes = self.dice.bytes(size);
        let info = Create::<Buffers>::describe(self.memory.device(), &BufferDesc { size: size as u64, usage: FILLED });
        let info = info.map_err(stop)?;
        let works = |kind: &ShareKind| {
            let support = sharing::buffer_support(&self.memory, &info, *kind);
            support.can_export && support.can_import
        };
        let Some(kind) = SimGpu::SHARE_KINDS.iter().copied().find(works) else { return Ok(()) };
        let desc = AllocationDesc { share: Some(kind), name: "exported", ..Default::default() };
        let Some(exported) = granted(self.memory.create_buffer(&info, desc))? else { return Ok(()) };
        let Some((handle, shared_memory)) = shared(exported.export())? else { return Ok(()) };
        let desc = AllocationDesc { name: "imported", ..Default::default() };
        // SAFETY: the handle was just exported, and the host reads neither buffer.
        let imported = shared(unsafe { sharing::import_buffer(&self.memory, &info, handle, &shared_memory, desc) })?;
        let (Some(imported), Some(staged)) = (imported, self.stage(queue, &bytes)?) else { return Ok(()) };
        let by = self.user(queue);
        let (src, src_offset, dst, size) = (staged.buffer, staged.offset, *exported.object(), staged.size);
        self.recording(queue).commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size });
        let mut thing = Thing::new(Body::Buffer(imported), bytes, false);
        thing.written_by(by);
        self.things.push(thing);
        self.figures.made += 2;
        self.figures.imported += 1;
        Ok(())
    }

    /// Binds or unbinds pages of a sparse buffer. Writes newly bound pages, and reads all bound pages back.
    pub fn change_pages(&mut self) -> Step {
        if self.memory.device().sparse_support().is_none() {
            return Ok(());
        }
        let Some(mut pages) = self.pages.take().map_or_else(|| self.make_pages(), |held| Ok(Some(held)))? else {
            return Ok(());
        };
        if self.dice.one_in(12) {
            // The buffer is dropped with its pages, which may be in use.
            drop(pages);
            return Ok(());
        }
        let done = self.bind(&mut pages);
        self.pages = Some(pages);
        done
    }

    fn make_pages(&mut self) -> Result<Option<Pages>, Stop> {
        let describe =
            |size| Create::<Buffers>::describe(self.memory.device(), &BufferDesc { size, usage: COPIED }).map_err(stop);
        let page_bytes = self.gpu.sim().profile().page_bytes;
        let desc = AllocationDesc { name: "sparse", ..Default::default() };
        let made = SparseBuffer::new(&self.memory, &describe(PAGE_COUNT * page_bytes)?, desc);
        let Some(buffer) = granted(made)? else { return Ok(None) };
        self.figures.made += 1;
        Ok(Some(Pages { words: vec![None; buffer.page_count() as usize], buffer, last: None }))
    }

    fn bind(&mut self, pages: &mut Pages) -> Step {
        let queue = self.queue();
        let Some(bind_queue) = self.gpu.bind_queue(queue) else { return Ok(()) };
        self.submit(queue)?;
        let first = self.dice.below(PAGE_COUNT);
        let range = first..(first + 1 + self.dice.below(6)).min(PAGE_COUNT);
        let fresh: Vec<_> = range.clone().filter(|page| pages.words[*page as usize].is_none()).collect();
        let binds = self.dice.below(3) != 0;
        if binds {
            match pages.buffer.bind(range.clone()) {
                Ok(()) => {}
                Err(SparseError::Memory(error)) => return granted::<()>(Err(error)).map(drop),
                Err(other) => return Err(wrong(other)),
            }
        } else {
            pages.buffer.unbind(range.clone()).map_err(wrong)?;
        }
        let waits = self.waits_for(queue, pages.last.as_slice())?;
        let fences: Vec<_> = waits.iter().map(|&(queue, value)| (self.gpu.fence(queue), value)).collect();
        let frame = self.timelines[queue].begin();
        let value = frame.value();
        // SAFETY: the frame is open. All work with the buffer is ordered by `last`.
        unsafe { pages.buffer.submit(&bind_queue, &fences, (self.gpu.fence(queue), value)) }.map_err(stop)?;
        self.submitted(queue, frame, value)?;
        pages.last = Some(Use { queue, value });
        let fresh = if binds { fresh } else { Vec::new() };
        self.figures.pages += fresh.len() as u64;
        for page in range.filter(|_| !binds) {
            pages.words[page as usize] = None;
        }
        self.show(queue, pages, fresh)
    }

    /// Writes the newly bound pages, and reads all bound pages back.
    fn show(&mut self, queue: usize, pages: &mut Pages, fresh: Vec<u64>) -> Step {
        let (dst, page_bytes) = (*pages.buffer.object(), pages.buffer.page_bytes());
        let by = self.user(queue);
        pages.last = Some(by);
        for page in fresh {
            let value = self.dice.any() as u32;
            pages.words[page as usize] = Some(value);
            let fill = Command::FillBuffer { dst, offset: page * page_bytes, size: SHOWN, value };
            self.recording(queue).commands.push(fill);
        }
        let held: Vec<_> = (0..).zip(&pages.words).filter_map(|(page, word)| Some((page, (*word)?))).collect();
        if held.is_empty() {
            return Ok(());
        }
        let Some(back) = self.make(held.len() * SHOWN as usize, BufferUsage::COPY_DST, Location::Readback)? else {
            return Ok(());
        };
        for (at, (page, _)) in (0_u64..).zip(&held) {
            let (src, src_offset, dst_offset): (_, u64, u64) = (dst, page * page_bytes, at * SHOWN);
            let dst = *back.object();
            let copy = Command::CopyBuffer { src, src_offset, dst, dst_offset, size: SHOWN };
            self.recording(queue).commands.push(copy);
        }
        let expected: Vec<u8> =
            held.iter().flat_map(|(_, word)| word.to_le_bytes().repeat(SHOWN as usize / 4)).collect();
        let row = expected.len();
        self.checks.push(Check { back, by, row, pitch: row, expected, what: "sparse pages" });
        Ok(())
    }
}

/// [`granted`] for shared memory.
fn shared<T>(made: Result<T, ShareError>) -> Result<Option<T>, Stop> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(ShareError::Make(error)) => granted(Err(error)),
        Err(ShareError::Device(error)) if error.is_out_of_memory() => Ok(None),
        Err(ShareError::Device(error)) => Err(stop(error)),
        Err(other) => Err(wrong(other)),
    }
}
