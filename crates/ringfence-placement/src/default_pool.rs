//! A pool of default buffers: heaps for placed buffers, or shared buffers that are divided into ranges.

use std::sync::Arc;

use ringfence_core::tlsf::Tlsf;

use super::desc::Strategy;
use super::heap_pools::HeapPools;
use super::range_pool::{PoolFigures, RangePool};
use crate::device::{BufferUsage, Device};
use ringfence_memory::extend::Shared;

/// A pool of default buffers, with the usages that it supports.
pub(super) struct DefaultPool<D: Device> {
    pub(super) usage: BufferUsage,
    pub(super) strategy: Strategy,
    pub(super) ranges: DefaultRanges<D>,
}

pub(super) enum DefaultRanges<D: Device> {
    Placed(HeapPools<D>),
    Suballocated(Arc<RangePool<D, Tlsf>>),
}

impl<D: Device> DefaultPool<D> {
    pub(super) fn each_part(&self, visit: &mut dyn FnMut(&RangePool<D, Tlsf>)) {
        match &self.ranges {
            DefaultRanges::Placed(heaps) => heaps.each_part().for_each(|part| visit(part)),
            DefaultRanges::Suballocated(ranges) => visit(ranges),
        }
    }

    pub(super) fn figures(&self) -> PoolFigures {
        let mut sum = PoolFigures::default();
        self.each_part(&mut |part| sum.add(part.figures()));
        sum
    }
}

pub(super) fn tlsf_pool<D: Device>(shared: &Shared<D>, block_bytes: u64, idle_frames: u64) -> Arc<RangePool<D, Tlsf>> {
    RangePool::new(shared, block_bytes, idle_frames, |size, _| Tlsf::new(size), 1)
}
