//! Recording of copies into a list of commands. Commands of a queue run one after the other, so no barriers are
//! recorded.

use super::command::Command;
use super::device::Device;
use super::ids::{Buffer, Texture};
use ringfence_hal::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureCopy, TextureTarget};

impl Record<Device> for Vec<Command> {
    unsafe fn begin_copies(&mut self, _buffers: &[Buffer], _textures: &[TextureTarget<Texture>]) {}

    unsafe fn copy_buffer(&mut self, src: &Buffer, dst: &Buffer, regions: &[CopyRegion]) {
        self.extend(regions.iter().map(|&CopyRegion { src_offset, dst_offset, size }| Command::CopyBuffer {
            src: *src,
            src_offset,
            dst: *dst,
            dst_offset,
            size,
        }));
    }

    unsafe fn copy_buffer_to_texture(&mut self, src: &Buffer, dst: &Texture, region: &TexelRegion) {
        self.push(Command::CopyBufferToTexels { src: *src, dst: *dst, region: *region });
    }

    unsafe fn read_texels(&mut self, reads: &[TexelRead<Texture, Buffer>]) {
        self.extend(reads.iter().map(|&TexelRead { src, dst, region, .. }| Command::CopyTexelsToBuffer {
            src,
            dst,
            region,
        }));
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<Texture>]) {
        self.extend(copies.iter().flat_map(|&TextureCopy { src, dst, parts }| {
            let each = (0..parts.layers).flat_map(move |layer| (0..parts.mips).map(move |mip| (layer, mip)));
            each.map(move |(layer, mip)| Command::CopyTexture { src, dst, mip, layer })
        }));
    }

    unsafe fn end_copies(&mut self, _buffers: &[Buffer], _textures: &[TextureTarget<Texture>]) {}
}
