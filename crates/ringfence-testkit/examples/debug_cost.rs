//! Measures the cost of each option of `AllocatorDesc::debug` on a Vulkan device: the time to create and destroy a
//! host-visible buffer, compared with an allocator without debugging that takes turns with it.
//!
//! ```text
//! cargo run --release -p ringfence-testkit --example debug_cost [part of the device's name]
//! ```

use std::time::Instant;

use ringfence::debugging::DebugDesc;
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::vulkan::Allocator;
use ringfence::{AllocationDesc, AllocatorDesc, Location};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};

const ROUNDS: usize = 40;
const TIMES: usize = 500;

/// Returns each option alone, and all options together.
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

/// Returns the time to create and destroy a buffer, and the time to allocate and free its memory alone, in nanoseconds.
fn measure(memory: &Allocator, size: u64) -> (f64, f64) {
    let desc = AllocationDesc { name: "measured", location: Location::Upload, ..Default::default() };
    let described = BufferDesc { size, usage: BufferUsage::COPY_SRC };
    let info = Create::<Buffers>::describe(memory.device(), &described).expect("a plain buffer");
    let start = Instant::now();
    for _ in 0..TIMES {
        let buffer = memory.create_buffer(&info, desc).expect("there is room");
        // SAFETY: no work uses it.
        unsafe { buffer.destroy_now() };
    }
    let buffers = start.elapsed().as_nanos() as f64 / TIMES as f64;
    // SAFETY: the prepared buffer is discarded.
    let needs = unsafe {
        let (unplaced, needs) = Create::<Buffers>::prepare(memory.device(), &info).expect("a plain buffer");
        Create::<Buffers>::discard(memory.device(), unplaced);
        needs
    };
    let start = Instant::now();
    for _ in 0..TIMES {
        let allocation = memory.allocate(needs, desc).expect("there is room");
        // SAFETY: no work uses it.
        unsafe { allocation.destroy_now() };
    }
    (buffers, start.elapsed().as_nanos() as f64 / TIMES as f64)
}

/// Returns the minimum: other load on the machine can only add time.
fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn main() {
    let name = std::env::args().nth(1);
    let gpu = VulkanGpu::open(&Options { name, ..Default::default() }).expect("a Vulkan device");
    println!("{:?}", gpu.device());
    println!("least of {ROUNDS} rounds of {TIMES} in turns, in ns, and beside nothing; host-visible memory");
    println!("{:<22}{:>8}{:>10}{:>8}{:>14}{:>8}", "looked for", "bytes", "buffer", "", "memory alone", "");
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
        let nothing = (least(&allocators[0].2), least(&allocators[0].3));
        for (label, memory, buffers, alone) in allocators {
            assert!(memory.debug().take_findings().is_empty());
            let (buffer, range) = (least(&buffers), least(&alone));
            let (more, more_alone) = (buffer / nothing.0, range / nothing.1);
            println!("{label:<22}{size:>8}{buffer:>10.0}{more:>7.1}x{range:>14.0}{more_alone:>7.1}x");
        }
    }
}
