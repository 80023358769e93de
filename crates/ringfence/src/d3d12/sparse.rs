//! Reserved buffers: `CreateReservedResource`, `UpdateTileMappings`.

use windows::Win32::Graphics::Direct3D12::*;

use super::resource::{ResourceInfo, Shape};
use super::{Device, Memory, error};
use crate::device::sparse::{PageBind, Sparse, SparseNeeds, SparseSupport, UnboundReads};
use crate::device::{Buffers, DeviceError};

const TILE_BYTES: u64 = D3D12_TILED_RESOURCE_TILE_SIZE_IN_BYTES as u64;

// SAFETY: a reserved resource is the driver's own, and so is what is mapped to it.
unsafe impl Sparse for Device {
    type BindQueue = ID3D12CommandQueue;

    fn sparse_support(&self) -> Option<SparseSupport> {
        let mut options = D3D12_FEATURE_DATA_D3D12_OPTIONS::default();
        let size = size_of_val(&options) as u32;
        // SAFETY: the pointer is to a local of the structure that the question fills, with its size.
        let asked =
            unsafe { self.raw().CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS, (&raw mut options).cast(), size) };
        let tier = if asked.is_ok() { options.TiledResourcesTier } else { D3D12_TILED_RESOURCES_TIER_NOT_SUPPORTED };
        match tier {
            D3D12_TILED_RESOURCES_TIER_NOT_SUPPORTED => None,
            D3D12_TILED_RESOURCES_TIER_1 => Some(SparseSupport { unbound_reads: UnboundReads::Undefined }),
            _ => Some(SparseSupport { unbound_reads: UnboundReads::Zero }),
        }
    }

    unsafe fn make_sparse(&self, info: &ResourceInfo) -> Result<(ID3D12Resource, SparseNeeds), DeviceError> {
        if self.sparse_support().is_none() {
            return Err(DeviceError::Unsupported("tiled resources"));
        }
        if !Buffers::is_shape_of(&info.desc) {
            return Err(DeviceError::InvalidInfo("the dimension is another kind's"));
        }
        let size = info.desc.Width.checked_next_multiple_of(TILE_BYTES).filter(|size| *size != 0);
        let size = size.ok_or(DeviceError::InvalidInfo("a size of 0"))?;
        let desc = D3D12_RESOURCE_DESC { Width: size, Alignment: 0, ..info.desc };
        let mut object: Option<ID3D12Resource> = None;
        // SAFETY: the pointers are to values that live through the call.
        let made = unsafe { self.raw().CreateReservedResource(&desc, info.initial_state, None, &mut object) };
        let object = error::made(made, object, "a reserved buffer")?;
        let default = self.memory_type(D3D12_HEAP_TYPE_DEFAULT).map_or(0, |memory_type| 1 << memory_type);
        Ok((object, SparseNeeds { size, page_bytes: TILE_BYTES, memory_type_bits: default }))
    }

    unsafe fn bind_pages(
        &self,
        queue: &ID3D12CommandQueue,
        buffer: &ID3D12Resource,
        binds: &[PageBind<'_, Memory>],
        waits: &[(ID3D12Fence, u64)],
        signal: (ID3D12Fence, u64),
    ) -> Result<(), DeviceError> {
        for bind in binds {
            let is_heap = bind.memory.is_none_or(|(memory, _)| memory.heap().is_some());
            if !is_heap {
                return Err(DeviceError::InvalidInfo("the memory is a committed resource's own"));
            }
        }
        let failed = |failed: windows::core::Error| error::from_driver(&failed, "a queue or a fence");
        for (fence, value) in waits {
            // SAFETY: the caller promises that queue and fence are alive.
            unsafe { queue.Wait(fence, *value) }.map_err(failed)?;
        }
        for bind in binds {
            // SAFETY: the caller promises that the run lies inside the buffer and its memory inside the heap.
            unsafe { map(queue, buffer, bind) };
        }
        // SAFETY: as above.
        unsafe { queue.Signal(&signal.0, signal.1) }.map_err(failed)
    }
}

/// Maps one run of tiles.
///
/// # Safety
/// As [`Sparse::bind_pages`].
unsafe fn map(queue: &ID3D12CommandQueue, buffer: &ID3D12Resource, bind: &PageBind<'_, Memory>) {
    let tiles = (bind.size / TILE_BYTES) as u32;
    let first = D3D12_TILED_RESOURCE_COORDINATE { X: (bind.offset / TILE_BYTES) as u32, ..Default::default() };
    let region = D3D12_TILE_REGION_SIZE { NumTiles: tiles, ..Default::default() };
    let heap = bind.memory.and_then(|(memory, _)| memory.heap());
    let flags = if heap.is_some() { D3D12_TILE_RANGE_FLAG_NONE } else { D3D12_TILE_RANGE_FLAG_NULL };
    let offset = bind.memory.map_or(0, |(_, offset)| (offset / TILE_BYTES) as u32);
    // SAFETY: one region and one range of as many tiles; the pointers are to locals that live through the call.
    unsafe {
        queue.UpdateTileMappings(
            buffer,
            1,
            Some(&first),
            Some(&region),
            heap,
            1,
            Some(&flags),
            Some(&offset),
            Some(&tiles),
            D3D12_TILE_MAPPING_FLAG_NONE,
        );
    }
}
