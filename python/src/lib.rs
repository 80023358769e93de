//! `ringfence-alias` for Python: plans, checked before they are returned.

use std::time::{Duration, Instant};

use ::ringfence_alias as alias;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// How often Ctrl-C is listened for.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// A buffer: when it is alive, its size, and its alignment if it has one of its own.
#[derive(FromPyObject)]
enum Buffer {
    Aligned(u64, u64, u64, u64),
    Plain(u64, u64, u64),
}

/// Offsets, with the proof of how good they are.
#[pyclass(frozen, get_all, module = "ringfence_alias")]
struct Plan {
    /// Of each buffer, in the order given, where it begins; the same tuple each time.
    offsets: Py<PyTuple>,
    /// What the plan needs: the highest end.
    height: u64,
    /// The largest sum of sizes alive at once.
    load: u64,
    /// What no plan is lower than.
    lower_bound: u64,
    /// Whether no plan is lower than this one.
    is_proven: bool,
}

/// A heap that items may lie in.
#[pyclass(frozen, from_py_object, module = "ringfence_alias")]
#[derive(Clone)]
struct Heap(alias::Heap);

/// An item, and which heaps it may lie in.
#[pyclass(frozen, from_py_object, module = "ringfence_alias")]
#[derive(Clone)]
struct Item(alias::HeapItem);

/// Where each item lies: heap and offset.
#[pyclass(frozen, get_all, module = "ringfence_alias")]
struct HeapPlan {
    /// Of each item, in the order given, the heap and the offset in it; the same tuple each time.
    offsets: Py<PyTuple>,
    /// Of each heap its highest end.
    heights: Py<PyTuple>,
    /// The sum of these.
    height: u64,
    /// Sizes of items, each as often as classes stand before the one it got in its list.
    fallback_bytes: u128,
    /// What no plan's heaps are lower than in total.
    lower_bound: u64,
    /// Whether no plan is better.
    is_proven: bool,
    /// Planned again: how many items lie where they lay.
    kept_count: Option<usize>,
    /// Planned again: whether most of those that had a place lie there still.
    has_kept_most: Option<bool>,
}

/// What lies where it lay.
struct Kept {
    count: usize,
    most: bool,
}

/// As Python writes it.
fn bool_repr(is_so: bool) -> &'static str {
    if is_so { "True" } else { "False" }
}

#[pymethods]
impl Plan {
    fn __repr__(&self, py: Python<'_>) -> String {
        let Self { offsets, height, load, lower_bound, is_proven } = self;
        let (count, is_proven) = (offsets.bind(py).len(), bool_repr(*is_proven));
        format!(
            "<Plan of {count} buffers: height={height}, load={load}, lower_bound={lower_bound}, is_proven={is_proven}>"
        )
    }
}

#[pymethods]
impl HeapPlan {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (count, heights) = (self.offsets.bind(py).len(), self.heights.bind(py).repr()?);
        let Self { fallback_bytes, lower_bound, .. } = self;
        let is_proven = bool_repr(self.is_proven);
        let kept = self.kept_count.map(|count| format!(", kept_count={count}")).unwrap_or_default();
        Ok(format!(
            "<HeapPlan of {count} items: heights={heights}, fallback_bytes={fallback_bytes}, lower_bound={lower_bound}, \
             is_proven={is_proven}{kept}>"
        ))
    }
}

#[pymethods]
impl Heap {
    #[new]
    #[pyo3(signature = (capacity, *, class_ = 0, alignment = 1 << 62, granularity = 1))]
    fn new(capacity: u64, class_: u32, alignment: u64, granularity: u64) -> Self {
        Self(alias::Heap { class: class_, capacity, alignment, granularity })
    }

    fn __repr__(&self) -> String {
        let alias::Heap { class, capacity, alignment, granularity } = self.0;
        format!("Heap({capacity}, class_={class}, alignment={alignment}, granularity={granularity})")
    }
}

#[pymethods]
impl Item {
    #[new]
    #[pyo3(signature = (size, lower, upper, *, alignment = 1, kind = 0, classes = vec![0], pinned = None))]
    fn new(
        size: u64,
        lower: u64,
        upper: u64,
        alignment: u64,
        kind: u32,
        classes: Vec<u32>,
        pinned: Option<(usize, u64)>,
    ) -> Self {
        let item = alias::Item::new(size, lower, upper).aligned(alignment);
        Self(alias::HeapItem { item, kind, classes, pinned: pinned.map(place) })
    }

    fn __repr__(&self) -> String {
        let alias::HeapItem { item, kind, classes, pinned } = &self.0;
        let pinned = pinned.map_or_else(|| "None".to_owned(), |at| format!("({}, {})", at.heap, at.offset));
        let alias::Lifetime { lower, upper } = item.lifetime;
        let (size, alignment) = (item.size, item.alignment);
        format!(
            "Item({size}, {lower}, {upper}, alignment={alignment}, kind={kind}, classes={classes:?}, pinned={pinned})"
        )
    }
}

fn place((heap, offset): (usize, u64)) -> alias::HeapOffset {
    alias::HeapOffset { heap, offset }
}

fn refused(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Each of a sequence; what is not as expected is named by its place.
fn each<'py, T: FromPyObjectOwned<'py>>(given: &Bound<'py, PyAny>, what: &str, expected: &str) -> PyResult<Vec<T>> {
    let one = |(place, given): (usize, Bound<'py, PyAny>)| {
        given.extract::<T>().map_err(|_| {
            let found = given.repr().map_or_else(|_| "something else".to_owned(), |found| found.to_string());
            PyTypeError::new_err(format!("{what} {place}: expected {expected}, found {found}"))
        })
    };
    given.extract::<Vec<Bound<'py, PyAny>>>()?.into_iter().enumerate().map(one).collect()
}

fn buffers_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<Buffer>> {
    each(given, "buffer", "(lower, upper, size) or (lower, upper, size, alignment), numbers from 0 to 2**64 - 1")
}

/// What says where an item lies.
const PLACE: &str = "(heap, offset), numbers from 0 to 2**64 - 1";

/// As planner's items; what says no alignment has the one given.
fn items(buffers: Vec<Buffer>, alignment: u64) -> Vec<alias::Item> {
    let item = |buffer| match buffer {
        Buffer::Aligned(lower, upper, size, own) => alias::Item::new(size, lower, upper).aligned(own),
        Buffer::Plain(lower, upper, size) => alias::Item::new(size, lower, upper).aligned(alignment),
    };
    buffers.into_iter().map(item).collect()
}

/// Says whether to go on: until the time is over, or a signal was raised.
struct Clock {
    started: Instant,
    limit: Duration,
    listened: Instant,
    raised: Option<PyErr>,
}

impl Clock {
    fn new(seconds: f64) -> PyResult<Self> {
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|_| PyValueError::new_err(format!("expected a number of seconds, found {seconds}")))?;
        let started = Instant::now();
        Ok(Self { started, limit, listened: started, raised: None })
    }

    fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        if now - self.listened >= SIGNALS_EVERY {
            self.listened = now;
            self.raised = self.raised.take().or_else(|| Python::attach(|py| py.check_signals()).err());
        }
        self.raised.is_none() && now - self.started < self.limit
    }
}

/// Plans buffers of (lower, upper, size) or (lower, upper, size, alignment): alive from lower until before upper.
///
/// Searches until the plan is proven the lowest, it is no higher than `capacity` or proven that none is, or `time_limit` seconds
/// are over; the first plan is always finished. Raises ValueError if a buffer cannot be planned.
#[pyfunction]
#[pyo3(signature = (buffers, *, alignment = 1, capacity = None, time_limit = 1.0))]
fn plan(
    py: Python<'_>,
    buffers: &Bound<'_, PyAny>,
    alignment: u64,
    capacity: Option<u64>,
    time_limit: f64,
) -> PyResult<Plan> {
    let items = items(buffers_of(buffers)?, alignment);
    let mut clock = Clock::new(time_limit)?;
    let found = py.detach(|| {
        let problem = alias::Problem::new(&items).map_err(refused)?;
        // Within the capacity, or above it whatever the plan.
        let is_decided = |progress: &alias::Progress| {
            capacity.is_some_and(|capacity| progress.height <= capacity || progress.lower_bound > capacity)
        };
        let found = alias::plan(&problem, |progress| !is_decided(progress) && clock.goes_on());
        alias::verify(&items, &found.offsets, found.height).map_err(refused)?;
        Ok::<_, PyErr>(found)
    })?;
    if let Some(raised) = clock.raised {
        return Err(raised);
    }
    let is_proven = found.is_proven();
    let alias::AliasPlan { offsets, height, load, lower_bound } = found;
    let offsets = PyTuple::new(py, offsets)?.unbind();
    Ok(Plan { offsets, height, load, lower_bound, is_proven })
}

/// Proves a plan: no two buffers share bytes while both are alive, each is aligned and ends within the capacity.
/// Raises ValueError with the first that does not.
#[pyfunction]
#[pyo3(signature = (buffers, offsets, capacity, *, alignment = 1))]
fn verify(
    py: Python<'_>,
    buffers: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    capacity: u64,
    alignment: u64,
) -> PyResult<()> {
    let items = items(buffers_of(buffers)?, alignment);
    let offsets: Vec<u64> = each(offsets, "offset", "a number from 0 to 2**64 - 1")?;
    py.detach(|| alias::verify(&items, &offsets, capacity)).map_err(refused)
}

fn given(heaps: &Bound<'_, PyAny>, items: &Bound<'_, PyAny>) -> PyResult<(Vec<alias::Heap>, Vec<alias::HeapItem>)> {
    let (heaps, items) = (each::<Heap>(heaps, "heap", "a Heap")?, each::<Item>(items, "item", "an Item")?);
    Ok((heaps.into_iter().map(|heap| heap.0).collect(), items.into_iter().map(|item| item.0).collect()))
}

fn heap_plan(py: Python<'_>, plan: alias::HeapPlan, kept: Option<Kept>) -> PyResult<HeapPlan> {
    Ok(HeapPlan {
        height: plan.height(),
        offsets: PyTuple::new(py, plan.offsets.iter().map(|at| (at.heap, at.offset)))?.unbind(),
        heights: PyTuple::new(py, plan.heights)?.unbind(),
        fallback_bytes: plan.fallback_bytes,
        lower_bound: plan.lower_bound,
        is_proven: plan.is_proven,
        kept_count: kept.as_ref().map(|kept| kept.count),
        has_kept_most: kept.as_ref().map(|kept| kept.most),
    })
}

/// Plans items into heaps: first as little as can be outside of what is preferred, then as low as can be in total.
/// Raises ValueError if there is no plan, or none was found.
#[pyfunction]
#[pyo3(signature = (heaps, items, *, time_limit = 1.0))]
fn plan_heaps(
    py: Python<'_>,
    heaps: &Bound<'_, PyAny>,
    items: &Bound<'_, PyAny>,
    time_limit: f64,
) -> PyResult<HeapPlan> {
    let (heaps, items) = given(heaps, items)?;
    let mut clock = Clock::new(time_limit)?;
    let found = py.detach(|| {
        let problem = alias::HeapProblem::new(&heaps, &items).map_err(refused)?;
        let found = alias::plan_heaps(&problem, |_| clock.goes_on()).map_err(refused)?;
        alias::verify_heaps(&heaps, &items, &found.offsets).map_err(refused)?;
        Ok::<_, PyErr>(found)
    });
    match clock.raised {
        Some(raised) => Err(raised),
        None => heap_plan(py, found?, None),
    }
}

/// Plans again after a small change, with as many items as can stay where `last` has them: (heap, offset), or None for a new one.
/// Raises ValueError if no plan was found within `time_limit` seconds; what is made in less than a millisecond is finished anyway.
#[pyfunction]
#[pyo3(signature = (heaps, items, last, *, time_limit = 1.0))]
fn replan_heaps(
    py: Python<'_>,
    heaps: &Bound<'_, PyAny>,
    items: &Bound<'_, PyAny>,
    last: &Bound<'_, PyAny>,
    time_limit: f64,
) -> PyResult<HeapPlan> {
    let (heaps, items) = given(heaps, items)?;
    let last: Vec<Option<(usize, u64)>> = each(last, "place", &format!("None or {PLACE}"))?;
    if items.len() != last.len() {
        return Err(PyValueError::new_err(format!("{} items, but {} places of last time", items.len(), last.len())));
    }
    let last: Vec<Option<alias::HeapOffset>> = last.into_iter().map(|at| at.map(place)).collect();
    let mut clock = Clock::new(time_limit)?;
    let found = py.detach(|| {
        let problem = alias::HeapProblem::new(&heaps, &items).map_err(refused)?;
        let found = alias::replan_heaps(&problem, &last, |_| clock.goes_on()).map_err(refused)?;
        alias::verify_heaps(&heaps, &items, &found.plan.offsets).map_err(refused)?;
        Ok::<_, PyErr>(found)
    });
    if let Some(raised) = clock.raised {
        return Err(raised);
    }
    let found = found?;
    let kept = Kept { count: found.kept_count, most: found.has_kept_most() };
    heap_plan(py, found.plan, Some(kept))
}

/// Proves a plan for heaps. Raises ValueError with the first item that lies where it may not.
#[pyfunction]
fn verify_heaps(
    py: Python<'_>,
    heaps: &Bound<'_, PyAny>,
    items: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (heaps, items) = given(heaps, items)?;
    let offsets: Vec<(usize, u64)> = each(offsets, "place", PLACE)?;
    let offsets: Vec<alias::HeapOffset> = offsets.into_iter().map(place).collect();
    py.detach(|| alias::verify_heaps(&heaps, &items, &offsets)).map_err(refused)
}

/// Offsets for buffers whose lifetimes are known, so that those never alive together share bytes.
#[pymodule]
mod ringfence_alias {
    #[pymodule_export]
    use super::{Heap, HeapPlan, Item, Plan, plan, plan_heaps, replan_heaps, verify, verify_heaps};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
