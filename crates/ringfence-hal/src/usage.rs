//! What buffers and textures are for.

bitflags::bitflags! {
    /// What a buffer is for.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct BufferUsage: u32 {
        /// Copied from.
        const COPY_SRC = 1 << 0;
        /// Copied to.
        const COPY_DST = 1 << 1;
        /// Vertices.
        const VERTEX = 1 << 2;
        /// Indices.
        const INDEX = 1 << 3;
        /// Constants.
        const CONSTANT = 1 << 4;
        /// Read and written by shaders.
        const STORAGE = 1 << 5;
        /// Arguments of indirect draws.
        const INDIRECT = 1 << 6;
        /// Reached by its address in shaders: see `Buffer::device_address`.
        const DEVICE_ADDRESS = 1 << 7;
        /// Shown to shaders as texels; with `STORAGE` too where they write. On Vulkan texels of a buffer with both have
        /// formats that the device reads and writes.
        const TEXELS = 1 << 8;
        /// Read by shaders as words or structures, and never written by them. `STORAGE` is for that too, but on
        /// Direct3D 12 what shaders write cannot lie in memory that the host sees, which this can.
        const STORAGE_READ = 1 << 9;
    }
}

bitflags::bitflags! {
    /// What a texture is for.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct TextureUsage: u32 {
        /// Copied from.
        const COPY_SRC = 1 << 0;
        /// Copied to.
        const COPY_DST = 1 << 1;
        /// Read by shaders.
        const SAMPLED = 1 << 2;
        /// Written by shaders.
        const STORAGE = 1 << 3;
        /// Drawn to.
        const RENDER_TARGET = 1 << 4;
        /// Depth and stencil.
        const DEPTH_STENCIL = 1 << 5;
    }
}
