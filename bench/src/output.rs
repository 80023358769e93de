//! Rows of figures, as a table for people and as JSON for programs.

use serde_json::{Map, Value as Json, json};
use std::fmt::Write;

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
pub fn table(rows: &[Row], skipped: usize) -> String {
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

pub fn json(sections: &[(&str, Vec<Row>)]) -> Json {
    let sections = sections.iter().map(|(name, rows)| (name.to_string(), rows.iter().map(Row::json).collect()));
    Json::Object(sections.collect())
}
