//! A pass: moves that are planned, and what becomes of each.
//!
//! ```text
//!   planned: room is allocated ──┬─ copy_…(&mut resource) ─▶ the resource lies there; its old place is retired
//!                                ├─ ignore, or nothing ────▶ the room is freed, the resource stays
//!                                └─ drop(resource) ────────▶ the room is freed; the resource is retired as ever
//! ```

use std::fmt;
use std::sync::Arc;

use super::Defrag;
use crate::device::record::{CopyRegion, Record, TextureCopy};
use crate::device::{Buffers, Create, Device, RawTexture, Requirements, Textures};
use crate::error::Error;
use crate::memory::{ArenaRef, Place, Prepared, Reserved, Shared, Ticket};
use crate::observe::debugging::Margins;
use crate::observe::trace::Event as Recorded;
use crate::observe::unlocked::is_locked;
use crate::observe::{Call, Event, RangeId};
use crate::resource::{Allocation, Buffer, BufferCopy, MipCopy, Resource, ResourceKind, Texture};
use crate::timeline::Frame;
use crate::undo::Undo;

/// Moves that are to be made in one submission. Dropping it ends the pass: resources that were not copied stay where
/// they are.
///
/// See the [module](super) for what to do with it.
pub struct DefragPass<'r, D: Device> {
    run: &'r mut Defrag<D>,
    frame: &'r Frame,
    moves: Vec<Move>,
    copies: Vec<BufferCopy<D>>,
    texture_copies: Vec<TextureCopy<RawTexture<D>>>,
    /// How many of either are recorded.
    recorded: (usize, usize),
}

/// A move that is planned, and the arena that it is in.
pub(super) struct Pending<D: Device> {
    pub(super) arena: usize,
    pub(super) reserved: Reserved<D>,
}

pub(super) struct Room<D: Device> {
    arena: usize,
    pub(super) ticket: Arc<Ticket>,
    pub(super) place: Place<D>,
}

impl<D: Device> Room<D> {
    /// The resource stays where it is, and the room is free again.
    pub(super) fn give_up(self, shared: &Shared<D>) {
        self.ticket.put_back();
        shared.free_place(self.place);
    }
}

/// A move of a pass: whose it is, and how large.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// The user data of the resource: see [`AllocationDesc::user_data`](crate::AllocationDesc::user_data).
    pub user_data: u64,
    /// Its name.
    pub name: Box<str>,
    /// Bytes that it takes.
    pub size: u64,
    /// First byte of the present place in its memory object.
    pub from_offset: u64,
    /// First byte of the new place in its memory object.
    pub to_offset: u64,
    /// Whether both are in the same memory object.
    pub is_inside_block: bool,
    /// What has become of it.
    pub outcome: MoveOutcome,
}

/// What has become of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveOutcome {
    /// Nothing yet.
    Open,
    /// The resource lies in its new place.
    Moved,
    /// The resource stays where it is, or is gone.
    Ignored,
}

/// Why a move was not made. The resource is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// This pass has no move for this resource, or the move was made or ignored, or the resource was pinned since, or
    /// copies to it were gathered since and are not recorded.
    #[error("the pass has no open move of this resource, or the resource was pinned or is to be copied to")]
    NotInPass,
    /// The resource was made with a native description that the library does not keep: pass it again.
    #[error("this resource was made with a description that is not known in full: give it again")]
    NeedsInfo,
    /// The description given is not of such a resource as lies in the old place.
    #[error(
        "the description asks for {size} bytes aligned to {alignment} in memory types {memory_type_bits:#b}, the room \
         that is allocated has {room} bytes"
    )]
    AnotherResource {
        /// Bytes that it asks for.
        size: u64,
        /// The alignment that it asks for.
        alignment: u64,
        /// The memory types that it may lie in.
        memory_type_bits: u32,
        /// Bytes of the new place.
        room: u64,
    },
    /// The description given is not the one that the resource was made with.
    #[error("the resource was made with another description than the one given")]
    AnotherDescription,
    /// The resource lacks the usages for copies from and to it, which a move needs.
    #[error("the resource was not made with the usages of copies, from and to")]
    NotCopied,
    /// The texture's format has several planes, or is one that the library knows nothing of, so that it cannot say what
    /// is to be copied: such a texture is best not [`movable`](crate::AllocationDesc::movable), or pinned.
    #[error("the texture's format has several planes or is not known: what is to be copied of it cannot be said")]
    UnknownFormat,
    /// The object could not be made anew.
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

    /// The moves of this pass, in the order in which they were planned.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Whether there is an open move of this resource. O(1).
    #[must_use]
    pub fn has<K: ResourceKind>(&self, resource: &Resource<D, K>) -> bool
    where
        D: Create<K>,
    {
        self.index_of(resource.place()).is_some()
    }

    /// Makes the move of this buffer: a new buffer is made in the new place, the old one is retired. Returns the copy,
    /// and keeps it for [`DefragPass::record`]: it has to be recorded in the pass's frame, before anything that reads
    /// the buffer. Both buffers need the usages for copies.
    ///
    /// # Errors
    /// There is no such move; the buffer could not be made (the move can be tried again), or not bound (it is given up);
    /// or it was made with a native description that the portable one does not cover: [`DefragPass::copy_buffer_as`].
    pub fn copy_buffer(&mut self, buffer: &mut Buffer<D>) -> Result<BufferCopy<D>, MoveError> {
        let info = self.known_info(buffer)?;
        self.copy_buffer_as(buffer, &info)
    }

    /// As [`DefragPass::copy_buffer`], with what the buffer was made with; of one that
    /// [may be larger](crate::AllocationDesc::may_be_larger), what was asked for will do.
    ///
    /// # Errors
    /// As there, and the description is not of the same buffer.
    pub fn copy_buffer_as(
        &mut self,
        buffer: &mut Buffer<D>,
        info: &<D as Create<Buffers>>::Info<'_>,
    ) -> Result<BufferCopy<D>, MoveError> {
        let rounded = buffer.rounded_as_made(info);
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

    /// Makes the move of this texture: as [`DefragPass::copy_buffer`]. All of it is copied, every mip and layer.
    ///
    /// Returns the copies, each a mip of all layers, for a program that records them itself instead of with
    /// [`DefragPass::record`]: in the pass's frame and before anything that reads the texture. Before that, the program
    /// transitions the new texture into the layout or state that copies need, as with any new texture.
    ///
    /// # Errors
    /// As there. If the texture was made with a native description that the portable one does not cover (another
    /// format, other flags), use [`DefragPass::copy_texture_as`].
    pub fn copy_texture(&mut self, texture: &mut Texture<D>) -> Result<Vec<MipCopy<D>>, MoveError> {
        self.index_of(texture.place()).ok_or(MoveError::NotInPass)?;
        // Giving the description again would not help.
        texture.parts().ok_or(MoveError::UnknownFormat)?;
        let info = self.known_info(texture)?;
        self.copy_texture_as(texture, &info)
    }

    /// As [`DefragPass::copy_texture`], with what the texture was made with. On Direct3D 12 [`DefragPass::record`]
    /// needs a texture whose initial state is the common state.
    ///
    /// # Errors
    /// The description is not of the same texture; or [`MoveError::UnknownFormat`], as where the format has several
    /// planes: make such textures not movable.
    pub fn copy_texture_as(
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

    /// Makes the move of memory without a resource: `allocation` gets the new place, and the old place is returned,
    /// which cannot be moved again. The program makes its resource again in the new place, records the copy, and drops
    /// the old one.
    ///
    /// # Errors
    /// There is no such move.
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

    /// Gives up a move: its resource stays where it is, and the room for it is freed at once rather than when the pass
    /// ends.
    ///
    /// # Panics
    /// If there is no such move.
    pub fn ignore(&mut self, index: usize) {
        if let Some(room) = self.run.rooms[index].take() {
            self.moves[index].outcome = MoveOutcome::Ignored;
            self.run.give_up(room);
        }
    }

    /// Drops a resource instead of moving it, as [`drop`] does, and frees the room for its move at once.
    pub fn discard<K: ResourceKind>(&mut self, resource: Resource<D, K>)
    where
        D: Create<K>,
    {
        if let Some(index) = self.index_of(resource.place()) {
            self.ignore(index);
        }
    }

    /// The copies of buffers so far.
    #[must_use]
    pub fn copies(&self) -> &[BufferCopy<D>] {
        &self.copies
    }

    /// The copies of textures so far.
    #[must_use]
    pub fn texture_copies(&self) -> &[TextureCopy<RawTexture<D>>] {
        &self.texture_copies
    }

    /// Records the copies that were not recorded yet, with their barriers, into a command list of the pass's frame. The
    /// old textures have to be in the layout or state that the recorder expects; the new ones are in it afterwards.
    ///
    /// # Safety
    /// As [`Record::begin_copies`] and [`Record::copy_textures`]; the list is submitted as the pass's frame. Whatever
    /// wrote the old resources before is in the same queue, or the submission waits for it.
    pub unsafe fn record(&mut self, recorder: &mut impl Record<D>) {
        let (buffers, textures) = self.recorded;
        // SAFETY: the caller promises what is asked; old and new ones are alive until the frame is complete, as the old
        // ones are retired after it was begun; a texture is moved once a pass, so that each is in one copy.
        unsafe {
            // Each is noted once it is recorded: what a recorder that panics has left out is recorded by the next.
            self.record_buffers(buffers, recorder);
            self.recorded.0 = self.copies.len();
            if textures < self.texture_copies.len() {
                recorder.copy_textures(&self.texture_copies[textures..]);
            }
            self.recorded.1 = self.texture_copies.len();
        }
    }

    /// Records the copies of buffers from the `first` on.
    ///
    /// # Safety
    /// As [`DefragPass::record`].
    unsafe fn record_buffers(&self, first: usize, recorder: &mut impl Record<D>) {
        let copies = &self.copies[first..];
        if copies.is_empty() {
            return;
        }
        let written: Vec<_> = copies.iter().map(|copy| copy.dst.clone()).collect();
        // SAFETY: the buffers are alive until the frame is complete: the old ones are retired after it was begun. The
        // copies lie inside both, and each has a destination of its own. The rest is the caller's promise.
        unsafe {
            recorder.begin_copies(&written, &[]);
            for BufferCopy { src, src_offset, dst, dst_offset, size } in copies {
                let region = CopyRegion { src_offset: *src_offset, dst_offset: *dst_offset, size: *size };
                recorder.copy_buffer(src, dst, &[region]);
            }
            recorder.end_copies(&written, &[]);
        }
    }

    /// The id by which traces and debugging know the range to move, and the width of its guards, for which the new
    /// place has room.
    fn watched(&self, place: &Place<D>) -> (Option<RangeId>, Margins) {
        let shared = self.run.shared();
        let range = shared.watched(place);
        let guarded = shared.observers.debug().zip(range);
        (range, guarded.map_or_else(Margins::default, |(debug, range)| debug.margins_of(range.key)))
    }

    /// The move whose resource lies in this place.
    fn index_of(&self, place: &Place<D>) -> Option<usize> {
        let ticket = place.ticket().filter(|ticket| ticket.is_moving())?;
        let room = self.run.rooms.get(ticket.index())?.as_ref()?;
        Arc::ptr_eq(&room.ticket, ticket).then(|| ticket.index())
    }

    /// What the resource was made with, if that is known in full.
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

    /// Makes the object in its new place, and puts it into the value; the old object, which is retired, is returned.
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
        // In a block that is shared, each object has to say so.
        let share = shared.memory_of(&room.place).share;
        let prepared = shared.prepare::<K>(info, share);
        let (unplaced, needs) = prepared.map_err(|error| MoveError::Make(error.into()))?;
        let unplaced = Prepared::<D, K>::new(&shared.device, unplaced);
        check_room(&room.place, margins, &needs, &shared)?;
        let Room { arena, ticket, mut place } = self.run.rooms[index].take().expect("it is there");
        place.offset += margins.front;
        // If it fails or panics, the room is freed, and the resource may be moved again.
        let returned = Undo::new(|| {
            ticket.put_back();
            self.moves[index].outcome = MoveOutcome::Ignored;
            self.run.left();
        });
        // SAFETY: type, class, size and alignment were checked just now.
        let made = unsafe { shared.place_at::<K>(unplaced.get(), place) };
        let (placed, place) = made.map_err(|error| MoveError::Make(error.into()))?;
        returned.done();
        unplaced.used_up();
        shared.notify(Event::Called(Call::CreateObject));
        if !self.moves[index].name.is_empty() {
            // SAFETY: the object was made just now.
            unsafe { Create::<K>::set_name(&shared.device, &placed.object, &self.moves[index].name) };
        }
        let old = *ticket.allocation();
        let place = self.commit(Room { arena, ticket, place });
        let src = resource.object().clone();
        let (placed, place) = resource.exchange(placed, place);
        resource.note_moved(from);
        resource.await_content(self.frame);
        // SAFETY: both were the resource's a moment ago.
        unsafe { shared.retire(Some(K::raw(placed.object)), place) };
        self.moves[index].outcome = MoveOutcome::Moved;
        self.run.moved(arena, old);
        Ok(src)
    }

    /// From here on the new place is what the old one was.
    fn commit(&self, Room { arena, ticket, mut place }: Room<D>) -> Place<D> {
        let shared = self.run.shared();
        let allocation = *place.block_allocation().expect("room is a range of a block");
        ticket.commit();
        place.set_ticket(shared.compact(self.run.arena(arena)).renew(&ticket, allocation));
        place
    }
}

/// Whether a resource with these needs may lie in the room for the one that it is to be.
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
    let room = place.block_allocation().map_or(0, |allocation| allocation.size() - margins.front - margins.back);
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
        // Within a host allocation under a lock nothing can be freed: the next pass gives up what is open, or the end
        // of the run.
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
