//! Memory objects, resources and descriptor heaps of the simulated device.

use super::contents::Contents;
use super::ids::Label;
use super::order::Access;
use super::store::{DeviceView, HostView};
use ringfence_hal::descriptors::HeapKind;
use ringfence_hal::{BufferDesc, Mapped, Priority, Requirements, ResourceClass, TextureAspect, TextureDesc};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A subresource of a texture: mip level, array layer and aspect.
pub(super) type Part = (u32, u32, TextureAspect);

#[derive(Debug)]
pub(super) struct MemoryObject {
    pub(super) label: Label,
    pub(super) size: u64,
    pub(super) memory_type: u32,
    pub(super) alignment: u64,
    pub(super) class: ResourceClass,
    pub(super) is_dedicated: bool,
    pub(super) is_evicted: bool,
    pub(super) priority: Priority,
    /// `Some` if and only if the memory type is host-visible.
    pub(super) host: Option<HostView>,
    pub(super) device: DeviceView,
    /// Placed resources, sorted by offset and number.
    pub(super) placed: BTreeMap<(u64, u64), Placement>,
    /// Size of the largest resource that was ever placed in this memory, in bytes.
    pub(super) longest: u64,
    /// Ranges in which resources may share bytes.
    pub(super) shared: Vec<Range<u64>>,
    /// Contents of the ranges in `shared`.
    pub(super) contents: Contents,
    /// Number of owners: the memory object itself, its imports and its handles.
    pub(super) owners: u64,
    /// `true` if handles to the memory can be exported.
    pub(super) is_shareable: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) end: u64,
    pub(super) class: ResourceClass,
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    Buffer(BufferDesc),
    /// By reference, so that the entries of the table of resources are small.
    Texture(Arc<TextureDesc>),
}

/// The number of a memory object, and an offset in it, in bytes.
pub(super) type Location = (u64, u64);

#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) label: Label,
    pub(super) shape: Shape,
    pub(super) requirements: Requirements,
    /// Location of a placed resource; `None` for sparse resources and before the placement.
    pub(super) location: Option<Location>,
    /// For sparse resources, the location of each page; `None` for a page that is not bound.
    pub(super) pages: Option<Box<[Option<Location>]>>,
    pub(super) owner: Owner,
    /// On a strict device, the initialised subresources of a render target or depth buffer. The other subresources must
    /// be initialised before they are used.
    pub(super) initialized: Vec<Part>,
}

/// The queue family that owns a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Owner {
    #[default]
    Unowned,
    Family(u32),
    /// The resource is released, and no queue has acquired it.
    Underway {
        from: u32,
        to: u32,
    },
}

#[derive(Debug)]
pub(super) struct DescriptorSlots {
    pub(super) label: Label,
    /// Kind of the heap, and `true` if it is shader-visible. `None` for a heap from
    /// [`Device::create_descriptor_heap`](super::Device), which accepts every view.
    pub(super) made: Option<(HeapKind, bool)>,
    /// For each slot, the bytes that it refers to; `None` if it is empty.
    pub(super) slots: Vec<Option<Access>>,
}

impl MemoryObject {
    /// Returns the resources that overlap the range.
    pub(super) fn overlapping(
        &self,
        range: &Range<u64>,
    ) -> impl Iterator<Item = (u64, Range<u64>, ResourceClass)> + '_ {
        let range = range.clone();
        let first = range.start.saturating_sub(self.longest);
        self.placed
            .range((first, 0)..(range.end, 0))
            .filter(move |(_, placement)| placement.end > range.start)
            .map(|(&(start, id), placement)| (id, start..placement.end, placement.class))
    }

    pub(super) fn may_share(&self, range: &Range<u64>) -> bool {
        self.shared.iter().any(|shared| shared.start <= range.start && range.end <= shared.end)
    }

    pub(super) fn mapped(&self, offset: u64) -> Option<Mapped> {
        self.host.as_ref().and_then(|host| host.at(offset)).map(Mapped::new)
    }
}
