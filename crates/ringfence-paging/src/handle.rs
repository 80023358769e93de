//! Handles of paged resources, and the uses of a frame.
//!
//! ```text
//!   PagedTexture, PagedBuffer ──▶ Key { paging, index, serial }     dropped: a flag, and the count of dropped handles
//!   PageUses: [key, finest mip level, kind of use] …                ──▶ Paging::commit
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Identity of a paged resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Number of the `Paging`, unique in the process.
    pub(crate) paging: u64,
    /// Index of the resource.
    pub(crate) index: u32,
    /// Number of the resource; an index is used again, a serial number is not.
    pub(crate) serial: u64,
}

/// Flag that a handle sets when it is dropped. The `Paging` reads it.
#[derive(Debug)]
pub(crate) struct Alive {
    is_dropped: AtomicBool,
    /// Number of handles of this `Paging` that were dropped since the last commit.
    dropped: Arc<AtomicUsize>,
}

impl Alive {
    pub(crate) fn new(dropped: &Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self { is_dropped: AtomicBool::new(false), dropped: Arc::clone(dropped) })
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }
}

/// The part that all handles have in common. A drop allocates nothing and takes no lock.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) key: Key,
    alive: Arc<Alive>,
}

impl Handle {
    pub(crate) fn new(key: Key, alive: Arc<Alive>) -> Self {
        Self { key, alive }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.alive.is_dropped.store(true, Ordering::Release);
        self.alive.dropped.fetch_add(1, Ordering::Release);
    }
}

/// A texture of a [`Paging`](crate::Paging). After the handle is dropped, the next commit retires the texture.
pub struct PagedTexture(pub(crate) Handle);

/// A buffer of a [`Paging`](crate::Paging). After the handle is dropped, the next commit retires the buffer.
pub struct PagedBuffer(pub(crate) Handle);

mod sealed {
    pub trait Sealed {
        fn key(&self) -> super::Key;
    }
}

pub(crate) use sealed::Sealed;

/// A [`PagedTexture`] or a [`PagedBuffer`].
pub trait Paged: Sealed {}

impl Sealed for PagedTexture {
    fn key(&self) -> Key {
        self.0.key
    }
}

impl Sealed for PagedBuffer {
    fn key(&self) -> Key {
        self.0.key
    }
}

impl Paged for PagedTexture {}
impl Paged for PagedBuffer {}

/// A use of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) key: Key,
    /// The finest mip level that the frame reads.
    pub(crate) first_mip: u32,
    pub(crate) kind: UseKind,
}

/// The kind of a use, the weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum UseKind {
    /// A later frame may read the resource.
    Soon,
    Read,
    Written,
}

/// The paged resources that a frame uses. To allocate no host memory in a steady state, keep the value and clear it for
/// the next frame. A resource may be added several times.
#[derive(Default)]
pub struct PageUses(pub(crate) Vec<Use>);

impl PageUses {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Removes all uses, and keeps the host memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a resource that the frame reads; of a texture, all mip levels.
    pub fn add(&mut self, resource: &impl Paged) {
        self.0.push(Use { key: resource.key(), first_mip: 0, kind: UseKind::Read });
    }

    /// Adds a texture. The frame reads only its mip levels from `first_mip` on, so the finer levels may leave the
    /// device.
    pub fn add_mips(&mut self, texture: &PagedTexture, first_mip: u32) {
        self.0.push(Use { key: texture.0.key, first_mip, kind: UseKind::Read });
    }

    /// Adds a resource that a later frame may read. The commit treats it as one that [may be
    /// away](crate::WhenAway::MayBeAway): the commit brings it if
    /// [`bytes_per_commit_max`](crate::PagingDesc::bytes_per_commit_max) and the room on the device allow this.
    pub fn prefetch(&mut self, resource: &impl Paged) {
        self.0.push(Use { key: resource.key(), first_mip: 0, kind: UseKind::Soon });
    }

    /// Adds a resource that the frame writes; of a texture, all mip levels. If the resource is away, the commit does
    /// not postpone it, even if its [`WhenAway`](crate::WhenAway) is `MayBeAway`. The contents are copied to the host
    /// before the resource leaves the device.
    pub fn add_written(&mut self, resource: &impl Paged) {
        self.0.push(Use { key: resource.key(), first_mip: 0, kind: UseKind::Written });
    }
}

impl fmt::Debug for PagedTexture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PagedTexture({} of paging {})", self.0.key.index, self.0.key.paging)
    }
}

impl fmt::Debug for PagedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PagedBuffer({} of paging {})", self.0.key.index, self.0.key.paging)
    }
}

impl fmt::Debug for PageUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageUses({} uses)", self.0.len())
    }
}
