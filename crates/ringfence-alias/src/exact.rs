//! The exact search: canonical placements, one binary decision at a time.
//!
//! ```text
//!   space ▲        ┌──c──┐           every item that is open has a lowest offset `low`: upon all that is placed
//!         │   ┌──b─┴┐····            in its sections
//!         │ ┌─┴─a─┬─┘··
//!         └─┴─────┴──────▶ time
//!
//!   decide on an open item:   place it at `low`   or   postpone it: it will lie upon an item that is open now
//! ```
//!
//! *Canonical.* In any plan each item can be pushed down until it lies at 0 or upon another one; so it is enough to
//! look at plans in which each does. An item may be decided on once no open item that clashes with it could still end
//! at or below its `low`. If it lies there, it is placed; if it does not, then in a canonical plan some item that is
//! open now must end where it begins: its `low` rises to the least such end. Both together are all the plans there
//! are, whatever the order of decisions. That differs from MiniMalloc (Moffitt, ASPLOS 2023), which walks offsets
//! upwards only, and drops an item permanently where it is dominated: here items are decided on in any order, which
//! lets the search stay at one place in time until that is settled, and a refuted placement is turned into a stronger
//! `low`.
//!
//! *Inference over sections.* What is open in a section fits if its least `low` plus the sum of its sizes is within the
//! capacity. *Decomposition.* When no open item crosses between two sections, the two sides are solved one by one, and
//! a side that fails fails alone.
//!
//! *Order.* An order of items by size, duration and how full their sections are (a [`Strategy`]), and the focus: the
//! section whose inference failed last is filled first (after the "last conflict" of Lecoutre and others, 2009). It is
//! what keeps the search from trying in turn what lies elsewhere and has no part in the failure.
//!
//! A decision costs O(entries of the sections concerned), in runs over arrays of 32-bit numbers where these hold the
//! sizes counted in their greatest common divisor. The state takes O(n² / 64) words.

mod choose;
mod infer;
mod state;
mod strategy;
mod unit;

pub(super) use state::{GoOn, Outcome, Search};
pub(super) use strategy::{Keys, LEADING, Pick, Strategy, strategies};
pub(super) use unit::{Scale, Unit};
