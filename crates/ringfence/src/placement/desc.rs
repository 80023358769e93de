//! The thresholds of the policy, and the routes that follow from them. Numbers only, no memory.

use crate::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};

/// How a [`Placement`](super::Placement) is set up. The thresholds' defaults are Unreal Engine's; block sizes are those
/// that engines use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementDesc {
    /// Uploads of at most this many bytes come from the buddies.
    pub small_upload_bytes_max: u64,
    /// Uploads of at most this many bytes come from the pool; larger ones get a driver buffer of their own.
    pub big_upload_bytes_max: u64,
    /// Default buffers of at most this many bytes come from a pool.
    pub default_buffer_bytes_max: u64,
    /// Textures of at most this many bytes come from a pool.
    pub texture_bytes_max: u64,
    /// Sampled textures of at most this many bytes share a pool of their own: they need little alignment.
    pub small_texture_bytes_max: u64,
    /// Bytes of a page of fast constants, a power of two.
    pub fast_page_bytes: u64,
    /// Bytes of a buddy for small uploads, a power of two, at least [`PlacementDesc::small_upload_bytes_max`].
    pub small_block_bytes: u64,
    /// The smallest piece of such a buddy in bytes, a power of two.
    pub small_granule_bytes: u64,
    /// Bytes of a block for big uploads. A larger request gets a block of its size.
    pub big_block_bytes: u64,
    /// Bytes of a buddy for fast pages, a power of two, at least [`PlacementDesc::fast_page_bytes`].
    pub fast_block_bytes: u64,
    /// Bytes of a block of default buffers.
    pub default_block_bytes: u64,
    /// Bytes of a block of textures.
    pub texture_block_bytes: u64,
    /// For how many frames a block has to be empty before it is destroyed.
    pub idle_frames: u64,
    /// The most resources that the end of a frame destroys.
    pub reclaim_objects_max: usize,
    /// How default buffers that shaders write are placed: on Direct3D 12 each needs a resource state of its own.
    pub storage_strategy: Strategy,
    /// How all other default buffers are placed.
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

/// How a pool gives memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    /// A resource of the driver for each request, placed in a heap of the pool.
    Placed,
    /// A range of one driver buffer that the pool's requests share.
    Suballocated,
}

/// Whether the host rewrites a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dynamism {
    /// Written by the device, usually by copies: default heap.
    #[default]
    Static,
    /// Written by the host repeatedly: upload heap.
    Dynamic,
}

/// How long constants are used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConstantsLifetime {
    /// By one draw: fast constants.
    SingleDraw,
    /// By draws of one frame, or of one execution of a graph: fast constants.
    SingleFrame,
    /// By several frames: upload heap.
    MultiFrame,
}

/// A buffer that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferRequest<'a> {
    /// Bytes.
    pub size: u64,
    /// What it is for.
    pub usage: BufferUsage,
    /// Whether the host rewrites it.
    pub dynamism: Dynamism,
    /// Alignment of its first byte in the driver's buffer and, up to 64 KiB, in memory, in bytes; a power of two, or 0
    /// for the alignment that the usage needs.
    pub alignment: u64,
    /// How a static one is placed; `None` for the strategy of [`PlacementDesc`] for its usage.
    pub strategy: Option<Strategy>,
    /// A name for reports, and for the driver's object if it has its own.
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

/// The kinds of textures that have pools of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextureKind {
    /// Sampled only, and small.
    SmallSampled,
    /// Sampled only.
    Sampled,
    /// Drawn to, depth and stencil too.
    RenderTarget,
    /// Written by shaders.
    Storage,
}

impl TextureKind {
    /// Every kind, in the order of the pools.
    pub const ALL: [Self; 4] = [Self::SmallSampled, Self::Sampled, Self::RenderTarget, Self::Storage];

    /// The kind by usage, regardless of size: whether a texture is small is known only from its memory requirements.
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

    /// The kind of a texture that needs `size` bytes.
    #[must_use]
    pub(super) fn measured(self, size: u64, desc: &PlacementDesc) -> Self {
        match self {
            Self::Sampled | Self::SmallSampled if size <= desc.small_texture_bytes_max => Self::SmallSampled,
            Self::SmallSampled => Self::Sampled,
            kind => kind,
        }
    }

    /// Whether it should be made with a clear value, so that clears are fast.
    #[must_use]
    pub const fn wants_clear_value(self) -> bool {
        matches!(self, Self::RenderTarget)
    }
}

/// Which allocator serves a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Route {
    /// The buddies of small uploads.
    UploadSmall,
    /// The pool of big uploads.
    UploadBig,
    /// The buddies of fast pages.
    FastPage,
    /// A pool of default buffers: its strategy, and its index in the order in which pools were made.
    DefaultBuffers {
        /// How it places.
        strategy: Strategy,
        /// Which pool.
        pool: usize,
    },
    /// The pool of this kind of textures.
    Textures(TextureKind),
    /// A driver object with memory of its own.
    StandAlone,
    /// Memory that textures share in turns.
    Aliased,
}

/// The four kinds of locations: how something is released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LocationKind {
    /// Dedicated memory: the driver's object and its memory are destroyed, deferred.
    StandAlone,
    /// In a pool or a buddy: its range is freed, deferred.
    Suballocated,
    /// In a page: nothing is done; the page is released as a whole.
    Fast,
    /// In aliased memory: the driver's object is destroyed, deferred; the memory stays.
    HeapAliased,
}

impl Route {
    /// How what goes this way is released.
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
    /// The upload allocator that serves a request, by its size and whether a buddy can hold it at its alignment. O(1).
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

    /// The strategy for a static buffer whose request names none. O(1).
    #[must_use]
    pub fn strategy_for(&self, usage: BufferUsage) -> Strategy {
        if usage.intersects(BufferUsage::STORAGE) { self.storage_strategy } else { self.plain_strategy }
    }

    /// The first rule of the description that does not hold.
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
