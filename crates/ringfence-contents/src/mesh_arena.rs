//! Vertices and indices of many meshes in few buffers.
//!
//! ```text
//!   block 0   vertices ├ mesh 0 │ mesh 2 │·free·│ mesh 3 ├···free···┤     indices ├ 0 │ 2 │·│ 3 ├···┤
//!   block 1   vertices ├ mesh 1 ├·············free·············┤        indices ├ 1 ├······┤
//!
//!   Mesh ──drop──▶ retired ──(its submissions are complete)──▶ ranges are free again
//!   compact: copy to another block ──(the copy's frame is complete)──▶ the mesh is drawn from there, old ranges retired
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | `insert` | O(blocks), two copies; two driver buffers if no block has room |
//! | drop of a mesh | O(timelines), a short lock |
//! | `draw` | O(1) |
//! | `compact` | O(meshes), and O(blocks) for each mesh of the emptied block; two copies for each moved mesh |

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use bytemuck::NoUninit;
use ringfence_core::range::{Allocate, Range, RangeAllocator};
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};
use ringfence_core::tlsf::Tlsf;

use super::error::ContentsError;
use crate::device::{BufferDesc, BufferUsage, Device};
use ringfence_memory::extend::{Lock, Passed, Shared, run_unlocked};
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::Location;
use ringfence_memory::resource::{AsBufferSlice, BufferSlice};
use ringfence_memory::{AllocationDesc, Allocator, Buffer, Error};
use ringfence_upload::{BatchError, CopyTarget, Staged, UploadBatch, UploadError, UploadRing};

/// The largest number of vertices or indices in a block: a draw names them with 31 bits.
const COUNT_MAX: u64 = i32::MAX as u64;

/// Configuration of a [`MeshArena`].
#[derive(Clone, Copy, Debug)]
pub struct MeshArenaDesc<'a> {
    /// Number of vertices of a block. A mesh with more vertices gets a larger block.
    pub block_vertices: u32,
    /// Number of indices of a block. A mesh with more indices gets a larger block.
    pub block_indices: u32,
    /// Usages of the vertex buffers besides `VERTEX`; usages for copies are added.
    pub vertex_usage: BufferUsage,
    /// Usages of the index buffers besides `INDEX`; usages for copies are added.
    pub index_usage: BufferUsage,
    /// Name for reports and for the driver's objects.
    pub name: &'a str,
}

impl Default for MeshArenaDesc<'_> {
    /// Blocks of 2¹⁸ vertices and 2²⁰ indices.
    fn default() -> Self {
        let none = BufferUsage::empty();
        Self { block_vertices: 1 << 18, block_indices: 1 << 20, vertex_usage: none, index_usage: none, name: "" }
    }
}

/// A mesh in a [`MeshArena`]. Dropping it frees its ranges, once every submission that had begun at the drop is
/// complete.
pub struct Mesh<D: Device> {
    shared: Arc<Shared<D>>,
    retired: Arc<Lock<RetireQueue<Freed>>>,
    slot: u32,
    /// `None` during the drop. [`MeshArena::compact`] moves only meshes that have it.
    alive: Option<Arc<()>>,
}

/// The arguments of an indexed draw of a mesh, and the block of the arena that has the buffers for this draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshDraw {
    /// Index of the block, for [`MeshArena::block`].
    pub block: u32,
    /// Number of indices.
    pub index_count: u32,
    /// First index in the block's index buffer.
    pub first_index: u32,
    /// Number that is added to each index: the first vertex in the block's vertex buffer.
    pub vertex_offset: i32,
}

impl MeshDraw {
    /// Returns the words of `VkDrawIndexedIndirectCommand` and `D3D12_DRAW_INDEXED_ARGUMENTS`, which are the same:
    /// index count, instance count, first index, vertex offset, first instance.
    #[must_use]
    pub const fn indirect(&self, instance_count: u32, first_instance: u32) -> [u32; 5] {
        [self.index_count, instance_count, self.first_index, self.vertex_offset as u32, first_instance]
    }
}

/// The vertices or the indices of a mesh, as a range of the buffer of its block.
pub struct MeshPart<'a, D: Device> {
    buffer: &'a Buffer<D>,
    offset: u64,
    size: u64,
}

impl<D: Device> MeshPart<'_, D> {
    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

// SAFETY: the range belongs to the mesh, which the value borrows.
unsafe impl<D: Device> AsBufferSlice<D> for MeshPart<'_, D> {
    fn as_slice(&self) -> BufferSlice<'_, D> {
        BufferSlice { offset: self.offset, size: self.size, ..self.buffer.as_slice() }
    }
}

// SAFETY: the range belongs to the mesh, which the value borrows; the drop of the block retires its buffers.
unsafe impl<D: Device> CopyTarget<D> for MeshPart<'_, D> {
    fn resource(&self) -> Option<&Buffer<D>> {
        Some(self.buffer)
    }

    fn location(&self) -> Location {
        self.buffer.location()
    }
}

/// Statistics of an arena.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MeshArenaFigures {
    /// Number of blocks.
    pub block_count: usize,
    /// Number of meshes, including dropped ones that submissions may still use.
    pub mesh_count: usize,
    /// Number of moves that are not known to be complete.
    pub moving_count: usize,
    /// Vertices that no mesh uses, in all blocks.
    pub free_vertices: u64,
    /// Indices that no mesh uses, in all blocks.
    pub free_indices: u64,
}

/// Vertices `V` and indices `I` (`u16` or `u32`) of many meshes, in few buffers. See the [crate](crate).
pub struct MeshArena<D: Device, V, I = u32> {
    memory: Allocator<D>,
    name: Box<str>,
    block_vertices: u32,
    block_indices: u32,
    usages: [BufferUsage; 2],
    /// An empty slot is a block that was freed; its number is used again.
    blocks: Vec<Option<Block<D>>>,
    /// An empty slot is in `spare`.
    meshes: Vec<Option<Held>>,
    spare: Vec<u32>,
    moving: Vec<Move>,
    retired: Arc<Lock<RetireQueue<Freed>>>,
    is_lost: bool,
    elements: PhantomData<fn() -> (V, I)>,
}

struct Block<D: Device> {
    vertices: Buffer<D>,
    indices: Buffer<D>,
    free: [Tlsf; 2],
    /// Number of meshes and of moves that have ranges in the block.
    users: u32,
}

#[derive(Clone, Copy)]
struct Place {
    block: u32,
    vertices: Range,
    indices: Range,
    index_count: u32,
}

struct Held {
    place: Place,
    alive: Weak<()>,
    is_moving: bool,
}

/// A mesh that is being copied to another place. It is drawn from its old place until the copy is complete.
struct Move {
    slot: u32,
    to: Place,
    point: SyncPoint,
}

enum Freed {
    Mesh(u32),
    Place(Place),
}

impl<D: Device, V: NoUninit, I: NoUninit> MeshArena<D, V, I> {
    /// Creates an arena without blocks.
    ///
    /// # Panics
    /// If `V` has no bytes, or `I` does not have 2 or 4 bytes.
    #[must_use]
    pub fn new(memory: &Allocator<D>, desc: MeshArenaDesc<'_>) -> Self {
        assert!(size_of::<V>() > 0, "vertices have at least one byte");
        assert!(matches!(size_of::<I>(), 2 | 4), "indices have 2 or 4 bytes");
        let copied = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        Self {
            memory: memory.clone(),
            name: desc.name.into(),
            block_vertices: desc.block_vertices.min(COUNT_MAX as u32),
            block_indices: desc.block_indices.min(COUNT_MAX as u32),
            usages: [desc.vertex_usage | BufferUsage::VERTEX | copied, desc.index_usage | BufferUsage::INDEX | copied],
            blocks: Vec::new(),
            meshes: Vec::new(),
            spare: Vec::new(),
            moving: Vec::new(),
            retired: Arc::new(Lock::new(RetireQueue::new())),
            is_lost: false,
            elements: PhantomData,
        }
    }

    /// Stages a mesh in `ring`, and adds its copies to `batch`, which must be recorded in `frame`, before the first
    /// draw of the mesh. `indices` are relative to the first vertex of the mesh.
    ///
    /// # Errors
    /// - [`ContentsError::EmptyMesh`].
    /// - The mesh has more than 2³¹ − 1 vertices or indices.
    /// - The ring has no room, or a block could not be created.
    /// - The frame or the batch belongs to another allocator.
    ///
    /// The arena has no new mesh after an error.
    pub fn insert(
        &mut self,
        vertices: &[V],
        indices: &[I],
        ring: &UploadRing<D>,
        batch: &mut UploadBatch<D>,
        frame: &Frame,
    ) -> Result<Mesh<D>, ContentsError> {
        self.check_frame(frame)?;
        let [vertex_count, index_count] = [vertices.len() as u64, indices.len() as u64];
        if let Some(size) = [vertex_count, index_count].into_iter().find(|count| *count > COUNT_MAX) {
            return Err(Error::TooLarge { size, max: COUNT_MAX }.into());
        }
        let [vertex_count, index_count] = [vertex_count as u32, index_count as u32];
        if vertex_count == 0 || index_count == 0 {
            return Err(ContentsError::EmptyMesh { vertex_count, index_count });
        }
        let place = self.find(vertex_count, index_count)?;
        if let Err(error) = self.upload(place, vertices, indices, ring, batch, frame) {
            // The batch may have one of the two copies.
            self.retire(Freed::Place(place));
            return Err(error);
        }
        let alive = Arc::new(());
        let held = Held { place, alive: Arc::downgrade(&alive), is_moving: false };
        let slot = match self.spare.pop() {
            Some(slot) => {
                self.meshes[slot as usize] = Some(held);
                slot
            }
            None => {
                self.meshes.push(Some(held));
                self.meshes.len() as u32 - 1
            }
        };
        let (shared, retired) = (Arc::clone(self.memory.shared()), Arc::clone(&self.retired));
        Ok(Mesh { shared, retired, slot, alive: Some(alive) })
    }

    fn upload(
        &self,
        place: Place,
        vertices: &[V],
        indices: &[I],
        ring: &UploadRing<D>,
        batch: &mut UploadBatch<D>,
        frame: &Frame,
    ) -> Result<(), ContentsError> {
        let block = self.held_block(place.block);
        let staged = [bytemuck::cast_slice(vertices), bytemuck::cast_slice(indices)]
            .map(|bytes| ring.write_for(frame, bytes, 16));
        let [of_vertices, of_indices] = staged;
        batch.copy(&of_vertices?, &block.vertices, place.vertices.offset() * size_of::<V>() as u64)?;
        batch.copy(&of_indices?, &block.indices, place.indices.offset() * size_of::<I>() as u64)?;
        Ok(())
    }

    /// Returns the arguments to draw a mesh. If [`MeshArena::compact`] has moved the mesh, they change in the
    /// [`MeshArena::reclaim`] that finds the copies complete, so call this function in each frame.
    ///
    /// # Errors
    /// [`ContentsError::ForeignMesh`].
    pub fn draw(&self, mesh: &Mesh<D>) -> Result<MeshDraw, ContentsError> {
        if !Arc::ptr_eq(&mesh.retired, &self.retired) {
            return Err(ContentsError::ForeignMesh);
        }
        let held = self.meshes[mesh.slot as usize].as_ref().expect("the mesh is alive");
        let Place { block, vertices, indices, index_count } = held.place;
        let (first_index, vertex_offset) = (indices.offset() as u32, vertices.offset() as i32);
        Ok(MeshDraw { block, index_count, first_index, vertex_offset })
    }

    /// Returns the draws of meshes, sorted by block, so that each block is bound once. Each draw is paired with the
    /// index of its mesh in `meshes`. Within a block, the meshes keep their order.
    ///
    /// # Errors
    /// As [`MeshArena::draw`].
    pub fn draws<'a>(
        &self,
        meshes: impl IntoIterator<Item = &'a Mesh<D>>,
    ) -> Result<Vec<(usize, MeshDraw)>, ContentsError>
    where
        D: 'a,
    {
        let draw = |(index, mesh)| self.draw(mesh).map(|draw| (index, draw));
        let draws: Result<Vec<_>, _> = meshes.into_iter().enumerate().map(draw).collect();
        let mut draws = draws?;
        draws.sort_by_key(|(_, draw)| draw.block);
        Ok(draws)
    }

    /// Returns the vertices of a mesh, as the destination or source of copies. [`MeshArena::compact`] does not move the
    /// mesh while another batch has copies to its block that are not recorded. If the copies are lost,
    /// [`MeshArena::take_content_lost`] returns `true`.
    ///
    /// # Errors
    /// [`ContentsError::ForeignMesh`], or [`ContentsError::Moving`] if the mesh is being moved.
    pub fn vertices<'a>(&'a self, mesh: &'a Mesh<D>) -> Result<MeshPart<'a, D>, ContentsError> {
        let Place { block, vertices, .. } = self.settled(mesh)?;
        let (buffer, element) = (&self.held_block(block).vertices, size_of::<V>() as u64);
        Ok(MeshPart { buffer, offset: vertices.offset() * element, size: vertices.size() * element })
    }

    /// Returns the indices of a mesh: see [`MeshArena::vertices`].
    ///
    /// # Errors
    /// As [`MeshArena::vertices`].
    pub fn indices<'a>(&'a self, mesh: &'a Mesh<D>) -> Result<MeshPart<'a, D>, ContentsError> {
        let Place { block, indices, index_count, .. } = self.settled(mesh)?;
        let (buffer, element) = (&self.held_block(block).indices, size_of::<I>() as u64);
        Ok(MeshPart { buffer, offset: indices.offset() * element, size: u64::from(index_count) * element })
    }

    /// Returns the place of a mesh that is not being moved.
    fn settled(&self, mesh: &Mesh<D>) -> Result<Place, ContentsError> {
        if !Arc::ptr_eq(&mesh.retired, &self.retired) {
            return Err(ContentsError::ForeignMesh);
        }
        let held = self.meshes[mesh.slot as usize].as_ref().expect("the mesh is alive");
        if held.is_moving { Err(ContentsError::Moving) } else { Ok(held.place) }
    }

    /// Returns the vertex buffer and the index buffer of a block. Returns `None` if there is no such block.
    #[must_use]
    pub fn block(&self, block: u32) -> Option<(&Buffer<D>, &Buffer<D>)> {
        let block = self.blocks.get(block as usize)?.as_ref()?;
        Some((&block.vertices, &block.indices))
    }

    /// Completes the moves for which the copies are done, and frees the ranges and blocks that no submission uses. Call
    /// this function once a frame. `compact` calls it too, and `insert` before it creates a block.
    ///
    /// # Errors
    /// The device is lost, or a timeline could not be read. Ranges that are known to be unused are freed anyway.
    pub fn reclaim(&mut self) -> Result<(), ContentsError> {
        let mut passed = Passed::default();
        let read = self.memory.shared().read(&mut passed);
        self.settle(&passed);
        let mut freed = Vec::new();
        self.retired.lock().reclaim(&passed, |item| freed.push(item));
        for item in freed {
            match item {
                Freed::Place(place) => self.free(place),
                Freed::Mesh(slot) => {
                    // The frame of the move can be open although a later one is complete.
                    if let Some(at) = self.moving.iter().position(|moved| moved.slot == slot) {
                        let Move { to, .. } = self.moving.swap_remove(at);
                        self.retire(Freed::Place(to));
                    }
                    let held = self.meshes[slot as usize].take().expect("a mesh is dropped once");
                    self.free(held.place);
                    self.spare.push(slot);
                }
            }
        }
        for block in &mut self.blocks {
            // Dropping the buffers retires them.
            drop(block.take_if(|block| block.users == 0));
        }
        Ok(read.map_err(Error::from)?)
    }

    /// Moves meshes out of the block with the fewest vertices in use, if the other blocks have room for them: at most
    /// `bytes_max` bytes. Adds the copies to `batch`, which must be recorded in `frame`. The meshes are drawn from
    /// their old place until a [`MeshArena::reclaim`] finds the frame complete. If the frame is discarded, the meshes
    /// stay in their old place. [`MeshArena::reclaim`] frees the block once it is empty. Returns the number of bytes
    /// that are copied.
    ///
    /// If another batch has copies to that block that are not recorded, no mesh is moved: the copies would write to the
    /// old places.
    ///
    /// # Errors
    /// The frame or batch belongs to another allocator, or the timelines could not be read.
    pub fn compact(&mut self, bytes_max: u64, batch: &mut UploadBatch<D>, frame: &Frame) -> Result<u64, ContentsError> {
        self.check_frame(frame)?;
        self.reclaim()?;
        let blocks = (0..).zip(&self.blocks).filter_map(|(number, block)| Some((number, block.as_ref()?)));
        let used = |block: &Block<D>| block.free[0].capacity() - block.free[0].free_size();
        let Some((source, block)) = blocks.min_by_key(|(_, block)| used(block)) else { return Ok(0) };
        if [&block.vertices, &block.indices].into_iter().any(|buffer| batch.others_write(buffer)) {
            return Ok(0);
        }
        let mut moved = 0;
        for slot in 0..self.meshes.len() as u32 {
            let Some(held) = &self.meshes[slot as usize] else { continue };
            let from = held.place;
            if from.block != source || held.is_moving || held.alive.strong_count() == 0 {
                continue;
            }
            let bytes = from.vertices.size() * size_of::<V>() as u64 + from.indices.size() * size_of::<I>() as u64;
            if moved + bytes > bytes_max {
                break;
            }
            let Some(to) = self.find_elsewhere(from) else { continue };
            match self.copy(from, to, batch, frame) {
                Ok(()) => {}
                Err(error) => {
                    // The batch may have one of the two copies.
                    self.retire(Freed::Place(to));
                    // The batch writes the source block, or reads a destination: the next frame can move the mesh.
                    let waits = matches!(error, BatchError::ReadsTarget { .. } | BatchError::WritesSource { .. });
                    return if waits { Ok(moved) } else { Err(error.into()) };
                }
            }
            moved += bytes;
            self.meshes[slot as usize].as_mut().expect("it was found above").is_moving = true;
            self.moving.push(Move { slot, to, point: frame.point() });
        }
        Ok(moved)
    }

    fn copy(&self, from: Place, to: Place, batch: &mut UploadBatch<D>, frame: &Frame) -> Result<(), BatchError> {
        let (source, target) = (self.held_block(from.block), self.held_block(to.block));
        let parts = [
            (&source.vertices, &target.vertices, from.vertices, to.vertices, size_of::<V>() as u64),
            (&source.indices, &target.indices, from.indices, to.indices, size_of::<I>() as u64),
        ];
        for (source, target, from, to, bytes) in parts {
            let staged = Staged::of_in(source, from.offset() * bytes, from.size() * bytes, frame)?;
            batch.copy(&staged, target, to.offset() * bytes)?;
        }
        Ok(())
    }

    /// Completes the moves of frames that are complete. Cancels all moves to a block that has lost copies with a
    /// discarded frame.
    fn settle(&mut self, passed: &Passed) {
        // Before the losses are read: a frame that ends afterwards is judged by the next call. A frame can be open although
        // a later one is complete.
        let shared = self.memory.shared();
        let is_over = |moved: &Move| passed.passed(moved.point) && shared.open_frame(moved.point).is_none();
        let over: Vec<bool> = self.moving.iter().map(is_over).collect();
        let lost: Vec<u32> = (0..)
            .zip(&self.blocks)
            .filter(|(_, block)| {
                // Both buffers are queried, because each loss is reported once.
                let lost = |block: &Block<D>| block.vertices.take_content_lost() | block.indices.take_content_lost();
                block.as_ref().is_some_and(lost)
            })
            .map(|(number, _)| number)
            .collect();
        self.is_lost |= !lost.is_empty();
        for (Move { slot, to, point }, is_over) in std::mem::take(&mut self.moving).into_iter().zip(over) {
            if lost.contains(&to.block) {
                // One of the copies to this block was lost. The mesh stays in its old place; the ranges are retired, as
                // another copy to them may be under way.
                self.retire(Freed::Place(to));
                self.end_of_move(slot, None);
            } else if is_over {
                let old = self.end_of_move(slot, Some(to));
                self.retire(Freed::Place(old.unwrap_or(to)));
            } else {
                self.moving.push(Move { slot, to, point });
            }
        }
    }

    /// Ends a move, and replaces the place of the mesh if there is another one. Returns the previous place. Returns
    /// `None` if the place was not replaced, or the mesh does not exist any more.
    fn end_of_move(&mut self, slot: u32, to: Option<Place>) -> Option<Place> {
        let held = self.meshes[slot as usize].as_mut()?;
        held.is_moving = false;
        Some(std::mem::replace(&mut held.place, to?))
    }

    fn retire(&self, item: Freed) {
        retire(self.memory.shared(), &self.retired, item);
    }

    /// Returns `true` if copies to the arena were lost since the last call, because their frame was discarded. Meshes
    /// that were inserted or written for that frame must then be inserted or written again. Meshes that were being
    /// moved are not affected.
    #[must_use = "each loss is reported once"]
    pub fn take_content_lost(&mut self) -> bool {
        self.settle(&Passed::default());
        std::mem::take(&mut self.is_lost)
    }

    /// Returns the statistics. O(blocks + meshes).
    #[must_use]
    pub fn figures(&self) -> MeshArenaFigures {
        let blocks = || self.blocks.iter().flatten();
        let free = |which: usize| blocks().map(|block| block.free[which].free_size()).sum();
        MeshArenaFigures {
            block_count: blocks().count(),
            mesh_count: self.meshes.iter().flatten().count(),
            moving_count: self.moving.len(),
            free_vertices: free(0),
            free_indices: free(1),
        }
    }

    fn check_frame(&self, frame: &Frame) -> Result<(), UploadError> {
        let is_own = self.memory.shared().owns(frame);
        if is_own { Ok(()) } else { Err(UploadError::ForeignFrame { frame: frame.point() }) }
    }

    fn held_block(&self, block: u32) -> &Block<D> {
        self.blocks[block as usize].as_ref().expect("a block with a mesh exists")
    }

    /// Returns ranges for a mesh: in a block, or else in a new block.
    fn find(&mut self, vertices: u32, indices: u32) -> Result<Place, ContentsError> {
        if let Some(place) = self.find_in_blocks(vertices, indices, u32::MAX) {
            return Ok(place);
        }
        self.reclaim()?;
        if let Some(place) = self.find_in_blocks(vertices, indices, u32::MAX) {
            return Ok(place);
        }
        let block = self.make_block(vertices.max(self.block_vertices), indices.max(self.block_indices))?;
        let number = match self.blocks.iter().position(Option::is_none) {
            Some(number) => {
                self.blocks[number] = Some(block);
                number
            }
            None => {
                self.blocks.push(Some(block));
                self.blocks.len() - 1
            }
        };
        Ok(self.place_in(number as u32, vertices, indices).expect("a new block has room for its mesh"))
    }

    fn find_elsewhere(&mut self, from: Place) -> Option<Place> {
        let place = self.find_in_blocks(from.vertices.size() as u32, from.indices.size() as u32, from.block)?;
        Some(Place { index_count: from.index_count, ..place })
    }

    fn find_in_blocks(&mut self, vertices: u32, indices: u32, without: u32) -> Option<Place> {
        let numbers = (0..self.blocks.len() as u32).filter(|number| *number != without);
        numbers.into_iter().find_map(|number| self.place_in(number, vertices, indices))
    }

    fn place_in(&mut self, number: u32, vertices: u32, indices: u32) -> Option<Place> {
        let block = self.blocks[number as usize].as_mut()?;
        let of_vertices = block.free[0].allocate(vertices.into(), 1).ok()?;
        let Ok(of_indices) = block.free[1].allocate(indices.into(), 1) else {
            block.free[0].free(of_vertices).expect("it was just allocated");
            return None;
        };
        block.users += 1;
        Some(Place { block: number, vertices: of_vertices, indices: of_indices, index_count: indices })
    }

    fn free(&mut self, place: Place) {
        let block = self.blocks[place.block as usize].as_mut().expect("a block with a mesh exists");
        block.free[0].free(place.vertices).expect("the ranges of a mesh are freed once");
        block.free[1].free(place.indices).expect("the ranges of a mesh are freed once");
        block.users -= 1;
    }

    fn make_block(&self, vertices: u32, indices: u32) -> Result<Block<D>, Error> {
        let sizes = [u64::from(vertices) * size_of::<V>() as u64, u64::from(indices) * size_of::<I>() as u64];
        let make = |which: usize| {
            let desc = AllocationDesc { name: &self.name, location: Location::Device, ..Default::default() };
            self.memory.create_buffer(&BufferDesc { size: sizes[which], usage: self.usages[which] }, desc)
        };
        let free = [Tlsf::exact(vertices.into()), Tlsf::exact(indices.into())];
        Ok(Block { vertices: make(0)?, indices: make(1)?, free, users: 0 })
    }
}

fn retire<D: Device>(shared: &Shared<D>, retired: &Lock<RetireQueue<Freed>>, item: Freed) {
    let mut set = SyncSet::new();
    shared.begun(&mut set);
    retired.lock().retire(&set, item);
}

impl<D: Device> Drop for Mesh<D> {
    fn drop(&mut self) {
        // First: a move that begins later would not be among the submissions that the mesh waits for.
        self.alive = None;
        let (shared, retired, slot) = (Arc::clone(&self.shared), Arc::clone(&self.retired), self.slot);
        // The drop may be within a host allocation, while this thread holds a lock.
        run_unlocked(move || retire(&shared, &retired, Freed::Mesh(slot)));
    }
}

impl<D: Device> fmt::Debug for Mesh<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mesh({})", self.slot)
    }
}

impl<D: Device, V: NoUninit, I: NoUninit> fmt::Debug for MeshArena<D, V, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeshArena({:?}, {:?})", self.name, self.figures())
    }
}
