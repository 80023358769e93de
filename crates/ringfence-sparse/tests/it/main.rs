//! The tests of sparse resources on the simulated device, in one program.

mod sparse;
