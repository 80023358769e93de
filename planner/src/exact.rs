//! The exact search: canonical placements, one binary decision at a time.
//!
//! ```text
//!   space ▲        ┌──c──┐           every open item has a lowest offset `low`: on top of all placed items
//!         │   ┌──b─┴┐····            in its sections
//!         │ ┌─┴─a─┬─┘··
//!         └─┴─────┴──────▶ time
//!
//!   decide on an open item:   place it at `low`   or   postpone it: it will be on top of an item that is open now
//! ```
//!
//! *Canonical placements.* In any plan each item can be pushed down until it is at 0 or on top of another item, so only
//! such plans are searched. An item can be decided on if no open item that clashes with it (is alive with it) could
//! still end at or below its `low`. Either the item is at `low` and is placed, or it is postponed. In a canonical plan,
//! a postponed item begins at the end of an item that is open now, so its `low` rises to the least such end. The two
//! cases together cover all plans, for any order of decisions.
//!
//! This differs from MiniMalloc (Moffitt, ASPLOS 2023), which only walks offsets upwards, and drops an item permanently
//! if it is dominated. Here items are decided on in any order, so the search can finish one part of the time axis
//! before it goes on. A refuted placement becomes a stronger `low`.
//!
//! *Inference over sections.* The open items of a section can fit only if their least `low` plus the sum of their sizes
//! is within the capacity. *Decomposition.* If no open item crosses the border between two sections, the two sides are
//! solved independently, and a failure of one side does not undo the other.
//!
//! *Order.* A [`Strategy`] orders the items by size, duration and how full their sections are. With focus, the section
//! whose inference failed last is filled first (after the "last conflict" of Lecoutre and others, 2009). This keeps the
//! search from trying items elsewhere that have no part in the failure.
//!
//! A decision costs O(entries of the sections concerned), in loops over arrays. The numbers have 16 or 32 bits if the
//! sizes, divided by their greatest common divisor, fit. The state takes O(n² / 64) words.

mod choose;
mod infer;
mod state;
mod strategy;
mod unit;

pub(super) use state::{GoOn, Outcome, Search};
pub(super) use strategy::{Keys, LEADING, Pick, Strategy, strategies};
pub(super) use unit::{Scale, Unit};
