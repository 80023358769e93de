//! Incremental defragmentation: moves allocations together, so that blocks become empty and are freed.
//!
//! ```text
//!   run = memory.defragment(desc)                     or Defrag::of_pool(&pool, desc)
//!   once a frame, or when there is time:
//!     frame = timeline.begin()
//!     pass = run.begin_pass(&frame)                   plans; room for each move is allocated
//!     for each of pass.moves():                       the program finds the owner by the user data
//!       pass.copy_buffer(&mut buffer)                 the buffer *is* in its new place from here on; or copy_texture
//!       pass.ignore(move)  or  drop(buffer)           the buffer stays, or is retired
//!     pass.record(recorder)                           old ─▶ new, in the frame's command list
//!     drop(pass); submit; timeline.submitted(frame)
//!   memory.reclaim()                                  the old places are freed once the device is past the frame
//! ```
//!
//! # Resources that can be moved
//!
//! A resource is moved only if it was created as [`movable`](crate::AllocationDesc::movable), and only by its owner: a
//! move needs `&mut` of the [`Buffer`](crate::Buffer), [`Texture`](crate::Texture) or
//! [`Allocation`](crate::Allocation). So no other code uses the value while it is moved, and a value that was dropped
//! meanwhile is not moved. The value stays valid, but its driver object is a new one: the program must create its views
//! and descriptors again, and get its address again.
//!
//! These are not moved:
//!
//! - resources that are not movable, or are [pinned](crate::Resource::set_pinned),
//! - memory that the host reads or writes, unless [`DefragDesc::host_memory`] is set,
//! - ranges that several resources share,
//! - dedicated memory,
//! - ranges in pools with an order of their own ([`Algorithm::Linear`](ringfence_core::algorithm::Algorithm::Linear)).
//!
//! # Other threads
//!
//! Other threads may allocate and free during a pass. From the moment when a move is planned, its new place is a real
//! allocation. If the resource is dropped while its move is open, the move is not made, and the new place is freed when
//! the pass ends.
//!
//! # Order of the work, and its end
//!
//! 1. *Emptying*: the block with the smallest used share is emptied: its ranges, the largest first, are moved into the
//!    blocks with the fewest free bytes that have room. Blocks with a range that cannot be moved, or with more used
//!    bytes than are free in the other blocks, are skipped. The next block follows. Once the copies are complete and a
//!    reclaim has freed the old ranges, the next pass frees the empty block. In each cycle, a block is tried once.
//! 2. *Compacting*: in a block with at least 1/16 of its bytes free outside of its longest free range, allocations are
//!    moved towards the beginning, the last one first. A block has at most 8 rounds a cycle. If a round moved more than
//!    [`DefragDesc::bytes_per_byte_won_max`] bytes for each byte by which the longest free range grew, it is the last
//!    round in that block.
//! 3. If a block was compacted, another cycle of both steps begins, because a compacted block has room for larger
//!    ranges. The run ends after a cycle that compacts no block, after a later cycle than the first that empties no
//!    block, or after 9 cycles.
//!
//! Each memory type and resource class, and each custom pool, has its own cycles. [`Defrag::state`] reports if there is
//! more to do. The numbers of rounds and cycles are limited, so every run ends.
//!
//! | operation | cost |
//! |---|---|
//! | begin a run | O(memory types + custom pools); of a pool, O(1) |
//! | plan a pass | O(blocks log blocks + moves log blocks + recycled objects), and once for each round of a block O(r log r) for its r movable ranges |
//! | a move | the cost of creating the object, and one short lock; [`DefragPass::record`] records the copy |

mod arena;
mod pass;
mod run;

pub use pass::{DefragPass, Move, MoveError, MoveOutcome};
pub use run::{BeginPassError, Defrag, DefragState, DefragStatistics};

/// Limits and scope of a defragmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefragDesc {
    /// Maximum number of bytes that a pass copies. A range that is larger is moved as the only one of its pass.
    pub bytes_per_pass_max: u64,
    /// Maximum number of moves of a pass; 0 counts as 1.
    pub moves_per_pass_max: usize,
    /// Maximum number of bytes that are copied for each byte that is won. If a round of compacting moved more than this
    /// number of bytes for each byte by which the longest free range grew, it is the last round in its block. If a
    /// block could not be emptied, emptying stops if more than this number times the block's size was moved since the
    /// last block that was emptied.
    pub bytes_per_byte_won_max: u32,
    /// `true` if fragmented blocks that were not emptied are compacted.
    pub compacts: bool,
    /// `true` if resources that the host reads or writes ([`Location`](crate::Location) other than `Device`) are moved
    /// too. From the move until the copy is complete, the program must not write such a resource, because the copy
    /// would overwrite the new bytes.
    pub host_memory: bool,
}

impl Default for DefragDesc {
    /// At most 32 MiB and 256 moves a pass, at most 8 bytes copied for each byte won, with compacting, device memory
    /// only.
    fn default() -> Self {
        Self {
            bytes_per_pass_max: 32 << 20,
            moves_per_pass_max: 256,
            bytes_per_byte_won_max: 8,
            compacts: true,
            host_memory: false,
        }
    }
}
