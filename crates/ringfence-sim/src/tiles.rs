//! Copies of sparse textures on the simulated device.
//!
//! ```text
//!   a tile     rows of a tile's width, one after the other, in its page
//!   a tail     the mips that are smaller than a tile, one after the other, tightly packed, across its pages
//!   a copy     split at tile edges, and in a tail at rows and pages ──▶ steps over addresses, like other copies
//! ```

use super::command::{BufferLayout, BufferRange, TextureRegion};
use super::hazard::HazardKind;
use super::ids::Label;
use super::objects::Shape;
use super::order::Access;
use super::state::State;
use super::step::{Address, Rows, Step, Uses};
use super::texels::{Part, TexelCopy};
use ringfence_hal::record::TextureAspects;
use ringfence_hal::sparse::{TextureTiling, TilePlace, UnboundReads};
use ringfence_hal::{BufferUsage, Kind, TextureDesc, TextureUsage, Textures};

/// Rows of texels in one page.
#[derive(Debug)]
struct Piece {
    page: u64,
    /// Offset in the page, in bytes.
    offset: u64,
    /// Distance between rows in the page, in bytes.
    pitch: u64,
    /// Position in the copied region: offset in its row, in bytes, and number of the first row. The offset is in bytes,
    /// because in a mip tail a page may end inside a texel.
    x_bytes: u64,
    y: u32,
    row_bytes: u64,
    rows: u64,
}

/// Returns the tiling of a texture. The width of a tile is a power of two, and a tile is about square.
pub(super) fn tiling(page_bytes: u64, desc: &TextureDesc, needs: (u32, ringfence_hal::ResourceClass)) -> TextureTiling {
    let texels = (page_bytes / desc.format.texel_bytes()).max(1);
    let width = 1 << texels.ilog2().div_ceil(2);
    let tile = [width, (texels / u64::from(width)) as u32];
    let mut tiling = TextureTiling {
        page_bytes,
        memory_type_bits: needs.0,
        class: needs.1,
        aspects: Textures::parts(desc).map_or(TextureAspects::COLOR, |parts| parts.aspects),
        size: [desc.width, desc.height],
        tile,
        layers: desc.layers,
        mips: desc.mips,
        tail_first_mip: desc.mips,
        tail_pages: 0,
        is_tail_shared: false,
        tail_offset: 0,
        tail_stride: 0,
    };
    let is_small = |mip: &u32| {
        let [across, down] = tiling.extent(*mip);
        across < tile[0] || down < tile[1]
    };
    if let Some(first) = (0..desc.mips).find(is_small) {
        let bytes: u64 = (first..desc.mips).map(|mip| mip_bytes(&tiling, desc, mip)).sum();
        (tiling.tail_first_mip, tiling.tail_pages) = (first, bytes.div_ceil(page_bytes));
    }
    tiling
}

fn mip_bytes(tiling: &TextureTiling, desc: &TextureDesc, mip: u32) -> u64 {
    let [across, down] = tiling.extent(mip);
    u64::from(across) * u64::from(down) * desc.format.texel_bytes()
}

/// Returns the locations of the texels of a region: one piece for each tile, or in a mip tail, for each page of each
/// row. The region must be inside the texture.
fn pieces(tiling: &TextureTiling, desc: &TextureDesc, region: &TextureRegion) -> Vec<Piece> {
    if region.mip < tiling.tail_first_mip {
        tile_pieces(tiling, desc, region)
    } else {
        tail_pieces(tiling, desc, region)
    }
}

fn tile_pieces(tiling: &TextureTiling, desc: &TextureDesc, region: &TextureRegion) -> Vec<Piece> {
    let TextureRegion { mip, layer, x, y, width, height } = *region;
    let ([tile_width, tile_height], texel) = (tiling.tile, desc.format.texel_bytes());
    let mut pieces = Vec::new();
    for row in y / tile_height..(y + height).div_ceil(tile_height) {
        for column in x / tile_width..(x + width).div_ceil(tile_width) {
            let (left, top) = (x.max(column * tile_width), y.max(row * tile_height));
            let (right, bottom) =
                ((x + width).min((column + 1) * tile_width), (y + height).min((row + 1) * tile_height));
            let pitch = u64::from(tile_width) * texel;
            pieces.push(Piece {
                page: tiling.page(TilePlace::Tile { mip, layer, column, row }),
                offset: u64::from(top - row * tile_height) * pitch + u64::from(left - column * tile_width) * texel,
                pitch,
                x_bytes: u64::from(left - x) * texel,
                y: top - y,
                row_bytes: u64::from(right - left) * texel,
                rows: u64::from(bottom - top),
            });
        }
    }
    pieces
}

fn tail_pieces(tiling: &TextureTiling, desc: &TextureDesc, region: &TextureRegion) -> Vec<Piece> {
    let TextureRegion { mip, layer, x, y, width, height } = *region;
    let (texel, page_bytes) = (desc.format.texel_bytes(), tiling.page_bytes);
    let before: u64 = (tiling.tail_first_mip..mip).map(|mip| mip_bytes(tiling, desc, mip)).sum();
    let pitch = u64::from(tiling.extent(mip)[0]) * texel;
    let mut pieces = Vec::new();
    for row in 0..height {
        let first = before + u64::from(y + row) * pitch + u64::from(x) * texel;
        let (mut at, end) = (first, first + u64::from(width) * texel);
        while at < end {
            let row_bytes = (page_bytes - at % page_bytes).min(end - at);
            pieces.push(Piece {
                page: tiling.page(TilePlace::Tail { layer, page: at / page_bytes }),
                offset: at % page_bytes,
                pitch: row_bytes,
                x_bytes: at - first,
                y: row,
                row_bytes,
                rows: 1,
            });
            at += row_bytes;
        }
    }
    pieces
}

impl State {
    /// Returns the steps of a copy of texels in the first slice of a sparse texture. If the copy is invalid, reports a
    /// hazard and returns `None`.
    pub(super) fn tile_steps(&mut self, copy: &TexelCopy, part: &Part, uses: &mut Uses) -> Option<Vec<Step>> {
        let resource = self.resources.get(&copy.texture.0)?;
        let Shape::Texture(desc) = resource.shape.clone() else { return None };
        let label = resource.label.clone();
        let needs = (resource.requirements.memory_type_bits, resource.requirements.class);
        let usage = if copy.into_texture { TextureUsage::COPY_DST } else { TextureUsage::COPY_SRC };
        let tiling = tiling(self.profile.page_bytes, &desc, needs);
        let Part { mip, layer, first: [x, y, _], extent: [width, height, _], .. } = *part;
        let [across, down] = tiling.extent(mip);
        let inside =
            |first: u32, count: u32, side: u32| count > 0 && first.checked_add(count).is_some_and(|end| end <= side);
        if mip >= desc.mips || layer >= desc.layers || !inside(x, width, across) || !inside(y, height, down) {
            return self.refuse(HazardKind::OutOfRange, label, "a region outside of the texture");
        }
        if !desc.usage.contains(usage) {
            return self.refuse(HazardKind::Misuse, label, "a texture without this usage");
        }
        self.check_layout(copy.buffer, copy.layout, (false, u64::from(width) * desc.format.texel_bytes()))?;
        let mut steps = Vec::new();
        for piece in pieces(&tiling, &desc, &TextureRegion { mip, layer, x, y, width, height }) {
            self.piece_steps(copy, &piece, &label, uses, &mut steps)?;
        }
        Some(steps)
    }

    /// Adds the steps of one piece. Writes to an unbound page have no effect. Reads from an unbound page return zeros,
    /// or poison if the device has undefined reads.
    fn piece_steps(
        &mut self,
        copy: &TexelCopy,
        piece: &Piece,
        label: &Label,
        uses: &mut Uses,
        steps: &mut Vec<Step>,
    ) -> Option<()> {
        let BufferLayout { offset, row_bytes: pitch } = copy.layout;
        let first = offset + u64::from(piece.y) * pitch + piece.x_bytes;
        let range = BufferRange::new(copy.buffer, first, (piece.rows - 1) * pitch + piece.row_bytes);
        let usage = if copy.into_texture { BufferUsage::COPY_SRC } else { BufferUsage::COPY_DST };
        let in_buffer = self.buffer_access(range, Some(usage), !copy.into_texture)?;
        let buffer_rows = Rows { first: Address::of(&in_buffer), pitch };
        let pages = self.resources.get(&copy.texture.0)?.pages.as_ref()?;
        let Some((memory, base)) = pages.get(piece.page as usize).copied().flatten() else {
            if !copy.into_texture {
                let value = if self.profile.sparse == Some(UnboundReads::Zero) { 0 } else { self.poison };
                steps.extend((0..piece.rows).map(|row| {
                    let Address { memory, offset } = buffer_rows.first;
                    let dst = Address { memory, offset: offset + row * pitch };
                    Step::Fill { dst, size: piece.row_bytes, value }
                }));
                uses.push(in_buffer);
            }
            return Some(());
        };
        let space_label = self.memories.get(&memory)?.label.clone();
        let start = base + piece.offset;
        let range = start..start + (piece.rows - 1) * piece.pitch + piece.row_bytes;
        let texels = Access { space: memory, range, writes: copy.into_texture, label: label.clone(), space_label };
        let texel_rows = Rows { first: Address::of(&texels), pitch: piece.pitch };
        let (src, dst) = if copy.into_texture { (buffer_rows, texel_rows) } else { (texel_rows, buffer_rows) };
        steps.push(Step::Copy { src, dst, row_bytes: piece.row_bytes, rows: piece.rows });
        uses.extend([in_buffer, texels]);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_hal::{Format, ResourceClass};

    fn of(format: Format, width: u32, height: u32, mips: u32) -> (TextureDesc, TextureTiling) {
        let desc = TextureDesc { width, height, mips, format, ..Default::default() };
        (desc, tiling(64 << 10, &desc, (1, ResourceClass::Texture)))
    }

    #[test]
    fn tiles_have_the_standard_shapes() {
        assert_eq!(of(Format::Rgba8Unorm, 512, 512, 1).1.tile, [128, 128]);
        assert_eq!(of(Format::Rgba16Float, 512, 512, 1).1.tile, [128, 64]);
    }

    /// Each texel has its own bytes in its page and in a row of the copied region. This also holds if a page does not
    /// contain a whole number of texels (of 12 bytes).
    #[test]
    fn pieces_cover_each_texel_once() {
        for (format, width, height, mips, tail) in [
            (Format::Rgba8Unorm, 300, 200, 9, (1, 2)),
            (Format::Rgb32Float, 63, 90, 3, (0, 2)),
            (Format::Rgb32Float, 200, 190, 5, (2, 1)),
        ] {
            let (desc, tiling) = of(format, width, height, mips);
            assert_eq!((tiling.tail_first_mip, tiling.tail_pages), tail);
            let (texel, mut seen) = (format.texel_bytes(), std::collections::HashSet::new());
            for mip in 0..desc.mips {
                let region = TextureRegion::whole(&desc, mip, 0);
                let mut copied = std::collections::HashSet::new();
                for Piece { page, offset, pitch, x_bytes, y, row_bytes, rows } in pieces(&tiling, &desc, &region) {
                    for row in 0..rows {
                        let first = offset + row * pitch;
                        assert!(first + row_bytes <= tiling.page_bytes);
                        (first..first + row_bytes).for_each(|at| assert!(seen.insert((page, at))));
                        (x_bytes..x_bytes + row_bytes).for_each(|at| assert!(copied.insert((u64::from(y) + row, at))));
                    }
                }
                let row_bytes = u64::from(region.width) * texel;
                assert!(copied.iter().all(|(y, at)| *y < region.height.into() && *at < row_bytes));
                assert_eq!(copied.len() as u64, row_bytes * u64::from(region.height));
            }
        }
    }
}
