//! Tests of the ring: comparisons with a naive twin that records the tag of each unit, and tests of the rules of
//! `docs/acceptance.md`, which they are named after.

use crate::common;

use proptest::prelude::*;
use ringfence_core::ring::{Extent, Ring, RingError, RingRange};
use ringfence_core::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use std::collections::VecDeque;

/// The naive twin of a ring: the tag of each unit in use, and the list of entries.
struct Twin {
    owner: Vec<Option<u32>>,
    /// Unit at which the search for the next request starts.
    next: usize,
    /// The tag and the units of each entry, in the order of allocation; the oldest entry first.
    entries: VecDeque<(u32, Vec<usize>)>,
    high_water: u64,
}

impl Twin {
    fn new(capacity: usize) -> Self {
        Self { owner: vec![None; capacity], next: 0, entries: VecDeque::new(), high_water: 0 }
    }

    fn used(&self) -> u64 {
        self.owner.iter().flatten().count() as u64
    }

    /// Searches the free units from `next` on for the first aligned, contiguous position, and also allocates all units
    /// before it.
    fn allocate(&mut self, size: usize, alignment: usize, tag: u32) -> Option<usize> {
        let capacity = self.owner.len();
        let walk: Vec<usize> = (0..capacity).map(|step| (self.next + step) % capacity).collect();
        let free = walk.iter().take_while(|&&unit| self.owner[unit].is_none()).count();
        let fits = |&skip: &usize| walk[skip].is_multiple_of(alignment) && walk[skip] + size <= capacity;
        let skip = (0..capacity).find(fits).filter(|skip| skip + size <= free)?;
        let taken = &walk[..skip + size];
        taken.iter().for_each(|&unit| self.owner[unit] = Some(tag));
        match self.entries.back_mut() {
            Some((newest, units)) if *newest == tag => units.extend(taken),
            _ => self.entries.push_back((tag, taken.to_vec())),
        }
        self.next = (walk[skip] + size) % capacity;
        self.high_water = self.high_water.max(self.used());
        Some(walk[skip])
    }

    fn release_oldest(&mut self) -> Option<(u32, u64)> {
        let (tag, units) = self.entries.pop_front()?;
        units.iter().for_each(|&unit| self.owner[unit] = None);
        if self.entries.is_empty() {
            self.next = 0;
        }
        Some((tag, units.len() as u64))
    }
}

#[derive(Clone, Debug)]
enum Op {
    Allocate { size: u64, alignment_log2: u32 },
    NextTag,
    EarlierTag,
    ReleaseOldest,
    ReleaseUpTo { behind: u32 },
    Refused,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (1..60_u64, 0..6_u32).prop_map(|(size, alignment_log2)| Op::Allocate { size, alignment_log2 }),
        2 => (1..200_u64, 0..9_u32).prop_map(|(size, alignment_log2)| Op::Allocate { size, alignment_log2 }),
        5 => Just(Op::NextTag),
        1 => Just(Op::EarlierTag),
        4 => Just(Op::ReleaseOldest),
        2 => (0..4_u32).prop_map(|behind| Op::ReleaseUpTo { behind }),
        1 => Just(Op::Refused),
    ]
}

fn check(ring: &Ring<u32>, twin: &Twin, live: &[(RingRange, usize)]) {
    ring.validate().unwrap();
    assert_eq!(ring.used(), twin.used());
    assert_eq!(ring.free(), ring.capacity() - twin.used());
    assert_eq!(ring.high_water(), twin.high_water);
    assert_eq!(ring.submissions(), twin.entries.len());
    assert_eq!(ring.oldest(), twin.entries.front().map(|(tag, _)| tag));
    assert_eq!(ring.is_empty(), twin.entries.is_empty());
    let lies = |extent: Extent| extent.offset as usize..(extent.offset + extent.size) as usize;
    for (submission, (tag, units)) in ring.iter().zip(&twin.entries) {
        assert_eq!((submission.tag, submission.size), (tag, units.len() as u64));
        assert_eq!(submission.offset, units[0] as u64);
        assert_eq!(submission.extents().flat_map(lies).collect::<Vec<_>>(), *units);
    }
    assert!(live.iter().all(|(range, _)| ring.is_live(range)), "a range whose entry is not released is live");
}

fn play(capacity: u64, ops: &[Op]) {
    let (mut ring, mut twin) = (Ring::new(capacity), Twin::new(capacity as usize));
    // The live ranges with the numbers of their entries, the released ranges, and the numbers of released and begun
    // entries.
    let (mut live, mut dead, mut released, mut tag) = (Vec::new(), Vec::new(), 0, 0);
    for op in ops {
        match *op {
            Op::Allocate { size, alignment_log2 } => {
                let before = format!("{ring:?}");
                match ring.allocate(size, 1 << alignment_log2, &tag) {
                    Ok(range) => {
                        let expected = twin.allocate(size as usize, 1 << alignment_log2, tag);
                        assert_eq!(Some(range.offset() as usize), expected, "{op:?}");
                        assert_eq!((range.size(), range.end()), (size, range.offset() + size));
                        live.push((range, released + twin.entries.len()));
                    }
                    Err(error) => {
                        assert_eq!(matches!(error, RingError::TooLarge { .. }), size > capacity, "{error}");
                        assert_eq!(twin.allocate(size as usize, 1 << alignment_log2, tag), None, "{error}");
                        assert_eq!(format!("{ring:?}"), before, "a failed call changes nothing");
                    }
                }
            }
            Op::NextTag => tag += 1,
            Op::EarlierTag => tag = tag.saturating_sub(1),
            Op::ReleaseOldest => {
                let expected = twin.release_oldest();
                released += usize::from(expected.is_some());
                assert_eq!(ring.release_oldest(), expected);
            }
            Op::ReleaseUpTo { behind } => {
                let passed = |&oldest: &u32| oldest <= tag.saturating_sub(behind);
                let mut units = 0;
                while twin.entries.front().is_some_and(|(oldest, _)| passed(oldest)) {
                    units += twin.release_oldest().unwrap().1;
                    released += 1;
                }
                assert_eq!(ring.release_while(passed), units);
            }
            Op::Refused => {
                let before = format!("{ring:?}");
                assert_eq!(ring.allocate(0, 1, &tag), Err(RingError::ZeroSize));
                assert_eq!(ring.allocate(1, 6, &tag), Err(RingError::BadAlignment { alignment: 6 }));
                assert_eq!(ring.allocate(1, 0, &tag), Err(RingError::BadAlignment { alignment: 0 }));
                assert_eq!(format!("{ring:?}"), before, "a failed call changes nothing");
            }
        }
        let gone: Vec<_> = live.extract_if(.., |(_, entry)| *entry <= released).collect();
        dead.extend(gone);
        assert!(dead.iter().all(|(range, _)| !ring.is_live(range)), "a released range stays stale");
        check(&ring, &twin, &live);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(512)))]

    #[test]
    fn behaves_as_a_map_of_units(capacity in 1..150_u64, ops in prop::collection::vec(op(), 1..150)) {
        play(capacity, &ops);
    }
}

/// Every sequence of five small operations on every small ring agrees with the twin. This includes cases that random
/// tests may miss.
#[test]
fn small_rings_exhaustively() {
    let alphabet: Vec<Op> = [(1, 0), (2, 0), (3, 2), (1, 1), (5, 0)]
        .map(|(size, alignment_log2)| Op::Allocate { size, alignment_log2 })
        .into_iter()
        .chain([Op::NextTag, Op::ReleaseOldest])
        .collect();
    for capacity in [1, 2, 3, 5, 6, 8] {
        for number in 0..alphabet.len().pow(5) {
            let digit = |place: u32| alphabet[number / alphabet.len().pow(place) % alphabet.len()].clone();
            play(capacity, &[0, 1, 2, 3, 4].map(digit));
        }
    }
}

fn extents(ring: &Ring<u32>) -> Vec<(u32, Vec<(u64, u64)>)> {
    let pairs = |extent: Extent| (extent.offset, extent.offset + extent.size);
    ring.iter().map(|submission| (*submission.tag, submission.extents().map(pairs).collect())).collect()
}

#[test]
fn seed_001_02_the_state_is_a_position_and_a_queue_of_starts() {
    let mut ring = Ring::new(1000);
    for frame in 2..6 {
        ring.allocate(100, 4, &frame).unwrap();
        ring.allocate(52, 4, &frame).unwrap();
    }
    let starts: Vec<_> = ring.iter().map(|submission| (*submission.tag, submission.offset)).collect();
    assert_eq!(starts, [(2, 0), (3, 152), (4, 304), (5, 456)]);
    assert_eq!(ring.release_while(|&frame| frame <= 3), 304);
    assert_eq!(ring.iter().next().map(|oldest| (*oldest.tag, oldest.offset)), Some((4, 304)));
    assert_eq!(ring.allocate(10, 4, &6).unwrap().offset(), 608, "the write position is unchanged");
}

#[test]
fn seed_001_03_alignment_4_256_512() {
    // The third capacity is not a multiple of any alignment. The offset is aligned, not the position.
    for capacity in [1 << 16, 3 << 14, 50_001] {
        let mut ring = Ring::new(capacity);
        for frame in 0..200_u32 {
            for (size, alignment) in [(36, 4), (100, 256), (3000, 512), (7, 1), (260, 256)] {
                let range = loop {
                    match ring.allocate(size, alignment, &frame) {
                        Ok(range) => break range,
                        Err(RingError::Full { .. }) => assert!(ring.release_oldest().is_some()),
                        Err(error) => panic!("{error}"),
                    }
                };
                assert!(range.offset() % alignment == 0 && range.end() <= capacity);
            }
            ring.validate().unwrap();
        }
    }
}

#[test]
fn seed_001_04_a_submission_enters_at_its_first_allocation_only() {
    let mut ring = Ring::new(1000);
    assert_eq!(ring.submissions(), 0, "frame 1 has begun, but has no data yet");
    for _ in 0..3 {
        ring.allocate(10, 4, &1).unwrap();
        assert_eq!(ring.submissions(), 1);
    }
    // Frame 2 allocates no unit and has no entry.
    ring.allocate(10, 4, &3).unwrap();
    assert_eq!(ring.iter().map(|submission| *submission.tag).collect::<Vec<_>>(), [1, 3]);
    assert!(ring.allocate(2000, 4, &4).is_err());
    assert_eq!(ring.submissions(), 2, "a failed request adds no entry");
    ring.release_while(|_| true);
    ring.allocate(10, 4, &3).unwrap();
    assert_eq!(ring.submissions(), 1, "a submission whose data was released may allocate again");
}

#[test]
fn seed_001_07_a_request_above_the_capacity_fails_before_any_wait() {
    let mut ring = Ring::new(1000);
    ring.allocate(1000, 4, &1).unwrap();
    assert_eq!(ring.allocate(1001, 4, &2), Err(RingError::TooLarge { size: 1001, capacity: 1000 }));
    assert!(matches!(ring.allocate(1000, 1 << 40, &2), Err(RingError::Full { .. })), "releasing would help");
    ring.release_oldest();
    assert_eq!(ring.allocate(1000, 1 << 40, &2).unwrap().offset(), 0, "and the release helps");
}

/// The ring passes through the four states that text 001 draws: full, after a poll, after a wait for the oldest frame,
/// and after the allocation. `completed` is the value that a fence would report.
#[test]
fn seed_001_08_figures_1_to_4() {
    let mut ring = Ring::new(2048);
    ring.allocate(512, 4, &2).unwrap();
    ring.allocate(512, 4, &3).unwrap();
    ring.allocate(900, 4, &4).unwrap();
    // Frame 2 has been rendered, so frame 4 can wrap around the end.
    assert!(matches!(ring.allocate(256, 256, &4), Err(RingError::Full { padding: 124, free: 124, .. })));
    let mut completed = 2;
    assert_eq!(ring.release_while(|&frame| frame <= completed), 512);
    ring.allocate(256, 256, &4).unwrap();
    ring.allocate(200, 4, &5).unwrap();

    // State 1: frame 6 needs a large constant buffer, and there is not enough space.
    let figure_1 = vec![(3, vec![(512, 1024)]), (4, vec![(1024, 2048), (0, 256)]), (5, vec![(256, 456)])];
    assert_eq!(extents(&ring), figure_1);
    let request = |ring: &mut Ring<u32>| ring.allocate(1280, 256, &6);
    let full = |free| Err(RingError::Full { size: 1280, alignment: 256, padding: 56, free, capacity: 2048 });
    assert_eq!(request(&mut ring), full(56));

    // State 2: the poll finds that frame 3 has been rendered, but the space is still too small.
    completed = 3;
    assert_eq!(ring.release_while(|&frame| frame <= completed), 512);
    assert_eq!(request(&mut ring), full(568));
    assert_eq!(extents(&ring), figure_1[1..], "the failed requests changed nothing");

    // State 3: the program waits for the oldest frame in flight only.
    assert_eq!(ring.oldest(), Some(&4));
    assert_eq!(ring.release_oldest(), Some((4, 900 + 124 + 256)), "the skipped tail is released with it");

    // State 4: the constant buffer uses the space of frames 3 and 4.
    let constants = request(&mut ring).unwrap();
    assert_eq!((constants.offset(), constants.end()), (512, 1792));
    assert!(constants.end() > 1024, "it uses the space of both");
    assert_eq!(extents(&ring), [(5, vec![(256, 456)]), (6, vec![(456, 1792)])]);
    ring.validate().unwrap();
}

#[test]
fn seed_001_09_the_write_position_moves_on_success_only() {
    let mut ring = Ring::new(1000);
    ring.allocate(700, 4, &1).unwrap();
    let before = format!("{ring:?}");
    for (size, alignment) in [(301, 4), (300, 512), (0, 4), (4, 12), (5000, 4)] {
        assert!(ring.allocate(size, alignment, &2).is_err());
        assert_eq!(format!("{ring:?}"), before, "{size} aligned to {alignment}");
    }
    assert_eq!(ring.allocate(300, 4, &2).unwrap().offset(), 700);
}

#[test]
fn seed_001_11_the_high_water_mark_counts_padding_and_stays() {
    let mut ring = Ring::new(4096);
    ring.allocate(100, 4, &1).unwrap();
    ring.allocate(100, 256, &1).unwrap();
    assert_eq!(ring.high_water(), 356);
    ring.release_oldest();
    ring.allocate(40, 4, &2).unwrap();
    assert_eq!((ring.used(), ring.high_water()), (40, 356));
}

/// Two allocations of a frame do not overlap, and padding counts as used. In the code that text 001 prints,
/// `SuballocateFromHeap` sets `m_pDataCur` to the aligned start and never adds the size, so two allocations overlap. It
/// also returns no offset, and a macro hides the check for sufficient memory if data wraps around, if the end of the
/// heap is skipped, and if both pointers are equal.
#[test]
fn fault_07_two_allocations_do_not_overlap_and_padding_is_charged() {
    let mut ring = Ring::new(1024);
    let vertices = ring.allocate(100, 4, &1).unwrap();
    let constants = ring.allocate(64, 256, &1).unwrap();
    // In the printed code, both allocations are at 0.
    assert_eq!((vertices.offset(), constants.offset()), (0, 256));
    assert_eq!(ring.used(), 320, "the 156 before the constants belong to frame 1");

    ring.allocate(600, 4, &2).unwrap();
    assert_eq!(ring.release_oldest(), Some((1, 320)));
    // 104 units are free at the end and 320 at the start. Frame 3 skips the end, and the skipped units belong to frame
    // 3.
    let wrapped = ring.allocate(200, 4, &3).unwrap();
    assert_eq!((wrapped.offset(), ring.used()), (0, 600 + 104 + 200));
    assert_eq!(ring.allocate(121, 1, &3).unwrap_err().to_string(), {
        "the ring has no room for 121 units aligned to 1 after 0 units of padding: 120 of 1024 are free; \
         release older entries first"
    });
    ring.allocate(120, 1, &4).unwrap();

    // The head and the tail have equal offsets in a full and in an empty ring, but the two states differ.
    assert_eq!((ring.used(), ring.free(), ring.is_empty()), (1024, 0, false));
    assert!(matches!(ring.allocate(1, 1, &4), Err(RingError::Full { free: 0, .. })));
    assert_eq!(ring.release_oldest(), Some((2, 600)));
    assert_eq!(ring.release_oldest(), Some((3, 304)), "the skipped tail is released with frame 3, not with frame 2");
    assert_eq!(ring.release_oldest(), Some((4, 120)));
    assert!(ring.is_empty());
    assert_eq!(ring.allocate(1024, 512, &5).unwrap().offset(), 0, "an empty ring fits the largest request");
}

/// The ring returns the oldest tag, so the caller can detect that this frame is not submitted. The loop that text 001
/// prints waits for the oldest frame even if the frame is still being recorded, and its fence is then never signalled.
#[test]
fn fault_08_the_oldest_is_reported_before_anyone_waits() {
    let mut ring = Ring::new(1000);
    let (submitted, recording) = (1, 2);
    ring.allocate(400, 4, &submitted).unwrap();
    ring.allocate(500, 4, &recording).unwrap();
    let mut waits = Vec::new();
    let outcome = loop {
        match ring.allocate(600, 4, &recording) {
            Err(RingError::Full { .. }) if ring.oldest().is_some_and(|&oldest| oldest <= submitted) => {
                waits.extend(ring.release_oldest().map(|(frame, _)| frame));
            }
            outcome => break outcome,
        }
    };
    assert_eq!(waits, [1]);
    assert!(matches!(outcome, Err(RingError::Full { size: 600, free: 500, .. })), "{outcome:?}");
}

/// An entry can wait for a set of 64-bit points on several queues. The code that text 001 prints counts frames in 32
/// bits on one queue.
#[test]
fn fault_09_several_queues_and_64_bit_values() {
    let [graphics, copy] = [0, 1].map(TimelineId::new);
    let base = u64::from(u32::MAX);
    let both: SyncSet = [SyncPoint::new(graphics, base + 1), SyncPoint::new(copy, base + 9)].into_iter().collect();
    let later = SyncSet::from(SyncPoint::new(copy, base + 5));
    let mut ring = Ring::new(100);
    ring.allocate(30, 1, &both).unwrap();
    ring.allocate(30, 1, &both.clone()).unwrap();
    ring.allocate(10, 1, &later).unwrap();
    assert_eq!(ring.submissions(), 2);
    for (progress, released) in [
        ([base + 1, base + 8], 0), // the copy queue is behind
        ([base, base + 9], 0),     // the graphics queue is behind
        ([base + 1, base + 9], 70),
    ] {
        assert_eq!(ring.release_while(|set| progress.passed_all(set)), released);
    }
}

#[test]
fn a_ring_of_nothing_refuses_everything() {
    let mut ring = Ring::new(0);
    assert_eq!(ring.allocate(1, 1, &0), Err(RingError::TooLarge { size: 1, capacity: 0 }));
    assert_eq!((ring.release_oldest(), ring.iter().count()), (None, 0));
    ring.validate().unwrap();
}

/// No two live ranges overlap in a million frames through a ring of 64 KiB, with mixed sizes and alignments and at most
/// three frames in flight.
#[test]
fn soak_a_million_frames_in_64_kib() {
    let mut ring = Ring::new(64 << 10);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    // The frame, start and end of each range in flight.
    let mut live = VecDeque::new();
    let (mut waits, mut bytes) = (0_u64, 0_u64);
    for frame in 0..1_000_000_u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        for request in 0..1 + (random >> 62) {
            let bits = random >> (10 + request * 12);
            let (size, alignment) = (1 + (bits % 12_000), [4, 256, 512, 16][(bits >> 8) as usize % 4]);
            let range = loop {
                match ring.allocate(size, alignment, &frame) {
                    Ok(range) => break range,
                    Err(_) if ring.oldest() == Some(&frame) => panic!("four requests of a frame fit"),
                    Err(_) => {
                        let (oldest, _) = ring.release_oldest().expect("the ring is full, so a frame is in flight");
                        waits += 1;
                        while live.front().is_some_and(|&(owner, _, _)| owner <= oldest) {
                            live.pop_front();
                        }
                    }
                }
            };
            assert!(range.offset() % alignment == 0 && range.end() <= ring.capacity());
            assert!(
                live.iter().all(|&(_, start, end)| range.end() <= start || end <= range.offset()),
                "frame {frame}: {range:?} overlaps a range in flight"
            );
            live.push_back((frame, range.offset(), range.end()));
            bytes += size;
        }
        let completed = frame.saturating_sub(3);
        ring.release_while(|&owner| owner < completed);
        while live.front().is_some_and(|&(owner, _, _)| owner < completed) {
            live.pop_front();
        }
        if frame % 1024 == 0 {
            ring.validate().unwrap();
        }
    }
    assert!(waits > 100_000 && bytes > 10_000_000_000, "{waits} waits for {bytes} bytes");
    assert!(ring.high_water() > 60_000);
    ring.release_while(|_| true);
    ring.validate().unwrap();
}

#[test]
fn a_range_says_where_it_stands_among_all_units() {
    let mut ring = Ring::new(10);
    let (first, second) = (ring.allocate(4, 1, &1).unwrap(), ring.allocate(3, 4, &2).unwrap());
    ring.release_while(|&tag| tag == 1);
    // The last three units are skipped, and count as used.
    let third = ring.allocate(4, 1, &3).unwrap();
    assert_eq!([first, second, third].map(|range| (range.offset(), range.position())), [(0, 0), (4, 4), (0, 10)]);
}
