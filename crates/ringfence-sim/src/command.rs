//! The work that a simulated queue can be given.

use super::ids::{Buffer, DescriptorHeap, Texture};
use ringfence_hal::TextureDesc;
use ringfence_hal::record::TexelRegion;
use std::fmt;

/// A command of a submission. Ranges are checked when it is submitted: what is wrong becomes a hazard, and the command
/// is left out. Its memory is looked up then too, as real work holds addresses: what executes late finds whatever lies
/// there by then.
#[derive(Debug)]
pub enum Command {
    /// Copies bytes between buffers.
    CopyBuffer {
        /// Copied from.
        src: Buffer,
        /// First byte in `src`.
        src_offset: u64,
        /// Copied to.
        dst: Buffer,
        /// First byte in `dst`.
        dst_offset: u64,
        /// Bytes.
        size: u64,
    },
    /// Sets bytes of a buffer.
    FillBuffer {
        /// The buffer.
        dst: Buffer,
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u64,
        /// What each becomes.
        value: u8,
    },
    /// Copies texels of a texture's first aspect and slice from a buffer.
    CopyBufferToTexture {
        /// Copied from.
        src: Buffer,
        /// How the texels lie in `src`.
        layout: BufferLayout,
        /// Copied to.
        dst: Texture,
        /// Which texels of `dst`.
        region: TextureRegion,
    },
    /// Copies texels of a texture's first aspect and slice to a buffer.
    CopyTextureToBuffer {
        /// Copied from.
        src: Texture,
        /// Which texels of `src`.
        region: TextureRegion,
        /// Copied to.
        dst: Buffer,
        /// How the texels lie in `dst`.
        layout: BufferLayout,
    },
    /// Copies a box of texels of one aspect from a buffer to a texture.
    CopyBufferToTexels {
        /// Copied from.
        src: Buffer,
        /// Copied to.
        dst: Texture,
        /// Which texels of `dst`, and how they lie in `src`.
        region: TexelRegion,
    },
    /// Copies a box of texels of one aspect from a texture to a buffer.
    CopyTexelsToBuffer {
        /// Copied from.
        src: Texture,
        /// Copied to.
        dst: Buffer,
        /// Which texels of `src`, and how they lie in `dst`.
        region: TexelRegion,
    },
    /// Copies all texels of a mip of a layer, in all aspects, from one texture to another of the same shape.
    CopyTexture {
        /// Copied from.
        src: Texture,
        /// Copied to.
        dst: Texture,
        /// The mip level.
        mip: u32,
        /// The array layer.
        layer: u32,
    },
    /// Clears all of a render target or depth buffer to one byte, as a clear of a view of it.
    Clear {
        /// The texture.
        texture: Texture,
        /// What each byte becomes.
        value: u8,
    },
    /// Initialises all of a render target or depth buffer without a value: its bytes are poison (`DiscardResource`).
    Discard {
        /// The texture.
        texture: Texture,
    },
    /// Runs a host closure in place of a shader.
    Kernel(Kernel),
    /// Keeps the commands before it apart from those behind it, where the device watches that.
    Barrier(Barrier),
    /// Releases resources to another queue family, with their content.
    Release {
        /// The buffers.
        buffers: Vec<Buffer>,
        /// The textures.
        textures: Vec<Texture>,
        /// The family that will acquire them.
        to: u32,
    },
    /// Acquires resources that a queue of another family has released, in work that waits for that.
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

/// What keeps the commands before it apart from those behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Barrier {
    /// Every command from every command (a memory barrier of Vulkan, all stages).
    All,
    /// Kernels from kernels that use the same resource: this one, or any (`D3D12_RESOURCE_BARRIER_TYPE_UAV`).
    UnorderedAccess(Option<Resource>),
    /// Uses of `before`, or of any resource, from uses of `after` (`D3D12_RESOURCE_BARRIER_TYPE_ALIASING`).
    Aliasing {
        /// Whose uses have to be over; any if `None`.
        before: Option<Resource>,
        /// Whose uses come behind.
        after: Resource,
    },
    /// Every use of the resource from every later one (`D3D12_RESOURCE_BARRIER_TYPE_TRANSITION`).
    Transition(Resource),
}

/// How the texels of a region lie in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferLayout {
    /// First byte of the first row.
    pub offset: u64,
    /// Bytes from one row of blocks to the next; at least those of a row.
    pub row_bytes: u64,
}

/// Texels of one mip of one layer: of the first aspect, and the first slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureRegion {
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// First texel across.
    pub x: u32,
    /// First texel down.
    pub y: u32,
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
}

impl TextureRegion {
    /// All of a mip of a layer.
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
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

impl BufferRange {
    /// `size` bytes of `buffer` from `offset` on.
    #[must_use]
    pub const fn new(buffer: Buffer, offset: u64, size: u64) -> Self {
        Self { buffer, offset, size }
    }
}

/// A slot of a descriptor heap, as a kernel uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorUse {
    /// The heap.
    pub heap: DescriptorHeap,
    /// The slot.
    pub slot: u32,
    /// Whether the kernel writes what the descriptor shows.
    pub writes: bool,
}

/// A host closure that stands for a compute shader. It sees what it declares and nothing else.
pub struct Kernel {
    /// What it reads.
    pub reads: Vec<BufferRange>,
    /// What it writes (and may read).
    pub writes: Vec<BufferRange>,
    /// Descriptors that it goes through. Each is looked up when the kernel runs, so one that was overwritten too early
    /// shows the wrong bytes.
    pub descriptors: Vec<DescriptorUse>,
    /// The shader. Runs while the device is locked, so it must not call the device.
    pub run: KernelFn,
}

/// The closure of a [`Kernel`].
pub type KernelFn = Box<dyn FnOnce(&mut KernelMemory) + Send>;

impl Kernel {
    /// A kernel without descriptors.
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

/// What a [`Kernel`] sees while it runs: a copy of each range, in the order declared. What is in `writes` goes back
/// when it ends, and so does each of `descriptors` that was declared as written.
#[derive(Debug)]
pub struct KernelMemory {
    /// The bytes of [`Kernel::reads`].
    pub reads: Vec<Vec<u8>>,
    /// The bytes of [`Kernel::writes`].
    pub writes: Vec<Vec<u8>>,
    /// What [`Kernel::descriptors`] show; empty for a slot that shows nothing.
    pub descriptors: Vec<Vec<u8>>,
}
