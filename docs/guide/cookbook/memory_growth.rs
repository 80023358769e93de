use std::error::Error;

use ringfence::vulkan::Allocator;

/// Runs frames, and fails if memory grows by more than `allowed_bytes` after the first third of them.
///
/// `frame` runs one frame and waits for it, so that the result does not depend on the speed of the GPU.
pub fn memory_growth(
    memory: &Allocator,
    frame_count: u32,
    allowed_bytes: u64,
    mut frame: impl FnMut(u32) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut warm_bytes = 0;
    for number in 0..frame_count {
        frame(number)?;
        memory.reclaim();
        let used_bytes = memory.statistics().total().used_bytes();
        if number <= frame_count / 3 {
            warm_bytes = used_bytes.max(warm_bytes);
        } else if used_bytes > warm_bytes + allowed_bytes {
            return Err(format!("frame {number}: {used_bytes} bytes, {warm_bytes} in the first frames").into());
        }
    }
    Ok(())
}
