//! The counts of a reclaim and of a shutdown, compared with the number of dropped objects and the device's own counts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence::device::BufferUsage;
use ringfence::memory::DescriptorSnapshot;
use ringfence::placement::{BufferRequest, Placement, PlacementDesc, Strategy};
use ringfence::sim::{Command, Device, Fence};
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Dedicated, Timeline};
use ringfence_memory::extend::{Passed, ReclaimHeap, Shared};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

const KIB: u64 = 1 << 10;

fn fixture() -> Fixture {
    let allocator = AllocatorDesc { recycled_bytes_max: 0, ..Default::default() };
    Fixture::new(FixtureDesc { allocator, ..Default::default() })
}

fn buffer(world: &Fixture) -> Buffer<Device> {
    world.buffer(4 * KIB, AllocationDesc::default()).expect("room")
}

/// Creates a placement with a buffer in a block of its own.
fn placed(world: &Fixture) -> (Placement<Device>, ringfence::placement::BufferLocation<Device>) {
    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("a sound description");
    let request = BufferRequest {
        size: 100_000,
        usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST,
        strategy: Some(Strategy::Placed),
        ..Default::default()
    };
    let made = placement.create_buffer(&request).expect("room");
    (placement, made)
}

fn freed(world: &Fixture) -> usize {
    world.device.calls().free_memory as usize
}

/// A bounded reclaim destroys the oldest objects first, and counts those that are left.
#[test]
fn a_bounded_reclaim_counts_what_it_leaves() {
    let world = fixture();
    drop([(); 5].map(|()| buffer(&world)));
    let frame = world.timeline().begin();
    drop([(); 2].map(|()| buffer(&world)));
    let live = world.device.live().buffers;
    let counts = |most| {
        let done = world.memory.retirement().reclaim_at_most(most);
        (done.objects, done.waiting)
    };
    assert_eq!([counts(0), counts(2), counts(2), counts(9)], [(0, 7), (2, 5), (2, 3), (1, 2)]);
    assert_eq!(live - world.device.live().buffers, 5);
    world.complete(frame);
    assert_eq!(counts(9), (2, 0));
    world.finish();
}

/// A shutdown counts objects and blocks that it frees before it waits, after it has waited, and at its end.
#[test]
fn a_shutdown_counts_all_that_it_frees() {
    let world = fixture();
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    // Three blocks: of a placement that is idle, of one that is in use, and of the allocator.
    let (idle, used) = (placed(&world), placed(&world));
    let own = [(); 4].map(|()| buffer(&world));
    let dedicated = world.buffer(4 * KIB, alone).expect("room");
    drop(idle);
    world.device.pause(0);
    let frame = world.timeline().begin();
    drop(used);
    drop((own, dedicated));
    world.submit_frame(frame, vec![]);
    let (memories, before) = (world.device.live().memories, freed(&world));
    world.device.resume(0);
    let retired = world.memory.statistics().retired_count as usize;
    let ended = world.memory.shutdown(Duration::MAX).expect("all work completes");
    assert_eq!((ended.objects, ended.waiting, ended.device_lost), (retired, 0, false));
    assert_eq!(freed(&world) - before, memories as usize, "all memory is freed");
    // Dedicated memory is freed with its resource, and counts as an object.
    assert_eq!(ended.blocks, memories as usize - 1);
    world.finish();
}

/// A registered heap whose `reclaim` runs one step, the last of `steps` first. It closes when no step is left.
struct Late {
    steps: Mutex<Vec<Step>>,
}

type Step = Box<dyn FnOnce() + Send>;

impl ReclaimHeap<Device> for Late {
    fn reclaim(&self, _: &Shared<Device>, _: &Passed, _: bool, _: bool) -> bool {
        let step = self.steps.lock().expect("no step panics").pop();
        let goes_on = step.is_some();
        step.into_iter().for_each(|step| step());
        goes_on
    }

    fn snapshot(&self, _: &mut Vec<DescriptorSnapshot>) {}

    unsafe fn destroy(&self, _: &Shared<Device>) {}
}

/// Objects and blocks that are released while a shutdown is under way are waited for and counted.
#[test]
fn a_shutdown_counts_what_is_released_during_it() {
    let world = fixture();
    let (first, second) = (placed(&world), placed(&world));
    let (early, late) = (buffer(&world), [(); 2].map(|()| buffer(&world)));
    let (timeline, fence, device): (Timeline<Device>, Fence, Device) =
        (world.timeline().clone(), world.fence(), world.device.clone());
    let resumed = device.clone();
    let nothing = || Box::new(|| ()) as Step;
    // The shutdown reclaims before it waits, after it has waited, and until nothing is left. In the third reclaim one
    // placement and one buffer are idle, the others are in use by a frame that completes later.
    let release = Box::new(move || {
        drop((first, early));
        device.pause(0);
        let frame = timeline.begin();
        drop((second, late));
        device.submit(0, &[], Vec::<Command>::new(), (fence, frame.value())).expect("the device is not lost");
        timeline.submitted(frame).expect("in order");
    });
    let complete = Box::new(move || {
        resumed.resume(0);
        assert!(resumed.run_until_idle());
    });
    let steps = Mutex::new(vec![complete as Step, release, nothing(), nothing()]);
    world.memory.shared().add_heap(Arc::new(Late { steps }));
    let (memories, before) = (world.device.live().memories, freed(&world));
    let ended = world.memory.shutdown(Duration::MAX).expect("all work completes");
    assert_eq!((ended.objects, ended.waiting), (5, 0), "two placed buffers and three others");
    assert_eq!(freed(&world) - before, memories as usize);
    assert_eq!(ended.blocks, memories as usize);
    world.finish();
}
