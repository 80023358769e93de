//! The lines of the table that ended the run.

use crate::table::Table;

pub(super) fn html(facts: &[(String, String)]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let table = Table {
        caption: "The run in figures",
        headings: &["What", "Value"],
        numbers: &[false, true],
        rows: facts.iter().map(|(label, value)| vec![label.clone(), value.clone()]).collect(),
    };
    table.html()
}
