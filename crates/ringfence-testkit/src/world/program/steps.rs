//! The steps of a world with one thread.

use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Driver, TextureDesc, TextureUsage, Textures};
use ringfence::lifetime::{BufferCopy, ReplaceError};
use ringfence::sim::Device;
use ringfence::upload::{Staged, TexelTarget, Texels, UploadError};
use ringfence::{AllocationDesc, Buffer, Dedicated, Location, Texture, UploadBatch};

use super::super::Bug;
use super::super::outcome::{Step, Stop, granted, staged, stop, write, wrong};
use super::super::thing::{Body, Check, Thing};
use super::{Program, Recording};
use crate::{Command, Disc, TextureRegion, draw_reference};

pub const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);
/// Usage of device buffers.
pub const FILLED: BufferUsage = COPIED.union(BufferUsage::STORAGE);

impl Program {
    pub fn step(&mut self) -> Step {
        match self.dice.below(145) {
            0..=17 => self.create(),
            18..=23 => self.create_upload(),
            24..=36 => self.copy(),
            37..=46 => self.pick_and(Self::check),
            47..=59 => self.pick_and(Self::drop_thing),
            60..=64 => self.pick_and(Self::resize),
            65..=70 => self.create_texture(),
            71..=73 => self.draw(),
            74..=79 => self.transient_frame(),
            80..=85 => self.pick_and(Self::fill_through_descriptor),
            86..=88 => self.constants(),
            89..=94 => self.rewrite(),
            95..=105 => self.submit_some(),
            106..=112 => self.upkeep(),
            113..=117 => self.settle_some(),
            118..=120 => self.abandon(),
            121..=123 => self.shake(),
            124..=126 => self.squeeze(),
            127 => self.evict(),
            128 => self.aliasing(),
            129..=131 => self.defragment(),
            132..=137 => self.bring_back(),
            138..=139 => self.share(),
            140..=142 => self.change_pages(),
            143 => self.overrun(),
            _ if self.dice.one_in(3) => {
                self.gpu.sim().lose_device();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn pick_and(&mut self, work: fn(&mut Self, usize) -> Step) -> Step {
        self.dice.pick(self.things.len()).map_or(Ok(()), |at| work(self, at))
    }

    pub fn queue(&mut self) -> usize {
        self.dice.below(self.open.len() as u64) as usize
    }

    pub fn make(
        &mut self,
        size: usize,
        usage: BufferUsage,
        location: Location,
    ) -> Result<Option<Buffer<Device>>, Stop> {
        let info = Create::<Buffers>::describe(self.memory.device(), &BufferDesc { size: size as u64, usage });
        let dedicated = if self.dice.one_in(16) { Dedicated::Always } else { Dedicated::Auto };
        let movable = !self.dice.one_in(4);
        let desc = AllocationDesc { location, dedicated, movable, name: "of a world", ..Default::default() };
        let made = granted(self.memory.create_buffer(&info.map_err(stop)?, desc))?;
        let counter = if made.is_some() { &mut self.figures.made } else { &mut self.figures.refused };
        *counter += 1;
        Ok(made)
    }

    fn on_device(&mut self, size: usize) -> Result<Option<Buffer<Device>>, Stop> {
        self.make(size, FILLED, Location::Device)
    }

    pub fn stage(&mut self, queue: usize, bytes: &[u8]) -> Result<Option<Staged<Device>>, Stop> {
        self.recording(queue);
        let Some(Recording { frame, .. }) = &self.open[queue] else { return Ok(None) };
        let made = if self.dice.one_in(4) {
            self.ring.writer(frame).and_then(|mut writer| writer.write(bytes, 16))
        } else {
            self.ring.write_for(frame, bytes, 4 << self.dice.below(6))
        };
        if matches!(made, Err(UploadError::Full { .. } | UploadError::Timeout { .. })) {
            self.figures.refused += 1;
            self.submit(queue)?;
        }
        staged(made)
    }

    fn create(&mut self) -> Step {
        if self.things.len() > 60 {
            return Ok(());
        }
        let size = self.dice.size();
        let (queue, bytes) = (self.queue(), self.dice.bytes(size));
        let Some(staged) = self.stage(queue, &bytes)? else { return Ok(()) };
        let Some(buffer) = self.on_device(size)? else { return Ok(()) };
        let by = self.user(queue);
        let skew = if self.options.bug == Some(Bug::WrongRange) && self.dice.one_in(4) { 4 } else { 0 };
        if self.dice.one_in(2) {
            let mut batch = UploadBatch::new();
            batch.copy(&staged, &buffer, 0).map_err(wrong)?;
            self.recording(queue).commands.push(Command::Upload(Box::new(batch)));
        } else {
            self.recording(queue).commands.push(Command::CopyBuffer {
                src: staged.buffer,
                src_offset: staged.offset + skew,
                dst: *buffer.object(),
                dst_offset: 0,
                size: staged.size,
            });
        }
        let mut thing = Thing::new(Body::Buffer(buffer), bytes, false);
        thing.written_by(by);
        self.things.push(thing);
        Ok(())
    }

    fn create_upload(&mut self) -> Step {
        let size = self.dice.size();
        let bytes = self.dice.bytes(size);
        let Some(mut buffer) = self.make(size, COPIED, Location::Upload)? else { return Ok(()) };
        write(&mut buffer, &bytes)?;
        self.things.push(Thing::new(Body::Buffer(buffer), bytes, true));
        Ok(())
    }

    fn copy(&mut self) -> Step {
        let (Some(from), Some(to)) = (self.dice.pick(self.things.len()), self.dice.pick(self.things.len())) else {
            return Ok(());
        };
        let (Some(src), Some(dst)) = (self.things[from].buffer(), self.things[to].buffer()) else { return Ok(()) };
        if from == to || self.things[to].is_upload {
            return Ok(());
        }
        let (src, dst) = (*src.object(), *dst.object());
        let words = self.things[from].bytes.len().min(self.things[to].bytes.len()) as u64 / 4;
        let count = 1 + self.dice.below(words);
        let first = self.dice.below(words - count + 1);
        let (queue, range) = (self.queue(), first as usize * 4..(first + count) as usize * 4);
        self.order(queue, &self.things[from].before_read())?;
        self.order(queue, &self.things[to].before_write())?;
        let by = self.user(queue);
        let (src_offset, size) = (first * 4, count * 4);
        self.recording(queue).commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset: first * 4, size });
        let copied = self.things[from].bytes[range.clone()].to_vec();
        self.things[to].bytes[range].copy_from_slice(&copied);
        self.things[from].read_by(by);
        self.things[to].written_by(by);
        Ok(())
    }

    /// Records a readback of a thing. Its bytes are compared later.
    pub fn check(&mut self, at: usize) -> Step {
        let queue = self.queue();
        let expected = self.things[at].bytes.clone();
        let alignment = self.memory.device().capabilities().texture_copy_row_alignment as usize;
        let (row, pitch) = match &self.things[at].body {
            Body::Buffer(_) => (expected.len(), expected.len()),
            Body::Texture(_, side) => (*side as usize * 4, (*side as usize * 4).next_multiple_of(alignment)),
        };
        let padded = expected.len() / row * pitch;
        let Some(back) = self.make(padded, BufferUsage::COPY_DST, Location::Readback)? else { return Ok(()) };
        self.order(queue, &self.things[at].before_read())?;
        let by = self.user(queue);
        let command = match &self.things[at].body {
            Body::Buffer(buffer) => copy_whole(buffer, &back, padded),
            Body::Texture(texture, side) => Command::CopyTextureToBuffer {
                src: *texture.object(),
                dst: *back.object(),
                region: region(*side, 0, pitch as u64),
            },
        };
        self.recording(queue).commands.push(command);
        self.things[at].read_by(by);
        self.checks.push(Check { back, by, row, pitch, expected, what: "a thing that was read back" });
        Ok(())
    }

    fn drop_thing(&mut self, at: usize) -> Step {
        let thing = self.things.swap_remove(at);
        let before = self.dice.one_in(2);
        if let Some(entry) = thing.entry.filter(|_| before) {
            self.table.remove(entry).map_err(wrong)?;
        }
        let points = thing.points(&self.timelines);
        let precise = self.dice.one_in(3) && thing.entry.is_none();
        match thing.body {
            // SAFETY: the program knows every submission that uses the buffer.
            Body::Buffer(buffer) if precise => unsafe { buffer.retire_after(&points) },
            // SAFETY: as above.
            Body::Texture(texture, _) if precise => unsafe { texture.retire_after(&points) },
            body => drop(body),
        }
        thing.entry.filter(|_| !before).map_or(Ok(()), |entry| self.table.remove(entry).map_err(wrong))
    }

    fn resize(&mut self, at: usize) -> Step {
        let (queue, new_size) = (self.queue(), self.dice.size());
        if self.things[at].buffer().is_none() || self.things[at].is_upload || self.things[at].entry.is_some() {
            return Ok(());
        }
        // If a destination is resized after a batch was gathered, recording the batch fails, so it is recorded before.
        let gathers = |recording: &Recording| recording.commands.iter().any(|one| matches!(one, Command::Upload(_)));
        for user in 0..self.open.len() {
            if self.open[user].as_ref().is_some_and(gathers) {
                self.submit(user)?;
            }
        }
        self.order(queue, &self.things[at].before_read())?;
        let by = self.user(queue);
        let keep = self.things[at].bytes.len().min(new_size) / 4 * 4;
        let desc = BufferDesc { size: new_size as u64, usage: FILLED };
        let info = Create::<Buffers>::describe(self.memory.device(), &desc).map_err(stop)?;
        let (Some(Recording { frame, commands, .. }), Body::Buffer(buffer)) =
            (&mut self.open[queue], &mut self.things[at].body)
        else {
            return Ok(());
        };
        let resized = buffer.resize(frame, &info, keep as u64, AllocationDesc::default());
        match resized {
            Ok(Some(BufferCopy { src, src_offset, dst, dst_offset, size })) => {
                commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset, size });
            }
            Ok(None) => {}
            Err(ReplaceError::Make(error)) => return granted::<()>(Err(error)).map(drop),
            Err(other) => return Err(wrong(other)),
        }
        // Beyond the kept bytes, the contents of the new buffer are undefined.
        let thing = &mut self.things[at];
        thing.bytes.truncate(keep);
        thing.read_by(by);
        thing.written_by(by);
        Ok(())
    }

    fn texture(&mut self, side: u32) -> Result<Option<Texture<Device>>, Stop> {
        let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::STORAGE;
        let desc = TextureDesc { width: side, height: side, usage, ..Default::default() };
        let info = Create::<Textures>::describe(self.memory.device(), &desc).map_err(stop)?;
        let made = granted(self.memory.create_texture(&info, AllocationDesc::default()))?;
        self.figures.made += u64::from(made.is_some());
        Ok(made)
    }

    fn create_texture(&mut self) -> Step {
        let (queue, side) = (self.queue(), 1 + self.dice.below(24) as u32);
        let bytes = self.dice.bytes(side as usize * side as usize * 4);
        let Some(texture) = self.texture(side)? else { return Ok(()) };
        self.recording(queue);
        let Some(Recording { frame, commands, .. }) = &mut self.open[queue] else { return Ok(()) };
        let texels = self.ring.write_texels(frame, &Texels::new(side, side, 4, &bytes));
        let Some(texels) = staged(texels)? else { return Ok(()) };
        let mut batch = UploadBatch::new();
        batch.copy_texels(&texels, &texture, TexelTarget { discard: true, ..Default::default() }).expect("it fits");
        commands.push(Command::Upload(Box::new(batch)));
        let by = self.user(queue);
        let mut thing = Thing::new(Body::Texture(texture, side), bytes, false);
        thing.written_by(by);
        self.things.push(thing);
        Ok(())
    }

    /// Draws discs, on the first queue: all draws share the canvas of the test kit.
    fn draw(&mut self) -> Step {
        let queue = if self.options.bug == Some(Bug::SharedCanvas) { self.queue() } else { 0 };
        // At this width, the rows of the canvas need no padding on any device.
        let side = 64;
        let mut number = |bound: u64| self.dice.below(bound) as i32;
        let discs =
            [(); 3].map(|()| Disc { x: number(64), y: number(64), radius: number(24), color: number(1 << 30) as u32 });
        let Some(target) = self.texture(side)? else { return Ok(()) };
        let bytes: Vec<u8> = discs.iter().flat_map(|disc| disc.to_bytes()).collect();
        self.recording(queue);
        let Some(Recording { frame, commands, .. }) = &mut self.open[queue] else { return Ok(()) };
        let Some(staged) = staged(self.ring.write_for(frame, &bytes, 256))? else { return Ok(()) };
        commands.push(Command::Draw {
            discs: staged.buffer,
            discs_offset: staged.offset,
            disc_count: 3,
            target: *target.object(),
            width: side,
            height: side,
        });
        let by = self.user(queue);
        let mut thing = Thing::new(Body::Texture(target, side), draw_reference(&discs, side, side), false);
        thing.written_by(by);
        self.things.push(thing);
        self.figures.drawn += 1;
        Ok(())
    }

    /// Writes new contents to an upload buffer once the work that reads it is complete.
    fn rewrite(&mut self) -> Step {
        let uploads: Vec<_> = (0..self.things.len()).filter(|at| self.things[*at].is_upload).collect();
        let Some(at) = self.dice.pick(uploads.len()).map(|index| uploads[index]) else { return Ok(()) };
        if self.options.bug != Some(Bug::HostWriteTooEarly) {
            for user in self.things[at].before_write() {
                self.wait(user)?;
            }
        }
        let bytes = self.dice.bytes(self.things[at].bytes.len());
        if let Body::Buffer(buffer) = &mut self.things[at].body {
            write(buffer, &bytes)?;
        }
        self.things[at].bytes = bytes;
        Ok(())
    }

    fn submit_some(&mut self) -> Step {
        let queue = self.queue();
        self.submit(queue)
    }

    fn upkeep(&mut self) -> Step {
        match self.dice.below(8) {
            0 => _ = self.memory.budgets().trim(),
            1 => _ = self.memory.budgets().trim_to(64 << 10),
            2 => _ = self.memory.budgets().maintain(),
            3 => _ = self.memory.retirement().reclaim_at_most(2),
            4 => _ = self.transient.trim(),
            _ => {
                let reclaimed = self.memory.reclaim();
                self.figures.digest(&(reclaimed.objects as u64).to_le_bytes());
            }
        }
        Ok(())
    }

    fn settle_some(&mut self) -> Step {
        self.dice.pick(self.checks.len()).map_or(Ok(()), |at| self.settle(at))
    }

    /// Begins a frame and writes for it. Then drops the frame, or submits a later frame first, after which the first
    /// frame must be refused.
    fn abandon(&mut self) -> Step {
        let queue = self.queue();
        let frame = self.timelines[queue].begin();
        let bytes = self.dice.bytes(256);
        let unused = staged(self.ring.write_for(&frame, &bytes, 4))?;
        if self.open[queue].is_none() && self.dice.one_in(2) {
            // A later frame is submitted first, so this frame must be refused.
            let size = self.dice.size();
            let made = self.on_device(size)?;
            self.recording(queue);
            self.submit(queue)?;
            drop((unused, made));
            let refused = self.timelines[queue].submitted(frame);
            return if refused.is_err() {
                Ok(())
            } else {
                Err(Stop::Wrong("a frame out of order was accepted".to_owned()))
            };
        }
        Ok(())
    }

    /// Pauses or resumes queues, or advances the clock.
    fn shake(&mut self) -> Step {
        let queue = self.queue();
        match self.dice.below(4) {
            0 => self.gpu.sim().pause(queue),
            1 => self.gpu.sim().resume(queue),
            _ => self.gpu.sim().advance(self.dice.below(64)),
        }
        Ok(())
    }

    /// Changes the budget of a heap, as another process would by allocating or freeing memory.
    fn squeeze(&mut self) -> Step {
        let heaps = self.memory.device().capabilities().memory_heaps.len() as u64;
        let heap = self.dice.below(heaps) as usize;
        let budget = self.dice.one_in(2).then(|| self.dice.below(8 << 20));
        self.gpu.sim().set_budget(heap, budget);
        Ok(())
    }

    /// Installs an eviction callback that releases a buffer if memory is short.
    fn evict(&mut self) -> Step {
        let spare = self.make(32 << 10, BufferUsage::COPY_DST, Location::Device)?;
        let spare = std::sync::Mutex::new(spare);
        let take = move |_: &_| spare.lock().is_ok_and(|mut spare| spare.take().is_some());
        self.memory.budgets().set_eviction(Some(Box::new(take)));
        Ok(())
    }
}

pub fn copy_whole(from: &Buffer<Device>, to: &Buffer<Device>, size: usize) -> Command<Device> {
    let (src, dst) = (*from.object(), *to.object());
    Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: size as u64 }
}

fn region(side: u32, buffer_offset: u64, row_bytes: u64) -> TextureRegion {
    TextureRegion { buffer_offset, row_bytes, mip: 0, layer: 0, width: side, height: side, texel_bytes: 4 }
}
