//! Memory objects and resources, protected by the device's lock: their locations, and checks of the locations.

use super::contents::Contents;
use super::counts::{CallCounts, Live};
use super::hazard::{Hazard, HazardKind};
use super::ids::{DescriptorHeap, Label, Texture, What};
use super::objects::{DescriptorSlots, MemoryObject, Owner, Placement, Resource, Shape};
use super::options::SimOptions;
use super::order::{Access, Order};
use super::profile::{Costs, Profile};
use super::queue::Queues;
use super::store::{DeviceView, HostView};
use ringfence_hal::{
    DeviceError, HeapBudget, HeapBudgets, Mapped, MemoryDesc, MemoryProperties, Numbers, Requirements, ResourceClass,
    TextureDesc,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of stored hazards. The limit prevents a faulty program from exhausting the host's memory.
const HAZARDS_MAX: usize = 4096;
/// Maximum number of stored labels of destroyed objects. Messages contain these labels.
const DESTROYED_MAX: usize = 1024;
/// Alignment that Direct3D 12 gives a heap by default, in bytes.
const HEAP_ALIGNMENT: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct State {
    pub(super) profile: Arc<Profile>,
    pub(super) poison: u8,
    pub(super) lost: bool,
    pub(super) watches_barriers: bool,
    next_id: u64,
    pub(super) memories: BTreeMap<u64, MemoryObject>,
    /// For each imported memory object, the object that owns its bytes.
    pub(super) imports: HashMap<u64, u64>,
    pub(super) resources: HashMap<u64, Resource>,
    pub(super) descriptor_heaps: HashMap<u64, DescriptorSlots>,
    /// Number of heaps that were bound and not unbound yet.
    pub(super) bound_heaps: u64,
    pub(super) queues: Queues,
    pub(super) order: Order,
    pub(super) hazards: Vec<Hazard>,
    destroyed: VecDeque<Label>,
    pub(super) counts: CallCounts,
    pub(super) heap_used: Vec<u64>,
    /// For each memory heap, the budget that a test has set, in bytes.
    pub(super) heap_budget: Vec<Option<u64>>,
}

impl State {
    pub(super) fn new(profile: Arc<Profile>, options: &SimOptions) -> Self {
        let heaps = profile.capabilities.memory_heaps.len();
        Self {
            profile,
            poison: options.poison,
            lost: false,
            watches_barriers: options.watches_barriers,
            next_id: 1,
            memories: BTreeMap::new(),
            imports: HashMap::new(),
            resources: HashMap::new(),
            descriptor_heaps: HashMap::new(),
            bound_heaps: 0,
            queues: Queues::new(options),
            order: Order::new(options.queues),
            hazards: Vec::new(),
            destroyed: VecDeque::new(),
            counts: CallCounts::default(),
            heap_used: vec![0; heaps],
            heap_budget: vec![None; heaps],
        }
    }

    pub(super) fn draw_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub(super) fn spend(&mut self, ns: u64) {
        self.counts.simulated_ns = self.counts.simulated_ns.saturating_add(ns);
    }

    pub(super) fn report(&mut self, hazard: Hazard) {
        if self.hazards.len() < HAZARDS_MAX {
            self.hazards.push(hazard);
        }
    }

    /// Reports a hazard that makes a command invalid. Returns `None`.
    pub(super) fn refuse<T>(&mut self, kind: HazardKind, label: Label, detail: &'static str) -> Option<T> {
        self.report(Hazard::about(kind, label).detail(detail));
        None
    }

    /// Returns the label of a resource. If the resource is not alive, the label has no name.
    pub(super) fn label_of(&self, what: What, id: u64) -> Label {
        self.resources.get(&id).map_or(Label::unnamed(what, id), |held| held.label.clone())
    }

    pub(super) const fn check_alive(&self) -> Result<(), DeviceError> {
        if self.lost { Err(DeviceError::Lost) } else { Ok(()) }
    }

    /// Stores the label of a destroyed object, for later messages.
    pub(super) fn note_destroyed(&mut self, label: Label) {
        if self.destroyed.len() == DESTROYED_MAX {
            self.destroyed.pop_front();
        }
        self.destroyed.push_back(label);
    }

    /// Reports the use of an object that is destroyed, not placed, or was never created.
    pub(super) fn report_stale(&mut self, what: What, id: u64, detail: &'static str) {
        let label = self.dead_label(what, id);
        self.report(Hazard::about(HazardKind::Stale, label).detail(detail));
    }

    /// Returns the stored label of a destroyed object; a label without a name if none is stored.
    pub(super) fn dead_label(&self, what: What, id: u64) -> Label {
        let known = self.destroyed.iter().rev().find(|label| label.id == id && label.what == what);
        known.cloned().unwrap_or(Label::unnamed(what, id))
    }

    /// For each pending submission, reports its first access that overlaps the range and that `wanted` selects.
    pub(super) fn report_pending(
        &mut self,
        kind: HazardKind,
        space: u64,
        range: &Range<u64>,
        wanted: impl Fn(&Access) -> bool,
    ) {
        for (access, pending) in self.order.pending(space, range, wanted) {
            let common = access.range.start.max(range.start)..access.range.end.min(range.end);
            self.report(Hazard::about(kind, access.label).within(access.space_label, common).pending(pending));
        }
    }

    // ---- memory objects ----

    pub(super) fn allocate(&mut self, desc: &MemoryDesc<'_>) -> Result<u64, DeviceError> {
        self.counts.allocate_memory += 1;
        self.spend(Costs::of(&self.profile.costs.allocate, desc.memory_type, desc.size));
        self.check_heap_size(desc);
        let heap = self.check_allocation(desc)?;
        let properties = self.profile.capabilities.properties(desc.memory_type);
        let host = if properties.contains(MemoryProperties::HOST_VISIBLE) {
            Some(HostView::new(desc.size).ok_or(DeviceError::OutOfHostMemory)?)
        } else {
            None
        };
        let device = DeviceView::new(desc.size, self.poison).ok_or(DeviceError::OutOfHostMemory)?;
        let id = self.draw_id();
        let object = MemoryObject {
            label: Label::named(What::Memory, id, desc.name),
            size: desc.size,
            memory_type: desc.memory_type,
            alignment: desc.alignment,
            class: desc.class,
            is_dedicated: false,
            is_evicted: false,
            priority: desc.priority,
            host,
            device,
            placed: BTreeMap::new(),
            longest: 0,
            // The processes that share memory place their own resources in it, so all of its resources may share bytes.
            shared: desc.share.iter().map(|_| 0..desc.size).collect(),
            contents: Contents::default(),
            owners: 1,
            is_shareable: desc.share.is_some(),
        };
        self.memories.insert(id, object);
        self.heap_used[heap] += desc.size;
        Ok(id)
    }

    /// Reports an allocation larger than its heap, which Vulkan forbids (VUID-vkAllocateMemory-pAllocateInfo-01713).
    fn check_heap_size(&mut self, desc: &MemoryDesc<'_>) {
        let capabilities = &self.profile.capabilities;
        let held = capabilities.memory_types.get(desc.memory_type as usize);
        if held.is_some_and(|held| desc.size > capabilities.memory_heaps[held.heap as usize].bytes) {
            let label = Label::named(What::Memory, 0, desc.name);
            self.report(Hazard::about(HazardKind::Misuse, label).detail("the request is larger than the heap"));
        }
    }

    /// Returns the memory heap for an allocation, or an error if the allocation is invalid or does not fit.
    fn check_allocation(&self, desc: &MemoryDesc<'_>) -> Result<usize, DeviceError> {
        self.check_alive()?;
        let capabilities = &self.profile.capabilities;
        let held = capabilities.memory_types.get(desc.memory_type as usize);
        let (given, max) = (desc.memory_type.into(), capabilities.memory_types.len() as u64 - 1);
        let none = DeviceError::invalid("no such memory type").with(Numbers::AtMost { given, max });
        let heap = held.ok_or(none)?.heap as usize;
        DeviceError::invalid("memory must have at least one byte").at_least(desc.size, 1)?;
        if self.memories.len() as u64 >= capabilities.memory_objects_max {
            return Err(DeviceError::TooManyObjects);
        }
        let free = capabilities.memory_heaps[heap].bytes.saturating_sub(self.heap_used[heap]);
        if desc.size > free.min(capabilities.memory_object_bytes_max) {
            let near = capabilities.memory_heaps[heap].device_local;
            return Err(if near { DeviceError::OutOfDeviceMemory } else { DeviceError::OutOfHostMemory });
        }
        Ok(heap)
    }

    pub(super) fn free(&mut self, id: u64) {
        self.counts.free_memory += 1;
        let id = self.imports.remove(&id).unwrap_or(id);
        if let Some(object) = self.memories.get_mut(&id).filter(|object| object.owners > 1) {
            object.owners -= 1;
            return;
        }
        let Some(object) = self.memories.remove(&id) else {
            return self.report_stale(What::Memory, id, "freed twice or never allocated");
        };
        self.spend(Costs::of(&self.profile.costs.free, object.memory_type, object.size));
        let heap = self.profile.capabilities.memory_types[object.memory_type as usize].heap as usize;
        if !object.is_evicted {
            self.heap_used[heap] -= object.size;
        }
        self.report_pending(HazardKind::FreedWhilePending, id, &(0..object.size), |_| true);
        for (&(start, resource), placement) in &object.placed {
            let hazard = Hazard::about(HazardKind::FreedUnderResource, object.label.clone());
            let hazard = hazard.within(object.label.clone(), start..placement.end);
            self.report(match self.resources.get(&resource) {
                Some(held) => hazard.other(held.label.clone()),
                None => hazard,
            });
        }
        self.note_destroyed(object.label);
    }

    pub(super) fn budgets(&self) -> HeapBudgets {
        let heaps = &self.profile.capabilities.memory_heaps;
        let of = |(at, usage): (usize, &u64)| HeapBudget {
            usage_bytes: *usage,
            budget_bytes: self.heap_budget[at].unwrap_or(heaps[at].bytes),
        };
        self.heap_used.iter().enumerate().map(of).collect()
    }

    pub(super) fn set_sharing(&mut self, id: u64, range: Range<u64>, may_share: bool) {
        let Some(object) = self.memories.get_mut(&id).filter(|object| !object.is_shareable) else { return };
        object.shared.retain(|shared| *shared != range);
        if may_share {
            object.shared.push(range);
        }
    }

    // ---- host access ----

    /// Returns the flushed range. If the range is not inside mapped memory, reports a hazard and returns `None`. Also
    /// reports a range of non-coherent memory with a partial atom, except at the end of the memory object, but returns
    /// the range.
    pub(super) fn check_flush(&mut self, id: u64, offset: u64, size: u64) -> Option<Range<u64>> {
        let range = self.check_mapped(id, offset, size)?;
        let object = &self.memories[&id];
        let capabilities = &self.profile.capabilities;
        let atom = capabilities.non_coherent_atom_bytes;
        let is_whole = range.start.is_multiple_of(atom) && (range.end.is_multiple_of(atom) || range.end == object.size);
        if capabilities.is_non_coherent(object.memory_type) && !is_whole {
            let label = object.label.clone();
            let hazard = Hazard::about(HazardKind::Unaligned, label.clone()).within(label, range.clone());
            self.report(hazard.detail("a flush of less than whole atoms"));
        }
        Some(range)
    }

    /// Returns a range of mapped memory. If the range is not inside mapped memory, reports a hazard and returns `None`.
    pub(super) fn check_mapped(&mut self, id: u64, offset: u64, size: u64) -> Option<Range<u64>> {
        let Some(object) = self.memories.get(&id) else {
            self.report_stale(What::Memory, id, "accessed by the host");
            return None;
        };
        let range = offset..offset.saturating_add(size);
        let wrong = if !object.device.holds(offset, size) {
            Hazard::about(HazardKind::OutOfRange, object.label.clone())
        } else if object.host.is_none() {
            Hazard::about(HazardKind::Misuse, object.label.clone()).detail("accessed by the host, but not mapped")
        } else {
            return Some(range);
        };
        let label = object.label.clone();
        self.report(wrong.within(label, range));
        None
    }

    // ---- resources ----

    pub(super) fn prepare(&mut self, shape: Shape, requirements: Requirements) -> u64 {
        let id = self.draw_id();
        let what = match shape {
            Shape::Buffer(_) => What::Buffer,
            Shape::Texture(_) => What::Texture,
        };
        self.spend(self.profile.costs.object_ns + self.profile.costs.requirements_ns);
        let (location, pages, owner) = (None, None, Owner::Unowned);
        let label = Label::unnamed(what, id);
        let resource = Resource { label, shape, requirements, location, pages, owner, initialized: Vec::new() };
        self.resources.insert(id, resource);
        id
    }

    pub(super) fn place(
        &mut self,
        (what, id): (What, u64),
        memory: u64,
        offset: u64,
    ) -> Result<Option<Mapped>, DeviceError> {
        let memory = self.root(memory);
        self.check_alive()?;
        self.counts.place += 1;
        self.spend(self.profile.costs.bind_ns);
        let Some(resource) = self.resources.get(&id).cloned() else {
            self.report_stale(what, id, "placed");
            return Err(DeviceError::invalid("no such resource").with(Numbers::Given(id)));
        };
        if !self.memories.contains_key(&memory) {
            self.report_stale(What::Memory, memory, "used for a placement");
            return Err(DeviceError::invalid("no such memory").with(Numbers::Given(memory)));
        }
        let range = offset..offset.saturating_add(resource.requirements.size);
        let object = &self.memories[&memory];
        if let Some((kind, detail, numbers)) = self.check_location(&resource, object, &range) {
            let hazard = Hazard::about(kind, resource.label).within(object.label.clone(), range).detail(detail);
            self.report(hazard);
            return Err(DeviceError::invalid(detail).with(numbers));
        }
        self.report_conflicts(&resource, memory, &range);
        let object = self.memories.get_mut(&memory).ok_or(DeviceError::invalid("no such memory"))?;
        let placement = Placement { end: range.end, class: resource.requirements.class };
        object.placed.insert((offset, id), placement);
        object.longest = object.longest.max(resource.requirements.size);
        let mapped = object.mapped(offset);
        if let Some(held) = self.resources.get_mut(&id) {
            held.location = Some((memory, offset));
        }
        Ok(mapped)
    }

    /// Returns the first rule that forbids placing a resource, or one of its pages, at this location. Returns `None` if
    /// it is allowed.
    pub(super) fn check_location(
        &self,
        resource: &Resource,
        object: &MemoryObject,
        range: &Range<u64>,
    ) -> Option<(HazardKind, &'static str, Numbers)> {
        let needs = &resource.requirements;
        let groups = &self.profile.capabilities.class_groups;
        let strict = self.profile.strict;
        let (groups, types) = (|class| u64::from(groups[class as usize]), u64::from(needs.memory_type_bits));
        let (unit, least) = (needs.alignment, object.alignment.max(HEAP_ALIGNMENT));
        let group = Numbers::Exactly { given: groups(object.class), wanted: groups(needs.class) };
        let made_with = Numbers::AtLeast { given: least, min: unit };
        let of_type = Numbers::Flags { given: 1 << object.memory_type, allowed: types };
        let (outside, unaligned) = (range.end > object.size, !range.start.is_multiple_of(unit));
        let beyond = Numbers::AtMost { given: range.end, max: object.size };
        let at = Numbers::MultipleOf { given: range.start, unit };
        let other_class = strict && groups(needs.class) != groups(object.class);
        let whole = Numbers::Given(needs.size);
        let own = needs.requires_dedicated && !object.is_dedicated;
        let rules = [
            (resource.location.is_some(), HazardKind::Misuse, "placed twice", Numbers::Given(range.start)),
            (outside, HazardKind::OutOfRange, "placed beyond the end of the memory", beyond),
            (unaligned, HazardKind::Unaligned, "placed at an unaligned offset", at),
            (
                types >> object.memory_type & 1 == 0,
                HazardKind::Misuse,
                "memory of a type that the resource does not allow",
                of_type,
            ),
            (other_class, HazardKind::Misuse, "memory allocated for another resource class", group),
            (strict && unit > least, HazardKind::Unaligned, "memory allocated with too small an alignment", made_with),
            (own, HazardKind::Misuse, "needs dedicated memory", whole),
        ];
        rules.into_iter().find(|rule| rule.0).map(|(_, kind, detail, numbers)| (kind, detail, numbers))
    }

    /// Reports each conflict of a new resource with other resources, and with pending work, in the same memory. In
    /// ranges that resources may share, overlaps and pending work are permitted.
    pub(super) fn report_conflicts(&mut self, resource: &Resource, memory: u64, range: &Range<u64>) {
        let object = &self.memories[&memory];
        let label = |id| self.label_of(What::Buffer, id);
        let hazard = |kind| Hazard::about(kind, resource.label.clone());
        let mut found = Vec::new();
        if !object.may_share(range) {
            for (id, other, _) in object.overlapping(range) {
                let common = other.start.max(range.start)..other.end.min(range.end);
                found.push(hazard(HazardKind::Overlap).other(label(id)).within(object.label.clone(), common));
            }
        }
        let grain = self.profile.capabilities.class_granularity_bytes;
        let wide = range.start - range.start % grain..range.end.next_multiple_of(grain);
        let is_buffer = |class| matches!(class, ResourceClass::Buffer);
        for (id, other, class) in object.overlapping(&wide) {
            let apart = other.end <= range.start || range.end <= other.start;
            if apart && is_buffer(class) != is_buffer(resource.requirements.class) {
                found.push(hazard(HazardKind::TooClose).other(label(id)).within(object.label.clone(), other));
            }
        }
        let is_shared = object.may_share(range);
        found.into_iter().for_each(|hazard| self.report(hazard));
        if !is_shared {
            self.report_pending(HazardKind::PlacedWhilePending, memory, range, |_| true);
        }
    }

    pub(super) fn dedicate(
        &mut self,
        resource: (What, u64),
        desc: &MemoryDesc<'_>,
    ) -> Result<(Option<Mapped>, u64), DeviceError> {
        let memory = self.allocate(desc)?;
        if let Some(object) = self.memories.get_mut(&memory) {
            object.is_dedicated = true;
        }
        match self.place(resource, memory, 0) {
            Ok(mapped) => Ok((mapped, memory)),
            Err(error) => {
                self.free(memory);
                Err(error)
            }
        }
    }

    /// Destroys a resource. `expect_placed` is `true` if the resource must have been placed.
    pub(super) fn destroy(&mut self, (what, id): (What, u64), expect_placed: bool) {
        self.spend(self.profile.costs.object_ns);
        let Some(resource) = self.resources.remove(&id) else {
            return self.report_stale(what, id, "destroyed twice or never created");
        };
        if let Some(pages) = &resource.pages {
            for &page in pages.iter().flatten() {
                self.leave(id, page, resource.requirements.alignment);
            }
        } else if resource.location.is_some() != expect_placed {
            let detail = if expect_placed { "destroyed before it was placed" } else { "discarded after it was placed" };
            self.report(Hazard::about(HazardKind::Misuse, resource.label.clone()).detail(detail));
        }
        if let Some(location) = resource.location {
            self.leave(id, location, resource.requirements.size);
        }
        self.note_destroyed(resource.label);
    }

    /// Gives a recycled resource a new number. Uses of the old number are then reported as stale.
    pub(super) fn recycle(&mut self, (what, id): (What, u64)) -> u64 {
        self.counts.recycle += 1;
        let Some(resource) = self.resources.remove(&id) else {
            self.report_stale(what, id, "recycled, but destroyed or never created");
            return id;
        };
        let new = self.draw_id();
        if let Some(location) = resource.location
            && let Some((object, placement)) = self.leave(id, location, resource.requirements.size)
        {
            object.placed.insert((location.1, new), placement);
        }
        self.note_destroyed(resource.label.clone());
        let label = Label { id: new, ..resource.label.clone() };
        self.resources.insert(new, Resource { label, owner: Owner::Unowned, ..resource });
        new
    }

    pub(super) fn live(&self) -> Live {
        let buffers = self.resources.values().filter(|held| matches!(held.shape, Shape::Buffer(_))).count() as u64;
        let all = self.resources.len() as u64;
        Live {
            memories: self.memories.len() as u64,
            buffers,
            textures: all - buffers,
            descriptor_heaps: self.descriptor_heaps.len() as u64,
            bound_heaps: self.bound_heaps,
        }
    }

    // ---- properties of resources ----

    /// Removes a resource from its memory. Reports pending work that uses the bytes through this resource.
    fn leave(&mut self, id: u64, at: (u64, u64), size: u64) -> Option<(&mut MemoryObject, Placement)> {
        let (memory, offset) = at;
        let range = offset..offset + size;
        self.report_pending(HazardKind::DestroyedWhilePending, memory, &range, |access| access.label.id == id);
        let object = self.memories.get_mut(&memory)?;
        object.contents.forget(id);
        object.placed.remove(&(offset, id)).map(|placement| (object, placement))
    }

    pub(super) fn is_sparse(&self, id: u64) -> bool {
        self.resources.get(&id).is_some_and(|held| held.pages.is_some())
    }

    pub(super) fn texture_desc(&self, texture: Texture) -> Option<TextureDesc> {
        match &self.resources.get(&texture.0)?.shape {
            Shape::Texture(desc) => Some(**desc),
            Shape::Buffer(_) => None,
        }
    }

    /// Returns the number of the memory object that owns the bytes. For imported memory, this is the exported object.
    pub(super) fn root(&self, id: u64) -> u64 {
        self.imports.get(&id).copied().unwrap_or(id)
    }

    /// Returns the current content of a slot.
    pub(super) fn descriptor(&self, heap: DescriptorHeap, slot: u32) -> Option<&Access> {
        self.descriptor_heaps.get(&heap.0)?.slots.get(slot as usize)?.as_ref()
    }

    /// Returns `true` if kernels may use the descriptor heap.
    pub(super) fn is_visible(&self, heap: DescriptorHeap) -> bool {
        let made = self.descriptor_heaps.get(&heap.0).and_then(|held| held.made);
        made.is_none_or(|(_, visible)| visible)
    }
}
