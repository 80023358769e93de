//! A fixed amount of work on each hot path of the allocator, for counting instructions: `ci/callgrind.sh`.
//!
//! The device is the simulated one, but none of these paths calls it. Each path is one function that is not inlined and
//! does [`OPERATIONS`] operations, half of them allocations and half of them frees.

use std::hint::black_box;

use ringfence::descriptor::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc};
use ringfence::device::{BufferDesc, BufferUsage, Requirements, ResourceClass};
use ringfence::lifetime::RetireBin;
use ringfence::memory::Allocation;
use ringfence::sim::{Device, Fence, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location, Timeline};

/// Number of allocations and frees in each path.
const OPERATIONS: usize = 20_000;

/// The buffer that is created repeatedly.
const BUFFER: BufferDesc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE };

/// xorshift64*, which returns the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a size from `least` up to `least` times 2 to the power `magnitudes`, in bytes. Each interval between two
    /// powers of two is equally likely.
    fn size(&mut self, least: u64, magnitudes: u64) -> u64 {
        let power = least << (self.next() % magnitudes);
        power + self.next() % power
    }
}

/// An allocator, its live allocations, and the steps to execute on them.
struct Churn {
    memory: Allocator<Device>,
    live: Vec<Option<Allocation<Device>>>,
    steps: Vec<(usize, u64)>,
}

fn allocator(desc: AllocatorDesc) -> (Allocator<Device>, Fence) {
    let device = Device::new(Profile::h200(), SimOptions::default());
    let fence = device.create_fence(0);
    (Allocator::over(device, desc), fence)
}

fn needs(size: u64) -> Requirements {
    Requirements {
        size,
        alignment: 256,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

impl Churn {
    fn new(live: usize, slots: bool, (least, magnitudes): (u64, u64)) -> Self {
        let memory = allocator(AllocatorDesc { small_slots: slots, ..Default::default() }).0;
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut size = || random.size(least, magnitudes);
        let held = (0..live).map(|_| memory.allocate(needs(size()), AllocationDesc::default()).ok()).collect();
        let mut steps: Vec<_> = (0..OPERATIONS).map(|_| (0, size())).collect();
        steps.iter_mut().for_each(|(at, _)| *at = (random.next() % live as u64) as usize);
        let mut churn = Self { memory, live: held, steps };
        // Reaches the steady state, in which the number of holes no longer changes.
        churn.run(|held, _| free(held));
        churn.memory.reclaim();
        churn.steps.truncate(OPERATIONS / 2);
        churn
    }

    #[inline(always)]
    fn run(&mut self, free: impl Fn(Allocation<Device>, usize)) {
        for (number, &(at, size)) in self.steps.iter().enumerate() {
            if let Some(held) = self.live[at].take() {
                free(held, number);
            }
            self.live[at] = Some(self.memory.allocate(needs(size), AllocationDesc::default()).expect("it fits"));
        }
    }
}

#[inline(always)]
fn free(held: Allocation<Device>) {
    // SAFETY: no resource was placed there.
    unsafe { held.destroy_now() };
}

#[inline(never)]
fn slots_free_now(churn: &mut Churn) {
    black_box("slots_free_now"); // Otherwise the linker merges identical functions.
    churn.run(|held, _| free(held));
}

#[inline(never)]
fn ranges_free_now(churn: &mut Churn) {
    black_box("ranges_free_now");
    churn.run(|held, _| free(held));
}

/// As `slots_free_now`, with 50 times as many live slots of few sizes, in hundreds of pools.
#[inline(never)]
fn slots_of_many(churn: &mut Churn) {
    black_box("slots_of_many");
    churn.run(|held, _| free(held));
}

/// Drops allocations, as programs do, and reclaims after each 100.
#[inline(never)]
fn slots_drop_and_reclaim(churn: &mut Churn) {
    let memory = churn.memory.clone();
    churn.run(|held, number| {
        drop(held);
        if number % 100 == 99 {
            memory.reclaim();
        }
    });
}

/// Frames in which nothing is released: the part of `reclaim` that every frame costs. Slots of every size class are
/// live.
#[inline(never)]
fn frames_of_nothing(memory: &Allocator<Device>) {
    (0..OPERATIONS).for_each(|_| _ = memory.reclaim());
}

/// Frees and allocates descriptors of one slot, in scattered order. A thousand are live.
#[inline(never)]
fn descriptors_of_one_slot(heap: &CpuDescriptorHeap<Device>, live: &mut [Option<CpuDescriptors<Device>>; 1000]) {
    for number in 0..OPERATIONS / 2 {
        let slot = &mut live[number * 7919 % 1000];
        drop(slot.take());
        *slot = Some(heap.allocate(1).expect("there are 4,096"));
    }
}

/// A timeline without submissions.
struct Clock {
    memory: Allocator<Device>,
    timeline: Timeline<Device>,
}

impl Clock {
    fn new() -> Self {
        let (memory, fence) = allocator(AllocatorDesc::default());
        // SAFETY: there are no submissions.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        Self { memory, timeline }
    }
}

/// Retires objects of 112 bytes one by one, 200 per frame, and releases them.
#[inline(never)]
fn bin_retire_and_release(clock: &Clock, bin: &RetireBin<[u64; 14]>) {
    let object = black_box([7; 14]);
    for _ in 0..OPERATIONS / 200 {
        let frame = clock.timeline.begin();
        for _ in 0..200 {
            clock.memory.retirement().retire_into(bin, object);
        }
        frame.discard();
        clock
            .memory
            .retirement()
            .release_from(bin, usize::MAX, |object| _ = black_box(object[0]))
            .expect("the device is not lost");
    }
}

/// Creates and destroys buffers of one size. Each buffer reuses the driver object of the previous one, without a driver
/// call.
#[inline(never)]
fn recycled_destroy_now(memory: &Allocator<Device>) {
    for _ in 0..OPERATIONS {
        let buffer = memory.create_buffer(&BUFFER, AllocationDesc::default()).expect("it fits");
        // SAFETY: no submission uses it.
        unsafe { black_box(buffer).destroy_now() };
    }
}

/// Drops buffers, as programs do, and reclaims after each 100.
#[inline(never)]
fn recycled_drop_and_reclaim(memory: &Allocator<Device>) {
    for _ in 0..OPERATIONS / 100 {
        for _ in 0..100 {
            drop(black_box(memory.create_buffer(&BUFFER, AllocationDesc::default()).expect("it fits")));
        }
        memory.reclaim();
    }
}

/// Creates and destroys small buffers, which are ranges of shared driver buffers.
#[inline(never)]
fn recycled_small_destroy_now(memory: &Allocator<Device>) {
    for _ in 0..OPERATIONS {
        let buffer = memory.create_small_buffer(BUFFER, Location::Device).expect("it fits");
        // SAFETY: no submission uses it.
        unsafe { black_box(buffer).destroy_now() };
    }
}

fn main() {
    slots_free_now(&mut Churn::new(2_000, true, (256, 8)));
    slots_of_many(&mut Churn::new(100_000, true, (256, 2)));
    ranges_free_now(&mut Churn::new(2_000, false, (256, 14)));
    let mut churn = Churn::new(2_000, true, (256, 8));
    slots_drop_and_reclaim(&mut churn);
    frames_of_nothing(&churn.memory);
    let desc = CpuHeapDesc { block_slots: 4096, ..Default::default() };
    let heap = CpuDescriptorHeap::new(&allocator(AllocatorDesc::default()).0, desc).expect("few enough slots");
    let mut live = std::array::from_fn(|_| Some(heap.allocate(1).expect("there are 4,096")));
    descriptors_of_one_slot(&heap, &mut live);
    bin_retire_and_release(&Clock::new(), &RetireBin::new());
    let memory = allocator(AllocatorDesc::default()).0;
    recycled_destroy_now(&memory);
    recycled_drop_and_reclaim(&memory);
    recycled_small_destroy_now(&memory);
}
