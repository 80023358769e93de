//! Tests of the import of snapshots from other allocators.

use std::path::{Path, PathBuf};

use ringfence_report::import::{is_vma_dump, vma_dump};
use ringfence_report::{Figures, Report, Source};
use serde_json::{Value, json};

fn small() -> Value {
    json!({
        "General": { "GPU": "A GPU" },
        "MemoryInfo": {
            "Heap 1": { "Flags": [], "Size": 1000 },
            "Heap 0": {
                "Flags": ["DEVICE_LOCAL"], "Size": 4096, "Budget": { "BudgetBytes": 4000, "UsageBytes": 3000 },
                "MemoryPools": { "Type 0": { "Flags": ["DEVICE_LOCAL", "HOST_VISIBLE"] } },
            },
        },
        "DefaultPools": { "Type 0": {
            "Blocks": { "0": { "TotalBytes": 2048, "Suballocations": [
                { "Offset": 1024, "Type": "BUFFER", "Size": 100, "Name": "second" },
                { "Offset": 0, "Type": "IMAGE_OPTIMAL", "Size": 512, "CustomData": "0000AA" },
                { "Offset": 512, "Type": "FREE", "Size": 512 },
            ] } },
            "DedicatedAllocations": [ { "Type": "BUFFER", "Size": 64 } ],
        } },
        "CustomPools": { "Type 0": [ { "Name": "mine", "Blocks": { "0": { "TotalBytes": 16, "Suballocations": [
            { "Offset": 0, "Type": "BUFFER", "Size": 16, "Name": "x" } ] } } } ] },
    })
}

#[test]
fn a_dump_becomes_heaps_types_and_blocks() {
    let snapshot = vma_dump(&small()).expect("it is a dump");
    assert_eq!((snapshot.device.as_str(), snapshot.heaps.len()), ("A GPU", 2));
    assert!(snapshot.heaps[0].device_local && !snapshot.heaps[1].device_local);
    assert_eq!((snapshot.heaps[0].budget_bytes, snapshot.heaps[0].reserved_bytes), (Some(4000), 2048 + 64 + 16));
    assert_eq!(snapshot.types[0].properties, ["device local", "host visible"]);
    let classes: Vec<_> = snapshot.blocks.iter().map(|block| (block.class.as_str(), block.dedicated)).collect();
    assert_eq!(classes, [("all", false), ("buffers", true), ("buffers", false)]);
    let names: Vec<_> = snapshot.blocks[0].ranges.iter().map(|range| range.name.as_str()).collect();
    assert_eq!(names, ["0000AA", "second"]);
    assert_eq!(snapshot.blocks[2].ranges[0].name, "pool mine: x");
}

/// A dump contains no driver calls and no retired objects, so the page shows these as unknown, not as 0.
#[test]
fn what_a_dump_does_not_hold_is_unknown() {
    let report = Report::from_json(small().to_string().as_bytes()).expect("it is a dump");
    assert_eq!(report.source, Source::VmaDump);
    let figures = report.figures();
    assert_eq!((figures.reserved_bytes, figures.reserved_bytes_high_water), (2048 + 64 + 16, None));
    assert_eq!((figures.retired_count, figures.calls_made, figures.calls_saved), (None, None, None));
    let numbers: Vec<_> = report.snapshot.blocks.iter().map(|block| block.number).collect();
    assert_eq!(numbers, [0, 1, 2]);
}

#[test]
fn what_is_missing_is_named_with_its_place() {
    let said = |change: &dyn Fn(&mut Value)| {
        let mut dump = small();
        change(&mut dump);
        vma_dump(&dump).expect_err("it is no dump").to_string()
    };
    assert_eq!(said(&|dump| *dump = json!([])), "at the top: expected an object");
    assert_eq!(said(&|dump| dump["MemoryInfo"] = json!(1)), "at MemoryInfo: expected an object");
    assert_eq!(
        said(&|dump| dump["MemoryInfo"]["Heap 1"] = json!({})),
        "at MemoryInfo / Heap 1: expected a number \"Size\""
    );
    let ranges = "/DefaultPools/Type 0/Blocks/0/Suballocations";
    assert_eq!(
        said(&|dump| *dump.pointer_mut(ranges).expect("it is there") = json!([{ "Type": "BUFFER", "Offset": 3 }])),
        "at DefaultPools / Type 0 / Blocks / 0 / Suballocations / 0: expected a number \"Size\""
    );
    assert_eq!(
        said(&|dump| dump["DefaultPools"]["Type 0"]["Blocks"]["0"]["TotalBytes"] = json!(100)),
        "at DefaultPools / Type 0 / Blocks / 0: expected an end of at most 100 for the sub-allocation at offset 0"
    );
}

#[test]
fn the_sample_of_vma_adds_up_to_its_own_totals() {
    let named = std::env::var_os("RINGFENCE_CASES").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/data"));
    let paths = named.into_iter().chain(above).map(|folder| folder.join("traces/vma_Sample.json"));
    let Some(text) = paths.filter_map(|path| std::fs::read_to_string(path).ok()).next() else {
        return println!("skipped: no folder of real cases (RINGFENCE_CASES)");
    };
    let dump: Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(is_vma_dump(&dump));
    let snapshot = vma_dump(&dump).expect("it is a dump");
    let (figures, total) = (Figures::of(&snapshot), &dump["Total"]);
    assert_eq!(Some(figures.block_count), total["BlockCount"].as_u64());
    assert_eq!(Some(figures.reserved_bytes), total["BlockBytes"].as_u64());
    assert_eq!(Some(figures.allocation_count), total["AllocationCount"].as_u64());
    assert_eq!(Some(figures.used_bytes), total["AllocationBytes"].as_u64());
    for (heap, held) in snapshot.heaps.iter().enumerate() {
        let stated = &dump["MemoryInfo"][format!("Heap {heap}")]["Stats"]["BlockBytes"];
        assert_eq!(Some(held.reserved_bytes), stated.as_u64(), "heap {heap}");
    }
}
