//! The commit of a frame.
//!
//! ```text
//!   commit(uses, frame, recorder)
//!     sweep        resources whose handles were dropped are retired
//!     settle       copies of lost frames count as not made
//!     stamp        each used resource gets the frame's point
//!     bring        used and away, in the order of priorities: room? ── no ──▶ others leave, the one used last first
//!     excess       too many bytes on the device: others leave, or textures in use give up mip levels
//!     write back   the device is nearly full: written resources are copied to the host, so that they can leave later
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | a commit while all used resources are on the device | O(uses + copies under way + memory types + recycled objects) |
//! | … while others have to leave | O(resources log resources), and for each that comes the creation of an object |

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_commands::Commands;
use ringfence_hal::transfer::{Transfer, TransferSupport};
use ringfence_hal::{Device, Priority};
use ringfence_memory::trace::Event;
use ringfence_memory::{Error, Frame};
use smallvec::SmallVec;

use super::{Paging, PagingStep};
use crate::PagingError;
use crate::desc::WhenAway;
use crate::handle::{PageUses, Use};
use crate::host_copy::{HostCopy, HostState};
use crate::item::{Body, Item, Target, has_passed, is_shortage};
use crate::policy::{Candidate, order};

/// Written resources are copied to the host while less than this part of the limit is free, or too little for the largest
/// resource.
const SPARE_PART: u64 = 8;

/// Number of commits after which empty blocks are freed again while the heap is beyond its limit.
const COMMITS_PER_TRIM: u64 = 8;

impl<D: Device> Paging<D> {
    /// Retires the resources whose handles were dropped.
    fn sweep(&mut self) {
        if self.dropped.swap(0, Ordering::Acquire) == 0 {
            return;
        }
        for index in 0..self.items.len() {
            if let Some(mut item) = self.items[index].take_if(|item| item.alive.is_dropped()) {
                self.totals.resource_count -= 1;
                self.totals.content_bytes -= item.layout.tight_bytes;
                // SAFETY: every commit has recorded its use, and the caller of `new` commits each submission.
                self.device_bytes -= unsafe { item.leave() };
                self.free.push(index as u32);
            }
        }
        let is_live = |index: &u32| self.items[*index as usize].is_some();
        self.unsettled.retain(is_live);
        self.without_kept.retain(is_live);
    }

    /// Takes note of copies whose frames were completed or lost.
    fn settle(&mut self) {
        let shared = self.memory.shared();
        // Evicted memory keeps its contents, so their copy on the host is no longer needed.
        let is_evicted = self.residency.is_some();
        let (items, device_bytes, changed) = (&mut self.items, &mut self.device_bytes, &mut self.changed);
        self.unsettled.retain(|index| {
            let Some(item) = &mut items[*index as usize] else { return false };
            let (was_present, settled) = (item.present.is_some(), item.settle(shared));
            *device_bytes -= settled.lost_bytes;
            if was_present && item.present.is_none() {
                item.generation += 1;
                changed.push(item.user_data);
            }
            if is_evicted && settled.is_settled && item.present.is_some() {
                item.host = HostCopy { buffer: None, state: HostState::Stale, is_writable: false };
            }
            !settled.is_settled
        });
        self.retiring.retain(|(_, point)| !has_passed(shared, *point));
    }

    /// Records the uses of a frame. After it, `used` has each used resource once, and its demand.
    fn stamp(&mut self, uses: &PageUses, frame: &Frame) {
        self.used.clear();
        self.waits.clear();
        let point = frame.point();
        for Use { key, first_mip, is_written } in &uses.0 {
            let Some(item) = &mut self.items[key.index as usize] else { continue };
            if item.serial != key.serial {
                continue;
            }
            if item.rhythm.last() != self.now {
                item.rhythm.used(self.now);
                item.use_in(point);
                (item.demand, item.is_written) = (u32::MAX, false);
                self.used.push(key.index);
            }
            // Where memory is evicted as a whole, a texture has all its mip levels.
            let first_mip = if self.residency.is_some() { 0 } else { item.start_of(*first_mip) };
            item.demand = item.demand.min(first_mip);
            item.is_written |= is_written;
        }
    }

    /// Records in a trace that a resource came to the device or left it.
    fn note_paged(&self, index: u32, arrives: bool, bytes: u64) {
        let (Some(heap), Some(item)) = (self.heap, &self.items[index as usize]) else { return };
        let away_bytes = self.totals.content_bytes.saturating_sub(self.device_bytes);
        self.memory.shared().record(|| Event::Paged { heap, arrives, bytes, away_bytes, name: &item.name });
    }

    /// Fills `candidates` with the resources that can give up device memory in commit `now`, in the order in which they
    /// leave.
    pub(super) fn gather(&mut self, now: u64, is_wanted: impl Fn(&Item<D>) -> bool) {
        self.candidates.clear();
        for (index, item) in (0..).zip(&self.items) {
            let Some(item) = item.as_ref().filter(|item| !item.is_pinned) else { continue };
            let Some(present) = item.present.as_ref().filter(|present| !present.is_on_host) else { continue };
            let level = item.kept_level();
            if item.rhythm.last() == now || level.is_some_and(|level| level <= present.first_mip) {
                continue;
            }
            if is_wanted(item) {
                let bytes = present.bytes.saturating_sub(level.map_or(0, |level| item.bytes_from(level)));
                let next_use = item.rhythm.next_use(now);
                self.candidates.push(Candidate { item: index, bytes, priority: item.priority, next_use });
            }
        }
        order(&mut self.candidates);
    }
}

/// How soon a used resource that is away has to come, the most urgent last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// In a later commit, if this one has copied enough or has no room.
    MayWait,
    /// Now, but if the device has no room, in host memory.
    FromHost,
    /// Now.
    Now,
}

impl Urgency {
    /// Returns the urgency of a resource; `is_slow` if it is in host memory.
    const fn of(when_away: WhenAway, is_slow: bool) -> Self {
        match when_away {
            WhenAway::BringBack => Self::Now,
            WhenAway::UseFromHost if !is_slow => Self::FromHost,
            WhenAway::UseFromHost | WhenAway::MayBeAway { .. } => Self::MayWait,
        }
    }
}

/// The state of a commit.
struct Work<'a, 'c, D: TransferSupport, R: Transfer<D>> {
    commands: &'a mut Commands<'c, D, R>,
    frame: &'a Frame,
    step: PagingStep,
    /// Limit of the bytes on the device; lower than at the start after a refusal.
    limit: u64,
    /// `true` once the candidates were gathered; the next one is at `next`.
    is_gathered: bool,
    next: usize,
    /// `true` if a resource had no room.
    was_short: bool,
}

impl<D: TransferSupport> Paging<D> {
    /// Prepares the resources that a frame uses: records copies for those that are away into the frame's command list,
    /// and lets others leave if the device has no room. Call it before the frame's commands that use paged resources, and
    /// before each submission. Then look up the objects with [`Paging::texture`] and [`Paging::buffer`].
    ///
    /// If the frame is not submitted, its copies are made again by a later commit.
    ///
    /// # Errors
    /// [`PagingError::NoRoom`]; the frame or a resource is foreign; host memory is short; the driver failed. No contents
    /// are lost, and the commit can be repeated.
    ///
    /// # Safety
    /// - The recorder's command list is submitted as `frame`, or never. It is in the recording state, and its queue
    ///   supports copies of the formats.
    /// - The commands of the frame use only the paged resources of `uses`, and write only those that were added as
    ///   written. Textures are in the layout or state of the recorder, before and after them.
    /// - The submission waits for [`Paging::waits`]. Work on another queue that uses a resource after a frame that writes
    ///   it waits for that frame.
    pub unsafe fn commit<R: Transfer<D>>(
        &mut self,
        uses: &PageUses,
        frame: &Frame,
        recorder: &mut R,
    ) -> Result<PagingStep, PagingError> {
        if uses.0.iter().any(|used| used.key.paging != self.id) {
            return Err(PagingError::ForeignResource);
        }
        let memory = self.memory.clone();
        // SAFETY: the caller promises the same.
        let mut commands = unsafe { Commands::new(&memory, frame, recorder) }.map_err(|_| PagingError::ForeignFrame)?;
        self.changed.clear();
        self.sweep();
        self.settle();
        self.now += 1;
        self.stamp(uses, frame);
        self.follow_excess();
        let limit = self.limit_bytes();
        let (step, commands) = (PagingStep { limit_bytes: limit, ..Default::default() }, &mut commands);
        let mut work = Work { commands, frame, step, limit, is_gathered: false, next: 0, was_short: false };
        let brought = self.bring_used(&mut work);
        self.bring_kept(&mut work)?;
        self.leave_excess(&mut work)?;
        self.write_back(&mut work)?;
        self.finish(&mut work);
        brought?;
        self.make_resident(frame)?;
        Ok(work.step)
    }

    /// While the heap is beyond its limit, frees empty blocks and recycled objects now and then. If that is not enough,
    /// because blocks are not empty, lets more resources leave.
    fn follow_excess(&mut self) {
        let excess = self.excess_bytes();
        if self.residency.is_some() || excess == 0 {
            (self.excess_commits, self.squeezed_bytes) = (0, 0);
            return;
        }
        self.excess_commits += 1;
        if self.excess_commits.is_multiple_of(COMMITS_PER_TRIM) {
            self.memory.reclaim();
            self.memory.budgets().trim();
            let excess = self.excess_bytes();
            self.squeezed_bytes += if excess > 0 { self.largest_bytes.max(excess / COMMITS_PER_TRIM) } else { 0 };
        }
    }

    /// Brings the used resources that are away, those with the highest priority first. If one has no room, goes on with
    /// the others and returns its error.
    fn bring_used<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) -> Result<(), PagingError> {
        let mut missing: Vec<(Urgency, Priority, u64, Reverse<u32>)> = Vec::new();
        for index in &self.used {
            let item = self.items[*index as usize].as_ref().expect("stamped");
            let is_slow = item.is_current() && item.present.as_ref().is_some_and(|present| present.is_on_host);
            if !item.has(item.demand) || is_slow {
                let urgency = Urgency::of(item.when_away, is_slow);
                missing.push((urgency, item.priority, item.bytes_from(item.demand), Reverse(*index)));
            }
        }
        missing.sort_unstable_by(|one, other| other.cmp(one));
        let mut failed = Ok(());
        for (urgency, _, bytes, Reverse(index)) in missing {
            let is_required = urgency != Urgency::MayWait;
            let sum = work.step.brought_bytes + bytes;
            if !is_required && work.step.brought_bytes > 0 && sum > self.desc.bytes_per_commit_max {
                continue;
            }
            let first_mip = self.items[index as usize].as_ref().map_or(0, |item| item.demand);
            match self.bring(work, index, first_mip) {
                Err(PagingError::NoRoom { .. }) if !is_required => self.bring_coarser(work, index, first_mip)?,
                Err(error) => failed = failed.and(Err(error)),
                Ok(()) => {}
            }
        }
        failed
    }

    /// Brings the finest mip levels that have room, of a texture whose levels from `first_mip` on have none.
    fn bring_coarser<R: Transfer<D>>(
        &mut self,
        work: &mut Work<'_, '_, D, R>,
        index: u32,
        first_mip: u32,
    ) -> Result<(), PagingError> {
        let item = self.items[index as usize].as_ref().expect("the caller has it");
        let end = item.present.as_ref().map_or(item.layout.levels.len() as u32, |present| present.first_mip);
        let coarser: SmallVec<[u32; 16]> = (first_mip + 1..end).filter(|mip| item.start_of(*mip) == *mip).collect();
        for mip in coarser {
            match self.bring(work, index, mip) {
                Err(PagingError::NoRoom { .. }) => {}
                other => return other,
            }
        }
        Ok(())
    }

    /// Brings the mip levels that stay on the device, of resources that have none there yet.
    fn bring_kept<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) -> Result<(), PagingError> {
        let mut at = 0;
        while let Some(index) = self.without_kept.get(at).copied() {
            let item = self.items[index as usize].as_ref();
            let level = item.and_then(|item| item.kept_level().filter(|level| !item.has(*level)));
            match level.map_or(Ok(()), |level| self.bring(work, index, level)) {
                Ok(()) => drop(self.without_kept.swap_remove(at)),
                Err(PagingError::NoRoom { .. }) => at += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Brings a resource from a mip level on, after others have left if there is no room.
    fn bring<R: Transfer<D>>(
        &mut self,
        work: &mut Work<'_, '_, D, R>,
        index: u32,
        first_mip: u32,
    ) -> Result<(), PagingError> {
        let item = self.items[index as usize].as_ref().expect("the caller has it");
        let (bytes, from_host) = (item.bytes_from(first_mip), item.when_away == WhenAway::UseFromHost);
        let is_present = item.present.is_some();
        let (mut has_room, mut refused) = (self.make_room(work, bytes), None);
        loop {
            let is_on_host = !has_room && from_host && self.host_types != 0;
            if !has_room && (!is_on_host || is_present) {
                return Err(self.no_room(work, index, bytes, refused));
            }
            let memory_types = if is_on_host { self.host_types } else { u32::MAX };
            let is_evictable = self.residency.is_some();
            let movable = self.desc.movable.then_some(index).filter(|_| !is_on_host && !is_evictable);
            let target = Target { first_mip, memory_types, is_on_host, is_evictable, movable };
            match self.bring_to(work, index, target) {
                // The estimate was wrong: free ranges are too small, or another process takes memory.
                Err(PagingError::Memory(error)) if is_shortage(&error) && !is_on_host => {
                    work.limit = work.limit.min(self.device_bytes + self.retiring_bytes());
                    (has_room, refused) = (self.make_room(work, bytes), Some(error));
                }
                other => return other,
            }
        }
    }

    fn bring_to<R: Transfer<D>>(
        &mut self,
        work: &mut Work<'_, '_, D, R>,
        index: u32,
        target: Target,
    ) -> Result<(), PagingError> {
        let item = self.items[index as usize].as_mut().expect("the caller has it");
        let on_device = |item: &Item<D>| item.present.as_ref().map_or(0, |present| present.device_bytes());
        // Until it returns, the resource counts as away: if a recorder panics, it is.
        let before = on_device(item);
        self.device_bytes -= before;
        let generation = item.generation;
        let brought = item.bring(&self.memory, work.commands, work.frame, target);
        self.device_bytes += on_device(item);
        if before > 0 && (item.generation != generation || item.present.is_none()) {
            self.retiring.push((before, work.frame.point()));
        }
        let copied = brought?;
        work.step.brought_count += 1;
        work.step.brought_bytes += copied;
        self.changed.push(item.user_data);
        self.unsettled.push(index);
        self.note_paged(index, true, copied);
        Ok(())
    }

    /// Lets resources leave until `bytes` more have room on the device. Returns `false` if they have none.
    fn make_room<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>, bytes: u64) -> bool {
        if self.residency.is_some() {
            return true;
        }
        let is_short = |paging: &Self, work: &Work<'_, '_, D, R>| {
            (paging.device_bytes + paging.retiring_bytes()).saturating_add(bytes) > work.limit
        };
        if !is_short(self, work) {
            return true;
        }
        if !work.is_gathered {
            self.memory.reclaim();
            let shared = Arc::clone(self.memory.shared());
            self.retiring.retain(|(_, point)| !has_passed(&shared, *point));
            self.gather(self.now, |item| item.is_current() && item.pending_use(&shared).is_none());
            (work.is_gathered, work.next) = (true, 0);
        }
        let mut has_left = false;
        while is_short(self, work) && work.next < self.candidates.len() {
            let index = self.candidates[work.next].item;
            work.next += 1;
            self.leave(work, index);
            has_left = true;
        }
        if has_left {
            self.memory.reclaim();
        }
        let has_room = !is_short(self, work);
        work.was_short |= !has_room;
        has_room
    }

    /// Lets a resource leave. The mip levels that stay are brought again at the end of the commit.
    fn leave<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>, index: u32) {
        let item = self.items[index as usize].as_mut().expect("a candidate is live");
        let kept = item.kept_level();
        // SAFETY: every commit has recorded its use, and the caller of `new` commits each submission.
        let bytes = unsafe { item.leave() };
        self.device_bytes -= bytes;
        self.changed.push(item.user_data);
        work.step.left_count += 1;
        work.step.left_bytes += bytes;
        self.note_paged(index, false, bytes);
        if kept.is_some() {
            self.without_kept.push(index);
        }
    }

    /// Lets resources leave while the device has more bytes than the limit. If that is not enough, textures in use give
    /// up the mip levels that their uses do not need; that memory is free once the frame is complete.
    fn leave_excess<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) -> Result<(), PagingError> {
        if self.residency.is_some() || self.make_room(work, 0) && !work.was_short {
            return Ok(());
        }
        for index in 0..self.used.len() {
            let index = self.used[index];
            let Some(item) = &self.items[index as usize] else { continue };
            let finest = item.present.as_ref().filter(|present| !present.is_on_host).map(|present| present.first_mip);
            if item.is_pinned || !item.is_current() || finest.is_none_or(|finest| finest >= item.demand) {
                continue;
            }
            let target = Target::on_device(item.demand, self.desc.movable.then_some(index));
            match self.bring_to(work, index, target) {
                Err(PagingError::Memory(error)) if is_shortage(&error) => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    }

    /// Records copies of written resources to the host if the device is nearly full.
    fn write_back<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) -> Result<(), PagingError> {
        for index in &self.used {
            let written = self.items[*index as usize].as_mut().filter(|item| item.is_written);
            written.into_iter().for_each(|item| item.host.state = HostState::Stale);
        }
        let ahead = (work.limit / SPARE_PART).max(self.largest_bytes);
        let is_nearly_full = (self.device_bytes + self.retiring_bytes()).saturating_add(ahead) > work.limit;
        if self.residency.is_some() || !(is_nearly_full || work.was_short) {
            return Ok(());
        }
        let shared = Arc::clone(self.memory.shared());
        self.gather(self.now, |item| item.host.state == HostState::Stale && item.pending_use(&shared).is_none());
        for index in 0..self.candidates.len() {
            let at = self.candidates[index].item;
            let item = self.items[at as usize].as_mut().expect("a candidate is live");
            let sum = work.step.written_back_bytes + item.layout.tight_bytes;
            if work.step.written_back_bytes > 0 && sum > self.desc.write_back_bytes_max {
                break;
            }
            let copied = item.write_back(&self.memory, work.commands, work.frame, self.host_types)?;
            work.step.written_back_bytes += copied;
            self.unsettled.push(at);
        }
        Ok(())
    }

    fn no_room<R: Transfer<D>>(
        &self,
        work: &Work<'_, '_, D, R>,
        index: u32,
        missing_bytes: u64,
        cause: Option<Error>,
    ) -> PagingError {
        let (shared, here) = (self.memory.shared(), work.frame.point());
        let present = self.items.iter().flatten().filter(|item| item.present.is_some() && !item.is_pinned);
        let idle = present.filter(|item| item.rhythm.last() != self.now);
        let pending = idle.filter_map(|item| item.pending_use(shared)).filter(|point| *point != here);
        PagingError::NoRoom {
            name: self.items[index as usize].as_ref().map_or_else(Box::default, |item| item.name.clone()),
            missing_bytes,
            device_bytes: self.device_bytes + self.retiring_bytes(),
            limit_bytes: work.limit,
            cause: cause.map(Box::new),
            waits_for: pending
                .chain(self.retiring.iter().map(|(_, point)| *point))
                .filter(|point| *point != here)
                .min(),
        }
    }

    /// Counts the used resources that are away, and collects the points to wait for.
    fn finish<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) {
        let (shared, timeline) = (self.memory.shared(), work.frame.point().timeline);
        for index in &self.used {
            let Some(item) = &self.items[*index as usize] else { continue };
            work.step.away_count += u32::from(!item.has(item.demand));
            if let Some(present) = &item.present {
                work.step.on_host_count += u32::from(present.is_on_host);
                let is_elsewhere = present.filled_at.timeline != timeline;
                if is_elsewhere && !has_passed(shared, present.filled_at) {
                    self.waits.insert(present.filled_at);
                }
            }
        }
        work.step.device_bytes = self.device_bytes;
        self.totals.brought_bytes += work.step.brought_bytes;
        self.totals.left_bytes += work.step.left_bytes;
        self.totals.written_back_bytes += work.step.written_back_bytes;
    }

    /// Makes the used resources resident, where the program controls residency.
    fn make_resident(&mut self, frame: &Frame) -> Result<(), PagingError> {
        let Some((residency, list)) = &mut self.residency else { return Ok(()) };
        list.clear();
        for item in self.used.iter().filter_map(|index| self.items[*index as usize].as_ref()) {
            match item.present.as_ref().map(|present| &present.body) {
                Some(Body::Buffer(buffer)) => list.add(buffer),
                Some(Body::Texture(texture)) => list.add(texture),
                None => {}
            }
        }
        residency.commit(list, frame)?;
        Ok(())
    }
}
