//! Meshes: vertices and indices in buffers on the device.

use ash::vk;
use ringfence::AllocationDesc;
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::vulkan::{Buffer, UploadBatch, UploadRing};

use crate::gpu::{Failure, Gpu, Work};

/// A mesh on the device.
pub struct Mesh {
    pub vertices: Buffer,
    pub indices: Buffer,
    pub index_count: u32,
}

impl Mesh {
    /// Creates the buffers, and adds their contents to a batch.
    pub fn new(
        gpu: &Gpu,
        (ring, batch, work): (&UploadRing, &mut UploadBatch, &Work),
        name: &str,
        vertices: &[u8],
        indices: &[u16],
    ) -> Result<Self, Failure> {
        let mut buffer = |bytes: &[u8], usage, what: &str| {
            let desc = BufferDesc { size: bytes.len() as u64, usage: usage | BufferUsage::COPY_DST };
            let name = format!("{name}/{what}");
            let buffer = gpu.memory.create_buffer(&desc, AllocationDesc { name: &name, ..Default::default() })?;
            batch.copy(&ring.write_for(&work.frame, bytes, 16)?, &buffer, 0)?;
            Ok::<_, Failure>(buffer)
        };
        Ok(Self {
            vertices: buffer(vertices, BufferUsage::VERTEX, "vertices")?,
            indices: buffer(bytemuck::cast_slice(indices), BufferUsage::INDEX, "indices")?,
            index_count: indices.len() as u32,
        })
    }

    /// Draws the mesh `instances` times. `first` is the number of the first instance.
    pub fn draw(&self, gpu: &Gpu, work: &Work, first: u32, instances: u32) {
        // SAFETY: the steps have begun a pass and bound a pipeline. The buffers contain the vertices and indices.
        unsafe {
            gpu.device.cmd_bind_vertex_buffers(work.commands, 0, &[self.vertices.raw()], &[0]);
            gpu.device.cmd_bind_index_buffer(work.commands, self.indices.raw(), 0, vk::IndexType::UINT16);
            gpu.device.cmd_draw_indexed(work.commands, self.index_count, instances, 0, 0, first);
        }
    }
}
