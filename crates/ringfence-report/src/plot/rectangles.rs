//! Time by offset: a rectangle for each resource, of which two that share bytes stand one behind the other.

use std::fmt::Write;

use super::{BOTTOM, Drawing, HEIGHT, LEFT, MARK_COUNT, RIGHT, TOP, WIDTH};
use crate::chart::Unit;
use crate::html::text;
use crate::units;

/// More cannot be distinguished; the largest are drawn.
const DRAWN_MAX: usize = 400;
/// Kinds of fill.
const LOOK_COUNT: usize = 5;
/// About the width of a letter.
const LETTER: f64 = 6.6;

/// A resource from `from` to before `to`, in the bytes from `low` to before `high`.
pub(crate) struct Rectangle {
    pub name: String,
    pub note: String,
    pub from: u64,
    pub to: u64,
    pub low: u64,
    pub high: u64,
}

/// The drawing, `pass_count` passes wide and `height_bytes` high.
pub(crate) fn rectangles(id: &str, title: &str, pass_count: u64, height_bytes: u64, all: &[Rectangle]) -> Drawing {
    let end = Unit::Bytes.scale_end(height_bytes);
    let x = |pass: u64| LEFT + (WIDTH - LEFT - RIGHT) * (pass as f64 / pass_count.max(1) as f64).min(1.0);
    let y = |byte: u64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (byte as f64 / end as f64).min(1.0);
    let mut elements = String::new();
    for mark in 0..=MARK_COUNT {
        let value = end / MARK_COUNT * mark;
        let _ = write!(
            elements,
            "<path class=\"grid\" d=\"M{LEFT} {:.1}H{}\"/><text class=\"quiet end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            y(value),
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(value) + 4.0,
            text(&Unit::Bytes.format(value))
        );
    }
    let mut drawn: Vec<_> = all.iter().enumerate().collect();
    let area = |held: &Rectangle| {
        u128::from(held.to.saturating_sub(held.from)) * u128::from(held.high.saturating_sub(held.low))
    };
    drawn.sort_by_key(|(at, held)| (std::cmp::Reverse(area(held)), *at));
    drawn.truncate(DRAWN_MAX);
    for (at, held) in &drawn {
        let (left, top) = (x(held.from), y(held.high));
        let (width, height) = ((x(held.to) - left).max(0.5), (y(held.low) - top).max(0.5));
        let look = at % LOOK_COUNT;
        let _ = write!(
            elements,
            "<g><title>{}</title><rect class=\"held look-{look}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>",
            text(&held.note)
        );
        let letters = held.name.chars().count() as f64;
        if height > 13.0 && letters > 0.0 && letters * LETTER < width - 8.0 {
            let (x, y) = (left + 4.0, top + height / 2.0 + 4.0);
            let _ = write!(elements, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", text(&held.name));
        }
        elements.push_str("</g>");
    }
    let level = y(height_bytes);
    let (last, bottom) = (units::count(pass_count.saturating_sub(1)), HEIGHT - 8.0);
    let _ = write!(
        elements,
        "<path class=\"dashes\" d=\"M{LEFT} {level:.1}H{right}\"/><path class=\"dashes\" d=\"M{LEFT} 32h22\"/>\
         <text x=\"{}\" y=\"36\">bytes of the heap</text>\
         <text class=\"quiet\" x=\"{LEFT}\" y=\"{bottom}\">pass 0</text>\
         <text class=\"quiet end\" x=\"{right}\" y=\"{bottom}\">{last}</text>",
        LEFT + 28.0,
        right = WIDTH - RIGHT,
    );
    if drawn.len() < all.len() {
        let left_out = units::count((all.len() - drawn.len()) as u64);
        let middle = WIDTH / 2.0;
        let _ =
            write!(elements, "<text class=\"quiet\" x=\"{middle}\" y=\"{bottom}\">{left_out} smaller not drawn</text>");
    }
    Drawing { id: id.to_owned(), title: title.to_owned(), height: HEIGHT, elements, series: None }
}
