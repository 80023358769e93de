//! The commit of a frame.
//!
//! ```text
//!   commit(uses, frame, recorder)
//!     sweep        resources whose handles were dropped are retired
//!     settle       copies of lost frames count as not made
//!     stamp        each used resource gets the frame's point
//!     bring        used and away, in the order of priorities: room? ── no ──▶ others leave, the latest next use first
//!     excess       too many bytes on the device: others leave, or textures in use give up mip levels
//!     write back   the device is nearly full: written resources are copied to the host, so that they can leave later
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | a commit while all used resources are on the device | O(uses + copies under way + written resources + timelines) |
//! | … and handles were dropped | also O(resources) |
//! | … while others have to leave | O(resources log resources), and for each that comes the creation of an object |

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use ringfence_commands::Commands;
use ringfence_core::sync::{SyncPoint, SyncSet};
use ringfence_hal::transfer::{Transfer, TransferSupport};
use ringfence_hal::{Device, Priority};
use ringfence_memory::trace::Event;
use ringfence_memory::{Error, Frame};
use smallvec::SmallVec;

use super::{Committed, Paging, PagingStep};
use crate::PagingError;
use crate::desc::WhenAway;
use crate::handle::{PageUses, Use, UseKind};
use crate::host_copy::{HostCopy, HostState};
use crate::item::{Body, Item, Target, has_passed, is_shortage};
use crate::policy::{Candidate, enough, order};

/// Written resources are copied to the host while the free part of the limit is less than 1 / `SPARE_PART` of the
/// limit, or less than the largest resource.
const SPARE_PART: u64 = 8;

/// While the heap is beyond its limit, empty blocks are freed once in this number of commits.
const COMMITS_PER_TRIM: u64 = 8;

/// A used resource that is away or in host memory: urgency, priority, bytes, index. The largest value is the most
/// urgent.
pub(super) type Missing = (Urgency, Priority, u64, Reverse<u32>);

impl<D: Device> Paging<D> {
    /// Retires the resources whose handles were dropped.
    fn sweep(&mut self) {
        if self.dropped.swap(0, Ordering::Acquire) == 0 {
            return;
        }
        for index in 0..self.items.len() {
            let dropped = self.items[index].as_ref().is_some_and(|item| item.alive.is_dropped());
            if dropped {
                self.remove(index as u32, None);
                let item = self.items[index].take().expect("it was just found");
                self.totals.resource_count -= 1;
                self.totals.content_bytes -= item.layout.tight_bytes;
                self.free.push(index as u32);
            }
        }
        let is_live = |index: &u32| self.items[*index as usize].is_some();
        self.unsettled.retain(is_live);
        self.without_kept.retain(is_live);
        self.changed.retain(is_live);
        self.stale.retain(is_live);
    }

    /// Retires the object of a resource. Uses in the frame `open` do not count. Returns the bytes that it had on the
    /// device.
    fn remove(&mut self, index: u32, open: Option<SyncPoint>) -> u64 {
        let Some(item) = &mut self.items[index as usize] else { return 0 };
        let pending =
            item.uses.iter().copied().filter(|point| Some(*point) != open && !has_passed(&self.passed, *point));
        let pending: SmallVec<[SyncPoint; 2]> = pending.collect();
        // SAFETY: every commit has recorded its use, and the caller of `new` commits each submission. The commands of
        // the open frame that use paged resources come after its commit, in which the object leaves.
        let bytes = unsafe { item.leave(open) };
        self.device_bytes -= bytes;
        if !pending.is_empty() && bytes > 0 {
            self.retiring.push((bytes, pending));
        }
        bytes
    }

    /// Takes note of copies whose frames were completed or lost.
    fn settle(&mut self) {
        let mut at = 0;
        while let Some(index) = self.unsettled.get(at).copied() {
            let Some(item) = &mut self.items[index as usize] else {
                self.unsettled.swap_remove(at);
                continue;
            };
            let settled = item.settle(self.memory.shared(), &self.passed);
            // Evicted memory keeps its contents, so their copy on the host is no longer needed.
            if self.residency.is_some() && settled.is_settled && item.has(0) {
                item.host = HostCopy { buffer: None, state: HostState::Stale, is_writable: false };
            }
            let is_lost = settled.is_settled && item.host.state == HostState::Stale && self.residency.is_none();
            if is_lost && !std::mem::replace(&mut item.is_listed_stale, true) {
                self.stale.push(index);
            }
            if let Some(bytes) = settled.lost_bytes {
                self.device_bytes -= bytes;
                self.note_changed(index);
                self.want_kept(index);
            }
            if settled.is_settled {
                self.unsettled.swap_remove(at);
            } else {
                at += 1;
            }
        }
        self.forget_retired();
    }

    fn forget_retired(&mut self) {
        let passed = &self.passed;
        self.retiring.retain(|(_, points)| !points.iter().all(|point| has_passed(passed, *point)));
    }

    /// Reads the timelines. If one cannot be read, its last value is used.
    pub(super) fn read_timelines(&mut self) {
        // A lost device is reported by the next call that needs it.
        let _ = self.memory.shared().read(&mut self.passed);
    }

    /// Returns an error if a used resource is copied in another frame that is still open: it is not known yet if that
    /// frame will be submitted.
    fn check_open(&self, uses: &PageUses, frame: &Frame) -> Result<(), PagingError> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        let (shared, here) = (self.memory.shared(), frame.point());
        for used in &uses.0 {
            let item = self.items[used.key.index as usize].as_ref().filter(|item| item.serial == used.key.serial);
            let Some((item, copied_at)) = item.and_then(|item| Some((item, item.copied_at?))) else { continue };
            if copied_at != here && !has_passed(&self.passed, copied_at) && shared.open_frame(copied_at).is_some() {
                return Err(PagingError::OpenFrame { name: item.name.clone(), open: copied_at });
            }
        }
        Ok(())
    }

    /// Records the uses of a frame in the items. Afterwards, `used` contains each used resource once.
    fn stamp(&mut self, uses: &PageUses, frame: &Frame) {
        let point = frame.point();
        self.used.clear();
        // If an earlier commit of the same frame has recorded copies, their waits stay. Frames of other timelines may have
        // been committed meanwhile.
        let shared = self.memory.shared();
        self.committed.retain(|held| held.frame == point || shared.open_frame(held.frame).is_some());
        let earlier = self.committed.iter().position(|held| held.frame == point);
        self.is_repeated = earlier.is_some();
        let held = earlier.map(|at| self.committed.remove(at));
        self.committed.push(held.unwrap_or(Committed { frame: point, waits: SyncSet::new() }));
        for Use { key, first_mip, kind } in &uses.0 {
            let Some(item) = &mut self.items[key.index as usize] else { continue };
            if item.serial != key.serial {
                continue;
            }
            if item.rhythm.last() != self.now {
                item.rhythm.used(self.now);
                item.use_in(point);
                (item.demand, item.used_as) = (u32::MAX, *kind);
                self.used.push(key.index);
            }
            // If memory is evicted instead of copied, a texture has all its mip levels.
            let first_mip = if self.residency.is_some() { 0 } else { item.start_of(*first_mip) };
            item.demand = item.demand.min(first_mip);
            item.used_as = item.used_as.max(*kind);
        }
    }

    /// Marks the resources that the frame writes: their copies on the host are stale.
    fn mark_written(&mut self) {
        for index in &self.used {
            let Some(item) = &mut self.items[*index as usize] else { continue };
            // A frame cannot write a resource that lacks mip levels.
            if item.used_as == UseKind::Written && item.has(0) {
                if !std::mem::replace(&mut item.is_listed_stale, true) {
                    self.stale.push(*index);
                }
                item.host.state = HostState::Stale;
            }
        }
    }

    /// Returns `true` if the frame that fills or copies a resource is open. A later frame may have passed already.
    fn is_open(&self, item: &Item<D>) -> bool {
        let is_open = |point| self.memory.shared().open_frame(point).is_some();
        !self.unsettled.is_empty() && item.copied_at.is_some_and(is_open)
    }

    /// Records in a trace that a resource came to the device or left it.
    fn note_paged(&self, index: u32, arrives: bool, bytes: u64) {
        let (Some(heap), Some(item)) = (self.heap, &self.items[index as usize]) else { return };
        let away_bytes = self.totals.content_bytes.saturating_sub(self.device_bytes);
        self.memory.shared().record(|| Event::Paged { heap, arrives, bytes, away_bytes, name: &item.name });
    }

    /// Fills `candidates` with the resources that can give up device memory in commit `now`, in the order in which they
    /// leave.
    pub(super) fn gather(&mut self, now: u64) {
        self.candidates.clear();
        for (index, item) in (0..).zip(&self.items) {
            let Some(item) = item.as_ref().filter(|item| !item.is_pinned && item.is_current()) else { continue };
            let Some(present) = item.present.as_ref().filter(|present| !present.is_on_host) else { continue };
            let level = item.kept_level();
            let is_used = item.rhythm.last() == now || item.pending_use(&self.passed).is_some();
            if is_used || self.is_open(item) || level.is_some_and(|level| level <= present.first_mip) {
                continue;
            }
            let bytes = present.bytes.saturating_sub(level.map_or(0, |level| item.bytes_from(level)));
            let next_use = item.rhythm.next_use(now);
            self.candidates.push(Candidate { item: index, bytes, priority: item.priority, next_use });
        }
        order(&mut self.candidates);
    }
}

/// Urgency of bringing a used resource, the most urgent last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// If this commit has copied enough or the device has no room, a later commit brings the resource.
    MayWait,
    /// This commit brings the resource; if the device has no room, to host memory.
    FromHost,
    /// This commit brings the resource, or fails.
    Now,
}

impl Urgency {
    fn of<D: Device>(item: &Item<D>) -> Self {
        match item.when_away {
            // The resource is in host memory, or is only prefetched.
            _ if item.has(item.demand) || item.used_as == UseKind::Soon => Self::MayWait,
            WhenAway::UseFromHost => Self::FromHost,
            WhenAway::MayBeAway { .. } if item.used_as != UseKind::Written => Self::MayWait,
            _ => Self::Now,
        }
    }
}

/// The state of a commit.
struct Work<'a, 'c, D: TransferSupport, R: Transfer<D>> {
    commands: &'a mut Commands<'c, D, R>,
    frame: &'a Frame,
    step: PagingStep,
    /// Limit of the bytes on the device. It is lowered when the allocator refuses memory.
    limit: u64,
    /// `true` once the candidates were gathered; the next one is at `next`.
    is_gathered: bool,
    next: usize,
    /// `true` if a resource had no room.
    was_short: bool,
}

/// The outcome of bringing a resource.
enum Brought {
    Done,
    /// The device has no room. Contains the allocator's error, if an allocation was tried.
    NoRoom(Option<Error>),
}

impl<D: TransferSupport> Paging<D> {
    /// Prepares the resources that a frame uses: records copies for those that are away into the frame's command list,
    /// and lets others leave if the device has no room. Call this function before the frame's commands that use paged
    /// resources, and before each submission. Then look up the objects with [`Paging::texture`] and [`Paging::buffer`].
    ///
    /// If the frame is not submitted, its copies are made again by a later commit.
    ///
    /// # Errors
    /// - [`PagingError::NoRoom`], [`PagingError::OpenFrame`].
    /// - The frame belongs to another allocator, or a resource to another `Paging`.
    /// - Host memory is short, or the driver failed.
    ///
    /// No contents are lost. The commit can be repeated with the same frame. The frame can also be submitted as it is,
    /// with commands that only use resources which are present; a resource that is written must be present with all mip
    /// levels.
    ///
    /// # Safety
    /// - The recorder's command list is submitted as `frame`, or never, before all other lists of the frame that use
    ///   paged resources. It is in the recording state, and its queue supports copies of the formats.
    /// - The commands of the frame use only paged resources that are in the `uses` of its last commit, and write only
    ///   those that were added as written. Textures are in the layout or state of the recorder, before and after these
    ///   commands.
    /// - Frames of a timeline are committed in the order of their submission. If a frame is committed again, commands
    ///   that were recorded before use only paged resources that are present after the second commit, with the same
    ///   generation.
    /// - The submission waits for [`Paging::waits`]. Work on another queue that uses a resource after a frame that
    ///   writes it waits for that frame.
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
        self.read_timelines();
        self.sweep();
        self.settle();
        self.check_open(uses, frame)?;
        self.now += 1;
        self.stamp(uses, frame);
        self.mark_written();
        self.find_missing();
        self.follow_excess();
        let limit = self.limit_now(!self.missing.is_empty() || !self.without_kept.is_empty());
        let (step, commands) = (PagingStep { limit_bytes: limit, ..Default::default() }, &mut commands);
        let mut work = Work { commands, frame, step, limit, is_gathered: false, next: 0, was_short: false };
        let mut result = self.bring_used(&mut work);
        // Also marks written resources that have just been brought.
        self.mark_written();
        // The following steps run even if an earlier step failed.
        result = result.and(self.bring_kept(&mut work));
        result = result.and(self.leave_excess(&mut work));
        let written_back = self.write_back(&mut work);
        self.finish(&mut work);
        if let Err(PagingError::NoRoom { waits_for: waits_for @ None, .. }) = &mut result
            && work.step.written_back_bytes > 0
        {
            *waits_for = Some(frame.point());
        }
        result.and(written_back).and(self.make_resident(frame))?;
        Ok(work.step)
    }

    /// While the heap is beyond its limit, frees empty blocks and recycled objects once in `COMMITS_PER_TRIM` commits.
    /// If the heap is still beyond its limit afterwards, lowers the limit of paged resources by the larger of the
    /// largest resource and 1 / `COMMITS_PER_TRIM` of the excess, to at most half of `device_bytes` in total. Once the
    /// limit is lowered by 4 × the largest resource, it is lowered further only if the excess has shrunk since the last
    /// time. Does nothing on devices with residency control (Direct3D 12).
    fn follow_excess(&mut self) {
        let excess = self.excess_bytes();
        if self.residency.is_some() || excess == 0 {
            (self.excess_commits, self.squeezed_bytes, self.squeezed_at) = (0, 0, u64::MAX);
            return;
        }
        self.excess_commits += 1;
        if self.excess_commits.is_multiple_of(COMMITS_PER_TRIM) {
            self.memory.reclaim();
            self.memory.budgets().trim();
            let excess = self.excess_bytes();
            let helps = excess < self.squeezed_at || self.squeezed_bytes < self.largest_bytes.saturating_mul(4);
            if excess > 0 && helps {
                let more = self.largest_bytes.max(excess / COMMITS_PER_TRIM);
                self.squeezed_bytes = (self.squeezed_bytes + more).min(self.squeezed_bytes.max(self.device_bytes / 2));
            }
            self.squeezed_at = excess;
        }
    }

    /// Lists the used resources that are away or in host memory, the most urgent first.
    fn find_missing(&mut self) {
        self.missing.clear();
        for index in &self.used {
            let item = self.items[*index as usize].as_ref().expect("stamped");
            let is_slow = item.is_current() && item.present.as_ref().is_some_and(|present| present.is_on_host);
            if !item.has(item.demand) || is_slow {
                let bytes = item.bytes_from(item.demand);
                self.missing.push((Urgency::of(item), item.priority, bytes, Reverse(*index)));
            }
        }
        self.missing.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Brings the used resources that are away. If one has no room, goes on with the others and returns its error.
    fn bring_used<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) -> Result<(), PagingError> {
        let (missing, mut failed) = (std::mem::take(&mut self.missing), Ok(()));
        for (urgency, _, bytes, Reverse(index)) in &missing {
            let (is_required, index) = (*urgency != Urgency::MayWait, *index);
            let sum = work.step.brought_bytes + bytes;
            if !is_required && work.step.brought_bytes > 0 && sum > self.desc.bytes_per_commit_max {
                continue;
            }
            let first_mip = self.items[index as usize].as_ref().map_or(0, |item| item.demand);
            match self.bring(work, index, first_mip) {
                Ok(Brought::NoRoom(cause)) if is_required => {
                    if failed.is_ok() {
                        failed = Err(self.no_room(work, index, *bytes, cause));
                    }
                }
                Ok(Brought::NoRoom(_)) => failed = failed.and(self.bring_coarser(work, index, first_mip)),
                Err(error) => failed = failed.and(Err(error)),
                Ok(Brought::Done) => {}
            }
        }
        self.missing = missing;
        failed
    }

    /// Brings the finest mip levels that have room, for a texture that has no room for the levels from `first_mip` on.
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
            if let Brought::Done = self.bring(work, index, mip)? {
                break;
            }
        }
        Ok(())
    }

    /// Brings the mip levels that stay on the device, for resources that lack them.
    fn bring_kept<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) -> Result<(), PagingError> {
        let (mut at, mut bytes) = (0, 0);
        while let Some(index) = self.without_kept.get(at).copied() {
            let Some(item) = &mut self.items[index as usize] else { return Ok(()) };
            if let Some(level) = item.kept_level().filter(|level| !item.has(*level)) {
                bytes += item.bytes_from(level);
                if at > 0 && bytes > self.desc.bytes_per_commit_max {
                    break;
                }
                if let Brought::NoRoom(_) = self.bring(work, index, level)? {
                    break;
                }
            }
            if let Some(item) = &mut self.items[index as usize] {
                item.wants_kept = false;
            }
            at += 1;
        }
        self.without_kept.drain(..at);
        Ok(())
    }

    /// Brings a resource with its mip levels from `first_mip` on. If there is no room, others leave first.
    fn bring<R: Transfer<D>>(
        &mut self,
        work: &mut Work<'_, '_, D, R>,
        index: u32,
        first_mip: u32,
    ) -> Result<Brought, PagingError> {
        let item = self.items[index as usize].as_ref().expect("the caller has it");
        let bytes = item.bytes_from(first_mip);
        let from_host = item.when_away == WhenAway::UseFromHost && self.host_types != 0 && !item.has(first_mip);
        let is_evictable = self.residency.is_some();
        let (mut has_room, mut refused) =
            (self.make_room(work, bytes) || self.leave_for_itself(work, index, bytes), None);
        loop {
            let is_from_host = !has_room && from_host;
            if !has_room && !is_from_host {
                return Ok(Brought::NoRoom(refused));
            }
            match self.bring_to(work, index, self.target(index, first_mip, is_from_host)) {
                Ok(()) => return Ok(Brought::Done),
                Err(PagingError::Memory(error @ Error::NoMemoryType { .. })) if is_from_host => {
                    return Ok(Brought::NoRoom(Some(error)));
                }
                // The allocator has evicted what it could.
                Err(PagingError::Memory(error)) if is_shortage(&error) && is_evictable => {
                    return Ok(Brought::NoRoom(Some(error)));
                }
                // The estimate was wrong: free ranges are too small, or another process takes memory.
                Err(PagingError::Memory(error)) if is_shortage(&error) && !is_from_host => {
                    work.limit = work.limit.min(self.device_bytes + self.retiring_bytes());
                    (has_room, refused) = (self.make_room(work, bytes), Some(error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the object of a resource if `bytes` have room only without it and no work uses the object. Returns
    /// `true` if there is room then.
    fn leave_for_itself<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>, index: u32, bytes: u64) -> bool {
        let here = work.frame.point();
        let item = self.items[index as usize].as_ref().expect("the caller has it");
        let Some(held) = item.present.as_ref().map(|present| present.device_bytes()) else { return false };
        let is_used = item.uses.iter().any(|point| *point != here && !has_passed(&self.passed, *point));
        // Commands that were recorded after an earlier commit of the frame may use the object.
        let is_free = item.is_current() && !item.is_pinned && !is_used && !self.is_repeated;
        let sum = (self.device_bytes + self.retiring_bytes() - held).saturating_add(bytes);
        if !is_free || held == 0 || sum > work.limit {
            return false;
        }
        self.remove(index, Some(here));
        self.note_changed(index);
        self.want_kept(index);
        self.memory.reclaim();
        true
    }

    /// Returns where a resource is created: on the device, or in host memory.
    fn target(&self, index: u32, first_mip: u32, is_from_host: bool) -> Target {
        let (host_types, is_evictable) = (self.host_types, self.residency.is_some());
        let is_movable = self.desc.movable && !is_from_host && !is_evictable;
        Target {
            first_mip,
            memory_types: if is_from_host { host_types } else { !host_types },
            host_types,
            is_evictable,
            movable: is_movable.then(|| self.mark() ^ u64::from(index)),
        }
    }

    fn bring_to<R: Transfer<D>>(
        &mut self,
        work: &mut Work<'_, '_, D, R>,
        index: u32,
        target: Target,
    ) -> Result<(), PagingError> {
        let (point, passed) = (work.frame.point(), &self.passed);
        let item = self.items[index as usize].as_mut().expect("the caller has it");
        // A copy from the object waits for the work that fills it. The copy changes the layout, so it waits for all
        // other work.
        let others = item.uses.iter().filter(|used| used.timeline != point.timeline);
        let waits = &mut self.committed.last_mut().expect("stamped").waits;
        others.filter(|used| !has_passed(passed, **used)).for_each(|used| waits.insert(*used));
        let on_device = |item: &Item<D>| item.present.as_ref().map_or(0, |present| present.device_bytes());
        // During the call, the resource counts as away, because it is away if a recorder panics.
        let (before, generation) = (on_device(item), item.generation);
        self.device_bytes -= before;
        let brought = item.bring(&self.memory, work.commands, work.frame, target);
        self.device_bytes += on_device(item);
        let is_exchanged = item.present.as_ref().is_none_or(|present| present.filled_at == point);
        if before > 0 && item.generation != generation && is_exchanged {
            let mut points: SmallVec<[SyncPoint; 2]> = item.uses.clone();
            points.retain(|used| !has_passed(&self.passed, *used));
            self.retiring.push((before, points));
        }
        if item.generation != generation {
            self.note_changed(index);
        }
        if brought.is_err() {
            self.want_kept(index);
        }
        let copied = brought?;
        work.step.brought_count += 1;
        work.step.brought_bytes += copied;
        self.unsettled.push(index);
        self.note_paged(index, true, copied);
        Ok(())
    }

    /// Lets resources leave until `bytes` more have room on the device. Returns `false` if there is no room for them;
    /// in this case, no resource leaves, unless `bytes` is 0.
    fn make_room<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>, bytes: u64) -> bool {
        if self.residency.is_some() {
            return true;
        }
        let missing = |paging: &Self, work: &Work<'_, '_, D, R>| {
            (paging.device_bytes + paging.retiring_bytes()).saturating_add(bytes).saturating_sub(work.limit)
        };
        if missing(self, work) == 0 {
            return true;
        }
        if !work.is_gathered {
            self.memory.reclaim();
            self.read_timelines();
            self.forget_retired();
            self.gather(self.now);
            (work.is_gathered, work.next) = (true, 0);
        }
        let (count, freed) = enough(&self.candidates[work.next..], missing(self, work));
        if freed < missing(self, work) && bytes > 0 {
            work.was_short = true;
            return false;
        }
        for _ in 0..count {
            let index = self.candidates[work.next].item;
            work.next += 1;
            self.leave(work, index);
        }
        if count > 0 {
            self.memory.reclaim();
        }
        let has_room = missing(self, work) == 0;
        work.was_short |= !has_room;
        has_room
    }

    /// Lets a resource leave. The mip levels that stay are brought again at the end of the commit.
    fn leave<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>, index: u32) {
        let bytes = self.remove(index, None);
        work.step.left_count += 1;
        work.step.left_bytes += bytes;
        self.note_changed(index);
        self.note_paged(index, false, bytes);
        self.want_kept(index);
    }

    /// Lets resources leave while the device has more bytes than the limit. If that is not enough, or a resource had no
    /// room, textures in use give up the mip levels that their uses do not need. This memory is free once the frame is
    /// complete.
    fn leave_excess<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) -> Result<(), PagingError> {
        if self.residency.is_some() || self.make_room(work, 0) && !work.was_short {
            return Ok(());
        }
        for index in 0..self.used.len() {
            let index = self.used[index];
            let Some(item) = &self.items[index as usize] else { continue };
            let present = item.present.as_ref().filter(|present| !present.is_on_host);
            let Some((finest, bytes)) = present.map(|present| (present.first_mip, present.bytes)) else { continue };
            if item.is_pinned || !item.is_current() || finest >= item.demand {
                continue;
            }
            let target = self.target(index, item.demand, false);
            let (count, copied) = (work.step.brought_count, work.step.brought_bytes);
            let given_up = bytes.saturating_sub(item.bytes_from(item.demand));
            match self.bring_to(work, index, target) {
                Err(PagingError::Memory(error)) if is_shortage(&error) => return Ok(()),
                other => other?,
            }
            (work.step.brought_count, work.step.brought_bytes) = (count, copied);
            work.step.left_count += 1;
            work.step.left_bytes += given_up;
            self.note_paged(index, false, given_up);
        }
        Ok(())
    }

    /// Records copies to the host, for written resources that neither this frame nor pending work uses. If the device
    /// is nearly full or a resource had no room, copies all of these, up to `write_back_bytes_max`. Otherwise copies
    /// only those that are in host memory, so that they can move to the device.
    fn write_back<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) -> Result<(), PagingError> {
        if self.residency.is_some() || self.stale.is_empty() {
            return Ok(());
        }
        let ahead = (work.limit / SPARE_PART).max(self.largest_bytes);
        let is_nearly_full = (self.device_bytes + self.retiring_bytes()).saturating_add(ahead) > work.limit;
        let items = &mut self.items;
        self.stale.retain(|index| {
            let Some(item) = &mut items[*index as usize] else { return false };
            item.is_listed_stale = item.host.state == HostState::Stale;
            item.is_listed_stale
        });
        let (items, passed, now) = (&self.items, &self.passed, self.now);
        self.candidates.clear();
        for index in &self.stale {
            let Some(item) = &items[*index as usize] else { continue };
            let Some(present) = &item.present else { continue };
            let is_idle = item.rhythm.last() != now && item.pending_use(passed).is_none() && !self.is_open(item);
            if is_idle && (present.is_on_host || is_nearly_full || work.was_short) {
                let (bytes, priority, next_use) = (present.bytes, item.priority, item.rhythm.next_use(now));
                self.candidates.push(Candidate { item: *index, bytes, priority, next_use });
            }
        }
        order(&mut self.candidates);
        for at in 0..self.candidates.len() {
            let index = self.candidates[at].item;
            let item = self.items[index as usize].as_mut().expect("a candidate is live");
            let sum = work.step.written_back_bytes + item.layout.tight_bytes;
            if work.step.written_back_bytes > 0 && sum > self.desc.write_back_bytes_max {
                break;
            }
            work.step.written_back_bytes +=
                item.write_back(&self.memory, work.commands, work.frame, self.host_types)?;
            self.unsettled.push(index);
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
        let here = work.frame.point();
        let present = self.items.iter().flatten().filter(|item| item.present.is_some() && !item.is_pinned);
        let idle = present.filter(|item| item.rhythm.last() != self.now);
        let pending = idle.filter_map(|item| item.pending_use(&self.passed));
        let retiring = self.retiring.iter().flat_map(|(_, points)| points.iter().copied());
        PagingError::NoRoom {
            name: self.items[index as usize].as_ref().map_or_else(Box::default, |item| item.name.clone()),
            missing_bytes,
            device_bytes: self.device_bytes + self.retiring_bytes(),
            limit_bytes: work.limit,
            cause: cause.map(Box::new),
            // An open frame may never be submitted, so no one can wait for it.
            waits_for: pending
                .chain(retiring)
                .filter(|point| *point != here && self.memory.shared().open_frame(*point).is_none())
                .min(),
        }
    }

    /// Counts the used resources that are away, and collects the points to wait for.
    fn finish<R: Transfer<D>>(&mut self, work: &mut Work<'_, '_, D, R>) {
        let timeline = work.frame.point().timeline;
        for index in &self.used {
            let Some(item) = &self.items[*index as usize] else { continue };
            work.step.away_count += u32::from(!item.has(item.demand));
            work.step.on_host_count += u32::from(item.present.as_ref().is_some_and(|present| present.is_on_host));
            if let Some(copied_at) = item.copied_at.filter(|point| point.timeline != timeline)
                && !has_passed(&self.passed, copied_at)
            {
                self.committed.last_mut().expect("stamped").waits.insert(copied_at);
            }
        }
        work.step.device_bytes = self.device_bytes;
        self.totals.brought_bytes += work.step.brought_bytes;
        self.totals.left_bytes += work.step.left_bytes;
        self.totals.written_back_bytes += work.step.written_back_bytes;
    }

    /// If the program controls residency, makes the used resources resident.
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
