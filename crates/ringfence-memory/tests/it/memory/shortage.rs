//! Before a request fails, all empty memory is freed, wherever it is, and nothing else.

use ringfence::device::{BufferDesc, BufferUsage, ResourceClass};
use ringfence::placement::{BufferRequest, Placement, PlacementDesc, Strategy};
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location};

use ringfence_testkit::fixture::FaultyFixture;

use crate::memory::world::{MIB, card, needs, on_card, on_device, world};

/// Describes dedicated device memory.
fn alone() -> AllocationDesc<'static> {
    AllocationDesc { dedicated: Dedicated::Always, ..on_device() }
}

fn held(world: &FaultyFixture, heap: u32) -> u64 {
    world.memory.budgets().heap(heap).reserved_bytes
}

/// Creates and drops a small buffer, which leaves the buffer that it shared.
fn leave_shared_buffer(world: &FaultyFixture, location: Location) {
    let desc = BufferDesc { size: 100, usage: BufferUsage::COPY_SRC };
    drop(world.memory.create_small_buffer(desc, location).expect("there is room"));
    world.memory.reclaim();
}

#[test]
fn shared_buffers_in_which_nothing_lives_go_in_a_shortage() {
    let world = on_card(64 * MIB, 64 * MIB);
    leave_shared_buffer(&world, Location::Device);
    leave_shared_buffer(&world, Location::Upload);
    let (near, far) = (held(&world, 0), held(&world, 1));
    assert!(near >= MIB && far >= MIB, "a block each");
    let whole = world.buffer(64 * MIB, alone()).expect("no other resource is there");
    assert_eq!((held(&world, 0), held(&world, 1)), (64 * MIB, far), "the other heap is not short");
    drop(whole);
    world.finish();
}

/// Returns a placement that has kept an empty block of device memory.
fn leave_placed_block(world: &FaultyFixture, strategy: Strategy) -> Placement<crate::memory::world::Device> {
    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("no object is created yet");
    let request = BufferRequest {
        size: 100_000,
        usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST,
        strategy: Some(strategy),
        ..Default::default()
    };
    drop(placement.create_buffer(&request).expect("there is room"));
    world.memory.reclaim();
    placement
}

#[test]
fn empty_blocks_of_placements_go_in_a_shortage() {
    for strategy in [Strategy::Placed, Strategy::Suballocated] {
        let world = on_card(64 * MIB, 64 * MIB);
        let placement = leave_placed_block(&world, strategy);
        assert!(held(&world, 0) > 0, "{strategy:?}: it is kept");
        let whole = world.buffer(64 * MIB, alone());
        assert!(whole.is_ok(), "{strategy:?}: {whole:?}");
        drop((whole, placement));
        world.finish();
    }
}

#[test]
fn empty_blocks_of_placements_go_where_a_trim_to_a_target_needs_them() {
    for strategy in [Strategy::Placed, Strategy::Suballocated] {
        let world = on_card(256 * MIB, 64 * MIB);
        let placement = leave_placed_block(&world, strategy);
        let kept = held(&world, 0);
        drop(world.memory.allocate(needs(MIB, 256), AllocationDesc { dedicated: Dedicated::Never, ..on_device() }));
        world.memory.reclaim();
        let both = held(&world, 0);
        if strategy == Strategy::Placed {
            assert_eq!(world.memory.budgets().trim_to(kept), both - kept, "an empty block of the allocator's will do");
            assert_eq!(placement.figures().default_buffers.iter().map(|pool| pool.block_count).sum::<usize>(), 1);
        }
        let before = held(&world, 0);
        assert_eq!(world.memory.budgets().trim_to(0), before, "{strategy:?}");
        assert_eq!(held(&world, 0), 0, "{strategy:?}");
        drop(placement);
        world.finish();
    }
}

/// The limit counts the memory objects of all heaps.
#[test]
fn empty_blocks_of_every_heap_go_where_the_number_of_memory_objects_is_short() {
    let mut profile = card(1 << 30, 1 << 30);
    profile.capabilities.memory_objects_max = 3;
    for desc in [alone(), AllocationDesc { dedicated: Dedicated::Never, ..on_device() }] {
        let world = world(profile.clone(), AllocatorDesc::default());
        let of = |class| ringfence::device::Requirements { class, ..needs(1000, 16) };
        let at = |location| AllocationDesc { location, ..Default::default() };
        let classes = [ResourceClass::Buffer, ResourceClass::Buffer, ResourceClass::Texture];
        let locations = [Location::Upload, Location::Readback, Location::Upload];
        let blocks = classes
            .into_iter()
            .zip(locations)
            .map(|(class, location)| world.memory.allocate(of(class), at(location)).expect("three"));
        drop(blocks.collect::<Vec<_>>());
        world.memory.reclaim();
        assert_eq!(world.memory.statistics().total().block_count, 3, "each in an arena of its own");
        assert_eq!(held(&world, 0), 0, "and in the other heap");
        let made = world.memory.allocate(of(ResourceClass::Buffer), desc);
        assert!(made.is_ok(), "{made:?}");
        drop(made);
        world.finish();
    }
}

#[test]
fn a_trim_says_how_many_memory_objects_went() {
    for strategy in [Strategy::Placed, Strategy::Suballocated] {
        // The heaps are so large that a block of the placement is a range of one of the allocator's blocks.
        let world = on_card(16 << 30, 1 << 30);
        let placement = leave_placed_block(&world, strategy);
        leave_shared_buffer(&world, Location::Device);
        let before = world.device.calls().free_memory;
        let said = world.memory.budgets().trim() as u64;
        assert_eq!(said, world.device.calls().free_memory - before, "{strategy:?}");
        assert!(said > 0);
        drop(placement);
        // The blocks of a dropped placement are freed by the next reclaim, which counts blocks regardless of the memory
        // below them.
        drop(leave_placed_block(&world, strategy));
        assert_eq!(world.memory.reclaim().blocks, 1, "{strategy:?}");
        world.finish();
    }
}
