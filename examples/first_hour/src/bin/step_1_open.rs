//! Step 1: opens a device, creates the allocator, and prints the memory heaps.

use first_hour::gpu::{Failure, Gpu};
use ringfence::device::Driver;

fn main() -> Result<(), Failure> {
    let gpu = Gpu::open()?;
    print_heaps(&gpu)?;
    gpu.close()
}

fn print_heaps(gpu: &Gpu) -> Result<(), Failure> {
    let capabilities = gpu.memory.device().capabilities();
    println!("{}, validation {}", capabilities.name, if gpu.is_validated() { "on" } else { "off" });
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for heap in 0..capabilities.memory_heaps.len() as u32 {
        let budget = gpu.memory.budgets().heap(heap);
        let (size, allowed, used) = (budget.heap_bytes, budget.budget_bytes, budget.usage_bytes);
        println!("heap {heap}: {:.0} MiB, budget {:.0} MiB, in use {:.0} MiB", mib(size), mib(allowed), mib(used));
        if allowed == 0 {
            return Err(format!("heap {heap} has no budget").into());
        }
    }
    println!("{} memory types", capabilities.memory_types.len());
    Ok(())
}
