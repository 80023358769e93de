//! Profiles of the devices that can be simulated: memory heaps and types, limits, alignments and costs of calls.
//!
//! All fields are public: a test that needs a small heap or few memory objects changes the field.

use std::time::Duration;

use ringfence_hal::sparse::UnboundReads;
use ringfence_hal::{Capabilities, MemoryHeap, MemoryPriority, MemoryProperties, MemoryType};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const DEVICE: MemoryProperties = MemoryProperties::DEVICE_LOCAL;
const VISIBLE: MemoryProperties = MemoryProperties::HOST_VISIBLE;
const COHERENT: MemoryProperties = VISIBLE.union(MemoryProperties::HOST_COHERENT);
const CACHED: MemoryProperties = MemoryProperties::HOST_CACHED;

/// Properties of a simulated device.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Name for [`Profile::by_name`].
    pub name: &'static str,
    /// Capabilities that the device reports to the library.
    pub capabilities: Capabilities,
    /// `true` if the device has the rules of Direct3D 12:
    ///
    /// - Resource classes, the alignment of memory objects, and the alignments of texture copies are enforced.
    /// - Targets must be initialised before other uses, and only targets can be cleared.
    /// - [`TransferSupport`](ringfence_hal::transfer::TransferSupport) reports no fills, no blits, and no copies
    ///   between formats of different families.
    ///
    /// On other devices, the alignments of texture copies are only recommendations, as on Vulkan.
    pub strict: bool,
    /// `true` if the driver reports budgets (`VK_EXT_memory_budget`, DXGI).
    pub reports_budgets: bool,
    /// Time for which a reported budget may be reused, as on Direct3D 12, where a report takes microseconds.
    pub budgets_hold_for: Duration,
    /// `true` if memory can be exported; `false` if handles can only be imported, as some drivers do for some kinds.
    pub can_export: bool,
    /// Memory types for buffers, one bit each.
    pub buffer_types: u32,
    /// Memory types for textures, one bit each.
    pub texture_types: u32,
    /// Memory types for render targets and depth-stencil targets, one bit each.
    pub target_types: u32,
    /// Alignment of buffers, in bytes. The size of a buffer is rounded up to a multiple of it.
    pub buffer_alignment: u64,
    /// Alignment of textures, in bytes, except for small and multisampled textures. The size of each texture is rounded
    /// up to a multiple of its alignment.
    pub texture_alignment: u64,
    /// Alignment of small textures, in bytes. A texture is small if it has at most `texture_alignment` bytes and one
    /// sample per texel, and is neither a render target nor a depth-stencil target.
    pub small_texture_alignment: u64,
    /// Alignment of multisampled textures, in bytes.
    pub multisampled_alignment: u64,
    /// Alignment of each aspect of each mip level inside its texture, in bytes.
    pub mip_alignment: u64,
    /// Size from which render targets and depth-stencil targets prefer dedicated memory, in bytes.
    pub dedicated_preferred_bytes: u64,
    /// Size from which textures require dedicated memory, in bytes.
    pub dedicated_required_bytes: u64,
    /// Result of reads from unbound pages of sparse resources; `None` if the device has no sparse resources.
    pub sparse: Option<UnboundReads>,
    /// Size of a page of a sparse resource, in bytes.
    pub page_bytes: u64,
    /// Costs of calls.
    pub costs: Costs,
}

impl Profile {
    /// Returns the profile of an NVIDIA H200 under Vulkan (driver 580): two heaps, five types, host-visible
    /// device-local memory.
    #[must_use]
    pub fn h200() -> Self {
        Self {
            name: "h200",
            capabilities: Capabilities {
                name: "simulated NVIDIA H200".into(),
                memory_heaps: heaps(&[(150_754_820_096, true), (101_361_423_360, false)]),
                memory_types: types(&[
                    (1, MemoryProperties::empty()),
                    (0, DEVICE),
                    (1, COHERENT),
                    (1, COHERENT.union(CACHED)),
                    (0, DEVICE.union(COHERENT)),
                ]),
                class_granularity_bytes: KIB,
                memory_priority: MemoryPriority::AtAnyTime,
                memory_object_bytes_max: 4 * GIB - 2 * MIB,
                constant_alignment: 64,
                ..vulkan_like()
            },
            buffer_types: 0b11111,
            texture_types: 0b00011,
            target_types: 0b00011,
            texture_alignment: KIB,
            small_texture_alignment: KIB,
            multisampled_alignment: 128 * KIB,
            costs: Costs::h200(),
            sparse: Some(UnboundReads::Zero),
            ..Self::plain()
        }
    }

    /// Returns the profile of Mesa's software driver (22.3): one heap, one type with all properties, no budgets.
    #[must_use]
    pub fn lavapipe() -> Self {
        Self {
            name: "lavapipe",
            capabilities: Capabilities {
                name: "simulated llvmpipe".into(),
                memory_heaps: heaps(&[(2 * GIB, true)]),
                memory_types: types(&[(0, DEVICE.union(COHERENT).union(CACHED))]),
                class_granularity_bytes: 64,
                memory_object_bytes_max: 2 * GIB,
                texture_copy_offset_alignment: 128,
                texture_copy_row_alignment: 128,
                depth_stencil_copy_row_alignment: 128,
                constant_alignment: 16,
                ..vulkan_like()
            },
            reports_budgets: false,
            buffer_types: 1,
            texture_types: 1,
            target_types: 1,
            buffer_alignment: 64,
            texture_alignment: 64,
            small_texture_alignment: 64,
            multisampled_alignment: 64,
            mip_alignment: 64,
            costs: Costs::software(),
            ..Self::plain()
        }
    }

    /// Returns the profile of a Direct3D 12 card with resource heap tier 1: buffers, textures and targets never share a
    /// heap. It has one default, one upload and one readback type. Device-local memory cannot be mapped.
    #[must_use]
    pub fn d3d12_tier1() -> Self {
        Self {
            name: "d3d12-tier1",
            capabilities: Capabilities {
                name: "simulated Direct3D 12 card of heap tier 1".into(),
                memory_heaps: heaps(&[(8 * GIB, true), (16 * GIB, false)]),
                memory_types: types(&[(0, DEVICE), (1, COHERENT), (1, COHERENT.union(CACHED))]),
                class_groups: [0, 1, 2],
                residency: true,
                memory_priority: MemoryPriority::AtAnyTime,
                target_memory_alignment: 4 * MIB,
                class_granularity_bytes: 1,
                non_coherent_atom_bytes: 1,
                memory_object_bytes_max: 4 * GIB,
                texture_copy_offset_alignment: 512,
                texture_copy_row_alignment: 256,
                depth_stencil_copy_row_alignment: 512,
                partial_depth_copies: false,
                constant_alignment: 256,
                ..vulkan_like()
            },
            strict: true,
            buffer_types: 0b111,
            texture_types: 0b001,
            target_types: 0b001,
            buffer_alignment: 64 * KIB,
            texture_alignment: 64 * KIB,
            small_texture_alignment: 4 * KIB,
            multisampled_alignment: 4 * MIB,
            sparse: Some(UnboundReads::Undefined),
            ..Self::plain()
        }
    }

    /// Returns the profile of a Direct3D 12 card with resource heap tier 2 and recent driver features: one heap for all
    /// classes, GPU-upload heaps, and tight alignment. With tight alignment, buffers are aligned to 8 bytes instead of
    /// 64 KiB, although some of their views need a larger alignment.
    #[must_use]
    pub fn d3d12_modern() -> Self {
        let tier1 = Self::d3d12_tier1();
        Self {
            name: "d3d12-modern",
            capabilities: Capabilities {
                name: "simulated Direct3D 12 card with GPU-upload heaps and tight alignment".into(),
                memory_types: types(&[
                    (0, DEVICE),
                    (1, COHERENT),
                    (1, COHERENT.union(CACHED)),
                    (0, DEVICE.union(COHERENT)),
                ]),
                class_groups: [0, 0, 0],
                ..tier1.capabilities
            },
            buffer_types: 0b1111,
            buffer_alignment: 8,
            texture_alignment: 4 * KIB,
            small_texture_alignment: 256,
            multisampled_alignment: 64 * KIB,
            ..tier1
        }
    }

    /// Returns the profile of a small device without coherent memory. Every host write needs a flush, in atoms of 256
    /// bytes. A buffer and a texture must not share a page of 64 KiB. The device allows few memory objects. One memory
    /// type is lazily allocated, and one is protected.
    #[must_use]
    pub fn non_coherent() -> Self {
        Self {
            name: "non-coherent",
            capabilities: Capabilities {
                name: "simulated device without coherent memory".into(),
                memory_heaps: heaps(&[(2 * GIB, true), (4 * GIB, false)]),
                memory_types: types(&[
                    (0, DEVICE),
                    (1, VISIBLE),
                    (1, VISIBLE.union(CACHED)),
                    (0, DEVICE.union(MemoryProperties::LAZILY_ALLOCATED)),
                    (0, DEVICE.union(MemoryProperties::PROTECTED)),
                ]),
                class_granularity_bytes: 64 * KIB,
                memory_priority: MemoryPriority::AtAllocation,
                non_coherent_atom_bytes: 256,
                memory_objects_max: 64,
                memory_object_bytes_max: GIB,
                texture_copy_offset_alignment: 64,
                texture_copy_row_alignment: 64,
                depth_stencil_copy_row_alignment: 64,
                constant_alignment: 256,
                ..vulkan_like()
            },
            buffer_types: 0b10111,
            texture_types: 0b10001,
            target_types: 0b11001,
            texture_alignment: 4 * KIB,
            small_texture_alignment: 4 * KIB,
            multisampled_alignment: 64 * KIB,
            mip_alignment: 256,
            sparse: Some(UnboundReads::Zero),
            ..Self::plain()
        }
    }

    /// Returns every built-in profile.
    #[must_use]
    pub fn all() -> [Self; 5] {
        [Self::h200(), Self::lavapipe(), Self::d3d12_tier1(), Self::d3d12_modern(), Self::non_coherent()]
    }

    /// Returns the built-in profile with this [`Profile::name`]. Returns `None` if there is none.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|profile| profile.name == name)
    }

    /// Returns the values that most profiles have in common.
    fn plain() -> Self {
        Self {
            name: "plain",
            capabilities: vulkan_like(),
            strict: false,
            reports_budgets: true,
            budgets_hold_for: Duration::ZERO,
            can_export: true,
            buffer_types: 0,
            texture_types: 0,
            target_types: 0,
            buffer_alignment: 256,
            texture_alignment: 256,
            small_texture_alignment: 256,
            multisampled_alignment: 256,
            mip_alignment: 512,
            dedicated_preferred_bytes: 32 * MIB,
            dedicated_required_bytes: u64::MAX,
            sparse: None,
            page_bytes: 64 * KIB,
            costs: Costs::card(),
        }
    }
}

fn vulkan_like() -> Capabilities {
    Capabilities {
        name: String::new(),
        memory_heaps: Vec::new(),
        memory_types: Vec::new(),
        class_groups: [0, 1, 1],
        target_memory_alignment: 1,
        class_granularity_bytes: 1,
        non_coherent_atom_bytes: 64,
        notice_host_writes: true,
        memory_objects_max: u64::from(u32::MAX),
        memory_object_bytes_max: GIB,
        texture_copy_offset_alignment: 1,
        texture_copy_row_alignment: 1,
        depth_stencil_copy_row_alignment: 1,
        partial_depth_copies: true,
        constant_alignment: 64,
        storage_alignment: 16,
        texel_alignment: 16,
        residency: false,
        memory_priority: MemoryPriority::None,
    }
}

fn heaps(heaps: &[(u64, bool)]) -> Vec<MemoryHeap> {
    heaps.iter().map(|&(bytes, device_local)| MemoryHeap { bytes, device_local }).collect()
}

fn types(types: &[(u32, MemoryProperties)]) -> Vec<MemoryType> {
    types.iter().map(|&(heap, properties)| MemoryType { heap, properties }).collect()
}

/// Costs of a driver's calls, in nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// Cost of allocating memory, one curve per memory type. The last curve applies to all further types.
    pub allocate: Vec<CostCurve>,
    /// Cost of freeing memory, one curve per memory type. The last curve applies to all further types.
    pub free: Vec<CostCurve>,
    /// Cost of creating or destroying an object.
    pub object_ns: u64,
    /// Cost of querying the requirements of an object.
    pub requirements_ns: u64,
    /// Cost of binding an object to its memory.
    pub bind_ns: u64,
    /// Cost of reading the value of a fence.
    pub completed_ns: u64,
    /// Cost of a submission.
    pub submit_ns: u64,
    /// Fixed cost of a wait. The simulated time until the end of the wait is added.
    pub wait_ns: u64,
    /// Fixed cost of a flush or a read-back. The time to copy the bytes is added.
    pub flush_ns: u64,
    /// Number of bytes that the host copies per microsecond; 0 if copies cost nothing.
    pub host_bytes_per_us: u64,
}

impl Costs {
    /// Returns the costs of a device like an H200. The costs of allocating and freeing memory were measured (medians of
    /// 20 runs). The others are those of `card`, which were not measured. The cached type was measured for 64 MiB only;
    /// its costs for 64 KiB are those of the coherent type.
    fn h200() -> Self {
        let curve = |points: &[(u64, u64)]| CostCurve(points.iter().map(|&(size, us)| (size, us * 1000)).collect());
        let host = curve(&[(64 * KIB, 421), (64 * MIB, 15_869), (256 * MIB, 61_462)]);
        let host_free = curve(&[(64 * KIB, 634), (64 * MIB, 4_028), (256 * MIB, 12_494)]);
        Self {
            allocate: vec![
                host.clone(),
                curve(&[(64 * KIB, 225), (64 * MIB, 1_153), (256 * MIB, 3_682)]),
                host,
                curve(&[(64 * KIB, 421), (64 * MIB, 7_745)]),
                curve(&[(64 * KIB, 71), (64 * MIB, 864)]),
            ],
            free: vec![
                host_free.clone(),
                curve(&[(64 * KIB, 247), (64 * MIB, 614), (256 * MIB, 2_281)]),
                host_free,
                curve(&[(64 * KIB, 634), (64 * MIB, 2_314)]),
                curve(&[(64 * KIB, 53), (64 * MIB, 521)]),
            ],
            ..Self::card()
        }
    }

    /// Returns plausible costs for a graphics card, which were not measured.
    fn card() -> Self {
        Self {
            allocate: vec![CostCurve(vec![(64 * KIB, 100_000), (64 * MIB, 1_500_000)])],
            free: vec![CostCurve(vec![(64 * KIB, 80_000), (64 * MIB, 600_000)])],
            object_ns: 50,
            requirements_ns: 29,
            bind_ns: 35,
            completed_ns: 8,
            submit_ns: 15_000,
            wait_ns: 20_000,
            flush_ns: 40,
            host_bytes_per_us: 16_000,
        }
    }

    /// Returns plausible costs for a software driver that allocates memory with `mmap`. They were not measured.
    fn software() -> Self {
        Self {
            allocate: vec![CostCurve(vec![(64 * KIB, 4_000), (64 * MIB, 12_000)])],
            free: vec![CostCurve(vec![(64 * KIB, 3_000), (64 * MIB, 900_000)])],
            ..Self::card()
        }
    }

    /// Returns the cost for `size` bytes of a memory type, from its curve.
    pub(super) fn of(curves: &[CostCurve], memory_type: u32, size: u64) -> u64 {
        curves.get(memory_type as usize).or(curves.last()).map_or(0, |curve| curve.at(size))
    }

    /// Returns the time that the host needs to copy `bytes` bytes, in nanoseconds.
    pub(super) const fn host_copy_ns(&self, bytes: u64) -> u64 {
        match bytes.saturating_mul(1000).checked_div(self.host_bytes_per_us) {
            Some(ns) => ns,
            None => 0,
        }
    }
}

/// Cost as a function of size, by points `(bytes, ns)` in ascending order. Between points, the cost is interpolated
/// linearly. Below the first point it is constant. Above the last point, the slope of the last segment continues.
#[derive(Clone, PartialEq, Debug)]
pub struct CostCurve(pub Vec<(u64, u64)>);

impl CostCurve {
    /// Returns the cost for `size` bytes, in nanoseconds.
    #[must_use]
    pub fn at(&self, size: u64) -> u64 {
        let above = self.0.partition_point(|&(bytes, _)| bytes < size);
        let Some(low) = above.min(self.0.len().saturating_sub(1)).checked_sub(1) else {
            return self.0.first().map_or(0, |&(_, ns)| ns);
        };
        let ((size_low, ns_low), (size_high, ns_high)) = (self.0[low], self.0[low + 1]);
        let slope = (ns_high as f64 - ns_low as f64) / (size_high.saturating_sub(size_low).max(1)) as f64;
        (ns_low as f64 + slope * (size as f64 - size_low as f64)).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_curve_passes_through_its_points_and_goes_on() {
        let curve = CostCurve(vec![(100, 10), (200, 20), (400, 80)]);
        for (size, ns) in [(0, 10), (100, 10), (150, 15), (200, 20), (300, 50), (400, 80), (500, 110)] {
            assert_eq!(curve.at(size), ns, "at {size}");
        }
        assert_eq!(CostCurve(vec![(100, 10)]).at(1000), 10);
        assert_eq!(CostCurve(vec![]).at(1000), 0);
    }

    #[test]
    fn profiles_are_consistent() {
        for profile in Profile::all() {
            let capabilities = &profile.capabilities;
            assert_eq!(Profile::by_name(profile.name).as_ref(), Some(&profile));
            assert!(
                capabilities.memory_types.iter().all(|held| (held.heap as usize) < capabilities.memory_heaps.len())
            );
            let known = (1_u32 << capabilities.memory_types.len()) - 1;
            for bits in [profile.buffer_types, profile.texture_types, profile.target_types] {
                assert!(bits != 0 && bits & !known == 0, "{}", profile.name);
            }
        }
    }
}
