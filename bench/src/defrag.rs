//! Defragmentation with Ringfence and with VMA, on the same traces in the same run: memory without buffers, in a pool
//! with blocks of one size, with no submissions. The measured time is that of planning and bookkeeping, which a frame
//! pays in addition to the copies.
//!
//! Both make the same allocations and frees, and each chooses its own layout. A pass of VMA is begun, accepted
//! completely and ended. A pass of Ringfence is begun, all its moves are made, it ends, and the objects that it retired
//! are reclaimed. Both may move the same bytes and the same number of ranges per pass.

use crate::output::{Report, Row, Value};
use crate::trace::Random;
use ash::vk;
use ringfence::defrag::{Defrag, DefragDesc, DefragState};
use ringfence::device::{Requirements, ResourceClass};
use ringfence::memory::PoolDesc;
use ringfence::{AllocationDesc, AllocatorDesc, Timeline, vulkan as rf};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;
use vk_mem::Alloc;

const BLOCK_BYTES: u64 = 16 << 20;
const BYTES_PER_PASS_MAX: u64 = 32 << 20;
const MOVES_PER_PASS_MAX: usize = 256;
/// Limit of passes, in case one contender does not converge.
const PASSES_MAX: u64 = 10_000;

/// Allocations by slot, and the slots that are freed afterwards.
struct Case {
    name: &'static str,
    sizes: Vec<u64>,
    freed: Vec<usize>,
}

impl Case {
    fn new(name: &'static str, sizes: Vec<u64>, is_freed: impl FnMut(&usize) -> bool) -> Self {
        let freed = (0..sizes.len()).filter(is_freed).collect();
        Self { name, sizes, freed }
    }

    fn live_bytes(&self) -> u64 {
        self.sizes.iter().sum::<u64>() - self.freed.iter().map(|slot| self.sizes[*slot]).sum::<u64>()
    }
}

fn cases(scale: u64) -> Vec<Case> {
    let mut random = Random(42);
    let mut sized = |total: u64, low: u64, high: u64| {
        let (mut sizes, mut sum) = (Vec::new(), 0);
        while sum < total / scale {
            let size = random.log_uniform(low, high).next_multiple_of(256);
            sum += size;
            sizes.push(size);
        }
        sizes
    };
    let total = 1 << 30;
    let mixed = sized(total, 4 << 10, 1 << 20);
    let small = sized(total / 4, 1 << 10, 16 << 10);
    let equal = vec![64 << 10; (total / scale / (64 << 10)) as usize];
    let large = sized(total, 512 << 10, 4 << 20);
    let mut random = Random(7);
    let mut one_in = move |count: u64| random.next().is_multiple_of(count);
    vec![
        Case::new("every other of 64 KiB", equal, |slot| slot % 2 == 0),
        Case::new("3 of 4 of 4 KiB to 1 MiB", mixed.clone(), |_| !one_in(4)),
        Case::new("1 of 3 of 4 KiB to 1 MiB", mixed, |slot| slot % 3 == 0),
        Case::new("9 of 10 of 1 to 16 KiB", small, |slot| slot % 10 != 3),
        Case::new("1 of 2 of 512 KiB to 4 MiB", large, |slot| slot % 2 == 0),
    ]
}

/// Result of a contender on a case.
#[derive(Default)]
struct Outcome {
    block_bytes: [u64; 2],
    holes: [u64; 2],
    moved_bytes: u64,
    moves: u64,
    passes: u64,
    /// Times of the passes, in ns.
    times: Vec<u64>,
}

struct Device<'a> {
    instance: &'a ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    ours: rf::Device,
    /// A fence that is never signalled, because no work is submitted.
    fence: vk::Semaphore,
    memory_type: u32,
}

const NEEDS: Requirements = Requirements {
    size: 0,
    alignment: 256,
    memory_type_bits: 0,
    class: ResourceClass::Buffer,
    prefers_dedicated: false,
    requires_dedicated: false,
};

fn ours(device: &Device, case: &Case, compacts: bool) -> Outcome {
    let memory = rf::Allocator::over(device.ours.clone(), AllocatorDesc::default());
    // SAFETY: no work is submitted.
    let timeline: Timeline<_> = unsafe { memory.timeline(device.fence) }.expect("the device is not lost");
    let desc = PoolDesc { memory_type: device.memory_type, block_bytes: BLOCK_BYTES, ..Default::default() };
    let pool = memory.create_pool(desc).expect("there is such a type");
    let make = |(slot, &size): (usize, &u64)| {
        let needs = Requirements { size, memory_type_bits: 1 << device.memory_type, ..NEEDS };
        let desc = AllocationDesc { movable: true, user_data: slot as u64, ..Default::default() };
        Some(pool.allocate(needs, desc).expect("there is memory"))
    };
    let mut held: Vec<_> = case.sizes.iter().enumerate().map(make).collect();
    case.freed.iter().for_each(|slot| held[*slot] = None);
    memory.reclaim();
    let holes = || {
        let blocks = memory.snapshot().blocks;
        let of = |block: &ringfence::memory::BlockSnapshot| {
            let mut end = 0;
            let mut count = 0;
            for range in &block.ranges {
                count += u64::from(range.offset > end);
                end = range.offset + range.bytes;
            }
            count + u64::from(end < block.bytes)
        };
        blocks.iter().map(of).sum()
    };
    let mut outcome = Outcome::default();
    (outcome.block_bytes[0], outcome.holes[0]) = (pool.statistics().block_bytes, holes());
    let desc = DefragDesc {
        bytes_per_pass_max: BYTES_PER_PASS_MAX,
        moves_per_pass_max: MOVES_PER_PASS_MAX,
        compacts,
        ..Default::default()
    };
    let mut run = Defrag::of_pool(&pool, desc);
    while run.state() != DefragState::Done && run.statistics().pass_count < PASSES_MAX {
        let start = Instant::now();
        let frame = timeline.begin();
        let mut pass = run.begin_pass(&frame).expect("the frame is ours");
        for index in 0..pass.moves().len() {
            let slot = pass.moves()[index].user_data as usize;
            drop(pass.move_allocation(held[slot].as_mut().expect("it is held")).expect("it is in the pass"));
        }
        let has_moves = !pass.moves().is_empty();
        drop(pass);
        frame.discard();
        memory.reclaim();
        let time = start.elapsed().as_nanos() as u64;
        if has_moves {
            outcome.times.push(time);
        }
    }
    let done = run.statistics();
    (outcome.block_bytes[1], outcome.holes[1]) = (pool.statistics().block_bytes, holes());
    (outcome.moved_bytes, outcome.moves, outcome.passes) = (done.moved_bytes, done.moved_count, done.pass_count);
    outcome
}

/// `VmaDefragmentationInfo`, which vk-mem does not export.
#[repr(C)]
struct Info {
    flags: u32,
    pool: *mut c_void,
    bytes_per_pass_max: u64,
    moves_per_pass_max: u32,
    break_callback: Option<unsafe extern "C" fn(*mut c_void) -> u32>,
    break_user_data: *mut c_void,
}

/// Returns the same value as vk-mem's type, which has no public name but can be inferred.
///
/// # Safety
/// `T` has the same layout as `U`.
unsafe fn as_same<T, U>(value: &T) -> U {
    assert_eq!(size_of::<T>(), size_of::<U>());
    // SAFETY: the caller promises the layout.
    unsafe { std::mem::transmute_copy(value) }
}

fn vma(device: &Device, case: &Case, flags: u32) -> Outcome {
    let mut info = vk_mem::AllocatorCreateInfo::new(device.instance, &device.device, device.physical);
    info.vulkan_api_version = vk::API_VERSION_1_2;
    // SAFETY: instance and device outlive the allocator.
    let allocator = Arc::new(unsafe { vk_mem::Allocator::new(info) }.expect("VMA takes the device"));
    let pool_info =
        vk_mem::PoolCreateInfo { memory_type_index: device.memory_type, block_size: BLOCK_BYTES, ..Default::default() };
    let pool = allocator.create_pool(&pool_info).expect("there is such a type");
    let make = |size: &u64| {
        let needs = vk::MemoryRequirements { size: *size, alignment: 256, memory_type_bits: 1 << device.memory_type };
        // SAFETY: the requirements are plain.
        let made = unsafe { pool.allocate_memory(&needs, &vk_mem::AllocationCreateInfo::default()) };
        Some(made.expect("there is memory"))
    };
    let mut held: Vec<_> = case.sizes.iter().map(make).collect();
    for slot in &case.freed {
        let mut gone = held[*slot].take().expect("it was made");
        // SAFETY: the allocation belongs to this allocator and is freed once.
        unsafe { allocator.free_memory(&mut gone) };
    }
    let figures = || {
        let detailed = pool.calculate_statistics().expect("it can be counted");
        (detailed.statistics.blockBytes, u64::from(detailed.unusedRangeCount))
    };
    let mut outcome = Outcome::default();
    (outcome.block_bytes[0], outcome.holes[0]) = figures();
    // SAFETY: the handle of a pool consists of VMA's pointer only.
    let handle: *mut c_void = unsafe { as_same(&pool.pool()) };
    let info = Info {
        flags,
        pool: handle,
        bytes_per_pass_max: BYTES_PER_PASS_MAX,
        moves_per_pass_max: MOVES_PER_PASS_MAX as u32,
        break_callback: None,
        break_user_data: std::ptr::null_mut(),
    };
    // SAFETY: the structure has the layout that VMA declares; no other code uses the pool meanwhile.
    let context = unsafe { allocator.begin_defragmentation(&as_same(&info)) }.expect("it can be defragmented");
    loop {
        let start = Instant::now();
        let mut moves = 0;
        let goes_on = context.begin_pass(|planned| moves = planned.len());
        let time = start.elapsed().as_nanos() as u64;
        if moves > 0 {
            outcome.times.push(time);
            outcome.passes += 1;
        }
        if !goes_on || outcome.passes >= PASSES_MAX {
            break;
        }
    }
    let done = context.end();
    (outcome.moved_bytes, outcome.moves) = (done.bytesMoved, u64::from(done.allocationsMoved));
    (outcome.block_bytes[1], outcome.holes[1]) = figures();
    for mut gone in held.into_iter().flatten() {
        // SAFETY: the allocation belongs to this allocator and is freed once.
        unsafe { allocator.free_memory(&mut gone) };
    }
    outcome
}

/// Measures the section; no rows without a device.
pub fn section(quick: bool, repetitions: usize, report: &mut Report) -> std::io::Result<()> {
    let options = Options { name: std::env::var("RINGFENCE_BENCH_DEVICE").ok(), ..Default::default() };
    let gpu = match VulkanGpu::open(&options) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("\nno Vulkan device, so no defragmentation is measured: {error}");
            return Ok(());
        }
    };
    let rf_device = gpu.device();
    let memory = rf::Allocator::over(rf_device.clone(), AllocatorDesc::default());
    let memory_type = memory.plan().memory_type(u32::MAX, AllocationDesc::default()).expect("there is memory");
    drop(memory);
    let device = Device {
        instance: gpu.instance(),
        physical: rf_device.physical(),
        device: rf_device.raw().clone(),
        ours: rf_device.clone(),
        fence: gpu.fence(0),
        memory_type,
    };
    /// A name, `true` if it is Ringfence, and the function that plays a case.
    type Contender = (&'static str, bool, fn(&Device, &Case) -> Outcome);
    let contenders: [Contender; 5] = [
        ("ringfence", true, |device, case| ours(device, case, true)),
        ("ringfence, emptying alone", true, |device, case| ours(device, case, false)),
        ("VMA 3.3, fast", false, |device, case| vma(device, case, 1)),
        ("VMA 3.3, balanced", false, |device, case| vma(device, case, 2)),
        ("VMA 3.3, full", false, |device, case| vma(device, case, 4)),
    ];
    let mut rows = Vec::new();
    for case in cases(if quick { 8 } else { 1 }) {
        let mut outcomes: Vec<_> = contenders.iter().map(|(.., play)| play(&device, &case)).collect();
        // Every repetition has the same passes. The least time of each pass excludes interrupts.
        for _ in 1..repetitions {
            for ((.., play), outcome) in contenders.iter().zip(&mut outcomes) {
                let again = play(&device, &case);
                outcome.times.iter_mut().zip(again.times).for_each(|(time, again)| *time = again.min(*time));
            }
        }
        for ((name, is_ours, _), outcome) in contenders.iter().zip(&outcomes) {
            rows.push(row(&case, name, *is_ours, outcome));
        }
    }
    let heading = "Defragmentation, blocks of 16 MiB, at most 32 MiB and 256 moves a pass";
    report.table("defragmentation", heading, &rows, 0)
}

fn row(case: &Case, name: &str, is_ours: bool, outcome: &Outcome) -> Row {
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let live = case.live_bytes();
    let waste = |bytes: u64| 100.0 * (bytes.saturating_sub(live)) as f64 / bytes.max(1) as f64;
    let [before, after] = outcome.block_bytes;
    let won = before.saturating_sub(after);
    let count = outcome.times.len().max(1) as u64;
    let mean = outcome.times.iter().sum::<u64>() / count;
    let worst = outcome.times.iter().max().copied().unwrap_or(0);
    let mut row = Row::new();
    row.push("freed", Value::Text(case.name.into()));
    row.push("by", Value::Text(name.into()));
    row.push("live MiB", Value::Number(mib(live), 0));
    row.push("blocks MiB", Value::Number(mib(before), 0));
    row.push("blocks MiB after", Value::Number(mib(after), 0));
    row.push("waste %", Value::Number(waste(before), 1));
    row.push("waste % after", Value::Number(waste(after), 1));
    row.push("holes", Value::Number(outcome.holes[0] as f64, 0));
    row.push("holes after", Value::Number(outcome.holes[1] as f64, 0));
    row.push("moved MiB", Value::Number(mib(outcome.moved_bytes), 0));
    row.push("moved / won", if won == 0 { Value::None } else { Value::Number(mib(outcome.moved_bytes) / mib(won), 2) });
    row.push("moves", Value::Number(outcome.moves as f64, 0));
    row.push("passes", Value::Number(outcome.passes as f64, 0));
    row.push("µs a pass", Value::Number(mean as f64 / 1000.0, 0));
    row.push("worst µs", Value::Number(worst as f64 / 1000.0, 0));
    row.hide("ours", Value::Text(is_ours.to_string()));
    row
}
