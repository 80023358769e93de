//! What buffers and textures are for.

use super::flags;

flags! {
    /// What a buffer is for.
    BufferUsage {
        /// Copied from.
        COPY_SRC = 0;
        /// Copied to.
        COPY_DST = 1;
        /// Vertices.
        VERTEX = 2;
        /// Indices.
        INDEX = 3;
        /// Constants.
        CONSTANT = 4;
        /// Read and written by shaders.
        STORAGE = 5;
        /// Arguments of indirect draws.
        INDIRECT = 6;
        /// Reached by its address in shaders: see `Buffer::device_address`.
        DEVICE_ADDRESS = 7;
        /// Shown to shaders as texels; with `STORAGE` too where they write.
        TEXELS = 8;
        /// Read by shaders as words or structures, and never written by them. `STORAGE` is for that too, but on Direct3D 12
        /// what shaders write cannot lie in memory that the host sees, which this can.
        STORAGE_READ = 9;
    }
}

flags! {
    /// What a texture is for.
    TextureUsage {
        /// Copied from.
        COPY_SRC = 0;
        /// Copied to.
        COPY_DST = 1;
        /// Read by shaders.
        SAMPLED = 2;
        /// Written by shaders.
        STORAGE = 3;
        /// Drawn to.
        RENDER_TARGET = 4;
        /// Depth and stencil.
        DEPTH_STENCIL = 5;
    }
}
