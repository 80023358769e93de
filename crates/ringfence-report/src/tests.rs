//! Tests of the page's text: figures, escaping, tables, and that the page makes no network request.

use ringfence_trace::{
    BlockSnapshot, DescriptorSnapshot, DriverCalls, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot,
    TypeStatistics,
};

use crate::frames::buckets;
use crate::{BlockFigures, Compared, Figures, FrameSample, History, Report, SCRIPTS, Source, html, units};

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
    assert_eq!((figures.waste_percent, figures.retired_count), (35.0, Some(3)));
    let none = Some(0);
    let nothing = Figures {
        reserved_bytes_high_water: none,
        retired_count: none,
        calls_made: none,
        calls_saved: none,
        ..Figures::default()
    };
    assert_eq!(Figures::of(&Snapshot::default()), nothing);
}

#[test]
fn high_water_is_never_below_what_is_reserved() {
    let mut snapshot = report().snapshot;
    assert_eq!(Figures::of(&snapshot).reserved_bytes_high_water, Some(2000));
    snapshot.types[0].statistics = TypeStatistics { block_bytes_high_water: 5000, ..Default::default() };
    assert_eq!(Figures::of(&snapshot).reserved_bytes_high_water, Some(5000));
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
    for reach in ["http:", "https:", "src=", "url(", "@import", "onclick="] {
        assert!(!page.contains(reach), "the page holds {reach}");
    }
    assert_eq!(page.matches("href=").count(), page.matches("href=\"#").count(), "links lead to parts of the page");
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
    let expected = ["0 B", "1,023 B", "1 KiB", "1.50 KiB", "10 MiB", "1.13 GiB", "118 MiB"];
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

/// Returns the identifiers that the table of contents links to, and the identifiers of the sections.
fn contents(page: &str) -> (Vec<&str>, Vec<&str>) {
    let between =
        |mark: &str| -> Vec<&str> { page.split(mark).skip(1).filter_map(|rest| rest.split('"').next()).collect() };
    (between("<a href=\"#"), between("-title\" id=\""))
}

#[test]
fn the_table_of_contents_has_every_section_and_none_that_is_empty() {
    let page = report().to_html();
    let (links, sections) = contents(&page);
    assert_eq!(links, sections);
    assert_eq!(links, ["heaps", "map-section", "consumers", "frames", "calls", "facts", "absent"]);
    let bare = Report { snapshot: report().snapshot, history: Some(History::default()), ..Report::default() }.to_html();
    let (links, sections) = contents(&bare);
    assert_eq!(links, sections);
    assert_eq!(links, ["heaps", "map-section", "consumers", "history", "calls", "absent"]);
    for empty in ["No frames were recorded", "No run was recorded", "No trace was recorded"] {
        assert!(!bare.contains(empty), "{empty}");
    }
}

/// For a dump of VMA and a truncated file, calls and high-water marks are shown as unknown, because 0 would be wrong.
#[test]
fn figures_that_the_source_does_not_have_are_unknown() {
    let page = |source| Report { source, frames: Vec::new(), ..report() }.to_html();
    assert!(page(Source::Allocator).contains("data-figure=\"retired_count\" data-value=\"3\">3<"));
    for source in [Source::VmaDump, Source::Part] {
        let page = page(source);
        for name in ["retired_count", "calls_saved"] {
            assert!(page.contains(&format!("data-figure=\"{name}\" data-value=\"\">unknown<")), "{source:?}: {name}");
        }
        assert!(page.contains("the maximum so far is unknown") && !page.contains("Calls as a table"), "{source:?}");
    }
    let figures = Report { source: Source::VmaDump, ..report() }.figures();
    assert_eq!((figures.reserved_bytes_high_water, figures.calls_made), (None, None));
    // A trace counts all calls except waits.
    assert!(page(Source::Trace).contains("Waits for the device</th><td class=\"number\">not in a trace"));
    let later = Compared { snapshot: report().snapshot, source: Source::VmaDump, ..Compared::default() };
    let compared = Report { compared: Some(later), ..report() }.to_html();
    assert!(compared.contains("Retired</th><td class=\"number\">3</td><td class=\"number\">unknown"), "{compared}");
}

#[test]
fn waits_whose_time_was_not_measured_do_not_claim_that_it_was_none() {
    let mut report = report();
    let ring = |wait_count, wait_ns| RingSnapshot { name: "staging".into(), wait_count, wait_ns, ..Default::default() };
    let waited = |ring: RingSnapshot, report: &mut Report| {
        report.snapshot.rings = vec![ring];
        report.to_html()
    };
    assert!(waited(ring(5, 0), &mut report).contains("5</td><td class=\"number\">not measured"));
    assert!(waited(ring(0, 0), &mut report).contains("0</td><td class=\"number\">0\u{a0}ns"));
    assert!(waited(ring(5, 1500), &mut report).contains("5</td><td class=\"number\">1.5\u{a0}µs"));
}

/// If the frames measure one of several rings, the chart shows the high-water mark of that ring. The mark can be above
/// all samples, because frames are sampled only at their ends.
#[test]
fn the_ring_of_the_chart_has_the_high_water_of_the_table() {
    let ring = |name: &str, high| RingSnapshot { name: name.into(), high_water_bytes: high, ..Default::default() };
    let mut report = report();
    report.frames.iter_mut().for_each(|frame| frame.ring_used_bytes = 960 << 10);
    report.snapshot.rings = vec![ring("results", 8 << 20), ring("staging", 1 << 20)];
    report.ring = Some("staging".into());
    let page = report.to_html();
    assert!(page.contains("<h3>Upload ring: staging</h3>") && page.contains("high-water 1\u{a0}MiB"), "{page}");
    report.ring = None;
    let page = report.to_html();
    assert!(page.contains("<h3>Upload rings</h3>") && page.contains("maximum at the end of a frame 960\u{a0}KiB"));
}

#[test]
fn a_heap_that_is_nearly_empty_has_a_bar_that_is_seen() {
    let mut report = report();
    report.snapshot.heaps = vec![HeapSnapshot { bytes: 1 << 40, reserved_bytes: 2000, ..Default::default() }];
    let page = report.to_html();
    let bar =
        page.split_once("data-heap=\"0\"").expect("there is a heap").1.split_once("</div></div>").expect("it ends").0;
    assert!(bar.contains("<i class=\"used\"") && bar.contains("<i class=\"free\""), "{bar}");
    assert!(bar.contains("1.27\u{a0}KiB used, 1.95\u{a0}KiB reserved of 1\u{a0}TiB"), "{bar}");
    let style = page.split_once(".bar i {").expect("its style").1.split('}').next().unwrap_or_default();
    assert!(style.contains("min-width: 3px"), "{style}");
    report.snapshot.heaps[0].reserved_bytes = 0;
    report.snapshot.blocks.clear();
    let page = report.to_html();
    let bar =
        page.split_once("data-heap=\"0\"").expect("there is a heap").1.split_once("</div></div>").expect("it ends").0;
    assert!(!bar.contains("<i "), "an empty heap has no bar parts: {bar}");
}

#[test]
fn charts_have_labels_between_the_ends_of_their_axes() {
    let page = report().to_html();
    let chart =
        page.split_once("id=\"chart-live\"").expect("there is a chart").1.split_once("</figure>").expect("it ends").0;
    for label in ["frame 1<", ">200<", ">1,000<", ">1,200<"] {
        assert!(chart.contains(label), "{label}: {chart}");
    }
    let (_, svg) = report().to_svgs().pop().expect("there are drawings");
    for label in [">frame 1<", ">200<", ">1,000<", ">1,198<"] {
        assert!(svg.contains(label), "{label}");
    }
}

#[test]
fn blocks_of_a_snapshot_without_numbers_are_counted() {
    let json = |numbers: [&str; 2]| {
        let block = |number: &str| {
            format!("{{{number}\"memory_type\":0,\"class\":\"all\",\"dedicated\":false,\"bytes\":8,\"ranges\":[]}}")
        };
        let blocks = numbers.map(block).join(",");
        let mut json =
            serde_json::to_value(Snapshot { version: 1, types: vec![TypeSnapshot::default()], ..Default::default() })
                .expect("JSON");
        json["blocks"] = serde_json::from_str(&format!("[{blocks}]")).expect("JSON");
        let report = Report::from_json(json.to_string().as_bytes()).expect("it is a snapshot");
        report.snapshot.blocks.iter().map(|block| block.number).collect::<Vec<_>>()
    };
    assert_eq!(json(["", ""]), [0, 1]);
    assert_eq!(json(["\"number\":7,", "\"number\":3,"]), [7, 3]);
}

#[test]
fn a_cut_before_the_calls_leaves_them_unknown_and_one_behind_them_does_not() {
    let calls = DriverCalls { allocate_memory: 7, ..Default::default() };
    let whole = Report { snapshot: Snapshot { calls, ..report().snapshot }, frames: Vec::new(), ..report() };
    let json = serde_json::to_string(&whole).expect("JSON");
    let cut = |mark: &str| {
        let at = json.find(mark).expect("it is there");
        Report::from_json(&json.as_bytes()[..at + 3]).expect("blocks are left").figures().calls_made
    };
    assert_eq!(cut("\"retired_count\""), None);
    assert_eq!(cut("\"facts\""), Some(whole.snapshot.calls.made()));
}
