//! Tests of a plan's page: for each moment, the slider shows figures that equal direct sums over the rows.

use ringfence_report::{PlanPage, PlannedRow};
use serde_json::Value;

use super::{Page, open_html};

const PLANNER: &str = include_str!("planner.html");
/// Maximum number of rows that the page lists for a moment.
const LISTED_MAX: usize = 500;

fn row(name: &str, lower: u64, upper: u64, size: u64, offset: u64) -> PlannedRow {
    PlannedRow { name: name.into(), lower, upper, size, offset }
}

fn five() -> PlanPage {
    PlanPage {
        title: "five".into(),
        rows: vec![
            row("<script>a</script>", 0, 100, 400, 0),
            row("b", 0, 50, 300, 400),
            row("c", 50, 100, 200, 400),
            row("d", 60, 80, 400, 600),
            row("e", 90, 100, 100, 900),
        ],
        height: 1000,
        lower_bound: 1000,
        capacity: None,
        heaps: Vec::new(),
        facts: vec![("Peak".into(), "1000".into())],
    }
}

/// Returns a plan with `many` rows, at offsets that are multiples of 64 bytes.
fn large(many: u64) -> PlanPage {
    let at = |place: u64| row(&format!("row {place}"), place / 100 * 10, place / 100 * 10 + 10, 60, place % 100 * 64);
    let rows = (0..many).map(at).collect();
    PlanPage { title: "large".into(), rows, height: 6400, lower_bound: 6000, capacity: None, ..Default::default() }
}

/// Compares the figures that the slider shows with sums over the rows.
fn compare(page: &Page, plan: &PlanPage) {
    let text = page.root("data-moments").replace("&quot;", "\"").replace("&nbsp;", "\u{a0}");
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let moments: Vec<Value> = serde_json::from_str(&text).expect("the page's script wrote it");
    assert!(moments.len() > 3);
    for moment in moments {
        let says: Vec<u64> = moment["says"].as_array().expect("a list").iter().map(number).collect();
        let time = says[0];
        let mut alive: Vec<_> = plan.rows.iter().filter(|row| (row.lower..row.upper).contains(&time)).collect();
        alive.sort_by_key(|row| row.offset);
        let used: u64 = alive.iter().map(|row| row.size).sum();
        let mut gap = plan.height - alive.last().map_or(0, |row| row.offset + row.size);
        alive.windows(2).for_each(|pair| gap = gap.max(pair[1].offset - pair[0].offset - pair[0].size));
        gap = gap.max(alive.first().map_or(0, |row| row.offset));
        assert_eq!(says, [time, alive.len() as u64, used, plan.height - used, gap], "{}", plan.title);
        let listed = moment["listed"].as_array().expect("a list");
        assert_eq!(listed.len(), alive.len().min(LISTED_MAX));
        for (line, row) in listed.iter().zip(alive) {
            assert_eq!(line[0], row.name.as_str());
            assert_eq!(line[1].as_str().expect("a text").replace(',', ""), row.offset.to_string());
        }
    }
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("a number")
}

#[test]
fn the_slider_says_what_is_alive_at_each_moment_of_five_rows() {
    let plan = five();
    let Some(page) = open_html("plan-five", &plan.to_html(), PLANNER) else { return };
    compare(&page, &plan);
    assert!(page.root("data-first").contains("60"), "it opens at the fullest moment: {}", page.root("data-first"));
    assert!(page.root("data-tip").starts_with("&lt;script&gt;a"), "{}", page.root("data-tip"));
    assert!(page.root("data-tip").contains("offset 0 to 400"), "{}", page.root("data-tip"));
    assert_eq!(page.root("data-clicked"), "50");
    assert_eq!(page.root("data-view"), "250 0 500 280");
    assert_eq!(page.root("data-ends"), "25 40 50 60 75");
    assert_eq!(page.root("data-back"), "0 0 1000 560");
    let ink: f64 = page.root("data-ink").parse().expect("a share");
    // The area of the five rectangles (400 x 100, 300 x 50, 200 x 50, 400 x 20 and 100 x 10 of 1000 x 100), minus a
    // pixel between neighbours.
    assert!((ink - 0.74).abs() < 0.02, "{ink}");
}

#[test]
fn thirty_thousand_rows_are_drawn_and_read_too() {
    let plan = large(30_000);
    let Some(page) = open_html("plan-large", &plan.to_html(), PLANNER) else { return };
    compare(&page, &plan);
    let ink: f64 = page.root("data-ink").parse().expect("a share");
    assert!(ink > 0.8, "{ink}");
    println!("ready after {} ms in the browser", page.root("data-ready-ms"));
}

#[test]
fn a_plan_of_nothing_opens_and_moments_that_a_script_would_round_are_texts() {
    assert!(
        open_html("plan-none", &PlanPage::default().to_html(), "").is_none_or(|page| page.dom.contains("Largest rows"))
    );
    let late = row("late", u64::MAX - 1, u64::MAX, 8, 0);
    let plan = PlanPage { rows: vec![row("early", 0, 1, 8, 0), late], height: 8, lower_bound: 8, ..Default::default() };
    let Some(page) = open_html("plan-late", &plan.to_html(), "<script>goTo(2)</script>") else { return };
    assert_eq!(page.value("id=\"at-time\""), (u64::MAX - 1).to_string());
}

#[test]
fn offsets_of_several_heaps_are_shown_from_where_each_begins() {
    let plan = PlanPage { heaps: vec![0, 400], ..five() };
    let extra = "<script>document.documentElement.dataset.places = [...document.querySelectorAll('#alive td:nth-child(2)')]\
                 .map((cell) => cell.textContent).join('; ');</script>";
    let html = plan.to_html();
    assert!(html.contains("heap 1, 500<"), "the table that needs no script");
    let Some(page) = open_html("plan-heaps", &html, extra) else { return };
    assert_eq!(page.value("id=\"at-gap\""), "0");
    let apart =
        PlanPage { heaps: vec![0, 700], rows: vec![row("low", 0, 1, 400, 0), row("high", 0, 1, 100, 900)], ..five() };
    let Some(gaps) = open_html("plan-gaps", &apart.to_html(), "") else { return };
    assert_eq!(gaps.value("id=\"at-gap\""), "300", "not the 500 between the two");
    assert_eq!(page.root("data-places"), "heap 0, 0; heap 1, 0; heap 1, 200");
}
