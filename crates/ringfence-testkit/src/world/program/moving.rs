//! Steps with memory that moves: defragmentation, eviction and residency.

use ringfence::defrag::{Defrag, DefragDesc, DefragState, MoveError};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::lifetime::BufferCopy;
use ringfence::residency::{Residency, ResidencyError, UseList};
use ringfence::sim::Device;
use ringfence::{AllocationDesc, Allocator, Dedicated, Location};

use super::super::Bug;
use super::super::dice::Dice;
use super::super::outcome::{Step, Stop, granted, stop, wrong};
use super::super::thing::{Body, Check, Thing, Use};
use super::steps::{COPIED, FILLED, copy_whole};
use super::{Program, Recording};
use crate::{Command, Gpu};

/// Buffers with their own memory objects. They may be evicted while no work uses them.
pub struct Evictables {
    residency: Residency<Device>,
    list: UseList<Device>,
    pub things: Vec<Thing>,
}

const EVICTABLES_MAX: usize = 4;

impl Evictables {
    pub fn new(memory: &Allocator<Device>, dice: &mut Dice) -> Self {
        // With this headroom, every heap is over its budget, so all evictable memory is evicted.
        let headroom_bytes = if dice.one_in(2) { u64::MAX / 2 } else { 0 };
        // SAFETY: only `bring_back` creates and uses evictable buffers, and it commits them first.
        let residency = unsafe { memory.residency() };
        let residency = residency.with_headroom(headroom_bytes).with_evictions(u64::MAX);
        Self { list: residency.list(), residency, things: Vec::new() }
    }
}

impl Program {
    /// Defragments movable resources with a few passes on one queue.
    pub fn defragment(&mut self) -> Step {
        let queue = self.queue();
        self.submit(queue)?;
        let compacts = self.dice.one_in(2);
        let mut run =
            self.memory.defragment(DefragDesc { bytes_per_pass_max: 128 << 10, compacts, ..Default::default() });
        for _ in 0..1 + self.dice.below(4) {
            if run.state() == DefragState::Done {
                break;
            }
            self.defragment_once(queue, &mut run)?;
            self.memory.reclaim();
        }
        Ok(())
    }

    /// Runs one pass in a separate submission. At times, begins a pass without any copies.
    fn defragment_once(&mut self, queue: usize, run: &mut Defrag<Device>) -> Step {
        let frame = self.timelines[queue].begin();
        let value = frame.value();
        let is_left = self.dice.one_in(8);
        let mut pass = run.begin_pass(&frame).map_err(wrong)?;
        let (mut waits, mut commands, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..self.things.len() {
            let thing = &self.things[at];
            // A thing with a descriptor stays: the descriptor would still refer to the old location.
            let can_move = thing.entry.is_none() && thing.buffer().is_some_and(|buffer| pass.has(buffer));
            if is_left || !can_move {
                continue;
            }
            let before = thing.before_write();
            waits.extend(self.waits_for(queue, &before)?);
            let Body::Buffer(buffer) = &mut self.things[at].body else { continue };
            let copied = match pass.copy_buffer(buffer) {
                Err(MoveError::NeedsInfo) => {
                    let desc = BufferDesc { size: buffer.size(), usage: FILLED };
                    let info = Create::<Buffers>::describe(self.memory.device(), &desc).map_err(stop)?;
                    pass.copy_buffer_as(buffer, &info)
                }
                other => other,
            };
            let BufferCopy { src, src_offset, dst, dst_offset, size } = match copied {
                Ok(copy) => copy,
                Err(MoveError::Make(error)) => {
                    granted::<()>(Err(error))?;
                    continue;
                }
                Err(other) => return Err(wrong(other)),
            };
            commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset, size });
            moved.push(at);
        }
        drop(pass);
        self.gpu.submit(queue, &waits, &commands, value).map_err(stop)?;
        self.submitted(queue, frame, value)?;
        self.figures.moved += moved.len() as u64;
        moved.into_iter().for_each(|at| self.things[at].written_by(Use { queue, value }));
        Ok(())
    }

    /// Creates an evictable buffer, drops one, or makes one resident and reads it back, in a separate submission.
    pub fn bring_back(&mut self) -> Step {
        let queue = self.queue();
        self.submit(queue)?;
        let count = self.evictables.things.len();
        if count < EVICTABLES_MAX && self.dice.one_in(2) {
            return self.create_evictable(queue);
        }
        let Some(at) = self.dice.pick(count) else { return Ok(()) };
        if self.dice.one_in(4) {
            // The dropped buffer may be evicted or in use.
            self.evictables.things.swap_remove(at);
            return Ok(());
        }
        self.read_evictable(queue, at)
    }

    fn create_evictable(&mut self, queue: usize) -> Step {
        let size = self.dice.size();
        let bytes = self.dice.bytes(size);
        let info = Create::<Buffers>::describe(self.memory.device(), &BufferDesc { size: size as u64, usage: COPIED });
        let desc = AllocationDesc {
            dedicated: Dedicated::Always,
            evictable: true,
            location: Location::Device,
            name: "evictable",
            ..Default::default()
        };
        let Some(buffer) = granted(self.memory.create_buffer(&info.map_err(stop)?, desc))? else { return Ok(()) };
        let Some(staged) = self.stage(queue, &bytes)? else { return Ok(()) };
        let (src, src_offset, dst) = (staged.buffer, staged.offset, *buffer.object());
        let copy = Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size: size as u64 };
        self.figures.made += 1;
        let mut thing = Thing::new(Body::Buffer(buffer), bytes, false);
        if self.use_evictable(queue, &thing, copy)? {
            thing.written_by(Use { queue, value: self.submitted[queue] });
            self.evictables.things.push(thing);
        }
        Ok(())
    }

    fn read_evictable(&mut self, queue: usize, at: usize) -> Step {
        let expected = self.evictables.things[at].bytes.clone();
        let back = self.make(expected.len(), BufferUsage::COPY_DST, Location::Readback)?;
        let Some(back) = back else { return Ok(()) };
        let before = self.evictables.things[at].before_read();
        self.order(queue, &before)?;
        let thing = self.evictables.things.swap_remove(at);
        let Some(buffer) = thing.buffer() else { return Ok(()) };
        let copy = copy_whole(buffer, &back, expected.len());
        let used = self.use_evictable(queue, &thing, copy);
        self.evictables.things.push(thing);
        if used? {
            let (by, row) = (Use { queue, value: self.submitted[queue] }, expected.len());
            if let Some(thing) = self.evictables.things.last_mut() {
                thing.read_by(by);
            }
            self.checks.push(Check { back, by, row, pitch: row, expected, what: "bytes that were evicted" });
        }
        Ok(())
    }

    /// Commits a buffer for the open recording, and submits the recording with `command`, which uses the buffer. If
    /// there is no room for the buffer, submits the recording without `command` and returns `false`.
    fn use_evictable(&mut self, queue: usize, thing: &Thing, command: Command<Device>) -> Result<bool, Stop> {
        self.recording(queue);
        let Some(Recording { frame, commands, .. }) = &mut self.open[queue] else { return Ok(false) };
        let Evictables { residency, list, .. } = &mut self.evictables;
        list.clear();
        let declares = !(self.options.bug == Some(Bug::MissingCommit) && self.dice.one_in(2));
        thing.buffer().into_iter().filter(|_| declares).for_each(|buffer| list.add(buffer));
        let committed = match residency.commit(list, frame) {
            Ok(committed) => Some(committed),
            Err(ResidencyError::NoRoom { .. }) => None,
            Err(ResidencyError::Device(error)) if error.is_out_of_memory() => None,
            Err(ResidencyError::Device(error)) => return Err(stop(error)),
            Err(other) => return Err(wrong(other)),
        };
        if let Some(committed) = committed {
            self.figures.brought_back += committed.returned_count;
            commands.push(command);
        }
        self.submit(queue)?;
        // Without this progress, most memory would be in use, and few evictions would happen.
        self.gpu.sim().advance(self.dice.below(64));
        Ok(committed.is_some())
    }
}
