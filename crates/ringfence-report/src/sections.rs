//! The page's sections, one file each. A new one is a file here, a line in `render` and a slot in `page/page.html`.

mod calls;
mod compare;
mod consumers;
mod descriptors;
mod facts;
mod headline;
mod heaps;
pub(crate) mod history;
mod map;
mod rings;
mod run;

use crate::{Figures, Report};

pub(crate) use run::drawings as run_drawings;

/// The content of the slot of this name.
pub(crate) fn render(slot: &str, report: &Report, figures: &Figures) -> String {
    match slot {
        "headline" => damage(report.damage.as_deref(), "file") + &headline::html(figures, report.peak().is_some()),
        "heaps" => heaps::html(&report.snapshot),
        "blocks" => map::html(&report.snapshot),
        "rings" => rings::html(&report.snapshot.rings),
        "descriptors" => descriptors::html(&report.snapshot.descriptors),
        "charts" => run::charts(report),
        "frames" => run::table(&report.frames),
        "consumers" => consumers::html(&report.snapshot),
        "history" => history::html(report.history.as_ref()),
        "compare" => compare::html(&report.snapshot, report.compared.as_ref()),
        "calls" => calls::html(report),
        "facts" => facts::html(&report.facts),
        _ => unreachable!("the page's frame names a slot that nothing fills: {slot}"),
    }
}

/// That what is shown is not all, or not true.
fn damage(why: Option<&str>, of: &str) -> String {
    let line = |why: &str| {
        let why = crate::html::text(why);
        format!("<p class=\"damage\" role=\"alert\">The {of} is damaged; here is what could be read: {why}.</p>\n")
    };
    why.map(line).unwrap_or_default()
}

/// What stands where there is nothing to show.
fn nothing(why: &str) -> String {
    format!("<p class=\"nothing\">{why}</p>\n")
}

/// A part of a bar, as hundredths of its length.
fn part(class: &str, percent: f64) -> String {
    format!("<i class=\"{class}\" style=\"width:{:.3}%\"></i>", percent.clamp(0.0, 100.0))
}
