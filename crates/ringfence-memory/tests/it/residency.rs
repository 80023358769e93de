//! Residency on the simulated device: the order of eviction, pressure from budgets, failures, and deliberate hazards.

mod rules;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringfence::device::fault::{Call, FaultInjector, Rule};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, Driver, MemoryProperties, Priority};
use ringfence::memory::Budget;
use ringfence::residency::{Residency, ResidencyError};
use ringfence::sim::{self, BufferRange, Command, HazardKind, Kernel};
use ringfence::{AllocationDesc, Buffer, Dedicated};
use ringfence_testkit::fixture::{FaultyFixture, FixtureDesc};

type Device = FaultInjector<sim::Device>;

const SIZE: u64 = 1 << 20;

struct Pressed {
    base: FaultyFixture,
    residency: Residency<Device>,
}

impl Deref for Pressed {
    type Target = FaultyFixture;

    fn deref(&self) -> &FaultyFixture {
        &self.base
    }
}

impl Pressed {
    fn new() -> Self {
        let profile = sim::Profile::d3d12_modern();
        let base = FaultyFixture::faulty(FixtureDesc { profile, ..Default::default() });
        // SAFETY: used resources are committed first, except where the test wants a hazard, which the simulated device
        // survives.
        let residency = unsafe { base.memory.residency() };
        Self { base, residency }
    }

    fn make(&self, priority: Priority) -> Buffer<Device> {
        let dedicated = Dedicated::Always;
        let desc = AllocationDesc { dedicated, priority, evictable: true, ..Default::default() };
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE;
        self.memory.create_buffer(&BufferDesc { size: SIZE, usage }, desc).expect("there is room")
    }

    fn fill(&self, buffer: &Buffer<Device>) -> Command {
        Command::FillBuffer { dst: *buffer.object(), offset: 0, size: SIZE, value: 7 }
    }

    /// Makes a submission that uses these buffers; it is complete when the function returns.
    fn use_all(&self, buffers: &[&Buffer<Device>]) -> Result<(), ResidencyError> {
        let frame = self.timeline().begin();
        let mut list = self.residency.list();
        buffers.iter().for_each(|buffer| list.add(buffer));
        self.residency.commit(&list, &frame)?;
        let commands = buffers.iter().map(|buffer| self.fill(buffer)).collect();
        self.device.submit(0, &[], commands, (self.fence(), frame.value())).expect("the device is not lost");
        let point = self.timeline().submitted(frame).expect("in order");
        assert!(self.timeline().wait(point.value, Duration::MAX).expect("the device is not lost"));
        Ok(())
    }

    fn evicted(&self, buffer: &Buffer<Device>) -> bool {
        self.device.is_evicted(buffer.memory()).expect("it is alive")
    }

    /// Sets the budget of the device heap to the current usage less this many bytes.
    fn press(&self, bytes: u64) {
        let used = self.device.budgets().expect("it tells")[0].usage_bytes;
        self.device.set_budget(0, Some(used - bytes));
        self.memory.reclaim();
    }
}

#[test]
fn the_least_recently_used_of_the_lowest_priority_goes_first() {
    let world = Pressed::new();
    let [a, b, c] = [(); 3].map(|()| world.make(Priority::Normal));
    let (low, high) = (world.make(Priority::Low), world.make(Priority::High));
    for one in [&high, &b, &a, &c, &low] {
        world.use_all(&[one]).expect("there is room");
    }
    let order = [&low, &b, &a, &c, &high];
    for gone in 1..=order.len() {
        world.press(1);
        world.use_all(&[]).expect("no memory must become resident");
        let evicted: Vec<_> = order.iter().map(|buffer| world.evicted(buffer)).collect();
        assert_eq!(evicted, (0..order.len()).map(|at| at < gone).collect::<Vec<_>>());
    }
    // A buffer that becomes resident evicts the least recently used one.
    world.device.set_budget(0, Some(2 * SIZE));
    for one in order {
        world.use_all(&[one]).expect("there is room for two");
    }
    assert!(!world.evicted(&high) && !world.evicted(&c) && world.evicted(&a));
    assert!(a.set_priority(Priority::Highest));
    assert_eq!(world.device.priority(a.memory()), Some(Priority::Highest));
    assert_eq!(world.device.hazards(), []);
}

#[test]
fn a_budget_that_falls_is_followed_a_bounded_step_at_a_time() {
    let mut world = Pressed::new();
    world.residency = world.residency.with_evictions(2 * SIZE);
    let held: Vec<_> = (0..8).map(|_| world.make(Priority::Normal)).collect();
    world.use_all(&held.iter().collect::<Vec<_>>()).expect("there is room");
    world.press(5 * SIZE);
    for absent in [2, 4, 5, 5] {
        world.use_all(&[]).expect("no memory must become resident");
        assert_eq!(world.residency.absent_bytes(), absent * SIZE);
    }
    // All buffers at once exceed the budget, but the driver allows that.
    let all: Vec<_> = held.iter().collect();
    world.use_all(&all).expect("the heap itself has room");
    assert_eq!(world.residency.absent_bytes(), 0);
    assert_eq!(world.device.hazards(), []);
}

#[test]
fn what_is_recycled_keeps_no_block_resident_beyond_the_budget() {
    let world = Pressed::new();
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let make = |evictable| {
        let desc = AllocationDesc { evictable, ..Default::default() };
        world.memory.create_buffer(&BufferDesc { size: SIZE, usage }, desc).expect("there is room")
    };
    let streamed = make(true);
    for _ in 0..2 {
        let plain = make(false);
        assert_eq!(plain.memory(), streamed.memory(), "one block");
        drop(plain);
        world.memory.reclaim();
    }
    assert_eq!(world.memory.statistics().recycled_count, 1);
    world.press(0);
    world.use_all(&[&streamed]).expect("it is within the budget");
    assert_eq!(world.memory.statistics().recycled_count, 1, "memory is not short");
    world.device.set_budget(0, Some(1024));
    world.memory.reclaim();
    let frame = world.timeline().begin();
    let done = world.residency.commit(&world.residency.list(), &frame).expect("no memory must become resident");
    let bytes = world.memory.statistics().total().reserved_bytes();
    assert_eq!((done.evicted_count, done.evicted_bytes, done.beyond_budget_bytes), (1, bytes, 0));
    assert!(world.evicted(&streamed));
    assert_eq!(world.memory.statistics().recycled_count, 0);
    world.complete(frame);
    world.use_all(&[&streamed]).expect("the heap itself has room");
    assert_eq!(world.device.hazards(), []);
}

#[test]
fn an_allocation_within_the_budget_makes_what_is_not_used_go() {
    let world = Pressed::new();
    let held: Vec<_> = (0..4).map(|_| world.make(Priority::Normal)).collect();
    world.use_all(&[&held[0]]).expect("there is room");
    world.press(0);
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    // Other memory is sufficient.
    let memory_types = 1 << held[0].memory_type();
    let dedicated = Dedicated::Always;
    let desc = AllocationDesc { within_budget: true, dedicated, memory_types, ..Default::default() };
    let made = world.memory.create_buffer(&BufferDesc { size: 2 * SIZE, usage }, desc);
    made.expect("two of the four have made room");
    let evicted = held.iter().filter(|buffer| world.evicted(buffer)).count();
    assert_eq!((evicted, world.evicted(&held[0])), (2, false), "not the one that was used last");
    assert_eq!(world.device.hazards(), []);
}

#[test]
fn a_list_that_was_cleared_names_nothing() {
    let world = Pressed::new();
    let (idle, used) = (world.make(Priority::Normal), world.make(Priority::Normal));
    world.use_all(&[&used]).expect("there is room");
    let frame = world.timeline().begin();
    let mut list = world.residency.list();
    list.add(&idle);
    list.clear();
    world.residency.commit(&list, &frame).expect("the list is empty");
    world.complete(frame);
    world.press(SIZE);
    world.use_all(&[]).expect("one of the two is evicted");
    assert_eq!((world.evicted(&idle), world.evicted(&used)), (true, false));
    assert_eq!(world.device.hazards(), []);
}

/// Device memory that the host can write is never evicted: its bytes must be accessible at any time.
#[test]
fn what_the_host_sees_is_never_evicted() {
    let world = Pressed::new();
    let required = MemoryProperties::DEVICE_LOCAL | MemoryProperties::HOST_VISIBLE;
    let desc = AllocationDesc { dedicated: Dedicated::Always, required, evictable: true, ..Default::default() };
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let seen = world.memory.create_buffer(&BufferDesc { size: SIZE, usage }, desc).expect("there is room");
    let unseen = world.make(Priority::Normal);
    world.press(2 * SIZE);
    _ = world.use_all(&[]);
    assert_eq!((world.evicted(&seen), world.evicted(&unseen)), (false, true));
    assert_eq!(world.device.hazards(), []);
}

#[test]
fn failed_calls_change_nothing_and_are_typed_errors() {
    let world = Pressed::new();
    let held: Vec<_> = (0..3).map(|_| world.make(Priority::Normal)).collect();
    world.press(SIZE);
    world.faults.add(Rule { call: Some(Call::Evict), count: 1, ..Rule::new(DeviceError::OutOfHostMemory) });
    assert_eq!(world.use_all(&[]), Err(ResidencyError::Device(DeviceError::OutOfHostMemory)));
    assert!(held.iter().all(|buffer| !world.evicted(buffer)));
    world.use_all(&[]).expect("the second attempt succeeds");
    let (gone, here): (Vec<_>, Vec<_>) = held.iter().partition(|buffer| world.evicted(buffer));
    assert_eq!((gone.len(), here.len()), (1, 2));
    // After one failure everything else is evicted, and the call is tried again. After two failures there is an error.
    let out = Rule { call: Some(Call::MakeResident), ..Rule::new(DeviceError::OutOfDeviceMemory) };
    world.faults.add(Rule { count: 2, ..out });
    let refused = world.use_all(&[gone[0]]);
    let cause = DeviceError::OutOfDeviceMemory;
    assert_eq!(refused, Err(ResidencyError::NoRoom { missing_bytes: SIZE, cause }));
    assert!(world.evicted(gone[0]));
    world.device.set_budget(0, None);
    world.faults.clear();
    world.use_all(&held.iter().collect::<Vec<_>>()).expect("there is room again");
    assert!(held.iter().all(|buffer| !world.evicted(buffer)));
    assert_eq!(world.device.hazards(), []);
}

/// The simulated device reports a use of memory that was not listed.
#[test]
fn what_is_used_without_being_listed_is_found() {
    let world = Pressed::new();
    let held = world.make(Priority::Normal);
    world.press(SIZE);
    world.use_all(&[]).expect("no memory must become resident");
    assert!(world.evicted(&held));
    let frame = world.timeline().begin();
    world
        .device
        .submit(0, &[], vec![world.fill(&held)], (world.fence(), frame.value()))
        .expect("the device is not lost");
    world.timeline().submitted(frame).expect("in order");
    let found = world.device.take_hazards();
    assert_eq!(found.iter().map(|hazard| hazard.kind).collect::<Vec<_>>(), [HazardKind::UsedWhileEvicted]);
    assert!(world.device.run_until_idle());
    // It also reports memory that pending work uses and that is evicted by hand.
    world.use_all(&[&held]).expect("there is room");
    world.device.pause(0);
    let frame = world.timeline().begin();
    world
        .device
        .submit(0, &[], vec![world.fill(&held)], (world.fence(), frame.value()))
        .expect("the device is not lost");
    world.timeline().submitted(frame).expect("in order");
    let pageable = world.device.pageable(held.memory()).expect("it can be evicted");
    // SAFETY: the simulated device survives it.
    unsafe { world.device.evict(&[pageable]) }.expect("the device is not lost");
    let found = world.device.take_hazards();
    assert_eq!(found.iter().map(|hazard| hazard.kind).collect::<Vec<_>>(), [HazardKind::EvictedWhilePending]);
    world.device.resume(0);
    assert!(world.device.run_until_idle());
}

/// Frames in flight use some of many buffers while the budget rises and falls. Each use compares the bytes.
#[test]
fn random_programs_find_their_bytes_under_a_budget_that_moves() {
    for seed in 1..=4_u64 {
        let mut world = Pressed::new();
        world.residency = world.residency.with_evictions(3 * SIZE).with_headroom(SIZE / 2);
        let mut random = seed;
        let mut next = move |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        let wrong = Arc::new(AtomicU64::new(0));
        let range = |buffer: &Buffer<Device>| BufferRange::new(*buffer.object(), 0, 64);
        let mut held = Vec::new();
        let mut list = world.residency.list();
        let mut in_flight = std::collections::VecDeque::new();
        for number in 0..400_u64 {
            let frame = world.timeline().begin();
            list.clear();
            let mut commands = Vec::new();
            if held.len() < 24 {
                let buffer = world.make(Priority::ALL[next(5) as usize]);
                list.add(&buffer);
                let written = range(&buffer);
                commands.push(Command::Kernel(Kernel::new(vec![], vec![written], move |memory| {
                    memory.writes[0].fill(number as u8);
                })));
                held.push((buffer, number));
            }
            for _ in 0..next(4) {
                let (buffer, filled) = &held[next(held.len() as u64) as usize];
                list.add(buffer);
                let (read, expected, wrong) = (range(buffer), *filled as u8, Arc::clone(&wrong));
                commands.push(Command::Kernel(Kernel::new(vec![read], vec![], move |memory| {
                    let differs = memory.reads[0].iter().any(|byte| *byte != expected);
                    wrong.fetch_add(u64::from(differs), Ordering::Relaxed);
                })));
            }
            if next(3) == 0 {
                world.device.set_budget(0, Some((4 + next(24)) * SIZE));
            }
            world.residency.commit(&list, &frame).expect("the heap has room");
            if next(6) == 0 {
                drop(held.swap_remove(next(held.len() as u64) as usize));
            }
            world.device.submit(0, &[], commands, (world.fence(), frame.value())).expect("the device is not lost");
            in_flight.push_back(world.timeline().submitted(frame).expect("in order"));
            if in_flight.len() > 3 {
                let oldest = in_flight.pop_front().expect("there are some");
                assert!(world.timeline().wait(oldest.value, Duration::MAX).expect("the device is not lost"));
            }
            world.memory.reclaim();
        }
        assert!(world.device.run_until_idle());
        let totals = world.residency.totals();
        assert!(totals.evicted_count > 50 && totals.returned_count > 50, "seed {seed}: {totals:?}");
        assert_eq!(wrong.load(Ordering::Relaxed), 0, "seed {seed}");
        let hazards = world.device.hazards();
        assert!(hazards.is_empty(), "seed {seed}: {}", hazards[0]);
        drop(held);
        world.memory.reclaim();
        world.memory.debug().validate().expect("the allocator is sound");
    }
}

/// If the driver reports no budgets, the usage is the memory of this allocator that is not evicted.
#[test]
fn use_is_reckoned_without_what_is_evicted() {
    let mut profile = sim::Profile::d3d12_modern();
    profile.reports_budgets = false;
    profile.capabilities.memory_heaps[0].bytes = 10 * SIZE;
    let base = FaultyFixture::faulty(FixtureDesc { profile, ..Default::default() });
    // SAFETY: used resources are committed first.
    let residency = unsafe { base.memory.residency() };
    let world = Pressed { base, residency };
    let desc = AllocationDesc {
        dedicated: Dedicated::Always,
        evictable: true,
        within_budget: true,
        memory_types: 1,
        ..Default::default()
    };
    let make = || world.buffer(SIZE, desc).expect("unused memory is evicted");
    let agree = |resident: u64, absent: u64| {
        let Budget { usage_bytes, reserved_bytes, .. } = world.memory.budgets().heap(0);
        assert_eq!((world.residency.absent_bytes(), reserved_bytes), (absent * SIZE, (resident + absent) * SIZE));
        assert_eq!(usage_bytes, resident * SIZE);
    };
    let mut held: Vec<_> = (0..7).map(|_| make()).collect();
    agree(7, 0);
    held.push(make());
    agree(7, 1);
    let gone = held.iter().position(|buffer| world.evicted(buffer)).expect("one of them");
    world.use_all(&[&held[gone]]).expect("another one is evicted for it");
    assert!(!world.evicted(&held[gone]));
    agree(7, 1);
    let gone = held.iter().position(|buffer| world.evicted(buffer)).expect("one of them");
    drop(held.swap_remove(gone));
    world.memory.reclaim();
    agree(7, 0);
    drop(held);
    assert_eq!(world.device.hazards(), []);
}
