use std::error::Error;

use ringfence::algorithms::range::{Allocate, Range};
use ringfence::algorithms::tlsf::Tlsf;
use ringfence::lifetime::RetireBin;
use ringfence::vulkan::Allocator;

/// Divides a buffer of the program into ranges. Frees retired ranges once the GPU has finished with them.
pub fn own_ranges(
    memory: &Allocator,
    ranges: &mut Tlsf,
    retired: &RetireBin<Range>,
    released: Option<Range>,
    size: u64,
) -> Result<Range, Box<dyn Error>> {
    if let Some(range) = released {
        memory.retirement().retire_into(retired, range);
    }
    let mut free = Vec::new();
    memory.retirement().collect_from(retired, usize::MAX, &mut free)?;
    for range in free {
        ranges.free(range)?;
    }
    Ok(ranges.allocate(size, 256)?) // bind the buffer at `offset()`
}
