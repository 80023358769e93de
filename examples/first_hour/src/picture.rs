//! Pictures: copied from a texture to the host, checked, written as PNG files.

use std::fs::File;
use std::io::BufWriter;

use ash::vk;
use ringfence::device::record::Record;
use ringfence::upload::Readback;
use ringfence::vulkan::{Device, ReadbackRing, Texture};

use crate::gpu::{Failure, Gpu, PATIENCE, Work};

/// Width and height of all pictures, in texels.
pub const SIZE: [u32; 2] = [320, 240];

/// A picture on the host: red, green, blue and alpha of each texel.
pub struct Picture(Vec<u8>);

impl Picture {
    /// Records the copy of a texture to the host. The texture is in `layout` before and after the copy.
    pub fn record(
        gpu: &Gpu,
        ring: &ReadbackRing,
        work: &Work,
        texture: &Texture,
        layout: vk::ImageLayout,
    ) -> Result<Readback<Device>, Failure> {
        let read = ring.reserve_box(&work.frame, texture, &texture.mip_box(0)?)?;
        // SAFETY: the copies are those that the ring has reserved bytes for in this frame.
        unsafe { gpu.recorder(work, layout).read_texels(read.reads()) };
        Ok(read)
    }

    /// Waits for the frame, and reads the picture.
    pub fn wait(read: &Readback<Device>) -> Result<Self, Failure> {
        read.wait(PATIENCE)?;
        let mut texels = vec![0; read.read_bytes() as usize];
        read.read(&mut texels)?;
        Ok(Self(texels))
    }

    /// Returns red, green and blue of a texel.
    pub fn texel(&self, x: u32, y: u32) -> [u8; 3] {
        let first = (y * SIZE[0] + x) as usize * 4;
        [self.0[first], self.0[first + 1], self.0[first + 2]]
    }

    /// Fails if a texel differs from `expected` by more than 10 in a channel.
    pub fn check(&self, x: u32, y: u32, expected: [u8; 3]) -> Result<(), Failure> {
        let found = self.texel(x, y);
        match found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) <= 10) {
            true => Ok(()),
            false => Err(format!("texel {x}, {y} is {found:?} instead of {expected:?}").into()),
        }
    }

    /// Fails if `channel` is not the largest channel of a texel by at least 20.
    pub fn check_largest(&self, x: u32, y: u32, channel: usize) -> Result<(), Failure> {
        let found = self.texel(x, y);
        match (0..3).all(|other| other == channel || found[channel] >= found[other].saturating_add(20)) {
            true => Ok(()),
            false => Err(format!("texel {x}, {y} is {found:?}, and channel {channel} should be the largest").into()),
        }
    }

    /// Writes the picture into a file of the current directory.
    pub fn write(&self, path: &str) -> Result<(), Failure> {
        let colours: Vec<u8> = self.0.chunks(4).flat_map(|texel| [texel[0], texel[1], texel[2]]).collect();
        let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), SIZE[0], SIZE[1]);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        encoder.write_header()?.write_image_data(&colours)?;
        println!("wrote {path}");
        Ok(())
    }
}
