//! Tables. Most charts have a table with the same numbers, for readers who cannot see the chart or prefer numbers.

use crate::html::text;

/// A table. The first cell of a row is its heading.
pub(crate) struct Table<'a> {
    pub caption: &'a str,
    pub headings: &'a [&'a str],
    /// For each column, `true` if it contains numbers, which are aligned right.
    pub numbers: &'a [bool],
    pub rows: Vec<Vec<String>>,
}

impl Table<'_> {
    /// Returns the table in a box that scrolls sideways on a narrow screen. All cells are escaped.
    pub fn html(&self) -> String {
        let head: String = self.headings.iter().enumerate().map(|(column, name)| self.heading(column, name)).collect();
        let body: String = self.rows.iter().map(|row| self.row(row)).collect();
        format!(
            "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\
             <caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n",
            caption = text(self.caption)
        )
    }

    /// Returns the table inside an element that is closed until a reader opens it.
    pub fn folded(&self) -> String {
        format!("<details><summary>{}</summary>\n{}</details>\n", text(self.caption), self.html())
    }

    fn heading(&self, column: usize, name: &str) -> String {
        format!("<th scope=\"col\"{}>{}</th>", self.class(column), text(name))
    }

    fn row(&self, cells: &[String]) -> String {
        let cells = cells.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("<th scope=\"row\"{}>{}</th>", self.class(0), text(cell)),
            _ => format!("<td{}>{}</td>", self.class(column), text(cell)),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    }

    fn class(&self, column: usize) -> &'static str {
        if self.numbers.get(column) == Some(&true) { " class=\"number\"" } else { "" }
    }
}
