//! Advice on the order of passes, if the input has the passes of each row.
//!
//! ```text
//!   uses "3w 5 9w"     written in pass 3, read in 5, written again in 9
//!                      3 before 5 before 9; two passes that only read may run in either order
//! ```
//!
//! The first use of a row writes it, even without `w`. In the input, passes run in the order of their numbers. The
//! advice is another order. In it, every read comes after its write, and fewer bytes are alive at the same time, so
//! that the lower bound of all plans is smaller.

use csv::ByteRecord;
use ringfence_planner::{Item, PassGraph, PassItem, PassUse, pass_edges, suggest_order};
use serde::Serialize;

use super::input::Input;
use crate::failure::Failure;

/// Maximum number of passes for which an order is searched, because the search takes quadratic time.
const PASSES_MAX: usize = 1_000;

/// Budget of the search, in examined passes and uses: a second or two. It is not a time, so that the advice is always
/// the same.
const WORK_MAX: u64 = 500_000_000;

/// A suggested order of the passes.
#[derive(Serialize)]
pub struct Advice {
    /// Numbers of the passes, in the suggested order.
    pub order: Vec<u64>,
    pub load_before_bytes: u64,
    pub load_after_bytes: u64,
}

impl Advice {
    /// Returns the advice as a line of text. Returns `None` if no better order was found.
    pub fn line(&self) -> Option<String> {
        let (before, after) = (self.load_before_bytes, self.load_after_bytes);
        let saved = 100.0 * (before - after) as f64 / before.max(1) as f64;
        let order: Vec<String> = self.order.iter().map(u64::to_string).collect();
        (after < before).then(|| {
            let order = order.join(" ");
            format!("with the passes in the order {order} the load is {after} instead of {before}: {saved:.1} % less")
        })
    }
}

/// A use of a row: the number of the pass, and `true` if the pass writes the row.
type Use = (u64, bool);

/// Returns advice on the order of the passes. Returns `None` if the input has no passes, or too many.
pub fn of(input: &Input) -> Result<Option<Advice>, Failure> {
    let Some(column) = input.columns.uses else { return Ok(None) };
    let mut rows: Vec<Vec<Use>> = Vec::with_capacity(input.items.len());
    input.each_row(|_, record| {
        rows.push(uses(input, record, column)?);
        Ok(())
    })?;
    let mut passes: Vec<u64> = rows.iter().flatten().map(|held| held.0).collect();
    passes.sort_unstable();
    passes.dedup();
    if passes.len() > PASSES_MAX {
        return Ok(None);
    }
    let place = |pass: u64| passes.binary_search(&pass).expect("it is one of them");
    let placed = |&(pass, writes): &Use| PassUse { pass: place(pass), writes };
    let edges = |uses: &Vec<Use>| pass_edges(&uses.iter().map(placed).collect::<Vec<_>>());
    let edges: Vec<(usize, usize)> = rows.iter().flat_map(edges).collect();
    let graph = PassGraph::new(passes.len(), &edges)?;
    let item = |(uses, &Item { size, alignment, .. }): (&Vec<Use>, &Item)| PassItem {
        size,
        alignment,
        passes: uses.iter().map(|held| place(held.0)).collect(),
    };
    let items: Vec<PassItem> = rows.iter().zip(&input.items).map(item).collect();
    let today: Vec<usize> = (0..passes.len()).collect();
    // A try examines every pass and every use once. Between two calls of the closure there is at most one try per pass.
    let tried = passes.len() as u64 * (passes.len() + rows.iter().map(Vec::len).sum::<usize>()) as u64;
    let mut calls_left = WORK_MAX / tried.max(1);
    let found = suggest_order(&graph, &items, &today, |_| {
        let goes_on = calls_left > 0;
        calls_left = calls_left.saturating_sub(1);
        goes_on
    });
    Ok(Some(Advice {
        order: found.order.iter().map(|&at| passes[at]).collect(),
        load_before_bytes: found.load_before,
        load_after_bytes: found.load_after,
    }))
}

/// Parses the uses of a row. Fails if there is none, or if one is invalid.
fn uses(input: &Input, record: &ByteRecord, column: usize) -> Result<Vec<Use>, Failure> {
    let text = String::from_utf8_lossy(record.get(column).unwrap_or_default()).into_owned();
    let one = |word: &str| {
        let (digits, writes) = word.strip_suffix('w').map_or((word, false), |digits| (digits, true));
        digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit())).map(|pass| (pass, writes))
    };
    let found: Option<Vec<Use>> = text.split_whitespace().map(one).collect();
    let Some(uses) = found.filter(|uses| !uses.is_empty()) else {
        let line = input.line(record);
        let what = "expected the uses to be numbers of passes separated by blanks, with the suffix w for writes";
        return Err(format!("{}:{line}: {what}, found {text:?}", input.name).into());
    };
    Ok(uses)
}
