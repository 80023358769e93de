//! Reserved buffers and textures: `CreateReservedResource`, `GetResourceTiling`, `UpdateTileMappings`.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

use super::backing::{Backing, mark};
use super::device::Device;
use super::info::ResourceInfo;
use super::memory::Memory;
use super::resource::{check, class, clear_value};
use super::{describe, error};
use ringfence_hal::sparse::{PageBind, Sparse, TextureTiling, TilePlace, UnboundReads};
use ringfence_hal::{Buffers, DeviceError, Numbers, Requirements, ResourceClass, Textures};

const TILE_BYTES: u64 = D3D12_TILED_RESOURCE_TILE_SIZE_IN_BYTES as u64;

// SAFETY: reserved resources and their mappings are objects of the driver.
unsafe impl Sparse for Device {
    type BindQueue = ID3D12CommandQueue;

    fn sparse_support(&self) -> Option<UnboundReads> {
        match self.tiled_tier() {
            D3D12_TILED_RESOURCES_TIER_NOT_SUPPORTED => None,
            D3D12_TILED_RESOURCES_TIER_1 => Some(UnboundReads::Undefined),
            _ => Some(UnboundReads::Zero),
        }
    }

    unsafe fn make_sparse(&self, info: &ResourceInfo) -> Result<(ID3D12Resource, Requirements), DeviceError> {
        if self.sparse_support().is_none() {
            return Err(DeviceError::unsupported("tiled resources"));
        }
        check_zeroed(info)?;
        DeviceError::invalid("a buffer must have at least one byte").at_least(info.desc.Width, 1)?;
        check::<Buffers>(&info.desc)?;
        let longest = u64::MAX / TILE_BYTES * TILE_BYTES;
        DeviceError::invalid("a buffer as large as this").at_most(info.desc.Width, longest)?;
        let size = info.desc.Width.next_multiple_of(TILE_BYTES);
        let desc = D3D12_RESOURCE_DESC { Width: size, Alignment: 0, ..info.desc };
        let mut object: Option<ID3D12Resource> = None;
        let state = describe::initial_state(info);
        // SAFETY: the pointers point to values that live through the call.
        let made = unsafe { self.raw().CreateReservedResource(&desc, state, None, &mut object) };
        let object =
            error::made(made, object, error::call!("ID3D12Device::CreateReservedResource", "a reserved buffer"))?;
        mark(&object, Backing::Reserved)?;
        let default = self.memory_type(D3D12_HEAP_TYPE_DEFAULT).map_or(0, |memory_type| 1 << memory_type);
        let needs = Requirements {
            size,
            alignment: TILE_BYTES,
            memory_type_bits: default,
            class: ResourceClass::Buffer,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        Ok((object, needs))
    }

    unsafe fn bind_pages(
        &self,
        queue: &ID3D12CommandQueue,
        (buffer, _): (&ID3D12Resource, u64),
        binds: &[PageBind<'_, Memory>],
        waits: &[(ID3D12Fence, u64)],
        signal: (ID3D12Fence, u64),
    ) -> Result<(), DeviceError> {
        let maps = binds.iter().map(|bind| Map {
            first: D3D12_TILED_RESOURCE_COORDINATE { X: bind.first as u32, ..Default::default() },
            tiles: bind.count as u32,
            memory: bind.memory,
        });
        // SAFETY: the caller promises that all objects are alive, and that the page runs are inside the resource and
        // their memory inside the heaps.
        unsafe { map_all(queue, buffer, &maps.collect::<Vec<_>>(), waits, signal) }
    }

    fn sparse_texture_support(&self) -> Option<UnboundReads> {
        self.sparse_support()
    }

    unsafe fn make_sparse_texture(&self, info: &ResourceInfo) -> Result<(ID3D12Resource, TextureTiling), DeviceError> {
        if self.sparse_support().is_none() {
            return Err(DeviceError::unsupported("tiled resources"));
        }
        let desc =
            D3D12_RESOURCE_DESC { Alignment: 0, Layout: D3D12_TEXTURE_LAYOUT_64KB_UNDEFINED_SWIZZLE, ..info.desc };
        let (dimension, flat) = (desc.Dimension.0 as u32, D3D12_RESOURCE_DIMENSION_TEXTURE2D.0 as u32);
        DeviceError::unsupported("sparse textures of another dimension than D3D12_RESOURCE_DIMENSION_TEXTURE2D")
            .exactly(dimension.into(), flat.into())?;
        DeviceError::unsupported("sparse textures of several samples").exactly(desc.SampleDesc.Count.into(), 1)?;
        check::<Textures>(&desc)?;
        if describe::plane_count(desc.Format) > 1 {
            return Err(DeviceError::unsupported("sparse textures of depth with stencil"));
        }
        check_zeroed(info)?;
        check_packed_layers(&desc, self.tiled_tier())?;
        let clear = clear_value(info);
        let clear = clear.as_ref().map(std::ptr::from_ref);
        let mut object: Option<ID3D12Resource> = None;
        let state = describe::initial_state(info);
        // SAFETY: the pointers point to values that live through the call.
        let made = unsafe { self.raw().CreateReservedResource(&desc, state, clear, &mut object) };
        let object =
            error::made(made, object, error::call!("ID3D12Device::CreateReservedResource", "a reserved texture"))?;
        mark(&object, Backing::Reserved)?;
        let tiling = self.tiling(&object, &desc)?;
        Ok((object, tiling))
    }

    unsafe fn bind_tiles(
        &self,
        queue: &ID3D12CommandQueue,
        (texture, tiling): (&ID3D12Resource, &TextureTiling),
        binds: &[PageBind<'_, Memory, TilePlace>],
        waits: &[(ID3D12Fence, u64)],
        signal: (ID3D12Fence, u64),
    ) -> Result<(), DeviceError> {
        let maps = binds.iter().map(|bind| Map {
            first: first_tile(tiling, bind.first),
            tiles: bind.count as u32,
            memory: bind.memory,
        });
        // SAFETY: the caller promises that all objects are alive, and that the page runs are inside the resource and
        // their memory inside the heaps.
        unsafe { map_all(queue, texture, &maps.collect::<Vec<_>>(), waits, signal) }
    }
}

/// Returns an error if zeroed memory is requested: a sparse resource has no memory that could be zeroed when it is
/// created.
fn check_zeroed(info: &ResourceInfo) -> Result<(), DeviceError> {
    if info.zeroed { Err(DeviceError::unsupported("pages that the system fills with zeros")) } else { Ok(()) }
}

/// Returns the width and height of a format's standard tile, in texels. Returns `None` for unknown formats.
fn tile(format: DXGI_FORMAT) -> Option<[u32; 2]> {
    let format = describe::texel_format(format)?;
    let bytes = format.block_bytes(format.first_aspect())?;
    let blocks = (TILE_BYTES as u32 / bytes.next_power_of_two()).ilog2();
    let [across, down] = format.block();
    Some([across << blocks.div_ceil(2), down << (blocks / 2)])
}

/// Below tiled resources tier 4, refuses arrays with mip levels that are smaller than a tile: the driver packs such
/// levels, and arrays must not have packed levels.
fn check_packed_layers(desc: &D3D12_RESOURCE_DESC, tier: D3D12_TILED_RESOURCES_TIER) -> Result<(), DeviceError> {
    let (Some(parts), Some([across, down])) = (describe::parts(desc), tile(desc.Format)) else { return Ok(()) };
    let [width, height, _] = parts.extent(parts.mips.saturating_sub(1));
    if parts.layers == 1 || tier.0 >= D3D12_TILED_RESOURCES_TIER_4.0 || (width >= across && height >= down) {
        return Ok(());
    }
    let tier = Numbers::AtLeast { given: tier.0 as u32 as u64, min: D3D12_TILED_RESOURCES_TIER_4.0 as u32 as u64 };
    Err(DeviceError::unsupported("sparse arrays with mip levels smaller than a tile below tiled resources tier 4")
        .with(tier))
}

impl Device {
    fn tiled_tier(&self) -> D3D12_TILED_RESOURCES_TIER {
        let mut options = D3D12_FEATURE_DATA_D3D12_OPTIONS::default();
        let size = size_of_val(&options) as u32;
        let asked =
            // SAFETY: the pointer and the size belong to a local of the structure for this query.
            unsafe { self.raw().CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS, (&raw mut options).cast(), size) };
        if asked.is_ok() { options.TiledResourcesTier } else { D3D12_TILED_RESOURCES_TIER_NOT_SUPPORTED }
    }

    /// Returns the driver's division of a texture into tiles.
    fn tiling(&self, texture: &ID3D12Resource, desc: &D3D12_RESOURCE_DESC) -> Result<TextureTiling, DeviceError> {
        let (mut packed, mut shape) = (D3D12_PACKED_MIP_INFO::default(), D3D12_TILE_SHAPE::default());
        let (mut total, mut count) = (0, 0);
        let mut first = D3D12_SUBRESOURCE_TILING::default();
        // SAFETY: the resource is reserved and alive. The pointers point to locals that live through the call. The
        // count of requested subresource tilings is 0.
        unsafe {
            self.raw().GetResourceTiling(
                texture,
                Some(&mut total),
                Some(&mut packed),
                Some(&mut shape),
                Some(&mut count),
                0,
                &mut first,
            );
        }
        let parts = describe::parts(desc)
            .ok_or(DeviceError::invalid("a texture as wide as this").with(Numbers::Given(desc.Width)))?;
        // If all mip levels are packed, the driver reports no tile shape.
        if packed.NumPackedMips == 0 && (shape.WidthInTexels == 0 || shape.HeightInTexels == 0) {
            let format = Numbers::Given(desc.Format.0 as u32 as u64);
            return Err(DeviceError::unsupported("sparse textures of this format").with(format));
        }
        let default = self.memory_type(D3D12_HEAP_TYPE_DEFAULT).map_or(0, |memory_type| 1 << memory_type);
        let standard_mips = u32::from(packed.NumStandardMips);
        Ok(TextureTiling {
            page_bytes: TILE_BYTES,
            memory_type_bits: default,
            class: class(desc),
            aspects: parts.aspects,
            size: [parts.width, parts.height],
            tile: [shape.WidthInTexels, shape.HeightInTexels].map(|texels| texels.max(1)),
            layers: parts.layers,
            mips: parts.mips,
            tail_first_mip: if packed.NumPackedMips > 0 { standard_mips } else { parts.mips },
            tail_pages: packed.NumTilesForPackedMips.into(),
            is_tail_shared: false,
            tail_offset: 0,
            tail_stride: 0,
        })
    }
}

/// Returns the coordinate of a tile in its subresource. The tiles of a tail are numbered in the first mip level of the
/// tail.
fn first_tile(tiling: &TextureTiling, place: TilePlace) -> D3D12_TILED_RESOURCE_COORDINATE {
    match place {
        TilePlace::Tile { mip, layer, column, row } => {
            D3D12_TILED_RESOURCE_COORDINATE { X: column, Y: row, Z: 0, Subresource: mip + layer * tiling.mips }
        }
        TilePlace::Tail { layer, page } => {
            let subresource = tiling.tail_first_mip + layer * tiling.mips;
            D3D12_TILED_RESOURCE_COORDINATE { X: page as u32, Y: 0, Z: 0, Subresource: subresource }
        }
    }
}

/// A run of tiles, and the memory to which it is mapped. `None` unmaps the run.
struct Map<'a> {
    first: D3D12_TILED_RESOURCE_COORDINATE,
    tiles: u32,
    memory: Option<(&'a Memory, u64)>,
}

/// Makes a queue wait for `waits`, map the runs of tiles, and signal `signal`.
///
/// # Safety
/// The rules of [`Sparse::bind_pages`].
unsafe fn map_all(
    queue: &ID3D12CommandQueue,
    resource: &ID3D12Resource,
    maps: &[Map<'_>],
    waits: &[(ID3D12Fence, u64)],
    signal: (ID3D12Fence, u64),
) -> Result<(), DeviceError> {
    let is_heap = |map: &Map<'_>| map.memory.is_none_or(|(memory, _)| memory.heap().is_some());
    if !maps.iter().all(is_heap) {
        return Err(DeviceError::invalid("the memory belongs to a committed resource, not to a heap"));
    }
    let failed = error::failed(error::call!("ID3D12CommandQueue::Wait or Signal", "a queue or a fence"));
    for (fence, value) in waits {
        // SAFETY: the caller promises that queue and fence are alive.
        unsafe { queue.Wait(fence, *value) }.map_err(&failed)?;
    }
    for one in maps {
        // SAFETY: the caller promises that the run is inside the resource and its memory inside the heap.
        unsafe { map(queue, resource, one) };
    }
    // SAFETY: the caller promises that queue and fence are alive.
    unsafe { queue.Signal(&signal.0, signal.1) }.map_err(failed)
}

/// Maps one run of tiles.
///
/// # Safety
/// The rules of [`Sparse::bind_pages`].
unsafe fn map(queue: &ID3D12CommandQueue, resource: &ID3D12Resource, map: &Map<'_>) {
    // Without a box, the tiles of a region follow one another in their row. A run ends at the latest at the end of its
    // row.
    let region = D3D12_TILE_REGION_SIZE { NumTiles: map.tiles, ..Default::default() };
    let heap = map.memory.and_then(|(memory, _)| memory.heap());
    let flags = if heap.is_some() { D3D12_TILE_RANGE_FLAG_NONE } else { D3D12_TILE_RANGE_FLAG_NULL };
    let offset = map.memory.map_or(0, |(_, offset)| (offset / TILE_BYTES) as u32);
    // SAFETY: there is one region and one range, with equal numbers of tiles. The pointers point to locals that live
    // through the call.
    unsafe {
        queue.UpdateTileMappings(
            resource,
            1,
            Some(&map.first),
            Some(&region),
            heap,
            1,
            Some(&flags),
            Some(&offset),
            Some(&map.tiles),
            D3D12_TILE_MAPPING_FLAG_NONE,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows::Win32::Graphics::Dxgi::Common::*;

    /// Tiles of 64 KiB have the standard shapes of the API.
    #[test]
    fn tiles_have_the_standard_shapes() {
        for (format, expected) in [
            (DXGI_FORMAT_R8_UNORM, [256, 256]),
            (DXGI_FORMAT_R16_FLOAT, [256, 128]),
            (DXGI_FORMAT_R8G8B8A8_UNORM, [128, 128]),
            (DXGI_FORMAT_R16G16B16A16_FLOAT, [128, 64]),
            (DXGI_FORMAT_R32G32B32A32_FLOAT, [64, 64]),
            (DXGI_FORMAT_BC1_UNORM, [512, 256]),
            (DXGI_FORMAT_BC7_UNORM, [256, 256]),
        ] {
            assert_eq!(tile(format), Some(expected), "{format:?}");
        }
    }

    #[test]
    fn arrays_with_packed_mips_are_refused_by_name_below_tier_4() {
        let desc = |layers, mips| D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
            Width: 512,
            Height: 512,
            DepthOrArraySize: layers,
            MipLevels: mips,
            Format: DXGI_FORMAT_R8G8B8A8_UNORM,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            ..Default::default()
        };
        let [low, high] = [D3D12_TILED_RESOURCES_TIER_3, D3D12_TILED_RESOURCES_TIER_4];
        // Mip levels of 512, 256 and 128 texels have whole tiles; a mip level of 64 texels is smaller than a tile.
        for (layers, mips, tier, is_refused) in
            [(1, 10, low, false), (2, 3, low, false), (2, 4, low, true), (2, 0, low, true), (2, 4, high, false)]
        {
            let checked = check_packed_layers(&desc(layers, mips), tier);
            assert_eq!(checked.is_err(), is_refused, "{layers} layers, {mips} mips, {tier:?}");
            assert!(matches!(checked, Ok(()) | Err(DeviceError::Unsupported(_))));
        }
    }
}
