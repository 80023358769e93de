//! The tests of the command, as one program. Each test starts `ringfence` as a user does.

mod command;
mod demo_and_devices;
mod doctor;
mod export;
mod plan;
mod plan_dumps;
mod plan_heaps;
mod replay;
mod report;
mod soak;
mod trace;
mod world;
