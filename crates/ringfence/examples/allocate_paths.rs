//! The memory paths that make no driver call, each 20,000 times, for `valgrind --tool=callgrind`. All debugging checks
//! are turned off, to show that they cost nothing in this case.
//!
//! ```text
//! cargo build --release -p ringfence --example allocate_paths
//! valgrind --tool=callgrind --callgrind-out-file=/tmp/out target/release/examples/allocate_paths
//! callgrind_annotate --inclusive=yes /tmp/out | grep allocate_paths::
//! ```

use ringfence::device::{Requirements, ResourceClass};
use ringfence::sim::{Device, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};

const TIMES: usize = 20_000;

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

fn allocate_and_free(memory: &Allocator<Device>, size: u64) {
    let allocation = memory.allocate(needs(size), AllocationDesc::default()).expect("there is room");
    // SAFETY: no submission uses it.
    unsafe { allocation.destroy_now() };
}

/// Allocates and frees a slot of a pool. Takes no lock.
#[inline(never)]
fn slot(memory: &Allocator<Device>) {
    (0..TIMES).for_each(|_| allocate_and_free(memory, 512));
}

/// Allocates and frees a range of a block. Takes one short lock.
#[inline(never)]
fn range(memory: &Allocator<Device>) {
    (0..TIMES).for_each(|_| allocate_and_free(memory, 300_000));
}

/// Allocates and drops ranges, and reclaims after each thousand.
#[inline(never)]
fn drop_and_reclaim(memory: &Allocator<Device>) {
    for _ in 0..TIMES / 1000 {
        for _ in 0..1000 {
            drop(memory.allocate(needs(512), AllocationDesc::default()).expect("there is room"));
        }
        memory.reclaim();
    }
}

fn main() {
    let device = Device::new(Profile::h200(), SimOptions::default());
    let memory = Allocator::over(device, AllocatorDesc::default());
    let _held = memory.allocate(needs(1 << 20), AllocationDesc::default()).expect("there is room");
    for _ in 0..64 {
        allocate_and_free(&memory, 512);
    }
    drop_and_reclaim(&memory);
    slot(&memory);
    range(&memory);
    drop_and_reclaim(&memory);
}
