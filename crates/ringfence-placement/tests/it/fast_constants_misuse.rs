//! Fast constants with an invalid description, or with a program's callback that frees no memory for them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::placement::FastConstantsDesc;
use ringfence::sim::{Device, Profile, SimOptions};
use ringfence::upload::UploadError;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Dedicated, FastConstants, Location, Timeline};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn world(host_bytes: u64) -> (Allocator<Device>, Timeline<Device>) {
    let mut profile = Profile::d3d12_tier1();
    profile.capabilities.memory_heaps[1].bytes = host_bytes;
    let device = Device::new(profile, SimOptions::default());
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    // SAFETY: the fence lives as long as the device, and every frame that is submitted signals it.
    let timeline = unsafe { memory.timeline(device.create_fence(0)) }.expect("the device is not lost");
    (memory, timeline)
}

/// All sizes of a page and of a buddy: the limits of 64 bits, and sizes around powers of two.
#[test]
fn sizes_at_the_edge_of_64_bits_are_refused_or_served_and_never_overflow() {
    let around = |bytes: u64| [bytes.wrapping_sub(1), bytes, bytes.wrapping_add(1)];
    let edges: Vec<u64> = [0, 1 << 10, 1 << 31, 1 << 32, 1 << 42, 1 << 61, 1 << 62, 1 << 63].map(around).concat();
    for &page_bytes in &edges {
        for &buddy_bytes in &edges {
            for pages_max in [0, 1, u32::MAX] {
                let (memory, timeline) = world(64 * MIB);
                let desc = FastConstantsDesc { page_bytes, buddy_bytes, pages_max, ..Default::default() };
                let fast = FastConstants::new(&memory, desc);
                let frame = timeline.begin();
                let mut writer = fast.writer(&frame).expect("of this allocator");
                let wrote = writer.write(&[1; 100]);
                assert!(pages_max > 0 || wrote.is_err(), "{desc:?}");
                let small = (256..=16 * MIB).contains(&page_bytes) && buddy_bytes <= 32 * MIB;
                assert!(pages_max == 0 || !small || wrote.is_ok(), "{desc:?}: {:?}", wrote.err());
                let _ = fast.snapshot();
            }
        }
    }
}

#[test]
fn memory_that_the_host_does_not_see_is_refused_by_name() {
    let (memory, timeline) = world(64 * MIB);
    let fast = FastConstants::new(&memory, FastConstantsDesc { location: Location::Device, ..Default::default() });
    let frame = timeline.begin();
    let refused = fast.writer(&frame).and_then(|mut writer| writer.write(&[1; 100]).map(drop));
    assert!(matches!(refused, Err(UploadError::Device(_))), "{refused:?}");
    assert_eq!(fast.snapshot().used_bytes, 0, "no page is spent on it");
    assert_eq!(memory.statistics().calls.allocate_memory, 0, "nor memory");
}

/// If a callback panics while a page is created, no page is lost: all of them are available afterwards.
#[test]
fn a_panic_in_the_eviction_callback_costs_no_page() {
    let (memory, timeline) = world(MIB);
    let alone = AllocationDesc { location: Location::Upload, dedicated: Dedicated::Always, ..Default::default() };
    let desc = BufferDesc { size: 1000 * KIB, usage: BufferUsage::COPY_SRC };
    let hog = memory.create_buffer(&desc, alone).expect("there is room");
    let desc = FastConstantsDesc { page_bytes: 64 * KIB, buddy_bytes: 64 * KIB, pages_max: 4, ..Default::default() };
    let fast = FastConstants::new(&memory, desc);
    let frame = timeline.begin();
    let mut writer = fast.writer(&frame).expect("of this allocator");
    memory.budgets().set_eviction(Some(Box::new(|_| panic!("the program's own"))));
    for round in 0..20 {
        let panicked = catch_unwind(AssertUnwindSafe(|| writer.write(&[1; 100]).map(drop)));
        assert!(panicked.is_err(), "round {round}: the callback is called");
        assert_eq!(fast.snapshot().used_bytes, 0, "round {round}");
    }
    memory.budgets().set_eviction(None);
    let refused = writer.write(&[1; 100]).map(drop);
    assert!(matches!(refused, Err(UploadError::Growth(_))), "{refused:?}");
    assert_eq!(fast.snapshot().used_bytes, 0);
    // SAFETY: no submission uses it.
    unsafe { hog.destroy_now() };
    for _ in 0..4 {
        writer.write(&vec![1; 64 << 10]).expect("four pages may be in use");
    }
    assert!(matches!(writer.write(&vec![1; 64 << 10]).map(drop), Err(UploadError::Full { .. })));
    assert_eq!(fast.snapshot().used_bytes, 4 * 64 * KIB);
    memory.debug().validate().expect("sound");
}
