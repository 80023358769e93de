//! A pass: planned moves, and their outcomes.
//!
//! ```text
//!   planned: room is allocated ──┬─ copy_…(&mut resource) ─▶ the resource is in the room; its old place is retired
//!                                ├─ ignore, or nothing ────▶ the room is freed, the resource stays
//!                                └─ drop(resource) ────────▶ the room is freed; the resource is retired as usual
//! ```

use std::fmt;
use std::sync::Arc;

use ringfence_decision::Error;
use ringfence_observe::{Call, Event, Margins, RangeId};
use ringfence_timeline::Frame;
use scopeguard::{ScopeGuard, guard};

use super::Defrag;
use crate::device::lock::is_locked;
use crate::device::record::{CopyRegion, Record, TextureCopy};
use crate::device::{Buffers, Create, Describe, Device, RawTexture, Requirements, Textures};
use crate::memory::{ArenaRef, Place, Prepared, Reserved, Shared, Ticket};
use crate::resource::{Allocation, Buffer, BufferCopy, MipCopy, Resource, ResourceKind, Texture};
use crate::trace::Event as Recorded;

/// Moves that are made in one submission. A drop ends the pass: resources that were not moved stay in place.
///
/// See the [module](super) for its use.
pub struct DefragPass<'r, D: Device> {
    run: &'r mut Defrag<D>,
    frame: &'r Frame,
    moves: Vec<Move>,
    copies: Vec<BufferCopy<D>>,
    texture_copies: Vec<TextureCopy<RawTexture<D>>>,
    /// Numbers of buffer copies and of texture copies that were recorded so far.
    recorded: (usize, usize),
}

/// A planned move, and the index of its arena in the run.
pub(super) struct Pending<D: Device> {
    pub(super) arena: usize,
    pub(super) reserved: Reserved<D>,
}

/// The new place that a move has reserved.
pub(super) struct Room<D: Device> {
    arena: usize,
    pub(super) ticket: Arc<Ticket>,
    pub(super) place: Place<D>,
}

impl<D: Device> Room<D> {
    /// Cancels the move: the resource stays in place, and the room is freed.
    pub(super) fn give_up(self, shared: &Shared<D>) {
        self.ticket.put_back();
        shared.free_place(self.place);
    }
}

/// A planned move of a pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// The user data of the resource: see [`AllocationDesc::user_data`](crate::AllocationDesc::user_data).
    pub user_data: u64,
    /// Name of the resource.
    pub name: Box<str>,
    /// Size of the range that is moved, in bytes.
    pub size: u64,
    /// Offset of the old place in its memory object, in bytes.
    pub from_offset: u64,
    /// Offset of the new place in its memory object, in bytes.
    pub to_offset: u64,
    /// `true` if both places are in the same memory object.
    pub is_inside_block: bool,
    /// Outcome of the move.
    pub outcome: MoveOutcome,
}

/// The outcome of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveOutcome {
    /// The move is not made yet.
    Open,
    /// The resource is in its new place.
    Moved,
    /// The resource stays in place, or was dropped.
    Ignored,
}

/// The reason why a move was not made. The resource has not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The pass has no open move of this resource:
    ///
    /// - the resource is not in the pass,
    /// - the move was made or ignored,
    /// - the resource was pinned, or
    /// - gathered copies to the resource are not recorded yet.
    #[error(
        "the pass has no open move of this resource, or the resource was pinned, or copies to it are not recorded yet"
    )]
    NotInPass,
    /// The resource was created with a native description that the library does not keep: pass the description again
    /// ([`DefragPass::copy_buffer_as`], [`DefragPass::copy_texture_as`]).
    #[error("the description of this resource is not fully known: pass it again (`copy_buffer_as`, `copy_texture_as`)")]
    NeedsInfo,
    /// The given description does not fit into the new place.
    #[error(
        "the description needs {size} bytes aligned to {alignment} in the memory types {memory_type_bits:#b}, but the \
         new place has {room} bytes: pass the description of the same resource"
    )]
    AnotherResource {
        /// Size of the described resource, in bytes.
        size: u64,
        /// Alignment of the described resource, in bytes.
        alignment: u64,
        /// Memory types that the described resource allows, one bit each.
        memory_type_bits: u32,
        /// Size of the new place, in bytes.
        room: u64,
    },
    /// The given description is not the one that the resource was created with.
    #[error("the resource was created with another description than the given one")]
    AnotherDescription,
    /// The resource lacks the usages for copies from and to it, which a move needs.
    #[error("the resource was created without the usages for copies from and to it, which a move needs")]
    NotCopied,
    /// The texture's format has several planes, or the library does not know it, so the copies are unknown. Do not make
    /// such a texture [`movable`](crate::AllocationDesc::movable), or pin it.
    #[error("the texture's format has several planes or is unknown, so its copies are unknown: do not make it movable")]
    UnknownFormat,
    /// The new object could not be created.
    #[error(transparent)]
    Make(#[from] Error),
}

impl<'r, D: Device> DefragPass<'r, D> {
    pub(super) fn new(run: &'r mut Defrag<D>, frame: &'r Frame, pending: Vec<Pending<D>>) -> Self {
        let mut pass = Self {
            run,
            frame,
            moves: Vec::with_capacity(pending.len()),
            copies: Vec::new(),
            texture_copies: Vec::new(),
            recorded: (0, 0),
        };
        pending.into_iter().for_each(|pending| pass.add(frame, pending));
        pass
    }

    fn add(&mut self, frame: &Frame, Pending { arena, reserved }: Pending<D>) {
        let Reserved { ticket, name, from_residence, memory, allocation } = reserved;
        ticket.set_index(self.moves.len());
        let from = ticket.allocation();
        let shared = self.run.shared();
        shared.record(|| Recorded::Allocated {
            block: memory.block,
            offset: allocation.offset(),
            bytes: allocation.size(),
            alignment: ticket.alignment(),
            name: &name,
        });
        self.moves.push(Move {
            user_data: ticket.user_data(),
            name,
            size: from.size(),
            from_offset: from.offset(),
            to_offset: allocation.offset(),
            is_inside_block: from.block() == allocation.block(),
            outcome: MoveOutcome::Open,
        });
        let both = [from_residence.as_ref(), memory.residence.as_ref()];
        let is_held = both.into_iter().try_for_each(|held| shared.hold_resident(held, frame)).is_ok();
        let index = self.moves.len() - 1;
        let place = Place::in_block(self.run.arena(arena).clone(), memory, allocation);
        self.run.rooms.push(Some(Room { arena, ticket, place }));
        if !is_held {
            self.ignore(index);
        }
    }

    /// Returns the moves of this pass, in the order in which they were planned.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Returns `true` if there is an open move of this resource. O(1).
    #[must_use]
    pub fn has<K: ResourceKind>(&self, resource: &Resource<D, K>) -> bool
    where
        D: Create<K>,
    {
        self.index_of(resource.place()).is_some()
    }

    /// Moves this buffer: creates a new buffer in the new place, and retires the old one. Returns the copy, and keeps
    /// it for [`DefragPass::record`]. The copy must be recorded in the pass's frame, before any command that reads the
    /// buffer. The buffer needs the usages for copies from and to it.
    ///
    /// # Errors
    /// - The pass has no open move of the buffer.
    /// - The new buffer could not be created (the move can be tried again), or could not be bound (the move is given
    ///   up).
    /// - The buffer lacks a usage for copies.
    /// - The buffer was created with a native description that the portable one does not cover: use
    ///   [`DefragPass::copy_buffer_as`].
    pub fn copy_buffer(&mut self, buffer: &mut Buffer<D>) -> Result<BufferCopy<D>, MoveError> {
        let info = self.known_info(buffer)?;
        self.copy_described_buffer(buffer, &info)
    }

    /// Moves a buffer as [`DefragPass::copy_buffer`] does, with the description that the buffer was created with. For a
    /// buffer that [may be larger](crate::AllocationDesc::may_be_larger), the requested description is enough.
    ///
    /// # Errors
    /// As [`DefragPass::copy_buffer`], or the description does not match the buffer.
    pub fn copy_buffer_as(
        &mut self,
        buffer: &mut Buffer<D>,
        info: &impl Describe<D, Buffers>,
    ) -> Result<BufferCopy<D>, MoveError> {
        let shared = Arc::clone(self.run.shared());
        info.with_info(&shared.device, |info| self.copy_described_buffer(buffer, info)).map_err(Error::from)?
    }

    fn copy_described_buffer(
        &mut self,
        buffer: &mut Buffer<D>,
        info: &<D as Create<Buffers>>::Info<'_>,
    ) -> Result<BufferCopy<D>, MoveError> {
        let rounded = buffer.rounded_info(info);
        let info = rounded.as_ref().unwrap_or(info);
        let desc = Create::<Buffers>::portable(&self.run.shared().device, info).ok_or(MoveError::NeedsInfo)?;
        let src = self.relocate(buffer, info)?;
        let dst = buffer.object().clone();
        self.copies.push(BufferCopy {
            src: src.clone(),
            src_offset: 0,
            dst: dst.clone(),
            dst_offset: 0,
            size: desc.size,
        });
        Ok(BufferCopy { src, src_offset: 0, dst, dst_offset: 0, size: desc.size })
    }

    /// Moves this texture as [`DefragPass::copy_buffer`] moves a buffer. Copies every mip and layer.
    ///
    /// Returns one copy for each mip, with all layers. A program needs the returned copies only if it records them
    /// itself instead of with [`DefragPass::record`]. It must then record them in the pass's frame, before any command
    /// that reads the texture. Before the copies, it must transition the new texture into the layout or state that
    /// copies need, like any new texture.
    ///
    /// # Errors
    /// As [`DefragPass::copy_buffer`]; or [`MoveError::UnknownFormat`]. If the texture was created with a native
    /// description that the portable one does not cover (another format, other flags), use
    /// [`DefragPass::copy_texture_as`].
    pub fn copy_texture(&mut self, texture: &mut Texture<D>) -> Result<Vec<MipCopy<D>>, MoveError> {
        self.index_of(texture.place()).ok_or(MoveError::NotInPass)?;
        // Passing the description again would not help.
        texture.parts().ok_or(MoveError::UnknownFormat)?;
        let info = self.known_info(texture)?;
        self.copy_described_texture(texture, &info)
    }

    /// Moves a texture as [`DefragPass::copy_texture`] does, with the description that the texture was created with. On
    /// Direct3D 12, [`DefragPass::record`] requires that the texture's initial state is the common state.
    ///
    /// # Errors
    /// As [`DefragPass::copy_texture`], or the description does not match the texture.
    pub fn copy_texture_as(
        &mut self,
        texture: &mut Texture<D>,
        info: &impl Describe<D, Textures>,
    ) -> Result<Vec<MipCopy<D>>, MoveError> {
        let shared = Arc::clone(self.run.shared());
        info.with_info(&shared.device, |info| self.copy_described_texture(texture, info)).map_err(Error::from)?
    }

    fn copy_described_texture(
        &mut self,
        texture: &mut Texture<D>,
        info: &<D as Create<Textures>>::Info<'_>,
    ) -> Result<Vec<MipCopy<D>>, MoveError> {
        let parts = Create::<Textures>::parts(&self.run.shared().device, info).ok_or(MoveError::UnknownFormat)?;
        let src = self.relocate(texture, info)?;
        let copies = (0..parts.mips).map(|mip| {
            let [width, height, depth] = parts.extent(mip);
            let (src, dst) = (src.clone(), texture.object().clone());
            MipCopy { src, src_mip: mip, dst, dst_mip: mip, width, height, depth, layers: parts.layers }
        });
        let copies = copies.collect();
        self.texture_copies.push(TextureCopy { src, dst: texture.object().clone(), parts });
        Ok(copies)
    }

    /// Moves memory without a resource: `allocation` gets the new place. Returns the old place, which cannot be moved
    /// again. The program creates its resource again in the new place, records the copy, and drops the old place.
    ///
    /// # Errors
    /// The pass has no open move of the allocation.
    pub fn move_allocation(&mut self, allocation: &mut Allocation<D>) -> Result<Allocation<D>, MoveError> {
        let index = self.index_of(allocation.place()).ok_or(MoveError::NotInPass)?;
        let (from, margins) = self.watched(allocation.place());
        let mut room = self.run.rooms[index].take().expect("an open move has its room");
        room.place.offset += margins.front;
        let old = *room.ticket.allocation();
        let arena = room.arena;
        let place = self.commit(room);
        self.moves[index].outcome = MoveOutcome::Moved;
        self.run.moved(arena, old);
        let old = allocation.moved_to(place);
        allocation.note_moved(from);
        Ok(old)
    }

    /// Gives up the move with this index in [`DefragPass::moves`]: the resource stays in place, and the new place is
    /// freed at once instead of at the end of the pass. Does nothing if the move was made or given up before.
    ///
    /// # Panics
    /// If `index` is not the index of a move of this pass.
    pub fn ignore(&mut self, index: usize) {
        if let Some(room) = self.run.rooms[index].take() {
            self.moves[index].outcome = MoveOutcome::Ignored;
            self.run.give_up(room);
        }
    }

    /// Drops a resource as [`drop`] does, instead of moving it. If the pass has an open move of the resource
    /// ([`DefragPass::has`]), frees the new place at once.
    pub fn discard<K: ResourceKind>(&mut self, resource: Resource<D, K>)
    where
        D: Create<K>,
    {
        if let Some(index) = self.index_of(resource.place()) {
            self.ignore(index);
        }
    }

    /// Returns the buffer copies of the moves that were made so far.
    #[must_use]
    pub fn copies(&self) -> &[BufferCopy<D>] {
        &self.copies
    }

    /// Returns the texture copies of the moves that were made so far.
    #[must_use]
    pub fn texture_copies(&self) -> &[TextureCopy<RawTexture<D>>] {
        &self.texture_copies
    }

    /// Records the copies that were not recorded yet, with their barriers, into a command list of the pass's frame. The
    /// old textures must be in the layout or state that the recorder expects. The new textures are in the same layout
    /// or state afterwards.
    ///
    /// # Safety
    /// As [`Record::begin_copies`] and [`Record::copy_textures`]; the list is submitted as the pass's frame. Earlier
    /// work that wrote the old resources is in the same queue, or the submission waits for it.
    pub unsafe fn record(&mut self, recorder: &mut impl Record<D>) {
        let (buffers, textures) = self.recorded;
        // SAFETY: the caller promises the same. Old and new objects are alive until the frame is complete, because the
        // old ones are retired after the frame was begun. A texture is moved once a pass, so each is in one copy.
        unsafe {
            // The count of each kind is set after it is recorded: if a recorder panics, the next call records the rest.
            self.record_buffers(buffers, recorder);
            self.recorded.0 = self.copies.len();
            if textures < self.texture_copies.len() {
                recorder.copy_textures(&self.texture_copies[textures..]);
            }
            self.recorded.1 = self.texture_copies.len();
        }
    }

    /// Records the copies of buffers from index `first` on.
    ///
    /// # Safety
    /// As [`DefragPass::record`].
    unsafe fn record_buffers(&self, first: usize, recorder: &mut impl Record<D>) {
        let copies = &self.copies[first..];
        if copies.is_empty() {
            return;
        }
        let written: Vec<_> = copies.iter().map(|copy| copy.dst.clone()).collect();
        // SAFETY: the buffers are alive until the frame is complete, because the old ones are retired after it was
        // begun. The copies are inside both, and each has a destination of its own. The caller promises the rest.
        unsafe {
            recorder.begin_copies(&written, &[]);
            for BufferCopy { src, src_offset, dst, dst_offset, size } in copies {
                let region = CopyRegion { src_offset: *src_offset, dst_offset: *dst_offset, size: *size };
                recorder.copy_buffer(src, dst, &[region]);
            }
            recorder.end_copies(&written, &[]);
        }
    }

    /// Returns the id of the range at `place` in traces and debugging (`None` if both are off), and the sizes of the
    /// range's guards.
    fn watched(&self, place: &Place<D>) -> (Option<RangeId>, Margins) {
        let shared = self.run.shared();
        let range = shared.watched(place);
        let guarded = shared.observers.debug().zip(range);
        (range, guarded.map_or_else(Margins::default, |(debug, range)| debug.margins_of(range.key)))
    }

    /// Returns the index of the open move of the resource at `place`. Returns `None` if this pass has none.
    fn index_of(&self, place: &Place<D>) -> Option<usize> {
        let ticket = place.ticket().filter(|ticket| ticket.is_moving())?;
        let room = self.run.rooms.get(ticket.index())?.as_ref()?;
        Arc::ptr_eq(&room.ticket, ticket).then(|| ticket.index())
    }

    /// Returns the description that the resource was created with, if it is fully known.
    fn known_info<K: ResourceKind>(
        &self,
        resource: &Resource<D, K>,
    ) -> Result<<D as Create<K>>::Info<'static>, MoveError>
    where
        D: Create<K>,
    {
        self.index_of(resource.place()).ok_or(MoveError::NotInPass)?;
        let desc = resource.full_desc().ok_or(MoveError::NeedsInfo)?;
        Ok(Create::<K>::describe(&self.run.shared().device, desc).map_err(Error::from)?)
    }

    /// Creates the object in its new place, replaces the resource's object with it, and retires and returns the old
    /// object.
    fn relocate<K: ResourceKind>(
        &mut self,
        resource: &mut Resource<D, K>,
        info: &<D as Create<K>>::Info<'_>,
    ) -> Result<<D as Create<K>>::Object, MoveError>
    where
        D: Create<K>,
    {
        let index = self.index_of(resource.place()).ok_or(MoveError::NotInPass)?;
        let shared = Arc::clone(self.run.shared());
        if !resource.is_made_as(info) {
            return Err(MoveError::AnotherDescription);
        }
        if !Create::<K>::is_copied(&shared.device, info) {
            return Err(MoveError::NotCopied);
        }
        let (from, margins) = self.watched(resource.place());
        let room = self.run.rooms[index].as_ref().expect("an open move has its room");
        // In a block that is shared with other processes, each object must be created as shared.
        let share = shared.memory_of(&room.place).share;
        let prepared = shared.prepare::<K>(info, share);
        let (unplaced, needs) = prepared.map_err(|error| MoveError::Make(error.into()))?;
        let unplaced = Prepared::<D, K>::new(&shared.device, unplaced);
        check_room(&room.place, margins, &needs, &shared)?;
        let Room { arena, ticket, mut place } = self.run.rooms[index].take().expect("the open move was just found");
        place.offset += margins.front;
        // If this fails or panics, the room is freed, and the resource may be moved again.
        let returned = guard((), |()| {
            ticket.put_back();
            self.moves[index].outcome = MoveOutcome::Ignored;
            self.run.left();
        });
        // SAFETY: type, class, size and alignment were just checked.
        let made = unsafe { shared.place_at::<K>(unplaced.get(), place) };
        let (placed, place) = made.map_err(|error| MoveError::Make(error.into()))?;
        ScopeGuard::into_inner(returned);
        unplaced.used_up();
        shared.notify(Event::Called(Call::CreateObject));
        if !self.moves[index].name.is_empty() {
            // SAFETY: the object was just created.
            unsafe { Create::<K>::set_name(&shared.device, &placed.object, &self.moves[index].name) };
        }
        let old = *ticket.allocation();
        let place = self.commit(Room { arena, ticket, place });
        let src = resource.object().clone();
        let (placed, place) = resource.exchange(placed, place);
        resource.note_moved(from);
        resource.await_content(self.frame);
        // SAFETY: both belonged to the resource until the exchange above.
        unsafe { shared.retire(Some(K::raw(placed.object)), place) };
        self.moves[index].outcome = MoveOutcome::Moved;
        self.run.moved(arena, old);
        Ok(src)
    }

    /// Commits the move: from here on the new place replaces the old one.
    fn commit(&self, Room { arena, ticket, mut place }: Room<D>) -> Place<D> {
        let shared = self.run.shared();
        let allocation = *place.block_allocation().expect("room is a range of a block");
        ticket.commit();
        place.set_ticket(shared.compact(self.run.arena(arena)).renew(&ticket, allocation));
        place
    }
}

/// Checks that a resource with these needs fits into the room that the move has reserved.
fn check_room<D: Device>(
    place: &Place<D>,
    margins: Margins,
    needs: &Requirements,
    shared: &Shared<D>,
) -> Result<(), MoveError> {
    let needs = match place.arena {
        ArenaRef::Own(_) => shared.classes.apart(*needs),
        ArenaRef::Pool(_) => *needs,
    };
    let Requirements { size, alignment, memory_type_bits, class, requires_dedicated, .. } = needs;
    let room = place.block_allocation().map_or(0, |allocation| margins.inside(allocation.size()));
    let desc = shared.arena_desc(&place.arena);
    let fits = size <= room
        && (place.offset + margins.front).is_multiple_of(alignment)
        && memory_type_bits >> desc.memory_type & 1 == 1
        && desc.holds(class)
        && !requires_dedicated;
    if fits { Ok(()) } else { Err(MoveError::AnotherResource { size, alignment, memory_type_bits, room }) }
}

impl<D: Device> Drop for DefragPass<'_, D> {
    fn drop(&mut self) {
        // Inside a host allocation under a lock, no memory can be freed: the next pass or the end of the run does this.
        if is_locked() {
            return;
        }
        (0..self.moves.len()).for_each(|index| self.ignore(index));
    }
}

impl<D: Device> fmt::Debug for DefragPass<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefragPass").field("moves", &self.moves).finish_non_exhaustive()
    }
}
