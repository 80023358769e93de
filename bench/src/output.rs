//! Rows of figures: as a table for people, as JSON for programs, and as CSV files, which are the raw data of
//! `docs/performance.md`.

use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Clone)]
pub enum Value {
    Text(String),
    /// A number, and the decimals that the table shows; JSON has the full number.
    Number(f64, usize),
    None,
}

/// One line of a table; hidden columns are only in the JSON.
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

/// Returns a field of a CSV file; empty without a figure.
fn field(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number, decimals) if number.is_finite() => format!("{number:.decimals$}"),
        _ => String::new(),
    }
}

fn cell(value: &Value) -> String {
    let field = field(value);
    if field.is_empty() { "–".into() } else { field }
}

/// Returns the rows as a Markdown table, without their first `skipped` columns.
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

/// Output of tables. Each table is written as soon as it is measured, so an aborted run keeps its results.
pub struct Report {
    csv: Option<PathBuf>,
    json: Option<PathBuf>,
    sections: Map<String, Json>,
}

impl Report {
    /// Creates a report. `csv` is a folder for this machine, which gets one file for each section.
    pub fn new(csv: Option<PathBuf>, json: Option<PathBuf>) -> Self {
        Self { csv, json, sections: Map::new() }
    }

    /// Prints a table and writes it to every file.
    pub fn table(&mut self, section: &str, heading: &str, rows: &[Row], skipped: usize) -> std::io::Result<()> {
        println!("\n{heading}\n{}", table(rows, skipped));
        std::io::stdout().flush()?;
        let of_section = self.sections.entry(section).or_insert_with(|| json!([]));
        of_section.as_array_mut().expect("it was made as one").extend(rows.iter().map(Row::json));
        if let Some(file) = &self.json {
            std::fs::write(file, format!("{:#}\n", Json::Object(self.sections.clone())))?;
        }
        if let Some(folder) = &self.csv {
            std::fs::create_dir_all(folder)?;
            put(&folder.join(section).with_extension("csv"), heading, rows, skipped)?;
        }
        Ok(())
    }
}

/// Writes a table to the file of its section: replaces the table with the same heading, or appends it.
fn put(file: &Path, heading: &str, rows: &[Row], skipped: usize) -> std::io::Result<()> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }?;
    let mut lines = Lines::read(&text)?;
    lines.put(heading, rows, skipped);
    std::fs::write(file, lines.write()?)
}

/// A CSV file of a section: its tables one after another, with the heading of the table first in each line. Tables of
/// one section may have different columns; the missing cells are empty.
struct Lines {
    columns: Vec<String>,
    lines: Vec<Vec<String>>,
}

impl Lines {
    fn read(text: &str) -> std::io::Result<Self> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let mut columns: Vec<_> = reader.headers()?.iter().map(String::from).collect();
        if columns.is_empty() {
            columns.push("table".into());
        }
        let lines = reader.records().map(|line| Ok(line?.iter().map(String::from).collect()));
        Ok(Self { columns, lines: lines.collect::<Result<_, csv::Error>>()? })
    }

    /// Returns the index of the column with this name; adds it, empty in every line, if it is new.
    fn column(&mut self, name: &str) -> usize {
        self.columns.iter().position(|column| column == name).unwrap_or_else(|| {
            self.columns.push(name.into());
            self.lines.iter_mut().for_each(|line| line.push(String::new()));
            self.columns.len() - 1
        })
    }

    fn put(&mut self, heading: &str, rows: &[Row], skipped: usize) {
        let names = rows.first().map_or(&[][..], |row| &row.shown[skipped..]);
        let columns: Vec<_> = names.iter().map(|(name, _)| self.column(name)).collect();
        let at = self.lines.iter().position(|line| line[0] == heading).unwrap_or(self.lines.len());
        self.lines.retain(|line| line[0] != heading);
        let new = rows.iter().map(|row| {
            let mut line = vec![String::new(); self.columns.len()];
            line[0] = heading.into();
            for (column, (_, value)) in columns.iter().zip(&row.shown[skipped..]) {
                line[*column] = field(value);
            }
            line
        });
        self.lines.splice(at..at, new);
    }

    fn write(&self) -> std::io::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&self.columns)?;
        self.lines.iter().try_for_each(|line| writer.write_record(line))?;
        writer.into_inner().map_err(|error| error.into_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(name: &'static str, value: Value) -> Vec<Row> {
        let mut row = Row::new();
        row.push("trace", Value::Text("skipped".into()));
        row.push("by", Value::Text("ours, with a comma".into()));
        row.push(name, value);
        vec![row]
    }

    #[test]
    fn a_table_takes_the_place_of_the_one_of_its_heading() {
        let mut lines = Lines::read("").unwrap();
        lines.put("Growth", &rows("ns", Value::Number(1.0, 1)), 1);
        lines.put("Threads", &rows("pairs", Value::Number(2.0, 0)), 1);
        let mut again = Lines::read(std::str::from_utf8(&lines.write().unwrap()).unwrap()).unwrap();
        again.put("Growth", &rows("ns", Value::None), 1);
        let text = String::from_utf8(again.write().unwrap()).unwrap();
        assert_eq!(text, "table,by,ns,pairs\nGrowth,\"ours, with a comma\",,\nThreads,\"ours, with a comma\",,2\n");
    }
}
