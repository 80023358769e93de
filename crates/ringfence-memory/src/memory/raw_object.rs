//! The driver's object of either kind, as what waits for the device holds it.

use crate::device::{Buffers, Create, Device, RawBuffer, RawTexture, Textures};

/// The driver's object of either kind.
pub enum RawObject<D: Device> {
    /// A buffer.
    Buffer(RawBuffer<D>),
    /// A texture.
    Texture(RawTexture<D>),
}

impl<D: Device> RawObject<D> {
    /// # Safety
    /// As [`Create::destroy`].
    pub(crate) unsafe fn destroy(self, device: &D) {
        // SAFETY: the caller promises what `Create::destroy` asks.
        unsafe {
            match self {
                Self::Buffer(buffer) => Create::<Buffers>::destroy(device, buffer),
                Self::Texture(texture) => Create::<Textures>::destroy(device, texture),
            }
        }
    }
}
