//! Generated programs compared with a model without clocks: a graph of waits, and plain bytes.
//!
//! Waits are omitted at random. The device must report a hazard at exactly the steps where the graph has two unordered
//! uses of a byte. While there is no hazard, each byte must match the model, for every seed.

use super::gpu::{COPIED, Gpu, Owned, Point, QUEUES};
use ringfence::device::{BufferDesc, Buffers, Create};
use ringfence::sim::{BufferRange, Command, Kernel, Profile};
use ringfence_core::testing::rng::Rng;
use std::ops::Range;

/// Slots of the block, with one buffer each.
const SLOTS: u64 = 4;
const SLOT: u64 = 256;

/// A use of bytes: a submission, or a call of the host.
struct Event {
    /// Index of the queue and the value that the submission signals; `None` for the host.
    work: Option<(usize, u64)>,
    uses: Vec<(Range<u64>, bool)>,
    /// `true` for each earlier event that has ended before it begins.
    before: Vec<bool>,
}

/// Orders events by walking them: the naive model of the vector clocks and of the index of uses.
struct Twin {
    events: Vec<Event>,
    /// Events that have ended as far as the host knows.
    host: Vec<bool>,
    bytes: Vec<u8>,
}

impl Twin {
    fn add_after(&self, known: &mut Vec<bool>, at: usize) {
        known.resize(self.events.len(), false);
        for (held, before) in known.iter_mut().zip(&self.events[at].before) {
            *held |= before;
        }
        known[at] = true;
    }

    fn learn(&mut self, queue: usize, value: u64) {
        for at in 0..self.events.len() {
            if self.events[at].work.is_some_and(|(held, signals)| held == queue && signals <= value) {
                let mut known = std::mem::take(&mut self.host);
                self.add_after(&mut known, at);
                self.host = known;
            }
        }
    }

    /// Adds an event. Returns `true` if it conflicts with an earlier one.
    fn add(&mut self, work: Option<(usize, u64)>, waits: &[(usize, u64)], uses: Vec<(Range<u64>, bool)>) -> bool {
        let mut before = self.host.clone();
        before.resize(self.events.len(), false);
        for at in 0..self.events.len() {
            let earlier = self.events[at].work;
            let same_queue = work.is_some_and(|(queue, _)| earlier.is_some_and(|(held, _)| held == queue));
            let waited = earlier.is_some_and(|earlier| waits.contains(&earlier));
            if earlier.is_none() || same_queue || waited {
                self.add_after(&mut before, at);
            }
        }
        let clash = |(range, writes): &(Range<u64>, bool), (other, other_writes): &(Range<u64>, bool)| {
            range.start < other.end && other.start < range.end && (*writes || *other_writes)
        };
        let unordered = self.events.iter().zip(&before).filter(|(_, known)| !**known).map(|(event, _)| event);
        let conflict = unordered.flat_map(|event| &event.uses).any(|other| uses.iter().any(|mine| clash(mine, other)));
        self.events.push(Event { work, uses, before });
        conflict
    }

    /// Returns the submissions that conflict with these uses: a correct program waits for them.
    fn needed(&self, uses: &[(Range<u64>, bool)]) -> Vec<(usize, u64)> {
        let clashes = |event: &&Event| {
            event.uses.iter().any(|(other, other_writes)| {
                let clash = |(range, writes): &(Range<u64>, bool)| {
                    range.start < other.end && other.start < range.end && (*writes || *other_writes)
                };
                uses.iter().any(clash)
            })
        };
        self.events.iter().filter(clashes).filter_map(|event| event.work).collect()
    }
}

struct Program {
    gpu: Gpu,
    dice: Rng,
    twin: Twin,
    block: Owned,
    slots: Vec<BufferRange>,
    /// One wait in this many is omitted; 0 for none.
    leave_out: u64,
    conflicts: u32,
}

impl Program {
    fn new(seed: u64, leave_out: u64) -> Self {
        let gpu = Gpu::new(Profile::h200(), seed);
        let memory = gpu.memory("block", 2, SLOTS * SLOT);
        let slots: Vec<_> = (0..SLOTS).map(|slot| gpu.place("first", SLOT, memory, slot * SLOT)).collect();
        let block = Owned { memory, buffer: slots[0].object, mapped: slots[0].mapped };
        let slots = slots.iter().map(|placed| BufferRange::new(placed.object, 0, SLOT)).collect();
        let twin = Twin { events: vec![], host: vec![], bytes: vec![0xcd; (SLOTS * SLOT) as usize] };
        Self { gpu, dice: Rng::new(seed ^ 0x5eed), twin, block, slots, leave_out, conflicts: 0 }
    }

    fn leaves_out(&mut self) -> bool {
        self.leave_out > 0 && self.dice.below(self.leave_out) == 0
    }

    /// Picks a slot and a range in it.
    fn pick(&mut self) -> (usize, u64, u64) {
        let (slot, offset) = (self.dice.below(SLOTS), self.dice.below(SLOT - 16));
        (slot as usize, offset, 1 + self.dice.below(16))
    }

    const fn at(slot: usize, offset: u64, size: u64) -> Range<u64> {
        let start = slot as u64 * SLOT + offset;
        start..start + size
    }

    fn point(&self, (queue, value): (usize, u64)) -> Point {
        (self.gpu.last(queue).0, value)
    }

    /// Waits on the host for the submissions that these uses need.
    fn host_waits(&mut self, uses: &[(Range<u64>, bool)]) {
        for needed in self.twin.needed(uses) {
            if !self.leaves_out() {
                self.gpu.wait(self.point(needed));
                self.twin.learn(needed.0, needed.1);
            }
        }
    }

    fn check(&mut self, conflict: bool, step: u32) {
        let hazards = self.gpu.device.take_hazards();
        assert_eq!(!hazards.is_empty(), conflict, "step {step}: {hazards:#?}");
        self.conflicts += u32::from(conflict);
    }

    fn host_write(&mut self, step: u32) {
        let (slot, offset, size) = self.pick();
        let range = Self::at(slot, offset, size);
        let uses = vec![(range.clone(), true)];
        self.host_waits(&uses);
        let bytes = vec![self.dice.below(256) as u8; size as usize];
        self.gpu.write(self.block, range.start, &bytes);
        self.twin.bytes[range.start as usize..range.end as usize].copy_from_slice(&bytes);
        let conflict = self.twin.add(None, &[], uses);
        self.check(conflict, step);
    }

    fn host_read(&mut self, step: u32) {
        let (slot, offset, size) = self.pick();
        let range = Self::at(slot, offset, size);
        let uses = vec![(range.clone(), false)];
        self.host_waits(&uses);
        let seen = self.gpu.read(self.block, range.start, size as usize);
        let conflict = self.twin.add(None, &[], uses);
        if self.conflicts == 0 && !conflict {
            assert_eq!(seen, self.twin.bytes[range.start as usize..range.end as usize], "step {step}");
        }
        self.check(conflict, step);
    }

    /// Destroys a buffer and places another one in its slot.
    fn replace(&mut self, step: u32) {
        let slot = self.dice.below(SLOTS) as usize;
        let uses = vec![(Self::at(slot, 0, SLOT), true)];
        self.host_waits(&uses);
        self.gpu.destroy(self.slots[slot].buffer);
        let placed = self.gpu.place("heir", SLOT, self.block.memory, slot as u64 * SLOT);
        self.slots[slot].buffer = placed.object;
        let conflict = self.twin.add(None, &[], uses);
        self.check(conflict, step);
    }

    fn submit(&mut self, step: u32) {
        let queue = self.dice.below(QUEUES as u64) as usize;
        let mut uses = Vec::new();
        let count = self.dice.below(4);
        let commands = (0..count).map(|_| self.command(&mut uses)).collect();
        let mut waits = self.twin.needed(&uses);
        waits.retain(|_| !self.leaves_out());
        let points: Vec<Point> = waits.iter().map(|&work| self.point(work)).collect();
        let signal = self.gpu.submit(queue, &points, commands);
        let conflict = self.twin.add(Some((queue, signal.1)), &waits, uses);
        self.check(conflict, step);
    }

    /// Returns a random command, and executes it on the model immediately.
    fn command(&mut self, uses: &mut Vec<(Range<u64>, bool)>) -> Command {
        let (to, to_offset, size) = self.pick();
        let from = (to + 1 + self.dice.below(SLOTS - 1) as usize) % SLOTS as usize;
        let from_offset = self.dice.below(SLOT - size);
        let (source, target) = (Self::at(from, from_offset, size), Self::at(to, to_offset, size));
        let (src, dst) = (self.slots[from].buffer, self.slots[to].buffer);
        uses.push((target.clone(), true));
        let index = |range: &Range<u64>| range.start as usize..range.end as usize;
        match self.dice.below(3) {
            0 => {
                let value = self.dice.below(256) as u8;
                self.twin.bytes[index(&target)].fill(value);
                Command::FillBuffer { dst, offset: to_offset, size, value }
            }
            1 => {
                uses.push((source.clone(), false));
                self.twin.bytes.copy_within(index(&source), target.start as usize);
                Command::CopyBuffer { src, src_offset: from_offset, dst, dst_offset: to_offset, size }
            }
            _ => {
                uses.push((source.clone(), false));
                let read = self.twin.bytes[index(&source)].to_vec();
                mix(&mut self.twin.bytes[index(&target)], &read);
                let reads = vec![BufferRange::new(src, from_offset, size)];
                let writes = vec![BufferRange::new(dst, to_offset, size)];
                Command::Kernel(Kernel::new(reads, writes, |memory| mix(&mut memory.writes[0], &memory.reads[0])))
            }
        }
    }

    fn run(&mut self, steps: u32) {
        for step in 0..steps {
            match self.dice.below(10) {
                0 | 1 => self.host_write(step),
                2 | 3 => self.host_read(step),
                4 => self.replace(step),
                5 => {
                    let queue = self.dice.below(QUEUES as u64) as usize;
                    let value = self.gpu.completed(queue);
                    self.twin.learn(queue, value);
                }
                _ => self.submit(step),
            }
        }
        assert!(self.gpu.device.run_until_idle());
        if self.conflicts == 0 {
            let all: Vec<u8> = self.slots.iter().flat_map(|slot| self.gpu.device.peek(*slot).unwrap()).collect();
            assert_eq!(all, self.twin.bytes);
        }
    }
}

fn mix(into: &mut [u8], from: &[u8]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into = into.wrapping_mul(3) ^ from);
}

/// Runs a program of this seed; a failure prints the seed.
fn run(seed: u64, leave_out: u64) -> u32 {
    let result = std::panic::catch_unwind(|| {
        let mut program = Program::new(seed, leave_out);
        program.run(60);
        program.conflicts
    });
    result.unwrap_or_else(|_| panic!("seed {seed}, one wait in {leave_out} left out"))
}

#[test]
fn correct_programs_are_silent_and_right() {
    for seed in 0..300 {
        assert_eq!(run(seed, 0), 0);
    }
}

#[test]
fn broken_programs_are_found_where_they_break() {
    let broken = (0..600).filter(|&seed| run(seed, 2 + seed % 12) > 0).count();
    assert!(broken > 200, "{broken} of 600 programs had a conflict");
}

#[test]
fn wrong_programs_give_wrong_bytes() {
    // If no wait is recorded, most seeds end with bytes that differ from the model.
    let wrong = (0..50).filter(|&seed| {
        let mut program = Program::new(seed, 1);
        program.run(60);
        let all = program.slots.iter().flat_map(|slot| program.gpu.device.peek(*slot).unwrap());
        !all.eq(program.twin.bytes.iter().copied())
    });
    assert!(wrong.count() > 40);
}

#[test]
fn a_described_buffer_is_what_was_described() {
    let gpu = Gpu::h200();
    let desc = BufferDesc { size: 4, usage: COPIED };
    assert_eq!(Create::<Buffers>::describe(&gpu.device, &desc), Ok(desc));
}
