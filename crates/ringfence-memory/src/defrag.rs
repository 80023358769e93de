//! Incremental defragmentation: moves allocations together to empty blocks, which are then freed.
//!
//! ```text
//!   run = memory.defragment(desc)                     or Defrag::of_pool(&pool, desc)
//!   once a frame, or when there is time:
//!     frame = timeline.begin()
//!     pass = run.begin_pass(&frame)                   plans; room for each move is allocated
//!     for each of pass.moves():                       the program finds the owner by the user data
//!       pass.copy_buffer(&mut buffer)                 the buffer *is* in its new place from here on; or copy_texture
//!       pass.ignore(move)  or  drop(buffer)           it stays; it is freed
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
//! meanwhile is not moved. The value stays valid, but its driver object is a new one: the program must create its
//! views, descriptors and addresses again.
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
//! Other threads may allocate and free during a pass. The new place of a move is a real allocation from the moment the
//! move is planned. If the old range is dropped while its move is open, the pass makes no move, and frees the new place
//! when it ends.
//!
//! # Order of the work, and its end
//!
//! 1. *Emptying*: the block with the fewest used bytes is emptied into the fullest blocks that have room, its largest
//!    ranges first. The next block follows, as long as the other blocks have room for all of its ranges. An empty block
//!    is freed as soon as the copies are complete. A block is tried once a cycle.
//! 2. *Compacting*: in a block with several free ranges, allocations are moved towards the beginning, the last one
//!    first. If a round moved more than [`DefragDesc::bytes_per_byte_won_max`] bytes for each byte by which the longest
//!    free range grew, it is the last round in that block.
//! 3. Both are repeated until a cycle empties no block, because a compacted block has room for larger ranges.
//!
//! [`Defrag::state`] reports if there is more to do. Each round either reduces fragmentation or is the last of its
//! block, so every run ends.
//!
//! | operation | cost |
//! |---|---|
//! | begin a run | O(1) |
//! | plan a pass | O(blocks log blocks + moves log blocks), and once for each round of a block O(r log r) for its r movable ranges |
//! | a move | that of creating the object, and one short lock; [`DefragPass::record`] records the copy |

mod arena;
mod pass;
mod run;

pub use pass::{DefragPass, Move, MoveError, MoveOutcome};
pub use run::{BeginPassError, Defrag, DefragState, DefragStatistics};

/// Limits and scope of a defragmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefragDesc {
    /// Maximum number of bytes that a pass copies. A larger range is moved in a pass of its own.
    pub bytes_per_pass_max: u64,
    /// Maximum number of moves of a pass; 0 counts as 1.
    pub moves_per_pass_max: usize,
    /// Compacting a block stops once more than this number of bytes was copied for each byte by which its longest free
    /// range grew.
    pub bytes_per_byte_won_max: u32,
    /// `true` if blocks that cannot be emptied are compacted.
    pub compacts: bool,
    /// `true` if resources that the host reads or writes ([`Location`](crate::Location) other than `Device`) are moved
    /// too. From the move until the copy is complete, the program must not write such a resource, because the copy
    /// would overwrite the new bytes.
    pub host_memory: bool,
}

impl Default for DefragDesc {
    /// At most 32 MiB and 256 moves a pass, at most 8 bytes copied for each byte won, device memory only.
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
