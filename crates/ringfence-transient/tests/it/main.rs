//! The tests of transient memory on the simulated device, in one program.

mod exact;
mod rules;
mod transient;
mod transient_barriers;
mod transient_plans;
