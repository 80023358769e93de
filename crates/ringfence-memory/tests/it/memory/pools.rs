//! Custom pools: limits, algorithms, lifetimes.

use std::time::{Duration, Instant};

use ringfence::algorithms::algorithm::Algorithm;
use ringfence::device::{DeviceError, Numbers, Requirements, ResourceClass, TextureDesc};
use ringfence::memory::{Error, PoolDesc};
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc};

use ringfence_testkit::fixture::{FaultyFixture, Fixture, FixtureDesc};

use crate::memory::world::{KIB, MIB, info, needs};

fn world() -> FaultyFixture {
    crate::memory::world::world(Profile::h200(), AllocatorDesc::default())
}

#[test]
fn a_pool_obeys_its_block_size_and_count() {
    let world = world();
    let desc = PoolDesc { memory_type: 1, block_bytes: MIB, block_count_max: 2, name: "meshes", ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    let held: Vec<_> = (0..2).map(|_| pool.allocate(needs(700 * KIB, 256), AllocationDesc::default())).collect();
    assert!(held.iter().all(Result::is_ok));
    let full = Error::PoolFull { size: 700 * KIB, block_count_max: 2, block_bytes: MIB };
    assert_eq!(pool.allocate(needs(700 * KIB, 256), AllocationDesc::default()).err(), Some(full));
    assert_eq!(pool.plan(needs(700 * KIB, 256), AllocationDesc::default()).err(), Some(full));
    let too_large = pool.allocate(needs(2 * MIB, 256), AllocationDesc::default());
    assert!(matches!(too_large, Err(Error::PoolFull { .. })), "{too_large:?}");
    assert!(pool.allocate(needs(300 * KIB, 256), AllocationDesc::default()).is_ok(), "smaller ones fit");
    let snapshot = world.memory.snapshot();
    assert_eq!(snapshot.blocks.iter().filter(|block| block.pool == "meshes").count(), 2);
    assert_eq!(world.memory.statistics().types[1].block_bytes, 2 * MIB, "pools count in their type's figures");
    drop((held, pool));
    world.finish();
}

#[test]
fn blocks_that_are_wanted_from_the_start_are_there_and_stay() {
    let world = world();
    let desc = PoolDesc { memory_type: 2, block_bytes: MIB, block_count_min: 3, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    assert_eq!(pool.statistics().block_count, 3);
    (0..300).for_each(|_| _ = world.memory.reclaim());
    world.memory.budgets().trim();
    assert_eq!(pool.statistics().block_count, 3, "neither time nor trimming takes them");
    drop(pool);
    assert_eq!(world.memory.statistics().total().block_count, 0);
    world.finish();
}

#[test]
fn what_lies_in_a_pool_may_outlive_it() {
    let world = world();
    let pool = world.memory.create_pool(PoolDesc { memory_type: 1, ..Default::default() }).expect("such a pool");
    let buffer = pool.create_buffer(&info(KIB), AllocationDesc::default()).expect("there is room");
    drop(pool);
    assert_eq!(world.memory.statistics().total().block_count, 1);
    drop(buffer);
    world.memory.reclaim();
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().total().block_count, 0, "the block is freed with its last range");
    world.finish();
}

/// The allocator's own arenas have no empty block, so a pool is the only reason to wake the library's thread.
#[test]
fn the_librarys_thread_frees_the_empty_blocks_of_a_pool() {
    let desc = AllocatorDesc { empty_blocks_kept: 0, empty_block_grace: 2, ..Default::default() };
    let world = crate::memory::world::world(Profile::h200(), desc);
    let desc = PoolDesc { memory_type: 1, block_bytes: MIB, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    let maintenance = world.memory.budgets().maintain_in_background().expect("a thread");
    drop(pool.allocate(needs(KIB, 4), AllocationDesc::default()).expect("room"));
    let deadline = Instant::now() + Duration::from_secs(120);
    while pool.statistics().block_count > 0 {
        assert!(Instant::now() < deadline, "the block is still held");
        world.memory.reclaim();
        std::thread::yield_now();
    }
    drop((maintenance, pool));
    world.finish();
}

#[test]
fn what_replaces_a_resource_lies_in_the_same_pool() {
    let world = Fixture::new(FixtureDesc::default());
    let pool = world.memory.create_pool(PoolDesc { memory_type: 1, ..Default::default() }).expect("such a pool");
    let mut buffer = pool.create_buffer(&info(KIB), AllocationDesc::default()).expect("there is room");
    let ranges = || pool.statistics().range_count;
    buffer.replace(&info(2 * KIB), AllocationDesc::default()).expect("there is room");
    assert_eq!(ranges(), 2, "the new one, and the old one until it is released");
    let frame = world.timeline().begin();
    buffer.resize(&frame, &info(4 * KIB), KIB, AllocationDesc::default()).expect("there is room");
    assert_eq!(ranges(), 3);
    world.complete(frame);
    world.memory.reclaim();
    assert_eq!(ranges(), 1);
    drop(pool);
    buffer.replace(&info(KIB), AllocationDesc::default()).expect("there is room elsewhere");
    world.memory.reclaim();
    drop(buffer);
    world.finish();
}

#[test]
fn a_pool_refuses_what_cannot_lie_in_it() {
    let world = world();
    let pool = world.memory.create_pool(PoolDesc { memory_type: 1, ..Default::default() }).expect("such a pool");
    let other = Requirements { memory_type_bits: 0b100, ..needs(KIB, 4) };
    let wrong = Error::WrongMemoryType { memory_type: 1, memory_type_bits: 0b100 };
    assert_eq!(pool.allocate(other, AllocationDesc::default()).err(), Some(wrong));
    let texture = TextureDesc::default();
    let error = pool.create_texture(&texture, AllocationDesc::default()).err();
    let wrong = Error::WrongClass { class: ResourceClass::Texture, block_class: ResourceClass::Buffer };
    assert_eq!(error, Some(wrong));
    for (desc, error) in [
        (
            PoolDesc { memory_type: 31, ..Default::default() },
            Error::UnknownMemoryType { memory_type: 31, memory_type_count: 5 },
        ),
        (PoolDesc { block_alignment: 3, ..Default::default() }, Error::BadAlignment { alignment: 3 }),
        (
            PoolDesc { block_count_min: 5, block_count_max: 2, ..Default::default() },
            DeviceError::invalid("block_count_min exceeds block_count_max")
                .with(Numbers::AtMost { given: 5, max: 2 })
                .into(),
        ),
        (
            PoolDesc { algorithm: Algorithm::Buddy { granule: 0 }, ..Default::default() },
            Error::BadAlignment { alignment: 0 },
        ),
    ] {
        assert_eq!(world.memory.create_pool(desc).err(), Some(error));
    }
    drop(pool);
    world.finish();
}

#[test]
fn a_linear_pool_is_a_ring_and_a_double_stack() {
    let world = world();
    let desc = PoolDesc {
        memory_type: 2,
        block_bytes: MIB,
        block_count_max: 1,
        algorithm: Algorithm::Linear,
        ..Default::default()
    };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    let quarter = |desc| pool.allocate(needs(256 * KIB, 256), desc);
    let mut ring: std::collections::VecDeque<_> = std::collections::VecDeque::new();
    for round in 0..20 {
        if ring.len() == 4 {
            assert!(quarter(AllocationDesc::default()).is_err(), "full");
            let oldest: ringfence::memory::Allocation<_> = ring.pop_front().expect("four are held");
            // SAFETY: no work is ever submitted.
            unsafe { oldest.destroy_now() };
        }
        let next = quarter(AllocationDesc::default()).expect("there is room");
        assert_eq!(next.offset(), round % 4 * 256 * KIB);
        ring.push_back(next);
    }
    // SAFETY: as above.
    ring.drain(..).for_each(|held| unsafe { held.destroy_now() });
    let low = quarter(AllocationDesc::default()).expect("room");
    let high = quarter(AllocationDesc { from_the_end: true, ..Default::default() }).expect("room");
    assert_eq!((low.offset(), high.offset()), (0, 768 * KIB));
    drop((low, high, pool));
    world.finish();
}

#[test]
fn every_algorithm_serves_a_pool() {
    for algorithm in [
        Algorithm::Tlsf,
        Algorithm::Buddy { granule: 256 },
        Algorithm::FreeList,
        Algorithm::Linear,
        Algorithm::Equal { block_size: 64 * KIB },
    ] {
        let world = world();
        let desc = PoolDesc { memory_type: 1, block_bytes: 256 * KIB, algorithm, ..Default::default() };
        let pool = world.memory.create_pool(desc).expect("such a pool");
        let held: Vec<_> = (1..60)
            .map(|size| pool.create_buffer(&info(size * 700), AllocationDesc::default()).expect("it grows"))
            .collect();
        assert!(pool.statistics().block_count > 3, "{algorithm:?}");
        world.memory.debug().validate().expect("sound");
        drop((held, pool));
        world.finish();
    }
}

#[test]
fn a_block_that_could_never_hold_the_request_is_not_asked_for() {
    let world = world();
    for algorithm in [Algorithm::Equal { block_size: 4 * KIB }, Algorithm::Buddy { granule: 256 * KIB }] {
        let desc = PoolDesc { memory_type: 1, block_bytes: 200 * KIB, algorithm, ..Default::default() };
        let pool = world.memory.create_pool(desc).expect("such a pool");
        let asked = world.device.calls().allocate_memory;
        let error = pool.allocate(needs(150 * KIB, 64 * KIB), AllocationDesc::default());
        if let Err(error) = error {
            assert!(matches!(error, Error::PoolFull { .. }), "{error:?}");
            assert_eq!(world.device.calls().allocate_memory, asked);
        } else {
            assert!(matches!(algorithm, Algorithm::Buddy { .. }));
        }
    }
    let zero = PoolDesc { algorithm: Algorithm::Equal { block_size: 0 }, ..Default::default() };
    assert_eq!(world.memory.create_pool(zero).err(), Some(Error::ZeroSize));
    world.finish();
}

/// The statistics, the snapshot and the validation agree on a pool's ranges, for every algorithm.
#[test]
fn figures_of_a_pool_are_those_of_its_snapshot() {
    let algorithms = [
        Algorithm::Tlsf,
        Algorithm::FreeList,
        Algorithm::Linear,
        Algorithm::Buddy { granule: 512 },
        Algorithm::Equal { block_size: 8 * KIB },
    ];
    for algorithm in algorithms {
        let world = world();
        let desc = PoolDesc { memory_type: 1, block_bytes: MIB, algorithm, name: "pool", ..Default::default() };
        let pool = world.memory.create_pool(desc).expect("such a pool");
        let agree = |count: usize| {
            world.memory.debug().validate().expect("the counts are those of the blocks");
            let snapshot = world.memory.snapshot();
            let ranges: Vec<_> = snapshot.blocks.iter().flat_map(|block| &block.ranges).collect();
            let bytes: u64 = ranges.iter().map(|range| range.bytes).sum();
            let figures = pool.statistics();
            assert_eq!((figures.range_count, figures.range_bytes), (count as u64, bytes), "{algorithm:?}");
            assert_eq!(ranges.len(), count, "{algorithm:?}");
            assert!(ranges.iter().all(|range| range.name == "range"), "{algorithm:?}: {ranges:?}");
        };
        let desc = AllocationDesc { name: "range", ..Default::default() };
        let sizes = [5000, 300, 2600, 4096, 700];
        let mut held: Vec<_> = sizes.map(|size| pool.allocate(needs(size, 16), desc).expect("there is room")).into();
        agree(5);
        // Frees ranges in the middle. A linear block cannot reuse their bytes yet.
        for count in (0..5).rev() {
            drop(held.remove(count / 2));
            world.memory.reclaim();
            agree(count);
        }
        drop(pool);
        world.finish();
    }
}

/// A buddy allocator has at most 2^29 granules; each takes host memory.
#[test]
fn a_pool_of_more_granules_than_a_buddy_has_is_refused() {
    let world = world();
    let pool = |block_bytes, granule, block_count_min| {
        let algorithm = Algorithm::Buddy { granule };
        world.memory.create_pool(PoolDesc { block_bytes, block_count_min, algorithm, ..Default::default() }).err()
    };
    let max = 1 << 29;
    assert_eq!(pool(1 << 30, 1, 0), Some(Error::TooLarge { size: 1 << 30, max }));
    assert_eq!(pool((1 << 29) + 1, 1, 1), Some(Error::TooLarge { size: (1 << 29) + 1, max }));
    assert_eq!(pool(1 << 30, 2, 0), None);
    assert_eq!(pool(0, 1, 0), None, "those that grow have up to 256 MiB");
    world.finish();
}

/// Creating, allocating and planning: a resource that requires dedicated memory cannot be in a block.
#[test]
fn what_requires_memory_of_its_own_is_refused() {
    let profile = Profile { dedicated_required_bytes: MIB, ..Profile::h200() };
    let world = crate::memory::world::world(profile, AllocatorDesc::default());
    let target = TextureDesc { width: 1024, height: 1024, ..Default::default() };
    let info = target;
    let class = ResourceClass::Texture;
    let pool = world.memory.create_pool(PoolDesc { memory_type: 0, class, ..Default::default() }).expect("such a pool");
    let refused = Error::from(DeviceError::unsupported("a pool's block for a resource that requires dedicated memory"));
    assert_eq!(pool.create_texture(&info, AllocationDesc::default()).err(), Some(refused));
    let needs = Requirements { requires_dedicated: true, class, ..needs(KIB, 256) };
    assert_eq!(pool.allocate(needs, AllocationDesc::default()).err(), Some(refused));
    assert_eq!(pool.plan(needs, AllocationDesc::default()).err(), Some(refused));
    assert!(world.memory.create_texture(&info, AllocationDesc::default()).is_ok(), "memory of its own");
    drop(pool);
    world.finish();
}

/// In a buddy pool without a block size, no block has more granules than a buddy allocator supports.
#[test]
fn a_request_beyond_what_the_algorithm_can_cut_is_refused() {
    let world = world();
    let algorithm = Algorithm::Buddy { granule: 1 };
    let desc = PoolDesc { memory_type: 1, algorithm, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("blocks of up to 256 MiB");
    let (size, max) = (600 * MIB, algorithm.capacity_max());
    let refused = Some(Error::TooLarge { size, max });
    assert_eq!(pool.plan(needs(size, 1), AllocationDesc::default()).err(), refused);
    assert_eq!(pool.allocate(needs(size, 1), AllocationDesc::default()).err(), refused);
    assert_eq!(pool.create_buffer(&info(size), AllocationDesc::default()).err(), refused);
    assert_eq!(pool.statistics().block_count, 0, "no object was created");
    drop(pool.allocate(needs(MIB, 1), AllocationDesc::default()).expect("there is room"));
    drop(pool);
    world.finish();
}
