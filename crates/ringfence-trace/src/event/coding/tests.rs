//! Tests that each event is encoded, decoded and documented.

use std::path::Path;

use super::*;
use crate::Event;
use crate::format::VERSION;

/// Returns one event of each kind.
fn samples() -> Vec<Event> {
    let (block, offset, name) = (3, 1 << 40, "面 name".to_owned());
    vec![
        Event::Device { name: name.clone() },
        Event::Heap { bytes: 8 << 30, device_local: true },
        Event::Type { heap: 1, properties: vec!["host visible".into(), String::new()] },
        Event::Time { elapsed_ns: u64::MAX },
        Event::FrameBegun { timeline: 2, value: 7 },
        Event::Submitted { timeline: 2, value: 7 },
        Event::Completed { timeline: 2, value: 7 },
        Event::Reclaimed { objects: 300, blocks: 1 },
        Event::Budget { heap: 0, usage_bytes: 1, budget_bytes: 2 },
        Event::BlockMade { block, memory_type: 5, dedicated: true, bytes: 1 << 28, class: "buffers".into() },
        Event::BlockFreed { block },
        Event::Allocated { block, offset, bytes: 77, alignment: 1 << 63, name: name.clone() },
        Event::Retired { block, offset },
        Event::Freed { block, offset },
        Event::Moved { from_block: 1, from_offset: 2, to_block: 3, to_offset: 4 },
        Event::Named { block, offset, name: name.clone() },
        Event::Staged { writes: 2, bytes: 9 },
        Event::RingMade { ring: 2, name: name.clone() },
        Event::Ring {
            ring: 2,
            figures: RingSnapshot {
                name: String::new(),
                capacity_bytes: 1,
                used_bytes: 2,
                high_water_bytes: 3,
                submission_count: 4,
                wait_count: 5,
                wait_ns: 6,
                written_bytes: 7,
                grow_count: 8,
                shrink_count: 9,
            },
        },
        Event::RingGone { ring: 2 },
        Event::Paged { heap: 0, arrives: true, bytes: 4096, away_bytes: 1 << 40, name: "rock".to_owned() },
        Event::Planned {
            plan: 1,
            height_bytes: 300,
            lower_bound_bytes: 200,
            pass_count: 9,
            resources: (1..4)
                .map(|at| PlannedRange {
                    first_pass: at,
                    end_pass: 2 * at,
                    offset: 100 * at,
                    bytes: 100,
                    name: format!("{name} {at}"),
                })
                .collect(),
        },
        Event::TransientMade { object: 4, block, offset, bytes: 77, name: name.clone() },
        Event::TransientReleased { object: 4 },
        Event::DescriptorHeap {
            heap: 1,
            owner: 9,
            kind: 3,
            shader_visible: true,
            capacity: 1_000_000,
            frame_capacity: 1_000,
            name,
        },
        Event::DescriptorHeapFreed { heap: 1 },
        Event::DescriptorsAllocated { heap: 1, first: 2, count: 3 },
        Event::DescriptorsFreed { heap: 1, first: 2, count: 3 },
        Event::DescriptorTables { heap: 1, frame_used: 300, made: 4, shared: 5 },
        Event::BindlessInserted { heap: 1, slot: 2 },
        Event::BindlessRemoved { heap: 1, slot: 2 },
        Event::End { event_count: 29 },
    ]
}

#[test]
fn every_event_comes_back_as_it_was_written() {
    let events = samples();
    let mut bytes = Vec::new();
    events.iter().for_each(|event| event.push(&mut bytes));
    let mut parts = Parts(&bytes);
    assert!(events.iter().all(|event| Event::take(&mut parts, VERSION).as_ref() == Some(event)));
    assert!(parts.0.is_empty());
    assert_eq!(Event::take(&mut Parts(&[0xEE]), VERSION), None);
    let made: Event = Event::TransientReleased { object: 4 };
    bytes.clear();
    made.push(&mut bytes);
    assert_eq!(Event::take(&mut Parts(&bytes), 1), None, "not an event of version 1");
}

/// Returns the number of numbers and of texts in an encoded event.
fn parts(bytes: &[u8]) -> (usize, usize) {
    let texts = Event::text_count(bytes[0]);
    let mut rest = Parts(&bytes[1..]);
    for numbers in 0.. {
        let mut tail = Parts(rest.0);
        if (0..texts).all(|_| tail.text().is_some()) && tail.0.is_empty() {
            return (numbers, texts);
        }
        rest.number().expect("each field before the texts is a number");
    }
    unreachable!("the bytes end")
}

#[test]
fn the_page_on_the_format_names_every_event_with_its_parts() {
    // The published package has no `docs` directory; only the repository has it.
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !repository.join("ARCHITECTURE.md").exists() {
        println!("skipped: docs/trace-format.md exists only in the repository");
        return;
    }
    let page = std::fs::read_to_string(repository.join("docs/trace-format.md")).expect("the repository has the page");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let code = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        let count = |cell: &str, by: char| if cell == "–" { 0 } else { cell.split(by).count() };
        let is_list = line.contains("that many");
        let code = u8::from_str_radix(code, 16).ok().filter(|_| cells.len() == 6)?;
        Some((code, count(cells[3], ';'), count(cells[4], ';'), is_list))
    });
    let rows: Vec<_> = rows.collect();
    let events = samples();
    for event in &events {
        let mut bytes = Vec::new();
        event.push(&mut bytes);
        let row = rows.iter().find(|row| row.0 == bytes[0]);
        let (code, numbers, texts, is_list) = row.unwrap_or_else(|| panic!("{event:?} is not on the page"));
        let found = if matches!(event, Event::Device { .. }) { (0, 1) } else { parts(&bytes) };
        assert!(*is_list || found == (*numbers, *texts), "{code:02x}: {found:?}, on the page {numbers} and {texts}");
    }
    assert_eq!(rows.len(), events.len(), "the page lists no event that does not exist");
}
