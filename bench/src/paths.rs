//! Paths other than range allocation: rings, pages, retirement, descriptor slots. Times only.

use crate::output::{Report, Row, Value};
use gpu_descriptor::{DescriptorAllocator, DescriptorSet, DescriptorSetLayoutCreateFlags};
use gpu_descriptor_types as descriptors;
use ringfence::descriptor::{CpuDescriptorHeap, CpuHeapDesc};
use ringfence::lifetime::RetireBin;
use ringfence::placement::FastConstantsDesc;
use ringfence::sim::{self, Profile, SimOptions};
use ringfence::{Allocator, AllocatorDesc, FastConstants};
use ringfence_core::buddy::Buddy;
use ringfence_core::free_list::FreeList;
use ringfence_core::linear::Linear;
use ringfence_core::range::{Allocate, Range};
use ringfence_core::retire::RetireQueue;
use ringfence_core::ring::Ring;
use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
use ringfence_lockfree::fixed_pool::FixedPool;
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of operations in a repetition.
const OPERATIONS: u64 = 200_000;

/// A path; `run` returns nanoseconds per operation.
struct Path {
    group: &'static str,
    name: &'static str,
    ours: bool,
    run: fn() -> f64,
}

fn per_operation(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

/// Measures a ring: 100 allocations a frame, three frames in flight, alignment 256. Only allocations count as
/// operations; the time includes releases.
fn ring() -> f64 {
    let mut ring = Ring::new(1 << 20);
    let start = Instant::now();
    for frame in 0..OPERATIONS / 100 {
        for _ in 0..100 {
            let part = ring.allocate(black_box(200), black_box(256), &frame);
            black_box(part.expect("three frames fit"));
        }
        ring.release_while(|&tag| tag + 3 <= frame);
    }
    per_operation(start)
}

/// Measures the same with VMA's virtual block and its linear algorithm, which VMA recommends as a ring. Ranges are
/// freed one by one.
/// one.
fn vma_ring() -> f64 {
    let flags = vk_mem::VirtualBlockCreateFlags::VMA_VIRTUAL_BLOCK_CREATE_LINEAR_ALGORITHM_BIT;
    let info = vk_mem::VirtualBlockCreateInfo { size: 1 << 20, flags, ..Default::default() };
    let mut block = vk_mem::VirtualBlock::new(info).expect("it takes host memory alone");
    let mut frames: VecDeque<Vec<vk_mem::VirtualAllocation>> = VecDeque::new();
    let mut spare = Vec::new();
    let start = Instant::now();
    for _ in 0..OPERATIONS / 100 {
        let mut held: Vec<_> = spare.pop().unwrap_or_default();
        for _ in 0..100 {
            let flags = vk_mem::VirtualAllocationCreateFlags::empty();
            let info = vk_mem::VirtualAllocationCreateInfo {
                size: black_box(200),
                alignment: black_box(256),
                user_data: 0,
                flags,
            };
            // SAFETY: the block is alive, and only this thread uses it.
            held.push(unsafe { block.allocate(info) }.expect("three frames fit").0);
        }
        frames.push_back(held);
        if frames.len() > 3
            && let Some(mut oldest) = frames.pop_front()
        {
            for mut held in oldest.drain(..) {
                // SAFETY: the allocation came from this block and is freed once.
                unsafe { block.free(&mut held) };
            }
            spare.push(oldest);
        }
    }
    let ns = per_operation(start);
    // SAFETY: no allocation of the block is used afterwards.
    unsafe { block.clear() };
    ns
}

fn linear() -> f64 {
    let mut page = Linear::new(64 << 10);
    let start = Instant::now();
    for _ in 0..OPERATIONS / 200 {
        for _ in 0..200 {
            black_box(page.allocate(black_box(200), black_box(256)).expect("200 fit"));
        }
        page.reset();
    }
    per_operation(start)
}

/// Constants of `BYTES` for one draw each, 200 a frame, written as programs do: into the thread's page of fast
/// constants, including the copy. On the first Vulkan device, because the simulated device would add its own checks; 0
/// without a device.
fn fast_constants<const BYTES: usize>() -> f64 {
    let options = Options { name: std::env::var("RINGFENCE_BENCH_DEVICE").ok(), ..Default::default() };
    let Ok(gpu) = VulkanGpu::open(&options) else { return 0.0 };
    let memory = Allocator::over(gpu.device().clone(), AllocatorDesc::default());
    // SAFETY: no work is submitted; the fence outlives the allocator.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
    let fast = FastConstants::new(&memory, FastConstantsDesc::default());
    let first = timeline.begin();
    let mut writer = fast.writer(&first).expect("its own frame");
    first.discard();
    let content = [7; BYTES];
    let mut writing = Duration::ZERO;
    for _ in 0..OPERATIONS / 200 {
        let frame = timeline.begin();
        writer.begin(&frame).expect("its own frame");
        let start = Instant::now();
        for _ in 0..200 {
            _ = black_box(writer.write(black_box(&content)).expect("there is a page"));
        }
        writing += start.elapsed();
        frame.discard();
        memory.reclaim();
    }
    writing.as_nanos() as f64 / OPERATIONS as f64
}

/// Measures the same bytes at the same offsets, written by hand: the cost of the copy alone.
fn constants_by_hand<const BYTES: usize>() -> f64 {
    const PAGE: usize = 64 << 10;
    let mut pages = vec![0_u8; 4 * PAGE];
    let content = [7; BYTES];
    let mut writing = Duration::ZERO;
    for frame in 0..OPERATIONS / 200 {
        let page = &mut pages[frame as usize % 4 * PAGE..][..PAGE];
        let start = Instant::now();
        for draw in 0..200 {
            let content = black_box(content.as_slice());
            let at = black_box(draw * 256);
            page[at..at + content.len()].copy_from_slice(content);
        }
        writing += start.elapsed();
        black_box(&pages);
    }
    writing.as_nanos() as f64 / OPERATIONS as f64
}

/// Measures 200 items a frame for one timeline, released two frames later. An operation is the retirement and release
/// of an item.
fn retire() -> f64 {
    let mut queue = RetireQueue::new();
    let start = Instant::now();
    for frame in 1..=OPERATIONS / 200 {
        let set = SyncSet::from(SyncPoint::new(TimelineId::new(0), frame));
        for item in 0..200_u64 {
            queue.retire(black_box(&set), black_box(item));
        }
        queue.reclaim([frame.saturating_sub(2)].as_slice(), |item| {
            black_box(item);
        });
    }
    let ns = per_operation(start);
    queue.release_all(drop);
    ns
}

fn retire_batch() -> f64 {
    let mut queue = RetireQueue::new();
    let start = Instant::now();
    for frame in 1..=OPERATIONS / 200 {
        let set = SyncSet::from(SyncPoint::new(TimelineId::new(0), frame));
        queue.retire_batch(black_box(&set), black_box(0..200_u64));
        queue.reclaim([frame.saturating_sub(2)].as_slice(), |item| {
            black_box(item);
        });
    }
    let ns = per_operation(start);
    queue.release_all(drop);
    ns
}

/// Measures a queue of (frame, item), as programs write it by hand.
fn retire_by_hand() -> f64 {
    let mut queue = VecDeque::new();
    let start = Instant::now();
    for frame in 1..=OPERATIONS / 200 {
        for item in 0..200_u64 {
            queue.push_back((black_box(frame), black_box(item)));
        }
        while queue.front().is_some_and(|&(value, _)| value + 2 <= frame) {
            black_box(queue.pop_front());
        }
    }
    per_operation(start)
}

/// Measures 1,000 live single descriptors in a heap of 65,536. An operation is a free or an allocation.
fn slots<A: Allocate<Allocation = Range>>(mut heap: A) -> f64
where
    A::Error: std::fmt::Debug,
{
    let mut live: Vec<_> = (0..1000).map(|_| heap.allocate(1, 1).expect("there are 65,536")).collect();
    let start = Instant::now();
    for number in 0..OPERATIONS as usize / 2 {
        let slot = number * 7919 % live.len();
        heap.free(live[slot]).expect("it is live");
        live[slot] = heap.allocate(1, 1).expect("there are 65,536");
    }
    let ns = per_operation(start);
    black_box(&live);
    ns
}

/// Measures the same through the public interface: for any thread, with a value that frees its slot on drop. Makes no
/// driver calls.
fn public_slots() -> f64 {
    let desc = CpuHeapDesc { block_slots: 65_536, ..Default::default() };
    let heap = CpuDescriptorHeap::new(&simulated(), desc).expect("few enough slots");
    let mut live: Vec<_> = (0..1000).map(|_| heap.allocate(1).expect("there are 65,536")).collect();
    let start = Instant::now();
    for number in 0..OPERATIONS as usize / 2 {
        let slot = number * 7919 % live.len();
        drop(live.swap_remove(slot));
        live.push(heap.allocate(1).expect("there are 65,536"));
    }
    let ns = per_operation(start);
    black_box(&live);
    ns
}

/// Measures the same with a pool for any thread, without values that free slots.
fn pool_slots() -> f64 {
    let pool = FixedPool::new(1, 65_536);
    let mut live: Vec<_> = (0..1000).map(|_| pool.allocate_near(1).expect("there are 65,536")).collect();
    let start = Instant::now();
    for number in 0..OPERATIONS as usize / 2 {
        let slot = number * 7919 % live.len();
        pool.free_near(1, live[slot]).expect("it is live");
        live[slot] = pool.allocate_near(1).expect("there are 65,536");
    }
    let ns = per_operation(start);
    black_box(&live);
    ns
}

/// Returns an allocator on a device that these paths do not call.
fn simulated() -> Allocator<sim::Device> {
    Allocator::over(sim::Device::new(Profile::h200(), SimOptions::default()), AllocatorDesc::default())
}

/// Measures objects of 112 bytes in a bin for any thread, taken out once per frame of 200, two frames later.
fn retire_in_a_bin() -> f64 {
    let (bin, mut passed) = (RetireBin::new(), Vec::new());
    let start = Instant::now();
    for frame in 1..=OPERATIONS / 200 {
        let set = SyncSet::from(SyncPoint::new(TimelineId::new(0), frame));
        for item in 0..200_u64 {
            bin.retire(black_box(&set), black_box([item; 14]));
        }
        bin.collect([frame.saturating_sub(2)].as_slice(), usize::MAX, &mut passed);
        black_box(&passed);
        passed.clear();
    }
    per_operation(start)
}

/// Measures the same with the allocator's own timeline, as its buffers are retired: a frame begins and completes every
/// 200 items. Retires one item at a time, or all items of a frame in one call.
fn retire_by_the_allocator(in_one_go: bool) -> f64 {
    let device = sim::Device::new(Profile::h200(), SimOptions::default());
    let fence = device.create_fence(0);
    let memory = Allocator::over(device, AllocatorDesc::default());
    // SAFETY: no work is submitted.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let (bin, mut items) = (RetireBin::new(), Vec::new());
    let start = Instant::now();
    for _ in 0..OPERATIONS / 200 {
        let frame = timeline.begin();
        for item in 0..200_u64 {
            if in_one_go {
                items.push(black_box([item; 14]));
            } else {
                memory.retirement().retire_into(&bin, black_box([item; 14]));
            }
        }
        memory.retirement().retire_all_into(&bin, &mut items);
        frame.discard();
        let each = |object| _ = black_box(object);
        memory.retirement().release_from(&bin, usize::MAX, each).expect("the device is not lost");
    }
    per_operation(start)
}

/// Measures objects of 112 bytes that the program stores before and after, as it stores its buffers. They are retired
/// by the allocator's timeline, which begins and completes a frame every 200, and return to the program's vector.
fn retire_what_is_held() -> f64 {
    let device = sim::Device::new(Profile::h200(), SimOptions::default());
    let fence = device.create_fence(0);
    let memory = Allocator::over(device, AllocatorDesc::default());
    // SAFETY: no work is submitted.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let (bin, mut held) = (RetireBin::new(), (0..200).map(|item| [item; 14]).collect::<Vec<[u64; 14]>>());
    let start = Instant::now();
    for _ in 0..OPERATIONS / 200 {
        let frame = timeline.begin();
        black_box(&mut held).drain(..).for_each(|object| memory.retirement().retire_into(&bin, object));
        frame.discard();
        let released = memory.retirement().release_from(&bin, usize::MAX, |object| held.push(object));
        assert_eq!(released, Ok(200));
    }
    per_operation(start)
}

/// Measures the same with an explicit set of points, two frames of 200 later.
fn retire_what_is_held_in_a_bin() -> f64 {
    let (bin, mut held) = (RetireBin::new(), (0..600).map(|item| [item; 14]).collect::<Vec<[u64; 14]>>());
    let start = Instant::now();
    for frame in 1..=OPERATIONS / 200 {
        let set = SyncSet::from(SyncPoint::new(TimelineId::new(0), frame));
        black_box(&mut held).drain(..200).for_each(|object| bin.retire(black_box(&set), object));
        bin.release([frame.saturating_sub(2)].as_slice(), usize::MAX, |object| held.push(object));
    }
    per_operation(start)
}

/// Measures the loops above without a bin: objects of 112 bytes pushed to and popped from a vector.
fn nothing_but_a_vector(made_on_the_spot: bool) -> f64 {
    let (mut first, mut second) =
        ((0..200).map(|item| [item; 14]).collect::<Vec<[u64; 14]>>(), Vec::with_capacity(256));
    let start = Instant::now();
    for _ in 0..OPERATIONS / 200 {
        if made_on_the_spot {
            first.clear();
            (0..200).for_each(|item| second.push(black_box([item; 14])));
        } else {
            black_box(&mut first).drain(..).for_each(|object| second.push(object));
        }
        black_box(&mut second)
            .drain(..)
            .for_each(|object| if made_on_the_spot { _ = black_box(object) } else { first.push(object) });
    }
    per_operation(start)
}

/// A device with descriptor pools that are only numbers, to measure gpu-descriptor alone.
struct Nowhere;

impl descriptors::DescriptorDevice<(), (), u32> for Nowhere {
    unsafe fn create_descriptor_pool(
        &self,
        _: &descriptors::DescriptorTotalCount,
        _: u32,
        _: descriptors::DescriptorPoolCreateFlags,
    ) -> Result<(), descriptors::CreatePoolError> {
        Ok(())
    }

    unsafe fn destroy_descriptor_pool(&self, (): ()) {}

    unsafe fn alloc_descriptor_sets<'a>(
        &self,
        (): &mut (),
        layouts: impl ExactSizeIterator<Item = &'a ()>,
        sets: &mut impl Extend<u32>,
    ) -> Result<(), descriptors::DeviceAllocationError> {
        sets.extend(layouts.map(|()| 0));
        Ok(())
    }

    unsafe fn dealloc_descriptor_sets(&self, (): &mut (), sets: impl Iterator<Item = u32>) {
        sets.for_each(drop);
    }
}

/// Measures the same with gpu-descriptor: sets of one uniform buffer each.
fn gpu_descriptor() -> f64 {
    let mut allocator = DescriptorAllocator::<(), u32>::new(0);
    let count = descriptors::DescriptorTotalCount { uniform_buffer: 1, ..Default::default() };
    let flags = DescriptorSetLayoutCreateFlags::empty();
    let allocate = |allocator: &mut DescriptorAllocator<(), u32>| {
        // SAFETY: the same device in each call; the counts are those of the only layout.
        let mut sets = unsafe { allocator.allocate(&Nowhere, &(), flags, &count, 1) }.expect("pools are numbers");
        sets.pop().expect("one was asked for")
    };
    let mut live: Vec<DescriptorSet<u32>> = (0..1000).map(|_| allocate(&mut allocator)).collect();
    let start = Instant::now();
    for number in 0..OPERATIONS as usize / 2 {
        let slot = number * 7919 % live.len();
        let new = allocate(&mut allocator);
        let old = std::mem::replace(&mut live[slot], new);
        // SAFETY: the same device; the set is not used.
        unsafe { allocator.free(&Nowhere, [old]) };
    }
    let ns = per_operation(start);
    // SAFETY: as above.
    unsafe { allocator.free(&Nowhere, live) };
    // SAFETY: as above.
    unsafe { allocator.cleanup(&Nowhere) };
    ns
}

fn paths() -> Vec<Path> {
    let ours = |group, name, run| Path { group, name, ours: true, run };
    let peer = |group, name, run| Path { group, name, ours: false, run };
    vec![
        ours("ring: 200 B aligned to 256, 3 frames", "ringfence Ring", ring),
        peer("ring: 200 B aligned to 256, 3 frames", "VMA 3.3 linear virtual block", vma_ring),
        ours("page: 200 B aligned to 256", "ringfence Linear", linear),
        ours("fast constants of a draw", "ringfence FastWriter, 16 bytes", fast_constants::<16>),
        ours("fast constants of a draw", "ringfence FastWriter, 200 bytes", fast_constants::<200>),
        ours("these constants by hand", "a slice, 16 bytes", constants_by_hand::<16>),
        ours("these constants by hand", "a slice, 200 bytes", constants_by_hand::<200>),
        ours("retire and reclaim an object", "ringfence RetireQueue", retire),
        ours("retire and reclaim an object", "ringfence RetireQueue, a batch a frame", retire_batch),
        ours("retire and reclaim an object", "ringfence RetireBin, 112 bytes, any thread", retire_in_a_bin),
        ours("retire and reclaim an object", "ringfence Allocator, 112 bytes, any thread", || {
            retire_by_the_allocator(false)
        }),
        ours("retire and reclaim an object", "ringfence Allocator, 112 bytes, a batch a frame", || {
            retire_by_the_allocator(true)
        }),
        ours(
            "retire and reclaim an object",
            "ringfence RetireBin, 112 bytes held before",
            retire_what_is_held_in_a_bin,
        ),
        ours("retire and reclaim an object", "ringfence Allocator, 112 bytes held before", retire_what_is_held),
        peer("retire and reclaim an object", "VecDeque by hand, one timeline", retire_by_hand),
        ours("these loops without a bin", "a vector, 112 bytes", || nothing_but_a_vector(true)),
        ours("these loops without a bin", "a vector, 112 bytes held before", || nothing_but_a_vector(false)),
        ours("a descriptor, allocated or freed", "ringfence Buddy", || slots(Buddy::new(65_536, 1))),
        ours("a descriptor, allocated or freed", "ringfence FreeList", || slots(FreeList::new(65_536))),
        ours("a descriptor, allocated or freed", "ringfence Tlsf", || slots(ringfence_core::tlsf::Tlsf::new(65_536))),
        ours("a descriptor, allocated or freed", "ringfence FixedPool, any thread", pool_slots),
        ours("a descriptor, allocated or freed", "ringfence CpuDescriptorHeap, any thread", public_slots),
        peer("a descriptor, allocated or freed", "gpu-descriptor 0.3 (a set of one)", gpu_descriptor),
    ]
}

/// Measures all paths in turns; reports the least of the repetitions.
pub fn section(repetitions: usize, report: &mut Report) -> std::io::Result<()> {
    let paths = paths();
    let mut times = vec![Vec::new(); paths.len()];
    for _ in 0..repetitions {
        for (path, times) in paths.iter().zip(&mut times) {
            times.push((path.run)());
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let mut rows = Vec::new();
    for (path, own) in paths.iter().zip(&times) {
        let peers = paths.iter().zip(&times).filter(|(peer, _)| !peer.ours && peer.group == path.group);
        let best = peers.map(|(_, times)| times[0]).reduce(f64::min);
        let mut row = Row::new();
        row.push("path", Value::Text(path.group.into()));
        row.push("by", Value::Text(path.name.into()));
        row.push("ns/op", Value::Number(own[0], 1));
        row.push("median", Value::Number(own[own.len() / 2], 1));
        row.push("best peer / this", best.map_or(Value::None, |best| Value::Number(best / own[0], 2)));
        row.hide("ours", Value::Text(path.ours.to_string()));
        rows.push(row);
    }
    report.table("paths", "Rings, pages, retirement, descriptors", &rows, 0)
}
