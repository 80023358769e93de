//! The allocators of the policy, shared by all its handles.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::device::lock::SharedLock;
use ringfence_core::buddy::Buddy;
use ringfence_core::tlsf::Tlsf;

use super::default_pool::DefaultPool;
use super::desc::PlacementDesc;
use super::fast_constants::FastConstants;
use super::heap_pools::HeapPools;
use super::range_pool::RangePool;
use crate::device::Device;
use ringfence_memory::Allocator;
use ringfence_memory::extend::Shared;

pub(super) struct Inner<D: Device> {
    pub(super) memory: Allocator<D>,
    pub(super) desc: PlacementDesc,
    pub(super) upload_small: Arc<RangePool<D, Buddy>>,
    pub(super) upload_big: Arc<RangePool<D, Tlsf>>,
    pub(super) fast: FastConstants<D>,
    /// Pools of default buffers, in the order of creation.
    pub(super) default_buffers: SharedLock<Vec<Arc<DefaultPool<D>>>>,
    /// Pools of textures, indexed by [`TextureKind`](super::TextureKind).
    pub(super) textures: [HeapPools<D>; 4],
    pub(super) frame: AtomicU64,
    /// The line of the program that created the policy.
    pub(super) at: &'static panic::Location<'static>,
}

impl<D: Device> Inner<D> {
    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        self.memory.shared()
    }
}

impl<D: Device> Drop for Inner<D> {
    /// Closes the pools. A block is destroyed at the allocator's next `reclaim`, or after its last range is freed.
    fn drop(&mut self) {
        self.upload_small.close();
        self.upload_big.close();
        self.textures.iter().flat_map(HeapPools::each_part).for_each(|part| part.close());
        let pools = self.default_buffers.get_mut();
        pools.iter().for_each(|pool| pool.each_part(&mut |part| part.close()));
    }
}
