//! The contents of a paged resource in host memory.
//!
//! ```text
//!   buffer:   [ bytes ]
//!   texture:  [ mip 0: layer 0 │ layer 1 │ … ][ mip 1: … ] …      rows and levels aligned for copies
//!
//!   Current ── the device writes the resource ──▶ Stale ── copy recorded ──▶ Arriving ── its frame passed ──▶ Current
//! ```

use ringfence_commands::BufferTexels;
use ringfence_core::sync::SyncPoint;
use ringfence_hal::record::TextureParts;
use ringfence_hal::{Capabilities, Device, MemoryProperties, common_alignment};
use ringfence_memory::Buffer;
use smallvec::SmallVec;

/// Location of a mip level in the host copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level {
    pub(crate) texels: BufferTexels,
    /// Rows of blocks of a layer, in all depth slices.
    rows: u64,
    /// Bytes of a row without padding.
    tight_row: u64,
    layers: u64,
}

impl Level {
    /// Returns the bytes of the level without padding.
    pub(crate) const fn tight_bytes(&self) -> u64 {
        self.tight_row * self.rows * self.layers
    }
}

/// The layout of a host copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The mip levels, the finest first; empty for a buffer.
    pub(crate) levels: SmallVec<[Level; 16]>,
    /// Size of the host copy, in bytes.
    pub(crate) bytes: u64,
    /// Size of the contents without padding, in bytes.
    pub(crate) tight_bytes: u64,
}

impl Layout {
    pub(crate) fn buffer(size: u64) -> Self {
        Self { levels: SmallVec::new(), bytes: size, tight_bytes: size }
    }

    pub(crate) fn texture(capabilities: &Capabilities, parts: &TextureParts) -> Self {
        let aspect = parts.format.first_aspect();
        let block_bytes = u64::from(parts.format.block_bytes(aspect).unwrap_or(1));
        let [across, down] = parts.format.block();
        let row_alignment = common_alignment(capabilities.copy_row_alignment(aspect), block_bytes);
        let alignment = common_alignment(capabilities.texture_copy_offset_alignment, block_bytes);
        let (mut bytes, mut tight_bytes) = (0_u64, 0);
        let levels = (0..parts.mips).map(|mip| {
            let [width, height, depth] = parts.extent(mip);
            let tight_row = u64::from(width.div_ceil(across)) * block_bytes;
            let rows = u64::from(height.div_ceil(down)) * u64::from(depth);
            let row_bytes = tight_row.next_multiple_of(row_alignment);
            let layer_bytes = (row_bytes * rows).next_multiple_of(alignment);
            let texels = BufferTexels { offset: bytes.next_multiple_of(alignment), row_bytes, layer_bytes };
            let level = Level { texels, rows, tight_row, layers: u64::from(parts.layers) };
            bytes = texels.offset + layer_bytes * level.layers;
            tight_bytes += level.tight_bytes();
            level
        });
        let levels = levels.collect();
        Self { levels, bytes, tight_bytes }
    }

    /// Returns the contents with the padding of the layout. If the layout has no padding, copies nothing.
    pub(crate) fn padded<'a>(&self, contents: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if self.bytes == self.tight_bytes {
            return contents.into();
        }
        let (mut padded, mut from) = (vec![0; self.bytes as usize], 0);
        for level in &self.levels {
            let row = level.tight_row as usize;
            for layer in 0..level.layers {
                for index in 0..level.rows {
                    let to = level.texels.offset + layer * level.texels.layer_bytes + index * level.texels.row_bytes;
                    padded[to as usize..][..row].copy_from_slice(&contents[from..from + row]);
                    from += row;
                }
            }
        }
        padded.into()
    }
}

/// The state of a host copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostState {
    /// The host copy has the contents of the resource.
    Current,
    /// The host copy has the contents once the point has passed.
    Arriving(SyncPoint),
    /// The host copy is older than the contents on the device, or does not exist.
    Stale,
}

/// The contents of a resource in host memory.
pub(crate) struct HostCopy<D: Device> {
    /// `None` before the first copy to the host if the resource was added without contents. On Direct3D 12, also `None`
    /// once the contents are on the device, because their memory is evicted instead.
    pub(crate) buffer: Option<Buffer<D>>,
    pub(crate) state: HostState,
    /// `true` if the device can write the buffer. The buffer with the first contents is in upload memory, which the
    /// device only reads.
    pub(crate) is_writable: bool,
}

/// Returns the memory types that are not device-local, one bit each. Returns 0 if all types are device-local.
pub(crate) fn host_types(capabilities: &Capabilities) -> u32 {
    let types = (0..).zip(&capabilities.memory_types);
    let on_host = types.filter(|(_, held)| !held.properties.contains(MemoryProperties::DEVICE_LOCAL));
    on_host.fold(0, |bits, (index, _)| bits | 1_u32 << index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_hal::{Format, Kind, TextureDesc, Textures};
    use ringfence_sim::Profile;

    #[test]
    fn rows_and_levels_have_the_alignments_of_copies_and_the_bytes_their_order() {
        for profile in Profile::all() {
            let desc = TextureDesc {
                width: 20,
                height: 12,
                layers: 2,
                mips: 3,
                format: Format::Bc1Unorm,
                ..Default::default()
            };
            let parts = Textures::parts(&desc).expect("a texture");
            let capabilities = &profile.capabilities;
            let layout = Layout::texture(capabilities, &parts);
            // 5 × 3, 3 × 2 and 2 × 1 blocks of 8 bytes, in two layers.
            assert_eq!(layout.tight_bytes, (15 + 6 + 2) * 8 * 2);
            let contents: Vec<u8> = (0..layout.tight_bytes).map(|index| index as u8).collect();
            let padded = layout.padded(&contents);
            assert_eq!(padded.len() as u64, layout.bytes);
            let mut read = Vec::new();
            for level in &layout.levels {
                let BufferTexels { offset, row_bytes, layer_bytes } = level.texels;
                assert_eq!(offset % capabilities.texture_copy_offset_alignment, 0);
                assert_eq!(row_bytes % capabilities.texture_copy_row_alignment, 0);
                for layer in 0..2 {
                    for row in 0..level.rows {
                        let at = (offset + layer * layer_bytes + row * row_bytes) as usize;
                        read.extend_from_slice(&padded[at..at + level.tight_row as usize]);
                    }
                }
            }
            assert_eq!(read, contents, "{}", profile.name);
        }
    }
}
