//! Planned frames: the first and last passes of every resource are known up front, so offsets can be planned.
//!
//! ```text
//!   passes, resources ──▶ shape, as words ──▶ a plan with the same words? ── no ──▶ measured, grouped, planned
//!                                                      │ yes                              │
//!                                                      ▼                                  ▼
//!               for each group a heap in which every range is free in time, existing or new
//!                                                      ▼
//!                        each object by description and offset, existing or new
//! ```
//!
//! Resources are in one group if they have the same best memory type and, on devices that separate classes (heap tier
//! 1), the same class. A resource that requires dedicated memory is in no group. The heap of a group has at least the
//! size of the group's layout. If a resource of a new frame needs a range of the heap that a pass of an earlier frame
//! may still use, the new frame gets another heap.
//!
//! If a shape is new, its plan keeps offsets of the previous frame, so that cached objects can be reused. The heap is
//! then no larger than the larger of two heaps: the heap of the previous frame, and the heap of a plan without these
//! offsets. After `TransientAllocator::trim` no objects are cached, so a new shape is planned without previous offsets.
//! Cached plans stay valid after `trim`.
//!
//! For a new shape, the planner also searches the plans of the same height for one with few aliasing barriers. It does
//! not search again for a known shape: a better plan that is found later would create all objects again. Therefore the
//! offsets of a shape never change while its plan is kept. The work of this search is counted in steps, not in time, so
//! the search has the same result in every run of the program.
//!
//! Shapes are compared word by word, not by hash alone, so two different shapes are never confused.
//!
//! | operation | cost |
//! |---|---|
//! | a frame of a known shape | O(words of the shape + heaps · resources · log spans); no driver call and no host allocation if the heaps and objects are cached and free |
//! | a new shape | planning it, and creating the objects that are not cached |

use ringfence_alias::Progress;
use smallvec::SmallVec;

use super::error::TransientError;
use super::frame::{Described, FramePass, FrameResource};
use super::heap::{Heap, Object, ObjectKey, TransientKind};
use super::layout::{self, Piece};
use super::pass::{Clock, Pass};
use super::plans::{Group, OWN_MEMORY, Plan, Planned, hash};
use super::state::{State, Wanted};
use crate::device::{Buffers, Create, Device, Requirements, Textures};
use ringfence_memory::Error;
use ringfence_memory::memory::Location;
use ringfence_memory::trace::{Event, PlannedRange};

impl<D: Device> State<D> {
    /// Lays out a planned frame and acquires its resources. The caller has begun the execution.
    pub(super) fn plan(
        &mut self,
        passes: &[FramePass<'_>],
        resources: &[FrameResource<'_, '_, D>],
        (index, is_reused): (usize, bool),
    ) -> Result<(), TransientError> {
        let groups = &self.plans.kept[index].groups;
        self.figures.planned_bytes = groups.iter().map(|group| group.height).sum();
        self.figures.lower_bound_bytes = groups.iter().map(|group| group.lower_bound).sum();
        self.figures.group_count = groups.len();
        self.figures.is_reused = is_reused;
        self.declare(passes)?;
        self.lay_out(index, resources)
    }

    /// Returns the index of the plan for the frame's shape, and `true` if the plan existed already. If the shape is
    /// new, plans it.
    pub(super) fn plan_index(
        &mut self,
        passes: &[FramePass<'_>],
        resources: &[FrameResource<'_, '_, D>],
        go_on: impl FnMut(&Progress) -> bool,
    ) -> Result<(usize, bool), TransientError> {
        let mut words = std::mem::take(&mut self.plans.words);
        let described = self.describe(passes, resources, &mut words);
        let result = match (described, self.plans.find(&words)) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(index)) => Ok((index, true)),
            (Ok(()), None) => self.make_plan(passes, resources, &words, go_on).map(|index| (index, false)),
        };
        self.plans.words = words;
        let (index, is_reused) = result?;
        let plan = &mut self.plans.kept[index];
        plan.used = self.execution + 1;
        self.plans.last = index;
        Ok((index, is_reused))
    }

    /// Writes the shape of a frame into `words`. Frames with the same words can have the same layout.
    fn describe(
        &mut self,
        passes: &[FramePass<'_>],
        resources: &[FrameResource<'_, '_, D>],
        words: &mut Vec<u64>,
    ) -> Result<(), TransientError> {
        words.clear();
        words.extend([passes.len() as u64, resources.len() as u64]);
        for pass in passes {
            words.extend([u64::from(pass.queue.owner()) << 32 | pass.queue.index() as u64, pass.waits.len() as u64]);
            words.extend(pass.waits.iter().map(|at| *at as u64));
        }
        for resource in resources {
            words.extend([resource.first as u64, resource.last.len() as u64]);
            words.extend(resource.last.iter().map(|at| *at as u64));
            match self.key_of(resource.info) {
                Some(key) => words.extend(key.words()),
                None => {
                    let needs = self.measure_any(resource.info)?.1;
                    words.extend([u64::MAX, needs.size, needs.alignment, u64::from(needs.memory_type_bits)]);
                    words.push(needs.class as u64 | u64::from(needs.requires_dedicated) << 8);
                }
            }
        }
        Ok(())
    }

    fn key_of(&self, info: Described<'_, '_, D>) -> Option<ObjectKey> {
        let device = &self.shared.device;
        match info {
            Described::Buffer(info) => Create::<Buffers>::key(device, info).map(ObjectKey::new::<Buffers>),
            Described::Texture(info) => Create::<Textures>::key(device, info).map(ObjectKey::new::<Textures>),
        }
    }

    /// Measures the resources, groups them and plans their layout. Keeps the plan and returns its index.
    fn make_plan(
        &mut self,
        passes: &[FramePass<'_>],
        resources: &[FrameResource<'_, '_, D>],
        words: &[u64],
        mut go_on: impl FnMut(&Progress) -> bool,
    ) -> Result<usize, TransientError> {
        let mut planned = Vec::with_capacity(resources.len());
        let mut groups: Vec<Group> = Vec::new();
        for resource in resources {
            let (key, needs) = self.measure_any(resource.info)?;
            let group = if needs.requires_dedicated { OWN_MEMORY } else { self.group_of(needs, &mut groups)? };
            planned.push(Planned { key, needs, group, offset: 0, object: u32::MAX });
        }
        for (number, group) in (0..).zip(&mut groups) {
            let members: Vec<usize> = (0..planned.len()).filter(|at| planned[*at].group == number).collect();
            let piece = |&at: &usize| {
                let FrameResource { first, last, .. } = resources[at];
                Piece { size: planned[at].needs.size, alignment: planned[at].needs.alignment, first, last }
            };
            let pieces: Vec<_> = members.iter().map(piece).collect();
            // Without cached objects, for example after `trim`, old offsets would only make the heap larger.
            let has_objects = |heap: &Heap<D>| heap.is_planned && heap.arena == group.arena && heap.object_count > 0;
            let keys = members.iter().map(|at| planned[*at].key);
            let is_cached = self.heaps.iter().flatten().any(has_objects);
            let last = if is_cached { self.plans.last_offsets(group.arena, keys) } else { None };
            let found = layout::plan(passes, &pieces, last, self.desc.transition_steps, &mut go_on)?;
            members.iter().zip(&found.offsets).for_each(|(at, offset)| planned[*at].offset = *offset);
            (group.height, group.lower_bound) = (found.height, found.lower_bound);
        }
        self.trace_plan(passes.len(), resources, &planned, &groups);
        let mut order: Vec<u32> = (0..resources.len() as u32).collect();
        order.sort_by_key(|&at| resources[at as usize].first);
        self.plans.made += 1;
        let id = self.plans.made;
        let plan = Plan { hash: hash(words), words: words.to_vec(), resources: planned, groups, order, id, used: 0 };
        Ok(self.plans.keep(plan))
    }

    /// Records one event for each heap of a plan that is about to be kept.
    fn trace_plan(
        &self,
        pass_count: usize,
        resources: &[FrameResource<'_, '_, D>],
        planned: &[Planned],
        groups: &[Group],
    ) {
        if !self.shared.is_recording() {
            return;
        }
        for (number, group) in (0..).zip(groups) {
            let members = || planned.iter().zip(resources).filter(|(planned, _)| planned.group == number);
            self.shared.record(|| Event::Planned {
                plan: self.plans.made + 1,
                height_bytes: group.height,
                lower_bound_bytes: group.lower_bound,
                pass_count: pass_count as u64,
                resources: members().map(|(planned, resource)| planned_range(planned, resource)).collect(),
            });
        }
    }

    /// Returns the group of a resource, which depends on its best memory type and its class. Adds the group if it is
    /// new.
    fn group_of(&self, needs: Requirements, groups: &mut Vec<Group>) -> Result<u32, TransientError> {
        let bits = needs.memory_type_bits;
        let none = Error::NoMemoryType { location: Location::Device, memory_type_bits: bits };
        let memory_type = self.shared.candidates(Location::Device, bits).next().ok_or(none)?;
        let arena = self.shared.arena_index(memory_type, needs.class);
        if let Some(at) = groups.iter().position(|group| group.arena == arena) {
            let held = &mut groups[at].needs;
            held.alignment = held.alignment.max(needs.alignment);
            return Ok(at as u32);
        }
        groups.push(Group { arena, height: 0, lower_bound: 0, needs });
        Ok(groups.len() as u32 - 1)
    }

    /// Adds the passes to the execution.
    fn declare(&mut self, passes: &[FramePass<'_>]) -> Result<(), TransientError> {
        self.plans.passes.clear();
        for pass in passes {
            let mut waits: SmallVec<[Pass; 8]> = pass.waits.iter().map(|at| self.plans.passes[*at]).collect();
            waits.extend_from_slice(pass.waits_before);
            let made = self.order.pass(pass.queue, &waits)?;
            self.plans.passes.push(made);
        }
        Ok(())
    }

    /// Acquires every resource at the plan's offset.
    fn lay_out(&mut self, index: usize, resources: &[FrameResource<'_, '_, D>]) -> Result<(), TransientError> {
        self.plans.placed.clear();
        self.plans.placed.resize(resources.len(), (u32::MAX, 0));
        self.check_lasts(resources)?;
        self.choose_heaps(index, resources)?;
        for at in 0..resources.len() {
            let number = self.plans.kept[index].order[at] as usize;
            let planned = self.plans.kept[index].resources[number];
            let resource = &resources[number];
            let pass = self.plans.passes[resource.first];
            let object = match resource.info {
                Described::Buffer(info) => self.place_planned::<Buffers>(info, &planned, resource, pass),
                Described::Texture(info) => self.place_planned::<Textures>(info, &planned, resource, pass),
            }?;
            let mut users = Clock::of(pass);
            resource.last.iter().for_each(|last| users.join(&Clock::of(self.plans.passes[*last])));
            // The bytes are freed at once: the layout separates resources that are alive at the same time, and the
            // order of passes separates the others.
            self.occupy(object, pass, Some(users));
            self.plans.kept[index].resources[number].object = object;
            self.acquires = self.acquires.wrapping_add(1);
            self.plans.placed[number] = (object, self.acquires);
        }
        let id = self.plans.kept[index].id;
        for group in 0..self.plans.heaps.len() {
            let heap = self.plans.heaps[group];
            self.heap(heap).last_plan = Some(id);
        }
        Ok(())
    }

    fn check_lasts(&self, resources: &[FrameResource<'_, '_, D>]) -> Result<(), TransientError> {
        for resource in resources {
            let first = self.plans.passes[resource.first];
            for last in resource.last.iter().map(|at| self.plans.passes[*at]) {
                if !self.order.ends_after(last, first) {
                    return Err(TransientError::NotAfter { first, last });
                }
            }
        }
        Ok(())
    }

    /// Chooses a heap for each group: one in which every resource's bytes are free when its first pass begins,
    /// preferably one that this plan was the last to lay out.
    fn choose_heaps(&mut self, index: usize, resources: &[FrameResource<'_, '_, D>]) -> Result<(), TransientError> {
        let mut chosen = std::mem::take(&mut self.plans.heaps);
        chosen.clear();
        let mut result = Ok(());
        for number in 0..self.plans.kept[index].groups.len() as u32 {
            match self.choose_heap(index, number, resources) {
                Ok(heap) => chosen.push(heap),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.plans.heaps = chosen;
        result
    }

    fn choose_heap(
        &mut self,
        index: usize,
        number: u32,
        resources: &[FrameResource<'_, '_, D>],
    ) -> Result<u32, TransientError> {
        let plan = &self.plans.kept[index];
        let group = plan.groups[number as usize];
        let is_free = |heap: &Heap<D>| {
            heap.arena == group.arena
                && heap.bytes >= group.height
                && heap.alignment >= group.needs.alignment
                && plan.resources.iter().zip(resources).filter(|(planned, _)| planned.group == number).all(
                    |(planned, resource)| {
                        let clock = self.order.begin_of(self.plans.passes[resource.first]);
                        heap.spans.is_free(planned.offset, planned.needs.size, clock)
                    },
                )
        };
        let existing = |wanted: &dyn Fn(&Heap<D>) -> bool| {
            let heaps = (0..).zip(&self.heaps);
            let mut heaps = heaps.filter_map(|(at, heap)| Some((at, heap.as_ref().filter(|heap| heap.is_planned)?)));
            heaps.find(|(_, heap)| wanted(heap)).map(|(at, _)| at)
        };
        let same = |heap: &Heap<D>| heap.last_plan == Some(plan.id) && is_free(heap);
        if let Some(heap) = existing(&same).or_else(|| existing(&is_free)) {
            return Ok(heap);
        }
        if let Some(at) = self.idle_heaps.iter().position(is_free) {
            let heap = self.idle_heaps.remove(at);
            return Ok(self.add_heap(Heap { is_planned: true, ..heap }));
        }
        let heap = self.make_heap(group.arena, group.height, Requirements { size: group.height, ..group.needs })?;
        Ok(self.add_heap(Heap { is_planned: true, ..heap }))
    }

    /// Returns the object of a planned resource. Creates it if there is none.
    fn place_planned<K: TransientKind>(
        &mut self,
        info: &<D as Create<K>>::Info<'_>,
        planned: &Planned,
        resource: &FrameResource<'_, '_, D>,
        pass: Pass,
    ) -> Result<u32, TransientError>
    where
        D: Create<K>,
    {
        let wanted = Wanted { key: planned.key, needs: planned.needs, name: resource.name };
        if planned.group == OWN_MEMORY {
            let clock = *self.order.begin_of(pass);
            return self.find_or_make::<K>(info, wanted, &clock);
        }
        let number = self.plans.heaps[planned.group as usize];
        let last = self.objects.get(planned.object as usize).and_then(Option::as_ref);
        let is_it = |held: &Object<D>| {
            (held.heap, held.offset) == (Some(number), planned.offset) && held.key.is_some() && held.key == planned.key
        };
        if last.is_some_and(is_it) {
            self.figures.hits += 1;
            return Ok(planned.object);
        }
        let heap = self.heap(number);
        match planned.key.and_then(|key| heap.cache.at(&key, planned.offset)) {
            Some(object) => {
                self.figures.hits += 1;
                Ok(object)
            }
            None => self.make_in_heap::<K>(info, wanted, number, planned.offset),
        }
    }
}

/// Returns a planned resource in the format of a trace.
fn planned_range<'a, D: Device>(planned: &Planned, resource: &FrameResource<'a, '_, D>) -> PlannedRange<&'a str> {
    PlannedRange {
        first_pass: resource.first as u64,
        end_pass: resource.last.iter().copied().max().unwrap_or(0).max(resource.first) as u64 + 1,
        offset: planned.offset,
        bytes: planned.needs.size,
        name: resource.name,
    }
}
