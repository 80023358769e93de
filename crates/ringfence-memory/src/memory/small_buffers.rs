//! The driver's buffers that small buffers share, by usage class.

use std::sync::Arc;

use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksDesc};
use ringfence_core::range::Invalid;
use ringfence_core::tlsf::Tlsf;
use ringfence_decision::Location;

use super::place::{SharedBuffer, SharedBuffers};
use crate::device::lock::Lock;
use crate::device::{BufferUsage, Device};

pub(crate) const SHARED_BYTES: u64 = 1 << 20;
/// Usages for copies, and usages with which shaders only read a buffer.
const READ_ONLY: BufferUsage = BufferUsage::COPY_SRC
    .union(BufferUsage::COPY_DST)
    .union(BufferUsage::VERTEX)
    .union(BufferUsage::INDEX)
    .union(BufferUsage::CONSTANT)
    .union(BufferUsage::INDIRECT)
    .union(BufferUsage::TEXELS)
    .union(BufferUsage::STORAGE_READ);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct UsageClass {
    pub(crate) location: Location,
    is_written: bool,
    has_address: bool,
}

impl UsageClass {
    const COUNT: usize = Location::ALL.len() * 4;

    pub(crate) fn of(usage: BufferUsage, location: Location) -> Self {
        let is_written = usage.contains(BufferUsage::STORAGE);
        Self { location, is_written, has_address: usage.contains(BufferUsage::DEVICE_ADDRESS) }
    }

    pub(crate) fn index(self) -> usize {
        self.location as usize * 4 + usize::from(self.is_written) * 2 + usize::from(self.has_address)
    }

    /// Returns the usage of the driver's buffer: each usage that a buffer of the class may have.
    pub(crate) fn usage(self) -> BufferUsage {
        let mut usage = READ_ONLY;
        if self.is_written {
            usage |= BufferUsage::STORAGE;
        }
        if self.has_address { usage | BufferUsage::DEVICE_ADDRESS } else { usage }
    }
}

pub(crate) struct SmallState<D: Device> {
    pub(crate) blocks: Lock<Blocks<Tlsf, Arc<SharedBuffer<D>>>>,
    pub(crate) growth: Lock<()>,
}

pub(crate) struct SmallBuffers<D: Device>([Arc<SmallState<D>>; UsageClass::COUNT]);

impl<D: Device> SmallBuffers<D> {
    pub(crate) fn new() -> Self {
        let desc = BlocksDesc { basic_size: SHARED_BYTES, ..Default::default() };
        let state = || SmallState { blocks: Lock::new(Blocks::new(desc)), growth: Lock::new(()) };
        Self(std::array::from_fn(|_| Arc::new(state())))
    }

    pub(crate) fn of(&self, class: UsageClass) -> &Arc<SmallState<D>> {
        &self.0[class.index()]
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Arc<SmallState<D>>> {
        self.0.iter()
    }

    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.0.iter().try_for_each(|state| state.blocks.lock().validate())
    }
}

impl<D: Device> SmallState<D> {
    pub(crate) fn allocate(&self, size: u64, alignment: u64) -> Option<(Arc<SharedBuffer<D>>, BlockAllocation)> {
        let mut blocks = self.blocks.lock();
        let allocation = blocks.try_allocate(size, alignment).ok()?;
        let (buffer, _) = blocks.get(allocation.block())?;
        Some((Arc::clone(buffer), allocation))
    }
}

impl<D: Device> SharedBuffers<D> for SmallState<D> {
    fn free(&self, allocation: BlockAllocation) -> Option<Arc<SharedBuffer<D>>> {
        let mut blocks = self.blocks.lock();
        blocks.free(&allocation).expect("a small buffer's range is live until it is freed");
        if blocks.empty_count() > 1 { blocks.take_empty().map(|(_, buffer)| buffer) } else { None }
    }
}
