//! Output of the command: the rows with their offsets, and the page.

use std::path::Path;

use csv::ByteRecord;
use ringfence_planner::{AliasPlan, HeapOffset, HeapPlan};
use ringfence_report::{PlanPage, PlannedRow};

use super::input::{COMMENT, Input};
use crate::failure::Failure;
use crate::units::count;

/// Returns a heading and the rows as CSV, in the order of the input, each with its offset.
pub fn rows(input: &Input, plan: &AliasPlan) -> Result<Vec<u8>, Failure> {
    write(input, 1, |number| HeapOffset { heap: 0, offset: plan.offsets[number] })
}

/// As [`rows`], for a plan in several heaps: adds a column with the heap of each row.
pub fn rows_of_heaps(input: &Input, plan: &HeapPlan) -> Result<Vec<u8>, Failure> {
    write(input, plan.heights.len(), |number| plan.offsets[number])
}

/// Returns the rows with their offsets. The column `heap` is written if there are several heaps, or if the input has it
/// from an earlier plan.
fn write(input: &Input, heap_count: usize, at: impl Fn(usize) -> HeapOffset) -> Result<Vec<u8>, Failure> {
    let added = [(input.columns.offset, "offset"), (input.columns.heap, "heap")];
    let has_heap = heap_count > 1 || input.columns.heap.is_some();
    let added = if has_heap { &added[..] } else { &added[..1] };
    write_with(input, added, |number, column| {
        let at = at(number);
        if column == 0 { at.offset.to_string() } else { at.heap.to_string() }
    })
}

/// Returns the rows with the columns `added`. A column with an index replaces this column of the input; a column
/// without an index is appended. `field(row, column)` returns the value.
fn write_with(
    input: &Input,
    added: &[(Option<usize>, &str)],
    field: impl Fn(usize, usize) -> String,
) -> Result<Vec<u8>, Failure> {
    let text = Vec::with_capacity(input.text.len() * 3 / 2);
    let mut writer = csv::WriterBuilder::new().flexible(true).comment(COMMENT).from_writer(text);
    let mut put = |record: &ByteRecord, own: &dyn Fn(usize) -> String| {
        let texts: Vec<String> = (0..added.len()).map(own).collect();
        let replaced = |(place, field)| {
            let column = added.iter().position(|held| held.0 == Some(place));
            column.map_or(field, |column: usize| texts[column].as_bytes())
        };
        let new = added.iter().zip(&texts).filter(|(held, _)| held.0.is_none()).map(|(_, text)| text.as_bytes());
        writer.write_record(record.iter().enumerate().map(replaced).chain(new))
    };
    put(&input.heading()?, &|column| added[column].1.to_owned())?;
    input.each_row(|number, record| Ok(put(record, &|column| field(number, column))?))?;
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

/// Maximum number of rows on a page. If there are more, the page has those with the largest size × lifetime.
const PAGE_ROWS_MAX: usize = 200_000;

/// Returns the page of a plan in one heap.
pub fn page(input: &Input, plan: &AliasPlan, capacity: Option<u64>, facts: Vec<(String, String)>) -> String {
    let page = PlanPage { height: plan.height, lower_bound: plan.lower_bound, capacity, facts, ..Default::default() };
    with_rows(input, page, |number| plan.offsets[number])
}

/// Returns the page of a plan in several heaps, which are drawn one above the other.
pub fn page_of_heaps(input: &Input, plan: &HeapPlan, capacity: Option<u64>, facts: Vec<(String, String)>) -> String {
    let mut end = 0_u64;
    let begin = |height: &u64| {
        let begin = end;
        end = end.saturating_add(*height);
        begin
    };
    let heaps: Vec<u64> = plan.heights.iter().map(begin).collect();
    let (height, lower_bound) = (plan.height(), plan.lower_bound);
    let page = PlanPage { height, lower_bound, capacity, facts, heaps: heaps.clone(), ..Default::default() };
    with_rows(input, page, |number| heaps[plan.offsets[number].heap] + plan.offsets[number].offset)
}

/// Returns the heading of the page, with the name of the file without its folder.
fn title(input: &str) -> String {
    let name = Path::new(input).file_name().map_or(input.into(), |name| name.to_string_lossy());
    format!("Plan of {name}")
}

fn with_rows(input: &Input, mut page: PlanPage, offset: impl Fn(usize) -> u64) -> String {
    let mut order: Vec<usize> = (0..input.items.len()).collect();
    if order.len() > PAGE_ROWS_MAX {
        let area = |at: &usize| {
            let item = &input.items[*at];
            u128::from(item.size) * u128::from(item.lifetime.upper - item.lifetime.lower)
        };
        order.select_nth_unstable_by_key(PAGE_ROWS_MAX, |at| std::cmp::Reverse(area(at)));
        order.truncate(PAGE_ROWS_MAX);
        order.sort_unstable();
        page.facts.push(("On this page".to_owned(), format!("the {} largest rows", count(PAGE_ROWS_MAX as u64))));
    }
    let mut wanted = order.into_iter().peekable();
    let mut rows = Vec::new();
    let _ = input.each_row(|number, record| {
        if wanted.next_if_eq(&number).is_some() {
            let item = &input.items[number];
            let field = |at| String::from_utf8_lossy(record.get(at).unwrap_or_default());
            let id = field(input.columns.id);
            let name = input.columns.name.map_or_else(|| id.to_string(), |at| format!("{id} {}", field(at)));
            let (lower, upper) = (item.lifetime.lower, item.lifetime.upper);
            rows.push(PlannedRow { name, lower, upper, size: item.size, offset: offset(number) });
        }
        Ok(())
    });
    PlanPage { title: title(&input.name), rows, ..page }.to_html()
}
