//! Commands for the queues of a simulated device.

use super::ids::{Buffer, DescriptorHeap, Texture};
use ringfence_hal::TextureDesc;
use ringfence_hal::record::TexelRegion;
use std::fmt;

/// A command of a submission. Its ranges are checked when it is submitted: an invalid command becomes a hazard and is
/// skipped. Its memory addresses are resolved at submission too, because real work contains addresses. Work that
/// executes late accesses whatever memory is there by then.
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
    /// Copies texels from a buffer to the first aspect and the first slice of a texture.
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
    /// Copies texels from the first aspect and the first slice of a texture to a buffer.
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
    /// Copies all aspects of a mip level of a layer from one texture to another with the same description, usage aside.
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
    /// Clears a whole render target or depth buffer to one byte value, like a clear of its view.
    Clear {
        /// The texture.
        texture: Texture,
        /// The value of each byte.
        value: u8,
    },
    /// Initialises a whole render target or depth buffer without defined contents: its bytes become poison
    /// (`DiscardResource`).
    Discard {
        /// The texture.
        texture: Texture,
    },
    /// Runs a host closure in place of a shader.
    Kernel(Kernel),
    /// Separates the commands before it from those after it, if the device checks barriers.
    Barrier(Barrier),
    /// Releases resources to another queue family and keeps their contents.
    Release {
        /// The buffers.
        buffers: Vec<Buffer>,
        /// The textures.
        textures: Vec<Texture>,
        /// The family that will acquire them.
        to: u32,
    },
    /// Acquires resources that a queue of another family has released. The work must wait for the release.
    Acquire {
        /// The buffers.
        buffers: Vec<Buffer>,
        /// The textures.
        textures: Vec<Texture>,
        /// The family that has released them.
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
    /// Separates kernels that use this resource, or any resource if `None` (`D3D12_RESOURCE_BARRIER_TYPE_UAV`).
    UnorderedAccess(Option<Resource>),
    /// Separates uses of `before` from uses of `after` (`D3D12_RESOURCE_BARRIER_TYPE_ALIASING`).
    Aliasing {
        /// The resource that is no longer used; any resource if `None`.
        before: Option<Resource>,
        /// The resource that is used after the barrier.
        after: Resource,
    },
    /// Separates every earlier use of the resource from every later one (`D3D12_RESOURCE_BARRIER_TYPE_TRANSITION`).
    Transition(Resource),
}

/// Layout of the texels of a region in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferLayout {
    /// Offset of the first row, in bytes.
    pub offset: u64,
    /// Distance between rows of blocks in bytes; at least the size of a row.
    pub row_bytes: u64,
}

/// A region of texels in the first aspect and the first slice of a mip level of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureRegion {
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// Horizontal offset of the first texel.
    pub x: u32,
    /// Vertical offset of the first texel.
    pub y: u32,
    /// Width in texels.
    pub width: u32,
    /// Height in texels.
    pub height: u32,
}

impl TextureRegion {
    /// Returns the region of a whole mip level of a layer.
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

/// A host closure in place of a compute shader. It can access only the ranges that it declares.
pub struct Kernel {
    /// Ranges that the kernel reads.
    pub reads: Vec<BufferRange>,
    /// Ranges that the kernel writes, and may read.
    pub writes: Vec<BufferRange>,
    /// Descriptors that the kernel uses. They are resolved when the kernel runs, so a descriptor that was overwritten
    /// too early yields wrong bytes.
    pub descriptors: Vec<DescriptorUse>,
    /// The shader. It runs while the device is locked, so it must not call the device.
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

/// The memory of a running [`Kernel`]: a copy of each range, in the order of declaration. When the kernel ends,
/// `writes` is copied back, and so are those of `descriptors` that were declared as written.
#[derive(Debug)]
pub struct KernelMemory {
    /// The bytes of [`Kernel::reads`].
    pub reads: Vec<Vec<u8>>,
    /// The bytes of [`Kernel::writes`].
    pub writes: Vec<Vec<u8>>,
    /// The bytes that [`Kernel::descriptors`] refer to; empty for an empty slot.
    pub descriptors: Vec<Vec<u8>>,
}
