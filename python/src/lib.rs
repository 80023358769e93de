//! `ringfence-alias` for Python: plans, checked before they are returned.

mod arguments;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use ::ringfence_alias as alias;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// How often Ctrl-C is listened for.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

pyo3::create_exception!(
    ringfence_alias,
    CapacityNotMet,
    PyValueError,
    "The plan is higher than the capacity. `plan` is the lowest plan that was found."
);

/// Offsets, with the proof of how good they are.
///
/// Equal plans have the same hash; a plan can be pickled.
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
///
/// `capacity` is in the units of the sizes, 2**64 - 1 for no limit. `class_` is what items name in `classes`. An item that is
/// aligned to more than `alignment` may not lie in it. Items of different kinds that are alive at once share no page of
/// `granularity` units. Raises ValueError for a number out of range, TypeError for a wrong type.
#[pyclass(frozen, eq, hash, from_py_object, module = "ringfence_alias")]
#[derive(Clone, PartialEq, Eq, Hash)]
struct Heap(alias::Heap);

/// An item, and which heaps it may lie in.
///
/// It is alive from `lower` until before `upper`. `classes` are those of the heaps that it may lie in, the preferred one first;
/// `pinned` is None, or the heap and the offset where it has to lie. Items of different `kind` share no page of a heap's
/// granularity. Raises ValueError for a number out of range, TypeError for a wrong type.
#[pyclass(frozen, eq, hash, from_py_object, module = "ringfence_alias")]
#[derive(Clone, PartialEq, Eq, Hash)]
struct Item(alias::HeapItem);

/// Where each item lies: heap and offset.
///
/// Equal plans have the same hash; a plan can be pickled.
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

impl Plan {
    fn of(py: Python<'_>, found: alias::AliasPlan) -> PyResult<Self> {
        let is_proven = found.is_proven();
        let alias::AliasPlan { offsets, height, load, lower_bound } = found;
        Ok(Self { offsets: PyTuple::new(py, offsets)?.unbind(), height, load, lower_bound, is_proven })
    }

    fn numbers(&self) -> (u64, u64, u64) {
        (self.height, self.load, self.lower_bound)
    }
}

#[pymethods]
impl Plan {
    /// For `pickle` and `copy`.
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::offsets)] offsets: Vec<u64>,
        height: u64,
        load: u64,
        lower_bound: u64,
    ) -> PyResult<Self> {
        Self::of(py, alias::AliasPlan { offsets, height, load, lower_bound })
    }

    /// For `pickle` and `copy`.
    fn __getnewargs__(&self, py: Python<'_>) -> (Py<PyTuple>, u64, u64, u64) {
        let (height, load, lower_bound) = self.numbers();
        (self.offsets.clone_ref(py), height, load, lower_bound)
    }

    fn __eq__(&self, other: &Self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.numbers() == other.numbers() && self.offsets.bind(py).eq(&other.offsets)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.__getnewargs__(py).into_pyobject(py)?.hash()
    }

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
    /// For `pickle` and `copy`.
    #[new]
    #[pyo3(signature = (offsets, heights, fallback_bytes, lower_bound, is_proven, kept_count, has_kept_most))]
    #[allow(clippy::too_many_arguments, reason = "pickle calls it with every field of a plan")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::places)] offsets: Vec<alias::HeapOffset>,
        heights: Vec<u64>,
        fallback_bytes: u128,
        lower_bound: u64,
        is_proven: bool,
        kept_count: Option<usize>,
        has_kept_most: Option<bool>,
    ) -> PyResult<Self> {
        let kept = kept_count.zip(has_kept_most).map(|(count, most)| Kept { count, most });
        heap_plan(py, alias::HeapPlan { offsets, heights, fallback_bytes, lower_bound, is_proven }, kept)
    }

    /// For `pickle` and `copy`.
    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Self { offsets, heights, fallback_bytes, lower_bound, is_proven, kept_count, has_kept_most, .. } = self;
        (offsets, heights, fallback_bytes, lower_bound, is_proven, kept_count, has_kept_most).into_pyobject(py)
    }

    fn __eq__(&self, other: &Self, py: Python<'_>) -> PyResult<bool> {
        self.__getnewargs__(py)?.eq(other.__getnewargs__(py)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.__getnewargs__(py)?.hash()
    }

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
    fn new(
        #[pyo3(from_py_with = arguments::capacity)] capacity: u64,
        #[pyo3(from_py_with = arguments::class_)] class_: u32,
        #[pyo3(from_py_with = arguments::alignment)] alignment: u64,
        #[pyo3(from_py_with = arguments::granularity)] granularity: u64,
    ) -> Self {
        Self(alias::Heap { class: class_, capacity, alignment, granularity })
    }

    /// Units that there are; 2**64 - 1 for no limit.
    #[getter]
    fn capacity(&self) -> u64 {
        self.0.capacity
    }

    /// What items name in `classes`.
    #[getter]
    fn class_(&self) -> u32 {
        self.0.class
    }

    /// What its first unit is aligned to.
    #[getter]
    fn alignment(&self) -> u64 {
        self.0.alignment
    }

    /// Units of a page that items of different kinds do not share.
    #[getter]
    fn granularity(&self) -> u64 {
        self.0.granularity
    }

    /// For `pickle` and `copy`.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((u64,), Bound<'py, PyDict>)> {
        let alias::Heap { class, capacity, alignment, granularity } = self.0;
        let named = PyDict::new(py);
        named.set_item("class_", class)?;
        named.set_item("alignment", alignment)?;
        named.set_item("granularity", granularity)?;
        Ok(((capacity,), named))
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
        #[pyo3(from_py_with = arguments::size)] size: u64,
        #[pyo3(from_py_with = arguments::lower)] lower: u64,
        #[pyo3(from_py_with = arguments::upper)] upper: u64,
        #[pyo3(from_py_with = arguments::alignment)] alignment: u64,
        #[pyo3(from_py_with = arguments::kind)] kind: u32,
        #[pyo3(from_py_with = arguments::classes)] classes: Vec<u32>,
        #[pyo3(from_py_with = arguments::pinned)] pinned: Option<alias::HeapOffset>,
    ) -> Self {
        let item = alias::Item::new(size, lower, upper).aligned(alignment);
        Self(alias::HeapItem { item, kind, classes, pinned })
    }

    /// Units, as an offset's.
    #[getter]
    fn size(&self) -> u64 {
        self.0.item.size
    }

    /// When it begins to be alive.
    #[getter]
    fn lower(&self) -> u64 {
        self.0.item.lifetime.lower
    }

    /// When it is no longer alive.
    #[getter]
    fn upper(&self) -> u64 {
        self.0.item.lifetime.upper
    }

    /// What its offset is a multiple of.
    #[getter]
    fn alignment(&self) -> u64 {
        self.0.item.alignment
    }

    /// What items that share a page have in common.
    #[getter]
    fn kind(&self) -> u32 {
        self.0.kind
    }

    /// Classes of the heaps that it may lie in, the preferred one first.
    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.classes)
    }

    /// The heap and the offset where it has to lie, or None.
    #[getter]
    fn pinned(&self) -> Option<(usize, u64)> {
        self.0.pinned.map(|at| (at.heap, at.offset))
    }

    /// For `pickle` and `copy`.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((u64, u64, u64), Bound<'py, PyDict>)> {
        let alias::Item { size, alignment, lifetime: alias::Lifetime { lower, upper }, .. } = self.0.item;
        let named = PyDict::new(py);
        named.set_item("alignment", alignment)?;
        named.set_item("kind", self.0.kind)?;
        named.set_item("classes", self.classes(py)?)?;
        named.set_item("pinned", self.pinned())?;
        Ok(((size, lower, upper), named))
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

fn refused(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Says whether to go on: until the time is over, or a signal was raised.
struct Clock {
    started: Instant,
    /// Seconds.
    limit: f64,
    listened: Instant,
    raised: Option<PyErr>,
}

impl Clock {
    fn new(limit: f64) -> Self {
        let started = Instant::now();
        Self { started, limit, listened: started, raised: None }
    }

    fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        if now - self.listened >= SIGNALS_EVERY {
            self.listened = now;
            self.raised = self.raised.take().or_else(|| Python::attach(|py| py.check_signals()).err());
        }
        self.raised.is_none() && (now - self.started).as_secs_f64() < self.limit
    }
}

/// Plans buffers of (lower, upper, size) or (lower, upper, size, alignment): alive from lower until before upper.
///
/// Searches until the plan is proven the lowest, it is no higher than `capacity` or proven that none is, or `time_limit` seconds
/// are over; the first plan is always finished. `threads` search side by side; any number above 1 gives the same plan if the
/// search ends before the time limit. Buffers are a sequence of sequences, or an array of two dimensions. Raises
/// CapacityNotMet, a ValueError with the plan, if the plan is higher than `capacity`; ValueError if a buffer cannot be planned or
/// a number is out of range; TypeError for what is no buffer.
#[pyfunction]
#[pyo3(signature = (buffers, *, alignment = 1, capacity = None, time_limit = 1.0, threads = NonZeroUsize::MIN))]
#[pyo3(text_signature = "(buffers, *, alignment=1, capacity=None, time_limit=1.0, threads=1)")]
fn plan(
    py: Python<'_>,
    buffers: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arguments::alignment)] alignment: u64,
    #[pyo3(from_py_with = arguments::capacity_or_none)] capacity: Option<u64>,
    #[pyo3(from_py_with = arguments::time_limit)] time_limit: f64,
    #[pyo3(from_py_with = arguments::threads)] threads: NonZeroUsize,
) -> PyResult<Plan> {
    let items = arguments::buffers(buffers, alignment)?;
    let mut clock = Clock::new(time_limit);
    let found = py.detach(|| {
        let problem = alias::Problem::new(&items).map_err(refused)?;
        // Within the capacity, or above it whatever the plan.
        let is_decided = |progress: &alias::Progress| {
            capacity.is_some_and(|capacity| progress.height <= capacity || progress.lower_bound > capacity)
        };
        let go_on = |progress: &alias::Progress| !is_decided(progress) && clock.goes_on();
        let found = match threads {
            NonZeroUsize::MIN => alias::plan(&problem, go_on),
            threads => alias::plan_with(&problem, &alias::PlanDesc { threads, ..Default::default() }, go_on),
        };
        alias::verify(&items, &found.offsets, found.height).map_err(refused)?;
        Ok::<_, PyErr>(found)
    })?;
    if let Some(raised) = clock.raised {
        return Err(raised);
    }
    let plan = Plan::of(py, found)?;
    match capacity.filter(|&capacity| plan.height > capacity) {
        Some(capacity) => Err(not_met(py, plan, capacity)?),
        None => Ok(plan),
    }
}

/// The error that has the plan, and says by how much the capacity is missed.
fn not_met(py: Python<'_>, plan: Plan, capacity: u64) -> PyResult<PyErr> {
    let Plan { height, lower_bound, .. } = plan;
    let known = if lower_bound > capacity {
        format!("no plan is lower than {lower_bound}")
    } else {
        format!("whether one is low enough is not known, none is lower than {lower_bound}: search for longer")
    };
    let what = format!("the capacity of {capacity} is not met: the lowest plan found needs {height}, {known}");
    let error = CapacityNotMet::new_err(what);
    error.value(py).setattr(intern!(py, "plan"), plan)?;
    Ok(error)
}

/// Proves a plan: no two buffers share bytes while both are alive, each is aligned and ends within the capacity.
/// Raises ValueError with the first that does not, or with a number out of range; TypeError for what is no buffer or offset.
#[pyfunction]
#[pyo3(signature = (buffers, offsets, capacity, *, alignment = 1))]
fn verify(
    py: Python<'_>,
    buffers: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arguments::offsets)] offsets: Vec<u64>,
    #[pyo3(from_py_with = arguments::capacity)] capacity: u64,
    #[pyo3(from_py_with = arguments::alignment)] alignment: u64,
) -> PyResult<()> {
    let items = arguments::buffers(buffers, alignment)?;
    py.detach(|| alias::verify(&items, &offsets, capacity)).map_err(refused)
}

fn heaps(given: &Bound<'_, PyAny>) -> PyResult<Vec<alias::Heap>> {
    let heaps: Vec<Heap> = arguments::instances(given, "heap", "a Heap")?;
    Ok(heaps.into_iter().map(|heap| heap.0).collect())
}

fn items(given: &Bound<'_, PyAny>) -> PyResult<Vec<alias::HeapItem>> {
    let items: Vec<Item> = arguments::instances(given, "item", "an Item")?;
    Ok(items.into_iter().map(|item| item.0).collect())
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
/// Raises ValueError if there is no plan, or none was found within `time_limit` seconds; TypeError for what is no Heap or Item.
#[pyfunction]
#[pyo3(signature = (heaps, items, *, time_limit = 1.0))]
fn plan_heaps(
    py: Python<'_>,
    #[pyo3(from_py_with = heaps)] heaps: Vec<alias::Heap>,
    #[pyo3(from_py_with = items)] items: Vec<alias::HeapItem>,
    #[pyo3(from_py_with = arguments::time_limit)] time_limit: f64,
) -> PyResult<HeapPlan> {
    let mut clock = Clock::new(time_limit);
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
/// Raises TypeError for what is no Heap, Item or place.
#[pyfunction]
#[pyo3(signature = (heaps, items, last, *, time_limit = 1.0))]
fn replan_heaps(
    py: Python<'_>,
    #[pyo3(from_py_with = heaps)] heaps: Vec<alias::Heap>,
    #[pyo3(from_py_with = items)] items: Vec<alias::HeapItem>,
    #[pyo3(from_py_with = arguments::last_places)] last: Vec<Option<alias::HeapOffset>>,
    #[pyo3(from_py_with = arguments::time_limit)] time_limit: f64,
) -> PyResult<HeapPlan> {
    if items.len() != last.len() {
        return Err(PyValueError::new_err(format!("{} items, but {} places of last time", items.len(), last.len())));
    }
    let mut clock = Clock::new(time_limit);
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

/// Proves a plan for heaps. Raises ValueError with the first item that lies where it may not, TypeError for what is no Heap, Item
/// or place.
#[pyfunction]
fn verify_heaps(
    py: Python<'_>,
    #[pyo3(from_py_with = heaps)] heaps: Vec<alias::Heap>,
    #[pyo3(from_py_with = items)] items: Vec<alias::HeapItem>,
    #[pyo3(from_py_with = arguments::places)] offsets: Vec<alias::HeapOffset>,
) -> PyResult<()> {
    py.detach(|| alias::verify_heaps(&heaps, &items, &offsets)).map_err(refused)
}

/// Offsets for buffers whose lifetimes are known, so that those never alive together share bytes.
#[pymodule]
mod ringfence_alias {
    #[pymodule_export]
    use super::{CapacityNotMet, Heap, HeapPlan, Item, Plan, plan, plan_heaps, replan_heaps, verify, verify_heaps};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
