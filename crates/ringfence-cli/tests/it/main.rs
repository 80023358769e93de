//! The tests of the command, in one program: each starts `ringfence` as a user would.

mod command;
mod demo_and_devices;
mod plan;
mod plan_dumps;
mod plan_heaps;
mod replay;
mod report;
mod soak;
mod trace;
mod world;
