//! Tests of the page in a real browser: the page's script runs without an error and shows the figures of the snapshot.
//!
//! If there is no browser, the tests print a note and pass, unless `RINGFENCE_REQUIRE_BROWSER` is set.

use crate::made_up;
mod plan;
mod tables;
use crate::traced;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use ringfence_report::{Figures, History, Report};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A script that acts like a reader of the page, and writes the results into attributes of the root element.
const VISITOR: &str = include_str!("browser/visitor.html");

#[test]
fn says_the_figures_of_the_snapshot() {
    let report = made_up::report(40, 3000, 300);
    let Some(page) = open("figures", &report, "") else { return };
    let figures = Figures::of(&report.snapshot);
    assert_eq!((figures.block_count, figures.allocation_count), (40, 3000));
    let expected = [
        ("block_count", figures.block_count),
        ("allocation_count", figures.allocation_count),
        ("used_bytes", figures.used_bytes),
        ("reserved_bytes", figures.reserved_bytes),
    ];
    for (name, value) in expected {
        assert_eq!(page.value(&format!("data-figure=\"{name}\"")), value.to_string(), "in the HTML: {name}");
        assert_eq!(page.value(&format!("data-map=\"{name}\"")), value.to_string(), "from the script: {name}");
    }
    let [written, drawn] = ["data-figure", "data-map"].map(|kind| page.text(&format!("{kind}=\"used_bytes\"")));
    assert_eq!(written, drawn, "Rust and JavaScript write a number of bytes alike");
    assert_eq!(page.dom.matches("class=\"block\"").count(), 40);
}

#[test]
fn draws_every_block_to_scale() {
    let report = made_up::report(40, 3000, 300);
    let Some(page) = open("drawing", &report, include_str!("browser/painter.html")) else { return };
    for (index, block) in report.snapshot.blocks.iter().enumerate() {
        let drawn: f64 = page.root(&format!("data-inked-{index}")).parse().expect("a share of the row");
        let used = 1.0 - block.free_bytes() as f64 / block.bytes as f64;
        // Each range is drawn one pixel shorter, so that neighbours can be distinguished. Ranges smaller than a pixel
        // are drawn too.
        assert!((drawn - used).abs() < 0.15, "block {index}: {drawn} drawn, {used} used");
    }
}

#[test]
fn answers_keys_and_searches() {
    let report = made_up::report(40, 3000, 300);
    let Some(page) = open("keys", &report, VISITOR) else { return };
    let snapshot = &report.snapshot;
    let in_type_order = |place: usize| {
        let blocks = (0..3).flat_map(|kind| snapshot.blocks.iter().filter(move |block| block.memory_type == kind));
        blocks.clone().nth(place).expect("there are forty blocks")
    };
    let last = in_type_order(0).ranges.len() - 1;
    assert_eq!(page.root("data-last-range"), last.to_string());
    assert!(page.root("data-tip").starts_with(&in_type_order(0).ranges[last].name));
    assert_eq!(page.root("data-arrived"), "1");
    let number = in_type_order(1).number;
    assert_eq!(page.root("data-listed-of"), format!("Ranges of block #{number}"), "the block's number, as in a trace");
    assert_eq!(page.root("data-listed"), in_type_order(1).ranges.len().min(200).to_string());
    assert!(page.root("data-chart").starts_with("frame 1, in use: "), "{}", page.root("data-chart"));
    assert_eq!(page.root("data-theme"), "light");
    let names = snapshot.blocks.iter().flat_map(|block| &block.ranges).map(|range| range.name.to_lowercase());
    let found = names.filter(|name| name.contains("script>")).count();
    assert!(found > 0, "no hostile name was made up");
    assert_eq!(page.value("id=\"found\""), found.to_string());
}

#[test]
fn opens_with_nothing_in_it() {
    let Some(page) = open("empty", &Report::default(), "") else { return };
    assert_eq!(page.value("data-figure=\"reserved_bytes\""), "0");
}

#[test]
fn shows_a_trace_over_time_and_another_snapshot() {
    let mut report = made_up::report(40, 3000, 300);
    report.history = Some(made_up::history(500, 2000));
    report.compared = Some(made_up::compared());
    let Some(page) = open("history", &report, include_str!("browser/contents.html")) else { return };
    let lifetimes = &report.history.as_ref().expect("it was put there").lifetimes;
    let left = lifetimes.iter().filter(|one| one.retired.is_none() && one.freed.is_none()).count();
    assert_eq!(page.value("data-figure=\"left_count\""), left.to_string());
    assert_eq!(page.dom.matches("<rect class=\"life\"").count(), 41, "forty bars and the key");
    assert_eq!(page.dom.matches("<rect class=\"held").count(), 10, "the resources of the plan");
    assert_eq!(page.dom.matches("class=\"tag\"").count(), 6, "those whose names do not fit have numbers");
    assert!(page.dom.contains("Aliasing plan 1, heap 0 (frame 1): "));
    let [reading, links, dead] = ["percent", "links", "dead"].map(|name| page.root(&format!("data-{name}")));
    assert!(
        reading.contains("free share of the blocks: 30&nbsp;%")
            || reading.contains("free share of the blocks: 30\u{a0}%"),
        "{reading}"
    );
    assert_eq!((links, dead), ("10", ""), "each link of the contents leads somewhere");
    assert_eq!(page.value("data-figure=\"move_count\""), "2");
    for drawing in ["heap-0", "fragmentation", "ranges", "lifetimes", "ring-0", "plan-0"] {
        assert!(page.dom.contains(&format!("id=\"drawing-{drawing}\"")), "{drawing}");
    }
    assert!(!page.dom.contains("drawing-heap-1"), "a heap without memory objects");
    assert!(page.dom.contains("Changes by name prefix"));
    assert!(
        page.text("class=\"damage\"")
            .starts_with("The trace is damaged, and the page shows the part that could be read")
    );
}

/// The values of descriptors and transient objects, read frame by frame with the keyboard, equal those of the trace.
#[test]
fn descriptors_and_transient_objects_over_time_are_those_of_the_trace() {
    let trace = traced::frames(12);
    let (history, snapshot) = History::read(&trace[..]).expect("it is a trace");
    assert_eq!(history.damage, None);
    let report = Report { snapshot, history: Some(history), ..Report::default() };
    let Some(page) = open("descriptors", &report, include_str!("browser/reader.html")) else { return };
    let drawn = page.root("data-drawn").replace("&quot;", "\"").replace("&nbsp;", "\u{a0}");
    let drawn: Vec<serde_json::Value> = serde_json::from_str(&drawn).expect("the page's script wrote it");
    let texts = |id: &str| {
        let drawing = drawn.iter().find(|drawing| drawing["id"] == format!("drawing-{id}").as_str());
        let drawing = drawing.unwrap_or_else(|| panic!("{id} cannot be read"));
        let texts = drawing["texts"].as_array().expect("a list").iter();
        texts.map(|text| text.as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    let moments = traced::moments(&trace);
    assert_eq!(moments.len(), 13, "twelve frames and the end");
    assert!(
        moments.iter().any(|moment| moment.visible.used_count > 9) && moments[1] != moments[8],
        "something happens"
    );
    let (visible, cpu, transients) = (texts("descriptors-0"), texts("descriptors-1"), texts("transients"));
    for (at, moment) in moments.iter().enumerate() {
        let frame = moment.frame;
        let traced::Moment { visible: held, cpu: other, transient_bytes, .. } = moment;
        let expected = format!(
            "frame {frame}, in use: {}, for single frames: {}, slots: {}",
            held.used_count, held.frame_count, held.slot_count
        );
        assert_eq!(visible[at], expected);
        assert_eq!(cpu[at], format!("frame {frame}, in use: {}, slots: {}", other.used_count, other.slot_count));
        let mib = transient_bytes >> 20;
        let text = if mib == 0 { "0\u{a0}B".to_owned() } else { format!("{mib}\u{a0}MiB") };
        assert_eq!(transients[at], format!("frame {frame}, size without aliasing: {text}"));
    }
    assert_eq!(page.value("data-figure=\"transient_count\""), "3");
    for name in ["depth", "bloom", "blurred"] {
        assert!(page.dom.contains(name), "{name} lies in a transient heap");
    }
    let svgs = report.to_svgs();
    for name in ["descriptors-0", "descriptors-1", "transients"] {
        let (_, svg) = svgs.iter().find(|(id, _)| id == name).expect("each chart has a file");
        assert!(svg.starts_with("<?xml") && svg.contains("class=\"area\""), "{name}");
    }
}

#[test]
fn opens_a_hundred_thousand_ranges() {
    let mut report = made_up::report(400, 100_000, 20_000);
    report.history = Some(made_up::history(20_000, 20_000));
    let start = Instant::now();
    let bytes = report.to_html().len();
    println!("written in {:?}: {bytes} bytes", start.elapsed());
    let Some(page) = open("large", &report, "") else { return };
    assert_eq!(page.value("data-map=\"allocation_count\""), "100000");
    println!("ready after {} ms in the browser", page.root("data-ready-ms"));
}

/// A page, after the browser has run its script.
struct Page {
    dom: String,
}

impl Page {
    /// Returns the `data-value` of the element whose tag contains `mark`.
    fn value(&self, mark: &str) -> &str {
        attribute(self.tag(mark), "data-value")
    }

    /// Returns the text of the element whose tag contains `mark`.
    fn text(&self, mark: &str) -> &str {
        let rest = self.dom.split_once(mark).and_then(|(_, rest)| rest.split_once('>')).expect("the tag ends").1;
        rest.split('<').next().unwrap_or_default()
    }

    /// Returns an attribute of the page's root element.
    fn root(&self, name: &str) -> &str {
        attribute(self.tag("<html"), name)
    }

    fn tag(&self, mark: &str) -> &str {
        let at = self.dom.find(mark).unwrap_or_else(|| panic!("the page holds no {mark}"));
        self.dom[at..].split('>').next().unwrap_or_default()
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let start = format!("{name}=\"");
    let value = tag.split_once(&start).and_then(|(_, rest)| rest.split('"').next());
    value.unwrap_or_else(|| panic!("{tag} has no {name}"))
}

/// Opens the page of `report` with the HTML `extra` at its end, and checks that no error occurred. Returns `None` if
/// there is no browser.
fn open(name: &str, report: &Report, extra: &str) -> Option<Page> {
    open_html(name, &report.to_html(), extra)
}

/// As [`open`], for a given HTML text.
fn open_html(name: &str, html: &str, extra: &str) -> Option<Page> {
    let Some(browser) = browser() else {
        assert!(env::var_os("RINGFENCE_REQUIRE_BROWSER").is_none(), "no browser on PATH: {BROWSERS:?}");
        println!("skipped: no browser on PATH");
        return None;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target's folder can be written");
    let path = folder.join("report.html");
    fs::write(&path, [html, extra].concat()).expect("the target's folder can be written");
    let (dom, log) = visit(&browser, &path, &folder.join("profile"));
    let page = Page { dom };
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "the browser complained: {complaints:?}");
    assert_eq!(page.root("data-ready"), "yes");
    assert!(!page.tag("<html").contains("data-errors"), "an error: {}", page.tag("<html"));
    assert!(!page.tag("<html").contains("data-hacked"), "a name was run as a script");
    Some(page)
}

fn browser() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    let all = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|path| path.is_file())
}

/// Returns the document after the page's script has run, and the browser's log.
fn visit(browser: &Path, page: &Path, profile: &Path) -> (String, String) {
    let arguments = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync \
                     --disable-background-networking --disable-component-update --disable-dev-shm-usage \
                     --enable-logging=stderr --virtual-time-budget=4000 --window-size=1280,2400 --dump-dom";
    let run = Command::new(browser)
        .args(arguments.split_whitespace())
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser starts");
    let log = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "the browser failed: {log}");
    (String::from_utf8_lossy(&run.stdout).into_owned(), log)
}
