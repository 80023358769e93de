use std::error::Error;
use std::time::Duration;

use ringfence::vulkan::Allocator;

/// Fails if a resource of the allocator is still alive. Call it at the end of a test.
///
/// The allocator was created with `DebugDesc { leaks: true, .. }`.
pub fn assert_no_leaks(memory: &Allocator) -> Result<(), Box<dyn Error>> {
    memory.shutdown(Duration::from_secs(10))?;
    let findings = memory.debug().take_findings();
    if findings.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(|finding| finding.to_string()).collect();
    Err(lines.join("\n").into())
}
