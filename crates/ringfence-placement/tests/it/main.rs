//! The tests of the placement policy on the simulated device, in one program.

mod compactor;
mod fast_constants_misuse;
