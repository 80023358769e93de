//! The memory manager on simulated devices: behaviour that needs small heaps, faults or limits to observe.

mod aliasing;
mod budgets;
mod caches;
mod classes;
mod defrag_rules;
mod exact_limits;
mod export;
mod failures;
mod fallback;
mod faults;
mod figures;
mod flags;
mod full_heaps;
mod growth;
mod leaks;
mod moves;
mod next_owner;
mod plan;
mod pools;
mod recycled;
mod replace;
mod shortage;
mod size_classes;
mod threads;
mod types;
mod world;
