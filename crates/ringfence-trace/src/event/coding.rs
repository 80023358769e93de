//! How each event is written and read: a code, its numbers, its texts.
//!
//! ```text
//!   │ code │ number │ number │ … │ text │ …      numbers in groups of seven bits, texts behind their length
//! ```

use super::{Event, PlannedRange};
use crate::format::{Parts, code, push_number, push_text};
use crate::snapshot::RingSnapshot;

/// The numbers of [`Event::Ring`].
fn ring_numbers(ring: u64, figures: &RingSnapshot) -> [u64; 10] {
    let RingSnapshot {
        name: _,
        capacity_bytes,
        used_bytes,
        high_water_bytes,
        submission_count,
        wait_count,
        wait_ns,
        written_bytes,
        grow_count,
        shrink_count,
    } = *figures;
    [
        ring,
        capacity_bytes,
        used_bytes,
        high_water_bytes,
        submission_count,
        wait_count,
        wait_ns,
        written_bytes,
        grow_count,
        shrink_count,
    ]
}

fn take_ring(from: &mut Parts<'_>) -> Option<Event> {
    let ring = from.number()?;
    let figures = RingSnapshot {
        name: String::new(),
        capacity_bytes: from.number()?,
        used_bytes: from.number()?,
        high_water_bytes: from.number()?,
        submission_count: from.number()?,
        wait_count: from.number()?,
        wait_ns: from.number()?,
        written_bytes: from.number()?,
        grow_count: from.number()?,
        shrink_count: from.number()?,
    };
    Some(Event::Ring { ring, figures })
}

fn take_planned(from: &mut Parts<'_>) -> Option<Event> {
    let [plan, height_bytes, lower_bound_bytes, pass_count, count] =
        [from.number()?, from.number()?, from.number()?, from.number()?, from.number()?];
    // Room is made as they come: a count that is damaged must not ask for memory.
    let mut resources = Vec::new();
    for _ in 0..count {
        let (first_pass, end_pass) = (from.number()?, from.number()?);
        let (offset, bytes) = (from.number()?, from.number()?);
        resources.push(PlannedRange { first_pass, end_pass, offset, bytes, name: String::new() });
    }
    for resource in &mut resources {
        resource.name = from.text()?.into();
    }
    Some(Event::Planned { plan, height_bytes, lower_bound_bytes, pass_count, resources })
}

impl<Text: AsRef<str>> Event<Text> {
    /// Appends the event's bytes.
    pub(crate) fn push(&self, into: &mut Vec<u8>) {
        let mut put = |code: u8, numbers: &[u64]| {
            into.push(code);
            numbers.iter().for_each(|number| push_number(into, *number));
        };
        match self {
            Self::Device { .. } => put(code::DEVICE, &[]),
            Self::Heap { bytes, device_local } => put(code::HEAP, &[*bytes, u64::from(*device_local)]),
            Self::Type { heap, properties } => put(code::TYPE, &[u64::from(*heap), properties.len() as u64]),
            Self::Time { elapsed_ns } => put(code::TIME, &[*elapsed_ns]),
            Self::FrameBegun { timeline, value } => put(code::FRAME_BEGUN, &[u64::from(*timeline), *value]),
            Self::Submitted { timeline, value } => put(code::SUBMITTED, &[u64::from(*timeline), *value]),
            Self::Completed { timeline, value } => put(code::COMPLETED, &[u64::from(*timeline), *value]),
            Self::Reclaimed { objects, blocks } => put(code::RECLAIMED, &[*objects, *blocks]),
            Self::Budget { heap, usage_bytes, budget_bytes } => {
                put(code::BUDGET, &[u64::from(*heap), *usage_bytes, *budget_bytes]);
            }
            Self::BlockMade { block, memory_type, dedicated, bytes, .. } => {
                put(code::BLOCK_MADE, &[*block, u64::from(*memory_type), u64::from(*dedicated), *bytes]);
            }
            Self::BlockFreed { block } => put(code::BLOCK_FREED, &[*block]),
            Self::Allocated { block, offset, bytes, alignment, .. } => {
                put(code::ALLOCATED, &[*block, *offset, *bytes, u64::from(alignment.trailing_zeros())]);
            }
            Self::Retired { block, offset } => put(code::RETIRED, &[*block, *offset]),
            Self::Freed { block, offset } => put(code::FREED, &[*block, *offset]),
            Self::Moved { from_block, from_offset, to_block, to_offset } => {
                put(code::MOVED, &[*from_block, *from_offset, *to_block, *to_offset]);
            }
            Self::Named { block, offset, .. } => put(code::NAMED, &[*block, *offset]),
            Self::Staged { writes, bytes } => put(code::STAGED, &[*writes, *bytes]),
            Self::RingMade { ring, .. } => put(code::RING_MADE, &[*ring]),
            Self::Ring { ring, figures } => put(code::RING, &ring_numbers(*ring, figures)),
            Self::RingGone { ring } => put(code::RING_GONE, &[*ring]),
            Self::Planned { plan, height_bytes, lower_bound_bytes, pass_count, resources } => {
                let count = resources.len() as u64;
                put(code::PLANNED, &[*plan, *height_bytes, *lower_bound_bytes, *pass_count, count]);
                for held in resources {
                    let numbers = [held.first_pass, held.end_pass, held.offset, held.bytes];
                    numbers.into_iter().for_each(|number| push_number(into, number));
                }
                resources.iter().for_each(|held| push_text(into, held.name.as_ref()));
            }
            Self::TransientMade { object, block, offset, bytes, .. } => {
                put(code::TRANSIENT_MADE, &[*object, *block, *offset, *bytes]);
            }
            Self::TransientReleased { object } => put(code::TRANSIENT_RELEASED, &[*object]),
            Self::DescriptorHeap { heap, owner, kind, shader_visible, capacity, frame_capacity, .. } => {
                let (kind, visible) = (u64::from(*kind), u64::from(*shader_visible));
                put(code::DESCRIPTOR_HEAP, &[*heap, *owner, kind, visible, *capacity, *frame_capacity]);
            }
            Self::DescriptorHeapFreed { heap } => put(code::DESCRIPTOR_HEAP_FREED, &[*heap]),
            Self::DescriptorsAllocated { heap, first, count } => {
                put(code::DESCRIPTORS_ALLOCATED, &[*heap, *first, *count]);
            }
            Self::DescriptorsFreed { heap, first, count } => put(code::DESCRIPTORS_FREED, &[*heap, *first, *count]),
            Self::DescriptorTables { heap, frame_used, made, shared } => {
                put(code::DESCRIPTOR_TABLES, &[*heap, *frame_used, *made, *shared]);
            }
            Self::BindlessInserted { heap, slot } => put(code::BINDLESS_INSERTED, &[*heap, *slot]),
            Self::BindlessRemoved { heap, slot } => put(code::BINDLESS_REMOVED, &[*heap, *slot]),
            Self::End { event_count } => put(code::END, &[*event_count]),
        }
        self.texts().for_each(|text| push_text(into, text));
    }

    /// The texts that follow the numbers.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let (one, many): (Option<&Text>, &[Text]) = match self {
            Self::Device { name }
            | Self::Allocated { name, .. }
            | Self::Named { name, .. }
            | Self::RingMade { name, .. }
            | Self::TransientMade { name, .. }
            | Self::DescriptorHeap { name, .. }
            | Self::BlockMade { class: name, .. } => (Some(name), &[]),
            Self::Type { properties, .. } => (None, properties),
            _ => (None, &[]),
        };
        one.into_iter().chain(many).map(AsRef::as_ref)
    }
}

impl Event {
    /// Takes an event off a payload of a trace of this version; `None` if none begins there.
    pub(crate) fn take(from: &mut Parts<'_>, version: u32) -> Option<Self> {
        let code = from.byte().filter(|code| code::version(*code) <= version)?;
        let index = |number: u64| u32::try_from(number).ok();
        let flag = |number: u64| (number <= 1).then_some(number == 1);
        Some(match code {
            code::DEVICE => Self::Device { name: from.text()?.into() },
            code::HEAP => Self::Heap { bytes: from.number()?, device_local: flag(from.number()?)? },
            code::TYPE => {
                let heap = index(from.number()?)?;
                let count = from.number()?;
                let properties = (0..count).map(|_| from.text().map(str::to_owned)).collect::<Option<_>>()?;
                Self::Type { heap, properties }
            }
            code::TIME => Self::Time { elapsed_ns: from.number()? },
            code::FRAME_BEGUN => Self::FrameBegun { timeline: index(from.number()?)?, value: from.number()? },
            code::SUBMITTED => Self::Submitted { timeline: index(from.number()?)?, value: from.number()? },
            code::COMPLETED => Self::Completed { timeline: index(from.number()?)?, value: from.number()? },
            code::RECLAIMED => Self::Reclaimed { objects: from.number()?, blocks: from.number()? },
            code::BUDGET => {
                Self::Budget { heap: index(from.number()?)?, usage_bytes: from.number()?, budget_bytes: from.number()? }
            }
            code::BLOCK_MADE => Self::BlockMade {
                block: from.number()?,
                memory_type: index(from.number()?)?,
                dedicated: flag(from.number()?)?,
                bytes: from.number()?,
                class: from.text()?.into(),
            },
            code::BLOCK_FREED => Self::BlockFreed { block: from.number()? },
            code::ALLOCATED => Self::Allocated {
                block: from.number()?,
                offset: from.number()?,
                bytes: from.number()?,
                alignment: 1_u64.checked_shl(index(from.number()?)?)?,
                name: from.text()?.into(),
            },
            code::RETIRED => Self::Retired { block: from.number()?, offset: from.number()? },
            code::FREED => Self::Freed { block: from.number()?, offset: from.number()? },
            code::MOVED => Self::Moved {
                from_block: from.number()?,
                from_offset: from.number()?,
                to_block: from.number()?,
                to_offset: from.number()?,
            },
            code::NAMED => Self::Named { block: from.number()?, offset: from.number()?, name: from.text()?.into() },
            code::STAGED => Self::Staged { writes: from.number()?, bytes: from.number()? },
            code::RING_MADE => Self::RingMade { ring: from.number()?, name: from.text()?.into() },
            code::RING => take_ring(from)?,
            code::RING_GONE => Self::RingGone { ring: from.number()? },
            code::PLANNED => take_planned(from)?,
            code::TRANSIENT_MADE => Self::TransientMade {
                object: from.number()?,
                block: from.number()?,
                offset: from.number()?,
                bytes: from.number()?,
                name: from.text()?.into(),
            },
            code::TRANSIENT_RELEASED => Self::TransientReleased { object: from.number()? },
            code::DESCRIPTOR_HEAP => Self::DescriptorHeap {
                heap: from.number()?,
                owner: from.number()?,
                kind: index(from.number()?)?,
                shader_visible: flag(from.number()?)?,
                capacity: from.number()?,
                frame_capacity: from.number()?,
                name: from.text()?.into(),
            },
            code::DESCRIPTOR_HEAP_FREED => Self::DescriptorHeapFreed { heap: from.number()? },
            code::DESCRIPTORS_ALLOCATED => {
                Self::DescriptorsAllocated { heap: from.number()?, first: from.number()?, count: from.number()? }
            }
            code::DESCRIPTORS_FREED => {
                Self::DescriptorsFreed { heap: from.number()?, first: from.number()?, count: from.number()? }
            }
            code::DESCRIPTOR_TABLES => Self::DescriptorTables {
                heap: from.number()?,
                frame_used: from.number()?,
                made: from.number()?,
                shared: from.number()?,
            },
            code::BINDLESS_INSERTED => Self::BindlessInserted { heap: from.number()?, slot: from.number()? },
            code::BINDLESS_REMOVED => Self::BindlessRemoved { heap: from.number()?, slot: from.number()? },
            code::END => Self::End { event_count: from.number()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
