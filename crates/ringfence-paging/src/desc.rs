//! Descriptions: of the paging of an allocator, and of a paged resource.

use ringfence_hal::Priority;

/// Description of a [`Paging`](crate::Paging).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagingDesc {
    /// Maximum number of bytes of paged resources on the device. The budget of the memory heap is a limit too. Default:
    /// no limit of its own.
    pub device_bytes_max: u64,
    /// Bytes of the heap's budget that paged resources leave free: for the program's other allocations, and for free
    /// ranges between resources. Default: 32 MiB.
    pub reserve_bytes: u64,
    /// Maximum number of bytes that a commit copies to the device for resources that [may be
    /// away](WhenAway::MayBeAway). At least one resource is copied. Default: 32 MiB.
    pub bytes_per_commit_max: u64,
    /// Maximum number of bytes that a commit copies to the host, for resources that the device has written. Default:
    /// 16 MiB.
    pub write_back_bytes_max: u64,
    /// `true` if [`Paging::move_resource`](crate::Paging::move_resource) may move resources between blocks, so that blocks
    /// become empty. Such resources are created anew each time that they come back; others are recycled. Default: `false`.
    pub movable: bool,
}

impl Default for PagingDesc {
    fn default() -> Self {
        Self {
            device_bytes_max: u64::MAX,
            reserve_bytes: 32 << 20,
            bytes_per_commit_max: 32 << 20,
            write_back_bytes_max: 16 << 20,
            movable: false,
        }
    }
}

/// Description of a paged resource.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageDesc<'a> {
    /// Name of the resource: for errors, traces and debuggers.
    pub name: &'a str,
    /// Resources of a lower priority leave the device first.
    pub priority: Priority,
    /// What happens if a commit uses the resource while it is away.
    pub when_away: WhenAway,
    /// A number of the program, which [`Paging::take_changed`](crate::Paging::take_changed) returns.
    pub user_data: u64,
}

/// What happens if a commit uses a resource while it is away.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum WhenAway {
    /// The commit brings it back before the frame's work, however many bytes that copies.
    #[default]
    BringBack,
    /// The commit brings it back, or if the device has no room, places it in host memory, from which the device reads it
    /// more slowly. A later commit moves it. If the device cannot use such resources in host memory: as `BringBack`.
    UseFromHost,
    /// The commit brings it back if the [bytes of a commit](PagingDesc::bytes_per_commit_max) and the room on the device
    /// allow; of a texture, the finest mip levels that have room. Until then, [`Paging::texture`](crate::Paging::texture) returns fewer mip levels or `None`.
    MayBeAway {
        /// Number of mip levels of a texture that stay on the device, the smallest ones; 0 for none. Not used for
        /// buffers.
        kept_mips: u32,
    },
}
