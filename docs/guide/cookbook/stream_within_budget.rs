use std::collections::VecDeque;

use ringfence::device::TextureDesc;
use ringfence::memory::Error;
use ringfence::vulkan::{Allocator, Texture};
use ringfence::{AllocationDesc, vulkan};

/// Creates a texture if it fits into the budget. If not, drops the oldest texture of the cache and returns `None`: try
/// again in a later frame, when the GPU has finished with the dropped texture.
pub fn stream_within_budget(
    memory: &Allocator,
    cache: &mut VecDeque<vulkan::Texture>,
    desc: &TextureDesc,
) -> Result<Option<Texture>, Error> {
    let request = AllocationDesc { name: "streamed", within_budget: true, ..Default::default() };
    match memory.create_texture(desc, request) {
        Ok(texture) => Ok(Some(texture)),
        Err(Error::OverBudget { .. }) if cache.pop_front().is_some() => Ok(None),
        Err(error) => Err(error),
    }
}
