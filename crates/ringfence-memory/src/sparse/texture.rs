//! The sparse texture: tiles and tails of mips, and a [page table](super::table).
//!
//! ```text
//!   region (mip, layer, texels) ──▶ the tiles that it touches, or the tail that the mip lies in ──▶ pages ──▶ table
//! ```

use std::fmt;

use std::sync::Arc;

use super::error::{SparseError, SparseRegion};
use super::object::SparseObject;
use super::{Sparse, TextureTiling, TileBind, TilePlace};
use crate::device::{Device, DeviceError, RawTexture, TextureInfo, Textures};
use crate::error::Error;
use crate::memory::{AllocationDesc, Shared};

/// A run of pages that a submission will bind or unbind: tiles of one row, or pages of one tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileRun {
    /// The first page.
    pub place: TilePlace,
    /// How many.
    pub count: u64,
    /// Whether they get memory; else they lose it.
    pub is_bound: bool,
}

/// A texture whose tiles get memory as they are needed. See [`sparse`](crate::sparse).
///
/// Dropping it retires it with all of its memory, as a [`Texture`](crate::Texture) is.
pub struct SparseTexture<D: Device> {
    object: SparseObject<D, Textures>,
    tiling: TextureTiling,
}

impl<D: Sparse> SparseTexture<D> {
    /// Makes a sparse texture, without memory. Of `desc` those fields count that say where its pages lie.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device has none, or none of this format or usage; or the driver refuses the
    /// description.
    pub(super) fn new(
        shared: &Arc<Shared<D>>,
        info: &TextureInfo<'_, D>,
        desc: AllocationDesc<'_>,
    ) -> Result<SparseTexture<D>, Error> {
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let make = |device: &D| unsafe { device.make_sparse_texture(info) };
        let page = |tiling: &TextureTiling| (tiling.page_bytes, tiling.memory_type_bits, tiling.class);
        let (object, tiling) = SparseObject::new(shared, desc, make, page)?;
        Ok(SparseTexture { object, tiling })
    }
}

impl<D: Device> SparseTexture<D> {
    /// The driver's texture.
    #[must_use]
    pub fn object(&self) -> &RawTexture<D> {
        self.object.get()
    }

    /// How it is cut into pages.
    #[must_use]
    pub fn tiling(&self) -> &TextureTiling {
        &self.tiling
    }

    /// How many of its pages have memory once what is pending is submitted.
    #[must_use]
    pub fn bound_count(&self) -> u64 {
        self.object.table.bound_count()
    }

    /// Whether all that the region touches has memory once what is pending is submitted; `false` outside of the texture.
    #[must_use]
    pub fn is_bound(&self, region: SparseRegion) -> bool {
        self.pages_of(region).is_ok_and(|mut pages| pages.all(|page| self.object.table.is_bound(page)))
    }

    /// The memory behind a page that a submission has bound: the memory object and the first byte in it.
    #[must_use]
    pub fn behind(&self, place: TilePlace) -> Option<(&D::Memory, u64)> {
        self.object.table.behind(self.tiling.page(place))
    }

    /// All texels of a mip of a layer.
    #[must_use]
    pub fn whole(&self, mip: u32, layer: u32) -> SparseRegion {
        let [width, height] = self.tiling.extent(mip);
        SparseRegion { mip, layer, x: 0, y: 0, width, height }
    }

    /// What the next submission does, as data.
    #[must_use]
    pub fn batch(&self) -> Vec<TileRun> {
        let runs = self.object.table.runs(|page| self.begins_run(page)).into_iter();
        runs.map(|run| TileRun { place: self.tiling.place(run.page), count: run.count, is_bound: run.change }).collect()
    }

    /// Has every tile that the region touches bound by the next submission, or all of the tail that its mip lies in. What
    /// has memory is left as it is; for the rest it is taken now. What new pages hold is of no meaning.
    ///
    /// # Errors
    /// The region is empty or lies outside the texture, or there is no memory; no page has changed then.
    #[track_caller]
    pub fn bind(&mut self, region: SparseRegion) -> Result<(), SparseError> {
        let pages = self.pages_of(region)?;
        Ok(self.object.table.bind(pages)?)
    }

    /// Has every tile that the region touches unbound by the next submission, or all of the tail that its mip lies in, with
    /// the mips that share it.
    ///
    /// # Errors
    /// The region is empty or lies outside the texture.
    pub fn unbind(&mut self, region: SparseRegion) -> Result<(), SparseError> {
        let pages = self.pages_of(region)?;
        self.object.table.unbind(pages);
        Ok(())
    }

    /// The pages that a region touches, by number.
    fn pages_of(&self, region: SparseRegion) -> Result<impl Iterator<Item = u64> + use<D>, SparseError> {
        let SparseRegion { mip, layer, x, y, width, height } = region;
        let TextureTiling { mips, layers, tile, tail_first_mip, .. } = self.tiling;
        let inside =
            |first: u32, count: u32, side: u32| count > 0 && first.checked_add(count).is_some_and(|end| end <= side);
        let [across, down] = self.tiling.extent(mip);
        if mip >= mips || layer >= layers || !inside(x, width, across) || !inside(y, height, down) {
            return Err(SparseError::OutsideTexture { region, mips, layers });
        }
        // Rows of pages: of tiles, or the one of a tail.
        let (first, rows, count, stride) = if mip >= tail_first_mip {
            let layer = if self.tiling.is_tail_shared { 0 } else { layer };
            (self.tiling.page(TilePlace::Tail { layer, page: 0 }), 1, self.tiling.tail_pages, 0)
        } else {
            let (column, row) = (x / tile[0], y / tile[1]);
            let (columns, rows) = ((x + width).div_ceil(tile[0]) - column, (y + height).div_ceil(tile[1]) - row);
            let first = self.tiling.page(TilePlace::Tile { mip, layer, column, row });
            (first, u64::from(rows), u64::from(columns), u64::from(self.tiling.tiles(mip)[0]))
        };
        Ok((0..rows).flat_map(move |row| (0..count).map(move |page| first + row * stride + page)))
    }

    /// Whether a page is the first of a row, or of a tail.
    fn begins_run(&self, page: u64) -> bool {
        matches!(self.tiling.place(page), TilePlace::Tile { column: 0, .. } | TilePlace::Tail { page: 0, .. })
    }
}

impl<D: Sparse> SparseTexture<D> {
    /// Binds and unbinds what is pending, on a queue: as [`SparseBuffer::submit`](super::SparseBuffer::submit).
    ///
    /// # Errors
    /// Device lost or out of memory: what is pending is still pending.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn submit(
        &mut self,
        queue: &D::BindQueue,
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError> {
        self.object.table.check_lost()?;
        let runs = self.object.table.binds(|page| self.begins_run(page)).into_iter();
        let binds =
            runs.map(|run| TileBind { place: self.tiling.place(run.page), count: run.count, memory: run.change });
        let binds: Vec<_> = binds.collect();
        let texture = (self.object.get(), &self.tiling);
        // SAFETY: runs of a map do not overlap, and each is of one row or tail; pages are the texture's, and their memory
        // was made for them; the rest is the caller's promise.
        unsafe { self.object.table.device().bind_tiles(queue, texture, &binds, waits, signal) }?;
        self.object.table.settle();
        Ok(())
    }
}

impl<D: Device> fmt::Debug for SparseTexture<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, pages, bytes) = (self.bound_count(), self.tiling.page_count(), self.tiling.page_bytes);
        write!(f, "SparseTexture({:?}, {bound} of {pages} pages of {bytes} bytes)", self.object())
    }
}
