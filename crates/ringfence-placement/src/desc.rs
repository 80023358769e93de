//! Thresholds of the policy, and the routes that they lead to.

use crate::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};

/// Description of a [`Placement`](super::Placement). The default thresholds are Unreal Engine's. The default block
/// sizes are common in engines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementDesc {
    /// Largest uploads that come from the buddies, in bytes.
    pub small_upload_bytes_max: u64,
    /// Largest uploads that come from the pool, in bytes. Each larger one gets its own driver buffer.
    pub big_upload_bytes_max: u64,
    /// Largest default buffers that come from a pool, in bytes.
    pub default_buffer_bytes_max: u64,
    /// Largest textures that come from a pool, in bytes.
    pub texture_bytes_max: u64,
    /// Largest sampled textures that come from the pool of small textures, in bytes. They need little alignment.
    pub small_texture_bytes_max: u64,
    /// Size of a page of fast constants in bytes, a power of two.
    pub fast_page_bytes: u64,
    /// Size of a buddy for small uploads in bytes, a power of two, at least [`PlacementDesc::small_upload_bytes_max`].
    pub small_block_bytes: u64,
    /// Smallest range of such a buddy in bytes, a power of two.
    pub small_granule_bytes: u64,
    /// Size of a block for big uploads in bytes. A larger request gets a block of its size.
    pub big_block_bytes: u64,
    /// Size of a buddy for fast pages in bytes, a power of two, at least [`PlacementDesc::fast_page_bytes`].
    pub fast_block_bytes: u64,
    /// Size of a block of default buffers, in bytes.
    pub default_block_bytes: u64,
    /// Size of a block of textures, in bytes.
    pub texture_block_bytes: u64,
    /// Number of frames after which an empty block is destroyed.
    pub idle_frames: u64,
    /// Largest number of resources that the end of a frame destroys.
    pub reclaim_objects_max: usize,
    /// Strategy for default buffers that shaders write: on Direct3D 12 each needs a separate resource state.
    pub storage_strategy: Strategy,
    /// Strategy for all other default buffers.
    pub plain_strategy: Strategy,
}

impl Default for PlacementDesc {
    fn default() -> Self {
        Self {
            small_upload_bytes_max: 65_536,
            big_upload_bytes_max: 64 << 20,
            default_buffer_bytes_max: 64 << 20,
            texture_bytes_max: 64 << 20,
            small_texture_bytes_max: 64 << 10,
            fast_page_bytes: 64 << 10,
            small_block_bytes: 4 << 20,
            small_granule_bytes: 256,
            big_block_bytes: 8 << 20,
            fast_block_bytes: 1 << 20,
            default_block_bytes: 32 << 20,
            texture_block_bytes: 64 << 20,
            idle_frames: 20,
            reclaim_objects_max: usize::MAX,
            storage_strategy: Strategy::Placed,
            plain_strategy: Strategy::Suballocated,
        }
    }
}

/// Strategy of a pool of default buffers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    /// One driver resource for each request, placed in a heap of the pool.
    Placed,
    /// One driver buffer for many requests; each gets a range of it.
    Suballocated,
}

/// The writer of a buffer: the device or the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dynamism {
    /// The device writes it, usually by copies: default heap.
    #[default]
    Static,
    /// The host writes it repeatedly: upload heap.
    Dynamic,
}

/// Lifetime of constants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConstantsLifetime {
    /// One draw: fast constants.
    SingleDraw,
    /// One frame, or one execution of a graph: fast constants.
    SingleFrame,
    /// Several frames: upload heap.
    MultiFrame,
}

/// Request for a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferRequest<'a> {
    /// Size in bytes.
    pub size: u64,
    /// Usages of the buffer.
    pub usage: BufferUsage,
    /// Writer of the buffer.
    pub dynamism: Dynamism,
    /// Alignment in bytes of the first byte in the driver's buffer and, up to 64 KiB, in memory; a power of two, or 0
    /// for the alignment that the usage needs.
    pub alignment: u64,
    /// Strategy for a static buffer; `None` for the one that [`PlacementDesc`] sets for its usage.
    pub strategy: Option<Strategy>,
    /// Name for reports, and for the driver's object if the buffer is not a range of a shared one.
    pub name: &'a str,
}

impl Default for BufferRequest<'_> {
    fn default() -> Self {
        Self {
            size: 0,
            usage: BufferUsage::empty(),
            dynamism: Dynamism::Static,
            alignment: 0,
            strategy: None,
            name: "",
        }
    }
}

impl BufferRequest<'_> {
    pub(super) fn desc(&self) -> BufferDesc {
        BufferDesc { size: self.size, usage: self.usage }
    }
}

/// Kinds of textures; each has its own pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextureKind {
    /// Only sampled, and small.
    SmallSampled,
    /// Only sampled.
    Sampled,
    /// Render target, or depth and stencil.
    RenderTarget,
    /// Written by shaders.
    Storage,
}

impl TextureKind {
    /// All kinds, in the order of the pools.
    pub const ALL: [Self; 4] = [Self::SmallSampled, Self::Sampled, Self::RenderTarget, Self::Storage];

    /// Returns the kind by usage, without the size: only the memory requirements tell if a texture is small.
    #[must_use]
    pub fn of(desc: &TextureDesc) -> Self {
        if desc.usage.intersects(TextureUsage::RENDER_TARGET | TextureUsage::DEPTH_STENCIL) {
            Self::RenderTarget
        } else if desc.usage.intersects(TextureUsage::STORAGE) {
            Self::Storage
        } else {
            Self::Sampled
        }
    }

    /// Returns the kind of a texture that needs `size` bytes.
    #[must_use]
    pub(super) fn measured(self, size: u64, desc: &PlacementDesc) -> Self {
        match self {
            Self::Sampled | Self::SmallSampled if size <= desc.small_texture_bytes_max => Self::SmallSampled,
            Self::SmallSampled => Self::Sampled,
            kind => kind,
        }
    }

    /// Returns `true` if the texture should be created with a clear value, for fast clears.
    #[must_use]
    pub const fn wants_clear_value(self) -> bool {
        matches!(self, Self::RenderTarget)
    }
}

/// The allocator that serves a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Route {
    /// The buddies of small uploads.
    UploadSmall,
    /// The pool of big uploads.
    UploadBig,
    /// The buddies of fast pages.
    FastPage,
    /// A pool of default buffers: its strategy, and its index in the order of creation.
    DefaultBuffers {
        /// Strategy of the pool.
        strategy: Strategy,
        /// Index of the pool.
        pool: usize,
    },
    /// The pool of this kind of textures.
    Textures(TextureKind),
    /// A driver object with dedicated memory.
    StandAlone,
    /// Memory that textures alias.
    Aliased,
}

/// The four kinds of locations, which differ in their release.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LocationKind {
    /// Dedicated memory: the driver's object and its memory are destroyed, deferred.
    StandAlone,
    /// Range of a pool or a buddy: the range is freed, deferred.
    Suballocated,
    /// Range of a page: it is not released alone; the page is released as a whole.
    Fast,
    /// Aliased memory: the driver's object is destroyed, deferred; the memory is kept.
    HeapAliased,
}

impl Route {
    /// Returns the kind of locations on this route.
    #[must_use]
    pub const fn kind(self) -> LocationKind {
        match self {
            Self::StandAlone => LocationKind::StandAlone,
            Self::UploadSmall | Self::UploadBig | Self::DefaultBuffers { .. } | Self::Textures(_) => {
                LocationKind::Suballocated
            }
            Self::FastPage => LocationKind::Fast,
            Self::Aliased => LocationKind::HeapAliased,
        }
    }
}

impl PlacementDesc {
    /// Returns the upload allocator for a request, by its size and by the largest alignment of a buddy. O(1).
    #[must_use]
    pub fn upload_route(&self, size: u64, alignment: u64) -> Route {
        if size <= self.small_upload_bytes_max && alignment <= self.small_block_bytes {
            Route::UploadSmall
        } else if size <= self.big_upload_bytes_max {
            Route::UploadBig
        } else {
            Route::StandAlone
        }
    }

    /// Returns the strategy for a static buffer if the request does not set one. O(1).
    #[must_use]
    pub fn strategy_for(&self, usage: BufferUsage) -> Strategy {
        if usage.intersects(BufferUsage::STORAGE) { self.storage_strategy } else { self.plain_strategy }
    }

    /// Returns the first broken rule of the description.
    pub(super) fn broken_rule(&self) -> Option<&'static str> {
        let rules = [
            (self.fast_page_bytes.is_power_of_two(), "fast_page_bytes is a power of two"),
            (self.fast_block_bytes.is_power_of_two(), "fast_block_bytes is a power of two"),
            (self.small_block_bytes.is_power_of_two(), "small_block_bytes is a power of two"),
            (self.small_granule_bytes.is_power_of_two(), "small_granule_bytes is a power of two"),
            (self.small_granule_bytes <= self.small_block_bytes, "small_granule_bytes is at most small_block_bytes"),
            (self.small_block_bytes / self.small_granule_bytes.max(1) <= 1 << 24, "a buddy has at most 2^24 granules"),
            (self.small_upload_bytes_max <= self.small_block_bytes, "a small upload fits in a buddy"),
            (self.fast_page_bytes <= self.fast_block_bytes, "a fast page fits in its buddy"),
            (self.fast_block_bytes / self.fast_page_bytes.max(1) <= 1 << 24, "a buddy has at most 2^24 fast pages"),
            (self.big_block_bytes > 0, "big_block_bytes is not 0"),
            (self.default_block_bytes > 0, "default_block_bytes is not 0"),
            (self.texture_block_bytes > 0, "texture_block_bytes is not 0"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map(|(_, rule)| rule)
    }
}
