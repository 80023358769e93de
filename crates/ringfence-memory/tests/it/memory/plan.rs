//! The dry run agrees with the real call, in every state.

use proptest::prelude::*;
use ringfence::algorithms::algorithm::Algorithm;
use ringfence::device::{MemoryProperties, Requirements, ResourceClass};
use ringfence::memory::{Allocation, Error, Plan, PlannedWay, PoolDesc};
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Dedicated, Location};

use ringfence_testkit::fixture::FaultyFixture;

use crate::memory::world::{Device, KIB, MIB, card, info, needs, on_device, world};

#[derive(Clone, Debug)]
enum Op {
    Allocate { needs: Requirements, location: Location, dedicated: Dedicated, within_budget: bool, never_grow: bool },
    Free(usize),
    Reclaim,
    Budget(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![4 => 1..70 * KIB, 2 => KIB..8 * MIB, 1 => MIB..80 * MIB];
    let class = prop_oneof![Just(ResourceClass::Buffer), Just(ResourceClass::Texture)];
    let location = (0..4_usize).prop_map(|index| Location::ALL[index]);
    let dedicated = prop_oneof![6 => Just(Dedicated::Auto), 1 => Just(Dedicated::Always), 1 => Just(Dedicated::Never)];
    let allocate = (size, 0..17_u32, class, location, dedicated, 0..8_u32, any::<bool>()).prop_map(
        |(size, alignment, class, location, dedicated, rare, prefers_dedicated)| Op::Allocate {
            needs: Requirements {
                class,
                prefers_dedicated: prefers_dedicated && rare == 2,
                ..needs(size, 1 << alignment)
            },
            location,
            dedicated,
            within_budget: rare == 0,
            never_grow: rare == 1,
        },
    );
    prop_oneof![
        10 => allocate,
        4 => any::<usize>().prop_map(Op::Free),
        2 => Just(Op::Reclaim),
        1 => (1..128_u64).prop_map(|mib| Op::Budget(mib * MIB)),
    ]
}

/// Returns the result of the real call in the terms of a plan.
fn done(world: &FaultyFixture, before: u64, made: &Allocation<Device>) -> (u32, PlannedWay, u64) {
    let asked = world.memory.statistics().total().reserved_bytes().saturating_sub(before);
    let way = match (made.is_dedicated(), asked) {
        (true, _) => PlannedWay::Dedicated,
        (false, 0) => PlannedWay::InBlock { offset: made.offset() },
        (false, _) => PlannedWay::NewBlock,
    };
    (made.memory_type(), way, asked)
}

fn check(
    world: &FaultyFixture,
    needs: Requirements,
    desc: AllocationDesc<'_>,
) -> Result<Option<Allocation<Device>>, TestCaseError> {
    let snapshot = world.memory.snapshot();
    let plan: Result<Plan, Error> = world.memory.plan().memory(needs, desc);
    prop_assert_eq!(&world.memory.snapshot(), &snapshot, "a plan changes nothing");
    let before = snapshot.types.iter().map(|held| held.statistics.reserved_bytes()).sum();
    let made = world.memory.allocate(needs, desc);
    match (&plan, &made) {
        (Ok(plan), Ok(made)) => {
            // If empty blocks were trimmed during the call, the requested bytes cannot be determined.
            let trimmed = world.memory.statistics().calls.free_memory != snapshot.calls.free_memory;
            let (memory_type, way, asked) = done(world, before, made);
            prop_assert_eq!(plan.memory_type, memory_type);
            if !trimmed {
                prop_assert_eq!((plan.way, plan.requested_bytes), (way, asked));
            }
            prop_assert_eq!(plan.waste_bytes, plan.bytes - needs.size);
        }
        (Err(_), Err(_)) => {}
        (planned, made) => prop_assert!(false, "planned {:?}, but {:?}", planned, made),
    }
    Ok(made.ok())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn a_plan_says_what_the_call_then_does(
        which in 0..3_usize,
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        let profile = [card(128 * MIB, 128 * MIB), Profile::h200(), Profile::non_coherent()][which].clone();
        let world = world(profile, AllocatorDesc { empty_block_grace: 3, ..Default::default() });
        let mut held = Vec::new();
        for op in ops {
            match op {
                Op::Allocate { needs, location, dedicated, within_budget, never_grow } => {
                    let desc =
                        AllocationDesc { location, dedicated, within_budget, never_grow, ..Default::default() };
                    held.extend(check(&world, needs, desc)?);
                }
                Op::Free(index) if !held.is_empty() => {
                    let freed: Allocation<Device> = held.swap_remove(index % held.len());
                    // SAFETY: no work is ever submitted.
                    unsafe { freed.destroy_now() };
                }
                Op::Free(_) => {}
                Op::Reclaim => _ = world.memory.reclaim(),
                Op::Budget(bytes) => {
                    world.device.set_budget(0, Some(bytes));
                    world.memory.reclaim();
                }
            }
            world.memory.debug().validate().map_err(|invalid| TestCaseError::fail(invalid.to_string()))?;
        }
        drop(held);
        world.finish();
    }
}

#[test]
fn a_plan_tells_waste_and_headroom() {
    let world = world(card(128 * MIB, 128 * MIB), AllocatorDesc::default());
    let desc = AllocationDesc { required: MemoryProperties::DEVICE_LOCAL, ..Default::default() };
    let plan = world.memory.plan().buffer(&info(1000), desc).expect("there is room");
    assert_eq!((plan.way, plan.requested_bytes, plan.heap), (PlannedWay::NewBlock, MIB, 0));
    assert_eq!(plan.headroom_bytes, 127 * MIB);
    assert_eq!((plan.bytes, plan.waste_bytes), (64 * KIB, 0), "the driver rounded, not the library");
    assert_eq!(world.device.live(), ringfence::sim::Live::default());
    // The seventeenth allocation of a size gets a slot, of a class that may be larger.
    let held: Vec<_> = (0..16).map(|_| world.memory.allocate(needs(33 * KIB, 256), desc).expect("room")).collect();
    let plan = world.memory.plan().memory(needs(33 * KIB, 256), desc).expect("room");
    assert_eq!((plan.bytes, plan.waste_bytes), (48 * KIB, 15 * KIB));
    drop(held);
    world.finish();
}

#[test]
fn a_plan_frees_empty_blocks_first_where_the_call_does() {
    let limited = AllocatorDesc { heap_bytes_max: [3 * MIB; 16], empty_blocks_kept: 2, ..Default::default() };
    let world = world(card(128 * MIB, 128 * MIB), limited);
    let needs = needs(MIB - 1, 256);
    let held: Vec<_> = (0..2).map(|_| world.memory.allocate(needs, on_device()).expect("room")).collect();
    // SAFETY: no work is ever submitted.
    held.into_iter().for_each(|held| unsafe { held.destroy_now() });
    let empty = world.memory.statistics().types[0].block_bytes;
    assert!(empty > MIB, "blocks are kept");
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..on_device() };
    let needs = Requirements { size: 2 * MIB, ..needs };
    let plan = world.memory.plan().memory(needs, alone).expect("empty blocks make room");
    let made = world.memory.allocate(needs, alone).expect("the plan is kept");
    assert_eq!((plan.way, plan.headroom_bytes), (PlannedWay::Dedicated, MIB));
    assert_eq!(world.memory.budgets().heap(0).headroom_bytes(), MIB);
    drop(made);
    world.finish();
}

#[test]
fn a_plan_knows_the_end_of_a_linear_pool() {
    let world = world(card(128 * MIB, 128 * MIB), AllocatorDesc::default());
    let desc = PoolDesc { memory_type: 1, block_bytes: 64 * KIB, algorithm: Algorithm::Linear, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    let mut held = vec![pool.allocate(needs(KIB, 256), AllocationDesc::default()).expect("room")];
    for step in 0..70 {
        let desc = AllocationDesc { from_the_end: step % 3 > 0, ..Default::default() };
        let needs = needs(KIB + step * 7, 256);
        let plan = pool.plan(needs, desc).expect("room");
        let made = pool.allocate(needs, desc).expect("the plan is kept");
        if let PlannedWay::InBlock { offset } = plan.way {
            assert_eq!(offset, made.offset(), "step {step}");
        } else {
            assert_eq!(made.offset() == 0, !desc.from_the_end, "step {step}: a new block");
        }
        held.push(made);
    }
    drop((held, pool));
    world.finish();
}

/// Returns the plan for a buffer, and checks that the call does the same.
fn planned(world: &FaultyFixture, size: u64, desc: AllocationDesc<'_>) -> (Plan, Buffer<Device>) {
    let plan = world.memory.plan().buffer(&info(size), desc).expect("room");
    let before = world.memory.statistics();
    let made = world.memory.create_buffer(&info(size), desc).expect("room");
    let after = world.memory.statistics();
    let asked = after.total().reserved_bytes() - before.total().reserved_bytes();
    let way = match (after.calls.recycled > before.calls.recycled, made.is_dedicated(), asked) {
        (true, ..) => PlannedWay::Recycled,
        (_, true, _) => PlannedWay::Dedicated,
        (.., 0) => PlannedWay::InBlock { offset: made.offset() },
        _ => PlannedWay::NewBlock,
    };
    let bytes = after.total().used_bytes() - before.total().used_bytes();
    assert_eq!((plan.way, plan.bytes, plan.requested_bytes), (way, bytes, asked), "{size}: {desc:?}");
    (plan, made)
}

#[test]
fn a_plan_is_for_the_size_that_is_asked_for_where_it_may_be_larger() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let exact = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let larger = AllocationDesc { may_be_larger: true, ..exact };
    let steps = [
        (exact, PlannedWay::Dedicated, 65_024),
        (exact, PlannedWay::Dedicated, 65_024),
        // A recycled object of the exact size exists.
        (larger, PlannedWay::Dedicated, 65_536),
        (larger, PlannedWay::Dedicated, 65_536),
        (larger, PlannedWay::Recycled, 65_536),
        (exact, PlannedWay::Recycled, 65_024),
    ];
    for (desc, way, bytes) in steps {
        let (plan, made) = planned(&world, 65_000, desc);
        assert_eq!((plan.way, plan.bytes), (way, bytes));
        drop(made);
        world.memory.reclaim();
    }
    world.finish();
}

#[test]
fn two_hundred_sizes_go_as_planned_whether_they_may_be_larger_or_not() {
    for may_be_larger in [false, true] {
        let world = world(Profile::h200(), AllocatorDesc::default());
        let desc = AllocationDesc { may_be_larger, ..Default::default() };
        let mut recycled = 0;
        for round in 0..3 {
            let sizes = (0..200).map(|index| KIB + (index * 331 + round * 17) % (64 * KIB));
            let made = sizes.map(|size| planned(&world, size, desc));
            let held: Vec<_> =
                made.inspect(|(plan, _)| recycled += usize::from(plan.way == PlannedWay::Recycled)).collect();
            drop(held);
            world.memory.reclaim();
        }
        assert_eq!(recycled > 100, may_be_larger, "{recycled}");
        world.finish();
    }
}

#[test]
fn a_plan_has_the_alignment_of_the_request() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let held = world.memory.allocate(needs(100, 1), AllocationDesc::default()).expect("room");
    for alignment in [4 * KIB, MIB, 3] {
        let desc = AllocationDesc { alignment, ..Default::default() };
        let (plan, made) =
            (world.memory.plan().memory(needs(100, 1), desc), world.memory.allocate(needs(100, 1), desc));
        let placed = plan.map(|plan| match plan.way {
            PlannedWay::InBlock { offset } => offset,
            other => panic!("{other:?}"),
        });
        assert_eq!(placed, made.as_ref().map(Allocation::offset).map_err(|error| *error));
    }
    drop(held);
    world.finish();
}

/// A trim keeps these blocks, so no request gets their bytes.
#[test]
fn a_plan_does_not_count_on_blocks_that_a_pool_keeps() {
    let world = world(card(16 * MIB, 16 * MIB), AllocatorDesc::default());
    let desc = PoolDesc { block_bytes: 4 * MIB, block_count_min: 2, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("room");
    let desc = AllocationDesc { memory_types: 1, ..Default::default() };
    for size in [7 * MIB, 12 * MIB] {
        let plan = world.memory.plan().memory(needs(size, 256), desc).is_ok();
        assert_eq!((size, plan), (size, world.memory.allocate(needs(size, 256), desc).is_ok()));
    }
    drop(pool);
    world.finish();
}
