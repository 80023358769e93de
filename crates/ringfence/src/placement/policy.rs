//! The policy itself: takes a request, finds the allocator that serves it, and cleans up at the end of a frame.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use ringfence_core::buddy::Buddy;
use ringfence_core::tlsf::Tlsf;

use super::aliased::AliasedHeap;
use super::buffers::{DefaultPool, UPLOAD_USAGE, tlsf_pool};
use super::desc::PlacementDesc;
use super::heap_pools::HeapPools;
use super::range_pool::{PoolFigures, RangePool};
use crate::device::{Device, DeviceError, TextureDesc};
use crate::upload::{Cleaning, FastConstants, FastConstantsDesc};
use ringfence_memory::Allocator;
use ringfence_memory::Error;
use ringfence_memory::extend::Shared;
use ringfence_memory::memory::Reclaimed;

/// Where resources go, as an engine does it. See the [module](super).
///
/// Cheap to clone; every clone is the same policy. All methods may be called from any thread.
pub struct Placement<D: Device> {
    pub(super) inner: Arc<Inner<D>>,
}

pub(super) struct Inner<D: Device> {
    pub(super) memory: Allocator<D>,
    pub(super) desc: PlacementDesc,
    pub(super) upload_small: Arc<RangePool<D, Buddy>>,
    pub(super) upload_big: Arc<RangePool<D, Tlsf>>,
    pub(super) fast: FastConstants<D>,
    /// In the order of their making.
    pub(super) default_buffers: RwLock<Vec<Arc<DefaultPool<D>>>>,
    /// By [`TextureKind`](super::TextureKind).
    pub(super) textures: [HeapPools<D>; 4],
    frame: AtomicU64,
}

/// Use of each allocator of the policy.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlacementFigures {
    /// Buddies of small uploads.
    pub upload_small: PoolFigures,
    /// Blocks of big uploads.
    pub upload_big: PoolFigures,
    /// Buddies of fast pages.
    pub fast_pages: PoolFigures,
    /// Pools of default buffers, in the order of their making.
    pub default_buffers: Vec<PoolFigures>,
    /// Texture pools, by [`TextureKind`](super::TextureKind).
    pub textures: [PoolFigures; 4],
}

impl<D: Device> Placement<D> {
    /// The policy over an allocator. Takes no memory yet.
    ///
    /// # Errors
    /// [`DeviceError::InvalidInfo`] with the rule of the description that does not hold.
    pub fn new(memory: &Allocator<D>, desc: PlacementDesc) -> Result<Self, Error> {
        if let Some(rule) = desc.broken_rule() {
            return Err(DeviceError::InvalidInfo(rule).into());
        }
        let shared = memory.shared();
        let buddy = |block_bytes, granule| {
            let pool = Arc::new(RangePool::new(block_bytes, desc.idle_frames, Buddy::new, granule));
            shared.add_pool(Arc::<RangePool<D, Buddy>>::clone(&pool));
            pool
        };
        let fast = FastConstantsDesc {
            page_bytes: desc.fast_page_bytes,
            buddy_bytes: desc.fast_block_bytes,
            pages_max: u32::MAX,
            usage: UPLOAD_USAGE,
            shrink_after: u32::try_from(desc.idle_frames).unwrap_or(u32::MAX),
            ..Default::default()
        };
        let names = ["small textures", "textures", "render targets", "storage textures"];
        let textures = names.map(|name| HeapPools::new(shared, name, desc.texture_block_bytes, desc.idle_frames));
        let inner = Inner {
            memory: memory.clone(),
            upload_small: buddy(desc.small_block_bytes, desc.small_granule_bytes),
            upload_big: tlsf_pool(shared, desc.big_block_bytes, desc.idle_frames),
            fast: FastConstants::with_cleaning(memory, fast, Cleaning::Others),
            default_buffers: RwLock::new(Vec::new()),
            textures,
            frame: AtomicU64::new(0),
            desc,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The allocator underneath.
    #[must_use]
    pub fn memory(&self) -> &Allocator<D> {
        &self.inner.memory
    }

    /// How it is set up.
    #[must_use]
    pub fn desc(&self) -> &PlacementDesc {
        &self.inner.desc
    }

    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        self.inner.memory.shared()
    }

    /// Memory that textures share in turns: as many bytes as asked for, of the memory type that suits textures like
    /// `like` best.
    ///
    /// # Errors
    /// The driver refuses the description, or has not got the memory.
    pub fn aliased_heap(&self, like: &TextureDesc, bytes: u64, name: &str) -> Result<AliasedHeap<D>, Error> {
        AliasedHeap::new(self.shared(), like, bytes, name)
    }

    /// The end of a frame: destroys and gives back what the submitted work of all queues is done
    /// with, and then destroys the blocks of the upload, texture and default-buffer allocators that were empty for long
    /// enough. Waits for nothing.
    pub fn end_frame(&self) -> Reclaimed {
        let (inner, shared) = (&*self.inner, self.shared());
        let mut reclaimed = shared.reclaim(inner.desc.reclaim_objects_max);
        let frame = inner.frame.fetch_add(1, Ordering::Relaxed) + 1;
        let mut idle = 0;
        let mut destroy = |backing| {
            shared.free_backing(backing);
            idle += 1;
        };
        std::iter::from_fn(|| inner.upload_small.take_idle(frame)).for_each(&mut destroy);
        std::iter::from_fn(|| inner.upload_big.take_idle(frame)).for_each(&mut destroy);
        std::iter::from_fn(|| inner.fast.take_idle(frame)).for_each(&mut destroy);
        let parts = inner.textures.iter().flat_map(HeapPools::each_part);
        parts.for_each(|part| std::iter::from_fn(|| part.take_idle(frame)).for_each(&mut destroy));
        let count = inner.default_buffers.read().len();
        for index in 0..count {
            // Not across the driver's calls: a new pool needs the lock.
            let pool = Arc::clone(&inner.default_buffers.read()[index]);
            pool.each_part(&mut |part| std::iter::from_fn(|| part.take_idle(frame)).for_each(&mut destroy));
        }
        reclaimed.blocks += idle;
        reclaimed
    }

    /// Use of each allocator. O(blocks).
    #[must_use]
    pub fn figures(&self) -> PlacementFigures {
        let inner = &*self.inner;
        let default_buffers = inner.default_buffers.read().iter().map(|pool| pool.figures()).collect();
        PlacementFigures {
            upload_small: inner.upload_small.figures(),
            upload_big: inner.upload_big.figures(),
            fast_pages: inner.fast.pool_figures(),
            default_buffers,
            textures: std::array::from_fn(|kind| inner.textures[kind].figures()),
        }
    }
}

impl<D: Device> Drop for Inner<D> {
    /// Blocks go with the allocator's next reclaim, or once their last range has come back.
    fn drop(&mut self) {
        self.upload_small.close();
        self.upload_big.close();
        self.textures.iter().flat_map(HeapPools::each_part).for_each(|part| part.close());
        let pools = self.default_buffers.get_mut();
        pools.iter().for_each(|pool| pool.each_part(&mut |part| part.close()));
    }
}

impl<D: Device> Clone for Placement<D> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<D: Device> fmt::Debug for Placement<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement").field("desc", &self.inner.desc).finish_non_exhaustive()
    }
}

/// Whether memory of its own may still be had.
pub(super) fn is_out_of_memory(error: &Error) -> bool {
    match error {
        Error::OutOfMemory { .. } => true,
        Error::Device(error) => error.is_out_of_memory(),
        _ => false,
    }
}
