//! What Ringfence asks of a device, and how to bring your own.
//!
//! ```text
//!   memory ── policy: which type, which block, which range, when it comes back
//!     │
//!     ▼
//!   Device = Driver (memory, fences) + Create<Buffers> + Create<Textures>      mechanism only, no policy
//!     │
//!     ├── vulkan::Device      ash
//!     ├── sim::Device         a GPU in software that runs late and finds hazards
//!     └── fault::FaultInjector<D>  middleware: fails the calls to D that a test chooses
//! ```
//!
//! # Your own device
//!
//! Implement [`Driver`] and [`Create`] for both kinds; [`Device`] follows. Middleware wraps a device and forwards: one
//! generic `impl<K: Kind, D: Create<K>> Create<K> for Wrapper<D>` covers both kinds. The traits are `unsafe` to
//! implement, since the library hands out the memory that a device says it has mapped.
//!
//! # Life of a resource
//!
//! ```text
//!   info ──prepare──▶ Unplaced + Requirements ──┬─place(memory, offset)──▶ Placed<Object> ──destroy──▶
//!                        │                      └─dedicate(type)─────────▶ Placed<Object> + Memory
//!                        └─discard──▶
//! ```
//!
//! Vulkan makes the object in `prepare` and binds it in `place`; Direct3D 12 asks for sizes in `prepare` and makes the
//! object in `place`. The policy above sees no difference.

pub mod descriptors;
pub mod fault;
pub mod record;
pub mod sharing;
pub mod sim;
pub mod sparse;

use std::fmt;
use std::ptr::NonNull;
use std::time::Duration;

use smallvec::SmallVec;

use record::{TextureAspects, TextureParts};
use sharing::{ShareKind, ShareSupport};

/// The memory and the fences of a device. See the [module](self) for how the parts fit.
///
/// # Safety
/// Implementers promise that [`Mapped`] pointers stay valid for reads and writes of the whole memory object until it
/// is freed (of the whole resource until it is destroyed), and that objects are what the driver made.
pub unsafe trait Driver: Sized + Send + Sync + 'static {
    /// The driver's memory object (`VkDeviceMemory`, `ID3D12Heap`).
    type Memory: Send + Sync + 'static;
    /// A fence whose value only rises (timeline semaphore, `ID3D12Fence`).
    type Fence: Clone + Send + Sync + 'static;
    /// What makes a memory object resident or evicts it, where the API leaves that to the program (`ID3D12Pageable`). It
    /// may outlive the memory object, and is of no use then. `()` where there is no such thing.
    type Pageable: Clone + Send + Sync + 'static;

    /// What the device is and can do. Never changes.
    fn capabilities(&self) -> &Capabilities;

    /// Makes a memory object, mapped for its whole life if its type is host-visible.
    ///
    /// # Errors
    /// Out of memory, too many objects, map failed, device lost. Nothing is left behind.
    ///
    /// # Safety
    /// `desc.memory_type` is an index into [`Capabilities::memory_types`].
    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Self::Memory, DeviceError>;

    /// Frees a memory object; unmaps it first.
    ///
    /// # Safety
    /// This device made it; no resource is placed in it; no work that uses it is pending.
    unsafe fn free_memory(&self, memory: Self::Memory);

    /// Makes host writes in `offset..offset + size` visible to the device. Called after the writes, and only where
    /// [`Capabilities::needs_flush`] says so.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The memory is this device's and mapped; the range lies inside it. If the memory is non-coherent, the range is
    /// aligned to [`Capabilities::non_coherent_atom_bytes`] or ends with the memory; if it is coherent, the range is
    /// what was written and no byte more. Nobody writes to the range meanwhile.
    unsafe fn flush(&self, memory: &Self::Memory, offset: u64, size: u64) -> Result<(), DeviceError>;

    /// Copies what the device wrote at `offset..` into `into`, invalidating the host's caches first where needed.
    ///
    /// # Errors
    /// Device lost or out of memory.
    ///
    /// # Safety
    /// The memory is this device's and was mapped at `mapped` for the byte at `offset`; the range lies inside it.
    unsafe fn read_back(
        &self,
        memory: &Self::Memory,
        offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError>;

    /// The value that the fence has reached. Does not wait.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    ///
    /// # Safety
    /// The fence is this device's and alive.
    unsafe fn completed(&self, fence: &Self::Fence) -> Result<u64, DeviceError>;

    /// Waits until the fence reaches `value`, at most for `timeout`; says whether it did.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    ///
    /// # Safety
    /// The fence is this device's and alive.
    unsafe fn wait(&self, fence: &Self::Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError>;

    /// What is called before (`may_overlap`) and after a range of memory holds resources that share bytes on purpose
    /// (transient memory): for a device that watches lifetimes. Costs nothing by default.
    fn note_aliasing(&self, memory: &Self::Memory, offset: u64, size: u64, may_overlap: bool) {
        let _ = (memory, offset, size, may_overlap);
    }

    /// Where the host sees the memory's first byte, if the API maps memory objects and this one is of a host-visible
    /// type. Direct3D 12 maps resources, not heaps: `None`, as by default.
    fn mapped(&self, memory: &Self::Memory) -> Option<Mapped> {
        let _ = memory;
        None
    }

    /// Where the host sees the memory's first byte, for whoever looks for mistakes: as [`Driver::mapped`], by default. Where
    /// the API maps resources only, a device may make one over all of it, once, which goes with the memory. `None` where the
    /// host does not see the memory, or the device makes none.
    fn map_whole(&self, memory: &Self::Memory) -> Option<Mapped> {
        self.mapped(memory)
    }

    /// What makes this memory resident or evicts it; `None` unless [`Capabilities::residency`] says that there is such a
    /// thing.
    fn pageable(&self, memory: &Self::Memory) -> Option<Self::Pageable> {
        let _ = memory;
        None
    }

    /// Brings evicted memory back. Returns when it may be used.
    ///
    /// # Errors
    /// Out of memory or device lost: nothing has changed then. [`DeviceError::Unsupported`] by default.
    ///
    /// # Safety
    /// All of it is this device's, and evicted.
    unsafe fn make_resident(&self, memory: &[Self::Pageable]) -> Result<(), DeviceError> {
        let _ = memory;
        Err(DeviceError::Unsupported("residency"))
    }

    /// Lets the system take memory away; what it holds is kept. It counts no longer as in use of its heap.
    ///
    /// # Errors
    /// As [`Driver::make_resident`].
    ///
    /// # Safety
    /// All of it is this device's, and resident; no work that uses it is pending, or is submitted before it is made
    /// resident again.
    unsafe fn evict(&self, memory: &[Self::Pageable]) -> Result<(), DeviceError> {
        let _ = memory;
        Err(DeviceError::Unsupported("residency"))
    }

    /// Tells the system how much memory that exists matters, where [`Capabilities::memory_priority`] says that it listens.
    /// Does nothing by default.
    ///
    /// # Safety
    /// The memory is this device's and alive.
    unsafe fn set_priority(&self, memory: &Self::Memory, priority: Priority) {
        let _ = (memory, priority);
    }

    /// Use and budget of each memory heap now, as the driver tells; `None` where it does not tell.
    fn budgets(&self) -> Option<HeapBudgets>;

    /// What is called when a resource's owner has let go of it, before its range may be given to another: the place
    /// for a device that watches lifetimes. Costs nothing by default.
    fn note_retired(&self, memory: &Self::Memory, offset: u64, size: u64) {
        let _ = (memory, offset, size);
    }
}

/// How a device makes resources of one kind.
///
/// # Safety
/// As for [`Driver`].
pub unsafe trait Create<K: Kind>: Driver {
    /// What the user describes a resource with (`vk::BufferCreateInfo`, `D3D12_RESOURCE_DESC`).
    type Info<'a>;
    /// Described and measured, not yet in memory. A copy names the same thing.
    type Unplaced: Clone + Send + Sync;
    /// The driver's object, in memory. A copy names the same object and equals it, as no other object that is alive
    /// does.
    type Object: Clone + PartialEq + Send + Sync + fmt::Debug + 'static;

    /// A description in the device's own terms from the portable one.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device has no such resource.
    fn describe(&self, desc: &K::Desc) -> Result<Self::Info<'static>, DeviceError>;

    /// The portable description of what the device's own one describes, usages that the portable one has no word for left
    /// out; `None` where it has no word for the format or the shape. Views are checked against it. Middleware forwards it.
    fn portable(&self, info: &Self::Info<'_>) -> Option<K::Desc> {
        let _ = info;
        None
    }

    /// What all of a texture of this description is, to copy it as a whole; `None` for buffers, and where that cannot be
    /// said (several planes). What the portable description says, by default. Middleware forwards it.
    fn parts(&self, info: &Self::Info<'_>) -> Option<TextureParts> {
        self.portable(info).as_ref().and_then(K::parts)
    }

    /// What tells this description from others, so that objects made from it can be kept for when it is asked for again
    /// ([`TransientAllocator`](crate::transient::TransientAllocator)). Equal keys have equal requirements and give
    /// objects that can stand for one another: whoever implements this answers for that. `None` if the description
    /// holds more than a key does; such objects are made anew each time.
    fn key(&self, info: &Self::Info<'_>) -> Option<InfoKey> {
        let _ = info;
        None
    }

    /// Measures the resource (and makes its object, where the API makes it before its memory).
    ///
    /// # Errors
    /// Out of memory, or the description is invalid or unsupported. Nothing is left behind.
    ///
    /// # Safety
    /// What `info` points to is valid, as the API demands.
    unsafe fn prepare(&self, info: &Self::Info<'_>) -> Result<(Self::Unplaced, Requirements), DeviceError>;

    /// What can be shared of a resource of this description: nothing, where a device does not say otherwise.
    fn share_support(&self, info: &Self::Info<'_>, kind: ShareKind) -> ShareSupport {
        let _ = (info, kind);
        ShareSupport::default()
    }

    /// As [`Create::prepare`], for a resource in memory that other processes see too.
    ///
    /// # Errors
    /// As [`Create::prepare`]; [`DeviceError::Unsupported`] where the device shares no such resource.
    ///
    /// # Safety
    /// As [`Create::prepare`].
    unsafe fn prepare_shared(
        &self,
        info: &Self::Info<'_>,
        kind: ShareKind,
    ) -> Result<(Self::Unplaced, Requirements), DeviceError> {
        let _ = (info, kind);
        Err(DeviceError::Unsupported("sharing memory with other processes"))
    }

    /// Drops what [`Create::prepare`] or [`Create::prepare_shared`] made.
    ///
    /// # Safety
    /// It was neither placed, nor dedicated, nor discarded.
    unsafe fn discard(&self, unplaced: Self::Unplaced);

    /// Makes the resource at `offset` of `memory`.
    ///
    /// # Errors
    /// Out of memory or device lost; `unplaced` is then as before and may be tried again or discarded.
    ///
    /// # Safety
    /// `unplaced` is this device's and not used up; the memory is of a type and class that its requirements allow, and
    /// the range lies inside it, aligned. On success `unplaced` is used up.
    unsafe fn place(
        &self,
        unplaced: &Self::Unplaced,
        memory: &Self::Memory,
        offset: u64,
    ) -> Result<Placed<Self::Object>, DeviceError>;

    /// Makes the resource with memory of its own.
    ///
    /// # Errors
    /// Out of memory, too many objects, map failed, device lost; `unplaced` is then as before.
    ///
    /// # Safety
    /// `unplaced` is this device's and not used up, and its requirements allow `desc`. On success `unplaced` is used up.
    unsafe fn dedicate(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<Self::Object>, Self::Memory), DeviceError>;

    /// Memory that this resource alone will lie in, which its owner will place there himself. Where the API knows of
    /// no such tie, plain memory, as by default.
    ///
    /// # Errors
    /// As [`Driver::allocate_memory`].
    ///
    /// # Safety
    /// As [`Driver::allocate_memory`]; `unplaced` is this device's and alive, its requirements allow `desc`, and the
    /// size is the one that they say.
    unsafe fn allocate_memory_for(
        &self,
        unplaced: &Self::Unplaced,
        desc: &MemoryDesc<'_>,
    ) -> Result<Self::Memory, DeviceError> {
        let _ = unplaced;
        // SAFETY: the caller promises what is asked.
        unsafe { self.allocate_memory(desc) }
    }

    /// Whether a resource of this description has an address that shaders reach it by.
    fn has_address(&self, info: &Self::Info<'_>) -> bool {
        let _ = info;
        false
    }

    /// The address that shaders reach the resource by.
    ///
    /// # Safety
    /// The object is this device's and alive, and [`Create::has_address`] said yes to its description.
    unsafe fn address(&self, object: &Self::Object) -> u64 {
        let _ = object;
        0
    }

    /// Destroys the resource; its memory stays.
    ///
    /// # Safety
    /// It is this device's and not destroyed yet; no work that uses it is pending.
    unsafe fn destroy(&self, object: Self::Object);

    /// Gives the driver's object a name that debuggers and validation messages show.
    ///
    /// # Safety
    /// The object is this device's and alive.
    unsafe fn set_name(&self, object: &Self::Object, name: &str);
}

/// What tells a description from others: see [`Create::key`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct InfoKey([u32; InfoKey::WORDS]);

impl InfoKey {
    /// How many words a key holds.
    pub const WORDS: usize = 20;

    /// A key of these words, the rest 0.
    ///
    /// # Panics
    /// If there are more than [`InfoKey::WORDS`].
    #[must_use]
    pub fn new(words: &[u32]) -> Self {
        let mut key = Self::default();
        key.0[..words.len()].copy_from_slice(words);
        key
    }

    /// Its words.
    #[must_use]
    pub const fn words(&self) -> &[u32; Self::WORDS] {
        &self.0
    }
}

/// A whole device: follows from its parts.
pub trait Device: Create<Buffers> + Create<Textures> {}

impl<D: Create<Buffers> + Create<Textures>> Device for D {}

/// The driver's buffer of device `D`: `vk::Buffer`, `ID3D12Resource`.
pub type RawBuffer<D> = <D as Create<Buffers>>::Object;
/// The driver's texture of device `D`: `vk::Image`, `ID3D12Resource`.
pub type RawTexture<D> = <D as Create<Textures>>::Object;
/// What a buffer of device `D` is described with.
pub type BufferInfo<'a, D> = <D as Create<Buffers>>::Info<'a>;
/// What a texture of device `D` is described with.
pub type TextureInfo<'a, D> = <D as Create<Textures>>::Info<'a>;

/// Buffers or textures.
pub trait Kind: Copy + Send + Sync + fmt::Debug + 'static {
    /// The portable description.
    type Desc: Clone + fmt::Debug + Send + Sync + 'static;
    /// What a message calls one.
    const NAME: &'static str;

    /// Refuses a portable description that no device has: what `describe` begins with, where the API would not refuse it.
    ///
    /// # Errors
    /// [`DeviceError::InvalidInfo`] with the rule that is broken.
    fn check(desc: &Self::Desc) -> Result<(), DeviceError>;

    /// What all of a texture is; `None` for buffers.
    fn parts(desc: &Self::Desc) -> Option<TextureParts> {
        let _ = desc;
        None
    }
}

/// `Ok` if the rule holds.
const fn rule(holds: bool, broken: &'static str) -> Result<(), DeviceError> {
    if holds { Ok(()) } else { Err(DeviceError::InvalidInfo(broken)) }
}

/// The [`Kind`] of buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffers;

impl Kind for Buffers {
    type Desc = BufferDesc;
    const NAME: &'static str = "buffer";

    fn check(desc: &BufferDesc) -> Result<(), DeviceError> {
        rule(desc.size != 0, "a buffer has at least one byte")?;
        rule(desc.usage != BufferUsage::empty(), "a buffer is for something")
    }
}

/// The [`Kind`] of textures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Textures;

impl Kind for Textures {
    type Desc = TextureDesc;
    const NAME: &'static str = "texture";

    fn check(desc: &TextureDesc) -> Result<(), DeviceError> {
        let TextureDesc { width, height, layers, mips, samples, usage, .. } = *desc;
        rule(![width, height, layers, mips].contains(&0), "a texture has at least one texel, mip level and layer")?;
        rule(usage != TextureUsage::empty(), "a texture is for something")?;
        rule(samples.is_power_of_two(), "samples come in powers of two")?;
        rule(mips <= width.max(height).ilog2() + 1, "more mip levels than the size allows")?;
        rule(mips == 1 || samples == 1, "a texture with several samples has one mip level")
    }

    fn parts(desc: &TextureDesc) -> Option<TextureParts> {
        let TextureDesc { width, height, layers, mips, format, .. } = *desc;
        let aspects = if format == Format::D32Float { TextureAspects::DEPTH } else { TextureAspects::COLOR };
        Some(TextureParts { width, height, depth: 1, layers, mips, aspects })
    }
}

/// A buffer, described portably.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferDesc {
    /// Bytes.
    pub size: u64,
    /// What it is for.
    pub usage: BufferUsage,
}

/// A two-dimensional texture, described portably.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureDesc {
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
    /// Array layers.
    pub layers: u32,
    /// Mip levels.
    pub mips: u32,
    /// Samples a texel.
    pub samples: u32,
    /// The format.
    pub format: Format,
    /// What it is for.
    pub usage: TextureUsage,
}

impl Default for TextureDesc {
    fn default() -> Self {
        Self {
            width: 1,
            height: 1,
            layers: 1,
            mips: 1,
            samples: 1,
            format: Format::Rgba8Unorm,
            usage: TextureUsage::COPY_DST.union(TextureUsage::SAMPLED),
        }
    }
}

/// The formats that the portable description knows; a device's own description knows all of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// Four bytes a texel.
    Rgba8Unorm,
    /// Eight bytes a texel.
    Rgba16Float,
    /// Four bytes a texel.
    R32Float,
    /// Depth, four bytes a texel.
    D32Float,
}

impl Format {
    /// Bytes a texel.
    #[must_use]
    pub const fn texel_bytes(self) -> u64 {
        match self {
            Self::Rgba8Unorm | Self::R32Float | Self::D32Float => 4,
            Self::Rgba16Float => 8,
        }
    }
}

/// A set of flags over `u32`, without a dependency: `union`, `contains`, `|`.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$flag_doc:meta])* $flag:ident = $bit:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(u32);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*
            const NAMES: &'static [(&'static str, Self)] = &[$((stringify!($flag), Self::$flag)),*];

            /// No flag.
            #[must_use]
            pub const fn empty() -> Self {
                Self(0)
            }

            /// The flags of both.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Whether every flag of `other` is here.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether some flag of `other` is here.
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The flags that are here and not in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// How many flags are here.
            #[must_use]
            pub const fn count(self) -> u32 {
                self.0.count_ones()
            }

            /// Whether no flag is here.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The flags as bits.
            #[must_use]
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// The names of the flags that are here.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(_, flag)| self.contains(*flag)).map(|(name, _)| *name)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_list().entries(self.names()).finish()
            }
        }
    };
}

pub(crate) use flags;

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
        /// Reached by its address in shaders: see [`Buffer::device_address`](crate::Buffer::device_address).
        DEVICE_ADDRESS = 7;
        /// Shown to shaders as texels; with `STORAGE` too where they write.
        TEXELS = 8;
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

flags! {
    /// What a memory type is.
    MemoryProperties {
        /// Near the device.
        DEVICE_LOCAL = 0;
        /// Can be mapped.
        HOST_VISIBLE = 1;
        /// Host writes need no flush, host reads no invalidation.
        HOST_COHERENT = 2;
        /// Host reads go through the host's caches (fast); without it they may be very slow.
        HOST_CACHED = 3;
        /// Given out page by page as it is used (tiled renderers' transient targets).
        LAZILY_ALLOCATED = 4;
        /// Not readable by the host or by unprotected work.
        PROTECTED = 5;
        /// Special purposes only (device-coherent, RDMA and the like): never picked unless asked for.
        SPECIAL = 6;
    }
}

/// A physical memory of the device (`VkMemoryHeap`, DXGI segment group).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryHeap {
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it is near the device.
    pub device_local: bool,
}

/// A kind of memory that can be asked for (`VkMemoryType`; on Direct3D 12 a heap type).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryType {
    /// Index into [`Capabilities::memory_heaps`].
    pub heap: u32,
    /// What it is.
    pub properties: MemoryProperties,
}

/// How much a memory object matters when not all of them have room near the device.
///
/// Vulkan's number from 0 to 1 in five steps, of which `Normal` is what it takes if nothing is said; Direct3D 12's five
/// named ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Priority {
    /// The first to go.
    Lowest,
    /// Before most others.
    Low,
    /// Like everything that says nothing.
    #[default]
    Normal,
    /// After most others: what each frame reads.
    High,
    /// The last to go: render targets, what shaders write.
    Highest,
}

impl Priority {
    /// All, the first to go first.
    pub const ALL: [Self; 5] = [Self::Lowest, Self::Low, Self::Normal, Self::High, Self::Highest];

    /// Vulkan's number for it.
    #[must_use]
    pub const fn as_f32(self) -> f32 {
        self as u8 as f32 / 4.0
    }
}

/// When the system can be told of a [`Priority`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum MemoryPriority {
    /// Never: priorities are for the library's own order alone.
    #[default]
    None,
    /// When memory is made (`VK_EXT_memory_priority`).
    AtAllocation,
    /// At any time (`VK_EXT_pageable_device_local_memory`, `SetResidencyPriority`).
    AtAnyTime,
}

/// What a device is and can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The device's name, for people.
    pub name: String,
    /// Physical memories.
    pub memory_heaps: Vec<MemoryHeap>,
    /// Kinds of memory, the driver's preference first; at most 32.
    pub memory_types: Vec<MemoryType>,
    /// Which resource classes may share a block as they come: those of equal number, by [`ResourceClass`] as index
    /// (`bufferImageGranularity` above 1 parts buffers from textures; heap tier 1 parts all three). Buffers may share one with
    /// textures of another number if [`class_granularity_bytes`](Self::class_granularity_bytes) is above 1 and is kept.
    pub class_groups: [u8; 3],
    /// The alignment in bytes with which memory has to be made that may hold any render target: 4 MiB on Direct3D 12,
    /// for multisampled ones; 1 where the driver sees to it.
    pub target_memory_alignment: u64,
    /// Bytes that must lie between a buffer and a texture in one memory object (`bufferImageGranularity`; 1 if none).
    pub class_granularity_bytes: u64,
    /// Alignment of flushes in bytes (`nonCoherentAtomSize`; 1 if none), a power of two.
    pub non_coherent_atom_bytes: u64,
    /// Whether the device wants to be told of host writes even to coherent memory (the simulated one does).
    pub notice_host_writes: bool,
    /// Largest number of memory objects alive at once.
    pub memory_objects_max: u64,
    /// Largest memory object in bytes.
    pub memory_object_bytes_max: u64,
    /// Alignment in bytes of a buffer range that is copied to a texture.
    pub texture_copy_offset_alignment: u64,
    /// Alignment in bytes of a row in a buffer that is copied to a texture.
    pub texture_copy_row_alignment: u64,
    /// Alignment in bytes of constants in a buffer.
    pub constant_alignment: u64,
    /// Whether the program says what is resident ([`Driver::evict`], [`Driver::make_resident`]); else the system does.
    pub residency: bool,
    /// Whether the system listens to priorities.
    pub memory_priority: MemoryPriority,
}

impl Capabilities {
    /// Whether host writes to memory of this type have to be followed by [`Driver::flush`].
    #[must_use]
    pub fn needs_flush(&self, memory_type: u32) -> bool {
        self.notice_host_writes || self.is_non_coherent(memory_type)
    }

    /// Whether memory of this type is host-visible without being coherent.
    #[must_use]
    pub fn is_non_coherent(&self, memory_type: u32) -> bool {
        let properties = self.properties(memory_type);
        properties.contains(MemoryProperties::HOST_VISIBLE) && !properties.contains(MemoryProperties::HOST_COHERENT)
    }

    /// The properties of a memory type; none if there is no such type.
    #[must_use]
    pub fn properties(&self, memory_type: u32) -> MemoryProperties {
        self.memory_types.get(memory_type as usize).map_or(MemoryProperties::empty(), |held| held.properties)
    }
}

/// Resources that some devices keep apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResourceClass {
    /// Buffers, and images with linear tiling.
    Buffer,
    /// Textures that are neither of the next.
    Texture,
    /// Render targets and depth-stencils.
    RenderTarget,
}

/// What a resource needs of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirements {
    /// Bytes.
    pub size: u64,
    /// Alignment of its offset in bytes, a power of two.
    pub alignment: u64,
    /// Bit i is set iff memory type i will do.
    pub memory_type_bits: u32,
    /// What it may share a block with.
    pub class: ResourceClass,
    /// Whether the driver would rather give it memory of its own.
    pub prefers_dedicated: bool,
    /// Whether the driver insists on that.
    pub requires_dedicated: bool,
}

/// A memory object to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryDesc<'a> {
    /// Index into [`Capabilities::memory_types`].
    pub memory_type: u32,
    /// Bytes.
    pub size: u64,
    /// The strictest alignment in bytes of what will be placed in it.
    pub alignment: u64,
    /// The class of what will be placed in it, where [`Capabilities::class_groups`] parts them.
    pub class: ResourceClass,
    /// How much it matters.
    pub priority: Priority,
    /// A name for debuggers; empty for none.
    pub name: &'a str,
    /// What handles to it will be made of, if any will.
    pub share: Option<ShareKind>,
}

/// A resource in its memory.
#[derive(Clone, Debug)]
pub struct Placed<O> {
    /// The driver's object.
    pub object: O,
    /// Where the host sees its first byte, if its memory is mapped.
    pub mapped: Option<Mapped>,
}

/// A pointer into mapped memory.
///
/// Only a number until it is used: reading or writing through it is `unsafe`, and the library does so only for ranges
/// that one owner holds exclusively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped(NonNull<u8>);

// SAFETY: mapped memory belongs to no thread; whoever dereferences the pointer answers for exclusion.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Wraps a pointer that the driver gave.
    #[must_use]
    pub const fn new(pointer: NonNull<u8>) -> Self {
        Self(pointer)
    }

    /// The pointer.
    #[must_use]
    pub const fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// The pointer `offset` bytes further.
    ///
    /// # Safety
    /// That is still inside (or one past the end of) the mapped memory.
    #[must_use]
    pub const unsafe fn add(self, offset: u64) -> Self {
        // SAFETY: the caller promises that the result stays inside the mapping.
        Self(unsafe { self.0.add(offset as usize) })
    }
}

/// Use and budget of a memory heap at a moment, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HeapBudget {
    /// What the process uses of the heap.
    pub usage_bytes: u64,
    /// What the process may use before things get slow or fail.
    pub budget_bytes: u64,
}

/// One for each memory heap: no host memory is taken for up to 16, which is all that Vulkan has.
pub type HeapBudgets = SmallVec<[HeapBudget; 16]>;

/// What went wrong in the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The host has no memory left.
    #[error("the host is out of memory")]
    OutOfHostMemory,
    /// The device has no memory left.
    #[error("the device is out of memory")]
    OutOfDeviceMemory,
    /// As many memory objects are alive as the driver allows.
    #[error("the driver's limit of memory objects is reached")]
    TooManyObjects,
    /// Memory could not be mapped.
    #[error("the memory could not be mapped")]
    MapFailed,
    /// The device is lost: nothing that was submitted will complete.
    #[error("the device is lost")]
    Lost,
    /// The device has no such thing.
    #[error("the device does not support this: {0}")]
    Unsupported(&'static str),
    /// The description is not valid.
    #[error("the description is not valid: {0}")]
    InvalidInfo(&'static str),
    /// Anything else, as the driver's own number.
    #[error("the driver failed with code {0}")]
    Other(i64),
}

impl DeviceError {
    /// Whether freeing memory may help.
    #[must_use]
    pub const fn is_out_of_memory(self) -> bool {
        matches!(self, Self::OutOfHostMemory | Self::OutOfDeviceMemory | Self::TooManyObjects | Self::MapFailed)
    }
}
