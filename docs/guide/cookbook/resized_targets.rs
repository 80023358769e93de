use std::error::Error;

use ringfence::vulkan::{Texture, TransientAllocator};
use ringfence::{AllocationDesc, Dedicated};

/// Gives a target the size of the window. Returns `true` if its views must be created anew.
pub fn resized_targets(
    transient: &mut TransientAllocator,
    history: &mut Texture,
    [width, height]: [u32; 2],
) -> Result<bool, Box<dyn Error>> {
    let mut desc = *history.desc().ok_or("the target has no portable description")?;
    if [desc.width, desc.height] == [width, height] {
        return Ok(false);
    }
    (desc.width, desc.height) = (width, height);
    // The old texture is retired: frames in flight may still use it.
    history.replace(&desc, AllocationDesc { name: "history", dedicated: Dedicated::Always, ..Default::default() })?;
    transient.trim(); // also releases the targets of single frames in the old size
    Ok(true)
}
