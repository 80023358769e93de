//! How a sparse texture is cut into pages, and how those are numbered.
//!
//! ```text
//!   mip 0  │ 0 │ 1 │ 2 │ 3 │      tiles of equal size in texels, each a page: a row after the other, the last ones of a row
//!          │ 4 │ 5 │ 6 │ 7 │      or column in part beyond the edge
//!   mip 1  │ 8 │ 9 │
//!   layer 1 │ 10 │ …              each layer its own
//!   tails  │ 20 │ │ 21 │          the mips too small for tiles, together: some pages a layer, or some for all layers
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | the page of a tile, the place of a page | O(mips) |

use crate::ResourceClass;
use crate::record::TextureAspects;

/// How a sparse texture is cut into pages, and how those are numbered: the tiles of each layer, mip by mip and row by
/// row, then the tails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextureTiling {
    /// Bytes of a page, a power of two: also the alignment of a page in memory.
    pub page_bytes: u64,
    /// Memory types that pages may lie in, a bit each.
    pub memory_type_bits: u32,
    /// What its pages may share a block with.
    pub class: ResourceClass,
    /// What a texel has.
    pub aspects: TextureAspects,
    /// Texels across and down of the first mip.
    pub size: [u32; 2],
    /// Texels across and down of a tile.
    pub tile: [u32; 2],
    /// Array layers.
    pub layers: u32,
    /// Mip levels.
    pub mips: u32,
    /// The first mip that lies in a tail; `mips` if there is no tail.
    pub tail_first_mip: u32,
    /// Pages of a tail; 0 if there is none.
    pub tail_pages: u64,
    /// Whether all layers have one tail in common.
    pub is_tail_shared: bool,
    /// Where the device finds the first tail: of meaning to the device alone.
    pub tail_offset: u64,
    /// From one layer's tail to the next one's, likewise.
    pub tail_stride: u64,
}

/// Which page of a texture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TilePlace {
    /// A tile of a mip of a layer.
    Tile {
        /// The mip level.
        mip: u32,
        /// The array layer.
        layer: u32,
        /// Tiles from the left.
        column: u32,
        /// Tiles from the top.
        row: u32,
    },
    /// A page of a tail.
    Tail {
        /// The array layer; 0 where all have one in common.
        layer: u32,
        /// Pages from its first.
        page: u64,
    },
}

impl TextureTiling {
    /// Texels across and down of a mip level.
    #[must_use]
    pub fn extent(&self, mip: u32) -> [u32; 2] {
        self.size.map(|side| side.checked_shr(mip).unwrap_or(0).max(1))
    }

    /// Tiles across and down of a mip level; none of what lies in a tail.
    #[must_use]
    pub fn tiles(&self, mip: u32) -> [u32; 2] {
        if mip >= self.tail_first_mip {
            return [0, 0];
        }
        let [width, height] = self.extent(mip);
        [width.div_ceil(self.tile[0]), height.div_ceil(self.tile[1])]
    }

    /// How many tails there are.
    #[must_use]
    pub fn tail_count(&self) -> u32 {
        match (self.tail_pages, self.is_tail_shared) {
            (0, _) => 0,
            (_, true) => 1,
            (_, false) => self.layers,
        }
    }

    /// How many pages there are.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        self.first_tail_page() + u64::from(self.tail_count()) * self.tail_pages
    }

    /// The number of a page, which the texture has.
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

    /// What the page of a number is, of those that there are.
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
}
