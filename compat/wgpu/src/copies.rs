//! Copies between buffers and textures without shaders: mapped at creation, written by the queue, copied to a texture
//! with mip levels and back, cleared.

use crate::gpu::{Gpu, dense, row_bytes};
use crate::{Settings, random};
use wgpu::{BufferUsages, TextureUsages};

pub fn run(gpu: &Gpu, settings: &Settings) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for (turn, size) in [4_u64, 256, 1000, 65_536, 3 << 20].into_iter().enumerate() {
        let expected = random::bytes(turn as u64, size as usize);
        let mapped = gpu.buffer_of("mapped", &expected, BufferUsages::COPY_SRC);
        let written = gpu.buffer("written", size, BufferUsages::COPY_SRC | BufferUsages::COPY_DST);
        gpu.queue.write_buffer(&written, 0, &expected);
        let backs = [(); 2].map(|()| gpu.buffer("back", size, BufferUsages::COPY_DST | BufferUsages::MAP_READ));
        let mut encoder = gpu.encoder();
        encoder.copy_buffer_to_buffer(&mapped, 0, &backs[0], 0, size);
        encoder.copy_buffer_to_buffer(&written, 0, &backs[1], 0, size);
        gpu.finish(encoder)?;
        for back in gpu.read(&backs.each_ref())? {
            same(&back, &expected, "a buffer")?;
            out.extend(back);
        }
    }
    out.extend(texture(gpu)?);
    if settings.zeroes {
        out.extend(cleared(gpu)?);
    }
    Ok(out)
}

fn texture(gpu: &Gpu) -> Result<Vec<u8>, String> {
    let (width, height) = (100_u32, 60_u32);
    let texture = gpu.texture("levels", [width, height], 5, TextureUsages::COPY_SRC | TextureUsages::COPY_DST);
    let mut encoder = gpu.encoder();
    let mut levels = Vec::new();
    for mip_level in 0..5 {
        let (width, height) = ((width >> mip_level).max(1), (height >> mip_level).max(1));
        let expected = random::bytes(100 + u64::from(mip_level), (width * height * 4) as usize);
        let mut spread = vec![0; (row_bytes(width) * height) as usize];
        for (row, texels) in spread.chunks_mut(row_bytes(width) as usize).zip(expected.chunks(width as usize * 4)) {
            row[..texels.len()].copy_from_slice(texels);
        }
        let source = gpu.buffer_of("source", &spread, BufferUsages::COPY_SRC);
        let layout =
            wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(row_bytes(width)), rows_per_image: None };
        encoder.copy_buffer_to_texture(
            wgpu::TexelCopyBufferInfo { buffer: &source, layout },
            wgpu::TexelCopyTextureInfo { mip_level, ..texture.as_image_copy() },
            wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
        );
        let back = gpu.copy_out(&mut encoder, &texture, mip_level);
        levels.push((width, expected, back));
    }
    gpu.finish(encoder)?;
    let mut out = Vec::new();
    for (width, expected, back) in &levels {
        let texels = dense(&gpu.read(&[back])?[0], *width);
        same(&texels, expected, "a mip level")?;
        out.extend(texels);
    }
    Ok(out)
}

/// Checks that bytes that were never written, or were cleared, are zero.
fn cleared(gpu: &Gpu) -> Result<Vec<u8>, String> {
    let size = 70_000;
    let never = gpu.buffer("never written", size, BufferUsages::COPY_SRC);
    let full = gpu.buffer_of("full", &vec![9; size as usize], BufferUsages::COPY_SRC | BufferUsages::COPY_DST);
    let backs = [(); 2].map(|()| gpu.buffer("back", size, BufferUsages::COPY_DST | BufferUsages::MAP_READ));
    let mut encoder = gpu.encoder();
    encoder.clear_buffer(&full, 0, None);
    encoder.copy_buffer_to_buffer(&never, 0, &backs[0], 0, size);
    encoder.copy_buffer_to_buffer(&full, 0, &backs[1], 0, size);
    gpu.finish(encoder)?;
    let read = gpu.read(&backs.each_ref())?.concat();
    same(&read, &vec![0; 2 * size as usize], "a cleared buffer")?;
    Ok(read)
}

/// Compares bytes with the expected ones.
pub fn same(found: &[u8], expected: &[u8], what: &str) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{what} has {} bytes instead of {}", found.len(), expected.len()));
    }
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!("{what} has {} at byte {at} instead of {}", found[at], expected[at])),
    }
}
