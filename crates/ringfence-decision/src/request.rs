//! Requests for memory, as users describe them.

use crate::device::sharing::ShareKind;
use crate::device::{Create, Kind, MemoryProperties, Priority, Requirements};
use crate::error::Error;
use crate::location::Location;

/// Description of the memory of a resource.
///
/// Pass it to `Allocator::create_buffer`, `create_texture` and the other functions that allocate memory. Most requests
/// set the name and the location only. It is a plain value: the allocator copies the name.
///
/// # Examples
///
/// A name, a location and a number of the program's own. `memory` is an `Allocator`.
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// use ringfence::device::{BufferDesc, BufferUsage, Priority};
/// use ringfence::memory::Error;
/// use ringfence::{AllocationDesc, Location};
///
/// let desc = BufferDesc { size: 64 << 10, usage: BufferUsage::VERTEX };
/// let request = AllocationDesc {
///     name: "terrain/tile 7", // reports add up the bytes of "terrain"
///     location: Location::Upload,
///     priority: Priority::High,
///     user_data: 7,
///     ..Default::default()
/// };
/// let mut tile = memory.create_buffer(&desc, request)?;
/// tile.write(0, &[1; 256])?; // upload memory is mapped
/// assert_eq!(tile.user_data(), 7);
/// let snapshot = memory.snapshot();
/// let mut ranges = snapshot.blocks.iter().flat_map(|block| &block.ranges);
/// assert!(ranges.any(|range| range.name == "terrain/tile 7" && range.user_data == 7));
///
/// // Within a frame: fail rather than wait for a driver call that allocates memory.
/// let request = AllocationDesc { never_grow: true, within_budget: true, ..Default::default() };
/// let large = BufferDesc { size: 512 << 20, ..desc };
/// assert!(matches!(memory.create_buffer(&large, request), Err(Error::WouldGrow { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaAllocationCreateInfo", "ALLOCATION_DESC", "AllocationCreateDesc"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationDesc<'a> {
    /// Name for reports and the driver's object; empty for no name. A name costs a host allocation and a short lock.
    pub name: &'a str,
    /// Location of the memory.
    pub location: Location,
    /// Use of dedicated memory.
    pub dedicated: Dedicated,
    /// Properties that the memory type must have, besides those of the location. Lazily allocated, protected and
    /// special memory types are used only if this field or `preferred` names the property.
    pub required: MemoryProperties,
    /// Properties that the memory type should have: the allowed type that lacks the fewest of them is tried first.
    pub preferred: MemoryProperties,
    /// Memory types that may be used: bit n for type n.
    pub memory_types: u32,
    /// `true` if the request fails rather than exceed the budget.
    pub within_budget: bool,
    /// `true` if the request fails rather than allocate memory from the driver, for allocations that must not wait.
    /// Before the request fails, objects that the device is done with and recycled objects are destroyed.
    pub never_grow: bool,
    /// `true` to allocate from the high end of a block (the second stack) in a pool with `Algorithm::Linear`. No effect
    /// elsewhere.
    pub from_the_end: bool,
    /// Kind of the handles by which the resource's memory can be shared (`Resource::export`). Outside of a pool that
    /// shares its blocks, the resource gets dedicated memory.
    pub share: Option<ShareKind>,
    /// `true` if a `Defrag` may move the resource. A movable resource is never placed in a pool of equal slots
    /// ([`AllocatorDesc::small_slots`](crate::AllocatorDesc::small_slots)), so a small movable resource takes a short
    /// lock. No effect on dedicated memory.
    pub movable: bool,
    /// Residency priority of the memory. Used for dedicated memory only: a block of a pool has the priority of the pool
    /// (`PoolDesc::priority`), every other block has [`Priority::Normal`].
    pub priority: Priority,
    /// `true` if the memory may be evicted while no submission uses it: see the module `ringfence::residency`. A block
    /// is evicted only if all resources in it are evictable. An evictable resource is never placed in a pool of equal
    /// slots ([`AllocatorDesc::small_slots`](crate::AllocatorDesc::small_slots)).
    pub evictable: bool,
    /// Minimum alignment in the memory object, in bytes, a power of two; 0 or 1 for no minimum. If the driver requires
    /// a larger alignment, that one is used. Needed if rules of the API require more than the driver reports, for
    /// example for scratch memory of acceleration structures.
    pub alignment: u64,
    /// `true` if the resource may get a recycled driver object, and its object may be recycled afterwards: see
    /// `Allocator::create_buffer`. A view that outlives the resource then accesses the next owner's bytes. With
    /// `false`, the object is new, and is destroyed with the resource.
    pub recycle: bool,
    /// `true` if a buffer may be larger than described, by at most an eighth. Buffers of nearly the same size then get
    /// the same size, and can be recycled for one another. `Resource::desc` returns the actual size. No effect on
    /// textures. `Statistics::rounded_bytes` counts the additional bytes.
    pub may_be_larger: bool,
    /// A value for the caller's use. `Resource::user_data` returns it, and snapshots contain it, also as JSON and in
    /// VMA's format. A value other than 0 costs a short lock.
    pub user_data: u64,
}

impl Default for AllocationDesc<'_> {
    /// Returns a request for device memory of any type, beyond the budget if necessary. Dedicated memory is used as
    /// [`Dedicated::Auto`] describes.
    fn default() -> Self {
        Self {
            name: "",
            location: Location::Device,
            dedicated: Dedicated::Auto,
            required: MemoryProperties::empty(),
            preferred: MemoryProperties::empty(),
            memory_types: u32::MAX,
            within_budget: false,
            never_grow: false,
            from_the_end: false,
            share: None,
            movable: false,
            priority: Priority::Normal,
            evictable: false,
            alignment: 1,
            recycle: true,
            may_be_larger: false,
            user_data: 0,
        }
    }
}

/// Rounds a size up by at most an eighth, so that buffers of nearly the same size get the same size.
#[inline]
#[must_use]
pub fn grained(size: u64) -> u64 {
    let grain = 1 << size.max(8).ilog2().saturating_sub(3);
    size.checked_next_multiple_of(grain).unwrap_or(size)
}

/// Returns the rounded description of an object and the number of added bytes. Returns `None` if `info` is used
/// unchanged.
pub fn rounded<'i, D: Create<K>, K: Kind>(
    desc: &AllocationDesc<'_>,
    device: &D,
    info: &D::Info<'i>,
) -> Option<(D::Info<'i>, u64)> {
    if desc.may_be_larger { device.rounded(info, grained) } else { None }
}

/// Returns the requirements with an alignment of at least that of the description.
///
/// # Errors
/// The description's alignment is above 1 and not a power of two.
#[inline(always)]
pub fn aligned(desc: &AllocationDesc<'_>, needs: Requirements) -> Result<Requirements, Error> {
    let alignment = desc.alignment;
    if alignment > 1 && !alignment.is_power_of_two() {
        return Err(Error::BadAlignment { alignment });
    }
    let alignment = if alignment > 1 { needs.alignment.max(alignment) } else { needs.alignment };
    Ok(Requirements { alignment, ..needs })
}

/// Use of dedicated memory: a memory object for one resource only.
///
/// The default suits most resources: a range of a block costs no driver call for memory, and large resources get memory
/// of their own. A drop of the resource also retires its dedicated memory.
///
/// # Examples
///
/// `memory` is an `Allocator`.
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// use ringfence::device::{TextureDesc, TextureUsage};
/// use ringfence::memory::PlannedWay;
/// use ringfence::{AllocationDesc, Dedicated};
///
/// // A render target of the whole window: dedicated memory has its own residency priority.
/// let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
/// let desc = TextureDesc { width: 1920, height: 1080, usage, ..Default::default() };
/// let scene = memory.create_texture(&desc, AllocationDesc { dedicated: Dedicated::Always, ..Default::default() })?;
/// assert!(scene.is_dedicated());
///
/// // A texture that is streamed in and out: a range of a block needs no driver call for memory.
/// let desc = TextureDesc { width: 1024, height: 1024, ..Default::default() };
/// let request = AllocationDesc { dedicated: Dedicated::Never, ..Default::default() };
/// let rock = memory.create_texture(&desc, request)?;
/// assert!(!rock.is_dedicated());
///
/// // The plan of a request reports the choice of `Dedicated::Auto`.
/// let plan = memory.plan().texture(&desc, AllocationDesc::default())?;
/// assert_ne!(plan.way, PlannedWay::Dedicated);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT", "AllocationScheme"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dedicated {
    /// Dedicated memory if the resource is large, if the driver prefers it, or if no block can be allocated.
    #[default]
    Auto,
    /// Always dedicated memory.
    Always,
    /// No dedicated memory, unless the driver requires it.
    Never,
}
