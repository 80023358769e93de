//! Usage flags of buffers and textures.

bitflags::bitflags! {
    /// Usage flags of a buffer.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct BufferUsage: u32 {
        /// Source of copies.
        const COPY_SRC = 1 << 0;
        /// Destination of copies.
        const COPY_DST = 1 << 1;
        /// Vertices.
        const VERTEX = 1 << 2;
        /// Indices.
        const INDEX = 1 << 3;
        /// Constants.
        const CONSTANT = 1 << 4;
        /// Read and written by shaders as words or structures.
        const STORAGE = 1 << 5;
        /// Arguments of indirect draws and dispatches.
        const INDIRECT = 1 << 6;
        /// Accessed by shaders through its address: see `Buffer::device_address`.
        const DEVICE_ADDRESS = 1 << 7;
        /// Viewed by shaders as texels. If shaders also write the texels, add `STORAGE`. On Vulkan, views of a buffer
        /// with both usages need formats that the device can both read and write as texels.
        const TEXELS = 1 << 8;
        /// Read by shaders as words or structures, never written by them. `STORAGE` also permits these reads, but on
        /// Direct3D 12 a buffer with `STORAGE` cannot be in host-visible memory. A buffer with `STORAGE_READ` can.
        const STORAGE_READ = 1 << 9;
    }
}

bitflags::bitflags! {
    /// Usage flags of a texture.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct TextureUsage: u32 {
        /// Source of copies.
        const COPY_SRC = 1 << 0;
        /// Destination of copies.
        const COPY_DST = 1 << 1;
        /// Read by shaders.
        const SAMPLED = 1 << 2;
        /// Read and written by shaders without a sampler.
        const STORAGE = 1 << 3;
        /// Colour render target.
        const RENDER_TARGET = 1 << 4;
        /// Depth-stencil target.
        const DEPTH_STENCIL = 1 << 5;
    }
}
