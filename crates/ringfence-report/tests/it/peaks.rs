//! If a figure has a peak in a single frame, the peak appears in the charts and in the figures, for every kind of
//! memory.

use ringfence_report::{History, Report, bytes};
use ringfence_trace::{Chunk, Event, Writer};

const MIB: u64 = 1 << 20;
const FRAMES: u64 = 4_001;

/// Returns a trace with 4 MiB of blocks, and 1 GiB of dedicated memory in frame `in_frame`. If `outlives_its_frame`,
/// the dedicated memory exists until the end of that frame; otherwise it is freed within the frame.
fn trace(in_frame: u64, outlives_its_frame: bool) -> Vec<u8> {
    let (mut bytes, mut chunk) = (Vec::new(), Chunk::default());
    let made = |block, dedicated, bytes| Event::BlockMade { block, memory_type: 0, dedicated, bytes, class: "buffers" };
    let allocated = |block, bytes| Event::Allocated { block, offset: 0, bytes, alignment: 256, name: "held" };
    let push_freed = |chunk: &mut Chunk| {
        chunk.push(&Event::<&str>::Freed { block: 2, offset: 0 });
        chunk.push(&Event::<&str>::BlockFreed { block: 2 });
    };
    chunk.push(&Event::<&str>::Heap { bytes: 4 << 30, device_local: true });
    chunk.push(&Event::<&str>::Type { heap: 0, properties: vec![] });
    chunk.push(&made(1, false, 4 * MIB));
    chunk.push(&allocated(1, MIB));
    for frame in 1..=FRAMES {
        if frame == in_frame {
            chunk.push(&made(2, true, 1024 * MIB));
            chunk.push(&allocated(2, 1024 * MIB));
        }
        if frame == in_frame && !outlives_its_frame {
            push_freed(&mut chunk);
        }
        chunk.push(&Event::<&str>::Reclaimed { objects: 0, blocks: 0 });
        if frame == in_frame && outlives_its_frame {
            push_freed(&mut chunk);
        }
    }
    let mut writer = Writer::new(&mut bytes);
    writer.write(&chunk).expect("into memory");
    writer.end().expect("into memory");
    bytes
}

#[test]
fn dedicated_memory_of_one_frame_is_in_the_chart_of_its_heap_and_in_the_headline() {
    // Frame 1501 gets a moment that thinning removes later. Frame 2501 gets none, because a moment then stands for two
    // frames.
    for (in_frame, outlives_its_frame) in [(1501, true), (2501, true), (1501, false), (2501, false)] {
        let (history, snapshot) = History::read(&trace(in_frame, outlives_its_frame)[..]).expect("a trace");
        assert_eq!((history.frame_count, history.damage.as_ref()), (FRAMES, None));
        assert!(history.moments.len() < 2_000, "a moment stands for several frames");
        let most = |value: fn(&ringfence_report::HeapMoment) -> u64| {
            history.moments.iter().map(|moment| value(&moment.heaps[0])).max()
        };
        let spike = if outlives_its_frame { 1024 * MIB } else { 0 };
        assert_eq!(most(|heap| heap.reserved_bytes), Some(4 * MIB + spike));
        assert_eq!(most(|heap| heap.used_bytes), Some(MIB + spike));
        let high = history.moments.iter().filter(|moment| moment.heaps[0].reserved_bytes > 4 * MIB).count();
        assert_eq!(high, usize::from(outlives_its_frame), "it was one frame");
        let report = Report { history: Some(history), snapshot, ..Report::default() };
        assert_eq!(report.figures().reserved_bytes_high_water, Some(1028 * MIB));
        assert!(report.to_html().contains(&format!("at most {} so far<", bytes(1028 * MIB))));
    }
}

/// If a frame's plan has several heaps, their titles differ, although the heaps have the same plan number.
#[test]
fn plans_of_a_frame_have_titles_that_differ_by_their_heaps() {
    let (mut bytes, mut chunk) = (Vec::new(), Chunk::default());
    for plan in [4, 4, 4, 7, 7] {
        let planned =
            Event::<&str>::Planned { plan, height_bytes: 8, lower_bound_bytes: 8, pass_count: 2, resources: vec![] };
        chunk.push(&planned);
    }
    let mut writer = Writer::new(&mut bytes);
    writer.write(&chunk).expect("into memory");
    writer.end().expect("into memory");
    let (history, snapshot) = History::read(&bytes[..]).expect("a trace");
    let heaps: Vec<_> = history.plans.iter().map(|plan| (plan.plan, plan.heap)).collect();
    assert_eq!(heaps, [(4, 1), (4, 2), (7, 0), (7, 1)], "of five the last four");
    let page = Report { history: Some(history), snapshot, ..Report::default() }.to_html();
    for (plan, heap) in heaps {
        assert_eq!(page.matches(&format!("title\" x=\"0\" y=\"15\">Aliasing plan {plan}, heap {heap} ")).count(), 1);
    }
}
