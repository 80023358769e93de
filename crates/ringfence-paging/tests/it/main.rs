//! Tests of paging on the simulated device.

mod hostile;
mod program;
mod rules;
mod scene;
