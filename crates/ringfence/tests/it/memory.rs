//! The memory manager on simulated devices: what needs small heaps, faults or limits to be seen.

mod aliasing;
mod budgets;
mod caches;
mod classes;
mod export;
mod fallback;
mod faults;
mod full_heaps;
mod growth;
mod leaks;
mod moves;
mod plan;
mod pools;
mod recycled;
mod replace;
mod shortage;
mod size_classes;
mod threads;
mod types;
mod world;
