//! Plans with named heaps, pinned offsets or granularity pages.
//!
//! ```text
//!   column heaps    "1 0"    the heaps that the row may use, the preferred one first; empty: all, in order
//!   column pinned   65536    the offset that the row must have, in the first of its heaps
//!   column kind     linear   rows of different kinds share no page (--granularity)
//!   column pool     weights  names of the pools that became the heaps, in dumps with several pools
//!   column again_of 12       a further lifetime of the buffer with the id 12, with the same heap and offset
//!   --heap BYTES    once for each heap; without it, the rows determine the number of heaps, and heaps have no limit
//! ```

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use csv::ByteRecord;
use ringfence_planner::{
    self as planner, Heap, HeapError, HeapItem, HeapOffset, HeapPlan, HeapProblem, Lifetime, Problem, Progress,
};
use serde::Serialize;

use super::input::{self, Input};
use super::{NOT_MET, output};
use crate::args::PlanOptions;
use crate::failure::Failure;
use crate::output as files;
use crate::units::{bytes, count};

/// Maximum number of heaps that rows may name without `--heap`.
const UNBOUNDED_MAX: usize = 64;

/// The figures of a plan in several heaps.
#[derive(Serialize)]
struct Figures {
    input: String,
    rows: usize,
    peak_bytes: u64,
    lower_bound_bytes: u64,
    ratio: f64,
    is_proven: bool,
    heaps: Vec<HeapFigures>,
    /// Sum over the rows: the size of the row in bytes, times the position of its heap in the row's list of heaps (0
    /// for the preferred one).
    fallback_bytes: u64,
    capacity_bytes: Option<u64>,
    is_capacity_met: Option<bool>,
    seconds: f64,
    /// Names of the input's columns that were not read.
    unread_columns: Vec<String>,
}

#[derive(Serialize)]
struct HeapFigures {
    /// Name of the pool that became the heap, if all rows in the heap have the same pool.
    pool: Option<String>,
    capacity_bytes: Option<u64>,
    peak_bytes: u64,
    rows: usize,
}

/// The figures if the rows do not fit into the heaps.
#[derive(Serialize)]
struct NotMet {
    input: String,
    rows: usize,
    heap_bytes: Vec<u64>,
    capacity_bytes: Option<u64>,
    is_capacity_met: bool,
    /// `true` if it is proven that no plan exists.
    is_proven: bool,
    why: String,
    seconds: f64,
}

/// Returns `true` if the input or the options name heaps, pinned offsets or granularity pages.
pub fn are_named(input: &Input, options: &PlanOptions) -> bool {
    let input::Columns { pinned, heaps, kind, .. } = input.columns;
    let pages = options.granularity > 1 && kind.is_some();
    !options.heap.is_empty() || pinned.is_some() || heaps.is_some() || pages
}

/// Plans the rows in heaps, and writes the requested output.
pub fn main(input: &Input, options: &PlanOptions) -> Result<ExitCode, Failure> {
    let heaps = heaps(input, options)?;
    // Without `--heap`, the number of heaps is determined by the rows.
    let is_open = options.heap.is_empty() && !input.is_dump();
    let items = items(input, if is_open { UNBOUNDED_MAX } else { heaps.len() }, heaps.len())?;
    let started = Instant::now();
    let found = HeapProblem::new(&heaps, &items).and_then(|problem| {
        let is_apart = options.capacity.is_none() && items.iter().all(|item| item.classes.len() == 1);
        if is_apart && (input.owners.is_empty() || is_plain(&heaps[0], &items)) {
            return plan_heaps_separately(input, &heaps, &items, options.time_limit);
        }
        let is_low = |progress: &Progress| options.capacity.is_some_and(|capacity| progress.height <= capacity);
        let go_on = |progress: &Progress| !is_low(progress) && started.elapsed() < options.time_limit;
        if input.owners.is_empty() {
            return planner::plan_heaps(&problem, go_on);
        }
        let (buffers, of_rows) = whole_lives(input, &items);
        let found = HeapProblem::new(&heaps, &buffers).and_then(|problem| planner::plan_heaps(&problem, go_on));
        // In this problem, each buffer is alive from the start of its first lifetime to the end of its last. If no plan
        // was found, nothing is proven about the rows. The bound is computed from the rows.
        let mut plan = found.map_err(|error| match error {
            HeapError::NotFound { index, size, heap, end, capacity, .. } => {
                let index = of_rows.iter().position(|&buffer| buffer == index).unwrap_or(0);
                HeapError::NotFound { index, size, heap, end, capacity, is_proven: false }
            }
            _ => HeapError::Stopped { items: items.len() },
        })?;
        plan.offsets = of_rows.iter().map(|&buffer| plan.offsets[buffer]).collect();
        plan.lower_bound = problem.lower_bound();
        plan.is_proven = plan.fallback_bytes == 0 && plan.height() == plan.lower_bound;
        Ok(plan)
    });
    let plan = match found {
        Ok(plan) => plan,
        // If the heaps are too small, the exit code is the same as for an exceeded capacity.
        Err(error) if is_too_small(&error) => {
            not_met(input, options, &error, started.elapsed().as_secs_f64())?;
            return Ok(ExitCode::from(NOT_MET));
        }
        Err(error) => return Err(explain(input, &error).into()),
    };
    let seconds = started.elapsed().as_secs_f64();
    planner::verify_heaps(&heaps, &items, &plan.offsets).map_err(|error| format!("the plan is wrong: {error}"))?;
    let figures = figures(input, options, &heaps, &plan, seconds)?;
    if let Some(path) = &options.report {
        let page = output::page_of_heaps(input, &plan, options.capacity, figures.facts());
        files::write_or_print(path, page.as_bytes())?;
    }
    if let Some(path) = options.output.as_ref().filter(|_| figures.is_capacity_met != Some(false)) {
        files::write_or_print(path, &output::rows_of_heaps(input, &plan)?)?;
    }
    figures.print(options.json, &mut *super::figures_to(options))?;
    Ok(if figures.is_capacity_met == Some(false) { ExitCode::from(NOT_MET) } else { ExitCode::SUCCESS })
}

/// Plans one heap after the other, each with its own bound and a share of the time. Each row must be limited to one
/// heap.
fn plan_heaps_separately(
    input: &Input,
    heaps: &[Heap],
    items: &[HeapItem],
    time_limit: Duration,
) -> Result<HeapPlan, HeapError> {
    let started = Instant::now();
    let nowhere = HeapOffset { heap: 0, offset: 0 };
    let (offsets, heights) = (vec![nowhere; items.len()], Vec::new());
    let mut whole = HeapPlan { offsets, heights, fallback_bytes: 0, lower_bound: 0, is_proven: true };
    for (place, heap) in heaps.iter().enumerate() {
        let own: Vec<usize> = (0..items.len()).filter(|&number| items[number].classes == [heap.class]).collect();
        let alone = |&number: &usize| {
            let item = items[number].clone();
            HeapItem { pinned: item.pinned.map(|at| HeapOffset { heap: 0, ..at }), ..item }
        };
        let part: Vec<HeapItem> = own.iter().map(alone).collect();
        if part.is_empty() {
            whole.heights.push(0);
            continue;
        }
        let (begun, left) = (Instant::now(), time_limit.saturating_sub(started.elapsed()));
        let heap_time = left / (heaps.len() - place) as u32;
        let go_on = || begun.elapsed() < heap_time;
        let plan = if is_plain(heap, &part) {
            plan_plain(input, heap, &own, go_on)
        } else {
            HeapProblem::new(std::slice::from_ref(heap), &part)
                .and_then(|problem| planner::plan_heaps(&problem, |_| go_on()))
        };
        let plan = plan.map_err(|error| match error {
            HeapError::NotFound { index, size, end, capacity, is_proven, .. } => {
                HeapError::NotFound { index: own[index], size, heap: place, end, capacity, is_proven }
            }
            error => error,
        })?;
        for (&number, at) in own.iter().zip(&plan.offsets) {
            whole.offsets[number] = HeapOffset { heap: place, ..*at };
        }
        // If the plan is proven, no plan of this heap is lower, so its height is the bound.
        let bound = if plan.is_proven { plan.height() } else { plan.lower_bound };
        whole.lower_bound = whole.lower_bound.saturating_add(bound);
        whole.is_proven &= plan.is_proven;
        whole.heights.extend(plan.heights);
    }
    Ok(whole)
}

/// Returns `true` if [`Problem`] can plan these rows in `heap`: no row is pinned, and no page separates kinds.
fn is_plain(heap: &Heap, items: &[HeapItem]) -> bool {
    let is_one_kind = items.windows(2).all(|pair| pair[0].kind == pair[1].kind);
    items.iter().all(|item| item.pinned.is_none()) && (heap.granularity <= 1 || is_one_kind)
}

/// Plans these rows in one heap with `planner::plan`, which finds lower plans and higher bounds than
/// `planner::plan_heaps`.
fn plan_plain(input: &Input, heap: &Heap, rows: &[usize], go_on: impl Fn() -> bool) -> Result<HeapPlan, HeapError> {
    let (problem, of_rows) = if input.owners.is_empty() {
        let items: Vec<_> = rows.iter().map(|&row| input.items[row]).collect();
        (Problem::new(&items), (0..rows.len()).collect())
    } else {
        let (buffers, of_rows) = input.buffers(rows.iter().copied());
        (planner::RecurringItem::problem(&buffers), of_rows)
    };
    let capacity = heap.capacity;
    let plan =
        planner::plan(&problem.map_err(HeapError::Item)?, |progress| progress.lower_bound <= capacity && go_on());
    let at = |&buffer: &usize| HeapOffset { heap: 0, offset: plan.offsets[buffer] };
    let offsets: Vec<HeapOffset> = of_rows.iter().map(at).collect();
    let end = |index: usize| offsets[index].offset + input.items[rows[index]].size;
    if let Some(index) = (0..rows.len()).find(|&index| end(index) > capacity) {
        let (size, end, is_proven) = (input.items[rows[index]].size, end(index), plan.lower_bound > capacity);
        return Err(HeapError::NotFound { index, size, heap: 0, end, capacity, is_proven });
    }
    let (is_proven, lower_bound) = (plan.is_proven(), plan.lower_bound);
    Ok(HeapPlan { offsets, heights: vec![plan.height], fallback_bytes: 0, lower_bound, is_proven })
}

/// Returns one item for each buffer, alive from the buffer's first moment to its last. Also returns the index of the
/// buffer of each row.
fn whole_lives(input: &Input, items: &[HeapItem]) -> (Vec<HeapItem>, Vec<usize>) {
    let (buffers, of_rows) = input.buffers(0..items.len());
    let mut first: Vec<Option<HeapItem>> = vec![None; buffers.len()];
    for (item, &buffer) in items.iter().zip(&of_rows) {
        let lives = &buffers[buffer].lifetimes;
        first[buffer].get_or_insert_with(|| {
            let mut item = item.clone();
            let lower = lives.iter().map(|held| held.lower).min().unwrap_or(0);
            let upper = lives.iter().map(|held| held.upper).max().unwrap_or(0);
            item.item.lifetime = Lifetime { lower, upper };
            item
        });
    }
    (first.into_iter().flatten().collect(), of_rows)
}

/// Returns `true` if the plan failed because of the size of the heaps or the time limit.
fn is_too_small(error: &HeapError) -> bool {
    use HeapError::{NoHeap, NotFound, Overload, PinBeyondCapacity, Stopped};
    matches!(error, NotFound { .. } | Stopped { .. } | Overload { .. } | NoHeap { .. } | PinBeyondCapacity { .. })
}

/// Prints the reason why the rows do not fit into the heaps.
fn not_met(input: &Input, options: &PlanOptions, error: &HeapError, seconds: f64) -> io::Result<()> {
    let why = explain(input, error);
    if !options.json {
        eprintln!("ringfence: {why}");
        return Ok(());
    }
    let figures = NotMet {
        input: input.name.clone(),
        rows: input.items.len(),
        heap_bytes: options.heap.clone(),
        capacity_bytes: options.capacity,
        is_capacity_met: false,
        is_proven: !matches!(error, HeapError::NotFound { is_proven: false, .. } | HeapError::Stopped { .. }),
        why,
        seconds,
    };
    let mut out = super::figures_to(options);
    serde_json::to_writer_pretty(&mut *out, &figures)?;
    writeln!(out)
}

/// Returns the heaps. The class of a heap is its index.
fn heaps(input: &Input, options: &PlanOptions) -> Result<Vec<Heap>, Failure> {
    let (named, given) = (named_count(input)?, options.heap.len());
    if input.is_dump() && (1..named).contains(&given) {
        return Err(format!("{}: expected --heap once for each of its {named} pools, found {given}", input.name).into());
    }
    let capacities = match given {
        0 if input.heap_bytes.len() == named => input.heap_bytes.clone(),
        0 => vec![u64::MAX; named],
        _ => options.heap.clone(),
    };
    let granularity = options.granularity;
    let heap = |(class, capacity)| Heap { class, granularity, ..Heap::new(capacity) };
    Ok((0..).zip(capacities).map(heap).collect())
}

/// Returns the number of heaps that the rows name: 1 + the highest number, or 1 if no row names a heap.
fn named_count(input: &Input) -> Result<usize, Failure> {
    let mut count = 1;
    let Some(column) = input.columns.heaps else { return Ok(count) };
    input.each_row(|_, record| {
        let text = String::from_utf8_lossy(record.get(column).unwrap_or_default());
        let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
        count = numbers.filter(|&heap: &usize| heap < UNBOUNDED_MAX).fold(count, |count, heap| count.max(heap + 1));
        Ok(())
    })?;
    Ok(count)
}

/// Returns the rows as items. A row may name heaps below `named_max`; `heap_count` heaps exist.
fn items(input: &Input, named_max: usize, heap_count: usize) -> Result<Vec<HeapItem>, Failure> {
    let mut kinds: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut items = Vec::with_capacity(input.items.len());
    input.each_row(|number, record| {
        let mut held = HeapItem::new(input.items[number]);
        held.classes = classes(input, record, named_max, heap_count)?;
        if let Some(at) = input.columns.kind {
            let next = kinds.len() as u32;
            held.kind = *kinds.entry(record.get(at).unwrap_or_default().to_vec()).or_insert(next);
        }
        if let Some(text) = input.columns.pinned.and_then(|at| record.get(at)).filter(|text| !text.is_empty()) {
            let offset = input::number(text).ok_or_else(|| {
                let text = String::from_utf8_lossy(text).into_owned();
                format!("{}:{}: expected pinned to be an offset, found {text:?}", input.name, input.line(record))
            })?;
            held.pinned = Some(HeapOffset { heap: held.classes[0] as usize, offset });
        }
        items.push(held);
        Ok(())
    })?;
    Ok(items)
}

/// Returns the indices of the heaps that a row may use.
fn classes(input: &Input, record: &ByteRecord, named_max: usize, heap_count: usize) -> Result<Vec<u32>, Failure> {
    let text = input.columns.heaps.and_then(|at| record.get(at)).unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let one = |word: &str| word.parse::<u32>().ok().filter(|&heap| (heap as usize) < named_max);
    let found: Option<Vec<u32>> = text.split_whitespace().map(one).collect();
    match found {
        Some(list) if list.is_empty() => Ok((0..heap_count as u32).collect()),
        Some(list) => Ok(list),
        None => {
            let last = named_max - 1;
            let what = format!("expected heaps to be numbers from 0 to {last} separated by blanks, found {text:?}");
            Err(format!("{}:{}: {what}", input.name, input.line(record)).into())
        }
    }
}

/// Returns the text of the planner's error, with the lines of the rows that it concerns.
fn explain(input: &Input, error: &HeapError) -> String {
    let lines = input.lines();
    let line = |index: usize| lines.get(index).copied().unwrap_or(0);
    let name = &input.name;
    match *error {
        HeapError::Item(ref error) => input.explain(error).to_string(),
        HeapError::NoHeap { index, size, capacity, .. } => {
            format!("{name}:{}: expected one of its heaps to hold {size}, the largest has {capacity}", line(index))
        }
        HeapError::PinMisaligned { index, offset, alignment, .. } => {
            format!("{name}:{}: expected pinned to be a multiple of {alignment}, found {offset}", line(index))
        }
        HeapError::PinBeyondCapacity { index, offset, size, capacity } => {
            format!("{name}:{}: expected {size} at {offset} to end within the heap's {capacity}", line(index))
        }
        HeapError::PinsClash { first, second, heap, granularity } => {
            let page =
                if granularity > 1 { format!(", nor share a page of {granularity} with it") } else { String::new() };
            let (first, second) = (line(first), line(second));
            format!("{name}:{second}: expected a pinned range in heap {heap} that does not overlap line {first}{page}")
        }
        HeapError::Overload { moment, load, capacity } => {
            format!("{name}: at {moment} {load} bytes are alive; the heaps that may hold them have {capacity}")
        }
        HeapError::NotFound { index, size, heap, end, capacity, is_proven } => {
            let proven = if is_proven { "there is no plan" } else { "no plan was found" };
            let line = line(index);
            format!("{name}:{line}: {proven}: {size} would end at {end} in heap {heap}, which has {capacity}")
        }
        ref error => format!("{name}: {error}"),
    }
}

/// Returns, for each heap, the name of the pool that all its rows have in common, if there is one.
fn pools(input: &Input, plan: &HeapPlan) -> Result<Vec<Option<String>>, Failure> {
    let mut pools: Vec<Option<String>> = vec![None; plan.heights.len()];
    let Some(column) = input.columns.pool else { return Ok(pools) };
    input.each_row(|number, record| {
        let heap = plan.offsets[number].heap;
        let name = String::from_utf8_lossy(record.get(column).unwrap_or_default());
        // If the row lists as many names of pools as heaps, takes the name at the position of the row's heap.
        let heaps = input.columns.heaps.and_then(|at| record.get(at)).unwrap_or_default();
        let heaps = String::from_utf8_lossy(heaps);
        let (words, listed) = (name.split_whitespace(), heaps.split_whitespace().count());
        let mut places = heaps.split_whitespace().map(|text| text.parse() == Ok(heap));
        let own = places.position(|is_own| is_own).filter(|_| listed > 1 && words.clone().count() == listed);
        let name = own.and_then(|at| words.clone().nth(at)).map_or(name.clone(), |word| word.to_owned().into());
        let pool = &mut pools[heap];
        // An empty name means that the rows of the heap have different pools.
        match pool {
            None => *pool = Some(name.into_owned()),
            Some(known) if *known != name => known.clear(),
            Some(_) => {}
        }
        Ok(())
    })?;
    Ok(pools.into_iter().map(|pool| pool.filter(|name| !name.is_empty())).collect())
}

fn figures(
    input: &Input,
    options: &PlanOptions,
    heaps: &[Heap],
    plan: &HeapPlan,
    seconds: f64,
) -> Result<Figures, Failure> {
    let pools = pools(input, plan)?;
    let heap = |(place, (heap, &peak_bytes)): (usize, (&Heap, &u64))| HeapFigures {
        pool: pools[place].clone(),
        capacity_bytes: Some(heap.capacity).filter(|&capacity| capacity != u64::MAX),
        peak_bytes,
        rows: plan.offsets.iter().filter(|at| at.heap == place).count(),
    };
    let peak_bytes = plan.height();
    Ok(Figures {
        input: input.name.clone(),
        rows: input.items.len(),
        peak_bytes,
        lower_bound_bytes: plan.lower_bound,
        ratio: peak_bytes as f64 / plan.lower_bound.max(1) as f64,
        is_proven: plan.is_proven,
        heaps: heaps.iter().zip(&plan.heights).enumerate().map(heap).collect(),
        fallback_bytes: u64::try_from(plan.fallback_bytes).unwrap_or(u64::MAX),
        capacity_bytes: options.capacity,
        is_capacity_met: options.capacity.map(|capacity| peak_bytes <= capacity),
        seconds,
        unread_columns: input.unread.clone(),
    })
}

impl Figures {
    /// Returns the rows of the table: label and value.
    fn facts(&self) -> Vec<(String, String)> {
        let both = |number: u64| format!("{} ({})", count(number), bytes(number));
        let proven = if self.is_proven { ", and no plan is better" } else { "" };
        let mut facts = vec![
            ("Rows".to_owned(), count(self.rows as u64)),
            ("Peak".to_owned(), both(self.peak_bytes)),
            ("Lower bound".to_owned(), both(self.lower_bound_bytes)),
            ("Ratio".to_owned(), format!("{:.4}{proven}", self.ratio)),
        ];
        for (place, heap) in self.heaps.iter().enumerate() {
            let of = heap.capacity_bytes.map_or(String::new(), |capacity| format!(" of {}", both(capacity)));
            let rows = if heap.rows == 1 { "1 row".to_owned() } else { format!("{} rows", count(heap.rows as u64)) };
            let pool = heap.pool.as_ref().map_or(String::new(), |name| format!(", pool {name}"));
            facts.push((format!("Heap {place}"), format!("{}{of}, {rows}{pool}", both(heap.peak_bytes))));
        }
        if self.heaps.len() > 1 {
            facts.push(("Fallback".to_owned(), format!("{} (size × position in heaps)", both(self.fallback_bytes))));
        }
        if let (Some(capacity), Some(met)) = (self.capacity_bytes, self.is_capacity_met) {
            let answer = if met { "met" } else { "not met" };
            facts.push(("Capacity".to_owned(), format!("{}, {answer}", both(capacity))));
        }
        facts.push(("Time".to_owned(), format!("{:.3} s", self.seconds)));
        facts.extend(super::unread(&self.unread_columns));
        facts
    }

    fn print(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json {
            serde_json::to_writer_pretty(&mut *out, self)?;
            return writeln!(out);
        }
        for (label, value) in self.facts() {
            writeln!(out, "{}", crate::table::wrapped(&format!("{label:<12} {value}"), 13))?;
        }
        Ok(())
    }
}
