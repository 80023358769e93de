//! Python bindings of `ringfence-planner`. Plans are checked before they are returned.

mod arguments;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ringfence_planner as planner;

/// Time between two checks for Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

pyo3::create_exception!(
    ringfence_alias,
    CapacityNotMet,
    PyValueError,
    "The plan is higher than the capacity. `plan` is the lowest plan that was found."
);

/// The offsets of a plan, with its height and a proven lower bound.
///
/// Equal plans have the same hash; a plan can be pickled.
#[pyclass(frozen, get_all, module = "ringfence_alias")]
struct Plan {
    /// Offset of each buffer, in the order of the buffers; the same tuple each time.
    offsets: Py<PyTuple>,
    /// Highest end of a buffer.
    height: u64,
    /// Largest sum of sizes alive at once.
    load: u64,
    /// Proven lower bound of the height.
    lower_bound: u64,
    /// True if no plan is lower than this one.
    is_proven: bool,
}

/// A heap that items can be placed in.
///
/// `capacity` is in the units of the sizes, 2**64 - 1 for no limit. `class_` is the class that items name in `classes`.
/// Items with a larger alignment than `alignment` cannot be placed in it. Items of different kinds that are alive at
/// once have no page of `granularity` units in common. Raises ValueError for a number out of range, TypeError for a
/// wrong type.
#[pyclass(frozen, eq, hash, from_py_object, module = "ringfence_alias")]
#[derive(Clone, PartialEq, Eq, Hash)]
struct Heap(planner::Heap);

/// An item, and the heaps that it can be placed in.
///
/// It is alive from `lower` to before `upper`. `classes` are the classes of the heaps that it can be placed in, the
/// preferred one first. `pinned` is None, or the required heap and offset. Items of different `kind` have no page of a
/// heap's granularity in common. Raises ValueError for a number out of range, TypeError for a wrong type.
#[pyclass(frozen, eq, hash, from_py_object, module = "ringfence_alias")]
#[derive(Clone, PartialEq, Eq, Hash)]
struct Item(planner::HeapItem);

/// A plan for heaps: heap and offset of each item.
///
/// Equal plans have the same hash; a plan can be pickled.
#[pyclass(frozen, get_all, module = "ringfence_alias")]
struct HeapPlan {
    /// Heap and offset of each item, in the order of the items; the same tuple each time.
    offsets: Py<PyTuple>,
    /// Highest end of an item in each heap.
    heights: Py<PyTuple>,
    /// Sum of `heights`.
    height: u64,
    /// Sum over the items of the size times the number of classes before the chosen one in the item's list.
    fallback_bytes: u128,
    /// Lower bound of the total height of all plans.
    lower_bound: u64,
    /// True if no plan is better.
    is_proven: bool,
    /// After replanning: number of items that kept their locations. None otherwise.
    kept_count: Option<usize>,
    /// After replanning: True if at least half of the items with a location kept it. None otherwise.
    has_kept_most: Option<bool>,
}

/// Items that kept their locations.
struct Kept {
    count: usize,
    most: bool,
}

/// Returns the Python literal.
fn bool_repr(is_so: bool) -> &'static str {
    if is_so { "True" } else { "False" }
}

impl Plan {
    fn of(py: Python<'_>, found: planner::AliasPlan) -> PyResult<Self> {
        let is_proven = found.is_proven();
        let planner::AliasPlan { offsets, height, load, lower_bound } = found;
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
        Self::of(py, planner::AliasPlan { offsets, height, load, lower_bound })
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
        #[pyo3(from_py_with = arguments::places)] offsets: Vec<planner::HeapOffset>,
        heights: Vec<u64>,
        fallback_bytes: u128,
        lower_bound: u64,
        is_proven: bool,
        kept_count: Option<usize>,
        has_kept_most: Option<bool>,
    ) -> PyResult<Self> {
        let kept = kept_count.zip(has_kept_most).map(|(count, most)| Kept { count, most });
        heap_plan(py, planner::HeapPlan { offsets, heights, fallback_bytes, lower_bound, is_proven }, kept)
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
        Self(planner::Heap { class: class_, capacity, alignment, granularity })
    }

    /// Capacity in units; 2**64 - 1 for no limit.
    #[getter]
    fn capacity(&self) -> u64 {
        self.0.capacity
    }

    /// Class that items name in `classes`.
    #[getter]
    fn class_(&self) -> u32 {
        self.0.class
    }

    /// Alignment of its first unit.
    #[getter]
    fn alignment(&self) -> u64 {
        self.0.alignment
    }

    /// Size of a page, in units. Items of different kinds do not share a page.
    #[getter]
    fn granularity(&self) -> u64 {
        self.0.granularity
    }

    /// For `pickle` and `copy`.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((u64,), Bound<'py, PyDict>)> {
        let planner::Heap { class, capacity, alignment, granularity } = self.0;
        let named = PyDict::new(py);
        named.set_item("class_", class)?;
        named.set_item("alignment", alignment)?;
        named.set_item("granularity", granularity)?;
        Ok(((capacity,), named))
    }

    fn __repr__(&self) -> String {
        let planner::Heap { class, capacity, alignment, granularity } = self.0;
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
        #[pyo3(from_py_with = arguments::pinned)] pinned: Option<planner::HeapOffset>,
    ) -> Self {
        let item = planner::Item::new(size, lower, upper).aligned(alignment);
        Self(planner::HeapItem { item, kind, classes, pinned })
    }

    /// Size in units.
    #[getter]
    fn size(&self) -> u64 {
        self.0.item.size
    }

    /// First moment of the lifetime.
    #[getter]
    fn lower(&self) -> u64 {
        self.0.item.lifetime.lower
    }

    /// First moment after the lifetime.
    #[getter]
    fn upper(&self) -> u64 {
        self.0.item.lifetime.upper
    }

    /// Alignment of its offset.
    #[getter]
    fn alignment(&self) -> u64 {
        self.0.item.alignment
    }

    /// Kind of the item. Only items of the same kind share a page.
    #[getter]
    fn kind(&self) -> u32 {
        self.0.kind
    }

    /// Classes of the heaps that it can be placed in, the preferred one first.
    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.classes)
    }

    /// Required heap and offset, or None.
    #[getter]
    fn pinned(&self) -> Option<(usize, u64)> {
        self.0.pinned.map(|at| (at.heap, at.offset))
    }

    /// For `pickle` and `copy`.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((u64, u64, u64), Bound<'py, PyDict>)> {
        let planner::Item { size, alignment, lifetime: planner::Lifetime { lower, upper }, .. } = self.0.item;
        let named = PyDict::new(py);
        named.set_item("alignment", alignment)?;
        named.set_item("kind", self.0.kind)?;
        named.set_item("classes", self.classes(py)?)?;
        named.set_item("pinned", self.pinned())?;
        Ok(((size, lower, upper), named))
    }

    fn __repr__(&self) -> String {
        let planner::HeapItem { item, kind, classes, pinned } = &self.0;
        let pinned = pinned.map_or_else(|| "None".to_owned(), |at| format!("({}, {})", at.heap, at.offset));
        let planner::Lifetime { lower, upper } = item.lifetime;
        let (size, alignment) = (item.size, item.alignment);
        format!(
            "Item({size}, {lower}, {upper}, alignment={alignment}, kind={kind}, classes={classes:?}, pinned={pinned})"
        )
    }
}

fn refused(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Stops planning when the time is over or a signal was raised.
struct Clock {
    started: Instant,
    /// Time limit in seconds.
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

/// Plans buffers of (lower, upper, size) or (lower, upper, size, alignment). A buffer is alive from lower to before
/// upper.
///
/// The search ends when the plan is proven optimal, when it is no higher than `capacity`, when it is proven that no
/// plan is, or after `time_limit` seconds. The first plan is always finished. `threads` threads search in parallel; any
/// number above 1 gives the same plan if the search ends before the time limit. Buffers are a sequence of sequences, or
/// an array of two dimensions.
///
/// Raises CapacityNotMet, a ValueError with the plan, if the plan is higher than `capacity`; ValueError if a buffer
/// cannot be planned or a number is out of range; TypeError if a value is not a buffer.
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
        let problem = planner::Problem::new(&items).map_err(refused)?;
        // Decided if the plan is within the capacity, or if no plan can be.
        let is_decided = |progress: &planner::Progress| {
            capacity.is_some_and(|capacity| progress.height <= capacity || progress.lower_bound > capacity)
        };
        let go_on = |progress: &planner::Progress| !is_decided(progress) && clock.goes_on();
        let found = match threads {
            NonZeroUsize::MIN => planner::plan(&problem, go_on),
            threads => planner::plan_with(&problem, &planner::PlanDesc { threads, ..Default::default() }, go_on),
        };
        planner::verify(&items, &found.offsets, found.height).map_err(refused)?;
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

/// Returns the error with the plan, which says by how much the capacity is missed.
fn not_met(py: Python<'_>, plan: Plan, capacity: u64) -> PyResult<PyErr> {
    let Plan { height, lower_bound, .. } = plan;
    let known = if lower_bound > capacity {
        format!("no plan is lower than {lower_bound}")
    } else {
        format!("no plan is lower than {lower_bound}, a plan within the capacity may exist: search for longer")
    };
    let what = format!("the capacity of {capacity} is not met: the lowest plan found needs {height}, {known}");
    let error = CapacityNotMet::new_err(what);
    error.value(py).setattr(intern!(py, "plan"), plan)?;
    Ok(error)
}

/// Checks a plan: no two buffers share bytes while both are alive, each is aligned and ends within the capacity. Raises
/// ValueError for the first violation or for a number out of range; TypeError if a value is not a buffer or an offset.
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
    py.detach(|| planner::verify(&items, &offsets, capacity)).map_err(refused)
}

fn heaps(given: &Bound<'_, PyAny>) -> PyResult<Vec<planner::Heap>> {
    let heaps: Vec<Heap> = arguments::instances(given, "heap", "a Heap")?;
    Ok(heaps.into_iter().map(|heap| heap.0).collect())
}

fn items(given: &Bound<'_, PyAny>) -> PyResult<Vec<planner::HeapItem>> {
    let items: Vec<Item> = arguments::instances(given, "item", "an Item")?;
    Ok(items.into_iter().map(|item| item.0).collect())
}

fn heap_plan(py: Python<'_>, plan: planner::HeapPlan, kept: Option<Kept>) -> PyResult<HeapPlan> {
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

/// Plans items into heaps: with the least fallback bytes, then with the least total height. Raises ValueError if there
/// is no plan or none was found within `time_limit` seconds; TypeError if a value is not a Heap or an Item.
#[pyfunction]
#[pyo3(signature = (heaps, items, *, time_limit = 1.0))]
fn plan_heaps(
    py: Python<'_>,
    #[pyo3(from_py_with = heaps)] heaps: Vec<planner::Heap>,
    #[pyo3(from_py_with = items)] items: Vec<planner::HeapItem>,
    #[pyo3(from_py_with = arguments::time_limit)] time_limit: f64,
) -> PyResult<HeapPlan> {
    let mut clock = Clock::new(time_limit);
    let found = py.detach(|| {
        let problem = planner::HeapProblem::new(&heaps, &items).map_err(refused)?;
        let found = planner::plan_heaps(&problem, |_| clock.goes_on()).map_err(refused)?;
        planner::verify_heaps(&heaps, &items, &found.offsets).map_err(refused)?;
        Ok::<_, PyErr>(found)
    });
    match clock.raised {
        Some(raised) => Err(raised),
        None => heap_plan(py, found?, None),
    }
}

/// Replans after a small change, with as many items as possible at their locations in `last`: (heap, offset), or None
/// for a new item. Raises ValueError if no plan was found within `time_limit` seconds; a plan that takes less than a
/// millisecond is finished anyway. Raises TypeError if a value is not a Heap, an Item or a location.
#[pyfunction]
#[pyo3(signature = (heaps, items, last, *, time_limit = 1.0))]
fn replan_heaps(
    py: Python<'_>,
    #[pyo3(from_py_with = heaps)] heaps: Vec<planner::Heap>,
    #[pyo3(from_py_with = items)] items: Vec<planner::HeapItem>,
    #[pyo3(from_py_with = arguments::last_places)] last: Vec<Option<planner::HeapOffset>>,
    #[pyo3(from_py_with = arguments::time_limit)] time_limit: f64,
) -> PyResult<HeapPlan> {
    if items.len() != last.len() {
        return Err(PyValueError::new_err(format!("{} items, but {} places in `last`", items.len(), last.len())));
    }
    let mut clock = Clock::new(time_limit);
    let found = py.detach(|| {
        let problem = planner::HeapProblem::new(&heaps, &items).map_err(refused)?;
        let found = planner::replan_heaps(&problem, &last, |_| clock.goes_on()).map_err(refused)?;
        planner::verify_heaps(&heaps, &items, &found.plan.offsets).map_err(refused)?;
        Ok::<_, PyErr>(found)
    });
    if let Some(raised) = clock.raised {
        return Err(raised);
    }
    let found = found?;
    let kept = Kept { count: found.kept_count, most: found.has_kept_most() };
    heap_plan(py, found.plan, Some(kept))
}

/// Checks a plan for heaps. Raises ValueError for the first violation; TypeError if a value is not a Heap, an Item or a
/// location.
#[pyfunction]
fn verify_heaps(
    py: Python<'_>,
    #[pyo3(from_py_with = heaps)] heaps: Vec<planner::Heap>,
    #[pyo3(from_py_with = items)] items: Vec<planner::HeapItem>,
    #[pyo3(from_py_with = arguments::places)] offsets: Vec<planner::HeapOffset>,
) -> PyResult<()> {
    py.detach(|| planner::verify_heaps(&heaps, &items, &offsets)).map_err(refused)
}

/// Offsets for buffers with known lifetimes: buffers that are never alive at the same time can share bytes.
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
