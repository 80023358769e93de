//! Descriptions of a `Paging` and of a paged resource.

use ringfence_hal::Priority;

/// Description of a [`Paging`](crate::Paging).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagingDesc {
    /// Maximum number of bytes of paged resources on the device. The budget of the memory heap is a limit too. Default:
    /// `u64::MAX`, so that only the budget is a limit.
    pub device_bytes_max: u64,
    /// Bytes of the heap's budget that paged resources leave free: for the program's other allocations, and for free
    /// ranges between resources. Default: 32 MiB.
    pub reserve_bytes: u64,
    /// Limit of the bytes that a commit copies to the device, for resources that can wait: those that [may be
    /// away](WhenAway::MayBeAway), are prefetched, or are in host memory. If such a resource would exceed the limit, it
    /// waits for a later commit, unless it is the first one of the commit. Mip levels that stay on the device have a
    /// separate limit of the same size. Default: 32 MiB.
    pub bytes_per_commit_max: u64,
    /// Maximum number of bytes that a commit copies to the host, for resources that the device has written. The first
    /// resource of a commit may exceed this number. Default: 16 MiB.
    pub write_back_bytes_max: u64,
    /// `true` if [`Paging::move_resource`](crate::Paging::move_resource) may move resources between blocks, so that
    /// blocks become empty. Movable resources are not recycled: they are created anew each time that they come back.
    /// Default: `false`.
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
    /// Priority of the resource: resources of a lower priority leave the device first.
    pub priority: Priority,
    /// Behaviour of a commit that uses the resource while it is away. On Direct3D 12, always [`WhenAway::BringBack`].
    pub when_away: WhenAway,
    /// A number of the program, which [`Paging::take_changed`](crate::Paging::take_changed) returns.
    pub user_data: u64,
}

/// Behaviour of a commit that uses a resource while it is away (not on the device).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum WhenAway {
    /// The commit brings the resource back before the frame's work, regardless of the number of bytes. If the device
    /// has no room, the commit fails.
    #[default]
    BringBack,
    /// The commit brings the resource back. If the device has no room, the commit places the resource in host memory,
    /// from which the device reads it more slowly. A later commit moves it to the device. If the device cannot use the
    /// resource from host memory, the commit does the same as with `BringBack`.
    UseFromHost,
    /// The commit brings the resource back if the [bytes of a commit](PagingDesc::bytes_per_commit_max) and the room on
    /// the device allow it. If a texture has no room for all used mip levels, the commit brings the finest levels that
    /// have room. Until all used levels are on the device, [`Paging::texture`](crate::Paging::texture) returns fewer
    /// mip levels or `None`.
    MayBeAway {
        /// Number of mip levels of a texture, the smallest ones, that stay on the device when the texture leaves. 0
        /// keeps no level. Not used for buffers.
        kept_mips: u32,
    },
}
