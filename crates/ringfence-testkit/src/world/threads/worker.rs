//! One thread of a world: its queue, its things and its steps.

use std::sync::Arc;
use std::thread::yield_now;
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferInfo, BufferUsage, Buffers, Create, Driver};
use ringfence::memory::Allocation;
use ringfence::residency::{ResidencyError, UseList};
use ringfence::sim::{Command, Device, Fence};
use ringfence::{AllocationDesc, Buffer, Frame, Location, Timeline};

use super::super::dice::Dice;
use super::super::outcome::{Step, Stop, granted, stop, wrong};
use super::super::thing::Check;
use super::super::{Bug, Figures};
use super::{COPIED, Canvas, Point, Shared, Thing, canvas, lock};

/// If a thread has more things than this number, it drops one before it adds another.
pub const HELD_MAX: usize = 20;

pub struct Worker<'a> {
    pub shared: &'a Shared,
    pub queue: usize,
    pub fence: Fence,
    /// With [`Bug::EarlyReclaim`], the fence that runs ahead of the work.
    ahead: Option<Fence>,
    pub timeline: Timeline<Device>,
    /// Evictable resources that the current recording uses.
    list: UseList<Device>,
    /// Last submitted value.
    submitted: u64,
    pub canvas: Canvas,
    pub dice: Dice,
    pub held: Vec<Thing>,
    pub checks: Vec<Check>,
    pub slots: Vec<Allocation<Device>>,
    pub figures: Figures,
}

/// A submission that is being recorded.
pub struct Work {
    pub frame: Frame,
    pub waits: Vec<Point>,
    pub commands: Vec<Command>,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared, queue: usize, seed: u64) -> Step<Self> {
        let fence = shared.device.create_fence(0);
        let ahead = (shared.options.bug == Some(Bug::EarlyReclaim)).then(|| shared.device.create_fence(0));
        // SAFETY: fences live as long as the device, and every submitted frame signals its value. With
        // [`Bug::EarlyReclaim`], the fence runs ahead of the work on purpose; the simulated device reports the hazards.
        let timeline = unsafe { shared.memory.timeline(ahead.unwrap_or(fence)) }.map_err(stop)?;
        let canvas = match &shared.canvas {
            Some(shared) => Arc::clone(shared),
            None => granted(canvas(&shared.device, &shared.memory))?.ok_or_else(|| wrong("no room to draw"))?,
        };
        let (list, dice) = (shared.residency.list(), Dice::new(seed));
        let (held, checks, slots, figures) = (Vec::new(), Vec::new(), Vec::new(), Figures::default());
        Ok(Self {
            shared,
            queue,
            fence,
            ahead,
            timeline,
            list,
            submitted: 0,
            canvas,
            dice,
            held,
            checks,
            slots,
            figures,
        })
    }

    /// Runs all steps. Returns the first finding, if there is one. The steps continue after the device is lost; they
    /// must then succeed or report the loss.
    pub fn work(mut self) -> (Figures, Option<String>) {
        let steps = self.shared.options.steps;
        self.shared.start.wait();
        for step in 0..steps {
            self.figures.steps += 1;
            if self.dice.one_in(8) {
                // Without this, a thread could finish before the next thread starts.
                yield_now();
            }
            if self.shared.loses && self.queue == 0 && step == steps / 2 {
                self.shared.lose();
            }
            if let Err(stopped) = self.step()
                && let Some(what) = self.shared.finding(stopped)
            {
                return (self.figures, Some(what));
            }
        }
        if let Err(stopped) = self.settle()
            && let Some(what) = self.shared.finding(stopped)
        {
            return (self.figures, Some(what));
        }
        if self.shared.options.bug == Some(Bug::KeptAfterLoss) && self.shared.is_lost() {
            lock(&self.shared.kept).append(&mut self.held);
        }
        (self.figures, None)
    }

    fn step(&mut self) -> Step {
        match self.dice.below(29) {
            0..=3 => self.create(),
            4 => self.create_upload(),
            5 | 6 => self.create_evictable(),
            7 | 8 => self.draw(),
            9..=11 => self.check(),
            12 => self.settle(),
            13..=15 => self.copy(),
            16 => self.rewrite(),
            17 => self.drop_one(),
            18 => self.resize(),
            19 => self.move_own(),
            20..=21 => self.lay_down(),
            22..=23 => self.take_up(),
            24 | 25 => self.slots(),
            26 => self.look(),
            27 => {
                self.shared.memory.reclaim();
                Ok(())
            }
            _ => {
                self.shared.memory.budgets().trim();
                Ok(())
            }
        }
    }

    pub fn has(&self, bug: Bug) -> bool {
        self.shared.options.bug == Some(bug)
    }

    pub fn info(&self, size: u64, usage: BufferUsage) -> Step<BufferInfo<'static, Device>> {
        Create::<Buffers>::describe(&self.shared.device, &BufferDesc { size, usage }).map_err(stop)
    }

    pub fn make(&mut self, size: usize, location: Location) -> Step<Option<Buffer<Device>>> {
        let usage = if location == Location::Readback { BufferUsage::COPY_DST } else { COPIED };
        let info = self.info(size as u64, usage)?;
        let movable = location == Location::Device && self.dice.one_in(2);
        let made = granted(
            self.shared.memory.create_buffer(&info, AllocationDesc { location, movable, ..Default::default() }),
        )?;
        Ok(self.count(made))
    }

    /// Counts a resource as created, or as refused if it is `None`.
    pub fn count<T>(&mut self, made: Option<T>) -> Option<T> {
        let counter = if made.is_some() { &mut self.figures.made } else { &mut self.figures.refused };
        *counter += 1;
        made
    }

    /// Adds a thing. If the thread already has more than [`HELD_MAX`] things, first drops one of them.
    pub fn hold(&mut self, thing: Thing) {
        if self.held.len() > HELD_MAX {
            self.held.swap_remove(0);
        }
        self.held.push(thing);
    }

    pub fn begin(&mut self) -> Work {
        self.list.clear();
        Work { frame: self.timeline.begin(), waits: Vec::new(), commands: Vec::new() }
    }

    /// Uses a thing in the current recording; declares the use if it is evictable. Returns the point to wait for.
    pub fn uses(&mut self, at: usize) -> Option<Point> {
        let after = self.held[at].after.take();
        let waits = !(self.has(Bug::MissingWait) && self.dice.one_in(2));
        let declares = !(self.has(Bug::MissingCommit) && self.dice.one_in(2));
        let thing = &self.held[at];
        if let Some(buffer) = thing.buffer().filter(|_| thing.is_evictable && declares) {
            self.list.add(buffer);
        }
        after.filter(|_| waits)
    }

    /// Commits the declared resources and submits. Returns the value that the submission signals.
    pub fn submit(&mut self, work: Work) -> Step<u64> {
        let Work { frame, waits, commands } = work;
        let value = frame.value();
        if !self.list.is_empty() || self.dice.one_in(3) {
            let committed = self.shared.residency.commit(&self.list, &frame).map_err(declined)?;
            self.figures.brought_back += committed.returned_count;
        }
        self.shared.device.submit(self.queue, &waits, commands, (self.fence, value)).map_err(stop)?;
        if let Some(ahead) = self.ahead {
            let last = self.shared.options.threads;
            self.shared.device.submit(last, &[], vec![], (ahead, value)).map_err(stop)?;
        }
        self.timeline.submitted(frame).map_err(wrong)?;
        self.submitted = value;
        self.figures.submissions += 1;
        Ok(value)
    }

    /// Waits until all submissions of this thread are complete.
    pub fn wait_own(&mut self) -> Step {
        self.wait((self.fence, self.submitted))
    }

    pub fn wait(&self, (fence, value): Point) -> Step {
        // SAFETY: the fence belongs to this device.
        let reached = unsafe { self.shared.device.wait(&fence, value, Duration::MAX) };
        if reached.map_err(stop)? {
            Ok(())
        } else {
            Err(Stop::Wrong(format!("queue {} never reaches {value}", self.queue)))
        }
    }
}

/// Converts an error of `commit`. Memory is never short, because the resources of a few threads always fit.
fn declined(error: ResidencyError) -> Stop {
    match error {
        ResidencyError::Device(error) => stop(error),
        other => wrong(other),
    }
}
