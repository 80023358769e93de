//! A simulated device behind an injector of faults, an allocator over it, and the check that nothing is left.

use ringfence::device::fault::{FaultInjector, Faults};
use ringfence::device::{BufferDesc, BufferUsage, MemoryProperties, Requirements, ResourceClass};
use ringfence::sim::{self, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Error};

pub type Device = FaultInjector<sim::Device>;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

pub struct World {
    pub memory: Allocator<Device>,
    pub faults: Faults,
    pub sim: sim::Device,
}

impl World {
    pub fn new(profile: Profile, desc: AllocatorDesc) -> Self {
        let sim = sim::Device::new(profile, SimOptions::default());
        let (device, faults) = FaultInjector::new(sim.clone());
        Self { memory: Allocator::over(device, desc), faults, sim }
    }

    /// A card with one heap near the device and one in host memory, of these sizes.
    pub fn card(device_bytes: u64, host_bytes: u64) -> Self {
        Self::new(card(device_bytes, host_bytes), AllocatorDesc::default())
    }

    pub fn buffer(&self, size: u64, desc: AllocationDesc<'_>) -> Result<Buffer<Device>, Error> {
        self.memory.create_buffer(&info(size), desc)
    }

    /// Everything that was made is released; nothing may be left but what is kept on purpose.
    pub fn finish(self) {
        self.memory.validate().expect("the allocator is sound");
        self.faults.clear();
        self.memory.reclaim();
        self.memory.trim();
        let total = self.memory.statistics().total();
        assert_eq!((total.range_count, total.dedicated_count), (0, 0), "left: {:?}", self.memory.snapshot());
        drop(self.memory);
        assert_eq!(self.sim.live(), sim::Live::default(), "nothing is leaked");
        assert_eq!(self.sim.hazards(), []);
    }
}

pub fn card(device_bytes: u64, host_bytes: u64) -> Profile {
    let mut profile = Profile::d3d12_tier1();
    profile.capabilities.memory_heaps[0].bytes = device_bytes;
    profile.capabilities.memory_heaps[1].bytes = host_bytes;
    profile
}

pub fn info(size: u64) -> BufferDesc {
    BufferDesc { size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST }
}

pub fn needs(size: u64, alignment: u64) -> Requirements {
    Requirements {
        size,
        alignment,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

pub fn on_device() -> AllocationDesc<'static> {
    AllocationDesc { required: MemoryProperties::DEVICE_LOCAL, ..Default::default() }
}

/// A small generator of numbers. The state is not 0.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
