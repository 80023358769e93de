//! A simulated device behind a fault injector, an allocator over it, and the check that nothing is leaked.

use ringfence::device::fault::FaultInjector;
use ringfence::device::{BufferDesc, BufferUsage, MemoryProperties, Requirements, ResourceClass};
use ringfence::sim::{self, Profile};
use ringfence::{AllocationDesc, AllocatorDesc};
use ringfence_testkit::fixture::{FaultyFixture, FixtureDesc};

pub type Device = FaultInjector<sim::Device>;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// Creates a device of this profile behind a fault injector.
pub fn world(profile: Profile, allocator: AllocatorDesc) -> FaultyFixture {
    FaultyFixture::faulty(FixtureDesc { profile, allocator, timelines: 0, ..Default::default() })
}

/// Creates a card with one heap of device memory and one of host memory, of these sizes.
pub fn on_card(device_bytes: u64, host_bytes: u64) -> FaultyFixture {
    world(card(device_bytes, host_bytes), AllocatorDesc::default())
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

/// A small random number generator. The state must not be 0.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
