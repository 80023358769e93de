//! CPU-only descriptors on the simulated device: cached slots compared with a naive model, used by several threads, and
//! dropped after their heap.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use ringfence::descriptor::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc};
use ringfence::sim::Device;
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

struct Heaps(Fixture);

impl Deref for Heaps {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

impl Heaps {
    fn new() -> Self {
        Self(Fixture::new(FixtureDesc { timelines: 0, ..Default::default() }))
    }

    fn heap(&self, block_slots: u32) -> CpuDescriptorHeap<Device> {
        let desc = CpuHeapDesc { block_slots, empty_blocks_kept: 0, empty_block_grace: 1, ..Default::default() };
        CpuDescriptorHeap::new(&self.memory, desc).expect("small")
    }

    /// Reclaims often enough that unused slots are returned.
    fn reclaim(&self) {
        (0..6).for_each(|_| _ = self.memory.reclaim());
    }
}

#[derive(Clone, Debug)]
enum CpuStep {
    Allocate(u32),
    Drop(usize),
    Reclaim,
}

fn cpu_step() -> impl Strategy<Value = CpuStep> {
    prop_oneof![
        10 => Just(CpuStep::Allocate(1)),
        2 => (2..9_u32).prop_map(CpuStep::Allocate),
        10 => any::<usize>().prop_map(CpuStep::Drop),
        2 => Just(CpuStep::Reclaim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// No slot is allocated twice and none is lost, across caches, single slots and blocks. The model is a set of the
    /// used slots.
    #[test]
    fn no_cpu_only_slot_is_had_twice_or_lost(steps in prop::collection::vec(cpu_step(), 1..300)) {
        let world = Heaps::new();
        let heap = world.heap(8);
        let mut held: Vec<CpuDescriptors<Device>> = Vec::new();
        // The model.
        let mut owned: HashSet<u64> = HashSet::new();
        let slots = |run: &CpuDescriptors<Device>| (0..run.len()).map(|at| run.cpu_handle(at).0).collect::<Vec<_>>();
        let used = || heap.statistics().capacity - heap.statistics().free_size;
        // Slots that the buddy allocator uses for these.
        let taken = |held: &[CpuDescriptors<Device>]| {
            held.iter().map(|run| u64::from(run.len().next_power_of_two())).sum::<u64>()
        };
        for step in steps {
            let made = match step {
                CpuStep::Allocate(count) => Some(heap.allocate(count).expect("blocks grow")),
                CpuStep::Drop(at) if !held.is_empty() => {
                    let run = held.swap_remove(at % held.len());
                    for slot in slots(&run) {
                        prop_assert!(owned.remove(&slot));
                    }
                    drop(run);
                    None
                }
                CpuStep::Reclaim => {
                    world.memory.reclaim();
                    None
                }
                CpuStep::Drop(_) => None,
            };
            if let Some(run) = made {
                for slot in slots(&run) {
                    prop_assert!(owned.insert(slot), "slot {} is had twice", slot);
                }
                held.push(run);
            }
            heap.validate().expect("sound");
            prop_assert_eq!(used(), taken(&held), "a cached slot counts as free");
        }
        drop(held);
        prop_assert_eq!(used(), 0);
        world.reclaim();
        prop_assert_eq!(heap.statistics().block_count, 0, "no cached slot keeps a block for long");
        drop(heap);
        world.0.finish();
    }
}

/// If threads take single slots and drop those of other threads, no slot is allocated twice, and all slots are
/// returned.
#[test]
fn threads_that_drop_each_others_slots_never_have_one_twice() {
    const THREADS: usize = 4;
    let world = Heaps::new();
    let heap = world.heap(4096);
    // Keeps the only block alive, so that a slot's number identifies the slot.
    let first = heap.allocate(1).expect("a block");
    let owners: Vec<AtomicI64> = (0..4096).map(|_| AtomicI64::new(0)).collect();
    let taken = |one: CpuDescriptors<Device>| {
        assert_eq!(owners[one.start() as usize].fetch_add(1, Ordering::SeqCst), 0, "slot {} is had twice", one.start());
        one
    };
    let given = |one: &CpuDescriptors<Device>| {
        assert_eq!(owners[one.start() as usize].fetch_sub(1, Ordering::SeqCst), 1);
    };
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::channel()).unzip();
    std::thread::scope(|scope| {
        for (thread, received) in receivers.into_iter().enumerate() {
            let (heap, to, taken, given) = (heap.clone(), senders[(thread + 1) % THREADS].clone(), &taken, &given);
            scope.spawn(move || {
                for number in 0..3000 {
                    to.send(taken(heap.allocate(1).expect("few are held"))).expect("a thread receives");
                    if number > 100 {
                        let one: CpuDescriptors<Device> = received.recv().expect("as many come as go");
                        given(&one);
                        drop(one);
                    }
                }
                drop((heap, to));
                received.into_iter().take(101).for_each(|one| given(&one));
            });
        }
        (0..50).for_each(|_| _ = world.memory.reclaim());
        drop(senders);
    });
    heap.validate().expect("sound");
    assert_eq!((heap.statistics().block_count, heap.statistics().live_count), (1, 1));
    drop(first);
    world.reclaim();
    assert_eq!(heap.statistics().block_count, 0);
    drop(heap);
    world.0.finish();
}

#[test]
fn a_run_gets_what_lies_cached_before_a_block_is_made() {
    let world = Heaps::new();
    let heap = world.heap(16);
    let held: Vec<_> = (0..16).map(|_| heap.allocate(1).expect("a block")).collect();
    drop(held);
    let run = heap.allocate(16).expect("cached slots are free");
    assert_eq!((heap.statistics().block_count, heap.statistics().free_size), (1, 0));
    drop((run, heap));
    world.0.finish();
}

/// The heap's handles and the allocator may be dropped before the last descriptor. Another thread then drops the
/// descriptor, which frees everything.
#[test]
fn descriptors_outlive_their_heap_and_end_it() {
    let world = Heaps::new();
    let heap = world.heap(16);
    let held = [1, 5, 1, 1].map(|count| heap.allocate(count).expect("room"));
    drop(heap.allocate(1).expect("a cached slot"));
    drop(heap);
    let [one, run, first, second] = held;
    drop((one, run, first));
    let Heaps(Fixture { device, memory, .. }) = world;
    memory.reclaim();
    drop(memory);
    assert_ne!(device.live(), Default::default(), "the last one keeps it");
    std::thread::spawn(move || drop(second)).join().expect("no panic");
    assert_eq!(device.live(), Default::default());
    assert_eq!(device.hazards(), []);
}
