//! The simulated device works as documented: it runs late, finds and names each hazard, and reports none for correct
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
mod transfer;
