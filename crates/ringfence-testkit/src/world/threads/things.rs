//! Steps of a thread with its things.

use ringfence::device::{Create, TextureDesc, TextureUsage, Textures};
use ringfence::lifetime::{BufferCopy, ReplaceError};
use ringfence::sim::{self, BufferLayout, BufferRange, Command, TextureRegion};
use ringfence::{AllocationDesc, Dedicated, Location};

use super::super::Bug;
use super::super::outcome::{Step, Stop, access, granted, staged, stop, write, wrong};
use super::super::thing::{Body, Check, Use};
use super::worker::Worker;
use super::{COPIED, PICTURE_SIDE, Thing, lock};
use crate::sim::drawing;
use crate::{Disc, draw_reference};

impl Worker<'_> {
    pub fn create(&mut self) -> Step {
        let size = self.dice.size();
        let Some(buffer) = self.make(size, Location::Device)? else { return Ok(()) };
        let bytes = self.dice.bytes(size);
        self.fill(Thing::new(Body::Buffer(buffer), bytes))
    }

    /// Creates an evictable buffer with its own memory or in the pool, which also has other buffers.
    pub fn create_evictable(&mut self) -> Step {
        let size = self.dice.size();
        let info = self.info(size as u64, COPIED)?;
        let is_alone = self.dice.one_in(3);
        let evictable = is_alone || !self.dice.one_in(6);
        let dedicated = if is_alone { Dedicated::Always } else { Dedicated::Never };
        let movable = self.dice.one_in(2);
        let desc = AllocationDesc { dedicated, evictable, movable, name: "evictable", ..Default::default() };
        let Self { shared, .. } = *self;
        let made =
            if is_alone { shared.memory.create_buffer(&info, desc) } else { shared.pool.create_buffer(&info, desc) };
        let made = granted(made)?;
        let Some(buffer) = self.count(made) else { return Ok(()) };
        let bytes = self.dice.bytes(size);
        self.fill(Thing { is_evictable: evictable, ..Thing::new(Body::Buffer(buffer), bytes) })
    }

    /// Adds a new buffer, and fills it on the device through the ring.
    fn fill(&mut self, thing: Thing) -> Step {
        let mut work = self.begin();
        let Some(staged) = staged(self.shared.ring.write_for(&work.frame, &thing.bytes, 16))? else { return Ok(()) };
        let skew = if self.has(Bug::WrongRange) && self.dice.one_in(4) { 4 } else { 0 };
        let Some(dst) = thing.buffer().map(|buffer| *buffer.object()) else { return Ok(()) };
        let (src, src_offset, size) = (staged.buffer, staged.offset + skew, staged.size);
        work.commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size });
        self.hold(thing);
        work.waits.extend(self.uses(self.held.len() - 1));
        self.submit(work).map(drop)
    }

    pub fn create_upload(&mut self) -> Step {
        let size = self.dice.size();
        let bytes = self.dice.bytes(size);
        let Some(mut buffer) = self.make(size, Location::Upload)? else { return Ok(()) };
        write(&mut buffer, &bytes)?;
        self.hold(Thing { is_upload: true, ..Thing::new(Body::Buffer(buffer), bytes) });
        Ok(())
    }

    /// Writes new contents to an upload buffer once the work that reads it is complete.
    pub fn rewrite(&mut self) -> Step {
        let Some(at) = self.held.iter().position(|thing| thing.is_upload) else { return Ok(()) };
        if !self.has(Bug::HostWriteTooEarly) {
            self.wait_own()?;
            self.held[at].after.map_or(Ok(()), |after| self.wait(after))?;
        }
        let bytes = self.dice.bytes(self.held[at].bytes.len());
        if let Body::Buffer(buffer) = &mut self.held[at].body {
            write(buffer, &bytes)?;
        }
        self.held[at].bytes = bytes;
        Ok(())
    }

    pub fn copy(&mut self) -> Step {
        let (Some(from), Some(to)) = (self.dice.pick(self.held.len()), self.dice.pick(self.held.len())) else {
            return Ok(());
        };
        let (Some(src), Some(dst)) = (self.held[from].buffer(), self.held[to].buffer()) else { return Ok(()) };
        if from == to || self.held[to].is_upload {
            return Ok(());
        }
        let (src, dst) = (*src.object(), *dst.object());
        let words = self.held[from].bytes.len().min(self.held[to].bytes.len()) as u64 / 4;
        let size = (1 + self.dice.below(words)) * 4;
        let mut work = self.begin();
        work.waits.extend(self.uses(from));
        work.waits.extend(self.uses(to));
        work.commands.push(Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size });
        let copied = self.held[from].bytes[..size as usize].to_vec();
        self.held[to].bytes[..size as usize].copy_from_slice(&copied);
        self.submit(work).map(drop)
    }

    /// Draws discs on the thread's own canvas and copies them to a texture.
    pub fn draw(&mut self) -> Step {
        let mut number = |bound: u64| self.dice.below(bound) as i32;
        let discs =
            [(); 3].map(|()| Disc { x: number(64), y: number(64), radius: number(24), color: number(1 << 30) as u32 });
        let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::STORAGE;
        let desc = TextureDesc { width: PICTURE_SIDE, height: PICTURE_SIDE, usage, ..Default::default() };
        let info = Create::<Textures>::describe(&self.shared.device, &desc).map_err(stop)?;
        let made = granted(self.shared.memory.create_texture(&info, AllocationDesc::default()))?;
        let Some(target) = self.count(made) else { return Ok(()) };
        let bytes: Vec<u8> = discs.iter().flat_map(|disc| disc.to_bytes()).collect();
        let mut work = self.begin();
        let Some(staged) = staged(self.shared.ring.write_for(&work.frame, &bytes, 256))? else { return Ok(()) };
        let read = BufferRange::new(staged.buffer, staged.offset, staged.size);
        let sides = (PICTURE_SIDE, PICTURE_SIDE);
        work.commands.extend(drawing(read, *self.canvas.object(), *target.object(), sides));
        self.submit(work)?;
        self.figures.drawn += 1;
        let picture = draw_reference(&discs, PICTURE_SIDE, PICTURE_SIDE);
        self.hold(Thing::new(Body::Texture(target, PICTURE_SIDE), picture));
        Ok(())
    }

    /// Records a readback of a thing. Its bytes are compared at once or later.
    pub fn check(&mut self) -> Step {
        self.dice.pick(self.held.len()).map_or(Ok(()), |at| self.check_one(at))
    }

    fn check_one(&mut self, at: usize) -> Step {
        let expected = self.held[at].bytes.clone();
        let row = expected.len();
        let Some(back) = self.make(row, Location::Readback)? else { return Ok(()) };
        let mut work = self.begin();
        work.waits.extend(self.uses(at));
        work.commands.push(read_back(&self.held[at], *back.object()));
        let by = Use { queue: self.queue, value: self.submit(work)? };
        self.checks.push(Check { back, by, row, pitch: row, expected, what: "a thing that was read back" });
        if self.dice.one_in(2) { self.settle() } else { Ok(()) }
    }

    /// Waits for the pending readbacks and compares their bytes.
    pub fn settle(&mut self) -> Step {
        for Check { back, by, expected, .. } in std::mem::take(&mut self.checks) {
            self.wait((self.fence, by.value))?;
            let mut read = vec![0; expected.len()];
            back.read(0, &mut read).map_err(access)?;
            self.figures.checked_bytes += expected.len() as u64;
            if read != expected {
                return Err(Stop::Wrong(format!("wrong bytes on queue {}", self.queue)));
            }
        }
        Ok(())
    }

    pub fn drop_one(&mut self) -> Step {
        if let Some(at) = self.dice.pick(self.held.len()) {
            self.held.swap_remove(at);
        }
        Ok(())
    }

    /// Replaces a buffer by one of another size, which keeps the bytes that fit.
    pub fn resize(&mut self) -> Step {
        let Some(at) = self.dice.pick(self.held.len()) else { return Ok(()) };
        let size = self.dice.size();
        let keep = self.held[at].bytes.len().min(size) / 4 * 4;
        if self.held[at].is_upload || self.held[at].buffer().is_none() {
            return Ok(());
        }
        let info = self.info(size as u64, COPIED)?;
        let mut work = self.begin();
        work.waits.extend(self.uses(at));
        let Body::Buffer(buffer) = &mut self.held[at].body else { return Ok(()) };
        match buffer.resize(&work.frame, &info, keep as u64, AllocationDesc::default()) {
            Ok(copy) => work.commands.extend(copy.map(command)),
            Err(ReplaceError::Make(error)) => return granted::<()>(Err(error)).map(drop),
            Err(other) => return Err(wrong(other)),
        }
        // The new buffer is not evictable. Beyond the kept bytes, its contents are undefined.
        self.held[at].is_evictable = false;
        self.held[at].bytes.truncate(keep);
        self.submit(work).map(drop)
    }

    /// Passes a thing to the other threads, with the sync point after which they may use it.
    pub fn lay_down(&mut self) -> Step {
        let Some(at) = self.dice.pick(self.held.len()) else { return Ok(()) };
        // The empty submission is ordered after all work of this queue, and after the work that the thing waits for.
        let mut work = self.begin();
        work.waits.extend(self.uses(at));
        let value = self.submit(work)?;
        let mut thing = self.held.swap_remove(at);
        thing.after = Some((self.fence, value));
        lock(&self.shared.things).push(thing);
        Ok(())
    }

    /// Takes a thing that another thread has passed on, and checks it every second time on average.
    pub fn take_up(&mut self) -> Step {
        let Some(thing) = lock(&self.shared.things).pop() else { return Ok(()) };
        self.hold(thing);
        if self.dice.one_in(2) { self.check_one(self.held.len() - 1) } else { Ok(()) }
    }
}

/// Returns a command that copies a whole thing to the start of a buffer.
fn read_back(thing: &Thing, dst: sim::BufferId) -> Command {
    match &thing.body {
        Body::Buffer(buffer) => {
            let (src, size) = (*buffer.object(), thing.bytes.len() as u64);
            Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size }
        }
        Body::Texture(texture, side) => {
            let layout = BufferLayout { offset: 0, row_bytes: u64::from(*side) * 4 };
            let region = TextureRegion { mip: 0, layer: 0, x: 0, y: 0, width: *side, height: *side };
            Command::CopyTextureToBuffer { src: *texture.object(), region, dst, layout }
        }
    }
}

pub fn command(copy: BufferCopy<sim::Device>) -> Command {
    let BufferCopy { src, src_offset, dst, dst_offset, size } = copy;
    Command::CopyBuffer { src, src_offset, dst, dst_offset, size }
}
