//! Every driver call fails once, one after the other: nothing is leaked, and the state is as before.

use ringfence::device::fault::{Call, Recorder, Rule};
use ringfence::device::{BufferUsage, Create, DeviceError, TextureDesc, TextureUsage, Textures};
use ringfence::memory::{Error, PoolDesc};
use ringfence::placement::{BufferRequest, Placement, PlacementDesc, Strategy};
use ringfence::sim::{BufferRange, Command, Profile};
use ringfence::sparse::{SparseBuffer, SparseTexture};
use ringfence::upload::UploadDesc;
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location, UploadBatch, UploadRing};

use ringfence_testkit::fixture::{FaultyFixture, FixtureDesc};

use crate::memory::world::{KIB, MIB, info, needs, world};

/// Uses a bit of everything and skips failed calls: each failure must leave the state unchanged.
fn program(world: &FaultyFixture) -> Result<(), Error> {
    let mut first_error = Ok(());
    let mut note = |result: Result<(), Error>| {
        world.memory.debug().validate().expect("sound after each step");
        if first_error.is_ok() {
            first_error = result;
        }
    };
    let mut held: Vec<Box<dyn std::any::Any>> = Vec::new();
    let mut keep = |made: Result<Box<dyn std::any::Any>, Error>| note(made.map(|made| held.push(made)));
    for location in Location::ALL {
        let desc = AllocationDesc { location, name: "named", ..Default::default() };
        keep(world.buffer(10 * KIB, desc).map(|made| Box::new(made) as _));
    }
    for _ in 0..40 {
        keep(world.buffer(300, AllocationDesc::default()).map(|made| Box::new(made) as _));
    }
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    keep(world.buffer(MIB, alone).map(|made| Box::new(made) as _));
    let texture = Create::<Textures>::describe(world.memory.device(), &TextureDesc::default()).map_err(Error::from);
    keep(texture.and_then(|info| world.memory.create_texture(&info, alone)).map(|made| Box::new(made) as _));
    let mut shared = world.memory.allocate(needs(MIB, 64 * KIB), AllocationDesc::default());
    if let Ok(shared) = &mut shared {
        keep(shared.create_aliasing_buffer(&info(64 * KIB), 0, "a").map(|made| Box::new(made) as _));
        keep(shared.create_aliasing_buffer(&info(64 * KIB), 0, "b").map(|made| Box::new(made) as _));
    }
    keep(shared.map(|made| Box::new(made) as _));
    let small = ringfence::device::BufferDesc { size: 100, usage: BufferUsage::VERTEX };
    keep(world.memory.create_small_buffer(small, Location::Upload).map(|made| Box::new(made) as _));
    let pool = world.memory.create_pool(PoolDesc { block_bytes: MIB, block_count_min: 2, ..Default::default() });
    if let Ok(pool) = &pool {
        keep(pool.create_buffer(&info(KIB), AllocationDesc::default()).map(|made| Box::new(made) as _));
    }
    keep(pool.map(|made| Box::new(made) as _));
    drop(held);
    first_error
}

#[test]
fn each_call_fails_once_and_nothing_is_leaked() {
    for profile in Profile::all() {
        let name = profile.name;
        let without_faults = world(profile.clone(), AllocatorDesc::default());
        program(&without_faults).expect("only requested calls fail");
        let calls = without_faults.faults.calls();
        without_faults.finish();
        assert!(calls > 50, "the program makes {calls} calls that can fail");
        for error in [DeviceError::OutOfDeviceMemory, DeviceError::Other(-7)] {
            for nth in 0..calls {
                let world = world(profile.clone(), AllocatorDesc::default());
                world.faults.add(Rule::nth(nth, error));
                let result = program(&world);
                assert_eq!(world.faults.injected(), 1, "call {nth} of {calls} on {name}");
                if error == DeviceError::Other(-7) {
                    // Freeing memory would not help, so no further step is tried.
                    assert!(result.is_err() || nth == 0, "call {nth} of {calls} on {name}");
                }
                world.finish();
            }
        }
    }
}

#[test]
fn every_call_from_some_call_on_fails_and_nothing_is_leaked() {
    for profile in Profile::all() {
        for skip in (0..80).step_by(3) {
            let world = world(profile.clone(), AllocatorDesc::default());
            world.faults.add(Rule { skip, ..Rule::new(DeviceError::TooManyObjects) });
            let _ = program(&world);
            world.finish();
        }
    }
}

/// If the driver has no memory for an object, unused memory is freed, and the object is requested again.
#[test]
fn an_object_that_finds_no_memory_is_asked_for_again_once_what_is_unused_is_gone() {
    type Make = fn(&FaultyFixture) -> Result<Box<dyn std::any::Any>, Error>;
    let cases: [(Call, Make); 4] = [
        (Call::Prepare, |world| world.buffer(MIB, AllocationDesc::default()).map(|made| Box::new(made) as _)),
        (Call::Prepare, |world| {
            let mut shared = world.memory.allocate(needs(MIB, 64 * KIB), AllocationDesc::default())?;
            shared.create_aliasing_buffer(&info(64 * KIB), 0, "a").map(|made| Box::new(made) as _)
        }),
        (Call::MakeSparse, |world| {
            SparseBuffer::new(&world.memory, &info(MIB), AllocationDesc::default()).map(|made| Box::new(made) as _)
        }),
        (Call::MakeSparseTexture, |world| {
            let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST;
            let desc = TextureDesc { width: 512, height: 512, usage, ..Default::default() };
            SparseTexture::new(&world.memory, &desc, AllocationDesc::default()).map(|made| Box::new(made) as _)
        }),
    ];
    for (call, make) in cases {
        let world = world(Profile::h200(), AllocatorDesc::default());
        let error = DeviceError::OutOfHostMemory;
        let once = Rule { call: Some(call), count: 1, ..Rule::new(error) };
        world.faults.add(once);
        assert_eq!(make(&world).map(drop), Err(error.into()), "{call:?}: no memory can be released");
        for _ in 0..3 {
            drop(world.buffer(4 * KIB, AllocationDesc::default()).expect("there is room"));
            world.memory.reclaim();
        }
        assert_eq!(world.memory.statistics().recycled_count, 1);
        world.faults.add(once);
        make(&world).map(drop).expect("recycled objects are destroyed");
        assert_eq!(world.memory.statistics().recycled_count, 0, "{call:?}");
        world.finish();
    }
}

/// The copies that a program adds behind the injector are recorded for the device underneath.
#[test]
fn an_upload_behind_the_injector_reaches_the_device() {
    let world = FaultyFixture::faulty(FixtureDesc::default());
    let ring = UploadRing::new(&world.memory, UploadDesc { capacity: KIB, ..Default::default() }).expect("room");
    let target = world.buffer(256, AllocationDesc::default()).expect("there is room");
    let frame = world.timeline().begin();
    let staged = ring.write_for(&frame, &[7; 256], 4).expect("there is room");
    let mut batch = UploadBatch::new();
    batch.copy(&staged, &target, 0).expect("it fits");
    let mut recorder = Recorder(Vec::<Command>::new());
    // SAFETY: the recorded commands are submitted as `frame`.
    unsafe { batch.record(&mut recorder) }.expect("its frame is open");
    world.submit_frame(frame, recorder.0);
    world.device.run_until_idle();
    assert_eq!(world.device.peek(BufferRange::new(*target.object(), 0, 256)).expect("alive"), [7; 256]);
    assert_eq!(world.device.take_hazards(), []);
    drop((ring, target));
    world.finish();
}

/// A hook of the injector panics, like a driver call of a program's own device. Everything that was created is freed.
#[test]
fn a_call_that_panics_leaks_nothing() {
    type Make = fn(&FaultyFixture) -> Result<Box<dyn std::any::Any>, Error>;
    let cases: [(&str, Make); 8] = [
        ("a slot or a range", |world| world.buffer(300, AllocationDesc::default()).map(|made| Box::new(made) as _)),
        ("a named range", |world| {
            let desc = AllocationDesc { name: "named", movable: true, ..Default::default() };
            world.buffer(70 * KIB, desc).map(|made| Box::new(made) as _)
        }),
        ("memory of its own", |world| {
            let desc = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
            world.buffer(MIB, desc).map(|made| Box::new(made) as _)
        }),
        ("an aliasing buffer", |world| {
            let mut shared = world.memory.allocate(needs(MIB, 64 * KIB), AllocationDesc::default())?;
            shared.create_aliasing_buffer(&info(64 * KIB), 0, "a").map(|made| Box::new(made) as _)
        }),
        ("a small buffer", |world| {
            let small = ringfence::device::BufferDesc { size: 100, usage: BufferUsage::VERTEX };
            world.memory.create_small_buffer(small, Location::Upload).map(|made| Box::new(made) as _)
        }),
        ("a pool", |world| {
            let pool =
                world.memory.create_pool(PoolDesc { block_bytes: MIB, block_count_min: 2, ..Default::default() })?;
            let held = pool.create_buffer(&info(KIB), AllocationDesc::default())?;
            Ok(Box::new((pool, held)) as _)
        }),
        ("announced blocks", |world| {
            let class = ringfence::device::ResourceClass::Buffer;
            let made = world.memory.budgets().reserve(class, 600 * MIB, AllocationDesc::default());
            made.map(|made| Box::new(made) as _)
        }),
        ("sparse pages", |world| {
            SparseBuffer::new(&world.memory, &info(MIB), AllocationDesc::default()).map(|made| Box::new(made) as _)
        }),
    ];
    let mut leaked = Vec::new();
    for (name, make) in cases {
        for nth in 0.. {
            let world = world(Profile::h200(), AllocatorDesc::default());
            let warm: Vec<_> = (0..20).map(|_| world.buffer(300, AllocationDesc::default()).expect("room")).collect();
            world.faults.set_hook(Some(Box::new(|_, _| std::panic::resume_unwind(Box::new("a hook")))));
            world.faults.add(Rule::nth(nth, DeviceError::OutOfDeviceMemory));
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| make(&world).map(drop)));
            let injected = world.faults.injected();
            world.faults.clear();
            drop(warm);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.finish()));
            if ended.is_err() {
                leaked.push((name, nth));
            }
            assert_eq!(made.is_err(), injected > 0, "{name}, call {nth}");
            if injected == 0 {
                break;
            }
        }
    }
    assert_eq!(leaked, [], "what leaks, and at which call");
}

/// Each kind of unused memory alone is a reason to request an object again that found no memory: objects that the device
/// is done with, blocks that a reclaim frees, and empty blocks that it keeps.
#[test]
fn an_object_is_asked_for_again_after_any_kind_of_unused_memory_was_freed() {
    type Leave = fn(&FaultyFixture);
    let leave_block: Leave = |world| {
        let desc = AllocationDesc { dedicated: Dedicated::Never, ..AllocationDesc::default() };
        // SAFETY: no resource was placed there.
        unsafe { world.memory.allocate(needs(20 * MIB, 256), desc).expect("room").destroy_now() };
    };
    let cases: [(&str, u64, Leave); 4] = [
        ("nothing", 1, |_| {}),
        ("a retired object", 1, |world| drop(world.buffer(MIB, AllocationDesc::default()).expect("room"))),
        ("an empty block that is kept", 100, leave_block),
        ("a block of a dropped placement", 1, |world| {
            let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("no object is created yet");
            let (usage, strategy) = (BufferUsage::COPY_DST, Some(Strategy::Placed));
            let request = BufferRequest { size: 100_000, usage, strategy, ..Default::default() };
            drop(placement.create_buffer(&request).expect("there is room"));
            world.memory.reclaim();
        }),
    ];
    for (name, grace, leave) in cases {
        let desc = AllocatorDesc { recycled_bytes_max: 0, empty_block_grace: grace, ..Default::default() };
        let world = world(Profile::h200(), desc);
        // The block of the retired object stays in use.
        let held = world.buffer(MIB, AllocationDesc::default()).expect("room");
        leave(&world);
        let error = DeviceError::OutOfHostMemory;
        world.faults.add(Rule { call: Some(Call::Prepare), count: 1, ..Rule::new(error) });
        let made = world.buffer(MIB, AllocationDesc::default()).map(drop);
        assert_eq!(made.err(), (name == "nothing").then_some(Error::Device(error)), "{name}");
        assert_eq!(world.faults.failed(Call::Prepare), 1, "{name}");
        drop(held);
        world.finish();
    }
}
