//! What is to be placed, and how: a request, with the pool that it is for.

use std::sync::Arc;

use super::arena::ArenaDesc;
use super::pool_state::PoolState;
use super::request::{AllocationDesc, Request};
use crate::device::{Device, Requirements};
use crate::error::Error;

/// What is to be placed, and how.
pub(crate) struct Ask<'a, 'd, D: Device> {
    pub(crate) needs: Requirements,
    pub(crate) desc: &'a AllocationDesc<'d>,
    pub(crate) pool: Option<&'a Arc<PoolState<D>>>,
    pub(crate) high: bool,
}

impl<'a, 'd, D: Device> Ask<'a, 'd, D> {
    /// Of no pool.
    pub(crate) fn new(needs: Requirements, desc: &'a AllocationDesc<'d>) -> Self {
        Self { needs, desc, pool: None, high: false }
    }

    /// Of a pool.
    pub(crate) fn of_pool(
        pool: &'a Arc<PoolState<D>>,
        needs: Requirements,
        desc: &'a AllocationDesc<'d>,
    ) -> Result<Self, Error> {
        let ArenaDesc { memory_type, class, share, .. } = pool.arena.desc;
        if desc.share.is_some() && desc.share != share {
            return Err(Error::WrongShare { wanted: desc.share, pool: share });
        }
        if needs.memory_type_bits >> memory_type & 1 == 0 {
            return Err(Error::WrongMemoryType { memory_type, memory_type_bits: needs.memory_type_bits });
        }
        if !pool.arena.desc.holds(needs.class) {
            return Err(Error::WrongClass { class: needs.class, block_class: class });
        }
        Ok(Self { needs, desc, pool: Some(pool), high: desc.from_the_end })
    }

    pub(crate) fn request(&self, size: u64, alignment: u64) -> Request<'_> {
        Request { high: self.high, ..Request::of(self.desc, size, alignment) }
    }
}
