//! What each choice of `AllocatorDesc::debug` costs on a Vulkan device: the time of making and destroying a host-visible
//! buffer, beside an allocator that looks for nothing, in turns.
//!
//! ```text
//! cargo run --release -p ringfence-harness --example debug_cost [part of the device's name]
//! ```

use std::time::Instant;

use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::vulkan::Allocator;
use ringfence::{AllocationDesc, AllocatorDesc, DebugDesc, Location};
use ringfence_harness::vulkan::VulkanGpu;
use ringfence_harness::{Gpu, Options};

const ROUNDS: usize = 9;
const TIMES: usize = 2_000;

/// The choices, one by one and all together.
fn choices() -> [(&'static str, DebugDesc); 6] {
    let off = DebugDesc::default();
    [
        ("nothing", off),
        ("leaks", DebugDesc { leaks: true, ..off }),
        ("history of 4096", DebugDesc { history_count: 4096, ..off }),
        ("margins of 64 bytes", DebugDesc { margin_bytes: 64, ..off }),
        ("fills", DebugDesc { fill_new: Some(0xcd), fill_released: Some(0xdd), ..off }),
        ("everything", DebugDesc::everything()),
    ]
}

/// Nanoseconds of one buffer made and destroyed, and the same for memory without a buffer.
fn measure(memory: &Allocator, size: u64) -> (f64, f64) {
    let desc = AllocationDesc { name: "measured", location: Location::Upload, ..Default::default() };
    let described = BufferDesc { size, usage: BufferUsage::COPY_SRC };
    let info = Create::<Buffers>::describe(memory.device(), &described).expect("a plain buffer");
    let start = Instant::now();
    for _ in 0..TIMES {
        let buffer = memory.create_buffer(&info, desc).expect("there is room");
        // SAFETY: nothing uses it.
        unsafe { buffer.destroy_now() };
    }
    let buffers = start.elapsed().as_nanos() as f64 / TIMES as f64;
    // SAFETY: what is prepared is discarded.
    let needs = unsafe {
        let (unplaced, needs) = Create::<Buffers>::prepare(memory.device(), &info).expect("a plain buffer");
        Create::<Buffers>::discard(memory.device(), unplaced);
        needs
    };
    let start = Instant::now();
    for _ in 0..TIMES {
        let allocation = memory.allocate(needs, desc).expect("there is room");
        // SAFETY: nothing uses it.
        unsafe { allocation.free_now() };
    }
    (buffers, start.elapsed().as_nanos() as f64 / TIMES as f64)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let name = std::env::args().nth(1);
    let gpu = VulkanGpu::open(&Options { name, ..Default::default() }).expect("a Vulkan device");
    println!("{:?}", gpu.device());
    println!("median of {ROUNDS} rounds of {TIMES}, in ns; host-visible memory");
    println!("{:<22}{:>8}{:>18}{:>18}", "looked for", "bytes", "buffer", "memory alone");
    for size in [256, 4096, 65_536, 1 << 20] {
        let allocators = choices().map(|(label, debug)| {
            (
                label,
                Allocator::over(gpu.device(), AllocatorDesc { debug, ..Default::default() }),
                Vec::new(),
                Vec::new(),
            )
        });
        let mut allocators = Vec::from(allocators);
        for _ in 0..ROUNDS {
            for (_, memory, buffers, alone) in &mut allocators {
                let (buffer, allocation) = measure(memory, size);
                buffers.push(buffer);
                alone.push(allocation);
            }
        }
        for (label, memory, buffers, alone) in allocators {
            assert!(memory.take_findings().is_empty());
            println!("{label:<22}{size:>8}{:>18.0}{:>18.0}", median(buffers), median(alone));
        }
    }
}
