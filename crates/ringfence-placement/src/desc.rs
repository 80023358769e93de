//! Thresholds of the policy, and the routes that they select.

use crate::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};

/// Description of a [`Placement`](super::Placement). The default thresholds are Unreal Engine's. The default block
/// sizes are common in engines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementDesc {
    /// Largest size of an upload that gets a range of a buddy (a driver buffer with a buddy allocator), in bytes.
    pub small_upload_bytes_max: u64,
    /// Largest size of an upload that gets a range of the pool, in bytes. Each larger upload gets its own driver
    /// buffer.
    pub big_upload_bytes_max: u64,
    /// Largest size of a default buffer in a pool, in bytes. A larger buffer gets dedicated memory.
    pub default_buffer_bytes_max: u64,
    /// Largest size of a texture in a pool, in bytes. A larger texture gets dedicated memory.
    pub texture_bytes_max: u64,
    /// Largest size of a sampled texture in the pool of small textures, in bytes. On Direct3D 12, small textures need
    /// only a small alignment.
    pub small_texture_bytes_max: u64,
    /// Size of a page of fast constants, in bytes; a power of two.
    pub fast_page_bytes: u64,
    /// Size of a buddy for small uploads, in bytes; a power of two, at least [`PlacementDesc::small_upload_bytes_max`].
    pub small_block_bytes: u64,
    /// Smallest range of a buddy for small uploads, in bytes; a power of two.
    pub small_granule_bytes: u64,
    /// Size of a block for big uploads, in bytes. A larger request gets a block of the request's size.
    pub big_block_bytes: u64,
    /// Size of a buddy for fast pages, in bytes; a power of two, at least [`PlacementDesc::fast_page_bytes`].
    pub fast_block_bytes: u64,
    /// Size of a block of default buffers, in bytes.
    pub default_block_bytes: u64,
    /// Size of a block of textures, in bytes.
    pub texture_block_bytes: u64,
    /// Number of frames after which an empty block is destroyed.
    pub idle_frames: u64,
    /// Largest number of resources that one call of [`Placement::end_frame`](super::Placement::end_frame) destroys.
    pub reclaim_objects_max: usize,
    /// Strategy for default buffers that shaders write. On Direct3D 12, each such buffer needs a separate resource
    /// state.
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
    /// The device writes the buffer, usually by copies. The buffer is in device memory (Direct3D 12: default heap).
    #[default]
    Static,
    /// The host writes the buffer repeatedly. The buffer is in upload memory.
    Dynamic,
}

/// Lifetime of constants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConstantsLifetime {
    /// One draw. The constants are fast constants.
    SingleDraw,
    /// One frame, or one execution of a graph. The constants are fast constants.
    SingleFrame,
    /// Several frames. The constants are in an upload buffer.
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
    /// Alignment of the first byte, in bytes: a power of two, or 0 for the alignment that the usage needs. It is the
    /// alignment of the offset in the driver's buffer and, up to 64 KiB, of the location in memory.
    pub alignment: u64,
    /// Strategy for a static buffer. `None` selects the strategy that [`PlacementDesc`] sets for the usage.
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

/// Kinds of textures. Each kind has its own pool.
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

    /// Returns the kind of a texture by its usage alone. Never returns [`TextureKind::SmallSampled`], because only the
    /// memory requirements show if a texture is small.
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

/// The part of the policy that serves a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Route {
    /// The buddies of small uploads.
    UploadSmall,
    /// The pool of big uploads.
    UploadBig,
    /// The buddies of fast pages.
    FastPage,
    /// A pool of default buffers.
    DefaultBuffers {
        /// Strategy of the pool.
        strategy: Strategy,
        /// Index of the pool in the order of creation.
        pool: usize,
    },
    /// The pool of this kind of textures.
    Textures(TextureKind),
    /// A driver object with dedicated memory.
    StandAlone,
    /// The memory of an [`AliasedHeap`](super::AliasedHeap).
    Aliased,
}

/// The four kinds of locations, which differ in how they are released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LocationKind {
    /// Dedicated memory. Once the device no longer uses the location, the driver's object and its memory are destroyed.
    StandAlone,
    /// Range of a pool or a buddy. Once the device no longer uses the location, the range is freed.
    Suballocated,
    /// Range of a page. The range is not released alone; the page is released as a whole.
    Fast,
    /// Aliased memory. Once the device no longer uses the location, the driver's object is destroyed, and the memory
    /// stays with its heap.
    HeapAliased,
}

impl Route {
    /// Returns the kind of the locations that this route serves.
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
    /// Returns the route of an upload with this size and alignment, in bytes. An upload with a usage that shared
    /// buffers lack gets [`Route::StandAlone`] instead. O(1).
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

    /// Returns the first rule that the description breaks, phrased as its violation.
    pub(super) fn broken_rule(&self) -> Option<&'static str> {
        let rules = [
            (self.fast_page_bytes.is_power_of_two(), "fast_page_bytes is not a power of two"),
            (self.fast_block_bytes.is_power_of_two(), "fast_block_bytes is not a power of two"),
            (self.small_block_bytes.is_power_of_two(), "small_block_bytes is not a power of two"),
            (self.small_granule_bytes.is_power_of_two(), "small_granule_bytes is not a power of two"),
            (self.small_granule_bytes <= self.small_block_bytes, "small_granule_bytes exceeds small_block_bytes"),
            (
                self.small_block_bytes / self.small_granule_bytes.max(1) <= 1 << 24,
                "a buddy has more than 2^24 granules",
            ),
            (self.small_upload_bytes_max <= self.small_block_bytes, "small_upload_bytes_max exceeds small_block_bytes"),
            (self.fast_page_bytes <= self.fast_block_bytes, "fast_page_bytes exceeds fast_block_bytes"),
            (self.fast_block_bytes / self.fast_page_bytes.max(1) <= 1 << 24, "a buddy has more than 2^24 fast pages"),
            (self.big_block_bytes > 0, "big_block_bytes is 0"),
            (self.default_block_bytes > 0, "default_block_bytes is 0"),
            (self.texture_block_bytes > 0, "texture_block_bytes is 0"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map(|(_, rule)| rule)
    }
}
