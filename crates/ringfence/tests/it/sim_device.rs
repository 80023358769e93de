//! The simulated device does what it says: it runs late, finds each hazard and names it, and is silent about correct
//! programs.

mod descriptors;
mod families;
mod gpu;
mod hazards;
mod limits;
mod misuse;
mod programs;
mod sparse;
mod time;
