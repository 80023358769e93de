//! The policy: it selects the pool that serves a request, and reclaims at the end of a frame.

use std::fmt;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::lock::SharedLock;
use ringfence_core::buddy::Buddy;

use super::aliased::AliasedHeap;
use super::buffers::UPLOAD_USAGE;
use super::constants::ConstantsLocation;
use super::default_pool::tlsf_pool;
use super::desc::{BufferRequest, ConstantsLifetime, Dynamism, PlacementDesc, Route, TextureKind};
use super::fast_constants::{Cleaning, FastConstants, FastConstantsDesc, FastWriter};
use super::graph::{Provided, ProvidedBuffer, ProvidedTexture};
use super::heap_pools::HeapPools;
use super::inner::Inner;
use super::location::{BufferLocation, TextureLocation};
use super::range_pool::{PoolFigures, RangePool};
use crate::device::record::TexelRegion;
use crate::device::{Device, DeviceError, Requirements, TextureDesc, TextureInfo};
use ringfence_memory::extend::Shared;
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::Reclaimed;
use ringfence_memory::resource::{BufferCopy, ReplaceError};
use ringfence_memory::{Allocator, Error};
use ringfence_transient::{Execution, Pass, TransientError};
use ringfence_upload::UploadError;

/// The placement policy of an engine. See the [crate](super) for its rules.
///
/// Cheap to clone; clones refer to the same policy. All threads may call all methods.
pub struct Placement<D: Device> {
    pub(super) inner: Arc<Inner<D>>,
}

/// Usage of each part of the policy.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlacementFigures {
    /// Usage of the buddies of small uploads.
    pub upload_small: PoolFigures,
    /// Usage of the blocks of big uploads.
    pub upload_big: PoolFigures,
    /// Usage of the buddies of fast pages.
    pub fast_pages: PoolFigures,
    /// Usage of each pool of default buffers, in the order of creation.
    pub default_buffers: Vec<PoolFigures>,
    /// Usage of the pools of textures, indexed by [`TextureKind`](super::TextureKind).
    pub textures: [PoolFigures; 4],
}

impl<D: Device> Placement<D> {
    /// Creates a policy on top of an allocator. No memory is allocated before the first request.
    ///
    /// # Errors
    /// [`DeviceError::InvalidInfo`] with the rule that the description breaks.
    #[track_caller]
    pub fn new(memory: &Allocator<D>, desc: PlacementDesc) -> Result<Self, Error> {
        if let Some(rule) = desc.broken_rule() {
            return Err(DeviceError::invalid(rule).into());
        }
        let shared = memory.shared();
        let fast = FastConstantsDesc {
            page_bytes: desc.fast_page_bytes,
            buddy_bytes: desc.fast_block_bytes,
            pages_max: u32::MAX,
            usage: UPLOAD_USAGE,
            shrink_after: u32::try_from(desc.idle_frames).unwrap_or(u32::MAX),
            ..Default::default()
        };
        let at = panic::Location::caller();
        let names = ["small textures", "textures", "render targets", "storage textures"];
        let textures = names.map(|name| HeapPools::new(shared, name, desc.texture_block_bytes, desc.idle_frames, at));
        let inner = Inner {
            memory: memory.clone(),
            upload_small: RangePool::new(
                shared,
                desc.small_block_bytes,
                desc.idle_frames,
                Buddy::new,
                desc.small_granule_bytes,
            ),
            upload_big: tlsf_pool(shared, desc.big_block_bytes, desc.idle_frames),
            fast: FastConstants::with_cleaning(memory, fast, Cleaning::Others),
            default_buffers: SharedLock::new(Vec::new()),
            textures,
            frame: AtomicU64::new(0),
            desc,
            at,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the underlying allocator.
    #[must_use]
    pub fn memory(&self) -> &Allocator<D> {
        &self.inner.memory
    }

    /// Returns the description of the policy.
    #[must_use]
    pub fn desc(&self) -> &PlacementDesc {
        &self.inner.desc
    }

    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        self.inner.memory.shared()
    }

    /// Creates a buffer: a dynamic one in upload memory, a static one in device memory. If the request is served by a
    /// shared buffer that has space, makes no driver call.
    ///
    /// # Errors
    /// The size is 0, the alignment is not a power of two, there is no memory, or the driver failed. After an error,
    /// nothing has changed.
    #[track_caller]
    pub fn create_buffer(&self, request: &BufferRequest<'_>) -> Result<BufferLocation<D>, Error> {
        self.inner.create_buffer(request)
    }

    /// Replaces `held` with a buffer that `request` describes; the new buffer may be in another pool. Returns the copy
    /// that keeps the first `keep_bytes` bytes, or `None` if `keep_bytes` is 0. Record the copy in `frame`, before any
    /// use of the new buffer that reads these bytes. The new buffer is created before the old one is released; see
    /// [`Buffer::resize`](ringfence_memory::Buffer::resize).
    ///
    /// # Errors
    /// As [`Buffer::resize`](ringfence_memory::Buffer::resize).
    #[track_caller]
    pub fn resize_buffer(
        &self,
        held: &mut BufferLocation<D>,
        frame: &Frame,
        request: &BufferRequest<'_>,
        keep_bytes: u64,
    ) -> Result<Option<BufferCopy<D>>, ReplaceError> {
        self.inner.resize_buffer(held, frame, request, keep_bytes)
    }

    /// Returns the kind of a texture, the part of the policy that would serve it, and its memory requirements.
    /// Allocates no memory. If [`TextureKind::wants_clear_value`] returns `true`, create the texture with a clear value
    /// if the API has clear values.
    ///
    /// # Errors
    /// The driver refuses the description.
    pub fn plan_texture(&self, desc: &TextureDesc) -> Result<(TextureKind, Route, Requirements), Error> {
        self.inner.plan_texture(desc)
    }

    /// Creates a texture in the pool of its kind. If the texture is larger than [`PlacementDesc::texture_bytes_max`],
    /// requires dedicated memory, or finds no room in the pool, it gets dedicated memory.
    ///
    /// # Errors
    /// The description is invalid or not supported, there is no memory, or the driver failed. After an error, nothing
    /// has changed.
    #[track_caller]
    pub fn create_texture(&self, desc: &TextureDesc, name: &str) -> Result<TextureLocation<D>, Error> {
        self.inner.create_texture(desc, name)
    }

    /// Creates a texture as [`Placement::create_texture`] does, from the API's own description (which may have a clear
    /// value).
    ///
    /// # Errors
    /// As [`Placement::create_texture`].
    #[track_caller]
    pub fn create_texture_as(
        &self,
        kind: TextureKind,
        info: &TextureInfo<'_, D>,
        name: &str,
    ) -> Result<TextureLocation<D>, Error> {
        self.inner.create_texture_as(kind, info, name)
    }

    /// Creates a buffer for the readback of a texture: a stand-alone buffer in readback memory for all texels, with the
    /// row pitch that the device requires. Also returns the regions to copy, one for each subresource.
    ///
    /// # Errors
    /// The errors of [`Placement::create_texture`]. The texture is multisampled, has both depth and stencil, or has too
    /// many subresources.
    #[track_caller]
    pub fn create_readback_texture(
        &self,
        desc: &TextureDesc,
        name: &str,
    ) -> Result<(BufferLocation<D>, Vec<TexelRegion>), Error> {
        self.inner.create_readback_texture(desc, name)
    }

    /// Creates constants with a given lifetime. Constants of a draw or a frame are written with `writer`, a
    /// [`FastWriter`] of [`Placement::fast_constants`]. Constants of several frames get an upload buffer.
    ///
    /// # Errors
    /// - [`UploadError::ZeroSize`].
    /// - [`UploadError::ForeignConstants`] if the writer does not belong to this policy.
    /// - For a draw or a frame, the errors of [`FastWriter::write`]; for several frames, those of
    ///   [`Placement::create_buffer`].
    ///
    /// After an error, nothing has changed.
    #[track_caller]
    pub fn create_constants(
        &self,
        content: &[u8],
        lifetime: ConstantsLifetime,
        writer: &mut FastWriter<D>,
        name: &str,
    ) -> Result<ConstantsLocation<D>, UploadError> {
        self.inner.create_constants(content, lifetime, writer, name)
    }

    /// Creates a buffer, inside or outside of a graph. `graph` is an execution, and the first pass that uses the
    /// buffer. If `graph` is given and the buffer is static, the execution's transient allocator creates the buffer.
    /// Otherwise the policy does.
    ///
    /// # Errors
    /// As `Execution::acquire_buffer` or [`Placement::create_buffer`]. After an error, nothing has changed.
    #[track_caller]
    pub fn provide_buffer(
        &self,
        request: &BufferRequest<'_>,
        graph: Option<(&mut Execution<'_, D>, Pass)>,
    ) -> Result<ProvidedBuffer<D>, TransientError> {
        match graph {
            Some((execution, pass)) if request.dynamism == Dynamism::Static => {
                execution.acquire_buffer(&request.desc(), pass, request.name).map(Provided::Transient)
            }
            _ => Ok(Provided::Placed(self.create_buffer(request)?)),
        }
    }

    /// Creates a texture, inside or outside of a graph. `graph` is an execution, and the first pass that uses the
    /// texture. If `graph` is given, the execution's transient allocator creates the texture. Otherwise the policy
    /// does.
    ///
    /// # Errors
    /// As `Execution::acquire_texture` or [`Placement::create_texture`]. After an error, nothing has changed.
    pub fn provide_texture(
        &self,
        desc: &TextureDesc,
        name: &str,
        graph: Option<(&mut Execution<'_, D>, Pass)>,
    ) -> Result<ProvidedTexture<D>, TransientError> {
        match graph {
            Some((execution, pass)) => execution.acquire_texture(desc, pass, name).map(Provided::Transient),
            None => Ok(Provided::Placed(self.create_texture(desc, name)?)),
        }
    }

    /// Returns the pages for constants of a single frame or draw. Each recording thread writes through its own
    /// [`FastWriter`](crate::FastWriter).
    #[must_use]
    pub fn fast_constants(&self) -> &FastConstants<D> {
        &self.inner.fast
    }

    /// Creates a heap of `bytes` bytes of aliased memory for textures, in the best memory type for textures like
    /// `like`.
    ///
    /// # Errors
    /// The driver refuses the description, or there is no memory.
    #[track_caller]
    pub fn aliased_heap(&self, like: &TextureDesc, bytes: u64, name: &str) -> Result<AliasedHeap<D>, Error> {
        AliasedHeap::new(self.shared(), like, bytes, name)
    }

    /// Ends a frame: frees at most [`PlacementDesc::reclaim_objects_max`] retired resources that the device no longer
    /// uses, then destroys blocks of the upload, texture and default-buffer allocators that were empty for
    /// [`PlacementDesc::idle_frames`]. Never waits for the GPU.
    pub fn end_frame(&self) -> Reclaimed {
        let (inner, shared) = (&*self.inner, self.shared());
        let mut reclaimed = shared.reclaim(inner.desc.reclaim_objects_max);
        let frame = inner.frame.fetch_add(1, Ordering::Relaxed) + 1;
        let mut idle = 0;
        let mut destroy = |backing| {
            // SAFETY: the block was removed from its pool and is empty; its ranges were released by sync points.
            unsafe { shared.free_backing(backing) };
            idle += 1;
        };
        std::iter::from_fn(|| inner.upload_small.take_idle(frame)).for_each(&mut destroy);
        std::iter::from_fn(|| inner.upload_big.take_idle(frame)).for_each(&mut destroy);
        std::iter::from_fn(|| inner.fast.take_idle(frame)).for_each(&mut destroy);
        let parts = inner.textures.iter().flat_map(HeapPools::each_part);
        parts.for_each(|part| std::iter::from_fn(|| part.take_idle(frame)).for_each(&mut destroy));
        let count = inner.default_buffers.read().len();
        for index in 0..count {
            // The lock is not held during the driver calls, because the creation of a pool needs it.
            let pool = Arc::clone(&inner.default_buffers.read()[index]);
            pool.each_part(&mut |part| std::iter::from_fn(|| part.take_idle(frame)).for_each(&mut destroy));
        }
        reclaimed.blocks += idle;
        reclaimed
    }

    /// Returns the usage of each part of the policy. O(blocks).
    #[must_use]
    pub fn figures(&self) -> PlacementFigures {
        let inner = &*self.inner;
        let default_buffers = inner.default_buffers.read().iter().map(|pool| pool.figures()).collect();
        PlacementFigures {
            upload_small: inner.upload_small.figures(),
            upload_big: inner.upload_big.figures(),
            fast_pages: inner.fast.pool_figures(),
            default_buffers,
            textures: std::array::from_fn(|kind| inner.textures[kind].figures()),
        }
    }
}

impl<D: Device> Clone for Placement<D> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<D: Device> fmt::Debug for Placement<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement").field("desc", &self.inner.desc).finish_non_exhaustive()
    }
}
