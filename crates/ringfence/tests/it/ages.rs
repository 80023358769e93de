//! Ages are counted in the program's calls of `reclaim`, one per frame. Reclaims that a shortage of memory causes
//! within a frame do not count.

use std::time::Duration;

use ringfence::descriptor::{CpuDescriptorHeap, CpuHeapDesc};
use ringfence::device::{MemoryProperties, Requirements, ResourceClass};
use ringfence::placement::FastConstantsDesc;
use ringfence::sim::Profile;
use ringfence::upload::{ConstantsDesc, UploadDesc, WhenFull};
use ringfence::{AllocationDesc, AllocatorDesc, ConstantBuffers, FastConstants, UploadRing};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

const MIB: u64 = 1 << 20;
const GRACE: u32 = 3;

/// Device memory that is large enough for one of these requests, but not for two.
const MOST: Requirements = Requirements {
    size: 48 * MIB,
    alignment: 256,
    memory_type_bits: u32::MAX,
    class: ResourceClass::Buffer,
    prefers_dedicated: false,
    requires_dedicated: false,
};

#[test]
fn a_shortage_is_no_frame_in_the_life_of_what_is_not_used() {
    let mut profile = Profile::d3d12_tier1();
    profile.capabilities.memory_heaps[0].bytes = 64 * MIB;
    let world = Fixture::new(FixtureDesc { profile, allocator: AllocatorDesc::default(), ..Default::default() });
    let memory = &world.memory;

    let when_full = WhenFull::Grow { capacity_max: 64 << 10, timeout: Duration::MAX, shrink_after: GRACE };
    let ring = UploadRing::new(memory, UploadDesc { capacity: 8 << 10, when_full, ..Default::default() });
    let ring = ring.expect("there is room");
    let constants = ConstantsDesc { static_slots: 4, shrink_after: GRACE, ..Default::default() };
    let constants = ConstantBuffers::new(memory, constants, ()).expect("there is room");
    let fast = FastConstants::new(memory, FastConstantsDesc { shrink_after: GRACE, ..Default::default() });
    let views = CpuHeapDesc { empty_blocks_kept: 0, empty_block_grace: GRACE.into(), ..Default::default() };
    let views = CpuDescriptorHeap::new(memory, views).expect("small");

    let frame = world.timeline().begin();
    let mut writer = ring.writer(&frame).expect("its own");
    (0..6).for_each(|_| _ = writer.write(&[1; 8 << 10], 256).expect("the ring grows"));
    fast.writer(&frame).expect("its own").write(&[1; 64]).expect("there is room");
    let (fixed, view) = (constants.create_static(&[1; 64]), views.allocate(100));
    drop((writer, fixed.expect("there is room"), view.expect("there is room")));
    world.submit_frame(frame, vec![]);
    assert!(world.device.run_until_idle());
    // All submissions are complete, and no resource is in use.
    memory.reclaim();
    let figures = || {
        let heaps = memory.snapshot().descriptors.iter().map(|region| region.heap_count).sum::<u64>();
        (ring.capacity(), constants.static_pool_count(), fast.snapshot().capacity_bytes, heaps)
    };
    let before = figures();
    assert!(before.0 > 8 << 10 && before.1 == 1 && before.2 > 0 && before.3 == 1, "{before:?}");

    let on_device = AllocationDesc { required: MemoryProperties::DEVICE_LOCAL, ..Default::default() };
    let _most = memory.allocate(MOST, on_device).expect("there is room");
    (0..20).for_each(|_| assert!(memory.allocate(MOST, on_device).is_err(), "there is no room for two"));
    assert_eq!(figures(), before, "no frame has passed");

    (0..20).for_each(|_| _ = memory.reclaim());
    let after = figures();
    assert!(after.0 < before.0 && (after.1, after.2, after.3) == (0, 0, 0), "{after:?}");
}
