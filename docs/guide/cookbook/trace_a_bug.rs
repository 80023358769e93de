use std::error::Error;
use std::fs::File;
use std::path::Path;

use ringfence::vulkan::Allocator;

/// Runs a part of the program and writes all memory events to a file, also if the part fails.
///
/// The allocator must be new: a trace starts before the first resource.
pub fn trace_a_bug(
    memory: &Allocator,
    path: &Path,
    part: impl FnOnce(&Allocator) -> Result<(), Box<dyn Error>>,
) -> Result<u64, Box<dyn Error>> {
    memory.trace().start(File::create(path)?)?;
    let outcome = part(memory);
    memory.reclaim();
    let summary = memory.trace().stop()?.ok_or("the trace was started")?;
    outcome?;
    Ok(summary.event_count)
}
