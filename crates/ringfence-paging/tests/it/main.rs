//! Tests of paging on the simulated device.

mod program;
mod rules;
mod scene;
