//! The tests of the crate, in one program. They compare plans with the optimum by brute force, and the checker of
//! several heaps with all pairs.

mod from_seeds;
mod heaps;
mod never_worse;
mod plans;
#[cfg(feature = "threads")]
mod threads;
