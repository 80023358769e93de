//! Locks: slots are allocated without the locks of the arenas. Classes: some share an arena.

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::Allocator;
use crate::device::{BufferDesc, BufferUsage, Driver, Requirements, ResourceClass};
use crate::memory::{AllocationDesc, AllocatorDesc};
use crate::sim::{self, Profile, SimOptions};

fn needs(size: u64) -> Requirements {
    Requirements {
        size,
        alignment: 16,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

fn allocator(profile: Profile) -> Allocator<sim::Device> {
    Allocator::over(sim::Device::new(profile, SimOptions::default()), AllocatorDesc::default())
}

/// Slots are allocated and freed without any lock of the arenas: this thread holds all of these locks meanwhile.
#[test]
fn seed_003_02_blocks_are_taken_and_freed_while_every_lock_of_the_arenas_is_held() {
    let memory = allocator(Profile::h200());
    let allocate = |memory: &Allocator<sim::Device>| {
        memory.allocate(needs(1000), AllocationDesc::default()).expect("there is room")
    };
    let create = |memory: &Allocator<sim::Device>| {
        let info = BufferDesc { size: 1000, usage: BufferUsage::COPY_DST };
        memory.create_buffer(&info, AllocationDesc::default()).expect("there is room")
    };
    // Enough for the class to get pools with free slots.
    let held: Vec<_> = (0..400).map(|_| allocate(&memory)).collect();
    // SAFETY: no submission uses them.
    held.into_iter().for_each(|held| unsafe { held.destroy_now() });
    let arenas = memory.shared().arenas.iter();
    let locks: Vec<_> = arenas.map(|arena| arena.lock_all()).collect();
    let lists = (memory.shared().custom_pools.write(), memory.shared().pools.lock());
    let (sender, receiver) = channel();
    let other = memory.clone();
    let worker = thread::spawn(move || {
        for _ in 0..100 {
            let held: Vec<_> = (0..100).map(|_| allocate(&other)).collect();
            // SAFETY: no submission uses them.
            held.into_iter().for_each(|held| unsafe { held.destroy_now() });
            // Resources use another path.
            let buffers: Vec<_> = (0..20).map(|_| create(&other)).collect();
            // SAFETY: no submission uses them.
            buffers.into_iter().for_each(|buffer| unsafe { buffer.destroy_now() });
        }
        sender.send(()).expect("the receiver waits");
    });
    receiver.recv_timeout(Duration::from_secs(60)).expect("the thread waits for no lock");
    drop((locks, lists));
    worker.join().expect("the thread has not panicked");
    memory.debug().validate().expect("the allocator is sound");
}

/// There is one arena for each memory type and each group of classes that share blocks. Its index is computed in O(1).
#[test]
fn seed_003_04_an_arena_is_of_one_memory_type_and_one_group_of_classes() {
    for profile in Profile::all() {
        let memory = allocator(profile);
        let shared = memory.shared();
        let capabilities = shared.device.capabilities();
        let mut keys = HashMap::new();
        for memory_type in 0..capabilities.memory_types.len() as u32 {
            for class in [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget] {
                let group = shared.classes.groups[class as usize];
                let index = shared.shared_arena_index(memory_type, class);
                let arena = &shared.arenas[index as usize];
                assert_eq!(arena.desc.memory_type, memory_type);
                assert_eq!(*keys.entry(index).or_insert((memory_type, group)), (memory_type, group), "one key each");
            }
        }
        let mut distinct: Vec<_> = keys.values().collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len(), "one arena for each key");
    }
}
