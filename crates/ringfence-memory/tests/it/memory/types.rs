//! The choice of memory types by location, by properties and by mask; writes to memory that is not coherent.

use std::time::Duration;

use ringfence::device::MemoryProperties as P;
use ringfence::memory::Error;
use ringfence::sim::{Command, Profile};
use ringfence::{AllocationDesc, AllocatorDesc, Location};
use ringfence_testkit::fixture::{FaultyFixture, FixtureDesc};

use crate::memory::world::{KIB, needs, on_card, world};

fn chosen(profile: Profile, desc: AllocationDesc<'_>) -> Option<P> {
    let world = world(profile.clone(), AllocatorDesc::default());
    let index = world.memory.plan().memory_type(profile.buffer_types, desc)?;
    Some(profile.capabilities.properties(index))
}

fn at(location: Location) -> AllocationDesc<'static> {
    AllocationDesc { location, ..Default::default() }
}

#[test]
fn readback_is_never_in_uncached_memory_where_there_is_cached() {
    for profile in Profile::all() {
        assert!(chosen(profile, at(Location::Readback)).expect("a type").contains(P::HOST_CACHED));
    }
}

#[test]
fn unified_memory_is_seen_as_one() {
    for location in Location::ALL {
        let all = P::DEVICE_LOCAL | P::HOST_VISIBLE | P::HOST_COHERENT | P::HOST_CACHED;
        assert_eq!(chosen(Profile::lavapipe(), at(location)), Some(all));
    }
}

#[test]
fn properties_that_are_asked_for_decide() {
    let visible = AllocationDesc { required: P::HOST_VISIBLE | P::DEVICE_LOCAL, ..Default::default() };
    assert_eq!(chosen(Profile::h200(), visible), Some(P::DEVICE_LOCAL | P::HOST_VISIBLE | P::HOST_COHERENT));
    assert_eq!(chosen(Profile::d3d12_tier1(), visible), None, "there is no such memory");
    let preferred = AllocationDesc { preferred: P::HOST_CACHED, location: Location::Upload, ..Default::default() };
    assert!(chosen(Profile::h200(), preferred).expect("a type").contains(P::HOST_CACHED));
    let masked = AllocationDesc { memory_types: 1 << 3, location: Location::Upload, ..Default::default() };
    assert!(chosen(Profile::h200(), masked).expect("a type").contains(P::HOST_CACHED));
}

#[test]
fn lazily_allocated_and_protected_memory_is_used_by_name_only() {
    let profile = Profile::non_coherent();
    let bits = u32::MAX;
    let world = world(profile.clone(), AllocatorDesc::default());
    let plain = world.memory.plan().memory_type(bits, AllocationDesc::default()).expect("a type");
    assert_eq!(profile.capabilities.properties(plain), P::DEVICE_LOCAL);
    for special in [P::LAZILY_ALLOCATED, P::PROTECTED] {
        let desc = AllocationDesc { required: special, ..Default::default() };
        let index = world.memory.plan().memory_type(bits, desc).expect("a type");
        assert!(profile.capabilities.properties(index).contains(special));
    }
}

#[test]
fn bad_requests_are_typed_errors_with_the_numbers() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let ask = |needs| world.memory.allocate(needs, AllocationDesc::default()).err();
    assert_eq!(ask(needs(0, 4)), Some(Error::ZeroSize));
    for alignment in [0, 3, 96] {
        assert_eq!(ask(needs(KIB, alignment)), Some(Error::BadAlignment { alignment }));
    }
    let nowhere = ringfence::device::Requirements { memory_type_bits: 0, ..needs(KIB, 4) };
    assert_eq!(ask(nowhere), Some(Error::NoMemoryType { location: Location::Device, memory_type_bits: 0 }));
    let max = world.device.profile().capabilities.memory_object_bytes_max;
    assert_eq!(ask(needs(max + 1, 4)), Some(Error::TooLarge { size: max + 1, max }));
    let unknown = ringfence::device::Requirements { memory_type_bits: 1 << 31, ..needs(KIB, 4) };
    assert!(matches!(ask(unknown), Some(Error::NoMemoryType { .. })));
    assert_eq!(world.device.calls().allocate_memory, 0, "the driver was never called");
    world.finish();
    let small = on_card(1 << 30, 2 << 30);
    let beyond = small.memory.allocate(needs(3 << 30, 4), AllocationDesc::default()).err();
    assert_eq!(beyond, Some(Error::TooLarge { size: 3 << 30, max: 2 << 30 }), "above every heap");
    small.finish();
}

/// A flush covers whole atoms, but does not overwrite bytes that the device has written beside those of the host.
#[test]
fn what_the_device_wrote_beside_a_write_of_the_host_stays() {
    let fixture = FixtureDesc { profile: Profile::non_coherent(), ..Default::default() };
    let world = FaultyFixture::faulty(fixture);
    for location in [Location::Upload, Location::Readback, Location::DeviceUpload] {
        for (size, offset, count) in [(256, 128, 1), (1000, 0, 3), (1000, 999, 1), (1000, 60, 400), (100, 64, 36)] {
            let desc = AllocationDesc { location, ..Default::default() };
            let mut buffer = world.buffer(size, desc).expect("room");
            buffer.write(0, &vec![7; size as usize]).expect("mapped");
            let fill = Command::FillBuffer { dst: *buffer.object(), offset: 0, size, value: 0x55 };
            let value = world.submit(vec![fill]);
            assert_eq!(world.timeline().wait(value, Duration::MAX), Ok(true));
            buffer.write(offset, &vec![9; count]).expect("inside");
            let (mut seen, wrote) = (vec![0; size as usize], offset as usize..offset as usize + count);
            buffer.read(0, &mut seen).expect("mapped");
            let expected: Vec<_> = (0..size as usize).map(|at| if wrote.contains(&at) { 9 } else { 0x55 }).collect();
            assert_eq!(seen, expected, "{location:?}, {wrote:?} of {size}");
            buffer.write(0, &[]).expect("nothing");
        }
    }
    world.finish();
}
