use std::error::Error;

use ringfence::AllocationDesc;
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::vulkan::{Allocator, Buffer};

/// Creates a buffer with a name and a number of the program's own. Returns it with a snapshot of all memory as JSON.
pub fn snapshot_json(memory: &Allocator, tile: u64) -> Result<(Buffer, String), Box<dyn Error>> {
    let desc = BufferDesc { size: 64 << 10, usage: BufferUsage::VERTEX | BufferUsage::COPY_DST };
    let name = format!("terrain/tile {tile}"); // reports add up the bytes of "terrain"
    let request = AllocationDesc { name: &name, user_data: tile, ..Default::default() };
    let buffer = memory.create_buffer(&desc, request)?;
    let json = serde_json::to_string(&memory.snapshot())?;
    Ok((buffer, json))
}
