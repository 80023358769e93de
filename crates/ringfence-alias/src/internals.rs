//! Parts that `ringfence-planner` is also built from. Not part of the public API: they change without notice, and the
//! two crates have the same version.
//!
//! | module | content |
//! |---|---|
//! | [`sizes`], [`sections`], [`shape`], [`cliques`] | a problem as arrays: sizes, sections of time, clashing items |
//! | [`limits`] | checks of the items |
//! | [`bound`], [`stacking`] | lower bounds, and the lowest stack of items that all clash |
//! | [`greedy`], [`repair`] | greedy placement, local repair |
//! | [`asking`], [`counted`], [`random`] | calls of the caller's closure, a counting sort, random numbers |

pub mod asking;
pub mod bound;
pub mod cliques;
pub mod counted;
pub mod greedy;
pub mod limits;
pub mod random;
pub mod repair;
pub mod sections;
pub mod shape;
pub mod sizes;
pub mod stacking;

pub use super::problem::Relation;
