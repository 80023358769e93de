//! Tests of the page's colours, read from its style sheet: colour-blind readers can distinguish them, and text has
//! enough contrast.

use std::collections::HashMap;

const STYLE: &str = include_str!("../../src/page/page.css");
/// The fill colours of maps and charts.
const FILLS: [&str; 5] = ["blue", "sky", "orange", "green", "purple"];

type Color = [f64; 3];

/// Matrices that convert linear light to the perception of each kind of dichromat (Machado, Oliveira and Fernandes
/// 2009, severity 1).
const SIGHTS: [(&str, [Color; 3]); 4] = [
    ("all", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "no red",
        [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]],
    ),
    (
        "no green",
        [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
    ),
    (
        "no blue",
        [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_900]],
    ),
];

/// Returns for each colour variable its value in the light theme and in the dark theme, as linear light.
fn palette() -> HashMap<&'static str, [Color; 2]> {
    let pairs = STYLE.lines().filter_map(|line| {
        let (name, rest) = line.trim().strip_prefix("--")?.split_once(": light-dark(")?;
        let (light, dark) = rest.strip_suffix(");")?.split_once(", ")?;
        Some((name, [linear(light), linear(dark)]))
    });
    pairs.collect()
}

fn linear(hex: &str) -> Color {
    let hex = hex.strip_prefix('#').expect("a colour");
    [0, 2, 4].map(|at| {
        let part = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits")) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    })
}

fn through(matrix: &[Color; 3], color: Color) -> Color {
    matrix.map(|row| row.iter().zip(color).map(|(factor, part)| factor * part).sum::<f64>().clamp(0.0, 1.0))
}

/// Converts linear light to CIELAB under D65.
fn lab([red, green, blue]: Color) -> Color {
    let x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505;
    let y = luminance([red, green, blue]);
    let z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089;
    let [x, y, z] = [x, y, z].map(|part: f64| if part > 0.008_856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn luminance([red, green, blue]: Color) -> f64 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn distance(one: Color, other: Color) -> f64 {
    let [one, other] = [lab(one), lab(other)];
    one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
}

fn contrast(one: Color, other: Color) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

#[test]
fn any_two_fills_are_distinguishable_with_and_without_each_kind_of_colour_blindness() {
    let palette = palette();
    for theme in [0, 1] {
        for (sight, matrix) in &SIGHTS {
            for (at, one) in FILLS.iter().enumerate() {
                for other in &FILLS[..at] {
                    let seen = [one, other].map(|name| through(matrix, palette[*name][theme]));
                    let apart = distance(seen[0], seen[1]);
                    assert!(apart >= 19.0, "theme {theme}, {sight}: {one} and {other} are {apart:.1} apart");
                }
            }
        }
    }
}

#[test]
fn text_and_marks_stand_out_from_what_they_are_on() {
    let palette = palette();
    for theme in [0, 1] {
        let on_card = |name: &str| contrast(palette[name][theme], palette["card"][theme]);
        for (name, least) in [("text", 7.0), ("quiet", 4.5), ("warn", 3.0), ("hit", 7.0)] {
            assert!(on_card(name) >= least, "theme {theme}: {name} at {:.2}", on_card(name));
        }
        // Each fill differs enough from the colour of free space beside it.
        for name in FILLS {
            let apart = distance(palette[name][theme], palette["free"][theme]);
            assert!(apart >= 19.0, "theme {theme}: {name} and free are {apart:.1} apart");
        }
    }
}
