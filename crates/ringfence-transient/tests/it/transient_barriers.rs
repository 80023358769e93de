//! The barriers of transient memory on Direct3D 12 separate every two passes that share bytes. The device checks the
//! order of commands within a submission.

use proptest::prelude::*;
use ringfence::TransientAllocator;
use ringfence::device::{BufferDesc, BufferUsage, Buffers};
use ringfence::memory::RawObject;
use ringfence::sim::{Barrier as SimBarrier, BufferRange, Command, Device, HazardKind, Kernel, Profile, SimOptions};
use ringfence::transient::{
    Barrier, Direct3d12Barrier, Execution, Pass, Transient, TransientDesc, TransientError, TransientId,
};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

fn world() -> Fixture {
    let options = SimOptions { watches_barriers: true, ..Default::default() };
    Fixture::new(FixtureDesc { profile: Profile::d3d12_modern(), options, ..Default::default() })
}

/// A pass that writes the buffers as unordered accesses: two such passes may overlap.
fn writes(buffers: &[(ringfence::sim::BufferId, u64)]) -> Command {
    let ranges = buffers.iter().map(|(buffer, size)| BufferRange::new(*buffer, 0, *size)).collect();
    Command::Kernel(Kernel::new(vec![], ranges, |_| {}))
}

/// Records the barriers of `pass` as a program does.
fn record(
    execution: &Execution<'_, Device>,
    pass: Pass,
    of: impl Fn(&Barrier) -> Vec<Direct3d12Barrier>,
) -> Vec<Command> {
    let resource = |id: TransientId| match execution.raw(id).ok()? {
        RawObject::Buffer(buffer) => Some((*buffer).into()),
        RawObject::Texture(texture) => Some((*texture).into()),
    };
    let native = |barrier| match barrier {
        Direct3d12Barrier::UnorderedAccess => SimBarrier::UnorderedAccess(None),
        Direct3d12Barrier::Aliasing { before, after } => {
            SimBarrier::Aliasing { before: before.and_then(resource), after: resource(after).expect("it begins here") }
        }
    };
    let barriers = execution.barriers().iter().filter(|barrier| barrier.pass == pass);
    barriers.flat_map(of).map(|barrier| Command::Barrier(native(barrier))).collect()
}

fn all(barrier: &Barrier) -> Vec<Direct3d12Barrier> {
    barrier.on_direct3d_12().collect()
}

/// Returns the barriers without dependencies, as an earlier version recorded them on Direct3D 12.
fn without_dependencies(barrier: &Barrier) -> Vec<Direct3d12Barrier> {
    barrier.on_direct3d_12().filter(|held| *held != Direct3d12Barrier::UnorderedAccess).collect()
}

fn without_aliasing(barrier: &Barrier) -> Vec<Direct3d12Barrier> {
    barrier.on_direct3d_12().filter(|held| *held == Direct3d12Barrier::UnorderedAccess).collect()
}

fn acquire(execution: &mut Execution<'_, Device>, size: u64, pass: Pass) -> Transient<Buffers> {
    let desc = BufferDesc { size, usage: BufferUsage::STORAGE };
    execution.acquire_buffer(&desc, pass, "").expect("there is room")
}

/// Uses buffers of these sizes in one submission, one per pass.
fn one_after_the_other(sizes: &[u64], of: impl Fn(&Barrier) -> Vec<Direct3d12Barrier>) -> Vec<HazardKind> {
    let world = world();
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    for _ in 0..3 {
        let mut execution = transient.begin();
        let mut commands = Vec::new();
        for &size in sizes {
            let pass = execution.pass(world.timeline().id(), &[]).expect("one queue");
            let handle = acquire(&mut execution, size, pass);
            let buffer = *execution.buffer(handle).expect("of now");
            commands.extend(record(&execution, pass, &of));
            commands.push(writes(&[(buffer, size)]));
            execution.discard(handle, &[]).expect("in use");
        }
        execution.finish(&[]);
        world.submit(commands);
    }
    world.device.hazards().iter().map(|hazard| hazard.kind).collect()
}

#[test]
fn two_passes_that_write_one_object_as_unordered_accesses_are_kept_apart() {
    assert_eq!(one_after_the_other(&[4096, 4096, 4096], all), []);
    let found = one_after_the_other(&[4096, 4096, 4096], without_dependencies);
    assert_eq!(found, [HazardKind::MissingBarrier; 6], "both passes behind the first, in three submissions");
}

#[test]
fn passes_whose_objects_share_bytes_are_kept_apart() {
    assert_eq!(one_after_the_other(&[4096, 8192, 4096, 8192], all), []);
    let found = one_after_the_other(&[4096, 8192, 4096], without_aliasing);
    assert_eq!(found, [HazardKind::MissingBarrier; 6]);
}

#[test]
fn one_object_used_again_beside_others_is_kept_apart_by_one_barrier_a_pass() {
    let world = world();
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    let mut execution = transient.begin();
    let mut commands = Vec::new();
    for _ in 0..4 {
        let pass = execution.pass(world.timeline().id(), &[]).expect("one queue");
        let handles: Vec<_> = (0..5).map(|at| acquire(&mut execution, 4096 << at, pass)).collect();
        let buffers: Vec<_> = (0..5).map(|at| (*execution.buffer(handles[at]).expect("of now"), 4096 << at)).collect();
        let recorded = record(&execution, pass, all);
        assert!(recorded.len() <= 1, "{recorded:?}: they are the same objects again");
        commands.extend(recorded);
        commands.push(writes(&buffers));
        handles.iter().for_each(|handle| execution.discard(*handle, &[]).expect("in use"));
    }
    execution.finish(&[]);
    world.submit(commands);
    assert_eq!(world.device.hazards(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Buffers of random sizes with random lifetimes, over several frames of one submission each. Each pass writes all
    /// buffers that only it uses.
    #[test]
    fn random_passes_are_kept_apart(
        frames in prop::collection::vec(
            prop::collection::vec((prop::collection::vec(0..4_u32, 0..4), any::<bool>()), 1..12),
            1..4,
        )
    ) {
        let world = world();
        let desc = TransientDesc { heap_bytes: 64 << 10, ..Default::default() };
        let mut transient = TransientAllocator::new(&world.memory, desc);
        for frame in &frames {
            let mut execution = transient.begin();
            let mut commands = Vec::new();
            let mut kept: Vec<Transient<Buffers>> = Vec::new();
            for (sizes, keeps) in frame {
                let pass = execution.pass(world.timeline().id(), &[]).expect("one queue");
                let sizes = sizes.iter().map(|shift| 1024 << shift);
                let mine: Vec<_> = sizes.map(|size| (acquire(&mut execution, size, pass), size)).collect();
                let buffer = |(handle, size): &(_, _)| (*execution.buffer(*handle).expect("of now"), *size);
                let buffers: Vec<_> = mine.iter().map(buffer).collect();
                commands.extend(record(&execution, pass, all));
                commands.push(writes(&buffers));
                kept.drain(..).for_each(|handle| execution.discard(handle, &[pass]).expect("in use"));
                for (handle, _) in mine {
                    if *keeps { kept.push(handle) } else { execution.discard(handle, &[]).expect("in use") }
                }
            }
            execution.finish(&[]);
            transient.end_frame();
            world.submit(commands);
        }
        prop_assert_eq!(world.device.hazards(), vec![]);
        prop_assert!(world.device.run_until_idle());
    }
}

/// The object of a discarded resource is available until another resource gets its bytes.
#[test]
fn a_resource_whose_bytes_another_one_has_has_no_object() {
    let world = world();
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    let mut execution = transient.begin();
    let pass = |execution: &mut Execution<'_, Device>| execution.pass(world.timeline().id(), &[]).expect("one queue");
    let first = pass(&mut execution);
    let one = acquire(&mut execution, 4096, first);
    execution.discard(one, &[]).expect("in use");
    assert!(execution.buffer(one).is_ok(), "no other resource uses its bytes");
    let second = pass(&mut execution);
    let two = acquire(&mut execution, 2048, second);
    assert_eq!(execution.buffer(one).err(), Some(TransientError::Taken { id: one.id(), by: two.id() }));
    assert!(execution.buffer(two).is_ok() && execution.place(one).is_ok());
    execution.discard(two, &[]).expect("in use");
    let third = pass(&mut execution);
    let again = acquire(&mut execution, 4096, third);
    assert_eq!(again.id(), one.id(), "the object is found again");
    assert_eq!(execution.buffer(one).err(), Some(TransientError::Taken { id: one.id(), by: one.id() }));
    execution.discard(again, &[]).expect("in use");
    assert!(execution.buffer(again).is_ok() && execution.buffer(one).is_err() && execution.buffer(two).is_err());
    execution.finish(&[]);
}
