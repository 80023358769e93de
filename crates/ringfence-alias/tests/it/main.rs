//! The tests of the crate, in one program. They compare plans with the optimum by brute force, and the checkers with
//! all pairs.

mod alias;
mod from_seeds;
