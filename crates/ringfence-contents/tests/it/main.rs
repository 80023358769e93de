//! Tests of vectors on the simulated device: generated changes compared with a host model.

mod vec;
