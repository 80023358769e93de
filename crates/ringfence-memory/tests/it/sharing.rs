//! Shared memory on the simulated device: failures of the driver, and programs that break the rules.

use ringfence::debugging::DebugDesc;
use ringfence::device::fault::Rule;
use ringfence::device::sharing::Tied;
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, Driver, MemoryDesc, ResourceClass};
use ringfence::memory::PoolDesc;
use ringfence::sharing::{Share, ShareError, ShareKind};
use ringfence::sim::{self, Profile, SimOptions};
use ringfence::{AllocationDesc, AllocatorDesc, sharing};
use ringfence_testkit::fixture::{FaultyFixture, FixtureDesc};

const PAGE: u64 = 64 << 10;

fn info(size: u64) -> BufferDesc {
    BufferDesc { size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST }
}

fn world(debug: DebugDesc) -> FaultyFixture {
    let allocator = AllocatorDesc { debug, ..Default::default() };
    FaultyFixture::faulty(FixtureDesc { allocator, timelines: 0, ..Default::default() })
}

/// Exports and imports. The first failure ends it.
fn program(world: &FaultyFixture) -> Result<(), Box<dyn std::error::Error>> {
    let memory = &world.memory;
    let share = AllocationDesc { name: "shared", share: Some(ShareKind::Simulated), ..Default::default() };
    let exported = memory.create_buffer(&info(1000), share)?;
    let (handle, layout) = exported.export()?;
    // SAFETY: the handle was just created for this description.
    let imported = unsafe { sharing::import_buffer(memory, &info(1000), handle, &layout, AllocationDesc::default()) }?;
    drop(exported);
    drop(imported);
    world.device.run_until_idle();
    memory.reclaim();
    Ok(())
}

#[test]
fn each_call_fails_once_and_nothing_is_leaked() {
    for debug in [DebugDesc::default(), DebugDesc::everything()] {
        let without_faults = world(debug);
        program(&without_faults).expect("only requested calls fail");
        let calls = without_faults.faults.calls();
        without_faults.finish();
        assert!(calls >= 5, "the program makes {calls} calls that can fail");
        for nth in 0..calls {
            let world = world(debug);
            world.faults.add(Rule::nth(nth, DeviceError::Other(-7)));
            _ = program(&world);
            assert_eq!(world.faults.injected(), 1, "call {nth}");
            world.device.run_until_idle();
            world.finish();
        }
    }
}

#[test]
fn a_handle_of_another_device_is_refused_by_the_driver_too() {
    let devices = [0, 1].map(|seed| sim::Device::new(Profile::h200(), SimOptions { seed, ..Default::default() }));
    let share = Some(ShareKind::Simulated);
    let (size, alignment, class) = (PAGE, 1, ResourceClass::Buffer);
    let desc = MemoryDesc { priority: Default::default(), memory_type: 1, size, alignment, class, name: "", share };
    // SAFETY: the simulated device rejects mistakes.
    unsafe {
        let memory = devices[0].allocate_memory(&desc).expect("there is room");
        let export = || devices[0].export_memory(&memory, ShareKind::Simulated).expect("it is shareable");
        let foreign = devices[1].import_memory(export(), &desc, Tied::Nothing);
        assert!(matches!(foreign, Err(DeviceError::InvalidInfo(_))), "{foreign:?}");
        let wrong = MemoryDesc { size: 2 * PAGE, ..desc };
        let wrong = devices[0].import_memory(export(), &wrong, Tied::Nothing);
        assert!(matches!(wrong, Err(DeviceError::InvalidInfo(_))), "{wrong:?}");
        let plain = devices[0].allocate_memory(&MemoryDesc { share: None, ..desc }).expect("there is room");
        let refused = devices[0].export_memory(&plain, ShareKind::Simulated);
        assert!(matches!(refused, Err(DeviceError::InvalidInfo(_))), "{refused:?}");
        devices[0].free_memory(plain);
        let handle = export();
        devices[0].free_memory(memory);
        assert_eq!(devices[0].live().memories, 1, "a handle keeps the bytes alive");
        drop(handle);
    }
    assert_eq!(devices[0].live(), sim::Live::default());
}

/// The second buffer of a block begins behind the first one. With debugging on, its import has the bytes from there to
/// the end of the memory.
#[test]
fn an_import_from_the_middle_of_a_block_has_the_bytes_from_there() {
    let world = world(DebugDesc::everything());
    let share = Some(ShareKind::Simulated);
    let pool = PoolDesc { memory_type: 1, share, block_bytes: 1 << 20, ..Default::default() };
    let pool = world.memory.create_pool(pool).expect("such a pool");
    let buffers = [(); 2].map(|()| pool.create_buffer(&info(4096), AllocationDesc::default()).expect("room"));
    let (handle, layout) = buffers[1].export().expect("it is shared");
    assert!(layout.offset >= 4096, "{layout:?}");
    let desc = AllocationDesc { name: "imported", ..Default::default() };
    // SAFETY: the handle was just created for this description.
    let made = unsafe { sharing::import_buffer(&world.memory, &info(4096), handle, &layout, desc) }.expect("it fits");
    let live = world.memory.debug().live();
    let found = live.iter().find(|range| &*range.name == "imported").expect("it is live");
    assert_eq!((found.size, made.size()), ((1 << 20) - layout.offset, 4096));
    drop((made, buffers, pool));
    world.finish();
}

/// An import cannot exceed the exported range: the next range of the block is after it.
#[test]
fn more_than_was_exported_is_not_imported() {
    let world = world(DebugDesc::default());
    let share = Some(ShareKind::Simulated);
    let pool = PoolDesc { memory_type: 1, share, block_bytes: 1 << 20, ..Default::default() };
    let pool = world.memory.create_pool(pool).expect("such a pool");
    let buffers = [(); 2].map(|()| pool.create_buffer(&info(4096), AllocationDesc::default()).expect("room"));
    let import = |size| {
        let (handle, layout) = buffers[0].export().expect("it is shared");
        // SAFETY: the handle matches this description, or is rejected.
        unsafe { sharing::import_buffer(&world.memory, &info(size), handle, &layout, AllocationDesc::default()) }
    };
    assert_eq!(import(8192).err(), Some(ShareError::Larger { size: 8192, exported_bytes: 4096 }));
    assert_eq!(import(4096).map(|buffer| buffer.size()), Ok(4096));
    drop((buffers, pool));
    world.finish();
}

/// A device that can only import memory of a kind refuses to create resources for export, in an error that says so.
#[test]
fn a_device_that_only_imports_creates_nothing_for_export() {
    for can_export in [true, false] {
        let profile = Profile { can_export, ..Profile::h200() };
        let world = FaultyFixture::faulty(FixtureDesc { profile, timelines: 0, ..Default::default() });
        let support = sharing::buffer_support(&world.memory, &info(1000), ShareKind::Simulated);
        assert_eq!((support.can_export, support.can_import), (can_export, true));
        let desc = AllocationDesc { share: Some(ShareKind::Simulated), ..Default::default() };
        let made = world.memory.create_buffer(&info(1000), desc);
        match &made {
            Ok(buffer) => assert!(can_export && buffer.export().is_ok()),
            Err(error) => assert!(!can_export && error.to_string().contains("can only import"), "{error}"),
        }
        assert_eq!(world.device.calls().allocate_memory, u64::from(can_export), "nothing is created in vain");
        drop(made);
        world.finish();
    }
}
