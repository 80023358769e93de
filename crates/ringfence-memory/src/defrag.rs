//! Incremental defragmentation: moves allocations together, so that empty blocks can be freed.
//!
//! ```text
//!   run = memory.defragment(desc)                     or Defrag::of_pool(&pool, desc)
//!   once a frame, or when there is time:
//!     frame = timeline.begin()
//!     pass = run.begin_pass(&frame)                   plans; room for each move is allocated
//!     for each of pass.moves():                       the program knows whose it is by its user data
//!       pass.copy_buffer(&mut buffer)                 the buffer *is* in its new place from here on; or copy_texture
//!       pass.ignore(move)  or  drop(buffer)           it stays; it goes
//!     pass.record(recorder)                           old ─▶ new, in the frame's command list
//!     drop(pass); submit; timeline.submitted(frame)
//!   memory.reclaim()                                  the old places come free once the device is past the frame
//! ```
//!
//! # What is moved
//!
//! Only what was made [`movable`](crate::AllocationDesc::movable) is moved, and only by its owner: a move needs `&mut`
//! of the [`Buffer`](crate::Buffer), [`Texture`](crate::Texture) or [`Allocation`](crate::Allocation). So no other code
//! uses the value while it is moved, and a value that was dropped meanwhile is not moved. The value stays valid, but
//! its driver object is a new one: the program makes views, descriptors and addresses of it again.
//!
//! Not moved are: what is not movable or is [pinned](crate::Resource::set_pinned); what the host reads or writes,
//! unless [`DefragDesc::host_memory`] says so; ranges that several resources share; dedicated memory; pools with an
//! order of their own ([`Algorithm::Linear`](ringfence_core::algorithm::Algorithm::Linear)).
//!
//! # Beside others
//!
//! Any thread may allocate and free meanwhile. The new place of a move is a real allocation from the moment it is
//! planned. If the old range is dropped while its move is open, the move is not made, and the new place is freed when
//! the pass ends.
//!
//! # What is done, and when it stops
//!
//! 1. *Emptying*: the block in which the least is used is emptied into the fullest that have room, the largest ranges
//!    first; then the next, as long as the others have room for all of it. An empty block is freed as soon as the
//!    copies are complete. A block is tried once a cycle.
//! 2. *Compacting*: in a block whose free bytes lie apart, ranges move towards the beginning, the last first. A round
//!    that has moved more than [`DefragDesc::bytes_per_byte_won_max`] bytes for each byte by which the longest hole has
//!    grown is the last one there.
//! 3. Both again, as blocks with one large hole take in what they could not before, until a cycle empties no block
//!    more.
//!
//! [`Defrag::state`] says whether there is more to do. Every round either reduces fragmentation or is the last of its
//! block, so that every run ends.
//!
//! | operation | cost |
//! |---|---|
//! | begin a run | O(1) |
//! | plan a pass | O(blocks log blocks + moves log blocks); once a block and round also O(its movable ranges × log) |
//! | a move | that of making the object, one short lock; the copy is recorded by [`DefragPass::record`] |

mod arena;
mod pass;
mod run;

pub use pass::{DefragPass, Move, MoveError, MoveOutcome};
pub use run::{BeginPassError, Defrag, DefragState, DefragStatistics};

/// How a defragmentation goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefragDesc {
    /// The most bytes that a pass copies. A larger range is moved in a pass of its own.
    pub bytes_per_pass_max: u64,
    /// The most moves of a pass; 0 counts as 1.
    pub moves_per_pass_max: usize,
    /// A block is not compacted further once more bytes than this were copied for each byte by which its longest hole
    /// grew.
    pub bytes_per_byte_won_max: u32,
    /// Whether blocks are compacted that cannot be emptied.
    pub compacts: bool,
    /// Whether resources that the host reads or writes are moved too ([`Location`](crate::Location) other than
    /// `Device`). The program must not write such a resource from the move until the copy is complete: the copy would
    /// overwrite the new bytes.
    pub host_memory: bool,
}

impl Default for DefragDesc {
    /// 32 MiB and 256 moves a pass, at most 8 bytes copied for a byte won, device memory alone.
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
