use ringfence::AllocationDesc;
use ringfence::algorithms::algorithm::Algorithm;
use ringfence::device::{BufferDesc, ResourceClass};
use ringfence::memory::{Error, PoolDesc};
use ringfence::vulkan::{Allocator, Pool};

/// Creates a pool for buffers like `example` that are freed in the order of their creation, with at most 64 MiB.
pub fn custom_pool(memory: &Allocator, example: &BufferDesc) -> Result<Pool, Error> {
    let memory_type = memory.plan().buffer(example, AllocationDesc::default())?.memory_type;
    memory.create_pool(PoolDesc {
        memory_type,
        class: ResourceClass::Buffer,
        algorithm: Algorithm::Linear, // a stack or a ring
        block_bytes: 64 << 20,
        block_count_max: 1,
        name: "streaming",
        ..Default::default()
    })
}
