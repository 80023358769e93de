//! Steps with resources that exist for one frame, share bytes, or are accessed through a descriptor.

use ringfence::descriptor::{DescriptorError, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind, CpuHandle};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::transient::TransientError;
use ringfence::{AllocationDesc, Location, UploadBatch};

use super::super::outcome::{Step, granted, staged, stop, wrong};
use super::super::thing::{Check, needs};
use super::steps::copy_whole;
use super::{Program, Recording};
use crate::descriptor_work::{DescriptorWork, Job, Slot};
use crate::{Command, Gpu};

impl Program {
    /// Uses transient buffers, which may share bytes, one after the other in one submission of the first queue.
    pub fn transient_frame(&mut self) -> Step {
        self.submit(0)?;
        let rounds = 1 + self.dice.below(3) as usize;
        let (mut parts, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let size = self.dice.size();
            let bytes = self.dice.bytes(size);
            let Some(staged) = self.stage(0, &bytes)? else { return Ok(()) };
            parts.push(staged);
            expected.extend(bytes);
        }
        let back = self.make(expected.len(), BufferUsage::COPY_DST, Location::Readback)?;
        let (Some(back), by) = (back, self.user(0)) else { return Ok(()) };
        let Some(Recording { frame, commands, .. }) = &mut self.open[0] else { return Ok(()) };
        let mut execution = self.transient.begin();
        let mut at = 0;
        for staged in parts {
            let pass = execution.pass(self.timelines[0].id(), &[]).map_err(wrong)?;
            let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
            let desc = BufferDesc { size: staged.size, usage };
            let info = Create::<Buffers>::describe(execution.device(), &desc).map_err(stop)?;
            let held = match execution.acquire_buffer(&info, pass, "") {
                Ok(held) => held,
                Err(TransientError::Memory(error)) => {
                    // The commands that are already recorded are useless, but valid.
                    execution.finish(&[frame.point()]);
                    return granted::<()>(Err(error)).map(drop);
                }
                Err(other) => return Err(wrong(other)),
            };
            let object = *execution.buffer(held).map_err(wrong)?;
            let size = staged.size;
            commands.push(Command::CopyBuffer {
                src: staged.buffer,
                src_offset: staged.offset,
                dst: object,
                dst_offset: 0,
                size,
            });
            let (src, dst) = (object, *back.object());
            commands.push(Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: at, size });
            at += size;
            execution.discard(held, &[]).map_err(wrong)?;
        }
        execution.finish(&[frame.point()]);
        self.transient.end_frame();
        let row = expected.len();
        self.checks.push(Check { back, by, row, pitch: row, expected, what: "transient bytes" });
        self.submit(0)
    }

    /// Fills a buffer through its bindless descriptor, in a separate submission of the first queue.
    pub fn fill_through_descriptor(&mut self, at: usize) -> Step {
        self.submit(0)?;
        let thing = &self.things[at];
        let Some(buffer) = thing.buffer().filter(|_| !thing.is_upload && thing.bytes.len() >= 64) else {
            return Ok(());
        };
        let index = match thing.entry {
            Some(entry) => entry,
            None => {
                let kind = BufferViewKind::Storage { stride: 0, writes: true };
                let size = thing.bytes.len() as u64 / 64 * 64;
                let view = View::buffer(buffer, BufferView { kind, offset: 0, size }).map_err(wrong)?;
                match self.table.insert(&view) {
                    Ok(entry) => entry.into_index(),
                    Err(DescriptorError::TableFull { .. }) => return Ok(()),
                    Err(DescriptorError::Device(error)) => return Err(stop(error)),
                    Err(other) => return Err(wrong(other)),
                }
            }
        };
        let object = *buffer.object();
        self.things[at].entry = Some(index);
        self.order(0, &self.things[at].before_write())?;
        let by = self.user(0);
        let Some(Recording { frame, waits, .. }) = self.open[0].take() else { return Ok(()) };
        let mut binding = match self.heap.bind(&frame) {
            Ok(binding) => binding,
            Err(DescriptorError::Device(error)) => return Err(stop(error)),
            Err(other) => return Err(wrong(other)),
        };
        let value = self.dice.any() as u32;
        let gpu = self.heap.gpu_handle(index.slot(), &frame);
        let to = Slot { index: index.slot(), gpu, cpu: CpuHandle(0), buffer: object };
        let jobs = [Job::Fill { to, words: 16, value }];
        let work = DescriptorWork { binding: &mut binding, slots: self.heap.slots(), jobs: &jobs };
        self.gpu.submit_descriptor_work(0, &waits, work, frame.value()).map_err(stop)?;
        self.submitted(0, frame, by.value)?;
        let thing = &mut self.things[at];
        thing.bytes[..64].chunks_mut(4).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
        thing.written_by(by);
        if self.dice.one_in(3) {
            thing.entry = None;
            self.table.remove(index).map_err(wrong)?;
        }
        Ok(())
    }

    /// Writes dynamic, static and fast constants, and reads them back.
    pub fn constants(&mut self) -> Step {
        let (queue, bytes) = (self.queue(), self.dice.bytes(200));
        let back = self.make(600, BufferUsage::COPY_DST, Location::Readback)?;
        let (Some(back), by) = (back, self.user(queue)) else { return Ok(()) };
        let Some(Recording { frame, commands, .. }) = &mut self.open[queue] else { return Ok(()) };
        let Some(mut dynamic) = staged(self.constants.dynamic(200))? else { return Ok(()) };
        dynamic.set(0, &bytes).map_err(wrong)?;
        let Some(held) = staged(self.constants.create_static(&bytes))? else { return Ok(()) };
        let Some(mut writer) = staged(self.constants.writer(frame))? else { return Ok(()) };
        let Some(mut fast) = staged(self.fast.writer(frame))? else { return Ok(()) };
        let Some(bound) = staged(writer.bind(&dynamic))? else { return Ok(()) };
        let mut batch = UploadBatch::new();
        let uploaded = staged(self.constants.upload_statics(&mut writer, &mut batch))?;
        // If an upload fails, the batch still contains the constants that were staged before.
        commands.push(Command::Upload(Box::new(batch)));
        let (Some(_), Some(pushed)) = (uploaded, staged(fast.write(&bytes))?) else { return Ok(()) };
        let sources =
            [(bound.buffer, bound.offset), (held.bound().buffer, held.bound().offset), (pushed.buffer, pushed.offset)];
        for ((src, src_offset), dst_offset) in sources.into_iter().zip([0, 200, 400]) {
            commands.push(Command::CopyBuffer { src, src_offset, dst: *back.object(), dst_offset, size: 200 });
        }
        let expected = bytes.repeat(3);
        self.checks.push(Check { back, by, row: 600, pitch: 600, expected, what: "constants" });
        Ok(())
    }

    /// Uses two buffers with the same bytes, one after the other, on one queue.
    pub fn aliasing(&mut self) -> Step {
        let queue = self.queue();
        let bytes = self.dice.bytes(4096);
        let Some(staged) = self.stage(queue, &bytes)? else { return Ok(()) };
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let info =
            Create::<Buffers>::describe(self.memory.device(), &BufferDesc { size: 4096, usage }).map_err(stop)?;
        let memory_type = match self.memory.plan().buffer(&info, AllocationDesc::default()) {
            Ok(plan) => plan.memory_type,
            Err(error) => return granted::<()>(Err(error)).map(drop),
        };
        let needs = needs(64 << 10, 64 << 10, 1 << memory_type);
        let Some(mut shared) = granted(self.memory.allocate(needs, AllocationDesc::default()))? else { return Ok(()) };
        let (first, second) =
            (shared.create_aliasing_buffer(&info, 0, ""), shared.create_aliasing_buffer(&info, 0, ""));
        let (Some(first), Some(second)) = (granted(first)?, granted(second)?) else { return Ok(()) };
        let Some(back) = self.make(4096, BufferUsage::COPY_DST, Location::Readback)? else { return Ok(()) };
        let by = self.user(queue);
        let commands = &mut self.recording(queue).commands;
        for to in [&first, &second] {
            let (src, src_offset) = (staged.buffer, staged.offset);
            commands.push(Command::CopyBuffer { src, src_offset, dst: *to.object(), dst_offset: 0, size: 4096 });
        }
        commands.push(copy_whole(&second, &back, 4096));
        self.checks.push(Check { back, by, row: 4096, pitch: 4096, expected: bytes, what: "aliasing bytes" });
        Ok(())
    }
}
