//! Commands for the queues of a simulated device.

use super::ids::{Buffer, DescriptorHeap, Texture};
use ringfence_hal::TextureDesc;
use ringfence_hal::record::TexelRegion;
use ringfence_hal::transfer::{ClearTexel, SubresourceRange, TextureBoxCopy, TextureResolve};
use std::fmt;

/// A command of a submission. Its ranges are checked at submission. If they are invalid, the device reports a hazard
/// and skips the command (in a sparse buffer, only the invalid pages).
///
/// Buffers and textures are resolved to memory addresses at submission, as in a real command list. (Descriptors of
/// kernels are resolved at execution.) If the memory is reused before the command executes, the command accesses the
/// new contents. If the memory is freed, reads return poison and writes have no effect.
#[derive(Debug)]
pub enum Command {
    /// Copies bytes between buffers.
    CopyBuffer {
        /// The source.
        src: Buffer,
        /// Offset in `src`, in bytes.
        src_offset: u64,
        /// The destination.
        dst: Buffer,
        /// Offset in `dst`, in bytes.
        dst_offset: u64,
        /// Size in bytes.
        size: u64,
    },
    /// Fills bytes of a buffer with a value.
    FillBuffer {
        /// The buffer.
        dst: Buffer,
        /// Offset in bytes.
        offset: u64,
        /// Size in bytes.
        size: u64,
        /// The value of each byte.
        value: u8,
    },
    /// Fills bytes of a buffer with a value of 32 bits.
    FillWords {
        /// The buffer.
        dst: Buffer,
        /// Offset in bytes, a multiple of 4.
        offset: u64,
        /// Size in bytes, a multiple of 4.
        size: u64,
        /// The value.
        value: u32,
    },
    /// Copies a rectangle of texels from a buffer to a texture.
    CopyBufferToTexture {
        /// The source.
        src: Buffer,
        /// Layout of the texels in `src`.
        layout: BufferLayout,
        /// The destination.
        dst: Texture,
        /// The texels of `dst`.
        region: TextureRegion,
    },
    /// Copies a rectangle of texels from a texture to a buffer.
    CopyTextureToBuffer {
        /// The source.
        src: Texture,
        /// The texels of `src`.
        region: TextureRegion,
        /// The destination.
        dst: Buffer,
        /// Layout of the texels in `dst`.
        layout: BufferLayout,
    },
    /// Copies a box of texels of one aspect from a buffer to a texture.
    CopyBufferToTexels {
        /// The source.
        src: Buffer,
        /// The destination.
        dst: Texture,
        /// The texels of `dst`, and their layout in `src`.
        region: TexelRegion,
    },
    /// Copies a box of texels of one aspect from a texture to a buffer.
    CopyTexelsToBuffer {
        /// The source.
        src: Texture,
        /// The destination.
        dst: Buffer,
        /// The texels of `src`, and their layout in `dst`.
        region: TexelRegion,
    },
    /// Copies all aspects of one mip level of one array layer. Both textures must have equal descriptions, except for
    /// their usage.
    CopyTexture {
        /// The source.
        src: Texture,
        /// The destination.
        dst: Texture,
        /// The mip level.
        mip: u32,
        /// The array layer.
        layer: u32,
    },
    /// Sets every byte of a render target or depth buffer to one value. Stands for a clear of its view.
    Clear {
        /// The texture.
        texture: Texture,
        /// The value of each byte.
        value: u8,
    },
    /// Initialises a whole render target or depth buffer, but leaves its contents undefined: fills it with poison
    /// (`DiscardResource`).
    Discard {
        /// The texture.
        texture: Texture,
    },
    /// Clears subresources of a texture to a value. On a strict device ([`Profile::strict`](super::Profile::strict)),
    /// the texture must be a target.
    ClearTexels {
        /// The texture.
        texture: Texture,
        /// The subresources.
        range: SubresourceRange,
        /// The value.
        value: ClearTexel,
    },
    /// Copies a box of texels of one aspect between textures.
    CopyTexels(TextureBoxCopy<Texture>),
    /// Resolves layers of a multisampled texture: to the average of the samples, or for integer formats, to the first
    /// sample.
    ResolveTexels(TextureResolve<Texture>),
    /// Makes a mip level from the previous one in all layers, by linear filtering.
    BlitMip {
        /// The texture.
        texture: Texture,
        /// The mip level; at least 1.
        mip: u32,
    },
    /// Runs a host closure instead of a shader.
    Kernel(Kernel),
    /// Orders the commands before it and after it. Without
    /// [`SimOptions::watches_barriers`](super::SimOptions::watches_barriers), only an aliasing barrier has an effect:
    /// its `after` resource counts as written, and if that resource is a target on a strict device, it must be
    /// initialised again.
    Barrier(Barrier),
    /// Releases resources to another queue family. They keep their contents.
    Release {
        /// The buffers.
        buffers: Vec<Buffer>,
        /// The textures.
        textures: Vec<Texture>,
        /// The queue family that will acquire the resources.
        to: u32,
    },
    /// Acquires resources that a queue of another family has released. The submission must wait for the submission with
    /// the release.
    Acquire {
        /// The buffers.
        buffers: Vec<Buffer>,
        /// The textures.
        textures: Vec<Texture>,
        /// The queue family that has released the resources.
        from: u32,
    },
}

/// A buffer or a texture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// A buffer.
    Buffer(Buffer),
    /// A texture.
    Texture(Texture),
}

impl Resource {
    pub(super) const fn id(self) -> u64 {
        match self {
            Self::Buffer(buffer) => buffer.id(),
            Self::Texture(texture) => texture.id(),
        }
    }
}

impl From<Buffer> for Resource {
    fn from(buffer: Buffer) -> Self {
        Self::Buffer(buffer)
    }
}

impl From<Texture> for Resource {
    fn from(texture: Texture) -> Self {
        Self::Texture(texture)
    }
}

/// A barrier between earlier and later commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Barrier {
    /// Separates all commands (a memory barrier of Vulkan for all stages).
    All,
    /// Separates the kernels that use this resource (`D3D12_RESOURCE_BARRIER_TYPE_UAV`). With `None`, does so for each
    /// resource.
    UnorderedAccess(Option<Resource>),
    /// Separates earlier uses of `before` from later uses of `after` (`D3D12_RESOURCE_BARRIER_TYPE_ALIASING`).
    Aliasing {
        /// Previous owner of the bytes; `None` for any resource.
        before: Option<Resource>,
        /// New owner of the bytes.
        after: Resource,
    },
    /// Separates all earlier uses of the resource from all later uses (`D3D12_RESOURCE_BARRIER_TYPE_TRANSITION`).
    Transition(Resource),
}

/// Layout of a region's texels in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferLayout {
    /// Offset of the first row, in bytes.
    pub offset: u64,
    /// Distance between rows of blocks, in bytes; at least the size of a row.
    pub row_bytes: u64,
}

/// A rectangle of texels in one mip level of one array layer. If the texture has several aspects or depth slices, the
/// rectangle is in the first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureRegion {
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// Horizontal offset of the first texel, in texels.
    pub x: u32,
    /// Vertical offset of the first texel, in texels.
    pub y: u32,
    /// Width in texels.
    pub width: u32,
    /// Height in texels.
    pub height: u32,
}

impl TextureRegion {
    /// Returns the region of all texels of one mip level of one array layer.
    #[must_use]
    pub fn whole(desc: &TextureDesc, mip: u32, layer: u32) -> Self {
        let side = |texels: u32| texels.checked_shr(mip).unwrap_or(0).max(1);
        Self { mip, layer, x: 0, y: 0, width: side(desc.width), height: side(desc.height) }
    }
}

/// A range of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferRange {
    /// The buffer.
    pub buffer: Buffer,
    /// Offset in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

impl BufferRange {
    /// Returns the range of `size` bytes at `offset` in `buffer`.
    #[must_use]
    pub const fn new(buffer: Buffer, offset: u64, size: u64) -> Self {
        Self { buffer, offset, size }
    }
}

/// The use of a descriptor slot by a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorUse {
    /// The heap.
    pub heap: DescriptorHeap,
    /// The slot.
    pub slot: u32,
    /// `true` if the kernel writes through the descriptor.
    pub writes: bool,
}

/// A host closure that runs instead of a compute shader. It can access only the ranges and descriptors that it
/// declares.
pub struct Kernel {
    /// Ranges that the kernel reads, but does not write.
    pub reads: Vec<BufferRange>,
    /// Ranges that the kernel writes, and may read.
    pub writes: Vec<BufferRange>,
    /// Descriptors that the kernel uses. They are resolved when the kernel runs: if a slot was overwritten too early,
    /// the kernel accesses wrong bytes.
    pub descriptors: Vec<DescriptorUse>,
    /// The closure. The device is locked while it runs, so it must not call the device.
    pub run: KernelFn,
}

/// The closure of a [`Kernel`].
pub type KernelFn = Box<dyn FnOnce(&mut KernelMemory) + Send>;

impl Kernel {
    /// Returns a kernel without descriptors.
    pub fn new(
        reads: Vec<BufferRange>,
        writes: Vec<BufferRange>,
        run: impl FnOnce(&mut KernelMemory) + Send + 'static,
    ) -> Self {
        Self { reads, writes, descriptors: Vec::new(), run: Box::new(run) }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("reads", &self.reads)
            .field("writes", &self.writes)
            .field("descriptors", &self.descriptors)
            .finish_non_exhaustive()
    }
}

/// Memory of a running [`Kernel`]: a copy of each range, in the order of declaration. When the kernel ends, the bytes
/// in `writes` are copied back, and so are the bytes in `descriptors` of each use that writes
/// ([`DescriptorUse::writes`]).
#[derive(Debug)]
pub struct KernelMemory {
    /// The bytes of [`Kernel::reads`].
    pub reads: Vec<Vec<u8>>,
    /// The bytes of [`Kernel::writes`].
    pub writes: Vec<Vec<u8>>,
    /// The bytes that each of [`Kernel::descriptors`] refers to; no bytes for an empty slot.
    pub descriptors: Vec<Vec<u8>>,
}
