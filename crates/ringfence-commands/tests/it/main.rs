//! Tests on the simulated device: refused commands, barriers, failures of the driver, and generated commands compared
//! with a model on the host.

mod barriers;
mod exact;
mod faults;
mod generated;
mod program;
mod readback;
mod refusals;
mod replaced;
