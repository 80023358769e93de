//! The memory manager on simulated devices: what needs small heaps, faults or limits to be seen.

mod aliasing;
mod at_hand;
mod budgets;
mod classes;
mod export;
mod faults;
mod growth;
mod ladder;
mod plan;
mod pools;
mod size_classes;
mod threads;
mod types;
mod world;
