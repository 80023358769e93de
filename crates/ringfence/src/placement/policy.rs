//! The policy itself: takes a request, finds the allocator that serves it, and cleans up at the end of a frame.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use ringfence_core::buddy::Buddy;
use ringfence_core::tlsf::Tlsf;

use super::aliased::AliasedHeap;
use super::desc::{BufferRequest, Dynamism, PlacementDesc, Route, Strategy, TextureKind};
use super::fast::{FastConstants, FastPage};
use super::heap_pools::HeapPools;
use super::location::{BufferLocation, Footprint, ReadbackTexture, TextureLocation};
use super::range_pool::{Block, PoolFigures, RangePool};
use crate::device::{
    BufferDesc, BufferUsage, Buffers, Create, Device, DeviceError, Placed, TextureDesc, TextureInfo, Textures,
};
use crate::error::Error;
use crate::memory::{Allocator, Backing, Location, Reclaimed, Shared};
use crate::resource::{AllocationDesc, Dedicated, Resource};

/// What uploads may be used for.
const UPLOAD_USAGE: BufferUsage = BufferUsage::COPY_SRC
    .union(BufferUsage::VERTEX)
    .union(BufferUsage::INDEX)
    .union(BufferUsage::CONSTANT)
    .union(BufferUsage::INDIRECT);

/// Subresources of a texture that is read back, at the most: 2,048 layers of 16 mips.
const FOOTPRINTS_MAX: u64 = 1 << 15;

/// Where resources go, as an engine does it. See the [module](super).
///
/// Cheap to clone; every clone is the same policy. All methods may be called from any thread.
pub struct Placement<D: Device> {
    inner: Arc<Inner<D>>,
}

struct Inner<D: Device> {
    memory: Allocator<D>,
    desc: PlacementDesc,
    upload_small: Arc<RangePool<D, Buddy>>,
    upload_big: Arc<RangePool<D, Tlsf>>,
    fast_pages: Arc<RangePool<D, Buddy>>,
    /// In the order of their making.
    default_buffers: RwLock<Vec<Arc<DefaultPool<D>>>>,
    /// By [`TextureKind`].
    textures: [HeapPools<D>; 4],
    frame: AtomicU64,
}

/// A pool of default buffers and what it supports.
struct DefaultPool<D: Device> {
    usage: BufferUsage,
    strategy: Strategy,
    ranges: DefaultRanges<D>,
}

enum DefaultRanges<D: Device> {
    Placed(HeapPools<D>),
    Suballocated(Arc<RangePool<D, Tlsf>>),
}

/// What a texture will come to, before it takes any memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexturePlan {
    /// Which kind it is.
    pub kind: TextureKind,
    /// Where it would go.
    pub route: Route,
    /// Bytes that it needs.
    pub bytes: u64,
    /// Alignment in bytes that it needs.
    pub alignment: u64,
    /// Whether it should be described with a clear value, where the API knows one.
    pub wants_clear_value: bool,
}

/// Use of each allocator of the policy.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlacementFigures {
    /// Buddies of small uploads.
    pub upload_small: PoolFigures,
    /// Blocks of big uploads.
    pub upload_big: PoolFigures,
    /// Buddies of fast pages.
    pub fast_pages: PoolFigures,
    /// Pools of default buffers, in the order of their making.
    pub default_buffers: Vec<PoolFigures>,
    /// Texture pools, by [`TextureKind`].
    pub textures: [PoolFigures; 4],
}

impl<D: Device> Placement<D> {
    /// The policy over an allocator. Takes no memory yet.
    ///
    /// # Errors
    /// [`DeviceError::InvalidInfo`] with the rule of the description that does not hold.
    pub fn new(memory: &Allocator<D>, desc: PlacementDesc) -> Result<Self, Error> {
        if let Some(rule) = desc.broken_rule() {
            return Err(DeviceError::InvalidInfo(rule).into());
        }
        let shared = memory.shared();
        let buddy = |block_bytes, granule| {
            let pool = Arc::new(RangePool::new(block_bytes, desc.idle_frames, Buddy::new, granule));
            shared.add_pool(Arc::<RangePool<D, Buddy>>::clone(&pool));
            pool
        };
        let names = ["small textures", "textures", "render targets", "storage textures"];
        let textures = names.map(|name| HeapPools::new(shared, name, desc.texture_block_bytes, desc.idle_frames));
        let inner = Inner {
            memory: memory.clone(),
            upload_small: buddy(desc.small_block_bytes, desc.small_granule_bytes),
            upload_big: tlsf_pool(shared, desc.big_block_bytes, desc.idle_frames),
            fast_pages: buddy(desc.fast_block_bytes, desc.fast_page_bytes),
            default_buffers: RwLock::new(Vec::new()),
            textures,
            frame: AtomicU64::new(0),
            desc,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The allocator underneath.
    #[must_use]
    pub fn memory(&self) -> &Allocator<D> {
        &self.inner.memory
    }

    /// How it is set up.
    #[must_use]
    pub fn desc(&self) -> &PlacementDesc {
        &self.inner.desc
    }

    fn shared(&self) -> &Arc<Shared<D>> {
        self.inner.memory.shared()
    }

    /// Makes a buffer: a dynamic one in upload memory, any other in device memory (row 004-1). O(1) with room in a pool.
    ///
    /// # Errors
    /// A size of 0, an alignment that is not a power of two, no memory, or the driver's. Nothing has changed then.
    pub fn create_buffer(&self, request: &BufferRequest<'_>) -> Result<BufferLocation<D>, Error> {
        self.shared().check_lost()?;
        if request.size == 0 {
            return Err(DeviceError::InvalidInfo("a buffer has at least one byte").into());
        }
        if request.alignment != 0 && !request.alignment.is_power_of_two() {
            return Err(DeviceError::InvalidInfo("an alignment is a power of two").into());
        }
        match request.dynamism {
            Dynamism::Dynamic => self.create_upload(request),
            Dynamism::Static => self.create_default(request),
        }
    }

    /// The upload side: small from the buddies, big from the pool, else stand-alone (rows 004-8 to 004-10).
    fn create_upload(&self, request: &BufferRequest<'_>) -> Result<BufferLocation<D>, Error> {
        let alignment = self.alignment(request);
        let route = self.inner.desc.upload_route(request.size, alignment);
        // What the shared buffers are not made for gets one of its own.
        let route = if UPLOAD_USAGE.contains(request.usage) { route } else { Route::StandAlone };
        let make = |bytes| self.make_shared_buffer(bytes, UPLOAD_USAGE, Location::Upload, "uploads");
        let found = match route {
            Route::UploadSmall => self.inner.upload_small.allocate(self.padded(request.size), alignment, make),
            Route::UploadBig => self.inner.upload_big.allocate(self.padded(request.size), alignment, make),
            _ => return self.create_stand_alone(request, Location::Upload),
        };
        match found {
            Ok(found) => Ok(self.range(found, request.size, Location::Upload, route)),
            Err(error) if is_out_of_memory(&error) => self.create_stand_alone(request, Location::Upload),
            Err(error) => Err(error),
        }
    }

    /// Default buffers: the first pool that supports the kind, or a new one (row 004-3).
    fn create_default(&self, request: &BufferRequest<'_>) -> Result<BufferLocation<D>, Error> {
        if request.size > self.inner.desc.default_buffer_bytes_max {
            return self.create_stand_alone(request, Location::Device);
        }
        let strategy = request.strategy.unwrap_or_else(|| self.inner.desc.strategy_for(request.usage));
        let (index, pool) = self.default_pool(request.usage, strategy);
        let route = Route::DefaultBuffers { strategy, pool: index };
        let made = match &pool.ranges {
            DefaultRanges::Placed(heaps) => self.create_placed_buffer(heaps, request, route),
            DefaultRanges::Suballocated(ranges) => {
                let make = |bytes| self.make_shared_buffer(bytes, pool.usage, Location::Device, "default buffers");
                let found = ranges.allocate(self.padded(request.size), self.alignment(request), make);
                found.map(|found| self.range(found, request.size, Location::Device, route))
            }
        };
        match made {
            Err(error) if is_out_of_memory(&error) => self.create_stand_alone(request, Location::Device),
            made => made,
        }
    }

    fn default_pool(&self, usage: BufferUsage, strategy: Strategy) -> (usize, Arc<DefaultPool<D>>) {
        let find = |pools: &[Arc<DefaultPool<D>>]| {
            let supports = |pool: &Arc<DefaultPool<D>>| pool.strategy == strategy && pool.usage.contains(usage);
            pools.iter().position(supports).map(|index| (index, Arc::clone(&pools[index])))
        };
        if let Some(found) = find(&self.inner.default_buffers.read()) {
            return found;
        }
        let mut pools = self.inner.default_buffers.write();
        find(&pools).unwrap_or_else(|| {
            pools.push(Arc::new(self.new_default_pool(usage, strategy)));
            (pools.len() - 1, Arc::clone(&pools[pools.len() - 1]))
        })
    }

    fn new_default_pool(&self, usage: BufferUsage, strategy: Strategy) -> DefaultPool<D> {
        let PlacementDesc { default_block_bytes, idle_frames, .. } = self.inner.desc;
        // Whoever asks for less of the same finds it here, and copies are for everybody.
        let usage = usage | BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let ranges = match strategy {
            Strategy::Placed => DefaultRanges::Placed(HeapPools::new(
                self.shared(),
                "default buffers",
                default_block_bytes,
                idle_frames,
            )),
            Strategy::Suballocated => {
                DefaultRanges::Suballocated(tlsf_pool(self.shared(), default_block_bytes, idle_frames))
            }
        };
        DefaultPool { usage, strategy, ranges }
    }

    fn create_placed_buffer(
        &self,
        heaps: &HeapPools<D>,
        request: &BufferRequest<'_>,
        route: Route,
    ) -> Result<BufferLocation<D>, Error> {
        let (shared, mut route) = (self.shared(), route);
        let info = Create::<Buffers>::describe(&shared.device, &request.desc())?;
        let desc = AllocationDesc { name: request.name, location: Location::Device, ..Default::default() };
        let ((placed, place), needs) = shared.create_with::<Buffers>(&info, desc, |unplaced, needs| {
            if needs.requires_dedicated {
                route = Route::StandAlone;
                return shared.place::<Buffers>(
                    unplaced,
                    needs,
                    AllocationDesc { dedicated: Dedicated::Always, ..desc },
                );
            }
            heaps.place::<Buffers>(shared, unplaced, needs, Location::Device)
        })?;
        let buffer = Resource::new(Arc::clone(shared), placed, place, needs.size, Location::Device);
        Ok(BufferLocation::own(buffer, request.size, route))
    }

    fn create_stand_alone(&self, request: &BufferRequest<'_>, location: Location) -> Result<BufferLocation<D>, Error> {
        let info = Create::<Buffers>::describe(self.memory().device(), &request.desc())?;
        let desc = AllocationDesc { name: request.name, location, dedicated: Dedicated::Always, ..Default::default() };
        let buffer = self.memory().create_buffer(&info, desc)?;
        Ok(BufferLocation::own(buffer, request.size, Route::StandAlone))
    }

    /// A range of a shared buffer as a location.
    fn range(
        &self,
        found: super::range_pool::InPool<D>,
        size: u64,
        location: Location,
        route: Route,
    ) -> BufferLocation<D> {
        let object = found.shared_buffer.expect("a pool of ranges shares buffers");
        let placed = Placed { object, mapped: found.mapped };
        let bytes = Resource::new(Arc::clone(self.shared()), placed, found.place, size, location);
        BufferLocation::range(bytes, found.offset, size, route)
    }

    /// A driver buffer for ranges to share.
    fn make_shared_buffer(
        &self,
        bytes: u64,
        usage: BufferUsage,
        location: Location,
        name: &str,
    ) -> Result<Block<D>, Error> {
        let shared = self.shared();
        let info = Create::<Buffers>::describe(&shared.device, &BufferDesc { size: bytes, usage })?;
        let desc = AllocationDesc { name, location, ..Default::default() };
        let ((placed, place), _) = shared.create::<Buffers>(&info, desc)?;
        let (memory, base) = (place.shared_memory(shared), place.offset);
        let backing = Backing::Buffer { object: placed.object, place };
        Ok(Block { backing, memory, base, mapped: placed.mapped })
    }

    /// What the usage asks for, at least what the request does.
    fn alignment(&self, request: &BufferRequest<'_>) -> u64 {
        let capabilities = self.memory().device().capabilities();
        let by_usage = [
            (BufferUsage::CONSTANT, capabilities.constant_alignment),
            (BufferUsage::STORAGE, 256),
            (BufferUsage::COPY_SRC, 16),
            (BufferUsage::COPY_DST, 16),
            (BufferUsage::empty(), 16),
        ];
        let asked = by_usage.into_iter().filter(|(usage, _)| request.usage.contains(*usage));
        asked
            .map(|(_, alignment)| alignment)
            .fold(request.alignment.max(capabilities.non_coherent_atom_bytes), u64::max)
    }

    /// No two ranges share an atom of flushes.
    fn padded(&self, size: u64) -> u64 {
        let atom = self.memory().device().capabilities().non_coherent_atom_bytes.max(1);
        size.checked_next_multiple_of(atom).unwrap_or(size)
    }

    /// What a texture would come to: measured by the driver, no memory taken (row 004-4).
    ///
    /// # Errors
    /// The driver refuses the description.
    pub fn plan_texture(&self, desc: &TextureDesc) -> Result<TexturePlan, Error> {
        let device = self.memory().device();
        self.shared().check_lost()?;
        let info = Create::<Textures>::describe(device, desc)?;
        let needs = self.shared().measure::<Textures>(&info)?;
        let kind = TextureKind::of(desc).measured(needs.size, &self.inner.desc);
        let alone = needs.requires_dedicated || needs.size > self.inner.desc.texture_bytes_max;
        let route = if alone { Route::StandAlone } else { Route::Textures(kind) };
        let (bytes, alignment, wants_clear_value) = (needs.size, needs.alignment, kind.wants_clear_value());
        Ok(TexturePlan { kind, route, bytes, alignment, wants_clear_value })
    }

    /// Makes a texture in the pool of its kind (rows 004-5, 004-6).
    ///
    /// # Errors
    /// As [`Placement::create_buffer`].
    pub fn create_texture(&self, desc: &TextureDesc, name: &str) -> Result<TextureLocation<D>, Error> {
        let info = Create::<Textures>::describe(self.memory().device(), desc)?;
        self.create_texture_as(TextureKind::of(desc), &info, name)
    }

    /// As [`Placement::create_texture`], from the device's own description (which may have a clear value).
    ///
    /// # Errors
    /// As [`Placement::create_buffer`].
    pub fn create_texture_as(
        &self,
        kind: TextureKind,
        info: &TextureInfo<'_, D>,
        name: &str,
    ) -> Result<TextureLocation<D>, Error> {
        let (shared, policy) = (self.shared(), &self.inner.desc);
        let (mut texture_kind, mut route) = (kind, Route::StandAlone);
        let desc = AllocationDesc { name, dedicated: Dedicated::Always, ..Default::default() };
        let ((placed, place), needs) = shared.create_with::<Textures>(info, desc, |unplaced, needs| {
            texture_kind = kind.measured(needs.size, policy);
            let alone = needs.requires_dedicated || needs.size > policy.texture_bytes_max;
            if !alone {
                route = Route::Textures(texture_kind);
                let pools = &self.inner.textures[texture_kind as usize];
                match pools.place::<Textures>(shared, unplaced, needs, Location::Device) {
                    Err(error) if is_out_of_memory(&error) => route = Route::StandAlone,
                    made => return made,
                }
            }
            shared.place::<Textures>(unplaced, needs, desc)
        })?;
        let texture = Resource::new(Arc::clone(shared), placed, place, needs.size, Location::Device);
        Ok(TextureLocation { texture, texture_kind, route })
    }

    /// Makes what a texture is copied to so that the host can read it: a stand-alone buffer in readback memory, with the
    /// rows as the device copies them (row 004-5).
    ///
    /// # Errors
    /// As [`Placement::create_buffer`].
    pub fn create_readback_texture(&self, desc: &TextureDesc, name: &str) -> Result<ReadbackTexture<D>, Error> {
        if desc.samples != 1 {
            return Err(DeviceError::InvalidInfo("a multisampled texture cannot be read back").into());
        }
        let (footprints, size) = self.footprints(desc)?;
        let request = BufferRequest { size, usage: BufferUsage::COPY_DST, name, ..Default::default() };
        let buffer = self.create_stand_alone(&request, Location::Readback)?;
        Ok(ReadbackTexture { buffer, footprints })
    }

    /// Where each mip of each layer lies, and how many bytes that makes.
    fn footprints(&self, desc: &TextureDesc) -> Result<(Vec<Footprint>, u64), Error> {
        let TextureDesc { width, height, layers, mips, format, .. } = *desc;
        let sizes = [width, height, layers, mips];
        let count = u64::from(layers) * u64::from(mips);
        if sizes.contains(&0) || count > FOOTPRINTS_MAX || mips > width.max(height).ilog2() + 1 {
            return Err(DeviceError::InvalidInfo("a texture has texels, and mips down to one texel at the most").into());
        }
        let capabilities = self.memory().device().capabilities();
        let max = capabilities.memory_object_bytes_max;
        let (mut footprints, mut end) = (Vec::with_capacity(count as usize), 0_u64);
        for (layer, mip) in (0..layers).flat_map(|layer| (0..mips).map(move |mip| (layer, mip))) {
            let (width, height) = ((width >> mip).max(1), (height >> mip).max(1));
            let row = u64::from(width) * format.texel_bytes();
            let row_bytes = row.next_multiple_of(capabilities.texture_copy_row_alignment.max(1));
            let offset = end.next_multiple_of(capabilities.texture_copy_offset_alignment.max(1));
            footprints.push(Footprint { mip, layer, offset, row_bytes, width, height });
            // No sum overflows: each is compared with the largest memory object before the next.
            end = offset.saturating_add(row_bytes.saturating_mul(u64::from(height)));
            if end > max {
                return Err(Error::TooLarge { size: end, max });
            }
        }
        Ok((footprints, end))
    }

    /// A page for fast constants, from its buddies (row 004-14).
    ///
    /// # Errors
    /// No memory, or the driver's.
    pub fn fast_page(&self) -> Result<FastPage<D>, Error> {
        self.shared().check_lost()?;
        let size = self.inner.desc.fast_page_bytes;
        let make = |bytes| self.make_shared_buffer(bytes, UPLOAD_USAGE, Location::Upload, "fast constants");
        let found = self.inner.fast_pages.allocate(size, size, make)?;
        let atom = self.memory().device().capabilities().non_coherent_atom_bytes.max(1);
        Ok(FastPage::new(self.range(found, size, Location::Upload, Route::FastPage), atom))
    }

    /// Fast constants for one thread.
    #[must_use]
    pub fn fast_constants(&self) -> FastConstants<D> {
        FastConstants::new(self.clone())
    }

    /// Memory that textures share in turns: as many bytes as asked for, of the memory type that suits textures like
    /// `like` best.
    ///
    /// # Errors
    /// The driver refuses the description, or has not got the memory.
    pub fn aliased_heap(&self, like: &TextureDesc, bytes: u64, name: &str) -> Result<AliasedHeap<D>, Error> {
        AliasedHeap::new(self.shared(), like, bytes, name)
    }

    /// The end of a frame (rows 004-19 to 004-23): destroys and gives back what the submitted work of all queues is done
    /// with, and then destroys the blocks of the upload, texture and default-buffer allocators that were empty for long
    /// enough. Waits for nothing.
    pub fn end_frame(&self) -> Reclaimed {
        let (inner, shared) = (&*self.inner, self.shared());
        let mut reclaimed = shared.reclaim(inner.desc.reclaim_objects_max);
        let frame = inner.frame.fetch_add(1, Ordering::Relaxed) + 1;
        let mut idle = 0;
        let mut destroy = |backing| {
            shared.free_backing(backing);
            idle += 1;
        };
        std::iter::from_fn(|| inner.upload_small.take_idle(frame)).for_each(&mut destroy);
        std::iter::from_fn(|| inner.upload_big.take_idle(frame)).for_each(&mut destroy);
        std::iter::from_fn(|| inner.fast_pages.take_idle(frame)).for_each(&mut destroy);
        let parts = inner.textures.iter().flat_map(HeapPools::each_part);
        parts.for_each(|part| std::iter::from_fn(|| part.take_idle(frame)).for_each(&mut destroy));
        let count = inner.default_buffers.read().len();
        for index in 0..count {
            // Not across the driver's calls: a new pool needs the lock.
            let pool = Arc::clone(&inner.default_buffers.read()[index]);
            pool.each_part(&mut |part| std::iter::from_fn(|| part.take_idle(frame)).for_each(&mut destroy));
        }
        reclaimed.blocks += idle;
        reclaimed
    }

    /// Use of each allocator. O(blocks).
    #[must_use]
    pub fn figures(&self) -> PlacementFigures {
        let inner = &*self.inner;
        let default_buffers = inner.default_buffers.read().iter().map(|pool| pool.figures()).collect();
        PlacementFigures {
            upload_small: inner.upload_small.figures(),
            upload_big: inner.upload_big.figures(),
            fast_pages: inner.fast_pages.figures(),
            default_buffers,
            textures: std::array::from_fn(|kind| inner.textures[kind].figures()),
        }
    }
}

impl<D: Device> DefaultPool<D> {
    fn each_part(&self, visit: &mut dyn FnMut(&RangePool<D, Tlsf>)) {
        match &self.ranges {
            DefaultRanges::Placed(heaps) => heaps.each_part().for_each(|part| visit(part)),
            DefaultRanges::Suballocated(ranges) => visit(ranges),
        }
    }

    fn figures(&self) -> PoolFigures {
        let mut sum = PoolFigures::default();
        self.each_part(&mut |part| sum.add(part.figures()));
        sum
    }
}

fn tlsf_pool<D: Device>(shared: &Shared<D>, block_bytes: u64, idle_frames: u64) -> Arc<RangePool<D, Tlsf>> {
    let pool = Arc::new(RangePool::new(block_bytes, idle_frames, |size, _| Tlsf::new(size), 1));
    shared.add_pool(Arc::<RangePool<D, Tlsf>>::clone(&pool));
    pool
}

fn is_out_of_memory(error: &Error) -> bool {
    match error {
        Error::OutOfMemory { .. } => true,
        Error::Device(error) => error.is_out_of_memory(),
        _ => false,
    }
}

impl<D: Device> Drop for Inner<D> {
    /// Blocks go with the allocator's next reclaim, or once their last range has come back.
    fn drop(&mut self) {
        self.upload_small.close();
        self.upload_big.close();
        self.fast_pages.close();
        self.textures.iter().flat_map(HeapPools::each_part).for_each(|part| part.close());
        let pools = self.default_buffers.get_mut();
        pools.iter().for_each(|pool| pool.each_part(&mut |part| part.close()));
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
