//! Execution of queues under a seeded clock. Each queue runs its work in order and with a delay. Fences alone order the
//! work of different queues.
//!
//! ```text
//!   submit, completed, advance, each step of wait ──▶ a tick: visits every queue, from a random one on;
//!                                                     a selected queue runs some or all steps of its next
//!                                                     submission, if the waits of the submission are reached;
//!                                                     after the last step, the submission signals its fence
//! ```

use super::barrier::{How, Overlaps};
use super::command::{Command, KernelMemory};
use super::contents::SharedUses;
use super::hazard::{Hazard, HazardKind};
use super::ids::{Fence, Label, What};
use super::order::{Access, Point};
use super::queue::Submission;
use super::state::State;
use super::step::{Address, Rows, Step};
use ringfence_hal::DeviceError;
use std::collections::VecDeque;

impl State {
    pub(super) fn create_fence(&mut self, initial: u64) -> Fence {
        let fence = Fence(self.draw_id());
        self.queues.fences.insert(fence, initial);
        self.order.add_fence(fence, initial);
        fence
    }

    pub(super) fn submit(
        &mut self,
        queue: usize,
        waits: &[Point],
        commands: Vec<Command>,
        signal: Point,
    ) -> Result<(), DeviceError> {
        self.check_alive()?;
        DeviceError::invalid("no such queue, counted from 1")
            .at_most(queue as u64 + 1, self.queues.queues.len() as u64)?;
        for &(fence, _) in waits.iter().chain([&signal]) {
            self.queues.value(fence)?;
        }
        self.counts.submit += 1;
        self.spend(self.profile.costs.submit_ns);
        let mut uses = Vec::new();
        let first_hazard = self.hazards.len();
        let (mut overlaps, mut shared_uses) = (Overlaps::default(), SharedUses::default());
        let mut checked = |command| {
            self.check_owners(queue, &command);
            let (first, how) =
                (uses.len(), if matches!(command, Command::Kernel(_)) { How::Kernel } else { How::Copy });
            if let Command::Barrier(barrier) = command {
                overlaps.barrier(barrier);
                self.note_activated(barrier);
            }
            shared_uses.add_activation(self, &command);
            let steps = self.steps(command, &mut uses);
            shared_uses.add(self, &uses[first..]);
            if self.watches_barriers {
                self.watch_overlaps(&mut overlaps, &uses[first..], how);
            }
            steps
        };
        let steps: VecDeque<_> = commands.into_iter().flat_map(&mut checked).collect();
        for hazard in &mut self.hazards[first_hazard..] {
            hazard.queue = Some(queue);
        }
        self.report_evicted(&uses, queue);
        let held = &mut self.queues.queues[queue];
        held.submitted += 1;
        let key = (queue, held.submitted);
        held.pending.push_back(Submission { waits: waits.to_vec(), steps, signal });
        for conflict in self.order.submit(key, waits, signal, uses) {
            let Access { label, space_label, range, .. } = conflict.access;
            let hazard = Hazard::about(HazardKind::QueueConflict, label).within(space_label, range);
            self.report(hazard.pending(conflict.pending).on_queue(conflict.queue));
        }
        self.follow_contents(key, shared_uses);
        self.tick();
        Ok(())
    }

    pub(super) fn completed(&mut self, fence: Fence) -> Result<u64, DeviceError> {
        self.check_alive()?;
        self.counts.completed += 1;
        self.spend(self.profile.costs.completed_ns);
        self.tick();
        let value = self.queues.value(fence)?;
        self.order.observe(fence, value);
        Ok(value)
    }

    /// Waits in simulated time. Returns `true` once the fence has reached `value`. Returns `false` on timeout, or if no
    /// more work can run.
    pub(super) fn wait(&mut self, fence: Fence, value: u64, timeout_ns: u64) -> Result<bool, DeviceError> {
        self.check_alive()?;
        self.counts.wait += 1;
        self.spend(self.profile.costs.wait_ns);
        let mut left_ns = timeout_ns;
        loop {
            if self.queues.value(fence)? >= value {
                self.order.observe(fence, value);
                return Ok(true);
            }
            if left_ns == 0 || !self.queues.can_progress() {
                return Ok(false);
            }
            self.tick();
            let passed = self.queues.tick_ns.min(left_ns);
            left_ns -= passed;
            self.spend(passed);
        }
    }

    /// Runs all work that can run. The host then knows that this work has ended. Returns `true` if no work is left.
    pub(super) fn run_until_idle(&mut self) -> bool {
        while self.queues.can_progress() {
            self.tick();
        }
        for (fence, value) in self.queues.fences.clone() {
            self.order.observe(fence, value);
        }
        for queue in 0..self.queues.queues.len() {
            self.order.observe_end((queue, self.queues.queues[queue].ended));
        }
        self.queues.is_idle()
    }

    pub(super) fn lose(&mut self) {
        self.lost = true;
        self.order.clear();
        for queue in &mut self.queues.queues {
            queue.pending.clear();
        }
    }

    pub(super) fn tick(&mut self) {
        let count = self.queues.queues.len();
        let first = self.queues.rng.below(count as u64) as usize;
        for queue in (first..count).chain(0..first) {
            if self.queues.rng.below(self.queues.lateness) == 0 && self.queues.is_ready(queue) {
                self.run_some(queue);
            }
        }
    }

    /// Runs steps of the queue's next submission: with probability one half a random number of them, otherwise all that
    /// are left.
    fn run_some(&mut self, queue: usize) {
        let Some(next) = self.queues.queues[queue].pending.front() else { return };
        let left = next.steps.len();
        let count = if self.queues.rng.below(2) == 0 { self.queues.rng.below(left as u64) as usize + 1 } else { left };
        for _ in 0..count.min(left) {
            let next = self.queues.queues[queue].pending.front_mut();
            if let Some(step) = next.and_then(|next| next.steps.pop_front()) {
                self.run_step(step);
            }
        }
        if count >= left {
            self.end_submission(queue);
        }
    }

    fn end_submission(&mut self, queue: usize) {
        let held = &mut self.queues.queues[queue];
        let Some(Submission { signal: (fence, value), .. }) = held.pending.pop_front() else { return };
        held.ended += 1;
        let Some(reached) = self.queues.fences.get_mut(&fence) else { return };
        if value > *reached {
            *reached = value;
        } else {
            let label = Label::unnamed(What::Fence, fence.0);
            self.report(Hazard::about(HazardKind::FenceNotRising, label).on_queue(queue));
        }
    }

    fn run_step(&mut self, step: Step) {
        match step {
            Step::Copy { src, dst, row_bytes, rows } => self.run_copy(src, dst, row_bytes, rows),
            Step::Fill { dst, size, value } => {
                if let Some(object) = self.memories.get_mut(&dst.memory) {
                    object.device.fill(dst.offset, size, value);
                }
            }
            Step::Kernel { reads, writes, descriptors, run } => {
                let shown: Vec<Option<Access>> =
                    descriptors.iter().map(|used| self.descriptor(used.heap, used.slot).cloned()).collect();
                let load = |access: &Access| self.load(Address::of(access), access.range.end - access.range.start);
                let mut memory = KernelMemory {
                    reads: reads.iter().map(load).collect(),
                    writes: writes.iter().map(load).collect(),
                    descriptors: shown.iter().map(|shown| shown.as_ref().map(load).unwrap_or_default()).collect(),
                };
                run(&mut memory);
                let written = descriptors.iter().zip(&shown).zip(&memory.descriptors);
                for ((_, shown), bytes) in written.filter(|((used, _), _)| used.writes) {
                    shown.iter().for_each(|access| self.store(access, bytes));
                }
                for (access, bytes) in writes.iter().zip(&memory.writes) {
                    self.store(access, bytes);
                }
            }
        }
    }

    fn run_copy(&mut self, src: Rows, dst: Rows, row_bytes: u64, rows: u64) {
        /// Largest piece of a row that is copied at once, in bytes.
        const CHUNK: u64 = 1 << 20;
        for row in 0..rows {
            let mut done = 0;
            while done < row_bytes {
                let part = CHUNK.min(row_bytes - done);
                let from = src.first.offset + row * src.pitch + done;
                let bytes = self.load(Address { offset: from, ..src.first }, part);
                if let Some(object) = self.memories.get_mut(&dst.first.memory) {
                    object.device.write(dst.first.offset + row * dst.pitch + done, &bytes);
                }
                done += part;
            }
        }
    }

    /// Returns `size` bytes of the device view. If the memory was freed, all of them are poison.
    pub(super) fn load(&self, from: Address, size: u64) -> Vec<u8> {
        let mut bytes = vec![self.poison; size as usize];
        if let Some(object) = self.memories.get(&from.memory) {
            object.device.read(from.offset, &mut bytes);
        }
        bytes
    }

    /// Writes the result of a kernel to the range that the kernel declared. Bytes beyond the range are dropped.
    fn store(&mut self, access: &Access, bytes: &[u8]) {
        let size = (access.range.end - access.range.start).min(bytes.len() as u64);
        if let Some(object) = self.memories.get_mut(&access.space) {
            object.device.write(access.range.start, &bytes[..size as usize]);
        }
    }
}
