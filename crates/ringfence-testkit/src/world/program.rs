//! A world of one thread: a program that records work for several queues. It knows the expected value of each byte, and
//! orders its queues by the reads and writes of its work.
//!
//! ```text
//!   step ─▶ action ─▶ into the open recording of a queue ──submit──▶ device     at the end: submit all, read all back,
//!                          waits: the work of other queues that it needs          drop everything, check for leaks
//! ```

mod foreign;
mod looking;
mod moving;
mod passing;
mod steps;

use std::io::Write;
use std::time::Duration;

use foreign::Pages;
use moving::Evictables;
use ringfence::debugging::DebugDesc;
use ringfence::descriptor::{BindlessDesc, ShaderVisibleDesc};
use ringfence::device::descriptors::ViewTypes;
use ringfence::device::{BufferUsage, Driver};
use ringfence::placement::FastConstantsDesc;
use ringfence::sim::{Device, Fence, Profile, SimOptions};
use ringfence::transient::TransientDesc;
use ringfence::upload::{ConstantsDesc, UploadDesc, WhenFull};
use ringfence::{
    Allocator, AllocatorDesc, BindlessTable, ConstantBuffers, FastConstants, Frame, ShaderVisibleHeap, Timeline,
    TransientAllocator, UploadRing,
};

use super::dice::Dice;
use super::outcome::{Step, Stop, access, stop, wrong};
use super::thing::{Check, Thing, Use};
use super::{Bug, Figures, Finding, WorldOptions};
use crate::sim::SimGpu;
use crate::{Command, Gpu};

const KIB: u64 = 1 << 10;

/// A submission that is being recorded.
struct Recording {
    frame: Frame,
    commands: Vec<Command<Device>>,
    waits: Vec<(usize, u64)>,
}

struct Program {
    options: WorldOptions,
    desc: AllocatorDesc,
    dice: Dice,
    figures: Figures,
    things: Vec<Thing>,
    evictables: Evictables,
    pages: Option<Pages>,
    checks: Vec<Check>,
    /// One entry per queue; `None` if the queue has no open recording.
    open: Vec<Option<Recording>>,
    /// Last value that was submitted to each queue.
    submitted: Vec<u64>,
    table: BindlessTable<Device>,
    heap: ShaderVisibleHeap<Device>,
    transient: TransientAllocator<Device>,
    constants: ConstantBuffers<Device, ()>,
    fast: FastConstants<Device>,
    ring: UploadRing<Device>,
    timelines: Vec<Timeline<Device>>,
    /// With [`Bug::EarlyReclaim`], the fences that run ahead of the work.
    ahead: Vec<Fence>,
    memory: Allocator<Device>,
    /// Declared last, because it must be dropped last.
    gpu: SimGpu,
}

pub fn run(options: &WorldOptions, trace: Option<Box<dyn Write + Send>>) -> Result<Figures, Finding> {
    let finding = |step, what| Finding { seed: options.seed, step, what };
    let mut program = Program::new(options, trace).map_err(|what| finding(0, what))?;
    for step in 0..u64::from(options.steps) {
        program.figures.steps += 1;
        match program.step().and_then(|()| program.look()) {
            Ok(()) => {}
            Err(Stop::Lost) => break,
            Err(Stop::Wrong(what)) => return Err(finding(step, program.abort(what))),
        }
    }
    let step = program.figures.steps;
    program.end().map_err(|what| finding(step, what))
}

impl Program {
    fn new(options: &WorldOptions, trace: Option<Box<dyn Write + Send>>) -> Result<Self, String> {
        let mut dice = Dice::new(options.seed);
        let profiles = Profile::all();
        let profile = profiles[dice.below(profiles.len() as u64) as usize].clone();
        let queues = 1 + dice.below(3) as usize;
        let sim = SimOptions { seed: dice.any(), queues, lateness: 1 + dice.below(8) as u32, ..Default::default() };
        let gpu = SimGpu::with_profile(profile, sim).map_err(|error| error.to_string())?;
        let desc = AllocatorDesc {
            device_block_bytes_max: (256 * KIB) << dice.below(4),
            host_block_bytes_max: (256 * KIB) << dice.below(4),
            empty_blocks_kept: dice.below(2) as usize,
            empty_block_grace: dice.below(6),
            // Leaks are counted on the device at the end.
            debug: if dice.one_in(6) {
                DebugDesc { leaks: false, ..DebugDesc::everything() }
            } else {
                DebugDesc::default()
            },
            ..Default::default()
        };
        let memory = Allocator::over(gpu.device(), desc);
        if let Some(trace) = trace {
            memory.trace().start(trace).map_err(|error| error.to_string())?;
        }
        let lies = options.bug == Some(Bug::EarlyReclaim);
        let ahead: Vec<_> = (0..queues).filter(|_| lies).map(|_| gpu.sim().create_fence(0)).collect();
        let timelines = (0..queues).map(|queue| {
            let fence = ahead.get(queue).copied().unwrap_or(gpu.fence(queue));
            // SAFETY: fences live as long as the device, and submitted frames signal their values. With
            // [`Bug::EarlyReclaim`], the fences run ahead of the work on purpose; the simulated device reports the
            // hazards.
            unsafe { memory.timeline(fence) }.map_err(|error| error.to_string())
        });
        let timelines = timelines.collect::<Result<Vec<_>, _>>()?;
        Self::create_objects(*options, desc, dice, gpu, memory, timelines, ahead).map_err(|error| error.to_string())
    }

    /// Creates the objects with which every world starts.
    fn create_objects(
        options: WorldOptions,
        desc: AllocatorDesc,
        mut dice: Dice,
        gpu: SimGpu,
        memory: Allocator<Device>,
        timelines: Vec<Timeline<Device>>,
        ahead: Vec<Fence>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let capacity = (32 * KIB) << dice.below(3);
        let when_full =
            if dice.one_in(2) { WhenFull::grow(512 * KIB) } else { WhenFull::Wait { timeout: Duration::MAX } };
        let ring =
            UploadRing::new(&memory, UploadDesc { capacity, when_full, page_bytes: 4 * KIB, ..Default::default() })?;
        let visible = ShaderVisibleDesc {
            types: ViewTypes::STORAGE_BUFFER,
            frame_slots: 8,
            persistent_slots: 8,
            chunk_slots: 4,
            ..Default::default()
        };
        let heap = ShaderVisibleHeap::new(&memory, visible)?;
        let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity: 6, clear_freed: true })?;
        let constants = ConstantsDesc {
            dynamic_slots: 8,
            dynamic_bytes_max: 64 * KIB,
            static_slots: 4,
            usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC,
            ..Default::default()
        };
        let constants = ConstantBuffers::new(&memory, constants, ())?;
        let usage = BufferUsage::CONSTANT | BufferUsage::COPY_SRC;
        let fast = FastConstants::new(&memory, FastConstantsDesc { usage, page_bytes: 4 * KIB, ..Default::default() });
        let transient = TransientDesc {
            heap_bytes: 64 * KIB,
            objects_kept: dice.below(3) as usize,
            latency_frames: dice.below(3),
            heap_idle_frames: dice.below(3),
            ..Default::default()
        };
        let transient = TransientAllocator::new(&memory, transient);
        let queues = timelines.len();
        let evictables = Evictables::new(&memory, &mut dice);
        Ok(Self {
            options,
            desc,
            dice,
            figures: Figures::default(),
            things: Vec::new(),
            evictables,
            pages: None,
            checks: Vec::new(),
            open: (0..queues).map(|_| None).collect(),
            submitted: vec![0; queues],
            table,
            heap,
            transient,
            constants,
            fast,
            ring,
            timelines,
            ahead,
            memory,
            gpu,
        })
    }

    /// Returns the open recording of a queue. If there is none, begins one.
    fn recording(&mut self, queue: usize) -> &mut Recording {
        let timeline = &self.timelines[queue];
        let begin = || Recording { frame: timeline.begin(), commands: Vec::new(), waits: Vec::new() };
        self.open[queue].get_or_insert_with(begin)
    }

    /// Returns the submission that the queue is recording.
    fn user(&mut self, queue: usize) -> Use {
        Use { queue, value: self.recording(queue).frame.value() }
    }

    /// Makes the open recording of a queue wait for other work. If that work is still being recorded, submits it first.
    fn order(&mut self, queue: usize, after: &[Use]) -> Step {
        let waits = self.waits_for(queue, after)?;
        if !waits.is_empty() {
            self.recording(queue).waits.extend(waits);
        }
        Ok(())
    }

    /// Returns the waits of a queue for other work. If that work is still being recorded, submits it.
    fn waits_for(&mut self, queue: usize, after: &[Use]) -> Result<Vec<(usize, u64)>, Stop> {
        let mut waits = Vec::new();
        for user in after {
            if user.queue == queue {
                continue;
            }
            if user.value > self.submitted[user.queue] {
                self.submit(user.queue)?;
            }
            if self.options.bug == Some(Bug::MissingWait) && self.dice.one_in(2) {
                continue;
            }
            waits.push((user.queue, user.value));
        }
        Ok(waits)
    }

    fn submit(&mut self, queue: usize) -> Step {
        let Some(Recording { frame, commands, waits }) = self.open[queue].take() else { return Ok(()) };
        let value = frame.value();
        self.gpu.submit(queue, &waits, &commands, value).map_err(stop)?;
        self.submitted(queue, frame, value)
    }

    fn submitted(&mut self, queue: usize, frame: Frame, value: u64) -> Step {
        self.timelines[queue].submitted(frame).map_err(wrong)?;
        if let Some(&ahead) = self.ahead.get(queue) {
            let gate = self.gpu.queue_count();
            self.gpu.sim().submit(gate, &[], vec![], (ahead, value)).map_err(stop)?;
        }
        self.submitted[queue] = value;
        self.figures.submissions += 1;
        Ok(())
    }

    /// Waits until the device has completed the work, not through the library's timelines.
    fn wait(&mut self, user: Use) -> Step {
        if user.value > self.submitted[user.queue] {
            self.submit(user.queue)?;
        }
        (0..self.gpu.queue_count()).for_each(|queue| self.gpu.sim().resume(queue));
        let fence = self.gpu.fence(user.queue);
        // SAFETY: the fence belongs to this device.
        match unsafe { self.gpu.sim().wait(&fence, user.value, Duration::MAX) }.map_err(stop)? {
            true => Ok(()),
            false => Err(Stop::Wrong(format!("queue {} never reaches {}", user.queue, user.value))),
        }
    }

    /// Waits for a readback and compares its bytes.
    fn settle(&mut self, at: usize) -> Step {
        self.wait(self.checks[at].by)?;
        let check = self.checks.swap_remove(at);
        let mut read = vec![0; check.padded_bytes()];
        check.back.read(0, &mut read).map_err(access)?;
        self.figures.checked_bytes += check.expected.len() as u64;
        self.figures.digest(&read);
        if check.holds(&read) { Ok(()) } else { Err(Stop::Wrong(format!("wrong bytes: {}", check.what))) }
    }

    /// Returns the first message of the device. After one of eight steps, validates the library.
    fn look(&mut self) -> Step {
        let messages = self.gpu.take_messages();
        if let Some(message) = messages.first() {
            return Err(Stop::Wrong(message.clone()));
        }
        // Validation after every step would take most of the time.
        if self.dice.one_in(8) {
            self.validate()?;
        }
        Ok(())
    }

    fn validate(&self) -> Step {
        let unsound = |what: &str, error: &dyn std::fmt::Debug| Stop::Wrong(format!("{what} is not sound: {error:?}"));
        self.memory.debug().validate().map_err(|error| unsound("the allocator", &error))?;
        self.look_at_guards()?;
        self.ring.validate().map_err(|error| unsound("the ring", &error))?;
        self.table.validate().map_err(|error| unsound("the table", &error))?;
        self.heap.validate().map_err(|error| unsound("the heap", &error))?;
        self.transient.validate().map_err(|error| unsound("the transient allocator", &error))
    }

    /// Ends a world after a finding and releases everything. If the device has a hazard, returns it instead of the
    /// finding, because a hazard says more than wrong bytes.
    fn abort(mut self, what: String) -> String {
        let what = self.gpu.take_messages().into_iter().next().unwrap_or(what);
        self.memory.budgets().set_eviction(None);
        self.open.drain(..).flatten().for_each(|recording| recording.frame.discard());
        (0..self.gpu.queue_count()).for_each(|queue| self.gpu.sim().resume(queue));
        what
    }

    /// Submits the open recordings, compares all contents, and releases everything.
    fn end(mut self) -> Result<Figures, String> {
        let is_lost = match self.last_checks().and_then(|()| self.look()).and_then(|()| self.validate()) {
            Ok(()) => false,
            Err(Stop::Lost) => true,
            Err(Stop::Wrong(what)) => return Err(self.abort(what)),
        };
        let Self {
            gpu,
            memory,
            open,
            mut things,
            evictables,
            pages,
            checks,
            table,
            heap,
            transient,
            constants,
            fast,
            ring,
            timelines,
            ..
        } = self;
        // The callback contains a resource, which refers to the allocator.
        memory.budgets().set_eviction(None);
        let mut figures = self.figures;
        let keeps = self.options.bug == Some(Bug::KeptAfterLoss) && is_lost;
        let kept = if keeps { std::mem::take(&mut things) } else { Vec::new() };
        let made_first = self.dice.clone().one_in(2);
        // The open recordings are not submitted.
        open.into_iter().flatten().for_each(|recording| recording.frame.discard());
        // No work of dropped frames was submitted.
        timelines.iter().for_each(Timeline::discard_dropped);
        if made_first {
            drop((things, checks, evictables, pages));
            let ended = memory.shutdown(Duration::MAX).map_err(|error| error.to_string())?;
            figures.lost = ended.device_lost;
            drop((table, heap, transient, constants, fast, ring));
        } else {
            drop((ring, fast, constants, transient, heap, table));
            drop((pages, evictables, checks, things));
        }
        memory.debug().validate().map_err(|error| format!("at the end: {error:?}"))?;
        memory.trace().stop().map_err(|error| error.to_string())?;
        drop((timelines, memory));
        let said = gpu.close();
        drop(kept);
        said.into_iter().next().map_or(Ok(figures), |message| Err(format!("at the end: {message}")))
    }

    fn last_checks(&mut self) -> Step {
        (0..self.gpu.queue_count()).for_each(|queue| self.gpu.sim().resume(queue));
        for heap in 0..self.memory.device().capabilities().memory_heaps.len() {
            self.gpu.sim().set_budget(heap, None);
        }
        for at in 0..self.things.len() {
            self.check(at)?;
        }
        for queue in 0..self.open.len() {
            self.submit(queue)?;
        }
        while !self.checks.is_empty() {
            self.settle(0)?;
        }
        Ok(())
    }
}
