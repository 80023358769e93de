//! Memory without a resource, and resources that share memory.

use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, Requirements, ResourceClass, TextureDesc, TextureUsage,
};
use ringfence::memory::{AccessError, Error};
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location};

use ringfence_testkit::fixture::FaultyFixture;

use crate::memory::world::{KIB, MIB, info, needs};

fn world(profile: Profile) -> FaultyFixture {
    crate::memory::world::world(profile, AllocatorDesc::default())
}

#[test]
fn resources_share_bytes_and_the_last_gives_them_back() {
    let world = world(Profile::h200());
    let mut memory = world.memory.allocate(needs(MIB, 64 * KIB), AllocationDesc::default()).expect("room");
    let first = memory.create_aliasing_buffer(&info(512 * KIB), 0, "first").expect("it fits");
    let second = memory.create_aliasing_buffer(&info(512 * KIB), 256 * KIB, "second").expect("it fits");
    assert_eq!(second.offset() - first.offset(), 256 * KIB);
    assert_eq!(world.device.hazards(), [], "the overlap is meant");
    drop((memory, first));
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().total().range_count, 1, "the second one still uses it");
    drop(second);
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().total().range_count, 0);
    world.finish();
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers() {
    let world = world(Profile::h200());
    let mut memory = world.memory.allocate(needs(4 * KIB, 4 * KIB), AllocationDesc::default()).expect("room");
    let refused = |offset, size| Error::DoesNotFit { offset, size, alignment: 256, allocation_size: 4 * KIB };
    assert_eq!(memory.create_aliasing_buffer(&info(4 * KIB), 256, "").err(), Some(refused(256, 4 * KIB)));
    assert_eq!(memory.create_aliasing_buffer(&info(256), 100, "").err(), Some(refused(100, 256)));
    assert_eq!(memory.create_aliasing_buffer(&info(256), u64::MAX - 255, "").err(), Some(refused(u64::MAX - 255, 256)));
    let texture = TextureDesc::default();
    let wrong = Error::WrongClass { class: ResourceClass::Texture, block_class: ResourceClass::Buffer };
    assert_eq!(memory.create_aliasing_texture(&texture, 0, "").err(), Some(wrong));
    drop(memory);
    world.finish();
}

#[test]
fn mixed_memory_keeps_its_distance_and_tier_1_has_none() {
    for profile in [Profile::h200(), Profile::non_coherent(), Profile::lavapipe()] {
        let world = world(profile);
        let buffer = world.buffer(300, AllocationDesc::default()).expect("room");
        let bits = world.device.profile().texture_types;
        let mixed = Requirements { memory_type_bits: bits, ..needs(20_000, 256) };
        let mut memory = world.memory.allocate_mixed(mixed, AllocationDesc::default()).expect("room");
        let neighbour = world.buffer(300, AllocationDesc::default()).expect("room");
        let usage = TextureUsage::COPY_DST;
        let desc = TextureDesc { width: 16, height: 16, usage, ..Default::default() };
        let texture = desc;
        let texture = memory.create_aliasing_texture(&texture, 0, "texture").expect("every class may");
        let other = memory.create_aliasing_buffer(&info(256), 0, "buffer").expect("every class may");
        assert_eq!(world.device.hazards(), [], "no resources are too close");
        drop((buffer, memory, neighbour, texture, other));
        world.finish();
    }
    let tier_1 = world(Profile::d3d12_tier1());
    let refused = tier_1.memory.allocate_mixed(needs(KIB, 4), AllocationDesc::default());
    assert_eq!(refused.err(), Some(Error::MixedClasses { class_groups: [0, 1, 2] }));
    tier_1.finish();
}

#[test]
fn the_host_reaches_shared_bytes_through_the_allocation_alone() {
    let world = world(Profile::non_coherent());
    let upload = AllocationDesc { location: Location::Upload, user_data: 7, ..Default::default() };
    let mut memory = world.memory.allocate(needs(1000, 4), upload).expect("room");
    assert_eq!(memory.user_data(), 7);
    assert!(memory.mapped().is_some());
    memory.write(10, &[1, 2, 3]).expect("inside");
    let beyond = AccessError::OutOfRange { offset: 999, size: 2, resource_size: 1000 };
    assert_eq!(memory.write(999, &[0; 2]), Err(beyond));
    let mut buffer = memory.create_aliasing_buffer(&info(256), 0, "").expect("it fits");
    assert_eq!(buffer.write(0, &[1]), Err(AccessError::NotMapped));
    drop((memory, buffer));
    world.finish();
}

#[test]
fn memory_for_a_resource_that_the_program_places() {
    let world = world(Profile::h200());
    let device = world.memory.device();
    // SAFETY: the description is valid.
    let (raw, needs) = unsafe { Create::<Buffers>::prepare(device, &info(KIB)) }.expect("a plain buffer");
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    // SAFETY: the buffer was just measured, and no other call places it.
    let memory = unsafe { world.memory.allocate_for::<Buffers>(&raw, needs, alone) }.expect("room");
    assert!(memory.is_dedicated());
    // SAFETY: the memory was allocated for it.
    let placed = unsafe { Create::<Buffers>::place(device, &raw, memory.memory(), memory.offset()) }.expect("it fits");
    // SAFETY: there are no submissions.
    unsafe { Create::<Buffers>::destroy(device, placed.object) };
    // SAFETY: there are no submissions, and the buffer was destroyed.
    unsafe { memory.destroy_now() };
    assert_eq!(world.memory.statistics().total().dedicated_count, 0, "at once");
    world.finish();
}

#[test]
fn device_addresses_are_those_of_the_first_byte() {
    let world = world(Profile::h200());
    let desc = BufferDesc { size: 300, usage: BufferUsage::STORAGE | BufferUsage::DEVICE_ADDRESS };
    let one = world.memory.create_buffer(&desc, AllocationDesc::default()).expect("room");
    let two = world.memory.create_buffer(&desc, AllocationDesc::default()).expect("room");
    let (first, second) = (one.device_address().expect("asked for"), two.device_address().expect("asked for"));
    assert_eq!(second - first, two.offset() - one.offset());
    let plain = world.buffer(300, AllocationDesc::default()).expect("room");
    assert_eq!(plain.device_address(), None);
    drop((one, two, plain));
    world.finish();
}

#[test]
fn small_buffers_share_a_driver_object_by_usage_class() {
    let world = world(Profile::h200());
    let small =
        |usage, location| world.memory.create_small_buffer(BufferDesc { size: 100, usage }, location).expect("room");
    let mut reads: Vec<_> = (0..500).map(|_| small(BufferUsage::VERTEX, Location::Upload)).collect();
    assert_eq!(world.device.live().buffers, 1, "500 in one");
    let writes = small(BufferUsage::STORAGE, Location::Upload);
    assert_ne!(writes.object(), reads[0].object(), "buffers that shaders write are separate");
    let constants = small(BufferUsage::CONSTANT, Location::Upload);
    assert_eq!(constants.offset() % 256, 0);
    let mut ends: Vec<_> = reads.iter().map(|held| (held.offset(), held.offset() + held.size())).collect();
    ends.sort_unstable();
    assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "no two overlap");
    reads[7].write(0, &[7; 100]).expect("upload memory is mapped");
    let mut back = [0; 100];
    reads[7].read(0, &mut back).expect("mapped");
    assert_eq!(back, [7; 100]);
    assert!(matches!(reads[7].write(90, &[0; 11]), Err(AccessError::OutOfRange { .. })));
    let large =
        world.memory.create_small_buffer(BufferDesc { size: MIB, usage: BufferUsage::VERTEX }, Location::Upload);
    assert_eq!(large.err(), Some(Error::TooLarge { size: MIB, max: 256 * KIB }));
    drop((reads, writes, constants));
    world.memory.reclaim();
    world.finish();
}
