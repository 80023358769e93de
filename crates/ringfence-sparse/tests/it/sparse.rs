//! Sparse buffers and textures on the simulated device: failures of the driver, and programs that break the rules.

use ringfence::debugging::DebugDesc;
use ringfence::device::fault::Rule;
use ringfence::device::sparse::PageBind;
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, MemoryDesc, ResourceClass, TextureDesc,
};
use ringfence::sim::{self, HazardKind, Profile, SimOptions};
use ringfence::sparse::{Sparse, SparseBuffer, SparseTexture};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_testkit::fixture::{FaultyFixture, Fixture, FixtureDesc};

const PAGE: u64 = 64 << 10;

fn info(size: u64) -> BufferDesc {
    BufferDesc { size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST }
}

fn world(debug: DebugDesc) -> FaultyFixture {
    let allocator = AllocatorDesc { debug, ..Default::default() };
    FaultyFixture::faulty(FixtureDesc { allocator, timelines: 0, ..Default::default() })
}

/// Binds and unbinds. The first failure ends it.
fn program(world: &FaultyFixture) -> Result<(), Box<dyn std::error::Error>> {
    let memory = &world.memory;
    let mut sparse = SparseBuffer::new(memory, &info(64 * PAGE), AllocationDesc { name: "s", ..Default::default() })?;
    sparse.bind(0..40)?;
    let fence = world.device.create_fence(0);
    for value in 1..4 {
        // SAFETY: there is no timeline, so no submission uses the pages. The queue and the fence belong to the device.
        unsafe { sparse.submit(&0, &[], (fence, value)) }?;
        assert_eq!(sparse.batch(), []);
        sparse.unbind(value * 5..value * 9)?;
        sparse.bind(40..40 + value)?;
    }
    let picture = TextureDesc { width: 512, height: 512, mips: 10, ..Default::default() };
    let mut tiles = SparseTexture::new(memory, &picture, AllocationDesc { name: "t", ..Default::default() })?;
    tiles.bind(tiles.whole(0, 0))?;
    for value in 4..7 {
        // SAFETY: as above.
        unsafe { tiles.submit(&0, &[], (fence, value)) }?;
        assert_eq!(tiles.batch(), []);
        tiles.unbind(ringfence::device::TexelBox { y: 100 * (value as u32 - 4), height: 1, ..tiles.whole(0, 0) })?;
        tiles.bind(tiles.whole(value as u32, 0))?;
    }
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
        assert!(calls > 8, "the program makes {calls} calls that can fail");
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
fn a_batch_that_the_driver_refuses_is_still_pending() {
    let world = world(DebugDesc::default());
    let fence = world.device.create_fence(0);
    let mut sparse = SparseBuffer::new(&world.memory, &info(8 * PAGE), AllocationDesc::default()).expect("room");
    sparse.bind(1..3).expect("there is room");
    let batch = sparse.batch();
    let refuse = ringfence::device::fault::Call::BindPages;
    world.faults.add(Rule { call: Some(refuse), count: 1, ..Rule::new(DeviceError::OutOfHostMemory) });
    // SAFETY: no submission uses the pages; the same holds below.
    let refused = unsafe { sparse.submit(&0, &[], (fence, 1)) };
    assert_eq!(refused, Err(DeviceError::OutOfHostMemory));
    assert_eq!((sparse.batch(), sparse.behind(1).is_none()), (batch, true));
    // SAFETY: as above.
    unsafe { sparse.submit(&0, &[], (fence, 1)) }.expect("it is not refused again");
    assert!(sparse.behind(1).is_some() && sparse.batch().is_empty());
    drop(sparse);
    world.device.run_until_idle();
    world.finish();
}

#[test]
fn memory_of_a_page_that_is_given_to_another_too_early_is_found() {
    let device = sim::Device::new(Profile::h200(), SimOptions::default());
    let desc = MemoryDesc {
        priority: Default::default(),
        memory_type: 1,
        size: 4 * PAGE,
        alignment: PAGE,
        class: ResourceClass::Buffer,
        name: "pages",
        share: None,
    };
    let fence = device.create_fence(0);
    // SAFETY: the simulated device accepts any call; the mistake below is only a hazard.
    unsafe {
        let memory = device.allocate_memory(&desc).expect("there is room");
        let (sparse, _) = device.make_sparse(&info(8 * PAGE)).expect("the device supports it");
        let bound = PageBind { first: 2, count: 1, memory: Some((&memory, PAGE)) };
        device.bind_pages(&0, (&sparse, PAGE), &[bound], &[], (fence, 1)).expect("alive");
        device.pause(0);
        let fill = sim::Command::FillBuffer { dst: sparse, offset: 2 * PAGE, size: PAGE, value: 1 };
        device.submit(0, &[], vec![fill], (fence, 2)).expect("alive");
        let unbound = PageBind { memory: None, ..bound };
        device.bind_pages(&0, (&sparse, PAGE), &[unbound], &[], (fence, 3)).expect("alive");
        // The fill has not run yet.
        let (other, _) = Create::<Buffers>::prepare(&device, &info(PAGE)).expect("plain");
        Create::<Buffers>::place(&device, &other, &memory, PAGE).expect("it fits");
        let hazards = device.take_hazards();
        assert_eq!(hazards.len(), 1, "{hazards:?}");
        assert_eq!(hazards[0].kind, HazardKind::PlacedWhilePending);
        assert_eq!(hazards[0].pending.map(|pending| (pending.queue, pending.value)), Some((0, 2)));
        device.resume(0);
        assert!(device.run_until_idle());
        Create::<Buffers>::destroy(&device, other);
        Create::<Buffers>::destroy(&device, sparse);
        device.free_memory(memory);
    }
    assert_eq!(device.hazards(), []);
}

#[test]
fn unbound_pages_read_as_the_device_says() {
    for (profile, expected) in [(Profile::h200(), 0), (Profile::d3d12_tier1(), 0xcd)] {
        let device = sim::Device::new(profile, SimOptions::default());
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        let sparse =
            SparseBuffer::new(&memory, &info(4 * PAGE), AllocationDesc::default()).expect("the device supports it");
        let back =
            memory.create_buffer(&info(100), AllocationDesc { share: None, ..Default::default() }).expect("room");
        let fence = device.create_fence(0);
        let (src, dst) = (*sparse.object(), *back.object());
        let fill = |dst| sim::Command::FillBuffer { dst, offset: 0, size: 100, value: 7 };
        let copy = sim::Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 100 };
        device.submit(0, &[], vec![fill(dst), fill(src), copy], (fence, 1)).expect("alive");
        assert!(device.run_until_idle());
        let found = device.peek(sim::BufferRange::new(dst, 0, 100)).expect("inside");
        assert!(found.iter().all(|&byte| byte == expected), "{found:?}");
        assert_eq!(device.hazards(), []);
    }
}

#[test]
fn no_bytes_have_no_pages() {
    let world = world(DebugDesc::default());
    let sparse = SparseBuffer::new(&world.memory, &info(8 * PAGE), AllocationDesc::default()).expect("room");
    let pages = |start, end| sparse.pages_of(std::ops::Range { start, end });
    assert_eq!([pages(5, 5), pages(5, 2), pages(3 * PAGE, 3 * PAGE)], [0..0, 0..0, 3..3]);
    assert_eq!([pages(PAGE + 5, 2), pages(5, 6), pages(5, PAGE + 1)], [1..1, 0..1, 0..2]);
    drop(sparse);
    world.finish();
}

#[test]
fn a_sparse_resource_is_destroyed_with_its_pages() {
    let world = world(DebugDesc::default());
    let mut sparse = SparseBuffer::new(&world.memory, &info(64 * PAGE), AllocationDesc::default()).unwrap();
    sparse.bind(0..20).unwrap();
    let fence = world.device.create_fence(0);
    // SAFETY: there is no timeline, so no submission uses the pages. The queue and the fence belong to the device.
    unsafe { sparse.submit(&0, &[], (fence, 1)) }.unwrap();
    sparse.unbind(0..5).unwrap();
    sparse.bind(30..40).unwrap();
    world.device.run_until_idle();
    drop(sparse);
    let reclaimed = world.memory.retirement().reclaim_at_most(1);
    assert_eq!((reclaimed.objects, reclaimed.waiting), (1, 0));
    assert_eq!(world.device.take_hazards(), []);
}

/// Pages are freed only after the object that they back, even if different threads destroy them.
#[test]
fn pages_outlive_their_object_on_any_thread() {
    const THREADS: usize = 4;
    let options = SimOptions { queues: THREADS, ..Default::default() };
    let world = Fixture::new(FixtureDesc { timelines: THREADS, options, ..Default::default() });
    std::thread::scope(|scope| {
        for (queue, (timeline, fence)) in world.timelines.iter().zip(&world.fences).enumerate() {
            let world = &world;
            scope.spawn(move || {
                for step in 0..500 {
                    let info = info(40 * PAGE);
                    let mut sparse = SparseBuffer::new(&world.memory, &info, AllocationDesc::default()).unwrap();
                    sparse.bind(0..20).unwrap();
                    let frame = timeline.begin();
                    // SAFETY: within the frame; no other work uses the pages.
                    unsafe { sparse.submit(&queue, &[], (*fence, frame.value())) }.unwrap();
                    timeline.submitted(frame).unwrap();
                    drop(sparse);
                    if step % 4 == 0 {
                        world.device.advance(8);
                        world.memory.reclaim();
                    }
                }
            });
        }
    });
    assert_eq!(world.device.take_hazards(), []);
    world.finish();
}
