//! Tables and lines that fit the width of the terminal.

use std::{env, io};

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Width of output that is not a terminal, in columns.
const WIDTH: usize = 100;
/// Minimum width of any output, in columns.
const WIDTH_MIN: usize = 40;

/// Returns the width of the output in columns: that of the terminal, else the value of the variable `COLUMNS`, else
/// [`WIDTH`]. The result is at least [`WIDTH_MIN`].
pub fn width() -> usize {
    let of_terminal = terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| usize::from(columns.0));
    let named = || env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let width = of_terminal.or_else(named).filter(|width| *width > 0).unwrap_or(WIDTH);
    width.clamp(WIDTH_MIN, usize::from(u16::MAX))
}

/// Returns a table with lines between its cells.
pub fn bordered<const N: usize>(heading: [&str; N], rows: impl IntoIterator<Item = [Cell; N]>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(heading);
    rows.into_iter().for_each(|row| _ = table.add_row(row));
    fitted(table)
}

/// Returns a table without lines.
pub fn plain<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    rows.into_iter().for_each(|row| _ = table.add_row(row));
    fitted(table)
}

/// Returns a right-aligned cell.
pub fn number(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Limits the width of a table to that of the output. Cells are wrapped at blanks only.
fn fitted(mut table: Table) -> Table {
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width() as u16);
    let mut longest = vec![0; table.column_count()];
    for row in table.header().into_iter().chain(table.row_iter()) {
        for (longest, cell) in longest.iter_mut().zip(row.cell_iter()) {
            let content = cell.content();
            let words = content.split([' ', '\n']).map(|word| word.chars().count());
            *longest = words.max().unwrap_or(0).max(*longest);
        }
    }
    for (column, longest) in table.column_iter_mut().zip(longest) {
        let padding = 2;
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(longest as u16 + padding)));
    }
    table
}

/// Returns the table as text, with plain blanks instead of non-breaking ones.
pub fn text(table: &Table) -> String {
    table.trim_fmt().replace('\u{a0}', " ")
}

/// Wraps a line at blanks to the width of the output. All lines except the first begin with `indent` blanks.
pub fn wrapped(line: &str, indent: usize) -> String {
    wrapped_at(width(), line, indent)
}

fn wrapped_at(width: usize, line: &str, indent: usize) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for (number, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if number > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::wrapped_at;

    #[test]
    fn lines_break_at_blanks_and_keep_their_indentation() {
        assert_eq!(wrapped_at(40, "short", 2), "short");
        assert_eq!(wrapped_at(12, "  one two three four", 2), "  one two\n  three four");
        assert_eq!(wrapped_at(8, "a-word-that-is-longer b", 3), "a-word-that-is-longer\n   b");
        assert_eq!(wrapped_at(80, "label        two  blanks", 13), "label        two  blanks");
    }
}
