//! A chart of passes and offsets with a rectangle for each resource. Resources that share bytes are drawn side by side
//! at the same height. If a rectangle has room, it contains the name of its resource. Otherwise it contains a number,
//! and a list below the chart has the name for this number. The list has at most 24 names.

use std::fmt::Write;

use super::{BOTTOM, Drawing, HEIGHT, LEFT, MARK_COUNT, RIGHT, TOP, WIDTH, axis_labels, shortened};
use crate::axis::ticks;
use crate::chart::Unit;
use crate::html::text;
use crate::units;

/// Maximum number of rectangles, because readers cannot distinguish more. The largest ones are drawn.
const DRAWN_MAX: usize = 400;
/// Number of fill styles.
const LOOK_COUNT: usize = 5;
/// Approximate width of a letter, in points of the drawing.
const LETTER: f64 = 6.6;
/// Maximum number of names in the list below the drawing.
const LISTED_MAX: usize = 24;
const LIST_COLUMNS: usize = 3;
const LIST_ROW: f64 = 15.0;

/// A resource in the passes `from..to` and the bytes `low..high`.
pub(crate) struct Rectangle {
    pub name: String,
    pub note: String,
    pub from: u64,
    pub to: u64,
    pub low: u64,
    pub high: u64,
}

/// Converts passes and bytes to positions in the drawing.
struct Scale {
    pass_count: u64,
    end: u64,
}

impl Scale {
    fn x(&self, pass: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (pass / self.pass_count.max(1) as f64).min(1.0)
    }

    fn y(&self, byte: u64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (byte as f64 / self.end as f64).min(1.0)
    }
}

/// Returns the chart of a heap of `height_bytes` over `pass_count` passes.
pub(crate) fn rectangles(id: &str, title: &str, pass_count: u64, height_bytes: u64, all: &[Rectangle]) -> Drawing {
    let scale = Scale { pass_count, end: Unit::Bytes.scale_end(height_bytes) };
    let mut elements = String::new();
    byte_marks(&mut elements, &scale);
    let mut drawn: Vec<_> = all.iter().enumerate().collect();
    let area = |held: &Rectangle| {
        u128::from(held.to.saturating_sub(held.from)) * u128::from(held.high.saturating_sub(held.low))
    };
    drawn.sort_by_key(|(at, held)| (std::cmp::Reverse(area(held)), *at));
    let left_out = drawn.len().saturating_sub(DRAWN_MAX);
    drawn.truncate(DRAWN_MAX);
    let unnamed: Vec<_> = drawn.iter().filter(|(at, held)| !put(&mut elements, &scale, *at, held)).collect();
    let (names, more) = names_of(unnamed.iter().map(|(_, held)| *held).collect());
    level(&mut elements, &scale, height_bytes);
    axis_labels(&mut elements, "pass", HEIGHT, &ticks(0, pass_count.saturating_sub(1)), |pass| {
        scale.x(pass as f64 + 0.5)
    });
    let height = HEIGHT + list(&mut elements, &scale, &names, more, left_out);
    Drawing { id: id.to_owned(), title: title.to_owned(), height, elements, series: None }
}

fn byte_marks(elements: &mut String, scale: &Scale) {
    for mark in 0..=MARK_COUNT {
        let value = scale.end / MARK_COUNT * mark;
        let y = scale.y(value);
        let _ = write!(
            elements,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{}\"/><text class=\"quiet end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            text(&Unit::Bytes.format(value))
        );
    }
}

/// Draws a rectangle, and its name if the name fits. Returns `true` if the name fits.
fn put(elements: &mut String, scale: &Scale, at: usize, held: &Rectangle) -> bool {
    let (left, top) = (scale.x(held.from as f64), scale.y(held.high));
    let (width, height) = ((scale.x(held.to as f64) - left).max(0.5), (scale.y(held.low) - top).max(0.5));
    let look = at % LOOK_COUNT;
    let _ = write!(
        elements,
        "<g><title>{}</title><rect class=\"held look-{look}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\"/>",
        text(&held.note)
    );
    let letters = held.name.chars().count() as f64;
    let has_room = height > 13.0 && letters * LETTER < width - 8.0;
    if has_room {
        let (x, y) = (left + 4.0, top + height / 2.0 + 4.0);
        let _ = write!(elements, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", text(&held.name));
    }
    elements.push_str("</g>");
    has_room
}

/// Draws the dashed line at the end of the heap, and its explanation above the chart.
fn level(elements: &mut String, scale: &Scale, height_bytes: u64) {
    let (level, right) = (scale.y(height_bytes), WIDTH - RIGHT);
    let _ = write!(
        elements,
        "<path class=\"dashes\" d=\"M{LEFT} {level:.1}H{right}\"/><path class=\"dashes\" d=\"M{LEFT} 32h22\"/>\
         <text x=\"{}\" y=\"36\">size of the heap</text>\
         <text class=\"quiet end\" x=\"{right}\" y=\"36\">colours only distinguish neighbours</text>",
        LEFT + 28.0,
    );
}

/// Returns the names to list below the chart, each with its rectangles, ordered from left to right and upwards; and the
/// number of rectangles whose names do not fit in the list.
fn names_of(mut unnamed: Vec<&Rectangle>) -> (Vec<(&str, Vec<&Rectangle>)>, usize) {
    unnamed.sort_by_key(|held| (held.from, held.low));
    let (mut names, mut more): (Vec<(&str, Vec<&Rectangle>)>, usize) = (Vec::new(), 0);
    for held in unnamed {
        match names.iter().position(|(name, _)| *name == held.name) {
            Some(at) => names[at].1.push(held),
            None if names.len() < LISTED_MAX => names.push((&held.name, vec![held])),
            None => more += 1,
        }
    }
    (names, more)
}

/// Writes the numbers into the rectangles, and the list of names below the chart. Returns the height of the list.
fn list(elements: &mut String, scale: &Scale, names: &[(&str, Vec<&Rectangle>)], more: usize, left_out: usize) -> f64 {
    let rows = names.len().div_ceil(LIST_COLUMNS);
    for (at, (name, all)) in names.iter().enumerate() {
        let number = at + 1;
        for held in all {
            let x = (scale.x(held.from as f64) + scale.x(held.to as f64)) / 2.0;
            let y = (scale.y(held.low) + scale.y(held.high)) / 2.0 + 3.5;
            let _ = write!(elements, "<text class=\"tag\" x=\"{x:.1}\" y=\"{y:.1}\">{number}</text>");
        }
        let (column, row) = (at / rows, at % rows);
        let x = LEFT + (WIDTH - LEFT - RIGHT) / LIST_COLUMNS as f64 * column as f64;
        let y = HEIGHT + 10.0 + LIST_ROW * row as f64;
        let _ = write!(elements, "<text x=\"{x:.1}\" y=\"{y:.1}\">{number} {}</text>", text(&shortened(name)));
    }
    let mut height = LIST_ROW * rows as f64 + if rows > 0 { 6.0 } else { 0.0 };
    let mut notes = Vec::new();
    if more > 0 {
        notes.push(format!("{} more whose names are not listed", units::count(more as u64)));
    }
    if left_out > 0 {
        notes.push(format!("{} smaller ones not drawn", units::count(left_out as u64)));
    }
    if !notes.is_empty() {
        let y = HEIGHT + height + 10.0;
        let _ = write!(elements, "<text class=\"quiet\" x=\"{LEFT}\" y=\"{y:.1}\">{}</text>", notes.join("; "));
        height += LIST_ROW + 6.0;
    }
    height
}

#[cfg(test)]
mod tests {
    use super::{Rectangle, rectangles};

    fn rectangle(name: &str, from: u64, to: u64, low: u64, high: u64) -> Rectangle {
        Rectangle { name: name.into(), note: format!("{name}: note"), from, to, low, high }
    }

    #[test]
    fn every_rectangle_is_named_in_it_or_by_a_number() {
        let all = [
            rectangle("wide", 0, 10, 0, 500),
            rectangle("a name that is too long for a single pass", 2, 3, 500, 900),
            rectangle("flat", 3, 9, 900, 901),
            rectangle("flat", 0, 2, 950, 951),
        ];
        let drawing = rectangles("plan-0", "Plan", 11, 1000, &all);
        let svg = drawing.file();
        assert!(svg.contains(">wide</text>"));
        for listed in [">1 flat</text>", ">2 a name that is too long f…</text>"] {
            assert_eq!(svg.matches(listed).count(), 1, "{listed}: {svg}");
        }
        assert_eq!(svg.matches("class=\"tag\"").count(), 3, "both that are flat have the number of their name");
        assert!(svg.contains("colours only distinguish neighbours"));
        for label in [">pass 0<", ">2<", ">8<", ">10<"] {
            assert!(svg.contains(label), "{label}");
        }
        let names: Vec<_> = (0..60).map(|at| rectangle(&format!("name {at}"), 0, 1, at, at + 1)).collect();
        let svg = rectangles("plan-0", "Plan", 11, 60, &names).file();
        assert!(svg.contains("36 more whose names are not listed"), "{svg}");
    }
}
