//! The memory manager, including behaviour that users of other allocators expect, on every device.

use std::collections::HashSet;
use std::sync::{Barrier, Mutex};

use ringfence::algorithms::algorithm::Algorithm;
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, Device, DeviceError, Driver, MemoryProperties, Native, Requirements,
    ResourceClass, TextureDesc, Textures,
};
use ringfence::memory::{Allocation, Error, PlannedWay, PoolDesc};
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Dedicated, Location};
use ringfence_core::size_class::{SizeClasses, size_class};
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{Rig, copy, pattern};

const KIB: u64 = 1 << 10;

/// Returns the requirements of a plain buffer of `size` bytes on this device.
fn needs<G: Gpu>(rig: &Rig<G>, size: u64) -> Requirements {
    let device = rig.memory.device();
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = Create::<Buffers>::describe(device, &BufferDesc { size, usage }).expect("a plain buffer");
    // SAFETY: the description comes from the device, and the prepared buffer is discarded unused.
    unsafe {
        let (unplaced, needs) = Create::<Buffers>::prepare(device, &info).expect("a plain buffer");
        Create::<Buffers>::discard(device, unplaced);
        needs
    }
}

fn on_device() -> AllocationDesc<'static> {
    AllocationDesc { dedicated: Dedicated::Never, ..Default::default() }
}

/// Returns the location of an allocation, which identifies it.
fn address<D: Device>(allocation: &Allocation<D>) -> (*const D::Memory, u64) {
    (std::ptr::from_ref(allocation.memory()), allocation.offset())
}

pub fn seed_003_01_a_pool_is_one_memory_object_of_equal_blocks<G: Gpu>(rig: &mut Rig<G>) {
    let needs = needs(rig, 10 * KIB);
    let block_size = size_class(needs.size, needs.alignment).expect("a class");
    let memory_type = rig.memory.plan().memory_type(needs.memory_type_bits, on_device()).expect("a memory type");
    let pool = rig
        .memory
        .create_pool(PoolDesc {
            memory_type,
            block_bytes: 16 * block_size,
            block_count_max: 2,
            algorithm: Algorithm::Equal { block_size },
            ..Default::default()
        })
        .expect("such a pool");
    let mut held: Vec<_> = (0..32).map(|_| pool.allocate(needs, on_device()).expect("16 blocks each")).collect();
    assert_eq!(pool.statistics().block_count, 2, "a memory object each");
    let places: HashSet<_> = held.iter().map(address).collect();
    let memories: HashSet<_> = places.iter().map(|place| place.0).collect();
    let of = |memory| (0..16).map(move |block| (memory, block * block_size));
    assert_eq!((memories.len(), places), (2, memories.into_iter().flat_map(of).collect()));
    assert!(matches!(pool.allocate(needs, on_device()), Err(Error::PoolFull { .. })));
    for at in [5, 25] {
        let place = address(&held[at]);
        // SAFETY: no submission uses it.
        unsafe { held.swap_remove(at).destroy_now() };
        held.push(pool.allocate(needs, on_device()).expect("the freed slot"));
        assert_eq!(address(&held[31]), place);
    }
}

pub fn seed_003_02_threads_allocate_and_free_at_once<G: Gpu>(rig: &mut Rig<G>) {
    const THREADS: usize = 8;
    let needs = needs(rig, 4 * KIB);
    let memory = &rig.memory;
    let barrier = Barrier::new(THREADS);
    // Memory, offset and size of the allocations that all threads hold at one time.
    let all: Mutex<Vec<(usize, u64, u64)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut held = Vec::new();
                barrier.wait();
                for step in 0..200_usize {
                    held.push(memory.allocate(needs, on_device()).expect("there is room"));
                    if step % 3 != 0 {
                        let gone: Allocation<G::Device> = held.swap_remove(step * 7 % held.len());
                        // SAFETY: no submission uses it.
                        unsafe { gone.destroy_now() };
                    }
                }
                let places = held.iter().map(|held| (address(held).0 as usize, held.offset(), held.size()));
                all.lock().expect("no thread fails").extend(places);
                // No thread frees an allocation before all threads have added theirs.
                barrier.wait();
            });
        }
    });
    let mut all = all.into_inner().expect("no thread fails");
    all.sort_unstable();
    let apart = |pair: &[(usize, u64, u64)]| pair[0].0 != pair[1].0 || pair[0].1 + pair[0].2 <= pair[1].1;
    assert!(all.len() > THREADS * 60 && all.windows(2).all(apart), "no two threads share a byte");
    rig.memory.debug().validate().expect("the allocator is sound");
}

pub fn seed_003_04_an_exact_key_keeps_types_classes_and_sizes_apart<G: Gpu>(rig: &mut Rig<G>) {
    let sizes = [64 * KIB, 128 * KIB, 192 * KIB];
    let mut held = Vec::new();
    for round in 0..40 {
        for size in sizes {
            for location in [Location::Device, Location::Upload, Location::Readback] {
                let desc = AllocationDesc { location, ..on_device() };
                held.push(rig.memory.allocate(needs(rig, size), desc).expect("there is room"));
            }
        }
        held.push(rig.memory.allocate(needs(rig, 300 + round), on_device()).expect("there is room"));
    }
    no_overlap(&held);
    for allocation in &held {
        let device = rig.memory.device();
        let visible = device.capabilities().properties(allocation.memory_type());
        let wanted = allocation.location() != Location::Device;
        assert!(!wanted || visible.contains(ringfence::device::MemoryProperties::HOST_VISIBLE));
        assert_eq!(allocation.offset() % allocation.alignment(), 0);
    }
}

/// Returns the requirements of a plain texture. Callers change the size.
fn texture_needs<G: Gpu>(rig: &Rig<G>) -> Requirements {
    let device = rig.memory.device();
    let info = Create::<Textures>::describe(device, &TextureDesc::default()).expect("a plain texture");
    // SAFETY: the description comes from the device, and the prepared texture is discarded unused.
    unsafe {
        let (unplaced, needs) = Create::<Textures>::prepare(device, &info).expect("a plain texture");
        Create::<Textures>::discard(device, unplaced);
        needs
    }
}

/// Returns the sizes for `of_every_key`: two in each size class up to 32 KiB.
fn sizes() -> impl Iterator<Item = u64> {
    (8..15).flat_map(|power| [(1 << power) - 60, 1 << power, (3 << (power - 1)) - 60, 3 << (power - 1)])
}

/// Allocates memory of each size in `rounds` rounds, for buffers in every location and for textures. If `is_numbered`,
/// the snapshot identifies each allocation; otherwise, requests take the path without user data.
fn of_every_key<G: Gpu>(rig: &Rig<G>, rounds: usize, is_numbered: bool) -> Vec<(Allocation<G::Device>, ResourceClass)> {
    let (buffer, texture) = (needs(rig, 256), texture_needs(rig));
    let kinds = [
        (buffer, Location::Device),
        (buffer, Location::Upload),
        (buffer, Location::Readback),
        (texture, Location::Device),
    ];
    let mut held = Vec::new();
    for size in (0..rounds).flat_map(|_| sizes()) {
        for (plain, location) in kinds {
            let user_data = if is_numbered { held.len() as u64 + 1 } else { 0 };
            let desc = AllocationDesc { location, user_data, ..on_device() };
            let needs = Requirements { size, alignment: 64, prefers_dedicated: false, ..plain };
            held.push((rig.memory.allocate(needs, desc).expect("there is room"), needs.class));
        }
    }
    held
}

/// Size classes are powers of two, and powers of two times 1.5, instead of multiples of 64 KiB. Fewer than twenty
/// classes cover the small sizes, and at most a third of a slot is lost.
pub fn seed_003_03_common_sizes_have_blocks_of_few_exact_sizes<G: Gpu>(rig: &mut Rig<G>) {
    const ROUNDS: usize = 40;
    let held = of_every_key(rig, ROUNDS, true);
    let mut bytes = vec![0; held.len()];
    for range in rig.memory.snapshot().blocks.iter().flat_map(|block| &block.ranges) {
        bytes[range.user_data as usize - 1] = range.bytes;
    }
    let (mut of_class, mut block_sizes) = (0, HashSet::new());
    for ((held, _), bytes) in held.iter().zip(&bytes) {
        let class = SizeClasses::FINE.class(held.size(), 64).expect("a class");
        let page = rig.memory.device().capabilities().class_granularity_bytes.max(1);
        // If textures must not share pages with buffers, their class has a size in whole pages.
        let is_class =
            *bytes == class || *bytes == SizeClasses::FINE.class(held.size().next_multiple_of(page), page).unwrap_or(0);
        of_class += usize::from(is_class);
        block_sizes.extend(is_class.then_some(*bytes));
        assert!(
            *bytes >= held.size() && (is_class || *bytes < 2 * held.size().max(page)),
            "{} in {bytes}",
            held.size()
        );
    }
    // The first requests of a class get ranges of their exact size, so not all sizes are those of a class.
    assert!(of_class * 5 >= held.len() * 4, "{of_class} of {} are in pools", held.len());
    assert!(block_sizes.len() <= 18, "few sizes of blocks: {block_sizes:?}");
    let lost: u64 = held.iter().zip(&bytes).map(|((held, _), bytes)| bytes - held.size()).sum();
    let by_64_kib: u64 = held.iter().map(|(held, _)| held.size().next_multiple_of(64 * KIB) - held.size()).sum();
    assert!(lost * 20 < by_64_kib, "{lost} bytes are lost to classes; {by_64_kib} would be to multiples of 64 KiB");
}

/// The alignment is part of the class: the slot size is a multiple of it, so every slot of a pool is aligned.
pub fn seed_003_03_each_block_of_a_pool_has_the_alignment_of_its_request<G: Gpu>(rig: &mut Rig<G>) {
    let plain = needs(rig, 256);
    let mut held = Vec::new();
    let aligned = [(300, 256), (700, 512), (100, 4 * KIB), (5000, 4 * KIB), (1000, 16 * KIB)];
    // The classes that the sizes alone would select get their pools first.
    for (size, alignment) in aligned.map(|(size, _)| (size, 16)).into_iter().chain(aligned) {
        // Allocations with user data take another path than those without.
        for number in 0..40 {
            let needs = Requirements { size, alignment, prefers_dedicated: false, ..plain };
            let user_data = if number % 2 == 0 { held.len() as u64 + 1 } else { 0 };
            let desc = AllocationDesc { user_data, ..on_device() };
            held.push((rig.memory.allocate(needs, desc).expect("there is room"), alignment));
        }
    }
    for (held, alignment) in &held {
        assert_eq!(held.offset() % alignment, 0, "{} bytes aligned to {alignment}", held.size());
    }
    let mut multiples = 0;
    for range in rig.memory.snapshot().blocks.iter().flat_map(|block| &block.ranges) {
        let Some((_, alignment)) = (range.user_data as usize).checked_sub(1).map(|at| &held[at]) else { continue };
        multiples += usize::from(range.bytes % alignment == 0);
    }
    // The first sixteen requests of a class get ranges of their exact size.
    assert!(multiples >= held.len() / 4, "{multiples} of {}", held.len() / 2);
    no_overlap(&held.into_iter().map(|(held, _)| held).collect::<Vec<_>>());
}

/// A pool has one memory type, one resource class and one slot size. Allocations that differ in any of them are in
/// different pools.
pub fn seed_003_04_pools_are_of_one_memory_type_class_and_size<G: Gpu>(rig: &mut Rig<G>) {
    let held: Vec<_> = [true, false].into_iter().flat_map(|is_numbered| of_every_key(rig, 25, is_numbered)).collect();
    let capabilities = rig.memory.device().capabilities();
    for (held, class) in &held {
        let properties = capabilities.properties(held.memory_type());
        assert!(held.location() == Location::Device || properties.contains(MemoryProperties::HOST_VISIBLE));
        let plain = if *class == ResourceClass::Buffer { needs(rig, 256) } else { texture_needs(rig) };
        assert!(plain.memory_type_bits >> held.memory_type() & 1 == 1, "a memory type that it allows");
        let desc = AllocationDesc { location: held.location(), ..on_device() };
        assert_eq!(
            Some(held.memory_type()),
            rig.memory.plan().memory_type(plain.memory_type_bits, desc),
            "and the best"
        );
    }
    let mut places: Vec<_> = held.iter().map(|(held, class)| (address(held), held.size(), *class)).collect();
    places.sort_unstable_by_key(|place| place.0);
    let [buffers, textures, targets] = capabilities.class_groups;
    let page = capabilities.class_granularity_bytes.max(1);
    let may_share = buffers == textures || textures == targets && (2..=4 * KIB).contains(&page);
    for pair in places.windows(2) {
        let (((memory, start), size, class), ((next_memory, next), _, next_class)) = (pair[0], pair[1]);
        if memory != next_memory {
            continue;
        }
        assert!(start + size <= next, "no two share a byte");
        if class != next_class && buffers != textures {
            assert!(may_share && (start + size - 1) / page < next / page, "kept apart as the device asks");
        }
    }
}

fn no_overlap<D: Device>(held: &[Allocation<D>]) {
    let mut places: Vec<_> = held.iter().map(|held| (address(held), held.size())).collect();
    places.sort_unstable_by_key(|place| place.0);
    let apart = |pair: &[((*const D::Memory, u64), u64)]| {
        let ((first, start), size) = pair[0];
        first != pair[1].0.0 || start + size <= pair[1].0.1
    };
    assert!(places.windows(2).all(apart), "no two share a byte");
}

pub fn seed_003_05_a_full_pool_leads_to_the_next_one<G: Gpu>(rig: &mut Rig<G>) {
    let needs = needs(rig, 1000);
    let held: Vec<_> = (0..1500).map(|_| rig.memory.allocate(needs, on_device()).expect("there is room")).collect();
    no_overlap(&held);
    assert_eq!(rig.memory.statistics().total().range_count, 1500);
    let memories: HashSet<_> = held.iter().map(|held| address(held).0).collect();
    assert!(memories.len() <= 8, "{} memory objects", memories.len());
    drop(held);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().total().range_count, 0);
}

/// All freed slots of a size class are reused before another pool is created.
pub fn seed_003_05_the_chain_is_followed_to_what_was_freed<G: Gpu>(rig: &mut Rig<G>) {
    let needs = needs(rig, 1100);
    let class = SizeClasses::FINE.class(needs.size, needs.alignment).expect("a class");
    let allocate = |count: usize| (0..count).map(|_| rig.memory.allocate(needs, on_device()).expect("there is room"));
    // SAFETY: no submission uses them.
    let free = |gone: Vec<Allocation<G::Device>>| gone.into_iter().for_each(|gone| unsafe { gone.destroy_now() });
    // The first allocations of a class are ranges. After many of them, all further ones are slots of pools.
    free(allocate(1500).collect());
    let mut held: Vec<_> = allocate(1500).collect();
    assert_eq!(rig.memory.statistics().total().used_bytes(), 1500 * class, "each is a block of a pool");
    let places = |held: &[Allocation<G::Device>]| held.iter().map(address).collect::<HashSet<_>>();
    let (mut seen, calls) = (places(&held), rig.memory.statistics().calls.allocate_memory);
    for round in 0..6 {
        let (gone, stay): (Vec<_>, Vec<_>) = held.into_iter().enumerate().partition(|(at, _)| at % 6 == round);
        free(gone.into_iter().map(|(_, gone)| gone).collect());
        held = stay.into_iter().map(|(_, stay)| stay).collect();
        held.extend(allocate(1500 - held.len()));
        seen.extend(places(&held));
    }
    // The surplus that is allowed: free slots of the last pool, and slots in the caches of threads.
    assert!(seen.len() <= 1500 + 2 * 256, "{} places: no pool was made while others had room", seen.len());
    assert_eq!(rig.memory.statistics().calls.allocate_memory, calls, "no memory was asked for");
    no_overlap(&held);
}

pub fn seed_003_06_limits_and_budgets_are_obeyed<G: Gpu>(rig: &mut Rig<G>) {
    let capabilities = rig.memory.device().capabilities().clone();
    let plain = needs(rig, 1000);
    let beyond = Requirements { size: capabilities.memory_object_bytes_max.saturating_add(1), ..plain };
    let refused = rig.memory.allocate(beyond, AllocationDesc::default());
    assert!(matches!(refused, Err(Error::TooLarge { .. } | Error::OutOfMemory { .. })), "{refused:?}");
    let best = rig.memory.plan().memory_type(plain.memory_type_bits, on_device()).expect("a memory type");
    let heap = capabilities.memory_types[best as usize].heap;
    let budget = rig.memory.budgets().heap(heap);
    assert!(budget.budget_bytes <= capabilities.memory_heaps[heap as usize].bytes);
    let only = AllocationDesc { memory_types: 1 << best, within_budget: true, ..Default::default() };
    let more = Requirements { size: budget.headroom_bytes() / (64 * KIB) * (64 * KIB) + 64 * KIB, ..plain };
    let before = rig.memory.statistics().calls.allocate_memory;
    let refused = rig.memory.allocate(more, only);
    // With or without a budget, a size that exceeds every memory object is reported as too large.
    let is_refused = match refused {
        Err(Error::OverBudget { size, .. }) => size == more.size,
        Err(Error::TooLarge { size, max }) => size == more.size && size > max,
        _ => false,
    };
    assert!(is_refused, "{refused:?}");
    assert_eq!(rig.memory.statistics().calls.allocate_memory, before);
    let held = rig.memory.allocate(plain, only).expect("a little is within the budget");
    assert!(rig.memory.budgets().heap(heap).reserved_bytes > 0);
    assert!(
        rig.memory.budgets().heap(heap).usage_bytes >= rig.memory.budgets().heap(heap).reserved_bytes.min(plain.size)
    );
    drop(held);
    // The caller's limit holds exactly, on every device, because the allocations need no additional memory.
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[heap as usize] = 4 << 20;
    let (limited, _timelines) = rig.allocator(AllocatorDesc { heap_bytes_max, ..Default::default() });
    let alone = AllocationDesc { within_budget: false, dedicated: Dedicated::Always, ..only };
    let allocate = |size: u64| limited.allocate(Requirements { size, ..plain }, alone);
    let before = limited.statistics().calls.allocate_memory;
    let refused = allocate((4 << 20) + 1);
    assert!(matches!(refused, Err(Error::OverBudget { budget, .. }) if budget.limit_bytes == 4 << 20), "{refused:?}");
    assert_eq!(limited.statistics().calls.allocate_memory, before, "the driver was not asked");
    let held = allocate(4 << 20).expect("the exact limit is allowed");
    let refused = allocate(256);
    assert!(
        matches!(refused, Err(Error::OverBudget { budget, .. }) if budget.reserved_bytes == 4 << 20),
        "{refused:?}"
    );
    drop(held);
    limited.reclaim();
    drop(allocate(4 << 20).expect("it was freed"));
}

/// There are many allocations, so most have an offset: first ranges, then slots of pools.
pub fn seed_003_07_memory_and_offset_or_a_typed_failure<G: Gpu>(rig: &mut Rig<G>) {
    const COUNT: u64 = 40;
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let upload_bytes = pattern(3, (COUNT * 4096) as usize);
    let mut upload = rig.buffer(COUNT * 4096, Location::Upload, "");
    upload.write(0, &upload_bytes).expect("mapped");
    let back = rig.buffer(COUNT * 4096, Location::Readback, "");
    let device = rig.memory.device();
    let info = Create::<Buffers>::describe(device, &BufferDesc { size: 5000, usage }).expect("a plain buffer");
    let needs = needs(rig, 5000);
    let placed: Vec<_> = (0..COUNT)
        .map(|_| {
            // SAFETY: the description comes from the device.
            let (unplaced, needs) = unsafe { Create::<Buffers>::prepare(device, &info) }.expect("a plain buffer");
            let memory = rig.memory.allocate(needs, on_device()).expect("there is room");
            // SAFETY: the memory was allocated for these requirements.
            let placed = unsafe { Create::<Buffers>::place(device, &unplaced, memory.memory(), memory.offset()) };
            (placed.expect("it fits").object, memory)
        })
        .collect();
    let raw = |buffer: &Buffer<G::Device>| buffer.object().clone();
    let copy = |src, src_offset, dst, dst_offset| Command::CopyBuffer { src, src_offset, dst, dst_offset, size: 4096 };
    let to = (0..).zip(&placed).map(|(at, (object, _))| copy(raw(&upload), at * 4096, object.clone(), 0));
    let from = (0..).zip(&placed).map(|(at, (object, _))| copy(object.clone(), 0, raw(&back), at * 4096));
    let commands: Vec<_> = to.chain(from).collect();
    rig.run(&commands);
    let mut seen = vec![0; upload_bytes.len()];
    back.read(0, &mut seen).expect("mapped");
    assert!(seen == upload_bytes, "each has its own bytes");
    for (object, memory) in placed {
        // SAFETY: its only submission is complete.
        unsafe { Create::<Buffers>::destroy(rig.memory.device(), object) };
        // SAFETY: as above, and its resource is destroyed.
        unsafe { memory.destroy_now() };
    }
    let zero = Requirements { size: 0, ..needs };
    assert_eq!(rig.memory.allocate(zero, on_device()).err(), Some(Error::ZeroSize));
    let bent = Requirements { alignment: 48, ..needs };
    assert_eq!(rig.memory.allocate(bent, on_device()).err(), Some(Error::BadAlignment { alignment: 48 }));
    let nowhere = Requirements { memory_type_bits: 0, ..needs };
    assert!(matches!(rig.memory.allocate(nowhere, on_device()), Err(Error::NoMemoryType { .. })));
}

pub fn aliasing_resources_share_bytes_until_the_last_is_gone<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = Create::<Buffers>::describe(rig.memory.device(), &BufferDesc { size: 8 * KIB, usage });
    let info = info.expect("a plain buffer");
    let needs = needs(rig, 8 * KIB);
    let mut memory = rig.memory.allocate(needs, on_device()).expect("there is room");
    let first = memory.create_aliasing_buffer(&Native(&info), 0, "first").expect("it fits");
    let second = memory.create_aliasing_buffer(&Native(&info), 0, "second").expect("it fits");
    assert_eq!((first.offset(), second.offset()), (memory.offset(), memory.offset()));
    let mut upload = rig.buffer(8 * KIB, Location::Upload, "");
    for (seed, buffer) in [(5, &first), (6, &second)] {
        let bytes = pattern(seed, 8 << 10);
        upload.write(0, &bytes).expect("mapped");
        rig.run(&[copy(&upload, 0, buffer, 0, 8 * KIB)]);
        assert_eq!(rig.download(buffer, 8 * KIB), bytes);
    }
    let beyond = memory.create_aliasing_buffer(&Native(&info), needs.alignment, "");
    assert!(matches!(beyond, Err(Error::DoesNotFit { .. })), "{beyond:?}");
    drop((memory, first));
    rig.memory.reclaim();
    let count = rig.memory.statistics().total().range_count;
    drop(second);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().total().range_count, count - 1);
}

pub fn a_plan_says_what_the_call_does<G: Gpu>(rig: &mut Rig<G>) {
    let mut held = Vec::new();
    for size in [100, 1000, 70_000, 300_000, 5 << 20, 200 << 20, 1000, 70_000] {
        for location in [Location::Device, Location::Upload, Location::Readback] {
            if location != Location::Device && size > 64 << 20 {
                continue;
            }
            let (needs, desc) = (needs(rig, size), AllocationDesc { location, ..Default::default() });
            let before = rig.memory.statistics().total().reserved_bytes();
            let plan = rig.memory.plan().memory(needs, desc).expect("there is room");
            assert_eq!(rig.memory.statistics().total().reserved_bytes(), before);
            let made = rig.memory.allocate(needs, desc).expect("as planned");
            assert_eq!(plan.memory_type, made.memory_type());
            assert_eq!(plan.requested_bytes, rig.memory.statistics().total().reserved_bytes() - before);
            match plan.way {
                PlannedWay::InBlock { offset } => assert_eq!((offset, made.is_dedicated()), (made.offset(), false)),
                PlannedWay::NewBlock => assert!(!made.is_dedicated() && plan.requested_bytes > 0),
                PlannedWay::Dedicated => assert!(made.is_dedicated()),
                PlannedWay::Recycled => panic!("memory without a resource has no object to recycle"),
            }
            held.push(made);
        }
    }
}

pub fn small_buffers_share_and_hold_their_bytes<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::COPY_SRC | BufferUsage::VERTEX;
    let before = rig.memory.statistics().calls.create_object;
    let mut small: Vec<_> = (0..200)
        .map(|_| rig.memory.create_small_buffer(BufferDesc { size: 64, usage }, Location::Upload).expect("room"))
        .collect();
    assert_eq!(rig.memory.statistics().calls.create_object - before, 1, "one driver object for 200");
    for (index, buffer) in (0..).zip(&mut small) {
        buffer.write(0, &[index; 64]).expect("upload memory is mapped");
    }
    let back = rig.buffer(64 * 200, Location::Readback, "");
    let copies: Vec<_> = (0_u64..)
        .zip(&small)
        .map(|(index, buffer)| Command::CopyBuffer {
            src: buffer.object().clone(),
            src_offset: buffer.offset(),
            dst: back.object().clone(),
            dst_offset: index * 64,
            size: 64,
        })
        .collect();
    rig.run(&copies);
    let mut seen = vec![0; 64 * 200];
    back.read(0, &mut seen).expect("mapped");
    assert!(seen.chunks(64).zip(0..).all(|(chunk, index): (&[u8], u8)| chunk.iter().all(|byte| *byte == index)));
    let written = BufferDesc { size: 64, usage: BufferUsage::STORAGE };
    let storage = rig.memory.create_small_buffer(written, Location::Device).expect("room");
    let read = BufferDesc { size: 64, usage: BufferUsage::VERTEX };
    let vertices = rig.memory.create_small_buffer(read, Location::Device).expect("room");
    assert!(
        format!("{:?}", storage.object()) != format!("{:?}", vertices.object()),
        "buffers with storage usage are separate"
    );
}

pub fn custom_pools_hold_resources_and_go_with_them<G: Gpu>(rig: &mut Rig<G>) {
    let needs = needs(rig, 100 * KIB);
    let memory_type = rig.memory.plan().memory_type(needs.memory_type_bits, on_device()).expect("a memory type");
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy { granule: 4 * KIB }, Algorithm::FreeList, Algorithm::Linear] {
        let pool = rig
            .memory
            .create_pool(PoolDesc { memory_type, block_bytes: 1 << 20, algorithm, name: "pool", ..Default::default() })
            .expect("such a pool");
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let info = Create::<Buffers>::describe(rig.memory.device(), &BufferDesc { size: 100 * KIB, usage });
        let info = info.expect("a plain buffer");
        let held: Vec<_> =
            (0..20).map(|_| pool.create_buffer(&Native(&info), AllocationDesc::default()).expect("it grows")).collect();
        assert!(held.iter().all(|buffer| buffer.memory_type() == memory_type));
        assert!(pool.statistics().block_count >= 2);
        let bytes = pattern(9, 4096);
        let mut upload = rig.buffer(4096, Location::Upload, "");
        upload.write(0, &bytes).expect("mapped");
        rig.run(&[copy(&upload, 0, &held[19], 0, 4096)]);
        assert_eq!(rig.download(&held[19], 4096), bytes);
        drop(pool);
    }
    rig.memory.reclaim();
    rig.memory.reclaim();
    assert!(rig.memory.snapshot().blocks.iter().all(|block| block.pool.is_empty()), "no block of a pool is left");
}

pub fn blocks_made_ahead_serve_what_comes<G: Gpu>(rig: &mut Rig<G>) {
    let needs = needs(rig, 1 << 20);
    let mut held = Vec::new();
    let mut waited = 0;
    for _ in 0..100 {
        let before = rig.memory.statistics().calls.allocate_memory;
        held.push(rig.memory.allocate(needs, on_device()).expect("there is room"));
        waited += rig.memory.statistics().calls.allocate_memory - before;
        rig.memory.budgets().maintain();
    }
    assert_eq!(waited, 1, "only the first asked the driver");
}

pub fn what_is_announced_is_there_when_it_is_asked_for<G: Gpu>(rig: &mut Rig<G>) {
    let needs = needs(rig, 100 * KIB);
    let desc = AllocationDesc { memory_types: needs.memory_type_bits, ..on_device() };
    rig.memory.budgets().reserve(needs.class, 64 * needs.size, desc).expect("there is room");
    for _ in 0..200 {
        rig.memory.reclaim();
    }
    let before = rig.memory.statistics().calls.allocate_memory;
    let held: Vec<_> = (0..60).map(|_| rig.memory.allocate(needs, desc).expect("there is room")).collect();
    assert_eq!(rig.memory.statistics().calls.allocate_memory, before, "no thread waited for the driver");
    no_overlap(&held);
    drop(held);
    rig.memory.reclaim();
    rig.memory.budgets().trim();
    assert_eq!(rig.memory.statistics().total().block_bytes, 0);
}

pub fn threads_make_and_drop_buffers_while_frames_end<G: Gpu>(rig: &mut Rig<G>) {
    let memory = &rig.memory;
    let maintenance = memory.budgets().maintain_in_background().expect("a thread");
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            scope.spawn(move || {
                let mut held = Vec::new();
                for step in 0..60_u64 {
                    let size = 256 + (thread * 977 + step * 3571) % 50_000;
                    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size, usage });
                    let location = Location::ALL[(step % 3) as usize];
                    let usage_fits = location != Location::Readback;
                    let desc = AllocationDesc {
                        location: if usage_fits { location } else { Location::Device },
                        ..Default::default()
                    };
                    let made = memory.create_buffer(&Native(&info.expect("plain")), desc);
                    let mut buffer = made.expect("there is room");
                    if buffer.is_mapped() && location == Location::Upload {
                        buffer.write(0, &[thread as u8; 256]).expect("mapped");
                    }
                    held.push(buffer);
                    if step % 2 == 0 {
                        held.swap_remove((step * 5) as usize % held.len());
                    }
                    if step % 20 == 0 {
                        memory.reclaim();
                    }
                }
            });
        }
    });
    drop(maintenance);
    rig.memory.debug().validate().expect("the allocator is sound");
    assert!(!matches!(rig.memory.allocate(needs(rig, 4), on_device()), Err(Error::Device(DeviceError::Lost))));
}
