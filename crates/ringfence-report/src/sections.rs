//! The page's sections, one file each. A new section needs a file here and a line in [`of`].

mod absent;
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

/// A section of the page: the identifier for links to it, its heading and its content.
pub(crate) struct Section {
    id: &'static str,
    title: &'static str,
    content: String,
}

impl Section {
    pub(crate) fn html(&self) -> String {
        let Self { id, title, content } = self;
        format!(
            "<section aria-labelledby=\"{id}-title\" id=\"{id}\">\n<h2 id=\"{id}-title\">{title}</h2>\n{content}\
             </section>\n\n"
        )
    }
}

/// Returns the sections that have content. The last section lists the data that the page does not have, and how to get
/// it.
pub(crate) fn of(report: &Report) -> Vec<Section> {
    let Report { snapshot, .. } = report;
    let section = |id, title, content| Some(Section { id, title, content });
    let optional =
        |id, title, content: String| (!content.is_empty()).then_some(()).and_then(|()| section(id, title, content));
    let all = [
        section("heaps", "Heaps", heaps::html(snapshot)),
        section("map-section", "Memory map", map::html(snapshot)),
        section("consumers", "Largest consumers", consumers::html(snapshot)),
        optional("history", "Over time, from the trace", history::html(report.history.as_ref())),
        optional("compare", "Compared", compare::html(report)),
        optional("frames", "Over the frames of the run", run::html(report)),
        optional("rings", "Upload rings", rings::html(&snapshot.rings)),
        optional("descriptors", "Descriptors", descriptors::html(&snapshot.descriptors)),
        optional("calls", "Driver calls", calls::html(report)),
        optional("facts", "The run in figures", facts::html(&report.facts)),
        optional("absent", "Not on this page", absent::html(report)),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the part of the page above the first heading: a note about damage, and the figures.
pub(crate) fn headline(report: &Report, figures: &Figures) -> String {
    damage(report.damage.as_deref(), "file") + &headline::html(figures, report.source, report.peak().is_some())
}

/// Returns the table of contents.
pub(crate) fn contents(sections: &[Section]) -> String {
    let line = |Section { id, title, .. }: &Section| format!("<li><a href=\"#{id}\">{title}</a></li>");
    sections.iter().map(line).collect()
}

/// If the data of a file is incomplete or contradicts itself, returns a note with the reason; otherwise an empty
/// string.
fn damage(why: Option<&str>, of: &str) -> String {
    let line = |why: &str| {
        let why = crate::html::text(why);
        format!(
            "<p class=\"damage\" role=\"alert\">The {of} is damaged, and the page shows the part that could be read: {why}.</p>\n"
        )
    };
    why.map(line).unwrap_or_default()
}

/// Returns the paragraph that replaces an empty table or drawing: the reason why it is empty.
fn nothing(why: &str) -> String {
    format!("<p class=\"nothing\">{why}</p>\n")
}

/// Returns a part of a bar that has `percent` of the bar's length; empty for 0. The style sheet gives each part a
/// minimum width, so that small parts are visible.
fn part(class: &str, percent: f64) -> String {
    if percent <= 0.0 {
        return String::new();
    }
    format!("<i class=\"{class}\" style=\"width:{:.3}%\"></i>", percent.min(100.0))
}
