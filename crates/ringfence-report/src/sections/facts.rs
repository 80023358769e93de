//! The table of the run's final figures.

use crate::table::Table;

pub(super) fn html(facts: &[(String, String)]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let table = Table {
        caption: "The run in figures",
        headings: &["Figure", "Value"],
        numbers: &[false, true],
        rows: facts.iter().map(|(label, value)| vec![label.clone(), value.clone()]).collect(),
    };
    table.html()
}
