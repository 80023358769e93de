//! The page's text: figures, escaping, tables, and that it stands alone.

use ringfence_trace::{BlockSnapshot, DescriptorSnapshot, RangeSnapshot, Snapshot, TypeSnapshot, TypeStatistics};

use crate::frames::buckets;
use crate::{BlockFigures, Figures, FrameSample, Report, SCRIPTS, html, units};

const HOSTILE: &str = "</script><script>alert(1)</script><!-- & \" '";

fn range(offset: u64, bytes: u64, name: &str) -> RangeSnapshot {
    RangeSnapshot { offset, bytes, name: name.into(), ..Default::default() }
}

fn report() -> Report {
    let ranges = vec![range(0, 100, "vertices"), range(300, 200, HOSTILE)];
    let shared = BlockSnapshot { class: "buffers".into(), bytes: 1000, ranges, ..Default::default() };
    let ranges = vec![range(0, 1000, "shadows")];
    let alone = BlockSnapshot { class: "textures".into(), dedicated: true, bytes: 1000, ranges, ..Default::default() };
    let snapshot = Snapshot {
        version: 1,
        device: HOSTILE.into(),
        types: vec![TypeSnapshot::default()],
        blocks: vec![shared, alone],
        retired_count: 3,
        ..Default::default()
    };
    let frames = (1..=1200).map(|frame| FrameSample { frame, live_count: frame % 7, ..Default::default() }).collect();
    Report {
        title: HOSTILE.into(),
        snapshot,
        frames,
        facts: vec![(HOSTILE.into(), "{{data}}".into())],
        ..Report::default()
    }
}

#[test]
fn figures_add_up() {
    let figures = Figures::of(&report().snapshot);
    assert_eq!((figures.reserved_bytes, figures.used_bytes, figures.free_bytes), (2000, 1300, 700));
    assert_eq!((figures.block_count, figures.dedicated_count, figures.allocation_count), (2, 1, 3));
    assert_eq!((figures.waste_percent, figures.retired_count), (35.0, 3));
    assert_eq!(Figures::of(&Snapshot::default()), Figures::default());
}

#[test]
fn high_water_is_never_below_what_is_reserved() {
    let mut snapshot = report().snapshot;
    assert_eq!(Figures::of(&snapshot).reserved_bytes_high_water, 2000);
    snapshot.types[0].statistics = TypeStatistics { block_bytes_high_water: 5000, ..Default::default() };
    assert_eq!(Figures::of(&snapshot).reserved_bytes_high_water, 5000);
}

#[test]
fn a_block_knows_its_longest_free_stretch() {
    let free_bytes_largest = |block: &BlockSnapshot| BlockFigures::of(block).free_bytes_largest;
    let mut block = report().snapshot.blocks[0].clone();
    assert_eq!(free_bytes_largest(&block), 500, "after the last range");
    block.ranges.push(range(600, 400, ""));
    assert_eq!(free_bytes_largest(&block), 200, "between two ranges");
    block.ranges.clear();
    assert_eq!(free_bytes_largest(&block), 1000, "all of it");
}

#[test]
fn figures_stand_in_the_html() {
    let page = report().to_html();
    for (name, value) in [("reserved_bytes", "2000"), ("used_bytes", "1300"), ("waste_percent", "35.000")] {
        let mark = format!("id=\"figure-{name}\" data-figure=\"{name}\" data-value=\"{value}\"");
        assert_eq!(page.matches(&mark).count(), 1, "{mark}");
    }
}

#[test]
fn hostile_names_stay_names() {
    let report = report();
    let page = report.to_html();
    assert!(!page.contains("alert(1)</script>"));
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    assert_eq!(page.matches("<script").count(), 3);
    let data = page.split_once("id=\"ringfence-data\">").and_then(|(_, rest)| rest.split_once("</script>"));
    let read: Report = serde_json::from_str(data.expect("the page holds its data").0).expect("the data is JSON");
    assert_eq!(
        (read.title, read.snapshot, read.frames),
        (report.title, report.snapshot, report.frames),
        "letter by letter"
    );
}

#[test]
fn odd_snapshots_still_make_a_page() {
    let mut report = report();
    let ranges = vec![range(u64::MAX, u64::MAX, "past every end"), range(0, 9, "out of order")];
    let odd = BlockSnapshot { memory_type: 77, bytes: u64::MAX, ranges, ..Default::default() };
    report.snapshot.blocks.extend([odd, BlockSnapshot::default()]);
    report.frames = vec![FrameSample { ring_used_bytes: u64::MAX, live_count: u64::MAX, ..Default::default() }];
    assert!(report.to_html().contains("data-figure=\"block_count\" data-value=\"4\""));
}

#[test]
fn regions_of_descriptors_stand_in_the_html() {
    assert!(report().to_html().contains("There are no descriptor heaps."));
    let mut report = report();
    let table = DescriptorSnapshot {
        name: HOSTILE.into(),
        kind: "resources".into(),
        region: "bindless".into(),
        slot_count: 4096,
        used_count: 1024,
        waiting_count: 512,
        ..Default::default()
    };
    let odd = DescriptorSnapshot { used_count: u64::MAX, high_water: Some(u64::MAX), ..Default::default() };
    report.snapshot.descriptors = vec![table, odd];
    let page = report.to_html();
    assert!(page.contains("data-region=\"0\" data-slots=\"4096\" data-used=\"1024\""));
    assert!(page.contains("1,024 of 4,096 slots in use, 512 of them waiting"));
    assert!(
        page.contains("<i class=\"used\" style=\"width:12.500%\"></i><i class=\"others\" style=\"width:12.500%\"></i>")
    );
    assert_eq!(page.matches("<script").count(), 3);
}

#[test]
fn text_is_escaped() {
    assert_eq!(html::text("<a href='x'>\"&\0\n"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\u{fffd}\n");
}

#[test]
fn slots_are_filled_once() {
    let page = html::fill("[{{one}}{{two}}]", |slot| format!("({slot}{{{{one}}}})"));
    assert_eq!(page, "[(one{{one}})(two{{one}})]");
}

#[test]
fn the_page_stands_alone() {
    let page = report().to_html();
    for reach in ["http:", "https:", "src=", "href=", "url(", "@import", "onclick="] {
        assert!(!page.contains(reach), "the page holds {reach}");
    }
    for script in SCRIPTS {
        assert!(!script.contains("</script") && !script.contains("<!--") && !script.contains("innerHTML"));
    }
}

#[test]
fn long_runs_keep_their_peaks() {
    let mut frames = report().frames;
    frames[777].live_count = 5000;
    let runs = buckets(&frames, 100);
    assert_eq!(runs.len(), 100);
    assert_eq!(runs.iter().map(|run| run.last - run.first + 1).sum::<usize>(), frames.len());
    assert_eq!(runs[777 / 12].most.live_count, 5000);
    assert!(buckets(&[], 100).is_empty());
}

#[test]
fn numbers_read_well() {
    let texts = [0, 1023, 1024, 1536, 10 << 20, 1152 << 20, 123_456_789].map(units::bytes);
    let expected = ["0 B", "1023 B", "1 KiB", "1.50 KiB", "10 MiB", "1.13 GiB", "118 MiB"];
    assert_eq!(texts, expected.map(|text| text.replace(' ', "\u{a0}")));
    assert_eq!([0, 999, 1000, 1_234_567].map(units::count), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!([999, 1500, 4_310_000].map(units::nanoseconds), ["999\u{a0}ns", "1.5\u{a0}µs", "4.3\u{a0}ms"]);
}

#[test]
fn drawings_are_files_of_their_own() {
    let drawings = report().to_svgs();
    let names: Vec<_> = drawings.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["memory-map", "upload-ring", "memory", "retired", "live"]);
    for (name, svg) in &drawings {
        assert!(svg.contains("xmlns=\"http://www.w3.org/2000/svg\"") && svg.contains("<style>"), "{name}");
        for tag in ["svg", "text", "g", "style", "title"] {
            let open = svg.matches(&format!("<{tag}>")).count() + svg.matches(&format!("<{tag} ")).count();
            assert_eq!(open, svg.matches(&format!("</{tag}>")).count(), "{name}: {tag}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
}
