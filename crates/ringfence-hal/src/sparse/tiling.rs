//! Division of a sparse texture into pages, and the numbers of the pages.
//!
//! ```text
//!   mip 0  │ 0 │ 1 │ 2 │ 3 │      tiles of equal size in texels, one page each, numbered row by row; the last tiles
//!          │ 4 │ 5 │ 6 │ 7 │      of a row or column may extend beyond the edge
//!   mip 1  │ 8 │ 9 │
//!   layer 1 │ 10 │ …              the tiles of the next layer
//!   tails  │ 20 │ │ 21 │          the mips that are too small for tiles: a tail per layer, or one tail for all layers
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | `page`, `place` | O(mips) |

use crate::ResourceClass;
use crate::record::TextureAspects;

/// Division of a sparse texture into pages. Pages are numbered in this order: the tiles of each layer, mip by mip and
/// row by row, then the mip tails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextureTiling {
    /// Size of a page in bytes, and its alignment in memory; a power of two.
    pub page_bytes: u64,
    /// Memory types that pages may be bound to, one bit each.
    pub memory_type_bits: u32,
    /// The class of the pages. It decides which resources may share a block with them.
    pub class: ResourceClass,
    /// The aspects of the texture.
    pub aspects: TextureAspects,
    /// Width and height of mip level 0 in texels.
    pub size: [u32; 2],
    /// Width and height of a tile in texels.
    pub tile: [u32; 2],
    /// Number of array layers.
    pub layers: u32,
    /// Number of mip levels.
    pub mips: u32,
    /// The first mip level in the mip tail; `mips` if there is no tail.
    pub tail_first_mip: u32,
    /// Number of pages of a mip tail; 0 if there is no tail.
    pub tail_pages: u64,
    /// `true` if all layers share one mip tail.
    pub is_tail_shared: bool,
    /// Location of the first mip tail, in a unit of the device. Only the device interprets it.
    pub tail_offset: u64,
    /// Distance between the mip tails of consecutive layers, in a unit of the device. Only the device interprets it.
    pub tail_stride: u64,
}

/// Location of a page of a texture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TilePlace {
    /// A tile of a mip level of a layer.
    Tile {
        /// The mip level.
        mip: u32,
        /// The array layer.
        layer: u32,
        /// Column of the tile in the mip level, counted from 0 at the left.
        column: u32,
        /// Row of the tile in the mip level, counted from 0 at the top.
        row: u32,
    },
    /// A page of a mip tail.
    Tail {
        /// The array layer; 0 if all layers share one tail.
        layer: u32,
        /// Index of the page in the tail.
        page: u64,
    },
}

impl TextureTiling {
    /// Returns the width and height of a mip level in texels.
    #[must_use]
    pub fn extent(&self, mip: u32) -> [u32; 2] {
        self.size.map(|side| side.checked_shr(mip).unwrap_or(0).max(1))
    }

    /// Returns the width and height of a mip level in tiles; `[0, 0]` for levels in the mip tail.
    #[must_use]
    pub fn tiles(&self, mip: u32) -> [u32; 2] {
        if mip >= self.tail_first_mip {
            return [0, 0];
        }
        let [width, height] = self.extent(mip);
        [width.div_ceil(self.tile[0]), height.div_ceil(self.tile[1])]
    }

    /// Returns the number of mip tails.
    #[must_use]
    pub fn tail_count(&self) -> u32 {
        match (self.tail_pages, self.is_tail_shared) {
            (0, _) => 0,
            (_, true) => 1,
            (_, false) => self.layers,
        }
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        self.first_tail_page() + u64::from(self.tail_count()) * self.tail_pages
    }

    /// Returns the number of the page at `place`, which must exist in the texture.
    #[must_use]
    pub fn page(&self, place: TilePlace) -> u64 {
        match place {
            TilePlace::Tile { mip, layer, column, row } => {
                let before: u64 = (0..mip).map(|mip| self.mip_pages(mip)).sum();
                let in_mip = u64::from(row) * u64::from(self.tiles(mip)[0]) + u64::from(column);
                u64::from(layer) * self.layer_pages() + before + in_mip
            }
            TilePlace::Tail { layer, page } => self.first_tail_page() + u64::from(layer) * self.tail_pages + page,
        }
    }

    /// Returns the location of page `page`, which must be less than [`TextureTiling::page_count`].
    #[must_use]
    pub fn place(&self, page: u64) -> TilePlace {
        if let Some(in_tails) = page.checked_sub(self.first_tail_page()) {
            let pages = self.tail_pages.max(1);
            return TilePlace::Tail { layer: (in_tails / pages) as u32, page: in_tails % pages };
        }
        let (layer, mut left) = (page / self.layer_pages(), page % self.layer_pages());
        let mut mip = 0;
        while left >= self.mip_pages(mip) {
            left -= self.mip_pages(mip);
            mip += 1;
        }
        let across = u64::from(self.tiles(mip)[0]);
        TilePlace::Tile { mip, layer: layer as u32, column: (left % across) as u32, row: (left / across) as u32 }
    }

    fn mip_pages(&self, mip: u32) -> u64 {
        let [across, down] = self.tiles(mip);
        u64::from(across) * u64::from(down)
    }

    fn layer_pages(&self) -> u64 {
        (0..self.tail_first_mip.min(self.mips)).map(|mip| self.mip_pages(mip)).sum()
    }

    fn first_tail_page(&self) -> u64 {
        u64::from(self.layers) * self.layer_pages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiling(layers: u32, is_tail_shared: bool) -> TextureTiling {
        TextureTiling {
            page_bytes: 64 << 10,
            memory_type_bits: 1,
            class: ResourceClass::Texture,
            aspects: TextureAspects::COLOR,
            size: [1000, 500],
            tile: [128, 128],
            layers,
            mips: 9,
            tail_first_mip: 2,
            tail_pages: 3,
            is_tail_shared,
            tail_offset: 0,
            tail_stride: 0,
        }
    }

    #[test]
    fn pages_are_numbered_once_each() {
        for (layers, is_tail_shared, count) in [(1, false, 8 * 4 + 4 * 2 + 3), (3, false, 129), (3, true, 123)] {
            let tiling = tiling(layers, is_tail_shared);
            assert_eq!(tiling.page_count(), count);
            for page in 0..count {
                assert_eq!(tiling.page(tiling.place(page)), page);
            }
            assert_eq!(tiling.place(9), TilePlace::Tile { mip: 0, layer: 0, column: 1, row: 1 });
            assert_eq!(tiling.place(count - 1), TilePlace::Tail { layer: tiling.tail_count() - 1, page: 2 });
        }
    }

    #[test]
    fn a_texture_may_have_no_tail_or_nothing_else() {
        let none = TextureTiling { tail_pages: 0, mips: 2, ..tiling(2, false) };
        assert_eq!((none.page_count(), none.tail_count()), (80, 0));
        let only = TextureTiling { tail_first_mip: 0, ..tiling(2, false) };
        assert_eq!((only.page_count(), only.place(4)), (6, TilePlace::Tail { layer: 1, page: 1 }));
    }

    /// A texture of 1000 × 500 texels: 8 × 4 tiles, then 4 × 2 tiles, then tails of 3 pages.
    #[test]
    fn each_place_has_the_number_of_its_page() {
        let tile = |mip, layer, column, row| TilePlace::Tile { mip, layer, column, row };
        let tail = |layer, page| TilePlace::Tail { layer, page };
        let separate = tiling(3, false);
        for (place, page) in [
            (tile(0, 0, 0, 0), 0),
            (tile(0, 0, 7, 0), 7),
            (tile(0, 0, 0, 1), 8),
            (tile(0, 0, 7, 3), 31),
            (tile(1, 0, 0, 0), 32),
            (tile(1, 0, 3, 0), 35),
            (tile(1, 0, 0, 1), 36),
            (tile(1, 0, 3, 1), 39),
            (tile(0, 1, 0, 0), 40),
            (tile(1, 1, 2, 1), 78),
            (tile(1, 2, 3, 1), 119),
            (tail(0, 0), 120),
            (tail(0, 2), 122),
            (tail(1, 0), 123),
            (tail(2, 2), 128),
        ] {
            assert_eq!((separate.page(place), separate.place(page)), (page, place));
        }
        let shared = tiling(3, true);
        for (place, page) in [(tile(1, 2, 3, 1), 119), (tail(0, 0), 120), (tail(0, 2), 122)] {
            assert_eq!((shared.page(place), shared.place(page)), (page, place));
        }
    }

    #[test]
    fn extents_and_tiles_shrink_with_each_mip_level() {
        let tiling = tiling(1, false);
        for (mip, extent, tiles) in [
            (0, [1000, 500], [8, 4]),
            (1, [500, 250], [4, 2]),
            (2, [250, 125], [0, 0]),
            (8, [3, 1], [0, 0]),
            (10, [1, 1], [0, 0]),
            (32, [1, 1], [0, 0]),
        ] {
            assert_eq!((tiling.extent(mip), tiling.tiles(mip)), (extent, tiles), "mip {mip}");
        }
        let exact = TextureTiling { size: [256, 128], tile: [128, 64], tail_first_mip: 9, ..tiling };
        assert_eq!([0, 1, 2].map(|mip| exact.tiles(mip)), [[2, 2], [1, 1], [1, 1]]);
        let odd = TextureTiling { size: [257, 129], ..exact };
        assert_eq!(odd.tiles(0), [3, 3]);
    }

    #[test]
    fn tails_are_one_for_each_layer_unless_the_layers_share_it() {
        for (layers, tail_pages, is_tail_shared, count, pages) in [
            (1, 3, false, 1, 43),
            (4, 3, false, 4, 172),
            (4, 3, true, 1, 163),
            (4, 1, false, 4, 164),
            (4, 0, false, 0, 160),
            (4, 0, true, 0, 160),
        ] {
            let tiling = TextureTiling { tail_pages, ..tiling(layers, is_tail_shared) };
            assert_eq!((tiling.tail_count(), tiling.page_count()), (count, pages), "{tiling:?}");
        }
        let no_tail = TextureTiling { mips: 1, tail_first_mip: 5, tail_pages: 0, ..tiling(2, false) };
        assert_eq!(no_tail.page_count(), 64, "levels that the texture lacks have no pages");
    }
}
