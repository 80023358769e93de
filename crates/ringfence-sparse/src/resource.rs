//! A driver's buffer or texture without memory of its own, with the [pages](super::table) behind it.
//!
//! ```text
//!   pages of a buffer                         by number
//!   region (mip, layer, texels) of a texture ──▶ its tiles, or the tail that contains the mip ──▶ numbers
//! ```

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use ringfence_memory::extend::Shared;
use ringfence_memory::{AllocationDesc, Allocator, Error, ResourceKind};

use super::error::SparseError;
use super::table::PageTable;
use super::{PageBind, Sparse, TextureTiling, TilePlace};
use crate::device::{
    Buffers, Create, Describe, Device, DeviceError, RawBuffer, RawTexture, Requirements, ResourceClass, TexelBox,
    TextureAspect, Textures,
};

/// A buffer with addresses for all pages; a page gets memory when it is bound. See [`SparseResource`].
pub type SparseBuffer<D> = SparseResource<D, Buffers>;
/// A texture with tiles that get memory when they are bound. See [`SparseResource`].
pub type SparseTexture<D> = SparseResource<D, Textures>;

/// A run of pages that a submission will bind or unbind: pages of a buffer with consecutive numbers, tiles of one row,
/// or pages of one mip tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun<P> {
    /// The first page.
    pub first: P,
    /// Number of pages.
    pub count: u64,
    /// `true` if the pages get memory, `false` if they lose it.
    pub is_bound: bool,
}

/// The kinds of sparse resources: [`Buffers`] are divided into pages, [`Textures`] into tiles and tails.
pub trait SparseKind: ResourceKind {
    /// Division of a resource into pages, as the device reports it.
    type Layout: fmt::Debug + Send + Sync;
    /// Identity of a page: a number in a buffer, a tile or a page of a mip tail in a texture.
    type Page: Copy + fmt::Debug;
    /// Selection of pages to bind or unbind.
    type Region;

    /// Returns the requirements of a page: bytes, memory types (one bit each), class.
    fn page(layout: &Self::Layout) -> (u64, u32, ResourceClass);
    /// Returns the number of pages.
    fn page_count(layout: &Self::Layout) -> u64;
    /// Returns the page with this number.
    fn place(layout: &Self::Layout, page: u64) -> Self::Page;
    /// Returns the number of a page.
    fn number(layout: &Self::Layout, page: Self::Page) -> u64;
    /// Returns `true` if a new run must begin at this page.
    fn begins_run(layout: &Self::Layout, page: u64) -> bool;
    /// Returns the pages of a region, by number.
    ///
    /// # Errors
    /// The region is outside of the resource, or the region of a texture is empty.
    fn pages(layout: &Self::Layout, region: Self::Region) -> Result<impl Iterator<Item = u64>, SparseError>;
    /// Binds pages on the device.
    ///
    /// # Errors
    /// As [`Sparse::bind_pages`].
    ///
    /// # Safety
    /// As [`Sparse::bind_pages`].
    unsafe fn bind<D: Sparse + Create<Self>>(
        device: &D,
        queue: &D::BindQueue,
        resource: (&<D as Create<Self>>::Object, &Self::Layout),
        binds: &[PageBind<'_, D::Memory, Self::Page>],
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError>;
}

impl SparseKind for Buffers {
    type Layout = Requirements;
    type Page = u64;
    type Region = Range<u64>;

    fn page(layout: &Requirements) -> (u64, u32, ResourceClass) {
        (layout.alignment, layout.memory_type_bits, layout.class)
    }

    fn page_count(layout: &Requirements) -> u64 {
        layout.size / layout.alignment
    }

    fn place(_: &Requirements, page: u64) -> u64 {
        page
    }

    fn number(_: &Requirements, page: u64) -> u64 {
        page
    }

    fn begins_run(_: &Requirements, _: u64) -> bool {
        false
    }

    fn pages(layout: &Requirements, region: Range<u64>) -> Result<impl Iterator<Item = u64>, SparseError> {
        let (first, end, page_count) = (region.start, region.end, Self::page_count(layout));
        if end > page_count { Err(SparseError::OutOfRange { first, end, page_count }) } else { Ok(region) }
    }

    unsafe fn bind<D: Sparse>(
        device: &D,
        queue: &D::BindQueue,
        (buffer, layout): (&RawBuffer<D>, &Requirements),
        binds: &[PageBind<'_, D::Memory>],
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller promises the same.
        unsafe { device.bind_pages(queue, (buffer, layout.alignment), binds, waits, signal) }
    }
}

impl SparseKind for Textures {
    type Layout = TextureTiling;
    type Page = TilePlace;
    type Region = TexelBox;

    fn page(layout: &TextureTiling) -> (u64, u32, ResourceClass) {
        (layout.page_bytes, layout.memory_type_bits, layout.class)
    }

    fn page_count(layout: &TextureTiling) -> u64 {
        layout.page_count()
    }

    fn place(layout: &TextureTiling, page: u64) -> TilePlace {
        layout.place(page)
    }

    fn number(layout: &TextureTiling, page: TilePlace) -> u64 {
        layout.page(page)
    }

    fn begins_run(layout: &TextureTiling, page: u64) -> bool {
        matches!(layout.place(page), TilePlace::Tile { column: 0, .. } | TilePlace::Tail { page: 0, .. })
    }

    fn pages(layout: &TextureTiling, region: TexelBox) -> Result<impl Iterator<Item = u64>, SparseError> {
        let TexelBox { aspect, mip, layer, x, y, z, width, height, depth, .. } = region;
        let TextureTiling { mips, layers, tile, tail_first_mip, .. } = *layout;
        let inside =
            |first: u32, count: u32, side: u32| count > 0 && first.checked_add(count).is_some_and(|end| end <= side);
        let [across, down] = layout.extent(mip);
        let are_there = mip < mips && inside(layer, region.layers, layers) && layout.aspects.contains(aspect.flag());
        if !are_there || !inside(x, width, across) || !inside(y, height, down) || !inside(z, depth, 1) {
            return Err(SparseError::OutsideTexture { region, mips, layers });
        }
        // The rows of pages in each layer: the rows of tiles, or the one row of a tail, which layers may share.
        let is_tail = mip >= tail_first_mip;
        let held = if is_tail && layout.is_tail_shared { 0..1 } else { layer..layer + region.layers };
        let (column, row) = (x / tile[0], y / tile[1]);
        let (rows, count, stride) = if is_tail {
            (1, layout.tail_pages, 0)
        } else {
            let (columns, rows) = ((x + width).div_ceil(tile[0]) - column, (y + height).div_ceil(tile[1]) - row);
            (u64::from(rows), u64::from(columns), u64::from(layout.tiles(mip)[0]))
        };
        Ok(held.flat_map(move |layer| {
            let tile = TilePlace::Tile { mip, layer, column, row };
            let first = layout.page(if is_tail { TilePlace::Tail { layer, page: 0 } } else { tile });
            (0..rows).flat_map(move |row| (0..count).map(move |page| first + row * stride + page))
        }))
    }

    unsafe fn bind<D: Sparse>(
        device: &D,
        queue: &D::BindQueue,
        (texture, layout): (&RawTexture<D>, &TextureTiling),
        binds: &[PageBind<'_, D::Memory, TilePlace>],
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller promises the same.
        unsafe { device.bind_tiles(queue, (texture, layout), binds, waits, signal) }
    }
}

/// A resource with pages that get memory when they are bound. See the [crate](crate).
///
/// Dropping it retires it with all of its memory, as a [`Buffer`](ringfence_memory::Buffer) is.
pub struct SparseResource<D: Device + Create<K>, K: SparseKind> {
    object: ManuallyDrop<<D as Create<K>>::Object>,
    layout: K::Layout,
    table: PageTable<D>,
}

impl<D: Device + Create<K>, K: SparseKind> SparseResource<D, K> {
    /// Calls `make` to create the driver's object and its layout.
    fn made(
        shared: &Arc<Shared<D>>,
        desc: AllocationDesc<'_>,
        make: impl Fn(&D) -> Result<(<D as Create<K>>::Object, K::Layout), DeviceError>,
    ) -> Result<Self, Error> {
        let (object, layout) = shared.make_paged(make)?;
        if !desc.name.is_empty() {
            // SAFETY: the object was just created.
            unsafe { Create::<K>::set_name(&shared.device, &object, desc.name) };
        }
        let table = PageTable::new(shared, K::page(&layout), desc);
        Ok(Self { object: ManuallyDrop::new(object), layout, table })
    }

    /// Returns the driver's object.
    #[must_use]
    pub fn object(&self) -> &<D as Create<K>>::Object {
        &self.object
    }

    /// Returns the number of pages of the resource.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        K::page_count(&self.layout)
    }

    /// Returns the number of pages that will have memory after the pending changes are submitted.
    #[must_use]
    pub fn bound_count(&self) -> u64 {
        self.table.bound_count()
    }

    /// Returns the memory of a page that a submission has bound: the object and the offset in bytes. Returns `None` for
    /// other pages.
    #[must_use]
    pub fn behind(&self, page: K::Page) -> Option<(&D::Memory, u64)> {
        self.table.behind(K::number(&self.layout, page))
    }

    /// Returns the pending binds and unbinds, which the next submission makes, as data.
    #[must_use]
    pub fn batch(&self) -> Vec<PageRun<K::Page>> {
        let runs = self.table.runs(|page| K::begins_run(&self.layout, page)).into_iter();
        let run = |page, count, is_bound| PageRun { first: K::place(&self.layout, page), count, is_bound };
        runs.map(|held| run(held.page, held.count, held.change)).collect()
    }

    /// Binds pages with the next submission. For a buffer, the region is a range of pages. For a texture, the region
    /// selects every tile that it touches, with all aspects, or the whole mip tail that contains its mip. Allocates
    /// memory now for pages that have none; other pages keep their memory. The contents of new pages are undefined.
    ///
    /// # Errors
    /// The region is outside of the resource, the region of a texture is empty, or memory is short. An error changes
    /// nothing.
    #[track_caller]
    pub fn bind(&mut self, region: K::Region) -> Result<(), SparseError> {
        Ok(self.table.bind(K::pages(&self.layout, region)?)?)
    }

    /// Unbinds pages with the next submission; pages without memory do not change. If the region touches a mip tail,
    /// all pages of the tail are unbound, with all mips in it.
    ///
    /// # Errors
    /// The region is outside of the resource, or the region of a texture is empty.
    pub fn unbind(&mut self, region: K::Region) -> Result<(), SparseError> {
        self.table.unbind(K::pages(&self.layout, region)?);
        Ok(())
    }
}

impl<D: Sparse> SparseBuffer<D> {
    /// Creates a sparse buffer without memory. Of `desc`, only the name and the fields that choose the memory of the
    /// pages are used. Pages are neither moved nor evicted.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device does not support sparse buffers; or the driver refuses the
    /// description.
    pub fn new(
        memory: &Allocator<D>,
        info: &impl Describe<D, Buffers>,
        desc: AllocationDesc<'_>,
    ) -> Result<Self, Error> {
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let make = |device: &D| info.with_info(device, |info| unsafe { device.make_sparse(info) })?;
        Self::made(memory.shared(), desc, make)
    }
}

impl<D: Device> SparseBuffer<D> {
    /// Returns the size of all pages in bytes: the described size, rounded up to pages. Address space, not memory.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.layout.size
    }

    /// Returns the size of a page in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.layout.alignment
    }

    /// Returns `true` if the page will have memory after the pending changes are submitted.
    #[must_use]
    pub fn is_bound(&self, page: u64) -> bool {
        self.table.is_bound(page)
    }

    /// Returns the pages that contain the bytes. The result is empty if `bytes` is empty.
    #[must_use]
    pub fn pages_of(&self, bytes: Range<u64>) -> Range<u64> {
        let first = bytes.start / self.layout.alignment;
        first..if bytes.is_empty() { first } else { bytes.end.div_ceil(self.layout.alignment) }
    }
}

impl<D: Sparse> SparseTexture<D> {
    /// Creates a sparse texture without memory. Of `desc`, only the name and the fields that choose the memory of the
    /// pages are used. Pages are neither moved nor evicted.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device does not support sparse textures, or not with this format or usage;
    /// or the driver refuses the description.
    pub fn new(
        memory: &Allocator<D>,
        info: &impl Describe<D, Textures>,
        desc: AllocationDesc<'_>,
    ) -> Result<Self, Error> {
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let make = |device: &D| info.with_info(device, |info| unsafe { device.make_sparse_texture(info) })?;
        Self::made(memory.shared(), desc, make)
    }
}

impl<D: Device> SparseTexture<D> {
    /// Returns the division of the texture into pages.
    #[must_use]
    pub fn tiling(&self) -> &TextureTiling {
        &self.layout
    }

    /// Returns `true` if every tile that the region touches will have memory after the pending changes are submitted.
    /// Returns `false` if the region is outside of the texture.
    #[must_use]
    pub fn is_bound(&self, region: TexelBox) -> bool {
        Textures::pages(&self.layout, region).is_ok_and(|mut pages| pages.all(|page| self.table.is_bound(page)))
    }

    /// Returns the region of all texels of one mip of one layer.
    #[must_use]
    pub fn whole(&self, mip: u32, layer: u32) -> TexelBox {
        let [width, height] = self.layout.extent(mip);
        let aspect = TextureAspect::ALL.into_iter().find(|aspect| self.layout.aspects.contains(aspect.flag()));
        let aspect = aspect.unwrap_or_default();
        TexelBox { aspect, mip, layer, layers: 1, x: 0, y: 0, z: 0, width, height, depth: 1 }
    }
}

impl<D: Sparse + Create<K>, K: SparseKind> SparseResource<D, K> {
    /// Submits the pending binds and unbinds to a queue. The queue executes them after `waits` and its earlier work,
    /// then signals `signal`. Memory of unbound pages is retired. If no changes are pending, the queue only waits and
    /// signals.
    ///
    /// # Errors
    /// The device is lost or out of memory. The changes stay pending.
    ///
    /// # Safety
    /// - `signal` is the fence of a timeline and the value of one of its open frames: the call is made between the
    ///   [`begin`](ringfence_memory::Timeline::begin) and the [`submitted`](ringfence_memory::Timeline::submitted) of
    ///   that frame. The queue belongs to the device and supports binding. No other thread uses the queue during the
    ///   call.
    /// - Work that uses unbound pages is ordered before the submission, on this queue or through `waits`; work that
    ///   uses newly bound pages is ordered after it.
    pub unsafe fn submit(
        &mut self,
        queue: &D::BindQueue,
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError> {
        self.table.check_lost()?;
        let layout = &self.layout;
        let bind = |page, count, memory| PageBind { first: K::place(layout, page), count, memory };
        let runs = self.table.binds(|page| K::begins_run(layout, page)).into_iter();
        let binds: Vec<_> = runs.map(|run| bind(run.page, run.count, run.change)).collect();
        // SAFETY: the runs of a map do not overlap, and each run of a texture is inside one row or tail; the pages
        // belong to the resource, and their memory was allocated for them; the caller promises the rest.
        unsafe { K::bind(self.table.device(), queue, (&self.object, layout), &binds, waits, signal) }?;
        self.table.settle();
        Ok(())
    }
}

impl<D: Device + Create<K>, K: SparseKind> Drop for SparseResource<D, K> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        let object = unsafe { ManuallyDrop::take(&mut self.object) };
        // SAFETY: the allocator's device created the object, and this value was its only owner.
        unsafe { self.table.retire(K::raw::<D>(object)) };
    }
}

impl<D: Device + Create<K>, K: SparseKind> fmt::Debug for SparseResource<D, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, pages, (bytes, ..)) = (self.bound_count(), self.page_count(), K::page(&self.layout));
        write!(f, "sparse {}({:?}, {bound} of {pages} pages of {bytes} bytes)", K::NAME, self.object())
    }
}
