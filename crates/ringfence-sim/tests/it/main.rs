//! The tests of the simulated device, in one program.

mod sim_device;
