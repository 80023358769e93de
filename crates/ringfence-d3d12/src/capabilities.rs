//! The capabilities of a Direct3D 12 device. They are queried once, when the device is wrapped.
//! ```text
//!   heap type     local memory (0)   shared memory (1; 0 with unified memory)
//!   DEFAULT       device-local
//!   UPLOAD                           host-visible, coherent (written once, read by the device)
//!   READBACK                         host-visible, coherent, cached
//!   GPU_UPLOAD    device-local, host-visible, coherent
//! ```

use std::ffi::c_void;

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_D32_FLOAT_S8X24_UINT, DXGI_SAMPLE_DESC};
use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_ADAPTER_DESC, DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_MEMORY_SEGMENT_GROUP_NON_LOCAL,
    DXGI_QUERY_VIDEO_MEMORY_INFO, IDXGIAdapter, IDXGIAdapter3, IDXGIFactory4,
};

use super::error;
use ringfence_hal::{
    Capabilities, DeviceError, HeapBudget, HeapBudgets, MemoryHeap, MemoryPriority, MemoryProperties, MemoryType,
};

/// The optional features and limits of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// `true` if buffers, textures and render targets may share a heap (heap tier 2).
    pub mixed_heaps: bool,
    /// `true` if device and host share one memory (UMA).
    pub unified_memory: bool,
    /// `true` if the runtime can create memory without zeroing it. Only resources with
    /// [`ResourceInfo::zeroed`](super::ResourceInfo::zeroed) are then zeroed.
    pub not_zeroed: bool,
    /// `true` if the device has device-local heaps that the host can map (GPU_UPLOAD).
    pub gpu_upload_heaps: bool,
    /// `true` if the device supports tight alignment. Resources are then aligned only as much as the device and the
    /// views of buffers need.
    pub tight_alignment: bool,
    /// `true` if multisampled render targets may be aligned to 64 KiB instead of 4 MiB.
    pub small_msaa: bool,
    /// Number of address bits inside one resource or heap.
    pub resource_address_bits: u32,
    /// Resource binding tier, 1 to 3.
    pub resource_binding_tier: u32,
    /// Maximum number of slots of a shader-visible heap of views.
    pub view_slots_max: u32,
    /// Maximum number of slots of a shader-visible heap of samplers. If it exceeds 2,048, a root signature that is used
    /// with a heap of more than 2,048 slots must not have static samplers
    /// (`D3D12_FEATURE_DATA_D3D12_OPTIONS19::MaxSamplerDescriptorHeapSizeWithStaticSamplers`).
    pub sampler_slots_max: u32,
}

/// Feature numbers from the SDK. Some supported versions of the `windows` crate lack these constants.
const TIGHT_ALIGNMENT: D3D12_FEATURE = D3D12_FEATURE(54);
const OPTIONS19: D3D12_FEATURE = D3D12_FEATURE(48);

/// `D3D12_FEATURE_DATA_D3D12_OPTIONS19` as ten words. The constants below are the indices of the two words that are
/// read.
type Options19 = [u32; 10];
const MAX_SAMPLER_DESCRIPTOR_HEAP_SIZE: usize = 6;
const MAX_VIEW_DESCRIPTOR_HEAP_SIZE: usize = 8;

/// Returns the maximum number of slots of a shader-visible heap of views, and of a shader-visible heap of samplers. If
/// the device reports no numbers, returns those that its tier guarantees.
///
/// Tier 3 guarantees no exact number of views ("1,000,000+"). The result is then `i32::MAX`, and the driver refuses
/// heaps that do not fit into its memory.
fn heap_limits(tier: u32, said: Option<Options19>) -> (u32, u32) {
    let views = if tier >= 3 { i32::MAX as u32 } else { D3D12_MAX_SHADER_VISIBLE_DESCRIPTOR_HEAP_SIZE_TIER_1 };
    let samplers = D3D12_MAX_SHADER_VISIBLE_SAMPLER_HEAP_SIZE;
    // If the runtime has not queried its driver, the words are 0.
    let said = |at: usize, otherwise: u32| said.map(|words| words[at]).filter(|most| *most > 0).unwrap_or(otherwise);
    (said(MAX_VIEW_DESCRIPTOR_HEAP_SIZE, views), said(MAX_SAMPLER_DESCRIPTOR_HEAP_SIZE, samplers))
}

impl Features {
    pub(super) fn query(device: &ID3D12Device) -> Result<Self, DeviceError> {
        let mut options = D3D12_FEATURE_DATA_D3D12_OPTIONS::default();
        query_feature(device, D3D12_FEATURE_D3D12_OPTIONS, &mut options)
            .map_err(error::failed(error::call!("ID3D12Device::CheckFeatureSupport", "a query of the heap tier")))?;
        let address = queried::<D3D12_FEATURE_DATA_GPU_VIRTUAL_ADDRESS_SUPPORT>(
            device,
            D3D12_FEATURE_GPU_VIRTUAL_ADDRESS_SUPPORT,
        );
        let architecture = queried::<D3D12_FEATURE_DATA_ARCHITECTURE>(device, D3D12_FEATURE_ARCHITECTURE);
        let options4 = queried::<D3D12_FEATURE_DATA_D3D12_OPTIONS4>(device, D3D12_FEATURE_D3D12_OPTIONS4);
        let options16 = queried::<D3D12_FEATURE_DATA_D3D12_OPTIONS16>(device, D3D12_FEATURE_D3D12_OPTIONS16);
        let resource_binding_tier = u32::try_from(options.ResourceBindingTier.0).unwrap_or(0).max(1);
        let (view_slots_max, sampler_slots_max) = heap_limits(resource_binding_tier, queried(device, OPTIONS19));
        Ok(Self {
            mixed_heaps: options.ResourceHeapTier.0 >= D3D12_RESOURCE_HEAP_TIER_2.0,
            unified_memory: architecture.is_some_and(|held| held.UMA.as_bool()),
            // The flag and this query were introduced with the same runtime: if the query succeeds, the runtime knows
            // the flag.
            not_zeroed: queried::<D3D12_FEATURE_DATA_D3D12_OPTIONS7>(device, D3D12_FEATURE_D3D12_OPTIONS7).is_some(),
            gpu_upload_heaps: options16.is_some_and(|held| held.GPUUploadHeapSupported.as_bool()),
            tight_alignment: queried::<i32>(device, TIGHT_ALIGNMENT).is_some_and(|tier| tier >= 1),
            small_msaa: options4.is_some_and(|held| held.MSAA64KBAlignedTextureSupported.as_bool()),
            resource_address_bits: address.map_or(31, |held| held.MaxGPUVirtualAddressBitsPerResource),
            resource_binding_tier,
            view_slots_max,
            sampler_slots_max,
        })
    }
}

/// Queries a feature of the device. `data` must be the structure for `feature`.
fn query_feature<T>(device: &ID3D12Device, feature: D3D12_FEATURE, data: &mut T) -> windows::core::Result<()> {
    let pointer = std::ptr::from_mut(data).cast::<c_void>();
    // SAFETY: the pointer and the size belong to `data`. If the driver expects another size, it returns an error.
    unsafe { device.CheckFeatureSupport(feature, pointer, size_of::<T>() as u32) }
}

/// Returns the device's answer to the query of a feature. Returns `None` if the runtime does not know the feature.
fn queried<T: Default>(device: &ID3D12Device, feature: D3D12_FEATURE) -> Option<T> {
    let mut data = T::default();
    query_feature(device, feature, &mut data).ok().map(|()| data)
}

/// Returns the adapter of the device, by its LUID. Returns `None` if no adapter is found.
pub(super) fn find_adapter(device: &ID3D12Device) -> Option<IDXGIAdapter> {
    // SAFETY: the objects are alive, and the LUID is the device's.
    unsafe { CreateDXGIFactory1::<IDXGIFactory4>().ok()?.EnumAdapterByLuid(device.GetAdapterLuid()).ok() }
}

/// Returns the capabilities of the device, and the heap type of each memory type.
pub(super) fn query(
    device: &ID3D12Device,
    adapter: Option<&IDXGIAdapter>,
    features: Features,
) -> (Capabilities, Vec<D3D12_HEAP_TYPE>) {
    // SAFETY: a call without arguments on a live object.
    let adapter = adapter.and_then(|adapter| unsafe { adapter.GetDesc() }.ok());
    let (heap_types, memory_types) = memory_types(features);
    let capabilities = Capabilities {
        name: adapter.as_ref().map_or_else(|| "Direct3D 12".to_owned(), adapter_name),
        memory_heaps: memory_heaps(adapter.as_ref(), features),
        memory_types,
        class_groups: if features.mixed_heaps { [0, 0, 0] } else { [0, 1, 2] },
        target_memory_alignment: u64::from(D3D12_DEFAULT_MSAA_RESOURCE_PLACEMENT_ALIGNMENT),
        class_granularity_bytes: 1,
        non_coherent_atom_bytes: 1,
        notice_host_writes: false,
        memory_objects_max: u64::MAX,
        memory_object_bytes_max: 1_u64.checked_shl(features.resource_address_bits).unwrap_or(u64::MAX),
        texture_copy_offset_alignment: D3D12_TEXTURE_DATA_PLACEMENT_ALIGNMENT.into(),
        texture_copy_row_alignment: D3D12_TEXTURE_DATA_PITCH_ALIGNMENT.into(),
        depth_stencil_copy_row_alignment: planar_pitch(device),
        partial_depth_copies: false,
        constant_alignment: D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT.into(),
        storage_alignment: D3D12_RAW_UAV_SRV_BYTE_ALIGNMENT.into(),
        texel_alignment: D3D12_RAW_UAV_SRV_BYTE_ALIGNMENT.into(),
        residency: true,
        memory_priority: MemoryPriority::None,
    };
    (capabilities, heap_types)
}

/// Returns the row pitch that the driver uses for formats with depth and stencil, in bytes: 256 or 512. The
/// documentation says 256 for every format, but some drivers align rows of these formats to 512 bytes.
fn planar_pitch(device: &ID3D12Device) -> u64 {
    let desc = D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Width: 1,
        Height: 1,
        DepthOrArraySize: 1,
        MipLevels: 1,
        Format: DXGI_FORMAT_D32_FLOAT_S8X24_UINT,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Flags: D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL,
        ..Default::default()
    };
    let mut layout = D3D12_PLACED_SUBRESOURCE_FOOTPRINT::default();
    // SAFETY: the description and the layout live through the call.
    unsafe { device.GetCopyableFootprints(&desc, 0, 1, 0, Some(&mut layout), None, None, None) };
    let pitch = layout.Footprint.RowPitch;
    // If the device lacks the format, all fields are all ones.
    let known = pitch.is_power_of_two() && pitch <= D3D12_TEXTURE_DATA_PLACEMENT_ALIGNMENT;
    u64::from(if known {
        pitch.max(D3D12_TEXTURE_DATA_PITCH_ALIGNMENT)
    } else {
        D3D12_TEXTURE_DATA_PLACEMENT_ALIGNMENT
    })
}

fn adapter_name(desc: &DXGI_ADAPTER_DESC) -> String {
    let length = desc.Description.iter().position(|unit| *unit == 0).unwrap_or(desc.Description.len());
    String::from_utf16_lossy(&desc.Description[..length])
}

/// Returns the memory heaps. Without an adapter, their sizes are unknown. They are then reported as `u64::MAX`, so that
/// no request is refused as too large.
fn memory_heaps(adapter: Option<&DXGI_ADAPTER_DESC>, features: Features) -> Vec<MemoryHeap> {
    let size = |bytes: usize| if bytes == 0 { u64::MAX } else { bytes as u64 };
    let local = adapter.map_or(0, |desc| desc.DedicatedVideoMemory);
    let shared = adapter.map_or(0, |desc| desc.SharedSystemMemory);
    if features.unified_memory {
        return vec![MemoryHeap { bytes: size(local.saturating_add(shared)), device_local: true }];
    }
    vec![MemoryHeap { bytes: size(local), device_local: true }, MemoryHeap { bytes: size(shared), device_local: false }]
}

fn memory_types(features: Features) -> (Vec<D3D12_HEAP_TYPE>, Vec<MemoryType>) {
    let mapped = MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT;
    let shared = u32::from(!features.unified_memory);
    let mut types = vec![
        (D3D12_HEAP_TYPE_DEFAULT, 0, MemoryProperties::DEVICE_LOCAL),
        (D3D12_HEAP_TYPE_UPLOAD, shared, mapped),
        (D3D12_HEAP_TYPE_READBACK, shared, mapped | MemoryProperties::HOST_CACHED),
    ];
    if features.gpu_upload_heaps {
        types.push((D3D12_HEAP_TYPE_GPU_UPLOAD, 0, mapped | MemoryProperties::DEVICE_LOCAL));
    }
    types.into_iter().map(|(heap_type, heap, properties)| (heap_type, MemoryType { heap, properties })).unzip()
}

/// Returns the usage and budget of the first `heap_count` segment groups of node 0. Returns `None` if a query fails.
pub(super) fn budgets(adapter: &IDXGIAdapter3, heap_count: usize) -> Option<HeapBudgets> {
    let groups = [DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_MEMORY_SEGMENT_GROUP_NON_LOCAL];
    let budget = |group| {
        let mut info = DXGI_QUERY_VIDEO_MEMORY_INFO::default();
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { adapter.QueryVideoMemoryInfo(0, group, &mut info) }.ok()?;
        Some(HeapBudget { usage_bytes: info.CurrentUsage, budget_bytes: info.Budget })
    };
    groups.into_iter().take(heap_count).map(budget).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_are_as_large_as_the_device_says_or_its_tier() {
        for (tier, views) in [(1, 1_000_000), (2, 1_000_000), (3, i32::MAX as u32)] {
            assert_eq!(heap_limits(tier, None), (views, 2048));
            assert_eq!(heap_limits(tier, Some([0; 10])), (views, 2048), "zeros count as no answer");
            let said = [1, 31, 1, 1, 1, 1, 4080, 2048, 1_500_000, 0];
            assert_eq!(heap_limits(tier, Some(said)), (1_500_000, 4080));
        }
    }
}
