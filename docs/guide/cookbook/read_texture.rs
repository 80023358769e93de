use std::collections::VecDeque;
use std::error::Error;

use ringfence::Frame;
use ringfence::device::TexelBox;
use ringfence::device::record::Record;
use ringfence::upload::Readback;
use ringfence::vulkan::{self, CopyRecorder};

/// Records a copy of mip level 0 to the host. Returns the texels of an earlier frame if the GPU has copied them.
pub fn read_texture(
    ring: &vulkan::ReadbackRing,
    waiting: &mut VecDeque<Readback<vulkan::Device>>,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
    texture: &vulkan::Texture,
) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let parts = texture.parts().ok_or("the texture has no portable description")?;
    let copy = ring.reserve_box(frame, texture, &TexelBox::mip(parts, 0))?;
    // SAFETY: the commands of the recorder are submitted as this frame, before the texture is dropped.
    unsafe { recorder.read_texels(copy.reads()) };
    waiting.push_back(copy);
    match waiting.front() {
        Some(oldest) if oldest.is_ready()? => {
            let mut texels = vec![0; oldest.read_bytes() as usize];
            oldest.read(&mut texels)?;
            waiting.pop_front();
            Ok(Some(texels))
        }
        _ => Ok(None),
    }
}
