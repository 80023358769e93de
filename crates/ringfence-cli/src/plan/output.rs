//! What comes out: the rows with their offsets, and the page.

use csv::ByteRecord;
use ringfence::alias::AliasPlan;
use ringfence_report::{PlanPage, PlannedRow};

use super::input::{Input, reader};
use crate::failure::Failure;

/// The rows in their order, each with its offset; the heading too, if there was one.
pub fn rows(input: &Input, plan: &AliasPlan) -> Result<Vec<u8>, Failure> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::with_capacity(input.text.len() * 3 / 2));
    let mut put = |record: &ByteRecord, offset: &[u8]| match input.columns.offset {
        Some(at) => {
            let fields = record.iter().enumerate().map(|(place, field)| if place == at { offset } else { field });
            writer.write_record(fields)
        }
        None => writer.write_record(record.iter().chain([offset])),
    };
    if input.columns.has_heading {
        let mut heading = ByteRecord::new();
        reader(&input.text).read_byte_record(&mut heading)?;
        put(&heading, b"offset")?;
    }
    input.each_row(|number, record| Ok(put(record, plan.offsets[number].to_string().as_bytes())?))?;
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

/// Rows that a page takes: it draws fewer, but the load is that of all of these.
const PAGE_ROWS_MAX: usize = 200_000;

/// The chart of time by offset.
pub fn page(input: &Input, plan: &AliasPlan, capacity: Option<u64>, mut facts: Vec<(String, String)>) -> String {
    let mut order: Vec<usize> = (0..input.items.len()).collect();
    if order.len() > PAGE_ROWS_MAX {
        let area = |at: &usize| {
            let item = &input.items[*at];
            u128::from(item.size) * u128::from(item.lifetime.upper - item.lifetime.lower)
        };
        order.select_nth_unstable_by_key(PAGE_ROWS_MAX, |at| std::cmp::Reverse(area(at)));
        order.truncate(PAGE_ROWS_MAX);
        order.sort_unstable();
        facts.push(("On this page".to_owned(), format!("the {PAGE_ROWS_MAX} largest rows")));
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
            rows.push(PlannedRow { name, lower, upper, size: item.size, offset: plan.offsets[number] });
        }
        Ok(())
    });
    let title = format!("Plan of {}", input.name);
    let (height, lower_bound) = (plan.height, plan.lower_bound);
    PlanPage { title, rows, height, lower_bound, capacity, facts }.to_html()
}
