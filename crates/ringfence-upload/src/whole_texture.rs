//! Uploads of all mip levels and layers of a texture.
//!
//! ```text
//!   MipByMip       │ mip 0: layer 0, layer 1, … │ mip 1: layer 0, layer 1, … │       as in KTX 1
//!   LayerByLayer   │ layer 0: mip 0, mip 1, … │ layer 1: mip 0, mip 1, … │           as in DDS
//! ```

use smallvec::SmallVec;

use crate::device::TextureAspect;
use crate::device::record::TextureParts;

/// Order of the subresources in the bytes of a whole texture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum ChainOrder {
    /// Each mip level with all its layers, the largest level first, as in KTX 1 without its size fields. A KTX 2 file
    /// has the smallest level first: `ringfence_contents::TextureData` puts its levels into this order.
    #[default]
    MipByMip,
    /// Each layer with all its mip levels, the largest level first, as in DDS.
    LayerByLayer,
}

/// Consecutive layers of a mip level in one aspect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) mip: u32,
    pub(super) layer: u32,
    pub(super) layers: u32,
    pub(super) aspect: TextureAspect,
}

impl Run {
    /// Returns the size of the texels, in bytes.
    pub(super) fn bytes(&self, parts: &TextureParts) -> u64 {
        parts.layer_bytes(self.mip, self.aspect) * u64::from(self.layers)
    }
}

/// Returns the runs of a texture in the order of its bytes. Depth and stencil of a layer follow each other.
pub(super) fn runs(parts: &TextureParts, order: ChainOrder) -> Vec<Run> {
    let aspects: SmallVec<[_; 2]> = parts.format.each_aspect().collect();
    let at_once = if aspects.len() == 1 { parts.layers } else { 1 };
    let places: Vec<[u32; 3]> = match order {
        ChainOrder::MipByMip => {
            let layers = || (0..parts.layers).step_by(at_once.max(1) as usize);
            (0..parts.mips).flat_map(|mip| layers().map(move |layer| [mip, layer, at_once])).collect()
        }
        ChainOrder::LayerByLayer => {
            (0..parts.layers).flat_map(|layer| (0..parts.mips).map(move |mip| [mip, layer, 1])).collect()
        }
    };
    let run = |[mip, layer, layers]: [u32; 3], aspect| Run { mip, layer, layers, aspect };
    places.into_iter().flat_map(|place| aspects.iter().map(move |aspect| run(place, *aspect))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Format, Kind, TextureDesc, Textures};

    #[test]
    fn runs_follow_each_other_as_in_the_files() {
        let parts = |format, layers| {
            let desc = TextureDesc { width: 6, height: 5, mips: 2, layers, format, ..Default::default() };
            Textures::parts(&desc).expect("a texture")
        };
        let of = |parts: &TextureParts, order| -> Vec<_> {
            runs(parts, order).iter().map(|run| (run.mip, run.layer, run.layers, run.bytes(parts))).collect()
        };
        let color = parts(Format::Rgba8Unorm, 2);
        assert_eq!(of(&color, ChainOrder::MipByMip), [(0, 0, 2, 240), (1, 0, 2, 48)]);
        let apart = [(0, 0, 1, 120), (1, 0, 1, 24), (0, 1, 1, 120), (1, 1, 1, 24)];
        assert_eq!(of(&color, ChainOrder::LayerByLayer), apart);
        assert_eq!(of(&parts(Format::Bc1Unorm, 1), ChainOrder::MipByMip), [(0, 0, 1, 32), (1, 0, 1, 8)]);
        let both = parts(Format::D32FloatS8Uint, 2);
        let depth_first = [(0, 0, 1, 120), (0, 0, 1, 30), (0, 1, 1, 120), (0, 1, 1, 30)];
        assert_eq!(of(&both, ChainOrder::MipByMip)[..4], depth_first);
    }

    #[test]
    fn a_run_has_the_bytes_of_its_blocks_slices_and_layers() {
        let of = |format, [width, height, depth]: [u32; 3], layers, mip, aspect| {
            let desc = TextureDesc { width, height, depth, mips: 3, layers: 6, format, ..Default::default() };
            Run { mip, layer: 0, layers, aspect }.bytes(&Textures::parts(&desc).expect("a texture"))
        };
        let color = TextureAspect::Color;
        for (format, extent, layers, mip, aspect, bytes) in [
            (Format::Rgba8Unorm, [6, 5, 1], 1, 0, color, 120),
            (Format::Rgba8Unorm, [6, 5, 1], 3, 0, color, 360),
            (Format::Rgba8Unorm, [6, 5, 1], 1, 1, color, 24),
            (Format::Rgba8Unorm, [6, 5, 4], 1, 0, color, 480),
            (Format::Rgba8Unorm, [6, 5, 4], 1, 1, color, 48),
            (Format::Bc7Unorm, [9, 5, 1], 2, 0, color, 192),
            (Format::Bc7Unorm, [9, 5, 1], 2, 2, color, 32),
            (Format::D16UnormS8Uint, [6, 5, 1], 2, 0, TextureAspect::Depth, 120),
            (Format::D16UnormS8Uint, [6, 5, 1], 2, 0, TextureAspect::Stencil, 60),
            (Format::D16UnormS8Uint, [6, 5, 1], 2, 0, color, 0),
        ] {
            assert_eq!(of(format, extent, layers, mip, aspect), bytes, "{format:?} {extent:?}, mip {mip}");
        }
    }
}
