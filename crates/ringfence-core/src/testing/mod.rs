//! Test support for range allocators: a simple reference implementation (the *twin*), and generated sequences of
//! operations.
//!
//! [`Twin`] has the live ranges in a vector, and searches all of them for each answer. [`run`] applies operations to an
//! allocator and to the twin. Invalid operations must fail. After *each* operation, [`run`] checks that the structure
//! is valid ([`RangeAllocator::validate`]), and that its spans agree with the live ranges of the twin.

pub mod campaign;
pub mod drive;
pub mod rng;

use crate::range::{AllocError, FreeError, Invalid, Range, RangeAllocator, Span, align_up};
use std::format;
use std::string::String;
use std::vec::Vec;

/// Returns the number of cases of a property test: `count`, or the environment variable `RINGFENCE_CASES` if it is
/// smaller. Mutation testing and miri set the variable.
#[must_use]
pub fn cases(count: u32) -> u32 {
    let most = std::env::var("RINGFENCE_CASES").ok().and_then(|text| text.parse().ok());
    count.min(most.unwrap_or(count))
}

/// A generated operation. Its numbers are reduced to their valid ranges, so every value can be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Allocates `size` units aligned to `1 << alignment_log2` (the exponent modulo 64).
    Allocate {
        /// Size in units. It can be 0, which must be refused.
        size: u64,
        /// Exponent of the alignment.
        alignment_log2: u8,
    },
    /// Frees the live range with this number, modulo the number of live ranges.
    Free(u32),
    /// Frees a range that was freed before. This must be refused.
    FreeAgain(u32),
    /// Frees a live range with a forged serial, and with another slot. Both must be refused.
    FreeForged(u32),
}

/// The reference implementation that an allocator is compared with: the live ranges in a vector.
#[derive(Debug, Default)]
pub struct Twin {
    /// The live ranges.
    pub live: Vec<Range>,
    /// Some of the freed ranges.
    pub dead: Vec<Range>,
}

impl Twin {
    /// Returns `true` if `range` is inside the capacity and overlaps no live range.
    #[must_use]
    pub fn has_room_for(&self, range: &Range, capacity: u64) -> bool {
        range.end() <= capacity
            && self.live.iter().all(|held| range.end() <= held.offset() || held.end() <= range.offset())
    }

    /// Returns `true` if `size` aligned units fit at some offset. Tries the start of the heap and the end of each
    /// range.
    #[must_use]
    pub fn fits_somewhere(&self, size: u64, alignment: u64, capacity: u64) -> bool {
        let starts = core::iter::once(0).chain(self.live.iter().map(Range::end));
        starts.filter_map(|start| align_up(start, alignment)).any(|offset| {
            offset.checked_add(size).is_some_and(|end| {
                end <= capacity && self.live.iter().all(|held| end <= held.offset() || held.end() <= offset)
            })
        })
    }
}

/// Applies `ops` to `allocator` and to a [`Twin`], and compares the two. Returns the twin.
///
/// If `exact` is `true`, the allocator must succeed whenever some offset fits, as a best-fit allocator does. Set it to
/// `false` for a buddy allocator, which rounds sizes up, and for allocators with size classes, which do not try all
/// spans.
///
/// # Errors
/// The first difference, and the number of its operation.
pub fn run(allocator: &mut dyn RangeAllocator, ops: &[Op], exact: bool) -> Result<Twin, String> {
    let mut twin = Twin::default();
    for (number, &op) in ops.iter().enumerate() {
        step(allocator, &mut twin, op, exact).map_err(|what| format!("step {number}, {op:?}: {what}"))?;
    }
    Ok(twin)
}

/// Applies one operation as [`run`] does. For tests that inspect the allocator between operations.
///
/// # Errors
/// The difference.
pub fn step(allocator: &mut dyn RangeAllocator, twin: &mut Twin, op: Op, exact: bool) -> Result<(), String> {
    apply(allocator, twin, op, exact)?;
    check(allocator, twin).map_err(|what| format!("afterwards: {what}"))
}

/// Returns every span of the allocator.
#[must_use]
pub fn spans(allocator: &dyn RangeAllocator) -> Vec<Span> {
    let mut spans = Vec::new();
    allocator.for_each_span(&mut |span| spans.push(span));
    spans
}

fn apply(allocator: &mut dyn RangeAllocator, twin: &mut Twin, op: Op, exact: bool) -> Result<(), String> {
    let pick = |ranges: &[Range], number: u32| ranges.get(number as usize % ranges.len().max(1)).copied();
    match op {
        Op::Allocate { size, alignment_log2 } => allocate(allocator, twin, size, 1 << (alignment_log2 % 64), exact),
        Op::Free(number) => {
            let Some(range) = pick(&twin.live, number) else { return Ok(()) };
            ensure(allocator.is_live(&range), "a live range is reported as not live")?;
            allocator.free(range).map_err(|error| format!("a live range is refused: {error}"))?;
            twin.live.retain(|held| *held != range);
            twin.dead.push(range);
            if twin.dead.len() > 64 {
                twin.dead.swap_remove(number as usize % 64);
            }
            Ok(())
        }
        Op::FreeAgain(number) => {
            let Some(range) = pick(&twin.dead, number) else { return Ok(()) };
            ensure(!allocator.is_live(&range), "a freed range is reported as live")?;
            let refusal = FreeError::Stale { offset: range.offset(), size: range.size() };
            ensure(allocator.free(range) == Err(refusal), "a second free succeeds or fails with another error")
        }
        Op::FreeForged(number) => {
            let Some(range) = pick(&twin.live, number) else { return Ok(()) };
            let serial = crate::range::Serial::from_u64(u64::from(number) + 1).expect("not 0");
            for forged in [
                Range::new(range.offset(), range.size(), range.slot(), serial),
                Range::new(range.offset(), range.size(), range.slot() ^ (1 << (number % 32)), range.serial()),
            ] {
                ensure(!allocator.is_live(&forged), "a forged range is reported as live")?;
                ensure(allocator.free(forged).is_err(), "a forged range is freed")?;
            }
            Ok(())
        }
    }
}

fn allocate(
    allocator: &mut dyn RangeAllocator,
    twin: &mut Twin,
    size: u64,
    alignment: u64,
    exact: bool,
) -> Result<(), String> {
    let capacity = allocator.capacity();
    match allocator.allocate(size, alignment) {
        Ok(range) => {
            ensure(size != 0 && range.size() == size, "the size is not the requested one")?;
            ensure(range.offset() % alignment == 0, "the offset is not aligned")?;
            ensure(twin.has_room_for(&range, capacity), "the range overlaps another or exceeds the capacity")?;
            ensure(allocator.is_live(&range), "a new range is not live")?;
            twin.live.push(range);
            Ok(())
        }
        Err(AllocError::ZeroSize) => ensure(size == 0, "refused as size 0"),
        Err(AllocError::TooLarge { .. }) => ensure(size > capacity, "refused as too large"),
        Err(AllocError::OutOfSpace { free, largest_free, .. }) => {
            ensure(free == allocator.free_size(), "the error has another free size")?;
            ensure(largest_free == allocator.largest_free(), "the error has another largest span")?;
            ensure(!exact || !twin.fits_somewhere(size, alignment, capacity), "refused, although it fits")
        }
        Err(error) => Err(format!("refused: {error}")),
    }
}

fn check(allocator: &dyn RangeAllocator, twin: &Twin) -> Result<(), String> {
    allocator.validate().map_err(|Invalid { rule, at }| format!("validate: {rule} (at {at})"))?;
    ensure(allocator.live_count() == twin.live.len(), "the live count differs")?;
    let (mut end, mut free, mut used, mut wrong) = (0, 0, Vec::new(), None);
    allocator.for_each_span(&mut |span: Span| {
        if span.offset != end || span.size == 0 {
            wrong = Some(format!("the spans have a gap or an overlap at {}", span.offset));
        }
        end = span.offset + span.size;
        match span.slot {
            Some(slot) => used.push((span, slot)),
            None => free += span.size,
        }
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    ensure(end == allocator.capacity(), "the spans do not cover the capacity")?;
    ensure(free == allocator.free_size(), "the free size is not the sum of the free spans")?;
    let mut expected: Vec<_> = twin.live.clone();
    expected.sort_by_key(Range::offset);
    ensure(expected.len() == used.len(), "the numbers of used spans and live ranges differ")?;
    for (range, (span, slot)) in expected.iter().zip(&used) {
        let inside = span.offset <= range.offset() && range.end() <= span.offset + span.size;
        ensure(inside && *slot == range.slot(), "a used span does not contain its range")?;
    }
    Ok(())
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
