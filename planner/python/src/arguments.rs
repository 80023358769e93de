//! Converts arguments from Python. Errors name the argument and show the value: TypeError for a wrong type, ValueError
//! for a number out of range.

use std::fmt::Display;
use std::num::NonZeroUsize;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySequence, PyString, PyTuple};
use ringfence_planner as planner;

const BUFFER: &str = "(lower, upper, size) or (lower, upper, size, alignment), integers from 0 to 2**64 - 1";
const PLACE: &str = "(heap, offset), integers from 0 to 2**64 - 1";
const PLACE_OR_NONE: &str = "None or (heap, offset), integers from 0 to 2**64 - 1";

/// Largest number of characters of a value in an error.
const SHOWN_MAX: usize = 100;

/// Functions for `from_py_with`, which does not pass the name of the argument.
macro_rules! integers {
    ($($name:ident: $type:ty),+) => {
        $(pub fn $name(given: &Bound<'_, PyAny>) -> PyResult<$type> {
            integer(given, stringify!($name))
        })+
    };
}

integers! {
    alignment: u64, capacity: u64, class_: u32, granularity: u64, kind: u32, lower: u64, size: u64, upper: u64
}

/// Converts a number of threads, from 1 to 2**16 - 1.
pub fn threads(given: &Bound<'_, PyAny>) -> PyResult<NonZeroUsize> {
    let found: u16 = integer(given, "threads")?;
    let expected = "an integer from 1 to 2**16 - 1";
    NonZeroUsize::new(found.into()).ok_or_else(|| PyValueError::new_err(message(given, "threads", expected)))
}

pub fn capacity_or_none(given: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if given.is_none() { Ok(None) } else { capacity(given).map(Some) }
}

/// Converts a time limit in seconds. Infinity means no limit.
pub fn time_limit(given: &Bound<'_, PyAny>) -> PyResult<f64> {
    let (name, expected) = ("time_limit", "seconds, 0 or more");
    let seconds = given.extract().map_err(|error| unfit(error, given, name, expected))?;
    if seconds >= 0.0 { Ok(seconds) } else { Err(PyValueError::new_err(message(given, name, expected))) }
}

pub fn classes(given: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    each(given, "classes", |place, class| integer(class, format_args!("element {place} of classes")))
}

pub fn pinned(given: &Bound<'_, PyAny>) -> PyResult<Option<planner::HeapOffset>> {
    place_or_none(given, "pinned")
}

/// Converts buffers to items of the planner. A buffer without its own alignment gets the given one.
pub fn buffers(given: &Bound<'_, PyAny>, alignment: u64) -> PyResult<Vec<planner::Item>> {
    each(given, "buffers", |place, row| buffer(row, place, alignment))
}

fn buffer(row: &Bound<'_, PyAny>, place: usize, alignment: u64) -> PyResult<planner::Item> {
    let elements = elements(row)?;
    let (lower, upper, size, own) = match elements.as_deref() {
        Some([lower, upper, size]) => (lower, upper, size, None),
        Some([lower, upper, size, own]) => (lower, upper, size, Some(own)),
        _ => return Err(wrong_type(row, format_args!("buffer {place}"), BUFFER)),
    };
    let lower = integer(lower, format_args!("lower of buffer {place}"))?;
    let upper = integer(upper, format_args!("upper of buffer {place}"))?;
    let size = integer(size, format_args!("size of buffer {place}"))?;
    let own = own.map(|own| integer(own, format_args!("alignment of buffer {place}"))).transpose()?;
    Ok(planner::Item::new(size, lower, upper).aligned(own.unwrap_or(alignment)))
}

pub fn offsets(given: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    each(given, "offsets", |place, offset| integer(offset, format_args!("offset {place}")))
}

pub fn places(given: &Bound<'_, PyAny>) -> PyResult<Vec<planner::HeapOffset>> {
    each(given, "offsets", |place, at| heap_offset(at, format_args!("place {place}"), PLACE))
}

pub fn last_places(given: &Bound<'_, PyAny>) -> PyResult<Vec<Option<planner::HeapOffset>>> {
    each(given, "last", |place, at| place_or_none(at, format_args!("place {place}")))
}

fn place_or_none(given: &Bound<'_, PyAny>, name: impl Display) -> PyResult<Option<planner::HeapOffset>> {
    if given.is_none() { Ok(None) } else { heap_offset(given, name, PLACE_OR_NONE).map(Some) }
}

fn heap_offset(given: &Bound<'_, PyAny>, name: impl Display, expected: &str) -> PyResult<planner::HeapOffset> {
    match elements(given)?.as_deref() {
        Some([heap, offset]) => Ok(planner::HeapOffset {
            heap: integer(heap, format_args!("heap of {name}"))?,
            offset: integer(offset, format_args!("offset of {name}"))?,
        }),
        _ => Err(wrong_type(given, name, expected)),
    }
}

/// Converts a sequence of instances of one class.
pub fn instances<'py, T: FromPyObjectOwned<'py>>(
    given: &Bound<'py, PyAny>,
    one: &str,
    expected: &str,
) -> PyResult<Vec<T>> {
    each(given, format_args!("{one}s"), |place, instance| {
        instance.extract().map_err(|_| wrong_type(instance, format_args!("{one} {place}"), expected))
    })
}

fn each<'py, T>(
    given: &Bound<'py, PyAny>,
    name: impl Display,
    one: impl Fn(usize, &Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let Some(elements) = elements(given)? else { return Err(wrong_type(given, name, "a sequence")) };
    elements.iter().enumerate().map(|(place, element)| one(place, element)).collect()
}

/// Returns the elements of a sequence or an array, or None for any other value.
///
/// An array is a value with `tolist`. NumPy's arrays are not a `collections.abc.Sequence`, and the stable ABI of Python
/// 3.9 has no buffer protocol.
fn elements<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if let Ok(tuple) = given.cast::<PyTuple>() {
        return Ok(Some(tuple.iter().collect()));
    }
    if let Ok(list) = given.cast::<PyList>() {
        return Ok(Some(list.iter().collect()));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(None);
    }
    if let Some(to_list) = given.getattr_opt(intern!(given.py(), "tolist"))? {
        // `tolist` of an array without dimensions returns a number.
        return Ok(to_list.call0()?.cast::<PyList>().ok().map(|list| list.iter().collect()));
    }
    given.cast::<PySequence>().ok().map(|sequence| Ok(sequence.to_list()?.iter().collect())).transpose()
}

fn integer<'py, T: FromPyObjectOwned<'py, Error = PyErr>>(
    given: &Bound<'py, PyAny>,
    name: impl Display,
) -> PyResult<T> {
    given.extract().map_err(|error| {
        let bits = 8 * size_of::<T>();
        unfit(error, given, name, &format!("an integer from 0 to 2**{bits} - 1"))
    })
}

/// Returns the error for a number that was not extracted. Other errors, such as KeyboardInterrupt in `__index__`, are
/// passed on.
fn unfit(error: PyErr, given: &Bound<'_, PyAny>, name: impl Display, expected: &str) -> PyErr {
    if error.is_instance_of::<PyOverflowError>(given.py()) {
        PyValueError::new_err(message(given, name, expected))
    } else if error.is_instance_of::<PyTypeError>(given.py()) {
        wrong_type(given, name, expected)
    } else {
        error
    }
}

fn wrong_type(given: &Bound<'_, PyAny>, name: impl Display, expected: &str) -> PyErr {
    PyTypeError::new_err(message(given, name, expected))
}

fn message(given: &Bound<'_, PyAny>, name: impl Display, expected: &str) -> String {
    format!("{name}: expected {expected}, found {}", shown(given))
}

/// Returns the start of its `repr`, or its type if `repr` fails: Python does not print an integer of 5000 digits.
fn shown(given: &Bound<'_, PyAny>) -> String {
    let shown = given.repr().map_or_else(|_| given.get_type().to_string(), |shown| shown.to_string());
    match shown.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &shown[..end]),
        None => shown,
    }
}
