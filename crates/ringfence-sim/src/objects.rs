//! Memory objects, resources and descriptor heaps as the simulated device keeps them.

use super::contents::Contents;
use super::ids::Label;
use super::order::Access;
use super::store::{DeviceView, HostView};
use ringfence_hal::descriptors::HeapKind;
use ringfence_hal::{BufferDesc, Mapped, Priority, Requirements, ResourceClass, TextureAspect, TextureDesc};
use std::collections::BTreeMap;
use std::ops::Range;

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
    /// `Some` iff the memory type is host-visible.
    pub(super) host: Option<HostView>,
    pub(super) device: DeviceView,
    /// Resources by first byte and number.
    pub(super) placed: BTreeMap<(u64, u64), Placement>,
    /// Length of the longest resource that ever lay here.
    pub(super) longest: u64,
    /// Where resources may share bytes.
    pub(super) shared: Vec<Range<u64>>,
    /// What such bytes hold.
    pub(super) contents: Contents,
    /// Memory objects and handles that it lives for.
    pub(super) owners: u64,
    /// Whether handles can be made of it.
    pub(super) is_shareable: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) end: u64,
    pub(super) class: ResourceClass,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Buffer(BufferDesc),
    Texture(TextureDesc),
}

/// A memory and an offset into it.
pub(super) type Location = (u64, u64);

#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) label: Label,
    pub(super) shape: Shape,
    pub(super) requirements: Requirements,
    /// Memory and offset, once placed.
    pub(super) location: Option<Location>,
    /// Of a sparse buffer: where each page lies that has memory. Such a buffer has no location.
    pub(super) pages: Option<Box<[Option<Location>]>>,
    pub(super) owner: Owner,
    /// Of a render target or depth buffer on a strict device: what may be used in other ways than to be initialised.
    pub(super) initialized: Vec<Part>,
}

/// The queue family that owns a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Owner {
    #[default]
    Unowned,
    Family(u32),
    /// Released, and not acquired yet.
    Underway {
        from: u32,
        to: u32,
    },
}

#[derive(Debug)]
pub(super) struct DescriptorSlots {
    pub(super) label: Label,
    /// What it was made as; `None` if by hand, and then it takes everything.
    pub(super) made: Option<(HeapKind, bool)>,
    /// The bytes that each slot shows.
    pub(super) slots: Vec<Option<Access>>,
}

impl MemoryObject {
    /// Resources that overlap the range.
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
