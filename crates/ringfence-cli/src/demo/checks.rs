//! Reading results back from the device, and comparing them with the expected bytes.
//!
//! ```text
//!   expect(bytes) ──▶ range of the readback ring, a copy to it ──frame complete──▶ compare, digest, free the range
//! ```

use ringfence::device::{Device, RawBuffer, RawTexture};
use ringfence::upload::{Readback, ReadbackDesc};
use ringfence::{Frame, ReadbackRing};
use ringfence_testkit::{Command, TextureRegion};

use super::error::StreamError;
use super::world::PICTURE;

/// Size of the readback ring in bytes. It contains the results of all frames in flight.
const RING_BYTES: u64 = 8 << 20;
const TEXEL_BYTES: u32 = 4;

/// A picture that was read back from the device.
#[derive(Clone, Default)]
pub struct Picture {
    pub texels: Vec<u8>,
}

impl Picture {
    pub fn to_png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, PICTURE, PICTURE);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.texels)?;
        writer.finish()?;
        Ok(bytes)
    }
}

/// Result of all comparisons.
#[derive(Clone, Default)]
pub struct Findings {
    pub checked_bytes: u64,
    pub wrong_bytes: u64,
    pub first_wrong: Option<String>,
    pub picture: Picture,
    pub pictures: u64,
    /// Hash of all bytes that were read back, in the order of the comparisons.
    pub digest: u64,
}

/// A result in the readback ring.
enum Room<D: Device> {
    Bytes(Readback<D>),
    Texels(Readback<D>),
}

/// A result that is not yet complete, with its expected bytes.
pub struct Check<D: Device> {
    what: String,
    room: Room<D>,
    expected: Vec<u8>,
    is_picture: bool,
}

/// Reads results back and compares them.
pub struct Checker<D: Device> {
    ring: ReadbackRing<D>,
    row_alignment: u64,
    pub findings: Findings,
}

impl<D: Device> Checker<D> {
    pub fn new(memory: &ringfence::Allocator<D>) -> Result<Self, StreamError> {
        let ring =
            ReadbackRing::new(memory, ReadbackDesc { capacity: RING_BYTES, name: "results", ..Default::default() })?;
        let row_alignment = memory.device().capabilities().texture_copy_row_alignment;
        Ok(Self { ring, row_alignment, findings: Findings { digest: 0xcbf2_9ce4_8422_2325, ..Findings::default() } })
    }

    /// Returns the command that copies bytes of a buffer to the readback ring in the submission of `frame`, and the
    /// comparison to make once the frame is complete.
    pub fn bytes(
        &self,
        frame: &Frame,
        what: String,
        (src, src_offset): (RawBuffer<D>, u64),
        expected: Vec<u8>,
    ) -> Result<(Command<D>, Check<D>), StreamError> {
        let size = expected.len() as u64;
        let room = self.ring.reserve(frame, size, 16)?;
        let (dst, dst_offset) = (room.buffer().clone(), room.offset());
        let command = Command::CopyBuffer { src, src_offset, dst, dst_offset, size };
        Ok((command, Check { what, room: Room::Bytes(room), expected, is_picture: false }))
    }

    /// As [`Checker::bytes`], for a texture. The rows in `expected` have no padding.
    pub fn texels(
        &self,
        frame: &Frame,
        what: String,
        (src, width, height): (RawTexture<D>, u32, u32),
        expected: Vec<u8>,
    ) -> Result<(Command<D>, Check<D>), StreamError> {
        let room = self.ring.reserve_texels(frame, width, height, TEXEL_BYTES)?;
        let region = region(width, height, room.offset(), room.row_bytes());
        let command = Command::CopyTextureToBuffer { src, dst: room.buffer().clone(), region };
        Ok((command, Check { what, room: Room::Texels(room), expected, is_picture: false }))
    }

    /// Returns the row pitch of `width` RGBA8 texels in a buffer, in bytes, aligned as the device requires.
    pub fn row_bytes(&self, width: u32) -> u64 {
        u64::from(width * TEXEL_BYTES).next_multiple_of(self.row_alignment)
    }

    /// Reads a result and compares it with the expected bytes. Its frame must be complete.
    pub fn compare(&mut self, check: &Check<D>) -> Result<(), StreamError> {
        let mut bytes = vec![0; check.expected.len()];
        match &check.room {
            Room::Bytes(room) => room.read(&mut bytes)?,
            Room::Texels(room) => room.read(&mut bytes)?,
        }
        let findings = &mut self.findings;
        if bytes != check.expected {
            findings.note(check, &bytes);
        }
        findings.checked_bytes += bytes.len() as u64;
        findings.digest = digest(findings.digest, &bytes);
        if check.is_picture {
            findings.pictures += 1;
            findings.picture = Picture { texels: bytes };
        }
        Ok(())
    }
}

impl<D: Device> Check<D> {
    /// Marks the result as the picture that `--image` writes.
    pub fn of_picture(self) -> Self {
        Self { is_picture: true, ..self }
    }
}

impl Findings {
    fn note<D: Device>(&mut self, check: &Check<D>, bytes: &[u8]) {
        let differ = || bytes.iter().zip(&check.expected).enumerate().filter(|(_, (is, should))| is != should);
        let wrong = differ().count();
        self.wrong_bytes += wrong as u64;
        if let (None, Some((at, (is, should)))) = (&self.first_wrong, differ().next()) {
            let what = &check.what;
            let text = format!("{what}, byte {at} is {is:#04x} and should be {should:#04x}; {wrong} bytes differ");
            self.first_wrong = Some(text);
        }
    }
}

/// Continues the hash `before` with `bytes`: a variant of FNV-1a that hashes words of 8 bytes, with a rotation after
/// each word. The last word is padded with zeros.
fn digest(before: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(before, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
    })
}

/// Returns the region of a whole RGBA8 texture whose texels are at `buffer_offset` of a buffer.
pub fn region(width: u32, height: u32, buffer_offset: u64, row_bytes: u64) -> TextureRegion {
    TextureRegion { buffer_offset, row_bytes, mip: 0, layer: 0, width, height, texel_bytes: TEXEL_BYTES }
}
