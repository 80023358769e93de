use ash::vk;
use ringfence::contents::{ContentsError, Mesh, MeshArena};
use ringfence::vulkan::Device;

/// Draws meshes of an arena. Binds the vertex and index buffer of each block once. The first instance of each draw is the
/// index of its mesh, with which shaders find its constants.
pub fn packed_meshes(
    arena: &MeshArena<Device, [f32; 3], u32>,
    meshes: &[Mesh<Device>],
    device: &ash::Device,
    commands: vk::CommandBuffer,
) -> Result<(), ContentsError> {
    let mut bound = None;
    for (mesh, draw) in arena.draws(meshes)? {
        // SAFETY: the command buffer is being recorded in a render pass with a pipeline for these vertices.
        unsafe {
            if bound != Some(draw.block)
                && let Some((vertices, indices)) = arena.block(draw.block)
            {
                device.cmd_bind_vertex_buffers(commands, 0, &[*vertices.object()], &[0]);
                device.cmd_bind_index_buffer(commands, *indices.object(), 0, vk::IndexType::UINT32);
                bound = Some(draw.block);
            }
            let (first_index, vertex_offset) = (draw.first_index, draw.vertex_offset);
            device.cmd_draw_indexed(commands, draw.index_count, 1, first_index, vertex_offset, mesh as u32);
        }
    }
    Ok(())
}
