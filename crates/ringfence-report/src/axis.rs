//! Labels of an axis of frames, passes or moments.

/// Maximum number of whole steps between the two ends of an axis.
const STEP_COUNT: u64 = 6;

/// Returns the numbers to label from `first` to `last`: the two ends, and between them multiples of a step. The step is
/// 1, 2 or 5 times a power of ten. Multiples that are closer than two thirds of a step to an end are left out.
pub(crate) fn ticks(first: u64, last: u64) -> Vec<u64> {
    let Some(span) = last.checked_sub(first).filter(|span| *span > 0) else { return vec![first] };
    let steps = (0..20).flat_map(|power| [1, 2, 5].map(|digit: u64| digit.checked_mul(10_u64.pow(power))));
    let Some(step) = steps.flatten().find(|step| span / step <= STEP_COUNT) else { return vec![first, last] };
    let is_apart = |at: &u64| {
        let gap = u128::from((at - first).min(last - at));
        3 * gap >= 2 * u128::from(step)
    };
    let begin = first.div_ceil(step).checked_mul(step);
    let between = std::iter::successors(begin, |at| at.checked_add(step)).take_while(|at| *at < last).filter(is_apart);
    std::iter::once(first).chain(between).chain([last]).collect()
}

/// Horizontal anchor of a label's text. The first label starts at its position and the last one ends there, so that
/// both stay inside the chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    /// Returns the anchor of the label with index `at` among `count` labels.
    pub(crate) fn of(at: usize, count: usize) -> Self {
        match at {
            0 => Self::Start,
            _ if at + 1 == count => Self::End,
            _ => Self::Middle,
        }
    }

    /// Returns the CSS class of a label with this anchor in a drawing.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Start => "quiet",
            Self::Middle => "quiet middle",
            Self::End => "quiet end",
        }
    }
}

/// Returns the labels under a chart as HTML. Each label has its position as a share of the width, from 0 to 1.
pub(crate) fn html(labels: &[(f64, String)]) -> String {
    let mark = |(at, (share, label)): (usize, &(f64, String))| {
        let class = match Anchor::of(at, labels.len()) {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        format!("<span class=\"{class}\" style=\"left:{:.2}%\">{}</span>", share * 100.0, crate::html::text(label))
    };
    labels.iter().enumerate().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn labels_are_round_between_the_ends() {
        assert_eq!(ticks(0, 299), [0, 50, 100, 150, 200, 250, 299]);
        assert_eq!(ticks(1, 300), [1, 50, 100, 150, 200, 250, 300]);
        assert_eq!(ticks(0, 11), [0, 2, 4, 6, 8, 11]);
        assert_eq!(ticks(0, 3), [0, 1, 2, 3]);
        assert_eq!(ticks(7, 7), [7]);
        assert_eq!(ticks(9, 3), [9]);
        assert_eq!(ticks(995, 1006), [995, 998, 1000, 1002, 1004, 1006]);
    }

    #[test]
    fn any_span_has_both_ends_and_few_labels() {
        for last in (1..4000).chain([u64::MAX / 3, u64::MAX]) {
            for first in [0, last / 3, last - 1] {
                let found = ticks(first, last);
                assert_eq!((found[0], found[found.len() - 1]), (first, last));
                assert!(found.len() <= 9 && found.is_sorted_by(|a, b| a < b), "{first} to {last}: {found:?}");
            }
        }
    }
}
