//! Reading a damaged file returns a report or a one-line error, and never panics. If a file is cut off, the part before
//! the cut is read.

use crate::made_up;

use ringfence_report::{Figures, History, Report};
use ringfence_trace::{Chunk, Event, Snapshot, Writer};
use serde_json::Value;

/// A small random number generator (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Returns `bytes` with random damage: parts are cut off, changed, repeated or removed, and digits and brackets are
/// inserted.
fn damaged(dice: &mut Dice, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(bytes.len());
        match dice.roll(6) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << dice.roll(8),
            2 => {
                let end = (at + dice.roll(40)).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let end = (at + dice.roll(40)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            4 => {
                let digits = b"18446744073709551615";
                bytes.splice(at..at, digits[..dice.roll(digits.len())].iter().copied());
            }
            _ => {
                bytes.splice(at..at, [b"{}[],:\"-"[dice.roll(8)]]);
            }
        }
    }
    bytes
}

/// Checks that reading `bytes` returns a report with a complete page, or a one-line error.
fn look(bytes: &[u8]) {
    match Report::from_json(bytes) {
        Ok(report) => assert!(report.to_html().ends_with("</html>\n") && !report.to_svgs().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty() && !error.to_string().contains('\n'), "{error}"),
    }
}

fn vma_dump() -> Vec<u8> {
    let suballocations: Vec<String> =
        (0..20).map(|at| format!(r#"{{"Offset":{},"Type":"BUFFER","Size":64,"Name":"n{at}"}}"#, at * 100)).collect();
    let ranges = suballocations.join(",");
    format!(
        r#"{{"General":{{"GPU":"A GPU"}},"MemoryInfo":{{"Heap 0":{{"Flags":["DEVICE_LOCAL"],"Size":4096,
        "MemoryPools":{{"Type 0":{{"Flags":["HOST_VISIBLE"]}}}}}}}},"DefaultPools":{{"Type 0":{{"Blocks":{{"0":
        {{"TotalBytes":2048,"Suballocations":[{ranges}]}}}},
        "DedicatedAllocations":[{{"Type":"IMAGE_OPTIMAL","Size":64}}]}}}}}}"#
    )
    .into_bytes()
}

#[test]
fn no_damage_to_json_panics() {
    let mut report = made_up::report(6, 40, 5);
    report.history = Some(made_up::history(10, 20));
    let files = [
        serde_json::to_vec(&report.snapshot).expect("plain data"),
        serde_json::to_vec_pretty(&report).expect("plain data"),
        vma_dump(),
    ];
    let mut dice = Dice(0x51ab_0c9e_77d1_2b03);
    for file in &files {
        look(file);
        (0..600).for_each(|_| look(&damaged(&mut dice, file)));
    }
}

/// Replaces each number by `number` if `chance` returns `true`. Versions and indices are not replaced, so that the file
/// can still be read.
fn enlarge(value: &mut serde_json::Value, number: u64, mut chance: impl FnMut() -> bool + Copy) {
    match value {
        serde_json::Value::Object(parts) => {
            let parts = parts.iter_mut().filter(|(name, _)| !["version", "memory_type", "heap"].contains(&&***name));
            parts.for_each(|(_, part)| enlarge(part, number, chance));
        }
        serde_json::Value::Array(parts) => parts.iter_mut().for_each(|part| enlarge(part, number, chance)),
        serde_json::Value::Number(held) if held.is_u64() && chance() => *held = number.into(),
        _ => {}
    }
}

#[test]
fn no_number_is_too_large_for_a_page() {
    let mut report = made_up::report(6, 40, 5);
    (report.history, report.compared) = (Some(made_up::history(10, 20)), Some(made_up::compared()));
    let value = serde_json::to_value(&report).expect("plain data");
    let dice = std::cell::RefCell::new(Dice(0x2545_f491_4f6c_dd1d));
    for number in [u64::MAX, u64::MAX - 1, 1 << 63, u64::MAX / 3, 1 << 60] {
        for round in 0..20 {
            let mut enlarged = value.clone();
            enlarge(&mut enlarged, number, || round == 0 || dice.borrow_mut().roll(4) == 0);
            let bytes = serde_json::to_vec(&enlarged).expect("plain data");
            let report = Report::from_json(&bytes).expect("of the right form");
            assert!(report.to_html().ends_with("</html>\n") && !report.to_svgs().is_empty());
        }
    }
}

#[test]
fn of_a_snapshot_that_is_cut_off_what_stands_before_the_cut_is_read() {
    let whole = made_up::report(6, 40, 0).snapshot;
    let bytes = serde_json::to_vec(&whole).expect("plain data");
    let mut most = 0;
    for cut in (0..bytes.len()).step_by(53) {
        let Ok(report) = Report::from_json(&bytes[..cut]) else { continue };
        let damage = report.damage.as_ref().expect("it is not whole");
        assert!(damage.contains("cut off in line 1"), "{damage}");
        let read = report.snapshot;
        assert_eq!((&read.device, &read.heaps, &read.types), (&whole.device, &whole.heaps, &whole.types));
        assert!(read.blocks.len() <= whole.blocks.len());
        for (part, all) in read.blocks.iter().zip(&whole.blocks) {
            assert!(all.ranges.starts_with(&part.ranges) && part.bytes == all.bytes);
        }
        let count = Figures::of(&read).allocation_count;
        assert!(count >= most, "a later cut keeps at least as much");
        most = count;
        assert!(
            report_of(read).to_html().contains("The file is damaged, and the page shows the part that could be read")
        );
    }
    assert_eq!(most, Figures::of(&whole).allocation_count, "a cut after the blocks");
    // The file is damaged in its second half.
    let mut damaged = bytes.clone();
    let half = bytes.len() / 2;
    let at = half + bytes[half..].windows(8).position(|part| part == b"\"offset\"").expect("there are ranges");
    damaged[at..at + 8].copy_from_slice(b"offset::");
    let report = Report::from_json(&damaged).expect("a part of it is whole");
    assert!(report.damage.expect("it is damaged").contains("damaged in line 1"));
}

/// If a trace lacks a chunk and has another one twice, it is reported as damaged, although the number of its events is
/// right.
#[test]
fn a_trace_whose_events_cannot_follow_each_other_is_damaged() {
    let trace = |blocks: [u64; 3]| {
        let (mut bytes, mut chunk) = (Vec::new(), Chunk::default());
        for block in blocks {
            chunk.push(&Event::BlockMade { block, memory_type: 0, dedicated: false, bytes: 64, class: "buffers" });
        }
        let mut writer = Writer::new(&mut bytes);
        writer.write(&chunk).expect("into memory");
        writer.end().expect("into memory");
        History::read(&bytes[..]).expect("a trace").0.damage
    };
    assert_eq!(trace([1, 2, 3]), None);
    assert_eq!(trace([1, 1, 3]).as_deref(), Some("1 of its events contradict the events before them"));
}

#[test]
fn what_no_memory_can_be_like_is_named() {
    let whole = made_up::report(6, 40, 0).snapshot;
    let block = whole.blocks.iter().position(|block| block.ranges.len() > 2).expect("one is shared");
    let damage = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = whole.clone();
        change(&mut snapshot);
        let bytes = serde_json::to_vec(&snapshot).expect("plain data");
        Report::from_json(&bytes).expect("it is JSON of the right form").damage
    };
    assert_eq!(damage(&|_| {}), None);
    let named = |found: Option<String>, part: &str| {
        assert!(found.as_ref().is_some_and(|found| found.contains(part)), "{found:?}")
    };
    let (range, of) = (format!("range 1 of block {block} has"), format!("block {block} names memory type 99"));
    named(damage(&|snapshot| snapshot.blocks[block].ranges[1].offset = 0), &range);
    named(damage(&|snapshot| snapshot.blocks[block].ranges[1].bytes = 1 << 63), &range);
    named(damage(&|snapshot| snapshot.blocks[block].ranges[1].bytes = u64::MAX), &range);
    named(damage(&|snapshot| snapshot.blocks[block].memory_type = 99), &of);
    named(damage(&|snapshot| snapshot.types[0].heap = 9), "memory type 0 names heap 9");
}

fn report_of(snapshot: Snapshot) -> Report {
    Report { snapshot, damage: Some("a cut".into()), ..Report::default() }
}

#[test]
fn of_a_dump_that_is_cut_off_what_stands_before_the_cut_is_read() {
    let bytes = vma_dump();
    let cut = bytes.len() - 500;
    let report = Report::from_json(&bytes[..cut]).expect("a part of it is whole");
    let ranges = &report.snapshot.blocks[0].ranges;
    assert!((5..20).contains(&ranges.len()), "{}", ranges.len());
    assert!(report.damage.is_some());
}

/// Computes CRC-32C bit by bit.
fn checksum(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(sum & 1)))
    })
}

/// Returns a trace of one chunk with `count` events, the given payload and a valid checksum.
fn trace(count: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89RFT\r\n\x1a\n\x01\0\0\0".to_vec();
    let head: Vec<u8> = [payload.len() as u32, count].iter().flat_map(|word| word.to_le_bytes()).collect();
    let sum = checksum(head.iter().chain(payload).copied());
    bytes.extend(head);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn a_trace_of_events_that_cannot_be_makes_a_page_or_a_line_and_never_a_panic() {
    let mut dice = Dice(0x0dd_ba11);
    let mut pages = 0;
    for _ in 0..1500 {
        let mut payload = Vec::new();
        for _ in 0..dice.roll(80) {
            let codes: Vec<u8> = [1..=3, 0x10..=0x15, 0x20..=0x26, 0x20..=0x26, 0x30..=0x33, 0x40..=0x42, 0x50..=0x50]
                .into_iter()
                .flatten()
                .collect();
            payload.push(codes[dice.roll(codes.len())]);
            // Most numbers are small, so that events refer to the same blocks and ranges. Some are huge.
            for _ in 0..dice.roll(7) {
                match dice.roll(9) {
                    0 => payload.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
                    _ => payload.push(dice.roll(6) as u8),
                }
            }
        }
        let bytes = trace(dice.roll(90) as u32, &payload);
        match History::read(&bytes[..]) {
            Ok((history, snapshot)) => {
                let report = Report { history: Some(history), snapshot, ..Report::default() };
                assert!(report.to_html().ends_with("</html>\n") && !report.to_svgs().is_empty());
                pages += 1;
            }
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
    assert!(pages > 1000, "{pages} pages");
}

/// Changes one value of a report at a time: numbers become extreme, lists lose elements. Each report that is still read
/// is drawn.
#[test]
fn a_report_with_any_one_value_changed_is_drawn_or_refused() {
    let report = Report { history: Some(made_up::history(8, 4)), ..made_up::report(3, 5, 4) };
    let whole = serde_json::to_value(&report).expect("a report");
    let mut paths = Vec::new();
    collect(&whole, &mut Vec::new(), &mut paths);
    assert!(paths.len() > 200, "{} values", paths.len());
    let mut drawn = 0;
    for path in &paths {
        for change in 0..4 {
            let mut changed = whole.clone();
            if !alter(&mut changed, path, change) {
                continue;
            }
            let bytes = serde_json::to_vec(&changed).expect("text");
            if let Ok(report) = Report::from_json(&bytes) {
                let drawing = std::panic::catch_unwind(|| (report.to_html().len(), report.to_svgs().len()));
                assert!(drawing.is_ok(), "{path:?}, change {change}");
                drawn += 1;
            }
        }
    }
    assert!(drawn > 500, "{drawn} reports were drawn");
}

/// Adds the path of each number and each list that is not empty, of at most three elements of a list.
fn collect(value: &Value, path: &mut Vec<Step>, paths: &mut Vec<Vec<Step>>) {
    match value {
        Value::Number(_) => paths.push(path.clone()),
        Value::Array(list) => {
            if !list.is_empty() {
                paths.push(path.clone());
            }
            let middle = list.len() / 2;
            for (at, value) in list.iter().enumerate().filter(|(at, _)| [0, middle, list.len() - 1].contains(at)) {
                path.push(Step::At(at));
                collect(value, path, paths);
                path.pop();
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                path.push(Step::Field(name.clone()));
                collect(value, path, paths);
                path.pop();
            }
        }
        _ => {}
    }
}

/// A step from a value to a part of it.
#[derive(Clone, Debug)]
enum Step {
    At(usize),
    Field(String),
}

/// Changes the value at `path`. Returns `false` if the change does not apply to it.
fn alter(value: &mut Value, path: &[Step], change: u32) -> bool {
    let value = path.iter().fold(value, |value, step| match step {
        Step::At(at) => &mut value[*at],
        Step::Field(name) => &mut value[name.as_str()],
    });
    match (value, change) {
        (Value::Array(list), 0) => list.clear(),
        (Value::Array(list), 1) => _ = list.pop(),
        (Value::Array(list), 2) => list.extend(list.clone()),
        (Value::Array(list), _) => list.reverse(),
        (value @ Value::Number(_), 0) => *value = 0.into(),
        (value @ Value::Number(_), 1) => *value = u64::MAX.into(),
        (value @ Value::Number(_), 2) => *value = u32::MAX.into(),
        (Value::Number(_), _) => return false,
        _ => return false,
    }
    true
}
