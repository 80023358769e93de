//! Steps of a thread with memory: defragmentation, small allocations, and reading of statistics.

use ringfence::AllocationDesc;
use ringfence::defrag::{DefragDesc, MoveError};
use ringfence::device::Driver;

use super::super::outcome::{Step, Stop, granted, wrong};
use super::super::thing::{Body, needs};
use super::things::command;
use super::worker::Worker;
use super::{COPIED, lock};

/// Maximum number of small allocations that a thread holds.
const SLOTS_MAX: usize = 64;

impl Worker<'_> {
    /// Runs a defragmentation pass while other threads use memory. Moves only resources of this thread.
    pub fn move_own(&mut self) -> Step {
        let mut run = self.shared.memory.defragment(DefragDesc { bytes_per_pass_max: 128 << 10, ..Default::default() });
        let mut work = self.begin();
        let mut pass = run.begin_pass(&work.frame).map_err(wrong)?;
        for at in 0..self.held.len() {
            let Some(buffer) = self.held[at].buffer().filter(|buffer| pass.has(buffer)) else { continue };
            let info = self.info(buffer.size(), COPIED)?;
            work.waits.extend(self.uses(at));
            let Body::Buffer(buffer) = &mut self.held[at].body else { continue };
            let copied = match pass.copy_buffer(buffer) {
                Err(MoveError::NeedsInfo) => pass.copy_buffer_as(buffer, &info),
                other => other,
            };
            match copied {
                Ok(copy) => work.commands.push(command(copy)),
                Err(MoveError::Make(error)) => granted::<()>(Err(error)).map(drop)?,
                Err(other) => return Err(wrong(other)),
            }
        }
        drop(pass);
        self.figures.moved += work.commands.len() as u64;
        self.submit(work).map(drop)
    }

    /// Allocates small ranges that no work uses, passes them to other threads, and destroys some.
    pub fn slots(&mut self) -> Step {
        for _ in 0..self.dice.below(SLOTS_MAX as u64) {
            match self.dice.below(4) {
                0 | 1 if self.slots.len() < SLOTS_MAX => {
                    let needs = needs(1 + self.dice.below(2048), 256, u32::MAX);
                    let made = granted(self.shared.memory.allocate(needs, AllocationDesc::default()))?;
                    self.slots.extend(made);
                }
                2 => lock(&self.shared.slots).extend(self.slots.pop()),
                _ => {
                    let theirs = self.dice.one_in(2).then(|| lock(&self.shared.slots).pop()).flatten();
                    // SAFETY: no submission uses the memory.
                    theirs.or_else(|| self.slots.pop()).into_iter().for_each(|made| unsafe { made.destroy_now() });
                }
            }
        }
        Ok(())
    }

    /// Reads statistics and a snapshot, and checks that the snapshot has at least as many ranges as this thread holds
    /// small allocations.
    pub fn look(&mut self) -> Step {
        let (_, snapshot) = (self.shared.memory.statistics(), self.shared.memory.snapshot());
        let shown: usize = snapshot.blocks.iter().map(|block| block.ranges.len()).sum();
        let held = self.slots.len();
        if shown < held {
            return Err(Stop::Wrong(format!("the snapshot shows {shown} ranges, but this thread holds {held}")));
        }
        let seen = self.shared.residency.object_count();
        let mine = self.held.iter().any(|thing| thing.is_evictable);
        let residency = self.shared.memory.device().capabilities().residency;
        if residency && mine && seen == 0 {
            return Err(Stop::Wrong("residency does not know the evictable resources".to_owned()));
        }
        Ok(())
    }
}
