//! The tests of the crate, in one program: plans against the optimum by brute force, the checkers against every pair.

mod alias;
mod from_seeds;
mod heaps;
mod never_worse;
#[cfg(feature = "threads")]
mod threads;
