//! Rows of figures: as a table for people, as JSON for programs, and as the tables of a page.

use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

#[derive(Clone)]
pub enum Value {
    Text(String),
    /// A number and how many decimals the table shows; JSON has it whole.
    Number(f64, usize),
    None,
}

/// One line of a table; hidden columns appear in JSON alone.
#[derive(Clone, Default)]
pub struct Row {
    shown: Vec<(&'static str, Value)>,
    hidden: Vec<(&'static str, Value)>,
}

impl Row {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, name: &'static str, value: Value) {
        self.shown.push((name, value));
    }

    pub fn hide(&mut self, name: &'static str, value: Value) {
        self.hidden.push((name, value));
    }

    fn json(&self) -> Json {
        let value = |value: &Value| match value {
            Value::Text(text) => json!(text),
            Value::Number(number, _) => json!(number),
            Value::None => Json::Null,
        };
        let columns = self.shown.iter().chain(&self.hidden);
        Json::Object(columns.map(|(name, of)| (name.to_string(), value(of))).collect::<Map<_, _>>())
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number, decimals) if number.is_finite() => format!("{number:.decimals$}"),
        _ => "–".into(),
    }
}

/// The rows as a Markdown table, without their first `skipped` columns.
fn table(rows: &[Row], skipped: usize) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let names: Vec<_> = first.shown[skipped..].iter().map(|(name, _)| name.to_string()).collect();
    let lines: Vec<Vec<_>> =
        rows.iter().map(|row| row.shown[skipped..].iter().map(|(_, value)| cell(value)).collect()).collect();
    let widths: Vec<_> = (0..names.len())
        .map(|at| lines.iter().chain([&names]).map(|line| line[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    let line = |text: &mut String, cells: &[String]| {
        for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            let _ = if at == 0 { write!(text, "| {cell}{pad} ") } else { write!(text, "| {pad}{cell} ") };
        }
        text.push_str("|\n");
    };
    line(&mut text, &names);
    for (at, width) in widths.iter().enumerate() {
        let dashes = "-".repeat(*width);
        let _ = if at == 0 { write!(text, "|-{dashes}-") } else { write!(text, "|-{dashes}:") };
    }
    text.push_str("|\n");
    lines.iter().for_each(|cells| line(&mut text, cells));
    text
}

/// Where tables go, each as soon as it is there: a run that is cut short has shown all that it measured.
pub struct Report {
    markdown: Option<PathBuf>,
    label: String,
    json: Option<PathBuf>,
    sections: Map<String, Json>,
}

impl Report {
    /// `markdown` is a page, in which each table stands between two comments that name it, `label` before the name: which
    /// machine it was.
    pub fn new(markdown: Option<PathBuf>, label: String, json: Option<PathBuf>) -> Self {
        Self { markdown, label, json, sections: Map::new() }
    }

    /// Shows a table, and puts it into every file.
    pub fn table(&mut self, section: &str, heading: &str, rows: &[Row], skipped: usize) -> std::io::Result<()> {
        let text = table(rows, skipped);
        println!("\n{heading}\n{text}");
        std::io::stdout().flush()?;
        let of_section = self.sections.entry(section).or_insert_with(|| json!([]));
        of_section.as_array_mut().expect("it was made as one").extend(rows.iter().map(Row::json));
        if let Some(file) = &self.json {
            std::fs::write(file, format!("{:#}\n", Json::Object(self.sections.clone())))?;
        }
        if let Some(file) = &self.markdown {
            let page = match std::fs::read_to_string(file) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
                read => read,
            }?;
            std::fs::write(file, in_page(&page, &format!("{}{heading}", self.label), heading, &text))?;
        }
        Ok(())
    }
}

/// The page with this table in place of the one of its name; at the end, under a heading, where there is none.
fn in_page(page: &str, name: &str, heading: &str, table: &str) -> String {
    let (start, end) = (format!("<!-- table: {name} -->"), "<!-- end -->");
    let found = page.split_once(&start).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    match found {
        Some((before, after)) => format!("{before}{start}\n{table}{end}{after}"),
        None => format!("{page}\n### {heading}\n\n{start}\n{table}{end}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_the_one_of_its_name() {
        let page = in_page("# Page\n", "gpu: Growth", "Growth", "| old |\n");
        let page = in_page(&page, "Growth", "Growth", "| other |\n");
        let page = in_page(&page, "gpu: Growth", "Growth", "| new |\n");
        assert!(page.starts_with("# Page\n") && page.contains("| new |") && page.contains("| other |"));
        assert!(!page.contains("| old |"));
        assert_eq!(page.matches("### Growth").count(), 2);
    }
}
